//! Listening sockets: one per worker on the same port, so that the kernel spreads connections over them.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

/// Why a port could not be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process listens there already.
    #[error(
        "{what} port {address} is in use: another server listens there. Stop it, or choose another port \
         ({flag} PORT; 0 takes any free one)"
    )]
    InUse {
        /// Which of the node's ports.
        what: &'static str,
        /// The flag that chooses it.
        flag: &'static str,
        /// The address to listen on.
        address: SocketAddr,
    },
    /// The address is another machine's, or no machine's.
    #[error("{ip} is not an address of this machine: choose another one with --bind")]
    NotOurs {
        /// The address to listen on.
        ip: IpAddr,
    },
    /// The system refused for another reason.
    #[error("cannot listen on {what} port {address}: {error}")]
    Refused {
        /// Which of the node's ports.
        what: &'static str,
        /// The address to listen on.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
}

/// One of the node's ports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    what: &'static str,
    flag: &'static str,
}

/// Where clients connect.
pub(crate) const CLIENT_PORT: Port = Port { what: "client", flag: "--port" };
/// Where other nodes connect.
pub(crate) const BUS_PORT: Port = Port { what: "bus", flag: "--bus-port" };

impl Port {
    /// Listens with `count` sockets on one port; if it is 0, all use the first socket's port.
    pub(crate) fn listen(
        self,
        ip: IpAddr,
        port: u16,
        count: usize,
        backlog: u32,
    ) -> Result<Vec<TcpListener>, ListenError> {
        let mut address = SocketAddr::new(ip, port);
        let refused = |error: io::Error, address| match error.kind() {
            io::ErrorKind::AddrInUse => ListenError::InUse { what: self.what, flag: self.flag, address },
            io::ErrorKind::AddrNotAvailable => ListenError::NotOurs { ip },
            _ => ListenError::Refused { what: self.what, address, error },
        };
        // With SO_REUSEPORT a second server of the same user would silently share the port, and take
        // half of the clients. A socket without the option detects it.
        if port != 0 {
            bound(address, false).map_err(|error| refused(error, address))?;
        }
        let mut listeners = Vec::with_capacity(count);
        for _ in 0..count {
            let listener = listening(address, backlog, count > 1).map_err(|error| refused(error, address))?;
            address = listener.local_addr().map_err(|error| refused(error, address))?;
            listeners.push(listener);
        }
        Ok(listeners)
    }
}

fn bound(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

fn listening(address: SocketAddr, backlog: u32, shared: bool) -> io::Result<TcpListener> {
    let socket = bound(address, shared)?;
    socket.listen(backlog.min(i32::MAX as u32) as i32)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn listen_shares_one_free_port() {
        let listeners = CLIENT_PORT.listen(LOOPBACK, 0, 3, 16).unwrap();
        let ports: Vec<u16> = listeners.iter().map(|l| l.local_addr().unwrap().port()).collect();
        assert_ne!(ports[0], 0);
        assert!(ports.iter().all(|port| *port == ports[0]));
    }

    #[test]
    fn listen_refuses_a_port_that_another_server_shares() {
        let first = CLIENT_PORT.listen(LOOPBACK, 0, 2, 16).unwrap();
        let port = first[0].local_addr().unwrap().port();
        let refused = CLIENT_PORT.listen(LOOPBACK, port, 2, 16).unwrap_err().to_string();
        assert!(refused.contains("is in use") && refused.contains("--port"), "{refused}");
    }
}
