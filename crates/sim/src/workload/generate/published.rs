//! `twin:NAME`: twins of the workloads of the papers.
//!
//! A published workload is a handful of statistics. Its twin takes the *structure* (ages of reuse, runs, modes of the
//! sizes, burstiness) from a model fitted to what we hold of the trace itself, or of the nearest trace that we
//! captured, and then *every published statistic* replaces the fitted one. Each number says where it is from
//! ([`Label`]). Nothing is ever adjusted to reproduce a published *result*.
//!
//! The papers describe Financial1 differently (page-rounded sizes, other extracts), so it has a twin per paper.
//! The base models in `fitted/` were made by `crates/sim/examples/twin.rs`; `docs/twins.md` lists the commands.

use super::spec::{Arguments, Default, Kind, Parameter};
use super::twin::{Twin, TwinModel};
use super::{Context, Generator, SpecSource};
use crate::workload::WorkloadError;

/// The word that stands with a twin that does not predict write amplification, or of which that is not known.
pub const ROUGH: &str = "rough";

/// A twin is [`ROUGH`] if its write amplification under `page` is further than this from its original's, percent.
pub const ROUGH_PERCENT: f64 = 25.0;

/// How far a number can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Label {
    /// A paper states it.
    Published,
    /// It follows from numbers that papers state.
    Derived,
    /// Fitted to the part of the trace itself, or of a recording of the same workload, that we hold.
    Fitted,
    /// Taken from elsewhere for want of anything better.
    Assumed,
}

/// A number, where it is from, and how far it can be trusted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sourced {
    /// The value, in the unit of the statistic.
    pub value: f64,
    /// Paper and table, or the trace.
    pub source: &'static str,
    /// How it was come by.
    pub label: Label,
}

const fn published(value: f64, source: &'static str) -> Option<Sourced> {
    Some(Sourced { value, source, label: Label::Published })
}

const fn derived(value: f64, source: &'static str) -> Option<Sourced> {
    Some(Sourced { value, source, label: Label::Derived })
}

const fn assumed(value: f64, source: &'static str) -> Option<Sourced> {
    Some(Sourced { value, source, label: Label::Assumed })
}

/// A row: a workload, its statistics, and the model that lends the structure. `None`: the base model's value stays.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Published {
    /// Name after `twin:`.
    pub name: &'static str,
    /// Which workload, by whose description.
    pub summary: &'static str,
    /// Requests of the whole workload.
    pub requests: Option<Sourced>,
    /// Share of reads, percent.
    pub reads_percent: Option<Sourced>,
    /// Mean size of a request, KiB.
    pub mean_kib: Option<Sourced>,
    /// Mean size of a write, sectors of 512 bytes; instead of `mean_kib`.
    pub write_sectors: Option<Sourced>,
    /// Address space, GiB.
    pub span_gib: Option<Sourced>,
    /// Share of requests that go on where the one before ended, percent.
    pub sequential_percent: Option<Sourced>,
    /// Mean gap between arrivals, milliseconds.
    pub gap_ms: Option<Sourced>,
    /// Where the structure is from.
    pub base: Base,
    /// How far its write amplification under `page` is from that of its original's requests, as far as there are any,
    /// percent (`docs/twins.md`; `crates/sim/examples/twin_validation.rs`). `None`: not known.
    pub amplification_percent: Option<f64>,
}

/// A base model and its standing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Base {
    /// The trace it was fitted to, as in `docs/twins.md`.
    pub trace: &'static str,
    /// [`Label::Fitted`] if it is the same workload, [`Label::Assumed`] if another stands in.
    pub label: Label,
    json: &'static str,
}

const FINANCIAL1: Base =
    Base { trace: "financial1, first 10,000", label: Label::Fitted, json: include_str!("fitted/financial1.json") };
const WEBSEARCH: Base =
    Base { trace: "websearch, first 24,783", label: Label::Fitted, json: include_str!("fitted/websearch.json") };
const POSTMARK: Base =
    Base { trace: "captured_postmark, 1,000,000", label: Label::Fitted, json: include_str!("fitted/postmark.json") };
const LARGEFILE: Base =
    Base { trace: "captured_largefile, all", label: Label::Fitted, json: include_str!("fitted/largefile.json") };
