//! Tokens in place of passwords: GitHub Apps, Google service accounts and Azure service principals (REP-70, REP-73,
//! REP-74).
//!
//! A token is asked for with the credential, and kept until shortly before it expires, under a digest of everything it
//! was asked with. Neither stands in an error.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::{Method, Uri};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tiphys_api::repo_url::Scheme;
use tiphys_cloud::jwt;

use crate::http::{Ask, Http, Roots};
use crate::sources::SourceOptions;
use crate::work::long;
use crate::{Repository, Secret, SourceError, Trust};

/// Credentials whose tokens are remembered.
const KNOWN_MAX: usize = 1000;
/// How long a token is used where neither its server nor anybody else says so.
const USED_FOR: Duration = Duration::from_mins(59);
/// How long before its end a token is not used any more.
const MARGIN: Duration = Duration::from_mins(1);
/// Bytes of the file that a workload identity proves itself with.
const ASSERTION_BYTES_MAX: u64 = 64 * 1024;
/// What Azure DevOps is called.
const AZURE_DEVOPS: &str = "499b84ac-1321-427f-aa17-267ca6975798/.default";

/// With what a token is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// A GitHub App.
    GithubApp {
        /// Id of the app.
        id: i64,
        /// Id of its installation; 0 means that of the owner of the repository.
        installation: i64,
        /// Private key, PEM.
        key: Secret,
        /// API of GitHub Enterprise; empty means that of GitHub.
        base_url: String,
    },
    /// A Google service account.
    Google {
        /// Its key, JSON.
        key: Secret,
    },
    /// An Azure service principal.
    AzureServicePrincipal {
        /// Its id.
        client_id: String,
        /// Its secret.
        client_secret: Secret,
        /// Its tenant.
        tenant_id: String,
        /// Where tokens come from; empty means the public cloud.
        endpoint: String,
    },
    /// The identity that Azure gives this process ([`AzureIdentity`]).
    AzureWorkloadIdentity,
}

/// Who this process is to Azure, as its workload identity puts it into the environment (REP-70).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AzureIdentity {
    /// `AZURE_CLIENT_ID`.
    pub client_id: String,
    /// `AZURE_TENANT_ID`.
    pub tenant_id: String,
    /// `AZURE_FEDERATED_TOKEN_FILE`, which is read for every token: it is renewed all the time.
    pub token_file: PathBuf,
    /// `AZURE_AUTHORITY_HOST`; empty means the public cloud.
    pub authority: String,
}

impl AzureIdentity {
    /// As variables of the environment say; `None` for a process that has no such identity.
    pub fn of<T: AsRef<str>>(variable: impl Fn(&'static str) -> Option<T>) -> Option<Self> {
        let text = |name| variable(name).map(|text| text.as_ref().trim().to_owned()).unwrap_or_default();
        let found = Self {
            client_id: text("AZURE_CLIENT_ID"),
            tenant_id: text("AZURE_TENANT_ID"),
            token_file: text("AZURE_FEDERATED_TOKEN_FILE").into(),
            authority: text("AZURE_AUTHORITY_HOST"),
        };
        let has_file = !found.token_file.as_os_str().is_empty();
        (has_file && !found.client_id.is_empty()).then_some(found)
    }
}

/// A token as it is shown to the server of a repository.
#[derive(Clone, Debug, Default)]
struct Token {
    username: String,
    password: Secret,
    bearer: Secret,
}

/// A token, and until when it is used, on the clock's time since its start.
type Kept = tokio::sync::Mutex<Option<(Token, Duration)>>;

/// The tokens of one installation.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Mutex<BTreeMap<[u8; 32], Arc<Kept>>>);

impl Tokens {
    /// The repository with a token in place of what it is asked for with.
    ///
    /// # Errors
    /// When there is none to be had.
    pub(crate) async fn apply(
        &self,
        (http, options, trust): (&Http, &SourceOptions, &Trust),
        repository: Repository,
    ) -> Result<Repository, SourceError> {
        let Some(source) = repository.token.clone() else { return Ok(repository) };
        if !repository.proxy.is_empty() {
            return Err(refused("tokens cannot be asked for through the proxy of a repository"));
        }
        // The identity is the installation's, and whoever declares a repository writes its URL.
        if *source == TokenSource::AzureWorkloadIdentity && !is_azure_devops(&repository, options) {
            return Err(refused(
                "the workload identity of Azure is shown to https://dev.azure.com and https://*.visualstudio.com alone",
            ));
        }
        let owner = owner(&repository);
        let kept = self.kept(&source, &owner);
        // Whoever waits gets the token that is being asked for.
        let mut kept = kept.lock().await;
        let now = options.clock.elapsed();
        let token = if let Some((token, _)) = kept.as_ref().filter(|(_, until)| now < *until) {
            token.clone()
        } else {
            let minter = Minter { http, options, trust };
            let (token, lasts) = minter.ask(&source, &owner).await?;
            let most = match &*source {
                TokenSource::GithubApp { .. } => options.token_use.github_app,
                TokenSource::Google { .. } => USED_FOR,
                TokenSource::AzureServicePrincipal { .. } => options.token_use.azure_service_principal,
                TokenSource::AzureWorkloadIdentity => USED_FOR,
            };
            *kept = Some((token.clone(), now + lasts.saturating_sub(MARGIN).min(most)));
            token
        };
        Ok(Repository {
            username: token.username,
            password: token.password,
            bearer_token: token.bearer,
            force_http_basic_auth: false,
            token: None,
            ..repository
        })
    }

