//! What the simulator's own memory comes to, for docs/accounting.md.

use flash::{Brief, Cause, Flash, Full, Geometry, Nand, NoData, Oob, Payload, Ppn, Tags, Tvpn};

/// 8 GiB of 4 KiB pages and 12.5 % spare.
fn geometry() -> Geometry {
    Geometry { blocks_per_die: 37_450, ..Geometry::default() }.checked().unwrap()
}

#[test]
fn simulator_memory_per_flash_page_is_as_documented() {
    let g = geometry();
    let pages = f64::from(g.page_count());
    let per_page = |(bytes, metadata): (u64, u64)| (bytes as f64 / pages, metadata as f64 / pages);
    let brief = per_page(Nand::<NoData, Brief>::new(g).simulator_bytes());
    let full = per_page(Nand::<NoData, Full>::new(g).simulator_bytes());
    let tagged = per_page(Nand::<Tags, Full>::new(g).simulator_bytes());
    println!("bytes per page (and of metadata): measuring {brief:?}, recoverable {full:?}, with tags {tagged:?}");
    assert!((brief.0 - 4.047).abs() < 0.001 && (full.0 - 20.047).abs() < 0.001 && (tagged.0 - 28.047).abs() < 0.001);
    // A translation page is really stored: its words, beside what an unused chip holds.
    let mut chip = Nand::<NoData, Brief>::new(g);
    let (_, before) = chip.simulator_bytes();
    let words = vec![7; g.entries_per_page() as usize];
    let Ok(()) = chip.program(Ppn(0), Oob::translation(Tvpn(0), 0, 1), Payload::Meta(&words), Cause::Metadata);
    let stored = chip.simulator_bytes().1 - before;
    println!("a stored translation page: {stored} bytes");
    assert!(stored >= u64::from(g.page_bytes));
}
