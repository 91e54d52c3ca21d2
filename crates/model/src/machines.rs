//! The machines of a model.

use crate::links::Link;
use crate::quota::Quota;
use serde::{Deserialize, Serialize};
use sidle_bench::quota::quota_and_period_us;

/// The processors of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its cores.
    pub cores: u32,
    /// The limit of all of its threads together, in processors, if any; like a control group's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Share>,
    /// Its serving threads; at a machine of clients, the threads that drive them.
    pub workers: u16,
    /// Its migration threads.
    pub movers: u16,
}

/// A share of processors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// How many processors, or what part of one.
    pub processors: f64,
    /// The period in which it can be used up.
    pub period_us: u64,
}

impl Machine {
    /// The processors that its threads may use together.
    pub fn processors(&self) -> f64 {
        let cores = f64::from(self.cores);
        self.quota.map_or(cores, |quota| quota.processors.min(cores))
    }
}

impl Share {
    /// This many processors, as in `sidle demo --cpus`.
    pub fn of(processors: f64) -> Share {
        Share { processors, period_us: quota_and_period_us(processors).1 }
    }

    /// `phase`: the elapsed part of its first period, 0 to 1.
    pub(crate) fn quota(self, phase: f64) -> Quota {
        let period_ns = self.period_us * 1000;
        let budget_ns = (self.processors * period_ns as f64) as u64;
        Quota { budget_ns, period_ns, first_ns: ((1.0 - phase) * period_ns as f64) as u64 }
    }
}

/// All machines and their link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machines {
    /// The node that gives up records.
    pub source: Machine,
    /// The node that takes them.
    pub target: Machine,
    /// The machine of the clients.
    pub clients: Machine,
    /// The link between any two of them.
    pub link: Link,
    /// The cores of a single machine that all three share, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_cores: Option<u32>,
    /// Whether their pace varies like the measured machine's: a virtual one's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub noisy: bool,
}

/// Why machines cannot be modelled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachinesError {
    /// No preset and no file.
    #[error(
        "'{0}' is no machine: give 'paper', 'four-cores', 'two-cores' or a JSON file, such as a report has under \"modelled\", \"machines\""
    )]
    Unknown(String),
    /// A number is out of range.
    #[error("{0}")]
    Wrong(String),
}

impl Machines {
    /// Two nodes of 8 cores behind links of 40 Gbit/s, and clients that always find a processor: about
    /// Rocksteady's and Fulva's clusters, without their kernel-bypass networks.
    pub const fn paper() -> Machines {
        let node = Machine { cores: 8, quota: None, workers: 4, movers: 2 };
        let clients = Machine { cores: 16, quota: None, workers: 16, movers: 0 };
        let link = Link { latency_ns: 5_000, gbit_per_s: 40.0 };
        Machines { source: node, target: node, clients, link, shared_cores: None, noisy: false }
    }

    /// `sidle-lab`'s set-up on a machine of two cores: a quota for each node and none for the clients,
    /// everything over the loopback interface, with this machine's noise. `source_share`: of a processor.
    pub fn two_cores(source_share: f64, target_share: f64) -> Machines {
        let node = |share| Machine { cores: 2, quota: Some(Share::of(share)), workers: 1, movers: 1 };
        let clients = Machine { cores: 2, quota: None, workers: 2, movers: 0 };
        let link = Link { latency_ns: 3_000, gbit_per_s: 40.0 };
        Machines {
            source: node(source_share),
            target: node(target_share),
            clients,
            link,
            shared_cores: Some(2),
            noisy: true,
        }
    }

    /// The same at half the size, so that a run takes seconds.
    pub const fn four_cores() -> Machines {
        let node = Machine { cores: 4, quota: None, workers: 2, movers: 1 };
        let clients = Machine { cores: 8, quota: None, workers: 8, movers: 0 };
        Machines { source: node, target: node, clients, ..Machines::paper() }
    }

    /// A preset by name.
    pub fn preset(name: &str) -> Option<Machines> {
        match name {
            "paper" => Some(Machines::paper()),
            "four-cores" => Some(Machines::four_cores()),
            "two-cores" => Some(Machines::two_cores(0.4, 0.4)),
            _ => None,
        }
    }

    /// Refuses impossible machines.
    ///
    /// # Errors
    /// What is wrong, and with which machine.
    pub fn check(&self) -> Result<(), MachinesError> {
        let wrong = |what: String| Err(MachinesError::Wrong(what));
        for (name, machine) in [("source", self.source), ("target", self.target), ("clients", self.clients)] {
            if !(1..=1024).contains(&machine.cores) {
                return wrong(format!("{name}: {} cores; give 1 to 1024", machine.cores));
            }
            if !(1..=256).contains(&machine.workers) {
                return wrong(format!("{name}: {} workers; give 1 to 256", machine.workers));
            }
            if name != "clients" && !(1..=64).contains(&machine.movers) {
                return wrong(format!("{name}: {} movers; give 1 to 64", machine.movers));
            }
            if let Some(Share { processors, period_us }) = machine.quota {
                let fits = (0.01..=1024.0).contains(&processors) && (100..=1_000_000).contains(&period_us);
                if !fits {
                    return wrong(format!(
                        "{name}: a quota of {processors} processors in {period_us} us; give 0.01 to 1024 in 100 to 1000000"
                    ));
                }
            }
        }
        if self.shared_cores.is_some_and(|cores| !(1..=1024).contains(&cores)) {
            return wrong("shared_cores: give 1 to 1024".to_owned());
        }
        let Link { latency_ns, gbit_per_s } = self.link;
        if latency_ns > 1_000_000_000 || !(0.001..=100_000.0).contains(&gbit_per_s) {
            return wrong(format!(
                "link: {latency_ns} ns and {gbit_per_s} Gbit/s; give at most a second, and 0.001 to 100000"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_sound_and_survive_json() {
        for name in ["paper", "four-cores", "two-cores"] {
            let machines = Machines::preset(name).unwrap();
            assert_eq!(machines.check(), Ok(()));
            let json = serde_json::to_string(&machines).unwrap();
            assert_eq!(serde_json::from_str::<Machines>(&json).unwrap(), machines);
        }
        assert_eq!(Machines::preset("moon"), None);
    }

    #[test]
    fn impossible_machines_are_refused_by_name() {
        let mut machines = Machines::paper();
        machines.target.cores = 0;
        assert!(machines.check().unwrap_err().to_string().starts_with("target: 0 cores"));
        let mut machines = Machines::paper();
        machines.link.gbit_per_s = f64::NAN;
        assert!(machines.check().unwrap_err().to_string().starts_with("link:"));
    }
}
