//! The arguments of commands as COMMAND DOCS describes them, for the hints of redis-cli and other shells.
//!
//! `arguments.txt` lists them; its head explains the form.

use sidle_resp::ReplyWriter;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Argument {
    name: &'static str,
    kind: &'static str,
    key_spec: Option<i64>,
    /// The token, then since which version it is there, and since which it is deprecated.
    words: [Option<&'static str>; 3],
    flags: Vec<&'static str>,
    parts: Vec<Argument>,
}

/// What the words of an argument are called in a reply.
const WORDS: [&str; 3] = ["token", "since", "deprecated_since"];
/// The marks before these words.
const WORD_MARKS: [char; 3] = ['=', '^', '~'];
const FLAGS: [(char, &str); 3] = [('?', "optional"), ('*', "multiple"), ('+', "multiple_token")];

/// Whether a letter ends what stands before it.
fn is_mark(letter: char) -> bool {
    letter == '@' || WORD_MARKS.contains(&letter) || FLAGS.iter().any(|(mark, _)| *mark == letter)
}

/// The arguments up to the end, or to the one that closes their parts.
fn parse(words: &mut impl Iterator<Item = &'static str>) -> Vec<Argument> {
    let mut arguments = Vec::new();
    while let Some(word) = words.next().filter(|&word| word != ")") {
        let (own, has_parts) = match word.strip_suffix('(') {
            Some(own) => (own, true),
            None => (word, false),
        };
        let mut argument = parse_one(own);
        if has_parts {
            argument.parts = parse(words);
        }
        arguments.push(argument);
    }
    arguments
}

fn parse_one(word: &'static str) -> Argument {
    let (head, mut rest) = word.split_at(word.find(is_mark).unwrap_or(word.len()));
    let (name, kind) = head.rsplit_once(':').expect("a name and a type");
    let mut argument =
        Argument { name, kind, key_spec: None, words: [None; 3], flags: Vec::new(), parts: Vec::new() };
    while let Some(mark) = rest.chars().next() {
        rest = &rest[1..];
        let (value, after) = rest.split_at(rest.find(is_mark).unwrap_or(rest.len()));
        rest = after;
        match FLAGS.iter().find(|(flag, _)| *flag == mark) {
            Some((_, flag)) => argument.flags.push(flag),
            None if mark == '@' => argument.key_spec = value.parse().ok(),
            None => {
                let at = WORD_MARKS.iter().position(|word| *word == mark).expect("a mark");
                argument.words[at] = Some(value);
            }
        }
    }
    argument
}

/// Of each command its arguments.
fn table() -> &'static BTreeMap<&'static str, Vec<Argument>> {
    static TABLE: LazyLock<BTreeMap<&'static str, Vec<Argument>>> = LazyLock::new(|| {
        let mut entries: Vec<(&'static str, Vec<&'static str>)> = Vec::new();
        for line in include_str!("arguments.txt").lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            match entries.last_mut().filter(|_| line.starts_with(' ')) {
                Some((_, before)) => before.extend(words),
                None => entries.extend(words.next().map(|name| (name, words.collect()))),
            }
        }
        entries.into_iter().map(|(name, words)| (name, parse(&mut words.into_iter()))).collect()
    });
    &TABLE
}

/// Whether the arguments of a command are described.
pub(super) fn has_arguments(command: &str) -> bool {
    table().contains_key(command)
}

/// Describes the arguments of a command that has some.
pub(super) fn describe_arguments(reply: &mut ReplyWriter<'_>, command: &str) {
    describe(reply, &table()[command]);
}

fn describe(reply: &mut ReplyWriter<'_>, arguments: &[Argument]) {
    reply.array(arguments.len());
    for argument in arguments {
        let words = || WORDS.iter().zip(argument.words).filter_map(|(name, word)| Some((name, word?)));
        let others = [argument.key_spec.is_some(), !argument.flags.is_empty(), !argument.parts.is_empty()];
        reply.map(2 + words().count() + others.into_iter().filter(|is_there| *is_there).count());
        for (name, text) in [("name", argument.name), ("type", argument.kind)] {
            reply.bulk(name.as_bytes());
            reply.bulk(text.as_bytes());
        }
        if let Some(index) = argument.key_spec {
            reply.bulk(b"key_spec_index");
            reply.integer(index);
        }
        for (name, word) in words() {
            reply.bulk(name.as_bytes());
            reply.bulk(word.as_bytes());
        }
        if !argument.flags.is_empty() {
            reply.bulk(b"flags");
            reply.set(argument.flags.len());
            argument.flags.iter().for_each(|flag| reply.simple(flag));
        }
        if !argument.parts.is_empty() {
            reply.bulk(b"arguments");
            describe(reply, &argument.parts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::commands;

    #[test]
    fn parse_reads_every_mark() {
        let arguments =
            parse(&mut "a:b:key@1=TO^6.2.0~7.0.0?*+ c:oneof( d:block*( e:string ) ) f:double".split(' '));
        let plain = |name, kind| parse_one_of(name, kind);
        let first = Argument {
            key_spec: Some(1),
            words: [Some("TO"), Some("6.2.0"), Some("7.0.0")],
            flags: vec!["optional", "multiple", "multiple_token"],
            ..plain("a:b", "key")
        };
        let block =
            Argument { flags: vec!["multiple"], parts: vec![plain("e", "string")], ..plain("d", "block") };
        let oneof = Argument { parts: vec![block], ..plain("c", "oneof") };
        assert_eq!(arguments, [first, oneof, plain("f", "double")]);
    }

    fn parse_one_of(name: &'static str, kind: &'static str) -> Argument {
        Argument { name, kind, key_spec: None, words: [None; 3], flags: Vec::new(), parts: Vec::new() }
    }

    #[test]
    fn every_command_that_takes_arguments_describes_them() {
        // Their own HELP does; and QUIT ignores what it is given.
        let explains_itself =
            |name: &str| ["sidle", "hotkeys", "debug", "quit"].iter().any(|own| name.starts_with(own));
        for found in commands().all() {
            let (name, arity) = (found.spec.name, found.spec.arity);
            let takes_none = arity == 1 + i16::from(name.contains('|')) || !found.spec.subcommands.is_empty();
            if takes_none || explains_itself(name) {
                continue;
            }
            assert!(has_arguments(name), "{name}");
        }
        for name in table().keys() {
            assert!(commands().find_full_name(name.as_bytes()).is_some(), "{name}");
        }
    }

    /// A key is of a key specification that there is.
    #[test]
    fn keys_are_of_the_specifications_that_command_info_shows() {
        fn highest(arguments: &[Argument]) -> Option<i64> {
            arguments
                .iter()
                .flat_map(|argument| [argument.key_spec, highest(&argument.parts)])
                .flatten()
                .max()
        }
        for found in commands().all() {
            let specifications = match (found.spec.keys.first, found.spec.keys.last_access) {
                (0, _) => 0,
                (_, None) => 1,
                (_, Some(_)) => 2,
            };
            let highest = table().get(found.spec.name).and_then(|arguments| highest(arguments));
            assert!(highest.is_none_or(|index| index < specifications), "{}: {highest:?}", found.spec.name);
        }
    }
}
