//! Clients that speak the protocol by themselves.

use super::{
    Bare, BareSetup, Canceller, CancellerSetup, Committers, CommittersSetup, Comparers, ComparersSetup,
    Consumers, ConsumersSetup, Executors, ExecutorsSetup, Misbehaving, MisbehavingSetup, Surveyor,
    SurveyorSetup,
};
use crate::host::Host;
use crate::network::{Signal, StreamId};
use crate::workload::{History, Workload};
use crate::world::World;
use sidle_history::Operation;
use sidle_testbed::Random;

/// The kind of such a client.
#[derive(Clone, Debug)]
pub enum OtherSetup {
    /// One that knows only redirects.
    Bare(BareSetup),
    /// One that breaks the rules.
    Misbehaving(MisbehavingSetup),
    /// The one that walks over nodes.
    Surveyor(SurveyorSetup),
    /// The one that cancels migrations.
    Canceller(CancellerSetup),
    /// Those that wait for items.
    Consumers(ConsumersSetup),
    /// Those that change what they have read.
    Comparers(ComparersSetup),
    /// Those that run transactions over several nodes.
    Committers(CommittersSetup),
    /// Those that do so by EXEC.
    Executors(ExecutorsSetup),
}

/// Such a client.
#[allow(clippy::large_enum_variant)] // a simulation has a handful of them
pub enum Other {
    /// One that knows only redirects.
    Bare(Box<Bare>),
    /// One that breaks the rules.
    Misbehaving(Box<Misbehaving>),
    /// The one that walks over nodes.
    Surveyor(Box<Surveyor>),
    /// The one that cancels migrations.
    Canceller(Box<Canceller>),
    /// Those that wait for items.
    Consumers(Box<Consumers>),
    /// Those that change what they have read.
    Comparers(Box<Comparers>),
    /// Those that run transactions over several nodes.
    Committers(Box<Committers>),
    /// Those that do so by EXEC.
    Executors(Box<Executors>),
}

impl Other {
    /// The client with this number.
    pub fn new(number: usize, setup: OtherSetup, random: Random, world: &mut World) -> Other {
        match setup {
            OtherSetup::Bare(setup) => Other::Bare(Box::new(Bare::new(number, setup, random))),
            OtherSetup::Misbehaving(setup) => {
                Other::Misbehaving(Box::new(Misbehaving::new(number, setup, random, world)))
            }
            OtherSetup::Surveyor(setup) => Other::Surveyor(Box::new(Surveyor::new(number, setup, random))),
            OtherSetup::Canceller(setup) => Other::Canceller(Box::new(Canceller::new(number, setup, random))),
            OtherSetup::Consumers(setup) => Other::Consumers(Box::new(Consumers::new(number, setup, random))),
            OtherSetup::Comparers(setup) => Other::Comparers(Box::new(Comparers::new(number, setup, random))),
            OtherSetup::Committers(setup) => {
                Other::Committers(Box::new(Committers::new(number, setup, random)))
            }
            OtherSetup::Executors(setup) => Other::Executors(Box::new(Executors::new(number, setup, random))),
        }
    }

    /// Begins nothing from now on.
    pub fn stop(&mut self) {
        match self {
            Other::Bare(hand) => hand.stop(),
            Other::Misbehaving(misbehaving) => misbehaving.stop(),
            Other::Surveyor(surveyor) => surveyor.stop(),
            Other::Canceller(canceller) => canceller.stop(),
            Other::Consumers(consumers) => consumers.stop(),
            Other::Comparers(comparers) => comparers.stop(),
            Other::Committers(committers) => committers.stop(),
            Other::Executors(executors) => executors.stop(),
        }
    }

    /// What was acknowledged is lost.
    pub fn lose(&mut self) {
        match self {
            Other::Committers(committers) => committers.lose(),
            Other::Executors(executors) => executors.lose(),
            _ => {}
        }
    }

    /// It reads back what only it knows. It needs a turn.
    pub fn read_back(&mut self) {
        if let Other::Committers(committers) = self {
            committers.read_back();
        }
    }

    /// What is under way, in words; nothing when it is done.
    pub fn under_way(&self) -> Vec<String> {
        match self {
            Other::Bare(hand) => hand.under_way(),
            Other::Misbehaving(misbehaving) => {
                misbehaving.under_way().map(str::to_owned).into_iter().collect()
            }
            Other::Surveyor(surveyor) => surveyor.under_way().map(str::to_owned).into_iter().collect(),
            Other::Canceller(canceller) => canceller.under_way().map(str::to_owned).into_iter().collect(),
            Other::Consumers(consumers) => consumers.under_way(),
            Other::Comparers(comparers) => comparers.under_way(),
            Other::Committers(committers) => committers.under_way(),
            Other::Executors(executors) => executors.under_way(),
        }
    }

    /// The records of what is under way.
    pub fn open_records(&self) -> Box<dyn Iterator<Item = &Operation> + '_> {
        match self {
            Other::Bare(hand) => Box::new(hand.open_records()),
            Other::Misbehaving(_)
            | Other::Canceller(_)
            | Other::Consumers(_)
            | Other::Committers(_)
            | Other::Executors(_) => Box::new(std::iter::empty()),
            Other::Comparers(comparers) => Box::new(comparers.open_records()),
            Other::Surveyor(surveyor) => Box::new(surveyor.open_records().iter()),
        }
    }

    /// The coordinator has committed something.
    pub fn look(&mut self, hosts: &[Host], world: &mut World) {
        if let Other::Canceller(canceller) = self {
            canceller.look(hosts, world);
        }
    }

    /// It has a turn.
    pub fn turn(
        &mut self,
        workload: &Workload,
        hosts: &[Host],
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        match self {
            Other::Bare(hand) => hand.turn(workload, hosts, world, history),
            Other::Misbehaving(misbehaving) => {
                misbehaving.turn(world);
                Ok(())
            }
            Other::Surveyor(surveyor) => surveyor.turn(workload, hosts, world),
            Other::Canceller(canceller) => {
                canceller.turn(world);
                Ok(())
            }
            Other::Consumers(consumers) => consumers.turn(workload, world, history),
            Other::Comparers(comparers) => {
                comparers.turn(workload, world);
                Ok(())
            }
            Other::Committers(committers) => committers.turn(world, history),
            Other::Executors(executors) => executors.turn(world, history),
        }
    }

    /// Something arrived.
    pub fn hear(
        &mut self,
        stream: StreamId,
        signal: Signal,
        hosts: &[Host],
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        match self {
            Other::Bare(hand) => hand.hear(stream, signal, hosts, world, history),
            Other::Misbehaving(misbehaving) => misbehaving.hear(stream, signal, world),
            Other::Surveyor(surveyor) => surveyor.hear(stream, signal, hosts, world, history),
            Other::Canceller(canceller) => canceller.hear(stream, signal, world),
            Other::Consumers(consumers) => consumers.hear(stream, signal, world, history),
            Other::Comparers(comparers) => comparers.hear(stream, signal, world, history),
            Other::Committers(committers) => committers.hear(stream, signal, world, history),
            Other::Executors(executors) => executors.hear(stream, signal, world, history),
        }
    }
}
