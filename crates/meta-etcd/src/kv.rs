//! Requests over keys, as the gateway's JSON has them: bytes in base64, numbers as text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

/// The path of a transaction.
pub(crate) const TXN: &str = "/v3/kv/txn";

/// The keys of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    leader: String,
    metadata: String,
}

impl Keys {
    pub(crate) fn of(name: &str) -> Keys {
        let key = |last: &str| STANDARD.encode(format!("/sidle/{name}/{last}"));
        Keys { leader: key("leader"), metadata: key("metadata") }
    }

    /// That the leader's key was made in this revision; 0: that there is none.
    pub(crate) fn leader_made_in(&self, revision: u64) -> Json {
        json!({"key": self.leader, "target": "CREATE", "create_revision": revision.to_string()})
    }

    /// That the metadata was last written in this revision; 0: that there is none.
    pub(crate) fn metadata_of(&self, revision: u64) -> Json {
        json!({"key": self.metadata, "target": "MOD", "mod_revision": revision.to_string()})
    }

    /// Writes the leader's key, under a lease.
    pub(crate) fn put_leader(&self, announced: &str, lease: &str) -> Json {
        json!({"request_put": {"key": self.leader, "value": STANDARD.encode(announced), "lease": lease}})
    }

    /// Writes the metadata.
    pub(crate) fn put_metadata(&self, value: &[u8]) -> Json {
        json!({"request_put": {"key": self.metadata, "value": STANDARD.encode(value)}})
    }

    /// Reads the leader's key.
    pub(crate) fn leader(&self) -> Json {
        json!({"request_range": {"key": self.leader}})
    }

    /// Reads the metadata.
    pub(crate) fn metadata(&self) -> Json {
        json!({"request_range": {"key": self.metadata}})
    }

    /// Reads in which revision the metadata was last written, and no more.
    pub(crate) fn metadata_revision(&self) -> Json {
        json!({"request_range": {"key": self.metadata, "keys_only": true}})
    }
}

/// A transaction: if all of `compare` holds then `success`, else `failure`.
pub(crate) fn txn(compare: &[Json], success: &[Json], failure: &[Json]) -> Json {
    json!({"compare": compare, "success": success, "failure": failure})
}

/// A key as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) create_revision: u64,
    pub(crate) mod_revision: u64,
    pub(crate) value: Vec<u8>,
}

/// A transaction's outcome.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) succeeded: bool,
    /// etcd's revision after it.
    pub(crate) revision: u64,
    /// What was read, in the requests' order; of absent keys nothing but zeros.
    pub(crate) entries: Vec<Entry>,
}

impl Outcome {
    /// Reads an answer; `None` if it is none.
    pub(crate) fn read(answer: &Json) -> Option<Outcome> {
        let responses = field(answer, "responses").as_array().cloned().unwrap_or_default();
        let range = |response: &Json| match field(response, "response_range") {
            Json::Null => None,
            range => Some(entry(field(range, "kvs").get(0))),
        };
        Some(Outcome {
            succeeded: field(answer, "succeeded").as_bool().unwrap_or(false),
            revision: Some(number(field(field(answer, "header"), "revision"))).filter(|&found| found > 0)?,
            entries: responses.iter().filter_map(range).collect::<Option<Vec<Entry>>>()?,
        })
    }

    /// What was read by the request with this number among those that read.
    pub(crate) fn entry(&self, index: usize) -> Entry {
        self.entries.get(index).cloned().unwrap_or_default()
    }
}

/// A field under either of the names that gateways give it.
pub(crate) fn field<'j>(json: &'j Json, name: &str) -> &'j Json {
    if let Some(found) = json.get(name) {
        return found;
    }
    let mut camel = String::new();
    for (index, word) in name.split('_').enumerate() {
        let (first, rest) = word.split_at(usize::from(index > 0 && !word.is_empty()));
        camel.push_str(&first.to_ascii_uppercase());
        camel.push_str(rest);
    }
    json.get(&camel).unwrap_or(&Json::Null)
}

/// A number, which the gateway writes as text, and leaves out if it is 0.
pub(crate) fn number(json: &Json) -> u64 {
    json.as_u64().or_else(|| json.as_str()?.parse().ok()).unwrap_or(0)
}

fn entry(found: Option<&Json>) -> Option<Entry> {
    let Some(found) = found else { return Some(Entry::default()) };
    Some(Entry {
        create_revision: number(field(found, "create_revision")),
        mod_revision: number(field(found, "mod_revision")),
        value: STANDARD.decode(field(found, "value").as_str().unwrap_or_default()).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_under_either_kind_of_names() {
        let kv = json!({"key": "aw==", "create_revision": "5", "mod_revision": "9", "value": "dg=="});
        let snake = json!({"header": {"revision": "9"}, "succeeded": true, "responses": [
            {"response_put": {}}, {"response_range": {"kvs": [kv], "count": "1"}}, {"response_range": {}}]});
        let kv = json!({"key": "aw==", "createRevision": "5", "modRevision": "9", "value": "dg=="});
        let camel = json!({"header": {"revision": "9"}, "succeeded": true, "responses": [
            {"responsePut": {}}, {"responseRange": {"kvs": [kv], "count": "1"}}, {"responseRange": {}}]});
        for answer in [snake, camel] {
            let outcome = Outcome::read(&answer).expect("it is one");
            assert!(outcome.succeeded && outcome.revision == 9 && outcome.entries.len() == 2);
            let entry = Entry { create_revision: 5, mod_revision: 9, value: b"v".to_vec() };
            assert_eq!((outcome.entry(0), outcome.entry(1)), (entry, Entry::default()));
        }
    }

    #[test]
    fn what_is_no_answer_is_none() {
        assert!(Outcome::read(&json!({})).is_none());
        let broken = json!({"header": {"revision": "9"}, "responses": [
            {"response_range": {"kvs": [{"value": "?"}]}}]});
        assert!(Outcome::read(&broken).is_none());
    }
}
