//! The source of a node's cluster secret.
//!
//! | | secret |
//! |---|---|
//! | in the data directory | that one; one that is given as well has to be the same |
//! | given (`--cluster-secret-file`, SIDLE_CLUSTER_SECRET) | that one; kept there once it is proven right |
//! | the node founds a cluster | a new one, kept in the data directory |
//! | the node joins over loopback | that in the data directory of the node it joins ([`of_neighbour`]) |
//! | otherwise | none: the node does not start |

mod file;

pub use file::{Fault, SecretFileError};

use crate::config::Config;
use crate::data_dir::{DataDir, random_bytes};
use crate::door::Door;
use sidle_handshake::ClusterSecret;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// Why a node has no secret that it could use.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// A file that should hold it cannot be trusted, or holds something else.
    #[error(transparent)]
    File(#[from] SecretFileError),
    /// Two secrets were given.
    #[error(
        "{} and the environment variable {} hold different cluster secrets: give only one of them",
        .0.display(),
        crate::config::SECRET_VARIABLE
    )]
    GivenTwice(PathBuf),
    /// The given secret differs from the data directory's.
    #[error(
        "{given} holds another cluster secret than {}, by which this node belongs to its cluster. Leave it out \
         to go on in that cluster; to belong to another one start the node with an empty data directory (--dir)",
        kept.display()
    )]
    Contradicts {
        /// What holds the given one.
        given: String,
        /// The file in the data directory.
        kept: PathBuf,
    },
    /// The node belongs to a cluster, or joins one, and cannot get its secret.
    #[error(
        "this node needs the secret of its cluster: copy {} from the data directory of a node of the cluster, \
         with mode 0600, to {}, or give it with --cluster-secret-file or in {}. Only a node that joins over \
         loopback finds it by itself",
        crate::data_dir::SECRET_FILE, .0.display(), crate::config::SECRET_VARIABLE
    )]
    Unknown(PathBuf),
    /// The operating system refused.
    #[error("cannot draw a cluster secret: {0}")]
    Random(io::Error),
}

/// The secret that flag, file of settings or environment give.
pub(crate) fn given(config: &Config) -> Result<Option<ClusterSecret>, SecretError> {
    let of_variable = config.security.cluster_secret.clone();
    let path = &config.security.cluster_secret_file;
    if path.as_os_str().is_empty() {
        return Ok(of_variable);
    }
    let of_file = file::read(path)?;
    match of_variable {
        Some(secret) if secret != of_file => Err(SecretError::GivenTwice(path.clone())),
        _ => Ok(Some(of_file)),
    }
}

/// The secret to start with; `None` where it has yet to be found. `founds`: whether the node runs the
/// coordinator.
pub(crate) fn at_start(
    config: &Config,
    data_dir: &DataDir,
    given: Option<ClusterSecret>,
    founds: bool,
) -> Result<Option<ClusterSecret>, SecretError> {
    let path = data_dir.secret_path();
    match (given, kept(data_dir)?) {
        (Some(given), Some(kept)) if given != kept => {
            let named = &config.security.cluster_secret_file;
            let given = match named.as_os_str().is_empty() {
                true => crate::config::SECRET_VARIABLE.to_owned(),
                false => named.display().to_string(),
            };
            Err(SecretError::Contradicts { given, kept: path })
        }
        (_, Some(secret)) => Ok(Some(secret)),
        (given, None) if founds => {
            let draw = || {
                tracing::info!(
                    "new cluster secret in {}: nodes on other machines need a copy",
                    path.display()
                );
                random_bytes().map(ClusterSecret::from_random).map_err(SecretError::Random)
            };
            let secret = given.map_or_else(draw, Ok)?;
            keep(data_dir, &secret)?;
            Ok(Some(secret))
        }
        (Some(given), None) => Ok(Some(given)),
        (None, None) if may_be_neighbour(&config.node.join) => Ok(None),
        // It founds the cluster, or asks its coordinator, which has to be on this machine.
        (None, None) if !config.node.metadata.is_empty() => Ok(None),
        (None, None) => Err(SecretError::Unknown(path)),
    }
}

/// Keeps the secret that was given, or a new one, for a cluster that this node is about to found.
pub(crate) fn of_founder(data_dir: &DataDir, door: &Door) -> Result<(), SecretError> {
    let secret = match door.secret().filter(|_| door.is_certain()) {
        Some(given) => ClusterSecret::clone(&given),
        None => {
            let path = data_dir.secret_path();
            tracing::info!("new cluster secret in {}: nodes on other machines need a copy", path.display());
            random_bytes().map(ClusterSecret::from_random).map_err(SecretError::Random)?
        }
    };
    keep(data_dir, &secret)?;
    door.try_secret(secret);
    Ok(())
}

