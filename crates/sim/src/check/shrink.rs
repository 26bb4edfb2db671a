//! Makes a failing case short, by delta debugging.
//!
//! A case is the fill, the operations before the cut, the cut operation and the operations after it. Of each of the
//! three lists parts are left out, halves first and single ones in the end, as long as the case fails with a finding of
//! the same kind (A. Zeller, R. Hildebrandt: Simplifying and isolating failure-inducing input. IEEE Transactions on
//! Software Engineering 28(2), 2002). That goes round until nothing more can go. What is random stays as it was: it
//! follows from the seed and from the place of the original cut.
//!
//! With the operations before it the commands of the cut operation change: a collection is gone, say, that came before
//! the write. So where a shorter case does not fail, its cuts are tried at commands before those at which they came.
//!
//! The case is run [`MOST_RUNS`] times at the most. What is shortest by then is the answer: it fails as the whole case
//! does, but more of it could perhaps go.

use super::replay::{Kept, Picked, Replay};
use super::{CheckError, Told};

/// How many commands before the present one a cut may move at a time.
const REACH: u64 = 12;

/// How often a case is run at the most to make it short.
pub(super) const MOST_RUNS: u32 = 2_000;

/// The kind of a finding: what was read, without the numbers in it; where a panic came from.
pub(super) fn kind(what: &str) -> String {
    let what = what.split("; allowed").next().unwrap_or(what);
    let what = if what.starts_with("panic at ") { what.split(": ").next().unwrap_or(what) } else { what };
    let is_panic = what.starts_with("panic at ");
    let mut kind = String::new();
    for letter in what.chars() {
        let letter = if letter.is_ascii_digit() && !is_panic { '#' } else { letter };
        if letter != '#' || !kind.ends_with('#') {
            kind.push(letter);
        }
    }
    kind
}

/// As much of `list` as has to stay for `fails` to hold, as it does for all of it: without any one of what is left it
/// does not.
fn shortest(mut list: Vec<u32>, mut fails: impl FnMut(&[u32]) -> bool) -> Vec<u32> {
    if !list.is_empty() && fails(&[]) {
        return Vec::new();
    }
    let mut parts = 2.min(list.len());
    while list.len() > 1 {
        let size = list.len().div_ceil(parts);
        let shorter = (0..list.len()).step_by(size).find_map(|first| {
            let without: Vec<u32> = list
                .iter()
                .enumerate()
                .filter(|(at, _)| !(first..first + size).contains(at))
                .map(|(_, &n)| n)
                .collect();
            fails(&without).then_some(without)
        });
        match shorter {
            Some(without) => {
                list = without;
                parts = (parts - 1).clamp(1, list.len().max(1)).max(2);
            }
            None if size == 1 => break,
            None => parts = (parts * 2).min(list.len()),
        }
    }
    list
}

/// Whether `case` fails as it should, perhaps with its cuts at earlier commands, which are then where it says.
fn fails(case: &mut Replay, kind_of: &str, run: &mut impl FnMut(&Replay) -> Result<Told, CheckError>) -> bool {
    let mut is_same = |case: &Replay| run(case).is_ok_and(|told| told.end.is_err_and(|what| kind(&what) == kind_of));
    if is_same(case) {
        return true;
    }
    for (at, (point, moved)) in case.points().into_iter().enumerate() {
        let Some(point) = point else { continue };
        let command = moved.unwrap_or(point.command);
        for earlier in (command.saturating_sub(REACH)..command).rev() {
            let mut other = case.clone();
            other.moved[at] = Some(earlier);
            if is_same(&other) {
                *case = other;
                return true;
            }
        }
    }
    false
}

