//! CLIENT PAUSE: which commands wait.

use crate::encode;
use crate::server::Both;
use std::thread;
use std::time::{Duration, Instant};

/// How long a pause is. What waits is answered behind it, everything else long before.
const PAUSE: Duration = Duration::from_millis(600);

fn request(words: &str) -> Vec<u8> {
    encode(&words.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())
}

/// Whether each of the two servers has a command wait.
fn waits(both: &mut Both, kind: &str, command: &str) -> [bool; 2] {
    let begin = request(&format!("CLIENT PAUSE {} {kind}", PAUSE.as_millis()));
    let command = request(command);
    let mut connections = [&mut both.redis, &mut both.sidle];
    connections.each_mut().map(|connection| {
        let began = Instant::now();
        assert_eq!(connection.ask(&begin), b"+OK\r\n");
        connection.ask(&command);
        let waited = began.elapsed() >= PAUSE;
        // A pause of everything ends by itself only.
        if kind == "ALL" {
            thread::sleep(PAUSE.saturating_sub(began.elapsed()) + Duration::from_millis(50));
        }
        assert_eq!(connection.ask(&request("CLIENT UNPAUSE")), b"+OK\r\n");
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
