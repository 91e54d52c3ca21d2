//! EXEC over keys of several nodes, by a client that knows nothing of Sidle.

use crate::support::TestCluster;
use sidle_resp::Value;
use sidle_types::Slot;
use std::time::{Duration, Instant};

const TIMES: i64 = 40;
/// Nobody waits for a tick of the nodes, of which there are ten a second: that would take several of them.
const LIMIT: Duration = Duration::from_secs(6);

#[test]
fn it_goes_on_when_an_answer_comes() {
    let cluster = TestCluster::start(2);
    let id = cluster.start_migration("0-8191", 1);
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    let key = |is_moved: bool| {
        let mut names = (0..).map(|number| format!("key:{number}"));
        names.find(|name| (Slot::of_key(name.as_bytes()).number() <= 8191) == is_moved).expect("half of all")
    };
    let (here, there) = (key(false), key(true));
    let mut client = cluster.client(0);
    client.request(&["CLIENT", "CAPA", "cross-slot"]);
    let began = Instant::now();
    for count in 1..=TIMES {
        for words in [&["MULTI"][..], &["INCR", &here], &["INCR", &there]] {
            client.request(words);
        }
        let counts = Value::Array(vec![Value::Integer(count); 2]);
        assert_eq!(client.request(&["EXEC"]), counts);
    }
    assert!(began.elapsed() < LIMIT, "{TIMES} EXECs took {:?}", began.elapsed());
}
