//! CLIENT KILL: ends other connections, and this one on request.

use crate::access::Access;
use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::clients::{ClientRecord, Ending};
use sidle_commands::parse_i64;
use sidle_types::WallMs;

/// The kinds of connections that Redis distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Clients: the only kind here.
    Normal,
    /// Replicas, masters and subscribers.
    Other,
}

impl Kind {
    /// Parses the word behind TYPE.
    pub(super) fn parse(word: &[u8]) -> Result<Kind, ReplyError> {
        match word.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Kind::Normal),
            b"master" | b"replica" | b"slave" | b"pubsub" => Ok(Kind::Other),
            _ => Err(ReplyError::owned([b"ERR Unknown client type '", word, b"'"].concat())),
        }
    }

    /// Whether there are connections of this kind.
    pub(super) fn is_here(self) -> bool {
        self == Kind::Normal
    }
}

/// Which connections match.
#[derive(Debug)]
struct Filter<'a> {
    id: Option<i64>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    kind: Option<Kind>,
    longest_age_s: Option<i64>,
    user: Option<&'a [u8]>,
    skips_me: bool,
}

impl<'a> Filter<'a> {
    const ALL: Filter<'static> = Filter {
        id: None,
        address: None,
        local_address: None,
        kind: None,
        longest_age_s: None,
        user: None,
        skips_me: true,
    };

    fn parse(mut options: &[&'a [u8]], access: &Access) -> Result<Filter<'a>, ReplyError> {
        let mut filter: Filter<'a> = Filter::ALL;
        while let [option, rest @ ..] = options {
            let [value, rest @ ..] = rest else { return Err(ReplyError::Syntax) };
            options = rest;
            match option.to_ascii_lowercase().as_slice() {
                b"id" => filter.id = Some(positive(value, "ERR client-id should be greater than 0")?),
                b"type" => filter.kind = Some(Kind::parse(value)?),
                b"addr" => filter.address = Some(value),
                b"laddr" => filter.local_address = Some(value),
                b"user" if access.users().find(value).is_some() => filter.user = Some(value),
                b"user" => return Err(ReplyError::owned([b"ERR No such user '", *value, b"'"].concat())),
                b"maxage" => {
                    let refusal = "ERR maxage is not an integer or out of range";
                    filter.longest_age_s = Some(positive(value, refusal)?);
                }
                b"skipme" => match value.to_ascii_lowercase().as_slice() {
                    b"yes" => filter.skips_me = true,
                    b"no" => filter.skips_me = false,
                    _ => return Err(ReplyError::Syntax),
                },
                _ => return Err(ReplyError::Syntax),
            }
        }
        Ok(filter)
    }

    fn matches(&self, client: &ClientRecord, now: WallMs) -> bool {
        let age_s = (now.0.saturating_sub(client.connected_at.0) / 1000) as i64;
        self.id.is_none_or(|id| id == client.id as i64)
            && self.address.is_none_or(|address| address == client.address.as_bytes())
            && self.local_address.is_none_or(|address| address == client.local_address.as_bytes())
            && self.kind.is_none_or(Kind::is_here)
            && self.user.is_none_or(|user| user == client.user())
            && self.longest_age_s.is_none_or(|longest_s| age_s >= longest_s)
    }
}

fn positive(text: &[u8], refusal: &'static str) -> Result<i64, ReplyError> {
    parse_i64(text).filter(|&number| number > 0).ok_or(ReplyError::text(refusal))
}

/// `CLIENT KILL <address>`, or options in pairs. The first form replies OK or an error, the second the number
/// of connections that it ended.
pub(super) fn kill(call: &mut Call<'_>) -> CommandResult {
    let one_address = match call.args[2..] {
        [address] => Some(Filter { address: Some(address), skips_me: false, ..Filter::ALL }),
        _ => None,
    };
    let is_old_form = one_address.is_some();
    let filter = match one_address {
        Some(filter) => filter,
        None => Filter::parse(&call.args[2..], &call.shared.access)?,
    };
    let clients = &call.shared.clients;
    let own_id = call.session.client.id;
    let (mut killed, mut is_own_end) = (0, false);
    for client in clients.list().iter().filter(|client| filter.matches(client, call.now)) {
        if client.id != own_id {
            killed += i64::from(clients.end(client, Ending::Killed));
        } else if !filter.skips_me {
            killed += 1;
            is_own_end = true;
        }
    }
    match (is_old_form, killed) {
        (true, 0) => return Err(ReplyError::text("ERR No such client")),
        (true, _) => call.reply.ok(),
        (false, _) => call.reply.integer(killed),
    }
    Ok(if is_own_end { Flow::Close } else { Flow::Done })
}
