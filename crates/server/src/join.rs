//! Finding a cluster from the address of one of its nodes.
//!
//! People name a node by the address that clients use. The node's tablet map, asked for over the client protocol,
//! names everyone's bus address.

use crate::address::split_host_port;
use serde::Deserialize;
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, RequestWriter, Value};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long one node may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where to look for the coordinator.
#[derive(Debug)]
pub(crate) struct Search {
    /// The client address of a node of the cluster; empty: none is known.
    pub(crate) join: String,
    /// The cluster's password; empty: none.
    pub(crate) password: String,
    /// Bus addresses that are known already, the best first.
    pub(crate) found_at: watch::Receiver<Vec<String>>,
    /// Whether this process has talked to the coordinator.
    pub(crate) found: bool,
}

impl Search {
    /// Bus addresses to try, the best first. Until this process has found the coordinator, the node to join
    /// is asked first: whoever names one knows better than what the data directory remembers. Later it is
    /// asked when nothing else is known.
    pub(crate) async fn addresses(&mut self) -> Vec<String> {
        let found_at = self.found_at.borrow().clone();
        let asks = !self.join.is_empty() && (!self.found || found_at.is_empty());
        if !asks {
            return found_at;
        }
        let mut addresses = match bus_addresses(&self.join, &self.password).await {
            Ok(addresses) => addresses,
            Err(error) => {
                self.complain(&error.to_string(), &found_at);
                Vec::new()
            }
        };
        if !addresses.is_empty() && !found_at.is_empty() && !addresses.iter().any(|at| found_at.contains(at))
        {
            let remembered = found_at.join(", ");
            tracing::info!("following --join {}; the data directory remembers {remembered}", self.join);
        }
        addresses.extend(found_at);
        addresses
    }

    /// The coordinator was found.
    pub(crate) fn is_found(&mut self) {
        self.found = true;
    }

    fn complain(&self, error: &str, found_at: &[String]) {
        let join = &self.join;
        if found_at.is_empty() {
            tracing::warn!("cannot join the cluster of {join}: {error}; trying again");
        } else {
            let remembered = found_at.join(", ");
            tracing::warn!(
                "cannot join the cluster of {join}: {error}; trying what is remembered, {remembered}"
            );
        }
    }
}

/// Why a node could not be asked for its cluster.
#[derive(Debug, thiserror::Error)]
enum JoinError {
    /// The network.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Nothing came.
    #[error("no answer in time")]
    TimedOut,
    /// It answered something else.
    #[error("it answers {0}")]
    Refused(String),
    /// It does not speak as a node does.
    #[error("it is not a Sidle node: give the address that its clients use ({0})")]
    Foreign(String),
}

/// The part of the tablet map that is needed here.
#[derive(Deserialize)]
struct Map {
    nodes: Vec<MapNode>,
}

#[derive(Deserialize)]
struct MapNode {
    client_addr: String,
    bus_addr: String,
}

/// Asks the node at a client address for the bus addresses of its cluster. `password`: the cluster's; empty: none.
async fn bus_addresses(node: &str, password: &str) -> Result<Vec<String>, JoinError> {
    timeout(PATIENCE, ask(node, password)).await.map_err(|_| JoinError::TimedOut)?
}

async fn ask(node: &str, password: &str) -> Result<Vec<String>, JoinError> {
    let (host, port) = split_host_port(node).ok_or_else(|| JoinError::Foreign("HOST:PORT".to_owned()))?;
    let mut stream = TcpStream::connect((host, port)).await?;
    let mut requests = Vec::new();
    let mut replies = 1;
    if !password.is_empty() {
        RequestWriter::new(&mut requests).request(&[b"AUTH", password.as_bytes()]);
        replies += 1;
    }
    RequestWriter::new(&mut requests).request(&[b"SIDLE.MAP"]);
    stream.write_all(&requests).await?;
    let mut parser = ReplyParser::new(ReplyLimits::default());
    let mut input = Vec::new();
    let mut last = Value::Null;
    for _ in 0..replies {
        last = loop {
            match parser.parse(&input).map_err(|error| JoinError::Foreign(error.to_string()))? {
                ParsedReply::Complete { frame, consumed } => {
                    let value = frame.reply.to_value();
                    input.drain(..consumed);
                    break value;
                }
                ParsedReply::Incomplete { .. } => {}
            }
            if stream.read_buf(&mut input).await? == 0 {
                return Err(JoinError::Foreign("it closed the connection".to_owned()));
            }
        };
        if let Value::Error(text) = last {
            return Err(JoinError::Refused(text));
        }
    }
    let json = last.as_bytes().ok_or_else(|| JoinError::Foreign("its map is no text".to_owned()))?;
    let map: Map = serde_json::from_slice(json).map_err(|error| JoinError::Foreign(error.to_string()))?;
    // The one that was named is known to answer.
    let (named, others): (Vec<MapNode>, Vec<MapNode>) =
        map.nodes.into_iter().partition(|known| known.client_addr == node);
    Ok(named.into_iter().chain(others).map(|node| node.bus_addr).collect())
}
