//! The mounted device: the schemes that `compare` measures, holding real data in a file.
//!
//! [`Image`] is a NAND chip in a file, as strict as the one in memory. [`Disk`] puts a scheme on it and answers for
//! bytes at any address; it is an [`Export`], which is all that a server knows of it. Files, clocks and sockets are
//! allowed here; printing and exiting are not.

pub mod attack;
pub mod disk;
pub mod export;
pub mod image;
pub mod nbd;
pub mod verify;

pub use disk::{AnyDisk, Counts, Disk, Medium, MountError, MountSummary, Mounted, mount, scheme_of};
pub use export::{Done, Export, ExportError, Extent};
pub use image::{Access, Image, ImageError, Life, Scrub, Spec, Totals, Unsound};
pub use verify::{Verified, VerifyError, verify};
