//! One frame: header layout, checksum, and writing a frame around a body that is packed in place.

use crate::WireError;
use crate::limits::{BODY_BYTES_MAX, FROM_NODE_BODY_BYTES_MAX, REQUEST_BODY_BYTES_MAX};
use sidle_types::{ProtocolVersion, Speaks};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The version of control frames, whatever else a node speaks. Nodes and the coordinator report their
/// versions in them, so every program must be able to read them. The header and this kind of frame never
/// change; their content evolves as JSON does.
pub const CONTROL_VERSION: ProtocolVersion = ProtocolVersion(3);

/// The header's length.
pub const HEADER_BYTES: usize = size_of::<Header>();

/// The header before every body.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Header {
    /// Bytes of the body, the header not counted.
    length: U32,
    /// Of the body. The header is the same in every version.
    version: u8,
    kind: u8,
    /// None are defined; must be zero.
    flags: U16,
    /// CRC32C of the header, this field zero, and the body.
    checksum: U32,
    /// Zero; keeps the body 8-byte aligned within the stream.
    reserved: U32,
}

/// A frame's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is documented at the `Message` of its name")]
pub enum Kind {
    Hello = 1,
    HelloAck = 2,
    Refuse = 3,
    Activate = 4,
    Activated = 5,
    Pull = 6,
    PullReply = 7,
    SampPull = 8,
    SampPullReply = 9,
    PriorityPull = 10,
    PriorityPullReply = 11,
    Control = 12,
    Ping = 13,
    Pong = 14,
    ChangedPull = 15,
    ChangedPullReply = 16,
    Probe = 17,
    ProbeReply = 18,
    Forward = 19,
    CutPull = 20,
    CutReply = 21,
    HotHints = 22,
    CopyHello = 23,
    CopyTask = 24,
    CopyAnswer = 25,
    CopyBytes = 26,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 26] = [
        Kind::Hello,
        Kind::HelloAck,
        Kind::Refuse,
        Kind::Activate,
        Kind::Activated,
        Kind::Pull,
        Kind::PullReply,
        Kind::SampPull,
        Kind::SampPullReply,
        Kind::PriorityPull,
        Kind::PriorityPullReply,
        Kind::Control,
        Kind::Ping,
        Kind::Pong,
        Kind::ChangedPull,
        Kind::ChangedPullReply,
        Kind::Probe,
        Kind::ProbeReply,
        Kind::Forward,
        Kind::CutPull,
        Kind::CutReply,
        Kind::HotHints,
        Kind::CopyHello,
        Kind::CopyTask,
        Kind::CopyAnswer,
        Kind::CopyBytes,
    ];

    fn from_byte(byte: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|&kind| kind as u8 == byte)
    }

    /// The kind's name, for logs and errors.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Hello => "Hello",
            Kind::HelloAck => "HelloAck",
            Kind::Refuse => "Refuse",
            Kind::Activate => "Activate",
            Kind::Activated => "Activated",
            Kind::Pull => "Pull",
            Kind::PullReply => "PullReply",
            Kind::SampPull => "SampPull",
            Kind::SampPullReply => "SampPullReply",
            Kind::PriorityPull => "PriorityPull",
            Kind::PriorityPullReply => "PriorityPullReply",
            Kind::Control => "Control",
            Kind::Ping => "Ping",
            Kind::Pong => "Pong",
            Kind::ChangedPull => "ChangedPull",
            Kind::ChangedPullReply => "ChangedPullReply",
            Kind::Probe => "Probe",
            Kind::ProbeReply => "ProbeReply",
            Kind::Forward => "Forward",
            Kind::CutPull => "CutPull",
            Kind::CutReply => "CutReply",
            Kind::HotHints => "HotHints",
            Kind::CopyHello => "CopyHello",
            Kind::CopyTask => "CopyTask",
            Kind::CopyAnswer => "CopyAnswer",
            Kind::CopyBytes => "CopyBytes",
        }
    }

    /// The version of a frame of this kind on a connection in version `spoken`.
    pub fn version(self, spoken: ProtocolVersion) -> ProtocolVersion {
        if self == Kind::Control { CONTROL_VERSION } else { spoken }
    }

    /// The largest body of this kind: only frames with keys or records may be large.
    pub const fn body_limit(self) -> usize {
        match self {
            Kind::PullReply
            | Kind::SampPullReply
            | Kind::PriorityPull
            | Kind::PriorityPullReply
            | Kind::ChangedPullReply
            | Kind::CutReply => BODY_BYTES_MAX,
            _ => REQUEST_BODY_BYTES_MAX,
        }
    }
}

