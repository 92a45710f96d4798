//! Turns of work that computes for long, shared between projects (INV-13, INV-16).
//!
//! As many turns as the machine has processors, and one more for work that takes a lot of memory. A project holds all but
//! one of them at the most, so whatever it renders, the others always have a turn between them. All projects that computed
//! a lot of late leave one small turn to those that did not, however many they are. Of those that wait, the project that
//! computed least of late comes first, and within a project who asked first: a project that keeps the machine busy waits
//! for one that hardly uses it, and never the other way round for longer than one piece of work.
//!
//! Who is next is decided in [`State::next`], from numbers alone.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::Clock;
use crate::owner::owner;

/// Time after which half of what a project computed is forgotten.
const HALF_LIFE: Duration = Duration::from_mins(1);
/// Seconds of late from which an owner uses a lot. Ordinary renderings take a hundredth of that.
const MUCH: f64 = 5.0;
/// Owners that are remembered although they hold no turn.
const OWNERS_MAX: usize = 1_024;

/// How much a piece of work may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// What nearly all work does with.
    Small,
    /// A lot of memory. There is one such turn.
    Large,
}

/// Turns by owner, which as a rule is a project. Cloning gives another handle to the same.
#[derive(Clone)]
pub struct Turns {
    state: Arc<Mutex<State>>,
    clock: Option<Clock>,
}

/// Leave to compute. It goes along with the work, so that it ends when the work does and not when nothing waits for its
/// result any more.
pub struct Turn {
    turns: Turns,
    owner: Arc<str>,
    size: Size,
    began: Duration,
}

struct State {
    free: [usize; 2],
    /// Small turns, held or not.
    small: usize,
    /// Turns that one owner holds at the most.
    share: usize,
    owners: HashMap<Arc<str>, Owner>,
    waiting: VecDeque<Waiting>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    held: usize,
    /// Seconds that its work took, halved with time; as of a moment.
    used: f64,
    at: Duration,
}

struct Waiting {
    owner: Arc<str>,
    size: Size,
    turn: oneshot::Sender<Turn>,
}

impl Turns {
    /// So many small turns, two at least, and a large one.
    ///
    /// Without a clock it does not count how long work takes: where a simulation has to repeat itself.
    pub fn new(small: usize, clock: Option<Clock>) -> Self {
        let small = small.max(2);
        let state = State {
            free: [small, 1],
            small,
            share: small - 1,
            owners: HashMap::new(),
            waiting: VecDeque::new(),
        };
        Self { state: Arc::new(Mutex::new(state)), clock }
    }

    /// So many places, of which one owner holds a part. There is no large one.
    pub fn shared(places: usize, share: usize, clock: Clock) -> Self {
        let (small, share) = (places.max(1), share.max(1));
        let state =
            State { free: [small, 0], small, share, owners: HashMap::new(), waiting: VecDeque::new() };
        Self { state: Arc::new(Mutex::new(state)), clock: Some(clock) }
    }

    /// Waits for a small turn, for the owner of this task.
    pub(crate) async fn take_own(&self) -> Turn {
        self.take(&owner(), Size::Small).await
    }

    /// Waits for a turn.
    pub async fn take(&self, owner: &str, size: Size) -> Turn {
        let owner: Arc<str> = owner.into();
        let (turn, taken) = oneshot::channel();
        // Full: one entry for each task that waits, and these are bounded by the workers.
        self.state.lock().waiting.push_back(Waiting { owner: Arc::clone(&owner), size, turn });
        self.hand_out();
        match taken.await {
            Ok(turn) => turn,
            // Only a state that is gone hands out nothing, and this one is held here.
            Err(_gone) => Turn { turns: self.clone(), owner, size, began: self.now() },
        }
    }

    /// Turns that nothing holds.
    #[cfg(test)]
    fn free(&self) -> [usize; 2] {
        self.state.lock().free
    }

    fn now(&self) -> Duration {
        self.clock.as_ref().map(Clock::elapsed).unwrap_or_default()
    }

