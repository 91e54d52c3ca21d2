//! Cutting a stream of received bytes into frames.

use crate::frame::{Announced, HEADER_BYTES};
use crate::limits::{RECEIVE_AHEAD_BYTES, RECEIVE_KEEP_BYTES};
use crate::{Frame, FrameFilter, WireError};
use sidle_types::Speaks;

/// Cuts a stream of received bytes into frames, without copying them.
///
/// Call order: append received bytes ([`push`](Self::push), or read straight into
/// [`receive_buffer`](Self::receive_buffer)), then [`next_frame`](Self::next_frame) until it returns `None`.
/// After an error every further call returns it again: frame boundaries are lost, and the connection must be
/// closed.
#[derive(Debug)]
pub struct FrameReader {
    speaks: Speaks,
    filter: FrameFilter,
    buffer: Vec<u8>,
    /// Everything before this has been returned.
    start: usize,
    failed: Option<WireError>,
}

impl Default for FrameReader {
    fn default() -> FrameReader {
        FrameReader {
            speaks: Speaks::THIS_BUILD,
            filter: FrameFilter::default(),
            buffer: Vec::new(),
            start: 0,
            failed: None,
        }
    }
}

impl FrameReader {
    /// A reader at the start of a stream.
    pub fn new() -> FrameReader {
        FrameReader::default()
    }

    /// A reader at the start of a stream that accepts only what `filter` admits.
    pub fn filtered(filter: FrameFilter) -> FrameReader {
        FrameReader { filter, ..FrameReader::default() }
    }

    /// The same reader, of a program that speaks these versions, not those of this build.
    pub fn speaking(self, speaks: Speaks) -> FrameReader {
        FrameReader { speaks, ..self }
    }

    /// From the next frame on, accepts only what `filter` admits.
    pub fn set_filter(&mut self, filter: FrameFilter) {
        self.filter = filter;
    }

    /// The current frame's length with its header, once announced.
    pub fn announced_bytes(&self) -> Option<usize> {
        self.announced(&self.buffer[self.start..]).ok().flatten().map(|announced| announced.frame_bytes())
    }

    /// How much memory the reader holds.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.compact();
        self.buffer.extend_from_slice(bytes);
    }

    /// The buffer to append received bytes to, with room for the rest of the current frame: at most
    /// [`RECEIVE_AHEAD_BYTES`] or a quarter of what has arrived. Only append to it.
    pub fn receive_buffer(&mut self) -> &mut Vec<u8> {
        self.compact();
        let arrived = self.buffer.len();
        let lacking = match self.announced(&self.buffer) {
            Ok(Some(announced)) => announced.frame_bytes().saturating_sub(arrived),
            _ => HEADER_BYTES,
        };
        if self.buffer.capacity() - arrived < lacking.clamp(1, RECEIVE_MIN_BYTES) {
            let ahead = RECEIVE_AHEAD_BYTES.max(arrived / 4);
            // No more than that: doubling would hold twice of what has arrived.
            self.buffer.reserve_exact(lacking.clamp(RECEIVE_MIN_BYTES, ahead));
        }
        &mut self.buffer
    }

    /// The next complete frame, or `None` until more bytes arrive.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, WireError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let received = &self.buffer[self.start..];
        let read = self.announced(received).and_then(|announced| match announced {
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

    fn announced(&self, bytes: &[u8]) -> Result<Option<Announced>, WireError> {
        Announced::read(bytes, self.speaks)?.map(|announced| announced.checked_by(&self.filter)).transpose()
    }

    /// The bytes after the last frame, for a connection that then carries something else.
    pub fn into_rest(mut self) -> Vec<u8> {
        self.compact();
        self.buffer
    }

    /// Moves the rest to the front. The rest is less than one frame. Every byte of a frame is moved at most
    /// once for each piece it arrives in that completes another. A large frame's memory is freed.
    fn compact(&mut self) {
        let left = &self.buffer[self.start..];
        if self.buffer.capacity() > RECEIVE_KEEP_BYTES && left.len() <= RECEIVE_AHEAD_BYTES {
            self.buffer = left.to_vec();
        } else if self.start > 0 {
            self.buffer.drain(..self.start);
        }
        self.start = 0;
    }
}

/// The minimum size of a read.
const RECEIVE_MIN_BYTES: usize = 16 << 10;
