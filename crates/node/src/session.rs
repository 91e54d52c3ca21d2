//! The state of one connection.

use crate::clients::Registration;
use crate::forward::{Asides, Skip, Skipped};
use crate::monitors::Monitoring;
use crate::outcome::Outcome;
use crate::queue::Ticket;
use crate::rights::Rights;
use crate::route::RouteState;
use crate::transaction::Transaction;
use crate::watch::Watch;
use sidle_resp::{ProtocolError, RespVersion};
use sidle_store::Store;
use sidle_types::ProtocolVersion;
use std::sync::Arc;

/// One connection's state; stays on one worker.
pub struct Session {
    /// The connection's entry in the node's list of clients, removed when the session is dropped.
    pub client: Registration,
    /// The protocol version that HELLO chose.
    pub version: RespVersion,
    /// Whether commands other than AUTH, HELLO and QUIT may run.
    pub authenticated: bool,
    /// What its user may do.
    pub(crate) rights: Rights,
    /// It has a place for operators: other commands are refused, and end it.
    pub is_guest: bool,
    /// The commands since MULTI. Shared, so that EXEC reads them while its commands change the session.
    pub(crate) transaction: Option<Arc<Transaction>>,
    /// The keys that must not change before its EXEC.
    pub(crate) watch: Option<Arc<Watch>>,
    /// The next command may touch a slot that is being imported (ASKING).
    pub asking: bool,
    /// The connection accepts reads from a node that does not own the slot (READONLY).
    pub readonly: bool,
    /// The client understands Sidle's own replies (CLIENT CAPA sidle).
    pub capa_sidle: bool,
    /// The client is told what cuts give (CLIENT CAPA sidle-given).
    pub capa_given: bool,
    /// Its transactions may have keys of several nodes (CLIENT CAPA sidle cross-slot).
    pub crosses_slots: bool,
    /// The latest protocol version that it reads; of a client that has opted in without one, the first.
    pub reads_version: ProtocolVersion,
    /// Another node forwards its clients' requests (F1): what does not belong here is neither redirected nor
    /// forwarded.
    pub is_forwarded: bool,
    /// Its requests are forwarded to any owner, and never redirected.
    pub(crate) forwards_all: bool,
    /// Which replies are sent (CLIENT REPLY).
    pub replies: Replies,
    /// The dispatcher's own memory of the connection.
    pub(crate) route: RouteState,
    /// It is shown every command of the node (MONITOR).
    pub(crate) monitoring: Option<Monitoring>,
    /// Of another node's connection: its waiting requests, which let others pass.
    pub(crate) asides: Option<Box<Asides>>,
    /// Of another node's connection: the request being skipped.
    pub(crate) skip: Option<Skip>,
}

/// What becomes of replies (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// All are sent.
    #[default]
    On,
    /// None is sent.
    Off,
    /// The next command's reply is not sent, nor is this command's.
    SkipNext,
    /// This command's reply is not sent.
    Skip,
}

impl Session {
    /// The ticket of the request that waits, or has been woken and not run since. To drop the session, have
    /// the worker forget it.
    pub fn ticket(&self) -> Option<Ticket> {
        self.route.ticket
    }

    /// Whether its request found nothing to take, and waits for that.
    pub fn waits_for_items(&self) -> bool {
        self.route.wait.is_some()
    }

    /// Whether its request builds a value that nobody sees before its end: without its client it is given up.
    pub fn builds_aside(&self) -> bool {
        self.route.goes_on.restoring.is_some()
    }

    /// Whether it waits for a key that has a value, and nobody has the turn there (breaks B1 or B2).
    #[cfg(any(test, feature = "testing"))]
    pub fn misses_items(&self) -> bool {
        self.route.wait.as_ref().is_some_and(|wait| wait.places.misses_items())
    }

    /// A fresh connection, speaking RESP2.
    pub fn new(client: Registration, authenticated: bool) -> Session {
        Session {
            client,
            version: RespVersion::Resp2,
            authenticated,
            rights: Rights::default(),
            is_guest: false,
            transaction: None,
            watch: None,
            asking: false,
            readonly: false,
            capa_sidle: false,
            capa_given: false,
            crosses_slots: false,
            reads_version: ProtocolVersion::CURRENT,
            is_forwarded: false,
            forwards_all: false,
            replies: Replies::On,
            route: RouteState::default(),
            monitoring: None,
            asides: None,
            skip: None,
        }
    }

    /// A connection of another node, which forwards its clients' requests in their protocol version.
    pub fn forwarded(client: Registration, version: RespVersion) -> Session {
        Session { version, is_forwarded: true, ..Session::new(client, true) }
    }

    /// Requests of the node's own, which go to the owners of their keys.
    pub(crate) fn of_the_node(client: Registration, version: RespVersion) -> Session {
        Session { version, forwards_all: true, ..Session::new(client, true) }
    }

    /// Whether some commands are refused on it at present, queued, or carried out by several nodes.
    #[inline]
    pub(crate) fn is_restricted(&self) -> bool {
        let is_plain = self.authenticated & !self.is_guest & !self.rights.is_limited & !self.crosses_slots;
        !is_plain | self.transaction.is_some()
    }

    /// MULTI: commands are queued from here on.
    pub(crate) fn begin_transaction(&mut self) {
        self.transaction = Some(Arc::default());
        self.note_transaction();
    }

