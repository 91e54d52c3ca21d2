//! Conversations over the bus, as tasks of the control thread: each one reads control messages into the thread's
//! queue and writes what is put into its own.
//!
//! Every message may be lost (M10), so a conversation that cannot take more simply loses some.

use crate::bus::{self, BusError, Said};
use crate::join::Search;
use crate::thread::start_task;
use sidle_cluster::{ControlMessage, ToCoordinator, ToNode};
use sidle_wire::{Forward, FrameReader, Hello, Message};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// How many messages may wait to be sent on one conversation.
const OUTBOX_MESSAGES: usize = 256;
/// How many events may wait for the control thread; conversations then stop reading.
pub(crate) const EVENTS: usize = 1024;
/// The first pause before another attempt to reach the coordinator, and the longest.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_LAST: Duration = Duration::from_secs(2);

/// What the bus brings to the control thread.
#[derive(Debug)]
pub(crate) enum BusEvent {
    /// A node says something to the coordinator, and can be answered there.
    FromNode(ToCoordinator, Outbox),
    /// The coordinator, at this address, says something to this node.
    FromCoordinator(String, ToNode),
    /// A conversation begins with what should be the coordinator.
    CoordinatorReached(Outbox),
    /// The conversation with the coordinator is over.
    CoordinatorLost,
    /// A target opens a lane of a migration that this node is the source of.
    Lane(Hello, Box<Lane>),
    /// A node opens a connection over which it forwards what its clients ask.
    Forward(Forward, Box<Lane>),
}

/// A connection that a mover or a worker takes over, with what was read of it already.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The connection.
    pub(crate) stream: std::net::TcpStream,
    /// Where frames are cut.
    pub(crate) reader: FrameReader,
}

/// The sending end of a conversation.
#[derive(Clone, Debug)]
pub(crate) struct Outbox(mpsc::Sender<Vec<u8>>);

impl Outbox {
    fn new() -> (Outbox, mpsc::Receiver<Vec<u8>>) {
        let (sender, receiver) = mpsc::channel(OUTBOX_MESSAGES);
        (Outbox(sender), receiver)
    }

    /// Sends a message, unless the conversation is over or cannot take it.
    pub(crate) fn send(&self, message: &ControlMessage) {
        // M10: whoever needs it says it again.
        let _ = self.0.try_send(bus::control_frame(message));
    }
}

/// Takes in connections of other nodes for as long as the control thread lives. `detour`: where the coordinator is,
/// if it is not here.
pub(crate) async fn accept(
    listener: tokio::net::TcpListener,
    events: mpsc::Sender<BusEvent>,
    detour: Option<tokio::sync::watch::Receiver<String>>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let (events, detour) = (events.clone(), detour.clone());
                start_task("a node's connection", async move {
                    if let Err(error) = welcome(stream, events, detour).await {
                        tracing::debug!("bus connection from {address} ended: {error}");
                    }
                });
            }
            Err(error) => {
                tracing::warn!("cannot accept nodes for now: {error}");
                tokio::time::sleep(BACKOFF_LAST).await;
            }
        }
    }
}

async fn welcome(
    mut stream: TcpStream,
    events: mpsc::Sender<BusEvent>,
    detour: Option<tokio::sync::watch::Receiver<String>>,
) -> Result<(), BusError> {
    stream.set_nodelay(true)?;
    let mut reader = FrameReader::new();
    match bus::opening(&mut stream, &mut reader).await? {
        bus::Opening::Migration(hello) => {
            let lane = Lane { stream: stream.into_std()?, reader };
            let _ = events.send(BusEvent::Lane(hello, Box::new(lane))).await;
            Ok(())
        }
        bus::Opening::Forward(forward) => {
            let lane = Lane { stream: stream.into_std()?, reader };
            let _ = events.send(BusEvent::Forward(forward, Box::new(lane))).await;
            Ok(())
        }
        bus::Opening::Control(first) => match detour {
            Some(detour) => Ok(bus::send_away(stream, detour.borrow().clone()).await?),
            None => converse_with_node(stream, reader, *first, events).await,
        },
    }
}

