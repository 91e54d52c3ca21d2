//! From settings to a running node, and to its end.
//!
//! The threads: workers serve clients; movers move data between nodes (by default on threads of
//! their own); the cleaner gives the log's dead bytes back; the saver writes all keys into a file when asked
//! to; the coordinator, if it is on this node, commits to its disk; the control thread, which called
//! [`run`], does everything else.

use crate::bus::LargeFrames;
use crate::cleaner::CleanerThread;
use crate::clock::Clock;
use crate::cluster_secret::{self, SecretError};
use crate::config::{Auto, Config, DurabilityMode, Fsync};
use crate::control::{ControlCall, ControlSetup, ControlThread, LoadedLog, coordinator};
use crate::cpus::{self, CpusError};
use crate::data_dir::{self, DataDir, DataDirError, Identity, random_bytes, random_node_id};
use crate::descriptors::{self, Plan, TooFewDescriptors};
use crate::door::Door;
use crate::durable_log::{
    self, BackupsSetup, BackupsThread, CopiesInput, CopiesSetup, DurableLogThreads, LoaderSetup, LogRequests,
    LogWriterSetup, RecoverError, TakeoversSetup, TakeoversThread,
};
use crate::election;
use crate::exposure::{self, Exposed};
use crate::join;
use crate::last_map::LastMap;
use crate::limits::ClientLimits;
use crate::listener::{BUS_PORT, CLIENT_PORT, ListenError};
use crate::memory::{self, MemoryError};
use crate::mover::{MoverInput, MoverLink, MoverReports, MoverSetup};
use crate::other_log::{self, OtherLog};
use crate::process;
use crate::saver::SaverThread;
use crate::users_file::{self, UsersFileError};
use crate::worker::{KEEPALIVE, WorkerLink, WorkerSetup};
use sidle_cluster::{ClusterId, HostPort, Incarnation, MetaError, NodeInfo, TabletMap, Takeover};
use sidle_log_files::{Settings as LogSettings, Syncs};
use sidle_node::{
    CurrentTable, Mover, MoverIndex, MoverPort, NodeParts, NodeShared, ProcessFacts, RangeTable, Worker,
    WorkerIndex, WorkerPort,
};
use sidle_store::{Store, StoreError};
use sidle_types::LogId;
use sidle_types::words::counted;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use tokio::sync::{Notify, mpsc};

/// How many bytes of the durable log's oldest file are judged for one commit, at least.
const JUDGED_BYTES: usize = 256 << 10;