/// Which frames belong on a connection, and their longest bodies, each within its kind's own limit.
#[derive(Clone, Copy, Debug)]
pub struct FrameFilter {
    kinds: &'static [Kind],
    body_bytes_max: usize,
}

impl FrameFilter {
    /// Every frame.
    pub const ANY: FrameFilter = FrameFilter { kinds: &Kind::ALL, body_bytes_max: BODY_BYTES_MAX };
    /// The first frame of a connection that another node opened. After `Forward` there are no frames.
    pub const OPENING: FrameFilter = FrameFilter {
        kinds: &[Kind::Hello, Kind::Control, Kind::Forward, Kind::CopyHello],
        body_bytes_max: FROM_NODE_BODY_BYTES_MAX,
    };
    /// No frame.
    pub const NONE: FrameFilter = FrameFilter { kinds: &[], body_bytes_max: 0 };
    /// Frames from a node to the coordinator.
    pub const FROM_NODE: FrameFilter =
        FrameFilter { kinds: &[Kind::Control], body_bytes_max: FROM_NODE_BODY_BYTES_MAX };
    /// Frames from the coordinator to a node.
    pub const FROM_COORDINATOR: FrameFilter =
        FrameFilter { kinds: &[Kind::Control], body_bytes_max: REQUEST_BODY_BYTES_MAX };
    /// Frames from a migration's target to its source.
    pub const FROM_TARGET: FrameFilter = FrameFilter {
        kinds: &[
            Kind::Hello,
            Kind::Activated,
            Kind::Pull,
            Kind::SampPull,
            Kind::PriorityPull,
            Kind::ChangedPull,
            Kind::CutPull,
            Kind::Probe,
            Kind::Refuse,
            Kind::Ping,
            Kind::Pong,
        ],
        body_bytes_max: BODY_BYTES_MAX,
    };
    /// Frames from a migration's source to its target.
    pub const FROM_SOURCE: FrameFilter = FrameFilter {
        kinds: &[
            Kind::HelloAck,
            Kind::Refuse,
            Kind::Activate,
            Kind::PullReply,
            Kind::SampPullReply,
            Kind::PriorityPullReply,
            Kind::ChangedPullReply,
            Kind::CutReply,
            Kind::HotHints,
            Kind::ProbeReply,
            Kind::Ping,
            Kind::Pong,
        ],
        body_bytes_max: BODY_BYTES_MAX,
    };
}

impl FrameFilter {
    /// Frames from a log's writer to a backup.
    pub const FROM_WRITER: FrameFilter =
        FrameFilter { kinds: &[Kind::CopyTask], body_bytes_max: REQUEST_BODY_BYTES_MAX };
    /// Frames from a backup to a log's writer.
    pub const FROM_BACKUP: FrameFilter =
        FrameFilter { kinds: &[Kind::CopyAnswer, Kind::CopyBytes], body_bytes_max: REQUEST_BODY_BYTES_MAX };
}

impl Default for FrameFilter {
    fn default() -> FrameFilter {
        FrameFilter::ANY
    }
}

/// A frame whose header and checksum are right; its body is still to be parsed.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'b> {
    /// The version of the frame.
    pub version: ProtocolVersion,
    /// The body's kind.
    pub kind: Kind,
    /// The body, where it was received.
    pub body: &'b [u8],
}

/// What a complete header announces.
pub(crate) struct Announced {
    header: Header,
    version: ProtocolVersion,
    kind: Kind,
    body_bytes: usize,
}

impl Announced {
    /// Reads the header at the front of `bytes`, in a version that `speaks` includes; `None` if it is
    /// incomplete.
    pub(crate) fn read(bytes: &[u8], speaks: Speaks) -> Result<Option<Announced>, WireError> {
        let Ok((header, _)) = Header::read_from_prefix(bytes) else { return Ok(None) };
        let version = ProtocolVersion(header.version.into());
        let is_control = header.kind == Kind::Control as u8;
        let known = if is_control { Speaks::only(CONTROL_VERSION) } else { speaks };
        if !known.includes(version) {
            return Err(WireError::UnknownVersion { found: version, known });
        }
        let kind = Kind::from_byte(header.kind).ok_or(WireError::UnknownKind(header.kind))?;
        let body_bytes = header.length.get() as usize;
        if body_bytes > kind.body_limit() {
            return Err(WireError::Oversized { bytes: body_bytes, limit: kind.body_limit() });
        }
        if header.flags.get() != 0 || header.reserved.get() != 0 {
            return Err(WireError::Malformed {
                kind: kind.name(),
                reason: "reserved header fields are not zero",
            });
        }
        Ok(Some(Announced { header, version, kind, body_bytes }))
    }