const FOURVMS: Base =
    Base { trace: "captured_fourvms, 200,000", label: Label::Fitted, json: include_str!("fitted/fourvms.json") };
const HPLAJW: Base = Base { trace: "hplajw, all", label: Label::Assumed, json: include_str!("fitted/hplajw.json") };
const CLOUDPHYSICS: Base =
    Base { trace: "cloudphysics, all", label: Label::Assumed, json: include_str!("fitted/cloudphysics.json") };

const fn instead(base: Base) -> Base {
    Base { label: Label::Assumed, ..base }
}

const NOTHING: Published = Published {
    name: "",
    summary: "",
    requests: None,
    reads_percent: None,
    mean_kib: None,
    write_sectors: None,
    span_gib: None,
    sequential_percent: None,
    gap_ms: None,
    base: FINANCIAL1,
    amplification_percent: None,
};

const LSFTL: &str = "the LSFTL paper, Table II";
const ROSE: &str = "the ROSE thesis, Table 5.2";
const ECC: &str = "the differentiated-ECC paper, Table I";
const DFTL: &str = "the DFTL paper, Table 3";

const FINANCIAL1_S0: Published = Published {
    name: "financial1-s0",
    summary: "Financial1 as the LSFTL paper describes it",
    requests: published(5_334_945.0, LSFTL),
    reads_percent: published(19.41, LSFTL),
    mean_kib: published(6.87, LSFTL),
    span_gib: published(4.0, LSFTL),
    amplification_percent: Some(102.0),
    ..NOTHING
};

