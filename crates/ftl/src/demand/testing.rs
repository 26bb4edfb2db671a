//! What every scheme of the family must survive, for the tests of each.

use super::cache::Cache;
use super::map::MapStore;
use super::*;
use flash::{CutPoint, Die, Failing, FailurePlan, Full, Nand, PowerCut, Rng, Tags};

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

/// The host writes all over a device whose cache is small, while collections are spread; idle time takes a page of the
/// work now and then. A victim is erased when the translation pages know of all that was moved out of it, so a die
/// without a victim has no moves left to tell.
pub(crate) fn a_spread_collection_ends_when_all_its_moves_are_told<C: Cache, S: MapStore>(settings: &Settings) {
    let g = Geometry { blocks_per_die: 60, pages_per_block: 16, page_bytes: 512, ..Geometry::default() };
    let mut flash = Nand::<Tags, Full>::new(g.checked().unwrap());
    let pages = 700;
    let mut ftl = Demand::<C, S>::format(&mut flash, pages, settings).unwrap();
    let (mut rng, mut told, mut were) = (Rng::new(7), 0, 0);
    for tag in 0..6000u64 {
        ftl.write(&mut flash, Lpn(rng.below(u64::from(pages)) as u32), &tag).unwrap();
        if tag % 4 == 0 {
            ftl.idle(&mut flash, 1).unwrap();
        }
        let left = ftl.map.moves.count_on(Die(0));
        let is_over = ftl.map.space.collector.victim(Die(0)).is_none();
        assert!(!is_over || left == 0, "write {tag}: {left} moves of no collection");
        told += u32::from(is_over && were > 0);
        were = left;
    }
    assert!(told > 20, "{told} collections ended with moves");
}

/// A spread collection ends in a slice, behind a write. What it erases may be the newest copy of a discarded page, with
/// an older one left: the discard is on flash before that.
pub(crate) fn a_discard_holds_though_a_spread_collection_erases_the_newest_copy<C: Cache, S: MapStore>(
    settings: &Settings,
) {
    let g = Geometry { blocks_per_die: 16, pages_per_block: 8, page_bytes: 512, ..Geometry::default() };
    let mut flash = Nand::<Tags, Full>::new(g.checked().unwrap());
    let mut ftl = Demand::<C, S>::format(&mut flash, 64, settings).unwrap();
    for lpn in (0..8).chain([0]).chain([8; 7]) {
        ftl.write(&mut flash, Lpn(lpn), &lpn.into()).unwrap();
    }
    ftl.trim(&mut flash, Lpn(0), 1).unwrap();
    while ftl.map.space.blocks.erase_counts()[1] == 0 {
        ftl.write(&mut flash, Lpn(8), &8).unwrap();
    }
    assert_eq!(ftl.map.space.blocks.erase_counts()[0], 0, "the older copy is still there");
    let (mut ftl, _) = Demand::<C, S>::mount(&mut flash, 64, settings).unwrap();
    assert_eq!(ftl.read(&mut flash, Lpn(0)).unwrap(), None);
}

/// A device that would be accepted with two blocks fewer takes every write though a program has failed. The host writes
/// all over it in turn.
pub(crate) fn a_failed_program_leaves_room_where_blocks_are_to_spare<C: Cache, S: MapStore>(
    settings: &Settings,
    (blocks, pages): (u32, u32),
    failing: u64,
) {
    let g = Geometry { blocks_per_die: blocks, pages_per_block: 4, page_bytes: 512, ..Geometry::default() };
    let fewer = Geometry { blocks_per_die: blocks - 2, ..g }.checked().unwrap();
    assert!(Demand::<C, S>::plan_with_room(&fewer, pages, settings).is_ok());
    let plan = FailurePlan { program_schedule: [failing].into(), ..FailurePlan::default() };
    let mut flash = Failing::new(Nand::<Tags, Full>::new(g.checked().unwrap()), plan, 1);
    let mut ftl = Demand::<C, S>::format(&mut flash, pages, settings).unwrap();
    for tag in 1..1500u64 {
        let written = ftl.write(&mut flash, Lpn((tag % u64::from(pages)) as u32), &tag);
        written.unwrap_or_else(|error| panic!("write {tag}: {error}"));
    }
    assert_eq!(flash.grown_bad_count(), 1);
    ftl.audit(&mut flash).unwrap();
}

/// Power fails `rounds` times, in some writes and in the mount behind them. The next mount makes good what that took,
/// and no write is refused.
pub(crate) fn collections_keep_their_room_over_many_cuts<C: Cache, S: MapStore>(
    settings: &Settings,
    (g, pages): (Geometry, u32),
    rounds: u64,
    cut: impl Fn(u64) -> [CutPoint; 2],
) {
    let g = Geometry { pages_per_block: 4, page_bytes: 512, ..g }.checked().unwrap();
    let mut flash = PowerCut::counting(Nand::<Tags, Full>::new(g));
    let mut ftl = Demand::<C, S>::format(&mut flash, pages, settings).unwrap();
    let mut lpn = 0;
    for round in 0..rounds {
        let [in_writes, in_mount] = cut(round);
        flash.arm(in_writes, round);
        let end = (0..20).try_for_each(|_| {
            lpn = (lpn + 7) % pages;
            ftl.write(&mut flash, Lpn(lpn), &round)
        });
        assert!(end.is_ok() || flash.lost(), "round {round}: {end:?}");
        flash.arm(in_mount, round);
        let _ = Demand::<C, S>::mount(&mut flash, pages, settings);
        flash.restart();
        ftl = Demand::<C, S>::mount(&mut flash, pages, settings).unwrap().0;
    }
    ftl.audit(&mut flash).unwrap();
}
