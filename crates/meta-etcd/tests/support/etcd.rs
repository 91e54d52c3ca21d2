//! An etcd of one member or several, each a process, on free ports of this machine, with a folder of its own.

#![allow(dead_code)] // each test program uses a part of it

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often other ports are tried: another process may take a free one first.
const TRIES: usize = 5;

/// A running member. Dropping it kills the process, by its id.
pub(crate) struct Etcd {
    program: PathBuf,
    process: Child,
    client: SocketAddr,
    peer: SocketAddr,
    /// All members' ports for each other.
    peers: Vec<SocketAddr>,
    folder: TempDir,
}

/// The program, from the variable that `cargo xtask test` sets or from the path. `None` if there is none.
fn program() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("SIDLE_TEST_ETCD") {
        return Some(given.into());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join("etcd")).find(|path| path.is_file())
}

impl Etcd {
    /// Starts one; `None` if it is not installed, and the test's output says that it was skipped.
    pub(crate) fn start(test: &str) -> Option<Etcd> {
        Etcd::start_members(test, 1)?.pop()
    }

    /// Starts one of so many members.
    pub(crate) fn start_members(test: &str, count: usize) -> Option<Vec<Etcd>> {
        let Some(program) = program() else {
            eprintln!("SKIPPED: {test} needs etcd 3.4 or later (Debian: apt-get install etcd-server)");
            return None;
        };
        for _ in 0..TRIES {
            let free = || TcpListener::bind("127.0.0.1:0").expect("a free port");
            // All are bound at a time, so that no two are the same.
            let free: Vec<TcpListener> = (0..2 * count).map(|_| free()).collect();
            let free: Vec<SocketAddr> =
                free.into_iter().map(|listener| listener.local_addr().expect("an address")).collect();
            let (clients, peers) = free.split_at(count);
            let start = |(&client, &peer): (&SocketAddr, &SocketAddr)| {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let process = spawn(&program, client, (peer, peers), &folder);
                Etcd { program: program.clone(), process, client, peer, peers: peers.to_vec(), folder }
            };
            let mut members: Vec<Etcd> = clients.iter().zip(peers).map(start).collect();
            if members.iter_mut().all(Etcd::answers) {
                return Some(members);
            }
        }
        panic!("etcd has not started in {TRIES} tries");
    }

    /// Where clients connect, as HOST:PORT.
    pub(crate) fn address(&self) -> String {
        self.client.to_string()
    }

    /// Kills the process immediately.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("the process was running");
        self.process.wait().expect("a killed process ends");
    }

    /// Starts a killed process again: same folder, same ports.
    pub(crate) fn restart(&mut self) {
        self.restart_unready();
        self.wait_until_ready();
    }

    /// The same, without a majority yet.
    pub(crate) fn restart_unready(&mut self) {
        self.process = spawn(&self.program, self.client, (self.peer, &self.peers), &self.folder);
    }

    /// Waits until it answers.
    pub(crate) fn wait_until_ready(&mut self) {
        assert!(self.answers(), "etcd has not started again");
    }

    /// Whether this member leads the others.
    pub(crate) fn leads(&self) -> bool {
        let request = "POST /v3/maintenance/status HTTP/1.0\r\nHost: etcd\r\nContent-Length: 2\r\n\r\n{}";
        let answer = self.ask(request).unwrap_or_default();
        let id_in = |field: &str| Some(answer.split_once(field)?.1.split('"').next()?.to_owned());
        let (own, leader) = (id_in("\"member_id\":\""), id_in("\"leader\":\""));
        own.is_some() && own == leader
    }

    /// Waits until it answers; `false` if it ends instead.
    fn answers(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while !self.is_healthy() {
            if self.process.try_wait().expect("a child can be asked").is_some() {
                return false;
            }
            assert!(Instant::now() < deadline, "etcd does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    fn is_healthy(&self) -> bool {
        let answer = self.ask("GET /health HTTP/1.0\r\nHost: etcd\r\n\r\n");
        answer.is_ok_and(|answer| answer.contains("\"health\":\"true\""))
    }

    fn ask(&self, request: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.client)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

fn spawn(
    program: &PathBuf,
    client: SocketAddr,
    (peer, peers): (SocketAddr, &[SocketAddr]),
    folder: &TempDir,
) -> Child {
    let name = |peer: &SocketAddr| format!("test-{}", peer.port());
    let members: Vec<String> = peers.iter().map(|peer| format!("{}=http://{peer}", name(peer))).collect();
    let (name, client, peer) = (name(&peer), format!("http://{client}"), format!("http://{peer}"));
    Command::new(program)
        .args(["--name", &name, "--log-level", "error", "--logger", "zap"])
        .arg("--data-dir")
        .arg(folder.path())
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &members.join(",")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd starts")
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended by itself; in both cases it is gone afterwards.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
