//! Where nodes campaign to coordinate: in etcd, if the program is built with it.

use sidle_cluster::Election;

/// Checks where the settings say that the cluster's metadata is; empty: in a file. The error says what to
/// write.
#[cfg(feature = "etcd")]
pub(crate) fn check(metadata: &str) -> Result<(), String> {
    if metadata.is_empty() {
        return Ok(());
    }
    let location: Result<sidle_meta_etcd::EtcdLocation, _> = metadata.parse();
    location.map(drop).map_err(|error| error.to_string())
}

/// This program knows no other place than a file.
#[cfg(not(feature = "etcd"))]
pub(crate) fn check(metadata: &str) -> Result<(), String> {
    match metadata.is_empty() {
        true => Ok(()),
        false => {
            Err("this program was built without the feature `etcd`: build it with `cargo build --release \
                      --features etcd`, or leave this out to keep the metadata in a file"
                .to_owned())
        }
    }
}

/// The part that this node takes in the election; `None` where the metadata is in a file. Nothing is asked
/// yet.
#[cfg(feature = "etcd")]
pub(crate) fn of(metadata: &str) -> Option<Box<dyn Election + Send>> {
    let location = metadata.parse().ok()?;
    Some(Box::new(sidle_meta_etcd::EtcdElection::new(&location)))
}

/// None: see [`check`].
#[cfg(not(feature = "etcd"))]
pub(crate) fn of(_metadata: &str) -> Option<Box<dyn Election + Send>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_always_a_place_and_anything_else_is_etcd_or_refused_in_words() {
        assert_eq!(check(""), Ok(()));
        assert!(of("").is_none());
        let refused = check("10.0.0.1:2379").expect_err("it is no place");
        match cfg!(feature = "etcd") {
            true => assert!(refused.contains("such as etcd://"), "{refused}"),
            false => assert!(refused.contains("--features etcd"), "{refused}"),
        }
        let place = "etcd://10.0.0.1:2379/cache";
        assert_eq!(
            (check(place).is_ok(), of(place).is_some()),
            (cfg!(feature = "etcd"), cfg!(feature = "etcd"))
        );
    }
}
