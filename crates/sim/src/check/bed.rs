//! What a seed stands for: a small device, a scheme's settings on it, and a stream of operations.
//!
//! Devices are small, so that every command can be cut, and as full as the scheme accepts, so that it collects all the
//! time. How full that is, the scheme is asked: logical pages shrink until it takes the device.
//!
//! Reads and writes are requests, announced as a host does. Most are of one page; others are of a few, or of whole
//! blocks, for which some schemes have ways of their own. The pages of a request are written one after another, so that
//! power can be cut between any two, and now and then the host breaks off before the last.

use super::{CheckConfig, CheckError, Checked, bench, sound, write_buffer};
use flash::{Fault, Geometry, Lpn, ProgramOrder, Rng};
use ftl::buffer::{self, BufferRow};
use ftl::parameters::{LU, WEAR_CHECKPOINT, WEAR_STATE};
use ftl::{BuildError, Dependence, Error, Range, Recipe, Scheme, Settings, Value};
use std::fmt;

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Bed {
    pub(super) seed: u64,
    pub(super) geometry: Geometry,
    pub(super) logical_pages: u32,
    /// As many as the scheme takes.
    pub(super) most_pages: u32,
    pub(super) settings: Settings,
    pub(super) mix: Mix,
    /// Whether the scheme's RAM can be saved, as its claim of it says.
    pub(super) saves: bool,
}

impl fmt::Display for Bed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let g = &self.geometry;
        write!(
            f,
            "seed {}: {} dies of {} blocks of {} pages, {} of {} pages logical, program order {}",
            self.seed,
            g.die_count(),
            g.blocks_per_die,
            g.pages_per_block,
            self.logical_pages,
            g.page_count(),
            g.order.name()
        )?;
        // Few enough settings on a line to fit a terminal.
        let settings: Vec<String> = self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        settings.chunks(4).try_for_each(|line| write!(f, "\n  {}", line.join(" ")))
    }
}

/// How operations are mixed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    /// Pages that take `hot_share` of the accesses.
    hot: u32,
    hot_share: f64,
    reads: f64,
    trims: f64,
    flushes: f64,
    idles: f64,
    /// Power goes off between two operations, and comes back.
    restarts: f64,
    /// Pages written before the operations begin.
    fill: u32,
    /// Pages of a request of those.
    fill_request: u32,
    /// Whether requests walk over the device, a page of each block's worth at a time: then what was written in order
    /// dies evenly, and no block is cheaper to collect than another.
    walk: bool,
}

/// Consecutive pages that the host announces together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) first: Lpn,
    pub(super) pages: u32,
}

impl Request {
    /// Its first pages, at most `count`.
    pub(super) fn start(self, count: u32) -> impl Iterator<Item = Lpn> {
        (self.first.0..self.first.0 + self.pages.min(count)).map(Lpn)
    }

    /// All of its pages.
    pub(super) fn all(self) -> impl Iterator<Item = Lpn> {
        self.start(self.pages)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LPN {}", self.first)?;
        if self.pages > 1 { write!(f, " to {}", self.first.0 + self.pages - 1) } else { Ok(()) }
    }
}

/// What the host asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// So many pages of the request are written, then the host breaks off.
    Write(Request, u32),
    Read(Request),
    Trim(Request),
    Flush,
    Idle(u32),
    /// Power goes off, and the device is mounted.
    Restart,
}

/// An operation: an action, and another page that is read after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Operation {
    pub(super) action: Action,
    pub(super) probe: Lpn,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.action {
            Action::Write(request, written) if written < request.pages => {
                write!(f, "write {request}, broken off after {written} pages")
            }
            Action::Write(request, _) => write!(f, "write {request}"),
            Action::Read(request) => write!(f, "read {request}"),
            Action::Trim(request) => write!(f, "discard {request}"),
            Action::Flush => f.write_str("flush"),
            Action::Idle(copies) => write!(f, "idle for {copies} copies"),
            Action::Restart => f.write_str("power off and on"),
        }?;
        write!(f, ", then read LPN {}", self.probe)
    }
}

