//! A connection to a node, for the commands that steer and watch a cluster: one request at a time, in RESP.

use crate::hints;
use crate::via::Reach;
use sidle_cli::exit::{Failure, Status};
use sidle_cluster::{LockedKey, StatusReport};
use sidle_heat::HeatReport;
use sidle_node::UNKNOWN;
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, RequestWriter, Value};
use sidle_server::address::split_host_port;
use sidle_types::words::counted;
use std::fmt::Display;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// A connection to one node.
pub(crate) struct NodeConnection {
    address: String,
    /// How long the cluster may take to answer.
    patience: Duration,
    /// The deadline of the present request.
    until: Instant,
    stream: TcpStream,
    parser: ReplyParser,
    input: Vec<u8>,
    /// Whether any answer arrived yet.
    has_answered: bool,
    /// The coordinator, if this node knows it.
    coordinator: Option<Coordinator>,
    /// The remedy if the connection breaks.
    hint: &'static str,
}

/// What a node knows of the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Coordinator {
    /// Where its clients reach it.
    address: String,
    /// Whether another node coordinates should it die.
    has_successors: bool,
}

/// The requests that change nothing.
const STATUS: &str = "SIDLE.STATUS";
const HEAT: &str = "SIDLE.HEAT";
/// The remedy if one is not answered.
const LOOKED: &str = "Ask again, or ask another node with --via HOST:PORT";
/// The same for all others.
const CHANGED: &str = "It may have taken effect: `sidle status` shows it once the node answers, and another node's \
                       status with --via HOST:PORT does so now";
/// The same where it is the coordinator that does not answer: then no other node's status helps.
const ASK_AGAIN: &str = "Ask again then";
const CHECK_THEN: &str = "It may have taken effect: `sidle status` shows it then";
/// What to do about a coordinator's node where others can coordinate.
const SUCCEEDED: &str =
    "if that node is down, wait: another one coordinates within seconds, as long as etcd answers";

impl NodeConnection {
    /// Connects, and sends the password if there is one. The node has answered once when this returns: a
    /// stopped or hanging node still takes connections. The next request has the rest of the
    /// timeout.
    pub(crate) async fn open(reach: &Reach) -> Result<NodeConnection, Failure> {
        let via = &reach.via;
        let unreachable =
            |why: &dyn Display| Failure::new(Status::Unreachable, hints::unreachable(&via.via, why));
        let (host, port) = split_host_port(&via.via).expect("the command line was checked");
        let patience = Duration::from_secs(reach.timeout);
        let until = Instant::now() + patience;
        let timeout = counted(reach.timeout, "second");
        let stream = timeout_at(until, TcpStream::connect((host, port)))
            .await
            .map_err(|_| unreachable(&format!("no answer in {timeout}")))?
            .map_err(|error| unreachable(&error))?;
        stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
        let mut node = NodeConnection {
            address: via.via.clone(),
            patience,
            until,
            stream,
            parser: ReplyParser::new(ReplyLimits::default()),
            input: Vec::new(),
            has_answered: false,
            coordinator: None,
            hint: LOOKED,
        };
        if let Some(password) = &via.password {
            let answer = node.first_exchange(&["AUTH", password]).await?;
            node.accepted(answer)?;
        }
        // Any answer will do: if this is refused, the next request's refusal is clearer. It is one of
        // the commands that operators' places are for.
        node.coordinator = coordinator_in(&node.first_exchange(&["INFO", "cluster"]).await?);
        Ok(node)
    }

    /// An exchange before the node has shown that it answers.
    async fn first_exchange(&mut self, words: &[&str]) -> Result<Value, Failure> {
        let Ok(answered) = timeout_at(self.until, self.exchange(words)).await else {
            let silent = hints::silent(&self.address, &counted(self.patience.as_secs(), "second"));
            return Err(Failure::new(Status::Unreachable, format!("{silent}; --timeout waits longer")));
        };
        answered
    }

    /// Gives the next request the whole timeout.
    pub(crate) fn begin_anew(&mut self) {
        self.until = Instant::now() + self.patience;
    }

    /// Sends a request and waits for its reply; an error reply is a refusal.
    pub(crate) async fn request(&mut self, words: &[&str]) -> Result<Value, Failure> {
        self.hint = if [STATUS, HEAT].contains(&words[0]) { LOOKED } else { CHANGED };
        match timeout_at(self.until, self.exchange(words)).await {
            Ok(reply) => self.accepted(reply?),
            Err(_) => Err(self.silent()),
        }
    }

    /// The same for a slow request, such as the start of a migration: the source counts its
    /// records, and the target prepares. When `silence` ends, it is given up as a request without
    /// an answer.
    pub(crate) async fn watched_request(
        &mut self,
        words: &[&str],
        silence: impl Future<Output = ()>,
    ) -> Result<Value, Failure> {
        self.hint = CHANGED;
        let reply = tokio::select! {
            reply = self.exchange(words) => reply?,
            () = silence => return Err(self.silent()),
        };
        self.accepted(reply)
    }

