//! `ftlab reference`: what the tables of the crates and the command line say of themselves, as Markdown pages.

use super::{Ended, recordings};
use crate::args::{Cli, RecordingsArgs, ReferenceArgs};
use crate::error::CliError;
use crate::output;
use crate::scheme_page::{self, capital, cell, parameter_table};
use clap::CommandFactory;
use flash::device::PRESETS;
use ftl::papers::{cite, references};
use ftl::schemes::SCHEMES;
use sim::workload::format::FORMATS;
use std::io::Write;

/// Writes the pages; says which.
///
/// # Errors
/// A page that cannot be written.
pub(super) fn reference(args: &ReferenceArgs, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    let directory = &args.directory;
    let schemes = directory.join("schemes");
    std::fs::create_dir_all(&schemes).map_err(|cause| CliError::file("make", &schemes, &cause))?;
    let kept = || SCHEMES.iter().filter(|row| row.keeps_data && row.name != "canary");
    let mut pages: Vec<(String, String)> =
        kept().map(|row| (format!("schemes/{}.md", row.name), scheme_page::markdown(row))).collect();
    let rows = kept().map(|row| format!("| [`{0}`]({0}.md) | {1} |\n", row.name, cell(row.summary)));
    let table = rows.collect::<String>();
    let index = format!("# Schemes\n\nEach page is the essay and the row of one scheme.\n\n| | |\n|---|---|\n{table}");
    pages.push(("schemes/index.md".into(), index));
    pages.push(("policies.md".into(), policies()));
    pages.push(("devices.md".into(), devices()));
    pages.push(("formats.md".into(), formats()));
    pages.push(("recordings.md".into(), on_board()?));
    pages.push(("commands.md".into(), commands()));
    let mut said = String::new();
    for (name, text) in pages {
        let path = directory.join(name);
        output::write_file(&path, text.as_bytes())?;
        said += &format!("{}\n", path.display());
    }
    crate::print(stdout, &said).map(|()| Ended::Done)
}

fn policies() -> String {
    let mut page = "# Policies\n\n## Victim policies\n\n`--gc NAME` picks the block that is collected.\n\n".to_owned();
    page += "| policy | the block that it picks | source |\n|---|---|---|\n";
    for row in ftl::GC_POLICIES {
        page += &format!("| `{}` | {} | {} |\n", row.name, cell(row.summary), cell(&cite(row.source)));
    }
    page += "\n## Write buffers\n\n`--buffer NAME:SIZE` puts one in front of every scheme.\n";
    for row in ftl::buffer::POLICIES {
        page += &format!("\n### {}\n\n{}.\n", row.name, capital(row.summary));
        page += &references(row.paper).map(|paper| format!("\n- {}.\n", capital(&paper))).collect::<String>();
        if !row.parameters.is_empty() {
            page += &format!("\n{}", parameter_table(row.parameters));
        }
    }
    page += "\n## Error-correction policies\n\n`--set SCHEME.ecc=NAME` says who picks the mode of each host page.\n\n";
    page += "| policy | what it does | source |\n|---|---|---|\n";
    for [name, summary, source] in ftl::ecc_policies() {
        page += &format!("| `{name}` | {} | {} |\n", cell(summary), cell(&cite(source)));
    }
    page
}

fn devices() -> String {
    let mut page =
        "# Devices\n\nEvery number says where it comes from. `--device NAME:key=value` changes one.\n".to_owned();
    for preset in PRESETS {
        page += &format!("\n## {}\n\n", preset.name);
        let (words, numbers): (Vec<_>, Vec<_>) =
            sim::device::describe(preset).into_iter().partition(|row| row.origin.is_empty());
        for row in words.iter().filter(|row| row.label != "name") {
            page += &format!("- {}: {}\n", row.label, row.value);
        }
        page += "\n| number | value | unit | from | why |\n|---|---|---|---|---|\n";
        for row in numbers {
            let why = cell(row.why);
            page += &format!("| {} | {} | {} | {} | {why} |\n", row.label, row.value, row.unit, row.origin);
        }
    }
    page
}

fn formats() -> String {
    let mut page =
        "# Trace formats\n\nA format is recognised by content; `--format NAME` says it instead.\n\n".to_owned();
    page += "| format | what it is | units, and which operation is which | written too | described in |\n";
    page += "|---|---|---|---|---|\n";
    for row in FORMATS {
        let (summary, units, reference) = (cell(row.summary), cell(row.units), cell(row.reference));
        let writable = if row.writable() { "yes" } else { "no" };
        page += &format!("| `{}` | {summary} | {units} | {writable} | {reference} |\n", row.name);
    }
    let columns = "requests as columns of a table, for pandas, Polars and DuckDB";
    page += &format!("| `{}` | {columns} | as each column says | yes | docs/traces.md |\n", columnar::NAME);
    page
}

fn on_board() -> Result<String, CliError> {
    let mut printed = Vec::new();
    recordings::recordings(&RecordingsArgs { name: None, json: None }, &mut printed)?;
    let text = String::from_utf8_lossy(&printed).trim_end().to_owned();
    Ok(format!("# Recordings on board\n\n`--workload recording:NAME` runs one.\n\n```text\n{text}\n```\n"))
}

fn commands() -> String {
    fn add(page: &mut String, command: &mut clap::Command, path: &str, level: usize) {
        let name = format!("{path}{}", command.get_name());
        let help = command.clone().bin_name(&name).render_long_help().to_string();
        let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        *page += &format!("\n{} {name}\n\n```text\n{}\n```\n", "#".repeat(level), help.join("\n"));
        for inner in command.get_subcommands_mut() {
            add(page, inner, &format!("{name} "), level + 1);
        }
    }
    let mut page = "# Command line\n\nWhat `--help` says of each command.\n".to_owned();
    add(&mut page, &mut Cli::command(), "", 2);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Directory;

    #[test]
    fn every_row_and_every_flag_is_in_the_reference() {
        let directory = Directory::new();
        let mut printed = Vec::new();
        reference(&ReferenceArgs { directory: directory.join("pages") }, &mut printed).unwrap();
        let read = |name: &str| std::fs::read_to_string(directory.join("pages").join(name)).unwrap();
        for row in SCHEMES.iter().filter(|row| row.keeps_data && row.name != "canary") {
            assert!(read("schemes/index.md").contains(&format!("]({}.md)", row.name)), "{}", row.name);
            assert_eq!(read(&format!("schemes/{}.md", row.name)), scheme_page::markdown(row));
        }
        let (policies, formats, devices) = (read("policies.md"), read("formats.md"), read("devices.md"));
        let names = ftl::GC_NAMES.iter().chain(ftl::buffer::NAMES.iter().filter(|&&name| name != "none"));
        assert!(names.clone().count() > 8 && names.clone().all(|name| policies.contains(name)), "{policies}");
        assert!(FORMATS.iter().all(|row| formats.contains(&format!("| `{}` |", row.name))), "{formats}");
        assert!(PRESETS.iter().all(|row| devices.contains(&format!("\n## {}\n", row.name))), "{devices}");
        assert!(read("recordings.md").contains("postgres-xfs"));
        let commands = read("commands.md");
        for text in ["## ftlab\n", "### ftlab compare\n", "#### ftlab trace convert\n", "--scheduler", "--replay"] {
            assert!(commands.contains(text), "{text}");
        }
        for page in [policies, formats, devices, commands] {
            assert_eq!(page.matches("```").count() % 2, 0);
        }
    }
}
