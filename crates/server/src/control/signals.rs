//! The signals that stop a node, and one that must not.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop a node.
pub(super) struct Stop {
    interrupt: Signal,
    terminate: Signal,
    /// Raised by a write beyond the limit of a file's size (`ulimit -f`). The write fails as well, and is
    /// reported where it was made; the signal alone would end the process without a message.
    _file_size: Signal,
}

impl Stop {
    /// From here on the signals alone do not end the process.
    pub(super) fn listen() -> io::Result<Stop> {
        Ok(Stop {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            _file_size: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        })
    }

    /// Waits for either signal and returns its name.
    pub(super) async fn requested(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grows_too_long_does_not_end_the_process() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _stop = runtime.block_on(async { Stop::listen() }).unwrap();
        // By default the process would end here.
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::XFSZ).unwrap();
    }
}
