//! Sessions: who somebody is by a token, and how one gets one (API section 2).
//!
//! [`Sessions::identify`] verifies a token, [`Sessions::login`] checks a password and gives one out. Tokens of identity
//! providers are verified by [`crate::sso`]. What somebody may do is none of it: that is asked of the policy of roles
//! for every call.

mod guard;
mod login;
mod options;
mod own;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::RwLock;
use tiphys_api::secret::Secret;
use tiphys_service::Store;
use tiphys_service::jwt::{self, Unverified};
use tiphys_service::revoked::{self, Revoked, TokenKey, Unreadable};
use tiphys_source::Clock;
use tiphys_wire::status::Code;

use crate::call::Status;
use crate::identity::Claims;
use crate::sso::{NoGroups, Providers};
use crate::world::World;
use login::Logins;

pub(crate) use login::Login;
pub(crate) use options::session_duration;
pub(crate) use own::login_token;

/// Somebody with a valid token.
#[derive(Clone, Debug)]
pub struct Session {
    /// What the token says.
    pub claims: Claims,
    /// A token that replaces it.
    pub renewed_token: Option<Secret<String>>,
}

/// A token that does not count.
#[derive(Clone, Debug)]
pub struct Refused {
    /// What is answered.
    pub status: Status,
    /// Whether an identity provider gave it, and everything about it is right but that it is over: whoever bears it is
    /// sent to log in there again (API-65).
    pub is_expired_sso: bool,
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self { status, is_expired_sso: false }
    }
}

/// The sessions of an installation.
pub struct Sessions {
    world: Arc<ArcSwap<World>>,
    clock: Clock,
    logins: Logins,
    revoked: RwLock<Revoked>,
    /// Number of changes to the revoked tokens.
    revocations: AtomicU64,
    /// Why nobody knows which tokens were given back before this process began.
    unknown: RwLock<Option<Unreadable>>,
    store: Option<Store>,
    providers: Providers,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sessions")
    }
}

/// A token that does not count; the text says why, and nothing of the token.
pub(crate) fn invalid(reason: impl std::fmt::Display) -> Status {
    Status::new(Code::Unauthenticated, format!("invalid session: {reason}"))
}

impl Sessions {
    /// Sessions by a snapshot that is exchanged; without a store tokens are given back in this process alone.
    pub fn new(world: Arc<ArcSwap<World>>, clock: Clock, store: Option<Store>) -> Self {
        let logins = Logins::new(&world.load().installation.settings);
        Self {
            world,
            clock,
            logins,
            revoked: RwLock::default(),
            revocations: AtomicU64::new(0),
            unknown: RwLock::default(),
            store,
            providers: Providers::default(),
        }
    }

    /// The identity provider of the installation.
    pub(crate) fn providers(&self) -> &Providers {
        &self.providers
    }

    /// Who bears a token; one of an identity provider that ends soon, or is over, is refreshed where that is possible
    /// (API-70).
    ///
    /// # Errors
    /// When it does not count (API-29).
    pub async fn identify(&self, token: &str) -> Result<Session, Refused> {
        let refused = match self.verify(token).await {
            Ok(session) => {
                let session = self.refreshed_early(session).await;
                let claims = self.with_groups(session.claims).await?;
                return Ok(Session { claims, ..session });
            }
            Err(refused) if refused.is_expired_sso => refused,
            Err(refused) => return Err(refused),
        };
        // Everything but its end was verified.
        let claims = Unverified::read(token).map_err(invalid)?.into_claims();
        let world = self.world.load_full();
        let Some(sso) = world.sso() else { return Err(refused) };
        match self.providers.refreshed(sso, &claims, self.clock.now()).await {
            Some((token, claims)) if !self.is_revoked(&claims) => {
                let claims = self.with_groups(Claims::new(claims)).await?;
                Ok(Session { claims, renewed_token: Some(token) })
            }
            _ => Err(refused),
        }
    }

    /// Verifies a token that was presented before, as at the first call. Refreshes nothing: a stream cannot return a new
    /// token.
    ///
    /// # Errors
    /// If the token is not valid any more (API-29).
    pub(crate) async fn confirm(&self, token: &str) -> Result<Session, Refused> {
        let session = self.verify(token).await?;
        let claims = self.with_groups(session.claims).await?;
        Ok(Session { claims, ..session })
    }

    /// Generation of the revoked tokens. All other inputs of token verification are in the snapshot.
    pub(crate) fn revocations(&self) -> u64 {
        self.revocations.load(Ordering::Acquire)
    }

    /// Who bears a token, as it is.
    ///
    /// # Errors
    /// When it does not count (API-29).
    pub(crate) async fn verify(&self, token: &str) -> Result<Session, Refused> {
        let unverified = Unverified::read(token).map_err(invalid)?;
        if let Some(unknown) = &*self.unknown.read() {
            return Err(Status::new(Code::Unavailable, unknown.to_string()).into());
        }
        let world = self.world.load_full();
        let now = self.clock.now();
        let issuer = unverified.issuer();
        if issuer == jwt::ISSUER || world.sso().is_none() {
            return Ok(own::identify(&world, unverified, now, |claims| self.is_revoked(claims))?);
        }
        let Some(sso) = world.sso().filter(|sso| issuer == sso.provider.issuer) else {
            return Err(invalid("failed to verify the token").into());
        };
        match self.providers.verify(sso, (token, None), now).await {
            Ok(claims) if self.is_revoked(&claims) => {
                Err(invalid("token is revoked, please re-login").into())
            }
            Ok(claims) => Ok(Session { claims: Claims::new(claims), renewed_token: None }),
            Err(error) => {
                tracing::debug!(%error, "a token of the identity provider does not count");
                // Whoever has logged out is not refreshed.
                let is_expired_sso = error.is_expired() && !self.is_revoked(&unverified.into_claims());
                Err(Refused { status: invalid("failed to verify the token"), is_expired_sso })
            }
        }
    }

