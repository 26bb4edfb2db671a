//! `ftlab schemes` (with the write buffers) and `ftlab devices`: the tables of the crates below, as their rows describe
//! themselves.

use super::Ended;
use super::experiment::{device_fields, device_spec};
use crate::args::SchemesArgs;
use crate::error::CliError;
use crate::output;
use crate::render::plain;
use crate::render::text::{WIDTH, align, new_table, trimmed, wrap};
use crate::scheme_page;
use crate::workload::GENERATED_BYTES;
use flash::device::PRESETS;
use ftl::buffer::{BufferRow, COUNTERS, POLICIES};
use ftl::papers::{cite, introduce, references};
use ftl::schemes::SCHEMES;
use ftl::{Parameter, Scheme};
use std::io::Write;
use std::path::Path;

/// All schemes, or one; as tables, or as pages of documentation.
///
/// # Errors
/// No scheme of this name, or a page cannot be written.
pub(super) fn schemes(args: &SchemesArgs, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    let buffer = args.name.as_deref().filter(|_| args.markdown.is_none()).and_then(ftl::buffer::by_name);
    if let Some(row) = buffer {
        return crate::print(stdout, &explain_buffer(row)).map(|()| Ended::Done);
    }
    let one = args.name.as_deref().map(scheme).transpose()?;
    let text = match (one, &args.markdown) {
        (None, None) => list_schemes(),
        (Some(row), None) => explain_scheme(row, args.all),
        (one, Some(directory)) => {
            let rows = one.as_slice();
            let rows = if rows.is_empty() { SCHEMES } else { rows };
            match directory {
                Some(directory) => write_pages(rows, directory)?,
                None => rows.iter().map(|row| scheme_page::markdown(row)).collect::<Vec<_>>().join("\n"),
            }
        }
    };
    crate::print(stdout, &text).map(|()| Ended::Done)
}

fn scheme(name: &str) -> Result<&'static Scheme<'static>, CliError> {
    let known = || SCHEMES.iter().map(|row| row.name).chain(ftl::buffer::NAMES.iter().copied());
    ftl::schemes::by_name(name).ok_or_else(|| CliError::unknown("scheme", name, known()))
}

/// A page for each scheme that keeps data; says which.
fn write_pages(rows: &[&Scheme], directory: &Path) -> Result<String, CliError> {
    std::fs::create_dir_all(directory).map_err(|cause| CliError::file("make", directory, &cause))?;
    let mut text = String::new();
    for row in rows.iter().filter(|row| row.keeps_data) {
        let path = directory.join(format!("{}.md", row.name));
        output::write_file(&path, scheme_page::markdown(row).as_bytes())?;
        text += &format!("{}\n", path.display());
    }
    Ok(text)
}

/// All devices, or one: of the table, or one's own.
///
/// # Errors
/// No device of this name; whatever is wrong with one's own.
pub(super) fn devices(name: Option<&str>, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    let text = match name {
        None => list_devices(),
        Some(name) => match flash::device::by_name(name) {
            Some(preset) => explain_device(preset),
            None if name.contains([':', '.']) => resolve_device(name)?,
            None => {
                let known = PRESETS.iter().flat_map(|row| std::iter::once(row.name).chain(row.aliases.iter().copied()));
                return Err(CliError::unknown("device", name, known));
            }
        },
    };
    crate::print(stdout, &text).map(|()| Ended::Done)
}

fn list_schemes() -> String {
    let mut table = new_table();
    table.set_header(["scheme", "what it is", "paper"]);
    for row in SCHEMES {
        table.add_row([row.name, row.summary, &introduce(row.paper)]);
    }
    align(&mut table, 3);
    let mut buffers = new_table();
    buffers.set_header(["write buffer", "what it does", "paper"]);
    for row in POLICIES {
        buffers.add_row([row.name, row.summary, &introduce(row.paper)]);
    }
    align(&mut buffers, 3);
    let last = "ftlab schemes NAME explains one, with its parameters.";
    format!("{}\n{}\n{last}\n", trimmed(&table), trimmed(&buffers))
}

/// Parameters: name, default and range, what it means, and where it comes from.
fn parameters(rows: &[Parameter]) -> String {
    let explained = rows.iter().map(|parameter| {
        let Parameter { name, unit, default, range, text, source } = parameter;
        let default = format!("{default} {unit}");
        wrap(&format!("{name} = {} ({range}): {text} [{}]", default.trim_end(), cite(source)), "  ")
    });
    format!("\n{}", explained.collect::<String>())
}

