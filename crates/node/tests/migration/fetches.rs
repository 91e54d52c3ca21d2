//! A copy of a dead node's log is fetched from its backups, over frames: copies in memory.

use sidle_log_copies::{BackupId, BackupStep, FetchedCopy, Found, LEASE_US, check_of};
use sidle_log_files::FileSet;
use sidle_node::{Backups, CopyFiles, CopyLink, Fetcher, FetcherEvent};
use sidle_testbed::fixtures::node_id;
use sidle_types::{LogId, MonotonicUs, NodeId, ProtocolVersion};
use sidle_wire::{CopyHello, FrameReader, Message, Place, Tail, ToBackup, ToWriter};
use std::collections::BTreeMap;
use std::io;

const LOG: LogId = LogId([9; 16]);
const NOW: MonotonicUs = MonotonicUs(5_000_000);
/// The writer's epoch, and that of the takeover.
const EPOCHS: (u64, u64) = (1, 3);
const VERSION: ProtocolVersion = ProtocolVersion::CURRENT;
/// The writer's connection, and the first of a reader.
const WRITER: CopyLink = CopyLink(1);
const READER: u64 = 100;

#[derive(Clone, Default)]
struct Copy {
    files: BTreeMap<u64, Vec<u8>>,
    recorded: Option<FileSet>,
    epoch: u64,
}

impl CopyFiles for Copy {
    fn find(&mut self, _: LogId) -> io::Result<(u64, Option<Found>)> {
        let found = self.recorded.map(|files| {
            let last = &self.files[&files.last];
            Found { files, last: (last.len() as u64, check_of(last)) }
        });
        Ok((self.epoch, found))
    }

    fn size(&mut self, _: LogId) -> io::Result<u64> {
        Ok(self.files.values().map(|file| file.len() as u64).sum())
    }

    fn read(&mut self, _: LogId, from: Place, most: usize) -> io::Result<(Vec<u8>, bool)> {
        let rest = &self.files[&from.file][from.at as usize..];
        let ends = rest.len() <= most && self.files.contains_key(&(from.file + 1));
        Ok((rest[..rest.len().min(most)].to_vec(), ends))
    }
}

/// A node with a copy, which dies and starts again.
struct Node {
    id: NodeId,
    incarnation: u64,
    backups: Backups,
    copy: Copy,
    is_up: bool,
    links: u64,
    reader: Option<CopyLink>,
    sent: Vec<u8>,
}

impl Node {
    fn new(number: u8) -> Node {
        let (id, incarnation) = (node_id(number), 1);
        let backups = Backups::new(incarnation, 0);
        let (copy, sent) = (Copy::default(), Vec::new());
        Node { id, incarnation, backups, copy, is_up: true, links: READER, reader: None, sent }
    }

    /// One that the writer has filled with these files.
    fn filled(number: u8, files: &[(u64, &[u8])]) -> Node {
        let mut node = Node::new(number);
        let hello = CopyHello {
            log: LOG,
            epoch: EPOCHS.0,
            node: node_id(1),
            incarnation: 0,
            syncs: true,
            reads: false,
        };
        node.backups.opened(NOW, WRITER, hello, FrameReader::new(), &mut node.copy);
        node.work();
        for &(file, bytes) in files {
            node.write(ToBackup::Append { at: Place { file, at: 0 }, bytes });
        }
        node
    }

    /// The writer sends this.
    fn write(&mut self, task: ToBackup<'_>) {
        let mut out = Vec::new();
        task.write(VERSION, &mut out).expect("it is small");
        self.backups.received(NOW, WRITER, &out, &mut self.copy);
        self.work();
    }

    fn work(&mut self) {
        while let Some((log, step)) = self.backups.step() {
            match step {
                BackupStep::KeepEpoch(epoch) => self.copy.epoch = *epoch,
                BackupStep::Record(set) => self.copy.recorded = Some(*set),
                BackupStep::Write(at, bytes) => {
                    let file = self.copy.files.entry(at.file).or_default();
                    file.truncate(at.at as usize);
                    file.extend_from_slice(bytes);
                }
                BackupStep::Remove(file) => drop(self.copy.files.remove(file)),
                _ => {}
            }
            self.backups.done(NOW, log, &mut self.copy);
        }
    }

    fn restart(&mut self) {
        self.incarnation += 1;
        self.backups = Backups::new(self.incarnation, 0);
        (self.is_up, self.reader) = (true, None);
    }

    fn named(&self) -> BackupId {
        BackupId { node: self.id, incarnation: self.incarnation }
    }
}

