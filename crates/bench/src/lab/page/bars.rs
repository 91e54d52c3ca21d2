//! Bars with whiskers, one below the other, and a paper's figure as a diamond.

use super::svg::{Scale, escape};
use crate::lab::papers::PaperFigure;
use crate::lab::spread::Spread;
use std::fmt::Write;

const WIDTH: f64 = 1080.0;
const LEFT: f64 = 330.0;
const RIGHT: f64 = 170.0;
const ROW: f64 = 24.0;
const GAP: f64 = 12.0;
/// What a figure takes beside its bar.
const VALUE_ROOM: f64 = 70.0;

/// One bar.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    /// Which of the page's colours.
    pub(super) colour: usize,
    pub(super) spread: Spread,
    pub(super) paper: Option<&'static PaperFigure>,
    /// Whether a gap comes before it.
    pub(super) is_first_of_group: bool,
}

/// The bars, from 0. `reference` is a value to draw a thin line at.
pub(super) fn bars(bars: &[Bar], reference: Option<f64>, show: impl Fn(f64) -> String) -> String {
    let values = bars.iter().flat_map(|bar| [bar.spread.max, bar.paper.map_or(0.0, |paper| paper.value)]);
    let most = values.chain(reference).fold(0.0, f64::max);
    if bars.is_empty() {
        return String::new();
    }
    let gaps = bars.iter().skip(1).filter(|bar| bar.is_first_of_group).count() as f64;
    let height = bars.len() as f64 * ROW + gaps * GAP + 8.0;
    let x = Scale::linear(0.0, if most > 0.0 { most } else { 1.0 }, LEFT, WIDTH - RIGHT);
    let mut svg = format!("<div class=\"plot\"><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">");
    if let Some(reference) = reference {
        let at = x.at(reference);
        let _ =
            write!(svg, "<line class=\"reference\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"0\" y2=\"{height}\"/>");
    }
    let mut y = 4.0;
    for (index, bar) in bars.iter().enumerate() {
        if bar.is_first_of_group && index > 0 {
            y += GAP;
        }
        row(&mut svg, bar, x, y, &show);
        y += ROW;
    }
    svg + "</svg></div>"
}

fn row(svg: &mut String, bar: &Bar, x: Scale, y: f64, show: &impl Fn(f64) -> String) {
    let Spread { median, min, max, runs } = bar.spread;
    let middle = y + ROW / 2.0;
    let _ = write!(
        svg,
        "<text class=\"name\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
         <rect class=\"bar f{}\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\"/>",
        LEFT - 10.0,
        middle + 4.5,
        escape(&bar.label),
        bar.colour,
        middle - 7.0,
        (x.at(median) - LEFT).max(0.5)
    );
    let mut right = x.at(median);
    if runs > 1 {
        let _ = write!(
            svg,
            "<path class=\"whisker\" d=\"M{0:.1} {2:.1}H{1:.1}M{0:.1} {3:.1}v8M{1:.1} {3:.1}v8\"/>",
            x.at(min),
            x.at(max),
            middle,
            middle - 4.0
        );
        right = right.max(x.at(max));
    }
    let text = |svg: &mut String, x: f64, words: &str| {
        let (words, baseline) = (escape(words), middle + 4.5);
        let _ = write!(svg, "<text class=\"value\" x=\"{x:.1}\" y=\"{baseline:.1}\">{words}</text>");
    };
    let mut words = show(median);
    if let Some(paper) = bar.paper {
        let at = x.at(paper.value);
        let _ = write!(
            svg,
            "<path class=\"paper\" d=\"M{at:.1} {:.1}l5 6l-5 6l-5 -6z\"><title>paper: {} ({})</title></path>",
            middle - 6.0,
            show(paper.value),
            escape(paper.source)
        );
        // Each figure beside what it belongs to, where there is room for both.
        if at > right + VALUE_ROOM {
            text(svg, at + 14.0, &format!("paper {}", show(paper.value)));
        } else {
            right = right.max(at + 6.0);
            let _ = write!(words, " (paper {})", show(paper.value));
        }
    }
    text(svg, right + 8.0, &words);
}
