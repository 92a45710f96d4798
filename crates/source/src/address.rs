//! Addresses that no source leads to: those of this machine, of its own network link, and those at which clouds show
//! their machines' credentials (INV-6, SEC-50).
//!
//! What answers there answers this process, and nobody else: metrics of all projects, an identity. A tenant who names
//! the address in a source would read it through us. Names are looked up once, by the connection itself, so that what
//! was looked at is what is connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::SourceError;

/// Addresses of clouds' own services that are not link-local: Alibaba, Oracle, Azure.
const CLOUDS_4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192), Ipv4Addr::new(168, 63, 129, 16)];
/// The same of AWS and Google.
const CLOUDS_6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// Whether an address means this machine, its link, a group of machines, or a service of its cloud.
pub(crate) fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_local_4(address),
        IpAddr::V6(address) => {
            let first = address.segments()[0];
            address.is_loopback()
                || address.is_unspecified()
                || address.is_multicast()
                || first & 0xffc0 == 0xfe80
                || CLOUDS_6.contains(&address)
                || carried(address).is_some_and(is_local_4)
        }
    }
}

fn is_local_4(address: Ipv4Addr) -> bool {
    address.octets()[0] == 0
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || CLOUDS_4.contains(&address)
}

/// The IPv4 address that an IPv6 address leads to: mapped, compatible, NAT64, 6to4.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match parts {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(of(high, low)),
        [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

/// A name led to nothing but local addresses. Which ones is not told to who asks.
#[derive(Debug, thiserror::Error)]
#[error("the name stands for an address of this machine or its network link")]
pub(crate) struct LocalAddress;

/// Looks names up, for connections that go to no local address.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// Names of proxies, which are the operator's.
    pub(crate) proxies: Vec<String>,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let is_proxy = self.is_proxy(&name);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let had_any = !found.is_empty();
            let kept: Vec<_> = found.into_iter().filter(|to| is_proxy || !is_local(to.ip())).collect();
            if kept.is_empty() && had_any {
                return Err(LocalAddress.into());
            }
            Ok(Box::new(kept.into_iter()) as Addrs)
        })
    }
}

impl Guard {
    fn is_proxy(&self, name: &str) -> bool {
        self.proxies.iter().any(|proxy| proxy.eq_ignore_ascii_case(name))
    }

    /// Refuses a URL whose host is a local address. Other names are looked up by the connection, unless they are those
    /// of a proxy, which may be here, for a connection without it.
    ///
    /// # Errors
    /// With what permits it.
    pub(crate) async fn check(&self, url: &Url, shown: &str) -> Result<(), SourceError> {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_here = match host.parse::<IpAddr>() {
            Ok(address) => is_local(address),
            Err(_) => is_here(host) || self.is_proxy(host) && leads_here(host).await,
        };
        if is_here { Err(refusal(shown)) } else { Ok(()) }
    }
}

/// Whether the host of a URL is, or stands for, a local address, for programs that look names up themselves.
pub(crate) async fn check_host(host: &str, shown: &str) -> Result<(), SourceError> {
    let host = host.trim_matches(['[', ']']);
    let is_local_host = match host.parse::<IpAddr>() {
        Ok(address) => is_local(address),
        Err(_) => is_here(host) || leads_here(host).await,
    };
    if is_local_host { Err(refusal(shown)) } else { Ok(()) }
}

/// Names of this machine, wherever they are looked up.
fn is_here(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

async fn leads_here(name: &str) -> bool {
    let found = tokio::net::lookup_host((name, 0)).await;
    found.is_ok_and(|mut found| found.any(|to| is_local(to.ip())))
}

/// Why a local address was not asked.
pub(crate) fn refusal(shown: &str) -> SourceError {
    SourceError::InvalidRepository {
        text: format!(
            "{shown} is not fetched: its host is this machine, its network link or a service of its cloud, which \
             sources may not read; name a server that others reach, too, or let an administrator set \
             tiphys.renderer.localAddresses: \"true\" in argocd-cm"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_50_addresses_of_this_machine_are_known() {
        for local in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "100.100.100.200",
            "168.63.129.16",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
        ] {
            assert!(is_local(local.parse().unwrap()), "{local}");
        }
        for other in
            ["10.0.0.1", "192.168.1.1", "100.64.0.1", "8.8.8.8", "fd00::1", "2001:db8::1", "64:ff9b::808:808"]
        {
            assert!(!is_local(other.parse().unwrap()), "{other}");
        }
    }

    #[tokio::test]
    async fn sec_50_urls_name_this_machine_in_many_ways() {
        let guard = Guard { proxies: vec!["localhost.localdomain".to_owned()] };
        for url in [
            "http://127.0.0.1:1/metrics",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://[::1]/",
            "http://[::ffff:7f00:1]/",
            "http://LOCALHOST:1/",
            "http://localhost./",
            "http://a.localhost/",
            "http://0/",
        ] {
            let url = Url::parse(url).unwrap();
            let error = guard.check(&url, "http://shown/").await.unwrap_err().to_string();
            assert!(
                error.contains("http://shown/") && error.contains("tiphys.renderer.localAddresses"),
                "{url}"
            );
        }
        assert_eq!(guard.check(&Url::parse("http://192.0.2.1/").unwrap(), "").await, Ok(()));
    }

    #[tokio::test]
    async fn sec_50_a_name_of_this_machine_is_not_connected_to() {
        let name = || "localhost".parse::<Name>().unwrap();
        let refused = Guard { proxies: Vec::new() }.resolve(name()).await;
        assert!(refused.is_err_and(|error| error.is::<LocalAddress>()));
        let proxy = Guard { proxies: vec!["localhost".to_owned()] };
        assert!(proxy.resolve(name()).await.unwrap().next().is_some());
    }
}
