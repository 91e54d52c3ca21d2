//! A chart of lines with bands: medians, and how far the runs lie apart.

use super::svg::{Scale, escape, x_ticks, y_ticks};
use crate::lab::spread::Spread;
use std::fmt::Write;

const WIDTH: f64 = 1080.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 42.0;
/// What a band may add above the highest median before it is cut off.
const BAND_ROOM: f64 = 1.35;
/// A line that rises so many times as high as all others is cut off, so that they can be seen.
const OUTLIER: f64 = 4.0;
/// What is then left above them.
const OUTLIER_ROOM: f64 = 1.6;

/// One line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    /// Which of the page's colours.
    pub(super) colour: usize,
    pub(super) points: Vec<(f64, Spread)>,
    /// Where the move ended, if the x axis is time.
    pub(super) end: Option<f64>,
}

/// How the chart is drawn.
pub(super) struct LineChart<'a> {
    pub(super) x_label: &'a str,
    pub(super) y_label: &'a str,
    pub(super) x_tick: fn(f64) -> String,
    pub(super) y_tick: fn(f64) -> String,
    /// Equal ratios the same distance apart; otherwise the axis starts at 0.
    pub(super) is_log: bool,
    /// A value to draw a thin line at.
    pub(super) reference: Option<f64>,
    /// Whether each point gets a mark: for few points.
    pub(super) has_marks: bool,
    /// The only values to write at the x axis; none: round numbers.
    pub(super) x_values: Vec<f64>,
    /// What the x axis covers; otherwise what the points do.
    pub(super) x_range: Option<(f64, f64)>,
    /// Whether x is time and the move starts at 0.
    pub(super) has_start: bool,
}

impl LineChart<'_> {
    /// The chart with its legend, or nothing where there is nothing to draw.
    pub(super) fn draw(&self, lines: &[Line]) -> String {
        let points = || lines.iter().flat_map(|line| &line.points);
        let Some((left, right)) = bounds(points().map(|&(x, _)| x)) else { return String::new() };
        let (left, right) = self.x_range.unwrap_or((left, right));
        // Marks at the ends are to be seen whole.
        let room = if self.has_marks { (right - left) * 0.015 } else { 0.0 };
        let (left, right) = (left - room, right + room);
        let Some((low, high)) = bounds(points().flat_map(|(_, y)| [y.median, y.min.max(0.0)])) else {
            return String::new();
        };
        let highest = points().map(|(_, y)| y.max).fold(high, f64::max);
        let top = highest.min(high * BAND_ROOM).max(self.reference.unwrap_or(0.0) * 1.05);
        let outlier = if self.is_log { None } else { outlier(lines) };
        let top = outlier.map_or(top, |(_, _, others)| others * OUTLIER_ROOM);
        let x = Scale::linear(left, right, LEFT, WIDTH - RIGHT);
        let y = match self.is_log {
            true => {
                let least = points().map(|(_, y)| y.median).filter(|&y| y > 0.0).fold(high, f64::min);
                Scale::log(least.min(low.max(least * 0.7)), top, HEIGHT - BOTTOM, TOP)
            }
            false => Scale::linear(0.0, if top > 0.0 { top * 1.03 } else { 1.0 }, HEIGHT - BOTTOM, TOP),
        };
        let mut svg = legend(lines);
        let _ = write!(
            svg,
            "<div class=\"plot\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(self.y_label)
        );
        self.axes(&mut svg, x, y, (left, right));
        let _ = write!(
            svg,
            "<svg x=\"{LEFT}\" y=\"{TOP}\" width=\"{0}\" height=\"{1}\" viewBox=\"{LEFT} {TOP} {0} {1}\">",
            WIDTH - LEFT - RIGHT,
            HEIGHT - TOP - BOTTOM
        );
        for line in lines {
            band(&mut svg, line, x, y);
        }
        for line in lines {
            self.line(&mut svg, line, x, y);
        }
        svg.push_str("</svg></svg></div>");
        if let Some((name, peak, _)) = outlier {
            let _ = write!(
                svg,
                "<p class=\"papers\">{} rises to {}, beyond the picture.</p>",
                escape(name),
                (self.y_tick)(peak)
            );
        }
        svg
    }

    fn axes(&self, svg: &mut String, x: Scale, y: Scale, (left, right): (f64, f64)) {
        let bottom = HEIGHT - BOTTOM;
        y_ticks(svg, y, &y.ticks(5), (LEFT, WIDTH - RIGHT), self.y_tick);
        let values = if self.x_values.is_empty() { x.ticks(10) } else { self.x_values.clone() };
        x_ticks(svg, x, &values, bottom, self.x_tick);
        if let Some(reference) = self.reference {
            let at = y.at(reference);
            let _ = write!(
                svg,
                "<line class=\"reference\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
                WIDTH - RIGHT
            );
        }
        if self.has_start && left < 0.0 && right > 0.0 {
            let at = x.at(0.0);
            let _ = write!(
                svg,
                "<line class=\"start\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>"
            );
        }
        let _ = write!(
            svg,
            "<text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            HEIGHT - 6.0,
            escape(self.x_label)
        );
    }

    fn line(&self, svg: &mut String, line: &Line, x: Scale, y: Scale) {
        let points: Vec<String> =
            line.points.iter().map(|&(at, s)| format!("{:.1},{:.1}", x.at(at), y.at(s.median))).collect();
        let _ = write!(
            svg,
            "<polyline class=\"line s{}\" points=\"{}\"><title>{}</title></polyline>",
            line.colour,
            points.join(" "),
            escape(&line.name)
        );
        if self.has_marks {
            for &(at, spread) in &line.points {
                let _ = write!(
                    svg,
                    "<circle class=\"mark f{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{}: {} ({}..{})</title></circle>",
                    line.colour,
                    x.at(at),
                    y.at(spread.median),
                    escape(&line.name),
                    (self.y_tick)(spread.median),
                    (self.y_tick)(spread.min),
                    (self.y_tick)(spread.max)
                );
            }
        }
        if let Some((end, height)) = line.end.and_then(|end| Some((end, height_at(&line.points, end, y)?))) {
            let _ = write!(
                svg,
                "<circle class=\"end f{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"><title>{}: the move ended after {end:.2} s</title></circle>",
                line.colour,
                x.at(end),
                height,
                escape(&line.name)
            );
        }
    }
}

