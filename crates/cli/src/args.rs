//! The command line: one table of commands and flags, from which help, experiment files and checks follow.
//!
//! Values are checked here as far as their own form goes (a size is a size, a fill is one of five words). Names of
//! schemes, policies, devices and parameters are checked when a plan is made (`commands::compare`), against the tables
//! of the crates that own them.

use crate::error::CliError;
use clap::builder::Styles;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use reliability::CodeSpec;
use reliability::cells::Retention;
use sim::check::{Faults, Replay};
use sim::units::parse_count;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

mod reference;
mod step;
mod values;
pub use reference::ReferenceArgs;
pub use step::{StepArgs, Steps};
pub(crate) use values::parse_buffer;
pub use values::{
    Buffer, Cuts, Fill, Host, OnError, OutOfRange, Partial, Rhythm, Scheduler, Seeds, Setting, Timing, Until, Volumes,
};
use values::{
    parse_cache, parse_code, parse_cycles, parse_factor, parse_interval_ns, parse_mode, parse_name, parse_pair,
    parse_pause_ns, parse_positive_count, parse_rber, parse_retention, parse_seed, parse_threads,
};

/// The whole command line.
#[derive(Parser, Clone, Debug, PartialEq)]
#[command(
    name = "ftlab",
    version,
    styles = Styles::plain(),
    max_term_width = 100,
    disable_help_subcommand = true,
    about = "A laboratory for flash translation layers (FTLs)",
    long_about = "A laboratory for flash translation layers (FTLs).\n\n\
        Runs published FTL schemes, written as real code against one flash interface, under block traces: what did \
        each flash command cost, and what was it for?",
    after_help = "Begin with:\n  \
        ftlab compare                           three schemes on a recorded mail server, in seconds\n  \
        ftlab compare my.trace.zst --verbose    your own trace; its format is recognised\n  \
        ftlab schemes dftl                      what a scheme does and which parameters it has\n\n\
        `ftlab COMMAND --help` explains each command with examples."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand, Clone, Debug, PartialEq)]
pub enum Command {
    /// Run schemes side by side under one workload and compare them.
    Compare(Box<CompareArgs>),
    /// Run an experiment from a TOML file: every flag of `compare` is a key.
    Run(RunArgs),
    /// Set published figures beside measured ones, table by table.
    Reproduce(ReproduceArgs),
    /// Check that schemes lose nothing: cut power, fail blocks, audit; attack images and the server.
    Check(Box<CheckArgs>),
    /// Watch a scheme on a tiny device: every flash command, and what the blocks hold.
    Step(StepArgs),
    /// Make and examine images: SSDs in a file.
    Image(ImageArgs),
    /// Serve an image as a block device (NBD) that file systems and virtual machines can use.
    Serve(ServeArgs),
    /// Look at, convert and make traces.
    Trace(TraceArgs),
    /// List the recordings of real programs that are on board, or explain one.
    Recordings(RecordingsArgs),
    /// Bit errors over a chip's life, and which codes bear them at which read latency.
    Reliability(ReliabilityArgs),
    /// List the schemes, or explain one.
    Schemes(SchemesArgs),
    /// List the devices, or explain one.
    Devices(NameArgs),
    /// Write the reference as Markdown pages: schemes, policies, devices, trace formats, recordings, commands.
    Reference(ReferenceArgs),
}

/// `ftlab compare`; also what an experiment file says.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = "Examples:\n  \
    ftlab compare\n      page, dftl and dftl-e on recording:postmark\n  \
    ftlab compare fin1.spc.zst --schemes page,dftl --cache 16KiB,64KiB,256KiB\n      \
    how much does the mapping cache matter? (page has none and runs once)\n  \
    ftlab compare --workload zipf:reads=0.3,requests=5M --gc greedy,cost-benefit --fill steady\n      \
    which victim policy wears the flash least once the device is worn in?\n  \
    ftlab compare web.csv --host closed:32 --html web.html --json web.json --series 1s\n      \
    as fast as a queue of 32 allows; a page to look at, a file to compute with\n  \
    ftlab compare --schemes dftl --buffer none,fab:1MiB,bplru:1MiB\n      \
    what does a write buffer save?\n  \
    ftlab compare --scheduler in-order,read-first --flow zipf:reads=1@closed:4 --flow uniform:reads=0\n      \
    how much does a writer slow down a reader, and what if reads go first?\n\n\
    Lists cross: 2 schemes x 3 caches x 2 policies are 12 runs, spread over all cores. Counts take k, M, G; sizes \
    take KiB, MiB, GiB.")]
pub struct CompareArgs {
    /// Trace file; SPC, MSR, blktrace, blkparse, fio and others are recognised by content, .gz .zst .xz .bz2 and tar
    /// are read as they are; a workload as for --workload if there is no such file [default: recording:postmark]
    #[arg(value_name = "TRACE", conflicts_with = "workload", value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,

