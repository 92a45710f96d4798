use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A world in which a roll-out happens, on a clock of seconds.
struct Trial {
    steps: Vec<RolloutStep>,
    desired: Vec<(String, BTreeMap<String, String>)>,
    live: BTreeMap<String, (LiveApplication, bool, bool)>,
    entries: Vec<RolloutApplicationStatus>,
}

fn steps(steps: Value) -> Vec<RolloutStep> {
    serde_json::from_value(steps).unwrap()
}

fn env_step(value: &str) -> Value {
    json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [value]}]})
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

impl Trial {
    fn new(steps_of: Value, desired: &[(&str, &str)]) -> Self {
        let desired = desired
            .iter()
            .map(|(name, env)| ((*name).to_owned(), BTreeMap::from([("env".to_owned(), (*env).to_owned())])));
        Self {
            steps: steps(steps_of),
            desired: desired.collect(),
            live: BTreeMap::new(),
            entries: Vec::new(),
        }
    }

    fn observe(&mut self, name: &str, sync: &str, health: &str, revision: &str) -> &mut LiveApplication {
        let (live, ..) =
            self.live.entry(name.to_owned()).or_insert_with(|| (LiveApplication::default(), false, true));
        live.name = name.to_owned();
        live.status.sync = sync.to_owned();
        live.status.health = health.to_owned();
        live.status.revisions = vec![revision.to_owned()];
        live
    }

    fn operation(&mut self, name: &str, phase: &str, started: i64) {
        let (live, ..) = self.live.get_mut(name).unwrap();
        live.status.reconciled_at = Some(at(started + 1));
        live.status.operation = Some(crate::live::LiveOperation {
            phase: phase.to_owned(),
            started_at: Some(at(started)),
            is_ours: false,
        });
    }

    fn pass(&mut self, now: i64) -> RolloutPass {
        let desired: Vec<Desired<'_>> = self
            .desired
            .iter()
            .map(|(name, labels)| Desired { name, labels, is_valid: true, sync_policy: None })
            .collect();
        let live: Vec<Observed<'_>> = self
            .live
            .values()
            .map(|(application, spec_differs, is_current)| Observed {
                application,
                spec_differs: *spec_differs,
                is_current: *is_current,
            })
            .collect();
        let facts = RolloutFacts {
            steps: &self.steps,
            desired: &desired,
            live: &live,
            entries: &self.entries,
            now: at(now),
        };
        let pass = advance(&facts);
        self.entries.clone_from(&pass.entries);
        pass
    }

    fn states(&self) -> Vec<String> {
        self.entries
            .iter()
            .map(|entry| format!("{} {} {}", entry.application, entry.step, entry.status))
            .collect()
    }
}

