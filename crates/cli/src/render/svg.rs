//! Plots as inline SVG, and what they are made of.

use crate::units;
use std::fmt::Write as _;

/// Width of the plots in SVG units; the page scales them.
pub(crate) const WIDTH: f64 = 900.0;

/// One of the lines of a plot: its name and its points, x and y in the plot's own units.
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Points that somebody published for it, drawn as diamonds.
    pub(crate) published: Vec<(f64, f64)>,
}

pub(crate) fn legend(labels: &[String]) -> String {
    let mut html = "<ul class=\"legend\">".to_owned();
    for (index, label) in labels.iter().enumerate() {
        let _ = write!(
            html,
            "<li><svg class=\"key\" viewBox=\"0 0 28 8\" aria-hidden=\"true\">\
             <path class=\"l{} d{}\" d=\"M0 4H28\"/></svg>\
             {}</li>",
            index % 8,
            index / 8 % 3,
            escape(label)
        );
    }
    html.push_str("</ul>\n");
    html
}

/// How values become heights.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    /// From 0.
    Linear,
    /// Logarithmic; the values are microseconds.
    LogTime,
}

impl Axis {
    fn map(self, value: f64) -> f64 {
        match self {
            Axis::Linear => value,
            Axis::LogTime => value.log10(),
        }
    }

    /// A value in words.
    fn text(self, value: f64) -> String {
        match self {
            Axis::Linear => tick(value),
            Axis::LogTime => units::time_us(value),
        }
    }

    /// Lower and upper end, and the marked values.
    fn scale(self, values: impl Iterator<Item = f64> + Clone) -> (f64, f64, Vec<(f64, String)>) {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        match self {
            Axis::Linear => {
                let step = nice_step(high.max(1e-9) / 4.0);
                let count = (high / step).ceil().max(1.0) as usize;
                let marks = (0..=count).map(|index| index as f64 * step).map(|mark| (mark, tick(mark)));
                (0.0, count as f64 * step, marks.collect())
            }
            Axis::LogTime => {
                let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
                let last = last.max(first + 1);
                let marks = (first..=last).map(|power| (f64::from(power), tick_time(10f64.powi(power))));
                (f64::from(first), f64::from(last), marks.collect())
            }
        }
    }
}

