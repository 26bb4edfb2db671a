//! The chip: what it stores, and what it refuses.

extern crate std;

use super::*;
use crate::{Lpn, Tvpn};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn chip<R: Record>(order: ProgramOrder, nop: u32) -> Nand<Tags, R> {
    let g = Geometry { blocks_per_die: 4, pages_per_block: 4, page_bytes: 512, order, nop, ..Geometry::default() };
    Nand::new(g.checked().unwrap())
}

fn put(chip: &mut Nand<Tags, Full>, ppn: u32, tag: u64) {
    let Ok(()) = chip.program(Ppn(ppn), Oob::data(Lpn(ppn), tag, tag), Payload::User(&tag), Cause::Host);
}

#[test]
fn keeps_what_was_programmed() {
    let mut chip = chip::<Full>(ProgramOrder::Strict, 1);
    put(&mut chip, 0, 77);
    let Ok((oob, data)) = chip.read(Ppn(0), Cause::Host);
    assert_eq!((oob, *data.user()), (Oob::data(Lpn(0), 77, 77), 77));
    let Ok(blank) = chip.read_oob(Ppn(1), Cause::Host);
    assert_eq!(blank, None);
}

#[test]
fn metadata_is_stored_and_a_copy_edits_it() {
    let mut chip = chip::<Full>(ProgramOrder::Strict, 1);
    let oob = Oob::translation(Tvpn(3), 1, 1);
    let Ok(()) = chip.program(Ppn(0), oob, Payload::Meta(&[1, 2, 3]), Cause::Metadata);
    let Ok(copied) = chip.copy(Ppn(0), Ppn(4), Cause::TranslationUpdate, |oob, words| {
        oob.program = 9;
        words[1] = 20;
    });
    assert_eq!((copied.tvpn(), copied.program), (Tvpn(3), 9));
    let Ok((_, old)) = chip.read(Ppn(0), Cause::Host);
    assert_eq!(old.meta()[..4], [1, 2, 3, u32::MAX]);
    let Ok((_, new)) = chip.read(Ppn(4), Cause::Host);
    assert_eq!(new.meta()[..4], [1, 20, 3, u32::MAX]);
}

#[test]
#[should_panic(expected = "content had been moved")]
fn a_measuring_chip_refuses_the_source_of_a_copy() {
    let mut chip = chip::<Brief>(ProgramOrder::Strict, 1);
    let Ok(()) = chip.program(Ppn(0), Oob::translation(Tvpn(3), 1, 1), Payload::Meta(&[1]), Cause::Metadata);
    let Ok(_) = chip.copy(Ppn(0), Ppn(4), Cause::TranslationUpdate, |_, _| ());
    let _ = chip.read(Ppn(0), Cause::Host);
}

#[test]
#[should_panic(expected = "out of program order")]
fn strict_order_refuses_a_gap() {
    put(&mut chip(ProgramOrder::Strict, 1), 1, 0);
}

#[test]
#[should_panic(expected = "out of program order")]
fn ascending_order_refuses_going_back() {
    let mut chip = chip(ProgramOrder::Ascending, 1);
    put(&mut chip, 2, 0);
    put(&mut chip, 1, 0);
}

#[test]
fn any_order_takes_gaps_and_going_back() {
    let mut chip = chip(ProgramOrder::Any, 1);
    put(&mut chip, 2, 0);
    put(&mut chip, 1, 0);
}

fn holds(work: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_ok()
}

