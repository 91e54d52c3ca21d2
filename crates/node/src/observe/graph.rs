//! LATENCY GRAPH: spikes as columns of letters, the oldest first.

use super::Spike;
use std::fmt::Write;

/// How many columns stand beside each other, and how high they are.
const COLUMNS: usize = 80;
const ROWS: u64 = 4;
/// The top of a column fills its row by a third, by two thirds, or wholly.
const TOPS: [char; 3] = ['_', 'o', '#'];
const FILLED: char = '|';

/// The height of each value in thirds of a row, from 0 on: the least is the lowest, the highest the tallest.
fn heights(spikes: &[Spike]) -> Vec<u64> {
    let steps = ROWS * TOPS.len() as u64;
    let (lowest, highest) = extremes(spikes);
    let span = (highest - lowest).max(1);
    spikes.iter().map(|(_, ms)| ((ms - lowest) * steps / span).min(steps - 1)).collect()
}

/// The least and the most milliseconds; 0 without a spike.
pub(crate) fn extremes(spikes: &[Spike]) -> (u64, u64) {
    let of = || spikes.iter().map(|(_, ms)| *ms);
    (of().min().unwrap_or(0), of().max().unwrap_or(0))
}

/// What a column shows in a row; rows are counted from the lowest.
fn letter(height: u64, row: u64) -> char {
    let thirds = TOPS.len() as u64;
    match height.checked_sub(row * thirds) {
        None => ' ',
        Some(above) if above < thirds => TOPS[above as usize],
        Some(_) => FILLED,
    }
}

/// How long ago, in at most four letters: `59s`, `3m`, `20h`, `9d`.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Draws spikes; below each stands from top to bottom how long ago it was.
pub(crate) fn graph(spikes: &[Spike], now_seconds: u64) -> String {
    let heights = heights(spikes);
    let ages: Vec<String> =
        spikes.iter().map(|(second, _)| age(now_seconds.saturating_sub(*second))).collect();
    let mut text = String::new();
    for (heights, ages) in heights.chunks(COLUMNS).zip(ages.chunks(COLUMNS)) {
        for row in (0..ROWS).rev() {
            let line: String = heights.iter().map(|&height| letter(height, row)).collect();
            writeln!(text, "{line}").expect("writing to a string cannot fail");
        }
        text.push('\n');
        let longest = ages.iter().map(String::len).max().unwrap_or(0);
        for place in 0..longest {
            let line: String = ages.iter().map(|age| age.chars().nth(place).unwrap_or(' ')).collect();
            writeln!(text, "{line}").expect("writing to a string cannot fail");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_high_as_their_spikes_were_long() {
        let spikes: Vec<Spike> = (0..=4).map(|step| (1_000 + step, 10 + step * 10)).collect();
        assert_eq!(extremes(&spikes), (10, 50));
        let drawn = graph(&spikes, 1_062);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines, ["   _#", "  _||", " _|||", "_||||", "", "11155", "mmm98", "   ss"]);
    }

    #[test]
    fn equal_spikes_are_low_and_many_take_two_graphs() {
        assert_eq!(graph(&[(5, 50)], 5), " \n \n \n_\n\n0\ns\n");
        let many: Vec<Spike> = (0..100).map(|second| (second, 7)).collect();
        let drawn = graph(&many, 100_000);
        let widths: Vec<usize> = drawn.lines().map(str::len).collect();
        assert_eq!(widths, [80, 80, 80, 80, 0, 80, 80, 20, 20, 20, 20, 0, 20, 20].to_vec());
    }

    #[test]
    fn ages_are_short() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (3_599, "59m"), (86_399, "23h"), (900_000, "10d")]
        {
            assert_eq!(age(seconds), text);
        }
    }
}
