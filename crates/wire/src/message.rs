//! Messages: the content of a checked frame.

use crate::layout::{
    ActivateLayout, ChangedPullLayout, ChangedPullReplyLayout, ForwardLayout, HAS_LOCKS, HelloLayout,
    PieceLayout, PingLayout, PriorityPullLayout, PriorityPullReplyLayout, ProbeReplyLayout, PullLayout,
    PullReplyLayout, RefuseLayout, SampPullLayout, ScopeLayout,
};
use crate::limits::{HOT_HINTS_MAX, REFUSAL_TEXT_BYTES_MAX};
use crate::scope::Scope;
use crate::{
    AbsentKeys, ChangedRanges, CopyHello, CutPull, CutReply, Frame, HotHints, Keys, Kind, Piece, Positions,
    ToBackup, ToWriter, WireError,
};
use sidle_types::{MigrationId, NodeId, Position, PositionRange, TabletEpoch, Version};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// A message's connection: one of a migration's two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lane {
    /// Pulls and their large replies.
    Bulk = 0,
    /// What commands wait for: activation, priority pulls, and sampled pulls; never behind a bulk reply.
    Priority = 1,
}

impl Lane {
    /// Both lanes.
    pub const ALL: [Lane; 2] = [Lane::Bulk, Lane::Priority];

    /// The lane as an array index.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Why a peer refuses, as a number for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum RefusalCode {
    /// The node does not take part in this migration, or not yet, or no longer. A later retry may help.
    UnknownMigration = 1,
    /// The message belongs to another epoch of this migration's range. A retry cannot help.
    StaleScope = 2,
    /// The sender has no part in the migration.
    WrongNode = 3,
    /// The source has not frozen the range yet.
    NotFrozen = 4,
    /// The migration is over.
    Done = 5,
    /// The request names positions outside the migrating range, or a partition that does not exist.
    OutOfRange = 6,
    /// The records at one position are larger than a frame.
    TooLarge = 7,
}

impl RefusalCode {
    fn from_number(number: u16) -> Option<RefusalCode> {
        use RefusalCode::*;
        [UnknownMigration, StaleScope, WrongNode, NotFrozen, Done, OutOfRange, TooLarge]
            .into_iter()
            .find(|&code| code as u16 == number)
    }
}

/// First frame of the target on each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The migration.
    pub scope: Scope,
    /// The target.
    pub node: NodeId,
    /// What the connection is for.
    pub lane: Lane,
}

/// First and only frame of a connection over which a node forwards its clients' requests. Then follow
/// requests as clients write them, and in the other direction replies, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The forwarding node.
    pub node: NodeId,
    /// Whether the replies are to be in RESP3; else they are in RESP2.
    pub is_resp3: bool,
}

/// A message was refused; nothing was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal<'b> {
    /// The scope of the refused message.
    pub scope: Scope,
    /// Why, for programs.
    pub code: RefusalCode,
    /// Why, for people.
    pub text: &'b str,
}

/// Source to target: the range is frozen; the target may acknowledge (M3).
#[derive(Clone, Copy, Debug)]
pub struct Activate<'b> {
    /// The migration.
    pub scope: Scope,
    /// The highest version in the range, so that versions only grow.
    pub highest_version: Version,
    /// How many records the range holds at the source, so that the target can count what has not arrived.
    pub records: u64,
    /// The positions that have not changed since they were copied ahead: other copies are outdated (M30).
    pub unchanged: Positions<'b>,
    /// What transactions have at the range's keys, as a batch of records, if the target serves before all
    /// has arrived (M37).
    pub locks: &'b [u8],
}

/// Target to source: send a partition's records from a position on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The migration.
    pub scope: Scope,
    /// Which partition.
    pub partition: u8,
    /// Counts this partition's pulls; the reply repeats it, so that an outdated reply is recognised.
    pub sequence: u64,
    /// The positions to send: the rest of the partition.
    pub range: PositionRange,
    /// Stop at the first position boundary after this many bytes.
    pub max_bytes: u32,
    /// The piece in hand of the records at the range's first position.
    pub piece: Option<Piece>,
}

