//! Logging in with a password (API-48..50).

use std::time::Duration;

use parking_lot::Mutex;
use tiphys_api::Settings;
use tiphys_api::account::Capability;
use tiphys_api::secret::Secret;
use tiphys_service::account::{verify, verify_nobody};
use tiphys_source::Clock;
use tiphys_wire::status::Code;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::guard::{Attempt, Guard};
use super::options::LoginOptions;
use crate::call::Status;
use crate::world::World;

/// Bytes of the name of an account.
const USERNAME_BYTES_MAX: usize = 32;
/// Least time that an answer takes, whatever it is …
const PATIENCE: Duration = Duration::from_millis(500);
/// … and what chance adds to it, so that small differences tell nothing (SEC-13).
const PATIENCE_RANGE_MS: u64 = 500;

/// What somebody logs in with.
pub(crate) struct Login {
    pub(crate) username: String,
    pub(crate) password: Secret<String>,
    pub(crate) token: Secret<String>,
}

/// Logins under way, and those that failed.
#[derive(Debug)]
pub(super) struct Logins {
    guard: Mutex<Guard>,
    turns: Option<Semaphore>,
}

/// A turn among those that log in; it ends when it is dropped.
pub(super) enum Turn<'l> {
    /// Nobody counts.
    Free,
    /// One of those that there are.
    Counted(#[expect(dead_code, reason = "held, not read")] SemaphorePermit<'l>),
}

/// The answer to a wrong name, a wrong password and a locked name.
pub(super) fn refused() -> Status {
    Status::new(Code::Unauthenticated, "Invalid username or password")
}

impl Logins {
    pub(super) fn new(settings: &Settings) -> Self {
        let options = LoginOptions::read(settings);
        Self { guard: Mutex::new(Guard::new(options.guard)), turns: options.at_once_max.map(Semaphore::new) }
    }

    /// A turn among those that log in at the same time; `None` when there are too many.
    pub(super) fn turn(&self) -> Option<Turn<'_>> {
        match &self.turns {
            None => Some(Turn::Free),
            Some(turns) => turns.try_acquire().ok().map(Turn::Counted),
        }
    }

    pub(super) fn locked(&self, now: jiff::Timestamp) -> usize {
        self.guard.lock().locked(now)
    }

    /// Checks a password (API-49). Takes at least half a second.
    pub(super) async fn check(
        &self,
        world: &World,
        username: &str,
        password: &Secret<String>,
        clock: &Clock,
    ) -> Result<(), Status> {
        let [patience, chance] = chances();
        let until = Instant::now() + PATIENCE + Duration::from_millis(patience % PATIENCE_RANGE_MS);
        let outcome = self.outcome(world, username, password, (clock, chance)).await;
        tokio::time::sleep_until(until).await;
        outcome
    }

    async fn outcome(
        &self,
        world: &World,
        username: &str,
        password: &Secret<String>,
        (clock, chance): (&Clock, u64),
    ) -> Result<(), Status> {
        if password.is_empty() {
            return Err(Status::new(Code::Unauthenticated, "Blank passwords are not allowed"));
        }
        if username.len() > USERNAME_BYTES_MAX {
            return Err(Status::invalid("Username is too long (32 bytes max)"));
        }
        let account = world.account(username).ok();
        if self.guard.lock().begin(username, account.is_some(), clock.now(), chance) == Attempt::Locked {
            return Err(refused());
        }
        let stored = account.map(|account| account.password.clone());
        let given = password.clone();
        let checking = tokio::task::spawn_blocking(move || match stored {
            Some(stored) => verify(&given, &stored),
            None => verify_nobody(&given),
        });
        // Whoever goes away meanwhile has failed: the guard has counted it.
        let is_right = checking.await.unwrap_or(false);
        let Some(account) = account.filter(|_| is_right) else { return Err(refused()) };
        self.guard.lock().succeeded(username);
        if !account.is_enabled {
            return Err(Status::new(Code::Unauthenticated, format!("Account {username} is disabled")));
        }
        if !account.has(Capability::Login) {
            let text = format!("Account {username} does not have login capability");
            return Err(Status::new(Code::Unauthenticated, text));
        }
        Ok(())
    }
}

/// Two numbers of chance; zeros where the system has none, which costs the disguise and nothing else.
fn chances() -> [u64; 2] {
    let mut bytes = [0_u8; 16];
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        tracing::warn!("the system gives no randomness");
    }
    let number = u128::from_be_bytes(bytes);
    [number & u128::from(u64::MAX), number >> 64].map(|half| u64::try_from(half).unwrap_or(0))
}
