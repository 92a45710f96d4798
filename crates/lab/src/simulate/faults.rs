//! What goes wrong in a run, and how often (reliability section 2, F1 to F8).

use std::time::Duration;

use super::chance::Chance;

/// Where a controller dies: at a request, counted from 1 over the whole run.
///
/// Between two requests a controller changes nothing outside of itself. So a death before a request is carried
/// out stands for all deaths since the one before it, and one after a write for those that leave its answer
/// unheard: together they are all there are (F1, F2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Death {
    pub(super) request: u64,
    /// Whether the request is carried out.
    pub(super) is_after: bool,
}

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Troubles {
    /// Whatever the seed says.
    OfSeed,
    /// Nothing but delays, and one death at most.
    Only(Option<Death>),
}

/// Faults of one run. Rates are per thousand requests, or per thousand watch events.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// F1: the controller dies at a request, before it is answered.
    pub(super) crash: u64,
    /// F1, F2: the controller dies at this request.
    pub(super) death: Option<Death>,
    /// F2: the controller dies after a write took effect, before it hears so.
    pub(super) crash_after_write: u64,
    /// F3: a read is answered as it was some time ago.
    pub(super) stale_read: u64,
    /// F3: how long watch events are held back.
    pub(super) watch_delay: Duration,
    /// F4: a watch event is lost.
    pub(super) lost_event: u64,
    /// F4: a watch event comes twice.
    pub(super) double_event: u64,
    /// F5: a watch ends with 410.
    pub(super) gone: u64,
    /// F5: the history and all continue tokens are thrown away.
    pub(super) compact: u64,
    /// F5: lists come in pages of this many objects, and never as a stream.
    pub(super) page: Option<u64>,
    /// F6: lists and watches of this kind are refused with a status.
    pub(super) refused: Option<(String, u16)>,
    /// F7: one list of this kind is empty.
    pub(super) emptied: Option<String>,
    /// F8: discovery of this group fails.
    pub(super) missing_group: Option<String>,
    /// A request is not answered, or its answer is lost.
    pub(super) lost_answer: u64,
    /// A request is answered with 500 or 429.
    pub(super) refused_call: u64,
    /// The longest time a request or an answer takes.
    pub(super) latency: Duration,
}

const KINDS: [&str; 5] = ["configmaps", "deployments", "jobs", "secrets", "namespaces"];

impl Faults {
    /// Some faults, or none in one run of eight.
    pub(super) fn choose(chance: &mut Chance) -> Self {
        let mut faults = Self { latency: Duration::from_millis(chance.within(0, 30)), ..Self::default() };
        if chance.permille(125) {
            return faults;
        }
        for _ in 0..chance.within(1, 3) {
            match chance.below(10) {
                0 => faults.crash = chance.within(2, 20),
                1 => faults.crash_after_write = chance.within(20, 200),
                2 => faults.stale_read = chance.within(20, 300),
                3 => faults.watch_delay = Duration::from_secs(chance.within(1, 60)),
                4 => {
                    faults.lost_event = chance.within(10, 200);
                    faults.double_event = chance.within(0, 200);
                }
                5 => {
                    faults.gone = chance.within(10, 200);
                    faults.compact = chance.within(0, 30);
                    faults.page = chance.permille(500).then(|| chance.within(1, 3));
                }
                6 => faults.refused = chance.pick(&KINDS).map(|kind| ((*kind).to_owned(), 403)),
                7 => faults.emptied = chance.pick(&KINDS).map(|kind| (*kind).to_owned()),
                8 => faults.missing_group = chance.pick(&["apps", "batch"]).map(|group| (*group).to_owned()),
                _ => {
                    faults.lost_answer = chance.within(2, 40);
                    faults.refused_call = chance.within(2, 60);
                }
            }
        }
        if let Some((_, code)) = faults.refused.as_mut().filter(|_| chance.permille(500)) {
            *code = 500;
        }
        faults
    }

    /// The one fault of the blind part of a run (F6), if it has one: that of the run, or another in two of five.
    /// An error that is taken for an empty list is the worst that can happen (law 2), so it happens often.
    pub(super) fn choose_blind(&self, chance: &mut Chance) -> Option<(String, u16)> {
        let another = chance.permille(400);
        let kind = chance.pick(&KINDS).copied().unwrap_or_default();
        let code = if chance.permille(500) { 403 } else { 500 };
        self.refused.clone().or_else(|| another.then(|| (kind.to_owned(), code)))
    }

    /// What is left of these faults when only one death may happen.
    pub(super) fn only(&self, death: Option<Death>) -> Self {
        Self { latency: self.latency, death, ..Self::default() }
    }

    /// Whether nothing that happens is hidden from a controller, or late.
    pub(super) fn are_visible(&self) -> bool {
        self.stale_read == 0
            && self.watch_delay.is_zero()
            && self.lost_event == 0
            && self.gone == 0
            && self.compact == 0
            && self.refused.is_none()
            && self.emptied.is_none()
            && self.missing_group.is_none()
            && self.lost_answer == 0
    }

    /// Whether something is not noticed before everything is listed again (ENG-10): a lost event, or settings and
    /// clusters that one list did not show.
    pub(super) fn needs_resync(&self) -> bool {
        self.loses_events() || matches!(self.emptied.as_deref(), Some("configmaps" | "secrets"))
    }

    /// Whether a list may still hold back what was lost, so that only listing again repairs it.
    pub(super) fn loses_events(&self) -> bool {
        self.lost_event > 0
    }
}
