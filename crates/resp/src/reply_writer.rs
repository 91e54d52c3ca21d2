//! Writes replies, as a server sends them.

use crate::decimal::{append_header, append_integer};
use crate::double::format_double;
use crate::request::ProtocolError;

/// A prefix, the digits of a 64-bit number with its sign, and CRLF.
const LONGEST_HEADER_BYTES: usize = 1 + 20 + 2;
/// The least bytes of a reply: a prefix and CRLF.
const LEAST_REPLY_BYTES: u64 = 3;

/// The protocol version of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RespVersion {
    /// The default of a new connection.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// Appends replies to a connection's output in its protocol version. Types that RESP2 lacks become what Redis
/// sends instead.
///
/// Aggregates are a header with the number of elements, then the elements; the writer does not count them. A
/// header is cut if so many elements cannot fit behind it: whoever looks then need not make one of them.
///
/// A [bounded](Self::bounded) writer is *cut* by the first piece that exceeds its bound: it drops that piece
/// and everything after it. So a reply never takes more memory than allowed, whichever command writes it. The
/// output of a cut writer is invalid; the writer's owner checks [`is_cut`](Self::is_cut) and removes it.
#[derive(Debug)]
pub struct ReplyWriter<'o> {
    out: &'o mut Vec<u8>,
    version: RespVersion,
    /// The most that `out` may grow to; 0 once the writer is cut.
    end: usize,
}

