//! A machine's disk: it survives processes, can be slow or full, and fails.

use crate::random::Random;
use crate::sectors::{FileId, Sectors, SyncId, Synced};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// How a disk treats writes and syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskMood {
    /// Writes.
    Good,
    /// Writes, but slowly.
    Slow {
        /// How long each sync blocks the writer.
        sync_us: u64,
    },
    /// Has room for this many writes, then is full.
    Full {
        /// How many.
        writes: u64,
    },
    /// Syncs, but reports an error: every time for names, every other time for a file.
    FailsAfterWriting,
    /// Succeeds this many syncs, then fails and loses what it could not write.
    ForgetsWrites {
        /// How many.
        syncs: u64,
    },
}

#[derive(Debug)]
struct State {
    sectors: Sectors,
    /// How long a sync takes on a good disk.
    usual_us: u64,
    mood: DiskMood,
    stalled_us: u64,
    /// Counts processes: a dead one can no longer write.
    boot: u64,
    /// Draws which writes of a failed sync reached the disk.
    random: Random,
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
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changes the disk's behaviour.
    pub fn set_mood(&self, mood: DiskMood) {
        self.state().mood = mood;
    }

    /// Whether its writes and syncs succeed.
    pub fn is_sound(&self) -> bool {
        matches!(self.state().mood, DiskMood::Good | DiskMood::Slow { .. })
    }

    /// How long the writer must wait for its syncs since the last call.
    pub fn take_stall_us(&self) -> u64 {
        std::mem::take(&mut self.state().stalled_us)
    }

    /// The writer has waited: its writes are complete.
    pub fn settle(&self) {
        self.state().sectors.settle();
    }

    /// The process dies in the middle of its writes, with or without its machine.
    pub fn crash(&self, machine_dies: bool, random: &mut Random) {
        let state = &mut *self.state();
        state.boot += 1;
        state.stalled_us = 0;
        state.sectors.stop_somewhere(random);
        if machine_dies {
            state.sectors.lose_power(random);
        }
    }

    /// The same files on another disk: what a process that started now would read.
    pub fn image(&self) -> Disk {
        let state = self.state();
        let sectors = state.sectors.image();
        let (usual_us, mood, random) = (state.usual_us, DiskMood::Good, Random::new(0));
        Disk(Arc::new(Mutex::new(State { sectors, usual_us, mood, stalled_us: 0, boot: 0, random })))
    }

    /// What would be left on another disk if its machine lost its power now.
    pub fn image_without_power(&self, random: &mut Random) -> Disk {
        let (image, sectors) = (self.image(), self.state().sectors.clone());
        image.state().sectors = sectors;
        image.crash(true, random);
        image
    }

    /// The disk for the current process.
    pub fn mount(&self) -> Folder {
        Folder { disk: self.clone(), boot: self.state().boot }
    }
}

impl State {
    /// Takes room for one more write, if there is any.
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

    fn sync_us(&self) -> u64 {
        match self.mood {
            DiskMood::Slow { sync_us } => sync_us,
            _ => self.usual_us,
        }
    }

    fn sync(&mut self, what: Synced) -> io::Result<()> {
        self.stalled_us += self.sync_us();
        match &mut self.mood {
            DiskMood::ForgetsWrites { syncs: 0 } => {
                self.sectors.fail_sync(what, &mut self.random);
                Err(io::Error::other("the simulated disk failed"))
            }
            // Half of the failing syncs of files succeed.
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

/// The folder of all files of a disk, for one process. Every operation fails once the process is dead.
#[derive(Clone, Debug)]
pub struct Folder {
    disk: Disk,
    boot: u64,
}

impl Folder {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.state();
        // A dead process's destructors run in the test, but never ran in the process.
        if state.boot == self.boot { Ok(state) } else { Err(io::Error::other("the process is dead")) }
    }

    /// All names in order.
    pub fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.state()?.sectors.names().map(str::to_owned).collect())
    }

