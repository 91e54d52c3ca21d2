//! Ctrl-C and SIGTERM: as a flag, for commands that clean up before they end, and as a
//! signal each, for those that print a message.

use crate::exit::Failure;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A flag that is raised by the first Ctrl-C or SIGTERM.
///
/// # Errors
/// The system provides no signals.
pub fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let raised = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&raised);
    let runtime = crate::runtime()?;
    let (mut interrupt, mut terminate) = {
        let _context = runtime.enter();
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            flag.store(true, Ordering::Relaxed);
            // A second one is for users who would rather not wait; started processes may be left behind.
            interrupt.recv().await;
            std::process::exit(130);
        });
    });
    Ok(raised)
}

/// Every Ctrl-C from now on.
///
/// # Errors
/// The system provides no signals.
pub fn interrupts() -> Result<Signal, Failure> {
    listen(SignalKind::interrupt())
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::refused(format!("cannot start: {error}")))
}

/// Raises the flag when the standard input ends, as it does when the program that started this one ends in
/// any way.
pub fn raise_when_stdin_ends(flag: &Arc<AtomicBool>) {
    let flag = Arc::clone(flag);
    std::thread::spawn(move || {
        let mut ignored = [0; 256];
        while !matches!(std::io::stdin().read(&mut ignored), Ok(0) | Err(_)) {}
        flag.store(true, Ordering::Relaxed);
    });
}
