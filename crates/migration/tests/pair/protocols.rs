//! Runs a test with every protocol, or with those that make a choice, and reports for which it failed.

use sidle_migration::{Copies, PROTOCOLS, ProtocolChoices, Serves, protocol};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the test with every protocol.
pub(crate) fn for_every_protocol(test: impl Fn(ProtocolChoices)) {
    for_protocols_that(|_| true, test);
}

/// Runs the test with every protocol that makes a choice; there must be one.
pub(crate) fn for_protocols_that(choose: impl Fn(&ProtocolChoices) -> bool, test: impl Fn(ProtocolChoices)) {
    let chosen = PROTOCOLS.iter().copied().filter(|protocol| choose(protocol));
    for_each_of(chosen.map(|protocol| (protocol.name, *protocol)), test);
}

/// Runs the test with protocols given as texts with options.
pub(crate) fn for_protocols(texts: &[&'static str], test: impl Fn(ProtocolChoices)) {
    for_each_of(texts.iter().map(|text| (*text, protocol(text).unwrap())), test);
}

/// Runs the test with every protocol; each must panic with these words.
pub(crate) fn panics_for_every_protocol(words: &str, test: impl Fn(ProtocolChoices)) {
    for_every_protocol(|protocol| {
        let said = catch_unwind(AssertUnwindSafe(|| test(protocol))).map_err(said);
        assert!(said.as_ref().is_err_and(|said| said.contains(words)), "not '{words}': {said:?}");
    });
}

/// Runs all of them, even after failures.
fn for_each_of(
    protocols: impl Iterator<Item = (&'static str, ProtocolChoices)>,
    test: impl Fn(ProtocolChoices),
) {
    let mut count = 0;
    let mut failed = Vec::new();
    for (name, protocol) in protocols {
        count += 1;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(protocol))) {
            failed.push(format!("{name}: {}", said(panic)));
        }
    }
    assert!(count > 0, "no protocol makes that choice");
    assert!(failed.is_empty(), "failed with {} of {count} protocols\n{}", failed.len(), failed.join("\n"));
}

fn said(panic: Box<dyn std::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => (*other.downcast::<&str>().unwrap()).to_owned(),
    }
}

/// The source serves while its records are copied.
pub(crate) fn copies_ahead(protocol: &ProtocolChoices) -> bool {
    matches!(protocol.copies, Copies::BeforeFreeze(_))
}

/// The range is given bit by bit: source and target serve, each its own.
pub(crate) fn by_cuts(protocol: &ProtocolChoices) -> bool {
    matches!(protocol.copies, Copies::BeforeCuts(_))
}

/// The target serves while records arrive: commands there may need missing keys.
pub(crate) fn serves_while_it_fills(protocol: &ProtocolChoices) -> bool {
    protocol.serves == Serves::AtActivation
}

/// Source or target serves while most records are still to arrive.
pub(crate) fn serves_in_the_middle(protocol: &ProtocolChoices) -> bool {
    copies_ahead(protocol) || serves_while_it_fills(protocol) || by_cuts(protocol)
}

/// Awaited keys are pulled ahead of the others.
pub(crate) fn pulls_keys_ahead(protocol: &ProtocolChoices) -> bool {
    serves_while_it_fills(protocol) && protocol.priority.in_flight > 0
}

/// Sampled misses are pulled ahead.
pub(crate) fn samples(protocol: &ProtocolChoices) -> bool {
    protocol.sampling.is_some()
}