/// Why a node could not be started. The message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The cluster's secret is unknown or unusable.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// Other machines could reach a node that lets anyone in.
    #[error(transparent)]
    Exposed(#[from] Exposed),
    /// A port cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The memory is not available.
    #[error("cannot set up the memory: {0}")]
    Memory(#[from] MemoryError),
    /// The users cannot be taken from their file.
    #[error(transparent)]
    Users(#[from] UsersFileError),
    /// The system refuses it.
    #[error("cannot set up the memory: {0}. Set less with --max-memory (`[memory] max_memory`)")]
    Store(#[from] StoreError),
    /// The coordinator cannot read its own record.
    #[error("the cluster's metadata in the data directory cannot be used: {0}")]
    Metadata(#[from] MetaError),
    /// The coordinator's record is missing.
    #[error(
        "the data directory {0} belongs to the node that coordinates its cluster, and the cluster's record, \
         coordinator.meta, is missing: put it back. (If this node never was the coordinator, start it with \
         --join, or with --metadata where the record is in etcd.) Without it, stop all nodes and start them with empty data directories: a new cluster, \
         without the old one's data"
    )]
    RecordMissing(String),
    /// A coordinator cannot join another cluster.
    #[error(
        "the data directory {0} belongs to the node that coordinates its cluster: start it without --join, or give \
         this node another directory with --dir"
    )]
    CoordinatorJoins(String),
    /// The metadata is to be elsewhere, and is there.
    #[error(
        "the data directory {0} has its cluster's record in a file, coordinator.meta: start the node without \
         --metadata (`[node] metadata`). A cluster that keeps its record elsewhere begins there, with empty data \
         directories"
    )]
    RecordInFile(String),
    /// The metadata is another cluster's.
    #[error(
        "the record that --metadata (`[node] metadata`) names is that of cluster {0}, and this node belongs to \
         another one: name the record of its own, or start the node with an empty data directory (--dir)"
    )]
    OtherCluster(ClusterId),
    /// Nobody is at the address to join but this node.
    #[error(
        "--join {0} is this node's own address: name another node of the cluster, or start it without --join \
         (`[node] join`) to found a new cluster"
    )]
    JoinsItself(String),
    /// The host to announce is invalid.
    #[error("cannot be reached at '{host}': {why}. Set --advertise to a host name or an address")]
    Advertise {
        /// The host.
        host: String,
        /// What is wrong with it.
        why: String,
    },
    /// The settings do not name the address at which others reach it.
    #[error(
        "it listens on every interface ({0}), and which address others are to use is not known: name it with \
         --advertise HOST, or listen on that one only with --bind ADDRESS"
    )]
    NoAddress(IpAddr),
    /// The durable log cannot be read.
    #[error(transparent)]
    DurableLog(#[from] RecoverError),
    /// The durable log of the last start is not there.
    #[error(transparent)]
    OtherLog(#[from] OtherLog),
    /// There is a durable log, and the settings ask for none.
    #[error(
        "the data directory has a durable log, in {}, and the settings ask for none: start the node with --durability \
         disk (`[durability] mode`); or move the log away, to start without what it has",
        .0.display()
    )]
    LogLeftOut(PathBuf),
    /// The log's copies are another writer's.
    #[error(
        "this node's durable log is another's by now: other nodes have taken over what this one had (`sidle takeover`); \
         or an older state of the data directory was put back, or another process writes the log. In the first \
         case start the node again: it sets its log aside, and joins as an empty member. Otherwise put the newest \
         state back"
    )]
    Deposed,
    /// The coordinator has another life of the node, or none any more.
    #[error(
        "this process is no member of its cluster any more: other nodes have taken over what it had (`sidle \
         takeover`), or another process runs with its identity. In the first case start the node again: it sets \
         its log aside, and joins as an empty member"
    )]
    Superseded,
    /// Others have taken over what this log had, and the coordinator knows it.
    #[error(
        "other nodes have taken over what this node's durable log {0} had (`sidle takeover`): rename its folder \
         durable-log to durable-log.taken-over-1 and start the node again: it joins as an empty member"
    )]
    LogTakenOver(LogId),
    /// Its processors are not usable.
    #[error(transparent)]
    Cpus(#[from] CpusError),
    /// It could not serve a single client.
    #[error(transparent)]
    TooFewDescriptors(#[from] TooFewDescriptors),
    /// The operating system refused.
    #[error("the operating system refused: {0}")]
    System(#[from] io::Error),
}

impl StartError {
    /// Whether other settings would help: nothing is wrong with the machine, or with what is kept on it.
    pub const fn is_of_settings(&self) -> bool {
        use StartError::{
            Advertise, CoordinatorJoins, Cpus, Exposed, JoinsItself, LogLeftOut, Memory, NoAddress,
            OtherCluster, RecordInFile, Users,
        };
        matches!(
            self,
            Advertise { .. }
                | CoordinatorJoins(_)
                | Cpus(_)
                | Exposed(_)
                | JoinsItself(_)
                | LogLeftOut(_)
                | Memory(_)
                | NoAddress(_)
                | Users(_)
                | OtherCluster(_)
                | RecordInFile(_)
        )
    }
}

/// Keeps the calling thread to the processors that the node may use. Call it before anything else: threads
/// inherit them from the one that starts them.
pub fn keep_to_processors(config: &Config) -> Result<(), StartError> {
    if let Auto::Value(list) = &config.node.cpu_list {
        cpus::run_on(list)?;
    }
    Ok(())
}

/// Runs a node until it is asked to stop. `config_file`: the settings' source, for INFO.
///
/// If others have taken over what it had, its log is set aside, and it begins anew as an empty member.
pub fn run(config: &Config, config_file: Option<&Path>) -> Result<(), StartError> {
    match run_once(config, config_file) {
        Err(StartError::LogTakenOver(log)) => {
            set_log_aside(config, log)?;
            run_once(config, config_file)
        }
        ended => ended,
    }
}

/// The directory is locked meanwhile: no other process has the log.
fn set_log_aside(config: &Config, log: LogId) -> Result<(), StartError> {
    let data_dir = DataDir::open(&config.data_dir())?;
    data_dir.keep_folder();
    let path = data_dir.log_path();
    let aside = durable_log::set_aside(&path, log)
        .map_err(|error| RecoverError::Refused { path: path.clone(), error })?;
    if let Some(aside) = aside {
        tracing::warn!(
            "other nodes have taken over what this node had: its durable log was moved to {}, and nothing needs \
             it any more. The node begins anew, and joins as an empty member",
            aside.display()
        );
    }
    Ok(())
}

/// Runs a node, and ends all of its threads.
fn run_once(config: &Config, config_file: Option<&Path>) -> Result<(), StartError> {
    let clock = Clock::start();
    let Ground { identity, data_dir, last_map, founds, sockets, info, door, parts, log } =
        Ground::prepare(config, config_file, clock)?;
    let (calls, call_queue) = mpsc::unbounded_channel();
    let (reports, report_queue) = mpsc::unbounded_channel();
    let (worker_ports, mover_ports) =
        sidle_node::connect(config.worker_count() as u16, config.node.movers as u16);
    let (inboxes, inbox_queues): (Vec<_>, Vec<_>) =
        mover_ports.iter().map(|_| mpsc::unbounded_channel()).unzip();
    let around = Around {
        clock,
        parts: parts.clone(),
        door: door.clone(),
        table_taken: Arc::new(Notify::new()),
        workers: worker_ports.iter().map(|_| Arc::default()).collect(),
        movers: mover_ports.iter().map(|_| Arc::default()).collect(),
        log: log.as_ref().map(|_| Arc::default()),
    };
    let backups = around.start_backups(&identity, &data_dir)?;
    let takeovers = around.start_takeovers(&data_dir, &backups, &calls)?;
    let followed = Followed::new(&last_map, &identity);
    let control = ControlThread::open(ControlSetup {
        info,
        identity,
        data_dir: Arc::clone(&data_dir),
        last_coordinator: last_map.and_then(|last| last.coordinator),
        founds,
        election: election::of(&config.node.metadata),
        join: config.node.join.clone(),
        password: config.security.password.clone(),
        parts: parts.clone(),
        bus: sockets.bus,
        door,
        workers: around.workers.clone(),
        table_taken: Arc::clone(&around.table_taken),
        movers: around.movers.iter().cloned().zip(inboxes).collect(),
        copies: followed.copies.clone(),
        backups: backups.inputs(),
        takeovers: takeovers.inputs(),
        calls: call_queue,
        reports: report_queue,
        clock,
    })?;
    let mut threads =
        Threads { workers: around.workers.clone(), movers: around.movers.clone(), handles: Vec::new() };
    let (log_threads, cleaner) = match (log, &around.log) {
        (Some(path), Some(requests)) => {
            (Some(around.start_to_read(config, path, requests, (&calls, followed))?), None)
        }
        _ => (None, Some(CleanerThread::start(Arc::clone(&parts.store))?)),
    };
    let saver = SaverThread::start(parts.clone(), clock)?;
    let movers = around.mover_setups(mover_ports, inbox_queues, &reports);
    let beside_worker = threads.start_movers(movers, config.node.has_movers_on_workers())?;
    let limits = ClientLimits::new(&config.limits, parts.store.memory().limit);
    let workers = worker_ports.into_iter().zip(sockets.clients).zip(beside_worker);
    for (index, ((ports, listener), movers_here)) in workers.enumerate() {
        let setup = around.worker_setup(index, ports, listener, movers_here, &limits, &calls)?;
        threads.handles.push(setup.start()?);
    }
    data_dir.keep_folder();
    let ended = control.run();
    drop((threads, saver, takeovers));
    // After everyone who writes.
    drop((log_threads, cleaner, backups));
    ended?;
    tracing::info!("stopped");
    Ok(())
}

/// A node's parts that exist before its threads.
struct Ground {
    identity: Identity,
    data_dir: Arc<DataDir>,
    last_map: Option<LastMap>,
    /// Whether the coordinator runs here.
    founds: bool,
    sockets: Sockets,
    info: NodeInfo,
    door: Door,
    parts: NodeParts,
    /// Where the durable log is, if there is to be one.
    log: Option<PathBuf>,
}

impl Ground {
    fn prepare(config: &Config, config_file: Option<&Path>, clock: Clock) -> Result<Ground, StartError> {
        let descriptors = Plan::make(config_threads(config), config.limits.max_clients)?;
        let memory = memory::store_config(config)?;
        let data_dir = Arc::new(DataDir::open(&config.data_dir())?);
        let given_secret = cluster_secret::given(config)?;
        exposure::check(config, given_secret.is_some() || cluster_secret::kept(&data_dir)?.is_some())?;
        if config.node.join.is_empty() && config.node.metadata.is_empty() {
            data_dir.check_for_a_founder()?;
        }
        let mut identity = data_dir.begin_life()?;
        let last_map = LastMap::load(&data_dir, &identity);
        check_record(config, &data_dir, &identity)?;
        let founds = coordinator::belongs_here(&identity, &data_dir, &config.node);
        let sockets = Sockets::listen(config)?;
        let info = sockets.node_info(config, &identity)?;
        // A node whose port is taken draws no secret that it would throw away.
        let secret = cluster_secret::at_start(config, &data_dir, given_secret, founds)?;
        let store = Arc::new(Store::new(memory)?);
        let log = durable_log(&data_dir, &store)?;
        if let Some(path) = &log {
            other_log::check(path, &mut identity, config.durability.salvages)?;
        }
        let door = Door::new(&info.bus_addr, secret, data_dir.secret_path(), descriptors.door);
        let parts = node_parts(config, config_file, &info, &sockets, clock, store)?;
        parts.shared.config.set_servable_clients(descriptors.servable_clients);
        let clients = descriptors.clients(config.limits.max_clients);
        parts.shared.config.apply(vec![("maxclients", clients.to_string())]);
        if let Some(last) = &last_map {
            show_last_map(&parts, &info, last);
        }
        log_facts(config, &identity, &info, &parts);
        if log.is_none() && identity.leave_log_out() {
            data_dir.save(&identity)?;
        }
        if log.is_some() {
            let durability = &parts.shared.durability;
            durability.is_on.store(true, Relaxed);
            parts.shared.loading.begin(clock.wall(clock.mono()).0 / 1000);
        }
        Ok(Ground { identity, data_dir, last_map, founds, sockets, info, door, parts, log })
    }
}

/// What is known of the durable log's copies.
struct Followed {
    /// The two ends of what the thread is given that has them follow the log.
    copies: mpsc::UnboundedSender<CopiesInput>,
    inputs: mpsc::UnboundedReceiver<CopiesInput>,
    /// An earlier map.
    last_map: Option<Arc<TabletMap>>,
    /// Whether there may be some.
    had_copies: bool,
    /// Whether the log is the one that the start before went on with.
    is_known: bool,
}

impl Followed {
    fn new(last_map: &Option<LastMap>, identity: &Identity) -> Followed {
        let (copies, inputs) = mpsc::unbounded_channel();
        let last_map = last_map.as_ref().map(|last| Arc::clone(&last.map));
        let is_known = identity.log_since().is_some();
        Followed { copies, inputs, last_map, had_copies: identity.has_log_copies(), is_known }
    }
}

/// The parts given to every worker and mover.
struct Around {
    clock: Clock,
    parts: NodeParts,
    door: Door,
    table_taken: Arc<Notify>,
    workers: Vec<Arc<WorkerLink>>,
    movers: Vec<Arc<MoverLink>>,
    /// Whom to ask for commits, if there is a durable log.
    log: Option<Arc<LogRequests>>,
}

impl Around {
    /// Has the durable log read, and then written.
    fn start_to_read(
        &self,
        config: &Config,
        path: PathBuf,
        requests: &Arc<LogRequests>,
        (calls, followed): (&mpsc::UnboundedSender<ControlCall>, Followed),
    ) -> io::Result<DurableLogThreads> {
        let writer = LogWriterSetup {
            store: Arc::clone(&self.parts.store),
            shared: Arc::clone(&self.parts.shared),
            wake: self.wake_held(),
            requests: Arc::clone(requests),
            reports: None,
            settings: LogSettings {
                // As CONFIG SET may change it.
                syncs: Syncs::Always,
                file_bytes: config.durability.file.0,
                least_bytes: config.durability.clean_above.0,
                share_percent: config.durability.clean_percent,
                judged_bytes: JUDGED_BYTES,
            },
            clock: self.clock,
        };
        let Followed { copies, inputs, last_map, had_copies, is_known } = followed;
        // Without a control thread the process is ending.
        let to_control = calls.clone();
        let setup = CopiesSetup {
            node: self.parts.shared.process.node,
            wanted: config.durability.mode.copies(),
            // A log that is to have no copies any more is synced as it is set to.
            syncs: config.durability.mode.copies() > 0 && config.durability.fsync == Fsync::Always,
            takeover_after_ms: config.durability.takeover_after.0,
            parts: self.parts.clone(),
            door: self.door.clone(),
            clock: self.clock,
            wake: self.wake_held(),
            requests: Arc::clone(requests),
            report: Box::new(move |report| drop(to_control.send(ControlCall::Copies(report)))),
            inputs,
        };
        let calls = calls.clone();
        let (salvages, threads) = (config.durability.salvages, config.worker_count());
        let report = Box::new(move |loaded: Result<LogId, RecoverError>| {
            let loaded = loaded.map(|log| LoadedLog { log, may_lack: salvages });
            // Without a control thread the process is ending.
            let _ = calls.send(ControlCall::Loaded(loaded.map_err(StartError::from)));
        });
        let copies = (setup, copies);
        DurableLogThreads::start(LoaderSetup {
            path,
            salvages,
            threads,
            writer,
            copies,
            last_map,
            had_copies,
            is_known,
            report,
        })
    }

    /// Wakes the workers that hold replies back.
    fn wake_held(&self) -> Box<dyn Fn() + Send> {
        let workers = self.workers.clone();
        Box::new(move || workers.iter().for_each(|worker| worker.wake_if_held()))
    }

    /// Has the copies of other nodes' logs kept.
    fn start_backups(&self, identity: &Identity, data_dir: &DataDir) -> io::Result<BackupsThread> {
        BackupsThread::start(BackupsSetup {
            path: data_dir.log_backups_path(),
            incarnation: identity.starts,
            parts: self.parts.clone(),
            clock: self.clock,
        })
    }

    /// Has what dead nodes had read from copies of their logs.
    fn start_takeovers(
        &self,
        data_dir: &DataDir,
        backups: &BackupsThread,
        calls: &mpsc::UnboundedSender<ControlCall>,
    ) -> io::Result<TakeoversThread> {
        let calls = calls.clone();
        TakeoversThread::start(TakeoversSetup {
            path: data_dir.log_backups_path(),
            fetched_path: data_dir.fetched_logs_path(),
            door: self.door.clone(),
            clock: self.clock,
            parts: self.parts.clone(),
            threads: self.workers.len(),
            backups: backups.inputs(),
            log: self.log.clone(),
            report: Box::new(move |Takeover { range, epoch, .. }, result| {
                let call = match result {
                    Ok(()) => ControlCall::TookOver(range, epoch),
                    Err(why) => ControlCall::TakeoverFails(range, epoch, why),
                };
                // The control may have ended.
                let _ = calls.send(call);
            }),
        })
    }

    /// The movers, with their ends of the queues.
    fn mover_setups(
        &self,
        ports: Vec<Vec<MoverPort>>,
        inboxes: Vec<mpsc::UnboundedReceiver<MoverInput>>,
        reports: &MoverReports,
    ) -> Vec<MoverSetup> {
        let large_frames = LargeFrames::new();
        let setup = |(index, (ports, inbox)): (usize, _)| MoverSetup {
            mover: Mover::new(&self.parts, MoverIndex(index as u16), self.movers.len() as u16, ports),
            parts: self.parts.clone(),
            link: Arc::clone(&self.movers[index]),
            inbox,
            reports: reports.clone(),
            door: self.door.clone(),
            large_frames: large_frames.clone(),
            workers: self.workers.clone(),
            clock: self.clock,
        };
        ports.into_iter().zip(inboxes).enumerate().map(setup).collect()
    }

    fn worker_setup(
        &self,
        index: usize,
        ports: Vec<WorkerPort>,
        listener: TcpListener,
        movers_here: Vec<MoverSetup>,
        limits: &ClientLimits,
        calls: &mpsc::UnboundedSender<ControlCall>,
    ) -> Result<WorkerSetup, StartError> {
        let seed = u64::from_ne_bytes(random_bytes()?);
        Ok(WorkerSetup {
            worker: Worker::new(&self.parts, WorkerIndex(index as u16), ports, seed),
            listener,
            link: Arc::clone(&self.workers[index]),
            table_taken: Arc::clone(&self.table_taken),
            movers: self.movers.clone(),
            movers_here,
            workers: self.workers.clone(),
            shared: Arc::clone(&self.parts.shared),
            limits: limits.clone(),
            log: self.log.clone(),
            control: calls.clone(),
            clock: self.clock,
        })
    }
}

/// What the settings ask for that takes descriptors.
fn config_threads(config: &Config) -> descriptors::Threads {
    let (workers, movers) = (config.worker_count(), config.node.movers);
    descriptors::Threads { workers, movers, copies: config.durability.mode.copies() }
}

/// Where the durable log is, if the settings ask for one.
fn durable_log(data_dir: &DataDir, store: &Store) -> Result<Option<PathBuf>, StartError> {
    let path = data_dir.log_path();
    match store.commits() {
        Some(_) => Ok(Some(path)),
        None if durable_log::has_files(&path) => Err(StartError::LogLeftOut(path)),
        None => Ok(None),
    }
}

/// Checks that the coordinator's record is in its place, and only there, and that there is a cluster to join.
fn check_record(config: &Config, data_dir: &DataDir, identity: &Identity) -> Result<(), StartError> {
    let (has_record, joins) = (data_dir.metadata_path().exists(), !config.node.join.is_empty());
    let dir = || config.data_dir().display().to_string();
    if !config.node.metadata.is_empty() {
        return if has_record { Err(StartError::RecordInFile(dir())) } else { Ok(()) };
    }
    if has_record && joins {
        return Err(StartError::CoordinatorJoins(dir()));
    }
    if !has_record && !joins && identity.found_at.is_empty() && identity.cluster.is_some() {
        return Err(StartError::RecordMissing(dir()));
    }
    // A member finds its cluster where it was, whatever it is told to join.
    if identity.found_at.is_empty() && join::is_of_this_node(&config.node.join, &config.network) {
        return Err(StartError::JoinsItself(config.node.join.clone()));
    }
    Ok(())
}

/// The listening sockets.
struct Sockets {
    clients: Vec<TcpListener>,
    client_address: SocketAddr,
    bus: TcpListener,
    bus_address: SocketAddr,
}

impl Sockets {
    fn listen(config: &Config) -> Result<Sockets, StartError> {
        let ip: IpAddr = config.network.bind.parse().expect("the settings were checked");
        let backlog = config.network.backlog;
        let clients = CLIENT_PORT.listen(ip, config.network.port, config.worker_count(), backlog)?;
        let mut bus = BUS_PORT.listen(ip, config.bus_port(), 1, backlog)?;
        let bus = bus.pop().expect("one was asked for");
        Ok(Sockets { client_address: clients[0].local_addr()?, bus_address: bus.local_addr()?, clients, bus })
    }

    /// What is announced of this node.
    fn node_info(&self, config: &Config, identity: &Identity) -> Result<NodeInfo, StartError> {
        let host = advertised_host(config, self.client_address.ip(), &identity.found_at)?;
        let address = |port: u16| {
            HostPort::new(&host, port)
                .map_err(|error| StartError::Advertise { host: host.clone(), why: error.to_string() })
        };
        Ok(NodeInfo {
            id: identity.node,
            incarnation: Incarnation(identity.starts),
            client_addr: address(self.client_address.port())?,
            bus_addr: address(self.bus_address.port())?,
        })
    }
}

/// The host at which others reach this node. `found_at`: where the cluster was found before.
fn advertised_host(config: &Config, bound: IpAddr, found_at: &[String]) -> Result<String, StartError> {
    if let Auto::Value(host) = &config.network.advertise {
        return Ok(host.clone());
    }
    if !bound.is_unspecified() {
        return Ok(bound.to_string());
    }
    // Listening everywhere: the cluster reaches the node at the address that reaches the cluster.
    let towards = |there: &String| -> io::Result<IpAddr> {
        let socket = UdpSocket::bind(SocketAddr::new(bound, 0))?;
        socket.connect(there)?;
        Ok(socket.local_addr()?.ip())
    };
    let cluster = [&config.node.join].into_iter().chain(found_at);
    let found = cluster.filter(|there| !there.is_empty()).find_map(|there| towards(there).ok());
    found.map(|address| address.to_string()).ok_or(StartError::NoAddress(bound))
}

fn node_parts(
    config: &Config,
    config_file: Option<&Path>,
    info: &NodeInfo,
    sockets: &Sockets,
    clock: Clock,
    store: Arc<Store>,
) -> Result<NodeParts, StartError> {
    let executable =
        std::env::current_exe().map_or_else(|_| "sidle".to_owned(), |path| path.display().to_string());
    let process = ProcessFacts {
        node: info.id,
        run_id: random_node_id()?,
        started_at: clock.wall(clock.mono()),
        process_id: std::process::id(),
        port: sockets.client_address.port(),
        system: process::system(),
        executable,
        config_file: config_file.map_or_else(String::new, |path| path.display().to_string()),
    };
    let settings = sidle_node::Config::default();
    settings.apply(redis_settings(config, sockets, store.memory().limit));
    settings.set_own_output_bytes(config.limits.output_buffer.0);
    if config.durability.mode.copies() > 0 {
        settings.fix_syncs();
    }
    let workers = config.worker_count();
    let shared = NodeShared::new(settings, workers, process);
    shared.access.set_seed(random_bytes()?);
    users_file::begin(&shared)?;
    if let Some(bytes) = process::machine_memory_bytes() {
        shared.gauges.system_memory_bytes.store(bytes, std::sync::atomic::Ordering::Relaxed);
    }
    process::refresh(&shared.gauges);
    let published = CurrentTable::new(workers as u16, Arc::new(RangeTable::before_joining(info.clone())));
    Ok(NodeParts { store, shared: Arc::new(shared), published: Arc::new(published) })
}

/// Until the node has joined again it shows the others by its earlier incarnation's map, and serves
/// nothing. Call it before there are workers.
fn show_last_map(parts: &NodeParts, info: &NodeInfo, last: &LastMap) {
    tracing::info!(
        "until it has joined again, this node shows tablet map {} of its earlier incarnation",
        last.map.epoch().0
    );
    let _no_worker_yet = parts.published.publish(Arc::new(RangeTable::remembered(info.clone(), &last.map)));
}

/// The settings under the names of CONFIG GET.
fn redis_settings(config: &Config, sockets: &Sockets, memory_bytes: u64) -> Vec<(&'static str, String)> {
    let dir = data_dir::full_path(&config.data_dir());
    vec![
        (
            "appendfsync",
            if config.durability.fsync == Fsync::Always { "always" } else { "everysec" }.to_owned(),
        ),
        ("appendonly", if config.durability.mode == DurabilityMode::None { "no" } else { "yes" }.to_owned()),
        ("bind", config.network.bind.clone()),
        ("client-query-buffer-limit", config.limits.query_buffer.0.to_string()),
        ("dir", dir.display().to_string()),
        ("enable-debug-command", if config.security.debug_commands { "yes" } else { "no" }.to_owned()),
        ("io-threads", config.worker_count().to_string()),
        ("maxmemory", memory_bytes.to_string()),
        ("min-replicas-to-write", config.durability.least_copies.to_string()),
        ("maxmemory-clients", config.client_memory_bytes(memory_bytes).to_string()),
        ("port", sockets.client_address.port().to_string()),
        ("proto-max-bulk-len", config.limits.value.0.to_string()),
        ("tcp-keepalive", KEEPALIVE.as_secs().to_string()),
        ("aclfile", config.security.users_file.display().to_string()),
        ("protected-mode", if config.security.protected_mode { "yes" } else { "no" }.to_owned()),
        ("requirepass", config.security.password.clone()),
        ("timeout", config.limits.idle_timeout.to_string()),
    ]
}

/// One line per fact.
fn log_facts(config: &Config, identity: &Identity, info: &NodeInfo, parts: &NodeParts) {
    let Identity { node, starts, .. } = identity;
    tracing::info!("sidle {}, process {}", env!("CARGO_PKG_VERSION"), std::process::id());
    tracing::info!("node {node}, incarnation {starts}, data directory {}", config.data_dir().display());
    tracing::info!("memory for data: {} MiB", parts.store.memory().limit >> 20);
    let workers = config.worker_count();
    tracing::info!("clients at {}, {}", info.client_addr, counted(workers, "worker"));
    if let Auto::Value(list) = &config.node.cpu_list {
        tracing::info!("threads run on processors {list} only");
    }
    let movers = config.node.movers;
    let place = if config.node.has_movers_on_workers() { " on the workers' threads" } else { "" };
    tracing::info!("nodes at {}, {}{place}", info.bus_addr, counted(movers, "mover"));
}

/// The running threads; stopped and waited for when dropped.
struct Threads {
    workers: Vec<Arc<WorkerLink>>,
    movers: Vec<Arc<MoverLink>>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Gives the movers threads, or assigns each to a worker, which does its work too.
    fn start_movers(
        &mut self,
        setups: Vec<MoverSetup>,
        on_workers: bool,
    ) -> Result<Vec<Vec<MoverSetup>>, StartError> {
        let mut beside_worker: Vec<Vec<MoverSetup>> = self.workers.iter().map(|_| Vec::new()).collect();
        for (index, setup) in setups.into_iter().enumerate() {
            match on_workers {
                true => beside_worker[index % self.workers.len()].push(setup),
                false => self.handles.push(setup.start()?),
            }
        }
        Ok(beside_worker)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.workers.iter().for_each(|worker| worker.stop());
        self.movers.iter().for_each(|mover| mover.stop());
        for handle in self.handles.drain(..) {
            // A panic would have ended the process.
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_listens_everywhere_is_told_of_at_an_address_that_reaches_it() {
        let everywhere = IpAddr::from([0, 0, 0, 0]);
        let mut config = Config::default();
        let refused = advertised_host(&config, everywhere, &[]).unwrap_err().to_string();
        assert!(refused.contains("--advertise"), "{refused}");
        let found_at = ["127.0.0.1:16379".to_owned()];
        assert_eq!(advertised_host(&config, everywhere, &found_at).unwrap(), "127.0.0.1");
        config.node.join = "127.0.0.1:6379".to_owned();
        assert_eq!(advertised_host(&config, everywhere, &[]).unwrap(), "127.0.0.1");
        config.network.advertise = Auto::Value("cache-1".to_owned());
        assert_eq!(advertised_host(&config, everywhere, &[]).unwrap(), "cache-1");
        let config = Config::default();
        assert_eq!(advertised_host(&config, IpAddr::from([10, 0, 0, 1]), &[]).unwrap(), "10.0.0.1");
    }
}