async fn converse_with_node(
    stream: TcpStream,
    reader: FrameReader,
    first: ControlMessage,
    events: mpsc::Sender<BusEvent>,
) -> Result<(), BusError> {
    let (outbox, queue) = Outbox::new();
    let deliver = |said: Said| {
        let (events, outbox) = (events.clone(), outbox.clone());
        async move {
            match said {
                Said::Control(ControlMessage::ToCoordinator(message)) => {
                    let _ = events.send(BusEvent::FromNode(message, outbox)).await;
                    Ok(())
                }
                other => Err(BusError::Unexpected(format!("{other:?}"))),
            }
        }
    };
    deliver(Said::Control(first)).await?;
    converse(stream, reader, queue, deliver).await
}

/// Keeps up the conversation with the coordinator: tries the addresses in turn, with growing pauses, for ever.
pub(crate) async fn follow_coordinator(search: Search, events: mpsc::Sender<BusEvent>) {
    let mut pause = BACKOFF_FIRST;
    let mut detour = None;
    let mut complained = false;
    loop {
        let candidates = detour.take().into_iter().chain(search.addresses().await).collect::<Vec<String>>();
        for address in candidates {
            match converse_with_coordinator(&address, &events).await {
                Ok(Some(elsewhere)) => {
                    detour = Some(elsewhere);
                    break;
                }
                Ok(None) => {
                    pause = BACKOFF_FIRST;
                    complained = false;
                    break;
                }
                Err(error) if complained => tracing::debug!("the coordinator is not at {address}: {error}"),
                Err(error) => {
                    complained = true;
                    tracing::warn!("the coordinator is not at {address}: {error}; trying on");
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(BACKOFF_LAST);
    }
}

/// One conversation with the coordinator, to its end. Returns where else to ask, if the node there said so; an error
/// only when the conversation never began.
async fn converse_with_coordinator(
    address: &str,
    events: &mpsc::Sender<BusEvent>,
) -> Result<Option<String>, BusError> {
    let stream = bus::connect(address).await?;
    let (outbox, queue) = Outbox::new();
    let _ = events.send(BusEvent::CoordinatorReached(outbox)).await;
    let detour = std::cell::RefCell::new(None);
    let deliver = |said: Said| {
        let detour = &detour;
        let events = events.clone();
        async move {
            match said {
                Said::Control(ControlMessage::ToNode(message)) => {
                    let _ = events.send(BusEvent::FromCoordinator(address.to_owned(), message)).await;
                    Ok(())
                }
                Said::Detour(there) => {
                    *detour.borrow_mut() = Some(there.coordinator_at).filter(|address| !address.is_empty());
                    Err(BusError::Closed)
                }
                other => Err(BusError::Unexpected(format!("{other:?}"))),
            }
        }
    };
    let ended = converse(stream, FrameReader::new(), queue, deliver).await;
    let _ = events.send(BusEvent::CoordinatorLost).await;
    let elsewhere = detour.take();
    if let (Err(error), None) = (ended, &elsewhere) {
        tracing::debug!("lost the coordinator at {address}: {error}");
    }
    Ok(elsewhere)
}

/// Reads into `deliver` and writes from `queue` until either fails.
async fn converse<F: Future<Output = Result<(), BusError>>>(
    stream: TcpStream,
    mut reader: FrameReader,
    mut queue: mpsc::Receiver<Vec<u8>>,
    deliver: impl Fn(Said) -> F,
) -> Result<(), BusError> {
    let (mut incoming, mut outgoing) = stream.into_split();
    let read = pin!(async {
        loop {
            let mut heard = Vec::new();
            while let Some(frame) = reader.next_frame()? {
                match frame.message()? {
                    Message::Control(json) => heard.push(bus::understand(json)?),
                    other => return Err(BusError::Unexpected(format!("{other:?}"))),
                }
            }
            for said in heard {
                deliver(said).await?;
            }
            bus::receive(&mut incoming, &mut reader).await?;
        }
    });
    let write = pin!(async {
        while let Some(frame) = queue.recv().await {
            outgoing.write_all(&frame).await?;
        }
        Err(BusError::Closed)
    });
    tokio::select! {
        ended = read => ended,
        ended = write => ended,
    }
}
