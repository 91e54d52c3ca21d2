//! The bus: connections between nodes, carrying frames.
//!
//! Whoever connects speaks first, and the first frame says what the connection is for: `Hello` opens a lane
//! of a migration, and the connection goes to a mover; `Forward` opens a connection over which a node
//! forwards what its clients ask, and the connection goes to a worker and carries requests and replies from
//! there on; a control message opens a conversation with the coordinator, and the connection stays with the
//! control thread. A node without a coordinator answers with [`Detour`] and closes.

use serde::{Deserialize, Serialize};
use sidle_cluster::ControlMessage;
use sidle_wire::{Forward, FrameReader, Hello, Message, WireError};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a connection may take to say what it is for.
pub(crate) const OPENING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long connecting to another node may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a bus connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BusError {
    /// The other end closed it.
    #[error("the other end closed the connection")]
    Closed,
    /// The network.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Something that is no frame, or of another version.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A frame that does not belong here.
    #[error("unexpected message: {0}")]
    Unexpected(String),
    /// Nothing came.
    #[error("no answer in time")]
    TimedOut,
}

/// Where the coordinator is to be found, from a node that does not run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Detour {
    /// The coordinator's bus address, as far as the node knows.
    pub(crate) coordinator_at: String,
}

/// What a control frame says.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    /// A message between a node and the coordinator.
    Control(ControlMessage),
    /// Ask there.
    Detour(Detour),
}

/// What a new connection is for.
#[derive(Debug)]
pub(crate) enum Opening {
    /// A lane of a migration that this node is the source of.
    Migration(Hello),
    /// A node forwards what its clients ask.
    Forward(Forward),
    /// A node that wants to talk to the coordinator; its first message.
    Control(Box<ControlMessage>),
}

/// Connects to another node.
pub(crate) async fn connect(address: &str) -> Result<TcpStream, BusError> {
    let stream =
        timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await.map_err(|_| BusError::TimedOut)??;
    stream.set_nodelay(true)?;
    Ok(stream)
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

/// Waits for the first frame of a connection that another node opened.
pub(crate) async fn opening(stream: &mut TcpStream, reader: &mut FrameReader) -> Result<Opening, BusError> {
    let first = async {
        loop {
            if let Some(frame) = reader.next_frame()? {
                return match frame.message()? {
                    Message::Hello(hello) => Ok(Opening::Migration(hello)),
                    Message::Forward(forward) => Ok(Opening::Forward(forward)),
                    Message::Control(json) => match understand(json)? {
                        Said::Control(message) => Ok(Opening::Control(Box::new(message))),
                        Said::Detour(_) => {
                            Err(BusError::Unexpected("a detour that nobody asked for".to_owned()))
                        }
                    },
                    other => Err(BusError::Unexpected(format!("{other:?}"))),
                };
            }
            receive(stream, reader).await?;
        }
    };
    timeout(OPENING_TIMEOUT, first).await.map_err(|_| BusError::TimedOut)?
}

/// Reads the body of a control frame.
pub(crate) fn understand(json: &[u8]) -> Result<Said, BusError> {
    if let Ok(detour) = serde_json::from_slice(json) {
        return Ok(Said::Detour(detour));
    }
    let message = ControlMessage::from_json(json);
    message.map(Said::Control).map_err(|error| BusError::Unexpected(error.to_string()))
}

/// A control message as a frame.
pub(crate) fn control_frame(message: &ControlMessage) -> Vec<u8> {
    frame(&message.to_json())
}

/// Tells a connection where the coordinator is, and closes it.
pub(crate) async fn send_away(mut stream: TcpStream, coordinator_at: String) -> io::Result<()> {
    let detour = serde_json::to_vec(&Detour { coordinator_at }).expect("a detour is plain data");
    stream.write_all(&frame(&detour)).await?;
    stream.shutdown().await
}

fn frame(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    sidle_wire::Message::write_control(json, &mut out)
        .expect("control messages are far below the limit of a frame");
    out
}
