//! The remedies in messages about a server that does not answer as it should. The command lines in
//! messages reach the cluster that the command itself was given.

use crate::via::{DEFAULT_VIA, PASSWORD_VARIABLE, Via};
use sidle_cli::exit::Failure;

/// For an unreachable server.
pub(crate) fn unreachable(address: &str, why: impl std::fmt::Display) -> String {
    format!(
        "cannot reach a server at {address}: {why}. Start a node with `sidle server`, or name another server with \
         --via HOST:PORT"
    )
}

/// For a server that takes the connection and does not answer. `patience`: how long it had.
pub(crate) fn silent(address: &str, patience: &str) -> String {
    format!(
        "the server at {address} accepted the connection and did not answer in {patience}: its process is stopped or \
         hangs, or its machine is overloaded. See whether it runs and what its log ends with (a stopped one goes on \
         with SIGCONT), or name another server with --via HOST:PORT"
    )
}

/// For a server that answers with something else than a reply, or with nothing.
pub(crate) fn no_redis(address: &str, why: impl std::fmt::Display) -> String {
    format!(
        "what answers at {address} does not speak the Redis protocol: {why}. If a node runs there, this may be its port for \
         nodes: give the one for clients, which is 10000 lower unless it was set, and which its log names (`clients at`)"
    )
}

/// The commands that take `--via`.
const REACHING: [&str; 8] = ["bench", "forget", "import", "migrate", "status", "takeover", "top", "upgrade"];

/// Makes the command lines in a text work as they stand: each goes to this command's node,
/// unless it names one itself. A password stays off the line: one from the environment also serves the next
/// command; for any other, the text mentions that it is needed.
pub(crate) fn reaching(text: &str, via: &Via) -> String {
    let is_default = via.via == DEFAULT_VIA;
    let in_environment = std::env::var(PASSWORD_VARIABLE).ok();
    let needs_password = via.password.is_some() && via.password != in_environment;
    let mut found = false;
    // Every other part stands between two backticks.
    let parts = text.split('`').enumerate().map(|(index, part)| {
        if index % 2 == 0 || !goes_to_a_node(part) {
            return part.to_owned();
        }
        found = true;
        if is_default { part.to_owned() } else { format!("{part} --via {}", via.via) }
    });
    let reaching = parts.collect::<Vec<_>>().join("`");
    match found && needs_password {
        true => format!("{reaching}. Give it the password as here, or in {PASSWORD_VARIABLE}"),
        false => reaching,
    }
}

/// Whether a text in backticks is a command line that goes to the default node unless it names one.
fn goes_to_a_node(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("sidle")
        && words.next().is_some_and(|command| REACHING.contains(&command))
        && !words.any(|word| word == "--via")
}

/// The failure, with command lines that work.
pub(crate) fn reaching_failure(failure: Failure, via: &Via) -> Failure {
    Failure { message: reaching(&failure.message, via), ..failure }
}

/// For an error reply: its text, with the remedy if that is known.
pub(crate) fn refused(address: &str, text: &str) -> String {
    let shown = text.strip_prefix("ERR ").unwrap_or(text);
    if text.starts_with("NOAUTH") || text.starts_with("WRONGPASS") {
        format!("{shown} Give it with --password or in SIDLE_PASSWORD")
    } else if shown.starts_with("unknown command 'SIDLE.") {
        format!("what answers at {address} is not a Sidle node. Name one with --via HOST:PORT")
    } else if shown.starts_with("AUTH <password> called without any password") {
        format!("the server at {address} has no password: leave out --password and SIDLE_PASSWORD")
    } else {
        // Of a node whose start waits: the reason says it all.
        shown.strip_prefix("LOADING this").map_or(shown.to_owned(), |rest| format!("this{rest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn via(via: &str, password: Option<&str>) -> Via {
        Via { via: via.to_owned(), password: password.map(str::to_owned) }
    }

    #[test]
    fn the_commands_that_take_the_address_are_those_of_the_command_line() {
        let command = Cli::command();
        let takes_it =
            |command: &&clap::Command| command.get_arguments().any(|argument| argument.get_id() == "via");
        let mut reaching: Vec<&str> =
            command.get_subcommands().filter(takes_it).map(clap::Command::get_name).collect();
        reaching.sort_unstable();
        assert_eq!(reaching, REACHING);
    }

    #[test]
    fn lines_go_where_the_command_went() {
        let text = "ask `sidle status`, `sidle migrate set 3 --rate 50` or `sidle server --join a:1`, of `a`";
        assert_eq!(reaching(text, &via(DEFAULT_VIA, None)), text);
        let elsewhere = "ask `sidle status --via b:2`, `sidle migrate set 3 --rate 50 --via b:2` or `sidle server \
                         --join a:1`, of `a`";
        assert_eq!(reaching(text, &via("b:2", None)), elsewhere);
        assert_eq!(reaching(elsewhere, &via("c:3", None)), elsewhere, "it names one itself");
    }

    #[test]
    fn no_line_shows_the_password() {
        let shown = reaching("see `sidle status`", &via("b:2", Some("hush")));
        assert!(shown.starts_with("see `sidle status --via b:2`. Give it the password"), "{shown}");
        assert!(!shown.contains("hush") && shown.contains(PASSWORD_VARIABLE), "{shown}");
        assert_eq!(reaching("it is over", &via("b:2", Some("hush"))), "it is over");
    }

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
