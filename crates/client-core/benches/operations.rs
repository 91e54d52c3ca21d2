//! The client's cost of one operation, without a network: `cargo bench -p sidle-client-core --bench
//! operations`.

// A benchmark reads the clock.
#![allow(clippy::disallowed_methods)]

mod support;

use sidle_client_core::{Class, Core, Destination, Outcome};
use sidle_types::HashedKey;
use std::hint::black_box;
use std::time::Instant;

const OPERATIONS: u64 = 2_000_000;

fn main() {
    let keys: Vec<String> = (0..1 << 14).map(|number| format!("user{number:026}")).collect();
    let value = [b'v'; 100];
    let value_reply = [b"$100\r\n", &value[..], b"\r\n"].concat();
    for depth in [1, 16, 64, 256] {
        run("GET, owned", depth, false, &value_reply, &keys, |core, token, key| {
            core.get(support::NOW, token, HashedKey::new(key)).expect("not busy");
        });
        run("SET, owned", depth, false, b"+OK\r\n", &keys, |core, token, key| {
            let to = Destination::Key(HashedKey::new(key));
            core.submit(support::NOW, token, Class::Write, to, &[b"SET", key, &value]).expect("not busy");
        });
        run("SET, moving", depth, true, b"+OK\r\n", &keys, |core, token, key| {
            let to = Destination::Key(HashedKey::new(key));
            core.submit(support::NOW, token, Class::Write, to, &[b"SET", key, &value]).expect("not busy");
        });
    }
}

fn run(
    name: &str,
    depth: usize,
    is_moving: bool,
    reply: &[u8],
    keys: &[String],
    submit: impl Fn(&mut Core, u64, &[u8]),
) {
    let (mut core, connection) = support::core(is_moving);
    let replies = reply.repeat(depth);
    let mut buffer = Vec::new();
    let mut ended = 0u64;
    let started = Instant::now();
    while ended < OPERATIONS {
        for index in 0..depth as u64 {
            let token = ended + index;
            submit(&mut core, token, keys[(token as usize).wrapping_mul(7919) & (keys.len() - 1)].as_bytes());
        }
        buffer.clear();
        while let Some(connection) = core.poll_transmit() {
            core.take_output(connection, &mut buffer);
        }
        black_box(&buffer);
        let consumed = core.received(support::NOW, connection, &replies, &mut |_, outcome: Outcome<'_>| {
            black_box(&outcome);
            ended += 1;
        });
        assert_eq!(consumed, replies.len());
        black_box(core.poll_timeout());
    }
    let ns = started.elapsed().as_nanos() as f64 / ended as f64;
    println!("{name}, {depth:>3} at a time: {ns:>6.1} ns an operation");
}
