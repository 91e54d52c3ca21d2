//! The cost of one look at route, MCR and SPH together: `cargo bench -p sidle-client-core --bench lookup`.

// A benchmark reads the clock.
#![allow(clippy::disallowed_methods)]

mod support;

use sidle_client_core::{Class, Destination, Outcome};
use sidle_types::{HashedKey, Position};
use std::hint::black_box;
use std::time::Instant;

/// Enough that one measurement takes some tens of milliseconds.
const LOOKUPS: usize = 4_000_000;
/// How many operations are answered together while the table is filled.
const BATCH: u64 = 1000;

fn main() {
    for keys in [0, 1_000, 100_000, 500_000] {
        let (mut core, connection) = support::core(true);
        let mut ignore = |_, _: Outcome<'_>| {};
        let mut buffer = Vec::new();
        for first in (0..keys).step_by(BATCH as usize) {
            for number in first..first + BATCH {
                let key = number.to_string();
                let args: [&[u8]; 3] = [b"SET", key.as_bytes(), b"v"];
                let to = Destination::Key(HashedKey::new(key.as_bytes()));
                core.submit(support::NOW, number, Class::Write, to, &args).expect("not busy");
            }
            buffer.clear();
            core.take_output(connection, &mut buffer);
            core.received(support::NOW, connection, &b"+OK\r\n".repeat(BATCH as usize), &mut ignore);
        }
        // Half of the requested positions were seen, the other half were not.
        let asked: Vec<Position> = (0..1u64 << 16)
            .map(|n| Position::of_key((n * 7919 % (2 * keys + 1)).to_string().as_bytes()))
            .collect();
        let started = Instant::now();
        let mut single = 0usize;
        for index in 0..LOOKUPS {
            single += usize::from(core.is_single_read(black_box(asked[index & (asked.len() - 1)])));
        }
        println!(
            "{keys:>7} keys seen, SPH of {:>4} KB: {:>5.1} ns a look-up, {:>3.0} % found",
            core.sph_bytes() >> 10,
            started.elapsed().as_nanos() as f64 / LOOKUPS as f64,
            single as f64 / LOOKUPS as f64 * 100.0
        );
    }
}
