//! The messages between driver and core, beside bytes.

use crate::connection::ConnectionId;
use sidle_cluster::HostPort;
use sidle_types::MapEpoch;

/// The driver's input to the core, beside the bytes that arrive ([`Core::received`](crate::Core::received)).
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// The connection of [`Event::Connect`] is open.
    Connected(ConnectionId),
    /// It could not be opened, or is lost.
    Disconnected(ConnectionId),
    /// Time has passed: [`Core::poll_timeout`](crate::Core::poll_timeout) is due.
    Tick,
}

/// The core's output to the driver, beside the bytes to send
/// ([`Core::poll_transmit`](crate::Core::poll_transmit)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Connect to this address; then [`Input::Connected`] or [`Input::Disconnected`].
    Connect {
        /// The connection's name.
        connection: ConnectionId,
        /// Its address.
        address: HostPort,
    },
    /// Drop the connection. Report nothing more about it.
    Close(ConnectionId),
    /// Another map is in use.
    MapChanged(MapEpoch),
    /// A node refused the greeting or does not know of maps; the core keeps trying.
    Trouble {
        /// The node.
        address: HostPort,
        /// Its error.
        why: String,
    },
}
