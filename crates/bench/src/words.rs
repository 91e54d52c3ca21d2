//! Figures as people read them.

/// A number with three significant digits at least, thousands apart.
fn digits(x: f64) -> String {
    match x.abs() {
        x if x >= 99.95 => count(x.round() as u64),
        x if x >= 9.995 => format!("{x:.1}"),
        x if x >= 0.0995 => format!("{x:.2}"),
        0.0 => "0".to_owned(),
        x => format!("{x:.3}"),
    }
}

fn scaled(x: f64, steps: &[(f64, &str)]) -> String {
    let (size, unit) = steps.iter().find(|(size, _)| x >= *size).unwrap_or(&steps[steps.len() - 1]);
    format!("{} {unit}", digits(x / size))
}

/// Bytes.
pub fn bytes(x: f64) -> String {
    scaled(x, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")])
}

/// Operations per second.
pub fn rate(x: f64) -> String {
    format!("{}/s", count(x.round() as u64))
}

/// Microseconds.
pub fn micros(x: f64) -> String {
    scaled(x, &[(1e6, "s"), (1e3, "ms"), (1.0, "us")])
}

/// A count with its thousands apart.
pub fn count(number: u64) -> String {
    let text = number.to_string();
    let groups: Vec<&[u8]> = text.as_bytes().rchunks(3).rev().collect();
    groups
        .iter()
        .map(|group| std::str::from_utf8(group).expect("digits are text"))
        .collect::<Vec<_>>()
        .join(",")
}

/// So many of a thing.
pub fn counted(number: usize, thing: &str) -> String {
    format!("{} {thing}{}", count(number as u64), if number == 1 { "" } else { "s" })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
        assert_eq!([0, 1, 1000].map(|number| counted(number, "run")), ["0 runs", "1 run", "1,000 runs"]);
        assert_eq!(bytes(230_980_288.0), "231 MB");
        assert_eq!(bytes(12.0), "12.0 B");
        assert_eq!(micros(1234.0), "1.23 ms");
        assert_eq!(micros(0.5), "0.50 us");
        assert_eq!(rate(41_234.4), "41,234/s");
        assert_eq!([12.4, 130.0, 7_260.0].map(duration), ["12 s", "2 min", "2 h 01 min"]);
    }
}
