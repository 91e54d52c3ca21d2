//! Figures as people read them.

/// Bytes with the largest unit that leaves a whole number before the point.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A count with its thousands apart.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Microseconds as seconds, minutes and hours.
pub(crate) fn duration(us: u64) -> String {
    let seconds = us / 1_000_000;
    match seconds {
        0..60 => format!("{:.1} s", us as f64 / 1e6),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A fraction in per cent; 100 only when it is all.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{:.1} %", (fraction * 1000.0).floor() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        for (number, text) in
            [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_990, "1.0 MB"), (2_500_000_000, "2.5 GB")]
        {
            assert_eq!(bytes(number), text);
        }
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        for (us, text) in [(1_500_000, "1.5 s"), (61_000_000, "1:01 min"), (3_700_000_000, "1:01 h")] {
            assert_eq!(duration(us), text);
        }
        assert_eq!(percent(0.9999), "99.9 %");
        assert_eq!(percent(1.0), "100.0 %");
    }
}
