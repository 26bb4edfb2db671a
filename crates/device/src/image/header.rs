//! The header: what the chip is, and which scheme lives on it. Written once, in two copies, never changed.
//!
//! A fixed head (magic, format version, length, checksum) and lines of text, so that `head -c 4096` of an image tells a
//! person what it is. The magic has the bytes that a transfer as text would change.

use super::layout::UNIT;
use flash::device::{CellTimes, Device, Features, PageTimes, Server, Timing};
use flash::{Geometry, Pairing, ProgramOrder};
use reliability::CodeSpec;

/// What every image begins with.
pub(super) const MAGIC: &[u8; 16] = b"ftlab image\r\n\x1a\n\0";
/// The version of the format that this code writes, and the latest that it reads. In version 1 records have no
/// error-correcting code, and no more have data. In version 3 pages share cells, and blocks are a guard's.
pub(super) const VERSION: u32 = 3;
const HEAD: usize = 28;

/// What an image is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    /// The chip, its times, and how many pages the scheme exports.
    pub device: Device,
    /// The scheme's name.
    pub scheme: String,
    /// All its parameters, name and text.
    pub settings: Vec<(String, String)>,
    /// The error-correcting code, if there is one.
    pub ecc: Option<CodeSpec>,
}

/// What is wrong with a header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// It is none.
    Foreign,
    /// It is of a later format.
    Newer(u32),
    /// It is one, of an error-correcting code that is not known.
    Code(String),
    /// It is one, but not as it was written.
    Damaged,
}

impl Spec {
    fn text(&self) -> String {
        // What chips can do where commands queue is not kept: a served image places them as they are issued.
        let Device {
            name,
            geometry: g,
            timing: t,
            server,
            logical_pages,
            spare,
            endurance,
            features: _,
            barriers: _,
            paired: _,
        } = &self.device;
        let mut text = format!(
            "\nscheme={}\ndevice={name}\nlogical_pages={logical_pages}\nspare={spare}\nchannels={}\nchips={}\n\
             dies={}\nplanes={}\nblocks_per_die={}\npages_per_block={}\npage_bytes={}\noob_bytes={}\norder={}\nnop={}\n\
             server={}\nread_ns={}\noob_read_ns={}\nprogram_ns={}\npartial_program_ns={}\nerase_ns={}\n\
             page_transfer_ns={}\noob_transfer_ns={}\n",
            self.scheme,
            g.channels,
            g.chips,
            g.dies,
            g.planes,
            g.blocks_per_die,
            g.pages_per_block,
            g.page_bytes,
            g.oob_bytes,
            g.order.name(),
            g.nop,
            server.name(),
            t.read_ns,
            t.oob_read_ns,
            t.program_ns,
            t.partial_program_ns,
            t.erase_ns,
            t.page_transfer_ns,
            t.oob_transfer_ns,
        );
        // Cells of one bit have no SLC mode.
        if g.bits_per_cell > 1 {
            text += &format!(
                "bits_per_cell={}\nslc_nop={}\nslc_read_ns={}\nslc_oob_read_ns={}\nslc_program_ns={}\n\
                 slc_partial_program_ns={}\nslc_erase_ns={}\n",
                g.bits_per_cell,
                g.slc_nop,
                t.slc.read_ns,
                t.slc.oob_read_ns,
                t.slc.program_ns,
                t.slc.partial_program_ns,
                t.slc.erase_ns,
            );
        }
        if g.pairs != Pairing::Off {
            text += &format!("paired={}\n", g.pairs.name());
        }
        // Pages programmed with less effort take other times on few devices.
        for (name, page) in [("low_cost", t.low_cost), ("medium", t.medium)] {
            if page != (PageTimes { read_ns: t.read_ns, program_ns: t.program_ns }) {
                text += &format!("{name}_read_ns={}\n{name}_program_ns={}\n", page.read_ns, page.program_ns);
            }
        }
        if let Some(endurance) = endurance {
            text += &format!("endurance={endurance}\n");
        }
        if let Some(ecc) = &self.ecc {
            text += &format!("ecc={ecc}\n");
        }
        for (name, value) in &self.settings {
            text += &format!("set.{name}={value}\n");
        }
        text
    }

