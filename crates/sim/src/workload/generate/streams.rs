//! `sequential` and `streams`: one writer that goes through the space in order, or several at once.
//!
//! A stream owns an equal part of the space and starts again at its beginning when the next extent no longer fits.
//! Several interleaved streams are what a log-block scheme with one sequential log block (FAST) cannot follow.

use flash::Rng;

use super::common::{self, Place, SizeClass, Space};
use super::spec::{Arguments, Default, Kind, Parameter};
use super::{Context, Generator, SpecSource};
use crate::workload::{Operation, WorkloadError};

/// The row of one stream.
pub(super) const SEQUENTIAL: Generator = Generator {
    name: "sequential",
    summary: "one stream through the whole space, over and over",
    positional: None,
    parameters: &[],
    common: true,
    defaults: &[],
    construct: |arguments, context| build(arguments, context, 1, false),
};

/// The row of several.
pub(super) const STREAMS: Generator = Generator {
    name: "streams",
    summary: "interleaved sequential streams, each in its own part of the space",
    positional: None,
    parameters: &[
        Parameter {
            name: "count",
            kind: Kind::Count,
            default: Default::Text("4"),
            range: (1.0, 65_536.0),
            doc: "How many streams.",
        },
        Parameter {
            name: "order",
            kind: Kind::Choice(&["turns", "random"]),
            default: Default::Text("turns"),
            range: (0.0, 0.0),
            doc: "Whose turn it is: one after the other, or drawn for each request.",
        },
    ],
    common: true,
    defaults: &[],
    construct: |arguments, context| {
        let count = arguments.integer("count").expect("it has a default");
        build(arguments, context, count, arguments.word("order") == Some("random"))
    },
};

/// One stream: its part `start..end` and where it goes on, in bytes.
#[derive(Clone, Copy)]
struct Stream {
    start: u64,
    end: u64,
    next: u64,
}

struct Streams {
    streams: Vec<Stream>,
    turn: usize,
    rng: Option<Rng>,
    align: u64,
}

impl Place for Streams {
    #[inline]
    fn offset(&mut self, class: SizeClass, _: Operation) -> u64 {
        let index = match &mut self.rng {
            Some(rng) => rng.below(self.streams.len() as u64) as usize,
            None => {
                self.turn = if self.turn + 1 < self.streams.len() { self.turn + 1 } else { 0 };
                self.turn
            }
        };
        let stream = &mut self.streams[index];
        if stream.next + class.bytes > stream.end {
            stream.next = stream.start;
        }
        let offset = stream.next;
        stream.next += class.bytes.next_multiple_of(self.align);
        offset
    }
}

fn build(arguments: &Arguments, context: &Context, count: u64, random: bool) -> Result<SpecSource, WorkloadError> {
    let space = Space::new(arguments, context)?;
    let part = space.span / count / space.align * space.align;
    if part < arguments.sizes("size").largest() {
        let what = format!("count: each of {count} streams would own {part} bytes, less than the largest request");
        return Err(arguments.fault(what, "fewer streams, smaller requests or a larger span"));
    }
    let streams = (0..count).map(|i| Stream { start: i * part, end: (i + 1) * part, next: i * part }).collect();
    let rng = random.then(|| Rng::new(context.seed).fork("generate place"));
    let place = Streams { streams, turn: count as usize - 1, rng, align: space.align };
    common::source(arguments, context, &space, place)
}
