//! What a server counts while it serves.

use super::protocol::Command;
use hdrhistogram::Histogram;
use std::time::Duration;

/// Kinds of requests, as they are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// TRIM.
    Trim,
    /// WRITE_ZEROES.
    Zero,
    /// FLUSH.
    Flush,
    /// BLOCK_STATUS.
    Status,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 6] = [Kind::Read, Kind::Write, Kind::Trim, Kind::Zero, Kind::Flush, Kind::Status];

    /// The kind's name, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "reads",
            Kind::Write => "writes",
            Kind::Trim => "trims",
            Kind::Zero => "zeroes",
            Kind::Flush => "flushes",
            Kind::Status => "status",
        }
    }

    /// The kind of a command that a device carries out.
    pub(super) fn of(command: Command) -> Option<Kind> {
        match command {
            Command::Read => Some(Kind::Read),
            Command::Write => Some(Kind::Write),
            Command::Trim => Some(Kind::Trim),
            Command::WriteZeroes => Some(Kind::Zero),
            Command::Flush => Some(Kind::Flush),
            Command::BlockStatus => Some(Kind::Status),
            Command::Disconnect | Command::Unknown(_) => None,
        }
    }
}

/// Requests of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    /// How many reached the device.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many of them failed.
    pub failed: u64,
}

/// What was served in a stretch of time.
#[derive(Clone, Debug)]
pub struct Statistics {
    by_kind: [Amount; 6],
    /// Requests that were refused before they reached the device.
    pub refused: u64,
    /// Nanoseconds from a request's arrival until it may be answered. Within 1 %.
    pub latency_ns: Histogram<u64>,
    /// Requests taken and not answered at the end of the stretch.
    pub in_flight: u64,
    /// Connections at the end of the stretch.
    pub connections: usize,
    /// Connections that wait for their turn with the device at the end of the stretch.
    pub waiting: usize,
    /// Bytes that all connections have under way at the end of the stretch, as
    /// [`Options::most_bytes`](super::Options::most_bytes) counts them.
    pub held_bytes: usize,
}

impl Default for Statistics {
    fn default() -> Self {
        let latency_ns = Histogram::new_with_bounds(1, Self::LONGEST_NS, 2).expect("the bounds are valid");
        Statistics {
            by_kind: Default::default(),
            refused: 0,
            latency_ns,
            in_flight: 0,
            connections: 0,
            waiting: 0,
            held_bytes: 0,
        }
    }
}

impl Statistics {
    /// An hour; what takes longer counts as that.
    const LONGEST_NS: u64 = 3_600_000_000_000;

    /// Requests of one kind.
    pub fn of(&self, kind: Kind) -> Amount {
        self.by_kind[kind as usize]
    }

    /// Requests of all kinds that reached the device.
    pub fn requests(&self) -> u64 {
        self.by_kind.iter().map(|amount| amount.requests).sum()
    }

    pub(super) fn record(&mut self, kind: Kind, bytes: u32, failed: bool, latency: Duration) {
        let amount = &mut self.by_kind[kind as usize];
        amount.requests += 1;
        amount.bytes += u64::from(bytes);
        amount.failed += u64::from(failed);
        self.latency_ns.saturating_record(latency.as_nanos() as u64);
    }

    /// Adds a later stretch.
    pub fn add(&mut self, later: &Statistics) {
        for (amount, more) in self.by_kind.iter_mut().zip(&later.by_kind) {
            amount.requests += more.requests;
            amount.bytes += more.bytes;
            amount.failed += more.failed;
        }
        self.refused += later.refused;
        self.latency_ns.add(&later.latency_ns).expect("both have the same bounds");
        (self.in_flight, self.connections) = (later.in_flight, later.connections);
        (self.waiting, self.held_bytes) = (later.waiting, later.held_bytes);
    }

    /// Forgets what was counted.
    pub(super) fn clear(&mut self) {
        self.by_kind = Default::default();
        self.refused = 0;
        self.latency_ns.clear();
    }
}
