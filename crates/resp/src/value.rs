//! Owned replies.

use crate::reply_writer::ReplyWriter;

/// A reply that owns its bytes. Attributes are not kept: [`Frame`](crate::Frame) has them.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// A simple string.
    Simple(String),
    /// An error: its code, a space, its text.
    Error(String),
    /// An integer.
    Integer(i64),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// A double.
    Double(f64),
    /// A boolean.
    Boolean(bool),
    /// The digits of an integer of any length.
    BigNumber(String),
    /// A text with its format.
    Verbatim {
        /// Three letters: `txt`, `mkd`.
        format: [u8; 3],
        /// The text itself.
        text: Vec<u8>,
    },
    /// An array.
    Array(Vec<Value>),
    /// A map, in the order it was sent.
    Map(Vec<(Value, Value)>),
    /// A set, in the order it was sent.
    Set(Vec<Value>),
    /// A server push, which answers no request.
    Push(Vec<Value>),
}

impl Value {
    /// Appends the value as a server writes it.
    pub fn write(&self, writer: &mut ReplyWriter<'_>) {
        let all =
            |values: &[Value], writer: &mut ReplyWriter<'_>| values.iter().for_each(|v| v.write(writer));
        match self {
            Value::Null => writer.null(),
            Value::Simple(text) => writer.simple(text),
            Value::Error(text) => writer.error(text),
            Value::Integer(number) => writer.integer(*number),
            Value::Bulk(bytes) => writer.bulk(bytes),
            Value::Double(number) => writer.double(*number),
            Value::Boolean(truth) => writer.boolean(*truth),
            Value::BigNumber(digits) => writer.big_number(digits),
            Value::Verbatim { format, text } => writer.verbatim(*format, text),
            Value::Array(values) => {
                writer.array(values.len());
                all(values, writer);
            }
            Value::Set(values) => {
                writer.set(values.len());
                all(values, writer);
            }
            Value::Push(values) => {
                writer.push(values.len());
                all(values, writer);
            }
            Value::Map(pairs) => {
                writer.map(pairs.len());
                for (key, value) in pairs {
                    key.write(writer);
                    value.write(writer);
                }
            }
        }
    }

    /// The bytes of a string, simple, bulk or verbatim; `None` for anything else.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bulk(bytes) | Value::Verbatim { text: bytes, .. } => Some(bytes),
            Value::Simple(text) => Some(text.as_bytes()),
            _ => None,
        }
    }
}