    /// Workload that is on board instead of a trace: recording:NAME (`ftlab recordings` lists them), or a generated
    /// one, as NAME[:key=value,…]: uniform, zipf, hotcold, sequential, twin:NAME
    #[arg(long, value_name = "SPEC", help_heading = "Workload")]
    pub workload: Option<String>,

    /// Schemes to run, comma-separated, or "all"; `ftlab schemes` lists them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "page,dftl,dftl-e",
          value_parser = parse_name, help_heading = "Schemes")]
    pub schemes: Vec<String>,

    /// Device, as NAME[:key=value,…] or a TOML file; keys include capacity, spare, page, channels [default: agrawal08
    /// with 4 KiB pages and 12.5 % spare, as large as the workload's addresses]
    #[arg(long, value_name = "DEVICE", help_heading = "Device")]
    pub device: Option<String>,

    /// Mapping-cache sizes, comma-separated; each is one run of every scheme that has a cache [default: what a
    /// block-level map of the device would need, as in the papers]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_cache, help_heading = "Schemes")]
    pub cache: Vec<u64>,

    /// Write buffers in front of the schemes, comma-separated, as POLICY:SIZE with fab, bplru or cflru, or none; each
    /// is one run of every scheme; `ftlab schemes POLICY` explains one [default: none]
    #[arg(long, value_name = "POLICY:SIZE", value_delimiter = ',', value_parser = parse_buffer,
          help_heading = "Schemes")]
    pub buffer: Vec<Buffer>,

    /// Policies that choose the block to collect, comma-separated: greedy, cost-benefit, fifo and others; each is one
    /// run of every scheme that takes one [default: the scheme's own]
    #[arg(long, value_name = "POLICIES", value_delimiter = ',', value_parser = parse_name, help_heading = "Schemes")]
    pub gc: Vec<String>,

    /// How collections are dealt over time in every scheme that can: whole victims in a row, as in all papers, or
    /// spread over the writes that follow [default: each scheme's own, which is whole]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "whole|spread", help_heading = "Schemes")]
    pub rhythm: Option<Rhythm>,

    /// Set one scheme's or write buffer's parameter (repeatable); `ftlab schemes NAME` lists them with units, defaults
    /// and ranges
    #[arg(long, value_name = "SCHEME.PARAM=VALUE", help_heading = "Schemes")]
    pub set: Vec<Setting>,

    /// State of the device at the start. none: empty; sequential, random: every page was written once; steady: pages
    /// were overwritten until write amplification stayed steady over five rounds, of 60 at most; trace: every request
    /// of the workload, reads too, was served once as a write
    #[arg(long, value_enum, default_value_t = Fill::Sequential, hide_possible_values = true,
          value_name = "none|sequential|random|steady|trace", help_heading = "Device")]
    pub fill: Fill,

    /// Who decides when a request arrives: the workload's times (open), or a host that keeps QD requests under way
    /// (closed:QD) [default: open if the workload has times, else closed:32]
    #[arg(long, value_name = "open|closed:QD", help_heading = "Workload")]
    pub host: Option<Host>,

    /// How flash commands queue, comma-separated; each is one run of every scheme. fcfs: a command is placed when the
    /// scheme issues it; in-order: commands queue, the oldest goes first; read-first: reads that the host waits for go
    /// first; suspend: such reads also interrupt programs and erases, if the device can [default: fcfs]
    #[arg(
        long,
        value_name = "fcfs|in-order|read-first|suspend",
        value_delimiter = ',',
        value_enum,
        default_value = "fcfs",
        hide_possible_values = true,
        hide_default_value = true,
        help_heading = "Device"
    )]
    pub scheduler: Vec<Scheduler>,

    /// Let schemes collect in the background once no request has been under way for this long, such as 1ms [default:
    /// schemes collect only when they must]
    #[arg(long, value_name = "PAUSE", value_parser = parse_pause_ns, help_heading = "Device")]
    pub idle_gc: Option<u64>,

    /// One of several streams of requests that share the device (repeatable): a trace file or a generated workload with
    /// addresses of its own, and optionally its host, as in zipf:reads=1@closed:8 or web.csv@open. The report has each
    /// stream's slowdown
    #[arg(long, value_name = "SPEC[@HOST]", conflicts_with_all = ["trace", "workload"], help_heading = "Workload")]
    pub flow: Vec<String>,

    /// Seed of all randomness; the same seed gives the same report
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed)]
    pub seed: u64,

    /// Requests to run before counting begins
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_count, help_heading = "Workload")]
    pub warmup: u64,

    /// Stop after N requests, those of the warm-up not counted [default: the whole workload]
    #[arg(long, value_name = "N", value_parser = parse_positive_count, help_heading = "Workload")]
    pub limit: Option<u64>,

    /// Repeat the whole workload until blocks were erased N times on average; or until worn blocks leave the device no
    /// room. The device's key `endurance` says how many erases a block endures after the fill [default: run it once]
    #[arg(long, value_name = "mean-erases=N|end-of-life", help_heading = "Workload")]
    pub until: Option<Until>,

    /// Cut the power after the workload, mount the device from flash alone, and report the commands and the time of the
    /// mount, beside the time of reading the controller's state from metadata pages instead
    #[arg(long, help_heading = "Workload")]
    pub mount_cost: bool,

    /// Run N times under different seeds and report means with 95 % confidence intervals
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,

    /// Format of the trace, where it should not be recognised by content
    #[arg(long, value_name = "F", value_parser = parse_name, help_heading = "Trace")]
    pub format: Option<String>,

    /// What to do at a malformed line: stop, naming it, or skip and count it
    #[arg(long, value_enum, default_value_t = OnError::Stop, hide_possible_values = true, value_name = "stop|skip",
          help_heading = "Trace")]
    pub on_error: OnError,

    /// What becomes of requests beyond the device's capacity. error: the run is refused; fold: addresses are taken
    /// modulo the capacity; compact: used extents are moved together; scale: all addresses are scaled down [default:
    /// the device is made as large as the trace, or, beyond 64 GiB, compact]
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "error|fold|compact|scale",
        help_heading = "Trace"
    )]
    pub out_of_range: Option<OutOfRange>,

    /// A trace of several volumes: laid one behind the other, or one of them alone, by number or name
    #[arg(long, default_value = "concat", value_name = "concat|select=N", help_heading = "Trace")]
    pub volumes: Volumes,

    /// Multiply arrival times; 0.5 makes requests come twice as fast
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = parse_factor, help_heading = "Trace")]
    pub time_scale: f64,

    /// Writes that cover part of a page: read the rest first, or write the page regardless, as FlashSim does
    /// [default: rmw; ignore for twins, as in their papers]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "rmw|ignore", help_heading = "Workload")]
    pub partial: Option<Partial>,

    /// Runs at a time [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,

    /// Write the report as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub json: Option<PathBuf>,

    /// Write one row per run as CSV
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub csv: Option<PathBuf>,

    /// Write the same rows as Parquet
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub parquet: Option<PathBuf>,

    /// Write a self-contained page with tables and plots
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub html: Option<PathBuf>,

    /// Write one CSV line per request (times, flash commands caused), compressed if FILE ends in .zst. Of several runs
    /// each has a file of its own, FILE.csv becomes FILE-RUN.csv; of those that --repeat adds none has one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub per_request: Option<PathBuf>,

    /// Record requests/s, write amplification, free blocks and latency over simulated time, such as 1s or 100ms; goes
    /// into JSON and HTML
    #[arg(long, value_name = "INTERVAL", value_parser = parse_interval_ns, help_heading = "Output")]
    pub series: Option<u64>,

    /// Print also what every flash command was for, and what requests waited for
    #[arg(long, help_heading = "Output")]
    pub verbose: bool,
}

