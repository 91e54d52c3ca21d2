//! Tests of the tests: a scenario finds each known fault of the files.

use sidle_log_files::{FILE_HEAD_BYTES, FileEnd, LogFile, LogId, LogWriter, Settings, Syncs};
use sidle_types::{CommitNumber, Fault, MonotonicUs};

/// Every fault, with a scenario that holds only without it.
const STORIES: &[(Fault, fn())] = &[
    (Fault::FileGoesBeforeSurvivorsSynced, a_file_goes_while_its_survivors_are_not_synced),
    (Fault::SyncCoversWhatCameLater, a_commit_is_written_while_another_one_is_synced),
    (Fault::ClosedBeforeSynced, a_start_is_cut_short_while_it_closes_a_file),
];

/// A log that is synced each second, with files of one commit.
fn log() -> LogWriter {
    let settings =
        Settings { syncs: Syncs::Every(1_000_000), file_bytes: 200, least_bytes: 0, share_percent: 0 };
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

#[test]
fn stories_see_their_faults_and_end_well_without() {
    Fault::check_stories(env!("CARGO_PKG_NAME"), STORIES);
}
