//! The same requests to Redis and to a Sidle node: the replies are compared byte for byte, in RESP2 and in
//! RESP3.
//!
//! `commands.txt` is the table; it lists where a reply may differ, how far, and why. `random.rs` adds
//! random sequences. Without a `redis-server` the tests print that and pass.

#![allow(clippy::disallowed_methods)] // tests run processes and read clocks

mod access;
mod cluster_forms;
mod compare;
mod importing;
mod introspection;
mod monitor;
mod pause;
mod payloads;
mod random;
mod script;
mod server;
#[path = "../support/mod.rs"]
mod support;

use compare::{Verdict, compare};
use script::{Expectation, Section, Step};
use server::Both;
use sidle_resp::{RequestWriter, RespVersion};

fn encode(args: &[Vec<u8>]) -> Vec<u8> {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let mut request = Vec::new();
    RequestWriter::new(&mut request).request(&args);
    request
}

/// What is expected of elements that Redis keeps in the order in which they came, and chunks do not.
fn any_order(expectation: Expectation) -> Expectation {
    if let Expectation::Exact = expectation { Expectation::Sorted } else { expectation }
}

/// Runs a section on both, with empty databases and new connections, and returns the differences.
fn run(section: &Section, version: RespVersion, both: &mut Both) -> Vec<String> {
    let in_any_order = both.has_small_chunks;
    both.reconnect();
    both.ask(&encode(&[b"FLUSHALL".to_vec()]));
    if version == RespVersion::Resp3 {
        both.ask(&encode(&[b"HELLO".to_vec(), b"3".to_vec()]));
    }
    let mut faults = Vec::new();
    let mut check = |line: usize, expectation, args: &[Vec<u8>], (expected, actual): (Vec<u8>, Vec<u8>)| {
        let orders = if in_any_order { [expectation, any_order(expectation)] } else { [expectation; 2] };
        let fits = |order| !matches!(compare(order, &expected, &actual), Verdict::Differs);
        if !orders.into_iter().any(fits) {
            faults.push(fault(section, line, version, args, &expected, &actual));
        }
    };
    for (line, step) in &section.steps {
        match step {
            Step::Ask(expectation, args) => check(*line, *expectation, args, both.ask(&encode(args))),
            Step::Other(args) => check(*line, Expectation::Exact, args, both.ask_beside(&encode(args))),
            Step::Raw(request) => {
                check(*line, Expectation::Exact, std::slice::from_ref(request), both.ask(request));
            }
            Step::Tell(args) => {
                both.redis.tell(&encode(args));
                both.sidle.tell(&encode(args));
            }
            Step::Reconnect => both.reconnect(),
            Step::Sleep(duration) => std::thread::sleep(*duration),
        }
    }
    faults
}

fn fault(
    section: &Section,
    line: usize,
    version: RespVersion,
    args: &[Vec<u8>],
    expected: &[u8],
    actual: &[u8],
) -> String {
    let shown: Vec<String> = args.iter().map(|arg| shortened(arg)).collect();
    format!(
        "line {line} ({}, {version:?}): {}\n    redis: {}\n    sidle: {}",
        section.title,
        shown.join(" "),
        shortened(expected),
        shortened(actual)
    )
}

fn shortened(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 1500;
    let more = if bytes.len() > SHOWN_BYTES { "..." } else { "" };
    format!("{}{more}", bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii())
}

#[test]
fn table_gets_the_replies_that_redis_gives() {
    let Some(mut both) = Both::start() else { return };
    let sections = script::parse(include_str!("commands.txt"));
    let mut faults = Vec::new();
    for section in &sections {
        for version in [RespVersion::Resp2, RespVersion::Resp3] {
            faults.extend(run(section, version, &mut both));
        }
    }
    assert!(faults.is_empty(), "{} replies differ:\n{}", faults.len(), faults.join("\n"));
}

