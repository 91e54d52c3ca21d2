//! Writing messages: small ones in one step, replies with records around a batch that is packed in place.

use crate::Message;
use crate::layout::{
    ActivateLayout, ChangedPullLayout, ChangedPullReplyLayout, ChangedRangeLayout, ForwardLayout, HAS_LOCKS,
    HelloLayout, PieceLayout, PingLayout, PriorityPullLayout, PriorityPullReplyLayout, ProbeReplyLayout,
    PullLayout, PullReplyLayout, RefuseLayout, SampPullLayout, ScopeLayout,
};
use crate::limits::{CHANGED_RANGES_MAX, HOT_HINTS_MAX, PRIORITY_PULL_KEYS_MAX, REFUSAL_TEXT_BYTES_MAX};
use crate::{
    AbsentKeys, Activate, CONTROL_VERSION, ChangedPull, Forward, FrameStart, Hello, Keys, Kind, Piece,
    Positions, PriorityPull, Probe, ProbeReply, Pull, Refusal, RefusalCode, SampPull, Scope, WireError,
    begin_frame, end_frame,
};
use sidle_types::{Position, PositionRange, ProtocolVersion, Version};
use zerocopy::{Immutable, IntoBytes};

impl From<Scope> for ScopeLayout {
    fn from(scope: Scope) -> ScopeLayout {
        ScopeLayout { migration: scope.migration.0.into(), epoch: scope.epoch.0.into() }
    }
}

/// Writes a frame with a fixed body, which always fits.
fn write_fixed(
    out: &mut Vec<u8>,
    version: ProtocolVersion,
    kind: Kind,
    fixed: &(impl IntoBytes + Immutable),
) {
    write_pull(out, version, kind, fixed, &[]);
}

/// As [`write_fixed`], with the piece in hand after the fixed part.
fn write_pull(
    out: &mut Vec<u8>,
    version: ProtocolVersion,
    kind: Kind,
    fixed: &(impl IntoBytes + Immutable),
    in_hand: &[PieceLayout],
) {
    let start = begin_frame(out, version, kind);
    out.extend_from_slice(fixed.as_bytes());
    out.extend_from_slice(in_hand.as_bytes());
    end_frame(out, start).expect("a fixed body is far below the limit");
}

impl Hello {
    /// Appends the message as a frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let node = *self.node.as_bytes();
        let fixed = HelloLayout { scope: self.scope.into(), node, lane: self.lane as u8, zero: [0; 3] };
        write_fixed(out, self.scope.version, Kind::Hello, &fixed);
    }
}

impl Forward {
    /// Appends the message as a frame, in a version that its receiver speaks.
    pub fn write(&self, version: ProtocolVersion, out: &mut Vec<u8>) {
        let (node, clients_version) = (*self.node.as_bytes(), if self.is_resp3 { 3 } else { 2 });
        write_fixed(out, version, Kind::Forward, &ForwardLayout { node, clients_version, zero: [0; 3] });
    }
}

impl Activate<'_> {
    /// Appends the message as a frame; see the fields. `unchanged`: at most [`HOT_HINTS_MAX`]. In a version
    /// without copies of hot positions there are none, nor locks in one without transactions.
    ///
    /// # Errors
    /// The locks do not fit into a frame.
    pub fn write(
        scope: Scope,
        highest_version: Version,
        records: u64,
        unchanged: &[Position],
        locks: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        assert!(unchanged.is_empty() || scope.version.has_hot_copies(), "nothing was copied ahead");
        assert!(records < HAS_LOCKS, "{records} records");
        assert!(locks.is_empty() || scope.version.has_transactions(), "there are no transactions");
        assert!(unchanged.len() <= HOT_HINTS_MAX, "{} unchanged positions", unchanged.len());
        let start = begin_frame(out, scope.version, Kind::Activate);
        let fixed = ActivateLayout {
            scope: scope.into(),
            highest_version: highest_version.0.into(),
            records: (records | if locks.is_empty() { 0 } else { HAS_LOCKS }).into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        if !locks.is_empty() {
            out.extend_from_slice(&(unchanged.len() as u64).to_le_bytes());
        }
        Positions::write(unchanged, out);
        out.extend_from_slice(locks);
        end_frame(out, start)
    }
}

