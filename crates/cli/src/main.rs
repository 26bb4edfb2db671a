//! The `ftlab` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    let (mut stdout, mut stderr) = (std::io::stdout(), std::io::stderr());
    ExitCode::from(ftlab_cli::run(std::env::args_os(), &mut stdout, &mut stderr, ftlab_cli::commands::dispatch))
}
