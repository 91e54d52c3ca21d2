//! `sidle forget`: removes a node from the cluster that is down and owns nothing.

use crate::cli::ForgetArguments;
use crate::node_connection::NodeConnection;
use crate::node_name;
use sidle_cli::exit::Failure;

/// Runs `sidle forget`.
pub(crate) fn run(arguments: &ForgetArguments) -> Result<(), Failure> {
    sidle_cli::runtime()?.block_on(async {
        let mut node = NodeConnection::open(&arguments.via).await?;
        let name = node_name::resolve(&node.status().await?, &arguments.node)?;
        node.request(&["SIDLE.FORGET", &name]).await?;
        println!("Node {} is forgotten.", arguments.node);
        Ok(())
    })
}
