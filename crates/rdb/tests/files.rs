//! RDB files: what is written is read, damage is seen, and what is not known is passed over.

use proptest::prelude::*;
use sidle_rdb::{Begun, Dumped, FileError, FileKey, FileReader, FileValue, FileWriter, Restored, restore};
use std::borrow::Cow;
use std::io::Cursor;

const MOST_BYTES: u64 = 1 << 20;

fn keys(file: &[u8]) -> Result<Vec<FileKey>, FileError> {
    let mut reader = FileReader::new(file)?;
    std::iter::from_fn(|| reader.next_key().transpose()).collect()
}

fn restored(key: &FileKey) -> Restored<'_> {
    match &key.value {
        FileValue::Payload(payload) => restore(payload, MOST_BYTES).expect("it fits"),
        FileValue::Other(name) => panic!("a {name}"),
    }
}

/// A file with these bytes between its head and its end.
fn file_of(version: u16, bytes: &[u8]) -> Vec<u8> {
    let mut file = format!("REDIS{version:04}").into_bytes();
    file.extend_from_slice(bytes);
    file.push(255);
    // No checksum.
    file.extend([0; 8]);
    file
}

/// One key of each type.
fn written() -> Vec<u8> {
    let mut writer =
        FileWriter::new(Vec::new(), &[("redis-ver", "7.0.0"), ("ctime", "1700000000")]).expect("it fits");
    writer.key(b"string", None, Dumped::String(b"value")).expect("it fits");
    writer.key(b"number", Some(1_900_000_000_123), Dumped::String(b"-70000")).expect("it fits");
    let pairs = [(&b"a"[..], &b"1"[..]), (b"b", b"2")];
    for (name, is_small) in [(&b"hash"[..], true), (b"large hash", false)] {
        writer.key(name, None, Dumped::Hash { pairs: &pairs, is_small }).expect("it fits");
    }
    writer.key(b"list", None, Dumped::List(&[b"x", b"y"])).expect("it fits");
    writer
        .key(b"integers", None, Dumped::Set { members: &[b"1", b"70000"], is_intset: true })
        .expect("it fits");
    writer.key(b"set", Some(1), Dumped::Set { members: &[b"p", b"q"], is_intset: false }).expect("it fits");
    let members = [(&b"m"[..], -1.5), (b"n", f64::INFINITY)];
    for (name, is_small) in [(&b"sorted set"[..], true), (b"large sorted set", false)] {
        writer.key(name, None, Dumped::SortedSet { members: &members, is_small }).expect("it fits");
    }
    let bytes = writer.bytes_written();
    let file = writer.end().expect("it fits");
    assert_eq!(file.len() as u64, bytes + 9);
    file
}

#[test]
fn what_is_written_is_read() {
    let file = written();
    let mut reader = FileReader::new(&file[..]).unwrap();
    assert_eq!(reader.version(), 10);
    let keys: Vec<FileKey> = std::iter::from_fn(|| reader.next_key().unwrap()).collect();
    assert_eq!(reader.bytes_read(), file.len() as u64);
    let names: Vec<String> = keys.iter().map(|key| String::from_utf8_lossy(&key.name).into_owned()).collect();
    assert_eq!(
        names.join(","),
        "string,number,hash,large hash,list,integers,set,sorted set,large sorted set"
    );
    assert!(keys.iter().all(|key| (key.database, key.idle_s, key.frequency) == (0, None, None)));
    let deadlines: Vec<u64> = keys.iter().filter_map(|key| key.expires_at_ms).collect();
    assert_eq!(deadlines, [1_900_000_000_123, 1]);
    let text = |text: &'static str| Cow::Borrowed(text.as_bytes());
    assert_eq!(restored(&keys[0]), Restored::String(text("value")));
    assert_eq!(restored(&keys[1]), Restored::String(text("-70000")));
    for hash in &keys[2..4] {
        let pairs = vec![(text("a"), text("1")), (text("b"), text("2"))];
        assert_eq!(restored(hash), Restored::Hash(pairs));
    }
    assert_eq!(restored(&keys[4]), Restored::List(vec![text("x"), text("y")]));
    assert_eq!(restored(&keys[5]), Restored::Set(vec![text("1"), text("70000")]));
    for set in &keys[7..] {
        let Restored::SortedSet(mut members) = restored(set) else { panic!("{set:?}") };
        // A large one is written from its end, as Redis does.
        members.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        assert_eq!(members, [(text("m"), -1.5), (text("n"), f64::INFINITY)]);
    }
}

