//! Cutting a stream of received bytes into frames.

use crate::frame::{Announced, HEADER_BYTES};
use crate::limits::{RECEIVE_AHEAD_BYTES, RECEIVE_KEEP_BYTES};
use crate::{Frame, WireError};

/// Cuts a stream of received bytes into frames, without copying them.
///
/// Call order: append what was received ([`push`](Self::push), or read straight into
/// [`receive_buffer`](Self::receive_buffer)), then [`next_frame`](Self::next_frame) until it returns `None`. After an
/// error every further call returns it again: frame boundaries are lost, and the connection must be closed.
#[derive(Debug, Default)]
pub struct FrameReader {
    buffer: Vec<u8>,
    /// What lies before this has been returned.
    start: usize,
    failed: Option<WireError>,
}

impl FrameReader {
    /// A reader at the start of a stream.
    pub fn new() -> FrameReader {
        FrameReader::default()
    }

    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.compact();
        self.buffer.extend_from_slice(bytes);
    }

    /// The buffer to append received bytes to, with room for what the frame under way still lacks (up to
    /// [`RECEIVE_AHEAD_BYTES`]). Only append to it.
    pub fn receive_buffer(&mut self) -> &mut Vec<u8> {
        self.compact();
        let lacking = match Announced::read(&self.buffer) {
            Ok(Some(announced)) => announced.frame_bytes().saturating_sub(self.buffer.len()),
            _ => HEADER_BYTES,
        };
        self.buffer.reserve(lacking.clamp(RECEIVE_MIN_BYTES, RECEIVE_AHEAD_BYTES));
        &mut self.buffer
    }

    /// The next complete frame, or `None` until more bytes arrive.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, WireError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let received = &self.buffer[self.start..];
        let read = Announced::read(received).and_then(|announced| match announced {
            Some(announced) => {
                Ok(announced.complete(received)?.map(|frame| (frame, announced.frame_bytes())))
            }
            None => Ok(None),
        });
        match read {
            Ok(Some((frame, bytes))) => {
                self.start += bytes;
                Ok(Some(frame))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.failed = Some(error);
                Err(error)
            }
        }
    }

    /// What was received behind the last frame, for a connection that carries something else from there on.
    pub fn into_rest(mut self) -> Vec<u8> {
        self.compact();
        self.buffer
    }

    /// Moves what is left to the front. What is left is less than one frame, and every byte of a frame is moved at
    /// most once for each piece it arrives in that completes another.
    fn compact(&mut self) {
        if self.start == self.buffer.len() && self.buffer.capacity() > RECEIVE_KEEP_BYTES {
            self.buffer = Vec::new();
        } else if self.start > 0 {
            self.buffer.drain(..self.start);
        }
        self.start = 0;
    }
}

/// How much is read at once at least.
const RECEIVE_MIN_BYTES: usize = 16 << 10;
