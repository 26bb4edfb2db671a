//! Clients that break the protocol, or ask for what there is not, and what they must be told. The expectations are the
//! protocol's (doc/proto.md of the reference implementation), and where it leaves a choice docs/serving.md's.

use super::{CELL, Wrong, connect, found};
use crate::nbd::client::{Client, option_bytes, option_replies, queries};
use crate::nbd::handshake::{BASE_ALLOCATION, FIXED_NEWSTYLE, NO_ZEROES, option, reply};
use crate::nbd::protocol::{
    Command, FLAG_DF, FLAG_NO_HOLE, MAX_PAYLOAD_BYTES, Request, SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC, u32_at, u64_at,
};
use flash::Rng;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Error numbers of the protocol.
const IO: u32 = 5;
const INVALID: u32 = 22;
pub(super) const NO_SPACE: u32 = 28;

/// What such clients were told.
#[derive(Clone, Copy, Default)]
pub(super) struct Refused {
    /// Requests and options that were refused, as they must be.
    pub(super) requests: u64,
    /// Connections that the server ended, as it must.
    pub(super) ended: u64,
}

fn expect(holds: bool, what: impl Into<String>) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err(found(what)) }
}

/// A connection of which nothing is sent but the flags: it has the greeting.
pub(super) fn greeted(path: &Path, flags: u16) -> io::Result<UnixStream> {
    let mut stream = connect(path)?;
    stream.read_exact(&mut [0; 18])?;
    stream.write_all(&u32::from(flags).to_be_bytes())?;
    Ok(stream)
}

/// Whether the server ends a connection, saying nothing more.
pub(super) fn is_ended(stream: &mut UnixStream) -> Result<(), Wrong> {
    let mut heard = Vec::new();
    match stream.read_to_end(&mut heard) {
        // What was sent and not read is lost, which the system calls a reset.
        Err(error) if !matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            Err(error.into())
        }
        _ => expect(heard.is_empty(), format!("{} bytes where the connection should end", heard.len())),
    }
}

/// The types of replies to an option, and the data of the first.
fn ask(stream: &mut UnixStream, option: u32, data: &[u8]) -> io::Result<(Vec<u32>, Vec<u8>)> {
    stream.write_all(&option_bytes(option, data))?;
    let replies = option_replies(stream, option)?;
    Ok((replies.iter().map(|&(kind, _)| kind).collect(), replies.into_iter().next().unwrap_or_default().1))
}

/// One such client.
pub(super) struct Rude<'a> {
    pub(super) path: &'a Path,
    /// Bytes of the device.
    pub(super) bytes: u64,
    /// The device fails now and then.
    pub(super) fails: bool,
    pub(super) rng: Rng,
    pub(super) refused: Refused,
}

