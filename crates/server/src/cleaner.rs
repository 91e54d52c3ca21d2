//! The cleaner's thread: gives the log's dead bytes back, step by step, whenever there are any.

use crate::thread;
use sidle_store::{CleanOutcome, Store};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How much of the log one step goes through.
const STEP_BYTES: usize = 256 << 10;
/// How long to rest when there is nothing to clean.
const IDLE_REST: Duration = Duration::from_millis(10);
/// How long to rest while readers still use what was emptied.
const WAITING_REST: Duration = Duration::from_micros(200);

/// The running cleaner; ends when it is dropped.
pub(crate) struct CleanerThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CleanerThread {
    /// Starts the thread.
    pub(crate) fn start(store: Arc<Store>) -> io::Result<CleanerThread> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::start("cleaner".to_owned(), move || {
            thread::lower_priority();
            let mut cleaner = store.cleaner();
            while !stopped.load(Ordering::Relaxed) {
                match cleaner.step(STEP_BYTES) {
                    CleanOutcome::Progress => {}
                    CleanOutcome::Waiting => std::thread::sleep(WAITING_REST),
                    CleanOutcome::Idle => std::thread::park_timeout(IDLE_REST),
                }
            }
        })?;
        Ok(CleanerThread { stop, thread: Some(thread) })
    }
}

impl Drop for CleanerThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic would have ended the process.
            let _ = thread.join();
        }
    }
}
