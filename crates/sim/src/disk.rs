//! The coordinator's simulated disk, monitored: it holds the last committed metadata, or may hold a commit in
//! progress.

use sidle_cluster::Metadata;
use sidle_meta_file::{Medium, Whereabouts};
pub use sidle_testbed::DiskMood;
use sidle_testbed::{File, Folder, Random};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name of the store's file.
const STORE: &str = "store";

/// The disk's write size: a crash, or a full disk, may come in the middle of a file.
const WRITE_BYTES: usize = 4096;

#[derive(Debug)]
struct Watch {
    /// Every metadata that the disk may hold; `None` is a new store.
    possible: Vec<Option<Metadata>>,
    /// The one that it holds, once the pending write is complete.
    certain: Option<Option<Metadata>>,
    /// Whether the metadata has changed since the last query.
    is_news: bool,
}

/// The coordinator's disk. Copies are handles of one disk.
#[derive(Clone, Debug)]
pub struct Disk {
    disk: sidle_testbed::Disk,
    watch: Arc<Mutex<Watch>>,
}

impl Disk {
    /// An empty disk. `usual_us`: how long a sync takes.
    pub fn new(usual_us: u64, random: Random) -> Disk {
        let watch = Watch { possible: vec![None], certain: None, is_news: false };
        Disk { disk: sidle_testbed::Disk::new(usual_us, random), watch: Arc::new(Mutex::new(watch)) }
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk behaves like this from now on.
    pub fn set_mood(&self, mood: DiskMood) {
        self.disk.set_mood(mood);
    }

    /// Whether it works without faults.
    pub fn is_sound(&self) -> bool {
        self.disk.is_sound()
    }

    /// How long the writer must wait for its writes since the last call.
    pub fn take_stall_us(&self) -> u64 {
        self.disk.take_stall_us()
    }

    /// The writer has waited: its data is written. Returns whether there is new metadata for good.
    pub fn settle(&self) -> bool {
        self.disk.settle();
        let watch = &mut *self.watch();
        if let Some(certain) = watch.certain.take() {
            watch.possible = vec![certain];
        }
        std::mem::take(&mut watch.is_news) && watch.possible.len() == 1
    }

    /// The process dies at any point of its write, and its machine with it or not.
    pub fn crash(&self, machine_dies: bool, random: &mut Random) {
        self.watch().certain = None;
        self.disk.crash(machine_dies, random);
    }

    /// Every metadata that the disk may hold: one, unless a commit is under way or has failed.
    pub fn possible(&self) -> Vec<Metadata> {
        self.watch().possible.iter().flatten().cloned().collect()
    }

    /// A write of this is about to begin.
    pub(crate) fn may_hold(&self, metadata: &Metadata) {
        let watch = &mut *self.watch();
        watch.certain = None;
        let metadata = Some(metadata.clone());
        if !watch.possible.contains(&metadata) {
            watch.possible.push(metadata);
        }
    }

    /// This was written or read completely.
    pub(crate) fn holds(&self, metadata: Option<&Metadata>) {
        let watch = &mut *self.watch();
        assert!(
            watch.possible.iter().any(|possible| possible.as_ref() == metadata),
            "the disk holds metadata that was never committed, or was committed over: {metadata:?}"
        );
        watch.certain = Some(metadata.cloned());
        watch.is_news = true;
    }
}

/// Where the current process keeps a store on a disk.
#[derive(Debug)]
pub struct Place {
    folder: Folder,
    aside: Option<File>,
}

impl Place {
    /// The place on this disk.
    pub fn on(disk: &Disk) -> Place {
        Place { folder: disk.disk.mount(), aside: None }
    }

    fn aside(&self) -> io::Result<&File> {
        self.aside.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Medium for Place {
    fn name(&self) -> String {
        "the simulated file".to_owned()
    }

    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.folder.open(STORE)?.map(|file| file.content()).transpose()
    }

    fn create_aside(&mut self) -> io::Result<()> {
        self.aside = Some(self.folder.create()?);
        Ok(())
    }

    fn write_aside(&mut self, content: &[u8]) -> io::Result<()> {
        let file = self.aside()?;
        let mut pieces = content.chunks(WRITE_BYTES).enumerate();
        pieces.try_for_each(|(number, piece)| file.write(number * WRITE_BYTES, piece))
    }

    fn sync_aside(&mut self) -> io::Result<()> {
        self.aside()?.sync()
    }

    fn rename_aside(&mut self) -> io::Result<()> {
        self.folder.rename(&[(STORE, Some(self.aside()?))])?;
        self.aside = None;
        Ok(())
    }

    fn sync_name(&mut self) -> io::Result<()> {
        self.folder.sync()
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
