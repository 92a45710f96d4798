//! Compiled ignore rules (ENG-64, 65, 68, 69).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use smol_str::SmolStr;
use tiphys_api::application::IgnoreDifference;
use tiphys_object::{Gvk, access};

use super::jq::{JqSyntaxError, delete_paths};
use super::managed::{self, Treatment};
use super::overrides::{self, Ignored};
use super::pointer::Pointer;
use super::select::{KindPattern, Selection};
use super::{CompareOptions, StatusField, restore};
use crate::scripts::{Paths, Runner, ScriptFault};

/// Why ignore rules do not compile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IgnoreError {
    /// A jq expression does not compile (ENG-69).
    #[error(transparent)]
    Jq(#[from] JqSyntaxError),
    /// An application has more rules than are applied to each of its objects.
    #[error("ignoreDifferences has more than {limit} {what}")]
    TooMany {
        /// The bound.
        limit: usize,
        /// Of what.
        what: &'static str,
    },
    /// A settings key cannot be read.
    #[error("settings key {key:?}: {reason}")]
    Settings {
        /// The key.
        key: String,
        /// What is wrong.
        reason: String,
    },
}

/// Rules of one application: each is held against each object.
const RULES_MAX: usize = 1_000;
/// JSON pointers, expressions and field managers of one application: each is looked up in each object.
const ITEMS_MAX: usize = 2_000;

/// All rules in force for one application, in the order they run: its own, then the system's.
#[derive(Debug, Default)]
pub struct IgnoreRules {
    rules: Arc<[Rule]>,
    fingerprint: u64,
    scripts: Runner,
    selection: Mutex<Selection>,
    stopped: Mutex<Stopped>,
}

/// What was not applied because it was stopped, and why; and how often.
#[derive(Debug, Default)]
struct Stopped {
    notes: BTreeSet<String>,
    count: u64,
}

#[derive(Debug)]
pub(super) struct Rule {
    selected: KindPattern,
    name: String,
    namespace: String,
    pub(super) pointers: Vec<Pointer>,
    pub(super) jq: Vec<String>,
    managers: Vec<String>,
}

impl IgnoreRules {
    /// Compiles the application's rules and those of the settings, `/status` included (ENG-64..69).
    pub fn compile(
        application: &[IgnoreDifference],
        settings: &BTreeMap<String, String>,
    ) -> Result<Self, IgnoreError> {
        Self::compile_with(application, settings, Runner::default())
    }

    /// The same, with jq expressions run by somebody else.
    pub fn compile_with(
        application: &[IgnoreDifference],
        settings: &BTreeMap<String, String>,
        scripts: Runner,
    ) -> Result<Self, IgnoreError> {
        check_size(application)?;
        let mut rules = Vec::new();
        for rule in application {
            let ignored = Ignored {
                json_pointers: rule.json_pointers.clone(),
                jq_path_expressions: rule.jq_path_expressions.clone(),
                managed_fields_managers: rule.managed_fields_managers.clone(),
            };
            let place = (rule.name.as_str(), rule.namespace.as_str());
            rules.push(Rule::compile((&rule.group, &rule.kind), place, &ignored, &scripts)?);
        }
        let system = system_differences(settings)?;
        for ((group, kind), ignored) in &system {
            rules.push(Rule::compile((group, kind), ("", ""), ignored, &scripts)?);
        }
        let fingerprint = fingerprint(application, &system);
        Ok(Self { fingerprint, rules: rules.into(), scripts, ..Self::default() })
    }

    /// The same rules for another use, with expressions run by `scripts`; it remembers for itself what was stopped.
    #[must_use]
    pub fn fresh(&self, scripts: Runner) -> Self {
        Self { rules: Arc::clone(&self.rules), fingerprint: self.fingerprint, scripts, ..Self::default() }
    }