/// A stream of operations.
#[derive(Clone, Debug)]
pub(super) struct Operations {
    rng: Rng,
    mix: Mix,
    pages: u32,
    pages_per_block: u32,
    /// The page behind the last request.
    behind: u32,
    /// The page of a walk.
    at: u32,
}

impl Bed {
    /// A stream of its operations, one for each purpose.
    pub(super) fn operations(&self, purpose: &str) -> Operations {
        let rng = Rng::new(self.seed).fork(purpose);
        let pages_per_block = self.geometry.pages_per_block;
        Operations { rng, mix: self.mix, pages: self.logical_pages, pages_per_block, behind: 0, at: 0 }
    }

    /// The same with as many logical pages as the scheme takes, all of which are written first.
    pub(super) fn full(self) -> Bed {
        Bed { logical_pages: self.most_pages, mix: self.mix.filling(self.most_pages), ..self }
    }

    /// Whether a write buffer stands before the scheme.
    pub(super) fn has_buffer(&self) -> bool {
        self.settings.get(buffer::POLICY.name).is_some()
    }

    /// The fewest logical pages that its write buffer takes.
    pub(super) fn least_pages(&self) -> u32 {
        let bytes = if self.has_buffer() { self.settings.count(&buffer::BYTES) } else { 0 };
        (bytes / u64::from(self.geometry.page_bytes)).max(1) as u32
    }

    /// Whether its settings ask for wear levelling.
    pub(super) fn levels_wear(&self) -> bool {
        self.settings.iter().any(|(name, value)| name == "wear-levelling" && value != Value::Word("off"))
    }

    /// After how many erases all erase counts are written, if they are kept on flash.
    pub(super) fn wear_checkpoint(&self) -> Option<u64> {
        let is_kept = self.settings.get(WEAR_STATE.name) == Some(Value::Word("on"));
        is_kept.then(|| match self.settings.count(&WEAR_CHECKPOINT) {
            0 => self.geometry.block_count().into(),
            erases => erases,
        })
    }

    /// Whether discards are durable under its settings.
    pub(super) fn durable_trim(&self) -> bool {
        self.settings.iter().any(|(name, value)| name == "durable-trim" && value == Value::Switch(true))
    }
}

impl Mix {
    /// The same without power cuts between operations.
    pub(super) fn on(self) -> Mix {
        Mix { restarts: 0.0, ..self }
    }

    /// What the host may ask for instead once power is back: in four cases of eight nearly as many discards as writes,
    /// the same few pages over and over, nothing but writes everywhere, or discards and flushes of a few pages, between
    /// which power goes off again and again.
    pub(super) fn after_a_cut(self, rng: &mut Rng) -> Mix {
        match rng.below(8) {
            0 => Mix { trims: 0.3, flushes: 0.15, ..self },
            1 => Mix { hot: self.hot.min(3), hot_share: 0.9, trims: 0.1, ..self },
            2 => Mix { hot: 0, reads: 0.0, trims: 0.0, flushes: 0.01, ..self },
            3 => Mix {
                hot: self.hot.min(6),
                hot_share: 0.7,
                reads: 0.0,
                trims: 0.3,
                flushes: 0.2,
                restarts: 0.1,
                ..self
            },
            _ => self,
        }
    }

    /// The same in a spell of a device that lives on: as after a cut, or a walk in every fourth.
    pub(super) fn of_a_spell(self, rng: &mut Rng) -> Mix {
        let mix = self.after_a_cut(rng);
        if rng.chance(0.25) { Mix { walk: true, reads: 0.0, trims: mix.trims / 8.0, ..mix } } else { mix }
    }

    /// The same in a spell of a life whose cuts are aimed. In every third a few pages are written and discarded over
    /// and over, while all others are written too, and nearly nothing is flushed: discards stand in RAM alone for long,
    /// and blocks that hold the newest copies of discarded pages are collected before older ones.
    pub(super) fn of_an_aimed_spell(self, rng: &mut Rng) -> Mix {
        let mix = self.of_a_spell(rng);
        if rng.below(3) > 0 {
            return mix;
        }
        let (hot, trims) = (self.hot.clamp(4, 12).min(self.fill.max(1)), 0.1 + 0.2 * rng.unit());
        Mix { hot, hot_share: 0.5, reads: 0.02, trims, flushes: 0.02, walk: false, ..self }
    }

