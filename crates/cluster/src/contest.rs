//! Memory that several coordinators contend for, for tests: the smallest store with terms.

use crate::{Election, MetaError, MetaStore, Metadata, Place, Seen, Term};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The shared memory, as one process reaches it.
#[derive(Clone, Debug, Default)]
pub struct Contest {
    memory: Arc<Mutex<Memory>>,
    /// The term of the last campaign that was won.
    won: Option<Term>,
}

#[derive(Debug, Default)]
struct Memory {
    committed: Option<Metadata>,
    /// The leader and its announcement; without one the next campaign is won.
    leader: Option<(Term, String)>,
    last: Term,
}

/// The store of one term.
#[derive(Debug)]
pub struct ContestedStore {
    memory: Arc<Mutex<Memory>>,
    term: Term,
}

fn locked(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Contest {
    /// Ends the leader's lease, whether the leader knows or not.
    pub fn end_lease(&self) {
        locked(&self.memory).leader = None;
    }

    /// What was committed last.
    pub fn committed(&self) -> Option<Metadata> {
        locked(&self.memory).committed.clone()
    }

    /// As [`Election::campaign`], with the store's own type.
    pub fn stand(&mut self, announced: &str) -> Option<ContestedStore> {
        let mut memory = locked(&self.memory);
        if memory.leader.is_some() {
            return None;
        }
        let term = Term(memory.last.0 + 1);
        (memory.last, memory.leader) = (term, Some((term, announced.to_owned())));
        self.won = Some(term);
        Some(ContestedStore { memory: Arc::clone(&self.memory), term })
    }

    fn leads(&self, memory: &Memory) -> bool {
        self.won.is_some() && memory.leader.as_ref().map(|(term, _)| *term) == self.won
    }
}

impl Election for Contest {
    fn look(&mut self) -> Result<Seen, MetaError> {
        let memory = locked(&self.memory);
        let leader = memory.leader.as_ref().map(|(_, announced)| announced.clone());
        Ok(Seen { leader, is_founded: memory.committed.is_some() })
    }

    fn campaign(&mut self, announced: &str) -> Result<Option<Box<dyn MetaStore + Send>>, MetaError> {
        Ok(self.stand(announced).map(|store| Box::new(store) as Box<dyn MetaStore + Send>))
    }

    fn extend(&mut self) -> Result<bool, MetaError> {
        Ok(self.leads(&locked(&self.memory)))
    }

    fn resign(&mut self) {
        let mut memory = locked(&self.memory);
        if self.leads(&memory) {
            memory.leader = None;
        }
    }

    fn lease_us(&self) -> u64 {
        5_000_000
    }
}

impl MetaStore for ContestedStore {
    fn load(&mut self) -> Result<Option<Metadata>, MetaError> {
        Ok(locked(&self.memory).committed.clone())
    }

    fn commit(&mut self, metadata: &Metadata) -> Result<(), MetaError> {
        let mut memory = locked(&self.memory);
        if memory.leader.as_ref().is_none_or(|(term, _)| *term != self.term) {
            return Err(MetaError::Deposed);
        }
        memory.committed = Some(metadata.clone());
        Ok(())
    }

    fn keep(&mut self, metadata: &Metadata) -> Result<Place, MetaError> {
        let is_gone = locked(&self.memory).committed.is_none();
        if is_gone { self.commit(metadata).map(|()| Place::WrittenAnew) } else { Ok(Place::Kept) }
    }

    fn term(&self) -> Term {
        self.term
    }
}