    /// Whether both come from one compilation.
    pub fn is_compiled_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rules, &other.rules)
    }

    /// Compiles what of a live object's change is no reason to compare: the bookkeeping of the API server, what
    /// `ignoreResourceUpdates` names and, where asked for, what is no difference for the whole system (CTL-95).
    pub(crate) fn of_updates(
        settings: &BTreeMap<String, String>,
        with_differences: bool,
    ) -> Result<Self, IgnoreError> {
        let mut system = overrides::read(settings, overrides::UPDATES)?;
        if with_differences {
            for (selector, differences) in system_differences(settings)? {
                let ignored = system.entry(selector).or_default();
                ignored.json_pointers.extend(differences.json_pointers);
                ignored.jq_path_expressions.extend(differences.jq_path_expressions);
            }
        }
        let everywhere = system.entry(("*".to_owned(), "*".to_owned())).or_default();
        let bookkeeping = ["resourceVersion", "generation", "managedFields"];
        everywhere.json_pointers.extend(bookkeeping.map(|field| format!("/metadata/{field}")));
        // These are the operator's own rules; their steps are counted.
        let scripts = Runner::default();
        let mut rules = Vec::new();
        for ((group, kind), ignored) in &system {
            rules.push(Rule::compile((group, kind), ("", ""), ignored, &scripts)?);
        }
        let fingerprint = fingerprint(&[], &system);
        let selection = Mutex::new(Selection::unlimited());
        Ok(Self { fingerprint, rules: rules.into(), scripts, selection, ..Self::default() })
    }

    /// Removes from an object what the rules that select it name (ENG-65, 68, 69).
    pub fn apply(&self, object: &mut Value) {
        if self.rules.is_empty() {
            return;
        }
        let gvk = Gvk::of(object);
        for rule in self.of_kind(&gvk) {
            if !rule.is_for(access::namespace(object), access::name(object)) {
                continue;
            }
            for pointer in &rule.pointers {
                pointer.remove(object);
            }
            self.delete_jq(&rule.jq, object);
        }
    }

    /// The rules for a kind. Where the patterns take too long, those that were not tried are remembered like an
    /// expression that was stopped.
    fn of_kind(&self, gvk: &Gvk) -> impl Iterator<Item = &Rule> + use<'_> {
        let mut selection = self.selection.lock().unwrap_or_else(PoisonError::into_inner);
        let (positions, exceeded) = selection.of(gvk, self.rules.iter().map(|rule| &rule.selected));
        drop(selection);
        if let Some(exceeded) = exceeded {
            let mut stopped = self.lock_stopped();
            stopped.notes.insert(format!(
                "ignoreDifferences: not all rules were applied, because matching their groups and kinds takes {exceeded}"
            ));
            stopped.count += 1;
        }
        let mut next = 0;
        std::iter::from_fn(move || {
            let rule = positions.get(next).and_then(|position| self.rules.get(*position));
            next += 1;
            rule
        })
    }

    /// Removes what expressions name; one that fails removes nothing.
    fn delete_jq(&self, expressions: &[String], object: &mut Value) {
        if expressions.is_empty() {
            return;
        }
        let expressions: Vec<&str> = expressions.iter().map(String::as_str).collect();
        let found = self.scripts.jq_paths(&expressions, object);
        for (expression, found) in expressions.into_iter().zip(found) {
            if let Some(paths) = self.noted(expression, found) {
                delete_paths(object, &paths);
            }
        }
    }

    /// The paths, or nothing when there are none because the expression failed; one that was stopped is remembered.
    fn noted(&self, expression: &str, found: Result<Paths, ScriptFault>) -> Option<Paths> {
        match found {
            Ok(paths) => return Some(paths),
            Err(ScriptFault::Failed(error)) => {
                tracing::debug!(expression, error, "a jq path expression failed");
            }
            Err(ScriptFault::Stopped(reason)) => {
                let note = format!(
                    "ignoreDifferences: the jq path expression {expression:?} was not applied, because {reason}"
                );
                let mut stopped = self.lock_stopped();
                stopped.notes.insert(note);
                stopped.count += 1;
            }
        }
        None
    }

    fn lock_stopped(&self) -> MutexGuard<'_, Stopped> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which expressions were stopped since these rules were compiled, and why: what is known with these rules is
    /// known without those expressions (ENG-69, ENG-214).
    pub fn stopped(&self) -> BTreeSet<String> {
        self.lock_stopped().notes.clone()
    }

    /// How often an expression was stopped.
    pub(crate) fn stopped_count(&self) -> u64 {
        self.lock_stopped().count
    }

    /// Gives a desired object the live values of ignored paths; `status` is left alone (ENG-181).
    pub fn restore_ignored(&self, target: &mut Value, live: &Value) {
        let gvk = Gvk::of(target);
        for rule in self.of_kind(&gvk) {
            if rule.is_for(access::namespace(target), access::name(target)) {
                let paths = |expression: &str, document: &Value| {
                    let found = self.scripts.jq_paths(&[expression], document).pop()?;
                    self.noted(expression, found)
                };
                restore::restore(rule, target, live, paths);
            }
        }
        if self.rules.iter().any(|rule| !rule.managers.is_empty()) {
            let mut live = live.clone();
            if let Some(object) = live.as_object_mut() {
                object.remove("status");
            }
            self.treat_managed(Treatment::Restore, target, &mut live);
        }
    }

    /// Takes out of both sides what listed field managers changed (ENG-70).
    pub fn remove_managed(&self, target: &mut Value, live: &mut Value) {
        self.treat_managed(Treatment::Remove, target, live);
    }

    fn treat_managed(&self, treatment: Treatment, target: &mut Value, live: &mut Value) {
        let gvk = Gvk::of(target);
        let (namespace, name) = (access::namespace(target), access::name(target));
        let managers: Vec<&str> = self
            .of_kind(&gvk)
            .filter(|rule| !rule.managers.is_empty() && rule.is_for(namespace, name))
            .flat_map(|rule| rule.managers.iter().map(String::as_str))
            .collect();
        if !managers.is_empty() {
            managed::treat(&managers, treatment, target, live);
        }
    }

    /// The field managers whose fields are ignored in an object, sorted: its live copy has to be seen with their
    /// entries of `managedFields` (ENG-70).
    pub fn managers_of(&self, gvk: &Gvk, namespace: &str, name: &str) -> Vec<SmolStr> {
        let mut managers: Vec<SmolStr> = self
            .of_kind(gvk)
            .filter(|rule| !rule.managers.is_empty() && rule.is_for(namespace, name))
            .flat_map(|rule| rule.managers.iter().map(SmolStr::new))
            .collect();
        managers.sort();
        managers.dedup();
        managers
    }

    /// Tells rule sets apart inside one process: equal rules, equal number.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

