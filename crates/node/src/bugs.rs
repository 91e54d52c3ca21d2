//! The faults of workers and of the node's control.

sidle_types::bugs! {
    /// A read-modify-write does not wait for a key that has not arrived, but takes it for absent (Fulva's
    /// code).
    increments_start_at_zero: "increments-start-at-zero",
    /// The mover hears that a range is frozen before every worker has passed the table in which it is
    /// exported (breaks C1 and M2).
    freeze_without_barrier: "freeze-without-barrier",
    /// The source goes on serving a range that it exports (breaks M1 and M2).
    source_serves_after_freeze: "source-serves-after-freeze",
    /// The target serves a range before the source has activated it (breaks M1 and M3).
    target_serves_before_activate: "target-serves-before-activate",
    /// Active expiry at the target leaves nothing behind, and an older value without a deadline comes back
    /// (breaks M6).
    expiry_leaves_no_tombstone: "expiry-leaves-no-tombstone",
    /// Active expiry removes records from a frozen range (breaks M2).
    frozen_source_expires: "frozen-source-expires",
    /// A command that was woken runs twice: when it is woken, and when its connection is served again.
    parked_command_runs_twice: "parked-command-runs-twice",
    /// A new range table wakes nobody: whoever waits for a migration that was given up waits for ever (breaks
    /// P3).
    new_table_wakes_nobody: "new-table-wakes-nobody",
    /// A range is taken although what an earlier owner left in it is still here (breaks C4 and M5).
    prepares_over_leavings: "prepares-over-leavings",
    /// SCAN goes on behind a range whose keys have not all arrived, and leaves out those that come later
    /// (breaks its guarantee).
    scan_passes_what_has_not_arrived: "scan-passes-what-has-not-arrived",
    /// FLUSHALL forgets that it has flushed an import, and flushes it again (breaks linearizability).
    import_flushed_twice: "import-flushed-twice",
    /// A worker marks what it is about to change, so that the mark may be taken before there is anything to
    /// be read (breaks M11).
    mark_before_write: "mark-before-write",
    /// The mover hears that a range is tracked before every worker marks its changes (breaks C5 and M11).
    tracking_without_barrier: "tracking-without-barrier",
    /// FLUSHALL does not mark what it clears (breaks M11).
    flush_marks_nothing: "flush-marks-nothing",
    /// A forwarded request runs where it arrives, whoever owns its keys by then (breaks F1).
    forwarded_without_ownership_check: "forwarded-without-ownership-check",
    /// A write whose answer was lost with the connection is sent once more (breaks F2).
    lost_write_is_forwarded_again: "lost-write-is-forwarded-again",
    /// MSET publishes its first key by itself, and others run before it publishes the rest (breaks X1).
    half_mset_visible: "half-mset-visible",
}
