//! A file of keys.

use super::{AUX, DATABASE, END, EXPIRES_MS, MAGIC, WRITTEN_FILE_VERSION};
use crate::checksum::Running;
use crate::dump::write_value;
use crate::length;
use crate::text;
use crate::value::Dumped;
use std::io::{Result, Write};

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
        let (mut kind_and_value, mut front) = (Vec::new(), std::mem::take(&mut self.front));
        let rest = write_value(value, &mut kind_and_value);
        front.clear();
        if let Some(expires_at_ms) = expires_at_ms {
            front.push(EXPIRES_MS);
            front.extend(expires_at_ms.to_le_bytes());
        }
        let (kind, value) = kind_and_value.split_at(1);
        front.extend_from_slice(kind);
        length::write(name.len() as u64, &mut front);
        for part in [&front[..], name, value, rest] {
            self.write(part)?;
        }
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
