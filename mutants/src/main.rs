//! `ftlab check --scheme NAME --fail-fast` with its defaults, for one scheme after another: what a planted bug is put
//! through. Which bug that is, the environment says (`FTLAB_MUTANT`). The modules are those of crates/sim: mutants/run
//! copies them here.
//!
//! `mutants SCHEME[+BUFFER] [SEEDS [CUTS [FAULTS [CASE]]]]`: seeds as A..B; a case is shown. Exits with 1 if the scheme
//! fails.
#![allow(dead_code, unreachable_pub, reason = "the modules are parts of a library")]

mod check;
mod oracle;

use check::{CheckConfig, Cuts};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(scheme) = words.first() else {
        eprintln!("usage: mutants SCHEME[+BUFFER] [A..B [CUTS [FAULTS [CASE]]]]");
        return ExitCode::from(2);
    };
    let (scheme, buffer) = scheme.split_once('+').map_or((&scheme[..], None), |(name, of)| (name, Some(of.to_owned())));
    let mut config = CheckConfig { threads: 1, fail_fast: true, ..CheckConfig::new(scheme).behind(buffer) };
    if std::env::var_os("FTLAB_SHALLOW").is_some() {
        config.second_level = 0;
    }
    if let Some((first, end)) = words.get(1).and_then(|word| word.split_once("..")) {
        config.seeds = first.parse().expect("a seed")..end.parse().expect("a seed");
    }
    if let Some(cuts) = words.get(2) {
        config.cuts = Cuts::Count(cuts.parse().expect("a number of cuts"));
    }
    if let Some(faults) = words.get(3) {
        config.faults = faults.parse().expect("classes of faults");
    }
    if let Some(case) = words.get(4) {
        let case = case.parse().expect("a case");
        for line in check::replay(&config, &case).expect("the case exists") {
            println!("{line}");
        }
        return ExitCode::SUCCESS;
    }
    match check::check(&config, &AtomicBool::new(false)) {
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
