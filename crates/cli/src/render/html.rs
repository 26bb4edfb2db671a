//! One page that explains a report: tables, and plots as inline SVG. It loads nothing, runs nothing, follows the
//! reader's light or dark scheme, and says every number of its plots in a table or a tooltip too.

use super::columns::{columns, estimates, identical};
use super::meaning::meaning;
use super::rows::Rows;
use super::svg::{Axis, Line, WIDTH, escape, figure, label_width, legend, nice_step, open_svg, plot, tick};
use super::words::{causes, headline, labels, phrase, plain, share};
use super::{ecc, flows, mount, response, wear};
use crate::error::CliError;
use crate::output;
use crate::units;
use serde_json::Value;
use sim::report::{Interval, Report, ResponseParts, SchemeResult};
use std::fmt::Write as _;
use std::path::Path;

/// Writes the page.
///
/// # Errors
/// The file cannot be written; nothing of it is left.
pub fn write(report: &Report, path: &Path) -> Result<(), CliError> {
    output::write_file(path, render(report).as_bytes())
}

/// The page as text.
pub fn render(report: &Report) -> String {
    let mut page = String::new();
    for sentence in meaning(report) {
        page.push_str(&format!("<p>{}</p>\n", escape(&sentence)));
    }
    page.push_str(&summary(report));
    page.push_str(&confidence(report));
    if report.results.iter().any(|result| !result.by_cause.is_empty()) {
        page.push_str(&section("Where the flash's time went", &(bars(report) + &cause_table(report))));
    }
    if report.results.iter().any(|result| result.response_by_cause.is_some()) {
        page.push_str(&section("Where the responses went", &responses(report)));
    }
    if report.results.iter().any(|result| result.response_us.is_some()) {
        page.push_str(&section("Response times", &(percentiles(report) + &latency_table(report))));
    }
    if let Some(rows) = wear::rows(report) {
        page.push_str(&section("How blocks were worn", &(small(rows) + &erases(report))));
    }
    if let Some(rows) = ecc::rows(report) {
        page.push_str(&section("Error correction of host pages", &small(rows)));
    }
    if let Some(rows) = mount::rows(report) {
        page.push_str(&section("Mounting after a power cut", &small(rows)));
    }
    if let Some(rows) = flows::rows(report) {
        page.push_str(&section("Flows that shared the device", &small(rows)));
    }
    if report.results.iter().any(|result| result.series.len() > 1) {
        page.push_str(&section("Over simulated time", &(series(report) + &ecc::picture(report))));
    }
    page.push_str(&section("What was run", &provenance(report)));
    self::page(&headline(report), &page)
}

/// A whole page of this style.
pub(crate) fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>ftlab: {title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         {body}</main>\n</body>\n</html>\n"
    )
}

/// The report in brief, for a page that has a style of its own: its sentences and the first table.
pub fn brief(report: &Report) -> String {
    let mut html = format!("<p><b>{}</b></p>\n", escape(&headline(report)));
    if report.results.is_empty() {
        html.push_str("<p>nothing was run</p>\n");
        return html;
    }
    html.push_str(&summary(report));
    for sentence in meaning(report) {
        html.push_str(&format!("<p>{}</p>\n", escape(&sentence)));
    }
    html
}

/// Means over repeated runs with their confidence; empty without them.
fn confidence(report: &Report) -> String {
    let Some(estimates) = estimates(report) else { return String::new() };
    let runs = report.results.iter().find_map(|result| result.repeats.as_ref()).map_or(0, |repeats| repeats.n);
    format!(
        "<p class=\"note\">Means over {runs} runs under different seeds, with the half-width of the 95 % confidence \
         interval:</p>\n{}{}",
        small(estimates),
        identical(report).map_or_else(String::new, |sentence| format!("<p class=\"note\">{}</p>\n", escape(&sentence)))
    )
}

