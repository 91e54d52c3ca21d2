//! A file of keys.

use super::{AUX, DATABASE, END, EXPIRES_MS, MAGIC, WRITTEN_FILE_VERSION};
use crate::checksum::Running;
use crate::dump::write_value;
use crate::length;
use crate::text;
use crate::value::Dumped;
use crate::{HASH, LIST, SET, SORTED_SET, STRING};
use std::io::{Result, Seek, SeekFrom, Write};

/// A value whose elements follow, and how many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// So many [bytes](FileWriter::bytes).
    String(u64),
    /// So many pairs, each two [texts](FileWriter::text).
    Hash(u64),
    /// So many [texts](FileWriter::text).
    Set(u64),
    /// So many [texts](FileWriter::text), in order.
    List(u64),
    /// So many members, each a [text](FileWriter::text) and a [score](FileWriter::score). Redis writes the
    /// highest first.
    SortedSet(u64),
}

/// A place of a file between two keys.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    checksum: Running,
    bytes: u64,
}

/// Writes a file of one database from its start to its end.
pub struct FileWriter<W> {
    output: W,
    checksum: Running,
    bytes: u64,
    front: Vec<u8>,
}

impl<W: Write> FileWriter<W> {
    /// Writes the head, with names and values that describe the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(output: W, described: &[(&str, &str)]) -> Result<FileWriter<W>> {
        let mut writer = FileWriter { output, checksum: Running::new(), bytes: 0, front: Vec::new() };
        writer.write(MAGIC)?;
        writer.write(format!("{WRITTEN_FILE_VERSION:04}").as_bytes())?;
        let mut front = Vec::new();
        for (name, value) in described {
            front.push(AUX);
            for word in [name, value] {
                let rest = text::write_front(word.as_bytes(), &mut front);
                front.extend_from_slice(rest);
            }
        }
        front.extend([DATABASE, 0]);
        writer.write(&front)?;
        Ok(writer)
    }

    /// Adds a key, with when it expires, in milliseconds since 1970, if ever.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn key(&mut self, name: &[u8], expires_at_ms: Option<u64>, value: Dumped<'_>) -> Result<()> {
        let mut kind_and_value = Vec::new();
        let rest = write_value(value, &mut kind_and_value);
        self.front(name, expires_at_ms, kind_and_value[0])?;
        self.write(&kind_and_value[1..])?;
        self.write(rest)
    }

    /// Begins a key whose value follows.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(&mut self, name: &[u8], expires_at_ms: Option<u64>, value: Begun) -> Result<()> {
        let (kind, count) = match value {
            Begun::String(bytes) => (STRING, bytes),
            Begun::Hash(pairs) => (HASH, pairs),
            Begun::Set(members) => (SET, members),
            Begun::List(items) => (LIST, items),
            Begun::SortedSet(members) => (SORTED_SET, members),
        };
        self.front(name, expires_at_ms, kind)?;
        let mut written = Vec::new();
        length::write(count, &mut written);
        self.write(&written)
    }

    /// Adds a string of the value that was begun.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn text(&mut self, text: &[u8]) -> Result<()> {
        let mut front = std::mem::take(&mut self.front);
        front.clear();
        let rest = text::write_front(text, &mut front);
        self.write(&front)?;
        self.write(rest)?;
        self.front = front;
        Ok(())
    }

    /// Adds the score of the member before.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn score(&mut self, score: f64) -> Result<()> {
        self.write(&score.to_le_bytes())
    }

    /// Adds a part of the string that was begun.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(bytes)
    }

    /// The place between the last key and the next one.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { checksum: self.checksum.clone(), bytes: self.bytes }
    }

    /// The output.
    pub fn output(&mut self) -> &mut W {
        &mut self.output
    }

    /// Adds what stands before a value.
    fn front(&mut self, name: &[u8], expires_at_ms: Option<u64>, kind: u8) -> Result<()> {
        let mut front = std::mem::take(&mut self.front);
        front.clear();
        if let Some(expires_at_ms) = expires_at_ms {
            front.push(EXPIRES_MS);
            front.extend(expires_at_ms.to_le_bytes());
        }
        front.push(kind);
        length::write(name.len() as u64, &mut front);
        self.write(&front)?;
        self.write(name)?;
        self.front = front;
        Ok(())
    }

    /// How many bytes have been written.
    pub fn bytes_written(&self) -> u64 {
        self.bytes
    }

    /// Writes the end, and returns what it was written to.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(mut self) -> Result<W> {
        self.write(&[END])?;
        let checksum = self.checksum.value();
        self.write(&checksum.to_le_bytes())?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.write_all(bytes)?;
        self.checksum.add(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

impl<W: Write + Seek> FileWriter<W> {
    /// Goes back to a place, as if nothing had been written behind it. What lies there is written over. So an
    /// output that does not become as long again has to be cut behind [`end`](Self::end).
    ///
    /// # Errors
    /// The output cannot go there.
    pub fn go_back(&mut self, to: &Checkpoint) -> Result<()> {
        self.output.seek(SeekFrom::Start(to.bytes))?;
        self.checksum = to.checksum.clone();
        self.bytes = to.bytes;
        Ok(())
    }
}
