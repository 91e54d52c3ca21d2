//! The tasks of a mover's connections: one reads frames, one writes what the socket did not take immediately.

use super::driver::{Driver, Wanted};
use crate::bus::{LARGE_FRAME_TIMEOUT, LargeFrames};
use crate::bus_error::BusError;
use crate::control::links::Lane;
use crate::door::{Door, Place};
use crate::thread::start_task;
use sidle_node::Link;
use sidle_wire::{FrameFilter, FrameReader, Hello, Message};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Instant;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The name of its tasks.
const NAME: &str = "a connection to another node";

/// The surroundings of its connections' tasks.
#[derive(Clone)]
pub(super) struct Around {
    /// The mover.
    pub(super) driver: Rc<RefCell<Driver>>,
    /// Where new connections prove themselves.
    pub(super) door: Door,
    /// The room for large frames.
    pub(super) large_frames: LargeFrames,
}

/// Takes over a connection opened by another node, whose first frame was `hello`.
pub(super) fn take_over(around: &Around, hello: &Hello, lane: Lane) -> io::Result<()> {
    let stream = Rc::new(TcpStream::from_std(lane.stream)?);
    let link = run(around, Rc::clone(&stream), lane.reader, Some(lane.place));
    around.driver.borrow_mut().message(link, Message::Hello(*hello));
    Ok(())
}

/// Starts the tasks that the mover asked for.
pub(super) fn follow_events(around: &Around) {
    let wanted = std::mem::take(&mut around.driver.borrow_mut().wanted);
    for wanted in wanted {
        let around = around.clone();
        start_task("a new connection to another node", async move {
            let driver = &around.driver;
            match open(&around, &wanted).await {
                Ok(stream) => {
                    driver.borrow_mut().complaints.forget();
                    let reader = FrameReader::filtered(FrameFilter::FROM_SOURCE);
                    let link = run(&around, Rc::new(stream), reader, None);
                    driver.borrow_mut().connected(&wanted, link);
                }
                Err(error) => {
                    let text = format!("migration {}: cannot reach its source: {error}", wanted.migration);
                    if let Some(text) = driver.borrow_mut().complaints.due(&text, Instant::now()) {
                        tracing::warn!("{text}");
                    }
                    driver.borrow_mut().connect_failed(&wanted);
                }
            }
        });
    }
}

async fn open(around: &Around, wanted: &Wanted) -> Result<TcpStream, BusError> {
    let address = around.driver.borrow().bus_address(wanted.peer);
    let address = address.ok_or_else(|| BusError::Unexpected(format!("no node {} is known", wanted.peer)))?;
    around.door.connect(&address).await
}

/// Starts the tasks of a connection, which keeps its place while it is read.
fn run(around: &Around, stream: Rc<TcpStream>, reader: FrameReader, place: Option<Place>) -> Link {
    let link = around.driver.borrow_mut().add(Rc::clone(&stream));
    start_task(NAME, write(Rc::clone(&around.driver), link));
    let around = around.clone();
    start_task(NAME, async move {
        let _place = place;
        if let Err(error) = read(&around, link, &stream, reader).await {
            tracing::debug!("a connection to another node ended: {error}");
        }
        around.driver.borrow_mut().closed(link);
    });
    link
}

async fn read(
    around: &Around,
    link: Link,
    stream: &TcpStream,
    mut reader: FrameReader,
) -> Result<(), BusError> {
    let mut room = None;
    loop {
        while let Some(frame) = reader.next_frame()? {
            around.driver.borrow_mut().message(link, frame.message()?);
            room = None;
            // A frame of records takes a while: others have their turn in between.
            tokio::task::yield_now().await;
        }
        if room.is_none() {
            room = around.large_frames.room_for(&reader).await;
        }
        match stream.try_read_buf(reader.receive_buffer()) {
            Ok(0) => return Err(BusError::Closed),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => match room {
                None => stream.readable().await?,
                // Others may wait for its room.
                Some(_) => timeout(LARGE_FRAME_TIMEOUT, stream.readable())
                    .await
                    .map_err(|_| BusError::TimedOut)??,
            },
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes pending output whenever the socket takes more; ends with the connection.
async fn write(driver: Rc<RefCell<Driver>>, link: Link) {
    loop {
        let handles =
            driver.borrow().outputs.get(&link).map(|o| (Rc::clone(&o.waiting), Rc::clone(&o.stream)));
        let Some((waiting, stream)) = handles else { return };
        waiting.notified().await;
        if stream.writable().await.is_err() {
            return;
        }
        driver.borrow_mut().write_on();
    }
}
