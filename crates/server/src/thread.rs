//! The node's threads.

use std::borrow::Cow;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How much lower the cleaner's priority is than the workers', in the scheduler's nice levels.
const NICENESS: i32 = 10;

/// How long a node that ends at once waits for its log.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Starts a thread of the node. A panic on it is a broken invariant, and ends the process: without one
/// of its threads a node would hang its clients, and look like a healthy one.
pub(crate) fn start(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.clone()).spawn(move || {
        // A panic's half-done work is never used again.
        if catch_unwind(AssertUnwindSafe(body)).is_err() {
            end_node(&name);
        }
    })
}

/// Starts a task on the calling thread's runtime, which would only record a panic. Here it ends the
/// process, as on a thread: the task shares what it broke with all others.
pub(crate) fn start_task(name: impl Into<Cow<'static, str>>, body: impl Future<Output = ()> + 'static) {
    let name = name.into();
    tokio::task::spawn_local(async move {
        let mut body = pin!(body);
        std::future::poll_fn(|context| {
            // A panic's half-done work is never used again.
            catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(context))).unwrap_or_else(|_| end_node(&name))
        })
        .await;
    });
}

/// Waits until what was logged is written: the log has a thread of its own. The process is about to end.
pub(crate) fn speak_last() {
    std::thread::sleep(LAST_WORDS);
}

fn end_node(broken: &str) -> ! {
    tracing::error!("{broken} broke; the node ends");
    speak_last();
    std::process::abort();
}

/// Lowers the calling thread's priority. Does nothing where the system has only priorities of whole
/// processes.
pub(crate) fn lower_priority() {
    #[cfg(target_os = "linux")]
    // Linux takes "this process" to be the calling thread.
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!("the thread keeps its priority: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const IS_CHILD: &str = "SIDLE_TEST_TASK_PANICS";

    /// Runs this test in a process of its own, which must end.
    #[test]
    fn a_panic_in_a_task_ends_the_process() {
        if std::env::var_os(IS_CHILD).is_some() {
            let runtime = tokio::runtime::Builder::new_current_thread().build_local(Default::default());
            runtime.expect("a runtime").block_on(async {
                start_task("a task", async {
                    tokio::task::yield_now().await;
                    panic!("a broken invariant");
                });
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
            });
            return;
        }
        let test = "thread::tests::a_panic_in_a_task_ends_the_process";
        let program = std::env::current_exe().expect("this program");
        let output =
            Command::new(program).args(["--exact", test]).env(IS_CHILD, "1").output().expect("it starts");
        assert!(!output.status.success(), "it went on: {output:?}");
        assert_eq!(output.status.code(), None, "it was ended by a signal: {output:?}");
    }
}