    /// The reply, unless it is an error.
    fn accepted(&self, reply: Value) -> Result<Value, Failure> {
        let Value::Error(text) = reply else { return Ok(reply) };
        Err(match text.strip_prefix(UNKNOWN) {
            Some(why) => {
                let at = self.coordinator.as_ref().map(|Coordinator { address, has_successors }| {
                    match has_successors {
                        true => format!(". The coordinator ran on the node at {address}; {SUCCEEDED}"),
                        false => format!(". The coordinator runs on the node at {address}"),
                    }
                });
                Failure::new(Status::Unreachable, why.trim_start().to_owned() + &at.unwrap_or_default())
            }
            None => Failure::refused(hints::refused(&self.address, &text)),
        })
    }

    /// A node that answered before has no answer in time: its request to the coordinator
    /// waits.
    fn silent(&self) -> Failure {
        let patience = counted(self.patience.as_secs(), "second");
        let (who, hint) = match &self.coordinator {
            Some(Coordinator { address, has_successors }) if *address != self.address => {
                let remedy = match has_successors {
                    true => format!("{SUCCEEDED} "),
                    false => "if that node is down, start it again with its data directory ".to_owned(),
                };
                let runs = if *has_successors { "ran" } else { "runs" };
                let who = format!(
                    "no answer in {patience} from the coordinator, which {runs} on the node at {address}: \
                     {remedy}(meanwhile the nodes serve their clients; but where that node had a copy of \
                     their log, writes wait for it)"
                );
                (who, if self.hint == LOOKED { ASK_AGAIN } else { CHECK_THEN })
            }
            _ => {
                let who = format!(
                    "no answer in {patience}, from the node at {} or from the coordinator",
                    self.address
                );
                (who, self.hint)
            }
        };
        Failure::new(Status::Unreachable, format!("{who}; --timeout waits longer. {hint}"))
    }

    /// Requests the status of the cluster.
    pub(crate) async fn status(&mut self) -> Result<StatusReport, Failure> {
        let text = self.status_text().await?;
        serde_json::from_str(&text)
            .map_err(|error| self.broken(format!("its status cannot be read: {error}")))
    }

    /// Requests the node's own heat in the last seconds.
    pub(crate) async fn heat(&mut self, seconds: u64) -> Result<HeatReport, Failure> {
        let text = self.text(&[HEAT, &seconds.to_string()], "heat").await?;
        serde_json::from_str(&text).map_err(|error| self.broken(format!("its heat cannot be read: {error}")))
    }

    /// Requests what transactions have locked at the node.
    pub(crate) async fn transactions(&mut self) -> Result<Vec<LockedKey>, Failure> {
        let text = self.text(&["SIDLE.TX", "LIST"], "list of locked keys").await?;
        serde_json::from_str(&text)
            .map_err(|error| self.broken(format!("its list of locked keys cannot be read: {error}")))
    }

    /// Requests the status of the cluster, as the node's own JSON.
    pub(crate) async fn status_text(&mut self) -> Result<String, Failure> {
        self.text(&[STATUS], "status").await
    }

    /// A reply that is a text, called `what`.
    async fn text(&mut self, words: &[&str], what: &str) -> Result<String, Failure> {
        let reply = self.request(words).await?;
        let text = reply.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        text.ok_or_else(|| self.broken(format!("its {what} is not a text: is it a Sidle node?")))
    }

