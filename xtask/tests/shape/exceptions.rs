//! Today's exceptions to the rules.

/// Functions with more than 70 lines: the file, the function, and its allowed length.
pub(crate) const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];

/// Types with methods in more than three files: the crate, the type, and how many.
pub(crate) const SPREAD_TYPES: &[(&str, &str, usize)] = &[];

/// Circles of files: the crate, the files below its `src`, and the reason.
pub(crate) const CIRCLES: &[(&str, &[&str], &str)] = &[
    (
        "cluster",
        &[
            "bounds.rs",
            "health.rs",
            "message.rs",
            "metadata.rs",
            "migration_record.rs",
            "refusal.rs",
            "status.rs",
            "tablet_map.rs",
        ],
        "`bounds` checks messages and records, which call it for their parts",
    ),
    (
        "node",
        &["clients.rs", "session.rs"],
        "a session holds its client's record, which counts the session in what the client takes",
    ),
    (
        "server",
        &[
            "control/coordinator.rs",
            "control/forwarding.rs",
            "control/mod.rs",
            "mover/mod.rs",
            "start.rs",
            "worker/accept.rs",
            "worker/connection.rs",
            "worker/engine.rs",
            "worker/forward.rs",
            "worker/mod.rs",
        ],
        "each thread names the others' inboxes, and `StartError` lies with what starts them",
    ),
    (
        "sim",
        &[
            "checks/mod.rs",
            "clients/canceller.rs",
            "clients/resp_stream.rs",
            "host.rs",
            "link.rs",
            "network.rs",
            "process/mod.rs",
            "process/mover.rs",
            "turns.rs",
            "world.rs",
        ],
        "the world holds hosts, network and checks, which are lent the world",
    ),
];
