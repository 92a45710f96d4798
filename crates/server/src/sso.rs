//! Single sign-on: people whom an identity provider knows (API-59..79).
//!
//! [`settings`] says which provider, [`redirect`] which addresses are ours, [`state`] what a browser carries from the
//! begin of a login to its end. [`Providers`] verifies tokens and refreshes them; [`Door`] answers `/auth/…` and hands
//! `/api/dex/` on.

mod dex;
mod dex_config;
mod door;
mod groups;
mod redirect;
mod refresh;
mod settings;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tiphys_api::secret::Secret;
use tiphys_oidc::{Client, Granted, HttpError, Provider, ProviderError};

pub use dex_config::{DexConfigError, DexOptions, dex_config, referred_secrets};
pub use door::Door;
pub(crate) use settings::{SsoSettings, additional_urls};

pub(crate) use groups::NoGroups;

use groups::People;
use refresh::Refreshes;

/// Bytes of the token of our platform.
const ASSERTION_BYTES_MAX: u64 = 64 << 10;

/// A provider, or why there is none, with the settings that it was made by.
type Current = Option<(Arc<SsoSettings>, Result<Arc<Provider>, HttpError>)>;

/// The provider of the installation, with what is known of it. Other settings make another one, without a restart.
#[derive(Default)]
pub(crate) struct Providers {
    current: Mutex<Current>,
    refreshes: Refreshes,
    people: People,
}

impl Providers {
    /// The provider by these settings.
    pub(crate) fn of(&self, settings: &Arc<SsoSettings>) -> Result<Arc<Provider>, ProviderError> {
        let mut current = self.current.lock();
        if let Some((known, provider)) = &*current
            && known == settings
        {
            return Ok(provider.clone()?);
        }
        let made = Provider::new(&settings.provider.issuer, &settings.provider.transport).map(Arc::new);
        if let Err(error) = &made {
            tracing::error!(%error, "the identity provider cannot be used");
        }
        *current = Some((Arc::clone(settings), made.clone()));
        // Tokens of another provider are refreshed by nobody.
        self.refreshes.clear();
        self.people.clear();
        Ok(made?)
    }

    /// The claims of a token that counts.
    pub(crate) async fn verify(
        &self,
        settings: &Arc<SsoSettings>,
        (token, nonce): (&str, Option<&str>),
        now: Timestamp,
    ) -> Result<Map<String, Value>, ProviderError> {
        let provider = self.of(settings)?;
        provider.verify(token, &settings.provider.expected(nonce), now.as_second()).await
    }

    /// Keeps what a login gave, so that its token can be refreshed until the session is over.
    pub(crate) fn keep(&self, claims: &Map<String, Value>, granted: &Granted, ends: Timestamp) {
        self.refreshes.keep(claims, granted, ends);
        self.people.keep(claims, &granted.access_token, ends);
    }

    /// Forgets how the token of a session that ends is refreshed.
    pub(crate) fn forget(&self, claims: &Map<String, Value>) {
        self.refreshes.forget(claims);
        self.people.forget(claims);
    }

    /// Claims with the groups that are not in the token, where the settings say that they are asked for (API-68, API-69).
    ///
    /// # Errors
    /// When they are not known.
    pub(crate) async fn with_groups(
        &self,
        settings: &Arc<SsoSettings>,
        mut claims: Map<String, Value>,
        now: Timestamp,
    ) -> Result<Map<String, Value>, NoGroups> {
        let of_azure = settings.provider.overage.as_ref().filter(|_| groups::has_too_many(&claims));
        let Some(source) = settings.provider.user_info.as_ref().or(of_azure) else { return Ok(claims) };
        let is_of_azure = settings.provider.user_info.is_none();
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default().to_owned();
        let ask = async |access: Secret<String>| {
            let asked = async {
                let provider = self.of(settings)?;
                if is_of_azure {
                    return provider.member_groups(&source.url, &access).await;
                }
                provider.user_groups(&source.url, &access, &subject).await
            };
            asked.await.map_err(|error| {
                tracing::warn!(%error, "the identity provider does not tell the groups of somebody");
                match error {
                    ProviderError::Http(HttpError::Refused { status: 401, .. }) => NoGroups::LogInAgain,
                    _ => NoGroups::Untold,
                }
            })
        };
        let found = self.people.groups(source, &claims, now, ask).await?;
        claims.insert("groups".to_owned(), found.into());
        Ok(claims)
    }

    /// A token that replaces one of these claims, with its claims; `None` where there is none (API-70).
    pub(crate) async fn refreshed(
        &self,
        settings: &Arc<SsoSettings>,
        claims: &Map<String, Value>,
        now: Timestamp,
    ) -> Option<(Secret<String>, Map<String, Value>)> {
        let kept = self.refreshes.of(claims, now)?;
        let mut kept = kept.lock().await;
        // Somebody else has done so while we waited.
        let others = self.verify(settings, (kept.id_token.expose(), None), now).await;
        if let Ok(found) = others
            && found.get("iat") != claims.get("iat")
        {
            return Some((kept.id_token.clone(), found));
        }
        let outcome = async {
            let provider = self.of(settings)?;
            let client = client(settings).await;
            let granted = provider.refresh(&client, &kept.refresh_token).await?;
            // What a provider takes once is gone, whatever the new token is worth.
            kept.refresh_token = granted.refresh_token;
            self.people.renew(claims, &granted.access_token);
            let found = self.verify(settings, (granted.id_token.expose(), None), now).await?;
            kept.id_token = granted.id_token;
            Ok::<_, ProviderError>(found)
        };
        match outcome.await {
            Ok(found) if found.get("sub") == claims.get("sub") => Some((kept.id_token.clone(), found)),
            Ok(_) => {
                tracing::warn!("the identity provider refreshes a token with that of somebody else");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "a token of the identity provider cannot be refreshed");
                None
            }
        }
    }
}

/// Keeps something until it ends; of more than `max` the one that ends first makes room.
fn keep<K: Ord + Clone, V>(
    all: &mut BTreeMap<K, (Timestamp, V)>,
    (key, value): (K, V),
    ends: Timestamp,
    max: usize,
) {
    all.insert(key, (ends, value));
    if all.len() > max {
        let first = all.iter().min_by_key(|(_, (ends, _))| *ends).map(|(key, _)| key.clone());
        first.and_then(|key| all.remove(&key));
    }
}

/// Who we are to the provider, with the token of our platform where that proves it (API-64).
pub(crate) async fn client(settings: &SsoSettings) -> Client {
    let provider = &settings.provider;
    let mut client =
        Client { id: provider.client_id.clone(), secret: provider.client_secret.clone(), assertion: None };
    if provider.uses_workload_identity {
        client.assertion = assertion(&settings.federated_token_file).await;
    }
    client
}

async fn assertion(path: &str) -> Option<Secret<String>> {
    use tokio::io::AsyncReadExt as _;
    let read = async {
        let mut text = String::new();
        let file = tokio::fs::File::open(path).await?;
        file.take(ASSERTION_BYTES_MAX).read_to_string(&mut text).await?;
        Ok::<_, std::io::Error>(Secret::new(text.trim().to_owned()))
    };
    match read.await {
        Ok(text) => Some(text),
        Err(error) => {
            tracing::error!(%error, path, "the token of the workload identity cannot be read");
            None
        }
    }
}
