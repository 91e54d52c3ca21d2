//! A blocking client, as plain as a test needs.

use super::{PATIENCE, eventually};
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, RequestWriter, Value};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// The value of a bulk string.
pub fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// A connection to one node.
pub struct Client {
    stream: TcpStream,
    parser: ReplyParser,
    input: Vec<u8>,
}

impl Client {
    /// Connects.
    pub fn connect(address: &str) -> Client {
        let stream = eventually("a connection", || TcpStream::connect(address).ok());
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        stream.set_nodelay(true).expect("the delay can be taken off");
        Client { stream, parser: ReplyParser::new(ReplyLimits::default()), input: Vec::new() }
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the node takes what it is sent");
    }

    /// Sends bytes as they are; returns whether the node took them.
    pub fn try_send_raw(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends a request without waiting for its reply.
    pub fn send(&mut self, words: &[&str]) {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut request = Vec::new();
        RequestWriter::new(&mut request).request(&words);
        self.send_raw(&request);
    }

    /// The next reply; `None` when the connection is closed.
    pub fn try_reply(&mut self) -> Option<Value> {
        loop {
            match self.parser.parse(&self.input).expect("a node sends well-formed replies") {
                ParsedReply::Complete { frame, consumed } => {
                    let value = frame.reply.to_value();
                    self.input.drain(..consumed);
                    return Some(value);
                }
                ParsedReply::Incomplete { .. } => {}
            }
            let mut piece = [0; 16 << 10];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(length) => self.input.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }

    /// The next reply, if it comes within this time.
    pub fn reply_within(&mut self, time: std::time::Duration) -> Option<Value> {
        let deadline = Instant::now() + time;
        self.stream.set_read_timeout(Some(time)).expect("a timeout can be set");
        let mut piece = [0; 16 << 10];
        let reply = loop {
            match self.parser.parse(&self.input).expect("a node sends well-formed replies") {
                ParsedReply::Complete { frame, consumed } => {
                    let value = frame.reply.to_value();
                    self.input.drain(..consumed);
                    break Some(value);
                }
                ParsedReply::Incomplete { .. } => {}
            }
            match self.stream.read(&mut piece) {
                Ok(length) if length > 0 => self.input.extend_from_slice(&piece[..length]),
                _ => break None,
            }
            if Instant::now() >= deadline {
                break None;
            }
        };
        self.stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        reply
    }

    /// The next reply.
    pub fn reply(&mut self) -> Value {
        self.try_reply().expect("the connection is open")
    }

    /// A request and its reply.
    pub fn request(&mut self, words: &[&str]) -> Value {
        self.send(words);
        self.reply()
    }

    /// A request and its reply; `None` when the connection breaks.
    pub fn try_request(&mut self, words: &[&str]) -> Option<Value> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut request = Vec::new();
        RequestWriter::new(&mut request).request(&words);
        self.stream.write_all(&request).ok()?;
        self.try_reply()
    }

    /// A request and its reply, following MOVED and ASK on connections of their own, like a cluster client.
    pub fn request_anywhere(&mut self, words: &[&str]) -> Value {
        let mut reply = self.request(words);
        // While a new map is on its way, two nodes may redirect to each other for a moment.
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let Value::Error(text) = &reply else { return reply };
            let mut parts = text.split(' ');
            let (code, Some(address)) = (parts.next().expect("a text has a first word"), parts.nth(1)) else {
                return reply;
            };
            reply = match code {
                "MOVED" => Client::connect(address).request(words),
                "ASK" => {
                    let mut there = Client::connect(address);
                    assert_eq!(there.request(&["ASKING"]), Value::Simple("OK".into()));
                    there.request(words)
                }
                _ => return reply,
            };
        }
        panic!("redirected in circles: {reply:?}");
    }

    /// Everything until the node closes the connection.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.input);
        match self.stream.read_to_end(&mut all) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the node does not close the connection: {error}"),
        }
        all
    }

    /// Sends requests in one go and returns their replies.
    pub fn pipeline(&mut self, requests: &[Vec<String>]) -> Vec<Value> {
        let mut out = Vec::new();
        for request in requests {
            let words: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
            RequestWriter::new(&mut out).request(&words);
        }
        self.send_raw(&out);
        requests.iter().map(|_| self.reply()).collect()
    }
}