    /// Gives turns to those that may have one. They are sent without the lock: what is not wanted any more comes back.
    fn hand_out(&self) {
        loop {
            let now = self.now();
            let next = {
                let mut state = self.state.lock();
                state.waiting.retain(|waiting| !waiting.turn.is_closed());
                let next = state.next(now).and_then(|at| state.waiting.remove(at));
                if let Some(next) = &next {
                    state.hold(&next.owner, next.size);
                }
                next
            };
            let Some(Waiting { owner, size, turn }) = next else { return };
            drop(turn.send(Turn { turns: self.clone(), owner, size, began: now }));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = self.turns.now();
        self.turns.state.lock().release(&self.owner, self.size, now.saturating_sub(self.began), now);
        self.turns.hand_out();
    }
}

impl State {
    /// The place of the one that is next among those that may have a turn: of the owner that used least, the first.
    fn next(&self, now: Duration) -> Option<usize> {
        // The last small turn is for those that used little. Where there is one place alone, it goes round.
        let is_last = self.small > 1 && self.free(Size::Small) == 1;
        let is_kept = |waiting: &Waiting| {
            is_last && waiting.size == Size::Small && self.owner(&waiting.owner).used_at(now) > MUCH
        };
        let may = |(_, waiting): &(usize, &Waiting)| {
            self.free(waiting.size) > 0 && self.owner(&waiting.owner).held < self.share && !is_kept(waiting)
        };
        let mut best: Option<(usize, f64)> = None;
        for (at, waiting) in self.waiting.iter().enumerate().filter(may) {
            let used = self.owner(&waiting.owner).used_at(now);
            if best.is_none_or(|(_, least)| used < least) {
                best = Some((at, used));
            }
        }
        best.map(|(at, _)| at)
    }

    fn owner(&self, owner: &str) -> Owner {
        self.owners.get(owner).copied().unwrap_or_default()
    }

    fn free(&self, size: Size) -> usize {
        let [small, large] = self.free;
        match size {
            Size::Small => small,
            Size::Large => large,
        }
    }

    fn free_mut(&mut self, size: Size) -> &mut usize {
        let [small, large] = &mut self.free;
        match size {
            Size::Small => small,
            Size::Large => large,
        }
    }

    fn hold(&mut self, owner: &Arc<str>, size: Size) {
        let free = self.free_mut(size);
        *free = free.saturating_sub(1);
        self.owners.entry(Arc::clone(owner)).or_default().held += 1;
    }

