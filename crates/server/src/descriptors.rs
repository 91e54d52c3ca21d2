//! How many descriptors the process may have open, and so how many clients it can serve.
//!
//! A shell's limit is often 1,024, or less. At startup it is raised up to the system's bound.
//! If that is not enough for `max_clients`, fewer are served, and the node reports it.

use crate::control::calls::UNDER_WAY_MAX;
use crate::door::Bounds;
use crate::limits::RESERVED_PLACES;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Standard streams, the data directory's files, the log, and what a resolver or a read of `/proc` opens for
/// a moment.
const FILES: u64 = 24;
/// The node's own connections to others at a time: the conversation with the coordinator or the search for
/// it, the lanes of a migration, and the coordinator's calls.
const DIALED: u64 = 1 + 2 + UNDER_WAY_MAX as u64;
/// Where the log has copies, besides its connection to each: the thread that sends to them, and the log's
/// files that it reads.
const SENDING: u64 = A_RUNTIME + 6;
/// For each worker: its forwarding to one other node, for each version of the protocol.
const FORWARDING: u64 = 2;
/// Others' bus connections get one part in so many of the descriptors that the node does not need itself,
/// and more where clients leave it. Strangers there take nothing that clients were promised.
const DOOR_PART: u64 = 8;
/// For each thread: its poll, its waker, its listener, and the spare one for refusing clients.
const A_THREAD: u64 = 4;
/// For each thread with connections and without a listener: its poll, its waker, and that of signals.
const A_RUNTIME: u64 = 3;

/// What the node runs that takes descriptors of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads {
    pub(crate) workers: usize,
    pub(crate) movers: usize,
    /// How many copies its log has at other nodes.
    pub(crate) copies: usize,
}

impl Threads {
    /// Beside workers and movers there are control, which listens, and log-backups.
    fn descriptors(self) -> u64 {
        let sending = if self.copies > 0 { SENDING + self.copies as u64 } else { 0 };
        let (workers, runtimes) = (self.workers as u64, self.movers as u64 + 1);
        A_THREAD * (workers + 1) + A_RUNTIME * runtimes + FORWARDING * workers + sending
    }
}

/// The process's limit, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// How many descriptors the node needs beside its clients', other nodes' included.
    own: u64,
    /// How many connections other nodes may have.
    pub(crate) door: Bounds,
    /// How many clients can be served at most, whatever the settings.
    pub(crate) servable_clients: u64,
}

/// The node needs more descriptors than it may have, before its first client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the process may open {limit} files, and this node needs {needed} before it can serve a client: \
     raise the limit (`ulimit -n`, LimitNOFILE= of systemd), or give it fewer --workers"
)]
pub struct TooFewDescriptors {
    limit: u64,
    needed: u64,
}

impl Plan {
    /// The plan for these threads, copies of the log, and clients under a limit.
    fn new(threads: Threads, wanted: usize, limit: u64) -> Result<Plan, TooFewDescriptors> {
        let fixed = threads.descriptors() + FILES + DIALED + RESERVED_PLACES as u64;
        let left = limit.saturating_sub(fixed);
        let of_door = (left / DOOR_PART).max(left.saturating_sub(wanted as u64));
        let door = Bounds::within(usize::try_from(of_door).unwrap_or(usize::MAX));
        let own = fixed + door.total() as u64;
        if limit <= own {
            return Err(TooFewDescriptors { limit, needed: own + 1 });
        }
        Ok(Plan { own, door, servable_clients: limit - own })
    }

    /// Raises this process's limit to the system's bound, and plans with the result.
    ///
    /// # Errors
    /// Not even one client could be served.
    pub(crate) fn make(threads: Threads, wanted: usize) -> Result<Plan, TooFewDescriptors> {
        let limit = raised_limit();
        let plan = Plan::new(threads, wanted, limit)?;
        if plan.servable_clients < wanted as u64 {
            tracing::warn!(
                "the process may open {limit} files, of which the node needs {} itself: {} clients are \
                 served at most, not {wanted} (max_clients). Raise the limit (`ulimit -n`, LimitNOFILE= of systemd) \
                 to {} for all of them",
                plan.own,
                plan.servable_clients,
                plan.own + wanted as u64,
            );
        }
        Ok(plan)
    }

    /// How many of the clients in the settings are served.
    pub(crate) fn clients(&self, wanted: usize) -> u64 {
        self.servable_clients.min(wanted as u64)
    }
}

/// Raises the soft limit to the hard one, and returns the result.
fn raised_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::debug!("the limit of open files stays what it is: {error}");
    }
    // No limit is a limit that is never reached.
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREADS: Threads = Threads { workers: 2, movers: 1, copies: 0 };

    #[test]
    fn plan_leaves_to_clients_what_the_node_does_not_need() {
        let plan = Plan::new(THREADS, 10_000, 256).unwrap();
        assert!((90..256).contains(&plan.servable_clients), "{plan:?}");
        assert_eq!(plan.own + plan.servable_clients, 256);
        assert_eq!(plan.clients(10_000), plan.servable_clients);
        assert_eq!(plan.clients(5), 5);
        let unlimited = Plan::new(THREADS, 10_000, u64::MAX).unwrap();
        assert_eq!((unlimited.clients(10_000), unlimited.door), (10_000, Bounds::MOST));
    }

    #[test]
    fn plan_keeps_what_the_port_between_nodes_may_take() {
        for (limit, wanted, door_least, clients_least) in [
            (256, 10_000, 32, 90),
            (1_024, 10_000, 100, 700),
            (1_024, 100, 700, 100),
            (20_000, 10_000, 2_240, 10_000),
        ] {
            let plan = Plan::new(THREADS, wanted, limit).unwrap();
            let (door, clients) = (plan.door.total() as u64, plan.servable_clients);
            assert!(door >= door_least && clients >= clients_least, "{limit}: {plan:?}");
            // The node's own needs use up all of them.
            let others = FILES + DIALED + THREADS.descriptors() + RESERVED_PLACES as u64;
            assert_eq!(others + door + clients, limit);
        }
    }

    #[test]
    fn plan_refuses_a_limit_that_serves_nobody() {
        let refused = Plan::new(THREADS, 10_000, 16).unwrap_err();
        let needed = refused.needed;
        assert!(refused.to_string().contains(&format!("may open 16 files, and this node needs {needed} ")));
        assert!(Plan::new(THREADS, 10_000, needed - 1).is_err());
        assert_eq!(Plan::new(THREADS, 10_000, needed).unwrap().servable_clients, 1);
    }

    #[test]
    fn copies_of_the_log_take_theirs() {
        let servable =
            |copies| Plan::new(Threads { copies, ..THREADS }, 10_000, 256).unwrap().servable_clients;
        assert_eq!(servable(0), servable(2) + 2 + SENDING);
    }

    #[test]
    fn raised_limit_is_the_hard_one() {
        let limit = raised_limit();
        assert_eq!(limit, getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX));
    }
}
