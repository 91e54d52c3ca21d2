//! The table's form.
//!
//! `## title` starts a section, which runs on an empty database and a fresh connection, once in each version
//! of the protocol. A line is a request: words, or quoted as in redis-cli (`"a b\n\x00"`), or `a*100` in
//! backquotes for a long one. It may be preceded by how alike the replies must be, with the reason
//! in braces: `~sorted {why}`, `~kind {why}` (the first byte only), `~near 5 {why}`, `~any {why}`.
//! Other lines: `!tell` before a request without a reply, `!other` before one over a second connection,
//! `!raw "bytes"`, `!reconnect`, `!sleep ms`; `#`
//! starts a comment.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Expectation {
    Exact,
    Sorted,
    Kind,
    Near(u64),
    Any,
}

#[derive(Debug)]
pub(crate) enum Step {
    Ask(Expectation, Vec<Vec<u8>>),
    Tell(Vec<Vec<u8>>),
    /// Over a second connection.
    Other(Vec<Vec<u8>>),
    Raw(Vec<u8>),
    Reconnect,
    Sleep(Duration),
}

pub(crate) struct Section {
    pub(crate) title: String,
    /// With their line numbers.
    pub(crate) steps: Vec<(usize, Step)>,
}

pub(crate) fn parse(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section { title: title.to_owned(), steps: Vec::new() });
        } else if !line.is_empty() && !line.starts_with('#') {
            let section = sections.last_mut().expect("the table starts with a section");
            section.steps.push((index + 1, parse_step(line)));
        }
    }
    sections
}

fn parse_step(line: &str) -> Step {
    if let Some(rest) = line.strip_prefix("!tell ") {
        return Step::Tell(split(rest));
    }
    if let Some(rest) = line.strip_prefix("!other ") {
        return Step::Other(split(rest));
    }
    if let Some(rest) = line.strip_prefix("!raw ") {
        return Step::Raw(split(rest).concat());
    }
    if let Some(rest) = line.strip_prefix("!sleep ") {
        return Step::Sleep(Duration::from_millis(rest.parse().expect("milliseconds")));
    }
    if line == "!reconnect" {
        return Step::Reconnect;
    }
    assert!(!line.starts_with('!'), "no such step: {line}");
    let Some(rest) = line.strip_prefix('~') else { return Step::Ask(Expectation::Exact, split(line)) };
    let (how, rest) = rest.split_once('{').expect("a reason in braces");
    let (why, request) = rest.split_once('}').expect("a reason in braces");
    assert!(!why.trim().is_empty(), "no reason: {line}");
    let expectation = match how.split_whitespace().collect::<Vec<_>>()[..] {
        ["sorted"] => Expectation::Sorted,
        ["kind"] => Expectation::Kind,
        ["near", distance] => Expectation::Near(distance.parse().expect("a number")),
        ["any"] => Expectation::Any,
        _ => panic!("no such expectation: {line}"),
    };
    Step::Ask(expectation, split(request))
}

fn split(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.as_bytes()[0] {
            b'"' => quoted(&rest[1..]),
            b'`' => {
                let (inside, after) = rest[1..].split_once('`').expect("a closing backquote");
                let (unit, count) = inside.rsplit_once('*').expect("unit*count");
                (unit.repeat(count.parse().expect("a count")).into_bytes(), after)
            }
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (rest.as_bytes()[..end].to_vec(), &rest[end..])
            }
        };
        words.push(word);
        rest = after.trim_start();
    }
    words
}

fn quoted(text: &str) -> (Vec<u8>, &str) {
    let mut word = Vec::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (word, &text[at + 1..]),
            '\\' => match chars.next().expect("something after a backslash").1 {
                'n' => word.push(b'\n'),
                'r' => word.push(b'\r'),
                't' => word.push(b'\t'),
                'x' => {
                    let digits: String = chars.by_ref().take(2).map(|(_, digit)| digit).collect();
                    word.push(u8::from_str_radix(&digits, 16).expect("two hex digits"));
                }
                other => word.extend_from_slice(other.to_string().as_bytes()),
            },
            other => word.extend_from_slice(other.to_string().as_bytes()),
        }
    }
    panic!("a quote is not closed: {text}");
}
