//! The connections of a thread that has all of its state in one loop: what happens to them comes through one
//! queue.

use crate::bus_error::BusError;
use crate::door::{Door, Place};
use crate::output::{Output, shut_down};
use crate::thread::start_task;
use sidle_cluster::HostPort;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

/// The name of their tasks.
const NAME: &str = "a connection for a log's copies";
/// So many bytes are read at once.
const READ_BYTES: usize = 256 << 10;
/// So many reads may wait for the thread; connections then stop reading.
const EVENTS_MAX: usize = 16;
/// How long a connection that is closed may take to send the rest.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// A connection is full while so much waits to be sent.
const FULL_BYTES: usize = 512 << 10;

/// A connection, by its number.
pub(super) type ConnectionId = u64;

/// What has happened to a connection.
#[derive(Debug)]
pub(super) enum Event {
    Dialed(TcpStream),
    Bytes(Vec<u8>),
    /// It takes more.
    Writable,
    Ended(BusError),
}

/// What that means to whoever has the connections.
#[derive(Debug)]
pub(super) enum Signal {
    /// A connection that was asked for is there.
    Opened,
    Bytes(Vec<u8>),
    /// It has ended by itself, or could not be made.
    Ended(BusError),
}

/// Where events arrive.
pub(super) type Events = mpsc::Receiver<(ConnectionId, Event)>;

/// The connections.
pub(super) struct Connections {
    events: mpsc::Sender<(ConnectionId, Event)>,
    /// Without an output while it is dialed.
    open: BTreeMap<ConnectionId, Option<Output>>,
    last: ConnectionId,
}

impl Connections {
    /// None yet.
    pub(super) fn new() -> (Connections, Events) {
        let (events, queue) = mpsc::channel(EVENTS_MAX);
        (Connections { events, open: BTreeMap::new(), last: 0 }, queue)
    }

    /// Connects to a node; its address may not be known.
    pub(super) fn dial(&mut self, door: &Door, address: Option<&HostPort>) -> ConnectionId {
        let id = self.next(None);
        let (door, events) = (door.clone(), self.events.clone());
        let address = address.map(HostPort::to_string);
        start_task(NAME, async move {
            let dialed = match &address {
                Some(address) => door.connect(address).await,
                None => Err(BusError::Unexpected("its address is not known".to_owned())),
            };
            let event = dialed.map_or_else(Event::Ended, Event::Dialed);
            // Without a receiver the thread is ending.
            let _ = events.send((id, event)).await;
        });
        id
    }

    /// Takes a connection over that another node opened.
    pub(super) fn adopt(&mut self, stream: TcpStream, place: Place) -> ConnectionId {
        let id = self.next(None);
        self.begin(id, stream, Some(place));
        id
    }

    fn next(&mut self, output: Option<Output>) -> ConnectionId {
        self.last += 1;
        self.open.insert(self.last, output);
        self.last
    }

    fn begin(&mut self, id: ConnectionId, stream: TcpStream, place: Option<Place>) {
        let output = Output::new(Rc::new(stream));
        let (stream, waiting) = (Rc::clone(&output.stream), Rc::clone(&output.waiting));
        self.open.insert(id, Some(output));
        let events = self.events.clone();
        start_task(NAME, async move {
            // It keeps its place while it is read.
            let _place = place;
            let ended = tokio::select! {
                ended = read(id, &stream, &events) => ended,
                ended = write(id, &stream, &waiting, &events) => ended,
            };
            // Without a receiver the thread is ending.
            let _ = events.send((id, Event::Ended(ended))).await;
        });
    }

    /// What an event means. Nothing, if its connection was closed here meanwhile.
    pub(super) fn take(&mut self, id: ConnectionId, event: Event) -> Option<Signal> {
        self.open.get(&id)?;
        match event {
            Event::Dialed(stream) => {
                self.begin(id, stream, None);
                Some(Signal::Opened)
            }
            Event::Bytes(bytes) => Some(Signal::Bytes(bytes)),
            Event::Writable => {
                self.write_on(id);
                None
            }
            Event::Ended(why) => {
                self.open.remove(&id);
                Some(Signal::Ended(why))
            }
        }
    }

    /// Whether so much waits to be sent that nothing is to be added.
    pub(super) fn is_full(&self, id: ConnectionId) -> bool {
        self.open.get(&id).and_then(Option::as_ref).is_none_or(|output| output.pending() >= FULL_BYTES)
    }

    /// Sends these bytes, or has them wait.
    pub(super) fn send(&mut self, id: ConnectionId, bytes: &[u8]) {
        if let Some(Some(output)) = self.open.get_mut(&id) {
            output.bytes.extend_from_slice(bytes);
            self.write_on(id);
        }
    }

    fn write_on(&mut self, id: ConnectionId) {
        let Some(Some(output)) = self.open.get_mut(&id) else { return };
        match output.write() {
            Ok(()) if output.pending() > 0 => output.waiting.notify_one(),
            Ok(()) => {}
            // Its reader detects it.
            Err(_) => shut_down(&output.stream),
        }
    }

    /// Ends it.
    pub(super) fn close(&mut self, id: ConnectionId) {
        if let Some(Some(output)) = self.open.remove(&id) {
            let (stream, rest) = (Rc::clone(&output.stream), output.take_pending());
            // The other end may want to read the last of it; a failure to send it does not matter.
            start_task(NAME, async move {
                let _ = timeout(LAST_WORDS, write_all(&stream, &rest)).await;
                shut_down(&stream);
            });
        }
    }
}

async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn read(
    id: ConnectionId,
    stream: &TcpStream,
    events: &mpsc::Sender<(ConnectionId, Event)>,
) -> BusError {
    loop {
        if let Err(error) = stream.readable().await {
            return error.into();
        }
        let mut bytes = Vec::with_capacity(READ_BYTES);
        match stream.try_read_buf(&mut bytes) {
            Ok(0) => return BusError::Closed,
            Ok(length) => {
                if length < READ_BYTES / 2 {
                    bytes.shrink_to_fit();
                }
                if events.send((id, Event::Bytes(bytes))).await.is_err() {
                    return BusError::Closed;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return error.into(),
        }
    }
}

/// Reports whenever output waits and the socket takes more.
async fn write(
    id: ConnectionId,
    stream: &TcpStream,
    waiting: &Notify,
    events: &mpsc::Sender<(ConnectionId, Event)>,
) -> BusError {
    loop {
        waiting.notified().await;
        if let Err(error) = stream.writable().await {
            return error.into();
        }
        if events.send((id, Event::Writable)).await.is_err() {
            return BusError::Closed;
        }
    }
}
