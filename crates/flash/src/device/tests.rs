//! Tests of the table of devices, of what users change in it, and of the sizes that follow.

use super::*;
use alloc::vec;

const GIB4: Overrides = Overrides {
    capacity: Some(4 << 30),
    spare: None,
    page: None,
    oob: None,
    pages_per_block: None,
    channels: None,
    chips: None,
    dies: None,
    planes: None,
    read_us: None,
    oob_read_us: None,
    program_us: None,
    partial_program_us: None,
    erase_us: None,
    bus_mbps: None,
    order: None,
    nop: None,
    cell: None,
    slc_nop: None,
    slc_read_us: None,
    slc_program_us: None,
    slc_erase_us: None,
    low_cost_read_us: None,
    low_cost_program_us: None,
    medium_read_us: None,
    medium_program_us: None,
    server: None,
    endurance: None,
    suspend_program_us: None,
    suspend_erase_us: None,
    resume_us: None,
    suspends: None,
    multi_plane: None,
    copy_back: None,
    cache_read: None,
    cache_program: None,
    barriers: None,
    paired: None,
};

fn preset(name: &str) -> &'static Preset {
    by_name(name).unwrap()
}

fn own_size(p: &Preset) -> Overrides {
    Overrides { capacity: if p.capacity.is_some() { None } else { Some(4 << 30) }, ..Overrides::default() }
}

