//! An iterator of one of two types.

/// Over elements of a collection in either form.
pub(crate) enum Either<P, L> {
    /// Of a packed one.
    Packed(P),
    /// Of a large one.
    Large(L),
}

impl<T, P: Iterator<Item = T>, L: Iterator<Item = T>> Iterator for Either<P, L> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self {
            Either::Packed(elements) => elements.next(),
            Either::Large(elements) => elements.next(),
        }
    }
}
