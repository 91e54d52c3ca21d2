//! A thread with a runtime of its own, that is given inputs. When this is dropped it is told to stop, and
//! waited for.

use crate::thread;
use std::io;
use std::thread::JoinHandle;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::UnboundedSender;

/// The running thread.
pub(super) struct Running<T> {
    inputs: UnboundedSender<T>,
    /// What tells it to stop.
    stop: Option<T>,
    thread: Option<JoinHandle<()>>,
}

impl<T> Running<T> {
    /// Starts it.
    pub(super) fn start<F: Future<Output = ()>>(
        name: &str,
        (inputs, stop): (UnboundedSender<T>, T),
        body: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<Running<T>> {
        let thread = thread::start(name.to_owned(), move || {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .build_local(LocalOptions::default())
                .expect("a runtime needs only an epoll descriptor");
            runtime.block_on(async { body().await });
        })?;
        Ok(Running { inputs, stop: Some(stop), thread: Some(thread) })
    }

    /// Where its inputs go.
    pub(super) fn inputs(&self) -> UnboundedSender<T> {
        self.inputs.clone()
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended.
            let _ = self.inputs.send(stop);
        }
        if let Some(thread) = self.thread.take() {
            // A panic would have ended the process.
            let _ = thread.join();
        }
    }
}
