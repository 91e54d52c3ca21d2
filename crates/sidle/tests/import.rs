//! `sidle import`: an RDB file's keys come into a running cluster, and an unusable file changes nothing.

#![allow(clippy::disallowed_methods)] // tests run processes and write files

mod support;

use serde_json::Value as Json;
use sidle_rdb::{Dumped, FileWriter};
use sidle_resp::Value;
use std::path::{Path, PathBuf};
use std::process::Output;
use support::{Node, NodeOptions, TestCluster, bulk};
use tempfile::TempDir;

const KEYS: u64 = 3_000;
/// Far away: the year 2100.
const DEADLINE_MS: u64 = 4_102_444_800_000;

fn written(folder: &TempDir, keys: impl FnOnce(&mut FileWriter<Vec<u8>>)) -> PathBuf {
    let mut writer = FileWriter::new(Vec::new(), &[("redis-ver", "7.0.0")]).expect("it is written");
    keys(&mut writer);
    let path = folder.path().join("dump.rdb");
    std::fs::write(&path, writer.end().expect("it is written")).expect("it is written");
    path
}

/// Many strings, one value of each other type, and one that expired long ago.
fn many(writer: &mut FileWriter<Vec<u8>>) {
    for number in 0..KEYS {
        let (name, value) = (format!("key:{number}"), format!("value:{number}"));
        let deadline = number.is_multiple_of(3).then_some(DEADLINE_MS);
        writer.key(name.as_bytes(), deadline, Dumped::String(value.as_bytes())).expect("it is written");
    }
    let pairs = [(&b"field"[..], &b"1"[..]), (b"other", b"2")];
    writer.key(b"hash", None, Dumped::Hash { pairs: &pairs, is_small: true }).expect("it is written");
    writer.key(b"list", None, Dumped::List(&[b"a", b"b", b"c"])).expect("it is written");
    writer
        .key(b"set", None, Dumped::Set { members: &[b"3", b"70000"], is_intset: true })
        .expect("it is written");
    let texts: Vec<String> = (0..100_000).map(|number| format!("member:{number}")).collect();
    let members: Vec<(&[u8], f64)> =
        texts.iter().zip(0_u32..).map(|(text, score)| (text.as_bytes(), f64::from(score))).collect();
    writer
        .key(b"sorted set", None, Dumped::SortedSet { members: &members, is_small: false })
        .expect("it is written");
    writer.key(b"gone", Some(1), Dumped::String(b"long ago")).expect("it is written");
}

fn import(node: &Node, file: &Path, flags: &[&str]) -> Output {
    node.run(&[&["import", &file.display().to_string()], flags].concat())
}

fn imported(node: &Node, file: &Path, flags: &[&str]) -> Json {
    let output = import(node, file, &[flags, &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("--json prints JSON")
}

fn refused(node: &Node, file: &Path, flags: &[&str], told: &str) {
    let output = import(node, file, flags);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains(told), "{error}");
}

fn keys_of(cluster: &TestCluster) -> i64 {
    let sizes = (0..cluster.nodes.len()).map(|node| cluster.client(node).request(&["DBSIZE"]));
    sizes.map(|size| if let Value::Integer(size) = size { size } else { panic!("{size:?}") }).sum()
}

#[test]
fn a_file_comes_into_a_cluster_whose_slots_move() {
    let cluster = TestCluster::start(2);
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, many);
    let id = cluster.start_migration("0-8191", 1);
    let report = imported(&cluster.nodes[0], &file, &[]);
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    assert_eq!((report["keys"].as_u64(), report["expired"].as_u64()), (Some(KEYS + 4), Some(1)), "{report}");
    assert_eq!(keys_of(&cluster), KEYS as i64 + 4);
    let mut client = cluster.client(0);
    for number in (0..KEYS).step_by(7) {
        let name = format!("key:{number}");
        assert_eq!(client.request_anywhere(&["GET", &name]), bulk(&format!("value:{number}")));
        let deadline = if number.is_multiple_of(3) { DEADLINE_MS as i64 } else { -1 };
        assert_eq!(client.request_anywhere(&["PEXPIRETIME", &name]), Value::Integer(deadline));
    }
    for (request, reply) in [
        (&["HGET", "hash", "other"][..], bulk("2")),
        (&["LINDEX", "list", "-1"], bulk("c")),
        (&["SISMEMBER", "set", "70000"], Value::Integer(1)),
        (&["ZCARD", "sorted set"], Value::Integer(100_000)),
        (&["ZSCORE", "sorted set", "member:77777"], bulk("77777")),
        (&["EXISTS", "gone"], Value::Integer(0)),
    ] {
        assert_eq!(client.request_anywhere(request), reply, "{request:?}");
    }
}

