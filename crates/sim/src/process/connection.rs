//! A client's connection at the node, without a socket.

use crate::network::{Side, StreamId};
use crate::world::World;
use sidle_node::{ControlReply, ControlRequest, NodeShared, Now, Session, Shown, Then, Ticket, Worker};
use sidle_resp::{Args, Limits, Parsed, RequestParser, RespVersion};
use sidle_types::{CommitNumber, MonotonicUs};
use std::collections::BTreeMap;

/// What a connection waits for.
#[derive(Debug)]
pub(super) enum Waits {
    /// For input.
    No,
    /// For a ticket of its worker, since then.
    Parked(Ticket, MonotonicUs),
    /// For the control thread.
    Control,
}

/// The outcome of serving a connection.
#[derive(Debug)]
pub(super) enum Came {
    /// Nothing: it waits, or its input is no whole request.
    Nothing,
    /// One request was run.
    Served,
    /// The control thread must be asked.
    Asks(ControlRequest),
    /// It must be closed.
    Closes,
}

pub(super) struct Connection {
    pub(super) session: Session,
    parser: RequestParser,
    /// Finds where the first request in `input` ends, so that one is run at a time.
    cutter: RequestParser,
    input: Vec<u8>,
    pub(super) output: Vec<u8>,
    /// The commit that has what `output` shows.
    shown: Shown,
    /// It is to be closed once its output is sent.
    pub(super) is_closing: bool,
    pub(super) waits: Waits,
    /// On another node's connection: its requests that have stepped aside, and since when.
    asides: BTreeMap<Ticket, MonotonicUs>,
    /// Whether some of these were woken and have not run since.
    has_woken_asides: bool,
    /// How many requests have begun to wait since the last query, and how many of them aside.
    pub(super) began_to_wait: (u64, u64),
}

impl Connection {
    pub(super) fn new(shared: &NodeShared, now: Now) -> Connection {
        let registration = shared.clients.register("simulated".into(), "simulated".into(), now.wall);
        Connection::of(Session::new(registration, true))
    }

    /// A connection over which another node forwards.
    pub(super) fn forwarded(shared: &NodeShared, is_resp3: bool, now: Now) -> Connection {
        let registration = shared.clients.unlisted("simulated".into(), now.wall);
        let version = if is_resp3 { RespVersion::Resp3 } else { RespVersion::Resp2 };
        let mut session = Session::forwarded(registration, version);
        session.let_step_aside();
        Connection::of(session)
    }

    fn of(session: Session) -> Connection {
        Connection {
            session,
            parser: RequestParser::new(Limits::default()),
            cutter: RequestParser::new(Limits::default()),
            input: Vec::new(),
            output: Vec::new(),
            shown: Shown::default(),
            is_closing: false,
            waits: Waits::No,
            asides: BTreeMap::new(),
            has_woken_asides: false,
            began_to_wait: (0, 0),
        }
    }

    pub(super) fn read(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Whether its output waits for a commit, or for the node's lease.
    pub(super) fn is_held(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether its output waits for a commit behind this one.
    pub(super) fn awaits_commit(&self, safe: CommitNumber) -> bool {
        self.is_held() && self.shown.commit > safe
    }

    /// Whether it has anything to run.
    pub(super) fn is_ready(&self) -> bool {
        if self.is_closing || self.is_held() {
            return false;
        }
        self.has_woken_asides || matches!(self.waits, Waits::No) && !self.input.is_empty()
    }

    /// Runs a woken request that has stepped aside, or the input's first request, if it is whole.
    pub(super) fn serve(&mut self, worker: &mut Worker, now: Now) -> Came {
        let came = match self.has_woken_asides {
            true => {
                self.has_woken_asides = worker.serve_asides(now, &mut self.session, &mut self.output);
                Came::Served
            }
            false => self.serve_first(worker, now),
        };
        let aside = self.session.take_aside_tickets();
        self.began_to_wait.0 += aside.len() as u64;
        self.began_to_wait.1 += aside.len() as u64;
        self.asides.extend(aside.into_iter().map(|ticket| (ticket, now.mono)));
        came
    }

    fn serve_first(&mut self, worker: &mut Worker, now: Now) -> Came {
        if !self.is_ready() {
            return Came::Nothing;
        }
        let end = match self.cutter.parse(&self.input, &mut Args::new()) {
            Ok(Parsed::Incomplete { .. }) => return Came::Nothing,
            Ok(Parsed::Complete { consumed }) => consumed,
            Err(_) => self.input.len(),
        };
        let input = &self.input[..end];
        let served = worker.serve(now, &mut self.session, &mut self.parser, input, &mut self.output);
        self.input.drain(..served.consumed);
        if served.consumed == 0 {
            // It will be split again.
            self.cutter.restart();
        }
        match served.then {
            Then::Read { .. } | Then::Again => Came::Served,
            Then::Close(_) | Then::Shutdown => Came::Closes,
            Then::Parked(ticket) => {
                // What walks over keys waits for all of them, under the node's own patience; what found
                // nothing to take waits for others. So does a transaction over nodes, for what is locked.
                let is_excused = worker.awaits_range(ticket)
                    || worker.is_over_nodes(ticket)
                    || self.session.waits_for_items();
                let since = if is_excused { MonotonicUs(u64::MAX) } else { now.mono };
                self.waits = Waits::Parked(ticket, since);
                self.began_to_wait.0 += 1;
                Came::Served
            }
            Then::Control(request) => {
                self.waits = Waits::Control;
                Came::Asks(request)
            }
        }
    }

    /// The ticket of a request that waits for items, and was not woken.
    pub(super) fn waits_for_items(&self) -> Option<Ticket> {
        match self.waits {
            Waits::Parked(ticket, _) if self.session.waits_for_items() => Some(ticket),
            _ => None,
        }
    }

    /// The ticket was returned; since when this connection waited for it, if it did.
    pub(super) fn wake(&mut self, ticket: Ticket) -> Option<MonotonicUs> {
        if let Some(since) = self.asides.remove(&ticket) {
            self.has_woken_asides = true;
            return Some(since);
        }
        match self.waits {
            Waits::Parked(own, since) if own == ticket => {
                self.waits = Waits::No;
                Some(since)
            }
            _ => None,
        }
    }

    /// The control thread answered.
    pub(super) fn answer(&mut self, worker: &Worker, reply: &ControlReply) {
        worker.answer(&mut self.session, reply, &mut self.output);
        self.waits = Waits::No;
    }
}

/// Sends what the connection has to say, unless it shows what no safe commit has, or the node's lease is
/// over.
pub(super) fn flush(
    id: StreamId,
    connection: &mut Connection,
    worker: &mut Worker,
    now: MonotonicUs,
    world: &mut World,
) {
    connection.shown.add(worker.take_shown());
    if !connection.output.is_empty() && worker.may_send(connection.shown, || now) {
        world.send(id, Side::Acceptor, std::mem::take(&mut connection.output));
        connection.shown.sent();
    }
}
