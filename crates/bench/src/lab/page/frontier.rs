//! How long a move takes against what it costs: one point for each variant.

use super::svg::{Scale, escape};
use crate::lab::spread::Spread;
use std::fmt::Write;

const WIDTH: f64 = 1080.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 300.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 42.0;
/// Names stand at least so far below each other.
const NAME_HEIGHT: f64 = 17.0;

/// One variant.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) name: String,
    /// Which of the page's colours.
    pub(super) colour: usize,
    /// Whether the protocol is unchanged.
    pub(super) is_plain: bool,
    pub(super) seconds: Spread,
    pub(super) during: Spread,
}

/// The points with whiskers; their names stand at the right, each tied to its point.
pub(super) fn frontier(points: &[Point]) -> String {
    if points.is_empty() {
        return String::new();
    }
    let most = |of: fn(&Point) -> f64| points.iter().map(of).fold(0.0, f64::max);
    let x = Scale::linear(0.0, most(|point| point.seconds.max) * 1.04, LEFT, WIDTH - RIGHT);
    let y = Scale::linear(0.0, most(|point| point.during.max).max(1.0) * 1.04, HEIGHT - BOTTOM, TOP);
    let mut svg = format!(
        "<div class=\"plot\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"duration against throughput\">"
    );
    for tick in y.ticks(5) {
        let at = y.at(tick);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{tick:.1}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0
        );
    }
    for tick in x.ticks(8) {
        let at = x.at(tick);
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - BOTTOM + 18.0,
            super::seconds(tick)
        );
    }
    let (right, one) = (WIDTH - RIGHT, y.at(1.0));
    let _ = write!(
        svg,
        "<line class=\"reference\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{one:.1}\" y2=\"{one:.1}\"/>\
         <text class=\"label\" x=\"{right}\" y=\"{}\" text-anchor=\"end\">duration of the move; up and left is better</text>",
        HEIGHT - 6.0
    );
    let svg = draw_points(svg, points, x, y);
    svg + "</svg></div>"
}

fn draw_points(mut svg: String, points: &[Point], x: Scale, y: Scale) -> String {
    let mut by_height: Vec<&Point> = points.iter().collect();
    by_height.sort_by(|a, b| b.during.median.total_cmp(&a.during.median));
    let room = HEIGHT - BOTTOM - TOP - NAME_HEIGHT * by_height.len() as f64;
    let mut name_y = TOP;
    for (index, point) in by_height.iter().enumerate() {
        let (at_x, at_y) = (x.at(point.seconds.median), y.at(point.during.median));
        // As near to the point's own height as the names above and below allow.
        let lowest = TOP + room.max(0.0) + NAME_HEIGHT * index as f64;
        name_y =
            at_y.clamp(name_y + if index > 0 { NAME_HEIGHT } else { 4.0 }, lowest.max(name_y + NAME_HEIGHT));
        let _ = write!(
            svg,
            "<path class=\"whisker\" d=\"M{:.1} {at_y:.1}H{:.1}M{at_x:.1} {:.1}V{:.1}\"/>\
             <path class=\"tie\" d=\"M{:.1} {at_y:.1}L{} {name_y:.1}\"/>",
            x.at(point.seconds.min),
            x.at(point.seconds.max),
            y.at(point.during.min),
            y.at(point.during.max),
            at_x + 7.0,
            WIDTH - RIGHT + 12.0
        );
        let _ = write!(
            svg,
            "<circle class=\"mark f{}\" cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"{}\"><title>{}: {:.2} s, {:.2} of the throughput before</title></circle>\
             <text class=\"name{}\" x=\"{}\" y=\"{:.1}\">{}</text>",
            point.colour,
            if point.is_plain { 7.0 } else { 4.5 },
            escape(&point.name),
            point.seconds.median,
            point.during.median,
            if point.is_plain { " strong" } else { "" },
            WIDTH - RIGHT + 16.0,
            name_y + 4.5,
            escape(&point.name)
        );
    }
    svg
}
