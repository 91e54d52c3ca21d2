//! A redis-server to compare with.

use super::eventually;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Names the program; by default the one on the PATH.
const VARIABLE: &str = "SIDLE_TEST_REDIS_SERVER";

/// A redis-server that saves nothing by itself, killed when it is dropped.
pub struct RedisServer {
    process: Child,
    folder: TempDir,
}

impl RedisServer {
    /// One with this folder, in which it finds its file, if there is one. `None` without such a program.
    pub fn start(folder: TempDir, settings: &[&str]) -> Option<RedisServer> {
        let program = std::env::var_os(VARIABLE).unwrap_or("redis-server".into());
        let mut command = Command::new(program);
        command.args(["--save", "", "--dir"]).arg(folder.path()).args(settings).stdout(Stdio::null());
        match command.spawn() {
            Ok(process) => Some(RedisServer { process, folder }),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("redis-server does not start: {error}"),
        }
    }

    /// One that answers at the first of so many free ports. `start` gives it its ports, the first with a bind
    /// address; another program may take one first, and then it ends.
    pub fn listening<const PORTS: usize>(
        start: impl Fn(&[String; PORTS]) -> Option<RedisServer>,
    ) -> Option<(RedisServer, [String; PORTS])> {
        const TRIES: usize = 5;
        for _ in 0..TRIES {
            let free = [(); PORTS].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
            let ports = free.map(|listener| listener.local_addr().expect("an address").port().to_string());
            let mut server = start(&ports)?;
            let address = format!("127.0.0.1:{}", ports[0]);
            let has_ended = eventually("redis-server answers or ends", || {
                let status = server.process.try_wait().expect("a child can be asked");
                status.map(|_| true).or_else(|| TcpStream::connect(&address).is_ok().then_some(false))
            });
            if !has_ended {
                return Some((server, ports));
            }
        }
        panic!("redis-server found no free ports in {TRIES} tries");
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may have ended by itself; in both cases it is gone afterwards.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
