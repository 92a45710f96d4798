//! The same object under another version, or under its twin of another group.
//!
//! Custom resources have no conversion: only `apiVersion` differs. Of the built-in ones, Events and
//! autoscalers have other members in each version.

use serde_json::{Map, Value, json};
use tiphys_object::access::{ensure_object, text};

mod autoscaler;

/// Members of a core Event, and what they are called in `events.k8s.io`.
const EVENT_MEMBERS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// An object, in any version, as the resource of this group, plural and version shows it.
pub(crate) fn view(group: &str, plural: &str, api_version: &str, mut object: Value) -> Value {
    if text(&object, "apiVersion") == api_version {
        return object;
    }
    let members = ensure_object(&mut object);
    members.insert("apiVersion".to_owned(), json!(api_version));
    match (group, plural, api_version) {
        ("", "events", _) => {
            rename(members, EVENT_MEMBERS.iter().map(|(core, other)| (*other, *core)));
            for name in ["reportingComponent", "reportingInstance"] {
                members.entry(name).or_insert_with(|| json!(""));
            }
        }
        ("events.k8s.io", "events", _) => {
            rename(members, EVENT_MEMBERS.iter().copied());
            // There they are left out when they are empty.
            for name in ["reportingController", "reportingInstance"] {
                if members.get(name) == Some(&json!("")) {
                    members.remove(name);
                }
            }
        }
        ("autoscaling", "horizontalpodautoscalers", "autoscaling/v1") => autoscaler::to_v1(members),
        ("autoscaling", "horizontalpodautoscalers", "autoscaling/v2") => autoscaler::to_v2(members),
        _ => {}
    }
    object
}

fn rename<'a>(members: &mut Map<String, Value>, names: impl Iterator<Item = (&'a str, &'a str)>) {
    for (before, after) in names {
        if let Some(value) = members.remove(before) {
            members.insert(after.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_keep_everything_under_other_names() {
        let core = json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"kind": "Pod"}, "message": "m",
            "source": {"component": "c"}, "firstTimestamp": null, "lastTimestamp": null, "count": 3,
            "eventTime": null, "reportingComponent": "", "reportingInstance": "", "type": "Normal"});
        let other = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"kind": "Pod"},
            "note": "m", "deprecatedSource": {"component": "c"}, "deprecatedFirstTimestamp": null,
            "deprecatedLastTimestamp": null, "deprecatedCount": 3, "eventTime": null, "type": "Normal"});
        assert_eq!(view("events.k8s.io", "events", "events.k8s.io/v1", core.clone()), other);
        assert_eq!(view("", "events", "v1", other), core);
    }

    #[test]
    fn custom_resources_only_change_their_version() {
        let object = json!({"apiVersion": "example.com/v1", "spec": {"count": 1}});
        let found = view("example.com", "widgets", "example.com/v2", object);
        assert_eq!(found, json!({"apiVersion": "example.com/v2", "spec": {"count": 1}}));
    }
}
