//! The two ends of a log's copies, over frames: a log in memory, and copies in memory.

use sidle_cluster::{Incarnation, LogBackup, LogCopies};
use sidle_log_copies::{BackupId, BackupStep, Found, LEASE_US, LogReport, OwnFiles, Settings, check_of};
use sidle_log_files::FileSet;
use sidle_node::testing::{SoloNode, TestClient};
use sidle_node::{
    Backups, CopiesEvent, CopiesRecord, CopyFiles, CopyLink, CopySender, HeldUp, ReadLog, Reclaimer,
    ReclaimerEvent,
};
use sidle_resp::Value;
use sidle_testbed::fixtures;
use sidle_types::{CommitNumber, LogId, MonotonicUs, NodeId, ProtocolVersion};
use sidle_wire::{CopyHello, FrameReader, Message, Place, Tail, ToWriter};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;

const LOG: LogId = LogId([9; 16]);
const NOW: MonotonicUs = MonotonicUs(1_000);
const SETTINGS: Settings = Settings {
    wanted: 1,
    syncs: true,
    patience_us: 250_000,
    rest_us: 100_000,
    refuses_after_us: 10_000_000,
    most_bytes: 1000,
    takeover_after_ms: None,
    most_under_way: 4,
};

fn writer() -> NodeId {
    fixtures::node_id(1)
}

fn backup() -> BackupId {
    BackupId { node: fixtures::node_id(2), incarnation: 1 }
}

/// Files by number.
#[derive(Clone, Default)]
struct Files(BTreeMap<u64, Vec<u8>>);

impl ReadLog for Files {
    fn read(&mut self, at: Place, bytes: u64) -> Option<Vec<u8>> {
        self.0.get(&at.file)?.get(at.at as usize..(at.at + bytes) as usize).map(<[u8]>::to_vec)
    }
}

/// The copy, with which files are recorded, and its epoch.
#[derive(Default)]
struct Copy {
    files: Files,
    recorded: Option<FileSet>,
    epoch: u64,
    is_broken: bool,
}

impl CopyFiles for Copy {
    fn find(&mut self, _: LogId) -> io::Result<(u64, Option<Found>)> {
        if self.is_broken {
            return Err(io::Error::other("no such disk"));
        }
        let found = self.recorded.map(|files| {
            let last = &self.files.0[&files.last];
            Found { files, last: (last.len() as u64, check_of(last)) }
        });
        Ok((self.epoch, found))
    }

    fn size(&mut self, _: LogId) -> io::Result<u64> {
        Ok(self.files.0.values().map(|file| file.len() as u64).sum())
    }

    fn read(&mut self, _: LogId, from: Place, most: usize) -> io::Result<(Vec<u8>, bool)> {
        let rest = &self.files.0[&from.file][from.at as usize..];
        let ends = rest.len() <= most && self.files.0.contains_key(&(from.file + 1));
        Ok((rest[..rest.len().min(most)].to_vec(), ends))
    }
}

impl Copy {
    fn carry_out(&mut self, step: &BackupStep) {
        match step {
            BackupStep::KeepEpoch(epoch) => self.epoch = *epoch,
            BackupStep::Record(set) => self.recorded = Some(*set),
            BackupStep::Write(at, bytes) => {
                let file = self.files.0.entry(at.file).or_default();
                file.truncate(at.at as usize);
                file.extend_from_slice(bytes);
            }
            BackupStep::Remove(file) => drop(self.files.0.remove(file)),
            BackupStep::WriteAgain(_) | BackupStep::Sync | BackupStep::BeginSync | BackupStep::SyncNames => {}
        }
    }
}

/// A writer, a backup, and what is between them.
struct Pair {
    sender: CopySender,
    own: Files,
    backups: Backups,
    copy: Copy,
    /// Since the last one was opened.
    link: Option<(CopyLink, bool)>,
    links: u64,
    decided: Option<LogCopies>,
    kept: CopiesRecord,
    /// Whether nothing that is proposed is kept, as by a writer that dies first.
    keeps_nothing: bool,
}

