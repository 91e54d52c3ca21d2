//! Finds a cluster from the address of one of its nodes.
//!
//! Operators name a node by its client address. Its tablet map, requested over the client
//! protocol, names every node's bus address. Nothing learnt here is trusted: the process at a bus
//! address has to prove that it belongs to the cluster ([`crate::door`]).
//!
//! A node that has the cluster's secret sends no password here: the process at a client address has proven
//! nothing. If the map needs a password, the bus port's number does not (SIDLE.BUS), and there both ends
//! prove themselves.
//!
//! A node of this machine, asked over loopback, also names its data directory (`CONFIG GET dir`), which holds
//! the cluster's secret. It is read only if this user alone can have put it there
//! ([`cluster_secret::of_neighbour`]). Only then does the password go to an unproven process: the one
//! that listens at that port of this machine.

use crate::address::split_host_port;
use crate::cluster_secret::{self, SecretFileError, is_loopback};
use crate::config::{Auto, NetworkConfig};
use crate::data_dir::SECRET_FILE;
use crate::door::Door;
use crate::repeated::Repeated;
use serde::Deserialize;
use sidle_cluster::HostPort;
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, RequestWriter, Value};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long one node may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// The bounds of a node's answers: its map, the longest, and settings. The node has proven nothing.
const ANSWERS: ReplyLimits = ReplyLimits {
    line_bytes: 4 << 10,
    bulk_bytes: MAP_BYTES_MAX,
    elements: 16,
    depth: 1,
    reply_bytes: MAP_BYTES_MAX + (4 << 10),
};
/// The largest map that is read, as between nodes.
const MAP_BYTES_MAX: usize = sidle_wire::limits::REQUEST_BODY_BYTES_MAX;
/// Every node of a cluster knows its coordinator's address: at most this many are asked.
const ADDRESSES_MAX: usize = 64;
/// How far the bus port lies above the client port, where `bus_port` is "auto".
const USUAL_BUS_OFFSET: u16 = 10_000;
/// How much of an error is shown.
const SHOWN_CHARACTERS: usize = 200;

/// Whether this address of a cluster's node is one at which this node listens itself, as its settings say or
/// as the name is resolved. A name without an address is nobody's yet.
pub(crate) fn is_of_this_node(join: &str, network: &NetworkConfig) -> bool {
    let Some((host, port)) = split_host_port(join).filter(|&(_, port)| port == network.port) else {
        return false;
    };
    let bind: IpAddr = network.bind.parse().expect("the settings were checked");
    let is_own = |found: SocketAddr| listens_at(bind, found.ip().to_canonical());
    let is_advertised = matches!(&network.advertise, Auto::Value(advertised) if advertised == host);
    is_advertised || (host, port).to_socket_addrs().is_ok_and(|mut found| found.any(is_own))
}

/// Whether a connection to this address reaches what listens at `bind` on the same port of this machine.
fn listens_at(bind: IpAddr, there: IpAddr) -> bool {
    // Only an address of this machine can be bound. Nobody's address reaches this machine over loopback.
    let is_here = || there.is_unspecified() || UdpSocket::bind((there, 0)).is_ok();
    match bind {
        bind if bind.is_unspecified() => (bind.is_ipv6() || there.is_ipv4()) && is_here(),
        bind => bind == there || there.is_unspecified() && bind.is_loopback(),
    }
}

/// Where to look for the coordinator.
#[derive(Debug)]
pub(crate) struct Search {
    /// The client address of a node of the cluster; empty: none is known.
    pub(crate) join: String,
    /// The cluster's password; empty: none.
    pub(crate) password: String,
    /// Bus addresses known already, the best first.
    pub(crate) found_at: watch::Receiver<Vec<String>>,
    /// Whether this process has reached the coordinator.
    pub(crate) found: bool,
    /// Where a found secret is tried.
    pub(crate) door: Door,
    /// What was logged of the node to join.
    pub(crate) complaints: Repeated,
}

