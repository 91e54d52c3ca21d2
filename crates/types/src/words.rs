//! Numbers formatted for people: answers, errors, logs, tables.

/// A count with separated thousands: `1,234,567`.
pub fn count(number: u64) -> String {
    let text = number.to_string();
    let mut grouped = String::with_capacity(text.len() + text.len() / 3);
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number with its noun, whose plural takes an `s`: `1 tablet`, `2 tablets`.
pub fn counted(number: impl TryInto<u64>, thing: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_their_thousands_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn one_of_a_thing_is_no_plural() {
        assert_eq!([0, 1, 1000].map(|number| counted(number, "run")), ["0 runs", "1 run", "1,000 runs"]);
        assert_eq!((counted(1_u16, "slot"), counted(2_usize, "node")), ("1 slot".into(), "2 nodes".into()));
    }
}
