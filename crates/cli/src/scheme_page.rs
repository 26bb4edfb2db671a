//! A scheme's page of documentation, in Markdown: the essay at the top of its file and its table row, nothing else.
//!
//! Whoever reads the source, `ftlab schemes NAME` or the page reads the same words. An essay is Markdown already; what
//! every one of them must say is in [`PARTS`], and a test holds them to it.

use ftl::papers::{cite, references};
use ftl::{Group, Parameter, Scheme};

/// What the essay of a scheme that keeps data must contain: what a part begins with, and what it is about.
pub const PARTS: &[(&str, &str)] = &[
    ("The problem", "which problem the scheme solves, and how"),
    ("```text", "a drawing"),
    ("# Structures", "its structures in RAM and on flash, in bytes"),
    ("# Costs", "flash commands of each operation"),
    ("# Departures", "where it departs from the paper, and why"),
];

/// The essay of a scheme: the leading `//!` lines of its file, without their mark.
pub fn essay(row: &Scheme) -> String {
    let lines = row.essay.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect()
}

/// The parts of [`PARTS`] that an essay lacks: none of its lines begins with them.
pub fn lacking(essay: &str) -> Vec<&'static str> {
    let begins = |part: &str| essay.lines().any(|line| line.starts_with(part));
    PARTS.iter().filter(|(part, _)| !begins(part)).map(|(_, about)| *about).collect()
}

/// The page.
pub fn markdown(row: &Scheme) -> String {
    let mut page = format!("# {}\n\n{}.\n\nPaper: {}.\n", row.name, capital(row.summary), cite(row.paper));
    page += &references(row.paper).map(|reference| format!("\n- {}.", capital(&reference))).collect::<String>();
    page += if page.ends_with('\n') { "\n" } else { "\n\n" };
    // The page's own heading is the highest.
    page += &essay(row)
        .lines()
        .map(|line| format!("{}{line}\n", if line.starts_with('#') { "#" } else { "" }))
        .collect::<String>();
    page += "\n## Parameters\n\n";
    if row.parameters().next().is_none() {
        page += "None.\n";
    } else {
        page += &format!("Set one with `--set {}.PARAMETER=VALUE`.\n", row.name);
        let own = Group { title: "Its own", rows: row.own };
        for Group { title, rows } in core::iter::once(&own).chain(row.parts) {
            page += &format!("\n### {}\n\n", capital(title));
            page += &parameter_table(rows);
        }
    }
    if !row.counters.is_empty() {
        page += "\n## Counters\n\n| counter | meaning |\n|---|---|\n";
        page += &row
            .counters
            .iter()
            .copied()
            .flatten()
            .map(|(name, meaning)| format!("| `{name}` | {meaning} |\n"))
            .collect::<String>();
    }
    if !row.phases.is_empty() {
        let phases: Vec<_> = row.phases.iter().map(|cause| format!("`{}`", cause.name())).collect();
        page += &format!("\n## What changes the flash\n\n{}; power cuts are tried in each.\n", phases.join(", "));
    }
    page
}

/// Parameters as a table.
pub fn parameter_table(rows: &[Parameter]) -> String {
    let head = "| parameter | meaning | default | allowed | source |\n|---|---|---|---|---|\n";
    rows.iter().fold(head.to_owned(), |table, row| table + &parameter(row))
}

fn parameter(row: &Parameter) -> String {
    let default = format!("{} {}", row.default, row.unit);
    let (name, meaning, default) = (row.name, cell(row.text), default.trim_end());
    format!("| `{name}` | {meaning} | {default} | {} | {} |\n", cell(&row.range.to_string()), cell(&cite(row.source)))
}

/// A text that does not end its cell.
pub fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A text with a capital at its head.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftl::schemes::SCHEMES;

    #[test]
    fn every_essay_says_what_it_must() {
        for row in SCHEMES.iter().filter(|row| row.keeps_data && row.name != "canary") {
            let essay = essay(row);
            assert!(essay.starts_with('`'), "{}: an essay begins with the scheme's name", row.name);
            assert_eq!(lacking(&essay), Vec::<&str>::new(), "the essay of {} lacks these", row.name);
        }
        assert_eq!(lacking("# Structures\n\nNone.\n# Costs\n").len(), PARTS.len() - 2);
    }

    #[test]
    fn a_page_is_the_essay_and_the_row() {
        let row = ftl::schemes::by_name("dftl").unwrap();
        let page = markdown(row);
        assert!(page.starts_with("# dftl\n\nPage map on flash"), "{page}");
        let title = ftl::papers::by_key("dftl").unwrap().title;
        let opening = &format!(
            "\n\nPaper: DFTL.\n\n- DFTL. Gupta, Kim, Urgaonkar: {title}. ASPLOS 2009.\n\n`dftl` and `dftl-e`: "
        );
        assert!(page.contains(opening), "{page}");
        assert!(page.contains("\n## Structures\n") && !page.contains("//!") && !page.contains("use super"), "{page}");
        for parameter in row.parameters() {
            assert!(page.contains(&format!("| `{}` |", parameter.name)), "{}", parameter.name);
        }
        for (counter, _) in row.counters.iter().copied().flatten() {
            assert!(page.contains(&format!("| `{counter}` |")), "{counter}");
        }
        assert_eq!(page.matches("```").count() % 2, 0);
    }
}
