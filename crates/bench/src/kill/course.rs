//! The course of the load: before, the move if there is one, the kill, the recovery, after.

use crate::control::{Control, PATIENCE_UNDER_LOAD};
use crate::demo::{DemoError, DemoOptions, request_move};
use crate::kill::trio::Trio;
use crate::kill::victim::Victim;
use crate::load::{ProbeGaps, Tick, Verdict, World};
use crate::machine::own_cpu_seconds;
use crate::report::{Gap, Interval};
use crate::terminal::{Line, Terminal};
use crate::timeline::{Part, Timeline, WINDOW_NS};
use crate::words::bytes;
use sidle_cluster::{MigrationStatus, NodeStatus, StatusReport};
use sidle_types::MigrationId;
use std::ops::ControlFlow;

/// The share of a migration behind which an end of it dies.
const DIES_AT: f64 = 0.3;
/// A node that is not recovered within this is not by itself.
const RECOVERS_WITHIN_NS: u64 = 120_000_000_000;

/// What a node has put in from copies of dead nodes' logs, in INFO.
const PUT: &str = "sidle_taken_over_bytes";

/// What became of the data of the node that died.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recovered {
    /// From the kill to the end of the recovery, in the load's time.
    pub(crate) interval: Interval,
    /// When others owned what the node had.
    pub(crate) taken_over_ms: f64,
    /// Bytes that were put in from copies of its log.
    pub(crate) bytes: u64,
    /// How the migration ended.
    pub(crate) migration_end: Option<String>,
    /// The longest times without an answer.
    pub(crate) gaps: Gap,
    /// The longest time without an acknowledged write.
    pub(crate) write_pause_ms: Option<f64>,
    /// The processor time of the load while it lasted.
    pub(crate) clients_cpu_seconds: Option<f64>,
}

enum Stage {
    Before,
    Moving(MigrationId),
    Dead { migration: Option<MigrationId>, since_ns: u64, taken_over_ns: Option<u64> },
    After { since_ns: u64 },
    Failed(DemoError),
}

/// The events during the load.
pub(crate) struct Course<'a> {
    world: &'a World<'a>,
    options: &'a DemoOptions,
    victim: Victim,
    nodes: &'a mut Trio,
    control: Control,
    gaps: &'a ProbeGaps,
    line: Line,
    terminal: &'a Terminal,
    stage: Stage,
    recovered: Recovered,
    cpu_before: Option<f64>,
    /// Those who are asked how far they are.
    living: Vec<Control>,
}

