//! The node's threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};

/// How much lower than the workers' priority the cleaner's is, in the scheduler's nice levels.
const NICENESS: i32 = 10;

/// Starts a thread of the node. A panic on it is a broken invariant, and ends the process: a node that goes on without
/// one of its threads would hang its clients, and could not be told from a healthy one.
pub(crate) fn start(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.clone()).spawn(move || {
        // What a panic leaves half done is never looked at again.
        if catch_unwind(AssertUnwindSafe(body)).is_err() {
            tracing::error!("{name} broke; the node ends");
            std::process::abort();
        }
    })
}

/// Lowers the calling thread's priority. Where the system knows only priorities of whole processes nothing is done.
pub(crate) fn lower_priority() {
    #[cfg(target_os = "linux")]
    // Linux takes "this process" to be the calling thread.
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!("the thread keeps its priority: {error}");
    }
}
