//! Asks servers that are none of git's for files: chart repositories, registries, values by URL (RND-109, RND-113).
//!
//! One place decides what goes out: proxies and client certificates of a repository, who vouches for a server,
//! how many redirects are followed, to whom credentials are shown, and which addresses are not asked (`address`).
//! What comes back has a bound of bytes and of time. No text repeats a credential, or what a server said beside a
//! refusal (SEC-38).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH, LOCATION};
use parking_lot::Mutex;
use reqwest::{Client, NoProxy, Proxy, Response, Url};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use crate::address::{Guard, LocalAddress, refusal};
use crate::http::Roots;
use crate::http::tls::{self, Configurations};
use crate::repository::hex;
use crate::sources::SourceOptions;
use crate::{Repository, SourceError, Trust};

/// Clients that are kept, each with its connections.
const CLIENTS_MAX: usize = 64;
/// Redirects that one question follows.
const REDIRECTS_MAX: usize = 10;
/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(30);

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Question<'a> {
    /// What is asked for.
    pub(crate) url: Url,
    /// What may be answered.
    pub(crate) accept: &'a str,
    /// What proves who we are; shown to the host of `url` alone, or to everybody (`everywhere`).
    pub(crate) authorization: Option<HeaderValue>,
    /// Whether credentials go along with redirects to other hosts (RND-104).
    pub(crate) everywhere: bool,
    /// The mark of what is known already.
    pub(crate) known: Option<String>,
}

impl<'a> Question<'a> {
    pub(crate) fn new(url: Url, accept: &'a str) -> Self {
        Self { url, accept, authorization: None, everywhere: false, known: None }
    }
}

/// What a server answers.
#[derive(Debug)]
pub(crate) struct Answer {
    response: Response,
    /// Who answered in the end, for messages.
    shown: String,
    /// Until when the body has to be there.
    until: tokio::time::Instant,
    limit: Duration,
}

/// Clients by what they have to know.
#[derive(Debug)]
pub(crate) struct Web {
    options: Arc<SourceOptions>,
    clients: Mutex<BTreeMap<[u8; 32], Client>>,
    tls: Configurations,
}

impl Web {
    pub(crate) fn new(options: Arc<SourceOptions>) -> Self {
        Self { options, clients: Mutex::default(), tls: Configurations::default() }
    }

    /// Asks, follows redirects and gives the answer, whatever its status.
    ///
    /// # Errors
    /// When nobody answers within `limit`, or a redirect leads nowhere.
    pub(crate) async fn ask(
        &self,
        (repository, trust): (&Repository, &Trust),
        mut question: Question<'_>,
        limit: Duration,
    ) -> Result<Answer, SourceError> {
        let until = tokio::time::Instant::now() + limit;
        let shown_first = shown(&question.url);
        let mut shown = shown_first.clone();
        for _ in 0..=REDIRECTS_MAX {
            let is_free = trust.local_addresses || is_at_home(repository, &question.url);
            let guard = (!is_free).then(|| Guard { proxies: self.proxy_hosts(repository) });
            if let Some(guard) = &guard {
                guard.check(&question.url, &shown).await?;
            }
            let client = self.client(repository, trust, (&question.url, guard)).await?;
            let mut request = client.get(question.url.clone()).header(ACCEPT, question.accept);
            if let Some(value) = &question.authorization {
                request = request.header(AUTHORIZATION, value.clone());
            }
            if let Some(known) = &question.known {
                request = request.header(IF_NONE_MATCH, known);
            }
            let sent = tokio::time::timeout_at(until, request.send()).await;
            let response = sent
                .map_err(|_elapsed| too_slow(&shown, limit))?
                .map_err(|error| unreachable(&shown, &error))?;
            if !response.status().is_redirection() || response.status().as_u16() == 304 {
                return Ok(Answer { response, shown, until, limit });
            }
            let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let next = target.and_then(|target| question.url.join(target).ok());
            let next = next.filter(|next| matches!(next.scheme(), "http" | "https") && next.has_host());
            let Some(mut next) = next else {
                let text = format!("{shown} redirects to a place that is none of HTTP");
                return Err(SourceError::Denied { text });
            };
            let is_same = next.origin() == question.url.origin();
            let is_worse = question.url.scheme() == "https" && next.scheme() == "http";
            if is_worse || !is_same && !question.everywhere {
                question.authorization = None;
            }
            // What a server writes before a host is not ours.
            if next.set_username("").is_err() || next.set_password(None).is_err() {
                return Err(SourceError::Denied {
                    text: format!("{shown} redirects to a place that has no host"),
                });
            }
            // Of another server's words no more than where it sends (SEC-38).
            shown = format!("{shown_first} (redirected to {})", next.origin().ascii_serialization());
            question.url = next;
        }
        let text = format!("{shown_first} redirects more than {REDIRECTS_MAX} times");
        Err(SourceError::Denied { text })
    }

