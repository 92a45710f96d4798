//! Who is worked on, and when: the one place that puts applications into the queue.
//!
//! Events ask for an application ([`Scheduler::enqueue`]); reconciling answers what it wants next ([`Requeue`]), and
//! the worker hands that in ([`Scheduler::requeue`]). Nothing else enqueues, so a shard would be filtered here.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tiphys_source::Clock;
use tokio::time::Instant;

use crate::app_key::AppKey;
use crate::queue::{Lease, Measures, Priority, Queue};

/// What reconciling an application wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requeue {
    /// Nothing: an event brings it back.
    Done,
    /// Another round, after those who wait already.
    Now(Priority),
    /// A look after this long, unless an event comes first.
    After(SignedDuration),
    /// A look at this time of day, unless an event comes first.
    At(Timestamp),
}

impl Requeue {
    /// The earlier of two wishes; of two for now the more urgent one.
    pub(crate) fn soonest(self, other: Self, now: Timestamp) -> Self {
        let rank = |wish: Self| match wish {
            Self::Now(Priority::Urgent) => (0, Timestamp::MIN),
            Self::Now(Priority::Routine) => (1, Timestamp::MIN),
            Self::After(wait) => (2, now.checked_add(wait).unwrap_or(Timestamp::MAX)),
            Self::At(at) => (2, at),
            Self::Done => (3, Timestamp::MAX),
        };
        if rank(other) < rank(self) { other } else { self }
    }
}

/// The queue of applications with the clock that times are told by. Clones share it.
#[derive(Clone)]
pub(crate) struct Scheduler {
    queue: Queue<AppKey>,
    clock: Clock,
}

impl Scheduler {
    /// Nobody waits.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { queue: Queue::new(), clock }
    }

    /// An event asks for an application now.
    pub(crate) fn enqueue(&self, key: AppKey, priority: Priority) {
        self.queue.add(key, priority);
    }

    /// An event asks for an application a little later, so that a burst of events is one round.
    pub(crate) fn enqueue_after(&self, key: AppKey, wait: Duration) {
        self.queue.add_at(key, Instant::now() + wait);
    }

    /// Does what a round wants next.
    pub(crate) fn requeue(&self, key: &AppKey, requeue: Requeue) {
        let wait = match requeue {
            Requeue::Done => return,
            Requeue::Now(priority) => return self.queue.add(key.clone(), priority),
            Requeue::After(wait) => wait,
            Requeue::At(at) => at.duration_since(self.clock.now()),
        };
        let wait = wait.max(SignedDuration::ZERO).unsigned_abs();
        self.queue.add_at(key.clone(), Instant::now() + wait);
    }

    /// An application is gone: nothing is due any more.
    pub(crate) fn forget(&self, key: &AppKey) {
        self.queue.cancel_timer(key);
    }

    /// The next application, held until the lease is dropped; `None` once the scheduler is closed. Cancel-safe.
    pub(crate) async fn next(&self) -> Option<Lease<AppKey>> {
        self.queue.next().await
    }

    /// Nothing is handed out any more.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// Applications that wait.
    pub(crate) fn depth(&self) -> usize {
        self.queue.depth()
    }

    /// How the queue does.
    pub(crate) fn measures(&self) -> Measures {
        self.queue.measures()
    }

    /// Keys and timers, outdated ones included.
    pub(crate) fn size(&self) -> usize {
        self.queue.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_wish_counts() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let at = |seconds| Requeue::At(now + SignedDuration::from_secs(seconds));
        let after = |seconds| Requeue::After(SignedDuration::from_secs(seconds));
        let both = |a: Requeue, b: Requeue| {
            assert_eq!(a.soonest(b, now), b.soonest(a, now));
            a.soonest(b, now)
        };
        assert_eq!(both(Requeue::Done, after(5)), after(5));
        assert_eq!(both(at(3), after(5)), at(3));
        assert_eq!(both(at(7), after(5)), after(5));
        assert_eq!(both(Requeue::Now(Priority::Routine), at(-3)), Requeue::Now(Priority::Routine));
        let urgent = Requeue::Now(Priority::Urgent);
        assert_eq!(both(Requeue::Now(Priority::Routine), urgent), urgent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_comes_back_when_it_wants_to() {
        let scheduler = Scheduler::new(Clock::real());
        let key = |name| AppKey::new("argocd", name);
        let start = Instant::now();
        scheduler.requeue(&key("late"), Requeue::After(SignedDuration::from_secs(9)));
        scheduler.requeue(&key("never"), Requeue::Done);
        scheduler.requeue(&key("now"), Requeue::Now(Priority::Routine));
        assert_eq!(*scheduler.next().await.unwrap().key(), key("now"));
        assert_eq!(*scheduler.next().await.unwrap().key(), key("late"));
        assert_eq!(start.elapsed().as_secs(), 9);
        scheduler.enqueue_after(key("gone"), Duration::from_secs(1));
        scheduler.forget(&key("gone"));
        assert_eq!(scheduler.size() - scheduler.depth(), 1, "the outdated timer alone");
    }
}
