#![expect(clippy::needless_pass_by_value, reason = "JSON is written where it is used")]

use proptest::prelude::*;
use serde_json::json;
use tiphys_api::ApplicationSet;
use tiphys_object::merge_patch;

use super::*;
use crate::compare::ignore_rules;
use crate::fixtures::{World, cluster, now, set, with_request};
use crate::generate::generate;

mod tricks;
mod unread;

/// An installation with one set, whose passes are really carried out.
struct Installation {
    world: World,
    set: ApplicationSet,
    /// Applications as they are stored.
    stored: BTreeMap<String, Value>,
    status: Value,
    confirmed: bool,
    /// Whether the last pass found everything gone.
    is_empty: bool,
}

/// What one pass did.
#[derive(Debug, Default, PartialEq)]
struct Done {
    created: Vec<String>,
    updated: Vec<String>,
    /// Those of the updated ones that have to be what was seen.
    guarded: Vec<String>,
    deleted: Vec<String>,
    stripped: Vec<String>,
    refused: Vec<String>,
    status_written: bool,
}

fn spec(elements: &[&str]) -> Value {
    let elements: Vec<Value> = elements.iter().map(|n| json!({"n": n})).collect();
    json!({"generators": [{"list": {"elements": elements}}],
        "template": {"metadata": {"name": "{{n}}", "labels": {"env": "{{n}}"}}, "spec": {"project": "default",
            "source": {"repoURL": "https://h/r", "path": "{{n}}"}, "destination": {"name": "in-cluster"},
            "syncPolicy": {"automated": {"prune": true}}}}})
}

impl Installation {
    fn new(world: World, spec: Value) -> Self {
        Self {
            world,
            set: set(spec),
            stored: BTreeMap::new(),
            status: json!({}),
            confirmed: false,
            is_empty: false,
        }
    }

    fn live(&self) -> BTreeMap<String, LiveApplication> {
        let read = |(name, manifest): (&String, &Value)| {
            (name.clone(), LiveApplication::from_value(manifest.clone()).unwrap())
        };
        self.stored.iter().map(read).collect()
    }

    fn pass(&mut self) -> (Done, Conclusion) {
        self.pass_with(&[])
    }

    /// One pass; writes to the named Applications fail.
    fn pass_with(&mut self, failing: &[&str]) -> (Done, Conclusion) {
        self.set.status = serde_json::from_value(self.status.clone()).unwrap();
        let live = self.live();
        let mut stored = self.stored.clone();
        let mut done = Done::default();
        let (conclusion, status, is_empty) = with_request(&self.world, &self.set, |request| {
            let generated = match generate(request, &self.world) {
                Ok(generated) => Ok(generated),
                Err(Stop::Failed(failure)) => Err(failure),
                Err(Stop::Pending) => panic!(),
            };
            let rules = ignore_rules(
                &self.set.spec.ignore_application_differences,
                tiphys_engine::scripts::Runner::default(),
            );
            let text;
            let ignore = match &rules {
                Ok(rules) => Ok(rules.as_ref()),
                Err(error) => {
                    text = error.to_string();
                    Err(text.as_str())
                }
            };
            let facts = PassFacts {
                request,
                generated: &generated,
                live: &live,
                facts: &self.world,
                ignore,
                emptiness_is_confirmed: self.confirmed,
                now: now(),
            };
            let plan = plan(&facts).unwrap();
            let mut status = self.status.clone();
            if let Some(patch) = plan.rollout_patch(&status) {
                done.status_written = true;
                status = merge_patch::apply(status, &patch["status"]);
            }
            let mut outcomes = Outcomes::default();
            for write in &plan.writes {
                if failing.contains(&write.name.as_str()) {
                    outcomes.failed.insert(write.name.clone(), "the server said no".to_owned());
                    continue;
                }
                match &write.action {
                    Action::Create(manifest) => {
                        assert!(stored.insert(write.name.clone(), manifest.clone()).is_none());
                        done.created.push(write.name.clone());
                    }
                    Action::Update { patch, resource_version } => {
                        done.guarded.extend(resource_version.as_ref().map(|_| write.name.clone()));
                        let before = stored.remove(&write.name).unwrap();
                        stored.insert(write.name.clone(), merge_patch::apply(before, patch));
                        done.updated.push(write.name.clone());
                    }
                    Action::Refuse(_) => done.refused.push(write.name.clone()),
                }
            }
            if plan.may_remove(&outcomes) {
                for removal in &plan.removals {
                    if removal.finalizers.is_some() {
                        outcomes.stripped.insert(removal.name.clone());
                        done.stripped.push(removal.name.clone());
                    }
                    stored.remove(&removal.name);
                    outcomes.removed.insert(removal.name.clone());
                    done.deleted.push(removal.name.clone());
                }
            }
            let conclusion = conclude(&facts, &plan, &outcomes, &status);
            if let Some(patch) = &conclusion.patch {
                done.status_written = true;
                status = merge_patch::apply(status, &patch["status"]);
            }
            (conclusion, status, plan.is_suddenly_empty())
        });
        self.stored = stored;
        self.status = status;
        self.is_empty = is_empty;
        (done, conclusion)
    }

