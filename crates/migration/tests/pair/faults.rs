//! Slow and cut links, and a target without memory.

use crate::cuts::{in_small_steps, in_small_steps_by};
use crate::model::{Answer, Op};
use crate::net::{End, Faults};
use crate::protocols::{
    copies_ahead, for_every_protocol, for_protocols, for_protocols_that, serves_while_it_fills,
};
use crate::world::{Outcome, Pair, Setup, key};
use sidle_migration::{Importer, ProtocolChoices, TargetEvent, Uncovered};
use sidle_types::{GaveAll, HashedKey, PositionRange, Slot};
use sidle_wire::Lane;

#[test]
fn slow_source() {
    for_every_protocol(|protocol| {
        let faults = Faults { to_target_us: (20_000, 80_000), bytes_per_us: 20, ..Faults::NONE };
        let mut pair = Pair::with_records(Setup { faults, ..Setup::of(protocol) }, 10_000, 100);
        pair.begin();
        pair.ends_well();
        let counters = pair.target_machine.as_ref().unwrap().counters();
        assert_eq!(counters.records_present, 0, "nothing was asked for twice");
    });
}

#[test]
fn slow_target() {
    for_every_protocol(|protocol| {
        let faults = Faults { to_source_us: (20_000, 80_000), bytes_per_us: 20, ..Faults::NONE };
        let mut pair = Pair::with_records(Setup { faults, ..Setup::of(protocol) }, 10_000, 100);
        pair.begin();
        pair.ends_well();
    });
}

/// A path so slow that every timer expires: requests are repeated, at growing intervals, and repeats do no
/// harm.
#[test]
fn a_way_slower_than_the_timers() {
    for_every_protocol(|protocol| {
        let faults = Faults { to_target_us: (1_500_000, 2_500_000), ..Faults::NONE };
        let mut pair = Pair::in_the_middle(Setup { faults, ..Setup::of(protocol) }, 500, 100);
        (0..50).for_each(|n| drop(pair.client_in_the_middle(Op::Get(key(n)))));
        pair.ends_well();
        pair.check_all_answered();
    });
}

/// An answer may take longer than the wait before its request is repeated. It is on its way, and is not sent
/// twice.
#[test]
fn an_answer_on_its_way_is_not_given_again() {
    for_every_protocol(|protocol| {
        // 0.7 s for the one record, at a byte a microsecond.
        let faults = Faults { bytes_per_us: 1, ..Faults::NONE };
        let mut pair = Pair::new(Setup { faults, ..Setup::of(protocol) });
        pair.expect_ok(Op::Set(key(0), vec![b'v'; 700_000], None));
        pair.begin();
        pair.ends_well();
        let sent = pair.source_machine.as_ref().map(|machine| machine.counters().records_sent);
        let [(_, bulk_bytes), _] = pair.net.sent;
        assert!(bulk_bytes < 1_000_000, "{bulk_bytes} bytes on the bulk lane, {sent:?} records");
    });
}

/// M10: everything in flight when the connection was cut is resent over the next one.
#[test]
fn link_cut_and_back() {
    for_every_protocol(|protocol| {
        for (lane, linger_per_mille) in
            [(Lane::Bulk, 0), (Lane::Bulk, 1000), (Lane::Priority, 0), (Lane::Priority, 1000)]
        {
            let faults = Faults { to_target_us: (100, 2_000), linger_per_mille, ..Faults::NONE };
            let mut pair = Pair::with_records(Setup { faults, seed: 3, ..Setup::of(protocol) }, 5_000, 100);
            pair.begin();
            let mut n = 0;
            for _ in 0..40 {
                pair.run_us(3_000);
                pair.net.cut(pair.now.0, lane, &mut pair.rng);
                n += 1;
                pair.client(Op::Append(key(n), b"!".to_vec()));
                pair.read_at_target(&key(1_000 + n));
            }
            pair.ends_well();
            pair.check_no_breach();
        }
    });
}

