//! What is shown again and again, until Ctrl-C.

use crate::hints;
use crate::node_connection::NodeConnection;
use crate::via::Reach;
use sidle_cli::exit::{Failure, Status};
use std::io::{IsTerminal, stdout};
use std::time::Duration;

/// How often it is shown.
const INTERVAL: Duration = Duration::from_secs(1);
/// Clears the screen and moves to its upper left corner.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shows a text every second. A node that is unreachable for a while does not end it. `is_json`: the texts
/// stand one behind the other on a terminal, too.
pub(crate) async fn watch(
    reach: &Reach,
    is_json: bool,
    shown: impl AsyncFnMut(&mut NodeConnection) -> Result<String, Failure>,
) -> Result<(), Failure> {
    tokio::select! {
        ended = watch_on(reach, is_json, shown) => ended,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn watch_on(
    reach: &Reach,
    is_json: bool,
    mut shown: impl AsyncFnMut(&mut NodeConnection) -> Result<String, Failure>,
) -> Result<(), Failure> {
    let mut node = NodeConnection::open(reach).await?;
    loop {
        node.begin_anew();
        let text = match shown(&mut node).await {
            Err(failure) if failure.status == Status::Unreachable => {
                if let Ok(again) = NodeConnection::open(reach).await {
                    node = again;
                }
                format!("{}\n", hints::reaching(&failure.message, &reach.via))
            }
            other => other?,
        };
        match is_json {
            true => print!("{text}"),
            false => print!("{}", picture(&text, stdout().is_terminal())),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// One of many pictures: it takes the place of the one before on a terminal, and follows it elsewhere.
fn picture(text: &str, is_terminal: bool) -> String {
    match is_terminal {
        true => format!("{CLEAR}{text}\nEvery second; Ctrl-C ends it.\n"),
        false => format!("{text}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_that_no_terminal_shows_follow_each_other() {
        assert_eq!(picture("a\nb\n", false), "a\nb\n\n");
        assert!(picture("a\n", true).starts_with(CLEAR));
    }
}
