//! Serves memory, to measure the server itself against `nbdkit memory`.
//!
//! ```text
//! cargo run --release -p ftlab-device --example memory -- SOCKET BYTES [DELAY_NS]
//! ```

#![allow(missing_docs, clippy::print_stderr, reason = "a program, not a library")]

#[path = "../tests/support/memory.rs"]
mod memory;

use device::nbd::{Address, Options, Server};
use memory::Memory;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (socket, bytes) = match &arguments[..] {
        [socket, bytes, ..] => (socket, bytes.parse().expect("the size is a number of bytes")),
        _ => panic!("usage: memory SOCKET BYTES [DELAY_NS]"),
    };
    let delay_ns = arguments.get(2).map_or(0, |delay| delay.parse().expect("the delay is a number of nanoseconds"));
    let export = Memory { delay_ns, ..Memory::new(bytes) };
    let options = Options { delayed: delay_ns > 0, ..Options::default() };
    let server = Server::start(&Address::Unix(socket.into()), export, options).expect("the socket is free");
    eprintln!("serving at {socket}; end of input stops");
    let _ = std::io::read_to_string(std::io::stdin());
    server.stop();
}
