//! What a write into a large hash costs, by the size of its chunks.
//!
//! `cargo bench -p sidle-store --bench large [-- <chunk bytes>]`; a million fields of 20 bytes with values
//! of 10, as a packed hash has them: 32 bytes each. A write rewrites the chunk of a random field. Chunks are
//! three quarters of their size full, as they are between two splits. The writer does the cleaner's work
//! itself. Times are CPU times of one thread; other load on the machine still takes cache and memory.

#![expect(clippy::unwrap_used, reason = "a benchmark may fail")]

use rustix::time::{ClockId, clock_gettime};
use sidle_outline::{Chunk, Large, Order, Outline};
use sidle_store::{CleanOutcome, LogHead, Store, StoreConfig};
use sidle_testbed::Random;
use sidle_types::{HashedKey, ValueKind};

const ELEMENTS: u64 = 1_000_000;
const ELEMENT_BYTES: u64 = 32;
const PAYLOAD_BYTES: u64 = 30;
const WRITES: u64 = 1_000_000;

/// CPU time of this thread.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A collection with so many elements in each chunk, its labels spread as hashes are.
fn collection(elements: u64) -> Outline {
    let mut outline = Outline::new(1);
    let chunks = ELEMENTS / elements;
    let bytes = vec![0x5A; (elements * ELEMENT_BYTES) as usize];
    for number in 0..chunks {
        let label = number * (u64::MAX / chunks);
        outline.put(Order::Main, Chunk::new(label, elements as u32, &bytes));
    }
    outline
}

fn store_with(memory_bytes: u64, elements: u64) -> (Store, LogHead) {
    let store =
        Store::new(StoreConfig { preallocate: true, ..StoreConfig::with_memory(memory_bytes) }).unwrap();
    let mut head = store.log_head();
    let key = HashedKey::new(b"large");
    let outline = collection(elements);
    store.lock_slot(key.slot()).put_large(&mut head, key, ValueKind::Hash, outline, None).unwrap();
    (store, head)
}

/// Rewrites the chunk of a random field.
fn write(store: &Store, head: &mut LogHead, random: &mut Random) {
    let key = HashedKey::new(b"large");
    let slot = store.lock_slot(key.slot());
    let record = slot.get(key).value().unwrap();
    let mut outline = slot.outline(record);
    let chunk = {
        let large = Large::new(&outline, &slot);
        let part = large.covering(Order::Main, random.draw()).unwrap();
        let mut bytes = part.bytes.to_vec();
        let at = random.index(bytes.len() - 10);
        bytes[at..at + 10].copy_from_slice(&[random.draw() as u8; 10]);
        Chunk::new(part.chunk.label, part.chunk.elements, &bytes)
    };
    outline.put(Order::Main, chunk);
    slot.put_large(head, key, ValueKind::Hash, outline, None).unwrap();
}

/// Nanoseconds per write, after as many writes to wear the log in.
fn measure(memory_bytes: u64, elements: u64) -> (f64, f64) {
    let (store, mut head) = store_with(memory_bytes, elements);
    let mut random = Random::new(1);
    (0..WRITES).for_each(|_| write(&store, &mut head, &mut random));
    let memory = store.memory();
    let share = (memory.log_live + memory.index) as f64 / memory.limit as f64;
    let started = cpu_seconds();
    (0..WRITES).for_each(|_| write(&store, &mut head, &mut random));
    let ns = (cpu_seconds() - started) * 1e9 / WRITES as f64;
    (ns, share)
}

fn main() {
    println!("{ELEMENTS} elements of {PAYLOAD_BYTES} bytes, {WRITES} writes");
    println!(
        "| chunk bytes | elements | ns per write, 30 % live | 85 % live | cleaner's share | memory per element beyond it |"
    );
    let asked: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![128, 256, 512, 1024] } else { asked };
    for chunk_bytes in sizes {
        let elements = chunk_bytes * 3 / 4 / ELEMENT_BYTES;
        let (store, head) = store_with(512 << 20, elements);
        drop(head);
        while store.cleaner().step(1 << 20) == CleanOutcome::Progress {}
        let memory = store.memory();
        let needed = memory.log_live + memory.index;
        drop(store);
        let [(apart, _), (full, share)] = [30, 85].map(|percent| measure(needed * 100 / percent, elements));
        let beyond =
            (memory.log_live as f64 / 0.85 + memory.index as f64) / ELEMENTS as f64 - PAYLOAD_BYTES as f64;
        println!(
            "| {chunk_bytes} | {elements} | {apart:.0} | {full:.0} ({:.0} % live) | {:.0} % | {beyond:.1} |",
            share * 100.0,
            (full - apart) / full * 100.0,
        );
    }
}
