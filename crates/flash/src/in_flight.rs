//! A medium on which several commands are under way when power fails.
//!
//! Calls stay synchronous: each command takes effect at once, and a scheme sees nothing of this. But [`InFlight`] keeps
//! the medium as it was some requests ago, and the commands since, each with what it follows. When power fails,
//! [`InFlight::lose_power`] chooses which of them had been carried out: a set that holds, with a command, all that the
//! command follows. On each die the next command behind the set may have begun: it is left in one of its faces
//! (docs/fault-model.md).
//!
//! What a command follows is what [`Flash`] says of order, and the order of issue on its die:
//!
//! - all commands of its die that were issued before it;
//! - what its chain or its stage has waited for;
//! - a read, also that of a copy, follows the program of its page, and the chain goes on behind the read;
//! - the first command of a request follows the requests acknowledged before it was accepted: all but the last
//!   `depth - 1`.
//!
//! A flush that is complete waits for everything. A controller may also keep an order of its own
//! ([`InFlight::begin`]): erases, and programs of metadata, follow every program and erase that was issued before
//! them, on whichever die. Where a set is closed under the order on each die, it is one number a die: so many of the
//! die's commands were carried out. So points in time are vectors of such numbers ([`Clock`]).

use crate::medium::Enter;
use crate::{
    Block, Cause, Chain, CutPoint, Damage, Die, Fault, Flash, Fragile, Geometry, HostData, Lpn, Mode, Oob, Op, Payload,
    PowerCut, Ppn, Rng, Store, Unstable,
};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

/// Dies with an order of their own. Of a device with more, die `n` shares that of die `n % 4`, which is one order more
/// than need be.
const LANES: usize = 4;

/// How many commands of each lane were carried out: sixteen bits a lane, so that it fits where a [`Chain`] has a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Clock(u64);

impl Clock {
    fn get(self, lane: usize) -> u64 {
        self.0 >> (16 * lane) & 0xffff
    }

    fn with(self, lane: usize, count: u64) -> Clock {
        Clock(self.0 & !(0xffff << (16 * lane)) | count << (16 * lane))
    }

    /// When both points in time are past.
    fn and(self, other: Clock) -> Clock {
        (0..LANES).fold(self, |both, lane| both.with(lane, both.get(lane).max(other.get(lane))))
    }

    fn is_past_at(self, now: Clock) -> bool {
        (0..LANES).all(|lane| self.get(lane) <= now.get(lane))
    }
}

/// What a page carries, kept.
#[derive(Clone, Debug)]
enum Held<S> {
    User(S),
    Meta(Vec<u32>),
    None,
}

#[derive(Clone, Debug)]
enum What<S> {
    Program { ppn: Ppn, oob: Oob, held: Held<S>, spare: Vec<u8> },
    Append { ppn: Ppn, at: u32, bytes: Vec<u8>, mark: u16 },
    Erase(Block),
}

/// A command as it was issued; a copy is a program of what it copied.
#[derive(Clone, Debug)]
struct Issued<S> {
    what: What<S>,
    cause: Cause,
    lane: usize,
    /// Its number on its lane.
    number: u64,
    /// What it follows.
    follows: Clock,
}

impl<S: Store> Issued<S> {
    fn op(&self) -> Op {
        match self.what {
            What::Program { .. } => Op::Program,
            What::Append { .. } => Op::PartialProgram,
            What::Erase(_) => Op::Erase,
        }
    }

    /// The host's page that it programs.
    fn page(&self) -> Option<Lpn> {
        match &self.what {
            What::Program { oob, .. } if oob.kind.is_host() => Some(Lpn(oob.address)),
            _ => None,
        }
    }

    fn carry_out<M: Flash<User = S::User>>(&self, medium: &mut M) -> Result<(), M::Fault> {
        match &self.what {
            What::Program { ppn, oob, held, spare } => {
                if !spare.is_empty() {
                    medium.stage_spare(*ppn, spare);
                }
                let payload = match held {
                    Held::User(store) => Payload::User(store.get(0)),
                    Held::Meta(words) => Payload::Meta(words),
                    Held::None => Payload::None,
                };
                medium.program(*ppn, *oob, payload, self.cause)
            }
            What::Append { ppn, at, bytes, mark } => medium.append(*ppn, *at, bytes, *mark, self.cause),
            What::Erase(block) => medium.erase(*block, self.cause),
        }
    }
}

