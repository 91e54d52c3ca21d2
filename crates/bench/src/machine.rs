//! The machine: processors, and a process's processor time.

use std::path::Path;

/// How many processors this process may use.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// A process's processor time so far, user and system, in seconds; `None` if it is gone or
/// the machine does not report it.
pub fn cpu_seconds(pid: u32) -> Option<f64> {
    let process = Path::new("/proc").join(pid.to_string());
    precise_cpu_seconds(&process, "").or_else(|| coarse_cpu_seconds(&process))
}

/// The same of those of its threads whose names begin like this.
pub fn threads_cpu_seconds(pid: u32, prefix: &str) -> Option<f64> {
    precise_cpu_seconds(&Path::new("/proc").join(pid.to_string()), prefix)
}

/// The same of its first thread.
pub fn first_thread_cpu_seconds(pid: u32) -> Option<f64> {
    let thread = Path::new("/proc").join(pid.to_string()).join("task").join(pid.to_string());
    Some(thread_cpu_ns(&thread, "")? as f64 / 1e9)
}

/// To the nanosecond, from the scheduler's account of every thread. Ended threads are missing, even
/// those that end during the reading.
fn precise_cpu_seconds(process: &Path, prefix: &str) -> Option<f64> {
    let threads = std::fs::read_dir(process.join("task")).ok()?;
    let told = threads.filter_map(|thread| thread_cpu_ns(&thread.ok()?.path(), prefix));
    let sum_ns = told.reduce(|sum, thread| sum + thread)?;
    Some(sum_ns as f64 / 1e9)
}

/// Of one thread, if its name begins like this.
fn thread_cpu_ns(thread: &Path, prefix: &str) -> Option<u64> {
    let is_meant = std::fs::read_to_string(thread.join("comm")).ok()?.starts_with(prefix);
    account_ns(&is_meant.then(|| std::fs::read_to_string(thread.join("schedstat")).ok())??)
}

/// The time on a processor in the scheduler's account of a thread: its first number, before the time spent
/// waiting for one and how often it came to run. A thread may have run too shortly for the first to show it;
/// a system without accounts reports that none ever ran.
fn account_ns(account: &str) -> Option<u64> {
    let mut numbers = account.split_ascii_whitespace().map_while(|number| number.parse().ok());
    let (ran_ns, _waited_ns, times) = (numbers.next()?, numbers.next()?, numbers.next()?);
    (times > 0).then_some(ran_ns)
}

/// In clock ticks, ended threads included.
fn coarse_cpu_seconds(process: &Path) -> Option<f64> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    // The name, in parentheses, may hold anything; user and system time are fields 14 and 15.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let sum = ticks()? + ticks()?;
    Some(sum as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// This process's processor time so far, ended threads included.
pub fn own_cpu_seconds() -> Option<f64> {
    coarse_cpu_seconds(Path::new("/proc/self"))
}

/// The calling thread's processor time so far, in nanoseconds.
pub fn own_thread_cpu_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Bytes of memory available without swapping; `None` if the machine does not report it.
pub fn available_memory_bytes() -> Option<u64> {
    memory_line("MemAvailable:")
}

/// Bytes of the machine's memory; `None` if it does not report it.
pub fn memory_bytes() -> Option<u64> {
    memory_line("MemTotal:")
}

fn memory_line(name: &str) -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find(|line| line.starts_with(name))?;
    line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Processor time of the whole machine, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessorTicks {
    /// The total of its processors since it started, used or idle.
    pub(crate) all: u64,
    /// The share that a virtual machine's host took.
    pub(crate) stolen: u64,
}

/// The processor time so far; `None` if the machine does not report it.
pub(crate) fn processor_ticks() -> Option<ProcessorTicks> {
    ticks_of(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// User, nice, system, idle, waiting for disks, interrupts, soft interrupts, stolen; guests' time is part of
/// user.
const TICK_FIELDS: usize = 8;

fn ticks_of(stat: &str) -> Option<ProcessorTicks> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let fields: Vec<u64> = fields.take(TICK_FIELDS).map_while(|field| field.parse().ok()).collect();
    let stolen = *fields.get(TICK_FIELDS - 1)?;
    Some(ProcessorTicks { all: fields.iter().sum(), stolen })
}

/// Gives the calling thread a priority; returns whether the system allowed it.
pub(crate) fn raise_own_priority(niceness: i32) -> bool {
    // Linux takes "this process" to be the calling thread.
    cfg!(target_os = "linux") && rustix::process::setpriority_process(None, niceness).is_ok()
}

/// The kind of these processors, as reported by the machine.
pub fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    line.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// The operating system and its version.
pub fn system() -> String {
    let uname = rustix::system::uname();
    format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn work_shows_in_the_processor_time() {
        let before = own_cpu_seconds().unwrap();
        let mut x = 1u64;
        while own_cpu_seconds().unwrap() < before + 0.05 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        // Another process: threads of this one end while others' tests run, and their time is lost.
        let mut busy =
            std::process::Command::new("/bin/sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let since = std::time::Instant::now();
        while cpu_seconds(busy.id()).unwrap_or(0.0) < 0.05 && since.elapsed().as_secs() < 30 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let seen = cpu_seconds(busy.id());
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(seen >= Some(0.05), "{seen:?}");
    }

    #[test]
    fn what_the_host_took_is_a_part_of_all_ticks() {
        let stat = "cpu  10 1 5 80 2 0 1 7 3 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(ticks_of(stat), Some(ProcessorTicks { all: 106, stolen: 7 }));
        assert_eq!(ticks_of("cpu  10 1 5 80\n"), None, "a system from before such hosts");
        assert_eq!(ticks_of(""), None);
    }

    #[test]
    fn threads_are_told_apart_by_name() {
        let busy = std::thread::Builder::new().name("busy-0".to_owned()).spawn(|| {
            let since = std::time::Instant::now();
            while since.elapsed().as_millis() < 50 {
                std::hint::spin_loop();
            }
            let own = |prefix| threads_cpu_seconds(std::process::id(), prefix);
            (own("busy-"), own("nobody"), own(""))
        });
        let (busy, nobody, all) = busy.expect("it starts").join().expect("it ends");
        assert_eq!(nobody, None);
        assert!(busy > Some(0.0) && busy <= all, "{busy:?} of {all:?}");
    }

    #[test]
    fn a_thread_that_hardly_ran_has_an_account_and_one_without_has_none() {
        assert_eq!(account_ns("963312108 1202385493 1752\n"), Some(963_312_108));
        assert_eq!(account_ns("0 74499 1\n"), Some(0));
        assert_eq!(account_ns("0 0 0\n"), None, "a system that keeps no accounts");
        assert_eq!(account_ns(""), None);
    }

    #[test]
    fn a_thread_that_ends_meanwhile_hides_no_other() {
        let is_over = AtomicBool::new(false);
        let looked = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::thread::spawn(|| ()).join().expect("it ends");
                }
            });
            let looked = (0..2_000).filter(|_| threads_cpu_seconds(std::process::id(), "").is_some()).count();
            is_over.store(true, Ordering::Relaxed);
            looked
        });
        assert_eq!(looked, 2_000);
    }

    #[test]
    fn a_process_that_is_gone_has_no_time() {
        assert_eq!(cpu_seconds(u32::MAX), None);
    }
}
