//! The thread that makes commits.
//!
//! It takes what was written since the last commit, writes it, and reports it as safe; then the next. A
//! commit takes as long as its write, and its sync if each is synced, so whatever comes meanwhile shares the
//! next. With nothing to write it sleeps until somebody waits, or for a tenth of a second.
//!
//! Now and then the oldest file goes: what the store still has of it is written again with the next commits.
//!
//! A write that fails is repeated until it succeeds; meanwhile nothing is acknowledged, and commands that
//! write are refused. A file that cannot be synced may have lost what was written: it is never synced again,
//! and what is not known to be synced is written to a new file (G5), until that succeeds.

use super::cleaning::Cleaning;
use super::folder::Folder;
use super::kept::Kept;
use super::recover::Resumed;
use super::requests::LogRequests;
use super::syncing::Syncing;
use crate::clock::Clock;
use crate::thread;
use sidle_log_files::{LogWriter, Settings, Syncs, Write};
use sidle_node::NodeShared;
use sidle_store::{Commits, Store};
use sidle_types::{CommitNumber, MonotonicUs};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long it sleeps with nothing to do.
const IDLE_REST: Duration = Duration::from_millis(100);
/// How long it rests before a failed write is repeated.
const RETRY_REST: Duration = Duration::from_millis(100);
/// How often it is synced, where not always.
pub(crate) const SYNC_EVERY_US: u64 = 1_000_000;
/// How often it looks whether its files are still there.
const LOOK_EVERY_US: u64 = 3_000_000;
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
            let (cleaning, kept, cleaned) = (Cleaning::default(), Kept::default(), None);
            let (taken, looked_at) = (last, setup.clock.mono());
            let stop = stopped;
            Writing { setup, writer, folder, syncs, cleaning, kept, cleaned, taken, looked_at, stop }.run();
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
    writer: LogWriter,
    folder: Folder,
    syncs: Syncing,
    cleaning: Cleaning,
    kept: Kept,
    /// A file of which nothing is left to judge.
    cleaned: Option<u64>,
    /// The last commit that was taken.
    taken: CommitNumber,
    /// When it last looked after its files.
    looked_at: MonotonicUs,
    stop: Arc<AtomicBool>,
}

