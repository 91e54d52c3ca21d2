//! Errors that commands reply with, in Redis's wording: clients match on it.

use std::borrow::Cow;
use std::fmt;

/// An error reply. The command that returns one had no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// Options that do not parse or exclude each other.
    Syntax,
    /// The command is for values of another type.
    WrongType,
    /// An argument or a stored value is not a 64-bit integer.
    NotAnInteger,
    /// An integer beyond what the command takes.
    OutOfRange,
    /// An argument or a stored value is not a number.
    NotAFloat,
    /// An expiry of this command that is not positive or is out of range.
    InvalidExpire(&'static str),
    /// The number of arguments does not fit the named command.
    WrongArity(&'static str),
    /// The value would exceed the size limit of strings.
    StringTooLong,
    /// The log has no room; reads and deletions still work.
    OutOfMemory,
    /// The connection is not authenticated.
    NoAuth,
    /// The password or the user is wrong.
    WrongPass,
    /// Any other text, error code first. Bytes, since some quote the client.
    Text(Cow<'static, [u8]>),
}

impl ReplyError {
    /// An integer that has no opposite, where one is needed.
    pub(crate) const NO_OPPOSITE: ReplyError = ReplyError::text(
        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    );

    /// An error with a fixed text, error code first.
    pub const fn text(text: &'static str) -> ReplyError {
        ReplyError::Text(Cow::Borrowed(text.as_bytes()))
    }

    /// An error with a dynamic text, error code first.
    pub fn owned(text: impl Into<Vec<u8>>) -> ReplyError {
        ReplyError::Text(Cow::Owned(text.into()))
    }

    /// Redis's error for a request whose subcommand has the wrong arguments.
    pub fn wrong_subcommand(args: &[&[u8]]) -> ReplyError {
        let (command, subcommand) = (args[0].to_ascii_uppercase(), args[1]);
        let words: [&[u8]; 5] = [
            b"ERR unknown subcommand or wrong number of arguments for '",
            subcommand,
            b"'. Try ",
            &command,
            b" HELP.",
        ];
        ReplyError::owned(words.concat())
    }

    /// The error code before the first space, as counted by INFO's errorstats.
    pub fn code(&self) -> Cow<'_, str> {
        match self {
            ReplyError::OutOfMemory => "OOM".into(),
            ReplyError::WrongType => "WRONGTYPE".into(),
            ReplyError::NoAuth => "NOAUTH".into(),
            ReplyError::WrongPass => "WRONGPASS".into(),
            ReplyError::Text(text) => {
                let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
                String::from_utf8_lossy(&text[..end])
            }
            _ => "ERR".into(),
        }
    }
}

impl ReplyError {
    /// The text on the wire, without framing: always one line.
    pub fn line(&self) -> Cow<'_, [u8]> {
        match self {
            ReplyError::Text(text) if text.iter().any(|byte| matches!(byte, b'\r' | b'\n')) => {
                let blank = |&byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
                text.iter().map(blank).collect::<Vec<u8>>().into()
            }
            ReplyError::Text(text) => Cow::Borrowed(text),
            other => other.to_string().into_bytes().into(),
        }
    }
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::Syntax => f.write_str("ERR syntax error"),
            ReplyError::WrongType => {
                f.write_str("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            ReplyError::NotAnInteger => f.write_str("ERR value is not an integer or out of range"),
            ReplyError::OutOfRange => f.write_str("ERR value is out of range"),
            ReplyError::NotAFloat => f.write_str("ERR value is not a valid float"),
            ReplyError::InvalidExpire(command) => {
                write!(f, "ERR invalid expire time in '{command}' command")
            }
            ReplyError::WrongArity(command) => {
                write!(f, "ERR wrong number of arguments for '{command}' command")
            }
            ReplyError::StringTooLong => {
                f.write_str("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
            }
            ReplyError::OutOfMemory => f.write_str("OOM command not allowed when used memory > 'maxmemory'."),
            ReplyError::NoAuth => f.write_str("NOAUTH Authentication required."),
            ReplyError::WrongPass => {
                f.write_str("WRONGPASS invalid username-password pair or user is disabled.")
            }
            ReplyError::Text(text) => f.write_str(&String::from_utf8_lossy(text)),
        }
    }
}