/// What is under way.
#[derive(Clone, Debug)]
struct Log<F, S> {
    /// The medium before the first of `commands`.
    base: F,
    /// Requests that the host has out at once.
    depth: usize,
    /// Whether erases and programs of metadata follow all programs and erases issued before them.
    ordered: bool,
    chain: Chain,
    /// Chains of other runs of the clock say nothing.
    epoch: u32,
    /// In the order of issue.
    commands: VecDeque<Issued<S>>,
    /// Commands issued.
    issued: Clock,
    /// When the last command of each lane has ended, and all that it follows.
    ends: [Clock; LANES],
    /// When each page programmed since `base` holds what was programmed.
    programmed: BTreeMap<Ppn, Clock>,
    /// The last requests: when each ends, and the commands that had been issued when it came.
    requests: VecDeque<(Clock, Clock)>,
    /// When the requests have ended that were acknowledged before the present one was accepted.
    acknowledged: Clock,
    staged: Option<(Ppn, Vec<u8>)>,
}

impl<F, S> Log<F, S> {
    /// The present chain reads a page.
    fn read(&mut self, ppn: Ppn) {
        if let Some(&programmed) = self.programmed.get(&ppn) {
            self.reach(programmed);
        }
    }

    /// The present chain has waited for a point in time.
    fn reach(&mut self, end: Clock) {
        let chain = &mut self.chain;
        let reached = if chain.serial { &mut chain.from } else { &mut chain.end };
        *reached = Clock(*reached).and(end).0;
    }

    fn enter(&mut self, next: Chain) -> Chain {
        let outer = Chain { epoch: self.epoch, ..self.chain };
        // A chain that another clock has seen has ended.
        let next = if next.epoch == self.epoch { next } else { Chain { from: 0, end: 0, ..next } };
        let end_of = |chain: &Chain| if chain.serial { chain.from } else { chain.end };
        match next.enter {
            Enter::Again => self.chain = next,
            Enter::New => {
                self.chain = Chain { enter: Enter::Again, serial: next.serial, end: outer.from, ..outer };
            }
            Enter::Resumed => {
                let end = Clock(outer.from).and(Clock(next.from)).and(Clock(next.end)).0;
                self.chain = Chain { enter: Enter::Again, serial: false, end, is_page: false, ..outer };
            }
            Enter::After => {
                let reached = end_of(&outer);
                self.chain = Chain { from: reached, end: reached, ..outer };
            }
            Enter::Joined | Enter::Waited => self.reach(Clock(end_of(&next))),
        }
        outer
    }

    fn issue(&mut self, what: What<S>, cause: Cause, die: Die, reads: Option<Ppn>) {
        let lane = die.index() % LANES;
        let mut follows = Clock(self.chain.from);
        if let Some(&programmed) = reads.and_then(|ppn| self.programmed.get(&ppn)) {
            follows = follows.and(programmed);
        }
        if self.ordered && !matches!(&what, What::Program { oob, .. } if oob.kind.is_host()) {
            follows = self.ends.iter().fold(follows, |all, &end| all.and(end));
        }
        let number = self.issued.get(lane);
        self.issued = self.issued.with(lane, number + 1);
        let end = follows.and(self.ends[lane]).with(lane, number + 1);
        self.ends[lane] = end;
        if let What::Program { ppn, .. } | What::Append { ppn, .. } = what {
            self.programmed.insert(ppn, end);
        }
        self.commands.push_back(Issued { what, cause, lane, number, follows });
        self.reach(end);
    }
}

/// What a power cut left undone.
#[derive(Clone, Debug, Default)]
pub struct Undone {
    /// Commands that were not carried out, or left in a face.
    pub commands: usize,
    /// The host's pages that these were to program or to copy.
    pub pages: BTreeSet<Lpn>,
    /// Whether they were to program anything of the scheme's own: maps, discards.
    pub metadata: bool,
    /// What reads otherwise each time.
    pub unstable: Unstable,
}

/// The decorator. See the module's description.
#[derive(Clone, Debug)]
pub struct InFlight<F, S> {
    inner: F,
    log: Option<Log<F, S>>,
}

