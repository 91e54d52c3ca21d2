//! CLIENT PAUSE: which commands wait.

use crate::encode;
use crate::server::Both;
use std::thread;
use std::time::{Duration, Instant};

/// How long a pause is: what waits takes longer than half of it.
const PAUSE: Duration = Duration::from_millis(300);

fn request(words: &str) -> Vec<u8> {
    encode(&words.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())
}

/// Whether each of the two servers has a command wait.
fn waits(both: &mut Both, kind: &str, command: &str) -> [bool; 2] {
    let begin = request(&format!("CLIENT PAUSE {} {kind}", PAUSE.as_millis()));
    let command = request(command);
    let mut connections = [&mut both.redis, &mut both.sidle];
    connections.each_mut().map(|connection| {
        assert_eq!(connection.ask(&begin), b"+OK\r\n");
        let began = Instant::now();
        connection.ask(&command);
        let waited = began.elapsed() > PAUSE / 2;
        thread::sleep(PAUSE.saturating_sub(began.elapsed()) + Duration::from_millis(20));
        waited
    })
}

#[test]
fn the_same_commands_wait() {
    let Some(mut both) = Both::start() else { return };
    for (kind, command, expected) in [
        ("WRITE", "SET a 1", true),
        ("WRITE", "GET a", false),
        ("WRITE", "GETEX a", true),
        ("WRITE", "GETDEL a", true),
        ("WRITE", "SORT a", true),
        ("WRITE", "SORT_RO a", false),
        ("WRITE", "BLPOP a 0.01", true),
        ("WRITE", "FLUSHALL", true),
        ("WRITE", "FUNCTION FLUSH", true),
        ("WRITE", "CONFIG GET port", false),
        ("WRITE", "WAIT 0 0", false),
        ("WRITE", "EXEC", false),
        ("WRITE", "NOSUCH", false),
        ("WRITE", "SET a", false),
        ("ALL", "PING", true),
        ("ALL", "GET a", true),
        ("ALL", "CLIENT LIST", true),
        ("ALL", "CLIENT PAUSE 1 WRITE", true),
        ("ALL", "NOSUCH", false),
        ("ALL", "GET", false),
    ] {
        let [redis, sidle] = waits(&mut both, kind, command);
        assert_eq!((redis, sidle), (expected, expected), "{kind}: {command}");
    }
}
