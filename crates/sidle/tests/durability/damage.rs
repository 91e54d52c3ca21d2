//! Damaged files, full disks, and settings that do not fit.

use super::support::{Node, bulk, sidle};
use super::{durable, files, info, number};
use sidle_resp::Value;
use std::path::Path;
use std::time::Duration;

/// Starts a node that is refused; what it reports.
pub(super) fn refused(node: &Node, flags: &[&str]) -> String {
    let folder = node.folder();
    let output = sidle()
        .args([
            "server",
            "--port",
            "0",
            "--bus-port",
            "0",
            "--workers",
            "2",
            "--max-memory",
            "256mb",
            "--dir",
        ])
        .arg(&folder)
        .args(flags)
        .output()
        .expect("the program starts");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A node with some keys, that was stopped.
fn stopped() -> Node {
    let mut node = Node::start(&durable("always"));
    let mut client = node.client();
    for number in 0..100 {
        client.request(&["SET", &format!("key {number}"), &"v".repeat(1000)]);
    }
    assert!(node.stop().success());
    node
}

fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).expect("it is there");
    bytes[at] ^= 0x20;
    std::fs::write(file, bytes).expect("it is written");
}

#[test]
fn a_damaged_file_is_refused_with_words_and_salvaged_when_asked() {
    let mut node = stopped();
    let file = files(&node).remove(0);
    let middle = std::fs::metadata(&file).expect("it is there").len() as usize / 2;
    flip(&file, middle);
    let why = refused(&node, &["--durability", "disk"]);
    assert!(why.contains("000000000001.log is damaged at byte") && why.contains("--salvage"), "{why}");
    // Nothing was changed: put back, all is there.
    flip(&file, middle);
    node.restart();
    assert_eq!(number(&mut node.client(), &["DBSIZE"]), 100);
    assert!(node.stop().success());
    flip(&file, middle);
    let folder = node.folder();
    let options = durable("always").flag("--dir", folder.to_str().expect("a plain name"));
    let mut salvaged = Node::start(&options.clone().switch("--salvage"));
    let left = number(&mut salvaged.client(), &["DBSIZE"]);
    assert!((98..100).contains(&left), "{left} of 100 keys");
    assert!(salvaged.stop().success());
    assert!(folder.join("durable-log/000000000001.damaged").exists(), "it is kept");
    let again = Node::start(&options);
    assert_eq!(number(&mut again.client(), &["DBSIZE"]), left, "it is whole again");
}

#[test]
fn a_missing_file_is_refused_and_a_torn_end_is_not() {
    let config = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(config.path(), "[durability]\nmode = \"disk\"\nfile = \"1mb\"\n").expect("it is written");
    let path = config.path().to_str().expect("a plain name").to_owned();
    let mut node = Node::start(&durable("everysec").flag("--config", &path));
    let mut client = node.client();
    for number in 0..40 {
        client.request(&["SET", &format!("key {number}"), &"v".repeat(100_000)]);
    }
    node.kill();
    let all = files(&node);
    assert!(all.len() >= 3, "{} files", all.len());
    let second = std::fs::read(&all[1]).expect("it is there");
    std::fs::remove_file(&all[1]).expect("it is removed");
    let why = refused(&node, &["--config", &path]);
    assert!(why.contains("000000000002.log is missing"), "{why}");
    std::fs::write(&all[1], second).expect("it is written");
    // What the machine had not written out when it crashed.
    let last = all.last().expect("the newest");
    let mut bytes = std::fs::read(last).expect("it is there");
    bytes.extend_from_slice(&[0x5a; 1000]);
    std::fs::write(last, bytes).expect("it is written");
    node.restart();
    assert_eq!(number(&mut node.client(), &["DBSIZE"]), 40);
    node.kill();
    node.restart();
    assert_eq!(number(&mut node.client(), &["DBSIZE"]), 40);
}

