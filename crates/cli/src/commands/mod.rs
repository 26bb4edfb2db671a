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

use crate::args::{Command, CompareArgs, ImageCommand, TraceCommand};
use crate::error::CliError;
use crate::experiment_file;
use crate::output;
use crate::progress;
use std::io::{self, Write};
use std::path::PathBuf;

/// How a command that met no error ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It did what was asked.
    Done,
    /// It found something wrong, or had nothing left to measure; what is printed.
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
    let mut text = people(&files(&command), stdout);
    let stdout = &mut *text;
    match command {
        Command::Compare(args) => experiment::compare(&args, progress::interrupt_flag()?.as_ref(), stdout),
        Command::Run(run) => {
            let file = experiment_file::load(&run.file)?;
            let mut text = people(&reports(&file.args), stdout);
            let compared = experiment::compare(&file.args, progress::interrupt_flag()?.as_ref(), &mut *text);
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

/// Where text for people goes: standard output, or standard error if one of the files is standard output.
fn people<'a>(files: &[&PathBuf], stdout: &'a mut dyn Write) -> Box<dyn Write + 'a> {
    if files.iter().any(|file| output::is_stdout(file)) { Box::new(io::stderr()) } else { Box::new(stdout) }
}

/// The files that a command line has written.
fn files(command: &Command) -> Vec<&PathBuf> {
    match command {
        Command::Compare(args) => reports(args),
        Command::Reproduce(args) => [&args.json, &args.csv, &args.html].into_iter().flatten().collect(),
        Command::Image(args) => match &args.command {
            ImageCommand::Info(args) | ImageCommand::Verify(args) => args.json.iter().collect(),
            ImageCommand::Create(_) | ImageCommand::Age(_) => Vec::new(),
        },
        Command::Serve(args) => args.json.iter().chain(&args.capture).collect(),
        Command::Trace(args) => match &args.command {
            TraceCommand::Info(args) => args.json.iter().collect(),
            TraceCommand::Convert(args) => vec![&args.output],
            TraceCommand::Generate(args) => vec![&args.output],
            TraceCommand::Head(_) => Vec::new(),
        },
        Command::Recordings(args) => args.json.iter().collect(),
        Command::Reliability(args) => [&args.json, &args.alist, &args.derive_latencies].into_iter().flatten().collect(),
        // An experiment names its files itself.
        Command::Run(_) | Command::Check(_) | Command::Step(_) => Vec::new(),
        Command::Schemes(_) | Command::Devices(_) | Command::Reference(_) => Vec::new(),
    }
}

fn reports(args: &CompareArgs) -> Vec<&PathBuf> {
    [&args.json, &args.csv, &args.parquet, &args.html, &args.per_request].into_iter().flatten().collect()
}