#[test]
fn a_file_that_was_cut_off_says_where() {
    let file = written();
    for length in 0..file.len() {
        match keys(&file[..length]) {
            Err(FileError::OtherFile) => assert!(length < 9, "{length}"),
            Err(FileError::Truncated(at)) => assert!(at <= length as u64 && length >= 9),
            other => panic!("{length}: {other:?}"),
        }
    }
}

#[test]
fn no_flipped_byte_goes_unseen() {
    let file = written();
    for at in 0..file.len() {
        let mut file = file.clone();
        file[at] ^= 0x10;
        assert!(keys(&file).is_err(), "byte {at}");
    }
}

#[test]
fn files_without_a_checksum_are_read() {
    assert_eq!(keys(&file_of(7, b"\x00\x01k\x01v")).unwrap().len(), 1);
    // Before version 5 there is none, nor a place for it.
    let file = b"REDIS0004\x00\x01k\x01v\xff";
    assert_eq!(keys(file).unwrap().len(), 1);
}

#[test]
fn marks_belong_to_the_key_behind_them() {
    let bytes = b"\xfa\x03abc\xc0\x05\xfe\x07\xfb\x03\x02\xfd\x01\x00\x00\x00\xf9\x09\x00\x01a\x01v\
                  \xf8\x40\x64\x00\x01b\xc1\x10\x27\xf4\x01\x02\x03\xfe\x08\x00\x01c\x00";
    let keys = keys(&file_of(12, bytes)).unwrap();
    let [a, b, c] = &keys[..] else { panic!("{keys:?}") };
    assert_eq!((a.database, a.expires_at_ms, a.idle_s, a.frequency), (7, Some(1000), None, Some(9)));
    assert_eq!((b.database, b.expires_at_ms, b.idle_s, b.frequency), (7, None, Some(100), None));
    assert_eq!(restored(b), Restored::String(Cow::Borrowed(b"10000")));
    assert_eq!((c.database, restored(c)), (8, Restored::String(Cow::Borrowed(b""))));
}

/// A stream: one listpack; three lengths, later eight; a group with one consumer that owes one entry.
fn stream(kind: u8) -> Vec<u8> {
    let mut bytes = vec![kind, 1, b's', 1, 1, b'n', 2, b'l', b'p'];
    bytes.extend(if kind == 15 { &[1, 2, 3][..] } else { &[1, 2, 3, 4, 5, 6, 7, 8] });
    bytes.extend([1, 1, b'g', 2, 3]);
    if kind != 15 {
        bytes.push(4);
    }
    bytes.push(1);
    bytes.extend([9; 16 + 8]);
    bytes.extend([1, 1, 1, b'c']);
    bytes.extend(vec![8; if kind == 21 { 16 } else { 8 }]);
    bytes.push(1);
    bytes.extend([7; 16]);
    bytes
}

#[test]
fn what_is_not_known_is_passed_over() {
    for kind in [15, 19, 21] {
        let bytes = [&stream(kind)[..], b"\x00\x01k\x01v"].concat();
        let keys = keys(&file_of(11, &bytes)).unwrap();
        assert_eq!(keys[0].value, FileValue::Other("stream"), "{kind}");
        assert_eq!(restored(&keys[1]), Restored::String(Cow::Borrowed(b"v")));
    }
    // A module's value: its number, an unsigned number, a float, a double, a string, and the end.
    let module =
        b"\x07\x01m\x05\x02\x09\x03\x00\x00\x80\x3f\x04\x00\x00\x00\x00\x00\x00\xf0\x3f\x05\x02ab\x00";
    // What it keeps beside keys, and a library of functions.
    let beside = b"\xf7\x05\x02\x01\x05\x01x\x00\xf5\x04code";
    let file = file_of(11, &[&module[..], beside, b"\x00\x01k\x01v"].concat());
    let mut reader = FileReader::new(&file[..]).unwrap();
    assert_eq!(reader.next_key().unwrap().unwrap().value, FileValue::Other("module's value"));
    assert_eq!(restored(&reader.next_key().unwrap().unwrap()), Restored::String(Cow::Borrowed(b"v")));
    assert_eq!(reader.next_key().unwrap(), None);
    assert_eq!(reader.passed_over(), 2);
}

