//! Any bytes, as requests and as replies: nothing panics, and how the input is cut up changes nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sidle_resp::{Args, Limits, Parsed, ParsedReply, ReplyLimits, ReplyParser, RequestParser, likely_key};

const LIMITS: Limits = Limits {
    inline_bytes: 64,
    arguments: 100,
    bulk_bytes: 200,
    held_bytes: 150,
    query_buffer_bytes: 400,
    unauthenticated_arguments: 10,
    unauthenticated_bulk_bytes: 100,
};

const REPLY_LIMITS: ReplyLimits =
    ReplyLimits { line_bytes: 64, bulk_bytes: 200, elements: 100, depth: 4, reply_bytes: 400 };

/// What the parser made of the input, in words.
fn requests(pieces: &[&[u8]]) -> Vec<String> {
    let mut parser = RequestParser::new(LIMITS);
    let mut args = Args::new();
    let (mut buffer, mut found) = (Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.parse(&buffer, &mut args) {
                Ok(Parsed::Complete { consumed }) => {
                    if let Some(guess) = likely_key(&buffer)
                        && args.len() > 1
                    {
                        assert_eq!(guess, args.arg(&buffer, 1), "the word that is guessed is the one that is parsed");
                    }
                    found.push(format!("{:?}", args.slices(&buffer)));
                    buffer.drain(..consumed);
                }
                Ok(Parsed::Incomplete { need }) => {
                    assert!(need > 0);
                    break;
                }
                Err(error) => {
                    found.push(error.to_string());
                    return found;
                }
            }
        }
    }
    found
}

/// What the parser made of the input, in words.
fn replies(pieces: &[&[u8]]) -> Vec<String> {
    let mut parser = ReplyParser::new(REPLY_LIMITS);
    let (mut buffer, mut found) = (Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let consumed = match parser.parse(&buffer) {
                Ok(ParsedReply::Complete { frame, consumed }) => {
                    let attributes = frame.attributes().map(|(k, v)| (k.to_value(), v.to_value()));
                    found.push(format!("{:?} {:?}", attributes.collect::<Vec<_>>(), frame.reply.to_value()));
                    consumed
                }
                Ok(ParsedReply::Incomplete { need }) => {
                    assert!(need > 0);
                    break;
                }
                Err(error) => {
                    found.push(error.to_string());
                    return found;
                }
            };
            buffer.drain(..consumed);
        }
    }
    found
}

fuzz_target!(|data: &[u8]| {
    let Some((&cut, input)) = data.split_first() else { return };
    let (left, right) = input.split_at(usize::from(cut) % (input.len() + 1));
    let bytes: Vec<&[u8]> = input.chunks(1).collect();

    let whole = requests(&[input]);
    assert_eq!(requests(&[left, right]), whole);
    assert_eq!(requests(&bytes), whole);

    let whole = replies(&[input]);
    assert_eq!(replies(&[left, right]), whole);
    assert_eq!(replies(&bytes), whole);
});