    fn kept(&self, source: &TokenSource, owner: &str) -> Arc<Kept> {
        let key = digest(source, owner);
        let mut all = self.0.lock();
        if all.len() >= KNOWN_MAX && !all.contains_key(&key) {
            all.clear();
        }
        Arc::clone(all.entry(key).or_default())
    }
}

/// Whether a repository is one of Azure DevOps.
fn is_azure_devops(repository: &Repository, options: &SourceOptions) -> bool {
    let Ok(location) = repository.location() else { return false };
    let host = location.host();
    let is_there = host == "dev.azure.com" || host.ends_with(".visualstudio.com");
    location.scheme() == Scheme::Https && is_there && location.port().is_none_or(|port| port == 443)
        || options.azure_devops.as_deref() == Some(host)
}

/// First part of the path of a repository, in small letters (REP-73).
fn owner(repository: &Repository) -> String {
    let path = repository.location().map(|location| location.path().to_owned()).unwrap_or_default();
    path.trim_start_matches('/').split('/').next().unwrap_or_default().to_ascii_lowercase()
}

fn digest(source: &TokenSource, owner: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    };
    match source {
        TokenSource::GithubApp { id, installation, key, base_url } => {
            let owner = if *installation == 0 { owner } else { "" };
            let (id, installation) = (id.to_string(), installation.to_string());
            for part in ["github", &id, &installation, key.expose(), base_url, owner] {
                add(part);
            }
        }
        TokenSource::Google { key } => {
            add("google");
            add(key.expose());
        }
        TokenSource::AzureServicePrincipal { client_id, client_secret, tenant_id, endpoint } => {
            for part in ["azure", client_id, client_secret.expose(), tenant_id, endpoint] {
                add(part);
            }
        }
        TokenSource::AzureWorkloadIdentity => add("azure workload identity"),
    }
    hash.finalize().into()
}

/// What a workload identity proves itself with.
async fn assertion_in(path: PathBuf) -> Result<Secret, SourceError> {
    let unreadable = || refused("the file of AZURE_FEDERATED_TOKEN_FILE cannot be read");
    long(move || {
        let size = std::fs::metadata(&path).map_err(|_error| unreadable())?.len();
        let text = (size <= ASSERTION_BYTES_MAX).then(|| std::fs::read_to_string(&path).ok()).flatten();
        text.map(|text| Secret::from(text.trim())).filter(|text| !text.is_empty()).ok_or_else(unreadable)
    })
    .await
}

/// Asks for tokens.
struct Minter<'a> {
    http: &'a Http,
    options: &'a SourceOptions,
    trust: &'a Trust,
}

