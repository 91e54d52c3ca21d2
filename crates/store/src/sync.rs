//! The atomics and threads of the lock-free kernel: the standard ones, or loom's for model checking
//! (`RUSTFLAGS="--cfg loom"`).

#[cfg(loom)]
pub(crate) use loom::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence},
    },
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence},
    },
    thread::yield_now,
};

#[cfg(loom)]
pub(crate) fn spin_loop() {
    yield_now();
}
