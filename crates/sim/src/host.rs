//! A machine: its process, and what survives it.

use crate::disk::Disk;
use crate::durable::{BegunLog, CopyDisks, LogDisk};
use crate::network::{Place, Side};
use crate::process::{Begins, HostSetup, Process, node_id};
use crate::world::{Fact, HostId, World};
use sidle_cluster::{Incarnation, StartNumber};
use sidle_store::Store;
use sidle_testbed::Random;
use sidle_types::Speaks;
use std::sync::Arc;

/// How long the other end of a connection takes to learn that a process has died, if its machine could still
/// close the connection; and if not, at least and at most.
const TOLD_US: (u64, u64) = (10, 2_000);
const UNTOLD_US: (u64, u64) = (500_000, 10_000_000);

/// How long a disk usually takes to sync its writes, at least and at most.
const SYNC_US: (u64, u64) = (5, 20_000);

/// A machine.
pub struct Host {
    id: HostId,
    setup: HostSetup,
    /// Its node's process, while there is one.
    pub process: Option<Process>,
    /// The incarnation of its node, which its data directory counts.
    pub incarnations: u64,
    /// How often its process was started.
    pub starts: u64,
    /// Whether its data directory was restored from a copy that is a start older.
    pub is_older_copy: bool,
    /// The disk, on the machine that the coordinator runs on.
    pub disk: Option<Disk>,
    /// That of its durable log, if it has one.
    pub log: Option<LogDisk>,
    /// Whether the next process begins with an empty log: clients know what was in it as lost.
    clears_log: bool,
    /// Since which incarnation the log has everything.
    log_since: u64,
    /// Until then its threads have no turns.
    pub paused_until_us: u64,
}

impl Host {
    /// A machine whose process has just been started.
    pub fn start(id: HostId, setup: HostSetup, world: &mut World) -> Host {
        let disk = (id == HostId(0)).then(|| {
            let sync_us = world.random.magnitude(SYNC_US.0, SYNC_US.1);
            Disk::new(sync_us, world.random.fork())
        });
        let log =
            setup.durable.as_ref().map(|durable| LogDisk::new(durable, node_id(id), world.random.fork()));
        // Not drawn from the world: others draw as without copies.
        let (sync_us, copies_random) = match &setup.durable {
            Some(durable) => (durable.sync_us, Random::new(durable.sync_us ^ 0xc0_91e5 ^ id.0 as u64)),
            None => (0, Random::new(0)),
        };
        world.copies.push(CopyDisks::new(sync_us, copies_random));
        let mut host = Host {
            id,
            log,
            clears_log: false,
            log_since: 1,
            setup,
            process: None,
            incarnations: 0,
            starts: 0,
            is_older_copy: false,
            disk,
            paused_until_us: 0,
        };
        assert!(host.begin_life(world), "nothing is wrong yet");
        host
    }

    /// Whether its process is of an earlier program.
    pub fn is_old(&self) -> bool {
        self.process.is_some() && self.setup.speaks != Speaks::THIS_BUILD
    }

    /// Whether its node keeps copies of others' logs.
    pub fn keeps_copies(&self) -> bool {
        self.setup.durable.as_ref().is_some_and(|durable| durable.copies.is_some())
    }

    /// Whether its process is a member of the cluster.
    pub fn is_joined(&self) -> bool {
        let workers = self.process.iter().flat_map(|process| &process.workers);
        workers.map(|worker| worker.worker.ranges()).any(|ranges| ranges.is_joined())
    }

    /// Whether its process waits for a write to the disk.
    pub fn is_writing(&self, world: &World) -> bool {
        self.process.as_ref().is_some_and(|process| process.control.is_writing(world))
    }

    /// Starts the machine's process with empty memory. Returns whether it runs: without its disk it does not.
    pub fn begin_life(&mut self, world: &mut World) -> bool {
        assert!(self.process.is_none(), "a machine runs one process");
        if self.log.as_ref().is_some_and(|log| !log.disk().is_sound()) {
            world.tell(|| format!("node {} does not start: its log's disk fails", self.id.0));
            return false;
        }
        if self.starts > 0 {
            self.setup.speaks = Speaks::THIS_BUILD;
        }
        self.starts += 1;
        self.incarnations += u64::from(!self.is_older_copy);
        let lives = (self.incarnations, StartNumber(self.starts));
        let speaks = self.setup.speaks;
        world.tell(|| format!("node {} starts, incarnation {}, of {speaks}", self.id.0, lives.0));
        let store = Arc::new(Store::new(self.setup.store_config()).expect("a good configuration"));
        let log = self.begin_log(&store, world);
        let log_since = log.as_ref().map(|_| Incarnation(self.log_since));
        let begins = Begins { disk: self.disk.clone(), store, log, log_since };
        match Process::start(self.id, self.setup.clone(), lives, begins, world) {
            Ok(process) => self.process = Some(process),
            Err(error) => {
                world.tell(|| format!("node {} does not start: {error}", self.id.0));
                if let Some(disk) = &self.disk {
                    disk.take_stall_us();
                    disk.settle();
                }
            }
        }
        self.process.is_some()
    }

