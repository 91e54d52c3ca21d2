//! One blocking connection for requests: migrations, status, INFO.

use sidle_cluster::{MigrationStatus, StatusReport};
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, RequestWriter, Value};
use sidle_types::MigrationId;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The wait on a machine kept busy on purpose, by clients beside the nodes or by other programs: an
/// answer comes through several threads, each of which may wait for a processor for seconds.
pub const PATIENCE_UNDER_LOAD: Duration = Duration::from_secs(60);

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The node was unreachable, or went away.
    #[error("{address}: {error}")]
    Io {
        /// The node.
        address: String,
        /// What happened.
        error: std::io::Error,
    },
    /// The node is there, and does not answer.
    #[error("{address} has not answered within {seconds} s: it stands still, or its machine is overloaded")]
    Silent {
        /// The node.
        address: String,
        /// How long the wait was.
        seconds: f64,
    },
    /// The node answered with an error.
    #[error("{address} answers: {text}")]
    Refused {
        /// The node.
        address: String,
        /// The error's text.
        text: String,
    },
    /// The answer has not the request's form.
    #[error("{address} answers in a way that was not expected: {what}")]
    Unexpected {
        /// The node.
        address: String,
        /// What is wrong with it.
        what: String,
    },
}

/// The migration's number in an answer to SIDLE.MIGRATE START.
pub fn started_migration(answer: &Value) -> Option<MigrationId> {
    let number = match answer {
        Value::Integer(number) => u64::try_from(*number).ok(),
        text => text.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok()),
    };
    number.map(MigrationId)
}

/// The request for a migration's state, answered once it is over or after this time.
pub fn await_end(id: MigrationId, patience: Duration) -> [String; 4] {
    ["SIDLE.MIGRATE".to_owned(), "WAIT".to_owned(), id.0.to_string(), patience.as_millis().to_string()]
}

/// A connection to one node.
#[derive(Debug)]
pub struct Control {
    address: String,
    stream: TcpStream,
    patience: Duration,
    parser: ReplyParser,
    buffer: Vec<u8>,
}

impl Control {
    /// Connects, and authenticates if a password is given.
    pub fn connect(address: &str, password: Option<&str>) -> Result<Control, ControlError> {
        let failed = |error| ControlError::Io { address: address.to_owned(), error };
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
        let mut stream = None;
        for candidate in address.to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&candidate, TIMEOUT) {
                Ok(connected) => {
                    stream = Some(connected);
                    break;
                }
                Err(error) => last = error,
            }
        }
        let Some(stream) = stream else { return Err(failed(last)) };
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let parser = ReplyParser::new(ReplyLimits::default());
        let (address, buffer) = (address.to_owned(), Vec::new());
        let mut control = Control { address, stream, patience: TIMEOUT, parser, buffer };
        if let Some(password) = password {
            control.call(&["AUTH", password])?;
        }
        Ok(control)
    }

    /// Waits this long for each answer from now on, instead of ten seconds.
    pub fn with_patience(mut self, patience: Duration) -> Result<Control, ControlError> {
        self.stream.set_read_timeout(Some(patience)).map_err(|error| self.failed(error))?;
        self.patience = patience;
        Ok(self)
    }

    fn failed(&self, error: std::io::Error) -> ControlError {
        let address = self.address.clone();
        match error.kind() {
            // A read timeout's error kind depends on the system.
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                ControlError::Silent { address, seconds: self.patience.as_secs_f64() }
            }
            _ => ControlError::Io { address, error },
        }
    }

    /// Sends one request.
    pub fn call(&mut self, request: &[&str]) -> Result<Value, ControlError> {
        let mut out = Vec::new();
        let arguments: Vec<&[u8]> = request.iter().map(|argument| argument.as_bytes()).collect();
        RequestWriter::new(&mut out).request(&arguments);
        self.stream.write_all(&out).map_err(|error| self.failed(error))?;
        loop {
            match self.parser.parse(&self.buffer) {
                Ok(ParsedReply::Complete { frame, consumed }) => {
                    let value = frame.reply.to_value();
                    self.buffer.drain(..consumed);
                    return match value {
                        Value::Error(text) => {
                            Err(ControlError::Refused { address: self.address.clone(), text })
                        }
                        value => Ok(value),
                    };
                }
                Ok(ParsedReply::Incomplete { .. }) => {}
                Err(error) => return Err(self.unexpected(error.to_string())),
            }
            let mut piece = [0; 16 << 10];
            let got = self.stream.read(&mut piece).map_err(|error| self.failed(error))?;
            if got == 0 {
                return Err(self.failed(std::io::ErrorKind::UnexpectedEof.into()));
            }
            self.buffer.extend_from_slice(&piece[..got]);
        }
    }

    fn unexpected(&self, what: String) -> ControlError {
        ControlError::Unexpected { address: self.address.clone(), what }
    }

    /// The answer's text.
    pub fn text(&mut self, request: &[&str]) -> Result<String, ControlError> {
        let value = self.call(request)?;
        match value.as_bytes() {
            Some(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            None => Err(self.unexpected(format!("{value:?} instead of text"))),
        }
    }

    /// The cluster in its coordinator's view.
    pub fn status(&mut self) -> Result<StatusReport, ControlError> {
        let text = self.text(&["SIDLE.STATUS"])?;
        serde_json::from_str(&text).map_err(|error| self.unexpected(format!("SIDLE.STATUS: {error}")))
    }

    /// A migration's state, once it is over or after this time in any state.
    pub fn await_end(
        &mut self,
        id: MigrationId,
        patience: Duration,
    ) -> Result<MigrationStatus, ControlError> {
        let [first, second, third, fourth] = await_end(id, patience);
        let text = self.text(&[&first, &second, &third, &fourth])?;
        serde_json::from_str(&text).map_err(|error| self.unexpected(format!("SIDLE.MIGRATE WAIT: {error}")))
    }

    /// The fields of an INFO section.
    pub fn info(
        &mut self,
        section: &str,
    ) -> Result<std::collections::BTreeMap<String, String>, ControlError> {
        let text = self.text(&["INFO", section])?;
        let field =
            |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(text.lines().filter_map(field).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_stands_still_is_told_from_one_that_is_gone() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let control = Control::connect(&address, None).unwrap();
        let mut control = control.with_patience(Duration::from_millis(50)).unwrap();
        let silent = control.status().unwrap_err().to_string();
        assert_eq!(
            silent,
            format!(
                "{address} has not answered within 0.05 s: it stands still, or its machine is overloaded"
            )
        );
        drop(listener);
        let gone = control.status().unwrap_err();
        assert!(matches!(gone, ControlError::Io { .. }), "{gone}");
    }

    #[test]
    fn started_migration_is_read_from_integers_and_texts() {
        assert_eq!(started_migration(&Value::Integer(7)), Some(MigrationId(7)));
        assert_eq!(started_migration(&Value::Bulk(b"12".to_vec())), Some(MigrationId(12)));
        assert_eq!(started_migration(&Value::Null), None);
        assert_eq!(started_migration(&Value::Integer(-1)), None);
    }
}
