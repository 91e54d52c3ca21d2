//! The program itself: settings, start, stop, messages and exit statuses.

#![allow(clippy::disallowed_methods)] // tests write files

mod support;

use sidle_resp::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Output, Stdio};
use std::time::Duration;
use support::{Node, NodeOptions, allowed_cpus, last_cpu, sidle};

fn run(arguments: &[&str]) -> Output {
    sidle().args(arguments).output().expect("the program runs")
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn print_config_prints_the_example_file() {
    let output = run(&["server", "--print-config"]);
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), include_str!("../../../sidle.toml.example"));
}

#[test]
fn ends_without_a_word_when_nobody_reads_on() {
    let (reader, writer) = std::io::pipe().expect("the system has pipes");
    drop(reader);
    let output =
        sidle().args(["server", "--print-config"]).stdout(writer).output().expect("the program runs");
    assert_eq!((output.status.code(), error(&output)), (Some(141), String::new()));
}

#[test]
fn the_laboratory_is_named_with_the_command_line_that_it_takes() {
    for (line, there) in [
        ("lab run --out mine --protocols fulva", "sidle-lab run --out mine --protocols fulva\n"),
        ("lab", "sidle-lab --help\n"),
        ("lab --help", "sidle-lab --help\n"),
        ("bench peers --rounds 3", "sidle-lab peers --rounds 3\n"),
    ] {
        let output = run(&line.split(' ').collect::<Vec<_>>());
        let error = error(&output);
        assert_eq!(output.status.code(), Some(2), "{line}: {error}");
        assert!(error.contains(there), "{line}: {error}");
        assert!(error.contains("cargo run --release --package sidle-lab -- "), "{line}: {error}");
    }
    let help = run(&["--help"]);
    assert!(!String::from_utf8_lossy(&help.stdout).contains("lab"), "it is no command of this program");
}

#[test]
fn unknown_setting_is_named_with_its_line_and_the_nearest_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sidle.toml");
    std::fs::write(&path, "[network]\n\nprot = 7000\n").unwrap();
    let output = run(&["server", "--config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let message = error(&output);
    assert!(message.contains("line 3") && message.contains("'network.prot'"), "{message}");
    assert!(message.contains("did you mean 'network.port'?"), "{message}");
}

#[test]
fn settings_that_cannot_work_are_refused() {
    for (flags, word) in [
        (&["--workers", "0"][..], "workers"),
        (&["--movers", "0"], "movers"),
        (&["--cpu-list", "1023"], "processors 1023: this process may use"),
        (&["--bind", "nowhere"], "bind"),
        (&["--port", "60000"], "bus_port"),
        (&["--config", "/nowhere/sidle.toml"], "/nowhere/sidle.toml"),
    ] {
        let output = run(&[&["server"], flags].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(error(&output).contains(word), "{flags:?}: {}", error(&output));
    }
    for flags in [
        &["--port", "70000"][..],
        &["--max-memory", "4xb"],
        &["--cpu-list", "3-1"],
        &["--join", "nowhere"],
        &["--unheard-of"],
    ] {
        assert_eq!(run(&[&["server"], flags].concat()).status.code(), Some(2), "{flags:?}");
    }
}

#[test]
fn a_refused_start_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().port().to_string();
    for (flags, status, word) in [
        (&["--max-memory", "1kb"][..], 2, "set --max-memory (`[memory] max_memory`) to at least"),
        (&["--max-memory", "2tb", "--preallocate"], 2, "set --max-memory (`[memory] max_memory`) to at most"),
        (&["--bind", "0.0.0.0"], 2, "other machines can reach this node"),
        (&["--cluster-secret-file", "missing"], 1, "missing"),
        (&["--bus-port", &taken], 1, &taken),
        (&["--port", "6379", "--join", "localhost:6379"], 2, "is this node's own address"),
    ] {
        let port: &[&str] = if flags.contains(&"--port") { &[] } else { &["--port", "0"] };
        let line = [&["server", "--dir", "some/node"], port, flags].concat();
        let output = sidle().args(line).current_dir(folder.path()).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(status), "{flags:?}: {}", error(&output));
        assert!(error(&output).contains(word), "{flags:?}: {}", error(&output));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{flags:?}");
    }
}

/// A node that stops with its standard input, and so with this process, and whose log the test reads.
struct Watched {
    node: Child,
    log: BufReader<ChildStderr>,
    address: String,
}

impl Watched {
    /// Started in this folder, and ready.
    fn start(folder: &Path, flags: &[&str]) -> Watched {
        let mut node = sidle()
            .args(["server", "--port", "0", "--bus-port", "0", "--max-memory", "64mb", "--stop-with-stdin"])
            .args(flags)
            .arg("--dir")
            .arg(folder)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut log = BufReader::new(node.stderr.take().expect("it is piped"));
        let (mut line, mut address) = (String::new(), String::new());
        while !line.contains("the node is ready") {
            line.clear();
            assert_ne!(
                log.read_line(&mut line).expect("it is text"),
                0,
                "the node ends while its input is open"
            );
            if let Some((_, rest)) = line.split_once("clients at ") {
                address = rest.split(',').next().unwrap_or(rest).to_owned();
            }
        }
        Watched { node, log, address }
    }

