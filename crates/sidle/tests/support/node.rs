//! One node as a process.

use super::{Client, PATIENCE, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tempfile::TempDir;

/// The program, with its environment clean.
pub fn sidle() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidle"));
    for variable in ["SIDLE_LOG", "SIDLE_PASSWORD", "SIDLE_CLUSTER_SECRET"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}

/// How to start a node.
#[derive(Clone, Debug, Default)]
pub struct NodeOptions {
    flags: Vec<String>,
    switches: Vec<String>,
    environment: Vec<(String, String)>,
}

impl NodeOptions {
    /// Adds a flag with its value; a later one replaces an earlier one.
    pub fn flag(mut self, name: &str, value: &str) -> NodeOptions {
        if let Some(at) = self.flags.iter().position(|flag| flag == name) {
            self.flags[at + 1] = value.to_owned();
        } else {
            self.flags.extend([name.to_owned(), value.to_owned()]);
        }
        self
    }

    /// Adds a flag without a value.
    pub fn switch(mut self, name: &str) -> NodeOptions {
        self.switches.push(name.to_owned());
        self
    }

    /// Sets a variable of the environment.
    pub fn environment(mut self, name: &str, value: &str) -> NodeOptions {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The value of a flag.
    fn value(&self, name: &str) -> Option<&str> {
        let at = self.flags.iter().position(|flag| flag == name)?;
        self.flags.get(at + 1).map(String::as_str)
    }
}

/// A running node. Dropping it kills the process, by its id.
pub struct Node {
    child: Child,
    options: NodeOptions,
    client_address: String,
    bus_address: String,
    log: Arc<Mutex<String>>,
    reader: Option<std::thread::JoinHandle<()>>,
    dir: Option<TempDir>,
}

impl Node {
    /// Starts a node on free ports with a data directory of its own, and waits until it takes clients. It has
    /// a durable log only where the options ask for one.
    pub fn start(options: &NodeOptions) -> Node {
        let node = Node::start_unready(options);
        node.wait_until_ready()
    }

    /// The same without waiting until it is a member of its cluster.
    pub fn start_unready(options: &NodeOptions) -> Node {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = dir.path().to_str().expect("temporary folders have plain names").to_owned();
        let mut all = NodeOptions::default()
            .flag("--port", "0")
            .flag("--bus-port", "0")
            .flag("--dir", &folder)
            .flag("--workers", "2")
            .flag("--max-memory", "256mb")
            .flag("--durability", "none");
        all.environment.clone_from(&options.environment);
        all.switches.clone_from(&options.switches);
        for pair in options.flags.chunks(2) {
            all = all.flag(&pair[0], &pair[1]);
        }
        Node::spawn(all, Some(dir))
    }

    fn spawn(options: NodeOptions, dir: Option<TempDir>) -> Node {
        let child = sidle()
            .arg("server")
            .args(&options.flags)
            .args(&options.switches)
            .envs(options.environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        Node::watch(child, options, dir).unwrap_or_else(|log| panic!("the node ended:\n{log}"))
    }

    /// Takes over a process started elsewhere, with its standard error piped, and waits until it
    /// takes clients; returns its log if it ends instead.
    pub fn adopt(child: Child, dir: TempDir) -> Result<Node, String> {
        Node::watch(child, NodeOptions::default(), Some(dir))?.until_logged("the node is ready")
    }

    /// Starts a node under limits that a shell sets first (`ulimit`), with these flags; returns its log
    /// if it ends instead.
    pub fn start_under(limits: &str, flags: &[&str]) -> Result<Node, String> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = dir.path().to_str().expect("temporary folders have plain names").to_owned();
        let program = sidle();
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")])
            .arg(program.get_program())
            .args(["server", "--port", "0", "--bus-port", "0", "--workers", "2", "--max-memory", "64mb"])
            .args(["--dir", &folder])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        for variable in ["SIDLE_LOG", "SIDLE_PASSWORD", "SIDLE_CLUSTER_SECRET"] {
            command.env_remove(variable);
        }
        let options = NodeOptions::default().flag("--dir", &folder);
        let child = command.spawn().expect("a shell starts");
        Node::watch(child, options, Some(dir))?.until_logged("the node is ready")
    }

    fn watch(mut child: Child, options: NodeOptions, dir: Option<TempDir>) -> Result<Node, String> {
        let log = Arc::new(Mutex::new(String::new()));
        let lines = BufReader::new(child.stderr.take().expect("standard error is piped")).lines();
        let copy = Arc::clone(&log);
        let reader = Some(std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut log = copy.lock().expect("nobody panics with the log");
                log.push_str(&line);
                log.push('\n');
            }
        }));
        let (client_address, bus_address) = (String::new(), String::new());
        let node = Node { child, options, client_address, bus_address, log, reader, dir };
        let mut node = node.until_logged("nodes at ")?;
        let log = node.log();
        let address = |label: &str| {
            let line = log.lines().find(|line| line.contains(label)).expect("the log names the addresses");
            let (_, address) = line.split_once(label).expect("just found");
            address.split_whitespace().next().expect("an address").trim_end_matches(',').to_owned()
        };
        node.client_address = address("clients at ");
        node.bus_address = address("nodes at ");
        Ok(node)
    }

    /// Waits until the node is a member of its cluster and takes clients.
    pub fn wait_until_ready(self) -> Node {
        self.until_logged("the node is ready").unwrap_or_else(|log| panic!("the node ended:\n{log}"))
    }

    /// Waits for a line of its log; returns the whole log if it ends instead.
    fn until_logged(mut self, what: &str) -> Result<Node, String> {
        let deadline = Instant::now() + PATIENCE;
        while !self.log().contains(what) {
            if let Some(status) = self.child.try_wait().expect("a child can be asked") {
                let reader = self.reader.take().expect("it is waited for once");
                reader.join().expect("the log is read to its end");
                return Err(format!("{}{status}", self.log()));
            }
            assert!(Instant::now() < deadline, "the node has not logged '{what}':\n{}", self.log());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Ok(self)
    }

    /// The data directory.
    pub fn folder(&self) -> std::path::PathBuf {
        let at = self.options.flags.iter().position(|flag| flag == "--dir").expect("every node has one");
        self.options.flags[at + 1].clone().into()
    }

    /// Its client address.
    pub fn address(&self) -> String {
        self.client_address.clone()
    }

    /// Its bus address.
    pub fn bus_address(&self) -> String {
        self.bus_address.clone()
    }

    /// The process's number.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// A file in its data directory.
    pub fn file(&self, name: &str) -> PathBuf {
        let dir = self.options.value("--dir").expect("every node of a test is given one");
        PathBuf::from(dir).join(name)
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("nobody panics with the log").clone()
    }

    /// A new client.
    pub fn client(&self) -> Client {
        Client::connect(&self.client_address)
    }

    /// This node's status; `None` while it cannot answer.
    pub fn status(&self) -> Option<Json> {
        let reply = self.client().try_request(&["SIDLE.STATUS"])?;
        serde_json::from_slice(reply.as_bytes()?).ok()
    }

    /// Runs another of the program's commands against this node.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program runs")
    }

    /// Unless told otherwise it waits longer than a busy machine takes.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = sidle();
        command.args(arguments).args(["--via", &self.client_address]);
        if !arguments.contains(&"--timeout") {
            command.args(["--timeout", "60"]);
        }
        command
    }

    /// Starts another of the program's commands against this node, without waiting for it.
    pub fn spawn_command(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program runs")
    }

    /// This node's status of a migration; `None` while it knows of none.
    pub fn migration(&self, id: u64) -> Option<Json> {
        let report = self.status()?;
        report["migrations"].as_array()?.iter().find(|migration| migration["id"] == id).cloned()
    }

    /// Pauses the process, like an overloaded machine.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a paused process go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process was running");
    }

    /// Kills the process immediately, like a power failure.
    pub fn kill(&mut self) {
        self.child.kill().expect("the process was running");
        self.child.wait().expect("a killed process ends");
    }

    /// Asks the process to end, and waits for it.
    pub fn stop(&mut self) -> ExitStatus {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM)
            .expect("the process was running");
        self.wait()
    }

    /// Whether the process has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked").is_none()
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self) -> ExitStatus {
        eventually("the process ends", || self.child.try_wait().expect("a child can be asked"))
    }

    /// Starts a stopped or killed process again: same folder, same ports.
    pub fn restart(&mut self) {
        let options = self.on_the_same_ports();
        self.restart_with(options);
    }

    /// The same without waiting until it is a member of its cluster.
    pub fn restart_unready(&mut self) {
        let (options, dir) = (self.on_the_same_ports(), self.dir.take());
        *self = Node::spawn(options, dir);
    }

    fn on_the_same_ports(&self) -> NodeOptions {
        let port = |address: &str| address.rsplit_once(':').expect("host:port").1.to_owned();
        let options = self.options.clone().flag("--port", &port(&self.client_address));
        options.flag("--bus-port", &port(&self.bus_address))
    }

    /// Starts it again on other ports.
    pub fn restart_elsewhere(&mut self) {
        self.restart_with(self.options.clone().flag("--port", "0").flag("--bus-port", "0"));
    }

    /// Starts it again on other ports, to join the cluster of this node.
    pub fn restart_elsewhere_joining(&mut self, node: &str) {
        self.options = self.options.clone().flag("--join", node);
        self.restart_elsewhere();
    }

    fn restart_with(&mut self, options: NodeOptions) {
        let dir = self.dir.take();
        *self = Node::spawn(options, dir).wait_until_ready();
    }

    /// Starts it again without `--join`: it has to find its cluster from its folder.
    pub fn restart_without_join(&mut self) {
        self.restart_without("--join");
    }

    /// Starts it again with more flags, each with its value.
    pub fn restart_with_flags(&mut self, flags: &[&str]) {
        for pair in flags.chunks(2) {
            self.options = self.options.clone().flag(pair[0], pair[1]);
        }
        self.restart();
    }

    /// Starts it again with one more switch.
    pub fn restart_with_switch(&mut self, name: &str) {
        self.restart_with(self.on_the_same_ports().switch(name));
    }

    /// Starts it again without a flag.
    pub fn restart_without(&mut self, name: &str) {
        if let Some(at) = self.options.flags.iter().position(|flag| flag == name) {
            self.options.flags.drain(at..at + 2);
        }
        self.restart();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- log of the node at {} ---\n{}", self.client_address, self.log());
        }
    }
}
