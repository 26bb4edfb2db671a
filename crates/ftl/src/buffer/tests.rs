//! The specification's examples, the invariants, and policies against the plainest form of their rules.

use super::*;
use crate::schemes::Page;
use crate::{Build, BuildError, Error, Ftl, Inspect, MountReport, Recipe, Static, schemes};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use flash::{Brief, BytesStore, Failing, FailurePlan, Fault, FaultKind, Flash, Full, Geometry, Nand, NoData, Tags};
use flash::{HostData, Transcript};
use proptest::prelude::*;

const P: u32 = 4;
const PAGES: u32 = 32;

fn geometry() -> Geometry {
    let g = Geometry { blocks_per_die: 16, pages_per_block: P, page_bytes: 512, ..Geometry::default() };
    g.checked().unwrap()
}

/// Settings of `page` behind a buffer of so many pages.
fn settings(policy: &str, pages: u64, pairs: &[(&str, &str)]) -> Settings {
    let row = by_name(policy).unwrap();
    let mut settings = schemes::by_name("page").unwrap().settings();
    add_to(&mut settings, row, pages * 512);
    pairs.iter().for_each(|(name, value)| settings.set(name, value).unwrap());
    settings
}

type Medium = Failing<Nand<Tags, Full>>;

fn medium() -> Medium {
    Failing::new(Nand::new(geometry()), FailurePlan::default(), 1)
}

/// The recipe of a scheme behind a buffer.
fn behind<S>() -> Behind<Static<S>> {
    Behind(Static::NEW)
}

/// A scheme that keeps its pages in RAM and writes down what it is asked.
#[derive(Clone, Default, Debug)]
struct Told {
    lines: Vec<String>,
    pages: BTreeMap<u32, u64>,
    /// Writes and discards are refused: the device is full.
    full: bool,
    uncorrectable: Option<u32>,
}

impl<F: Flash<User = u64, Fault = Fault>> Build<F> for Told {
    fn format(_: &mut F, _: u32, _: &Settings) -> Result<Self, BuildError<Fault>> {
        Ok(Told::default())
    }
    fn mount(_: &mut F, _: u32, _: &Settings) -> Result<(Self, MountReport), BuildError<Fault>> {
        unreachable!("no test mounts it")
    }
    fn restore(_: &Geometry, _: u32, _: &Settings, _: &[u8]) -> Self {
        Told::default()
    }
}

impl<F: Flash<User = u64, Fault = Fault>> Ftl<F> for Told {
    fn request(&mut self, first: Lpn, pages: u32) {
        self.lines.push(format!("request {first}+{pages}"));
    }
    fn read<'f>(&'f mut self, _: &'f mut F, lpn: Lpn) -> Result<Option<&'f u64>, Error<Fault>> {
        self.lines.push(format!("read {lpn}"));
        if self.uncorrectable == Some(lpn.0) {
            return Err(Error::Flash(Fault(FaultKind::Uncorrectable)));
        }
        Ok(self.pages.get(&lpn.0))
    }
    fn write(&mut self, _: &mut F, lpn: Lpn, data: &u64) -> Result<(), Error<Fault>> {
        if self.full {
            return Err(Error::Full);
        }
        self.lines.push(format!("write {lpn}"));
        self.pages.insert(lpn.0, *data);
        Ok(())
    }
    fn trim(&mut self, _: &mut F, first: Lpn, count: u32) -> Result<(), Error<Fault>> {
        if self.full {
            return Err(Error::Full);
        }
        self.lines.push(format!("trim {first}+{count}"));
        self.pages.retain(|lpn, _| !(first.0..first.0 + count).contains(lpn));
        Ok(())
    }
    fn flush(&mut self, _: &mut F) -> Result<(), Error<Fault>> {
        self.lines.push("flush".into());
        Ok(())
    }
    fn idle(&mut self, _: &mut F, copies: u32) -> Result<bool, Error<Fault>> {
        self.lines.push(format!("idle {copies}"));
        Ok(copies > 4)
    }
}

