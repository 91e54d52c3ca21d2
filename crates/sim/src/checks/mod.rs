//! What must always hold, and what must hold at the end; one file per checker.

mod accounting;
mod acknowledged;
mod deadlines;
mod endings;
mod frozen;
mod keys;
mod leaks;
mod linearizability;
mod lists;
mod losses;
mod members;
mod names;
mod progress;
mod queues;
mod scans;
mod search;
mod single_owner;
mod transactions;
mod waits;

pub use deadlines::check_deadlines;
pub use lists::check_lists;
pub use losses::{LOSSES, Losses};
pub use members::check_members;
pub use names::check_names;
pub use scans::{Holder, Ownership, Scan};
pub use transactions::{check_transactions, left_undecided, settled, votes_in};

use crate::clients::Told;
use crate::host::Host;
use crate::network::Network;
use crate::world::{Fact, HostId};
use acknowledged::Acknowledged;
use frozen::FrozenCopies;
use linearizability::Judge;
use progress::ProgressSeen;
use sidle_history::Operation;
use sidle_node::NodeControl;
use sidle_store::Store;
use sidle_types::MonotonicUs;

/// A machine's frozen ranges and all queues are checked after this many facts: a walk over a store takes
/// longer than most events.
const FACTS_BETWEEN_WALKS: u64 = 16;

/// A violated rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The check that found it.
    pub check: &'static str,
    /// What was found.
    pub what: String,
}

impl Violation {
    /// Found by this check.
    pub fn new(check: &'static str, what: impl Into<String>) -> Violation {
        Violation { check, what: what.into() }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.check, self.what)
    }
}

/// The checkers of clients' answers, with their states.
#[derive(Debug, Default)]
pub struct Answers {
    acknowledged: Acknowledged,
    judge: Judge,
    heard: usize,
}

impl Answers {
    /// Takes in what has ended since the last call: the end of `history`. `under_way`: what has not.
    pub fn hear<'o, U: Iterator<Item = &'o Operation>>(
        &mut self,
        history: &[Operation],
        under_way: impl Fn() -> U,
    ) -> Result<(), Violation> {
        let from = std::mem::replace(&mut self.heard, history.len());
        if from == history.len() {
            return Ok(());
        }
        let is_removing = |key: &str| {
            under_way().any(|operation| operation.key == key && acknowledged::removes(operation.op))
        };
        for operation in &history[from..] {
            self.acknowledged.hear(operation, is_removing)?;
        }
        self.judge.hear(history, from, |key| {
            under_way().filter(|operation| operation.key == key).map(|operation| operation.call_ns).min()
        })
    }

    /// Everything has ended. Returns how many keys were too hard to decide.
    pub fn finish(&mut self, history: &[Operation]) -> Result<usize, Violation> {
        self.judge.finish(history)
    }
}

/// The checkers of the running machines, with their states.
#[derive(Debug, Default)]
pub struct Checks {
    endings: endings::Endings,
    frozen: FrozenCopies,
    progress: ProgressSeen,
    facts: u64,
    /// Whether nothing goes wrong in this simulation.
    is_fair: bool,
    /// A violation found in the middle of an event.
    found: Option<Violation>,
}

impl Checks {
    /// The checkers of a simulation. `is_fair`: nothing goes wrong in it.
    pub fn new(is_fair: bool) -> Checks {
        Checks { is_fair, ..Checks::default() }
    }

    /// How many migrations gave their range back to its source.
    pub fn given_back(&self) -> u64 {
        self.endings.given_back()
    }

    /// A command that was parked at this machine has been woken. `since`: when it was parked, or later, when
    /// commands there last had to wait for their keys' turns. `link_us`: how long a migration's message may
    /// wait for its link.
    pub fn waited(&mut self, host: HostId, now: MonotonicUs, since: MonotonicUs, link_us: u64) {
        let found = waits::check(host, now, since, link_us).err();
        if let Some(violation) = found.filter(|_| self.is_fair) {
            self.found.get_or_insert(violation);
        }
    }

    /// A violation that was found in the middle of an event.
    pub fn note(&mut self, violation: Violation) {
        self.found.get_or_insert(violation);
    }

    /// A durable log was judged; the error says what is wrong with it.
    pub(crate) fn note_log(&mut self, judged: Result<(), String>) {
        if let Err(what) = judged {
            self.found.get_or_insert(Violation::new("durable log", what));
        }
    }

    /// A command waits at this machine for items of such a key, and is not woken (P3, B1, B2).
    pub fn waits_wrongly(&mut self, host: HostId, key: &str) {
        let what = format!("a command waits at node {} for a key {key}", host.0);
        self.found.get_or_insert(Violation::new("waits", what));
    }

    /// A fact for the checkers. `hosts`: everything right after it.
    pub fn observe(
        &mut self,
        hosts: &[Host],
        (network, now_us): (&Network, u64),
        facts: &[Fact],
    ) -> Result<(), Violation> {
        if let Some(found) = self.found.take() {
            return Err(found);
        }
        if facts.iter().any(|fact| matches!(fact, Fact::TableTaken(_) | Fact::Activated(_))) {
            single_owner::check(hosts, now_us)?;
        }
        if facts.iter().any(|fact| matches!(fact, Fact::Given(_) | Fact::TableTaken(_))) {
            single_owner::check_given(hosts, now_us)?;
        }
        if facts.contains(&Fact::Committed) {
            self.endings.committed(hosts)?;
        }
        facts.iter().try_for_each(|fact| self.fact(hosts, network, *fact))
    }

