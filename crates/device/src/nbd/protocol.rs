//! The messages of the transmission phase, as bytes and back. Nothing here reads or writes a socket.
//!
//! A [`Receiver`] holds what has arrived and cuts it into requests; payloads are handed out where they lie. [`Replies`]
//! gathers what is to be sent. Both keep their memory, so that a connection in its stride allocates nothing.
//!
//! All integers are big-endian.
//!
//! | message | layout |
//! |---|---|
//! | request | magic u32, flags u16, type u16, cookie u64, offset u64, length u32, payload of WRITE |
//! | simple reply | magic u32, error u32, cookie u64, payload of READ |
//! | structured reply chunk | magic u32, flags u16, type u16, cookie u64, length u32, payload |

use crate::export::{ExportError, Extent};

/// Opens each request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Opens each simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Opens each chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Length of a request without its payload.
pub const REQUEST_BYTES: usize = 28;
/// Length of a simple reply without its payload.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Length of a chunk's header.
pub const CHUNK_BYTES: usize = 20;

/// The longest payload of a read or write that is served: what the protocol recommends and clients expect.
pub const MAX_PAYLOAD_BYTES: u32 = 32 << 20;

/// The context number of `base:allocation`.
pub const ALLOCATION_CONTEXT: u32 = 1;

/// Command flag: the data is durable before the reply is sent.
pub const FLAG_FUA: u16 = 1 << 0;
/// Command flag of WRITE_ZEROES: the range is to be written, not deallocated.
pub const FLAG_NO_HOLE: u16 = 1 << 1;
/// Command flag of READ: one chunk of data only.
pub const FLAG_DF: u16 = 1 << 2;
/// Command flag of BLOCK_STATUS: one extent only.
pub const FLAG_REQ_ONE: u16 = 1 << 3;

/// Chunk flag: the last one of its reply.
pub const CHUNK_DONE: u16 = 1;
/// Chunk type: nothing more.
pub const CHUNK_NONE: u16 = 0;
/// Chunk type: an offset and data.
pub const CHUNK_DATA: u16 = 1;
/// Chunk type: extents.
pub const CHUNK_BLOCK_STATUS: u16 = 5;
/// Chunk type: an error.
pub const CHUNK_ERROR: u16 = (1 << 15) + 1;

/// Extent state: not allocated.
const STATE_HOLE: u32 = 1;
/// Extent state: reads as zeros.
const STATE_ZERO: u32 = 2;

/// What a client may ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Bytes of the device.
    Read,
    /// Bytes to the device; they follow the request.
    Write,
    /// The end of the connection, without a reply.
    Disconnect,
    /// What was written and answered before is made durable.
    Flush,
    /// The range is no longer used.
    Trim,
    /// The range reads as zeros.
    WriteZeroes,
    /// Which parts of the range hold data.
    BlockStatus,
    /// A number that this server does not know.
    Unknown(u16),
}

impl Command {
    fn of(number: u16) -> Command {
        match number {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            6 => Command::WriteZeroes,
            7 => Command::BlockStatus,
            other => Command::Unknown(other),
        }
    }

    fn number(self) -> u16 {
        match self {
            Command::Read => 0,
            Command::Write => 1,
            Command::Disconnect => 2,
            Command::Flush => 3,
            Command::Trim => 4,
            Command::WriteZeroes => 6,
            Command::BlockStatus => 7,
            Command::Unknown(number) => number,
        }
    }
}

/// Error numbers of the protocol; their values are Linux's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorNumber {
    /// EPERM.
    NotPermitted = 1,
    /// EIO.
    Io = 5,
    /// ENOMEM.
    NoMemory = 12,
    /// EINVAL.
    Invalid = 22,
    /// ENOSPC.
    NoSpace = 28,
    /// ESHUTDOWN.
    Shutdown = 108,
}

impl From<ExportError> for ErrorNumber {
    fn from(error: ExportError) -> ErrorNumber {
        match error {
            ExportError::Io => ErrorNumber::Io,
            ExportError::NoSpace => ErrorNumber::NoSpace,
            ExportError::Invalid => ErrorNumber::Invalid,
        }
    }
}

/// The peer does not speak the protocol; the connection must end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the peer broke the NBD protocol: {0}")]
pub struct Malformed(pub &'static str);

/// Big-endian fields of a message.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

/// Four bytes at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Eight bytes at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// One request, without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Command flags.
    pub flags: u16,
    /// What is asked for.
    pub command: Command,
    /// The client's name for the request, given back in the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
}

