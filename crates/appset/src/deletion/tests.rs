#![expect(clippy::needless_pass_by_value, reason = "JSON is written where it is used")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A set that is being deleted, on a clock of seconds.
struct Trial {
    strategy: ApplicationSetStrategy,
    policy: Policy,
    finalizers: Vec<String>,
    annotations: BTreeMap<String, String>,
    conditions: Vec<ApplicationSetCondition>,
    settings: ApplicationSets,
    live: Vec<Doomed>,
}

fn step(value: &str) -> Value {
    json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": [value]}]})
}

fn limited(value: &str, max: Value) -> Value {
    let mut step = step(value);
    step["maxUpdate"] = max;
    step
}

fn rolling(order: &str, steps: Value) -> Value {
    json!({"type": "RollingSync", "rollingSync": {"steps": steps}, "deletionOrder": order})
}

fn custom(steps: Value) -> Value {
    json!({"deletionOrder": "Custom", "deletionSync": {"steps": steps}})
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

impl Trial {
    fn new(strategy: Value, live: &[(&str, &str)]) -> Self {
        let doomed = |(name, tier): &(&str, &str)| Doomed {
            name: (*name).to_owned(),
            labels: BTreeMap::from([("tier".to_owned(), (*tier).to_owned())]),
            ..Doomed::default()
        };
        Self {
            strategy: serde_json::from_value(strategy).unwrap(),
            policy: Policy::Sync,
            finalizers: vec![finalizer::CASCADE.to_owned()],
            annotations: BTreeMap::new(),
            conditions: Vec::new(),
            settings: ApplicationSets::default(),
            live: live.iter().map(doomed).collect(),
        }
    }

    /// One pass; deletions are accepted unless the Application is in `errors`.
    fn pass(&mut self, now: i64, errors: &[(&str, &str)]) -> (Vec<String>, End) {
        let mut progress = Progress::default();
        let mut deleted = Vec::new();
        let end = loop {
            let facts = DeletionFacts {
                strategy: Some(&self.strategy),
                policy: self.policy,
                finalizers: &self.finalizers,
                annotations: &self.annotations,
                conditions: &self.conditions,
                live: &self.live,
                settings: &self.settings,
                now: at(now),
            };
            match next(&facts, &progress) {
                Next::End(end) => break end,
                Next::Delete(name) => {
                    deleted.push(name.clone());
                    match errors.iter().find(|(of, _)| *of == name) {
                        None => drop(progress.deleted.insert(name)),
                        Some((_, "NotFound")) => drop(progress.gone.insert(name)),
                        Some((_, code)) => progress.failed = Some((name, (*code).to_owned())),
                    }
                }
            }
        };
        for application in &mut self.live {
            if progress.deleted.contains(&application.name) {
                application.terminating_since = Some(at(now));
            }
        }
        self.live.retain(|application| !progress.gone.contains(&application.name));
        let evaluated: Vec<Evaluated> = end.condition.iter().cloned().collect();
        self.conditions = crate::status::next_conditions(&self.conditions, &evaluated, &[], at(now));
        (deleted, end)
    }

    fn gone(&mut self, name: &str) {
        self.live.retain(|application| application.name != name);
    }

    fn deleted(&mut self, now: i64) -> Vec<String> {
        self.pass(now, &[]).0
    }

    fn outcome(&mut self, now: i64) -> Outcome {
        self.pass(now, &[]).1.outcome
    }
}

const THREE: &[(&str, &str)] = &[("config", "config"), ("frontend", "frontend"), ("db", "db")];

#[test]
fn aset_242_without_an_order_the_set_is_released_at_once() {
    for strategy in
        [json!({}), json!({"deletionOrder": "allatonce"}), rolling("AllAtOnce", json!([step("db")]))]
    {
        let mut trial = Trial::new(strategy, THREE);
        let (deleted, end) = trial.pass(0, &[]);
        assert_eq!((deleted.len(), end.outcome, end.orphans), (0, Outcome::Release, false));
    }
}

#[test]
fn aset_244_reverse_goes_from_the_last_step_to_the_first_one_by_one() {
    let steps = json!([step("db"), step("frontend"), step("config")]);
    let mut trial = Trial::new(
        rolling("rEVERSE", steps),
        &[("c2", "config"), ("c1", "config"), ("f", "frontend"), ("d", "db")],
    );
    assert_eq!(trial.deleted(0), ["c1"]);
    assert_eq!(trial.deleted(10), [] as [&str; 0], "c1 is still there");
    trial.gone("c1");
    assert_eq!(trial.deleted(20), ["c2"]);
    trial.gone("c2");
    assert_eq!(trial.deleted(30), ["f"]);
    let (_, end) = trial.pass(40, &[]);
    assert_eq!(end.outcome, Outcome::Requeue);
    assert_eq!(end.condition.unwrap().message, "deleting step 2 of 3: waiting for f");
    trial.gone("f");
    assert_eq!(trial.deleted(50), ["d"]);
    trial.gone("d");
    assert_eq!(trial.outcome(60), Outcome::Release);
}

#[test]
fn aset_244_an_application_of_several_steps_goes_late() {
    let mut trial = Trial::new(rolling("Reverse", json!([step("db"), {}])), &[("a", "db"), ("b", "other")]);
    assert_eq!(trial.deleted(0), ["b"]);
}

#[test]
fn aset_245_custom_goes_in_the_order_of_its_steps() {
    let steps = json!([step("config"), step("frontend"), step("db")]);
    let mut trial = Trial::new(custom(steps), THREE);
    for name in ["config", "frontend", "db"] {
        assert_eq!(trial.deleted(0), [name], "ASET-260");
        assert_eq!(trial.deleted(10), [] as [&str; 0]);
        trial.gone(name);
    }
    assert_eq!(trial.outcome(20), Outcome::Release);
}

#[test]
fn aset_245_so_many_at_once() {
    let many: Vec<(String, String)> = (0..10).map(|n| (format!("a{n}"), "x".to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, tier)| (name.as_str(), tier.as_str())).collect();
    let start = |max: Value| Trial::new(custom(json!([limited("x", max)])), &many).deleted(0).len();
    assert_eq!(start(json!(null)), 1);
    assert_eq!(start(json!(3)), 3);
    assert_eq!(start(json!(30)), 10);
    assert_eq!(start(json!("50%")), 5);
    assert_eq!(start(json!("1%")), 1);
    let mut trial = Trial::new(custom(json!([limited("x", json!("50%"))])), &many);
    assert_eq!(trial.deleted(0).len(), 5);
    for n in 0..3 {
        trial.gone(&format!("a{n}"));
    }
    // Of seven that are left three may be on their way, and two are.
    assert_eq!(trial.deleted(10), ["a5"]);
}

#[test]
fn aset_246_those_in_no_step_go_together_and_last() {
    for strategy in [rolling("Reverse", json!([step("db")])), custom(json!([step("db")]))] {
        let mut trial = Trial::new(strategy, &[("x", "none"), ("d", "db"), ("y", "none")]);
        assert_eq!(trial.deleted(0), ["d"]);
        trial.gone("d");
        assert_eq!(trial.deleted(10), ["x", "y"]);
        trial.gone("x");
        assert_eq!(trial.outcome(20), Outcome::Requeue);
        trial.gone("y");
        assert_eq!(trial.outcome(30), Outcome::Release);
    }
}

#[test]
fn aset_247_what_is_gone_already_does_not_hold_the_pass() {
    let steps = json!([step("config"), step("frontend"), step("db")]);
    let mut trial = Trial::new(custom(steps), THREE);
    let (deleted, end) = trial.pass(0, &[("config", "NotFound"), ("frontend", "NotFound")]);
    assert_eq!(deleted, ["config", "frontend", "db"]);
    assert_eq!(end.outcome, Outcome::Requeue);
    let mut trial = Trial::new(custom(json!([step("config")])), &[("config", "config")]);
    assert_eq!(trial.pass(0, &[("config", "NotFound")]).1.outcome, Outcome::Release);
}

#[test]
fn aset_249_a_stuck_application_holds_everything() {
    let mut trial =
        Trial::new(custom(json!([limited("x", json!(2)), step("y")])), &[("a", "x"), ("b", "x"), ("c", "y")]);
    trial.live[0].finalizers = vec!["f".to_owned()];
    assert_eq!(trial.deleted(0), ["a", "b"]);
    trial.gone("b");
    assert_eq!(trial.outcome(120), Outcome::Requeue, "two minutes are not over two minutes");
    let (deleted, end) = trial.pass(121, &[]);
    assert!(deleted.is_empty());
    assert_eq!(end.outcome, Outcome::Error("application has not been deleted in over 2 minutes".to_owned()));
    let condition = end.condition.unwrap();
    assert_eq!(condition.reason, SetReason::ApplicationDeletionStuck);
    assert_eq!(
        condition.message,
        "application has not been deleted in over 2 minutes: a (for 121 s, finalizers [f])"
    );
    assert_eq!(end.events, [Event::warning("ApplicationDeletionStuck", condition.message)]);
    let (_, end) = trial.pass(500, &[]);
    assert!(matches!(end.outcome, Outcome::Error(_)));
    assert!(end.events.is_empty(), "ASET-250: only when it is entered");
    trial.gone("a");
    assert_eq!(trial.deleted(600), ["c"]);
}

#[test]
fn aset_249_a_failing_call_stops_the_pass() {
    let mut trial =
        Trial::new(custom(json!([limited("x", json!(3))])), &[("a", "x"), ("b", "x"), ("c", "x")]);
    let (deleted, end) = trial.pass(0, &[("b", "Forbidden")]);
    assert_eq!(deleted, ["a", "b"]);
    assert!(matches!(end.outcome, Outcome::Error(_)));
    let condition = end.condition.unwrap();
    assert_eq!(
        (condition.reason, condition.message.as_str()),
        (SetReason::ApplicationDeletionError, "deleting Application b: Forbidden")
    );
    assert_eq!(end.events.len(), 1);
}

#[test]
fn aset_241_a_policy_without_deletion_frees_the_applications() {
    let mut trial = Trial::new(custom(json!([step("db")])), THREE);
    trial.policy = Policy::CreateUpdate;
    let (deleted, end) = trial.pass(0, &[]);
    assert_eq!((deleted.len(), end.outcome, end.orphans), (0, Outcome::Release, true));
}

#[test]
fn aset_251_there_are_ways_out() {
    let stuck = || {
        let mut trial = Trial::new(custom(json!([step("config"), step("db")])), THREE);
        trial.deleted(0);
        trial
    };
    let mut trial = stuck();
    trial.annotations.insert(SKIP_ANNOTATION.to_owned(), "other, config".to_owned());
    assert_eq!(trial.deleted(200), ["db"]);
    let mut trial = stuck();
    trial.strategy = ApplicationSetStrategy::default();
    assert_eq!(trial.outcome(200), Outcome::Release);
    let mut trial = stuck();
    trial.settings.deletion_step_timeout = StepTimeout::ProceedAfter(std::time::Duration::from_mins(5));
    assert!(matches!(trial.outcome(300), Outcome::Error(_)));
    let (deleted, end) = trial.pass(301, &[]);
    assert_eq!(deleted, ["db"]);
    assert_eq!(end.events[0].reason, "DeletionStepTimeout");
}

#[test]
fn aset_252_finalizers_of_kubernetes() {
    let mut trial = Trial::new(custom(json!([step("db")])), THREE);
    trial.finalizers.push("orphan".to_owned());
    let (deleted, end) = trial.pass(0, &[]);
    assert_eq!((deleted.len(), end.outcome, end.orphans), (0, Outcome::Release, false));
    let mut trial = Trial::new(custom(json!([step("db")])), THREE);
    trial.finalizers.push("foregroundDeletion".to_owned());
    let (deleted, end) = trial.pass(0, &[]);
    assert_eq!(
        (deleted.len(), end.outcome, end.events[0].reason.as_str()),
        (0, Outcome::Requeue, "OrderedDeletionBypassed")
    );
    for (name, _) in THREE {
        trial.gone(name);
    }
    assert_eq!(trial.outcome(10), Outcome::Release);
    let mut trial = Trial::new(json!({}), THREE);
    trial.finalizers.push("foregroundDeletion".to_owned());
    assert_eq!(trial.outcome(0), Outcome::Release);
}

fn invalid(strategy: Value) -> Option<String> {
    let strategy: ApplicationSetStrategy = serde_json::from_value(strategy).unwrap();
    Order::of(Some(&strategy)).err().map(|error| error.to_string())
}

#[test]
fn aset_253_orders_that_are_none() {
    let no_rollout =
        "deletionOrder Reverse requires strategy type RollingSync with at least one rollingSync step";
    for strategy in [
        json!({"deletionOrder": "Reverse"}),
        json!({"deletionOrder": "Reverse", "type": "AllAtOnce", "rollingSync": {"steps": [step("a")]}}),
        json!({"deletionOrder": "Reverse", "type": "RollingSync"}),
        rolling("Reverse", json!([])),
    ] {
        assert_eq!(invalid(strategy).as_deref(), Some(no_rollout));
    }
    for strategy in [json!({"deletionOrder": "custom"}), custom(json!([]))] {
        assert!(invalid(strategy).unwrap().contains("Custom requires at least one deletionSync step"));
    }
    assert!(invalid(json!({"deletionOrder": "Sideways"})).unwrap().contains("\"Sideways\""));
    assert!(
        invalid(custom(json!([{"matchExpressions": [{"key": "a", "operator": "Exists"}]}])))
            .unwrap()
            .contains("\"Exists\"")
    );
    for max in
        [json!(0), json!(-1), json!("0%"), json!("00%"), json!("-5%"), json!("2"), json!("x"), json!(1.5)]
    {
        assert!(invalid(custom(json!([limited("a", max.clone())]))).unwrap().contains("maxUpdate"), "{max}");
    }
    for max in [json!(1), json!("1%"), json!("100%"), json!(null)] {
        assert_eq!(invalid(custom(json!([limited("a", max.clone())]))), None, "{max}");
    }
}

#[test]
fn aset_253_an_order_that_is_none_falls_back_or_blocks() {
    let mut trial = Trial::new(json!({"deletionOrder": "Reverse"}), THREE);
    assert_eq!(trial.outcome(0), Outcome::Release);
    trial.settings.deletion_invalid_order = InvalidDeletionOrder::Block;
    let (deleted, end) = trial.pass(0, &[]);
    assert_eq!((deleted.len(), end.outcome), (0, Outcome::Requeue));
    assert_eq!(end.condition.unwrap().reason, SetReason::ApplicationSetInvalidDeletionConfig);
    trial.strategy = serde_json::from_value(custom(json!([step("config")]))).unwrap();
    assert_eq!(trial.deleted(10), ["config"]);
}

#[test]
fn aset_243_who_gets_the_finalizer() {
    let needs = |strategy: Value, settings: &ApplicationSets| {
        let spec = json!({"strategy": strategy, "template": {}, "generators": []});
        let set: ApplicationSet =
            serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap();
        needs_finalizer(&set, settings)
    };
    let on = ApplicationSets { progressive_syncs: true, ..ApplicationSets::default() };
    assert!(needs(rolling("Reverse", json!([step("a")])), &on));
    assert!(needs(custom(json!([step("a")])), &on));
    assert!(!needs(json!({}), &on));
    assert!(!needs(rolling("Reverse", json!([])), &on));
    assert!(!needs(custom(json!([step("a")])), &ApplicationSets::default()));
    let block = ApplicationSets { deletion_invalid_order: InvalidDeletionOrder::Block, ..on };
    assert!(needs(rolling("Reverse", json!([])), &block));
}

#[test]
fn aset_254_what_is_odd_about_deletion_steps() {
    let warnings = |strategy: Value| {
        let strategy: ApplicationSetStrategy = serde_json::from_value(strategy).unwrap();
        let labels = BTreeMap::from([("tier".to_owned(), "db".to_owned())]);
        let found = order_warnings(Some(&strategy), [("a", &labels)]);
        found.into_iter().map(|event| (event.reason, event.message)).collect::<Vec<_>>()
    };
    assert_eq!(warnings(custom(json!([step("db")]))), []);
    assert_eq!(warnings(json!({})), []);
    let ignored = warnings(json!({"deletionSync": {"steps": [step("db")]}}));
    assert_eq!(ignored[0].0, "DeletionSyncIgnored");
    let odd = warnings(custom(json!([step("db"), {}, step("none")])));
    assert_eq!(odd.len(), 1);
    assert_eq!(odd[0].0, "DeletionStepsWarning");
    assert!(
        odd[0].1.contains("'a' is selected by multiple deletionSync steps: (1-2)")
            && odd[0].1.contains("[2 3]"),
        "{odd:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever is live, on its way, failing or killed in between: nothing of a step is deleted before everything of the
    /// steps before it is gone, and nothing is deleted twice (INV-12).
    #[test]
    fn inv_12_the_order_is_kept_for_any_facts(
        tiers in proptest::collection::vec(0..4_usize, 1..12),
        reverse in any::<bool>(),
        max in 1..4_usize,
        moves in proptest::collection::vec((any::<u8>(), any::<u8>(), 0..30_i64), 1..80),
    ) {
        let words = ["one", "two", "three", "none"];
        let steps = |limit: bool| {
            let steps = words[..3].iter().map(|word| if limit { limited(word, json!(max)) } else { step(word) });
            Value::Array(steps.collect())
        };
        let strategy = if reverse { rolling("Reverse", steps(false)) } else { custom(steps(true)) };
        let names: Vec<(String, &str)> = tiers.iter().enumerate().map(|(n, tier)| (format!("a{n}"), words[*tier])).collect();
        let live: Vec<(&str, &str)> = names.iter().map(|(name, tier)| (name.as_str(), *tier)).collect();
        let mut trial = Trial::new(strategy, &live);
        let turn = |tier: &str| match words.iter().position(|word| *word == tier).unwrap() {
            3 => 3,
            at if reverse => 2 - at,
            at => at,
        };
        let mut now = 0;
        let mut ever = BTreeSet::new();
        let mut released = false;
        for (who, what, wait) in moves {
            now += wait;
            let chosen = names[usize::from(who) % names.len()].0.clone();
            let error = match what % 4 {
                0 => Some((chosen.as_str(), "NotFound")),
                1 => Some((chosen.as_str(), "Conflict")),
                _ => None,
            };
            let before: Vec<Doomed> = trial.live.clone();
            let errors: Vec<(&str, &str)> = error.into_iter().collect();
            let (deleted, end) = trial.pass(now, &errors);
            let mut gone: BTreeSet<String> = BTreeSet::new();
            for name in &deleted {
                let own = turn(before.iter().find(|application| application.name == *name).unwrap().labels["tier"].as_str());
                for other in before.iter().filter(|other| turn(&other.labels["tier"]) < own) {
                    prop_assert!(gone.contains(&other.name), "{name} before {}", other.name);
                }
                if errors.iter().any(|(of, code)| of == name && *code == "NotFound") {
                    gone.insert(name.clone());
                } else if errors.iter().all(|(of, _)| of != name) {
                    prop_assert!(ever.insert(name.clone()), "{name} twice");
                }
            }
            if end.outcome == Outcome::Release {
                prop_assert!(trial.live.is_empty());
                released = true;
                break;
            }
            // Something that is on its way arrives now and then.
            if what % 3 == 0 {
                trial.live.retain(|application| !(application.terminating_since.is_some() && application.name == chosen));
            }
        }
        // Once everything that is on its way arrives, the set is released in as many passes as there are Applications.
        for _ in 0..=2 * names.len() {
            if released {
                break;
            }
            now += 1;
            trial.live.retain(|application| application.terminating_since.is_none());
            released = trial.outcome(now) == Outcome::Release;
        }
        prop_assert!(released);
    }
}
