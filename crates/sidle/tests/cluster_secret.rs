//! The cluster secret: who makes it, who finds it, where it is kept, and the messages when it is wrong.

#![allow(clippy::disallowed_methods)] // tests write files
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use sidle_resp::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use support::{Node, NodeOptions, TestCluster, eventually, sidle};

const SECRET: &str = "cluster.secret";

fn run(arguments: &[&str]) -> Output {
    sidle().args(arguments).output().expect("the program runs")
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A new secret in a folder of its own.
fn new_secret() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let output = run(&["server", "--create-cluster-secret", path.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains(digits(&path).as_str()), "it is not printed");
    (folder, path)
}

fn digits(path: &Path) -> String {
    text(path).trim_end().rsplit(' ').next().unwrap().to_owned()
}

/// The output of a node that is started and refused, or not started at all.
fn refused(status: i32, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("data");
    let output = run(&[&["server", "--port", "0", "--dir", dir.to_str().unwrap()], arguments].concat());
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    error(&output)
}

#[test]
fn on_one_machine_two_commands_make_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    // As in first tries: without a data directory, so that its name is relative to the working directory.
    let start = |arguments: &[&str]| {
        let mut command = sidle();
        command.current_dir(folder.path()).args(["server", "--bus-port", "0", "--max-memory", "64mb"]);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let mut first = start(&["--port", &port.to_string()]);
    let mut second = start(&["--port", "0", "--join", &address]);
    let members = || {
        let output = run(&["status", "--json", "--via", &address]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        report["nodes"].as_array().map(Vec::len)
    };
    let secrets =
        [format!("sidle-{port}"), "sidle-0".to_owned()].map(|dir| folder.path().join(dir).join(SECRET));
    let both = || (members()? == 2 && secrets[1].exists()).then_some(());
    let joined =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| eventually("both are members", both)));
    for node in [&mut first, &mut second] {
        node.kill().unwrap();
        node.wait().unwrap();
    }
    joined.unwrap();
    assert_eq!(text(&secrets[0]), text(&secrets[1]));
    assert!(secrets.iter().all(|path| mode(path) == 0o600));
    assert_eq!(mode(secrets[0].parent().unwrap()), 0o700);
}

#[test]
fn nothing_tells_the_secret() {
    let cluster = TestCluster::start_with(2, &NodeOptions::default().flag("--log-level", "trace"));
    let digits = digits(&cluster.nodes[0].file(SECRET));
    assert_eq!(digits.len(), 64);
    for (index, node) in cluster.nodes.iter().enumerate() {
        let mut client = cluster.client(index);
        let settings = client.request(&["CONFIG", "GET", "*"]);
        let info = client.request(&["INFO", "everything"]);
        let map = client.request(&["SIDLE.MAP"]);
        let told = format!("{settings:?} {info:?} {map:?} {:?} {}", node.status(), node.log());
        assert!(!told.contains(&digits), "{told}");
        let command_line = std::fs::read(format!("/proc/{}/cmdline", node.process_id())).unwrap();
        assert!(!String::from_utf8_lossy(&command_line).contains(&digits));
    }
}

#[test]
fn a_member_needs_no_flag_after_a_restart() {
    let (_folder, path) = new_secret();
    let options = NodeOptions::default().flag("--cluster-secret-file", path.to_str().unwrap());
    let mut cluster = TestCluster::start_with(1, &options);
    cluster.join(&options);
    for node in &cluster.nodes {
        assert_eq!(text(&node.file(SECRET)), text(&path));
        assert_eq!(mode(&node.file(SECRET)), 0o600);
    }
    std::fs::remove_file(&path).unwrap();
    for index in [1, 0] {
        cluster.nodes[index].kill();
        cluster.nodes[index].restart_without("--cluster-secret-file");
        cluster.wait_until_known(2);
    }
    cluster.nodes[1].kill();
    cluster.nodes[1].restart_without_join();
    cluster.wait_until_known(2);
}

#[test]
fn the_environment_gives_it_too() {
    let (_folder, path) = new_secret();
    let options = NodeOptions::default().environment("SIDLE_CLUSTER_SECRET", text(&path).trim_end());
    let mut cluster = TestCluster::start_with(1, &options);
    cluster.join(&options);
    assert_eq!(text(&cluster.nodes[1].file(SECRET)), text(&path));
    let output = sidle()
        .args(["server", "--port", "0"])
        .env("SIDLE_CLUSTER_SECRET", "sidle-cluster-secret-v1 1234")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = error(&output);
    assert!(message.contains("SIDLE_CLUSTER_SECRET") && message.contains("too short"), "{message}");
    assert!(!message.contains("1234"), "{message}");
}

#[test]
fn a_node_with_another_secret_stays_outside_and_both_ends_say_what_to_do() {
    let (_folder, other) = new_secret();
    let founder = Node::start(&NodeOptions::default());
    let joiner = NodeOptions::default()
        .flag("--join", &founder.address())
        .flag("--cluster-secret-file", other.to_str().unwrap());
    let mut joiner = Node::start_unready(&joiner);
    let told = |node: &Node| {
        let log = node.log();
        let line = log.lines().find(|line| line.contains("has another cluster secret"))?;
        (line.contains("--cluster-secret-file") && line.contains(SECRET)).then_some(())
    };
    eventually("the founder says what to do", || told(&founder));
    eventually("the joiner says what to do", || told(&joiner));
    let report = founder.status().unwrap();
    assert_eq!(report["nodes"].as_array().map(Vec::len), Some(1));
    assert!(!joiner.file(SECRET).exists(), "a secret is kept once it is the right one");
    joiner.kill();
    joiner.restart_without("--cluster-secret-file");
    eventually("with the founder's secret it joins", || {
        let report = founder.status()?;
        (report["nodes"].as_array()?.len() == 2).then_some(())
    });
    eventually("and keeps it", || joiner.file(SECRET).exists().then_some(()));
    assert_eq!(text(&joiner.file(SECRET)), text(&founder.file(SECRET)));
}

