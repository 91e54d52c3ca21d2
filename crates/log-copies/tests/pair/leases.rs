//! Stories of leases: until when nobody takes the log over.

use crate::world::{LOG, Syncing, World};
use sidle_log_copies::{Backup, LEASE_US};
use sidle_types::MonotonicUs;
use sidle_wire::{Place, ToBackup};

/// What the writer counts of a promise.
const COUNTED_US: u64 = LEASE_US * 98 / 100;
const FOR_EVER: MonotonicUs = MonotonicUs(u64::MAX);

/// A log with leases, and a copy at node 0 that counts.
fn with_a_lease(nodes: usize) -> World {
    let mut world = World::new(2, nodes, 1, Syncing::All);
    world.commit(&[1]);
    world.pass_time(0);
    world.settle();
    world.pass_time(0);
    world.settle();
    assert_eq!(world.record.backups.first(), Some(&world.nodes[0].id));
    assert_eq!(world.record.takeover_after_ms, Some(1_000));
    world
}

#[test]
fn a_log_without_leases_is_never_taken_over() {
    let mut world = World::new(1, 1, 1, Syncing::All);
    world.commit(&[1]);
    world.settle();
    assert_eq!((world.record.takeover_after_ms, world.copies().lease_until()), (None, FOR_EVER));
}

#[test]
fn a_log_without_copies_needs_no_lease() {
    let mut world = World::new(2, 0, 1, Syncing::All);
    world.commit(&[1]);
    world.settle();
    assert_eq!(world.copies().lease_until(), FOR_EVER);
}

/// From when the append was sent, however late the answer comes.
#[test]
fn an_answer_renews_the_lease() {
    let mut world = with_a_lease(1);
    let id = world.nodes[0].id;
    world.commit(&[2]);
    world.follow_events(false);
    while world.transmit() {}
    let sent_at = world.now;
    world.pass_time(30_000);
    while world.deliver(id, None) {}
    world.pass_time(50_000);
    while world.answer(id) {}
    assert_eq!(world.copies().lease_until(), sent_at.plus_us(COUNTED_US));
    world.check();
}

#[test]
fn a_beat_renews_the_lease_of_an_idle_log() {
    let mut world = with_a_lease(1);
    let begun = world.now;
    for beat in 1..20 {
        let due = world.copies().poll_timeout().expect("a beat is due");
        assert_eq!(due, begun.plus_us(beat * 100_000));
        world.pass_time(100_000);
        world.settle();
        assert_eq!(world.copies().lease_until(), due.plus_us(COUNTED_US));
        world.check();
    }
    assert_eq!(world.record.epoch, 1);
}

/// Its promise lasts although its connection does not; and then nothing is sent until it is left out.
#[test]
fn the_lease_lasts_as_long_as_the_promise_of_a_copy_that_is_lost() {
    let mut world = with_a_lease(2);
    let (lost, until) = (world.nodes[0].id, world.copies().lease_until());
    assert_eq!(until, world.now.plus_us(COUNTED_US));
    world.kill(lost);
    world.follow_events(false);
    assert_eq!(world.copies().lease_until(), until);
    world.pass_time(COUNTED_US);
    assert!(world.copies().lease_until() <= world.now, "it is over");
    world.introduce();
    for _ in 0..3 {
        world.pass_time(0);
        world.settle();
    }
    assert_eq!(world.record.backups.first(), Some(&world.nodes[1].id));
    assert!(world.copies().lease_until() > world.now);
}

#[test]
fn a_copy_that_answers_no_beat_is_left_out() {
    let mut world = with_a_lease(2);
    let silent = world.nodes[0].id;
    world.pass_time(100_000);
    world.settle_but_for(silent);
    world.pass_time(250_000);
    world.settle_but_for(silent);
    assert!(!world.record.backups.contains(&silent), "{:?}", world.record);
}

#[test]
pub(crate) fn a_restarted_backup_keeps_its_promise() {
    let mut world = with_a_lease(1);
    let id = world.nodes[0].id;
    world.kill(id);
    world.restart(0);
    assert!(world.copies().lease_until() > world.now && world.record.backups.contains(&id));
    world.check();
}

/// What its writer is told after a start behind the first one tells whoever may take the log over.
#[test]
fn a_fenced_copy_promises_nothing_more() {
    let mut backup = Backup::new(MonotonicUs(0), LOG, 1, 0, None, 1_000_000);
    assert_eq!(backup.promised_until(), MonotonicUs(LEASE_US), "Y12");
    let carry_out = |backup: &mut Backup| {
        while backup.step().is_some() {
            backup.done(MonotonicUs(0));
        }
    };
    assert!(backup.open(1));
    carry_out(&mut backup);
    assert!(backup.receive(MonotonicUs(700), 1, ToBackup::Beat(1)));
    assert_eq!(backup.promised_until(), MonotonicUs(700 + LEASE_US));
    let append = ToBackup::Append { at: Place { file: 1, at: 0 }, bytes: &[7; 100] };
    assert!(backup.receive(MonotonicUs(900), 1, append));
    carry_out(&mut backup);
    backup.fence(2);
    carry_out(&mut backup);
    assert!(!backup.receive(MonotonicUs(1_000), 1, ToBackup::Beat(2)));
    assert_eq!(backup.promised_until(), MonotonicUs(900 + LEASE_US), "Y11");
    assert!(backup.open(2) && backup.receive(MonotonicUs(1_000), 2, ToBackup::Read(Place::default())));
    assert_eq!(backup.promised_until(), MonotonicUs(900 + LEASE_US), "whoever reads needs no promise");
}