    /// Stops it; the rest of its log.
    fn stop(mut self) -> String {
        drop(self.node.stdin.take());
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).expect("it is text");
        assert!(self.node.wait().is_ok_and(|status| status.success()), "{rest}");
        rest
    }
}

#[test]
fn stops_with_its_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let rest = Watched::start(folder.path(), &[]).stop();
    assert!(rest.contains("stopped"), "{rest}");
}

/// What reads the log may stand still: a pager, a terminal that is held, a disk.
#[test]
fn a_node_serves_though_nobody_reads_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let node = Watched::start(folder.path(), &["--log-level", "debug"]);
    // Each leaves a line: together several times what a pipe holds.
    for number in 0..3_000 {
        let mut stranger = TcpStream::connect(&node.address).unwrap();
        stranger.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stranger.write_all(b"*x\r\n").unwrap();
        let answer = stranger.read_to_end(&mut Vec::new());
        assert!(answer.is_ok(), "the node stands still at the line {number} of its log: {answer:?}");
    }
    let rest = node.stop();
    assert!(rest.contains("it broke the protocol"), "{rest}");
}

#[test]
fn file_sets_what_flags_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sidle.toml");
    std::fs::write(&path, "[security]\npassword = \"of the file\"\n[limits]\nmax_clients = 7\n").unwrap();
    let options = NodeOptions::default().flag("--config", path.to_str().unwrap()).flag("--max-clients", "8");
    let node = Node::start(&options);
    let mut client = node.client();
    assert_eq!(client.request(&["AUTH", "of the file"]), Value::Simple("OK".into()));
}

#[test]
fn a_node_runs_on_the_processors_that_it_is_given() {
    let last = last_cpu();
    let options = NodeOptions::default().flag("--cpu-list", &last).flag("--workers", "auto");
    let node = Node::start(&options);
    let mut threads = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{}/task", node.process_id())).unwrap() {
        let task = task.unwrap().path();
        let name = std::fs::read_to_string(task.join("comm")).unwrap().trim().to_owned();
        assert_eq!(allowed_cpus(task.join("status")), last, "{name}");
        threads.push(name);
    }
    threads.sort();
    let serves = |name: &&String| name.starts_with("mover-") || name.starts_with("worker-");
    let served: Vec<_> = threads.iter().filter(serves).collect();
    assert_eq!(served, ["mover-0", "worker-0"], "as many workers as processors, of {threads:?}");
}

#[test]
fn stop_is_clean_and_the_port_is_free_again() {
    let mut node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    assert_eq!(client.request(&["PING"]), Value::Simple("PONG".into()));
    assert_eq!(node.stop().code(), Some(0));
    assert_eq!(client.try_request(&["PING"]), None);
    assert!(node.log().contains("stopped"), "{}", node.log());
    node.restart();
    assert_eq!(node.client().request(&["PING"]), Value::Simple("PONG".into()));
}

#[test]
fn shutdown_command_stops_the_node() {
    let mut node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    client.send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(client.try_reply(), None);
    assert_eq!(node.wait().code(), Some(0));
}

#[test]
fn port_in_use_says_so() {
    let node = Node::start(&NodeOptions::default());
    let address = node.address();
    let port = address.rsplit_once(':').unwrap().1;
    let folder = tempfile::tempdir().unwrap();
    let output =
        run(&["server", "--port", port, "--dir", folder.path().to_str().unwrap(), "--bus-port", "0"]);
    assert_eq!(output.status.code(), Some(1));
    let told = error(&output);
    assert!(told.contains("is in use") && !told.contains("new cluster secret"), "{told}");
}

#[test]
fn data_directory_belongs_to_one_node() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let _node = Node::start(&NodeOptions::default().flag("--dir", path));
    let output = run(&["server", "--port", "0", "--dir", path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error(&output).contains("in use by another running node"), "{}", error(&output));
}

#[test]
fn identity_survives_a_restart() {
    let mut node = Node::start(&NodeOptions::default());
    let before = node.client().request(&["CLUSTER", "MYID"]);
    node.kill();
    node.restart();
    assert_eq!(node.client().request(&["CLUSTER", "MYID"]), before);
    assert!(node.log().contains("incarnation 2"), "{}", node.log());
}

#[test]
fn unreachable_node_ends_with_its_own_status() {
    let mut node = Node::start(&NodeOptions::default());
    node.kill();
    for arguments in [&["status"][..], &["migrate", "--to", "127.0.0.1:1", "--slots", "0-5"]] {
        let output = node.run(arguments);
        assert_eq!(output.status.code(), Some(4), "{arguments:?}");
        assert!(error(&output).contains("--via"), "{}", error(&output));
    }
}