impl<'o> ReplyWriter<'o> {
    /// A writer that appends to `out`.
    #[inline]
    pub fn new(out: &'o mut Vec<u8>, version: RespVersion) -> ReplyWriter<'o> {
        ReplyWriter { out, version, end: usize::MAX }
    }

    /// A writer that appends at most `most` bytes to `out`.
    #[inline]
    pub fn bounded(out: &'o mut Vec<u8>, version: RespVersion, most: usize) -> ReplyWriter<'o> {
        let end = out.len().saturating_add(most).max(1);
        ReplyWriter { out, version, end }
    }

    /// The length of the output.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// What stands in the output behind its first `start` bytes.
    pub fn behind(&self, start: usize) -> &[u8] {
        self.out.get(start..).unwrap_or_default()
    }

    /// Whether nothing stands in the output.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Appends replies that are encoded already.
    pub fn encoded(&mut self, replies: &[u8]) {
        self.piece(replies);
    }

    /// Whether a piece was dropped because it exceeded the bound.
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.end == 0
    }

    /// A writer for elements that must be counted before their header is written. It appends to `elements`
    /// and shares this one's remaining room. [`append`](Self::append) puts them after the header.
    pub fn aside<'e>(&self, elements: &'e mut Vec<u8>) -> ReplyWriter<'e> {
        let room = self.end.saturating_sub(self.out.len());
        ReplyWriter::bounded(elements, self.version, room)
    }

    /// Appends what was written aside.
    pub fn append(&mut self, aside: ReplyWriter<'_>) {
        if aside.is_cut() {
            self.cut();
        } else if self.fits(aside.out.len()) {
            self.out.extend_from_slice(aside.out);
        }
    }

    /// Whether this many more bytes fit; cuts the writer if not.
    #[inline]
    fn fits(&mut self, bytes: usize) -> bool {
        if self.out.len().saturating_add(bytes) <= self.end {
            return true;
        }
        self.cut();
        false
    }

    /// Reserves room for a large piece that fits: doubles like `Vec`, but within the bound.
    #[inline]
    fn reserve(&mut self, bytes: usize) {
        if self.out.capacity() - self.out.len() < bytes {
            self.grow(bytes);
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        let doubled = self.out.capacity().saturating_mul(2).min(self.end);
        let capacity = doubled.max(self.out.len() + bytes);
        self.out.reserve_exact(capacity - self.out.len());
    }

    #[cold]
    fn cut(&mut self) {
        self.end = 0;
    }

    /// Changes the protocol version for what follows.
    pub fn set_version(&mut self, version: RespVersion) {
        self.version = version;
    }

    /// The protocol version that replies are written in.
    #[inline]
    pub fn version(&self) -> RespVersion {
        self.version
    }

    /// Appends an encoded piece.
    #[inline]
    fn piece(&mut self, bytes: &[u8]) {
        if self.fits(bytes.len()) {
            self.out.extend_from_slice(bytes);
        }
    }

    #[inline]
    fn header(&mut self, prefix: u8, number: u64) {
        if self.fits(LONGEST_HEADER_BYTES) {
            append_header(self.out, prefix, number);
        }
    }

    /// The header of an aggregate of so many replies, or so many pairs of them.
    #[inline]
    fn aggregate(&mut self, prefix: u8, number: u64) {
        let least = number.saturating_mul(LEAST_REPLY_BYTES).saturating_add(LONGEST_HEADER_BYTES as u64);
        if self.fits(usize::try_from(least).unwrap_or(usize::MAX)) {
            append_header(self.out, prefix, number);
        }
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.piece(b"+OK\r\n");
    }

    /// A simple string. It must not contain a line end.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']));
        if !self.fits(text.len() + 3) {
            return;
        }
        self.out.reserve(text.len() + 3);
        self.out.push(b'+');
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// An error: the code in capitals, a space, the text. Line ends become spaces, as in Redis.
    pub fn error(&mut self, text: &str) {
        self.error_bytes(text.as_bytes());
    }

    /// An error whose text quotes a client's bytes, which need not be UTF-8.
    pub fn error_bytes(&mut self, text: &[u8]) {
        if !self.fits(text.len() + 3) {
            return;
        }
        self.out.reserve(text.len() + 3);
        self.out.push(b'-');
        let line_ends_replaced = |&byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
        self.out.extend(text.iter().map(line_ends_replaced));
        self.out.extend_from_slice(b"\r\n");
    }

    /// The last reply of a connection that broke the protocol.
    pub fn protocol_error(&mut self, error: ProtocolError) {
        if let ProtocolError::ExpectedBulk(byte) = error {
            let mut text = b"ERR Protocol error: expected '$', got '".to_vec();
            text.extend_from_slice(&[byte, b'\'']);
            self.error_bytes(&text);
        } else {
            self.error(&format!("ERR {error}"));
        }
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        if self.fits(LONGEST_HEADER_BYTES) {
            append_integer(self.out, number);
        }
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        if !self.fits(bytes.len() + LONGEST_HEADER_BYTES + 2) {
            return;
        }
        self.reserve(bytes.len() + LONGEST_HEADER_BYTES + 2);
        append_header(self.out, b'$', bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A bulk string put together from parts.
    pub fn bulk_parts(&mut self, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if !self.fits(length + LONGEST_HEADER_BYTES + 2) {
            return;
        }
        self.reserve(length + LONGEST_HEADER_BYTES + 2);
        append_header(self.out, b'$', length as u64);
        parts.iter().for_each(|part| self.out.extend_from_slice(part));
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer as a bulk string, as INCRBYFLOAT and CONFIG GET send numbers.
    pub fn bulk_integer(&mut self, number: i64) {
        let mut line = Vec::with_capacity(24);
        append_integer(&mut line, number);
        self.bulk(&line[1..line.len() - 2]);
    }

    /// A null: `$-1` in RESP2, `_` in RESP3.
    #[inline]
    pub fn null(&mut self) {
        match self.version {
            RespVersion::Resp2 => self.piece(b"$-1\r\n"),
            RespVersion::Resp3 => self.piece(b"_\r\n"),
        }
    }

    /// A null array: `*-1` in RESP2, `_` in RESP3.
    pub fn null_array(&mut self) {
        match self.version {
            RespVersion::Resp2 => self.piece(b"*-1\r\n"),
            RespVersion::Resp3 => self.piece(b"_\r\n"),
        }
    }

    /// The header of an array of `elements`.
    #[inline]
    pub fn array(&mut self, elements: usize) {
        self.aggregate(b'*', elements as u64);
    }

    /// The header of a map of `pairs`; in RESP2 an array of keys and values in turn.
    pub fn map(&mut self, pairs: usize) {
        match self.version {
            RespVersion::Resp2 => self.aggregate(b'*', 2 * pairs as u64),
            RespVersion::Resp3 => self.aggregate(b'%', pairs as u64),
        }
    }

    /// The header of a list of pairs, each of which [`pair`](Self::pair) announces; in RESP2 an array of all
    /// that is in them.
    pub fn pairs(&mut self, pairs: usize) {
        match self.version {
            RespVersion::Resp2 => self.aggregate(b'*', 2 * pairs as u64),
            RespVersion::Resp3 => self.aggregate(b'*', pairs as u64),
        }
    }

    /// The header of a pair; nothing in RESP2.
    pub fn pair(&mut self) {
        if self.version == RespVersion::Resp3 {
            self.header(b'*', 2);
        }
    }

    /// The header of a set of `elements`; in RESP2 an array.
    pub fn set(&mut self, elements: usize) {
        self.aggregate(self.prefix(b'~'), elements as u64);
    }

    /// The header of a push of `elements`; in RESP2 an array.
    pub fn push(&mut self, elements: usize) {
        self.aggregate(self.prefix(b'>'), elements as u64);
    }

    /// That of an aggregate which is an array in RESP2.
    fn prefix(&self, resp3: u8) -> u8 {
        if self.version == RespVersion::Resp3 { resp3 } else { b'*' }
    }

    /// The header of an attribute of `pairs`, which precedes its reply.
    ///
    /// # Panics
    /// In RESP2, which has no attributes.
    pub fn attribute(&mut self, pairs: usize) {
        assert!(
            self.version == RespVersion::Resp3,
            "attributes only ever go to connections that speak RESP3"
        );
        self.header(b'|', pairs as u64);
    }

    /// A double; in RESP2 a bulk string.
    pub fn double(&mut self, number: f64) {
        let mut text = Vec::with_capacity(32);
        format_double(number, &mut text);
        match self.version {
            RespVersion::Resp2 => self.bulk(&text),
            RespVersion::Resp3 => self.line(b',', &text),
        }
    }

    /// A boolean; in RESP2 the integer 1 or 0.
    pub fn boolean(&mut self, truth: bool) {
        self.piece(match (self.version, truth) {
            (RespVersion::Resp2, false) => b":0\r\n",
            (RespVersion::Resp2, true) => b":1\r\n",
            (RespVersion::Resp3, false) => b"#f\r\n",
            (RespVersion::Resp3, true) => b"#t\r\n",
        });
    }

    /// A text with a format of three letters (`txt`, `mkd`); in RESP2 a bulk string.
    pub fn verbatim(&mut self, format: [u8; 3], text: &[u8]) {
        match self.version {
            RespVersion::Resp2 => self.bulk(text),
            RespVersion::Resp3 => {
                if !self.fits(text.len() + LONGEST_HEADER_BYTES + 6) {
                    return;
                }
                self.reserve(text.len() + LONGEST_HEADER_BYTES + 6);
                append_header(self.out, b'=', text.len() as u64 + 4);
                self.out.extend_from_slice(&format);
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// An integer of any length, given as its digits; in RESP2 a bulk string.
    pub fn big_number(&mut self, digits: &str) {
        match self.version {
            RespVersion::Resp2 => self.bulk(digits.as_bytes()),
            RespVersion::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    fn line(&mut self, prefix: u8, text: &[u8]) {
        if self.fits(text.len() + 3) {
            self.out.push(prefix);
            self.out.extend_from_slice(text);
            self.out.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(write: impl Fn(&mut ReplyWriter<'_>)) -> (String, String) {
        let [resp2, resp3] = [RespVersion::Resp2, RespVersion::Resp3].map(|version| {
            let mut out = Vec::new();
            write(&mut ReplyWriter::new(&mut out, version));
            String::from_utf8(out).unwrap()
        });
        (resp2, resp3)
    }

    #[test]
    fn replies_in_both_versions() {
        type Write = fn(&mut ReplyWriter<'_>);
        let cases: [(Write, &str, &str); 19] = [
            (|w| w.ok(), "+OK\r\n", "+OK\r\n"),
            (|w| w.simple("PONG"), "+PONG\r\n", "+PONG\r\n"),
            (|w| w.error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (|w| w.integer(-42), ":-42\r\n", ":-42\r\n"),
            (|w| w.bulk(b"ab\r\n"), "$4\r\nab\r\n\r\n", "$4\r\nab\r\n\r\n"),
            (|w| w.bulk_parts(&[b"ab", b"", b"c"]), "$3\r\nabc\r\n", "$3\r\nabc\r\n"),
            (|w| w.bulk_integer(-7), "$2\r\n-7\r\n", "$2\r\n-7\r\n"),
            (|w| w.null(), "$-1\r\n", "_\r\n"),
            (|w| w.null_array(), "*-1\r\n", "_\r\n"),
            (|w| w.array(12), "*12\r\n", "*12\r\n"),
            (|w| w.map(3), "*6\r\n", "%3\r\n"),
            (|w| w.set(2), "*2\r\n", "~2\r\n"),
            (|w| w.push(2), "*2\r\n", ">2\r\n"),
            (|w| w.double(0.1), "$19\r\n0.10000000000000001\r\n", ",0.10000000000000001\r\n"),
            (|w| w.double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n"),
            (|w| w.boolean(true), ":1\r\n", "#t\r\n"),
            (|w| w.boolean(false), ":0\r\n", "#f\r\n"),
            (|w| w.verbatim(*b"txt", b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (|w| w.big_number("-123"), "$4\r\n-123\r\n", "(-123\r\n"),
        ];
        for (write, resp2, resp3) in cases {
            assert_eq!(both(write), (resp2.to_owned(), resp3.to_owned()));
        }
    }

    #[test]
    fn protocol_errors_quote_any_byte() {
        let mut out = Vec::new();
        ReplyWriter::new(&mut out, RespVersion::Resp2).protocol_error(ProtocolError::ExpectedBulk(0xff));
        assert_eq!(out, b"-ERR Protocol error: expected '$', got '\xff'\r\n");
        out.clear();
        ReplyWriter::new(&mut out, RespVersion::Resp2).protocol_error(ProtocolError::ExpectedBulk(b'\n'));
        assert_eq!(out, b"-ERR Protocol error: expected '$', got ' '\r\n");
        out.clear();
        ReplyWriter::new(&mut out, RespVersion::Resp2).protocol_error(ProtocolError::InvalidBulkLength);
        assert_eq!(out, b"-ERR Protocol error: invalid bulk length\r\n");
    }

    /// The output stays within the bound, and a cut writer stays cut, for any sequence of writes.
    #[test]
    fn bounded_writer_never_passes_its_bound() {
        type Write = fn(&mut ReplyWriter<'_>);
        let writes: [Write; 15] = [
            |w| w.ok(),
            |w| w.simple("PONG"),
            |w| w.error("ERR something"),
            |w| w.integer(i64::MIN),
            |w| w.bulk(b"0123456789"),
            |w| w.bulk_parts(&[b"01234", b"56789"]),
            |w| w.null(),
            |w| w.null_array(),
            |w| w.array(3),
            |w| w.map(3),
            |w| w.push(3),
            |w| w.double(0.1),
            |w| w.boolean(true),
            |w| w.verbatim(*b"txt", b"0123456789"),
            |w| w.big_number("123456789012345678901234567890"),
        ];
        for version in [RespVersion::Resp2, RespVersion::Resp3] {
            for write in writes {
                let mut out = b"before".to_vec();
                let mut writer = ReplyWriter::bounded(&mut out, version, 100);
                (0..101).for_each(|_| write(&mut writer));
                assert!(writer.is_cut());
                let length = writer.out.len();
                writer.ok();
                assert!(writer.is_cut() && writer.out.len() == length && length <= 106, "{length}");
            }
        }
    }

    #[test]
    fn bounded_writer_allocates_no_more_than_its_bound() {
        let mut out = Vec::new();
        let mut writer = ReplyWriter::bounded(&mut out, RespVersion::Resp2, 1_000_000);
        let value = vec![b'x'; 10_000];
        while !writer.is_cut() {
            writer.bulk(&value);
        }
        assert!(out.len() > 950_000 && out.capacity() <= 1_000_000, "{} of {}", out.len(), out.capacity());
    }

    #[test]
    fn a_header_is_cut_if_its_elements_cannot_fit() {
        let headers: [fn(&mut ReplyWriter<'_>, usize); 4] =
            [|w, n| w.array(n), |w, n| w.map(n), |w, n| w.set(n), |w, n| w.pairs(n)];
        for header in headers {
            for (elements, is_cut) in [(10, false), (400, true), (usize::MAX / 2, true)] {
                let mut out = Vec::new();
                let mut writer = ReplyWriter::bounded(&mut out, RespVersion::Resp3, 1_000);
                header(&mut writer, elements);
                assert_eq!((writer.is_cut(), writer.is_empty()), (is_cut, is_cut), "{elements}");
            }
        }
    }

    #[test]
    fn elements_aside_share_the_bound() {
        for (count, is_cut) in [(2, false), (40, true)] {
            let (mut out, mut found) = (Vec::new(), Vec::new());
            let mut writer = ReplyWriter::bounded(&mut out, RespVersion::Resp2, 100);
            let mut elements = writer.aside(&mut found);
            (0..count).for_each(|_| elements.bulk(b"key"));
            writer.array(count);
            writer.append(elements);
            assert_eq!(writer.is_cut(), is_cut, "{count}");
            assert!(out.len() <= 100 && found.len() <= 100);
        }
    }

    #[test]
    #[should_panic(expected = "attributes only ever go to")]
    fn attribute_in_resp2_panics() {
        ReplyWriter::new(&mut Vec::new(), RespVersion::Resp2).attribute(1);
    }
}
