//! Joint commands: those with keys of several nodes, carried out as one change (F8).

use super::progress::Progress;
use crate::queue::Ticket;
use crate::range_table::RangeTable;
use crate::routing::Asked;
use crate::session::Session;
use crate::table::Found;
use sidle_commands::ReplyError;
use sidle_resp::{ReplyWriter, RespVersion};
use sidle_types::{CommitNumber, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A joint command whose parts at other nodes have been requested.
pub(crate) struct Joint {
    pub(super) progress: Box<Progress>,
    /// The range table that it began with. This node's part runs under the same (D4).
    pub(super) ranges: Arc<RangeTable>,
    /// Its publication.
    pub(super) seen: u64,
    pub(super) found: Found,
    pub(super) version: RespVersion,
    /// The keys of this node's part, and the part's words.
    pub(super) here: Vec<usize>,
    pub(super) words: Vec<Box<[u8]>>,
    /// Those of its keys that an import has answered for.
    pub(super) settled: Asked,
    /// The other nodes, by their part's number.
    pub(super) nodes: Vec<NodeId>,
    /// The commit that has this node's part, and what its reply shows of it.
    pub(super) shown: CommitNumber,
    /// Whether its client is still there.
    pub(super) has_client: bool,
    pub(super) ended: Option<Ended>,
}

/// The end of a joint command, or of a round of its parts.
pub(super) enum Ended {
    /// Its reply.
    Reply(Vec<u8>),
    Failed(ReplyError),
    ReplyTooLong,
    /// Some parts are left.
    Again {
        was_elsewhere: bool,
    },
}

impl Joint {
    /// Its end once all of its keys are done.
    pub(super) fn reply(&self, most_bytes: usize) -> Ended {
        let mut bytes = Vec::new();
        let mut reply = ReplyWriter::bounded(&mut bytes, self.version, most_bytes);
        self.progress.write(self.found.spec.split, &mut reply);
        if reply.is_cut() { Ended::ReplyTooLong } else { Ended::Reply(bytes) }
    }

    /// The memory of its words.
    pub(super) fn words_bytes(&self) -> usize {
        self.words.iter().map(|word| word.len()).sum()
    }
}

/// A worker's joint commands.
#[derive(Default)]
pub(crate) struct Joints {
    pub(super) by_ticket: BTreeMap<Ticket, Joint>,
    /// Runs parts without their clients' sessions.
    pub(super) session: Option<Box<Session>>,
}

impl Joints {
    /// The oldest publication of a range table that one of them still uses.
    pub(crate) fn oldest_table(&self) -> Option<u64> {
        self.by_ticket.values().filter(|joint| joint.ended.is_none()).map(|joint| joint.seen).min()
    }

    /// How many go on without their clients.
    pub(crate) fn left_alone(&self) -> usize {
        self.by_ticket.values().filter(|joint| !joint.has_client).count()
    }

    pub(crate) fn has(&self, ticket: Ticket) -> bool {
        self.by_ticket.contains_key(&ticket)
    }

    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Joint> {
        self.by_ticket.remove(&ticket)
    }
}
