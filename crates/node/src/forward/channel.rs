//! A line to one node: what waits for a connection, the connection, and what was sent over it.

use super::{
    Ending, ForwardLink, IDLE_US, OUTPUT_BYTES, PATIENCE_US, PAUSE_US, QUEUE_BYTES, REACH_US, WINDOW,
};
use crate::parking::Ticket;
use sidle_cluster::NodeInfo;
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser};
use sidle_types::MonotonicUs;
use std::collections::VecDeque;

/// A request that waits for the connection.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) part: Part,
    /// When its command was forwarded first.
    pub(super) since: MonotonicUs,
    /// When it began to wait.
    pub(super) queued_at: MonotonicUs,
    pub(super) bytes: Vec<u8>,
}

/// Names a request: the command that waits for it, and which of that command's parts it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) ticket: Ticket,
    pub(super) number: u32,
}

/// What has ended, in the order in which it did.
pub(super) type Endings = Vec<(Part, Ending)>;

#[derive(Debug)]
struct Open {
    link: ForwardLink,
    /// What was sent and not answered, oldest first, each with when its command was forwarded first.
    sent: VecDeque<(Part, MonotonicUs)>,
    input: Vec<u8>,
    parser: ReplyParser,
    used_at: MonotonicUs,
}

#[derive(Debug)]
enum Connection {
    /// There is none; another is tried from then on.
    None(MonotonicUs),
    Opening,
    Open(Box<Open>),
}

/// What a line wants done after some time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    Nothing,
    /// A connection.
    Connection,
    /// That this connection is closed.
    Close(ForwardLink),
    /// To be forgotten: nobody has used it for long.
    End,
}

/// A line to one node.
#[derive(Debug)]
pub(super) struct Channel {
    /// The node, as the map in use has it.
    pub(super) node: NodeInfo,
    unsent: VecDeque<Request>,
    unsent_bytes: usize,
    connection: Connection,
    pause_us: u64,
    /// Since when there has been no connection though one was tried.
    lost_at: Option<MonotonicUs>,
}

impl Channel {
    pub(super) fn new(node: NodeInfo) -> Channel {
        Channel {
            node,
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            connection: Connection::None(MonotonicUs(0)),
            pause_us: PAUSE_US.0,
            lost_at: None,
        }
    }

    /// Whether one more request may wait.
    pub(super) fn has_room(&self) -> bool {
        self.unsent_bytes < QUEUE_BYTES
    }

    /// How many requests wait, and how many are under way.
    pub(super) fn len(&self) -> (usize, usize) {
        let sent = match &self.connection {
            Connection::Open(open) => open.sent.len(),
            _ => 0,
        };
        (self.unsent.len(), sent)
    }

    /// The connection over which something can be sent now.
    pub(super) fn open_link(&self) -> Option<ForwardLink> {
        match &self.connection {
            Connection::Open(open) => Some(open.link),
            _ => None,
        }
    }

    /// Takes a request in, unless the node has been out of reach for long and is not to be tried again yet.
    pub(super) fn push(&mut self, request: Request, ended: &mut Endings) {
        let now = request.queued_at;
        let is_given_up = self.lost_at.is_some_and(|lost_at| now.since(lost_at) >= REACH_US);
        if is_given_up && matches!(self.connection, Connection::None(again_at) if again_at > now) {
            ended.push((request.part, Ending::Unreachable));
            return;
        }
        self.unsent_bytes += request.bytes.len();
        self.unsent.push_back(request);
    }

    /// A connection is being made.
    pub(super) fn opening(&mut self) {
        self.connection = Connection::Opening;
    }

    /// The connection stands.
    pub(super) fn connected(&mut self, now: MonotonicUs, link: ForwardLink) {
        let parser = ReplyParser::new(ReplyLimits::default());
        let (sent, input) = (VecDeque::new(), Vec::new());
        self.connection = Connection::Open(Box::new(Open { link, sent, input, parser, used_at: now }));
        self.pause_us = PAUSE_US.0;
        self.lost_at = None;
    }

    /// The connection could not be made, or is over: what was sent is lost, what was not waits for the next.
    pub(super) fn lost(&mut self, now: MonotonicUs, ended: &mut Endings) {
        let lost_at = *self.lost_at.get_or_insert(now);
        let before = std::mem::replace(&mut self.connection, Connection::None(now.plus_us(self.pause_us)));
        self.pause_us = (self.pause_us * 2).min(PAUSE_US.1);
        if let Connection::Open(open) = before {
            ended.extend(open.sent.into_iter().map(|(part, _)| (part, Ending::Broken)));
        } else if now.since(lost_at) >= REACH_US {
            self.end_unsent(Ending::Unreachable, ended);
        }
    }

