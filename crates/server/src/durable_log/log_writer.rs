//! The thread that makes commits.
//!
//! It takes what was written since the last commit, writes it, and reports it as safe; then the next. A
//! commit takes as long as its write, and its sync if each is synced, so whatever comes meanwhile shares the
//! next. With nothing to write it sleeps until somebody waits, or for a tenth of a second.
//!
//! What is done in which order, and what follows a failure, is [`CommitSteps`]'; here it is carried out.

use super::clean_stop::CleanStop;
use super::copies::CopiesInput;
use super::folder::Folder;
use super::recover::Resumed;
use super::requests::LogRequests;
use super::syncing::Syncing;
use crate::clock::Clock;
use crate::thread;
use sidle_log_copies::{Change, LogReport};
use sidle_log_files::{CommitSteps, Failed, LogWriter, Settings, Step, Syncs, Taken};
use sidle_node::NodeShared;
use sidle_store::{Commits, Store};
use sidle_types::LogId;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// How long it sleeps with nothing to do.
const IDLE_REST: Duration = Duration::from_millis(100);
/// How long it rests before a failed write is repeated.
const RETRY_REST: Duration = Duration::from_millis(100);
/// How often it is synced, where not always.
pub(crate) const SYNC_EVERY_US: u64 = 1_000_000;
/// The process's status when it ends while the log cannot be written.
const NOT_WRITTEN: i32 = 74;

/// What the thread needs.
pub(crate) struct LogWriterSetup {
    pub(crate) store: Arc<Store>,
    pub(crate) shared: Arc<NodeShared>,
    /// Wakes whoever waits for a commit.
    pub(crate) wake: Box<dyn Fn() + Send>,
    pub(crate) requests: Arc<LogRequests>,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    /// What its copies are to learn, if it has any: then a commit is safe when they have it.
    pub(crate) reports: Option<UnboundedSender<CopiesInput>>,
}

