//! A node starts with the memory that it ran with, whatever its log has beside the data.

use super::support::{Client, Node};
use super::{durable, files, number};
use std::io::Write;

const ROUNDS: usize = 1_000;
const KEYS: usize = 1_000;

/// Sets and removes as many keys again and again; a few stay.
fn set_and_remove(client: &mut Client) {
    for round in 0..ROUNDS {
        let keys: Vec<String> = (0..KEYS).map(|at| format!("{{{}}}session:{round}:{at}", at % 50)).collect();
        let mut sent = Vec::new();
        for key in &keys {
            write!(sent, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$1\r\nx\r\n", key.len()).expect("into memory");
        }
        for key in &keys[usize::from(round % 100 == 0)..] {
            write!(sent, "*2\r\n$3\r\nDEL\r\n${}\r\n{key}\r\n", key.len()).expect("into memory");
        }
        client.send_bytes(&sent);
        (0..2 * KEYS - usize::from(round % 100 == 0)).for_each(|_| drop(client.read()));
    }
}

#[test]
fn a_node_that_removed_much_starts_again_with_its_memory() {
    let mut node = Node::start(&durable("everysec").flag("--max-memory", "32mb"));
    set_and_remove(&mut node.client());
    assert_eq!(number(&mut node.client(), &["DBSIZE"]) as usize, ROUNDS / 100);
    let bytes: u64 = files(&node).iter().map(|file| file.metadata().expect("it is there").len()).sum();
    assert!(bytes > 64 << 20, "{bytes} bytes of log say little");
    node.kill();
    node.restart();
    assert_eq!(number(&mut node.client(), &["DBSIZE"]) as usize, ROUNDS / 100);
}
