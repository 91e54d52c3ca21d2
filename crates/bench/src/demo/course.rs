//! The course of a demonstration's load: before, the move, after.

use crate::control::{Control, started_migration};
use crate::demo::{DemoError, DemoOptions, NodePair};
use crate::load::{LOAD_TICK, ProbeGaps, Tick, Verdict, World};
use crate::report::{CpuSeconds, CutFigures, Gap, Interval};
use crate::terminal::{Line, Terminal};
use crate::timeline::{Part, Timeline, WINDOW_NS};
use crate::words::bytes;
use sidle_types::MigrationId;
use std::ops::ControlFlow;

/// The outcome of the move.
#[derive(Clone, Debug, Default)]
pub struct Moved {
    /// When it began and ended, in the load's time.
    pub interval: Interval,
    /// How long it took, by the coordinator.
    pub seconds: f64,
    /// Records that moved.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The longest times without an answer.
    pub gaps: Gap,
    /// The longest time without an acknowledged write.
    pub write_pause_ms: Option<f64>,
    /// Processor time of nodes and clients during the move.
    pub cpu: CpuSeconds,
    /// The nodes' counts.
    pub counters: NodeCounters,
}

/// The nodes' counts of a migration, where they report them.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeCounters {
    /// Pulls of single keys for waiting commands.
    pub priority_pulls: Option<u64>,
    /// Pulls of the keys in a sample of the misses.
    pub samp_pulls: Option<u64>,
    /// Bytes between the nodes beyond one copy of each record.
    pub extra_bytes: Option<u64>,
    /// The cuts by which the range was given.
    pub cuts: Option<CutFigures>,
}

/// How often the nodes' counters are requested while data moves.
const COUNTERS_NS: u64 = WINDOW_NS;

enum Stage {
    Before,
    Moving { id: MigrationId, since_ns: u64 },
    After { since_ns: u64 },
    Failed(DemoError),
}

/// The events during the load: nothing, then the move, then nothing.
pub struct Course<'a> {
    world: &'a World<'a>,
    options: &'a DemoOptions,
    nodes: &'a NodePair,
    control: Control,
    gaps: &'a ProbeGaps,
    line: Line,
    terminal: &'a Terminal,
    stage: Stage,
    moved: Moved,
    cpu_before: CpuSeconds,
    counters: Counters,
    next_counters_ns: u64,
}