/// All published twins.
pub const TWINS: &[Published] = &[
    Published { name: "financial1", summary: "Financial1; the same as financial1-s0", ..FINANCIAL1_S0 },
    FINANCIAL1_S0,
    Published {
        name: "financial1-s2",
        summary: "Fin1 as the ROSE thesis describes it: its writes",
        requests: published(5_334_987.0, "SPC, the whole trace"),
        reads_percent: derived(23.12, "the ROSE thesis, Table 5.2: 30,517,409 / 7.44 = 4.10 M writes of 5.33 M"),
        write_sectors: published(7.44, ROSE),
        span_gib: assumed(16.67, ECC),
        amplification_percent: Some(45.0),
        ..NOTHING
    },
    Published {
        name: "financial1-s3",
        summary: "Financial1 as the differentiated-ECC paper describes it",
        requests: published(5_334_857.0, ECC),
        reads_percent: published(23.16, ECC),
        mean_kib: published(15.15, ECC),
        span_gib: published(16.67, ECC),
        amplification_percent: Some(183.0),
        ..NOTHING
    },
    Published {
        name: "financial1-s4",
        summary: "Financial as the DFTL paper describes it",
        reads_percent: published(9.0, DFTL),
        mean_kib: published(4.38, DFTL),
        span_gib: assumed(4.0, "the LSFTL paper's Financial1; the DFTL paper says only \"active region\""),
        sequential_percent: published(2.0, DFTL),
        gap_ms: published(133.50, DFTL),
        amplification_percent: Some(31.0),
        ..NOTHING
    },
    Published {
        name: "financial2",
        summary: "Financial2 as the LSFTL paper describes it",
        requests: published(3_698_863.0, LSFTL),
        reads_percent: published(81.05, LSFTL),
        mean_kib: published(5.88, LSFTL),
        span_gib: published(4.0, LSFTL),
        base: instead(FINANCIAL1),
        ..NOTHING
    },
    Published {
        name: "financial2-s2",
        summary: "Fin2 as the ROSE thesis describes it: its writes",
        requests: assumed(3_698_863.0, LSFTL),
        reads_percent: derived(
            82.36,
            "the thesis, Table 5.2: 3,810,800 / 5.84 = 652,534 writes; the LSFTL paper's request count",
        ),
        write_sectors: published(5.84, ROSE),
        span_gib: assumed(4.0, LSFTL),
        base: instead(FINANCIAL1),
        ..NOTHING
    },
    Published {
        name: "websearch",
        summary: "WebSearch as the DFTL paper describes it",
        reads_percent: published(99.0, DFTL),
        mean_kib: published(14.86, DFTL),
        sequential_percent: published(14.0, DFTL),
        gap_ms: published(9.97, DFTL),
        base: WEBSEARCH,
        ..NOTHING
    },
    Published {
        name: "cello",
        summary: "Cello as the LSFTL paper describes it",
        requests: published(259_892.0, LSFTL),
        reads_percent: published(30.80, LSFTL),
        mean_kib: published(10.54, LSFTL),
        span_gib: published(8.0, LSFTL),
        gap_ms: assumed(41.01, DFTL),
        base: HPLAJW,
        ..NOTHING
    },
    Published {
        name: "cello-s4",
        summary: "Cello99 as the DFTL paper describes it",
        reads_percent: published(35.0, DFTL),
        mean_kib: published(5.03, DFTL),
        span_gib: assumed(8.0, LSFTL),
        sequential_percent: published(1.0, DFTL),
        gap_ms: published(41.01, DFTL),
        base: HPLAJW,
        ..NOTHING
    },
    Published {
        name: "tpch",
        summary: "TPC-H as the DFTL paper describes it",
        reads_percent: published(95.0, DFTL),
        mean_kib: published(12.82, DFTL),
        span_gib: assumed(16.0, "half of the DFTL paper's 32 GiB device"),
        sequential_percent: published(18.0, DFTL),
        gap_ms: published(155.56, DFTL),
        base: instead(WEBSEARCH),
        ..NOTHING
    },
    Published {
        name: "pc",
        summary: "a desktop PC's system partition as the LSFTL paper describes it",
        requests: published(305_057.0, LSFTL),
        reads_percent: published(57.27, LSFTL),
        mean_kib: published(19.63, LSFTL),
        span_gib: published(8.0, LSFTL),
        base: CLOUDPHYSICS,
        ..NOTHING
    },
    Published {
        name: "linuxpc",
        summary: "ten days of a Linux laptop as the ROSE thesis describes it: its writes",
        requests: assumed(
            3_493_182.0,
            "the thesis, Table 5.2: 107,111,668 / 71.76 = 1,492,637 writes; the LSFTL paper's PC read share",
        ),
        reads_percent: assumed(57.27, "the LSFTL paper's PC"),
        write_sectors: published(71.76, ROSE),
        span_gib: assumed(80.0, "the thesis's device"),
        base: CLOUDPHYSICS,
        ..NOTHING
    },
    Published {
        name: "postmark",
        summary: "PostMark as the ROSE thesis describes it: its writes",
        requests: assumed(
            2_749_568.0,
            "the thesis, Table 5.2: 8,816,216 / 6.68 = 1,319,793 writes; our capture's read share",
        ),
        reads_percent: assumed(52.0, "captured_postmark"),
        write_sectors: published(6.68, ROSE),
        base: POSTMARK,
        amplification_percent: Some(0.0),
        ..NOTHING
    },
    Published {
        name: "largefile",
        summary: "MP3 files created and deleted as the ROSE thesis describes it: its writes",
        requests: derived(80_349.0, "the ROSE thesis, Table 5.2: 60,149,736 / 748.61; no reads assumed"),
        reads_percent: assumed(0.0, "captured_largefile"),
        write_sectors: published(748.61, ROSE),
        base: LARGEFILE,
        amplification_percent: Some(23.0),
        ..NOTHING
    },
    Published {
        name: "4vms",
        summary: "four virtual machines as the ROSE thesis describes them: their writes",
        requests: assumed(
            3_134_039.0,
            "the ROSE thesis, Table 5.2: 109,804,512 / 35.39 = 3,102,699 writes; our capture's read share",
        ),
        reads_percent: assumed(1.0, "captured_fourvms"),
        write_sectors: published(35.39, ROSE),
        span_gib: assumed(80.0, "the thesis's device"),
        base: FOURVMS,
        amplification_percent: Some(0.0),
        ..NOTHING
    },
];

impl Published {
    /// Whether it is not known to predict write amplification within [`ROUGH_PERCENT`].
    pub fn is_rough(&self) -> bool {
        self.amplification_percent.is_none_or(|error| error.abs() > ROUGH_PERCENT)
    }