fn check_size(rules: &[IgnoreDifference]) -> Result<(), IgnoreError> {
    if rules.len() > RULES_MAX {
        return Err(IgnoreError::TooMany { limit: RULES_MAX, what: "rules" });
    }
    let lists = |rule: &IgnoreDifference| {
        [&rule.json_pointers, &rule.jq_path_expressions, &rule.managed_fields_managers].map(Vec::len)
    };
    if rules.iter().flat_map(lists).sum::<usize>() > ITEMS_MAX {
        return Err(IgnoreError::TooMany { limit: ITEMS_MAX, what: "pointers, expressions and managers" });
    }
    Ok(())
}

/// What is no difference for the whole system, `/status` included (ENG-66, ENG-67).
fn system_differences(
    settings: &BTreeMap<String, String>,
) -> Result<BTreeMap<overrides::Selector, Ignored>, IgnoreError> {
    let mut system = overrides::read(settings, overrides::DIFFERENCES)?;
    let status_of = match CompareOptions::from_settings(settings)?.status_field {
        StatusField::All => Some(("*", "*")),
        StatusField::CustomResourceDefinitions => Some(("apiextensions.k8s.io", "CustomResourceDefinition")),
        StatusField::None => None,
    };
    if let Some((group, kind)) = status_of {
        let entry = system.entry((group.to_owned(), kind.to_owned())).or_default();
        entry.json_pointers.push("/status".to_owned());
    }
    Ok(system)
}

fn fingerprint(application: &[IgnoreDifference], system: &BTreeMap<overrides::Selector, Ignored>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for rule in application {
        (&rule.group, &rule.kind, &rule.name, &rule.namespace).hash(&mut hasher);
        (&rule.json_pointers, &rule.jq_path_expressions, &rule.managed_fields_managers).hash(&mut hasher);
    }
    for (selector, ignored) in system {
        selector.hash(&mut hasher);
        (&ignored.json_pointers, &ignored.jq_path_expressions, &ignored.managed_fields_managers)
            .hash(&mut hasher);
    }
    hasher.finish()
}

