//! Attacks on the server hold, and find a scheme that loses what was flushed.

use device::attack::{Attack, Report, Served, attack_all};
use std::sync::atomic::AtomicBool;

fn besieged(scheme: &str, seeds: u64) -> Report<Served> {
    let mount = |image| device::mount(flash::PowerCut::counting(image).without_log(), false);
    let directory = tempfile::tempdir().unwrap();
    let asked = Attack { scheme, settings: &[], requests: 240, mount };
    attack_all(&asked, 0..seeds, (2, false), directory.path(), &AtomicBool::new(false), &|| ()).unwrap()
}

#[test]
fn servers_of_several_schemes_hold() {
    for scheme in ["page", "lsftl", "fast"] {
        let report = besieged(scheme, 10);
        assert!(report.passed(), "{report}");
        let Served { servers, vanished, errors, refused, ended, bounds, older, .. } = report.done;
        assert_eq!((servers, bounds), (10, 1));
        let met = [vanished, errors, refused, ended, older];
        assert!(met.iter().all(|&count| count > 0), "{report}");
    }
}

#[test]
fn a_flush_that_does_nothing_is_found() {
    let report = besieged("canary", 16);
    let findings: Vec<&str> = report.failures.iter().map(|finding| &finding.what[..]).collect();
    assert!(findings.iter().any(|what| what.contains("what outlived power is older")), "{report}");
}
