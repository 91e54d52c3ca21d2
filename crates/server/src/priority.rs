//! The priority of threads that must not disturb the workers.

/// How much lower than the workers' priority that of movers and cleaner is, in the scheduler's nice levels.
const NICENESS: i32 = 10;

/// Lowers the calling thread's priority. Where the system knows only priorities of whole processes nothing is done.
pub(crate) fn lower_this_thread() {
    #[cfg(target_os = "linux")]
    // Linux takes "this process" to be the calling thread.
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!("the thread keeps its priority: {error}");
    }
}