    /// The file with this name, if any.
    pub fn open(&self, name: &str) -> io::Result<Option<File>> {
        let id = self.state()?.sectors.named(name);
        Ok(id.map(|id| File { folder: self.clone(), id }))
    }

    /// A new file without a name. A file without a name is lost when the machine dies.
    pub fn create(&self) -> io::Result<File> {
        let mut state = self.state()?;
        state.take_room()?;
        Ok(File { folder: self.clone(), id: state.sectors.create() })
    }

    /// Renames files, replacing those with these names, or removes names, atomically. Durable once the names
    /// are [synced](Folder::sync).
    pub fn rename(&self, names: &[(&str, Option<&File>)]) -> io::Result<()> {
        let mut state = self.state()?;
        state.take_room()?;
        let names: Vec<_> = names.iter().map(|&(name, file)| (name, file.map(|file| file.id))).collect();
        state.sectors.rename(&names);
        Ok(())
    }

    /// Makes all names durable.
    pub fn sync(&self) -> io::Result<()> {
        self.state()?.sync(Synced::Names)
    }
}

/// A file opened by a process.
#[derive(Clone, Debug)]
pub struct File {
    folder: Folder,
    id: FileId,
}

impl File {
    /// The whole content.
    pub fn content(&self) -> io::Result<Vec<u8>> {
        Ok(self.folder.state()?.sectors.bytes(self.id).to_vec())
    }

    /// Writes at this offset; a gap before it is zero.
    pub fn write(&self, offset: usize, data: &[u8]) -> io::Result<()> {
        let mut state = self.folder.state()?;
        state.take_room()?;
        state.sectors.write(self.id, offset, data);
        Ok(())
    }

    /// Truncates it, or extends it with zeros.
    pub fn set_bytes(&self, bytes: usize) -> io::Result<()> {
        let mut state = self.folder.state()?;
        if bytes > state.sectors.bytes(self.id).len() {
            state.take_room()?;
        }
        state.sectors.set_len(self.id, bytes);
        Ok(())
    }

    /// Makes its content durable.
    pub fn sync(&self) -> io::Result<()> {
        self.folder.state()?.sync(Synced::File(self.id))
    }

    /// Begins to make its present content durable, while others go on. The writer need not wait for it.
    pub fn begin_sync(&self) -> io::Result<SyncUnderWay> {
        let mut state = self.folder.state()?;
        let id = state.sectors.begin_sync(Synced::File(self.id));
        Ok(SyncUnderWay { folder: self.folder.clone(), id, takes_us: state.sync_us() })
    }
}

/// A sync that was begun. If it never ends, because the process dies, nothing is certain.
#[derive(Debug)]
pub struct SyncUnderWay {
    folder: Folder,
    id: SyncId,
    takes_us: u64,
}

impl SyncUnderWay {
    /// How long after its beginning it is to be ended.
    pub fn takes_us(&self) -> u64 {
        self.takes_us
    }