impl Default for CompareArgs {
    /// What `ftlab compare` without flags means.
    fn default() -> Self {
        CompareArgs {
            trace: None,
            workload: None,
            schemes: ["page", "dftl", "dftl-e"].map(str::to_owned).to_vec(),
            device: None,
            cache: Vec::new(),
            buffer: Vec::new(),
            gc: Vec::new(),
            rhythm: None,
            set: Vec::new(),
            fill: Fill::Sequential,
            host: None,
            scheduler: vec![Scheduler::Fcfs],
            idle_gc: None,
            flow: Vec::new(),
            seed: 1,
            warmup: 0,
            limit: None,
            until: None,
            mount_cost: false,
            repeat: 1,
            format: None,
            on_error: OnError::Stop,
            out_of_range: None,
            volumes: Volumes::Concat,
            time_scale: 1.0,
            partial: None,
            threads: None,
            json: None,
            csv: None,
            parquet: None,
            html: None,
            per_request: None,
            series: None,
            verbose: false,
        }
    }
}

/// `ftlab run FILE`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(
    after_help = "Every flag of `ftlab compare` is a key, under the same name; paths are relative to the file:\n\n  \
    workload = \"zipf:theta=0.99,requests=5M\"\n  \
    schemes = [\"page\", \"dftl\"]\n  \
    cache = [\"16KiB\", \"64KiB\"]\n  \
    fill = \"steady\"\n  \
    json = \"zipf.json\"\n\n  \
    [set]\n  \
    dftl.gc-low = 4\n\n\
    Then: ftlab run zipf.toml"
)]
pub struct RunArgs {
    /// Experiment file
    #[arg(value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// `ftlab reproduce`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(after_help = "Examples:\n  \
    ftlab reproduce --list                          papers and their tables and figures\n  \
    ftlab reproduce dftl                            all of a paper\n  \
    ftlab reproduce lsftl/table-1 --quick           one table, on shorter workloads\n  \
    ftlab reproduce dftl --unvaried                 a paper's figures at full length, nothing varied\n  \
    ftlab reproduce --summary --quick               each paper's headlines, a line each\n  \
    ftlab reproduce lsftl --traces ~/traces         on the whole traces, where they are found\n\n\
    Traces are looked for under their well-known names (Financial1.spc, hm_0.csv, …), compressed or not, in DIR and in \
    the directory that FTLAB_TRACES names. Without them twins stand in, and every figure says what it ran on.")]
pub struct ReproduceArgs {
    /// Paper, or PAPER/EXPERIMENT [default: all]
    #[arg(value_name = "PAPER", value_parser = parse_name)]
    pub paper: Option<String>,