    /// The model: the base with every statistic of this row in place of the fitted one.
    pub fn model(&self) -> TwinModel {
        let mut model: TwinModel = serde_json::from_str(self.base.json).expect("fitted models are checked by a test");
        let value = |sourced: Option<Sourced>| sourced.map(|s| s.value);
        if let Some(percent) = value(self.reads_percent) {
            model.reads = percent / 100.0;
        }
        if let Some(kib) = value(self.mean_kib) {
            // Reads and writes keep their proportion.
            let mean = model.reads * model.read.bytes_mean() + (1.0 - model.reads) * model.write.bytes_mean();
            let factor = kib * 1024.0 / mean;
            for side in [&mut model.read, &mut model.write] {
                side.set_mean_bytes(side.bytes_mean() * factor);
            }
        }
        if let Some(sectors) = value(self.write_sectors) {
            model.write.set_mean_bytes(sectors * 512.0);
        }
        if let Some(gib) = value(self.span_gib) {
            model.span_bytes = (gib * (1u64 << 30) as f64) as u64 / (1 << 20) * (1 << 20);
        }
        if let Some(percent) = value(self.sequential_percent) {
            // Strictly sequential runs, unbroken by other requests, and no others.
            for side in [&mut model.read, &mut model.write] {
                side.continues = percent / 100.0;
                side.lags = vec![1.0];
                side.follows.fill(0.0);
            }
            model.sequential_strict = true;
        }
        if let Some(ms) = value(self.gap_ms) {
            model.gap_ns_mean = ms * 1e6;
        }
        if let (Some(requests), Some(_)) = (value(self.requests), value(self.span_gib)) {
            model.bound_first_touches(requests as u64);
        }
        model
    }
}

/// The table of all twins as Markdown: a row per number, with its source and standing. Part of `docs/twins.md`.
pub fn document() -> String {
    let mut text = "| twin | statistic | value | source | label |\n|---|---|---|---|---|\n".to_owned();
    for twin in TWINS {
        for (name, number) in [
            ("requests", twin.requests),
            ("reads %", twin.reads_percent),
            ("mean request KiB", twin.mean_kib),
            ("mean write sectors", twin.write_sectors),
            ("span GiB", twin.span_gib),
            ("sequential %", twin.sequential_percent),
            ("mean gap ms", twin.gap_ms),
        ] {
            if let Some(Sourced { value, source, label }) = number {
                let label = format!("{label:?}").to_lowercase();
                text += &format!("| {} | {name} | {value} | {source} | {label} |\n", twin.name);
            }
        }
        let label = format!("{:?}", twin.base.label).to_lowercase();
        text += &format!("| {} | all else | | {} | {label} |\n", twin.name, twin.base.trace);
        let word = if twin.is_rough() { ROUGH } else { "" };
        let known = twin.amplification_percent.map_or("not known".to_owned(), |error| format!("{error:+.0}"));
        text += &format!("| {} | WAF, error % | {known} | requests of the original | {word} |\n", twin.name);
    }
    text
}

/// The word that stands beside a workload's name wherever results are shown: [`ROUGH`] for a twin that does not predict
/// write amplification, or of which nobody knows whether it does, as of a twin of one's own file; `None` for all else.
pub fn word(spec: &str) -> Option<&'static str> {
    let (generator, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let rough = match generator {
        "twin" => {
            let first = rest.split(',').next().unwrap_or_default();
            let named = rest.split(',').find_map(|item| item.strip_prefix("of="));
            let name = named.unwrap_or(if first.is_empty() || first.contains('=') { "financial1" } else { first });
            find(name).is_some_and(Published::is_rough)
        }
        "twin-of" => true,
        _ => false,
    };
    rough.then_some(ROUGH)
}

/// The twin called `name`.
pub fn find(name: &str) -> Option<&'static Published> {
    TWINS.iter().find(|twin| twin.name == name)
}

const NAMES: [&str; TWINS.len()] = {
    let mut names = [""; TWINS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = TWINS[i].name;
        i += 1;
    }
    names
};

/// The row of the generator table.
pub(super) const ROW: Generator = Generator {
    name: "twin",
    summary: "synthetic imitation of a published trace; see docs/twins.md before drawing conclusions",
    positional: Some("of"),
    parameters: &[
        Parameter {
            name: "of",
            kind: Kind::Choice(&NAMES),
            default: Default::Text("financial1"),
            range: (0.0, 0.0),
            doc: "Which published workload.",
        },
        Parameter {
            name: "requests",
            kind: Kind::Count,
            default: Default::Derived("the whole workload's count, at most 1M"),
            range: (1.0, f64::INFINITY),
            doc: "How many requests.",
        },
    ],
    common: false,
    defaults: &[],
    construct,
};

