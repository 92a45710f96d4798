//! Writes that show nothing but a new revision.
//!
//! A commit to a repository of ten thousand applications moves the revision of all of them. Nobody waits for that to
//! be shown, so those that have nothing else to write stand in a queue, each once. Whoever is at its head writes the
//! newest revision, at a bounded rate, and rarely while there is real work.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::app_key::AppKey;
use crate::context::Context;
use crate::queue::Priority;
use tiphys_lifecycle::refresh::Level;

/// Time between two of them while there is nothing else to write: ten thousand applications take four minutes.
const BETWEEN: Duration = Duration::from_millis(25);
/// The same while there is, so that none waits for ever.
const BETWEEN_WORK: Duration = Duration::from_millis(500);
/// Time without other writes after which there is nothing else to write.
const QUIET: Duration = Duration::from_secs(5);

/// The applications that wait to show a new revision.
#[derive(Debug, Default)]
pub(crate) struct Trickle {
    state: Mutex<State>,
    /// Told when one joins.
    joined: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<AppKey>,
    /// Those of them that still have to: who wrote meanwhile shows its revision already.
    members: HashSet<AppKey>,
    /// When something else was written last, on the clock's time since its start.
    worked: Option<Duration>,
    /// When the last one was let go, on the same time.
    released: Option<Duration>,
}

impl Trickle {
    /// Puts an application at the end of the queue unless it waits already.
    pub(crate) fn join(&self, key: &AppKey) {
        let mut state = self.state.lock();
        if state.members.insert(key.clone()) {
            state.waiting.push_back(key.clone());
            self.joined.notify_one();
        }
    }

    /// An application wrote something else: it shows its revision, and the others wait.
    pub(crate) fn wrote(&self, key: &AppKey, now: Duration) {
        let mut state = self.state.lock();
        state.members.remove(key);
        state.worked = Some(now);
    }

    /// The next one, or when to ask again; `None` when nobody waits.
    fn take(&self, now: Duration) -> Option<Result<AppKey, Duration>> {
        let mut state = self.state.lock();
        while state.waiting.front().is_some_and(|key| !state.members.contains(key)) {
            state.waiting.pop_front();
        }
        if state.waiting.is_empty() {
            return None;
        }
        let wait = state.due().saturating_sub(now);
        if !wait.is_zero() {
            return Some(Err(wait));
        }
        let key = state.waiting.pop_front()?;
        state.members.remove(&key);
        state.released = Some(now);
        Some(Ok(key))
    }
}

impl State {
    /// When the next one may go.
    fn due(&self) -> Duration {
        let after = |time: Option<Duration>, wait| time.map_or(Duration::ZERO, |time| time + wait);
        let when_quiet = after(self.worked, QUIET).max(after(self.released, BETWEEN));
        when_quiet.min(after(self.released, BETWEEN_WORK))
    }
}

/// Lets one after another write until the controller ends.
pub(crate) async fn run(context: Arc<Context>, cancel: CancellationToken) {
    loop {
        // Before looking, so that nobody is missed in between.
        let joined = context.trickle.joined.notified();
        let next = context.trickle.take(context.clock.elapsed());
        match next {
            Some(Ok(key)) => {
                let Some(entry) = context.store.get(&key) else { continue };
                {
                    let mut memory = entry.memory.lock();
                    memory.may_show_revision = true;
                    memory.request(Level::Latest);
                }
                context.scheduler.enqueue(key, Priority::Routine);
            }
            Some(Err(wait)) => tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            },
            None => tokio::select! {
                () = cancel.cancelled() => return,
                () = joined => {}
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> AppKey {
        AppKey::new("argocd", name)
    }

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[test]
    fn inv_13_revisions_are_shown_one_after_another_each_application_once() {
        let trickle = Trickle::default();
        assert_eq!(trickle.take(ms(0)), None);
        for name in ["a", "b", "a"] {
            trickle.join(&key(name));
        }
        assert_eq!(trickle.take(ms(0)), Some(Ok(key("a"))));
        assert_eq!(trickle.take(ms(5)), Some(Err(ms(20))));
        trickle.join(&key("a"));
        assert_eq!(trickle.take(ms(25)), Some(Ok(key("b"))), "who joins again stands behind those who wait");
        assert_eq!(trickle.take(ms(50)), Some(Ok(key("a"))));
        assert_eq!(trickle.take(ms(75)), None);
    }

    #[test]
    fn inv_13_real_work_goes_first_and_stops_nobody_for_ever() {
        let trickle = Trickle::default();
        for name in ["a", "b", "c", "d"] {
            trickle.join(&key(name));
        }
        trickle.wrote(&key("b"), ms(1_000));
        assert_eq!(trickle.take(ms(1_100)), Some(Ok(key("a"))));
        trickle.wrote(&key("x"), ms(1_400));
        assert_eq!(trickle.take(ms(1_500)), Some(Err(ms(100))));
        assert_eq!(trickle.take(ms(1_600)), Some(Ok(key("c"))), "what b wrote shows its revision too");
        assert_eq!(trickle.take(ms(2_000)), Some(Err(ms(100))));
        assert_eq!(trickle.take(ms(6_400)), Some(Ok(key("d"))));
        for name in ["e", "f"] {
            trickle.join(&key(name));
        }
        assert_eq!(trickle.take(ms(6_425)), Some(Ok(key("e"))), "nothing else was written for five seconds");
        assert_eq!(trickle.take(ms(6_450)), Some(Ok(key("f"))));
    }
}
