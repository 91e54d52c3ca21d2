//! Limits on the memory that one peer can make the other use.

/// The limits of a [`RequestParser`](crate::RequestParser). The defaults are Redis's, except `arguments`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest inline request, and the longest header line of an array or a bulk string.
    pub inline_bytes: usize,
    /// The most arguments of a request. (Redis 7 raised its limit of 1 Mi to 2^31 - 1. Ours stays: each
    /// argument costs memory before the command is known.)
    pub arguments: usize,
    /// The longest argument.
    pub bulk_bytes: usize,
    /// The longest argument that fits the server's memory, if that is less than `bulk_bytes`.
    pub held_bytes: usize,
    /// The most bytes of one whole request. At most `u32::MAX`: argument ranges are 32-bit.
    pub query_buffer_bytes: usize,
    /// The most arguments while the connection is not authenticated.
    pub unauthenticated_arguments: usize,
    /// The longest argument while the connection is not authenticated.
    pub unauthenticated_bulk_bytes: usize,
}

impl Limits {
    /// Redis's `PROTO_INLINE_MAX_SIZE`.
    pub const INLINE_BYTES: usize = 64 << 10;
    /// Redis's limit before version 7.
    pub const ARGUMENTS: usize = 1 << 20;
    /// Redis's default `proto-max-bulk-len`.
    pub const BULK_BYTES: usize = 512 << 20;
    /// Redis's default `client-query-buffer-limit`.
    pub const QUERY_BUFFER_BYTES: usize = 1 << 30;
    /// Redis's limit before authentication.
    pub const UNAUTHENTICATED_ARGUMENTS: usize = 10;
    /// Redis's limit before authentication.
    pub const UNAUTHENTICATED_BULK_BYTES: usize = 16 << 10;
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            inline_bytes: Limits::INLINE_BYTES,
            arguments: Limits::ARGUMENTS,
            bulk_bytes: Limits::BULK_BYTES,
            held_bytes: usize::MAX,
            query_buffer_bytes: Limits::QUERY_BUFFER_BYTES,
            unauthenticated_arguments: Limits::UNAUTHENTICATED_ARGUMENTS,
            unauthenticated_bulk_bytes: Limits::UNAUTHENTICATED_BULK_BYTES,
        }
    }
}

/// The limits of a [`ReplyParser`](crate::ReplyParser).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// The longest line: a simple string, an error, a number or a header.
    pub line_bytes: usize,
    /// The longest bulk string.
    pub bulk_bytes: usize,
    /// The most elements of one aggregate.
    pub elements: usize,
    /// How deep aggregates may nest; 0 allows none.
    pub depth: usize,
    /// The most bytes of one whole reply, attributes included.
    pub reply_bytes: usize,
}

impl ReplyLimits {
    /// The default of `line_bytes`.
    pub const LINE_BYTES: usize = 64 << 10;
    /// The default of `bulk_bytes`: the longest value there is.
    pub const BULK_BYTES: usize = 512 << 20;
    /// The default of `elements`.
    pub const ELEMENTS: usize = 16 << 20;
    /// The default of `depth`.
    pub const DEPTH: usize = 32;
    /// The default of `reply_bytes`.
    pub const REPLY_BYTES: usize = 2 << 30;
}

impl Default for ReplyLimits {
    fn default() -> ReplyLimits {
        ReplyLimits {
            line_bytes: ReplyLimits::LINE_BYTES,
            bulk_bytes: ReplyLimits::BULK_BYTES,
            elements: ReplyLimits::ELEMENTS,
            depth: ReplyLimits::DEPTH,
            reply_bytes: ReplyLimits::REPLY_BYTES,
        }
    }
}
