//! The handshake: fixed newstyle, as a machine that is fed bytes and says bytes.
//!
//! The server greets, the client sends its flags, then options, each answered, until one of them (GO or EXPORT_NAME)
//! opens the transmission phase. One export is served, under the empty name, which is what clients ask for unless told
//! otherwise.
//!
//! | message | layout |
//! |---|---|
//! | greeting | `NBDMAGIC`, `IHAVEOPT`, handshake flags u16 |
//! | option | `IHAVEOPT`, option u32, length u32, data |
//! | reply | magic u64, option u32, type u32, length u32, data |

use super::protocol::{ALLOCATION_CONTEXT, MAX_PAYLOAD_BYTES, Malformed, u16_at, u32_at, u64_at};

/// Opens the greeting: "NBDMAGIC".
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Opens each option: "IHAVEOPT".
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Opens each reply to an option.
pub const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Handshake flag of server and client: fixed newstyle.
pub const FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag of server and client: no zeros after EXPORT_NAME.
pub const NO_ZEROES: u16 = 1 << 1;

/// Options.
pub mod option {
    /// Opens the transmission phase; cannot be refused but by closing.
    pub const EXPORT_NAME: u32 = 1;
    /// Ends the connection.
    pub const ABORT: u32 = 2;
    /// Which exports there are.
    pub const LIST: u32 = 3;
    /// TLS, which this server does not have.
    pub const STARTTLS: u32 = 5;
    /// Asks about an export.
    pub const INFO: u32 = 6;
    /// Opens the transmission phase.
    pub const GO: u32 = 7;
    /// Replies are to be structured.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Which metadata contexts there are.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Which metadata contexts BLOCK_STATUS is to report.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Types of replies to options.
pub mod reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// One export of a list.
    pub const SERVER: u32 = 2;
    /// One piece of information.
    pub const INFO: u32 = 3;
    /// One metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The option is not known.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The option is not allowed.
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    /// The option is malformed.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
}

/// Types of information about an export.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The export's name.
    pub const NAME: u16 = 1;
    /// What it is, for people.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, preferred and largest block.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: HAS_FLAGS, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES, CAN_MULTI_CONN.
const TRANSMISSION_FLAGS: u16 = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8;
/// Transmission flag: reads may ask not to be fragmented. Only with structured replies.
const SEND_DF: u16 = 1 << 7;

/// The metadata context that is served.
pub const BASE_ALLOCATION: &str = "base:allocation";

/// The longest data of an option that is looked at. Names are at most 4096 bytes.
const MAX_OPTION_BYTES: u32 = 64 << 10;
/// Length of an option without its data.
const OPTION_BYTES: usize = 16;

/// What is served, as the handshake tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served {
    /// Size of the device.
    pub bytes: u64,
    /// The unit in which requests cost least; a power of two of at least 512.
    pub block_bytes: u32,
}

/// What client and server agreed upon.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Agreed {
    /// Replies are structured.
    pub structured: bool,
    /// BLOCK_STATUS reports `base:allocation`.
    pub allocation: bool,
}

/// Where a handshake stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// More bytes must arrive.
    Waiting,
    /// The transmission phase begins after the bytes that were consumed.
    Transmission(Agreed),
    /// The client wants no more; what was said is to be sent, and the connection closed.
    Close,
}

/// The server's side of one handshake.
#[derive(Debug)]
pub struct Handshake {
    served: Served,
    agreed: Agreed,
    /// The client's flags, once they have arrived.
    flags: Option<u32>,
}

impl Handshake {
    /// Begins with the greeting.
    pub fn new(served: Served, out: &mut Vec<u8>) -> Handshake {
        out.extend(GREETING_MAGIC.to_be_bytes());
        out.extend(OPTION_MAGIC.to_be_bytes());
        out.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
        Handshake { served, agreed: Agreed::default(), flags: None }
    }

