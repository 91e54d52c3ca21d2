//! What a node needs before other machines may reach it: a password for clients, a secret for nodes.
//!
//! Both ports listen at one address, so one rule holds for both. A secret in the data directory
//! at startup counts as given, whatever its source: the operator could have copied it.

use crate::cluster_secret::is_loopback;
use crate::config::Config;
use std::net::IpAddr;

/// A node that would obey anyone on the network.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "other machines can reach this node at {bind}, and it has {}.{}{} Or let it listen on this machine only: \
     --bind 127.0.0.1",
    lacking(*lacks_password, *lacks_secret),
    if *lacks_password { PASSWORD_ADVICE } else { "" },
    if *lacks_secret { SECRET_ADVICE } else { "" }
)]
pub struct Exposed {
    bind: IpAddr,
    lacks_password: bool,
    lacks_secret: bool,
}

const PASSWORD_ADVICE: &str = " Set a password in the file of settings (`[security] password`).";
const SECRET_ADVICE: &str = " Create a cluster secret with `sidle server --create-cluster-secret FILE`, copy the \
                             file to every node's machine, and give it to each with --cluster-secret-file FILE.";

const fn lacking(password: bool, secret: bool) -> &'static str {
    match (password, secret) {
        (true, true) => "neither a password for clients nor a cluster secret for nodes",
        (true, false) => "no password for clients",
        _ => "no cluster secret for nodes",
    }
}

/// Refuses exposure to other machines without password and secret. `has_secret`: whether one is given
/// or in the data directory.
pub(crate) fn check(config: &Config, has_secret: bool) -> Result<(), Exposed> {
    let bind: IpAddr = config.network.bind.parse().expect("the settings were checked");
    let security = &config.security;
    // With a file of users it depends on that, and protected mode looks at each connection.
    let names_users = !security.users_file.as_os_str().is_empty();
    let lacks_password = security.password.is_empty() && security.protected_mode && !names_users;
    match is_loopback(bind) || (has_secret && !lacks_password) {
        true => Ok(()),
        false => Err(Exposed { bind, lacks_password, lacks_secret: !has_secret }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(bind: &str, password: &str, has_secret: bool) -> Result<(), String> {
        let mut config = Config::default();
        config.network.bind = bind.to_owned();
        config.security.password = password.to_owned();
        check(&config, has_secret).map_err(|refused| refused.to_string())
    }

    #[test]
    fn on_this_machine_only_nothing_is_asked_for() {
        for bind in ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(checked(bind, "", false), Ok(()), "{bind}");
        }
    }

    #[test]
    fn a_password_is_not_asked_for_where_users_are_or_protected_mode_is_off() {
        for (file, protected_mode, expected) in [("", true, false), ("users", true, true), ("", false, true)]
        {
            let mut config = Config::default();
            config.network.bind = "0.0.0.0".to_owned();
            config.security.users_file = file.into();
            config.security.protected_mode = protected_mode;
            assert_eq!(check(&config, true).is_ok(), expected);
            assert!(check(&config, false).is_err(), "nodes need their secret");
        }
    }

    #[test]
    fn where_others_reach_it_both_are() {
        for bind in ["0.0.0.0", "::", "10.0.0.1", "2001:db8::1"] {
            assert_eq!(checked(bind, "password", true), Ok(()));
            for (password, has_secret) in [("", false), ("", true), ("password", false)] {
                let refused = checked(bind, password, has_secret).unwrap_err();
                assert_eq!(refused.contains("[security] password"), password.is_empty(), "{refused}");
                assert_eq!(refused.contains("--cluster-secret-file"), !has_secret, "{refused}");
                assert!(refused.contains(bind) && refused.contains("--bind 127.0.0.1"), "{refused}");
            }
        }
    }
}