/// Bits of a lane's number from which on the clock begins anew.
const FULL: u64 = 0xff00;

impl<F: Fragile + Clone> InFlight<F, <F::User as HostData>::Store>
where
    Fault: From<F::Fault>,
{
    /// Around `inner`, with one command after another.
    pub fn new(inner: F) -> Self {
        InFlight { inner, log: None }
    }

    /// The wrapped medium.
    pub fn inner(&self) -> &F {
        &self.inner
    }

    /// The wrapped medium, to harm it.
    pub fn inner_mut(&mut self) -> &mut F {
        &mut self.inner
    }

    /// From now on a host has up to `depth` requests out at once. `ordered`: the controller lets erases, and programs
    /// of what is no host page, follow every program and erase issued before them.
    ///
    /// # Panics
    /// If it is to have none.
    pub fn begin(&mut self, depth: usize, ordered: bool) {
        assert!(depth > 0, "a host without requests");
        let epoch = self.log.as_ref().map_or(1, |log| log.epoch + 1);
        self.log = Some(Log {
            base: self.inner.clone(),
            depth,
            ordered,
            chain: Chain::of_page(0),
            epoch,
            commands: VecDeque::new(),
            issued: Clock::default(),
            ends: [Clock::default(); LANES],
            programmed: BTreeMap::new(),
            requests: VecDeque::new(),
            acknowledged: Clock::default(),
            staged: None,
        });
    }

    /// A request of the host is accepted. What is older than twice the depth has been carried out, collections
    /// included.
    pub fn request_begin(&mut self) {
        let Some(log) = &mut self.log else { return };
        if (0..LANES).any(|lane| log.issued.get(lane) > FULL) {
            return self.drain();
        }
        while log.requests.len() >= 2 * log.depth {
            log.requests.pop_front();
            let done = log.requests.front().map_or(log.issued, |&(_, before)| before);
            let is_done = |command: &Issued<_>| command.number < done.get(command.lane);
            while log.commands.front().is_some_and(is_done) {
                let command = log.commands.pop_front();
                if command.is_some_and(|command| command.carry_out(&mut log.base).is_err()) {
                    unreachable!("what was carried out once can be again");
                }
            }
            log.acknowledged = log.acknowledged.and(done);
        }
        let acknowledged = log.requests.len() + 1 - log.depth.min(log.requests.len() + 1);
        for &(end, _) in log.requests.iter().take(acknowledged) {
            log.acknowledged = log.acknowledged.and(end);
        }
        log.requests.push_back((Clock::default(), log.issued));
    }

    /// The host reads, writes or discards a page of the present request: a chain of its own.
    pub fn page_begin(&mut self) {
        let Some(log) = &mut self.log else { return };
        log.chain = Chain { epoch: log.epoch, ..Chain::of_page(log.acknowledged.0) };
    }

    /// The chain has ended when its last command has.
    pub fn page_end(&mut self) {
        let Some(log) = &mut self.log else { return };
        let end = Clock(if log.chain.serial { log.chain.from } else { log.chain.end });
        if let Some((ends, _)) = log.requests.back_mut() {
            *ends = ends.and(end);
        }
    }

    /// A flush is complete: nothing is under way.
    pub fn drain(&mut self) {
        if let Some((depth, ordered)) = self.log.as_ref().map(|log| (log.depth, log.ordered)) {
            self.begin(depth, ordered);
        }
    }

    /// How many commands are in doubt.
    pub fn in_doubt(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.commands.len())
    }

    /// Power fails: chooses what was carried out, and leaves the medium so. One command after another from then on.
    /// `unstable`: what is left between two states reads otherwise each time ([`PowerCut::leave_unstable`]).
    pub fn lose_power(&mut self, rng: &mut Rng, unstable: bool) -> Undone {
        let Some(log) = self.log.take() else { return Undone::default() };
        // Each lane got far or not; one in three got nowhere, or all the way.
        let mut done = Clock::default();
        for lane in 0..LANES {
            let (least, most) = (log.acknowledged.get(lane), log.issued.get(lane));
            let count = match rng.below(6) {
                0 => least,
                1 => most,
                _ => least + rng.below(most - least + 1),
            };
            done = done.with(lane, count);
        }
        // What does not have all that it follows is not done, and nothing behind it on its lane.
        loop {
            let early =
                |command: &&Issued<_>| command.number < done.get(command.lane) && !command.follows.is_past_at(done);
            let Some(command) = log.commands.iter().find(early) else { break };
            done = done.with(command.lane, command.number);
        }
        let mut left = Unstable::default();
        let mut medium = log.base;
        for command in log.commands.iter().filter(|command| command.number < done.get(command.lane)) {
            if command.carry_out(&mut medium).is_err() {
                unreachable!("what was carried out once can be again");
            }
        }
        for lane in 0..LANES {
            let next = log.commands.iter().find(|command| command.lane == lane && command.number == done.get(lane));
            let Some(next) = next.filter(|next| next.follows.is_past_at(done)) else { continue };
            let face = rng.below(u64::from(CutPoint::faces(next.op()))) as u8;
            let mut cut = PowerCut::armed(medium, CutPoint { command: 0, face }, rng.bits());
            cut.leave_unstable(unstable);
            // It ends in the cut.
            let _ = next.carry_out(&mut cut);
            left.add(cut.unstable_cells());
            medium = cut.into_inner();
        }
        self.inner = medium;
        let undone = log.commands.iter().filter(|command| command.number >= done.get(command.lane));
        let pages = undone.clone().filter_map(Issued::page).collect();
        let metadata = undone.clone().any(|command| command.op() != Op::Erase && command.page().is_none());
        Undone { commands: undone.count(), pages, metadata, unstable: left }
    }

    /// What was programmed into `ppn`, to be kept.
    fn held(&mut self, ppn: Ppn) -> Result<Held<<F::User as HostData>::Store>, F::Fault> {
        let page_bytes = self.inner.geometry().page_bytes as usize;
        Ok(match self.inner.read(ppn, Cause::Recovery)?.1 {
            Payload::User(data) => {
                let mut store = <F::User as HostData>::Store::new(1, page_bytes);
                store.put(0, data);
                Held::User(store)
            }
            Payload::Meta(words) => Held::Meta(words.to_vec()),
            Payload::None => Held::None,
        })
    }
}