    fn fact(&mut self, hosts: &[Host], network: &Network, fact: Fact) -> Result<(), Violation> {
        let host = fact.host();
        if matches!(fact, Fact::Parked(_) | Fact::Given(_) | Fact::Safe(_) | Fact::Deposed(_)) {
            return Ok(());
        }
        let Some(process) = &hosts[host.0].process else { return Ok(()) };
        let store = &process.parts.store;
        self.facts += 1;
        match fact {
            Fact::Frozen(_, id) => {
                // A delayed control may freeze and release in one step.
                let exports = process.control.control.exports();
                // One that is given bit by bit is served on.
                if let Some(export) = exports.filter(|view| !view.is_by_cuts()).find(|view| view.id() == id) {
                    self.frozen.freeze(host, id, store, export.range());
                }
            }
            Fact::Released(_, id) => {
                self.frozen.release(host, id, store)?;
                accounting::check_one(hosts, host)?;
            }
            Fact::Replayed(_) => self.look_at_imports(host, &process.control.control, store)?,
            Fact::TableTaken(_)
            | Fact::Activated(_)
            | Fact::Given(_)
            | Fact::Committed
            | Fact::Parked(_)
            | Fact::Safe(_)
            | Fact::Deposed(_) => {}
        }
        if self.facts.is_multiple_of(FACTS_BETWEEN_WALKS) {
            self.frozen.check(host, store)?;
            queues::check(hosts, network)?;
        }
        Ok(())
    }

    /// A mover of this machine has received a pull's reply, and has not replayed it; workers run now.
    pub fn before_replay(&mut self, host: HostId, control: &NodeControl, store: &Store) {
        let looked = self.look_at_imports(host, control, store);
        if let Err(violation) = looked {
            self.found.get_or_insert(violation);
        }
    }

    /// The canceller was notified of this.
    pub fn canceller_was_told(&self, told: Told) -> Result<(), Violation> {
        self.endings.canceller_was_told(told)
    }

    fn look_at_imports(
        &mut self,
        host: HostId,
        control: &NodeControl,
        store: &Store,
    ) -> Result<(), Violation> {
        control
            .imports()
            .try_for_each(|view| self.progress.look(host, view, self.frozen.copy(view.id()), store))
    }

    /// The process on this machine is asked to flush what it owns.
    pub fn flush(&mut self, host: HostId) {
        self.progress.flush(host);
    }

    /// The process on this machine has died with its memory.
    pub fn forget(&mut self, host: HostId) {
        self.frozen.forget(host);
        self.progress.forget(host);
    }

    /// Nothing fails any more, every request and every migration is over, and there was time to clean up.
    /// `started`: how many migrations the operator knows to be started; `untold`: how many of its requests
    /// ended without an answer.
    pub fn at_rest(
        &mut self,
        hosts: &[Host],
        (network, now_us): (&Network, u64),
        (started, untold): (u64, u64),
    ) -> Result<(), Violation> {
        if let Some(found) = self.found.take() {
            return Err(found);
        }
        single_owner::check(hosts, now_us)?;
        queues::check(hosts, network)?;
        self.endings.at_rest(hosts)?;
        self.endings.operator_was_told(started, untold)?;
        leaks::check(hosts, network)?;
        accounting::check(hosts)
    }
}

#[cfg(test)]
mod tests {
    use sidle_history::{Datum, Op, Operation, Outcome};
    use sidle_migration::{FULVA, ImportView, ImportWriter, MigrationSpec, Tuning};
    use sidle_store::{Leave, Store, StoreConfig};
    use sidle_types::{
        HashedKey, ImportId, MigrationId, MigrationPolicy, NodeId, PositionRange, ProtocolVersion,
        TabletEpoch,
    };
    use std::sync::Arc;

    pub(super) fn empty_store() -> Store {
        let config = StoreConfig { memory_bytes: 1 << 20, segment_bytes: 4 << 10, ..StoreConfig::default() };
        Store::new(config).expect("a good configuration")
    }

    /// A store with a few keys.
    pub(super) fn store() -> Store {
        let store = empty_store();
        (0..10).for_each(|number| put(&store, format!("key {number}").as_bytes(), b"value"));
        store
    }

    /// An operation on one key; without a return its fate is unknown.
    pub(super) fn operation(
        op: Op,
        arg: Datum,
        result: Datum,
        call_ns: u64,
        return_ns: Option<u64>,
    ) -> Operation {
        let outcome = if return_ns.is_some() { Outcome::Ok } else { Outcome::Unknown };
        Operation { client: 1, op, key: "k".to_owned(), arg, result, call_ns, return_ns, outcome }
    }

    pub(super) fn put(store: &Store, key: &[u8], value: &[u8]) {
        let key = HashedKey::new(key);
        let mut head = store.log_head();
        store.lock_slot(key.slot()).put(&mut head, key, &[value], None).expect("there is room");
    }

    pub(super) fn remove(store: &Store, key: &[u8], leave: Leave) {
        let key = HashedKey::new(key);
        let mut head = store.log_head();
        store.lock_slot(key.slot()).remove(&mut head, key, leave).expect("there is room");
    }

    /// An import of everything in one partition.
    pub(super) fn import() -> (Arc<ImportView>, ImportWriter) {
        ImportView::new(&MigrationSpec {
            id: MigrationId(7),
            import: ImportId(7),
            epoch: TabletEpoch(2),
            range: PositionRange::ALL,
            version: ProtocolVersion::CURRENT,
            source: NodeId::from_bytes([1; 20]),
            source_life: 1,
            target: NodeId::from_bytes([2; 20]),
            partitions: vec![PositionRange::ALL],
            protocol: FULVA,
            bytes: 0,
            policy: MigrationPolicy::default(),
            tuning: Tuning::default(),
        })
    }
}
