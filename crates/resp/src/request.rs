//! The request parser: arrays of bulk strings and inline lines, in one pass over a growing buffer.

use crate::args::{Args, Span};
use crate::decimal::{parse_integer, quick_length};
use crate::inline::split_line;
use crate::limits::Limits;

/// The result of [`RequestParser::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// One whole request is in the `Args`; it took the first `consumed` bytes of the buffer.
    Complete {
        /// How many bytes the request took.
        consumed: usize,
    },
    /// The buffer ends inside the request.
    Incomplete {
        /// At least this many more bytes are needed, never 0: what to reserve before the next read.
        need: usize,
    },
}

/// A request that breaks the protocol. The server replies with it and closes the connection: the bytes after
/// it cannot be parsed. `Display` gives Redis 7's text without `ERR `. Replies use
/// [`ReplyWriter::protocol_error`](crate::ReplyWriter::protocol_error), which does not need UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The number of arguments is invalid, or above the limit.
    #[error("Protocol error: invalid multibulk length")]
    InvalidMultibulkLength,
    /// An argument's length is invalid, negative, or above the limit.
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// An argument that does not fit the server's memory. (Ours: Redis reads it all first.)
    #[error("Protocol error: an argument of {length} bytes is more than the server can take ({most})")]
    ExceedsMemory {
        /// The announced length.
        length: usize,
        /// The longest that fits.
        most: usize,
    },
    /// The first bytes of a TLS handshake. (Ours: Redis waits for a line end.)
    #[error("Protocol error: this port does not speak TLS")]
    Tls,
    /// A request that starts with neither `*` nor a printable character. (Ours: Redis waits for a line end.)
    #[error("Protocol error: expected '*' or a command, got byte 0x{0:02x}")]
    NotARequest(u8),
    /// More arguments than an unauthenticated connection may send.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    /// A longer argument than an unauthenticated connection may send.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// An inline request without an end.
    #[error("Protocol error: too big inline request")]
    TooBigInlineRequest,
    /// An array header without an end.
    #[error("Protocol error: too big mbulk count string")]
    TooBigMultibulkCount,
    /// A bulk string header without an end.
    #[error("Protocol error: too big bulk count string")]
    TooBigBulkCount,
    /// An argument that is no bulk string; it starts with this byte.
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0))]
    ExpectedBulk(u8),
    /// An inline request with a quote that is not closed, or is closed in the middle of a word.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// The whole request is above the limit. (Ours: Redis closes the connection without a reply.)
    #[error("Protocol error: request exceeds the query buffer limit")]
    QueryBufferLimit,
}

/// Where parsing of an unfinished request stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Between requests, or in the first line of one.
    FirstLine,
    /// Before the header of the next argument.
    BulkHeader { arguments_left: usize },
    /// In the bytes of the next argument.
    Bulk { arguments_left: usize, length: usize },
}

/// Reads requests from a buffer, one per call, in one pass.
///
/// Call [`parse`](Self::parse) with the buffer from the first byte after the previous request. After
/// `Complete`, continue after it. After `Incomplete`, call again with the same bytes (they may have moved)
/// and more after them: the parser resumes where it stopped. After an error the connection can only be
/// closed.
///
/// Like Redis, the parser ignores which bytes are in place of a header's `\n` and an argument's CRLF.
#[derive(Debug)]
pub struct RequestParser {
    limits: Limits,
    is_authenticated: bool,
    /// The longest argument that is accepted without a further check, under the current limits.
    longest_bulk: usize,
    stage: Stage,
    /// Start of the unfinished part, in bytes from the start of the request.
    at: usize,
    /// No line end is before this index.
    searched: usize,
    /// The arguments of an unfinished request. The caller's `Args` serve other connections meanwhile.
    spans: Vec<Span>,
}

impl RequestParser {
    /// A parser for one connection that needs no authentication.
    ///
    /// # Panics
    /// If `limits.query_buffer_bytes` is above `u32::MAX`.
    pub fn new(limits: Limits) -> RequestParser {
        assert!(limits.query_buffer_bytes <= u32::MAX as usize, "arguments are ranges of 32-bit numbers");
        RequestParser {
            longest_bulk: limits.bulk_bytes.min(limits.held_bytes),
            limits,
            is_authenticated: true,
            stage: Stage::FirstLine,
            at: 0,
            searched: 0,
            spans: Vec::new(),
        }
    }

