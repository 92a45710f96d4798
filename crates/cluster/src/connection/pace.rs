//! How fast one cluster is asked, where an operator bounds it (REP-108).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tiphys_api::settings::ClientRate;
use tokio::time::Instant;

use super::Connection;

/// Turns at a rate, in the order in which they are asked for. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    interval: Duration,
    /// How far turns may be taken ahead of their times.
    ahead: Duration,
    /// When the next turn would be, if none were taken ahead.
    due: Arc<Mutex<Instant>>,
}

impl Pace {
    fn new(rate: ClientRate) -> Self {
        let interval = Duration::from_secs(1) / rate.per_second.max(1);
        let ahead = interval.saturating_mul(rate.burst.saturating_sub(1));
        Self { interval, ahead, due: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Waits for a turn. One that is given up counts all the same.
    pub(super) async fn turn(&self) {
        let now = Instant::now();
        let due = {
            let mut due = self.due.lock();
            let mine = (*due).max(now);
            *due = mine + self.interval;
            mine
        };
        let wait = due.saturating_duration_since(now).saturating_sub(self.ahead);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

impl Connection {
    /// The same connection, over which the server is asked no faster than this; those made from it share the turns.
    #[must_use]
    pub fn paced(&self, rate: ClientRate) -> Self {
        Self { pace: Some(Pace::new(rate)), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;

    use super::*;
    use crate::connection::Call;

    #[tokio::test(start_paused = true)]
    async fn rep_108_requests_follow_rate_and_burst() {
        let answer = async |_: Request<Bytes>| Ok(Response::new(Full::new(Bytes::from("{}"))));
        let connection =
            Connection::over("https://c.example", answer).paced(ClientRate { per_second: 10, burst: 3 });
        let start = Instant::now();
        let mut times = Vec::new();
        for _ in 0..5 {
            // Clones share the turns.
            let connection = connection.clone();
            connection.call(&Call::get("test", "/", Duration::from_secs(5))).await.unwrap();
            times.push(start.elapsed().as_millis());
        }
        assert_eq!(times, [0, 0, 0, 100, 200]);
        tokio::time::sleep(Duration::from_mins(1)).await;
        let rested = Instant::now();
        for _ in 0..3 {
            connection.call(&Call::get("test", "/", Duration::from_secs(5))).await.unwrap();
        }
        assert_eq!(rested.elapsed(), Duration::ZERO, "a rest fills the burst, and no more");
        connection.call(&Call::get("test", "/", Duration::from_secs(5))).await.unwrap();
        assert_eq!(rested.elapsed().as_millis(), 100);
    }
}
