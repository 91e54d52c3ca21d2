//! The operations under way, and the tasks that wait for them.

use crate::error::Error;
use sidle_client_core::{Completions, Outcome, Token};
use sidle_resp::{Reply, Value};
use std::task::{Poll, Waker};

#[derive(Debug)]
enum Place {
    Vacant,
    /// Started; the task to wake, once it has polled.
    Waiting(Option<Waker>),
    Ended(Result<Value, Error>),
    /// The call was dropped.
    Abandoned,
}

/// Operations whose outcome was not fetched; an operation's token is its place.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    places: Vec<Place>,
    vacant: Vec<usize>,
    /// Tasks to wake once no lock is held.
    to_wake: Vec<Waker>,
    is_closed: bool,
}

impl Waiting {
    /// A place for an operation that is about to start.
    pub(crate) fn admit(&mut self) -> usize {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.places.push(Place::Vacant);
            self.places.len() - 1
        });
        self.places[place] = Place::Waiting(None);
        place
    }

    /// Frees the place of an operation that did not start.
    pub(crate) fn withdraw(&mut self, place: usize) {
        self.places[place] = Place::Vacant;
        self.vacant.push(place);
    }

    /// The outcome of an operation, fetched once.
    pub(crate) fn poll(&mut self, place: usize, waker: &Waker) -> Poll<Result<Value, Error>> {
        match &mut self.places[place] {
            Place::Waiting(_) if self.is_closed => {
                self.abandon(place);
                Poll::Ready(Err(Error::Closed))
            }
            Place::Waiting(known) => {
                match known {
                    Some(known) => known.clone_from(waker),
                    None => *known = Some(waker.clone()),
                }
                Poll::Pending
            }
            Place::Ended(_) => {
                let Place::Ended(result) = std::mem::replace(&mut self.places[place], Place::Vacant) else {
                    unreachable!("it was just matched")
                };
                self.vacant.push(place);
                Poll::Ready(result)
            }
            Place::Vacant | Place::Abandoned => unreachable!("an outcome is fetched once"),
        }
    }

    /// The outcome will not be fetched.
    pub(crate) fn abandon(&mut self, place: usize) {
        match self.places[place] {
            Place::Waiting(_) => self.places[place] = Place::Abandoned,
            Place::Ended(_) => self.withdraw(place),
            Place::Vacant | Place::Abandoned => unreachable!("an outcome is given up once"),
        }
    }

    /// No operation will complete any more.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        for place in &mut self.places {
            if let Place::Waiting(waker) = place {
                self.to_wake.extend(waker.take());
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Moves the wakers of tasks with an outcome to `to`.
    pub(crate) fn take_wakers(&mut self, to: &mut Vec<Waker>) {
        to.append(&mut self.to_wake);
    }
}

impl Completions for Waiting {
    fn completed(&mut self, token: Token, outcome: Outcome<'_>) {
        let place = token as usize;
        let result = match outcome {
            Outcome::Reply(Reply::Error(text)) => {
                Err(Error::Server(String::from_utf8_lossy(text).into_owned()))
            }
            Outcome::Reply(reply) => Ok(reply.to_value()),
            Outcome::Failed(failure) => Err(Error::NoAnswer(failure)),
        };
        match std::mem::replace(&mut self.places[place], Place::Ended(result)) {
            Place::Waiting(waker) => self.to_wake.extend(waker),
            Place::Abandoned => self.withdraw(place),
            Place::Vacant | Place::Ended(_) => unreachable!("an operation ends once"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok() -> Outcome<'static> {
        Outcome::Reply(Reply::Simple(b"OK"))
    }

    #[test]
    fn outcomes_are_polled_before_and_after_they_arrive() {
        let mut waiting = Waiting::default();
        let (a, b) = (waiting.admit(), waiting.admit());
        assert!(waiting.poll(a, Waker::noop()).is_pending());
        waiting.completed(a as Token, ok());
        waiting.completed(b as Token, Outcome::Reply(Reply::Error(b"ERR no")));
        let mut wakers = Vec::new();
        waiting.take_wakers(&mut wakers);
        assert_eq!(wakers.len(), 1, "no task polled the other");
        assert_eq!(waiting.poll(a, Waker::noop()), Poll::Ready(Ok(Value::Simple("OK".into()))));
        assert_eq!(waiting.poll(b, Waker::noop()), Poll::Ready(Err(Error::Server("ERR no".into()))));
        assert_eq!(waiting.admit(), b, "places are used again");
    }

    #[test]
    fn abandoned_operations_give_their_place_back_when_they_end() {
        let mut waiting = Waiting::default();
        let (a, b) = (waiting.admit(), waiting.admit());
        waiting.abandon(a);
        waiting.completed(a as Token, ok());
        waiting.completed(b as Token, ok());
        waiting.abandon(b);
        let mut places = [waiting.admit(), waiting.admit()];
        places.sort_unstable();
        assert_eq!(places, [a, b]);
    }

    #[test]
    fn closing_ends_what_waits() {
        let mut waiting = Waiting::default();
        let place = waiting.admit();
        assert!(waiting.poll(place, Waker::noop()).is_pending());
        waiting.close();
        assert_eq!(waiting.poll(place, Waker::noop()), Poll::Ready(Err(Error::Closed)));
    }
}
