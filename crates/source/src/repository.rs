//! A repository: its URL and how to get in (REP-70..76).

use std::borrow::Cow;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tiphys_api::repo_url::{self, Location, RepoUrl, Scheme};
use tiphys_api::repository::{self, CredentialKind, Credentials, Reach};
use tiphys_policy::project::shared_rules_match;

use crate::{Secret, SourceError, TokenSource};

/// How a server proves itself, and we prove ourselves, over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Client certificate, PEM. Used only together with the key.
    pub client_certificate: String,
    /// Key of the client certificate, PEM.
    pub client_key: Secret,
    /// The only trusted roots, PEM; empty means what [`crate::Trust`] says of the host, else those of the TLS
    /// directory, else those of the system (REP-80).
    pub roots: Arc<str>,
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
    /// With what a token is asked for that takes the place of a password (REP-73, REP-74).
    pub token: Option<Arc<TokenSource>>,
    /// Private key for SSH, PEM.
    pub ssh_private_key: Secret,
    /// Sends user name and password without being asked (REP-71).
    pub force_http_basic_auth: bool,
    /// Skips checks of server certificates and host keys.
    pub insecure: bool,
    /// TLS options.
    pub tls: Tls,
    /// Host keys to check an SSH server against; `None` means what [`crate::Trust`] says, else the file of the options
    /// (REP-81).
    pub known_hosts: Option<Arc<str>>,
    /// URL of the proxy for this repository; it may name a user and a password (REP-75).
    pub proxy: Secret,
    /// Hosts that are reached without the proxy.
    pub no_proxy: String,
    /// Project whose applications may use the cached content; empty for all (REP A7).
    pub project: String,
    /// Commits of history to fetch; 0 leaves the choice to us.
    pub depth: u32,
    /// Whether files of Git LFS take the place of their pointers (RND-44).
    pub lfs: bool,
    /// Whether charts are in a registry (RND-113).
    pub enable_oci: bool,
    /// Whether the registry is spoken to without TLS (RND-119).
    pub plain_http: bool,
    /// Whether the credentials are shown to other hosts that an index names (RND-104).
    pub pass_credentials: bool,
    /// How far the credentials go to what the repository refers to.
    pub reach: Option<Reach>,
    /// Whether a source names it that its project's rules do not permit: it is asked without credentials, and not on
    /// this machine.
    pub is_foreign: bool,
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
            token: token_source(credentials).map(Arc::new),
            force_http_basic_auth: credentials.force_http_basic_auth,
            insecure: found.is_insecure(),
            tls: Tls {
                client_certificate: credentials.tls_client_cert_data.clone(),
                client_key: credentials.tls_client_cert_key.clone(),
                roots: Arc::default(),
            },
            proxy: Secret::from(credentials.proxy.as_str()),
            no_proxy: credentials.no_proxy.clone(),
            project: found.project.clone(),
            depth: u32::try_from(found.depth).unwrap_or(0),
            lfs: found.enable_lfs,
            enable_oci: credentials.enable_oci,
            plain_http: credentials.insecure_oci_force_http,
            reach: found.reach.clone(),
            ..Self::anonymous(&found.url)
        }
    }
}

