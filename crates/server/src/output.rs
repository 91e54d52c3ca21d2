//! The sending end of a connection to another node.

use socket2::SockRef;
use std::io;
use std::net::Shutdown;
use std::rc::Rc;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// The buffer frees its memory if it has grown beyond this.
const KEEP_BYTES: usize = 4 << 20;

/// A connection's sending end.
pub(crate) struct Output {
    pub(crate) stream: Rc<TcpStream>,
    pub(crate) bytes: Vec<u8>,
    sent: usize,
    /// Wakes whoever waits for the socket to take more.
    pub(crate) waiting: Rc<Notify>,
}

impl Output {
    /// Nothing is to be sent yet.
    pub(crate) fn new(stream: Rc<TcpStream>) -> Output {
        Output { stream, bytes: Vec::new(), sent: 0, waiting: Rc::default() }
    }

    /// How many bytes the socket has not taken.
    pub(crate) fn pending(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// What the socket has not taken: whoever has it sends it.
    pub(crate) fn take_pending(mut self) -> Vec<u8> {
        self.bytes.split_off(self.sent)
    }

    /// Writes until the socket takes no more.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        while self.pending() > 0 {
            match self.stream.try_write(&self.bytes[self.sent..]) {
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.sent = 0;
        if self.bytes.capacity() > KEEP_BYTES {
            self.bytes = Vec::new();
        } else {
            self.bytes.clear();
        }
        Ok(())
    }
}

/// Ends a connection; its reader and writer detect that.
pub(crate) fn shut_down(stream: &TcpStream) {
    // It may be gone already.
    let _ = SockRef::from(stream).shutdown(Shutdown::Both);
}