/// Every run of copies into a block of four pages, some of which are programmed: allowed or refused by each order as
/// the single copies are, and with the same effects.
#[test]
fn the_order_of_programs_is_that_of_runs_of_copies() {
    let orders = [ProgramOrder::Strict, ProgramOrder::Ascending, ProgramOrder::Any];
    for (order, used, to, count) in orders.into_iter().flat_map(|order| {
        let blocks = (0..16u32).flat_map(move |used| (0..4u32).map(move |to| (used, to)));
        blocks.flat_map(move |(used, to)| (0..=4 - to).map(move |count| (order, used, to, count)))
    }) {
        let mut chip = chip::<Full>(ProgramOrder::Any, 1);
        for ppn in (0..4).chain((4..8).filter(|ppn| used >> (ppn - 4) & 1 == 1)) {
            let oob = Oob { kind: if ppn % 2 == 0 { Kind::Log } else { Kind::Data }, ..Oob::data(Lpn(ppn), 1, 1) };
            let Ok(()) = chip.program(Ppn(ppn), oob, Payload::User(&u64::from(ppn)), Cause::Host);
        }
        chip.geometry.order = order;
        let highest = u32::BITS - used.leading_zeros();
        let in_order = match order {
            ProgramOrder::Strict => to == highest,
            ProgramOrder::Ascending => to >= highest,
            ProgramOrder::Any => true,
        };
        let blank = (to..to + count).all(|page| used >> page & 1 == 0);
        let allowed = count == 0 || in_order && blank;
        let (mut run, mut each) = (chip.clone(), chip);
        let place = alloc::format!("{order:?}, {used:04b}, {count} to {to}");
        let done = holds(|| {
            let mut told = Vec::new();
            let live = (1 << count) - 1;
            let (copied, Ok(())) =
                run.copy_run(Ppn(0), live, Ppn(4 + to), 9, Cause::MergeFull, |lpn, to| told.push((lpn, to)));
            assert_eq!((copied, told), (count, (0..count).map(|i| (i, Ppn(4 + to + i))).collect()), "{place}");
        });
        let done_each = holds(|| {
            for i in 0..count {
                let edit = |oob: &mut Oob, _: &mut [u32]| (oob.kind, oob.program) = (Kind::Data, 9 + u64::from(i));
                let Ok(_) = each.copy(Ppn(i), Ppn(4 + to + i), Cause::MergeFull, edit);
            }
        });
        assert_eq!((done, done_each), (allowed, allowed), "{place}");
        if allowed {
            assert_eq!(alloc::format!("{run:?}"), alloc::format!("{each:?}"), "{place}");
        }
    }
}

#[test]
#[should_panic(expected = "block is bad")]
fn any_order_refuses_a_run_of_copies_into_a_bad_block() {
    let mut chip = chip(ProgramOrder::Any, 1);
    put(&mut chip, 0, 0);
    chip.mark_bad(Block(1));
    let _ = chip.copy_run(Ppn(0), 1, Ppn(6), 5, Cause::DataGc, |_, _| ());
}

#[test]
#[should_panic(expected = "erase was cut short")]
fn any_order_refuses_pages_of_a_block_that_only_looks_blank() {
    let mut chip = chip(ProgramOrder::Any, 1);
    chip.half_erase(Block(0), EraseFace::LooksBlank, &mut Rng::new(1));
    put(&mut chip, 2, 0);
}

#[test]
#[should_panic(expected = "not blank")]
fn refuses_to_program_twice() {
    let mut chip = chip(ProgramOrder::Any, 1);
    put(&mut chip, 2, 0);
    put(&mut chip, 2, 0);
}

#[test]
#[should_panic(expected = "NOP is 2")]
fn refuses_more_partial_programs_than_nop() {
    let mut chip = chip::<Full>(ProgramOrder::Strict, 2);
    let Ok(()) = chip.program(Ppn(0), Oob::translation(Tvpn(0), 0, 0), Payload::Meta(&[1]), Cause::Metadata);
    let Ok(()) = chip.append(Ppn(0), 4, &[2], 0, Cause::TranslationUpdate);
    assert_eq!(chip.metadata_state(Ppn(0)), Some((5, 2)));
    let _ = chip.append(Ppn(0), 5, &[3], 0, Cause::TranslationUpdate);
}

fn translation(nop: u32, words: &[u32]) -> Nand<Tags, Full> {
    let mut chip = chip(ProgramOrder::Strict, nop);
    let Ok(()) = chip.program(Ppn(0), Oob::translation(Tvpn(0), 0, 0), Payload::Meta(words), Cause::Metadata);
    chip
}

fn seen(chip: &mut Nand<Tags, Full>) -> (u16, Vec<u8>) {
    let Ok(spare) = chip.read_oob(Ppn(0), Cause::Host);
    let Ok((oob, page)) = chip.read(Ppn(0), Cause::Host);
    assert_eq!(spare, Some(oob), "both reads tell the same");
    (oob.mark, page.meta().iter().flat_map(|word| word.to_le_bytes()).collect())
}

