//! Ctrl-C and SIGTERM as a flag, for commands that have something to put away before they end.

use crate::exit::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// A flag that is raised by the first Ctrl-C or SIGTERM.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let raised = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&raised);
    let runtime = crate::runtime()?;
    let (mut interrupt, mut terminate) = {
        let _context = runtime.enter();
        let listen = |kind| signal(kind).map_err(|error| Failure::refused(format!("cannot start: {error}")));
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            flag.store(true, Ordering::Relaxed);
            // A second one is for those who would rather not wait; what was started may be left behind.
            interrupt.recv().await;
            std::process::exit(130);
        });
    });
    Ok(raised)
}
