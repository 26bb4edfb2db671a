//! Refresh: what a block holds goes elsewhere before reads and time have taken it.
//!
//! Each read of a page disturbs the others of its block a little, and charge leaks while nobody looks. The chip's code
//! corrects that for a while. A medium that counts the bits which it corrects names the blocks in which they are many
//! ([`Flash::tired`]), and whoever has the block moves its pages and erases it: nothing else helps. It is done in idle
//! time, a block at a time, and never on the way of a request. A medium without tired blocks costs a question.
//!
//! The move is what the scheme has for wear levelling: a collection, or copies to the same places of another block. But
//! it must reach every block, and levelling passes over some:
//!
//! - *a block that is being filled* is sealed first, or moved with its part, so that it is filled further elsewhere;
//! - *a block that is free* may hold what a mount found needless. It is erased: until then the medium names it;
//! - *blocks of checkpoints* are written anew by writing checkpoints until their turn has come.
//!
//! A move takes one of the blocks that are kept free and gives one back. Where blocks went bad and none is free it is
//! left out, as wear levelling leaves it out, and the next tired block is looked at.

use crate::parts::supply::Supply;
use crate::{Error, Outcome};
use flash::{Block, Cause, Flash};

/// Refreshes the first tired block that can be. `refresh` is handed them one after another until it says that it has;
/// whether it did.
///
/// # Errors
/// The medium's. A device without room for a move leaves it out.
pub(crate) fn first<F: Flash>(
    flash: &mut F,
    mut refresh: impl FnMut(&mut F, Block) -> Outcome<F, bool>,
) -> Outcome<F, bool> {
    let mut from = Block(0);
    while let Some(block) = flash.tired(from) {
        match refresh(flash, block) {
            Ok(false) | Err(Error::Full) => from = Block(block.0 + 1),
            done => return done,
        }
    }
    Ok(false)
}

impl Supply {
    /// Refreshes a tired block that is free, or one of checkpoints; whether it did. `None` if it holds what the scheme
    /// has to move.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) fn refresh_unused<F: Flash>(&mut self, flash: &mut F, block: Block) -> Outcome<F, Option<bool>> {
        if self.blocks.is_bad(block) {
            return Ok(Some(false));
        }
        if self.is_of_checkpoints(block) {
            return self.renew_checkpoint(flash).map(Some);
        }
        if self.blocks.open_block(block).is_none() {
            return Ok(None);
        }
        self.blocks.discard_open(block);
        self.erase(flash, block, Cause::Refresh).map(|()| Some(true))
    }
}

#[cfg(test)]
mod tests {
    use crate::schemes::{Fast, Page, Simple, Superblock, by_name};
    use crate::{Build, Ftl, Settings};
    use alloc::string::String;
    use alloc::vec::Vec;
    use flash::{Failing, FailurePlan, Full, Geometry, Lpn, Nand, ProgramOrder, Tags, Transcript};

    type Chip = Transcript<Failing<Nand<Tags, Full>>>;

    /// A scheme on eight blocks of four pages, which are tired after more than twelve reads.
    struct Run<S> {
        flash: Chip,
        scheme: S,
    }

    impl<S: Build<Chip>> Run<S> {
        fn new(name: &str) -> Run<S> {
            let order = ProgramOrder::Any;
            let g = Geometry { blocks_per_die: 8, pages_per_block: 4, order, ..Geometry::default() }.checked().unwrap();
            let plan = FailurePlan { reads_endured: Some(24), ..FailurePlan::default() };
            let mut flash = Transcript::new(Failing::new(Nand::new(g), plan, 1));
            let mut settings: Settings = by_name(name).unwrap().settings();
            if settings.get("durable-trim").is_some() {
                settings.set("durable-trim", "off").unwrap();
            }
            let scheme = S::format(&mut flash, 12, &settings).unwrap();
            Run { flash, scheme }
        }

        fn write(&mut self, lpns: &[u32]) -> Vec<String> {
            self.flash.take();
            for &lpn in lpns {
                self.scheme.request(Lpn(lpn), 1);
                self.scheme.write(&mut self.flash, Lpn(lpn), &u64::from(lpn)).unwrap();
            }
            self.flash.take()
        }

        fn read(&mut self, lpn: u32, times: u32) {
            for _ in 0..times {
                assert_eq!(self.scheme.read(&mut self.flash, Lpn(lpn)).unwrap(), Some(&lpn.into()));
            }
        }

        /// What idle time is used for.
        fn rest(&mut self) -> Vec<String> {
            self.flash.take();
            while self.scheme.idle(&mut self.flash, 8).unwrap() {}
            let mut lines = self.flash.take();
            lines.retain(|line| !line.starts_with('O'));
            self.scheme.audit(&mut self.flash).unwrap();
            lines
        }
    }

