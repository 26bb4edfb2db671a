//! Differentiated error correction in `page`: a read that orders a rewrite.
//!
//! A rewrite takes a page of the host's stream, as a host write does, and kills the one that it replaces, so that the
//! argument of the module's description holds: room is made for it, and it pays its share of a spread collection.

use super::Page;
use crate::Error;
use crate::Outcome;
use crate::parts::collector::Collects;
use flash::{Cause, Collection, Flash, Lpn, Mode, Oob, Payload, Ppn, Store};

impl Page {
    /// Writes a page in the mode that the policy names.
    #[inline(never)]
    pub(super) fn write_as_told<F: Flash>(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Outcome<F> {
        let mode = self.space.host_mode(lpn);
        self.write_in(flash, lpn, data, mode)
    }

    /// Reads a mapped page that is read so often that it is rewritten if it was programmed with low cost.
    #[cold]
    pub(super) fn read_hot<'f, F: Flash>(&'f mut self, flash: &mut F, lpn: Lpn) -> Outcome<F, &'f F::User> {
        let (oob, data) = flash.read(Ppn(self.map[lpn.index()]), Cause::Host)?;
        let held = self.space.ecc().hold::<F>(data.host().ok_or(Error::Corrupt)?);
        let rewritten = if oob.mode == Mode::LowCost && self.space.doomed.is_empty() {
            self.rewrite(flash, Oob { mode: Mode::Normal, ..oob }, held.get(0))
        } else {
            Ok(())
        };
        let data = self.space.ecc().keep(held);
        rewritten.map(|()| data)
    }

    /// Programs a page anew, beside the request that it was read for. Without room, it stays as it is.
    fn rewrite<F: Flash>(&mut self, flash: &mut F, oob: Oob, data: &F::User) -> Outcome<F> {
        let mut beside = Collection::on(flash);
        let put = self.put(&mut *beside, oob, Payload::User(data), Cause::EccRewrite);
        let beside = beside.pause();
        if put.is_ok() {
            self.space.collector.beside.supersedes();
        }
        self.space.collector.beside.done(flash, beside);
        let paid = match put {
            Ok((to, lane)) => {
                self.point(oob.address as usize, to.0);
                let die = lane.die(flash.geometry());
                if self.space.collector.is_spread() { self.pay_on(flash, die) } else { Ok(()) }
            }
            Err(error) => Err(error),
        };
        self.space.ecc().rewritten(flash, beside);
        match paid {
            Err(Error::Full) => Ok(()),
            paid => paid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ROW;
    use super::*;
    use crate::{Build, Ftl, Inspect, Settings};
    use alloc::string::String;
    use alloc::vec::Vec;
    use flash::device::{CellTimes, PageTimes, Server, Timing};
    use flash::{
        Brief, Clocked, CutPoint, Fault, FaultKind, Full, Geometry, Nand, NoData, Op, PowerCut, Rng, Tags, Timeline,
        Transcript,
    };

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = ROW.settings();
        pairs.iter().for_each(|(name, value)| settings.set(name, value).unwrap());
        settings
    }

    /// The differentiated-ECC paper's times, in microseconds.
    fn paper_times() -> Timing {
        let cells =
            CellTimes { read_ns: 75, oob_read_ns: 75, program_ns: 1300, partial_program_ns: 1300, erase_ns: 3800 };
        let CellTimes { read_ns, oob_read_ns, program_ns, partial_program_ns, erase_ns } = cells;
        Timing {
            read_ns,
            oob_read_ns,
            program_ns,
            partial_program_ns,
            erase_ns,
            page_transfer_ns: 0,
            oob_transfer_ns: 0,
            slc: cells,
            low_cost: PageTimes { read_ns: 140, program_ns: 650 },
            medium: PageTimes { read_ns: 107, program_ns: 867 },
        }
    }

    /// The specification's example, step by step: when the host has its page, and how much longer the flash works for
    /// the rewrite, on whose account.
    #[test]
    fn worked_example_of_the_specification() {
        worked_example("off");
        worked_example("on");
    }

    /// Whether the read waits for its rewrite (`ecc-rewrite-waits`).
    fn worked_example(read_waits: &str) {
        let g = Geometry { blocks_per_die: 8, pages_per_block: 8, ..Geometry::default() }.checked().unwrap();
        let mut flash = Timeline::new(Nand::<Tags, Full>::new(g), paper_times(), Server::Parallel);
        let mut page =
            Page::format(&mut flash, 16, &settings(&[("ecc", "differentiated"), ("ecc-rewrite-waits", read_waits)]))
                .unwrap();
        flash.reset();
        let x = Lpn(9);
        let mut mode = None;
        // 'w' or 'r', how long the host waits, the mode of its page afterwards, and the rewrites by then.
        let steps = [
            ('w', 650, Mode::LowCost, 0),
            ('w', 650, Mode::LowCost, 0),
            ('r', 140, Mode::LowCost, 0),
            ('w', 650, Mode::LowCost, 0),
            ('r', 140, Mode::LowCost, 0),
            ('r', 140, Mode::LowCost, 0),
            ('r', 140, Mode::Normal, 1),
            ('r', 75, Mode::Normal, 1),
            ('w', 1300, Mode::Normal, 1),
        ];
        for (step, (access, waits, then, rewrites)) in steps.into_iter().enumerate() {
            let now = flash.idle_at_ns();
            flash.arrive(now);
            flash.page_begin();
            if access == 'w' {
                page.write(&mut flash, x, &(step as u64)).unwrap();
                mode = Some(step as u64);
            } else {
                assert_eq!(page.read(&mut flash, x).unwrap().copied(), mode);
            }
            let rewrite = if step == 6 { 1300 } else { 0 };
            let within = if read_waits == "on" { rewrite } else { 0 };
            assert_eq!(flash.page_end().end_ns - now, waits + within, "step {step}");
            let Ok(Some(oob)) = flash.inner_mut().read_oob(Ppn(page.map[x.index()]), Cause::Recovery) else { panic!() };
            assert_eq!(oob.mode, then, "step {step}");
            assert_eq!(flash.tally().get(Cause::EccRewrite, Op::Program), rewrites, "step {step}");
            // If the read does not wait, the rewrite goes on after the host has its page.
            assert_eq!(flash.idle_at_ns() - now, waits + rewrite, "step {step}");
        }
        assert_eq!(flash.tally().by(Cause::EccRewrite), 1, "nothing is read for it again");
        page.audit(&mut flash).unwrap();
    }

    /// Random requests: what they did to the flash, and the scheme.
    fn transcript(pairs: &[(&str, &str)]) -> (Vec<String>, Page) {
        let g = Geometry { dies: 2, blocks_per_die: 16, pages_per_block: 8, ..Geometry::default() };
        let mut flash = Transcript::new(Nand::<NoData, Brief>::new(g.checked().unwrap()));
        let mut page = Page::format(&mut flash, 160, &settings(pairs)).unwrap();
        let mut rng = Rng::new(5);
        for _ in 0..6000 {
            let lpn = Lpn(if rng.chance(0.5) { rng.below(8) } else { rng.below(160) } as u32);
            match rng.below(20) {
                0..8 => _ = page.read(&mut flash, lpn).unwrap(),
                8 => page.trim(&mut flash, lpn, 1).unwrap(),
                _ => page.write(&mut flash, lpn, &()).unwrap(),
            }
        }
        page.audit(&mut flash).unwrap();
        (flash.take(), page)
    }

    /// A policy that makes all pages alike is page mapping, operation for operation; so is the paper's with thresholds
    /// that nothing exceeds.
    #[test]
    fn one_mode_for_all_is_page_mapping() {
        let (plain, _) = transcript(&[]);
        assert!(plain.iter().any(|line| line.starts_with('E')) && plain.iter().any(|line| line.ends_with("data_gc")));
        assert_eq!(transcript(&[("ecc", "uniform-bch")]).0, plain);
        assert_eq!(transcript(&[("ecc", "uniform-ldpc")]).0, plain, "modes are no commands");
        let off = [("ecc", "differentiated"), ("ecc-m", "5"), ("ecc-write-only", "off")];
        assert_eq!(transcript(&off).0, plain);
        let (told_apart, _) = transcript(&[("ecc", "differentiated")]);
        assert!(told_apart.iter().any(|line| line.ends_with("ecc_rewrite")) && told_apart != plain);
    }

    /// Every page read is read as it was programmed: the medium's record of modes against one kept by LPN beside it,
    /// over host writes, rewrites and collections.
    #[test]
    fn the_decoder_matches_the_tag() {
        let g = Geometry { dies: 2, blocks_per_die: 16, pages_per_block: 8, ..Geometry::default() };
        let chip = Nand::<Tags, Full>::new(g.checked().unwrap());
        for policy in ["differentiated", "uniform-bch", "uniform-ldpc", "agcr"] {
            let mut flash = Timeline::new(chip.clone(), paper_times(), Server::Single);
            let settings = settings(&[("ecc", policy), ("ecc-n", "2")]);
            let mut page = Page::format(&mut flash, 160, &settings).unwrap();
            let mut rng = Rng::new(8);
            let mut seen = [false; 4];
            for time in 0..5000u64 {
                let lpn = Lpn(if rng.chance(0.6) { rng.below(8) } else { rng.below(160) } as u32);
                if rng.chance(0.5) {
                    page.write(&mut flash, lpn, &time).unwrap();
                    continue;
                }
                let Some(ppn) = page.map.get(lpn.index()).filter(|&&entry| entry != super::super::NONE) else {
                    continue;
                };
                let tag = flash.mode_of(Ppn(*ppn));
                seen[tag as usize] = true;
                let start = flash.idle_at_ns();
                flash.arrive(start);
                flash.page_begin();
                let rewrites = flash.tally().get(Cause::EccRewrite, Op::Program);
                page.read(&mut flash, lpn).unwrap().unwrap();
                assert_eq!(flash.page_end().end_ns - start, paper_times().cells(tag).read_ns, "{policy}: {tag:?}");
                if flash.tally().get(Cause::EccRewrite, Op::Program) > rewrites {
                    assert_eq!((tag, flash.mode_of(Ppn(page.map[lpn.index()]))), (Mode::LowCost, Mode::Normal));
                }
            }
            let expected = match policy {
                "differentiated" => [Mode::Normal, Mode::LowCost].as_slice(),
                "uniform-bch" => &[Mode::Normal],
                "uniform-ldpc" => &[Mode::LowCost],
                _ => &[Mode::Normal, Mode::LowCost, Mode::Medium],
            };
            assert_eq!(Mode::ALL.map(|mode| seen[mode as usize]), Mode::ALL.map(|mode| expected.contains(&mode)));
            let rewrites = flash.tally().get(Cause::EccRewrite, Op::Program);
            assert_eq!(rewrites > 0, policy == "differentiated", "{policy}: {rewrites}");
            let gc = |mode| flash.tally().of_mode(Cause::DataGc, Op::Program, mode);
            assert!(expected.iter().all(|&mode| gc(mode) > 0), "{policy}: copies are classified");
        }
    }

    #[test]
    fn a_fill_teaches_nothing_unless_it_is_asked_to() {
        let g = Geometry { blocks_per_die: 16, pages_per_block: 8, ..Geometry::default() }.checked().unwrap();
        for (fill, policy, mode) in [
            ("unknown", "differentiated", Mode::Normal),
            ("policy", "differentiated", Mode::LowCost),
            ("unknown", "agcr", Mode::Medium),
            ("unknown", "uniform-ldpc", Mode::LowCost),
        ] {
            let mut flash = Nand::<NoData, Brief>::new(g);
            let settings = settings(&[("ecc", policy), ("ecc-fill", fill)]);
            let mut page = Page::format(&mut flash, 64, &settings).unwrap();
            Inspect::<Nand<NoData, Brief>>::filling(&mut page, true);
            (0..64).for_each(|lpn| page.write(&mut flash, Lpn(lpn), &()).unwrap());
            Inspect::<Nand<NoData, Brief>>::filling(&mut page, false);
            assert!((0..64).all(|lpn| flash.mode_of(Ppn(page.map[lpn])) == mode), "{fill} {policy}");
        }
    }

    /// Power is cut at the program of a rewrite, in each of its faces: the page reads as before, and a mount knows
    /// which of the two copies counts.
    #[test]
    fn a_rewrite_cut_short_loses_nothing() {
        let settings = settings(&[("ecc", "differentiated"), ("ecc-n", "0")]);
        let g = Geometry { blocks_per_die: 8, pages_per_block: 4, page_bytes: 512, ..Geometry::default() };
        for face in 0..4 {
            let mut flash = PowerCut::counting(Nand::<Tags, Full>::new(g.checked().unwrap()));
            let mut page = Page::format(&mut flash, 8, &settings).unwrap();
            page.write(&mut flash, Lpn(3), &41).unwrap();
            flash.arm(CutPoint { command: 0, face }, 1);
            let cut = page.read(&mut flash, Lpn(3)).unwrap_err();
            assert_eq!(cut, Error::Flash(Fault(FaultKind::PowerLost)));
            flash.restart();
            let (mut page, _) = Page::mount(&mut flash, 8, &settings).unwrap();
            for _ in 0..3 {
                assert_eq!(page.read(&mut flash, Lpn(3)).unwrap(), Some(&41), "face {face}");
            }
            let Ok(Some(oob)) = flash.read_oob(Ppn(page.map[3]), Cause::Recovery) else { panic!() };
            assert_eq!((oob.mode, oob.version), (Mode::Normal, 1), "face {face}");
        }
    }
}
