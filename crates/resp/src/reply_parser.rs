//! The reply parser: finds the end of each reply in one pass over a growing buffer, and validates it.

use crate::decimal::{parse_double, parse_integer, quick_length};
use crate::limits::ReplyLimits;
use crate::reply::{Items, Reply};
use smallvec::SmallVec;

/// A reply that breaks the protocol or a limit; the bytes after it cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// Unknown type byte.
    #[error("a reply starts with the unknown type byte {0:#04x}")]
    UnknownType(u8),
    /// An invalid length, number, boolean or null.
    #[error("a reply of type '{}' is malformed", char::from(*.0))]
    Malformed(u8),
    /// A line or a string that does not end in CRLF.
    #[error("a line end is missing in a reply")]
    MissingLineEnd,
    /// A string or aggregate of unknown length (`$?`, `*?`). No Redis-like server sends them.
    #[error("a reply is streamed, which this client does not read")]
    Streamed,
    /// One of [`ReplyLimits`] is exceeded.
    #[error("a reply exceeds the limit of {0}")]
    Limit(&'static str),
}

/// The result of [`ReplyParser::parse`].
#[derive(Debug)]
pub enum ParsedReply<'b> {
    /// One whole reply, which took the first `consumed` bytes of the buffer.
    Complete {
        /// The reply, borrowed from the buffer.
        frame: Frame<'b>,
        /// How many bytes it took.
        consumed: usize,
    },
    /// The buffer ends inside the reply.
    Incomplete {
        /// At least this many more bytes are needed, never 0: what to reserve before the next read.
        need: usize,
    },
}

/// A reply with the attributes before it.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'b> {
    attributes: &'b [u8],
    /// The reply itself.
    pub reply: Reply<'b>,
}

impl<'b> Frame<'b> {
    /// Whether any attribute stood before the reply.
    #[inline]
    pub fn has_attributes(&self) -> bool {
        !self.attributes.is_empty()
    }

    /// How many bytes the attributes took.
    #[inline]
    pub fn attribute_bytes(&self) -> usize {
        self.attributes.len()
    }

    /// The attributes as keys with their values, in the order they were sent.
    pub fn attributes(&self) -> impl Iterator<Item = (Reply<'b>, Reply<'b>)> + use<'b> {
        let mut rest = self.attributes;
        let mut items: Option<Items<'b>> = None;
        std::iter::from_fn(move || {
            loop {
                if let Some(key) = items.as_mut().and_then(Iterator::next) {
                    let value = items.as_mut().and_then(Iterator::next).expect("attributes come in pairs");
                    return Some((key, value));
                }
                if rest.is_empty() {
                    return None;
                }
                let (attribute, length) = Items::of_attribute(rest);
                items = Some(attribute);
                rest = &rest[length..];
            }
        })
    }
}

/// An unfinished aggregate.
#[derive(Clone, Copy, Debug)]
struct Level {
    elements_left: u64,
    is_attribute: bool,
}

/// Reads replies of RESP2 and RESP3 from a buffer, one per call, in one pass.
///
/// Call [`parse`](Self::parse) with the buffer from the first byte after the previous reply. After
/// `Incomplete`, call again with the same bytes (they may have moved) and more after them: the parser resumes
/// where it stopped. After an error the connection can only be closed.
#[derive(Debug)]
pub struct ReplyParser {
    limits: ReplyLimits,
    /// Start of the part not parsed yet, in bytes from the start of the reply.
    at: usize,
    /// No line end is before this index.
    searched: usize,
    /// End of the attributes before the reply.
    attributes_end: usize,
    open: SmallVec<[Level; 4]>,
}

/// The item at one index of the buffer.
enum Step {
    /// A whole value that ends here.
    Value { end: usize },
    /// The header of an aggregate, ending here.
    Open { end: usize, elements: u64, is_attribute: bool },
    /// The buffer ends first.
    More { need: usize },
}

impl ReplyParser {
    /// A parser for one connection.
    pub fn new(limits: ReplyLimits) -> ReplyParser {
        ReplyParser { limits, at: 0, searched: 0, attributes_end: 0, open: SmallVec::new() }
    }