/// A case that fails as `replay` does and has nothing to spare, if `most_runs` of it are enough to find one, and how
/// much of it is left.
pub(super) fn shrink(
    replay: &Replay,
    most_runs: u32,
    mut run: impl FnMut(&Replay) -> Result<Told, CheckError>,
) -> Result<(Replay, String), CheckError> {
    let told = run(replay)?;
    let (mut runs, mut is_met) = (1, false);
    // What is refused does not fail as it should, so that nothing more is left out.
    let mut run = |case: &Replay| {
        is_met |= runs >= most_runs;
        if is_met {
            return Err(CheckError(format!("the case was run {most_runs} times")));
        }
        runs += 1;
        run(case)
    };
    let Err(what) = told.end else {
        return Err(CheckError(format!("case {replay}: nothing goes wrong, so there is nothing to shrink")));
    };
    let kind = kind(&what);
    let all = |count: u32| Picked::new((0..count).collect());
    let before = replay.operation + u32::from(replay.part.is_medium());
    let whole = Kept { fill: all(told.requests), before: all(before), after: all(told.after) };
    let count = |kept: &Kept| [&kept.before, &kept.after, &kept.fill].map(|picked| picked.numbers().len());
    let of = count(&whole);
    let mut best = Replay { run: told.run, kept: Some(replay.kept.clone().unwrap_or(whole)), ..replay.clone() };
    if !fails(&mut best, &kind, &mut run) {
        return Err(CheckError(format!("case {replay}: it does not fail the same way twice")));
    }
    let lists: [fn(&mut Kept) -> &mut Picked; 3] =
        [|kept| &mut kept.after, |kept| &mut kept.before, |kept| &mut kept.fill];
    loop {
        let was = best.clone();
        for list in lists {
            let mut kept = best.kept.clone().unwrap_or_default();
            let numbers = list(&mut kept).numbers().to_vec();
            shortest(numbers, |numbers| {
                let mut kept = best.kept.clone().unwrap_or_default();
                *list(&mut kept) = Picked::new(numbers.to_vec());
                let mut shorter = Replay { kept: Some(kept), ..best.clone() };
                let is_same = fails(&mut shorter, &kind, &mut run);
                if is_same {
                    best = shorter;
                }
                is_same
            });
        }
        if best == was {
            break;
        }
    }
    let left = count(best.kept.as_ref().unwrap_or(&Kept::default()));
    let [before, after, fill] = [0, 1, 2].map(|at| format!("{} of {}", left[at], of[at]));
    let met = if is_met { format!("; given up after {most_runs} runs, more could perhaps go") } else { String::new() };
    let text = format!(
        "kept: {before} operations before, {after} after, {fill} requests of the fill; made short from {replay}{met}"
    );
    Ok((best, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_stay_stays_and_nothing_else() {
        for needed in [&[][..], &[0], &[99], &[3, 57], &[0, 1, 2, 50, 98, 99]] {
            let mut runs = 0;
            let left = shortest((0..100).collect(), |list| {
                runs += 1;
                needed.iter().all(|number| list.contains(number))
            });
            assert_eq!(left, needed);
            assert!(runs < 200, "{runs} runs for {needed:?}");
        }
        // One of two will do.
        let left = shortest((0..64).collect(), |list| list.contains(&5) || list.contains(&40));
        assert_eq!(left.len(), 1);
        assert_eq!(shortest(vec![7], |list| list == [7]), [7]);
        assert!(shortest(Vec::new(), |_| true).is_empty());
    }

    /// A case took over a minute, for nothing bounded how often it was run.
    #[test]
    fn the_runs_have_a_bound_and_its_answer_still_fails() {
        let replay: Replay = "7:40.2.1".parse().unwrap();
        for most_runs in [2, 10, 30, 100_000] {
            let mut runs = 0;
            // Operations 3 and 31 have to stay, wherever the cut comes.
            let fails = |case: &Replay| {
                let kept = case.kept.as_ref();
                kept.is_none_or(|kept| [3, 31].iter().all(|number| kept.before.numbers().contains(number)))
            };
            let (short, text) = shrink(&replay, most_runs, |case| {
                runs += 1;
                let end = if fails(case) { Err("LPN 1 reads as nothing".to_owned()) } else { Ok(()) };
                Ok(Told { lines: Vec::new(), end, requests: 20, after: 20, run: None })
            })
            .unwrap();
            assert!(runs <= most_runs && fails(&short), "{runs} of {most_runs}");
            let is_short = short.kept.unwrap().before.numbers() == [3, 31];
            assert_eq!(is_short, most_runs == 100_000);
            assert_eq!(text.contains(&format!("given up after {most_runs} runs")), !is_short, "{text}");
        }
    }

    #[test]
    fn findings_of_a_kind_differ_in_numbers_alone() {
        let lost = |lpn: u32, write: u32| format!("LPN {lpn} reads as nothing; allowed: write {write} of LPN {lpn}");
        assert_eq!(kind(&lost(7, 5)), kind(&lost(12, 133)));
        assert_eq!(kind(&lost(7, 5)), "LPN # reads as nothing");
        assert_ne!(kind("LPN 1 reads as write 2 of LPN 1; allowed: nothing"), kind(&lost(1, 1)));
        assert_eq!(kind("panic at a.rs:12: page 3"), kind("panic at a.rs:12: page 400"));
        assert_ne!(kind("panic at a.rs:12: page 3"), kind("panic at a.rs:120: page 3"));
    }
}
