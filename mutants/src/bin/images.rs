//! `ftlab check --images --scheme NAME --fail-fast` with its defaults: what a planted bug of images is put through. Which
//! bug that is, the environment says (`FTLAB_MUTANT`).
//!
//! `images SCHEME [SEEDS]`: seeds as A..B. Exits with 1 if the scheme fails.

use device::attack::{Attack, attack_all};
use flash::PowerCut;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(scheme) = words.first() else {
        eprintln!("usage: images SCHEME [A..B]");
        return ExitCode::from(2);
    };
    let seeds = words.get(1).and_then(|word| word.split_once("..")).map_or(0..32, |(first, end)| {
        first.parse().expect("a seed")..end.parse().expect("a seed")
    });
    let mount = |image| device::mount(PowerCut::counting(image).without_log(), false);
    let asked = Attack { scheme, settings: &[], requests: 400, mount };
    let place = std::env::temp_dir().join(format!("images-{}", std::process::id()));
    let report = attack_all(&asked, seeds, (1, true), &place, &AtomicBool::new(false));
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