#[test]
fn partial_programs_may_share_a_word() {
    let mut chip = translation(4, &[0x4433_2211, u32::MAX]);
    assert_eq!(seen(&mut chip).0, 0);
    let Ok(()) = chip.append(Ppn(0), 5, &[0x66, 0x77, 0x88, 0x99, 0xaa], 7, Cause::TranslationUpdate);
    let Ok(()) = chip.append(Ppn(0), 10, &[0xbb], 8, Cause::TranslationUpdate);
    let Ok(()) = chip.append(Ppn(0), 509, &[1, 2, 3], 9, Cause::TranslationUpdate);
    let (mark, bytes) = seen(&mut chip);
    let expected = [0x11, 0x22, 0x33, 0x44, 0xff, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xff];
    assert_eq!((mark, &bytes[..12], &bytes[508..]), (9, &expected[..], &[0xff, 1, 2, 3][..]));
    assert_eq!(chip.metadata_state(Ppn(0)), Some((512, 4)));
    // A copy has had no partial program yet.
    let Ok(oob) = chip.copy(Ppn(0), Ppn(4), Cause::TranslationGc, |oob, _| assert_eq!(oob.mark, 0));
    assert_eq!((oob.mark, chip.metadata_state(Ppn(4))), (0, Some((512, 1))));
}

#[test]
#[should_panic(expected = "byte 4 is not blank")]
fn refuses_a_partial_program_of_programmed_bytes() {
    let _ = translation(4, &[1, 2]).append(Ppn(0), 4, &[0], 0, Cause::TranslationUpdate);
}

#[test]
#[should_panic(expected = "byte 511 is not blank")]
fn refuses_a_partial_program_in_front_of_another() {
    let mut chip = translation(4, &[1]);
    let Ok(()) = chip.append(Ppn(0), 511, &[0], 0, Cause::TranslationUpdate);
    let _ = chip.append(Ppn(0), 4, &[0], 0, Cause::TranslationUpdate);
}

#[test]
#[should_panic(expected = "beyond its end")]
fn refuses_a_partial_program_beyond_the_page() {
    let _ = translation(4, &[1]).append(Ppn(0), 511, &[0, 0], 0, Cause::TranslationUpdate);
}

#[test]
#[should_panic(expected = "holds no metadata")]
fn refuses_a_partial_program_of_a_host_page() {
    let mut chip = chip(ProgramOrder::Strict, 4);
    put(&mut chip, 0, 0);
    let _ = chip.append(Ppn(0), 4, &[0], 0, Cause::TranslationUpdate);
}

#[test]
fn a_torn_partial_program_leaves_bits_between_blank_and_new() {
    let new: Vec<u8> = (0..40u32).map(|i| (i * 37 % 251) as u8).collect();
    let (mut whole_prefix, mut blank_end, mut marks) = (0, 0, BTreeSet::new());
    for seed in 0..400 {
        let mut chip = translation(3, &[1, 2]);
        let Ok(()) = chip.append(Ppn(0), 9, &[3], 4, Cause::TranslationUpdate);
        let face = AppendFace::ALL[seed as usize % 2];
        chip.tear_append(Ppn(0), 10, &new, 5, face, &mut Rng::new(seed));
        let (mark, bytes) = seen(&mut chip);
        assert_eq!(bytes[..10], [1, 0, 0, 0, 2, 0, 0, 0, 0xff, 3], "what was there is whole");
        assert!(bytes[50..].iter().all(|&byte| byte == 0xff));
        assert!(bytes[10..50].iter().zip(&new).all(|(&left, &new)| left & new == new));
        let right = bytes[10..50].iter().zip(&new).take_while(|(left, new)| left == new).count();
        whole_prefix += u32::from(face == AppendFace::Partly && right > 8);
        blank_end += u32::from(face == AppendFace::Partly && bytes[42..50] == [0xff; 8]);
        marks.insert(mark);
        assert!(mark == 4 || mark & 5 == 5);
        assert!(face == AppendFace::Partly || right < 8);
    }
    assert!(whole_prefix > 50 && blank_end > 20 && marks.len() > 50, "{whole_prefix} {blank_end} {marks:?}");
}

#[test]
fn a_torn_partial_program_without_a_trace_is_none() {
    let mut chip = translation(2, &[1]);
    let mut rng = Rng::new(1);
    // No bit of it is to be programmed.
    while chip.metadata_state(Ppn(0)) == Some((4, 1)) && rng.below(1000) > 0 {
        chip.tear_append(Ppn(0), 4, &[0xff; 8], 0xfffe, AppendFace::Partly, &mut rng);
    }
    assert_eq!(chip.metadata_state(Ppn(0)), Some((4, 2)), "until a mark was left");
    assert_eq!(seen(&mut chip).0, 0xfffe);
}