    /// Nothing is done before the block is tired; then its pages move on like a victim's, and it is erased.
    fn moves_a_full_block<S: Build<Chip>>(name: &str, targets: [&str; 4]) {
        let mut run = Run::<S>::new(name);
        run.write(&[0, 1, 2, 3, 4]);
        run.read(1, 9);
        assert_eq!(run.rest(), Vec::<String>::new(), "{name}");
        // The audit has looked at each page.
        let mut lines = run.rest();
        let copies = (0..4)
            .zip(targets)
            .flat_map(|(lpn, to)| [alloc::format!("R 0.{lpn} refresh"), alloc::format!("W {to} data {lpn} refresh")]);
        assert_eq!(lines.pop().unwrap(), "E 0 refresh", "{name}");
        assert_eq!(lines, copies.collect::<Vec<_>>(), "{name}");
        (0..5).for_each(|lpn| run.read(lpn, 1));
    }

    #[test]
    fn a_tired_block_is_emptied_and_erased() {
        moves_a_full_block::<Page>("page", ["1.1", "1.2", "1.3", "2.0"]);
        moves_a_full_block::<Simple>("simple", ["1.1", "1.2", "1.3", "2.0"]);
        moves_a_full_block::<Fast>("fast", ["2.0", "2.1", "2.2", "2.3"]);
    }

    /// A block that is being filled is left for another one, or goes on elsewhere.
    fn moves_an_open_block<S: Build<Chip>>(name: &str) {
        let mut run = Run::<S>::new(name);
        run.write(&[0, 1]);
        run.read(1, 13);
        let moved = ["R 0.0 refresh", "W 1.0 data 0 refresh", "R 0.1 refresh", "W 1.1 data 1 refresh", "E 0 refresh"];
        assert_eq!(run.rest(), moved, "{name}");
        assert_eq!(run.write(&[2]), ["W 1.2 data 2 host"], "{name}");
        (0..3).for_each(|lpn| run.read(lpn, 1));
    }

    #[test]
    fn a_tired_block_is_moved_while_it_is_filled() {
        moves_an_open_block::<Page>("page");
        moves_an_open_block::<Simple>("simple");
        moves_an_open_block::<Fast>("fast");
    }

    /// A mount goes on with the newest block of a die, so the erase of that block must not be cut short before another
    /// one is newer. If there is nothing in it to be moved, it waits for the next write.
    #[test]
    fn a_tired_block_of_dead_pages_stays_while_it_is_the_newest() {
        let mut run = Run::<Page>::new("page");
        run.write(&[0, 1]);
        run.read(1, 13);
        run.scheme.trim(&mut run.flash, Lpn(0), 2).unwrap();
        assert_eq!(run.rest(), Vec::<String>::new());
        assert_eq!(run.write(&[2]), ["W 1.0 data 2 host"], "nothing more goes where it would be lost");
        assert_eq!(run.rest(), ["E 0 refresh"]);
    }

    /// What broke: a block that was tired for long, all dead and the newest of its die, took a page after a mount, and
    /// the page was lost.
    #[test]
    fn a_mount_does_not_go_on_filling_a_tired_block() {
        let mut run = Run::<Page>::new("page");
        run.write(&[0, 1]);
        run.read(1, 13);
        let settings = by_name("page").unwrap().settings();
        run.scheme = Page::mount(&mut run.flash, 12, &settings).unwrap().0;
        // Behind a mount a free block is erased before it is filled.
        assert_eq!(run.write(&[2]), ["E 1 recovery", "W 1.0 data 2 host"]);
        (0..3).for_each(|lpn| run.read(lpn, 1));
    }

    /// Two blocks are tired, and the later one is being filled, by the host or, the second time, with what was moved:
    /// what is in the first does not go there.
    fn moves_each_page_once<S: Build<Chip>>(name: &str) {
        let mut run = Run::<S>::new(name);
        run.write(&[0, 1, 2, 3, 4]);
        for _ in 0..2 {
            (0..5).for_each(|lpn| run.read(lpn, if lpn == 4 { 13 } else { 4 }));
            let copies = run.rest().iter().filter(|line| line.starts_with('W')).count();
            assert_eq!(copies, 5, "{name}");
        }
    }

    #[test]
    fn what_is_moved_goes_into_no_tired_block() {
        moves_each_page_once::<Page>("page");
        moves_each_page_once::<Simple>("simple");
        moves_each_page_once::<Superblock>("superblock");
    }

    /// A block that has to wait comes first here, and the next tired one does not wait for it.
    #[test]
    fn a_tired_block_is_moved_though_one_before_it_has_to_wait() {
        let mut run = Run::<Page>::new("page");
        // Blocks 0 to 7, and then the first that was free again: the newest is block 1.
        for lpns in [0..4, 4..8, 4..8, 4..8, 4..8, 4..8, 4..8, 8..12] {
            run.write(&lpns.collect::<Vec<_>>());
        }
        assert_eq!(run.write(&[4]).pop().unwrap(), "W 1.0 data 4 host");
        run.read(4, 13);
        run.read(9, 13);
        run.scheme.trim(&mut run.flash, Lpn(4), 1).unwrap();
        assert!(run.rest().iter().any(|line| line == "E 7 refresh"));
    }
}
