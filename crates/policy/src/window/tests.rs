use jiff::SignedDuration;
use serde_json::{Value, json};
use tiphys_api::project::AppProjectSpec;

use super::*;
use crate::project::validate;

fn window(value: Value) -> SyncWindow {
    serde_json::from_value(value).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn active(schedule: &str, duration: &str, zone: &str, time: &str) -> bool {
    let window =
        window(json!({"kind": "allow", "schedule": schedule, "duration": duration, "timeZone": zone}));
    is_active(&window, at(time)).unwrap()
}

fn subject<'a>() -> Subject<'a> {
    Subject { application: "ui", server: "https://eu", cluster: "", namespace: "shop", resolved: None }
}

/// Windows `(kind, open, manualSync, syncOverrun)`, judged at noon; open ones from eleven to one.
fn verdict(windows: &[(&str, bool, bool, bool)], manual: bool, started_at: Option<&str>) -> bool {
    let windows: Vec<SyncWindow> = windows
        .iter()
        .map(|(kind, open, manual_sync, overrun)| {
            let schedule = if *open { "0 11 * * *" } else { "0 20 * * *" };
            window(json!({"kind": kind, "schedule": schedule, "duration": "2h", "applications": ["*"],
                "manualSync": manual_sync, "syncOverrun": overrun}))
        })
        .collect();
    let windows: Vec<_> = windows.iter().enumerate().collect();
    let attempt =
        SyncAttempt { manual, operation_started_at: started_at.map(at), now: at("2026-05-04T12:00:00Z") };
    can_sync(&windows, attempt).allowed
}

#[test]
fn rep_171_selectors_are_ored() {
    let with = |value: Value| matches(&window(value), subject());
    assert!(with(json!({"applications": ["u*"]})));
    assert!(with(json!({"applications": ["no"], "namespaces": ["shop"]})));
    assert!(with(json!({"clusters": ["https://*"]})));
    assert!(!with(json!({"clusters": ["eu"]})));
    assert!(!with(json!({"applications": ["!x"]})), "no negation");
    assert!(!with(json!({})), "nothing configured never matches");
    let by_name = Subject { server: "", cluster: "eu", ..subject() };
    assert!(matches(&window(json!({"clusters": ["eu"]})), by_name));
}

#[test]
fn rep_171_an_empty_namespace_matches_a_star() {
    let nowhere = Subject { namespace: "", ..subject() };
    assert!(matches(&window(json!({"namespaces": ["*"]})), nowhere));
    assert!(!matches(&window(json!({"namespaces": ["shop"]})), nowhere));
    assert!(!matches(&window(json!({"clusters": ["*"]})), Subject { server: "", cluster: "", ..subject() }));
}

#[test]
fn rep_171_and_needs_every_configured_selector() {
    let with = |value: Value| matches(&window(value), subject());
    assert!(with(json!({"andOperator": true, "applications": ["ui"], "namespaces": ["shop"]})));
    assert!(!with(json!({"andOperator": true, "applications": ["ui"], "namespaces": ["other"]})));
    assert!(with(json!({"andOperator": true, "applications": ["ui"]})));
    assert!(!with(json!({"andOperator": true})));
}

#[test]
fn rep_172_resolved_clusters_count_on_request() {
    let eu = window(json!({"clusters": ["eu"]}));
    assert!(matches(&eu, Subject { resolved: Some(("https://eu", "eu")), ..subject() }));
}

#[test]
fn rep_175_starts_and_ends_are_outside() {
    for (time, expected) in [
        ("2026-05-04T05:59:59Z", false),
        ("2026-05-04T06:00:00Z", false),
        ("2026-05-04T06:00:01Z", true),
        ("2026-05-04T07:59:59Z", true),
        ("2026-05-04T08:00:00Z", false),
    ] {
        assert_eq!(active("0 6 * * *", "2h", "", time), expected, "{time}");
    }
}

#[test]
fn rep_175_the_wall_clock_across_dst_changes() {
    let open = |schedule: &str, duration: &str, from: &str, to: &str| {
        let second = SignedDuration::from_secs(1);
        let window = window(
            json!({"kind": "allow", "schedule": schedule, "duration": duration, "timeZone": "Europe/Berlin"}),
        );
        let is = |time: Timestamp| is_active(&window, time).unwrap();
        assert!(!is(at(from) - second), "before {from}");
        assert!(is(at(from) + second), "after {from}");
        assert!(is(at(to) - second), "before {to}");
        assert!(!is(at(to) + second), "after {to}");
    };
    open("30 2 * * *", "1h", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z");
    open("30 2 * * *", "1h", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z");
    open("30 2 * * *", "1h", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z");
    open("0 0 * * *", "4h", "2026-03-28T23:00:00Z", "2026-03-29T02:00:00Z");
    open("0 0 * * *", "4h", "2026-10-24T22:00:00Z", "2026-10-25T03:00:00Z");
}

#[test]
fn rep_174_durations_without_length_are_never_active() {
    for duration in ["0", "-1h", "0s"] {
        assert!(!active("* * * * *", duration, "", "2026-05-04T06:00:30Z"), "{duration}");
    }
    assert!(active("0 0 * * *", "48h", "", "2026-05-04T06:00:00Z"), "longer than the period");
}

#[test]
fn rep_176_unknown_zones_are_utc() {
    for zone in ["", "UTC", "Nowhere/City", "europe/berlin"] {
        assert!(active("0 6 * * *", "1h", zone, "2026-05-04T06:30:00Z"), "{zone}");
    }
    assert!(!active("0 6 * * *", "1h", "Europe/Berlin", "2026-05-04T06:30:00Z"));
    assert!(active("0 6 * * *", "1h", "Europe/Berlin", "2026-05-04T04:30:00Z"));
}

#[test]
fn rep_177_what_never_occurs_is_always_active() {
    assert!(active("0 0 30 2 *", "1h", "", "2026-05-04T06:30:00Z"));
}

#[test]
fn rep_178_without_overrun() {
    let deny = |open, manual| ("deny", open, manual, false);
    let allow = |open, manual| ("allow", open, manual, false);
    for (windows, automatic, by_hand) in [
        (vec![], true, true),
        (vec![deny(true, false)], false, false),
        (vec![deny(true, true)], false, true),
        (vec![deny(true, true), deny(true, false)], false, false),
        (vec![deny(true, false), allow(true, false)], false, false),
        (vec![allow(true, false)], true, true),
        (vec![allow(true, false), allow(false, false)], true, true),
        (vec![allow(false, false)], false, false),
        (vec![allow(false, true)], false, true),
        (vec![allow(false, true), allow(false, false)], false, false),
        (vec![deny(false, false)], true, true),
        (vec![deny(false, false), allow(false, false)], false, false),
    ] {
        assert_eq!(verdict(&windows, false, None), automatic, "{windows:?}");
        assert_eq!(verdict(&windows, true, None), by_hand, "{windows:?}");
    }
}

#[test]
fn ctl_69_a_sync_that_began_in_time_may_end() {
    let before = Some("2026-05-04T10:30:00Z");
    let during = Some("2026-05-04T11:30:00Z");
    let evening = Some("2026-05-03T21:00:00Z");
    assert!(verdict(&[("deny", true, false, true)], false, before));
    assert!(!verdict(&[("deny", true, false, true)], false, during));
    assert!(!verdict(&[("deny", true, false, true)], false, None));
    assert!(!verdict(&[("deny", true, false, true), ("deny", true, false, false)], false, before));
    assert!(verdict(&[("allow", false, false, true)], false, evening));
    assert!(!verdict(&[("allow", false, false, true)], false, before));
    assert!(!verdict(&[("allow", false, false, false)], false, evening));
}

#[test]
fn rep_178_a_broken_window_blocks() {
    let broken =
        window(json!({"kind": "allow", "schedule": "nope", "duration": "1h", "applications": ["*"]}));
    let attempt = SyncAttempt { manual: true, operation_started_at: None, now: at("2026-05-04T12:00:00Z") };
    let verdict = can_sync(&[(3, &broken)], attempt);
    assert!(!verdict.allowed);
    assert_eq!(verdict.matching, [3]);
    let message = verdict.message.unwrap();
    assert!(message.starts_with("invalid sync windows: cannot parse schedule 'nope': "), "{message}");
}

#[test]
fn rep_178_positions_are_those_of_the_project() {
    let project: AppProject =
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"syncWindows": [
            null,
            {"kind": "deny", "schedule": "0 11 * * *", "duration": "2h", "namespaces": ["other"]},
            {"kind": "deny", "schedule": "0 11 * * *", "duration": "2h", "namespaces": ["shop"]},
            {"kind": "allow", "schedule": "0 20 * * *", "duration": "2h", "applications": ["ui"]}
        ]}}))
        .unwrap();
    let attempt = SyncAttempt { manual: false, operation_started_at: None, now: at("2026-05-04T12:00:00Z") };
    let verdict = can_sync_application(&project, subject(), attempt);
    assert_eq!((verdict.matching, verdict.active, verdict.allowed), (vec![2, 3], vec![2], false));
}