/// A node that fetches, and what it has fetched.
struct Fetching {
    fetcher: Fetcher,
    files: BTreeMap<u64, Vec<u8>>,
    /// After so many answers the node that is read dies.
    dies_after: Option<usize>,
    begun: usize,
}

impl Fetching {
    fn new(named: &[BackupId], known: BTreeMap<NodeId, Tail>) -> Fetching {
        let fetcher = Fetcher::new(node_id(7), (LOG, EPOCHS.1), named.iter().copied(), known, VERSION);
        Fetching { fetcher, files: BTreeMap::new(), dies_after: None, begun: 0 }
    }

    fn run(&mut self, nodes: &mut [Node]) -> Option<(FetchedCopy, MonotonicUs)> {
        for _ in 0..1_000 {
            self.follow(nodes);
            self.send(nodes);
            self.answer(nodes);
            if let Some(outcome) = self.fetcher.outcome() {
                return outcome;
            }
        }
        panic!("it does not end");
    }

    fn follow(&mut self, nodes: &mut [Node]) {
        while let Some(event) = self.fetcher.poll_event() {
            match event {
                FetcherEvent::Connect(id) => {
                    let node = nodes.iter_mut().find(|node| node.id == id && node.is_up);
                    let Some(node) = node else {
                        self.fetcher.lost(id);
                        continue;
                    };
                    node.links += 1;
                    node.reader = None;
                    self.fetcher.connected(id);
                }
                FetcherEvent::Close(_) => {}
                FetcherEvent::Begin => {
                    self.files.clear();
                    self.begun += 1;
                }
                FetcherEvent::Write(at, bytes) => {
                    let file = self.files.entry(at.file).or_default();
                    assert_eq!(file.len() as u64, at.at, "it is written in order");
                    file.extend(bytes);
                }
            }
        }
    }

    fn send(&mut self, nodes: &mut [Node]) {
        while let Some((to, bytes)) = self.fetcher.poll_transmit() {
            let Some(node) = nodes.iter_mut().find(|node| node.id == to && node.is_up) else { continue };
            match node.reader {
                Some(link) => node.backups.received(NOW, link, &bytes, &mut node.copy),
                None => {
                    let mut reader = FrameReader::new();
                    reader.push(&bytes);
                    let frame = reader.next_frame().expect("sound").expect("whole");
                    let Message::CopyHello(hello) = frame.message().expect("sound") else { panic!() };
                    let link = CopyLink(node.links);
                    node.reader = Some(link);
                    node.backups.opened(NOW, link, hello, reader, &mut node.copy);
                }
            }
            node.work();
        }
    }

    fn answer(&mut self, nodes: &mut [Node]) {
        for node in nodes.iter_mut().filter(|node| node.is_up) {
            while let Some((link, bytes)) = node.backups.poll_transmit() {
                if node.reader == Some(link) {
                    self.fetcher.received(NOW, node.id, &bytes);
                    self.dies_after = self.dies_after.map(|left| left.saturating_sub(1));
                } else if link == WRITER {
                    node.sent.extend(bytes);
                }
            }
            while let Some(link) = node.backups.poll_close() {
                if node.reader == Some(link) {
                    self.fetcher.lost(node.id);
                }
            }
            if self.dies_after == Some(0) {
                (self.dies_after, node.is_up) = (None, false);
                self.fetcher.lost(node.id);
            }
        }
    }
}

fn files(last: &[u8]) -> Vec<(u64, &[u8])> {
    // Longer than what is sent at once.
    const LONG: &[u8] = &[5; 600_000];
    vec![(4, LONG), (5, b"a short one"), (6, last)]
}

/// Who fetches knows from whom, and how much there is, before it has any of it.
#[test]
fn how_much_there_is_to_fetch_is_known_from_the_beginning() {
    let mut nodes = [Node::filled(2, &files(b"the end")), Node::filled(3, &files(b"the end"))];
    let named = [nodes[0].named(), nodes[1].named()];
    let mut fetching = Fetching::new(&named, BTreeMap::new());
    assert_eq!(fetching.fetcher.at(), Some((node_id(2), 0)), "it is asked");
    nodes[0].is_up = false;
    while fetching.begun == 0 {
        fetching.send(&mut nodes);
        fetching.answer(&mut nodes);
        fetching.follow(&mut nodes);
    }
    let bytes = nodes[1].copy.files.values().map(|file| file.len() as u64).sum();
    assert_eq!((fetching.fetcher.at(), fetching.files.len()), (Some((node_id(3), bytes)), 0));
    fetching.run(&mut nodes).expect("it is there");
    assert_eq!(fetching.files.values().map(|file| file.len() as u64).sum::<u64>(), bytes);
}

