//! Devices whose reads take what the codes of their pages need at an age, and how much can be written to them until
//! the codes give up.
//!
//! ```text
//!   device, latencies, P/E cycles, retention ──▶ error rate of each mode ──▶ code, trials ──▶ times of reads, programs
//!   erases for what the host wrote, cycles that the codes of its modes still bear ──────────▶ lifetime
//! ```
//!
//! Normal pages have the usual BCH code, the others the strongest LDPC code that was tried and fits the spare area. A
//! simulated read transfers its page once; what an LDPC read transfers beyond that keeps the die instead.

use crate::report::{Fields, Life, Lifetime, SchemeResult, Workload, ratio};
use crate::units;
use flash::device::{Device, DeviceError, Key, Overrides, PageTimes};
use reliability::cells::{Age, Mode, Retention};
use reliability::{Borne, Chip, ChipError, Fitted, Profile};
use std::fmt::Display;

/// The keys of a device that say at which age it is.
pub const KEYS: [Key; 3] = [
    Key {
        name: "latencies",
        unit: "",
        effect: "whose times reads and programs take: the device's own, the paper's constants, or derived from codes",
        range: "device, paper or derived",
    },
    Key {
        name: "pe_cycles",
        unit: "cycles",
        effect: "P/E cycles that blocks have been through, with latencies=derived or paper; unset, none",
        range: "0 to five times the endurance",
    },
    Key {
        name: "retention",
        unit: "",
        effect: "time since pages were programmed, with latencies=derived or paper; unset, none",
        range: "0 to 10y, with h, d or y",
    },
];

/// A time of a device: its key, and what the user gave.
type Time = (&'static str, fn(&Overrides) -> Option<f64>);

/// Times that `latencies` gives. The first two are a chip's own, from which `derived` begins.
const GIVEN: [Time; 6] = [
    ("read_us", |asked| asked.read_us),
    ("program_us", |asked| asked.program_us),
    ("medium_read_us", |asked| asked.medium_read_us),
    ("medium_program_us", |asked| asked.medium_program_us),
    ("low_cost_read_us", |asked| asked.low_cost_read_us),
    ("low_cost_program_us", |asked| asked.low_cost_program_us),
];

/// Whose times reads and programs take, and at which age.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Ageing {
    profile: Option<Profile>,
    pe_cycles: Option<u32>,
    retention: Option<Retention>,
}

