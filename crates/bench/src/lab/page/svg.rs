//! Pieces of SVG that all charts share: escaping, ticks, scales.

use std::fmt::Write;

/// Text as it may stand in HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Round numbers within a range, about so many.
pub(super) fn ticks(from: f64, to: f64, about: usize) -> Vec<f64> {
    if to <= from {
        return vec![from];
    }
    let rough = (to - from) / about.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|&step| step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let first = (from / step - 1e-9).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    (first..=last).map(|number| number as f64 * step).collect()
}

/// Powers of ten within a range, with 2 and 5 times them where there are few.
fn log_ticks(from: f64, to: f64) -> Vec<f64> {
    let (low, high) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let digits: &[f64] = if high - low > 3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let all = (low..=high).flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
    all.filter(|tick| (from * 0.999..=to * 1.001).contains(tick)).collect()
}

/// From values to coordinates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    is_log: bool,
}

impl Scale {
    /// `from..to` onto `start..end`.
    pub(super) fn linear(from: f64, to: f64, start: f64, end: f64) -> Scale {
        Scale { from, to: if to > from { to } else { from + 1.0 }, start, end, is_log: false }
    }

    /// The same, equal ratios the same distance apart.
    pub(super) fn log(from: f64, to: f64, start: f64, end: f64) -> Scale {
        let from = from.max(1e-9);
        Scale { from, to: to.max(from * 1.5), start, end, is_log: true }
    }

    /// Where a value lies; what is beyond the ends lies a little beyond them.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.is_log {
            true => (value.max(self.from * 1e-3) / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        self.start + share.clamp(-0.5, 1.5) * (self.end - self.start)
    }

    /// Values to write beside the axis.
    pub(super) fn ticks(&self, about: usize) -> Vec<f64> {
        let by_ratio = if self.is_log { log_ticks(self.from, self.to) } else { Vec::new() };
        // Within less than a factor of two or so there may be none.
        if by_ratio.len() > 1 { by_ratio } else { ticks(self.from, self.to, about) }
    }
}

/// Values beside the y axis, each with a thin line from `left` to `right`.
pub(super) fn y_ticks(
    svg: &mut String,
    y: Scale,
    values: &[f64],
    (left, right): (f64, f64),
    show: impl Fn(f64) -> String,
) {
    for &value in values {
        let at = y.at(value);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            at + 4.0,
            escape(&show(value))
        );
    }
}

/// Values below the x axis, which lies at `bottom`.
pub(super) fn x_ticks(svg: &mut String, x: Scale, values: &[f64], bottom: f64, show: impl Fn(f64) -> String) {
    for &value in values {
        let at = x.at(value);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{}\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 5.0,
            bottom + 18.0,
            escape(&show(value))
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_range() {
        assert_eq!(ticks(0.0, 1.0, 5), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(-1.2, 3.4, 5), [-1.0, 0.0, 1.0, 2.0, 3.0]);
        assert_eq!(ticks(2.0, 2.0, 5), [2.0]);
        assert_eq!(log_ticks(90.0, 1100.0), [100.0, 200.0, 500.0, 1000.0]);
    }

    #[test]
    fn scales_reach_from_end_to_end() {
        let scale = Scale::linear(0.0, 2.0, 100.0, 0.0);
        assert_eq!((scale.at(0.0), scale.at(1.0), scale.at(2.0)), (100.0, 50.0, 0.0));
        let scale = Scale::log(1.0, 100.0, 0.0, 10.0);
        assert!((scale.at(10.0) - 5.0).abs() < 1e-9);
        assert_eq!(
            Scale::log(0.6, 0.9, 0.0, 10.0).ticks(3),
            [0.6000000000000001, 0.7000000000000001, 0.8, 0.9]
        );
    }

    #[test]
    fn nothing_ends_an_element_early() {
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
