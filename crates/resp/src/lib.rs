//! Redis protocol (RESP2 and RESP3) codecs without I/O.
//!
//! A server reads requests with [`RequestParser`] and answers with [`ReplyWriter`]; a client writes requests
//! with [`RequestWriter`] and reads replies with [`ReplyParser`]. Both parsers work on a byte buffer that the
//! caller owns and fills. They borrow from it and remember how far they have searched, so bytes that arrive
//! in many pieces are scanned once.
//!
//! Accepted input, refusals and error texts follow Redis 7.0.15. Items document where a text or a limit is
//! ours.

mod args;
mod decimal;
mod double;
mod inline;
mod likely_key;
mod limits;
mod reply;
mod reply_parser;
mod reply_writer;
mod request;
mod request_writer;
mod value;

pub use args::{Args, Slices};
pub use decimal::parse_integer;
pub use double::format_double;
pub use likely_key::likely_key;
pub use limits::{Limits, ReplyLimits};
pub use reply::{Items, Reply};
pub use reply_parser::{Frame, ParsedReply, ReplyError, ReplyParser};
pub use reply_writer::{ReplyWriter, RespVersion};
pub use request::{Parsed, ProtocolError, RequestParser};
pub use request_writer::RequestWriter;
pub use value::Value;