impl Scope {
    /// Appends [`Message::HelloAck`] as a frame.
    pub fn write_hello_ack(self, out: &mut Vec<u8>) {
        write_fixed(out, self.version, Kind::HelloAck, &ScopeLayout::from(self));
    }

    /// Appends [`Message::Activated`] as a frame.
    pub fn write_activated(self, out: &mut Vec<u8>) {
        write_fixed(out, self.version, Kind::Activated, &ScopeLayout::from(self));
    }
}

impl Refusal<'_> {
    /// Appends a refusal as a frame; a text over the limit is cut.
    pub fn write(scope: Scope, code: RefusalCode, text: &str, out: &mut Vec<u8>) {
        let start = begin_frame(out, scope.version, Kind::Refuse);
        let fixed = RefuseLayout { scope: scope.into(), code: (code as u16).into(), zero: [0; 6] };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(&text.as_bytes()[..text.floor_char_boundary(REFUSAL_TEXT_BYTES_MAX)]);
        end_frame(out, start).expect("a refusal is far below the limit");
    }
}

impl Pull {
    /// Appends the message as a frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let fixed = PullLayout {
            scope: self.scope.into(),
            sequence: self.sequence.into(),
            from: self.range.first().0.into(),
            last: self.range.last().0.into(),
            max_bytes: self.max_bytes.into(),
            partition: self.partition,
            zero: [0; 3],
        };
        let version = self.scope.version;
        write_pull(out, version, Kind::Pull, &fixed, Piece::layout(self.piece, version).as_slice());
    }
}

impl SampPull<'_> {
    /// Appends a sampled pull of `positions` (at most
    /// [`SAMP_PULL_POSITIONS_MAX`](crate::limits::SAMP_PULL_POSITIONS_MAX)) as a frame.
    pub fn write(scope: Scope, sequence: u64, positions: &[Position], out: &mut Vec<u8>) {
        write_positions(Kind::SampPull, scope, sequence, positions, out);
    }
}

impl Probe<'_> {
    /// Appends a probe of `positions` (at most
    /// [`SAMP_PULL_POSITIONS_MAX`](crate::limits::SAMP_PULL_POSITIONS_MAX)) as a frame.
    pub fn write(scope: Scope, sequence: u64, positions: &[Position], out: &mut Vec<u8>) {
        write_positions(Kind::Probe, scope, sequence, positions, out);
    }
}

fn write_positions(kind: Kind, scope: Scope, sequence: u64, positions: &[Position], out: &mut Vec<u8>) {
    let start = begin_frame(out, scope.version, kind);
    out.extend_from_slice(SampPullLayout { scope: scope.into(), sequence: sequence.into() }.as_bytes());
    Positions::write(positions, out);
    end_frame(out, start).expect("a bounded number of positions is far below the limit");
}

impl ProbeReply {
    /// Appends the message as a frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let fixed = ProbeReplyLayout {
            scope: self.scope.into(),
            sequence: self.sequence.into(),
            found: self.found.into(),
        };
        write_fixed(out, self.scope.version, Kind::ProbeReply, &fixed);
    }
}

impl PriorityPull<'_> {
    /// Appends a priority pull of `keys` (at most [`PRIORITY_PULL_KEYS_MAX`]; only one if a `piece` of the
    /// records at its position is in hand) as a frame.
    pub fn write<'k>(
        scope: Scope,
        sequence: u64,
        keys: impl ExactSizeIterator<Item = &'k [u8]>,
        piece: Option<Piece>,
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        assert!(keys.len() <= PRIORITY_PULL_KEYS_MAX, "a priority pull of {} keys", keys.len());
        let start = begin_frame(out, scope.version, Kind::PriorityPull);
        let count = (keys.len() as u32).into();
        let piece = Piece::layout(piece, scope.version);
        let fixed =
            PriorityPullLayout { scope: scope.into(), sequence: sequence.into(), count, zero: [0; 4] };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(piece.as_slice().as_bytes());
        keys.for_each(|key| Keys::write(key, out));
        end_frame(out, start)
    }
}

