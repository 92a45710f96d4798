//! Which repositories are spoken to without the git program, and with which credentials (REP-70, REP-71).

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue};

use crate::git::{HttpCredentials, roots_file};
use crate::repository::Transport;
use crate::sources::SourceOptions;
use crate::{Repository, Secret, SourceError};

/// A repository that is reached over HTTP, directly.
#[derive(Debug)]
pub(crate) struct Direct {
    /// URL without user information.
    pub(crate) url: String,
    /// Whether there is a password to send when the server asks.
    pub(crate) has_password: bool,
    /// URL and credentials, hashed.
    pub(super) key: String,
    /// `Authorization` header to send unasked.
    pub(super) unasked: Secret,
    /// `Authorization` header for a server that asks.
    pub(super) asked: Secret,
    pub(crate) roots: Roots,
}

/// Who vouches for the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Nobody needs to.
    Anybody,
    System,
    Pem(Arc<str>),
    File(PathBuf),
}

impl Direct {
    /// `None` for what only the git program can reach.
    pub(crate) fn of(repository: &Repository, options: &SourceOptions) -> Result<Option<Self>, SourceError> {
        let tls = &repository.tls;
        let has_client_certificate = !tls.client_certificate.is_empty() && !tls.client_key.is_empty();
        let has_proxy = if repository.proxy.is_empty() {
            let is_proxy = |name: &str| !name.eq_ignore_ascii_case("no_proxy");
            options.proxy_environment.iter().any(|(name, value)| is_proxy(name) && !value.is_empty())
        } else {
            true
        };
        let is_http = repository.transport()? == Transport::Http;
        if !is_http || has_proxy || has_client_certificate {
            return Ok(None);
        }
        let credentials = HttpCredentials::of(repository)?;
        let none = Secret::default;
        let (unasked, asked) = if credentials.has_password() {
            let HttpCredentials { user, password, .. } = &credentials;
            let header = STANDARD.encode(format!("{user}:{}", password.expose()));
            let header = Secret::from(format!("Basic {header}"));
            if repository.force_http_basic_auth { (header, none()) } else { (none(), header) }
        } else if !repository.bearer_token.is_empty() {
            (Secret::from(format!("Bearer {}", repository.bearer_token.expose())), none())
        } else {
            (none(), none())
        };
        let roots = if repository.insecure {
            Roots::Anybody
        } else if !tls.roots.is_empty() {
            Roots::Pem(Arc::clone(&tls.roots))
        } else {
            roots_file(repository, options).map_or(Roots::System, Roots::File)
        };
        Ok(Some(Self {
            url: credentials.url,
            has_password: !asked.is_empty(),
            key: repository.listing_key(),
            unasked,
            asked,
            roots,
        }))
    }

    /// Adds what proves who we are, for this server alone.
    pub(crate) fn authorize(&self, headers: &mut HeaderMap) {
        let known = [&self.unasked, &self.asked].into_iter().find(|header| !header.is_empty());
        let value = known.and_then(|header| HeaderValue::from_str(header.expose()).ok());
        if let Some(mut value) = value {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
    }

    /// Scheme and authority, as git names a server that asks for credentials.
    pub(crate) fn server(&self) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("", &self.url));
        format!("{scheme}://{}", rest.split('/').next().unwrap_or(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tls;

    fn direct(repository: &Repository) -> Option<Direct> {
        let mut options = SourceOptions::new("/nowhere".as_ref());
        options.proxy_environment = vec![("NO_PROXY".to_owned(), "x".to_owned())];
        Direct::of(repository, &options).unwrap()
    }

    #[test]
    fn rnd_29_what_is_unusual_is_left_to_git() {
        let plain = Repository::anonymous("https://h/r");
        assert!(direct(&plain).is_some());
        assert!(direct(&Repository { proxy: Secret::from("http://p"), ..plain.clone() }).is_none());
        let tls = Tls { client_certificate: "c".to_owned(), client_key: Secret::from("k"), ..Tls::default() };
        assert!(direct(&Repository { tls, ..plain.clone() }).is_none());
        assert!(direct(&Repository::anonymous("git@h:r")).is_none());
        let mut options = SourceOptions::new("/nowhere".as_ref());
        options.proxy_environment = vec![("https_proxy".to_owned(), "http://p".to_owned())];
        assert!(Direct::of(&plain, &options).unwrap().is_none());
    }

    #[test]
    fn rep_80_who_vouches_for_servers() {
        let plain = Repository::anonymous("https://h/r");
        assert_eq!(direct(&plain).unwrap().roots, Roots::System);
        let tls = Tls { roots: "PEM".into(), ..Tls::default() };
        let with_roots = Repository { tls, ..plain };
        assert_eq!(direct(&with_roots).unwrap().roots, Roots::Pem("PEM".into()));
        assert_eq!(direct(&Repository { insecure: true, ..with_roots }).unwrap().roots, Roots::Anybody);
    }

    #[test]
    fn rep_71_headers() {
        let with = |password: &str| Repository {
            password: Secret::from(password),
            ..Repository::anonymous("https://h:8443/r")
        };
        let got = direct(&with("t")).unwrap();
        assert_eq!(
            (got.unasked.expose().as_str(), got.asked.expose().as_str()),
            ("", "Basic eC1hY2Nlc3MtdG9rZW46dA==")
        );
        assert_eq!(got.server(), "https://h:8443");
        let got = direct(&Repository { force_http_basic_auth: true, ..with("t") }).unwrap();
        assert_eq!(
            (got.unasked.expose().as_str(), got.has_password),
            ("Basic eC1hY2Nlc3MtdG9rZW46dA==", false)
        );
        let got = direct(&Repository { bearer_token: Secret::from("b"), ..with("") }).unwrap();
        assert_eq!(got.unasked.expose(), "Bearer b");
        let got = direct(&Repository { username: "u".to_owned(), ..with("") }).unwrap();
        assert!(got.unasked.is_empty() && got.asked.is_empty());
    }
}
