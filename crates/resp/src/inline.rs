//! Inline requests: one line of words, quoted as in Redis's `sdssplitargs`.

use crate::args::Args;

/// A quote that is not closed, or is closed in the middle of a word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnbalancedQuotes;

/// Splits a line (without its line end) into `args`. Without quotes the arguments are ranges of the line;
/// with quotes all are copied and unquoted.
pub(crate) fn split_line(line: &[u8], args: &mut Args) -> Result<(), UnbalancedQuotes> {
    if line.iter().any(|&byte| byte == b'"' || byte == b'\'') {
        return split_quoted(line, args);
    }
    let mut at = 0;
    while let Some(start) = next_word(line, at) {
        let end = line[start..].iter().position(|&byte| ends_word(byte)).map_or(line.len(), |n| start + n);
        args.push(start, end - start);
        at = end;
    }
    Ok(())
}

fn split_quoted(line: &[u8], args: &mut Args) -> Result<(), UnbalancedQuotes> {
    args.is_decoded = true;
    let mut at = 0;
    while let Some(start) = next_word(line, at) {
        let decoded_start = args.decoded.len();
        at = start;
        loop {
            match line.get(at) {
                None => break,
                Some(&byte) if ends_word(byte) => break,
                // A quote may open in the middle of a word, but its closing quote ends the word.
                Some(b'"') => {
                    at = double_quoted(line, at + 1, &mut args.decoded)?;
                    break;
                }
                Some(b'\'') => {
                    at = single_quoted(line, at + 1, &mut args.decoded)?;
                    break;
                }
                Some(&byte) => {
                    args.decoded.push(byte);
                    at += 1;
                }
            }
        }
        args.push(decoded_start, args.decoded.len() - decoded_start);
    }
    Ok(())
}

/// Reads to the closing double quote; returns the index after it.
fn double_quoted(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Result<usize, UnbalancedQuotes> {
    loop {
        match line.get(at..).unwrap_or_default() {
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(nibble(*high) << 4 | nibble(*low));
                at += 4;
            }
            [b'\\', escaped, ..] => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                at += 2;
            }
            [b'"', rest @ ..] => return closing_quote(rest, at + 1),
            [byte, ..] => {
                out.push(*byte);
                at += 1;
            }
            [] => return Err(UnbalancedQuotes),
        }
    }
}

/// Reads to the closing single quote, where only `\'` is an escape; returns the index after it.
fn single_quoted(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Result<usize, UnbalancedQuotes> {
    loop {
        match line.get(at..).unwrap_or_default() {
            [b'\\', b'\'', ..] => {
                out.push(b'\'');
                at += 2;
            }
            [b'\'', rest @ ..] => return closing_quote(rest, at + 1),
            [byte, ..] => {
                out.push(*byte);
                at += 1;
            }
            [] => return Err(UnbalancedQuotes),
        }
    }
}

fn closing_quote(rest: &[u8], after: usize) -> Result<usize, UnbalancedQuotes> {
    match rest.first() {
        Some(&byte) if !is_space(byte) => Err(UnbalancedQuotes),
        _ => Ok(after),
    }
}

fn next_word(line: &[u8], at: usize) -> Option<usize> {
    line[at..].iter().position(|&byte| !is_space(byte)).map(|n| at + n)
}

/// C's `isspace`: the bytes skipped between words.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// The bytes that end a word: unlike `isspace`, Redis keeps vertical tabs and form feeds inside words.
const fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

const fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
        let mut args = Args::new();
        split_line(line, &mut args)?;
        Ok(args.iter(line).map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn words_as_redis_splits_them() {
        for (line, words) in [
            (&b""[..], &[][..]),
            (b"  \t ", &[]),
            (b"PING", &[&b"PING"[..]]),
            (b" SET  a\tb ", &[b"SET", b"a", b"b"]),
            (b"ECHO \xff\x0b\x0ca", &[b"ECHO", b"\xff\x0b\x0ca"]),
            (b"ECHO a\\x41", &[b"ECHO", b"a\\x41"]),
            (b"ECHO \"\" ''", &[b"ECHO", b"", b""]),
            (b"ECHO \"a b\"", &[b"ECHO", b"a b"]),
            (b"ECHO a\"b\"", &[b"ECHO", b"ab"]),
            (b"ECHO a'b c'", &[b"ECHO", b"ab c"]),
            (b"ECHO 'a\\'b\\n'", &[b"ECHO", b"a'b\\n"]),
            (b"ECHO \"\\x41\\n\\q\\xzz\"", &[b"ECHO", b"A\nqxzz"]),
            (b"ECHO \"\\r\\t\\b\\a\\\\\\\"\"", &[b"ECHO", b"\r\t\x08\x07\\\""]),
        ] {
            let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
            assert_eq!(split(line), Ok(words), "{}", line.escape_ascii());
        }
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in [&b"a \"x"[..], b"a 'x", b"\"a\"b", b"''x", b"\"a\\", b"'a\\'", b"\"", b"\"a\"\"b\""] {
            assert_eq!(split(line), Err(UnbalancedQuotes), "{}", line.escape_ascii());
        }
    }
}