    /// The same claims with groups that are asked for, of people whom an identity provider knows.
    async fn with_groups(&self, claims: Claims) -> Result<Claims, Refused> {
        let world = self.world.load_full();
        let is_own = claims.text("iss") == jwt::ISSUER;
        let Some(sso) = world.sso().filter(|_| !is_own) else { return Ok(claims) };
        let found = self.providers.with_groups(sso, claims.all().clone(), self.clock.now()).await;
        found.map(Claims::new).map_err(|error| match error {
            NoGroups::LogInAgain => invalid(error).into(),
            // What is not known is nobody's right, and no reason to log in again.
            NoGroups::Untold => Status::new(Code::Unavailable, error.to_string()).into(),
        })
    }

    fn is_revoked(&self, claims: &serde_json::Map<String, serde_json::Value>) -> bool {
        self.revoked.read().contains(&TokenKey::of(claims))
    }

    /// A session whose token is replaced where it ends within the time that is set; the call itself goes on with the one
    /// it has.
    async fn refreshed_early(&self, session: Session) -> Session {
        let world = self.world.load_full();
        let claims = session.claims.all();
        let is_own = session.claims.text("iss") == jwt::ISSUER;
        let Some(sso) = world.sso().filter(|sso| !is_own && !sso.provider.refresh_threshold.is_zero()) else {
            return session;
        };
        let now = self.clock.now();
        let ends = claims.get("exp").and_then(jwt::seconds).unwrap_or(i64::MAX);
        let threshold = i64::try_from(sso.provider.refresh_threshold.as_secs()).unwrap_or(i64::MAX);
        if ends.saturating_sub(now.as_second()) > threshold {
            return session;
        }
        let refreshed = self.providers.refreshed(sso, claims, now).await;
        Session { renewed_token: refreshed.map(|(token, _)| token), ..session }
    }

    /// Checks a password and gives out a token (API-48).
    ///
    /// # Errors
    /// When it is wrong, or the account cannot log in.
    pub(crate) async fn login(&self, login: Login) -> Result<Secret<String>, Status> {
        let Some(_turn) = self.logins.turn() else { return Err(login::refused()) };
        if !login.token.is_empty() {
            let text = "token-based session creation no longer supported. please upgrade argocd cli to v0.7+";
            return Err(Status::new(Code::Unauthenticated, text));
        }
        if login.username.is_empty() || login.password.is_empty() {
            return Err(Status::new(Code::Unauthenticated, "no credentials supplied"));
        }
        let world = self.world.load_full();
        self.logins.check(&world, &login.username, &login.password, &self.clock).await?;
        let lifetime = i64::try_from(world.session_duration.as_secs()).unwrap_or(i64::MAX);
        login_token(&world, &login.username, lifetime, self.clock.now())
    }

    /// Checks a password of an account, as a login does (API-56).
    ///
    /// # Errors
    /// When it is wrong, or the account cannot log in.
    pub(crate) async fn check_password(
        &self,
        username: &str,
        password: &Secret<String>,
    ) -> Result<(), Status> {
        let world = self.world.load_full();
        self.logins.check(&world, username, password, &self.clock).await
    }

    /// Revokes the token with these claims, in this process at once and in others shortly after (API-42, API-79). Tokens
    /// without an expiry are kept as long as there is room.
    ///
    /// # Errors
    /// If the revocation cannot be stored for other processes.
    pub async fn revoke(
        &self,
        claims: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<(), tiphys_service::Error> {
        let (token, now) = (TokenKey::of(claims), self.clock.now().as_second());
        let ends_at = claims.get("exp").and_then(jwt::seconds).unwrap_or(i64::MAX);
        self.revoked.write().add(&token, ends_at, now);
        self.revocations.fetch_add(1, Ordering::AcqRel);
        match &self.store {
            Some(store) => revoked::revoke(store, &token, ends_at, now).await,
            None => Ok(()),
        }
    }

    /// Takes what others gave back. A record that cannot be read leaves what is known in force; where nothing is, no token
    /// counts until it can be read.
    pub fn take_revoked(&self, others: Result<Revoked, Unreadable>) {
        match others {
            Ok(others) => {
                self.revoked.write().merge(others);
                *self.unknown.write() = None;
            }
            Err(error) => {
                tracing::error!(%error, "the last known tokens that were given back stay refused");
                if self.revoked.read().is_empty() {
                    *self.unknown.write() = Some(error);
                }
            }
        }
        self.revocations.fetch_add(1, Ordering::AcqRel);
    }

    /// Names that are locked now.
    pub fn locked(&self) -> usize {
        self.logins.locked(self.clock.now())
    }
}

#[cfg(test)]
mod tests;
