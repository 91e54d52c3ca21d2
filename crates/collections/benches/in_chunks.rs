//! What the first change of a packed collection costs that another node sent: it is put into chunks.
//!
//! `cargo bench -p sidle-collections --bench in_chunks [-- <bytes>]`; 256 KiB, the most that moves packed, if
//! nothing else is asked for. Times are CPU times of one thread in milliseconds, of 101 conversions.

#![expect(clippy::unwrap_used, reason = "a benchmark may fail")]

use rustix::time::{ClockId, clock_gettime};
use sidle_collections::{
    Collection, Draft, Finished, HashDraft, Kind, Limits, ListDraft, SetDraft, SortedSetDraft,
};
use sidle_types::KeyHash;

const MOST_BYTES: usize = 256 << 10;
const TIMES: usize = 101;

/// CPU time of this thread.
fn cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Names in the order of their hashes, as a source sends those of its chunks.
fn names(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    let number = |at: usize| (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let name = |at| number(at).iter().chain(&[0; 64]).copied().take(bytes).collect();
    let mut names: Vec<Vec<u8>> = (1..=count).map(name).collect();
    names.sort_by_key(|name| KeyHash::of_key(name).0);
    names.dedup();
    names
}

/// Converts a collection with one element more; prints the times.
fn measure<'b, D: Draft<'b>>(what: &str, packed: &'b [u8], one_more: impl Fn(&mut D)) {
    let mut times = Vec::new();
    let mut elements = 0;
    for _ in 0..TIMES {
        let began = cpu_ms();
        let mut draft = D::of(Some(Collection::<D::Of>::of(packed)), 1);
        one_more(&mut draft);
        let Finished::Large(outline) = draft.finish(&Limits::default()) else { panic!("it is short") };
        times.push(cpu_ms() - began);
        elements = outline.len();
    }
    times.sort_by(f64::total_cmp);
    let (median, longest) = (times[TIMES / 2], times[TIMES - 1]);
    println!("{what:<28} {:>7} bytes {elements:>6} elements {median:>7.2} {longest:>7.2}", packed.len());
}

/// The packed collection of these elements.
fn packed<'b, D: Draft<'b>>(elements: impl ExactSizeIterator<Item = D::Element>) -> Vec<u8>
where
    D::Of: Kind,
{
    let limits = Limits { packed_bytes: usize::MAX, ..Limits::default() };
    D::made_of(elements).finish(&limits).into_packed().unwrap()
}

fn main() {
    let asked = std::env::args().skip(1).find_map(|arg| arg.parse().ok());
    let most_bytes = asked.unwrap_or(MOST_BYTES);
    println!("{:<28} {:>37} {:>7} {:>7}", "", "", "median", "longest");
    for bytes in [3, 8, 32] {
        let title = |what: &str| format!("{what}, names of {bytes} bytes");
        let all = |one| names(most_bytes / one, bytes);
        let members = all(1 + bytes);
        let members = members.iter().map(|name| name.as_slice());
        let set = packed::<SetDraft<'_>>(members.clone());
        measure::<SetDraft<'_>>(&title("set"), &set, |set| set.take(b"more"));
        let list = packed::<ListDraft<'_>>(members);
        measure::<ListDraft<'_>>(&title("list"), &list, |list| list.take(b"more"));
        let fields = all(3 + bytes);
        let hash = packed::<HashDraft<'_>>(fields.iter().map(|name| (name.as_slice(), &b"v"[..])));
        measure::<HashDraft<'_>>(&title("hash"), &hash, |hash| hash.take((b"more", b"v")));
        let scored = all(10 + bytes);
        let scored =
            scored.iter().enumerate().map(|(at, name)| (name.as_slice(), (at * 7919 % 65_536) as f64));
        let scored = packed::<SortedSetDraft<'_>>(scored);
        measure::<SortedSetDraft<'_>>(&title("sorted set"), &scored, |set| set.take((b"more", 1.0)));
    }
}
