//! `ftlab check --images --scheme NAME --fail-fast` with its defaults, or `--server`: what a planted bug of images or of
//! the server is put through. Which bug that is, the environment says (`FTLAB_MUTANT`).
//!
//! `attack images|server SCHEME [SEEDS]`: seeds as A..B. Exits with 1 if the scheme fails.

use device::attack::{Attack, Attacked, Counts, Report, Served, attack_all};
use flash::PowerCut;
use std::fmt::Display;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, scheme, ..] = &words[..] else {
        eprintln!("usage: attack images|server SCHEME [A..B]");
        return ExitCode::from(2);
    };
    let seeds = words.get(2).and_then(|word| word.split_once("..")).map_or(0..32, |(first, end)| {
        first.parse().expect("a seed")..end.parse().expect("a seed")
    });
    match &what[..] {
        "images" => attack::<Attacked>(scheme, seeds),
        "server" => attack::<Served>(scheme, seeds),
        other => {
            eprintln!("{other}: neither images nor server");
            ExitCode::from(2)
        }
    }
}

fn attack<C: Counts>(scheme: &str, seeds: Range<u64>) -> ExitCode
where
    Report<C>: Display,
{
    let mount = |image| device::mount(PowerCut::counting(image).without_log(), false);
    let asked = Attack { scheme, settings: &[], requests: C::REQUESTS, mount };
    let place = std::env::temp_dir().join(format!("attack-{}", std::process::id()));
    let report = attack_all::<C>(&asked, seeds, (1, true), &place, &AtomicBool::new(false), &|| ());
    let _ = std::fs::remove_dir_all(&place);
    match report {
        Ok(report) => {
            print!("{report}");
            ExitCode::from(u8::from(!report.passed()))
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
