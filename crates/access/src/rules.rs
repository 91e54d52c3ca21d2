//! Rules as words: what is wrong with one, and selectors that several words make.

/// Why a rule changes nothing, in Redis's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It names no command or category.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// It is no rule.
    #[error("Syntax error")]
    Syntax,
    /// Of a pattern of keys where all are allowed.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
         Try 'resetkeys' to start with an empty list of patterns"
    )]
    AllKeys,
    /// Of a pattern of channels where all are allowed.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. \
         Try 'resetchannels' to start with an empty list of channels"
    )]
    AllChannels,
    /// The user does not have the password.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// It gives no SHA-256 digest.
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    NoDigest,
    /// Of an argument of a subcommand.
    #[error("Allowing first-arg of a subcommand is not supported")]
    SubcommandArgument,
}

/// A parenthesis that no later word closes: the index of its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmatched(pub usize);

/// The rules of some words: those from one with `(` to one with `)` are one rule.
///
/// # Errors
/// A parenthesis stays open.
pub fn whole_rules(words: &[&[u8]]) -> Result<Vec<Vec<u8>>, Unmatched> {
    let mut rules: Vec<Vec<u8>> = Vec::with_capacity(words.len());
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (index, word) in words.iter().enumerate() {
        open = match open {
            None if word.starts_with(b"(") && !word.ends_with(b")") => Some((index, word.to_vec())),
            None => {
                rules.push(word.to_vec());
                None
            }
            Some((start, mut selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(word);
                if word.ends_with(b")") {
                    rules.push(selector);
                    None
                } else {
                    Some((start, selector))
                }
            }
        };
    }
    open.map_or(Ok(rules), |(start, _)| Err(Unmatched(start)))
}

/// Whether C's `isspace`, or the end of a string, is in it.
pub fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | 0))
}
