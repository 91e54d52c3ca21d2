//! How long a move takes against what it costs: one point for each variant or policy.

use super::svg::{Scale, escape, x_ticks, y_ticks};
use crate::lab::spread::Spread;
use std::fmt::Write;

const LEFT: f64 = 56.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 42.0;
/// Names stand at least so far below each other.
const NAME_HEIGHT: f64 = 17.0;

/// One variant, or one policy.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) name: String,
    /// Which of the page's colours.
    pub(super) colour: usize,
    /// Whether it is what the others differ from: drawn larger.
    pub(super) is_plain: bool,
    pub(super) seconds: Spread,
    pub(super) impact: Spread,
}

/// How the points are drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frontier {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Room for the names at the right.
    pub(super) names: f64,
    /// What the impact is.
    pub(super) impact: &'static str,
    /// Where it is good to be.
    pub(super) better: &'static str,
    /// Equal ratios the same distance apart on both axes; otherwise both start at 0.
    pub(super) is_log: bool,
}

/// What the axes cover.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reach {
    seconds: (f64, f64),
    impact: (f64, f64),
}

impl Reach {
    /// What covers all these points, and an impact of 1.
    pub(super) fn of<'a>(points: impl IntoIterator<Item = &'a Point>) -> Option<Reach> {
        let wider = |(low, high): (f64, f64), spread: &Spread| (low.min(spread.min), high.max(spread.max));
        let mut points = points.into_iter().peekable();
        let first = points.peek()?.seconds.min;
        let mut reach = Reach { seconds: (first, first), impact: (1.0, 1.0) };
        for point in points {
            reach.seconds = wider(reach.seconds, &point.seconds);
            reach.impact = wider(reach.impact, &point.impact);
        }
        Some(reach)
    }
}

impl Frontier {
    /// The points with whiskers; their names stand at the right, each tied to its point.
    pub(super) fn draw(&self, points: &[Point], reach: Reach) -> String {
        let (right, bottom) = (self.width - self.names, self.height - BOTTOM);
        let scale = |(low, high): (f64, f64), start, end| match self.is_log {
            true => Scale::log(low / 1.08, high * 1.08, start, end),
            false => Scale::linear(0.0, high * 1.04, start, end),
        };
        let (x, y) = (scale(reach.seconds, LEFT, right), scale(reach.impact, bottom, TOP));
        let mut svg = format!(
            "<div class=\"plot\"><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"duration against {}\">",
            self.width,
            self.height,
            escape(self.impact)
        );
        y_ticks(&mut svg, y, &y.ticks(5), (LEFT, right), super::trimmed);
        x_ticks(&mut svg, x, &x.ticks((right / 90.0) as usize), bottom, super::seconds);
        let one = y.at(1.0);
        let _ = write!(
            svg,
            "<line class=\"reference\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{one:.1}\" y2=\"{one:.1}\"/>\
             <text class=\"label\" x=\"{right}\" y=\"{}\" text-anchor=\"end\">duration of the move; {} is better</text>",
            self.height - 6.0,
            self.better
        );
        self.points(&mut svg, points, x, y);
        svg + "</svg></div>"
    }

    fn points(&self, svg: &mut String, points: &[Point], x: Scale, y: Scale) {
        let mut by_height: Vec<&Point> = points.iter().collect();
        by_height.sort_by(|a, b| b.impact.median.total_cmp(&a.impact.median));
        let names_at = self.width - self.names;
        let room = self.height - BOTTOM - TOP - NAME_HEIGHT * by_height.len() as f64;
        let mut name_y = TOP;
        for (index, point) in by_height.iter().enumerate() {
            let (at_x, at_y) = (x.at(point.seconds.median), y.at(point.impact.median));
            // As near to the point's own height as the names above and below allow.
            let lowest = TOP + room.max(0.0) + NAME_HEIGHT * index as f64;
            name_y = at_y
                .clamp(name_y + if index > 0 { NAME_HEIGHT } else { 4.0 }, lowest.max(name_y + NAME_HEIGHT));
            let _ = write!(
                svg,
                "<path class=\"whisker\" d=\"M{:.1} {at_y:.1}H{:.1}M{at_x:.1} {:.1}V{:.1}\"/>\
                 <path class=\"tie\" d=\"M{:.1} {at_y:.1}L{} {name_y:.1}\"/>",
                x.at(point.seconds.min),
                x.at(point.seconds.max),
                y.at(point.impact.min),
                y.at(point.impact.max),
                at_x + 7.0,
                names_at + 12.0
            );
            let _ = write!(
                svg,
                "<circle class=\"mark f{}\" cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"{}\"><title>{}: {:.2} s, {} {:.2}</title></circle>\
                 <text class=\"name{}\" x=\"{}\" y=\"{:.1}\">{}</text>",
                point.colour,
                if point.is_plain { 7.0 } else { 4.5 },
                escape(&point.name),
                point.seconds.median,
                escape(self.impact),
                point.impact.median,
                if point.is_plain { " strong" } else { "" },
                names_at + 16.0,
                name_y + 4.5,
                escape(&point.name)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axes_cover_all_points_and_no_impact() {
        let point = |seconds: [f64; 2], impact: [f64; 2]| Point {
            name: String::new(),
            colour: 0,
            is_plain: false,
            seconds: Spread::of(seconds).unwrap(),
            impact: Spread::of(impact).unwrap(),
        };
        assert_eq!(Reach::of([]), None);
        let points = [point([2.0, 3.0], [0.5, 0.7]), point([1.0, 2.5], [0.6, 0.9])];
        assert_eq!(Reach::of(&points), Some(Reach { seconds: (1.0, 3.0), impact: (0.5, 1.0) }));
    }
}
