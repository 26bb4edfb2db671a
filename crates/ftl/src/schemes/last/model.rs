//! LAST's rules once more, by themselves: a model that counts what each request costs. It shares no code with the
//! scheme. Pages and blocks are numbers, the chip takes pages in any order, and nothing fails.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

/// What the rules leave to parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub p: u32,
    pub page_bytes: u64,
    pub least_bytes: u64,
    pub by_pages: bool,
    pub merges_taken: bool,
    pub begins_anywhere: bool,
    pub adapts: bool,
    /// Log blocks: all, sequential ones, and of the random ones the hot ones at first.
    pub log: [u32; 3],
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Part {
    Cold,
    Hot,
    Sequential(u32),
}

/// A log block: which block it is, its part, the pages written to it, by their place.
#[derive(Clone, Debug)]
struct Log {
    block: u32,
    part: Part,
    pages: BTreeMap<u32, u32>,
    used: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Cost {
    pub writes: usize,
    pub copies: usize,
    pub erases: usize,
}

#[derive(Debug)]
pub(super) struct Model {
    rules: Rules,
    free: VecDeque<u32>,
    /// Of each logical block: its data block, and which places of it are written.
    data: Vec<Option<(u32, Vec<bool>)>>,
    /// The log blocks, in the order in which they were begun.
    logs: Vec<Log>,
    /// Where the newest version of a page lies: block and place.
    at: BTreeMap<u32, (u32, u32)>,
    /// When a page was last written to a random log block.
    stamps: BTreeMap<u32, u64>,
    random: u64,
    clock: u64,
    moved: i64,
    cleaned: [[u32; 2]; 2],
    pub cost: Cost,
    pub pages: BTreeMap<&'static str, u64>,
}

impl Model {
    pub(super) fn new(rules: Rules, blocks: u32, logical_blocks: u32) -> Model {
        Model {
            rules,
            free: (0..blocks).collect(),
            data: vec![None; logical_blocks as usize],
            logs: Vec::new(),
            at: BTreeMap::new(),
            stamps: BTreeMap::new(),
            random: 0,
            clock: 0,
            moved: 0,
            cleaned: [[0; 2]; 2],
            cost: Cost::default(),
            pages: BTreeMap::new(),
        }
    }

    pub(super) fn request(&mut self, first: u32, pages: u32, bytes: u64) {
        let Rules { by_pages, page_bytes, least_bytes, .. } = self.rules;
        let size = if by_pages { u64::from(pages) * page_bytes } else { bytes };
        (first..first + pages).for_each(|page| self.write(page, size >= least_bytes));
    }

    fn write(&mut self, page: u32, large: bool) {
        self.cost.writes += 1;
        let (lbn, place) = (page / self.rules.p, page % self.rules.p);
        if self.log_of(page).is_none() {
            if self.data[lbn as usize].is_none() {
                let block = self.take();
                self.data[lbn as usize] = Some((block, vec![false; self.rules.p as usize]));
            }
            let (block, written) = self.data[lbn as usize].as_mut().unwrap();
            if !written[place as usize] {
                written[place as usize] = true;
                self.at.insert(page, (*block, place));
                return;
            }
        }
        if !(large && self.write_sequential(page)) {
            self.write_random(page);
        }
    }

    fn write_sequential(&mut self, page: u32) -> bool {
        let (lbn, place) = (page / self.rules.p, page % self.rules.p);
        let part = Part::Sequential(lbn);
        let own = self.logs.iter().position(|log| log.part == part);
        let fits = own.is_some_and(|own| !self.logs[own].pages.contains_key(&place));
        if !fits {
            if own.is_some() && !self.rules.merges_taken || place > 0 && !self.rules.begins_anywhere {
                return false;
            }
            self.merge_sequential(lbn);
            self.make_room(part);
            self.begin(part);
        }
        let own = self.logs.iter().position(|log| log.part == part).unwrap();
        self.clock += 1;
        self.logs[own].used = self.clock;
        self.put(own, place, page);
        *self.pages.entry("sequential_pages").or_default() += 1;
        true
    }

