//! The nodes' shares of a processor.

use super::{DemoError, DemoOptions, NodePair};
use crate::quota::Quotas;
use crate::terminal::Terminal;
use std::collections::BTreeMap;

/// Quotas, if any were asked for. Made before the nodes, so that it is dropped after them: groups are removed
/// once their processes are gone.
#[derive(Debug)]
pub(crate) struct Limits {
    quotas: Option<Quotas>,
    /// Why there are none, though they were asked for.
    refused: Option<String>,
}

impl Limits {
    pub(crate) fn new(options: &DemoOptions) -> Limits {
        match options.cpus.as_ref().map(|_| Quotas::new()) {
            None => Limits { quotas: None, refused: None },
            Some(Ok(quotas)) => Limits { quotas: Some(quotas), refused: None },
            Some(Err(why)) => Limits { quotas: None, refused: Some(why) },
        }
    }

    /// Gives the processes their shares, and returns them.
    pub(crate) fn apply(
        &mut self,
        options: &DemoOptions,
        nodes: &NodePair,
        terminal: &Terminal,
    ) -> Result<Option<BTreeMap<String, f64>>, DemoError> {
        let mut limits = None;
        if let (Some(quotas), Some(shares)) = (&mut self.quotas, &options.cpus) {
            let pids = [
                ("source", nodes.source.pid()),
                ("target", nodes.target.pid()),
                ("clients", std::process::id()),
            ];
            for (name, pid) in pids {
                if let Some(&share) = shares.0.get(name) {
                    quotas.limit(name, pid, share).map_err(DemoError::Options)?;
                }
            }
            limits = Some(shares.0.clone());
        }
        match &self.refused {
            Some(why) => {
                terminal.say(&format!("no processor quotas ({why}): this measures one shared machine"));
            }
            None if limits.is_none() => {
                let place = options.cpu_lists.as_ref().map(|lists| format!(" ({lists})")).unwrap_or_default();
                terminal.say(&format!("nodes and clients share this machine: no processor quotas{place}"));
            }
            None => {}
        }
        Ok(limits)
    }
}