#[test]
fn a_copy_is_fetched_byte_for_byte() {
    let mut nodes = [Node::filled(2, &files(&[1; 300_000]))];
    let mut fetching = Fetching::new(&[nodes[0].named()], BTreeMap::new());
    let (fetched, _) = fetching.run(&mut nodes).expect("it is there");
    assert!(fetched.is_sure);
    assert_eq!((fetched.copy.first, fetched.copy.tail.end), (4, Place { file: 6, at: 300_000 }));
    assert!(fetching.files == nodes[0].copy.files, "byte for byte");
}

/// From the first byte that is read on, nothing is acknowledged that the reader does not have.
#[test]
pub(crate) fn a_copy_is_fenced_before_it_is_fetched() {
    let mut nodes = [Node::filled(2, &files(b"the end"))];
    let mut fetching = Fetching::new(&[nodes[0].named()], BTreeMap::new());
    fetching.run(&mut nodes).expect("it is there");
    nodes[0].write(ToBackup::Append { at: Place { file: 6, at: 7 }, bytes: b", or not" });
    assert!(fetching.files == nodes[0].copy.files, "Y17: the copy goes on behind what was fetched");
    nodes[0].restart();
    assert_eq!(nodes[0].copy.epoch, EPOCHS.1, "Y6: nor after a restart");
}

/// What a copy had promised its writer is over before what was fetched is served.
#[test]
fn the_promise_is_known_to_whoever_fetches() {
    let mut nodes = [Node::filled(2, &files(b"the end"))];
    let mut fetching = Fetching::new(&[nodes[0].named()], BTreeMap::new());
    let (_, until) = fetching.run(&mut nodes).expect("it is there");
    assert_eq!(until, NOW.plus_us(LEASE_US), "from the last append on");
    nodes[0].write(ToBackup::Beat(1));
    let mut again = Fetching::new(&[nodes[0].named()], BTreeMap::new());
    let (_, until) = again.run(&mut nodes).expect("it is there");
    assert_eq!(until, NOW.plus_us(LEASE_US));
}

#[test]
fn another_copy_is_fetched_from_its_beginning_if_the_first_is_lost() {
    let mut nodes = [Node::filled(2, &files(b"the end")), Node::filled(3, &files(b"the end"))];
    let named = [nodes[0].named(), nodes[1].named()];
    let mut fetching = Fetching::new(&named, BTreeMap::new());
    fetching.dies_after = Some(3);
    let (fetched, _) = fetching.run(&mut nodes).expect("the other one is there");
    assert_eq!((fetched.copy.backup.node, fetching.begun), (node_id(3), 2));
    assert!(fetching.files == nodes[1].copy.files);
}

/// It is the same copy if it ends as it did: nobody could write it meanwhile.
#[test]
fn a_backup_that_restarts_after_it_was_asked_goes_on() {
    let mut nodes = [Node::filled(2, &files(b"the end")), Node::filled(3, &files(b"the end"))];
    let named = [nodes[0].named(), nodes[1].named()];
    nodes[1].is_up = false;
    let mut fetching = Fetching::new(&named, BTreeMap::new());
    fetching.dies_after = Some(3);
    assert_eq!(fetching.run(&mut nodes), None, "nobody is left");
    nodes[0].restart();
    let known = fetching.fetcher.known().clone();
    let mut again = Fetching::new(&named, known.clone());
    let (fetched, _) = again.run(&mut nodes).expect("it is back");
    assert!(fetched.is_sure && again.files == nodes[0].copy.files);
    // Its machine has lost the end.
    nodes[0].copy.files.get_mut(&6).expect("a file").truncate(3);
    nodes[0].restart();
    assert_eq!(Fetching::new(&named, known).run(&mut nodes), None, "the other one may have more");
}

/// A backup that restarted before anybody asked it may lack the end (Y7).
#[test]
fn restarted_backups_do_if_all_have_answered() {
    let mut nodes = [Node::filled(2, &files(b"the")), Node::filled(3, &files(b"the end"))];
    let named = [nodes[0].named(), nodes[1].named()];
    nodes[0].restart();
    nodes[1].is_up = false;
    assert_eq!(Fetching::new(&named, BTreeMap::new()).run(&mut nodes), None, "one is waited for");
    nodes[1].restart();
    let mut fetching = Fetching::new(&named, BTreeMap::new());
    let (fetched, _) = fetching.run(&mut nodes).expect("there is nothing else to wait for");
    assert!(!fetched.is_sure && fetched.copy.backup.node == node_id(3), "the longest");
    assert!(fetching.files == nodes[1].copy.files);
}

