//! The two servers that are compared, kept on loopback.

pub(crate) mod group;

use crate::step::{cargo, project_root, target_folder};
use anyhow::{bail, ensure};
use group::Group;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a server may take until it serves.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);

/// A running server. Dropping it ends the process.
pub(crate) struct Server {
    pub(crate) port: u16,
    group: Group,
}

impl Server {
    /// Starts a node that owns everything.
    pub(crate) fn start_sidle(program: &Path, data: &Path, memory: &str) -> anyhow::Result<Server> {
        let mut command = Command::new(program);
        command.args(["server", "--port", "0", "--bus-port", "0", "--workers", "2", "--debug-commands"]);
        command.args(["--durability", "none", "--max-memory", memory]).arg("--dir").arg(data);
        let log = data.join("log.txt");
        let mut group = Group::start(&command, &log)?;
        let text =
            until(&log, &mut group, |text| text.contains("the node is ready").then(|| text.to_owned()))?;
        let Some(port) = port_in(&text) else { bail!("the node does not say where it serves:\n{text}") };
        Ok(Server { port, group })
    }

    /// Starts redis-server without files, with the commands that its tests use.
    pub(crate) fn start_redis(data: &Path) -> anyhow::Result<Server> {
        // It takes no port 0. Another program may take this one first: the server then ends.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        command.args(["--enable-debug-command", "yes", "--enable-protected-configs", "yes"]).arg("--dir");
        command.arg(data);
        let log = data.join("log.txt");
        let mut group = Group::start(&command, &log)?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        until(&log, &mut group, |_| TcpStream::connect_timeout(&address, LOOK).ok())?;
        Ok(Server { port, group })
    }

    /// Whether the process has ended, which a test should not bring about.
    pub(crate) fn has_ended(&mut self) -> anyhow::Result<bool> {
        self.group.has_ended()
    }
}

/// Waits until the log shows something, or another sign.
fn until<T>(log: &Path, group: &mut Group, sign: impl Fn(&str) -> Option<T>) -> anyhow::Result<T> {
    let started = Instant::now();
    loop {
        let text = String::from_utf8_lossy(&fs::read(log)?).into_owned();
        if let Some(found) = sign(&text) {
            return Ok(found);
        }
        ensure!(!group.has_ended()?, "the server ended:\n{text}");
        ensure!(started.elapsed() < PATIENCE, "the server is not ready:\n{text}");
        std::thread::sleep(LOOK);
    }
}

/// The port of the clients' address in a node's log.
fn port_in(log: &str) -> Option<u16> {
    let (_, address) = log.split_once("clients at ")?;
    let address = address.split_whitespace().next()?.trim_end_matches(',');
    address.rsplit_once(':')?.1.parse().ok()
}

/// How the program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// With its checks.
    Dev,
    /// As users run it.
    Release,
}

/// Builds the program; where it lies.
pub(crate) fn build_sidle(build: Build) -> anyhow::Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--package", "sidle"]).current_dir(project_root());
    let folder = match build {
        Build::Dev => "debug",
        Build::Release => {
            command.arg("--release");
            "release"
        }
    };
    ensure!(command.status()?.success(), "sidle cannot be built");
    Ok(target_folder().join(folder).join("sidle"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_from_the_log() {
        let log =
            "12:00 INFO clients at 127.0.0.1:4711, nodes at 127.0.0.1:4712\n12:00 INFO the node is ready";
        assert_eq!(port_in(log), Some(4711));
        assert_eq!(port_in("clients at nowhere"), None);
    }
}
