//! The outcomes of a unit on both servers, side by side.

use super::exceptions::{Exception, Exceptions};
use super::outcome::Outcome;

/// A difference that fails the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Sidle fails a test that redis-server passes; what the test said.
    Fails(String, String),
    /// Sidle's unit ended before a test that redis-server passes.
    NotRun(String),
    /// It stands among the exceptions, and passes.
    Passes(Exception, String),
    /// An exception for no test of its unit that redis-server passes.
    Unused(Exception),
    /// The unit broke outside of a test; what it said. Tests after that are not run.
    Broke(String),
}

/// A unit's comparison.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) unit: String,
    pub(crate) redis: Outcome,
    pub(crate) sidle: Outcome,
    /// The tests that Sidle may fail and does.
    pub(crate) excepted: Vec<(String, String)>,
    pub(crate) failures: Vec<Failure>,
}

impl Comparison {
    /// Compares what redis-server passes with what Sidle does.
    pub(crate) fn new(unit: &str, redis: &Outcome, sidle: &Outcome, exceptions: &Exceptions) -> Comparison {
        let (mut excepted, mut failures) = (Vec::new(), Vec::new());
        for (test, &times) in &redis.passed {
            let lines: Vec<&Exception> = exceptions.of(unit).filter(|line| line.covers(test)).collect();
            let said = sidle.failed.get(test).cloned().unwrap_or_default();
            let passed = sidle.passed.get(test).copied().unwrap_or(0).min(times);
            match lines.first() {
                Some(line) if passed == times => {
                    failures.push(Failure::Passes((*line).clone(), test.clone()));
                }
                Some(line) => excepted.extend((passed..times).map(|_| (test.clone(), line.reason.clone()))),
                None => {
                    let mut said = said.into_iter();
                    let missing = (passed..times).map(|_| match said.next() {
                        Some(said) => Failure::Fails(test.clone(), said),
                        None => Failure::NotRun(test.clone()),
                    });
                    failures.extend(missing);
                }
            }
        }
        let is_used = |line: &Exception| redis.passed.keys().any(|test| line.covers(test));
        failures.extend(exceptions.of(unit).filter(|line| !is_used(line)).cloned().map(Failure::Unused));
        // What a break left out is told above, unless it left out nothing or only exceptions.
        let is_told = failures.iter().any(|failure| matches!(failure, Failure::NotRun(_)));
        if !sidle.is_whole() && (!is_told || !sidle.is_done) {
            failures.extend(sidle.broken.iter().cloned().map(Failure::Broke));
        }
        // What redis-server did not run cannot be compared.
        let of_redis = redis.broken.iter().map(|said| Failure::Broke(format!("redis-server: {said}")));
        failures.extend(of_redis);
        let (redis, sidle) = (redis.clone(), sidle.clone());
        Comparison { unit: unit.to_owned(), redis, sidle, excepted, failures }
    }

    /// How many of the tests that redis-server passes pass on Sidle.
    pub(crate) fn shared_passes(&self) -> usize {
        let shared = self
            .redis
            .passed
            .iter()
            .map(|(test, &times)| self.sidle.passed.get(test).copied().unwrap_or(0).min(times));
        shared.sum()
    }

    /// How many differences there are that no exception explains.
    pub(crate) fn failing(&self) -> usize {
        self.failures.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> Outcome {
        Outcome::parse(&format!("{text}[1/1 done]: unit/x (0 seconds)\n"))
    }

    fn compare(redis: &str, sidle: &str, exceptions: &str) -> Comparison {
        let exceptions = Exceptions::parse(exceptions).expect("they are well formed");
        Comparison::new("unit/x", &outcome(redis), &outcome(sidle), &exceptions)
    }

    const BOTH: &str = "[ok]: One (0 ms)\n[ok]: Two (0 ms)\n[ok]: Two (0 ms)\n";
    const TWO_FAILS_ONCE: &str = "[ok]: One (0 ms)\n[ok]: Two (0 ms)\n[err]: Two in tests/unit/x.tcl\nso\n";

    #[test]
    fn what_passes_on_both_is_no_difference() {
        let same = compare(BOTH, BOTH, "");
        assert_eq!((same.failures.clone(), same.shared_passes(), same.excepted.len()), (vec![], 3, 0));
        // What redis-server itself fails, or has not, does not count.
        let more = compare("[ok]: One (0 ms)\n[err]: Two in tests/unit/x.tcl\n", BOTH, "");
        assert_eq!((more.failing(), more.shared_passes()), (0, 1));
    }

    #[test]
    fn a_failing_test_is_a_difference_unless_it_is_excepted() {
        let failing = compare(BOTH, TWO_FAILS_ONCE, "");
        assert_eq!(failing.failures, [Failure::Fails("Two".to_owned(), "so".to_owned())]);
        assert_eq!(failing.shared_passes(), 2);
        let excepted = compare(BOTH, TWO_FAILS_ONCE, "unit/x: T* => no reason");
        assert_eq!(excepted.failing(), 0);
        assert_eq!(excepted.excepted, [("Two".to_owned(), "no reason".to_owned())]);
        // An exception of another unit is none.
        assert_eq!(compare(BOTH, TWO_FAILS_ONCE, "unit/y: T* => no reason").failing(), 1);
    }

    #[test]
    fn an_exception_that_passes_or_is_for_nothing_is_a_difference() {
        let passes = compare(BOTH, BOTH, "unit/x: One => it fails");
        assert!(matches!(&passes.failures[..], [Failure::Passes(_, test)] if test == "One"));
        let unused = compare(BOTH, BOTH, "unit/x: Three => it fails");
        assert!(matches!(&unused.failures[..], [Failure::Unused(_)]));
    }

    #[test]
    fn tests_after_a_break_count_as_failed() {
        let broken = compare(BOTH, "[ok]: One (0 ms)\n[err]: gone\n", "");
        let not_run = Failure::NotRun("Two".to_owned());
        assert_eq!(broken.failures, [not_run.clone(), not_run]);
        let hidden = compare(BOTH, "[ok]: One (0 ms)\n[err]: gone\n", "unit/x: Two => it fails");
        assert_eq!(hidden.failures, [Failure::Broke("gone\n".to_owned())]);
        let mut hung = outcome("[ok]: One (0 ms)\n");
        hung.broke("it hangs".to_owned());
        let hung = Comparison::new("unit/x", &outcome(BOTH), &hung, &Exceptions::default());
        assert_eq!(hung.failing(), 3);
        let mut redis = outcome(BOTH);
        redis.broke("it hangs".to_owned());
        let told = Comparison::new("unit/x", &redis, &outcome(BOTH), &Exceptions::default());
        assert_eq!(told.failures, [Failure::Broke("redis-server: it hangs".to_owned())]);
    }
}
