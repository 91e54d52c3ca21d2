//! History files: one JSON object a line, in any order.

use crate::{Invalid, Operation};
use std::io::{BufRead, Write};

/// Why a history could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes could not be read.
    #[error("line {line}: {error}")]
    Io {
        /// The line, counted from 1.
        line: u64,
        /// What went wrong.
        error: std::io::Error,
    },
    /// The line is not an operation.
    #[error("line {line}: not an operation: {error}")]
    Json {
        /// The line, counted from 1.
        line: u64,
        /// The parser's error.
        error: serde_json::Error,
    },
    /// A line with an operation that no run can record.
    #[error("line {line}: {error}")]
    Invalid {
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        error: Invalid,
    },
}

/// The operations of a history, one by one; empty lines are skipped.
pub fn read(reader: impl BufRead) -> impl Iterator<Item = Result<Operation, ReadError>> {
    reader.lines().zip(1..).filter_map(|(text, line)| match text {
        Ok(text) if text.trim().is_empty() => None,
        Ok(text) => Some(parse(&text, line)),
        Err(error) => Some(Err(ReadError::Io { line, error })),
    })
}

fn parse(text: &str, line: u64) -> Result<Operation, ReadError> {
    let operation: Operation = serde_json::from_str(text).map_err(|error| ReadError::Json { line, error })?;
    operation.validate().map_err(|error| ReadError::Invalid { line, error })?;
    Ok(operation)
}

/// Writes operations, one line each. The caller chooses the buffering.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// A history written to `out`.
    pub const fn new(out: W) -> Writer<W> {
        Writer { out }
    }

    /// Appends one operation.
    pub fn write(&mut self, operation: &Operation) -> std::io::Result<()> {
        serde_json::to_writer(&mut self.out, operation)?;
        self.out.write_all(b"\n")
    }

    /// Flushes, and returns the output.
    pub fn finish(mut self) -> std::io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Datum, Op, Outcome};

    const GOOD: &str = r#"{"client":1,"op":"get","key":"k","arg":null,"result":null,"call_ns":1,"return_ns":2,"outcome":"ok"}"#;

    #[test]
    fn what_was_written_is_read_back() {
        let operations: Vec<Operation> = (0..5)
            .map(|i| Operation {
                client: i,
                op: Op::Set,
                key: format!("key \"{i}\" \u{e9}"),
                arg: Datum::Text(format!("v{i}\n")),
                result: "OK".into(),
                call_ns: i,
                return_ns: Some(i + 1),
                outcome: Outcome::Ok,
            })
            .collect();
        let mut writer = Writer::new(Vec::new());
        for operation in &operations {
            writer.write(operation).unwrap();
        }
        let bytes = writer.finish().unwrap();
        assert_eq!(bytes.iter().filter(|&&byte| byte == b'\n').count(), 5);
        let read_back: Result<Vec<_>, _> = read(bytes.as_slice()).collect();
        assert_eq!(read_back.unwrap(), operations);
    }

    #[test]
    fn errors_name_the_line() {
        for (bad, expected) in [
            ("{", "line 3: not an operation: EOF"),
            (r#"{"client":1}"#, "line 3: not an operation: missing field `op`"),
            (&GOOD.replace("\"get\"", "\"got\""), "line 3: not an operation: unknown variant `got`"),
            (&GOOD.replace("\"key\"", "\"kee\""), "line 3: not an operation: unknown field `kee`"),
            (&GOOD.replace("return_ns\":2", "return_ns\":0"), "line 3: return_ns 0 lies before call_ns 1"),
        ] {
            let text = format!("{GOOD}\n\n{bad}\n");
            let error = read(text.as_bytes()).find_map(Result::err).unwrap().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
