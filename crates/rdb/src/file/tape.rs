//! The bytes of a file, read once and in order.

use super::FileError;
use crate::checksum::Running;
use crate::error::RestoreError;
use crate::rest::Source;
use std::io::{BufReader, ErrorKind, Read};

/// Bytes are read, and memory is taken, in such steps: a length is a stranger's word.
const STEP_BYTES: usize = 64 << 10;

/// A file that is read from its start to its end.
pub(super) struct Tape<R> {
    input: BufReader<R>,
    at: u64,
    checksum: Running,
    /// What has been read since [`Tape::keep`].
    kept: Option<Vec<u8>>,
    step: Vec<u8>,
}

impl<R: Read> Tape<R> {
    pub(super) fn new(input: R) -> Tape<R> {
        let input = BufReader::with_capacity(STEP_BYTES, input);
        Tape { input, at: 0, checksum: Running::new(), kept: None, step: vec![0; STEP_BYTES] }
    }

    /// How many bytes have been read.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The checksum of all that has been read.
    pub(super) fn checksum(&self) -> u64 {
        self.checksum.value()
    }

    /// Keeps what is read from now on.
    pub(super) fn keep(&mut self, front: &[u8]) {
        self.kept = Some(front.to_vec());
    }

    /// What has been kept.
    pub(super) fn kept(&mut self) -> Vec<u8> {
        self.kept.take().unwrap_or_default()
    }

    pub(super) fn byte(&mut self) -> Result<u8, FileError> {
        self.array().map(|[byte]| byte)
    }

    /// Reads over so many bytes.
    pub(super) fn pass(&mut self, bytes: u64) -> Result<(), FileError> {
        let mut left = bytes;
        while left > 0 {
            let some = left.min(STEP_BYTES as u64) as usize;
            let mut step = std::mem::take(&mut self.step);
            let read = self.fill(&mut step[..some]);
            self.step = step;
            read?;
            left -= some as u64;
        }
        Ok(())
    }

    pub(super) fn damage(&self, why: RestoreError) -> FileError {
        FileError::Damaged { at: self.at, why }
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<(), FileError> {
        self.input.read_exact(out).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => FileError::Truncated(self.at),
            _ => FileError::Read(error),
        })?;
        self.at += out.len() as u64;
        self.checksum.add(out);
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(out);
        }
        Ok(())
    }
}

impl<R: Read> Source for Tape<R> {
    type Error = FileError;

    fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], FileError> {
        let mut array = [0; BYTES];
        self.fill(&mut array)?;
        Ok(array)
    }

    fn refuse(&self, why: RestoreError) -> FileError {
        self.damage(why)
    }
}
