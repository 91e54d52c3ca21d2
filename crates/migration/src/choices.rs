//! The kinds of choices that make a protocol.
//!
//! All protocols share one skeleton: the views, the barrier, the two lanes, the source machine that answers
//! pulls, and the target machine that pulls, replays and wakes. The differences are choices here; the
//! skeleton reads the choices, never the name. [`crate::protocols`] has the protocols themselves, a file
//! each. A new kind of choice adds its field here and its phase as a module in `importer` or `exporter`.

use sidle_pacing::Pace;
use sidle_types::ProtocolVersion;

/// What a migration protocol decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolChoices {
    /// The name that requests and records use.
    pub name: &'static str,
    /// When the records are copied.
    pub copies: Copies,
    /// Since when the target serves the range.
    pub serves: Serves,
    /// What the source does with reads of the frozen range.
    pub source_reads: SourceReads,
    /// What the target does with a command that needs a key that has not arrived.
    pub missing: OnMissing,
    /// Into how many partitions the range is cut, each with one pull in flight.
    pub partitions: usize,
    /// How much each bulk pull asks for.
    pub pulls: PullBytes,
    /// Whether bulk work yields to clients' commands.
    pub pace: Pace,
    /// Whether and how sampled misses are pulled ahead.
    pub sampling: Option<Sampling>,
    /// How keys that a command waits for are pulled.
    pub priority: PriorityPulls,
    /// Whether the source names positions that clients access often, and these go first: they are copied
    /// before the freeze, or given before others.
    pub hot_first: bool,
    /// Whether large collections are copied before the freeze, of a range that freezes whole and is served at
    /// once: then only what changed in them since is missing behind it (M32).
    pub collections_ahead: bool,
}

impl ProtocolChoices {
    /// Whether hot positions, and nothing else, are copied before the freeze.
    pub fn copies_hot_ahead(&self) -> bool {
        self.hot_first && self.copies == Copies::AfterFreeze
    }

    /// Whether large collections are copied before the freeze, and patched behind it.
    pub fn copies_collections_ahead(&self) -> bool {
        self.collections_ahead && self.copies == Copies::AfterFreeze && self.serves == Serves::AtActivation
    }

    /// Whether the source names what is copied before the freeze.
    pub fn names_ahead(&self) -> bool {
        self.copies_hot_ahead() || self.copies_collections_ahead()
    }

    /// Whether the source names large collections that it serves until their turn comes.
    pub fn names_large(&self) -> bool {
        matches!(self.copies, Copies::BeforeCuts(_))
    }

    /// Whether something is copied while the migration is prepared, and the source marks its changes.
    pub fn copies_in_preparation(&self) -> bool {
        self.names_ahead() || matches!(self.copies, Copies::BeforeFreeze(_))
    }

    /// From which version on of those that a program speaks something is copied while the migration is
    /// prepared; none: in none.
    pub fn copies_in_preparation_since(&self) -> Option<ProtocolVersion> {
        let versions = [ProtocolVersion::PREVIOUS, ProtocolVersion::CURRENT];
        versions.into_iter().find(|&version| self.in_version(version).copies_in_preparation())
    }

    /// The same in a cluster of this version, in which there may be no large collections.
    pub fn in_version(&self, version: ProtocolVersion) -> ProtocolChoices {
        let collections_ahead = self.collections_ahead && version.has_collections();
        ProtocolChoices { collections_ahead, ..*self }
    }

    /// The same where a node restarted in the middle: the range is frozen whole, and nothing is copied ahead.
    pub fn resumed(&self) -> ProtocolChoices {
        let serves = match self.serves {
            Serves::WhatItWasGiven => Serves::AtActivation,
            serves => serves,
        };
        let copies = Copies::AfterFreeze;
        ProtocolChoices { copies, serves, hot_first: false, collections_ahead: false, ..*self }
    }

