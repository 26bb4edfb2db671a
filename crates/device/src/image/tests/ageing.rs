//! Time that goes by: which bits flip, and where.

use super::*;

/// What broke: a second ageing with the same seed flipped the same bits back, and the image was as it had been.
#[test]
fn ageings_add_up_and_are_those_of_image_and_seed() {
    let bits = |path: &Path, other: &[u8]| -> u32 {
        let areas = Image::open(path, Access::Look).unwrap().areas();
        let bytes = fs::read(path).unwrap();
        let [from, .., end] = areas.map(|at| at as usize);
        bytes[from..end].iter().zip(&other[from..end]).map(|(is, was)| (is ^ was).count_ones()).sum()
    };
    let (_directory, path) = place();
    let mut image = Image::create(&path, &spec(16, "page"), false).unwrap();
    (0..64).for_each(|page| Step::Program(Ppn(page), 7).apply(&mut image).unwrap());
    image.sync().unwrap();
    drop(image);
    let fresh = fs::read(&path).unwrap();
    let age = || Image::open(&path, Access::Use).unwrap().age(&Rng::new(1), |_, _| 1e-3).unwrap() as u32;
    let (first, once) = (age(), bits(&path, &fresh));
    let aged = fs::read(&path).unwrap();
    assert_eq!(once, first);
    let (second, twice) = (age(), bits(&path, &fresh));
    // Hardly a bit flips twice.
    assert!(twice > once + second - 10 && second * 2 > first, "{first} and {second} bits flipped, {twice} in all");
    let again = fs::read(&path).unwrap();
    fs::write(&path, &aged).unwrap();
    assert_eq!((age(), fs::read(&path).unwrap() == again), (second, true), "the same image and seed");
}

#[test]
fn blocks_are_aged_by_the_modes_of_their_pages() {
    let (_directory, path) = place();
    let mut image = Image::create(&path, &spec(4, "page"), false).unwrap();
    assert_eq!(image.modes().unwrap(), []);
    // Tags of host pages say the mode: normal, low cost, medium.
    for step in [Step::Program(Ppn(0), 1), Step::Program(Ppn(1), 3), Step::Slc(Ppn(4), 1), Step::Program(Ppn(12), 2)] {
        step.apply(&mut image).unwrap();
    }
    Step::Ruin(Ppn(8)).apply(&mut image).unwrap();
    let expected = [(0, Mode::Normal), (0, Mode::LowCost), (1, Mode::Slc), (3, Mode::Medium)];
    assert_eq!(image.modes().unwrap(), expected.map(|(block, mode)| (Block(block), mode)));
    let before = look(&mut image).unwrap();
    let low_cost = |_, mode| if mode == Mode::LowCost { 0.1 } else { 0.0 };
    assert!(image.age(&Rng::new(1), low_cost).unwrap() > 100);
    let changed: Vec<_> = look(&mut image).unwrap().iter().zip(&before).map(|(is, was)| is != was).collect();
    assert_eq!(changed.iter().position(|&changed| changed), Some(0));
    assert_eq!(changed.iter().filter(|&&changed| changed).count(), 1);
}