    fn condition(&self, kind: &str) -> (String, String, String) {
        let conditions = self.status["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default();
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"), text("message"))
    }
}

const ERROR: &str = "ErrorOccurred";

#[test]
fn aset_132_a_set_creates_its_applications_and_comes_to_rest() {
    let mut installation = Installation::new(World::default(), spec(&["b", "a"]));
    let (done, conclusion) = installation.pass();
    assert_eq!(done.created, ["a", "b"], "ASET-141");
    let events: Vec<&str> = conclusion.events.iter().map(|event| event.message.as_str()).collect();
    assert_eq!(events, ["created Application \"a\"", "created Application \"b\""]);
    assert_eq!(conclusion.requeue, Requeue::OnEvent);
    let app = &installation.stored["a"];
    assert_eq!(app["metadata"]["ownerReferences"][0]["uid"], "u");
    assert_eq!(app["metadata"]["finalizers"], json!(["resources-finalizer.argocd.argoproj.io"]));
    assert_eq!(installation.condition("ResourcesUpToDate").0, "True");
    assert_eq!(installation.status["health"]["status"], "Healthy");
    assert_eq!(installation.status["resourcesCount"], 2);
    let (done, conclusion) = installation.pass();
    assert_eq!((done, conclusion.events), (Done::default(), vec![]), "nothing differs, nothing is written");
}

#[test]
fn aset_142_what_is_not_generated_any_more_goes() {
    let mut installation = Installation::new(World::default(), spec(&["a", "b"]));
    installation.pass();
    installation.set.spec = set(spec(&["a"])).spec;
    let (done, conclusion) = installation.pass();
    assert_eq!((done.deleted.as_slice(), done.stripped.len()), (&["b".to_owned()][..], 0));
    assert_eq!(conclusion.events, [Event::normal("Deleted", "Deleted Application \"b\"")]);
    assert_eq!(installation.stored.len(), 1);
}

#[test]
fn aset_142_a_lost_cluster_does_not_hold_an_application() {
    let world = World::default().with_clusters(vec![cluster("eu", &[])]);
    let mut placed = spec(&["a"]);
    placed["template"]["spec"]["destination"] = json!({"name": "eu"});
    let mut installation = Installation::new(world, placed.clone());
    installation.pass();
    installation.world = World::default();
    installation.set.spec = set(spec(&["b"])).spec;
    let (done, conclusion) = installation.pass();
    assert_eq!((done.stripped, done.deleted), (vec!["a".to_owned()], vec!["a".to_owned()]));
    assert!(conclusion.events.iter().any(|event| event.reason == "Updated"));
    // Where the clusters are not known nothing goes.
    let mut installation = Installation::new(World::default(), spec(&["a", "b"]));
    installation.pass();
    installation.world.clusters = Err("the list failed".to_owned());
    installation.set.spec = set(spec(&["a"])).spec;
    let (done, _) = installation.pass();
    assert_eq!(done.deleted.len(), 0);
    assert_eq!(installation.condition(ERROR).1, "ApplicationValidationError");
}

#[test]
fn aset_130_policies_say_what_may_happen() {
    for (policy, updated, deleted) in
        [("create-only", 0, 0), ("create-update", 1, 0), ("create-delete", 0, 1), ("sync", 1, 1)]
    {
        let mut own = spec(&["a", "b"]);
        own["syncPolicy"] = json!({"applicationsSync": policy});
        let mut installation = Installation::new(World::default(), own.clone());
        assert_eq!(installation.pass().0.created.len(), 2);
        let mut changed = own;
        changed["generators"] = json!([{"list": {"elements": [{"n": "a"}, {"n": "c"}]}}]);
        changed["template"]["spec"]["source"]["path"] = json!("other");
        installation.set.spec = set(changed).spec;
        let (done, _) = installation.pass();
        assert_eq!(
            (done.created.len(), done.updated.len(), done.deleted.len()),
            (1, updated, deleted),
            "{policy}"
        );
        assert_eq!(installation.condition("ResourcesUpToDate").0, "True");
    }
}

#[test]
fn aset_15_a_name_that_is_there_twice_blocks_its_holders() {
    let mut installation = Installation::new(World::default(), spec(&["a"]));
    installation.pass();
    let before = installation.stored["a"].clone();
    let mut twice = spec(&["a", "a", "b"]);
    twice["template"]["spec"]["source"]["path"] = json!("other");
    installation.set.spec = set(twice).spec;
    let (done, conclusion) = installation.pass();
    assert_eq!((done.created, done.updated.len(), done.deleted.len()), (vec!["b".to_owned()], 0, 0));
    assert_eq!(installation.stored["a"], before);
    let (status, reason, message) = installation.condition(ERROR);
    assert_eq!((status.as_str(), reason.as_str()), ("True", "ApplicationValidationError"));
    assert_eq!(message, "ApplicationSet s contains applications with duplicate name: a");
    assert_eq!(conclusion.requeue, Requeue::After(RETRY_AFTER));
    assert_eq!(installation.status["health"]["status"], "Degraded");
}

#[test]
fn aset_13_applications_are_validated_in_order() {
    let check = |change: Value| {
        let mut changed = spec(&["a"]);
        changed["template"]["spec"] = merge_patch::apply(changed["template"]["spec"].take(), &change);
        let mut installation = Installation::new(World::default(), changed);
        assert_eq!(installation.pass().0.created.len(), 0);
        installation.condition(ERROR).2
    };
    assert_eq!(check(json!({"project": "p"})), "application references project p which does not exist");
    assert_eq!(check(json!({"project": ""})), "application references project  which does not exist");
    let invalid = "application destination spec is invalid: ";
    for (destination, cause) in [
        (
            json!({"server": "https://x"}),
            "application destination can't have both name and server defined: in-cluster https://x",
        ),
        (json!({"name": "eu"}), "there are no clusters with this name: eu"),
        (json!({"name": ""}), "Destination server missing from app spec"),
    ] {
        assert_eq!(check(json!({"destination": destination})), format!("{invalid}{cause}"));
    }
    let unknown = check(json!({"destination": {"name": null, "server": "https://x"}}));
    assert!(
        unknown.starts_with(
            "application destination spec is invalid: error getting cluster by server \"https://x\": "
        ),
        "{unknown}"
    );
    let mut nameless = spec(&["a"]);
    nameless["template"]["metadata"] = json!({});
    let mut installation = Installation::new(World::default(), nameless);
    installation.pass();
    assert!(
        installation
            .condition(ERROR)
            .2
            .starts_with("ApplicationSet s contains an application with no name; ")
    );
}

#[test]
fn aset_14_the_message_is_that_of_the_last_name() {
    let mut changed = spec(&["a", "b", "c"]);
    changed["template"]["spec"]["project"] = json!("p-{{n}}");
    let mut installation = Installation::new(World::default(), changed);
    installation.pass();
    assert_eq!(
        installation.condition(ERROR).2,
        "application references project p-c which does not exist (and 2 more)"
    );
}

/// INV-8: whatever fails while Applications are generated or looked at, nothing is written and nothing goes.
#[test]
fn inv_8_a_failed_generation_changes_nothing() {
    let mut installation = Installation::new(World::default(), spec(&["a", "b"]));
    installation.pass();
    let stored = installation.stored.clone();
    for broken in [
        json!([{"plugin": {"configMapRef": {"name": "gone"}}}]),
        json!([{"list": {"elements": [{"n": 1}]}}]),
        json!([{"list": {"elements": []}}, {"git": {"repoURL": "u", "revision": "r", "files": [{"path": "*"}]}}]),
        json!([{"matrix": {"generators": []}}]),
        json!([{"list": {"elements": []}, "selector": {"matchLabels": {"a b": "c"}}}]),
    ] {
        let mut changed = spec(&[]);
        changed["generators"] = broken;
        changed["template"]["spec"]["source"]["path"] = json!("other");
        installation.set.spec = set(changed).spec;
        let (done, conclusion) = installation.pass();
        assert_eq!(installation.stored, stored);
        assert_eq!(done.deleted.len() + done.updated.len() + done.created.len(), 0);
        assert_eq!(installation.condition(ERROR).1, "ApplicationGenerationFromParamsError");
        assert_eq!(installation.condition("ParametersGenerated").0, "False");
        assert_eq!(conclusion.requeue, Requeue::After(RETRY_AFTER));
        assert_eq!(installation.status["resourcesCount"], 2, "ASET-154: what exists is not forgotten");
    }
}

/// A set that is generated from what a plugin says.
fn plugged() -> Value {
    let mut plugged = spec(&[]);
    plugged["generators"] = json!([{"plugin": {"configMapRef": {"name": "c"}}}]);
    plugged
}

/// INV-8, F24: an outside that suddenly knows nothing is asked twice before anything goes.
#[test]
fn inv_8_sudden_emptiness_from_outside_is_confirmed() {
    let world = World::default().with_given("c", json!([{"n": "a"}]));
    let mut installation = Installation::new(world, plugged());
    installation.pass();
    installation.world = World::default().with_given("c", json!([]));
    let (done, conclusion) = installation.pass();
    assert_eq!(done.deleted.len(), 0);
    assert_eq!(conclusion.requeue, Requeue::After(CONFIRM_AFTER));
    assert!(installation.condition(ERROR).2.contains("found nothing where 1 Applications exist"));
    installation.confirmed = true;
    assert_eq!(installation.pass().0.deleted, ["a"]);
    // What is written in the set itself is meant.
    let mut installation = Installation::new(World::default(), spec(&["a"]));
    installation.pass();
    installation.set.spec = set(spec(&[])).spec;
    assert_eq!(installation.pass().0.deleted, ["a"]);
}

/// INV-8: another problem of the set, which is looked at again after the same time, is no first witness that nothing is
/// generated any more.
#[test]
fn inv_8_another_problem_does_not_count_as_a_first_look() {
    let mut plugged = plugged();
    plugged["generators"][0]["plugin"]["requeueAfterSeconds"] = json!(60);
    plugged["strategy"] = json!({"deletionOrder": "Reverse"});
    let mut installation = Installation::new(World::default().with_given("c", json!([{"n": "a"}])), plugged);
    installation.pass();
    assert_eq!(installation.condition(ERROR).1, "ApplicationSetInvalidDeletionConfig");
    assert!(!installation.is_empty, "an Application is generated");
    installation.world = World::default().with_given("c", json!([]));
    let (done, _) = installation.pass();
    assert!(done.deleted.is_empty() && installation.is_empty, "{done:?}");
}

/// INV-5: an Application that is on its way out, for however long, is no reason to ask once more.
#[test]
fn inv_8_what_is_going_needs_no_further_look() {
    let mut installation =
        Installation::new(World::default().with_given("c", json!([{"n": "a"}])), plugged());
    installation.pass();
    installation.world = World::default().with_given("c", json!([]));
    installation.pass();
    assert!(installation.is_empty);
    installation.stored.get_mut("a").unwrap()["metadata"]["deletionTimestamp"] =
        json!("2026-05-04T07:30:00Z");
    let (_, conclusion) = installation.pass();
    assert!(!installation.is_empty);
    assert_ne!(conclusion.requeue, Requeue::After(CONFIRM_AFTER));
    assert_eq!(installation.condition(ERROR).0, "False");
}

#[test]
fn aset_12_the_applications_of_an_unknown_generator_go() {
    let mut installation = Installation::new(World::default(), spec(&["a"]));
    installation.pass();
    let mut unknown = spec(&[]);
    unknown["generators"] = json!([{}]);
    installation.set.spec = set(unknown).spec;
    assert_eq!(installation.pass().0.deleted, ["a"]);
}

#[test]
fn aset_133_strangers_are_not_overwritten_and_orphans_are_adopted() {
    let mut installation = Installation::new(World::default(), spec(&["a", "b", "c"]));
    installation.pass();
    installation.stored.get_mut("a").unwrap()["metadata"]["ownerReferences"] =
        json!([owner_reference("other", "x")]);
    installation.stored.get_mut("b").unwrap()["metadata"]["ownerReferences"] = json!([]);
    installation.stored.get_mut("b").unwrap()["spec"]["source"]["path"] = json!("mine");
    let mut more = spec(&["a", "b"]);
    more["generators"][0]["list"]["elements"][0]["n"] = json!("a");
    installation.set.spec = set(more).spec;
    let (done, conclusion) = installation.pass();
    assert_eq!((done.refused, done.updated), (vec!["a".to_owned()], vec!["b".to_owned()]));
    assert_eq!(done.deleted.len(), 0, "not before all writes succeeded");
    let (_, reason, message) = installation.condition(ERROR);
    assert_eq!(reason, "UpdateApplicationError");
    assert!(message.contains("already owned by another ApplicationSet controller other"), "{message}");
    assert_eq!(conclusion.requeue, Requeue::Backoff);
    assert_eq!(installation.stored["b"]["metadata"]["ownerReferences"][0]["name"], "s");
}

/// An Application of another project is not the set's, whoever owns it or nobody (F3): it is neither adopted nor changed,
/// nor does the refusal tell what it is.
#[test]
fn inv_16_a_set_adopts_no_application_of_another_project() {
    let mut installation = Installation::new(World::default(), spec(&["a", "b"]));
    installation.pass();
    for (name, owners) in [("a", json!([])), ("b", json!([owner_reference("blue-set", "x")]))] {
        let stored = installation.stored.get_mut(name).unwrap();
        stored["spec"]["project"] = json!("blue");
        stored["metadata"]["ownerReferences"] = owners;
    }
    let before = installation.stored.clone();
    let (done, _) = installation.pass();
    assert_eq!(done.refused, ["a", "b"]);
    assert_eq!((done.updated.len(), done.deleted.len()), (0, 0));
    assert_eq!(installation.stored, before);
    let (_, _, message) = installation.condition(ERROR);
    assert!(message.contains("this set did not make it") && !message.contains("blue"), "{message}");
    installation.set.spec = set(spec(&[])).spec;
    assert_eq!(installation.pass().0.deleted, [] as [&str; 0]);
}

/// Whoever makes an Application writes its owner: the name of a set makes it none of the set's (F4).
#[test]
fn inv_16_a_forged_owner_makes_no_application_of_a_set() {
    let mut installation = Installation::new(World::default(), spec(&["a"]));
    installation.pass();
    let mut forged = installation.stored["a"].clone();
    forged["metadata"]["name"] = json!("forged");
    forged["metadata"]["ownerReferences"] = json!([owner_reference("s", "11111111")]);
    forged["spec"]["project"] = json!("red");
    installation.stored.insert("forged".to_owned(), forged);
    let (done, _) = installation.pass();
    assert_eq!(done.deleted, [] as [&str; 0]);
    assert_eq!(installation.status["resourcesCount"], 1);
    assert!(!installation.status.to_string().contains("forged"), "{:#}", installation.status);
}

#[test]
fn aset_141_one_failure_does_not_stop_the_others() {
    let mut installation = Installation::new(World::default(), spec(&["a", "b", "c"]));
    let (done, conclusion) = installation.pass_with(&["b"]);
    assert_eq!(done.created, ["a", "c"]);
    assert_eq!(
        installation.condition(ERROR),
        ("True".into(), "UpdateApplicationError".into(), "the server said no".into())
    );
    assert_eq!(conclusion.requeue, Requeue::Backoff);
    assert_eq!(installation.status["resourcesCount"], 2);
}

#[test]
fn aset_140_a_rule_that_is_none_fails_the_update() {
    let mut ruled = spec(&["a"]);
    ruled["ignoreApplicationDifferences"] = json!([{"jqPathExpressions": [".["]}]);
    let mut installation = Installation::new(World::default(), spec(&["a"]));
    installation.pass();
    installation.set.spec = set(ruled).spec;
    let (done, _) = installation.pass();
    assert_eq!(done.refused, ["a"]);
    assert_eq!(installation.condition(ERROR).1, "UpdateApplicationError");
}

/// The fields that a stopped rule protects were overwritten, and no condition named the rule.
#[test]
fn aset_140_a_stopped_rule_fails_the_update() {
    let mut installation = Installation::new(World::default(), spec(&["a"]));
    installation.pass();
    let mut ruled = spec(&["a"]);
    let deep = ".spec.source.path | select((reduce range(49000) as $i (0; [.])) != 0)";
    ruled["ignoreApplicationDifferences"] = json!([{"jqPathExpressions": [deep]}]);
    ruled["template"]["spec"]["source"]["path"] = json!("other");
    installation.set.spec = set(ruled).spec;
    let (done, _) = installation.pass();
    assert_eq!((done.refused, done.updated.len()), (vec!["a".to_owned()], 0));
    let (_, reason, message) = installation.condition(ERROR);
    assert_eq!(reason, "UpdateApplicationError");
    assert!(message.contains("nested more than 1000 levels deep"), "{message}");
}

#[test]
fn aset_144_what_is_on_its_way_out_is_left_alone() {
    let mut installation = Installation::new(World::default(), spec(&["a", "b"]));
    installation.pass();
    for name in ["a", "b"] {
        installation.stored.get_mut(name).unwrap()["metadata"]["deletionTimestamp"] =
            json!("2026-05-04T07:29:00Z");
    }
    let mut changed = spec(&["a"]);
    changed["template"]["spec"]["source"]["path"] = json!("other");
    installation.set.spec = set(changed).spec;
    let (done, _) = installation.pass();
    assert_eq!((done.updated.len(), done.deleted.len()), (0, 0));
    installation.stored.remove("a");
    assert_eq!(installation.pass().0.created, ["a"], "it is made anew when it is gone");
}

#[test]
fn aset_253_an_invalid_order_is_said_and_holds_nothing() {
    let mut odd = spec(&["a"]);
    odd["strategy"] = json!({"deletionOrder": "Reverse"});
    let mut installation = Installation::new(World::default(), odd);
    let (done, conclusion) = installation.pass();
    assert_eq!(done.created, ["a"]);
    let (_, reason, message) = installation.condition(ERROR);
    assert_eq!(reason, "ApplicationSetInvalidDeletionConfig");
    assert_eq!(
        message,
        "deletionOrder Reverse requires strategy type RollingSync with at least one rollingSync step"
    );
    assert_eq!(installation.condition("ResourcesUpToDate").0, "False");
    assert_eq!(conclusion.requeue, Requeue::OnEvent);
}

fn rolling(elements: &[&str], steps: Value) -> Value {
    let mut own = spec(elements);
    own["strategy"] = json!({"type": "RollingSync", "rollingSync": {"steps": steps}});
    own
}

fn env(value: &str) -> Value {
    json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [value]}]})
}

