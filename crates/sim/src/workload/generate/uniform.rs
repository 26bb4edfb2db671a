//! `uniform`: every aligned offset equally likely. The worst case of any cache and the classic of cleaning theory.

use flash::Rng;

use super::common::{self, Place, SizeClass, Space};
use super::spec::Arguments;
use super::{Context, Generator, SpecSource};
use crate::workload::{Operation, WorkloadError};

/// The row.
pub(super) const ROW: Generator = Generator {
    name: "uniform",
    summary: "random extents, every aligned offset equally likely",
    positional: None,
    parameters: &[],
    common: true,
    defaults: &[],
    construct,
};

struct Uniform {
    rng: Rng,
    align: u64,
}

impl Place for Uniform {
    #[inline]
    fn offset(&mut self, class: SizeClass, _: Operation) -> u64 {
        self.rng.below(class.slots) * self.align
    }
}

fn construct(arguments: &Arguments, context: &Context) -> Result<SpecSource, WorkloadError> {
    let space = Space::new(arguments, context)?;
    let place = Uniform { rng: Rng::new(context.seed).fork("generate place"), align: space.align };
    common::source(arguments, context, &space, place)
}