#[test]
fn keys_that_are_there_are_kept_or_replaced() {
    let cluster = TestCluster::start(1);
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, |writer| {
        for name in [&b"a"[..], b"b"] {
            writer.key(name, None, Dumped::String(b"of the file")).unwrap();
        }
    });
    let mut client = cluster.client(0);
    client.request(&["SET", "a", "mine"]);
    let report = imported(&cluster.nodes[0], &file, &[]);
    assert_eq!((report["keys"].as_u64(), report["existing"].as_u64()), (Some(1), Some(1)), "{report}");
    assert_eq!(client.request(&["MGET", "a", "b"]), Value::Array(vec![bulk("mine"), bulk("of the file")]));
    // The same line again: an import that was interrupted is begun so.
    assert_eq!(imported(&cluster.nodes[0], &file, &[])["existing"].as_u64(), Some(2));
    let report = imported(&cluster.nodes[0], &file, &["--existing", "replace"]);
    assert_eq!((report["keys"].as_u64(), report["existing"].as_u64()), (Some(2), Some(0)), "{report}");
    assert_eq!(client.request(&["GET", "a"]), bulk("of the file"));
}

#[test]
fn what_cannot_be_used_changes_nothing_and_says_why() {
    let cluster = TestCluster::start(1);
    let node = &cluster.nodes[0];
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, many);
    let sound = std::fs::read(&file).unwrap();
    refused(node, &folder.path().join("nowhere.rdb"), &[], "No such file");
    refused(node, folder.path(), &[], "directory");
    for (bytes, told) in [
        (b"hello".to_vec(), "no RDB file"),
        (sound[..sound.len() / 2].to_vec(), "in the middle: it was cut off"),
        ([&sound[..100], &[sound[100] ^ 1], &sound[101..]].concat(), "damaged"),
        (b"REDIS0011\x0f\x01s\x00\x00\x00\x00\x00\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0".to_vec(), "1 stream"),
        (b"REDIS0011\x00\x01k\x01v\xfe\x03\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0".to_vec(), "databases 0, 3"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        refused(node, &file, &[], told);
        assert_eq!(keys_of(&cluster), 0, "{told}");
    }
    assert_eq!(imported(node, &file, &["--database", "3"])["keys"].as_u64(), Some(1));
    refused(node, &file, &["--database", "4"], "no keys in database 4: it has 0, 3");
    std::fs::write(&file, b"REDIS0011\x0f\x01s\x00\x00\x00\x00\x00\x00\x01n\x01v\xff\0\0\0\0\0\0\0\0")
        .unwrap();
    let report = imported(node, &file, &["--skip-unknown"]);
    assert_eq!((report["keys"].as_u64(), report["unknown"].as_u64()), (Some(1), Some(1)), "{report}");
    // A value whose bytes do not fit each other, in a file whose checksum is right.
    let bad = written(&folder, |writer| {
        writer.key(b"good", None, Dumped::String(b"v")).unwrap();
        writer.key(b"bad", None, Dumped::List(&[])).unwrap();
    });
    let output = import(node, &bad, &[]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("key 'bad': ") && error.contains("1 key of 2 are done"), "{error}");
}

#[test]
fn a_full_cluster_and_a_missing_one_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let value = vec![b'x'; 1 << 20];
    let file = written(&folder, |writer| {
        for number in 0..100 {
            writer.key(format!("large:{number}").as_bytes(), None, Dumped::String(&value)).unwrap();
        }
    });
    let mut node = Node::start(&NodeOptions::default().flag("--max-memory", "64mb"));
    let output = import(&node, &file, &[]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("OOM") && error.contains("of 100 are done"), "{error}");
    node.kill();
    let output = import(&node, &file, &["--timeout", "1"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    // To check a file takes no cluster.
    let output = import(&node, &file, &["--check"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("100 keys, 0 with a deadline"), "{text}");
}
