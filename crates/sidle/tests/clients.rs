//! Clients' strain on a node process: on its memory, descriptors, places and time; and
//! writes that clients do not intend.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests run processes and read clocks

mod support;

use sidle_resp::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use support::{Client, Node, NodeOptions, PATIENCE, TestCluster, bulk, eventually};

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

fn ok() -> Value {
    Value::Simple("OK".into())
}

/// Resident memory of a node's process in bytes.
fn resident_bytes(node: &Node) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", node.process_id())).expect("Linux tells");
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * rustix::param::page_size() as u64
}

/// One figure of INFO.
fn figure(node: &Node, name: &str) -> u64 {
    // A place may only just have become free.
    let reply = eventually("INFO", || {
        let reply = node.client().try_request(&["INFO", "everything"])?;
        reply.as_bytes().is_some().then_some(reply)
    });
    let text = String::from_utf8_lossy(reply.as_bytes().expect("INFO is a text")).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_owned));
    line.unwrap_or_else(|| panic!("INFO has no {name}")).trim().parse().expect("a number")
}

/// A connection of which only the test reads.
fn connect(node: &Node) -> TcpStream {
    let stream = eventually("a connection", || TcpStream::connect(node.address()).ok());
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout can be set");
    stream
}

/// Everything until the node closes; an abrupt end is an end.
fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    if let Err(error) = stream.read_to_end(&mut all) {
        assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "the node does not close the connection");
    }
    all
}

/// Whether the node has closed it.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout can be set");
    match stream.read(&mut [0; 1]) {
        Ok(length) => length == 0,
        Err(error) => !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
    }
}

#[test]
fn web_page_cannot_write() {
    let node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    assert_eq!(client.request(&["SET", "kept", "1"]), ok());
    for _ in 0..3 {
        let mut page = connect(&node);
        page.write_all(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nFLUSHALL\r\n").expect("it is taken");
        // The body may come later.
        let _ = page.write_all(b"FLUSHALL\r\nSHUTDOWN\r\n");
        assert_eq!(read_to_end(&mut page), b"");
    }
    assert_eq!(client.request(&["GET", "kept"]), bulk("1"));
    let attack = "Possible SECURITY ATTACK";
    // What the node logs arrives here a little later.
    eventually("the log names the attack", || node.log().contains(attack).then_some(()));
    let log = node.log();
    assert_eq!(log.matches(attack).count(), 1, "once a minute is enough: {log}");
}

/// Closes a connection abruptly: the node's later writes to it fail.
fn reset(stream: TcpStream) {
    let socket = socket2::SockRef::from(&stream);
    socket.set_linger(Some(Duration::ZERO)).expect("the option can be set");
}

#[test]
fn replies_of_a_client_that_reset_its_connection_reach_nobody() {
    let node = Node::start(&NodeOptions::default().flag("--workers", "1"));
    let mut client = node.client();
    assert_eq!(client.request(&["SET", "secret", "of another client"]), ok());
    for _ in 0..200 {
        let mut gone = connect(&node);
        gone.write_all(&b"*2\r\n$3\r\nGET\r\n$6\r\nsecret\r\n".repeat(3)).expect("it is taken");
        reset(gone);
        assert_eq!(client.request(&["GET", "absent"]), Value::Null);
    }
}

#[test]
fn what_is_no_request_gets_a_clear_end() {
    let node = Node::start(&NodeOptions::default());
    for (bytes, error) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00\x01"[..], "-ERR Protocol error: this port does not speak TLS\r\n"),
        (b"\x00\x00\x00\x17", "-ERR Protocol error: expected '*' or a command, got byte 0x00\r\n"),
    ] {
        let mut stream = connect(&node);
        stream.write_all(bytes).expect("it is taken");
        assert_eq!(String::from_utf8_lossy(&read_to_end(&mut stream)), error);
    }
}

