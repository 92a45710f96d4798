use super::*;
use serde_json::{Value, json};

fn source(bytes: usize) -> Value {
    json!({"repoURL": "r", "path": "p", "helm": {"values": "x".repeat(bytes)}})
}

/// An application whose values are in every copy, with resources.
fn app(values: usize, resources: usize) -> Application {
    let entry = |at: usize| {
        json!({"kind": "ConfigMap", "version": "v1", "name": format!("c-{at:05}"), "namespace": "n",
            "status": if at == 7 { "OutOfSync" } else { "Synced" }})
    };
    let result = |at: usize| {
        json!({"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "n",
            "name": format!("c-{at:05}"), "status": "Synced", "hookPhase": "Running", "message": "created"})
    };
    let history = |id: usize| json!({"id": id, "revision": "c", "source": source(values)});
    serde_json::from_value(json!({"metadata": {"name": "a"},
        "spec": {"destination": {}, "source": source(values)},
        "status": {"health": {"status": "Healthy"},
            "sync": {"status": "OutOfSync", "comparedTo": {"source": source(values)}},
            "history": (0..10).map(history).collect::<Vec<_>>(),
            "resources": (0..resources).map(entry).collect::<Vec<_>>(),
            "operationState": {"phase": "Succeeded", "startedAt": "t", "operation":
                {"sync": {"source": source(values)}}, "syncResult": {"revision": "c",
                "source": source(values), "resources": (0..resources).map(result).collect::<Vec<_>>()}}}}))
    .unwrap()
}

fn fitted(app: &Application, room: usize) -> (ApplicationStatus, Fitted) {
    let mut new = app.clone();
    let fitted = fit(app, &mut new, room, "t1");
    (new.status, fitted)
}

#[test]
fn ctl_36_large_values_leave_room_for_all_resources() {
    let (status, how) = fitted(&app(200_000, 2_000), STATUS_BYTES_MAX);
    assert_eq!((how, status.resources.len()), (Fitted::Whole, 2_000));
    assert!(json_bytes(&status) <= STATUS_BYTES_MAX, "{}", json_bytes(&status));
    let is_whole: Vec<bool> =
        status.history.iter().map(|entry| !entry.source.as_ref().unwrap().is_abridged()).collect();
    assert_eq!(is_whole, [[false; 9].as_slice(), &[true]].concat(), "the newest entry keeps its values");
    let spec = app(200_000, 0).spec.source.unwrap();
    let copies = [
        status.sync.compared_to.source.as_ref(),
        status.operation_state.as_ref().unwrap().sync_result.as_ref().unwrap().source.as_ref(),
        status.operation_state.as_ref().unwrap().operation.sync.as_ref().unwrap().source.as_ref(),
    ];
    for copy in copies {
        assert!(copy.unwrap().is_abridged() && copy.unwrap().is_copy_of(&spec));
    }
}

#[test]
fn ctl_36_small_statuses_stay_as_they_are() {
    let app = app(5_000, 100);
    assert_eq!(fitted(&app, STATUS_BYTES_MAX), (app.status.clone(), Fitted::Whole));
}

/// INV-5: a status that was fitted fits.
#[test]
fn inv_5_fitting_twice_changes_nothing() {
    for room in [900_000, 300_000, 60_000, 20_000, 3_000, 0] {
        let mut app = app(100_000, 3_000);
        let (status, how) = fitted(&app, room);
        app.status = status;
        let (again, _) = fitted(&app, room.max(4_000));
        assert_eq!(json_bytes(&again), json_bytes(&app.status), "{room} {how:?}");
    }
}

/// B7: below 1 MB with 20,000 resources, and what differs stays.
#[test]
fn b7_a_status_of_20000_resources_stays_below_its_bound() {
    let (status, how) = fitted(&app(0, 20_000), STATUS_BYTES_MAX);
    assert_eq!(how, Fitted::Shortened);
    assert!(json_bytes(&status) <= STATUS_BYTES_MAX);
    assert!(status.resources.len() > 5_000 && status.resources.iter().any(|r| r.status == "OutOfSync"));
    assert!(status.conditions.iter().any(|condition| condition.message == SHORTENED));
}

#[test]
fn ctl_36_texts_end_at_their_bound() {
    let mut app = app(0, 1);
    let long = || "é".repeat(20_000);
    app.status.health.message = long();
    app.status.conditions = vec![Condition::new(ConditionType::SyncError, long())];
    let state = app.status.operation_state.as_mut().unwrap();
    state.message = long();
    state.sync_result.as_mut().unwrap().resources[0].message = long();
    let (status, how) = fitted(&app, STATUS_BYTES_MAX);
    let state = status.operation_state.unwrap();
    let result = state.sync_result.unwrap();
    let texts =
        [&status.health.message, &status.conditions[0].message, &state.message, &result.resources[0].message];
    for text in texts {
        assert!(text.len() <= TEXT_BYTES_MAX && text.ends_with("(40000 bytes in total)"), "{}", text.len());
    }
    assert_eq!(how, Fitted::Whole);
}

/// INV-15: without room nothing is claimed, and the reason is shown.
#[test]
fn inv_15_a_minimal_status_knows_nothing_and_says_why() {
    let app = app(500_000, 500);
    let (status, how) = fitted(&app, 100);
    assert_eq!(how, Fitted::Minimal);
    assert_eq!((&*status.sync.status, &*status.health.status), ("Unknown", "Unknown"));
    assert!(status.resources.is_empty() && status.history.is_empty());
    assert_eq!(status.conditions[0].message, UNSTORABLE);
    assert!(status.sync.compared_to.source.as_ref().unwrap().is_copy_of(app.spec.source.as_ref().unwrap()));
    assert!(json_bytes(&status) < 3_000, "{}", json_bytes(&status));
    let state = status.operation_state.unwrap();
    assert_eq!((&*state.phase, &*state.started_at), ("Succeeded", "t"));
}

/// INV-9: results of hooks go last.
#[test]
fn inv_9_results_of_hooks_stay_longest() {
    let mut app = app(0, 2_000);
    let result = app.status.operation_state.as_mut().unwrap().sync_result.as_mut().unwrap();
    for result in &mut result.resources {
        result.status = "SyncFailed".to_owned();
        result.message = "x".repeat(2_000);
    }
    result.resources[5].hook_type = "Sync".to_owned();
    let (status, how) = fitted(&app, 8_000);
    let kept = status.operation_state.unwrap().sync_result.unwrap().resources;
    assert_eq!((how, &*kept[0].hook_type), (Fitted::Shortened, "Sync"));
    assert!(json_bytes(&kept) < 8_000);
    assert!(are_same_results(
        &kept[..1],
        &app.status.operation_state.unwrap().sync_result.unwrap().resources[5..6]
    ));
}

#[test]
fn ctl_36_a_copy_of_an_operation_is_bounded() {
    let mut app = app(0, 0);
    let state = app.status.operation_state.as_mut().unwrap();
    let sync = state.operation.sync.as_mut().unwrap();
    sync.manifests = vec!["x".repeat(100_000); 3];
    sync.revision = "y".repeat(100_000);
    state.operation.info =
        serde_json::from_value(json!(vec![json!({"name": "z".repeat(2_000)}); 200])).unwrap();
    let (status, _) = fitted(&app, STATUS_BYTES_MAX);
    let operation = status.operation_state.unwrap().operation;
    assert!(json_bytes(&operation) <= COPY_BYTES_MAX);
    assert_eq!(operation.sync.unwrap().manifests.len(), 1, "it was a sync of local manifests");
}
