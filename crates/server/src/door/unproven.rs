//! What was wrong with the node at the other end.

/// Why the other end of a connection that this node opened was not believed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unproven {
    /// It closed the connection before it had sent anything.
    #[error(
        "it closed the connection without a word: it is no node of this release, goes by another address, or \
         has no cluster secret yet"
    )]
    NoHandshake,
    /// It did not take this node's proof, or has none of its own.
    #[error(
        "it has another cluster secret than this node: copy the file {file} from the data directory of a node \
         of the cluster into this node's, or give it with --cluster-secret-file",
        file = crate::data_dir::SECRET_FILE
    )]
    OtherSecret,
    /// There is nothing to prove with.
    #[error("this node has no cluster secret yet")]
    NoSecret,
}
