//! The speed of a whole migration limited only by the two machines and their stores: one thread, both ends,
//! frames passed in memory (one copy, as a socket would make). Figures are per second of processor time, so
//! that a busy machine distorts them less. They indicate one machine at one time; do not compare them with
//! another run's.
//!
//! `cargo bench -p sidle-migration -- [records] [value bytes]`

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock and its arguments")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use sidle_migration::{
    ExportView, Exporter, FULVA, ImportView, Importer, MigrationSpec, RangeBarrier, SourceInput, TargetEvent,
    TargetInput, Tuning,
};
use sidle_store::{Store, StoreConfig};
use sidle_types::{
    HashedKey, ImportId, MigrationId, MigrationPolicy, MonotonicUs, NodeId, PositionRange, ProtocolVersion,
    TabletEpoch,
};
use sidle_wire::{FrameReader, Lane};
use std::time::{Duration, Instant};

const KEY_BYTES: usize = 30;

fn filled(records: u64, value_bytes: usize) -> Store {
    let record_bytes = (KEY_BYTES + value_bytes + 32) as u64;
    let store =
        Store::new(StoreConfig::with_memory((records * (record_bytes + 24) * 2).max(64 << 20))).unwrap();
    let mut head = store.log_head();
    let value = vec![b'v'; value_bytes];
    for n in 0..records {
        let key = format!("{n:0>KEY_BYTES$}");
        let key = HashedKey::new(key.as_bytes());
        store.lock_slot(key.slot()).put(&mut head, key, &[&value], None).unwrap();
    }
    store
}

/// Time spent at either end.
#[derive(Default)]
struct Spent {
    source: Duration,
    parse: Duration,
    replay: Duration,
}

/// This thread's processor time.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn timed<T>(spent: &mut Duration, f: impl FnOnce() -> T) -> T {
    let start = cpu_time();
    let result = f();
    *spent += cpu_time() - start;
    result
}

fn main() {
    // `cargo bench` passes `--bench`; `cargo test --benches` does not, and gets a small run.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let records = numbers.first().copied().unwrap_or(if is_bench { 2_000_000 } else { 10_000 });
    let value_bytes = numbers.get(1).copied().unwrap_or(100) as usize;

    let source_store = filled(records, value_bytes);
    let target_store = Store::new(StoreConfig::with_memory(source_store.memory().limit)).unwrap();
    let spec = MigrationSpec {
        id: MigrationId(1),
        import: ImportId(1),
        epoch: TabletEpoch(2),
        range: PositionRange::ALL,
        version: ProtocolVersion::CURRENT,
        source: NodeId::from_bytes([1; 20]),
        source_life: 1,
        target: NodeId::from_bytes([2; 20]),
        partitions: source_store.partition(PositionRange::ALL, FULVA.partitions),
        protocol: FULVA,
        bytes: 0,
        policy: MigrationPolicy::default(),
        tuning: Tuning::default(),
    };
    let (_, export) = ExportView::new(&spec, &[]);
    let (_, import) = ImportView::new(&spec);
    let mut source = Exporter::new(MonotonicUs(0), spec.clone(), export);
    let mut target = Importer::new(MonotonicUs(0), spec, import, target_store.log_head());

    let (start, cpu_start) = (Instant::now(), cpu_time());
    let now = || MonotonicUs(start.elapsed().as_micros() as u64);
    let proof = RangeBarrier::new(0).publish().passed().unwrap();
    source.handle(now(), &source_store, SourceInput::Frozen(proof));
    for lane in Lane::ALL {
        source.handle(now(), &source_store, SourceInput::Connected(lane));
        target.handle(now(), &target_store, TargetInput::Connected(lane));
    }
    let mut readers: [[FrameReader; 2]; 2] = Default::default();
    let mut spent = Spent::default();
    let mut out = Vec::new();
    let mut is_finished = false;
    while !is_finished {
        for lane in Lane::ALL {
            let [to_source, to_target] = &mut readers[lane.index()];
            out.clear();
            while target.poll_transmit(now(), &target_store, lane, &mut out) {}
            to_source.push(&out);
            while let Some(frame) = to_source.next_frame().unwrap() {
                source.handle(now(), &source_store, SourceInput::Message(lane, frame.message().unwrap()));
            }
            out.clear();
            timed(&mut spent.source, || source.poll_transmit(now(), &source_store, lane, &mut out));
            to_target.push(&out);
            let parse = &mut spent.parse;
            while let Some(frame) = timed(parse, || to_target.next_frame()).unwrap() {
                let message = TargetInput::Message(lane, frame.message().unwrap());
                if let Some(replay) = timed(parse, || target.handle(now(), &target_store, message)) {
                    timed(&mut spent.replay, || target.replay(now(), &target_store, replay));
                }
            }
        }
        is_finished = std::iter::from_fn(|| target.poll_event()).any(|event| event == TargetEvent::Finished);
    }
    let (seconds, cpu_seconds) = (start.elapsed().as_secs_f64(), (cpu_time() - cpu_start).as_secs_f64());
    let counters = target.counters();
    assert_eq!(counters.records_moved, records);
    let megabytes = counters.bytes_moved as f64 / 1e6;
    println!(
        "{records} records of {KEY_BYTES} + {value_bytes} bytes: {megabytes:.0} MB in {cpu_seconds:.3} s of processor \
         ({seconds:.3} s elapsed): {:.0} MB/s; {} pulls",
        megabytes / cpu_seconds,
        counters.pulls
    );
    for (what, time) in
        [("scan, pack, checksum", spent.source), ("checksum, parse", spent.parse), ("replay", spent.replay)]
    {
        let share = time.as_secs_f64();
        println!("  {what}: {:.0} % of it, {:.0} MB/s alone", share / cpu_seconds * 100.0, megabytes / share);
    }
}