impl<F: Flash<User = u64, Fault = Fault>> Inspect<F> for Told {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    fn reset_counters(&mut self) {}
    fn erase_counts(&self) -> &[u32] {
        &[]
    }
    fn free_blocks(&self) -> u32 {
        0
    }
    fn audit(&self, _: &mut F) -> Result<(), String> {
        Ok(())
    }
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// A buffer over [`Told`], and what the host believes.
struct Bench {
    flash: Medium,
    ftl: Buffered<Told, Tags>,
    host: BTreeMap<u32, u64>,
    tag: u64,
}

impl Bench {
    fn new(policy: &str, pages: u64, pairs: &[(&str, &str)]) -> Bench {
        let mut flash = medium();
        let ftl = behind::<Told>().format(&mut flash, PAGES, &settings(policy, pages, pairs));
        Bench { flash, ftl: ftl.unwrap(), host: BTreeMap::new(), tag: 0 }
    }

    /// With every page on flash, and nothing in the buffer.
    fn filled(policy: &str, pages: u64, pairs: &[(&str, &str)]) -> Bench {
        let mut bench = Bench::new(policy, pages, pairs);
        bench.told().pages = (0..PAGES).map(|lpn| (lpn, u64::from(lpn))).collect();
        bench.host = bench.told().pages.clone();
        bench.tag = 1000;
        bench
    }

    fn told(&mut self) -> &mut Told {
        &mut self.ftl.scheme
    }

    fn lines(&mut self) -> Vec<String> {
        core::mem::take(&mut self.told().lines)
    }

    fn write(&mut self, lpn: u32) -> Result<(), Error<Fault>> {
        self.tag += 1;
        self.ftl.write(&mut self.flash, Lpn(lpn), &self.tag)?;
        self.host.insert(lpn, self.tag);
        Ok(())
    }

    fn write_all(&mut self, lpns: &[u32]) {
        lpns.iter().for_each(|&lpn| self.write(lpn).unwrap());
    }

    /// Reads a page and holds it to what the host believes.
    fn read(&mut self, lpn: u32) {
        let read = self.ftl.read(&mut self.flash, Lpn(lpn)).unwrap().copied();
        assert_eq!(read, self.host.get(&lpn).copied(), "LPN {lpn}");
    }

