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
    sent_at: MonotonicUs,
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
        self.sent_at.plus_us(RETRY_US).min(self.deadline)
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
        self.open.insert(self.last_number, OpenRequest { ticket, request, sent_at: now, deadline });
        self.send(now, self.last_number, out);
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
            open.sent_at = now;
            out.send(NodeSays::Request { number, oldest_open, request: open.request.clone() });
        }
    }

    pub(super) fn replied(&mut self, number: u64, reply: Reply, out: &mut Outbox) {
        if let Some(open) = self.open.remove(&number) {
            out.event(AgentEvent::Reply(open.ticket, reply));
        }
    }

    /// Repeats requests after the retry interval, and gives them up after their deadline.
    pub(super) fn repeat_late(&mut self, now: MonotonicUs, out: &mut Outbox) {
        let late = self.open.iter().filter(|(_, open)| now >= open.due());
        let late: Vec<(u64, MonotonicUs)> = late.map(|(&number, open)| (number, open.deadline)).collect();
        for (number, deadline) in late {
            if now >= deadline {
                self.replied(number, Reply::Refused(Refusal::NoAnswer), out);
            } else {
                self.send(now, number, out);
            }
        }
    }

    /// Repeats every request, as after a new connection.
    pub(super) fn repeat(&mut self, now: MonotonicUs, out: &mut Outbox) {
        let open: Vec<u64> = self.open.keys().copied().collect();
        open.into_iter().for_each(|number| self.send(now, number, out));
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
