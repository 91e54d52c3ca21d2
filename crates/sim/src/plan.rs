//! A seed's plan: the cluster, the network, the load, and the faults.

use crate::clients::{
    BareSetup, CancellerSetup, CommittersSetup, ComparersSetup, ConsumersSetup, ExecutorsSetup,
    MisbehavingSetup, Misbehaviour, OperatorSetup, OtherSetup, SessionSetup, SurveyorSetup, UpgradesSetup,
};
use crate::clock::{Clock, WALL_OFF_MS};
use crate::durable::DurableDraw;
use crate::link::{LinksSetup, SPREAD};
use crate::nemesis::NemesisSetup;
use crate::process::{HostSetup, Pressure, store_config};
use crate::workload::{
    Exchanged, LEAST_FIELDS, Ledgers, MOST_GROUPS, MOST_MEMBER_KEYS, MOST_NAME_SETS, MOST_SETS, Workload,
};
use crate::world::{HostId, Pace};
use sidle_client_core::Awareness;
use sidle_testbed::{Quality, Random};
use sidle_types::{ProtocolVersion, Speaks};

/// A whole simulation before it starts.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The machines.
    pub hosts: Vec<HostSetup>,
    /// The speed of threads' turns.
    pub pace: Pace,
    /// The quality of the network's links.
    pub links: LinksSetup,
    /// The clients.
    pub sessions: Vec<SessionSetup>,
    /// Clients that speak the protocol by themselves.
    pub others: Vec<OtherSetup>,
    /// How many of them read slowly, and by how much.
    pub slow_readers: Vec<(usize, u64)>,
    /// The clients' operations.
    pub workload: Workload,
    /// The operator.
    pub operator: OperatorSetup,
    /// The faults.
    pub nemesis: NemesisSetup,
    /// Which programs to replace with this build's, and when.
    pub replacements: Vec<(u64, HostId)>,
    /// How long faults occur.
    pub safety_us: u64,
    /// Whether nodes have less memory than the written data needs.
    pub is_tight: bool,
}

/// The longest pause of an operator who has dead nodes taken over.
const MOST_REST_US: u64 = 1_000_000;
/// How long it has faults then, at least.
const LEAST_SAFETY_US: u64 = 8_000_000;
/// Of how many of a thousand migrations the source is cut off as they begin to run, where that is looked for.
const LONELY_PERMILLE: u64 = 700;

impl Plan {
    /// This seed's plan: one in six is of durable logs, of these every second one of a cluster, and of those
    /// every second one of a cluster with copies of its logs.
    pub fn draw(seed: u64) -> Plan {
        match DurableDraw::is_next(seed) {
            true if DurableDraw::is_of_cluster(seed) => Plan::of_durable_cluster(seed),
            true => Plan::of_durable_log(seed),
            false => Plan::of_cluster(seed),
        }
    }

    /// This seed's plan of a cluster of several nodes.
    pub fn of_cluster(seed: u64) -> Plan {
        Plan::drawn(seed, Kind::Cluster)
    }

    /// This seed's plan of a node with a durable log.
    pub fn of_durable_log(seed: u64) -> Plan {
        let mut plan = Plan::drawn(seed, Kind::LogAlone);
        let durable = DurableDraw::new(seed);
        plan.nemesis = durable.finish(&mut plan.hosts, &mut plan.workload, plan.safety_us);
        plan.replacements.clear();
        plan.operator.upgrades = UpgradesSetup::default();
        plan
    }

    /// This seed's plan of a cluster of several nodes, each with a durable log. In every second one each log
    /// has copies at other nodes.
    pub fn of_durable_cluster(seed: u64) -> Plan {
        match DurableDraw::has_copies(seed) {
            true => Plan::of_copied_logs(seed),
            false => Plan::of_logs_without_copies(seed),
        }
    }

