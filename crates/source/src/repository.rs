//! A repository: its URL and how to get in (REP-70..76).

use sha2::{Digest, Sha256};
use tiphys_api::repo_url::{self, RepoUrl};
use tiphys_api::repository;

use crate::{Secret, SourceError};

/// How a server proves itself, and we prove ourselves, over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Client certificate, PEM. Used only together with the key.
    pub client_certificate: String,
    /// Key of the client certificate, PEM.
    pub client_key: Secret,
    /// The only trusted roots, PEM; empty means those of the TLS directory, else those of the system (REP-80).
    pub roots: String,
}

/// A repository and its credentials, as chosen for one application (REP-20..22).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repository {
    /// URL as written.
    pub url: RepoUrl,
    /// User name; alone it is no credential.
    pub username: String,
    /// Password or token for HTTPS.
    pub password: Secret,
    /// Token for an `Authorization: Bearer` header.
    pub bearer_token: Secret,
    /// Private key for SSH, PEM.
    pub ssh_private_key: Secret,
    /// Sends user name and password without being asked (REP-71).
    pub force_http_basic_auth: bool,
    /// Skips checks of server certificates and host keys.
    pub insecure: bool,
    /// TLS options.
    pub tls: Tls,
    /// URL of the proxy for this repository; it may name a user and a password (REP-75).
    pub proxy: Secret,
    /// Hosts that are reached without the proxy.
    pub no_proxy: String,
    /// Project whose applications may use the cached content; empty for all (REP A7).
    pub project: String,
    /// Commits of history to fetch; 0 leaves the choice to us.
    pub depth: u32,
}

impl From<&repository::Repository> for Repository {
    /// The repository that a Secret declares.
    fn from(found: &repository::Repository) -> Self {
        let credentials = &found.credentials;
        Self {
            username: credentials.username.clone(),
            password: credentials.password.clone(),
            bearer_token: credentials.bearer_token.clone(),
            ssh_private_key: credentials.ssh_private_key.clone(),
            force_http_basic_auth: credentials.force_http_basic_auth,
            insecure: found.is_insecure(),
            tls: Tls {
                client_certificate: credentials.tls_client_cert_data.clone(),
                client_key: credentials.tls_client_cert_key.clone(),
                roots: String::new(),
            },
            proxy: Secret::from(credentials.proxy.as_str()),
            no_proxy: credentials.no_proxy.clone(),
            project: found.project.clone(),
            depth: u32::try_from(found.depth).unwrap_or(0),
            ..Self::anonymous(&found.url)
        }
    }
}

/// How a repository is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Http,
    Ssh,
    Git,
    Local,
}

impl Repository {
    /// A repository without credentials.
    pub fn anonymous(url: &str) -> Self {
        Self { url: RepoUrl::new(url), ..Self::default() }
    }

    /// Whether nothing proves who we are (REP-70).
    pub fn is_anonymous(&self) -> bool {
        self.password.is_empty()
            && self.bearer_token.is_empty()
            && self.ssh_private_key.is_empty()
            && (self.tls.client_certificate.is_empty() || self.tls.client_key.is_empty())
    }

    /// Checks that the URL is one git may be given (RND-23, RND-34).
    pub(crate) fn transport(&self) -> Result<Transport, SourceError> {
        let url = self.url.expose();
        let fail = |why: &str| {
            let text = format!("repository URL {:?} {why}", repo_url::redact(url));
            Err(SourceError::InvalidRepository { text })
        };
        if url.is_empty() || url.starts_with('-') || url.chars().any(char::is_control) {
            return fail("is not valid");
        }
        let lower = url.to_ascii_lowercase();
        for (prefix, transport) in [
            ("https://", Transport::Http),
            ("http://", Transport::Http),
            ("ssh://", Transport::Ssh),
            ("git://", Transport::Git),
            ("file://", Transport::Local),
            ("/", Transport::Local),
        ] {
            if let Some(rest) = lower.strip_prefix(prefix) {
                let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
                // `ssh://-oProxyCommand=…` would become an option of ssh.
                return if transport != Transport::Local && host.starts_with('-') {
                    fail("is not valid")
                } else {
                    Ok(transport)
                };
            }
        }
        if lower.contains("://") || lower.contains("::") {
            return fail("has a scheme that is not supported");
        }
        // What is left can only be `user@host:path`.
        match url.split_once(':') {
            Some((host, path)) if repo_url::is_ssh(url) && !path.is_empty() => {
                let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
                if host.is_empty() || host.starts_with('-') {
                    fail("is not valid")
                } else {
                    Ok(Transport::Ssh)
                }
            }
            _ => fail("has a scheme that is not supported"),
        }
    }

