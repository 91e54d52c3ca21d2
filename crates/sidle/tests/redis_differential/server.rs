//! The two servers and a connection to each.

use crate::support::redis::RedisServer;
use crate::support::{Client, Node, NodeOptions, eventually};
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, RequestWriter, Value};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(30);

trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// A connection to either server.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    received: Vec<u8>,
}

impl Connection {
    fn new(stream: impl Stream + 'static) -> Connection {
        Connection { stream: Box::new(stream), received: Vec::new() }
    }

    /// Sends bytes that get no answer.
    pub(crate) fn tell(&mut self, request: &[u8]) {
        self.stream.write_all(request).expect("the server takes what it is sent");
    }

    /// Sends bytes and returns one whole reply.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.tell(request);
        loop {
            if let Some(length) = whole_reply(&self.received) {
                return self.received.drain(..length).collect();
            }
            let mut piece = [0; 64 << 10];
            let read = self.stream.read(&mut piece);
            let read = read.unwrap_or_else(|error| panic!("no reply to {}: {error}", request.escape_ascii()));
            assert!(read > 0, "the connection was closed after {}", request.escape_ascii());
            self.received.extend_from_slice(&piece[..read]);
        }
    }
}

/// The length of the reply at the front of `bytes`, once it is whole.
fn whole_reply(bytes: &[u8]) -> Option<usize> {
    match ReplyParser::new(ReplyLimits::default()).parse(bytes).expect("a server writes replies") {
        ParsedReply::Complete { consumed, .. } => Some(consumed),
        ParsedReply::Incomplete { .. } => None,
    }
}

/// A redis-server on a socket in an empty folder.
struct Redis {
    server: RedisServer,
    socket: PathBuf,
}

impl Redis {
    fn start() -> Option<Redis> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = folder.path().join("redis.sock");
        let path = socket.to_str().expect("its name is text");
        let settings = ["--port", "0", "--appendonly", "no", "--rdbcompression", "no", "--unixsocket", path];
        Some(Redis { server: RedisServer::start(folder, &settings)?, socket })
    }

    fn connect(&self) -> Connection {
        let stream = eventually("redis-server answers", || UnixStream::connect(&self.socket).ok());
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        Connection::new(stream)
    }
}

/// Redis and Sidle side by side, with one connection to each.
pub(crate) struct Both {
    redis_server: Redis,
    node: Node,
    pub(crate) redis: Connection,
    pub(crate) sidle: Connection,
    /// A second connection to each, once there was a request over it.
    others: Option<[Connection; 2]>,
    /// Sidle's collections are in chunks of few elements.
    pub(crate) has_small_chunks: bool,
}

impl Both {
    /// `None`, and a printed line, if there is no redis-server to compare with.
    pub(crate) fn start() -> Option<Both> {
        let Some(redis_server) = Redis::start() else {
            eprintln!("skipped: there is no redis-server to compare with");
            return None;
        };
        Both::beside(redis_server, &NodeOptions::default())
    }

    /// The same with a node that keeps all but the smallest collections in chunks of few elements.
    pub(crate) fn start_with_small_chunks() -> Option<Both> {
        let mut both = Both::beside(Redis::start()?, &NodeOptions::default().switch("--debug-commands"))?;
        let words: [&[u8]; 4] = [b"DEBUG", b"COLLECTION-SIZES", b"40", b"24"];
        let mut request = Vec::new();
        RequestWriter::new(&mut request).request(&words);
        assert_eq!(both.sidle.ask(&request), b"+OK\r\n");
        both.has_small_chunks = true;
        Some(both)
    }

    fn beside(redis_server: Redis, options: &NodeOptions) -> Option<Both> {
        let node = Node::start(options);
        let (redis, sidle) = (redis_server.connect(), connect(&node));
        Some(Both { redis_server, node, redis, sidle, others: None, has_small_chunks: false })
    }

    /// Sidle's node.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// The file that Redis's SAVE writes.
    pub(crate) fn redis_file(&self) -> PathBuf {
        self.redis_server.server.folder().join("dump.rdb")
    }

    /// Opens all connections anew.
    pub(crate) fn reconnect(&mut self) {
        self.redis = self.redis_server.connect();
        self.sidle = connect(&self.node);
        self.others = None;
    }

    /// The same over the second connections.
    pub(crate) fn ask_beside(&mut self, request: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (redis_server, node) = (&self.redis_server, &self.node);
        let [redis, sidle] = self.others.get_or_insert_with(|| [redis_server.connect(), connect(node)]);
        (redis.ask(request), sidle.ask(request))
    }

    /// Sends the same to both; returns Redis's reply and Sidle's.
    pub(crate) fn ask(&mut self, request: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (self.redis.ask(request), self.sidle.ask(request))
    }
}

fn connect(node: &Node) -> Connection {
    let stream = TcpStream::connect(node.address()).expect("the node is ready");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    stream.set_nodelay(true).expect("the delay can be taken off");
    Connection::new(stream)
}

/// Two redis-servers that are one cluster; the first has all slots.
pub(crate) struct RedisCluster {
    _servers: [RedisServer; 2],
    address: String,
}

impl RedisCluster {
    /// `None`, and a printed line, if there is no redis-server to compare with.
    pub(crate) fn start() -> Option<RedisCluster> {
        let Some((first, address, _)) = start_member() else {
            eprintln!("skipped: there is no redis-server to compare with");
            return None;
        };
        let (second, other, other_bus) = start_member()?;
        let cluster = RedisCluster { _servers: [first, second], address };
        let port = other.rsplit_once(':').expect("host:port").1;
        let mut client = cluster.client();
        for request in [
            &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"][..],
            &["CLUSTER", "MEET", "127.0.0.1", port, &other_bus],
        ] {
            assert_eq!(client.request(request), Value::Simple("OK".into()), "{request:?}");
        }
        eventually("both servers know each other", || {
            let nodes = client.request(&["CLUSTER", "NODES"]);
            let text = String::from_utf8_lossy(nodes.as_bytes()?).into_owned();
            let are_met =
                text.lines().count() == 2 && !text.contains("handshake") && !text.contains("disconnected");
            let links = client.request(&["CLUSTER", "LINKS"]);
            let info = client.request(&["CLUSTER", "INFO"]);
            let is_ok = String::from_utf8_lossy(info.as_bytes()?).contains("cluster_state:ok");
            (are_met && is_ok && matches!(links, Value::Array(links) if links.len() == 2)).then_some(())
        });
        Some(cluster)
    }

    /// A client of the first.
    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.address)
    }
}

/// A server in cluster mode, with its client address and its bus port.
fn start_member() -> Option<(RedisServer, String, String)> {
    let (server, [port, bus]) = RedisServer::listening(|[port, bus]| {
        let settings = ["--port", port, "--bind", "127.0.0.1", "--appendonly", "no"];
        let of_cluster = ["--cluster-enabled", "yes", "--cluster-port", bus];
        let folder = tempfile::tempdir().expect("a temporary folder");
        RedisServer::start(folder, &[&settings[..], &of_cluster].concat())
    })?;
    Some((server, format!("127.0.0.1:{port}"), bus))
}
