//! What all address generators share: how many requests, of which kinds and sizes, arriving when.
//!
//! A generator proper only answers "where does the next extent go" ([`Place`]); this file asks it, once per request,
//! in a loop that the compiler specialises per generator. Operations, sizes, arrivals and places draw from separate
//! streams, so changing the read share does not move a single address.

use flash::Rng;

use super::arrival::Arrivals;
use super::size::Alias;
use super::spec::{Arguments, Default, Kind, Parameter};
use super::{Context, SpecSource};
use crate::workload::{Intake, Operation, Request, Source, WorkloadError};

const ANY: f64 = f64::INFINITY;

/// The parameters every address generator takes.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "requests",
        kind: Kind::Count,
        default: Default::Text("1M"),
        range: (1.0, ANY),
        doc: "How many requests, flushes included.",
    },
    Parameter {
        name: "reads",
        kind: Kind::Share,
        default: Default::Text("0"),
        range: (0.0, 1.0),
        doc: "Share of reads; what neither reads nor trims writes.",
    },
    Parameter {
        name: "trims",
        kind: Kind::Share,
        default: Default::Text("0"),
        range: (0.0, 1.0),
        doc: "Share of trims; with `reads` at most 1.",
    },
    Parameter {
        name: "size",
        kind: Kind::Sizes,
        default: Default::Text("4KiB"),
        range: (1.0, ANY),
        doc: "Size of a request, or a mix such as `4KiB*0.7+64KiB*0.3`; drawn independently of the kind.",
    },
    Parameter {
        name: "align",
        kind: Kind::Bytes,
        default: Default::Derived("the smallest size"),
        range: (1.0, ANY),
        doc: "Every offset is a multiple of this.",
    },
    Parameter {
        name: "span",
        kind: Kind::Bytes,
        default: Default::Derived("the device's capacity"),
        range: (1.0, ANY),
        doc: "The requests stay within the first `span` bytes.",
    },
    Parameter {
        name: "flush",
        kind: Kind::Count,
        default: Default::Text("0"),
        range: (0.0, ANY),
        doc: "Every so many requests one is a flush; 0: none.",
    },
    Parameter {
        name: "arrival",
        kind: Kind::Choice(&["none", "fixed", "poisson", "bursts"]),
        default: Default::Text("none"),
        range: (0.0, ANY),
        doc: "Arrivals: none (as fast as they are served), at fixed gaps, with exponential gaps, or in bursts.",
    },
    Parameter {
        name: "rate",
        kind: Kind::Number,
        default: Default::Text("1000"),
        range: (1e-6, 1e9),
        doc: "Requests per second; within a burst if they come in bursts.",
    },
    Parameter {
        name: "burst",
        kind: Kind::Count,
        default: Default::Text("100"),
        range: (1.0, ANY),
        doc: "Requests per burst.",
    },
    Parameter {
        name: "idle",
        kind: Kind::Duration,
        default: Default::Text("1s"),
        range: (0.0, ANY),
        doc: "Pause after each burst.",
    },
];

/// One size of the mix, and at how many offsets an extent of that size fits into the span.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct SizeClass {
    pub(super) bytes: u64,
    pub(super) slots: u64,
}

/// Where extents may lie.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Space {
    /// Offsets are multiples of this.
    pub(super) align: u64,
    /// Extents end at or before this byte.
    pub(super) span: u64,
    /// The sizes that occur.
    pub(super) classes: Vec<SizeClass>,
}

impl Space {
    /// From `align`, `span` and `size`.
    pub(super) fn new(arguments: &Arguments, context: &Context) -> Result<Space, WorkloadError> {
        let sizes = arguments.sizes("size");
        let span = arguments.integer("span").unwrap_or(context.capacity_bytes);
        let align = arguments.integer("align").unwrap_or(sizes.smallest());
        if span > context.capacity_bytes {
            let fix = format!("give a span of 1 to {}, or a device a larger capacity", context.capacity_bytes);
            let what = format!("span: larger than the {} bytes that there are for it", context.capacity_bytes);
            return Err(arguments.fault(what, fix));
        }
        if sizes.largest() > span {
            let what = format!("size: {} bytes do not fit into a span of {span} bytes", sizes.largest());
            return Err(arguments.fault(what, "make `size` smaller or `span` larger"));
        }
        let classes = sizes.parts().iter().map(|&(bytes, _)| SizeClass { bytes, slots: (span - bytes) / align + 1 });
        Ok(Space { align, span, classes: classes.collect() })
    }

    /// At how many offsets an extent of any size of the mix fits.
    pub(super) fn slots(&self) -> u64 {
        self.classes.iter().map(|c| c.slots).min().expect("a space has sizes")
    }
}

/// Chooses addresses. One implementation per generator.
pub(super) trait Place: Send {
    /// The offset of the next extent: a multiple of the space's `align`, at most `(class.slots - 1) * align`.
    fn offset(&mut self, class: SizeClass, operation: Operation) -> u64;
}

