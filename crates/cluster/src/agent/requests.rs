//! Clients' requests on their way to the coordinator and back.

use super::event::{AgentEvent, Outbox};
use crate::bounds::Bounded;
use crate::limits::{MAX_OPEN_REQUESTS, MAX_OPEN_WAITS, REQUEST_WINDOW};
use crate::timing::{REQUEST_DEADLINE_US, RETRY_US};
use crate::{NodeSays, Refusal, Reply, Request};
use sidle_types::{Fill, MonotonicUs};
use std::collections::BTreeMap;

/// A request without an answer.
#[derive(Debug)]
struct OpenRequest {
    ticket: u64,
    request: Request,
    /// `None`: to be sent as soon as the node is a member.
    sent_at: Option<MonotonicUs>,
    deadline: MonotonicUs,
}

impl OpenRequest {
    /// Whether it waits for a migration's end. Such requests may take seconds, and are counted apart: they
    /// take neither the others' places nor their numbers.
    const fn waits(&self) -> bool {
        matches!(self.request, Request::AwaitEnd { .. })
    }

    /// When it is repeated or given up.
    fn due(&self) -> MonotonicUs {
        self.sent_at.map_or(self.deadline, |sent_at| sent_at.plus_us(RETRY_US).min(self.deadline))
    }

    fn is_to_be_sent(&self, now: MonotonicUs) -> bool {
        self.sent_at.is_none_or(|sent_at| now >= sent_at.plus_us(RETRY_US))
    }
}

/// All of them, by the numbers that the coordinator knows.
#[derive(Debug, Default)]
pub(super) struct Requests {
    open: BTreeMap<u64, OpenRequest>,
    last_number: u64,
}

impl Requests {
    pub(super) fn open(&mut self, now: MonotonicUs, ticket: u64, request: Request, out: &mut Outbox) {
        if let Some(refusal) = self.why_not_opened(&request) {
            return out.event(AgentEvent::Reply(ticket, Reply::Refused(refusal)));
        }
        self.last_number += 1;
        let deadline = now.plus_us(REQUEST_DEADLINE_US);
        self.open.insert(self.last_number, OpenRequest { ticket, request, sent_at: None, deadline });
    }

    fn why_not_opened(&self, request: &Request) -> Option<Refusal> {
        if let Err(error) = request.check_bounds() {
            return Some(Refusal::Malformed { why: error.to_string() });
        }
        let waits = self.waits();
        if matches!(request, Request::AwaitEnd { .. }) {
            return (waits >= MAX_OPEN_WAITS).then_some(Refusal::TooManyWaits { limit: MAX_OPEN_WAITS });
        }
        let window_full = self.oldest_open() + REQUEST_WINDOW <= self.last_number + 1;
        let is_full = self.open.len() - waits >= MAX_OPEN_REQUESTS || window_full;
        is_full.then_some(Refusal::TooManyRequests { limit: MAX_OPEN_REQUESTS })
    }

    fn waits(&self) -> usize {
        self.open.values().filter(|open| open.waits()).count()
    }

    /// The oldest of the requests that hold the window back.
    fn oldest_open(&self) -> u64 {
        let mut open = self.open.iter().filter(|(_, open)| !open.waits());
        open.next().map_or(self.last_number + 1, |(&number, _)| number)
    }

    fn send(&mut self, now: MonotonicUs, number: u64, out: &mut Outbox) {
        let oldest_open = self.oldest_open();
        if let Some(open) = self.open.get_mut(&number) {
            open.sent_at = Some(now);
            out.send(NodeSays::Request { number, oldest_open, request: open.request.clone() });
        }
    }

    pub(super) fn replied(&mut self, number: u64, reply: Reply, out: &mut Outbox) {
        if let Some(open) = self.open.remove(&number) {
            out.event(AgentEvent::Reply(open.ticket, reply));
        }
    }

    /// Gives requests up after their deadline.
    pub(super) fn give_up_late(&mut self, now: MonotonicUs, out: &mut Outbox) {
        let late = self.open.iter().filter(|(_, open)| now >= open.deadline);
        let late: Vec<u64> = late.map(|(&number, _)| number).collect();
        late.into_iter().for_each(|number| self.replied(number, Reply::Refused(Refusal::NoAnswer), out));
    }

    /// Sends what was not sent yet, and repeats what was not answered within the retry interval.
    pub(super) fn send_due(&mut self, now: MonotonicUs, out: &mut Outbox) {
        let due = self.open.iter().filter(|(_, open)| open.is_to_be_sent(now));
        let due: Vec<u64> = due.map(|(&number, _)| number).collect();
        due.into_iter().for_each(|number| self.send(now, number, out));
    }

    /// Has every request sent anew, as over a new connection.
    pub(super) fn send_anew(&mut self) {
        self.open.values_mut().for_each(|open| open.sent_at = None);
    }

    /// When the next one is repeated or given up.
    pub(super) fn due(&self) -> Option<MonotonicUs> {
        self.open.values().map(OpenRequest::due).min()
    }

    /// How many are open.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// How full the places for them are.
    pub(super) fn queues(&self) -> [Fill; 2] {
        let waits = self.waits();
        [
            Fill::new("requests of a node to the coordinator", self.len() - waits, MAX_OPEN_REQUESTS),
            Fill::new("requests of a node that wait for a migration's end", waits, MAX_OPEN_WAITS),
        ]
    }
}
