//! Single bits of a string: SETBIT and GETBIT. The first bit is the highest of the first byte.

use super::Done;
use super::modify::spliced;
use crate::call::{Call, Executor};
use crate::key_spec::KeySpec;
use crate::keyspace::Keyspace;
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::spec::{Access, CommandFlags, CommandSpec};
use sidle_types::ValueKind;

const READ: CommandFlags = CommandFlags::READONLY.with(CommandFlags::FAST).with(CommandFlags::BITMAP);
const WRITE: CommandFlags = CommandFlags::WRITE.with(CommandFlags::DENYOOM).with(CommandFlags::BITMAP);

pub(super) const fn commands<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("getbit", 3, READ, getbit)
                .keys(KeySpec::one(&["RO", "access"]), Access::Read)
                .docs("bitmap", "2.2.0", "O(1)", "Returns a bit of a value."),
            CommandSpec::over_keys("setbit", 4, WRITE, setbit)
                .keys(KeySpec::one(&["RW", "access", "update"]), Access::ReadWrite)
                .docs(
                    "bitmap",
                    "2.2.0",
                    "O(N) where N is the length of what is added behind the end, or that of the value",
                    "Sets a bit of a value, after zero bytes if the value is too short; returns the old bit.",
                ),
        ]
    }
}

/// A bit's byte in a string, and its place in the byte.
fn place<E: Executor>(call: &Call<'_, E>) -> Result<(usize, u8), ReplyError> {
    let bit = parse_i64(call.args[2]).and_then(|bit| u64::try_from(bit).ok());
    match bit {
        Some(bit) if bit >> 3 < call.keyspace.longest_value_bytes() => {
            Ok(((bit >> 3) as usize, 7 - (bit & 7) as u8))
        }
        _ => Err(ReplyError::text("ERR bit offset is not an integer or out of range")),
    }
}

fn bit_of(value: &[u8], (byte, shift): (usize, u8)) -> u8 {
    value.get(byte).map_or(0, |byte| byte >> shift & 1)
}

fn getbit<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let place = place(call)?;
    let bit = call.look_up_string(0)?.map_or(0, |value| bit_of(value.bytes(), place));
    call.reply.integer(bit.into());
    Ok(())
}

fn setbit<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let (byte, shift) = place(call)?;
    let bit = match call.args[3] {
        b"0" => 0,
        b"1" => 1,
        _ => return Err(ReplyError::text("ERR bit is not an integer or out of range")),
    };
    let old = call.string(0)?;
    let (value, expires_at) = old.map_or((&[][..], None), |value| (value.bytes(), value.expires_at));
    let rest = value.get(byte).map_or(0, |byte| byte & !(1 << shift));
    let part = [rest | bit << shift];
    let parts = spliced(value, byte, &part);
    // The first piece stays in front.
    match old.is_some() && byte >= value.len() {
        true => call.keyspace.extend(0, &parts[1..])?,
        false => call.keyspace.put(0, ValueKind::String, &parts, expires_at)?,
    }
    call.reply.integer(bit_of(value, (byte, shift)).into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bit_is_the_highest_of_the_first_byte() {
        let bits: Vec<u8> = (0..20).map(|bit| bit_of(b"\x80\x01", (bit >> 3, 7 - (bit & 7) as u8))).collect();
        let set: Vec<usize> = (0..20).filter(|&bit| bits[bit] == 1).collect();
        assert_eq!(set, [0, 15]);
    }
}