impl Rude<'_> {
    /// One call: a connection that is used up.
    pub(super) fn call(&mut self) -> Result<(), Wrong> {
        let kind = self.rng.below(8);
        let (what, done) = match kind {
            0 => ("no handshake", self.no_handshake()),
            1 => ("options", self.options()),
            2 => ("contexts", self.contexts()),
            3 => ("the old way in", self.export_name()),
            4 | 5 => ("requests that are refused", self.refusals()),
            6 => ("no request", self.no_request()),
            _ => ("half a request", self.half()),
        };
        done.map_err(|wrong| wrong.within(what))
    }

    fn flags(&mut self) -> u16 {
        if self.rng.chance(0.5) { FIXED_NEWSTYLE | NO_ZEROES } else { FIXED_NEWSTYLE }
    }

    fn no_handshake(&mut self) -> Result<(), Wrong> {
        let mut stream = if self.rng.chance(0.5) {
            // Flags that nobody knows.
            greeted(self.path, 0x4745)?
        } else {
            let mut stream = greeted(self.path, FIXED_NEWSTYLE)?;
            let (wrong, long) =
                (vec![0x25; 16], [option_bytes(option::LIST, &[])[..12].to_vec(), vec![0xff; 4]].concat());
            stream.write_all(if self.rng.chance(0.5) { &wrong } else { &long })?;
            stream
        };
        self.refused.ended += 1;
        is_ended(&mut stream)
    }

    fn options(&mut self) -> Result<(), Wrong> {
        let flags = self.flags();
        let mut stream = greeted(self.path, flags)?;
        let junk: Vec<u8> = (0..self.rng.below(200)).map(|_| self.rng.bits() as u8).collect();
        let (kinds, _) = ask(&mut stream, 4_000 + self.rng.below(1 << 20) as u32, &junk)?;
        expect(kinds == [reply::ERR_UNSUP], format!("an unknown option is answered with {kinds:x?}"))?;
        let (kinds, name) = ask(&mut stream, option::LIST, &[])?;
        expect(kinds == [reply::SERVER, reply::ACK] && name == [0; 4], format!("LIST: {kinds:x?}, {name:?}"))?;
        let (kinds, _) = ask(&mut stream, option::LIST, b"?")?;
        expect(kinds == [reply::ERR_INVALID], format!("LIST with data: {kinds:x?}"))?;
        let other = [&5u32.to_be_bytes()[..], b"other", &[0; 2]].concat();
        let (kinds, _) = ask(&mut stream, option::GO, &other)?;
        expect(kinds == [reply::ERR_UNKNOWN], format!("GO to another export: {kinds:x?}"))?;
        let (kinds, _) = ask(&mut stream, option::SET_META_CONTEXT, &queries(BASE_ALLOCATION))?;
        expect(kinds == [reply::ERR_INVALID], format!("contexts without structured replies: {kinds:x?}"))?;
        let (kinds, _) = ask(&mut stream, option::ABORT, &[])?;
        expect(kinds == [reply::ACK], format!("ABORT: {kinds:x?}"))?;
        self.refused.requests += 4;
        self.refused.ended += 1;
        is_ended(&mut stream)
    }

    /// What is agreed is what was asked for last.
    fn contexts(&mut self) -> Result<(), Wrong> {
        let flags = self.flags();
        let mut stream = greeted(self.path, flags)?;
        let (kinds, _) = ask(&mut stream, option::STRUCTURED_REPLY, &[])?;
        expect(kinds == [reply::ACK], format!("STRUCTURED_REPLY: {kinds:x?}"))?;
        let mut agreed = false;
        for _ in 0..1 + self.rng.below(3) {
            agreed = self.rng.chance(0.5);
            let context = if agreed { BASE_ALLOCATION } else { "other:context" };
            let (kinds, _) = ask(&mut stream, option::SET_META_CONTEXT, &queries(context))?;
            let expected: &[u32] = if agreed { &[reply::META_CONTEXT, reply::ACK] } else { &[reply::ACK] };
            expect(kinds == expected, format!("SET_META_CONTEXT of {context}: {kinds:x?}"))?;
        }
        let (kinds, _) = ask(&mut stream, option::GO, &[0; 6])?;
        expect(kinds.last() == Some(&reply::ACK), format!("GO: {kinds:x?}"))?;
        let mut client = Client::resume(stream);
        let answer = client.ask(Command::BlockStatus, 0, 0, CELL as u32, &[])?;
        let error = answer.error;
        expect(
            agreed && (error == 0 || self.fails && error == IO) || !agreed && error == INVALID,
            format!("BLOCK_STATUS with{} its context: error {error}", if agreed { "" } else { "out" }),
        )?;
        self.refused.requests += u64::from(!agreed);
        Ok(())
    }

    /// EXPORT_NAME, and simple replies.
    fn export_name(&mut self) -> Result<(), Wrong> {
        let flags = self.flags();
        let mut stream = greeted(self.path, flags)?;
        stream.write_all(&option_bytes(option::EXPORT_NAME, &[]))?;
        let mut told = vec![0; if flags & NO_ZEROES == 0 { 10 + 124 } else { 10 }];
        stream.read_exact(&mut told)?;
        expect(u64_at(&told, 0) == self.bytes, format!("a device of {} bytes", u64_at(&told, 0)))?;
        for cookie in 1..6 {
            let command = match cookie % 3 {
                0 => Command::BlockStatus,
                1 => Command::Read,
                _ => Command::Unknown(99),
            };
            let offset = self.rng.below(self.bytes / CELL) * CELL;
            let request = Request { flags: 0, command, cookie, offset, length: CELL as u32 };
            stream.write_all(&request.encode())?;
            let mut head = [0; SIMPLE_REPLY_BYTES];
            stream.read_exact(&mut head)?;
            let (magic, error) = (u32_at(&head, 0), u32_at(&head, 4));
            let same = magic == SIMPLE_REPLY_MAGIC && u64_at(&head, 8) == cookie;
            expect(same, format!("no simple reply to {command:?}"))?;
            match command {
                Command::Read if error == 0 => stream.read_exact(&mut [0; CELL as usize])?,
                Command::Read => expect(self.fails && error == IO, format!("READ: error {error}"))?,
                _ => {
                    expect(error == INVALID, format!("{command:?}: error {error}"))?;
                    self.refused.requests += 1;
                }
            }
        }
        let request = Request { flags: 0, command: Command::Disconnect, cookie: 9, offset: 0, length: 0 };
        stream.write_all(&request.encode())?;
        self.refused.ended += 1;
        is_ended(&mut stream)
    }

    /// What there is not, and what may not be asked: refused, and the connection lives on.
    fn refusals(&mut self) -> Result<(), Wrong> {
        let mut client = Client::over(connect(self.path)?)?;
        let (end, cell) = (self.bytes, CELL as u32);
        for _ in 0..6 {
            let at = end - self.rng.below(2 * CELL);
            let (command, flags, offset, length, error) = match self.rng.below(9) {
                0 => (Command::Read, 0, at, 2 * cell, INVALID),
                1 => (Command::Write, 0, at, 2 * cell, NO_SPACE),
                2 => (Command::WriteZeroes, 0, at, 2 * cell, NO_SPACE),
                3 => (Command::Trim, 0, u64::MAX - 7, 16, INVALID),
                4 => (Command::Write, FLAG_DF, 0, cell, INVALID),
                5 => (Command::Read, FLAG_NO_HOLE, 0, cell, INVALID),
                6 => (Command::Unknown(6 + 1_000), 0, 0, cell, INVALID),
                7 => (Command::BlockStatus, 0, 0, 0, INVALID),
                _ => (Command::Read, 0, 0, MAX_PAYLOAD_BYTES + 1, INVALID),
            };
            let data = if command == Command::Write { vec![0x77; length as usize] } else { Vec::new() };
            let told = client.ask(command, flags, offset, length, &data)?.error;
            expect(told == error, format!("{command:?} of {length} bytes at {offset}: error {told} and not {error}"))?;
            self.refused.requests += 1;
        }
        // The data of a write that is too long is not taken for requests. It takes time, so it is tried now and then.
        if self.rng.chance(0.1) {
            let length = MAX_PAYLOAD_BYTES + 28;
            let inside = Request { flags: 0, command: Command::Write, cookie: 7, offset: 0, length: cell }.encode();
            let data: Vec<u8> = inside.iter().copied().cycle().take(length as usize).collect();
            let told = client.ask(Command::Write, 0, 0, length, &data)?.error;
            expect(told == INVALID, format!("a write of {length} bytes: error {told}"))?;
            self.refused.requests += 1;
        }
        let told = client.ask(Command::Read, 0, 0, cell, &[])?.error;
        expect(told == 0 || self.fails && told == IO, format!("a read behind what was refused: error {told}"))
    }

    fn no_request(&mut self) -> Result<(), Wrong> {
        let mut client = Client::over(connect(self.path)?)?;
        client.send_raw(&[0x25; 28])?;
        self.refused.ended += 1;
        Ok(client.is_over()?)
    }

    /// A part of a request, or a long write of which nearly nothing comes.
    fn half(&mut self) -> Result<(), Wrong> {
        let mut client = Client::over(connect(self.path)?)?;
        let request = Request { flags: 0, command: Command::Write, cookie: 1, offset: 0, length: MAX_PAYLOAD_BYTES };
        let whole = [&request.encode()[..], &[0x66; 300]].concat();
        // Answers that nobody takes.
        for _ in 0..self.rng.below(20) {
            client.send(Command::Read, 0, 0, self.bytes as u32, &[])?;
        }
        client.send_raw(&whole[..1 + self.rng.below(whole.len() as u64 - 1) as usize])?;
        if self.rng.chance(0.5) {
            client.leave()?;
        }
        Ok(())
    }
}

/// A client that has promised a write of `length` bytes, far beyond the end of the device.
pub(super) fn promise(path: &Path, length: u32) -> io::Result<UnixStream> {
    let mut stream = greeted(path, FIXED_NEWSTYLE | NO_ZEROES)?;
    stream.write_all(&option_bytes(option::EXPORT_NAME, &[]))?;
    stream.read_exact(&mut [0; 10])?;
    let request = Request { flags: 0, command: Command::Write, cookie: 1, offset: u64::MAX >> 1, length };
    stream.write_all(&request.encode())?;
    Ok(stream)
}

/// Sends so many of the bytes that were promised.
pub(super) fn keep(stream: &mut UnixStream, bytes: usize) -> io::Result<()> {
    stream.write_all(&vec![0x55; bytes])
}

/// The error number that the promised write is answered with.
pub(super) fn answer(stream: &mut UnixStream) -> io::Result<u32> {
    let mut head = [0; SIMPLE_REPLY_BYTES];
    stream.read_exact(&mut head)?;
    Ok(u32_at(&head, 4))
}
