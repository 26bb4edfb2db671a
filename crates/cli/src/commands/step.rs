//! `ftlab step`: a few operations on a tiny device, told command by command.

use super::Ended;
use crate::args::StepArgs;
use crate::error::CliError;
use flash::Geometry;
use ftl::schemes::{SCHEMES, by_name};
use sim::check::step::{StepConfig, tell};
use std::io::Write;

/// Tells what the scheme does.
///
/// # Errors
/// A scheme that is unknown, a device that it refuses, a step that cannot be done.
pub(super) fn step(args: &StepArgs, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    if by_name(&args.scheme).is_none() {
        return Err(CliError::unknown("scheme", &args.scheme, SCHEMES.iter().map(|row| row.name)));
    }
    // Pages are as small as they can be, with 128 entries to a translation page. They take eight programs, so that
    // schemes which log into pages can be watched too.
    let geometry = Geometry { page_bytes: 512, nop: 8, ..Geometry::default() };
    let geometry = Geometry { dies: args.dies, blocks_per_die: args.blocks, pages_per_block: args.pages, ..geometry };
    let (scheme, settings) = (args.scheme.clone(), args.set.clone());
    let config = StepConfig { scheme, settings, geometry, logical_pages: args.logical_pages };
    let all = |words: &[crate::args::Steps]| words.iter().flat_map(|steps| steps.0.clone()).collect::<Vec<_>>();
    let (setup, steps) = (all(&args.setup), all(&args.steps));
    let lines = tell(&config, &[&setup[..], &steps].concat(), setup.len()).map_err(CliError::new)?;
    crate::print(stdout, &format!("{}\n", lines.join("\n")))?;
    Ok(Ended::Done)
}
