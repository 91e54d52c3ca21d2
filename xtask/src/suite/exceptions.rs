//! The tests that Sidle may fail, and why.
//!
//! A line is `unit: test => reason`, in which `*` in the test's name stands for any text, or
//! `unit => reason` for a unit that is left out unless it is named. `#` begins a comment.

use anyhow::{Context, ensure};

/// One line about tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exception {
    pub(crate) unit: String,
    /// The name of a test, or a pattern of names.
    pub(crate) test: String,
    pub(crate) reason: String,
}

/// All lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exceptions {
    tests: Vec<Exception>,
    /// Units and reasons.
    units: Vec<(String, String)>,
}

impl Exceptions {
    /// Reads the file.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Exceptions> {
        let mut exceptions = Exceptions::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (what, reason) = line
                .rsplit_once(" => ")
                .with_context(|| format!("line {number} of the exceptions gives no reason"))?;
            ensure!(!reason.trim().is_empty(), "line {number} of the exceptions gives no reason");
            let reason = reason.trim().to_owned();
            match what.split_once(": ") {
                Some((unit, test)) => {
                    let (unit, test) = (unit.to_owned(), test.trim().to_owned());
                    exceptions.tests.push(Exception { unit, test, reason });
                }
                None => exceptions.units.push((what.trim().to_owned(), reason)),
            }
        }
        Ok(exceptions)
    }

    /// Why a unit is left out.
    pub(crate) fn left_out(&self, unit: &str) -> Option<&str> {
        self.units.iter().find(|(left, _)| left == unit).map(|(_, reason)| reason.as_str())
    }

    /// The lines about tests of a unit.
    pub(crate) fn of<'e>(&'e self, unit: &'e str) -> impl Iterator<Item = &'e Exception> {
        self.tests.iter().filter(move |exception| exception.unit == unit)
    }
}

impl Exception {
    /// Whether the line is about this test.
    pub(crate) fn covers(&self, test: &str) -> bool {
        matches(&self.test, test)
    }
}

/// Whether a text has a pattern's parts in their order, the first at its start and the last at its end.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return text.ends_with(part);
        }
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_unit_a_test_and_a_reason() {
        let text = "# comment\n\nunit/a: GET: twice => it is => different\nunit/b => not built\n";
        let exceptions = Exceptions::parse(text).expect("it is well formed");
        let [exception] = &exceptions.of("unit/a").collect::<Vec<_>>()[..] else { panic!("one line") };
        // The last arrow is the one before the reason.
        assert_eq!(
            (exception.test.as_str(), exception.reason.as_str()),
            ("GET: twice => it is", "different")
        );
        assert_eq!(exceptions.left_out("unit/b"), Some("not built"));
        assert_eq!((exceptions.left_out("unit/a"), exceptions.of("unit/b").count()), (None, 0));
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        for line in ["unit/a: GET", "unit/a: GET => ", "unit/a"] {
            let refused = Exceptions::parse(line).expect_err("it has no reason").to_string();
            assert_eq!(refused, "line 1 of the exceptions gives no reason", "{line}");
        }
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, text) in
            [("a", "a"), ("a*", "abc"), ("*c", "abc"), ("a*c", "ac"), ("*b*", "abc"), ("*", "")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("a*", "ba"), ("*c", "cb"), ("a*a", "a"), ("*b*b*", "abc")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn the_file_is_well_formed() {
        let exceptions =
            Exceptions::parse(include_str!("../../suite/exceptions.txt")).expect("it is well formed");
        let units = exceptions.units.iter().map(|(unit, _)| unit);
        for unit in units.chain(exceptions.tests.iter().map(|exception| &exception.unit)) {
            assert!(super::super::UNITS.contains(&unit.as_str()), "no unit is called {unit}");
        }
    }
}