/// The data of a command, before it is carried out.
fn keep<U: HostData + ?Sized>(data: Payload<'_, U>, page_bytes: u32) -> Held<U::Store> {
    match data {
        Payload::User(data) => {
            let mut store = U::Store::new(1, page_bytes as usize);
            store.put(0, data);
            Held::User(store)
        }
        Payload::Meta(words) => Held::Meta(words.to_vec()),
        Payload::None => Held::None,
    }
}

impl<F: Fragile + Clone> Flash for InFlight<F, <F::User as HostData>::Store>
where
    Fault: From<F::Fault>,
{
    type User = F::User;
    type Fault = F::Fault;

    #[inline(always)]
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    #[inline(always)]
    fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<(Oob, Payload<'_, F::User>), F::Fault> {
        if let Some(log) = &mut self.log {
            log.read(ppn);
        }
        self.inner.read(ppn, cause)
    }

    #[inline(always)]
    fn read_oob(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Oob>, F::Fault> {
        if let Some(log) = &mut self.log {
            log.read(ppn);
        }
        self.inner.read_oob(ppn, cause)
    }

    #[inline(always)]
    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, F::User>, cause: Cause) -> Result<(), F::Fault> {
        self.inner.program(ppn, oob, data, cause)?;
        if let Some(log) = &mut self.log {
            let g = self.inner.geometry();
            let spare = log.staged.take().filter(|&(of, _)| of == ppn).map(|(_, bytes)| bytes).unwrap_or_default();
            let what = What::Program { ppn, oob, held: keep(data, g.page_bytes), spare };
            log.issue(what, cause, g.die_of(g.block_of(ppn)), None);
        }
        Ok(())
    }

    fn append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, cause: Cause) -> Result<(), F::Fault> {
        self.inner.append(ppn, at, bytes, mark, cause)?;
        if let Some(log) = &mut self.log {
            let g = self.inner.geometry();
            let what = What::Append { ppn, at, bytes: bytes.to_vec(), mark };
            log.issue(what, cause, g.die_of(g.block_of(ppn)), None);
        }
        Ok(())
    }

    #[inline(always)]
    fn copy(
        &mut self,
        from: Ppn,
        to: Ppn,
        cause: Cause,
        edit: impl FnOnce(&mut Oob, &mut [u32]),
    ) -> Result<Oob, F::Fault> {
        let oob = self.inner.copy(from, to, cause, edit)?;
        if self.log.is_some() {
            let held = self.held(to)?;
            // Whoever asks for the bytes of a spare area gets those of the page that it read.
            self.inner.read_oob(from, cause)?;
            let g = *self.inner.geometry();
            if let Some(log) = &mut self.log {
                let spare = log.staged.take().filter(|&(of, _)| of == to).map(|(_, bytes)| bytes).unwrap_or_default();
                let what = What::Program { ppn: to, oob, held, spare };
                log.issue(what, cause, g.die_of(g.block_of(to)), Some(from));
            }
        }
        Ok(oob)
    }

    fn erase(&mut self, block: Block, cause: Cause) -> Result<(), F::Fault> {
        self.inner.erase(block, cause)?;
        if let Some(log) = &mut self.log {
            log.issue(What::Erase(block), cause, self.inner.geometry().die_of(block), None);
        }
        Ok(())
    }

    #[inline(always)]
    fn hint(&self, ppn: Ppn, word: usize) {
        self.inner.hint(ppn, word);
    }

    fn chain(&mut self, next: Chain) -> Chain {
        match &mut self.log {
            Some(log) => log.enter(next),
            None => next,
        }
    }

    fn is_slc(&mut self, block: Block) -> bool {
        self.inner.is_slc(block)
    }

    #[inline(always)]
    fn tired(&self, from: Block) -> Option<Block> {
        self.inner.tired(from)
    }

    fn mode_of(&mut self, ppn: Ppn) -> Mode {
        self.inner.mode_of(ppn)
    }

    fn reserve_spare(&mut self, bytes: u32) -> bool {
        self.inner.reserve_spare(bytes)
    }

    fn stage_spare(&mut self, ppn: Ppn, bytes: &[u8]) {
        if let Some(log) = &mut self.log {
            log.staged = Some((ppn, bytes.to_vec()));
        }
        self.inner.stage_spare(ppn, bytes);
    }

    fn spare(&self, ppn: Ppn) -> &[u8] {
        self.inner.spare(ppn)
    }
}

