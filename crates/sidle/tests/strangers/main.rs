//! A hostile peer at the bus port of a real cluster, with data and a password. It learns nothing and
//! changes nothing, no process ends, memory stays bounded, and clients and members are served throughout.

#![allow(clippy::disallowed_methods)] // tests read clocks and files

mod messages;
mod peer;
#[path = "../support/mod.rs"]
mod support;

use messages::{control, control_messages, frames};
use peer::Peer;
use serde_json::{Value as Json, json};
use sidle_handshake::ClusterSecret;
use sidle_resp::Value;
use sidle_testbed::Random;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{Client, Node, NodeOptions, StopWhenDropped, bulk, eventually};

const PASSWORD: &str = "a client's password";
const KEYS: usize = 2_000;
/// How much more memory a node may take, whatever strangers send: its allocator's reserve for a few
/// connections.
const GROWTH_BYTES_MAX: u64 = 48 << 20;
/// How long strangers continue once they have tried everything.
const FLOOD: Duration = Duration::from_secs(15);
/// How many strangers there are at a time.
const STRANGERS: usize = 4;

/// A listener's nonce: all that a stranger ever receives.
const NONCE_BYTES: usize = sidle_handshake::CHALLENGE_BYTES;

/// A coordinator's node with the data, and a member.
struct Cluster {
    nodes: [Node; 2],
}

impl Cluster {
    fn start() -> Cluster {
        let options = NodeOptions::default().flag("--password", PASSWORD).flag("--max-memory", "64mb");
        let first = Node::start(&options);
        let second = Node::start(&options.flag("--join", &first.address()));
        let cluster = Cluster { nodes: [first, second] };
        eventually("both know each other", || {
            let known = |node: &Node| status(node)["nodes"].as_array().map(Vec::len) == Some(2);
            cluster.nodes.iter().all(known).then_some(())
        });
        let mut client = client(&cluster.nodes[0]);
        for first in (0..KEYS).step_by(500) {
            let set = |n: usize| vec!["SET".to_owned(), format!("key:{n}"), format!("value {n}")];
            let requests: Vec<_> = (first..first + 500).map(set).collect();
            assert!(client.pipeline(&requests).iter().all(|reply| *reply == Value::Simple("OK".into())));
        }
        eventually("the last map is on both disks", || {
            let epoch = status(&cluster.nodes[0])["map_epoch"].as_u64()?;
            let is_kept = |node: &Node| {
                let text = std::fs::read(node.file("last-map.json")).ok()?;
                let kept: Json = serde_json::from_slice(&text).ok()?;
                Some(kept["map"]["epoch"].as_u64()? == epoch)
            };
            cluster.nodes.iter().all(|node| is_kept(node) == Some(true)).then_some(())
        });
        eventually("the coordinator has heard how full both are", || {
            let report = status(&cluster.nodes[1]);
            let nodes = report["nodes"].as_array()?;
            let keys: u64 = nodes.iter().filter_map(|node| node["keys"].as_u64()).sum();
            let are_known = nodes.iter().all(|node| node["memory_limit_bytes"] != 0);
            (keys == KEYS as u64 && are_known).then_some(())
        });
        cluster
    }

    fn secret(&self) -> ClusterSecret {
        let text = std::fs::read(self.nodes[0].file("cluster.secret")).expect("the founder has a secret");
        ClusterSecret::parse(&text).expect("and it is one")
    }

    /// All of the cluster's state that strangers might change.
    fn state(&self) -> Json {
        let of_node = |node: &Node| {
            let mut report = status(node);
            for node in report["nodes"].as_array_mut().expect("nodes") {
                let node = node.as_object_mut().expect("a node");
                for volatile in ["silent_us", "memory_used_bytes"] {
                    node.remove(volatile);
                }
            }
            let map = client(node).request(&["SIDLE.MAP"]);
            // The cluster's addresses, its last map, and the coordinator's record.
            let files = ["node.json", "last-map.json", "coordinator.meta", "cluster.secret"].map(|name| {
                let bytes = std::fs::read(node.file(name)).ok();
                (
                    name.to_owned(),
                    bytes.map(|bytes| bytes.escape_ascii().to_string().into()).unwrap_or_default(),
                )
            });
            let files: serde_json::Map<String, Json> = files.into_iter().collect();
            let map = String::from_utf8_lossy(map.as_bytes().expect("a map")).into_owned();
            json!({"status": report, "map": map, "files": files})
        };
        Json::from_iter(self.nodes.iter().map(of_node))
    }

