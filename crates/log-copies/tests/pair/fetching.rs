//! Stories of a copy that is fetched: which one is read, and when that is whole.

use sidle_log_copies::{BackupId, Fetch, FetchWanted, FoundCopy, check_of};
use sidle_types::NodeId;
use sidle_wire::{Place, Tail};
use std::collections::BTreeMap;

const LAST: &[u8] = b"the last file";

fn backup(number: u8, incarnation: u64) -> BackupId {
    BackupId { node: NodeId::from_bytes([number; 20]), incarnation }
}

/// A copy with files 3 and 4, of which the second is this.
fn found(backup: BackupId, last: &[u8]) -> Option<FoundCopy> {
    let end = Place { file: 4, at: last.len() as u64 };
    Some(FoundCopy { backup, first: 3, tail: Tail { end, check: check_of(last) } })
}

fn wanted(fetch: &mut Fetch) -> Vec<FetchWanted> {
    std::iter::from_fn(|| fetch.poll_wanted()).collect()
}

fn fetch(of: &[BackupId]) -> Fetch {
    Fetch::new(of.iter().copied(), BTreeMap::new())
}

#[test]
fn files_are_read_in_order_up_to_the_end() {
    let of = backup(1, 1);
    let mut fetch = fetch(&[of]);
    assert_eq!(wanted(&mut fetch), [FetchWanted::Ask(of.node)]);
    fetch.has(of.node, found(of, LAST));
    let reads = |file, at| FetchWanted::Read(of.node, Place { file, at });
    assert_eq!(wanted(&mut fetch), [FetchWanted::Begin, reads(3, 0)]);
    assert!(fetch.read(b"half of", false));
    assert_eq!(wanted(&mut fetch), [reads(3, 7)]);
    assert!(fetch.read(b" a file", true));
    assert_eq!(wanted(&mut fetch), [reads(4, 0)]);
    assert!(fetch.read(&LAST[..4], false) && fetch.outcome().is_none());
    assert_eq!(wanted(&mut fetch), [reads(4, 4)]);
    assert!(fetch.read(&LAST[4..], false));
    let fetched = fetch.outcome().expect("it is over").expect("it is whole");
    assert!(fetched.is_sure && fetched.copy.backup == of);
    assert_eq!(fetch.known().len(), 1);
}

#[test]
fn what_is_no_part_of_the_copy_is_refused() {
    let of = backup(1, 1);
    for (sent, why) in [(&b""[..], "nothing"), (b"the last fire", "another end"), (&[7; 14], "too much")] {
        let mut fetch = fetch(&[of]);
        fetch.has(of.node, found(of, LAST));
        assert!(fetch.read(b"a file", true));
        assert!(!fetch.read(sent, false), "{why}");
        fetch.lost(of.node);
        assert_eq!(fetch.outcome(), Some(None), "{why}");
    }
}

/// Nobody else is asked while one answers, and an answer of another one changes nothing.
#[test]
fn one_is_asked_after_the_other() {
    let (first, second) = (backup(1, 1), backup(2, 1));
    let mut fetch = fetch(&[first, second]);
    assert_eq!(wanted(&mut fetch), [FetchWanted::Ask(first.node)]);
    fetch.has(second.node, found(second, LAST));
    fetch.lost(second.node);
    assert_eq!((wanted(&mut fetch), fetch.outcome()), (Vec::new(), None));
    fetch.has(first.node, None);
    assert_eq!(wanted(&mut fetch), [FetchWanted::Ask(second.node)]);
    fetch.has(second.node, found(second, LAST));
    assert!(fetch.read(b"a file", true));
    fetch.lost(second.node);
    assert_eq!(fetch.outcome(), Some(None), "nobody is left");
}

/// A restart may have cost it its end (Y7), unless that is known.
#[test]
fn a_restarted_backup_is_sure_only_with_a_known_end() {
    let (named, now) = (backup(1, 1), backup(1, 2));
    let known = found(now, LAST).map(|copy| (now.node, copy.tail)).into_iter().collect::<BTreeMap<_, _>>();
    let mut fetch = Fetch::new([named, backup(2, 1)], known.clone());
    fetch.has(now.node, found(now, LAST));
    assert_eq!(fetch.reads_at(now.node), Some(Place { file: 3, at: 0 }));
    let mut fetch = Fetch::new([named, backup(2, 1)], known);
    fetch.has(now.node, found(now, b"the last"));
    assert_eq!(fetch.reads_at(now.node), None);
    fetch.lost(backup(2, 1).node);
    assert_eq!(fetch.outcome(), Some(None), "the other one may have more");
}
