//! An etcd of one member as a process, on free ports of this machine, with a folder of its own.

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

/// A running etcd. Dropping it kills the process, by its id.
pub(crate) struct Etcd {
    program: PathBuf,
    process: Child,
    client: SocketAddr,
    peer: SocketAddr,
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
        let Some(program) = program() else {
            eprintln!("SKIPPED: {test} needs etcd 3.4 or later (Debian: apt-get install etcd-server)");
            return None;
        };
        for _ in 0..TRIES {
            let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
            let [client, peer] = free.map(|listener| listener.local_addr().expect("an address"));
            let folder = tempfile::tempdir().expect("a temporary folder");
            let process = spawn(&program, client, peer, &folder);
            let mut etcd = Etcd { program: program.clone(), process, client, peer, folder };
            if etcd.answers() {
                return Some(etcd);
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
        self.process = spawn(&self.program, self.client, self.peer, &self.folder);
        assert!(self.answers(), "etcd has not started again");
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
        let ask = || {
            let mut stream = TcpStream::connect(self.client)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"GET /health HTTP/1.0\r\nHost: etcd\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        };
        ask().is_ok_and(|answer| answer.contains("\"health\":\"true\""))
    }
}

fn spawn(program: &PathBuf, client: SocketAddr, peer: SocketAddr, folder: &TempDir) -> Child {
    let (client, peer) = (format!("http://{client}"), format!("http://{peer}"));
    Command::new(program)
        .args(["--name", "test", "--log-level", "error", "--logger", "zap"])
        .arg("--data-dir")
        .arg(folder.path())
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("test={peer}")])
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