    /// Takes one message from the front of `bytes`, if all of it has arrived: how many bytes it had (none, and
    /// [`Progress::Waiting`], otherwise), and what follows. The answer is appended to `out`.
    ///
    /// # Errors
    /// The client breaks the protocol in a way that no reply can express: the connection must be closed.
    pub fn step(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(usize, Progress), Malformed> {
        let Some(flags) = self.flags else {
            if bytes.len() < 4 {
                return Ok((0, Progress::Waiting));
            }
            let flags = u32_at(bytes, 0);
            if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
                return Err(Malformed("unknown client flags"));
            }
            self.flags = Some(flags);
            return Ok((4, Progress::Waiting));
        };
        if bytes.len() < OPTION_BYTES {
            return Ok((0, Progress::Waiting));
        }
        if u64_at(bytes, 0) != OPTION_MAGIC {
            return Err(Malformed("no option where one should begin"));
        }
        let (option, length) = (u32_at(bytes, 8), u32_at(bytes, 12));
        if length > MAX_OPTION_BYTES {
            return Err(Malformed("an option of unreasonable length"));
        }
        let whole = OPTION_BYTES + length as usize;
        if bytes.len() < whole {
            return Ok((0, Progress::Waiting));
        }
        let progress = self.option(option, &bytes[OPTION_BYTES..whole], flags, out)?;
        Ok((whole, progress))
    }

    fn option(&mut self, option: u32, data: &[u8], flags: u32, out: &mut Vec<u8>) -> Result<Progress, Malformed> {
        let mut answer = |kind: u32, parts: &[&[u8]]| put_reply(out, option, kind, parts);
        match option {
            option::EXPORT_NAME => {
                if !data.is_empty() {
                    return Err(Malformed("an export that there is not"));
                }
                out.extend(self.served.bytes.to_be_bytes());
                out.extend(self.transmission_flags().to_be_bytes());
                if flags & u32::from(NO_ZEROES) == 0 {
                    out.extend([0; 124]);
                }
                return Ok(Progress::Transmission(self.agreed));
            }
            option::ABORT => {
                answer(reply::ACK, &[]);
                return Ok(Progress::Close);
            }
            option::LIST | option::STRUCTURED_REPLY if !data.is_empty() => {
                answer(reply::ERR_INVALID, &[b"the option has no data"]);
            }
            option::LIST => {
                // One export, whose name has no letters.
                answer(reply::SERVER, &[&0u32.to_be_bytes()]);
                answer(reply::ACK, &[]);
            }
            option::STARTTLS => answer(reply::ERR_POLICY, &[b"this server has no TLS"]),
            option::INFO | option::GO => match parse_info(data) {
                None => answer(reply::ERR_INVALID, &[b"malformed"]),
                Some((name, _)) if !name.is_empty() => answer(reply::ERR_UNKNOWN, &[b"the only export has no name"]),
                Some((_, wanted)) => {
                    let served = self.served;
                    let (size, flags) = (served.bytes.to_be_bytes(), self.transmission_flags().to_be_bytes());
                    answer(reply::INFO, &[&info::EXPORT.to_be_bytes(), &size, &flags]);
                    for kind in wanted.chunks_exact(2).map(|pair| u16_at(pair, 0)) {
                        let about = kind.to_be_bytes();
                        match kind {
                            info::NAME => answer(reply::INFO, &[&about]),
                            info::DESCRIPTION => answer(reply::INFO, &[&about, b"ftlab"]),
                            info::BLOCK_SIZE => {
                                let sizes = [1, served.block_bytes, MAX_PAYLOAD_BYTES].map(u32::to_be_bytes);
                                answer(reply::INFO, &[&about, &sizes.concat()]);
                            }
                            _ => {}
                        }
                    }
                    answer(reply::ACK, &[]);
                    if option == option::GO {
                        return Ok(Progress::Transmission(self.agreed));
                    }
                }
            },
            option::STRUCTURED_REPLY => {
                self.agreed.structured = true;
                answer(reply::ACK, &[]);
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                let set = option == option::SET_META_CONTEXT;
                if set {
                    self.agreed.allocation = false;
                }
                match parse_queries(data) {
                    _ if !self.agreed.structured => {
                        answer(reply::ERR_INVALID, &[b"structured replies must be agreed upon first"]);
                    }
                    None => answer(reply::ERR_INVALID, &[b"malformed"]),
                    Some((name, _)) if !name.is_empty() => {
                        answer(reply::ERR_UNKNOWN, &[b"the only export has no name"]);
                    }
                    Some((_, queries)) => {
                        let all = !set && (queries.is_empty() || queries.contains(&b"base:".as_slice()));
                        if all || queries.contains(&BASE_ALLOCATION.as_bytes()) {
                            self.agreed.allocation |= set;
                            let context = if set { ALLOCATION_CONTEXT } else { 0 };
                            answer(reply::META_CONTEXT, &[&context.to_be_bytes(), BASE_ALLOCATION.as_bytes()]);
                        }
                        answer(reply::ACK, &[]);
                    }
                }
            }
            _ => answer(reply::ERR_UNSUP, &[]),
        }
        Ok(Progress::Waiting)
    }

