//! Why a connection between nodes did not come to be, or ended.

use sidle_wire::WireError;
use std::io;

/// Why a bus connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BusError {
    /// The other end closed it.
    #[error("the other end closed the connection")]
    Closed,
    /// The network.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The other end has not proven that it belongs to the cluster.
    #[error(transparent)]
    Unproven(#[from] Unproven),
    /// Something that is no frame, or of another version.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A frame that does not belong here.
    #[error("unexpected message: {0}")]
    Unexpected(String),
    /// Nothing came.
    #[error("no answer in time")]
    TimedOut,
}

impl BusError {
    /// Whether the failure is the other end's or the network's, not this node's shortage of means.
    pub(crate) fn is_of_the_other_end(&self) -> bool {
        match self {
            BusError::Io(error) => !is_out_of_means(error),
            BusError::Unproven(why) => !matches!(why, Unproven::NoSecret),
            _ => true,
        }
    }
}

/// Whether this process, or its machine, has no descriptor, memory or port left.
fn is_out_of_means(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let means = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|error| means.contains(&error))
}

/// Why this node rejected the other end of a connection that it opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unproven {
    /// It closed the connection before it sent anything.
    #[error(
        "it closed the connection without a word: it is no node of this release, goes by another address, or \
         has no cluster secret yet"
    )]
    NoHandshake,
    /// It rejected this node's proof, or has none of its own.
    #[error(
        "it broke the handshake off: it has another cluster secret than this node, or more connections under \
         way than it takes. If this lasts, copy the file {file} from the data directory of a node of the cluster \
         into this node's, or give it with --cluster-secret-file",
        file = crate::data_dir::SECRET_FILE
    )]
    OtherSecret,
    /// This node has no secret to prove with.
    #[error("this node has no cluster secret yet")]
    NoSecret,
}
