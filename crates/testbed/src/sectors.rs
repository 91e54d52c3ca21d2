//! A disk's content: the image that processes read, the image that survives a power loss, and the steps
//! between the two.
//!
//! The model is a file system on a disk that guarantees the minimum. Synced data is durable. Unsynced data
//! survives or not, each 512 bytes independently and in any order, lengths and names included. A dead process
//! leaves all its writes; a dead machine leaves what is on disk. After a failed sync, data that was not
//! written remains readable, but no later sync writes it.

use crate::random::Random;
use std::collections::BTreeMap;

/// A file, with or without a name.
pub(crate) type FileId = u64;

/// A sync that takes its time.
pub(crate) type SyncId = u64;

/// A disk writes this much atomically.
const SECTOR_BYTES: usize = 512;

/// What one sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Synced {
    /// A file's content.
    File(FileId),
    /// The names, and their files.
    Names,
}

/// A name, and its files after and before a step, if any.
type Renaming = (String, Option<FileId>, Option<FileId>);

/// A step of a process, with its undo.
#[derive(Clone, Debug)]
enum Step {
    Create {
        file: FileId,
    },
    Write {
        file: FileId,
        at: usize,
        data: Vec<u8>,
        before: Vec<u8>,
    },
    Length {
        file: FileId,
        bytes: usize,
        before_bytes: usize,
        cut_off: Vec<u8>,
    },
    /// All of them, atomically.
    Rename(Vec<Renaming>),
    Sync(Synced),
    /// A sync under way, of this number: so far nothing is certain.
    Syncing(Synced, SyncId),
    /// A failed sync. The seed draws what was written.
    LossySync(Synced, u64),
}

impl Step {
    /// The sync that makes it durable, unless it is a sync itself.
    fn synced_with(&self) -> Option<Synced> {
        match self {
            Step::Create { file } | Step::Write { file, .. } | Step::Length { file, .. } => {
                Some(Synced::File(*file))
            }
            Step::Rename(_) => Some(Synced::Names),
            Step::Sync(_) | Step::Syncing(..) | Step::LossySync(..) => None,
        }
    }
}

/// Files and their names.
#[derive(Clone, Debug, Default)]
struct Image {
    files: BTreeMap<FileId, Vec<u8>>,
    names: BTreeMap<String, FileId>,
}

impl Image {
    fn file(&mut self, file: FileId) -> &mut Vec<u8> {
        self.files.entry(file).or_default()
    }

    fn write(&mut self, file: FileId, at: usize, data: &[u8]) {
        let bytes = self.file(file);
        if bytes.len() < at + data.len() {
            bytes.resize(at + data.len(), 0);
        }
        bytes[at..at + data.len()].copy_from_slice(data);
    }

