//! Serves memory, or an image, until its input ends: to measure the server itself, and server and scheme together,
//! against `nbdkit memory`.
//!
//! ```text
//! cargo run --release -p ftlab-device --example serve -- SOCKET BYTES|IMAGE
//! fio --name=x --ioengine=nbd --uri='nbd+unix:///?socket=SOCKET' --rw=randwrite --bs=4k --iodepth=16 --size=900M
//! ```

#![allow(missing_docs, clippy::print_stderr, reason = "a program, not a library")]

#[path = "../tests/support/memory.rs"]
mod memory;

use device::nbd::{Address, Options, Server};
use device::{Access, Export, Image};
use memory::Memory;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, what] = &arguments[..] else { panic!("usage: serve SOCKET BYTES|IMAGE") };
    let export: Box<dyn Export> = match what.parse() {
        Ok(bytes) => Box::new(Memory::new(bytes)),
        Err(_) => {
            let image = Image::open(what.as_ref(), Access::Use).expect("an image");
            Box::new(device::mount(image, false).expect("an image that mounts"))
        }
    };
    let server = Server::start(&Address::Unix(socket.into()), export, Options::default()).expect("the socket is free");
    eprintln!("serving {what} at {socket}; end of input stops");
    let _ = std::io::read_to_string(std::io::stdin());
    server.stop();
}
