//! Requests to etcd's JSON gateway: each has a deadline, and is sent to the endpoints in turn.

use crate::EtcdLocation;
use serde_json::{Value as Json, json};
use sidle_cluster::MetaError;
use std::time::{Duration, Instant};
use ureq::Agent;

/// The time for a request, at all endpoints together: well within a lease.
const DEADLINE: Duration = Duration::from_millis(2_000);
/// The time for it at one of several endpoints.
const PATIENCE: Duration = Duration::from_millis(900);
/// The longest answer: a record and what is around it, in base64.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// How much of an answer is shown.
const SHOWN_CHARACTERS: usize = 200;

/// etcd, as one thread reaches it.
#[derive(Debug)]
pub(crate) struct Gateway {
    agent: Agent,
    location: EtcdLocation,
    /// The endpoint that answered last.
    preferred: usize,
    /// Proves the user's password.
    token: Option<String>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// Nobody answered in time, or etcd could not decide. Whether the request was carried out is not known.
    Unanswered(String),
    /// etcd refuses: nothing has changed.
    Refused(String),
}

/// What one endpoint answered.
enum Answer {
    Taken(Json),
    /// The token is no longer valid.
    TokenGone(String),
    Refused(String),
    /// Another endpoint may know more.
    Nothing(String),
}

impl Gateway {
    pub(crate) fn new(location: &EtcdLocation) -> Gateway {
        let config = Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None);
        let agent = Agent::new_with_config(config.user_agent("sidle").build());
        Gateway { agent, location: location.clone(), preferred: 0, token: None }
    }

    /// Sends a request until an endpoint answers, within the deadline.
    pub(crate) fn call(&mut self, path: &str, body: &Json) -> Result<Json, CallError> {
        let until = Instant::now() + DEADLINE;
        self.log_in(until)?;
        match self.ask(path, body, until)? {
            Answer::Taken(answer) => Ok(answer),
            Answer::TokenGone(_) => {
                self.token = None;
                self.log_in(until)?;
                match self.ask(path, body, until)? {
                    Answer::Taken(answer) => Ok(answer),
                    Answer::TokenGone(why) | Answer::Refused(why) | Answer::Nothing(why) => {
                        Err(CallError::Refused(why))
                    }
                }
            }
            Answer::Refused(why) | Answer::Nothing(why) => Err(CallError::Refused(why)),
        }
    }

    /// Gets a token, if there is a user and none is known.
    fn log_in(&mut self, until: Instant) -> Result<(), CallError> {
        let Some((name, password)) = self.location.user.clone().filter(|_| self.token.is_none()) else {
            return Ok(());
        };
        let answer =
            self.ask("/v3/auth/authenticate", &json!({"name": name, "password": password}), until)?;
        match answer {
            Answer::Taken(answer) => {
                self.token = answer["token"].as_str().map(str::to_owned);
                Ok(())
            }
            // Without authentication at etcd nobody needs a token.
            Answer::Refused(why) if why.contains("authentication is not enabled") => Ok(()),
            Answer::TokenGone(why) | Answer::Refused(why) | Answer::Nothing(why) => {
                Err(CallError::Refused(format!("the user {name} cannot log in: {why}")))
            }
        }
    }

    /// Asks the endpoints in turn, from the one that answered last on.
    fn ask(&mut self, path: &str, body: &Json, until: Instant) -> Result<Answer, CallError> {
        let body = body.to_string();
        let count = self.location.endpoints.len();
        let first = self.preferred;
        let mut whys = Vec::new();
        for endpoint in (0..count).map(|number| (first + number) % count) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let patience = if count == 1 { left } else { left.min(PATIENCE) };
            match self.ask_one(endpoint, path, &body, patience) {
                Answer::Nothing(why) => whys.push(format!("{}: {why}", self.location.endpoints[endpoint])),
                answer => {
                    self.preferred = endpoint;
                    return Ok(answer);
                }
            }
        }
        // The next request begins elsewhere.
        self.preferred = (first + 1) % count;
        Err(CallError::Unanswered(whys.join("; ")))
    }

    fn ask_one(&self, endpoint: usize, path: &str, body: &str, patience: Duration) -> Answer {
        let url = format!("http://{}{path}", self.location.endpoints[endpoint]);
        let mut request = self.agent.post(&url).content_type("application/json");
        if let Some(token) = &self.token {
            request = request.header("Authorization", token);
        }
        let sent = request.config().timeout_global(Some(patience)).build().send(body);
        let mut response = match sent {
            Ok(response) => response,
            Err(error) => return Answer::Nothing(error.to_string()),
        };
        let status = response.status().as_u16();
        let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = match text {
            Ok(text) => text,
            Err(error) => return Answer::Nothing(error.to_string()),
        };
        let json: Option<Json> = serde_json::from_str(&text).ok();
        match (status, json) {
            (200, Some(answer)) => Answer::Taken(answer),
            (status, json) => refusal(status, json.as_ref(), &text),
        }
    }
}