    /// Directory of traces
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub traces: Option<PathBuf>,

    /// Directory of experiments, laid out as ftlab's own: PAPER/paper.toml, PAPER/EXPERIMENT.toml
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub experiments: Option<PathBuf>,

    /// List the experiments
    #[arg(long, conflicts_with_all = ["json", "csv", "html"])]
    pub list: bool,

    /// Print the papers' headline claims with what has become of them, as a Markdown table; runs what they rest on, and
    /// no sensitivities
    #[arg(long, conflicts_with = "list")]
    pub summary: bool,

    /// Run what the files call quick: short workloads, nothing varied, nothing that ends by wear
    #[arg(long, conflicts_with = "requests")]
    pub quick: bool,

    /// Run the figures at their full length, and no sensitivities
    #[arg(long, conflicts_with = "quick")]
    pub unvaried: bool,

    /// Run N requests of each workload, of traces too [default: the paper's file says, of traces all]
    #[arg(long, value_name = "N", value_parser = parse_positive_count)]
    pub requests: Option<u64>,

    /// Runs at a time [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,

    /// Write everything as JSON: figures, results, requests under the microscope
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,

    /// Write one line per figure as CSV
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,

    /// Write a page to look at: figures, and published points over measured lines
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
}

/// `ftlab check`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(after_help = "Examples:\n  \
    ftlab check                                       all schemes: power cuts, images, the server\n  \
    ftlab check --scheme dftl --seeds 2000 --cuts 1M  one scheme, longer\n  \
    ftlab check --scheme page --faults flight         several commands under way when power fails\n  \
    ftlab check --scheme page --images --server       what the mounted device stands on, alone\n  \
    ftlab check --seeds fresh:4                       seeds that nobody has seen\n  \
    ftlab check --scheme dftl --replay 7:123.2.1      a failure that an earlier run printed\n  \
    ftlab check --scheme dftl --replay 7:123.2.1 --shrink     the same, made as short as it can be\n\n\
    Exits with 1 if a scheme fails.")]
pub struct CheckArgs {
    /// Scheme to attack, or "all"
    #[arg(long, value_name = "NAME|all", default_value = "all", value_parser = parse_name)]
    pub scheme: String,

    /// Seeds per scheme, each a small device and a run of its own [default: 256; of images and server 32]: N from 0,
    /// those from A up to B, or N that follow from the date, which are printed
    #[arg(long, value_name = "N|A..B|fresh:N", conflicts_with = "replay")]
    pub seeds: Option<Seeds>,

    /// Classes of faults [default: what the scheme promises to survive]: all, or some of cut, nested, unstable,
    /// unstable-nested, unstable-flight, unstable-paired, flight, unordered, stages, failing, intermittent, unreadable,
    /// paired, silent, spare, disturb, metadata, with commas. With all, what a scheme does under classes that it does
    /// not promise to survive is told and fails nothing. With fewer than it promises to survive, claims about its RAM
    /// and metadata have no run of their own
    #[arg(long, value_name = "all|LIST")]
    pub faults: Option<Faults>,

    /// Attack images, and nothing else that is not named: SSDs in a file of a host that is killed, that crashes and
    /// loses, tears or misplaces what it had not made durable, that reads and writes in parts, and whose disk is full;
    /// copies of them are damaged. Each seed has lives of small images, one after another, until --operations requests
    /// were served
    #[arg(long, conflicts_with_all = ["faults", "cuts", "nested", "buffer", "replay", "shrink"])]
    pub images: bool,