    /// This seed's plan of such a cluster where each log has copies.
    pub fn of_copied_logs(seed: u64) -> Plan {
        let mut plan = Plan::of_logs_without_copies(seed);
        DurableDraw::add_copies(seed, &mut plan.hosts);
        plan.operator.takes_over = Some(seed ^ 0x7a_4e0e_0000_0000);
        // It looks often whether a node is gone.
        plan.operator.rest_us = plan.operator.rest_us.min(MOST_REST_US);
        if Random::new(seed ^ 0x7a_4e0f_0000_0000).one_in(2) {
            plan.last_long();
        }
        plan
    }

    /// This seed's plan of such a cluster whose nodes die for long, mostly in the middle of migrations.
    pub fn of_takeovers(seed: u64) -> Plan {
        let mut plan = Plan::of_copied_logs(seed);
        plan.last_long();
        plan.nemesis.ends_permille = 100;
        plan.nemesis.deaths = plan.nemesis.deaths.min(1);
        plan
    }

    /// This seed's plan of a cluster where most migrations that begin to run lose their target at once, and
    /// their source does not reach the coordinator.
    pub fn of_lonely_sources(seed: u64) -> Plan {
        let mut plan = Plan::drawn(seed, Kind::LonelySources);
        plan.safety_us = plan.safety_us.max(LEAST_SAFETY_US);
        plan.operator.rest_us = plan.operator.rest_us.min(MOST_REST_US);
        let nemesis = &mut plan.nemesis;
        (nemesis.cuts, nemesis.deaths) = (nemesis.cuts.max(1), nemesis.deaths.max(1));
        nemesis.rest_us = nemesis.rest_us.max(2 * MOST_REST_US);
        nemesis.lonely_permille = LONELY_PERMILLE;
        // It asks for the status, too. A node that is cut off for long refuses that: 64 requests are open.
        plan.workload.noise_permille = 0;
        plan
    }

    /// Long enough for a death to be noticed, and with few deaths at once.
    fn last_long(&mut self) {
        self.safety_us = self.safety_us.max(LEAST_SAFETY_US);
        self.nemesis.rest_us = self.nemesis.rest_us.max(2 * MOST_REST_US);
        // So many more commits: a share of them is looked at.
        let logs = self.hosts.iter_mut().filter_map(|host| host.durable.as_mut());
        logs.for_each(|log| log.looks_permille = log.looks_permille.min(3));
    }

    fn of_logs_without_copies(seed: u64) -> Plan {
        let mut plan = Plan::drawn(seed, Kind::LogsInCluster);
        DurableDraw::new(seed).join(&mut plan.hosts, &mut plan.workload, &mut plan.nemesis);
        plan.replacements.clear();
        plan.operator.upgrades = UpgradesSetup::default();
        plan
    }