/// The same where nearly every collection is in chunks of few elements.
#[test]
fn table_gets_the_same_replies_from_small_chunks() {
    let Some(mut both) = Both::start_with_small_chunks() else { return };
    let sections = script::parse(include_str!("commands.txt"));
    let mut faults = Vec::new();
    for section in sections.iter().filter(|section| section.title != "the server") {
        faults.extend(run(section, RespVersion::Resp3, &mut both));
    }
    assert!(faults.is_empty(), "{} replies differ:\n{}", faults.len(), faults.join("\n"));
}

/// Runs sequences of these forms, each after one other request.
fn run_at_random(both: Option<Both>, forms: &[random::Form], sequences: u64, first: &[Vec<u8>]) {
    let Some(mut both) = both else { return };
    let mut faults = Vec::new();
    for seed in 0..sequences {
        let drawn = random::sequence(forms, seed);
        let steps = std::iter::once((Expectation::Exact, first.to_vec())).chain(drawn);
        let steps = steps.map(|(expectation, args)| Step::Ask(expectation, args));
        let section = Section { title: format!("seed {seed}"), steps: (1..).zip(steps).collect() };
        let version = if seed % 2 == 0 { RespVersion::Resp2 } else { RespVersion::Resp3 };
        faults.extend(run(&section, version, &mut both));
    }
    assert!(faults.is_empty(), "{} replies differ:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn random_sequences_get_the_replies_that_redis_gives() {
    // Sequences are short, so that relative expiries stay comparable.
    run_at_random(Both::start(), random::FORMS, 150, &[b"PING".to_vec()]);
}

#[test]
fn random_sorted_sets_get_the_replies_that_redis_gives() {
    use random::sorted_sets::{FORMS, OF_SMALL_ONES};
    let set_limit = |most: &str| {
        ["CONFIG", "SET", "zset-max-listpack-entries", most].map(|word| word.as_bytes().to_vec()).to_vec()
    };
    run_at_random(Both::start(), &[FORMS, OF_SMALL_ONES].concat(), 100, &set_limit("128"));
    run_at_random(Both::start(), FORMS, 50, &set_limit("0"));
}

#[test]
fn random_elements_are_sorted_as_redis_sorts_them() {
    use random::sorting::{FORMS, OF_ORDERED_ONES};
    run_at_random(Both::start(), &[FORMS, OF_ORDERED_ONES].concat(), 60, &[b"PING".to_vec()]);
}

#[test]
fn random_collections_in_small_chunks_get_the_replies_that_redis_gives() {
    use random::{sorted_sets, sorting};
    let small = Both::start_with_small_chunks;
    let ping = [b"PING".to_vec()];
    run_at_random(small(), random::FORMS, 100, &ping);
    run_at_random(small(), &[sorted_sets::FORMS, sorted_sets::OF_SMALL_ONES].concat(), 60, &ping);
    run_at_random(small(), &[sorting::FORMS, sorting::OF_ORDERED_ONES].concat(), 30, &ping);
}

#[test]
fn compare_sees_a_difference() {
    use Expectation::{Any, Exact, Kind, Near, Sorted};
    let differs = |expectation, expected: &str, actual: &str| {
        matches!(compare(expectation, expected.as_bytes(), actual.as_bytes()), Verdict::Differs)
    };
    assert!(differs(Exact, ":1\r\n", ":2\r\n"));
    assert!(!differs(Exact, ":1\r\n", ":1\r\n"));
    assert!(differs(Kind, ":1\r\n", "+OK\r\n"));
    assert!(!differs(Kind, ":1\r\n", ":2\r\n"));
    assert!(!differs(Near(5), ":10\r\n", ":14\r\n"));
    assert!(differs(Near(5), ":10\r\n", ":16\r\n"));
    assert!(differs(Near(5), ":-1\r\n", ":2\r\n"));
    assert!(!differs(Sorted, "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*2\r\n$1\r\nb\r\n$1\r\na\r\n"));
    assert!(differs(Sorted, "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*1\r\n$1\r\nb\r\n"));
    assert!(!differs(Any, ":1\r\n", "+OK\r\n"));
}
