//! No client request writes by accident, takes unbounded memory or starves others on the worker.

use sidle_node::testing::SoloNode;
use sidle_node::{Closing, Ending, SERVE_REPLY_BYTES, SERVE_REQUESTS, Served, Session, Then};
use sidle_resp::{Limits, RequestParser, RequestWriter, Value};

/// A connection that keeps its output as built, to measure its memory.
struct Wire {
    session: Session,
    parser: RequestParser,
    input: Vec<u8>,
    out: Vec<u8>,
}

impl Wire {
    fn connect(node: &SoloNode) -> Wire {
        let client = node.parts.shared.clients.register("10.0.0.9:1".into(), "b:2".into(), node.now.wall);
        Wire {
            session: Session::new(client, true),
            parser: RequestParser::new(Limits::default()),
            input: Vec::new(),
            out: Vec::new(),
        }
    }

    fn send(&mut self, args: &[&[u8]]) {
        RequestWriter::new(&mut self.input).request(args);
    }

    /// One turn.
    fn turn(&mut self, node: &mut SoloNode) -> Served {
        let served =
            node.worker.serve(node.now, &mut self.session, &mut self.parser, &self.input, &mut self.out);
        self.input.drain(..served.consumed);
        served
    }

    /// Turns until there is nothing left to do; returns the reason if it was closed.
    fn run(&mut self, node: &mut SoloNode) -> Option<Closing> {
        loop {
            match self.turn(node).then {
                Then::Again => {}
                Then::Close(why) => return Some(why),
                _ => return None,
            }
        }
    }
}