/// 54 kB of request ask for 6 GB of reply.
#[test]
fn reply_without_end_ends_its_connection_and_takes_no_memory() {
    let node = Node::start(&NodeOptions::default().flag("--max-memory", "64mb"));
    let mut client = node.client();
    assert_eq!(client.request(&["SET", "big", &"x".repeat(1 << 20)]), ok());
    let before = resident_bytes(&node);
    let mut mget = vec!["MGET"];
    mget.extend(["big"; 6_000]);
    for version in ["2", "3"] {
        let mut greedy = node.client();
        greedy.request(&["HELLO", version]);
        greedy.send(&mget);
        greedy.send(&["SET", "behind", "1"]);
        let said = String::from_utf8_lossy(&greedy.read_to_end()).into_owned();
        assert!(said.starts_with("-ERR the reply has more than 67108864 bytes"), "{said}");
    }
    let grown = resident_bytes(&node).saturating_sub(before);
    assert!(grown < 400 << 20, "the node grew by {grown} bytes");
    assert_eq!(client.request(&["EXISTS", "behind"]), Value::Integer(0));
    assert_eq!(figure(&node, "client_output_buffer_limit_disconnections"), 2);
}

#[test]
fn request_that_the_memory_cannot_hold_is_refused_when_it_is_announced() {
    let node = Node::start(&NodeOptions::default().flag("--max-memory", "64mb"));
    let mut client = connect(&node);
    client.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$500000000\r\n").expect("it is taken");
    // Clients send all of it before they read.
    for _ in 0..32 {
        client.write_all(&vec![b'x'; 1 << 20]).expect("what follows is thrown away");
    }
    let mut said = vec![0; 4096];
    let length = client.read(&mut said).expect("an answer");
    let said = String::from_utf8_lossy(&said[..length]).into_owned();
    let error =
        "-ERR Protocol error: an argument of 500000000 bytes is more than the server can take (67108864)\r\n";
    assert_eq!(said, error);
    assert_eq!(figure(&node, "client_query_buffer_limit_disconnections"), 1);
}

/// Replies made at the same time exceed the bound of all clients together many times over. The next one
/// waits until the clients marked to make room have done so.
#[test]
fn replies_made_at_the_same_time_have_a_bound_together() {
    const MOST: u64 = 64 << 20;
    const VALUES: usize = 20;
    let options = NodeOptions::default().flag("--max-memory", "256mb").flag("--max-client-memory", "64mb");
    let node = Node::start(&options);
    let value = "x".repeat(1 << 20);
    let mut client = node.client();
    let names: Vec<String> = (0..VALUES).map(|number| format!("k{number}")).collect();
    for name in &names {
        client.request(&["SET", name, &value]);
    }
    let mut request = format!("*{}\r\n$4\r\nMGET\r\n", VALUES + 1);
    names.iter().for_each(|name| request.push_str(&format!("${}\r\n{name}\r\n", name.len())));
    let before = resident_bytes(&node);
    let mut asking: Vec<TcpStream> = (0..40).map(|_| connect(&node)).collect();
    // None of them reads.
    for stream in &mut asking {
        stream.write_all(request.as_bytes()).expect("it is taken");
    }
    let mut held = 0;
    let mut highest = 0;
    for _ in 0..100 {
        held = held.max(figure(&node, "mem_clients_normal"));
        highest = highest.max(resident_bytes(&node));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let grown = highest.saturating_sub(before);
    assert!(grown < 6 * MOST, "the node grew by {grown} bytes");
    assert!(held < 3 * MOST, "{held} bytes were held at once");
    eventually("the sum is within its limit", || (figure(&node, "mem_clients_normal") <= MOST).then_some(()));
    assert!(figure(&node, "evicted_clients") >= 1);
}

/// Requests under way are counted, and the largest are ended when there are too many.
#[test]
fn requests_under_way_count_and_have_a_bound() {
    const MOST: u64 = 64 << 20;
    let node = Node::start(&NodeOptions::default().flag("--max-memory", "64mb"));
    let before = resident_bytes(&node);
    // One far below the limit is shown and left alone.
    let mut small = connect(&node);
    small.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nz\r\n$4000000\r\n").expect("it is taken");
    small.write_all(&vec![b'x'; 3_000_000]).expect("it is taken");
    eventually("INFO shows it", || (figure(&node, "mem_clients_normal") > 3_000_000).then_some(()));
    let mut client = node.client();
    let list = client.request(&["CLIENT", "LIST"]);
    let list = String::from_utf8_lossy(list.as_bytes().expect("a text")).into_owned();
    let address = small.local_addr().expect("it is connected").to_string();
    let line = list.lines().find(|line| line.contains(&format!("addr={address} "))).expect("it is listed");
    let field = |name: &str| -> u64 {
        let word = line.split(' ').find_map(|word| word.strip_prefix(name)).expect("the field is there");
        word.parse().expect("a number")
    };
    assert!(field("qbuf=") > 2_000_000 && field("tot-mem=") > field("qbuf="), "{line}");

    let mut large: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut stream = connect(&node);
            stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$60000000\r\n").expect("it is taken");
            stream
        })
        .collect();
    let piece = vec![b'x'; 1 << 20];
    let mut highest = 0;
    for _ in 0..50 {
        for stream in &mut large {
            // The node may have closed it.
            let _ = stream.write_all(&piece);
        }
        highest = highest.max(resident_bytes(&node));
    }
    let closed = large.iter_mut().filter_map(|stream| is_closed(stream).then_some(())).count();
    assert!((1..=4).contains(&closed), "{closed} are closed");
    assert!(!is_closed(&mut small), "the smallest is the last to go");
    let grown = highest.saturating_sub(before);
    assert!(grown < 4 * MOST, "the node grew by {grown} bytes");
    eventually("the sum is within its limit", || (figure(&node, "mem_clients_normal") <= MOST).then_some(()));
    assert!(figure(&node, "evicted_clients") >= 1);
    assert!(node.log().contains("(maxmemory-clients)"));
    // A half-sent request can still be finished.
    small.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    small.write_all(&vec![b'x'; 1_000_000]).expect("it is taken");
    small.write_all(b"\r\n").expect("it is taken");
    let mut said = [0; 5];
    small.read_exact(&mut said).expect("an answer");
    assert_eq!(&said, b"+OK\r\n");
}