impl Ageing {
    /// Takes the value of one of [`KEYS`]; false if it is none of them.
    ///
    /// # Errors
    /// What to give instead.
    pub fn set(&mut self, key: &str, text: &str) -> Result<bool, String> {
        match key {
            "latencies" => {
                self.profile = match text {
                    "device" => None,
                    "paper" => Some(Profile::Paper),
                    "derived" => Some(Profile::Derived),
                    _ => return Err("give device, paper or derived".to_owned()),
                }
            }
            "pe_cycles" => {
                let count = units::parse_count(text).map_err(|error| format!("give {}", error.accepted))?;
                self.pe_cycles = Some(u32::try_from(count).map_err(|_| "give less than 2^32".to_owned())?);
            }
            "retention" => self.retention = Some(text.parse().map_err(|fix| format!("give {fix}"))?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn age(&self, chip: &Chip) -> Age {
        let retention_h = self.retention.unwrap_or_default().0;
        Age { pe_cycles: self.pe_cycles.unwrap_or(0), endurance: chip.endurance, retention_h, reads: 0 }
    }

    /// The times that are not the user's.
    fn given(&self) -> &'static [Time] {
        match self.profile {
            None => &[],
            Some(Profile::Derived) => &GIVEN[2..],
            Some(Profile::Paper) => &GIVEN,
        }
    }

    /// Whether `latencies` says what a key is: the user may not, and a device of the user's own need not.
    pub fn gives(&self, key: &str) -> bool {
        self.given().iter().any(|(given, _)| *given == key)
    }

    /// The device that `build` makes of what was asked for, with the times that `latencies` gives. Under `paper`,
    /// what follows from `read_us` and `program_us` follows from the paper's; under `derived`, from the chip's own.
    ///
    /// # Errors
    /// An age or a time without effect, a device of which the model says nothing, pages that a code does not bear, and
    /// those of `build`.
    pub fn build(
        &self,
        asked: &Overrides,
        build: impl Fn(&Overrides) -> Result<Device, DeviceError>,
    ) -> Result<Device, DeviceError> {
        let idle = |key, value, what: String, fix: &str| Err(DeviceError { key, value, what, fix: fix.to_owned() });
        let Some(profile) = self.profile else {
            let given = [
                ("pe_cycles", self.pe_cycles.map(|n| n.to_string())),
                ("retention", self.retention.map(|n| n.to_string())),
            ];
            return match given.into_iter().find_map(|(key, value)| Some((key, value?))) {
                Some((key, value)) => {
                    idle(key, value, "has no effect on a device's own latencies".to_owned(), "add latencies=derived")
                }
                None => build(asked),
            };
        };
        if let Some((key, us)) = self.given().iter().find_map(|(key, of)| Some((*key, of(asked)?))) {
            let what = format!("has no effect beside latencies={}, which says what it is", profile.name());
            return idle(key, us.to_string(), what, "leave one of the two out");
        }
        let own = match profile {
            Profile::Derived => *asked,
            // Of the chip's own times the paper leaves only the transfers.
            Profile::Paper => Overrides { read_us: Some(0.0), oob_read_us: None, program_us: Some(0.0), ..*asked },
        };
        let mut device = build(&own)?;
        let [normal, medium, low_cost] = self.times(profile, &device)?;
        if profile == Profile::Paper {
            let [read_us, program_us] = [normal.read_ns, normal.program_ns].map(|ns| Some(ns as f64 / 1e3));
            device = build(&Overrides { read_us, program_us, ..*asked }).map_err(|error| match error.key {
                // Its range ends with a time that the user did not write.
                "oob_read_us" => DeviceError { fix: format!("give 0 to {} µs", normal.read_ns as f64 / 1e3), ..error },
                _ => error,
            })?;
        }
        let timing = &mut device.timing;
        (timing.read_ns, timing.program_ns) = (normal.read_ns, normal.program_ns);
        (timing.medium, timing.low_cost) = (medium, low_cost);
        Ok(device)
    }

    /// What reads and programs of pages of each mode take.
    fn times(&self, profile: Profile, device: &Device) -> Result<[PageTimes; 3], DeviceError> {
        let refuse = |what: &dyn Display| DeviceError {
            key: "latencies",
            value: profile.name().to_owned(),
            what: format!("cannot be had: {what}"),
            fix: "or leave latencies out".to_owned(),
        };
        let chip = Chip::of(device).map_err(|error| refuse(&error))?;
        let codes = codes(&chip, profile).map_err(|error| refuse(&error))?;
        let (age, own) = (self.age(&chip), device.timing);
        let mut times = [PageTimes { read_ns: 0, program_ns: 0 }; 3];
        for (times, (mode, code)) in times.iter_mut().zip(codes) {
            let rber = chip.rber(mode, &age).map_err(|error| refuse(&error))?.mean;
            let Some(parts) = code.cost.parts(mode, rber) else {
                let (spec, limit, retention) = (code.spec, code.cost.limit(), Retention(age.retention_h));
                let most = match chip.borne_cycles(mode, &code, age.retention_h) {
                    Some(borne) => format!("up to {} cycles", borne.cycles()),
                    None => "not even those of a new chip".to_owned(),
                };
                return Err(refuse(&format_args!(
                    "after {} cycles and {retention} {} pages have a raw bit error rate of {rber:.1e}, and {spec} \
                     bears {limit:.1e} ({most}): give fewer pe_cycles, a shorter retention, or more spare bytes (oob) \
                     for a stronger code",
                    age.pe_cycles,
                    mode.name()
                )));
            };
            // The channel is charged for one transfer of its own.
            times.read_ns = parts.latency_ns().saturating_sub(own.page_transfer_ns);
            times.program_ns = profile.program_ns(mode, own.program_ns);
        }
        Ok(times)
    }

    /// What of [`KEYS`] the user gave, as reports have it; nothing where latencies are the device's own.
    pub fn fields(&self) -> Fields {
        let mut fields = Fields::new();
        if let Some(profile) = self.profile {
            fields.insert("latencies".to_owned(), profile.name().into());
            fields.insert("pe_cycles".to_owned(), self.pe_cycles.unwrap_or(0).into());
            fields.insert("retention".to_owned(), self.retention.unwrap_or_default().to_string().into());
        }
        fields
    }

    /// The first of [`KEYS`] that the user gave.
    pub fn key(&self) -> Option<&'static str> {
        let given = [self.profile.is_some(), self.pe_cycles.is_some(), self.retention.is_some()];
        KEYS.iter().zip(given).find_map(|(key, given)| given.then_some(key.name))
    }

    /// What was decided, in a sentence; of a device that [`Ageing::build`] gave its times.
    pub fn sentence(&self, device: &Device) -> Option<String> {
        let profile = self.profile?;
        let chip = Chip::of(device).ok()?;
        let age = self.age(&chip);
        let of = |mode, code: &Fitted, read_ns: u64| {
            let rber = chip.rber(mode, &age).ok()?.mean;
            Some(format!(
                "{} pages, {rber:.1e} bits wrong, with {} in {:.1} µs",
                mode.name(),
                code.spec,
                read_ns as f64 / 1e3
            ))
        };
        let [(_, bch), _, (_, ldpc)] = codes(&chip, profile).ok()?;
        Some(format!(
            "Latencies are {} for pages after {} cycles and {}: {}; {} (docs/reliability.md; transfers apart).",
            profile.name(),
            age.pe_cycles,
            Retention(age.retention_h),
            of(Mode::Normal, &bch, device.timing.read_ns)?,
            of(Mode::LowCost, &ldpc, device.timing.low_cost.read_ns)?
        ))
    }

    /// How much the host can still write to the device of this age until the codes no longer bear what it wrote, if it
    /// goes on like this and wear is even; `None` if latencies have no codes, or nothing was erased.
    pub fn lifetime(&self, device: &Device, workload: &Workload, result: &SchemeResult) -> Option<Lifetime> {
        let profile = self.profile?;
        let chip = Chip::of(device).ok()?;
        let Age { pe_cycles: past, retention_h, .. } = self.age(&chip);
        let used = |mode| match (&result.ecc, mode) {
            (None, mode) => mode == Mode::Normal,
            (Some(ecc), Mode::Normal) => {
                ecc.normal_writes + ecc.rewrites > 0 || ecc.low_cost_copy_ratio.is_some_and(|share| share < 1.0)
            }
            (Some(ecc), Mode::Medium) => ecc.medium_writes > 0,
            (Some(ecc), Mode::LowCost) => {
                ecc.low_cost_writes > 0 || ecc.low_cost_copy_ratio.is_some_and(|share| share > 0.0)
            }
        };
        let codes = codes(&chip, profile).ok()?.into_iter().filter(|(mode, _)| used(*mode));
        let borne = codes.filter_map(|(mode, code)| chip.borne_cycles(mode, &code, retention_h)).min()?;
        let pe_cycles = borne.cycles();
        let page_bytes = u64::from(device.geometry.page_bytes);
        let written = match &result.until {
            Some(until) => until.host_bytes_written,
            None => workload.write_pages * page_bytes,
        };
        let blocks = f64::from(device.geometry.block_count());
        let left = f64::from(pe_cycles.saturating_sub(past));
        let host_bytes = ratio(written as f64 * blocks * left, result.flash.erases as f64)?;
        let exported = u64::from(device.logical_pages) * page_bytes;
        let life = Life { pe_cycles, host_bytes, drive_writes: ratio(host_bytes, exported as f64)? };
        let (known, at_least) = match borne {
            Borne::UpTo(_) => (Some(life), None),
            Borne::AtLeast(_) => (None, Some(life)),
        };
        Some(Lifetime { retention_hours: retention_h, known, at_least })
    }
}

/// The codes of pages in each mode.
fn codes(chip: &Chip, profile: Profile) -> Result<[(Mode, Fitted); 3], ChipError> {
    let ldpc = chip.ldpc(profile)?;
    Ok([(Mode::Normal, chip.bch(profile)?), (Mode::Medium, ldpc.clone()), (Mode::LowCost, ldpc)])
}

#[cfg(test)]
mod tests {
    use crate::device::DeviceSpec;
    use crate::ecc::Ecc;
    use crate::report::{FlashTotals, Life, SchemeResult, Workload};
    use flash::device::Device;
    use reliability::cells::Mode;

