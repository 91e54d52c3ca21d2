//! Stories of one copy, and of two.

use crate::disk::Disk;
use crate::world::{LOG, REFUSES_AFTER_US, Syncing, World, node};
use sidle_log_copies::{Answer, Backup, BackupId, Reclaim, Record, Wanted};
use sidle_types::MonotonicUs;
use sidle_wire::{Place, Tail, ToBackup, ToWriter};

/// A world in which node 0 has a copy that counts.
fn with_a_copy(nodes: usize, syncing: Syncing) -> World {
    let mut world = World::new(1, nodes, 1, syncing);
    world.settle();
    world.commit(&[1]);
    world.settle();
    assert_eq!(world.record.backups.first(), Some(&world.nodes[0].id));
    world
}

#[test]
fn a_commit_is_safe_once_the_copy_has_it() {
    let mut world = with_a_copy(1, Syncing::All);
    let before = world.safe;
    world.commit(&[2]);
    assert_eq!(world.safe, before, "nothing was sent");
    world.settle();
    assert!(world.safe > before);
    world.check();
}

#[test]
fn a_copy_that_does_not_answer_is_left_out_by_decision() {
    let mut world = with_a_copy(2, Syncing::All);
    let (silent, before) = (world.nodes[0].id, world.safe);
    world.kill(silent);
    world.commit(&[2]);
    world.follow_events(false);
    assert_eq!(world.safe, before, "Y1: it counts until that is decided");
    world.introduce();
    world.settle();
    assert!(world.safe > before);
    assert_eq!(world.record.backups.first(), Some(&world.nodes[1].id), "the other node took its place");
    world.check();
}

/// A copy goes over to a node that joins in front of those that have one, and whoever had it first is given
/// up only then.
#[test]
fn copies_go_over_to_nodes_that_come_first() {
    let mut world = World::new(1, 4, 2, Syncing::Copies);
    for number in [0, 1] {
        world.kill(world.nodes[number].id);
    }
    world.introduce();
    world.settle();
    world.commit(&[1]);
    world.settle();
    let at = |world: &World| world.record.backups.iter().map(|backup| backup.node).collect::<Vec<_>>();
    assert_eq!(at(&world), [2, 3].map(node));
    world.restart(0);
    world.settle();
    assert_eq!(at(&world), [0, 2].map(node));
    world.restart(1);
    world.commit(&[2]);
    world.settle();
    assert_eq!(at(&world), [0, 1].map(node));
    let (epoch, safe) = (world.record.epoch, world.safe);
    world.commit(&[3]);
    world.settle();
    assert!(world.record.epoch == epoch && world.safe > safe, "they stay there");
    for number in [2, 3] {
        assert_eq!(world.nodes[number].disk.first(), None, "nobody needs that of node {number}");
    }
    world.check();
}

/// One that is only slow is left out after a quarter of a second.
#[test]
fn a_slow_copy_is_left_out() {
    let mut world = with_a_copy(2, Syncing::All);
    let (slow, before) = (world.nodes[0].id, world.safe);
    world.commit(&[2]);
    world.follow_events(false);
    while world.transmit() {}
    let now = world.now;
    let due = world.copies().poll_timeout().expect("an answer is due");
    assert_eq!(due, now.plus_us(250_000));
    world.pass_time(249_999);
    world.settle_but_for(slow);
    assert_eq!(world.safe, before);
    world.pass_time(1);
    world.settle();
    assert!(world.safe > before);
    assert_eq!(world.record.backups.first(), Some(&world.nodes[1].id));
}

#[test]
fn a_copy_that_was_away_goes_on_where_it_ends() {
    let mut world = with_a_copy(1, Syncing::All);
    let id = world.nodes[0].id;
    world.cut(id);
    (0..20).for_each(|key| world.commit(&[key % 5]));
    world.settle();
    world.pass_time(500_000);
    world.introduce();
    world.settle();
    assert!(world.record.epoch >= 3, "it left, and came back");
    assert_eq!(world.record.backups.first(), Some(&id));
    world.check();
}

/// Its machine loses its power, and with it what was written within the last second; the copy has it.
#[test]
pub(crate) fn a_log_goes_on_behind_its_longest_copy() {
    let mut world = with_a_copy(1, Syncing::Nobody);
    world.commit(&[2]);
    world.settle();
    let safe = world.safe;
    world.cut_power_of_writer(true);
    world.check();
    world.settle();
    world.commit(&[1]);
    world.settle();
    assert!(world.safe > safe, "Y8");
    world.check();
}