    /// Refuses what does not belong on the connection, before any of the body arrives.
    pub(crate) fn checked_by(self, filter: &FrameFilter) -> Result<Announced, WireError> {
        if !filter.kinds.contains(&self.kind) {
            return Err(WireError::Unexpected(self.kind.name()));
        }
        if self.body_bytes > filter.body_bytes_max {
            return Err(WireError::Oversized { bytes: self.body_bytes, limit: filter.body_bytes_max });
        }
        Ok(self)
    }

    /// Header and body together.
    pub(crate) fn frame_bytes(&self) -> usize {
        HEADER_BYTES + self.body_bytes
    }

    /// The frame, once `bytes` holds all of it; verifies the checksum.
    pub(crate) fn complete<'b>(&self, bytes: &'b [u8]) -> Result<Option<Frame<'b>>, WireError> {
        let Some(body) = bytes.get(HEADER_BYTES..self.frame_bytes()) else { return Ok(None) };
        let found = self.header.checksum.get();
        let computed = checksum(self.header, body);
        if found != computed {
            return Err(WireError::BadChecksum { found, computed });
        }
        Ok(Some(Frame { version: self.version, kind: self.kind, body }))
    }
}

fn checksum(mut header: Header, body: &[u8]) -> u32 {
    header.checksum = U32::ZERO;
    crc32c::crc32c_append(crc32c::crc32c(header.as_bytes()), body)
}

/// Where a frame begun by [`begin_frame`] starts; [`end_frame`] takes it.
#[derive(Debug)]
#[must_use = "a frame that is begun must be ended"]
pub struct FrameStart {
    pub(crate) at: usize,
    version: u8,
    kind: Kind,
}

impl FrameStart {
    /// The version that the frame is written in.
    pub(crate) fn version(&self) -> ProtocolVersion {
        ProtocolVersion(self.version.into())
    }

    /// Where the body starts in the buffer.
    pub(crate) fn body(&self) -> usize {
        self.at + HEADER_BYTES
    }
}

/// Starts a frame at the end of `out`, in this version, which its receiver must speak. The caller appends the
/// body in that version, then calls [`end_frame`].
pub fn begin_frame(out: &mut Vec<u8>, version: ProtocolVersion, kind: Kind) -> FrameStart {
    let at = out.len();
    out.resize(at + HEADER_BYTES, 0);
    let version = u8::try_from(version.0).expect("nobody speaks a version that a frame has no room for");
    FrameStart { at, version, kind }
}

/// Ends the frame: everything after its header is its body. An oversized frame is removed from `out`.
pub fn end_frame(out: &mut Vec<u8>, start: FrameStart) -> Result<(), WireError> {
    let FrameStart { at, version, kind } = start;
    let body_bytes = out.len() - at - HEADER_BYTES;
    if body_bytes > kind.body_limit() {
        out.truncate(at);
        return Err(WireError::Oversized { bytes: body_bytes, limit: kind.body_limit() });
    }
    let mut header = Header {
        length: U32::new(body_bytes as u32),
        version,
        kind: kind as u8,
        flags: U16::ZERO,
        checksum: U32::ZERO,
        reserved: U32::ZERO,
    };
    header.checksum = U32::new(checksum(header, &out[at + HEADER_BYTES..]));
    out[at..at + HEADER_BYTES].copy_from_slice(header.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_sixteen_bytes_and_the_length_comes_first() {
        assert_eq!(HEADER_BYTES, 16);
        let mut out = Vec::new();
        let start = begin_frame(&mut out, ProtocolVersion(4), Kind::Ping);
        out.extend_from_slice(&[7; 8]);
        end_frame(&mut out, start).unwrap();
        assert_eq!(out[..8], [8, 0, 0, 0, 4, Kind::Ping as u8, 0, 0]);
        assert_eq!(out[12..16], [0; 4]);
    }

    #[test]
    fn kinds_round_trip_and_have_distinct_names() {
        let mut names: Vec<&str> = Kind::ALL.map(Kind::name).to_vec();
        for kind in Kind::ALL {
            assert_eq!(Kind::from_byte(kind as u8), Some(kind));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Kind::ALL.len());
    }

    #[test]
    fn end_frame_takes_an_oversized_frame_back() {
        let mut out = b"before".to_vec();
        let start = begin_frame(&mut out, CONTROL_VERSION, Kind::Control);
        out.resize(out.len() + REQUEST_BODY_BYTES_MAX + 1, 0);
        assert!(matches!(end_frame(&mut out, start), Err(WireError::Oversized { .. })));
        assert_eq!(out, b"before");
    }
}
