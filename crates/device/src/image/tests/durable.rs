//! What the host's disk has of an image, and what a crash of the host leaves.

use super::*;

/// Whoever made the checkpoint worthless failed, or was killed, before the host's disk had that. The next one read it
/// in the host's cache and went on; behind a crash of the host the old checkpoint was believed over newer pages, and
/// one page read as another.
#[test]
fn a_checkpoint_is_worthless_on_the_disk_before_anything_changes() {
    for killed in [false, true] {
        let (_directory, path) = place();
        let mut image = Image::create(&path, &spec(4, "page"), false).unwrap();
        Step::Program(Ppn(0), 1).apply(&mut image).unwrap();
        image.store_checkpoint(1, &[7; 100]).unwrap();
        let mut journal = image.keep_journal();
        // It is written at the second try, and not durable.
        image.set_host(Some(Host { is_full: true, ..Host::willing(flash::Rng::new(1)) }));
        Step::Erase(Block(1)).apply(&mut image).unwrap_err();
        let places = |journal: &Journal| journal.lock().unwrap().iter().map(|write| write.0).collect::<Vec<_>>();
        assert_eq!(places(&journal), [Layout::STATE]);
        if killed {
            drop(image);
            image = Image::open(&path, Access::Use).unwrap();
            journal = image.keep_journal();
            // What the kill left, to this disk as to the one before.
            image.write(Layout::STATE, &Standing::dirty(0).encode()).unwrap();
        } else {
            image.reload().unwrap();
        }
        assert_eq!(image.life(), Life::Dirty);
        Step::Erase(Block(1)).apply(&mut image).unwrap();
        image.settle().unwrap();
        let places = places(&journal);
        assert!(!places.is_empty() && !places.contains(&Layout::STATE), "killed {killed}: {places:?}");
    }
}

/// The host says once that it could not make the file durable, and takes for done what its disk does not have: the next
/// flush was answered, and the data was gone.
#[test]
fn a_flush_after_one_that_failed_covers_what_that_one_did_not() {
    for again in [false, true] {
        let (_directory, path) = place();
        let mut image = Image::create(&path, &spec(4, "page"), false).unwrap();
        Step::Program(Ppn(0), 1).apply(&mut image).unwrap();
        image.sync().unwrap();
        let journal = image.keep_journal();
        let left = || journal.lock().unwrap().iter().map(|write| write.0).collect::<Vec<_>>();
        Step::Program(Ppn(1), 1).apply(&mut image).unwrap();
        // It cannot be made durable; what is written again is refused as well, or taken.
        let fleeting = Host { fleeting: 1.0, stays_full: again, ..Host::willing(flash::Rng::new(1)) };
        image.settle().unwrap();
        image.set_host(Some(fleeting));
        image.sync().unwrap_err();
        assert!(left().len() >= 2, "data and record");
        image.set_host(None);
        image.reload().unwrap();
        image.sync().unwrap();
        assert_eq!(left(), [], "again: {again}");
        assert_eq!(image.read(Ppn(1), Cause::Host).unwrap().1.user(), page_of(1));
    }
}

/// A bad sector of the host's disk made an image useless of which every page could be read.
#[test]
fn a_checkpoint_that_cannot_be_read_is_none() {
    let (_directory, path) = place();
    let mut image = Image::create(&path, &spec(4, "page"), false).unwrap();
    Step::Program(Ppn(0), 1).apply(&mut image).unwrap();
    image.store_checkpoint(1, &[7; 100]).unwrap();
    image.fail_to_read_after(0);
    assert_eq!(image.checkpoint(1), Ok(None));
    assert_eq!(image.read(Ppn(0), Cause::Host).unwrap().1.user(), page_of(1));
}

