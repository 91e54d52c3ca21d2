//! A server that is asked in batches, and what its process used.

use anyhow::{Context, bail, ensure};
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, RequestWriter, Value};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection to a server, and its process.
pub(super) struct Asked {
    stream: TcpStream,
    received: Vec<u8>,
    process: u64,
}

impl Asked {
    pub(super) fn connect(port: u16) -> anyhow::Result<Asked> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut asked = Asked { stream, received: Vec::new(), process: 0 };
        asked.process = asked.number_of_info("server", "process_id")?;
        Ok(asked)
    }

    /// Sends so many requests in batches, and reads their replies.
    pub(super) fn send(
        &mut self,
        requests: u64,
        depth: u64,
        request: impl Fn(u64) -> Vec<String>,
    ) -> anyhow::Result<()> {
        let mut sent = 0;
        while sent < requests {
            let batch = depth.min(requests - sent);
            let mut bytes = Vec::new();
            (sent..sent + batch).for_each(|number| encode(&request(number), &mut bytes));
            self.stream.write_all(&bytes)?;
            for _ in 0..batch {
                if let Value::Error(error) = self.reply()? {
                    bail!("{error}");
                }
            }
            sent += batch;
        }
        Ok(())
    }

    fn ask(&mut self, words: &[&str]) -> anyhow::Result<Value> {
        let mut bytes = Vec::new();
        encode(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>(), &mut bytes);
        self.stream.write_all(&bytes)?;
        self.reply()
    }

    fn reply(&mut self) -> anyhow::Result<Value> {
        loop {
            if let ParsedReply::Complete { frame, consumed } =
                ReplyParser::new(ReplyLimits::default()).parse(&self.received)?
            {
                let value = frame.reply.to_value();
                self.received.drain(..consumed);
                return Ok(value);
            }
            let mut piece = [0; 64 << 10];
            let read = self.stream.read(&mut piece)?;
            ensure!(read > 0, "the server closed the connection");
            self.received.extend_from_slice(&piece[..read]);
        }
    }

    fn info(&mut self, section: &str) -> anyhow::Result<String> {
        let Value::Bulk(text) = self.ask(&["INFO", section])? else { bail!("INFO is no text") };
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn number_of_info(&mut self, section: &str, field: &str) -> anyhow::Result<u64> {
        number_in(&self.info(section)?, field)
    }

    /// The bytes that its data needs. Of Sidle's log only what is live: the rest is reused when memory is
    /// short.
    pub(super) fn needed_memory(&mut self) -> anyhow::Result<u64> {
        let text = self.info("memory")?;
        match number_in(&text, "used_memory_log_live") {
            Ok(live) => Ok(live + number_in(&text, "used_memory_index")?),
            Err(_) => number_in(&text, "used_memory"),
        }
    }

    /// The processor time of all threads of its process so far.
    pub(super) fn processor_ns(&self) -> anyhow::Result<u64> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.process));
        let mut ns = 0;
        for task in fs::read_dir(&tasks).with_context(|| format!("no {}", tasks.display()))? {
            // A thread may end in between.
            let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
            ns += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(ns)
    }

    /// Removes a key; how long the reply takes.
    pub(super) fn removed_in_ms(&mut self, key: &str) -> anyhow::Result<f64> {
        let began = Instant::now();
        ensure!(self.ask(&["DEL", key])? == Value::Integer(1), "{key} was there");
        Ok(began.elapsed().as_secs_f64() * 1e3)
    }
}

fn number_in(info: &str, field: &str) -> anyhow::Result<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Ok(line.with_context(|| format!("INFO has no {field}"))?.trim().parse()?)
}

fn encode(words: &[String], bytes: &mut Vec<u8>) {
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    RequestWriter::new(bytes).request(&words);
}
