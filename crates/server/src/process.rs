//! What the operating system says of the process and the machine; 0 where it says nothing.

use sidle_node::Gauges;
use std::sync::atomic::Ordering::Relaxed;

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
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes << 10)
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

/// Refreshes the gauges that the operating system knows.
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
        assert!(resident_bytes().unwrap() > 1 << 16);
        assert!(cpu_us().is_some());
        assert!(system().contains(' '));
    }
}
