//! Workers at both ends, by the node's rules, and their clients.
//!
//! Every answer is compared with the model at the instant the command runs, which is its linearization point.

use crate::model::{Answer, Bytes, Op, run};
use crate::net::End;
use crate::protocols::{by_cuts, copies_ahead, serves_in_the_middle};
use crate::world::{Awaits, Outcome, Pair, Role, WORKERS};
use sidle_migration::{ExportPhase, ImportView, OnMissing, TargetInput, Waiter};
use sidle_store::{Entry, Leave};
use sidle_types::HashedKey;
use std::sync::Arc;

impl Pair {
    /// A client's request, by a client whose map may be old or new, on any worker.
    pub(crate) fn ask(&mut self, op: Op) -> Outcome {
        let first = if self.rng.permille(500) { End::Source } else { End::Target };
        self.ask_at(first, op)
    }

    /// A client's request to this end first, which follows one redirection.
    pub(crate) fn ask_at(&mut self, first: End, op: Op) -> Outcome {
        if op.key().is_some_and(|key| !self.spec.range.contains(HashedKey::new(key).position())) {
            return self.execute(End::Source, &op, Leave::Nothing);
        }
        for end in [first, first.other()] {
            let worker = self.rng.below(WORKERS as u64) as usize;
            let outcome = self.at(end, worker, op.clone());
            if outcome != Outcome::Redirected {
                self.pump();
                return outcome;
            }
        }
        Outcome::Redirected
    }

    pub(crate) fn expect_ok(&mut self, op: Op) -> Answer {
        match self.ask(op.clone()) {
            Outcome::Answered(answer) => answer,
            other => panic!("{op:?}: {other:?}"),
        }
    }

    /// One worker at one end.
    pub(crate) fn at(&mut self, end: End, worker: usize, op: Op) -> Outcome {
        let role = match end {
            End::Source => self.source.roles[worker],
            End::Target => self.target.roles[worker],
        };
        match role {
            Role::Exporting if self.keeps(worker, &op) => {
                let outcome = self.execute(end, &op, Leave::Nothing);
                let view = self.export.as_ref().expect("it is exported");
                let position = HashedKey::new(op.key().expect("a flush goes to the target")).position();
                view.mark_kept(position, self.source.step[worker]);
                view.note_access(position, self.source.step[worker]);
                outcome
            }
            Role::Elsewhere | Role::Exporting => Outcome::Redirected,
            Role::Owned => self.execute(end, &op, Leave::Nothing),
            Role::Tracked => {
                let outcome = self.execute(end, &op, Leave::Nothing);
                // M11: after the write, within the same command.
                let view = self.export.as_ref().expect("it is tracked for a migration");
                match op.key() {
                    Some(_) if matches!(op, Op::Get(_)) => {}
                    Some(key) => view.mark(HashedKey::new(key).position(), self.source.step[worker]),
                    None => view.mark_range(self.spec.range),
                }
                outcome
            }
            Role::Importing => {
                assert_eq!(end, End::Target);
                self.at_importing(worker, op)
            }
        }
    }

    /// Whether the source has not given the command's key, for this worker of its.
    fn keeps(&self, worker: usize, op: &Op) -> bool {
        let position = op.key().map(|key| HashedKey::new(key).position());
        position.zip(self.export.as_ref()).is_some_and(|(at, view)| view.keeps(at, self.source.step[worker]))
    }

    fn at_importing(&mut self, worker: usize, op: Op) -> Outcome {
        let view = Arc::clone(self.import.as_ref().unwrap());
        if !view.activated() {
            self.park(worker, op, Awaits::Activation);
            return Outcome::Parked;
        }
        if op == Op::Flush {
            let waiter = self.park(worker, op, Awaits::Wake);
            self.target_input(TargetInput::Flush(waiter));
            // The mover that imports it flushes at that instant, before any other command runs.
            self.pump();
            return Outcome::Parked;
        }
        let key = HashedKey::new(op.key().expect("only a flush has none"));
        let is_settled = self.is_settled(key);
        if (op.needs_old() || view.is_by_cuts()) && !is_settled {
            let waiter = self.park(worker, op.clone(), Awaits::Wake);
            self.target_input(TargetInput::PriorityPull(key.bytes(), waiter));
            return Outcome::Parked;
        }
        let outcome = self.execute(End::Target, &op, view.left_by_removal());
        if !is_settled && matches!(outcome, Outcome::Answered(_)) {
            self.target_input(TargetInput::WrittenUnseen(key.position()));
        }
        outcome
    }

    /// Active expiry of one key, as a node does it: with a tombstone while importing, never while exporting.
    pub(crate) fn expire(&mut self, end: End, key: &[u8]) {
        if !self.spec.range.contains(HashedKey::new(key).position()) {
            return;
        }
        let node = match end {
            End::Source => &mut self.source,
            End::Target => &mut self.target,
        };
        let leave = match node.roles[0] {
            Role::Owned | Role::Tracked => Leave::Nothing,
            Role::Importing => {
                let view = self.import.as_ref().expect("it imports");
                if view.is_by_cuts() && !view.has_arrived(HashedKey::new(key).position()) {
                    return;
                }
                view.left_by_removal()
            }
            Role::Exporting => {
                let position = HashedKey::new(key).position();
                match self.export.as_ref().is_some_and(|view| view.keeps(position, node.step[0])) {
                    true => Leave::Nothing,
                    false => return,
                }
            }
            Role::Elsewhere => return,
        };
        let key = HashedKey::new(key);
        let slot = node.store.lock_slot(key.slot());
        if slot.get(key).value().is_some_and(|record| record.is_expired(self.wall)) {
            slot.remove(&mut node.head, key, leave).unwrap();
        }
        drop(slot);
        match (node.roles[0], &self.export) {
            (Role::Tracked, Some(view)) => view.mark(key.position(), node.step[0]),
            (Role::Exporting, Some(view)) => view.mark_kept(key.position(), node.step[0]),
            _ => {}
        }
    }

