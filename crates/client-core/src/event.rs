//! What driver and core tell each other, beside bytes.

use crate::connection::ConnectionId;
use sidle_cluster::HostPort;
use sidle_types::MapEpoch;

/// What the driver tells the core, beside the bytes that arrive ([`Core::received`](crate::Core::received)).
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// The connection that [`Event::Connect`] asked for stands.
    Connected(ConnectionId),
    /// It could not be made, or is lost.
    Disconnected(ConnectionId),
    /// Time has passed: [`Core::poll_timeout`](crate::Core::poll_timeout) has come.
    Tick,
}

/// What the core tells the driver, beside the bytes to send
/// ([`Core::poll_transmit`](crate::Core::poll_transmit)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Connect to this address; then [`Input::Connected`] or [`Input::Disconnected`].
    Connect {
        /// What to call the connection.
        connection: ConnectionId,
        /// Where to.
        address: HostPort,
    },
    /// Drop the connection. Nothing about it need be told any more.
    Close(ConnectionId),
    /// Another map is in use.
    MapChanged(MapEpoch),
    /// A node refused the greeting or does not know of maps; the core goes on trying.
    Trouble {
        /// The node.
        address: HostPort,
        /// What it said.
        why: String,
    },
}