impl Request {
    /// Reads a request's header.
    ///
    /// # Errors
    /// The bytes do not open with the magic number of a request.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Result<Request, Malformed> {
        if u32_at(bytes, 0) != REQUEST_MAGIC {
            return Err(Malformed("no request where one should begin"));
        }
        Ok(Request {
            flags: u16_at(bytes, 4),
            command: Command::of(u16_at(bytes, 6)),
            cookie: u64_at(bytes, 8),
            offset: u64_at(bytes, 16),
            length: u32_at(bytes, 24),
        })
    }

    /// The request's header as bytes.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.number().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Bytes that follow the header.
    pub fn payload_bytes(&self) -> u32 {
        if self.command == Command::Write { self.length } else { 0 }
    }
}

/// What has arrived on a connection and has not been taken yet.
#[derive(Debug)]
pub struct Receiver {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes still to come of a payload that is too long to be served.
    skip: u64,
}

impl Default for Receiver {
    fn default() -> Self {
        Receiver { buffer: vec![0; Self::BUFFER_BYTES], start: 0, end: 0, skip: 0 }
    }
}

impl Receiver {
    /// Memory of a receiver while no request needs more.
    pub const BUFFER_BYTES: usize = 256 << 10;

    /// Bytes of the request that has begun, as its header says; 0 if the header is not there yet.
    fn begun_bytes(&self) -> usize {
        match self.bytes().first_chunk().map(Request::parse) {
            Some(Ok(request)) if request.payload_bytes() <= MAX_PAYLOAD_BYTES => {
                REQUEST_BYTES + request.payload_bytes() as usize
            }
            _ => 0,
        }
    }

    /// Memory that there will be once [`Receiver::space`] has made room. It grows with what has arrived, to at most
    /// twice as much, and not with what a header promises: a client has to send the bytes that it wants kept.
    pub fn memory(&self) -> usize {
        let held = self.end - self.start;
        if held < self.buffer.len() {
            return self.buffer.len();
        }
        (2 * held).min(self.begun_bytes()).max(held + 1).next_multiple_of(Self::BUFFER_BYTES)
    }

    /// Where arriving bytes go: never empty.
    pub fn space(&mut self) -> &mut [u8] {
        let room = self.memory();
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.end == self.buffer.len() || self.start + self.begun_bytes() > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        self.buffer.resize(room, 0);
        &mut self.buffer[self.end..]
    }

    /// Gives memory back that long requests took, down to `bytes`, unless something is waiting in it.
    pub fn shrink(&mut self, bytes: usize) {
        if self.start == self.end && self.buffer.len() > bytes {
            (self.start, self.end) = (0, 0);
            self.buffer = vec![0; bytes.max(Self::BUFFER_BYTES)];
        }
    }

    /// The first `bytes` bytes of the space have arrived.
    pub fn received(&mut self, bytes: usize) {
        assert!(bytes <= self.buffer.len() - self.end, "more arrived than there was space for");
        self.end += bytes;
        self.drop_skipped();
    }

    /// What has arrived and was not taken.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes the first `bytes` bytes.
    pub fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.end - self.start, "more was taken than arrived");
        self.start += bytes;
    }

    /// Takes the next request with its payload, once all of it has arrived. The payload of a write longer than
    /// [`MAX_PAYLOAD_BYTES`] is thrown away as it comes, and the request handed out at once, without it.
    ///
    /// # Errors
    /// What arrived is no request.
    pub fn take(&mut self) -> Result<Option<(Request, &[u8])>, Malformed> {
        if self.skip > 0 {
            return Ok(None);
        }
        let Some(header) = self.bytes().first_chunk() else { return Ok(None) };
        let request = Request::parse(header)?;
        let payload = request.payload_bytes();
        if payload > MAX_PAYLOAD_BYTES {
            self.start += REQUEST_BYTES;
            self.skip = u64::from(payload);
            self.drop_skipped();
            return Ok(Some((request, &[])));
        }
        let whole = REQUEST_BYTES + payload as usize;
        if self.end - self.start < whole {
            return Ok(None);
        }
        let at = self.start + REQUEST_BYTES;
        self.start += whole;
        Ok(Some((request, &self.buffer[at..at + payload as usize])))
    }

    fn drop_skipped(&mut self) {
        let dropped = self.skip.min((self.end - self.start) as u64);
        self.start += dropped as usize;
        self.skip -= dropped;
    }
}

