//! Frames between nodes.
//!
//! Every connection between two nodes carries frames: a 16-byte header (length, version, kind, CRC32C) and a
//! body. All numbers are little-endian. Bulk bodies hold records in the log's layout. So the sender packs
//! them straight into the frame ([`PullReplyStart`]) and the receiver reads them in place ([`FrameReader`]):
//! this crate copies no batch.
//!
//! Bytes from the network are parsed once, into a [`Message`], and all later code works on checked values.
//! Whatever does not parse is a [`WireError`] that names its reason; the connection is then closed and
//! nothing of the frame is applied. A flipped bit anywhere in a frame is always detected: CRC32C covers
//! header and body.
//!
//! A frame is written in the version of its migration or of the cluster, and read in every version that this
//! program speaks ([`Speaks`](sidle_types::Speaks)). Control frames are the exception
//! ([`CONTROL_VERSION`]).
//!
//! The crate has no sockets and no state beyond [`FrameReader`]'s buffer.

mod copy;
mod copy_parse;
mod cut;
mod cut_parse;
mod encode;
mod error;
mod frame;
mod layout;
pub mod limits;
mod lists;
mod message;
mod piece;
mod reader;
mod scope;

pub use copy::{CopyHello, Place, Tail, ToBackup, ToWriter};
pub use cut::{Cursors, CutCounts, CutPull, CutReply, CutState, Gives, HotHints, Room};
pub use encode::{PriorityPullReplyStart, PullReplyStart, RoundState, SampPullReplyStart};
pub use error::WireError;
pub use frame::{
    CONTROL_VERSION, Frame, FrameFilter, FrameStart, HEADER_BYTES, Kind, begin_frame, end_frame,
};
pub use lists::{AbsentKeys, ChangedRanges, Keys, Positions};
pub use message::{
    Activate, ChangedPull, ChangedPullReply, Forward, Hello, Lane, Message, PriorityPull, PriorityPullReply,
    Probe, ProbeReply, Pull, PullReply, Refusal, RefusalCode, SampPull, SampPullReply,
};
pub use piece::{PatchPiece, Piece};
pub use reader::FrameReader;
pub use scope::Scope;