    /// Every key is in its place, unchanged, and can be written.
    fn check_data(&self) {
        let mut client = client(&self.nodes[0]);
        let get = |n: usize| vec!["GET".to_owned(), format!("key:{n}")];
        let replies = client.pipeline(&(0..KEYS).map(get).collect::<Vec<_>>());
        for (n, reply) in replies.into_iter().enumerate() {
            assert_eq!(reply, bulk(&format!("value {n}")));
        }
        assert_eq!(client.request(&["SET", "key:0", "value 0"]), Value::Simple("OK".into()));
    }

    fn victim(&self) -> String {
        let id = client(&self.nodes[1]).request(&["CLUSTER", "MYID"]);
        String::from_utf8(id.as_bytes().expect("an id").to_vec()).expect("digits")
    }

    /// The nodes' logs; no process has ended or been superseded.
    fn check_nobody_ended(&mut self) {
        for node in &mut self.nodes {
            assert!(node.is_running(), "{}", node.log());
            for word in ["broke;", "panicked", "another process runs"] {
                assert!(!node.log().contains(word), "{}", node.log());
            }
        }
    }
}

fn client(node: &Node) -> Client {
    let mut client = node.client();
    assert_eq!(client.request(&["AUTH", PASSWORD]), Value::Simple("OK".into()));
    client
}

fn status(node: &Node) -> Json {
    let reply = client(node).request(&["SIDLE.STATUS"]);
    serde_json::from_slice(reply.as_bytes().unwrap_or_default()).unwrap_or_default()
}

fn resident_bytes(node: &Node) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", node.process_id())).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel counts it");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") << 10
}

/// Watches the nodes' memory while `work` runs; returns the most by which each has grown.
fn growth_during(nodes: &[Node; 2], work: impl FnOnce()) -> [u64; 2] {
    let before = nodes.each_ref().map(resident_bytes);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watched = scope.spawn(|| {
            let mut most = before;
            while !is_over.load(Relaxed) {
                let now = nodes.each_ref().map(resident_bytes);
                most = [0, 1].map(|node| most[node].max(now[node]));
                std::thread::sleep(Duration::from_millis(2));
            }
            most
        });
        {
            let _over = StopWhenDropped(&is_over);
            work();
        }
        let most = watched.join().expect("the nodes can be watched");
        [0, 1].map(|node| most[node] - before[node])
    })
}

/// A genuine dialer's bytes in an earlier handshake with this very node.
struct Recording {
    opening: Vec<u8>,
    proof: Vec<u8>,
}

impl Recording {
    fn make(address: &str, secret: &ClusterSecret) -> Recording {
        let mut peer = Peer::connect(address);
        let mut handshake = peer.dialer(secret, 1);
        let sent = |handshake: &mut sidle_handshake::Handshake<'_>| {
            handshake.poll_transmit().map(|message| message.as_ref().to_vec()).expect("something to send")
        };
        let opening = sent(&mut handshake);
        assert!(peer.send(&opening));
        while handshake.wanted() > 0 && handshake.handle(&peer.receive(handshake.wanted())).expect("fine") > 0
        {
            if let Some(proof) = handshake.poll_transmit() {
                let proof = proof.as_ref().to_vec();
                assert!(peer.send(&proof));
                assert_eq!(peer.receive(NONCE_BYTES).len(), NONCE_BYTES, "the listener's proof");
                return Recording { opening, proof };
            }
        }
        panic!("no challenge came");
    }
}

/// How far a stranger gets in a handshake that he cannot pass, before he sends his message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Before,
    /// After the opening, without waiting for the challenge.
    Opened,
    /// With the challenge received and not answered.
    Challenged,
    /// After an invalid proof.
    AfterNoise,
    /// After the proof of an earlier handshake.
    AfterReplay,
    /// After a proof by another secret.
    AfterForgery,
}

impl Phase {
    const ALL: [Phase; 6] = [
        Phase::Before,
        Phase::Opened,
        Phase::Challenged,
        Phase::AfterNoise,
        Phase::AfterReplay,
        Phase::AfterForgery,
    ];
}

/// The change made to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Whole,
    Cut,
    Flipped,
    /// With a header that announces much more than follows.
    Oversized,
    Twice,
}

