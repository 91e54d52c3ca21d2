//! The stores, each with the means to end a process and to lose a commit's answer.

use crate::etcd::Etcd;
use crate::lossy::{Loses, LossyWay};
use sidle_cluster::{
    ClusterId, CommitFailure, Contest, Election, MemoryMetaStore, MetaError, MetaStore, Metadata, Place,
    TabletMap, Term,
};
use sidle_meta_etcd::{EtcdElection, EtcdLocation};
use sidle_meta_file::FileMetaStore;
use sidle_testbed::fixtures::node_info;
use sidle_types::MigrationId;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

pub(crate) type Store = Box<dyn MetaStore + Send>;

/// Metadata that differs by this number.
pub(crate) fn metadata(number: u64) -> Metadata {
    let new = Metadata::new(ClusterId::from_bits(9), TabletMap::founded_by(node_info(7)));
    Metadata { next_migration: MigrationId(number), ..new }
}

/// A place where metadata survives the process.
pub(crate) trait World {
    /// The store, to the process that follows the one that had it before. `None`: another one has it.
    fn next_process(&mut self) -> Option<Store>;

    /// Has commits written and their answers lost from now on, or not. `false`: that cannot happen here.
    fn lose_answers(&mut self, loses: bool) -> bool;

    /// Has commits lost from now on, or not.
    fn lose_commits(&mut self, loses: bool) -> bool;

    /// Whether a second process can get the store while the first believes to have it.
    fn may_be_contested(&self) -> bool;
}

/// All that can be had here.
pub(crate) fn worlds(test: &str) -> Vec<(&'static str, Box<dyn World>)> {
    let mut all: Vec<(&'static str, Box<dyn World>)> = vec![
        ("memory", Box::new(InMemory::default())),
        ("contested memory", Box::new(InContest::default())),
        ("a file", Box::new(InFile(tempfile::tempdir().expect("a temporary folder")))),
    ];
    if let Some(etcd) = InEtcd::start(test) {
        all.push(("etcd", Box::new(etcd)));
    }
    all
}

/// One store, lent to the processes in turn.
#[derive(Clone, Default)]
struct InMemory(Arc<Mutex<MemoryMetaStore>>);

impl InMemory {
    fn with<T>(&self, work: impl FnOnce(&mut MemoryMetaStore) -> T) -> T {
        work(&mut self.0.lock().expect("nobody panics with it"))
    }
}

impl MetaStore for InMemory {
    fn load(&mut self) -> Result<Option<Metadata>, MetaError> {
        self.with(MemoryMetaStore::load)
    }

    fn commit(&mut self, metadata: &Metadata) -> Result<(), MetaError> {
        self.with(|store| store.commit(metadata))
    }

    fn keep(&mut self, metadata: &Metadata) -> Result<Place, MetaError> {
        self.with(|store| store.keep(metadata))
    }
}

impl World for InMemory {
    fn next_process(&mut self) -> Option<Store> {
        Some(Box::new(self.clone()))
    }

    fn lose_answers(&mut self, loses: bool) -> bool {
        self.with(|store| store.fail_commits(loses.then_some(CommitFailure::Written)));
        true
    }

    fn lose_commits(&mut self, loses: bool) -> bool {
        self.with(|store| store.fail_commits(loses.then_some(CommitFailure::NotWritten)));
        true
    }

    fn may_be_contested(&self) -> bool {
        false
    }
}

#[derive(Default)]
struct InContest(Contest);

impl World for InContest {
    fn next_process(&mut self) -> Option<Store> {
        self.0.end_lease();
        self.0.campaign("next").expect("memory answers")
    }

    fn lose_answers(&mut self, _loses: bool) -> bool {
        false
    }

    fn lose_commits(&mut self, _loses: bool) -> bool {
        false
    }

    fn may_be_contested(&self) -> bool {
        true
    }
}

struct InFile(TempDir);

impl World for InFile {
    fn next_process(&mut self) -> Option<Store> {
        let store = FileMetaStore::open(&self.0.path().join("coordinator.meta"));
        store.ok().map(|store| Box::new(store) as Store)
    }

    fn lose_answers(&mut self, _loses: bool) -> bool {
        false
    }

    fn lose_commits(&mut self, _loses: bool) -> bool {
        false
    }

    fn may_be_contested(&self) -> bool {
        false
    }
}

/// Reached over a way that loses on command.
pub(crate) struct InEtcd {
    pub(crate) etcd: Etcd,
    way: LossyWay,
    elections: Vec<EtcdElection>,
}

impl InEtcd {
    pub(crate) fn start(test: &str) -> Option<InEtcd> {
        let etcd = Etcd::start(test)?;
        Some(InEtcd { way: LossyWay::to(etcd.address()), etcd, elections: Vec::new() })
    }

    pub(crate) fn location(&self) -> EtcdLocation {
        format!("etcd://{}/contract", self.way.address()).parse().expect("it is one")
    }
}

impl World for InEtcd {
    /// The one before loses its lease without noticing: its election is another value than its store.
    fn next_process(&mut self) -> Option<Store> {
        self.elections.iter_mut().for_each(EtcdElection::resign);
        let mut election = EtcdElection::new(&self.location());
        let store = election.campaign("next").expect("etcd answers");
        self.elections.push(election);
        store
    }

    fn lose_answers(&mut self, loses: bool) -> bool {
        self.way.lose(if loses { Loses::Answers } else { Loses::Nothing });
        true
    }

    fn lose_commits(&mut self, loses: bool) -> bool {
        self.way.lose(if loses { Loses::Requests } else { Loses::Nothing });
        true
    }

    fn may_be_contested(&self) -> bool {
        true
    }
}

#[test]
fn terms_grow_from_each_process_to_the_next() {
    for (name, mut world) in worlds("terms_grow_from_each_process_to_the_next") {
        let mut last = world.next_process().expect("nobody has it").term();
        assert_eq!(last == Term::ONLY, !world.may_be_contested(), "{name}");
        for _ in 0..3 {
            let next = world.next_process().expect("the one before is gone").term();
            assert!(next > last || !world.may_be_contested(), "{name}: {next:?} after {last:?}");
            last = next;
        }
    }
}
