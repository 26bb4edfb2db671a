//! With how much effort pages were programmed and which code they were read with, as rows for the table on the terminal
//! and for the page.

use super::rows::{Field, Rows, rows_of};
use super::svg::{escape, figure, open_svg, tick};
use crate::units;
use sim::ecc::Ecc;
use sim::report::{Interval, Report, SchemeResult};
use std::fmt::Write as _;

const COLUMNS: [Field; 9] = [
    ("low cost", "% writes", |result| percent(result, |ecc| ecc.low_cost_write_ratio)),
    ("low cost", "% copies", |result| percent(result, |ecc| ecc.low_cost_copy_ratio)),
    ("low cost", "% reads", |result| percent(result, |ecc| ecc.low_cost_read_ratio)),
    ("rewrites", "pages", |result| Some(units::whole(result.ecc.as_ref()?.rewrites))),
    ("read and written", "% pages", |result| percent(result, |ecc| ecc.overlap_ratio)),
    ("in windows", "% pages", |result| percent(result, |ecc| ecc.window_overlap_ratio)),
    ("write", "µs", |result| Some(units::number(result.response_us.as_ref()?.write.as_ref()?.mean))),
    ("read", "µs", |result| Some(units::number(result.response_us.as_ref()?.read.as_ref()?.mean))),
    ("queueing", "µs", |result| Some(units::number(result.queue_us.as_ref()?.mean))),
];

fn percent(result: &SchemeResult, share: fn(&Ecc) -> Option<f64>) -> Option<String> {
    Some(units::number(100.0 * share(result.ecc.as_ref()?)?))
}

/// A row for each run, also those without a policy, if one has one.
pub(super) fn rows(report: &Report) -> Option<Rows> {
    report.results.iter().find(|result| result.ecc.is_some())?;
    rows_of(report, &COLUMNS)
}

/// Columns of the picture, at the most.
const COLUMNS_OF_PICTURE: usize = 240;

/// What the host read and wrote over time and addresses, the dots of the differentiated-ECC paper's Figure 2: of the
/// first run that has it, for the requests are the same in all. Empty without a series or without a policy.
pub(super) fn picture(report: &Report) -> String {
    let Some(series) = report.results.iter().map(|result| &result.series).find(|series| has_pages(series)) else {
        return String::new();
    };
    let group = series.len().div_ceil(COLUMNS_OF_PICTURE);
    let columns: Vec<&[Interval]> = series.chunks(group).collect();
    let rows = series[0].page_reads.len();
    let (left, top, cell) = (8.0, 4.0, 6.0);
    let (width, height) = (880.0 / columns.len() as f64, rows as f64 * cell);
    let title = "Pages read (green, lower halves), written (red, upper halves) and both (amber), over simulated time \
                 and addresses";
    let mut svg = open_svg(height + 30.0, title);
    for (column, intervals) in columns.iter().enumerate() {
        for row in 0..rows {
            let sum = |pages: fn(&Interval) -> &Vec<u64>| {
                intervals.iter().filter_map(|interval| pages(interval).get(row)).sum::<u64>()
            };
            // Reads take the lower half of a cell and writes the upper one, so that colour is not the only sign.
            let (colour, from, size) =
                match (sum(|interval| &interval.page_reads), sum(|interval| &interval.page_writes)) {
                    (0, 0) => continue,
                    (_, 0) => ("#2e9e5b", cell / 2.0, cell / 2.0),
                    (0, _) => ("#d0493b", 0.0, cell / 2.0),
                    _ => ("#e0a526", 0.0, cell),
                };
            let (x, y) = (left + column as f64 * width, top + (rows - 1 - row) as f64 * cell + from);
            let _ = write!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.0}\" width=\"{width:.2}\" height=\"{size}\" fill=\"{colour}\"/>"
            );
        }
    }
    let seconds = series.last().map_or(0.0, |last| last.seconds);
    let _ = write!(
        svg,
        "<text x=\"{left}\" y=\"{:.0}\">0 s</text><text class=\"end\" x=\"888\" y=\"{:.0}\">{} s</text></svg>",
        height + 22.0,
        height + 22.0,
        tick(seconds)
    );
    let caption = format!("<p>{}; address 0 at the bottom, {rows} rows of equal size.</p>\n", escape(title));
    format!("<h3>Reads and writes by address</h3>\n{}", figure(&svg, &caption))
}

fn has_pages(series: &[Interval]) -> bool {
    series.len() > 1 && series.iter().any(|interval| !interval.page_reads.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with_series;
    use sim::ecc::ROWS;

    #[test]
    fn what_was_read_and_written_is_drawn_where_it_was() {
        let mut report = with_series();
        assert_eq!(picture(&report), "");
        let quiet = Interval { page_reads: vec![0; ROWS], page_writes: vec![0; ROWS], ..Interval::default() };
        let mut series = vec![quiet; 4];
        (series[0].page_reads[0], series[2].page_writes[ROWS - 1]) = (5, 1);
        (series[3].page_reads[7], series[3].page_writes[7]) = (2, 3);
        series[3].seconds = 40.0;
        report.results[0].series = series;
        let html = picture(&report);
        assert_eq!(html.matches("<rect").count(), 3, "{html}");
        let bottom = format!("<rect x=\"8.0\" y=\"{}\"", 4 + 6 * (ROWS - 1) + 3);
        assert!(html.contains(&bottom) && html.contains("<rect x=\"448.0\" y=\"4\""), "{html}");
        assert_eq!(["#2e9e5b", "#d0493b", "#e0a526"].map(|colour| html.matches(colour).count()), [1; 3]);
        assert!(html.contains("40 s</text>"));
    }

    #[test]
    fn the_table_stands_where_a_policy_was_asked() {
        let mut report = with_series();
        assert!(rows(&report).is_none());
        report.results[0].ecc = Some(Ecc { low_cost_write_ratio: Some(0.25), rewrites: 3, ..Ecc::default() });
        let (titles, rows) = rows(&report).unwrap();
        assert_eq!(titles[..2], [("low cost", "% writes"), ("rewrites", "pages")]);
        assert_eq!(rows[0].1[..2], ["25.0".to_owned(), "3".to_owned()]);
        assert!(rows[1..].iter().all(|(_, cells)| cells[0] == "-"));
    }
}