/// All records from `from` up to `next`, exclusive, or a piece of them.
#[derive(Clone, Copy, Debug)]
pub struct PullReply<'b> {
    /// The migration.
    pub scope: Scope,
    /// The pull's partition.
    pub partition: u8,
    /// The pull's sequence number.
    pub sequence: u64,
    /// The pull's first position.
    pub from: Position,
    /// The first position after the reply; `None` if the reply reaches the partition's end.
    pub next: Option<Position>,
    /// Which piece it is, if the records at `from` are larger than a reply; `next` follows `from`.
    pub piece: Option<Piece>,
    /// The records, laid out as in the log.
    pub batch: &'b [u8],
}

/// Target to source: send the records at these (hot) positions.
#[derive(Clone, Copy, Debug)]
pub struct SampPull<'b> {
    /// The migration.
    pub scope: Scope,
    /// Counts sampled pulls.
    pub sequence: u64,
    /// The positions.
    pub positions: Positions<'b>,
}

/// The records at the positions of a sampled pull, or at the first of them if all are too large.
#[derive(Clone, Copy, Debug)]
pub struct SampPullReply<'b> {
    /// The migration.
    pub scope: Scope,
    /// The pull's sequence number.
    pub sequence: u64,
    /// The records, laid out as in the log.
    pub batch: &'b [u8],
}

/// Target to source: send these keys immediately.
#[derive(Clone, Copy, Debug)]
pub struct PriorityPull<'b> {
    /// The migration.
    pub scope: Scope,
    /// Counts priority pulls.
    pub sequence: u64,
    /// The keys.
    pub keys: Keys<'b>,
    /// The piece in hand of the records at the only key's position.
    pub piece: Option<Piece>,
}

/// The answer for the first `answered` keys of a priority pull; the others must be asked for again. Or it
/// answers none, and is a piece of the records at the first key's position.
#[derive(Clone, Copy, Debug)]
pub struct PriorityPullReply<'b> {
    /// The migration.
    pub scope: Scope,
    /// The pull's sequence number.
    pub sequence: u64,
    /// How many of the request's keys are answered, from the first on.
    pub answered: usize,
    /// Which of them do not exist.
    pub absent: AbsentKeys,
    /// Which piece it is, if the records at the first key's position are larger than a reply.
    pub piece: Option<Piece>,
    /// The records of the others, laid out as in the log.
    pub batch: &'b [u8],
}

/// Target to source: send what has changed since it was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedPull {
    /// The migration.
    pub scope: Scope,
    /// Counts these pulls, from 1. One more than the last acknowledges that one's reply.
    pub sequence: u64,
    /// Stop at the first position boundary after this many bytes.
    pub max_bytes: u32,
    /// The piece in hand of the records at the only position in the last reply.
    pub piece: Option<Piece>,
}

/// All records in some of the changed ranges. Whatever the target holds in them beyond these is deleted at
/// the source.
#[derive(Clone, Copy, Debug)]
pub struct ChangedPullReply<'b> {
    /// The migration.
    pub scope: Scope,
    /// The pull's sequence number.
    pub sequence: u64,
    /// This reply's round of changes, from 1.
    pub round: u32,
    /// How many changes are still to be sent, to the source's knowledge.
    pub remaining: u64,
    /// Whether this was packed after the source's freeze took effect: nothing changes any more.
    pub is_frozen: bool,
    /// The ranges.
    pub ranges: ChangedRanges<'b>,
    /// Which piece it is, if the records at a position are larger than a reply: it is the only range.
    pub piece: Option<Piece>,
    /// All records in them, laid out as in the log, in the order of the ranges.
    pub batch: &'b [u8],
}

/// Target to source: at how many of these positions is there a record? The target has written there blindly.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'b> {
    /// The migration.
    pub scope: Scope,
    /// Counts probes.
    pub sequence: u64,
    /// The positions.
    pub positions: Positions<'b>,
}

/// The answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeReply {
    /// The migration.
    pub scope: Scope,
    /// The probe's sequence number.
    pub sequence: u64,
    /// The number of its positions with a record.
    pub found: u64,
}

