//! Settings, projects, repositories and clusters of the installation, read once for one command.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use serde_json::Value;
use tiphys_api::application::Metadata;
use tiphys_api::cluster::{Cluster, Clusters};
use tiphys_api::names::{self, GROUP, VERSION};
use tiphys_api::repository::{self, CredentialTemplate, Repository};
use tiphys_api::settings::{Settings, SettingsData};
use tiphys_api::{AppProject, Application};
use tiphys_cluster::Target;
use tiphys_engine::tracking::TrackingSettings;
use tiphys_object::{Gvk, Object};
use tiphys_policy::project::{EffectiveInputs, effective};
use tiphys_policy::spec_check::{Facts, ProjectLookup, check};

use crate::app::summary::Windows;
use crate::core::Core;
use crate::failure::Failure;

/// What decisions about applications depend on.
pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) tracking: TrackingSettings,
    pub(crate) clusters: Clusters,
    namespace: String,
    projects: BTreeMap<String, AppProject>,
    repositories: Vec<Repository>,
    templates: Vec<CredentialTemplate>,
    /// Text of the SSH known hosts.
    pub(crate) known_hosts: String,
}

impl World {
    /// Reads everything. Settings that do not exist are all defaults.
    pub(crate) async fn load(core: &Core) -> Result<Self, Failure> {
        let cm = config_map(core, names::SETTINGS_CONFIG_MAP).await?;
        let params = config_map(core, names::PARAMS_CONFIG_MAP).await?;
        let mut hosts = config_map(core, names::KNOWN_HOSTS_CONFIG_MAP).await?;
        let settings = Settings::new(SettingsData { cm, params, ..SettingsData::default() });
        let mut repositories = Vec::new();
        let mut templates = Vec::new();
        let mut clusters = Vec::new();
        let secrets =
            core.list(&Gvk::new("", "v1", "Secret"), &core.namespace, names::SECRET_TYPE_LABEL).await?;
        for secret in secrets {
            let (Some(metadata), data) = (metadata(&secret), secret_data(&secret)) else { continue };
            match secret.label(names::SECRET_TYPE_LABEL) {
                Some("repository") => repositories.push(Repository::from_secret(&metadata, &data)),
                Some("repo-creds") => templates.push(CredentialTemplate::from_secret(&metadata, &data)),
                Some("cluster") => clusters.push(Cluster::from_secret(&metadata, &data)),
                _ => {}
            }
        }
        let clusters = Clusters::new(clusters, settings.in_cluster_enabled());
        let mut stored = Vec::new();
        for object in core.list(&Gvk::new(GROUP, VERSION, "AppProject"), &core.namespace, "").await? {
            let project: AppProject = serde_json::from_slice(object.raw()).map_err(|error| {
                Failure::generic(format!("project {} cannot be read: {error}", object.name()))
            })?;
            stored.push(project);
        }
        let mut projects = BTreeMap::new();
        for project in &stored {
            let inputs = EffectiveInputs {
                projects: &stored,
                repositories: &repositories,
                clusters: clusters.all(),
                settings: &settings,
            };
            projects.insert(project.name().to_owned(), effective(project, &inputs));
        }
        Ok(Self {
            tracking: TrackingSettings::from_settings(settings.cm(), &core.namespace),
            settings,
            clusters,
            namespace: core.namespace.clone(),
            projects,
            repositories,
            templates,
            known_hosts: hosts.remove("ssh_known_hosts").unwrap_or_default(),
        })
    }

    /// The settings alone.
    pub(crate) async fn settings(core: &Core) -> Result<Settings, Failure> {
        let cm = config_map(core, names::SETTINGS_CONFIG_MAP).await?;
        let params = config_map(core, names::PARAMS_CONFIG_MAP).await?;
        Ok(Settings::new(SettingsData { cm, params, ..SettingsData::default() }))
    }

    /// The project of an application; one that does not exist is a refusal.
    pub(crate) fn project(&self, app: &Application) -> Result<&AppProject, Failure> {
        self.projects.get(app.project()).ok_or_else(|| {
            Failure::status("NotFound", format!("appprojects.{GROUP} \"{}\" not found", app.project()))
        })
    }

