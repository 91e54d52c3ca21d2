//! What a disk holds: what processes read back, what would be left without power, and the way from the one to
//! the other.
//!
//! The model is that of a file system on a disk that keeps its promises and no more. What was synced stays.
//! What was not is there or not, 512 bytes by 512 bytes, in any order, lengths and names like the rest. A
//! process that dies leaves everything that it wrote; a machine that dies leaves what the disk has. After a
//! sync that failed, what could not be written reads back all the same, and no later sync writes it.

use crate::random::Random;
use std::collections::BTreeMap;

/// A file, under whatever name or none.
pub(crate) type FileId = u64;

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// What one sync makes stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Synced {
    /// A file's content.
    File(FileId),
    /// Which names there are, and which files they stand for.
    Names,
}

/// A name, and the files that it stands for after and before a step, if any.
type Renaming = (String, Option<FileId>, Option<FileId>);

/// A step of a process, with what undoes it.
#[derive(Debug)]
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
    /// All of them at once.
    Rename(Vec<Renaming>),
    Sync(Synced),
    /// A sync that failed. The seed draws what was written.
    LossySync(Synced, u64),
}

impl Step {
    /// What makes it stay, unless it is a sync itself.
    fn synced_with(&self) -> Option<Synced> {
        match self {
            Step::Create { file } | Step::Write { file, .. } | Step::Length { file, .. } => {
                Some(Synced::File(*file))
            }
            Step::Rename(_) => Some(Synced::Names),
            Step::Sync(_) | Step::LossySync(..) => None,
        }
    }
}

/// Files, and which of them have names.
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
            Step::Sync(_) | Step::LossySync(..) => {}
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
            Step::Sync(_) | Step::LossySync(..) => {}
        }
    }
}

/// What a disk holds.
#[derive(Debug, Default)]
pub(crate) struct Sectors {
    /// As processes read it.
    seen: Image,
    /// What is there to stay.
    durable: Image,
    /// What was done since, oldest first.
    journal: Vec<Step>,
    /// So much of the journal certainly happened; the rest is under way.
    settled: usize,
    next_file: FileId,
}

impl Sectors {
    /// A new file without a name. Without one it is gone when the machine dies.
    pub(crate) fn create(&mut self) -> FileId {
        let file = self.next_file;
        self.next_file += 1;
        self.take(Step::Create { file });
        file
    }

    /// The file of this name.
    pub(crate) fn named(&self, name: &str) -> Option<FileId> {
        self.seen.names.get(name).copied()
    }

    /// Every name, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.seen.names.keys().map(String::as_str)
    }

    /// What a process reads in a file.
    pub(crate) fn bytes(&self, file: FileId) -> &[u8] {
        self.seen.files.get(&file).map_or(&[], Vec::as_slice)
    }

    /// Writes.
    pub(crate) fn write(&mut self, file: FileId, at: usize, data: &[u8]) {
        if at > self.bytes(file).len() {
            self.set_len(file, at);
        }
        let present = self.bytes(file);
        let before = present[at..present.len().min(at + data.len())].to_vec();
        self.take(Step::Write { file, at, data: data.to_vec(), before });
    }

    /// Cuts a file, or fills it up with zeroes.
    pub(crate) fn set_len(&mut self, file: FileId, bytes: usize) {
        let present = self.bytes(file);
        let cut_off = present.get(bytes..).unwrap_or_default().to_vec();
        self.take(Step::Length { file, bytes, before_bytes: present.len(), cut_off });
    }

    /// Makes something stay.
    pub(crate) fn sync(&mut self, what: Synced) {
        self.take(Step::Sync(what));
    }

    /// Fails to make something stay: some of it does, the rest never will.
    pub(crate) fn fail_sync(&mut self, what: Synced, random: &mut Random) {
        self.take(Step::LossySync(what, random.draw()));
    }

    /// Gives names to files, or takes them away, all at once.
    pub(crate) fn rename(&mut self, names: &[(&str, Option<FileId>)]) {
        let with_before = |&(name, file): &(&str, _)| (name.to_owned(), file, self.named(name));
        let renamings = names.iter().map(with_before).collect();
        self.take(Step::Rename(renamings));
    }

    fn take(&mut self, step: Step) {
        self.seen.apply(&step);
        self.journal.push(step);
    }

    /// Everything until now has happened.
    pub(crate) fn settle(&mut self) {
        if self.settled < self.journal.len() {
            self.fold();
        }
    }

    /// Whoever was writing is stopped somewhere in what is under way: nothing after that happened.
    pub(crate) fn stop_somewhere(&mut self, random: &mut Random) {
        let keep = random.between(self.settled as u64, self.journal.len() as u64) as usize;
        while self.journal.len() > keep
            && let Some(step) = self.journal.pop()
        {
            self.seen.undo(step);
        }
        self.fold();
    }

    /// The machine dies: what was not synced is there or not, and nothing else can be read from now on.
    pub(crate) fn lose_power(&mut self, random: &mut Random) {
        self.fold();
        let left = std::mem::take(&mut self.journal);
        let quarters = random.below(5);
        scatter(&mut self.durable, left, random, quarters);
        self.settled = 0;
        let Image { files, names } = &mut self.durable;
        files.retain(|file, _| names.values().any(|named| named == file));
        self.seen = self.durable.clone();
    }

    /// Moves what was synced to what stays.
    fn fold(&mut self) {
        let mut left: Vec<Step> = Vec::new();
        for step in self.journal.drain(..) {
            match step {
                Step::Sync(what) => {
                    for synced in left.extract_if(.., |step| step.synced_with() == Some(what)) {
                        self.durable.apply(&synced);
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
    }
}

/// Lets so many quarters of these steps happen, in any order, writes sector by sector.
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
    fn what_was_synced_stays() {
        for seed in 0..50 {
            let mut sectors = Sectors::default();
            let file = named(&mut sectors, b"old");
            sectors.lose_power(&mut Random::new(seed));
            assert_eq!((sectors.named("name"), sectors.bytes(file)), (Some(file), b"old".as_slice()));
        }
    }

    #[test]
    fn a_dead_process_leaves_what_it_had_written_before_it_was_stopped() {
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
    fn a_dead_machine_tears_what_was_not_synced() {
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
    fn what_a_sync_could_not_write_reads_back_until_the_power_is_lost() {
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
    fn a_name_that_a_sync_could_not_write_reads_back_until_the_power_is_lost() {
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
