//! The thread that takes over what dead nodes had, from this machine's copies of their logs, or from others'.

use super::backups::BackupsThread;
use super::fetching::{FetchedDisk, Fetching};
use super::{Mailbox, node_id};
use crate::durable::{CopyDisks, read_copy};
use crate::network::StreamId;
use crate::world::{Actor, HostId, Thread, World};
use sidle_cluster::Takeover;
use sidle_node::{CopyToRead, NodeParts, Now};
use sidle_store::{LogHead, MoveIn, Moved, Store, StoreConfig};
use sidle_testbed::Disk;
use sidle_types::{CommitNumber, LogId, MonotonicUs, NodeId, PositionRange};
use sidle_wire::Tail;
use std::collections::{BTreeMap, VecDeque};

/// How often it looks whether others have done their part.
const LOOK_EVERY_US: u64 = 200;

/// How far the first task is.
enum Stage {
    /// It is to begin.
    Due,
    /// The copy is to be fenced.
    Fences,
    /// The copy is another machine's.
    Fetches(Box<Fetching>),
    /// What was read goes into the store.
    Moves(Box<Store>, Vec<MoveIn>),
    /// The log is to have what was put in.
    Saves(CommitNumber),
}

/// The thread.
pub(super) struct TakeoversThread {
    copies: CopyDisks,
    config: StoreConfig,
    head: LogHead,
    tasks: VecDeque<CopyToRead>,
    stage: Stage,
    /// Until when the first task's copy has promised its writer that nobody takes the log over.
    promised_until: MonotonicUs,
    /// How copies of logs end that have everything, as they were fetched.
    known: BTreeMap<LogId, BTreeMap<NodeId, Tail>>,
}

impl TakeoversThread {
    pub(super) fn new(copies: CopyDisks, config: StoreConfig, store: &Store) -> TakeoversThread {
        // The memory of a store that is read once, beside the node's own.
        let config = StoreConfig { is_durable: false, ..config };
        let (head, tasks, stage) = (store.log_head(), VecDeque::new(), Stage::Due);
        let (promised_until, known) = (MonotonicUs(0), BTreeMap::new());
        TakeoversThread { copies, config, head, tasks, stage, promised_until, known }
    }

    /// Its connections.
    pub(super) fn streams(&self) -> Vec<StreamId> {
        match &self.stage {
            Stage::Fetches(fetching) => fetching.streams().collect(),
            _ => Vec::new(),
        }
    }

    /// It is given a task.
    pub(super) fn begin(&mut self, task: CopyToRead) {
        self.tasks.push_back(task);
    }

    /// It has a turn. What it has taken over by now, or cannot, and why; once.
    pub(super) fn turn(
        &mut self,
        host: HostId,
        mail: Mailbox,
        (parts, backups): (&NodeParts, Option<&mut BackupsThread>),
        (now, world): (Now, &mut World),
    ) -> Option<(Takeover, Result<(), String>)> {
        let me = Actor::Thread(host, Thread::Takeovers);
        let mail = self.own_mail(mail, world);
        let task = self.tasks.front()?.clone();
        let takeover = &task.takeover;
        let stage = std::mem::replace(&mut self.stage, Stage::Due);
        match stage {
            Stage::Due if !takeover.dead.backups.iter().any(|backup| backup.node == node_id(host)) => {
                let known = self.known.get(&takeover.dead.log).cloned().unwrap_or_default();
                let fetching = Fetching::begin(node_id(host), &takeover.dead, known, world.now_us);
                self.stage = Stage::Fetches(Box::new(fetching));
            }
            Stage::Fetches(mut fetching) => {
                let fetched = fetching.turn(host, mail, (now.mono, world));
                self.known.insert(takeover.dead.log, fetching.known().clone());
                let read = fetched.map(|fetched| self.read_fetched(&task, parts, fetched?));
                match read {
                    None => self.stage = Stage::Fetches(fetching),
                    Some(Ok(stage)) => self.stage = stage,
                    Some(Err(why)) => return self.fails((host, parts), why, world),
                }
            }
            Stage::Due => {
                backups?.fence(takeover.dead.log, takeover.dead.log_epoch);
                world.wake(host, Thread::Backups);
                self.stage = Stage::Fences;
            }
            Stage::Fences => match self.read(&task, parts, backups?) {
                Ok(stage) => self.stage = stage,
                Err(why) => return self.fails((host, parts), why, world),
            },
            Stage::Moves(scratch, mut left) => {
                let moved = left.last_mut().map(|moving| moving.step(&scratch, &parts.store, &mut self.head));
                match moved {
                    Some(Ok(moved)) => {
                        if moved == Moved::All {
                            left.pop();
                        }
                        self.stage = Stage::Moves(scratch, left);
                    }
                    None => {
                        let commits = parts.store.commits().expect("nodes with copies have logs");
                        self.stage = Stage::Saves(commits.open());
                    }
                    Some(Err(why)) => return self.fails((host, parts), why.to_string(), world),
                }
            }
            Stage::Saves(commit) => {
                let commits = parts.store.commits().expect("nodes with copies have logs");
                if commits.safe() >= commit && now.mono >= self.promised_until {
                    self.tasks.pop_front();
                    note_done(host, &task, world);
                    return Some((task.takeover, Ok(())));
                }
                world.wake(host, Thread::LogWriter);
                self.stage = Stage::Saves(commit);
            }
        }
        world.turn_at(me, world.now_us + LOOK_EVERY_US);
        None
    }