    fn counter(&self, name: &str) -> u64 {
        let counters = Inspect::<Medium>::counters(&self.ftl);
        counters.iter().find(|(known, _)| *known == name).map_or(0, |&(_, count)| count)
    }
}

/// Idle time is the scheme's, also while the buffer holds pages: it may have blocks to refresh.
#[test]
fn idle_time_is_handed_on() {
    for policy in crate::buffer::NAMES {
        let mut bench = Bench::filled(policy, 4, &[]);
        bench.write_all(&[0, 5]);
        let more = [4, 5].map(|copies| bench.ftl.idle(&mut bench.flash, copies).unwrap());
        assert_eq!((bench.lines(), more), (vec!["idle 4".into(), "idle 5".into()], [false, true]), "{policy}");
    }
}

#[test]
fn worked_example_of_fab() {
    let mut bench = Bench::new("fab", 4, &[]);
    bench.write_all(&[0, 1, 8, 4]);
    assert_eq!(bench.lines(), [""; 0]);
    bench.write_all(&[5]);
    assert_eq!(bench.lines(), ["request 0+2", "write 0", "write 1"]);
    // Left are 8, 4 and 5: one place is free.
    bench.write_all(&[12]);
    assert_eq!(bench.lines(), [""; 0]);
}

#[test]
fn worked_example_of_bplru() {
    let mut bench = Bench::filled("bplru", 4, &[]);
    bench.write_all(&[0, 4, 5, 8]);
    assert_eq!(bench.lines(), [""; 0]);
    bench.write_all(&[9]);
    let expected =
        ["request 1+3", "read 1", "read 2", "read 3", "request 0+4", "write 0", "write 1", "write 2", "write 3"];
    assert_eq!(bench.lines(), expected);
    (0..PAGES).for_each(|lpn| bench.read(lpn));
}

#[test]
fn worked_example_of_cflru() {
    let mut bench = Bench::filled("cflru", 4, &[("buffer-window", "0.5")]);
    let [a, b, c, d] = [10, 20, 30, 5];
    bench.write_all(&[a]);
    bench.read(b);
    bench.write_all(&[c]);
    bench.read(d);
    bench.lines();
    // b is clean and in the window: it is dropped at no cost.
    bench.read(15);
    assert_eq!(bench.lines(), ["request 15+1", "read 15"]);
    // The window holds a and c, both dirty: a is written.
    bench.read(b);
    assert_eq!(bench.lines(), ["request 10+1", "write 10", "request 20+1", "read 20"]);
    assert_eq!((bench.counter("write_buffer_drops"), bench.counter("write_buffer_flushes")), (1, 1));
}

/// The same examples over `page`, as commands of the flash. The device was filled in order: LPN 4 b + i lies in page i
/// of block b, and block 8 is the next to be opened.
#[test]
fn worked_examples_as_flash_commands() {
    let on_flash = |policy: &str, writes: &[u32]| {
        let mut flash = Transcript::new(Nand::<NoData, Brief>::new(geometry()));
        let mut ftl = behind::<Page>().format(&mut flash, PAGES, &settings(policy, 4, &[])).unwrap();
        (0..PAGES).for_each(|lpn| ftl.write(&mut flash, Lpn(lpn), &()).unwrap());
        ftl.flush(&mut flash).unwrap();
        flash.take();
        writes.iter().for_each(|&lpn| ftl.write(&mut flash, Lpn(lpn), &()).unwrap());
        let commands = flash.take();
        ftl.audit(&mut flash).unwrap();
        commands
    };
    assert_eq!(on_flash("fab", &[0, 1, 8, 4, 5]), ["W 8.0 data 0 host", "W 8.1 data 1 host"]);
    let expected = [
        "R 0.1 host",
        "R 0.2 host",
        "R 0.3 host",
        "W 8.0 data 0 host",
        "W 8.1 data 1 host",
        "W 8.2 data 2 host",
        "W 8.3 data 3 host",
    ];
    assert_eq!(on_flash("bplru", &[0, 4, 5, 8, 9]), expected);
    // After the fill 28 to 31 are in the cache, clean: four writes drop them, the fifth writes the first of the four.
    assert_eq!(on_flash("cflru", &[0, 4, 8, 12, 16]), ["W 8.0 data 0 host"]);
}

#[test]
fn a_block_written_in_order_goes_first_and_needs_no_padding() {
    let mut bench = Bench::filled("bplru", 6, &[]);
    // Block 0 in order, then one page of block 1, then again one of block 0 would be out of order.
    bench.write_all(&[0, 1, 2, 3, 4, 8]);
    bench.write_all(&[12]);
    assert_eq!(bench.lines(), ["request 0+4", "write 0", "write 1", "write 2", "write 3"]);
    // Complete, but not in order: it is the most recently used one, and block 1 goes.
    let mut bench = Bench::filled("bplru", 6, &[]);
    bench.write_all(&[4, 1, 0, 2, 3, 8]);
    bench.write_all(&[12]);
    assert_eq!(bench.lines()[..2], ["request 5+3", "read 5"]);
    assert_eq!(bench.counter("write_buffer_block_requests"), 1);
}

#[test]
fn padding_leaves_out_what_holds_nothing_or_cannot_be_read() {
    let mut bench = Bench::filled("bplru", 4, &[]);
    bench.told().pages.remove(&1);
    bench.told().uncorrectable = Some(6);
    bench.write_all(&[0, 4, 5, 8, 9]);
    let expected =
        ["request 1+3", "read 1", "read 2", "read 3", "request 0+1", "write 0", "request 2+2", "write 2", "write 3"];
    assert_eq!(bench.lines(), expected);
    bench.write_all(&[12, 13]);
    let expected = ["request 6+2", "read 6", "read 7", "request 4+2", "write 4", "write 5", "request 7+1", "write 7"];
    assert_eq!(bench.lines(), expected);
    assert_eq!((bench.counter("write_buffer_requests"), bench.counter("write_buffer_block_requests")), (4, 0));
    assert_eq!((bench.counter("write_buffer_padding_reads"), bench.counter("write_buffer_written_pages")), (3, 6));
}

#[test]
fn pad_min_pads_only_what_is_nearly_complete() {
    let mut bench = Bench::filled("bplru", 4, &[("buffer-pad-min", "2")]);
    bench.write_all(&[0, 4, 6, 8, 9]);
    assert_eq!(bench.lines(), ["request 0+1", "write 0"]);
    bench.write_all(&[12]);
    let expected =
        ["request 5+1", "read 5", "request 7+1", "read 7", "request 4+4", "write 4", "write 5", "write 6", "write 7"];
    assert_eq!(bench.lines(), expected);
}

#[test]
fn the_last_block_may_be_short() {
    let mut flash = medium();
    let settings = settings("bplru", 4, &[]);
    let mut ftl = behind::<Told>().format(&mut flash, 6, &settings).unwrap();
    ftl.scheme.pages = (0..6).map(|lpn| (lpn, 0)).collect();
    for lpn in [5, 0, 1, 2, 3] {
        ftl.write(&mut flash, Lpn(lpn), &7).unwrap();
    }
    assert_eq!(ftl.scheme.lines, ["request 4+1", "read 4", "request 4+2", "write 4", "write 5"]);
}

#[test]
fn flushes_write_all_and_sizes_are_counted() {
    let mut bench = Bench::filled("fab", 8, &[]);
    bench.write_all(&[0, 2, 3, 9, 0]);
    bench.ftl.flush(&mut bench.flash).unwrap();
    let expected = ["request 0+1", "write 0", "request 2+2", "write 2", "write 3", "request 9+1", "write 9", "flush"];
    assert_eq!(bench.lines(), expected);
    assert_eq!((bench.counter("write_buffer_writes"), bench.counter("write_buffer_write_hits")), (5, 1));
    assert_eq!((bench.counter("write_buffer_flushes"), bench.counter("write_buffer_requests")), (2, 3));
    assert_eq!((bench.counter("write_buffer_flush_of_1"), bench.counter("write_buffer_flush_of_2")), (1, 1));
    // A cache writes in ascending order, and keeps the pages.
    let mut bench = Bench::filled("cflru", 8, &[]);
    bench.write_all(&[9, 3, 2]);
    bench.ftl.flush(&mut bench.flash).unwrap();
    assert_eq!(bench.lines(), ["request 2+2", "write 2", "write 3", "request 9+1", "write 9", "flush"]);
    bench.ftl.flush(&mut bench.flash).unwrap();
    bench.read(9);
    assert_eq!(bench.lines(), ["flush"]);
}

#[test]
fn reads_are_announced_in_runs_around_what_the_buffer_holds() {
    let mut bench = Bench::filled("fab", 8, &[]);
    bench.write_all(&[2]);
    Ftl::<Medium>::request(&mut bench.ftl, Lpn(0), 6);
    (0..6).for_each(|lpn| bench.read(lpn));
    let expected = ["request 0+2", "read 0", "read 1", "request 3+3", "read 3", "read 4", "read 5"];
    assert_eq!(bench.lines(), expected);
    // A page of no request is one of its own; so is the page that a partial write reads.
    bench.read(7);
    Ftl::<Medium>::request(&mut bench.ftl, Lpn(8), 2);
    bench.ftl.read_to_modify(&mut bench.flash, Lpn(8)).unwrap();
    assert_eq!(bench.lines(), ["request 7+1", "read 7", "request 8+1", "read 8"]);
}

#[test]
fn a_partial_write_is_one_access() {
    for (policy, hits) in [("fab", 1), ("cflru", 1)] {
        let mut bench = Bench::filled(policy, 8, &[]);
        for _ in 0..2 {
            bench.ftl.read_to_modify(&mut bench.flash, Lpn(3)).unwrap();
            bench.write_all(&[3]);
        }
        assert_eq!((bench.counter("write_buffer_reads"), bench.counter("write_buffer_writes")), (0, 2), "{policy}");
        assert_eq!(bench.counter("write_buffer_write_hits"), hits, "{policy}");
    }
}

/// A device that is full refuses what does not fit, and neither loses nor brings back anything.
#[test]
fn a_full_device_keeps_what_the_buffer_holds() {
    for policy in NAMES {
        let mut bench = Bench::filled(policy, 4, &[]);
        bench.write_all(&[0, 5, 10, 15]);
        bench.told().full = true;
        assert_eq!(bench.write(20), Err(Error::Full), "{policy}");
        bench.write_all(&[5]);
        assert_eq!(bench.ftl.trim(&mut bench.flash, Lpn(4), 4), Err(Error::Full));
        assert_eq!(bench.ftl.flush(&mut bench.flash), Err(Error::Full));
        (0..PAGES).for_each(|lpn| bench.read(lpn));
        bench.told().full = false;
        bench.ftl.flush(&mut bench.flash).unwrap();
        assert_eq!(bench.ftl.scheme.pages, bench.host, "{policy}");
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused_with_a_remedy() {
    let refused = |policy: &str, bytes: u64| {
        let mut settings = settings(policy, 1, &[]);
        settings.put(BYTES.name, Value::Count(bytes));
        behind::<Told>().format(&mut medium(), PAGES, &settings).unwrap_err().to_string()
    };
    let expected =
        "buffer-bytes: fab gathers blocks of 4 pages, and 2047 bytes hold 3 (give at least --buffer fab:2KiB)";
    assert_eq!(refused("fab", 2047), expected);
    assert!(refused("bplru", 1).contains("give at least --buffer bplru:2KiB"));
    let expected =
        "buffer-bytes: a write buffer of 511 bytes holds no page of 512 bytes (give at least --buffer cflru:512)";
    assert_eq!(refused("cflru", 511), expected);
    assert!(refused("cflru", 33 * 512).ends_with("which exports 32 pages (give at most --buffer cflru:16KiB)"));
}

#[test]
fn bytes_survive_in_saved_state() {
    for policy in NAMES {
        let mut flash = Nand::<BytesStore, Full>::new(geometry());
        type Bytes = Buffered<Page, <[u8] as HostData>::Store>;
        let recipe = behind::<Page>();
        let settings = settings(policy, 8, &[]);
        let mut ftl = recipe.format(&mut flash, PAGES, &settings).unwrap();
        for (lpn, content) in [(0, 1u8), (7, 2), (3, 3), (0, 4), (9, 5), (4, 6), (1, 7), (13, 8), (22, 9), (2, 10)] {
            ftl.write(&mut flash, Lpn(lpn), &[content; 512]).unwrap();
        }
        let saved = <Bytes as Inspect<Nand<BytesStore, Full>>>::save(&ftl);
        let sum = |memory: Vec<(&str, u64)>| memory.iter().map(|(_, bytes)| bytes).sum::<u64>();
        // The scheme has bytes to spare, which are not the buffer's.
        let of_scheme = sum(<Page as Inspect<Nand<BytesStore, Full>>>::memory(&ftl.scheme));
        let reported = sum(<Bytes as Inspect<Nand<BytesStore, Full>>>::memory(&ftl)) - of_scheme;
        let own = (saved.len() - <Page as Inspect<Nand<BytesStore, Full>>>::save(&ftl.scheme).len()) as u64;
        assert!(own <= reported, "{policy}: {own} bytes, {reported} reported");
        let mut again: Bytes =
            Recipe::<Nand<BytesStore, Full>>::restore(&recipe, &geometry(), PAGES, &settings, &saved);
        assert_eq!(<Bytes as Inspect<Nand<BytesStore, Full>>>::save(&again), saved);
        for (lpn, content) in [(0, 4u8), (7, 2), (3, 3), (9, 5), (4, 6), (1, 7), (13, 8), (22, 9), (2, 10)] {
            assert_eq!(again.read(&mut flash, Lpn(lpn)).unwrap(), Some(&[content; 512][..]), "{policy}");
        }
        again.audit(&mut flash).unwrap();
    }
}

/// What the scheme was told of a request is not told again.
#[test]
fn a_restored_buffer_goes_on_within_the_request() {
    for policy in NAMES {
        let mut bench = Bench::filled(policy, 8, &[]);
        Ftl::<Medium>::request(&mut bench.ftl, Lpn(0), 4);
        bench.ftl.read(&mut bench.flash, Lpn(0)).unwrap();
        let saved = Inspect::<Medium>::save(&bench.ftl);
        let settings = settings(policy, 8, &[]);
        let mut again: Buffered<Told, Tags> =
            Recipe::<Medium>::restore(&behind::<Told>(), &geometry(), PAGES, &settings, &saved);
        again.read(&mut bench.flash, Lpn(1)).unwrap();
        assert_eq!(again.scheme.lines, ["read 1"], "{policy}");
    }
}

#[test]
fn the_table_describes_itself() {
    let names: Vec<&str> = POLICIES.iter().map(|row| row.name).collect();
    assert_eq!(names, NAMES);
    for row in POLICIES {
        assert!(!row.summary.is_empty() && !row.paper.is_empty());
        assert!(row.parameters.iter().all(|parameter| parameter.name.starts_with("buffer-")));
        // No scheme has a parameter of the same name: this panics if one has.
        schemes::SCHEMES.iter().for_each(|scheme| add_to(&mut scheme.settings(), row, 1));
    }
}

// ---- invariants ------------------------------------------------------------------------------------------------

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u32, u32),
    Read(u32, u32),
    Modify(u32),
    Trim(u32, u32),
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lpn = 0..PAGES;
    let run = (lpn.clone(), 1u32..7).prop_map(|(first, count)| (first, count.min(PAGES - first)));
    let step = prop_oneof![
        8 => run.clone().prop_map(|(first, count)| Step::Write(first, count)),
        4 => run.clone().prop_map(|(first, count)| Step::Read(first, count)),
        2 => lpn.prop_map(Step::Modify),
        1 => run.prop_map(|(first, count)| Step::Trim(first, count)),
        1 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 1..200)
}

fn buffers() -> impl Strategy<Value = (&'static str, u64, &'static str)> {
    let windows = prop::sample::select(vec!["0", "0.3", "0.5", "1"]);
    (prop::sample::select(NAMES), u64::from(P)..20, windows)
}

impl Bench {
    fn step(&mut self, step: Step) {
        match step {
            Step::Write(first, count) => {
                Ftl::<Medium>::request(&mut self.ftl, Lpn(first), count);
                (first..first + count).for_each(|lpn| self.write(lpn).unwrap());
            }
            Step::Read(first, count) => {
                Ftl::<Medium>::request(&mut self.ftl, Lpn(first), count);
                (first..first + count).for_each(|lpn| self.read(lpn));
            }
            Step::Modify(lpn) => {
                let old = self.ftl.read_to_modify(&mut self.flash, Lpn(lpn)).unwrap().copied();
                assert_eq!(old, self.host.get(&lpn).copied());
                self.write(lpn).unwrap();
            }
            Step::Trim(first, count) => {
                self.ftl.trim(&mut self.flash, Lpn(first), count).unwrap();
                self.host.retain(|lpn, _| !(first..first + count).contains(lpn));
            }
            Step::Flush => {
                self.ftl.flush(&mut self.flash).unwrap();
                assert_eq!(self.ftl.scheme.pages, self.host);
            }
        }
        // More pages than it has room for, or fewer than the policy knows of, is an error here.
        self.ftl.audit(&mut self.flash).unwrap();
    }
}

/// Every page of a request follows it, in order, before the next request.
fn requests_are_kept(lines: &[String]) {
    let mut expected: VecDeque<u32> = VecDeque::new();
    for line in lines {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        match what {
            "request" => {
                let (first, count) = rest.split_once('+').unwrap();
                let (first, count): (u32, u32) = (first.parse().unwrap(), count.parse().unwrap());
                expected = (first..first + count).collect();
            }
            "read" | "write" => assert_eq!(expected.pop_front(), Some(rest.parse().unwrap()), "{lines:#?}"),
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn reads_return_what_was_written((policy, pages, window) in buffers(), steps in steps()) {
        let window: &[_] = if policy == "cflru" { &[("buffer-window", window)] } else { &[] };
        let mut bench = Bench::new(policy, pages, window);
        steps.iter().for_each(|&step| bench.step(step));
        requests_are_kept(&bench.lines());
        (0..PAGES).for_each(|lpn| bench.read(lpn));
        bench.step(Step::Flush);
    }

    /// The same over `page`: behind a buffer and without one, a device reads the same.
    #[test]
    fn a_buffer_changes_no_content((policy, pages, _) in buffers(), steps in steps()) {
        let mut flash = [medium(), medium()];
        let mut buffered =
            behind::<Page>().format(&mut flash[0], PAGES, &settings(policy, pages, &[])).unwrap();
        let mut plain = Page::format(&mut flash[1], PAGES, &settings(policy, pages, &[])).unwrap();
        for (tag, step) in (1u64..).zip(steps) {
            match step {
                Step::Write(first, count) | Step::Read(first, count) => {
                    for lpn in (first..first + count).map(Lpn) {
                        if matches!(step, Step::Write(..)) {
                            buffered.write(&mut flash[0], lpn, &tag).unwrap();
                            plain.write(&mut flash[1], lpn, &tag).unwrap();
                        }
                        let read = buffered.read(&mut flash[0], lpn).unwrap().copied();
                        prop_assert_eq!(read, plain.read(&mut flash[1], lpn).unwrap().copied());
                    }
                }
                Step::Modify(lpn) => {
                    let old = buffered.read_to_modify(&mut flash[0], Lpn(lpn)).unwrap().copied();
                    prop_assert_eq!(old, plain.read_to_modify(&mut flash[1], Lpn(lpn)).unwrap().copied());
                }
                Step::Trim(first, count) => {
                    buffered.trim(&mut flash[0], Lpn(first), count).unwrap();
                    plain.trim(&mut flash[1], Lpn(first), count).unwrap();
                }
                Step::Flush => buffered.flush(&mut flash[0]).unwrap(),
            }
            buffered.audit(&mut flash[0]).unwrap();
        }
    }

    #[test]
    fn requests_of_bplru_are_whole_blocks_where_every_page_is_live(pages in u64::from(P)..20, steps in steps()) {
        let mut bench = Bench::filled("bplru", pages, &[]);
        steps.iter().filter(|step| !matches!(step, Step::Trim(..))).for_each(|&step| bench.step(step));
        bench.ftl.flush(&mut bench.flash).unwrap();
        let lines = bench.lines();
        for (i, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("request")) {
            if lines.get(i + 1).is_some_and(|next| next.starts_with("write")) {
                let (first, count) = line["request ".len()..].split_once('+').unwrap();
                prop_assert_eq!((first.parse::<u32>().unwrap() % P, count.parse::<u32>().unwrap()), (0, P));
            }
        }
        prop_assert_eq!(bench.counter("write_buffer_requests"), bench.counter("write_buffer_block_requests"));
        let requests = bench.counter("write_buffer_requests");
        prop_assert_eq!(bench.counter("write_buffer_written_pages"), u64::from(P) * requests);
    }

    /// CFLRU as its paper says it: a list, and a scan of its last w pages.
    #[test]
    fn cflru_takes_the_victims_of_a_plain_list(
        pages in 1u32..12,
        window in prop::sample::select(vec![0.0, 0.25, 0.5, 0.75, 1.0]),
        accesses in prop::collection::vec((0u32..20, any::<bool>(), 0u32..12), 1..300),
    ) {
        let row = by_name("cflru").unwrap();
        let mut settings = Settings::defaults(row.parameters);
        settings.put("buffer-window", Value::Real(window));
        let mut policy = (row.make)(Shape { pages, pages_per_block: P }, &settings);
        // From the least to the most recently used.
        let mut list: VecDeque<(u32, bool)> = VecDeque::new();
        let w = (window * f64::from(pages) + 0.5) as usize;
        for (lpn, write, other) in accesses {
            if let Some(at) = list.iter().position(|&(resident, _)| resident == lpn) {
                let (_, dirty) = list.remove(at).unwrap();
                list.push_back((lpn, dirty || write));
                policy.hit(Lpn(lpn), write);
            } else {
                if list.len() == pages as usize {
                    let clean = list.iter().take(w).position(|&(_, dirty)| !dirty);
                    let (victim, _) = list.remove(clean.unwrap_or(0)).unwrap();
                    if window == 0.0 {
                        prop_assert_eq!(clean, None, "plain LRU takes the last");
                    }
                    prop_assert_eq!(policy.victim(Some(Lpn(lpn))), Some(Victim::Page(Lpn(victim))));
                    policy.remove(Lpn(victim));
                }
                list.push_back((lpn, write));
                policy.admit(Lpn(lpn), write);
            }
            // Now and then a page is written behind its back, or discarded.
            if let Some(at) = list.iter().position(|&(resident, _)| resident == other) {
                if write {
                    list[at].1 = false;
                    policy.clean(Lpn(other));
                } else if other % 3 == 0 {
                    list.remove(at);
                    policy.remove(Lpn(other));
                }
            }
            prop_assert_eq!(policy.pages() as usize, list.len());
        }
    }

    /// FAB and BPLRU as their papers say them: a list of blocks.
    #[test]
    fn blocks_leave_as_from_a_plain_list(
        fab in any::<bool>(),
        pages in P..14,
        accesses in prop::collection::vec((0u32..32, 0u32..5), 1..300),
    ) {
        let row = by_name(if fab { "fab" } else { "bplru" }).unwrap();
        let mut policy = (row.make)(Shape { pages, pages_per_block: P }, &Settings::defaults(row.parameters));
        // From the least to the most recently used: a block, and its writes in order, hits included.
        let mut list: Vec<(u32, Vec<u32>)> = Vec::new();
        let distinct = |writes: &[u32]| writes.iter().copied().collect::<BTreeSet<u32>>();
        for (lpn, kind) in accesses {
            let block = lpn / P;
            let own = list.iter().position(|&(of, _)| of == block);
            let hit = own.is_some_and(|at| list[at].1.contains(&lpn));
            if kind == 0 {
                // A read uses the group under FAB alone.
                if hit {
                    policy.hit(Lpn(lpn), false);
                    let at = own.filter(|_| fab);
                    at.map(|at| list.remove(at)).into_iter().for_each(|group| list.push(group));
                }
                continue;
            }
            if !hit && policy.pages() == pages {
                let others = list.iter().enumerate().filter(|(_, (of, _))| *of != block);
                let victim = if fab {
                    // The largest; of equals the least recently used.
                    others.max_by_key(|(at, (_, writes))| (distinct(writes).len(), Reverse(*at)))
                } else {
                    others.min_by_key(|(at, _)| *at)
                };
                let (at, first) = victim.map(|(at, (of, _))| (at, Lpn(of * P))).unwrap();
                prop_assert_eq!(policy.victim(Some(Lpn(lpn))), Some(Victim::Block { first, pad: !fab }));
                let (_, writes) = list.remove(at);
                distinct(&writes).into_iter().for_each(|lpn| policy.remove(Lpn(lpn)));
            }
            let own = list.iter().position(|&(of, _)| of == block);
            let (_, mut writes) = own.map_or((block, Vec::new()), |at| list.remove(at));
            writes.push(lpn);
            let in_order = !fab && writes.iter().copied().eq(block * P..block * P + P);
            list.insert(if in_order { 0 } else { list.len() }, (block, writes));
            if hit { policy.hit(Lpn(lpn), true) } else { policy.admit(Lpn(lpn), true) }
            let expected: usize = list.iter().map(|(_, writes)| distinct(writes).len()).sum();
            prop_assert_eq!(policy.pages() as usize, expected);
        }
    }
}
