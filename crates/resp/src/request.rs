//! The request parser: arrays of bulk strings and inline lines, in one pass over a buffer that may still
//! grow.

use crate::args::{Args, Span};
use crate::decimal::{parse_integer, quick_length};
use crate::inline::split_line;
use crate::limits::Limits;

/// What a call of [`RequestParser::parse`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// One whole request stands in the `Args`; it took the first `consumed` bytes of the buffer.
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

/// A request that breaks the protocol. The server replies with it and closes the connection: nothing behind
/// the request can be understood. `Display` gives Redis 7's text without its `ERR `; a reply should be
/// written by [`ReplyWriter::protocol_error`](crate::ReplyWriter::protocol_error), which does not need UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The number of arguments is no number, or above the limit.
    #[error("Protocol error: invalid multibulk length")]
    InvalidMultibulkLength,
    /// An argument's length is no number, negative, or above the limit.
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// An argument that the server's memory could not hold. (Ours: Redis would read it all first.)
    #[error("Protocol error: an argument of {length} bytes is more than the server can take ({most})")]
    ExceedsMemory {
        /// The length that was announced.
        length: usize,
        /// The longest that can be taken.
        most: usize,
    },
    /// The first bytes of a TLS handshake. (Ours: Redis would wait for a line to end.)
    #[error("Protocol error: this port does not speak TLS")]
    Tls,
    /// A request that starts with neither `*` nor a printable character. (Ours: Redis would wait for a line
    /// to end.)
    #[error("Protocol error: expected '*' or a command, got byte 0x{0:02x}")]
    NotARequest(u8),
    /// More arguments than a connection may send before it has given the password.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    /// A longer argument than a connection may send before it has given the password.
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
    /// An argument that is no bulk string starts with this byte.
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0))]
    ExpectedBulk(u8),
    /// An inline request with a quote that is not closed, or is closed in the middle of a word.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// The whole request is above the limit. (Redis closes the connection without a word; this text is ours.)
    #[error("Protocol error: request exceeds the query buffer limit")]
    QueryBufferLimit,
}

/// Where a request that has not ended yet was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Between requests, or in the first line of one.
    FirstLine,
    /// Before the header of the next argument.
    BulkHeader { arguments_left: usize },
    /// In the bytes of the next argument.
    Bulk { arguments_left: usize, length: usize },
}

/// Reads requests off a buffer, one per call, in one pass.
///
/// Call [`parse`](Self::parse) with the buffer from the first byte behind the previous request. After
/// `Complete`, go on behind it. After `Incomplete`, call again with the same bytes (they may have been moved)
/// and more behind them: the parser goes on where it stopped. After an error the connection can only be
/// closed.
///
/// Like Redis, the parser does not look at the bytes that stand where `\n` of a header or CRLF of an argument
/// belong.
#[derive(Debug)]
pub struct RequestParser {
    limits: Limits,
    is_authenticated: bool,
    /// The longest argument that is taken without a second look: what the limits come to at present.
    longest_bulk: usize,
    stage: Stage,
    /// Where the unfinished part starts, in bytes from the start of the request.
    at: usize,
    /// No line end stands before this place.
    searched: usize,
    /// The arguments of an unfinished request. The `Args` of the caller serve other connections meanwhile.
    spans: Vec<Span>,
}

impl RequestParser {
    /// A parser for one connection, which owes no password.
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

    /// Says whether the peer has given the password (or need not): if not, the tighter limits apply.
    #[inline]
    pub fn set_authenticated(&mut self, is_authenticated: bool) {
        let before = if is_authenticated { usize::MAX } else { self.limits.unauthenticated_bulk_bytes };
        self.longest_bulk = self.limits.bulk_bytes.min(self.limits.held_bytes).min(before);
        self.is_authenticated = is_authenticated;
    }

    /// How many bytes it keeps of a request that has not ended yet.
    #[inline]
    pub fn kept_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }

    /// Forgets the request that it stands inside of, if any: the next call of [`parse`](Self::parse) gets a
    /// buffer that starts with another request, or with the same one again. For callers that read ahead and
    /// take it back.
    pub fn restart(&mut self) {
        self.stage = Stage::FirstLine;
        self.at = 0;
        self.searched = 0;
        self.spans.clear();
    }

    /// Reads the request at the start of the buffer.
    ///
    /// # Errors
    /// [`ProtocolError`] as soon as the bytes so far cannot start a request.
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
                // Nothing is touched until the whole argument is here: a large one arrives in many pieces.
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

    /// The whole array header at the start, with the place behind it; every number that [`quick_length`]
    /// leaves.
    #[cold]
    fn array_header(&mut self, buffer: &[u8]) -> Result<Option<(usize, usize)>, ProtocolError> {
        let Some(end) = self.line_end(buffer, 0, ProtocolError::TooBigMultibulkCount)? else {
            return Ok(None);
        };
        let number = parse_integer(&buffer[1..end]).ok_or(ProtocolError::InvalidMultibulkLength)?;
        Ok(Some((self.check_arguments(number)?, end + 2)))
    }

    /// The whole bulk header at `at`, with the place behind it; every number that [`quick_length`] leaves.
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

    /// Where the `\r` of the line at `start` stands, once the byte behind it is here too. The limit is taken
    /// of the line, not (as in Redis) of what happens to be in the buffer, so how a request was cut up cannot
    /// matter.
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
            // A record of the kind "handshake": the client waits for an answer that is no line.
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
