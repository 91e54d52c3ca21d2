//! The state of one connection.

use crate::clients::Registration;
use crate::flush::Flush;
use crate::forward::{Asides, Progress, Skip};
use crate::parking::Ticket;
use crate::progress_reports::ProgressReports;
use crate::routing::INLINE_KEYS;
use sidle_resp::RespVersion;
use sidle_types::{MapEpoch, MigrationId};
use smallvec::SmallVec;

/// One connection's state; lives and dies on one worker.
pub struct Session {
    /// The connection's entry in the node's list of clients, taken out when the session is dropped.
    pub client: Registration,
    /// The protocol version that HELLO chose.
    pub version: RespVersion,
    /// Whether commands other than AUTH, HELLO and QUIT may run.
    pub authenticated: bool,
    /// It has one of the places that are kept for operators: other commands than theirs are refused, and end
    /// it.
    pub is_guest: bool,
    /// MULTI was refused: so is everything else up to EXEC or DISCARD.
    pub refuses_transaction: bool,
    /// The next command may touch a slot that is being imported (ASKING).
    pub asking: bool,
    /// The connection accepts reads from a node that does not own the slot (READONLY).
    pub readonly: bool,
    /// The client understands Sidle's own replies (CLIENT CAPA sidle).
    pub capa_sidle: bool,
    /// Another node sends on what its own clients asked it (F1): what does not belong here is neither
    /// redirected nor sent on.
    pub is_forwarded: bool,
    /// Which replies are sent (CLIENT REPLY).
    pub replies: Replies,
    /// The dispatcher's own memory of the connection.
    pub(crate) route: RouteState,
    /// Of another node's connection: its requests that wait and let those behind them pass.
    pub(crate) asides: Option<Box<Asides>>,
    /// Of another node's connection: the request that is skipped at present.
    pub(crate) skip: Option<Skip>,
}

/// Keys of one request, by their index, each with the import that it was asked of.
pub(crate) type Asked = SmallVec<[(MigrationId, u32); INLINE_KEYS]>;

/// What the dispatcher remembers of a connection.
#[derive(Debug, Default)]
pub(crate) struct RouteState {
    /// The newest map that an opted-in client was told of.
    pub(crate) map_told: MapEpoch,
    /// What an opted-in client was told of each running migration.
    pub(crate) told: ProgressReports,
    /// The ticket of the request that waits, or has been woken and not run since.
    pub(crate) ticket: Option<Ticket>,
    /// Of the request that waits: which of its keys were asked of which import.
    pub(crate) asked: Asked,
    /// Of the request that is run again: which of its keys an import has answered for. What the store does
    /// not have of these is absent, even if the mark that said so has made way since.
    pub(crate) settled: Asked,
    /// Whether the request that is run again has waited as long as it would.
    pub(crate) waited_out: bool,
    /// How far a FLUSHALL has come that works in steps.
    pub(crate) flush: Option<Flush>,
    /// What its steps have taken so far.
    pub(crate) spent_ns: u64,
    /// How far a command has come that other nodes run, or run parts of.
    pub(crate) forward: Option<Box<Progress>>,
}

/// What becomes of replies (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// All are sent.
    #[default]
    On,
    /// None is sent.
    Off,
    /// The next command's reply is not sent; this command's neither.
    SkipNext,
    /// This command's reply is not sent.
    Skip,
}

impl Session {
    /// The ticket of the request that waits, or has been woken and not run since. Whoever drops the session
    /// has the worker forget it.
    pub fn ticket(&self) -> Option<Ticket> {
        self.route.ticket
    }

    /// A fresh connection, speaking RESP2.
    pub fn new(client: Registration, authenticated: bool) -> Session {
        Session {
            client,
            version: RespVersion::Resp2,
            authenticated,
            is_guest: false,
            refuses_transaction: false,
            asking: false,
            readonly: false,
            capa_sidle: false,
            is_forwarded: false,
            replies: Replies::On,
            route: RouteState::default(),
            asides: None,
            skip: None,
        }
    }

    /// A connection of another node, which sends on what its clients asked it and speaks their version of the
    /// protocol.
    pub fn forwarded(client: Registration, version: RespVersion) -> Session {
        Session { version, is_forwarded: true, ..Session::new(client, true) }
    }

    /// Whether some commands may not run on it at present.
    #[inline]
    pub(crate) fn is_restricted(&self) -> bool {
        !self.authenticated | self.is_guest | self.refuses_transaction
    }

    /// Called by the dispatcher before each command: moves CLIENT REPLY SKIP one command on.
    #[inline]
    pub fn begin_command(&mut self) {
        self.replies = match self.replies {
            Replies::SkipNext => Replies::Skip,
            Replies::Skip => Replies::On,
            other => other,
        };
    }

    /// Whether attributes and pushes may be sent: the client asked for them, and RESP3 carries them.
    #[inline]
    pub fn is_aware(&self) -> bool {
        self.capa_sidle && self.version == RespVersion::Resp3
    }

    /// Whether the reply to the command that has just run is sent.
    #[inline]
    pub fn sends_reply(&self) -> bool {
        self.replies == Replies::On
    }
}
