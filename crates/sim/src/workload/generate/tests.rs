//! The table tests itself, and the requests are held against what the specification promises.

use super::*;
use crate::workload::{Operation, Request};

const CONTEXT: Context = Context { capacity_bytes: 1 << 30, seed: 42 };

fn all(spec: &str) -> Vec<Request> {
    all_of(spec, &CONTEXT)
}

fn all_of(spec: &str, context: &Context) -> Vec<Request> {
    let mut source = generate(spec, context).unwrap_or_else(|e| panic!("{e}"));
    let mut requests = Vec::new();
    loop {
        let before = requests.len();
        source.fill(&mut requests, 777).expect("generators do not fail");
        if requests.len() == before {
            assert_eq!(source.intake().requests, requests.len() as u64);
            return requests;
        }
        assert!(requests.len() - before <= 777);
    }
}

fn share(requests: &[Request], test: impl Fn(&Request) -> bool) -> f64 {
    requests.iter().filter(|r| test(r)).count() as f64 / requests.len() as f64
}

fn fault(spec: &str) -> String {
    generate(spec, &CONTEXT).err().unwrap_or_else(|| panic!("{spec} was accepted")).to_string()
}

#[test]
fn the_table_is_sound() {
    let mut names: Vec<_> = GENERATORS.iter().map(|row| row.name).collect();
    names.extend(ALIASES.iter().map(|a| a.0));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "names are unique");
    for row in GENERATORS {
        let kebab = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        assert!(kebab(row.name) && !row.summary.is_empty());
        let parameters = row.all_parameters();
        for parameter in &parameters {
            assert!(kebab(parameter.name) && !parameter.doc.is_empty(), "{}", parameter.name);
            assert_eq!(parameters.iter().filter(|p| p.name == parameter.name).count(), 1, "{}", parameter.name);
            assert!(row.help().contains(parameter.doc));
        }
        for (name, _) in row.defaults {
            assert!(parameters.iter().any(|p| p.name == *name), "{name}");
        }
        if row.common {
            assert_eq!(all(&format!("{}:requests=1000", row.name)).len(), 1000);
        }
    }
}

#[test]
fn faults_name_the_nearest_and_the_range() {
    let text = fault("unifrom:requests=1");
    assert!(text.contains("did you mean `uniform`") && text.contains("hotcold"), "{text}");
    let text = fault("zipf:teta=1");
    assert!(text.contains("did you mean `theta`") && text.contains("scatter"), "{text}");
    let text = fault("zipf:theta=21");
    assert!(text.contains("0 to 20"), "{text}");
    let text = fault("zipf:scatter=no");
    assert!(text.contains("did you mean `on`"), "{text}");
    let text = fault("uniform:size=4KB");
    assert!(text.contains("4KiB"), "{text}");
    let text = fault("uniform:arrival=fixed,rate=0");
    assert!(text.contains("rate: 0 is out of range"), "{text}");
    for spec in [
        "",
        "uniform:",
        "uniform:reads",
        "uniform:reads=0.1,reads=0.2",
        "uniform:reads=0.6,trims=0.6",
        "uniform:span=2GiB",
        "uniform:size=2GiB",
        "uniform:requests=-1",
        "hotcold:hot=0",
        "hotcold:hot=1",
        "streams:count=0",
        "streams:count=65536,size=1MiB",
        "uniform:align=0",
        "uniform:,",
    ] {
        if spec == "uniform:" {
            assert_eq!(all("uniform:").len(), 1_000_000, "nothing after the colon is no parameter");
        } else {
            assert!(fault(spec).starts_with(&format!("{spec}: ")), "{spec}");
        }
    }
}

#[test]
fn what_the_arrivals_do_not_read_is_refused() {
    let told = fault("zipf:requests=9,rate=10");
    assert!(told.contains("rate has no effect with arrival=none") && told.contains("or leave rate out"), "{told}");
    assert!(fault("uniform:requests=9,arrival=fixed,burst=5").contains("burst has no effect with arrival=fixed"));
    assert_eq!(all("uniform:requests=9,arrival=bursts,rate=10,burst=5,idle=1s").len(), 9);
}

#[test]
fn the_seed_determines_everything() {
    for row in GENERATORS.iter().filter(|row| row.common) {
        let spec = format!("{}:requests=5k,reads=0.3,trims=0.1,size=4KiB*0.5+12KiB*0.5,arrival=poisson", row.name);
        assert_eq!(all(&spec), all(&spec), "{spec}");
        assert_ne!(all(&spec), all_of(&spec, &Context { seed: 43, ..CONTEXT }), "{spec}");
    }
}

#[test]
fn extents_stay_inside_the_span_and_aligned() {
    for row in GENERATORS.iter().filter(|row| row.common) {
        for size in ["4KiB", "512*0.5+64KiB*0.4+200KiB*0.1"] {
            let spec = format!("{}:requests=50k,size={size},align=512,span=1000000,reads=0.5", row.name);
            let requests = all(&spec);
            assert_eq!(requests.len(), 50_000);
            for r in requests {
                assert!(r.bytes > 0 && r.offset + r.bytes <= 1_000_000 && r.offset % 512 == 0, "{spec}: {r:?}");
            }
        }
    }
}

