//! Names of hosts, and patterns of them (REP-82, REP-84).

use std::net::{Ipv4Addr, Ipv6Addr};

use tiphys_go::path_match;

/// Bytes of a host name.
const HOST_BYTES_MAX: usize = 253;

/// Whether a text is the name or the IPv4 address of a host.
pub fn is_host(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.len() <= 63
            && bytes.first().copied().is_some_and(is_letter)
            && bytes.last().copied().is_some_and(is_letter)
            && bytes.iter().all(|byte| is_letter(*byte) || *byte == b'-')
    };
    text.parse::<Ipv4Addr>().is_ok() || (text.len() <= HOST_BYTES_MAX && text.split('.').all(is_label))
}

/// Whether a text names a host as a line of known hosts does: also an IPv6 address, and `[host]:port`.
pub fn is_ssh_host(text: &str) -> bool {
    let is_name = |name: &str| is_host(name) || name.parse::<Ipv6Addr>().is_ok();
    match text.strip_prefix('[').and_then(|rest| rest.rsplit_once("]:")) {
        Some((name, port)) => is_name(name) && port.parse::<u16>().is_ok_and(|port| port > 0),
        None => is_name(text),
    }
}

/// A pattern of host names: `*` and `?` as in a shell, brackets are letters, empty means all. It is kept with those
/// letters escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern(String);

impl HostPattern {
    /// Reads a pattern.
    pub fn new(text: &str) -> Self {
        let mut escaped = String::with_capacity(text.len());
        for letter in text.chars() {
            if matches!(letter, '[' | ']' | '\\') {
                escaped.push('\\');
            }
            escaped.push(letter);
        }
        Self(escaped)
    }

    /// Whether a host fits.
    pub fn matches(&self, host: &str) -> bool {
        self.0.is_empty() || path_match::is_match(&self.0, host) == Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rep_84_names_of_hosts() {
        for host in ["git.acme.test", "localhost", "10.0.0.1", "xn--bcher-kva.test", "a"] {
            assert!(is_host(host) && is_ssh_host(host), "{host}");
        }
        let long = "a".repeat(64);
        for host in ["", ".", "..", "a..b", "-a", "a-", "a/b", "a b", "a:1", "h_x", &long, "../x", "a\n"] {
            assert!(!is_host(host) && !is_ssh_host(host), "{host}");
        }
        for host in ["::1", "fe80::1", "[git.acme.test]:2222", "[::1]:22"] {
            assert!(is_ssh_host(host), "{host}");
        }
        assert!(!is_host("::1"), "no key of a ConfigMap");
        for host in ["[a]:0", "[a]:x", "[a]", "[a:22", "|1|x=|y="] {
            assert!(!is_ssh_host(host), "{host}");
        }
    }

    #[test]
    fn rep_82_patterns_of_hosts() {
        let fits = |pattern: &str, host: &str| HostPattern::new(pattern).matches(host);
        assert!(fits("", "anything"));
        for (pattern, host) in [
            ("*", "git.acme.test"),
            ("*.acme.test", "git.acme.test"),
            ("git.*", "git.acme.test"),
            ("g?t.acme.test", "git.acme.test"),
            ("[git.acme.test]:22*", "[git.acme.test]:2222"),
            ("*a*b", "aab"),
        ] {
            assert!(fits(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in [
            ("*.acme.test", "acme.test"),
            ("[gf]it.acme.test", "git.acme.test"),
            ("*", "a/b"),
            ("a?b", "a/b"),
            ("git", "git.acme.test"),
        ] {
            assert!(!fits(pattern, host), "{pattern} {host}");
        }
    }
}