/// M10: messages lost with a connection are resent as soon as there is a new one, long before their timers.
#[test]
fn a_new_connection_carries_at_once_what_was_in_flight() {
    for_every_protocol(|protocol| {
        let faults = Faults { to_target_us: (1_000, 1_000), ..Faults::NONE };
        let mut pair = Pair::in_the_middle(Setup { faults, ..Setup::of(protocol) }, 1_000, 100);
        pair.client_in_the_middle(Op::Get(key(1)));
        pair.run_us(500);
        Lane::ALL.into_iter().for_each(|lane| pair.net.cut(pair.now.0, lane, &mut pair.rng));
        let cut_at = pair.now.0;
        pair.run_until("woken", |pair| pair.parked() == 0);
        pair.run_until("finished", |pair| pair.target_events.contains(&TargetEvent::Finished));
        let took_us = pair.now.0 - cut_at;
        assert!(took_us < sidle_migration::tuning::PRIORITY_RESEND_US / 2, "{took_us} us");
        pair.ends_well();
    });
}

/// The link is down from before the freeze until long after: requests wait, and are all answered.
#[test]
fn link_down_across_the_freeze() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 500, 100);
        pair.prepare();
        pair.run_until_it_may_be_committed();
        pair.run_us(1_000);
        pair.net.faults.lose_per_mille = 1000;
        Lane::ALL.into_iter().for_each(|lane| pair.net.cut(pair.now.0, lane, &mut pair.rng));
        pair.commit();
        pair.run_us(5_000_000);
        for n in 0..20 {
            assert_eq!(pair.client(Op::Get(key(n))), Outcome::Parked, "M3");
        }
        pair.net.faults.lose_per_mille = 0;
        pair.ends_well();
        assert_eq!(pair.woken.len(), 20);
    });
}

/// A command that waits for a key is woken when the record arrives, by whichever pull: here its partition's.
#[test]
fn bulk_pulls_wake_commands_while_the_priority_lane_is_down() {
    for_protocols_that(serves_while_it_fills, |protocol| {
        let mut pair = Pair::with_records(Setup::slow(protocol), 1_000, 100);
        pair.commits_done = false;
        pair.begin_to_the_middle();
        pair.net.faults.blocked = Some(Lane::Priority);
        for n in 0..1_000 {
            pair.client(Op::Get(key(n)));
        }
        let parked = pair.parked();
        assert!(parked > 500);
        pair.run_until("half of them", |pair| pair.parked() < parked / 2);
        assert!(!pair.target_events.contains(&TargetEvent::Finished), "long before the end");
        pair.run_until("all of them", |pair| pair.parked() == 0);
        pair.commits_done = true;
        pair.commit_done();
        pair.ends_well();
    });
}

pub(crate) fn half() -> PositionRange {
    PositionRange::of_slots(Slot::new(0).unwrap(), Slot::new(8191).unwrap()).unwrap()
}

/// Removes one of the keys with which [`fill`] took the target's memory.
pub(crate) fn drop_ballast(pair: &mut Pair, name: &[u8]) {
    let key = HashedKey::new(name);
    let slot = pair.target.store.lock_slot(key.slot());
    slot.remove(&mut pair.target.head, key, sidle_store::Leave::Nothing).unwrap();
}

/// Fills the target, outside the migrating range, until this much of its memory is left.
pub(crate) fn fill(pair: &mut Pair, key_bytes: &str, left: u64) -> Vec<Vec<u8>> {
    let mut ballast = Vec::new();
    for n in 0.. {
        let name = format!("{key_bytes}{n}").into_bytes();
        let key = HashedKey::new(&name);
        if half().contains(key.position()) {
            continue;
        }
        let memory = pair.target.store.memory();
        if memory.log_used + memory.index + left >= memory.limit {
            return ballast;
        }
        let value = vec![b'b'; 8 << 10];
        let slot = pair.target.store.lock_slot(key.slot());
        if slot.put(&mut pair.target.head, key, &[&value], None).is_err() {
            return ballast;
        }
        drop(slot);
        ballast.push(name);
    }
    ballast
}

