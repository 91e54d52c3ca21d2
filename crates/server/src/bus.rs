//! The bus: connections between nodes, carrying frames once both ends have proven that they belong to the
//! cluster ([`crate::door`]).
//!
//! The end that connects sends first; its first frame names the connection's purpose. `Hello` opens a lane
//! of a migration; the connection goes to a mover. `Forward` opens a connection for forwarding clients'
//! requests; it goes to a worker, and carries requests and replies from
//! there on. `CopyHello` opens a connection for a copy of the node's durable log; it goes to the thread that
//! keeps copies. A control message opens a conversation with the coordinator; the connection stays with the
//! control thread. A node without a coordinator answers with [`Detour`] and closes. A coordinator that has
//! received nothing from a member opens a connection with one.
//!
//! The memory that members can claim is bounded too. A frame that does not belong on its connection is
//! refused by its header ([`FrameFilter`]); a buffer grows with what has arrived, not with what is announced;
//! large frames of lanes take turns ([`LargeFrames`]); messages waiting for the control thread have a bound
//! in bytes ([`EVENT_BYTES_MAX`](crate::control::links::EVENT_BYTES_MAX)), and so have those waiting to be
//! sent ([`crate::control::outbox`]).

use crate::bus_error::BusError;
use serde::{Deserialize, Serialize};
use sidle_cluster::{ControlMessage, HostPort};
use sidle_wire::limits::{BODY_BYTES_MAX, RECEIVE_KEEP_BYTES};
use sidle_wire::{CopyHello, Forward, FrameFilter, FrameReader, HEADER_BYTES, Hello, Message, WireError};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long a connection may take to send its first frame.
pub(crate) const OPENING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a large frame may make no progress while others may wait for its room.
pub(crate) const LARGE_FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// Room is given in units of this many bytes.
pub(crate) const ROOM_UNIT_BYTES: usize = 1 << 10;

/// The coordinator's address, from a node that does not run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
// It travels between two versions: what a later one adds is ignored. A message is none: it lacks the field.
pub(crate) struct Detour {
    /// The coordinator's bus address; `None`: this node does not know it.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) coordinator_at: Option<HostPort>,
}

/// The content of a control frame.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    /// A message between a node and the coordinator.
    Control(ControlMessage),
    /// A redirect to the coordinator.
    Detour(Detour),
}

/// The purpose of a new connection.
#[derive(Debug)]
pub(crate) enum Opening {
    /// A lane of a migration that this node is the source of.
    Migration(Hello),
    /// A node forwards its clients' requests.
    Forward(Forward),
    /// A node keeps a copy of its durable log here.
    Copy(CopyHello),
    /// A node opens a conversation with the coordinator; its first message.
    Control(Box<ControlMessage>),
    /// The coordinator's node, which has received nothing from this one, announces its address.
    Notice(Detour),
}

/// Reads some bytes into the reader; the end of the stream is an error.
pub(crate) async fn receive(
    stream: &mut (impl AsyncRead + Unpin),
    reader: &mut FrameReader,
) -> Result<(), BusError> {
    match stream.read_buf(reader.receive_buffer()).await? {
        0 => Err(BusError::Closed),
        _ => Ok(()),
    }
}

/// Waits for the first frame of a connection that a member opened. From then on the reader takes what belongs
/// on such a connection.
pub(crate) async fn opening(stream: &mut TcpStream, reader: &mut FrameReader) -> Result<Opening, BusError> {
    let first = async {
        loop {
            if let Some(frame) = reader.next_frame()? {
                return match frame.message()? {
                    Message::Hello(hello) => Ok(Opening::Migration(hello)),
                    Message::Forward(forward) => Ok(Opening::Forward(forward)),
                    Message::CopyHello(hello) => Ok(Opening::Copy(hello)),
                    Message::Control(json) => match understand(json)? {
                        Said::Control(message) => Ok(Opening::Control(Box::new(message))),
                        Said::Detour(notice) => Ok(Opening::Notice(notice)),
                    },
                    other => Err(BusError::Unexpected(format!("{other:?}"))),
                };
            }
            receive(stream, reader).await?;
        }
    };
    let opening = timeout(OPENING_TIMEOUT, first).await.map_err(|_| BusError::TimedOut)??;
    reader.set_filter(match &opening {
        Opening::Migration(_) => FrameFilter::FROM_TARGET,
        Opening::Forward(_) => FrameFilter::NONE,
        Opening::Copy(_) => FrameFilter::FROM_WRITER,
        Opening::Control(_) => FrameFilter::FROM_NODE,
        Opening::Notice(_) => FrameFilter::OPENING,
    });
    Ok(opening)
}

/// Reads the body of a control frame.
pub(crate) fn understand(json: &[u8]) -> Result<Said, BusError> {
    if let Ok(detour) = serde_json::from_slice(json) {
        return Ok(Said::Detour(detour));
    }
    let message = ControlMessage::from_json(json);
    message.map(Said::Control).map_err(|error| BusError::Unexpected(error.to_string()))
}

