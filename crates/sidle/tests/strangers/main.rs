//! A hostile peer at the port for nodes of a real cluster, with data and a password: nothing is learnt,
//! nothing changes, nobody ends, memory stays bounded, and clients and members are served all the while.

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
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::{Client, Node, NodeOptions, bulk, eventually};

const PASSWORD: &str = "a client's password";
const KEYS: usize = 2_000;
/// How much more memory a node may take, whatever strangers send: what its allocator keeps of a few
/// connections.
const GROWTH_BYTES_MAX: u64 = 48 << 20;
/// How long strangers go on, and how many times at least and at most.
const FLOOD: Duration = Duration::from_secs(5);
const FLOOD_ATTEMPTS: std::ops::Range<usize> = 200..20_000;

/// The nonce of a listener: all that a stranger is ever sent.
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
            json!({"status": report, "map": String::from_utf8_lossy(map.as_bytes().expect("a map"))})
        };
        Json::from_iter(self.nodes.iter().map(of_node))
    }

    /// Every key is where and what it was, and can be written.
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

    /// What the nodes logged; nobody has ended or been superseded.
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

/// What a genuine dialer sent in an earlier handshake with this very node.
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

/// One stranger: what he sends before, in the middle of, and after a handshake that he cannot pass. Returns
/// how many bytes the node sent him.
fn attempt(address: &str, arsenal: &[Vec<u8>], recording: &Recording, random: &mut Random) -> usize {
    let mut peer = Peer::connect(address);
    let mut received = 0;
    let weapon = |random: &mut Random| {
        let mut weapon = arsenal[random.index(arsenal.len())].clone();
        match random.index(4) {
            0 => weapon.truncate(random.index(weapon.len()) + 1),
            1 => {
                let at = random.index(weapon.len());
                weapon[at] ^= 1 << random.index(8);
            }
            _ => {}
        }
        weapon
    };
    let phase = random.index(6);
    if phase > 0 {
        peer.send(&recording.opening);
        if phase > 1 {
            received += peer.receive(NONCE_BYTES).len();
        }
        match phase {
            2 => drop(peer.send(&[random.index(256) as u8; NONCE_BYTES])),
            3 => drop(peer.send(&recording.proof)),
            4 => {
                let wrong = ClusterSecret::from_random(std::array::from_fn(|index| index as u8));
                let mut forged = peer.dialer(&wrong, random.index(256) as u8);
                forged.poll_transmit();
                let _ = forged.handle(&[9; NONCE_BYTES]);
                peer.send(forged.poll_transmit().expect("a proof").as_ref());
            }
            _ => {}
        }
    }
    peer.send(&weapon(random));
    peer.finish();
    received + peer.rest().len()
}

fn arsenal(victim: &str, cluster: &str, huge_bytes: usize) -> Vec<Vec<u8>> {
    let mut arsenal = frames();
    arsenal.extend(control_messages(victim, cluster, &"x".repeat(huge_bytes)).iter().map(control));
    arsenal.push(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec());
    arsenal.push(b"*1\r\n$4\r\nPING\r\n".to_vec());
    arsenal
}

