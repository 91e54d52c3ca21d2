//! Whatever a disk keeps of what was not synced, a log is read again up to some commit, with all that was
//! synced; and no damage of what was synced goes unseen.

use proptest::prelude::*;
use sidle_log_files::{
    Closing, CommitSteps, Damage, Failed, FileSet, LogFile, LogWriter, Settings, Step, Survey, SurveyedFile,
    Syncs, Taken, Write, is_torn_beginning, survey,
};
use sidle_types::{CommitNumber, LogId, MonotonicUs};
use std::collections::BTreeMap;

const SECTOR: usize = 512;
const LOG: LogId = LogId(*b"the log's number");

/// Commits with their records.
type Commits = Vec<(CommitNumber, Vec<u8>)>;

/// A file as it was written, and as it is on the disk for certain.
#[derive(Clone, Debug, Default)]
struct Kept {
    written: Vec<u8>,
    synced: Vec<u8>,
}

#[derive(Debug, Default)]
struct Disk {
    files: BTreeMap<u64, Kept>,
    /// What is recorded of them.
    recorded: Option<FileSet>,
}

impl Disk {
    fn write(&mut self, write: &Write<'_>) {
        if write.at == 0 {
            self.files.remove(&write.file);
        }
        let file = self.files.entry(write.file).or_default();
        assert_eq!(file.written.len() as u64, write.at, "nothing is written twice");
        file.written.extend_from_slice(&write.head);
        file.written.extend_from_slice(write.records);
        file.written.resize(file.written.len() + write.padding, 0);
    }

    /// The file that was written last.
    fn last(&mut self) -> &mut Kept {
        self.files.last_entry().expect("it was written").into_mut()
    }

    /// Carries out a step. A sync that fails drops what it could not write; nothing else is done by half.
    fn carry_out(&mut self, step: Step<'_>, fails: bool) {
        match step {
            Step::Sync | Step::EndSync if fails => {
                let file = self.last();
                file.written = file.synced.clone();
            }
            _ if fails => {}
            Step::Record(set) => self.recorded = Some(set),
            Step::Write(write) => self.write(&write),
            Step::Sync | Step::EndSync => {
                let file = self.last();
                file.synced = file.written.clone();
            }
            Step::Remove(number) => drop(self.files.remove(&number)),
            Step::SyncNames | Step::BeginSync | Step::Check(_) => {}
        }
    }

    /// What is recorded is on the disk, with a head that is synced; and all but a file that is being begun is
    /// recorded (G6).
    fn check_record(&self) {
        let set = self.recorded.expect("a file was begun");
        let synced = |number: &u64| self.files.get(number).is_some_and(|file| !file.synced.is_empty());
        assert!(
            (set.first..=set.last).all(|number| synced(&number)),
            "{set:?} names a file that may be gone"
        );
        assert!(self.files.keys().all(|&number| number <= set.last + 1), "{set:?} misses a file");
        let numbers: Vec<u64> = self.files.keys().copied().collect();
        assert_eq!(set.missing(&numbers), None);
    }

    /// The power fails: of what was not synced, each sector is there or not.
    fn fail(&self, mut random: impl FnMut() -> u64) -> BTreeMap<u64, Vec<u8>> {
        let mut left = BTreeMap::new();
        for (&number, file) in &self.files {
            let length = file.synced.len() + random() as usize % (file.written.len() - file.synced.len() + 1);
            let mut bytes = file.written[..length].to_vec();
            for start in (0..length).step_by(SECTOR) {
                let end = (start + SECTOR).min(length);
                if end > file.synced.len() && random().is_multiple_of(3) {
                    let from = start.max(file.synced.len());
                    bytes[from..end].fill(0);
                }
            }
            left.insert(number, bytes);
        }
        left
    }
}

/// What is read again: the commits with their records, and the judgement.
fn read(files: &mut BTreeMap<u64, Vec<u8>>) -> (Commits, Result<Survey, Damage>) {
    let log = files.values().find_map(|bytes| LogFile::open(bytes, 1, None).ok().map(|file| file.log()));
    if let Some((&last, bytes)) = files.last_key_value()
        && LogFile::open(bytes, last, None).is_err()
        && is_torn_beginning(bytes.len() as u64)
    {
        files.remove(&last);
    }
    let (mut commits, mut surveyed) = (Vec::new(), Vec::new());
    for (&number, bytes) in files.iter() {
        let file = match LogFile::open(bytes, number, log) {
            Ok(file) => file,
            Err(error) => return (commits, Err(Damage::File { file: number, error })),
        };
        let before = commits.len();
        let end = file.blocks(|block| commits.push((block.commit, block.records.to_vec())));
        let last = commits[before..].last().map(|(commit, _)| *commit);
        surveyed.push(SurveyedFile { number, log: file.log(), first: file.first(), last, end });
    }
    (commits, survey(&surveyed))
}

