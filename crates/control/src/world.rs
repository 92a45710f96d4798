//! Everything besides Applications that decisions depend on, as one immutable snapshot (TRK-140).
//!
//! Built by a pure function from the `ConfigMaps`, Secrets and `AppProjects` of the control plane's namespace.
//! The shell swaps a new snapshot in when one of them changes; a pass takes one at its start and keeps it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base64::Engine as _;
use parking_lot::Mutex;
use serde_json::Value;
use tiphys_api::AppProject;
use tiphys_api::application::Metadata;
use tiphys_api::cluster::{Cluster, Clusters};
use tiphys_api::names;
use tiphys_api::repository::{self, CredentialTemplate, Repository};
use tiphys_api::settings::{Settings, SettingsData};
use tiphys_api::support;
use tiphys_cluster::{PluginPolicy, ResourceFilter};
use tiphys_engine::diff::DiffSettings;
use tiphys_engine::health::HealthOverrides;
use tiphys_engine::normalize::IgnoreRules;
use tiphys_engine::scripts::Runner;
use tiphys_engine::tracking::TrackingSettings;
use tiphys_engine::updates::UpdateRules;
use tiphys_object::Object;
use tiphys_policy::project::{EffectiveInputs, effective};

/// The raw objects a snapshot is made from, by name.
#[derive(Clone, Default)]
pub(crate) struct WorldData {
    /// `ConfigMaps` of the control plane's namespace that carry settings.
    pub(crate) config_maps: BTreeMap<String, Arc<Object>>,
    /// Secrets of the control plane's namespace that carry settings, repositories or clusters.
    pub(crate) secrets: BTreeMap<String, Arc<Object>>,
    /// `AppProjects`.
    pub(crate) projects: BTreeMap<String, Arc<Object>>,
    /// `AppProjects` that exist and cannot be read, with the reasons.
    pub(crate) bad_projects: BTreeMap<String, String>,
    /// Environment variables, read once at start.
    pub(crate) env: BTreeMap<String, String>,
    /// The control plane's namespace.
    pub(crate) namespace: String,
}

/// Why there is no project at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoProject {
    /// It does not exist.
    Missing,
    /// It exists and cannot be read; the text says which and why.
    Unreadable(String),
}

/// One snapshot.
pub(crate) struct World {
    /// Settings.
    pub(crate) settings: Settings,
    /// Tracking settings with the system's method.
    pub(crate) tracking: TrackingSettings,
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
    /// Clusters, the local one included.
    pub(crate) clusters: Clusters,
    /// Effective projects by name.
    pub(crate) projects: BTreeMap<String, Arc<AppProject>>,
    /// Projects that exist and cannot be read, with the reasons.
    pub(crate) bad_projects: BTreeMap<String, String>,
    /// Repositories with their credentials.
    pub(crate) repositories: Vec<Repository>,
    /// Credential templates.
    pub(crate) templates: Vec<CredentialTemplate>,
    /// Text of the SSH known hosts.
    pub(crate) known_hosts: String,
    /// What is wrong with the settings, for the log.
    pub(crate) warnings: Vec<String>,
}

