//! Instructions that a node takes for a request, from its bytes to its reply's: the same in every run,
//! whatever else the machine does.
//!
//! `cargo bench -p sidle-node --bench instructions`; needs valgrind and gungraun's runner
//! (docs/benchmarks.md, "Instructions"). Each case reads or writes 2000 keys of 30 bytes, with
//! values of 100 bytes.

#![allow(clippy::disallowed_methods)] // starts valgrind

#[path = "../../store/benches/support/counting.rs"]
mod counting;

use counting::{KEYS, VALUE, key, numbers};
use rustix::time::{ClockId, clock_gettime};
use sidle_node::Session;
use sidle_node::testing::SoloNode;
use sidle_resp::{Limits, RequestParser, RequestWriter};
use std::hint::black_box;

/// How keys are made into inputs.
#[derive(Clone, Copy)]
pub struct Shape {
    /// The command.
    pub command: &'static str,
    /// The first key: those from [`KEYS`] on are not there.
    pub first: u64,
    /// Keys of a request.
    pub keys: usize,
    /// Requests of an input.
    pub depth: usize,
}

/// A node, and what a connection sends to it.
pub struct Prepared {
    node: SoloNode,
    session: Session,
    parser: RequestParser,
    out: Vec<u8>,
    inputs: Vec<Vec<u8>>,
}

impl Prepared {
    fn new(shape: Shape) -> Prepared {
        let mut node = SoloNode::new();
        node.worker.measure_with(stopwatch);
        let client = node.parts.shared.clients.register("a".into(), "b".into(), node.now.wall);
        let session = Session::new(client, true);
        let parser = RequestParser::new(Limits::default());
        let mut prepared = Prepared { node, session, parser, out: Vec::new(), inputs: Vec::new() };
        let load = Shape { command: "SET", first: 0, keys: 1, depth: 16 };
        prepared.inputs = inputs((0..KEYS).collect(), load);
        prepared.serve_all();
        prepared.inputs = inputs(numbers(shape.first).collect(), shape);
        prepared
    }

    fn serve_all(&mut self) {
        for input in &self.inputs {
            self.out.clear();
            let mut now = self.node.now;
            now.reading_ns = stopwatch();
            let (session, parser, out) = (&mut self.session, &mut self.parser, &mut self.out);
            let served = self.node.worker.serve(now, session, parser, input, out);
            assert_eq!(served.consumed, input.len());
            black_box(&self.out);
        }
    }
}

/// What the server reads, without the detour over the kernel that valgrind makes it take.
fn stopwatch() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// These keys, in so many requests an input.
fn inputs(numbers: Vec<u64>, shape: Shape) -> Vec<Vec<u8>> {
    let has_values = shape.command.ends_with("SET");
    let input = |numbers: &[u64]| {
        let mut input = Vec::new();
        for numbers in numbers.chunks(shape.keys) {
            let keys: Vec<String> = numbers.iter().copied().map(key).collect();
            let mut args = vec![shape.command.as_bytes()];
            for key in &keys {
                args.push(key.as_bytes());
                if has_values {
                    args.push(&VALUE);
                }
            }
            RequestWriter::new(&mut input).request(&args);
        }
        input
    };
    numbers.chunks(shape.keys * shape.depth).map(input).collect()
}

mod cases {
    use super::{KEYS, Prepared, Shape};
    use gungraun::{Callgrind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};

    #[library_benchmark(setup = Prepared::new)]
    #[bench::get_hit(Shape { command: "GET", first: 0, keys: 1, depth: 1 })]
    #[bench::get_hit_16(Shape { command: "GET", first: 0, keys: 1, depth: 16 })]
    #[bench::get_miss(Shape { command: "GET", first: KEYS, keys: 1, depth: 1 })]
    #[bench::get_miss_16(Shape { command: "GET", first: KEYS, keys: 1, depth: 16 })]
    #[bench::set_overwrite(Shape { command: "SET", first: 0, keys: 1, depth: 1 })]
    #[bench::set_overwrite_16(Shape { command: "SET", first: 0, keys: 1, depth: 16 })]
    #[bench::set_new(Shape { command: "SET", first: KEYS, keys: 1, depth: 1 })]
    #[bench::set_new_16(Shape { command: "SET", first: KEYS, keys: 1, depth: 16 })]
    #[bench::mget_4(Shape { command: "MGET", first: 0, keys: 4, depth: 1 })]
    #[bench::mset_4(Shape { command: "MSET", first: 0, keys: 4, depth: 1 })]
    fn serve(mut prepared: Prepared) -> Prepared {
        prepared.serve_all();
        prepared
    }

    library_benchmark_group!(name = node, benchmarks = serve);
    main!(
        config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"]));
        library_benchmark_groups = node
    );

    pub(super) fn run() {
        main();
    }
}

fn main() {
    counting::run(cases::run);
}