/// Counters and their meanings.
fn counters<'a>(rows: impl Iterator<Item = &'a (&'a str, &'a str)>) -> String {
    let mut table = new_table();
    table.set_header(["counter", "meaning"]);
    rows.for_each(|&(name, meaning)| {
        table.add_row([name, meaning]);
    });
    align(&mut table, 2);
    format!("\n{}", trimmed(&table))
}

fn explain_buffer(row: &BufferRow) -> String {
    let mut text = wrap(&format!("{}: {}", row.name, row.summary), "  ");
    text += &wrap(&format!("paper: {}", cite(row.paper)), "  ");
    text += &references(row.paper).map(|reference| wrap(&reference, "  ")).collect::<String>();
    text += &wrap(&format!("Put it in front of the schemes with --buffer {}:SIZE, such as 1MiB.", row.name), "");
    if !row.parameters.is_empty() {
        text += &parameters(row.parameters);
        text += &format!("\nSet one with --set {}.PARAMETER=VALUE.\n", row.name);
    }
    text + &counters(COUNTERS.iter())
}

/// A scheme, with the parameters that are its own; with `all`, those of its parts too, and its counters.
fn explain_scheme(row: &Scheme, all: bool) -> String {
    let mut text = wrap(&format!("{}: {}", row.name, row.summary), "  ");
    text += &wrap(&format!("paper: {}", cite(row.paper)), "  ");
    text += &references(row.paper).map(|reference| wrap(&reference, "  ")).collect::<String>();
    text += if row.own.is_empty() { "\nIt has no parameters of its own.\n" } else { "" };
    text += &parameters(row.own);
    text += if row.parts.is_empty() || all { "" } else { "\n" };
    for part in row.parts {
        text += &if all {
            format!("\n{}:\n{}", part.title, parameters(part.rows))
        } else {
            let names: Vec<_> = part.rows.iter().map(|parameter| parameter.name).collect();
            wrap(&format!("{}: {}", part.title, names.join(", ")), "  ")
        };
    }
    if row.parameters().next().is_some() {
        let more = if all { "" } else { " With --all, every parameter and counter is explained." };
        text += &format!("\nSet one with --set {}.PARAMETER=VALUE.{more}\n", row.name);
    }
    if all && !row.counters.is_empty() {
        text += &counters(row.counters.iter().copied().flatten());
    }
    if !row.phases.is_empty() {
        let phases: Vec<_> = row.phases.iter().map(|cause| cause.name()).collect();
        text += &format!("\n{}", wrap(&format!("phases that change the flash: {}", phases.join(", ")), "  "));
    }
    text
}

fn list_devices() -> String {
    let mut table = new_table();
    table.set_header(["device\n", "what it is\n", "cell\n", "page\nbytes", "read\nµs", "program\nµs", "erase\nµs"]);
    for row in PRESETS {
        let shown = |value: f64| ((value * 10.0).round() / 10.0).to_string();
        table.add_row([
            row.name.to_owned(),
            row.summary.to_owned(),
            row.cell.name().to_owned(),
            shown(row.page.value),
            shown(row.read_us.value),
            shown(row.program_us.value),
            shown(row.erase_us.value),
        ]);
    }
    align(&mut table, 3);
    trimmed(&table)
        + "\nftlab devices NAME says where each number of a device comes from; NAME:KEY=VALUE,… or\nFILE.toml what \
         becomes of keys of your own.\n"
}

/// A device of one's own, as a run has it.
fn resolve_device(name: &str) -> Result<String, CliError> {
    let spec = device_spec(Some(name))?;
    let device = spec.build(Some(GENERATED_BYTES)).map_err(CliError::new)?;
    let mut table = new_table();
    table.set_header(["key", "value"]);
    let mut fields = device_fields(&device);
    fields.extend(spec.ageing.fields());
    for (key, value) in &fields {
        table.add_row([key.as_str(), &plain(value)]);
    }
    align(&mut table, 1);
    let size = if spec.capacity().is_some() { "" } else { ", as large as for a generator" };
    Ok(wrap(&format!("{name}: as a run has it{size}"), "  ") + &format!("\n{}", trimmed(&table)))
}