    /// The requests in which the first pages are written.
    pub(super) fn requests(self) -> impl Iterator<Item = Request> {
        let Mix { fill, fill_request, .. } = self;
        let firsts = (0..fill).step_by(fill_request as usize);
        firsts.map(move |first| Request { first: Lpn(first), pages: fill_request.min(fill - first) })
    }

    /// The same mix on a device of `pages` logical pages, all of which are written first.
    pub(super) fn filling(self, pages: u32) -> Mix {
        Mix { fill: pages, ..self }
    }

    /// The same mix on a device of `pages` logical pages.
    pub(super) fn within(self, pages: u32) -> Mix {
        Mix { hot: self.hot.min(pages), fill: self.fill.min(pages), ..self }
    }
}

impl Operations {
    fn page(&mut self) -> u32 {
        if self.mix.walk {
            let next = self.at + self.pages_per_block;
            self.at = if next < self.pages { next } else { (self.at + 1) % self.pages_per_block.min(self.pages) };
            return self.at;
        }
        let hot = self.mix.hot > 0 && self.rng.chance(self.mix.hot_share);
        self.rng.below(u64::from(if hot { self.mix.hot } else { self.pages })) as u32
    }

    /// The start of the block's worth of pages that `lpn` is in.
    fn border(&self, lpn: u32) -> u32 {
        lpn - lpn % self.pages_per_block
    }

    /// What of these pages the device has.
    fn within(&self, first: u32, pages: u32) -> Request {
        Request { first: Lpn(first), pages: pages.min(self.pages - first) }
    }

    /// One page, a few, or whole blocks from a border on, perhaps with a page before it and some behind. One in eight
    /// goes on where the last one ended.
    fn request(&mut self) -> Request {
        let lpn = if self.rng.chance(0.125) { self.behind % self.pages } else { self.page() };
        let (first, pages) = match self.rng.below(100) {
            0..80 => (lpn, 1),
            80..92 => (lpn, 2 + self.rng.below(7) as u32),
            _ => {
                let blocks = if self.rng.chance(0.2) { 2 } else { 1 };
                let border = self.border(lpn);
                let before = u32::from(border > 0 && self.rng.chance(0.2));
                let behind = if self.rng.chance(0.2) { 1 + self.rng.below(3) as u32 } else { 0 };
                (border - before, before + blocks * self.pages_per_block + behind)
            }
        };
        let request = self.within(first, pages);
        self.behind = request.first.0 + request.pages;
        request
    }

    fn trim(&mut self) -> Request {
        let lpn = self.page();
        let (first, pages) = match self.rng.below(10) {
            0 => (self.border(lpn), self.pages_per_block),
            1 => (lpn, 1 + self.rng.below(16) as u32),
            _ => (lpn, 1 + self.rng.below(3) as u32),
        };
        self.within(first, pages)
    }
}

impl Iterator for Operations {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        let Mix { reads, trims, flushes, idles, restarts, .. } = self.mix;
        let probe = Lpn(self.rng.below(u64::from(self.pages)) as u32);
        let mut draw = self.rng.unit();
        let mut is = |share: f64| {
            draw -= share;
            draw < 0.0
        };
        let action = if is(reads) {
            Action::Read(self.request())
        } else if is(trims) {
            Action::Trim(self.trim())
        } else if is(flushes) {
            Action::Flush
        } else if is(idles) {
            Action::Idle(1 + self.rng.below(8) as u32)
        } else if is(restarts) {
            Action::Restart
        } else {
            let request = self.request();
            let breaks_off = request.pages > 1 && self.rng.chance(0.15);
            let written = if breaks_off { self.rng.below(u64::from(request.pages)) as u32 } else { request.pages };
            Action::Write(request, written)
        };
        Some(Operation { action, probe })
    }
}

/// Finds the device of a seed: the visitor for [`Bed`].
pub(super) struct Lay<'a> {
    pub(super) config: &'a CheckConfig,
    pub(super) seed: u64,
    pub(super) shape: Shape,
}

