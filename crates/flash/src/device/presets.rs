//! The table of devices: NAND parts and simulator defaults first, then the devices of the papers.
//!
//! `optane-nvmevirt` is left out on purpose: its model is a delay set when the kernel module is loaded, not NAND, so
//! there is no number to list. Where a source states a time per page type (lower, centre, upper), all of them are kept
//! and the single time in use is their mean. Rows of bare chips have one die; `channels=`, `chips=` and `dies=` make a
//! drive of them.

use super::{CellKind, MultiPlane, Number, Origin, Preset, Server, Sharing};
use crate::{Pairing, ProgramOrder};

const fn number(value: f64, origin: Origin, why: &'static str) -> Number {
    Number { value, origin, why }
}

const fn datasheet_max(value: f64) -> Number {
    number(value, Origin::DatasheetMax, "")
}

const fn datasheet_typ(value: f64) -> Number {
    number(value, Origin::DatasheetTyp, "")
}

const fn measured(value: f64) -> Number {
    number(value, Origin::Measured, "")
}

const fn tuned(value: f64) -> Number {
    number(value, Origin::Tuned, "")
}

const fn paper(value: f64) -> Number {
    number(value, Origin::Paper, "")
}

const fn simulator(value: f64) -> Number {
    number(value, Origin::Simulator, "")
}

const fn derived(value: f64, how: &'static str) -> Number {
    number(value, Origin::Derived, how)
}

const fn assumed(value: f64, why: &'static str) -> Number {
    number(value, Origin::Assumed, why)
}

/// The mean of the times of all page types: pages of every type are equally many and equally often used.
const fn mean(of: &[Number]) -> Number {
    let (mut sum, mut index) = (0.0, 0);
    while index < of.len() {
        sum += of[index].value;
        index += 1;
    }
    derived(sum / of.len() as f64, "mean of the page types")
}

/// Spare-area reads and partial programs where the source gives array times and charges transfers on the bus.
const fn array_time(value: f64) -> Number {
    derived(value, "the array time of a page read: the whole row is sensed, only the transfer is shorter")
}

const fn as_program(value: f64) -> Number {
    assumed(value, "a full program's time: no source gives one for partial programs, and the pulses are the same")
}

const fn oob_usual(value: f64) -> Number {
    assumed(value, "usual for the page size; the source is silent")
}

const fn slc_mode(read_us: f64, program_us: f64, why: &'static str) -> Option<[Number; 2]> {
    Some([assumed(read_us, why), assumed(program_us, why)])
}

/// Rate of a channel that moves a page and its spare area in `us`.
const fn rate(page: f64, oob: f64, us: f64) -> Number {
    derived((page + oob) / us, "page and spare bytes over the page transfer time that the source states")
}

/// Over-provisioning stated as extra space over exported space, as a share of the whole.
const fn spare_of_extra(extra: f64, how: &'static str) -> Number {
    derived(extra / (1.0 + extra), how)
}

const ONE: Number = assumed(1.0, "the source describes a chip, not a drive");
const ONE_UNUSED: Number = assumed(1.0, "the source has no such level");
const SINGLE_SERVER: Number = assumed(1.0, "a single server: parallel units would change nothing");
const NO_BUS: Number = assumed(0.0, "the source charges no transfer beside its read and program times");
const NOP_SLC: Number = assumed(4.0, "usual for SLC; the source is silent");
const NOP_ONE: Number = assumed(1.0, "more than one bit per cell: no partial programs");
/// Read and program of the table's SLC chips. No source of a chip with more bits per cell states them for its SLC mode.
const SLC_MODE: Option<[Number; 2]> = slc_mode(25.0, 200.0, "as SLC chips of this table; the source is silent");
const NOT_SLOWER: &str = "as SLC chips, but no slower than in the part's own mode; the source is silent";
const SPARE_USUAL: Number = assumed(0.125, "ftlab's default; the source is silent");
const EXTRA_7: &str = "7% extra space over exported space, as a share of the whole";
const BLOCKS_ASSUMED: Number = assumed(512.0, "the field's usual power of two for 3D NAND; the source is silent");
const TOGGLE_RATE: Number = assumed(800.0, "interface rate usual for the generation; the source is silent");
const NO_ERASE_TIME: Number = number(0.0, Origin::Tuned, "NVMeVirt charges no time for an erase");

const UNSHARED: Sharing = Sharing { order: Pairing::Off, origin: Origin::Derived, why: "one bit in a cell" };
const SHADOW: Sharing = Sharing {
    order: Pairing::Shadow,
    origin: Origin::Assumed,
    why: "the order that Linux has for MLC chips (nand_pairing_dist3), and on for more bits; the source is silent",
};
const ONE_SHOT: Sharing = Sharing {
    order: Pairing::Off,
    origin: Origin::Assumed,
    why: "all pages of a word line are programmed in one shot, so that none was acknowledged before",
};

