//! Clients' requests on their way to the coordinator and back.

use super::{AgentEvent, NodeAgent};
use crate::timing::{MAX_OPEN_REQUESTS, REQUEST_DEADLINE_US, REQUEST_WINDOW, RETRY_US};
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
    /// When it is repeated or given up.
    pub(super) fn due(&self) -> MonotonicUs {
        self.sent_at.plus_us(RETRY_US).min(self.deadline)
    }
}

impl NodeAgent {
    pub(super) fn open_request(&mut self, now: MonotonicUs, ticket: u64, request: Request) {
        let number = self.next_request;
        let window_full = self.oldest_open() + REQUEST_WINDOW <= number;
        if self.requests.len() >= MAX_OPEN_REQUESTS || window_full {
            let refusal = Refusal::TooManyRequests { limit: MAX_OPEN_REQUESTS };
            return self.event(AgentEvent::Reply { ticket, reply: Reply::Refused(refusal) });
        }
        self.next_request += 1;
        let deadline = now.plus_us(REQUEST_DEADLINE_US);
        self.requests.insert(number, OpenRequest { ticket, request, sent_at: now, deadline });
        self.send_request(number);
    }

    fn oldest_open(&self) -> u64 {
        self.requests.keys().next().copied().unwrap_or(self.next_request)
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
