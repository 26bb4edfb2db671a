//! `overload-random` and `overload-sequential`: the two synthetic workloads of the DFTL paper, section 5.4.
//!
//! The DFTL paper raises the arrival rate and watches the response time leave the normal operational region. All it
//! says of the workloads is that A is "predominantly random write-dominant" and that B "has a large number of
//! sequential writes"; sizes, shares and the arrival process are not published. Here A is 90 % writes, none of them
//! sequential, and B the same with 80 % of the writes continuing the one before; 4 KiB; Poisson arrivals whose `rate`
//! is the swept variable. All of these numbers are **assumed** (the read share after the DFTL paper's Financial trace,
//! 9 %), and all can be set.

use flash::Rng;

use super::common::{self, Place, SizeClass, Space};
use super::spec::{Arguments, Default, Kind, Parameter};
use super::{Context, Generator, SpecSource};
use crate::workload::{Operation, WorkloadError};

const fn sequential(default: &'static str) -> Parameter {
    Parameter {
        name: "sequential",
        kind: Kind::Share,
        default: Default::Text(default),
        range: (0.0, 1.0),
        doc: "Share of the writes that begin where the write before ended; assumed, the DFTL paper gives no number.",
    }
}

/// The DFTL paper's workload A.
pub(super) const RANDOM: Generator = Generator {
    name: "overload-random",
    summary: "the DFTL paper's synthetic workload A: random, write-dominant, at a rate to be swept",
    positional: None,
    parameters: &[sequential("0")],
    common: true,
    defaults: &[("reads", "0.1"), ("arrival", "poisson"), ("rate", "100")],
    construct,
};

/// The DFTL paper's workload B.
pub(super) const SEQUENTIAL: Generator = Generator {
    name: "overload-sequential",
    summary: "the DFTL paper's synthetic workload B: many sequential writes, at a rate to be swept",
    positional: None,
    parameters: &[sequential("0.8")],
    common: true,
    defaults: &[("reads", "0.1"), ("arrival", "poisson"), ("rate", "100")],
    construct,
};

struct Overload {
    rng: Rng,
    sequential: f64,
    /// Where the last write ended, in aligned units.
    next: u64,
    align: u64,
}

impl Place for Overload {
    #[inline]
    fn offset(&mut self, class: SizeClass, operation: Operation) -> u64 {
        let write = operation == Operation::Write;
        let goes_on = write && self.rng.chance(self.sequential) && self.next < class.slots;
        let slot = if goes_on { self.next } else { self.rng.below(class.slots) };
        if write {
            self.next = slot + class.bytes.div_ceil(self.align);
        }
        slot * self.align
    }
}

fn construct(arguments: &Arguments, context: &Context) -> Result<SpecSource, WorkloadError> {
    let space = Space::new(arguments, context)?;
    let rng = Rng::new(context.seed).fork("generate place");
    // No write has ended yet: a continuation of nothing is a jump.
    let place = Overload { rng, sequential: arguments.real("sequential"), next: u64::MAX, align: space.align };
    common::source(arguments, context, &space, place)
}