    /// The client for a repository and a host.
    async fn client(
        &self,
        repository: &Repository,
        trust: &Trust,
        (url, guard): (&Url, Option<Guard>),
    ) -> Result<Client, SourceError> {
        let roots = self.roots(repository, trust, url)?;
        let key = key(repository, &roots, guard.is_some());
        if let Some(known) = self.clients.lock().get(&key) {
            return Ok(known.clone());
        }
        let unusable = |error: crate::http::HttpError| SourceError::InvalidRepository {
            text: format!("{}: {error}", shown(url)),
        };
        let mut configuration = self.tls.of(&roots).await.map_err(unusable)?;
        let (certificate, secret) = (&repository.tls.client_certificate, repository.tls.client_key.expose());
        if !certificate.is_empty() && !secret.is_empty() {
            configuration = tls::with_identity(configuration, certificate, secret).map_err(unusable)?;
        }
        let mut builder = Client::builder()
            .tls_backend_preconfigured(configuration)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(self.options.request_timeout)
            .pool_max_idle_per_host(2)
            .pool_idle_timeout(IDLE)
            .user_agent(&self.options.user_agent)
            .no_proxy();
        if let Some(guard) = guard {
            builder = builder.dns_resolver(Arc::new(guard));
        }
        for proxy in self.proxies(repository)? {
            builder = builder.proxy(proxy);
        }
        let client = builder.build().map_err(|_error| SourceError::InvalidRepository {
            text: format!("{}: no client can be set up for it", shown(url)),
        })?;
        let mut clients = self.clients.lock();
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients.insert(key, client.clone());
        Ok(client)
    }

    /// Who vouches for a host (REP-80). What a repository itself trusts is for its own host.
    fn roots(&self, repository: &Repository, trust: &Trust, url: &Url) -> Result<Roots, SourceError> {
        if repository.insecure {
            return Ok(Roots::Anybody);
        }
        if !repository.tls.roots.is_empty() {
            return Ok(Roots::Pem(Arc::clone(&repository.tls.roots)));
        }
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        match trust.tls.of(host) {
            Some(Ok(roots)) => Ok(Roots::Pem(Arc::clone(roots))),
            Some(Err(why)) => Err(Trust::unreadable(host, why)),
            None => {
                let file = self.options.tls_dir.as_ref().map(|directory| directory.join(host));
                let file = file.filter(|file| !host.contains('/') && file.is_file());
                Ok(file.map_or(Roots::System, Roots::File))
            }
        }
    }

