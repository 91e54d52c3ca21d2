//! A client's reaction to an error reply.

use sidle_cluster::HostPort;
use sidle_types::MigrationId;

/// The meaning of an error reply for the operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ErrorMeaning {
    /// Another node has the key: ask there.
    Redirect {
        /// Whether this holds for this one request (ASK), not for the slot (MOVED).
        is_ask: bool,
        to: RedirectTo,
    },
    /// The node cannot answer at present; the request had no effect.
    NotNow,
    /// The key is moving to the node: retry after so many microseconds. The request had no effect.
    Retry(u32),
    /// The key was given to the target of this migration: ask there. The request had no effect.
    Given(MigrationId),
    /// The source of a double read: the migration is over.
    SidleDone,
    /// The source of a double read: not frozen for that migration.
    SidleNotFrozen,
    /// The node does not know whether the request has run. If it is to run once, it is sent again.
    Unknown,
    /// The answer to the request. Also that nobody knows any more whether it has run: sent again, it would be
    /// refused again.
    Final,
}

/// The target of a redirect.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RedirectTo {
    /// This node.
    Address(HostPort),
    /// Another port of the node that answered.
    SameHost(u16),
}

impl ErrorMeaning {
    pub(crate) fn of(text: &[u8]) -> ErrorMeaning {
        let mut words = text.split(|&byte| byte == b' ');
        match words.next() {
            Some(code @ (b"MOVED" | b"ASK")) => match words.nth(1).and_then(parse_target) {
                Some(to) => ErrorMeaning::Redirect { is_ask: code == b"ASK", to },
                None => ErrorMeaning::Final,
            },
            Some(b"LOADING" | b"CLUSTERDOWN" | b"TRYAGAIN" | b"MASTERDOWN") => ErrorMeaning::NotNow,
            Some(b"SIDLERETRY") => match words.next().and_then(parse_number) {
                Some(after_us) => ErrorMeaning::Retry(after_us),
                None => ErrorMeaning::NotNow,
            },
            Some(b"SIDLEGIVEN") => match words.next().and_then(parse_number) {
                Some(id) => ErrorMeaning::Given(MigrationId(id)),
                None => ErrorMeaning::NotNow,
            },
            Some(b"SIDLEDONE") => ErrorMeaning::SidleDone,
            Some(b"SIDLENOTFROZEN") => ErrorMeaning::SidleNotFrozen,
            Some(b"SIDLEUNKNOWN") => ErrorMeaning::Unknown,
            _ => ErrorMeaning::Final,
        }
    }
}

impl ErrorMeaning {
    /// Whether the node has refused a write before it looked whether the request had run.
    pub(crate) fn is_refusal(text: &[u8]) -> bool {
        matches!(code(text), b"MISCONF" | b"NOREPLICAS" | b"NOAUTH" | b"NOPERM" | b"READONLY")
    }
}

fn code(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == b' ').next().unwrap_or_default()
}

fn parse_number<N: std::str::FromStr>(word: &[u8]) -> Option<N> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn parse_target(word: &[u8]) -> Option<RedirectTo> {
    let text = std::str::from_utf8(word).ok()?;
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok()?;
    if host.is_empty() {
        return Some(RedirectTo::SameHost(port));
    }
    // Redis writes IPv6 addresses without brackets.
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    HostPort::new(host, port).ok().map(RedirectTo::Address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_recognized() {
        let to = |host: &str, port| RedirectTo::Address(HostPort::new(host, port).unwrap());
        for (text, meaning) in [
            (
                "MOVED 3999 127.0.0.1:6381",
                ErrorMeaning::Redirect { is_ask: false, to: to("127.0.0.1", 6381) },
            ),
            ("ASK 3999 ::1:6381", ErrorMeaning::Redirect { is_ask: true, to: to("::1", 6381) }),
            ("ASK 3999 [::1]:6381", ErrorMeaning::Redirect { is_ask: true, to: to("::1", 6381) }),
            ("MOVED 1 :6381", ErrorMeaning::Redirect { is_ask: false, to: RedirectTo::SameHost(6381) }),
            ("MOVED 1", ErrorMeaning::Final),
            ("MOVED 1 nowhere", ErrorMeaning::Final),
            ("LOADING Redis is loading the dataset in memory", ErrorMeaning::NotNow),
            ("SIDLERETRY 40 the key is on its way", ErrorMeaning::Retry(40)),
            ("SIDLERETRY soon", ErrorMeaning::NotNow),
            ("SIDLEGIVEN 7 this node has given the key", ErrorMeaning::Given(MigrationId(7))),
            ("SIDLEGIVEN", ErrorMeaning::NotNow),
            ("SIDLEDONE migration 7 is over, ask the owner", ErrorMeaning::SidleDone),
            ("SIDLENOTFROZEN migration 7", ErrorMeaning::SidleNotFrozen),
            ("SIDLEUNKNOWN whether the command was carried out is unknown", ErrorMeaning::Unknown),
            ("SIDLELATE the request was issued long ago", ErrorMeaning::Final),
            ("WRONGTYPE Operation against a key", ErrorMeaning::Final),
            ("", ErrorMeaning::Final),
        ] {
            assert_eq!(ErrorMeaning::of(text.as_bytes()), meaning, "{text}");
        }
    }
}