    fn write_random(&mut self, page: u32) {
        let age = |stamp: &u64| self.random - stamp <= u64::from(self.limit(Part::Hot) * self.rules.p);
        let in_random = self.log_of(page).is_some_and(|log| matches!(self.logs[log].part, Part::Hot | Part::Cold));
        let is_hot = in_random && self.stamps.get(&page).is_some_and(age);
        let part = if is_hot { Part::Hot } else { Part::Cold };
        let mut dying = None;
        if self.filling(part).is_none() {
            // The log block that this write leaves without a live page is as good as dead.
            let old = self.log_of(page).filter(|&log| self.is_closed(log) && self.live(log).len() == 1);
            dying = old.map(|log| self.logs[log].block);
            if dying.is_none() {
                self.make_room(part);
            }
            self.begin(part);
        }
        let log = self.filling(part).unwrap();
        let place = self.logs[log].pages.len() as u32;
        self.random += 1;
        self.stamps.insert(page, self.random);
        self.put(log, place, page);
        *self.pages.entry(if is_hot { "hot_pages" } else { "cold_pages" }).or_default() += 1;
        if let Some(block) = dying {
            let log = self.logs.iter().position(|log| log.block == block).unwrap();
            self.clean(log);
        }
    }

    fn put(&mut self, log: usize, place: u32, page: u32) {
        self.logs[log].pages.insert(place, page);
        self.at.insert(page, (self.logs[log].block, place));
    }

    /// The log block that holds the newest version of a page.
    fn log_of(&self, page: u32) -> Option<usize> {
        let (block, _) = *self.at.get(&page)?;
        self.logs.iter().position(|log| log.block == block)
    }

    /// Places and pages of a log block that are the newest versions.
    fn live(&self, log: usize) -> Vec<u32> {
        let Log { block, ref pages, .. } = self.logs[log];
        pages.iter().filter(|&(&place, page)| self.at[page] == (block, place)).map(|(_, &page)| page).collect()
    }

    /// A random log block that is full.
    fn is_closed(&self, log: usize) -> bool {
        matches!(self.logs[log].part, Part::Hot | Part::Cold) && self.logs[log].pages.len() as u32 == self.rules.p
    }

    fn filling(&self, part: Part) -> Option<usize> {
        (0..self.logs.len()).find(|&log| self.logs[log].part == part && !self.is_closed(log))
    }

    fn limit(&self, part: Part) -> u32 {
        let [all, sequential, hot] = self.rules.log;
        let random = all - sequential;
        let hot = (i64::from(hot) + self.moved).clamp(1, i64::from(random) - 1) as u32;
        match part {
            Part::Cold => random - hot,
            Part::Hot => hot,
            Part::Sequential(_) => sequential,
        }
    }

    fn make_room(&mut self, part: Part) {
        let same = |log: &Log| match part {
            Part::Sequential(_) => matches!(log.part, Part::Sequential(_)),
            _ => log.part == part,
        };
        while self.logs.iter().filter(|&log| same(log)).count() as u32 >= self.limit(part) {
            let done = match part {
                Part::Sequential(_) => self.merge_least_used(),
                _ => self.clean_one(part),
            };
            if !done {
                break;
            }
        }
        while self.logs.len() as u32 >= self.rules.log[0] {
            let done = self.clean_one(Part::Cold) || self.clean_one(Part::Hot) || self.merge_least_used();
            assert!(done, "there is something to clean");
        }
    }

    fn merge_least_used(&mut self) -> bool {
        let used = |log: &&Log| matches!(log.part, Part::Sequential(_));
        let Some(log) = self.logs.iter().filter(used).min_by_key(|log| log.used) else { return false };
        let Part::Sequential(lbn) = log.part else { unreachable!() };
        self.merge_sequential(lbn);
        true
    }

    /// Cleans a dead log block, the oldest, or the one of a part that is cheapest to merge.
    fn clean_one(&mut self, part: Part) -> bool {
        let closed = || (0..self.logs.len()).filter(|&log| self.is_closed(log));
        let dead = closed().find(|&log| self.live(log).is_empty());
        let own = closed().filter(|&log| self.logs[log].part == part);
        let cheapest = own.min_by_key(|&log| (self.price(log), self.logs[log].block));
        let Some(log) = dead.or(cheapest) else { return false };
        let block = self.logs[log].block;
        self.lbns(log).into_iter().for_each(|lbn| self.merge_sequential(lbn));
        let log = self.logs.iter().position(|log| log.block == block).unwrap();
        self.clean(log);
        true
    }