    /// Parses the reply at the start of the buffer, with the attributes before it.
    ///
    /// # Errors
    /// [`ReplyError`] as soon as the bytes cannot start a reply within the limits.
    #[inline]
    pub fn parse<'b>(&mut self, buffer: &'b [u8]) -> Result<ParsedReply<'b>, ReplyError> {
        if let [b'$', rest @ ..] = buffer
            && self.at == 0
            && let Some(bulk) = self.whole_bulk(rest)
        {
            return Ok(bulk);
        }
        loop {
            match self.step(buffer)? {
                Step::More { need } => return Ok(ParsedReply::Incomplete { need }),
                Step::Open { end, elements, is_attribute } => {
                    self.at = end;
                    if elements > 0 {
                        self.open(elements, is_attribute)?;
                        continue;
                    }
                    if is_attribute {
                        self.attribute_ended();
                        continue;
                    }
                }
                Step::Value { end } => self.at = end,
            }
            if self.at > self.limits.reply_bytes {
                return Err(ReplyError::Limit("bytes of a reply"));
            }
            if self.value_ended() {
                let consumed = self.at;
                let attributes = &buffer[..self.attributes_end];
                let (reply, _) = Reply::decode(&buffer[self.attributes_end..consumed]);
                (self.at, self.searched, self.attributes_end) = (0, 0, 0);
                return Ok(ParsedReply::Complete { frame: Frame { attributes, reply }, consumed });
            }
        }
    }

    /// A complete bulk string without attributes: most replies. Everything else, errors included, is left to
    /// the slow path. `rest` starts after the `$`.
    #[inline]
    fn whole_bulk<'b>(&mut self, rest: &'b [u8]) -> Option<ParsedReply<'b>> {
        let (length, start) = quick_length(rest)?;
        let end = start + length;
        if length > self.limits.bulk_bytes
            || 1 + end + 2 > self.limits.reply_bytes
            || rest.get(start - 1) != Some(&b'\n')
            || rest.get(end..end + 2) != Some(b"\r\n")
        {
            return None;
        }
        self.searched = 0;
        let frame = Frame { attributes: &[], reply: Reply::Bulk(&rest[start..end]) };
        Some(ParsedReply::Complete { frame, consumed: 1 + end + 2 })
    }

    #[cold]
    fn open(&mut self, elements: u64, is_attribute: bool) -> Result<(), ReplyError> {
        if self.open.len() == self.limits.depth {
            return Err(ReplyError::Limit("nesting"));
        }
        self.open.push(Level { elements_left: elements, is_attribute });
        Ok(())
    }

    /// Records the end of a value; returns whether it ends the whole reply.
    #[inline]
    fn value_ended(&mut self) -> bool {
        while let Some(level) = self.open.last_mut() {
            level.elements_left -= 1;
            if level.elements_left > 0 {
                return false;
            }
            let was_attribute = level.is_attribute;
            self.open.pop();
            if was_attribute {
                // An attribute is no value: the value it belongs to follows.
                self.attribute_ended();
                return false;
            }
        }
        true
    }

    fn attribute_ended(&mut self) {
        if self.open.is_empty() {
            self.attributes_end = self.at;
        }
    }

    #[inline]
    fn step(&mut self, buffer: &[u8]) -> Result<Step, ReplyError> {
        let start = self.at;
        let Some(&kind) = buffer.get(start) else { return Ok(Step::More { need: 1 }) };
        if !b"$+:-*_%|>,#~=!(".contains(&kind) {
            return Err(ReplyError::UnknownType(kind));
        }
        let Some(line_end) = self.line_end(buffer, start)? else { return Ok(Step::More { need: 1 }) };
        let line = &buffer[start + 1..line_end];
        let end = line_end + 2;
        let is_well_formed = match kind {
            b'$' | b'=' | b'!' => return self.string(buffer, kind, line, end),
            b'*' | b'~' | b'>' | b'%' | b'|' => return self.aggregate(kind, line, end),
            b'+' | b'-' => true,
            b':' => parse_integer(line.strip_prefix(b"+").unwrap_or(line)).is_some(),
            b',' => parse_double(line).is_some(),
            b'#' => matches!(line, b"t" | b"f"),
            b'_' => line.is_empty(),
            _ => is_big_number(line),
        };
        if is_well_formed { Ok(Step::Value { end }) } else { Err(ReplyError::Malformed(kind)) }
    }

    #[inline]
    fn string(&self, buffer: &[u8], kind: u8, line: &[u8], start: usize) -> Result<Step, ReplyError> {
        let length = match parse_integer(line) {
            Some(-1) if kind == b'$' => return Ok(Step::Value { end: start }),
            Some(length) => usize::try_from(length).map_err(|_| ReplyError::Malformed(kind))?,
            None if line == b"?" => return Err(ReplyError::Streamed),
            None => return Err(ReplyError::Malformed(kind)),
        };
        if length > self.limits.bulk_bytes {
            return Err(ReplyError::Limit("bytes of a string"));
        }
        let end = start + length + 2;
        if end > self.limits.reply_bytes {
            return Err(ReplyError::Limit("bytes of a reply"));
        }
        if buffer.len() < end {
            return Ok(Step::More { need: end - buffer.len() });
        }
        if buffer[end - 2..end] != *b"\r\n" {
            return Err(ReplyError::MissingLineEnd);
        }
        // A verbatim string starts with its format: three letters and a colon.
        if kind == b'=' && buffer[start..end - 2].get(3) != Some(&b':') {
            return Err(ReplyError::Malformed(kind));
        }
        Ok(Step::Value { end })
    }

    fn aggregate(&self, kind: u8, line: &[u8], end: usize) -> Result<Step, ReplyError> {
        let elements = match parse_integer(line) {
            Some(-1) if kind == b'*' => return Ok(Step::Value { end }),
            Some(elements) => u64::try_from(elements).map_err(|_| ReplyError::Malformed(kind))?,
            None if line == b"?" => return Err(ReplyError::Streamed),
            None => return Err(ReplyError::Malformed(kind)),
        };
        if elements > self.limits.elements as u64 {
            return Err(ReplyError::Limit("elements of an aggregate"));
        }
        let is_pairs = matches!(kind, b'%' | b'|');
        Ok(Step::Open { end, elements: elements << u32::from(is_pairs), is_attribute: kind == b'|' })
    }

    /// Index of the `\r` of the line at `start`, once its `\n` has arrived, too.
    #[inline]
    fn line_end(&mut self, buffer: &[u8], start: usize) -> Result<Option<usize>, ReplyError> {
        let from = start.max(self.searched);
        let until = buffer.len().min(start + self.limits.line_bytes + 1);
        let Some(offset) = buffer[from.min(until)..until].iter().position(|&byte| byte == b'\r') else {
            if buffer.len() > start + self.limits.line_bytes {
                return Err(ReplyError::Limit("bytes of a line"));
            }
            self.searched = until;
            return Ok(None);
        };
        let line_end = from + offset;
        // The line is rescanned while a string after it is incomplete; it is short.
        match buffer.get(line_end + 1) {
            Some(b'\n') => Ok(Some(line_end)),
            Some(_) => Err(ReplyError::MissingLineEnd),
            None => {
                self.searched = line_end;
                Ok(None)
            }
        }
    }
}