/// Starts a reply: its fixed part, and room for a piece if the version has them.
fn begin_reply(
    out: &mut Vec<u8>,
    version: ProtocolVersion,
    kind: Kind,
    fixed: &(impl IntoBytes + Immutable),
) -> FrameStart {
    let start = begin_frame(out, version, kind);
    out.extend_from_slice(fixed.as_bytes());
    out.extend_from_slice(Piece::layout(None, version).as_slice().as_bytes());
    start
}

/// Overwrites the fixed part of a body whose tail has been packed meanwhile, and ends the frame. Removes the
/// frame from `out` if it, or the whole that the piece belongs to, is too large.
fn finish(
    out: &mut Vec<u8>,
    start: FrameStart,
    fixed: &(impl IntoBytes + Immutable),
    piece: Option<Piece>,
) -> Result<(), WireError> {
    Piece::check(piece).inspect_err(|_| out.truncate(start.at))?;
    let (fixed, piece) = (fixed.as_bytes(), Piece::layout(piece, start.version()));
    let (head, piece) = (&mut out[start.body()..], piece.as_slice().as_bytes());
    head[..fixed.len()].copy_from_slice(fixed);
    head[fixed.len()..fixed.len() + piece.len()].copy_from_slice(piece);
    end_frame(out, start)
}

/// A reply to a pull whose records are being packed.
///
/// Call order: [`begin`](Self::begin), append records to `out`, [`finish`](Self::finish).
#[derive(Debug)]
#[must_use = "the frame is not complete before `finish`"]
pub struct PullReplyStart {
    start: FrameStart,
    fixed: PullReplyLayout,
}

impl PullReplyStart {
    /// Starts the reply to `pull` at the end of `out`.
    pub fn begin(pull: &Pull, out: &mut Vec<u8>) -> PullReplyStart {
        let fixed = PullReplyLayout {
            scope: pull.scope.into(),
            sequence: pull.sequence.into(),
            from: pull.range.first().0.into(),
            partition: pull.partition,
            ..PullReplyLayout::default()
        };
        let start = begin_reply(out, pull.scope.version, Kind::PullReply, &fixed);
        PullReplyStart { start, fixed }
    }

    /// Ends the reply: its records, or a piece of them, are everything appended since [`begin`](Self::begin).
    pub fn finish(
        self,
        next: Option<Position>,
        piece: Option<Piece>,
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let PullReplyStart { start, mut fixed } = self;
        fixed.next = next.map_or(0, |next| next.0).into();
        fixed.more = next.is_some().into();
        finish(out, start, &fixed, piece)
    }
}

/// A reply to a sampled pull whose records are being packed; used as [`PullReplyStart`].
#[derive(Debug)]
#[must_use = "the frame is not complete before `finish`"]
pub struct SampPullReplyStart(FrameStart);

impl SampPullReplyStart {
    /// Starts the reply at the end of `out`.
    pub fn begin(scope: Scope, sequence: u64, out: &mut Vec<u8>) -> SampPullReplyStart {
        let start = begin_frame(out, scope.version, Kind::SampPullReply);
        out.extend_from_slice(SampPullLayout { scope: scope.into(), sequence: sequence.into() }.as_bytes());
        SampPullReplyStart(start)
    }

    /// Ends the reply: its records are everything appended since [`begin`](Self::begin).
    pub fn finish(self, out: &mut Vec<u8>) -> Result<(), WireError> {
        end_frame(out, self.0)
    }
}

/// A reply to a priority pull whose records are being packed; used as [`PullReplyStart`].
#[derive(Debug)]
#[must_use = "the frame is not complete before `finish`"]
pub struct PriorityPullReplyStart {
    start: FrameStart,
    fixed: PriorityPullReplyLayout,
}