impl<F: Fragile + Clone> Fragile for InFlight<F, <F::User as HostData>::Store>
where
    Fault: From<F::Fault>,
{
    fn chip(&mut self) -> &mut dyn Damage {
        self.inner.chip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Collection, Full, Kind, Lpn, Nand, Tags};
    use alloc::vec::Vec;

    type Chip = InFlight<Nand<Tags, Full>, Tags>;

    /// Two dies of four blocks of four pages: die 0 has pages 0 to 15.
    fn chip() -> Chip {
        let g = Geometry { dies: 2, blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
        InFlight::new(Nand::new(g))
    }

    fn put(chip: &mut Chip, ppn: u32) {
        let oob = Oob::data(Lpn(ppn), 1, u64::from(ppn));
        let Ok(()) = chip.program(Ppn(ppn), oob, Payload::User(&7), Cause::Host);
    }

    fn is_whole(chip: &mut Chip, ppn: u32) -> bool {
        let Ok(oob) = chip.read_oob(Ppn(ppn), Cause::Recovery);
        if oob.is_none_or(|oob| oob.kind == Kind::Torn) {
            return false;
        }
        let Ok((oob, _)) = chip.read(Ppn(ppn), Cause::Recovery);
        oob.kind != Kind::Torn
    }

    /// Which of `pages` were whole over many cuts of the same commands.
    fn outcomes(pages: &[u32], depth: usize, work: impl Fn(&mut Chip)) -> Vec<Vec<bool>> {
        let mut seen = Vec::new();
        for seed in 0..400 {
            let mut chip = chip();
            chip.begin(depth, false);
            work(&mut chip);
            chip.lose_power(&mut Rng::new(seed), false);
            let found = pages.iter().map(|&page| is_whole(&mut chip, page)).collect();
            if !seen.contains(&found) {
                seen.push(found);
            }
        }
        seen.sort();
        seen
    }

    const NO: bool = false;
    const YES: bool = true;

    #[test]
    fn pages_of_a_request_are_lost_in_any_subset_across_dies_and_in_order_on_a_die() {
        let request = |chip: &mut Chip, pages: &[u32]| {
            chip.request_begin();
            for &page in pages {
                chip.page_begin();
                put(chip, page);
                chip.page_end();
            }
        };
        let across = outcomes(&[0, 16], 1, |chip| request(chip, &[0, 16]));
        assert_eq!(across, [[NO, NO], [NO, YES], [YES, NO], [YES, YES]]);
        let on_one = outcomes(&[0, 1], 1, |chip| request(chip, &[0, 1]));
        assert_eq!(on_one, [[NO, NO], [YES, NO], [YES, YES]]);
        let after = |depth| {
            outcomes(&[0, 16], depth, |chip| {
                request(chip, &[0]);
                request(chip, &[16]);
            })
        };
        assert_eq!(after(1), [[YES, NO], [YES, YES]], "the first was acknowledged");
        assert_eq!(after(2), across);
        let flushed = outcomes(&[0, 16], 8, |chip| {
            request(chip, &[0]);
            chip.drain();
            request(chip, &[16]);
        });
        assert_eq!(flushed, [[YES, NO], [YES, YES]]);
    }

    #[test]
    fn a_chain_a_stage_and_a_batch_keep_their_order_across_dies() {
        let chain = outcomes(&[0, 16], 1, |chip| {
            chip.request_begin();
            chip.page_begin();
            put(chip, 0);
            put(chip, 16);
            chip.page_end();
        });
        assert_eq!(chain, [[NO, NO], [YES, NO], [YES, YES]]);
        let collection = |staged: bool| {
            outcomes(&[0, 16], 1, move |chip| {
                chip.request_begin();
                chip.page_begin();
                let mut gc = Collection::on(chip);
                put(&mut gc, 0);
                if staged {
                    gc.then();
                }
                put(&mut gc, 16);
                drop(gc);
                chip.page_end();
            })
        };
        assert_eq!(collection(true), chain);
        assert_eq!(collection(false), [[NO, NO], [NO, YES], [YES, NO], [YES, YES]]);
        // What follows on the page that set a collection off follows the collection only if the page has waited for it.
        let behind = |waits: bool| {
            outcomes(&[0, 16], 1, move |chip| {
                chip.request_begin();
                chip.page_begin();
                let mut gc = Collection::on(chip);
                put(&mut gc, 0);
                if waits {
                    gc.wait()
                } else {
                    drop(gc)
                }
                put(chip, 16);
                chip.page_end();
            })
        };
        assert_eq!(behind(true), chain);
        assert_eq!(behind(false), collection(false));
        let batch = outcomes(&[0, 16, 1], 1, |chip| {
            chip.request_begin();
            chip.page_begin();
            let mut batch = Batch::on(chip);
            batch.page(|chip| put(chip, 0));
            batch.page(|chip| put(chip, 16));
            drop(batch);
            put(chip, 1);
            chip.page_end();
        });
        let expected = [[NO, NO, NO], [NO, YES, NO], [YES, NO, NO], [YES, YES, NO], [YES, YES, YES]];
        assert_eq!(batch, expected, "what follows a batch follows all of its pages");
    }

    #[test]
    fn a_controller_may_let_erases_follow_every_program() {
        for (ordered, may_lose) in [(true, &[NO][..]), (false, &[NO, YES][..])] {
            let mut seen = Vec::new();
            for seed in 0..400 {
                let mut chip = chip();
                put(&mut chip, 16);
                chip.begin(8, ordered);
                chip.request_begin();
                chip.page_begin();
                put(&mut chip, 0);
                chip.page_end();
                chip.request_begin();
                chip.page_begin();
                let Ok(()) = chip.erase(Block(4), Cause::DataGc);
                chip.page_end();
                chip.lose_power(&mut Rng::new(seed), false);
                // Whether the old page is gone although the new one is not there.
                let lost = !is_whole(&mut chip, 0) && !is_whole(&mut chip, 16);
                if !seen.contains(&lost) {
                    seen.push(lost);
                }
            }
            seen.sort();
            assert_eq!(seen, may_lose);
        }
    }

    #[test]
    fn a_copy_follows_the_program_of_its_source_and_a_slice_the_slices_before() {
        let copied = outcomes(&[0, 16], 4, |chip| {
            chip.request_begin();
            chip.page_begin();
            put(chip, 0);
            chip.page_end();
            chip.request_begin();
            chip.page_begin();
            let Ok(_) = chip.copy(Ppn(0), Ppn(16), Cause::DataGc, |_, _| {});
            chip.page_end();
        });
        assert_eq!(copied, [[NO, NO], [YES, NO], [YES, YES]]);
        let sliced = outcomes(&[0, 16], 4, |chip| {
            chip.request_begin();
            chip.page_begin();
            let mut gc = Collection::on(chip);
            put(&mut gc, 0);
            let slice = gc.pause();
            chip.page_end();
            chip.request_begin();
            chip.page_begin();
            let mut gc = Collection::resume(chip, slice);
            gc.then();
            put(&mut gc, 16);
            drop(gc);
            chip.page_end();
        });
        assert_eq!(sliced, copied);
    }

    #[test]
    fn what_is_left_between_two_states_reads_otherwise_each_time_if_asked() {
        let (mut left, mut changed) = (0, 0);
        for seed in 0..200 {
            let mut chip = chip();
            chip.begin(8, false);
            for page in [0, 16, 1, 17] {
                put(&mut chip, page);
            }
            let undone = chip.lose_power(&mut Rng::new(seed), true);
            let mut power = PowerCut::counting(chip);
            power.take_over(undone.unstable, &Rng::new(seed));
            left += power.unstable();
            for page in [0, 16, 1, 17].map(Ppn) {
                let looks: Vec<_> = (0..8).map(|_| power.read_oob(page, Cause::Recovery).unwrap()).collect();
                if looks.iter().any(|look| look != &looks[0]) {
                    changed += 1;
                    assert_eq!(power.read(page, Cause::Recovery).unwrap().0.kind, Kind::Torn, "seed {seed}");
                }
            }
        }
        assert!(left > 50 && changed * 10 > left * 9, "{left} left, {changed} looked otherwise");
    }

    #[test]
    fn what_was_not_carried_out_is_named() {
        let (mut lost, mut whole) = ([0; 2], [0; 2]);
        for seed in 0..200 {
            let mut chip = chip();
            chip.begin(8, false);
            for page in [0, 16, 1, 17] {
                put(&mut chip, page);
            }
            let map = Oob { kind: Kind::Translation, ..Oob::data(Lpn(9), 1, 9) };
            let Ok(()) = chip.program(Ppn(18), map, Payload::Meta(&[7]), Cause::TranslationUpdate);
            let undone = chip.lose_power(&mut Rng::new(seed), false);
            let is_there = [0, 16, 1, 17].map(|page| (is_whole(&mut chip, page), undone.pages.contains(&Lpn(page))));
            assert!(is_there.iter().all(|&(whole, named)| whole || named), "seed {seed}: {is_there:?}");
            assert!(is_whole(&mut chip, 18) || undone.metadata, "seed {seed}");
            assert!(!undone.pages.contains(&Lpn(9)), "no page of the host");
            lost = [lost[0] + undone.pages.len(), lost[1] + usize::from(undone.metadata)];
            whole = [whole[0] + 4 - undone.pages.len(), whole[1] + usize::from(!undone.metadata)];
        }
        assert!(lost.into_iter().chain(whole).all(|count| count > 20), "{lost:?} {whole:?}");
    }

    #[test]
    fn what_is_old_is_done_and_the_rest_ends_as_if_nothing_had_been_in_doubt() {
        let mut chip = chip();
        chip.begin(2, false);
        for page in 0..12 {
            chip.request_begin();
            chip.page_begin();
            put(&mut chip, page % 2 * 16 + page / 2);
            chip.page_end();
        }
        assert!(chip.in_doubt() <= 4, "{} in doubt", chip.in_doubt());
        chip.drain();
        assert_eq!((chip.in_doubt(), chip.lose_power(&mut Rng::new(1), false).commands), (0, 0));
        assert!((0..6).all(|page| is_whole(&mut chip, page) && is_whole(&mut chip, 16 + page)));
    }
}