/// A round number without idle zeros: `20`, `0.5`, `1,500`.
pub(crate) fn tick(value: f64) -> String {
    let text = units::number(value);
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A power of ten of microseconds: `100 µs`, `1 ms`.
pub(crate) fn tick_time(us: f64) -> String {
    match us {
        _ if us < 0.5 => format!("{} ns", (us * 1e3).round()),
        _ if us < 500.0 => format!("{} µs", us.round()),
        _ if us < 5e5 => format!("{} ms", (us / 1e3).round()),
        _ => format!("{} s", units::whole((us / 1e6).round() as u64)),
    }
}

/// 1, 2 or 5 times a power of ten, at least `size`.
pub(crate) fn nice_step(size: f64) -> f64 {
    if size <= 0.0 || !size.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(size.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|&step| step >= size * 0.999_999)
        .unwrap_or(size)
}

/// A line plot; `named` writes each line's label at its end.
pub(crate) fn plot(
    title: &str,
    lines: &[Line],
    ticks: &[(f64, String)],
    axis: Axis,
    height: f64,
    named: bool,
) -> String {
    let labels: Vec<String> = lines.iter().map(|line| line.label.clone()).collect();
    let (left, top, bottom) = (76.0, 12.0, 30.0);
    let right = if named { label_width(&labels) + 8.0 } else { 24.0 };
    let usable = |point: &&(f64, f64)| axis == Axis::Linear || point.1 > 0.0;
    let all = |line: &'_ Line| line.points.iter().chain(&line.published).copied().collect::<Vec<_>>();
    let all: Vec<(f64, f64)> = lines.iter().flat_map(all).collect();
    let values = all.iter().filter(usable).map(|&(_, value)| value);
    let (low, high, marks) = axis.scale(values);
    let ends = ticks.iter().map(|&(x, _)| x).chain(all.iter().map(|&(x, _)| x));
    let (first, last) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
    let across = |x: f64| left + (x - first) / (last - first).max(1e-12) * (WIDTH - left - right);
    let up = |mapped: f64| height - bottom - (mapped - low) / (high - low).max(1e-12) * (height - top - bottom);
    let mut svg = open_svg(height, title);
    for (mark, name) in marks {
        let y = up(mark);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{left:.1} {y:.1}H{:.1}\"/>\
             <text class=\"end\" x=\"{:.1}\" y=\"{y:.1}\">{name}</text>",
            WIDTH - right,
            left - 8.0
        );
    }
    for (x, name) in ticks {
        let x = across(*x);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{x:.1} {top:.1}V{:.1}\"/>\
             <text class=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{name}</text>",
            height - bottom,
            height - bottom + 16.0
        );
    }
    let mut ends: Vec<(usize, f64)> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let points: Vec<(f64, f64)> =
            line.points.iter().filter(usable).map(|&(x, value)| (across(x), up(axis.map(value)))).collect();
        for (x, value) in line.published.iter().filter(usable) {
            let _ = write!(
                svg,
                "<path class=\"q q{}\" d=\"M{:.1} {:.1}l6 6l-6 6l-6 -6z\"><title>{}, published: {}</title></path>",
                index % 8,
                across(*x),
                up(axis.map(*value)) - 6.0,
                escape(&line.label),
                axis.text(*value)
            );
        }
        let Some(&(_, end)) = points.last() else { continue };
        ends.push((index, end));
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let _ = write!(
            svg,
            "<path class=\"l{} d{}\" d=\"M{}\"><title>{}</title></path>",
            index % 8,
            index / 8 % 3,
            path.join("L"),
            escape(&line.label)
        );
        if named {
            for ((x, y), (_, value)) in points.iter().zip(line.points.iter().filter(usable)) {
                let _ = write!(
                    svg,
                    "<circle class=\"p{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{}: {}</title></circle>",
                    index % 8,
                    escape(&line.label),
                    axis.text(*value)
                );
            }
        }
    }
    if named {
        // Labels at the ends of the lines, pushed apart where they would overlap.
        ends.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut free = top;
        for (index, end) in ends {
            let y = end.max(free);
            free = y + 15.0;
            let _ = write!(
                svg,
                "<text class=\"t{}\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                index % 8,
                WIDTH - right + 10.0,
                escape(&lines[index].label)
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

pub(crate) fn figure(svg: &str, caption: &str) -> String {
    format!("<div class=\"scroll\">{svg}</div>\n{caption}")
}

pub(crate) fn open_svg(height: f64, title: &str) -> String {
    let title = escape(title);
    format!("<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n")
}

/// Room for the longest label at the font size of the plots.
pub(crate) fn label_width(labels: &[String]) -> f64 {
    let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    (16.0 + 7.2 * longest as f64).clamp(60.0, 330.0)
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_no_idle_zeros() {
        for (value, text) in [(20.0, "20"), (0.5, "0.5"), (0.0, "0"), (100.0, "100"), (1500.0, "1,500"), (2.5, "2.5")] {
            assert_eq!(tick(value), text);
        }
    }

    #[test]
    fn published_points_are_drawn_within_the_scale() {
        let line = Line { label: "a".into(), points: vec![(0.0, 1.0), (1.0, 2.0)], published: vec![(1.0, 40.0)] };
        let ticks = [(0.0, "x".to_owned()), (1.0, "y".to_owned())];
        let svg = plot("t", &[line], &ticks, Axis::Linear, 200.0, true);
        assert_eq!(svg.matches("class=\"q q0\"").count(), 1);
        assert!(svg.contains("<title>a, published: 40</title>") && svg.contains("<title>a: 2</title>"), "{svg}");
        assert!(svg.contains(">40</text>"), "the axis reaches the published point: {svg}");
    }

    #[test]
    fn steps_are_round() {
        for (size, step) in [(0.3, 0.5), (1.0, 1.0), (11.0, 20.0), (600.0, 1000.0), (0.0, 1.0)] {
            assert!((nice_step(size) - step).abs() < 1e-9, "{size}");
        }
    }
}
