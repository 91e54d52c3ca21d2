//! Saves: what a file of a node's keys has, whatever clients do meanwhile.

use sidle_node::testing::{SoloNode, TestClient};
use sidle_node::{SavedKeys, SavingStep};
use sidle_rdb::{FileKey, FileReader, FileValue, FileWriter, Restored, restore};
use sidle_resp::Value;
use sidle_types::WallMs;
use std::io::Cursor;

/// More than one slice of a large collection.
const ELEMENTS: usize = 40_000;

fn node() -> SoloNode {
    let node = SoloNode::new();
    node.parts.shared.config.apply(vec![("enable-debug-command", "yes".to_owned())]);
    node
}

/// Saves all keys; between two steps `meanwhile` runs.
fn saved(node: &mut SoloNode, mut meanwhile: impl FnMut(&mut SoloNode, usize)) -> Vec<FileKey> {
    let parts = node.parts.clone();
    let mut keys = SavedKeys::of(&parts);
    let mut file = FileWriter::new(Cursor::new(Vec::new()), &[]).expect("it works");
    for step in 0.. {
        match keys.step(node.now.wall, &mut file).expect("it works") {
            SavingStep::Wrote => meanwhile(node, step),
            SavingStep::Awaits(migration) => panic!("nothing arrives by {migration}"),
            SavingStep::AwaitsTakeover => panic!("nothing is taken over"),
            SavingStep::End => break,
        }
    }
    let bytes = file.bytes_written() as usize + 9;
    let mut file = file.end().expect("it works").into_inner();
    file.truncate(bytes);
    let mut reader = FileReader::new(&file[..]).expect("it works");
    std::iter::from_fn(|| reader.next_key().expect("it works")).collect()
}

fn payload(key: &FileKey) -> &[u8] {
    match &key.value {
        FileValue::Payload(payload) => payload,
        FileValue::Other(name) => panic!("a {name}"),
    }
}

fn restored<'k>(keys: &'k [FileKey], name: &[u8]) -> Restored<'k> {
    let key = keys.iter().find(|key| key.name == name).expect("it works");
    restore(payload(key), 1 << 30).expect("it works")
}

fn send(node: &mut SoloNode, client: &mut TestClient, args: &[&[u8]]) -> Value {
    client.send(args);
    // A RESTORE goes on over many turns.
    loop {
        client.serve(&mut node.worker, node.now);
        if let Some(reply) = client.receive() {
            return reply;
        }
        node.worker.turn();
        while let Some(ticket) = node.worker.poll_woken() {
            client.wake(ticket);
        }
    }
}

/// Adds many elements, `name` first.
fn fill(node: &mut SoloNode, client: &mut TestClient, command: &str, name: &str) {
    for from in (0..ELEMENTS).step_by(500) {
        let mut words = vec![command.to_owned(), name.to_owned()];
        for number in from..from + 500 {
            match command {
                "ZADD" => words.extend([(number % 977).to_string(), format!("member:{number:07}")]),
                "HSET" => words.extend([format!("field:{number:07}"), number.to_string()]),
                _ => words.push(format!("element:{number:07}")),
            }
        }
        let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        assert!(matches!(send(node, client, &args), Value::Integer(_)));
    }
}

#[test]
fn a_file_has_every_type_in_every_size() {
    let mut node = node();
    let mut client = node.connect();
    for request in [
        "SET text value",
        "SET number 12345",
        "SETEX later 1000 v",
        "RPUSH list a b 3",
        "SADD integers 1 2 70000",
        "SADD words x y",
        "HSET hash f v g 2",
        "ZADD sorted 1.5 a -inf b",
        "SET {tag}gone v PX 1",
        "HSET {tag}gone-too f v",
        "PEXPIRE {tag}gone-too 1",
    ] {
        node.ask(&mut client, request);
    }
    for number in 0..3000 {
        node.ask(&mut client, &format!("SET key:{number} value:{number}"));
    }
    let long = vec![b'x'; 3 << 20];
    send(&mut node, &mut client, &[b"SET", b"long", &long]);
    send(&mut node, &mut client, &[b"PEXPIREAT", b"long", b"1800000000123"]);
    for (command, name) in
        [("RPUSH", "large list"), ("SADD", "large set"), ("HSET", "large hash"), ("ZADD", "large sorted")]
    {
        fill(&mut node, &mut client, command, name);
    }
    node.now.wall = WallMs(node.now.wall.0 + 2);
    let keys = saved(&mut node, |_, _| {});
    assert_eq!(keys.len(), 8 + 3000 + 1 + 4);
    assert!(!keys.iter().any(|key| key.name.starts_with(b"{tag}")));
    let long = keys.iter().find(|key| key.name == b"long").unwrap();
    assert_eq!(long.expires_at_ms, Some(1_800_000_000_123));

    let mut other = self::node();
    let mut other_client = other.connect();
    for key in &keys {
        let deadline = key.expires_at_ms.unwrap_or(0).to_string();
        let footed = payload(key);
        let args: [&[u8]; 5] = [b"RESTORE", &key.name, deadline.as_bytes(), footed, b"ABSTTL"];
        assert_eq!(send(&mut other, &mut other_client, &args), Value::Simple("OK".into()));
    }
    other.now = node.now;
    // What has expired is gone.
    node.ask(&mut client, "DEL {tag}gone {tag}gone-too");
    assert_eq!(other.ask(&mut other_client, "DEBUG DIGEST"), node.ask(&mut client, "DEBUG DIGEST"));
}

