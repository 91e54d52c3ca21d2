//! Patterns of SORT's BY and GET: keys, and fields of hashes, that are named by elements.

use crate::call::{Call, Executor};
use crate::keyspace::{Keyspace, Value};
use sidle_collections::{Hash, Hashes};
use sidle_types::ValueKind;

/// A pattern that names a string, or a field of a hash, for each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern<'p> {
    /// What stands around the element in the key.
    before: &'p [u8],
    after: &'p [u8],
    /// The field, if it names one.
    field: Option<&'p [u8]>,
}

impl<'p> Pattern<'p> {
    /// The element stands for the first `*`; behind `->` stands the field. None without a `*`.
    pub(super) fn parse(text: &'p [u8]) -> Option<Pattern<'p>> {
        let star = text.iter().position(|&byte| byte == b'*')?;
        let (before, rest) = (&text[..star], &text[star + 1..]);
        let arrow = rest.windows(2).position(|pair| pair == b"->").filter(|&at| at + 2 < rest.len());
        Some(match arrow {
            Some(at) => Pattern { before, after: &rest[..at], field: Some(&rest[at + 2..]) },
            None => Pattern { before, after: rest, field: None },
        })
    }

    /// What it names for an element, if that is there and of the right type.
    pub(super) fn of<'g, E: Executor>(self, call: &mut Call<'g, E>, element: &[u8]) -> Option<&'g [u8]> {
        let key = [self.before, element, self.after].concat();
        let value = call.keyspace.get_unnamed(&key)?;
        match self.field {
            Some(field) => value.collection::<Hashes>().ok().and_then(|hash: Hash<'g>| hash.get(field)),
            None => value.of_kind(ValueKind::String).ok().map(Value::bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_element_stands_for_the_first_star() {
        let parse = |text: &'static str| {
            let pattern = Pattern::parse(text.as_bytes())?;
            let text = |bytes| str::from_utf8(bytes).unwrap();
            Some((text(pattern.before), text(pattern.after), pattern.field.map(text)))
        };
        assert_eq!(parse("weight"), None);
        assert_eq!(parse("w*"), Some(("w", "", None)));
        assert_eq!(parse("w*x*"), Some(("w", "x*", None)));
        assert_eq!(parse("w*x->f->g"), Some(("w", "x", Some("f->g"))));
        assert_eq!(parse("w*->"), Some(("w", "->", None)));
        assert_eq!(parse("a->*"), Some(("a->", "", None)));
        assert_eq!(parse("*"), Some(("", "", None)));
    }
}
