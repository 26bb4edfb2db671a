//! Requests of the NBD protocol as they arrive, in pieces of any size: each is parsed, its payload is whole, and memory grows
//! with what has arrived. The bytes are those that a client sends.
#![no_main]

use device::nbd::protocol::{Command, Receiver, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&piece, bytes)) = data.split_first() else { return };
    let mut receiver = Receiver::default();
    let mut sent = 0u64;
    let mut taken = 0u64;
    for part in bytes.chunks(usize::from(piece) * 16 + 1) {
        let mut part = part;
        while !part.is_empty() {
            let space = receiver.space();
            assert!(!space.is_empty());
            let count = space.len().min(part.len());
            space[..count].copy_from_slice(&part[..count]);
            receiver.received(count);
            sent += count as u64;
            part = &part[count..];
            loop {
                match receiver.take() {
                    Ok(Some((request, payload))) => {
                        taken += 28;
                        let again = Request::parse(&request.encode());
                        assert!(matches!(again, Ok(again) if again.offset == request.offset));
                        if request.command == Command::Write && !payload.is_empty() {
                            assert_eq!(payload.len(), request.length as usize);
                            taken += payload.len() as u64;
                        }
                    }
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
            // Memory grows with what has arrived, and not with what a header promises.
            let waiting = receiver.bytes().len();
            assert!(receiver.memory() <= Receiver::BUFFER_BYTES + 2 * waiting.max(Receiver::BUFFER_BYTES));
        }
    }
    assert!(taken <= sent);
});
