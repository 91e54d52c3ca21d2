//! Addresses as people write them.

/// Splits `host:port`, `1.2.3.4:port` or `[v6]:port`; `None` when it is neither.
pub fn split_host_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    if host.is_empty() {
        return None;
    }
    port.parse().ok().map(|port| (host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_names_and_both_families() {
        assert_eq!(split_host_port("localhost:6379"), Some(("localhost", 6379)));
        assert_eq!(split_host_port("10.0.0.1:0"), Some(("10.0.0.1", 0)));
        assert_eq!(split_host_port("[::1]:6379"), Some(("::1", 6379)));
        for bad in ["", ":1", "host", "host:", "host:x", "::1:6379", "host:70000", "[::1:1"] {
            assert_eq!(split_host_port(bad), None, "{bad}");
        }
    }
}
