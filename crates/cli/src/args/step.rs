//! `ftlab step`.

use super::{parse_name, parse_pair};
use clap::Args;
use sim::check::step::{self, Step};

/// Steps of one word of the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Steps(pub Vec<Step>);

fn parse_steps(word: &str) -> Result<Steps, String> {
    step::parse(word).map(Steps).map_err(|error| error.0)
}

fn parse_pages(word: &str) -> Result<u32, String> {
    let pages = word.parse().ok().filter(|pages: &u32| pages.is_power_of_two() && (2..=1024).contains(pages));
    pages.ok_or_else(|| "give a power of two from 2 to 1024".to_owned())
}

/// `ftlab step`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(after_help = "Steps:\n  \
    write:PAGES, read:PAGES, discard:PAGES   7 is one page, 0-7 one request of eight pages,\n  \
    \u{20}                                        3,5,0-1 three requests\n  \
    flush, idle:COPIES                       what a host may ask beside that\n  \
    cut:COMMAND[.FACE]                       power fails at this program or erase of the next\n  \
    \u{20}                                        step, from 0; FACE says what is left of it: 0 to 3\n  \
    \u{20}                                        of a program, 0 to 5 of an erase\n  \
    \u{20}                                        (docs/fault-model.md)\n  \
    mount                                    power is back: the scheme is rebuilt from flash\n  \
    show                                     what every block holds\n\n\
    Examples:\n  \
    ftlab step simple write:0 write:0 show\n      two programs, and a dead page\n  \
    ftlab step simple --setup write:0-7 cut:0.1 write:3 show mount read:3\n      \
    a program that power interrupted, and what the mount makes of it")]
pub struct StepArgs {
    /// Scheme to watch
    #[arg(value_name = "SCHEME", value_parser = parse_name)]
    pub scheme: String,

    /// What to do, in order
    #[arg(value_name = "STEP", required = true, value_parser = parse_steps)]
    pub steps: Vec<Steps>,

    /// Steps to do first, without a word about them (repeatable)
    #[arg(long, value_name = "STEP", value_parser = parse_steps)]
    pub setup: Vec<Steps>,

    /// Set a parameter of the scheme (repeatable); `ftlab schemes NAME` lists them
    #[arg(long, value_name = "PARAM=VALUE", value_parser = parse_pair)]
    pub set: Vec<(String, String)>,

    /// Blocks of each die
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub blocks: u32,

    /// Pages of each block, a power of two
    #[arg(long, value_name = "N", default_value = "4", value_parser = parse_pages)]
    pub pages: u32,

    /// Dies
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub dies: u32,

    /// Logical pages [default: as many as the scheme takes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub logical_pages: Option<u32>,
}
