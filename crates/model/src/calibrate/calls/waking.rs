//! The cost of waking a thread, for the waker and for the sleeper, with and without its core.
//!
//! A sleeping core has to be interrupted and started. On a virtual machine the host does both: tens of
//! microseconds, where waking a thread alone takes a few.

use crate::calibrate::{monotonic_ns, thread_cpu_ns};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::retry_on_intr;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, sched_yield};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// How often a thread is woken.
const TIMES: u64 = 2_000;
/// How long it sleeps: typical of threads and cores under a load with spare cores.
const REST_NS: u64 = 50_000;

/// Processor time of each, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(in crate::calibrate) struct Waking {
    /// To fall asleep and be woken.
    pub(in crate::calibrate) sleep_ns: u64,
    /// To wake.
    pub(in crate::calibrate) wake_ns: u64,
    /// Added to the former if the thread's core sleeps as well.
    pub(in crate::calibrate) core_sleep_ns: u64,
    /// Added to the latter.
    pub(in crate::calibrate) wake_core_ns: u64,
    /// The delay until such a core runs anything, beside the processor time it then uses.
    pub(in crate::calibrate) core_latency_ns: u64,
}

impl Waking {
    pub(super) fn measure() -> io::Result<Waking> {
        let ours = sched_getaffinity(None)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| ours.is_set(core));
        let first = cores.next().ok_or_else(|| io::Error::other("there is no core to run on"))?;
        let awake = Used::without_sleep()?;
        let together = Used::of(first, first)?;
        let apart = cores.next().map_or(Ok(together), |second| Used::of(first, second))?;
        let core_sleep_ns = apart.sleeper_ns.saturating_sub(together.sleeper_ns);
        Ok(Waking {
            sleep_ns: together.sleeper_ns.saturating_sub(awake.sleeper_ns),
            wake_ns: together.waker_ns.saturating_sub(awake.waker_ns),
            core_sleep_ns,
            wake_core_ns: apart.waker_ns.saturating_sub(together.waker_ns),
            core_latency_ns: apart.latency_ns.saturating_sub(together.latency_ns + core_sleep_ns),
        })
    }
}

/// What two threads used per notification of one by the other.
#[derive(Clone, Copy, Debug)]
struct Used {
    waker_ns: u64,
    sleeper_ns: u64,
    /// From a notification to its receipt.
    latency_ns: u64,
}

impl Used {
    /// Runs on these cores; the other thread sleeps before each notification.
    fn of(wakers_core: usize, sleepers_core: usize) -> io::Result<Used> {
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        let (notified_ns, delay_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                pin(sleepers_core)?;
                let begun_ns = thread_cpu_ns();
                // Coalesced notifications count separately.
                let mut taken = 0;
                while taken < TIMES {
                    taken += take(&event)?;
                    let received_ns = monotonic_ns();
                    // A notification between those two lines has no delay.
                    delay_ns.fetch_add(received_ns.saturating_sub(notified_ns.load(Relaxed)), Relaxed);
                }
                io::Result::Ok((thread_cpu_ns() - begun_ns) / TIMES)
            });
            let waker = scope.spawn(|| {
                let pinned = pin(wakers_core);
                let mut used_ns = 0;
                for _ in 0..TIMES {
                    notified_ns.store(monotonic_ns(), Relaxed);
                    let begun_ns = thread_cpu_ns();
                    notify(&event)?;
                    used_ns += thread_cpu_ns() - begun_ns;
                    sched_yield();
                    let until_ns = monotonic_ns() + REST_NS;
                    while monotonic_ns() < until_ns {
                        std::hint::spin_loop();
                    }
                }
                pinned.map(|()| used_ns / TIMES)
            });
            let failed = |_| Err(io::Error::other("a measuring thread failed"));
            let (waker, sleeper) =
                (waker.join().unwrap_or_else(failed), sleeper.join().unwrap_or_else(failed));
            Ok(Used { waker_ns: waker?, sleeper_ns: sleeper?, latency_ns: delay_ns.load(Relaxed) / TIMES })
        })
    }

    /// Without sleeping: the calls alone.
    fn without_sleep() -> io::Result<Used> {
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        let mut waker_ns = 0;
        for _ in 0..TIMES {
            let begun_ns = thread_cpu_ns();
            notify(&event)?;
            waker_ns += thread_cpu_ns() - begun_ns;
        }
        // Each read takes one.
        let each = eventfd(TIMES as u32, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)?;
        let begun_ns = thread_cpu_ns();
        for _ in 0..TIMES {
            take(&each)?;
        }
        let sleeper_ns = (thread_cpu_ns() - begun_ns) / TIMES;
        Ok(Used { waker_ns: waker_ns / TIMES, sleeper_ns, latency_ns: 0 })
    }
}

fn notify(event: &OwnedFd) -> io::Result<()> {
    retry_on_intr(|| rustix::io::write(event, &1u64.to_ne_bytes()))?;
    Ok(())
}

/// Waits for notifications; returns how many there were.
fn take(event: &OwnedFd) -> io::Result<u64> {
    let mut count = [0; 8];
    retry_on_intr(|| rustix::io::read(event, &mut count))?;
    Ok(u64::from_ne_bytes(count))
}

/// Pins this thread to this core.
fn pin(core: usize) -> io::Result<()> {
    let mut one = CpuSet::new();
    one.set(core);
    Ok(sched_setaffinity(None, &one)?)
}
