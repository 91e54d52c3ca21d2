//! What a seed draws of a node with a durable log: in one seed of six, by a stream of its own.

use super::DurableSetup;
use crate::nemesis::NemesisSetup;
use crate::process::HostSetup;
use crate::workload::Workload;
use sidle_log_copies::Settings;
use sidle_log_files::{self as log_files, Syncs};
use sidle_testbed::Random;
use sidle_types::Speaks;

/// The most keys of each kind: everything that the node has is looked at for each commit.
const MOST_KEYS: u64 = 300;
/// The longest value.
const LONGEST_BYTES: u64 = 60_000;

/// The drawing of one seed.
pub(crate) struct DurableDraw {
    random: Random,
}

impl DurableDraw {
    /// Whether this seed's cluster is one node with a durable log.
    pub(crate) fn is_next(seed: u64) -> bool {
        Random::new(seed ^ 0xd04a_b1e0_0000_0000).one_in(6)
    }

    /// Whether it is several, of those seeds.
    pub(crate) fn is_of_cluster(seed: u64) -> bool {
        Random::new(seed ^ 0xc1_057e_0000_0000).one_in(2)
    }

    /// Whether the logs of such a cluster have copies.
    pub(crate) fn has_copies(seed: u64) -> bool {
        Random::new(seed ^ 0xc0_91ed_0000_0000).one_in(2)
    }

    /// Such a cluster.
    pub(crate) fn new(seed: u64) -> DurableDraw {
        DurableDraw { random: Random::new(seed ^ 0x106_5ee0_0000_0000) }
    }

    /// Makes the drawn nodes and the drawn load fit for it. Returns the faults: processes die, and hardly
    /// anything else goes wrong.
    pub(crate) fn finish(
        mut self,
        hosts: &mut [HostSetup],
        workload: &mut Workload,
        safety_us: u64,
    ) -> NemesisSetup {
        self.prepare(hosts, workload);
        let random = &mut self.random;
        let rest_us = random.magnitude(safety_us / 50, safety_us / 4);
        NemesisSetup {
            starts_us: random.below(safety_us / 8),
            rest_us: if random.one_in(12) { 0 } else { rest_us },
            breaks: random.below(2),
            cuts: 0,
            pauses: random.below(2),
            deaths: random.between(1, 4),
            disks: random.below(2),
            lasts_us: random.magnitude(1_000, safety_us / 10),
            longest_us: safety_us / 4,
            // Each safe commit is a step.
            follows_permille: random.below(4),
            absences_permille: 0,
            targets_permille: 0,
            ends_permille: 0,
            lonely_permille: 0,
        }
    }

    /// Makes the drawn nodes of a cluster and the drawn load fit for it: each has a log, and processes die.
    pub(crate) fn join(
        mut self,
        hosts: &mut [HostSetup],
        workload: &mut Workload,
        nemesis: &mut NemesisSetup,
    ) {
        self.prepare(hosts, workload);
        let least_us = nemesis.longest_us.min(1_000_000);
        nemesis.deaths = nemesis.deaths.max(self.random.between(1, 4));
        nemesis.rest_us = nemesis.rest_us.max(self.random.magnitude(10_000, least_us));
        // Each safe commit is a step.
        nemesis.follows_permille = nemesis.follows_permille.min(self.random.below(10));
    }

    /// Gives the logs of these nodes copies, by a stream of its own.
    pub(crate) fn add_copies(seed: u64, hosts: &mut [HostSetup]) {
        let mut random = Random::new(seed ^ 0xc0_91e5_0000_0000);
        let mut copies = Settings {
            wanted: random.between(1, (hosts.len() as u64 - 1).min(3)) as usize,
            syncs: true,
            patience_us: random.magnitude(50_000, 2_000_000),
            rest_us: random.magnitude(10_000, 1_000_000),
            most_bytes: random.magnitude(500, 64_000),
            takeover_after_ms: DurableDraw::draw_leases(seed),
            most_under_way: random.magnitude(1, 16) as usize,
            refuses_after_us: 0,
        };
        copies.refuses_after_us = copies.patience_us + random.magnitude(100_000, 8_000_000);
        hosts.iter_mut().filter_map(|host| host.durable.as_mut()).for_each(|log| log.copies = Some(copies));
    }

    /// Whether their copies give leases, by another stream: those of earlier seeds draw as they did.
    fn draw_leases(seed: u64) -> Option<u64> {
        let mut random = Random::new(seed ^ 0x1ea5_ed00_0000_0000);
        random.one_in(2).then(|| random.magnitude(2_000, 10_000))
    }

    fn prepare(&mut self, hosts: &mut [HostSetup], workload: &mut Workload) {
        let durable = DurableSetup { is_in_cluster: hosts.len() > 1, ..self.setup() };
        for host in hosts {
            host.durable = Some(durable.clone());
            host.speaks = Speaks::THIS_BUILD;
        }
        for keys in [&mut workload.keys, &mut workload.noise_keys, &mut workload.hashes] {
            *keys = (*keys).min(MOST_KEYS);
        }
        workload.large_bytes = workload.large_bytes.min(LONGEST_BYTES);
    }

    fn setup(&mut self) -> DurableSetup {
        let random = &mut self.random;
        let syncs = match random.one_in(2) {
            true => Syncs::Always,
            false => Syncs::Every(random.magnitude(1_000, 1_000_000)),
        };
        let settings = log_files::Settings {
            syncs,
            file_bytes: random.magnitude(1_000, 64_000),
            least_bytes: random.magnitude(2_000, 128_000),
            share_percent: random.between(150, 400),
            judged_bytes: random.magnitude(200, 20_000) as usize,
        };
        DurableSetup {
            settings,
            write_us: random.magnitude(1, 2_000),
            sync_us: random.magnitude(5, 20_000),
            looks_permille: random.between(2, 30),
            dies_at_start_permille: random.below(300),
            is_in_cluster: false,
            copies: None,
        }
    }
}