impl Minter<'_> {
    async fn ask(&self, source: &TokenSource, owner: &str) -> Result<(Token, Duration), SourceError> {
        match source {
            TokenSource::GithubApp { id, installation, key, base_url } => {
                let base = if base_url.is_empty() { "https://api.github.com" } else { base_url };
                let base = base.trim_end_matches('/');
                let jwt = self.signed(&json!({"iss": id.to_string()}), key, None, "GitHub App")?;
                let installation = match installation {
                    0 => self.installation(base, owner, &jwt).await?,
                    known => *known,
                };
                let url = format!("{base}/app/installations/{installation}/access_tokens");
                let (_, answer) = self.github(Method::POST, url, &jwt).await?.ok_or_else(|| {
                    refused("the GitHub App is not installed there (githubAppInstallationID)")
                })?;
                let until = answer
                    .get("expires_at")
                    .and_then(Value::as_str)
                    .and_then(|text| text.parse::<Timestamp>().ok());
                let lasts = until.map_or(USED_FOR, |until| {
                    Duration::try_from(until.duration_since(self.options.clock.now())).unwrap_or_default()
                });
                let token = text(&answer, "token")?;
                Ok((
                    Token { username: "x-access-token".to_owned(), password: token, ..Token::default() },
                    lasts,
                ))
            }
            TokenSource::Google { key } => self.google(key).await,
            TokenSource::AzureServicePrincipal { client_id, client_secret, tenant_id, endpoint } => {
                let proof = [("client_secret", client_secret.expose().as_str())];
                self.azure((endpoint, tenant_id, "azureServicePrincipalTenantId"), client_id, &proof).await
            }
            TokenSource::AzureWorkloadIdentity => {
                let identity = self.options.azure_identity.as_ref().ok_or_else(|| {
                    refused(
                        "this process has no workload identity of Azure: AZURE_CLIENT_ID and \
                         AZURE_FEDERATED_TOKEN_FILE are not set",
                    )
                })?;
                let AzureIdentity { client_id, tenant_id, token_file, authority } = identity;
                let assertion = assertion_in(token_file.clone()).await?;
                let proof = [
                    ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
                    ("client_assertion", assertion.expose().as_str()),
                ];
                self.azure((authority, tenant_id, "AZURE_TENANT_ID"), client_id, &proof).await
            }
        }
    }

    /// A token for Azure DevOps; the tenant has this name in the settings.
    async fn azure(
        &self,
        (endpoint, tenant, name): (&str, &str, &str),
        client_id: &str,
        proof: &[(&str, &str)],
    ) -> Result<(Token, Duration), SourceError> {
        let endpoint = if endpoint.is_empty() { "https://login.microsoftonline.com" } else { endpoint };
        // It becomes a part of a path.
        if tenant.is_empty() || !tenant.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c)) {
            return Err(refused(&format!("{name} is no id of a tenant")));
        }
        let url = format!("{}/{tenant}/oauth2/v2.0/token", endpoint.trim_end_matches('/'));
        let mut members = vec![("grant_type", "client_credentials"), ("client_id", client_id)];
        members.extend(proof);
        members.push(("scope", AZURE_DEVOPS));
        let (answer, lasts) = self.oauth(url, form(&members)).await?;
        Ok((Token { bearer: text(&answer, "access_token")?, ..Token::default() }, lasts))
    }

    async fn google(&self, key: &Secret) -> Result<(Token, Duration), SourceError> {
        let bad = || refused("gcpServiceAccountKey is no key of a service account");
        let account: Value =
            tiphys_go::json::decode_kubernetes(key.expose().as_bytes()).map_err(|_error| bad())?;
        let member = |name: &str| account.get(name).and_then(Value::as_str).unwrap_or_default();
        let (email, pem) = (member("client_email"), member("private_key"));
        if email.is_empty() || pem.is_empty() {
            return Err(bad());
        }
        // Not where the key says: a Secret says who asks, never whom.
        let url = self.options.google_token_url.clone();
        let claims =
            json!({"iss": email, "scope": "https://www.googleapis.com/auth/cloud-platform", "aud": url});
        let assertion = self.signed(
            &claims,
            &Secret::from(pem),
            Some(member("private_key_id")),
            "Google service account",
        )?;
        let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
        let form = form(&[("grant_type", grant), ("assertion", assertion.expose())]);
        let (answer, lasts) = self.oauth(url, form).await?;
        let password = text(&answer, "access_token")?;
        Ok((Token { username: email.to_owned(), password, ..Token::default() }, lasts))
    }

    /// The installation at the owner of a repository, be it an organisation or a person.
    async fn installation(&self, base: &str, owner: &str, jwt: &Secret) -> Result<i64, SourceError> {
        if owner.is_empty() || !owner.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return Err(refused("the URL of the repository names no owner on GitHub"));
        }
        for kind in ["orgs", "users"] {
            let url = format!("{base}/{kind}/{owner}/installation");
            if let Some((_, answer)) = self.github(Method::GET, url, jwt).await? {
                return answer
                    .get("id")
                    .and_then(Value::as_i64)
                    .ok_or_else(|| refused("the answer of GitHub names no installation"));
            }
        }
        Err(refused(&format!("the GitHub App is not installed at {owner:?}")))
    }

    /// `None` when there is no such thing.
    async fn github(
        &self,
        method: Method,
        url: String,
        jwt: &Secret,
    ) -> Result<Option<(u16, Value)>, SourceError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/vnd.github+json"));
        if let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {}", jwt.expose())) {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let found = self.server(Ask { method, headers, roots: self.roots(&url), ..Ask::get(&url) }).await?;
        Ok(Some(found).filter(|(status, _)| *status != 404))
    }

    async fn oauth(&self, url: String, form: String) -> Result<(Value, Duration), SourceError> {
        let ask = Ask { method: Method::POST, body: form, roots: self.roots(&url), ..Ask::get(&url) };
        let (status, answer) = self.server(ask).await?;
        if status == 404 {
            return Err(refused("the server of tokens has no such place"));
        }
        let lasts = answer.get("expires_in").and_then(Value::as_u64).map_or(USED_FOR, Duration::from_secs);
        Ok((answer, lasts))
    }

    /// Asks within the time of a request; 404 is left to the caller.
    async fn server(&self, ask: Ask) -> Result<(u16, Value), SourceError> {
        let server = ask.url.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
        let about =
            |what: &str| format!("no token from {}: {what}", server.as_deref().unwrap_or("its server"));
        let asked = tokio::time::timeout(self.options.request_timeout, self.http.json(ask)).await;
        let asked =
            asked.map_err(|_elapsed| SourceError::Timeout { text: about("it does not answer in time") })?;
        match asked {
            Ok((status, answer)) if (200..300).contains(&status) || status == 404 => Ok((status, answer)),
            Ok((status, _)) if status >= 500 || status == 429 => {
                Err(SourceError::Unavailable { text: about(&format!("it answered with status {status}")) })
            }
            Ok((status, _)) => {
                Err(SourceError::Denied { text: about(&format!("it answered with status {status}")) })
            }
            Err(why) => Err(SourceError::Unavailable { text: about(why) }),
        }
    }

    /// Who vouches for a server of tokens: as for one of repositories (REP-80).
    fn roots(&self, url: &str) -> Roots {
        let host = url.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_ascii_lowercase));
        match host.as_deref().and_then(|host| self.trust.tls.of(host)) {
            None => Roots::System,
            Some(Ok(roots)) => Roots::Pem(Arc::clone(roots)),
            // What cannot be read vouches for nobody.
            Some(Err(_unreadable)) => Roots::Pem(Arc::default()),
        }
    }

    /// A token that says who asks, signed with RS256; it holds for ten minutes, and began a minute ago for those whose
    /// clock is late.
    fn signed(
        &self,
        claims: &Value,
        pem: &Secret,
        key_id: Option<&str>,
        what: &str,
    ) -> Result<Secret, SourceError> {
        let now = self.options.clock.now().as_second();
        let mut claims = claims.clone();
        if let Some(members) = claims.as_object_mut() {
            members.insert("iat".to_owned(), (now - 60).into());
            members.insert("exp".to_owned(), (now + 540).into());
        }
        let bad = |_key| {
            refused(&format!("the private key of the {what} cannot be used: it has to be RSA, in PEM"))
        };
        jwt::signed(&claims, pem, key_id.filter(|id| !id.is_empty())).map_err(bad)
    }
}

