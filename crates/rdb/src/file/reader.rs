//! The keys of a file, one after the other.

use super::tape::Tape;
use super::values::{Passed, pass_of_module, pass_string, pass_value, read_string};
use super::{
    AUX, CHECKED_SINCE, DATABASE, END, EXPIRES_MS, EXPIRES_S, FREQUENCY, FUNCTION, FUNCTION_EARLY, FileError,
    IDLE, LATEST_FILE_VERSION, MAGIC, MODULE_AUX, RESIZE, SLOT,
};
use crate::error::RestoreError;
use crate::length::Length;
use crate::rest::Source;
use crate::{LATEST_VERSION, checksum};
use std::io::Read;

/// A key of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileKey {
    /// The number of its database.
    pub database: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// When it expires, in milliseconds since 1970, if ever.
    pub expires_at_ms: Option<u64>,
    /// How many seconds it had not been accessed, if that was written.
    pub idle_s: Option<u64>,
    /// How often it was accessed, as OBJECT FREQ shows it, if that was written.
    pub frequency: Option<u8>,
    /// Its value.
    pub value: FileValue,
}

/// A value of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileValue {
    /// As DUMP returns it, and RESTORE takes it. It was not looked into.
    Payload(Vec<u8>),
    /// One that is not known here, and what it is called: it was passed over.
    Other(&'static str),
}

/// What is written before a key.
#[derive(Debug, Default)]
struct Before {
    expires_at_ms: Option<u64>,
    idle_s: Option<u64>,
    frequency: Option<u8>,
}

/// Reads a file from its start to its end.
///
/// It takes as much memory as the largest value.
pub struct FileReader<R> {
    tape: Tape<R>,
    version: u16,
    database: u64,
    /// Libraries of functions, and what modules keep beside keys.
    passed_over: u64,
    is_over: bool,
}

impl<R: Read> FileReader<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// It is no such file, or of a later version, or cannot be read.
    pub fn new(input: R) -> Result<FileReader<R>, FileError> {
        let mut tape = Tape::new(input);
        let head: [u8; 9] = tape.array().map_err(|error| match error {
            FileError::Truncated(_) => FileError::OtherFile,
            error => error,
        })?;
        let digits = head.strip_prefix(MAGIC).filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let digits = digits.ok_or(FileError::OtherFile)?;
        let version = digits.iter().fold(0, |number, digit| 10 * number + u16::from(digit - b'0'));
        if version == 0 || version > LATEST_FILE_VERSION {
            return Err(FileError::LaterVersion(version));
        }
        Ok(FileReader { tape, version, database: 0, passed_over: 0, is_over: false })
    }

    /// The file's version.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// How many bytes have been read.
    pub fn bytes_read(&self) -> u64 {
        self.tape.at()
    }

    /// How many libraries of functions, and data of modules beside keys, have been passed over.
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// The next key; `None` at the end, whose checksum is right.
    ///
    /// # Errors
    /// The file is damaged, or cannot be read. What was returned before may be used: each payload is checked
    /// by whoever restores it, but the checksum of the whole was not seen.
    pub fn next_key(&mut self) -> Result<Option<FileKey>, FileError> {
        let mut before = Before::default();
        while !self.is_over {
            match self.tape.byte()? {
                EXPIRES_MS => before.expires_at_ms = Some(u64::from_le_bytes(self.tape.array()?)),
                EXPIRES_S => {
                    let seconds = u32::from_le_bytes(self.tape.array()?);
                    before.expires_at_ms = Some(u64::from(seconds) * 1000);
                }
                IDLE => before.idle_s = Some(Length::read_bytes(&mut self.tape)?),
                FREQUENCY => before.frequency = Some(self.tape.byte()?),
                DATABASE => self.database = Length::read_bytes(&mut self.tape)?,
                RESIZE => self.pass_lengths(2)?,
                SLOT => self.pass_lengths(3)?,
                AUX => {
                    pass_string(&mut self.tape)?;
                    pass_string(&mut self.tape)?;
                }
                MODULE_AUX => {
                    // The module, and when it loads them: a mark and its number.
                    self.pass_lengths(3)?;
                    pass_of_module(&mut self.tape)?;
                    self.passed_over += 1;
                }
                FUNCTION => {
                    pass_string(&mut self.tape)?;
                    self.passed_over += 1;
                }
                FUNCTION_EARLY => return Err(self.tape.damage(RestoreError::UnknownType(FUNCTION_EARLY))),
                END => self.end()?,
                kind => return self.key(kind, before).map(Some),
            }
        }
        Ok(None)
    }

    fn pass_lengths(&mut self, count: usize) -> Result<(), FileError> {
        (0..count).try_for_each(|_| Length::read_bytes(&mut self.tape).map(drop))
    }

    fn key(&mut self, kind: u8, before: Before) -> Result<FileKey, FileError> {
        let name = read_string(&mut self.tape)?;
        self.tape.keep(&[kind]);
        let passed = pass_value(&mut self.tape, kind)?;
        let mut payload = self.tape.kept();
        let value = match passed {
            Passed::Other(name) => FileValue::Other(name),
            Passed::Known => {
                payload.extend(LATEST_VERSION.to_le_bytes());
                payload.extend(checksum::of(&[&payload]).to_le_bytes());
                FileValue::Payload(payload)
            }
        };
        let Before { expires_at_ms, idle_s, frequency } = before;
        Ok(FileKey { database: self.database, name, expires_at_ms, idle_s, frequency, value })
    }

    fn end(&mut self) -> Result<(), FileError> {
        self.is_over = true;
        if self.version < CHECKED_SINCE {
            return Ok(());
        }
        let expected = self.tape.checksum();
        let found = u64::from_le_bytes(self.tape.array()?);
        match found == 0 || found == expected {
            true => Ok(()),
            false => Err(FileError::Checksum { found, expected }),
        }
    }
}
