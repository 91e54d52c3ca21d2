//! The coordinator's disk: it outlives its process, takes its time, is full, and fails.

use crate::random::Random;
use crate::sectors::{FileId, Sectors, Synced};
use sidle_cluster::Metadata;
use sidle_meta_file::{Medium, Whereabouts};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// What the disk takes at once: a crash, or the end of its room, may come in the middle of a file.
const WRITE_BYTES: usize = 4096;

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

    /// Makes a file's content, or the name, stay, as far as the disk is able to.
    fn sync(&mut self, what: Synced) -> io::Result<()> {
        self.stalled_us += match self.mood {
            DiskMood::Slow { sync_us } => sync_us,
            _ => self.usual_us,
        };
        match &mut self.mood {
            DiskMood::ForgetsWrites { syncs: 0 } => {
                self.sectors.fail_sync(what, &mut self.random);
                Err(io::Error::other("the simulated disk failed"))
            }
            // Half of the commits get as far as the name.
            DiskMood::FailsAfterWriting if what == Synced::Names || self.random.one_in(2) => {
                self.sectors.sync(what);
                Err(io::Error::other("the simulated disk failed after it wrote"))
            }
            mood => {
                if let DiskMood::ForgetsWrites { syncs } = mood {
                    *syncs -= 1;
                }
                self.sectors.sync(what);
                Ok(())
            }
        }
    }
}

/// Where the present process keeps a store on a disk.
#[derive(Debug)]
pub struct Place {
    disk: Disk,
    aside: Option<FileId>,
}

impl Place {
    /// The place on this disk.
    pub fn on(disk: &Disk) -> Place {
        Place { disk: disk.clone(), aside: None }
    }

    fn aside(&self) -> io::Result<FileId> {
        self.aside.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Medium for Place {
    fn name(&self) -> String {
        "the simulated file".to_owned()
    }

    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let state = self.disk.state();
        Ok(state.sectors.named().map(|file| state.sectors.bytes(file).to_vec()))
    }

    fn create_aside(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.take_room()?;
        self.aside = Some(state.sectors.create());
        Ok(())
    }

    fn write_aside(&mut self, content: &[u8]) -> io::Result<()> {
        let file = self.aside()?;
        let mut state = self.disk.state();
        for (number, piece) in content.chunks(WRITE_BYTES).enumerate() {
            state.take_room()?;
            state.sectors.write(file, number * WRITE_BYTES, piece);
        }
        Ok(())
    }

    fn sync_aside(&mut self) -> io::Result<()> {
        let file = self.aside()?;
        self.disk.state().sync(Synced::File(file))
    }

    fn rename_aside(&mut self) -> io::Result<()> {
        let file = self.aside()?;
        let mut state = self.disk.state();
        state.take_room()?;
        state.sectors.name(file);
        self.aside = None;
        Ok(())
    }

    fn sync_name(&mut self) -> io::Result<()> {
        self.disk.state().sync(Synced::Names)
    }

    fn discard_aside(&mut self) -> io::Result<()> {
        self.aside = None;
        Ok(())
    }

    /// Nobody removes files of a simulated disk.
    fn whereabouts(&self) -> io::Result<Whereabouts> {
        Ok(Whereabouts::InPlace)
    }

    fn restore(&mut self) -> io::Result<()> {
        Ok(())
    }
}