#[test]
fn aset_233_the_worked_example() {
    let mut trial = Trial::new(json!([env_step("dev"), env_step("qa")]), &[("a", "dev"), ("b", "qa")]);
    trial.observe("a", "Synced", "Healthy", "r1");
    trial.observe("b", "Synced", "Healthy", "r1");
    let pass = trial.pass(0);
    assert_eq!(trial.states(), ["a 1 Healthy", "b 2 Healthy"]);
    assert_eq!(pass.progressing_step, None);
    trial.observe("a", "OutOfSync", "Healthy", "r2");
    trial.observe("b", "OutOfSync", "Healthy", "r2");
    let pass = trial.pass(10);
    assert_eq!(trial.states(), ["a 1 Pending", "b 2 Waiting"]);
    assert_eq!(pass.promoted, ["a"]);
    assert_eq!(pass.operations.into_keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(pass.progressing_step, Some(1));
    trial.operation("a", "Running", 11);
    let pass = trial.pass(12);
    assert_eq!(trial.states(), ["a 1 Progressing", "b 2 Waiting"]);
    assert!(pass.operations.is_empty(), "ASET-231");
    trial.observe("a", "Synced", "Healthy", "r2");
    let pass = trial.pass(20);
    assert_eq!(trial.states(), ["a 1 Healthy", "b 2 Pending"]);
    assert_eq!(pass.progressing_step, Some(2));
    trial.observe("a", "OutOfSync", "Healthy", "r3");
    trial.observe("b", "OutOfSync", "Healthy", "r3");
    trial.pass(30);
    assert_eq!(trial.states(), ["a 1 Pending", "b 2 Waiting"]);
}

#[test]
fn aset_203_operators_and_steps() {
    let labels = |env: Option<&str>| -> BTreeMap<String, String> {
        env.into_iter().map(|env| ("env".to_owned(), env.to_owned())).collect()
    };
    let select = |operator: &str, env: Option<&str>| {
        let step =
            json!([{"matchExpressions": [{"key": "env", "operator": operator, "values": ["a", "b"]}]}]);
        selects(&steps(step)[0], &labels(env))
    };
    for (operator, env, expected) in [
        ("In", Some("a"), true),
        ("In", Some("c"), false),
        ("In", None, false),
        ("NotIn", Some("a"), false),
        ("NotIn", Some("c"), true),
        ("NotIn", None, true),
        ("Exists", Some("a"), false),
        ("Exists", None, true),
    ] {
        assert_eq!(select(operator, env), expected, "{operator} {env:?}");
    }
    assert!(selects(&RolloutStep::default(), &labels(None)));
    let all = steps(json!([{}, env_step("a")]));
    let found = membership(&all, [("x", &labels(Some("a")))]);
    assert_eq!(found.step_of("x"), Some(1));
    assert_eq!(found.overlaps().count(), 1);
}

#[test]
fn aset_205_changes_set_back_to_waiting() {
    let mut trial = Trial::new(json!([env_step("other")]), &[("a", "dev")]);
    trial.observe("a", "OutOfSync", "Healthy", "r1");
    trial.pass(0);
    assert_eq!(trial.entries[0].message, "No Application status found, defaulting status to Waiting");
    assert_eq!((trial.entries[0].step.as_str(), trial.entries[0].status.as_str()), ("-1", "Waiting"));
    for (revision, differs, message) in [
        ("r2", false, "Application has pending changes, setting status to Waiting"),
        ("r2", true, "Application has pending changes (spec differs), setting status to Waiting"),
        ("r3", true, "Application has pending changes (revision and spec differ), setting status to Waiting"),
    ] {
        trial.observe("a", "OutOfSync", "Healthy", revision);
        trial.live.get_mut("a").unwrap().1 = differs;
        trial.pass(5);
        assert_eq!(trial.entries[0].message, message);
        assert_eq!(trial.entries[0].target_revisions, [revision]);
    }
}

#[test]
fn aset_207_a_verdict_about_another_spec_does_not_count() {
    let mut trial = Trial::new(json!([{}]), &[("a", "dev")]);
    trial.observe("a", "Synced", "Healthy", "r1");
    trial.live.get_mut("a").unwrap().1 = true;
    let pass = trial.pass(0);
    // The new spec is written in this very pass, together with the operation.
    assert_eq!(trial.states(), ["a 1 Pending"]);
    assert_eq!(pass.operations.len(), 1);
    trial.live.get_mut("a").unwrap().1 = false;
    trial.live.get_mut("a").unwrap().2 = false;
    trial.operation("a", "Succeeded", 1);
    trial.pass(2);
    assert_eq!(trial.states(), ["a 1 Progressing"]);
    trial.pass(3);
    assert_eq!(trial.states(), ["a 1 Progressing"], "Synced and Healthy, but of the old spec");
    trial.live.get_mut("a").unwrap().2 = true;
    trial.pass(4);
    assert_eq!(trial.states(), ["a 1 Healthy"]);
}

#[test]
fn aset_205_pending_ends_when_the_operation_began_or_cannot() {
    let pending = || {
        let mut trial = Trial::new(json!([{}]), &[("a", "dev")]);
        trial.observe("a", "OutOfSync", "Missing", "r1");
        trial.pass(10);
        assert_eq!(trial.states(), ["a 1 Pending"]);
        trial
    };
    for (phase, started, expected) in [
        (
            "Running",
            11,
            Some("Application resource became Progressing, updating status from Pending to Progressing"),
        ),
        (
            "Succeeded",
            11,
            Some(
                "Application resource completed a sync successfully, updating status from Pending to Progressing",
            ),
        ),
        (
            "Failed",
            11,
            Some("Application resource completed a sync, updating status from Pending to Progressing"),
        ),
        (
            "Error",
            11,
            Some("Application resource completed a sync, updating status from Pending to Progressing"),
        ),
        ("Running", 10, None),
        ("Running", 5, None),
    ] {
        let mut trial = pending();
        trial.operation("a", phase, started);
        trial.pass(20);
        let entry = &trial.entries[0];
        match expected {
            Some(message) => {
                assert_eq!((entry.status.as_str(), entry.message.as_str()), ("Progressing", message));
            }
            None => assert_eq!(entry.status, "Pending", "{phase} {started}"),
        }
    }
    let mut trial = pending();
    trial.operation("a", "Running", 11);
    trial.live.get_mut("a").unwrap().0.status.reconciled_at = Some(at(9));
    trial.pass(20);
    assert_eq!(trial.states(), ["a 1 Pending"], "not looked at since");
    trial.live.get_mut("a").unwrap().0.status.reconciled_at = None;
    trial.pass(21);
    assert_eq!(trial.states(), ["a 1 Progressing"]);
    for kind in ["InvalidSpecError", "UnknownError"] {
        let mut trial = pending();
        trial.live.get_mut("a").unwrap().0.status.conditions = vec![kind.to_owned()];
        trial.pass(20);
        assert_eq!(
            trial.entries[0].message,
            "Application resource has error and cannot sync, updating status to Progressing"
        );
    }
}

/// What is stored has whole seconds: our own operation may begin in the second in which it was asked for.
#[test]
fn aset_231_our_operation_of_the_same_second_counts() {
    let mut trial = Trial::new(json!([{}]), &[("a", "dev")]);
    trial.observe("a", "OutOfSync", "Missing", "r1");
    trial.pass(10);
    trial.operation("a", "Succeeded", 10);
    let live = &mut trial.live.get_mut("a").unwrap().0;
    live.status.reconciled_at = Some(at(10));
    live.status.operation.as_mut().unwrap().is_ours = true;
    let pass = trial.pass(10);
    assert_eq!(trial.states(), ["a 1 Progressing"]);
    assert!(pass.operations.is_empty());
}

/// The sync of the revision before is not taken for the one that is asked for, however fast revisions follow each other.
#[test]
fn aset_231_a_sync_of_the_same_second_for_another_revision_does_not_count() {
    let mut trial = Trial::new(json!([{}]), &[("a", "dev")]);
    trial.observe("a", "Synced", "Healthy", "r1");
    trial.operation("a", "Succeeded", 10);
    trial.live.get_mut("a").unwrap().0.status.operation.as_mut().unwrap().is_ours = true;
    trial.pass(10);
    assert_eq!(trial.states(), ["a 1 Healthy"]);
    trial.observe("a", "OutOfSync", "Healthy", "r2");
    let pass = trial.pass(10);
    assert_eq!((trial.states(), pass.waits_a_moment), (vec!["a 1 Waiting".to_owned()], true));
    assert!(pass.operations.is_empty());
    let pass = trial.pass(11);
    assert_eq!((trial.states(), pass.waits_a_moment), (vec!["a 1 Pending".to_owned()], false));
    assert_eq!(pass.operations.len(), 1);
    let pass = trial.pass(11);
    assert_eq!(trial.states(), ["a 1 Pending"]);
    assert_eq!(pass.operations.len(), 1, "the old sync is not the one that was asked for");
    // A controller whose clock is behind that of the one before waits until its own has come so far.
    trial.observe("a", "OutOfSync", "Healthy", "r3");
    let pass = trial.pass(4);
    assert_eq!((trial.states(), pass.waits_a_moment), (vec!["a 1 Waiting".to_owned()], true));
    let pass = trial.pass(11);
    assert_eq!((trial.states(), pass.operations.len()), (vec!["a 1 Pending".to_owned()], 1));
}

#[test]
fn aset_205_health_and_drift_alone_start_nothing() {
    let mut trial = Trial::new(json!([{}]), &[("a", "dev")]);
    trial.observe("a", "Synced", "Healthy", "r1");
    trial.pass(0);
    for (sync, health) in [("Synced", "Degraded"), ("OutOfSync", "Healthy"), ("Unknown", "Unknown")] {
        trial.observe("a", sync, health, "r1");
        trial.pass(5);
        assert_eq!(trial.states(), ["a 1 Healthy"], "{sync} {health}");
    }
}

#[test]
fn aset_210_a_step_waits_for_members_that_do_not_exist() {
    let mut trial = Trial::new(
        json!([env_step("dev"), {}, env_step("none"), env_step("qa")]),
        &[("a", "dev"), ("b", "dev"), ("c", "qa")],
    );
    trial.observe("a", "Synced", "Healthy", "r1");
    trial.observe("c", "OutOfSync", "Healthy", "r1");
    let pass = trial.pass(0);
    assert_eq!(pass.promoted, [] as [&str; 0], "b is not there");
    trial.observe("b", "Synced", "Healthy", "r1");
    let pass = trial.pass(1);
    // Everything else belongs to the second step; empty steps pass.
    assert_eq!(
        (trial.states(), pass.promoted.as_slice()),
        (vec!["a 1 Healthy".into(), "b 1 Healthy".into(), "c 2 Pending".into()], &["c".to_owned()][..])
    );
    trial.live.get_mut("b").unwrap().0.deletion_timestamp = Some(at(1));
    trial.entries.clear();
    let pass = trial.pass(2);
    assert_eq!(trial.states(), ["a 1 Healthy", "c 2 Waiting"], "ASET-204: b takes no part");
    assert!(pass.promoted.is_empty());
}

#[test]
fn aset_212_only_so_many_at_once() {
    let mut all = env_step("dev");
    all["maxUpdate"] = json!("50%");
    let mut trial = Trial::new(json!([all]), &[("a", "dev"), ("b", "dev"), ("c", "dev"), ("x", "none")]);
    for name in ["a", "b", "c", "x"] {
        trial.observe(name, "OutOfSync", "Healthy", "r1");
    }
    assert_eq!(trial.pass(0).promoted, ["a"]);
    assert_eq!(trial.pass(1).promoted, [] as [&str; 0]);
    trial.operation("a", "Running", 2);
    assert_eq!(trial.pass(3).promoted, [] as [&str; 0], "a is Progressing");
    trial.observe("a", "Synced", "Healthy", "r1");
    assert_eq!(trial.pass(4).promoted, ["b"]);
    assert_eq!(trial.states(), ["a 1 Healthy", "b 1 Pending", "c 1 Waiting", "x -1 Waiting"]);
    for (limit, expected) in
        [(json!(0), 0), (json!("0%"), 0), (json!("odd"), 1), (json!(2), 2), (json!(null), 3)]
    {
        let mut step = env_step("dev");
        step["maxUpdate"] = limit.clone();
        trial.steps = steps(json!([step]));
        trial.entries.clear();
        trial.observe("a", "OutOfSync", "Healthy", "r1");
        assert_eq!(trial.pass(10).promoted.len(), expected, "{limit}");
    }
}

#[test]
fn aset_215_what_is_wrong_with_the_steps_is_said() {
    let op = |operator: &str| json!({"key": "env", "operator": operator, "values": ["dev"]});
    for (steps, expected) in [
        (json!([env_step("dev"), env_step("qa")]), "Rolling Sync Configured correctly"),
        (
            json!([{"matchExpressions": [op("X")]}, env_step("qa")]),
            "Step 1 has invalid matchExpression operators: X. Supported Operators are 'In' and 'NotIn'",
        ),
        (
            json!([{"matchExpressions": [op("X")]}, env_step("qa"), {"matchExpressions": [op("In"), op("Y")]}]),
            "Steps 1, 3 have invalid matchExpression operators: X, Y. Supported Operators are 'In' and 'NotIn'",
        ),
        (
            json!([env_step("dev"), env_step("dev"), env_step("qa")]),
            "Application 'foo' is selected by multiple steps: (1-2)",
        ),
        (
            json!([env_step("dev"), {}, env_step("qa")]),
            "Applications 'bar', 'foo' are selected by multiple steps: [(2-3), (1-2)]",
        ),
        (
            json!([{"matchExpressions": env_step("dev")["matchExpressions"], "maxUpdate": "X"}, env_step("qa")]),
            "Step 1 has an invalid maxUpdate value: X",
        ),
        (
            json!([{"matchExpressions": env_step("dev")["matchExpressions"], "maxUpdate": "X"},
                {"matchExpressions": env_step("qa")["matchExpressions"], "maxUpdate": "Y"}]),
            "Steps 1, 2 have invalid maxUpdate values: [X, Y]",
        ),
        (
            json!([env_step("none"), env_step("dev"), env_step("qa"), env_step("none")]),
            "Steps [1 4] have no applications matching their criteria",
        ),
    ] {
        let mut trial = Trial::new(steps.clone(), &[("foo", "dev"), ("bar", "qa")]);
        let condition = trial.pass(0).conditions[0].clone();
        assert_eq!(condition.message, expected, "{steps}");
        assert_eq!(condition.holds, expected != "Rolling Sync Configured correctly");
    }
}

#[test]
fn aset_230_operations_follow_the_template() {
    let policy = |policy: Value| serde_json::from_value::<SyncPolicy>(policy).unwrap();
    let operation = operation_of(Some(&policy(
        json!({"automated": {"prune": true}, "syncOptions": ["A=true"], "retry": {"limit": 2}}),
    )));
    assert_eq!(
        json!(operation),
        json!({"initiatedBy": {"username": "applicationset-controller", "automated": true},
            "info": [{"name": "Reason", "value": "ApplicationSet RollingSync triggered a sync of this Application resource"}],
            "sync": {"prune": true, "syncOptions": ["A=true"]}, "retry": {"limit": 2}})
    );
    let off = operation_of(Some(&policy(json!({"automated": {"prune": true, "enabled": false}}))));
    assert!(!off.sync.unwrap().prune);
    assert_eq!(operation_of(None).retry.limit, 5);
}

#[test]
fn aset_231_nothing_is_asked_for_twice() {
    let mut trial = Trial::new(json!([{}]), &[("a", "dev")]);
    trial.observe("a", "OutOfSync", "Healthy", "r1").has_operation = true;
    assert!(trial.pass(0).operations.is_empty(), "one waits already");
    trial.live.get_mut("a").unwrap().0.has_operation = false;
    assert_eq!(trial.pass(1).operations.len(), 1, "a controller that starts anew asks");
}

#[test]
fn aset_207_which_spec_was_compared() {
    let live = |spec: Value, compared: Value| {
        let manifest =
            json!({"metadata": {"name": "a"}, "spec": spec, "status": {"sync": {"comparedTo": compared}}});
        is_current(&LiveApplication::from_value(manifest).unwrap())
    };
    let source = json!({"repoURL": "u", "targetRevision": ""});
    let spec = json!({"source": source, "destination": {"name": "c"}, "project": "p"});
    assert!(live(spec.clone(), json!({"source": {"repoURL": "u"}, "destination": {"name": "c"}})));
    assert!(!live(spec.clone(), json!({"source": {"repoURL": "v"}, "destination": {"name": "c"}})));
    assert!(!live(spec.clone(), json!({"source": {"repoURL": "u"}, "destination": {"name": "d"}})));
    assert!(!live(
        spec,
        json!({"source": {"repoURL": "u"}, "destination": {"name": "c"}, "ignoreDifferences": [{"kind": "X"}]})
    ));
    assert!(!live(json!({}), Value::Null));
    let several = json!({"sources": [source], "source": {"repoURL": "old"}, "destination": {}});
    assert!(live(several, json!({"sources": [{"repoURL": "u"}], "destination": {}})));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever the Applications do, and whenever passes are made, nobody is promoted as long as an earlier step has one
    /// that has not arrived.
    #[test]
    fn aset_210_no_step_is_ever_skipped(moves in proptest::collection::vec((0..6_usize, 0..3_usize, 0..3_usize, 0..3_u8, any::<bool>()), 1..60)) {
        let names = ["a", "b", "c", "d", "e", "f"];
        let envs = ["dev", "dev", "qa", "qa", "prod", "prod"];
        let desired: Vec<(&str, &str)> = names.into_iter().zip(envs).collect();
        let mut trial = Trial::new(json!([env_step("dev"), env_step("qa"), env_step("prod")]), &desired);
        for (second, (who, sync, health, revision, runs)) in moves.into_iter().enumerate() {
            let name = names[who];
            let second = i64::try_from(second).unwrap() * 10;
            let sync = ["Synced", "OutOfSync", "Unknown"][sync];
            let health = ["Healthy", "Progressing", "Degraded"][health];
            trial.observe(name, sync, health, &format!("r{revision}"));
            if runs {
                trial.operation(name, "Running", second);
            }
            let pass = trial.pass(second + 1);
            for promoted in &pass.promoted {
                let at = names.iter().position(|name| name == promoted).unwrap();
                let before = names.iter().zip(envs).filter(|(_, env)| {
                    let order = |env: &str| ["dev", "qa", "prod"].iter().position(|known| *known == env);
                    order(env) < order(envs[at])
                });
                for (earlier, _) in before {
                    let entry = pass.entries.iter().find(|entry| entry.application == *earlier);
                    prop_assert!(entry.is_some_and(|entry| entry.status == "Healthy"), "{promoted} before {earlier}");
                }
            }
            // Without news it comes to rest.
            let rests = (0..10).any(|_| {
                let before = trial.states();
                trial.pass(second + 1);
                before == trial.states()
            });
            prop_assert!(rests);
        }
    }

    /// A controller that is killed between storing the state and asking for the sync asks for it later (F26).
    #[test]
    fn aset_230_a_pending_application_is_always_asked_for(has_operation in any::<bool>(), began in proptest::option::of(0..40_i64)) {
        let mut trial = Trial::new(json!([{}]), &[("a", "dev")]);
        trial.observe("a", "OutOfSync", "Healthy", "r1");
        trial.pass(20);
        let live = &mut trial.live.get_mut("a").unwrap().0;
        live.has_operation = has_operation;
        live.status.operation = began.map(|second| crate::live::LiveOperation {
            phase: "Running".to_owned(), started_at: Some(at(second)), is_ours: false });
        live.status.reconciled_at = Some(at(0));
        let pass = trial.pass(30);
        let runs = began.is_some_and(|second| second > 20);
        prop_assert_eq!(pass.operations.is_empty(), has_operation || runs);
    }
}
