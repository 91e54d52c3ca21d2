//! A server that this program starts, and stops in every case.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take until it answers.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a server may take to stop when it is asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A running server process; stopped when dropped.
#[derive(Debug)]
pub struct NodeProcess {
    child: Child,
    address: SocketAddr,
    name: String,
}

/// A free port on the loopback address. It is released immediately, so another process may take it.
pub fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl NodeProcess {
    /// Starts a server and waits until it answers PING on `port`. Its output goes to `log`.
    pub fn start(
        name: &str,
        program: &Path,
        arguments: &[String],
        port: u16,
        log: &Path,
    ) -> Result<NodeProcess, String> {
        let output = std::fs::File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let errors = output.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
        let child = Command::new(program)
            .args(arguments)
            // Its end shows a server with `--stop-with-stdin` that this program is gone, for any
            // reason.
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            // Ctrl-C is this program's to handle: it stops its servers in its own order.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let mut node =
            NodeProcess { child, address: SocketAddr::from(([127, 0, 0, 1], port)), name: name.to_owned() };
        node.wait_until_it_answers(log)?;
        Ok(node)
    }

    fn wait_until_it_answers(&mut self, log: &Path) -> Result<(), String> {
        let started = Instant::now();
        let said = || {
            let text = std::fs::read_to_string(log).unwrap_or_default();
            let last: Vec<&str> = text.lines().rev().take(5).collect();
            last.into_iter().rev().collect::<Vec<_>>().join("\n  ")
        };
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the {} ended while starting ({status}):\n  {}", self.name, said()));
            }
            if self.answers() {
                return Ok(());
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(format!("the {} does not answer on {}:\n  {}", self.name, self.address, said()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn answers(&self) -> bool {
        use std::io::{Read, Write};
        let ping = || -> std::io::Result<bool> {
            let mut stream = TcpStream::connect_timeout(&self.address, Duration::from_millis(200))?;
            stream.set_read_timeout(Some(Duration::from_millis(500)))?;
            stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
            let mut reply = [0; 7];
            stream.read_exact(&mut reply)?;
            Ok(&reply == b"+PONG\r\n")
        };
        ping().unwrap_or(false)
    }

    /// Its client address.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The processor time it has used so far.
    pub fn cpu_seconds(&self) -> Option<f64> {
        crate::machine::cpu_seconds(self.pid())
    }

    /// Ends it as `kill -9` does: it gets no chance to do anything before.
    pub fn kill(&mut self) -> std::io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(|_| ())
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32)
            && self.is_running()
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let asked = Instant::now();
            while self.is_running() && asked.elapsed() < STOP_TIMEOUT {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        // Harmless if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