#[test]
fn a_secret_that_contradicts_the_data_directory_is_refused() {
    let (_folder, other) = new_secret();
    let mut founder = Node::start(&NodeOptions::default());
    founder.kill();
    let dir = founder.file("");
    let output = run(&[
        "server",
        "--port",
        "0",
        "--dir",
        dir.to_str().unwrap(),
        "--cluster-secret-file",
        other.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(1));
    let message = error(&output);
    assert!(message.contains("another cluster secret") && message.contains("--dir"), "{message}");
    founder.restart();
}

#[test]
fn files_that_cannot_be_trusted_are_refused() {
    let (_folder, path) = new_secret();
    let name = path.to_str().unwrap();
    let right = text(&path);
    for (mode, word) in [(0o640, "chmod 600"), (0o604, "chmod 600"), (0o666, "chmod 600")] {
        chmod(&path, mode);
        assert!(refused(1, &["--cluster-secret-file", name]).contains(word));
    }
    chmod(&path, 0o600);
    for (wrong, word) in [
        ("".to_owned(), "no cluster secret"),
        (right.replace("v1", "v9"), "another version"),
        (right[..80].to_owned(), "too short"),
        (format!("{right}{right}"), "too long"),
        (right.replace(' ', " x"), "64 hexadecimal digits"),
    ] {
        std::fs::write(&path, &wrong).unwrap();
        let message = refused(1, &["--cluster-secret-file", name]);
        assert!(message.contains(word) && message.contains("--create-cluster-secret"), "{message}");
        assert!(!message.contains(&right[30..60]), "{message}");
    }
    assert!(refused(1, &["--cluster-secret-file", "/nowhere/secret"]).contains("/nowhere/secret"));
    // The data directory's secret is held to the same rules.
    let mut node = Node::start(&NodeOptions::default());
    node.kill();
    chmod(&node.file(SECRET), 0o644);
    let output = run(&["server", "--port", "0", "--dir", node.file("").to_str().unwrap()]);
    assert!(error(&output).contains("chmod 600"), "{output:?}");
}

#[test]
fn a_neighbours_secret_that_others_could_read_is_not_taken() {
    let founder = Node::start(&NodeOptions::default());
    chmod(&founder.file(SECRET), 0o644);
    let joiner = Node::start_unready(&NodeOptions::default().flag("--join", &founder.address()));
    eventually("the joiner says what to do", || {
        let log = joiner.log();
        (log.contains("chmod 600") && log.contains("--cluster-secret-file")).then_some(())
    });
    assert!(!joiner.file(SECRET).exists());
    chmod(&founder.file(SECRET), 0o600);
    eventually("then it joins", || {
        let report = founder.status()?;
        (report["nodes"].as_array()?.len() == 2).then_some(())
    });
}

#[test]
fn where_other_machines_reach_it_a_node_wants_password_and_secret() {
    let (_folder, path) = new_secret();
    let secret = ["--cluster-secret-file", path.to_str().unwrap()];
    let password = ["--password", "a client's password"];
    for (bind, given, words) in [
        ("0.0.0.0", vec![], vec!["password", "--create-cluster-secret", "--cluster-secret-file"]),
        ("::", password.to_vec(), vec!["--create-cluster-secret", "--cluster-secret-file"]),
        ("0.0.0.0", secret.to_vec(), vec!["[security] password"]),
    ] {
        let message = refused(2, &[&["--bind", bind], given.as_slice()].concat());
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
        assert!(message.contains("--bind 127.0.0.1"), "{message}");
    }
}

#[test]
fn a_distant_cluster_is_joined_with_its_secret_only() {
    let message = refused(1, &["--join", "192.0.2.1:6379"]);
    for word in ["needs the secret of its cluster", SECRET, "--cluster-secret-file", "SIDLE_CLUSTER_SECRET"] {
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn a_new_secret_overwrites_nothing() {
    let (_folder, path) = new_secret();
    let before = text(&path);
    assert_eq!(mode(&path), 0o600);
    assert!(before.starts_with("sidle-cluster-secret-v1 "), "{before}");
    let output = run(&["server", "--create-cluster-secret", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error(&output).contains("exists"), "{output:?}");
    assert_eq!(text(&path), before);
}

#[test]
fn the_folder_that_config_names_is_where_the_secret_is() {
    let node = Node::start(&NodeOptions::default());
    let Value::Array(pair) = node.client().request(&["CONFIG", "GET", "dir"]) else { panic!("no pair") };
    let dir = PathBuf::from(String::from_utf8_lossy(pair[1].as_bytes().unwrap()).into_owned());
    assert_eq!(dir, node.file("").canonicalize().unwrap());
}

#[test]
fn who_joins_a_node_with_a_password_is_told_what_it_wants() {
    let founder = Node::start(&NodeOptions::default().flag("--password", "of clients"));
    let options = NodeOptions::default().flag("--join", &founder.address());
    let stranger = Node::start_unready(&options);
    eventually("the joiner says what to do", || stranger.log().contains("[security] password").then_some(()));
}

#[test]
fn a_node_that_others_reach_at_no_known_address_is_refused() {
    let (_folder, path) = new_secret();
    let secret = path.to_str().unwrap();
    let message = refused(2, &["--bind", "0.0.0.0", "--password", "p", "--cluster-secret-file", secret]);
    assert!(message.contains("--advertise") && message.contains("--bind"), "{message}");
}