/// The streams of randomness and the counters that turn places into requests.
struct Mixed<P> {
    place: P,
    remaining: u64,
    /// A draw of 64 bits below `reads_below` is a read, below `trims_below` a trim, else a write.
    reads_below: u64,
    trims_below: u64,
    operation_rng: Rng,
    classes: Vec<SizeClass>,
    alias: Alias,
    size_rng: Rng,
    flush_every: u64,
    until_flush: u64,
    arrivals: Arrivals,
    intake: Intake,
}

/// `share` of the 64-bit range.
fn threshold(share: f64) -> u64 {
    // 2^64 as a float saturates to u64::MAX: a share of 1 misses one draw in 2^64.
    (share * (u64::MAX as f64)) as u64
}

/// The source that draws places from `place`.
pub(super) fn source<P: Place + 'static>(
    arguments: &Arguments,
    context: &Context,
    space: &Space,
    place: P,
) -> Result<SpecSource, WorkloadError> {
    let (reads, trims) = (arguments.real("reads"), arguments.real("trims"));
    if reads + trims > 1.0 {
        let what = format!("reads and trims add up to {}", reads + trims);
        return Err(arguments.fault(what, "their sum is at most 1"));
    }
    let rng = Rng::new(context.seed);
    let gap_ns = 1e9 / arguments.real("rate");
    let integer = |name| arguments.integer(name).expect("it has a default");
    let arrival = arguments.word("arrival").expect("it has a default");
    for (name, needed) in [("rate", "none"), ("burst", "bursts"), ("idle", "bursts")] {
        let counts = if needed == "none" { arrival != "none" } else { arrival == needed };
        if arguments.is_given(name) && !counts {
            let what = format!("{name} has no effect with arrival={arrival}");
            let fix = if needed == "none" { "give arrival=fixed, poisson or bursts" } else { "give arrival=bursts" };
            return Err(arguments.fault(what, format!("{fix}, or leave {name} out")));
        }
    }
    let arrivals = match arrival {
        "fixed" => Arrivals::Fixed { gap_ns, index: 0 },
        "poisson" => Arrivals::Poisson { gap_ns, now_ns: 0.0, rng: rng.fork("generate arrival") },
        "bursts" => Arrivals::Bursts { gap_ns, length: integer("burst"), idle_ns: integer("idle") as f64, index: 0 },
        _ => Arrivals::None,
    };
    let shares: Vec<f64> = arguments.sizes("size").parts().iter().map(|p| p.1).collect();
    let flush_every = integer("flush");
    Ok(Box::new(Mixed {
        place,
        remaining: integer("requests"),
        reads_below: threshold(reads),
        trims_below: threshold(reads + trims),
        operation_rng: rng.fork("generate operation"),
        classes: space.classes.clone(),
        alias: Alias::new(&shares),
        size_rng: rng.fork("generate size"),
        flush_every,
        until_flush: flush_every,
        arrivals,
        intake: Intake::default(),
    }))
}

impl<P: Place> Mixed<P> {
    #[inline]
    fn operation(&mut self) -> Operation {
        if self.trims_below == 0 {
            return Operation::Write;
        }
        let draw = self.operation_rng.bits();
        if draw < self.reads_below {
            Operation::Read
        } else if draw < self.trims_below {
            Operation::Trim
        } else {
            Operation::Write
        }
    }

    #[inline]
    fn request(&mut self) -> Request {
        let arrival_ns = self.arrivals.next_ns();
        if self.flush_every > 0 {
            self.until_flush -= 1;
            if self.until_flush == 0 {
                self.until_flush = self.flush_every;
                return Request { arrival_ns, offset: 0, bytes: 0, volume: 0, operation: Operation::Flush };
            }
        }
        let class =
            if self.classes.len() == 1 { self.classes[0] } else { self.classes[self.alias.draw(&mut self.size_rng)] };
        let operation = self.operation();
        let offset = self.place.offset(class, operation);
        Request { arrival_ns, offset, bytes: class.bytes, volume: 0, operation }
    }
}

impl<P: Place> Source for Mixed<P> {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let count = self.remaining.min(limit as u64) as usize;
        if self.classes.len() == 1 && self.flush_every == 0 && self.arrivals == Arrivals::None {
            // The common case, kept free of everything it does not need.
            let class = self.classes[0];
            batch.extend((0..count).map(|_| {
                let operation = self.operation();
                let offset = self.place.offset(class, operation);
                Request { arrival_ns: 0, offset, bytes: class.bytes, volume: 0, operation }
            }));
        } else {
            batch.extend((0..count).map(|_| self.request()));
        }
        self.remaining -= count as u64;
        self.intake.requests += count as u64;
        Ok(())
    }

    fn intake(&self) -> &Intake {
        &self.intake
    }

    fn timed(&self) -> bool {
        self.arrivals != Arrivals::None
    }
}