    /// Host of the URL without port, lower case; empty for local paths.
    pub(crate) fn host(&self) -> String {
        let url = self.url.expose().to_ascii_lowercase();
        let rest = match url.split_once("://") {
            Some(("file", _)) => return String::new(),
            Some((_, rest)) => rest.split('/').next().unwrap_or(rest).to_owned(),
            None if url.starts_with('/') => return String::new(),
            None => url,
        };
        let host = rest.rsplit_once('@').map_or(rest.as_str(), |(_, host)| host);
        match host.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((inner, _)) => inner.to_owned(),
            None => host.split(':').next().unwrap_or(host).to_owned(),
        }
    }

    /// Key of the ref list: raw URL and everything that decides what the server shows (RND-36).
    pub(crate) fn listing_key(&self) -> String {
        let mut hash = Sha256::new();
        for part in [
            self.url.expose(),
            &self.username,
            self.password.expose(),
            self.bearer_token.expose(),
            self.ssh_private_key.expose(),
            &self.tls.client_certificate,
            self.tls.client_key.expose(),
            &self.tls.roots,
            self.proxy.expose(),
            &self.no_proxy,
            if self.insecure { "insecure" } else { "" },
        ] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hex(&hash.finalize())
    }

    /// Key of the bare repository on disk: normalised URL and scope (REP-61). Content is served only after the
    /// present credentials listed the refs (REP-63), so the credentials themselves are not part of it.
    pub(crate) fn store_key(&self) -> String {
        let normalized = self.url.normalized();
        let url = if normalized.is_empty() { self.url.expose().to_owned() } else { normalized };
        let mut hash = Sha256::new();
        for part in [url.as_str(), &self.project] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hex(&hash.finalize()).chars().take(40).collect()
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_23_transports_and_refused_urls() {
        let transport = |url: &str| Repository::anonymous(url).transport().ok();
        assert_eq!(transport("HTTPS://h/r"), Some(Transport::Http));
        assert_eq!(transport("git@h:r"), Some(Transport::Ssh));
        assert_eq!(transport("ssh://git@h:22/r"), Some(Transport::Ssh));
        assert_eq!(transport("/srv/r"), Some(Transport::Local));
        assert_eq!(transport("file:///srv/r"), Some(Transport::Local));
        for url in [
            "",
            "-u",
            "--upload-pack=touch x",
            "ext::sh -c x",
            "relative/path",
            "https://h/r\nx",
            "ftp://h/r",
            "ssh://-oProxyCommand=x/r",
            "git@-oProxyCommand=x:r",
            "x::https://h/r",
            "host:path",
        ] {
            assert_eq!(transport(url), None, "{url:?}");
        }
    }

    #[test]
    fn rep_80_hosts_have_no_port() {
        let host = |url: &str| Repository::anonymous(url).host();
        assert_eq!(host("https://u:p@Git.Example:8443/r"), "git.example");
        assert_eq!(host("git@h.example:o/r"), "h.example");
        assert_eq!(host("https://[::1]:80/r"), "::1");
        assert_eq!(host("/srv/r"), "");
    }

    #[test]
    fn rep_61_content_is_kept_apart_by_project() {
        let plain = Repository::anonymous("https://h/O/r.git");
        let other = Repository { project: "p".to_owned(), ..plain.clone() };
        let known = Repository { password: Secret::from("x"), ..plain.clone() };
        assert_eq!(plain.store_key(), Repository::anonymous("https://H/o/r").store_key());
        assert_ne!(plain.store_key(), other.store_key());
        assert_ne!(plain.listing_key(), known.listing_key());
        assert!(!format!("{known:?}").contains("x\""), "{known:?}");
    }
}
