//! Everything besides Applications that decisions depend on, as one immutable snapshot (TRK-140): the installation,
//! and what the controller derives from its settings.
//!
//! The shell swaps a new snapshot in when something changes; a round takes one at its start and keeps it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;
use tiphys_api::cluster::{Cluster, ClusterError};
use tiphys_api::settings::Settings;
use tiphys_cluster::{PluginPolicy, ResourceFilter};
use tiphys_engine::diff::DiffSettings;
use tiphys_engine::health::HealthOverrides;
use tiphys_engine::normalize::IgnoreRules;
use tiphys_engine::scripts::Runner;
use tiphys_engine::updates::UpdateRules;
use tiphys_installation::{Installation, InstallationData};

use crate::store::Declared;

/// One snapshot: an installation and what the controller made of its settings.
pub(crate) struct World {
    installation: Installation,
    /// Health rules of the user.
    pub(crate) health: Arc<HealthOverrides>,
    /// Whether the settings make every comparison run programs.
    pub(crate) scripted: bool,
    /// Which credential plugins of clusters run.
    pub(crate) plugins: PluginPolicy,
    /// Which kinds are managed at all (ENG-7).
    pub(crate) filter: ResourceFilter,
    /// Why nobody knows which kinds are managed: the setting cannot be read, and there is no former one. Then
    /// no cluster is looked at, and nothing is synced, pruned or deleted.
    pub(crate) unfiltered: Option<String>,
    /// Settings of comparisons.
    pub(crate) diff: DiffSettings,
    /// Which changes of live objects are no reason to compare; `None` where every change is one (CTL-95).
    pub(crate) updates: Option<Arc<UpdateRules>>,
    /// Ignore rules that were compiled with these settings.
    compiled: Arc<Compiled>,
}

/// A world is asked what an installation is asked.
impl Deref for World {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.installation
    }
}

impl World {
    /// Builds a snapshot. Parts that cannot be read become warnings; their defaults are in force (CTL-132).
    ///
    /// Exclusions that cannot be read leave the former ones in force: without them objects of others would
    /// come into view.
    pub(crate) fn build(data: &InstallationData, old: Option<&Self>) -> Self {
        let installation = Installation::after(old.map(|old| &old.tracking), data);
        let settings = &installation.settings;
        let mut warnings = Vec::new();
        let health = health(settings, old, &mut warnings);
        let diff = DiffSettings::from_settings(settings.cm()).unwrap_or_else(|error| {
            warnings.push(format!("{error}; the former settings of comparisons stay in force"));
            old.map(|old| old.diff).unwrap_or_default()
        });
        let updates = update_rules(settings, &mut warnings);
        let parsed = ResourceFilter::parse(settings.resource_exclusions(), settings.resource_inclusions());
        let (filter, unfiltered) = match (parsed, old) {
            (Ok(filter), _) => (filter, None),
            (Err(error), Some(old)) if old.unfiltered.is_none() => {
                warnings.push(format!("{error}; the former filter stays in force"));
                (old.filter.clone(), None)
            }
            (Err(error), _) => {
                let text = format!(
                    "{error}; until it can be read, nobody knows which kinds are managed, and nothing is \
                     compared, synced or deleted"
                );
                warnings.push(text.clone());
                (ResourceFilter::default(), Some(text))
            }
        };
        let mut new = Self {
            plugins: PluginPolicy {
                programs: settings.controller().cluster_exec_programs.clone(),
                environment: data.env.clone(),
            },
            scripted: !health.is_empty() || has_jq(settings.cm()),
            health,
            compiled: compiled(settings, old),
            filter,
            unfiltered,
            diff,
            updates,
            installation,
        };
        new.installation.warnings.append(&mut warnings);
        new
    }

    /// The repository and credentials that applications of a project use for a URL (REP-20).
    ///
    /// # Errors
    /// When the Secret that applies cannot be read.
    pub(crate) fn repository(&self, url: &str, project: &str) -> Result<tiphys_source::Repository, String> {
        self.installation.repository(url, project).map(|found| tiphys_source::Repository::from(&found))
    }

    /// The cluster that an application deploys to (REP-111).
    ///
    /// # Errors
    /// When its destination means none, or several.
    pub(crate) fn declared_cluster(&self, app: &Declared) -> Result<&Cluster, ClusterError> {
        self.clusters.of_project(&app.project).resolve(&app.destination)
    }