#[test]
fn shares_are_met() {
    let requests = all("uniform:requests=1M,reads=0.3,trims=0.05,size=4KiB*0.7+64KiB*0.3");
    assert!((share(&requests, |r| r.operation == Operation::Read) - 0.3).abs() < 0.002);
    assert!((share(&requests, |r| r.operation == Operation::Trim) - 0.05).abs() < 0.001);
    assert!((share(&requests, |r| r.bytes == 65536) - 0.3).abs() < 0.002);
    assert_eq!(share(&all("uniform:reads=1"), |r| r.operation == Operation::Read), 1.0);
    assert_eq!(share(&all("uniform:reads=0"), |r| r.operation == Operation::Write), 1.0);
}

#[test]
fn the_read_share_moves_no_address() {
    let offsets = |spec| all(spec).iter().map(|r| r.offset).collect::<Vec<_>>();
    assert_eq!(offsets("zipf:requests=10k,reads=0.1"), offsets("zipf:requests=10k,reads=0.9"));
}

#[test]
fn flushes_come_every_n() {
    let requests = all("sequential:requests=1000,flush=10");
    assert_eq!(share(&requests, |r| r.operation == Operation::Flush), 0.1);
    assert!(requests.iter().skip(9).step_by(10).all(|r| r.operation == Operation::Flush && r.bytes == 0));
}

#[test]
fn uniform_covers_all_slots_evenly() {
    let requests = all("uniform:requests=1M,span=400KiB");
    let mut seen = [0u32; 100];
    for r in &requests {
        seen[(r.offset / 4096) as usize] += 1;
    }
    let square: f64 = seen.iter().map(|&n| (f64::from(n) - 1e4).powi(2) / 1e4).sum();
    assert!((50.0..160.0).contains(&square), "chi-square {square} at 99 degrees of freedom");
}

#[test]
fn zipf_scatters_its_hot_extents() {
    let hottest = |spec| {
        let mut seen = std::collections::BTreeMap::new();
        for r in all(spec) {
            *seen.entry(r.offset).or_insert(0u32) += 1;
        }
        let mut by_count: Vec<_> = seen.into_iter().map(|(offset, count)| (count, offset)).collect();
        by_count.sort_unstable_by(|a, b| b.cmp(a));
        by_count
    };
    let ordered = hottest("zipf:requests=200k,theta=1.2,scatter=off");
    assert_eq!(ordered.iter().take(3).map(|p| p.1).collect::<Vec<_>>(), [0, 4096, 8192]);
    let scattered = hottest("zipf:requests=200k,theta=1.2");
    assert!(scattered[0].1.abs_diff(scattered[1].1) > 1 << 20);
    assert_eq!(ordered[0].0, scattered[0].0, "scattering renames, it does not redraw");
}

#[test]
fn hotcold_meets_its_shares() {
    let requests = all("hotcold:requests=1M,hot=0.1,to=0.9");
    assert!((share(&requests, |r| r.offset < (1 << 30) / 10) - 0.9).abs() < 0.002);
}

#[test]
fn streams_are_sequential_each() {
    for spec in ["sequential:requests=1000", "streams:requests=1000,count=3", "streams:requests=1000,order=random"] {
        let mut ends = std::collections::BTreeSet::new();
        let mut jumps = 0;
        for r in all(spec) {
            if !ends.remove(&r.offset) {
                jumps += 1;
            }
            ends.insert(r.offset + r.bytes);
        }
        assert_eq!(
            jumps,
            if spec.starts_with("seq") {
                1
            } else if spec.contains('3') {
                3
            } else {
                4
            },
            "{spec}"
        );
    }
    let requests = all("sequential:requests=10,span=12KiB");
    let offsets: Vec<_> = requests.iter().map(|r| r.offset / 4096).collect();
    assert_eq!(offsets, [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn overload_b_continues_its_writes() {
    let sequential = |spec| {
        let writes: Vec<_> = all(spec).into_iter().filter(|r| r.operation == Operation::Write).collect();
        writes.windows(2).filter(|w| w[0].offset + w[0].bytes == w[1].offset).count() as f64 / writes.len() as f64
    };
    assert!((sequential("s4b") - 0.8).abs() < 0.003);
    assert!(sequential("overload-random") < 0.001);
    assert!((share(&all("s4a"), |r| r.operation == Operation::Read) - 0.1).abs() < 0.002);
}

#[test]
fn poisson_gaps_have_the_exponential_moments() {
    let requests = all("uniform:requests=1M,arrival=poisson,rate=1000");
    let gaps: Vec<f64> = requests.windows(2).map(|w| (w[1].arrival_ns - w[0].arrival_ns) as f64 / 1e6).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((mean - 1.0).abs() < 0.005, "mean {mean} ms");
    assert!((variance - 1.0).abs() < 0.02, "variance {variance} ms²");
}

#[test]
fn fixed_arrivals_and_bursts_keep_time() {
    let times = |spec| all(spec).iter().map(|r| r.arrival_ns).collect::<Vec<_>>();
    assert_eq!(times("uniform:requests=4,arrival=fixed,rate=1000"), [0, 1_000_000, 2_000_000, 3_000_000]);
    let bursts = times("uniform:requests=5,arrival=bursts,rate=1000,burst=2,idle=10ms");
    assert_eq!(bursts, [0, 1_000_000, 12_000_000, 13_000_000, 24_000_000]);
    assert!(times("uniform:requests=5").iter().all(|&t| t == 0));
    assert!(!generate("uniform", &CONTEXT).unwrap().timed());
    assert!(generate("s4a", &CONTEXT).unwrap().timed());
}
