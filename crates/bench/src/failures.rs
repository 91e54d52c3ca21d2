//! The outcomes of operations without an answer, in words, with the remedies.

use crate::words::count;
use std::collections::BTreeMap;

/// The name under which a report counts reads that found no record, among its errors.
pub const ABSENT: &str = "absent";
/// The same for operations whose connection was lost.
pub const CONNECTION_LOST: &str = "connection_lost";
/// For those without an answer in time.
pub const TIMEOUT: &str = "timeout";
/// For those that no node took.
pub const TOO_MANY_TRIES: &str = "too_many_tries";
/// For those that were under way at the load's end.
pub const UNFINISHED: &str = "unfinished";

/// The kinds of failure with words and a remedy of their own.
const KINDS: [(&str, &str, &str); 6] = [
    (ABSENT, "found no record", "load them first (without --no-load)"),
    (CONNECTION_LOST, "lost with their connection", "a node has ended, or was cut off: its log says why"),
    (TIMEOUT, "without an answer in time", BUSY),
    (TOO_MANY_TRIES, "sent from node to node in vain", "`sidle status` shows which nodes are down"),
    (UNFINISHED, "without an answer when the time was up", BUSY),
    ("OOM", "refused for want of memory (OOM)", "fewer --records or smaller --value-bytes fit"),
];

const BUSY: &str = "`sidle status` shows whether a node is down. If none is, the machine or a node is busy: try again with fewer --records or --clients, or when it \
                    is idle";

/// How many operations ended in which error: `137 without an answer in time, 2 answered with LOADING`.
pub fn in_words(errors: &BTreeMap<String, u64>) -> String {
    let word = |(kind, number): (&String, &u64)| {
        let known = KINDS.iter().find(|(name, ..)| name == kind);
        let word = known.map_or_else(|| format!("answered with {kind}"), |(_, word, _)| (*word).to_owned());
        format!("{} {word}", count(*number))
    };
    errors.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The known remedies; each once.
pub fn advice(errors: &BTreeMap<String, u64>) -> String {
    let mut advice: Vec<&str> = Vec::new();
    for (_, _, what) in KINDS.iter().filter(|(kind, ..)| errors.contains_key(*kind)) {
        if !advice.contains(what) {
            advice.push(what);
        }
    }
    advice.join("; ")
}

/// Why an action failed for this many of all, in one sentence or two.
pub fn explained(what: &str, errors: &BTreeMap<String, u64>, troubles: &[String]) -> String {
    let mut text = what.to_owned();
    for more in [in_words(errors), troubles.join("; "), advice(errors)] {
        if !more.is_empty() {
            text += if text.len() == what.len() { ": " } else { ". " };
            text += &more;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(kinds: &[(&str, u64)]) -> BTreeMap<String, u64> {
        kinds.iter().map(|&(kind, number)| (kind.to_owned(), number)).collect()
    }

    #[test]
    fn failures_are_told_in_words_with_what_to_do() {
        let told =
            explained("only 863 of 1,000 records could be read back", &errors(&[(UNFINISHED, 137)]), &[]);
        let words =
            "only 863 of 1,000 records could be read back: 137 without an answer when the time was up. ";
        assert!(told.starts_with(words) && told.ends_with("or when it is idle"), "{told}");
        let told = explained("none", &errors(&[("LOADING", 1_200), ("OOM", 1)]), &["a:1: no".to_owned()]);
        assert!(
            told.starts_with(
                "none: 1,200 answered with LOADING, 1 refused for want of memory (OOM). a:1: no. "
            )
        );
        assert!(told.ends_with("smaller --value-bytes fit"), "{told}");
        assert_eq!(explained("nothing", &errors(&[]), &[]), "nothing");
    }

    #[test]
    fn reads_that_found_nothing_are_no_answers_with_an_error() {
        let absent = errors(&[(ABSENT, 3)]);
        assert_eq!(in_words(&absent), "3 found no record");
        assert_eq!(advice(&absent), "load them first (without --no-load)");
    }

    #[test]
    fn the_same_advice_is_given_once() {
        assert_eq!(advice(&errors(&[(TIMEOUT, 1), (UNFINISHED, 1)])), BUSY);
    }
}