impl Search {
    /// Bus addresses to try, the best first. Until this process has found the coordinator, the node to join
    /// is asked first: the operator knows better than what the data directory remembers. Later it is
    /// asked if nothing else is known.
    pub(crate) async fn addresses(&mut self) -> Vec<String> {
        let found_at = self.found_at.borrow().clone();
        let lacks_secret = !self.door.is_certain();
        let asks = !self.join.is_empty() && (!self.found || found_at.is_empty() || lacks_secret);
        if !asks {
            return found_at;
        }
        let asking = async {
            match lacks_secret {
                true => ask_for_secret(&self.join, &self.password).await,
                false => ask(&self.join).await,
            }
        };
        let asked = timeout(PATIENCE, asking).await;
        let mut addresses = match asked.unwrap_or(Err(JoinError::TimedOut)) {
            Ok(answer) => {
                if let Some(secret) = answer.secret {
                    self.door.try_secret(secret);
                }
                answer.addresses
            }
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
        self.complaints.forget();
    }

    fn complain(&mut self, error: &str, found_at: &[String]) {
        let next = match found_at {
            [] => "trying again".to_owned(),
            remembered => format!("trying what is remembered, {}", remembered.join(", ")),
        };
        let text = format!("cannot join the cluster of {}: {error}; {next}", self.join);
        if let Some(text) = self.complaints.due(&text, Instant::now()) {
            tracing::warn!("{text}");
        }
    }
}

/// Why a node did not name its cluster.
#[derive(Debug, thiserror::Error)]
enum JoinError {
    /// The network.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// No answer came.
    #[error("no answer in time")]
    TimedOut,
    /// The answer was something else.
    #[error("it answers {0}")]
    Refused(String),
    /// It wants a password that this node does not have.
    #[error(
        "it asks for the clients' password ({0}): give this node the same one, `[security] password` in its \
         file of settings"
    )]
    Password(String),
    /// It does not answer as a node does.
    #[error("it is not a Sidle node: give the address that its clients use ({0})")]
    Foreign(String),
    /// It is on another machine.
    #[error(
        "this node has no cluster secret, and only a node of the same machine, joined over loopback, can be \
         asked for it: copy {SECRET_FILE} from the data directory of a node of the cluster into this node's, or \
         give it with --cluster-secret-file"
    )]
    Distant,
    /// Its secret is unreadable, or not to be trusted.
    #[error(
        "{0}. A node finds the secret of a node that the same user runs on the same machine; else copy \
         {SECRET_FILE} from that node's data directory into this node's, or give it with --cluster-secret-file"
    )]
    Secret(SecretFileError),
}

/// The part of the tablet map needed here.
#[derive(Deserialize)]
struct Map {
    nodes: Vec<MapNode>,
}

#[derive(Deserialize)]
struct MapNode {
    client_addr: String,
    bus_addr: String,
}

/// What a node's answers yield.
struct Answer {
    /// Bus addresses of its cluster.
    addresses: Vec<String>,
    /// What may be its cluster's secret, if it was requested.
    secret: Option<sidle_handshake::ClusterSecret>,
}

/// Asks the node at a client address for its cluster, and sends no password: this node has the cluster's
/// secret.
async fn ask(node: &str) -> Result<Answer, JoinError> {
    let mut asked = Asked::connect(node).await?;
    let addresses = match asked.bus_addresses(node).await {
        Err(JoinError::Password(_)) => asked.where_nodes_connect(node).await?,
        addresses => addresses?,
    };
    Ok(Answer { addresses, secret: None })
}

