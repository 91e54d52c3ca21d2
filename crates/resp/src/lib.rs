//! Redis protocol (RESP2 and RESP3) codecs, without input or output.
//!
//! The server's side reads requests with [`RequestParser`] and answers with [`ReplyWriter`]; the client's
//! side writes requests with [`RequestWriter`] and reads replies with [`ReplyParser`]. Both parsers work on a
//! byte buffer that the caller owns and fills: they borrow from it, never copy what they can point at, and
//! remember how far they have looked, so a request that arrives in a thousand pieces is still looked at once.
//!
//! What is accepted, what is refused and in which words follows Redis 7.0.15; where a text or a limit is
//! ours, the item says so.

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
