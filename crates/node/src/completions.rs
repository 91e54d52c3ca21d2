//! What a client's requests have done that are to run once: the value of a completion key.
//!
//! Each client has one such value in each slot that it writes to (RIFL, section 3: a completion record of
//! every request; here one record a client and slot, whose next state replaces the last one). It has the
//! replies to the requests that the client may still repeat. It lies in the slot of the keys that were
//! written, and is written in one change with them. So whoever has the keys has it: the durable log, its
//! copies, a takeover, and every migration.
//!
//! Invariants:
//! - N1: a request's writes and the reply to it are in one change: both are there, or neither.
//! - N2: the reply to a request goes only when its client has reported that it needs it no more. What it
//!   has reported stays: a request below that is refused, though it may arrive late.
//! - N3: a value outlives by minutes what may still arrive of the requests in it: one that was issued longer
//!   ago is refused.
//!
//! The value, little-endian: a byte for the layout (1), the lowest number that is open (8 bytes), and for
//! each reply its number (8), its version of RESP (1), its length (4) and its bytes.

use sidle_resp::RespVersion;
use sidle_types::{WallMs, fault};

/// The layout.
const LAYOUT: u8 = 1;
/// Its layout and the lowest number.
const HEAD_BYTES: usize = 9;
/// What comes before a reply.
const REPLY_HEAD_BYTES: usize = 13;
/// How many requests of a client may be open in one slot. Their replies are copied with each new one.
pub(crate) const OPEN_REQUESTS_MAX: usize = 64;
/// How many bytes a value may take: its open replies are copied with each new one.
pub(crate) const VALUE_BYTES_MAX: usize = 4 << 20;
/// A request that was issued longer ago is refused.
pub(crate) const MAY_ARRIVE_MS: u64 = 5 * 60 * 1000;
/// A clock may be so far ahead of a node's.
pub(crate) const CLOCKS_APART_MS: u64 = 60 * 1000;
/// The year 2001, and one that no clock shows: a time before or behind is in another unit.
const MILLISECONDS: std::ops::Range<u64> = 978_307_200_000..100_000_000_000_000;
/// A value is kept so long after its last change (N3).
pub(crate) const KEPT_MS: u64 = 2 * MAY_ARRIVE_MS;

/// One of a client's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId {
    /// Its number: higher than those of all requests that the client issued before.
    pub(crate) number: u64,
    /// The lowest number whose reply the client may still need.
    pub(crate) lowest_open: u64,
    /// When this attempt was issued.
    pub(crate) issued: WallMs,
}

/// What is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known<'v> {
    /// Nothing: it is to run.
    New,
    /// It has run, with this reply.
    Done(&'v [u8]),
    /// It has run, with a reply in another version of RESP.
    DoneInOtherVersion,
    /// Its client has reported that it needs no reply to it any more.
    Stale,
    /// Too many others are open.
    TooManyOpen,
}

/// When a request arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// In time.
    InTime,
    /// Too late to know whether it ran (N3).
    TooLate,
    /// Before it was issued: a clock is wrong.
    TooEarly,
    /// When it was issued is not given in milliseconds.
    OtherUnit,
}

impl RequestId {
    /// When it arrives, by this node's clock.
    pub(crate) fn arrival(self, now: WallMs) -> Arrival {
        if MILLISECONDS.contains(&now.0) && !MILLISECONDS.contains(&self.issued.0) {
            Arrival::OtherUnit
        } else if self.issued.0.saturating_add(MAY_ARRIVE_MS) < now.0 && !fault!(OldRequestRuns) {
            Arrival::TooLate
        } else if self.issued.0 > now.0.saturating_add(CLOCKS_APART_MS) {
            Arrival::TooEarly
        } else {
            Arrival::InTime
        }
    }
}

/// The replies of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completions<'v> {
    lowest_open: u64,
    replies: &'v [u8],
}

#[derive(Clone, Copy)]
struct Reply<'v> {
    number: u64,
    version: u8,
    bytes: &'v [u8],
    /// With what comes before it.
    whole: &'v [u8],
}

