//! Tablet map, coordinator and node agent state machines, without input or output.
//!
//! The coordinator owns the [`TabletMap`], the membership and the [migrations](MigrationRecord), and commits
//! every change to a [`MetaStore`] before it acts on it. A node agent on each node exchanges [control
//! messages](ControlMessage) with it.

mod agent;
mod bounds;
mod contest;
mod coordinator;
mod election;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod health;
mod host_port;
pub mod limits;
mod locked_key;
mod log_copies;
mod memory_meta_store;
mod message;
mod meta_error;
mod meta_store;
mod metadata;
mod migration_record;
mod node_info;
mod protocol;
mod refusal;
mod slot_view;
mod status;
mod tablet_map;
mod takeover;
mod term;
pub mod timing;

pub use agent::{
    AgentEvent, AgentInput, End, Migrations, NodeAgent, Source, SourceStage, Target, TargetStage,
};
pub use bounds::OutOfBounds;
pub use contest::{Contest, ContestedStore};
pub use coordinator::{Coordinator, CoordinatorEvent, CoordinatorInput, Founding};
pub use election::{Election, Seen, Tenure};
pub use health::{Health, Suspects};
pub use host_port::{HostPort, ParseHostPortError};
pub use limits::{HISTORY, MAX_PARTITIONS};
pub use locked_key::LockedKey;
pub use log_copies::{KnownCopies, LogBackup, LogCopies};
pub use memory_meta_store::{CommitFailure, MemoryMetaStore};
pub use message::{
    ControlMessage, CoordinatorSays, Heartbeat, MessageError, NodeLoad, NodeName, NodeSays,
    ParseNodeNameError, PrepareRefusal, Progress, Reply, Request, Settled, Survey, ToCoordinator, ToNode,
};
pub use meta_error::MetaError;
pub use meta_store::{MetaStore, Place};
pub use metadata::{KnownStart, Metadata};
pub use migration_record::{
    LargeCollections, MigrationCounters, MigrationRecord, MigrationState, RequestKey, Turn,
};
pub use node_info::{ClusterId, Incarnation, NodeInfo, ParseClusterIdError, StartNumber};
pub use protocol::{ProtocolOutline, ReadProtocol};
pub use refusal::Refusal;
pub use slot_view::SlotRun;
pub use status::{
    MigrationStatus, NodeState, NodeStatus, PartitionStatus, StatusReport, TakeoverStatus, Upgraded,
};
pub use tablet_map::{MapError, Tablet, TabletMap};
pub(crate) use takeover::Legacy;
pub use takeover::{DeadLog, Takeover, TakeoverProgress};
pub use term::{HighestTerm, Term};
