//! The tasks of a mover's connections: one reads frames, one writes what the socket did not take at once.

use super::driver::{Driver, Wanted};
use crate::bus::{self, BusError};
use crate::control::links::Lane;
use crate::thread::start_task;
use sidle_node::Link;
use sidle_wire::{FrameReader, Hello, Message};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use tokio::net::TcpStream;

/// What its tasks are called.
const NAME: &str = "a connection to another node";

/// Takes over a connection that another node opened, whose first frame was `hello`.
pub(super) fn take_over(driver: &Rc<RefCell<Driver>>, hello: &Hello, lane: Lane) -> io::Result<()> {
    let stream = Rc::new(TcpStream::from_std(lane.stream)?);
    let link = run(driver, Rc::clone(&stream), lane.reader);
    driver.borrow_mut().message(link, Message::Hello(*hello));
    Ok(())
}

/// Starts what the mover asked for and a task has to do.
pub(super) fn follow_events(driver: &Rc<RefCell<Driver>>) {
    let wanted = std::mem::take(&mut driver.borrow_mut().wanted);
    for wanted in wanted {
        let driver = Rc::clone(driver);
        start_task("a new connection to another node", async move {
            match open(&driver, &wanted).await {
                Ok(stream) => {
                    let link = run(&driver, Rc::new(stream), FrameReader::new());
                    driver.borrow_mut().connected(&wanted, link);
                }
                Err(error) => {
                    tracing::warn!("migration {}: cannot reach its source: {error}", wanted.migration);
                    driver.borrow_mut().connect_failed(&wanted);
                }
            }
        });
    }
}

async fn open(driver: &Rc<RefCell<Driver>>, wanted: &Wanted) -> Result<TcpStream, BusError> {
    let address = driver.borrow().bus_address(wanted.peer);
    let address = address.ok_or_else(|| BusError::Unexpected(format!("no node {} is known", wanted.peer)))?;
    bus::connect(&address).await
}

/// Starts the tasks of a connection.
fn run(driver: &Rc<RefCell<Driver>>, stream: Rc<TcpStream>, reader: FrameReader) -> Link {
    let link = driver.borrow_mut().add(Rc::clone(&stream));
    start_task(NAME, write(Rc::clone(driver), link));
    let driver = Rc::clone(driver);
    start_task(NAME, async move {
        if let Err(error) = read(&driver, link, &stream, reader).await {
            tracing::debug!("a connection to another node ended: {error}");
        }
        driver.borrow_mut().closed(link);
    });
    link
}

async fn read(
    driver: &Rc<RefCell<Driver>>,
    link: Link,
    stream: &TcpStream,
    mut reader: FrameReader,
) -> Result<(), BusError> {
    loop {
        while let Some(frame) = reader.next_frame()? {
            driver.borrow_mut().message(link, frame.message()?);
            // A frame of records takes a while: others have their turn between two.
            tokio::task::yield_now().await;
        }
        match stream.try_read_buf(reader.receive_buffer()) {
            Ok(0) => return Err(BusError::Closed),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.readable().await?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes what waits, whenever the socket takes more; ends with the connection.
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