fn progressive() -> World {
    World::default().with_params(&[("enable.progressive.syncs", "true")])
}

#[test]
fn aset_201_a_roll_out_without_steps_applies_nothing() {
    let mut installation = Installation::new(progressive(), rolling(&["a"], json!([])));
    let (done, conclusion) = installation.pass();
    assert_eq!(done.created.len(), 0);
    assert_eq!(
        installation.condition(ERROR),
        ("True".into(), "ApplicationSetRolloutError".into(), "No steps defined for rollout".into())
    );
    assert_eq!(conclusion.requeue, Requeue::After(RETRY_AFTER));
}

#[test]
fn aset_200_without_the_flag_a_strategy_is_ignored() {
    let mut installation = Installation::new(World::default(), rolling(&["a"], json!([env("a")])));
    installation.status = json!({"applicationStatus": [{"application": "a", "message": "", "status": "Waiting", "step": "1", "targetRevisions": []}],
        "conditions": [{"type": "RolloutProgressing", "status": "True", "reason": "x", "message": "y"}]});
    installation.pass();
    assert!(installation.status.get("applicationStatus").is_none());
    assert_eq!(installation.condition("RolloutProgressing").0, "", "ASET-152");
    assert_eq!(installation.stored["a"]["spec"]["syncPolicy"]["automated"], json!({"prune": true}));
}