    fn drawn(seed: u64, kind: Kind) -> Plan {
        let mut random = Random::new(seed ^ 0x51d1_e5ee_d000_0000);
        // Separate streams leave the rest of every seed's plan unchanged.
        let mut links_random = Random::new(seed ^ 0x11_4b5e_ed00_0000);
        let mut operators_random = Random::new(seed ^ 0x0be2_a705_0000_0000);
        let mut digests_random = Random::new(seed ^ 0xd16e_5700_0000_0000);
        let mut builds_random = Random::new(seed ^ 0xb01d_0000_0000_0000);
        let nodes = match random.below(8) {
            _ if kind == Kind::LogAlone => 1,
            // The coordinator's machine is neither end.
            _ if kind == Kind::LonelySources => 3,
            0 => random.between(4, 7) as usize,
            1..4 => 3,
            _ => 2,
        };
        let is_tight = random.one_in(5) && kind == Kind::Cluster;
        let mut hosts: Vec<HostSetup> = (0..nodes).map(|_| host(&mut random, is_tight)).collect();
        let pace = Pace {
            turn_us: random.magnitude(1, 20),
            stall_us: random.magnitude(10, 20_000),
            stalls_permille: random.below(30),
        };
        let typical = Quality {
            latency_us: random.magnitude(5, 2_000),
            jitter_us: random.magnitude(1, 1_000),
            bytes_per_ms: random.magnitude(1_000, 1_000_000),
            lost_permille: if random.one_in(2) { 0 } else { random.below(20) },
            ..Quality::sound(0, 0)
        };
        let slow_permille = if links_random.one_in(3) { links_random.between(20, 300) } else { 0 };
        let links = LinksSetup { typical, slow_permille, seed: links_random.draw() };
        let think_us = random.magnitude(500, 200_000);
        let clients = random.between(3, 10) as usize;
        let mut session = || session(&mut random, nodes, think_us, &typical, !digests_random.one_in(4));
        let mut sessions: Vec<SessionSetup> = (0..clients).map(|_| session()).collect();
        let slow_readers = match random.one_in(4) {
            true => vec![(random.index(clients), random.magnitude(500, 50_000))],
            false => Vec::new(),
        };
        let safety_us = (think_us * random.between(100, 800)).max(300_000);
        let mut workload = workload(&mut random, safety_us, is_tight);
        later_keys(seed, &mut workload);
        let mut others = others(&mut random, nodes, think_us, &workload);
        let (upgrades, replacements) = builds(&mut builds_random, &mut hosts, safety_us);
        let operator = operator(&mut random, &mut operators_random, safety_us, upgrades, nodes);
        others.extend(canceller(&mut operators_random, nodes).map(OtherSetup::Canceller));
        others.extend(later_others(seed, nodes, think_us, &mut workload));
        slow_moves(&mut random, is_tight, &workload, &mut hosts);
        small_parts(seed, &mut hosts, &mut workload);
        let nemesis = NemesisSetup::draw(&mut random, safety_us);
        run_once(seed, kind.keeps_what_ran(&nemesis) && replacements.is_empty(), &others, &mut sessions);
        let keeps_locks = nodes > 1 && kind.keeps_what_ran(&nemesis) && replacements.is_empty();
        let over_nodes = over_nodes((seed, nodes, think_us), &typical, &mut others, keeps_locks);
        others.extend(over_nodes);
        Plan {
            hosts,
            pace,
            links,
            sessions,
            others,
            slow_readers,
            workload,
            operator,
            nemesis,
            replacements,
            safety_us,
            is_tight,
        }
    }
}

/// What a plan is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nodes without durable logs.
    Cluster,
    /// A single node with one.
    LogAlone,
    /// Nodes with one each.
    LogsInCluster,
    /// Three nodes without, and sources that are cut off.
    LonelySources,
}

impl Kind {
    /// Whether clusters know for good what has run. A death without a log takes that with it.
    fn keeps_what_ran(self, nemesis: &NemesisSetup) -> bool {
        match self {
            Kind::LogsInCluster => true,
            Kind::Cluster => nemesis.deaths == 0,
            Kind::LogAlone | Kind::LonelySources => false,
        }
    }
}

/// How large pieces are where they are small: less than many records, more than all but the largest.
const PIECE_BYTES: (u64, u64) = (50, 2_000);
/// The most pieces of a large value: each takes a trip.
const MOST_PIECES: u64 = 50;

/// The rate bounds of slow moves, in bytes per second.
const SLOW_MOVE_BYTES_PER_S: (u64, u64) = (20_000, 500_000);

/// Sometimes moves that last: events in the middle of one are frequent.
fn slow_moves(random: &mut Random, is_tight: bool, workload: &Workload, hosts: &mut [HostSetup]) {
    if workload.large_permille == 0 && !is_tight && random.one_in(3) {
        let limit = random.magnitude(SLOW_MOVE_BYTES_PER_S.0, SLOW_MOVE_BYTES_PER_S.1);
        hosts.iter_mut().for_each(|host| host.max_bytes_per_s = Some(limit));
    }
}