/// What an answer without a result comes to.
fn refusal(status: u16, json: Option<&Json>, text: &str) -> Answer {
    let part = |name: &str| json.and_then(|json| json[name].as_str());
    let why = part("message").or(part("error")).unwrap_or(text);
    let why: String = why.chars().take(SHOWN_CHARACTERS).filter(|letter| !letter.is_control()).collect();
    match status {
        _ if why.contains("invalid auth token") || why.contains("revision of auth store is old") => {
            Answer::TokenGone(why)
        }
        500.. => Answer::Nothing(format!("status {status}, {why}")),
        404 => Answer::Nothing("there is no etcd 3.4 or later (status 404)".to_owned()),
        // Something else listens there.
        _ if json.is_none() => Answer::Nothing(format!("it does not answer as etcd does (status {status})")),
        _ => Answer::Refused(why),
    }
}

impl CallError {
    /// In words, with what to do.
    pub(crate) fn into_meta_error(self, location: &EtcdLocation) -> MetaError {
        MetaError::Failed(match self {
            CallError::Unanswered(why) => format!(
                "{location} does not answer ({why}). Until it does, the cluster is not changed and goes on serving: \
                 check that most of etcd's members run and can be reached"
            ),
            CallError::Refused(why) => format!(
                "{location} refuses: {why}. Check the user, the password and the rights on /sidle/{}/, and etcd's \
                 space",
                location.name
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn silent_and_absent_endpoints_are_named_within_the_deadline() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let silent_at = silent.local_addr().unwrap();
        let location: EtcdLocation = format!("etcd://{silent_at},{gone}/x").parse().unwrap();
        let mut gateway = Gateway::new(&location);
        let begun = Instant::now();
        let error = gateway.call("/v3/kv/range", &json!({})).expect_err("nobody answers");
        assert!(begun.elapsed() < DEADLINE + Duration::from_secs(1), "{:?}", begun.elapsed());
        let CallError::Unanswered(why) = &error else { panic!("{error:?}") };
        assert!(why.contains(&silent_at.to_string()) && why.contains(&gone.to_string()), "{why}");
        let words = error.into_meta_error(&location).to_string();
        assert!(words.contains("goes on serving") && words.contains("check that"), "{words}");
    }

    #[test]
    fn what_is_no_result_is_understood_by_its_status() {
        let of = |status, text: &str| refusal(status, serde_json::from_str(text).ok().as_ref(), text);
        let body = |why: &str| json!({"error": why, "code": 14, "message": why}).to_string();
        assert!(matches!(of(503, &body("etcdserver: no leader")), Answer::Nothing(_)));
        assert!(matches!(of(401, &body("etcdserver: invalid auth token")), Answer::TokenGone(_)));
        assert!(matches!(of(400, &body("etcdserver: user name is empty")), Answer::Refused(_)));
        assert!(matches!(of(404, "404 page not found"), Answer::Nothing(_)));
        assert!(matches!(of(400, "<html>"), Answer::Nothing(_)));
    }
}
