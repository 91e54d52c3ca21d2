//! The end of an operation.

use sidle_resp::Reply;

/// The caller's name for an operation; returned with its outcome.
pub type Token = u64;

/// The effect of a failed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It certainly had no effect and never will.
    None,
    /// It had its effect.
    Done,
    /// It may have had its effect, or have it at any later time.
    Unknown,
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No answer came in time.
    TimedOut,
    /// The connection was lost after the request was sent.
    ConnectionLost,
    /// The cluster redirected the request too often.
    TooManyTries,
}

/// An operation without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Failure {
    /// Why.
    pub reason: Reason,
    /// Its effect. A read has none.
    pub effect: Effect,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.reason {
            Reason::TimedOut => "no answer came in time",
            Reason::ConnectionLost => "the connection was lost before the answer",
            Reason::TooManyTries => "the request was sent from node to node too often",
        })?;
        f.write_str(match self.effect {
            Effect::None => "; it had no effect",
            Effect::Done => "; it had its effect",
            Effect::Unknown => "; whether it had its effect is unknown",
        })
    }
}

impl std::error::Error for Failure {}

/// How an operation ended.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'r> {
    /// With this reply, borrowed for the call. It may be a server's error: such an operation had no effect.
    Reply(Reply<'r>),
    /// Without an answer.
    Failed(Failure),
}

/// Receives the outcomes of operations. Called inside the [`Core`](crate::Core), which cannot be called back
/// meanwhile: note the token, and submit a next operation after the call into the core.
pub trait Completions {
    /// This node (a number in the order of [`Core::nodes`](crate::Core::nodes)) sent the reply that
    /// [`completed`](Self::completed) gets next for this token.
    #[inline]
    fn answered_by(&mut self, _token: Token, _node: usize) {}

    /// The operation with this token has ended.
    fn completed(&mut self, token: Token, outcome: Outcome<'_>);
}

impl<F: FnMut(Token, Outcome<'_>)> Completions for F {
    #[inline]
    fn completed(&mut self, token: Token, outcome: Outcome<'_>) {
        self(token, outcome);
    }
}
