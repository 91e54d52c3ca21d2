//! One socket with its buffers.

use sidle_cluster::HostPort;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes per read; the buffer grows for larger replies.
const READ_BYTES: usize = 64 << 10;
/// A larger buffer is freed when it is empty.
const KEPT_BYTES: usize = 1 << 20;

/// A connection being opened.
pub(crate) type Connecting = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Connects to a node, by its address or by its name.
pub(crate) fn connect(address: HostPort) -> Connecting {
    Box::pin(async move {
        let stream = TcpStream::connect((address.host(), address.port())).await?;
        // Requests are batched before they are written: delaying them again gains nothing.
        stream.set_nodelay(true)?;
        Ok(stream)
    })
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    /// `input[start..end]` is read and not consumed; the rest is free.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// `output[written..]` is still to be written.
    output: Vec<u8>,
    written: usize,
}

impl Link {
    pub(crate) fn new(stream: TcpStream) -> Link {
        Link { stream, input: vec![0; READ_BYTES], start: 0, end: 0, output: Vec::new(), written: 0 }
    }

    /// Where to append output; `None` while an earlier batch is not completely written.
    pub(crate) fn free_output(&mut self) -> Option<&mut Vec<u8>> {
        (self.written == self.output.len()).then(|| {
            self.written = 0;
            self.output.clear();
            &mut self.output
        })
    }

    /// Writes pending output. Pending when the socket is full.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.output.len() {
            let rest = &self.output[self.written..];
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        if self.output.capacity() > KEPT_BYTES {
            self.output = Vec::new();
            self.written = 0;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once. Pending when there is nothing to read; an error at the end of the stream.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.make_room();
        // A read that does not fill the buffer shows tokio that the socket is drained: the next poll makes no
        // system call.
        let mut room = ReadBuf::new(&mut self.input[self.end..]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut room))?;
        match room.filled().len() {
            0 => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            read => {
                self.end += read;
                Poll::Ready(Ok(()))
            }
        }
    }

    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.input.len() > KEPT_BYTES {
                self.input = vec![0; READ_BYTES];
            }
        } else if self.end == self.input.len() {
            if self.start >= self.input.len() / 2 {
                self.input.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            } else {
                self.input.resize(self.input.len() * 2, 0);
            }
        }
    }

    /// Input that is read and not consumed.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
    }
}
