//! `sidle upgrade`: raises the version that a cluster's nodes speak with each other, once all speak it.

use crate::cli::UpgradeArguments;
use crate::node_connection::NodeConnection;
use sidle_cli::exit::Failure;
use sidle_cluster::Upgraded;

/// Runs `sidle upgrade`.
pub(crate) fn run(arguments: &UpgradeArguments) -> Result<(), Failure> {
    sidle_cli::runtime()?.block_on(async {
        let mut node = NodeConnection::open(&arguments.via).await?;
        let reply = node.request(&["SIDLE.UPGRADE"]).await?;
        let upgraded = serde_json::from_slice(reply.as_bytes().unwrap_or_default())
            .map_err(|error| node.broken(format!("its answer cannot be read: {error}")))?;
        println!("{}", outcome(upgraded));
        Ok(())
    })
}

fn outcome(Upgraded { before, version }: Upgraded) -> String {
    match before == version {
        true => {
            format!("Nothing to be done: the cluster speaks {version}, the highest that its nodes speak.")
        }
        false => format!("The cluster speaks {version} from now on, where it spoke {before}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_types::ProtocolVersion;

    #[test]
    fn what_was_done_is_told_from_what_was_done_before() {
        let of = |before, version| {
            outcome(Upgraded { before: ProtocolVersion(before), version: ProtocolVersion(version) })
        };
        assert_eq!(of(3, 4), "The cluster speaks version 4 from now on, where it spoke version 3.");
        assert!(of(4, 4).starts_with("Nothing to be done: the cluster speaks version 4"), "{}", of(4, 4));
    }
}
