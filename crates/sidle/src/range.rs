//! The part of the data that a command names: slots, or positions.

use sidle_types::{Position, PositionRange, Slot};

/// Reads `A-B` or a single slot.
pub(crate) fn slots(text: &str) -> Result<PositionRange, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let slot = |text: &str| {
        text.trim().parse::<u16>().ok().and_then(Slot::new).ok_or_else(|| {
            format!("'{text}' is no slot: give one from 0 to 16383, or a range A-B, and run it once for each")
        })
    };
    let (first, last) = (slot(first)?, slot(last)?);
    PositionRange::of_slots(first, last).ok_or_else(|| format!("slots {first}-{last} end before they start"))
}

/// Reads `0x..-0x..`.
pub(crate) fn positions(text: &str) -> Result<PositionRange, String> {
    let (first, last) = text
        .split_once('-')
        .ok_or_else(|| format!("'{text}' is not a range of positions: give 0xFIRST-0xLAST"))?;
    let position = |text: &str| text.trim().parse::<Position>().map_err(|error| error.to_string());
    PositionRange::try_from((position(first)?, position(last)?)).map_err(|error| error.to_string())
}

/// The range as the words that `SIDLE.MIGRATE START` takes.
pub(crate) fn words(range: PositionRange) -> [String; 2] {
    if range.is_whole_slots() {
        let (first, last) = range.slots();
        ["SLOTS".to_owned(), format!("{first}-{last}")]
    } else {
        ["POSITIONS".to_owned(), format!("{}-{}", range.first(), range.last())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_take_one_or_two_numbers() {
        assert_eq!(slots("0-8191").unwrap().to_string(), "slots 0-8191");
        assert_eq!(slots("7").unwrap().to_string(), "slot 7");
        for bad in ["", "a", "5-", "9-3", "0-16384", "-1", "1,5"] {
            assert!(slots(bad).is_err(), "{bad}");
        }
        let refused = slots("1,5").unwrap_err();
        assert!(refused.ends_with("or a range A-B, and run it once for each"), "{refused}");
    }

    #[test]
    fn positions_become_words_of_the_same_range() {
        let range = positions("0x10-0x20").unwrap();
        assert_eq!(positions(&words(range)[1]), Ok(range));
        assert_eq!(words(slots("3-4").unwrap()), ["SLOTS", "3-4"]);
        for bad in ["", "0x10", "0x20-0x10", "0x-0x1"] {
            assert!(positions(bad).is_err(), "{bad}");
        }
    }
}
