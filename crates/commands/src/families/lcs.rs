//! What two strings have in common: LCS.

use super::Done;
use crate::call::{Call, Executor};
use crate::key_spec::KeySpec;
use crate::keyspace::Keyspace;
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::spec::{Access, CommandFlags, CommandSpec};
use crate::subsequence::{Common, Matched};
use sidle_types::ValueKind;

const FLAGS: CommandFlags = CommandFlags::READONLY.with(CommandFlags::STRING);

pub(super) const fn commands<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[CommandSpec::over_keys("lcs", -3, FLAGS, lcs)
            .keys(KeySpec::two(&["RO", "access"]), Access::Read)
            .docs(
                "string",
                "7.0.0",
                "O(N*M) where N and M are the lengths of the values",
                "Returns the longest subsequence that two values have in common.",
            )]
    }
}

/// LCS's options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LcsOptions {
    /// LEN: the reply is the length.
    only_length: bool,
    /// IDX: the reply is where both values match.
    with_places: bool,
    /// MINMATCHLEN: shorter matches are left out.
    least_bytes: usize,
    /// WITHMATCHLEN: each match has its length.
    with_lengths: bool,
}

impl LcsOptions {
    fn parse(mut options: &[&[u8]]) -> Result<LcsOptions, ReplyError> {
        let mut parsed = LcsOptions::default();
        while let [option, rest @ ..] = options {
            options = rest;
            let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
            if is(b"idx") {
                parsed.with_places = true;
            } else if is(b"len") {
                parsed.only_length = true;
            } else if is(b"withmatchlen") {
                parsed.with_lengths = true;
            } else if is(b"minmatchlen")
                && let [number, rest @ ..] = options
            {
                let least = parse_i64(number).ok_or(ReplyError::NotAnInteger)?;
                parsed.least_bytes = usize::try_from(least.max(0)).unwrap_or(usize::MAX);
                options = rest;
            } else {
                return Err(ReplyError::Syntax);
            }
        }
        if parsed.with_places && parsed.only_length {
            return Err(ReplyError::text(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(parsed)
    }
}

/// Refuses what Redis refuses: it keeps four bytes for each pair of places, those before the first bytes
/// included. Only a bit is kept here, and so the limit is one of time.
fn check_size(one: &[u8], other: &[u8], most_bytes: u64) -> Result<(), ReplyError> {
    const BYTES_PER_PAIR: u64 = 4;
    let pairs = (one.len() as u64 + 1).saturating_mul(other.len() as u64 + 1);
    if pairs.saturating_mul(BYTES_PER_PAIR) > most_bytes {
        return Err(ReplyError::text(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    Ok(())
}

fn lcs<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let values = call.look_up_all();
    if values.iter().flatten().any(|value| value.kind != ValueKind::String) {
        return Err(ReplyError::text("ERR The specified keys must contain string values"));
    }
    let options = LcsOptions::parse(&call.args[3..])?;
    let [one, other] = [0, 1].map(|key| values[key].map_or(&[][..], |value| value.bytes()));
    check_size(one, other, call.keyspace.longest_value_bytes())?;
    if options.only_length {
        call.reply.integer(Common::length(one, other) as i64);
        return Ok(());
    }
    let matched = Common::new(one, other).matched();
    if !options.with_places {
        let parts: Vec<&[u8]> = matched.iter().rev().map(|part| &one[part.one()]).collect();
        call.reply.bulk_parts(&parts);
        return Ok(());
    }
    let shown = || matched.iter().filter(|part| part.bytes >= options.least_bytes);
    call.reply.map(2);
    call.reply.bulk(b"matches");
    call.reply.array(shown().count());
    shown().for_each(|part| reply_part(&mut call.reply, part, options.with_lengths));
    call.reply.bulk(b"len");
    call.reply.integer(matched.iter().map(|part| part.bytes as i64).sum());
    Ok(())
}

/// Replies with the first and last place of a match in each value.
fn reply_part(reply: &mut impl Reply, part: &Matched, with_length: bool) {
    reply.array(2 + usize::from(with_length));
    for range in [part.one(), part.other()] {
        reply.array(2);
        reply.integer(range.start as i64);
        reply.integer(range.end as i64 - 1);
    }
    if with_length {
        reply.integer(part.bytes as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_exclude_each_other() {
        let parse = |options: &str| {
            let options: Vec<&[u8]> = options.split_whitespace().map(str::as_bytes).collect();
            LcsOptions::parse(&options)
        };
        for bad in ["foo", "minmatchlen", "len foo"] {
            assert_eq!(parse(bad), Err(ReplyError::Syntax), "{bad}");
        }
        assert_eq!(parse("minmatchlen x"), Err(ReplyError::NotAnInteger));
        assert!(matches!(parse("len idx"), Err(ReplyError::Text(_))));
        assert_eq!(parse("idx minmatchlen -3").unwrap().least_bytes, 0);
        assert_eq!(parse("IDX MinMatchLen 3 minmatchlen 4 withmatchlen").unwrap().least_bytes, 4);
    }

    #[test]
    fn check_size_counts_pairs_of_places() {
        assert!(check_size(&[0; 9], &[0; 9], 400).is_ok());
        assert!(check_size(&[0; 9], &[0; 9], 399).is_err());
        assert!(check_size(&[], &[0; 100], 404).is_ok());
    }
}
