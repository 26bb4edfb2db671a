//! Ages of cells as a user gives them: what the model of cells needs to know of a device, and how far it is believed.

use crate::args::Retention;
use crate::error::CliError;
use crate::units;
use flash::device::{CellKind, Device};
use reliability::cells::{Age, Cells, Mode, PageType};

/// Raw bit error rate beyond which states overlap so far that read levels would have to move.
const MOST_RBER: f64 = 0.05;

/// P/E cycles that a device endures.
///
/// # Errors
/// Its cells are not those of the model, or it does not say.
pub(crate) fn endurance(device: &Device) -> Result<u32, CliError> {
    let name = &device.name;
    if device.geometry.bits_per_cell != CellKind::Mlc.bits() {
        return Err(CliError::new(format_args!(
            "{name} has {} cells; the model knows MLC cells, of two bits: take an MLC device, such as \
             mlc-mt29f64g08cbaaa (ftlab devices lists them)",
            CellKind::ALL[device.geometry.bits_per_cell as usize - 1].name()
        )));
    }
    device.endurance.ok_or_else(|| {
        CliError::new(format_args!(
            "{name} does not say how many erases a block endures: add it, as in --device {name}:endurance=3000"
        ))
    })
}

/// Raw bit error rates of both page types, in their order.
///
/// # Errors
/// The model does not hold at this age: the bound, or the sum.
pub(crate) fn error_rates(mode: Mode, age: &Age) -> Result<[f64; 2], CliError> {
    let Age { pe_cycles, endurance, retention_h, reads } = *age;
    let retention = Retention(retention_h);
    let most = Age::MOST_LIVES.saturating_mul(endurance);
    if pe_cycles > most {
        return Err(CliError::new(format_args!(
            "{pe_cycles} P/E cycles: the model holds up to {} x the endurance of {endurance} = {most} cycles",
            Age::MOST_LIVES
        )));
    }
    if retention_h > Age::MOST_RETENTION_H {
        return Err(CliError::new(format_args!(
            "--retention {retention}: the model holds up to {}",
            Retention(Age::MOST_RETENTION_H)
        )));
    }
    if reads > Age::MOST_READS {
        return Err(CliError::new(format_args!(
            "--reads {reads}: the model holds up to {}",
            units::whole(Age::MOST_READS)
        )));
    }
    let cells = Cells::new(mode, age);
    let rates @ [lsb, msb] = PageType::ALL.map(|page| cells.page_rber(page));
    if cells.rber() > MOST_RBER {
        return Err(CliError::new(format_args!(
            "{} programs, {pe_cycles} cycles, {retention}, {reads} reads: the raw bit error rate is ({} LSB + {} MSB) \
             / 2 = {}, beyond the model's {MOST_RBER}: take fewer cycles, a shorter time or fewer reads",
            mode.name(),
            units::number(lsb),
            units::number(msb),
            units::number(cells.rber())
        )));
    }
    Ok(rates)
}