/// A node's memory when ample. When tight, it has the least that a store works with, up to an eighth more:
/// with more, a store that wastes little is hardly ever short.
const PLENTY_BYTES: (u64, u64) = (16 << 20, 64 << 20);

/// Small pieces, small chunks, or both.
fn small_parts(seed: u64, hosts: &mut [HostSetup], workload: &mut Workload) {
    small_pieces(seed, hosts, workload);
    small_chunks(seed, hosts);
    long_hashes(seed, hosts, workload);
}

/// In every second seed pieces are small, and values larger than one are written: where no bound makes moves
/// last, since under one a command would wait long for a large value of its partition.
fn small_pieces(seed: u64, hosts: &mut [HostSetup], workload: &mut Workload) {
    let mut random = Random::new(seed ^ 0x91ec_e500_0000_0000);
    if random.one_in(2) {
        let bytes = random.magnitude(PIECE_BYTES.0, PIECE_BYTES.1);
        if workload.large_permille == 0 && hosts.iter().all(|host| host.max_bytes_per_s.is_none()) {
            workload.large_permille = random.between(50, 500);
            workload.large_bytes = random.between(1_000, 60_000);
        }
        let bytes = bytes.max(workload.large_bytes / MOST_PIECES) as u32;
        hosts.iter_mut().for_each(|host| host.piece_bytes = bytes);
    }
}

/// In one seed of three there are groups, and in one of three sorted sets and sets, each by a stream of its
/// own.
fn later_keys(seed: u64, workload: &mut Workload) {
    let mut groups = Random::new(seed ^ 0x6e0b_0000_0000);
    if groups.one_in(3) {
        workload.groups = groups.between(1, MOST_GROUPS);
    }
    let mut members = Random::new(seed ^ 0x3e3b_e500_0000_0000);
    if members.one_in(3) {
        workload.member_keys = members.between(1, MOST_MEMBER_KEYS);
    }
    workload.name_sets = name_sets(seed);
}

/// In one seed of four there are few hashes and these have many fields, in small chunks, and are longer than
/// a piece: they move chunk by chunk while they change.
fn long_hashes(seed: u64, hosts: &mut [HostSetup], workload: &mut Workload) {
    let mut random = Random::new(seed ^ 0x10_6ba5_0000_0000);
    if !random.one_in(4) || hosts.iter().any(|host| host.max_bytes_per_s.is_some()) {
        return;
    }
    workload.hashes = random.between(1, 4);
    workload.fields = random.between(20, 60);
    let bytes = random.between(PIECE_BYTES.0, 300).max(workload.large_bytes / MOST_PIECES) as u32;
    let sizes = (random.between(16, 60), random.between(8, 60));
    for host in hosts {
        (host.piece_bytes, host.collection_bytes) = (bytes.min(host.piece_bytes), Some(sizes));
    }
}

/// In two of three seeds collections of few elements are kept in chunks.
fn small_chunks(seed: u64, hosts: &mut [HostSetup]) {
    let mut random = Random::new(seed ^ 0xc4_0c25_0000_0000);
    if !random.one_in(3) {
        let (packed, chunk) = (random.between(16, 100), random.between(8, 60));
        hosts.iter_mut().for_each(|host| host.collection_bytes = Some((packed, chunk)));
    }
}

fn host(random: &mut Random, is_tight: bool) -> HostSetup {
    // Some have ample memory, so that others run short in the middle of a move.
    let is_tight = is_tight && !random.one_in(4);
    let workers = random.between(1, 4) as u16;
    let least = store_config(workers).least_memory_bytes();
    let (low, high) = if is_tight { (least, least * 9 / 8) } else { PLENTY_BYTES };
    HostSetup {
        workers,
        memory_bytes: random.between(low, high),
        clock: Clock {
            offset_us: random.magnitude(1, 1 << 40),
            drift_ppm: random.below(400) as i64 - 200,
            wall_ahead_ms: random.below(2 * WALL_OFF_MS + 1) as i64 - WALL_OFF_MS as i64,
        },
        speaks: Speaks::THIS_BUILD,
        max_bytes_per_s: None,
        piece_bytes: sidle_migration::tuning::PIECE_BYTES,
        collection_bytes: None,
        echoes_permille: if random.one_in(2) { 0 } else { random.below(200) },
        // The server looks ten times a second.
        tick_us: random.magnitude(50_000, 2_000_000),
        pressure: Pressure::draw(random),
        durable: None,
    }
}

