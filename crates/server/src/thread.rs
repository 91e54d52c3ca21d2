//! The node's threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};
use tokio::task::spawn_local;

/// How much lower than the workers' priority the cleaner's is, in the scheduler's nice levels.
const NICENESS: i32 = 10;

/// Starts a thread of the node. A panic on it is a broken invariant, and ends the process: a node that goes on without
/// one of its threads would hang its clients, and could not be told from a healthy one.
pub(crate) fn start(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.clone()).spawn(move || {
        // What a panic leaves half done is never looked at again.
        if catch_unwind(AssertUnwindSafe(body)).is_err() {
            end_node(&name);
        }
    })
}

/// Runs on the calling thread's runtime what else would have a thread of its own. A panic in it ends the process too.
pub(crate) fn run_beside_others(name: String, body: impl Future<Output = ()> + 'static) {
    let task = spawn_local(body);
    spawn_local(async move {
        if task.await.is_err_and(|error| error.is_panic()) {
            end_node(&name);
        }
    });
}

fn end_node(broken: &str) -> ! {
    tracing::error!("{broken} broke; the node ends");
    std::process::abort();
}

/// Lowers the calling thread's priority. Where the system knows only priorities of whole processes nothing is done.
pub(crate) fn lower_priority() {
    #[cfg(target_os = "linux")]
    // Linux takes "this process" to be the calling thread.
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!("the thread keeps its priority: {error}");
    }
}
