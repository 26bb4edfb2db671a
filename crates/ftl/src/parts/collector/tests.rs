//! The rules of room, held to states in which nothing else would save the device.
//!
//! Which of them a device meets is a matter of luck: most that are drawn have a second way out. So here a scheme that
//! does what it is told is brought to the state that a rule is for.

use super::*;
use crate::gc::POLICY;
use crate::parts::space::{self, COLLECTION};
use crate::parts::supply;
use alloc::collections::BTreeMap;
use flash::{Full, Geometry, Lpn, Nand, NoData, Oob, Payload, Ppn, Tvpn};

type Chip = Nand<NoData, Full>;

const DATA: Stream = Stream(0);
const MAP: Stream = Stream(1);
const PAGES: u32 = 8;

/// A scheme that writes as many pages about a block as it is told to. Nothing is collected unless a test asks.
struct Told {
    space: Space,
    /// Where each LPN is.
    places: BTreeMap<u32, Ppn>,
    /// Where each page of the map is.
    map: BTreeMap<u32, Ppn>,
    /// Pages of the map that are written about a block of data.
    told: u32,
}

impl Told {
    /// Nothing on dies of eight blocks of eight pages; with a stream for the map, whose blocks the policy does not see,
    /// if pages are `told`.
    fn new(dies: u32, told: u32, settings: &[(&str, &str)]) -> (Told, Chip) {
        let g = Geometry { dies, blocks_per_die: 8, pages_per_block: PAGES, ..Geometry::default() };
        let rows = [COLLECTION, supply::GROUP].iter().flat_map(|group| group.rows);
        let mut words = Settings::defaults(rows);
        settings.iter().for_each(|(name, value)| words.set(name, value).unwrap());
        let chip = Nand::new(g.checked().unwrap());
        let streams = vec![dies as usize; if told > 0 { 2 } else { 1 }];
        let mut space = Space::new(*chip.geometry(), &space::Options::from(&words), &streams, 1);
        if told > 0 {
            space.translation = Some(TranslationBlocks { stream: MAP, closed: Vec::new(), among_data: false });
        }
        (Told { space, places: BTreeMap::new(), map: BTreeMap::new(), told }, chip)
    }

    fn put(&mut self, chip: &mut Chip, die: Die, lpn: u32) {
        let to = self.space.page_on(chip, DATA, Lane::of(die)).unwrap();
        let program = self.space.number_for(chip, to);
        let Ok(()) = chip.program(to, Oob::data(Lpn(lpn), program, program), Payload::User(&()), Cause::Host);
        if let Some(former) = self.places.insert(lpn, to) {
            self.space.blocks.kill(former);
        }
    }

    fn put_map<F: Flash>(&mut self, flash: &mut F, die: Die, tvpn: u32) -> Outcome<F> {
        let to = self.space.page_on(flash, MAP, Lane::of(die))?;
        let program = self.space.number_for(flash, to);
        let oob = Oob::translation(Tvpn(tvpn), program, program);
        flash.program(to, oob, Payload::Meta(&[tvpn]), Cause::TranslationUpdate)?;
        if let Some(former) = self.map.insert(tvpn, to) {
            self.space.blocks.kill(former);
        }
        Ok(())
    }

    /// Fills blocks of data with LPNs of their own, and discards `dead` pages of each.
    fn fill(&mut self, chip: &mut Chip, die: Die, blocks: impl IntoIterator<Item = u32>) -> Vec<Block> {
        let filled = blocks.into_iter().map(|dead| {
            let first = self.places.len() as u32 + 1000 * die.0;
            (first..first + PAGES).for_each(|lpn| self.put(chip, die, lpn));
            let block = chip.geometry().block_of(self.places[&first]);
            // They stay in the list, so that no LPN is given twice.
            (first..first + dead).for_each(|lpn| self.space.blocks.kill(self.places[&lpn]));
            block
        });
        filled.collect()
    }

    /// Keeps all but `free` free blocks of a die from everybody.
    fn leave(&mut self, die: Die, free: u32) {
        while self.space.blocks.free_in(die) > free {
            self.space.blocks.open(die).unwrap();
        }
    }
}

impl Collects for Told {
    fn space(&self) -> &Space {
        &self.space
    }

    fn space_mut(&mut self) -> &mut Space {
        &mut self.space
    }

    fn takes(&self, block: Block) -> Takes {
        let live = self.space.blocks.live_of(block);
        match self.told {
            0 => Takes { moved: (DATA, live), told: (DATA, 0) },
            _ if self.space.is_translation(block) => Takes { moved: (MAP, live), told: (MAP, 0) },
            told => Takes { moved: (DATA, live), told: (MAP, told) },
        }
    }

    fn move_out<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        mut next: u32,
        limit: u32,
        cause: Option<Cause>,
    ) -> Outcome<F, Option<u32>> {
        let (g, mut left) = (*flash.geometry(), limit);
        assert!(!self.space.is_translation(block), "no test empties a block of the map");
        while let Some((first, bits)) = self.space.blocks.live_word(block, next) {
            if left == 0 {
                return Ok(Some(first));
            }
            let from = (g.page(block, first), space::lowest_bits(bits, left));
            let mut moved = Vec::new();
            let cause = cause.unwrap_or(Cause::DataGc);
            let run = self.space.move_run(flash, DATA, g.die_of(block), from, cause, |_, lpn| moved.push(lpn))?;
            self.places.extend(moved.into_iter().zip(run.to.map(Ppn)));
            run.result?;
            next = first + 64 - run.moved.leading_zeros();
            left -= run.moved.count_ones();
        }
        Ok(None)
    }

    fn tell<F: Flash>(&mut self, flash: &mut F, block: Block, _: u32, _: Option<Cause>) -> Outcome<F, bool> {
        let die = flash.geometry().die_of(block);
        (0..self.told).try_for_each(|tvpn| self.put_map(flash, die, tvpn))?;
        Ok(true)
    }

    fn count_victim(&mut self, _: Block) {}

    fn count_dead_victim(&mut self) {}
}