/// How high the line is drawn at `x`, between two of its points.
fn height_at(points: &[(f64, Spread)], x: f64, y: Scale) -> Option<f64> {
    let pair = points.windows(2).find(|pair| (pair[0].0..=pair[1].0).contains(&x))?;
    let share = (x - pair[0].0) / (pair[1].0 - pair[0].0);
    let (from, to) = (y.at(pair[0].1.median), y.at(pair[1].1.median));
    Some(from + (to - from) * share)
}

fn band(svg: &mut String, line: &Line, x: Scale, y: Scale) {
    if line.points.len() < 2 || line.points.iter().all(|(_, spread)| spread.runs < 2) {
        return;
    }
    let upper = line.points.iter().map(|&(at, s)| format!("{:.1},{:.1}", x.at(at), y.at(s.max)));
    let lower = line.points.iter().rev().map(|&(at, s)| format!("{:.1},{:.1}", x.at(at), y.at(s.min)));
    let points: Vec<String> = upper.chain(lower).collect();
    let _ = write!(svg, "<polygon class=\"band f{}\" points=\"{}\"/>", line.colour, points.join(" "));
}

/// The line that rises far above all others: its name, how high, and how high the others.
fn outlier(lines: &[Line]) -> Option<(&str, f64, f64)> {
    let peak = |line: &Line| line.points.iter().map(|(_, spread)| spread.median).fold(0.0, f64::max);
    let mut peaks: Vec<(&str, f64)> = lines.iter().map(|line| (line.name.as_str(), peak(line))).collect();
    peaks.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (&(name, highest), &(_, others)) = (peaks.first()?, peaks.get(1)?);
    (others > 0.0 && highest > OUTLIER * others).then_some((name, highest, others))
}

/// Names with the lines' looks.
pub(super) fn legend(lines: &[Line]) -> String {
    let mut html = "<p class=\"legend\">".to_owned();
    for line in lines {
        let _ = write!(
            html,
            "<span><svg width=\"26\" height=\"10\" aria-hidden=\"true\"><line class=\"line s{}\" x1=\"0\" x2=\"26\" y1=\"5\" y2=\"5\"/></svg>{}</span>",
            line.colour,
            escape(&line.name)
        );
    }
    html + "</p>"
}

fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |bounds, value| match bounds {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, values: &[f64]) -> Line {
        let points = values.iter().enumerate().filter_map(|(x, &y)| Some((x as f64, Spread::of([y])?)));
        Line { name: name.to_owned(), colour: 0, points: points.collect(), end: None }
    }

    #[test]
    fn one_line_far_above_all_others_is_an_outlier() {
        let (low, high) = (line("low", &[1.0, 2.0, 1.0]), line("high", &[1.0, 9.0]));
        assert_eq!(outlier(&[low.clone(), high.clone()]), Some(("high", 9.0, 2.0)));
        assert_eq!(outlier(&[low.clone(), line("near", &[7.9])]), None);
        assert_eq!(outlier(&[high]), None, "alone");
        assert_eq!(outlier(&[low, line("nothing", &[0.0])]), None, "the others have nothing to show");
    }

    #[test]
    fn the_dot_between_two_points_lies_on_the_line() {
        let line = line("", &[1.0, 3.0]);
        let y = Scale::linear(0.0, 4.0, 40.0, 0.0);
        assert_eq!(height_at(&line.points, 0.5, y), Some(20.0));
        assert_eq!(height_at(&line.points, 1.5, y), None);
    }
}
