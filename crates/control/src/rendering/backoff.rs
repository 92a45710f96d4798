//! When a rendering is tried again that ran out of its time or of what it may take (RND-146, INV-16).
//!
//! It would run out again, and keep a processor busy until then. So it is tried again after a minute, then after two,
//! four and so on, up to an hour; until then its failure is told from memory. A new revision or a refresh that was asked
//! for try at once. Each of them needs that the project has something left of what it may waste: who can push commits, or
//! has many Applications, could make the machine busy all the time otherwise.
//!
//! Sources of one Application are told apart, as they are rendered one after another.
//!
//! Pure: times are those since the start of the process.

use std::collections::HashMap;
use std::time::Duration;

use crate::app_key::AppKey;

/// Pause after the first failure.
const PAUSE: Duration = Duration::from_mins(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_hours(1);
/// What renderings of a project that ran out may take together before none of them is tried again.
const WASTE_MAX: Duration = Duration::from_mins(2);
/// Part of the time that comes back to a project: a fifth of a processor.
const RETURNED: f64 = 0.2;
/// Sources and projects that are remembered; beyond, all are forgotten.
const REMEMBERED_MAX: usize = 10_000;

/// What is known of renderings that ran out.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    sources: HashMap<Place, Exhausted>,
    projects: HashMap<String, Waste>,
}

/// An Application, and which of its sources.
type Place = (AppKey, usize);

#[derive(Debug)]
struct Exhausted {
    /// What was rendered.
    id: [u8; 32],
    text: String,
    attempts: u32,
    next: Duration,
}

/// What a project wasted, as of a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Waste {
    seconds: f64,
    at: Duration,
}

impl Waste {
    fn seconds(self, now: Duration) -> f64 {
        (self.seconds - now.saturating_sub(self.at).as_secs_f64() * RETURNED).max(0.0)
    }
}

/// A rendering that is about to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt<'a> {
    pub(super) application: &'a AppKey,
    /// Which of its sources.
    pub(super) position: usize,
    pub(super) project: &'a str,
    /// What is rendered: equal for equal inputs.
    pub(super) id: &'a [u8; 32],
    /// Whether a person or program asked for it anew.
    pub(super) is_asked: bool,
}

impl Attempt<'_> {
    fn place(&self) -> Place {
        (self.application.clone(), self.position)
    }
}

impl Backoff {
    /// The failure that stands for another attempt; nothing when it may be made.
    pub(super) fn refusal(&self, attempt: Attempt<'_>, now: Duration) -> Option<&str> {
        let known = self.sources.get(&attempt.place())?;
        let is_due = now >= known.next || known.id != *attempt.id || attempt.is_asked;
        let wasted = self.projects.get(attempt.project).map_or(0.0, |waste| waste.seconds(now));
        let may = is_due && wasted < WASTE_MAX.as_secs_f64();
        (!may).then_some(known.text.as_str())
    }

    /// The rendering ran out after some time of work.
    pub(super) fn exhausted(&mut self, attempt: Attempt<'_>, text: &str, took: Duration, now: Duration) {
        if self.sources.len() >= REMEMBERED_MAX {
            self.sources.clear();
        }
        if self.projects.len() >= REMEMBERED_MAX {
            self.projects.clear();
        }
        let before = self.sources.get(&attempt.place()).filter(|known| known.id == *attempt.id);
        let attempts = before.map_or(0, |known| known.attempts).saturating_add(1);
        let pause = PAUSE.saturating_mul(1 << attempts.saturating_sub(1).min(10)).min(PAUSE_MAX);
        let known =
            Exhausted { id: *attempt.id, text: text.to_owned(), attempts, next: now.saturating_add(pause) };
        self.sources.insert(attempt.place(), known);
        let waste = self.projects.entry(attempt.project.to_owned()).or_default();
        *waste = Waste { seconds: waste.seconds(now) + took.as_secs_f64(), at: now };
    }

    /// The rendering ended in another way. What is known of another one of the source stays.
    pub(super) fn ended(&mut self, attempt: Attempt<'_>) {
        let place = attempt.place();
        if self.sources.get(&place).is_some_and(|known| known.id == *attempt.id) {
            self.sources.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);
    const SECOND: Duration = Duration::from_secs(1);

    fn attempt<'a>(application: &'a AppKey, id: &'a [u8; 32]) -> Attempt<'a> {
        Attempt { application, position: 0, project: "shop", id, is_asked: false }
    }

    /// B8: a chart that computes without end was rendered for 90 s in every round.
    #[test]
    fn inv_16_a_rendering_that_ran_out_is_tried_ever_more_rarely() {
        let (mut backoff, app) = (Backoff::default(), AppKey::new("argocd", "a"));
        let one = attempt(&app, &[1; 32]);
        assert_eq!(backoff.refusal(one, SECOND), None);
        let mut now = SECOND;
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            backoff.exhausted(one, "timeout", SECOND, now);
            assert_eq!(
                backoff.refusal(one, now + (MINUTE * minutes).saturating_sub(SECOND)),
                Some("timeout")
            );
            now += MINUTE * minutes;
            assert_eq!(backoff.refusal(one, now), None, "{minutes}");
        }
        backoff.exhausted(one, "timeout", SECOND, now);
        backoff.ended(one);
        assert_eq!(backoff.refusal(one, now), None);
    }

