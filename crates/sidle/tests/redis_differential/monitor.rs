//! MONITOR: the lines of both servers, without time and address.

use crate::encode;
use crate::server::Both;

/// The last command, which tells that no more lines come.
const END: &str = "ECHO the-end";

/// What is sent over another connection.
const REQUESTS: &[&str] = &[
    "SET a 1",
    "gEt a",
    "GET",
    "NOSUCH a b",
    "LPUSH a 1",
    "ECHO \\ \" \n \r \t \x07 \x08 \0 \x1b \x7f é",
    "AUTH secret",
    "AUTH default secret",
    "AUTH nobody secret",
    "HELLO 2 AUTH nobody secret SETNAME x",
    "HELLO 2 SETNAME x",
    "HELLO 4",
    "CONFIG GET port",
    "CONFIG SET requirepass secret",
    "CONFIG SET requirepass ",
    "CLIENT ID",
    "CLIENT LIST",
    "CLIENT GETNAME",
    "SLOWLOG LEN",
    "LATENCY LATEST",
    "INFO nosuch",
    "COMMAND COUNT",
    "OBJECT ENCODING a",
    "MULTI",
    "SET a 2",
    "CONFIG GET port",
    "INCR a",
    "EXEC",
    "MULTI",
    "MONITOR",
    "EXEC",
    "MULTI",
    "NOSUCH",
    "EXEC",
    "EXEC",
    "MULTI",
    "DISCARD",
    "DISCARD",
    "WATCH a",
    "UNWATCH",
    "BLPOP nothing 0.01",
    "RPUSH list 1 2",
    "BLPOP list 0",
    "MSET b 1 c 2",
    "MGET a b c",
    "DEL a b c",
    "EXPIRE list 100",
    "SCAN 0",
    "DBSIZE",
    "WAIT 0 0",
    "SELECT 0",
    "SELECT 1000",
    "TIME",
    "FLUSHALL",
    "SHUTDOWN ABORT",
    "RESET",
];

fn words(request: &str) -> Vec<Vec<u8>> {
    request.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// The words of each line up to the last one.
fn lines(mut next: impl FnMut() -> Vec<u8>) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let line = String::from_utf8(next()).expect("lines are text");
        let (head, words) = line.trim_end().split_once("] ").expect("a client, and words");
        let (time, place) = head.split_once(" [0 ").expect("a time, the database, and an address");
        let (seconds, micros) = time.trim_start_matches('+').split_once('.').expect("a time");
        assert!(seconds.parse::<u64>().is_ok() && micros.len() == 6 && !place.is_empty(), "{line}");
        lines.push(words.to_owned());
        if words == r#""ECHO" "the-end""# {
            return lines;
        }
    }
}

#[test]
fn monitor_shows_what_redis_shows() {
    let Some(mut both) = Both::start() else { return };
    both.ask_beside(&encode(&words("PING")));
    assert_eq!(both.ask(&encode(&words("MONITOR"))), (b"+OK\r\n".to_vec(), b"+OK\r\n".to_vec()));
    for request in REQUESTS.iter().chain([&END]) {
        both.ask_beside(&encode(&words(request)));
    }
    let (redis, sidle) = (&mut both.redis, &mut both.sidle);
    let (expected, actual) = (lines(|| redis.ask(b"")), lines(|| sidle.ask(b"")));
    assert_eq!(actual, expected);
}
