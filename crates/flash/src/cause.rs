//! What every flash command was for, and the table of counts that all plots and metrics fall out of.

use crate::Mode;

macro_rules! enumeration {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every variant, in the order of the discriminants.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];
            /// The key in reports.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }
    };
}

enumeration!(
    /// Why a flash command was issued (DESIGN, metrics; definitions in docs/metrics.md).
    Cause {
        /// The page that the host asked for.
        Host = "host",
        /// Reading a translation page on a mapping-cache miss.
        TranslationLoad = "translation_load",
        /// Bringing dirty mapping entries (evicted, or moved by data collection) into a translation page.
        TranslationUpdate = "translation_update",
        /// Collecting a block of translation pages.
        TranslationGc = "translation_gc",
        /// Collecting a block of data pages.
        DataGc = "data_gc",
        /// Switch merge of a log block.
        MergeSwitch = "merge_switch",
        /// Partial merge of a log block.
        MergePartial = "merge_partial",
        /// Full merge of a log block.
        MergeFull = "merge_full",
        /// Free page reuse: swapping an obsolete block into the log area.
        Swap = "swap",
        /// Moving data to even out wear.
        WearLevelling = "wear_levelling",
        /// Rewriting a page under another error-correcting code.
        EccRewrite = "ecc_rewrite",
        /// Tombstones, checkpoints, bad-block marks.
        Metadata = "metadata",
        /// Mounting after a power cut.
        Recovery = "recovery",
        /// Keeping a page whose cells are about to be programmed again ([`Guard`](crate::Guard)).
        PairBackup = "pair_backup",
        /// Moving data out of a block that reads or time have worn on ([`Flash::tired`](crate::Flash::tired)).
        Refresh = "refresh",
    }
);

enumeration!(
    /// The kinds of flash command that a tally keeps apart.
    Op {
        /// Full page read.
        Read = "reads",
        /// Read of the spare area alone.
        OobRead = "oob_reads",
        /// Page program.
        Program = "programs",
        /// Partial program of a page that is programmed already.
        PartialProgram = "partial_programs",
        /// Block erase.
        Erase = "erases",
    }
);

/// Commands counted by cause and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    counts: [[u64; Op::ALL.len()]; Cause::ALL.len()],
    /// Those of them on pages of the other modes than [`Mode::Normal`], in the order of [`Mode::ALL`].
    modes: [[[u64; Op::ALL.len()]; Cause::ALL.len()]; Mode::ALL.len() - 1],
    /// Bytes appended by partial programs, those of the spare area aside.
    pub partial_bytes: u64,
}

impl Default for Tally {
    fn default() -> Self {
        let none = [[0; Op::ALL.len()]; Cause::ALL.len()];
        Tally { counts: none, modes: [none; Mode::ALL.len() - 1], partial_bytes: 0 }
    }
}

impl Tally {
    /// Counts one command.
    #[inline(always)]
    pub fn add(&mut self, cause: Cause, op: Op) {
        self.add_many(cause, op, 1);
    }

    /// Counts `count` commands.
    #[inline(always)]
    pub fn add_many(&mut self, cause: Cause, op: Op, count: u64) {
        self.counts[cause as usize][op as usize] += count;
    }

    /// Says that so many of the commands counted were on pages of a mode other than [`Mode::Normal`].
    #[cold]
    pub fn mark(&mut self, cause: Cause, op: Op, mode: Mode, count: u64) {
        self.modes[mode as usize - 1][cause as usize][op as usize] += count;
    }

    /// Commands of this cause and kind on pages of this mode. An erase has the mode of its block, SLC mode or normal.
    pub fn of_mode(&self, cause: Cause, op: Op, mode: Mode) -> u64 {
        let of = |modes: &[[u64; Op::ALL.len()]; Cause::ALL.len()]| modes[cause as usize][op as usize];
        match mode {
            Mode::Normal => self.get(cause, op) - self.modes.iter().map(of).sum::<u64>(),
            mode => of(&self.modes[mode as usize - 1]),
        }
    }

    /// Commands of this cause and kind.
    pub fn get(&self, cause: Cause, op: Op) -> u64 {
        self.counts[cause as usize][op as usize]
    }

    /// Commands of this kind over all causes.
    pub fn of(&self, op: Op) -> u64 {
        Cause::ALL.iter().map(|&cause| self.get(cause, op)).sum()
    }

    /// Commands of this cause, all kinds together.
    pub fn by(&self, cause: Cause) -> u64 {
        self.counts[cause as usize].iter().sum()
    }

    /// All commands.
    pub fn total(&self) -> u64 {
        Op::ALL.iter().map(|&op| self.of(op)).sum()
    }

    /// What was counted since `earlier`, an older copy of this tally.
    pub fn since(&self, earlier: &Tally) -> Tally {
        let mut out = self.clone();
        let counts = out.modes.iter_mut().zip(&earlier.modes).chain([(&mut out.counts, &earlier.counts)]);
        for (rows, old) in counts {
            for (count, old) in rows.iter_mut().flatten().zip(old.iter().flatten()) {
                *count -= old;
            }
        }
        out.partial_bytes -= earlier.partial_bytes;
        out
    }
}
