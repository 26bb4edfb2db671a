//! `hotcold`: a share `hot` of the space takes a share `to` of the requests; within each part all is equal.
//!
//! Rosenblum and Ousterhout's model of locality (1992), still the common tongue of cleaning studies: `hot=0.2,to=0.8`.

use flash::Rng;

use super::common::{self, Place, SizeClass, Space};
use super::scatter::Scatter;
use super::spec::{Arguments, Default, Kind, Parameter};
use super::{Context, Generator, SpecSource};
use crate::workload::{Operation, WorkloadError};

/// The row.
pub(super) const ROW: Generator = Generator {
    name: "hotcold",
    summary: "two parts, a small hot one that takes most requests and a cold one",
    positional: None,
    parameters: &[
        Parameter {
            name: "hot",
            kind: Kind::Share,
            default: Default::Text("0.2"),
            range: (0.0, 1.0),
            doc: "Share of the space that is hot.",
        },
        Parameter {
            name: "to",
            kind: Kind::Share,
            default: Default::Text("0.8"),
            range: (0.0, 1.0),
            doc: "Share of the requests that go to the hot part.",
        },
        Parameter {
            name: "scatter",
            kind: Kind::Choice(&["on", "off"]),
            default: Default::Text("off"),
            range: (0.0, 0.0),
            doc: "off: the hot part is the beginning of the space; on: hot extents lie anywhere.",
        },
    ],
    common: true,
    defaults: &[],
    construct,
};

struct HotCold {
    rng: Rng,
    hot: u64,
    cold: u64,
    to: f64,
    scatter: Option<Scatter>,
    align: u64,
}

impl Place for HotCold {
    #[inline]
    fn offset(&mut self, _: SizeClass, _: Operation) -> u64 {
        let index =
            if self.rng.chance(self.to) { self.rng.below(self.hot) } else { self.hot + self.rng.below(self.cold) };
        self.align * self.scatter.as_ref().map_or(index, |scatter| scatter.of(index))
    }
}

fn construct(arguments: &Arguments, context: &Context) -> Result<SpecSource, WorkloadError> {
    let space = Space::new(arguments, context)?;
    let rng = Rng::new(context.seed);
    let count = space.slots();
    let hot = (count as f64 * arguments.real("hot")).round() as u64;
    if hot == 0 || hot >= count {
        let what = format!("hot: {hot} of {count} extents would be hot");
        return Err(arguments.fault(what, "leave at least one extent in each part, or use `uniform`"));
    }
    let scatter = (arguments.word("scatter") == Some("on")).then(|| Scatter::new(count, rng.fork("generate scatter")));
    let to = arguments.real("to");
    let place = HotCold { rng: rng.fork("generate place"), hot, cold: count - hot, to, scatter, align: space.align };
    common::source(arguments, context, &space, place)
}