impl Writing {
    fn run(mut self) {
        let store = Arc::clone(&self.setup.store);
        let commits = store.commits().expect("a durable store has commits");
        self.begin_log();
        loop {
            let is_last = self.stop.load(Ordering::Acquire);
            self.setup.requests.take();
            let wrote = self.commit(commits);
            self.sync(is_last);
            // Without records a commit is as safe as the one before.
            if commits.set_safe(self.taken) {
                (self.setup.wake)();
            }
            if let Some(end) = self.writer.close() {
                self.end_file(&end);
            }
            self.remove_files();
            self.look_after_files();
            if wrote {
                self.show();
            }
            if is_last {
                if let Some(end) = self.writer.finish() {
                    self.end_file(&end);
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
        let (records, start) = self.kept.next();
        // Before the commit is taken: see `Store::is_current`.
        let cleaned = match self.cleaned {
            Some(_) => None,
            None => self.cleaning.step(&self.setup.store, &self.writer, &self.folder, records),
        };
        self.taken = commits.take(records);
        let bytes = records.len() - start;
        // Behind that: whoever was told of another setting writes to this commit, or a later one.
        self.writer.set_syncs(self.syncs_as_set());
        if bytes > 0 {
            if let Some(head) = self.writer.open() {
                self.begin_file(&head);
            }
            self.kept.end(self.taken);
            self.write_commit(start);
        }
        self.cleaned = self.cleaned.or(cleaned);
        // What was removed by half is needed until the log has the whole removal (U4).
        if let Some(file) = self.cleaned.take_if(|_| commits.is_whole(self.taken)) {
            self.writer.cleaned(file, self.writer.last_written());
        }
        self.cleaning.note_commit(bytes);
        bytes > 0 || cleaned.is_some()
    }

    /// A log has a file, and so its name, from its first start on: the node's identity knows it by that.
    fn begin_log(&mut self) {
        if self.writer.file().is_none()
            && let Some(head) = self.writer.open()
        {
            self.begin_file(&head);
        }
    }

    /// Begins a file before its first commit is kept.
    fn begin_file(&mut self, head: &Write<'_>) {
        let set = self.writer.file_set();
        self.insist(|folder| folder.record(set.before(head.file)));
        self.insist(|folder| folder.write(head));
        if let Err(error) = self.folder.sync().and_then(|()| self.folder.sync_names()) {
            self.renew(&error);
        }
        // G6: its head is synced, and it has no commit.
        let set = self.writer.file_set();
        self.insist(|folder| folder.record(set));
    }

    /// Writes the last commit, whose records begin here among those that are kept.
    fn write_commit(&mut self, start: usize) {
        let kept = std::mem::take(&mut self.kept);
        let write = self.writer.begin(self.taken, kept.from(start));
        self.insist(|folder| folder.write(&write));
        self.writer.written();
        self.kept = kept;
    }

    /// Syncs if it is time. `is_last`: nothing follows.
    fn sync(&mut self, is_last: bool) {
        if let Some((commit, result)) = self.syncs.ended() {
            self.synced(commit, result);
        }
        let now = self.setup.clock.mono();
        let is_wanted = is_last || self.setup.shared.durability.is_sync_wanted();
        let due = self.writer.is_sync_due(now);
        let Some(commit) = due.or(is_wanted.then(|| self.writer.last_written())) else { return };
        if commit == self.writer.last_synced() {
            return self.note_synced(commit);
        }
        let waits = self.writer.syncs() == Syncs::Always || self.writer.is_full() || is_last;
        if waits {
            self.sync_now();
        } else if !self.syncs.is_under_way() {
            match self.folder.handle() {
                Ok(Some(file)) => self.syncs.begin(commit, file),
                Ok(None) => {}
                Err(error) => tracing::warn!("the durable log is synced later: {error}"),
            }
        }
    }

    /// Syncs everything that was written.
    fn sync_now(&mut self) {
        if let Some((commit, result)) = self.syncs.wait() {
            self.synced(commit, result);
        }
        if self.writer.last_synced() < self.writer.last_written() {
            let result = self.folder.sync();
            self.synced(self.writer.last_written(), result);
        }
    }

    fn synced(&mut self, commit: CommitNumber, result: io::Result<()>) {
        match result {
            Ok(()) => self.note_synced(commit),
            Err(error) => self.renew(&error),
        }
    }

    fn note_synced(&mut self, commit: CommitNumber) {
        let now = self.setup.clock.mono();
        self.writer.synced(commit, now);
        self.kept.synced(commit);
        let seconds = self.setup.clock.wall(now).0 / 1000;
        // Without records a commit is as synced as the one before.
        let is_all = self.writer.last_synced() == self.writer.last_written();
        self.setup.shared.durability.note_synced(if is_all { self.taken } else { commit }, seconds);
    }

    /// A file could not be synced. What is not known to be synced is written to a new one; what cannot be is
    /// tried again, with another file each time.
    fn renew(&mut self, error: &io::Error) {
        tracing::error!(
            "the durable log cannot be synced: {error}. What was written since the last sync is written again, to a \
             new file"
        );
        while let Err(error) = self.write_anew() {
            self.refuse_writes(&error);
        }
        self.accept_writes();
    }

    fn write_anew(&mut self) -> io::Result<()> {
        self.writer.give_up_file();
        self.folder.forget_open();
        let head = self.writer.open().expect("the last file was given up");
        let set = self.writer.file_set();
        // G6: the one that was begun before may have had the same number.
        self.folder.record(set.before(head.file))?;
        self.folder.write(&head)?;
        self.folder.sync()?;
        self.folder.sync_names()?;
        self.folder.record(set)?;
        let Some((commit, records)) = self.kept.all() else { return Ok(()) };
        let write = self.writer.begin(commit, records);
        self.folder.write(&write)?;
        self.writer.written();
        self.folder.sync()?;
        self.note_synced(commit);
        Ok(())
    }

    fn syncs_as_set(&self) -> Syncs {
        match self.setup.shared.config.syncs_always() {
            true => Syncs::Always,
            false => Syncs::Every(SYNC_EVERY_US),
        }
    }

    /// Writes the end of a file that is synced.
    fn end_file(&mut self, end: &Write<'_>) {
        self.insist(|folder| folder.write(end));
        if let Err(error) = self.folder.sync() {
            self.renew(&error);
        }
    }

    /// Does it until it succeeds.
    fn insist(&mut self, mut act: impl FnMut(&mut Folder) -> io::Result<()>) {
        while let Err(error) = act(&mut self.folder) {
            self.refuse_writes(&error);
        }
        self.accept_writes();
    }

    /// The log cannot be written: commands that write are refused until it is tried again. A node that ends
    /// gives up.
    fn refuse_writes(&self, error: &io::Error) {
        let durability = &self.setup.shared.durability;
        if !durability.fails() {
            tracing::error!("the durable log cannot be written: {error}. Writes are refused until it can be");
        }
        durability.set_failure(Some(&error.to_string()));
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

    /// Now and then: ensures that the next start finds what is written.
    fn look_after_files(&mut self) {
        let now = self.setup.clock.mono();
        if now.since(self.looked_at) >= LOOK_EVERY_US {
            let set = self.writer.file_set();
            self.insist(|folder| folder.check(set));
            self.looked_at = now;
        }
    }

    fn remove_files(&mut self) {
        while let Some(file) = self.writer.to_remove() {
            let set = self.writer.file_set().behind(file);
            if let Err(error) = self.folder.record(set).and_then(|()| self.folder.remove(file)) {
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

#[cfg(test)]
mod tests;
