use super::*;
use crate::compare::SharedResource;
use crate::health::{Health, HealthError};
use crate::sync::{Served, SyncPair, operation_id};
use serde_json::{Value, json};
use tiphys_api::application::ResourceResult;
use tiphys_object::{Gvk, Object};

/// A cluster where everything is served, permitted and of one health.
struct Plain(HealthCode);

impl Cluster for Plain {
    fn served(&self, gvk: &Gvk) -> Served {
        Served::Yes { namespaced: gvk.kind != "Namespace" }
    }

    fn permitted(&self, _: &Object, _: bool) -> Result<(), String> {
        Ok(())
    }

    fn health(&self, _: &Object) -> Result<Option<Health>, HealthError> {
        Ok(Some(Health::new(self.0, "")))
    }
}

fn hook(annotations: &[(&str, &str)]) -> Arc<Object> {
    let mut tree = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "h", "namespace": "n", "annotations": {"argocd.argoproj.io/hook": "PreSync"}}
    });
    for (key, value) in annotations {
        tree["metadata"]["annotations"][*key] = json!(value);
    }
    Arc::new(Object::from_value(&tree).unwrap())
}

fn facts(live: &Arc<Object>) -> SyncFacts {
    SyncFacts {
        attempt: 2,
        destination_namespace: "n".into(),
        hooks: vec![hook(&[])],
        resources: vec![SyncPair {
            live: Some(Arc::clone(live)),
            self_referenced: true,
            ..SyncPair::default()
        }],
        ..SyncFacts::default()
    }
}

fn mark(attempt: i64, phase: SyncPhase) -> String {
    operation_id(jiff::Timestamp::default(), attempt, phase)
}

/// The recorded result of the hook.
fn recorded(hook_phase: &str) -> ResourceResult {
    ResourceResult {
        group: "batch".to_owned(),
        kind: "Job".to_owned(),
        namespace: "n".to_owned(),
        name: "h".to_owned(),
        status: "Synced".to_owned(),
        hook_phase: hook_phase.to_owned(),
        sync_phase: "PreSync".to_owned(),
        ..ResourceResult::default()
    }
}

#[test]
fn inv_9_a_hook_of_this_attempt_is_adopted_and_not_run_again() {
    let ours = mark(2, SyncPhase::PreSync);
    let live = hook(&[("tiphys.dev/operation-id", &ours)]);
    let mut pass = Pass::start(facts(&live), Plain(HealthCode::Progressing));
    let Step::Finish(end) = pass.next(Vec::new()) else { panic!("nothing is to be done") };
    assert_eq!(end.phase, OperationPhase::Running);
    assert_eq!(end.message, "waiting for completion of hook batch/Job/h");
    assert_eq!((end.results[0].status.as_str(), end.results[0].hook_phase.as_str()), ("Synced", "Running"));
}

#[test]
fn inv_9_hooks_of_other_attempts_and_phases_run_again() {
    for theirs in [mark(1, SyncPhase::PreSync), mark(2, SyncPhase::PostSync)] {
        let live = hook(&[("tiphys.dev/operation-id", &theirs)]);
        let mut pass = Pass::start(facts(&live), Plain(HealthCode::Healthy));
        let Step::Do(dry) = pass.next(Vec::new()) else { panic!("a dry run comes first") };
        assert_eq!(dry[0].op, Op::DryRun);
        let Step::Do(actions) = pass.next(vec![Outcome::done()]) else { panic!("the old one is deleted") };
        assert_eq!(actions[0].op, Op::Delete);
    }
}

#[test]
fn inv_9_the_end_of_an_earlier_hook_of_the_same_name_is_not_that_of_the_running_one() {
    let live = hook(&[("tiphys.dev/operation-id", &mark(1, SyncPhase::PreSync))]);
    let mut facts = facts(&live);
    facts.results = vec![recorded("Running")];
    // The watch still shows the one before, which has ended.
    let mut pass = Pass::start(facts, Plain(HealthCode::Healthy));
    let Step::Do(reads) = pass.next(Vec::new()) else { panic!("the server is asked") };
    assert_eq!(reads[0].op, Op::Read);
    let Step::Finish(end) = pass.next(vec![Outcome::Object(Some(hook(&[])))]) else { panic!("it is there") };
    assert_eq!(
        (end.phase, end.message.as_str()),
        (OperationPhase::Running, "waiting for completion of hook batch/Job/h")
    );
}

#[test]
fn eng_150_hooks_are_submitted_named_held_and_marked() {
    let mut facts = facts(&hook(&[]));
    facts.resources.clear();
    let mut pass = Pass::start(facts, Plain(HealthCode::Healthy));
    let Step::Do(dry) = pass.next(Vec::new()) else { panic!("a dry run comes first") };
    let manifest = dry[0].manifest.as_deref().map(Object::to_value).unwrap().unwrap();
    assert_eq!(manifest["metadata"]["finalizers"], json!(["argocd.argoproj.io/hook-finalizer"]));
    assert_eq!(
        manifest["metadata"]["annotations"]["tiphys.dev/operation-id"],
        Value::from(mark(2, SyncPhase::PreSync))
    );
}

#[test]
fn sty_13_a_finished_hook_counts_by_its_recorded_result() {
    let mut facts = facts(&hook(&[]));
    facts.resources.clear();
    facts.results = vec![recorded("Succeeded")];
    let mut pass = Pass::start(facts, Plain(HealthCode::Healthy));
    let Step::Finish(end) = pass.next(Vec::new()) else { panic!("nothing is left") };
    assert_eq!(end.message, "successfully synced (no more tasks)");
}

#[test]
fn eng_157_a_namespace_that_cannot_be_read_fails_the_sync() {
    let mut facts = facts(&hook(&[]));
    facts.hooks.clear();
    facts.operation.sync_options = vec!["CreateNamespace=true".to_owned()];
    let mut pass = Pass::start(facts, Plain(HealthCode::Healthy));
    let Step::Do(read) = pass.next(Vec::new()) else { panic!("the namespace is read first") };
    assert_eq!((read[0].op, read[0].key.to_string()), (Op::Read, "/Namespace//n".to_owned()));
    let Step::Finish(end) = pass.next(vec![Outcome::failed("timeout")]) else { panic!("the pass is over") };
    assert_eq!(end.phase, OperationPhase::Failed);
    assert_eq!(
        end.message,
        "one or more synchronization tasks completed unsuccessfully, reason: namespace auto creation failed: timeout"
    );
}

#[test]
fn eng_182_shared_resources_stop_the_sync_when_asked_to() {
    let mut facts = facts(&hook(&[]));
    let message = "Secret/s is part of applications a/b and c".to_owned();
    facts.shared = vec![SharedResource { message, owner_exists: false }];
    facts.operation.sync_options = vec!["FailOnSharedResource=true".to_owned()];
    let mut pass = Pass::start(facts, Plain(HealthCode::Healthy));
    let Step::Finish(end) = pass.next(Vec::new()) else { panic!("nothing is to be done") };
    assert_eq!(end.message, "Shared resource found: Secret/s is part of applications a/b and c");
}
