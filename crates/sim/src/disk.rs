//! The coordinator's disk: it outlives its process, takes its time, is full, and fails.

use crate::random::Random;
use crate::sectors::{FileId, Sectors};
use sidle_cluster::Metadata;
use sidle_meta_redb::{Medium, StorageBackend, Whereabouts};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a disk does with what it is asked to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskMood {
    /// Writes.
    Good,
    /// Writes, and takes long.
    Slow {
        /// How long the writer stands still for each sync.
        sync_us: u64,
    },
    /// Has room for so many writes, and then is full.
    Full {
        /// How many.
        writes: u64,
    },
    /// Syncs, and reports an error all the same.
    FailsAfterWriting,
    /// Syncs so often, and then fails to, and forgets what it could not write.
    ForgetsWrites {
        /// How often.
        syncs: u64,
    },
}

#[derive(Debug)]
struct State {
    sectors: Sectors,
    /// How long a sync takes while the disk is good.
    usual_us: u64,
    mood: DiskMood,
    stalled_us: u64,
    /// Processes that are dead write no more.
    boot: u64,
    /// Draws what a failed sync wrote.
    random: Random,
    /// Every metadata that the disk may hold; `None` is a new store.
    possible: Vec<Option<Metadata>>,
    /// The one that it holds, once what is under way has happened.
    certain: Option<Option<Metadata>>,
    /// Whether the metadata has changed since anybody asked.
    is_news: bool,
}

/// A machine's disk. Copies are handles of one disk.
#[derive(Clone, Debug)]
pub struct Disk(Arc<Mutex<State>>);

