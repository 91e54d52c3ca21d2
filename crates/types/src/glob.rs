//! Redis's glob patterns: `*`, `?`, `[a-z]`, `[^a]` and `\` to escape the next byte.

/// Whether the whole text matches the pattern.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_with(pattern, text, |byte| byte)
}

/// As [`matches`], ignoring case.
pub fn matches_ignore_case(pattern: &[u8], text: &[u8]) -> bool {
    matches_with(pattern, text, |byte| byte.to_ascii_lowercase())
}

/// Linear in memory and at worst quadratic in time. Only the last `*` is ever retried: it reaches every match
/// that an earlier one could.
fn matches_with(pattern: &[u8], text: &[u8], fold: impl Fn(u8) -> u8 + Copy) -> bool {
    if text.is_empty() {
        // Redis then ignores the pattern, so that not even `**` matches; callers treat a lone `*` as matching
        // everything.
        return pattern.is_empty();
    }
    let (mut at, mut read) = (0, 0);
    let mut retry = None;
    loop {
        if at < pattern.len() && pattern[at] == b'*' {
            at += 1;
            retry = Some((at, read));
            continue;
        }
        if read == text.len() {
            return at == pattern.len();
        }
        if at < pattern.len()
            && let Some(next) = match_one(&pattern[at..], text[read], fold)
        {
            at += next;
            read += 1;
            continue;
        }
        match retry {
            None => return false,
            Some((after_star, from)) => {
                at = after_star;
                read = from + 1;
                retry = Some((after_star, read));
            }
        }
    }
}

/// Matches one byte against the pattern's first element; returns the element's length.
fn match_one(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8 + Copy) -> Option<usize> {
    match pattern[0] {
        b'?' => Some(1),
        b'[' => {
            let (matched, length) = match_class(pattern, byte, fold);
            matched.then_some(length)
        }
        b'\\' if pattern.len() >= 2 => (fold(pattern[1]) == fold(byte)).then_some(2),
        literal => (fold(literal) == fold(byte)).then_some(1),
    }
}

/// Matches a byte against `[...]`. An unclosed class ends with the pattern.
fn match_class(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8 + Copy) -> (bool, usize) {
    let mut at = 1;
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let byte = fold(byte);
    let mut matched = false;
    loop {
        match &pattern[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                matched |= *literal == byte;
                at += 2;
            }
            [one, b'-', other, ..] => {
                let (low, high) = (fold(*one.min(other)), fold(*one.max(other)));
                matched |= (low..=high).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                matched |= fold(*literal) == byte;
                at += 1;
            }
        }
    }
    (matched != negated, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_redis_does() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "abc", true),
            ("**", "", false),
            ("a*", "a", true),
            ("a**", "a", true),
            ("*c", "abc", true),
            ("*b", "abc", false),
            ("a*c*e", "abcde", true),
            ("a*c*f", "abcde", false),
            ("*ab*ab", "ababab", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h[a-b]llo", "hcllo", false),
            ("[a-]", "]", true),
            ("[a-]", "b", false),
            ("[]", "a", false),
            ("[^]", "a", true),
            ("[^", "a", true),
            ("[", "a", false),
            ("[a", "a", true),
            ("[ab", "b", true),
            ("[\\]]", "]", true),
            ("[\\-x]", "-", true),
            ("[a\\", "\\", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("\\", "\\", true),
            ("a\\?c", "a?c", true),
            ("a\\?c", "abc", false),
            ("abc", "ABC", false),
            ("a", "ab", false),
            ("*[0-9]", "key:7", true),
            ("*[0-9]", "key:x", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn matches_ignore_case_folds_both_sides() {
        for (pattern, text, expected) in [
            ("MaxMem*", "maxmemory", true),
            ("[A-C]x", "bX", true),
            ("[X]", "x", true),
            ("\\A", "a", true),
            ("[\\X]", "x", false),
        ] {
            assert_eq!(matches_ignore_case(pattern.as_bytes(), text.as_bytes()), expected, "{pattern:?}");
        }
    }

    #[test]
    fn many_stars_stay_fast() {
        let pattern = b"*a".repeat(200);
        let text = [b"a".repeat(20_000), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &text));
    }
}
