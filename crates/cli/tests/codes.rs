//! Codes over ten million patterns of errors, and beside implementations that are not ours.
//!
//! `FTLAB_SOAK` is the number of rounds of 50,000 patterns (`make soak`: 200, which are 10^7 and take a
//! minute); a handful without it. The comparison with others runs where `target/venv` (`make oracles`) or `python3`
//! has the packages bchlib, galois, ldpc and numpy.

use flash::Rng;
use reliability::{Bch, Corrected};
use std::path::{Path, PathBuf};
use std::process::Command;

const PATTERNS: usize = 50_000;

/// Nothing within t errors is ever corrected to something else. Of each ten patterns one is of a full code.
#[test]
fn patterns_of_up_to_t_errors_are_corrected() {
    let rounds: u64 = std::env::var("FTLAB_SOAK").map_or(2, |rounds| rounds.parse().expect("a number of rounds"));
    let short = Bch::over(10, 100, 6).unwrap();
    let full = Bch::new(1024, 24).unwrap();
    for round in 0..rounds {
        let mut rng = Rng::new(round).fork("patterns");
        for (code, count) in [(&short, PATTERNS - PATTERNS / 10), (&full, PATTERNS / 10)] {
            let data: Vec<u8> = (0..code.data_bytes()).map(|_| rng.bits() as u8).collect();
            let mut parity = vec![0; code.parity_bytes()];
            code.encode(&data, &mut parity);
            let (mut read, mut read_parity) = (data.clone(), parity.clone());
            for _ in 0..count {
                let errors = rng.below(code.correctable() as u64 + 1) as usize;
                let mut wrong = Vec::with_capacity(errors);
                while wrong.len() < errors {
                    let position = rng.below(code.codeword_bits() as u64) as usize;
                    if !wrong.contains(&position) {
                        wrong.push(position);
                        match (position / 8).checked_sub(data.len()) {
                            None => read[position / 8] ^= 0x80 >> (position % 8),
                            Some(byte) => read_parity[byte] ^= 0x80 >> (position % 8),
                        }
                    }
                }
                let done = code.decode(&mut read, &mut read_parity);
                assert_eq!(done, Ok(Corrected { bits: errors as u32, iterations: 0 }), "round {round}: {wrong:?}");
                assert!(read == data && read_parity == parity, "round {round}: {wrong:?} miscorrected");
            }
        }
    }
}

/// The Python that has the other implementations, if one has.
fn python(root: &Path) -> Option<PathBuf> {
    let candidates = [root.join("target/venv/bin/python3"), PathBuf::from("python3")];
    candidates.into_iter().find(|python| {
        let imports = Command::new(python).args(["-c", "import bchlib, galois, ldpc, numpy"]).output();
        imports.is_ok_and(|output| output.status.success())
    })
}

/// The small vectors, made anew with what is installed and our matrices of today, are the ones that are kept.
#[test]
fn others_agree_today() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Some(python) = python(&root) else {
        eprintln!("skipped: no Python with bchlib, galois, ldpc and numpy (make oracles)");
        return;
    };
    let script = root.join("scripts/code-vectors.py");
    let output = Command::new(python).arg(script).args([env!("CARGO_BIN_EXE_ftlab"), "--quick"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let kept = std::fs::read_to_string(root.join("crates/reliability/data/vectors.txt")).unwrap();
    let made = String::from_utf8(output.stdout).unwrap();
    assert!(made.lines().count() > 50, "{made}");
    for line in made.lines() {
        assert!(kept.lines().any(|other| other == line), "not among the vectors that are kept: {line}");
    }
}
