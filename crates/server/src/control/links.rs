//! Conversations over the bus, as tasks of the control thread: each one reads control messages into the
//! thread's queue and writes what is put into its own.
//!
//! Every message may be lost (M10), so a conversation that cannot take more simply loses some.

use super::heard::{Ended, FIRST_WORD_TIMEOUT, Heard};
use super::outbox::{Outbox, Outboxes, Queue};
use crate::bus::{self, ROOM_UNIT_BYTES, Said};
use crate::bus_error::BusError;
use crate::clock::Clock;
use crate::door::{Door, Member, Place};
use crate::thread::start_task;
use sidle_cluster::{ControlMessage, HostPort, ToCoordinator, ToNode};
use sidle_node::{PeerLink, Peers};
use sidle_types::{NodeId, WallMs};
use sidle_wire::limits::{FROM_NODE_BODY_BYTES_MAX, REQUEST_BODY_BYTES_MAX};
use sidle_wire::{CopyHello, Forward, FrameFilter, FrameReader, Hello, Message};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

/// How many events may wait for the control thread; conversations then stop reading.
const EVENTS_MAX: usize = 64;
/// How many bytes of messages may wait for the control thread; conversations then stop reading.
pub(crate) const EVENT_BYTES_MAX: usize = 32 << 20;
/// How long no connection is accepted after an error.
const ACCEPT_PAUSE: Duration = Duration::from_secs(2);

/// The bus's input to the control thread.
#[derive(Debug)]
pub(crate) enum BusEvent {
    /// A node's message to the coordinator, with where to answer it.
    FromNode(ToCoordinator, Outbox),
    /// A message of the coordinator, at this address, to this node.
    FromCoordinator(String, ToNode),
    /// A conversation begins with the expected coordinator.
    CoordinatorReached(Outbox),
    /// The conversation with the coordinator is over.
    CoordinatorLost,
    /// A coordinator that has received nothing from this node announces its address.
    CoordinatorCalls(HostPort),
    /// In the search for the coordinator, the node at this address was tried: whether it was reached.
    Tried(HostPort, bool),
    /// A target opens a lane of a migration whose source is this node.
    Lane(Hello, Box<Lane>),
    /// A node opens a connection to forward its clients' requests.
    Forward(Forward, Box<Lane>),
    /// A node opens a connection for a copy of its durable log.
    Copy(CopyHello, Box<Lane>),
}

/// Where conversations put their input to the control thread.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    sender: mpsc::Sender<(BusEvent, Room)>,
    room: Arc<Semaphore>,
    /// Where conversations are shown.
    peers: Arc<Peers>,
    clock: Clock,
}

/// An event's room, held until the control thread has dealt with it.
#[derive(Debug)]
pub(crate) struct Room {
    _permit: OwnedSemaphorePermit,
}

impl Events {
    /// The queue's two ends.
    pub(crate) fn open(peers: Arc<Peers>, clock: Clock) -> (Events, mpsc::Receiver<(BusEvent, Room)>) {
        let (sender, receiver) = mpsc::channel(EVENTS_MAX);
        let room = Arc::new(Semaphore::new(EVENT_BYTES_MAX / ROOM_UNIT_BYTES));
        (Events { sender, room, peers, clock }, receiver)
    }

    /// A conversation is shown from here on. `opened_by`: the member that opened it; `None`: this node.
    fn show(&self, opened_by: Option<NodeId>, outbox: &Outbox) -> PeerLink {
        self.peers.open(opened_by, self.now(), outbox.waiting_bytes())
    }

    fn now(&self) -> WallMs {
        self.clock.wall(self.clock.mono())
    }

    /// Waits for room for a message of this many bytes. Get it before parsing the message.
    async fn room_for(&self, bytes: usize) -> Room {
        let units = bus::room_units(bytes, EVENT_BYTES_MAX);
        let permit = Arc::clone(&self.room).acquire_many_owned(units).await;
        Room { _permit: permit.expect("the semaphore is never closed") }
    }

    async fn send(&self, event: BusEvent, room: Room) {
        // Without a control thread the process is ending.
        let _ = self.sender.send((event, room)).await;
    }

    pub(super) async fn send_small(&self, event: BusEvent) {
        let room = self.room_for(0).await;
        self.send(event, room).await;
    }
}

