//! What clients that subscribe are told of ranges that are given to this node bit by bit.
//!
//! `CLIENT CAPA sidle-given` subscribes a connection. When there is news of cuts, at most every few
//! milliseconds, the worker makes one push of it for all of its subscribers: how far each partition is given,
//! and a filter of the positions given out of turn since the last one. A new subscriber is sent the cursors
//! at once.
//!
//! All of it only saves trips (M26). So the bytes for all subscribers stay within a share of those that moved
//! ([`GivenDigest`]): what is too expensive waits for more to move, and the cursors go alone after a while. A
//! connection that does not read is left out.
//!
//! Ownership: one for each worker, touched by that worker's thread only.

use crate::range_table::RangeTable;
use crate::session::Session;
use crate::stats::WorkerStats;
use crate::subscription::Subscription;
use sidle_migration::{GivenDigest, ImportView};
use sidle_resp::{ReplyWriter, RespVersion};
use sidle_types::{
    FILTER_POSITIONS_MAX, FINER_BITS_MAX, MigrationId, Position, PositionFilter, write_cursors,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// After so much news that was too expensive the cursors are sent alone.
const SILENT_ROUNDS: u64 = 10;

/// One worker's subscribers, and what they are sent next.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    /// How many connections subscribe.
    subscribers: Arc<AtomicU64>,
    /// The number of the last pushes.
    round: u64,
    pushes: Vec<u8>,
    told: Vec<Told>,
}

/// What the subscribers were told of a migration.
#[derive(Debug)]
struct Told {
    migration: MigrationId,
    /// The news that this worker has looked at.
    round: u64,
    /// How many positions given out of turn they know, or have missed.
    count: u64,
    cursors: Vec<Option<Position>>,
    /// How many filters they were sent.
    filters: u32,
    /// How much news was too expensive since the last push.
    silent_rounds: u64,
}

impl Digests {
    /// Makes the next pushes, if there is news. Returns whether subscribers are due them.
    pub(crate) fn collect(&mut self, ranges: &RangeTable) -> bool {
        let subscribers = self.subscribers.load(Relaxed);
        self.told.retain(|told| ranges.imports().any(|view| view.id() == told.migration));
        if subscribers == 0 {
            self.pushes = Vec::new();
            return false;
        }
        let mut pushes = Vec::new();
        for (view, digest) in digests(ranges) {
            // Before its news is read: what comes later is announced again.
            digest.want();
            let told = match self.told.iter().position(|told| told.migration == view.id()) {
                Some(index) => &mut self.told[index],
                None => self.told.push_mut(Told::new(view)),
            };
            if std::mem::replace(&mut told.round, digest.round()) != digest.round() {
                told.push(view, digest, subscribers, &mut pushes);
            }
        }
        let has_news = !pushes.is_empty();
        if has_news {
            // Whoever has not taken the last ones has missed them.
            self.pushes = pushes;
            self.round += 1;
        }
        has_news
    }

    /// Writes the last pushes for a subscriber, unless it was sent them. Returns whether anything was
    /// written.
    pub(crate) fn write(&self, session: &mut Session, stats: &WorkerStats, out: &mut Vec<u8>) -> bool {
        let Some(subscription) = &mut session.route.subscription else { return false };
        if self.pushes.is_empty() || std::mem::replace(&mut subscription.round, self.round) == self.round {
            return false;
        }
        stats.digest_bytes.add(self.pushes.len() as u64);
        out.extend_from_slice(&self.pushes);
        true
    }

    /// Begins a subscription, and writes the present cursors.
    #[cold]
    pub(crate) fn begin(
        &self,
        session: &mut Session,
        ranges: &RangeTable,
        stats: &WorkerStats,
        out: &mut Vec<u8>,
    ) {
        session.route.subscription = Some(Subscription::of(&self.subscribers, self.round));
        for (view, digest) in digests(ranges) {
            digest.want();
            let begun = out.len();
            let cursors: Vec<_> = view.asked_up_to().collect();
            write_push(view.id(), digest.cut(), &cursors, &[], out);
            let bytes = (out.len() - begun) as u64;
            digest.overspend(bytes);
            stats.digest_bytes.add(bytes);
        }
    }
}

/// The imports that there is a digest of.
fn digests(ranges: &RangeTable) -> impl Iterator<Item = (&ImportView, &GivenDigest)> {
    ranges.imports().filter_map(|view| Some((&**view, view.digest()?)))
}

impl Told {
    fn new(view: &ImportView) -> Told {
        Told {
            migration: view.id(),
            round: 0,
            count: 0,
            cursors: view.partitions().iter().map(|partition| Some(partition.first())).collect(),
            filters: 0,
            silent_rounds: 0,
        }
    }

    /// Appends what is new, if it may be sent.
    fn push(&mut self, view: &ImportView, digest: &GivenDigest, subscribers: u64, out: &mut Vec<u8>) {
        let cut = digest.cut();
        let count = digest.count();
        let cursors: Vec<_> = view.asked_up_to().collect();
        let is_behind = |position: &Position| {
            let index = view.partitions().partition_point(|partition| partition.last() < *position);
            cursors.get(index).is_some_and(|next| next.is_some_and(|next| next <= *position))
        };
        let mut positions = digest.positions(self.count, count, FILTER_POSITIONS_MAX);
        positions.retain(is_behind);
        let moved: &[_] = if cursors == self.cursors { &[] } else { &cursors };
        if positions.is_empty() && moved.is_empty() {
            return;
        }
        let mut filter = Vec::new();
        PositionFilter::write(&positions, self.finer_bits(), &mut filter);
        let begun = out.len();
        write_push(view.id(), cut, moved, &filter, out);
        let is_affordable = |out: &Vec<u8>| digest.spend((out.len() - begun) as u64 * subscribers);
        if is_affordable(out) {
            self.count = count;
            self.filters += u32::from(!filter.is_empty());
        } else {
            out.truncate(begun);
            self.silent_rounds += 1;
            if moved.is_empty() || self.silent_rounds < SILENT_ROUNDS {
                return;
            }
            write_push(view.id(), cut, moved, &[], out);
            if !is_affordable(out) {
                return out.truncate(begun);
            }
        }
        self.cursors = cursors;
        self.silent_rounds = 0;
    }

    /// Clients keep all filters: the errors of the later ones are rarer, so that few are added by many.
    fn finer_bits(&self) -> u32 {
        (self.filters + 1).ilog2().min(FINER_BITS_MAX)
    }
}

/// `>5 sidle-given <migration> <cut> <cursors> <filter>`.
fn write_push(
    migration: MigrationId,
    cut: u64,
    cursors: &[Option<Position>],
    filter: &[u8],
    out: &mut Vec<u8>,
) {
    let mut written = Vec::new();
    if !cursors.is_empty() {
        write_cursors(cursors.iter().copied(), &mut written);
    }
    let mut reply = ReplyWriter::new(out, RespVersion::Resp3);
    reply.push(5);
    reply.bulk(b"sidle-given");
    reply.integer(i64::try_from(migration.0).expect("the coordinator counts migrations from 1"));
    reply.integer(i64::try_from(cut).expect("cuts are counted from 1"));
    reply.bulk(&written);
    reply.bulk(filter);
}