    /// Reads its durable log, if it has one, into the store of a new process; or has it ask the copies first.
    fn begin_log(&mut self, store: &Arc<Store>, world: &mut World) -> Option<BegunLog> {
        let (setup, log) = (self.setup.durable.clone()?, self.log.clone()?);
        if setup.copies.is_some() && log.needs_copies() {
            return Some(BegunLog::Reclaims(log));
        }
        let mut read = match log.open(&setup, store) {
            Ok(read) => read,
            Err(why) => {
                world.checks.note_log(Err(why));
                world.facts.push(Fact::Safe(self.id));
                return None;
            }
        };
        let last = read.resumed.last;
        world.tell(|| format!("the durable log has {} values, up to commit {}", store.len(), last.0));
        read.is_to_be_cleared = std::mem::take(&mut self.clears_log);
        if read.is_to_be_cleared {
            self.log_since = self.incarnations;
        }
        Some(BegunLog::Read(Box::new(read)))
    }

    /// Others have taken over what the node had: an operator moves its log away.
    pub fn begin_anew(&mut self, world: &mut World) {
        let (Some(setup), Some(log)) = (&self.setup.durable, &self.log) else { return };
        world.meet("logs moved away after a takeover", 1);
        world.tell(|| format!("the log of node {} is moved away", self.id.0));
        self.log = Some(log.next(setup, node_id(self.id), Random::new(self.starts ^ 0x7a_4e0e)));
        self.log_since = self.incarnations + 1;
        self.clears_log = false;
    }

    /// The process is about to die, and its machine with it or not. Returns whether its durable log keeps all
    /// that clients were shown; without one it keeps nothing.
    pub fn log_survives(&mut self, machine_dies: bool, world: &mut World) -> bool {
        let (Some(setup), Some(log)) = (&self.setup.durable, &self.log) else { return false };
        let left = log.crash(machine_dies, setup, &self.setup.store_config(), &mut world.random);
        // What its own disk lost, its copies have.
        let keeps = setup.copies.is_some() || left.as_ref().is_ok_and(|left| !left.loses_safe);
        world.meet("deaths with a durable log", 1);
        world.meet("acknowledged commits lost as the mode allows", u64::from(!keeps));
        self.clears_log |= !keeps;
        world.checks.note_log(left.map(|_| ()));
        world.facts.push(Fact::Safe(self.id));
        keeps
    }

    /// The process dies with its memory. `tells`: whether its machine stays up and closes its connections.
    pub fn end_life(&mut self, tells: bool, world: &mut World) {
        if let Some(disk) = &self.disk {
            disk.crash(!tells, &mut world.random);
        }
        world.copies[self.id.0].crash(!tells);
        self.process = None;
        self.is_older_copy = false;
        self.paused_until_us = 0;
        world.forget_turns(self.id);
        world.checks.forget(self.id);
        let here = Place::Host(self.id);
        for id in world.network.streams_at(here) {
            let (low, high) = if tells { TOLD_US } else { UNTOLD_US };
            let heard_us = world.random.magnitude(low, high);
            let own = if world.network.place(id, Side::Opener) == Some(here) {
                Side::Opener
            } else {
                Side::Acceptor
            };
            world.break_off(id, [heard_us, heard_us]);
            world.abandon(id, own);
        }
    }

    /// The machine resumes.
    pub fn wake_up(&mut self, world: &mut World) {
        if std::mem::take(&mut self.paused_until_us) > world.now_us
            && let Some(process) = &self.process
        {
            // Its threads' turns during the pause are due only when it resumes.
            process.threads().into_iter().for_each(|thread| world.wake(self.id, thread));
        }
    }

    /// Pauses the machine for this long.
    pub fn pause(&mut self, us: u64, world: &World) {
        self.paused_until_us = self.paused_until_us.max(world.now_us + us);
    }
}
