//! Checks peers' messages, and the record, against [`limits`](crate::limits).
//!
//! Lists are cut off during parsing, so that parsing a text costs no more than its bytes. Texts and numbers
//! are checked once all of it is parsed, before anything uses it. A commit is checked by the code that reads
//! it at the next start.

mod lists;

pub(crate) use lists::*;

use crate::limits::{
    HISTORY, MAX_BACKUPS, MAX_HELD, MAX_NODES, MAX_NUMBER, MAX_PARTITIONS, MAX_PARTS_NAMED, MAX_PATIENCE_US,
    MAX_PROTOCOL_BYTES, MAX_REASON_BYTES, MAX_STARTS, MAX_TABLETS, MAX_TAKEOVERS, MAX_TEXT_BYTES,
    MAX_UNFINISHED,
};
use crate::{
    ControlMessage, CoordinatorSays, DeadLog, Health, Heartbeat, Incarnation, LogCopies, Metadata,
    MigrationCounters, MigrationRecord, MigrationState, MigrationStatus, NodeInfo, NodeSays, NodeStatus,
    PrepareRefusal, Progress, Refusal, Reply, Request, RequestKey, StartNumber, StatusReport, Survey,
    TabletMap, Takeover, ToCoordinator, ToNode, Turn,
};
use sidle_types::{MapEpoch, MigrationId, MigrationPolicy, TabletEpoch};

/// Which field breaks which limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfBounds {
    /// A list is too long.
    #[error("'{field}' has more than {most} entries")]
    Entries {
        /// The field.
        field: &'static str,
        /// The limit.
        most: usize,
    },
    /// A text is too long.
    #[error("'{field}' has more than {most} bytes")]
    Bytes {
        /// The field.
        field: &'static str,
        /// The limit.
        most: usize,
    },
    /// A number is too large.
    #[error("'{field}' is above {most}")]
    Number {
        /// The field.
        field: &'static str,
        /// The limit.
        most: u64,
    },
    /// A value that is never sent.
    #[error("'{field}' {what}")]
    Form {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        what: &'static str,
    },
}

type Checked = Result<(), OutOfBounds>;

fn entries<T>(field: &'static str, list: &[T], most: usize) -> Checked {
    if list.len() <= most { Ok(()) } else { Err(OutOfBounds::Entries { field, most }) }
}

fn text(field: &'static str, text: &str, most: usize) -> Checked {
    if text.len() <= most { Ok(()) } else { Err(OutOfBounds::Bytes { field, most }) }
}

fn number(field: &'static str, number: u64) -> Checked {
    at_most(field, number, MAX_NUMBER)
}

fn at_most(field: &'static str, number: u64, most: u64) -> Checked {
    if number <= most { Ok(()) } else { Err(OutOfBounds::Number { field, most }) }
}

