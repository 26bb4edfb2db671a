//! A small client, for tests and for `make soak`: one socket, requests pipelined as the caller likes.

use super::handshake::{
    BASE_ALLOCATION, FIXED_NEWSTYLE, GREETING_MAGIC, NO_ZEROES, OPTION_MAGIC, REPLY_MAGIC, info, option, reply,
};
use super::protocol::{
    CHUNK_BLOCK_STATUS, CHUNK_BYTES, CHUNK_DATA, CHUNK_DONE, CHUNK_ERROR, Command, Request, SIMPLE_REPLY_BYTES,
    SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, u16_at, u32_at, u64_at,
};
use crate::export::Extent;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// What came of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The request's cookie.
    pub cookie: u64,
    /// The error number, 0 if there is none.
    pub error: u32,
    /// What was read.
    pub data: Vec<u8>,
    /// Extents, of BLOCK_STATUS.
    pub extents: Vec<Extent>,
}

/// A connection in its transmission phase, with structured replies and `base:allocation`.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    cookie: u64,
    bytes: u64,
    flags: u16,
}

fn broken(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

fn take<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// An option, as it is sent.
pub(crate) fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let header = [OPTION_MAGIC.to_be_bytes().to_vec(), [option, data.len() as u32].map(u32::to_be_bytes).concat()];
    [&header.concat(), data].concat()
}

/// The data of an option that asks for one metadata context of the export without a name.
pub(crate) fn queries(context: &str) -> Vec<u8> {
    let lengths = [0u32, 1, context.len() as u32].map(u32::to_be_bytes).concat();
    [&lengths, context.as_bytes()].concat()
}

/// The replies to an option, types and data, the last of which is an acknowledgement or an error.
pub(crate) fn option_replies(stream: &mut impl Read, option: u32) -> io::Result<Vec<(u32, Vec<u8>)>> {
    let mut replies = Vec::new();
    loop {
        let header = take::<20>(stream)?;
        if u64_at(&header, 0) != REPLY_MAGIC || u32_at(&header, 8) != option {
            return Err(broken("no reply to the option"));
        }
        let mut data = vec![0; u32_at(&header, 16) as usize];
        stream.read_exact(&mut data)?;
        let kind = u32_at(&header, 12);
        replies.push((kind, data));
        if kind == reply::ACK || kind >> 31 == 1 {
            return Ok(replies);
        }
    }
}

impl Client {
    /// Connects to a Unix socket and shakes hands.
    ///
    /// # Errors
    /// There is no server, or it does not speak the protocol as expected.
    pub fn connect(path: &Path) -> io::Result<Client> {
        Client::over(UnixStream::connect(path)?)
    }

    /// Shakes hands over a stream that is connected.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn over(stream: UnixStream) -> io::Result<Client> {
        let mut client = Client::resume(stream);
        let greeting = take::<18>(&mut client.stream)?;
        if u64_at(&greeting, 0) != GREETING_MAGIC || u64_at(&greeting, 8) != OPTION_MAGIC {
            return Err(broken("no greeting"));
        }
        client.stream.get_mut().write_all(&u32::from(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes())?;
        client.option(option::STRUCTURED_REPLY, &[])?;
        client.option(option::SET_META_CONTEXT, &queries(BASE_ALLOCATION))?;
        client.option(option::GO, &[0; 6])?;
        Ok(client)
    }

    /// A stream whose handshake is done.
    pub(crate) fn resume(stream: UnixStream) -> Client {
        Client { stream: BufReader::new(stream), cookie: 0, bytes: 0, flags: 0 }
    }

    /// Sends an option, which the server is to know.
    fn option(&mut self, option: u32, data: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(&option_bytes(option, data))?;
        for (kind, data) in option_replies(&mut self.stream, option)? {
            match kind {
                reply::INFO if data.len() == 12 && u16_at(&data, 0) == info::EXPORT => {
                    (self.bytes, self.flags) = (u64_at(&data, 2), u16_at(&data, 10));
                }
                error if error >> 31 == 1 => return Err(broken(format!("option {option}: error {error:#x}"))),
                _ => {}
            }
        }
        Ok(())
    }

    /// Size of the device.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Transmission flags.
    pub fn flags(&self) -> u16 {
        self.flags
    }

    /// Sends a request without waiting for its answer; its cookie.
    ///
    /// # Errors
    /// The server is gone.
    pub fn send(&mut self, command: Command, flags: u16, offset: u64, length: u32, data: &[u8]) -> io::Result<u64> {
        self.cookie += 1;
        let request = Request { flags, command, cookie: self.cookie, offset, length };
        let stream = self.stream.get_mut();
        stream.write_all(&request.encode())?;
        stream.write_all(data)?;
        Ok(self.cookie)
    }

    /// Waits for the next answer, to whichever request.
    ///
    /// # Errors
    /// The server is gone, or broke the protocol.
    pub fn receive(&mut self) -> io::Result<Answer> {
        let mut answer = Answer { cookie: 0, error: 0, data: Vec::new(), extents: Vec::new() };
        loop {
            let header = take::<SIMPLE_REPLY_BYTES>(&mut self.stream)?;
            answer.cookie = u64_at(&header, 8);
            match u32_at(&header, 0) {
                SIMPLE_REPLY_MAGIC => {
                    answer.error = u32_at(&header, 4);
                    return Ok(answer);
                }
                STRUCTURED_REPLY_MAGIC => {}
                _ => return Err(broken("no reply where one should begin")),
            }
            let rest = take::<{ CHUNK_BYTES - SIMPLE_REPLY_BYTES }>(&mut self.stream)?;
            let mut payload = vec![0; u32_at(&rest, 0) as usize];
            self.stream.read_exact(&mut payload)?;
            match u16_at(&header, 6) {
                CHUNK_DATA if payload.len() > 8 => answer.data = payload.split_off(8),
                CHUNK_ERROR if payload.len() >= 6 => answer.error = u32_at(&payload, 0),
                CHUNK_BLOCK_STATUS if payload.len() >= 12 => {
                    let extent = |pair: &[u8]| Extent { bytes: u32_at(pair, 0).into(), hole: u32_at(pair, 4) != 0 };
                    answer.extents = payload[4..].chunks_exact(8).map(extent).collect();
                }
                other => return Err(broken(format!("a chunk of type {other} and {} bytes", payload.len()))),
            }
            if u16_at(&header, 4) & CHUNK_DONE != 0 {
                return Ok(answer);
            }
        }
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// The server is gone, or broke the protocol. What the server refuses is no error here.
    pub fn ask(&mut self, command: Command, flags: u16, offset: u64, length: u32, data: &[u8]) -> io::Result<Answer> {
        let cookie = self.send(command, flags, offset, length, data)?;
        let answer = self.receive()?;
        if answer.cookie == cookie { Ok(answer) } else { Err(broken("an answer to another request")) }
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The server is gone.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Says that nothing more comes, and waits until the server has ended the connection; its answers are lost.
    ///
    /// # Errors
    /// The server does not end it.
    pub fn leave(&mut self) -> io::Result<()> {
        match self.stream.get_ref().shutdown(Shutdown::Write) {
            // The server was first.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(()),
            shut => shut?,
        }
        self.is_over()
    }

    /// Waits until the server ends the connection; what it says until then is lost.
    ///
    /// # Errors
    /// As [`Client::leave`].
    pub(crate) fn is_over(&mut self) -> io::Result<()> {
        match io::copy(&mut self.stream, &mut io::sink()) {
            // What was sent and not read is lost, which the system calls a reset.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
            done => done.map(|_| ()),
        }
    }
}
