//! The table on the terminal: at most 100 columns, units in the headers, the best value of each column marked, and two
//! sentences that say what the numbers mean.

use super::columns::{columns, estimates, identical};
use super::meaning::meaning;
use super::rows::Rows;
use super::text::{align, new_table, trimmed, wrap};
use super::words::{causes, headline, labels, share};
use super::{ecc, flows, mount, response, wear};
use crate::units;
use comfy_table::Cell;
use sim::report::Report;

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
        text.push_str(&format!("\n{}:\n", mount::title(report)));
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

fn confidence(report: &Report) -> String {
    let Some(estimates) = estimates(report) else { return String::new() };
    let runs = report.results.iter().find_map(|result| result.repeats.as_ref()).map_or(0, |repeats| repeats.n);
    format!(
        "\nmeans over {runs} runs under different seeds, ± half of the 95 % confidence interval; all else is\nof seed \
         {}:\n{}",
        report.seed,
        small(estimates)
    ) + &identical(report).map_or_else(String::new, |sentence| wrap(&sentence, ""))
}

/// How evenly blocks were worn, and what was done about it.
fn worn(report: &Report) -> String {
    wear::rows(report).map_or_else(String::new, |rows| format!("\nerases of each block:\n{}", small(rows)))
}

/// A table of labels and cells.
fn small((columns, rows): Rows) -> String {
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
            let percent = 100.0 * share(result, cause);
            table.add_row(
                [head, cause.to_owned()]
                    .into_iter()
                    .chain(numbers)
                    .chain([units::number(totals.us / 1e6), format!("{percent:.1}")]),
            );
        }
    }
    align(&mut table, 2);
    trimmed(&table)
}

#[cfg(test)]
mod tests {
    use super::super::text::WIDTH;
    use super::*;
    use crate::testing::{eight, report, result, three};
    use sim::report::SchemeResult;

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
            "twin:financial1 (rough): 500,000 requests (19 % reads) on agrawal08 of 4 GiB, seed 1",
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

    /// What broke: all that printed as the best did were marked.
    #[test]
    fn the_best_is_the_best_by_value() {
        let text = render(&report(vec![result("a", 412.0, 1.0, 0.0), result("b", 412.1, 1.0025, 0.0)]), false);
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(row("a ").contains("412*") && row("a ").contains("1.00*"), "{text}");
        assert!(!row("b ").contains('*'), "{text}");
    }

    /// What broke: one slow scheme had all others print in its unit, the best as 5.5e-4.
    #[test]
    fn units_suit_the_best_as_long_as_there_is_room() {
        let text = |slow: f64| render(&report(vec![result("a", 550.0, 1.0, 0.0), result("b", slow, 2.0, 0.0)]), false);
        assert!(text(2e7).contains("0.550*"), "{}", text(2e7));
        assert!(text(2e9).contains("5.5e-4*"), "{}", text(2e9));
        assert!(text(2e4).contains("0.550*"), "{}", text(2e4));
        [2e4, 2e7, 2e9].into_iter().for_each(|slow| fits(&text(slow)));
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

    /// What broke: runs that no seed changes were shown as three that agree.
    #[test]
    fn repeated_runs_that_are_identical_are_said_to_be() {
        let until = Some(sim::report::Until { iterations: 12.5, host_bytes_written: 5 << 40, ..Default::default() });
        let mut report = three();
        for result in &mut report.results {
            let run = SchemeResult { until: until.clone(), ..result.clone() };
            *result = SchemeResult::repeated(vec![run.clone(), SchemeResult { wall_seconds: 9.0, ..run }]).unwrap();
        }
        let text = render(&report, false);
        fits(&text);
        assert!(text.contains("\nThe 2 runs are identical in all that is compared: none of it is"), "{text}");
        assert!(text.contains("5,242,880 ± 0"), "{text}");
        let other = SchemeResult { waf: Some(9.0), ..report.results[1].clone() };
        report.results[1] = SchemeResult::repeated(vec![report.results[1].clone(), other]).unwrap();
        let expected = "The 2 runs of page, dftl-e are identical";
        assert!(render(&report, false).contains(expected), "{text}");
        assert!(crate::render::html::render(&report).contains(expected));
    }

    #[test]
    fn an_empty_report_says_so() {
        assert!(render(&report(vec![]), true).ends_with("nothing was run\n"));
    }
}