    /// What has come over the connections that it has; others are closed.
    fn own_mail(&self, mail: Mailbox, world: &mut World) -> Mailbox {
        let own = self.streams();
        let (own, others): (Mailbox, Mailbox) = mail.into_iter().partition(|(id, ..)| own.contains(id));
        others.into_iter().for_each(|(id, side, _)| world.close(id, side));
        own
    }

    /// Reads a copy that was fetched.
    fn read_fetched(
        &mut self,
        task: &CopyToRead,
        parts: &NodeParts,
        (disk, promised_until): FetchedDisk,
    ) -> Result<Stage, String> {
        self.promised_until = promised_until;
        self.read_into(task, parts, &disk)
    }

    /// The first task fails, and is over: it is begun again later, here or elsewhere. What an earlier attempt
    /// has put in goes.
    fn fails(
        &mut self,
        (host, parts): (HostId, &NodeParts),
        why: String,
        world: &mut World,
    ) -> Option<(Takeover, Result<(), String>)> {
        world.tell(|| format!("node {} cannot take over: {why}", host.0));
        world.meet("takeovers that failed for now", 1);
        world.turn_at(Actor::Thread(host, Thread::Takeovers), world.now_us + 1);
        let task = self.tasks.pop_front()?;
        if !task.keeps {
            clear(parts, &task.ranges);
        }
        Some((task.takeover, Err(why)))
    }

    /// Reads this machine's copy.
    fn read(
        &mut self,
        task: &CopyToRead,
        parts: &NodeParts,
        backups: &mut BackupsThread,
    ) -> Result<Stage, String> {
        let takeover = &task.takeover;
        let fenced = backups.is_fenced(takeover.dead.log, takeover.dead.log_epoch);
        self.promised_until = fenced.ok_or("the copy is not fenced")?;
        if !backups.has_its_end(takeover.dead.log) {
            return Err("the copy does not end as it was written".to_owned());
        }
        let disk = self.copies.of(takeover.dead.log).ok_or("there is no copy")?;
        self.read_into(task, parts, &disk)
    }

    /// Reads a copy, and clears what an earlier attempt has put in, unless what is there is kept.
    fn read_into(&self, task: &CopyToRead, parts: &NodeParts, disk: &Disk) -> Result<Stage, String> {
        let CopyToRead { takeover, ranges, keeps, .. } = task;
        let scratch = Store::new(self.config.clone()).expect("a good configuration");
        read_copy(disk, takeover.dead.log, takeover.range, &scratch)?;
        if !keeps {
            clear(parts, ranges);
        }
        let noted = task.imports().map(|[of, id]| (scratch.noted_import(of), id));
        let needs_tombstones = noted.as_ref().is_some_and(|(noted, _)| noted.needs_tombstones());
        let ranges = match &noted {
            Some((noted, id)) => {
                parts.store.note_succession(*id, takeover.range, noted);
                noted.answered_in(ranges)
            }
            None => ranges.clone(),
        };
        let left = ranges.into_iter().map(|range| MoveIn::new(range).and_tombstones(needs_tombstones));
        Ok(Stage::Moves(Box::new(scratch), left.collect()))
    }
}

/// A task is done.
fn note_done(host: HostId, task: &CopyToRead, world: &mut World) {
    world.meet("ranges taken over", 1);
    world.tell(|| format!("node {} has taken {} over", host.0, task.takeover.range));
    world.meet("rests of imports read from a copy", u64::from(task.keeps));
    world.meet("dead targets whose place another node took", u64::from(task.import.is_some()));
    world.turn_at(Actor::Thread(host, Thread::Takeovers), world.now_us + 1);
}

/// Removes what the store has in these ranges.
fn clear(parts: &NodeParts, ranges: &[PositionRange]) {
    for range in ranges {
        let mut next = Some(range.first());
        while let Some(from) = next {
            next = parts.store.discard(from, range.last(), usize::MAX);
        }
    }
}
