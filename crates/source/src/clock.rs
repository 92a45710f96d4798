//! Time as an argument: the real clock, one that tests set, and one that follows the timers of the runtime.

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
    Timers { began: Timestamp, origin: tokio::time::Instant },
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

    /// A clock that begins at a time of day and goes as the timers of the runtime do: where the runtime's time
    /// is paused, an hour of sleeping is an hour of this clock and no time at all (STY-74).
    pub fn of_timers(began: Timestamp) -> Self {
        Self(Kind::Timers { began, origin: tokio::time::Instant::now() })
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::Real { .. } => Timestamp::now(),
            Kind::Manual(state) => state.lock().now,
            Kind::Timers { began, origin } => later(*began, origin.elapsed()),
        }
    }

    /// Time since the clock was made; never goes back.
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            Kind::Real { origin } => origin.elapsed(),
            Kind::Manual(state) => state.lock().elapsed,
            Kind::Timers { origin, .. } => origin.elapsed(),
        }
    }
}

impl ManualClock {
    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let mut state = self.0.lock();
        state.elapsed += by;
        state.now = later(state.now, by);
    }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}
