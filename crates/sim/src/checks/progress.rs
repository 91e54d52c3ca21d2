//! M7: an import's progress never passes a record that is not readable at the target, and never moves back.
//!
//! The source's records are known from the copy taken at the freeze. Each record that the progress passed
//! since the last check must have an entry at the target, value or tombstone. That it keeps one is M6, on
//! which replay and clients' reads depend, and which they show.

use super::Violation;
use super::frozen::FrozenCopy;
use crate::world::HostId;
use sidle_migration::ImportView;
use sidle_store::{Entry, Store};
use sidle_types::{HashedKey, MigrationId, Position, PositionRange};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

/// One partition's progress at the last check.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Its first position that was missing; `None` if none was.
    next: Option<Position>,
    /// How many of the frozen copy's records were passed by then, including earlier partitions.
    passed: Option<usize>,
}

/// Every import's progress at the last check.
#[derive(Debug, Default)]
pub(super) struct ProgressSeen {
    /// With the view that showed it: where the source restarted, another import goes on, and pulls all anew.
    imports: BTreeMap<(HostId, MigrationId), (Weak<ImportView>, Vec<Seen>)>,
    /// Machines that were asked to flush: from then on progress may pass records that never arrive, and are
    /// absent for good.
    flushed: BTreeSet<HostId>,
}

impl ProgressSeen {
    /// Checks one import of a machine. `copy`: the source's records, if known.
    pub(super) fn look(
        &mut self,
        host: HostId,
        view: &Arc<ImportView>,
        copy: Option<&FrozenCopy>,
        store: &Store,
    ) -> Result<(), Violation> {
        if !view.activated() {
            // Nobody reads there, so the arrived records may still be discarded. All of them are checked
            // later.
            self.imports.remove(&(host, view.id()));
            return Ok(());
        }
        let first = || (Arc::downgrade(view), first_look(view));
        let (shown_by, seen) = self.imports.entry((host, view.id())).or_insert_with(first);
        if !std::ptr::eq(shown_by.as_ptr(), Arc::as_ptr(view)) {
            (*shown_by, *seen) = first();
        }
        for ((index, next), (bounds, seen)) in
            view.progress().enumerate().zip(view.partitions().iter().zip(seen))
        {
            let is_back = match (seen.next, next) {
                (None, Some(_)) => true,
                (Some(before), Some(now)) => now < before,
                (_, None) => false,
            };
            let accuse = |what: String| {
                let place = format!("node {}, migration {}, partition {index}", host.0, view.id());
                Err(Violation::new("progress (M7)", format!("{place}: {what}")))
            };
            if is_back {
                return accuse(format!("its progress went back from {:?} to {next:?}", seen.next));
            }
            seen.next = next;
            // What is given bit by bit is in no frozen copy but a restarted source's: then it is outdated.
            if let Some(copy) = copy.filter(|_| !self.flushed.contains(&host) && !view.is_by_cuts())
                && let Err(key) = pass(seen, (view, *bounds), next, copy, store)
            {
                return accuse(format!("its progress {next:?} has passed \"{key}\", which is not here"));
            }
        }
        Ok(())
    }

    /// The machine's process is asked to flush.
    pub(super) fn flush(&mut self, host: HostId) {
        self.flushed.insert(host);
    }

    /// The machine's process has died.
    pub(super) fn forget(&mut self, host: HostId) {
        self.imports.retain(|(at, _), _| *at != host);
        self.flushed.remove(&host);
    }
}

fn first_look(view: &ImportView) -> Vec<Seen> {
    view.partitions().iter().map(|bounds| Seen { next: Some(bounds.first()), passed: None }).collect()
}

