//! Speaks to OCI registries: tags, manifests, blobs (RND-113..119).
//!
//! Our own client, for the few questions there are: what a registry may answer, whom credentials are shown to, and
//! how long it may take is decided in [`crate::web`] for it as for everybody else. Whatever has a digest is held
//! against it before anybody sees it (F20).

mod challenge;
mod docker;
pub(crate) mod manifest;
pub(crate) mod reference;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue, LINK, WWW_AUTHENTICATE};
use parking_lot::Mutex;
use reqwest::Url;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::repository::hex;
use crate::sources::SourceOptions;
use crate::web::{Answer, Question, Web, basic};
use crate::{Repository, SourceError, Trust};
use challenge::Challenge;
use manifest::{ACCEPT, Manifest};
use reference::{Reference, sha256_of};

/// Bytes of a manifest, of a page of tags, of a token.
const ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Tags of one repository.
const TAGS_MAX: usize = 100_000;
/// Pages of tags.
const PAGES_MAX: usize = 200;
/// Tokens that are remembered.
const TOKENS_MAX: usize = 1_000;
/// How long a token is used whose registry does not say (RFC of the token protocol).
const TOKEN_LASTS: Duration = Duration::from_mins(1);
/// How long before its end a token is not used any more.
const MARGIN: Duration = Duration::from_secs(10);
const DIGEST_HEADER: HeaderName = HeaderName::from_static("docker-content-digest");

/// Who asks, and whom it trusts.
pub(crate) type Caller<'a> = (&'a Repository, &'a Trust);

/// Tokens by what they were asked with: the header, and until when it is used.
type Tokens = BTreeMap<[u8; 32], (HeaderValue, Duration)>;

/// The client of one installation.
#[derive(Debug)]
pub(crate) struct Registry {
    web: Arc<Web>,
    options: Arc<SourceOptions>,
    tokens: Mutex<Tokens>,
}

impl Registry {
    pub(crate) fn new(web: Arc<Web>, options: Arc<SourceOptions>) -> Self {
        Self { web, options, tokens: Mutex::default() }
    }

    /// All tags of a repository.
    pub(crate) async fn tags(
        &self,
        caller: Caller<'_>,
        reference: &Reference,
    ) -> Result<Vec<String>, SourceError> {
        let mut url = url(caller.0, reference, "tags/list?n=1000")?;
        let mut tags = Vec::new();
        for _ in 0..PAGES_MAX {
            let answer = self.ask(caller, reference, url.clone(), "application/json").await?.ok()?;
            let next = answer.header(&LINK).and_then(next_page).and_then(|next| url.join(next).ok());
            let shown = answer.shown().to_owned();
            let body = answer.bytes(ANSWER_BYTES_MAX).await?;
            let page = tiphys_go::json::decode_kubernetes(&body).ok();
            let page = page.as_ref().filter(|page| page.get("name").is_some() || page.get("tags").is_some());
            let Some(page) = page else {
                return Err(SourceError::Malformed {
                    text: format!("{shown} answered with no list of tags"),
                });
            };
            let found = page.get("tags").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            tags.extend(found.iter().filter_map(Value::as_str).map(str::to_owned));
            if tags.len() > TAGS_MAX {
                return Err(SourceError::Exhausted {
                    text: format!("{shown} has more than {TAGS_MAX} tags"),
                });
            }
            match next {
                None => return Ok(tags),
                // Pages are the registry's own, and credentials go to it alone.
                Some(next) if next.origin() == url.origin() => url = next,
                Some(_) => {
                    return Err(SourceError::Malformed {
                        text: format!("{shown} has its next tags elsewhere"),
                    });
                }
            }
        }
        Err(SourceError::Exhausted {
            text: format!("{}/{} has too many pages of tags", reference.host, reference.name),
        })
    }

    /// The manifest behind a tag or a digest, and its own digest.
    pub(crate) async fn manifest(
        &self,
        caller: Caller<'_>,
        reference: &Reference,
        revision: &str,
    ) -> Result<(Manifest, String), SourceError> {
        let url = url(caller.0, reference, &format!("manifests/{revision}"))?;
        let answer = self.ask(caller, reference, url, ACCEPT).await?.ok()?;
        let (shown, told) = (answer.shown().to_owned(), answer.header(&DIGEST_HEADER).map(str::to_owned));
        let body = answer.bytes(ANSWER_BYTES_MAX).await?;
        let digest = format!("sha256:{}", hex(&Sha256::digest(&body)));
        let wanted = sha256_of(revision).map(|_| revision.to_owned());
        // A digest of another kind cannot be computed here; what was asked for by tag is then known by ours.
        let told = told.filter(|told| sha256_of(told).is_some());
        if [wanted, told].into_iter().flatten().any(|expected| expected != digest) {
            return Err(mismatch(&shown));
        }
        let manifest = Manifest::read(&body)
            .map_err(|text| SourceError::Malformed { text: format!("{shown}: {text}") })?;
        Ok((manifest, digest))
    }

    /// The bytes behind a digest, written into a file.
    pub(crate) async fn blob(
        &self,
        caller: Caller<'_>,
        reference: &Reference,
        (digest, bytes_max): (&str, u64),
        path: &std::path::Path,
    ) -> Result<String, SourceError> {
        let url = url(caller.0, reference, &format!("blobs/{digest}"))?;
        let answer = self.ask(caller, reference, url, "*/*").await?.ok()?;
        let shown = answer.shown().to_owned();
        let found = answer.save(path, bytes_max).await?;
        if Some(found.as_str()) == sha256_of(digest) { Ok(found) } else { Err(mismatch(&shown)) }
    }

