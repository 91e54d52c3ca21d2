//! The thread that reads the log while clients are answered already, and then starts what writes it.

use super::log_writer::{LogWriterSetup, LogWriterThread};
use super::recover::{Reader, RecoverError};
use crate::cleaner::CleanerThread;
use crate::thread;
use sidle_types::LogId;
use sidle_types::words::counted;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Instant;

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
    /// Called at the end of it, unless the node ends before.
    pub(crate) report: Box<dyn FnOnce(Result<LogId, RecoverError>) + Send>,
}

/// The threads that work for the durable log: first the reader, then the writer and the memory's cleaner.
/// When it is dropped, reading ends where it is, or everything that was written is synced.
pub(crate) struct DurableLogThreads {
    stop: Arc<AtomicBool>,
    loader: Option<JoinHandle<()>>,
    started: Receiver<(LogWriterThread, CleanerThread)>,
}

impl DurableLogThreads {
    /// Starts to read.
    pub(crate) fn start(setup: LoaderSetup) -> io::Result<DurableLogThreads> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (sender, started) = channel();
        let loader = thread::start("log-loader".to_owned(), move || {
            let LoaderSetup { path, salvages, threads, writer, report } = setup;
            let shared = Arc::clone(&writer.shared);
            match load(&path, (salvages, threads), writer, &stopped) {
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

/// A log that was read, and who works on it from then on.
struct Loaded {
    log: LogId,
    threads: (LogWriterThread, CleanerThread),
}

/// Reads the log, and starts who writes it; nothing if the node ends meanwhile.
fn load(
    path: &Path,
    (salvages, threads): (bool, usize),
    writer: LogWriterSetup,
    stop: &AtomicBool,
) -> Result<Option<Loaded>, RecoverError> {
    let began = Instant::now();
    let (store, shared) = (Arc::clone(&writer.store), Arc::clone(&writer.shared));
    let reader = Reader { path, store: &store, salvages, threads, stop, loading: &shared.loading };
    let resumed = match reader.recover() {
        Ok(resumed) => resumed,
        Err(RecoverError::Stopped) => return Ok(None),
        Err(error) => return Err(error),
    };
    let commits = store.commits().expect("a durable store has commits");
    commits.resume(resumed.last, true);
    let bytes: u64 = resumed.files.iter().map(|(_, bytes)| bytes).sum();
    if bytes > 0 {
        let values = counted(resumed.recovered.values as usize, "value");
        let ms = began.elapsed().as_millis();
        tracing::info!("recovered {values} from {} MiB of log in {ms} ms", bytes >> 20);
    }
    shared.durability.recovered_values.store(resumed.recovered.values, Ordering::Relaxed);
    let cleaner = CleanerThread::start(Arc::clone(&store)).map_err(RecoverError::Threads)?;
    let log = resumed.log;
    let writer = LogWriterThread::start(writer, resumed).map_err(RecoverError::Threads)?;
    Ok(Some(Loaded { log, threads: (writer, cleaner) }))
}
