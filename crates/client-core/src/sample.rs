//! What a client sends, as tests read it.

use sidle_resp::{Args, Limits, Parsed, RequestParser};

/// The requests in what a client sends, words joined by blanks.
pub(crate) fn requests(bytes: &[u8]) -> Vec<String> {
    let mut parser = RequestParser::new(Limits::default());
    let (mut args, mut at, mut found) = (Args::new(), 0, Vec::new());
    while let Ok(Parsed::Complete { consumed }) = parser.parse(&bytes[at..], &mut args) {
        let words: Vec<_> = args.iter(&bytes[at..]).map(String::from_utf8_lossy).collect();
        found.push(words.join(" "));
        at += consumed;
    }
    assert_eq!(at, bytes.len(), "only whole requests are sent");
    found
}