/// With what a token is asked for, where nothing better is given (REP-70).
fn token_source(credentials: &Credentials) -> Option<TokenSource> {
    match credentials.kind() {
        CredentialKind::GithubApp => Some(TokenSource::GithubApp {
            id: credentials.github_app_id,
            installation: credentials.github_app_installation_id,
            key: credentials.github_app_private_key.clone(),
            base_url: credentials.github_app_enterprise_base_url.clone(),
        }),
        CredentialKind::Gcp => Some(TokenSource::Google { key: credentials.gcp_service_account_key.clone() }),
        CredentialKind::AzureServicePrincipal => Some(TokenSource::AzureServicePrincipal {
            client_id: credentials.azure_client_id.clone(),
            client_secret: credentials.azure_client_secret.clone(),
            tenant_id: credentials.azure_tenant_id.clone(),
            endpoint: credentials.azure_active_directory_endpoint.clone(),
        }),
        CredentialKind::AzureWorkloadIdentity => Some(TokenSource::AzureWorkloadIdentity),
        CredentialKind::Https | CredentialKind::Ssh | CredentialKind::Anonymous => None,
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
            && self.token.is_none()
            && (self.tls.client_certificate.is_empty() || self.tls.client_key.is_empty())
    }

    /// Where the URL leads, by our own grammar: it is one git may be given (RND-23, RND-34, SEC-58).
    pub(crate) fn location(&self) -> Result<Location, SourceError> {
        let url = self.url.expose();
        Location::parse(url).map_err(|error| SourceError::InvalidRepository {
            text: format!("repository URL {:?} {error}", repo_url::redact(url)),
        })
    }

    /// How the repository is reached.
    pub(crate) fn transport(&self) -> Result<Transport, SourceError> {
        Ok(match self.location()?.scheme() {
            Scheme::Https | Scheme::Http => Transport::Http,
            Scheme::Ssh => Transport::Ssh,
            Scheme::Git => Transport::Git,
            Scheme::File => Transport::Local,
        })
    }

    /// Host of the URL without port, lower case; empty for local paths.
    pub(crate) fn host(&self) -> String {
        self.location().map(|location| location.host().to_owned()).unwrap_or_default()
    }

    /// Whether the credentials may be shown at a URL that the repository refers to.
    pub(crate) fn reaches(&self, url: &str) -> bool {
        let covers = |reach: &Reach| shared_rules_match(&reach.source_repos, url, reach.matching);
        self.reach.as_ref().is_none_or(covers)
    }

    /// Whether the credentials are shown wherever an index leads.
    pub(crate) fn is_shown_everywhere(&self) -> bool {
        self.pass_credentials && self.reach.is_none()
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
            self.known_hosts.as_deref().unwrap_or(""),
            if self.plain_http { "http" } else { "" },
            &self.passed_to(),
        ] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hex(&hash.finalize())
    }

    /// To which other hosts of an index the credentials are shown.
    fn passed_to(&self) -> Cow<'static, str> {
        match &self.reach {
            _ if !self.pass_credentials => Cow::Borrowed(""),
            None => Cow::Borrowed("everywhere"),
            Some(reach) => Cow::Owned(format!("{reach:?}")),
        }
    }

    /// Key of the bare repository on disk: normalised URL and scope (REP-61). Content is served only after the
    /// present credentials listed the refs (REP-63), so the credentials themselves are not part of it.
    pub(crate) fn store_key(&self) -> String {
        let (url, scope) = repository::working_copy(self.url.expose(), &self.project);
        let mut hash = Sha256::new();
        for part in [url.as_str(), scope] {
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

    /// B9: the grammar of hosts and users is ours, not only that of the `git` and `ssh` of today.
    #[test]
    fn sec_58_urls_have_a_grammar_of_ours() {
        let transport = |url: &str| Repository::anonymous(url).transport().ok();
        for url in [
            "https://h/a/../b",
            "https://h/a/%2e%2E/b",
            "https://h/a/%252e%252e/b",
            "https://h/a/./b",
            "https://h/a/..;/b",
            "https://h/a?b",
            "https://h/a#b",
            "https://h/a%0ab",
            "https://h%2fa@b%2fc/d",
            "https://h%2f/a",
            "https://h\\@evil/a",
            "https:///a",
            "https://h:port/a",
            "https://h:99999/a",
            "https://h:/a",
            "https://-h/a",
            "https://h./a",
            "https://[::1/a",
            "https://[x]/a",
            "https://h a/b",
            "https://\u{212a}.example/a",
            "ssh://git@h%2doProxyCommand=x/a",
            "ssh://git@h;touch x/a",
            "ssh://git@$(touch x)/a",
            "ssh://-oProxyCommand=x@h/a",
            "ssh://g it@h/a",
            "ssh://git@h",
            "git@h:",
            "git@h:-x",
            "git@`touch x`:a",
            "-oProxyCommand=x@h:a",
            "git@h:../a",
            "git://h",
            "file://host/srv/r",
            "file:///srv/../r",
            "file:///srv/%2e%2e/r",
            "/srv/../r",
        ] {
            assert_eq!(transport(url), None, "{url:?}");
        }
        for (url, expected) in [
            ("https://user:p%2fw@h.example:8443/o/r.git/", Transport::Http),
            ("http://[::1]:80/r", Transport::Http),
            ("https://127.0.0.1/a%20b/%C3%A9", Transport::Http),
            ("ssh://git@[::1]:22/r", Transport::Ssh),
            ("git@[::1]:r", Transport::Ssh),
            ("ssh://h_x.example/~user/r", Transport::Ssh),
            ("org-123@h.example:o/r.git", Transport::Ssh),
            ("git://h/r", Transport::Git),
            ("file:///srv/a%20b", Transport::Local),
        ] {
            assert_eq!(transport(url), Some(expected), "{url:?}");
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
