//! Replies as views of the buffer they arrived in.

use crate::decimal::{parse_double, parse_integer};
use crate::value::Value;

/// One reply, borrowed from bytes that a [`ReplyParser`](crate::ReplyParser) has checked.
#[derive(Clone, Copy, Debug)]
pub enum Reply<'b> {
    /// No value, in any of its three spellings.
    Null,
    /// A simple string.
    Simple(&'b [u8]),
    /// An error, simple or bulk.
    Error(&'b [u8]),
    /// An integer.
    Integer(i64),
    /// A bulk string.
    Bulk(&'b [u8]),
    /// A double.
    Double(f64),
    /// A boolean.
    Boolean(bool),
    /// The digits of an integer of any length.
    BigNumber(&'b [u8]),
    /// A text with its format.
    Verbatim {
        /// Three letters: `txt`, `mkd`.
        format: [u8; 3],
        /// The text itself.
        text: &'b [u8],
    },
    /// An array.
    Array(Items<'b>),
    /// A map: keys and values in turn.
    Map(Items<'b>),
    /// A set.
    Set(Items<'b>),
    /// A server push, which answers no request.
    Push(Items<'b>),
}

/// The elements of an aggregate; attributes between them are skipped.
#[derive(Clone, Copy, Debug)]
pub struct Items<'b> {
    left: u64,
    /// Starts at the next element; may extend past the last.
    bytes: &'b [u8],
}

impl<'b> Reply<'b> {
    /// The bytes of a string, simple, bulk or verbatim; `None` for anything else.
    #[inline]
    pub fn as_bytes(self) -> Option<&'b [u8]> {
        match self {
            Reply::Bulk(bytes) | Reply::Simple(bytes) | Reply::Verbatim { text: bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// Copies the reply into an owned value.
    pub fn to_value(self) -> Value {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self {
            Reply::Null => Value::Null,
            Reply::Simple(bytes) => Value::Simple(text(bytes)),
            Reply::Error(bytes) => Value::Error(text(bytes)),
            Reply::Integer(number) => Value::Integer(number),
            Reply::Bulk(bytes) => Value::Bulk(bytes.to_vec()),
            Reply::Double(number) => Value::Double(number),
            Reply::Boolean(truth) => Value::Boolean(truth),
            Reply::BigNumber(digits) => Value::BigNumber(text(digits)),
            Reply::Verbatim { format, text } => Value::Verbatim { format, text: text.to_vec() },
            Reply::Array(items) => Value::Array(items.map(Reply::to_value).collect()),
            Reply::Set(items) => Value::Set(items.map(Reply::to_value).collect()),
            Reply::Push(items) => Value::Push(items.map(Reply::to_value).collect()),
            Reply::Map(items) => {
                Value::Map(items.pairs().map(|(k, v)| (k.to_value(), v.to_value())).collect())
            }
        }
    }

    /// The reply at the start of checked bytes, and the length of its value, or of its header if it is an
    /// aggregate.
    #[inline]
    pub(crate) fn decode(bytes: &'b [u8]) -> (Reply<'b>, usize) {
        let line_end = bytes.iter().position(|&byte| byte == b'\r').expect("checked: a line has an end");
        let (line, after) = (&bytes[1..line_end], line_end + 2);
        let string = || {
            let length = number(line) as usize;
            (&bytes[after..after + length], after + length + 2)
        };
        let items =
            |per_element: u64| Items { left: number(line) as u64 * per_element, bytes: &bytes[after..] };
        let reply = match bytes[0] {
            b'$' | b'*' if line == b"-1" => Reply::Null,
            b'$' => {
                let (text, end) = string();
                return (Reply::Bulk(text), end);
            }
            b'!' => {
                let (text, end) = string();
                return (Reply::Error(text), end);
            }
            b'=' => {
                let (text, end) = string();
                let format = [text[0], text[1], text[2]];
                return (Reply::Verbatim { format, text: &text[4..] }, end);
            }
            b'+' => Reply::Simple(line),
            b'-' => Reply::Error(line),
            b':' => Reply::Integer(number(line.strip_prefix(b"+").unwrap_or(line))),
            b',' => Reply::Double(parse_double(line).expect("checked: a double")),
            b'#' => Reply::Boolean(line == b"t"),
            b'_' => Reply::Null,
            b'(' => Reply::BigNumber(line),
            b'*' => Reply::Array(items(1)),
            b'~' => Reply::Set(items(1)),
            b'>' => Reply::Push(items(1)),
            b'%' => Reply::Map(items(2)),
            other => unreachable!("checked: no reply starts with {other:#04x}"),
        };
        (reply, after)
    }

    fn items(&self) -> u64 {
        match self {
            Reply::Array(items) | Reply::Map(items) | Reply::Set(items) | Reply::Push(items) => items.left,
            _ => 0,
        }
    }
}

#[inline]
fn number(line: &[u8]) -> i64 {
    parse_integer(line).expect("checked: an integer")
}

impl<'b> Items<'b> {
    /// The elements as keys with their values.
    pub fn pairs(mut self) -> impl Iterator<Item = (Reply<'b>, Reply<'b>)> {
        std::iter::from_fn(move || Some((self.next()?, self.next()?)))
    }

    /// The pairs of the attribute at the start of checked bytes, and its length in bytes.
    pub(crate) fn of_attribute(bytes: &'b [u8]) -> (Items<'b>, usize) {
        let line_end = bytes.iter().position(|&byte| byte == b'\r').expect("checked: a line has an end");
        let items = Items { left: 2 * number(&bytes[1..line_end]) as u64, bytes: &bytes[line_end + 2..] };
        (items, line_end + 2 + skip(items.bytes, items.left))
    }

    /// Skips attributes before the next element.
    fn skip_attributes(&mut self) {
        while self.bytes.first() == Some(&b'|') {
            let (_, length) = Items::of_attribute(self.bytes);
            self.bytes = &self.bytes[length..];
        }
    }
}

impl<'b> Iterator for Items<'b> {
    type Item = Reply<'b>;

    fn next(&mut self) -> Option<Reply<'b>> {
        self.left = self.left.checked_sub(1)?;
        self.skip_attributes();
        let (reply, length) = Reply::decode(self.bytes);
        let inside = skip(&self.bytes[length..], reply.items());
        self.bytes = &self.bytes[length + inside..];
        Some(reply)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Items<'_> {}

/// The length in bytes of the next `values`, nested values included.
fn skip(bytes: &[u8], mut values: u64) -> usize {
    let mut at = 0;
    while values > 0 {
        if bytes[at] == b'|' {
            let line_end =
                at + bytes[at..].iter().position(|&b| b == b'\r').expect("checked: a line has an end");
            values += 2 * number(&bytes[at + 1..line_end]) as u64;
            at = line_end + 2;
            continue;
        }
        let (reply, length) = Reply::decode(&bytes[at..]);
        values = values - 1 + reply.items();
        at += length;
    }
    at
}
