//! Handshakes of the NBD protocol, in pieces of any size.
#![no_main]

use device::nbd::handshake::{Handshake, Progress, Served};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&piece, bytes)) = data.split_first() else { return };
    let mut out = Vec::new();
    let mut handshake = Handshake::new(Served { bytes: 1 << 20, block_bytes: 4096 }, &mut out);
    let mut arrived: Vec<u8> = Vec::new();
    for part in bytes.chunks(usize::from(piece) + 1) {
        arrived.extend(part);
        loop {
            let before = out.len();
            let Ok((consumed, progress)) = handshake.step(&arrived, &mut out) else { return };
            assert!(consumed <= arrived.len());
            // No message makes the server say much more than it was told.
            assert!(out.len() - before <= 4096 + 2 * consumed, "{} bytes for {consumed}", out.len() - before);
            arrived.drain(..consumed);
            match progress {
                Progress::Waiting if consumed == 0 => break,
                Progress::Waiting => {}
                Progress::Transmission(_) | Progress::Close => return,
            }
        }
    }
});
