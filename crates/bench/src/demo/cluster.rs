//! The two nodes of a demonstration.

use crate::control::Control;
use crate::demo::{DemoError, DemoOptions};
use crate::node_process::{NodeProcess, free_port};
use crate::run_folder::RunFolder;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the second node may take to join.
const JOIN_TIMEOUT: Duration = Duration::from_secs(20);

/// The flags of every node of a demonstration, with its files in `home`.
pub(crate) fn node_arguments(
    home: &Path,
    port: u16,
    memory_bytes: u64,
    workers: u32,
) -> Result<Vec<String>, DemoError> {
    let mut arguments = vec!["server".to_owned(), "--stop-with-stdin".to_owned()];
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    option("--port", port.to_string());
    option("--bus-port", free_port()?.to_string());
    option("--dir", home.display().to_string());
    option("--max-memory", format!("{}mb", memory_bytes.div_ceil(1 << 20)));
    option("--workers", workers.to_string());
    option("--log-level", "warn".to_owned());
    Ok(arguments)
}

/// A node with all data and an empty one, both in a folder that is removed with them.
#[derive(Debug)]
pub struct NodePair {
    /// Gives records up.
    pub source: NodeProcess,
    /// Takes them.
    pub target: NodeProcess,
    // Dropped last: the nodes keep their files in it.
    _folder: RunFolder,
}

impl NodePair {
    /// Starts both and waits until they form one cluster.
    pub fn start(options: &DemoOptions) -> Result<NodePair, DemoError> {
        let memory_bytes = options.size().node_memory_bytes();
        let folder = RunFolder::in_memory("sidle-demo-")?;
        let start = |name: &str, join: Option<&str>| -> Result<NodeProcess, DemoError> {
            let home = folder.path().join(name);
            std::fs::create_dir(&home)?;
            let port = free_port()?;
            let mut arguments = node_arguments(&home, port, memory_bytes, options.workers)?;
            arguments.push("--preallocate".to_owned());
            let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
            // What is shown is the move, not the disk.
            option("--durability", "none".to_owned());
            if let Some(list) = options.cpu_lists.as_ref().and_then(|lists| lists.0.get(name)) {
                option("--cpu-list", list.clone());
            }
            if let Some(address) = join {
                option("--join", address.to_owned());
            }
            if !options.offloading {
                arguments.push("--movers-on-workers".to_owned());
            }
            let log = home.join("log");
            NodeProcess::start(name, &options.program, &arguments, port, &log).map_err(DemoError::Node)
        };
        let source = start("source", None)?;
        let target = start("target", Some(&source.address()))?;
        let pair = NodePair { source, target, _folder: folder };
        pair.wait_until_joined()?;
        Ok(pair)
    }

    fn wait_until_joined(&self) -> Result<(), DemoError> {
        let started = Instant::now();
        let mut control = Control::connect(&self.source.address(), None)?;
        loop {
            let status = control.status()?;
            let target = self.target.address();
            if status.nodes.iter().any(|node| node.client_addr.to_string() == target) {
                return Ok(());
            }
            if started.elapsed() > JOIN_TIMEOUT {
                return Err(DemoError::Node("the target has not joined the source's cluster".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