/// A frame's content.
#[derive(Clone, Copy, Debug)]
pub enum Message<'b> {
    /// See [`Hello`].
    Hello(Hello),
    /// The source takes part; the connection is ready.
    HelloAck(Scope),
    /// See [`Refusal`].
    Refuse(Refusal<'b>),
    /// See [`Activate`].
    Activate(Activate<'b>),
    /// The target has received [`Activate`].
    Activated(Scope),
    /// See [`Pull`].
    Pull(Pull),
    /// See [`PullReply`].
    PullReply(PullReply<'b>),
    /// See [`SampPull`].
    SampPull(SampPull<'b>),
    /// See [`SampPullReply`].
    SampPullReply(SampPullReply<'b>),
    /// See [`PriorityPull`].
    PriorityPull(PriorityPull<'b>),
    /// See [`PriorityPullReply`].
    PriorityPullReply(PriorityPullReply<'b>),
    /// See [`ChangedPull`].
    ChangedPull(ChangedPull),
    /// See [`ChangedPullReply`].
    ChangedPullReply(ChangedPullReply<'b>),
    /// See [`CutPull`].
    CutPull(CutPull<'b>),
    /// See [`CutReply`].
    CutReply(CutReply<'b>),
    /// See [`HotHints`].
    HotHints(HotHints<'b>),
    /// See [`Probe`].
    Probe(Probe<'b>),
    /// See [`ProbeReply`].
    ProbeReply(ProbeReply),
    /// See [`Forward`].
    Forward(Forward),
    /// See [`CopyHello`].
    CopyHello(CopyHello),
    /// See [`ToBackup`].
    ToBackup(ToBackup<'b>),
    /// See [`ToWriter`].
    ToWriter(ToWriter<'b>),
    /// A message of the cluster, in JSON; opaque here.
    Control(&'b [u8]),
    /// Is the peer there?
    Ping(u64),
    /// Yes.
    Pong(u64),
}

impl<'b> Frame<'b> {
    /// Parses the body.
    pub fn message(self) -> Result<Message<'b>, WireError> {
        Message::parse(self)
    }
}

impl<'b> Message<'b> {
    /// Parses a frame's body. The result borrows from it.
    pub fn parse(frame: Frame<'b>) -> Result<Message<'b>, WireError> {
        let body = Body(frame);
        Ok(match frame.kind {
            Kind::Hello => Message::Hello(body.hello()?),
            Kind::HelloAck => Message::HelloAck(body.scope(body.whole()?)),
            Kind::Refuse => Message::Refuse(body.refusal()?),
            Kind::Activate => Message::Activate(body.activate()?),
            Kind::Activated => Message::Activated(body.scope(body.whole()?)),
            Kind::Pull => Message::Pull(body.pull()?),
            Kind::PullReply => Message::PullReply(body.pull_reply()?),
            Kind::SampPull => {
                let (fixed, rest) = body.split::<SampPullLayout>()?;
                let positions = Positions::parse(frame.kind.name(), rest)?;
                Message::SampPull(SampPull {
                    scope: body.scope(fixed.scope),
                    sequence: fixed.sequence.get(),
                    positions,
                })
            }
            Kind::SampPullReply => {
                let (fixed, batch) = body.split::<SampPullLayout>()?;
                let (scope, sequence) = (body.scope(fixed.scope), fixed.sequence.get());
                Message::SampPullReply(SampPullReply { scope, sequence, batch })
            }
            Kind::PriorityPull => Message::PriorityPull(body.priority_pull()?),
            Kind::PriorityPullReply => Message::PriorityPullReply(body.priority_pull_reply()?),
            Kind::ChangedPull => {
                let (fixed, piece) = body.whole_pull::<ChangedPullLayout>()?;
                let (scope, sequence) = (body.scope(fixed.scope), fixed.sequence.get());
                Message::ChangedPull(ChangedPull { scope, sequence, max_bytes: fixed.max_bytes.get(), piece })
            }
            Kind::ChangedPullReply => Message::ChangedPullReply(body.changed_pull_reply()?),
            Kind::CutPull => Message::CutPull(body.cut_pull()?),
            Kind::CutReply => Message::CutReply(body.cut_reply()?),
            Kind::HotHints => Message::HotHints(body.hot_hints()?),
            Kind::Probe => {
                let (fixed, rest) = body.split::<SampPullLayout>()?;
                let (scope, sequence) = (body.scope(fixed.scope), fixed.sequence.get());
                Message::Probe(Probe {
                    scope,
                    sequence,
                    positions: Positions::parse(frame.kind.name(), rest)?,
                })
            }
            Kind::ProbeReply => {
                let fixed = body.whole::<ProbeReplyLayout>()?;
                let (scope, sequence) = (body.scope(fixed.scope), fixed.sequence.get());
                Message::ProbeReply(ProbeReply { scope, sequence, found: fixed.found.get() })
            }
            Kind::Forward => Message::Forward(body.forward()?),
            Kind::CopyHello => Message::CopyHello(body.copy_hello()?),
            Kind::CopyTask => Message::ToBackup(body.copy_task()?),
            Kind::CopyAnswer => Message::ToWriter(body.copy_answer()?),
            Kind::CopyBytes => Message::ToWriter(body.copy_bytes()?),
            Kind::Control => Message::Control(frame.body),
            Kind::Ping => Message::Ping(body.whole::<PingLayout>()?.nonce.get()),
            Kind::Pong => Message::Pong(body.whole::<PingLayout>()?.nonce.get()),
        })
    }

    /// The message's migration, if it has one.
    pub fn scope(&self) -> Option<Scope> {
        match *self {
            Message::Hello(Hello { scope, .. })
            | Message::HelloAck(scope)
            | Message::Refuse(Refusal { scope, .. })
            | Message::Activate(Activate { scope, .. })
            | Message::Activated(scope)
            | Message::Pull(Pull { scope, .. })
            | Message::PullReply(PullReply { scope, .. })
            | Message::SampPull(SampPull { scope, .. })
            | Message::SampPullReply(SampPullReply { scope, .. })
            | Message::PriorityPull(PriorityPull { scope, .. })
            | Message::PriorityPullReply(PriorityPullReply { scope, .. })
            | Message::ChangedPull(ChangedPull { scope, .. })
            | Message::ChangedPullReply(ChangedPullReply { scope, .. })
            | Message::CutPull(CutPull { scope, .. })
            | Message::CutReply(CutReply { scope, .. })
            | Message::HotHints(HotHints { scope, .. })
            | Message::Probe(Probe { scope, .. })
            | Message::ProbeReply(ProbeReply { scope, .. }) => Some(scope),
            Message::Forward(_)
            | Message::CopyHello(_)
            | Message::ToBackup(_)
            | Message::ToWriter(_)
            | Message::Control(_)
            | Message::Ping(_)
            | Message::Pong(_) => None,
        }
    }
}

/// A body to parse.
pub(crate) struct Body<'b>(Frame<'b>);

impl<'b> Body<'b> {
    pub(crate) fn malformed(&self, reason: &'static str) -> WireError {
        WireError::Malformed { kind: self.0.kind.name(), reason }
    }

    pub(crate) fn checked<T>(&self, read: Result<T, &'static str>) -> Result<T, WireError> {
        read.map_err(|reason| self.malformed(reason))
    }

    pub(crate) fn split<T: FromBytes + KnownLayout + Immutable + Unaligned>(
        &self,
    ) -> Result<(&'b T, &'b [u8]), WireError> {
        T::ref_from_prefix(self.0.body).map_err(|_| self.malformed("shorter than its fixed part"))
    }

    pub(crate) fn whole<T: FromBytes + KnownLayout + Immutable + Unaligned + Copy>(
        &self,
    ) -> Result<T, WireError> {
        let (fixed, rest) = self.split::<T>()?;
        self.end(rest).map(|()| *fixed)
    }

    fn activate(&self) -> Result<Activate<'b>, WireError> {
        let (fixed, rest) = self.split::<ActivateLayout>()?;
        let has_locks = fixed.records.get() & HAS_LOCKS != 0;
        if !self.0.version.has_hot_copies() {
            self.end(rest)?;
        }
        if has_locks && !self.0.version.has_transactions() {
            return Err(self.malformed("locks in a version without transactions"));
        }
        let (unchanged, locks) = match has_locks {
            false => (rest, &[][..]),
            true => {
                let (count, rest) =
                    rest.split_first_chunk().ok_or_else(|| self.malformed("shorter than its fixed part"))?;
                let bytes = usize::try_from(u64::from_le_bytes(*count)).ok();
                let bytes = bytes.and_then(|count| count.checked_mul(size_of::<u64>()));
                let split = bytes.and_then(|bytes| rest.split_at_checked(bytes));
                split.ok_or_else(|| self.malformed("a position is cut short"))?
            }
        };
        Ok(Activate {
            scope: self.scope(fixed.scope),
            highest_version: self.version(fixed.highest_version.get())?,
            records: fixed.records.get() & !HAS_LOCKS,
            unchanged: Positions::parse_few(self.0.kind.name(), unchanged, HOT_HINTS_MAX)?,
            locks,
        })
    }

    /// The fixed part, the piece after it (none in a version without pieces), and the rest.
    pub(crate) fn split_piece<T: FromBytes + KnownLayout + Immutable + Unaligned>(
        &self,
    ) -> Result<(&'b T, PieceLayout, &'b [u8]), WireError> {
        let (fixed, rest) = self.split::<T>()?;
        if !self.0.version.has_pieces() {
            return Ok((fixed, PieceLayout::default(), rest));
        }
        let split = PieceLayout::read_from_prefix(rest);
        let (piece, rest) = split.map_err(|_| self.malformed("shorter than its fixed part"))?;
        Ok((fixed, piece, rest))
    }

    /// The fixed part of a pull, and the piece in hand; nothing follows.
    fn whole_pull<T: FromBytes + KnownLayout + Immutable + Unaligned>(
        &self,
    ) -> Result<(&'b T, Option<Piece>), WireError> {
        let (fixed, piece, rest) = self.split_piece::<T>()?;
        self.end(rest)?;
        Ok((fixed, self.checked(Piece::in_pull(&piece))?))
    }

    pub(crate) fn end(&self, rest: &[u8]) -> Result<(), WireError> {
        if rest.is_empty() { Ok(()) } else { Err(self.malformed("longer than its fixed part")) }
    }

    /// A version after which others may still come.
    pub(crate) fn version(&self, version: u64) -> Result<Version, WireError> {
        let version = Version(version);
        let leaves_room = version <= Version::FROM_PEER_MAX;
        leaves_room.then_some(version).ok_or_else(|| self.malformed("the version leaves no room for others"))
    }

    pub(crate) fn scope(&self, layout: ScopeLayout) -> Scope {
        let ScopeLayout { migration, epoch } = layout;
        let (migration, epoch) = (MigrationId(migration.get()), TabletEpoch(epoch.get()));
        Scope { migration, epoch, version: self.0.version }
    }

    fn hello(&self) -> Result<Hello, WireError> {
        let fixed = self.whole::<HelloLayout>()?;
        let lane = Lane::ALL.into_iter().find(|&lane| lane as u8 == fixed.lane);
        let lane = lane.ok_or_else(|| self.malformed("unknown lane"))?;
        Ok(Hello { scope: self.scope(fixed.scope), node: NodeId::from_bytes(fixed.node), lane })
    }

    fn forward(&self) -> Result<Forward, WireError> {
        let fixed = self.whole::<ForwardLayout>()?;
        let is_resp3 = match fixed.clients_version {
            2 => false,
            3 => true,
            _ => return Err(self.malformed("unknown version of the clients' protocol")),
        };
        Ok(Forward { node: NodeId::from_bytes(fixed.node), is_resp3 })
    }

    fn refusal(&self) -> Result<Refusal<'b>, WireError> {
        let (fixed, text) = self.split::<RefuseLayout>()?;
        let code = RefusalCode::from_number(fixed.code.get());
        let code = code.ok_or_else(|| self.malformed("unknown refusal code"))?;
        if text.len() > REFUSAL_TEXT_BYTES_MAX {
            return Err(self.malformed("the text is too long"));
        }
        let text = std::str::from_utf8(text).map_err(|_| self.malformed("the text is not UTF-8"))?;
        Ok(Refusal { scope: self.scope(fixed.scope), code, text })
    }

    fn pull(&self) -> Result<Pull, WireError> {
        let (fixed, piece) = self.whole_pull::<PullLayout>()?;
        let range = PositionRange::new(Position(fixed.from.get()), Position(fixed.last.get()));
        let range = range.ok_or_else(|| self.malformed("the range ends before it starts"))?;
        if piece.is_some_and(|piece| piece.position != range.first()) {
            return Err(self.malformed("a piece of another position"));
        }
        Ok(Pull {
            scope: self.scope(fixed.scope),
            partition: fixed.partition,
            sequence: fixed.sequence.get(),
            range,
            max_bytes: fixed.max_bytes.get(),
            piece,
        })
    }

    fn pull_reply(&self) -> Result<PullReply<'b>, WireError> {
        let (fixed, piece, batch) = self.split_piece::<PullReplyLayout>()?;
        let from = Position(fixed.from.get());
        let next = match fixed.more {
            0 => None,
            1 if fixed.next.get() > from.0 => Some(Position(fixed.next.get())),
            1 => return Err(self.malformed("the cursor did not move")),
            _ => return Err(self.malformed("neither more nor the end")),
        };
        let piece = self.checked(Piece::in_reply(&piece, batch.len()))?;
        if piece
            .is_some_and(|piece| piece.position != from || next.is_some_and(|next| Some(next) != from.next()))
        {
            return Err(self.malformed("a piece of another position"));
        }
        let (scope, partition, sequence) = (self.scope(fixed.scope), fixed.partition, fixed.sequence.get());
        Ok(PullReply { scope, partition, sequence, from, next, piece, batch })
    }

    fn priority_pull(&self) -> Result<PriorityPull<'b>, WireError> {
        let (fixed, piece, keys) = self.split_piece::<PriorityPullLayout>()?;
        let keys = Keys::parse(fixed.count.get(), keys)?;
        let piece = self.checked(Piece::in_pull(&piece))?;
        if piece.is_some() && keys.len() != 1 {
            return Err(self.malformed("a piece, and not one key"));
        }
        Ok(PriorityPull { scope: self.scope(fixed.scope), sequence: fixed.sequence.get(), keys, piece })
    }

    fn priority_pull_reply(&self) -> Result<PriorityPullReply<'b>, WireError> {
        let (fixed, piece, batch) = self.split_piece::<PriorityPullReplyLayout>()?;
        let answered = fixed.answered.get() as usize;
        if answered > crate::limits::PRIORITY_PULL_KEYS_MAX {
            return Err(self.malformed("more keys answered than can be asked for"));
        }
        if u64::from(fixed.absent.get()) >> answered != 0 {
            return Err(self.malformed("a key is absent that is not answered"));
        }
        let piece = self.checked(Piece::in_reply(&piece, batch.len()))?;
        if piece.is_some() && answered != 0 {
            return Err(self.malformed("a piece, and an answer"));
        }
        let (scope, sequence) = (self.scope(fixed.scope), fixed.sequence.get());
        let absent = AbsentKeys::from_bits(fixed.absent.get());
        Ok(PriorityPullReply { scope, sequence, answered, absent, piece, batch })
    }

    fn changed_pull_reply(&self) -> Result<ChangedPullReply<'b>, WireError> {
        let (fixed, piece, rest) = self.split_piece::<ChangedPullReplyLayout>()?;
        let (ranges, batch) = ChangedRanges::parse(self.0.kind.name(), fixed.count.get(), rest)?;
        let is_frozen = match fixed.is_frozen {
            0 => false,
            1 => true,
            _ => return Err(self.malformed("neither frozen nor not")),
        };
        let piece = self.checked(Piece::in_reply(&piece, batch.len()))?;
        if piece.is_some_and(|piece| !ranges.iter().eq([PositionRange::only(piece.position)])) {
            return Err(self.malformed("a piece of another position"));
        }
        Ok(ChangedPullReply {
            scope: self.scope(fixed.scope),
            sequence: fixed.sequence.get(),
            round: fixed.round.get(),
            remaining: fixed.remaining.get(),
            is_frozen,
            ranges,
            piece,
            batch,
        })
    }
}
