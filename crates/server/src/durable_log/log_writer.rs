//! The thread that makes commits.
//!
//! It takes what was written since the last commit, writes it, and reports it as safe; then the next. A
//! commit takes as long as its write, and its sync if each is synced, so whatever comes meanwhile shares the
//! next. With nothing to write it sleeps until somebody waits, or for a tenth of a second.
//!
//! Now and then the oldest file goes: what the store still has of it is written again with the next commits.
//!
//! A write that fails is repeated until it succeeds; meanwhile nothing is acknowledged, and commands that
//! write are refused. A sync that fails may have lost what was written: the process ends, since only a start
//! tells what is there.

use super::cleaning::Cleaning;
use super::folder::Folder;
use super::recover::Resumed;
use super::requests::LogRequests;
use crate::clock::Clock;
use crate::thread;
use sidle_log_files::{LogWriter, Settings, Syncs, Write};
use sidle_node::NodeShared;
use sidle_store::{Commits, Store};
use sidle_types::CommitNumber;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long it sleeps with nothing to do.
const IDLE_REST: Duration = Duration::from_millis(100);
/// How long it rests before a failed write is repeated.
const RETRY_REST: Duration = Duration::from_millis(100);
/// The process's status when a sync has failed.
const SYNC_FAILED: i32 = 74;

/// What the thread needs.
pub(crate) struct LogWriterSetup {
    pub(crate) store: Arc<Store>,
    pub(crate) shared: Arc<NodeShared>,
    /// Wakes whoever waits for a commit.
    pub(crate) wake: Box<dyn Fn() + Send>,
    pub(crate) requests: Arc<LogRequests>,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
}

/// The running thread. When it is dropped, everything that was written is synced.
pub(crate) struct LogWriterThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LogWriterThread {
    /// Starts the thread.
    pub(crate) fn start(setup: LogWriterSetup, resumed: Resumed) -> io::Result<LogWriterThread> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let syncs = Syncing::start()?;
        let requests = Arc::clone(&setup.requests);
        let thread = thread::start("log-writer".to_owned(), move || {
            let Resumed { folder, log, files, last, .. } = resumed;
            let writer = LogWriter::new(setup.settings, log, files, last, setup.clock.mono());
            let (cleaning, records) = (Cleaning::default(), Vec::new());
            Writing { setup, writer, folder, syncs, cleaning, records, taken: last, stop: stopped }.run();
        })?;
        requests.go_to(thread.thread().clone());
        Ok(LogWriterThread { stop, thread: Some(thread) })
    }
}

impl Drop for LogWriterThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic would have ended the process.
            let _ = thread.join();
        }
    }
}

/// Syncs on a thread of its own, so that writes go on meanwhile.
struct Syncing {
    requests: Sender<(CommitNumber, File)>,
    results: Receiver<(CommitNumber, io::Result<()>)>,
    is_under_way: bool,
}

impl Syncing {
    fn start() -> io::Result<Syncing> {
        let (requests, queue) = channel::<(CommitNumber, File)>();
        let (sender, results) = channel();
        thread::start("log-sync".to_owned(), move || {
            for (commit, file) in queue {
                if sender.send((commit, file.sync_data())).is_err() {
                    return;
                }
            }
        })?;
        Ok(Syncing { requests, results, is_under_way: false })
    }

    fn begin(&mut self, commit: CommitNumber, file: File) {
        self.is_under_way = self.requests.send((commit, file)).is_ok();
    }

    fn take_result(&mut self) -> Option<(CommitNumber, io::Result<()>)> {
        let result = self.results.try_recv().ok()?;
        self.is_under_way = false;
        Some(result)
    }
}

/// A sync failed: nobody knows what is on the disk.
fn give_up(error: &io::Error) -> ! {
    tracing::error!(
        "the durable log cannot be synced: {error}. The node ends, since what was written last may be lost; what \
         was synced is read at the next start"
    );
    thread::speak_last();
    std::process::exit(SYNC_FAILED);
}

struct Writing {
    setup: LogWriterSetup,
    writer: LogWriter,
    folder: Folder,
    syncs: Syncing,
    cleaning: Cleaning,
    records: Vec<u8>,
    /// The last commit that was taken.
    taken: CommitNumber,
    stop: Arc<AtomicBool>,
}

