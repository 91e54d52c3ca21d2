//! What etcd alone can show: leases, its end and its return, and what others write there.

use crate::etcd::Etcd;
use crate::worlds::{InEtcd, World, metadata};
use serde_json::{Value as Json, json};
use sidle_cluster::{Election, MetaError, MetaStore, Place, Seen};
use sidle_meta_etcd::{EtcdElection, EtcdLocation};
use std::time::{Duration, Instant};

/// A request of the test's own.
fn ask(etcd: &Etcd, path: &str, body: &Json) -> Json {
    let url = format!("http://{}{path}", etcd.address());
    let mut answer = ureq::post(&url).send(body.to_string()).expect("etcd answers");
    serde_json::from_str(&answer.body_mut().read_to_string().expect("a body")).expect("JSON")
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn delete(etcd: &Etcd, key: &str) {
    ask(etcd, "/v3/kv/deleterange", &json!({"key": base64(&format!("/sidle/contract/{key}"))}));
}

fn put(etcd: &Etcd, key: &str, value: &str) {
    let key = base64(&format!("/sidle/contract/{key}"));
    ask(etcd, "/v3/kv/put", &json!({"key": key, "value": base64(value)}));
}

#[test]
fn one_leads_until_it_resigns_and_the_others_see_who() {
    let Some(world) = InEtcd::start("one_leads_until_it_resigns_and_the_others_see_who") else { return };
    let [mut first, mut second] = [(); 2].map(|()| EtcdElection::new(&world.location()));
    assert_eq!(second.look(), Ok(Seen::default()));
    let mut store = first.stand("at first").unwrap().expect("nobody leads");
    assert!(second.stand("at second").unwrap().is_none(), "one at a time");
    let leader = Some("at first".to_owned());
    assert_eq!(second.look(), Ok(Seen { leader: leader.clone(), is_founded: false }));
    store.commit(&metadata(1)).unwrap();
    assert_eq!(second.look(), Ok(Seen { leader, is_founded: true }));
    assert_eq!((first.extend(), second.extend()), (Ok(true), Ok(false)));
    first.resign();
    assert_eq!(first.extend(), Ok(false));
    assert_eq!(second.look(), Ok(Seen { leader: None, is_founded: true }));
    assert_eq!(store.keep(&metadata(1)), Err(MetaError::Deposed), "its lease is over");
    assert!(second.stand("at second").unwrap().is_some());
}

#[test]
fn a_leader_that_goes_silent_is_followed_when_its_lease_has_ended() {
    let Some(world) = InEtcd::start("a_leader_that_goes_silent_is_followed") else { return };
    let [mut first, mut second] = [(); 2].map(|()| EtcdElection::new(&world.location()));
    let mut store = first.stand("silent").unwrap().expect("nobody leads");
    let begun = Instant::now();
    while second.stand("next").unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(15), "the lease does not end");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(begun.elapsed() >= Duration::from_secs(4), "after {:?}", begun.elapsed());
    assert_eq!(store.commit(&metadata(1)), Err(MetaError::Deposed));
    assert_eq!(first.extend(), Ok(false));
}

#[test]
fn etcd_may_end_and_come_back() {
    let Some(mut world) = InEtcd::start("etcd_may_end_and_come_back") else { return };
    let mut store = world.next_process().expect("nobody has it");
    store.commit(&metadata(1)).unwrap();
    world.etcd.kill();
    let begun = Instant::now();
    let Err(MetaError::Failed(why)) = store.commit(&metadata(2)) else { panic!("nobody can answer") };
    assert!(why.contains("does not answer") && why.contains("goes on serving"), "{why}");
    assert!(begun.elapsed() < Duration::from_secs(6), "after {:?}", begun.elapsed());
    world.etcd.restart();
    assert_eq!(store.commit(&metadata(3)), Ok(()), "its lease has outlived it");
    assert_eq!(store.load(), Ok(Some(metadata(3))));
    ask(&world.etcd, "/v3/kv/compaction", &json!({"revision": "2", "physical": true}));
    assert_eq!(store.commit(&metadata(4)), Ok(()), "an operator has compacted the history");
}

#[test]
fn what_others_do_to_the_keys_is_noticed() {
    let Some(mut world) = InEtcd::start("what_others_do_to_the_keys_is_noticed") else { return };
    let mut store = world.next_process().expect("nobody has it");
    store.commit(&metadata(1)).unwrap();
    delete(&world.etcd, "metadata");
    assert_eq!(store.keep(&metadata(1)), Ok(Place::WrittenAnew));
    delete(&world.etcd, "metadata");
    assert_eq!(store.commit(&metadata(2)), Ok(()), "what was removed is written anew");
    put(&world.etcd, "metadata", "something else");
    assert_eq!(store.commit(&metadata(3)), Err(MetaError::Deposed));
    let mut next = world.next_process().expect("the one before is gone");
    let Err(MetaError::Failed(why)) = next.load() else { panic!("it is not readable") };
    assert!(why.contains("/sidle/contract/metadata") && why.contains("not overwritten"), "{why}");
    delete(&world.etcd, "leader");
    assert_eq!(next.load(), Err(MetaError::Deposed));
}

#[test]
fn a_user_and_several_endpoints_of_which_one_is_gone() {
    let Some(etcd) = Etcd::start("a_user_and_several_endpoints_of_which_one_is_gone") else { return };
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let at = |user: &str| -> EtcdLocation {
        format!("etcd://{user}{free},{}/contract", etcd.address()).parse().expect("it is one")
    };
    let named = json!({"name": "root", "password": "secret"});
    assert!(EtcdElection::new(&at("root:secret@")).look().is_ok(), "a password that nobody asks for");
    ask(&etcd, "/v3/auth/user/add", &named);
    ask(&etcd, "/v3/auth/role/add", &json!({"name": "root"}));
    ask(&etcd, "/v3/auth/user/grant", &json!({"user": "root", "role": "root"}));
    ask(&etcd, "/v3/auth/enable", &json!({}));
    for user in ["", "root:wrong@"] {
        let refused = EtcdElection::new(&at(user)).look().expect_err("it is not let in").to_string();
        assert!(refused.contains("refuses") && refused.contains("Check the user"), "{refused}");
    }
    let mut election = EtcdElection::new(&at("root:secret@"));
    let mut store = election.stand("me").unwrap().expect("nobody leads");
    assert_eq!(store.commit(&metadata(1)), Ok(()));
    assert_eq!(election.extend(), Ok(true));
}