/// Out of memory gives a clear event, parked pulls fail, the range is served, and the migration resumes by
/// itself when memory is available.
#[test]
fn target_out_of_memory_in_the_middle() {
    for_every_protocol(|protocol| {
        let setup =
            Setup { range: half(), source_bytes: 32 << 20, target_bytes: 8 << 20, ..Setup::of(protocol) };
        let mut pair = Pair::with_records(setup, 20_000, 300);
        let ballast = fill(&mut pair, "ballast:", 2 << 20);
        pair.begin();
        pair.run_until("stalled", |pair| pair.target_events.contains(&TargetEvent::Stalled));
        assert!(pair.target_machine.as_ref().unwrap().is_stalled());
        pair.run_us(10_000_000);
        let pulls = |pair: &Pair| pair.target_machine.as_ref().unwrap().counters().pulls;
        let before = pulls(&pair);
        pair.run_us(60_000_000);
        assert!(
            (30..=90).contains(&(pulls(&pair) - before)),
            "about one try a second: {}",
            pulls(&pair) - before
        );
        // Served nevertheless: present keys are read; missing ones wait for a pull and fail clearly if it has
        // no memory.
        let mut outcomes = [0; 3];
        for n in 0..500 {
            let name = key(n);
            if !half().contains(HashedKey::new(&name).position()) {
                continue;
            }
            let done = pair.woken.len();
            match pair.client(Op::Get(name)) {
                Outcome::Answered(Answer::Value(Some(_))) => outcomes[0] += 1,
                Outcome::Parked => {
                    pair.run_until("answered", |pair| pair.woken.len() > done);
                    match &pair.woken[done].1 {
                        Outcome::OutOfMemory => outcomes[1] += 1,
                        Outcome::Answered(Answer::Value(Some(_))) => outcomes[2] += 1,
                        other => panic!("{other:?}"),
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        // By the source, if it still has everything; else by the target, though it was to wait until all has
        // arrived.
        assert!(outcomes[0] > 0, "{outcomes:?}");
        assert_eq!(outcomes[1] > 0, !copies_ahead(&protocol), "{outcomes:?}");
        let resumed = |pair: &Pair| pair.target_events.contains(&TargetEvent::Resumed);
        let resumed_early = resumed(&pair);
        assert!(!resumed_early && !pair.target_events.contains(&TargetEvent::Finished));
        // Memory again.
        ballast.iter().for_each(|name| drop_ballast(&mut pair, name));
        pair.run_to_end();
        assert!(resumed(&pair));
        pair.check_end();
    });
}

/// A migration to a node without any free memory, and the keys that take it.
fn stalled(protocol: ProtocolChoices) -> (Pair, Vec<Vec<u8>>) {
    let setup = Setup { range: half(), source_bytes: 16 << 20, target_bytes: 4 << 20, ..Setup::of(protocol) };
    let mut pair = Pair::with_records(setup, 2_000, 300);
    let ballast = fill(&mut pair, "ballast:", 0);
    pair.begin();
    pair.run_until("stalled", |pair| pair.target_events.contains(&TargetEvent::Stalled));
    (pair, ballast)
}

/// Requests for keys that exist nowhere must not take the memory that a stalled migration waits for.
#[test]
fn absent_keys_do_not_keep_a_migration_stalled() {
    for_every_protocol(|protocol| {
        let (mut pair, ballast) = stalled(protocol);
        let absent = |n: usize| format!("nobody:{n:01000}").into_bytes();
        let mut nobody = (0..).map(absent).filter(|name| half().contains(HashedKey::new(name).position()));
        for name in ballast {
            drop_ballast(&mut pair, &name);
            for name in nobody.by_ref().take(16) {
                pair.client(Op::Get(name));
            }
            pair.run_until("answered", |pair| pair.parked() == 0);
        }
        pair.ends_well();
    });
}

/// A command that would free memory may wait for a key, even under a protocol that pulls none ahead.
#[test]
fn keys_are_pulled_for_commands_while_bulk_stalls() {
    for_every_protocol(|mut protocol| {
        protocol.priority.in_flight = 0;
        let (mut pair, ballast) = stalled(protocol);
        let mut moving = (0..2_000).map(key).filter(|name| half().contains(HashedKey::new(name).position()));
        let missing =
            moving.find(|name| !pair.is_settled(HashedKey::new(name))).expect("it has not all come");
        pair.client(Op::Del(missing));
        pair.run_us(100_000);
        assert_eq!(pair.parked(), 0, "nothing comes in bulk, and nothing else");
        ballast.iter().for_each(|name| drop_ballast(&mut pair, name));
        pair.ends_well();
    });
}

/// A flush ends a stalled migration: nothing more is to arrive.
#[test]
fn flush_while_out_of_memory() {
    for_every_protocol(|protocol| {
        let setup =
            Setup { range: half(), source_bytes: 32 << 20, target_bytes: 4 << 20, ..Setup::of(protocol) };
        let mut pair = Pair::with_records(setup, 20_000, 600);
        pair.begin();
        pair.run_until("stalled", |pair| pair.target_events.contains(&TargetEvent::Stalled));
        pair.client(Op::Flush);
        pair.ends_well();
        assert!(!pair.target_machine.as_ref().is_some_and(Importer::is_stalled));
    });
}

/// A cut is in transit, and there is no memory for it; with the key of it that comes last, and those that
/// take the memory.
fn cut_that_does_not_fit() -> (Pair, Vec<u8>, Vec<Vec<u8>>) {
    let setup = Setup {
        range: half(),
        source_bytes: 16 << 20,
        target_bytes: 4 << 20,
        ..Setup::slow(in_small_steps())
    };
    let mut pair = Pair::with_records(setup, 2_000, 300);
    pair.begin_to_the_middle();
    let ballast = fill(&mut pair, "ballast:", 0);
    for key in (0..2_000).map(key).filter(|key| half().contains(HashedKey::new(key).position())) {
        pair.at(End::Source, 0, Op::Set(key, vec![b'x'; 8_000], None));
    }
    let cuts = |pair: &Pair| pair.target_machine.as_ref().unwrap().counters().cuts;
    pair.run_until("it stalls", |pair| pair.target_machine.as_ref().unwrap().is_stalled());
    let before = cuts(&pair);
    pair.run_until("a cut is requested again", |pair| cuts(pair) > before);
    let mut moving = (0..2_000).map(key).filter(|key| half().contains(HashedKey::new(key).position()));
    let is_nobodys = |key: &Vec<u8>| pair.at(End::Source, 0, Op::Get(key.clone())) == Outcome::Redirected;
    let in_transit = moving.rfind(is_nobodys).expect("the cut gives something");
    assert!(!pair.is_settled(HashedKey::new(&in_transit)));
    (pair, in_transit, ballast)
}

/// A flush overtakes a cut for which there is no memory. It would wait for that cut, and the cut for the
/// memory that the flush frees.
#[test]
fn flush_while_a_cut_does_not_fit() {
    let (mut pair, in_transit, _) = cut_that_does_not_fit();
    pair.client(Op::Del(in_transit));
    pair.client(Op::Flush);
    pair.run_us(20_000);
    assert_eq!(pair.parked(), 0, "the flush is answered at once");
    let flushed = |event: &TargetEvent| *event == TargetEvent::GaveAll(GaveAll::Flush);
    assert!(pair.target_events.iter().any(flushed), "{:?}", pair.target_events);
    pair.ends_well();
}

/// M38: what is in transit waits for memory for a fraction of a second. Then it is owed: what arrives can be
/// deleted, and makes room for the rest.
#[test]
pub(crate) fn what_is_in_transit_does_not_wait_for_memory() {
    let (mut pair, _, ballast) = cut_that_does_not_fit();
    pair.run_us(500_000);
    let why = |event: &TargetEvent| *event == TargetEvent::GaveAll(GaveAll::Memory);
    assert!(pair.target_events.iter().any(why), "M38: {:?}", pair.target_events);
    // Somebody frees a little.
    ballast.iter().take(50).for_each(|name| drop_ballast(&mut pair, name));
    let mut left: Vec<_> =
        (0..2_000).map(key).filter(|key| half().contains(HashedKey::new(key).position())).collect();
    for _ in 0..20 {
        left.retain(|key| {
            pair.woken.clear();
            let answered = |outcome: &Outcome| matches!(outcome, Outcome::Answered(_));
            let at_once = pair.at(End::Target, 0, Op::Del(key.clone()));
            pair.run_until("it is answered", |pair| pair.parked() == 0);
            !answered(&at_once) && !pair.woken.iter().any(|(_, outcome)| answered(outcome))
        });
        pair.run_us(1_000_000);
    }
    assert!(left.is_empty(), "{} keys cannot be deleted", left.len());
    pair.ends_well();
}

/// As many positions as may be were given out of turn, so a key comes in its turn; and copies stall.
#[test]
fn commands_do_not_wait_for_their_turn_while_memory_is_short() {
    let protocol = in_small_steps_by(Uncovered::Source, 1);
    let setup =
        Setup { range: half(), source_bytes: 16 << 20, target_bytes: 4 << 20, ..Setup::slow(protocol) };
    let mut pair = Pair::with_records(setup, 2_000, 300);
    pair.begin_to_the_middle();
    let mut moving = (0..2_000).map(key).filter(|key| half().contains(HashedKey::new(key).position()));
    let [first, second] = [moving.next().unwrap(), moving.next().unwrap()];
    pair.client(Op::Get(first));
    pair.run_until("it is taken", |pair| pair.parked() == 0);
    for key in moving {
        pair.at(End::Source, 0, Op::Set(key, vec![b'x'; 8_000], None));
    }
    let ballast = fill(&mut pair, "ballast:", 16 << 10);
    pair.run_until("it stalls", |pair| pair.target_machine.as_ref().unwrap().is_stalled());
    pair.woken.clear();
    pair.client(Op::Del(second));
    pair.run_us(100_000);
    assert_eq!((pair.parked(), pair.woken.len()), (0, 1));
    assert_eq!(pair.woken[0].1, Outcome::OutOfMemory);
    ballast.iter().for_each(|name| drop_ballast(&mut pair, name));
}

/// What is in transit comes first while memory is short: copies would take what is freed for it.
#[test]
fn a_cut_in_pieces_comes_before_copies_while_memory_is_short() {
    let mut setup = Setup {
        range: half(),
        source_bytes: 16 << 20,
        target_bytes: 8 << 20,
        ..Setup::slow(in_small_steps())
    };
    setup.tuning.piece_bytes = 2_000;
    let mut pair = Pair::with_records(setup, 2_000, 300);
    pair.begin_to_the_middle();
    let ballast = fill(&mut pair, "ballast:", 0);
    let moving = (0..2_000).map(key).filter(|key| half().contains(HashedKey::new(key).position()));
    let large = moving.clone().max_by_key(|key| HashedKey::new(key).position()).unwrap();
    for key in moving {
        let bytes = if key == large { 60_000 } else { 2_000 };
        pair.at(End::Source, 0, Op::Set(key, vec![b'x'; bytes], None));
    }
    pair.run_us(5_000_000);
    pair.run_until("it stalls", |pair| pair.target_machine.as_ref().unwrap().is_stalled());
    let cuts = pair.target_machine.as_ref().unwrap().counters().cuts;
    assert!(cuts < 200, "copies end the stall {cuts} times, though the cut does not fit");
    ballast.iter().take(20).for_each(|name| drop_ballast(&mut pair, name));
    pair.woken.clear();
    pair.client(Op::Get(large));
    pair.run_us(3_000_000);
    assert!(matches!(&pair.woken[..], [(Op::Get(_), Outcome::Answered(_))]), "{:?}", pair.woken);
    ballast.iter().skip(20).for_each(|name| drop_ballast(&mut pair, name));
    pair.ends_well();
}

/// Stalls, rewinds and delayed replies together: a reply to a pull from before a rewind is not taken for the
/// new one's.
fn out_of_memory(protocol: ProtocolChoices) {
    for seed in 0..4 {
        // Replies may be later than the first wait of a stall.
        let faults = Faults { to_target_us: (5, 50_000), ..Faults::EVERYTHING };
        let setup = Setup {
            seed,
            faults,
            range: half(),
            source_bytes: 16 << 20,
            target_bytes: 4 << 20,
            ..Setup::of(protocol)
        };
        let mut pair = Pair::with_records(setup, 6_000, 300);
        let ballast = fill(&mut pair, "ballast:", 1 << 20);
        pair.begin();
        pair.run_until("stalled", |pair| pair.target_events.contains(&TargetEvent::Stalled));
        for n in 0..200 {
            pair.ask(Op::Append(key(n), b"!".to_vec()));
            pair.run_us(10_000);
        }
        ballast.iter().for_each(|name| drop_ballast(&mut pair, name));
        pair.ends_well();
        pair.check_no_breach();
    }
}

#[test]
fn out_of_memory_under_every_fault() {
    for_every_protocol(out_of_memory);
}

/// The target gives up what it has copied, if there is no memory for what has changed.
#[test]
fn out_of_memory_when_all_is_given() {
    for_protocols(
        &[
            "handoff,uncovered=target",
            "handoff,uncovered=load,out-of-turn=3,cut-period=100000,cut-bytes=100000",
        ],
        out_of_memory,
    );
}