/// What bare SLC chips have in common. Every row overrides all times, sizes and texts.
const SLC: Preset = Preset {
    name: "",
    aliases: &[],
    summary: "",
    source: "",
    notes: "",
    cell: CellKind::Slc,
    paired: UNSHARED,
    server: Server::Parallel,
    order: ProgramOrder::Strict,
    read_us: simulator(25.0),
    read_types_us: &[],
    oob_read_us: array_time(25.0),
    program_us: simulator(200.0),
    program_types_us: &[],
    partial_program_us: as_program(200.0),
    erase_us: simulator(1500.0),
    slc_us: None,
    low_cost_us: None,
    medium_us: None,
    suspend_us: None,
    multi_plane: MultiPlane::Off,
    bus_mbps: NO_BUS,
    page: simulator(2048.0),
    oob: oob_usual(64.0),
    pages_per_block: simulator(64.0),
    blocks_per_die: None,
    channels: ONE,
    chips: ONE,
    dies: ONE,
    planes: ONE,
    nop: NOP_SLC,
    capacity: None,
    spare: SPARE_USUAL,
    endurance: None,
};

const MLC: Preset = Preset { cell: CellKind::Mlc, paired: SHADOW, nop: NOP_ONE, slc_us: SLC_MODE, ..SLC };
const TLC: Preset = Preset { cell: CellKind::Tlc, ..MLC };

/// What the papers that used FlashSim have in common: one server, commands one after another.
const FLASHSIM: Preset = Preset {
    server: Server::Single,
    channels: SINGLE_SERVER,
    chips: SINGLE_SERVER,
    dies: SINGLE_SERVER,
    planes: SINGLE_SERVER,
    order: ProgramOrder::Any,
    ..SLC
};

const SIMPLESSD_READ: &[Number] = &[simulator(40.0), simulator(65.0)];
const SIMPLESSD_PROGRAM: &[Number] = &[simulator(500.0), simulator(1300.0)];
const L95B_READ: &[Number] = &[measured(48.0), measured(64.0)];
const L95B_PROGRAM: &[Number] = &[measured(850.0), measured(2300.0)];
const P970_READ: &[Number] = &[tuned(30.013), tuned(42.013)];
const TLC_READ: &[Number] = &[paper(56.5), paper(77.5), paper(106.0)];
const TLC_PROGRAM: &[Number] = &[paper(820.5), paper(2225.0), paper(5734.0)];
const QLC_READ_WHY: &str = "FEMU: TLC times by the read ratios of Micron's FMS'19 talk";
const QLC_READ: &[Number] = &[
    derived(59.3, QLC_READ_WHY),
    derived(85.3, QLC_READ_WHY),
    derived(127.2, QLC_READ_WHY),
    derived(169.6, QLC_READ_WHY),
];
const QLC_PROGRAM_WHY: &str = "FEMU: TLC times by 1.05, 1.1, 1.2 and 1.6; real programs may be slower";
const QLC_PROGRAM: &[Number] = &[
    derived(861.5, QLC_PROGRAM_WHY),
    derived(2447.5, QLC_PROGRAM_WHY),
    derived(6880.8, QLC_PROGRAM_WHY),
    derived(9174.4, QLC_PROGRAM_WHY),
];
const OOB_16K: Number = assumed(2048.0, "an eighth of the page, usual from 16 KiB pages up; the source is silent");
const OOB_32K: Number = assumed(4096.0, "an eighth of the page, usual from 16 KiB pages up; the source is silent");
const OOB_64K: Number = assumed(8192.0, "an eighth of the page, usual from 16 KiB pages up; the source is silent");
const PAGE_16K: Number = assumed(16384.0, "usual for the cell kind and fits the stated transfer time");

const DFTL: Preset = Preset {
    source: "DFTL (Gupta, Kim, Urgaonkar, ASPLOS 2009), Table 1",
    spare: spare_of_extra(0.03, "about 3% extra blocks, as a share of the whole"),
    ..FLASHSIM
};

