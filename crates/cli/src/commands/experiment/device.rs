//! The device of a comparison: the one that the user named, and its keys as a report lists them.

use crate::error::CliError;
use flash::Pairing;
use flash::device::{CellKind, Device, MultiPlane, PageTimes, Suspend};
use sim::device::DeviceSpec;
use sim::report::Fields;
use std::path::Path;

/// The device of a compare that names none.
const DEFAULT_DEVICE: &str = "agrawal08:page=4KiB,spare=12.5%";

/// The least capacity of a device that is sized by its workload, in bytes.
const LEAST_BYTES: u64 = 64 << 20;

/// Spare blocks on every die of such a device at the least: every scheme has room to collect there.
const LEAST_SPARE_BLOCKS: f64 = 9.0;

/// The device that the user named.
pub(crate) fn device_spec(device: Option<&str>) -> Result<DeviceSpec, CliError> {
    let text = device.unwrap_or(DEFAULT_DEVICE);
    let is_toml = |name: &str| Path::new(name).extension().is_some_and(|extension| extension == "toml");
    if let Some((name, keys)) = text.split_once(':').filter(|(name, _)| is_toml(name)) {
        let what = format!("a file takes no keys behind it ({keys}): write them into {name}");
        return Err(CliError::new(format_args!("--device {text}: {what}")));
    }
    if !is_toml(text) {
        return text.parse().map_err(CliError::new);
    }
    let contents = crate::experiment_file::text(Path::new(text))?;
    DeviceSpec::from_toml(text, &contents).map_err(CliError::new)
}

/// The least capacity that leaves every scheme room on devices like this one.
pub(super) fn least_bytes(device: &Device) -> u64 {
    let g = &device.geometry;
    let blocks_per_die = (LEAST_SPARE_BLOCKS * (1.0 - device.spare) / device.spare).ceil() as u64;
    let block_bytes = u64::from(g.pages_per_block) * u64::from(g.page_bytes);
    (blocks_per_die * u64::from(g.die_count()) * block_bytes).next_power_of_two().max(LEAST_BYTES)
}

/// The device as the run has it.
pub(in crate::commands) fn device_fields(device: &Device) -> Fields {
    let (g, t) = (&device.geometry, &device.timing);
    let us = |ns: u64| serde_json::Value::from(ns as f64 / 1e3);
    let mut fields = Fields::from([
        ("name".to_owned(), device.name.as_str().into()),
        ("capacity".to_owned(), (u64::from(device.logical_pages) * u64::from(g.page_bytes)).into()),
        ("spare".to_owned(), device.spare.into()),
        ("page".to_owned(), g.page_bytes.into()),
        ("oob".to_owned(), g.oob_bytes.into()),
        ("pages_per_block".to_owned(), g.pages_per_block.into()),
        ("blocks_per_die".to_owned(), g.blocks_per_die.into()),
        ("channels".to_owned(), g.channels.into()),
        ("chips".to_owned(), g.chips.into()),
        ("dies".to_owned(), g.dies.into()),
        ("planes".to_owned(), g.planes.into()),
        ("order".to_owned(), g.order.name().into()),
        ("nop".to_owned(), g.nop.into()),
        ("cell".to_owned(), CellKind::ALL[g.bits_per_cell as usize - 1].word().into()),
        ("server".to_owned(), device.server.name().into()),
        ("read_us".to_owned(), us(t.read_ns)),
        ("oob_read_us".to_owned(), us(t.oob_read_ns)),
        ("program_us".to_owned(), us(t.program_ns)),
        ("partial_program_us".to_owned(), us(t.partial_program_ns)),
        ("erase_us".to_owned(), us(t.erase_ns)),
        ("page_transfer_us".to_owned(), us(t.page_transfer_ns)),
        ("oob_transfer_us".to_owned(), us(t.oob_transfer_ns)),
    ]);
    if g.bits_per_cell > 1 {
        fields.extend([
            ("slc_pages".to_owned(), g.slc_pages().into()),
            ("slc_nop".to_owned(), g.slc_nop.into()),
            ("slc_read_us".to_owned(), us(t.slc.read_ns)),
            ("slc_program_us".to_owned(), us(t.slc.program_ns)),
            ("slc_partial_program_us".to_owned(), us(t.slc.partial_program_ns)),
            ("slc_erase_us".to_owned(), us(t.slc.erase_ns)),
        ]);
    }
    for (name, page) in [("low_cost", t.low_cost), ("medium", t.medium)] {
        if page != (PageTimes { read_ns: t.read_ns, program_ns: t.program_ns }) {
            fields.insert(format!("{name}_read_us"), us(page.read_ns));
            fields.insert(format!("{name}_program_us"), us(page.program_ns));
        }
    }
    let features = device.features;
    if let Some(Suspend { program_ns, erase_ns, resume_ns, most }) = features.suspend {
        fields.extend([
            ("suspend_program_us".to_owned(), us(program_ns)),
            ("suspend_erase_us".to_owned(), us(erase_ns)),
            ("resume_us".to_owned(), us(resume_ns)),
            ("suspends".to_owned(), most.into()),
        ]);
    }
    if features.multi_plane != MultiPlane::Off {
        fields.insert("multi_plane".to_owned(), features.multi_plane.name().into());
    }
    for (key, on) in [
        ("copy_back", features.copy_back),
        ("cache_read", features.cache_read),
        ("cache_program", features.cache_program),
        ("barriers", device.barriers),
    ] {
        if on {
            fields.insert(key.to_owned(), "on".into());
        }
    }
    if g.pairs != Pairing::Off {
        fields.insert("paired".to_owned(), g.pairs.name().into());
    }
    if let Some(endurance) = device.endurance {
        fields.insert("endurance".to_owned(), endurance.into());
    }
    fields
}