    /// It is over, and what was written before it began is durable, unless the disk fails.
    pub fn end(self) -> io::Result<()> {
        let mut state = self.folder.state()?;
        let State { sectors, mood, random, .. } = &mut *state;
        let fails = match mood {
            DiskMood::ForgetsWrites { syncs: 0 } => true,
            DiskMood::ForgetsWrites { syncs } => {
                *syncs -= 1;
                false
            }
            _ => false,
        };
        let fails_after = *mood == DiskMood::FailsAfterWriting && random.one_in(2);
        sectors.end_sync(self.id, fails, random);
        match fails || fails_after {
            true => Err(io::Error::other("the simulated disk failed")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn disk() -> (Disk, Folder) {
        let disk = Disk::new(10, Random::new(1));
        let folder = disk.mount();
        (disk, folder)
    }

    /// Creates a durable file with this content.
    fn put(folder: &Folder, name: &str, content: &[u8]) {
        let file = folder.create().unwrap();
        file.write(0, content).unwrap();
        file.sync().unwrap();
        folder.rename(&[(name, Some(&file))]).unwrap();
        folder.sync().unwrap();
    }

    fn content(folder: &Folder, name: &str) -> Option<Vec<u8>> {
        folder.open(name).unwrap().map(|file| file.content().unwrap())
    }

    #[test]
    fn files_are_lost_independently() {
        let mut left = BTreeSet::new();
        for seed in 0..200 {
            let (disk, folder) = disk();
            ["a", "b", "c"].into_iter().for_each(|name| put(&folder, name, b"old"));
            for name in ["a", "b"] {
                folder.open(name).unwrap().unwrap().write(0, b"new").unwrap();
            }
            folder.open("b").unwrap().unwrap().sync().unwrap();
            disk.settle();
            disk.crash(true, &mut Random::new(seed));
            let folder = disk.mount();
            assert_eq!(folder.names().unwrap(), ["a", "b", "c"]);
            assert_eq!(content(&folder, "b").unwrap(), b"new", "it was synced");
            assert_eq!(content(&folder, "c").unwrap(), b"old");
            left.insert(content(&folder, "a").unwrap());
        }
        assert_eq!(left, BTreeSet::from([b"old".to_vec(), b"new".to_vec()]));
    }

    #[test]
    fn a_renamed_file_has_one_of_both_names_whatever_happens() {
        let mut left = BTreeSet::new();
        for seed in 0..200 {
            let (disk, folder) = disk();
            put(&folder, "next", b"2");
            put(&folder, "log", b"1");
            disk.settle();
            let next = folder.open("next").unwrap();
            folder.rename(&[("next", None), ("log", next.as_ref())]).unwrap();
            disk.crash(seed % 2 == 0, &mut Random::new(seed));
            let folder = disk.mount();
            left.insert((content(&folder, "next"), content(&folder, "log")));
        }
        let (one, two) = (Some(b"1".to_vec()), Some(b"2".to_vec()));
        assert_eq!(left, BTreeSet::from([(None, two.clone()), (two, one)]));
    }

    #[test]
    fn synced_names_are_durable() {
        for seed in 0..50 {
            let (disk, folder) = disk();
            put(&folder, "a", b"1");
            put(&folder, "b", b"2");
            folder.rename(&[("a", None)]).unwrap();
            folder.sync().unwrap();
            disk.settle();
            disk.crash(true, &mut Random::new(seed));
            assert_eq!(disk.mount().names().unwrap(), ["b"]);
        }
    }

    #[test]
    fn a_file_without_a_name_is_lost_with_the_machine() {
        let (disk, folder) = disk();
        put(&folder, "a", b"1");
        let file = folder.open("a").unwrap().unwrap();
        put(&folder, "a", b"2");
        assert_eq!((file.content().unwrap(), content(&folder, "a").unwrap()), (b"1".to_vec(), b"2".to_vec()));
        disk.settle();
        disk.crash(true, &mut Random::new(1));
        assert_eq!(disk.state().sectors.bytes(file.id), b"");
        assert_eq!(content(&disk.mount(), "a").unwrap(), b"2");
    }

    #[test]
    fn a_file_is_truncated_and_extended() {
        let (_, folder) = disk();
        put(&folder, "a", b"12345");
        let file = folder.open("a").unwrap().unwrap();
        file.set_bytes(2).unwrap();
        file.write(4, b"6").unwrap();
        file.set_bytes(6).unwrap();
        assert_eq!(file.content().unwrap(), b"12\x00\x006\x00");
        assert!(folder.open("b").unwrap().is_none());
    }

    #[test]
    fn a_dead_process_writes_no_more() {
        let (disk, folder) = disk();
        put(&folder, "a", b"1");
        let file = folder.open("a").unwrap().unwrap();
        disk.settle();
        disk.crash(false, &mut Random::new(1));
        file.write(0, b"2").unwrap_err();
        folder.create().unwrap_err();
        assert_eq!(content(&disk.mount(), "a").unwrap(), b"1");
    }

    #[test]
    fn a_sync_covers_what_was_written_before_it_began_and_only_once_it_has_ended() {
        let (mut before, mut behind) = (BTreeSet::new(), BTreeSet::new());
        for seed in 0..100 {
            let (disk, folder) = disk();
            put(&folder, "a", b"1");
            let file = folder.open("a").unwrap().unwrap();
            file.write(0, b"2").unwrap();
            disk.settle();
            let sync = file.begin_sync().unwrap();
            assert_eq!(sync.takes_us(), 10);
            file.write(1, b"3").unwrap();
            if seed % 2 == 0 {
                sync.end().unwrap();
                // Nobody has waited for the second write; the sync has ended all the same.
                disk.crash(true, &mut Random::new(seed));
                behind.insert(content(&disk.mount(), "a").unwrap());
            } else {
                disk.settle();
                disk.crash(true, &mut Random::new(seed));
                before.insert(content(&disk.mount(), "a").unwrap());
                sync.end().unwrap_err();
            }
        }
        assert_eq!(behind, BTreeSet::from([b"2".to_vec(), b"23".to_vec()]));
        let any: [&[u8]; 4] = [b"1", b"2", b"13", b"23"];
        assert_eq!(before, any.into_iter().map(<[u8]>::to_vec).collect());
    }

    #[test]
    fn an_image_has_what_a_process_would_read_and_a_life_of_its_own() {
        let (disk, folder) = disk();
        put(&folder, "a", b"1");
        folder.open("a").unwrap().unwrap().write(0, b"2").unwrap();
        let image = disk.image();
        put(&image.mount(), "b", b"3");
        assert_eq!(content(&image.mount(), "a").unwrap(), b"2");
        assert_eq!(folder.names().unwrap(), ["a"]);
    }

    #[test]
    fn each_mood_behaves_as_documented() {
        let (disk, folder) = disk();
        put(&folder, "a", b"1");
        assert_eq!(disk.take_stall_us(), 20, "the file's sync and the name's");
        let file = folder.open("a").unwrap().unwrap();
        disk.set_mood(DiskMood::Slow { sync_us: 7 });
        file.sync().unwrap();
        assert_eq!((disk.is_sound(), disk.take_stall_us()), (true, 7));
        disk.set_mood(DiskMood::Full { writes: 1 });
        file.write(0, b"2").unwrap();
        assert_eq!(file.write(0, b"3").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(!disk.is_sound());
        disk.set_mood(DiskMood::FailsAfterWriting);
        while file.sync().is_ok() {}
        folder.sync().unwrap_err();
        disk.set_mood(DiskMood::Good);
        disk.settle();
        disk.crash(true, &mut Random::new(1));
        assert_eq!(content(&disk.mount(), "a").unwrap(), b"2", "it was written despite the error");
    }
    #[test]
    fn writes_of_a_failed_sync_are_readable_until_the_machine_dies() {
        let mut left = BTreeSet::new();
        for seed in 0..100 {
            let disk = Disk::new(10, Random::new(seed));
            let folder = disk.mount();
            put(&folder, "a", b"1");
            disk.set_mood(DiskMood::ForgetsWrites { syncs: 1 });
            let file = folder.open("a").unwrap().unwrap();
            file.sync().unwrap();
            file.write(0, b"2").unwrap();
            file.sync().unwrap_err();
            disk.set_mood(DiskMood::Good);
            file.sync().unwrap();
            disk.settle();
            assert_eq!(file.content().unwrap(), b"2");
            disk.crash(true, &mut Random::new(seed));
            left.insert(content(&disk.mount(), "a").unwrap());
        }
        assert_eq!(left, BTreeSet::from([b"1".to_vec(), b"2".to_vec()]));
    }
}
