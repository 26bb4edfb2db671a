//! The table on the terminal: at most 100 columns, units in the headers, the best value of each column marked, and two
//! sentences that say what the numbers mean.

use super::{causes, ecc, flows, headline, labels, meaning, mount, response, wear};
use crate::units;
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use sim::report::{Report, SchemeResult};

/// The widest line, in characters.
pub const WIDTH: u16 = 100;

/// One column of the summary: how it is headed, what it shows, and which value is best.
pub(super) struct Column {
    pub(super) title: String,
    pub(super) unit: &'static str,
    /// Whether a larger value is the better one.
    larger: bool,
    value: fn(&SchemeResult) -> Option<f64>,
    divisor: f64,
}

impl Column {
    /// The value as printed.
    pub(super) fn text(&self, result: &SchemeResult) -> Option<String> {
        Some(units::number((self.value)(result)? / self.divisor))
    }

    /// For each result whether it has the column's best value: as printed, so that a difference that cannot be seen
    /// marks nobody; runs that ended early do not compete.
    pub(super) fn best(&self, results: &[SchemeResult]) -> Vec<bool> {
        let competing = || results.iter().filter(|result| result.is_complete());
        let values = || competing().filter_map(self.value);
        let best = if self.larger { values().reduce(f64::max) } else { values().reduce(f64::min) };
        let best = best.map(|value| units::number(value / self.divisor));
        let distinct = competing().any(|result| self.text(result).is_some_and(|text| Some(text) != best));
        results.iter().map(|result| distinct && result.is_complete() && self.text(result) == best).collect()
    }
}

