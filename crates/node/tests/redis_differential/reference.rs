//! A redis-server of our own, on a socket in an empty directory.

use crate::{Server, whole_reply};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Redis {
    process: Child,
    socket: PathBuf,
    connection: UnixStream,
    received: Vec<u8>,
    _directory: tempfile::TempDir,
}

impl Redis {
    /// `None` when there is no redis-server to compare with.
    pub(crate) fn start() -> Option<Redis> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let socket = directory.path().join("redis.sock");
        let spawned = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(directory.path())
            .stdout(Stdio::null())
            .spawn();
        let process = match spawned {
            Ok(process) => process,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                eprintln!("skipped: there is no redis-server on the PATH to compare with");
                return None;
            }
            Err(error) => panic!("redis-server does not start: {error}"),
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        let connection = loop {
            match UnixStream::connect(&socket) {
                Ok(connection) => break connection,
                Err(error) => assert!(Instant::now() < deadline, "redis-server does not answer: {error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Some(Redis { process, socket, connection, received: Vec::new(), _directory: directory })
    }
}

impl Server for Redis {
    fn reconnect(&mut self) {
        self.connection = UnixStream::connect(&self.socket).expect("redis-server is there");
        self.connection.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        self.received.clear();
    }

    fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.tell(request);
        loop {
            if let Some(length) = whole_reply(&self.received) {
                return self.received.drain(..length).collect();
            }
            let mut chunk = [0; 64 << 10];
            let read = self
                .connection
                .read(&mut chunk)
                .unwrap_or_else(|error| panic!("no reply from Redis to {}: {error}", request.escape_ascii()));
            assert!(read > 0, "Redis closed the connection after {}", request.escape_ascii());
            self.received.extend_from_slice(&chunk[..read]);
        }
    }

    fn tell(&mut self, request: &[u8]) {
        self.connection.write_all(request).expect("redis-server is there");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone afterwards.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