/// The secret that the data directory keeps.
pub(crate) fn kept(data_dir: &DataDir) -> Result<Option<ClusterSecret>, SecretError> {
    match file::read_strictly(&data_dir.secret_path()) {
        Ok(secret) => Ok(Some(secret)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Keeps the secret in the data directory, whole or not at all.
pub(crate) fn keep(data_dir: &DataDir, secret: &ClusterSecret) -> Result<(), SecretFileError> {
    file::write(&data_dir.secret_path(), secret)
}

/// Writes a new secret to a file that does not exist yet, for the nodes of a cluster to be given.
pub fn create(path: &Path) -> Result<(), SecretError> {
    let secret = random_bytes().map(ClusterSecret::from_random).map_err(SecretError::Random)?;
    Ok(file::create(path, &secret)?)
}

/// The secret of a node on this machine, which named its data directory over loopback. The
/// directory is trusted only if this user alone can have made it: see [`file::read_of_neighbour`].
pub(crate) fn of_neighbour(data_dir: &Path) -> Result<ClusterSecret, SecretFileError> {
    file::read_of_neighbour(&data_dir.join(crate::data_dir::SECRET_FILE))
}

/// Whether the node to join may be one of this machine, asked over loopback. A name without an address may
/// get one later.
fn may_be_neighbour(join: &str) -> bool {
    let Some((host, port)) = crate::address::split_host_port(join) else { return false };
    match (host, port).to_socket_addrs() {
        Ok(addresses) => addresses.into_iter().any(|address| is_loopback(address.ip())),
        Err(_) => true,
    }
}

/// Whether an address reaches this machine only.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn secret(number: u8) -> ClusterSecret {
        ClusterSecret::from_random(std::array::from_fn(|index| index as u8 ^ number))
    }

    fn refusal<T: std::fmt::Debug>(result: Result<T, SecretError>) -> String {
        result.unwrap_err().to_string()
    }

    fn joining(join: &str) -> Config {
        let mut config = Config::default();
        config.node.join = join.to_owned();
        config
    }

    #[test]
    fn a_founder_draws_one_and_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::open(folder.path()).unwrap();
        let config = Config::default();
        let drawn = at_start(&config, &dir, None, true).unwrap().unwrap();
        let mode = std::fs::metadata(dir.secret_path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(at_start(&config, &dir, None, true).unwrap(), Some(drawn.clone()), "and no other");
        let other = tempfile::tempdir().unwrap();
        let other = DataDir::open(other.path()).unwrap();
        assert_ne!(at_start(&config, &other, None, true).unwrap(), Some(drawn));
    }

    #[test]
    fn a_founder_keeps_what_it_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::open(folder.path()).unwrap();
        let config = Config::default();
        assert_eq!(at_start(&config, &dir, Some(secret(1)), true).unwrap(), Some(secret(1)));
        assert_eq!(kept(&dir).unwrap(), Some(secret(1)));
        let refused = refusal(at_start(&config, &dir, Some(secret(2)), true));
        assert!(refused.contains("SIDLE_CLUSTER_SECRET") && refused.contains("--dir"), "{refused}");
        assert_eq!(kept(&dir).unwrap(), Some(secret(1)));
    }

    #[test]
    fn a_member_keeps_nothing_before_it_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::open(folder.path()).unwrap();
        let given = at_start(&joining("10.0.0.1:6379"), &dir, Some(secret(1)), false);
        assert_eq!(given.unwrap(), Some(secret(1)));
        assert_eq!(kept(&dir).unwrap(), None);
    }

    #[test]
    fn without_a_secret_only_a_neighbour_can_be_joined() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::open(folder.path()).unwrap();
        for join in ["127.0.0.1:6379", "[::1]:6379", "127.9.9.9:1"] {
            assert_eq!(at_start(&joining(join), &dir, None, false).unwrap(), None, "{join}");
        }
        for join in ["10.0.0.1:6379", "[2001:db8::1]:6379", ""] {
            let refused = refusal(at_start(&joining(join), &dir, None, false));
            assert!(
                refused.contains("--cluster-secret-file") && refused.contains("cluster.secret"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_secret_may_be_given_once_or_twice_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("given");
        file::write(&path, &secret(1)).unwrap();
        let mut config = Config::default();
        assert_eq!(given(&config).unwrap(), None);
        config.security.cluster_secret = Some(secret(1));
        assert_eq!(given(&config).unwrap(), Some(secret(1)));
        config.security.cluster_secret_file = path.clone();
        assert_eq!(given(&config).unwrap(), Some(secret(1)));
        config.security.cluster_secret = Some(secret(2));
        assert!(refusal(given(&config)).contains("give only one"));
        config.security.cluster_secret_file = folder.path().join("nowhere");
        assert!(refusal(given(&config)).contains("nowhere"));
    }

    #[test]
    fn create_overwrites_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        create(&path).unwrap();
        let text = std::fs::read(&path).unwrap();
        assert!(refusal(create(&path)).contains("exists"));
        assert_eq!(std::fs::read(&path).unwrap(), text);
    }
}