    /// The proxies of a repository, else those of the environment (REP-75).
    fn proxies(&self, repository: &Repository) -> Result<Vec<Proxy>, SourceError> {
        let invalid =
            |_error| SourceError::InvalidRepository { text: "the URL of the proxy is not valid".to_owned() };
        if !repository.proxy.is_empty() {
            let proxy = Proxy::all(repository.proxy.expose().as_str()).map_err(invalid)?;
            return Ok(vec![proxy.no_proxy(NoProxy::from_string(&repository.no_proxy))]);
        }
        let no_proxy = || self.variable("no_proxy").and_then(NoProxy::from_string);
        let mut proxies = Vec::new();
        if let Some(url) = self.variable("https_proxy") {
            proxies.push(Proxy::https(url).map_err(invalid)?.no_proxy(no_proxy()));
        }
        if let Some(url) = self.variable("http_proxy") {
            proxies.push(Proxy::http(url).map_err(invalid)?.no_proxy(no_proxy()));
        }
        Ok(proxies)
    }

    /// A variable of the environment about proxies, in either case.
    fn variable(&self, name: &str) -> Option<&str> {
        let found = |(key, value): &&(String, String)| key.eq_ignore_ascii_case(name) && !value.is_empty();
        self.options.proxy_environment.iter().find(found).map(|(_, value)| value.as_str())
    }

    /// Hosts of the proxies of a repository.
    fn proxy_hosts(&self, repository: &Repository) -> Vec<String> {
        let own = Some(repository.proxy.expose().as_str()).filter(|own| !own.is_empty());
        let urls = match own {
            Some(own) => vec![own],
            None => {
                ["https_proxy", "http_proxy"].into_iter().filter_map(|name| self.variable(name)).collect()
            }
        };
        let host = |url: &str| {
            let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
            Some(Url::parse(&url).ok()?.host_str()?.to_owned())
        };
        urls.into_iter().filter_map(host).collect()
    }
}

