//! A line to one node: requests that wait for a connection, the connection, and requests sent over it.

use super::{
    Ending, ForwardLink, IDLE_US, INPUT_KEEP_BYTES, OUTPUT_BYTES, PATIENCE_US, PAUSE_US, QUEUE_BYTES,
    REACH_US, WAITS, WINDOW,
};
use crate::queue::Ticket;
use sidle_cluster::NodeInfo;
use sidle_resp::{ParsedReply, Reply, ReplyLimits, ReplyParser};
use sidle_types::MonotonicUs;
use std::collections::{BTreeMap, VecDeque};

/// A request that waits for the connection.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) part: Part,
    /// How long its command waits for the answer.
    pub(super) until: MonotonicUs,
    /// When it began to wait.
    pub(super) queued_at: MonotonicUs,
    pub(super) bytes: Vec<u8>,
}

/// Names a request: the command that waits for it, and its part's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) ticket: Ticket,
    pub(super) number: u32,
}

/// Ended requests, in order.
pub(super) type Endings = Vec<(Part, Ending)>;

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// `None`: its command has given up waiting, though an answer may still come.
    part: Option<Part>,
    /// How long its command waits for the answer.
    until: MonotonicUs,
    sent_at: MonotonicUs,
}

/// What a reply means to the line.
enum Meaning {
    /// The answer to the oldest request.
    Answer,
    /// The oldest request waits, and its answer will have this number.
    Waits(u64),
    /// The answer to the request with this number.
    Late(u64, Vec<u8>),
    Nonsense,
}

#[derive(Debug)]
struct Open {
    link: ForwardLink,
    /// Sent and unanswered requests, oldest first.
    sent: VecDeque<Sent>,
    /// Requests that wait at the other node for a key, by their number there (F6).
    aside: BTreeMap<u64, Sent>,
    input: Vec<u8>,
    parser: ReplyParser,
    used_at: MonotonicUs,
    /// When the line was checked last.
    seen_at: MonotonicUs,
}

/// A partly received reply: its command, and how many bytes are here.
pub(super) type Incoming = Option<(Ticket, usize)>;

#[derive(Debug)]
enum Connection {
    /// There is none; another attempt is due then.
    None(MonotonicUs),
    Opening,
    Open(Box<Open>),
}

/// What a line needs after some time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    Nothing,
    /// A connection.
    Connection,
    /// That this connection is closed.
    Close(ForwardLink),
    /// To be forgotten: it has been unused for long.
    End,
}

