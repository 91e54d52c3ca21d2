//! Processor quotas: with root, source, target and clients cannot borrow from each other.
//!
//! A process that has used up its share stalls for the rest of the period, so the period is short (2.5 ms).
//! Even so the stall shows in the latencies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The period of a quota. At 10 ms the stalls dominated the 99th percentile.
const PERIOD_US: u64 = 2_500;
/// The kernel refuses smaller quotas, so smaller shares of a processor need a longer period.
const MIN_QUOTA_US: u64 = 1_000;
/// The smallest possible share: a period of 10 ms.
pub const LEAST_SHARE: f64 = 0.1;

/// The quota and the period that restrict a process to a share of one processor, in microseconds.
pub fn quota_and_period_us(share: f64) -> (u64, u64) {
    let quota_us = (share * PERIOD_US as f64).round() as u64;
    if quota_us >= MIN_QUOTA_US {
        return (quota_us, PERIOD_US);
    }
    (MIN_QUOTA_US, (MIN_QUOTA_US as f64 / share).round() as u64)
}

/// Shares of one processor by process: `source=0.4,target=0.4`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuShares(pub BTreeMap<String, f64>);

/// The processes of a run that can have a share.
const PROCESSES: [&str; 3] = ["source", "target", "clients"];

impl std::str::FromStr for CpuShares {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuShares, String> {
        let mut shares = BTreeMap::new();
        for part in text.split(',') {
            let (name, share) = part
                .split_once('=')
                .ok_or_else(|| format!("'{part}' is not NAME=SHARE, such as source=0.4"))?;
            if !PROCESSES.contains(&name) {
                return Err(format!("'{name}' is not one of {}", PROCESSES.join(", ")));
            }
            let share: f64 = share.parse().map_err(|_| format!("'{share}' is not a share, such as 0.4"))?;
            if !(LEAST_SHARE..=1024.0).contains(&share) {
                return Err(format!(
                    "a share of {share} cannot be given: at least {LEAST_SHARE} of a processor"
                ));
            }
            shares.insert(name.to_owned(), share);
        }
        Ok(CpuShares(shares))
    }
}

/// Where this machine keeps its control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Hierarchy {
    V1(PathBuf),
    V2(PathBuf),
}

impl Hierarchy {
    fn find() -> Option<Hierarchy> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        Hierarchy::among(&mounts, |path| {
            std::fs::read_to_string(path.join("cgroup.controllers"))
                .is_ok_and(|controllers| controllers.split_ascii_whitespace().any(|name| name == "cpu"))
        })
    }

    fn among(mounts: &str, has_cpu: impl Fn(&Path) -> bool) -> Option<Hierarchy> {
        let mut v2 = None;
        for line in mounts.lines() {
            let mut fields = line.split(' ').skip(1);
            let (Some(path), Some(kind), Some(options)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            match kind {
                "cgroup" if options.split(',').any(|option| option == "cpu") => {
                    return Some(Hierarchy::V1(path.into()));
                }
                "cgroup2" if has_cpu(Path::new(path)) => v2 = Some(Hierarchy::V2(path.into())),
                _ => {}
            }
        }
        v2
    }

    /// Removes a group. A process left in it (this one, a server not yet reaped) goes back to
    /// the root group.
    fn remove(&self, group: &Path) -> std::io::Result<()> {
        if let Ok(pids) = std::fs::read_to_string(group.join("cgroup.procs")) {
            for pid in pids.lines() {
                let _ = std::fs::write(self.root().join("cgroup.procs"), pid);
            }
        }
        std::fs::remove_dir(group)
    }

    fn root(&self) -> &Path {
        match self {
            Hierarchy::V1(path) | Hierarchy::V2(path) => path,
        }
    }
}

/// The prefix of groups' names; their maker's process id follows.
const GROUP_PREFIX: &str = "sidle-";

/// The groups of processes that are gone: killed before they could remove them.
fn abandoned(root: &Path, is_alive: impl Fn(u32) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().filter_map(Result::ok);
    let is_abandoned = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str())?;
        let (pid, group) = name.strip_prefix(GROUP_PREFIX)?.split_once('-')?;
        let pid: u32 = pid.parse().ok()?;
        Some(PROCESSES.contains(&group) && !is_alive(pid))
    };
    entries.map(|entry| entry.path()).filter(|path| is_abandoned(path).unwrap_or(false)).collect()
}

