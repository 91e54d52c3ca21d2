//! The faults of the coordinator and of the node agent.

sidle_types::bugs! {
    /// The coordinator acts on a change whose commit failed (breaks its invariant 1).
    act_before_commit: "act-before-commit",
    /// A restarted target gets its range before the source is known to have frozen it (breaks M1 and the
    /// coordinator's invariant 4).
    restarted_target_serves_at_once: "restarted-target-serves-at-once",
    /// A running migration whose source has only fallen silent is ended as if the source had restarted, and
    /// what had not arrived is given up (breaks linearizability).
    silence_counts_as_death: "silence-counts-as-death",
    /// A repeated request is taken for a new one (breaks M10).
    request_executed_twice: "request-executed-twice",
    /// The end of a migration is told once; when that is lost, both ends keep what they have for it for ever
    /// (breaks M10; leaks).
    end_told_once: "end-told-once",
    /// A node goes back to an older map when one comes late, and so to what it no longer owns (breaks M1 and
    /// the agent's invariant 1).
    older_map_adopted: "older-map-adopted",
}