#[test]
fn names_are_unique_and_kebab_case() {
    let mut names: Vec<&str> = Vec::new();
    for p in PRESETS {
        names.push(p.name);
        names.extend(p.aliases);
    }
    for name in &names {
        assert!(name.starts_with(|c: char| c.is_ascii_lowercase()), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{name}");
        assert_eq!(by_name(name).map(|p| p.name == *name || p.aliases.contains(name)), Some(true));
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(by_name("").is_none() && by_name("optane-nvmevirt").is_none());
}

#[test]
fn the_table_holds_every_published_row() {
    assert_eq!(PRESETS.len(), 24 + 8);
    assert_eq!(PRESETS[0].name, "agrawal08", "the default device comes first");
}

#[test]
fn every_number_is_labelled_and_sane() {
    for p in PRESETS {
        assert!(!p.summary.is_empty() && !p.source.is_empty(), "{}", p.name);
        for (label, n, unit) in p.numbers() {
            assert!(n.value.is_finite() && n.value >= 0.0, "{} {label}", p.name);
            if matches!(n.origin, Origin::Assumed | Origin::Derived) {
                assert!(!n.why.is_empty(), "{} {label} needs a reason", p.name);
            }
            if !matches!(unit, "µs" | "MB/s" | "of physical pages") {
                assert_eq!(n.value as u64 as f64, n.value, "{} {label} is a count", p.name);
            }
        }
    }
    let names: Vec<_> = Origin::ALL.iter().map(|o| o.name()).collect();
    assert_eq!(names.iter().collect::<alloc::collections::BTreeSet<_>>().len(), names.len());
}

/// Rows inherit from each other, so a simulator's default could pass for a datasheet's or a paper's value.
#[test]
fn only_rows_from_simulators_hold_simulator_numbers() {
    let simulators = ["DiskSim", "SSDsim", "flashsim", "FlashSim", "wiscsee", "FEMU", "MQSim", "SimpleSSD"];
    for p in PRESETS {
        if !simulators.iter().any(|name| p.source.contains(name)) {
            for (label, n, _) in p.numbers() {
                assert_ne!(n.origin, Origin::Simulator, "{} {label}", p.name);
            }
        }
    }
}

#[test]
fn single_times_follow_from_the_page_types() {
    let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
    for p in PRESETS {
        for (types, single) in [(p.read_types_us, p.read_us), (p.program_types_us, p.program_us)] {
            if !types.is_empty() {
                let mean = types.iter().map(|n| n.value).sum::<f64>() / types.len() as f64;
                assert!(close(mean, single.value), "{}", p.name);
                assert!(p.notes.contains("mean"), "{} must say which time is used", p.name);
            }
        }
        // Rows inherit from each other: a changed time must have taken its companions along.
        assert!(close(p.partial_program_us.value, p.program_us.value), "{}", p.name);
        assert!(p.oob_read_us.value <= p.read_us.value, "{}", p.name);
        if p.oob_read_us.why.starts_with("the array time") {
            assert!(close(p.oob_read_us.value, p.read_us.value), "{}", p.name);
        }
    }
}

#[test]
fn cells_of_more_than_one_bit_have_an_slc_mode_that_is_no_slower() {
    for p in PRESETS {
        assert_eq!(p.slc_us.is_some(), p.cell != CellKind::Slc, "{}", p.name);
        if let Some([read, program]) = p.slc_us {
            assert!(read.value <= p.read_us.value && program.value <= p.program_us.value, "{}", p.name);
        }
    }
    assert_eq!(CellKind::ALL.map(CellKind::bits), [1, 2, 3, 4]);
    for kind in CellKind::ALL {
        assert_eq!(kind.word(), kind.name().to_lowercase());
    }
}

#[test]
fn every_preset_builds_at_its_own_size() {
    for p in PRESETS {
        let device = p.build(&own_size(p)).unwrap_or_else(|e| panic!("{}: {e}", p.name));
        assert_eq!(device.geometry.checked(), Ok(device.geometry), "{}", p.name);
        assert_eq!(f64::from(device.geometry.planes), p.planes.value);
        assert_eq!(device.geometry.order, p.order);
        assert_eq!(device.name, p.name);
    }
}

#[test]
fn golden_agrawal08() {
    let device = preset("slc-k9wag08").build(&GIB4).unwrap();
    let g = device.geometry;
    assert_eq!((g.channels, g.chips, g.dies, g.planes), (8, 1, 1, 8));
    assert_eq!((g.page_bytes, g.oob_bytes, g.pages_per_block, g.nop), (4096, 128, 64, 4));
    assert_eq!(g.order, ProgramOrder::Strict);
    // 2^20 pages over 0.875 are 18,724.6 blocks: 2,341 on each of 8 dies.
    assert_eq!((device.logical_pages, g.blocks_per_die), (1 << 20, 2341));
    assert_eq!(
        device.timing,
        Timing {
            read_ns: 25_000,
            oob_read_ns: 25_000,
            program_ns: 200_000,
            partial_program_ns: 200_000,
            erase_ns: 1_500_000,
            page_transfer_ns: 105_600,
            oob_transfer_ns: 3_200,
            // Cells of one bit have no other mode.
            slc: device.timing.cells(Mode::Normal),
            low_cost: device.timing.low_cost,
            medium: device.timing.medium,
        }
    );
    assert_eq!((device.server, device.spare, device.endurance), (Server::Parallel, 0.125, Some(100_000)));
}

#[test]
fn golden_thesis() {
    let device = preset("thesis-80g").build(&Overrides::default()).unwrap();
    assert_eq!(device.geometry.block_count(), 655_360);
    assert_eq!(u64::from(device.geometry.page_count()) * 2048, 80 << 30);
    assert_eq!(device.logical_pages, (655_360 - 16_384) * 64);
    let t = device.timing;
    assert_eq!((t.read_ns, t.program_ns, t.erase_ns, t.oob_read_ns), (88_000, 263_000, 2_000_000, 27_000));
    assert_eq!((t.page_transfer_ns, t.oob_transfer_ns), (0, 0));
    assert_eq!(device.server, Server::Single);
    assert_eq!(device.geometry.order, ProgramOrder::Any);
}

#[test]
fn golden_l74a() {
    let device = preset("mlc-mt29f64g08cbaaa").build(&GIB4).unwrap();
    let g = device.geometry;
    assert_eq!((g.page_bytes, g.oob_bytes, g.pages_per_block, g.planes, g.nop), (8192, 448, 256, 2, 1));
    // 2^19 pages over 0.875 are 2,340.6 blocks.
    assert_eq!(g.blocks_per_die, 2341);
    let t = device.timing;
    assert_eq!((t.read_ns, t.program_ns, t.erase_ns), (75_000, 1_300_000, 3_800_000));
    // 8640 and 448 bytes at 200 MB/s.
    assert_eq!((t.page_transfer_ns, t.oob_transfer_ns), (43_200, 2_240));
    assert_eq!(device.endurance, Some(3000));
    // In SLC mode: half of the pages, an SLC chip's times, spare areas and erases as ever.
    assert_eq!((g.bits_per_cell, g.slc_pages(), g.slc_nop), (2, 128, 4));
    let slc = |read_ns, program_ns, partial_program_ns, erase_ns| CellTimes {
        read_ns,
        oob_read_ns: read_ns,
        program_ns,
        partial_program_ns,
        erase_ns,
    };
    assert_eq!((t.slc, t.cells(Mode::Slc)), (slc(25_000, 200_000, 200_000, 3_800_000), t.slc));
    let own = Overrides {
        cell: Some(CellKind::Tlc),
        slc_nop: Some(8),
        slc_read_us: Some(30.0),
        slc_program_us: Some(400.0),
        slc_erase_us: Some(2000.0),
        partial_program_us: Some(650.0),
        ..GIB4
    };
    let device = preset("mlc-mt29f64g08cbaaa").build(&own).unwrap();
    assert_eq!((device.geometry.slc_pages(), device.geometry.slc_nop), (85, 8));
    assert_eq!(device.timing.slc, slc(30_000, 400_000, 200_000, 2_000_000), "a partial program keeps its share");
}

#[test]
fn never_fewer_physical_pages_than_asked() {
    for spare in [0.01, 0.025, 0.07, 0.07 / 1.07, 0.125, 0.3, 1.0 / 3.0, 0.9] {
        for (dies, pages_per_block) in [(1, 64), (3, 2), (7, 256)] {
            for pages in [1u64, 63, 64, 65, 1000, 123_457, 20_000_000] {
                let asked = Overrides {
                    capacity: Some(pages * 4096),
                    spare: Some(spare),
                    dies: Some(dies),
                    pages_per_block: Some(pages_per_block),
                    channels: Some(1),
                    ..Overrides::default()
                };
                let device = preset("agrawal08").build(&asked).unwrap();
                let physical = f64::from(device.geometry.page_count());
                let needed = pages as f64 / (1.0 - spare);
                assert!(physical >= needed - 1e-3, "{spare} {dies} {pages}: {physical} < {needed}");
                assert!(physical < needed + f64::from(dies * pages_per_block) + 1.0, "no more than rounding");
                assert_eq!(u64::from(device.logical_pages), pages);
            }
        }
    }
}

#[test]
fn overrides_change_what_they_name_and_its_companions() {
    let changed = Overrides {
        page: Some(8192),
        read_us: Some(50.0),
        program_us: Some(400.0),
        erase_us: Some(0.0),
        bus_mbps: Some(0.0),
        chips: Some(2),
        planes: Some(3),
        nop: Some(8),
        order: Some(ProgramOrder::Any),
        server: Some(Server::Single),
        endurance: Some(7),
        ..GIB4
    };
    let device = preset("agrawal08").build(&changed).unwrap();
    let (g, t) = (device.geometry, device.timing);
    assert_eq!((g.page_bytes, g.oob_bytes, g.chips, g.planes, g.nop), (8192, 256, 2, 3, 8));
    assert_eq!(g.order, ProgramOrder::Any);
    assert_eq!((t.read_ns, t.oob_read_ns, t.program_ns, t.partial_program_ns), (50_000, 50_000, 400_000, 400_000));
    assert_eq!((t.erase_ns, t.page_transfer_ns, t.oob_transfer_ns), (0, 0, 0));
    assert!(device.server == Server::Single && device.endurance == Some(7));
    let thesis = preset("thesis-80g").build(&Overrides { read_us: Some(44.0), ..Overrides::default() }).unwrap();
    assert_eq!(thesis.timing.oob_read_ns, 13_500, "keeps its share of the read");
    let own = preset("thesis-80g").build(&Overrides { oob_read_us: Some(5.0), oob: Some(60), ..GIB4 }).unwrap();
    assert_eq!((own.timing.oob_read_ns, own.geometry.oob_bytes, own.logical_pages), (5_000, 60, 2 << 20));
    let quick = Overrides { program_us: Some(400.0), partial_program_us: Some(150.0), ..GIB4 };
    assert_eq!(preset("agrawal08").build(&quick).unwrap().timing.partial_program_ns, 150_000);
}

#[test]
fn wrong_values_are_refused_by_key_value_and_range() {
    let o = GIB4;
    for (bad, key, value) in [
        (Overrides { spare: Some(0.009), ..o }, "spare", "0.009"),
        (Overrides { spare: Some(0.95), ..o }, "spare", "0.95"),
        (Overrides { spare: Some(f64::NAN), ..o }, "spare", "NaN"),
        (Overrides { page: Some(3000), ..o }, "page", "3000"),
        (Overrides { page: Some(0), ..o }, "page", "0"),
        (Overrides { oob: Some(4), ..o }, "oob", "4"),
        (Overrides { oob: Some(5000), ..o }, "oob", "5000"),
        (Overrides { pages_per_block: Some(100), ..o }, "pages_per_block", "100"),
        (Overrides { channels: Some(0), ..o }, "channels", "0"),
        (Overrides { chips: Some(1025), ..o }, "chips", "1025"),
        (Overrides { dies: Some(0), ..o }, "dies", "0"),
        (Overrides { planes: Some(0), ..o }, "planes", "0"),
        (Overrides { read_us: Some(-1.0), ..o }, "read_us", "-1"),
        (Overrides { oob_read_us: Some(26.0), ..o }, "oob_read_us", "26"),
        (Overrides { program_us: Some(2e6), ..o }, "program_us", "2000000"),
        (Overrides { partial_program_us: Some(-0.5), ..o }, "partial_program_us", "-0.5"),
        (Overrides { erase_us: Some(f64::INFINITY), ..o }, "erase_us", "inf"),
        (Overrides { bus_mbps: Some(0.01), ..o }, "bus_mbps", "0.01"),
        (Overrides { bus_mbps: Some(-4.0), ..o }, "bus_mbps", "-4"),
        (Overrides { nop: Some(65), ..o }, "nop", "65"),
        (Overrides { slc_nop: Some(0), ..o }, "slc_nop", "0"),
        (Overrides { slc_read_us: Some(-1.0), ..o }, "slc_read_us", "-1"),
        (Overrides { slc_program_us: Some(-2.0), ..o }, "slc_program_us", "-2"),
        (Overrides { slc_erase_us: Some(-3.0), ..o }, "slc_erase_us", "-3"),
        (Overrides { endurance: Some(0), ..o }, "endurance", "0"),
    ] {
        let e = preset("agrawal08").build(&bad).unwrap_err();
        assert_eq!((e.key, e.value.as_str()), (key, value), "{e}");
        assert_eq!(e.fix, format!("give {}", range_of(key)), "the range of the error is the range of the table");
        assert!(e.to_string().starts_with(&format!("{key} = {value} is out of range; give ")), "{e}");
    }
    let bad = Overrides { channels: Some(1024), chips: Some(1024), dies: Some(1024), ..o };
    let e = preset("agrawal08").build(&bad).unwrap_err();
    assert!(e.key == "channels" && e.to_string().contains("1024 chips and 1024 dies"), "{e}");
}

#[test]
fn wrong_capacities_say_what_to_do() {
    let with = |capacity| Overrides { capacity, ..Overrides::default() };
    let fault = |o: &Overrides| preset("agrawal08").build(o).unwrap_err().to_string();
    assert_eq!(fault(&with(None)), "capacity = nothing but this device fixes none; give one, such as capacity=8GiB");
    assert_eq!(
        fault(&with(Some(5000))),
        "capacity = 5000 bytes is not whole pages of 4096; give a positive multiple of 4096, such as 8192"
    );
    assert_eq!(fault(&with(Some(0))), "capacity = 0 bytes is empty; give a positive multiple of 4096, such as 4096");
    assert_eq!(
        fault(&with(Some(2 << 40))),
        "capacity = 2199023255552 bytes needs more than 268435455 physical pages; at most 895.9 GiB at 4096-byte \
         pages and 12.5% spare; lower it or use larger pages, such as page=16384"
    );
    assert!(fault(&with(Some(u64::MAX))).contains("such as"));
}

#[test]
fn the_stated_limit_is_the_limit() {
    for dies in [1, 3, 8] {
        let step = u64::from(8 * dies * 64u32);
        let logical = (Geometry::MAX_PAGES / step * step) * 875 / 1000;
        let at = |pages: u64| {
            let o = Overrides { capacity: Some(pages * 4096), dies: Some(dies), ..Overrides::default() };
            preset("agrawal08").build(&o)
        };
        assert_eq!(u64::from(at(logical).unwrap().logical_pages), logical);
        assert_eq!(at(logical + 1).unwrap_err().key, "capacity");
    }
}

#[test]
fn a_device_without_a_base_needs_every_key() {
    let e = Overrides { page: Some(4096), ..GIB4 }.build("mine").unwrap_err();
    assert_eq!(e.key, "spare");
    assert!(e.fix.contains("bus_mbps") && !e.fix.contains("page,"), "{e}");
    let whole = Overrides {
        spare: Some(0.2),
        page: Some(4096),
        oob: Some(64),
        pages_per_block: Some(32),
        channels: Some(2),
        chips: Some(1),
        dies: Some(1),
        planes: Some(1),
        read_us: Some(10.5),
        program_us: Some(20.0),
        erase_us: Some(30.0),
        bus_mbps: Some(416.0),
        order: Some(ProgramOrder::Ascending),
        nop: Some(2),
        server: Some(Server::Parallel),
        ..GIB4
    };
    assert_eq!(whole.missing(), vec![""; 0]);
    let device = whole.build("mine").unwrap();
    assert_eq!((device.name.as_str(), device.timing.read_ns, device.timing.oob_read_ns), ("mine", 10_500, 10_500));
    assert_eq!((device.timing.partial_program_ns, device.timing.page_transfer_ns), (20_000, 10_000));
    assert_eq!(device.endurance, None);
}

#[test]
fn the_key_table_is_complete() {
    let mut names: Vec<_> = KEYS.iter().map(|k| k.name).collect();
    for key in Overrides::default().missing() {
        assert!(names.contains(&key));
    }
    assert_eq!(
        names.len(),
        Overrides::default().missing().len() + 23,
        "and capacity, endurance, two times, five of SLC mode, two of each lesser effort, eight of queues, \
         barriers, shared cells"
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), KEYS.len());
    for k in KEYS {
        assert!(!k.effect.is_empty() && !k.range.is_empty());
    }
}

#[test]
fn which_pages_share_cells_is_known_and_counts_only_where_power_may_fail() {
    for p in PRESETS {
        let device = p.build(&own_size(p)).unwrap();
        assert_eq!((device.paired, device.geometry.pairs), (p.paired.order, Pairing::Off), "{}", p.name);
        assert!(p.cell != CellKind::Slc || p.paired.order == Pairing::Off, "{}", p.name);
        assert!(!p.paired.why.is_empty(), "{}", p.name);
    }
    let device = preset("mlc-mt29f64g08cbaaa").build(&GIB4).unwrap();
    let (before, guarded) = (device.geometry, device.guarded().unwrap());
    assert_eq!(guarded.geometry.pairs, Pairing::Shadow);
    // A scheme has as many blocks as without.
    assert_eq!(guarded.geometry.blocks_per_die, before.blocks_per_die + 4);
    assert_eq!(crate::seen(guarded.geometry).blocks_per_die, before.blocks_per_die);
    let adjacent = Overrides { paired: Some(Pairing::Adjacent), ..GIB4 };
    assert_eq!(preset("tlc-vnand48").build(&adjacent).unwrap().paired, Pairing::Adjacent);
    let refused = preset("agrawal08").build(&adjacent).unwrap_err();
    assert_eq!((refused.key, &refused.value[..]), ("paired", "adjacent"));
    let small = Overrides { oob: Some(16), ..GIB4 };
    assert_eq!(preset("mlc-mt29f64g08cbaaa").build(&small).unwrap().guarded().unwrap_err().key, "oob");
    let off = Overrides { paired: Some(Pairing::Off), ..small };
    assert!(preset("mlc-mt29f64g08cbaaa").build(&off).unwrap().guarded().is_ok());
}

#[test]
fn pages_programmed_with_less_effort_have_times_of_their_own() {
    let paper = preset("ecc-paper").build(&GIB4).unwrap().timing;
    let times = |t: &Timing, mode| (t.cells(mode).read_ns, t.cells(mode).program_ns);
    assert_eq!(times(&paper, Mode::Normal), (75_000, 1_300_000));
    assert_eq!(times(&paper, Mode::LowCost), (140_000, 650_000));
    assert_eq!(times(&paper, Mode::Medium), (107_500, 866_667));
    // Its spare area and its erase are as ever.
    let [low, normal] = [Mode::LowCost, Mode::Normal].map(|mode| paper.cells(mode));
    assert_eq!((low.oob_read_ns, low.erase_ns), (normal.oob_read_ns, normal.erase_ns));
    // Elsewhere no page differs, unless the user says so.
    let plain = preset("agrawal08").build(&GIB4).unwrap().timing;
    assert_eq!(times(&plain, Mode::LowCost), times(&plain, Mode::Normal));
    assert_eq!(times(&plain, Mode::Medium), times(&plain, Mode::Normal));
    let asked = Overrides { low_cost_program_us: Some(90.0), medium_read_us: Some(33.0), read_us: Some(30.0), ..GIB4 };
    let asked = preset("agrawal08").build(&asked).unwrap().timing;
    assert_eq!((times(&asked, Mode::LowCost), times(&asked, Mode::Medium)), ((30_000, 90_000), (33_000, 200_000)));
    let wrong = preset("agrawal08").build(&Overrides { low_cost_read_us: Some(-1.0), ..GIB4 }).unwrap_err();
    assert_eq!(wrong.key, "low_cost_read_us");
}
