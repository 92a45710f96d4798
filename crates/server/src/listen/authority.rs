//! Authorities that requests to a listener on loopback may name. A page elsewhere can have its own name resolve to
//! loopback and a browser send requests here (DNS rebinding); it cannot make the browser name us.

use std::net::IpAddr;

use http::uri::Authority;
use http::{HeaderMap, Uri, header};

/// Names of the server besides those of its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnHosts(Vec<String>);

impl OwnHosts {
    /// The hosts of URLs at which browsers find the server; what is no URL adds nothing.
    pub fn of_urls<'u>(urls: impl IntoIterator<Item = &'u str>) -> Self {
        let hosts = urls.into_iter().filter_map(|url| url.parse::<Uri>().ok());
        Self(hosts.filter_map(|url| url.host().map(str::to_ascii_lowercase)).collect())
    }

    /// Whether a request to a listener on this address names the server: in its target, in its `Host` header, and in
    /// both when it has both. Beyond loopback any name may be ours.
    pub fn are_named(&self, listening: IpAddr, target: &Uri, headers: &HeaderMap) -> bool {
        if !listening.is_loopback() {
            return true;
        }
        let target = target.authority().map(Authority::as_str);
        let hosts = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or("?"));
        let mut named = target.into_iter().chain(hosts).peekable();
        // A request without any name is not one of a browser, and not one of HTTP/1.1 or later.
        named.peek().is_some() && named.all(|authority| self.is_own(authority))
    }

    fn is_own(&self, authority: &str) -> bool {
        let Ok(authority) = authority.parse::<Authority>() else { return false };
        if authority.as_str().contains('@') {
            return false;
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host);
        host == "localhost"
            || host.ends_with(".localhost")
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            || self.0.iter().any(|own| own == host)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn is_answered(listening: IpAddr, target: &str, hosts: &[&str]) -> bool {
        let own = OwnHosts::of_urls(["https://cd.example.com/argo", "not a url", ""]);
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        own.are_named(listening, &target.parse().unwrap(), &headers)
    }

    #[test]
    fn cli_1000_requests_for_foreign_authorities_are_not_ours() {
        for (target, hosts, expected) in [
            ("/", &["127.0.0.1:8080"][..], true),
            ("/", &["localhost:8080"], true),
            ("/", &["LOCALHOST."], true),
            ("/", &["demo.localhost"], true),
            ("/", &["[::1]:8080"], true),
            ("/", &["127.8.8.8"], true),
            ("/", &["cd.example.com"], true),
            ("https://localhost:8080/", &[], true),
            ("http://localhost/", &["localhost"], true),
            ("/", &["evil.example:8080"], false),
            ("/", &["127.0.0.1.evil.example"], false),
            ("/", &["evil-localhost"], false),
            ("/", &["localhost@evil.example"], false),
            ("/", &["a.cd.example.com"], false),
            ("/", &["10.0.0.1"], false),
            ("/", &[""], false),
            ("/", &[], false),
            ("/", &["localhost", "evil.example"], false),
            ("https://evil.example:8080/", &[], false),
            ("https://evil.example/", &["localhost"], false),
            ("https://localhost/", &["evil.example"], false),
        ] {
            assert_eq!(is_answered(LOCAL, target, hosts), expected, "{target} {hosts:?}");
            assert_eq!(is_answered(Ipv6Addr::LOCALHOST.into(), target, hosts), expected);
            assert!(is_answered(Ipv4Addr::UNSPECIFIED.into(), target, hosts));
        }
    }
}