const FIFO: (&str, &str) = (POLICY.name, "fifo");
const HERE: Die = Die(0);

/// A block of the map of which more pages live than there is room for would be begun and never ended.
#[test]
fn a_block_of_the_map_that_does_not_fit_is_no_victim() {
    for (free, fits) in [(0, false), (1, true)] {
        let (mut scheme, mut chip) = Told::new(1, 1, &[]);
        // A block of the map with two dead pages, and one that is open and full.
        let pages = (0..PAGES).chain(0..2).chain(PAGES..PAGES + 6);
        pages.for_each(|tvpn| scheme.put_map(&mut chip, HERE, tvpn).unwrap());
        scheme.leave(HERE, free);
        let gives = scheme.space.best_translation_block(HERE);
        assert!(gives.is_some(), "it gives pages back");
        assert_eq!(scheme.choose(HERE, false), gives.filter(|_| fits), "{free} free");
    }
}

/// Power that is cut while a block without a dead page moves takes a page, and nothing is given back for it.
#[test]
fn a_mount_with_few_free_blocks_takes_the_cheapest_victims() {
    let (mut scheme, mut chip) = Told::new(1, 0, &[FIFO]);
    let blocks = scheme.fill(&mut chip, HERE, [0, 0, 2, 0]);
    scheme.leave(HERE, 1);
    assert_eq!(scheme.choose(HERE, false), Some(blocks[0]), "`fifo` would move the oldest");
    let before = scheme.places.clone();
    scheme.make_room_everywhere(&mut chip).unwrap();
    let stays = |(lpn, page): &(&u32, &Ppn)| before[lpn] == **page;
    assert!(scheme.space.blocks.is_free(blocks[2]));
    assert_eq!(scheme.places.iter().filter(stays).count() as u32, 3 * PAGES + 2, "the six live pages alone move");
}

/// A block without a dead page is begun with a block to spare even if a mount has filled what is open for the map.
#[test]
fn a_block_without_a_dead_page_moves_only_if_a_mount_may_fill_the_open_block_of_the_map() {
    for (free, moves) in [(2, false), (3, true)] {
        let (mut scheme, mut chip) = Told::new(1, 1, &[FIFO]);
        let blocks = scheme.fill(&mut chip, HERE, [0, 3, 0]);
        scheme.put_map(&mut chip, HERE, 0).unwrap();
        scheme.leave(HERE, free);
        // Its pages take a block, and the page of the map has room.
        assert_eq!((scheme.needs(blocks[0]), scheme.needs_behind_a_mount(blocks[0])), (1, 2));
        assert_eq!(scheme.choose(HERE, false), Some(blocks[if moves { 0 } else { 1 }]), "{free} free");
    }
}

/// What is open for the map counts for a collection that is under way, until the map takes it.
#[test]
fn the_map_takes_no_room_that_a_spread_collection_needs() {
    for (room, ends) in [(1, false), (0, true)] {
        let (mut scheme, mut chip) = Told::new(1, 1, &[(SPREAD.name, "on")]);
        let [victim, _] = scheme.fill(&mut chip, HERE, [3, 0])[..] else { panic!("two blocks") };
        (0..PAGES - room).for_each(|tvpn| scheme.put_map(&mut chip, HERE, tvpn).unwrap());
        scheme.start(HERE, victim);
        let needs = scheme.needs(victim);
        scheme.leave(HERE, needs);
        // A page fits into what is open, or takes a block.
        scheme.secure(&mut chip, MAP, 1).unwrap();
        let running = scheme.collector().victim(HERE).is_some();
        assert_eq!((running, scheme.space.blocks.is_free(victim)), (!ends, ends), "room for {room}");
    }
}

/// The other die has nothing to collect, and room for what is written about the pages.
#[test]
fn room_is_borrowed_from_another_die_for_what_is_written_about_a_victim() {
    let (mut scheme, mut chip) = Told::new(2, 1, &[]);
    let [victim, _] = scheme.fill(&mut chip, HERE, [3, 0])[..] else { panic!("two blocks") };
    // Its pages have room where they are, in what is open; the page of the map has none.
    (500..500 + PAGES - 5).for_each(|lpn| scheme.put(&mut chip, HERE, lpn));
    scheme.leave(HERE, 0);
    scheme.put_map(&mut chip, Die(1), 0).unwrap();
    assert_eq!((scheme.choose(HERE, true), scheme.choose(Die(1), true)), (None, None));
    assert_eq!(scheme.borrow_room(&mut chip), Ok(true));
    assert!(scheme.space.blocks.is_free(victim));
    assert_eq!(chip.geometry().die_of(chip.geometry().block_of(scheme.map[&0])), Die(1));
    // Nothing is left to collect anywhere.
    assert_eq!(scheme.borrow_room(&mut chip), Ok(false));
}
