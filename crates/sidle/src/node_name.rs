//! How a command line names a node: by its client address, by its id, or by the id's first digits, which
//! `sidle status` shows.

use sidle_cli::exit::Failure;
use sidle_cli::server::host_port;
use sidle_cluster::StatusReport;
use sidle_server::address::split_host_port;
use sidle_types::words::counted;
use std::net::ToSocketAddrs;

/// Digits of a whole id.
const ID_DIGITS: usize = 40;
/// The fewest digits of an id that name a node: fewer are more often a slip than a name.
const DIGITS_MIN: usize = 4;

/// Takes what may name a node.
///
/// # Errors
/// The names that there are.
pub(crate) fn name(text: &str) -> Result<String, String> {
    let is_id = (DIGITS_MIN..=ID_DIGITS).contains(&text.len()) && is_hexadecimal(text);
    match is_id || host_port(text).is_ok() {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "give the node's HOST:PORT, or at least {DIGITS_MIN} digits of its id, as `sidle status` shows them"
        )),
    }
}

/// The coordinator's name for a node. Addresses and whole ids are checked by the coordinator. A host name
/// that no node goes by is looked up.
///
/// # Errors
/// No id, or more than one, begins with these digits.
pub(crate) fn resolve(report: &StatusReport, name: &str) -> Result<String, Failure> {
    if !is_beginning_of_id(name) {
        return Ok(known_address(report, name).unwrap_or_else(|| name.to_owned()));
    }
    named(report, name).map_err(Failure::refused)
}

/// The address by which a node goes that is reached at this one, if that is another.
fn known_address(report: &StatusReport, address: &str) -> Option<String> {
    let known = |address: &str| {
        let mut all = report.nodes.iter().flat_map(|node| [&node.client_addr, &node.bus_addr]);
        all.any(|known| known.to_string() == address).then(|| address.to_owned())
    };
    let (host, port) = split_host_port(address)?;
    if known(address).is_some() {
        return None;
    }
    let found = (host, port).to_socket_addrs().ok()?;
    found.map(|address| address.to_string()).find_map(|address| known(&address))
}

fn is_beginning_of_id(name: &str) -> bool {
    name.len() < ID_DIGITS && is_hexadecimal(name)
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The id that begins with these digits.
fn named(report: &StatusReport, beginning: &str) -> Result<String, String> {
    let ids: Vec<String> = report.nodes.iter().map(|node| node.id.to_string()).collect();
    let found: Vec<&String> =
        ids.iter().filter(|id| id.starts_with(&beginning.to_ascii_lowercase())).collect();
    match &found[..] {
        [] => Err(format!(
            "no node of this cluster has an id that begins with {beginning}: `sidle status` lists them"
        )),
        [id] => Ok((*id).clone()),
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
        ] {
            let refused = named(&report, beginning).unwrap_err();
            assert!(refused.starts_with(told), "{beginning}: {refused}");
        }
    }

    #[test]
    fn a_host_name_that_no_node_goes_by_is_looked_up() {
        let report = report(&["1f3c09aa"]);
        assert_eq!(resolve(&report, "localhost:1").unwrap(), "127.0.0.1:1");
        for text in ["127.0.0.1:1", "localhost:2", &"ab".repeat(20)] {
            assert_eq!(resolve(&report, text).unwrap(), text, "as it is");
        }
    }

    #[test]
    fn addresses_and_whole_ids_are_not_looked_up() {
        let id = "ab".repeat(20);
        for text in ["127.0.0.1:6379", "cafe:6379", "[::1]:6379", &id] {
            assert!(!is_beginning_of_id(text) && name(text).is_ok(), "{text}");
        }
        assert!(is_beginning_of_id("cafe") && is_beginning_of_id("1F3C09AA"));
    }

    #[test]
    fn what_can_name_no_node_is_refused_with_what_can() {
        assert!(name("1F3C").is_ok());
        for text in ["", "1f3", "node-1", "a:", "a:0", "::1:6379", &"a".repeat(41)] {
            assert!(name(text).is_err_and(|told| told.contains("HOST:PORT")), "{text}");
        }
    }
}