fn numbers(fields: &[(&'static str, u64)]) -> Checked {
    fields.iter().try_for_each(|&(field, value)| number(field, value))
}

/// As much of a text as may be sent or stored.
pub(crate) fn clipped(text: String, most: usize) -> String {
    const CUT: &str = " [...]";
    if text.len() <= most {
        return text;
    }
    format!("{}{CUT}", &text[..text.floor_char_boundary(most - CUT.len())])
}

/// A value that can be checked against the limits.
pub(crate) trait Bounded {
    /// Which limit it breaks, if any.
    fn check_bounds(&self) -> Checked;
}

impl<T: Bounded> Bounded for Option<T> {
    fn check_bounds(&self) -> Checked {
        self.as_ref().map_or(Ok(()), T::check_bounds)
    }
}

impl<T: Bounded + ?Sized> Bounded for Box<T> {
    fn check_bounds(&self) -> Checked {
        T::check_bounds(self)
    }
}

impl Bounded for ControlMessage {
    fn check_bounds(&self) -> Checked {
        match self {
            ControlMessage::ToCoordinator(message) => message.check_bounds(),
            ControlMessage::ToNode(message) => message.check_bounds(),
        }
    }
}

impl Bounded for ToCoordinator {
    fn check_bounds(&self) -> Checked {
        self.incarnation.check_bounds()?;
        match &self.body {
            NodeSays::Join { start, log_since, .. } => {
                start.check_bounds().and_then(|()| log_since.check_bounds())
            }
            NodeSays::Heartbeat(heartbeat) => heartbeat.check_bounds(),
            NodeSays::Surveyed { migration, survey } => {
                migration.check_bounds().and_then(|()| survey.check_bounds())
            }
            NodeSays::Prepared { migration } => migration.check_bounds(),
            NodeSays::PrepareRefused { migration, why } => {
                migration.check_bounds().and_then(|()| why.check_bounds())
            }
            NodeSays::Progress { migration, progress } | NodeSays::Finished { migration, progress } => {
                migration.check_bounds().and_then(|()| progress.check_bounds())
            }
            NodeSays::Broken { migration, why } => {
                migration.check_bounds()?;
                text("why", why, MAX_REASON_BYTES)
            }
            NodeSays::Copies { copies } => copies.check_bounds(),
            NodeSays::AsksForLog { .. } => Ok(()),
            NodeSays::TookOver { epoch, .. } => epoch.check_bounds(),
            NodeSays::CannotTakeOver { epoch, why, .. } => {
                epoch.check_bounds()?;
                text("why", why, MAX_REASON_BYTES)
            }
            NodeSays::Request { number: given, oldest_open, request } => {
                numbers(&[("number", *given), ("oldest_open", *oldest_open)])?;
                if oldest_open > given && !request.only_looks() {
                    return Err(OutOfBounds::Form { field: "oldest_open", what: "is above 'number'" });
                }
                request.check_bounds()
            }
        }
    }
}

impl Bounded for ToNode {
    fn check_bounds(&self) -> Checked {
        self.incarnation.check_bounds()?;
        self.start.check_bounds()?;
        number("term", self.term.0)?;
        match &self.body {
            CoordinatorSays::Welcome { map, .. } | CoordinatorSays::MapUpdate { map } => map.check_bounds(),
            CoordinatorSays::JoinRefused { why } | CoordinatorSays::JoinLater { why } => {
                text("why", why, MAX_TEXT_BYTES)
            }
            CoordinatorSays::JoinAgain | CoordinatorSays::Superseded | CoordinatorSays::LogFate { .. } => {
                Ok(())
            }
            CoordinatorSays::Heard { map_epoch, health } => {
                map_epoch.check_bounds().and_then(|()| health.check_bounds())
            }
            CoordinatorSays::Survey { migration, partitions, .. } => {
                migration.check_bounds()?;
                if *partitions == 0 {
                    return Err(OutOfBounds::Form { field: "partitions", what: "is 0" });
                }
                at_most("partitions", *partitions as u64, MAX_PARTITIONS as u64)
            }
            CoordinatorSays::Prepare { record } | CoordinatorSays::Track { record } => record.check_bounds(),
            CoordinatorSays::Over { migration, record, map_epoch } => {
                migration.check_bounds()?;
                record.check_bounds()?;
                map_epoch.check_bounds()
            }
            CoordinatorSays::Copies { copies } => copies.check_bounds(),
            CoordinatorSays::Reply { number: given, reply } => {
                number("number", *given)?;
                reply.check_bounds()
            }
        }
    }
}

impl Bounded for Incarnation {
    fn check_bounds(&self) -> Checked {
        number("incarnation", self.0)
    }
}

impl Bounded for StartNumber {
    fn check_bounds(&self) -> Checked {
        number("start", self.0)
    }
}

impl Bounded for MapEpoch {
    fn check_bounds(&self) -> Checked {
        number("map_epoch", self.0)
    }
}

impl Bounded for TabletEpoch {
    fn check_bounds(&self) -> Checked {
        number("epoch", self.0)
    }
}

impl Bounded for MigrationId {
    fn check_bounds(&self) -> Checked {
        number("migration", self.0)
    }
}

impl Bounded for Heartbeat {
    fn check_bounds(&self) -> Checked {
        self.map_epoch.check_bounds()?;
        numbers(&[
            ("keys", self.load.keys),
            ("memory_used_bytes", self.load.memory_used_bytes),
            ("memory_limit_bytes", self.load.memory_limit_bytes),
        ])?;
        if let Some(progress) = &self.load.taking_over {
            numbers(&[
                ("fetched_bytes", progress.fetched_bytes),
                ("fetch_bytes", progress.fetch_bytes),
                ("read_bytes", progress.read_bytes),
                ("copy_bytes", progress.copy_bytes),
                ("put_bytes", progress.put_bytes),
                ("found_bytes", progress.found_bytes),
            ])?;
        }
        entries("holds", &self.holds, MAX_HELD)?;
        if !self.holds.is_sorted_by(|a, b| a < b) {
            return Err(OutOfBounds::Form { field: "holds", what: "is not in ascending order" });
        }
        text("trouble", self.trouble.as_deref().unwrap_or_default(), MAX_REASON_BYTES)?;
        self.holds.iter().try_for_each(MigrationId::check_bounds)
    }
}

impl Bounded for Health {
    fn check_bounds(&self) -> Checked {
        entries("suspected", &self.suspected, MAX_NODES)
    }
}

impl Bounded for Survey {
    fn check_bounds(&self) -> Checked {
        numbers(&[("records", self.records), ("bytes", self.bytes)])?;
        entries("partitions", &self.partitions, MAX_PARTITIONS)
    }
}

impl Bounded for PrepareRefusal {
    fn check_bounds(&self) -> Checked {
        match self {
            PrepareRefusal::NoMemory { needed_bytes, free_bytes } => {
                numbers(&[("needed_bytes", *needed_bytes), ("free_bytes", *free_bytes)])
            }
            PrepareRefusal::SourceUnreachable { error } => text("error", error, MAX_REASON_BYTES),
            PrepareRefusal::Other { why } => text("why", why, MAX_REASON_BYTES),
        }
    }
}

impl PrepareRefusal {
    /// Cuts its reason to what may be sent.
    pub(crate) fn clipped(self) -> PrepareRefusal {
        match self {
            PrepareRefusal::SourceUnreachable { error } => {
                PrepareRefusal::SourceUnreachable { error: clipped(error, MAX_REASON_BYTES) }
            }
            PrepareRefusal::Other { why } => PrepareRefusal::Other { why: clipped(why, MAX_REASON_BYTES) },
            numbers @ PrepareRefusal::NoMemory { .. } => numbers,
        }
    }
}

impl Bounded for Progress {
    fn check_bounds(&self) -> Checked {
        numbers(&[
            ("records_moved", self.records_moved),
            ("bytes_moved", self.bytes_moved),
            ("changes", self.changes),
            ("changes_left", self.changes_left),
            ("collections.arrived", self.collections.arrived),
            ("collections.ahead", self.collections.ahead),
            ("collections.patch_bytes", self.collections.patch_bytes),
        ])?;
        text("stalled", self.stalled.as_deref().unwrap_or_default(), MAX_REASON_BYTES)?;
        entries("next", &self.next, MAX_PARTITIONS)
    }
}

impl Progress {
    /// Cuts its reason to what may be sent.
    pub(crate) fn clipped(self) -> Progress {
        Progress { stalled: self.stalled.map(|why| clipped(why, MAX_REASON_BYTES)), ..self }
    }
}

impl Bounded for Request {
    fn check_bounds(&self) -> Checked {
        match self {
            Request::StartMigration { protocol, policy, .. } => {
                text("protocol", protocol, MAX_PROTOCOL_BYTES)?;
                policy.check_bounds()
            }
            Request::SetPolicy { migration, policy } => {
                migration.check_bounds().and_then(|()| policy.check_bounds())
            }
            Request::Cancel { migration } => migration.check_bounds(),
            Request::Status | Request::Forget { .. } | Request::TakeOver { .. } | Request::Upgrade => Ok(()),
            Request::AwaitEnd { migration, patience_us } => {
                migration.check_bounds()?;
                at_most("patience_us", *patience_us, MAX_PATIENCE_US)
            }
        }
    }
}

impl Bounded for MigrationPolicy {
    fn check_bounds(&self) -> Checked {
        let (field, value) = match *self {
            MigrationPolicy::Adaptive => return Ok(()),
            MigrationPolicy::Rate { bytes_per_s } => ("bytes_per_s", bytes_per_s),
            MigrationPolicy::Deadline { ms } => ("ms", ms),
            MigrationPolicy::SloP99 { us } => ("us", us),
        };
        if value == 0 {
            return Err(OutOfBounds::Form { field, what: "is 0" });
        }
        number(field, value)
    }
}

impl Bounded for TabletMap {
    fn check_bounds(&self) -> Checked {
        self.epoch().check_bounds()?;
        entries("nodes", self.nodes(), MAX_NODES)?;
        entries("tablets", self.tablets(), MAX_TABLETS)?;
        entries("migrations", self.migrations(), MAX_UNFINISHED)?;
        self.nodes().iter().try_for_each(NodeInfo::check_bounds)?;
        self.tablets().iter().try_for_each(|tablet| tablet.epoch.check_bounds())?;
        self.migrations().iter().try_for_each(MigrationRecord::check_bounds)?;
        entries("takeovers", self.takeovers(), MAX_TAKEOVERS)?;
        self.takeovers().iter().try_for_each(Takeover::check_bounds)
    }
}

impl Bounded for Takeover {
    fn check_bounds(&self) -> Checked {
        self.epoch.check_bounds()?;
        entries("unread_by", &self.unread_by, MAX_NODES)?;
        self.dead.check_bounds()
    }
}

impl Bounded for DeadLog {
    fn check_bounds(&self) -> Checked {
        number("log_epoch", self.log_epoch)?;
        entries("backups", &self.backups, MAX_BACKUPS)?;
        self.backups.iter().try_for_each(|backup| backup.incarnation.check_bounds())
    }
}

impl Bounded for NodeInfo {
    fn check_bounds(&self) -> Checked {
        self.incarnation.check_bounds()
    }
}

impl Bounded for MigrationRecord {
    fn check_bounds(&self) -> Checked {
        self.id.check_bounds()?;
        text("protocol", &self.protocol, MAX_PROTOCOL_BYTES)?;
        self.policy.check_bounds()?;
        numbers(&[
            ("source_incarnation", self.source_incarnation.0),
            ("target_incarnation", self.target_incarnation.0),
        ])?;
        self.epoch.check_bounds()?;
        self.map_epoch.check_bounds()?;
        entries("partitions", &self.partitions, MAX_PARTITIONS)?;
        self.state.check_bounds()?;
        self.counters.check_bounds()?;
        self.requested_by.check_bounds()?;
        if let Some(Turn { by, requested_by, settled_at }) = &self.turn {
            by.check_bounds()?;
            requested_by.check_bounds()?;
            settled_at.check_bounds()?;
        }
        self.source_log.as_ref().map_or(Ok(()), DeadLog::check_bounds)?;
        self.continues.as_ref().map_or(Ok(()), MigrationId::check_bounds)
    }
}

impl Bounded for RequestKey {
    fn check_bounds(&self) -> Checked {
        self.incarnation.check_bounds()?;
        number("number", self.number)
    }
}

impl Bounded for MigrationState {
    fn check_bounds(&self) -> Checked {
        text("why", self.why().unwrap_or_default(), MAX_TEXT_BYTES)
    }
}

impl Bounded for MigrationCounters {
    fn check_bounds(&self) -> Checked {
        numbers(&[
            ("records", self.records),
            ("bytes", self.bytes),
            ("records_moved", self.records_moved),
            ("bytes_moved", self.bytes_moved),
            ("elapsed_us", self.elapsed_us),
            ("collections.arrived", self.collections.arrived),
            ("collections.ahead", self.collections.ahead),
            ("collections.patch_bytes", self.collections.patch_bytes),
        ])
    }
}

impl Bounded for LogCopies {
    fn check_bounds(&self) -> Checked {
        number("epoch", self.epoch)?;
        number("takeover_after_ms", self.takeover_after_ms.unwrap_or_default())?;
        entries("backups", &self.backups, MAX_BACKUPS)?;
        self.backups.iter().try_for_each(|backup| backup.incarnation.check_bounds())
    }
}

impl Bounded for Metadata {
    fn check_bounds(&self) -> Checked {
        entries("copies", &self.copies, MAX_NODES)?;
        self.copies.iter().try_for_each(|known| known.copies.check_bounds())?;
        self.map.check_bounds()?;
        let unfinished = self.map.migrations().len() + self.waiting.len();
        if unfinished > MAX_UNFINISHED {
            return Err(OutOfBounds::Entries { field: "waiting", most: MAX_UNFINISHED });
        }
        if self.history.len() > HISTORY {
            return Err(OutOfBounds::Entries { field: "history", most: HISTORY });
        }
        self.waiting.iter().try_for_each(MigrationRecord::check_bounds)?;
        self.history.iter().try_for_each(|record| record.check_bounds())?;
        entries("starts", &self.starts, MAX_STARTS)?;
        for known in &self.starts {
            known.incarnation.check_bounds()?;
            known.start.check_bounds()?;
            known.log_since.check_bounds()?;
        }
        number("next_migration", self.next_migration.0)
    }
}

impl Bounded for Reply {
    fn check_bounds(&self) -> Checked {
        match self {
            Reply::Started { migration, state } => {
                migration.check_bounds().and_then(|()| state.check_bounds())
            }
            Reply::Cancelled { migration } | Reply::PolicySet { migration } => migration.check_bounds(),
            Reply::TurnsBack { migration, by } => migration.check_bounds().and_then(|()| by.check_bounds()),
            Reply::Forgotten { .. } | Reply::TakesOver { .. } | Reply::Upgraded(_) => Ok(()),
            Reply::Status(report) => report.check_bounds(),
            Reply::Refused(refusal) => refusal.check_bounds(),
        }
    }
}

impl Bounded for Refusal {
    fn check_bounds(&self) -> Checked {
        match self {
            Refusal::UnknownNode { name } | Refusal::AmbiguousNode { name } => {
                text("name", name, MAX_TEXT_BYTES)
            }
            Refusal::TargetDown { node }
            | Refusal::SourceDown { node }
            | Refusal::OwnedByTarget { node, .. }
            | Refusal::StillUp { node }
            | Refusal::OwnsTablets { node, .. }
            | Refusal::OwnsNothing { node }
            | Refusal::BeingTakenOver { node, .. }
            | Refusal::Coordinates { node } => text("node", node, MAX_TEXT_BYTES),
            Refusal::SeveralParts { parts, .. }
            | Refusal::HeldBack { nodes: parts, .. }
            | Refusal::SpeaksUnknown { nodes: parts, .. } => {
                entries("parts", parts, MAX_PARTS_NAMED)?;
                parts.iter().try_for_each(|part| text("parts", part, MAX_TEXT_BYTES))
            }
            Refusal::Overlaps { migration, state, .. } | Refusal::IsOver { migration, state } => {
                migration.check_bounds()?;
                // A state with its reason.
                text("state", state, 2 * MAX_TEXT_BYTES)
            }
            Refusal::NotPrepared { migration, why } => {
                migration.check_bounds()?;
                text("why", why, MAX_TEXT_BYTES)
            }
            Refusal::Protocol { why } | Refusal::Malformed { why } => text("why", why, MAX_TEXT_BYTES),
            Refusal::NotCommitted { error } => text("error", error, MAX_TEXT_BYTES),
            Refusal::TakesPart { node, migration, why } => {
                migration.check_bounds()?;
                text("node", node, MAX_TEXT_BYTES)?;
                text("why", why, MAX_TEXT_BYTES)
            }
            Refusal::NoCopies { node, why } => {
                text("node", node, MAX_TEXT_BYTES)?;
                text("why", why, MAX_TEXT_BYTES)
            }
            Refusal::UnknownMigration { migration, continues } => {
                migration.check_bounds()?;
                continues.map_or(Ok(()), |before| before.check_bounds())
            }
            Refusal::CancelledMeanwhile { migration }
            | Refusal::Running { migration, .. }
            | Refusal::GaveAll { migration, .. } => migration.check_bounds(),
            Refusal::TooManyMigrations { .. }
            | Refusal::TooManyTablets { .. }
            | Refusal::TooManyTakeovers { .. }
            | Refusal::TooManyRequests { .. }
            | Refusal::TooManyWaits { .. }
            | Refusal::NoAnswer => Ok(()),
        }
    }
}

impl Bounded for StatusReport {
    fn check_bounds(&self) -> Checked {
        self.map_epoch.check_bounds()?;
        entries("nodes", &self.nodes, MAX_NODES)?;
        entries("tablets", &self.tablets, MAX_TABLETS)?;
        entries("takeovers", &self.takeovers, MAX_TAKEOVERS)?;
        self.takeovers.iter().try_for_each(|takeover| takeover.of.check_bounds())?;
        entries("migrations", &self.migrations, MAX_UNFINISHED + HISTORY)?;
        text("record_trouble", self.record_trouble.as_deref().unwrap_or_default(), MAX_TEXT_BYTES)?;
        self.nodes.iter().try_for_each(NodeStatus::check_bounds)?;
        self.tablets.iter().try_for_each(|tablet| tablet.epoch.check_bounds())?;
        self.migrations.iter().try_for_each(MigrationStatus::check_bounds)
    }
}

impl Bounded for NodeStatus {
    fn check_bounds(&self) -> Checked {
        self.incarnation.check_bounds()?;
        entries("log_copies", &self.log_copies, MAX_NODES)?;
        text("not_taken_over", self.not_taken_over.as_deref().unwrap_or_default(), MAX_TEXT_BYTES)?;
        text("takeover_refused", self.takeover_refused.as_deref().unwrap_or_default(), MAX_TEXT_BYTES)?;
        text("trouble", self.trouble.as_deref().unwrap_or_default(), MAX_REASON_BYTES)
    }
}

impl Bounded for MigrationStatus {
    fn check_bounds(&self) -> Checked {
        self.id.check_bounds()?;
        text("protocol", &self.protocol, MAX_PROTOCOL_BYTES)?;
        text("why", self.why.as_deref().unwrap_or_default(), MAX_TEXT_BYTES)?;
        text("stalled", self.stalled.as_deref().unwrap_or_default(), MAX_REASON_BYTES)?;
        text("state", &self.state, MAX_REASON_BYTES)?;
        text("range_text", &self.range_text, MAX_REASON_BYTES)?;
        entries("partitions", &self.partitions, MAX_PARTITIONS)
    }
}