#[test]
#[should_panic(expected = "block is bad")]
fn refuses_a_bad_block() {
    let mut chip = chip(ProgramOrder::Strict, 1);
    chip.mark_bad(Block(0));
    put(&mut chip, 0, 0);
}

#[test]
#[should_panic(expected = "erase was cut short")]
fn refuses_a_block_that_only_looks_blank() {
    let mut chip = chip(ProgramOrder::Strict, 1);
    put(&mut chip, 0, 0);
    chip.half_erase(Block(0), EraseFace::LooksBlank, &mut Rng::new(1));
    put(&mut chip, 0, 0);
}

#[test]
fn a_spoiled_page_shows_only_on_a_whole_read() {
    let mut chip = chip(ProgramOrder::Strict, 1);
    put(&mut chip, 0, 5);
    chip.spoil(Ppn(0));
    let Ok(oob) = chip.read_oob(Ppn(0), Cause::Recovery);
    assert_eq!(oob.unwrap().kind, Kind::Data);
    let Ok((oob, _)) = chip.read(Ppn(0), Cause::Recovery);
    assert_eq!(oob.kind, Kind::Torn);
    let Ok(()) = chip.erase(Block(0), Cause::Recovery);
    put(&mut chip, 0, 6);
    let Ok((oob, _)) = chip.read(Ppn(0), Cause::Recovery);
    assert_eq!(oob.kind, Kind::Data);
}

fn slc_program<S: Store<User = u64>, R: Record>(chip: &mut Nand<S, R>, ppn: u32) {
    let oob = Oob { mode: Mode::Slc, ..Oob::translation(Tvpn(ppn), 1, 1) };
    let Ok(()) = chip.program(Ppn(ppn), oob, Payload::Meta(&[ppn]), Cause::Metadata);
}

fn cells(bits_per_cell: u32, nop: u32) -> Nand<Tags, Full> {
    let g = Geometry { blocks_per_die: 4, pages_per_block: 4, bits_per_cell, slc_nop: 2, nop, ..Geometry::default() };
    Nand::new(g.checked().unwrap())
}

fn mode(chip: &mut Nand<Tags, Full>, ppn: u32) -> Option<Mode> {
    let Ok(oob) = chip.read_oob(Ppn(ppn), Cause::Host);
    oob.map(|oob| oob.mode)
}

#[test]
fn the_first_program_since_the_erase_decides_for_slc_mode() {
    let mut chip = cells(2, 1);
    assert!(!chip.is_slc(Block(0)));
    slc_program(&mut chip, 0);
    slc_program(&mut chip, 1);
    put(&mut chip, 4, 7);
    assert_eq!(
        [0, 1, 2, 4].map(|ppn| mode(&mut chip, ppn)),
        [Some(Mode::Slc), Some(Mode::Slc), None, Some(Mode::Normal)]
    );
    assert!(chip.is_slc(Block(0)) && !chip.is_slc(Block(1)));
    // Its own NOP, and copies that stay in the mode unless they are told otherwise.
    let Ok(()) = chip.append(Ppn(0), 4, &[1], 5, Cause::TranslationUpdate);
    let Ok(copied) = chip.copy(Ppn(0), Ppn(8), Cause::TranslationGc, |_, _| ());
    let Ok(other) = chip.copy(Ppn(1), Ppn(12), Cause::TranslationGc, |oob, _| oob.mode = Mode::Normal);
    assert_eq!((copied.mode, other.mode), (Mode::Slc, Mode::Normal));
    assert_eq!((chip.is_slc(Block(2)), chip.is_slc(Block(3))), (true, false));
    let Ok(()) = chip.erase(Block(0), Cause::TranslationGc);
    assert!(!chip.is_slc(Block(0)));
    put(&mut chip, 0, 7);
    assert_eq!(mode(&mut chip, 0), Some(Mode::Normal));
}

