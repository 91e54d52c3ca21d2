//! Transactions that this node decides in place of coordinators that are gone (X9).
//!
//! Purpose: what lies beside keys is looked at a few times a second. A vote that has waited for long, or an
//! outcome that nobody has had forgotten, is carried on with, as its coordinator would: at this node's keys
//! and, by forwarded requests, at those of others.
//!
//! Ownership: the first worker of a node.

use super::own_requests::OwnRequests;
use crate::dispatch::Dispatcher;
use crate::execute::Executor;
use crate::now::Now;
use sidle_resp::RespVersion;
use sidle_txn::{Committing, Locks, TransactionId};
use sidle_types::{CommitNumber, MonotonicUs, ValueKind, beside_what};
use std::collections::BTreeMap;

/// So many transactions are helped at a time.
const MOST: usize = 64;
/// What lies beside keys is looked at so often.
const LOOK_US: u64 = 200_000;
/// Those that are helped go on so often.
const TURN_US: u64 = 20_000;

/// The transactions that a worker helps.
#[derive(Default)]
pub(crate) struct Helpers {
    running: BTreeMap<TransactionId, OwnRequests>,
    looks_at: MonotonicUs,
    goes_on_at: MonotonicUs,
}

impl Helpers {
    /// How many transactions are helped.
    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    /// How many of their requests have not ended.
    pub(crate) fn requests(&self) -> usize {
        self.running.values().map(|helper| helper.len()).sum()
    }

    /// Whether some wait for a later commit than this.
    pub(crate) fn awaits_more_than(&self, safe: CommitNumber) -> bool {
        self.running.values().any(|own| own.least_shown().is_some_and(|shown| shown > safe))
    }

    /// When time is to be passed though nothing happens. `has_locks`: something lies beside keys.
    pub(crate) fn poll_timeout(&self, has_locks: bool) -> Option<MonotonicUs> {
        match self.running.is_empty() {
            true => has_locks.then_some(self.looks_at),
            false => Some(self.goes_on_at.min(self.looks_at)),
        }
    }

    /// Time has passed. `safe`: what replies may show.
    pub(crate) fn pass_time(&mut self, now: Now, dispatcher: &mut Dispatcher, safe: CommitNumber) {
        if now.mono >= self.looks_at {
            self.looks_at = now.mono.plus_us(LOOK_US);
            self.look(now, &dispatcher.executor);
        }
        self.goes_on_at = now.mono.plus_us(TURN_US);
        for helper in self.running.values_mut() {
            helper.go_on(now, dispatcher, safe);
        }
        self.running.retain(|_, helper| {
            let is_over = helper.committing.is_over();
            if is_over {
                helper.leave(dispatcher);
            }
            !is_over
        });
    }

    /// Begins to help what is in need of it.
    fn look(&mut self, now: Now, executor: &Executor) {
        let store = &executor.store;
        for range in executor.ranges.owned() {
            for position in store.positions_with_locks(range) {
                if self.running.len() >= MOST {
                    return;
                }
                store.visit(position, position, usize::MAX, &mut |record| {
                    let key = beside_what(record.key()).filter(|_| record.kind() == ValueKind::Locks);
                    let (Some(key), Some(locks)) = (key, Locks::read(record.value())) else { return };
                    for entry in locks.in_need_of_help(key, now.wall) {
                        self.running.entry(entry.id).or_insert_with(|| {
                            executor.stats.transactions.helped.add(1);
                            let committing = Committing::in_place_of(entry.id, key, entry.first);
                            OwnRequests::new(committing, RespVersion::Resp3)
                        });
                    }
                });
            }
        }
    }
}