struct Log {
    steps: CommitSteps,
    disk: Disk,
    commits: Commits,
    /// The last commit that was taken.
    taken: u64,
    now: MonotonicUs,
    /// Whether the next steps fail; then none does.
    fails: Vec<bool>,
    /// What failures were followed by.
    followed: Vec<Failed>,
}

const SETTINGS: Settings = Settings {
    syncs: Syncs::Always,
    file_bytes: 20_000,
    least_bytes: 1 << 30,
    share_percent: 0,
    judged_bytes: 1000,
};

impl Log {
    fn new(syncs: Syncs) -> Log {
        Log::with(LogWriter::new(Settings { syncs, ..SETTINGS }, LOG, [], CommitNumber(0), MonotonicUs(0)))
    }

    fn with(writer: LogWriter) -> Log {
        Log {
            steps: CommitSteps::new(writer, MonotonicUs(0)),
            disk: Disk::default(),
            commits: Vec::new(),
            taken: 0,
            now: MonotonicUs(0),
            fails: Vec::new(),
            followed: Vec::new(),
        }
    }

    /// `doubles`: eights of bytes.
    fn commit(&mut self, doubles: usize, skipped: u64, us: u64) {
        self.carry_out();
        self.followed.clear();
        let commit = CommitNumber(self.taken + 1 + skipped);
        self.taken = commit.0;
        let records: Vec<u8> = (0..doubles * 8).map(|at| (at as u64 * 31 + commit.0) as u8).collect();
        self.steps.take(|into| {
            into.extend_from_slice(&records);
            Taken { commit, is_whole: true }
        });
        if doubles > 0 {
            self.commits.push((commit, records));
        }
        self.carry_out();
        self.now = MonotonicUs(self.now.0 + us);
        self.steps.sync(self.now, false, false);
        self.carry_out();
        self.steps.tidy(self.now, false);
        self.carry_out();
    }

    /// Carries out what is to be done, however often that fails. Whenever the power fails meanwhile, no file
    /// is missing (G6).
    fn carry_out(&mut self) {
        while let Some(step) = self.steps.step() {
            let fails = !self.fails.is_empty() && self.fails.remove(0);
            let is_begun = matches!(step, Step::BeginSync);
            self.disk.carry_out(step, fails);
            match fails {
                true => self.followed.push(self.steps.failed()),
                false => self.steps.done(self.now),
            }
            if is_begun && !fails {
                // It ends at once, and fails, too.
                let fails = !self.fails.is_empty() && self.fails.remove(0);
                self.disk.carry_out(Step::Sync, fails);
                self.followed.extend(self.steps.sync_ended(!fails, self.now));
            }
            if self.disk.recorded.is_some() {
                self.disk.check_record();
            }
        }
    }

    fn last_synced(&self) -> CommitNumber {
        self.steps.writer().last_synced()
    }
}

