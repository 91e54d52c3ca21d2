//! The events of a run: a digest of all, and on demand the story in words.

/// Takes the lines of a story: the time in microseconds, and what happened.
pub type Listener = Box<dyn FnMut(u64, &str)>;

/// A run's digest so far, and its listener.
#[derive(Default)]
pub struct Story {
    digest: u64,
    listener: Option<Listener>,
}

impl Story {
    /// A story with a listener.
    pub fn told_to(listener: Listener) -> Story {
        Story { digest: 0, listener: Some(listener) }
    }

    /// A story without a listener.
    pub fn silent() -> Story {
        Story::default()
    }

    /// Mixes a number into the digest.
    pub fn note(&mut self, word: u64) {
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Passes a line to the listener, if there is one.
    pub fn tell(&mut self, at_us: u64, line: impl FnOnce() -> String) {
        if let Some(listener) = &mut self.listener {
            listener(at_us, &line());
        }
    }

    /// The digest: two runs of a seed have the same.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

impl std::fmt::Debug for Story {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Story").field("digest", &self.digest).finish_non_exhaustive()
    }
}
