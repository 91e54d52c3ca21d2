//! Where the metadata is: `etcd://[user:password@]host:port[,host:port]/name`.

use std::fmt;
use std::str::FromStr;

/// The longest name of a cluster.
const MAX_NAME_BYTES: usize = 64;

/// A cluster's place in etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdLocation {
    /// Where etcd's members take clients, as HOST:PORT.
    pub(crate) endpoints: Vec<String>,
    /// The user and the password, if etcd asks for them.
    pub(crate) user: Option<(String, String)>,
    /// What the cluster is called there.
    pub(crate) name: String,
}

/// Why a text names no place in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationError(String);

impl fmt::Display for LocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: it is etcd://HOST:PORT[,HOST:PORT]/NAME, such as etcd://10.0.0.1:2379/cache", self.0)
    }
}

impl std::error::Error for LocationError {}

impl FromStr for EtcdLocation {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<EtcdLocation, LocationError> {
        let wrong = |why: &str| LocationError(why.to_owned());
        let rest = text.strip_prefix("etcd://").ok_or_else(|| wrong("it does not begin with etcd://"))?;
        let (hosts, name) = rest.split_once('/').ok_or_else(|| wrong("it does not name the cluster"))?;
        let (user, hosts) = match hosts.rsplit_once('@') {
            Some((user, hosts)) => {
                let pair = user.split_once(':').ok_or_else(|| wrong("the user has no password"))?;
                (Some((pair.0.to_owned(), pair.1.to_owned())), hosts)
            }
            None => (None, hosts),
        };
        let endpoints: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        if !endpoints.iter().all(|endpoint| is_endpoint(endpoint)) {
            return Err(wrong("its hosts are not HOST:PORT, separated by commas"));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_plain) {
            return Err(wrong("the cluster's name is not 1 to 64 letters, digits, '-', '_' or '.'"));
        }
        Ok(EtcdLocation { endpoints, user, name: name.to_owned() })
    }
}

/// Whether it is HOST:PORT, as it may stand in an URL.
fn is_endpoint(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.[]:".contains(&byte);
    let is_host = !host.is_empty() && host.bytes().all(is_plain);
    is_host
        && (!host.contains(':') || host.starts_with('['))
        && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Without the password: logs show it.
impl fmt::Display for EtcdLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.iter().map(|(user, _)| format!("{user}@")).collect::<String>();
        write!(f, "etcd://{user}{}/{}", self.endpoints.join(","), self.name)
    }
}

impl fmt::Debug for EtcdLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_names_endpoints_a_user_and_the_cluster() {
        let one: EtcdLocation = "etcd://10.0.0.1:2379/cache".parse().unwrap();
        assert_eq!((one.endpoints.len(), one.name.as_str(), one.user.is_none()), (1, "cache", true));
        let more: EtcdLocation = "etcd://root:se@cret@a.example:1,[::1]:2/x-1_y.z".parse().unwrap();
        assert_eq!(more.endpoints, ["a.example:1", "[::1]:2"]);
        assert_eq!(more.user, Some(("root".to_owned(), "se@cret".to_owned())));
        assert_eq!(more.to_string(), "etcd://root@a.example:1,[::1]:2/x-1_y.z", "without the password");
        assert!(!format!("{more:?}").contains("cret"));
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for wrong in [
            "",
            "10.0.0.1:2379/cache",
            "etcd://10.0.0.1:2379",
            "etcd://10.0.0.1:2379/",
            "etcd://10.0.0.1/cache",
            "etcd://10.0.0.1:0/cache",
            "etcd://::1:2379/cache",
            "etcd://a:1,/cache",
            "etcd://root@a:1/cache",
            "etcd://a:1/two/words",
            "etcd://a:1/ä",
            "etcd://a b:1/cache",
        ] {
            let refused = wrong.parse::<EtcdLocation>().expect_err(wrong).to_string();
            assert!(refused.contains("such as etcd://10.0.0.1:2379/cache"), "{refused}");
        }
    }
}
