//! A machine's durable log: its files on a simulated disk, what they are to have, and the way back from them.
//!
//! The formats, the order of writes, the commits and the recovery are the product's; the files here stand for
//! those of the operating system.

mod copies;
mod folder;
mod judge;
mod plan;
mod recovery;

pub use copies::CopyDisks;
pub(crate) use copies::{CopyFolders, find_copy};
pub(crate) use folder::LogFolder;
pub(crate) use judge::Left;
pub(crate) use plan::DurableDraw;
pub(crate) use recovery::{Resumed, end_of, read_copy, recover};

use judge::DurableJudge;
use recovery::log_of;
use sidle_log_files::Settings;
use sidle_store::{Store, StoreConfig};
use sidle_testbed::{Disk, DiskMood, Random};
use sidle_types::{CommitNumber, LogId, NodeId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a node's durable log is kept.
#[derive(Clone, Debug)]
pub struct DurableSetup {
    /// When it is synced, and when a file is full.
    pub settings: Settings,
    /// How long a write takes, at most.
    pub write_us: u64,
    /// How long a sync usually takes.
    pub sync_us: u64,
    /// After how many of a thousand commits the log is read back beside the running node.
    pub looks_permille: u64,
    /// How many of a thousand starts are disturbed by another death.
    pub dies_at_start_permille: u64,
    /// Whether there are other nodes.
    pub is_in_cluster: bool,
    /// How the log's copies at other nodes are kept, if it has any.
    pub copies: Option<sidle_log_copies::Settings>,
}

/// A log that was read, for the thread that goes on with it.
pub struct ReadLog {
    pub(crate) setup: DurableSetup,
    pub(crate) log: LogDisk,
    pub(crate) resumed: Resumed,
    /// Clients know what it has as lost: everything is removed before anybody is served.
    pub(crate) is_to_be_cleared: bool,
}

/// How a process begins with its durable log.
pub enum BegunLog {
    /// It is read.
    Read(Box<ReadLog>),
    /// Its copies are asked first.
    Reclaims(LogDisk),
}

/// The disk of a machine's durable log, with its judge. Copies are handles of one disk.
#[derive(Clone, Debug)]
pub struct LogDisk {
    /// The log's name, from its beginning on.
    name: LogId,
    /// How many logs the node has had before.
    number: u8,
    disk: Disk,
    judge: Arc<Mutex<DurableJudge>>,
}

impl LogDisk {
    /// Reads the log into the store of a new process.
    pub(crate) fn open(&self, setup: &DurableSetup, store: &Arc<Store>) -> Result<ReadLog, String> {
        let resumed = recover(&self.disk, self.name, store)?;
        // Nobody is served before that is over.
        self.disk.settle();
        self.disk.take_stall_us();
        let mut judge = self.judge();
        if setup.copies.is_some() {
            judge.check_left(resumed.last, store, false)?;
        }
        judge.resumed(resumed.last, store);
        drop(judge);
        let commits = store.commits().expect("a durable store has commits");
        commits.resume(resumed.last, setup.copies.is_none());
        Ok(ReadLog { setup: setup.clone(), log: self.clone(), resumed, is_to_be_cleared: false })
    }

    /// Whether a start is to ask the log's copies first.
    pub(crate) fn needs_copies(&self) -> bool {
        LogFolder::on(&self.disk).known_copies().needs_copies()
    }

    /// An empty disk of this node.
    pub fn new(setup: &DurableSetup, node: NodeId, random: Random) -> LogDisk {
        let judge = DurableJudge::new(setup.is_in_cluster);
        LogDisk {
            name: log_of(node, 0),
            number: 0,
            disk: Disk::new(setup.sync_us, random),
            judge: Arc::new(Mutex::new(judge)),
        }
    }

    /// An empty disk for the node's next log: the operator has moved this one away.
    pub(crate) fn next(&self, setup: &DurableSetup, node: NodeId, random: Random) -> LogDisk {
        let number = self.number + 1;
        LogDisk { name: log_of(node, number), number, ..LogDisk::new(setup, node, random) }
    }

    /// The log's name.
    pub(crate) fn name(&self) -> LogId {
        self.name
    }

    /// The disk itself.
    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// What the log is to have.
    pub(crate) fn judge(&self) -> MutexGuard<'_, DurableJudge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk syncs like this from now on.
    pub fn set_mood(&self, mood: DiskMood) {
        self.disk.set_mood(mood);
    }

    /// The process dies at any point of its writes, and its machine with it or not; and perhaps the next one
    /// while it reads what is left. That is read, and judged.
    pub(crate) fn crash(
        &self,
        mut machine_dies: bool,
        setup: &DurableSetup,
        config: &StoreConfig,
        random: &mut Random,
    ) -> Result<Left, String> {
        self.disk.crash(machine_dies, random);
        // What was lost then is lost until the log goes on.
        machine_dies |= self.judge().machine_has_died(machine_dies);
        // On a disk that fails a process does not come so far.
        while self.disk.is_sound() && random.permille(setup.dies_at_start_permille) {
            let store = Store::new(config.clone()).expect("a good configuration");
            recover(&self.disk, self.name, &store)?;
            let dies_again = random.one_in(2);
            self.disk.crash(dies_again, random);
            machine_dies |= dies_again;
        }
        let (last, store) = self.read_beside(config)?;
        self.judge().check_left(last, &store, machine_dies)
    }

    /// The log is read beside its writer, who waits: everything written is there.
    pub(crate) fn look(&self, config: &StoreConfig) -> Result<(), String> {
        let (last, store) = self.read_beside(config)?;
        self.judge().check_all(last, &store)
    }

    /// What a start would read now.
    fn read_beside(&self, config: &StoreConfig) -> Result<(CommitNumber, Store), String> {
        let store = Store::new(config.clone()).expect("a good configuration");
        let resumed = recover(&self.disk.image(), self.name, &store)?;
        Ok((resumed.last, store))
    }
}
