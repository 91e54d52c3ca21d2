//! Which keys and slots are hot, from samples of the requests: always on, bounded, and cheap.
//!
//! Purpose: a worker draws some of its requests ([`Sampler`]) and counts what they touched, each sample for
//! as many requests as it was drawn from. Keys are counted in a table of the worker's own ([`SpaceSaving`]),
//! slots in the node's counters ([`SlotCounters`]). Once a second each worker hands its table over, and the
//! node's [`Heat`] merges them into a window. Readers merge windows, and the windows of several nodes.
//!
//! Invariants:
//! - S1: of a position that a [`Summary`] lists, the samples stand for `count - error` to `count` accesses;
//!   of one that it does not list, for `absent` at most. Merging and shortening keep that.
//! - S2: the counts of a table add up to its total.
//! - S3: nothing grows with the number of keys, nor with time.
//! - S4: a request takes no lock, except a sampled one while HOTKEYS tracks.
//!
//! Realises: Space-Saving 3, with weights; Mergeable 3 (`docs/papers.md`).
//!
//! Memory: 20 KiB for each worker. A node, however many workers it has: 704 KiB for the slots once a key was
//! accessed, and at most 310 KiB for its windows; 40 KiB more while HOTKEYS keeps a result.
//!
//! Ownership: a worker owns its [`WorkerHeat`]. [`Heat`] is shared by all threads of a node.

mod access;
mod heat;
mod report;
mod sampler;
mod session;
mod slots;
mod space_saving;
mod summary;
mod worker;

pub use access::{Access, KeyText, Usage};
pub use heat::{Heat, HotPosition, MOST_SECONDS, Recent};
pub use report::{ClusterHeat, HeatReport, KeyReport, NamedKey, SlotReport};
pub use sampler::{SAMPLES_A_WINDOW, SPARSEST, Sampler};
pub use session::{Metrics, Session, SessionOptions, SessionView};
pub use slots::SlotCounters;
pub use space_saving::{SpaceSaving, TRACKED};
pub use summary::{Hot, Summary};
pub use worker::{Noted, WorkerHeat};