/// A line to one node.
#[derive(Debug)]
pub(super) struct Channel {
    /// The node, by the current map.
    pub(super) node: NodeInfo,
    unsent: VecDeque<Request>,
    unsent_bytes: usize,
    connection: Connection,
    pause_us: u64,
    /// Since when there has been no connection despite attempts.
    lost_at: Option<MonotonicUs>,
    /// The last count of a partly received reply.
    pub(super) counted: Incoming,
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
            counted: None,
        }
    }

    /// Whether one more request may wait.
    pub(super) fn has_room(&self) -> bool {
        self.unsent_bytes < QUEUE_BYTES
    }

    /// How many requests wait, and how many are in flight.
    pub(super) fn len(&self) -> (usize, usize) {
        let sent = match &self.connection {
            Connection::Open(open) => open.under_way(),
            _ => 0,
        };
        (self.unsent.len(), sent)
    }

    /// The connection that can send now.
    pub(super) fn open_link(&self) -> Option<ForwardLink> {
        match &self.connection {
            Connection::Open(open) => Some(open.link),
            _ => None,
        }
    }

    /// Takes a request in, unless the node has been unreachable for long and no attempt is due.
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
        let (sent, aside, input) = (VecDeque::new(), BTreeMap::new(), Vec::new());
        let open = Open { link, sent, aside, input, parser, used_at: now, seen_at: now };
        self.connection = Connection::Open(Box::new(open));
        self.pause_us = PAUSE_US.0;
        self.lost_at = None;
    }

    /// The connection failed or ended: sent requests are lost, others wait for the next.
    pub(super) fn lost(&mut self, now: MonotonicUs, ended: &mut Endings) {
        let lost_at = *self.lost_at.get_or_insert(now);
        let before = std::mem::replace(&mut self.connection, Connection::None(now.plus_us(self.pause_us)));
        self.pause_us = (self.pause_us * 2).min(PAUSE_US.1);
        if let Connection::Open(open) = before {
            let sent = open.sent.into_iter().chain(open.aside.into_values());
            ended.extend(sent.filter_map(|sent| sent.part).map(|part| (part, Ending::Broken)));
        } else if now.since(lost_at) >= REACH_US {
            self.end_unsent(Ending::Unreachable, ended);
        }
    }

    /// Ends everything that waits.
    pub(super) fn end_unsent(&mut self, ending: Ending, ended: &mut Endings) {
        self.unsent_bytes = 0;
        ended.extend(self.unsent.drain(..).map(|request| (request.part, ending.clone())));
    }

    /// How many of the command's requests have not been sent.
    pub(super) fn unsent_of(&self, ticket: Ticket) -> usize {
        self.unsent.iter().filter(|request| request.part.ticket == ticket).count()
    }

    /// Nobody waits for this command any more.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        self.unsent.retain(|request| request.part.ticket != ticket);
        self.unsent_bytes = self.unsent.iter().map(|request| request.bytes.len()).sum();
    }

    /// Moves some waiting requests to `out`, to be written: they count as sent from then on. Returns whether
    /// there was any.
    pub(super) fn take_output(&mut self, out: &mut Vec<u8>) -> bool {
        let Connection::Open(open) = &mut self.connection else { return false };
        let start = out.len();
        while out.len() - start < OUTPUT_BYTES && open.under_way() < WINDOW {
            let Some(request) = self.unsent.pop_front() else { break };
            self.unsent_bytes -= request.bytes.len();
            open.sent.push_back(Sent {
                part: Some(request.part),
                until: request.until,
                sent_at: open.seen_at,
            });
            out.extend_from_slice(&request.bytes);
        }
        out.len() > start
    }

    /// Bytes arrived: whole replies answer sent requests, in order. Returns whether they were valid.
    pub(super) fn received(&mut self, now: MonotonicUs, bytes: &[u8], ended: &mut Endings) -> bool {
        let Connection::Open(open) = &mut self.connection else { return true };
        (open.used_at, open.seen_at) = (now, now);
        open.input.extend_from_slice(bytes);
        let mut start = 0;
        let is_sound = loop {
            match open.parser.parse(&open.input[start..]) {
                Ok(ParsedReply::Incomplete { .. }) => break true,
                Ok(ParsedReply::Complete { frame, consumed }) => {
                    let meaning = meaning(frame.reply);
                    let whole = &open.input[start..start + consumed];
                    let answered = match meaning {
                        Meaning::Answer => open.sent.pop_front().map(|sent| (sent, whole.to_vec())),
                        Meaning::Waits(number) => {
                            let Some(sent) = open.sent.pop_front() else { break false };
                            open.aside.insert(number, sent);
                            start += consumed;
                            continue;
                        }
                        // Its command may have given up.
                        Meaning::Late(number, reply) => {
                            if let Some(sent) = open.aside.remove(&number) {
                                ended.extend(sent.part.map(|part| (part, Ending::Answer(reply))));
                            }
                            start += consumed;
                            continue;
                        }
                        Meaning::Nonsense => None,
                    };
                    let Some((sent, reply)) = answered else { break false };
                    ended.extend(sent.part.map(|part| (part, Ending::Answer(reply))));
                    start += consumed;
                }
                Err(_) => break false,
            }
        };
        open.input.drain(..start);
        if open.input.is_empty() && open.input.capacity() > INPUT_KEEP_BYTES {
            open.input = Vec::new();
        }
        is_sound
    }

    /// The partly received reply.
    pub(super) fn incoming(&self) -> Incoming {
        let Connection::Open(open) = &self.connection else { return None };
        let sent = match open.input.first()? {
            b'>' => open.aside.get(&late_number(&open.input)?)?,
            _ => open.sent.front()?,
        };
        sent.part.map(|part| (part.ticket, open.input.len()))
    }

    /// Ends requests that have waited too long; returns what to do.
    pub(super) fn pass_time(&mut self, now: MonotonicUs, ended: &mut Endings) -> Wants {
        while let Some(request) = self.unsent.pop_front_if(|request| now.since(request.queued_at) >= REACH_US)
        {
            self.unsent_bytes -= request.bytes.len();
            ended.push((request.part, Ending::Unreachable));
        }
        if let Connection::Open(open) = &mut self.connection {
            open.seen_at = now;
            open.give_up_overdue(now, ended);
        }
        match &self.connection {
            Connection::None(again_at) if self.unsent.is_empty() => match now >= again_at.plus_us(IDLE_US) {
                true => Wants::End,
                false => Wants::Nothing,
            },
            Connection::None(again_at) if *again_at <= now => Wants::Connection,
            Connection::Open(open) if open.is_silent(now) => Wants::Close(open.link),
            Connection::Open(open) if self.unsent.is_empty() && open.is_idle(now) => Wants::Close(open.link),
            _ => Wants::Nothing,
        }
    }

    /// When something is due without an event.
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
    fn under_way(&self) -> usize {
        self.sent.len() + self.aside.len()
    }

    /// Ends requests of commands whose patience is over (F4), and nothing else (F6). An unanswered request
    /// keeps its place, so that the answers behind it still match.
    fn give_up_overdue(&mut self, now: MonotonicUs, ended: &mut Endings) {
        let is_overdue = |sent: &Sent| now >= sent.until;
        for sent in self.sent.iter_mut().filter(|sent| is_overdue(sent)) {
            ended.extend(sent.part.take().map(|part| (part, Ending::Silent)));
        }
        let aside = self.aside.extract_if(.., |_, sent| is_overdue(sent));
        ended.extend(aside.filter_map(|(_, sent)| sent.part).map(|part| (part, Ending::Silent)));
    }

    /// Whether the other node has left a request unanswered for long, in silence. It answers at once, even if
    /// only that a request waits.
    fn is_silent(&self, now: MonotonicUs) -> bool {
        self.silent_at().is_some_and(|at| now >= at)
    }

    fn silent_at(&self) -> Option<MonotonicUs> {
        self.sent.front().map(|oldest| oldest.sent_at.max(self.used_at).plus_us(PATIENCE_US))
    }

    fn is_idle(&self, now: MonotonicUs) -> bool {
        self.under_way() == 0 && now.since(self.used_at) >= IDLE_US
    }

    fn due_at(&self) -> MonotonicUs {
        let under_way = self.sent.iter().chain(self.aside.values());
        let waiting = under_way.filter(|sent| sent.part.is_some());
        let overdue = waiting.map(|sent| sent.until).min();
        let idle_at = (self.under_way() == 0).then(|| self.used_at.plus_us(IDLE_US));
        overdue
            .into_iter()
            .chain(self.silent_at())
            .chain(idle_at)
            .min()
            .expect("it is idle or has sent something")
    }
}

/// The number of the request that a late reply answers, once it is here.
fn late_number(input: &[u8]) -> Option<u64> {
    let rest = input.strip_prefix(b">2\r\n:")?;
    let end = rest.iter().position(|&byte| byte == b'\r')?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

fn meaning(reply: Reply<'_>) -> Meaning {
    match reply {
        Reply::Error(text) => {
            let number = text.strip_prefix(WAITS.as_bytes()).and_then(|rest| rest.strip_prefix(b" "));
            match number.and_then(|digits| std::str::from_utf8(digits).ok()).map(str::parse) {
                None => Meaning::Answer,
                Some(number) => number.map_or(Meaning::Nonsense, Meaning::Waits),
            }
        }
        Reply::Push(mut items) => match (items.next(), items.next()) {
            (Some(Reply::Integer(number)), Some(Reply::Bulk(reply))) => {
                Meaning::Late(number as u64, reply.to_vec())
            }
            _ => Meaning::Nonsense,
        },
        _ => Meaning::Answer,
    }
}
