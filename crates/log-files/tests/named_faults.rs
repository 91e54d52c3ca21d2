//! Tests of the tests: a scenario finds each known fault of the files.

use sidle_log_files::{
    CommitSteps, FILE_HEAD_BYTES, Failed, FileEnd, FileSet, LogFile, LogWriter, Settings, Step, Syncs, Taken,
};
use sidle_types::{CommitNumber, Fault, LogId, MonotonicUs};
use std::collections::BTreeMap;

/// Every fault, with a scenario that holds only without it.
const STORIES: &[(Fault, fn())] = &[
    (Fault::FileGoesBeforeSurvivorsSynced, a_file_goes_while_its_survivors_are_not_synced),
    (Fault::SyncCoversWhatCameLater, a_commit_is_written_while_another_one_is_synced),
    (Fault::ClosedBeforeSynced, a_start_is_cut_short_while_it_closes_a_file),
    (Fault::FailedSyncIsRepeated, a_file_cannot_be_synced),
    (Fault::ReadIsTakenAsWritten, a_process_died_after_a_sync_had_failed),
    (Fault::RecordedBeforeItsHeadIsSynced, a_file_is_begun),
    (Fault::GoneFileIsRecorded, a_files_removal_fails),
    (Fault::FileGoesBeforeFlushIsWhole, a_file_is_judged_during_a_flush),
];

/// A log that is synced each second, with files of one commit.
fn log() -> LogWriter {
    let settings = Settings {
        syncs: Syncs::Every(1_000_000),
        file_bytes: 200,
        least_bytes: 0,
        share_percent: 0,
        judged_bytes: 1000,
    };
    LogWriter::new(settings, LogId([1; 16]), [], CommitNumber(0), MonotonicUs(0))
}

fn commit(log: &mut LogWriter, number: u64) {
    let _ = log.open();
    let _ = log.begin(CommitNumber(number), &[0; 200]);
    log.written();
}

fn sync(log: &mut LogWriter, number: u64) {
    log.synced(CommitNumber(number), MonotonicUs(number));
    let _ = log.close();
}

fn a_file_goes_while_its_survivors_are_not_synced() {
    let mut log = log();
    commit(&mut log, 1);
    sync(&mut log, 1);
    commit(&mut log, 2);
    log.cleaned(1, CommitNumber(2));
    assert_eq!(log.to_remove(), None, "G4: what is needed of it is not synced");
    sync(&mut log, 2);
    assert_eq!(log.to_remove(), Some(1));
}

fn a_commit_is_written_while_another_one_is_synced() {
    let mut log = log();
    commit(&mut log, 1);
    let begun = log.last_written();
    let _ = log.begin(CommitNumber(2), &[0; 200]);
    log.written();
    log.synced(begun, MonotonicUs(1));
    assert_eq!(log.last_synced(), CommitNumber(1), "G2: the sync had begun before");
}

/// A process wrote two commits and died; the power fails while the next one closes the file.
fn a_start_is_cut_short_while_it_closes_a_file() {
    let mut log = log();
    let mut bytes = log.open().expect("a new file").head;
    for number in 1..=2 {
        let write = log.begin(CommitNumber(number), &[7; 64]);
        bytes.extend_from_slice(&write.head);
        bytes.extend_from_slice(write.records);
        bytes.resize(bytes.len() + write.padding, 0);
        log.written();
    }
    let file = LogFile::open(&bytes, 1, None).expect("it has a head");
    let closing = file.blocks_and_closing(|_| ()).1;
    let mut left = bytes[..closing.at].to_vec();
    if !closing.syncs_before {
        // Nobody had synced it.
        left[FILE_HEAD_BYTES..].fill(0);
    }
    left.extend_from_slice(&closing.bytes);
    let end = LogFile::open(&left, 1, None).expect("it has a head").blocks(|_| ());
    assert_eq!(end, FileEnd::Closed, "G2: a block names what is not on the disk");
}

/// The steps of such a log, and its files.
struct Steps {
    steps: CommitSteps,
    files: BTreeMap<u64, Vec<u8>>,
    /// Which of them are to be there.
    recorded: FileSet,
    fails_to_remove: bool,
}

