//! Clients' requests that go to the coordinator, and its replies in the words of the Redis protocol.

use super::{ControlEvent, NodeControl};
use crate::forward::UNKNOWN;
use crate::outcome::{ControlReply, ControlRequest};
use sidle_cluster::{AgentInput, Reply, Request};
use sidle_types::{MigrationId, MonotonicUs};

/// What a request's reply is made into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenRequest {
    /// The migration's number, or `OK`.
    Plain,
    /// The whole report.
    Status,
    /// The migrations of the report, or one of them.
    Migrations(Option<MigrationId>),
}

impl NodeControl {
    pub(super) fn request(&mut self, now: MonotonicUs, tag: u64, request: ControlRequest) {
        let (open, request) = match request {
            ControlRequest::StartMigration { range, target, protocol, policy } => {
                (OpenRequest::Plain, Request::StartMigration { range, target, protocol, policy })
            }
            ControlRequest::SetPolicy(migration, policy) => {
                (OpenRequest::Plain, Request::SetPolicy { migration, policy })
            }
            ControlRequest::CancelMigration(migration) => (OpenRequest::Plain, Request::Cancel { migration }),
            ControlRequest::MigrationStatus(migration) => {
                (OpenRequest::Migrations(migration), Request::Status)
            }
            ControlRequest::AwaitEnd { migration, patience_us } => {
                (OpenRequest::Migrations(Some(migration)), Request::AwaitEnd { migration, patience_us })
            }
            ControlRequest::Forget(node) => (OpenRequest::Plain, Request::Forget { node }),
            ControlRequest::Status => (OpenRequest::Status, Request::Status),
        };
        self.requests.insert(tag, open);
        self.agent.handle(now, AgentInput::Request { ticket: tag, request });
    }

    pub(super) fn replied(&mut self, tag: u64, reply: Reply) {
        let Some(open) = self.requests.remove(&tag) else { return };
        self.event(ControlEvent::Reply { tag, reply: word(open, reply) });
    }
}

fn word(open: OpenRequest, reply: Reply) -> ControlReply {
    match (open, reply) {
        (_, Reply::Started { migration, .. }) => {
            ControlReply::Integer(i64::try_from(migration.0).expect("within the limits of messages"))
        }
        (_, Reply::Cancelled { .. } | Reply::PolicySet { .. } | Reply::Forgotten { .. }) => ControlReply::Ok,
        (_, Reply::Refused(refusal)) => {
            let code = if refusal.is_unclear() { UNKNOWN } else { "ERR" };
            ControlReply::Error(format!("{code} {refusal}"))
        }
        (OpenRequest::Migrations(Some(id)), Reply::Status(report)) => {
            match report.migrations.iter().find(|migration| migration.id == id) {
                Some(migration) => json(migration),
                None => ControlReply::Error(format!("ERR there is no migration {id}")),
            }
        }
        (OpenRequest::Migrations(None), Reply::Status(report)) => json(&report.migrations),
        (OpenRequest::Plain | OpenRequest::Status, Reply::Status(report)) => json(&*report),
    }
}

fn json(value: &impl serde::Serialize) -> ControlReply {
    ControlReply::Text(serde_json::to_string(value).expect("reports have string keys and plain values only"))
}