    fn built(text: &str) -> Result<Device, String> {
        let spec: DeviceSpec = text.parse().map_err(|error| format!("{error}"))?;
        spec.build(Some(1 << 30)).map_err(|error| error.to_string())
    }

    fn reads_us(text: &str) -> [f64; 3] {
        let timing = built(text).unwrap().timing;
        [timing.read_ns, timing.medium.read_ns, timing.low_cost.read_ns].map(|ns| ns as f64 / 1e3)
    }

    #[test]
    fn the_papers_constants_are_a_profile() {
        let paper = built("ecc-paper:oob=744,endurance=3000,latencies=paper").unwrap();
        let own = built("ecc-paper:oob=744").unwrap();
        assert_eq!(paper.timing, own.timing);
        let ns = |us: f64| (us * 1e3) as u64;
        let [normal, medium, low_cost] = [[75.0, 1300.0], [107.5, 866.667], [140.0, 650.0]].map(|us| us.map(ns));
        assert_eq!([paper.timing.read_ns, paper.timing.program_ns], normal);
        assert_eq!([paper.timing.medium.read_ns, paper.timing.medium.program_ns], medium);
        assert_eq!([paper.timing.low_cost.read_ns, paper.timing.low_cost.program_ns], low_cost);
    }

    /// What broke: `read_us = 500` under `paper` read in 75 µs, with spare areas in 500.
    #[test]
    fn times_that_latencies_give_are_nobody_elses() {
        let device = "ecc-paper:oob=744,endurance=3000,latencies=";
        for (key, _) in super::GIVEN {
            let text = format!("{device}paper,{key}=500");
            let expected =
                "= 500 has no effect beside latencies=paper, which says what it is; leave one of the two out";
            assert_eq!(built(&text).unwrap_err(), format!("{key} {expected}"));
            let derived = built(&text.replace("paper,", "derived,"));
            assert_eq!(derived.is_err(), !["read_us", "program_us"].contains(&key), "{key}");
            if let Err(refused) = derived {
                assert!(refused.contains("has no effect beside latencies=derived"), "{refused}");
            }
        }
        let own = built(&format!("{device}derived,read_us=500,program_us=900,oob_read_us=400")).unwrap().timing;
        assert!((500_000..502_000).contains(&own.read_ns), "a chip's own times are where `derived` begins: {own:?}");
        assert_eq!((own.program_ns, own.low_cost.program_ns, own.oob_read_ns), (900_000, 480_000, 400_000));
    }