/// What devices are drawn from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// One or two dies of 8 to 24 blocks of 4 to 16 pages.
    FewBlocks,
    /// One die of 30 to 60 blocks of 4 pages: what is open, or is kept free, is a small part of it, so that hardly a
    /// block has more than one dead page.
    ManyBlocks,
    /// One die of 70 to 140 blocks of 4 pages: a map on flash has two to five pages.
    LargeMap,
    /// Four dies of 8 to 16 blocks of 4 or 8 pages: more can be under way at once.
    FourDies,
}

impl Lay<'_> {
    pub(super) fn run(self, row: &Scheme<'_>, recipe: &Checked) -> Result<Bed, CheckError> {
        let CheckConfig { settings: overrides, geometry, logical_pages, .. } = self.config;
        let root = Rng::new(self.seed);
        let mut rng = root.fork("device");
        let mut drawn = Geometry {
            dies: 1 + rng.below(2) as u32,
            blocks_per_die: 8 + rng.below(17) as u32,
            pages_per_block: 4 << rng.below(3),
            page_bytes: 512,
            ..Geometry::default()
        };
        if self.shape == Shape::ManyBlocks {
            drawn = Geometry { dies: 1, blocks_per_die: 30 + rng.below(31) as u32, pages_per_block: 4, ..drawn };
        }
        if self.shape == Shape::LargeMap {
            drawn = Geometry { dies: 1, blocks_per_die: 70 + rng.below(71) as u32, pages_per_block: 4, ..drawn };
        }
        if self.shape == Shape::FourDies {
            let (blocks_per_die, pages_per_block) = (8 + rng.below(9) as u32, 4 << rng.below(2));
            drawn = Geometry { dies: 4, blocks_per_die, pages_per_block, ..drawn };
        }
        let mut settings = vary(row, self.seed, &mut root.fork("settings"));
        for (name, text) in overrides {
            settings.set(name, text).map_err(CheckError)?;
        }
        // What nobody fixes is drawn anew for every seed, and gives what depends on it an effect in some.
        let is_fixed = |key: &str| overrides.iter().any(|(name, _)| name == key);
        let settled = |name: &&str| Dependence::of(name).is_some_and(|row| is_fixed(row.on));
        let names = overrides.iter().map(|(name, _)| name.as_str()).filter(settled);
        if let Some(what) = ftl::without_effect(&settings, names) {
            return Err(CheckError(what));
        }
        // A page that takes log units is programmed as often as they need, and no oftener.
        let programs = 1 + if settings.get(LU.name).is_some() { settings.small(&LU) } else { 0 };
        if settings.get("translation-mode") == Some(Value::Word("slc")) {
            drawn = Geometry { bits_per_cell: 2, slc_nop: programs, ..drawn };
        }
        // Pages that have a place of their own in their block are where the order of programs matters.
        let has_log = settings.get("log-blocks").is_some();
        if has_log {
            let orders = [ProgramOrder::Any, ProgramOrder::Strict, ProgramOrder::Ascending];
            drawn.order = orders[(self.seed % 3) as usize];
        }
        let keeps_more = ["data-blocks", "spatial"].iter().any(|name| settings.get(name).is_some());
        let keeps_wear = settings.get(WEAR_STATE.name) == Some(Value::Word("on"));
        if keeps_more || keeps_wear || self.config.buffer.is_some() {
            // More blocks have to be kept free, open or apart; and a write buffer is smaller than the device.
            drawn.blocks_per_die += 8;
        }
        let mut g = geometry.unwrap_or(drawn).checked().map_err(|error| CheckError(error.to_string()))?;
        if let Some(buffer) = write_buffer(self.config)? {
            add_buffer(&mut settings, buffer, &g, &mut root.fork("buffer"));
        }
        let mut rng = root.fork("capacity");
        let mut pages = logical_pages.unwrap_or(g.page_count());
        let pages = loop {
            match recipe.format(&mut bench(sound(g), false), pages, &settings) {
                Ok(_) => break pages,
                Err(BuildError::Device(Error::Full)) => {}
                Err(BuildError::Device(Error::Flash(Fault(fault)))) => {
                    return Err(CheckError(format!("formatting a sound device failed: {fault:?}")));
                }
                Err(BuildError::Device(error @ Error::Corrupt)) => {
                    return Err(CheckError(format!("formatting a sound device failed: {error}")));
                }
                Err(BuildError::Config(refusal)) if refusal.key == "nop" && g.nop == 1 => {
                    g.nop = programs;
                    continue;
                }
                // A choice of ours that does not fit this device goes back to its default; a cache grows.
                Err(BuildError::Config(refusal)) if row.parameter(refusal.key).is_some() && !is_fixed(refusal.key) => {
                    let parameter = row.parameter(refusal.key).expect("a setting has a row");
                    let value = settings.iter().find(|(name, _)| *name == refusal.key).expect("just seen").1;
                    match value {
                        Value::Count(n) if refusal.key == "cache-bytes" && n < 1 << 20 => {
                            settings.put(refusal.key, Value::Count(n + n / 4 + 1));
                            continue;
                        }
                        value if value != parameter.default => {
                            settings.put(refusal.key, parameter.default);
                            continue;
                        }
                        _ => {}
                    }
                }
                // The smallest devices have no room for collections in progress, and for a stream of collected pages.
                Err(_)
                    if pages <= g.pages_per_block
                        && logical_pages.is_none()
                        && !is_fixed("gc-spread")
                        && settings.get("gc-spread") == Some(Value::Switch(true)) =>
                {
                    settings.put("gc-spread", Value::Switch(false));
                    pages = g.page_count();
                    continue;
                }
                Err(_)
                    if pages <= g.pages_per_block
                        && logical_pages.is_none()
                        && !is_fixed("streams")
                        && settings.get("streams") == Some(Value::Count(2)) =>
                {
                    settings.put("streams", Value::Count(1));
                    pages = g.page_count();
                    continue;
                }
                Err(refusal) if pages <= g.pages_per_block => return Err(CheckError(refusal.to_string())),
                Err(_) => {}
            }
            if pages <= g.pages_per_block || logical_pages.is_some() {
                return Err(CheckError(format!("{} takes no device of {} blocks", row.name, g.block_count())));
            }
            pages -= 1;
        };
        // Mostly as full as can be; but a log area of the fewest blocks shows little of what log blocks can do.
        let (share, part) = if has_log { (0.6, 3) } else { (0.25, 8) };
        let most_pages = pages;
        let pages = if logical_pages.is_none() && rng.chance(share) { pages - pages / part } else { pages };
        let mut rng = root.fork("mix");
        let trims = match rng.below(5) {
            0 => 0.0,
            1 => 0.1 + 0.2 * rng.unit(),
            _ => 0.02 + 0.06 * rng.unit(),
        };
        let mix = Mix {
            hot: if rng.chance(0.3) { 0 } else { (pages / 5).max(1) },
            hot_share: 0.8,
            reads: 0.1,
            trims,
            flushes: 0.02 + 0.13 * rng.unit(),
            idles: if rng.chance(0.5) { 0.0 } else { 0.06 },
            restarts: if rng.chance(0.5) { 0.0 } else { 0.02 },
            fill: match rng.below(4) {
                0 => 0,
                1 => pages / 2,
                _ => pages,
            },
            fill_request: if rng.chance(0.5) { 1 } else { g.pages_per_block },
            walk: false,
        };
        let (seed, saves) = (self.seed, self.config.honesty);
        Ok(Bed { seed, geometry: g, logical_pages: pages, most_pages, settings, mix, saves })
    }
}

