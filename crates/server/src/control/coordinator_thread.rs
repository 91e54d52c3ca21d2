//! The coordinator's thread. A commit waits for a disk, and so for other writes to it, perhaps
//! for seconds. Nothing else on the node waits for it: messages from members and this node go into a queue,
//! the coordinator's messages to this node come out of one.
//!
//! Every message may be lost (M10): a full queue drops it, and it is sent again.
//!
//! Without its [`Office`] it handles nothing and sends nothing, and the thread ends.
//!
//! Ownership: the control thread holds the [`CoordinatorThread`]; the thread ends with it.

use super::coordinator::CoordinatorSeat;
use super::links::Room;
use super::office::Office;
use super::outbox::Outbox;
use crate::clock::Clock;
use crate::thread;
use sidle_cluster::{MetaStore, ToCoordinator, ToNode};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// The thread's name.
const NAME: &str = "coordinator";
/// How many messages may wait for the coordinator.
const MESSAGES_MAX: usize = 256;
/// How often silent members are checked and called.
const CALLS_EVERY: Duration = Duration::from_millis(100);
/// A longer turn of the coordinator is logged: it waited for its store.
const LONG: Duration = Duration::from_secs(1);

/// A node's message to the coordinator.
struct Said {
    message: ToCoordinator,
    /// Where to answer it; `None` for this node itself.
    outbox: Option<Outbox>,
    /// Its share of the room for members' messages.
    _room: Option<Room>,
}

/// The running thread; waited for when dropped.
pub(super) struct CoordinatorThread {
    inbox: Option<mpsc::Sender<Said>>,
    handle: Option<JoinHandle<()>>,
}

impl CoordinatorThread {
    /// Starts the thread. The coordinator's messages to this node come out of the second value.
    pub(super) fn start<M: MetaStore + Send + 'static>(
        seat: CoordinatorSeat<M>,
        clock: Clock,
        office: Arc<Office>,
    ) -> io::Result<(CoordinatorThread, UnboundedReceiver<ToNode>)> {
        let (inbox, said) = mpsc::channel(MESSAGES_MAX);
        // The control thread takes whatever is there, and never waits.
        let (to_node, from_coordinator) = mpsc::unbounded_channel();
        let handle = thread::start(NAME.to_owned(), move || {
            let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
            let runtime = runtime.expect("a runtime needs only an epoll descriptor");
            runtime.block_on(serve(seat, said, to_node, clock, &office));
            office.leave();
        })?;
        Ok((CoordinatorThread { inbox: Some(inbox), handle: Some(handle) }, from_coordinator))
    }

    /// Passes on a node's message, unless too much waits already. `outbox`: where to answer it; `None` for
    /// this node itself.
    pub(super) fn pass_on(&self, message: ToCoordinator, outbox: Option<Outbox>, room: Option<Room>) {
        if let Some(inbox) = &self.inbox {
            // M10: it is sent again.
            let _ = inbox.try_send(Said { message, outbox, _room: room });
        }
    }
}

impl Drop for CoordinatorThread {
    /// When this returns, an open commit is on disk.
    fn drop(&mut self) {
        self.inbox = None;
        if let Some(handle) = self.handle.take() {
            // A panic would have ended the process.
            let _ = handle.join();
        }
    }
}

async fn serve<M: MetaStore>(
    mut seat: CoordinatorSeat<M>,
    mut inbox: mpsc::Receiver<Said>,
    to_node: UnboundedSender<ToNode>,
    clock: Clock,
    office: &Office,
) {
    let mut calls = interval(CALLS_EVERY);
    calls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = seat.timeout().map(|due| Instant::from_std(clock.instant(due)));
        let said = tokio::select! {
            said = inbox.recv() => match said {
                Some(said) => Some(said),
                None => return,
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => None,
            _ = calls.tick() => {
                seat.call_members(clock.mono());
                None
            }
        };
        if !office.is_held(clock.mono()) {
            return;
        }
        let begun = Instant::now();
        match said {
            Some(Said { message, outbox, .. }) => seat.handle(clock.mono(), message, outbox),
            None => seat.tick(clock.mono()),
        }
        if begun.elapsed() >= LONG {
            tracing::warn!(
                "the coordinator waited {:.1} s for its store: until it had written, joins, migrations and status \
                 waited too",
                begun.elapsed().as_secs_f64()
            );
        }
        // The turn may have taken long, in a commit.
        if !office.is_held(clock.mono()) {
            return;
        }
        while let Some(message) = seat.poll_local() {
            // Without a control thread the process is ending.
            let _ = to_node.send(message);
        }
        if seat.is_deposed() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::{Bounds, Door};
    use sidle_cluster::{
        CoordinatorSays, MemoryMetaStore, MetaError, Metadata, NodeInfo, NodeSays, Place, StartNumber,
    };
    use sidle_testbed::fixtures::node_info;
    use sidle_types::{MonotonicUs, Speaks};
    use std::sync::mpsc::{Receiver, channel};

    /// A store whose commits wait until they are let through.
    struct SlowStore {
        store: MemoryMetaStore,
        lets_through: Receiver<()>,
    }

    impl MetaStore for SlowStore {
        fn load(&mut self) -> Result<Option<Metadata>, MetaError> {
            self.store.load()
        }

        fn commit(&mut self, metadata: &Metadata) -> Result<(), MetaError> {
            self.lets_through.recv().expect("the test lets it through");
            self.store.commit(metadata)
        }

        fn keep(&mut self, metadata: &Metadata) -> Result<Place, MetaError> {
            self.store.keep(metadata)
        }
    }

    fn joins(node: u8) -> ToCoordinator {
        let NodeInfo { id, incarnation, client_addr, bus_addr } = node_info(node);
        ToCoordinator {
            from: id,
            incarnation,
            body: NodeSays::Join {
                client_addr,
                bus_addr,
                cluster: None,
                start: Some(StartNumber(1)),
                speaks: Speaks::THIS_BUILD,
                log_since: None,
            },
        }
    }

    /// A slow disk once made the node's control thread wait, and with it the node's handshakes,
    /// migrations, timers and signals.
    #[test]
    fn nobody_but_the_coordinator_waits_for_its_disk() {
        let (let_through, lets_through) = channel();
        let_through.send(()).unwrap();
        let store = SlowStore { store: MemoryMetaStore::new(), lets_through };
        let door = Door::new(&node_info(1).bus_addr, None, "nowhere".into(), Bounds::MOST);
        let seat = CoordinatorSeat::open(MonotonicUs(0), store, &node_info(1), StartNumber(1), door).unwrap();
        let (thread, mut from_coordinator) =
            CoordinatorThread::start(seat, Clock::start(), Arc::new(Office::for_ever())).unwrap();
        // A new member has to be committed. If this waited for that, the test would never end.
        thread.pass_on(joins(2), None, None);
        for _ in 0..10 * MESSAGES_MAX {
            thread.pass_on(joins(1), None, None);
        }
        assert!(from_coordinator.try_recv().is_err(), "nothing is said before it is committed");
        let_through.send(()).unwrap();
        let said = from_coordinator.blocking_recv().expect("the thread runs");
        assert!(matches!(said.body, CoordinatorSays::Welcome { .. }));
        drop(thread);
        let mut answers = 1;
        while from_coordinator.blocking_recv().is_some() {
            answers += 1;
        }
        assert!(answers <= MESSAGES_MAX + 1, "what found no room was dropped");
    }
}
