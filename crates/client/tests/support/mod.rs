//! Small servers in the test's own process: a function scripts their answers.

// A failed unwrap fails the test.
#![allow(clippy::unwrap_used)]

use sidle_cluster::{HostPort, Incarnation, MigrationRecord, NodeInfo, Tablet, TabletMap};
use sidle_resp::{Args, Limits, Parsed, ReplyWriter, RequestParser, RespVersion};
use sidle_testbed::fixtures::{node_id, running};
use sidle_types::{MapEpoch, NodeId, Position, PositionRange, TabletEpoch};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a server does with a request.
pub(crate) enum Do {
    /// Sends these bytes.
    Answer(Vec<u8>),
    /// Hangs: sends nothing more on this connection.
    Hang,
    /// Closes the connection.
    Close,
}

type Script = Box<dyn FnMut(&[&[u8]]) -> Do + Send>;

/// One node.
pub(crate) struct Server {
    pub(crate) address: HostPort,
    /// The map that it serves.
    pub(crate) map: Arc<Mutex<Option<TabletMap>>>,
    /// How many reads it made.
    pub(crate) reads: Arc<AtomicUsize>,
    /// How many connections it accepted.
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Server {
    /// A node that greets, serves its map, and leaves everything else to the script.
    pub(crate) async fn start(script: impl FnMut(&[&[u8]]) -> Do + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server {
            address: HostPort::from(listener.local_addr().unwrap()),
            map: Arc::default(),
            reads: Arc::default(),
            connections: Arc::default(),
        };
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(Box::new(script)));
        let (map, reads) = (Arc::clone(&server.map), Arc::clone(&server.reads));
        let connections = Arc::clone(&server.connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(stream, Arc::clone(&script), Arc::clone(&map), Arc::clone(&reads)));
            }
        });
        server
    }

    /// A node that stores what is set.
    pub(crate) async fn storing() -> Server {
        let mut store = Store::default();
        Server::start(move |args| store.run(args)).await
    }
}

async fn serve(
    mut stream: TcpStream,
    script: Arc<Mutex<Script>>,
    map: Arc<Mutex<Option<TabletMap>>>,
    reads: Arc<AtomicUsize>,
) {
    let mut parser = RequestParser::new(Limits::default());
    let mut args = Args::new();
    let mut input = Vec::with_capacity(1 << 20);
    loop {
        match stream.read_buf(&mut input).await {
            Ok(0) | Err(_) => return,
            Ok(_) => reads.fetch_add(1, Ordering::Relaxed),
        };
        let mut output = Vec::new();
        let mut at = 0;
        let (mut is_closing, mut is_hung) = (false, false);
        while let Ok(Parsed::Complete { consumed }) = parser.parse(&input[at..], &mut args) {
            let request = args.slices(&input[at..]);
            match request[0] {
                b"HELLO" => output.extend_from_slice(b"%1\r\n+proto\r\n:3\r\n"),
                b"CLIENT" | b"ASKING" => output.extend_from_slice(b"+OK\r\n"),
                b"SIDLE.MAP" => match &*map.lock().unwrap() {
                    Some(map) => {
                        let json = serde_json::to_vec(map).unwrap();
                        ReplyWriter::new(&mut output, RespVersion::Resp3).bulk(&json);
                    }
                    None => output.extend_from_slice(b"-ERR unknown command 'SIDLE.MAP'\r\n"),
                },
                _ => match (script.lock().unwrap())(&request) {
                    Do::Answer(bytes) => output.extend_from_slice(&bytes),
                    Do::Hang => is_hung = true,
                    Do::Close => is_closing = true,
                },
            }
            at += consumed;
            if is_closing || is_hung {
                break;
            }
        }
        if is_hung {
            std::future::pending::<()>().await;
        }
        input.drain(..at);
        if stream.write_all(&output).await.is_err() || is_closing {
            return;
        }
    }
}

/// A minimal store.
#[derive(Default)]
pub(crate) struct Store {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Store {
    pub(crate) fn run(&mut self, args: &[&[u8]]) -> Do {
        let mut out = Vec::new();
        let mut reply = ReplyWriter::new(&mut out, RespVersion::Resp3);
        let has = |option: &[u8]| args.iter().skip(3).any(|arg| *arg == option);
        match (args[0], args.len()) {
            (b"PING", 1) => reply.simple("PONG"),
            (b"GET", 2) => match self.values.get(args[1]) {
                Some(value) => reply.bulk(value),
                None => reply.null(),
            },
            (b"SET", _) => {
                let previous = self.values.get(args[1]).cloned();
                let holds = !(has(b"NX") && previous.is_some() || has(b"XX") && previous.is_none());
                if holds {
                    self.values.insert(args[1].to_vec(), args[2].to_vec());
                }
                match previous {
                    Some(previous) if has(b"GET") => reply.bulk(&previous),
                    _ if has(b"GET") || !holds => reply.null(),
                    _ => reply.ok(),
                }
            }
            (b"DEL", 2) => reply.integer(i64::from(self.values.remove(args[1]).is_some())),
            (b"INCR", 2) | (b"INCRBY", 3) => {
                let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<i64>().ok();
                let by = args.get(2).map_or(Some(1), |by| number(by)).unwrap();
                match self.values.get(args[1]).map_or(Some(0), |value| number(value)) {
                    Some(old) => {
                        self.values.insert(args[1].to_vec(), (old + by).to_string().into_bytes());
                        reply.integer(old + by);
                    }
                    None => reply.error("ERR value is not an integer or out of range"),
                }
            }
            _ => reply.error("ERR unknown command"),
        }
        Do::Answer(out)
    }
}

fn id(number: usize) -> NodeId {
    node_id(number as u8 + 1)
}

/// A map in which each of these servers owns an equal share of the positions.
pub(crate) fn shared_out(epoch: u64, servers: &[&Server]) -> TabletMap {
    let share = u64::MAX / servers.len() as u64;
    let range = |index: usize| {
        let last = if index + 1 == servers.len() { u64::MAX } else { share * (index as u64 + 1) - 1 };
        PositionRange::new(Position(share * index as u64), Position(last)).unwrap()
    };
    let tablet = |index| Tablet { range: range(index), owner: id(index), epoch: TabletEpoch(1) };
    let tablets = (0..servers.len()).map(tablet).collect();
    TabletMap::new(MapEpoch(epoch), nodes(servers), tablets, vec![]).unwrap()
}

/// A map in which the first server moves everything to the second.
pub(crate) fn moving(epoch: u64, servers: [&Server; 2]) -> TabletMap {
    let running = running(7, PositionRange::ALL, 1, 2, 2);
    let record = MigrationRecord { map_epoch: MapEpoch(epoch), ..running };
    let everything = Tablet { range: PositionRange::ALL, owner: id(1), epoch: TabletEpoch(2) };
    TabletMap::new(MapEpoch(epoch), nodes(&servers), vec![everything], vec![record]).unwrap()
}

fn nodes(servers: &[&Server]) -> Vec<NodeInfo> {
    let node = |(index, server): (usize, &&Server)| NodeInfo {
        id: id(index),
        incarnation: Incarnation(1),
        client_addr: server.address.clone(),
        bus_addr: server.address.clone(),
    };
    servers.iter().enumerate().map(node).collect()
}

/// Gives the map to all of the servers.
pub(crate) fn publish(map: &TabletMap, servers: &[&Server]) {
    servers.iter().for_each(|server| *server.map.lock().unwrap() = Some(map.clone()));
}