    /// All but the code.
    fn read(text: &str) -> Option<Spec> {
        let lines: Vec<(&str, &str)> =
            text.lines().filter(|line| !line.is_empty()).map(|line| line.split_once('=')).collect::<Option<_>>()?;
        let get = |key: &str| lines.iter().find(|(name, _)| *name == key).map(|&(_, value)| value);
        let count = |key: &str| get(key)?.parse::<u32>().ok();
        let ns = |key: &str| get(key)?.parse::<u64>().ok();
        let orders = [ProgramOrder::Any, ProgramOrder::Ascending, ProgramOrder::Strict];
        let servers = [Server::Single, Server::Parallel];
        let cells = |prefix: &str| {
            let ns = |key: &str| ns(&format!("{prefix}{key}"));
            Some(CellTimes {
                read_ns: ns("read_ns")?,
                oob_read_ns: ns("oob_read_ns")?,
                program_ns: ns("program_ns")?,
                partial_program_ns: ns("partial_program_ns")?,
                erase_ns: ns("erase_ns")?,
            })
        };
        let bits_per_cell = if get("bits_per_cell").is_some() { count("bits_per_cell")? } else { 1 };
        let defaults = Geometry::default();
        let geometry = Geometry {
            channels: count("channels")?,
            chips: count("chips")?,
            dies: count("dies")?,
            planes: count("planes")?,
            blocks_per_die: count("blocks_per_die")?,
            pages_per_block: count("pages_per_block")?,
            page_bytes: count("page_bytes")?,
            oob_bytes: count("oob_bytes")?,
            order: orders.into_iter().find(|order| Some(order.name()) == get("order"))?,
            nop: count("nop")?,
            bits_per_cell,
            slc_nop: if bits_per_cell > 1 { count("slc_nop")? } else { defaults.slc_nop },
            pairs: match get("paired") {
                None => Pairing::Off,
                Some(word) => Pairing::ALL.into_iter().find(|order| order.name() == word)?,
            },
            ..defaults
        };
        let CellTimes { read_ns, oob_read_ns, program_ns, partial_program_ns, erase_ns } = cells("")?;
        let page = |name: &str| match get(&format!("{name}_read_ns")) {
            None => Some(PageTimes { read_ns, program_ns }),
            Some(_) => Some(PageTimes {
                read_ns: ns(&format!("{name}_read_ns"))?,
                program_ns: ns(&format!("{name}_program_ns"))?,
            }),
        };
        let timing = Timing {
            read_ns,
            oob_read_ns,
            program_ns,
            partial_program_ns,
            erase_ns,
            slc: cells(if bits_per_cell > 1 { "slc_" } else { "" })?,
            low_cost: page("low_cost")?,
            medium: page("medium")?,
            page_transfer_ns: ns("page_transfer_ns")?,
            oob_transfer_ns: ns("oob_transfer_ns")?,
        };
        let device = Device {
            name: get("device")?.to_owned(),
            geometry: geometry.checked().ok()?,
            timing,
            server: servers.into_iter().find(|server| Some(server.name()) == get("server"))?,
            logical_pages: count("logical_pages")?,
            spare: get("spare")?.parse().ok()?,
            endurance: count("endurance"),
            features: Features::default(),
            barriers: false,
            paired: geometry.pairs,
        };
        let settings = lines
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix("set.")?.to_owned(), (*value).to_owned())))
            .collect();
        Some(Spec { device, scheme: get("scheme")?.to_owned(), settings, ecc: None })
    }

    /// The format of a new image: the oldest that can say it all.
    pub(super) fn format(&self) -> u32 {
        if self.device.geometry.pairs == Pairing::Off { 2 } else { VERSION }
    }

    /// One copy for an image of a format, [`UNIT`] bytes; `None` if the text does not fit.
    pub(super) fn encode(&self, format: u32) -> Option<Vec<u8>> {
        let text = self.text();
        let mut out = Vec::with_capacity(UNIT as usize);
        out.extend(MAGIC);
        out.extend(format.to_le_bytes());
        out.extend((text.len() as u32).to_le_bytes());
        out.extend([0; 4]);
        out.extend(text.as_bytes());
        let crc = check(&out);
        out[24..HEAD].copy_from_slice(&crc.to_le_bytes());
        (out.len() <= UNIT as usize).then(|| {
            out.resize(UNIT as usize, 0);
            out
        })
    }

    /// Reads one copy; the format with it.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Spec, u32), Fault> {
        let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("a header is longer"));
        if bytes.len() < HEAD || &bytes[..16] != MAGIC {
            return Err(Fault::Foreign);
        }
        // A later format may put anything behind its version: nothing of it is judged.
        let format = word(16);
        match format {
            0 => return Err(Fault::Damaged),
            version if version > VERSION => return Err(Fault::Newer(version)),
            _ => {}
        }
        let length = HEAD + word(20) as usize;
        if length > bytes.len() || bytes[length..].iter().any(|&byte| byte != 0) {
            return Err(Fault::Damaged);
        }
        if check(&bytes[..length]) != word(24) {
            return Err(Fault::Damaged);
        }
        let text = std::str::from_utf8(&bytes[HEAD..length]).map_err(|_| Fault::Damaged)?;
        let code = text.lines().find_map(|line| line.strip_prefix("ecc="));
        let ecc = code.map(|code| code.parse().map_err(|_| Fault::Code(code.to_owned()))).transpose()?;
        if ecc.is_some() && format == 1 {
            return Err(Fault::Damaged);
        }
        Ok((Spec { ecc, ..Spec::read(text).ok_or(Fault::Damaged)? }, format))
    }
}

