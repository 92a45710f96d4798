use serde_json::json;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn after(
    before: &[ApplicationSetCondition],
    evaluated: &[Evaluated],
    second: i64,
) -> Vec<ApplicationSetCondition> {
    next_conditions(before, evaluated, &[], at(second))
}

fn shown(conditions: &[ApplicationSetCondition]) -> Vec<String> {
    conditions.iter().map(|c| format!("{}={} {}: {}", c.r#type, c.status, c.reason, c.message)).collect()
}

#[test]
fn aset_151_success_and_failure() {
    let good = after(&[], &success(), 0);
    assert_eq!(
        shown(&good),
        [
            "ErrorOccurred=False ApplicationSetUpToDate: All applications have been generated successfully",
            "ParametersGenerated=True ParametersGenerated: Successfully generated parameters for all Applications",
            "ResourcesUpToDate=True ApplicationSetUpToDate: All applications have been generated successfully"
        ]
    );
    let bad = after(&good, &failure(SetReason::RenderTemplateParamsError, "x"), 0);
    assert_eq!(
        shown(&bad),
        [
            "ErrorOccurred=True RenderTemplateParamsError: x",
            "ParametersGenerated=False ErrorOccurred: x",
            "ResourcesUpToDate=False ErrorOccurred: x"
        ]
    );
    let bad = after(&good, &failure(SetReason::UpdateApplicationError, "x"), 0);
    assert!(shown(&bad)[1].starts_with("ParametersGenerated=True"));
}

#[test]
fn aset_152_times_move_with_changes_and_others_stay() {
    let other = ApplicationSetCondition { r#type: "Other".to_owned(), ..ApplicationSetCondition::default() };
    let first = after(std::slice::from_ref(&other), &success(), 10);
    let second = after(&first, &success(), 20);
    assert_eq!(first, second);
    assert_eq!(second[1], other, "sorted by type, and not touched");
    let third = after(&second, &failure(SetReason::UpdateApplicationError, "x"), 30);
    assert_eq!(third[0].last_transition_time.as_deref(), Some("1970-01-01T00:00:30Z"));
    assert_eq!(
        third[2].last_transition_time.as_deref(),
        Some("1970-01-01T00:00:10Z"),
        "ParametersGenerated is the same"
    );
    let removed = next_conditions(&third, &[], &[SetConditionType::ErrorOccurred], at(40));
    assert_eq!(removed.len(), third.len() - 1);
}

#[test]
fn aset_153_the_conditions_in_one_word() {
    let word = |evaluated: &[Evaluated]| {
        let found = health(&after(&[], evaluated, 0));
        format!("{}: {}", found.status, found.message)
    };
    assert_eq!(word(&[]), "Unknown: No status conditions found for ApplicationSet");
    assert_eq!(word(&success()), "Healthy: All applications have been generated successfully");
    let mut rolling = success();
    rolling.push(Evaluated::yes(
        SetConditionType::RolloutProgressing,
        SetReason::ApplicationSetModified,
        "step",
    ));
    assert_eq!(word(&rolling), "Progressing: step");
    rolling.extend(failure(SetReason::UpdateApplicationError, "x"));
    assert_eq!(word(&failure(SetReason::UpdateApplicationError, "x")), "Degraded: x");
    let deleting = [Evaluated::yes(
        SetConditionType::DeletionProgressing,
        SetReason::ApplicationSetDeletionInProgress,
        "d",
    )];
    assert_eq!(word(&deleting), "Progressing: d");
    let waiting = [Evaluated::no(SetConditionType::ErrorOccurred, SetReason::ErrorOccurred, "")];
    assert_eq!(word(&waiting), "Unknown: Waiting for health status to be determined");
}

fn live(name: &str) -> LiveApplication {
    LiveApplication::from_value(json!({"metadata": {"name": name, "namespace": "argocd"},
        "status": {"sync": {"status": "Synced"}, "health": {"status": "Healthy", "message": "long"}}}))
    .unwrap()
}

#[test]
fn aset_154_resources_are_sorted_and_cut() {
    let mut status = ApplicationSetStatus {
        resources: resources(&[live("b"), live("a"), live("c")]),
        ..Default::default()
    };
    bound(&mut status, Some(2), STATUS_BYTES_MAX);
    assert_eq!(
        json!(status.resources),
        json!([{"group": "argoproj.io", "version": "v1alpha1", "kind": "Application", "name": "a", "namespace": "argocd",
            "status": "Synced", "health": {"status": "Healthy"}},
            {"group": "argoproj.io", "version": "v1alpha1", "kind": "Application", "name": "b", "namespace": "argocd",
            "status": "Synced", "health": {"status": "Healthy"}}])
    );
    bound(&mut status, None, STATUS_BYTES_MAX);
    assert_eq!(status.resources.len(), 2);
}

/// INV-10: five thousand Applications, whatever they are called and however they roll, fit into what can be stored.
#[test]
fn inv_10_a_status_stays_below_a_million_bytes() {
    let size = |status: &ApplicationSetStatus| serde_json::to_vec(status).unwrap().len();
    let short: Vec<LiveApplication> = (0..5_000).map(|n| live(&format!("application-{n:05}"))).collect();
    let mut status = ApplicationSetStatus { resources: resources(&short), ..Default::default() };
    bound(&mut status, Some(5_000), STATUS_BYTES_MAX);
    assert_eq!(status.resources.len(), 5_000);
    assert!(size(&status) < STATUS_BYTES_MAX, "{}", size(&status));
    let long: Vec<LiveApplication> =
        (0..5_000).map(|n| live(&format!("{}{n:05}", "x".repeat(240)))).collect();
    let mut status = ApplicationSetStatus { resources: resources(&long), ..Default::default() };
    bound(&mut status, Some(5_000), STATUS_BYTES_MAX);
    assert!((1_000..5_000).contains(&status.resources.len()));
    assert!(size(&status) < STATUS_BYTES_MAX, "{}", size(&status));
    let entry = |application: &LiveApplication| RolloutApplicationStatus {
        application: application.name.clone(),
        last_transition_time: Some("2026-05-04T07:30:00Z".to_owned()),
        message: "Application resource became Healthy, updating status from Progressing to Healthy"
            .to_owned(),
        status: "Healthy".to_owned(),
        step: "12".to_owned(),
        target_revisions: vec!["0".repeat(40)],
    };
    let mut status = ApplicationSetStatus {
        resources: resources(&short),
        application_status: short.iter().map(entry).collect(),
        ..Default::default()
    };
    bound(&mut status, None, STATUS_BYTES_MAX);
    assert_eq!(status.application_status.len(), 5_000, "the state of a roll-out is never cut");
    assert!(size(&status) < 1_300_000, "{}", size(&status));
    let bounded = status.clone();
    bound(&mut status, None, STATUS_BYTES_MAX);
    assert_eq!(status, bounded);
}

#[test]
fn aset_5_entries_of_older_writers_are_written_anew() {
    let stored =
        json!({"applicationStatus": [{"application": "a", "message": "", "status": "Healthy", "step": "1"}]});
    let status: ApplicationSetStatus = serde_json::from_value(stored.clone()).unwrap();
    let patch = status_patch(&stored, &status).unwrap();
    assert_eq!(patch["status"]["applicationStatus"][0]["targetRevisions"], json!([]));
    assert_eq!(status_patch(&json!({}), &ApplicationSetStatus::default()), None);
    assert_eq!(status_patch(&Value::Null, &ApplicationSetStatus::default()), None);
    let kept: ApplicationSetStatus = serde_json::from_value(json!({"future": 1})).unwrap();
    assert_eq!(status_patch(&json!({"future": 1}), &kept), None);
}

/// CTL-36: a set that is large itself leaves less room for what its status lists.
#[test]
fn ctl_36_a_large_set_leaves_less_room_for_its_status() {
    let mut set = ApplicationSet::default();
    assert_eq!(room(&set), STATUS_BYTES_MAX);
    set.metadata.annotations.insert("a".to_owned(), "x".repeat(1_000_000));
    assert!((400_000..450_000).contains(&room(&set)), "{}", room(&set));
    let live: Vec<LiveApplication> = (0..5_000).map(|n| live(&format!("application-{n:05}"))).collect();
    let mut status = ApplicationSetStatus { resources: resources(&live), ..Default::default() };
    bound(&mut status, None, room(&set));
    assert!(serde_json::to_vec(&(&set.metadata, &status)).unwrap().len() < SET_BYTES_MAX);
    assert!(status.resources.len() > 1_000);
}