#[test]
fn client_that_says_no_evict_stays() {
    let node = Node::start(&NodeOptions::default().flag("--max-client-memory", "4mb"));
    let mut protected = node.client();
    assert_eq!(protected.request(&["CLIENT", "NO-EVICT", "ON"]), ok());
    protected.send_raw(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4000000\r\n");
    protected.send_raw(&vec![b'x'; 3_900_000]);
    eventually("it is counted", || (figure(&node, "mem_clients_normal") > 3_800_000).then_some(()));
    let mut other = connect(&node);
    other.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$2000000\r\n").expect("it is taken");
    let _ = other.write_all(&vec![b'x'; 1_900_000]);
    eventually("the other one is closed", || is_closed(&mut other).then_some(()));
    protected.send_raw(&vec![b'x'; 100_000]);
    protected.send_raw(b"\r\n");
    assert_eq!(protected.reply(), ok());
}

#[test]
fn replies_that_nobody_reads_are_shown() {
    let node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    assert_eq!(client.request(&["SET", "big", &"x".repeat(20 << 20)]), ok());
    let mut reader = connect(&node);
    reader.write_all(b"GET big\r\n").expect("it is taken");
    let address = reader.local_addr().expect("it is connected").to_string();
    eventually("CLIENT LIST shows it", || {
        let list = client.request(&["CLIENT", "LIST"]);
        let list = String::from_utf8_lossy(list.as_bytes()?).into_owned();
        let line = list.lines().find(|line| line.contains(&format!("addr={address} ")))?.to_owned();
        let omem: u64 = line.split(' ').find_map(|word| word.strip_prefix("omem="))?.parse().ok()?;
        let descriptor = line.split(' ').find_map(|word| word.strip_prefix("fd="))?;
        let socket = std::fs::read_link(format!("/proc/{}/fd/{descriptor}", node.process_id())).ok()?;
        assert!(socket.to_string_lossy().starts_with("socket:"), "{socket:?}: {line}");
        (omem > 10 << 20 && line.contains(" oll=1 ") && line.contains(" events=w ")).then_some(())
    });
    assert!(figure(&node, "mem_clients_normal") > 10 << 20);
    assert!(figure(&node, "client_recent_max_output_buffer") > 10 << 20);
    let mut whole = vec![0; (20 << 20) + b"$20971520\r\n\r\n".len()];
    reader.read_exact(&mut whole).expect("all of it comes");
    eventually("it is given back", || (figure(&node, "mem_clients_normal") < 1 << 20).then_some(()));
    eventually("it is long ago", || {
        (figure(&node, "client_recent_max_output_buffer") < 1 << 20).then_some(())
    });
}

#[test]
fn operator_gets_in_when_all_places_are_taken() {
    let node = Node::start(&NodeOptions::default().flag("--max-clients", "50"));
    let mut idle: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = connect(&node);
            stream.write_all(b"PING\r\n").expect("it is taken");
            stream.read_exact(&mut [0; 7]).expect("it has a place");
            stream
        })
        .collect();
    // More of them than operators' places.
    let mut refused: Vec<TcpStream> = (0..40).map(|_| connect(&node)).collect();
    for stream in &mut refused {
        assert_eq!(read_to_end(stream), TOO_MANY);
    }
    let mut client = connect(&node);
    client.write_all(b"GET a\r\n").expect("it is taken");
    assert_eq!(read_to_end(&mut client), TOO_MANY, "a client's work is refused at once");
    assert!(figure(&node, "rejected_connections") >= 41);
    // On a busy machine it may not send in time at once.
    eventually("sidle status gets in", || node.run(&["status"]).status.success().then_some(()));
    // Silent operators make room for another one.
    let operators: Vec<Client> = (0..20)
        .map(|_| {
            eventually("an operator is let in", || {
                let mut operator = node.client();
                matches!(operator.try_request(&["CLIENT", "ID"])?, Value::Integer(_)).then_some(operator)
            })
        })
        .collect();
    let killed = eventually("an operator is let in", || {
        let mut operator = node.client();
        match operator.try_request(&["CLIENT", "KILL", "TYPE", "normal"])? {
            Value::Integer(killed) => Some(killed),
            _ => None,
        }
    });
    assert!(killed >= 50, "{killed}");
    eventually("all are closed", || idle.iter_mut().all(is_closed).then_some(()));
    drop(operators);
    eventually("clients are let in", || {
        (node.client().try_request(&["PING"])? == Value::Simple("PONG".into())).then_some(())
    });
}

