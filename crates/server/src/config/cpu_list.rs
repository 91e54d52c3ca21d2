//! Processors as the kernel and `taskset` write them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Numbers of processors, at least one: `0`, `0-3`, `0-3,8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(BTreeSet<usize>);

/// The most that the kernel's calls support.
const MOST: usize = 1024;

/// What [`CpuList`]'s parser refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a list of processors: give numbers below {MOST} and ranges of them, such as 0-3,8")]
pub struct ParseCpuListError(String);

impl CpuList {
    /// The list of these, if there are any.
    pub fn new(numbers: impl IntoIterator<Item = usize>) -> Option<CpuList> {
        let numbers: BTreeSet<usize> = numbers.into_iter().collect();
        (!numbers.is_empty()).then_some(CpuList(numbers))
    }

    /// Each once, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }
}

impl FromStr for CpuList {
    type Err = ParseCpuListError;

    fn from_str(text: &str) -> Result<CpuList, ParseCpuListError> {
        let number = |text: &str| text.parse().ok().filter(|&number: &usize| number < MOST);
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(first..=last)
        };
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        ranges
            .and_then(|ranges| CpuList::new(ranges.into_iter().flatten()))
            .ok_or_else(|| ParseCpuListError(text.to_owned()))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for number in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        for (index, (first, last)) in ranges.into_iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_parse_and_print_with_ranges() {
        for (text, printed, numbers) in [
            ("0", "0", &[0][..]),
            ("0-3", "0-3", &[0, 1, 2, 3]),
            ("8,0-1,1", "0-1,8", &[0, 1, 8]),
            ("1023", "1023", &[1023]),
        ] {
            let list: CpuList = text.parse().unwrap();
            assert_eq!(list.to_string(), printed);
            assert!(list.iter().eq(numbers.iter().copied()), "{text}");
        }
        for bad in ["", ",", "0,", "-1", "3-1", "1024", "0-1024", "a", "0-", "0 1", "99999999999999999999"] {
            assert!(bad.parse::<CpuList>().is_err(), "{bad}");
        }
    }
}