/// Sends the coordinator's address over a connection, and closes it.
pub(crate) async fn send_away(mut stream: TcpStream, coordinator_at: Option<HostPort>) -> io::Result<()> {
    let detour = serde_json::to_vec(&Detour { coordinator_at }).expect("a detour is plain data");
    let frame = control_frame(&detour).map_err(io::Error::other)?;
    stream.write_all(&frame).await?;
    stream.shutdown().await
}

/// A control frame around `json`.
pub(crate) fn control_frame(json: &[u8]) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::new();
    Message::write_control(json, &mut out)?;
    Ok(out)
}

/// The room for this many bytes. Never none, and never more than there is in total.
pub(crate) fn room_units(bytes: usize, of_bytes: usize) -> u32 {
    let most = of_bytes / ROOM_UNIT_BYTES;
    bytes.div_ceil(ROOM_UNIT_BYTES).clamp(1, most) as u32
}

/// The room for frames of lanes beyond each lane's own share: together they hold no
/// more than the largest frame there is.
#[derive(Clone, Debug)]
pub(crate) struct LargeFrames(Arc<Semaphore>);

impl LargeFrames {
    const BYTES_MAX: usize = BODY_BYTES_MAX + ROOM_UNIT_BYTES;
    /// A lane's own share, held without asking.
    const SMALL_BYTES: usize = RECEIVE_KEEP_BYTES;

    /// All of the room is free.
    pub(crate) fn new() -> LargeFrames {
        LargeFrames(Arc::new(Semaphore::new(Self::BYTES_MAX / ROOM_UNIT_BYTES)))
    }

    /// Waits for room for the frame under way, if it needs any.
    pub(crate) async fn room_for(&self, reader: &FrameReader) -> Option<OwnedSemaphorePermit> {
        let bytes = reader.announced_bytes().filter(|&bytes| bytes > Self::SMALL_BYTES + HEADER_BYTES)?;
        let units = room_units(bytes, Self::BYTES_MAX);
        Some(Arc::clone(&self.0).acquire_many_owned(units).await.expect("the semaphore is never closed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_types::ProtocolVersion;
    use sidle_wire::{Kind, begin_frame, end_frame};
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_detour_of_a_later_program_is_read_and_a_message_is_none() {
        let detour = |json: &[u8]| match understand(json) {
            Ok(Said::Detour(detour)) => Some(detour.coordinator_at.map(|at| at.to_string())),
            _ => None,
        };
        let known = br#"{"coordinator_at":"h:7","unheard_of":1}"#;
        assert_eq!(detour(known), Some(Some("h:7".to_owned())));
        assert_eq!(detour(br#"{"coordinator_at":null}"#), Some(None));
        assert_eq!(detour(br#"{"to_node":{}}"#), None);
    }

    fn under_way(body_bytes: usize) -> FrameReader {
        let mut out = Vec::new();
        let start = begin_frame(&mut out, ProtocolVersion::CURRENT, Kind::PullReply);
        end_frame(&mut out, start).unwrap();
        out[..4].copy_from_slice(&(body_bytes as u32).to_le_bytes());
        let mut reader = FrameReader::filtered(FrameFilter::FROM_SOURCE);
        reader.push(&out);
        reader
    }

    #[test]
    fn large_frames_take_turns_and_small_ones_do_not_wait() {
        let room = LargeFrames::new();
        let largest = now(room.room_for(&under_way(BODY_BYTES_MAX)));
        assert!(matches!(largest, Some(Some(_))));
        assert!(matches!(now(room.room_for(&under_way(1 << 20))), Some(None)), "small: no room is needed");
        assert!(matches!(now(room.room_for(&FrameReader::new())), Some(None)), "nothing is under way");
        assert!(now(room.room_for(&under_way(64 << 20))).is_none(), "it has to wait");
        drop(largest);
        let several: Vec<_> = (0..16).map(|_| now(room.room_for(&under_way(64 << 20)))).collect();
        assert!(several.iter().all(Option::is_some));
        assert!(now(room.room_for(&under_way(64 << 20))).is_none());
    }

    #[test]
    fn a_detour_names_an_address_or_none() {
        let detour = |json: &str| match understand(json.as_bytes()) {
            Ok(Said::Detour(detour)) => detour.coordinator_at.map(|address| address.to_string()),
            other => panic!("{json}: {other:?}"),
        };
        assert_eq!(detour(r#"{"coordinator_at":"10.0.0.1:7"}"#).as_deref(), Some("10.0.0.1:7"));
        assert_eq!(detour(r#"{"coordinator_at":null}"#), None);
        let long = format!(r#"{{"coordinator_at":"{}:1"}}"#, "h".repeat(1 << 20));
        for wrong in [r#"{"coordinator_at":"nowhere"}"#, r#"{"coordinator_at":7}"#, &long] {
            assert!(understand(wrong.as_bytes()).is_err(), "{}", &wrong[..20]);
        }
    }
}
