//! The handle, its task, and the state they share.

use crate::command::{Kind, kind_of};
use crate::driver::Driver;
use crate::error::Error;
use crate::numbers::Numbers;
use crate::waiting::Waiting;
use sidle_client_core::{Busy, Class, Config, Core, Counters, Destination};
use sidle_cluster::HostPort;
use sidle_resp::Value;
use sidle_types::{HashedKey, MapEpoch, MonotonicUs};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A handle to a cluster. Clones share the connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    once: Arc<Numbers>,
    decisions: Arc<Decisions>,
}

/// The connections over which transactions are decided, a second one to each node. Over the others requests
/// wait for what transactions have locked: a decision behind such a request would wait for itself.
struct Decisions {
    config: Config,
    shared: OnceLock<Arc<Shared>>,
}

pub(crate) struct Shared {
    state: Mutex<State>,
}

struct State {
    driver: Driver,
    waiting: Waiting,
    /// The driver's task; taken when it is woken, so that any number of operations before its turn wake it
    /// once.
    driver_task: Option<Waker>,
    /// Tasks that wait for a map.
    map_wanted: Vec<Waker>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the client's core does not panic")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The task sees that no handle is left, and ends.
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(task) = state.driver_task.take() {
            task.wake();
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to the cluster of these nodes (`host:port`) with the default settings, on the current
    /// runtime.
    ///
    /// # Errors
    /// [`Error::Address`], or [`Error::Unreachable`] if no node is usable within an operation's time limit.
    ///
    /// # Panics
    /// Outside a tokio runtime with time and network enabled.
    pub async fn connect(seeds: &[impl AsRef<str>]) -> Result<Client, Error> {
        let seeds: Vec<HostPort> =
            seeds.iter().map(|seed| seed.as_ref().parse()).collect::<Result<_, _>>()?;
        Client::connect_with(Config::new(seeds)).await
    }

    /// Connects with these settings.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if no seed is usable within an operation's time limit.
    ///
    /// # Panics
    /// Outside a tokio runtime with time and network enabled, without a seed, or if `connections_per_node` is
    /// out of bounds.
    pub async fn connect_with(config: Config) -> Result<Client, Error> {
        let patience = Duration::from_micros(config.operation_timeout_us);
        let client = Client::open(config);
        match tokio::time::timeout(patience, client.map_known()).await {
            Ok(()) => Ok(client),
            Err(_) => {
                let why =
                    client.shared.lock().driver.trouble().unwrap_or("no node answered in time").to_owned();
                Err(Error::Unreachable { why })
            }
        }
    }

    /// Begins to connect.
    fn open(config: Config) -> Client {
        let decisions = Arc::new(Decisions { config: config.clone(), shared: OnceLock::new() });
        let state = State {
            driver: Driver::new(Core::new(config)),
            waiting: Waiting::default(),
            driver_task: None,
            map_wanted: Vec::new(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state) });
        let client = Client { shared, once: Numbers::new(), decisions };
        let mut task = Task { shared: Arc::downgrade(&client.shared), to_wake: Vec::new() };
        tokio::spawn(poll_fn(move |cx| task.poll(cx)));
        client
    }

    /// The client whose connections decide transactions.
    pub(crate) fn of_decisions(&self) -> Client {
        let Decisions { config, shared } = &*self.decisions;
        let open = || {
            let config = Config { seeds: self.nodes(), connections_per_node: 1, ..config.clone() };
            Client::open(config).shared
        };
        Client { shared: Arc::clone(shared.get_or_init(open)), ..self.clone() }
    }

