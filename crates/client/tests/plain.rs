//! The client against a standalone redis-server, the reference. Skipped if none is installed.

// A failed unwrap fails the test, and this one starts a server and picks its port.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use sidle_client::{Awareness, Call, Client, Config, Error, Value};
use std::process::{Child, Command, Stdio};

/// A server that ends with the test.
struct Redis {
    process: Child,
    port: u16,
}

impl Redis {
    fn start() -> Option<Redis> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn();
        match process {
            Ok(process) => Some(Redis { process, port }),
            Err(error) => {
                eprintln!("skipped: redis-server cannot be started: {error}");
                None
            }
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.process.kill().expect("the server was started by this test");
        self.process.wait().expect("it was killed");
    }
}

#[tokio::test]
async fn a_plain_client_of_a_single_redis() {
    let Some(redis) = Redis::start() else { return };
    let mut config = Config::new(vec![format!("127.0.0.1:{}", redis.port).parse().unwrap()]);
    config.awareness = Awareness::Plain;
    config.operation_timeout_us = 10_000_000;
    // The server is still starting: the client retries until it is up.
    let client = Client::connect_with(config).await.unwrap();

    let keys: Vec<String> = (0..1000).map(|i| format!("key{i}")).collect();
    let calls: Vec<Call> =
        keys.iter().map(|key| client.start(&[b"SET", key.as_bytes(), key.as_bytes()])).collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), Value::Simple("OK".into()));
    }
    let values = client.mget(&keys).await.unwrap();
    assert!(keys.iter().zip(&values).all(|(key, value)| value.as_deref() == Some(key.as_bytes())));
    assert_eq!(client.exec(&[b"DBSIZE"]).await.unwrap(), Value::Integer(1000));
    assert_eq!(client.incr_by("n", 41).await.unwrap(), 41);

    // RESP3's own types.
    let double = client.exec(&[b"EVAL", b"redis.setresp(3); return {double=1.5}", b"1", b"k"]).await.unwrap();
    assert_eq!(double, Value::Double(1.5));
    assert!(
        matches!(client.exec(&[b"CONFIG", b"GET", b"port"]).await.unwrap(), Value::Map(pairs) if pairs.len() == 1)
    );
    let error = client.exec(&[b"INCRBY", b"key1", b"1"]).await.unwrap_err();
    assert_eq!(error, Error::Server("ERR value is not an integer or out of range".into()));
}