    /// Attack the server, and nothing else that is not named: clients that ask for the same places at once, vanish,
    /// break the protocol and want more than there is, over a disk that fails and loses power. Each seed serves one
    /// small image, and asks --operations requests of it
    #[arg(long, conflicts_with_all = ["faults", "cuts", "nested", "buffer", "replay", "shrink"])]
    pub server: bool,

    /// Stop at the first seed that fails
    #[arg(long, conflicts_with = "replay")]
    pub fail_fast: bool,

    /// Power cuts per scheme [default: 80000]: at every command in every way, or at about N, evenly drawn, and at least
    /// one of each phase that a seed comes to; cuts soon after another come on top of them. With 1,250 a seed or fewer
    /// there are fewer of the devices without a block to spare too. With this, as with --faults, --nested, --buffer and
    /// --replay, images and server are left alone
    #[arg(long, value_name = "all|N", conflicts_with = "replay")]
    pub cuts: Option<Cuts>,

    /// One in N power cuts, and the first one, is followed by cuts at every command of its recovery in every way, or
    /// by 2,000 of these, evenly drawn [default: 400]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "replay")]
    pub nested: Option<u64>,

    /// Put a write buffer in front of the scheme; its size goes by seed
    #[arg(long, value_name = "POLICY", value_parser = parse_name)]
    pub buffer: Option<String>,

    /// Set a parameter of the scheme in every seed (repeatable); `ftlab schemes NAME` lists them
    #[arg(long, value_name = "PARAM=VALUE", value_parser = parse_pair)]
    pub set: Vec<(String, String)>,

    /// Operations of each run [default: 400; with images 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub operations: Option<u32>,

    /// Show one case again, in detail, as SEED:OPERATION[.COMMAND.FACE[/COMMAND.FACE..|/storm]]; needs --scheme NAME
    #[arg(long, value_name = "CASE")]
    pub replay: Option<Replay>,

    /// With --replay: leave out of the case all that can go with the same finding, in 2,000 runs of it at the most, and
    /// show what is left
    #[arg(long, requires = "replay")]
    pub shrink: bool,

    /// Threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
}

impl CheckArgs {
    /// Power cuts per scheme.
    pub fn cuts(&self) -> Cuts {
        self.cuts.unwrap_or(Cuts::Number(80_000))
    }

    /// Operations of a run in which power is cut.
    pub fn operations(&self) -> u32 {
        self.operations.unwrap_or(400)
    }

    /// Whether to cut power, to attack images, and to attack the server: all, unless some are named, or what is named
    /// is about power cuts.
    pub fn parts(&self) -> [bool; 3] {
        let [images, server] = [self.images, self.server];
        let of_cuts = self.cuts.is_some() || self.nested.is_some();
        let is_about_cuts = self.faults.is_some() || of_cuts || self.buffer.is_some() || self.replay.is_some();
        match (is_about_cuts, images || server) {
            (true, _) => [true, false, false],
            (false, true) => [false, images, server],
            (false, false) => [true; 3],
        }
    }
}

/// `ftlab serve`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(after_help = "Examples:\n  \
    ftlab serve --image ssd.img --scheme dftl --socket ssd.sock --stats 1s\n      \
    then: nbdinfo 'nbd+unix:///?socket=ssd.sock'\n  \
    ftlab serve --image ssd.img --scheme dftl --socket ssd.sock --capture mail.iolog.zst\n      \
    then: ftlab compare mail.iolog.zst\n\n\
    SIGTERM and Ctrl-C shut down cleanly. A server that is killed loses nothing that a client had flushed.")]
pub struct ServeArgs {
    /// Image to serve; `ftlab image create` makes one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub image: PathBuf,

    /// The image's scheme
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub scheme: String,

    /// Listen at a Unix socket
    #[arg(long, value_name = "PATH", conflicts_with = "port", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,

    /// Who may use that socket, in octal, as for chmod
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = parse_mode, conflicts_with = "port")]
    pub socket_mode: u32,

    /// Listen at a TCP port; 0 takes a free one
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,

    /// Address of that port. There are no passwords: whoever reaches it can read and write
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1", conflicts_with = "socket")]
    pub bind: IpAddr,

    /// Print what is being served, such as every 1s
    #[arg(long, value_name = "INTERVAL", value_parser = parse_interval_ns)]
    pub stats: Option<u64>,

    /// Record every request as a compressed trace that `compare` reads. The device then does no background work, so
    /// that the trace explains all that it does
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub capture: Option<PathBuf>,

    /// Answer as fast as possible, or when the simulated device would have
    #[arg(long, value_enum, default_value_t = Timing::None, hide_possible_values = true, value_name = "emulate|none")]
    pub timing: Timing,

    /// Cut the power of the simulated device at its Nth program or erase: the command is torn, clients get an I/O
    /// error, and the device mounts again from its flash
    #[arg(long, value_name = "N", value_parser = parse_positive_count)]
    pub cut_after: Option<u64>,

    /// Seed of how that command is torn
    #[arg(long, value_name = "N", default_value_t = 1, requires = "cut_after")]
    pub seed: u64,

    /// Write the final report as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
}