/// As where the volume with the log is not mounted, or another one is.
#[test]
fn a_start_without_its_log_or_with_another_one_is_refused_unless_it_is_salvaged() {
    let mut node = stopped();
    let (log, kept) = (node.file("durable-log"), node.file("kept"));
    let disk = ["--durability", "disk"];
    std::fs::rename(&log, &kept).expect("it is there");
    for is_mount_point in [false, true] {
        if is_mount_point {
            std::fs::create_dir(&log).expect("a folder");
        }
        let why = refused(&node, &disk);
        assert!(why.contains("and there is none in") && why.contains("put it back"), "{why}");
        assert!(!why.contains("sidle takeover"), "it has no copies: {why}");
        assert_eq!(log.exists(), is_mount_point, "nothing is changed");
    }
    let other = stopped();
    std::fs::remove_dir(&log).expect("an empty folder");
    std::fs::rename(other.file("durable-log"), &log).expect("it is there");
    let why = refused(&node, &disk);
    assert!(why.contains("and another one, ") && why.contains("--salvage"), "{why}");
    std::fs::remove_dir_all(&log).expect("it is there");
    // As told.
    std::fs::rename(&kept, &log).expect("it is there");
    node.restart();
    assert_eq!(number(&mut node.client(), &["DBSIZE"]), 100);
    assert!(node.stop().success());
    std::fs::remove_dir_all(&log).expect("it is there");
    node.restart_with_switch("--salvage");
    assert_eq!(number(&mut node.client(), &["DBSIZE"]), 0);
    node.kill();
    node.restart();
    assert_eq!(
        number(&mut node.client(), &["DBSIZE"]),
        0,
        "that log is its own now, though nothing was written"
    );
}

/// It is noticed before anybody writes.
#[test]
fn a_log_that_cannot_be_written_is_refused_at_the_start() {
    let mut node = stopped();
    let in_the_way = node.file("durable-log").join("files.new");
    std::fs::create_dir(&in_the_way).expect("a folder");
    let why = refused(&node, &["--durability", "disk"]);
    assert!(why.contains("cannot be used") && why.contains("/durable-log"), "{why}");
    std::fs::remove_dir(&in_the_way).expect("it is there");
    node.restart();
    assert_eq!(number(&mut node.client(), &["DBSIZE"]), 100);
}

#[test]
fn a_log_is_not_left_out_by_mistake() {
    let node = stopped();
    let none = ["--durability", "none"];
    let why = refused(&node, &none);
    assert!(why.contains("--durability disk") && why.contains("/durable-log"), "{why}");
    for flags in [&["--fsync", "always"][..], &["--salvage"]] {
        let why = refused(&node, &[&none[..], flags].concat());
        assert!(why.contains("there is no durable log: give --durability disk"), "{why}");
    }
}

/// The limit of a file's size stands for a full disk.
#[test]
fn a_full_disk_refuses_writes_and_loses_nothing() {
    let flags = ["--durability", "disk", "--debug-commands"];
    let mut node = Node::start_under("ulimit -f 4096", &flags).unwrap_or_else(|log| panic!("{log}"));
    let mut client = node.client();
    let value = "v".repeat(50_000);
    let mut acknowledged = 0;
    let error = loop {
        client.send(&["SET", &format!("key {acknowledged}"), &value]);
        if client.reply_within(Duration::from_secs(2)).is_some() {
            acknowledged += 1;
            continue;
        }
        // That one waits until there is room; the next are refused.
        let mut other = node.client();
        other.send(&["SET", "other", "1"]);
        match other.reply_within(Duration::from_millis(200)) {
            Some(Value::Error(error)) => break error,
            other => assert_eq!(other, None, "nothing is acknowledged"),
        }
    };
    assert!(error.starts_with("MISCONF Errors writing to the durable log"), "{error}");
    assert!((10..200).contains(&acknowledged), "{acknowledged}");
    let mut reader = node.client();
    assert_eq!(reader.request(&["GET", "key 0"]), bulk(&value));
    assert_eq!(info(&mut reader, "aof_last_write_status"), "err");
    for flush in [&["FLUSHALL"][..], &["FLUSHDB"], &["FLUSHALL", "ASYNC"]] {
        reader.send(flush);
        match reader.reply_within(Duration::from_secs(2)) {
            Some(Value::Error(error)) => assert!(error.starts_with("MISCONF "), "{error}"),
            other => panic!("{flush:?} is not refused: {other:?}"),
        }
    }
    assert_eq!(reader.request(&["GET", "key 0"]), bulk(&value), "nothing is flushed");
    node.kill();
    node.restart_with_flags(&["--durability", "disk"]);
    let mut client = node.client();
    for number in 0..acknowledged {
        assert_eq!(client.request(&["GET", &format!("key {number}")]), bulk(&value), "key {number}");
    }
}