/// The checksum over everything but its own field.
fn check(bytes: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[..24]);
    crc.update(&bytes[HEAD..]);
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash::Mode;
    use flash::device::{Overrides, by_name};
    use proptest::prelude::*;

    fn spec() -> Spec {
        let overrides = Overrides { capacity: Some(1 << 30), spare: Some(0.125), ..Overrides::default() };
        let device = by_name("agrawal08").unwrap().build(&overrides).unwrap();
        Spec { device, scheme: "dftl".into(), settings: vec![("gc".into(), "greedy".into())], ecc: None }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = spec().encode(2).unwrap();
        assert_eq!(bytes.len(), UNIT as usize);
        assert_eq!(Spec::decode(&bytes), Ok((spec(), 2)));
        assert_eq!(Spec::decode(&spec().encode(1).unwrap()), Ok((spec(), 1)));
        assert!(String::from_utf8_lossy(&bytes).contains("\nscheme=dftl\ndevice=agrawal08\n"));
    }

    #[test]
    fn a_code_is_read_as_it_was_written() {
        for code in ["bch:t=8,data=512", "ldpc:parity=192,data=4096"] {
            let spec = Spec { ecc: Some(code.parse().unwrap()), ..spec() };
            let bytes = spec.encode(2).unwrap();
            assert!(String::from_utf8_lossy(&bytes).contains(&format!("\necc={code}\n")));
            assert_eq!((bytes[16], Spec::decode(&bytes)), (2, Ok((spec, 2))));
        }
    }

    #[test]
    fn a_device_with_an_slc_mode_is_read_as_it_was_written() {
        let overrides = Overrides { capacity: Some(1 << 30), slc_nop: Some(8), ..Overrides::default() };
        let device = by_name("mlc-mt29f64g08cbaaa").unwrap().build(&overrides).unwrap().guarded().unwrap();
        assert_ne!(device.timing.slc, device.timing.cells(Mode::Normal));
        let spec = Spec { device, ..spec() };
        assert_eq!(Spec::decode(&spec.encode(2).unwrap()), Ok((spec, 2)));
    }

    #[test]
    fn a_device_with_modes_of_its_own_is_read_as_it_was_written() {
        let overrides = Overrides { capacity: Some(1 << 30), medium_read_us: Some(80.0), ..Overrides::default() };
        let device = by_name("ecc-paper").unwrap().build(&overrides).unwrap().guarded().unwrap();
        let spec = Spec { device, ..spec() };
        let bytes = spec.encode(2).unwrap();
        assert!(String::from_utf8_lossy(&bytes).contains("\nlow_cost_read_ns=140000\nlow_cost_program_ns=650000\n"));
        assert_eq!(Spec::decode(&bytes), Ok((spec, 2)));
    }

    #[test]
    fn a_device_whose_pages_share_cells_is_read_as_it_was_written() {
        let overrides = Overrides { capacity: Some(1 << 30), ..Overrides::default() };
        let device = by_name("mlc-mt29f64g08cbaaa").unwrap().build(&overrides).unwrap();
        let spec = Spec { device: device.guarded().unwrap(), ..spec() };
        let bytes = spec.encode(spec.format()).unwrap();
        assert!(String::from_utf8_lossy(&bytes).contains("\npaired=shadow\n"));
        assert_eq!(Spec::decode(&bytes), Ok((spec, 3)));
    }

    #[test]
    fn a_later_format_is_told_from_a_foreign_file() {
        let mut bytes = spec().encode(2).unwrap();
        bytes[16] = 4;
        bytes[100] ^= 1;
        assert_eq!(Spec::decode(&bytes), Err(Fault::Newer(4)));
        assert_eq!(Spec::decode(b"#!/bin/sh"), Err(Fault::Foreign));
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_found(at in 0..UNIT as usize, change in 1..=255u8) {
            let mut bytes = spec().encode(2).unwrap();
            bytes[at] ^= change;
            prop_assert!(Spec::decode(&bytes).is_err());
        }
    }
}
