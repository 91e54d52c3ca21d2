//! What the durable log of a target knows, and what a target does when its source has restarted.

use crate::model::{Model, Op};
use crate::world::{Node, Pair, Role, Setup, key};
use sidle_migration::{
    FULVA, HANDOFF, ImportPhase, ProtocolChoices, SOURCE_DRIVEN, STOP_AND_COPY, TargetEvent, TargetInput,
    Waiter,
};
use sidle_store::ImportStage;
use sidle_types::MonotonicUs;

/// A pair with 200 keys, whose target has a durable log.
fn durable(protocol: ProtocolChoices) -> Pair {
    let setup = Setup::of(protocol);
    let target = Node::durable(setup.target_bytes, Role::Elsewhere);
    let source = Node::new(setup.source_bytes, Role::Owned);
    let mut pair = Pair::of_nodes(setup, source, target, Model::default(), 1);
    for n in 0..200 {
        pair.expect_ok(Op::Set(key(n), b"value".to_vec(), None));
    }
    pair.start();
    pair
}

fn phase(pair: &Pair) -> Option<ImportPhase> {
    pair.target_machine.as_ref().map(|machine| machine.view().phase())
}

/// A story of a named fault: it knows how far it is, before anybody is answered.
pub(crate) fn notes_of_an_import() {
    for protocol in [FULVA, STOP_AND_COPY, SOURCE_DRIVEN, HANDOFF] {
        let mut pair = durable(protocol);
        while pair.step() && phase(&pair) != Some(ImportPhase::Complete) {
            let noted = pair.target.store.noted_imports().first().map(|note| note.stage);
            match phase(&pair) {
                Some(ImportPhase::Serving) => assert_eq!(noted, Some(ImportStage::Serving)),
                Some(ImportPhase::Taking) => assert!(noted <= Some(ImportStage::Taking), "{noted:?}"),
                _ => assert_eq!(noted, None),
            }
        }
        let noted = pair.target.store.noted_imports().first().map(|note| note.stage);
        assert_eq!(noted, Some(ImportStage::Complete));
    }
}

/// A story of a named fault: it knows what was given (M33).
pub(crate) fn notes_of_what_was_given() {
    let mut pair = durable(HANDOFF);
    let mut most = 0;
    while pair.step() && phase(&pair) != Some(ImportPhase::Complete) {
        let Some(machine) = &pair.target_machine else { continue };
        let (owned, id) = (machine.view().owned(), machine.spec().import);
        assert_eq!(pair.target.store.noted_as_given(id), owned.ranges());
        most = most.max(owned.ranges().len());
    }
    assert!(most > 0, "it is given bit by bit");
}

/// A story of a named fault: the source, which knew what had changed of what is copied, has restarted.
pub(crate) fn copies_of_a_source_that_restarted() {
    for protocol in [HANDOFF, SOURCE_DRIVEN] {
        let mut pair = durable(protocol);
        pair.run_until("something is copied and not served", |pair| {
            let owned = pair.target_machine.as_ref().map(|machine| machine.view().owned());
            let served = owned.map_or(0, |owned| {
                owned.ranges().iter().map(|&range| pair.target.store.len_in(range)).sum::<u64>()
            });
            let is_untold = phase(pair) < Some(ImportPhase::Serving);
            is_untold && pair.target.store.len() > if protocol == HANDOFF { served } else { 0 }
        });
        let (store, machine) = (&pair.target.store, pair.target_machine.as_mut().unwrap());
        let mut now = pair.now;
        let flush = Waiter { worker: 0, ticket: 1_000_000 };
        assert!(machine.handle(now, store, TargetInput::Flush(flush)).is_none());
        assert!(machine.handle(now, store, TargetInput::SourceRestarted).is_none());
        for _ in 0..100 {
            now = MonotonicUs(now.0 + 1_000);
            assert!(machine.handle(now, store, TargetInput::Timeout).is_none());
        }
        let events: Vec<_> = std::iter::from_fn(|| machine.poll_event()).collect();
        let owned = machine.view().owned();
        let ends = events.contains(&TargetEvent::Ended);
        assert_eq!(ends, protocol == HANDOFF, "M33: another goes on with what this one was given");
        assert_eq!(events.contains(&TargetEvent::Wake(flush)), ends, "a flush meets the one that goes on");
        let served: u64 = owned.ranges().iter().map(|&range| store.len_in(range)).sum();
        assert_eq!(store.len(), if ends { served } else { 0 }, "M33: a copy is left");
    }
}

#[test]
fn a_durable_log_knows_how_far_an_import_is() {
    notes_of_an_import();
    notes_of_what_was_given();
}

#[test]
fn no_copy_outlives_what_the_source_knew_of_it() {
    copies_of_a_source_that_restarted();
}