impl<'a> Course<'a> {
    /// A course that begins with the load.
    pub(crate) fn new(
        world: &'a World<'a>,
        options: &'a DemoOptions,
        victim: Victim,
        nodes: &'a mut Trio,
        gaps: &'a ProbeGaps,
        terminal: &'a Terminal,
    ) -> Result<Course<'a>, DemoError> {
        let control = Control::connect(&nodes.coordinator.address(), None)?;
        let survivor = if victim == Victim::Target { &nodes.source } else { &nodes.target };
        let living = [&nodes.coordinator, survivor].map(|node| Control::connect(&node.address(), None));
        let living = living.into_iter().collect::<Result<_, _>>()?;
        Ok(Course {
            world,
            options,
            victim,
            nodes,
            control: control.with_patience(PATIENCE_UNDER_LOAD)?,
            gaps,
            line: terminal.live(),
            terminal,
            stage: Stage::Before,
            recovered: Recovered::default(),
            cpu_before: own_cpu_seconds(),
            living,
        })
    }

    /// What became of the data, or why nothing did.
    pub(crate) fn finish(mut self) -> Result<Recovered, DemoError> {
        drop(self.line);
        let used = own_cpu_seconds().zip(self.cpu_before).map(|(now, before)| now - before);
        self.recovered.clients_cpu_seconds = used;
        match self.stage {
            Stage::Failed(error) => Err(error),
            _ => Ok(self.recovered),
        }
    }

    /// Continues the course; called about every 25 ms.
    pub(crate) fn tick(&mut self, tick: Tick, timeline: &mut Timeline) -> Verdict {
        self.step(tick, timeline).unwrap_or_else(|error| {
            self.stage = Stage::Failed(error);
            ControlFlow::Break(())
        })
    }

    fn step(&mut self, tick: Tick, timeline: &mut Timeline) -> Result<Verdict, DemoError> {
        let margin_ns = self.options.margin.as_nanos() as u64;
        let part = |since_ns: u64| (tick.elapsed_ns - since_ns) as f64 / margin_ns.max(1) as f64;
        match self.stage {
            Stage::Before => {
                self.line.show("before", part(0), &tick.to_string());
                if tick.elapsed_ns >= margin_ns {
                    self.stage = if self.victim.moves() {
                        let target = self.nodes.target.address();
                        Stage::Moving(request_move(&mut self.control, self.options, &target)?)
                    } else {
                        self.kill(tick, None)?
                    };
                }
            }
            Stage::Moving(id) => self.follow_move(tick, id)?,
            Stage::Dead { migration, since_ns, taken_over_ns } => {
                self.follow_recovery(tick, timeline, migration, since_ns, taken_over_ns)?;
            }
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

    fn follow_move(&mut self, tick: Tick, id: MigrationId) -> Result<(), DemoError> {
        let status = self.control.status()?;
        let migration = migration(&status, id)?;
        self.line.show("moving", migration.fraction, &tick.to_string());
        if is_over(migration) {
            let what = format!("the move was {} before a node could be killed in it", migration.state);
            return Err(DemoError::Options(format!("{what}: --policy rate=2 makes it slow enough")));
        }
        if migration.fraction >= DIES_AT {
            self.stage = self.kill(tick, Some(id))?;
        }
        Ok(())
    }

    fn kill(&mut self, tick: Tick, migration: Option<MigrationId>) -> Result<Stage, DemoError> {
        let victim = match self.victim {
            Victim::Node | Victim::Source => &mut self.nodes.source,
            Victim::Target => &mut self.nodes.target,
        };
        self.gaps.watch();
        self.world.moving_writes.watch();
        victim.kill()?;
        let since_ns = self.world.enter(Part::During) - tick.started_ns;
        self.terminal.say(&format!("killed the {} at {}", self.victim.name(), victim.address()));
        Ok(Stage::Dead { migration, since_ns, taken_over_ns: None })
    }

    fn follow_recovery(
        &mut self,
        tick: Tick,
        timeline: &mut Timeline,
        migration: Option<MigrationId>,
        since_ns: u64,
        taken_over_ns: Option<u64>,
    ) -> Result<(), DemoError> {
        let status = self.control.status()?;
        let elapsed_ns = self.world.now_ns() - tick.started_ns;
        let dead = self.dead(&status)?;
        let has_nothing = status.tablets.iter().all(|tablet| tablet.owner != dead.id);
        let taken_over_ns = taken_over_ns.or_else(|| has_nothing.then_some(elapsed_ns));
        self.count_put(elapsed_ns / WINDOW_NS, timeline);
        let moves = migration.map(|id| self::migration(&status, id)).transpose()?;
        let is_read =
            status.takeovers.is_empty() && status.nodes.iter().all(|node| node.taking_over.is_none());
        self.line.show("recovering", read_share(&status), &tick.to_string());
        self.stage = Stage::Dead { migration, since_ns, taken_over_ns };
        if let Some(taken_over_ns) = taken_over_ns
            && is_read
            && moves.is_none_or(is_over)
        {
            self.recovered.migration_end = moves.map(|migration| migration.state.clone());
            self.end_recovery(tick, since_ns, taken_over_ns);
        } else if elapsed_ns - since_ns > RECOVERS_WITHIN_NS {
            let why = dead.not_taken_over.clone().unwrap_or_else(|| "no reason is known".to_owned());
            let seconds = RECOVERS_WITHIN_NS / 1_000_000_000;
            return Err(DemoError::Node(format!("what it had is not back after {seconds} s: {why}")));
        }
        Ok(())
    }

    fn dead<'s>(&self, status: &'s StatusReport) -> Result<&'s NodeStatus, DemoError> {
        let address = match self.victim {
            Victim::Node | Victim::Source => self.nodes.source.address(),
            Victim::Target => self.nodes.target.address(),
        };
        status
            .nodes
            .iter()
            .find(|node| node.client_addr.to_string() == address)
            .ok_or_else(|| DemoError::Node(format!("{address} is no member of its cluster any more")))
    }

    /// Notes what those who live have put in of what they take over.
    fn count_put(&mut self, window: u64, timeline: &mut Timeline) {
        let put_by = |node: &mut Control| node.info("persistence").ok()?.get(PUT)?.parse::<u64>().ok();
        let put: u64 = self.living.iter_mut().filter_map(put_by).sum();
        let fresh = put.saturating_sub(self.recovered.bytes);
        self.recovered.bytes += fresh;
        timeline.add_moved_bytes(window, fresh);
    }

    fn end_recovery(&mut self, tick: Tick, since_ns: u64, taken_over_ns: u64) {
        let now_ns = self.world.enter(Part::After);
        let elapsed_ns = now_ns - tick.started_ns;
        self.recovered.gaps = self.gaps.longest(now_ns);
        self.recovered.write_pause_ms = self.world.moving_writes.longest_ms(now_ns);
        self.recovered.taken_over_ms = taken_over_ns as f64 / 1e6;
        self.recovered.interval = Interval { from_ms: since_ns as f64 / 1e6, to_ms: elapsed_ns as f64 / 1e6 };
        self.terminal.say(&format!(
            "recovered {} {:.2} s after the kill",
            bytes(self.recovered.bytes as f64),
            (elapsed_ns - since_ns) as f64 / 1e9
        ));
        self.stage = Stage::After { since_ns: elapsed_ns };
    }
}

fn migration(status: &StatusReport, id: MigrationId) -> Result<&MigrationStatus, DemoError> {
    let found = status.migrations.iter().find(|migration| migration.id == id);
    found.ok_or_else(|| DemoError::Migration("the coordinator does not know it any more".to_owned()))
}

fn is_over(migration: &MigrationStatus) -> bool {
    matches!(migration.state.as_str(), "done" | "failed" | "cancelled")
}

/// How much of the copies has been read and put in.
fn read_share(status: &StatusReport) -> f64 {
    let (mut done, mut all) = (0, 0);
    for progress in status.nodes.iter().filter_map(|node| node.taking_over) {
        done += progress.read_bytes + progress.put_bytes;
        all += progress.copy_bytes + progress.found_bytes.max(progress.put_bytes);
    }
    done as f64 / (all as f64).max(1.0)
}
