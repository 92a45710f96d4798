//! Sessions: who somebody is by a token, and how one gets one (API section 2).
//!
//! [`Sessions::identify`] verifies a token, [`Sessions::login`] checks a password and gives one out. Tokens of identity
//! providers are verified by [`crate::oidc`]. What somebody may do is none of it: that is asked of the policy of roles
//! for every call.

mod guard;
mod login;
mod options;
mod own;

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::RwLock;
use tiphys_api::secret::Secret;
use tiphys_service::Store;
use tiphys_service::jwt::Unverified;
use tiphys_service::revoked::{self, Revoked, Unreadable};
use tiphys_source::Clock;
use tiphys_wire::status::Code;

use crate::call::Status;
use crate::identity::Claims;
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

/// The sessions of an installation.
pub struct Sessions {
    world: Arc<ArcSwap<World>>,
    clock: Clock,
    logins: Logins,
    revoked: RwLock<Revoked>,
    /// Why nobody knows which tokens were given back before this process began.
    unknown: RwLock<Option<Unreadable>>,
    store: Option<Store>,
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
        Self { world, clock, logins, revoked: RwLock::default(), unknown: RwLock::default(), store }
    }

    /// Who bears a token.
    ///
    /// # Errors
    /// When it does not count (API-29).
    pub fn identify(&self, token: &str) -> Result<Session, Status> {
        let unverified = Unverified::read(token).map_err(invalid)?;
        if let Some(unknown) = &*self.unknown.read() {
            return Err(Status::new(Code::Unavailable, unknown.to_string()));
        }
        let world = self.world.load();
        let now = self.clock.now();
        own::identify(&world, unverified, now, |id| self.revoked.read().contains(id))
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

    /// Gives a token back: it does not count any more, here at once and elsewhere in a moment (API-42, API-79).
    ///
    /// # Errors
    /// When others could not be told.
    pub async fn revoke(&self, id: &str, ends_at: i64) -> Result<(), tiphys_service::Error> {
        let now = self.clock.now().as_second();
        self.revoked.write().add(id, ends_at, now);
        match &self.store {
            Some(store) => revoked::revoke(store, id, ends_at, now).await,
            None => Ok(()),
        }
    }

    /// Whether a token that was verified still counts: its account is there and enabled, it was not given back, and has
    /// not ended. Long answers ask again (SEC-31, SEC-32).
    pub fn is_alive(&self, claims: &Claims) -> bool {
        let id = claims.text("jti");
        if self.unknown.read().is_some() || (!id.is_empty() && self.revoked.read().contains(id)) {
            return false;
        }
        let ends = claims.all().get("exp").and_then(tiphys_service::jwt::seconds);
        if ends.is_some_and(|ends| self.clock.now().as_second() >= ends) {
            return false;
        }
        let world = self.world.load();
        match claims.own_account() {
            Some(name) => world.account(name).is_ok_and(|account| account.is_enabled),
            None => own::is_in_books(&world, claims),
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
    }

    /// Names that are locked now.
    pub fn locked(&self) -> usize {
        self.logins.locked(self.clock.now())
    }
}

#[cfg(test)]
mod tests;
