//! How a command line names a node: by its client address, by its id, or by the id's first digits, which
//! `sidle status` shows.

use sidle_cli::exit::Failure;
use sidle_cluster::StatusReport;
use sidle_types::words::counted;

/// Digits of a whole id.
const ID_DIGITS: usize = 40;
/// The fewest digits of an id that name a node: fewer are more often a slip than a name.
const DIGITS_MIN: usize = 4;

/// The coordinator's name for a node. Addresses and whole ids are checked by the coordinator.
///
/// # Errors
/// No id, or more than one, begins with these digits; or there are too few digits.
pub(crate) fn resolve(report: &StatusReport, name: &str) -> Result<String, Failure> {
    if !is_beginning_of_id(name) {
        return Ok(name.to_owned());
    }
    named(report, name).map_err(Failure::refused)
}

fn is_beginning_of_id(name: &str) -> bool {
    (1..ID_DIGITS).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The id that begins with these digits.
fn named(report: &StatusReport, beginning: &str) -> Result<String, String> {
    let ids: Vec<String> = report.nodes.iter().map(|node| node.id.to_string()).collect();
    let found: Vec<&String> =
        ids.iter().filter(|id| id.starts_with(&beginning.to_ascii_lowercase())).collect();
    let is_short = beginning.len() < DIGITS_MIN;
    match &found[..] {
        [] => Err(format!(
            "no node of this cluster has an id that begins with {beginning}: `sidle status` lists them"
        )),
        [id] if !is_short => Ok((*id).clone()),
        [id] => Err(format!(
            "{beginning} is too short to name a node: give at least {} digits of its id, as in {}",
            digits_needed(&ids, &found),
            &id[..digits_needed(&ids, &found)]
        )),
        several => Err(format!(
            "{} have ids that begin with {beginning}: give at least {} digits",
            counted(several.len(), "node"),
            digits_needed(&ids, several)
        )),
    }
}

/// How many first digits distinguish each of these ids from all others.
fn digits_needed(all: &[String], of: &[&String]) -> usize {
    let is_enough = |digits: usize| {
        of.iter().all(|id| all.iter().filter(|other| other.starts_with(&id[..digits])).count() == 1)
    };
    (DIGITS_MIN..ID_DIGITS).find(|&digits| is_enough(digits)).unwrap_or(ID_DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(ids: &[&str]) -> StatusReport {
        let node = |id: &&str| {
            json!({
                "id": format!("{id:0<40}"), "incarnation": 1, "client_addr": "127.0.0.1:1",
                "bus_addr": "127.0.0.1:9", "state": "up", "silent_us": 0, "map_epoch": 1, "keys": 0,
                "memory_used_bytes": 0, "memory_limit_bytes": 0, "slots": 0
            })
        };
        serde_json::from_value(json!({
            "cluster": "7".repeat(32), "coordinator": "a".repeat(40), "map_epoch": 1,
            "nodes": ids.iter().map(node).collect::<Vec<_>>(), "tablets": [], "migrations": []
        }))
        .expect("a report")
    }

    #[test]
    fn first_digits_that_only_one_node_has_name_it() {
        let report = report(&["1f3c09aa", "1f3c7b00", "9abcdef0"]);
        assert_eq!(named(&report, "9abc"), Ok(format!("{:0<40}", "9abcdef0")));
        assert_eq!(named(&report, "1F3C0"), Ok(format!("{:0<40}", "1f3c09aa")));
    }

    #[test]
    fn what_names_no_node_or_several_is_refused_with_the_digits_that_would_do() {
        let report = report(&["1f3c09aa", "1f3c7b00", "1f3c7b0f", "9abcdef0"]);
        for (beginning, told) in [
            ("77aa", "no node of this cluster has an id that begins with 77aa"),
            ("1f3c", "3 nodes have ids that begin with 1f3c: give at least 8 digits"),
            ("1f3c7b", "2 nodes have ids that begin with 1f3c7b: give at least 8 digits"),
            ("9ab", "9ab is too short to name a node: give at least 4 digits of its id, as in 9abc"),
            ("1", "3 nodes have ids that begin with 1: give at least 8 digits"),
        ] {
            let refused = named(&report, beginning).unwrap_err();
            assert!(refused.starts_with(told), "{beginning}: {refused}");
        }
    }

    #[test]
    fn addresses_and_whole_ids_are_not_looked_up() {
        let id = "ab".repeat(20);
        for name in ["127.0.0.1:6379", "cafe:6379", "[::1]:6379", "node-1", "", &id] {
            assert!(!is_beginning_of_id(name), "{name}");
        }
        assert!(is_beginning_of_id("cafe") && is_beginning_of_id("1F3C09AA"));
    }
}