    /// Sets whether the peer is authenticated (or need not be): if not, the tighter limits apply.
    #[inline]
    pub fn set_authenticated(&mut self, is_authenticated: bool) {
        let before = if is_authenticated { usize::MAX } else { self.limits.unauthenticated_bulk_bytes };
        self.longest_bulk = self.limits.bulk_bytes.min(self.limits.held_bytes).min(before);
        self.is_authenticated = is_authenticated;
    }

    /// How many bytes it keeps of an unfinished request.
    #[inline]
    pub fn kept_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }

    /// Forgets an unfinished request. The next call of [`parse`](Self::parse) gets a buffer that starts with
    /// another request, or with the same one again: callers that read ahead can undo it.
    pub fn restart(&mut self) {
        self.stage = Stage::FirstLine;
        self.at = 0;
        self.searched = 0;
        self.spans.clear();
    }

    /// Parses the request at the start of the buffer.
    ///
    /// # Errors
    /// [`ProtocolError`] as soon as the bytes cannot start a request.
    #[inline]
    pub fn parse(&mut self, buffer: &[u8], args: &mut Args) -> Result<Parsed, ProtocolError> {
        args.clear();
        match self.stage {
            Stage::FirstLine => match buffer {
                [] => Ok(Parsed::Incomplete { need: 1 }),
                [b'*', rest @ ..] => {
                    let (arguments, after) = match quick_length(rest) {
                        Some((number, length)) => (self.check_arguments(number as i64)?, 1 + length),
                        None => match self.array_header(buffer)? {
                            Some(header) => header,
                            None => return Ok(Parsed::Incomplete { need: 1 }),
                        },
                    };
                    self.searched = 0;
                    self.bulks(buffer, after, arguments, None, args)
                }
                _ => self.inline(buffer, args),
            },
            Stage::BulkHeader { arguments_left } => {
                std::mem::swap(&mut args.spans, &mut self.spans);
                self.bulks(buffer, self.at, arguments_left, None, args)
            }
            Stage::Bulk { arguments_left, length } => {
                // The argument is read only once it is complete: a large one arrives in many pieces.
                if buffer.len() < self.at + length + 2 {
                    return Ok(Parsed::Incomplete { need: self.at + length + 2 - buffer.len() });
                }
                std::mem::swap(&mut args.spans, &mut self.spans);
                self.bulks(buffer, self.at, arguments_left, Some(length), args)
            }
        }
    }

    /// The hot loop: reads arguments until the request ends or the buffer does.
    #[inline]
    fn bulks(
        &mut self,
        buffer: &[u8],
        mut at: usize,
        mut arguments_left: usize,
        mut length: Option<usize>,
        args: &mut Args,
    ) -> Result<Parsed, ProtocolError> {
        while arguments_left > 0 {
            let bulk = match length.take() {
                Some(bulk) => bulk,
                None => {
                    let quick = match buffer.get(at..) {
                        Some([b'$', rest @ ..]) => quick_length(rest),
                        _ => None,
                    };
                    let (bulk, after) = match quick {
                        Some((number, length)) => (number, at + 1 + length),
                        None => match self.bulk_header(buffer, at)? {
                            Some(header) => header,
                            None => return Ok(self.pause(Stage::BulkHeader { arguments_left }, at, 1, args)),
                        },
                    };
                    at = after;
                    self.check_bulk(bulk, at)?;
                    bulk
                }
            };
            let end = at + bulk + 2;
            if buffer.len() < end {
                let stage = Stage::Bulk { arguments_left, length: bulk };
                return Ok(self.pause(stage, at, end - buffer.len(), args));
            }
            args.push(at, bulk);
            at = end;
            arguments_left -= 1;
        }
        self.stage = Stage::FirstLine;
        self.searched = 0;
        Ok(Parsed::Complete { consumed: at })
    }

    #[cold]
    fn pause(&mut self, stage: Stage, at: usize, need: usize, args: &mut Args) -> Parsed {
        self.stage = stage;
        self.at = at;
        std::mem::swap(&mut args.spans, &mut self.spans);
        args.spans.clear();
        Parsed::Incomplete { need }
    }

    #[inline]
    fn check_arguments(&self, number: i64) -> Result<usize, ProtocolError> {
        // As in Redis, a negative number of arguments is a request without any.
        let number = usize::try_from(number).unwrap_or(0);
        if number > self.limits.arguments {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        if !self.is_authenticated && number > self.limits.unauthenticated_arguments {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        Ok(number)
    }

    #[inline]
    fn check_bulk(&self, length: usize, at: usize) -> Result<(), ProtocolError> {
        if length > self.longest_bulk || at + length + 2 > self.limits.query_buffer_bytes {
            return Err(self.refuse_bulk(length));
        }
        Ok(())
    }

    #[cold]
    fn refuse_bulk(&self, length: usize) -> ProtocolError {
        if length > self.limits.bulk_bytes {
            ProtocolError::InvalidBulkLength
        } else if !self.is_authenticated && length > self.limits.unauthenticated_bulk_bytes {
            ProtocolError::UnauthenticatedBulkLength
        } else if length > self.limits.held_bytes {
            ProtocolError::ExceedsMemory { length, most: self.limits.held_bytes }
        } else {
            ProtocolError::QueryBufferLimit
        }
    }

    /// Parses the array header at the start; returns the index after it. Handles every number that
    /// [`quick_length`] does not.
    #[cold]
    fn array_header(&mut self, buffer: &[u8]) -> Result<Option<(usize, usize)>, ProtocolError> {
        let Some(end) = self.line_end(buffer, 0, ProtocolError::TooBigMultibulkCount)? else {
            return Ok(None);
        };
        let number = parse_integer(&buffer[1..end]).ok_or(ProtocolError::InvalidMultibulkLength)?;
        Ok(Some((self.check_arguments(number)?, end + 2)))
    }

    /// The same for the bulk header at `at`.
    #[cold]
    fn bulk_header(&mut self, buffer: &[u8], at: usize) -> Result<Option<(usize, usize)>, ProtocolError> {
        let Some(end) = self.line_end(buffer, at, ProtocolError::TooBigBulkCount)? else { return Ok(None) };
        if buffer[at] != b'$' {
            return Err(ProtocolError::ExpectedBulk(buffer[at]));
        }
        let number = parse_integer(&buffer[at + 1..end]).ok_or(ProtocolError::InvalidBulkLength)?;
        let number = usize::try_from(number).map_err(|_| ProtocolError::InvalidBulkLength)?;
        Ok(Some((number, end + 2)))
    }

    /// Index of the `\r` of the line at `start`, once the next byte has arrived, too. The limit applies to
    /// the line, not (as in Redis) to the buffer, so the result does not depend on how the request was split.
    fn line_end(
        &mut self,
        buffer: &[u8],
        start: usize,
        too_big: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let from = start.max(self.searched).min(buffer.len());
        let until = buffer.len().min(start + self.limits.inline_bytes + 1);
        match buffer[from..until.max(from)].iter().position(|&byte| byte == b'\r') {
            Some(offset) if from + offset + 1 < buffer.len() => Ok(Some(from + offset)),
            Some(offset) => {
                self.searched = from + offset;
                Ok(None)
            }
            None if buffer.len() > start + self.limits.inline_bytes => Err(too_big),
            None => {
                self.searched = buffer.len();
                Ok(None)
            }
        }
    }

    #[cold]
    fn inline(&mut self, buffer: &[u8], args: &mut Args) -> Result<Parsed, ProtocolError> {
        match buffer[0] {
            // A TLS handshake record: the client waits for an answer that is no line.
            0x16 => return Err(ProtocolError::Tls),
            b'\t' | b'\n' | b'\r' | b' '..=b'~' => {}
            other => return Err(ProtocolError::NotARequest(other)),
        }
        let until = buffer.len().min(self.limits.inline_bytes + 1);
        let from = self.searched.min(until);
        let Some(offset) = buffer[from..until].iter().position(|&byte| byte == b'\n') else {
            if buffer.len() > self.limits.inline_bytes {
                return Err(ProtocolError::TooBigInlineRequest);
            }
            self.searched = until;
            return Ok(Parsed::Incomplete { need: 1 });
        };
        let end = from + offset;
        let line = &buffer[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        split_line(line, args).map_err(|_| ProtocolError::UnbalancedQuotes)?;
        self.searched = 0;
        Ok(Parsed::Complete { consumed: end + 1 })
    }
}
