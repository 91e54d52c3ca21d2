//! Clients' requests on their way to the coordinator and back.

use super::{AgentEvent, NodeAgent};
use crate::bounds::Bounded;
use crate::limits::{MAX_OPEN_REQUESTS, MAX_OPEN_WAITS, REQUEST_WINDOW};
use crate::timing::{REQUEST_DEADLINE_US, RETRY_US};
use crate::{NodeSays, Refusal, Reply, Request};
use sidle_types::MonotonicUs;

/// A request without an answer.
#[derive(Debug)]
pub(super) struct OpenRequest {
    ticket: u64,
    request: Request,
    sent_at: MonotonicUs,
    deadline: MonotonicUs,
}

impl OpenRequest {
    /// Whether it waits for a migration's end. Such requests may take seconds, and have an account of their
    /// own: they hold up neither the others' places nor their numbers.
    pub(super) const fn waits(&self) -> bool {
        matches!(self.request, Request::AwaitEnd { .. })
    }

    /// When it is repeated or given up.
    pub(super) fn due(&self) -> MonotonicUs {
        self.sent_at.plus_us(RETRY_US).min(self.deadline)
    }
}

impl NodeAgent {
    pub(super) fn open_request(&mut self, now: MonotonicUs, ticket: u64, request: Request) {
        if let Some(refusal) = self.why_not_opened(&request) {
            return self.event(AgentEvent::Reply { ticket, reply: Reply::Refused(refusal) });
        }
        let number = self.next_request;
        self.next_request += 1;
        let deadline = now.plus_us(REQUEST_DEADLINE_US);
        self.requests.insert(number, OpenRequest { ticket, request, sent_at: now, deadline });
        self.send_request(number);
    }

    fn why_not_opened(&self, request: &Request) -> Option<Refusal> {
        if let Err(error) = request.check_bounds() {
            return Some(Refusal::Malformed { why: error.to_string() });
        }
        let waits = self.requests.values().filter(|open| open.waits()).count();
        if matches!(request, Request::AwaitEnd { .. }) {
            return (waits >= MAX_OPEN_WAITS).then_some(Refusal::TooManyWaits { limit: MAX_OPEN_WAITS });
        }
        let window_full = self.oldest_open() + REQUEST_WINDOW <= self.next_request;
        let is_full = self.requests.len() - waits >= MAX_OPEN_REQUESTS || window_full;
        is_full.then_some(Refusal::TooManyRequests { limit: MAX_OPEN_REQUESTS })
    }

    /// The oldest of the requests that hold up the window.
    fn oldest_open(&self) -> u64 {
        let mut open = self.requests.iter().filter(|(_, open)| !open.waits());
        open.next().map_or(self.next_request, |(&number, _)| number)
    }

    fn send_request(&mut self, number: u64) {
        let oldest_open = self.oldest_open();
        if let Some(open) = self.requests.get(&number) {
            let request = open.request.clone();
            self.send(NodeSays::Request { number, oldest_open, request });
        }
    }

    pub(super) fn replied(&mut self, number: u64, reply: Reply) {
        if let Some(open) = self.requests.remove(&number) {
            self.event(AgentEvent::Reply { ticket: open.ticket, reply });
        }
    }

    /// Repeats what has waited long enough and gives up what has waited too long.
    pub(super) fn repeat_requests(&mut self, now: MonotonicUs) {
        let late: Vec<u64> =
            self.requests.iter().filter(|(_, open)| now >= open.due()).map(|(&number, _)| number).collect();
        for number in late {
            let Some(open) = self.requests.get_mut(&number) else { continue };
            if now >= open.deadline {
                self.replied(number, Reply::Refused(Refusal::NoAnswer));
            } else {
                open.sent_at = now;
                self.send_request(number);
            }
        }
    }

    /// Says again whatever the coordinator may have missed, as after a new connection.
    pub(super) fn repeat_everything(&mut self, now: MonotonicUs) {
        self.repeat_imports(now);
        let open: Vec<u64> = self.requests.keys().copied().collect();
        for number in open {
            if let Some(open) = self.requests.get_mut(&number) {
                open.sent_at = now;
            }
            self.send_request(number);
        }
    }
}