/// Y14
#[test]
fn after_a_clean_stop_no_copy_is_waited_for_unless_it_shows_that_it_has_more() {
    let (own, further) = (Place { file: 3, at: 96 }, Place { file: 4, at: 80 });
    let backups = [0, 1].map(|number| BackupId { node: node(number), incarnation: 1 });
    let record = Record { epoch: 5, backups: backups.into(), takeover_after_ms: None };
    let again = BackupId { incarnation: 2, ..backups[0] };
    let has = |end| Some(Tail { end, check: 0 });
    for (closed_at, answer, is_settled) in
        [(own, None, true), (further, None, false), (own, has(own), true), (further, has(own), false)]
    {
        let mut reclaim = Reclaim::new(own, &record, false);
        reclaim.closed_at(closed_at);
        reclaim.has(again, answer);
        reclaim.lost(backups[1].node);
        let outcome = reclaim.outcome().expect("nobody else is asked");
        assert_eq!((outcome.from, outcome.is_settled()), (None, is_settled), "{closed_at:?} {answer:?}");
    }
    // An older state of the folder was put back.
    let mut reclaim = Reclaim::new(own, &record, false);
    reclaim.closed_at(own);
    reclaim.has(again, has(further));
    reclaim.lost(backups[1].node);
    let wanted: Vec<Wanted> = std::iter::from_fn(|| reclaim.poll_wanted()).collect();
    assert_eq!(wanted.last(), Some(&Wanted::Read(again.node, Place { file: 3, at: 0 })));
    reclaim.lost(again.node);
    assert!(!reclaim.outcome().expect("nobody is left").is_settled());
}

#[test]
pub(crate) fn a_log_without_a_copy_is_synced_itself() {
    let mut world = with_a_copy(1, Syncing::Copies);
    world.commit(&[2]);
    world.settle();
    let (only, before) = (world.nodes[0].id, world.safe);
    world.kill(only);
    world.commit(&[3]);
    assert_eq!(world.safe, before, "Y1");
    world.settle();
    assert!(world.safe > before && world.record.backups.is_empty());
    world.cut_power_of_writer(true);
    world.check();
}

#[test]
fn a_copy_that_ends_elsewhere_has_its_last_file_begun_again() {
    let mut world = with_a_copy(1, Syncing::All);
    let id = world.nodes[0].id;
    world.cut(id);
    world.commit(&[2]);
    world.settle();
    // The record has no copy now: what this one has, nobody needs.
    assert!(world.record.backups.is_empty());
    world.nodes[0].append_garbage();
    world.pass_time(500_000);
    world.introduce();
    world.settle();
    assert_eq!(world.record.backups.first().map(|backup| backup.node), Some(id.node));
    world.check();
}

/// Where not each write is synced, a copy is once a second.
#[test]
fn a_copy_is_synced_once_a_second() {
    let mut alone = Alone::new();
    alone.backup.set_syncs(false);
    let append = |at| ToBackup::Append { at: Place { file: 1, at }, bytes: &[7; 100] };
    assert!(alone.open(0) && alone.receive(0, append(0)) && alone.receive(0, append(100)));
    let (synced, written) = (Place { file: 1, at: 100 }, Place { file: 1, at: 200 });
    assert_eq!(alone.answers.last(), Some(&ToWriter::Holds { written, synced }), "its head is synced");
    assert_eq!(alone.backup.poll_timeout(), Some(MonotonicUs(1_000_000)));
    alone.backup.pass_time(MonotonicUs(1_000_000));
    alone.carry_out();
    assert_eq!(alone.backup.poll_timeout(), None, "a sync is under way");
    assert!(alone.receive(0, append(200)));
    let further = Place { file: 1, at: 300 };
    assert_eq!(
        alone.answers.last(),
        Some(&ToWriter::Holds { written: further, synced }),
        "it hinders nobody"
    );
    alone.end_sync();
    assert_eq!(alone.answers.last(), Some(&ToWriter::Holds { written: further, synced: written }));
    alone.backup.pass_time(MonotonicUs(2_000_000));
    alone.carry_out();
    // What is synced is begun anew meanwhile.
    assert!(
        alone.receive(0, ToBackup::Restart) && alone.receive(0, append(0)) && alone.receive(0, append(100))
    );
    alone.end_sync();
    assert_eq!(alone.answers.last(), Some(&ToWriter::Holds { written, synced }));
}

/// A backup, its disk, and what it answers.
struct Alone {
    backup: Backup,
    disk: Disk,
    answers: Vec<ToWriter<'static>>,
}

impl Alone {
    fn new() -> Alone {
        let backup = Backup::new(MonotonicUs(0), LOG, 1, 0, None, 1_000_000);
        Alone { backup, disk: Disk::default(), answers: Vec::new() }
    }

    fn open(&mut self, epoch: u64) -> bool {
        let goes_on = self.backup.open(epoch);
        self.carry_out();
        goes_on
    }