    #[test]
    fn inv_16_a_new_revision_or_a_refresh_tries_at_once() {
        let (mut backoff, app) = (Backoff::default(), AppKey::new("argocd", "a"));
        let (one, other) = (attempt(&app, &[1; 32]), attempt(&app, &[2; 32]));
        for _ in 0..3 {
            backoff.exhausted(one, "timeout", SECOND, MINUTE);
        }
        assert!(backoff.refusal(one, MINUTE * 2).is_some());
        assert_eq!(backoff.refusal(Attempt { is_asked: true, ..one }, MINUTE * 2), None);
        assert_eq!(backoff.refusal(other, MINUTE * 2), None);
        // And begins anew.
        backoff.exhausted(other, "timeout", SECOND, MINUTE * 2);
        assert_eq!(backoff.refusal(other, MINUTE * 3), None);
    }

    /// Pushing again and again does not help a project that wasted two minutes; others are not concerned, and neither are
    /// its applications that render.
    #[test]
    fn inv_16_what_a_project_wastes_is_bounded() {
        let (mut backoff, app) = (Backoff::default(), AppKey::new("argocd", "a"));
        let mut id = [0; 32];
        let mut tried = 0_u8;
        for second in 0..600 {
            id[0] = tried;
            let now = SECOND * second;
            if backoff.refusal(attempt(&app, &id), now).is_none() {
                tried += 1;
                backoff.exhausted(attempt(&app, &id), "timeout", SECOND * 10, now);
                id[0] = tried;
            }
        }
        // Two minutes at once, and a fifth of ten.
        assert!((24..=26).contains(&tried), "{tried}");
        let other = AppKey::new("argocd", "b");
        assert_eq!(backoff.refusal(attempt(&other, &id), SECOND * 600), None);
        backoff.exhausted(
            Attempt { project: "other", ..attempt(&other, &id) },
            "timeout",
            SECOND,
            SECOND * 600,
        );
        let asked = Attempt { project: "other", is_asked: true, ..attempt(&other, &id) };
        assert_eq!(backoff.refusal(asked, SECOND * 601), None);
    }

    /// Cost, gap 6: a source that rendered made another one's failure forgotten, and two that failed replaced each other.
    #[test]
    fn inv_16_each_source_of_an_application_has_its_own_pause() {
        let (mut backoff, app) = (Backoff::default(), AppKey::new("argocd", "a"));
        let (first, second) = (attempt(&app, &[1; 32]), Attempt { position: 1, ..attempt(&app, &[2; 32]) });
        let third = Attempt { position: 2, ..attempt(&app, &[3; 32]) };
        let mut now = SECOND;
        for minutes in [1, 2, 4, 8] {
            for source in [first, second] {
                backoff.exhausted(source, "timeout", SECOND, now);
            }
            backoff.ended(third);
            backoff.ended(Attempt { id: &[9; 32], ..first });
            let before = now + (MINUTE * minutes).saturating_sub(SECOND);
            assert!(backoff.refusal(first, before).is_some() && backoff.refusal(second, before).is_some());
            now += MINUTE * minutes;
            assert!(backoff.refusal(first, now).is_none() && backoff.refusal(second, now).is_none());
        }
        assert_eq!(backoff.refusal(third, now), None);
    }

    /// Cost, gap 6: many Applications whose pauses are over were all tried, whatever their project wasted.
    #[test]
    fn inv_16_pauses_that_are_over_give_no_time_to_a_project() {
        let mut backoff = Backoff::default();
        let apps: Vec<AppKey> = (0..100).map(|number| AppKey::new("argocd", &format!("a{number}"))).collect();
        let id = [1; 32];
        for app in &apps {
            backoff.exhausted(attempt(app, &id), "timeout", SECOND * 8, SECOND);
        }
        let mut tried = 0;
        for second in 0..3_600 {
            for app in &apps {
                let now = SECOND * (second + 1);
                if backoff.refusal(attempt(app, &id), now).is_none() {
                    tried += 1;
                    backoff.exhausted(attempt(app, &id), "timeout", SECOND * 8, now);
                }
            }
        }
        // It takes 3,400 seconds until 120 of the first 800 are left; then there is one attempt every forty.
        assert!((1..=6).contains(&tried), "{tried}");
    }

    #[test]
    fn inv_10_what_is_remembered_is_bounded() {
        let mut backoff = Backoff::default();
        for number in 0..REMEMBERED_MAX + 10 {
            let app = AppKey::new("argocd", &number.to_string());
            let project = number.to_string();
            let one = Attempt { project: &project, ..attempt(&app, &[1; 32]) };
            backoff.exhausted(one, "timeout", SECOND, SECOND);
        }
        assert!(backoff.sources.len() <= REMEMBERED_MAX && backoff.projects.len() <= REMEMBERED_MAX);
    }
}
