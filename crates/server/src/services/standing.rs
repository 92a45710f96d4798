//! Access check of streams, the only one that they use (API-193, SEC-14, SEC-31, SEC-32).
//!
//! Repeats the admission of calls, so that a stream ends for every reason for which a call is refused: a revoked token, a
//! changed password, an account without the capability, a deleted token of a project. Streams check before every message,
//! and at least every [`RECHECK_INTERVAL`]; a check is skipped only while nothing that it depends on has changed.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tiphys_service::jwt;
use tiphys_wire::status::Code;
use tokio::time::Instant;

use super::Parts;
use super::admit::readmit;
use super::context::Context;
use crate::call::{Admitted, Status};
use crate::identity::Identity;
use crate::world::World;

/// Longest time between two access checks of a stream.
pub(super) const RECHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Call that continues as a stream after its method has returned.
pub(super) struct Owned {
    parts: Arc<Parts>,
    call: Mutex<Admitted>,
    /// Token of the caller; empty for anonymous callers.
    token: String,
    asked: Mutex<Option<Asked>>,
}

/// Inputs of the last check, except for time.
struct Asked {
    at: Instant,
    world: Weak<World>,
    revocations: u64,
    /// Whether the token would be renewed if it were presented now (API-40).
    is_due: bool,
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing has changed since the last check.
    Same,
    /// The caller was admitted again; rights have to be checked again, too.
    Anew,
}

impl Owned {
    pub(super) fn new(parts: &Arc<Parts>, call: Admitted, token: String) -> Self {
        Self { parts: Arc::clone(parts), call: Mutex::new(call), token, asked: Mutex::default() }
    }

    /// Admits the caller again, and updates their groups.
    ///
    /// # Errors
    /// If the session is over, or that is unknown.
    pub(super) async fn check(&self) -> Result<Standing, Status> {
        if self.is_fresh() {
            return Ok(Standing::Same);
        }
        let (world, revocations) = (self.parts.world.load_full(), self.parts.sessions.revocations());
        let call = self.call.lock().clone();
        let (identity, is_due) = readmit(&self.parts, &call, &self.token).await?;
        self.call.lock().identity = identity;
        *self.asked.lock() =
            Some(Asked { at: Instant::now(), world: Arc::downgrade(&world), revocations, is_due });
        Ok(Standing::Anew)
    }

    /// Admits the caller again, and checks their rights if anything may have changed.
    ///
    /// # Errors
    /// The refusal of either.
    pub(super) async fn check_with(
        &self,
        may: impl FnOnce(&Context<'_>) -> Result<(), Status> + Send,
    ) -> Result<Standing, Status> {
        let standing = self.check().await?;
        if standing == Standing::Anew
            && let Err(refused) = self.within(may)
        {
            // The next check starts anew.
            *self.asked.lock() = None;
            return Err(refused);
        }
        Ok(standing)
    }

    /// Whether the last check found the token due for renewal (API-193).
    pub(super) fn is_due(&self) -> bool {
        self.asked.lock().as_ref().is_some_and(|asked| asked.is_due)
    }

    /// Evaluates a closure with the current snapshot of the installation.
    pub(super) fn within<T>(&self, ask: impl FnOnce(&Context<'_>) -> T) -> T {
        let call = self.call.lock().clone();
        ask(&Context::new(&self.parts, call))
    }

    fn is_fresh(&self) -> bool {
        let asked = self.asked.lock();
        let Some(Asked { at, world, revocations, .. }) = &*asked else { return false };
        at.elapsed() < RECHECK_INTERVAL
            && *revocations == self.parts.sessions.revocations()
            && std::ptr::eq(world.as_ptr(), Arc::as_ptr(&self.parts.world.load()))
            && !self.has_ended()
    }

    fn has_ended(&self) -> bool {
        let call = self.call.lock();
        let claims = match &call.identity {
            Identity::Known(claims) => claims.all(),
            Identity::Anonymous | Identity::Unchecked => return false,
        };
        let ends = claims.get("exp").and_then(jwt::seconds);
        ends.is_some_and(|ends| self.parts.clock.now().as_second() >= ends)
    }
}

/// Error that ends a stream with the session of its caller.
pub(super) fn is_over() -> Status {
    Status::new(Code::Unauthenticated, "the session is over")
}