#[test]
fn aset_230_spec_and_sync_arrive_together() {
    let mut installation =
        Installation::new(progressive(), rolling(&["a", "b"], json!([env("a"), env("b")])));
    let (done, _) = installation.pass();
    assert_eq!(done.created, ["a", "b"], "ASET-202: all exist at once");
    assert_eq!(
        installation.stored["a"]["spec"]["syncPolicy"]["automated"],
        json!({"prune": true, "enabled": false})
    );
    assert!(installation.stored["a"].get("operation").is_none());
    let synced = |path: &str| {
        json!({"sync": {"status": "Synced", "revision": "r", "comparedTo": {
        "source": {"repoURL": "https://h/r", "path": path}, "destination": {"name": "in-cluster"}}}, "health": {"status": "Healthy"}})
    };
    for name in ["a", "b"] {
        installation.stored.get_mut(name).unwrap()["status"] = synced(name);
    }
    let (done, _) = installation.pass();
    assert!(done.updated.is_empty());
    assert_eq!(installation.condition("RolloutProgressing").0, "False");
    // A new spec: that of the first step arrives with its sync, that of the second without.
    let mut changed = rolling(&["a", "b"], json!([env("a"), env("b")]));
    changed["template"]["spec"]["source"]["path"] = json!("other-{{n}}");
    installation.set.spec = set(changed).spec;
    for name in ["a", "b"] {
        installation.stored.get_mut(name).unwrap()["metadata"]["resourceVersion"] = json!("7");
    }
    let (done, _) = installation.pass();
    assert_eq!(done.updated, ["a", "b"]);
    assert_eq!(
        done.guarded,
        ["a"],
        "ASET-231: what was seen may be older than an operation that runs already"
    );
    assert_eq!(installation.stored["a"]["operation"]["initiatedBy"]["username"], "applicationset-controller");
    assert_eq!(installation.stored["a"]["operation"]["sync"]["prune"], true);
    assert!(installation.stored["b"].get("operation").is_none());
    assert_eq!(installation.stored["b"]["spec"]["source"]["path"], "other-b");
    let states = |installation: &Installation| {
        let entries = installation.status["applicationStatus"].as_array().unwrap();
        entries.iter().map(|entry| entry["status"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(states(&installation), ["Pending", "Waiting"]);
    // Nothing moves until the Application does.
    let (done, _) = installation.pass();
    assert_eq!(done, Done::default());
    let app = installation.stored.get_mut("a").unwrap();
    app.as_object_mut().unwrap().remove("operation");
    app["status"] = synced("other-a");
    app["status"]["operationState"] = json!({"phase": "Succeeded", "startedAt": "2026-05-04T07:30:00Z",
        "operation": {"initiatedBy": {"username": "applicationset-controller"}}});
    installation.pass();
    assert_eq!(states(&installation), ["Progressing", "Waiting"]);
    installation.pass();
    assert_eq!(states(&installation), ["Healthy", "Pending"]);
    assert_eq!(installation.stored["b"]["operation"]["sync"]["prune"], true);
}

#[test]
fn aset_277_what_a_project_forbids_is_blocked() {
    let project = json!({"metadata": {"name": "p"}, "spec": {"sourceRepos": ["https://h/*"],
        "destinations": [{"name": "in-cluster", "server": "https://kubernetes.default.svc", "namespace": "ok"}]}});
    let check = |change: Value| {
        let mut scoped = spec(&["a"]);
        scoped["project"] = json!("p");
        scoped["template"]["spec"]["project"] = json!("");
        scoped["template"]["spec"]["destination"]["namespace"] = json!("ok");
        scoped["template"]["spec"] = merge_patch::apply(scoped["template"]["spec"].take(), &change);
        let mut foreign = cluster("foreign", &[]);
        foreign.project = "q".to_owned();
        let world = World::default().with_project(project.clone()).with_clusters(vec![foreign]);
        let mut installation = Installation::new(world, scoped);
        let (done, _) = installation.pass();
        match done.created.len() {
            0 => installation.condition(ERROR).2,
            _ => installation.stored["a"]["spec"]["project"].as_str().unwrap().to_owned(),
        }
    };
    assert_eq!(check(json!({})), "p", "an empty project is the set's");
    assert_eq!(
        check(json!({"project": "x"})),
        "application project 'x' does not match ApplicationSet project 'p'"
    );
    assert_eq!(
        check(json!({"source": {"repoURL": "https://other/r"}})),
        "application repo https://other/r is not permitted in project 'p'"
    );
    assert_eq!(
        check(
            json!({"source": null, "sources": [{"repoURL": "https://h/r", "path": "."}, {"repoURL": "https://x", "ref": "v"}]})
        ),
        "application repo https://x is not permitted in project 'p'"
    );
    assert_eq!(
        check(json!({"sourceHydrator": {"drySource": {"repoURL": "https://dry"}}})),
        "application repo https://dry is not permitted in project 'p'"
    );
    assert_eq!(
        check(json!({"destination": {"namespace": "no"}})),
        "application destination server 'https://kubernetes.default.svc' and namespace 'no' do not match any of the allowed destinations in project 'p'"
    );
    // What another project has looks as what does not exist.
    for name in ["foreign", "nothing"] {
        assert_eq!(
            check(json!({"destination": {"name": name}})),
            format!("application destination spec is invalid: there are no clusters with this name: {name}")
        );
    }
}

#[test]
fn aset_259_stale_applications_may_go_in_order() {
    let mut ordered = spec(&["a", "b", "c", "keep"]);
    ordered["strategy"] = json!({"deletionOrder": "Custom", "deletionSync": {"steps": [env("c"), env("a")]}});
    let world = || World::default().with_params(&[("deletion.order.on.prune", "true")]);
    let mut installation = Installation::new(world(), ordered.clone());
    installation.pass();
    ordered["generators"] = json!([{"list": {"elements": [{"n": "keep"}, {"n": "new"}]}}]);
    installation.set.spec = set(ordered).spec;
    let (done, conclusion) = installation.pass();
    assert_eq!((done.created, done.deleted), (vec!["new".to_owned()], vec!["c".to_owned()]));
    assert_eq!(conclusion.requeue, Requeue::After(deletion::REQUEUE));
    assert_eq!(installation.pass().0.deleted, ["a"]);
    assert_eq!(installation.pass().0.deleted, ["b"]);
    let mut at_once = Installation::new(World::default(), spec(&["a", "b"]));
    at_once.pass();
    at_once.set.spec = set(spec(&["keep"])).spec;
    assert_eq!(at_once.pass().0.deleted, ["a", "b"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Whatever a set and its Applications were, two passes make them equal, and the third writes nothing (INV-5).
    #[test]
    fn inv_5_a_set_comes_to_rest(
        first in proptest::collection::btree_set(0..8_usize, 0..6),
        second in proptest::collection::btree_set(0..8_usize, 0..6),
        drift in proptest::collection::vec((0..8_usize, 0..4_usize), 0..6),
        policy in 0..4_usize,
        rolls in any::<bool>(),
    ) {
        let names = |numbers: &BTreeSet<usize>| -> Vec<String> { numbers.iter().map(|n| format!("a{n}")).collect() };
        let of = |names: &[String]| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut own = if rolls { rolling(&names, json!([env("a1"), {}])) } else { spec(&names) };
            let word = ["create-only", "create-update", "create-delete", "sync"][policy];
            own["syncPolicy"] = json!({"applicationsSync": word});
            own
        };
        let mut installation = Installation::new(progressive(), of(&names(&first)));
        installation.pass();
        for (who, how) in drift {
            let Some(app) = installation.stored.get_mut(&format!("a{who}")) else { continue };
            match how {
                0 => app["spec"]["source"]["path"] = json!("drift"),
                1 => app["metadata"]["labels"] = json!({"x": "y"}),
                2 => app["metadata"]["ownerReferences"] = json!([]),
                _ => app["status"] = json!({"sync": {"status": "Synced", "revision": "r"}, "health": {"status": "Healthy"}}),
            }
        }
        installation.set.spec = set(of(&names(&second))).spec;
        installation.pass();
        installation.pass();
        let (done, conclusion) = installation.pass();
        prop_assert_eq!(done, Done::default());
        prop_assert!(conclusion.events.is_empty());
    }
}
