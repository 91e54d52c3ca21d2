//! Connections over which workers forward requests. They are opened here, since a worker's runtime has no
//! timer, and handed over.

use crate::bus_error::BusError;
use crate::door::Door;
use crate::thread::start_task;
use crate::worker::{WorkerInput, WorkerLink};
use sidle_cluster::HostPort;
use sidle_node::{ForwardLink, WorkerIndex};
use sidle_types::{NodeId, ProtocolVersion};
use sidle_wire::Forward;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;

/// A connection that a worker wants.
#[derive(Debug)]
pub(crate) struct WantedLink {
    /// The worker.
    pub(crate) worker: WorkerIndex,
    /// The worker's name for the connection.
    pub(crate) link: ForwardLink,
    /// The node to connect to.
    pub(crate) to: NodeId,
    /// That node's bus address.
    pub(crate) address: HostPort,
    /// Whether replies must be in RESP3.
    pub(crate) is_resp3: bool,
}

/// Opens a connection for a worker of `node`, and hands it over. `version`: the cluster's version.
pub(super) fn open(
    node: NodeId,
    version: ProtocolVersion,
    door: Door,
    wanted: WantedLink,
    worker: Arc<WorkerLink>,
) {
    start_task("a connection to forward requests over", async move {
        let WantedLink { link, to, ref address, is_resp3, .. } = wanted;
        let opened = connect(&door, address, version, Forward { node, is_resp3 }).await;
        worker.hand(match opened {
            Ok(stream) => WorkerInput::LinkOpened(link, stream),
            Err(error) => {
                tracing::warn!("cannot forward requests to node {to} at {address}: {error}");
                WorkerInput::LinkFailed(link)
            }
        });
    });
}

async fn connect(
    door: &Door,
    address: &HostPort,
    version: ProtocolVersion,
    forward: Forward,
) -> Result<std::net::TcpStream, BusError> {
    let mut stream = door.connect(&address.to_string()).await?;
    let mut frame = Vec::new();
    forward.write(version, &mut frame);
    stream.write_all(&frame).await?;
    Ok(stream.into_std()?)
}
