//! The thread that reads the log while clients are answered already, and then starts what writes it.

use super::clean_stop::CleanStop;
use super::copies::{CopiesInput, CopiesSetup, CopiesThread, Followed, ReclaimError, Reclaiming};
use super::log_writer::{LogWriterSetup, LogWriterThread};
use super::recover::{Reader, RecoverError};
use crate::cleaner::CleanerThread;
use crate::thread;
use sidle_cluster::TabletMap;
use sidle_node::CopiesRecord;
use sidle_types::LogId;
use sidle_types::words::counted;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedSender;

/// What the thread needs.
pub(crate) struct LoaderSetup {
    /// The log's folder.
    pub(crate) path: PathBuf,
    /// Whether damaged files are read as far as they can be.
    pub(crate) salvages: bool,
    /// How many threads replay.
    pub(crate) threads: usize,
    /// For the log writer.
    pub(crate) writer: LogWriterSetup,
    /// For the thread that has the log's copies follow it, with a sender of its input.
    pub(crate) copies: (CopiesSetup, UnboundedSender<CopiesInput>),
    /// The map of an earlier incarnation, by which the copies are found.
    pub(crate) last_map: Option<Arc<TabletMap>>,
    /// Whether the log may have copies.
    pub(crate) had_copies: bool,
    /// Whether the log is the one that the start before went on with.
    pub(crate) is_known: bool,
    /// Called at the end of it, unless the node ends before.
    pub(crate) report: Box<dyn FnOnce(Result<LogId, RecoverError>) + Send>,
}

/// The threads that work for the durable log: first the reader, then the writer and the memory's cleaner.
/// When it is dropped, reading ends where it is, or everything that was written is synced.
pub(crate) struct DurableLogThreads {
    stop: Arc<AtomicBool>,
    loader: Option<JoinHandle<()>>,
    started: Receiver<Started>,
}

impl DurableLogThreads {
    /// Starts to read.
    pub(crate) fn start(setup: LoaderSetup) -> io::Result<DurableLogThreads> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (sender, started) = channel();
        let loader = thread::start("log-loader".to_owned(), move || {
            let LoaderSetup { path, salvages, threads, writer, copies, report, .. } = setup;
            let (last_map, had_copies, is_known) = (setup.last_map, setup.had_copies, setup.is_known);
            let shared = Arc::clone(&writer.shared);
            let stop = &stopped;
            let loading = Loading { path: &path, salvages, threads, last_map, had_copies, is_known, stop };
            match loading.load(writer, copies) {
                Ok(Some(Loaded { log, threads })) => {
                    // Whoever drops the receiver waits for this thread before.
                    let _ = sender.send(threads);
                    shared.loading.end();
                    report(Ok(log));
                }
                Ok(None) => {}
                Err(error) => report(Err(error)),
            }
        })?;
        Ok(DurableLogThreads { stop, loader: Some(loader), started })
    }
}

impl Drop for DurableLogThreads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(loader) = self.loader.take() {
            // A panic would have ended the process.
            let _ = loader.join();
        }
        // The log writer first.
        drop(self.started.try_recv());
    }
}

/// Who works on a log that was read, in the order in which they end.
struct Started {
    _writer: LogWriterThread,
    _copies: Option<CopiesThread>,
    _cleaner: CleanerThread,
}

/// A log that was read.
struct Loaded {
    log: LogId,
    threads: Started,
}

/// A log that is read.
struct Loading<'l> {
    path: &'l Path,
    salvages: bool,
    threads: usize,
    last_map: Option<Arc<TabletMap>>,
    had_copies: bool,
    is_known: bool,
    stop: &'l AtomicBool,
}

impl Loading<'_> {
    /// Reads the log, and starts who writes it; nothing if the node ends meanwhile.
    fn load(
        self,
        mut writer: LogWriterSetup,
        (copies, copies_input): (CopiesSetup, UnboundedSender<CopiesInput>),
    ) -> Result<Option<Loaded>, RecoverError> {
        let kept = self.reclaim(&copies)?;
        let began = Instant::now();
        let (store, shared) = (Arc::clone(&writer.store), Arc::clone(&writer.shared));
        let Loading { path, salvages, threads, stop, .. } = self;
        let reader = Reader { path, store: &store, salvages, threads, stop, progress: &shared.loading };
        let resumed = match reader.recover() {
            Ok(resumed) => resumed,
            Err(RecoverError::Stopped) => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Err(error) = CleanStop::of(path).forget() {
            tracing::warn!("what was kept of the last stop cannot be removed: {error}");
        }
        let commits = store.commits().expect("a durable store has commits");
        let has_copies = kept.needs_copies() || kept.is_lost || copies.wanted > 0;
        commits.resume(resumed.last, !has_copies);
        let bytes: u64 = resumed.files.iter().map(|(_, bytes)| bytes).sum();
        if bytes > 0 {
            let values = counted(resumed.recovered.values as usize, "value");
            let ms = began.elapsed().as_millis();
            tracing::info!("recovered {values} from {} MiB of log in {ms} ms", bytes >> 20);
        }
        shared.durability.recovered_values.store(resumed.recovered.values, Ordering::Relaxed);
        let log = resumed.log;
        let threads = RecoverError::Threads;
        let copies = match has_copies {
            true => {
                let files = resumed.files.clone();
                let followed = Followed { path: path.to_owned(), log, files, last: resumed.last, kept };
                writer.reports = Some(copies_input.clone());
                Some(CopiesThread::start(copies, copies_input, followed).map_err(threads)?)
            }
            false => None,
        };
        let cleaner = CleanerThread::start(Arc::clone(&store)).map_err(threads)?;
        let writer = LogWriterThread::start(writer, resumed).map_err(threads)?;
        Ok(Some(Loaded { log, threads: Started { _writer: writer, _copies: copies, _cleaner: cleaner } }))
    }

    /// Takes from the log's copies what this disk lacks. What is known of them.
    fn reclaim(&self, copies: &CopiesSetup) -> Result<CopiesRecord, RecoverError> {
        let reclaiming = Reclaiming {
            path: self.path.to_owned(),
            node: copies.node,
            door: copies.door.clone(),
            shared: Arc::clone(&copies.parts.shared),
            clock: copies.clock,
            had_copies: self.had_copies,
            is_known: self.is_known,
            map: self.last_map.clone(),
        };
        let reclaimed = reclaiming.run(self.salvages, self.stop);
        reclaimed.map_err(|error| match error {
            ReclaimError::Refused(error) => RecoverError::Refused { path: self.path.to_owned(), error },
            ReclaimError::Deposed(log) => RecoverError::Deposed { path: self.path.to_owned(), log },
        })
    }
}
