//! Writes requests, as a client sends them.

use crate::decimal::append_header;

/// Appends requests, each an array of bulk strings, to a connection's output.
#[derive(Debug)]
pub struct RequestWriter<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> RequestWriter<'o> {
    /// A writer that appends to `out`.
    #[inline]
    pub fn new(out: &'o mut Vec<u8>) -> RequestWriter<'o> {
        RequestWriter { out }
    }

    /// A whole request.
    #[inline]
    pub fn request(&mut self, args: &[&[u8]]) {
        self.start(args.len());
        args.iter().for_each(|arg| self.arg(arg));
    }

    /// The header of a request of `arguments`, including the command's name; that many [`arg`](Self::arg)s
    /// follow.
    #[inline]
    pub fn start(&mut self, arguments: usize) {
        append_header(self.out, b'*', arguments as u64);
    }

    /// The next argument of a request.
    #[inline]
    pub fn arg(&mut self, bytes: &[u8]) {
        self.out.reserve(bytes.len() + 16);
        append_header(self.out, b'$', bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }
}