fn check(windows: Value) -> Option<String> {
    let sync_windows = serde_json::from_value(windows).unwrap();
    let project = AppProject {
        spec: AppProjectSpec { sync_windows, ..AppProjectSpec::default() },
        ..AppProject::default()
    };
    validate(&project).err().map(|violation| format!("{}: {}", violation.code.as_str(), violation.message))
}

#[test]
fn rep_181_validation() {
    let base = json!({"kind": "deny", "schedule": "0 6 * * *", "duration": "1h", "applications": ["*"]});
    let with = |name: &str, value: Value| {
        let mut window = base.clone();
        window[name] = value;
        check(json!([window]))
    };
    assert_eq!(check(json!([null, base])), None);
    assert_eq!(
        with("kind", json!("maybe")).unwrap(),
        "InvalidArgument: kind 'maybe' mismatch: can only be allow or deny"
    );
    assert!(
        with("schedule", json!("x")).unwrap().starts_with("InvalidArgument: cannot parse schedule 'x': ")
    );
    assert!(with("schedule", json!("0 6 * * 7")).unwrap().contains("cannot parse schedule"));
    assert!(
        with("duration", json!("1d")).unwrap().starts_with("InvalidArgument: cannot parse duration '1d': ")
    );
    assert_eq!(
        with("description", json!("x".repeat(256))).unwrap(),
        "InvalidArgument: description must not exceed 255 characters"
    );
    assert_eq!(with("description", json!("x".repeat(255))), None);
    assert_eq!(
        with("applications", json!([])).unwrap(),
        "OutOfRange: window 'deny':'0 6 * * *':'1h' requires one of application, cluster or namespace"
    );
    assert_eq!(
        with("schedule", json!("0 0 30 2 *")).unwrap(),
        "InvalidArgument: schedule '0 0 30 2 *' never occurs"
    );
    assert_eq!(with("schedule", json!("0 0 29 2 *")), None);
}

#[test]
fn rep_181_duplicates() {
    let base = json!({"kind": "deny", "schedule": "0 6 * * *", "duration": "1h", "applications": ["*"]});
    let other = |name: &str, value: Value| {
        let mut window = base.clone();
        window[name] = value;
        check(json!([base, window]))
    };
    for same in [("manualSync", json!(true)), ("description", json!("d")), ("namespaces", json!([]))] {
        let message = other(same.0, same.1).unwrap();
        assert!(message.starts_with(
            "AlreadyExists: sync window with kind 'deny', schedule '0 6 * * *', and duration '1h' already exists (hash="
        ));
    }
    for different in [("timeZone", json!("UTC")), ("andOperator", json!(true)), ("clusters", json!(["c"]))] {
        assert_eq!(other(different.0, different.1), None);
    }
}
