//! What applications waste with programs that have to be stopped (ENG-214).
//!
//! A program that was stopped three times in a row is suspended for ten minutes, and so is everything of an
//! application that was stopped ten times, or whose programs took too long together, within ten minutes. Meanwhile
//! its programs have the result they had last, at no cost. Programs are counted per application: what somebody else
//! does with the same text is no reason to suspend it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Stops in a row after which a program is suspended.
const STOPS_MAX: u32 = 3;
/// Stops of all programs of an application within a period after which all are suspended.
const STOPS_OF_OWNER_MAX: u32 = 10;
/// Time that the programs of one comparison may take together.
const COMPARISON_MAX: Duration = Duration::from_secs(10);
/// How long a suspension lasts, and how long stops are remembered.
const PERIOD: Duration = Duration::from_mins(10);
/// Applications that are remembered; beyond, all are forgotten.
const OWNERS_MAX: usize = 10_000;

/// Times are those since the start of the process.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    owners: HashMap<String, Owner>,
}

#[derive(Debug, Default)]
struct Owner {
    /// Programs that were stopped when they ran last.
    programs: HashMap<u64, Program>,
    /// Stops since the period began.
    stops: u32,
    began: Duration,
    suspended: Option<(Duration, String)>,
}

#[derive(Debug)]
struct Program {
    stops: u32,
    last: Duration,
    reason: String,
}

impl Ledger {
    /// Why a program does not run now; nothing when it may.
    pub(super) fn refused(&self, owner: &str, program: &str, now: Duration) -> Option<String> {
        let owner = self.owners.get(owner)?;
        let known = owner.programs.get(&id(program)).filter(|known| now < known.last.saturating_add(PERIOD));
        if let Some(known) = known.filter(|known| known.stops >= STOPS_MAX) {
            return Some(known.reason.clone());
        }
        let (until, reason) = owner.suspended.as_ref()?;
        // The reason that a program had itself stays, so that what users see does not change to and fro.
        (now < *until).then(|| known.map_or(reason, |known| &known.reason).clone())
    }

    /// A program ran; `stopped` says why it was stopped, if it was.
    pub(super) fn ran(&mut self, owner: &str, program: &str, stopped: Option<&str>, now: Duration) {
        let Some(reason) = stopped else {
            // Most programs are never stopped, and nothing is kept for them.
            if let Some(owner) = self.owners.get_mut(owner) {
                owner.programs.remove(&id(program));
            }
            return;
        };
        let owner = self.owner(owner, now);
        owner.programs.retain(|_, known| now < known.last.saturating_add(PERIOD));
        let known = owner.programs.entry(id(program)).or_insert_with(|| Program {
            stops: 0,
            last: now,
            reason: String::new(),
        });
        known.stops = known.stops.saturating_add(1);
        known.last = now;
        reason.clone_into(&mut known.reason);
        owner.stops = owner.stops.saturating_add(1);
        if owner.stops >= STOPS_OF_OWNER_MAX {
            owner.suspend(now, "too many programs of the application had to be stopped");
        }
    }

    /// The programs of one comparison took so long up to now.
    pub(super) fn spent(&mut self, owner: &str, spent: Duration, now: Duration) {
        if spent > COMPARISON_MAX {
            self.owner(owner, now).suspend(now, "the programs of the application take too long together");
        }
    }

    fn owner(&mut self, owner: &str, now: Duration) -> &mut Owner {
        if self.owners.len() >= OWNERS_MAX && !self.owners.contains_key(owner) {
            self.owners.clear();
        }
        let owner = self.owners.entry(owner.to_owned()).or_default();
        if owner.stops == 0 || now >= owner.began.saturating_add(PERIOD) {
            (owner.stops, owner.began) = (0, now);
        }
        owner
    }
}

impl Owner {
    fn suspend(&mut self, now: Duration, reason: &str) {
        self.suspended = Some((now.saturating_add(PERIOD), reason.to_owned()));
    }
}

fn id(program: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    program.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn eng_214_a_program_stopped_three_times_in_a_row_is_suspended() {
        let mut ledger = Ledger::default();
        for now in 1..=2 {
            ledger.ran("a", "slow", Some("why"), SECOND * now);
        }
        assert_eq!(ledger.refused("a", "slow", SECOND * 3), None);
        ledger.ran("a", "slow", None, SECOND * 3);
        for now in 4..=6 {
            assert_eq!(ledger.refused("a", "slow", SECOND * now), None, "not in a row");
            ledger.ran("a", "slow", Some("why"), SECOND * now);
        }
        assert_eq!(ledger.refused("a", "slow", SECOND * 7), Some("why".to_owned()));
        assert_eq!(ledger.refused("a", "other", SECOND * 7), None);
        assert_eq!(ledger.refused("b", "slow", SECOND * 7), None, "each application for itself");
        assert_eq!(ledger.refused("a", "slow", SECOND * 606), None, "tried again after ten minutes");
    }

    #[test]
    fn eng_214_what_an_application_wastes_is_bounded() {
        let mut ledger = Ledger::default();
        for program in 0..STOPS_OF_OWNER_MAX {
            assert_eq!(ledger.refused("a", "any", SECOND), None);
            ledger.ran("a", &program.to_string(), Some("why"), SECOND);
        }
        assert!(ledger.refused("a", "any", SECOND * 2).unwrap().contains("too many"));
        assert_eq!(ledger.refused("a", "0", SECOND * 2), Some("why".to_owned()));
        assert_eq!(ledger.refused("a", "any", SECOND * 700), None);
        ledger.spent("b", COMPARISON_MAX, SECOND);
        assert_eq!(ledger.refused("b", "any", SECOND), None);
        ledger.spent("b", COMPARISON_MAX + SECOND, SECOND);
        assert!(ledger.refused("b", "any", SECOND).unwrap().contains("too long together"));
    }
}
