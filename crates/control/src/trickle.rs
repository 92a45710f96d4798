//! Turns of writes that show nothing but a new revision.
//!
//! A commit to a repository of ten thousand applications moves the revision of all of them. Nobody waits for that to
//! be shown, so it is written at a bounded rate, each application's newest at its turn, and never before real work.

use std::time::Duration;

use parking_lot::Mutex;

/// Time between two turns. Twice as many as ten thousand applications ask for within a poll: who finds no free turn comes
/// a second time, which costs as much as the write.
const BETWEEN: Duration = Duration::from_millis(10);

/// When the next turn is free, on the clock's time since its start.
#[derive(Debug, Default)]
pub(crate) struct Trickle(Mutex<Duration>);

impl Trickle {
    /// Whether the turn has come of somebody who waits for it, or takes the next free one here. It is over then.
    pub(crate) fn has_come(&self, turn: &mut Option<Duration>, now: Duration) -> bool {
        turn.get_or_insert_with(|| self.take(now));
        turn.take_if(|turn| *turn <= now).is_some()
    }

    fn take(&self, now: Duration) -> Duration {
        let mut next = self.0.lock();
        let turn = (*next).max(now);
        *next = turn + BETWEEN;
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_13_turns_come_one_after_another_and_none_is_saved_up() {
        let trickle = Trickle::default();
        let second = Duration::from_secs(1);
        assert_eq!(trickle.take(second), second);
        assert_eq!(trickle.take(second), second + BETWEEN);
        assert_eq!(trickle.take(second), second + 2 * BETWEEN);
        assert_eq!(trickle.take(2 * second), 2 * second);
        let (mut first, mut second_turn) = (None, None);
        assert!(trickle.has_come(&mut first, 3 * second) && first.is_none());
        assert!(!trickle.has_come(&mut second_turn, 3 * second));
        assert!(!trickle.has_come(&mut second_turn, 3 * second), "it keeps its turn");
        assert!(trickle.has_come(&mut second_turn, 3 * second + BETWEEN));
    }
}
