//! What a transaction reads and writes in one step.

use crate::rows::Row;

/// A record as it was read.
pub(crate) type Found = Option<Vec<u8>>;

/// A record to be written, or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value; nothing: it is removed.
    pub value: Option<Vec<u8>>,
}

impl Write {
    pub(crate) fn put(key: Vec<u8>, row: &impl Row) -> Write {
        Write { key, value: Some(row.write()) }
    }

    pub(crate) fn remove(key: Vec<u8>) -> Write {
        Write { key, value: None }
    }
}

/// What a transaction does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It reads these records, and is to be given what they have, in this order.
    Read(Vec<Vec<u8>>),
    /// It writes these records, all or none; there are none where it has only read. All that it has read
    /// still holds then.
    Commit(Vec<Write>),
    /// Its terminal takes it back (clause 2.4.1.4): nothing is written.
    RollBack,
}

/// A row that should be there is not, or is none: the database is not one of TPC-C, or has lost something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the row of {0} is missing or cannot be read")]
pub struct Broken(pub &'static str);

/// The records of a step, one after the other.
pub(crate) struct Rows<'r>(std::slice::Iter<'r, Found>);

impl<'r> Rows<'r> {
    pub(crate) fn new(found: &'r [Found]) -> Rows<'r> {
        Rows(found.iter())
    }

    /// The next one, which is there.
    pub(crate) fn row<R: Row>(&mut self, of: &'static str) -> Result<R, Broken> {
        self.maybe(of)?.ok_or(Broken(of))
    }

    /// The next one, if it is there.
    pub(crate) fn maybe<R: Row>(&mut self, of: &'static str) -> Result<Option<R>, Broken> {
        match self.0.next() {
            Some(Some(bytes)) => R::read(bytes).map(Some).ok_or(Broken(of)),
            Some(None) => Ok(None),
            None => Err(Broken(of)),
        }
    }
}