impl Form {
    const ALL: [Form; 5] = [Form::Whole, Form::Cut, Form::Flipped, Form::Oversized, Form::Twice];

    fn of(self, message: &[u8], random: &mut Random) -> Vec<u8> {
        let mut message = message.to_vec();
        match self {
            Form::Whole => {}
            Form::Cut => message.truncate(random.index(message.len()) + 1),
            Form::Flipped => {
                let at = random.index(message.len());
                message[at] ^= 1 << random.index(8);
            }
            Form::Oversized => message[..4].copy_from_slice(&(1_u32 << 30).to_le_bytes()),
            Form::Twice => message.extend_from_within(..),
        }
        message
    }
}

/// One stranger's attempt. Returns how many bytes the node sent him.
fn attempt(
    address: &str,
    message: &[u8],
    (phase, form): (Phase, Form),
    recording: &Recording,
    random: &mut Random,
) -> usize {
    let mut peer = Peer::connect(address);
    let mut received = 0;
    if phase > Phase::Before {
        peer.send(&recording.opening);
    }
    if phase > Phase::Opened {
        received += peer.receive(NONCE_BYTES).len();
    }
    match phase {
        Phase::AfterNoise => drop(peer.send(&[random.index(256) as u8; NONCE_BYTES])),
        Phase::AfterReplay => drop(peer.send(&recording.proof)),
        Phase::AfterForgery => {
            let wrong = ClusterSecret::from_random(std::array::from_fn(|index| index as u8));
            let mut forged = peer.dialer(&wrong, random.index(256) as u8);
            forged.poll_transmit();
            let _ = forged.handle(&[9; NONCE_BYTES]);
            peer.send(forged.poll_transmit().expect("a proof").as_ref());
        }
        Phase::Before | Phase::Opened | Phase::Challenged => {}
    }
    peer.send(&form.of(message, random));
    peer.finish();
    received + peer.rest().len()
}

/// How often each attempt was made.
#[derive(Debug, Default)]
struct Counts(Mutex<BTreeMap<(Phase, Form), usize>>);

impl Counts {
    fn add(&self, way: (Phase, Form)) {
        *self.0.lock().expect("nobody panics with it").entry(way).or_default() += 1;
    }

    /// Checks that each form of each message was sent at least this often; returns the counts as text.
    fn check(&self, least: usize) -> String {
        let counts = self.0.lock().expect("nobody panics with it");
        let mut text = format!("{} attempts\n", counts.values().sum::<usize>());
        for phase in Phase::ALL {
            let row = Form::ALL.map(|form| (form, counts.get(&(phase, form)).copied().unwrap_or_default()));
            assert!(row.iter().all(|(_, count)| *count >= least), "{phase:?}: {row:?}, {least} messages");
            text.push_str(&format!("{phase:?}: {row:?}\n"));
        }
        text
    }
}

fn arsenal(victim: &str, cluster: &str, huge_bytes: usize) -> Vec<Vec<u8>> {
    let mut arsenal = frames();
    arsenal.extend(control_messages(victim, cluster, &"x".repeat(huge_bytes)).iter().map(control));
    arsenal.push(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec());
    arsenal.push(b"*1\r\n$4\r\nPING\r\n".to_vec());
    arsenal
}

