//! Lines that are too long.
//!
//! rustfmt breaks code, but not lines whose strings or attributes cannot be broken, nor comments, nor the
//! contents of some macros. So a line is measured without its strings and attributes. Rows of tables in
//! comments may be longer: they cannot be broken.

use proc_macro2::{Delimiter, LineColumn, Span, TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::str::FromStr;

/// The longest line.
pub(crate) const COLUMNS: usize = 110;

/// The lines that are too long, with their lengths.
pub(crate) fn too_long(text: &str) -> Vec<(usize, usize)> {
    let candidates = text.lines().zip(1..).filter(|(line, _)| line.chars().count() > COLUMNS);
    let candidates: Vec<(&str, usize)> = candidates.collect();
    if candidates.is_empty() {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut unbreakable = BTreeMap::new();
    let tokens = TokenStream::from_str(text).expect("a source can be read");
    measure(tokens, &lines, &mut unbreakable);
    candidates
        .into_iter()
        .map(|(line, number)| (line, number, line.chars().count()))
        .filter(|(line, number, columns)| {
            !is_table_row(line) && columns - unbreakable.get(number).unwrap_or(&0) > COLUMNS
        })
        .map(|(_, number, columns)| (number, columns))
        .collect()
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

fn is_table_row(line: &str) -> bool {
    is_comment(line) && line.trim_start().trim_start_matches(['/', '!']).trim_start().starts_with('|')
}

/// Sums, for each line, the columns of its strings and attributes.
fn measure(tokens: TokenStream, lines: &[&str], columns: &mut BTreeMap<usize, usize>) {
    let mut after_hash = false;
    for token in tokens {
        let is_hash = matches!(&token, TokenTree::Punct(punct) if matches!(punct.as_char(), '#' | '!'));
        match token {
            TokenTree::Group(group) if after_hash && group.delimiter() == Delimiter::Bracket => {
                add(group.span(), lines, columns);
            }
            TokenTree::Group(group) => measure(group.stream(), lines, columns),
            TokenTree::Literal(literal) if literal.to_string().contains('"') => {
                add(literal.span(), lines, columns);
            }
            _ => {}
        }
        after_hash = is_hash;
    }
}

/// Adds the columns of a span. A doc comment is an attribute to the compiler, but not here.
fn add(span: Span, lines: &[&str], columns: &mut BTreeMap<usize, usize>) {
    let (start, end): (LineColumn, LineColumn) = (span.start(), span.end());
    let first = lines[start.line - 1].chars().skip(start.column);
    if first.take(2).eq("//".chars()) {
        return;
    }
    for line in start.line..=end.line {
        let from = if line == start.line { start.column } else { 0 };
        let to = if line == end.line { end.column } else { lines[line - 1].chars().count() };
        *columns.entry(line).or_default() += to - from;
    }
}

#[test]
fn strings_and_attributes_may_be_longer_and_comments_may_not() {
    let x = "x".repeat(COLUMNS);
    let of = |text: String| too_long(&text).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
    assert_eq!(of(format!("const S: &str =\n    \"{x}\";\n")), []);
    assert_eq!(of(format!("const S: &str = \"a\n{x}{x}\n\";\n")), []);
    assert_eq!(of(format!("#[error(\"{x}\")]\nstruct A;\n")), []);
    assert_eq!(of(format!("/// {x}\nstruct A;\n// {x}\n")), [1, 3]);
    assert_eq!(of(format!("//! {x}\n")), [1]);
    assert_eq!(of(format!("/// | a | {x} |\nstruct A;\n")), []);
    assert_eq!(of(format!("m! {{ {x}, \"y\" }}\n")), [1]);
}