/// A connection that another thread takes over, with the bytes already read from it.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The connection.
    pub(crate) stream: std::net::TcpStream,
    /// Where frames are cut.
    pub(crate) reader: FrameReader,
    /// Its place among the members' lanes, or among those that forward.
    pub(crate) place: Place,
}

/// Takes in other nodes' connections.
pub(crate) struct Reception {
    /// Where they prove themselves.
    pub(crate) door: Door,
    /// Where their messages go.
    pub(crate) events: Events,
    /// The messages waiting to be sent to them.
    pub(crate) outboxes: Outboxes,
    /// Where the coordinator is, if it is not here.
    pub(crate) coordinator_at: watch::Receiver<Option<HostPort>>,
    /// Whether it is here.
    pub(crate) leads: watch::Receiver<bool>,
}

impl Reception {
    /// Accepts connections until the control thread ends.
    pub(crate) async fn accept(self, listener: tokio::net::TcpListener) {
        let reception = Arc::new(self);
        loop {
            match listener.accept().await {
                Ok((stream, address)) => {
                    let reception = Arc::clone(&reception);
                    let applicant = reception.door.admit(address);
                    let displaces = applicant.displaces;
                    start_task("a node's connection", async move {
                        let Some(member) = reception.door.let_in(stream, applicant).await else { return };
                        if let Err(error) = reception.welcome(member).await {
                            tracing::debug!("bus connection from {address} ended: {error}");
                        }
                    });
                    if displaces {
                        // The other one closes its connection before the next is taken in.
                        tokio::task::yield_now().await;
                    }
                }
                Err(error) => {
                    tracing::warn!("cannot accept nodes for now: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn welcome(&self, mut member: Member) -> Result<(), BusError> {
        let mut reader = FrameReader::filtered(FrameFilter::OPENING);
        match bus::opening(&mut member.stream, &mut reader).await? {
            bus::Opening::Migration(hello) => {
                let Some((stream, place)) = self.door.as_lane(member) else { return Ok(()) };
                let lane = Lane { stream: stream.into_std()?, reader, place };
                self.events.send_small(BusEvent::Lane(hello, Box::new(lane))).await;
                Ok(())
            }
            bus::Opening::Forward(forward) => {
                let Some((stream, place)) = self.door.as_forward(member) else { return Ok(()) };
                let lane = Lane { stream: stream.into_std()?, reader, place };
                self.events.send_small(BusEvent::Forward(forward, Box::new(lane))).await;
                Ok(())
            }
            bus::Opening::Copy(hello) => {
                let Some((stream, place)) = self.door.as_copy(member) else { return Ok(()) };
                let lane = Lane { stream: stream.into_std()?, reader, place };
                self.events.send_small(BusEvent::Copy(hello, Box::new(lane))).await;
                Ok(())
            }
            bus::Opening::Notice(notice) => {
                self.events.peers.count_received();
                if let Some(coordinator_at) = notice.coordinator_at {
                    self.events.send_small(BusEvent::CoordinatorCalls(coordinator_at)).await;
                }
                Ok(())
            }
            bus::Opening::Control(first) => {
                self.events.peers.count_received();
                if !*self.leads.borrow() {
                    let coordinator_at = self.coordinator_at.borrow().clone();
                    self.events.peers.count_sent();
                    return Ok(bus::send_away(member.stream, coordinator_at).await?);
                }
                // Whoever finds the conversation ended looks for the coordinator.
                let mut leads = self.leads.clone();
                tokio::select! {
                    ended = self.converse_with_node(member, reader, *first) => ended,
                    _ = leads.wait_for(|leads| !leads) => Err(BusError::Closed),
                }
            }
        }
    }

    /// One conversation is one node's: a message for another node in the middle of it is rejected.
    async fn converse_with_node(
        &self,
        member: Member,
        reader: FrameReader,
        first: ControlMessage,
    ) -> Result<(), BusError> {
        let Member { stream, place: _place, .. } = member;
        let (outbox, queue) = self.outboxes.open(REQUEST_BODY_BYTES_MAX);
        let ControlMessage::ToCoordinator(first) = first else {
            return Err(BusError::Unexpected(format!("{first:?}")));
        };
        let node = first.from;
        let link = self.events.show(Some(node), &outbox);
        let deliver = |said: Said, room: Room| {
            let (outbox, link) = (outbox.clone(), &link);
            async move {
                match said {
                    Said::Control(ControlMessage::ToCoordinator(message)) if message.from == node => {
                        link.heard(self.events.now());
                        self.events.send(BusEvent::FromNode(message, outbox), room).await;
                        Ok(())
                    }
                    other => Err(BusError::Unexpected(format!("{other:?}"))),
                }
            }
        };
        let room = self.events.room_for(FROM_NODE_BODY_BYTES_MAX).await;
        deliver(Said::Control(first.into()), room).await?;
        converse(stream, reader, queue, &self.events, deliver).await
    }
}

/// Connects to the node at this address, within the time for a first message, and reports whether it was
/// reached.
async fn reach(address: &str, door: &Door, events: &Events) -> Result<TcpStream, BusError> {
    let connecting = tokio::time::timeout(FIRST_WORD_TIMEOUT, door.connect(address));
    let reached = connecting.await.unwrap_or(Err(BusError::TimedOut));
    let is_news = reached.as_ref().err().is_none_or(BusError::is_of_the_other_end);
    if let (true, Ok(address)) = (is_news, address.parse()) {
        events.send_small(BusEvent::Tried(address, reached.is_ok())).await;
    }
    reached
}

/// One conversation with the node at this address, to its end. An error if there was no connection.
pub(super) async fn converse_with_coordinator(
    address: &str,
    door: &Door,
    events: &Events,
    outboxes: &Outboxes,
) -> Result<Ended, BusError> {
    let stream = reach(address, door, events).await?;
    let (outbox, queue) = outboxes.open(FROM_NODE_BODY_BYTES_MAX);
    let link = events.show(None, &outbox);
    events.send_small(BusEvent::CoordinatorReached(outbox)).await;
    let (heard, detour) = (Heard::nothing(), std::cell::RefCell::new(None));
    let deliver = |said: Said, room: Room| {
        let (heard, detour, link) = (&heard, &detour, &link);
        async move {
            match said {
                Said::Control(ControlMessage::ToNode(message)) => {
                    heard.word();
                    link.heard(events.now());
                    events.send(BusEvent::FromCoordinator(address.to_owned(), message), room).await;
                    Ok(())
                }
                Said::Detour(there) => {
                    *detour.borrow_mut() = Some(there.coordinator_at);
                    Err(BusError::Closed)
                }
                other => Err(BusError::Unexpected(format!("{other:?}"))),
            }
        }
    };
    let reader = FrameReader::filtered(FrameFilter::FROM_COORDINATOR);
    let ended = tokio::select! {
        ended = converse(stream, reader, queue, events, deliver) => ended,
        () = heard.silence() => Err(BusError::TimedOut),
    };
    events.send_small(BusEvent::CoordinatorLost).await;
    let why = ended.err().unwrap_or(BusError::Closed).to_string();
    Ok(match detour.take() {
        Some(None) => Ended::Unanswered("it does not know where".to_owned()),
        Some(Some(there)) => Ended::Elsewhere(there.to_string()),
        None if heard.anything() => Ended::Lost(why),
        None => Ended::Unanswered(why),
    })
}

/// Reads into `deliver` and writes from `queue` until either fails.
async fn converse<F: Future<Output = Result<(), BusError>>>(
    stream: TcpStream,
    mut reader: FrameReader,
    mut queue: Queue,
    events: &Events,
    deliver: impl Fn(Said, Room) -> F,
) -> Result<(), BusError> {
    let (mut incoming, mut outgoing) = stream.into_split();
    let read = pin!(async {
        loop {
            while let Some(frame) = reader.next_frame()? {
                events.peers.count_received();
                let room = events.room_for(frame.body.len()).await;
                let said = match frame.message()? {
                    Message::Control(json) => bus::understand(json)?,
                    other => return Err(BusError::Unexpected(format!("{other:?}"))),
                };
                deliver(said, room).await?;
            }
            bus::receive(&mut incoming, &mut reader).await?;
        }
    });
    let write = pin!(async {
        while let Some(frame) = queue.next().await {
            outgoing.write_all(frame.as_ref()).await?;
            events.peers.count_sent();
        }
        Err(BusError::Closed)
    });
    tokio::select! {
        ended = read => ended,
        ended = write => ended,
    }
}
