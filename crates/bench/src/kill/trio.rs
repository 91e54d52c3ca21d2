//! The three nodes: the coordinator's, and two of which one dies.

use crate::control::{Control, started_migration};
use crate::demo::{DemoError, DemoOptions, node_arguments};
use crate::kill::victim::Victim;
use crate::node_process::{NodeProcess, free_port};
use crate::run_folder::RunFolder;
use crate::terminal::Terminal;
use sidle_cluster::StatusReport;
use std::time::{Duration, Instant};

/// How long the cluster may take to form, and its logs to get their copies.
const FORMS_WITHIN: Duration = Duration::from_secs(60);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// How long one answer about a move may take.
const LOOK: Duration = Duration::from_secs(1);
/// How long a node may be silent before others take over what it had.
const TAKEOVER_AFTER: &str = "1s";

/// Three nodes with two copies of each log at the others, in a folder that is removed with them.
#[derive(Debug)]
pub(crate) struct Trio {
    /// Coordinates, and lives.
    pub(crate) coordinator: NodeProcess,
    /// Has what the load needs, or half of it.
    pub(crate) source: NodeProcess,
    /// Has the other half, or takes one.
    pub(crate) target: NodeProcess,
    // Dropped last: the nodes keep their files in it.
    _folder: RunFolder,
}

impl Trio {
    /// Starts all, and gives the data's owners all slots while they are empty.
    pub(crate) fn start(
        options: &DemoOptions,
        victim: Victim,
        terminal: &Terminal,
    ) -> Result<Trio, DemoError> {
        // What is shown is how what was acknowledged survives, so the logs are on a disk.
        let folder = RunFolder::on_disk("sidle-demo-")?;
        let memory_bytes = options.size().node_memory_bytes();
        let start = |name: &str, join: Option<&str>| -> Result<NodeProcess, DemoError> {
            let home = folder.path().join(name);
            std::fs::create_dir(&home)?;
            let port = free_port()?;
            let mut arguments = node_arguments(&home, port, memory_bytes, options.workers)?;
            let mut option = |name: &str, value: &str| arguments.extend([name.to_owned(), value.to_owned()]);
            option("--durability", "replicated=2");
            option("--takeover-after", TAKEOVER_AFTER);
            if let Some(address) = join {
                option("--join", address);
            }
            let log = home.join("log");
            NodeProcess::start(name, &options.program, &arguments, port, &log).map_err(DemoError::Node)
        };
        let coordinator = start("coordinator", None)?;
        let seed = coordinator.address();
        let source = start("source", Some(&seed))?;
        let target = start("target", Some(&seed))?;
        let trio = Trio { coordinator, source, target, _folder: folder };
        terminal.say(&format!(
            "three nodes: {} (coordinator), {} and {}, each with copies of its log at both others",
            trio.coordinator.address(),
            trio.source.address(),
            trio.target.address()
        ));
        trio.wait("the nodes have not formed a cluster", |status| status.nodes.len() == 3)?;
        let half = if victim.moves() { &trio.source } else { &trio.target };
        trio.give("0-8191", &trio.source)?;
        trio.give("8192-16383", half)?;
        Ok(trio)
    }

    /// Their addresses, the coordinator's first.
    pub(crate) fn addresses(&self) -> Vec<String> {
        [&self.coordinator, &self.source, &self.target].map(NodeProcess::address).to_vec()
    }

    fn control(&self) -> Result<Control, DemoError> {
        Ok(Control::connect(&self.coordinator.address(), None)?)
    }

    /// Moves slots that have no keys yet.
    fn give(&self, slots: &str, to: &NodeProcess) -> Result<(), DemoError> {
        let mut control = self.control()?;
        let reply = control.call(&["SIDLE.MIGRATE", "START", "SLOTS", slots, "TO", &to.address()])?;
        let id = started_migration(&reply)
            .ok_or_else(|| DemoError::Migration(format!("SIDLE.MIGRATE START answered {reply:?}")))?;
        let started = Instant::now();
        while started.elapsed() < FORMS_WITHIN {
            match control.await_end(id, LOOK)?.state.as_str() {
                "done" => return Ok(()),
                state @ ("failed" | "cancelled") => {
                    return Err(DemoError::Migration(format!("{state}, of slots without keys")));
                }
                _ => {}
            }
        }
        Err(DemoError::Migration("slots without keys have not arrived".to_owned()))
    }

    /// Waits until both others have copies of the logs of all three.
    pub(crate) fn wait_for_copies(&self) -> Result<(), DemoError> {
        self.wait("the logs have not got two copies each", |status| {
            status.nodes.iter().all(|node| node.log_copies.len() == 2)
        })
    }

    fn wait(&self, otherwise: &str, until: impl Fn(&StatusReport) -> bool) -> Result<(), DemoError> {
        let (started, mut control) = (Instant::now(), self.control()?);
        while !until(&control.status()?) {
            if started.elapsed() > FORMS_WITHIN {
                return Err(DemoError::Node(format!("{otherwise} within {} s", FORMS_WITHIN.as_secs())));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}