impl Writing {
    fn run(mut self) {
        let store = Arc::clone(&self.setup.store);
        let commits = store.commits().expect("a durable store has commits");
        loop {
            let is_last = self.stop.load(Ordering::Acquire);
            self.setup.requests.take();
            let wrote = self.commit(commits);
            self.sync(is_last);
            // Without records a commit is as safe as the one before.
            commits.set_safe(self.taken);
            (self.setup.wake)();
            if let Some(end) = self.writer.close() {
                self.write_and_sync(&end);
            }
            self.remove_files();
            if wrote {
                self.show();
            }
            if is_last {
                if let Some(end) = self.writer.finish() {
                    self.write_and_sync(&end);
                }
                return;
            }
            if !wrote && !self.setup.requests.is_any() {
                std::thread::park_timeout(IDLE_REST);
            }
        }
    }

    /// Writes what was written to the store since the last commit; whether there was anything.
    fn commit(&mut self, commits: &Commits) -> bool {
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        // Before the commit is taken: see `Store::is_current`.
        let cleaned = self.cleaning.step(&self.setup.store, &self.writer, &self.folder, &mut records);
        self.taken = commits.take(&mut records);
        let is_any = !records.is_empty();
        if is_any {
            if let Some(head) = self.writer.open() {
                self.write_and_sync(&head);
                self.insist(|folder| folder.sync_names());
            }
            let write = self.writer.begin(self.taken, &records);
            self.insist(|folder| folder.write(&write));
            self.writer.written();
        }
        if let Some(file) = cleaned {
            self.writer.cleaned(file, self.writer.last_written());
        }
        self.cleaning.note_commit(records.len());
        self.records = records;
        is_any || cleaned.is_some()
    }

    /// Syncs if it is time. `is_last`: nothing follows.
    fn sync(&mut self, is_last: bool) {
        while let Some((commit, result)) = self.syncs.take_result() {
            self.synced(commit, result);
        }
        let now = self.setup.clock.mono();
        let Some(commit) = self.writer.is_sync_due(now).or(is_last.then(|| self.writer.last_written()))
        else {
            return;
        };
        let waits = self.setup.settings.syncs == Syncs::Always || self.writer.is_full() || is_last;
        if waits {
            self.synced(commit, self.folder.sync());
        } else if !self.syncs.is_under_way {
            match self.folder.handle() {
                Ok(Some(file)) => self.syncs.begin(commit, file),
                Ok(None) => {}
                Err(error) => tracing::warn!("the durable log is synced later: {error}"),
            }
        }
    }

    fn synced(&mut self, commit: CommitNumber, result: io::Result<()>) {
        result.unwrap_or_else(|error| give_up(&error));
        let now = self.setup.clock.mono();
        self.writer.synced(commit, now);
        let seconds = self.setup.clock.wall(now).0 / 1000;
        self.setup.shared.durability.note_synced(commit, seconds);
    }

    fn write_and_sync(&mut self, write: &Write<'_>) {
        self.insist(|folder| folder.write(write));
        self.folder.sync().unwrap_or_else(|error| give_up(&error));
    }

    /// Does it until it succeeds; a node that ends does it once more, and gives up.
    fn insist(&mut self, mut act: impl FnMut(&mut Folder) -> io::Result<()>) {
        let durability = &self.setup.shared.durability;
        while let Err(error) = act(&mut self.folder) {
            if !durability.fails() {
                tracing::error!(
                    "the durable log cannot be written: {error}. Writes are refused until it can be"
                );
            }
            durability.set_failure(Some(&error.to_string()));
            if self.stop.load(Ordering::Acquire) {
                tracing::error!("the node ends, and its last commit is not in the durable log: {error}");
                thread::speak_last();
                std::process::exit(SYNC_FAILED);
            }
            std::thread::sleep(RETRY_REST);
        }
        if durability.fails() {
            tracing::info!("the durable log is written again");
            durability.set_failure(None);
        }
    }

    fn remove_files(&mut self) {
        while let Some(file) = self.writer.to_remove() {
            if let Err(error) = self.folder.remove(file) {
                tracing::warn!("file {file} of the durable log cannot be removed, and is kept: {error}");
                return;
            }
            self.writer.removed(file);
        }
    }

    fn show(&self) {
        let durability = &self.setup.shared.durability;
        durability.file_bytes.store(self.writer.bytes(), Ordering::Relaxed);
        durability.files.store(self.writer.file_count() as u64, Ordering::Relaxed);
    }
}