/// The operator's settings. Only scripted plans forget members.
fn operator(
    random: &mut Random,
    operators_random: &mut Random,
    safety_us: u64,
    upgrades: UpgradesSetup,
    nodes: usize,
) -> OperatorSetup {
    // Restarting nodes delay some of the requests.
    let hurry = if upgrades.permille > 0 { 10 } else { 1 };
    OperatorSetup {
        rest_us: random.magnitude(safety_us / 120, safety_us / 4) / hurry,
        cancel_permille: if random.one_in(2) { random.between(100, 700) } else { random.below(100) },
        return_permille: if random.one_in(2) { 0 } else { random.below(600) },
        hurry_permille: if operators_random.one_in(2) { 0 } else { operators_random.below(600) },
        forgets_permille: 0,
        splits_groups: false,
        upgrades,
        takes_over: None,
        nodes,
    }
}

/// Sometimes a cluster that an earlier program founded. Its nodes are restarted with this one, in turn or
/// together, while an operator asks to raise its version. Returns how often, and which programs are replaced
/// when.
fn builds(
    random: &mut Random,
    hosts: &mut [HostSetup],
    safety_us: u64,
) -> (UpgradesSetup, Vec<(u64, HostId)>) {
    if !random.one_in(8) {
        return (UpgradesSetup::default(), Vec::new());
    }
    let newer_permille = random.below(700);
    for (number, host) in hosts.iter_mut().enumerate() {
        if number == 0 || !random.permille(newer_permille) {
            host.speaks = Speaks::only(ProtocolVersion::PREVIOUS);
        }
    }
    let until_us = safety_us * random.between(1, 5) / 8;
    let mut replacements: Vec<_> =
        (0..hosts.len()).map(|host| (random.below(until_us), HostId(host))).collect();
    if random.one_in(6) {
        replacements.pop();
    }
    (UpgradesSetup { permille: random.between(200, 600), seed: random.draw() }, replacements)
}

fn others(random: &mut Random, nodes: usize, think_us: u64, workload: &Workload) -> Vec<OtherSetup> {
    let mut others = Vec::new();
    for _ in 0..random.below(3) {
        others.push(OtherSetup::Bare(BareSetup {
            is_aware: random.one_in(2),
            depth: random.magnitude(1, 6) as usize,
            think_us: 3 * think_us,
            slowness_us: random.magnitude(1, 100_000),
            hangs_up_permille: if random.one_in(2) { 0 } else { random.below(20) },
        }));
    }
    if random.one_in(2) {
        // A flush is a write to every key: with many keys nothing else would be judged.
        let flushes = random.one_in(3) && workload.keys < 100;
        others.push(OtherSetup::Surveyor(SurveyorSetup {
            keys: random.magnitude(1, 300),
            think_us: think_us.min(20_000),
            flushes_permille: if flushes { random.between(10, 200) } else { 0 },
            flushes: 8,
            nodes,
        }));
    }
    for misbehaviour in [Misbehaviour::NeverReads, Misbehaviour::Babbles] {
        if random.one_in(4) {
            others.push(OtherSetup::Misbehaving(MisbehavingSetup {
                misbehaviour,
                think_us: 10 * think_us,
                nodes,
            }));
        }
    }
    others
}

fn canceller(random: &mut Random, nodes: usize) -> Option<CancellerSetup> {
    let host = HostId(if random.one_in(2) { 0 } else { random.index(nodes) });
    let permille = random.between(100, 600);
    random.one_in(2).then_some(CancellerSetup { permille, host })
}

