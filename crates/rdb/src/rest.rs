//! What is still to be read: of a payload in memory, or of anything else.

use crate::error::RestoreError;

/// Bytes that are read in order.
pub(crate) trait Source {
    /// Why that ended.
    type Error;

    /// The next bytes.
    fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], Self::Error>;

    /// The error of bytes that are not what they should be.
    fn refuse(&self, why: RestoreError) -> Self::Error;
}

/// What of a payload is still to be read.
pub(crate) struct Rest<'p>(&'p [u8]);

impl<'p> Rest<'p> {
    pub(crate) fn new(bytes: &'p [u8]) -> Rest<'p> {
        Rest(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, RestoreError> {
        self.array().map(|[byte]| byte)
    }

    /// So many bytes, however many are announced.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<&'p [u8], RestoreError> {
        let bytes = usize::try_from(bytes).map_err(|_| RestoreError::Truncated)?;
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(RestoreError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }
}

impl Source for Rest<'_> {
    type Error = RestoreError;

    fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], RestoreError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(RestoreError::Truncated)?;
        self.0 = rest;
        Ok(*array)
    }

    fn refuse(&self, why: RestoreError) -> RestoreError {
        why
    }
}
