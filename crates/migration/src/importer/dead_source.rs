//! A source that died: the rest comes from a copy of its durable log, which somebody else reads.
//!
//! M35: from then on nothing of the source is taken, should it live after all, and nobody is asked for anything.
//! What this node did not take over is thrown away, as after a restart of the source (M33). What the copy has
//! enters as pulled records do: what was written or removed here since the activation wins (M5, M6). A flush
//! waits until everything is here, so that nothing arrives behind it.

use super::Importer;
use super::ahead::Ahead;
use crate::{ImportPhase, Serves, TargetEvent};
use sidle_store::Store;
use sidle_types::{MonotonicUs, fault};

impl Importer {
    /// The source is dead.
    pub(super) fn source_died(&mut self, now: MonotonicUs, store: &Store) {
        let phase = self.parts.phase();
        if phase == ImportPhase::Complete || self.source_is_dead {
            return;
        }
        self.source_restarted(now, store);
        if phase == ImportPhase::Taking {
            // Another one goes on.
            return;
        }
        if let Some(ahead) = self.ahead.take() {
            self.throw_hot_copies_away(ahead, store);
        }
        self.source_is_dead = true;
        self.parts.events.push_back(TargetEvent::AwaitsCopy);
    }

    fn throw_hot_copies_away(&mut self, ahead: Ahead, store: &Store) {
        if self.parts.phase() == ImportPhase::Copying {
            self.samples.stop();
            ahead.end(&mut self.parts, store, None);
        }
    }

    /// Whether a flush is to clear nothing before everything is here.
    pub fn defers_flush(&self) -> bool {
        match self.parts.phase() {
            ImportPhase::Taking => true,
            ImportPhase::Complete => false,
            _ => self.source_is_dead && !fault!(FlushBeforeTheCopy),
        }
    }

    /// Whether a flush waits.
    pub fn has_deferred_flush(&self) -> bool {
        self.source_is_dead && !self.flushes.is_empty()
    }

    /// Everything is here.
    pub(super) fn copy_is_here(&mut self, store: &Store) {
        if !self.source_is_dead || self.parts.phase() == ImportPhase::Complete {
            return;
        }
        if !self.parts.writer.view().source_is_frozen() {
            match self.parts.spec.protocol.serves {
                Serves::AtActivation | Serves::WhatItWasGiven => {
                    self.parts.activate(store);
                    self.parts.events.push_back(TargetEvent::Activated);
                }
                Serves::WhenAllIsHere => self.parts.writer.fill(),
            }
        }
        let flushed = std::mem::take(&mut self.flushes).into_iter().map(TargetEvent::Flushed);
        self.parts.events.extend(flushed);
        self.complete(store);
    }
}
