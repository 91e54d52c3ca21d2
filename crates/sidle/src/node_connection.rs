//! A connection to a node, for the commands that steer and watch a cluster: one request at a time, in RESP.

use crate::cli::Reach;
use crate::hints;
use sidle_cli::exit::{Failure, Status};
use sidle_cluster::StatusReport;
use sidle_node::UNKNOWN;
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, RequestWriter, Value};
use sidle_server::address::split_host_port;
use sidle_types::words::counted;
use std::fmt::Display;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long to wait for the answer to a request that takes its time: to start a migration takes the source a
/// count of its records, and the target its preparation.
const SLOW_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to one node.
pub(crate) struct NodeConnection {
    address: String,
    timeout: Duration,
    stream: TcpStream,
    parser: ReplyParser,
    input: Vec<u8>,
    /// What to do if the connection breaks.
    hint: &'static str,
}

/// Requests that change nothing.
const LOOKS: [&str; 3] = ["AUTH", "HELLO", "SIDLE.STATUS"];
/// What to do when such a one is not answered.
const LOOKED: &str = "Ask again, or ask another node with --via HOST:PORT";
/// The same of all others.
const CHANGED: &str =
    "It may have taken effect: `sidle status` shows it, of another node with --via HOST:PORT";

impl NodeConnection {
    /// Connects, and gives the password if there is one. The node has answered once when this returns: one
    /// that is stopped, or hangs, still takes connections.
    pub(crate) async fn open(reach: &Reach) -> Result<NodeConnection, Failure> {
        let via = &reach.via;
        let unreachable =
            |why: &dyn Display| Failure::new(Status::Unreachable, hints::unreachable(&via.via, why));
        let (host, port) = split_host_port(&via.via).expect("the command line was checked");
        let patience = Duration::from_secs(reach.timeout);
        let late = format!("no answer in {}", counted(reach.timeout, "second"));
        let stream = timeout(patience, TcpStream::connect((host, port)))
            .await
            .map_err(|_| unreachable(&late))?
            .map_err(|error| unreachable(&error))?;
        stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
        let parser = ReplyParser::new(ReplyLimits::default());
        let address = via.via.clone();
        let mut node =
            NodeConnection { address, timeout: patience, stream, parser, input: Vec::new(), hint: LOOKED };
        match &via.password {
            Some(password) => drop(node.request(&["AUTH", password]).await?),
            // Whatever it answers: what is asked next has the better words where this is refused. It is one
            // of the commands that the places for operators are for.
            None => {
                drop(timeout(patience, node.exchange(&["HELLO"])).await.map_err(|_| unreachable(&late))??)
            }
        }
        Ok(node)
    }

    /// Sends a request and waits for its reply; an error reply is a refusal.
    pub(crate) async fn request(&mut self, words: &[&str]) -> Result<Value, Failure> {
        self.request_within(self.timeout, words).await
    }

    /// The same for a request that may take its time.
    pub(crate) async fn slow_request(&mut self, words: &[&str]) -> Result<Value, Failure> {
        self.request_within(self.timeout.max(SLOW_TIMEOUT), words).await
    }

    async fn request_within(&mut self, patience: Duration, words: &[&str]) -> Result<Value, Failure> {
        self.hint = if LOOKS.contains(&words[0]) { LOOKED } else { CHANGED };
        match timeout(patience, self.exchange(words)).await {
            Ok(Ok(Value::Error(text))) => match text.strip_prefix(UNKNOWN) {
                Some(why) => Err(Failure::new(Status::Unreachable, why.trim_start())),
                None => Err(Failure::refused(hints::refused(&self.address, &text))),
            },
            Ok(reply) => reply,
            Err(_) => {
                let patience = counted(patience.as_secs(), "second");
                Err(self.broken(format!(
                    "no answer in {patience}, from it or from the coordinator behind it (--timeout waits longer)"
                )))
            }
        }
    }

    /// Asks for the status of the cluster.
    pub(crate) async fn status(&mut self) -> Result<StatusReport, Failure> {
        let text = self.status_text().await?;
        serde_json::from_str(&text)
            .map_err(|error| self.broken(format!("its status cannot be read: {error}")))
    }

    /// Asks for the status of the cluster, as the node's own JSON.
    pub(crate) async fn status_text(&mut self) -> Result<String, Failure> {
        let reply = self.request(&["SIDLE.STATUS"]).await?;
        let bytes =
            reply.as_bytes().ok_or_else(|| self.broken("its status is not a text: is it a Sidle node?"))?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
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

    /// A failure of the connection: what was asked may have happened.
    pub(crate) fn broken(&self, why: impl Display) -> Failure {
        let (address, hint) = (&self.address, self.hint);
        Failure::new(Status::Unreachable, format!("lost the node at {address}: {why}. {hint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Via;
    use tokio::net::TcpListener;

    /// A server that answers the first request and then closes.
    async fn one_answer(listener: TcpListener) {
        let (mut stream, _) = listener.accept().await.expect("a client comes");
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(b"+OK\r\n").await;
        let _ = stream.read(&mut request).await;
    }

    #[tokio::test]
    async fn what_to_do_about_a_lost_node_goes_by_what_it_was_asked() {
        for (request, hint) in [("SIDLE.STATUS", LOOKED), ("SIDLE.FORGET", CHANGED)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let via = listener.local_addr().expect("it is bound").to_string();
            let server = tokio::spawn(one_answer(listener));
            let reach = Reach { via: Via { via, password: None }, timeout: 60 };
            let mut node = NodeConnection::open(&reach).await.expect("it answers once");
            let lost = node.request(&[request]).await.expect_err("it closes");
            assert_eq!(lost.status, Status::Unreachable);
            assert!(lost.message.ends_with(hint), "{}", lost.message);
            server.await.expect("it ends");
        }
    }
}