/// `ftlab reliability`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = "Examples:\n  \
    ftlab reliability\n      \
    a Micron MLC part, new, half worn and worn, at once and after a year, under BCH and LDPC\n  \
    ftlab reliability --device mlc-mt29f64g08cbabx --pe-cycles 1k,3k --retention 0,30d,1y --json r.json\n  \
    ftlab reliability --code bch:t=8,data=512 --code bch:t=29,data=1024 --mode normal\n      \
    how much stronger must the code be?\n  \
    ftlab reliability --constants\n      \
    which numbers of the model are published and which assumed")]
pub struct ReliabilityArgs {
    /// Device with cells of two bits, as NAME[:key=value,…] or a TOML file; its spare bytes, endurance and times count
    #[arg(long, value_name = "DEVICE", default_value = "mlc-mt29f64g08cbaaa")]
    pub device: String,

    /// Code for each frame of a page, as bch:t=T,data=BYTES or ldpc:parity=BYTES,data=BYTES (repeatable) [default:
    /// bch:t=24,data=1024 and the strongest LDPC code with kept trials that fits the spare area]
    #[arg(long, value_name = "CODE", value_parser = parse_code)]
    pub code: Vec<CodeSpec>,

    /// Program/erase cycles, comma-separated [default: none, half the device's endurance, all of it]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_cycles)]
    pub pe_cycles: Vec<u32>,

    /// Times since the page was programmed, comma-separated, in h, d or y
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0,1y", value_parser = parse_retention)]
    pub retention: Vec<Retention>,

    /// Reads of the block since it was erased
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_count)]
    pub reads: u64,

    /// How pages are programmed: at the usual step, at one and a half times the step, or at twice the step in nearly
    /// half the time; both: the first and the last
    #[arg(long, value_enum, default_value_t = ProgramMode::Both, hide_possible_values = true,
          value_name = "normal|medium|low-cost|both")]
    pub mode: ProgramMode,

    /// Latencies: put together from the chip's times and trials of the decoders, or the constants of the
    /// differentiated-ECC paper
    #[arg(long, value_enum, default_value_t = LatencyProfile::Derived, hide_possible_values = true,
          value_name = "derived|paper")]
    pub profile: LatencyProfile,

    /// Write the results as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,

    /// List the constants of the model with their sources instead
    #[arg(long, conflicts_with_all = [
        "json", "code", "alist", "derive_latencies", "device", "pe_cycles", "retention", "reads", "mode", "profile"
    ])]
    pub constants: bool,

    /// Write the parity-check matrix of one LDPC --code in the alist format instead
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
          conflicts_with_all = ["json", "device", "pe_cycles", "retention", "reads", "mode", "profile"])]
    pub alist: Option<PathBuf>,

    /// Run the trials that read latencies are derived from instead, and write them as CSV; takes minutes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
          conflicts_with_all = [
              "json", "code", "alist", "device", "pe_cycles", "retention", "reads", "mode", "profile"
          ])]
    pub derive_latencies: Option<PathBuf>,

    /// Frames of each of these trials [default: as many as in the table that is kept]
    #[arg(long, value_name = "N", requires = "derive_latencies", value_parser = clap::value_parser!(u32).range(1..))]
    pub frames: Option<u32>,

    /// Seed of these trials [default: that of the table that is kept]
    #[arg(long, value_name = "N", requires = "derive_latencies", value_parser = parse_seed)]
    pub seed: Option<u64>,

    /// Trials at a time [default: all cores]
    #[arg(long, value_name = "N", requires = "derive_latencies", value_parser = parse_threads)]
    pub threads: Option<usize>,
}

/// Which programs `ftlab reliability` looks at.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramMode {
    /// At the usual step.
    Normal,
    /// At one and a half times the step.
    Medium,
    /// At twice the step.
    LowCost,
    /// The first and the last.
    Both,
}

/// Where its latencies come from.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LatencyProfile {
    /// The chip's times and trials of the decoders.
    Derived,
    /// Constants of the paper.
    Paper,
}

/// `ftlab schemes`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct SchemesArgs {
    /// Explain this one [default: list all]
    pub name: Option<String>,

    /// Explain every parameter and counter, not only the parameters of its own
    #[arg(long, requires = "name")]
    pub all: bool,

    /// Print its page of documentation, or write those of all schemes into a directory
    #[arg(long, value_name = "DIR", num_args = 0..=1, value_hint = ValueHint::DirPath)]
    pub markdown: Option<Option<PathBuf>>,
}