    /// Who vouches for servers (REP-80, REP-81).
    pub(crate) fn trust(&self) -> tiphys_source::Trust {
        let tls = Arc::clone(&self.installation.tls_certificates);
        tiphys_source::Trust {
            tls,
            known_hosts: Some(Arc::clone(&self.installation.known_hosts)),
            local_addresses: self.settings.renderers().local_addresses,
        }
    }

    /// Compiled ignore rules of an application with those of the system (ENG-64). `scripts` runs their jq
    /// expressions, on a thread that may block.
    ///
    /// # Errors
    /// When a rule does not compile, with the text of the condition.
    pub(crate) fn ignore_rules(
        &self,
        rules: &[tiphys_api::application::IgnoreDifference],
        scripts: &Runner,
    ) -> Result<IgnoreRules, String> {
        let key = serde_json::to_string(rules).map_err(|error| error.to_string())?;
        if let Some(known) = self.compiled.rules.lock().get(&key) {
            return Ok(known.fresh(scripts.clone()));
        }
        // Not under the lock, which everybody needs.
        let compiled = IgnoreRules::compile_with(rules, self.settings.cm(), scripts.clone())
            .map_err(|error| error.to_string())?;
        let fresh = compiled.fresh(scripts.clone());
        let mut known = self.compiled.rules.lock();
        if known.len() >= COMPILED_MAX {
            known.clear();
        }
        known.insert(key, compiled);
        Ok(fresh)
    }
}

/// Where the rules cannot be read, every change is a reason to compare: that costs time only.
fn update_rules(settings: &Settings, warnings: &mut Vec<String>) -> Option<Arc<UpdateRules>> {
    if !settings.ignore_resource_updates_enabled() {
        return None;
    }
    let with_differences = settings.compare_options().ignore_differences_on_resource_updates;
    match UpdateRules::from_settings(settings.cm(), with_differences) {
        Ok(rules) => Some(Arc::new(rules)),
        Err(error) => {
            warnings.push(format!("{error}; every change of a live object causes a comparison"));
            None
        }
    }
}

/// Compiled ignore rules that are remembered; most applications have none of their own and share one entry.
const COMPILED_MAX: usize = 1000;

/// Compiled ignore rules by the application's part of them.
#[derive(Default)]
struct Compiled {
    rules: Mutex<HashMap<String, IgnoreRules>>,
}