    /// The transaction is over: what it queued is freed, and nothing is watched any more.
    pub(crate) fn end_transaction(&mut self) {
        self.transaction = None;
        self.unwatch();
    }

    /// Its command waits for nothing any more, or its connection is gone. The thread has no slot locked.
    #[inline]
    pub fn stop_waiting(&mut self) {
        if self.route.wait.take().is_some() {
            self.client.note_waiter(None);
        }
    }

    /// More keys are watched; unless one has changed: then EXEC will fail in any case.
    pub(crate) fn watch(&mut self, store: &Arc<Store>, add: impl FnOnce(&mut Watch)) {
        if self.client.is_touched() {
            return;
        }
        let watch = self.watch.take();
        let mut watch = watch.unwrap_or_else(|| Arc::new(Watch::new(store, self.client.record())));
        add(Arc::get_mut(&mut watch).expect("only a running EXEC shares it"));
        self.watch = Some(watch);
        self.note_transaction();
    }

    /// Nothing is watched any more. The thread has no slot locked.
    pub(crate) fn unwatch(&mut self) {
        if self.watch.take().is_some() {
            self.client.forget_watched();
        }
        self.note_transaction();
    }

    /// A command of the transaction was refused, if there is a transaction.
    pub(crate) fn spoil_transaction(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            Arc::make_mut(transaction).spoil();
            self.note_transaction();
        }
    }

    /// Others see how long the transaction is.
    pub(crate) fn note_transaction(&self) {
        let queued = self.transaction.as_ref().map(|transaction| transaction.queued().len());
        let bytes = self.transaction.as_ref().map_or(0, |transaction| transaction.bytes());
        let watched = self.watch.as_ref().map_or(0, |watch| watch.bytes());
        self.client.note_queued(queued, bytes + watched);
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

    /// Whether it is pushed what cuts give ([`Worker::write_digests`](crate::Worker::write_digests)).
    #[inline]
    pub fn is_subscribed(&self) -> bool {
        self.route.subscription.is_some()
    }

    /// Whether it is shown every command of the node
    /// ([`Worker::write_lines`](crate::Worker::write_lines)).
    #[inline]
    pub fn is_monitoring(&self) -> bool {
        self.monitoring.is_some()
    }

    /// It is shown every command of the node from here on, or no more.
    pub(crate) fn set_monitoring(&mut self, monitoring: Option<Monitoring>) {
        self.client.note_monitor(monitoring.is_some());
        self.monitoring = monitoring;
    }

    /// Nothing more is pushed of what cuts give.
    pub(crate) fn unsubscribe(&mut self) {
        self.capa_given = false;
        self.route.subscription = None;
    }

    /// Whether the reply to the command that has just run is sent.
    #[inline]
    pub fn sends_reply(&self) -> bool {
        self.replies == Replies::On
    }

    /// From now on waiting requests step aside. After serving, the driver takes their
    /// [tickets](Self::take_aside_tickets), and calls [`serve_asides`](crate::Worker::serve_asides) when one
    /// of them is woken.
    pub fn let_step_aside(&mut self) {
        self.asides = Some(Box::default());
    }

    /// Lets a parked request step aside, if it may: then the session goes on with the next one.
    #[cold]
    pub(crate) fn step_aside(&mut self, ticket: Ticket, args: &[&[u8]], out: &mut Vec<u8>) -> Outcome {
        let (route, version) = (&mut self.route, self.version);
        match &mut self.asides {
            Some(asides) if asides.has_room() => {
                asides.step_aside(ticket, route, args, version, out);
                Outcome::Done
            }
            _ => Outcome::Parked(ticket),
        }
    }

    /// The tickets of requests that stepped aside since the last call.
    pub fn take_aside_tickets(&mut self) -> Vec<Ticket> {
        self.asides.as_mut().map_or_else(Vec::new, |asides| asides.take_unreported())
    }

    /// The tickets of all requests aside. To drop the session, have the worker forget them.
    pub fn aside_tickets(&self) -> impl Iterator<Item = Ticket> + '_ {
        self.asides.iter().flat_map(|asides| asides.tickets())
    }

    /// Whether any request is aside.
    #[inline]
    pub fn has_asides(&self) -> bool {
        self.asides.as_ref().is_some_and(|asides| !asides.is_empty())
    }

    /// Whether to skip a request with this protocol error, and continue.
    pub(crate) fn skips(&self, error: &ProtocolError) -> bool {
        let is_too_long = matches!(
            error,
            ProtocolError::InvalidMultibulkLength
                | ProtocolError::InvalidBulkLength
                | ProtocolError::ExceedsMemory { .. }
                | ProtocolError::QueryBufferLimit
        );
        self.is_forwarded && is_too_long
    }

    /// Continues skipping: how many bytes of the input are skipped, and whether the request ends there.
    /// `None`: it is no request.
    #[cold]
    pub(crate) fn skip(&mut self, input: &[u8]) -> Option<(usize, bool)> {
        match self.skip.as_mut().map_or(Skipped::All(0), |skip| skip.take(input)) {
            Skipped::More(bytes) => Some((bytes, false)),
            Skipped::All(bytes) => {
                self.skip = None;
                Some((bytes, true))
            }
            Skipped::Nonsense => None,
        }
    }
}