/// Checks the records passed since the last check. The error is the key of one that is missing.
fn pass(
    seen: &mut Seen,
    (view, bounds): (&ImportView, PositionRange),
    next: Option<Position>,
    copy: &FrozenCopy,
    store: &Store,
) -> Result<(), String> {
    let first = || copy.records.partition_point(|record| record.position < bounds.first());
    let is_passed = |position: Position| position <= bounds.last() && next.is_none_or(|next| position < next);
    let given = || copy.records.partition_point(|record| is_passed(record.position)).max(first());
    let mut passed = seen.passed.unwrap_or_else(|| if view.gave_all() { given() } else { first() });
    while let Some(record) = copy.records.get(passed).filter(|record| is_passed(record.position)) {
        // What it had been given is outdated at a source that restarted since, and needs no tombstone (M24).
        let is_owned = view.owns_beyond_progress(record.position);
        if !is_owned && matches!(store.pin().get(HashedKey::new(&record.key)), Entry::Absent) {
            return Err(record.key.escape_ascii().to_string());
        }
        passed += 1;
    }
    seen.passed = Some(passed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::frozen::FrozenCopies;
    use crate::checks::tests::{import, put, remove, store};
    use sidle_migration::ImportWriter;
    use sidle_store::Leave;
    use sidle_types::Fault;

    const HOST: HostId = HostId(2);

    struct Scene {
        seen: ProgressSeen,
        source: FrozenCopies,
        target: Store,
        view: Arc<ImportView>,
        writer: ImportWriter,
        /// In the order of their positions.
        keys: Vec<Vec<u8>>,
    }

    impl Scene {
        fn new() -> Scene {
            let (source_store, target) = (store(), crate::checks::tests::empty_store());
            let (view, mut writer) = import();
            writer.activate();
            let mut source = FrozenCopies::default();
            source.freeze(HostId(0), view.id(), &source_store, view.range());
            let keys = source.copy(view.id()).expect("just frozen").records.iter();
            let keys = keys.map(|record| record.key.to_vec()).collect();
            Scene { seen: ProgressSeen::default(), source, target, view, writer, keys }
        }

        fn look(&mut self) -> Result<(), Violation> {
            self.seen.look(HOST, &self.view, self.source.copy(self.view.id()), &self.target)
        }
    }

    #[test]
    fn progress_over_what_has_arrived_is_true() {
        let mut scene = Scene::new();
        assert_eq!(scene.look(), Ok(()));
        put(&scene.target, &scene.keys[0], b"arrived");
        remove(&scene.target, &scene.keys[1], Leave::Tombstone);
        scene.writer.advance(0, Some(Position::of_key(&scene.keys[2])));
        assert_eq!(scene.look(), Ok(()));
    }

    #[test]
    fn progress_over_what_has_not_arrived_is_seen() {
        let mut scene = Scene::new();
        put(&scene.target, &scene.keys[0], b"arrived");
        scene.writer.advance(0, Some(Position::of_key(&scene.keys[1])));
        assert_eq!(scene.look(), Ok(()));
        scene.writer.advance(0, Some(Position::of_key(&scene.keys[2])));
        let violation = scene.look().expect_err("the second key is not here");
        let missing = scene.keys[1].escape_ascii().to_string();
        assert!(violation.what.contains(&missing), "{violation}");
    }

    #[test]
    fn completion_over_what_has_not_arrived_is_seen() {
        let mut scene = Scene::new();
        scene.writer.complete();
        assert!(scene.look().is_err());
    }

    #[test]
    fn progress_that_went_back_is_seen() {
        let mut scene = Scene::new();
        scene.source.forget(HostId(0));
        scene.writer.advance(0, Some(Position(1 << 40)));
        assert_eq!(scene.look(), Ok(()));
        let _in_effect = Fault::FinishedPartitionResets.put_back();
        scene.writer.advance(0, None);
        assert!(scene.look().is_err());
    }

    /// After a restart of the source another import goes on.
    #[test]
    fn another_import_begins_with_progress_of_its_own() {
        let mut scene = Scene::new();
        scene.source.forget(HostId(0));
        scene.writer.advance(0, Some(Position(1 << 40)));
        assert_eq!(scene.look(), Ok(()));
        (scene.view, scene.writer) = import();
        scene.writer.activate();
        assert_eq!(scene.look(), Ok(()));
    }

    #[test]
    fn what_nobody_was_told_of_may_be_thrown_away() {
        let mut scene = Scene::new();
        scene.source.forget(HostId(0));
        (scene.view, scene.writer) = import();
        scene.writer.fill();
        scene.writer.advance(0, Some(Position(1 << 40)));
        assert_eq!(scene.look(), Ok(()));
        scene.writer.begin_anew();
        assert_eq!(scene.look(), Ok(()));
        scene.writer.activate();
        assert_eq!(scene.look(), Ok(()));
    }
}