    /// M7: progress first, the store second.
    pub(crate) fn is_settled(&self, key: HashedKey<'_>) -> bool {
        let view = self.import.as_ref().unwrap();
        view.has_arrived(key.position())
            || !view.is_by_cuts() && !matches!(self.target.store.pin().get(key), Entry::Absent)
    }

    fn park(&mut self, worker: usize, op: Op, awaits: Awaits) -> Waiter {
        self.next_ticket += 1;
        self.parked.insert(self.next_ticket, (worker, op, awaits));
        Waiter { worker: worker as u16, ticket: self.next_ticket }
    }

    pub(crate) fn execute(&mut self, end: End, op: &Op, leave: Leave) -> Outcome {
        let node = match end {
            End::Source => &mut self.source,
            End::Target => &mut self.target,
        };
        match run(&node.store, &mut node.head, op, leave, self.spec.range, self.wall) {
            Ok(answer) => {
                let expected = self.model.apply(op, self.spec.range, self.wall);
                assert_eq!(answer, expected, "{op:?} at the {end:?}, {} us", self.now.0);
                Outcome::Answered(answer)
            }
            Err(_) => Outcome::OutOfMemory,
        }
    }

    /// A client with a new map, which retries while neither end knows yet that it owns the range.
    pub(crate) fn client(&mut self, op: Op) -> Outcome {
        loop {
            match self.ask_at(End::Target, op.clone()) {
                Outcome::Redirected => assert!(self.step(), "nobody ever owns the range: {op:?}"),
                outcome => return outcome,
            }
        }
    }

    /// The same in the middle of the migration, where the protocol's choices decide who is answered at once
    /// and who waits.
    pub(crate) fn client_in_the_middle(&mut self, op: Op) -> Outcome {
        let protocol = &self.spec.protocol;
        let asks = op.needs_old() || by_cuts(protocol);
        let lacks = |key: &[u8]| asks && !self.is_settled(HashedKey::new(key));
        let lacks = op.key().is_some_and(lacks) && !copies_ahead(protocol);
        let waits = lacks || !serves_in_the_middle(protocol);
        let outcome = self.client(op.clone());
        match &outcome {
            Outcome::Answered(_) => assert!(!waits, "{op:?} is answered, and should wait"),
            Outcome::Parked => assert!(waits, "{op:?} waits, and should be answered"),
            other => panic!("{op:?}: {other:?}"),
        }
        outcome
    }

    /// The outcomes of these, requested in the middle of the migration, all at once.
    pub(crate) fn clients_in_the_middle(&mut self, ops: &[Op]) -> Vec<Outcome> {
        let at_once: Vec<Outcome> = ops.iter().map(|op| self.client_in_the_middle(op.clone())).collect();
        self.run_until("all are answered", |pair| pair.parked() == 0);
        let at_last = |(op, outcome): (&Op, Outcome)| match outcome {
            Outcome::Parked => {
                let woken = self.woken.iter().find(|(woken, _)| woken == op);
                woken.expect("whoever waited is answered").1.clone()
            }
            outcome => outcome,
        };
        ops.iter().zip(at_once).map(at_last).collect()
    }

    /// The target's half of an opted-in client's read. An answer, or to wait for one, is final; `None` sends
    /// the client elsewhere or asks for a retry, as [`ImportView::missing`] defines.
    pub(crate) fn read_at_target(&mut self, wanted: &[u8]) -> Option<Outcome> {
        let worker = self.rng.below(WORKERS as u64) as usize;
        let key = HashedKey::new(wanted);
        let misses = |view: &&Arc<ImportView>| view.activated() && !self.is_settled(key);
        let view =
            self.import.as_ref().filter(|_| self.target.roles[worker] == Role::Importing).filter(misses);
        match view.map(|view| (view.missing(), view.sample_one_in())) {
            Some((OnMissing::SaysNotHereYet, sample_one_in)) => {
                if sample_one_in.is_some() && self.rng.permille(self.sampled_percent * 10) {
                    self.target_input(TargetInput::SampledMiss(key.position()));
                    self.pump();
                }
                None
            }
            Some((OnMissing::SaysRetry { .. }, _)) if !self.target.store.is_short() => {
                self.target_input(TargetInput::Wanted(wanted));
                self.pump();
                None
            }
            _ => {
                let outcome = self.at(End::Target, worker, Op::Get(wanted.to_vec()));
                self.pump();
                Some(outcome)
            }
        }
    }

    /// The source's half: the frozen value, or why there is none (M4, M8).
    pub(crate) fn read_frozen(&self, wanted: &[u8]) -> FrozenRead {
        let Some(view) = &self.export else { return FrozenRead::Refused(ExportPhase::Pending) };
        if !view.answers_reads() {
            return FrozenRead::NotAnswered;
        }
        if view.phase() != ExportPhase::Frozen || view.id() != self.spec.id {
            return FrozenRead::Refused(view.phase());
        }
        let guard = self.source.store.pin();
        let found = guard.get(HashedKey::new(wanted)).value();
        let value =
            found.filter(|record| !record.is_expired(self.wall)).map(|record| record.value().to_vec());
        match view.phase() {
            ExportPhase::Frozen => FrozenRead::Value(value),
            phase => FrozenRead::Refused(phase),
        }
    }
}

/// The source's answer to a read of its frozen copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FrozenRead {
    Value(Option<Bytes>),
    /// It is not frozen for this migration, or no longer.
    Refused(ExportPhase),
    /// It answers no reads at all by this protocol.
    NotAnswered,
}