    /// Checks a spec as an API server does before it is stored (API-126).
    pub(crate) fn check(&self, app: &Application) -> Result<(), Failure> {
        let facts = Facts {
            project: match self.projects.get(app.project()) {
                Some(project) => ProjectLookup::Found(project),
                None => ProjectLookup::Missing,
            },
            clusters: Ok(&self.clusters),
            matching: self.settings.project_matching(),
            control_plane_namespace: &self.namespace,
        };
        match check(app, &facts) {
            Ok(_) => Ok(()),
            Err(findings) => {
                let texts: Vec<String> = findings
                    .iter()
                    .map(|finding| format!("{}: {}", finding.kind.as_str(), finding.message))
                    .collect();
                let name = &app.metadata.name;
                Err(Failure::status(
                    "InvalidArgument",
                    format!("application spec for {name} is invalid: {}", texts.join(";")),
                ))
            }
        }
    }

    /// The sync windows that match an application (CLI-443).
    pub(crate) fn windows(&self, app: &Application, now: jiff::Timestamp) -> Result<Windows, Failure> {
        use tiphys_policy::window::{Subject, SyncAttempt, can_sync_application, is_active, matches};
        let Some(project) = self.projects.get(app.project()) else { return Ok(Windows::none()) };
        let resolved = self
            .settings
            .windows_resolve_destinations()
            .then(|| self.clusters.resolve(&app.spec.destination).ok())
            .flatten();
        let subject = Subject::new(app, resolved);
        let mut matching = Vec::new();
        for (_, window) in project.windows().filter(|(_, window)| matches(window, subject)) {
            let active = is_active(window, now).map_err(|error| Failure::generic(error.to_string()))?;
            matching.push((window.clone(), active));
        }
        let attempt = SyncAttempt { manual: true, operation_started_at: None, now };
        let manual_allowed = can_sync_application(project, subject, attempt).allowed;
        Ok(Windows::weigh(matching, manual_allowed))
    }

    /// Whether a sync by hand may start now (API-130).
    pub(crate) fn check_windows(&self, app: &Application, now: jiff::Timestamp) -> Result<(), Failure> {
        use tiphys_policy::window::{Subject, SyncAttempt, can_sync_application};
        let project = self.project(app)?;
        let attempt = SyncAttempt { manual: true, operation_started_at: None, now };
        let verdict = can_sync_application(project, Subject::new(app, None), attempt);
        match verdict.message {
            Some(why) => Err(Failure::status("PermissionDenied", format!("cannot sync: {why}"))),
            None if verdict.allowed => Ok(()),
            None => Err(Failure::status("PermissionDenied", "cannot sync: blocked by sync window")),
        }
    }

    /// The repository and credentials that applications of a project use for a URL (REP-20).
    pub(crate) fn repository(&self, url: &str, project: &str) -> Result<tiphys_source::Repository, Failure> {
        let matching = self.settings.template_matching();
        let found = repository::resolve(&self.repositories, &self.templates, url, project, matching)
            .map_err(|error| Failure::generic(error.to_string()))?;
        Ok(tiphys_source::Repository::from(&found))
    }

    /// Where an application is shown (CLI-442); empty when no address is configured.
    pub(crate) fn url(&self, app: &Application) -> String {
        match self.settings.cm().get("url").map(|url| url.trim_end_matches('/')) {
            Some(url) if !url.is_empty() => format!("{url}/applications/{}", app.metadata.name),
            _ => String::new(),
        }
    }

    /// Tracking settings with the effective method of an application (TRK-82, TRK-110).
    pub(crate) fn tracking_of(&self, app: &Application) -> TrackingSettings {
        let wanted = app.annotation("argocd.argoproj.io/tracking-method");
        self.tracking.with_method(self.tracking.effective_method(wanted, self.settings.cm()))
    }
}

async fn config_map(core: &Core, name: &str) -> Result<BTreeMap<String, String>, Failure> {
    let target = Target::new(Gvk::new("", "v1", "ConfigMap"), &core.namespace, name);
    match core.get(&target).await? {
        Some(object) => Ok(texts(super::value_of(&object)?.get("data"))),
        None => Ok(BTreeMap::new()),
    }
}

fn texts(value: Option<&Value>) -> BTreeMap<String, String> {
    let members = value.and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn metadata(object: &Arc<Object>) -> Option<Metadata> {
    let value = object.to_value().ok()?;
    serde_json::from_value(value.get("metadata")?.clone()).ok()
}

/// Decoded `data` of a Secret; values that are no base64 of text are left out.
fn secret_data(object: &Object) -> BTreeMap<String, String> {
    let decode = |text: String| {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
        String::from_utf8(bytes).ok()
    };
    let value = object.to_value().unwrap_or_default();
    let data = texts(value.get("data"));
    data.into_iter().filter_map(|(key, text)| Some((key, decode(text)?))).collect()
}
