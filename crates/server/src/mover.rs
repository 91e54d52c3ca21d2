//! Mover threads.

use tokio::sync::Notify;

/// What other threads hold of a mover.
#[derive(Debug, Default)]
pub(crate) struct MoverLink {
    notify: Notify,
}

impl MoverLink {
    /// Makes the mover look at its queues.
    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }
}
