//! A host and a port, printed and parsed as people write them.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Longest host name that DNS allows.
const MAX_HOST_BYTES: usize = 253;

/// Where a node can be reached: an IP address or a host name, and a port from 1 to 65535.
///
/// Written `host:port`, with IPv6 addresses in brackets (`[::1]:7000`), and so in JSON too. An IPv6 address
/// is kept in its shortest spelling, a host name in lower case, so that equal addresses compare equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPort {
    host: String,
    port: u16,
}

/// What [`HostPort`]'s parser refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not an address: {why}; write host:port, or [address]:port for IPv6")]
pub struct ParseHostPortError {
    text: String,
    why: &'static str,
}

impl ParseHostPortError {
    /// Keeps as much of the text as any address has.
    fn new(text: &str, why: &'static str) -> ParseHostPortError {
        let shown = &text[..text.floor_char_boundary(MAX_HOST_BYTES + ":65535".len())];
        ParseHostPortError { text: shown.to_owned(), why }
    }
}

impl HostPort {
    /// The address of a host (a name, or an IP address without brackets) and a port.
    pub fn new(host: &str, port: u16) -> Result<HostPort, ParseHostPortError> {
        let refuse = |why| ParseHostPortError::new(&format!("{host}:{port}"), why);
        if port == 0 {
            return Err(refuse("the port is 0"));
        }
        if let Ok(address) = host.parse::<Ipv6Addr>() {
            return Ok(HostPort { host: address.to_string(), port });
        }
        if host.is_empty() {
            return Err(refuse("the host is empty"));
        }
        if host.len() > MAX_HOST_BYTES {
            return Err(refuse("the host is too long"));
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if !host.bytes().all(allowed) {
            return Err(refuse("the host is neither an IP address nor a name"));
        }
        Ok(HostPort { host: host.to_ascii_lowercase(), port })
    }

    /// The host name or IP address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The address as Redis writes it where clients are sent to a node: an IPv6 address without brackets.
    /// Clients cut at the last colon.
    pub fn unbracketed(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The socket address, when the host is an IP address and not a name.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        self.host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, self.port))
    }
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl std::str::FromStr for HostPort {
    type Err = ParseHostPortError;

    fn from_str(text: &str) -> Result<HostPort, ParseHostPortError> {
        let refuse = |why| ParseHostPortError::new(text, why);
        let (host, port) = text.rsplit_once(':').ok_or_else(|| refuse("the port is missing"))?;
        if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refuse("the port is not a number"));
        }
        let port = port.parse().map_err(|_| refuse("the port is above 65535"))?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let inner = rest.strip_suffix(']').ok_or_else(|| refuse("the bracket is not closed"))?;
                if inner.parse::<Ipv6Addr>().is_err() {
                    return Err(refuse("what stands in brackets is not an IPv6 address"));
                }
                inner
            }
            None if host.contains(':') => return Err(refuse("an IPv6 address needs brackets")),
            None => host,
        };
        HostPort::new(host, port).map_err(|error| refuse(error.why))
    }
}

impl From<SocketAddr> for HostPort {
    fn from(address: SocketAddr) -> HostPort {
        HostPort { host: address.ip().to_string(), port: address.port() }
    }
}

impl TryFrom<String> for HostPort {
    type Error = ParseHostPortError;

    fn try_from(text: String) -> Result<HostPort, ParseHostPortError> {
        text.parse()
    }
}

impl From<HostPort> for String {
    fn from(address: HostPort) -> String {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_print_as_they_parse() {
        for (text, host, port) in [
            ("127.0.0.1:7000", "127.0.0.1", 7000),
            ("[::1]:7000", "::1", 7000),
            ("[2001:db8::7]:65535", "2001:db8::7", 65535),
            ("cache-1.example.org:1", "cache-1.example.org", 1),
        ] {
            let address: HostPort = text.parse().unwrap();
            assert_eq!((address.host(), address.port()), (host, port));
            assert_eq!(address.to_string(), text);
            assert_eq!(serde_json::to_string(&address).unwrap(), format!("\"{text}\""));
        }
    }

    #[test]
    fn equal_addresses_have_one_spelling() {
        let parse = |text: &str| text.parse::<HostPort>().unwrap();
        assert_eq!(parse("[0:0:0:0:0:0:0:1]:7"), parse("[::1]:7"));
        assert_eq!(parse("Cache:7"), parse("cache:7"));
        assert_eq!(parse("[::1]:7").socket_addr(), Some("[::1]:7".parse().unwrap()));
        assert_eq!(HostPort::from("[::1]:7".parse::<SocketAddr>().unwrap()), parse("[::1]:7"));
        assert_eq!(parse("cache:7").socket_addr(), None);
    }

    #[test]
    fn parser_refuses_with_a_reason() {
        for (text, why) in [
            ("", "port is missing"),
            ("host", "port is missing"),
            (":7000", "host is empty"),
            ("host:", "not a number"),
            ("host:+7", "not a number"),
            ("host:0", "port is 0"),
            ("host:65536", "above 65535"),
            ("::1:7000", "needs brackets"),
            ("[::1:7000", "not closed"),
            ("[host]:7000", "not an IPv6 address"),
            ("a b:7000", "neither"),
        ] {
            let error = text.parse::<HostPort>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
