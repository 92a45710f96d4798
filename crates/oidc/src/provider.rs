//! A provider: asks it for its document, its keys and tokens, and keeps what it told.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tiphys_api::secret::Secret;
use tiphys_service::jwt::{TokenError, Unverified};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::claims::{self, ClaimError, Expected};
use crate::http::{Http, HttpError, Transport};
use crate::keys::{ALGORITHMS, KeyError, KeySet, NoKeys};
use crate::metadata::{self, Metadata, MetadataError};

/// How long document and keys count without a further question: keys that a provider takes back end here.
const FRESH: Duration = Duration::from_hours(1);
/// How long they count while the provider cannot be asked.
const STALE_MAX: Duration = Duration::from_hours(24);
/// Time between two questions, whoever sends however many tokens with keys that nobody knows.
const PAUSE: Duration = Duration::from_secs(10);

/// Why a token does not count, or a provider did not help. No text holds a token or a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// It did not answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Its document cannot be used.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// Its keys cannot be used.
    #[error("the keys of the provider cannot be read: {0}")]
    Keys(#[from] NoKeys),
    /// The token is none.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The signature does not count.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The claims do not count.
    #[error(transparent)]
    Claims(#[from] ClaimError),
    /// What should be tokens is none.
    #[error("the provider answers without a token of the person (id_token)")]
    NoIdToken,
    /// What it tells of somebody is about somebody else.
    #[error("the provider tells of somebody else than the token is of")]
    Subject,
    /// What it tells of somebody cannot be read.
    #[error("what the provider tells of somebody cannot be read")]
    Told,
    /// It has no logins by a code (CLI-207).
    #[error("the provider offers no logins by a code (device_authorization_endpoint)")]
    NoDeviceLogins,
    /// What should tell how to log in by a code does not.
    #[error("the provider answers without a code for the person")]
    NoDeviceCode,
    /// It was asked a moment ago.
    #[error("the provider was asked a moment ago")]
    Pausing,
}

impl ProviderError {
    /// Whether everything about a token is right, but that it is over (API-65).
    pub fn is_expired(&self) -> bool {
        *self == Self::Claims(ClaimError::Expired)
    }

    /// The error that the provider named in an answer.
    pub(crate) fn told(&self) -> Option<&str> {
        match self {
            Self::Http(HttpError::Refused { told, .. }) => told.strip_prefix(": "),
            _ => None,
        }
    }
}

/// Who we are to a provider when we ask for tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Our id.
    pub id: String,
    /// What proves it; empty for programs that everybody has.
    pub secret: Secret<String>,
    /// A token of our own platform that proves it instead (API-64).
    pub assertion: Option<Secret<String>>,
}

/// Tokens that a provider gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// Says who somebody is. Not verified.
    pub id_token: Secret<String>,
    /// Opens more of the provider.
    pub access_token: Secret<String>,
    /// Gives further tokens; may be empty.
    pub refresh_token: Secret<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names of the protocol")]
struct TokenAnswer {
    id_token: Secret<String>,
    access_token: Secret<String>,
    refresh_token: Secret<String>,
}

#[derive(Debug)]
struct Known {
    metadata: Arc<Metadata>,
    keys: KeySet,
    since: Instant,
}

/// The last question, and how it ended when it failed.
#[derive(Debug, Default)]
struct Asked {
    at: Option<Instant>,
    failure: Option<ProviderError>,
}

/// A provider, with what is known of it.
#[derive(Debug)]
pub struct Provider(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    issuer: String,
    http: Http,
    known: RwLock<Option<Arc<Known>>>,
    /// One question at a time.
    asking: Mutex<Asked>,
}

impl Provider {
    /// A provider that was not asked yet.
    ///
    /// # Errors
    /// When the way to it cannot be set up.
    pub fn new(issuer: &str, transport: &Transport) -> Result<Self, HttpError> {
        let http = Http::new(transport)?;
        let (known, asking) = (RwLock::default(), Mutex::default());
        Ok(Self(Arc::new(Inner { issuer: issuer.to_owned(), http, known, asking })))
    }