impl Rule {
    fn compile(
        (group, kind): (&str, &str),
        (name, namespace): (&str, &str),
        ignored: &Ignored,
        scripts: &Runner,
    ) -> Result<Self, IgnoreError> {
        for expression in &ignored.jq_path_expressions {
            let fault = |reason| JqSyntaxError { expression: expression.clone(), reason };
            scripts.check_jq(expression).map_err(fault)?;
        }
        Ok(Self {
            selected: KindPattern::new(group, kind),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            pointers: ignored.json_pointers.iter().filter_map(|text| Pointer::parse(text)).collect(),
            jq: ignored.jq_path_expressions.clone(),
            managers: ignored.managed_fields_managers.clone(),
        })
    }

    /// Whether the rule is for an object of its kind.
    fn is_for(&self, namespace: &str, name: &str) -> bool {
        (self.name.is_empty() || self.name == name)
            && (self.namespace.is_empty() || self.namespace == namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(value: Value) -> IgnoreDifference {
        serde_json::from_value(value).unwrap()
    }

    fn rules(application: &[Value], settings: &[(&str, &str)]) -> IgnoreRules {
        let application: Vec<_> = application.iter().cloned().map(rule).collect();
        let settings = settings.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        IgnoreRules::compile(&application, &settings).unwrap()
    }

    fn applied(rules: &IgnoreRules, mut object: Value) -> Value {
        rules.apply(&mut object);
        object
    }

    fn deployment() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": 3, "paused": true}, "status": {"replicas": 3}})
    }

    #[test]
    fn eng_64_selectors_compare_group_kind_name_and_namespace() {
        let removes = |selector: Value| {
            let mut selector = selector;
            selector["jsonPointers"] = json!(["/spec/replicas"]);
            applied(&rules(&[selector], &[]), deployment())["spec"].get("replicas").is_none()
        };
        assert!(removes(json!({"group": "apps", "kind": "Deployment"})));
        assert!(removes(json!({"group": "*", "kind": "*"})));
        assert!(removes(json!({"group": "apps", "kind": "Deployment", "name": "web", "namespace": "shop"})));
        assert!(!removes(json!({"kind": "Deployment"})), "an empty group is the core group");
        assert!(!removes(json!({"group": "apps", "kind": "StatefulSet"})));
        assert!(!removes(json!({"group": "apps", "kind": "Deployment", "name": "other"})));
        assert!(!removes(json!({"group": "apps", "kind": "Deployment", "namespace": "other"})));
    }

    #[test]
    fn eng_64_groups_and_kinds_are_globs() {
        let removes = |group: &str, kind: &str| {
            let rule = json!({"group": group, "kind": kind, "jsonPointers": ["/spec/replicas"]});
            applied(&rules(&[rule], &[]), deployment())["spec"].get("replicas").is_none()
        };
        assert!(removes("a*", "{Deployment,StatefulSet}"));
        assert!(removes("*", "Deploy????"));
        assert!(!removes("*.acme.test", "*"));
        assert!(!removes("*", "["), "an invalid pattern matches nothing");
    }

    #[test]
    fn eng_66_settings_are_yaml() {
        let text = "jsonPointers:\n- /spec/paused\njqPathExpressions:\n- .spec.replicas # comment\n";
        let system = rules(&[], &[("resource.customizations.ignoreDifferences.apps_Deployment", text)]);
        assert_eq!(applied(&system, deployment())["spec"], json!({}));
        let map = "apps/Deployment:\n  ignoreDifferences: |\n    jsonPointers:\n    - /spec/paused\n";
        let system = rules(
            &[],
            &[
                ("resource.customizations", map),
                ("resource.compareoptions", "ignoreResourceStatusField: off\n"),
            ],
        );
        let left = applied(&system, deployment());
        assert_eq!(left["spec"], json!({"replicas": 3}));
        assert!(left.get("status").is_some());
    }

    #[test]
    fn eng_65_a_document_without_namespace_is_not_selected_by_namespace() {
        let rules = rules(
            &[json!({"group": "apps", "kind": "Deployment", "namespace": "shop", "jsonPointers": ["/spec"]})],
            &[],
        );
        let mut document = deployment();
        document["metadata"] = json!({"name": "web"});
        assert!(applied(&rules, document).get("spec").is_some());
    }

    #[test]
    fn eng_67_status_goes_by_default() {
        assert!(applied(&rules(&[], &[]), deployment()).get("status").is_none());
        let none = rules(&[], &[("resource.compareoptions", r#"{"ignoreResourceStatusField": "none"}"#)]);
        assert!(applied(&none, deployment()).get("status").is_some());
        let crd = rules(&[], &[("resource.compareoptions", r#"{"ignoreResourceStatusField": "crd"}"#)]);
        assert!(applied(&crd, deployment()).get("status").is_some());
        let crd_object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "status": {}});
        assert!(applied(&crd, crd_object).get("status").is_none());
    }

    #[test]
    fn eng_66_system_overrides_apply_to_their_kind() {
        let system = rules(
            &[],
            &[(
                "resource.customizations.ignoreDifferences.apps_Deployment",
                r#"{"jqPathExpressions": [".spec.paused"]}"#,
            )],
        );
        assert_eq!(applied(&system, deployment())["spec"], json!({"replicas": 3}));
        let all = rules(
            &[],
            &[("resource.customizations.ignoreDifferences.all", r#"{"jsonPointers": ["/spec"]}"#)],
        );
        let left = applied(&all, deployment());
        assert!(left.get("spec").is_none() && left.get("status").is_none());
    }

    #[test]
    fn eng_69_an_expression_that_does_not_compile_is_named() {
        let bad = rule(json!({"group": "apps", "kind": "Deployment", "jqPathExpressions": [".spec["]}));
        let error = IgnoreRules::compile(&[bad], &BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains(r#"".spec[""#), "{error}");
    }

    /// SEC-07: each rule is held against each object, so they have a number, and an error that names the field.
    #[test]
    fn sec_07_an_application_has_so_many_rules() {
        let error = |rules: Vec<IgnoreDifference>| {
            IgnoreRules::compile(&rules, &BTreeMap::new()).unwrap_err().to_string()
        };
        let one = rule(json!({"kind": "A", "jsonPointers": ["/a"]}));
        assert_eq!(error(vec![one.clone(); 1_001]), "ignoreDifferences has more than 1000 rules");
        assert!(IgnoreRules::compile(&vec![one; 1_000], &BTreeMap::new()).is_ok());
        let many = rule(
            json!({"kind": "A", "jsonPointers": vec!["/a"; 1_001], "managedFieldsManagers": vec!["m"; 1_000]}),
        );
        let text = "ignoreDifferences has more than 2000 pointers, expressions and managers";
        assert_eq!(error(vec![many]), text);
    }

    /// SEC-07: rules times kinds times the length of both. What was not applied is known, so that nothing is synced
    /// that the rule protects.
    #[test]
    fn sec_07_patterns_of_kinds_share_a_budget_and_their_kinds_are_remembered() {
        // Braces make it a program; stars and literals alone are found without one.
        let pattern = format!("{{{}b}}", "*a".repeat(500));
        let slow: Vec<Value> =
            (0..50).map(|_| json!({"group": "*", "kind": pattern, "jsonPointers": ["/a"]})).collect();
        let object = |kind: &str| json!({"kind": kind, "a": 1, "status": {}});
        let one = rules(&slow, &[]);
        let kind = "a".repeat(60);
        for _ in 0..10_000 {
            assert_eq!(applied(&one, object(&kind))["a"], 1);
        }
        assert!(one.stopped().is_empty(), "one kind is held against the patterns once");
        let many = rules(&slow, &[]);
        for number in 0..200 {
            let left = applied(&many, object(&format!("{}{number}", "a".repeat(60))));
            assert!(left.get("status").is_none(), "rules without a pattern go on");
        }
        let note = "ignoreDifferences: not all rules were applied, because matching their groups and kinds takes \
                    more than 20000000 steps";
        assert_eq!(many.stopped(), BTreeSet::from([note.to_owned()]));
        assert!(many.stopped_count() > 0);
        let kind = "a".repeat(4 << 20);
        assert_eq!(applied(&rules(&slow[..1], &[]), object(&kind))["a"], 1);
    }

    #[test]
    fn eng_64_rules_tell_themselves_apart() {
        let one = rules(&[json!({"kind": "A", "jsonPointers": ["/a"]})], &[]);
        let two = rules(&[json!({"kind": "A", "jsonPointers": ["/b"]})], &[]);
        assert_ne!(one.fingerprint(), two.fingerprint());
        assert_eq!(
            one.fingerprint(),
            rules(&[json!({"kind": "A", "jsonPointers": ["/a"]})], &[]).fingerprint()
        );
    }
}