#[test]
fn other_files_are_refused_with_words() {
    for (file, told) in [
        (&b""[..], "no RDB file"),
        (b"REDIS", "no RDB file"),
        (b"VALKEY080\xff", "no RDB file"),
        (b"#!/bin/sh\necho", "no RDB file"),
        (b"REDIS00x1\xff", "no RDB file"),
        (b"REDIS0099\xff", "its version is 99"),
        (b"REDIS0011\x2a\x01k", "type 42 is unknown"),
        (b"REDIS0011\x00\x01k\xff", "before byte 13"),
        (b"REDIS0011\x00\x01k\x81\xff\xff\xff\xff\xff\xff\xff\xff", "ends at byte"),
        (b"REDIS0011\xff\x01\x02\x03\x04\x05\x06\x07\x08", "its checksum is 0807060504030201"),
    ] {
        let error = keys(file).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

fn text(text: &str) -> Cow<'_, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

#[test]
fn values_whose_elements_follow_are_read() {
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[]).unwrap();
    writer.begin(b"string", Some(1_900_000_000_123), Begun::String(5)).unwrap();
    writer.bytes(b"val").unwrap();
    writer.bytes(b"ue").unwrap();
    writer.begin(b"hash", None, Begun::Hash(1)).unwrap();
    writer.text(b"field").unwrap();
    writer.text(b"17").unwrap();
    for (name, value) in [(b"set ", Begun::Set(2)), (b"list", Begun::List(2))] {
        writer.begin(name, None, value).unwrap();
        writer.text(b"b").unwrap();
        writer.text(b"a").unwrap();
    }
    writer.begin(b"sorted set", None, Begun::SortedSet(2)).unwrap();
    for (member, score) in [(b"b", 2.5), (b"a", f64::NEG_INFINITY)] {
        writer.text(member).unwrap();
        writer.score(score).unwrap();
    }
    let file = writer.end().unwrap().into_inner();
    let keys = keys(&file).unwrap();
    assert_eq!((keys.len(), keys[0].expires_at_ms), (5, Some(1_900_000_000_123)));
    assert_eq!(restored(&keys[0]), Restored::String(text("value")));
    assert_eq!(restored(&keys[1]), Restored::Hash(vec![(text("field"), text("17"))]));
    assert_eq!(restored(&keys[2]), Restored::Set(vec![text("b"), text("a")]));
    assert_eq!(restored(&keys[3]), Restored::List(vec![text("b"), text("a")]));
    let members = vec![(text("b"), 2.5), (text("a"), f64::NEG_INFINITY)];
    assert_eq!(restored(&keys[4]), Restored::SortedSet(members));
}

#[test]
fn what_was_gone_back_over_is_as_if_never_written() {
    let written = |goes_back: bool| {
        let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[]).unwrap();
        writer.key(b"first", None, Dumped::String(b"1")).unwrap();
        if goes_back {
            let here = writer.checkpoint();
            writer.begin(b"half", None, Begun::List(1000)).unwrap();
            writer.text(&[7; 300]).unwrap();
            writer.go_back(&here).unwrap();
        }
        writer.key(b"second", None, Dumped::String(b"2")).unwrap();
        let bytes = writer.bytes_written() as usize + 9;
        let mut file = writer.end().unwrap().into_inner();
        file.truncate(bytes);
        file
    };
    assert_eq!(written(true), written(false));
    assert_eq!(keys(&written(true)).unwrap().len(), 2);
}

proptest! {
    #[test]
    fn no_bytes_are_too_much_for_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = keys(&file_of(11, &bytes));
    }

    #[test]
    fn strings_come_back(entries in proptest::collection::vec(
        (proptest::collection::vec(any::<u8>(), 0..40), proptest::option::of(any::<u64>()),
         proptest::collection::vec(any::<u8>(), 0..100_000)), 0..5)) {
        let mut writer = FileWriter::new(Vec::new(), &[]).unwrap();
        for (name, expires_at_ms, value) in &entries {
            writer.key(name, *expires_at_ms, Dumped::String(value)).unwrap();
        }
        let file = writer.end().unwrap();
        let keys = keys(&file).unwrap();
        prop_assert_eq!(keys.len(), entries.len());
        for (key, (name, expires_at_ms, value)) in keys.iter().zip(&entries) {
            prop_assert_eq!((&key.name, key.expires_at_ms), (name, *expires_at_ms));
            prop_assert_eq!(restored(key), Restored::String(Cow::Borrowed(&value[..])));
        }
    }
}