#[test]
fn strangers_learn_and_change_nothing() {
    let mut cluster = Cluster::start();
    let secret = cluster.secret();
    let before = cluster.state();
    let name = before[0]["status"]["cluster"].as_str().expect("a name").to_owned();
    let arsenal = arsenal(&cluster.victim(), &name, 1 << 10);
    let addresses = cluster.nodes.each_ref().map(Node::bus_address);
    let recordings = addresses.each_ref().map(|address| Recording::make(address, &secret));
    let resident = cluster.nodes.each_ref().map(resident_bytes);
    let attempts = AtomicUsize::new(0);
    let deadline = Instant::now() + FLOOD;
    let served = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (attempts, arsenal) = (&attempts, &arsenal);
            let (address, recording) = (&addresses[thread % 2], &recordings[thread % 2]);
            scope.spawn(move || {
                let mut random = Random::new(0x5eed + thread as u64);
                let mut done = 0;
                while (Instant::now() < deadline || done < FLOOD_ATTEMPTS.start / 4)
                    && attempts.load(Relaxed) < FLOOD_ATTEMPTS.end
                {
                    let received = attempt(address, arsenal, recording, &mut random);
                    assert!(received <= NONCE_BYTES, "a stranger was sent {received} bytes");
                    attempts.fetch_add(1, Relaxed);
                    done += 1;
                }
            });
        }
        // Clients are served meanwhile, and the member is heard of.
        let mut genuine = client(&cluster.nodes[0]);
        while Instant::now() < deadline {
            assert_eq!(genuine.request(&["GET", "key:7"]), bulk("value 7"));
            served.store(true, Relaxed);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    assert!(served.load(Relaxed));
    cluster.check_nobody_ended();
    eventually("the cluster is as it was", || (cluster.state() == before).then_some(()));
    cluster.check_data();
    for (node, before) in cluster.nodes.iter().zip(resident) {
        let growth = resident_bytes(node).saturating_sub(before);
        assert!(growth < GROWTH_BYTES_MAX, "{growth} bytes more after {attempts:?} attempts");
    }
    let log = cluster.nodes[0].log();
    let warnings = log.lines().filter(|line| line.contains("WARN")).count();
    assert!(
        log.contains("has another cluster secret") && log.contains("does not speak their protocol"),
        "{log}"
    );
    assert!(warnings < 40, "{warnings} warnings of {attempts:?} attempts");
}

/// Three connections that send as fast as they can took a node to gigabytes.
#[test]
fn strangers_who_send_without_end_fill_nothing() {
    let mut cluster = Cluster::start();
    let before = cluster.state();
    let resident = resident_bytes(&cluster.nodes[0]);
    let name = before[0]["status"]["cluster"].as_str().expect("a name").to_owned();
    let large = control_messages(&cluster.victim(), &name, &"x".repeat((16 << 20) - 4_096));
    let large = large.iter().map(control).max_by_key(Vec::len).expect("some");
    let address = cluster.nodes[0].bus_address();
    let recording = Recording::make(&address, &cluster.secret());
    let deadline = Instant::now() + Duration::from_secs(2);
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
    let growth = resident_bytes(&cluster.nodes[0]).saturating_sub(resident);
    assert!(growth < GROWTH_BYTES_MAX, "{growth} bytes more");
    cluster.check_nobody_ended();
    eventually("the cluster is as it was", || (cluster.state() == before).then_some(()));
    cluster.check_data();
}

/// Connections that prove nothing make way for those that come after them, and end after seconds.
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

/// What a member may send is bounded too: it proves who it is, not that it is well.
#[test]
fn a_member_is_held_to_its_kind_of_connection() {
    let mut cluster = Cluster::start();
    let secret = cluster.secret();
    let before = cluster.state();
    let resident = resident_bytes(&cluster.nodes[0]);
    let address = cluster.nodes[0].bus_address();
    let name = before[0]["status"]["cluster"].as_str().expect("a name").to_owned();
    let (victim, stranger) = (cluster.victim(), "cd".repeat(20));
    // First frames that open nothing, and such as are too long for what they open.
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
    // In one conversation one node speaks.
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

/// A node that is told to join a stranger tells him nothing, and does nothing that he says. Nor can he hand
/// on what the node says to him.
#[test]
fn an_impostor_is_neither_told_nor_obeyed() {
    let cluster = Cluster::start();
    let before = cluster.state();
    let name = before[0]["status"]["cluster"].as_str().expect("a name").to_owned();
    let [impostor, clients] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let impostor_at = impostor.local_addr().expect("an address").to_string();
    let at = clients.local_addr().expect("an address").to_string();
    // Where clients connect it names its own bus address as that of the cluster.
    let map = json!({"nodes": [{"client_addr": at, "bus_addr": impostor_at}]}).to_string();
    std::thread::spawn(move || {
        for stream in clients.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 4096];
            while stream.read(&mut request).is_ok_and(|length| length > 0) {
                let reply = match request.starts_with(b"*2\r\n$4\r\nAUTH") {
                    true => "+OK\r\n".to_owned(),
                    false => format!("${}\r\n{map}\r\n", map.len()),
                };
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
        // A challenge of his own, and whatever he could say behind it.
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
    let identity = std::fs::read_to_string(joiner.file("node.json")).expect("it has one");
    assert!(!identity.contains(&impostor_at) && identity.contains("\"cluster\": null"), "{identity}");
    assert_eq!(cluster.state(), before);
}
