//! Time as an argument: the real clock, and one that tests set.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// Tells the time of day and the time since some fixed moment.
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Real { origin: Instant },
    Manual(Arc<Mutex<State>>),
}

#[derive(Debug)]
struct State {
    now: Timestamp,
    elapsed: Duration,
}

/// Moves a [`Clock`] made by [`Clock::manual`].
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<State>>);

impl Clock {
    /// The clock of the machine.
    #[expect(clippy::disallowed_methods, reason = "the one place where the monotonic clock is read")]
    pub fn real() -> Self {
        Self(Kind::Real { origin: Instant::now() })
    }

    /// A clock that stands still until its handle moves it.
    pub fn manual(now: Timestamp) -> (Self, ManualClock) {
        let state = Arc::new(Mutex::new(State { now, elapsed: Duration::ZERO }));
        (Self(Kind::Manual(Arc::clone(&state))), ManualClock(state))
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::Real { .. } => Timestamp::now(),
            Kind::Manual(state) => state.lock().now,
        }
    }

    /// Time since the clock was made; never goes back.
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            Kind::Real { origin } => origin.elapsed(),
            Kind::Manual(state) => state.lock().elapsed,
        }
    }
}

impl ManualClock {
    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let mut state = self.0.lock();
        state.elapsed += by;
        let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
        state.now = state.now.saturating_add(by).unwrap_or(Timestamp::MAX);
    }
}
