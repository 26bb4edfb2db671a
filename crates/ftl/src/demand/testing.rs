//! What every scheme of the family must survive, for the tests of each.

use super::cache::Cache;
use super::map::MapStore;
use super::*;
use flash::{Failing, FailurePlan, Full, Nand, Rng, Tags};

/// Small devices on which programs fail until no room is left, each with settings of its own.
///
/// What broke: pages whose map entries named dead pages, on devices that filled up with bad blocks. Why: programs that
/// fail in the middle of a collection take the room that it counted on, and its end with `Full` forgot which pages had
/// moved already, and which entries were in no translation page yet. Since then both go back to what they were.
pub(crate) fn a_collection_that_bad_blocks_cut_short_loses_nothing<C: Cache, S: MapStore>(
    settings: impl Fn(&mut Rng) -> Settings,
) {
    let mut cut_short = 0;
    for seed in 0..400u64 {
        let mut rng = Rng::new(seed);
        let settings = settings(&mut rng);
        let g = Geometry { blocks_per_die: 60, pages_per_block: 8, page_bytes: 512, ..Geometry::default() };
        let plan = FailurePlan { program_rate: 0.02, ..FailurePlan::default() };
        let mut flash = Failing::new(Nand::<Tags, Full>::new(g.checked().unwrap()), plan, seed);
        let pages = 300;
        let mut ftl = Demand::<C, S>::format(&mut flash, pages, &settings).unwrap();
        let mut expected: Vec<Option<u64>> = vec![None; pages as usize];
        let mut refused = 0;
        for tag in 0..3000u64 {
            let lpn = rng.below(u64::from(pages)) as u32;
            match ftl.write(&mut flash, Lpn(lpn), &tag) {
                Ok(()) => expected[lpn as usize] = Some(tag),
                Err(Error::Full) if refused == 20 => break,
                Err(Error::Full) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
            if refused > 0 {
                ftl.audit(&mut flash).unwrap_or_else(|what| panic!("seed {seed}, write {tag}: {what}"));
            }
        }
        cut_short += u32::from(refused > 0);
        for (lpn, &tag) in expected.iter().enumerate() {
            let read = ftl.read(&mut flash, Lpn(lpn as u32)).unwrap().copied();
            assert_eq!(read, tag, "seed {seed}, LPN {lpn}");
        }
        ftl.audit(&mut flash).unwrap();
    }
    assert!(cut_short > 100, "{cut_short} devices filled up");
}
