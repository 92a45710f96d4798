//! How long a set waits that failed: longer each time, and all together not too often (ASET-181).

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Wait after the first failure; each further one doubles it …
const FIRST: Duration = Duration::from_millis(5);
/// … up to this.
const LONGEST: Duration = Duration::from_secs(1000);
/// Retries of all sets: one each time this has passed …
const EACH: Duration = Duration::from_millis(100);
/// … and so many at once after a rest.
const BURST: u32 = 100;

/// The wait after so many failures in a row.
pub(super) fn after(failures: u32) -> Duration {
    let doubled = 2_u32.checked_pow(failures.saturating_sub(1));
    doubled.and_then(|factor| FIRST.checked_mul(factor)).map_or(LONGEST, |wait| wait.min(LONGEST))
}

/// Turns of retries.
#[derive(Default)]
pub(super) struct Turns {
    /// When the next retry would come if none came in bursts.
    next: Mutex<Option<Instant>>,
}

impl Turns {
    /// Takes a turn; the wait until it has come.
    pub(super) fn take(&self, now: Instant) -> Duration {
        let mut next = self.next.lock();
        let at = next.map_or(now, |next| next.max(now));
        *next = Some(at + EACH);
        at.saturating_duration_since(now + EACH * (BURST - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "whole microseconds are exact")]
    fn aset_181_waits_double_up_to_a_limit() {
        let seconds = |failures| after(failures).as_secs_f64();
        assert_eq!([seconds(1), seconds(2), seconds(3), seconds(9)], [0.005, 0.010, 0.020, 1.280]);
        assert_eq!((seconds(18), seconds(19), seconds(u32::MAX)), (655.36, 1000.0, 1000.0));
    }

    #[tokio::test(start_paused = true)]
    async fn aset_181_a_burst_of_retries_is_followed_by_ten_a_second() {
        let turns = Turns::default();
        let now = Instant::now();
        assert!((0..100).all(|_| turns.take(now).is_zero()));
        assert_eq!([turns.take(now), turns.take(now)], [EACH, EACH * 2]);
        // After a rest there are as many again.
        assert!(turns.take(now + Duration::from_mins(1)).is_zero());
    }
}