    fn receive(&mut self, epoch: u64, message: ToBackup<'_>) -> bool {
        let makes_sense = self.backup.receive(MonotonicUs(0), epoch, message);
        self.carry_out();
        makes_sense
    }

    fn end_sync(&mut self) {
        assert!(self.disk.end_sync());
        self.backup.sync_ended(MonotonicUs(0));
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(step) = self.backup.step() {
            self.disk.carry_out_copy(step);
            self.backup.done(MonotonicUs(0));
        }
        while let Some(Answer::Message(answer)) = self.backup.poll_answer() {
            self.answers.push(answer);
        }
    }
}

#[test]
pub(crate) fn a_gap_is_refused() {
    let mut alone = Alone::new();
    let append = |file, at| ToBackup::Append { at: Place { file, at }, bytes: &[7; 100] };
    assert!(alone.open(0));
    assert!(!alone.receive(0, append(3, 64)), "nothing is there");
    assert!(alone.receive(0, append(3, 0)) && alone.receive(0, append(3, 100)));
    for (file, at) in [(3, 100), (3, 300), (4, 200), (5, 0), (2, 0)] {
        assert!(!alone.receive(0, append(file, at)), "byte {at} of file {file}");
    }
    assert!(alone.receive(0, append(4, 0)));
    let end = Place { file: 4, at: 100 };
    assert_eq!(alone.answers.last(), Some(&ToWriter::Holds { written: end, synced: end }));
}

#[test]
pub(crate) fn a_backup_takes_nothing_of_a_deposed_writer() {
    let mut alone = Alone::new();
    let append = |at| ToBackup::Append { at: Place { file: 1, at }, bytes: &[7; 100] };
    assert!(alone.open(1) && alone.receive(1, append(0)));
    alone.backup.fence(2);
    alone.carry_out();
    assert!(!alone.receive(1, append(100)), "Y6");
    assert_eq!(alone.answers.last(), Some(&ToWriter::Deposed(2)));
    assert_eq!(alone.disk.epoch, 2, "it is kept for the next start");
    assert!(!alone.open(1));
    assert!(alone.open(2) && alone.receive(2, append(100)));
}

/// What is written while two appends are unanswered goes with the next one, and shares its sync.
#[test]
fn few_appends_are_under_way() {
    let mut world = with_a_copy(1, Syncing::Copies);
    let (id, before) = (world.nodes[0].id, world.safe);
    let mut sent = 0;
    for key in 0..4 {
        world.commit(&[key]);
        sent += usize::from(world.transmit());
    }
    assert_eq!((sent, world.safe), (2, before));
    while world.deliver(id, None) {}
    while world.answer(id) {}
    assert!(world.transmit(), "the rest");
    assert!(!world.transmit(), "in one");
    world.settle();
    assert!(world.safe.0 >= before.0 + 4);
    world.check();
}

/// Its earlier life had them synced otherwise: what counts is known at each moment.
#[test]
fn copies_that_were_synced_otherwise_join_again() {
    let mut world = with_a_copy(2, Syncing::Copies);
    let epoch = world.record.epoch;
    world.copies().stand_alone_first();
    world.commit(&[2]);
    world.settle();
    assert!(world.record.epoch >= epoch + 2 && !world.record.backups.is_empty(), "{:?}", world.record);
    world.commit(&[3]);
    world.settle();
    world.check();
}

/// Only the coordinator can leave a copy out, and it is away.
#[test]
fn a_log_whose_copy_is_away_and_not_left_out_is_held_up_until_that_is_decided() {
    let mut world = with_a_copy(1, Syncing::All);
    let (silent, before) = (world.nodes[0].id, world.safe);
    world.kill(silent);
    world.follow_events(true);
    world.pass_time(6 * REFUSES_AFTER_US);
    world.follow_events(true);
    assert_eq!(world.copies().held_up(), None, "nothing waits");
    world.commit(&[2]);
    let due = world.now.plus_us(REFUSES_AFTER_US);
    while world.now < due {
        assert_eq!(world.copies().held_up(), None);
        let timeout = world.copies().poll_timeout().expect("that is due");
        assert!(timeout > world.now && timeout <= due);
        world.pass_time(timeout.since(world.now));
        // Replies that wait ask for commits. And the copy is dialed again and again.
        world.commit(&[]);
        world.follow_events(true);
    }
    assert_eq!(world.copies().held_up(), Some([silent].into()));
    assert_eq!(world.safe, before, "Y1");
    let timeout = world.copies().poll_timeout();
    assert!(timeout.is_none_or(|timeout| timeout > world.now), "it is not due again");
    world.settle();
    assert_eq!(world.copies().held_up(), None, "the coordinator has left it out");
    assert!(world.safe > before);
    world.check();
}
