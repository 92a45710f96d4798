//! What is left behind where a set is confined to a project (ASET-285).
//!
//! The project may hide clusters that the set generated for. What was made for them is then generated no longer, and goes
//! where the policy of the set says so: whoever changes the set is told before it happens.

use std::collections::BTreeSet;

use tiphys_api::ApplicationSet;
use tiphys_api::settings::ApplicationSets;

/// Names that a warning lists.
const NAMES_MAX: usize = 20;

/// Whether a change confines a set to a project that it was not confined to.
pub fn confines(before: &ApplicationSet, after: &ApplicationSet) -> bool {
    !after.spec.project.is_empty() && before.spec.project != after.spec.project
}

/// What is said of Applications that a set has and generates no longer; nothing where there are none.
pub fn warning<'a>(
    set: &ApplicationSet,
    settings: &ApplicationSets,
    generated: &BTreeSet<&str>,
    owned: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let stale: BTreeSet<&str> = owned.into_iter().filter(|name| !generated.contains(name)).collect();
    if stale.is_empty() {
        return None;
    }
    let asked = set.spec.sync_policy.as_ref().and_then(|policy| policy.applications_sync.as_deref());
    let fate = if settings.policy_for(asked).may_delete() {
        "they are deleted"
    } else {
        "they stay, because the policy of the set lets nothing be deleted"
    };
    let mut names: Vec<&str> = stale.iter().copied().take(NAMES_MAX).collect();
    let more = stale.len().saturating_sub(NAMES_MAX);
    let rest = format!("{more} more");
    if more > 0 {
        names.push(&rest);
    }
    Some(format!(
        "with spec.project '{}' the set generates these applications no longer, and {fate}: {}",
        set.spec.project,
        names.join(", ")
    ))
}

/// What is said where that could not be found out.
pub fn unknown(set: &ApplicationSet, why: &str) -> String {
    format!(
        "it is not known which applications the set generates no longer with spec.project '{}': {why}",
        set.spec.project
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{World, set};

    #[test]
    fn aset_285_stale_applications_are_listed_with_what_becomes_of_them() {
        let before = set(json!({"generators": []}));
        let of = |policy: &str| {
            set(json!({"project": "red", "generators": [], "syncPolicy": {"applicationsSync": policy}}))
        };
        let after = of("sync");
        assert!(confines(&before, &after) && !confines(&after, &after) && !confines(&after, &before));
        let world = World::default().with_params(&[("enable.policy.override", "true")]);
        let said = |set: &ApplicationSet, owned: &[&str]| {
            warning(set, world.sets(), &BTreeSet::from(["a"]), owned.iter().copied())
        };
        assert_eq!(said(&after, &["a"]), None);
        assert_eq!(
            said(&after, &["c", "b", "a"]).unwrap(),
            "with spec.project 'red' the set generates these applications no longer, and they are deleted: b, c"
        );
        assert!(said(&of("create-update"), &["b"]).unwrap().contains("they stay"));
        let many: Vec<String> = (0..30).map(|number| format!("x{number:02}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(said(&after, &many).unwrap().ends_with("x18, x19, 10 more"));
    }
}
