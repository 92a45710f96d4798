//! Events on a set.

use std::collections::BTreeMap;

/// An event on a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether it is a warning.
    pub is_warning: bool,
    /// Reason, for machines.
    pub reason: String,
    /// Text for people.
    pub message: String,
}

impl Event {
    /// Something that is as it should be.
    pub fn normal(reason: &str, message: impl Into<String>) -> Self {
        Self { is_warning: false, reason: reason.to_owned(), message: message.into() }
    }

    /// Something that is not.
    pub fn warning(reason: &str, message: impl Into<String>) -> Self {
        Self { is_warning: true, reason: reason.to_owned(), message: message.into() }
    }

    /// The type of Kubernetes.
    pub fn kind(&self) -> &'static str {
        if self.is_warning { "Warning" } else { "Normal" }
    }
}

/// Ordinary events of one reason that a look tells one by one, as many as the recorder of client-go sends at once.
pub const TOLD_MAX: usize = 25;

/// The events of one look as they are told: of each reason the first ones, and in the last one how many more there were. A
/// set that creates thousands of Applications is no reason for thousands of events, each of which is a write.
pub fn told<'e>(events: impl IntoIterator<Item = &'e Event>) -> Vec<Event> {
    let mut told = Vec::new();
    let mut counts: BTreeMap<&str, (usize, &Event)> = BTreeMap::new();
    for event in events {
        if !event.is_warning {
            let (count, _) = counts.entry(&event.reason).or_insert((0, event));
            *count += 1;
            if *count > TOLD_MAX {
                continue;
            }
        }
        told.push(event.clone());
    }
    for (reason, (count, first)) in counts {
        let more = count.saturating_sub(TOLD_MAX);
        if more > 0 {
            let what = first.message.split_once(" Application ").map_or(reason, |(what, _)| what);
            told.push(Event::normal(reason, format!("{what} {more} more Applications")));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aset_143_of_many_events_of_a_reason_the_rest_is_counted() {
        let created = |n: usize| Event::normal("created", format!("created Application \"a{n}\""));
        let mut events: Vec<Event> = (0..TOLD_MAX).map(created).collect();
        events.push(Event::normal("Deleted", "Deleted Application \"b\""));
        assert_eq!(told(&events), events, "as many as there may be");
        events.extend((TOLD_MAX..1_000).map(created));
        events.push(Event::warning("DeletionStepsWarning", "w"));
        let told = told(&events);
        assert_eq!(told.len(), TOLD_MAX + 3);
        assert_eq!(told.last(), Some(&Event::normal("created", "created 975 more Applications")));
        assert!(told.contains(&Event::warning("DeletionStepsWarning", "w")));
    }
}
