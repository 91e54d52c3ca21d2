//! The cleaner's thread: gives the log's dead bytes back, step by step, whenever there are any.

use crate::priority;
use sidle_store::{CleanOutcome, Store};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How much of the log one step goes through.
const STEP_BYTES: usize = 256 << 10;
/// How long to rest when there is nothing to clean.
const IDLE_REST: Duration = Duration::from_millis(10);
/// How long to rest when readers are still in what was emptied.
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
        let thread = Builder::new().name("cleaner".to_owned()).spawn(move || {
            priority::lower_this_thread();
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
            // The cleaner does not panic; if it did, that was reported on its own thread.
            let _ = thread.join();
        }
    }
}
