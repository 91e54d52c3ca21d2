//! The faults of the protocol machines and of what workers see of them; put back by way of
//! [`Tuning`](crate::Tuning).

sidle_types::bugs! {
    /// Replay replaces what the target wrote (breaks M5; NetMigrate's code).
    replay_overwrites: "replay-overwrites",
    /// A removal at the target leaves nothing behind (breaks M6).
    no_tombstones: "no-tombstones",
    /// Progress is published before the records are in the store (breaks M7; Fulva's code).
    progress_before_replay: "progress-before-replay",
    /// A finished partition's progress becomes 0, and so moves back, and the migration never ends (breaks M7;
    /// Fulva's code).
    finished_partition_resets: "finished-partition-resets",
    /// The source tells a pull to go on one position too far, and what stands there never comes (breaks M7).
    partition_skips_position: "partition-skips-position",
    /// The source gives a partition's records back as soon as it has sent the last of them (breaks M8;
    /// Rocksteady's code drops the source before the target has everything safe).
    source_releases_at_fin: "source-releases-at-fin",
    /// Activation counts as heard when it is sent; when it is lost with its connection, nobody serves the
    /// range for ever (breaks M10).
    activate_sent_once: "activate-sent-once",
    /// The source's word that it has no such key replaces what was written at the target meanwhile (breaks
    /// M5).
    absent_answer_overwrites: "absent-answer-overwrites",
    /// When a priority pull returns, only the first of those who wait for a key is woken (breaks liveness).
    lost_wake: "lost-wake",
    /// A partition's tombstones go when its last pull is replayed, though replies out of turn may still be
    /// replayed (breaks M6).
    tombstones_freed_early: "tombstones-freed-early",
    /// After FLUSHALL at the target what has not arrived still arrives (breaks linearizability).
    flush_leaves_late_records: "flush-leaves-late-records",
    /// The source gives back all of its memory but the last partition's (leaks).
    release_leaves_records: "release-leaves-records",
    /// The source forgets the changes of a round when it has sent them; when they are lost with their
    /// connection, the target keeps what it had (breaks M10 and M11).
    round_forgets_unacknowledged: "round-forgets-unacknowledged",
    /// The target adds what a round brings to what it has, and what was deleted meanwhile stays (breaks M11).
    round_keeps_what_is_gone: "round-keeps-what-is-gone",
    /// The target takes a round for the last one because nothing was left, though it was packed before the
    /// freeze (breaks M11).
    last_round_before_freeze: "last-round-before-freeze",
}
