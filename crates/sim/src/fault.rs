//! Faults: what a server does when it does not do well.
//!
//! A [`Fault`] belongs to one request; [`Faults`] draws them from a seed, so that a run can be repeated. The
//! state itself is never wrong: a fault only changes what a caller is told, or when.

use std::time::Duration;

use http::Method;
use serde_json::json;

use crate::clock::Rng;
use crate::status::Status;

/// What goes wrong with one request. The default is nothing.
#[derive(Clone, Debug, Default)]
pub struct Fault {
    /// The request waits this long before it is looked at.
    pub delay: Duration,
    /// It is refused, and nothing is done.
    pub refused: Option<Status>,
    /// It is carried out, but this is answered: the caller cannot know.
    pub forgotten: Option<Status>,
    /// A read sees the server as it was this many writes ago, as far as the log reaches.
    pub writes_behind: u64,
    /// A list has no items although there are some.
    pub is_empty: bool,
    /// The history is gone: a continued list and a watch from a version are told 410.
    pub is_expired: bool,
    /// A watch ends without a word after this many events.
    pub ends_after: Option<u32>,
    /// Of the events of a watch every one with this number of others before it is never told.
    pub skips_every: Option<u32>,
}

/// Draws faults from a seed.
#[derive(Clone, Debug)]
pub struct Faults {
    rng: Rng,
    per_mille: u64,
}

impl Faults {
    /// Faults for so many of a thousand requests.
    pub fn new(seed: u64, per_mille: u16) -> Self {
        Self { rng: Rng::new(seed), per_mille: u64::from(per_mille.min(1_000)) }
    }

    /// The fault of the next request.
    pub fn next(&mut self, method: &Method, is_watch: bool) -> Fault {
        let mut fault = Fault::default();
        if self.rng.below(1_000) >= self.per_mille {
            return fault;
        }
        if is_watch {
            match self.rng.below(3) {
                0 => fault.is_expired = true,
                1 => fault.refused = Some(unavailable()),
                _ => fault.ends_after = u32::try_from(self.rng.below(20)).ok(),
            }
            return fault;
        }
        let is_read = method == Method::GET;
        match self.rng.below(7) {
            0 => fault.delay = Duration::from_millis(self.rng.below(2_000)),
            1 => fault.refused = Some(unavailable()),
            2 => fault.refused = Some(too_many()),
            3 if is_read => fault.writes_behind = 1 + self.rng.below(20),
            4 if is_read => fault.is_empty = true,
            5 if is_read => fault.is_expired = true,
            _ if is_read => fault.refused = Some(Status::new(500, "InternalError", "simulated fault")),
            3 => fault.refused = Some(timeout()),
            _ => fault.forgotten = Some(timeout()),
        }
        fault
    }
}

fn unavailable() -> Status {
    Status::new(
        503,
        "ServiceUnavailable",
        "simulated fault: the server is currently unable to handle the request",
    )
}

fn timeout() -> Status {
    Status::new(504, "Timeout", "simulated fault: the request did not complete within the allotted time")
}

fn too_many() -> Status {
    let mut status =
        Status::new(429, "TooManyRequests", "simulated fault: too many requests, try again later");
    status.details.insert("retryAfterSeconds".to_owned(), json!(1));
    status
}

#[cfg(test)]
mod tests {
    use super::{Faults, Method};

    #[test]
    fn the_same_seed_draws_the_same_faults_and_none_when_the_rate_is_0() {
        let draw = |seed, rate| {
            let mut faults = Faults::new(seed, rate);
            (0..200)
                .map(|number| format!("{:?}", faults.next(&Method::GET, number % 5 == 0)))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(3, 300), draw(3, 300));
        assert_ne!(draw(3, 300), draw(4, 300));
        assert!(draw(3, 0).windows(2).all(|pair| pair[0] == pair[1]));
    }
}