impl Steps {
    fn new() -> Steps {
        let recorded = FileSet { log: LogId([1; 16]), first: 1, last: 0 };
        let steps = CommitSteps::new(log(), MonotonicUs(0));
        Steps { steps, files: BTreeMap::new(), recorded, fails_to_remove: false }
    }

    /// With two files, the first of which is about to be judged.
    fn with_file_to_clean() -> Steps {
        let mut log = Steps::new();
        assert!(!log.round(1, true) && !log.round(2, true), "nothing is judged");
        assert_eq!(log.steps.file_to_read(|| 0), Some(1));
        log.steps.file_read(Ok(log.files[&1].clone())).expect("it is whole");
        log
    }

    /// Carries out the next step.
    fn carry_out(&mut self) -> bool {
        match self.steps.step() {
            Some(Step::Write(write)) => {
                let file = self.files.entry(write.file).or_default();
                file.extend_from_slice(&write.head);
                file.extend_from_slice(write.records);
                file.resize(file.len() + write.padding, 0);
            }
            Some(Step::Remove(_)) if self.fails_to_remove => {
                assert_eq!(self.steps.failed(), Failed::PutOff);
                return true;
            }
            Some(Step::Remove(file)) => drop(self.files.remove(&file)),
            Some(Step::Record(set)) => self.recorded = set,
            Some(_) => {}
            None => return false,
        }
        self.steps.done(MonotonicUs(0));
        true
    }

    /// A commit, synced. Returns whether a file of which nothing is left to judge waits for it.
    fn round(&mut self, number: u64, is_whole: bool) -> bool {
        while self.carry_out() {}
        let has_cleaned = self.steps.clean(|records, _, _| records.len());
        self.steps.take(|records| {
            records.extend_from_slice(&[0; 200]);
            Taken { commit: CommitNumber(number), is_whole }
        });
        while self.carry_out() {}
        self.steps.sync(MonotonicUs(0), true, true);
        while self.carry_out() {}
        self.steps.tidy(MonotonicUs(0), false);
        while self.carry_out() {}
        has_cleaned
    }
}

fn a_file_cannot_be_synced() {
    let mut log = Steps::new();
    while log.steps.step() != Some(Step::Sync) {
        log.carry_out();
    }
    assert_eq!(log.steps.failed(), Failed::BeginsAnew);
    assert_ne!(log.steps.step(), Some(Step::Sync), "G5: another file takes its place");
}

fn a_process_died_after_a_sync_had_failed() {
    let mut log = Steps::new();
    log.round(1, true);
    let file = LogFile::open(&log.files[&1], 1, None).expect("it has a head");
    let closing = file.blocks_and_closing(|_| ()).1;
    assert!(closing.writes_again, "G5: the system may have dropped what it has");
}

fn a_file_is_begun() {
    let (mut log, mut is_synced) = (Steps::new(), false);
    loop {
        match log.steps.step() {
            Some(Step::Record(set)) => assert!(set.last == 0 || is_synced, "G6: its head is synced first"),
            Some(Step::Sync) => is_synced = true,
            None => return,
            _ => {}
        }
        log.carry_out();
    }
}

fn a_files_removal_fails() {
    let mut log = Steps::with_file_to_clean();
    log.fails_to_remove = true;
    assert!(log.round(3, true));
    assert!(log.files.contains_key(&1) && log.recorded.first == 2, "it may be gone");
    log.round(4, true);
    assert_eq!(log.recorded.first, 2, "G6: it may be gone");
    log.fails_to_remove = false;
    log.round(5, true);
    assert!(!log.files.contains_key(&1));
}

fn a_file_is_judged_during_a_flush() {
    let mut log = Steps::with_file_to_clean();
    assert!(log.round(3, false));
    assert!(log.files.contains_key(&1), "U4: the flush may not be in the log");
    assert_eq!(log.steps.file_to_read(|| 0), None, "it is judged once");
    log.round(4, true);
    assert!(!log.files.contains_key(&1));
}

#[test]
fn stories_see_their_faults_and_end_well_without() {
    Fault::check_stories(env!("CARGO_PKG_NAME"), STORIES);
}
