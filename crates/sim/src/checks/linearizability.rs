//! Each key behaves as one register; a dead node's keys may be gone from then on.
//!
//! Each operation is judged as soon as everything called before its return has ended, so that a fault shows
//! near its instant. Keys that are too hard for that are judged again as a whole.

use super::Violation;
use super::keys::ByKey;
use sidle_history::{CheckOptions, Judged, KeyChecker, Operation, check};

/// How many configurations are tried for one return before the judge gives up on the key.
const CONFIGURATIONS: usize = 5_000;
/// How many orders are tried for one key as a whole.
const CONFIGURATIONS_OF_WHOLE_KEYS: usize = 100_000;

/// The judge over all keys.
#[derive(Debug, Default)]
pub(super) struct Judge {
    keys: ByKey<KeyChecker>,
}

impl Judge {
    /// Takes in the operations that have just ended: `history` from `from` on. `under_way_ns`: when the
    /// oldest operation on a key that is still under way was called.
    pub(super) fn hear(
        &mut self,
        history: &[Operation],
        from: usize,
        under_way_ns: impl Fn(&str) -> Option<u64>,
    ) -> Result<(), Violation> {
        for (number, operation) in history.iter().enumerate().skip(from) {
            self.checker(&operation.key).add(number, operation);
        }
        for Operation { key, .. } in &history[from..] {
            let before_ns = under_way_ns(key).unwrap_or(u64::MAX);
            if let &Judged::Stuck(culprit) = self.checker(key).judge(before_ns) {
                return Err(explain(history, &history[culprit]));
            }
        }
        Ok(())
    }

    fn checker(&mut self, key: &str) -> &mut KeyChecker {
        self.keys.entry_ref(key).or_insert_with(|| KeyChecker::new(CONFIGURATIONS))
    }

    /// Nothing is under way any more. Returns how many keys were too hard to decide.
    pub(super) fn finish(&mut self, history: &[Operation]) -> Result<usize, Violation> {
        let mut hard = Vec::new();
        for (key, checker) in &mut self.keys {
            match checker.judge(u64::MAX) {
                Judged::Fine => {}
                Judged::Stuck(culprit) => return Err(explain(history, &history[*culprit])),
                Judged::Undecided => hard.push(key.as_str()),
            }
        }
        hard.sort_unstable();
        let is_hard = |operation: &&Operation| hard.binary_search(&operation.key.as_str()).is_ok();
        let whole: Vec<Operation> = history.iter().filter(is_hard).cloned().collect();
        let report = check(&whole, options());
        match report.failed_keys {
            0 => Ok(report.undecided.len()),
            _ => Err(Violation::new("linearizability", report.to_string())),
        }
    }
}

fn options() -> CheckOptions {
    CheckOptions { configurations_per_key: CONFIGURATIONS_OF_WHOLE_KEYS, explained_keys: 1 }
}

/// The shortest story of one key without an order.
fn explain(history: &[Operation], culprit: &Operation) -> Violation {
    let of_key: Vec<Operation> =
        history.iter().filter(|operation| operation.key == culprit.key).cloned().collect();
    let report = check(&of_key, options());
    Violation::new("linearizability", format!("there is no place for {culprit}\n{report}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::operation;
    use sidle_history::{Datum, Op};

    #[test]
    fn a_stale_read_is_seen_at_once_unless_something_is_under_way() {
        let history = [
            operation(Op::Set, "a".into(), "OK".into(), 1, Some(2)),
            operation(Op::Set, "b".into(), "OK".into(), 3, Some(4)),
            operation(Op::Get, Datum::Null, "a".into(), 5, Some(6)),
        ];
        let mut judge = Judge::default();
        assert_eq!(judge.hear(&history[..2], 0, |_| None), Ok(()));
        let violation = judge.hear(&history, 2, |_| None).expect_err("it was overwritten");
        assert!(violation.what.starts_with("there is no place for client 1 get -> \"a\""), "{violation}");
        let mut judge = Judge::default();
        assert_eq!(judge.hear(&history, 0, |_| Some(5)), Ok(()), "who knows what is under way");
        assert!(judge.finish(&history).is_err());
    }
}