    /// The first version of those that a program speaks in which both ends can do it.
    pub fn needs(&self) -> ProtocolVersion {
        let gives_by_cuts = matches!(self.copies, Copies::BeforeCuts(_));
        let is_in = |version: ProtocolVersion| {
            (!gives_by_cuts || version.has_cuts()) && (!self.copies_hot_ahead() || version.has_hot_copies())
        };
        if is_in(ProtocolVersion::PREVIOUS) { ProtocolVersion::PREVIOUS } else { ProtocolVersion::CURRENT }
    }
}

/// When the records are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// After the source has frozen them.
    AfterFreeze,
    /// While the source serves them and marks changes. Then the changes, in rounds; the last round after the
    /// freeze (M11). Until the freeze a cancel or a failure changes nothing.
    BeforeFreeze(Rounds),
    /// While the source serves them and marks changes, a window after the other. What is copied is given by a
    /// cut, with what has changed meanwhile; the source serves the rest on, and the target takes what is
    /// requested of it.
    BeforeCuts(Cuts),
}

/// How a range is given bit by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cuts {
    /// The least time from one cut to the next, in microseconds, unless a command waits for a key.
    pub period_us: u32,
    /// The most positions that one cut gives out of turn.
    pub keys: usize,
    /// About how many bytes are copied ahead of what is given.
    pub bytes: u32,
    /// Whether clients that subscribe are sent what each cut has given.
    pub digest: bool,
    /// The most positions that are given out of turn in all.
    pub out_of_turn: usize,
    /// Who serves what is not given yet, and until when.
    pub uncovered: Uncovered,
}

/// Who serves what is not given yet, of a range that is given bit by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncovered {
    /// The source, until it is given.
    Source,
    /// The target: the first cut gives everything.
    Target,
    /// The source, as long as its workers keep up and there is room for positions out of turn. Then one last
    /// cut gives everything that is left.
    ByLoad,
}

/// When a protocol that copies first freezes the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// When at most this many changes are left.
    pub few: u64,
    /// After this many rounds at most: a range that changes faster than it is copied never has few left. With
    /// 0 the range is frozen as soon as the first changes have come.
    pub at_most: u32,
}

/// Since when the target serves the range. Requests that arrive before are parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// From the activation on, while records arrive.
    AtActivation,
    /// When everything has arrived.
    WhenAllIsHere,
    /// What it was given, from the commit on.
    WhatItWasGiven,
}

/// What the source does with reads of the frozen range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceReads {
    /// Answers them to clients that name the migration; redirects all others.
    AnswersFrozen,
    /// Redirects them.
    Redirects,
}

/// What the target does with a command that needs a key that has not arrived. Clients without opt-in always
/// wait for a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissing {
    /// An opted-in client's read of one key is answered "not here yet" at once, and takes the source's frozen
    /// value (Fulva, III-B: "empty"). Everything else waits.
    SaysNotHereYet,
    /// The command waits until the key is pulled.
    Waits,
    /// An opted-in client is asked to retry after this time (Rocksteady, 2.3.3), while the key is pulled.
    SaysRetry {
        /// How long, in microseconds.
        after_us: u32,
    },
}

/// How much a bulk pull asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullBytes {
    /// Always this much.
    Fixed(u32),
    /// First this much; then as much as arrives in a bounded time.
    Adaptive(u32),
}

impl PullBytes {
    /// What the first pull of each partition asks for.
    pub const fn first(self) -> u32 {
        match self {
            PullBytes::Fixed(bytes) | PullBytes::Adaptive(bytes) => bytes,
        }
    }
}

/// Pulling the records of sampled misses (Fulva, IV-B: SampPull). The paper draws 1 %, in migrations of half
/// a minute at a million operations a second. A migration here lasts seconds, in which a hot key misses a few
/// dozen times. And a record in a batch costs each node a fraction of one more double read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// One miss in this many is drawn.
    pub one_in: u32,
    /// The most positions in one pull; one is in flight.
    pub batch: usize,
}

/// Pulling keys that commands wait for (Rocksteady, 2.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityPulls {
    /// The most keys in one pull.
    pub batch: usize,
    /// The most pulls in flight; 0: commands wait until the bulk pulls bring their key. Each key is in at
    /// most one pull.
    pub in_flight: usize,
}
