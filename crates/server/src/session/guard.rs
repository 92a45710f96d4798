//! Counts failed logins, and locks names that fail too often (API-50).
//!
//! An attempt counts as a failure from its beginning until it succeeds: those that are made at the same time are
//! not more than those that are made one after the other (SEC-21). Names of accounts and other names are counted
//! apart: a flood of made-up names forgets nothing about those that exist (SEC-20), and both are locked alike, so that
//! nobody learns which exist (API-51).

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

/// How failures are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GuardOptions {
    /// Failures after which a name is locked; 0 never locks.
    pub(crate) failures_max: u32,
    /// How long a name is locked after its last failure; `None` until the restart.
    pub(crate) window: Option<SignedDuration>,
    /// Names that are no account's and are remembered.
    pub(crate) names_max: usize,
}

impl Default for GuardOptions {
    fn default() -> Self {
        Self { failures_max: 5, window: Some(SignedDuration::from_secs(300)), names_max: 10_000 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Timestamp,
}

/// The failures so far.
#[derive(Debug)]
pub(crate) struct Guard {
    options: GuardOptions,
    accounts: HashMap<String, Failures>,
    others: HashMap<String, Failures>,
}

/// What became of a name that wants to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It may; it has failed until [`Guard::succeeded`] says otherwise.
    Permitted,
    /// It is locked.
    Locked,
}

impl Guard {
    pub(crate) fn new(options: GuardOptions) -> Self {
        Self { options, accounts: HashMap::new(), others: HashMap::new() }
    }

    /// A name tries to log in. `chance` decides whom a new name takes the place of when there are too many.
    pub(crate) fn begin(&mut self, name: &str, is_account: bool, now: Timestamp, chance: u64) -> Attempt {
        if self.options.failures_max == 0 {
            return Attempt::Permitted;
        }
        let GuardOptions { failures_max, window, names_max } = self.options;
        let is_over =
            |failures: &Failures| window.is_some_and(|window| now.duration_since(failures.last) >= window);
        let names = if is_account { &mut self.accounts } else { &mut self.others };
        if names.get(name).is_some_and(is_over) {
            names.remove(name);
        }
        if !is_account && names.len() >= names_max && !names.contains_key(name) {
            names.retain(|_, failures| !is_over(failures));
            let count = u64::try_from(names.len().max(1)).unwrap_or(u64::MAX);
            let victim = usize::try_from(chance % count).ok().and_then(|at| names.keys().nth(at).cloned());
            if let Some(victim) = victim.filter(|_| names.len() >= names_max) {
                names.remove(&victim);
            }
        }
        let failures = names.entry(name.to_owned()).or_insert(Failures { count: 0, last: now });
        if failures.count >= failures_max {
            return Attempt::Locked;
        }
        failures.count += 1;
        failures.last = now;
        Attempt::Permitted
    }

    /// The password was right.
    pub(crate) fn succeeded(&mut self, name: &str) {
        self.accounts.remove(name);
    }

    /// How many names are locked now, for the metrics.
    pub(crate) fn locked(&self, now: Timestamp) -> usize {
        let GuardOptions { failures_max, window, .. } = self.options;
        let is_locked = |failures: &&Failures| {
            let is_over = window.is_some_and(|window| now.duration_since(failures.last) >= window);
            failures_max > 0 && failures.count >= failures_max && !is_over
        };
        self.accounts.values().chain(self.others.values()).filter(is_locked).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn api_50_five_failures_lock_a_name_for_a_while() {
        let mut guard = Guard::new(GuardOptions::default());
        for second in 0..5 {
            assert_eq!(guard.begin("kim", true, at(second), 0), Attempt::Permitted);
        }
        assert_eq!(guard.begin("kim", true, at(5), 0), Attempt::Locked);
        assert_eq!(guard.begin("kim", true, at(303), 0), Attempt::Locked, "a refused attempt is not counted");
        assert_eq!((guard.locked(at(303)), guard.locked(at(304))), (1, 0));
        assert_eq!(guard.begin("bo", true, at(5), 0), Attempt::Permitted, "others are not locked");
        assert_eq!(guard.begin("kim", true, at(304), 0), Attempt::Permitted);
    }

    #[test]
    fn api_50_a_success_forgets_the_failures() {
        let mut guard = Guard::new(GuardOptions::default());
        for _ in 0..4 {
            guard.begin("kim", true, at(0), 0);
        }
        guard.succeeded("kim");
        for _ in 0..5 {
            assert_eq!(guard.begin("kim", true, at(1), 0), Attempt::Permitted);
        }
        assert_eq!(guard.begin("kim", true, at(1), 0), Attempt::Locked);
    }

    #[test]
    fn sec_20_made_up_names_push_no_account_out() {
        let options = GuardOptions { names_max: 10, ..GuardOptions::default() };
        let mut guard = Guard::new(options);
        for _ in 0..5 {
            guard.begin("admin", true, at(0), 0);
        }
        for number in 0..1_000_u64 {
            guard.begin(&format!("x{number}"), false, at(1), number.wrapping_mul(7));
        }
        assert_eq!(guard.others.len(), 10);
        assert_eq!(guard.begin("admin", true, at(2), 0), Attempt::Locked);
    }

    #[test]
    fn sec_21_attempts_at_the_same_time_count() {
        let mut guard = Guard::new(GuardOptions::default());
        let begun = (0..50).filter(|_| guard.begin("admin", true, at(0), 0) == Attempt::Permitted).count();
        assert_eq!(begun, 5, "before any of them has an answer");
    }

    #[test]
    fn api_51_names_that_do_not_exist_are_locked_alike() {
        let mut guard = Guard::new(GuardOptions::default());
        for is_account in [true, false] {
            let name = if is_account { "kim" } else { "ghost" };
            let outcomes: Vec<Attempt> =
                (0..7).map(|second| guard.begin(name, is_account, at(second), 0)).collect();
            assert_eq!(outcomes.iter().filter(|it| **it == Attempt::Permitted).count(), 5, "{name}");
        }
    }

    #[test]
    fn api_50_without_a_window_a_lock_stays_and_without_a_limit_there_is_none() {
        let mut guard = Guard::new(GuardOptions { window: None, ..GuardOptions::default() });
        for _ in 0..5 {
            guard.begin("kim", true, at(0), 0);
        }
        assert_eq!(guard.begin("kim", true, at(1_000_000_000), 0), Attempt::Locked);
        let mut open = Guard::new(GuardOptions { failures_max: 0, ..GuardOptions::default() });
        assert!((0..100).all(|_| open.begin("kim", true, at(0), 0) == Attempt::Permitted));
    }
}
