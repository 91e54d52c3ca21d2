//! The same commands to Redis and to a Sidle node: the replies are compared byte for byte, in RESP2 and in RESP3.
//!
//! `commands.txt` is the table; it says where a reply may differ, how far, and why. `random.rs` adds sequences that
//! nobody thought of. Without a `redis-server` on the PATH the tests say so and pass.

mod compare;
mod in_process;
mod random;
mod reference;
mod script;

use compare::{Verdict, compare};
use in_process::Node;
use reference::Redis;
use script::{Expectation, Section, Step};
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, RequestWriter, RespVersion};

/// Either server.
trait Server {
    /// Opens the connection anew.
    fn reconnect(&mut self);
    /// Sends bytes and returns one whole reply.
    fn ask(&mut self, request: &[u8]) -> Vec<u8>;
    /// Sends bytes that are not answered.
    fn tell(&mut self, request: &[u8]);
}

/// The length of the reply at the front of `bytes`, once it is whole.
fn whole_reply(bytes: &[u8]) -> Option<usize> {
    match ReplyParser::new(ReplyLimits::default()).parse(bytes).expect("a server writes replies") {
        ParsedReply::Complete { consumed, .. } => Some(consumed),
        ParsedReply::Incomplete { .. } => None,
    }
}

fn encode(args: &[Vec<u8>]) -> Vec<u8> {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let mut request = Vec::new();
    RequestWriter::new(&mut request).request(&args);
    request
}

fn start(servers: &mut [&mut dyn Server], version: RespVersion) {
    for server in servers {
        server.reconnect();
        server.ask(&encode(&[b"FLUSHALL".to_vec()]));
        if version == RespVersion::Resp3 {
            server.ask(&encode(&[b"HELLO".to_vec(), b"3".to_vec()]));
        }
    }
}

/// Runs a section against both and returns what did not agree.
fn run(section: &Section, version: RespVersion, redis: &mut Redis, node: &mut Node) -> Vec<String> {
    start(&mut [redis, node], version);
    let mut faults = Vec::new();
    for (line, step) in &section.steps {
        match step {
            Step::Ask(expectation, args) => {
                let request = encode(args);
                let (expected, actual) = (redis.ask(&request), node.ask(&request));
                if let Verdict::Differs = compare(*expectation, &expected, &actual) {
                    faults.push(fault(section, *line, version, args, &expected, &actual));
                }
            }
            Step::Raw(request) => {
                let (expected, actual) = (redis.ask(request), node.ask(request));
                if expected != actual {
                    faults.push(fault(section, *line, version, &[request.clone()], &expected, &actual));
                }
            }
            Step::Tell(args) => {
                redis.tell(&encode(args));
                node.tell(&encode(args));
            }
            Step::Reconnect => {
                redis.reconnect();
                node.reconnect();
            }
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
    let Some(mut redis) = Redis::start() else { return };
    let sections = script::parse(include_str!("commands.txt"));
    let mut faults = Vec::new();
    for section in &sections {
        for version in [RespVersion::Resp2, RespVersion::Resp3] {
            faults.extend(run(section, version, &mut redis, &mut Node::new()));
        }
    }
    assert!(faults.is_empty(), "{} replies differ:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn random_sequences_get_the_replies_that_redis_gives() {
    /// Sequences are short, so that relative expiries stay comparable.
    const SEQUENCES: u64 = 150;
    let Some(mut redis) = Redis::start() else { return };
    let mut node = Node::new();
    for seed in 0..SEQUENCES {
        let steps =
            random::sequence(seed).into_iter().map(|(expectation, args)| Step::Ask(expectation, args));
        let section = Section { title: format!("seed {seed}"), steps: (1..).zip(steps).collect() };
        let version = if seed % 2 == 0 { RespVersion::Resp2 } else { RespVersion::Resp3 };
        let faults = run(&section, version, &mut redis, &mut node);
        assert!(faults.is_empty(), "{} replies differ:\n{}", faults.len(), faults.join("\n"));
    }
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