#[test]
fn a_run_of_copies_out_of_a_block_in_slc_mode_keeps_the_mode() {
    let mut chip = cells(2, 1);
    for ppn in 0..2 {
        let oob = Oob { mode: Mode::Slc, ..Oob::data(Lpn(ppn), 1, 1) };
        let Ok(()) = chip.program(Ppn(ppn), oob, Payload::User(&9), Cause::Host);
    }
    let (copied, Ok(())) = chip.copy_run(Ppn(0), 0b11, Ppn(4), 5, Cause::DataGc, |_, _| ());
    assert_eq!((copied, chip.is_slc(Block(1)), mode(&mut chip, 5)), (2, true, Some(Mode::Slc)));
}

#[test]
fn a_torn_program_in_slc_mode_takes_its_page() {
    let mut chip = cells(2, 1);
    slc_program(&mut chip, 0);
    chip.ruin(Ppn(1));
    assert_eq!(chip.read_oob(Ppn(1), Cause::Host).unwrap().unwrap().kind, Kind::Torn);
    chip.half_erase(Block(0), EraseFace::Intact, &mut Rng::new(1));
    assert_eq!(mode(&mut chip, 0), Some(Mode::Slc));
}

#[test]
#[should_panic(expected = "the block is in SLC mode")]
fn refuses_another_mode_in_a_block_in_slc_mode() {
    let mut chip = cells(2, 1);
    slc_program(&mut chip, 0);
    put(&mut chip, 1, 0);
}

#[test]
#[should_panic(expected = "the block is in SLC mode")]
fn refuses_a_run_of_copies_into_a_block_in_slc_mode() {
    let mut chip = cells(2, 1);
    slc_program(&mut chip, 0);
    put(&mut chip, 4, 0);
    let _ = chip.copy_run(Ppn(4), 1, Ppn(1), 5, Cause::DataGc, |_, _| ());
}

#[test]
#[should_panic(expected = "the block is not in SLC mode")]
fn refuses_slc_mode_in_a_block_of_another() {
    let mut chip = cells(2, 1);
    put(&mut chip, 0, 0);
    slc_program(&mut chip, 1);
}

#[test]
#[should_panic(expected = "has no such page")]
fn refuses_more_pages_in_slc_mode_than_cells_give() {
    let mut chip = cells(3, 1);
    slc_program(&mut chip, 0);
    slc_program(&mut chip, 1);
}

#[test]
#[should_panic(expected = "out of program order")]
fn refuses_a_gap_in_slc_mode() {
    slc_program(&mut cells(2, 1), 1);
}

#[test]
#[should_panic(expected = "cells that hold one bit")]
fn refuses_slc_mode_of_slc() {
    slc_program(&mut cells(1, 4), 0);
}

#[test]
#[should_panic(expected = "NOP is 2")]
fn refuses_more_partial_programs_than_slc_nop() {
    let mut chip = cells(2, 9);
    slc_program(&mut chip, 0);
    let Ok(()) = chip.append(Ppn(0), 4, &[1], 0, Cause::TranslationUpdate);
    let _ = chip.append(Ppn(0), 5, &[1], 0, Cause::TranslationUpdate);
}

#[test]
#[should_panic(expected = "erase was cut short")]
fn refuses_slc_mode_in_a_block_that_only_looks_blank() {
    let mut chip = cells(2, 1);
    slc_program(&mut chip, 0);
    chip.half_erase(Block(0), EraseFace::LooksBlank, &mut Rng::new(1));
    slc_program(&mut chip, 0);
}

#[test]
fn measuring_mode_keeps_little_over_four_bytes_a_page() {
    let g = Geometry { blocks_per_die: 64, pages_per_block: 256, ..Geometry::default() }.checked().unwrap();
    let (pages, _) = Nand::<NoData, Brief>::new(g).simulator_bytes();
    assert!((pages as f64) < 4.05 * f64::from(g.page_count()));
}

/// What a scheme keeps in the spare area of a page, which is read for it.
fn own(chip: &mut Nand<Tags, Full>, ppn: u32) -> Vec<u8> {
    let Ok(_) = chip.read_oob(Ppn(ppn), Cause::Host);
    chip.spare(Ppn(ppn)).to_vec()
}

fn with_own_bytes() -> Nand<Tags, Full> {
    let mut chip = chip::<Full>(ProgramOrder::Strict, 1);
    assert!(chip.reserve_spare(3));
    for ppn in 0..2 {
        chip.stage_spare(Ppn(ppn), &[1, 2, ppn as u8 + 3]);
        put(&mut chip, ppn, 7);
    }
    chip
}

