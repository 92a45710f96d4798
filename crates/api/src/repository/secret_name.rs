//! Names of the Secrets that the product creates (REP-1, REP-100).

use std::net::Ipv6Addr;

/// What a repository Secret holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// A repository.
    Repository,
    /// A repository to push to.
    WriteRepository,
    /// A credential template.
    Template,
    /// A credential template for pushing.
    WriteTemplate,
}

impl SecretKind {
    /// The value of the label that says what a Secret holds (REP A1).
    pub fn secret_type(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::WriteRepository => "repository-write",
            Self::Template => "repo-creds",
            Self::WriteTemplate => "repo-write-creds",
        }
    }
}

/// The server is no URL with a host (REP-100).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("server {0:?} is not a URL with a host")]
pub struct NameError(pub String);

/// Name of the Secret for a URL, hashed as given, in a project (REP-1).
///
/// ```
/// # use tiphys_api::repository::{SecretKind, secret_name};
/// assert_eq!(secret_name(SecretKind::Repository, "https://git.acme.test/shop/ui", "shop"), "repo-857941404");
/// ```
pub fn secret_name(kind: SecretKind, url: &str, project: &str) -> String {
    let (prefix, project) = match kind {
        SecretKind::Repository => ("repo", project),
        SecretKind::WriteRepository => ("repo-write", project),
        SecretKind::Template => ("creds", ""),
        SecretKind::WriteTemplate => ("creds-write", ""),
    };
    format!("{prefix}-{}", fnv1a(url.bytes().chain(project.bytes())))
}

/// Name of the Secret for a cluster (REP-100).
pub fn cluster_secret_name(server: &str) -> Result<String, NameError> {
    let failed = || NameError(server.to_owned());
    let (_, rest) = server.split_once("://").ok_or_else(failed)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (address, _) = bracketed.split_once(']').ok_or_else(failed)?;
            let address: Ipv6Addr = address.parse().ok().ok_or_else(failed)?;
            address.to_string().replace(':', "-")
        }
        None => authority.split(':').next().unwrap_or_default().to_lowercase(),
    };
    if host.is_empty() {
        return Err(failed());
    }
    Ok(format!("cluster-{host}-{}", fnv1a(server.bytes())))
}

/// FNV-1a, 32 bits.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rep_1_names_hash_url_and_project() {
        assert_eq!(
            secret_name(SecretKind::Repository, "https://github.com/org/app", "team-a"),
            secret_name(SecretKind::Repository, "https://github.com/org/appteam-a", "")
        );
        let template = secret_name(SecretKind::Template, "https://github.com/org", "ignored");
        assert_eq!(template, secret_name(SecretKind::Template, "https://github.com/org", ""));
        assert!(template.starts_with("creds-"));
    }

    #[test]
    fn rep_100_names_of_cluster_secrets() {
        for (server, name) in [
            ("http://foo", "cluster-foo-752281925"),
            ("http://[fe80::1ff:fe23:4567:890a]:8000", "cluster-fe80--1ff-fe23-4567-890a-664858999"),
            ("https://k8s.acme.test:6443", "cluster-k8s.acme.test-3643482865"),
        ] {
            assert_eq!(cluster_secret_name(server).as_deref(), Ok(name), "{server}");
        }
        for server in ["", "foo", "http://", "http://[::1", "http://[x]"] {
            assert!(cluster_secret_name(server).is_err(), "{server}");
        }
    }
}
