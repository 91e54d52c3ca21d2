//! Figures in a form for people.
//!
//! Stored bytes are in binary units, like their limits (`256mb` is 256 MiB). Transferred bytes are in decimal
//! ones, like networks and `--rate`.

pub use sidle_types::words::{count, counted};

/// A number with at least three significant digits, with separated thousands.
fn digits(x: f64) -> String {
    match x.abs() {
        x if x >= 99.95 => count(x.round() as u64),
        x if x >= 9.995 => format!("{x:.1}"),
        x if x >= 0.0995 => format!("{x:.2}"),
        0.0 => "0".to_owned(),
        x => format!("{x:.3}"),
    }
}

/// In the largest unit of which there is at least one, or the smallest.
fn scaled(x: f64, steps: &[(f64, &str)]) -> String {
    let (size, unit) = steps.iter().find(|(size, _)| x >= *size).unwrap_or(&steps[steps.len() - 1]);
    format!("{} {unit}", digits(x / size))
}

/// Transferred bytes, in decimal units.
pub fn bytes(x: f64) -> String {
    if x < 1e3 {
        return format!("{x:.0} B");
    }
    scaled(x, &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")])
}

/// Stored bytes, in binary units.
pub fn stored_bytes(bytes: u64) -> String {
    const UNITS: [(f64, &str); 4] = [
        ((1_u64 << 40) as f64, "TiB"),
        ((1 << 30) as f64, "GiB"),
        ((1 << 20) as f64, "MiB"),
        ((1 << 10) as f64, "KiB"),
    ];
    if bytes < 1 << 10 { format!("{bytes} B") } else { scaled(bytes as f64, &UNITS) }
}

/// Operations per second.
pub fn rate(x: f64) -> String {
    format!("{}/s", count(x.round() as u64))
}

/// Microseconds.
pub fn micros(x: f64) -> String {
    scaled(x, &[(1e6, "s"), (1e3, "ms"), (1.0, "us")])
}

/// A length of time, roughly.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h {:02} min", (seconds + 30) / 3600, (seconds + 30) % 3600 / 60),
    }
}

/// Microseconds as seconds, minutes and hours, for a live display.
pub fn clock(us: u64) -> String {
    let seconds = us / 1_000_000;
    match seconds {
        0..60 => format!("{:.1} s", us as f64 / 1e6),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A fraction in per cent; 100 only when it is all.
pub fn percent(fraction: f64) -> String {
    format!("{:.1} %", (fraction * 1000.0).floor() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!([12.0, 999.0, 1000.0, 230_980_288.0].map(bytes), ["12 B", "999 B", "1.00 kB", "231 MB"]);
        let stored = [12, 1 << 10, 256 << 20, 3 << 29, 5 << 40];
        assert_eq!(stored.map(stored_bytes), ["12 B", "1.00 KiB", "256 MiB", "1.50 GiB", "5.00 TiB"]);
        assert_eq!(micros(1234.0), "1.23 ms");
        assert_eq!(micros(0.5), "0.50 us");
        assert_eq!(rate(41_234.4), "41,234/s");
        assert_eq!([12.4, 130.0, 7_260.0].map(duration), ["12 s", "2 min", "2 h 01 min"]);
        assert_eq!([1_500_000, 61_000_000, 3_700_000_000].map(clock), ["1.5 s", "1:01 min", "1:01 h"]);
        assert_eq!([0.9999, 1.0].map(percent), ["99.9 %", "100.0 %"]);
    }
}