#[test]
fn a_spare_area_holds_what_was_staged_for_it_until_the_erase() {
    let mut chip = with_own_bytes();
    // Nothing was staged for page 2, less than all for page 3, and a copy takes nothing along.
    put(&mut chip, 2, 7);
    chip.stage_spare(Ppn(3), &[9]);
    let Ok(_) = chip.copy(Ppn(1), Ppn(3), Cause::DataGc, |_, _| ());
    let Ok(_) = chip.copy(Ppn(1), Ppn(4), Cause::DataGc, |_, _| ());
    let Ok(_) = chip.read(Ppn(1), Cause::Host);
    assert_eq!(chip.spare(Ppn(1)), [1, 2, 4]);
    assert_eq!([0, 2, 3, 4].map(|ppn| own(&mut chip, ppn)), [[1, 2, 3], [0; 3], [9, 0, 0], [0; 3]]);
    assert_eq!(own(&mut chip, 5), []);
    let Ok(()) = chip.erase(Block(0), Cause::DataGc);
    put(&mut chip, 0, 7);
    assert_eq!(own(&mut chip, 0), [0; 3]);
    // A mount reserves them again.
    assert!(chip.reserve_spare(3));
    chip.flip_spare_bit(Ppn(0), 17);
    assert_eq!(own(&mut chip, 0), [0, 0, 2]);
}

#[test]
fn a_torn_spare_area_holds_nothing_of_the_schemes() {
    let mut chip = with_own_bytes();
    chip.spoil(Ppn(1));
    assert_eq!(own(&mut chip, 1), [1, 2, 4], "the spare area reads well");
    chip.stage_spare(Ppn(2), &[5; 3]);
    chip.ruin(Ppn(2));
    chip.half_erase(Block(1), EraseFace::Garbage, &mut Rng::new(1));
    assert_eq!([2, 4].map(|ppn| own(&mut chip, ppn).len()), [0, 0]);
}

#[test]
#[should_panic(expected = "was not read")]
fn refuses_bytes_of_a_spare_area_that_nobody_paid_for() {
    let mut chip = with_own_bytes();
    let _ = own(&mut chip, 0);
    let _ = chip.spare(Ppn(1));
}

#[test]
#[should_panic(expected = "is not blank")]
fn refuses_bytes_for_a_page_that_is_programmed() {
    with_own_bytes().stage_spare(Ppn(0), &[1]);
}

#[test]
#[should_panic(expected = "3 are reserved")]
fn refuses_more_bytes_than_are_reserved() {
    with_own_bytes().stage_spare(Ppn(2), &[1; 4]);
}

#[test]
#[should_panic(expected = "3 bytes of each spare area were reserved, now 4")]
fn refuses_another_reservation() {
    let _ = with_own_bytes().reserve_spare(4);
}

#[test]
fn bytes_of_a_scheme_count_as_the_simulators_memory() {
    let bytes = |chip: &Nand<Tags, Full>| chip.simulator_bytes().0;
    assert_eq!(bytes(&with_own_bytes()) - bytes(&chip::<Full>(ProgramOrder::Strict, 1)), 16 * 3);
}

#[test]
fn host_pages_keep_their_mode_and_metadata_pages_have_none() {
    let g = Geometry { blocks_per_die: 4, pages_per_block: 16, ..Geometry::default() }.checked().unwrap();
    let mut chip = Nand::<NoData, Brief>::new(g);
    let mut ppn = (0..).map(Ppn);
    for kind in [Kind::Data, Kind::Log] {
        for mode in [Mode::Normal, Mode::LowCost, Mode::Medium] {
            let ppn = ppn.next().unwrap();
            // The largest address that there is.
            let oob = Oob { kind, mode, ..Oob::data(Lpn(Geometry::MAX_PAGES as u32 - 1), 0, 0) };
            let Ok(()) = chip.program(ppn, oob, Payload::User(&()), Cause::Host);
            assert_eq!(chip.read(ppn, Cause::Host).unwrap().0, oob);
            assert_eq!(chip.mode_of(ppn), mode);
            let to = Ppn(ppn.0 + 16);
            let Ok(copy) = chip.copy(ppn, to, Cause::DataGc, |_, _| ());
            assert_eq!((copy, chip.mode_of(to)), (oob, mode));
        }
    }
    let (copied, Ok(())) = chip.copy_run(Ppn(0), 0b11_1111, Ppn(32), 1, Cause::DataGc, |_, _| ());
    assert_eq!(copied, 6);
    for (ppn, mode) in (32..).map(Ppn).zip([Mode::Normal, Mode::LowCost, Mode::Medium].repeat(2)) {
        assert_eq!((chip.mode_of(ppn), chip.read(ppn, Cause::Host).unwrap().0.kind), (mode, Kind::Data));
    }
    let ppn = ppn.next().unwrap();
    let Ok(()) = chip.program(ppn, Oob::translation(Tvpn(7), 0, 0), Payload::Meta(&[1]), Cause::TranslationUpdate);
    assert_eq!(chip.mode_of(ppn), Mode::Normal);
}

