//! What a request costs in this crate: parse, look up, decide, run, reply; no sockets.
//!
//! `cargo bench -p sidle-node --bench serve`. CPU time of one thread; a store small enough to stay in the
//! caches, so that what is left is this crate's own work, and one large enough not to, where batches are to
//! pay off.

use rustix::time::{ClockId, clock_gettime};
use sidle_node::testing::SoloNode;
use sidle_node::{Session, Worker};
use sidle_resp::{Limits, RequestParser, RequestWriter};
use sidle_testbed::Random;
use std::hint::black_box;

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

struct Bench {
    node: SoloNode,
    session: Session,
    parser: RequestParser,
    out: Vec<u8>,
}

impl Bench {
    fn new() -> Bench {
        let node = SoloNode::with_memory(2 << 30);
        let client = node.parts.shared.clients.register("a".into(), "b".into(), node.now.wall);
        let session = Session::new(client, true);
        Bench { node, session, parser: RequestParser::new(Limits::default()), out: Vec::new() }
    }

    fn serve(&mut self, input: &[u8]) {
        self.out.clear();
        let worker: &mut Worker = &mut self.node.worker;
        let mut at = 0;
        while at < input.len() {
            let (now, session, parser) = (self.node.now, &mut self.session, &mut self.parser);
            at += worker.serve(now, session, parser, &input[at..], &mut self.out).consumed;
        }
        black_box(&self.out);
    }

    /// Serves inputs of `depth` requests each, and prints what one request costs.
    fn measure(&mut self, name: &str, keys: u64, depth: u64, request: impl Fn(u64, &mut RequestWriter<'_>)) {
        const INPUTS: u64 = 20_000;
        let mut random = Random::new(1);
        let inputs: Vec<Vec<u8>> = (0..INPUTS)
            .map(|_| {
                let mut input = Vec::new();
                for _ in 0..depth {
                    request(random.below(keys), &mut RequestWriter::new(&mut input));
                }
                input
            })
            .collect();
        let started = cpu_seconds();
        inputs.iter().for_each(|input| self.serve(input));
        let ns = (cpu_seconds() - started) * 1e9 / (INPUTS * depth) as f64;
        println!("{name:<12} {keys:>9} keys, depth {depth:>2} {ns:>8.1} ns");
    }
}

fn key(number: u64) -> String {
    format!("key:{number:026}")
}

fn main() {
    for keys in [1_000, 2_000_000] {
        let mut bench = Bench::new();
        let value = [b'v'; 100];
        for number in 0..keys {
            let mut input = Vec::new();
            RequestWriter::new(&mut input).request(&[b"SET", key(number).as_bytes(), &value]);
            bench.serve(&input);
        }
        for depth in [1, 16] {
            bench.measure("PING", keys, depth, |_, out| out.request(&[b"PING"]));
            bench.measure("GET", keys, depth, |number, out| out.request(&[b"GET", key(number).as_bytes()]));
            bench.measure("SET", keys, depth, |number, out| {
                out.request(&[b"SET", key(number).as_bytes(), &value]);
            });
        }
    }
}
