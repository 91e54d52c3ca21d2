//! A client connection without a socket.

use crate::now::Now;
use crate::outcome::{ControlReply, ControlRequest};
use crate::queue::Ticket;
use crate::serve::Then;
use crate::session::Session;
use crate::shared::NodeShared;
use crate::worker::Worker;
use sidle_resp::{
    Limits, ParsedReply, ReplyLimits, ReplyParser, RequestParser, RequestWriter, RespVersion, Value,
};
use std::collections::VecDeque;

/// The longest argument that a test node accepts from another one.
pub const FORWARDED_BYTES: usize = 4 << 20;

/// A connection with so much unread output misses what cuts gave.
const UNREAD_BYTES: usize = 64 << 10;

/// What a connection waits for.
#[derive(Debug)]
pub enum Waits {
    /// Nothing.
    No,
    /// A ticket of its worker.
    Parked(Ticket),
    /// The control thread, which has not been notified yet.
    Control(ControlRequest),
    /// The control thread's answer.
    Answer,
    /// Nothing any more: it is closed.
    Closed,
}

/// One connection to one worker: unread requests, and unread replies.
pub struct TestClient {
    session: Session,
    parser: RequestParser,
    input: Vec<u8>,
    output: Vec<u8>,
    replies: ReplyParser,
    /// What it waits for.
    pub waits: Waits,
    received: VecDeque<Value>,
    pushes: VecDeque<Value>,
    attributes: Vec<(Value, Value)>,
    /// Whether replies are left as bytes, for a client that parses them itself.
    is_raw: bool,
}

impl TestClient {
    /// A new connection.
    pub fn connect(shared: &NodeShared, now: Now) -> TestClient {
        let registration = shared.clients.register("127.0.0.1:1".into(), "127.0.0.1:2".into(), now.wall);
        TestClient {
            session: Session::new(registration, shared.access.is_open()),
            parser: RequestParser::new(Limits::default()),
            input: Vec::new(),
            output: Vec::new(),
            replies: ReplyParser::new(ReplyLimits::default()),
            waits: Waits::No,
            received: VecDeque::new(),
            pushes: VecDeque::new(),
            attributes: Vec::new(),
            is_raw: false,
        }
    }

    /// A new connection over which another node forwards.
    pub(super) fn forwarded(shared: &NodeShared, version: RespVersion, now: Now) -> TestClient {
        let registration = shared.clients.unlisted("127.0.0.1:3".into(), now.wall);
        let mut session = Session::forwarded(registration, version);
        session.let_step_aside();
        let parser = RequestParser::new(Limits { held_bytes: FORWARDED_BYTES, ..Limits::default() });
        TestClient { session, parser, is_raw: true, ..TestClient::connect(shared, now) }
    }

    /// From now on replies are not parsed here: see [`take_output`](Self::take_output).
    pub fn keep_raw(&mut self) {
        self.is_raw = true;
    }

    /// The reply bytes of a raw connection since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        assert!(self.is_raw, "the replies were read already");
        std::mem::take(&mut self.output)
    }

    /// The connection's session.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Puts a request into the input.
    pub fn send(&mut self, args: &[&[u8]]) {
        RequestWriter::new(&mut self.input).request(args);
    }

    /// Puts raw bytes into the input.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Lets the worker run the input, unless the connection waits; returns whether it made progress.
    pub fn serve(&mut self, worker: &mut Worker, now: Now) -> bool {
        if self.session.has_asides() {
            let before = self.output.len();
            worker.serve_asides(now, &mut self.session, &mut self.output);
            if self.output.len() > before {
                return true;
            }
        }
        if !matches!(self.waits, Waits::No) || self.input.is_empty() {
            return false;
        }
        let served = worker.serve(now, &mut self.session, &mut self.parser, &self.input, &mut self.output);
        self.input.drain(..served.consumed);
        self.waits = match served.then {
            Then::Read { .. } | Then::Again => Waits::No,
            Then::Close(_) | Then::Shutdown => Waits::Closed,
            Then::Parked(ticket) => Waits::Parked(ticket),
            Then::Control(request) => Waits::Control(request),
        };
        self.take_in();
        served.consumed > 0
    }

    /// The worker returned this ticket: its connection continues.
    pub fn wake(&mut self, ticket: Ticket) {
        if matches!(self.waits, Waits::Parked(own) if own == ticket) {
            self.waits = Waits::No;
        }
    }

    /// The control thread answered.
    pub fn answer(&mut self, worker: &Worker, reply: &ControlReply) {
        worker.answer(&mut self.session, reply, &mut self.output);
        self.waits = Waits::No;
        self.take_in();
    }

    /// Lets the worker send pushes.
    pub fn push(&mut self, worker: &Worker) {
        worker.write_pushes(&mut self.session, &mut self.output);
        if !self.is_raw || self.output.len() < UNREAD_BYTES {
            worker.write_digests(&mut self.session, &mut self.output);
        }
        if !worker.write_lines(&self.session, &mut self.output) {
            self.waits = Waits::Closed;
        }
        self.take_in();
    }

    /// The oldest unread reply.
    pub fn receive(&mut self) -> Option<Value> {
        self.received.pop_front()
    }

    /// The oldest unread push.
    pub fn receive_push(&mut self) -> Option<Value> {
        self.pushes.pop_front()
    }

    /// Takes all attributes so far, oldest first.
    pub fn take_attributes(&mut self) -> Vec<(Value, Value)> {
        std::mem::take(&mut self.attributes)
    }

    fn take_in(&mut self) {
        if self.is_raw {
            return;
        }
        loop {
            let consumed = match self.replies.parse(&self.output).expect("the node writes whole replies") {
                ParsedReply::Incomplete { .. } => break,
                ParsedReply::Complete { frame, consumed } => {
                    let pairs = frame.attributes().map(|(name, value)| (name.to_value(), value.to_value()));
                    self.attributes.extend(pairs);
                    match frame.reply.to_value() {
                        push @ Value::Push(_) => self.pushes.push_back(push),
                        reply => self.received.push_back(reply),
                    }
                    consumed
                }
            };
            self.output.drain(..consumed);
        }
        assert!(self.output.is_empty(), "the node wrote half a reply: {:?}", self.output);
    }
}