/// Settings by seed: every switch and word of the row's parameters takes all its values over the seeds, counts of a
/// narrow range too; a mapping cache is as small as the scheme takes; discards are durable in three of four seeds.
fn vary(row: &Scheme, seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = row.settings();
    for parameter in row.parameters() {
        let value = match (parameter.name, parameter.range) {
            ("durable-trim", _) => Value::Switch(seed % 4 != 3),
            ("log-ages", _) => Value::Switch(seed % 2 == 1),
            // Both rhythms of collections, half of the seeds each.
            ("gc-spread", _) => Value::Switch(rng.chance(0.5)),
            ("seed", _) => Value::Count(seed),
            ("cache-bytes", Range::Count(low, _)) => Value::Count(low.max(32) + rng.below(256)),
            ("cache-maps", _) => Value::Count(rng.below(4)),
            ("spatial", Range::Count(..)) => Value::Count(1 + rng.below(8)),
            ("fine-entries", Range::Count(..)) => Value::Count(rng.below(24)),
            // So few erases as a seed has must do.
            ("wear-threshold" | "bet-threshold", _) => Value::Count(1 + rng.below(3)),
            ("wear-checkpoint", _) => Value::Count(rng.below(16)),
            ("bet-k", _) => Value::Count(rng.below(3)),
            ("logical-blocks", _) => Value::Count(1 + rng.below(6)),
            ("slots", _) => Value::Count(3 + rng.below(8)),
            ("victim-window", _) => Value::Count(rng.below(6)),
            // So few requests as a seed has must do.
            ("ecc-decay", _) => Value::Count(1 + rng.below(64)),
            ("update-blocks", _) => Value::Count(rng.below(4)),
            // So few reads as a seed has must do.
            ("ecc-n", _) => Value::Real(rng.below(3) as f64),
            // Half of the seeds keep a parameter's default.
            _ if rng.chance(0.5) => continue,
            (_, Range::Switch) => Value::Switch(rng.chance(0.5)),
            (_, Range::Words(words)) => Value::Word(words[rng.below(words.len() as u64) as usize]),
            (_, Range::Count(low, high)) if high - low < 8 => Value::Count(low + rng.below(high - low + 1)),
            _ => continue,
        };
        settings.put(parameter.name, value);
    }
    settings
}