impl Pair {
    fn new(kept: CopiesRecord, own: Files, last: u64, copy: Copy) -> Pair {
        Pair::with(SETTINGS, kept, own, last, copy)
    }

    fn with(settings: Settings, kept: CopiesRecord, own: Files, last: u64, copy: Copy) -> Pair {
        let lengths: Vec<(u64, u64)> =
            own.0.iter().map(|(&number, bytes)| (number, bytes.len() as u64)).collect();
        let own_files = OwnFiles::new(lengths);
        let sender = CopySender::new(NOW, (writer(), LOG), settings, own_files, CommitNumber(last), &kept);
        let backups = Backups::new(backup().incarnation, 0);
        let decided = kept.decided.clone();
        Pair { sender, own, backups, copy, link: None, links: 0, decided, kept, keeps_nothing: false }
    }

    /// The log is written: these bytes, as one commit.
    fn commit(&mut self, file: u64, bytes: &[u8], commit: u64) {
        let content = self.own.0.entry(file).or_default();
        content.extend_from_slice(bytes);
        let to = Place { file, at: content.len() as u64 };
        let commit = CommitNumber(commit);
        for report in [LogReport::Written(to, Some(commit)), LogReport::SafeHere { commit, synced: commit }] {
            self.sender.report(NOW, report, &mut self.own);
        }
    }

    fn join(&mut self) {
        let map = fixtures::map(1, 2, &[(0, 1, 1)], Vec::new());
        self.sender.set_map(NOW, &map, &mut self.own);
    }

