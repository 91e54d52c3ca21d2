//! Migration protocol state machines, without input or output.
//!
//! A migration is an [`Exporter`] on the node that gives a range up and an [`Importer`] on the node that
//! takes it. Each belongs to one mover thread. Two drivers call them: the server's movers and the tests'
//! `Pair`. They share one interface: `handle(now, store, input)`, `poll_transmit(now, store, lane, out)`,
//! `poll_timeout()`, `poll_event()`.
//!
//! Workers see a migration as [`ImportView`] and [`ExportView`], a few atomics each. The [`RangeBarrier`]
//! creates the instant from which all of them see it.
//!
//! # Invariants
//! Assertions and tests cite these numbers.
//! - M1 At most one node acknowledges writes for a position at any time (epoch order).
//! - M2 After the freeze barrier returns, no record in the range changes at the source.
//! - M3 The target acknowledges nothing in the range before `Activate`.
//! - M4 A client returns a source value only if the target answered "not here yet" to the same attempt and
//!   the source confirms that it is frozen for the same migration id.
//! - M5 Replay never replaces an entry that the target has, live, expired or tombstone.
//! - M6 A delete, expiry or eviction at the target leaves a tombstone until the migration ends. (A key that
//!   the source does not have leaves a mark of absence, not a tombstone: the store may drop it, and the next
//!   request pulls again.)
//! - M7 Progress P_i never passes a record that is not yet readable at the target, and never moves back.
//! - M8 The source discards nothing before `Done` is committed; after that it never answers "absent".
//! - M9 Everything a message refers to carries (migration id, epoch); a stale one is refused, not applied.
//! - M10 Every message may be lost, duplicated, delayed or reordered by a reconnect: handling is idempotent.
//! - M11 Of a copy made before the freeze: every change at the source since tracking began arrives in a
//!   round, and the target serves only when a round packed after the freeze left nothing to be sent.
//! - M12 Joined pieces are of one version of the records at their position.
//! - M32 A copy of a large collection is whole as of a version: what has not changed at the source since is
//!   here as it is there. A patch brings what changed since that version and nothing else is needed; it is
//!   applied to that state only. Until the position is frozen or given, nobody reads the copy. One made
//!   before a freeze is read behind a patch that began after it.
//!
//! Of a range that is given bit by bit, by cuts:
//! - M20 While some worker of the source keeps a position, the target does not own it.
//! - M21 What is given, and what is owned, only grows.
//! - M22 A cut is packed behind its barrier. It carries everything that changed since it was copied, and all
//!   that is at the positions that were taken.
//! - M23 The target acts on a position only if it owns it. Other records that it has there are inert.
//! - M24 A copy never enters a position that the target owns. (So M5 and M6 have nothing to do here.)
//! - M25 A cut names only what the target has copied; cuts are applied once, and in order.
//! - M26 What clients know only saves trips; what the source names as hot only changes the order.
//! - M27 Redirects go from the source to the target. The target never sends back; it takes.
//! - M28 A window, or a hot position, is copied behind the barrier from which every worker marks its changes
//!   there.
//! - M29 The keys of one command have one owner under one step, or the command goes to the target, which
//!   takes the others.
//! - M30 Of what a last cut gives without having copied it (it is *owed*): the target throws its inert copies
//!   away when it takes the ownership, and only records packed behind that cut's barrier may enter. From then
//!   on M4 to M8 hold for it as for any frozen range. So it is with hot positions that are copied before a
//!   freeze, and change before it: the copies go before the target serves.
//! - M31 A flush at the target waits until all of the range is given, and what was in transit is here, or
//!   owed. Then it is as with any frozen range.
//! - M34 Of what it is asked for out of turn the source keeps, and serves, what does not fit into the
//!   target's memory: in transit it would be nobody's. A cut gives only what one of its replies names.
//! - M33 What a target serves of a cut is noted in its durable log. Where either end restarts, nothing is
//!   given bit by bit any more: the source freezes what it kept. The target keeps what it was given and no
//!   copies, and pulls all else.
//! - M35 Once a source is dead, a target takes nothing of it any more. The rest enters from a copy of the
//!   source's log, as what is pulled does (M5, M6). A flush waits for that, so that nothing arrives
//!   behind it.
//! - M36 A node that takes a dead target's place serves nothing before it has, from a copy of the target's
//!   log, all that this was answerable for: what it was given of a cut, or, once it served the range, all it
//!   had, tombstones too (M6). It has nothing else there: copies that nobody was answered from may be
//!   outdated. Both ends then go on as after a restart of the target (M33), under an epoch that the dead one
//!   never had.
//! - M37 What transactions have at a range's keys is at the target before it serves any of them, whatever
//!   else has arrived: with the activation, or in the cut that gives the rest. It enters as pulled records
//!   do.
//! - M38 What is in transit does not wait for memory: nobody serves it, so nobody could delete it. Its cut
//!   gives all that is left, and owes all of it.

mod barrier;
#[cfg(all(test, loom))]
mod barrier_model;
mod choices;
mod clearing;
mod cuts;
mod event;
mod export_view;
mod exporter;
mod import_view;
mod importer;
mod marks;
mod outbox;
pub mod protocols;
mod resend;
mod spec;
mod sync;
pub mod tuning;

pub use barrier::{BarrierPassed, BarrierTicket, RangeBarrier};
pub use choices::{
    Copies, Cuts, OnMissing, PriorityPulls, ProtocolChoices, PullBytes, Rounds, Sampling, Serves,
    SourceReads, Uncovered,
};
pub use cuts::{CUT_TIME_BUCKETS, CutTimes, GivenDigest, OUT_OF_TURN_MAX, Share};
pub use event::{Breach, Failure, SourceEvent, SourceInput, TargetEvent, TargetInput, Waiter, WaiterRefusal};
pub use export_view::{ExportPhase, ExportView, ExportWriter};
pub use exporter::{Exporter, ExporterCounters};
pub use import_view::{ImportPhase, ImportView, ImportWriter};
pub use importer::{Importer, ImporterCounters, Replay};
pub use protocols::{
    FULVA, HANDOFF, PROTOCOLS, ProtocolError, ROCKSTEADY, SOURCE_DRIVEN, STOP_AND_COPY, ZEPHYR, protocol,
};
pub use sidle_pacing::{Load, Pace};
pub use spec::{MigrationSpec, PARTITIONS_MAX, SpecError};
pub use tuning::Tuning;