impl World {
    /// Builds a snapshot. Parts that cannot be read become warnings; their defaults are in force (CTL-132).
    ///
    /// Exclusions that cannot be read leave the former ones in force: without them objects of others would
    /// come into view.
    pub(crate) fn build(data: &WorldData, old: Option<&Self>) -> Self {
        let config = |name: &str| data.config_maps.get(name).map(|o| config_map_data(o)).unwrap_or_default();
        let settings = Settings::new(SettingsData {
            cm: config(names::SETTINGS_CONFIG_MAP),
            params: config(names::PARAMS_CONFIG_MAP),
            rbac: config(names::RBAC_CONFIG_MAP),
            secret: data.secrets.get(names::SECRET).map(|o| secret_data(o)).unwrap_or_default(),
            env: data.env.clone(),
        });
        let mut warnings = settings.warnings().to_vec();
        warnings.extend(support::reports(&settings));
        let health = health(&settings, old, &mut warnings);
        let diff = DiffSettings::from_settings(settings.cm()).unwrap_or_else(|error| {
            warnings.push(format!("{error}; the former settings of comparisons stay in force"));
            old.map(|old| old.diff).unwrap_or_default()
        });
        let updates = update_rules(&settings, &mut warnings);
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
        let mut repositories = Vec::new();
        let mut templates = Vec::new();
        let mut clusters = Vec::new();
        for secret in data.secrets.values() {
            let Ok(metadata) = metadata(secret) else { continue };
            match secret.label(names::SECRET_TYPE_LABEL) {
                Some("repository") => {
                    let data = secret_data(secret);
                    warnings.extend(about_repository(&metadata, &data));
                    repositories.push(Repository::from_secret(&metadata, &data));
                }
                Some("repo-creds") => {
                    let data = secret_data(secret);
                    warnings.extend(about_repository(&metadata, &data));
                    templates.push(CredentialTemplate::from_secret(&metadata, &data));
                }
                Some("cluster") => {
                    let cluster = Cluster::from_secret(&metadata, &secret_data(secret));
                    let server = &cluster.server;
                    warnings.extend(cluster.warnings.iter().map(|w| format!("cluster {server}: {w}")));
                    if cluster.skip_reconcile {
                        let name = names::annotation::SKIP_RECONCILE;
                        warnings.push(format!(
                            "cluster {server}: no effect of {name}: its applications are worked on all the same"
                        ));
                    }
                    clusters.push(cluster);
                }
                _ => {}
            }
        }
        let clusters = Clusters::new(clusters, settings.in_cluster_enabled());
        let mut bad_projects = data.bad_projects.clone();
        let stored: Vec<AppProject> = data
            .projects
            .values()
            .filter_map(|object| match serde_json::from_slice(object.raw()) {
                Ok(project) => Some(project),
                Err(error) => {
                    bad_projects.insert(object.name().to_owned(), error.to_string());
                    None
                }
            })
            .collect();
        warnings.extend(
            bad_projects.iter().map(|(name, reason)| format!("project {name} cannot be read: {reason}")),
        );
        warnings.extend(stored.iter().filter(|project| project.spec.orphaned_resources.is_some()).map(
            |project| {
                format!(
                    "project {}: no effect of orphanedResources: orphans are not looked for yet",
                    project.name()
                )
            },
        ));
        let projects = stored
            .iter()
            .map(|project| {
                let inputs = EffectiveInputs {
                    projects: &stored,
                    repositories: &repositories,
                    clusters: clusters.all(),
                    settings: &settings,
                };
                (project.name().to_owned(), Arc::new(effective(project, &inputs)))
            })
            .collect();
        Self {
            tracking: TrackingSettings::from_settings(settings.cm(), &data.namespace),
            plugins: PluginPolicy {
                programs: settings.controller().cluster_exec_programs.clone(),
                environment: data.env.clone(),
            },
            scripted: !health.is_empty() || has_jq(settings.cm()),
            health,
            compiled: compiled(&settings, old),
            filter,
            unfiltered,
            diff,
            updates,
            clusters,
            projects,
            bad_projects,
            repositories,
            templates,
            known_hosts: config(names::KNOWN_HOSTS_CONFIG_MAP).remove("ssh_known_hosts").unwrap_or_default(),
            settings,
            warnings,
        }
    }

    /// Looks a project up. One that cannot be read is not one that is missing (INV-15).
    pub(crate) fn project(&self, name: &str) -> Result<&Arc<AppProject>, NoProject> {
        match (self.projects.get(name), self.bad_projects.get(name)) {
            (Some(project), _) => Ok(project),
            (None, Some(reason)) => {
                Err(NoProject::Unreadable(format!("project {name} cannot be read: {reason}")))
            }
            (None, None) => Err(NoProject::Missing),
        }
    }