fn is_big_number(line: &[u8]) -> bool {
    let digits = line.strip_prefix(b"-").or_else(|| line.strip_prefix(b"+")).unwrap_or(line);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn parse(bytes: &[u8]) -> Result<(Value, usize), ReplyError> {
        match ReplyParser::new(ReplyLimits::default()).parse(bytes)? {
            ParsedReply::Complete { frame, consumed } => Ok((frame.reply.to_value(), consumed)),
            ParsedReply::Incomplete { need } => panic!("{} needs {need}", bytes.escape_ascii()),
        }
    }

    #[test]
    fn every_type_of_both_versions() {
        let bulk = |text: &str| Value::Bulk(text.into());
        for (bytes, value) in [
            (&b"+OK\r\n"[..], Value::Simple("OK".into())),
            (b"-ERR no\r\n", Value::Error("ERR no".into())),
            (b":-7\r\n", Value::Integer(-7)),
            (b":+7\r\n", Value::Integer(7)),
            (b"$2\r\na\r\r\n", bulk("a\r")),
            (b"$0\r\n\r\n", bulk("")),
            (b"$-1\r\n", Value::Null),
            (b"*-1\r\n", Value::Null),
            (b"_\r\n", Value::Null),
            (b"*0\r\n", Value::Array(vec![])),
            (
                b"*2\r\n*1\r\n:1\r\n+a\r\n",
                Value::Array(vec![Value::Array(vec![Value::Integer(1)]), Value::Simple("a".into())]),
            ),
            (b"%1\r\n$1\r\nk\r\n:1\r\n", Value::Map(vec![(bulk("k"), Value::Integer(1))])),
            (b"~1\r\n:1\r\n", Value::Set(vec![Value::Integer(1)])),
            (b">1\r\n:1\r\n", Value::Push(vec![Value::Integer(1)])),
            (b",1.5\r\n", Value::Double(1.5)),
            (b",-inf\r\n", Value::Double(f64::NEG_INFINITY)),
            (b"#t\r\n", Value::Boolean(true)),
            (b"#f\r\n", Value::Boolean(false)),
            (b"(-12345678901234567890\r\n", Value::BigNumber("-12345678901234567890".into())),
            (b"=6\r\ntxt:hi\r\n", Value::Verbatim { format: *b"txt", text: b"hi".to_vec() }),
            (b"!5\r\nERR a\r\n", Value::Error("ERR a".into())),
        ] {
            assert_eq!(parse(bytes), Ok((value, bytes.len())), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn attributes_stand_before_the_reply_they_belong_to() {
        let bytes =
            b"|1\r\n+a\r\n*1\r\n:1\r\n|0\r\n|1\r\n+b\r\n:2\r\n*2\r\n|1\r\n+x\r\n:0\r\n:5\r\n:6\r\n+next\r\n";
        let ParsedReply::Complete { frame, consumed } =
            ReplyParser::new(ReplyLimits::default()).parse(bytes).unwrap()
        else {
            panic!("incomplete");
        };
        assert_eq!(&bytes[consumed..], b"+next\r\n");
        assert_eq!(frame.reply.to_value(), Value::Array(vec![Value::Integer(5), Value::Integer(6)]));
        let attributes: Vec<_> = frame.attributes().map(|(k, v)| (k.to_value(), v.to_value())).collect();
        assert_eq!(
            attributes,
            [
                (Value::Simple("a".into()), Value::Array(vec![Value::Integer(1)])),
                (Value::Simple("b".into()), Value::Integer(2)),
            ]
        );
    }

    #[test]
    fn malformed_replies_are_refused() {
        for (bytes, error) in [
            (&b"x\r\n"[..], ReplyError::UnknownType(b'x')),
            (b":a\r\n", ReplyError::Malformed(b':')),
            (b":\r\n", ReplyError::Malformed(b':')),
            (b",x\r\n", ReplyError::Malformed(b',')),
            (b"#x\r\n", ReplyError::Malformed(b'#')),
            (b"_x\r\n", ReplyError::Malformed(b'_')),
            (b"(1a\r\n", ReplyError::Malformed(b'(')),
            (b"(-\r\n", ReplyError::Malformed(b'(')),
            (b"$-2\r\n", ReplyError::Malformed(b'$')),
            (b"!-1\r\n", ReplyError::Malformed(b'!')),
            (b"%-1\r\n", ReplyError::Malformed(b'%')),
            (b"=2\r\nab\r\n", ReplyError::Malformed(b'=')),
            (b"$?\r\n", ReplyError::Streamed),
            (b"*?\r\n", ReplyError::Streamed),
            (b"$1\r\nabc", ReplyError::MissingLineEnd),
            (b"+a\rb\r\n", ReplyError::MissingLineEnd),
        ] {
            assert_eq!(parse(bytes), Err(error), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn limits_are_kept_before_the_bytes_arrive() {
        let limits = ReplyLimits { line_bytes: 16, bulk_bytes: 8, elements: 3, depth: 2, reply_bytes: 40 };
        for (bytes, what) in [
            (&b"+12345678901234567"[..], "bytes of a line"),
            (b"$9\r\n", "bytes of a string"),
            (b"*4\r\n", "elements of an aggregate"),
            (b"*1\r\n*1\r\n*1\r\n", "nesting"),
            (b"*3\r\n$8\r\n12345678\r\n$8\r\n12345678\r\n$8\r\n", "bytes of a reply"),
        ] {
            let error = ReplyParser::new(limits).parse(bytes).unwrap_err();
            assert_eq!(error, ReplyError::Limit(what), "{}", bytes.escape_ascii());
        }
    }
}