    fn rename(&mut self, name: String, file: Option<FileId>) {
        match file {
            Some(file) => self.names.insert(name, file),
            None => self.names.remove(&name),
        };
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Create { file } => drop(self.file(*file)),
            Step::Write { file, at, data, .. } => self.write(*file, *at, data),
            Step::Length { file, bytes, .. } => self.file(*file).resize(*bytes, 0),
            Step::Rename(names) => {
                names.iter().for_each(|(name, after, _)| self.rename(name.clone(), *after));
            }
            Step::Sync(_) | Step::Syncing(..) | Step::LossySync(..) => {}
        }
    }

    fn undo(&mut self, step: Step) {
        match step {
            Step::Create { file } => drop(self.files.remove(&file)),
            Step::Write { file, at, data, before } => {
                let bytes = self.file(file);
                bytes[at..at + before.len()].copy_from_slice(&before);
                if before.len() < data.len() {
                    bytes.truncate(at + before.len());
                }
            }
            Step::Length { file, bytes, before_bytes, cut_off } => {
                self.file(file).resize(before_bytes, 0);
                if bytes < before_bytes {
                    self.write(file, bytes, &cut_off);
                }
            }
            Step::Rename(names) => {
                names.into_iter().for_each(|(name, _, before)| self.rename(name, before));
            }
            Step::Sync(_) | Step::Syncing(..) | Step::LossySync(..) => {}
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Sectors {
    /// The image that processes read.
    seen: Image,
    /// The image on disk.
    durable: Image,
    /// Steps since, oldest first.
    journal: Vec<Step>,
    /// This many steps of the journal are complete; the rest are in flight.
    settled: usize,
    next_file: FileId,
    next_sync: SyncId,
}

impl Sectors {
    /// A new file without a name. It is lost when the machine dies.
    pub(crate) fn create(&mut self) -> FileId {
        let file = self.next_file;
        self.next_file += 1;
        self.take(Step::Create { file });
        file
    }

    /// The file with this name.
    pub(crate) fn named(&self, name: &str) -> Option<FileId> {
        self.seen.names.get(name).copied()
    }

    /// Every name in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.seen.names.keys().map(String::as_str)
    }

    /// A file's content, as a process reads it.
    pub(crate) fn bytes(&self, file: FileId) -> &[u8] {
        self.seen.files.get(&file).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn write(&mut self, file: FileId, at: usize, data: &[u8]) {
        if at > self.bytes(file).len() {
            self.set_len(file, at);
        }
        let present = self.bytes(file);
        let before = present[at..present.len().min(at + data.len())].to_vec();
        self.take(Step::Write { file, at, data: data.to_vec(), before });
    }

    /// Truncates a file, or extends it with zeros.
    pub(crate) fn set_len(&mut self, file: FileId, bytes: usize) {
        let present = self.bytes(file);
        let cut_off = present.get(bytes..).unwrap_or_default().to_vec();
        self.take(Step::Length { file, bytes, before_bytes: present.len(), cut_off });
    }

    /// Makes data durable.
    pub(crate) fn sync(&mut self, what: Synced) {
        self.take(Step::Sync(what));
    }

    /// Begins to make data durable: what was written before this call is, once the sync has ended.
    pub(crate) fn begin_sync(&mut self, what: Synced) -> SyncId {
        let id = self.next_sync;
        self.next_sync += 1;
        self.take(Step::Syncing(what, id));
        id
    }

    /// A sync has ended; `is_lossy`: it failed.
    pub(crate) fn end_sync(&mut self, id: SyncId, is_lossy: bool, random: &mut Random) {
        let is_it = |step: &Step| matches!(step, Step::Syncing(_, other) if *other == id);
        let Some(at) = self.journal.iter().position(is_it) else { return };
        if let Step::Syncing(what, _) = self.journal[at] {
            self.journal[at] = if is_lossy { Step::LossySync(what, random.draw()) } else { Step::Sync(what) };
        }
        // It certainly was begun.
        self.settled = self.settled.max(at + 1);
    }

    /// Fails to make data durable: a part becomes durable, the rest never will.
    pub(crate) fn fail_sync(&mut self, what: Synced, random: &mut Random) {
        self.take(Step::LossySync(what, random.draw()));
    }

    /// Adds or removes names of files, atomically.
    pub(crate) fn rename(&mut self, names: &[(&str, Option<FileId>)]) {
        let with_before = |&(name, file): &(&str, _)| (name.to_owned(), file, self.named(name));
        let renamings = names.iter().map(with_before).collect();
        self.take(Step::Rename(renamings));
    }

    fn take(&mut self, step: Step) {
        self.seen.apply(&step);
        self.journal.push(step);
    }

    /// What can be read now, all of it durable.
    pub(crate) fn image(&self) -> Sectors {
        let (seen, durable) = (self.seen.clone(), self.seen.clone());
        Sectors { seen, durable, next_file: self.next_file, ..Sectors::default() }
    }

    /// Every step so far is complete.
    pub(crate) fn settle(&mut self) {
        if self.settled < self.journal.len() {
            self.fold();
        }
    }

    /// The writer stops within the steps in flight: later ones did not happen.
    pub(crate) fn stop_somewhere(&mut self, random: &mut Random) {
        let keep = random.between(self.settled as u64, self.journal.len() as u64) as usize;
        while self.journal.len() > keep
            && let Some(step) = self.journal.pop()
        {
            self.seen.undo(step);
        }
        self.fold();
    }

    /// The machine dies: unsynced data survives or not, and what is left is all that can be read.
    pub(crate) fn lose_power(&mut self, random: &mut Random) {
        self.fold();
        let mut left = std::mem::take(&mut self.journal);
        left.retain(|step| !matches!(step, Step::Syncing(..)));
        let quarters = random.below(5);
        scatter(&mut self.durable, left, random, quarters);
        self.settled = 0;
        let Image { files, names } = &mut self.durable;
        files.retain(|file, _| names.values().any(|named| named == file));
        self.seen = self.durable.clone();
    }

    /// Moves synced steps to the disk's image.
    fn fold(&mut self) {
        let (mut left, mut lost_names) = (Vec::new(), Vec::new());
        for step in self.journal.drain(..) {
            match step {
                Step::Sync(what) => {
                    for synced in left.extract_if(.., |step: &mut Step| step.synced_with() == Some(what)) {
                        self.durable.apply(&synced);
                        if let Step::Rename(names) = synced {
                            lost_names.extend(names.into_iter().filter_map(|(_, _, before)| before));
                        }
                    }
                }
                Step::LossySync(what, seed) => {
                    let tried = left.extract_if(.., |step| step.synced_with() == Some(what)).collect();
                    scatter(&mut self.durable, tried, &mut Random::new(seed), 2);
                }
                step => left.push(step),
            }
        }
        self.settled = left.len();
        self.journal = left;
        for file in lost_names.into_iter().filter(|&file| !self.may_have_name(file)).collect::<Vec<_>>() {
            self.seen.files.remove(&file);
            self.durable.files.remove(&file);
        }
    }

    /// Whether a file has a name, or may get one back.
    fn may_have_name(&self, file: FileId) -> bool {
        let mut names = self.seen.names.values().chain(self.durable.names.values());
        let is_renamed = |step: &Step| match step {
            Step::Rename(names) => {
                names.iter().any(|(_, after, before)| [after, before].contains(&&Some(file)))
            }
            _ => false,
        };
        names.any(|named| *named == file) || self.journal.iter().any(is_renamed)
    }
}

/// Applies this many quarters of these steps in any order, writes sector by sector.
fn scatter(image: &mut Image, steps: Vec<Step>, random: &mut Random, quarters: u64) {
    let mut pieces: Vec<Step> = steps.into_iter().flat_map(pieces_of).collect();
    for last in (1..pieces.len()).rev() {
        pieces.swap(last, random.index(last + 1));
    }
    for piece in pieces {
        if random.below(4) < quarters {
            image.apply(&piece);
        }
    }
}

fn pieces_of(step: Step) -> Vec<Step> {
    let Step::Write { file, at, data, .. } = step else { return vec![step] };
    let mut pieces = Vec::new();
    let mut from = 0;
    while from < data.len() {
        let to = data.len().min(from + SECTOR_BYTES - (at + from) % SECTOR_BYTES);
        let piece = Step::Write { file, at: at + from, data: data[from..to].to_vec(), before: Vec::new() };
        pieces.push(piece);
        from = to;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(sectors: &mut Sectors, content: &[u8]) -> FileId {
        let file = sectors.create();
        sectors.write(file, 0, content);
        sectors.sync(Synced::File(file));
        sectors.rename(&[("name", Some(file))]);
        sectors.sync(Synced::Names);
        sectors.settle();
        file
    }

    #[test]
    fn synced_data_is_durable() {
        for seed in 0..50 {
            let mut sectors = Sectors::default();
            let file = named(&mut sectors, b"old");
            sectors.lose_power(&mut Random::new(seed));
            assert_eq!((sectors.named("name"), sectors.bytes(file)), (Some(file), b"old".as_slice()));
        }
    }

    #[test]
    fn a_dead_process_leaves_its_completed_writes() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let mut sectors = Sectors::default();
            let file = named(&mut sectors, b"old");
            sectors.set_len(file, 6);
            sectors.write(file, 1, b"n");
            sectors.set_len(file, 2);
            sectors.write(file, 4, b"x");
            sectors.stop_somewhere(&mut Random::new(seed));
            seen.insert(sectors.bytes(file).to_vec());
        }
        let steps: [&[u8]; 6] = [b"old", b"old\0\0\0", b"ond\0\0\0", b"on", b"on\0\0", b"on\0\0x"];
        assert_eq!(seen, steps.into_iter().map(<[u8]>::to_vec).collect());
    }

    #[test]
    fn a_dead_machine_tears_unsynced_writes() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut sectors = Sectors::default();
            let file = named(&mut sectors, &[0; 1024]);
            sectors.write(file, 500, &[1; 24]);
            sectors.settle();
            sectors.lose_power(&mut Random::new(seed));
            let bytes = sectors.bytes(file);
            assert!(bytes[500..512].iter().all(|&byte| byte == bytes[500]));
            assert!(bytes[512..524].iter().all(|&byte| byte == bytes[512]));
            seen.insert((bytes[500], bytes[512]));
        }
        assert_eq!(seen.len(), 4);
    }

    #[test]
    fn data_of_a_failed_sync_is_readable_until_power_loss() {
        let mut lost = 0;
        for seed in 0..50 {
            let mut sectors = Sectors::default();
            let file = named(&mut sectors, b"old");
            sectors.write(file, 0, b"new");
            sectors.fail_sync(Synced::File(file), &mut Random::new(seed));
            sectors.sync(Synced::File(file));
            sectors.settle();
            sectors.stop_somewhere(&mut Random::new(seed));
            assert_eq!(sectors.bytes(file), b"new");
            sectors.lose_power(&mut Random::new(seed));
            lost += u32::from(sectors.bytes(file) == b"old");
        }
        assert!((10..40).contains(&lost), "{lost}");
    }

    #[test]
    fn a_name_of_a_failed_sync_is_readable_until_power_loss() {
        let mut lost = 0;
        for seed in 0..50 {
            let mut sectors = Sectors::default();
            let old = named(&mut sectors, b"old");
            let new = sectors.create();
            sectors.write(new, 0, b"new");
            sectors.sync(Synced::File(new));
            sectors.rename(&[("name", Some(new))]);
            sectors.fail_sync(Synced::Names, &mut Random::new(seed));
            sectors.sync(Synced::Names);
            sectors.settle();
            assert_eq!(sectors.named("name"), Some(new));
            sectors.lose_power(&mut Random::new(seed));
            lost += u32::from(sectors.named("name") == Some(old));
        }
        assert!((10..40).contains(&lost), "{lost}");
    }
}