impl<'v> Completions<'v> {
    /// Those of a client that has none in the slot.
    pub(crate) const NONE: Completions<'static> = Completions { lowest_open: 0, replies: &[] };

    /// Reads a value; nothing if it is of a later layout.
    pub(crate) fn read(value: &'v [u8]) -> Option<Completions<'v>> {
        let (head, replies) = value.split_at_checked(HEAD_BYTES)?;
        let (&[layout], lowest_open) = head.split_first_chunk()?;
        let lowest_open = u64::from_le_bytes(lowest_open.try_into().ok()?);
        (layout == LAYOUT).then_some(Completions { lowest_open, replies })
    }

    fn replies(self) -> impl Iterator<Item = Reply<'v>> {
        let mut rest = self.replies;
        std::iter::from_fn(move || {
            let (number, after) = rest.split_first_chunk()?;
            let (&[version], after) = after.split_first_chunk()?;
            let (length, after) = after.split_first_chunk()?;
            let (bytes, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            let whole = &rest[..REPLY_HEAD_BYTES + bytes.len()];
            rest = after;
            Some(Reply { number: u64::from_le_bytes(*number), version, bytes, whole })
        })
    }

    /// What is known of a request.
    pub(crate) fn find(self, id: RequestId, version: RespVersion) -> Known<'v> {
        if let Some(reply) = self.replies().find(|reply| reply.number == id.number) {
            return match reply.version == number_of(version) {
                true => Known::Done(reply.bytes),
                false => Known::DoneInOtherVersion,
            };
        }
        let is_open = |reply: &Reply<'_>| reply.number >= id.lowest_open;
        if id.number < self.lowest_open {
            Known::Stale
        } else if self.replies().filter(is_open).count() >= OPEN_REQUESTS_MAX {
            Known::TooManyOpen
        } else {
            Known::New
        }
    }

    /// The value once this request has run, with this reply; nothing if it would be too long.
    pub(crate) fn with(self, id: RequestId, version: RespVersion, reply: &[u8]) -> Option<Vec<u8>> {
        let lowest_open = self.lowest_open.max(id.lowest_open);
        let kept = if fault!(LowestOpenIsForgotten) { 0 } else { lowest_open };
        let open = self.replies().filter(|reply| reply.number >= lowest_open);
        let before: usize = open.map(|reply| reply.whole.len()).sum();
        let bytes = HEAD_BYTES + before + REPLY_HEAD_BYTES + reply.len();
        if bytes > VALUE_BYTES_MAX {
            return None;
        }
        let mut value = Vec::with_capacity(bytes);
        value.push(LAYOUT);
        value.extend_from_slice(&kept.to_le_bytes());
        // N2
        let open = self.replies().filter(|reply| reply.number >= lowest_open);
        open.for_each(|reply| value.extend_from_slice(reply.whole));
        value.extend_from_slice(&id.number.to_le_bytes());
        value.push(number_of(version));
        value.extend_from_slice(&(reply.len() as u32).to_le_bytes());
        value.extend_from_slice(reply);
        Some(value)
    }
}

