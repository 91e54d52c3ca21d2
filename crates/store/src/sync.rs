//! The atomics and threads that the lock-free kernel is built on: the standard ones, or loom's when the
//! kernel is model-checked (`RUSTFLAGS="--cfg loom"`).

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
