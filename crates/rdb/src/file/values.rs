//! Where a value ends: its parts are passed over, and looked into by whoever restores it.

use super::FileError;
use super::tape::Tape;
use crate::error::RestoreError;
use crate::length::Length;
use crate::rest::Rest;
use crate::score::SPECIAL_SINCE;
use crate::text::{self, Encoding};
use crate::{
    HASH, HASH_LISTPACK, HASH_ZIPLIST, HASH_ZIPMAP, LIST, LIST_QUICKLIST, LIST_QUICKLIST_2, LIST_ZIPLIST,
    SET, SET_INTSET, SET_LISTPACK, SORTED_SET, SORTED_SET_LISTPACK, SORTED_SET_TEXTS, SORTED_SET_ZIPLIST,
    STRING,
};
use std::io::Read;

/// A module's value in a form that can be passed over.
const MODULE: u8 = 7;
/// Streams of Redis 5, 7.0 and 7.2.
const STREAM: u8 = 15;
const STREAM_2: u8 = 19;
const STREAM_3: u8 = 21;

/// What was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// A value that can be restored.
    Known,
    /// Another, and what it is called.
    Other(&'static str),
}

/// Passes over a value of this type.
pub(super) fn pass_value<R: Read>(tape: &mut Tape<R>, kind: u8) -> Result<Passed, FileError> {
    match kind {
        STRING | HASH_LISTPACK | HASH_ZIPLIST | HASH_ZIPMAP | LIST_ZIPLIST | SORTED_SET_ZIPLIST
        | SORTED_SET_LISTPACK | SET_INTSET | SET_LISTPACK => pass_string(tape)?,
        SET | LIST | LIST_QUICKLIST => pass_each(tape, pass_string)?,
        HASH => pass_each(tape, |tape| {
            pass_string(tape)?;
            pass_string(tape)
        })?,
        LIST_QUICKLIST_2 => pass_each(tape, |tape| {
            Length::read_bytes(tape)?;
            pass_string(tape)
        })?,
        SORTED_SET => pass_each(tape, |tape| {
            pass_string(tape)?;
            tape.pass(size_of::<f64>() as u64)
        })?,
        SORTED_SET_TEXTS => pass_each(tape, |tape| {
            pass_string(tape)?;
            match tape.byte()? {
                SPECIAL_SINCE.. => Ok(()),
                length => tape.pass(length.into()),
            }
        })?,
        STREAM | STREAM_2 | STREAM_3 => {
            pass_stream(tape, kind)?;
            return Ok(Passed::Other("stream"));
        }
        MODULE => {
            Length::read_bytes(tape)?;
            pass_of_module(tape)?;
            return Ok(Passed::Other("module's value"));
        }
        other => return Err(tape.damage(RestoreError::UnknownType(other))),
    }
    Ok(Passed::Known)
}

/// A string that is read into memory: a key, or a name.
pub(super) fn read_string<R: Read>(tape: &mut Tape<R>) -> Result<Vec<u8>, FileError> {
    tape.keep(&[]);
    pass_string(tape)?;
    let raw = tape.kept();
    let string = text::read(&mut Rest::new(&raw), u64::MAX).map_err(|why| tape.damage(why))?;
    Ok(string.into_owned())
}

/// Passes over a string.
pub(super) fn pass_string<R: Read>(tape: &mut Tape<R>) -> Result<(), FileError> {
    match Length::read(tape)? {
        Length::Bytes(bytes) => tape.pass(bytes),
        Length::Encoded(encoding) => match Encoding::numbered(encoding) {
            Some(Encoding::Integer(bytes)) => tape.pass(bytes),
            Some(Encoding::Compressed) => {
                let compressed = Length::read_bytes(tape)?;
                Length::read_bytes(tape)?;
                tape.pass(compressed)
            }
            None => Err(tape.damage(RestoreError::UnknownEncoding(encoding))),
        },
    }
}

fn pass_each<R: Read>(
    tape: &mut Tape<R>,
    pass: impl Fn(&mut Tape<R>) -> Result<(), FileError>,
) -> Result<(), FileError> {
    for _ in 0..Length::read_bytes(tape)? {
        pass(tape)?;
    }
    Ok(())
}

fn pass_lengths<R: Read>(tape: &mut Tape<R>, count: usize) -> Result<(), FileError> {
    (0..count).try_for_each(|_| Length::read_bytes(tape).map(drop))
}

/// The bytes of an entry's number in a stream, and of a time.
const NUMBER_BYTES: u64 = 16;
const TIME_BYTES: u64 = 8;

fn pass_stream<R: Read>(tape: &mut Tape<R>, kind: u8) -> Result<(), FileError> {
    // Entries: a number and a listpack each.
    pass_each(tape, |tape| {
        pass_string(tape)?;
        pass_string(tape)
    })?;
    // How many there are and the last's number; later also the first's, the highest removed, how many ever.
    pass_lengths(tape, if kind == STREAM { 3 } else { 8 })?;
    pass_each(tape, |tape| {
        // A group: its name, the last number it delivered, later how many it read.
        pass_string(tape)?;
        pass_lengths(tape, if kind == STREAM { 2 } else { 3 })?;
        // What is not acknowledged: a number, a time and a count each.
        pass_each(tape, |tape| {
            tape.pass(NUMBER_BYTES + TIME_BYTES)?;
            pass_lengths(tape, 1)
        })?;
        // Its consumers: a name, when they came, later when they did something, and what they owe.
        pass_each(tape, |tape| {
            pass_string(tape)?;
            tape.pass(if kind == STREAM_3 { 2 * TIME_BYTES } else { TIME_BYTES })?;
            pass_each(tape, |tape| tape.pass(NUMBER_BYTES))
        })
    })
}

/// What stands before a part of a module's data, and at its end.
const MODULE_END: u64 = 0;
const MODULE_SIGNED: u64 = 1;
const MODULE_UNSIGNED: u64 = 2;
const MODULE_FLOAT: u64 = 3;
const MODULE_DOUBLE: u64 = 4;
const MODULE_STRING: u64 = 5;

/// Passes over a module's data, to their end.
pub(super) fn pass_of_module<R: Read>(tape: &mut Tape<R>) -> Result<(), FileError> {
    loop {
        match Length::read_bytes(tape)? {
            MODULE_END => return Ok(()),
            MODULE_SIGNED | MODULE_UNSIGNED => pass_lengths(tape, 1)?,
            MODULE_FLOAT => tape.pass(size_of::<f32>() as u64)?,
            MODULE_DOUBLE => tape.pass(size_of::<f64>() as u64)?,
            MODULE_STRING => pass_string(tape)?,
            _ => return Err(tape.damage(RestoreError::Damaged)),
        }
    }
}