/// Every message in every form at every point of a handshake, at both nodes; then the same at random for
/// the rest of the time.
#[test]
fn strangers_learn_and_change_nothing() {
    let mut cluster = Cluster::start();
    let secret = cluster.secret();
    let before = cluster.state();
    let name = before[0]["status"]["cluster"].as_str().expect("a name").to_owned();
    let arsenal = arsenal(&cluster.victim(), &name, 1 << 10);
    let addresses = cluster.nodes.each_ref().map(Node::bus_address);
    let recordings = addresses.each_ref().map(|address| Recording::make(address, &secret));
    let ways: Vec<(Phase, Form)> =
        Phase::ALL.into_iter().flat_map(|phase| Form::ALL.map(|form| (phase, form))).collect();
    let all = arsenal.len() * ways.len() * addresses.len();
    let (next, counts, served) = (AtomicUsize::new(0), Counts::default(), AtomicUsize::new(0));
    let deadline = Instant::now() + FLOOD;
    let growth = growth_during(&cluster.nodes, || {
        std::thread::scope(|scope| {
            let strangers: Vec<_> = (0..STRANGERS)
                .map(|thread| {
                    let (arsenal, ways, next, counts) = (&arsenal, &ways, &next, &counts);
                    let (addresses, recordings) = (&addresses, &recordings);
                    scope.spawn(move || {
                        let mut random = Random::new(0x5eed + thread as u64);
                        loop {
                            let number = next.fetch_add(1, Relaxed);
                            if number >= all && Instant::now() >= deadline {
                                return;
                            }
                            // Beyond the last one at random.
                            let case = if number < all { number } else { random.index(all) };
                            let (node, case) = (case % addresses.len(), case / addresses.len());
                            let (way, message) = (ways[case % ways.len()], &arsenal[case / ways.len()]);
                            let received =
                                attempt(&addresses[node], message, way, &recordings[node], &mut random);
                            assert!(received <= NONCE_BYTES, "{way:?}: a stranger was sent {received} bytes");
                            counts.add(way);
                        }
                    })
                })
                .collect();
            // Clients are served meanwhile.
            let mut genuine = client(&cluster.nodes[0]);
            while !strangers.iter().all(|stranger| stranger.is_finished()) {
                assert_eq!(genuine.request(&["GET", "key:7"]), bulk("value 7"));
                served.fetch_add(1, Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
    });
    assert!(served.into_inner() > 100);
    let counts = counts.check(arsenal.len() * addresses.len());
    eprintln!("{counts}{} messages at {} nodes; memory grew by {growth:?}", arsenal.len(), addresses.len());
    cluster.check_nobody_ended();
    eventually("the cluster is as it was", || (cluster.state() == before).then_some(()));
    cluster.check_data();
    assert!(growth.iter().all(|&bytes| bytes < GROWTH_BYTES_MAX), "{growth:?} bytes more: {counts}");
    let log = cluster.nodes[0].log();
    let warnings = log.lines().filter(|line| line.contains("WARN")).count();
    assert!(
        log.contains("has another cluster secret") && log.contains("does not speak their protocol"),
        "{log}"
    );
    assert!(warnings < 40, "{warnings} warnings: {counts}");
}

/// Three connections that send at full speed once took a node to gigabytes.
#[test]
fn strangers_who_send_without_end_fill_nothing() {
    let mut cluster = Cluster::start();
    let before = cluster.state();
    let name = before[0]["status"]["cluster"].as_str().expect("a name").to_owned();
    let large = control_messages(&cluster.victim(), &name, &"x".repeat((16 << 20) - 4_096));
    let large = large.iter().map(control).max_by_key(Vec::len).expect("some");
    let address = cluster.nodes[0].bus_address();
    let recording = Recording::make(&address, &cluster.secret());
    let deadline = Instant::now() + Duration::from_secs(2);
    let growth = growth_during(&cluster.nodes, || {
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (address, large, recording) = (&address, &large, &recording);
                scope.spawn(move || {
                    while Instant::now() < deadline {
                        let mut peer = Peer::connect(address);
                        if thread % 2 == 0 {
                            peer.send(&recording.opening);
                        }
                        while peer.send(large) && Instant::now() < deadline {}
                    }
                });
            }
        });
    });
    assert!(growth.iter().all(|&bytes| bytes < GROWTH_BYTES_MAX), "{growth:?} bytes more");
    cluster.check_nobody_ended();
    eventually("the cluster is as it was", || (cluster.state() == before).then_some(()));
    cluster.check_data();
}

/// Unproven connections make way for later ones, and end after seconds.
#[test]
fn strangers_who_hold_connections_open_shut_nobody_out() {
    let mut cluster = Cluster::start();
    let address = cluster.nodes[0].bus_address();
    let recording = Recording::make(&address, &cluster.secret());
    let mut held: Vec<Peer> = (0..300)
        .map(|number| {
            let mut peer = Peer::connect(&address);
            match number % 3 {
                0 => drop(peer.send(&recording.opening)),
                1 => drop(peer.send(&recording.opening[..20])),
                _ => {}
            }
            peer
        })
        .collect();
    eventually("most have made way", || {
        let closed = held.iter_mut().map(Peer::is_closed).filter(|&is_closed| is_closed).count();
        (closed >= 300 - 32).then_some(())
    });
    let options = NodeOptions::default().flag("--password", PASSWORD).flag("--max-memory", "64mb");
    let third = Node::start(&options.flag("--join", &cluster.nodes[0].address()));
    eventually("a genuine node joins", || {
        (status(&third)["nodes"].as_array().map(Vec::len) == Some(3)).then_some(())
    });
    eventually("all have been closed", || held.iter_mut().all(Peer::is_closed).then_some(()));
    cluster.check_nobody_ended();
    assert!(cluster.nodes[0].log().contains("the oldest make way"), "{}", cluster.nodes[0].log());
}

/// With few descriptors, the clients' and the files' share is closed to the bus
/// port.
#[test]
fn strangers_and_members_take_no_descriptor_that_clients_were_promised() {
    let mut node = Node::start_under("ulimit -n 256", &["--password", PASSWORD]).expect("it starts");
    let secret =
        ClusterSecret::parse(&std::fs::read(node.file("cluster.secret")).expect("it has one")).expect("one");
    let address = node.bus_address();
    let mut members: Vec<Peer> = (0..200)
        .filter_map(|seed| {
            let mut peer = Peer::connect(&address);
            peer.shake(&secret, seed).then_some(peer)
        })
        .collect();
    // Each announces a conversation with the coordinator, and stays.
    let load = json!({"keys": 0, "memory_used_bytes": 0, "memory_limit_bytes": 0});
    let body = json!({"heartbeat": {"map_epoch": 0, "load": load, "holds": []}});
    let from = "cd".repeat(20);
    let hello = control(&json!({"to_coordinator": {"from": from, "incarnation": 1, "body": body}}));
    for member in &mut members {
        member.send(&hello);
    }
    let mut strangers: Vec<TcpStream> = Vec::new();
    for _ in 0..300 {
        strangers.push(TcpStream::connect(&address).expect("the port takes connections"));
    }
    eventually("most members are too many", || {
        let refused = members.iter_mut().map(Peer::is_closed).filter(|&is_closed| is_closed).count();
        (refused + 16 >= members.len()).then_some(())
    });
    assert!(!members.iter_mut().all(Peer::is_closed), "some members have their share");
    let mut first = client(&node);
    let Value::Array(told) = first.request(&["CONFIG", "GET", "maxclients"]) else { panic!("no setting") };
    let promised: usize =
        std::str::from_utf8(told[1].as_bytes().expect("text")).expect("text").parse().expect("a number");
    let mut clients = vec![first];
    clients.extend((1..promised).map(|_| client(&node)));
    for client in &mut clients {
        assert_eq!(client.request(&["PING"]), Value::Simple("PONG".into()));
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", node.process_id())).expect("it runs").count();
    assert!(open <= 256 && promised > 90, "{open} are open, {promised} clients were promised");
    // Files have their share.
    std::fs::remove_file(node.file("node.json")).expect("it is there");
    eventually("it is written anew", || node.file("node.json").exists().then_some(()));
    assert!(!node.log().contains("cannot accept"), "{}", node.log());
    assert!(node.is_running());
}

/// A member's messages are bounded too: it proves who it is, not that it works correctly.
#[test]
fn a_member_is_held_to_its_kind_of_connection() {
    let mut cluster = Cluster::start();
    let secret = cluster.secret();
    let before = cluster.state();
    let resident = resident_bytes(&cluster.nodes[0]);
    let address = cluster.nodes[0].bus_address();
    let name = before[0]["status"]["cluster"].as_str().expect("a name").to_owned();
    let (victim, stranger) = (cluster.victim(), "cd".repeat(20));
    // First frames that open nothing, and first frames that are too long for their kind.
    for frame in frames() {
        let opens = [sidle_wire::Kind::Hello as u8, sidle_wire::Kind::Forward as u8].contains(&frame[5]);
        if !opens {
            let mut peer = Peer::member(&address, &secret);
            peer.send(&frame);
            peer.finish();
            assert!(peer.rest().is_empty(), "kind {}", frame[5]);
        }
    }
    let huge = "x".repeat((16 << 20) - 4_096);
    for message in control_messages(&victim, &name, &huge) {
        let frame = control(&message);
        if frame.len() > 64 << 10
            || message.get("to_node").is_some()
            || message.get("coordinator_at").is_some()
        {
            let mut peer = Peer::member(&address, &secret);
            peer.send(&frame);
            peer.finish();
            assert!(peer.rest().is_empty());
        }
    }
    // One conversation is one node's.
    let heartbeat = |from: &str| {
        let load = json!({"keys": 0, "memory_used_bytes": 0, "memory_limit_bytes": 0});
        let body = json!({"heartbeat": {"map_epoch": 0, "load": load, "holds": []}});
        control(&json!({"to_coordinator": {"from": from, "incarnation": 1, "body": body}}))
    };
    let mut peer = Peer::member(&address, &secret);
    peer.send(&heartbeat(&stranger));
    assert!(!peer.receive(16).is_empty(), "the coordinator asks it to join");
    peer.send(&heartbeat(&victim));
    peer.rest();
    cluster.check_nobody_ended();
    eventually("the cluster is as it was", || (cluster.state() == before).then_some(()));
    cluster.check_data();
    let growth = resident_bytes(&cluster.nodes[0]).saturating_sub(resident);
    assert!(growth < GROWTH_BYTES_MAX, "{growth} bytes more");
}

/// A node directed to join a stranger reveals nothing to him, and obeys none of his messages. Nor can he
/// relay the node's messages.
#[test]
fn an_impostor_is_neither_told_nor_obeyed() {
    let cluster = Cluster::start();
    let before = cluster.state();
    let name = before[0]["status"]["cluster"].as_str().expect("a name").to_owned();
    let [impostor, clients] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let impostor_at = impostor.local_addr().expect("an address").to_string();
    let at = clients.local_addr().expect("an address").to_string();
    // At its client address it names its own bus address as the cluster's: without a password, or when
    // it is asked again after it has demanded one.
    let map = json!({"nodes": [{"client_addr": at, "bus_addr": impostor_at}]}).to_string();
    let port = impostor_at.rsplit_once(':').expect("host:port").1.to_owned();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    std::thread::spawn(move || {
        for (turn, stream) in clients.incoming().enumerate() {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut request) {
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                let reply = match (turn % 2, request.contains("SIDLE.BUS")) {
                    (0, _) => format!("${}\r\n{map}\r\n", map.len()),
                    (_, true) => format!(":{port}\r\n"),
                    (_, false) => "-NOAUTH Authentication required.\r\n".to_owned(),
                };
                heard.lock().expect("nobody panics with it").push(request);
                let _ = stream.write_all(reply.as_bytes());
            }
        }
    });
    let secret_file = cluster.nodes[0].file("cluster.secret");
    let options = NodeOptions::default()
        .flag("--password", PASSWORD)
        .flag("--max-memory", "64mb")
        .flag("--join", &at)
        .flag("--cluster-secret-file", secret_file.to_str().expect("plain names"));
    let mut joiner = Node::start_unready(&options);
    let genuine_at = cluster.nodes[0].bus_address();
    for attempt in 0..4 {
        let (mut dialed, _) = impostor.accept().expect("the joiner connects");
        dialed.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout can be set");
        let mut opening = [0; sidle_handshake::OPENING_BYTES];
        dialed.read_exact(&mut opening).expect("an opening");
        let mut relayed = TcpStream::connect(&genuine_at).expect("the genuine node listens");
        relayed.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout can be set");
        relayed.write_all(&opening).expect("it takes it");
        let mut answer = Vec::new();
        let _ = relayed.read_to_end(&mut answer);
        assert!(answer.is_empty(), "the genuine node answers what is relayed");
        // A challenge of his own, and any message after it.
        let mut lies = vec![attempt; NONCE_BYTES];
        lies.extend([attempt; NONCE_BYTES]);
        for message in control_messages(&cluster.victim(), &name, "x") {
            lies.extend(control(&message));
        }
        let _ = dialed.write_all(&lies);
        let mut told = Vec::new();
        let _ = dialed.read_to_end(&mut told);
        assert!(told.len() <= sidle_handshake::PROOF_BYTES, "an impostor was told {} bytes", told.len());
    }
    eventually("the joiner says why", || joiner.log().contains("another cluster secret").then_some(()));
    assert!(joiner.is_running(), "{}", joiner.log());
    // A node that has the secret sends no password to a process that has not proven that it has it.
    let told = told.lock().expect("nobody panics with it").clone();
    assert!(told.iter().any(|request| request.contains("SIDLE.BUS")), "{told:?}");
    for request in told {
        assert!(!request.contains("AUTH") && !request.contains(PASSWORD), "the impostor was told: {request}");
    }
    let identity = std::fs::read_to_string(joiner.file("node.json")).expect("it has one");
    assert!(!identity.contains(&impostor_at) && identity.contains("\"cluster\": null"), "{identity}");
    assert_eq!(cluster.state(), before);
}