/// Replies that wait to be sent.
#[derive(Debug, Default)]
pub struct Replies {
    /// Its length is the most that was ever gathered; what lies beyond `end` is stale.
    buffer: Vec<u8>,
    end: usize,
    structured: bool,
}

impl Replies {
    /// None yet. `structured`: the client asked for structured replies.
    pub fn new(structured: bool) -> Replies {
        Replies { structured, ..Replies::default() }
    }

    /// All that was gathered.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.end]
    }

    /// Forgets what was sent.
    pub fn clear(&mut self) {
        self.end = 0;
    }

    /// Memory that it takes, and with the data of one more read if `more` bytes are to be read.
    pub fn memory(&self, more: usize) -> usize {
        self.buffer.len().max(Self::rounded(self.end + CHUNK_BYTES + 8 + more))
    }

    /// Gives memory back that long replies took, if more than `bytes`; nothing may be waiting in it.
    pub fn shrink(&mut self, bytes: usize) {
        if self.end == 0 && self.buffer.len() > bytes {
            self.buffer = Vec::new();
        }
    }

    /// The memory for so many bytes. Short replies follow each other, a long one is sent at once.
    fn rounded(bytes: usize) -> usize {
        let step = Receiver::BUFFER_BYTES;
        if bytes <= step { bytes.next_power_of_two() } else { bytes.next_multiple_of(step) }
    }

    /// Room for `bytes` more bytes, of any content.
    fn reserve(&mut self, bytes: usize) -> &mut [u8] {
        let at = self.end;
        self.end += bytes;
        if self.buffer.len() < self.end {
            self.buffer.resize(Self::rounded(self.end), 0);
        }
        &mut self.buffer[at..self.end]
    }

    fn simple(&mut self, request: &Request, error: u32) {
        let header = self.reserve(SIMPLE_REPLY_BYTES);
        header[0..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        header[4..8].copy_from_slice(&error.to_be_bytes());
        header[8..16].copy_from_slice(&request.cookie.to_be_bytes());
    }

    fn chunk(&mut self, request: &Request, kind: u16, payload_bytes: u32) {
        let header = self.reserve(CHUNK_BYTES);
        header[0..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
        header[4..6].copy_from_slice(&CHUNK_DONE.to_be_bytes());
        header[6..8].copy_from_slice(&kind.to_be_bytes());
        header[8..16].copy_from_slice(&request.cookie.to_be_bytes());
        header[16..20].copy_from_slice(&payload_bytes.to_be_bytes());
    }

    /// The request was carried out, and there is nothing more to say.
    pub fn succeed(&mut self, request: &Request) {
        self.simple(request, 0);
    }

    /// The request failed.
    pub fn fail(&mut self, request: &Request, error: ErrorNumber) {
        if self.structured {
            self.chunk(request, CHUNK_ERROR, 6);
            let payload = self.reserve(6);
            payload[0..4].copy_from_slice(&(error as u32).to_be_bytes());
            payload[4..6].copy_from_slice(&0u16.to_be_bytes());
        } else {
            self.simple(request, error as u32);
        }
    }

    /// The data of a read, which `fill` puts where it will be sent from; if it fails, nothing was gathered.
    ///
    /// # Errors
    /// What `fill` failed with.
    pub fn data<T, E>(&mut self, request: &Request, fill: impl FnOnce(&mut [u8]) -> Result<T, E>) -> Result<T, E> {
        let before = self.end;
        if self.structured {
            self.chunk(request, CHUNK_DATA, 8 + request.length);
            self.reserve(8).copy_from_slice(&request.offset.to_be_bytes());
        } else {
            self.simple(request, 0);
        }
        let filled = fill(self.reserve(request.length as usize));
        if filled.is_err() {
            self.end = before;
        }
        filled
    }

    /// The answer to BLOCK_STATUS. Each extent must be shorter than 4 GiB.
    pub fn extents(&mut self, request: &Request, extents: &[Extent]) {
        assert!(self.structured && !extents.is_empty(), "the protocol has no other form for extents");
        self.chunk(request, CHUNK_BLOCK_STATUS, 4 + 8 * extents.len() as u32);
        self.reserve(4).copy_from_slice(&ALLOCATION_CONTEXT.to_be_bytes());
        for extent in extents {
            let bytes = u32::try_from(extent.bytes).expect("an extent lies in a request");
            let state = if extent.hole { STATE_HOLE | STATE_ZERO } else { 0 };
            let descriptor = self.reserve(8);
            descriptor[0..4].copy_from_slice(&bytes.to_be_bytes());
            descriptor[4..8].copy_from_slice(&state.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(length: u32) -> Request {
        Request { flags: 0, command: Command::Write, cookie: 7, offset: 4096, length }
    }

    #[test]
    fn a_write_is_handed_out_with_its_last_byte_and_not_before() {
        let mut receiver = Receiver::default();
        let message = [&write(2000).encode()[..], &[7; 2000]].concat();
        for &byte in &message[..message.len() - 1] {
            receiver.space()[0] = byte;
            receiver.received(1);
            assert_eq!(receiver.take(), Ok(None));
        }
        receiver.space()[0] = 7;
        receiver.received(1);
        assert_eq!(receiver.take(), Ok(Some((write(2000), &[7; 2000][..]))));
    }

    /// Whoever promises 32 MiB has to send them before they are kept.
    #[test]
    fn memory_grows_with_what_has_arrived() {
        let mut receiver = Receiver::default();
        let mut arrived = 0_usize;
        while arrived < 5 << 20 {
            let room = (2 * arrived + 1).next_multiple_of(Receiver::BUFFER_BYTES);
            assert!(receiver.memory() <= room, "{} bytes for {arrived}", receiver.memory());
            let space = receiver.space();
            let header = write(MAX_PAYLOAD_BYTES).encode();
            if arrived == 0 {
                space[..REQUEST_BYTES].copy_from_slice(&header);
            }
            let bytes = space.len();
            receiver.received(bytes);
            arrived += bytes;
            assert_eq!(receiver.take(), Ok(None));
        }
    }

    /// The bytes of the protocol description, by hand.
    #[test]
    fn a_request_and_its_replies_byte_by_byte() {
        let request = Request {
            flags: FLAG_FUA,
            command: Command::Read,
            cookie: 0x0102_0304_0506_0708,
            offset: 0x1000,
            length: 2,
        };
        let bytes = request.encode();
        let expected: [u8; 28] =
            [0x25, 0x60, 0x95, 0x13, 0, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 2];
        assert_eq!(bytes, expected);
        assert_eq!(Request::parse(&bytes), Ok(request));

        let mut simple = Replies::new(false);
        simple
            .data(&request, |out| {
                out.copy_from_slice(b"ab");
                Ok::<_, ()>(())
            })
            .unwrap();
        assert_eq!(simple.bytes(), [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8][..], b"ab"].concat());
        simple.clear();
        simple.data(&request, |_| Err::<(), _>(())).unwrap_err();
        simple.fail(&request, ErrorNumber::NoSpace);
        assert_eq!(simple.bytes(), [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28, 1, 2, 3, 4, 5, 6, 7, 8]);

        let mut structured = Replies::new(true);
        structured
            .data(&request, |out| {
                out.copy_from_slice(b"ab");
                Ok::<_, ()>(())
            })
            .unwrap();
        let header = [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 10];
        assert_eq!(structured.bytes(), [&header[..], &[0, 0, 0, 0, 0, 0, 0x10, 0], b"ab"].concat());
        structured.clear();
        structured.fail(&request, ErrorNumber::Io);
        let header = [0x66, 0x8e, 0x33, 0xef, 0, 1, 0x80, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 6];
        assert_eq!(structured.bytes(), [&header[..], &[0, 0, 0, 5, 0, 0]].concat());
        structured.clear();
        structured.extents(&request, &[Extent { bytes: 512, hole: true }, Extent { bytes: 1, hole: false }]);
        let header = [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 20];
        let payload = [0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(structured.bytes(), [&header[..], &payload].concat());
    }

    #[test]
    fn a_write_that_is_too_long_is_skipped_and_the_next_request_is_served() {
        let mut stream = write(MAX_PAYLOAD_BYTES + 5).encode().to_vec();
        stream.resize(stream.len() + MAX_PAYLOAD_BYTES as usize + 5, 0x25);
        stream.extend(write(3).encode());
        stream.extend(b"abc");
        let mut receiver = Receiver::default();
        let mut taken = Vec::new();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let space = receiver.space();
            let bytes = space.len().min(rest.len()).min(1 << 20);
            space[..bytes].copy_from_slice(&rest[..bytes]);
            rest = &rest[bytes..];
            receiver.received(bytes);
            while let Some((request, payload)) = receiver.take().unwrap() {
                taken.push((request, payload.to_vec()));
            }
        }
        assert_eq!(taken, [(write(MAX_PAYLOAD_BYTES + 5), Vec::new()), (write(3), b"abc".to_vec())]);
        assert!(receiver.buffer.len() <= 2 * Receiver::BUFFER_BYTES, "what is skipped needs no memory");
    }

    /// A header that promised 32 MiB took 64 MiB at once: 60 clients of 29 bytes each took 3.2 GB.
    #[test]
    fn memory_grows_with_what_arrives_and_not_with_what_is_promised() {
        let mut stream = write(MAX_PAYLOAD_BYTES).encode().to_vec();
        stream.resize(REQUEST_BYTES + MAX_PAYLOAD_BYTES as usize, 0x25);
        let mut receiver = Receiver::default();
        let mut arrived = 0_usize;
        for most in std::iter::once(REQUEST_BYTES + 1).chain(std::iter::repeat(100_000)) {
            let expected = receiver.memory();
            let space = receiver.space();
            let bytes = space.len().min(most).min(stream.len() - arrived);
            space[..bytes].copy_from_slice(&stream[arrived..arrived + bytes]);
            receiver.received(bytes);
            arrived += bytes;
            assert_eq!(receiver.buffer.len(), expected);
            assert!(expected <= 2 * arrived + Receiver::BUFFER_BYTES, "{expected} bytes for {arrived}");
            if arrived == stream.len() {
                break;
            }
            receiver.shrink(0);
            assert!(receiver.take().unwrap().is_none());
        }
        assert_eq!(receiver.take().unwrap().unwrap().1, &stream[REQUEST_BYTES..]);
        assert!(receiver.buffer.len() <= stream.len() + Receiver::BUFFER_BYTES);
        receiver.shrink(0);
        assert_eq!(receiver.buffer.len(), Receiver::BUFFER_BYTES);
    }

    fn any_request() -> impl Strategy<Value = (Request, Vec<u8>)> {
        // Payloads now and then longer than the buffer.
        let length = prop_oneof![8 => 0u32..9000, 1 => 200_000u32..600_000];
        (any::<u16>(), 0u16..12, any::<u64>(), any::<u64>(), length, any::<u8>()).prop_map(
            |(flags, number, cookie, offset, length, fill)| {
                let request = Request { flags, command: Command::of(number), cookie, offset, length };
                let payload = (0..request.payload_bytes()).map(|i| fill.wrapping_add(i as u8)).collect();
                (request, payload)
            },
        )
    }

    /// Feeds `stream` in pieces of the given lengths, over and over; what came out, and whether it was refused.
    fn feed(stream: &[u8], pieces: &[usize]) -> (Vec<(Request, Vec<u8>)>, bool) {
        let mut receiver = Receiver::default();
        let mut taken = Vec::new();
        let mut rest = stream;
        for piece in pieces.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let space = receiver.space();
            assert!(!space.is_empty());
            let bytes = (*piece).clamp(1, space.len().min(rest.len()));
            space[..bytes].copy_from_slice(&rest[..bytes]);
            rest = &rest[bytes..];
            receiver.received(bytes);
            loop {
                match receiver.take() {
                    Ok(Some((request, payload))) => taken.push((request, payload.to_vec())),
                    Ok(None) => break,
                    Err(_) => return (taken, true),
                }
            }
        }
        (taken, false)
    }

    proptest! {
        #[test]
        fn requests_come_out_as_they_went_in(
            requests in prop::collection::vec(any_request(), 1..20),
            pieces in prop::collection::vec(1usize..300_000, 1..8),
        ) {
            let mut stream = Vec::new();
            for (request, payload) in &requests {
                stream.extend(request.encode());
                stream.extend(payload);
            }
            prop_assert_eq!(feed(&stream, &pieces), (requests, false));
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_wait(
            mut stream in prop::collection::vec(any::<u8>(), 0..2000),
            opens in prop::collection::vec(0usize..2000, 0..40),
            pieces in prop::collection::vec(1usize..100, 1..8),
        ) {
            // Magic numbers here and there, or the first four bytes would end every case.
            for at in opens.into_iter().chain([0]) {
                if at + 8 <= stream.len() {
                    stream[at..at + 4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
                    stream[at + 6] = 0;
                    stream[at + 7] %= 8;
                }
            }
            feed(&stream, &pieces);
        }
    }
}
