//! The commands, each in its file.

mod check;
pub mod compare;
pub mod experiment;
mod image;
pub mod recordings;
mod reference;
pub mod reliability;
pub mod reproduce;
mod serve;
mod step;
mod tables;
mod trace;

use crate::args::Command;
use crate::error::CliError;
use crate::experiment_file;
use crate::progress;
use std::io::Write;

/// How a command that met no error ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It did what was asked.
    Done,
    /// It checked, and found something wrong; what is printed.
    Failed,
    /// The user stopped it; what was finished is printed.
    Interrupted,
}

impl Ended {
    /// What the process exits with.
    pub fn exit_code(self) -> u8 {
        match self {
            Ended::Done => 0,
            Ended::Failed => 1,
            Ended::Interrupted => 130,
        }
    }
}

/// Does what the command line asks for.
///
/// # Errors
/// The first thing that is wrong, in one line for the user.
pub fn dispatch(command: Command, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    match command {
        Command::Compare(args) => experiment::compare(&args, progress::interrupt_flag()?.as_ref(), stdout),
        Command::Run(run) => {
            let file = experiment_file::load(&run.file)?;
            let compared = experiment::compare(&file.args, progress::interrupt_flag()?.as_ref(), stdout);
            compared.map_err(|error| file.place(error))
        }
        Command::Reproduce(args) => reproduce::reproduce(&args, progress::interrupt_flag()?.as_ref(), stdout),
        Command::Check(args) => check::check(&args, progress::interrupt_flag()?.as_ref(), stdout),
        Command::Step(args) => step::step(&args, stdout),
        Command::Image(args) => image::image(&args.command, stdout),
        Command::Serve(args) => serve::serve(&args, stdout),
        Command::Trace(args) => {
            progress::leave_nothing_at_interrupt()?;
            trace::trace(&args.command, stdout)
        }
        Command::Recordings(args) => {
            progress::leave_nothing_at_interrupt()?;
            recordings::recordings(&args, stdout)
        }
        Command::Reliability(args) => {
            progress::leave_nothing_at_interrupt()?;
            reliability::reliability(&args, stdout)
        }
        Command::Schemes(args) => tables::schemes(&args, stdout),
        Command::Reference(args) => reference::reference(&args, stdout),
        Command::Devices(args) => tables::devices(args.name.as_deref(), stdout),
    }
}