/// Clients that are drawn from streams of their own, and keys for these and others.
fn later_others(
    seed: u64,
    nodes: usize,
    think_us: u64,
    workload: &mut Workload,
) -> impl Iterator<Item = OtherSetup> + use<> {
    workload.name_sets = name_sets(seed);
    let consumers = consumers(seed, nodes, think_us, workload).map(OtherSetup::Consumers);
    let comparers =
        [(0xc03a_5ead, Exchanged::Registers), (0x3e4d_5ead, Exchanged::Timed)].map(|(stream, of)| {
            comparers(Random::new(seed ^ stream << 32), of, nodes, think_us).map(OtherSetup::Comparers)
        });
    consumers.into_iter().chain(comparers.into_iter().flatten())
}

/// In one seed of three of a cluster some clients have their writes run once. Not beside flushes, which
/// forget what has run, nor where nodes die without a log, or speak an older version.
fn run_once(seed: u64, is_kept_in_one_version: bool, others: &[OtherSetup], sessions: &mut [SessionSetup]) {
    let mut random = Random::new(seed ^ 0x0ce_5ead_0000_0000);
    if random.one_in(3) && is_kept_in_one_version && !others.iter().any(flushes) {
        sessions.iter_mut().for_each(|session| session.runs_once = !random.one_in(3));
    }
}

fn flushes(other: &OtherSetup) -> bool {
    matches!(other, OtherSetup::Surveyor(setup) if setup.flushes_permille > 0)
}

/// A surveyor flushes importing nodes, whatever its share of flushes is.
fn flush_nothing(other: &mut OtherSetup) {
    if let OtherSetup::Surveyor(setup) = other {
        setup.flushes = 0;
    }
}

/// Those that run transactions over nodes.
fn over_nodes(
    (seed, nodes, think_us): (u64, usize, u64),
    typical: &Quality,
    others: &mut [OtherSetup],
    keeps_locks: bool,
) -> Vec<OtherSetup> {
    let committers = committers((seed, nodes, think_us), typical, others, keeps_locks);
    let executors = committers.as_ref().and_then(|of| executors((seed, nodes, think_us), of));
    committers.into_iter().chain(executors).collect()
}

/// In every second seed of those with several nodes, where no death takes votes with it, there are
/// transactions over nodes. Not beside flushes, which throw away what is judged.
fn committers(
    (seed, nodes, think_us): (u64, usize, u64),
    typical: &Quality,
    others: &mut [OtherSetup],
    keeps_locks: bool,
) -> Option<OtherSetup> {
    let mut random = Random::new(seed ^ 0x7a25_ac70_0000_0000);
    if !random.one_in(2) || !keeps_locks || others.iter().any(flushes) {
        return None;
    }
    others.iter_mut().for_each(flush_nothing);
    Some(OtherSetup::Committers(CommittersSetup {
        ledgers: Ledgers { texts: random.between(2, 10), accounts: random.between(2, 5) },
        rows: random.between(2, 6) as usize,
        think_us,
        doubt_us: random.magnitude(100, 100_000),
        stops_permille: if random.one_in(3) { 0 } else { random.below(150) },
        pauses_permille: if random.one_in(3) { 0 } else { random.below(150) },
        breaks_permille: if random.one_in(3) { 0 } else { random.below(150) },
        awareness: if random.one_in(3) { Awareness::Plain } else { Awareness::Sidle },
        timeout_us: timeout_us(&mut random, typical),
        seed: HostId(random.index(nodes)),
    }))
}

/// In every second seed of those there are EXECs of the same.
fn executors((seed, nodes, think_us): (u64, usize, u64), committers: &OtherSetup) -> Option<OtherSetup> {
    let OtherSetup::Committers(CommittersSetup { ledgers, .. }) = committers else { return None };
    let mut random = Random::new(seed ^ 0xe8ec_0000_0000_0000);
    random.one_in(2).then(|| {
        OtherSetup::Executors(ExecutorsSetup {
            ledgers: *ledgers,
            rows: random.between(1, 4) as usize,
            think_us,
            doubt_us: random.magnitude(100, 100_000),
            nodes,
        })
    })
}