    /// What broke: spare areas and partial programs kept their shares of times that the device no longer had.
    #[test]
    fn what_follows_from_times_follows_from_the_papers() {
        let chip = "mlc-l95b:endurance=3000,oob=744,page=8KiB,bus_mbps=0,latencies=";
        let times = |text: &str| built(text).unwrap().timing;
        let (own, paper) = (times(&format!("{chip}device")), times(&format!("{chip}paper")));
        let share = |part: u64, whole: u64| part as f64 / whole as f64;
        assert_ne!((own.read_ns, own.program_ns), (paper.read_ns, paper.program_ns));
        assert_eq!((paper.read_ns, paper.program_ns), (75_000, 1_300_000));
        for timing in [own, paper] {
            let oob = share(timing.oob_read_ns, timing.read_ns);
            assert!((oob - share(own.oob_read_ns, own.read_ns)).abs() < 1e-4, "{timing:?}");
            let partial = share(timing.partial_program_ns, timing.program_ns);
            assert!((partial - share(own.partial_program_ns, own.program_ns)).abs() < 1e-4, "{timing:?}");
        }
        assert_eq!((paper.slc.read_ns, paper.slc.program_ns), (own.slc.read_ns, own.slc.program_ns), "the preset's");
        let said = times(&format!("{chip}paper,oob_read_us=60,partial_program_us=7"));
        assert_eq!((said.oob_read_ns, said.partial_program_ns), (60_000, 7_000), "beyond the chip's own read of 56 µs");
        let far = built(&format!("{chip}paper,oob_read_us=76")).unwrap_err();
        assert_eq!(far, "oob_read_us = 76 is out of range; give 0 to 75 µs");
        // A transfer is part of the paper's read.
        let bus = times(&format!("{chip}paper").replace("bus_mbps=0", "bus_mbps=200"));
        assert_eq!(bus.read_ns + bus.page_transfer_ns, 75_000);
        assert!(bus.oob_read_ns <= bus.read_ns, "{bus:?}");
    }

