//! One connection of one client: bytes gathered for one write, bytes received in one read.

use sidle_client_core::ConnectionId;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The most bytes of one read, at first.
const READ_BYTES: usize = 64 << 10;
/// A node that does not answer within this time counts as unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1000);

/// The connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

/// How far a write came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    All,
    /// The kernel takes no more for now.
    Part,
}

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) connection: ConnectionId,
    pub(crate) stream: TcpStream,
    /// Requests taken from the core; the first `sent` bytes are with the kernel.
    pub(crate) out: Vec<u8>,
    sent: usize,
    /// Whether the event loop reports when the kernel takes more.
    pub(crate) waits_to_write: bool,
    /// Replies; the first `filled` bytes count.
    input: Vec<u8>,
    filled: usize,
}

impl Socket {
    /// Connects, and waits for it: this happens before the load, or after a node went away.
    pub(crate) fn connect(connection: ConnectionId, address: &str) -> std::io::Result<Socket> {
        let mut last = std::io::Error::new(ErrorKind::NotFound, "the name has no address");
        for candidate in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&candidate, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(true)?;
                    return Ok(Socket {
                        connection,
                        stream,
                        out: Vec::new(),
                        sent: 0,
                        waits_to_write: false,
                        input: vec![0; READ_BYTES],
                        filled: 0,
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Passes requests to the kernel until it takes no more.
    pub(crate) fn write(&mut self) -> Result<Sent, Closed> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(Closed),
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Sent::Part),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Closed),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(Sent::All)
    }

    /// Reads once; returns all bytes not yet consumed.
    pub(crate) fn read(&mut self) -> Result<&[u8], Closed> {
        if self.filled == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
        loop {
            match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(Closed),
                Ok(got) => {
                    self.filled += got;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Closed),
            }
        }
        Ok(&self.input[..self.filled])
    }

    /// Drops the first bytes read.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.input.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
    }
}
