//! Flash translation layers: schemes, their parts and their policies.
//!
//! A scheme is a file in [`schemes`] and a row in its table. It implements [`Ftl`], [`Build`] and [`Inspect`] against
//! any [`flash::Flash`], knows only what it keeps in RAM (reported in bytes by [`Inspect::memory`]) and what it reads
//! from flash, and can be rebuilt from flash alone. [`buffer`] has the write buffers that can stand in front of any
//! scheme. Private are the parts that schemes are made of: `parts/` holds what they share, `gc/` the victim policies,
//! `blocks` the state of every block, on which both stand, `ecc_policy/` who says how host pages are protected.
#![no_std]

extern crate alloc;

mod any;
mod blocks;
pub mod buffer;
mod codec;
mod demand;
mod dependences;
mod ecc_policy;
mod gc;
mod hybrid;
pub mod papers;
mod parts;
mod scheme;
pub mod schemes;
mod settings;

pub use any::{AnyRecipe, AnyScheme};
pub use blocks::Blocks;
pub use codec::{Loader, Saver};
pub use dependences::without_effect;
pub use ecc_policy::described as ecc_policies;
pub use gc::{GcPolicy, GcRow, NAMES as GC_NAMES, Options as GcOptions, POLICIES as GC_POLICIES, plug as plug_policy};
pub use scheme::{
    Build, BuildError, Built, CacheCounters, ConfigError, Error, Ftl, Inspect, MountReport, Outcome, Recipe, Scheme,
    Static,
};
pub use settings::{Dependence, Group, Parameter, Range, Settings, Value};

/// Parameters that programs name, to set them or to see how they are set; all others they find in the rows of schemes.
pub mod parameters {
    pub use crate::demand::logged::LU;
    pub use crate::ecc_policy::POLICY as ECC;
    pub use crate::hybrid::ages::LOG_AGES;
    pub use crate::hybrid::parameters::LOG_VICTIM;
    pub use crate::parts::collector::{GC_HIGH, GC_LOW, SPREAD};
    pub use crate::parts::wear::WEAR_LEVELLING;
    pub use crate::parts::wear_state::{WEAR_CHECKPOINT, WEAR_STATE};
}

/// What fuzz targets look at.
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    use crate::parts::log_units::LogUnits;
    use alloc::vec::Vec;
    use flash::Ppn;

    /// A page of a translation page with a log, of any content: what a scan takes for sound can be read, entry by entry
    /// as in a row, and another unit can be appended.
    ///
    /// # Panics
    /// If that does not hold.
    pub fn log_units(data: &[u8]) {
        let Some((&choice, bytes)) = data.split_first() else { return };
        let sizes = [[4, 6, 7], [4, 6, 0], [16, 8, 13], [4, 6, 3]][usize::from(choice & 3)];
        let share = [0.25, 0.5, 0.1, 0.9][usize::from(choice >> 2 & 3)];
        let layout = LogUnits::new(512, share, sizes, 1 + u32::from(choice >> 4)).expect("the sizes are sound");
        let mut page = [u8::MAX; 512];
        let log = layout.log_start() as usize;
        let count = bytes.len().min(512 - log);
        page[log..log + count].copy_from_slice(&bytes[..count]);
        if choice & 1 == 0 && count > 8 {
            // A sound unit in front, so that not only the first can be one.
            let mut unit = Vec::new();
            let entry = u32::from(bytes[0]) % layout.entries();
            layout.encode([(entry, Ppn(7))].into_iter(), &mut unit);
            let end = (log + unit.len() + count).min(512);
            page[log..log + unit.len()].copy_from_slice(&unit);
            page[log + unit.len()..end].copy_from_slice(&bytes[..end - log - unit.len()]);
        }
        let words: Vec<u32> = page.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        let scan = layout.scan(&words);
        assert!(scan.state.tail <= layout.log_bytes(), "{scan:?}");
        let mut replayed: Vec<Ppn> = words[..layout.entries() as usize].iter().map(|&word| Ppn(word)).collect();
        layout.replay(&words, scan.state, |index, ppn| replayed[index as usize] = ppn);
        for (index, &ppn) in (0..).zip(&replayed) {
            assert_eq!(layout.entry(&words, scan.state, index), ppn, "entry {index}");
        }
        assert_eq!(layout.unpack(layout.pack(layout.closed(scan.state))), layout.closed(scan.state));
        if let Some(mark) = layout.mark(scan.state) {
            assert_eq!(layout.scan_marked(&words, mark), scan);
        }
    }
}

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