/// Asks the node at a client address of this machine for its cluster and its secret's folder.
/// `password`: the cluster's; empty: none.
async fn ask_for_secret(node: &str, password: &str) -> Result<Answer, JoinError> {
    let mut neighbour = Asked::connect(node).await?;
    if !is_loopback(neighbour.stream.peer_addr()?.ip()) {
        return Err(JoinError::Distant);
    }
    if !password.is_empty() {
        match neighbour.request(&[b"AUTH", password.as_bytes()]).await {
            // It has none, or the next answers report it.
            Ok(_) | Err(JoinError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let addresses = neighbour.bus_addresses(node).await?;
    let setting = neighbour.request(&[b"CONFIG", b"GET", b"dir"]).await?;
    let dir = data_dir(&setting).ok_or_else(|| JoinError::Foreign("it names no folder".to_owned()))?;
    let secret = cluster_secret::of_neighbour(&dir).map_err(JoinError::Secret)?;
    Ok(Answer { addresses, secret: Some(secret) })
}

/// The bus addresses of the node at a client address: at this port, or at the usual one. The host as
/// named, and as reached: a node knows itself by either.
fn bus_addresses_at(node: &str, reached: IpAddr, port: Option<u16>) -> Vec<String> {
    let Some((host, client_port)) = split_host_port(node) else { return Vec::new() };
    let Some(port) = port.or_else(|| client_port.checked_add(USUAL_BUS_OFFSET)) else { return Vec::new() };
    let hosts = [host.to_owned(), reached.to_canonical().to_string()];
    let mut addresses: Vec<String> =
        hosts.into_iter().filter_map(|host| Some(HostPort::new(&host, port).ok()?.to_string())).collect();
    addresses.dedup();
    addresses
}

/// The folder in the answer to `CONFIG GET dir`.
fn data_dir(setting: &Value) -> Option<PathBuf> {
    let Value::Array(pair) = setting else { return None };
    let [_, dir] = pair.as_slice() else { return None };
    let dir = PathBuf::from(std::str::from_utf8(dir.as_bytes()?).ok()?);
    dir.is_absolute().then_some(dir)
}

/// A node being asked.
struct Asked {
    stream: TcpStream,
    parser: ReplyParser,
    input: Vec<u8>,
}

impl Asked {
    async fn connect(node: &str) -> Result<Asked, JoinError> {
        let (host, port) = split_host_port(node).ok_or_else(|| JoinError::Foreign("HOST:PORT".to_owned()))?;
        let stream = TcpStream::connect((host, port)).await?;
        Ok(Asked { stream, parser: ReplyParser::new(ANSWERS), input: Vec::new() })
    }

    /// The bus addresses of its cluster, the best first. `node`: its client address.
    async fn bus_addresses(&mut self, node: &str) -> Result<Vec<String>, JoinError> {
        let map = self.request(&[b"SIDLE.MAP"]).await.map_err(|error| match error {
            JoinError::Refused(text) if text.starts_with("NOAUTH") => JoinError::Password(text),
            error => error,
        })?;
        let json = map.as_bytes().ok_or_else(|| JoinError::Foreign("its map is no text".to_owned()))?;
        let map: Map = serde_json::from_slice(json).map_err(|error| JoinError::Foreign(error.to_string()))?;
        // The named one is known to answer.
        let (named, others): (Vec<MapNode>, Vec<MapNode>) =
            map.nodes.into_iter().partition(|known| known.client_addr == node);
        let known = named.into_iter().chain(others).take(ADDRESSES_MAX);
        Ok(known.map(|node| node.bus_addr).collect())
    }

    /// The bus addresses of the node itself, which need no password.
    async fn where_nodes_connect(&mut self, node: &str) -> Result<Vec<String>, JoinError> {
        let reached = self.stream.peer_addr()?.ip();
        let port = match self.request(&[b"SIDLE.BUS"]).await {
            Ok(Value::Integer(port)) => u16::try_from(port).ok(),
            // Of another release: its bus port is the usual one, or it is not found.
            Ok(_) | Err(JoinError::Refused(_)) => None,
            Err(error) => return Err(error),
        };
        Ok(bus_addresses_at(node, reached, port))
    }

    async fn request(&mut self, words: &[&[u8]]) -> Result<Value, JoinError> {
        let mut request = Vec::new();
        RequestWriter::new(&mut request).request(words);
        self.stream.write_all(&request).await?;
        loop {
            match self.parser.parse(&self.input).map_err(|error| JoinError::Foreign(error.to_string()))? {
                ParsedReply::Complete { frame, consumed } => {
                    let value = frame.reply.to_value();
                    self.input.drain(..consumed);
                    return match value {
                        Value::Error(text) => Err(JoinError::Refused(shown(&text))),
                        value => Ok(value),
                    };
                }
                ParsedReply::Incomplete { .. } => {}
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(JoinError::Foreign("it closed the connection".to_owned()));
            }
        }
    }
}

/// A stranger's text in a form fit for the log.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARACTERS).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_nodes_own_address_is_known_under_each_of_its_names() {
        let network = |bind: &str, advertise: &str| {
            let advertise = if advertise.is_empty() { Auto::Auto } else { Auto::Value(advertise.to_owned()) };
            NetworkConfig { bind: bind.to_owned(), port: 6379, advertise, ..NetworkConfig::default() }
        };
        let is_own = |join: &str, bind: &str| is_of_this_node(join, &network(bind, "node-a.example"));
        for (join, bind) in [
            ("127.0.0.1:6379", "127.0.0.1"),
            ("localhost:6379", "127.0.0.1"),
            ("[::ffff:127.0.0.1]:6379", "127.0.0.1"),
            ("0.0.0.0:6379", "127.0.0.1"),
            ("127.0.0.1:6379", "0.0.0.0"),
            ("localhost:6379", "0.0.0.0"),
            ("0.0.0.0:6379", "0.0.0.0"),
            ("127.0.0.1:6379", "::"),
            ("node-a.example:6379", "192.0.2.1"),
        ] {
            assert!(is_own(join, bind), "{join} at {bind}");
        }
        for (join, bind) in [
            ("127.0.0.1:6380", "127.0.0.1"),
            ("127.0.0.2:6379", "127.0.0.1"),
            ("192.0.2.1:6379", "0.0.0.0"),
            ("127.0.0.1:6379", "192.0.2.1"),
            ("node-a.example:6380", "127.0.0.1"),
            ("nobody.invalid:6379", "127.0.0.1"),
        ] {
            assert!(!is_own(join, bind), "{join} at {bind}");
        }
    }

    #[test]
    fn only_a_full_path_names_a_data_directory() {
        let text = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let of = |dir: Value| data_dir(&Value::Array(vec![text("dir"), dir]));
        assert_eq!(of(text("/data/a")), Some(PathBuf::from("/data/a")));
        for wrong in [text("data"), text(""), text("../a"), Value::Null, Value::Integer(7)] {
            assert_eq!(of(wrong.clone()), None, "{wrong:?}");
        }
        assert_eq!(data_dir(&Value::Array(vec![text("/data/a")])), None);
        assert_eq!(data_dir(&text("/data/a")), None);
    }

    #[test]
    fn the_port_for_nodes_is_as_told_or_ten_thousand_above() {
        let reached = IpAddr::from([10, 0, 0, 1]);
        let at = |node: &str, port| bus_addresses_at(node, reached, port);
        assert_eq!(at("10.0.0.1:6379", None), ["10.0.0.1:16379"]);
        assert_eq!(at("10.0.0.1:6379", Some(7)), ["10.0.0.1:7"]);
        assert_eq!(at("name:6379", None), ["name:16379", "10.0.0.1:16379"]);
        let loopback = bus_addresses_at("[::1]:6379", "::1".parse().unwrap(), None);
        assert_eq!(loopback, ["[::1]:16379"]);
        assert_eq!((at("h:60000", None), at("h", None)), (vec![], vec![]));
    }

    #[test]
    fn a_strangers_text_is_cut_and_made_harmless() {
        assert_eq!(shown("NOAUTH \x1b[2J\n"), "NOAUTH ?[2J?");
        assert_eq!(shown(&"e".repeat(1 << 20)).len(), SHOWN_CHARACTERS);
    }
}
