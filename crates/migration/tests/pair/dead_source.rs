//! The source dies in the middle, and the rest comes from a copy of its log: here from its store, which that
//! is a copy of.

use crate::model::Op;
use crate::net::End;
use crate::protocols::{by_cuts, for_every_protocol};
use crate::world::{Pair, Role, Setup, WORKERS, key};
use sidle_migration::{Importer, ProtocolChoices, TargetEvent, TargetInput};
use sidle_store::{MoveIn, Moved};

const RECORDS: u64 = 1_000;

/// A pair whose source has frozen the range, so many steps ago. What a restart leaves of a protocol that
/// gives bit by bit freezes at once (M33).
fn frozen(protocol: ProtocolChoices, steps: u64) -> Pair {
    let protocol = if by_cuts(&protocol) { protocol.resumed() } else { protocol };
    let mut pair = Pair::in_the_middle(Setup::slow(protocol), RECORDS, 100);
    pair.run_until("frozen", |pair| pair.source.roles == [Role::Exporting; WORKERS]);
    for _ in 0..steps {
        if pair.target_machine.as_ref().is_some_and(|machine| !machine.view().phase().takes_records()) {
            break;
        }
        pair.step();
    }
    pair
}

/// Whether the machine waits for the copy by then.
pub(crate) fn die(pair: &mut Pair) -> bool {
    pair.target_input(TargetInput::SourceDied);
    pair.pump();
    pair.target_events.contains(&TargetEvent::AwaitsCopy)
}

/// What the source has of the range enters, beside whatever is under way.
pub(crate) fn read_the_copy(pair: &mut Pair) {
    let (mut moving, mut head) = (MoveIn::new(pair.spec.range), pair.target.store.log_head());
    while moving.step(&pair.source.store, &pair.target.store, &mut head).expect("there is memory")
        == Moved::Slice
    {
        pair.step();
    }
    pair.target_input(TargetInput::CopyIsHere);
    pair.pump();
}

#[test]
fn the_rest_comes_from_a_copy_and_what_was_written_since_wins() {
    for_every_protocol(|protocol| {
        for steps in [0, 1, 10, 40, 100] {
            let mut pair = frozen(protocol, steps);
            if pair.import.as_ref().expect("it imports").activated() {
                for op in [Op::Set(key(1), b"new".to_vec(), None), Op::Set(key(2), b"new".to_vec(), None)] {
                    pair.client(op);
                }
                pair.client(Op::Del(key(2)));
                pair.client(Op::Del(key(RECORDS - 1)));
            }
            if die(&mut pair) {
                pair.client(Op::Get(key(RECORDS - 2)));
                read_the_copy(&mut pair);
            }
            assert!(pair.target_events.contains(&TargetEvent::Finished));
            pair.ends_well();
            pair.check_all_answered();
        }
    });
}

/// A story of a named fault: what arrives behind a flush was flushed.
pub(crate) fn flush_while_a_copy_is_read() {
    for_every_protocol(|protocol| {
        let mut pair = frozen(protocol, 5);
        if !die(&mut pair) {
            return;
        }
        _ = pair.at(End::Target, 0, Op::Flush);
        let is_deferred = pair.target_machine.as_ref().is_some_and(Importer::has_deferred_flush);
        assert_eq!(is_deferred, pair.import.as_ref().is_some_and(|view| view.activated()), "M35");
        read_the_copy(&mut pair);
        pair.ends_well();
        pair.check_all_answered();
        assert_eq!(pair.target.store.len(), 0);
    });
}

#[test]
fn a_flush_waits_until_the_copy_is_here() {
    flush_while_a_copy_is_read();
}

/// It reports nothing else, and takes nothing of a source that lives after all.
#[test]
fn a_dead_source_is_asked_for_nothing() {
    for_every_protocol(|protocol| {
        let mut pair = frozen(protocol, 3);
        if die(&mut pair) {
            let moved = pair.target_machine.as_ref().expect("it imports").counters().records_moved;
            pair.run_us(1_000_000);
            let counters = pair.target_machine.as_ref().expect("it imports").counters();
            assert_eq!(counters.records_moved, moved, "M35");
            assert!(!pair.target_events.contains(&TargetEvent::Finished));
        }
    });
}