/// The summary's columns: those of which at least one result has a value, in units that suit the largest.
pub(super) fn columns(results: &[SchemeResult]) -> Vec<Column> {
    type Value = fn(&SchemeResult) -> Option<f64>;
    let response: [(&str, Value); 3] = [
        ("mean resp.", |result| Some(result.response_us.as_ref()?.mean)),
        ("p99 resp.", |result| Some(result.response_us.as_ref()?.p99)),
        ("p99.9 resp.", |result| Some(result.response_us.as_ref()?.p999)),
    ];
    let largest = |value: Value| results.iter().filter_map(value).fold(0.0, f64::max);
    let (time_unit, time_divisor) = time_unit(results);
    // A run that ended before it was measured has neither.
    fn measured(result: &&SchemeResult) -> bool {
        result.is_complete() || result.response_us.is_some()
    }
    let erases: Value = |result| Some(result).filter(measured).map(|result| result.flash.erases as f64);
    let (erase_unit, erase_divisor) = if largest(erases) >= 1e6 { ("x1000", 1e3) } else { ("blocks", 1.0) };
    let ram: Value = |result| Some(result).filter(measured).map(|result| result.sram_bytes as f64);
    let mut columns: Vec<Column> = response
        .into_iter()
        .map(|(title, value)| Column {
            title: title.to_owned(),
            unit: time_unit,
            larger: false,
            value,
            divisor: time_divisor,
        })
        .collect();
    let others: [(&str, &'static str, bool, Value, f64); 6] = [
        ("above page", "%", false, |result| result.t_pc, 1.0),
        ("WAF", "pages", false, |result| result.waf, 1.0),
        ("erases", erase_unit, false, erases, erase_divisor),
        ("cache hits", "%", true, |result| result.cache.as_ref()?.hit_ratio, 0.01),
        ("map time", "% flash", false, |result| result.tp_overhead, 0.01),
        ("total RAM", "KiB", false, ram, 1024.0),
    ];
    columns.extend(others.into_iter().map(|(title, unit, larger, value, divisor)| Column {
        title: title.to_owned(),
        unit,
        larger,
        value,
        divisor,
    }));
    columns.retain(|column| results.iter().any(|result| (column.value)(result).is_some()));
    columns
}

/// The unit of response times, and how many microseconds it has: one that suits the largest mean.
fn time_unit(results: &[SchemeResult]) -> (&'static str, f64) {
    let means = results.iter().filter_map(|result| Some(result.response_us.as_ref()?.mean));
    match means.fold(0.0, f64::max) {
        mean if mean >= 1e7 => ("s", 1e6),
        mean if mean >= 1e4 => ("ms", 1e3),
        _ => ("µs", 1.0),
    }
}

/// The report as text; `verbose` adds what every flash command was for.
pub fn render(report: &Report, verbose: bool) -> String {
    let mut text = wrap(&headline(report), "");
    for assumption in &report.assumptions {
        text.push_str(&wrap(&format!("assumed: {assumption}"), "  "));
    }
    if report.results.is_empty() {
        text.push_str("nothing was run\n");
        return text;
    }
    text.push('\n');
    if !columns(&report.results).is_empty() {
        text.push_str(&summary(report));
    }
    text.push_str(&confidence(report));
    if verbose || wear::is_asked_for(report) {
        text.push_str(&worn(report));
    }
    if let Some(rows) = ecc::rows(report) {
        text.push_str("\nerror correction of host pages, and mean response times:\n");
        text.push_str(&small(rows));
    }
    if let Some(rows) = mount::rows(report) {
        text.push_str(
            "\nmounting from flash: a scan of all spare areas, or the controller's state from metadata pages:\n",
        );
        text.push_str(&small(rows));
    }
    if let Some(rows) = flows::rows(report) {
        text.push_str("\nflows that shared the device, and how much longer they took than alone:\n");
        text.push_str(&small(rows));
    }
    if verbose && report.results.iter().any(|result| !result.by_cause.is_empty()) {
        text.push('\n');
        text.push_str(&by_cause(report));
    }
    if let Some(rows) = response::rows(report).filter(|_| verbose) {
        text.push_str("\nwhere response times went: a request's own commands, and what it waited for:\n");
        text.push_str(&small(rows));
    }
    for (label, result) in labels(report).iter().zip(&report.results) {
        if result.ended_early() {
            text.push_str(&wrap(&format!("! {label} ended early: {}", result.ended), "  "));
        }
    }
    text.push('\n');
    for sentence in meaning(report) {
        text.push_str(&wrap(&sentence, ""));
    }
    text
}

fn summary(report: &Report) -> String {
    let results = &report.results;
    let columns = columns(results);
    let best: Vec<Vec<bool>> = columns.iter().map(|column| column.best(results)).collect();
    let mut table = new_table();
    let header = columns.iter().map(|column| format!("{} \n{} ", column.title.replace(' ', " \n"), column.unit));
    let height = columns.iter().map(|column| column.title.split(' ').count()).max().unwrap_or(1);
    table.set_header(std::iter::once("scheme".to_owned()).chain(header).map(|title| {
        // Headers stand on the rule, so that units line up.
        let missing = (height + 1).saturating_sub(title.lines().count());
        Cell::new(format!("{}{title}", "\n".repeat(missing)))
    }));
    for (row, (label, result)) in labels(report).into_iter().zip(results).enumerate() {
        let label = if result.ended_early() { format!("! {label}") } else { label };
        let cells = columns.iter().zip(&best).map(|(column, best)| match column.text(result) {
            Some(text) => format!("{text}{}", if best[row] { '*' } else { ' ' }),
            None => "- ".to_owned(),
        });
        table.add_row(std::iter::once(label).chain(cells));
    }
    align(&mut table, 1);
    let mut text = trimmed(&table);
    if best.iter().flatten().any(|&best| best) {
        text.push_str("* best of its column\n");
    }
    text
}

/// A small table: columns (title, unit) and per run a label with its cells.
pub(super) type Estimates = (Vec<(&'static str, &'static str)>, Vec<(String, Vec<String>)>);

/// What repeated runs say about the main metrics; nothing after single runs.
pub(super) fn estimates(report: &Report) -> Option<Estimates> {
    let (time_unit, time_divisor) = time_unit(&report.results);
    let metrics: [(&str, &str, &str, f64); 6] = [
        ("response_us.mean", "mean resp.", time_unit, time_divisor),
        ("response_us.p99", "p99 resp.", time_unit, time_divisor),
        ("waf", "WAF", "pages", 1.0),
        ("flash.erases", "erases", "blocks", 1.0),
        ("cache.hit_ratio", "cache hits", "%", 0.01),
        ("tp_overhead", "map time", "% flash", 0.01),
    ];
    let repeats = || report.results.iter().filter_map(|result| result.repeats.as_ref());
    let shown: Vec<_> =
        metrics.into_iter().filter(|(key, ..)| repeats().any(|repeats| repeats.metrics.contains_key(*key))).collect();
    repeats().next()?;
    let rows = labels(report).into_iter().zip(&report.results).map(|(label, result)| {
        let cells = shown.iter().map(|&(key, _, _, divisor)| {
            let estimate = result.repeats.as_ref().and_then(|repeats| repeats.metrics.get(key));
            estimate.map_or_else(
                || "-".to_owned(),
                |e| format!("{} ± {}", units::number(e.mean / divisor), units::number(e.half_width_95 / divisor)),
            )
        });
        (label, cells.collect())
    });
    Some((shown.iter().map(|&(_, title, unit, _)| (title, unit)).collect(), rows.collect()))
}

fn confidence(report: &Report) -> String {
    let Some(estimates) = estimates(report) else { return String::new() };
    let runs = report.results.iter().find_map(|result| result.repeats.as_ref()).map_or(0, |repeats| repeats.n);
    format!(
        "\nmeans over {runs} runs under different seeds, ± half of the 95 % confidence interval:\n{}",
        small(estimates)
    )
}

/// How evenly blocks were worn, and what was done about it.
fn worn(report: &Report) -> String {
    wear::rows(report).map_or_else(String::new, |rows| format!("\nerases of each block:\n{}", small(rows)))
}

/// A table of labels and cells.
fn small((columns, rows): Estimates) -> String {
    let mut table = new_table();
    let titles = columns.iter().map(|(title, unit)| format!("{title}\n{unit}"));
    table.set_header(std::iter::once("\nscheme".to_owned()).chain(titles));
    for (label, cells) in rows {
        table.add_row(std::iter::once(label).chain(cells));
    }
    align(&mut table, 1);
    trimmed(&table)
}

/// Every command by its cause: counts, time, share.
fn by_cause(report: &Report) -> String {
    let results = &report.results;
    type Count = fn(&sim::report::CauseTotals) -> u64;
    let counts: [(&str, Count); 5] = [
        ("reads\npages", |totals| totals.reads),
        ("OOB reads\npages", |totals| totals.oob_reads),
        ("programs\npages", |totals| totals.programs),
        ("partial\nprograms", |totals| totals.partial_programs),
        ("erases\nblocks", |totals| totals.erases),
    ];
    let shown: Vec<&(&str, Count)> = counts
        .iter()
        .filter(|(_, count)| results.iter().flat_map(|result| result.by_cause.values()).any(|totals| count(totals) > 0))
        .collect();
    let mut table = new_table();
    let titles = shown.iter().map(|(title, _)| *title);
    table.set_header(["\nscheme", "\ncause"].into_iter().chain(titles).chain(["time\ns", "share\n%"]).map(Cell::new));
    for (label, result) in labels(report).iter().zip(results) {
        for (index, (cause, totals)) in causes(result).into_iter().enumerate() {
            let head = if index == 0 { label.clone() } else { String::new() };
            let numbers = shown.iter().map(|(_, count)| units::whole(count(totals)));
            let share = 100.0 * super::share(result, cause);
            table.add_row(
                [head, cause.to_owned()]
                    .into_iter()
                    .chain(numbers)
                    .chain([units::number(totals.us / 1e6), format!("{share:.1}")]),
            );
        }
    }
    align(&mut table, 2);
    trimmed(&table)
}

pub(crate) fn new_table() -> Table {
    let mut table = Table::new();
    table
        .load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH);
    table
}