/// `ftlab devices`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct NameArgs {
    /// Explain this one, or show what becomes of one's own, NAME:KEY=VALUE,… or FILE.toml [default: list all]
    pub name: Option<String>,
}

/// `ftlab recordings`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(after_help = "A recording is a workload wherever one is named: ftlab compare --workload recording:NAME")]
pub struct RecordingsArgs {
    /// Explain this one [default: list all]
    pub name: Option<String>,

    /// Write all of it as JSON too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
}

/// `ftlab trace`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct TraceArgs {
    /// What to do with a trace.
    #[command(subcommand)]
    pub command: TraceCommand,
}

/// The commands on traces.
#[derive(Subcommand, Clone, Debug, PartialEq)]
pub enum TraceCommand {
    /// Say what a trace holds: format, volumes, requests, sizes, addresses, times, irregularities.
    Info(TraceInfoArgs),
    /// Print the first requests as ftlab understands them.
    Head(TraceHeadArgs),
    /// Write a trace in another format.
    #[command(after_help = "Examples:\n  \
        ftlab trace convert web.csv.gz web.spc.zst --to spc --limit 1M\n  \
        ftlab trace convert web.csv.gz web.parquet        a table for pandas, Polars and DuckDB")]
    Convert(TraceConvertArgs),
    /// Write a generated workload as a trace file.
    #[command(after_help = "Example: ftlab trace generate zipf:theta=0.99,requests=1M zipf.csv.zst --to msr")]
    Generate(TraceGenerateArgs),
}

/// How a trace is read.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct TraceReading {
    /// Trace file, or recording:NAME
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Format, where it should not be recognised by content
    #[arg(long, value_name = "F", value_parser = parse_name)]
    pub format: Option<String>,

    /// What to do at a malformed line: stop, naming it, or skip and count it
    #[arg(long, value_enum, default_value_t = OnError::Stop, hide_possible_values = true, value_name = "stop|skip")]
    pub on_error: OnError,
}

/// `ftlab trace info`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct TraceInfoArgs {
    /// The trace.
    #[command(flatten)]
    pub reading: TraceReading,

    /// Look at the first N requests only [default: all]
    #[arg(long, value_name = "N", value_parser = parse_positive_count)]
    pub limit: Option<u64>,

    /// Write all of it as JSON too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
}

/// `ftlab trace head`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct TraceHeadArgs {
    /// The trace.
    #[command(flatten)]
    pub reading: TraceReading,

    /// How many requests
    #[arg(long, short = 'n', value_name = "N", default_value = "10", value_parser = parse_positive_count)]
    pub limit: u64,
}

/// `ftlab trace convert`.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct TraceConvertArgs {
    /// The trace.
    #[command(flatten)]
    pub reading: TraceReading,

    /// File to write; compressed if it ends in .zst or .gz
    #[arg(value_name = "OUTPUT", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Format to write [default: parquet, if OUTPUT ends so]
    #[arg(long, value_name = "F", value_parser = parse_name)]
    pub to: Option<String>,

    /// Stop after N requests [default: all]
    #[arg(long, value_name = "N", value_parser = parse_positive_count)]
    pub limit: Option<u64>,

    /// A trace of several volumes: laid one behind the other, or one of them alone [default: kept apart]
    #[arg(long, value_name = "concat|select=N")]
    pub volumes: Option<Volumes>,

    /// Multiply arrival times; 0.5 makes requests come twice as fast
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = parse_factor)]
    pub time_scale: f64,
}

/// `ftlab trace generate`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct TraceGenerateArgs {
    /// Workload, as NAME[:key=value,…]
    #[arg(value_name = "SPEC")]
    pub workload: String,

    /// File to write; compressed if it ends in .zst or .gz
    #[arg(value_name = "OUTPUT", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Format to write [default: parquet, if OUTPUT ends so]
    #[arg(long, value_name = "F", value_parser = parse_name)]
    pub to: Option<String>,

    /// Seed of the workload
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed)]
    pub seed: u64,

    /// What to do about a request that the format cannot express: stop, naming it, or skip and count it
    #[arg(long, value_enum, default_value_t = OnError::Stop, hide_possible_values = true, value_name = "stop|skip")]
    pub on_error: OnError,
}

/// `ftlab image`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct ImageArgs {
    /// What to do with an image.
    #[command(subcommand)]
    pub command: ImageCommand,
}