fn error(text: &str) -> Value {
    Value::Error(text.into())
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn limit_output(node: &SoloNode, bytes: u64) {
    node.parts.shared.config.set_own_output_bytes(bytes);
}

#[test]
fn what_browsers_send_ends_the_connection_and_runs_nothing() {
    let heads: [&[u8]; 6] = [
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"post / HTTP/1.1\r\n",
        b"Host: x\r\n",
        b"hOsT:\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"*2\r\n$4\r\nPOST\r\n$1\r\n/\r\n",
    ];
    for head in heads {
        let mut node = SoloNode::new();
        let mut wire = Wire::connect(&node);
        wire.input.extend_from_slice(b"SET before 1\r\n");
        wire.input.extend_from_slice(head);
        wire.input.extend_from_slice(b"SET behind 1\r\nFLUSHALL\r\n");
        assert_eq!(wire.run(&mut node), Some(Closing::CrossProtocol), "{}", head.escape_ascii());
        assert!(!wire.input.is_empty(), "later input is not even read");
        let mut other = node.connect();
        assert_eq!(node.ask(&mut other, "EXISTS before"), Value::Integer(1));
        assert_eq!(node.ask(&mut other, "EXISTS behind"), Value::Integer(0));
    }
}

#[test]
fn reply_beyond_the_limit_is_cut_while_it_is_built() {
    const LIMIT: usize = 3 << 20;
    let mut node = SoloNode::new();
    limit_output(&node, LIMIT as u64);
    let mut filler = node.connect();
    let value = vec![b'x'; 1 << 20];
    filler.send(&[b"SET", b"big", &value]);
    for index in 0..50_000 {
        filler.send(&[b"SET", format!("{{a}}{index:0100}").as_bytes(), b""]);
    }
    while filler.serve(&mut node.worker, node.now) {}
    while filler.receive().is_some() {}
    let slot = match node.ask(&mut filler, "CLUSTER KEYSLOT {a}") {
        Value::Integer(slot) => slot.to_string(),
        other => panic!("{other:?}"),
    };
    let mget: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain([&b"big"[..]; 6_000]).collect();
    let command_info: Vec<&[u8]> =
        [&b"COMMAND"[..], b"INFO"].into_iter().chain([&b"client"[..]; 6_000]).collect();
    let command_docs: Vec<&[u8]> =
        [&b"COMMAND"[..], b"DOCS"].into_iter().chain([&b"client"[..]; 6_000]).collect();
    let requests: [&[&[u8]]; 6] = [
        &mget,
        &[b"KEYS", b"*"],
        &[b"SCAN", b"0", b"COUNT", b"1000000"],
        &[b"CLUSTER", b"GETKEYSINSLOT", slot.as_bytes(), b"1000000"],
        &command_info,
        &command_docs,
    ];
    for request in requests {
        for version in ["2", "3"] {
            let mut wire = Wire::connect(&node);
            wire.send(&[b"HELLO", version.as_bytes()]);
            assert_eq!(wire.run(&mut node), None);
            wire.out.clear();
            wire.send(&[b"PING"]);
            wire.send(request);
            wire.send(&[b"SET", b"behind", b"1"]);
            let name = String::from_utf8_lossy(request[0]).into_owned();
            assert_eq!(wire.run(&mut node), Some(Closing::ReplyTooLong), "{name}");
            let reply = String::from_utf8_lossy(&wire.out).into_owned();
            assert!(
                reply.starts_with("+PONG\r\n-ERR the reply has more than 3145728 bytes"),
                "{name}: {reply}"
            );
            assert!(wire.out.capacity() <= 2 * LIMIT, "{name} took {} bytes", wire.out.capacity());
            assert_eq!(node.ask(&mut filler, "EXISTS behind"), Value::Integer(0), "{name}");
        }
    }
}

#[test]
fn reply_within_the_limit_is_whole() {
    let mut node = SoloNode::new();
    limit_output(&node, 2_100_000);
    let mut client = node.connect();
    client.send(&[b"SET", b"big", &vec![b'x'; 1 << 20]]);
    client.send(&[b"MGET", b"big", b"big"]);
    while client.serve(&mut node.worker, node.now) {}
    assert_eq!(client.receive(), Some(ok()));
    assert!(matches!(client.receive(), Some(Value::Array(values)) if values.len() == 2));
}

/// Sixteen requests are read ahead at once; that must not build sixteen large replies at once.
#[test]
fn large_replies_are_sent_before_more_are_built() {
    let mut node = SoloNode::new();
    let mut wire = Wire::connect(&node);
    wire.send(&[b"SET", b"big", &vec![b'x'; 2 << 20]]);
    wire.run(&mut node);
    (0..100).for_each(|_| wire.send(&[b"GET", b"big"]));
    for turn in 0..100 {
        wire.out = Vec::new();
        wire.turn(&mut node);
        assert!(wire.out.len() < SERVE_REPLY_BYTES + (2 << 20), "{} bytes in turn {turn}", wire.out.len());
        assert!(wire.out.starts_with(b"$2097152\r\n"));
    }
    assert!(wire.input.is_empty());
}

/// For any client input, a turn ends after about as much work as so many short requests.
#[test]
fn every_kind_of_request_counts_as_work() {
    const BYTES: usize = 1 << 20;
    let one_mget = {
        let mut request = Vec::new();
        RequestWriter::new(&mut request)
            .request(&[&b"MGET"[..]].into_iter().chain([&b"a"[..]; 10_000]).collect::<Vec<_>>());
        request
    };
    let long_blank = [vec![b' '; 60_000], b"\r\n".to_vec()].concat();
    // The request, and how many of them one turn may run.
    let cases: [(&[u8], usize); 7] = [
        (b"*0\r\n", SERVE_REQUESTS),
        (b"\r\n", SERVE_REQUESTS),
        (b"\n", SERVE_REQUESTS),
        (b"*-1000000\r\n", SERVE_REQUESTS),
        (b"PING\r\n", SERVE_REQUESTS),
        (&one_mget, 4),
        (&long_blank, SERVE_REQUESTS / 10),
    ];
    for (request, most) in cases {
        let mut node = SoloNode::new();
        let mut wire = Wire::connect(&node);
        while wire.input.len() < BYTES.max(request.len() * (3 * most + 2)) {
            wire.input.extend_from_slice(request);
        }
        let name = request[..request.len().min(20)].escape_ascii().to_string();
        for _ in 0..3 {
            let served = wire.turn(&mut node);
            let requests = served.consumed.div_ceil(request.len());
            assert!((1..=most).contains(&requests), "{name}: {requests} in one turn");
            assert!(matches!(served.then, Then::Again), "{name}");
        }
    }
}

/// As in Redis: for whatever reason EXEC is refused, the transaction is over.
#[test]
fn an_exec_that_is_refused_ends_the_transaction_too() {
    let aborted = |why: &str| error(&format!("EXECABORT Transaction discarded because of: {why}"));
    let arity = "wrong number of arguments for 'exec' command";
    let mut node = SoloNode::new();
    let mut client = node.connect();
    assert_eq!(node.ask(&mut client, "EXEC a"), aborted(arity));
    assert_eq!(node.ask(&mut client, "MULTI"), ok());
    assert_eq!(
        node.ask(&mut client, "DISCARD a"),
        error("ERR wrong number of arguments for 'discard' command")
    );
    assert_eq!(node.ask(&mut client, "SET a 1"), Value::Simple("QUEUED".into()), "DISCARD did not run");
    assert_eq!(node.ask(&mut client, "EXEC a"), aborted(arity));
    assert_eq!(node.ask(&mut client, "SET a 1"), ok());
    assert_eq!(node.ask(&mut client, "CONFIG SET requirepass secret"), ok());
    let mut stranger = node.connect();
    assert_eq!(node.ask(&mut stranger, "EXEC"), aborted("NOAUTH Authentication required."));
}

#[test]
fn quit_ends_a_transaction() {
    let mut node = SoloNode::new();
    let mut wire = Wire::connect(&node);
    wire.input.extend_from_slice(b"MULTI\r\nSET a 1\r\nQUIT\r\nSET a 1\r\n");
    assert_eq!(wire.run(&mut node), Some(Closing::Asked));
    let mut other = node.connect();
    assert_eq!(node.ask(&mut other, "EXISTS a"), Value::Integer(0));
}

#[test]
fn client_kill_ends_what_fits() {
    let mut node = SoloNode::new();
    let mut me = node.connect();
    let others = ["10.0.0.1:5", "10.0.0.2:5", "10.0.0.3:5"].map(|address| {
        node.parts.shared.clients.register(address.into(), "10.0.0.9:6379".into(), node.now.wall)
    });
    let endings = |others: &[sidle_node::Registration; 3]| {
        others.iter().map(|other| other.ending().is_some()).collect::<Vec<_>>()
    };
    assert_eq!(node.ask(&mut me, "CLIENT KILL 10.0.0.4:5"), error("ERR No such client"));
    assert_eq!(node.ask(&mut me, "CLIENT KILL 10.0.0.2:5"), ok());
    assert_eq!(endings(&others), [false, true, false]);
    assert_eq!(others[1].ending(), Some(Ending::Killed));
    assert_eq!(node.ask(&mut me, "CLIENT KILL 10.0.0.2:5"), error("ERR No such client"), "it is gone");
    let id = others[0].id;
    assert_eq!(node.ask(&mut me, &format!("CLIENT KILL ID {id} ADDR 10.0.0.3:5")), Value::Integer(0));
    assert_eq!(node.ask(&mut me, "CLIENT KILL TYPE pubsub"), Value::Integer(0));
    assert_eq!(node.ask(&mut me, "CLIENT KILL MAXAGE 10"), Value::Integer(0));
    assert_eq!(node.ask(&mut me, "CLIENT KILL LADDR 10.0.0.9:1"), Value::Integer(0));
    node.now.wall.0 += 10_000;
    assert_eq!(
        node.ask(&mut me, "CLIENT KILL USER default TYPE normal MAXAGE 10 LADDR 10.0.0.9:6379"),
        Value::Integer(2)
    );
    assert_eq!(endings(&others), [true, true, true]);
    let Value::Bulk(list) = node.ask(&mut me, "CLIENT LIST") else { panic!("no text") };
    assert_eq!(list.iter().filter(|byte| **byte == b'\n').count(), 1, "only the asking connection is left");
}

#[test]
fn client_kill_spares_its_own_connection_by_default() {
    let mut node = SoloNode::new();
    for (request, replies, closes) in [
        (&b"CLIENT KILL TYPE normal\r\nPING\r\n"[..], &b":0\r\n+PONG\r\n"[..], None),
        (b"CLIENT KILL TYPE normal SKIPME no\r\nPING\r\n", b":1\r\n", Some(Closing::Asked)),
        (b"CLIENT KILL 10.0.0.9:1\r\nPING\r\n", b"+OK\r\n", Some(Closing::Asked)),
    ] {
        let mut wire = Wire::connect(&node);
        wire.input.extend_from_slice(request);
        assert_eq!(wire.run(&mut node), closes);
        assert_eq!(wire.out, replies);
    }
}

#[test]
fn client_list_and_info_show_what_is_held() {
    let mut node = SoloNode::new();
    let mut me = node.connect();
    let other = node.parts.shared.clients.register("10.0.0.1:5".into(), "b:2".into(), node.now.wall);
    other.hold(sidle_node::Buffers { input: 11, input_free: 22, arguments: 33, output: 4_400_000 });
    let Value::Bulk(list) = node.ask(&mut me, "CLIENT LIST") else { panic!("no text") };
    let list = String::from_utf8(list).expect("a text");
    let line = list.lines().find(|line| line.contains("addr=10.0.0.1:5")).expect("it is listed");
    for field in ["qbuf=11", "qbuf-free=22", "argv-mem=33", "oll=1", "omem=4400000"] {
        assert!(line.split(' ').any(|word| word == field), "{field}: {line}");
    }
    assert!(line.contains(&format!(" tot-mem={} ", other.memory_bytes())), "{line}");
    let Value::Bulk(info) = node.ask(&mut me, "INFO memory") else { panic!("no text") };
    let info = String::from_utf8(info).expect("a text");
    let sum = node.parts.shared.clients.memory_bytes();
    assert!(sum > 4_400_000 && info.contains(&format!("mem_clients_normal:{sum}\r\n")), "{info}");
}

#[test]
fn guests_do_an_operators_work_and_nothing_else() {
    let mut node = SoloNode::new();
    for (request, is_allowed) in [
        (&b"CLIENT LIST\r\n"[..], true),
        (b"CLIENT KILL TYPE normal\r\n", true),
        (b"CONFIG SET maxclients 20000\r\n", true),
        (b"INFO\r\n", true),
        (b"COMMAND\r\n", true),
        (b"HELLO 3\r\n", true),
        (b"SIDLE.STATUS\r\n", true),
        (b"PING\r\n", false),
        (b"GET a\r\n", false),
        (b"SET a 1\r\n", false),
        (b"FLUSHALL\r\n", false),
        (b"MULTI\r\n", false),
    ] {
        let mut wire = Wire::connect(&node);
        wire.session.is_guest = true;
        wire.input.extend_from_slice(request);
        let name = request.escape_ascii();
        assert_eq!(wire.run(&mut node), (!is_allowed).then_some(Closing::NoPlace), "{name}");
        assert_eq!(wire.out == b"-ERR max number of clients reached\r\n", !is_allowed, "{name}");
    }
}

#[test]
fn names_of_clients_have_a_bound() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    let (long, longest) = ("n".repeat(1025), "n".repeat(1024));
    for start in ["CLIENT SETNAME", "CLIENT SETINFO lib-name", "HELLO 2 SETNAME"] {
        let refused = node.ask(&mut client, &format!("{start} {long}"));
        assert!(matches!(refused, Value::Error(_)), "{start}: {refused:?}");
        let taken = node.ask(&mut client, &format!("{start} {longest}"));
        assert!(!matches!(taken, Value::Error(_)), "{start}: {taken:?}");
    }
}

