//! The cost of a request and a reply at either end: `cargo bench -p sidle-resp`.

// A benchmark reads the clock.
#![allow(clippy::disallowed_methods)]

use sidle_resp::{
    Args, Limits, Parsed, ParsedReply, ReplyLimits, ReplyParser, ReplyWriter, RequestParser, RequestWriter,
    RespVersion,
};
use std::hint::black_box;
use std::time::Instant;

/// How many requests arrive together.
const DEPTH: usize = 16;
const ROUNDS: usize = 200_000;

fn main() {
    let (key, value) = ([b'k'; 30], [b'v'; 100]);
    let gets = pipeline(|writer| writer.request(&[b"GET", &key]));
    let sets = pipeline(|writer| writer.request(&[b"SET", &key, &value]));
    for (name, input) in [("GET", &gets), ("SET", &sets)] {
        let mut parser = RequestParser::new(Limits::default());
        let mut args = Args::new();
        measure(&format!("parse {name}"), || {
            let mut at = 0;
            while let Ok(Parsed::Complete { consumed }) = parser.parse(black_box(&input[at..]), &mut args) {
                black_box(args.slices(&input[at..]));
                at += consumed;
            }
            assert_eq!(at, input.len());
        });
    }

    let mut out = Vec::new();
    measure("write a value", || {
        out.clear();
        for _ in 0..DEPTH {
            ReplyWriter::new(&mut out, RespVersion::Resp3).bulk(black_box(&value));
        }
    });
    let mut parser = ReplyParser::new(ReplyLimits::default());
    measure("read a value", || {
        let mut at = 0;
        while let Ok(ParsedReply::Complete { frame, consumed }) = parser.parse(black_box(&out[at..])) {
            black_box(frame.reply);
            at += consumed;
        }
        assert_eq!(at, out.len());
    });
}

fn pipeline(write: impl Fn(&mut RequestWriter<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    (0..DEPTH).for_each(|_| write(&mut RequestWriter::new(&mut out)));
    out
}

/// The fastest of a few runs: the cost without interference.
fn measure(name: &str, mut batch: impl FnMut()) {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let started = Instant::now();
        (0..ROUNDS / 5).for_each(|_| batch());
        best = best.min(started.elapsed().as_nanos() as f64 / (ROUNDS / 5 * DEPTH) as f64);
    }
    println!("{name:<14} {best:>6.1} ns");
}
