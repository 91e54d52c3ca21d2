//! The file that Redis's SAVE writes, brought into Sidle: each key is what it was.

use crate::compare::value;
use crate::encode;
use crate::server::{Both, Connection};
use sidle_resp::Value;

/// So many elements are above Redis's bounds of small collections, and above Sidle's.
const MANY: usize = 2_000;

fn ask(connection: &mut Connection, words: &[&str]) -> Value {
    let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    value(&connection.ask(&encode(&words)))
}

/// Fills Redis with small and large values of all types.
fn fill(redis: &mut Connection) {
    let mut told = |words: &[&str]| assert!(!matches!(ask(redis, words), Value::Error(_)), "{words:?}");
    for (name, value) in [("empty", ""), ("text", "some text"), ("byte", "-7"), ("word", "30000")] {
        told(&["SET", name, value]);
    }
    told(&["SET", "long", "1234567890123"]);
    told(&["SET", "compressed", &"abc".repeat(50_000)]);
    told(&["SET", "with a deadline", "v", "PXAT", "4102444800123"]);
    told(&["SET", "12345", "a number's name"]);
    for count in [3, MANY] {
        for number in 0..count {
            let (element, score) = (format!("element:{number}"), format!("{}.5", number % 100));
            told(&["RPUSH", &format!("list:{count}"), &element]);
            told(&["HSET", &format!("hash:{count}"), &element, &number.to_string()]);
            told(&["SADD", &format!("set:{count}"), &element]);
            told(&["SADD", &format!("integers:{count}"), &(number * 1_000_003).to_string()]);
            told(&["ZADD", &format!("sorted:{count}"), &score, &element]);
        }
        told(&["RPUSH", &format!("list:{count}"), &"wide".repeat(5_000)]);
    }
    told(&["ZADD", "bounds", "-inf", "least", "+inf", "most", "1e300", "much"]);
}

fn requests() -> Vec<Vec<String>> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut requests: Vec<Vec<String>> = [
        "DBSIZE",
        "GET empty",
        "GET text",
        "GET byte",
        "GET word",
        "GET long",
        "GET compressed",
        "GET 12345",
    ]
    .map(words)
    .into();
    requests.push(vec!["GET".to_owned(), "with a deadline".to_owned()]);
    requests.push(vec!["PEXPIRETIME".to_owned(), "with a deadline".to_owned()]);
    requests.push(words("ZRANGE bounds 0 -1 WITHSCORES"));
    for count in [3, MANY] {
        requests.push(words(&format!("LRANGE list:{count} 0 -1")));
        requests.push(words(&format!("ZRANGE sorted:{count} 0 -1 WITHSCORES")));
        requests.push(words(&format!("SORT set:{count} ALPHA")));
        requests.push(words(&format!("SORT integers:{count}")));
        requests.push(words(&format!("HLEN hash:{count}")));
        let fields = (0..count).map(|number| format!("element:{number}"));
        requests.push(words("HMGET").into_iter().chain([format!("hash:{count}")]).chain(fields).collect());
    }
    requests
}

#[test]
fn a_file_of_redis_comes_whole_with_and_without_compression() {
    let Some(mut both) = Both::start() else { return };
    fill(&mut both.redis);
    for compression in ["no", "yes"] {
        ask(&mut both.redis, &["CONFIG", "SET", "rdbcompression", compression]);
        assert_eq!(ask(&mut both.redis, &["SAVE"]), Value::Simple("OK".into()));
        ask(&mut both.sidle, &["FLUSHALL"]);
        let file = both.redis_file().display().to_string();
        let output = both.node().run(&["import", &file]);
        assert!(output.status.success(), "{output:?}");
        for request in requests() {
            let words: Vec<Vec<u8>> = request.iter().map(|word| word.clone().into_bytes()).collect();
            let (expected, actual) = both.ask(&encode(&words));
            assert!(!matches!(value(&expected), Value::Error(_)), "{request:?}");
            assert!(expected == actual, "rdbcompression {compression}: {request:?}");
        }
    }
}
