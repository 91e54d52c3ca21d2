//! Doors of several nodes, over real connections.

use super::*;
use tokio::net::TcpListener;

fn secret(number: u8) -> ClusterSecret {
    ClusterSecret::from_random(std::array::from_fn(|index| index as u8 ^ number))
}

fn door(address: &str, secret: Option<ClusterSecret>) -> Door {
    Door::new(&address.parse().unwrap(), secret, PathBuf::from("/data/cluster.secret"), Bounds::MOST)
}

fn run(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(body);
}

/// A node listens, and another one dials it, with these secrets.
async fn meet(
    listening: Option<ClusterSecret>,
    dialing: Option<ClusterSecret>,
) -> (Option<Member>, Result<TcpStream, BusError>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let listens = door(&address, listening);
    let dials = door("10.0.0.9:1", dialing);
    let answered = async {
        let (stream, from) = listener.accept().await.unwrap();
        let applicant = listens.admit(from);
        listens.let_in(stream, applicant).await
    };
    tokio::join!(answered, dials.connect(&address))
}

#[test]
fn nodes_of_one_cluster_let_each_other_in() {
    run(async {
        let (member, connected) = meet(Some(secret(1)), Some(secret(1))).await;
        let (mut there, mut here) = (member.unwrap().stream, connected.unwrap());
        here.write_all(b"a frame").await.unwrap();
        let mut read = [0; 7];
        there.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"a frame", "nothing stands before it");
    });
}

#[test]
fn each_end_is_told_why_not() {
    run(async {
        let (member, connected) = meet(Some(secret(1)), Some(secret(2))).await;
        assert!(member.is_none());
        let error = connected.unwrap_err();
        assert!(matches!(error, BusError::Unproven(Unproven::OtherSecret)), "{error}");
        assert!(error.to_string().contains("--cluster-secret-file"), "{error}");
        let (member, connected) = meet(None, Some(secret(1))).await;
        assert!(member.is_none());
        assert!(matches!(connected, Err(BusError::Unproven(Unproven::NoHandshake))));
        let dials = door("10.0.0.9:1", None);
        assert!(matches!(dials.connect("127.0.0.1:1").await, Err(BusError::Unproven(Unproven::NoSecret))));
    });
}

#[test]
fn a_node_answers_to_its_own_addresses_only() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // The cluster's name for it differs from where it listens.
        for (called, is_let_in) in [("node-1.example.org:16379", false), ("LocalHost", true)] {
            let called = if called.contains(':') { called.to_owned() } else { format!("{called}:{port}") };
            let listens = door(&called, Some(secret(1)));
            let dials = door("10.0.0.9:1", Some(secret(1)));
            for (dialed, is_right) in
                [(format!("127.0.0.1:{port}"), true), (format!("localhost:{port}"), is_let_in)]
            {
                let answered = async {
                    let (stream, from) = listener.accept().await.unwrap();
                    listens.let_in(stream, listens.admit(from)).await.is_some()
                };
                let (was_let_in, connected) = tokio::join!(answered, dials.connect(&dialed));
                assert_eq!((was_let_in, connected.is_ok()), (is_right, is_right), "{dialed} at {called}");
            }
        }
    });
}

#[test]
fn a_secret_that_was_only_found_can_be_replaced() {
    let door = door("127.0.0.1:1", None);
    assert!(door.secret().is_none() && !door.is_certain());
    for number in [1, 2] {
        door.try_secret(secret(number));
        assert_eq!(door.secret().as_deref(), Some(&secret(number)));
    }
    door.accept_secret();
    door.try_secret(secret(3));
    assert!(door.is_certain());
    assert_eq!(door.secret().as_deref(), Some(&secret(2)));
}

#[test]
fn handshakes_beyond_their_bound_drive_the_oldest_out() {
    run(async {
        let door = door("127.0.0.1:1", Some(secret(1)));
        let from = |host: u8| SocketAddr::from(([10, 0, 0, host], 7));
        let mut genuine = door.admit(from(1));
        let mut strangers: Vec<_> =
            (0..Bounds::MOST.handshakes.per_source + 1).map(|_| door.admit(from(2))).collect();
        assert!(strangers[0].sent_away.try_recv().is_ok());
        assert!(strangers[1].sent_away.try_recv().is_err() && genuine.sent_away.try_recv().is_err());
        drop(strangers);
        let mut again = door.admit(from(2));
        assert!(again.sent_away.try_recv().is_err(), "places are given back");
    });
}