fn text(answer: &Value, member: &str) -> Result<Secret, SourceError> {
    match answer.get(member).and_then(Value::as_str) {
        Some(token) if !token.is_empty() => Ok(Secret::from(token)),
        _ => Err(refused("the answer of the server of tokens holds none")),
    }
}

/// A form, in which everything but letters and digits is encoded.
fn form(fields: &[(&str, &str)]) -> String {
    let encoded = |text: &str| {
        text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                out.push(char::from(byte));
            } else {
                // Writing to a string cannot fail.
                let _written = write!(out, "%{byte:02X}");
            }
            out
        })
    };
    let field = |(name, value): &(&str, &str)| format!("{name}={}", encoded(value));
    fields.iter().map(field).collect::<Vec<_>>().join("&")
}

fn refused(text: &str) -> SourceError {
    SourceError::Denied { text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rep_73_owners_and_digests() {
        let of = |url: &str| owner(&Repository::anonymous(url));
        assert_eq!(of("https://github.com/Acme/shop.git"), "acme");
        assert_eq!(of("https://u@ghe.test:8443/Acme"), "acme");
        let app = |installation, key: &str| TokenSource::GithubApp {
            id: 1,
            installation,
            key: Secret::from(key),
            base_url: String::new(),
        };
        assert_eq!(digest(&app(7, "k"), "a"), digest(&app(7, "k"), "b"));
        assert_ne!(digest(&app(0, "k"), "a"), digest(&app(0, "k"), "b"));
        assert_ne!(digest(&app(7, "k"), "a"), digest(&app(7, "l"), "a"));
        assert_eq!(form(&[("a", "b c&d"), ("e", "x/.-")]), "a=b%20c%26d&e=x%2F.-");
    }
}
