//! What a message says to do about a server that does not answer as it should.

/// For a server that cannot be reached.
pub(crate) fn unreachable(address: &str, why: impl std::fmt::Display) -> String {
    format!(
        "cannot reach a server at {address}: {why}. Start a node with `sidle server`, or name another server with \
         --via HOST:PORT"
    )
}

/// For an error reply: what it says, with what to do about it where that is known.
pub(crate) fn refused(address: &str, text: &str) -> String {
    let shown = text.strip_prefix("ERR ").unwrap_or(text);
    if text.starts_with("NOAUTH") || text.starts_with("WRONGPASS") {
        format!("{shown} Give it with --password or in SIDLE_PASSWORD")
    } else if shown.starts_with("unknown command 'SIDLE.") {
        format!("what answers at {address} is not a Sidle node. Name one with --via HOST:PORT")
    } else if shown.starts_with("AUTH <password> called without any password") {
        format!("the server at {address} has no password: leave out --password and SIDLE_PASSWORD")
    } else {
        shown.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_says_what_to_do() {
        for (reply, advice) in [
            ("ERR there is no migration 7", "there is no migration 7"),
            ("NOAUTH Authentication required.", "--password"),
            ("ERR unknown command 'SIDLE.STATUS', with args beginning with: ", "a:1 is not a Sidle node"),
            ("ERR AUTH <password> called without any password configured for the default user.", "leave out"),
        ] {
            let given = refused("a:1", reply);
            assert!(given.contains(advice), "{given}");
        }
    }
}
