//! A connection to a node, for the commands that steer and watch a cluster: one request at a time, in RESP.

use crate::cli::Reach;
use sidle_cli::exit::{Failure, Status};
use sidle_cluster::StatusReport;
use sidle_node::UNKNOWN;
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, RequestWriter, Value};
use sidle_server::address::split_host_port;
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
}

impl NodeConnection {
    /// Connects, and gives the password if there is one. The node has answered once when this returns: one
    /// that is stopped, or hangs, still takes connections.
    pub(crate) async fn open(reach: &Reach) -> Result<NodeConnection, Failure> {
        let via = &reach.via;
        let unreachable = |why: &dyn Display| {
            let address = &via.via;
            let advice = "Is a node running there? Name another with --via HOST:PORT";
            Failure::new(Status::Unreachable, format!("cannot reach a node at {address}: {why}. {advice}"))
        };
        let (host, port) = split_host_port(&via.via).expect("the command line was checked");
        let patience = Duration::from_secs(reach.timeout);
        let late = format!("no answer in {} seconds", reach.timeout);
        let stream = timeout(patience, TcpStream::connect((host, port)))
            .await
            .map_err(|_| unreachable(&late))?
            .map_err(|error| unreachable(&error))?;
        stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
        let parser = ReplyParser::new(ReplyLimits::default());
        let address = via.via.clone();
        let mut node = NodeConnection { address, timeout: patience, stream, parser, input: Vec::new() };
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
        match timeout(patience, self.exchange(words)).await {
            Ok(Ok(Value::Error(text))) => match text.strip_prefix(UNKNOWN) {
                Some(why) => Err(Failure::new(Status::Unreachable, why.trim_start())),
                None => Err(Failure::refused(advise(&self.address, &text))),
            },
            Ok(reply) => reply,
            Err(_) => {
                let seconds = patience.as_secs();
                Err(self.broken(format!(
                    "no answer in {seconds} seconds, from it or from the coordinator behind it (--timeout \
                     waits longer)"
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
        let address = &self.address;
        Failure::new(
            Status::Unreachable,
            format!("lost the node at {address}: {why}. `sidle status` shows what is"),
        )
    }
}

/// An error reply with what to do about it, where that is known.
fn advise(address: &str, text: &str) -> String {
    let shown = text.strip_prefix("ERR ").unwrap_or(text);
    if text.starts_with("NOAUTH") || text.starts_with("WRONGPASS") {
        format!("{shown} Give it with --password or in SIDLE_PASSWORD")
    } else if shown.starts_with("unknown command 'SIDLE.") {
        format!("what answers at {address} is not a Sidle node. Name one with --via HOST:PORT")
    } else if shown.starts_with("AUTH <password> called without any password") {
        format!("the node at {address} has no password: leave out --password and SIDLE_PASSWORD")
    } else {
        shown.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_says_what_to_do() {
        for (reply, advice) in [
            ("ERR there is no migration 7", "there is no migration 7"),
            ("NOAUTH Authentication required.", "--password"),
            ("ERR unknown command 'SIDLE.STATUS', with args beginning with: ", "a:1 is not a Sidle node"),
            ("ERR AUTH <password> called without any password configured for the default user.", "leave out"),
        ] {
            let given = advise("a:1", reply);
            assert!(given.contains(advice), "{given}");
        }
    }
}