    /// Ends everything that waits.
    pub(super) fn end_unsent(&mut self, ending: Ending, ended: &mut Endings) {
        self.unsent_bytes = 0;
        ended.extend(self.unsent.drain(..).map(|request| (request.part, ending.clone())));
    }

    /// Nobody waits for this command any more.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        self.unsent.retain(|request| request.part.ticket != ticket);
        self.unsent_bytes = self.unsent.iter().map(|request| request.bytes.len()).sum();
    }

    /// Moves some of what waits to `out`, to be written: from then on it has been sent. Returns whether there
    /// was any.
    pub(super) fn take_output(&mut self, out: &mut Vec<u8>) -> bool {
        let Connection::Open(open) = &mut self.connection else { return false };
        let start = out.len();
        while out.len() - start < OUTPUT_BYTES && open.sent.len() < WINDOW {
            let Some(request) = self.unsent.pop_front() else { break };
            self.unsent_bytes -= request.bytes.len();
            open.sent.push_back((request.part, request.since));
            out.extend_from_slice(&request.bytes);
        }
        out.len() > start
    }

    /// Bytes came: whole replies answer what was sent, in order. Returns whether they made sense.
    pub(super) fn received(&mut self, now: MonotonicUs, bytes: &[u8], ended: &mut Endings) -> bool {
        let Connection::Open(open) = &mut self.connection else { return true };
        open.used_at = now;
        open.input.extend_from_slice(bytes);
        let mut start = 0;
        let is_sound = loop {
            match open.parser.parse(&open.input[start..]) {
                Ok(ParsedReply::Incomplete { .. }) => break true,
                Ok(ParsedReply::Complete { consumed, .. }) => {
                    let Some((part, _)) = open.sent.pop_front() else { break false };
                    ended.push((part, Ending::Answer(open.input[start..start + consumed].to_vec())));
                    start += consumed;
                }
                Err(_) => break false,
            }
        };
        open.input.drain(..start);
        is_sound
    }

    /// Ends what has waited for too long; returns what is to be done.
    pub(super) fn pass_time(&mut self, now: MonotonicUs, ended: &mut Endings) -> Wants {
        while let Some(request) = self.unsent.pop_front_if(|request| now.since(request.queued_at) >= REACH_US)
        {
            self.unsent_bytes -= request.bytes.len();
            ended.push((request.part, Ending::Unreachable));
        }
        match &self.connection {
            Connection::None(again_at) if self.unsent.is_empty() => match now >= again_at.plus_us(IDLE_US) {
                true => Wants::End,
                false => Wants::Nothing,
            },
            Connection::None(again_at) if *again_at <= now => Wants::Connection,
            Connection::Open(open) if open.is_overdue(now) => Wants::Close(open.link),
            Connection::Open(open) if self.unsent.is_empty() && open.is_idle(now) => Wants::Close(open.link),
            _ => Wants::Nothing,
        }
    }

    /// When something is to be done though nothing happens.
    pub(super) fn timeout(&self) -> Option<MonotonicUs> {
        let oldest = self.unsent.front().map(|request| request.queued_at.plus_us(REACH_US));
        let own = match &self.connection {
            Connection::None(again_at) if self.unsent.is_empty() => Some(again_at.plus_us(IDLE_US)),
            Connection::None(again_at) => Some(*again_at),
            Connection::Opening => None,
            Connection::Open(open) => Some(open.due_at()),
        };
        oldest.into_iter().chain(own).min()
    }
}

impl Open {
    /// Since when the oldest command waits that something was sent for. One that was sent anew waits longer
    /// than what was sent before it.
    fn oldest(&self) -> Option<MonotonicUs> {
        self.sent.iter().map(|&(_, since)| since).min()
    }

    fn is_overdue(&self, now: MonotonicUs) -> bool {
        self.oldest().is_some_and(|since| now.since(since) >= PATIENCE_US)
    }

    fn is_idle(&self, now: MonotonicUs) -> bool {
        self.sent.is_empty() && now.since(self.used_at) >= IDLE_US
    }

    fn due_at(&self) -> MonotonicUs {
        match self.oldest() {
            Some(since) => since.plus_us(PATIENCE_US),
            None => self.used_at.plus_us(IDLE_US),
        }
    }
}