/// Each change moves one element from the front to the back, or marks all: so a mixture shows.
#[test]
fn a_large_value_that_changes_meanwhile_is_saved_in_one_state() {
    // Once, a few times, and for ever.
    for changes in [1, 3, usize::MAX] {
        let mut node = node();
        let mut client = node.connect();
        fill(&mut node, &mut client, "RPUSH", "list");
        fill(&mut node, &mut client, "ZADD", "sorted");
        let keys = saved(&mut node, |node, step| {
            if step < changes {
                node.ask(&mut client, "LMOVE list list LEFT RIGHT");
                let last = node.ask(&mut client, "ZRANGE sorted -1 -1");
                let Value::Array(last) = last else { panic!("{last:?}") };
                let member = last[0].as_bytes().unwrap().to_vec();
                let score = format!("-{}", step + 1);
                send(node, &mut client, &[b"ZADD", b"sorted", score.as_bytes(), &member]);
            }
        });
        let Restored::List(items) = restored(&keys, b"list") else { panic!("no list") };
        assert_eq!(items.len(), ELEMENTS);
        let number = |item: &[u8]| str::from_utf8(&item[8..]).unwrap().parse::<usize>().unwrap();
        let first = number(&items[0]);
        for (at, item) in items.iter().enumerate() {
            assert_eq!(number(item), (first + at) % ELEMENTS, "at {at}, {changes} changes");
        }
        // A member is there once, wherever it went.
        let Restored::SortedSet(members) = restored(&keys, b"sorted") else { panic!("no sorted set") };
        assert_eq!(members.len(), ELEMENTS);
    }
}

#[test]
fn a_large_value_that_goes_meanwhile_leaves_nothing() {
    for last_step in 0..6 {
        let mut node = node();
        let mut client = node.connect();
        fill(&mut node, &mut client, "SADD", "set");
        node.ask(&mut client, "SET other v");
        let keys = saved(&mut node, |node, step| {
            if step == last_step {
                node.ask(&mut client, "DEL set");
            }
        });
        let names: Vec<&[u8]> = keys.iter().map(|key| &key.name[..]).collect();
        assert!(names == [b"other"] || names.len() == 2 && last_step > 2, "{names:?}");
        if names.len() == 2 {
            assert!(matches!(restored(&keys, b"set"), Restored::Set(members) if members.len() == ELEMENTS));
        }
    }
}

#[test]
fn bgsave_and_save_ask_for_one_at_a_time() {
    let mut node = node();
    let mut client = node.connect();
    let busy = Value::Error("ERR Background save already in progress".into());
    let started = Value::Simple("Background saving started".into());
    assert_eq!(node.ask(&mut client, "BGSAVE SCHEDULE"), started);
    for request in ["BGSAVE", "BGSAVE SCHEDULE", "SAVE"] {
        assert_eq!(node.ask(&mut client, request), busy, "{request}");
    }
    assert!(matches!(node.ask(&mut client, "BGSAVE NOW"), Value::Error(_)));
    let shown = |node: &mut SoloNode, client: &mut TestClient| {
        let info = node.ask(client, "INFO persistence");
        String::from_utf8(info.as_bytes().unwrap().to_vec()).unwrap()
    };
    let runs = shown(&mut node, &mut client);
    assert!(runs.contains("rdb_bgsave_in_progress:1\r\n"), "{runs}");
    assert!(runs.contains("rdb_last_bgsave_time_sec:-1\r\nrdb_current_bgsave_time_sec:0\r\n"), "{runs}");
    assert_eq!(node.ask(&mut client, "LASTSAVE"), Value::Integer(0));
    node.parts.shared.saves.end(Err("full".to_owned()), node.now.wall);
    let failed = shown(&mut node, &mut client);
    assert!(failed.contains("rdb_bgsave_in_progress:0\r\n"), "{failed}");
    assert!(failed.contains("rdb_last_bgsave_status:err\r\nrdb_last_bgsave_time_sec:0\r\n"), "{failed}");
    assert_eq!(node.ask(&mut client, "BGSAVE"), started);
    node.parts.shared.saves.end(Ok(()), node.now.wall);
    let saved = shown(&mut node, &mut client);
    assert!(saved.contains("rdb_last_bgsave_status:ok\r\n") && saved.contains("rdb_saves:1\r\n"), "{saved}");
    assert_eq!(node.ask(&mut client, "LASTSAVE"), Value::Integer(1_700_000_000));
    let refused = node.ask(&mut client, "CONFIG SET dbfilename x");
    assert!(matches!(refused, Value::Error(error) if error.ends_with("can't set protected config")));
}
