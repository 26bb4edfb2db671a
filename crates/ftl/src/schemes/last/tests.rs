//! The worked example, and long runs.

use super::*;
use crate::hybrid::testing::{formatted, settings, small, tally, torture, write_each, write_request};
use flash::{Geometry, ProgramOrder};

/// The specification's example: a stream, a page that is rewritten, and a hot log block that dies.
#[test]
fn a_hot_log_block_dies_by_itself() {
    let pairs = [("sequential-bytes", "1024"), ("log-blocks", "3"), ("sequential-share", "0.33")];
    let (mut flash, mut last) = formatted::<Last>(small(8), 12, &settings(&ROW, &pairs));
    write_request(&mut flash, &mut last, 0, 12);
    let mut lines = write_request(&mut flash, &mut last, 0, 4);
    lines.extend(write_each(&mut flash, &mut last, &[5, 5, 5, 5, 5, 9, 5]));
    lines.extend(write_request(&mut flash, &mut last, 4, 4));
    let expected = [
        "W 3.0 log 0 host",
        "W 3.1 log 1 host",
        "W 3.2 log 2 host",
        "W 3.3 log 3 host",
        // Cold at first, then hot.
        "W 4.0 log 5 host",
        "W 5.0 log 5 host",
        "W 5.1 log 5 host",
        "W 5.2 log 5 host",
        "W 5.3 log 5 host",
        "W 4.1 log 9 host",
        // The hot log block dies with this write: it is erased after it, where the example erases first.
        "W 6.0 log 5 host",
        "E 5 merge_full",
        // The one sequential log block there may be is full and in order.
        "E 0 merge_switch",
        "W 7.0 log 4 host",
        "W 7.1 log 5 host",
        "W 7.2 log 6 host",
        "W 7.3 log 7 host",
    ];
    assert_eq!(lines, expected);
    assert_eq!(tally(&lines), (15, 0, 2));
}

#[test]
fn data_survives_everything_in_every_variant() {
    for order in [ProgramOrder::Any, ProgramOrder::Ascending, ProgramOrder::Strict] {
        for victim in parameters::VICTIMS {
            for (share, hot) in [("0.125", "0.5"), ("0.5", "0.2")] {
                let g = Geometry { order, dies: 2, ..small(9) }.checked().unwrap();
                let pairs = [
                    ("log-victim", *victim),
                    ("sequential-share", share),
                    ("hot-share", hot),
                    ("durable-trim", "on"),
                    ("sequential-bytes", "1536"),
                ];
                torture::<Last>(&ROW, &pairs, g, 38, 800);
            }
        }
    }
}