#[test]
fn killed_client_runs_nothing_more() {
    let node = Node::start(&NodeOptions::default());
    let mut victim = node.client();
    let Value::Integer(id) = victim.request(&["CLIENT", "ID"]) else { panic!("ids are numbers") };
    let mut operator = node.client();
    assert_eq!(operator.request(&["CLIENT", "KILL", "ID", &id.to_string()]), Value::Integer(1));
    // It may not have been closed yet, but its further requests are not run.
    victim.try_send_raw(b"SET a 1\r\n");
    assert_eq!(victim.read_to_end(), b"");
    assert_eq!(operator.request(&["EXISTS", "a"]), Value::Integer(0));
    let own = operator.request(&["CLIENT", "ID"]);
    let Value::Integer(own) = own else { panic!("ids are numbers") };
    let killed = operator.request(&["CLIENT", "KILL", "ID", &own.to_string(), "SKIPME", "no"]);
    assert_eq!(killed, Value::Integer(1));
    assert_eq!(operator.read_to_end(), b"", "closed behind the answer");
}

#[test]
fn silent_clients_are_closed_after_the_timeout_and_busy_ones_are_not() {
    let node = Node::start(&NodeOptions::default().flag("--idle-timeout", "2"));
    let mut silent = connect(&node);
    let mut busy = node.client();
    let begun = Instant::now();
    eventually("the silent one is closed", || {
        assert_eq!(busy.request(&["PING"]), Value::Simple("PONG".into()));
        is_closed(&mut silent).then_some(())
    });
    assert!(begun.elapsed() > Duration::from_millis(1_500), "closed after {:?}", begun.elapsed());
    assert_eq!(busy.request(&["CONFIG", "GET", "timeout"]), Value::Array(vec![bulk("timeout"), bulk("2")]));
    assert_eq!(busy.request(&["CONFIG", "SET", "timeout", "0"]), ok());
}

