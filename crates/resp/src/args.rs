//! The arguments of one request, as ranges of the buffer it arrived in.

use smallvec::SmallVec;

/// The arguments of one request, borrowed, as commands take them. Up to eight need no allocation.
pub type Slices<'b> = SmallVec<[&'b [u8]; 8]>;

/// A parser frees more ranges than this once the request is done.
const KEPT_SPANS: usize = 4096;
/// A parser frees more bytes of unquoted inline arguments than this once the request is done.
const KEPT_DECODED_BYTES: usize = 64 << 10;

/// The range of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) length: u32,
}

/// The arguments of one request: ranges of the buffer it was parsed from. They are reused, so that a steady
/// state allocates nothing. One `Args` serves any number of parsers, one request at a time.
#[derive(Debug, Default)]
pub struct Args {
    pub(crate) spans: Vec<Span>,
    /// All inline arguments after unquoting, if the line had a quote: the ranges then point here.
    pub(crate) decoded: Vec<u8>,
    pub(crate) is_decoded: bool,
}

impl Args {
    /// No arguments, no allocation.
    pub fn new() -> Args {
        Args::default()
    }

    /// How many arguments there are; 0 for an empty line or an empty array, which a server skips.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are no arguments.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Argument `index`, given the buffer that the request was parsed from.
    ///
    /// # Panics
    /// If there is no such argument, or the buffer is shorter than the request was.
    #[inline]
    pub fn arg<'b>(&'b self, buffer: &'b [u8], index: usize) -> &'b [u8] {
        cut(self.bytes(buffer), self.spans[index])
    }

    /// The arguments in order, given the buffer that the request was parsed from.
    #[inline]
    pub fn iter<'b>(&'b self, buffer: &'b [u8]) -> impl ExactSizeIterator<Item = &'b [u8]> {
        let bytes = self.bytes(buffer);
        self.spans.iter().map(move |&span| cut(bytes, span))
    }

    /// The arguments as a slice of slices, given the buffer that the request was parsed from.
    #[inline]
    pub fn slices<'b>(&'b self, buffer: &'b [u8]) -> Slices<'b> {
        self.iter(buffer).collect()
    }

    #[inline]
    fn bytes<'b>(&'b self, buffer: &'b [u8]) -> &'b [u8] {
        if self.is_decoded { &self.decoded } else { buffer }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.spans.capacity() > KEPT_SPANS {
            self.spans = Vec::new();
        }
        self.spans.clear();
        if self.is_decoded {
            if self.decoded.capacity() > KEPT_DECODED_BYTES {
                self.decoded = Vec::new();
            }
            self.decoded.clear();
            self.is_decoded = false;
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, start: usize, length: usize) {
        debug_assert!(start + length <= u32::MAX as usize);
        self.spans.push(Span { start: start as u32, length: length as u32 });
    }
}

#[inline]
fn cut(bytes: &[u8], span: Span) -> &[u8] {
    let start = span.start as usize;
    &bytes[start..start + span.length as usize]
}
