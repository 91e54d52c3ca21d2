//! The processors that a node's threads run on.

use crate::config::CpuList;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// Why a node cannot run on its configured processors.
#[derive(Debug, thiserror::Error)]
pub enum CpusError {
    /// They do not exist, or not for this process.
    #[error("cannot run on processors {missing}: this process may use {allowed}. Choose others")]
    NotAllowed {
        /// The processors of the list that it may not use.
        missing: CpuList,
        /// The processors that it may use.
        allowed: String,
    },
    /// The operating system refused.
    #[error("cannot choose the processors to run on: {0}")]
    System(#[from] io::Error),
}

/// Whether this process, and so every node that it starts, may run on these processors.
///
/// # Errors
/// The processors that it may not run on.
pub fn check_cpus(list: &CpuList) -> Result<(), CpusError> {
    let allowed = sched_getaffinity(None).map_err(io::Error::from)?;
    if let Some(missing) = CpuList::new(list.iter().filter(|&cpu| !allowed.is_set(cpu))) {
        let allowed = CpuList::new((0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)));
        let allowed = allowed.map_or_else(|| "none".to_owned(), |allowed| allowed.to_string());
        return Err(CpusError::NotAllowed { missing, allowed });
    }
    Ok(())
}

/// Restricts the calling thread, and every thread that it starts, to these processors.
pub(crate) fn run_on(list: &CpuList) -> Result<(), CpusError> {
    check_cpus(list)?;
    let mut chosen = CpuSet::new();
    list.iter().for_each(|cpu| chosen.set(cpu));
    Ok(sched_setaffinity(None, &chosen).map_err(io::Error::from)?)
}