/// More than there are operators' places, one after the other.
#[test]
fn clients_that_were_refused_and_stay_keep_no_operator_out() {
    let node = Node::start(&NodeOptions::default());
    let mut first = node.client();
    assert_eq!(first.request(&["CONFIG", "SET", "maxclients", "1"]), ok());
    let mut refused = Vec::new();
    for _ in 0..150 {
        let mut stream = connect(&node);
        stream.write_all(b"PING\r\n").expect("it is taken");
        let mut said = vec![0; TOO_MANY.len()];
        stream.read_exact(&mut said).expect("an answer");
        assert_eq!(said, TOO_MANY);
        refused.push(stream);
        if refused.len() % 10 == 0 {
            let list = node.client().request(&["CLIENT", "LIST"]);
            assert!(list.as_bytes().is_some(), "{list:?} after {}", refused.len());
        }
    }
}

/// A client that waits for pushes is not silent.
/// A client whose command waits, for moving data or for the coordinator, is silent because the node is.
#[test]
fn clients_that_wait_for_the_node_are_not_idle() {
    let cluster = TestCluster::start_with(2, &NodeOptions::default().flag("--idle-timeout", "1"));
    let value = "x".repeat(1_000);
    for n in 0..1_000 {
        assert_eq!(cluster.client(0).request(&["SET", &format!("{{foo}}{n}"), &value]), ok());
    }
    let to = cluster.nodes[1].address();
    // 1 MB takes minutes. A request to the target for one of its keys waits until all of it is there.
    let start = ["migrate", "--to", &to, "--slots", "12182-12182", "--protocol", "stop-and-copy"];
    let slowly = ["--rate", "0.005", "--detach"];
    assert!(cluster.nodes[0].run(&[&start[..], &slowly].concat()).status.success());
    eventually("it runs", || (cluster.migration(1)?["state"] == "running").then_some(()));
    let mut parked = cluster.client(1);
    parked.send(&["GET", "{foo}7"]);
    let mut asking = cluster.client(1);
    asking.send(&["SIDLE.MIGRATE", "WAIT", "1", "5000"]);
    // Three in turn are closed as idle while those two wait.
    for _ in 0..3 {
        let mut idle = connect(&cluster.nodes[1]);
        assert_eq!(read_to_end(&mut idle), b"");
    }
    assert!(matches!(asking.reply(), Value::Bulk(_)), "where it stands after five seconds");
    let set = ["migrate", "set", "1", "--deadline", "1"];
    assert!(cluster.nodes[0].run(&set).status.success());
    assert_eq!(parked.reply(), bulk(&value));
}

#[test]
fn client_that_listens_for_maps_is_not_idle() {
    let node = Node::start(&NodeOptions::default().flag("--idle-timeout", "1"));
    let mut listening = node.client();
    assert!(matches!(listening.request(&["HELLO", "3"]), Value::Map(_)));
    assert_eq!(listening.request(&["CLIENT", "CAPA", "sidle"]), ok());
    for _ in 0..2 {
        let mut silent = connect(&node);
        eventually("the silent one is closed", || is_closed(&mut silent).then_some(()));
    }
    listening.send(&["PING"]);
    // Maps may have been announced meanwhile.
    let mut replies = std::iter::from_fn(|| listening.try_reply());
    let answered = replies.any(|reply| reply == Value::Simple("PONG".into()));
    assert!(answered, "it was closed while it listened");
}

/// Starts a node under a limit of open files; returns its output if it has ended, or the node.
fn under_limit(limit: u64) -> Result<Node, String> {
    Node::start_under(&format!("ulimit -n {limit}"), &[])
}

#[test]
fn node_says_so_when_it_may_open_too_few_files_to_serve_anybody() {
    let log = under_limit(16).err().expect("it does not start");
    assert!(log.contains("the process may open 16 files, and this node needs"), "{log}");
    assert!(log.contains("ulimit -n"), "it says what to do: {log}");
}