/// A table of labels and cells.
fn small((columns, rows): Rows) -> String {
    let mut html = "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">scheme</th>".to_owned();
    for (title, unit) in columns {
        let _ = write!(html, "<th scope=\"col\">{title}<br><small>{unit}</small></th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (label, cells) in rows {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(&label));
        for cell in cells {
            let _ = write!(html, "<td>{}</td>", escape(&cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html
}

fn section(title: &str, body: &str) -> String {
    format!("<section>\n<h2>{title}</h2>\n{body}</section>\n")
}

fn summary(report: &Report) -> String {
    let columns = columns(&report.results);
    let best: Vec<Vec<bool>> = columns.iter().map(|column| column.best(&report.results)).collect();
    let mut html = "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">scheme</th>".to_owned();
    for column in &columns {
        let _ = write!(html, "<th scope=\"col\">{}<br><small>{}</small></th>", escape(&column.title), column.unit);
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (row, (label, result)) in labels(report).iter().zip(&report.results).enumerate() {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(label));
        for (column, best) in columns.iter().zip(&best) {
            let text = column.text(result).map_or_else(|| "–".to_owned(), |text| escape(&text));
            let cell = if best[row] { format!("<strong>{text}</strong>") } else { text };
            let _ = write!(html, "<td>{cell}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    if best.iter().flatten().any(|&best| best) {
        html.push_str("<p class=\"note\">Bold: best of its column.</p>\n");
    }
    for (label, result) in labels(report).iter().zip(&report.results).filter(|(_, result)| result.ended_early()) {
        let _ = writeln!(html, "<p class=\"warning\">{} ended early: {}</p>", escape(label), escape(&result.ended));
    }
    html
}

/// A piece of a bar.
struct Piece<'a> {
    cause: &'a str,
    /// Drawn lighter: what a request waited for, beside what was its own.
    light: bool,
    us: f64,
    /// What it is.
    text: String,
}

/// Horizontal bars, one per run, each of pieces stacked by cause.
fn stacked(report: &Report, title: &str, pieces: fn(&SchemeResult) -> Vec<Piece<'_>>) -> String {
    const ROW: f64 = 30.0;
    let labels = labels(report);
    let left = label_width(&labels);
    let right = 90.0;
    let total = |result: &SchemeResult| pieces(result).iter().map(|piece| piece.us).sum::<f64>();
    let longest = report.results.iter().map(total).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let scale = (WIDTH - left - right) / longest;
    let height = ROW * labels.len() as f64 + 8.0;
    let mut svg = open_svg(height, title);
    for (row, (label, result)) in labels.iter().zip(&report.results).enumerate() {
        let y = 4.0 + ROW * row as f64;
        let middle = y + ROW / 2.0 + 1.0;
        let _ = write!(svg, "<text class=\"end\" x=\"{:.1}\" y=\"{middle:.1}\">{}</text>", left - 8.0, escape(label));
        let (mut x, total) = (left, total(result));
        for Piece { cause, light, us, text } in pieces(result) {
            let width = us * scale;
            let _ = write!(
                svg,
                "<rect class=\"c{}{}\" x=\"{x:.2}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{:.1}\"><title>{}: {}: \
                 {} ({:.1} %)</title></rect>",
                cause_index(cause),
                if light { " light" } else { "" },
                y + 3.0,
                ROW - 6.0,
                escape(label),
                escape(&text),
                units::time_us(us),
                100.0 * us / total
            );
            x += width;
        }
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{middle:.1}\">{}</text>", x + 8.0, units::time_us(total));
    }
    svg.push_str("</svg>\n");
    svg
}

/// The colours of the causes for which this holds.
fn cause_legend(occurs: impl Fn(&str) -> bool) -> String {
    let mut legend = "<ul class=\"legend\">".to_owned();
    for (index, cause) in flash::Cause::ALL.iter().enumerate() {
        if occurs(cause.name()) {
            let _ = write!(legend, "<li><span class=\"swatch b{index}\"></span>{}</li>", escape(phrase(cause.name())));
        }
    }
    legend.push_str("</ul>\n");
    legend
}

/// Flash time by cause.
fn bars(report: &Report) -> String {
    fn pieces(result: &SchemeResult) -> Vec<Piece<'_>> {
        let piece = |(cause, totals): (_, &sim::report::CauseTotals)| Piece {
            cause,
            light: false,
            us: totals.us,
            text: format!("{cause}, {}", phrase(cause)),
        };
        causes(result).into_iter().map(piece).collect()
    }
    let svg = stacked(report, "Flash time by cause, one bar per run, in seconds", pieces);
    figure(&svg, &cause_legend(|cause| report.results.iter().any(|result| result.by_cause.contains_key(cause))))
}

/// Response time by what it went to, of all requests and of the slowest.
fn responses(report: &Report) -> String {
    fn pieces(of: &ResponseParts) -> Vec<Piece<'_>> {
        fn piece(part: response::Part<'_>) -> Piece<'_> {
            Piece { cause: part.cause, light: part.waits, us: part.us, text: part.name() }
        }
        response::parts(of).into_iter().map(piece).collect()
    }
    fn of_all(result: &SchemeResult) -> Vec<Piece<'_>> {
        result.response_by_cause.as_ref().map_or_else(Vec::new, |went| pieces(&went.mean))
    }
    fn of_slowest(result: &SchemeResult) -> Vec<Piece<'_>> {
        result.response_by_cause.as_ref().map_or_else(Vec::new, |went| pieces(&went.tail.parts))
    }
    let all = stacked(report, "Mean response time by what it went to, one bar per run", of_all);
    let slowest = stacked(report, "The same of the slowest requests", of_slowest);
    let occurs = |cause: &str| {
        let went = report.results.iter().filter_map(|result| result.response_by_cause.as_ref());
        let mut parts = went.flat_map(|went| [&went.mean, &went.tail.parts]);
        parts.any(|parts| parts.own.contains_key(cause) || parts.waited_for.contains_key(cause))
    };
    let colours = "<p class=\"note\">Full colour: the request's own commands. Light: what it waited behind.</p>\n";
    let title = "<p class=\"note\">The slowest requests, from the bucket of the 99th percentile on:</p>\n";
    let numbers = response::rows(report).map_or_else(String::new, |rows| {
        format!("<details><summary>The numbers</summary>\n{}</details>\n", small(rows))
    });
    figure(&all, &(cause_legend(occurs) + colours)) + title + &figure(&slowest, &numbers)
}

fn cause_index(cause: &str) -> usize {
    flash::Cause::ALL.iter().position(|known| known.name() == cause).unwrap_or(flash::Cause::ALL.len())
}

fn cause_table(report: &Report) -> String {
    let mut html = "<details><summary>The numbers</summary>\n<div class=\"scroll\"><table>\n<thead><tr>".to_owned();
    for title in ["scheme", "cause"] {
        let _ = write!(html, "<th scope=\"col\">{title}</th>");
    }
    for (title, unit) in [
        ("reads", "pages"),
        ("OOB reads", "pages"),
        ("programs", "pages"),
        ("partial programs", "pages"),
        ("erases", "blocks"),
        ("time", "s"),
        ("share", "%"),
    ] {
        let _ = write!(html, "<th scope=\"col\">{title}<br><small>{unit}</small></th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (label, result) in labels(report).iter().zip(&report.results) {
        for (cause, totals) in causes(result) {
            let _ =
                write!(html, "<tr><th scope=\"row\">{}</th><td class=\"text\">{}</td>", escape(label), escape(cause));
            for count in [totals.reads, totals.oob_reads, totals.programs, totals.partial_programs, totals.erases] {
                let _ = write!(html, "<td>{}</td>", units::whole(count));
            }
            let percent = 100.0 * share(result, cause);
            let _ = writeln!(html, "<td>{}</td><td>{percent:.1}</td></tr>", units::number(totals.us / 1e6));
        }
    }
    html.push_str("</tbody></table></div></details>\n");
    html
}

/// Percentiles of the response time, both axes logarithmic: each step to the right is ten times rarer.
fn percentiles(report: &Report) -> String {
    let marks = [("50 %", 0.5), ("95 %", 0.95), ("99 %", 0.99), ("99.9 %", 0.999), ("99.99 %", 0.9999)];
    let position = |share: f64| -(1.0 - share).log10();
    let lines: Vec<Line> = labels(report)
        .into_iter()
        .zip(&report.results)
        .filter_map(|(label, result)| {
            let latency = result.response_us.as_ref()?;
            let values = [latency.p50, latency.p95, latency.p99, latency.p999, latency.p9999];
            let points = marks.iter().zip(values).map(|(&(_, share), value)| (position(share), value));
            Some(Line { label, points: points.filter(|&(_, value)| value > 0.0).collect(), published: Vec::new() })
        })
        .collect();
    let ticks: Vec<(f64, String)> = marks.iter().map(|&(name, share)| (position(share), name.to_owned())).collect();
    // Tall enough that the labels at the lines' ends find room.
    let height = (15.0 * lines.len() as f64 + 60.0).max(380.0);
    let title = "Response time by percentile, logarithmic, one line per run";
    let svg = plot(title, &lines, &ticks, Axis::LogTime, height, true);
    figure(
        &svg,
        "<p class=\"note\">So many of the requests are answered within this time. Both axes are logarithmic.</p>\n",
    )
}

fn latency_table(report: &Report) -> String {
    let mut html = "<details><summary>The numbers</summary>\n<div class=\"scroll\"><table>\n<thead><tr>\
         <th scope=\"col\">scheme</th><th scope=\"col\">requests</th>"
        .to_owned();
    for title in ["mean", "stdev", "p50", "p95", "p99", "p99.9", "p99.99", "max"] {
        let _ = write!(html, "<th scope=\"col\">{title}<br><small>µs</small></th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (label, result) in labels(report).iter().zip(&report.results) {
        let Some(all) = &result.response_us else { continue };
        let kinds = [("all", Some(all)), ("reads", all.read.as_deref()), ("writes", all.write.as_deref())];
        for (kind, latency) in kinds.into_iter().filter_map(|(kind, latency)| Some((kind, latency?))) {
            let _ = write!(html, "<tr><th scope=\"row\">{}</th><td class=\"text\">{kind}</td>", escape(label));
            let l = latency;
            for value in [l.mean, l.stdev, l.p50, l.p95, l.p99, l.p999, l.p9999, l.max] {
                let _ = write!(html, "<td>{}</td>", units::number(value));
            }
            html.push_str("</tr>\n");
        }
    }
    html.push_str("</tbody></table></div></details>\n");
    html
}

/// Small plots over simulated time that share their x axis and their legend.
fn series(report: &Report) -> String {
    type Value = fn(&Interval) -> Option<f64>;
    let panels: [(&str, Axis, Value); 5] = [
        ("Requests per second", Axis::Linear, |interval| Some(interval.iops)),
        ("Mean response time", Axis::LogTime, |interval| interval.mean_us),
        ("99th percentile of the response time", Axis::LogTime, |interval| interval.p99_us),
        ("Write amplification (WAF)", Axis::Linear, |interval| interval.waf),
        ("Free blocks", Axis::Linear, |interval| Some(interval.free_blocks as f64)),
    ];
    let labels = labels(report);
    let end =
        report.results.iter().flat_map(|result| result.series.last()).map(|last| last.seconds).fold(0.0, f64::max);
    let step = nice_step(end / 6.0);
    let ticks: Vec<(f64, String)> = (0..=6)
        .map(|index| index as f64 * step)
        .filter(|&second| second <= end)
        .map(|second| (second, format!("{} s", tick(second))))
        .collect();
    let mut html = legend(&labels);
    for (title, axis, value) in panels {
        let lines: Vec<Line> = labels
            .iter()
            .zip(&report.results)
            .map(|(label, result)| Line {
                label: label.clone(),
                points: thinned(&result.series, value),
                published: Vec::new(),
            })
            .collect();
        if lines.iter().any(|line| line.points.len() > 1) {
            let svg =
                plot(&format!("{title} over simulated time, one line per run"), &lines, &ticks, axis, 220.0, false);
            let _ = write!(html, "<h3>{title}</h3>\n{}", figure(&svg, ""));
        }
    }
    html
}

/// The share of the blocks that were erased at most so often.
fn erases(report: &Report) -> String {
    let labels = labels(report);
    let line = |(label, result): (&String, &SchemeResult)| {
        let histogram = result.erase_count.as_ref().map(|count| &count.histogram[..]).unwrap_or_default();
        let blocks = histogram.iter().map(|bin| bin.blocks).sum::<u64>() as f64;
        let mut below = 0;
        let points = histogram.iter().map(|bin| {
            below += bin.blocks;
            (bin.to as f64, 100.0 * below as f64 / blocks)
        });
        let first = histogram.first().map(|bin| (bin.from as f64, 0.0));
        Line { label: label.clone(), points: first.into_iter().chain(points).collect(), published: Vec::new() }
    };
    let lines: Vec<Line> = labels.iter().zip(&report.results).map(line).collect();
    let most = lines.iter().flat_map(|line| line.points.last()).map(|&(erases, _)| erases).fold(0.0, f64::max);
    if most == 0.0 {
        return String::new();
    }
    let step = nice_step(most / 6.0).max(1.0);
    let ticks: Vec<(f64, String)> = (0..=6)
        .map(|index| index as f64 * step)
        .filter(|&erases| erases <= most)
        .map(|erases| (erases, tick(erases)))
        .collect();
    let title = "Share of the blocks, in percent, that were erased at most so often, one line per run";
    legend(&labels) + &figure(&plot(title, &lines, &ticks, Axis::Linear, 220.0, false), title)
}

/// At most 400 points: means over equal groups of intervals, so that a long run makes no large page.
fn thinned(series: &[Interval], value: fn(&Interval) -> Option<f64>) -> Vec<(f64, f64)> {
    let group = series.len().div_ceil(400).max(1);
    series
        .chunks(group)
        .filter_map(|chunk| {
            let values: Vec<f64> = chunk.iter().filter_map(value).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            (!values.is_empty()).then(|| (chunk[chunk.len() - 1].seconds, mean))
        })
        .collect()
}

fn provenance(report: &Report) -> String {
    let mut html = "<ul>\n".to_owned();
    let _ = writeln!(
        html,
        "<li>ftlab {}, report schema {}, seed {}</li>",
        escape(&report.ftlab),
        report.schema,
        report.seed
    );
    if let Some(hash) = &report.workload.sha256 {
        let _ = writeln!(html, "<li>{} has SHA-256 <code>{}</code></li>", escape(&report.workload.name), escape(hash));
    }
    for assumption in &report.assumptions {
        let _ = writeln!(html, "<li>Assumed: {}</li>", escape(assumption));
    }
    html.push_str("</ul>\n<div class=\"scroll\"><table>\n<thead><tr>");
    html.push_str("<th scope=\"col\">setting</th><th scope=\"col\" class=\"text\">value</th></tr></thead>\n<tbody>\n");
    let mut row = |name: &str, value: &Value| {
        let text = escape(&plain(value));
        let _ = writeln!(html, "<tr><th scope=\"row\">{}</th><td class=\"text wide\">{text}</td></tr>", escape(name));
    };
    for (group, fields) in [("device", &report.device), ("run", &report.run)] {
        fields.iter().for_each(|(key, value)| row(&format!("{group}.{key}"), value));
    }
    for (label, result) in labels(report).iter().zip(&report.results) {
        let params: Vec<String> =
            result.params.iter().map(|(key, value)| format!("{key} = {}", plain(value))).collect();
        row(label, &params.join(", ").into());
    }
    html.push_str("</tbody></table></div>\n");
    html
}

/// Eight line colours with a contrast of at least 3:1 to their background, light or dark; dashes tell runs apart beyond
/// eight, names stand beside lines, and tooltips name the parts of bars, so that colour is never the only sign.
const STYLE: &str = "
:root{color-scheme:light dark;--bg:#fff;--fg:#1c2024;--dim:#5c646c;--rule:#d9dde1;--warn:#a03000;
--k0:#1f6fb4;--k1:#c4501b;--k2:#2e8540;--k3:#9b3fa5;--k4:#a67c00;--k5:#0b8a8f;--k6:#c2366b;--k7:#6b6f76}
@media (prefers-color-scheme:dark){:root{--bg:#15181b;--fg:#e4e7ea;--dim:#a0a8b0;--rule:#363c42;--warn:#ff9a6b;
--k0:#5aa9ec;--k1:#f08a58;--k2:#62bd76;--k3:#cf83d8;--k4:#d8b040;--k5:#45c2c7;--k6:#f07aa5;--k7:#a3a8af}}
body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:1.35rem;line-height:1.3}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}h3{font-size:1rem;margin:1.2rem 0 .2rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--rule);text-align:right;white-space:nowrap}
thead th{vertical-align:bottom;font-weight:600;white-space:normal}thead small{color:var(--dim);font-weight:400}
th:first-child,.text{text-align:left}tbody th{font-weight:500}.wide{white-space:normal}
.note{color:var(--dim);font-size:.875rem;margin:.4rem 0}.warning{color:var(--warn)}
summary{cursor:pointer;margin:.6rem 0}
.plot{display:block;width:100%;min-width:36rem;height:auto}
.plot text{fill:var(--fg);font:13px system-ui,sans-serif;dominant-baseline:middle}
.plot rect{stroke:var(--bg);stroke-width:.7}.plot .end{text-anchor:end}.plot .middle{text-anchor:middle}
.grid{stroke:var(--rule);fill:none}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:0;margin:.5rem 0;font-size:.875rem}
.swatch{display:inline-block;width:.8rem;height:.8rem;margin-right:.4rem;border-radius:2px;vertical-align:-1px}
.key{width:28px;height:8px;margin-right:.4rem}
[class^='l']:is(path){fill:none;stroke-width:2}.d1{stroke-dasharray:7 4}.d2{stroke-dasharray:2 3}
.l0{stroke:var(--k0)}.l1{stroke:var(--k1)}.l2{stroke:var(--k2)}.l3{stroke:var(--k3)}
.l4{stroke:var(--k4)}.l5{stroke:var(--k5)}.l6{stroke:var(--k6)}.l7{stroke:var(--k7)}
.p0,.plot .t0{fill:var(--k0)}.p1,.plot .t1{fill:var(--k1)}.p2,.plot .t2{fill:var(--k2)}.p3,.plot .t3{fill:var(--k3)}
.p4,.plot .t4{fill:var(--k4)}.p5,.plot .t5{fill:var(--k5)}.p6,.plot .t6{fill:var(--k6)}.p7,.plot .t7{fill:var(--k7)}
.q{fill:var(--bg);stroke-width:2}
.q0{stroke:var(--k0)}.q1{stroke:var(--k1)}.q2{stroke:var(--k2)}.q3{stroke:var(--k3)}
.q4{stroke:var(--k4)}.q5{stroke:var(--k5)}.q6{stroke:var(--k6)}.q7{stroke:var(--k7)}
.light{fill-opacity:.45}
.c0{fill:#8a9199}.c1{fill:#7fb8e6}.c2{fill:#2f7fc1}.c3{fill:#174f86}.c4{fill:#d9682c}.c5{fill:#8fc99a}.c6{fill:#4ba35c}
.c7{fill:#23713a}.c8{fill:#b58bd0}.c9{fill:#d0a11d}.c10{fill:#c2366b}.c11{fill:#0b8a8f}.c12{fill:#7a4b2a}.c13{fill:#555}
.b0{background:#8a9199}.b1{background:#7fb8e6}.b2{background:#2f7fc1}.b3{background:#174f86}.b4{background:#d9682c}
.b5{background:#8fc99a}.b6{background:#4ba35c}.b7{background:#23713a}.b8{background:#b58bd0}.b9{background:#d0a11d}
.b10{background:#c2366b}.b11{background:#0b8a8f}.b12{background:#7a4b2a}
@media print{details{display:block}}
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Directory, eight, report, three, with_series};
    use sim::report::FlowResult;

    /// Every element is closed in order, every attribute quoted.
    fn well_formed(page: &str) {
        let mut open: Vec<&str> = Vec::new();
        let mut rest = page.strip_prefix("<!doctype html>").unwrap();
        while let Some(start) = rest.find('<') {
            assert!(!rest[..start].contains('>'), "stray > before {}", &rest[start..rest.len().min(start + 40)]);
            let end = start + rest[start..].find('>').expect("an open tag ends");
            let tag = &rest[start + 1..end];
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
                continue;
            }
            let name = tag.split([' ', '/']).next().unwrap();
            if !tag.ends_with('/') && !["meta", "br"].contains(&name) {
                open.push(name);
            }
            if name == "style" {
                let end = rest.find("</style>").unwrap();
                rest = &rest[end..];
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn pages_are_well_formed_and_self_contained() {
        for report in [three(), eight(), with_series(), report(vec![])] {
            let page = render(&report);
            well_formed(&page);
            for forbidden in ["http", "<script", "<link", "<img", "url(", "@import", "NaN", "inf\"", "src="] {
                assert!(!page.contains(forbidden), "{forbidden}");
            }
        }
    }

    #[test]
    fn names_are_escaped() {
        let mut report = three();
        report.workload.name = "<b>&\"x'".into();
        report.results[1].cache.as_mut().unwrap().hit_ratio = Some(0.9999);
        report.results[0].scheme = "<page>".into();
        let page = render(&report);
        well_formed(&page);
        assert!(page.contains("&lt;b&gt;&amp;&quot;x&#39;"));
        assert!(!page.contains("<page>"));
        assert!(page.contains("<strong>&gt;99.9</strong>"));
    }

    #[test]
    fn every_run_and_cause_is_drawn_and_labelled() {
        let page = render(&with_series());
        for expected in [
            "Where the responses went",
            "Where the flash&#39;s",
            "aria-label=\"Flash time by cause",
            "Free blocks",
            "99.99 %",
            "10 ms",
        ] {
            let found = page.contains(expected) || page.contains(&expected.replace("&#39;", "'"));
            assert!(found, "{expected}");
        }
        let bars = page.matches("<rect ").count();
        let pieces = |result: &SchemeResult| {
            let went = result.response_by_cause.as_ref().unwrap();
            let parts = [&went.mean, &went.tail.parts].map(|parts| parts.own.len() + parts.waited_for.len());
            result.by_cause.len() + parts.iter().sum::<usize>()
        };
        assert_eq!(bars, three().results.iter().map(pieces).sum::<usize>());
        let light = page.matches("light\"").count();
        assert_eq!(light, 2 * three().results.len(), "what is waited for");
        assert_eq!(page.matches("role=\"img\"").count(), page.matches("aria-label=").count());
        assert!(page.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn flows_have_a_section() {
        let mut report = three();
        assert!(!render(&report).contains("Flows that shared"));
        let flow = |name: &str| FlowResult { name: name.into(), host: "open".into(), ..FlowResult::default() };
        report.results[1].flows = vec![flow("zipf"), flow("<b>.spc")];
        let page = render(&report);
        well_formed(&page);
        assert!(page.contains("Flows that shared") && page.contains("dftl: 1 zipf") && page.contains("&lt;b&gt;"));
    }

    #[test]
    fn long_series_are_thinned() {
        let mut report = with_series();
        report.results[0].series = (0..100_000)
            .map(|second| Interval { seconds: f64::from(second), iops: 5.0, ..Interval::default() })
            .collect();
        assert!(render(&report).len() < 400_000);
    }

    #[test]
    fn writes_the_page_for_a_look() {
        let directory = Directory::new();
        let path = directory.join("report.html");
        write(&with_series(), &path).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("</html>\n"));
        if let Some(keep) = std::env::var_os("FTLAB_TEST_HTML") {
            write(&with_series(), Path::new(&keep)).unwrap();
            write(&eight(), &Path::new(&keep).with_extension("eight.html")).unwrap();
        }
        let error = write(&three(), &directory.join("none/report.html")).unwrap_err();
        assert!(error.to_string().contains("no directory"), "{error}");
        assert_eq!(directory.names(), ["report.html"]);
    }
}
