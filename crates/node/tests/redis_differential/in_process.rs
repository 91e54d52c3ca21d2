//! A Sidle node without sockets: bytes into a worker, bytes out.

use crate::{Server, whole_reply};
use sidle_node::testing::SoloNode;
use sidle_node::{Now, Session, Then};
use sidle_resp::{Limits, RequestParser};
use sidle_types::{MonotonicUs, WallMs};
use std::time::SystemTime;

pub(crate) struct Node {
    solo: SoloNode,
    session: Session,
    parser: RequestParser,
    output: Vec<u8>,
}

impl Node {
    /// A node that owns everything.
    pub(crate) fn new() -> Node {
        let mut solo = SoloNode::new();
        solo.now = now();
        let session = connect(&solo);
        Node { solo, session, parser: RequestParser::new(Limits::default()), output: Vec::new() }
    }
}

fn connect(solo: &SoloNode) -> Session {
    let shared = &solo.parts.shared;
    let client = shared.clients.register("127.0.0.1:1".into(), "127.0.0.1:2".into(), solo.now.wall);
    Session::new(client, shared.config.password().is_none())
}

/// The real clock, since Redis has no other.
fn now() -> Now {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    Now { mono: MonotonicUs(since.as_micros() as u64), wall: WallMs(since.as_millis() as u64) }
}

impl Server for Node {
    fn reconnect(&mut self) {
        self.solo.now = now();
        self.session = connect(&self.solo);
        self.parser = RequestParser::new(Limits::default());
        self.output.clear();
    }

    fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.tell(request);
        let length =
            whole_reply(&self.output).unwrap_or_else(|| panic!("no reply to {}", request.escape_ascii()));
        self.output.drain(..length).collect()
    }

    fn tell(&mut self, request: &[u8]) {
        self.solo.now = now();
        let mut rest = request;
        while !rest.is_empty() {
            let worker = &mut self.solo.worker;
            worker.turn();
            while worker.poll_woken().is_some() {}
            let served =
                worker.serve(self.solo.now, &mut self.session, &mut self.parser, rest, &mut self.output);
            rest = &rest[served.consumed..];
            match served.then {
                Then::Again | Then::Parked(_) => {}
                Then::Read { .. } => assert!(rest.is_empty(), "half a request"),
                Then::Close => break,
                Then::Shutdown | Then::Control(_) => panic!("not in this table"),
            }
        }
    }
}
