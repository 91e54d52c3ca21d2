//! The end of a cut: what it gives is this node's, and what it only owes is empty here (M30).

use super::{Copied, Cuts, Requested};
use crate::cuts::Ahead;
use crate::importer::parts::TargetParts;
use sidle_store::{ImportStage, Store};
use sidle_types::{GaveAll, MonotonicUs, Position, PositionRange, fault};
use sidle_wire::CutReply;
use std::collections::BTreeSet;

impl Cuts {
    /// All of the cut is readable: what it gives is this node's (M23).
    pub(super) fn own(
        &mut self,
        parts: &mut TargetParts,
        now: MonotonicUs,
        store: &Store,
        reply: &CutReply<'_>,
    ) -> Option<Given> {
        let Requested { cursors, taken, brought, hinted, gives, at, records, .. } = self.requested.take()?;
        let locked = Cuts::brought_locks(parts, store, &brought);
        let is_brought = |position: Position| locked.contains(&position);
        // M34
        let is_given = |position: &Position| brought.contains(position) || fault!(KeptCountsAsGiven);
        let (taken, mut kept): (Vec<_>, Vec<_>) = taken.into_iter().partition(is_given);
        let is_all = gives.is_all() || cursors.iter().all(Option::is_none);
        store.raise_version_floor(parts.spec.range, reply.highest_version);
        let owes = is_all && cursors.iter().any(Option::is_some);
        if owes && !fault!(OwedKeepsInertCopy) {
            self.discard_owed(parts, store, &cursors, is_brought);
        }
        let is_clean = |cuts: &Cuts| cuts.copies_behind(parts, store, &cursors, is_brought).is_empty();
        debug_assert!(!owes || is_clean(self), "M30: an inert copy of what is owed stays");
        let before: Ahead = parts.writer.view().progress().collect();
        parts.note_given(store, &cursors, &taken);
        parts.writer.own(&cursors, &taken);
        kept.retain(|&position| !parts.writer.view().has_arrived(position));
        if owes {
            parts.note(store, ImportStage::Serving);
            parts.writer.owe(reply.counts.owed);
            parts.writer.met(Cuts::records_of_owed(parts, store, &cursors, &locked));
        }
        self.news.given(parts, now);
        let took_us = now.since(at);
        self.took_us = u32::try_from(took_us).unwrap_or(u32::MAX);
        parts.counters.cut_times.add(took_us);
        parts.counters.hinted += hinted as u64;
        self.forget_given(parts, &cursors, records);
        self.cut += 1;
        let period_us = u64::from(self.choices.period_us);
        self.rests_until = Some(now.plus_us(period_us));
        self.hints.iter_mut().for_each(|hints| hints.given(now, hinted, took_us, period_us));
        if self.partitions.iter().all(|partition| partition.next.is_none()) {
            // Nothing more is copied that would show that there is memory.
            parts.resume();
        }
        let gave_all = self.gives_all.filter(|_| gives.is_all());
        Some(Given { before, taken, kept, is_all, gave_all, owed_behind: owes.then_some(cursors) })
    }

    /// Where this cut brought what transactions have at keys.
    pub(super) fn brought_locks(
        parts: &TargetParts,
        store: &Store,
        brought: &BTreeSet<Position>,
    ) -> BTreeSet<Position> {
        let mut locked = store.positions_with_locks(parts.spec.range);
        locked.retain(|position| brought.contains(position));
        locked.into_iter().collect()
    }

    /// How many records this cut brought of what it owes (M37).
    fn records_of_owed(
        parts: &TargetParts,
        store: &Store,
        cursors: &Ahead,
        brought: &BTreeSet<Position>,
    ) -> u64 {
        let view = parts.writer.view();
        let mut records = 0;
        for (bounds, cursor) in parts.spec.partitions.iter().zip(cursors) {
            let owed = cursor.and_then(|from| PositionRange::new(from, bounds.last()));
            let Some(owed) = owed else { continue };
            let brought = brought.range(owed.first()..=owed.last()).copied();
            let of_owed = brought.filter(|&position| !view.owns_beyond_progress(position));
            records += of_owed.map(|position| store.len_in(PositionRange::only(position))).sum::<u64>();
        }
        records
    }

    /// Copies before these cursors are inert no more, nor are so many records that changed since.
    fn forget_given(&mut self, parts: &mut TargetParts, cursors: &Ahead, records: u64) {
        if parts.writer.view().gave_all() {
            return;
        }
        let mut left = self.inert - records;
        for (partition, cursor) in self.partitions.iter_mut().zip(cursors) {
            let is_given =
                |copy: &Copied| cursor.is_none_or(|given| copy.next.is_some_and(|next| next <= given));
            while let Some(copy) = partition.copies.pop_front_if(|copy| is_given(copy)) {
                left -= copy.records;
            }
        }
        self.set_inert(parts, left);
    }

    /// M30: what is owed is empty here, but for what this node owns there already, and what this cut brought
    /// of it (M37).
    fn discard_owed(
        &self,
        parts: &TargetParts,
        store: &Store,
        cursors: &Ahead,
        is_brought: impl Fn(Position) -> bool,
    ) {
        for position in self.copies_behind(parts, store, cursors, is_brought) {
            let rest = store.discard(position, position, usize::MAX);
            assert_eq!(rest, None, "without a budget everything is discarded");
        }
    }

    /// Where inert copies are behind these cursors.
    pub(super) fn copies_behind(
        &self,
        parts: &TargetParts,
        store: &Store,
        cursors: &Ahead,
        is_brought: impl Fn(Position) -> bool,
    ) -> Vec<Position> {
        let own = |at| parts.writer.view().owns_beyond_progress(at) || is_brought(at);
        let mut inert = Vec::new();
        for (partition, cursor) in self.partitions.iter().zip(cursors) {
            let Some(copies) =
                cursor.zip(partition.reach).and_then(|(from, to)| PositionRange::new(from, to))
            else {
                continue;
            };
            let rest = store.visit(copies.first(), copies.last(), usize::MAX, &mut |record| {
                let position = record.hashed_key().position();
                if copies.contains(position) && !own(position) {
                    inert.push(position);
                }
            });
            assert_eq!(rest, None, "without a budget everything is visited");
        }
        inert
    }
}

/// What a cut gave.
#[derive(Debug)]
pub(in crate::importer) struct Given {
    /// By partition, up to where this node owned it before.
    pub(in crate::importer) before: Ahead,
    /// Out of turn.
    pub(in crate::importer) taken: Vec<Position>,
    /// What does not fit here, and the source keeps.
    pub(in crate::importer) kept: Vec<Position>,
    /// Whether this node owns all of the range now.
    pub(in crate::importer) is_all: bool,
    /// If all that was left was given at once: why.
    pub(in crate::importer) gave_all: Option<GaveAll>,
    /// If something is owed: by partition, from where on.
    pub(in crate::importer) owed_behind: Option<Ahead>,
}