    #[test]
    fn reads_take_longer_as_the_chip_ages_and_those_under_ldpc_most() {
        let new = reads_us("ecc-paper:oob=744,endurance=3000,latencies=derived");
        let old = reads_us("ecc-paper:oob=744,endurance=3000,latencies=derived,pe_cycles=3k,retention=1y");
        assert!(new[0] >= 75.0 && new.is_sorted(), "{new:?}");
        assert!(old.is_sorted() && new.iter().zip(&old).all(|(new, old)| new < old), "{new:?} {old:?}");
        assert!(old[0] < 78.0 && old[2] > 85.0, "BCH hardly shows, LDPC does: {old:?}");
        let timing = built("ecc-paper:oob=744,endurance=3000,latencies=derived").unwrap().timing;
        // 15, 10 and 8 pulses.
        assert_eq!(
            [timing.program_ns, timing.medium.program_ns, timing.low_cost.program_ns],
            [1_300_000, 866_666, 693_333]
        );
    }

    #[test]
    fn what_the_channel_is_charged_for_is_not_charged_twice() {
        let free = built("mlc-mt29f64g08cbabx:latencies=derived").unwrap().timing;
        let cost = reliability::Chip::of(&built("mlc-mt29f64g08cbabx").unwrap()).unwrap();
        let bch = cost.bch(reliability::Profile::Derived).unwrap().cost;
        assert!(free.page_transfer_ns > 0);
        let age = reliability::cells::Age { pe_cycles: 0, endurance: 3000, retention_h: 0.0, reads: 0 };
        let rber = cost.rber(Mode::Normal, &age).unwrap().mean;
        assert_eq!(free.read_ns + free.page_transfer_ns, bch.latency_ns(Mode::Normal, rber).unwrap());
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_sum() {
        let refused = |text: &str| built(text).unwrap_err();
        assert_eq!(
            refused("ecc-paper:pe_cycles=3000"),
            "pe_cycles = 3000 has no effect on a device's own latencies; add latencies=derived"
        );
        assert!(refused("ecc-paper:latencies=mine").contains("device, paper or derived"));
        assert!(refused("ecc-paper:latencies=derived,retention=1").contains("12h, 30d or 1y"));
        assert!(refused("ecc-paper:latencies=derived").contains("--device ecc-paper:endurance=3000"));
        assert!(refused("agrawal08:latencies=derived").contains("agrawal08 has SLC cells"));
        let far = refused("ecc-paper:endurance=3000,latencies=derived,pe_cycles=16k");
        assert!(far.contains("16000 P/E cycles: the model holds up to 5 x the endurance"), "{far}");
        let worn = refused("ecc-paper:endurance=3000,latencies=derived,pe_cycles=3000,retention=1y");
        assert!(worn.contains("low-cost pages have a raw bit error rate of") && worn.contains("(up to "), "{worn}");
    }

    /// A run in which the host wrote 1000 pages, for 10 erases.
    fn worked() -> (Workload, SchemeResult) {
        let flash = FlashTotals { erases: 10, ..FlashTotals::default() };
        (Workload { write_pages: 1000, ..Workload::default() }, SchemeResult { flash, ..SchemeResult::default() })
    }

    #[test]
    fn a_lifetime_is_what_erases_and_codes_leave() {
        let spec: DeviceSpec = "ecc-paper:oob=744,endurance=3000,latencies=derived,retention=1y".parse().unwrap();
        let device = spec.build(Some(1 << 30)).unwrap();
        let (workload, plain) = worked();
        let known = |result: &SchemeResult| spec.ageing.lifetime(&device, &workload, result).unwrap().known.unwrap();
        let normal = known(&plain);
        let blocks = f64::from(device.geometry.block_count());
        assert_eq!(normal.host_bytes, 1000.0 * 8192.0 * blocks * f64::from(normal.pe_cycles) / 10.0);
        assert_eq!(normal.drive_writes, normal.host_bytes / f64::from(1 << 30));
        let low_cost = Ecc { low_cost_writes: 1000, normal_writes: 0, ..Ecc::default() };
        let differentiated = SchemeResult { ecc: Some(low_cost), ..plain.clone() };
        let low_cost = known(&differentiated);
        assert_ne!(low_cost.pe_cycles, normal.pe_cycles);
        let both = Ecc { low_cost_writes: 500, normal_writes: 500, ..Ecc::default() };
        let both = known(&SchemeResult { ecc: Some(both), ..plain.clone() });
        assert_eq!(both.pe_cycles, low_cost.pe_cycles.min(normal.pe_cycles), "the weaker mode decides");
        let idle = SchemeResult { flash: FlashTotals::default(), ..plain };
        assert_eq!(spec.ageing.lifetime(&device, &workload, &idle), None);
        let own: DeviceSpec = "ecc-paper".parse().unwrap();
        assert_eq!(own.ageing.lifetime(&device, &workload, &differentiated), None);
    }

    /// What broke: a device at the end of its codes had as much to be written as a new one.
    #[test]
    fn cycles_that_blocks_have_been_through_are_gone() {
        let (workload, plain) = worked();
        let at = |pe_cycles: u32| {
            let text = format!("ecc-paper:oob=744,endurance=3000,latencies=derived,retention=1y,pe_cycles={pe_cycles}");
            let spec: DeviceSpec = text.parse().unwrap();
            let device = spec.build(Some(1 << 30)).unwrap();
            spec.ageing.lifetime(&device, &workload, &plain).unwrap().known.unwrap()
        };
        let new = at(0);
        let left = |used: u32| f64::from(new.pe_cycles - used) / f64::from(new.pe_cycles);
        for used in [3000, new.pe_cycles] {
            let Life { pe_cycles, host_bytes, drive_writes } = at(used);
            assert_eq!(pe_cycles, new.pe_cycles, "counted from a new chip");
            assert!((host_bytes / new.host_bytes - left(used)).abs() < 1e-9, "{used}: {host_bytes}");
            assert!((drive_writes / new.drive_writes - left(used)).abs() < 1e-9, "{used}: {drive_writes}");
        }
    }

    /// What broke: a life was told to end with the model.
    #[test]
    fn where_the_model_ends_a_lifetime_is_a_bound() {
        let spec: DeviceSpec = "ecc-paper:oob=744,endurance=3000,latencies=derived,pe_cycles=1k".parse().unwrap();
        let device = spec.build(Some(1 << 30)).unwrap();
        let (workload, plain) = worked();
        let low_cost = Ecc { low_cost_writes: 1000, normal_writes: 0, ..Ecc::default() };
        let low_cost = SchemeResult { ecc: Some(low_cost), ..plain };
        let life = spec.ageing.lifetime(&device, &workload, &low_cost).unwrap();
        assert_eq!(life.known, None);
        let bound = life.at_least.unwrap();
        assert_eq!(bound.pe_cycles, 15_000);
        assert_eq!(bound.host_bytes, 1000.0 * 8192.0 * f64::from(device.geometry.block_count()) * 14_000.0 / 10.0);
    }
}