fn draw(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed | 1;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

proptest! {
    #[test]
    fn what_was_synced_is_read_again_and_nothing_out_of_order(
        commits in prop::collection::vec((0usize..600, 0u64..3, 0u64..500_000), 0..60),
        is_always in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut log = Log::new(if is_always { Syncs::Always } else { Syncs::Every(1_000_000) });
        commits.iter().for_each(|&(doubles, skipped, us)| log.commit(doubles, skipped, us));
        let mut left = log.disk.fail(draw(seed));
        let (found, judged) = read(&mut left);
        let survey = judged.expect("nothing that was synced is damaged");
        prop_assert!(log.commits.starts_with(&found));
        let last = found.last().map_or(CommitNumber(0), |(commit, _)| *commit);
        // A file's head tells of commits without records before it.
        prop_assert!(last >= log.last_synced() && survey.last >= last);
        if is_always {
            prop_assert_eq!(log.commits.last().map_or(CommitNumber(0), |(commit, _)| *commit), last);
        }
        // It is closed, goes on in a new file, and is whole again.
        if let Some((&number, bytes)) = left.last_key_value() {
            let file = LogFile::open(bytes, number, Some(LOG)).expect("it was read");
            let Closing { at, bytes: end, .. } = file.blocks_and_closing(|_| ()).1;
            let bytes = left.get_mut(&number).expect("it is there");
            bytes.truncate(at);
            bytes.extend_from_slice(&end);
        }
        let lengths: Vec<(u64, u64)> =
            left.iter().map(|(number, bytes)| (*number, bytes.len() as u64)).collect();
        let writer = LogWriter::new(SETTINGS, LOG, lengths, survey.last, MonotonicUs(0));
        let mut again = Log { commits: found.clone(), taken: survey.last.0, ..Log::with(writer) };
        let kept = |bytes: &Vec<u8>| Kept { written: bytes.clone(), synced: bytes.clone() };
        again.disk.files = left.iter().map(|(number, bytes)| (*number, kept(bytes))).collect();
        if let (Some((&first, _)), Some((&last, _))) = (left.first_key_value(), left.last_key_value()) {
            again.disk.recorded = Some(FileSet { log: LOG, first, last });
        }
        again.commit(10, 0, 1);
        left.extend(again.disk.files.into_iter().map(|(number, file)| (number, file.synced)));
        let (found, judged) = read(&mut left);
        prop_assert_eq!(judged.map(|survey| survey.last), Ok(again.commits.last().expect("one").0));
        prop_assert_eq!(found, again.commits);
    }

    #[test]
    fn whatever_fails_nothing_that_is_synced_is_lost(
        steps in prop::collection::vec(
            (
                1usize..40,
                0u64..300_000,
                prop::option::weighted(0.3, prop::collection::vec(any::<bool>(), 0..20)),
            ),
            1..40,
        ),
        is_always in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut log = Log::new(if is_always { Syncs::Always } else { Syncs::Every(1_000_000) });
        for (doubles, us, fails) in &steps {
            log.fails = fails.clone().unwrap_or_default();
            log.commit(*doubles, 0, *us);
            let last = log.commits.last().expect("one").0;
            if is_always || log.followed.last() == Some(&Failed::BeginsAnew) {
                prop_assert_eq!(log.last_synced(), last);
            }
        }
        let (found, judged) = read(&mut log.disk.fail(draw(seed)));
        prop_assert!(judged.is_ok(), "{:?}", judged);
        let synced = log.last_synced();
        for (commit, records) in log.commits.iter().filter(|(commit, _)| *commit <= synced) {
            let is_in = |bytes: &[u8]| bytes.windows(records.len()).any(|some| some == records);
            prop_assert!(found.iter().any(|(_, bytes)| is_in(bytes)), "{} is lost", commit.0);
        }
    }

    #[test]
    fn a_flipped_byte_is_seen_wherever_a_later_block_shows_that_it_was_synced(
        commits in prop::collection::vec(1usize..300, 3..40),
        place in any::<u64>(),
    ) {
        let mut log = Log::new(Syncs::Always);
        commits.iter().for_each(|&doubles| log.commit(doubles, 0, 1));
        let mut left = log.disk.fail(draw(1));
        let total: usize = left.values().map(Vec::len).sum();
        let mut at = place as usize % total;
        let number = *left.iter().find(|(_, bytes)| {
            let is_it = at < bytes.len();
            at -= if is_it { 0 } else { bytes.len() };
            is_it
        }).expect("inside").0;
        let before = read(&mut left.clone()).0;
        left.get_mut(&number).expect("it is there")[at] ^= 0x40;
        let (found, judged) = read(&mut left);
        match judged {
            Err(_) => {}
            // Padding between blocks means nothing.
            Ok(_) if found == before => {}
            Ok(_) => {
                // Only the last block, which nothing shows as synced.
                prop_assert_eq!(found.len() + 1, before.len());
                prop_assert!(log.commits.starts_with(&found));
            }
        }
    }
}

#[test]
fn files_of_another_log_and_missing_ones_are_reported() {
    let mut log = Log::new(Syncs::Always);
    (0..30).for_each(|_| log.commit(300, 0, 1));
    let whole = log.disk.fail(draw(1));
    assert!(whole.len() >= 3, "{} files", whole.len());
    let mut files = whole.clone();
    files.remove(&2);
    assert_eq!(read(&mut files).1, Err(Damage::Missing(2)));
    let mut files = whole.clone();
    files.get_mut(&2).expect("it is there").truncate(5000);
    assert_eq!(read(&mut files).1, Err(Damage::CutShort(2)));
    let mut files = whole.clone();
    let third = files[&3].clone();
    files.insert(2, third);
    assert!(matches!(read(&mut files).1, Err(Damage::File { file: 2, .. })));
    let mut files = whole;
    let last = *files.last_key_value().expect("there are files").0;
    files.get_mut(&last).expect("it is there")[3] = 0;
    assert!(
        matches!(read(&mut files).1, Err(Damage::File { file, .. }) if file == last),
        "its head is damaged"
    );
}

#[test]
fn a_file_goes_once_what_is_needed_of_it_is_synced_elsewhere() {
    let settings = Settings {
        syncs: Syncs::Every(1_000_000),
        file_bytes: 1000,
        least_bytes: 2000,
        share_percent: 200,
        judged_bytes: 100,
    };
    let mut log = Log::with(LogWriter::new(settings, LOG, [], CommitNumber(0), MonotonicUs(0)));
    (0..8).for_each(|_| log.commit(125, 0, 600_000));
    assert!(log.steps.writer().file_count() >= 3);
    assert_eq!(log.steps.file_to_read(|| 1 << 30), None, "it is all live");
    assert_eq!(log.steps.file_to_read(|| 0), None, "and that was all until there is another file");
    log.commit(125, 0, 600_000);
    log.commit(125, 0, 600_000);
    assert_eq!((log.steps.file_to_read(|| 0), log.steps.file_to_read(|| 0)), (Some(1), None), "once");
    let bytes = log.disk.files[&1].written.clone();
    log.steps.file_read(Ok(bytes)).expect("it is closed");
    let nothing_survives = |records: &[u8], most: usize, _: &mut Vec<u8>| most.min(records.len());
    // One without records: as little is judged as is set.
    log.commit(0, 0, 1);
    let mut rounds = 0;
    while !log.steps.clean(nothing_survives) {
        log.commit(0, 0, 1);
        rounds += 1;
    }
    assert!(rounds > 1, "it is judged in steps");
    log.commit(10, 0, 1);
    assert!(log.disk.files.contains_key(&1), "G4: what is needed of it is not synced");
    log.commit(10, 0, 2_000_000);
    assert!(!log.disk.files.contains_key(&1));
}

/// Cleans as long as anything is to be cleaned, while nothing else is written; returns after how many files.
fn clean_all(log: &mut Log, survives: bool) -> usize {
    let mut cleaned = 0;
    while let Some(file) = log.steps.file_to_read(|| 0) {
        let bytes = log.disk.files[&file].written.clone();
        log.steps.file_read(Ok(bytes)).expect("it is closed");
        let judge = |records: &[u8], _: usize, kept: &mut Vec<u8>| {
            kept.extend_from_slice(if survives { records } else { &[] });
            records.len()
        };
        assert!(log.steps.clean(judge), "all of it at once");
        log.commit(0, 0, 1);
        cleaned += 1;
        assert!(cleaned < 1000, "it is cleaned without end");
    }
    cleaned
}

/// One record fills a file here, since a sync ends each block with its sector.
#[test]
fn a_log_that_cleaning_does_not_make_smaller_is_let_be_until_it_has_grown() {
    let settings = Settings {
        syncs: Syncs::Always,
        file_bytes: 1000,
        least_bytes: 2000,
        share_percent: 200,
        judged_bytes: 100_000,
    };
    let mut log = Log::with(LogWriter::new(settings, LOG, [], CommitNumber(0), MonotonicUs(0)));
    (0..20).for_each(|_| log.commit(10, 0, 1));
    let bytes = log.steps.writer().bytes();
    assert_eq!(clean_all(&mut log, true), 20, "once, from its oldest end to its newest");
    assert_eq!(log.steps.writer().bytes(), bytes);
    for _ in 0..10 {
        log.commit(10, 0, 1);
        assert_eq!(clean_all(&mut log, true), 0);
    }
    log.commit(10, 0, 1);
    assert!(clean_all(&mut log, false) >= 30, "it has grown by more than half");
    assert_eq!(log.steps.writer().file_count(), 1);
}

#[test]
fn a_file_that_cannot_be_read_is_kept_and_those_behind_it() {
    let mut log = Log::new(Syncs::Always);
    (0..30).for_each(|_| log.commit(300, 0, 1));
    let settings = Settings { least_bytes: 0, ..SETTINGS };
    let lengths = log.disk.files.iter().map(|(number, file)| (*number, file.written.len() as u64));
    let writer = LogWriter::new(settings, LOG, lengths, log.last_synced(), MonotonicUs(0));
    let mut steps = CommitSteps::new(writer, MonotonicUs(0));
    assert_eq!(steps.file_to_read(|| 0), Some(1));
    let bytes = log.disk.files[&1].written[..5000].to_vec();
    steps.file_read(Ok(bytes)).expect_err("it is cut short");
    assert_eq!(steps.file_to_read(|| 0), None);
}
