//! A transaction: the commands between MULTI and EXEC.
//!
//! Purpose: a queued command is checked as any other, and kept as it came. Nothing of it runs before EXEC.
//!
//! Ownership: the session. It does not change while its EXEC waits, so every attempt sees the same keys in
//! the same order.

use sidle_commands::CommandId;

/// What a queued command takes beyond its words' bytes, and each word.
const COMMAND_BYTES: usize = size_of::<Queued>();
const WORD_BYTES: usize = 2 * size_of::<Box<[u8]>>();

/// The commands between MULTI and EXEC.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transaction {
    queued: Vec<Queued>,
    bytes: usize,
    /// A command was refused, so that EXEC discards all.
    is_spoilt: bool,
}

/// A queued command.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(crate) id: CommandId,
    pub(crate) words: Box<[Box<[u8]>]>,
}

impl Transaction {
    /// Queues a command, unless the transaction would be longer than `most` bytes.
    pub(crate) fn queue(&mut self, id: CommandId, args: &[&[u8]], most: usize) -> bool {
        let bytes = COMMAND_BYTES + args.iter().map(|arg| arg.len() + WORD_BYTES).sum::<usize>();
        if self.bytes.saturating_add(bytes) > most {
            return false;
        }
        self.bytes += bytes;
        self.queued.push(Queued { id, words: args.iter().map(|&arg| arg.into()).collect() });
        true
    }

    /// Nothing of it will run; what was queued is freed.
    pub(crate) fn spoil(&mut self) {
        *self = Transaction { is_spoilt: true, ..Transaction::default() };
    }

    pub(crate) fn is_spoilt(&self) -> bool {
        self.is_spoilt
    }

    /// The commands, in order.
    pub(crate) fn queued(&self) -> &[Queued] {
        &self.queued
    }

    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