    /// What it tells of itself.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn metadata(&self) -> Result<Arc<Metadata>, ProviderError> {
        self.current().await.map(|known| Arc::clone(&known.metadata))
    }

    /// The claims of a token, when it is one of this provider that counts (API-65). A signature that no known key made
    /// has the keys asked for once more, at a bounded rate.
    ///
    /// # Errors
    /// When it does not count, or nobody can tell.
    pub async fn verify(
        &self,
        token: &str,
        expected: &Expected<'_>,
        now_seconds: i64,
    ) -> Result<Map<String, Value>, ProviderError> {
        let unverified = Unverified::read(token)?;
        // Neither is worth a question.
        if !ALGORITHMS.contains(&unverified.algorithm()) {
            return Err(KeyError::Algorithm.into());
        }
        if unverified.issuer() != expected.issuer {
            return Err(ClaimError::Issuer.into());
        }
        self.check_signature(&unverified).await?;
        let found = unverified.into_claims();
        claims::check(&found, expected, now_seconds)?;
        Ok(found)
    }

    /// Whether a key of the provider has signed a token.
    async fn check_signature(&self, unverified: &Unverified<'_>) -> Result<(), ProviderError> {
        let known = self.current().await?;
        let told = |known: &Known| known.metadata.id_token_signing_alg_values_supported.clone();
        match known.keys.verify(unverified, &told(&known)) {
            Ok(()) => Ok(()),
            Err(KeyError::Unknown) => {
                let newer = self.ask(Some(Arc::clone(&known))).await.map_err(|error| {
                    if error != ProviderError::Pausing {
                        tracing::warn!(%error, "the keys of the identity provider cannot be asked for");
                    }
                    KeyError::Unknown
                })?;
                Ok(newer.keys.verify(unverified, &told(&newer))?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The groups that the provider tells of the bearer of an access token, who has to be `subject` (API-68). The answer is
    /// JSON, or a token that it signed.
    ///
    /// # Errors
    /// When it does not tell, or tells of somebody else.
    pub async fn user_groups(
        &self,
        url: &str,
        access: &Secret<String>,
        subject: &str,
    ) -> Result<Vec<String>, ProviderError> {
        let answer = self.0.http.get_as(url, access).await?;
        let read = serde_json::from_slice::<Map<String, Value>>(&answer);
        let told = if let Ok(told) = read {
            told
        } else {
            let text = std::str::from_utf8(&answer).map_err(|_no_text| ProviderError::Told)?;
            let token = Unverified::read(text.trim())?;
            if !ALGORITHMS.contains(&token.algorithm()) {
                return Err(KeyError::Algorithm.into());
            }
            self.check_signature(&token).await?;
            token.into_claims()
        };
        if subject.is_empty() || told.get("sub").and_then(Value::as_str) != Some(subject) {
            return Err(ProviderError::Subject);
        }
        // Whoever has none may be told without the member.
        told.get("groups").map_or(Some(Vec::new()), groups).ok_or(ProviderError::Told)
    }

    /// The groups that Microsoft tells of the bearer of an access token (API-69).
    ///
    /// # Errors
    /// When it does not tell.
    pub async fn member_groups(
        &self,
        url: &str,
        access: &Secret<String>,
    ) -> Result<Vec<String>, ProviderError> {
        let answer = self.0.http.post_as(url, access, &json!({"securityEnabledOnly": true})).await?;
        let told: Value = serde_json::from_slice(&answer).map_err(|_secret| ProviderError::Told)?;
        told.get("value").filter(|value| value.is_array()).and_then(groups).ok_or(ProviderError::Told)
    }

    /// Exchanges a code for tokens.
    ///
    /// # Errors
    /// When there are none.
    pub async fn exchange(
        &self,
        client: &Client,
        code: &Secret<String>,
        (redirect_uri, verifier): (&str, Option<&str>),
    ) -> Result<Granted, ProviderError> {
        let mut members = vec![
            ("grant_type", "authorization_code"),
            ("code", code.expose().as_str()),
            ("redirect_uri", redirect_uri),
        ];
        members.extend(verifier.map(|verifier| ("code_verifier", verifier)));
        self.granted(client, members).await
    }

    /// Asks for further tokens.
    ///
    /// # Errors
    /// When there are none.
    pub async fn refresh(&self, client: &Client, token: &Secret<String>) -> Result<Granted, ProviderError> {
        let members = vec![("grant_type", "refresh_token"), ("refresh_token", token.expose().as_str())];
        let granted = self.granted(client, members).await?;
        // Where the provider names none, the one we have goes on.
        let refresh_token =
            if granted.refresh_token.is_empty() { token.clone() } else { granted.refresh_token };
        Ok(Granted { refresh_token, ..granted })
    }

    pub(crate) async fn granted(
        &self,
        client: &Client,
        members: Vec<(&str, &str)>,
    ) -> Result<Granted, ProviderError> {
        let metadata = self.metadata().await?;
        let answer = self.form(&metadata.token_endpoint, client, members).await?;
        let answer: TokenAnswer =
            serde_json::from_slice(&answer).map_err(|_secret| ProviderError::NoIdToken)?;
        if answer.id_token.is_empty() {
            return Err(ProviderError::NoIdToken);
        }
        let TokenAnswer { id_token, access_token, refresh_token } = answer;
        Ok(Granted { id_token, access_token, refresh_token })
    }

    /// What a form is answered with that says who we are.
    pub(crate) async fn form(
        &self,
        place: &str,
        client: &Client,
        mut members: Vec<(&str, &str)>,
    ) -> Result<Vec<u8>, ProviderError> {
        let metadata = self.metadata().await?;
        let mut authorization = None;
        if let Some(assertion) = &client.assertion {
            members.push(("client_id", &client.id));
            members.push(("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"));
            members.push(("client_assertion", assertion.expose()));
        } else if client.secret.is_empty() {
            members.push(("client_id", &client.id));
        } else if metadata.wants_secret_in_form() {
            members.push(("client_id", &client.id));
            members.push(("client_secret", client.secret.expose()));
        } else {
            authorization = Some(basic(client));
        }
        Ok(self.0.http.form(place, &members, authorization.as_ref()).await?)
    }

    /// What is known, asked for where it is too old.
    async fn current(&self) -> Result<Arc<Known>, ProviderError> {
        let known = self.0.known.read().clone();
        let Some(known) = known else { return self.ask(None).await };
        if known.since.elapsed() < FRESH {
            return Ok(known);
        }
        match self.ask(Some(Arc::clone(&known))).await {
            Ok(newer) => Ok(newer),
            Err(error) if known.since.elapsed() < STALE_MAX => {
                if error != ProviderError::Pausing {
                    tracing::warn!(%error, "the identity provider cannot be asked; its last keys stay in force");
                }
                Ok(known)
            }
            Err(error) => Err(error),
        }
    }

    /// Asks, unless somebody has done so since `than`, or tried to a moment ago. Whoever goes away meanwhile takes
    /// nothing from the others: the question goes on.
    async fn ask(&self, than: Option<Arc<Known>>) -> Result<Arc<Known>, ProviderError> {
        let inner = Arc::clone(&self.0);
        let asking = tokio::spawn(async move { inner.ask(than.as_ref()).await });
        asking.await.unwrap_or(Err(ProviderError::Pausing))
    }
}

/// The groups that a list names, or one text; `None` where it is something else: what cannot be read is not nothing.
fn groups(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        Value::String(text) => Some(vec![text.clone()]),
        _ => None,
    }
}

impl Inner {
    async fn ask(&self, than: Option<&Arc<Known>>) -> Result<Arc<Known>, ProviderError> {
        let mut asked = self.asking.lock().await;
        let known = self.known.read().clone();
        if let Some(known) = known
            && than.is_none_or(|old| !Arc::ptr_eq(old, &known))
        {
            return Ok(known);
        }
        if asked.at.is_some_and(|at| at.elapsed() < PAUSE) {
            return Err(asked.failure.clone().unwrap_or(ProviderError::Pausing));
        }
        let answer = self.questions().await;
        // After the first answer, a key that is not in it may be asked for at once.
        if than.is_some() || answer.is_err() {
            asked.at = Some(Instant::now());
        }
        match answer {
            Ok(known) => {
                let known = Arc::new(known);
                *self.known.write() = Some(Arc::clone(&known));
                asked.failure = None;
                Ok(known)
            }
            Err(error) => {
                asked.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    async fn questions(&self) -> Result<Known, ProviderError> {
        let document = self.http.get(&metadata::address(&self.issuer)).await?;
        let metadata = Metadata::read(&document, &self.issuer)?;
        let keys = KeySet::read(&self.http.get(&metadata.jwks_uri).await?)?;
        Ok(Known { metadata: Arc::new(metadata), keys, since: Instant::now() })
    }
}

/// Our id and secret in a header; both are forms first (RFC 6749, 2.3.1).
fn basic(client: &Client) -> Secret<String> {
    let part = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let both = Secret::new(format!("{}:{}", part(&client.id), part(client.secret.expose())));
    Secret::new(format!("Basic {}", STANDARD.encode(both.expose())))
}