fn construct(arguments: &Arguments, context: &Context) -> Result<SpecSource, WorkloadError> {
    let twin = arguments.word("of").and_then(find).expect("the choices are the table's names");
    let whole = twin.requests.map_or(1_000_000, |r| r.value as u64);
    let requests = arguments.integer("requests").unwrap_or(whole.min(1_000_000));
    Ok(Box::new(Twin::new(&twin.model(), requests, context.seed)?))
}

#[cfg(test)]
mod tests {
    use super::super::validate::measure;
    use super::*;

    #[test]
    fn the_table_is_sound_and_documented() {
        for row in TWINS {
            assert!(row.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            assert_eq!(TWINS.iter().filter(|other| other.name == row.name).count(), 1, "{}", row.name);
            assert!(!row.summary.is_empty());
        }
        let page = include_str!("../../../../../docs/twins.md");
        assert!(page.contains(&document()), "refresh docs/twins.md with `cargo run --example twin -- document`");
    }

    #[test]
    fn rough_twins_say_so() {
        for spec in ["twin", "twin:", "twin:financial1", "twin:requests=5,of=tpch", "twin-of:a.spc"] {
            assert_eq!(word(spec), Some(ROUGH), "{spec}");
        }
        for spec in
            ["twin:4vms,requests=5", "twin:of=largefile", "zipf:theta=0.9", "fin1.spc", "twin:nonsense", "uniform"]
        {
            assert_eq!(word(spec), None, "{spec}");
        }
        let near = Published { amplification_percent: Some(-24.0), ..NOTHING };
        assert!(!near.is_rough() && Published { amplification_percent: Some(-26.0), ..NOTHING }.is_rough());
    }

    #[test]
    fn first_touches_are_bounded_by_the_room_there_is() {
        let mut model = find("financial1").unwrap().model();
        model.span_bytes = 256 << 20;
        let (pages, requests) = (model.span_bytes >> 12, 300_000);
        let touched = |model: &TwinModel, requests| measure(&Twin::new(model, requests, 3).unwrap().collect(), 4096);
        let free = touched(&model, requests);
        assert!(free.touched_pages as f64 > 0.97 * pages as f64, "without a bound it fills up: {}", free.touched_pages);
        model.bound_first_touches(requests);
        let bounded = touched(&model, requests);
        let share = bounded.touched_pages as f64 / pages as f64;
        assert!((0.5..0.97).contains(&share), "{share} of the room after all requests");
        let half = touched(&model, requests / 2).touched_pages as f64 / pages as f64;
        assert!((0.3..0.9 * share).contains(&half), "{half} of the room after half of them");
        let before = model.clone();
        model.bound_first_touches(requests / 4);
        assert_eq!(model, before, "what fits stays as it is");
    }

    #[test]
    fn every_published_statistic_is_met() {
        for row in TWINS {
            let model = row.model();
            model.check().unwrap_or_else(|e| panic!("{}: {e}", row.name));
            let requests = Twin::new(&model, 100_000, 7).unwrap().collect();
            assert!(requests.iter().all(|r| r.offset + r.bytes <= model.span_bytes && r.bytes > 0), "{}", row.name);
            let profile = measure(&requests, 1 << 20);
            let near = |what: &str, target: Option<Sourced>, value: f64, tolerance: f64| {
                if let Some(target) = target {
                    let error = (value - target.value).abs();
                    assert!(error <= tolerance, "{}: {what} is {value}, not {}", row.name, target.value);
                }
            };
            let mean = profile.reads * profile.read_bytes_mean + (1.0 - profile.reads) * profile.write_bytes_mean;
            let within = |target: Option<Sourced>, share: f64| target.map_or(0.0, |t| t.value * share);
            near("read share", row.reads_percent, profile.reads * 100.0, 1.5);
            near("mean size", row.mean_kib, mean / 1024.0, within(row.mean_kib, 0.05));
            near("mean write", row.write_sectors, profile.write_bytes_mean / 512.0, within(row.write_sectors, 0.05));
            near("sequential", row.sequential_percent, profile.sequential * 100.0, 1.5);
            near("mean gap", row.gap_ms, profile.gap_ns_mean / 1e6, within(row.gap_ms, 0.15));
        }
    }
}