/// What was compiled before, while the settings it depends on are as they were.
fn compiled(settings: &Settings, old: Option<&World>) -> Arc<Compiled> {
    let resource = |settings: &Settings| -> Vec<(String, String)> {
        let all = settings.cm().iter().filter(|(key, _)| key.starts_with("resource."));
        all.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    match old {
        Some(old) if resource(&old.settings) == resource(settings) => Arc::clone(&old.compiled),
        _ => Arc::default(),
    }
}

/// The user's health rules. While their settings stay as they are the rules are the same ones, and what was judged
/// by them stays judged; rules that cannot be read leave the former ones in force.
fn health(settings: &Settings, old: Option<&World>, warnings: &mut Vec<String>) -> Arc<HealthOverrides> {
    let same = |old: &&World| old.settings.resource_customizations().eq(settings.resource_customizations());
    let read = HealthOverrides::from_settings(settings.cm());
    match (read, old) {
        (Ok(_), Some(old)) if same(&old) => Arc::clone(&old.health),
        (Ok(read), _) => Arc::new(read),
        (Err(error), old) => {
            warnings.push(format!("{error}; the former health rules stay in force"));
            old.map(|old| Arc::clone(&old.health)).unwrap_or_default()
        }
    }
}

/// Whether settings may hold jq expressions.
fn has_jq(settings: &BTreeMap<String, String>) -> bool {
    settings
        .iter()
        .any(|(key, text)| key.starts_with("resource.customizations") && text.contains("jqPathExpressions"))
}

#[cfg(test)]
mod tests {
    use tiphys_engine::health::{Health, HealthError};
    use tiphys_engine::scripts::{DataScript, HealthScript, Paths, ScriptFault, Scripts};

    use serde_json::{Value, json};
    use tiphys_object::Object;

    use super::*;

    fn object(value: &Value) -> Arc<Object> {
        Arc::new(Object::from_value(value).unwrap())
    }

    fn with_settings(key: &str, text: &str) -> InstallationData {
        let map = object(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"},
            "data": {key: text}}));
        InstallationData {
            config_maps: BTreeMap::from([("argocd-cm".into(), map)]),
            ..InstallationData::default()
        }
    }

    /// ENG-7, INV-1: a filter that cannot be read is unknown, not empty.
    #[test]
    fn eng_7_a_filter_that_was_never_read_is_unknown() {
        let (good, bad) = ("- kinds: [Secret]", "{");
        let key = "resource.exclusions";
        let first = World::build(&with_settings(key, bad), None);
        assert!(first.unfiltered.as_deref().is_some_and(|why| why.contains("resource.exclusions")));
        let still = World::build(&with_settings(key, bad), Some(&first));
        assert!(still.unfiltered.is_some());
        let fixed = World::build(&with_settings(key, good), Some(&still));
        assert_eq!(fixed.unfiltered, None);
        let later = World::build(&with_settings(key, bad), Some(&fixed));
        let secret = tiphys_object::GroupKind::new("", "Secret");
        assert!(later.unfiltered.is_none() && !later.filter.is_included(&secret, ""));
    }

    /// CTL-133: what does not depend on a setting survives its change.
    #[test]
    fn ctl_133_health_rules_stay_the_same_ones_when_other_settings_change() {
        let key = "resource.customizations.health.Pod";
        let first = World::build(&with_settings(key, "return {}"), None);
        let other = World::build(&with_settings("url", "https://cd.example"), Some(&first));
        assert!(!Arc::ptr_eq(&first.health, &other.health));
        let third = World::build(&with_settings("ui.bannercontent", "hello"), Some(&other));
        assert!(Arc::ptr_eq(&third.health, &other.health));
        let broken = World::build(&with_settings("resource.customizations.health.a_b_c", "x"), Some(&first));
        assert!(Arc::ptr_eq(&first.health, &broken.health));
    }

    /// CTL-133: ignore rules are compiled once, until a setting changes that they depend on.
    #[test]
    fn ctl_133_ignore_rules_stay_compiled_when_other_settings_change() {
        let rules: Vec<tiphys_api::application::IgnoreDifference> =
            serde_json::from_value(json!([{"kind": "Pod", "jqPathExpressions": [".spec.a"]}])).unwrap();
        let first = World::build(&with_settings("url", "https://cd.example"), None);
        let second = World::build(&with_settings("ui.bannercontent", "hello"), Some(&first));
        let runner = Runner::default();
        let compiled = first.ignore_rules(&rules, &runner).unwrap();
        assert!(compiled.is_compiled_with(&first.ignore_rules(&rules, &runner).unwrap()));
        assert!(compiled.is_compiled_with(&second.ignore_rules(&rules, &runner).unwrap()));
        let changed = with_settings("resource.customizations.ignoreDifferences.Pod", "jsonPointers: [/a]");
        let third = World::build(&changed, Some(&second));
        assert!(!compiled.is_compiled_with(&third.ignore_rules(&rules, &runner).unwrap()));
    }

    /// Who stops programs, and whom it charges.
    #[derive(Debug)]
    struct Stopping;

    impl Scripts for Stopping {
        fn check_jq(&self, _: &str) -> Result<(), String> {
            Ok(())
        }

        fn jq_paths(&self, expressions: &[&str], _: &Value) -> Vec<Result<Paths, ScriptFault>> {
            expressions.iter().map(|_| Err(ScriptFault::Stopped("it is slow".to_owned()))).collect()
        }

        fn health(&self, _: HealthScript<'_>, _: &Value) -> Result<Option<Health>, HealthError> {
            Ok(None)
        }

        fn data(&self, _: DataScript<'_>, _: &Value) -> Result<Value, ScriptFault> {
            Ok(Value::Null)
        }
    }

    /// Rules that two applications share are run for each of them by its own runner: what one wastes is not charged
    /// to the other (SEC-10, ENG-214).
    #[test]
    fn sec_10_shared_rules_are_run_for_the_application_that_is_compared() {
        let rules: Vec<tiphys_api::application::IgnoreDifference> =
            serde_json::from_value(json!([{"kind": "Pod", "jqPathExpressions": [".spec.a"]}])).unwrap();
        let world = World::build(&InstallationData::default(), None);
        let stopped = |runner: &Runner| {
            let rules = world.ignore_rules(&rules, runner).unwrap();
            rules.apply(&mut json!({"apiVersion": "v1", "kind": "Pod", "spec": {"a": 1}}));
            rules.stopped().len()
        };
        assert_eq!(stopped(&Runner::default()), 0);
        assert_eq!(stopped(&Runner::new(Stopping)), 1);
        assert_eq!(stopped(&Runner::default()), 0);
    }
}
