//! What a target's machines share: the migration's spec, its workers' view, the store's head for records, the
//! limits on pulls, and the sinks for refusals, events and counts.

use super::ImporterCounters;
use super::copies::Copies;
use super::greeting::Greeting;
use super::held::Held;
use super::records::{Records, Untaken};
use super::replay::Stall;
use crate::cuts::Ahead;
use crate::outbox::Outbox;
use crate::{Breach, ImportPhase, ImportWriter, MigrationSpec, TargetEvent, Waiter};
use sidle_pacing::Governor;
use sidle_store::{ImportNote, ImportStage, LogHead, RecordBatch, Replayed, Store};
use sidle_types::{MonotonicUs, Position, PositionRange, ValueKind, fault};
use sidle_wire::{Lane, Scope};
use std::collections::VecDeque;

/// What a target's machines share.
#[derive(Debug)]
pub(super) struct TargetParts {
    pub(super) spec: MigrationSpec,
    pub(super) scope: Scope,
    pub(super) writer: ImportWriter,
    /// Where replay appends: a side log, so that nothing else waits for it.
    pub(super) head: LogHead,
    pub(super) held: Held,
    pub(super) copies: Copies,
    pub(super) greetings: [Greeting; Lane::ALL.len()],
    pub(super) governor: Governor,
    /// Bulk work waits until then, to spare the workers or to keep a rate.
    pub(super) paced_until: Option<MonotonicUs>,
    pub(super) stall: Option<Stall>,
    pub(super) outbox: Outbox,
    pub(super) events: VecDeque<TargetEvent>,
    pub(super) counters: ImporterCounters,
}

impl TargetParts {
    pub(super) fn new(
        now: MonotonicUs,
        spec: MigrationSpec,
        writer: ImportWriter,
        head: LogHead,
    ) -> TargetParts {
        TargetParts {
            scope: spec.scope(),
            greetings: Lane::ALL.map(|_| Greeting::default()),
            governor: spec.governor(now),
            paced_until: None,
            stall: None,
            outbox: Outbox::new(spec.version),
            events: Lane::ALL.map(TargetEvent::Connect).into(),
            counters: ImporterCounters::default(),
            held: Held::default(),
            copies: Copies::default(),
            spec,
            writer,
            head,
        }
    }

    pub(super) fn phase(&self) -> ImportPhase {
        self.writer.view().phase()
    }

    /// Requests are answered from now on.
    pub(super) fn activate(&mut self, store: &Store) {
        self.note(store, ImportStage::Serving);
        self.writer.activate();
    }

    /// Notes in the durable log how far the import is, before anybody is answered because of it.
    pub(super) fn note(&self, store: &Store, stage: ImportStage) {
        let MigrationSpec { import: id, range, .. } = self.spec;
        if !fault!(ServedWithoutNote) {
            store.note_import(ImportNote { id, range, stage });
        }
    }

    /// The same of what a cut gives: by partition everything before a cursor, and positions out of turn
    /// (M33).
    pub(super) fn note_given(&self, store: &Store, cursors: &Ahead, taken: &[Position]) {
        if fault!(GivenWithoutNote) {
            return;
        }
        let view = self.writer.view();
        let bounds = view.partitions().iter().zip(view.progress()).zip(cursors);
        let newly = bounds.filter_map(|((bounds, before), next)| {
            PositionRange::new(before?, next.map_or(Some(bounds.last()), Position::previous)?)
        });
        store.note_given(self.spec.import, newly.chain(taken.iter().copied().map(PositionRange::only)));
    }

    pub(super) fn breach(&mut self, lane: Lane, breach: Breach) {
        self.events.push_back(TargetEvent::Close(lane, breach));
    }

    /// The lane's connection carried a valid answer.
    pub(super) fn proved(&mut self, lane: Lane) {
        self.greetings[lane.index()].proved();
    }

    pub(super) fn wake(&mut self, waiters: impl IntoIterator<Item = Waiter>) {
        self.events.extend(waiters.into_iter().map(TargetEvent::Wake));
    }

    /// Whether everything has been copied, apart from what changed since.
    pub(super) fn is_all_pulled(&self) -> bool {
        self.writer.view().progress().all(|next| next.is_none())
    }

    /// Roughly how many bytes have not arrived: partitions hold about equally many records, and positions are
    /// hashes, so the positions' share is the bytes' share.
    fn left_bytes(&self) -> u64 {
        let view = self.writer.view();
        let bytes_each = u128::from(self.spec.bytes) / view.partitions().len() as u128;
        let left = view.partitions().iter().zip(view.progress()).map(|(partition, next)| {
            let (first, last) = (u128::from(partition.first().0), u128::from(partition.last().0));
            let left = next.map_or(0, |next| last + 1 - u128::from(next.0));
            (bytes_each * left / (last + 1 - first)) as u64
        });
        left.sum()
    }

    /// Whether bulk work must wait under the migration's policy; notes until when.
    pub(super) fn is_paced(&mut self, now: MonotonicUs) -> bool {
        let ready_at = self.governor.may_pull_at(now, self.left_bytes());
        if ready_at > now {
            self.paced_until = Some(ready_at);
        }
        ready_at > now
    }

    /// Inserts records whose keys have no entry (M5).
    pub(super) fn insert(
        &mut self,
        store: &Store,
        records: Records<'_>,
        within: PositionRange,
        bytes: usize,
    ) -> Result<Replayed, Untaken> {
        let replayed = self.put_in(store, records, within)?;
        self.writer.met(u64::from(replayed.inserted));
        self.counters.records_moved += u64::from(replayed.inserted);
        self.counters.records_present += u64::from(replayed.present);
        self.counters.bytes_moved += bytes as u64;
        Ok(replayed)
    }

    /// As [`insert`](Self::insert), uncounted.
    pub(super) fn put_in(
        &mut self,
        store: &Store,
        records: Records<'_>,
        within: PositionRange,
    ) -> Result<Replayed, Untaken> {
        assert!(
            self.phase().takes_records(),
            "M3, M8: replay only between activation, or ahead of it, and end"
        );
        let collections = u64::from(matches!(records, Records::Arrived(..)) && !records.is_in_place());
        let replayed = records.put_in(store, (&mut self.head, &mut self.held), within, self.writer.view())?;
        self.counters.collections += collections;
        Ok(replayed)
    }

    /// M37: what transactions have at the range's keys is here before anybody is answered.
    pub(super) fn take_locks(&mut self, store: &Store, locks: &[u8]) -> Result<(), Untaken> {
        let batch = RecordBatch::parse(locks).map_err(|error| Untaken::Corrupt(error.to_string()))?;
        if batch.iter().any(|record| record.kind() != ValueKind::Locks) {
            return Err(Untaken::Corrupt("an activation has records that are no locks".to_owned()));
        }
        let replayed = store.replay(&mut self.head, &batch, self.spec.range)?;
        self.writer.met(u64::from(replayed.inserted));
        Ok(())
    }

    /// There was memory for the arrived records.
    pub(super) fn resume(&mut self) {
        if self.stall.take().is_some() {
            self.events.push_back(TargetEvent::Resumed);
        }
    }
}