    fn transmission_flags(&self) -> u16 {
        TRANSMISSION_FLAGS | if self.agreed.structured { SEND_DF } else { 0 }
    }
}

/// Appends a reply whose data is the parts in a row.
fn put_reply(out: &mut Vec<u8>, option: u32, kind: u32, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.extend(REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((length as u32).to_be_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Splits a string with its length in front off the front.
fn split_string(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

/// Name and list of wanted information of INFO and GO.
fn parse_info(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, rest) = split_string(data)?;
    let (count, wanted) = rest.split_first_chunk::<2>()?;
    (wanted.len() == 2 * usize::from(u16::from_be_bytes(*count))).then_some((name, wanted))
}

/// Name and queries of the options about metadata contexts.
fn parse_queries(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let (name, rest) = split_string(data)?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let mut queries = Vec::new();
    for _ in 0..u32::from_be_bytes(*count) {
        let (query, after) = split_string(rest)?;
        queries.push(query);
        rest = after;
    }
    rest.is_empty().then_some((name, queries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SERVED: Served = Served { bytes: 1 << 30, block_bytes: 4096 };

    fn option(number: u32, data: &[u8]) -> Vec<u8> {
        [&OPTION_MAGIC.to_be_bytes()[..], &number.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
    }

    fn queries(name: &str, queries: &[&str]) -> Vec<u8> {
        let string = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
        let mut data = string(name);
        data.extend((queries.len() as u32).to_be_bytes());
        queries.iter().for_each(|query| data.extend(string(query)));
        data
    }

    fn wants(name: &str, kinds: &[u16]) -> Vec<u8> {
        let mut data = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes()].concat();
        data.extend((kinds.len() as u16).to_be_bytes());
        kinds.iter().for_each(|kind| data.extend(kind.to_be_bytes()));
        data
    }

    /// Shakes hands with a client that has sent its flags.
    fn begun(flags: u32) -> Handshake {
        let mut out = Vec::new();
        let mut handshake = Handshake::new(SERVED, &mut out);
        assert_eq!(out, b"NBDMAGICIHAVEOPT\0\x03");
        out.clear();
        assert_eq!(handshake.step(&flags.to_be_bytes(), &mut out), Ok((4, Progress::Waiting)));
        assert!(out.is_empty());
        handshake
    }

    /// Sends one option; the types of the replies with their data, and the progress.
    fn ask(handshake: &mut Handshake, number: u32, data: &[u8]) -> (Vec<(u32, Vec<u8>)>, Progress) {
        let (mut out, message) = (Vec::new(), option(number, data));
        for cut in 0..message.len() {
            assert_eq!(handshake.step(&message[..cut], &mut out), Ok((0, Progress::Waiting)));
        }
        let (consumed, progress) = handshake.step(&message, &mut out).unwrap();
        assert_eq!(consumed, message.len());
        let mut replies = Vec::new();
        let mut rest = &out[..];
        while !rest.is_empty() {
            assert_eq!((u64_at(rest, 0), u32_at(rest, 8)), (REPLY_MAGIC, number));
            let whole = 20 + u32_at(rest, 16) as usize;
            replies.push((u32_at(rest, 12), rest[20..whole].to_vec()));
            rest = &rest[whole..];
        }
        (replies, progress)
    }

    fn kinds(replies: &[(u32, Vec<u8>)]) -> Vec<u32> {
        replies.iter().map(|(kind, _)| *kind).collect()
    }

    #[test]
    fn go_with_everything() {
        let mut handshake = begun(3);
        assert_eq!(kinds(&ask(&mut handshake, option::STRUCTURED_REPLY, &[]).0), [reply::ACK]);
        let (replies, _) = ask(&mut handshake, option::SET_META_CONTEXT, &queries("", &["qemu:x", BASE_ALLOCATION]));
        assert_eq!(replies[0], (reply::META_CONTEXT, b"\0\0\0\x01base:allocation".to_vec()));
        assert_eq!(kinds(&replies), [reply::META_CONTEXT, reply::ACK]);
        let (replies, progress) = ask(&mut handshake, option::GO, &wants("", &[info::BLOCK_SIZE, 77, info::NAME]));
        assert_eq!(progress, Progress::Transmission(Agreed { structured: true, allocation: true }));
        assert_eq!(kinds(&replies), [reply::INFO, reply::INFO, reply::INFO, reply::ACK]);
        assert_eq!(replies[0].1, [0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0x01, 0xed]);
        assert_eq!(replies[1].1, [0, 3, 0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn export_name_with_and_without_zeros() {
        for (flags, length) in [(1, 8 + 2 + 124), (3, 8 + 2)] {
            let mut out = Vec::new();
            let (_, progress) = begun(flags).step(&option(option::EXPORT_NAME, b""), &mut out).unwrap();
            assert_eq!((progress, out.len()), (Progress::Transmission(Agreed::default()), length));
            assert_eq!(out[..10], [0, 0, 0, 0, 0x40, 0, 0, 0, 0x01, 0x6d]);
        }
        assert!(begun(3).step(&option(option::EXPORT_NAME, b"other"), &mut Vec::new()).is_err());
    }

    #[test]
    fn what_cannot_be_had_is_refused_and_the_handshake_goes_on() {
        let mut handshake = begun(3);
        for (number, data, expected) in [
            (option::STARTTLS, vec![], reply::ERR_POLICY),
            (99, b"anything".to_vec(), reply::ERR_UNSUP),
            (option::LIST, b"x".to_vec(), reply::ERR_INVALID),
            (option::INFO, wants("other", &[]), reply::ERR_UNKNOWN),
            (option::GO, wants("other", &[]), reply::ERR_UNKNOWN),
            (option::GO, b"\0\0\0".to_vec(), reply::ERR_INVALID),
            (option::GO, b"\0\0\0\0\0\x02\0\x01".to_vec(), reply::ERR_INVALID),
            (option::SET_META_CONTEXT, queries("", &[BASE_ALLOCATION]), reply::ERR_INVALID),
        ] {
            let (replies, progress) = ask(&mut handshake, number, &data);
            assert_eq!((kinds(&replies), progress), (vec![expected], Progress::Waiting), "option {number}");
        }
        assert_eq!(kinds(&ask(&mut handshake, option::LIST, &[]).0), [reply::SERVER, reply::ACK]);
        ask(&mut handshake, option::STRUCTURED_REPLY, &[]);
        for (wanted, expected) in [
            (vec![], vec![reply::META_CONTEXT, reply::ACK]),
            (vec!["base:"], vec![reply::META_CONTEXT, reply::ACK]),
            (vec!["qemu:dirty-bitmap:x"], vec![reply::ACK]),
        ] {
            let (replies, _) = ask(&mut handshake, option::LIST_META_CONTEXT, &queries("", &wanted));
            assert_eq!(kinds(&replies), expected, "{wanted:?}");
        }
        let (_, progress) = ask(&mut handshake, option::ABORT, &[]);
        assert_eq!(progress, Progress::Close);
    }

    #[test]
    fn a_later_choice_of_contexts_replaces_an_earlier_one() {
        let mut handshake = begun(3);
        ask(&mut handshake, option::STRUCTURED_REPLY, &[]);
        ask(&mut handshake, option::SET_META_CONTEXT, &queries("", &[BASE_ALLOCATION]));
        ask(&mut handshake, option::SET_META_CONTEXT, &queries("", &[]));
        let (_, progress) = ask(&mut handshake, option::GO, &wants("", &[]));
        assert_eq!(progress, Progress::Transmission(Agreed { structured: true, allocation: false }));
    }

    #[test]
    fn a_client_that_speaks_something_else_is_left() {
        let mut out = Vec::new();
        assert!(Handshake::new(SERVED, &mut out).step(&7u32.to_be_bytes(), &mut out).is_err());
        assert!(begun(3).step(b"GET / HTTP/1.1\r\n\r\n", &mut out).is_err());
        let mut long = option(option::GO, &[]);
        long[12..16].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(begun(3).step(&long, &mut out).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_options_never_panic(
            messages in prop::collection::vec((0u32..13, prop::collection::vec(any::<u8>(), 0..40)), 0..20),
            short in prop::collection::vec(0u8..4, 0..40),
        ) {
            let mut handshake = begun(3);
            // Small lengths, which arbitrary bytes hardly ever have.
            let small = messages.iter().map(|(number, _)| (*number, short.clone()));
            for (number, data) in messages.iter().cloned().chain(small) {
                let mut out = Vec::new();
                if handshake.step(&option(number, &data), &mut out).is_err() {
                    break;
                }
                prop_assert!(!out.is_empty(), "an option stays unanswered");
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut handshake = Handshake::new(SERVED, &mut Vec::new());
            let mut rest = &bytes[..];
            while let Ok((consumed @ 1.., _)) = handshake.step(rest, &mut Vec::new()) {
                rest = &rest[consumed..];
            }
        }
    }
}