    /// The repository and credentials that applications of a project use for a URL (REP-20).
    ///
    /// # Errors
    /// When the Secret that applies cannot be read.
    pub(crate) fn repository(&self, url: &str, project: &str) -> Result<tiphys_source::Repository, String> {
        let matching = self.settings.template_matching();
        let found = repository::resolve(&self.repositories, &self.templates, url, project, matching)
            .map_err(|error| error.to_string())?;
        Ok(tiphys_source::Repository::from(&found))
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

/// Fields of a repository's Secret that have no effect, named by the Secret.
fn about_repository(metadata: &Metadata, data: &BTreeMap<String, String>) -> Vec<String> {
    let texts = support::repository_reports(data).into_iter();
    texts.map(|text| format!("repository Secret {}: {text}", metadata.name)).collect()
}

fn metadata(object: &Object) -> Result<Metadata, serde_json::Error> {
    #[derive(serde::Deserialize)]
    struct Envelope {
        metadata: Metadata,
    }
    serde_json::from_slice::<Envelope>(object.raw()).map(|envelope| envelope.metadata)
}

fn texts(value: Option<&Value>) -> BTreeMap<String, String> {
    let members = value.and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// `data` of a `ConfigMap`.
fn config_map_data(object: &Object) -> BTreeMap<String, String> {
    // Objects that are no JSON are not taken into the data a world is built from.
    texts(object.to_value().unwrap_or_default().get("data"))
}

/// Decoded `data` of a Secret; values that are no base64 of text are left out.
fn secret_data(object: &Object) -> BTreeMap<String, String> {
    let decode = |text: String| {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
        String::from_utf8(bytes).ok()
    };
    texts(object.to_value().unwrap_or_default().get("data"))
        .into_iter()
        .filter_map(|(key, text)| Some((key, decode(text)?)))
        .collect()
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
    use tiphys_engine::scripts::{HealthScript, Paths, ScriptFault, Scripts};

    use super::*;
    use serde_json::json;

    fn object(value: &Value) -> Arc<Object> {
        Arc::new(Object::from_value(value).unwrap())
    }

    #[test]
    fn rep_20_credentials_come_from_the_secret_of_the_url() {
        let secret = object(&json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "r", "labels": {"argocd.argoproj.io/secret-type": "repository"}},
            "data": {"url": "aHR0cHM6Ly9oL3I=", "password": "czNjcmV0"}}));
        let data = WorldData { secrets: BTreeMap::from([("r".into(), secret)]), ..WorldData::default() };
        let world = World::build(&data, None);
        let found = world.repository("https://H/r.git", "default").unwrap();
        assert_eq!(found.password.expose(), "s3cret");
        assert!(world.repository("https://h/other", "default").unwrap().is_anonymous());
    }

    fn with_settings(key: &str, text: &str) -> WorldData {
        let map = object(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"},
            "data": {key: text}}));
        WorldData { config_maps: BTreeMap::from([("argocd-cm".into(), map)]), ..WorldData::default() }
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
    }

    /// Rules that two applications share are run for each of them by its own runner: what one wastes is not charged
    /// to the other (SEC-10, ENG-214).
    #[test]
    fn sec_10_shared_rules_are_run_for_the_application_that_is_compared() {
        let rules: Vec<tiphys_api::application::IgnoreDifference> =
            serde_json::from_value(json!([{"kind": "Pod", "jqPathExpressions": [".spec.a"]}])).unwrap();
        let world = World::build(&WorldData::default(), None);
        let stopped = |runner: &Runner| {
            let rules = world.ignore_rules(&rules, runner).unwrap();
            rules.apply(&mut json!({"apiVersion": "v1", "kind": "Pod", "spec": {"a": 1}}));
            rules.stopped().len()
        };
        assert_eq!(stopped(&Runner::default()), 0);
        assert_eq!(stopped(&Runner::new(Stopping)), 1);
        assert_eq!(stopped(&Runner::default()), 0);
    }

    #[test]
    fn ctl_132_broken_parts_are_warnings() {
        let project = object(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
            "metadata": {"name": "bad"}, "spec": {"sourceRepos": 7}}));
        let data = WorldData { projects: BTreeMap::from([("bad".into(), project)]), ..WorldData::default() };
        let world = World::build(&data, None);
        assert!(world.projects.is_empty());
        assert!(world.warnings.iter().any(|text| text.contains("project bad cannot be read")));
    }

    /// B12: what has no effect is said when the settings are read.
    #[test]
    fn ctl_132_what_has_no_effect_is_a_warning() {
        let project = object(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
            "metadata": {"name": "p"}, "spec": {"orphanedResources": {"warn": true}}}));
        let secret = |kind: &str, annotations: Value, data: Value| {
            object(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": kind,
                "annotations": annotations, "labels": {"argocd.argoproj.io/secret-type": kind}}, "data": data}))
        };
        let repository =
            secret("repository", json!({}), json!({"url": "aHR0cHM6Ly9oL3I=", "enableLfs": "dHJ1ZQ=="}));
        let skip = json!({"argocd.argoproj.io/skip-reconcile": "true"});
        let cluster = secret("cluster", skip, json!({"server": "aHR0cHM6Ly9ldQ=="}));
        let data = WorldData {
            projects: BTreeMap::from([("p".into(), project)]),
            secrets: BTreeMap::from([("r".into(), repository), ("c".into(), cluster)]),
            env: BTreeMap::from([("ARGOCD_HYDRATOR_ENABLED".to_owned(), "true".to_owned())]),
            ..WorldData::default()
        };
        let told = World::build(&data, None).warnings.join("\n");
        for what in ["orphanedResources", "enableLfs", "skip-reconcile", "ARGOCD_HYDRATOR_ENABLED"] {
            assert!(told.contains(&format!("no effect of {what}")) || told.contains(what), "{what}: {told}");
        }
    }
}