/// Redis takes HELLO's words in order: those behind a wrong password are not taken.
#[test]
fn a_name_behind_a_wrong_password_is_not_taken() {
    for (words, name) in [
        ("HELLO 3 AUTH default wrong SETNAME mine", ""),
        ("HELLO 3 SETNAME mine AUTH default wrong", "mine"),
        ("HELLO 3 SETNAME mine", "mine"),
        ("HELLO 2 AUTH default right SETNAME mine", "mine"),
        ("HELLO 2 AUTH default right SETNAME mine extra", "mine"),
    ] {
        let mut node = SoloNode::new();
        let mut operator = node.connect();
        node.ask(&mut operator, "CONFIG SET requirepass right");
        let mut client = node.connect();
        node.ask(&mut client, words);
        node.ask(&mut client, "AUTH right");
        let expected = if name.is_empty() { Value::Null } else { Value::Bulk(name.as_bytes().to_vec()) };
        assert_eq!(node.ask(&mut client, "CLIENT GETNAME"), expected, "{words}");
    }
}

#[test]
fn the_commands_of_this_family_are_listed_with_a_line_each() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    let Value::Array(lines) = node.ask(&mut client, "SIDLE.HELP") else { panic!("it is a list") };
    assert_eq!(node.ask(&mut client, "SIDLE HELP"), Value::Array(lines.clone()));
    let lines: Vec<String> = lines
        .iter()
        .map(|line| String::from_utf8_lossy(line.as_bytes().expect("a text")).into_owned())
        .collect();
    for line in [
        "SIDLE.FORGET: Removes a node from the cluster that is down and owns nothing.",
        "SIDLE.MIGRATE CANCEL: Gives up a migration that does not run yet, or turns one back that gives its \
         range bit by bit.",
        "SIDLE.STATUS: Returns the state of the cluster, as JSON.",
    ] {
        assert!(lines.iter().any(|listed| listed == line), "{line}: {lines:?}");
    }
    assert!(lines.is_sorted() && lines.iter().all(|line| line.ends_with('.')), "{lines:?}");
}

#[test]
fn limits_can_be_changed_while_the_node_runs() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    for (name, value, shown) in
        [("timeout", "7", "7"), ("maxmemory-clients", "2mb", "2097152"), ("maxmemory-clients", "5%", "5%")]
    {
        assert_eq!(node.ask(&mut client, &format!("CONFIG SET {name} {value}")), ok());
        let expected = [name, shown].map(|text| Value::Bulk(text.as_bytes().to_vec()));
        assert_eq!(node.ask(&mut client, &format!("CONFIG GET {name}")), Value::Array(expected.to_vec()));
    }
    assert_eq!(node.parts.shared.config.idle_seconds(), Some(7));
    node.parts.shared.config.set_servable_clients(100);
    let refused = node.ask(&mut client, "CONFIG SET maxclients 101");
    assert!(matches!(&refused, Value::Error(text) if text.ends_with("try with 100")), "{refused:?}");
}
