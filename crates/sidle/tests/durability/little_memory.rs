//! A node starts with the memory that it ran with, whatever its log has beside the data.

use super::support::{Client, Node};
use super::{durable, files, number};

const ROUNDS: usize = 1_000;
const KEYS: usize = 1_000;

/// Sets keys and removes them, again and again; a few stay.
fn set_and_remove(client: &mut Client) {
    let line = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    for round in 0..ROUNDS {
        let keys: Vec<String> = (0..KEYS).map(|at| format!("session:{round}:{at}")).collect();
        let stay = usize::from(round.is_multiple_of(100));
        let mut requests: Vec<_> = keys.iter().map(|key| line(&["SET", key, "x"])).collect();
        requests.extend(keys[stay..].iter().map(|key| line(&["DEL", key])));
        client.pipeline(&requests);
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
