//! What a long run shows while it runs: a line every ten seconds, and every failing seed at once.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Totals;

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(10);
/// A seed that runs longer than this is named: it may never end.
const SLOW: Duration = Duration::from_mins(1);

/// Seeds that are running, with the time at which they began.
#[derive(Debug, Default)]
pub(super) struct Running(Mutex<BTreeMap<u64, Option<Instant>>>);

impl Running {
    pub(super) fn begin(&self, seed: u64) {
        self.0.lock().insert(seed, Some(Instant::now()));
    }

    pub(super) fn end(&self, seed: u64) {
        self.0.lock().remove(&seed);
    }

    /// Seeds that run for too long, each of them once.
    fn slow(&self) -> Vec<u64> {
        let mut running = self.0.lock();
        let late = running.iter_mut().filter(|(_, since)| since.is_some_and(|since| since.elapsed() > SLOW));
        late.map(|(seed, since)| {
            *since = None;
            *seed
        })
        .collect()
    }
}

/// Tells of the progress until the other end of the channel is dropped. To standard error: the result alone is for
/// pipes.
pub(super) fn report(running: &Running, totals: &Mutex<Totals>, count: u64, over: &Receiver<()>) {
    let began = Instant::now();
    while over.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
        let sums = *totals.lock();
        say(&line(&sums, count, began.elapsed()));
        for seed in running.slow() {
            say(&format!("seed {seed} runs for more than {} s", SLOW.as_secs()));
        }
    }
}

fn line(sums: &Totals, count: u64, took: Duration) -> String {
    let seconds = took.as_secs().max(1);
    let rate = sums.seeds / seconds;
    let left = count.saturating_sub(sums.seeds).saturating_mul(seconds).checked_div(sums.seeds);
    let left = left.map_or_else(String::new, |left| format!(", about {left} s left"));
    format!("{} of {count} seeds, {} failed, {rate} a second{left}", sums.seeds, sums.failed)
}

fn say(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_is_done_and_how_long_it_takes() {
        let sums = Totals { seeds: 50, failed: 2, ..Totals::default() };
        let text = line(&sums, 200, Duration::from_secs(10));
        assert_eq!(text, "50 of 200 seeds, 2 failed, 5 a second, about 30 s left");
        let text = line(&Totals::default(), 200, Duration::ZERO);
        assert_eq!(text, "0 of 200 seeds, 0 failed, 0 a second");
    }
}
