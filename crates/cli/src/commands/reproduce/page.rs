//! What was reproduced as a page to look at: for each experiment its figures and, where the paper has a curve, measured
//! lines with the published points that are in the text over them; and requests one by one, where the paper shows some.

use super::file::{Along, Curve, Experiment, Published, Row, microseconds};
use super::finding::{Finding, Found};
use super::render::{cells, label, ran_on, value_cells};
use super::{Reproduced, Window};
use crate::render::html;
use crate::render::svg::{Axis, Line, escape, figure, legend, nice_step, plot};
use crate::units;
use sim::report::RequestRecord;
use std::fmt::Write as _;

/// The page as text.
pub(super) fn page(done: &[Reproduced]) -> String {
    let mut body = String::new();
    for one in done {
        let experiment = &one.experiment;
        let name = format!("{}/{}: {}", experiment.paper.name, experiment.name, experiment.title);
        let _ = write!(
            body,
            "<section>\n<h2>{}</h2>\n<p class=\"note\">{}</p>\n<p>The paper: {}</p>\n",
            escape(&name),
            escape(&experiment.source),
            escape(&experiment.says)
        );
        for line in ran_on(one) {
            let _ = writeln!(body, "<p class=\"note\">{}</p>", escape(&line));
        }
        for curve in &experiment.curves {
            body.push_str(&drawn(curve, one, done));
        }
        if let Some(microscope) = &experiment.microscope {
            body.push_str(&requests(&one.windows, microscope.workload.get_ref()));
        }
        if !one.findings.is_empty() {
            let titles = ["figure", "workload", "ran on", "published", "measured", "deviation", "holds"];
            body.push_str(&table(titles.map(str::to_owned).into_iter(), cells(experiment, &one.findings)));
        }
        for (sensitivity, by_value) in experiment.sensitivities.iter().zip(&one.varied) {
            let titles = ["figure", "workload", "ran on"].map(str::to_owned).into_iter();
            let _ = writeln!(body, "<h3>{}</h3>", escape(&sensitivity.label));
            body.push_str(&table(titles.chain(sensitivity.values.iter().cloned()), value_cells(experiment, by_value)));
        }
        body.push_str("</section>\n");
    }
    let title = match done {
        [one] => format!("{}/{}: published and measured", one.experiment.paper.name, one.experiment.name),
        _ => "Published and measured".to_owned(),
    };
    html::page(&title, &body)
}