/// Whether a URL is at the very server of a repository that the project's rules permit, which is asked wherever it is.
fn is_at_home(repository: &Repository, url: &Url) -> bool {
    let home = repository.url.expose();
    let home = if home.contains("://") { home.to_owned() } else { format!("oci://{home}") };
    let Some(home) = Url::parse(&home).ok().filter(|_| !repository.is_foreign) else { return false };
    // What has no scheme of the web is spoken to at the port of the one that is used.
    let port = home.port_or_known_default().or(if url.scheme() == "http" { Some(80) } else { Some(443) });
    let is_same = |host: &str| host.eq_ignore_ascii_case(url.host_str().unwrap_or_default());
    home.host_str().is_some_and(is_same) && url.port_or_known_default() == port
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// Who answered, without what is secret about it.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// A header, if it is text.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// All values of a header that are text.
    pub(crate) fn headers(&self, name: &HeaderName) -> Vec<String> {
        let all = self.response.headers().get_all(name).iter();
        all.filter_map(|value| value.to_str().ok().map(str::to_owned)).collect()
    }

    /// The mark of this version of what was asked for.
    pub(crate) fn mark(&self) -> Option<String> {
        self.header(&ETAG).map(str::to_owned)
    }

    /// The same answer if it is the one that was hoped for.
    ///
    /// # Errors
    /// With what another status means.
    pub(crate) fn ok(self) -> Result<Self, SourceError> {
        match self.status() {
            200..=299 => Ok(self),
            status => Err(of_status(status, &self.shown)),
        }
    }

    /// The body, at most so many bytes of it.
    ///
    /// # Errors
    /// When it is longer, breaks off, or does not come in time.
    pub(crate) async fn bytes(mut self, bytes_max: u64) -> Result<Bytes, SourceError> {
        self.check_length(bytes_max)?;
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if body.len() as u64 + chunk.len() as u64 > bytes_max {
                return Err(self.too_large(bytes_max));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.into())
    }

    /// Writes the body into a file and gives its SHA-256.
    ///
    /// # Errors
    /// As [`Self::bytes`], and when the file cannot be written.
    pub(crate) async fn save(mut self, path: &Path, bytes_max: u64) -> Result<String, SourceError> {
        self.check_length(bytes_max)?;
        let unwritable = |error: std::io::Error| SourceError::Cache {
            text: format!("the cache directory cannot be written: {}", error.kind()),
        };
        let mut file = tokio::fs::File::create(path).await.map_err(unwritable)?;
        let (mut hash, mut length) = (Sha256::new(), 0_u64);
        while let Some(chunk) = self.chunk().await? {
            length = length.saturating_add(chunk.len() as u64);
            if length > bytes_max {
                return Err(self.too_large(bytes_max));
            }
            hash.update(&chunk);
            file.write_all(&chunk).await.map_err(unwritable)?;
        }
        file.flush().await.map_err(unwritable)?;
        Ok(hex(&hash.finalize()))
    }

    fn check_length(&self, bytes_max: u64) -> Result<(), SourceError> {
        match self.response.content_length() {
            Some(length) if length > bytes_max => Err(self.too_large(bytes_max)),
            _ => Ok(()),
        }
    }

    fn too_large(&self, bytes_max: u64) -> SourceError {
        SourceError::Exhausted {
            text: format!("the answer of {} has more than {bytes_max} bytes", self.shown),
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, SourceError> {
        let chunk = tokio::time::timeout_at(self.until, self.response.chunk()).await;
        let chunk = chunk.map_err(|_elapsed| too_slow(&self.shown, self.limit))?;
        chunk.map_err(|_error| SourceError::Unavailable {
            text: format!("the answer of {} breaks off", self.shown),
        })
    }
}

/// What a status means that is no success.
pub(crate) fn of_status(status: u16, shown: &str) -> SourceError {
    match status {
        401 | 403 => {
            SourceError::Denied { text: format!("{shown} answered with status {status}: access denied") }
        }
        404 | 410 => {
            SourceError::NotThere { text: format!("{shown} answered with status {status}: not found") }
        }
        408 | 429 | 500.. => {
            SourceError::Unavailable { text: format!("{shown} answered with status {status}") }
        }
        _ => SourceError::Denied { text: format!("{shown} answered with status {status}") },
    }
}

/// The header that shows user name and password; `None` without a password.
pub(crate) fn basic(username: &str, password: &str) -> Option<HeaderValue> {
    if password.is_empty() && username.is_empty() {
        return None;
    }
    let text = format!("Basic {}", STANDARD.encode(format!("{username}:{password}")));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A URL for messages: without user and query, which may hold a token.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // A URL without a host has no user either.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

fn too_slow(shown: &str, limit: Duration) -> SourceError {
    let after = tiphys_exec::ExecError::Timeout { after: limit };
    SourceError::Timeout { text: format!("asking {shown} failed {after}") }
}

fn unreachable(shown: &str, error: &reqwest::Error) -> SourceError {
    // The causes name hosts, never what was sent.
    let mut text = format!("{shown} cannot be reached");
    let mut cause = std::error::Error::source(error);
    let mut last = String::new();
    while let Some(error) = cause {
        if error.is::<LocalAddress>() {
            return refusal(shown);
        }
        last = error.to_string();
        cause = error.source();
    }
    // Whoever names an address does not get to read which names another server's certificate has (SEC-38).
    if let Some(end) = last.find("; certificate is only valid for") {
        last.truncate(end);
    }
    if !last.is_empty() && last.len() < 300 {
        text = format!("{text}: {last}");
    }
    SourceError::Unavailable { text }
}

fn key(repository: &Repository, roots: &Roots, is_guarded: bool) -> [u8; 32] {
    let (kind, roots) = match roots {
        Roots::Anybody => ("anybody", String::new()),
        Roots::System => ("system", String::new()),
        Roots::Pem(pem) => ("pem", pem.to_string()),
        Roots::File(path) => ("file", path.to_string_lossy().into_owned()),
    };
    let mut hash = Sha256::new();
    for part in [
        kind,
        if is_guarded { "guarded" } else { "" },
        &roots,
        &repository.tls.client_certificate,
        repository.tls.client_key.expose(),
        repository.proxy.expose(),
        &repository.no_proxy,
    ] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}