impl<'a> Course<'a> {
    /// A course that begins with the load.
    pub fn new(
        world: &'a World<'a>,
        options: &'a DemoOptions,
        nodes: &'a NodePair,
        control: Control,
        gaps: &'a ProbeGaps,
        terminal: &'a Terminal,
    ) -> Course<'a> {
        let line = terminal.live();
        let cpu_before = cpu(nodes);
        let counters = Counters::new(nodes);
        Course {
            world,
            options,
            nodes,
            control,
            gaps,
            line,
            terminal,
            stage: Stage::Before,
            moved: Moved::default(),
            cpu_before,
            counters,
            next_counters_ns: 0,
        }
    }

    /// Whether no move was requested yet.
    pub fn is_before(&self) -> bool {
        matches!(self.stage, Stage::Before)
    }

    /// Whether the move is over.
    pub fn is_after(&self) -> bool {
        matches!(self.stage, Stage::After { .. })
    }

    /// The outcome of the move, or why there is none.
    pub fn finish(mut self) -> Result<Moved, DemoError> {
        drop(self.line);
        if let Stage::Failed(error) = self.stage {
            return Err(error);
        }
        let now = cpu(self.nodes);
        let used = |now: Option<f64>, before: Option<f64>| Some(now? - before?);
        self.moved.cpu = CpuSeconds {
            source: used(now.source, self.cpu_before.source),
            target: used(now.target, self.cpu_before.target),
            clients: used(now.clients, self.cpu_before.clients),
        };
        self.moved.counters = self.counters.ask(self.moved.bytes);
        Ok(self.moved)
    }

    /// Continues the course; called about every 25 ms. While data moves it waits that long for the end, to
    /// detect it immediately.
    pub fn tick(&mut self, tick: Tick, timeline: &mut Timeline) -> Verdict {
        match self.step(tick, timeline) {
            Ok(verdict) => verdict,
            Err(error) => {
                self.stage = Stage::Failed(error);
                ControlFlow::Break(())
            }
        }
    }

    fn step(&mut self, tick: Tick, timeline: &mut Timeline) -> Result<Verdict, DemoError> {
        let margin_ns = self.options.margin.as_nanos() as u64;
        let part = |since_ns: u64| (tick.elapsed_ns - since_ns) as f64 / margin_ns.max(1) as f64;
        match self.stage {
            Stage::Before => {
                self.line.show("before", part(0), &tick.to_string());
                if tick.elapsed_ns >= margin_ns {
                    let (id, since_ns) = self.start(tick)?;
                    self.follow(tick, timeline, id, since_ns)?;
                }
            }
            Stage::Moving { id, since_ns } => self.follow(tick, timeline, id, since_ns)?,
            Stage::After { since_ns } => {
                self.line.show("after", part(since_ns), &tick.to_string());
                if tick.elapsed_ns >= since_ns + margin_ns {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Stage::Failed(_) => return Ok(ControlFlow::Break(())),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Requests the move: its number, and when.
    fn start(&mut self, tick: Tick) -> Result<(MigrationId, u64), DemoError> {
        self.gaps.watch();
        self.world.moving_writes.watch();
        let since_ns = self.world.enter(Part::During) - tick.started_ns;
        let id = request_move(&mut self.control, self.options, &self.nodes.target.address())?;
        self.stage = Stage::Moving { id, since_ns };
        Ok((id, since_ns))
    }

    fn follow(
        &mut self,
        tick: Tick,
        timeline: &mut Timeline,
        id: MigrationId,
        since_ns: u64,
    ) -> Result<(), DemoError> {
        let migration = self.control.await_end(id, LOAD_TICK)?;
        let elapsed_ns = self.world.now_ns() - tick.started_ns;
        let fresh = migration.bytes_moved.saturating_sub(self.moved.bytes);
        timeline.add_moved_bytes(elapsed_ns / WINDOW_NS, fresh);
        self.moved.bytes = migration.bytes_moved;
        self.moved.records = migration.records_moved;
        let is_over = migration.state == "done";
        if is_over {
            self.arrived(tick, since_ns);
        }
        if elapsed_ns >= self.next_counters_ns || is_over {
            self.next_counters_ns = elapsed_ns + COUNTERS_NS;
            self.count_extra_bytes(elapsed_ns / WINDOW_NS, timeline);
        }
        let text = format!("{tick}, {} moved", bytes(migration.bytes_moved as f64));
        self.line.show("moving", migration.fraction, &text);
        if matches!(migration.state.as_str(), "failed" | "cancelled") {
            let why = migration.why.unwrap_or_else(|| "no reason was given".to_owned());
            return Err(DemoError::Migration(format!("{}: {why}", migration.state)));
        }
        Ok(())
    }

    /// Records the excess bytes between the nodes since the last call.
    fn count_extra_bytes(&mut self, window: u64, timeline: &mut Timeline) {
        let counted = self.moved.counters.extra_bytes.unwrap_or(0);
        let counters = self.counters.ask(self.moved.bytes);
        if let Some(bytes) = counters.extra_bytes {
            // The necessary bytes are an estimate while records arrive, and can shrink a little.
            timeline.add_server_extra_bytes(window, bytes.saturating_sub(counted));
            self.moved.counters = NodeCounters { extra_bytes: Some(bytes.max(counted)), ..counters };
        }
    }

    fn arrived(&mut self, tick: Tick, since_ns: u64) {
        let now_ns = self.world.enter(Part::After);
        let elapsed_ns = now_ns - tick.started_ns;
        self.moved.gaps = self.gaps.longest(now_ns);
        self.moved.write_pause_ms = self.world.moving_writes.longest_ms(now_ns);
        self.moved.seconds = (elapsed_ns - since_ns) as f64 / 1e9;
        self.moved.interval = Interval { from_ms: since_ns as f64 / 1e6, to_ms: elapsed_ns as f64 / 1e6 };
        self.terminal.say(&format!(
            "moved {} in {:.2} s",
            bytes(self.moved.bytes as f64),
            self.moved.seconds
        ));
        self.stage = Stage::After { since_ns: elapsed_ns };
    }
}

/// Requests that half of the positions move to this node.
pub(crate) fn request_move(
    control: &mut Control,
    options: &DemoOptions,
    target: &str,
) -> Result<MigrationId, DemoError> {
    let policy = options.policy.0.words();
    let protocol = &options.protocol;
    let mut words = vec!["SIDLE.MIGRATE", "START", "SLOTS", "0-8191", "TO", target, "PROTOCOL", protocol];
    words.extend(policy.iter().map(String::as_str));
    let reply = control.call(&words)?;
    started_migration(&reply)
        .ok_or_else(|| DemoError::Migration(format!("SIDLE.MIGRATE START answered {reply:?}")))
}

fn cpu(nodes: &NodePair) -> CpuSeconds {
    CpuSeconds {
        source: nodes.source.cpu_seconds(),
        target: nodes.target.cpu_seconds(),
        clients: crate::machine::own_cpu_seconds(),
    }
}

/// The fields of `INFO migration`, if a node has that section. Records that arrived where the target had
/// an entry (written there, or pulled before) count as sent in vain.
struct Counters {
    source: Option<Control>,
    target: Option<Control>,
}

impl Counters {
    fn new(nodes: &NodePair) -> Counters {
        let connect = |address: &str| Control::connect(address, None).ok();
        Counters { source: connect(&nodes.source.address()), target: connect(&nodes.target.address()) }
    }

    fn ask(&mut self, arrived_bytes: u64) -> NodeCounters {
        let ask = |node: &mut Option<Control>| node.as_mut()?.info("migration").ok();
        let (source, target) = (ask(&mut self.source), ask(&mut self.target));
        let field = |node: &Option<std::collections::BTreeMap<String, String>>, name: &str| {
            node.as_ref()?.get(name)?.parse::<u64>().ok()
        };
        let extra = || {
            let sent = field(&source, "migration_bytes_sent")? + field(&target, "migration_bytes_sent")?;
            let new = field(&target, "migration_records_moved")? as f64;
            let present = field(&target, "migration_records_present")? as f64;
            let needed = arrived_bytes as f64 * new / (new + present).max(1.0);
            Some(sent.saturating_sub(needed as u64))
        };
        let cuts = || {
            let figure = |name| field(&target, name);
            let (p50_us, p999_us) = (figure("migration_cut_usec_p50")?, figure("migration_cut_usec_p99_9")?);
            let digest_bytes = figure("migration_digest_bytes")?;
            Some(CutFigures::of(figure("migration_cuts")?, p50_us, p999_us, digest_bytes))
        };
        NodeCounters {
            cuts: cuts(),
            priority_pulls: field(&target, "migration_priority_pulls"),
            samp_pulls: field(&target, "migration_samp_pulls"),
            extra_bytes: extra(),
        }
    }
}
