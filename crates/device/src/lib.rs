//! A flash device that holds real data: its image in a file, and the server that makes a block device of it.

pub mod export;
pub mod nbd;