/// In one seed of four there are lists, and clients that wait for items.
fn consumers(seed: u64, nodes: usize, think_us: u64, workload: &mut Workload) -> Option<ConsumersSetup> {
    let mut random = Random::new(seed ^ 0x0c05_5ead_0000_0000);
    if !random.one_in(4) {
        return None;
    }
    workload.list_sets = random.between(1, MOST_SETS);
    Some(ConsumersSetup {
        rows: random.between(3, 6) as usize,
        think_us: 2 * think_us,
        patience_us: random.magnitude(20_000, 4_000_000),
        hangs_up_permille: if random.one_in(2) { 0 } else { random.below(100) },
        nodes,
    })
}

/// In one seed of four values move between keys: how many sets of these there are.
fn name_sets(seed: u64) -> u64 {
    let mut random = Random::new(seed ^ 0x4e_a3e5_0000_0000);
    if random.one_in(4) { random.between(1, MOST_NAME_SETS) } else { 0 }
}

/// In one seed of four there are clients that change what they have read.
fn comparers(mut random: Random, of: Exchanged, nodes: usize, think_us: u64) -> Option<ComparersSetup> {
    if !random.one_in(4) {
        return None;
    }
    Some(ComparersSetup {
        of,
        rows: random.between(2, 6) as usize,
        think_us,
        // Many for so long that ranges move away and back meanwhile.
        doubt_us: random.magnitude(10_000, 20_000_000),
        nodes,
    })
}

fn workload(random: &mut Random, safety_us: u64, is_tight: bool) -> Workload {
    let (large_permille, large_bytes) = match is_tight {
        true => (random.between(400, 900), random.between(8_000, 30_000)),
        false if random.one_in(6) => (random.between(1, 20), 200_000),
        false => (0, 0),
    };
    Workload {
        keys: random.magnitude(if is_tight { 250 } else { 1 }, 2_000),
        groups: 0,
        list_sets: 0,
        member_keys: 0,
        name_sets: 0,
        hashes: if random.one_in(3) { 0 } else { random.magnitude(1, 60) },
        fields: LEAST_FIELDS,
        timed_keys: random.magnitude(1, 100),
        noise_keys: random.magnitude(1, 500),
        timed_permille: if random.one_in(4) { 0 } else { random.below(400) },
        noise_permille: if random.one_in(3) { 0 } else { random.below(250) },
        hot_permille: random.below(700),
        writes_permille: random.between(50, 600),
        multi_permille: random.below(150),
        large_permille,
        large_bytes,
        long_keys: if random.one_in(10) { random.magnitude(1, 5_000) as usize } else { 0 },
        life_ms: random.magnitude(2, (safety_us / 500).max(4)),
    }
}

/// Mostly long enough for a few trips; sometimes too short for any.
fn timeout_us(random: &mut Random, typical: &Quality) -> u64 {
    let trip_us = 2 * SPREAD * (typical.latency_us + typical.jitter_us);
    let least_us = if random.one_in(8) { 20_000 } else { 20_000 + 15 * trip_us };
    random.magnitude(least_us, 3_000_000)
}

fn session(
    random: &mut Random,
    nodes: usize,
    think_us: u64,
    typical: &Quality,
    digests: bool,
) -> SessionSetup {
    SessionSetup {
        awareness: if random.one_in(3) { Awareness::Plain } else { Awareness::Sidle },
        rows: random.between(1, 3) as usize,
        think_us,
        connections_per_node: random.between(1, 3) as usize,
        digests,
        runs_once: false,
        timeout_us: timeout_us(random, typical),
        seed: HostId(random.index(nodes)),
    }
}