/// A buffer of one to two blocks. Half of the seeds keep a parameter's default, the others draw a share, or a count of
/// up to the pages of a block.
fn add_buffer(settings: &mut Settings, row: &BufferRow, g: &Geometry, rng: &mut Rng) {
    let block = u64::from(g.pages_per_block);
    buffer::add_to(settings, row, (block + rng.below(block + 1)) * u64::from(g.page_bytes));
    for parameter in row.parameters {
        let value = match parameter.range {
            _ if rng.chance(0.5) => continue,
            Range::Real(low, high) => Value::Real(low + (high - low) * rng.unit()),
            _ => Value::Count(1 + rng.below(block)),
        };
        settings.put(parameter.name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::recipe_of;
    use ftl::buffer::Behind;
    use ftl::schemes;

    /// Single pages are the rule, so that collections have work; yet whole blocks come, for schemes that treat them in
    /// a way of their own, and requests of which the end never comes.
    #[test]
    fn operations_are_requests_of_one_page_a_few_and_whole_blocks() {
        let config = &CheckConfig::new("page");
        let row = schemes::by_name("page").unwrap();
        let beds: Vec<Bed> = (0..8)
            .map(|seed| Lay { config, seed, shape: Shape::FewBlocks }.run(row, &Behind(recipe_of(row))).unwrap())
            .collect();
        let [mut writes, mut single, mut whole, mut across, mut broken_off, mut reads, mut discards] = [0; 7];
        for (bed, Operation { action, .. }) in
            beds.iter().flat_map(|bed| bed.operations("operations").take(2000).map(move |operation| (bed, operation)))
        {
            let block = bed.geometry.pages_per_block;
            let (Action::Write(request, _) | Action::Read(request) | Action::Trim(request)) = action else { continue };
            let (first, end) = (request.first.0, request.first.0 + request.pages);
            assert!(first < end && end <= bed.logical_pages, "{action:?}");
            let is_whole = first % block == 0 && request.pages >= block;
            match action {
                Action::Write(_, written) => {
                    writes += 1;
                    single += u32::from(request.pages == 1);
                    whole += u32::from(is_whole && written == request.pages);
                    across += u32::from(first % block == block - 1 && request.pages > block);
                    broken_off += u32::from(written < request.pages);
                }
                Action::Read(_) => reads += u32::from(request.pages > 1),
                _ => discards += u32::from(is_whole),
            }
        }
        assert!(single * 10 > writes * 7 && single * 10 < writes * 9, "{single} of {writes} writes are of one page");
        let seen = [whole, across, broken_off, reads, discards];
        assert!(seen.iter().all(|&count| count > 20), "whole, across, broken off, reads, discards: {seen:?}");
    }
}
