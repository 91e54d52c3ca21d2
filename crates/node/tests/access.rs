//! Users on one node: what their connections may do, and when new rules count. Replies as such are compared
//! with Redis's in `sidle/tests/redis_differential`.

use sidle_node::testing::{SoloNode, TestClient};
use sidle_node::{Closing, Ending};
use sidle_resp::Value;

struct Scene {
    node: SoloNode,
    admin: TestClient,
}

impl Scene {
    fn new(rules: &str) -> (Scene, TestClient) {
        let node = SoloNode::new();
        let admin = node.connect();
        let mut scene = Scene { node, admin };
        scene.set(rules);
        let client = scene.client();
        (scene, client)
    }

    fn set(&mut self, rules: &str) {
        assert_eq!(self.node.ask(&mut self.admin, &format!("ACL SETUSER u on >p {rules}")), ok());
    }

    /// A connection of the user.
    fn client(&mut self) -> TestClient {
        let mut client = self.node.connect();
        assert_eq!(self.node.ask(&mut client, "AUTH u p"), ok());
        client
    }

    fn ask(&mut self, client: &mut TestClient, request: &str) -> Value {
        self.node.ask(client, request)
    }
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn is_refused(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with("NOPERM "))
}

fn once(command: &str) -> String {
    format!("SIDLE.ONCE {{k}}done 1 1 1700000000000 {command}")
}

#[test]
fn a_command_within_a_command_needs_its_own_rights() {
    for (rules, command, refused) in [
        ("+sidle.once ~*", "SET {k}a 1", true),
        ("+set ~*", "SET {k}a 1", true),
        ("+sidle.once +set ~{k}done", "SET {k}a 1", true),
        ("+sidle.once +set ~{k}a", "SET {k}a 1", true),
        ("+sidle.once +set ~{k}done %R~{k}a", "SET {k}a 1", true),
        ("+sidle.once +set ~{k}done %W~{k}a", "SET {k}a 1", false),
        ("+sidle.once +set +incr ~{k}*", "INCR {k}b", false),
        ("+sidle.once +@all -config|set ~{k}*", "CONFIG SET timeout 1", true),
    ] {
        let (mut scene, mut client) = Scene::new(rules);
        let reply = scene.ask(&mut client, &once(command));
        assert_eq!(is_refused(&reply), refused, "{rules}: {command}: {reply:?}");
    }
}

#[test]
fn a_read_at_the_source_of_a_migration_needs_the_right_to_its_key() {
    let (mut scene, mut client) = Scene::new("+@all %R~a %W~b");
    for (key, refused) in [("a", false), ("b", true), ("c", true)] {
        let reply = scene.ask(&mut client, &format!("SIDLE.FROZEN 7 GET {key}"));
        assert_eq!(is_refused(&reply), refused, "{key}: {reply:?}");
    }
}

#[test]
fn new_rules_count_for_the_next_request() {
    let (mut scene, mut client) = Scene::new("+@all ~*");
    assert_eq!(scene.ask(&mut client, "SET a 1"), ok());
    scene.set("-set");
    assert!(is_refused(&scene.ask(&mut client, "SET a 2")));
    scene.set("+set");
    assert_eq!(scene.ask(&mut client, "SET a 2"), ok());
    // Its own, at once: the requests are one batch.
    client.send(&[b"ACL", b"SETUSER", b"u", b"-get"]);
    client.send(&[b"GET", b"a"]);
    client.serve(&mut scene.node.worker, scene.node.now);
    assert_eq!(client.receive(), Some(ok()));
    assert!(client.receive().is_some_and(|reply| is_refused(&reply)));
}

#[test]
fn the_connections_of_a_user_that_is_gone_end() {
    let (mut scene, mut client) = Scene::new("+@all ~*");
    let mut admin = scene.node.connect();
    assert_eq!(scene.ask(&mut admin, "ACL DELUSER u"), Value::Integer(1));
    assert_eq!(client.session().client.ending(), Some(Ending::Killed));
    assert_eq!(scene.ask(&mut client, "GET a"), Value::Error("NOAUTH Authentication required.".into()));
    // One of the same name is another user.
    let (mut scene, mut client) = Scene::new("+@all ~*");
    let mut other = scene.client();
    let access = &scene.node.parts.shared.access;
    access.load("f", b"", &scene.node.parts.shared.clients, client.session().client.id).expect("no users");
    scene.set("+@all ~*");
    assert_eq!(other.session().client.ending(), Some(Ending::Killed));
    assert_eq!(client.session().client.ending(), None, "it asked for it, and has yet to be told");
    assert_eq!(scene.ask(&mut client, "GET a"), Value::Error("NOAUTH Authentication required.".into()));
    assert_eq!(client.session().client.ending(), Some(Ending::Killed));
    // Who removes itself is told first.
    let mut itself = scene.client();
    itself.send(&[b"ACL", b"DELUSER", b"u"]);
    let reply = scene.node.worker.execute(
        scene.node.now,
        itself.session(),
        &[b"ACL", b"DELUSER", b"u"],
        &mut Vec::new(),
    );
    assert_eq!(reply, sidle_node::Outcome::Close(Closing::Asked));
}

#[test]
fn what_other_nodes_forward_was_judged_there() {
    let (mut scene, _client) = Scene::new("+get");
    assert_eq!(scene.node.ask(&mut scene.admin, "ACL SETUSER default -@all"), ok());
    let mut forwarded = scene.node.connect();
    forwarded.session().is_forwarded = true;
    assert_eq!(scene.ask(&mut forwarded, "SET a 1"), ok());
    let mut client = scene.node.connect();
    assert!(is_refused(&scene.ask(&mut client, "SET a 1")));
}

#[test]
fn passwords_are_nowhere_to_be_seen() {
    let (mut scene, mut client) = Scene::new("+@all ~*");
    let mut seen = String::new();
    for request in
        ["ACL SETUSER v on >hush", "ACL LIST", "ACL GETUSER v", "ACL LOG", "CLIENT LIST", "SLOWLOG GET"]
    {
        seen += &format!("{:?}", scene.ask(&mut client, request));
    }
    assert!(!seen.contains("hush"), "{seen}");
    let passwords: Vec<Value> = (0..3).map(|_| scene.ask(&mut client, "ACL GENPASS")).collect();
    assert!(passwords[0] != passwords[1] && passwords[1] != passwords[2]);
    assert_eq!(passwords[0].as_bytes().map(<[u8]>::len), Some(64));
}