impl PriorityPullReplyStart {
    /// Starts the reply at the end of `out`.
    pub fn begin(scope: Scope, sequence: u64, out: &mut Vec<u8>) -> PriorityPullReplyStart {
        let fixed = PriorityPullReplyLayout {
            scope: scope.into(),
            sequence: sequence.into(),
            ..PriorityPullReplyLayout::default()
        };
        let start = begin_reply(out, scope.version, Kind::PriorityPullReply, &fixed);
        PriorityPullReplyStart { start, fixed }
    }

    /// Ends the reply: the first `answered` keys are answered, `absent` of them do not exist, and everything
    /// appended since [`begin`](Self::begin) are the others' records. Or none is answered, and it is a piece
    /// of the records at the first key's position.
    pub fn finish(
        self,
        answered: usize,
        absent: AbsentKeys,
        piece: Option<Piece>,
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        assert!(answered <= PRIORITY_PULL_KEYS_MAX, "an answer to {answered} keys");
        let PriorityPullReplyStart { start, mut fixed } = self;
        fixed.answered = (answered as u32).into();
        fixed.absent = absent.bits().into();
        finish(out, start, &fixed, piece)
    }
}

/// The state of the rounds of changes, in a reply to a pull of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundState {
    /// As [`ChangedPullReply::round`](crate::ChangedPullReply::round).
    pub number: u32,
    /// As [`ChangedPullReply::remaining`](crate::ChangedPullReply::remaining).
    pub remaining: u64,
    /// As [`ChangedPullReply::is_frozen`](crate::ChangedPullReply::is_frozen).
    pub is_frozen: bool,
}

impl ChangedPull {
    /// Appends the message as a frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let fixed = ChangedPullLayout {
            scope: self.scope.into(),
            sequence: self.sequence.into(),
            max_bytes: self.max_bytes.into(),
            zero: [0; 4],
        };
        let version = self.scope.version;
        write_pull(out, version, Kind::ChangedPull, &fixed, Piece::layout(self.piece, version).as_slice());
    }

    /// Appends the reply to this pull as a frame: `ranges` (at most [`CHANGED_RANGES_MAX`], in order, apart)
    /// and their records, packed beforehand, or a `piece` of the records in the only one.
    pub fn write_reply(
        &self,
        round: RoundState,
        ranges: &[PositionRange],
        piece: Option<Piece>,
        batch: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        assert!(ranges.len() <= CHANGED_RANGES_MAX, "a reply of {} ranges", ranges.len());
        Piece::check(piece)?;
        let start = begin_frame(out, self.scope.version, Kind::ChangedPullReply);
        let fixed = ChangedPullReplyLayout {
            scope: self.scope.into(),
            sequence: self.sequence.into(),
            remaining: round.remaining.into(),
            round: round.number.into(),
            count: (ranges.len() as u32).into(),
            is_frozen: round.is_frozen.into(),
            zero: [0; 7],
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(Piece::layout(piece, self.scope.version).as_slice().as_bytes());
        ChangedRangeLayout::write(ranges, out);
        out.extend_from_slice(batch);
        end_frame(out, start)
    }
}

impl Message<'_> {
    /// Appends [`Message::Control`] as a frame around `json`.
    pub fn write_control(json: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
        let start = begin_frame(out, CONTROL_VERSION, Kind::Control);
        out.extend_from_slice(json);
        end_frame(out, start)
    }

    /// Appends [`Message::Ping`] as a frame.
    pub fn write_ping(version: ProtocolVersion, nonce: u64, out: &mut Vec<u8>) {
        write_fixed(out, version, Kind::Ping, &PingLayout { nonce: nonce.into() });
    }

    /// Appends [`Message::Pong`] as a frame.
    pub fn write_pong(version: ProtocolVersion, nonce: u64, out: &mut Vec<u8>) {
        write_fixed(out, version, Kind::Pong, &PingLayout { nonce: nonce.into() });
    }
}