#[test]
fn node_serves_as_many_as_it_may_open_files_for_and_refuses_the_rest() {
    let node = under_limit(256).expect("it starts");
    assert!(node.log().contains("the process may open 256 files"), "{}", node.log());
    let mut streams: Vec<TcpStream> = (0..300).map(|_| connect(&node)).collect();
    let (mut served, mut refused) = (0, 0);
    for stream in &mut streams {
        // A refused one may be closed by now.
        let _ = stream.write_all(b"PING\r\n");
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).expect("everybody is answered");
        match &answer {
            b"+PONG\r\n" => served += 1,
            b"-ERR ma" => refused += 1,
            other => panic!("{}", other.escape_ascii()),
        }
    }
    assert_eq!(served + refused, 300);
    // Others' connections have their share, those for copies of logs too.
    assert!(served > 90, "{served} are served");
    drop(streams);
    let mut client = eventually("a client is served", || {
        let mut client = node.client();
        (client.try_request(&["PING"])? == Value::Simple("PONG".into())).then_some(client)
    });
    let most = served.to_string();
    let told = client.request(&["CONFIG", "GET", "maxclients"]);
    assert_eq!(told, Value::Array(vec![bulk("maxclients"), bulk(&most)]));
    let refused = client.request(&["CONFIG", "SET", "maxclients", "10000"]);
    let Value::Error(text) = refused else { panic!("{refused:?}") };
    assert!(text.ends_with(&format!("try with {most}")), "{text}");
}

/// A shell's limit is raised to the system's bound.
#[test]
fn soft_limit_is_raised_at_the_start() {
    let node = Node::start_under("ulimit -Sn 200; ulimit -Hn 700", &[]).expect("it starts");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", node.process_id())).expect("Linux tells");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("it is listed");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[3..5], ["700", "700"], "{line}");
    let clients: Vec<Client> = (0..300)
        .map(|_| {
            let mut client = node.client();
            assert_eq!(client.request(&["PING"]), Value::Simple("PONG".into()));
            client
        })
        .collect();
    drop(clients);
}

/// Out of descriptors while it runs: each newcomer is refused with the reason, and the node keeps running.
#[test]
fn client_that_no_descriptor_is_left_for_is_refused_with_words() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let node = Node::start(&NodeOptions::default());
    let mut first = node.client();
    assert_eq!(first.request(&["PING"]), Value::Simple("PONG".into()));
    // As many as it has open now, and no more. The limit is on descriptors' numbers, so
    // clients take the free ones below it first.
    let mut clients = Vec::new();
    let open = loop {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", node.process_id())).expect("Linux tells");
        let names = folder.filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.to_owned()));
        let taken: std::collections::BTreeSet<u64> = names.filter_map(|name| name.parse().ok()).collect();
        let free = (0..).find(|number| !taken.contains(number)).expect("numbers do not end");
        if taken.last().is_none_or(|last| *last < free) {
            break free;
        }
        let mut client = node.client();
        assert_eq!(client.request(&["PING"]), Value::Simple("PONG".into()));
        clients.push(client);
    };
    let process = Pid::from_raw(node.process_id() as i32);
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    prlimit(process, Resource::Nofile, Rlimit { current: Some(open), maximum })
        .expect("a process of one's own can be limited");
    let mut refused = 0;
    for _ in 0..8 {
        let mut stream = connect(&node);
        // A refused one may be closed by now.
        let _ = stream.write_all(b"PING\r\n");
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).expect("everybody is answered");
        // While one worker refuses a client, another may find that worker's spare descriptor.
        refused += usize::from(answer[..] == TOO_MANY[..7]);
    }
    assert!(refused >= 4, "{refused} of 8 were refused");
    assert_eq!(first.request(&["PING"]), Value::Simple("PONG".into()), "the node lives on");
}

#[test]
fn stranger_that_never_gives_the_password_loses_its_place() {
    let options = NodeOptions::default().flag("--password", "secret").flag("--password-timeout", "2");
    let node = Node::start(&options);
    let mut known = node.client();
    assert_eq!(known.request(&["AUTH", "secret"]), ok());
    let mut stranger = connect(&node);
    let mut wrong = node.client();
    let begun = Instant::now();
    eventually("it is closed, whatever it says", || {
        let _ = wrong.try_request(&["AUTH", "wrong"]);
        is_closed(&mut stranger).then_some(())
    });
    assert!(begun.elapsed() > Duration::from_millis(1_500), "closed after {:?}", begun.elapsed());
    eventually("trying is not giving", || wrong.try_request(&["AUTH", "wrong"]).is_none().then_some(()));
    assert_eq!(known.request(&["PING"]), Value::Simple("PONG".into()), "who gave it stays");
}