/// Groups of this run; removed when dropped, or by the next run that asks for quotas if this one is killed.
#[derive(Debug)]
pub struct Quotas {
    hierarchy: Hierarchy,
    groups: Vec<PathBuf>,
}

impl Quotas {
    /// Finds out whether quotas are available; returns why not.
    pub fn new() -> Result<Quotas, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root may set processor quotas".to_owned());
        }
        let hierarchy = Hierarchy::find().ok_or("this machine has no control groups for processors")?;
        for group in abandoned(hierarchy.root(), |pid| Path::new("/proc").join(pid.to_string()).exists()) {
            // If it cannot be removed, the next start tries again.
            let _ = hierarchy.remove(&group);
        }
        Ok(Quotas { hierarchy, groups: Vec::new() })
    }

    /// Restricts a process, with all present and future threads, to a share of one processor.
    pub fn limit(&mut self, name: &str, pid: u32, share: f64) -> Result<(), String> {
        let (quota_us, period_us) = quota_and_period_us(share);
        let group = self.hierarchy.root().join(format!("{GROUP_PREFIX}{}-{name}", std::process::id()));
        let failed = |path: &Path, error| format!("{}: {error}", path.display());
        std::fs::create_dir(&group).map_err(|error| failed(&group, error))?;
        self.groups.push(group.clone());
        let write = |file: &str, text: String| {
            let path = group.join(file);
            std::fs::write(&path, text).map_err(|error| failed(&path, error))
        };
        match self.hierarchy {
            Hierarchy::V1(_) => {
                write("cpu.cfs_period_us", period_us.to_string())?;
                write("cpu.cfs_quota_us", quota_us.to_string())?;
            }
            Hierarchy::V2(_) => {
                let subtree = self.hierarchy.root().join("cgroup.subtree_control");
                std::fs::write(&subtree, "+cpu").map_err(|error| failed(&subtree, error))?;
                write("cpu.max", format!("{quota_us} {period_us}"))?;
            }
        }
        write("cgroup.procs", pid.to_string())
    }
}

impl Drop for Quotas {
    fn drop(&mut self) {
        for group in &self.groups {
            if let Err(error) = self.hierarchy.remove(group) {
                eprintln!("sidle: the control group {} was left behind: {error}", group.display());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_parse_or_say_what_is_wrong() {
        let shares: CpuShares = "source=0.4,target=1".parse().unwrap();
        assert_eq!(shares.0, BTreeMap::from([("source".to_owned(), 0.4), ("target".to_owned(), 1.0)]));
        for (bad, message) in [
            ("source", "'source' is not NAME=SHARE, such as source=0.4"),
            ("sauce=1", "'sauce' is not one of source, target, clients"),
            ("source=x", "'x' is not a share, such as 0.4"),
            ("source=0.05", "a share of 0.05 cannot be given: at least 0.1 of a processor"),
            ("source=NaN", "a share of NaN cannot be given: at least 0.1 of a processor"),
        ] {
            assert_eq!(bad.parse::<CpuShares>().unwrap_err(), message);
        }
    }

    #[test]
    fn groups_of_processes_that_are_gone_are_abandoned() {
        let root = tempfile::tempdir().unwrap();
        for name in ["sidle-17-source", "sidle-18-target", "sidle-17-other", "sidle-x-source", "17-source"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        assert_eq!(abandoned(root.path(), |pid| pid == 18), [root.path().join("sidle-17-source")]);
        assert_eq!(abandoned(&root.path().join("nowhere"), |_| false), [] as [PathBuf; 0]);
    }

    #[test]
    fn small_shares_take_a_longer_period() {
        for (share, expected) in
            [(1.0, (2_500, 2_500)), (0.4, (1_000, 2_500)), (0.28, (1_000, 3_571)), (0.1, (1_000, 10_000))]
        {
            assert_eq!(quota_and_period_us(share), expected, "{share}");
        }
    }

    #[test]
    fn the_first_version_is_preferred_where_it_holds_the_processors() {
        let v1 = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n";
        let v2 = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        let both = format!("{v2}{v1}");
        assert_eq!(
            Hierarchy::among(&both, |_| true),
            Some(Hierarchy::V1("/sys/fs/cgroup/cpu,cpuacct".into()))
        );
        assert_eq!(Hierarchy::among(v2, |_| true), Some(Hierarchy::V2("/sys/fs/cgroup/unified".into())));
        assert_eq!(Hierarchy::among(v2, |_| false), None);
    }
}