/// The log that it goes on with, and where its end is kept once the node is stopped.
struct Stopped {
    log: LogId,
    clean_stop: CleanStop,
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
        let requests = Arc::clone(&setup.requests);
        let woken = Arc::clone(&requests);
        let syncs = Syncing::start(move || woken.wake())?;
        let thread = thread::start("log-writer".to_owned(), move || {
            let Resumed { folder, log, files, last, repeated, .. } = resumed;
            let now = setup.clock.mono();
            let mut steps = CommitSteps::new(LogWriter::new(setup.settings, log, files, last, now), now);
            steps.skip(repeated);
            let end = Stopped { log, clean_stop: CleanStop::of(folder.path()) };
            Writing { setup, steps, folder, syncs, reading: None, stop: stopped, end }.run();
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

struct Writing {
    setup: LogWriterSetup,
    steps: CommitSteps,
    folder: Folder,
    syncs: Syncing,
    /// A file that is read for the cleaning.
    reading: Option<FileReading>,
    stop: Arc<AtomicBool>,
    end: Stopped,
}

impl Writing {
    fn run(mut self) {
        let store = Arc::clone(&self.setup.store);
        let commits = store.commits().expect("a durable store has commits");
        // A log has a file, and so its name, from its first start on: the node's identity knows it by that.
        self.carry_out();
        self.show();
        loop {
            let is_last = self.stop.load(Ordering::Acquire);
            self.setup.requests.take();
            let wrote = self.commit(&store, commits);
            self.sync(is_last);
            // Without records a commit is as safe as the one before.
            self.report(commits);
            self.steps.tidy(self.setup.clock.mono(), is_last);
            self.carry_out();
            if wrote {
                self.show();
            }
            if is_last {
                return self.note_end();
            }
            if !wrote && !self.setup.requests.is_any() {
                std::thread::park_timeout(IDLE_REST);
            }
        }
    }

    /// Keeps where the log ends (Y14), if nothing of it is open.
    fn note_end(&self) {
        if let Some(end) = self.steps.writer().closed_at() {
            self.end.clean_stop.keep(self.end.log, end);
        }
    }

    /// Writes what was written to the store since the last commit; whether there was anything.
    fn commit(&mut self, store: &Store, commits: &Commits) -> bool {
        self.read_to_clean();
        // Before the commit is taken: see `Store::survivors_of`.
        let has_cleaned =
            self.steps.clean(|records, most, survivors| store.survivors_of(records, most, survivors));
        let is_any = self.steps.take(|records| {
            let commit = commits.take(records);
            Taken { commit, is_whole: commits.is_whole(commit) }
        });
        // Behind that: whoever was told of another setting writes to this commit, or a later one.
        self.steps.set_syncs(self.syncs_as_set());
        self.carry_out();
        is_any || has_cleaned
    }

    /// Syncs if it is time. `is_last`: nothing follows.
    fn sync(&mut self, is_last: bool) {
        if let Some(result) = self.syncs.ended() {
            let follows = self.steps.sync_ended(result.is_ok(), self.setup.clock.mono());
            if let (Some(_), Err(error)) = (follows, result) {
                report_unsynced(&error);
            }
            self.carry_out();
        }
        let is_wanted = self.setup.shared.durability.is_sync_wanted();
        self.steps.sync(self.setup.clock.mono(), is_wanted, is_last);
        self.carry_out();
        let seconds = self.setup.clock.wall(self.steps.synced_at()).0 / 1000;
        self.setup.shared.durability.note_synced(self.steps.synced(), seconds);
    }

    /// Everything up to the last commit is safe, as far as this disk goes.
    fn report(&self, commits: &Commits) {
        let (commit, synced) = (self.steps.taken(), self.steps.synced());
        match &self.setup.reports {
            Some(_) => self.tell_copies(LogReport::SafeHere { commit, synced }, None),
            None if commits.set_safe(commit) => (self.setup.wake)(),
            None => {}
        }
    }

    fn tell_copies(&self, report: LogReport, begun: Option<File>) {
        if let Some(reports) = &self.setup.reports {
            // Without a receiver the node is ending.
            let _ = reports.send(CopiesInput::Report(report, begun));
        }
    }

    fn syncs_as_set(&self) -> Syncs {
        match self.setup.shared.config.syncs_always() {
            true => Syncs::Always,
            false => Syncs::Every(SYNC_EVERY_US),
        }
    }

    /// Carries out what is to be done now.
    fn carry_out(&mut self) {
        while let Some(step) = self.steps.step() {
            let (change, begins) = (Change::of(&step), matches!(&step, Step::Write(write) if write.at == 0));
            let result = match step {
                Step::Record(set) => self.folder.record(set),
                Step::Write(write) => self.folder.write(&write),
                Step::Sync => self.folder.sync(),
                Step::SyncNames => self.folder.sync_names(),
                Step::BeginSync => self.folder.handle().and_then(|file| self.syncs.begin(file)),
                Step::EndSync => self.syncs.wait(),
                Step::Check(set) => self.folder.check(set),
                Step::Remove(file) => self.folder.remove(file),
            };
            match result {
                Ok(()) => {
                    self.steps.done(self.setup.clock.mono());
                    if let Some(report) = change.report(self.steps.writer().last_written()) {
                        let begun = begins.then(|| self.folder.reading_handle()).flatten();
                        self.tell_copies(report, begun);
                    }
                    if !self.steps.fails() {
                        self.accept_writes();
                    }
                }
                Err(error) => match self.steps.failed() {
                    Failed::Repeats => self.refuse_writes(&error),
                    Failed::BeginsAnew => report_unsynced(&error),
                    Failed::PutOff => tracing::warn!("the durable log: {error}. It is tried again later"),
                },
            }
        }
    }

    /// The log cannot be written: commands that write are refused until it is tried again. A node that ends
    /// gives up.
    fn refuse_writes(&self, error: &io::Error) {
        let durability = &self.setup.shared.durability;
        let why = format!("{}: {error}", self.folder.path().display());
        if !durability.fails() {
            tracing::error!(
                "the durable log cannot be written, in {why}. Writes are refused until it can be"
            );
        }
        durability.set_failure(Some(&why));
        if self.stop.load(Ordering::Acquire) {
            tracing::error!("the node ends, and its last commit is not in the durable log: {error}");
            thread::speak_last();
            std::process::exit(NOT_WRITTEN);
        }
        std::thread::sleep(RETRY_REST);
    }

    fn accept_writes(&self) {
        let durability = &self.setup.shared.durability;
        if durability.fails() {
            tracing::info!("the durable log is written again");
            durability.set_failure(None);
        }
    }

    /// Begins to read a file that is to be cleaned, or takes what was read.
    fn read_to_clean(&mut self) {
        if let Some(file) = self.steps.file_to_read(|| self.setup.store.memory().log_live) {
            self.reading = Some(FileReading::start(file, self.folder.path_of(file)));
        }
        let Some(read) = self.reading.as_ref().and_then(FileReading::ended) else { return };
        let file = self.reading.take().expect("it was read").file;
        if let Err(why) = self.steps.file_read(read) {
            tracing::error!(
                "file {file} of the durable log cannot be cleaned: {why}. It is kept, and the log grows; what it \
                 had is in memory. Restart the node when convenient"
            );
        }
    }

    fn show(&self) {
        let durability = &self.setup.shared.durability;
        durability.file_bytes.store(self.steps.writer().bytes(), Ordering::Relaxed);
        durability.files.store(self.steps.writer().file_count() as u64, Ordering::Relaxed);
    }
}

fn report_unsynced(error: &io::Error) {
    tracing::error!(
        "the durable log cannot be synced: {error}. What was written since the last sync is written again, to a \
         new file"
    );
}

/// A file that is read on another thread: commits do not wait for it.
struct FileReading {
    file: u64,
    bytes: Receiver<Result<Vec<u8>, String>>,
}

impl FileReading {
    fn start(file: u64, path: PathBuf) -> FileReading {
        let (sender, bytes) = channel();
        let refused = sender.clone();
        let started = thread::start("log-reader".to_owned(), move || {
            thread::lower_priority();
            // Nobody waits for it if the node ends.
            let _ = sender.send(std::fs::read(path).map_err(|error| error.to_string()));
        });
        if let Err(error) = started {
            let _ = refused.send(Err(error.to_string()));
        }
        FileReading { file, bytes }
    }

    /// Its bytes, once they are read.
    fn ended(&self) -> Option<Result<Vec<u8>, String>> {
        match self.bytes.try_recv() {
            Ok(read) => Some(read),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err("its reader is gone".to_owned())),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