/// Texts to the left, numbers to the right, one blank between columns.
pub(crate) fn align(table: &mut Table, texts: usize) {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((u16::from(index > 0), 0));
        column.set_cell_alignment(if index < texts { CellAlignment::Left } else { CellAlignment::Right });
    }
}

pub(crate) fn trimmed(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Breaks a text into lines of at most [`WIDTH`] characters; lines after the first begin with `indent`.
pub(crate) fn wrap(text: &str, indent: &str) -> String {
    let mut wrapped = String::new();
    let mut width = 0;
    // A number and its unit stay together.
    let glued = [" %", " µs", " ms", " s"].iter().fold(text.to_owned(), |text, unit| {
        text.replace(&format!("{unit} "), &format!("{} ", unit.replace(' ', "\u{a0}")))
    });
    for word in glued.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > usize::from(WIDTH) {
            wrapped.push('\n');
            wrapped.push_str(indent);
            width = indent.len();
        } else if width > 0 {
            wrapped.push(' ');
            width += 1;
        }
        wrapped.push_str(&word.replace('\u{a0}', " "));
        width += length;
    }
    wrapped.push('\n');
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{eight, report, result, three};

    fn fits(text: &str) {
        for line in text.lines() {
            assert!(line.chars().count() <= usize::from(WIDTH), "{}: {line}\n{text}", line.chars().count());
        }
    }

    #[test]
    fn three_schemes_fit() {
        let text = render(&three(), true);
        println!("{text}");
        fits(&text);
        for expected in [
            "twin:financial1: 500,000 requests (19 % reads) on agrawal08 of 4 GiB, seed 1",
            "assumed: ",
            "µs",
            "KiB",
            "* best of its column",
            "translation_load",
            "page responds fastest",
        ] {
            assert!(text.contains(expected), "{expected}");
        }
        assert!(text.lines().all(|line| line.trim_end() == line));
        // Values of one run stand in one line.
        let row = text.lines().find(|line| line.starts_with("dftl-e")).unwrap();
        assert_eq!(row.split_whitespace().count(), 10, "{row}");
    }

    #[test]
    fn eight_schemes_with_extreme_numbers_fit() {
        let text = render(&eight(), true);
        println!("{text}");
        fits(&text);
        assert!(text.contains("ended early: device full: no block can be reclaimed"));
        let row = text.lines().find(|line| line.starts_with("dftl cache 4 MiB")).unwrap();
        assert_eq!(row.split_whitespace().count(), 13, "{row}");
    }

    #[test]
    fn the_best_is_marked_and_only_where_there_is_a_choice() {
        let text = render(&three(), false);
        let row = |name: &str| text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap().to_owned();
        assert!(row("page").contains("412*"), "{text}");
        assert!(!row("dftl").contains("1,804*"));
        assert!(row("dftl").contains("64.0*"), "{text}");
        let alone = render(&report(vec![result("page", 412.0, 1.62, 0.0)]), false);
        assert!(!alone.contains('*'), "{alone}");
        let equal = render(&report(vec![result("a", 412.0, 1.62, 0.0), result("b", 412.0, 1.62, 0.0)]), false);
        assert!(!equal.contains('*'), "{equal}");
    }

    #[test]
    fn runs_that_ended_early_win_nothing() {
        let mut lame = result("dftl", 1.0, 1.0, 0.5);
        lame.ended = "interrupted".into();
        let text = render(&report(vec![lame, result("page", 400.0, 2.0, 0.0), result("b", 500.0, 3.0, 0.0)]), false);
        let row = text.lines().find(|line| line.starts_with("! dftl")).unwrap();
        assert!(!row.contains('*'), "{text}");
        fits(&text);
        // Of a run that never began there are no numbers, not even zeros.
        let mut never = SchemeResult { scheme: "null".into(), ended: "interrupted".into(), ..SchemeResult::default() };
        let text = render(&report(vec![never.clone(), result("page", 400.0, 2.0, 0.0)]), false);
        let row = text.lines().find(|line| line.starts_with("! null ")).unwrap();
        assert!(!row.contains('0'), "{text}");
        never.scheme = "page".into();
        let text = render(&report(vec![never]), true);
        assert!(text.contains("! page ended early: interrupted") && !text.contains('─'), "{text}");
    }

    #[test]
    fn repeated_runs_show_their_confidence() {
        let mut report = three();
        for result in &mut report.results {
            let runs = [412.0, 430.0, 421.0].map(|mean| {
                let mut run = result.clone();
                run.response_us.as_mut().unwrap().mean = mean;
                run
            });
            *result = SchemeResult::repeated(runs.to_vec()).unwrap();
        }
        let text = render(&report, true);
        fits(&text);
        assert!(text.contains("means over 3 runs"), "{text}");
        // Standard deviation 9, Student's t 4.303: 4.303 * 9 / sqrt(3) = 22.4.
        assert!(text.contains("421 ± 22.4"), "{text}");
        assert!(crate::render::html::render(&report).contains("421 ± 22.4"));
        assert!(!render(&three(), true).contains('±'));
    }

    #[test]
    fn an_empty_report_says_so() {
        assert!(render(&report(vec![]), true).ends_with("nothing was run\n"));
    }
}
