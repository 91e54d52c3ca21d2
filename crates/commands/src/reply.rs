//! A command's reply.

use sidle_resp::ReplyWriter;

/// A reply being written. A command that returns an error has written nothing.
pub trait Reply {
    /// A simple string without line ends.
    fn simple(&mut self, text: &str);
    /// An integer.
    fn integer(&mut self, number: i64);
    /// A string of any bytes.
    fn bulk(&mut self, bytes: &[u8]);
    /// A string of several parts, to be joined.
    fn bulk_parts(&mut self, parts: &[&[u8]]);
    /// A null.
    fn null(&mut self);
    /// A double.
    fn double(&mut self, number: f64);
    /// A null where an array is expected.
    fn null_array(&mut self);
    /// The header of an array; this many replies follow.
    fn array(&mut self, elements: usize);
    /// The header of a map; this many names follow, each before its value.
    fn map(&mut self, pairs: usize);

    /// The header of a set; this many replies follow.
    fn set(&mut self, elements: usize);
    /// The header of a list of pairs; each is announced by [`pair`](Self::pair), and two replies follow.
    fn pairs(&mut self, pairs: usize);
    /// A pair begins.
    fn pair(&mut self);
    /// Whether the reply has become too long, so that no more need be written.
    fn is_cut(&self) -> bool;

    /// `OK`.
    fn ok(&mut self) {
        self.simple("OK");
    }
}

impl Reply for ReplyWriter<'_> {
    #[inline]
    fn simple(&mut self, text: &str) {
        self.simple(text);
    }

    #[inline]
    fn integer(&mut self, number: i64) {
        self.integer(number);
    }

    #[inline]
    fn bulk(&mut self, bytes: &[u8]) {
        self.bulk(bytes);
    }

    fn bulk_parts(&mut self, parts: &[&[u8]]) {
        self.bulk_parts(parts);
    }

    #[inline]
    fn null(&mut self) {
        self.null();
    }

    #[inline]
    fn array(&mut self, elements: usize) {
        self.array(elements);
    }

    fn map(&mut self, pairs: usize) {
        self.map(pairs);
    }

    fn double(&mut self, number: f64) {
        self.double(number);
    }

    fn null_array(&mut self) {
        self.null_array();
    }

    fn set(&mut self, elements: usize) {
        self.set(elements);
    }

    fn pairs(&mut self, pairs: usize) {
        self.pairs(pairs);
    }

    fn pair(&mut self) {
        self.pair();
    }

    fn is_cut(&self) -> bool {
        self.is_cut()
    }

    #[inline]
    fn ok(&mut self) {
        self.ok();
    }
}

/// Replies with a container's help, in Redis's format.
pub fn reply_help(reply: &mut impl Reply, command: &str, lines: &[&str]) {
    let first = format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    let last = ["HELP", "    Prints this help."];
    reply.array(lines.len() + 1 + last.len());
    reply.simple(&first);
    lines.iter().chain(&last).for_each(|line| reply.simple(line));
}
