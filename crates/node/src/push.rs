//! What opted-in clients are told without asking, and replies that come late.

use crate::outcome::ControlReply;
use crate::session::Session;
use crate::worker::Worker;
use sidle_resp::ReplyWriter;

impl Worker {
    /// Tells an opted-in client of a new tablet map, unless it knows: `>2 sidle-map <map epoch>`. To be
    /// called between two replies. Returns whether anything was written.
    pub fn write_pushes(&self, session: &mut Session, out: &mut Vec<u8>) -> bool {
        let epoch = self.executor.ranges.map().epoch();
        if !session.is_aware() || !self.executor.ranges.is_joined() || session.route.map_told >= epoch {
            return false;
        }
        session.route.map_told = epoch;
        let mut reply = ReplyWriter::new(out, session.version);
        reply.push(2);
        reply.bulk(b"sidle-map");
        reply.integer(i64::try_from(epoch.0).expect("map epochs are counted from 1"));
        true
    }

    /// Writes the reply that a connection has waited for since its request ended as
    /// [`Then::Control`](crate::Then::Control).
    pub fn answer(&self, session: &mut Session, reply: &ControlReply, out: &mut Vec<u8>) {
        if !session.sends_reply() {
            return;
        }
        let mut writer = ReplyWriter::new(out, session.version);
        match reply {
            ControlReply::Ok => writer.ok(),
            ControlReply::Integer(number) => writer.integer(*number),
            ControlReply::Text(text) => writer.bulk(text.as_bytes()),
            ControlReply::Error(text) => {
                self.executor.stats.count_error(text.split(' ').next().unwrap_or("ERR").into());
                writer.error(text);
            }
        }
    }
}
