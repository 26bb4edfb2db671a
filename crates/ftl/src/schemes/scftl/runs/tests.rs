//! The order in which blocks go.

use super::*;
use crate::schemes::scftl::ROW;
use flash::Geometry;

/// One block of each class of Table I, and two more modified ones in the translation page that has three: its MC is the
/// threshold of two bits.
fn one_of_each() -> Runs {
    let shape = Shape { logical_pages: 1024, page_entries: 128, geometry: Geometry::default().checked().unwrap() };
    let mut settings = ROW.settings();
    settings.set("threshold-bits", "2").unwrap();
    let mut runs = Runs::new(&shape, &(&settings).into(), 1000);
    for (lpn, accessed, modified) in [
        (0, false, false),
        (128, false, true),
        (256, false, true),
        (130, true, true),
        (132, true, true),
        (384, true, false),
        (260, true, true),
    ] {
        let slot = runs.insert(lpn, 1, 2 * lpn, accessed);
        if modified {
            runs.modify(slot);
        }
    }
    runs
}

/// The first LPNs of the blocks in the order in which they are chosen.
fn order(fetching: Fetching) -> Vec<u32> {
    let mut runs = one_of_each();
    let mut gone = Vec::new();
    while let Some(victim) = runs.victim(fetching, NONE) {
        gone.push(runs.tag[victim as usize]);
        if has(&runs.modified, victim) {
            runs.unchain(victim);
        }
        runs.drop_block(victim);
    }
    gone
}

#[test]
fn victims_go_by_the_classes_of_table_i() {
    // Not accessed: clean, modified among many, modified among few. Then the same of those that were accessed.
    assert_eq!(order(Fetching::Normal), [0, 128, 256, 384, 130, 132, 260]);
    // For an entry that nobody asked for, what is modified among few stays.
    assert_eq!(order(Fetching::Spatial), [0, 128, 384, 130, 132]);
    assert_eq!(order(Fetching::Clean), [0, 384]);
}