fn table(titles: impl Iterator<Item = String>, rows: Vec<Vec<String>>) -> String {
    let mut html = "<div class=\"scroll\"><table>\n<thead><tr>".to_owned();
    for title in titles {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(&title));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for cell in row {
            let _ = write!(html, "<td class=\"text\">{}</td>", escape(&cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html
}

/// Which line a figure belongs to, and which of its points it is.
fn place(curve: &Curve, experiment: &Experiment, finding: &Finding, varied: Option<&str>) -> Option<(String, usize)> {
    let row = &experiment.rows[finding.row];
    let at = |name: &str| curve.at.iter().position(|(point, _)| point == name);
    let drawn = curve.rows.contains(&row.label);
    let of = finding.of.as_deref();
    let ground = match finding.source.split_once(',') {
        // The number of requests stands with the workload.
        Some((twin, _)) => format!("{}, {twin}", finding.workload),
        None => format!("{}, {}", finding.workload, finding.source),
    };
    match &curve.along {
        Along::Workload => Some((label(row, finding), at(&finding.workload)?)).filter(|_| drawn),
        Along::Configuration => Some((format!("{}, {ground}", row.label), at(of?)?)).filter(|_| drawn),
        Along::Row => Some((format!("{}, {ground}", of.unwrap_or_default()), at(&row.label)?)),
        Along::Experiment => {
            Some((format!("{}, {ground}", of.unwrap_or_default()), at(&experiment.name)?)).filter(|_| drawn)
        }
        Along::Varied(_) => Some((format!("{}, {ground}", label(row, finding)), at(varied?)?)).filter(|_| drawn),
    }
}

/// The lines of a curve, in order of appearance.
pub(super) fn lines(curve: &Curve, one: &Reproduced, done: &[Reproduced]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut add = |experiment: &Experiment, finding: &Finding, varied: Option<&str>| {
        let row: &Row = &experiment.rows[finding.row];
        let Some((label, index)) = place(curve, experiment, finding, varied) else { return };
        let factor = if curve.log { microseconds(row).unwrap_or(1.0) } else { 1.0 };
        let line = match lines.iter_mut().position(|line| line.label == label) {
            Some(at) => &mut lines[at],
            None => {
                lines.push(Line { label, points: Vec::new(), published: Vec::new() });
                lines.last_mut().expect("one was pushed")
            }
        };
        if let Ok(Found::Number(number)) = &finding.measured {
            line.points.push((index as f64, number.value * factor));
        }
        if let Some(Published::Number(number)) = finding.published {
            line.published.push((index as f64, number * factor));
        }
    };
    match &curve.along {
        Along::Experiment => {
            let own = done.iter().filter(|other| other.experiment.paper.name == one.experiment.paper.name);
            for other in own {
                other.findings.iter().for_each(|finding| add(&other.experiment, finding, None));
            }
        }
        Along::Varied(name) => {
            for (sensitivity, by_value) in one.experiment.sensitivities.iter().zip(&one.varied) {
                if sensitivity.varied.name() != name {
                    continue;
                }
                for (value, findings) in sensitivity.values.iter().zip(by_value) {
                    findings.iter().for_each(|finding| add(&one.experiment, finding, Some(value)));
                }
            }
        }
        _ => one.findings.iter().for_each(|finding| add(&one.experiment, finding, None)),
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    lines.retain(|line| !line.points.is_empty() || !line.published.is_empty());
    lines
}

fn drawn(curve: &Curve, one: &Reproduced, done: &[Reproduced]) -> String {
    let lines = lines(curve, one, done);
    if !can_be_drawn(&lines, curve.log) {
        return format!("<p class=\"note\">{}: nothing was measured for it.</p>\n", escape(&curve.title));
    }
    let ticks: Vec<(f64, String)> =
        curve.at.iter().enumerate().map(|(index, (_, label))| (index as f64, escape(label))).collect();
    let axis = if curve.log { Axis::LogTime } else { Axis::Linear };
    let published = if lines.iter().any(|line| !line.published.is_empty()) {
        " Diamonds: published points of the line of their colour."
    } else {
        " The paper's own points are in a picture alone."
    };
    let caption = format!("Below: {}.{published}", escape(&curve.x));
    with_legend(&curve.title, &lines, &caption, &plot(&curve.title, &lines, &ticks, axis, 340.0, lines.len() <= 8))
}

/// A plot of these lines under its title.
fn with_legend(title: &str, lines: &[Line], caption: &str, svg: &str) -> String {
    let labels: Vec<String> = lines.iter().map(|line| line.label.clone()).collect();
    let caption = format!("<p class=\"note\">{caption}</p>\n");
    format!("<h3>{}</h3>\n{}{}", escape(title), legend(&labels), figure(svg, &caption))
}

/// What one request took of something, in nanoseconds.
type Taken = fn(&RequestRecord) -> u64;

/// How long the requests under the microscope waited and took, by their numbers; or why they were not looked at.
fn requests(windows: &[Window], workload: &str) -> String {
    let mut html = String::new();
    let mut seen = Vec::new();
    for window in windows {
        match &window.requests {
            Ok((from, records)) => seen.push((&window.configuration, *from, records)),
            Err(why) => {
                let what = format!("{}: not looked at: {why}", window.configuration);
                let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(&what));
            }
        }
    }
    let numbers = seen.iter().flat_map(|&(_, from, records)| [from, from + records.len() as u64 - 1]);
    let (Some(first), Some(last)) = (numbers.clone().min(), numbers.max()) else { return html };
    let step = nice_step((last - first) as f64 / 8.0).max(1.0) as u64;
    let ticks: Vec<(f64, String)> =
        (first.next_multiple_of(step)..=last).step_by(step as usize).map(|at| (at as f64, units::whole(at))).collect();
    let times: [(&str, Taken); 3] = [
        ("Response", |record| record.response_ns),
        ("Service", |record| record.service_ns),
        ("Wait before service", |record| record.queue_ns),
    ];
    for (what, taken) in times {
        let line = |&(name, from, records): &(&String, u64, &Vec<RequestRecord>)| Line {
            label: name.clone(),
            points: (from..).zip(records).map(|(at, record)| (at as f64, taken(record) as f64 / 1e6)).collect(),
            published: Vec::new(),
        };
        let lines: Vec<Line> = seen.iter().map(line).collect();
        let title = format!("{what} of each request, {workload}");
        let svg = plot(&title, &lines, &ticks, Axis::Linear, 260.0, false);
        html += &with_legend(&title, &lines, "Below: number of the request. At the side: ms.", &svg);
    }
    html
}

/// Whether there is anything to draw: a logarithm wants more than nothing.
fn can_be_drawn(lines: &[Line], log: bool) -> bool {
    lines.iter().flat_map(|line| line.points.iter().chain(&line.published)).any(|&(_, value)| !log || value > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_logarithm() {
        let line = |value| Line { label: "rose".into(), points: vec![(0.0, value)], published: Vec::new() };
        assert!(can_be_drawn(&[line(0.0)], false) && can_be_drawn(&[line(0.0), line(2.0)], true));
        assert!(!can_be_drawn(&[line(0.0)], true) && !can_be_drawn(&[], false));
        let ticks = [(0.0, "a".to_owned()), (1.0, "b".to_owned())];
        let svg = plot("t", &[line(0.0), line(2.0)], &ticks, Axis::LogTime, 200.0, true);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