/// The commands on images.
#[derive(Subcommand, Clone, Debug, PartialEq)]
pub enum ImageCommand {
    /// Make an image: a NAND chip in a sparse file, and the scheme that is to live on it.
    #[command(after_help = "Examples:\n  \
        ftlab image create ssd.img --device agrawal08:capacity=512MiB,spare=12.5% --scheme dftl\n  \
        ftlab image create big.img --device agrawal08:capacity=64GiB --scheme dftl --set cache-bytes=256KiB\n  \
        ftlab image create worn.img --device mlc-l74a:capacity=1GiB --scheme page --ecc bch:t=24,data=1024")]
    Create(ImageCreateArgs),
    /// Say what an image is: device, scheme, state, wear. Reads a few kilobytes.
    Info(ImageInfoArgs),
    /// Examine all of an image: checksums, the scheme's invariants, every page that holds data. Writes nothing; exits
    /// with 1 if something is wrong.
    Verify(ImageInfoArgs),
    /// Let time pass: flip bits at random in everything that is programmed, data, spare areas and records. What a code
    /// corrects nobody notices; `verify` says how many bits that were, and what was lost.
    #[command(after_help = "Examples:\n  \
        ftlab image age ssd.img --rber 1e-4 && ftlab image verify ssd.img\n  \
        ftlab image age worn.img --retention 1y --pe-cycles 3k\n      \
        a year on the shelf, each block as worn as it is and 3000 cycles more")]
    Age(ImageAgeArgs),
}

/// `ftlab image create`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ImageCreateArgs {
    /// File to make; it takes what is written to it
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Device, as NAME[:key=value,…] or a TOML file, with its capacity
    #[arg(long, value_name = "DEVICE")]
    pub device: String,

    /// Scheme that is to live on it
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub scheme: String,

    /// Set a parameter of the scheme (repeatable); `ftlab schemes NAME` lists them. durable-trim, where a scheme has
    /// it, is on unless set
    #[arg(long, value_name = "PARAM=VALUE", value_parser = parse_pair)]
    pub set: Vec<(String, String)>,

    /// Error-correcting code of each frame of a page, as bch:t=T,data=BYTES or ldpc:parity=BYTES,data=BYTES; its parity
    /// goes into the spare areas. Without one a flipped bit costs its page
    #[arg(long, value_name = "CODE", value_parser = parse_code)]
    pub ecc: Option<CodeSpec>,

    /// Empty the file first if it exists
    #[arg(long)]
    pub force: bool,
}

/// `ftlab image age`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(group(clap::ArgGroup::new("errors").required(true).args(["rber", "retention"])))]
pub struct ImageAgeArgs {
    /// Image
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Probability that a bit flips (raw bit error rate), up to 0.5
    #[arg(long, value_name = "RATE", value_parser = parse_rber)]
    pub rber: Option<f64>,

    /// Time since the pages were programmed, in h, d or y: bits flip as the model of `ftlab reliability` has it, by the
    /// erases of each block and the mode and type of each page
    #[arg(long, value_name = "TIME", value_parser = parse_retention)]
    pub retention: Option<Retention>,

    /// Reads of each block since it was erased
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_count, conflicts_with = "rber")]
    pub reads: u64,

    /// Program/erase cycles that each block counts as having beyond those that the image knows
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_cycles, conflicts_with = "rber")]
    pub pe_cycles: u32,

    /// Seed of the random choice of bits
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// `ftlab image info` and `ftlab image verify`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ImageInfoArgs {
    /// Image
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Write all of it as JSON too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
}

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Invocation {
    /// Run a command.
    Command(Command),
    /// Print this text (help or version) and leave with success.
    Print(String),
}

/// Reads a command line, its first word the name of the program.
///
/// # Errors
/// The first thing that is wrong, on one line, with the nearest valid spelling.
pub fn parse<I, T>(words: I) -> Result<Invocation, CliError>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    match Cli::try_parse_from(words) {
        Ok(cli) => Ok(Invocation::Command(cli.command)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Ok(Invocation::Print(format!("{}\n", error.render().to_string().trim_end())))
            }
            _ => Err(one_line(&error)),
        },
    }
}

/// Clap's message without usage and footer, on one line.
pub(crate) fn one_line(error: &clap::Error) -> CliError {
    let text = error.render().to_string();
    let mut message = String::new();
    for line in text.lines().map(str::trim) {
        let line = line.strip_prefix("error: ").unwrap_or(line);
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        // The way to write `-1` where no option takes it helps nobody.
        if line.is_empty() || line.starts_with("tip: to pass '") {
            continue;
        }
        let (separator, line) = match line.strip_prefix("tip: ") {
            Some(tip) => ("; ", tip),
            None if message.is_empty() || message.ends_with(':') => (" ", line),
            None => (" ", line),
        };
        if !message.is_empty() {
            message.push_str(separator);
        }
        message.push_str(line);
    }
    CliError::new(message)
}

#[cfg(test)]
mod tests;