fn number_of(version: RespVersion) -> u8 {
    match version {
        RespVersion::Resp2 => 2,
        RespVersion::Resp3 => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RespVersion::{Resp2, Resp3};

    fn id(number: u64, lowest_open: u64) -> RequestId {
        RequestId { number, lowest_open, issued: WallMs(0) }
    }

    #[test]
    fn a_reply_is_found_until_its_client_needs_it_no_more_and_then_the_request_is_stale() {
        let none = Completions::NONE;
        assert_eq!(none.find(id(1, 1), Resp2), Known::New);
        let first = none.with(id(1, 1), Resp2, b":1\r\n").unwrap();
        let known = Completions::read(&first).unwrap();
        assert_eq!(known.find(id(1, 1), Resp2), Known::Done(b":1\r\n"));
        assert_eq!(known.find(id(1, 1), Resp3), Known::DoneInOtherVersion);
        assert_eq!(known.find(id(2, 1), Resp2), Known::New);
        let both = known.with(id(2, 1), Resp3, b"").unwrap();
        let known = Completions::read(&both).unwrap();
        assert_eq!(known.find(id(1, 1), Resp2), Known::Done(b":1\r\n"));
        assert_eq!(known.find(id(2, 1), Resp3), Known::Done(b""));
        let third = known.with(id(5, 2), Resp2, b"+OK\r\n").unwrap();
        let known = Completions::read(&third).unwrap();
        assert_eq!(known.find(id(1, 1), Resp2), Known::Stale);
        assert_eq!(known.find(id(2, 2), Resp3), Known::Done(b""));
        // Issued later than what has run, and with a lower number: it has not run.
        assert_eq!(known.find(id(4, 2), Resp2), Known::New);
    }

    #[test]
    fn requests_that_stay_open_are_limited() {
        let mut value = Completions::NONE.with(id(1, 1), Resp2, b"+OK\r\n").unwrap();
        for number in 2..=OPEN_REQUESTS_MAX as u64 {
            assert_eq!(Completions::read(&value).unwrap().find(id(number, 1), Resp2), Known::New);
            value = Completions::read(&value).unwrap().with(id(number, 1), Resp2, b"+OK\r\n").unwrap();
        }
        let known = Completions::read(&value).unwrap();
        let next = OPEN_REQUESTS_MAX as u64 + 1;
        assert_eq!(known.find(id(next, 1), Resp2), Known::TooManyOpen);
        assert_eq!(known.find(id(next, 2), Resp2), Known::New);
    }

    #[test]
    fn replies_that_stay_open_take_so_many_bytes_and_no_more() {
        let half = vec![b'x'; VALUE_BYTES_MAX / 2];
        let first = Completions::NONE.with(id(1, 1), Resp2, &half).unwrap();
        let known = Completions::read(&first).unwrap();
        assert_eq!(known.with(id(2, 1), Resp2, &half), None);
        assert_eq!(Completions::NONE.with(id(1, 1), Resp2, &vec![b'x'; VALUE_BYTES_MAX]), None);
        assert!(known.with(id(2, 2), Resp2, &half).is_some(), "the first is not needed any more");
    }

    #[test]
    fn what_is_no_value_is_none_and_what_is_cut_has_the_replies_before() {
        for wrong in [&b""[..], b"1", &[2; 40]] {
            assert_eq!(Completions::read(wrong), None);
        }
        let value = Completions::NONE.with(id(7, 1), Resp2, b":1\r\n").unwrap();
        for end in HEAD_BYTES..value.len() {
            let known = Completions::read(&value[..end]).unwrap();
            assert_eq!(known.find(id(7, 1), Resp2), Known::New);
        }
    }

    #[test]
    fn a_request_arrives_in_time_too_late_or_too_early() {
        let issued = |ms| RequestId { issued: WallMs(ms), ..id(1, 1) };
        let now = WallMs(1_000_000);
        assert_eq!(issued(1_000_000).arrival(now), Arrival::InTime);
        assert_eq!(issued(700_000).arrival(now), Arrival::InTime);
        assert_eq!(issued(699_999).arrival(now), Arrival::TooLate);
        assert_eq!(issued(1_060_000).arrival(now), Arrival::InTime);
        assert_eq!(issued(1_060_001).arrival(now), Arrival::TooEarly);
        assert_eq!(issued(u64::MAX).arrival(now), Arrival::TooEarly);
    }

    #[test]
    fn a_time_in_another_unit_is_told_from_one_that_is_late_or_early() {
        let now = WallMs(1_764_512_000_000);
        let arrival = |issued| RequestId { issued: WallMs(issued), ..id(1, 1) }.arrival(now);
        assert_eq!(arrival(now.0), Arrival::InTime);
        assert_eq!(arrival(now.0 - MAY_ARRIVE_MS - 1), Arrival::TooLate);
        assert_eq!(arrival(now.0 / 1000), Arrival::OtherUnit, "seconds");
        assert_eq!(arrival(now.0 * 1000), Arrival::OtherUnit, "microseconds");
        assert_eq!(arrival(0), Arrival::OtherUnit);
    }
}