/// What a command panicked with.
fn panic_of<T>(work: impl FnOnce() -> T) -> Option<std::string::String> {
    let caught = catch_unwind(AssertUnwindSafe(work)).err()?;
    Some(caught.downcast_ref::<std::string::String>().expect("the chip panics with text").clone())
}

#[test]
fn a_command_is_refused_with_what_its_check_says_and_only_then() {
    let mut rng = Rng::new(1);
    let mut refused = BTreeSet::new();
    for round in 0..300 {
        let order = [ProgramOrder::Strict, ProgramOrder::Ascending, ProgramOrder::Any][round % 3];
        let g =
            Geometry { blocks_per_die: 4, pages_per_block: 4, page_bytes: 512, order, nop: 2, ..Geometry::default() };
        let g = Geometry { bits_per_cell: 1 + u32::from(round % 4 > 0), ..g }.checked().unwrap();
        let mut chip: Nand<Tags, Full> = Nand::new(g);
        for _ in 0..60 {
            let [ppn, to] = [0; 2].map(|_| Ppn(rng.below(16) as u32));
            let mode = if rng.chance(0.3) { Mode::Slc } else { Mode::Normal };
            let mut tried = chip.clone();
            let (check, panic) = match rng.below(20) {
                0..=2 => (chip.check_read(ppn), panic_of(|| tried.read(ppn, Cause::Host))),
                3..=8 => {
                    let kind = [Kind::Data, Kind::Translation, Kind::Dummy][rng.below(3) as usize];
                    let oob = Oob { kind, mode, ..Oob::data(Lpn(1), 1, 1) };
                    let words = [7; 129];
                    let data = match kind {
                        Kind::Data => Payload::User(&5),
                        Kind::Translation if rng.chance(0.1) => Payload::None,
                        Kind::Translation => Payload::Meta(&words[..1 + rng.below(2) as usize * 128]),
                        _ => Payload::None,
                    };
                    let panic = panic_of(|| tried.program(ppn, oob, data, Cause::Host));
                    (chip.check_program(ppn, &oob, data), panic)
                }
                9..=12 => {
                    let (at, mark) = (rng.below(520) as u32, if rng.chance(0.1) { u16::MAX } else { 3 });
                    let panic = panic_of(|| tried.append(ppn, at, &[1, 2], mark, Cause::Host));
                    (chip.check_append(ppn, at, 2, mark), panic)
                }
                13..=16 => {
                    let copy = |oob: &mut Oob, _: &mut [u32]| oob.mode = mode;
                    let panic = panic_of(|| tried.copy(ppn, to, Cause::Host, copy));
                    (chip.check_copy(ppn, to, mode), panic)
                }
                17 | 18 => {
                    let block = g.block_of(ppn);
                    (chip.check_erase(block), panic_of(|| tried.erase(block, Cause::Host)))
                }
                _ => {
                    match rng.below(4) {
                        0 => tried.mark_bad(g.block_of(ppn)),
                        1 => tried.half_erase(g.block_of(ppn), EraseFace::Mixed, &mut rng),
                        _ if chip.check_read(ppn).is_ok() => tried.spoil(ppn),
                        _ => {}
                    }
                    (Ok(()), None)
                }
            };
            assert_eq!(check.err().map(|broken| std::string::ToString::to_string(&broken)), panic, "round {round}");
            match check {
                Ok(()) => chip = tried,
                Err(broken) => {
                    refused.insert(std::format!("{:?} {:?}", broken.command, core::mem::discriminant(&broken.rule)));
                }
            }
        }
    }
    assert!(refused.len() >= 21, "{} kinds of refusal", refused.len());
}
