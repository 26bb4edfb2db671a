//! A server of the Network Block Device protocol.
//!
//! The protocol is the reference implementation's `doc/proto.md`. What is served: the fixed newstyle handshake,
//! structured replies, the metadata context `base:allocation`, and the commands READ, WRITE, FLUSH, TRIM, WRITE_ZEROES,
//! BLOCK_STATUS and DISC, over Unix sockets and TCP, on several connections at once. TLS is not offered.
//!
//! ```text
//!  bytes ─▶ Receiver ─▶ Handshake (options) ─┐            protocol and handshake: no input or output, so that
//!                  └──▶ Request, payload ────┼─▶ Export   arbitrary bytes in arbitrary pieces can be thrown at them
//!  bytes ◀─ Replies ◀────────────────────────┘            server: sockets, threads, the device by turns      
//! ```
//!
//! One thread serves one connection and carries its requests out itself: what a socket delivered in one read is
//! executed in a row, and all replies to it leave in one write. No request costs a thread switch, an allocation or a
//! copy of its payload. Only with emulated timing a second thread per connection holds replies until they are due.

pub mod client;
mod delay;
pub mod handshake;
mod limits;
pub mod protocol;
pub mod server;
pub mod statistics;
mod turns;

pub use server::{Address, Options, Server};