    /// Everything arrives, until nothing happens.
    fn settle(&mut self) {
        for _ in 0..1000 {
            let mut happens = false;
            self.sender.pass_time(NOW);
            while let Some(event) = self.sender.poll_event() {
                happens = true;
                match event {
                    CopiesEvent::Connect(id) if id == backup() => {
                        self.links += 1;
                        self.link = Some((CopyLink(self.links), false));
                        self.sender.connected(NOW, id);
                    }
                    CopiesEvent::Connect(id) => self.sender.lost(NOW, id),
                    CopiesEvent::Close(_) => {
                        if let Some((link, _)) = self.link.take() {
                            self.backups.lost(link);
                        }
                    }
                    CopiesEvent::Propose(_) if self.keeps_nothing => {}
                    CopiesEvent::Propose(record) => {
                        let proposed = record.proposed.clone();
                        self.kept = record;
                        self.decided = proposed.clone();
                        self.sender.decided(NOW, proposed.as_ref());
                    }
                }
            }
            let mut out = Vec::new();
            let is_full = |_| false;
            while self.sender.poll_transmit(NOW, &mut self.own, is_full, &mut out).is_some() {
                happens = true;
                self.deliver(&std::mem::take(&mut out));
            }
            happens |= self.carry_out();
            if !happens {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    fn deliver(&mut self, bytes: &[u8]) {
        let Some((link, is_open)) = &mut self.link else { return };
        if std::mem::replace(is_open, true) {
            self.backups.received(NOW, *link, bytes, &mut self.copy);
        } else {
            let mut reader = FrameReader::new();
            reader.push(bytes);
            let hello = hello(&mut reader);
            self.backups.opened(NOW, *link, hello, reader, &mut self.copy);
        }
        self.carry_out();
        let epochs =
            [&self.kept.decided, &self.kept.proposed].map(|record| record.as_ref().map_or(0, |it| it.epoch));
        assert!(epochs.contains(&self.copy.epoch) || self.copy.epoch < epochs[1], "Y16: {}", self.copy.epoch);
    }

    fn carry_out(&mut self) -> bool {
        let mut happens = false;
        while let Some((log, step)) = self.backups.step() {
            happens = true;
            self.copy.carry_out(step);
            self.backups.done(NOW, log, &mut self.copy);
        }
        while let Some((link, bytes)) = self.backups.poll_transmit() {
            happens = true;
            if self.link.is_some_and(|(open, _)| open == link) {
                self.sender.received(NOW, backup(), &bytes, &mut self.own);
            }
        }
        while let Some(link) = self.backups.poll_close() {
            happens = true;
            if self.link.is_some_and(|(open, _)| open == link) {
                self.link = None;
                self.sender.lost(NOW, backup());
            }
        }
        happens
    }
}

fn hello(reader: &mut FrameReader) -> CopyHello {
    let frame = reader.next_frame().expect("a sound frame").expect("a whole one");
    match frame.message().expect("a sound message") {
        Message::CopyHello(hello) => hello,
        other => panic!("it opens with {other:?}"),
    }
}

fn pair() -> Pair {
    let mut pair = Pair::new(CopiesRecord::default(), Files::default(), 0, Copy::default());
    pair.commit(1, b"first", 1);
    pair.join();
    pair.settle();
    pair
}

fn record(epoch: u64, incarnation: u64) -> LogCopies {
    let incarnation = Incarnation(incarnation);
    let backups = vec![LogBackup { node: backup().node, incarnation }];
    LogCopies { log: LOG, epoch, backups, takeover_after_ms: None }
}

#[test]
fn a_commit_is_safe_once_the_copy_has_it_byte_for_byte() {
    let mut pair = pair();
    assert_eq!(pair.sender.backups().collect::<Vec<_>>(), [backup()]);
    pair.commit(1, &[7; 3500], 2);
    assert_eq!(pair.sender.safe(), CommitNumber(1), "nothing was sent");
    pair.settle();
    assert_eq!(pair.sender.safe(), CommitNumber(2));
    pair.commit(2, b"the next file", 3);
    pair.settle();
    assert_eq!(pair.sender.safe(), CommitNumber(3));
    assert_eq!(pair.copy.files.0, pair.own.0);
    assert_eq!(pair.copy.recorded, Some(FileSet { log: LOG, first: 1, last: 2 }));
    assert_eq!(pair.copy.epoch, 1);
}

/// Commits without records end where the last one did.
#[test]
fn a_commit_without_records_is_as_safe_as_the_one_before() {
    let mut pair = pair();
    let report = LogReport::SafeHere { commit: CommitNumber(9), synced: CommitNumber(9) };
    pair.sender.report(NOW, report, &mut pair.own);
    assert_eq!(pair.sender.safe(), CommitNumber(9));
}

#[test]
fn files_that_are_gone_go_at_the_copy() {
    let mut pair = pair();
    pair.commit(2, b"second", 2);
    pair.settle();
    pair.own.0.remove(&1);
    pair.sender.report(NOW, LogReport::Removed(1), &mut pair.own);
    pair.settle();
    assert_eq!(pair.copy.files.0.keys().collect::<Vec<_>>(), [&2]);
}

#[test]
fn what_makes_no_sense_ends_the_connection_and_no_more() {
    let mut pair = pair();
    let (link, _) = pair.link.unwrap();
    pair.backups.received(NOW, link, &[0xff; 64], &mut pair.copy);
    assert_eq!(pair.backups.poll_close(), Some(link));
    assert_eq!(pair.copy.files.0, pair.own.0);
    let mut pair = self::pair();
    pair.sender.received(NOW, backup(), &[0xff; 64], &mut pair.own);
    assert_eq!(pair.sender.poll_event(), Some(CopiesEvent::Close(backup())));
    assert_eq!(pair.sender.safe(), CommitNumber(1), "what was safe stays so");
}

#[test]
fn another_start_of_a_backup_is_not_meant() {
    let mut pair = pair();
    let incarnation = backup().incarnation + 1;
    let hello = CopyHello { log: LOG, epoch: 1, node: writer(), incarnation, syncs: true, reads: false };
    pair.backups.opened(NOW, CopyLink(77), hello, FrameReader::new(), &mut pair.copy);
    assert_eq!(pair.backups.poll_close(), Some(CopyLink(77)));
    assert_eq!(pair.backups.writers().collect::<Vec<_>>(), [(LOG, writer())], "the other one goes on");
}

#[test]
fn the_connection_that_was_opened_last_writes() {
    let mut pair = pair();
    let hello = CopyHello { log: LOG, epoch: 1, node: writer(), incarnation: 0, syncs: true, reads: false };
    let (before, _) = pair.link.unwrap();
    pair.backups.opened(NOW, CopyLink(77), hello, FrameReader::new(), &mut pair.copy);
    assert_eq!(pair.backups.poll_close(), Some(before));
    let (to, answer) = pair.backups.poll_transmit().expect("it is told where the copy ends");
    assert!(to == CopyLink(77) && !answer.is_empty());
}

/// A copy that could not be written is found anew by the next connection, once its disk lets it.
#[test]
fn a_copy_whose_disk_failed_is_found_anew_and_written_again() {
    let mut pair = pair();
    // What is left of the last write is a part.
    pair.copy.files.0.get_mut(&1).unwrap().truncate(3);
    pair.backups.failed(LOG);
    let (link, _) = pair.link.unwrap();
    assert_eq!(pair.backups.poll_close(), Some(link));
    assert_eq!(pair.backups.writers().count(), 0);
    let hello = CopyHello { log: LOG, epoch: 1, node: writer(), incarnation: 0, syncs: true, reads: false };
    pair.copy.is_broken = true;
    pair.backups.opened(NOW, CopyLink(77), hello, FrameReader::new(), &mut pair.copy);
    assert_eq!(pair.backups.poll_close(), Some(CopyLink(77)));
    assert_eq!(pair.backups.step(), None);
    pair.copy.is_broken = false;
    pair.backups.opened(NOW, CopyLink(78), hello, FrameReader::new(), &mut pair.copy);
    assert_eq!(pair.backups.poll_close(), None);
    assert_eq!(pair.backups.step(), Some((LOG, &BackupStep::WriteAgain(1))));
    assert_eq!(pair.backups.poll_transmit(), None, "nothing is answered before");
    pair.backups.done(NOW, LOG, &mut pair.copy);
    let (to, answer) = pair.backups.poll_transmit().expect("it is told where the copy ends");
    assert_eq!(to, CopyLink(78));
    let mut reader = FrameReader::new();
    reader.push(&answer);
    let frame = reader.next_frame().unwrap().unwrap();
    let Message::ToWriter(ToWriter::Has { tail, synced, .. }) = frame.message().unwrap() else { panic!() };
    let end = Place { file: 1, at: 3 };
    assert_eq!((tail.map(|tail| tail.end), synced), (Some(end), end));
}

/// Its writer leaves it out as any that is away, and later goes on behind what it has.
#[test]
fn a_writer_goes_on_with_a_copy_whose_disk_failed() {
    let mut pair = pair();
    pair.commit(1, b" and more", 2);
    pair.backups.failed(LOG);
    pair.settle();
    assert_eq!((pair.sender.backups().count(), pair.sender.safe()), (0, CommitNumber(2)));
    pair.commit(1, b" and the rest", 3);
    pair.sender.pass_time(NOW.plus_us(10 * SETTINGS.rest_us));
    pair.settle();
    assert_eq!(pair.copy.files.0, pair.own.0);
    assert_eq!((pair.sender.backups().count(), pair.sender.safe()), (1, CommitNumber(3)));
}

/// A writer that starts again follows its copies from what its folder has kept.
#[test]
fn a_writer_that_starts_again_knows_its_copies() {
    let Pair { own, copy, kept, .. } = pair();
    assert_eq!(kept.proposed, Some(record(1, backup().incarnation)));
    let kept = CopiesRecord::from_json(&kept.to_json()).unwrap();
    let mut pair = Pair::new(kept, own, 1, copy);
    assert_eq!(pair.sender.safe(), CommitNumber(0), "the copy may lack the end");
    pair.settle();
    assert_eq!(pair.sender.safe(), CommitNumber(1));
    assert_eq!(pair.decided, Some(record(1, backup().incarnation)), "its change is proposed again");
}

#[test]
fn a_record_of_another_log_is_begun_behind() {
    let mut pair = Pair::new(CopiesRecord::default(), Files::default(), 0, Copy::default());
    pair.commit(1, b"first", 1);
    let other = LogCopies { log: LogId([1; 16]), ..record(6, 1) };
    pair.sender.decided(NOW, Some(&other));
    pair.join();
    pair.settle();
    assert_eq!(pair.decided.map(|decided| (decided.log, decided.epoch)), Some((LOG, 7)));
}

/// The coordinator's answer finds copies that follow, and the writer dies before its next record is kept.
#[test]
fn a_new_log_that_is_begun_behind_another_one_goes_on_after_a_death_at_any_time() {
    let other = LogCopies { log: LogId([1; 16]), ..record(6, 1) };
    let mut pair = Pair::new(CopiesRecord::default(), Files::default(), 0, Copy::default());
    pair.keeps_nothing = true;
    pair.kept.proposed = Some(record(1, backup().incarnation));
    pair.commit(1, b"first", 1);
    pair.join();
    pair.settle();
    pair.sender.decided(NOW, Some(&other));
    pair.settle();
    let mut again = Pair::new(pair.kept, pair.own, 1, pair.copy);
    again.keeps_nothing = true;
    again.join();
    again.settle();
    assert!(!again.sender.is_deposed());
    again.sender.decided(NOW, Some(&other));
    again.keeps_nothing = false;
    again.commit(1, b"second", 2);
    again.settle();
    assert!(!again.sender.is_deposed());
    assert_eq!(again.decided.map(|decided| (decided.log, decided.epoch)), Some((LOG, 7)));
}

/// Nobody else's record makes it panic: it stops.
#[test]
fn a_log_with_copies_whose_record_is_another_logs_is_deposed() {
    let mut pair = pair();
    let other = LogCopies { log: LogId([1; 16]), ..record(6, 1) };
    pair.sender.decided(NOW, Some(&other));
    assert!(pair.sender.is_deposed());
}

#[test]
fn what_a_folder_kept_is_read_or_refused_with_words() {
    let addresses = BTreeMap::from([(backup().node, "10.0.0.2:16379".parse().unwrap())]);
    let kept = CopiesRecord {
        decided: Some(record(3, 1)),
        proposed: Some(record(4, 2)),
        synced: true,
        is_lost: false,
        addresses,
    };
    assert_eq!(CopiesRecord::from_json(&kept.to_json()), Ok(kept.clone()));
    assert!(kept.needs_copies());
    let alone = LogCopies { backups: Vec::new(), ..record(4, 2) };
    assert!(!CopiesRecord { proposed: Some(alone), ..kept }.needs_copies(), "Y9");
    assert!(!CopiesRecord::default().needs_copies());
    for wrong in ["", "7", "{\"decided\":7}", "{\"other\":null}"] {
        assert!(CopiesRecord::from_json(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

/// A start asks the copies for what its own files lack.
#[test]
fn a_start_takes_from_the_copy_what_its_own_files_lack() {
    let mut pair = pair();
    pair.commit(1, b" and more", 2);
    pair.commit(2, &[5; 300_000], 3);
    pair.settle();
    let own_end = Place { file: 1, at: 5 };
    let (version, ids) = (ProtocolVersion::CURRENT, (writer(), LOG));
    let mut reclaimer = Reclaimer::new(ids, own_end, &pair.kept, version);
    assert_eq!(reclaimer.poll_event(), Some(ReclaimerEvent::Connect(backup().node)));
    reclaimer.connected(backup().node);
    let mut taken = Files::default();
    let mut is_open = false;
    while let Some((_, bytes)) = reclaimer.poll_transmit() {
        let link = CopyLink(99);
        if std::mem::replace(&mut is_open, true) {
            pair.backups.received(NOW, link, &bytes, &mut pair.copy);
        } else {
            let mut reader = FrameReader::new();
            reader.push(&bytes);
            let hello = hello(&mut reader);
            pair.backups.opened(NOW, link, hello, reader, &mut pair.copy);
        }
        while let Some((to, bytes)) = pair.backups.poll_transmit() {
            assert_eq!(to, link);
            reclaimer.received(backup().node, &bytes);
        }
        while let Some(event) = reclaimer.poll_event() {
            let ReclaimerEvent::Take(file, bytes) = event else { panic!("{event:?}") };
            taken.0.insert(file, bytes);
        }
    }
    let outcome = reclaimer.outcome().expect("everybody has answered");
    assert_eq!((outcome.from, outcome.is_sure), (Some(Place { file: 1, at: 0 }), true));
    assert_eq!(taken.0, pair.own.0);
}

#[test]
fn without_an_answer_a_start_is_not_sure() {
    let kept = CopiesRecord { decided: Some(record(3, 1)), ..CopiesRecord::default() };
    let ids = (writer(), LOG);
    let mut reclaimer = Reclaimer::new(ids, Place::default(), &kept, ProtocolVersion::CURRENT);
    assert!(matches!(reclaimer.poll_event(), Some(ReclaimerEvent::Connect(_))));
    assert_eq!(reclaimer.outcome(), None);
    reclaimer.lost(backup().node);
    assert_eq!(reclaimer.outcome().map(|outcome| outcome.is_sure), Some(false));
}

/// Nobody who has restarted knows whether he lost the end: where nothing is synced at once the longest copy
/// of all is taken, and the start is not sure.
#[test]
fn a_start_goes_on_when_all_have_answered() {
    let end = Place { file: 1, at: 5 };
    for synced in [false, true] {
        let kept = CopiesRecord { decided: Some(record(3, 1)), synced, ..CopiesRecord::default() };
        let mut reclaimer = Reclaimer::new((writer(), LOG), end, &kept, ProtocolVersion::CURRENT);
        let another = BackupId { incarnation: backup().incarnation + 1, ..backup() };
        reclaimer.connected(another.node);
        let mut out = Vec::new();
        let has = ToWriter::Has {
            incarnation: another.incarnation,
            tail: Some(Tail { end, check: 0 }),
            synced: end,
        };
        has.write(ProtocolVersion::CURRENT, &mut out).unwrap();
        reclaimer.received(another.node, &out);
        while reclaimer.poll_event().is_some() {}
        let outcome = reclaimer.outcome().expect("everybody has answered");
        assert_eq!((outcome.is_sure, outcome.is_settled()), (synced, true));
    }
}

#[test]
fn copies_of_another_way_of_syncing_are_proposed_away_first() {
    let kept = CopiesRecord { decided: Some(record(3, 1)), ..CopiesRecord::default() };
    let mut pair = Pair::new(kept, Files::default(), 0, Copy::default());
    pair.join();
    let proposals: Vec<CopiesRecord> = std::iter::from_fn(|| pair.sender.poll_event())
        .filter_map(|event| match event {
            CopiesEvent::Propose(record) => Some(record),
            _ => None,
        })
        .collect();
    let [only] = proposals.as_slice() else { panic!("{proposals:?}") };
    assert!(only.synced && !only.needs_copies(), "{only:?}");
}

/// What was kept of the copies is lost: the writer asks, and goes on with the record that there is.
#[test]
fn a_record_that_was_lost_is_learnt() {
    let mut pair = pair();
    let decided = pair.decided.clone().expect("it has a copy");
    let lost = CopiesRecord { is_lost: true, ..CopiesRecord::default() };
    let mut again = Pair::new(lost, pair.own.clone(), 1, Copy::default());
    let Some(CopiesEvent::Propose(asked)) = again.sender.poll_event() else { panic!("it asks") };
    assert!(!asked.needs_copies());
    again.sender.decided(NOW, Some(&decided));
    assert!(!again.sender.is_deposed());
    assert_eq!(again.sender.backups().next(), Some(backup()));
    pair.sender.decided(NOW, Some(&LogCopies { epoch: decided.epoch + 1, ..decided }));
    assert!(pair.sender.is_deposed(), "another one's, who knows his record");
}

/// What the coordinator knows of it follows the setting, also one that a start has changed.
#[test]
fn a_setting_of_leases_reaches_the_record() {
    let leased = Settings { takeover_after_ms: Some(2_000), ..SETTINGS };
    let former = pair();
    assert_eq!(former.sender.lease_until(), MonotonicUs(u64::MAX), "nobody takes it over");
    let (kept, mut own) = (former.kept.clone(), former.own.clone());
    let kept = CopiesRecord { decided: kept.proposed, proposed: None, ..kept };
    let mut pair = Pair::with(leased, kept.clone(), own.clone(), 1, former.copy);
    pair.join();
    pair.settle();
    let decided = pair.decided.clone().expect("it has a copy");
    assert_eq!((decided.epoch, decided.takeover_after_ms), (2, Some(2_000)));
    assert_eq!(pair.sender.lease_until(), NOW.plus_us(LEASE_US * 98 / 100));
    assert_eq!(pair.backups.is_fenced(LOG, 0), Some(NOW.plus_us(LEASE_US)));
    let json = serde_json::to_value(&decided).expect("plain data");
    assert_eq!(json["takeover_after_ms"], 2_000);
    // And back: leases are needed until that is decided.
    let kept = CopiesRecord { decided: Some(decided), ..kept };
    let own_files = OwnFiles::new(own.0.iter().map(|(&number, bytes)| (number, bytes.len() as u64)));
    let mut sender = CopySender::new(NOW, (writer(), LOG), SETTINGS, own_files, CommitNumber(1), &kept);
    assert_eq!(sender.lease_until(), MonotonicUs(0));
    sender.set_map(NOW, &fixtures::map(1, 2, &[(0, 1, 1)], Vec::new()), &mut own);
    sender.decided(NOW, Some(&record(3, 1)));
    assert_eq!(sender.lease_until(), MonotonicUs(u64::MAX));
}

/// The copy is away, and the coordinator does not leave it out: new writes are refused until it does.
#[test]
fn writes_are_refused_while_nothing_becomes_safe() {
    let mut pair = pair();
    let mut node = SoloNode::durable();
    let mut client = node.connect();
    let set = "SET key value";
    let (ok, later) = (Value::Simple("OK".into()), NOW.plus_us(SETTINGS.refuses_after_us));
    pair.keeps_nothing = true;
    pair.sender.lost(NOW, backup());
    pair.commit(1, b"second", 2);
    assert_eq!(pair.sender.show_held_up(&node.parts), None);
    assert_eq!(node.ask(&mut client, set), ok, "that it waits is no refusal");
    pair.sender.pass_time(later);
    let Some(HeldUp::Begins(why)) = pair.sender.show_held_up(&node.parts) else { panic!("nothing is safe") };
    assert!(why.contains(&backup().node.to_string()[..8]), "{why}");
    assert_eq!(pair.sender.show_held_up(&node.parts), None, "it has begun");
    assert_eq!(node.ask(&mut client, set), Value::Error(format!("NOREPLICAS {why}")));
    assert_ne!(node.ask(&mut client, "GET key"), Value::Null, "reads go on");
    let info = |node: &mut SoloNode, client: &mut TestClient| {
        node.parts.shared.durability.is_on.store(true, Ordering::Relaxed);
        let info = node.ask(client, "INFO persistence");
        String::from_utf8_lossy(info.as_bytes().expect("a text")).into_owned()
    };
    assert!(info(&mut node, &mut client).contains("aof_last_write_status:err"));
    // The coordinator leaves the copy out.
    pair.sender.decided(later, Some(&LogCopies { backups: Vec::new(), ..record(2, 1) }));
    assert_eq!(pair.sender.show_held_up(&node.parts), Some(HeldUp::Ends));
    assert_eq!(node.ask(&mut client, set), ok);
    assert!(info(&mut node, &mut client).contains("aof_last_write_status:ok"));
}