    fn release(&mut self, owner: &Arc<str>, size: Size, took: Duration, now: Duration) {
        *self.free_mut(size) += 1;
        let known = self.owners.entry(Arc::clone(owner)).or_default();
        known.held = known.held.saturating_sub(1);
        known.used = known.used_at(now) + took.as_secs_f64();
        known.at = now;
        if self.owners.len() > OWNERS_MAX {
            self.owners.retain(|_, owner| owner.held > 0 || owner.used_at(now) > 1.0);
        }
        if self.owners.len() > OWNERS_MAX {
            self.owners.retain(|_, owner| owner.held > 0);
        }
    }
}

impl Owner {
    fn used_at(&self, now: Duration) -> f64 {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.used * (-passed / HALF_LIFE.as_secs_f64()).exp2()
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Turns")
            .field("free", &state.free)
            .field("waiting", &state.waiting.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("owner", &self.owner).field("size", &self.size).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures::FutureExt as _;
    use jiff::Timestamp;

    use super::*;
    use crate::on_behalf_of;

    const SECOND: Duration = Duration::from_secs(1);

    fn now(waiting: &mut Pin<Box<impl Future<Output = Turn>>>) -> Option<Turn> {
        waiting.now_or_never()
    }

    /// B8: two charts that compute without end, on two processors, kept everything else from being rendered.
    #[tokio::test]
    async fn inv_16_a_project_never_has_the_last_turn() {
        for small in [0, 1, 2, 4] {
            let turns = Turns::new(small, None);
            let mut held = Vec::new();
            while let Some(turn) = turns.take("greedy", Size::Small).now_or_never() {
                held.push(turn);
            }
            assert_eq!(held.len(), small.max(2) - 1, "{small}");
            assert!(turns.take("other", Size::Small).now_or_never().is_some());
            // The large one counts to its share.
            assert!(turns.take("greedy", Size::Large).now_or_never().is_none());
            assert!(turns.take("other", Size::Large).now_or_never().is_some());
        }
    }

    #[tokio::test]
    async fn inv_16_large_work_waits_for_large_work_only() {
        let turns = Turns::new(2, None);
        let large = turns.take("a", Size::Large).await;
        let mut second = Box::pin(turns.take("b", Size::Large));
        let mut third = Box::pin(turns.take("c", Size::Large));
        assert!(now(&mut second).is_none() && now(&mut third).is_none());
        let small =
            [turns.take("d", Size::Small).now_or_never(), turns.take("e", Size::Small).now_or_never()];
        assert_eq!(small.iter().flatten().count(), 2);
        assert!(turns.take("f", Size::Small).now_or_never().is_none());
        drop(large);
        // In order of asking.
        assert!(now(&mut third).is_none());
        let second = now(&mut second);
        assert!(second.is_some() && now(&mut third).is_none());
        drop(second);
        assert!(now(&mut third).is_some());
    }

    #[tokio::test]
    async fn inv_16_the_project_that_computed_least_is_next() {
        let (clock, time) = Clock::manual(Timestamp::UNIX_EPOCH);
        let turns = Turns::new(2, Some(clock));
        let busy = turns.take("busy", Size::Small).await;
        let other = turns.take("other", Size::Small).await;
        time.advance(SECOND * 4);
        drop(busy);
        time.advance(SECOND);
        let busy = turns.take("busy", Size::Small).await;
        let mut again = Box::pin(turns.take("busy", Size::Small));
        let mut quiet = Box::pin(turns.take("quiet", Size::Small));
        assert!(now(&mut again).is_none() && now(&mut quiet).is_none());
        drop(busy);
        // It asked first, and used more.
        assert!(now(&mut again).is_none());
        let quiet = now(&mut quiet);
        assert!(quiet.is_some());
        // What was used long ago is forgotten.
        time.advance(HALF_LIFE * 20);
        let mut fresh = Box::pin(turns.take("fresh", Size::Small));
        assert!(now(&mut fresh).is_none());
        drop(other);
        assert!(now(&mut again).is_some() || now(&mut fresh).is_some());
    }

    /// Two projects that compute without end held both turns of two processors, and a third one waited for minutes.
    #[tokio::test]
    async fn inv_16_projects_that_compute_a_lot_leave_a_turn_to_others() {
        let (clock, time) = Clock::manual(Timestamp::UNIX_EPOCH);
        for small in [2, 4] {
            let turns = Turns::new(small, Some(clock.clone()));
            let greedy: Vec<String> = (0..small + 2).map(|number| format!("greedy-{number}")).collect();
            for owner in &greedy {
                let turn = turns.take(owner, Size::Small).await;
                time.advance(SECOND * 30);
                drop(turn);
            }
            let held: Vec<_> =
                greedy.iter().filter_map(|owner| turns.take(owner, Size::Small).now_or_never()).collect();
            assert_eq!(held.len(), small - 1, "{small}");
            assert!(turns.take("quiet", Size::Small).now_or_never().is_some(), "{small}");
            drop(held);
            // What was long ago does not count.
            time.advance(HALF_LIFE * 10);
            let held: Vec<_> =
                greedy.iter().filter_map(|owner| turns.take(owner, Size::Small).now_or_never()).collect();
            assert_eq!(held.len(), small, "{small}");
        }
    }

    #[tokio::test]
    async fn inv_10_turns_that_nothing_waits_for_come_back() {
        let turns = Turns::new(2, None);
        let (first, second) = (turns.take("a", Size::Small).await, turns.take("b", Size::Small).await);
        let mut given_up = Box::pin(turns.take("c", Size::Small));
        let mut in_time = Box::pin(turns.take("d", Size::Small));
        assert!(now(&mut given_up).is_none() && now(&mut in_time).is_none());
        drop(given_up);
        drop(first);
        let in_time = now(&mut in_time);
        assert!(in_time.is_some());
        // Handed out, and dropped before it was looked at.
        let mut late = Box::pin(turns.take("e", Size::Small));
        assert!(now(&mut late).is_none());
        drop(second);
        drop(late);
        drop(in_time);
        assert_eq!(turns.free(), [2, 1]);
        assert!(turns.state.lock().waiting.is_empty());
    }

    /// Page, hole 2: conversations with git servers, indexes, programs and plugins had no share.
    #[tokio::test]
    async fn inv_16_an_owner_has_a_part_of_shared_places() {
        let turns = Turns::shared(5, 3, Clock::manual(Timestamp::UNIX_EPOCH).0);
        let take = |owner: &'static str| on_behalf_of(owner, turns.take_own()).now_or_never();
        let held: Vec<_> = (0..5).filter_map(|_| take("greedy")).collect();
        assert_eq!(held.len(), 3);
        let others = (take("other"), take("third"));
        assert!(others.0.is_some() && others.1.is_some());
        assert!(take("other").is_none(), "there are no more");
        assert!(turns.take("other", Size::Large).now_or_never().is_none());
    }

    /// One place cannot be shared: whoever used it least is next.
    #[tokio::test]
    async fn inv_16_the_only_place_goes_round() {
        let (clock, time) = Clock::manual(Timestamp::UNIX_EPOCH);
        let turns = Turns::shared(1, 1, clock);
        let first = turns.take("greedy", Size::Small).await;
        time.advance(SECOND);
        let mut again = Box::pin(turns.take("greedy", Size::Small));
        let mut other = Box::pin(turns.take("other", Size::Small));
        assert!(now(&mut again).is_none() && now(&mut other).is_none());
        drop(first);
        assert!(now(&mut again).is_none());
        assert!(now(&mut other).is_some());
    }

    #[tokio::test]
    async fn inv_10_owners_that_are_gone_are_forgotten() {
        let turns = Turns::new(2, None);
        for owner in 0..3 * OWNERS_MAX {
            drop(turns.take(&owner.to_string(), Size::Small).await);
        }
        assert!(turns.state.lock().owners.len() <= OWNERS_MAX + 1);
    }
}