    fn lbns(&self, log: usize) -> Vec<u32> {
        let mut lbns: Vec<u32> = Vec::new();
        for lbn in self.live(log).iter().map(|page| page / self.rules.p) {
            if !lbns.contains(&lbn) {
                lbns.push(lbn);
            }
        }
        lbns
    }

    /// Microseconds by the thesis's costs of a copy and an erase.
    fn price(&self, log: usize) -> u64 {
        let merge = |lbn: u32| self.pages_of(lbn).len() as u64 * 351 + 2000;
        self.lbns(log).into_iter().map(merge).sum::<u64>() + 2000
    }

    /// The pages of a logical block that hold anything.
    fn pages_of(&self, lbn: u32) -> Vec<u32> {
        let p = self.rules.p;
        self.at.range(lbn * p..(lbn + 1) * p).map(|(&page, _)| page).collect()
    }

    fn clean(&mut self, log: usize) {
        let part = usize::from(self.logs[log].part == Part::Hot);
        if self.rules.adapts {
            self.cleaned[part][0] += 1;
            self.cleaned[part][1] += u32::from(self.live(log).is_empty());
            self.adapt();
        }
        let block = self.logs[log].block;
        self.lbns(log).into_iter().for_each(|lbn| self.full_merge(lbn));
        self.end(block);
    }

    /// One step for as many cleaned as the hot part may have, at least four.
    fn adapt(&mut self) {
        let [[cold, cold_dead], [hot, hot_dead]] = self.cleaned;
        if cold + hot < self.limit(Part::Hot).max(4) {
            return;
        }
        self.cleaned = [[0; 2]; 2];
        if 2 * hot_dead < hot && self.limit(Part::Hot) > 1 {
            self.moved -= 1;
        } else if 2 * hot_dead > hot && 2 * cold_dead < cold && self.limit(Part::Cold) > 1 {
            self.moved += 1;
        }
    }

    fn merge_sequential(&mut self, lbn: u32) {
        let Some(log) = self.logs.iter().position(|log| log.part == Part::Sequential(lbn)) else { return };
        let (block, written) = (self.logs[log].block, self.logs[log].pages.clone());
        let missing: Vec<u32> = self.pages_of(lbn).into_iter().filter(|page| self.at[page].0 != block).collect();
        if missing.iter().any(|page| written.contains_key(&(page % self.rules.p))) {
            self.full_merge(lbn);
            self.end(block);
            return;
        }
        // Switch, or partial.
        self.logs.remove(log);
        self.become_data(lbn, block, &missing);
    }

    fn full_merge(&mut self, lbn: u32) {
        let block = self.take();
        let pages = self.pages_of(lbn);
        self.become_data(lbn, block, &pages);
    }

    /// Pages are copied to a block, which is the data block then; the one before is erased.
    fn become_data(&mut self, lbn: u32, block: u32, copied: &[u32]) {
        self.cost.copies += copied.len();
        copied.iter().for_each(|page| _ = self.at.insert(*page, (block, page % self.rules.p)));
        let mut written = vec![false; self.rules.p as usize];
        self.pages_of(lbn).iter().for_each(|page| written[(page % self.rules.p) as usize] = true);
        if let Some((old, _)) = self.data[lbn as usize].replace((block, written)) {
            self.erase(old);
        }
    }

    fn begin(&mut self, part: Part) {
        let block = self.take();
        self.logs.push(Log { block, part, pages: BTreeMap::new(), used: 0 });
    }

    fn end(&mut self, block: u32) {
        self.logs.retain(|log| log.block != block);
        self.erase(block);
    }

    fn take(&mut self) -> u32 {
        self.free.pop_front().expect("two blocks are kept free")
    }

    fn erase(&mut self, block: u32) {
        self.cost.erases += 1;
        self.free.push_back(block);
    }
}
