//! The client's knowledge of other commands: the position of the first key, and whether the command has an
//! effect.

use crate::error::Error;
use sidle_client_core::Class;

/// How a command is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    /// GET of this key.
    Get(&'a [u8]),
    /// To the owner of this key.
    Key(Class, &'a [u8]),
    /// To any node.
    Keyless(Class),
}

/// Commands without a key, and whether they change nothing.
const KEYLESS: &[(&str, Class)] = &[
    ("ACL", Class::Write),
    ("BGREWRITEAOF", Class::Write),
    ("BGSAVE", Class::Write),
    ("CLIENT", Class::Write),
    ("CLUSTER", Class::Write),
    ("COMMAND", Class::Read),
    ("CONFIG", Class::Write),
    ("DBSIZE", Class::Read),
    ("DEBUG", Class::Write),
    ("ECHO", Class::Read),
    ("FLUSHALL", Class::Write),
    ("FLUSHDB", Class::Write),
    ("INFO", Class::Read),
    ("KEYS", Class::Read),
    ("LASTSAVE", Class::Read),
    ("LATENCY", Class::Write),
    ("LOLWUT", Class::Read),
    ("PING", Class::Read),
    ("PUBLISH", Class::Write),
    ("RANDOMKEY", Class::Read),
    ("ROLE", Class::Read),
    ("SAVE", Class::Write),
    ("SCAN", Class::Read),
    ("SHUTDOWN", Class::Write),
    ("SIDLE.MAP", Class::Read),
    ("SIDLE.MIGRATE", Class::Write),
    ("SIDLE.STATUS", Class::Read),
    ("SLOWLOG", Class::Write),
    ("TIME", Class::Read),
    ("WAIT", Class::Read),
];

/// Commands on keys that change nothing.
const READS: &[&str] = &[
    "BITCOUNT",
    "BITPOS",
    "DUMP",
    "EXISTS",
    "EXPIRETIME",
    "GET",
    "GETBIT",
    "GETRANGE",
    "LCS",
    "MEMORY",
    "MGET",
    "OBJECT",
    "PEXPIRETIME",
    "PTTL",
    "STRLEN",
    "SUBSTR",
    "TTL",
    "TYPE",
];

/// Commands whose first key is not their first argument, with its index.
const KEY_PLACES: &[(&str, usize)] =
    &[("BITOP", 2), ("EVAL", 3), ("EVALSHA", 3), ("MEMORY", 2), ("OBJECT", 2)];

/// How to send a command, its name as the first argument. Unknown commands go to the owner of their first
/// argument and count as writes.
pub(crate) fn kind_of<'a>(args: &[&'a [u8]]) -> Result<Kind<'a>, Error> {
    let Some(&name) = args.first() else { return Err(Error::IncompleteCommand("a name")) };
    let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
    if args.len() == 2 && is("GET") {
        return Ok(Kind::Get(args[1]));
    }
    if let Some(&(_, class)) = KEYLESS.iter().find(|(known, _)| is(known)) {
        return Ok(Kind::Keyless(class));
    }
    let class = if READS.iter().any(|known| is(known)) { Class::Read } else { Class::Write };
    let place = KEY_PLACES.iter().find(|(known, _)| is(known)).map_or(1, |&(_, place)| place);
    match args.get(place) {
        Some(key) => Ok(Kind::Key(class, key)),
        None => Err(Error::IncompleteCommand("a key")),
    }
}

/// Commands whose keys are all arguments from their second word on: every one, or every other one.
const MANY_KEYS: &[(&str, usize)] = &[
    ("DEL", 1),
    ("EXISTS", 1),
    ("MGET", 1),
    ("MSET", 2),
    ("MSETNX", 2),
    ("PFCOUNT", 1),
    ("PFMERGE", 1),
    ("SDIFF", 1),
    ("SDIFFSTORE", 1),
    ("SINTER", 1),
    ("SINTERSTORE", 1),
    ("SUNION", 1),
    ("SUNIONSTORE", 1),
    ("TOUCH", 1),
    ("UNLINK", 1),
];

/// Commands with two keys, their first arguments.
const TWO_KEYS: &[&str] =
    &["COPY", "LCS", "LMOVE", "RENAME", "RENAMENX", "RPOPLPUSH", "SMOVE", "ZRANGESTORE"];

/// Which words of a command are its keys; at least one. Where that is not known, it is taken to have one: its
/// node refuses it in a transaction if it has others.
pub(crate) fn keys_of(args: &[&[u8]]) -> Result<Vec<usize>, Error> {
    let Some(&name) = args.first() else { return Err(Error::IncompleteCommand("a name")) };
    let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
    let keys: Vec<usize> = if let Some((_, step)) = MANY_KEYS.iter().find(|(known, _)| is(known)) {
        (1..args.len()).step_by(*step).collect()
    } else if TWO_KEYS.iter().any(|known| is(known)) && args.len() > 2 {
        vec![1, 2]
    } else if KEYLESS.iter().any(|(known, _)| is(known)) {
        Vec::new()
    } else {
        let place = KEY_PLACES.iter().find(|(known, _)| is(known)).map_or(1, |&(_, place)| place);
        if place < args.len() { vec![place] } else { Vec::new() }
    };
    if keys.is_empty() { Err(Error::IncompleteCommand("a key")) } else { Ok(keys) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_go_where_their_first_key_is() {
        let kind = |line: &'static str| {
            let args: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
            kind_of(&args)
        };
        for (line, expected) in [
            ("get k", Kind::Get(b"k")),
            ("SET k v", Kind::Key(Class::Write, b"k")),
            ("GETRANGE k 0 1", Kind::Key(Class::Read, b"k")),
            ("object encoding k", Kind::Key(Class::Read, b"k")),
            ("BITOP AND d a b", Kind::Key(Class::Write, b"d")),
            ("MGET a b", Kind::Key(Class::Read, b"a")),
            ("PING", Kind::Keyless(Class::Read)),
            ("FLUSHALL", Kind::Keyless(Class::Write)),
            ("NEWCOMMAND k", Kind::Key(Class::Write, b"k")),
        ] {
            assert_eq!(kind(line), Ok(expected), "{line}");
        }
        assert_eq!(kind(""), Err(Error::IncompleteCommand("a name")));
        assert_eq!(kind("SET"), Err(Error::IncompleteCommand("a key")));
        assert_eq!(kind("OBJECT HELP"), Err(Error::IncompleteCommand("a key")));
    }

    #[test]
    fn the_keys_of_commands_are_known() {
        let keys = |line: &'static str| {
            let args: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
            keys_of(&args)
        };
        assert_eq!(keys("get k"), Ok(vec![1]));
        assert_eq!(keys("MSET a 1 b 2"), Ok(vec![1, 3]));
        assert_eq!(keys("DEL a b c"), Ok(vec![1, 2, 3]));
        assert_eq!(keys("rename a b"), Ok(vec![1, 2]));
        assert_eq!(keys("OBJECT ENCODING k"), Ok(vec![2]));
        for none in ["PING", "SET", "DBSIZE"] {
            assert_eq!(keys(none), Err(Error::IncompleteCommand("a key")), "{none}");
        }
    }
}