#[test]
fn one_that_has_not_restarted_is_taken_first() {
    let mut nodes = [Node::filled(2, &files(b"the end")), Node::filled(3, &files(b"the end"))];
    let named = [nodes[0].named(), nodes[1].named()];
    nodes[0].restart();
    let (fetched, _) = Fetching::new(&named, BTreeMap::new()).run(&mut nodes).expect("one is sure");
    assert!(fetched.is_sure && fetched.copy.backup == named[1]);
}

#[test]
fn a_copy_that_does_not_end_as_it_was_written_is_not_taken() {
    let mut nodes = [Node::filled(2, &files(b"the end")), Node::filled(3, &files(b"the end"))];
    let named = [nodes[0].named(), nodes[1].named()];
    nodes[0].copy.files.get_mut(&6).expect("a file")[2] ^= 1;
    let mut fetching = Fetching::new(&named, BTreeMap::new());
    let (fetched, _) = fetching.run(&mut nodes).expect("the other one does");
    assert_eq!(fetched.copy.backup, named[1]);
    let why = fetching.fetcher.failures().get(&node_id(2)).copied().expect("it is known why");
    assert!(why.contains("damaged"), "{why}");
}

#[test]
fn who_has_no_copy_any_more_says_so() {
    let mut nodes = [Node::new(2)];
    let mut fetching = Fetching::new(&[nodes[0].named()], BTreeMap::new());
    assert_eq!(fetching.run(&mut nodes), None);
    assert_eq!(fetching.fetcher.failures().get(&node_id(2)), Some(&"it has no copy any more"));
}

/// Two nodes take over of one log: neither hinders the other. And a writer that comes back hinders none.
#[test]
fn several_may_read_a_copy_at_a_time() {
    let mut node = Node::filled(2, &files(b"the end"));
    let open = |node: &mut Node, link, (reader, reads), epoch| {
        let hello = CopyHello { log: LOG, epoch, node: reader, incarnation: 0, syncs: false, reads };
        node.backups.opened(NOW, CopyLink(link), hello, FrameReader::new(), &mut node.copy);
        node.work();
    };
    open(&mut node, 200, (node_id(7), true), EPOCHS.1);
    open(&mut node, 201, (node_id(8), true), EPOCHS.1);
    open(&mut node, 202, (node_id(1), false), EPOCHS.0);
    let closed: Vec<CopyLink> = std::iter::from_fn(|| node.backups.poll_close()).collect();
    assert_eq!(closed, [WRITER, CopyLink(202)], "the deposed writer's");
    while node.backups.poll_transmit().is_some() {}
    let mut read = Vec::new();
    ToBackup::Read(Place { file: 6, at: 0 }).write(VERSION, &mut read).expect("it is small");
    for link in [200, 201] {
        node.backups.received(NOW, CopyLink(link), &read, &mut node.copy);
        let (to, bytes) = node.backups.poll_transmit().expect("an answer");
        let mut reader = FrameReader::new();
        reader.push(&bytes);
        let frame = reader.next_frame().expect("sound").expect("whole");
        let Message::ToWriter(ToWriter::Bytes { bytes, .. }) = frame.message().expect("sound") else {
            panic!()
        };
        assert_eq!((to, bytes), (CopyLink(link), &b"the end"[..]));
    }
}

/// It may write nothing.
#[test]
fn a_reader_that_writes_is_closed() {
    let mut node = Node::filled(2, &files(b"the end"));
    let hello =
        CopyHello { log: LOG, epoch: EPOCHS.1, node: node_id(7), incarnation: 0, syncs: false, reads: true };
    node.backups.opened(NOW, CopyLink(200), hello, FrameReader::new(), &mut node.copy);
    node.work();
    let before = node.copy.files.clone();
    let mut out = Vec::new();
    ToBackup::Restart.write(VERSION, &mut out).expect("it is small");
    node.backups.received(NOW, CopyLink(200), &out, &mut node.copy);
    node.work();
    let closed: Vec<CopyLink> = std::iter::from_fn(|| node.backups.poll_close()).collect();
    assert_eq!(closed, [WRITER, CopyLink(200)]);
    assert!(node.copy.files == before);
}
