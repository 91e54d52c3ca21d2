//! Messages waiting to be sent to other nodes in conversations.
//!
//! Every message may be lost (M10): one without room is dropped, and its sender sends it again. A
//! receiver that reads slowly, or a thousand of them, cannot make this node hold more than its bounds.

use crate::bus;
use sidle_cluster::ControlMessage;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::mpsc;

/// How many messages may wait in one conversation.
const MESSAGES_MAX: usize = 256;
/// How many bytes may wait in one conversation before a further message is dropped.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// How many bytes may wait in all conversations together: a few of the largest messages, or many usual ones.
const TOTAL_BYTES_MAX: usize = 64 << 20;

/// A message on its way, and its share of the bounds.
struct Waiting {
    frame: Vec<u8>,
    here: Arc<AtomicUsize>,
    everywhere: Arc<AtomicUsize>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.here.fetch_sub(self.frame.len(), Relaxed);
        self.everywhere.fetch_sub(self.frame.len(), Relaxed);
    }
}

/// The state shared by all conversations of the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outboxes {
    bytes: Arc<AtomicUsize>,
}

/// The sending end of a conversation.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    sender: mpsc::Sender<Waiting>,
    /// The receiver rejects longer bodies, which would end the conversation.
    body_bytes_max: usize,
    here: Arc<AtomicUsize>,
    everywhere: Arc<AtomicUsize>,
}

/// The receiving end of a conversation's queue of messages to send.
pub(super) struct Queue(mpsc::Receiver<Waiting>);

impl Outboxes {
    /// The two ends of a new conversation's queue, for messages of at most this many bytes.
    pub(super) fn open(&self, body_bytes_max: usize) -> (Outbox, Queue) {
        let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
        let everywhere = Arc::clone(&self.bytes);
        (Outbox { sender, body_bytes_max, here: Arc::default(), everywhere }, Queue(receiver))
    }
}

impl Outbox {
    /// Sends a message, unless the conversation is over or has no room for it.
    pub(crate) fn send(&self, message: &ControlMessage) {
        let json = message.to_json();
        match bus::control_frame(&json) {
            Ok(frame) if json.len() <= self.body_bytes_max => self.send_frame(frame),
            _ => tracing::error!("a control message of {} bytes is too long to be sent", json.len()),
        }
    }

    /// How many bytes wait to be sent.
    pub(super) fn waiting_bytes(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.here)
    }

    /// Whether the receiver of what is put here is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    fn send_frame(&self, frame: Vec<u8>) {
        let bytes = frame.len();
        let has_room = |waiting: usize, most: usize| waiting == 0 || waiting + bytes <= most;
        if has_room(self.here.load(Relaxed), WAITING_BYTES_MAX)
            && has_room(self.everywhere.load(Relaxed), TOTAL_BYTES_MAX)
        {
            self.here.fetch_add(bytes, Relaxed);
            self.everywhere.fetch_add(bytes, Relaxed);
            let (here, everywhere) = (Arc::clone(&self.here), Arc::clone(&self.everywhere));
            // M10: its sender sends it again.
            let _ = self.sender.try_send(Waiting { frame, here, everywhere });
        }
    }
}

impl Queue {
    /// The next message; `None` once all senders are gone.
    pub(super) async fn next(&mut self) -> Option<impl AsRef<[u8]>> {
        self.0.recv().await
    }

    /// The next message, if there is one.
    #[cfg(test)]
    pub(super) fn try_next(&mut self) -> Option<impl AsRef<[u8]> + use<>> {
        self.0.try_recv().ok()
    }
}

impl AsRef<[u8]> for Waiting {
    fn as_ref(&self) -> &[u8] {
        &self.frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_wire::limits::REQUEST_BODY_BYTES_MAX;

    fn taken(queue: &mut Queue) -> Vec<usize> {
        std::iter::from_fn(|| queue.0.try_recv().ok()).map(|waiting| waiting.frame.len()).collect()
    }

    #[test]
    fn a_receiver_that_does_not_read_is_given_so_much_and_no_more() {
        let outboxes = Outboxes::default();
        let (outbox, mut queue) = outboxes.open(REQUEST_BODY_BYTES_MAX);
        for _ in 0..100 {
            outbox.send_frame(vec![0; WAITING_BYTES_MAX / 4]);
        }
        assert_eq!(taken(&mut queue).len(), 4);
        outbox.send_frame(vec![0; REQUEST_BODY_BYTES_MAX]);
        outbox.send_frame(vec![0; 1]);
        assert_eq!(taken(&mut queue), [REQUEST_BODY_BYTES_MAX], "one of any size while nothing else waits");
        outbox.send_frame(vec![0; 1]);
        assert_eq!(taken(&mut queue), [1], "what was taken makes room");
        for _ in 0..2 * MESSAGES_MAX {
            outbox.send_frame(vec![0; 1]);
        }
        assert_eq!(outboxes.bytes.load(Relaxed), MESSAGES_MAX, "what did not fit is not counted");
        drop(queue);
        assert_eq!(outboxes.bytes.load(Relaxed), 0);
        assert!(outbox.is_closed());
    }

    #[test]
    fn all_receivers_together_are_bounded() {
        let outboxes = Outboxes::default();
        let open: Vec<_> = (0..1_000).map(|_| outboxes.open(REQUEST_BODY_BYTES_MAX)).collect();
        for (outbox, _) in &open {
            outbox.send_frame(vec![0; WAITING_BYTES_MAX]);
        }
        assert_eq!(outboxes.bytes.load(Relaxed), TOTAL_BYTES_MAX);
    }
}