    fn map_known(&self) -> impl Future<Output = ()> {
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if state.driver.core().map().is_some() {
                return Poll::Ready(());
            }
            state.map_wanted.push(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Starts a command, its name as the first argument. It is sent whether or not the [`Call`] is awaited; a
    /// dropped call still takes effect.
    pub fn start(&self, args: &[&[u8]]) -> Call {
        let kind = match kind_of(args) {
            Ok(kind) => kind,
            Err(error) => return Call::failed(error),
        };
        self.submit(|core, now, token| match kind {
            Kind::Get(key) => core.get(now, token, HashedKey::new(key)),
            Kind::Key(class, key) => {
                core.submit(now, token, class, Destination::Key(HashedKey::new(key)), args)
            }
            Kind::Keyless(class) => core.submit(now, token, class, Destination::Any, args),
        })
    }

    /// Starts a command at the node with this number, in the order of [`nodes`](Self::nodes), whatever it
    /// owns.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn start_at(&self, node: usize, args: &[&[u8]]) -> Call {
        self.start_as(Class::Write, Destination::Node(node), args)
    }

    /// Starts a command of this class there.
    pub(crate) fn start_as(&self, class: Class, to: Destination<'_>, args: &[&[u8]]) -> Call {
        self.submit(|core, now, token| core.submit(now, token, class, to, args))
    }

    /// The client's clock.
    pub(crate) fn now(&self) -> MonotonicUs {
        self.shared.lock().driver.now()
    }

    /// Looks at the core.
    pub(crate) fn with_core<T>(&self, look: impl FnOnce(&Core, MonotonicUs) -> T) -> T {
        let state = self.shared.lock();
        look(state.driver.core(), state.driver.now())
    }

    /// The numbers of its commands that run once.
    pub(crate) fn once(&self) -> &Numbers {
        &self.once
    }

    fn submit(
        &self,
        start: impl FnOnce(&mut Core, sidle_types::MonotonicUs, u64) -> Result<(), Busy>,
    ) -> Call {
        let mut state = self.shared.lock();
        if state.waiting.is_closed() {
            return Call::failed(Error::Closed);
        }
        let place = state.waiting.admit();
        let now = state.driver.now();
        if start(state.driver.core_mut(), now, place as u64).is_err() {
            state.waiting.withdraw(place);
            return Call::failed(Error::Busy);
        }
        let task = state.driver_task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
        Call { state: CallState::Started { shared: Arc::clone(&self.shared), place } }
    }

    /// The client's counters so far.
    pub fn counters(&self) -> Counters {
        self.shared.lock().driver.core().counters()
    }

    /// The epoch of the tablet map in use.
    pub fn map_epoch(&self) -> Option<MapEpoch> {
        self.shared.lock().driver.core().map().map(|map| map.epoch())
    }

    /// The nodes that the client knows.
    pub fn nodes(&self) -> Vec<HostPort> {
        self.shared.lock().driver.core().nodes().cloned().collect()
    }
}

/// A command under way.
#[derive(Debug)]
#[must_use = "the command is sent anyway, but its outcome is lost"]
pub struct Call {
    state: CallState,
}

enum CallState {
    Started { shared: Arc<Shared>, place: usize },
    Failed(Error),
    Fetched,
}

impl std::fmt::Debug for CallState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallState::Started { place, .. } => write!(f, "Started({place})"),
            CallState::Failed(error) => write!(f, "Failed({error:?})"),
            CallState::Fetched => f.write_str("Fetched"),
        }
    }
}

impl Call {
    pub(crate) fn failed(error: Error) -> Call {
        Call { state: CallState::Failed(error) }
    }
}

impl Future for Call {
    type Output = Result<Value, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Value, Error>> {
        let polled = match &self.state {
            CallState::Started { shared, place } => shared.lock().waiting.poll(*place, cx.waker()),
            CallState::Failed(error) => Poll::Ready(Err(error.clone())),
            CallState::Fetched => panic!("a call is awaited once"),
        };
        if polled.is_ready() {
            self.state = CallState::Fetched;
        }
        polled
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let CallState::Started { shared, place } = &self.state {
            shared.lock().waiting.abandon(*place);
        }
    }
}

/// The task that drives the core for as long as a handle or a call is left.
struct Task {
    shared: Weak<Shared>,
    to_wake: Vec<Waker>,
}

impl Task {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(shared) = self.shared.upgrade() else { return Poll::Ready(()) };
        let mut guard = shared.lock();
        let state = &mut *guard;
        state.driver.poll(cx, &mut state.waiting);
        match &mut state.driver_task {
            Some(task) => task.clone_from(cx.waker()),
            None => state.driver_task = Some(cx.waker().clone()),
        }
        state.waiting.take_wakers(&mut self.to_wake);
        if state.driver.take_map_changed() {
            self.to_wake.append(&mut state.map_wanted);
        }
        drop(guard);
        self.to_wake.drain(..).for_each(Waker::wake);
        Poll::Pending
    }
}

impl Drop for Task {
    /// The runtime ended before the handles: no operation will be answered any more.
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade()
            && let Ok(mut state) = shared.state.lock()
        {
            state.waiting.close();
            state.waiting.take_wakers(&mut self.to_wake);
        }
        self.to_wake.drain(..).for_each(Waker::wake);
    }
}