    /// Asks, with what the registry wants to see. A token that it does not take any more is asked for again once.
    async fn ask(
        &self,
        caller: Caller<'_>,
        reference: &Reference,
        url: Url,
        accept: &str,
    ) -> Result<Answer, SourceError> {
        let login = self.login(caller.0, reference);
        let limit = self.options.exec_timeout;
        let key = token_key(caller.0, reference);
        let known = self.token(&key);
        let had_token = known.is_some();
        let authorization = known.or_else(|| {
            let unasked = caller.0.force_http_basic_auth;
            login.as_ref().filter(|_| unasked).and_then(|(user, password)| basic(user, password.expose()))
        });
        let question = Question { authorization, ..Question::new(url.clone(), accept) };
        let answer = self.web.ask(caller, question, limit).await?;
        if answer.status() != 401 {
            return Ok(answer);
        }
        if had_token {
            self.tokens.lock().remove(&key);
        }
        let Some(challenge) = Challenge::read(&answer.headers(&WWW_AUTHENTICATE)) else { return Ok(answer) };
        let authorization = match challenge {
            Challenge::Basic => {
                match login.as_ref().and_then(|(user, password)| basic(user, password.expose())) {
                    Some(value) => value,
                    None => return Ok(answer),
                }
            }
            Challenge::Bearer { realm, service, scope } => {
                let scope =
                    if scope.is_empty() { format!("repository:{}:pull", reference.name) } else { scope };
                self.fetch_token(caller, (&url, &key), (&realm, &service, &scope), login).await?
            }
        };
        let question = Question { authorization: Some(authorization), ..Question::new(url, accept) };
        self.web.ask(caller, question, limit).await
    }

    async fn fetch_token(
        &self,
        caller: Caller<'_>,
        (asked, key): (&Url, &[u8; 32]),
        (realm, service, scope): (&str, &str, &str),
        login: Option<(String, crate::Secret)>,
    ) -> Result<HeaderValue, SourceError> {
        let host = asked.host_str().unwrap_or_default().to_owned();
        let refused = |text: &str| SourceError::Denied { text: format!("the registry {host} {text}") };
        let mut url = Url::parse(realm).map_err(|_error| refused("names no place for tokens"))?;
        // A password that travels under TLS does not leave it.
        let is_safe = url.scheme() == "https" || url.scheme() == "http" && asked.scheme() == "http";
        if !is_safe || !url.has_host() || !url.username().is_empty() {
            return Err(refused("names a place for tokens that is not safe"));
        }
        url.query_pairs_mut().extend_pairs(
            [("service", service), ("scope", scope)].into_iter().filter(|(_, value)| !value.is_empty()),
        );
        let authorization = login.and_then(|(user, password)| basic(&user, password.expose()));
        let question = Question { authorization, ..Question::new(url, "application/json") };
        let now = self.options.clock.elapsed();
        let answer = self.web.ask(caller, question, self.options.request_timeout).await?.ok()?;
        let body = answer.bytes(ANSWER_BYTES_MAX).await?;
        let answer = tiphys_go::json::decode_kubernetes(&body).map_err(|_error| refused("gives no token"))?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let token =
            text("token").or_else(|| text("access_token")).ok_or_else(|| refused("gives no token"))?;
        let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_error| refused("gives no usable token"))?;
        header.set_sensitive(true);
        let lasts = answer.get("expires_in").and_then(Value::as_u64).map_or(TOKEN_LASTS, Duration::from_secs);
        let mut tokens = self.tokens.lock();
        if tokens.len() >= TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(*key, (header.clone(), now + lasts.saturating_sub(MARGIN)));
        Ok(header)
    }

    fn token(&self, key: &[u8; 32]) -> Option<HeaderValue> {
        let now = self.options.clock.elapsed();
        let tokens = self.tokens.lock();
        tokens.get(key).filter(|(_, until)| now < *until).map(|(header, _)| header.clone())
    }

    /// User name and password: those of the repository, else those of Docker's configuration.
    fn login(&self, repository: &Repository, reference: &Reference) -> Option<(String, crate::Secret)> {
        if !repository.password.is_empty() {
            return Some((repository.username.clone(), repository.password.clone()));
        }
        if !repository.is_anonymous() || !repository.username.is_empty() {
            return None;
        }
        docker::login(self.options.docker_config.as_deref()?, &reference.host)
    }
}

/// A token is for one repository and whoever asks.
fn token_key(repository: &Repository, reference: &Reference) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [repository.listing_key().as_str(), &reference.host, &reference.name] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

fn url(repository: &Repository, reference: &Reference, rest: &str) -> Result<Url, SourceError> {
    let scheme = if repository.plain_http { "http" } else { "https" };
    Url::parse(&format!("{scheme}://{}/v2/{}/{rest}", reference.host, reference.name)).map_err(|_error| {
        SourceError::InvalidRepository { text: format!("{}/{} is not valid", reference.host, reference.name) }
    })
}

fn mismatch(shown: &str) -> SourceError {
    SourceError::Unavailable {
        text: format!("what {shown} answered does not have the digest that it should have"),
    }
}

/// `<url>; rel="next"`.
fn next_page(link: &str) -> Option<&str> {
    let (target, rest) = link.split_once('>')?;
    rest.contains("next").then(|| target.trim_start().strip_prefix('<')).flatten()
}