impl Disk {
    /// An empty disk. `usual_us`: how long a sync takes.
    pub fn new(usual_us: u64, random: Random) -> Disk {
        Disk(Arc::new(Mutex::new(State {
            sectors: Sectors::default(),
            usual_us,
            mood: DiskMood::Good,
            stalled_us: 0,
            boot: 0,
            random,
            possible: vec![None],
            certain: None,
            is_news: false,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// From now on the disk behaves like this.
    pub fn set_mood(&self, mood: DiskMood) {
        self.state().mood = mood;
    }

    /// Whether it does what it is asked to.
    pub fn is_sound(&self) -> bool {
        matches!(self.state().mood, DiskMood::Good | DiskMood::Slow { .. })
    }

    /// How long the writer has to wait for what it wrote since it asked last.
    pub fn take_stall_us(&self) -> u64 {
        std::mem::take(&mut self.state().stalled_us)
    }

    /// The writer has waited: what it wrote is written. Returns whether there is new metadata, there to stay.
    pub fn settle(&self) -> bool {
        let state = &mut *self.state();
        state.sectors.settle();
        if let Some(certain) = state.certain.take() {
            state.possible = vec![certain];
        }
        std::mem::take(&mut state.is_news) && state.possible.len() == 1
    }

    /// The process dies wherever it stands in what it was writing, and its machine with it or not.
    pub fn crash(&self, machine_dies: bool, random: &mut Random) {
        let state = &mut *self.state();
        state.boot += 1;
        state.stalled_us = 0;
        state.certain = None;
        state.sectors.stop_somewhere(random);
        if machine_dies {
            state.sectors.lose_power(random);
        }
    }

    /// Every metadata that the disk may hold: one, but for a commit that is under way or has failed.
    pub fn possible(&self) -> Vec<Metadata> {
        self.state().possible.iter().flatten().cloned().collect()
    }

    /// Somebody is about to write this.
    pub(crate) fn may_hold(&self, metadata: &Metadata) {
        let state = &mut *self.state();
        state.certain = None;
        let metadata = Some(metadata.clone());
        if !state.possible.contains(&metadata) {
            state.possible.push(metadata);
        }
    }

    /// Somebody has written or read this, whole.
    pub(crate) fn holds(&self, metadata: Option<&Metadata>) {
        let state = &mut *self.state();
        assert!(
            state.possible.iter().any(|possible| possible.as_ref() == metadata),
            "the disk holds metadata that was never committed, or was committed over: {metadata:?}"
        );
        state.certain = Some(metadata.cloned());
        state.is_news = true;
    }
}

impl State {
    /// Room for one more write, if there is any.
    fn take_room(&mut self) -> io::Result<()> {
        match &mut self.mood {
            DiskMood::Full { writes: 0 } => Err(io::ErrorKind::StorageFull.into()),
            DiskMood::Full { writes } => {
                *writes -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn sync(&mut self, file: FileId) -> io::Result<()> {
        self.stalled_us += match self.mood {
            DiskMood::Slow { sync_us } => sync_us,
            _ => self.usual_us,
        };
        match &mut self.mood {
            DiskMood::ForgetsWrites { syncs: 0 } => {
                self.sectors.fail_sync(file, &mut self.random);
                Err(io::Error::other("the simulated disk failed"))
            }
            DiskMood::FailsAfterWriting => {
                self.sectors.sync(file);
                Err(io::Error::other("the simulated disk failed after it wrote"))
            }
            mood => {
                if let DiskMood::ForgetsWrites { syncs } = mood {
                    *syncs -= 1;
                }
                self.sectors.sync(file);
                Ok(())
            }
        }
    }
}

/// Where the present process keeps a store on a disk.
#[derive(Debug)]
pub struct Place {
    disk: Disk,
    boot: u64,
    laid: Mutex<Option<FileId>>,
}

impl Place {
    /// The place on this disk.
    pub fn on(disk: &Disk) -> Place {
        Place { disk: disk.clone(), boot: disk.state().boot, laid: Mutex::new(None) }
    }

    fn laid(&self) -> MutexGuard<'_, Option<FileId>> {
        self.laid.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Medium for Place {
    type Backend = OpenFile;

    fn name(&self) -> String {
        "the simulated file".to_owned()
    }

    fn content(&self) -> io::Result<Option<Vec<u8>>> {
        let state = self.disk.state();
        Ok(state.sectors.named().map(|file| state.sectors.bytes(file).to_vec()))
    }

    fn lay(&self, content: &[u8]) -> io::Result<OpenFile> {
        let mut state = self.disk.state();
        state.take_room()?;
        let file = state.sectors.create();
        *self.laid() = Some(file);
        if !content.is_empty() {
            state.take_room()?;
            state.sectors.write(file, 0, content);
        }
        Ok(OpenFile { disk: self.disk.clone(), boot: self.boot, file })
    }

    fn publish(&self) -> io::Result<()> {
        let file = self.laid().take().ok_or(io::ErrorKind::NotFound)?;
        let mut guard = self.disk.state();
        let state = &mut *guard;
        let fails_late = state.mood == DiskMood::FailsAfterWriting && state.random.one_in(2);
        match fails_late {
            true => state.sectors.sync(file),
            false => state.sync(file)?,
        }
        state.take_room()?;
        state.sectors.name(file);
        if fails_late {
            return Err(io::Error::other("the simulated disk failed after it gave the name"));
        }
        state.sectors.sync_names();
        Ok(())
    }

    fn discard(&self) -> io::Result<()> {
        *self.laid() = None;
        Ok(())
    }

    /// Nobody removes files of a simulated disk.
    fn whereabouts(&self) -> io::Result<Whereabouts> {
        Ok(Whereabouts::InPlace)
    }

    fn restore(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that a process has opened.
#[derive(Debug)]
pub struct OpenFile {
    disk: Disk,
    boot: u64,
    file: FileId,
}

impl OpenFile {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.state();
        // What a process is dropped with runs in the simulator, and never ran in the process.
        if state.boot == self.boot { Ok(state) } else { Err(io::Error::other("the process is dead")) }
    }
}

impl StorageBackend for OpenFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state()?.sectors.bytes(self.file).len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state()?;
        let from = offset as usize;
        let bytes = state.sectors.bytes(self.file).get(from..from + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.state()?;
        if bytes as usize > state.sectors.bytes(self.file).len() {
            state.take_room()?;
        }
        state.sectors.set_len(self.file, bytes as usize);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.state()?.sync(self.file)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state()?;
        state.take_room()?;
        state.sectors.write(self.file, offset as usize, data);
        Ok(())
    }
}
