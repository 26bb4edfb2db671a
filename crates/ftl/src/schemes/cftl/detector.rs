//! Which logical blocks are read and not written.
//!
//! A byte for each: whether it was written in the present window of host page writes and in the one before, and how
//! often it was read since. A block that was written in neither has not been for at least a window.

use crate::{Loader, Saver};
use alloc::vec;
use alloc::vec::Vec;

/// Written in the present window.
const NOW: u8 = 1;
/// Written in the window before.
const BEFORE: u8 = 2;
/// A read.
const READ: u8 = 4;

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Detector {
    blocks: Vec<u8>,
    /// Host page writes that make a window, and those in the present one.
    window: u32,
    writes: u32,
    /// Reads that make a block worth converting.
    threshold: u8,
}

impl Detector {
    /// Over `blocks` logical blocks that were neither read nor written.
    pub(super) fn new(blocks: u32, window: u32, threshold: u8) -> Detector {
        Detector { blocks: vec![0; blocks as usize], window, writes: 0, threshold }
    }

    /// A page of a block was written, or discarded.
    #[inline]
    pub(super) fn wrote(&mut self, block: u32) {
        self.blocks[block as usize] = NOW;
        self.writes += 1;
        if self.writes >= self.window {
            self.writes = 0;
            for block in &mut self.blocks {
                let now = *block & NOW;
                *block = *block & !(NOW | BEFORE) | (now * BEFORE);
            }
        }
    }

    /// A page of a block was read; whether the block should be converted. Then its reads are counted anew.
    #[inline]
    pub(super) fn read(&mut self, block: u32) -> bool {
        let block = &mut self.blocks[block as usize];
        *block = block.saturating_add(READ).min(!(NOW | BEFORE) | (*block & (NOW | BEFORE)));
        let ready = *block & (NOW | BEFORE) == 0 && *block / READ >= self.threshold;
        if ready {
            *block = 0;
        }
        ready
    }

    /// Bytes for so many logical blocks, and the writes of the window.
    pub(super) fn bytes(blocks: u32) -> u64 {
        u64::from(blocks) + 4
    }

    /// Controller RAM, bytes.
    pub(super) fn memory(&self) -> u64 {
        Self::bytes(self.blocks.len() as u32)
    }

    /// Saves the state.
    pub(super) fn save(&self, out: &mut Saver) {
        out.u32(self.writes);
        self.blocks.iter().for_each(|&block| out.u8(block));
    }

    /// Loads what [`Detector::save`] saved.
    pub(super) fn load(&mut self, from: &mut Loader<'_>) {
        self.writes = from.u32();
        self.blocks.iter_mut().for_each(|block| *block = from.u8());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_ready_after_a_window_without_writes_and_enough_reads() {
        let mut detector = Detector::new(3, 10, 4);
        detector.wrote(0);
        // Its reads since count from the first, but the window it was written in must end, and another pass.
        assert!((0..8).all(|_| !detector.read(0)));
        (0..9).for_each(|_| detector.wrote(1));
        assert!(!detector.read(0));
        (0..9).for_each(|_| detector.wrote(1));
        assert!(!detector.read(0));
        detector.wrote(1);
        assert!(detector.read(0));
        // Four more make it ready again.
        assert_eq!([(); 8].map(|()| detector.read(0)), [false, false, false, true, false, false, false, true]);
        // What is written all the time never is, however often it is read.
        for _ in 0..100 {
            detector.wrote(1);
            assert!(!detector.read(1) && !detector.read(1));
        }
        // Reads beyond what is counted change nothing else.
        detector.wrote(2);
        assert!((0..1000).all(|_| !detector.read(2)));
        detector.wrote(2);
        (0..20).for_each(|_| detector.wrote(1));
        assert_eq!([(); 4].map(|()| detector.read(2)), [false, false, false, true]);
    }
}