/// A crash of the host may leave the two copies of an entry of two lives of a block. The older one, which was believed
/// first, is read as long as it is sound, and the other one stood there for good.
#[test]
fn copies_of_an_entry_that_differ_are_made_alike() {
    let (_directory, path) = place();
    let mut image = Image::create(&path, &spec(4, "page"), false).unwrap();
    Step::Program(Ppn(4), 1).apply(&mut image).unwrap();
    image.settle().unwrap();
    let entry = image.blocks[1];
    let later = Entry { generation: entry.generation + 1, erases: entry.erases + 1, ..entry };
    image.write(image.layout.entry(1, Block(1)), &later.encode(Block(1))).unwrap();
    image.reload().unwrap();
    Step::Program(Ppn(0), 2).apply(&mut image).unwrap();
    image.settle().unwrap();
    // The first copy is damaged.
    image.write(image.layout.entry(0, Block(1)), &[0xaa; 16]).unwrap();
    image.reload().unwrap();
    assert_eq!((image.blocks[1], image.damaged_copies()), (entry, 1));
    assert_eq!(image.read(Ppn(4), Cause::Host).unwrap().1.user(), page_of(1));
}

/// The state of another version was left as it was, so that this version would have believed it again.
#[test]
fn a_checkpoint_of_another_version_is_worthless_to_that_version_too() {
    let (_directory, path) = place();
    let mut image = Image::create(&path, &spec(4, "page"), false).unwrap();
    Step::Program(Ppn(0), 1).apply(&mut image).unwrap();
    image.store_checkpoint(1, &[7; 100]).unwrap();
    drop(image);
    let mut bytes = fs::read(&path).unwrap();
    written_by_another(&mut bytes, true);
    fs::write(&path, &bytes).unwrap();
    let mut image = Image::open(&path, Access::Use).unwrap();
    Step::Erase(Block(1)).apply(&mut image).unwrap();
    image.settle().unwrap();
    drop(image);
    let mut bytes = fs::read(&path).unwrap();
    written_by_another(&mut bytes, true);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(Image::open(&path, Access::Look).unwrap().life(), Life::Dirty);
}

#[test]
fn a_life_whose_beginning_a_crash_of_the_host_took_never_comes_again() {
    let (_directory, path) = place();
    let mut image = Image::create(&path, &spec(4, "page"), false).unwrap();
    let entry = image.blocks[1];
    Step::Erase(Block(1)).apply(&mut image).unwrap();
    for ppn in 4..8 {
        Step::Program(Ppn(ppn), 90).apply(&mut image).unwrap();
    }
    // The disk had taken the last pages, but neither the erase nor the records before them.
    image.put_entry(Block(1), entry).unwrap();
    image.write(image.layout.record(Ppn(4)), &[0; 128]).unwrap();
    image.reload().unwrap();
    assert_eq!(image.read_oob(Ppn(4), Cause::Recovery).unwrap(), None, "an empty block");
    let mut lost = [0; 64];
    image.fetch(image.layout.record(Ppn(6)), &mut lost).unwrap();
    Step::Erase(Block(1)).apply(&mut image).unwrap();
    Step::Program(Ppn(4), 1).apply(&mut image).unwrap();
    image.settle().unwrap();
    // A second crash: of the blank records that the new life began with one had not reached the disk.
    image.write(image.layout.record(Ppn(6)), &lost).unwrap();
    image.reload().unwrap();
    let kinds = (4..8).map(|ppn| image.read_oob(Ppn(ppn), Cause::Recovery).unwrap().map(|oob| oob.version));
    assert_eq!(kinds.collect::<Vec<_>>(), [Some(1), None, None, None]);
}

#[test]
fn what_a_crash_of_the_host_may_leave_does_not_come_back_as_something_else() {
    let (_directory, path) = place();
    let mut image = Image::create(&path, &spec(4, "page"), false).unwrap();
    for ppn in 0..3 {
        Step::Program(Ppn(ppn), 10).apply(&mut image).unwrap();
    }
    // The record of page 1 did not reach the disk, those of pages 0 and 2 did.
    image.write(image.layout.record(Ppn(1)), &[0; 64]).unwrap();
    // The erase of block 1 did not, the program after it did.
    Step::Program(Ppn(4), 20).apply(&mut image).unwrap();
    let entry = image.blocks[1];
    Step::Erase(Block(1)).apply(&mut image).unwrap();
    Step::Program(Ppn(4), 21).apply(&mut image).unwrap();
    image.put_entry(Block(1), entry).unwrap();
    image.reload().unwrap();
    assert_eq!(image.read_oob(Ppn(1), Cause::Recovery).unwrap().unwrap().kind, Kind::Torn);
    assert_eq!(image.read(Ppn(4), Cause::Host).unwrap().1.user(), page_of(21));
    assert_eq!(image.erase_counts().nth(1), Some(1));
}
