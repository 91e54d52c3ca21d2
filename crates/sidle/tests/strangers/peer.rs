//! A peer at the bus port: a stranger, or a misbehaving member.

use sidle_handshake::{ClusterSecret, Handshake, ListenerName, MESSAGE_BYTES_MAX, Nonce};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a peer waits for what may never arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to the bus port.
pub(crate) struct Peer {
    stream: TcpStream,
    address: String,
}

impl Peer {
    /// Connects.
    pub(crate) fn connect(address: &str) -> Peer {
        let socket: SocketAddr = address.parse().expect("nodes of tests have addresses, not names");
        let stream = TcpStream::connect_timeout(&socket, PATIENCE).expect("the port takes connections");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout can be set");
        stream.set_nodelay(true).expect("the delay can be taken off");
        Peer { stream, address: address.to_owned() }
    }

    /// Connects and proves membership.
    pub(crate) fn member(address: &str, secret: &ClusterSecret) -> Peer {
        let mut peer = Peer::connect(address);
        assert!(peer.shake(secret, 7), "the secret is the right one");
        peer
    }

    /// The dialer's side of a handshake; returns whether the other end completed it.
    pub(crate) fn shake(&mut self, secret: &ClusterSecret, seed: u8) -> bool {
        let mut handshake = self.dialer(secret, seed);
        loop {
            while let Some(message) = handshake.poll_transmit() {
                if !self.send(message.as_ref()) {
                    return false;
                }
            }
            if handshake.is_proven() {
                return true;
            }
            let received = self.receive(handshake.wanted());
            if received.is_empty() || handshake.handle(&received).is_err() {
                return false;
            }
        }
    }

    /// The state machine for it.
    pub(crate) fn dialer<'s>(&self, secret: &'s ClusterSecret, seed: u8) -> Handshake<'s> {
        Handshake::dial(secret, ListenerName::of(&self.address), Nonce([seed; 32]))
    }

    /// Sends until the node takes no more; returns whether it took all.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Receives up to this many bytes; none once the connection is closed.
    pub(crate) fn receive(&mut self, most: usize) -> Vec<u8> {
        let mut input = [0; MESSAGE_BYTES_MAX];
        let length = most.min(input.len());
        let length = self.stream.read(&mut input[..length]).unwrap_or(0);
        input[..length].to_vec()
    }

    /// Everything that the node sends until it closes the connection; fails if it does not close it.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {}
            Err(error) => panic!("the node does not close the connection: {error}"),
        }
        rest
    }

    /// Sends no more.
    pub(crate) fn finish(&mut self) {
        // The node may have closed the connection.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Whether the node has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout can be set");
        match self.stream.read(&mut [0]) {
            Ok(length) => length == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}