const LSFTL: Preset = Preset {
    name: "lsftl-paper",
    summary: "LSFTL paper: FlashSim, 4 KiB pages, 4 GiB",
    source: "LSFTL (Li et al.), evaluation setup",
    notes: "The paper's device for Financial1 and Financial2, with a 64 KiB cache. The log-unit sweep 1 \
            to 7 needs nop=8.",
    order: ProgramOrder::Strict,
    read_us: paper(25.0),
    oob_read_us: assumed(0.0, "FlashSim charges no spare-area reads"),
    program_us: paper(200.0),
    partial_program_us: as_program(200.0),
    erase_us: paper(1500.0),
    page: paper(4096.0),
    oob: oob_usual(128.0),
    pages_per_block: derived(64.0, "256 KiB blocks of 4 KiB pages"),
    nop: assumed(4.0, "the log-unit threshold 3 is one full and three partial programs"),
    capacity: Some(paper((4u64 << 30) as f64)),
    spare: assumed(0.15 / 1.15, "15% extra space, as TPFTL of the same group; the paper is silent"),
    ..FLASHSIM
};

/// Every device, NAND parts and simulator defaults first, then the papers' devices.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "agrawal08",
        aliases: &["slc-k9wag08"],
        summary: "SLC drive of Agrawal et al. 2008: eight K9WAG08 packages, 4 KiB pages",
        source: "DiskSim SSD extension, ssdmodel/valid/ssd-postmark.parv",
        notes: "The default device. A package executes one command at a time, so it is one die here. The model moves \
                4 KiB in 102.4 µs (the paper says 100); our transfers include the spare area: 105.6 µs. The model \
                reserves 15% of the pages; copy-back, which it allows, is not used.",
        oob: assumed(128.0, "twice the part's 64 bytes per 2 KiB"),
        bus_mbps: derived(40.0, "25 ns per byte"),
        page: simulator(4096.0),
        blocks_per_die: Some(derived(16384.0, "8 planes of 2048 blocks")),
        channels: simulator(8.0),
        chips: derived(1.0, "one package per gang"),
        dies: derived(1.0, "one parallel unit per package"),
        planes: simulator(8.0),
        endurance: Some(assumed(100_000.0, "usual for SLC of 2008; the model states none")),
        ..SLC
    },
    Preset {
        name: "slc-k9xxg08uxm",
        summary: "Samsung K9K8G08U0M / K9W8G08U1M, 8 Gb SLC, 2005",
        source: "Samsung K9XXG08UXM datasheet rev. 1.0 (2005)",
        notes: "The later U0A and U1A revisions read in 25 µs.",
        read_us: datasheet_max(20.0),
        oob_read_us: array_time(20.0),
        program_us: assumed(200.0, "typical value of the family; not seen in the copy at hand"),
        erase_us: assumed(1500.0, "typical value of the family; not seen in the copy at hand"),
        bus_mbps: assumed(40.0, "25 ns per byte, the family's read cycle"),
        page: datasheet_typ(2048.0),
        oob: datasheet_typ(64.0),
        pages_per_block: datasheet_typ(64.0),
        blocks_per_die: Some(datasheet_typ(8192.0)),
        ..SLC
    },
    Preset {
        name: "slc-ssdsim",
        summary: "SSDsim's default SLC chip",
        source: "SSDsim page.parameters",
        notes: "The page is four 512-byte subpages in SSDsim. It collects garbage below 30% free pages.",
        read_us: simulator(20.0),
        oob_read_us: array_time(20.0),
        bus_mbps: derived(40.0, "25 ns per byte (tRC, tWC)"),
        blocks_per_die: Some(derived(4096.0, "2 planes of 2048 blocks")),
        dies: simulator(2.0),
        planes: simulator(2.0),
        spare: simulator(0.1),
        ..SLC
    },
    Preset {
        name: "slc-flashsim",
        summary: "Default chip of the C++ FlashSim",
        source: "flashsim ssd.conf",
        notes: "Not the FlashSim of the DFTL paper: see flashsim-release and dftl-paper.",
        program_us: simulator(300.0),
        partial_program_us: as_program(300.0),
        erase_us: simulator(2000.0),
        bus_mbps: rate(4096.0, 128.0, 12.0),
        page: assumed(4096.0, "as remembered; not seen in the copy at hand"),
        oob: oob_usual(128.0),
        endurance: Some(simulator(100_000.0)),
        ..SLC
    },
    Preset {
        name: "slc-pennstate",
        summary: "Constants in the released Penn State FlashSim, before division by sectors",
        source: "FlashSim release, ssd_interface.h",
        notes: "Read and program include the bus. The release charges a quarter of them per 512-byte sector, and only \
                once per page: see flashsim-release for what it really charged.",
        read_us: simulator(130.9),
        oob_read_us: derived(28.0, "25 µs array time and 64/2112 of the remaining 105.9 µs"),
        program_us: simulator(405.9),
        partial_program_us: as_program(405.9),
        bus_mbps: derived(0.0, "contained in read and program"),
        ..FLASHSIM
    },
    Preset {
        name: "slc-wiscsee",
        summary: "WiscSee's default SLC chip",
        source: "wiscsee config.py",
        notes: "Transfer cycles are zero by default. Other places of its configuration use 4096-byte pages.",
        read_us: simulator(20.0),
        oob_read_us: array_time(20.0),
        bus_mbps: simulator(0.0),
        ..SLC
    },
    Preset {
        name: "slc-mt29f4g08",
        summary: "Micron MT29F4G08AAA, 4 Gb SLC",
        source: "Micron MT29F4G08AAA datasheet",
        notes: "Ten years of retention.",
        read_us: datasheet_max(25.0),
        program_us: datasheet_typ(220.0),
        partial_program_us: as_program(220.0),
        erase_us: datasheet_typ(1500.0),
        bus_mbps: assumed(40.0, "25 ns per byte, usual for the interface; not seen in the copy at hand"),
        page: datasheet_typ(2048.0),
        oob: datasheet_typ(64.0),
        pages_per_block: datasheet_typ(64.0),
        endurance: Some(datasheet_typ(100_000.0)),
        ..SLC
    },
    Preset {
        name: "slc-femu",
        summary: "FEMU's SLC chip",
        source: "FEMU hw/femu/nand/nand.h",
        notes: "A program of 800 µs is slow for SLC; FEMU does not say where it has it from.",
        read_us: simulator(40.0),
        oob_read_us: array_time(40.0),
        program_us: simulator(800.0),
        partial_program_us: as_program(800.0),
        erase_us: simulator(2000.0),
        bus_mbps: rate(4096.0, 128.0, 20.0),
        page: assumed(4096.0, "FEMU's default elsewhere; nand.h has no page size"),
        oob: oob_usual(128.0),
        pages_per_block: simulator(512.0),
        ..SLC
    },
    Preset {
        name: "bbssd-femu-default",
        summary: "FEMU's black-box SSD as it starts without options: 8 channels of 8 chips",
        source: "FEMU femu.c properties",
        notes: "FEMU does not name a cell kind. It collects garbage from 75% and urgently from 95% full lines.",
        read_us: simulator(40.0),
        oob_read_us: array_time(40.0),
        erase_us: simulator(2000.0),
        page: simulator(4096.0),
        oob: oob_usual(128.0),
        pages_per_block: simulator(256.0),
        blocks_per_die: Some(simulator(256.0)),
        channels: simulator(8.0),
        chips: simulator(8.0),
        dies: ONE_UNUSED,
        planes: simulator(1.0),
        ..SLC
    },
    Preset {
        name: "mlc-mt29f64g08cbaaa",
        aliases: &["mlc-l74a"],
        summary: "Micron MT29F64G08CBAAA (L74A), 64 Gb MLC, 25 nm",
        source: "Micron MT29F64G08CBAAA datasheet rev. G (1/2014)",
        notes: "Revision A (2009) says 50, 1300 and 3000 µs and 5000 erases.",
        read_us: datasheet_max(75.0),
        oob_read_us: array_time(75.0),
        program_us: datasheet_typ(1300.0),
        partial_program_us: as_program(1300.0),
        erase_us: datasheet_typ(3800.0),
        bus_mbps: datasheet_max(200.0),
        page: datasheet_typ(8192.0),
        oob: datasheet_typ(448.0),
        pages_per_block: datasheet_typ(256.0),
        blocks_per_die: Some(derived(4096.0, "2 planes of 2048 blocks")),
        planes: datasheet_typ(2.0),
        endurance: Some(datasheet_typ(3000.0)),
        ..MLC
    },
    Preset {
        name: "mlc-mt29f64g08cbabx",
        aliases: &["mlc-l84"],
        summary: "Micron MT29F64G08CBAB (L84), 64 Gb MLC with read retry, 20 nm",
        source: "Micron MT29F64G08CBABx datasheet",
        notes: "",
        read_us: datasheet_max(100.0),
        oob_read_us: array_time(100.0),
        program_us: datasheet_typ(1300.0),
        partial_program_us: as_program(1300.0),
        erase_us: datasheet_typ(3000.0),
        bus_mbps: assumed(200.0, "fastest synchronous mode of ONFI 2.3, which the part names"),
        page: datasheet_typ(8192.0),
        oob: datasheet_typ(744.0),
        pages_per_block: datasheet_typ(256.0),
        planes: assumed(2.0, "as its predecessor L74A"),
        endurance: Some(datasheet_typ(3000.0)),
        ..MLC
    },
    Preset {
        name: "mlc-mt29f32g08cbaba",
        summary: "Micron MT29F32G08CBABA, 32 Gb MLC, 34 nm",
        source: "Micron MT29F32G08CBABA datasheet",
        notes: "",
        read_us: datasheet_max(50.0),
        oob_read_us: array_time(50.0),
        program_us: datasheet_typ(900.0),
        partial_program_us: as_program(900.0),
        erase_us: datasheet_typ(3000.0),
        bus_mbps: datasheet_max(166.0),
        page: datasheet_typ(4096.0),
        oob: datasheet_typ(224.0),
        pages_per_block: datasheet_typ(256.0),
        planes: assumed(2.0, "as the 64 Gb parts of the same maker"),
        endurance: Some(datasheet_typ(5000.0)),
        ..MLC
    },
    Preset {
        name: "mlc-mqsim-default",
        summary: "MQSim's default drive: geometry of L74A, faster programs, 8 channels of 4 chips of 2 dies",
        source: "MQSim ssdconfig.xml",
        notes: "One time for all page types. Its program of 750 µs is not the part's 1300. Planes execute commands to \
                the same page together. MQSim collects garbage below 5% free blocks.",
        read_us: simulator(75.0),
        oob_read_us: array_time(75.0),
        program_us: simulator(750.0),
        partial_program_us: as_program(750.0),
        erase_us: simulator(3800.0),
        suspend_us: Some([simulator(100.0), simulator(700.0)]),
        multi_plane: MultiPlane::Aligned,
        bus_mbps: simulator(333.0),
        page: simulator(8192.0),
        oob: simulator(448.0),
        pages_per_block: simulator(256.0),
        blocks_per_die: Some(derived(4096.0, "2 planes of 2048 blocks")),
        channels: simulator(8.0),
        chips: simulator(4.0),
        dies: simulator(2.0),
        planes: simulator(2.0),
        spare: simulator(0.07),
        endurance: Some(simulator(10_000.0)),
        ..MLC
    },
    Preset {
        name: "mlc-simplessd-default",
        summary: "SimpleSSD's default drive: 16 KiB MLC pages, 8 channels of 4 packages of 2 dies",
        source: "SimpleSSD config/sample.cfg, pal/config.cc",
        notes: "Read and program are means of lower and upper page: 40 and 65 µs, 500 and 1300 µs. The sample names \
                Micron's MT29F64 family. Currents: 25 mA busy, 5 mA idle, 10 µA standby at 3.3 V.",
        read_us: mean(SIMPLESSD_READ),
        read_types_us: SIMPLESSD_READ,
        oob_read_us: array_time(52.5),
        program_us: mean(SIMPLESSD_PROGRAM),
        program_types_us: SIMPLESSD_PROGRAM,
        partial_program_us: as_program(900.0),
        erase_us: simulator(3500.0),
        bus_mbps: simulator(400.0),
        page: simulator(16384.0),
        oob: OOB_16K,
        pages_per_block: simulator(512.0),
        blocks_per_die: Some(derived(1024.0, "2 planes of 512 blocks")),
        channels: simulator(8.0),
        chips: simulator(4.0),
        dies: simulator(2.0),
        planes: simulator(2.0),
        spare: simulator(0.25),
        ..MLC
    },
    Preset {
        name: "mlc-l95b",
        summary: "Micron L95B MLC as profiled in CNEX open-channel drives",
        source: "FEMU hw/femu/nand/nand.h",
        notes: "Read and program are means of lower and upper page: 48 and 64 µs, 850 and 2300 µs. FEMU pairs pages by \
                a table; here all pages take the mean.",
        read_us: mean(L95B_READ),
        read_types_us: L95B_READ,
        oob_read_us: array_time(56.0),
        program_us: mean(L95B_PROGRAM),
        program_types_us: L95B_PROGRAM,
        partial_program_us: as_program(1575.0),
        erase_us: measured(3000.0),
        bus_mbps: rate(16384.0, 2048.0, 52.433),
        page: PAGE_16K,
        oob: OOB_16K,
        pages_per_block: simulator(512.0),
        ..MLC
    },
    Preset {
        name: "mlc-970pro",
        paired: ONE_SHOT,
        summary: "Samsung 970 PRO as modelled by NVMeVirt: 32 KiB one-shot MLC, 8 channels of 2 LUNs",
        source: "NVMeVirt ssd_config.h, SAMSUNG_970PRO",
        notes: "Read is the mean of lower and upper page, 30.013 and 42.013 µs (29.76 and 41.76 for 4 KiB reads). An \
                erase costs nothing in the model: erase_us=3500 charges a usual one. Firmware and PCIe times of the \
                model are no flash times and left out.",
        read_us: mean(P970_READ),
        read_types_us: P970_READ,
        oob_read_us: array_time(36.013),
        program_us: tuned(185.0),
        partial_program_us: as_program(185.0),
        slc_us: slc_mode(25.0, 185.0, NOT_SLOWER),
        erase_us: NO_ERASE_TIME,
        bus_mbps: tuned(800.0),
        page: tuned(32768.0),
        oob: OOB_32K,
        pages_per_block: assumed(128.0, "8192 blocks in each of 16 LUNs then make 512 GiB"),
        blocks_per_die: Some(tuned(8192.0)),
        channels: tuned(8.0),
        chips: tuned(2.0),
        dies: ONE_UNUSED,
        planes: tuned(1.0),
        spare: spare_of_extra(0.07, EXTRA_7),
        ..MLC
    },
    Preset {
        name: "tlc-simplessd-paper",
        summary: "TLC chip of the SimpleSSD paper",
        source: "FEMU hw/femu/nand/nand.h, citing SimpleSSD (IEEE CAL)",
        notes: "Read and program are means of lower, centre and upper page: 56.5, 77.5, 106 µs and 820.5, 2225, 5734 \
                µs. In FEMU pages 0 to 5 are lower, 6 and 7 centre, then types alternate.",
        read_us: mean(TLC_READ),
        read_types_us: TLC_READ,
        oob_read_us: array_time(80.0),
        program_us: mean(TLC_PROGRAM),
        program_types_us: TLC_PROGRAM,
        partial_program_us: as_program(8779.5 / 3.0),
        erase_us: paper(3000.0),
        bus_mbps: rate(16384.0, 2048.0, 52.433),
        page: PAGE_16K,
        oob: OOB_16K,
        pages_per_block: simulator(512.0),
        ..TLC
    },
    Preset {
        name: "tlc-vnand48",
        summary: "Samsung 48-layer V-NAND TLC, 256 Gb die",
        source: "AnandTech, Samsung 983 ZET review, table from ISSCC",
        notes: VNAND,
        read_us: paper(45.0),
        oob_read_us: array_time(45.0),
        program_us: paper(660.0),
        partial_program_us: as_program(660.0),
        ..V_NAND
    },
    Preset {
        name: "tlc-vnand64",
        summary: "Samsung 64-layer V-NAND TLC, 512 Gb die",
        source: "AnandTech, Samsung 983 ZET review, table from ISSCC",
        notes: VNAND,
        read_us: paper(60.0),
        oob_read_us: array_time(60.0),
        program_us: paper(700.0),
        partial_program_us: as_program(700.0),
        ..V_NAND
    },
    Preset {
        name: "tlc-vnand9x",
        summary: "Samsung V-NAND TLC with more than 90 layers, 256 Gb die",
        source: "AnandTech, Samsung 983 ZET review, table from ISSCC",
        notes: VNAND,
        read_us: paper(50.0),
        oob_read_us: array_time(50.0),
        program_us: paper(500.0),
        partial_program_us: as_program(500.0),
        ..V_NAND
    },
    Preset {
        name: "tlc-zns-prototype",
        paired: ONE_SHOT,
        summary: "Zoned TLC prototype as modelled by NVMeVirt: 64 KiB pages, 8 channels of 16 LUNs",
        source: "NVMeVirt ssd_config.h, ZNS_PROTOTYPE",
        notes: "The model programs 128 KiB (192 KiB in the real device) in one shot of 1913.64 µs; page=128KiB, \
                program_us=1913.64 models that shot. A 4 KiB read takes 25.485 µs. An erase \
                costs nothing in the model.",
        read_us: tuned(40.95),
        oob_read_us: derived(25.485, "the model's time of a 4 KiB read"),
        program_us: derived(1913.64 / 2.0, "half of the one-shot program of two pages, 1913.64 µs"),
        partial_program_us: as_program(1913.64 / 2.0),
        erase_us: NO_ERASE_TIME,
        bus_mbps: tuned(800.0),
        page: tuned(65536.0),
        oob: OOB_64K,
        pages_per_block: derived(512.0, "the model's 32 MiB zone on one die"),
        channels: tuned(8.0),
        chips: tuned(16.0),
        dies: ONE_UNUSED,
        planes: ONE_UNUSED,
        ..TLC
    },
    Preset {
        name: "tlc-zn540",
        paired: ONE_SHOT,
        summary: "Western Digital ZN540 as modelled by NVMeVirt: 32 KiB pages, 8 channels of 4 LUNs",
        source: "NVMeVirt ssd_config.h, WD_ZN540",
        notes: "The model programs 96 KiB in one shot of 561 µs. A 4 KiB read takes 50 µs. An erase costs nothing in \
                the model.",
        read_us: tuned(58.0),
        oob_read_us: derived(50.0, "the model's time of a 4 KiB read"),
        program_us: derived(187.0, "a third of the one-shot program of three pages, 561 µs"),
        partial_program_us: as_program(187.0),
        slc_us: slc_mode(25.0, 187.0, NOT_SLOWER),
        erase_us: NO_ERASE_TIME,
        bus_mbps: tuned(450.0),
        page: tuned(32768.0),
        oob: OOB_32K,
        pages_per_block: derived(2048.0, "the model's 2 GiB zone over 32 dies"),
        channels: tuned(8.0),
        chips: tuned(4.0),
        dies: ONE_UNUSED,
        planes: ONE_UNUSED,
        ..TLC
    },
    Preset {
        name: "qlc-femu",
        summary: "QLC as extrapolated from TLC by FEMU",
        source: "FEMU hw/femu/nand/nand.h (before its QLC reads were measured)",
        notes: "Read and program are means of the four page types: 59.3, 85.3, 127.2, 169.6 µs and 861.5, 2447.5, \
                6880.8, 9174.4 µs. Later versions of FEMU have measured reads: 47.9, 76.2, 134.6, 228.1 µs, \
                mean 121.7.",
        cell: CellKind::Qlc,
        read_us: mean(QLC_READ),
        read_types_us: QLC_READ,
        oob_read_us: array_time(110.35),
        program_us: mean(QLC_PROGRAM),
        program_types_us: QLC_PROGRAM,
        partial_program_us: as_program(4841.05),
        erase_us: simulator(3000.0),
        bus_mbps: number((16384.0 + 2048.0) / 52.433, Origin::Assumed, "as FEMU's TLC: 52.433 µs per page"),
        page: PAGE_16K,
        oob: OOB_16K,
        pages_per_block: simulator(512.0),
        ..TLC
    },
    Preset {
        name: "znand-48l",
        summary: "Samsung Z-NAND, 48 layers, 64 Gb SLC die",
        source: "AnandTech, Samsung 983 ZET review, table from ISSCC 2018",
        notes: "Pages of 2 or 4 KiB; 4 KiB here. The erase time is not published.",
        read_us: paper(3.0),
        oob_read_us: array_time(3.0),
        program_us: paper(100.0),
        partial_program_us: as_program(100.0),
        erase_us: assumed(1000.0, "a fast SLC erase; not published"),
        bus_mbps: TOGGLE_RATE,
        page: paper(4096.0),
        oob: oob_usual(128.0),
        pages_per_block: assumed(256.0, "usual for 3D SLC; the source is silent"),
        ..SLC
    },
    Preset {
        name: "dftl-paper",
        aliases: &["dftl-large-block"],
        summary: "DFTL paper, large block: 2 KiB pages, read and program with bus",
        notes: "The paper simulates 32 GB, of which only an active region sized by the trace takes part, so no \
                capacity is fixed. The published FlashSim charges other times: see flashsim-release.",
        read_us: paper(130.9),
        oob_read_us: derived(28.0, "25 µs array time and 64/2112 of the remaining 105.9 µs; the paper gives none"),
        program_us: paper(405.9),
        partial_program_us: as_program(405.9),
        erase_us: paper(2000.0),
        bus_mbps: derived(0.0, "contained in read and program"),
        page: paper(2048.0),
        oob: derived(64.0, "4 KiB of spare bytes per block of 64 pages"),
        pages_per_block: derived(64.0, "128 KiB blocks of 2 KiB pages"),
        ..DFTL
    },
    Preset {
        name: "dftl-small-block",
        summary: "DFTL paper, small block: 512-byte pages, read and program with bus",
        notes: "In the paper's table only; its experiments use the large block.",
        read_us: paper(41.75),
        oob_read_us: derived(15.8, "15 µs array time and 16/528 of the remaining 26.75 µs; the paper gives none"),
        program_us: paper(226.75),
        partial_program_us: as_program(226.75),
        erase_us: paper(2000.0),
        bus_mbps: derived(0.0, "contained in read and program"),
        page: paper(512.0),
        oob: paper(16.0),
        pages_per_block: derived(32.0, "16 KiB blocks of 512-byte pages"),
        ..DFTL
    },
    Preset {
        name: "flashsim-release",
        summary: "What the released FlashSim charges, which is not the DFTL paper's table",
        source: "Penn State FlashSim release",
        notes: "A quarter of the paper's read and program times, charged once per 2 KiB page, and a shorter erase.",
        read_us: simulator(32.7),
        oob_read_us: simulator(0.0),
        program_us: simulator(101.5),
        partial_program_us: as_program(101.5),
        erase_us: simulator(1500.0),
        bus_mbps: derived(0.0, "contained in read and program"),
        ..DFTL
    },
    LSFTL,
    Preset {
        name: "lsftl-paper-8g",
        summary: "LSFTL paper: FlashSim, 4 KiB pages, 8 GiB",
        notes: "The paper's device for Cello99 and PC, with a 128 KiB cache. The log-unit sweep 1 to 7 needs nop=8.",
        capacity: Some(paper((8u64 << 30) as f64)),
        ..LSFTL
    },
    Preset {
        name: "scftl-paper",
        summary: "SCFTL paper: FlashSim, 8 KiB MLC pages, 8 GiB",
        source: "SCFTL (Thontirawong et al.), Table II",
        notes: "The table lists a 50 MB/s bus, but the paper's \"program is 17 times a read\" is 1300/75, so it was \
                not charged; bus_mbps=50 charges it. The 4096 blocks are the exported 8 GiB (512 translation pages \
                cover them), spare blocks come on top.",
        order: ProgramOrder::Strict,
        cell: CellKind::Mlc,
        paired: SHADOW,
        read_us: paper(75.0),
        oob_read_us: array_time(75.0),
        program_us: paper(1300.0),
        partial_program_us: as_program(1300.0),
        erase_us: paper(3800.0),
        bus_mbps: derived(0.0, "listed as 50 MB/s, not charged in the paper's results"),
        page: paper(8192.0),
        oob: paper(448.0),
        pages_per_block: paper(256.0),
        blocks_per_die: Some(paper(4096.0)),
        nop: NOP_ONE,
        slc_us: SLC_MODE,
        capacity: Some(paper((8u64 << 30) as f64)),
        spare: assumed(0.07 / 1.07, "7% extra space as a share of the whole; the paper is silent"),
        ..FLASHSIM
    },
    Preset {
        name: "thesis-80g",
        aliases: &["rose-paper"],
        summary: "Thesis on ROSE and HybridLog: 80 GiB of 2 KiB SLC pages",
        source: "A Study on the Design of High Performance Flash Translation Layers (2013), Table 5.1",
        notes: "655360 blocks in all. Exported are 78 GiB; the other 16384 blocks (2.5%) are the log area. Times are \
                sums without queueing, from the K9K4G08U0M datasheet with the bus inside. Order is any, for pages at \
                their own offset; order=strict is the thesis's device of Chapter 4.",
        read_us: paper(88.0),
        oob_read_us: derived(27.0, "25 µs array time and 64/2112 of the remaining 63 µs; the thesis gives none"),
        program_us: paper(263.0),
        partial_program_us: as_program(263.0),
        erase_us: paper(2000.0),
        bus_mbps: derived(0.0, "contained in read and program"),
        page: paper(2048.0),
        oob: derived(64.0, "the part's spare area"),
        pages_per_block: paper(64.0),
        blocks_per_die: Some(paper(655_360.0)),
        capacity: Some(derived(638_976.0 * 131_072.0, "655360 blocks less the log area's 16384")),
        spare: derived(0.025, "the log area: 16384 of 655360 blocks"),
        ..FLASHSIM
    },
    Preset {
        name: "ecc-paper",
        summary: "Differentiated-ECC paper: 8 KiB MLC pages, 4 channels of 2 packages",
        source: "Improving MLC Flash Performance with Workload-Aware Differentiated ECC (Xia et al.)",
        notes: "A page programmed with full effort is read with BCH, one programmed with low cost (twice the step) \
                with LDPC. Medium effort is for ecc=agcr, which the paper only describes. Capacity follows the \
                workload's address space.",
        read_us: paper(75.0),
        oob_read_us: array_time(75.0),
        program_us: paper(1300.0),
        partial_program_us: as_program(1300.0),
        erase_us: paper(3800.0),
        low_cost_us: Some([paper(140.0), paper(650.0)]),
        medium_us: Some([
            derived(107.5, "half way between a BCH and an LDPC read: fewer sensing levels than at twice the step"),
            derived(1300.0 / 1.5, "one and a half times the step: program time is inverse to it"),
        ]),
        page: paper(8192.0),
        oob: oob_usual(448.0),
        pages_per_block: derived(128.0, "1 MiB blocks of 8 KiB pages"),
        channels: paper(4.0),
        chips: paper(2.0),
        dies: assumed(1.0, "the paper queues commands per package"),
        ..MLC
    },
];

const VNAND: &str = "The table gives read and program times only.";

const V_NAND: Preset = Preset {
    paired: ONE_SHOT,
    erase_us: assumed(3000.0, "as the TLC of the SimpleSSD paper; the source is silent"),
    bus_mbps: TOGGLE_RATE,
    page: paper(16384.0),
    oob: OOB_16K,
    pages_per_block: BLOCKS_ASSUMED,
    planes: assumed(2.0, "usual for the generation; the source is silent"),
    ..TLC
};
