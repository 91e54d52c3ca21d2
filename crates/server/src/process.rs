//! Periodic measurements of the process and the machine; 0 where the system reports nothing.

use sidle_node::table::{CommandId, commands};
use sidle_node::{Gauges, NodeShared, WorkerStats};
use sidle_types::MonotonicUs;
use std::sync::atomic::Ordering::Relaxed;

/// The window for rates: Redis averages over 16 samples of 100 ms.
const RATE_WINDOW_US: u64 = 1_600_000;

/// The most that one connection held is remembered over this many windows: 8 seconds, as in Redis.
const SAMPLES_PER_WINDOW: u32 = 5;

/// The kernel counts CPU time in hundredths of a second on every Linux there is.
const US_PER_CLOCK_TICK: u64 = 10_000;

/// The operating system, as `uname -srm` prints it.
pub(crate) fn system() -> String {
    let uname = rustix::system::uname();
    [uname.sysname(), uname.release(), uname.machine()]
        .map(|part| part.to_string_lossy().into_owned())
        .join(" ")
}

/// The machine's memory in bytes.
pub(crate) fn machine_memory_bytes() -> Option<u64> {
    memory_line("MemTotal:")
}

/// The memory available without swapping.
pub(crate) fn available_memory_bytes() -> Option<u64> {
    memory_line("MemAvailable:")
}

fn memory_line(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Resident memory of this process in bytes.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// CPU time of this process in microseconds: in the program, in the kernel.
fn cpu_us() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold spaces; what follows it does not.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok().map(|ticks| ticks * US_PER_CLOCK_TICK);
    Some((next()?, next()?))
}

/// Measures the node's rates and refreshes its gauges.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    since: MonotonicUs,
    commands: u64,
    bytes_in: u64,
    bytes_out: u64,
    samples: u32,
}

impl Sampler {
    /// Call it a few times a second.
    pub(crate) fn sample(&mut self, now: MonotonicUs, shared: &NodeShared) {
        let elapsed_us = now.since(self.since);
        if elapsed_us < RATE_WINDOW_US {
            return;
        }
        let sampled = Sampler {
            since: now,
            commands: shared.sum(command_calls),
            bytes_in: shared.sum(|worker| worker.bytes_in.read()),
            bytes_out: shared.sum(|worker| worker.bytes_out.read()),
            samples: self.samples.wrapping_add(1),
        };
        if sampled.samples.is_multiple_of(SAMPLES_PER_WINDOW) {
            shared.clients.begin_window();
        }
        // The counters start again from 0 with CONFIG RESETSTAT.
        let rate = |now: u64, before: u64| now.saturating_sub(before) * 1_000_000 / elapsed_us;
        let gauges = &shared.gauges;
        gauges.operations_per_second.store(rate(sampled.commands, self.commands), Relaxed);
        gauges.input_bytes_per_second.store(rate(sampled.bytes_in, self.bytes_in), Relaxed);
        gauges.output_bytes_per_second.store(rate(sampled.bytes_out, self.bytes_out), Relaxed);
        refresh(gauges);
        *self = sampled;
    }
}

fn command_calls(worker: &WorkerStats) -> u64 {
    (0..commands().all().len()).map(|id| worker.command(CommandId(id as u16)).calls.read()).sum()
}

/// Refreshes the gauges that come from the operating system.
pub(crate) fn refresh(gauges: &Gauges) {
    if let Some(bytes) = resident_bytes() {
        gauges.resident_bytes.store(bytes, Relaxed);
    }
    if let Some((user_us, system_us)) = cpu_us() {
        gauges.cpu_user_us.store(user_us, Relaxed);
        gauges.cpu_system_us.store(system_us, Relaxed);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_all_of_it() {
        assert!(machine_memory_bytes().unwrap() > 1 << 20);
        assert!(available_memory_bytes().unwrap() < machine_memory_bytes().unwrap());
        assert!(resident_bytes().unwrap() > 1 << 16);
        assert!(cpu_us().is_some());
        assert!(system().contains(' '));
    }
}
