//! What the tests print, as the outcome of a unit.

use std::collections::BTreeMap;

/// What became of a unit's tests. A name may stand for several tests: some are made in loops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// How often a test of this name passed.
    pub(crate) passed: BTreeMap<String, usize>,
    /// What tests of this name said when they failed.
    pub(crate) failed: BTreeMap<String, Vec<String>>,
    /// How many were left out for their tags.
    pub(crate) left_out: usize,
    /// What went wrong outside of tests.
    pub(crate) broken: Vec<String>,
    /// Whether the unit came to its end.
    pub(crate) is_done: bool,
}

impl Outcome {
    /// Reads what the tests printed.
    pub(crate) fn parse(output: &str) -> Outcome {
        let mut outcome = Outcome::default();
        let mut lines = output.lines().peekable();
        while let Some(line) = lines.next() {
            // At the end all failures are printed again.
            if line.trim() == "The End" {
                break;
            }
            let Some((status, said)) = reported(line) else { continue };
            let mut rest = || {
                let mut rest = Vec::new();
                while let Some(line) = lines.next_if(|line| !is_next(line)) {
                    rest.push(line);
                }
                rest.join("\n")
            };
            match status {
                "ok" => *outcome.passed.entry(without_duration(said).to_owned()).or_default() += 1,
                "err" => match test_of_failure(said) {
                    Some(name) => outcome.failed.entry(name.to_owned()).or_default().push(rest()),
                    None => outcome.broken.push(format!("{said}\n{}", rest())),
                },
                "exception" => outcome.broken.push(format!("{said}\n{}", rest())),
                "ignore" | "skip" => outcome.left_out += 1,
                _ => outcome.is_done = true,
            }
        }
        if !outcome.is_done && outcome.broken.is_empty() {
            outcome.broken.push("the unit did not come to its end".to_owned());
        }
        outcome
    }

    /// Notes that something went wrong outside of tests.
    pub(crate) fn broke(&mut self, what: String) {
        self.is_done = false;
        self.broken.push(what);
    }

    /// Whether the unit came to its end, and all of its tests were run.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_done && self.broken.is_empty()
    }

    /// How many tests passed.
    pub(crate) fn passes(&self) -> usize {
        self.passed.values().sum()
    }

    /// The numbers, for the eye.
    pub(crate) fn summary(&self) -> String {
        let failed: usize = self.failed.values().map(Vec::len).sum();
        let broken = if self.is_whole() { "" } else { ", not to its end" };
        format!("{} passed, {failed} failed, {} left out{broken}", self.passes(), self.left_out)
    }
}

/// What becomes of a test.
const STATUSES: [&str; 5] = ["ok", "err", "exception", "ignore", "skip"];

/// The status and the text of a line that reports something: `[status]: text`. In front of it may stand what
/// a test printed without ending the line.
fn reported(line: &str) -> Option<(&str, &str)> {
    let told = |status: &&'static str| Some((*status, line.split_once(&format!("[{status}]: "))?.1));
    let done = || line.strip_prefix('[')?.split_once("]: ").filter(|(status, _)| status.ends_with(" done"));
    STATUSES.iter().find_map(told).or_else(done)
}

/// Whether a line belongs to the next report.
fn is_next(line: &str) -> bool {
    line.trim() == "The End" || reported(line).is_some()
}

/// `name (3 ms)` without the duration.
fn without_duration(said: &str) -> &str {
    let Some((name, duration)) = said.rsplit_once(" (") else { return said };
    if duration.ends_with(" ms)") { name } else { said }
}

/// `name in tests/unit/file.tcl`: the name. Failures outside of tests have another form.
fn test_of_failure(said: &str) -> Option<&str> {
    let (name, file) = said.rsplit_once(" in tests/")?;
    file.ends_with(".tcl").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
Starting test server at port 1
[ready]: 17
Testing unit/type/example
[ok]: PUT (with parentheses) works (12 ms)
[ok]: Twice - first of 2 (0 ms)
Waiting for something ... [ok]: Twice - first of 2 (1 ms)
[ignore]: Slow one: Tag: slow denied
[skip]: Another
[err]: GET in a loop in tests/unit/type/example.tcl
Expected 'a' to be equal to 'b' (context: line 3)
[0]: is not a report
[ok]: After it (0 ms)
[err]: known command
    while executing
\"r nothing\"
[1/1 done]: unit/type/example (3 seconds)

                   The End

*** [err]: GET in a loop in tests/unit/type/example.tcl
[err]: GET in a loop in tests/unit/type/example.tcl
";

    #[test]
    fn reports_are_read() {
        let outcome = Outcome::parse(OUTPUT);
        let passed = [("After it", 1), ("PUT (with parentheses) works", 1), ("Twice - first of 2", 2)];
        assert_eq!(outcome.passed, passed.map(|(name, times)| (name.to_owned(), times)).into());
        let said = "Expected 'a' to be equal to 'b' (context: line 3)\n[0]: is not a report".to_owned();
        assert_eq!(outcome.failed, [("GET in a loop".to_owned(), vec![said])].into());
        assert_eq!(outcome.left_out, 2);
        assert_eq!(outcome.broken, ["known command\n    while executing\n\"r nothing\""]);
        assert!(outcome.is_done && !outcome.is_whole());
        assert_eq!(outcome.summary(), "4 passed, 1 failed, 2 left out, not to its end");
    }

    #[test]
    fn an_exception_ends_the_unit() {
        let outcome =
            Outcome::parse("[ok]: One (0 ms)\n[exception]: Executing test client: refused.\nmore\n");
        assert!(!outcome.is_done);
        assert_eq!(outcome.broken, ["Executing test client: refused.\nmore"]);
    }

    #[test]
    fn a_unit_that_is_cut_off_is_not_whole() {
        let cut = OUTPUT.split_once("[err]: known").expect("it is there").0;
        assert_eq!(Outcome::parse(cut).broken, ["the unit did not come to its end"]);
        assert!(Outcome::parse("[ok]: One (0 ms)\n[1/1 done]: unit/x (0 seconds)\n").is_whole());
    }
}