fn explain_device(preset: &'static flash::device::Preset) -> String {
    let rows = sim::device::describe(preset);
    let (words, numbers): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.origin.is_empty());
    let mut text = String::new();
    let (notes, words): (Vec<_>, Vec<_>) = words.into_iter().partition(|row| row.label == "notes");
    for row in words {
        text += &wrap(&format!("{}: {}", row.label, row.value), "  ");
    }
    let mut table = new_table();
    table.set_header(["number", "from", "why", "value", "unit"]);
    for row in numbers {
        table.add_row([row.label, row.origin, row.why, &row.value, row.unit]);
    }
    align(&mut table, 3);
    if let Some(column) = table.column_mut(4) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    text += &format!("\n{}", trimmed(&table));
    for row in notes {
        text += &format!("\n{}", wrap(&format!("{}: {}", row.label, row.value), "  "));
    }
    debug_assert!(text.lines().all(|line| line.chars().count() <= usize::from(WIDTH)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Directory;

    /// Lines of a scheme without `--all`, at the most, the publications that it opens with among them.
    const SCREEN: usize = 68;

    fn fits(text: &str) {
        for line in text.lines() {
            assert!(line.chars().count() <= usize::from(WIDTH), "{line}\n{text}");
        }
    }

    #[test]
    fn everything_in_the_tables_is_shown_within_the_width() {
        fits(&list_schemes());
        for row in SCHEMES {
            let (text, all) = (explain_scheme(row, false), explain_scheme(row, true));
            fits(&text);
            fits(&all);
            assert!(text.lines().count() <= SCREEN, "{text}");
            let explained = |text: &str, name: &str| text.lines().any(|line| line.starts_with(&format!("{name} ")));
            assert!(row.own.iter().all(|parameter| explained(&text, parameter.name)), "{text}");
            assert!(row.parameters().all(|parameter| text.contains(parameter.name)), "{text}");
            assert!(row.parameters().all(|parameter| explained(&all, parameter.name)), "{all}");
            assert!(row.counters.iter().copied().flatten().all(|(name, _)| explained(&all, name)), "{all}");
        }
        for row in POLICIES {
            let text = explain_buffer(row);
            fits(&text);
            assert!(row.parameters.iter().all(|parameter| text.contains(parameter.name)), "{text}");
            assert!(text.contains("write_buffer_padding_reads"), "{text}");
        }
        fits(&list_devices());
        for preset in PRESETS {
            let text = explain_device(preset);
            fits(&text);
            assert!(text.contains("datasheet") || text.contains("assumed") || text.contains("simulator"), "{text}");
        }
    }

    #[test]
    fn pages_are_written_for_every_scheme_that_keeps_data() {
        let directory = Directory::new();
        let pages = directory.join("pages");
        let mut printed = Vec::new();
        schemes(&SchemesArgs { name: None, all: false, markdown: Some(Some(pages.clone())) }, &mut printed).unwrap();
        let printed = String::from_utf8(printed).unwrap();
        for row in SCHEMES.iter().filter(|row| row.keeps_data) {
            let page = pages.join(format!("{}.md", row.name));
            assert!(printed.contains(&format!("{}\n", page.display())), "{printed}");
            assert_eq!(std::fs::read_to_string(page).unwrap(), scheme_page::markdown(row));
        }
        let mut printed = Vec::new();
        schemes(&SchemesArgs { name: Some("page".to_owned()), all: false, markdown: Some(None) }, &mut printed)
            .unwrap();
        assert_eq!(String::from_utf8(printed).unwrap(), scheme_page::markdown(scheme("page").unwrap()));
    }

    #[test]
    fn a_device_of_ones_own_is_shown_as_a_run_has_it() {
        let mut printed = Vec::new();
        devices(Some("agrawal08:capacity=64MiB,spare=10%,program_us=250"), &mut printed).unwrap();
        let text = String::from_utf8(printed).unwrap();
        let row = |key: &str| text.lines().find(|line| line.split_whitespace().next() == Some(key)).map(str::to_owned);
        let value = |key: &str| row(key).and_then(|row| Some(row.split_whitespace().nth(1)?.to_owned()));
        assert_eq!(value("capacity").as_deref(), Some("67108864"), "{text}");
        assert_eq!((value("blocks_per_die").as_deref(), value("program_us").as_deref()), (Some("36"), Some("250.0")));
        let mut none = Vec::new();
        let error = devices(Some("agrawal08:chanels=4"), &mut none).unwrap_err();
        assert!(error.message().contains("did you mean channels?"), "{}", error.message());
    }

    #[test]
    fn unknown_names_are_answered_with_the_nearest() {
        let mut none = Vec::new();
        let asked = SchemesArgs { name: Some("dtfl".to_owned()), all: false, markdown: None };
        let error = schemes(&asked, &mut none).unwrap_err();
        assert_eq!(error.message(), "unknown scheme \"dtfl\"; did you mean \"dftl\"?");
        let error = devices(Some("agrawal8"), &mut none).unwrap_err();
        assert_eq!(error.message(), "unknown device \"agrawal8\"; did you mean \"agrawal08\"?");
        assert!(none.is_empty());
    }
}
