//! The coordinator's disk: it survives its process, is slow, is full, and fails after it wrote.

use crate::random::Random;
use sidle_cluster::{MetaError, MetaStore, Metadata};
use std::cell::RefCell;
use std::rc::Rc;

/// What a disk does with what it is asked to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskMood {
    /// Writes, after so long.
    Writes {
        /// How long the writer stands still.
        after_us: u64,
    },
    /// Is full: nothing is written.
    Full,
    /// Writes, and reports an error all the same.
    FailsAfterWriting,
}

#[derive(Debug)]
struct State {
    durable: Option<Metadata>,
    /// What was durable before a commit that its writer still waits for: a crash may leave either.
    before: Option<Option<Metadata>>,
    mood: DiskMood,
    stalled_us: u64,
}

/// A machine's disk. Copies are handles of one disk.
#[derive(Clone, Debug)]
pub struct Disk(Rc<RefCell<State>>);

impl Disk {
    /// An empty disk.
    pub fn new() -> Disk {
        let mood = DiskMood::Writes { after_us: 0 };
        Disk(Rc::new(RefCell::new(State { durable: None, before: None, mood, stalled_us: 0 })))
    }

    /// From now on the disk behaves like this.
    pub fn set_mood(&self, mood: DiskMood) {
        self.0.borrow_mut().mood = mood;
    }

    /// How long the writer has to wait for what it committed since it asked last.
    pub fn take_stall_us(&self) -> u64 {
        std::mem::take(&mut self.0.borrow_mut().stalled_us)
    }

    /// The writer has waited: what it committed is there to stay.
    pub fn settle(&self) {
        self.0.borrow_mut().before = None;
    }

    /// The machine dies. What its writer still waited for is there, or not.
    pub fn crash(&self, random: &mut Random) {
        let mut state = self.0.borrow_mut();
        state.stalled_us = 0;
        if let Some(before) = state.before.take()
            && random.one_in(2)
        {
            state.durable = before;
        }
    }

    /// What would be found after a crash.
    pub fn metadata(&self) -> Option<Metadata> {
        self.0.borrow().durable.clone()
    }
}

impl Default for Disk {
    fn default() -> Disk {
        Disk::new()
    }
}

impl MetaStore for Disk {
    fn load(&mut self) -> Result<Option<Metadata>, MetaError> {
        Ok(self.metadata())
    }

    fn commit(&mut self, metadata: &Metadata) -> Result<(), MetaError> {
        let state = &mut *self.0.borrow_mut();
        if state.mood == DiskMood::Full {
            return Err(MetaError("the simulated disk is full".to_owned()));
        }
        let before = state.durable.replace(metadata.clone());
        match state.mood {
            DiskMood::Writes { after_us: 0 } => Ok(()),
            DiskMood::Writes { after_us } => {
                state.before.get_or_insert(before);
                state.stalled_us += after_us;
                Ok(())
            }
            DiskMood::Full | DiskMood::FailsAfterWriting => {
                Err(MetaError("the simulated disk failed after it wrote".to_owned()))
            }
        }
    }
}