    async fn exchange(&mut self, words: &[&str]) -> Result<Value, Failure> {
        let mut request = Vec::new();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        RequestWriter::new(&mut request).request(&words);
        self.stream.write_all(&request).await.map_err(|error| self.broken(error))?;
        loop {
            match self.parser.parse(&self.input) {
                Ok(ParsedReply::Complete { frame, consumed }) => {
                    let value = frame.reply.to_value();
                    self.input.drain(..consumed);
                    self.has_answered = true;
                    return Ok(value);
                }
                Ok(ParsedReply::Incomplete { need }) => self.input.reserve(need.min(1 << 20)),
                Err(error) => return Err(self.broken(error)),
            }
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) => return Err(self.broken("it closed the connection")),
                Ok(_) => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    /// A failure of the connection: the request may have taken effect.
    pub(crate) fn broken(&self, why: impl Display) -> Failure {
        let address = &self.address;
        let message = match self.has_answered {
            true => format!("lost the node at {address}: {why}. {}", self.hint),
            false => hints::no_redis(address, why),
        };
        Failure::new(Status::Unreachable, message)
    }
}

/// What a reply to INFO tells of the coordinator.
fn coordinator_in(info: &Value) -> Option<Coordinator> {
    let text = String::from_utf8_lossy(info.as_bytes()?);
    let field = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let address = field("sidle_coordinator:").filter(|address| !address.is_empty())?.to_owned();
    Some(Coordinator { address, has_successors: field("sidle_metadata:") == Some("etcd") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::via::Via;
    use tokio::net::TcpListener;

    /// A server that gives these answers to one client, then closes, or is silent until the client leaves.
    async fn answers(listener: TcpListener, answers: Vec<&[u8]>, closes: bool) {
        let (mut stream, _) = listener.accept().await.expect("a client comes");
        let mut request = [0; 1024];
        for answer in answers {
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer).await;
        }
        let _ = stream.read(&mut request).await;
        if !closes {
            let _ = stream.read(&mut request).await;
        }
    }

    const INFO: &[u8] = b"$31\r\nsidle_coordinator:127.0.0.1:7\r\n\r\n";

    async fn listener() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        (listener, address)
    }

    fn reach(via: &str, timeout: u64) -> Reach {
        Reach { via: Via { via: via.to_owned(), password: None }, timeout }
    }

    #[tokio::test]
    async fn what_to_do_about_a_lost_node_goes_by_what_it_was_asked() {
        for (request, hint) in [(STATUS, LOOKED), (HEAT, LOOKED), ("SIDLE.FORGET", CHANGED)] {
            let (listener, via) = listener().await;
            let server = tokio::spawn(answers(listener, vec![b"+OK\r\n"], true));
            let mut node = NodeConnection::open(&reach(&via, 60)).await.expect("it answers once");
            let lost = node.request(&[request]).await.expect_err("it closes");
            assert_eq!(lost.status, Status::Unreachable);
            assert!(lost.message.ends_with(hint), "{}", lost.message);
            server.await.expect("it ends");
        }
    }

    #[tokio::test]
    async fn a_node_that_hangs_is_told_from_one_that_is_not_there() {
        let (listener, via) = listener().await;
        let password = Some("p".to_owned());
        for via in [Via { via: via.clone(), password }, Via { via: via.clone(), password: None }] {
            // The system takes connections for it.
            let Err(failure) = NodeConnection::open(&Reach { via, timeout: 1 }).await else {
                panic!("an answer")
            };
            assert_eq!(failure.status, Status::Unreachable);
            let said = "accepted the connection and did not answer in 1 second: its process is stopped";
            assert!(failure.message.contains(said), "{}", failure.message);
        }
        drop(listener);
        let Err(failure) = NodeConnection::open(&reach(&via, 1)).await else { panic!("a node") };
        assert!(failure.message.contains("Start a node"), "{}", failure.message);
    }

    #[tokio::test]
    async fn a_silent_coordinator_is_named_when_the_time_of_the_whole_command_is_up() {
        let (listener, via) = listener().await;
        let server = tokio::spawn(answers(listener, vec![INFO], false));
        let begun = Instant::now();
        let mut node = NodeConnection::open(&reach(&via, 1)).await.expect("it answers once");
        for request in [STATUS, "SIDLE.FORGET"] {
            let silent = node.request(&[request]).await.expect_err("nobody answers");
            assert_eq!(silent.status, Status::Unreachable);
            let named = "the coordinator, which runs on the node at 127.0.0.1:7: if that node is down, start it again";
            assert!(silent.message.contains(named), "{}", silent.message);
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "both had one second together");
        drop(node);
        server.await.expect("it ends");
    }

    const INFO_WITH_ETCD: &[u8] = b"$52\r\nsidle_coordinator:127.0.0.1:7\r\nsidle_metadata:etcd\r\n\r\n";

    #[tokio::test]
    async fn where_others_can_coordinate_nobody_is_told_to_start_the_node() {
        let unknown = format!("-{UNKNOWN} the coordinator is lost\r\n");
        let unknown: &'static [u8] = unknown.leak().as_bytes();
        for answers_given in [vec![INFO_WITH_ETCD], vec![INFO_WITH_ETCD, unknown]] {
            let (listener, via) = listener().await;
            let server = tokio::spawn(answers(listener, answers_given, false));
            let mut node = NodeConnection::open(&reach(&via, 1)).await.expect("it answers once");
            let failure = node.request(&["SIDLE.FORGET"]).await.expect_err("nobody knows");
            assert_eq!(failure.status, Status::Unreachable);
            let text = &failure.message;
            assert!(text.contains("ran on the node at 127.0.0.1:7"), "{text}");
            assert!(text.contains("wait: another one coordinates") && !text.contains("start it"), "{text}");
            drop(node);
            server.await.expect("it ends");
        }
    }

    #[tokio::test]
    async fn what_does_not_speak_the_protocol_is_told_from_a_node_that_is_lost() {
        for answer in
            [&b"SSH-2.0-OpenSSH_9.6\r\n"[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x01\x02\x03", b""]
        {
            let (listener, via) = listener().await;
            let given = Some(answer).filter(|answer| !answer.is_empty()).into_iter().collect();
            let server = tokio::spawn(answers(listener, given, true));
            let Err(failure) = NodeConnection::open(&reach(&via, 60)).await else { panic!("{answer:?}") };
            assert_eq!(failure.status, Status::Unreachable);
            let told = format!("what answers at {via} does not speak the Redis protocol");
            assert!(failure.message.starts_with(&told), "{}", failure.message);
            assert!(failure.message.contains("port for nodes"), "{}", failure.message);
            server.abort();
        }
    }
}
