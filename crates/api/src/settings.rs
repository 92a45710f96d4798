//! The settings in force, as one immutable snapshot (CTL section 17).
//!
//! Built by a pure function from the data of `argocd-cm`, `argocd-cmd-params-cm`, `argocd-rbac-cm` and
//! `argocd-secret` and from the environment. Nothing here fails: a value that cannot be read is replaced by its
//! default and reported in [`Settings::warnings`] (CTL-132). An environment variable beats the parameter of the
//! same meaning. The raw data stays reachable for what only one module reads.

mod application_sets;
mod client;
mod controller;
mod reader;
mod renderers;
mod webhooks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tiphys_go::glob::Glob;

use crate::account::{AccountError, Accounts};
use crate::names;
use crate::repository::{Isolation, TemplateMatching};
use crate::secret::Secret;
use reader::Reader;

pub use application_sets::{
    ApplicationSets, GlobalResources, InvalidDeletionOrder, StepTimeout, UnknownGenerators,
};
pub use client::ClientLimits;
pub use controller::{ClientRate, Controller, LogFormat, SelfHeal};
pub use renderers::Renderers;
pub use webhooks::Webhooks;

/// Key of `argocd-cmd-params-cm` with the directories of local repositories.
const LOCAL_REPOSITORIES: &str = "reposerver.local.repositories";
/// The variable of the same meaning; `--local-repositories` sets it.
pub const LOCAL_REPOSITORIES_VARIABLE: &str = "ARGOCD_REPO_SERVER_LOCAL_REPOSITORIES";
const TRACKING_METHOD: &str = "application.resourceTrackingMethod";

/// What a snapshot is made from. Values of Secrets are decoded.
#[derive(Clone, Default)]
pub struct SettingsData {
    /// Data of `argocd-cm`.
    pub cm: BTreeMap<String, String>,
    /// Data of `argocd-cmd-params-cm`.
    pub params: BTreeMap<String, String>,
    /// Data of `argocd-rbac-cm`.
    pub rbac: BTreeMap<String, String>,
    /// Data of `argocd-secret`.
    pub secret: BTreeMap<String, String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
}

/// How often Applications are refreshed (CTL-28). Zero disables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshTimeouts {
    /// `timeout.reconciliation`, 120 s.
    pub soft: Duration,
    /// `timeout.reconciliation.jitter`, 60 s.
    pub jitter: Duration,
    /// `timeout.hard.reconciliation`, off.
    pub hard: Duration,
}

/// Whether `/status` is compared (ENG-67).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IgnoreStatus {
    /// Of no object.
    #[default]
    All,
    /// Of all objects but custom resource definitions.
    Crd,
    /// Of every object.
    None,
}

/// How sourceRepos and destinations of projects are read (REP-136).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProjectMatching {
    /// As the reference does.
    #[default]
    Compat,
    /// As documented: some allow rule and no deny rule.
    Strict,
}

/// `resource.compareoptions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareOptions {
    /// Whether rules of aggregated roles are not compared (ENG-61).
    pub ignore_aggregated_roles: bool,
    /// Whose `/status` is compared (ENG-67).
    pub ignore_status: IgnoreStatus,
    /// Whether ignored differences also filter updates (CTL-95).
    pub ignore_differences_on_resource_updates: bool,
}

/// A project that others inherit from (REP-185).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GlobalProject {
    /// Its name.
    pub project_name: String,
    /// Selects the inheriting projects; absent or empty selects all.
    pub label_selector: Option<Value>,
}

/// Secrets of the webhook senders; empty accepts unsigned payloads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebhookSecrets {
    /// GitHub.
    pub github: Secret<String>,
    /// GitLab.
    pub gitlab: Secret<String>,
    /// Bitbucket Cloud.
    pub bitbucket_uuid: Secret<String>,
    /// Bitbucket Server.
    pub bitbucket_server: Secret<String>,
    /// Gogs and Gitea.
    pub gogs: Secret<String>,
    /// Azure DevOps user.
    pub azure_devops_username: Secret<String>,
    /// Azure DevOps password.
    pub azure_devops_password: Secret<String>,
    /// Harbor.
    pub harbor: Secret<String>,
}

/// The settings in force. Immutable; a change makes a new one.
#[derive(Clone)]
pub struct Settings {
    data: SettingsData,
    controller: Controller,
    application_sets: ApplicationSets,
    webhooks: Webhooks,
    renderers: Renderers,
    refresh_timeouts: RefreshTimeouts,
    compare_options: CompareOptions,
    global_projects: Vec<GlobalProject>,
    application_namespaces: Vec<String>,
    local_repositories: Vec<PathBuf>,
    warnings: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(SettingsData::default())
    }
}

impl Settings {
    /// Reads all data once. Never fails; see [`Settings::warnings`].
    pub fn new(data: SettingsData) -> Self {
        let mut reader = Reader::new(&data.params, &data.env);
        let controller = Controller::read(&mut reader);
        let application_sets = ApplicationSets::read(&mut reader, &data.cm);
        let mut webhooks = Webhooks::default();
        webhooks.read_params(&mut reader);
        let application_namespaces =
            split_list(reader.text("application.namespaces", "ARGOCD_APPLICATION_NAMESPACES").unwrap_or(""));
        let local = reader.text(LOCAL_REPOSITORIES, LOCAL_REPOSITORIES_VARIABLE).unwrap_or("");
        let (local_repositories, relative): (Vec<String>, Vec<String>) =
            split_list(local).into_iter().partition(|root| Path::new(root).is_absolute());
        let mut reader = Reader::with_warnings(&data.cm, &data.env, reader.into_warnings());
        let refresh_timeouts = RefreshTimeouts {
            soft: reader.duration(
                "timeout.reconciliation",
                "ARGOCD_RECONCILIATION_TIMEOUT",
                Duration::from_mins(2),
            ),
            jitter: reader.duration(
                "timeout.reconciliation.jitter",
                "ARGOCD_RECONCILIATION_JITTER",
                Duration::from_mins(1),
            ),
            hard: reader.duration(
                "timeout.hard.reconciliation",
                "ARGOCD_HARD_RECONCILIATION_TIMEOUT",
                Duration::ZERO,
            ),
        };
        let mut warnings = reader.into_warnings();
        webhooks.read_cm(&data.cm, &mut warnings);
        let renderers = Renderers::read(&data.cm, &mut warnings);
        warnings.extend(
            relative.iter().map(|root| format!("{LOCAL_REPOSITORIES}: {root:?} is no absolute path")),
        );
        if let Some(method) = data.cm.get(TRACKING_METHOD).filter(|name| !is_tracking_method(name)) {
            warnings.push(format!("{TRACKING_METHOD}: {method:?} is unknown, \"annotation\" is used"));
        }
        let compare_options = read_compare_options(&data.cm, &mut warnings);
        let global_projects = read_global_projects(&data.cm, &mut warnings);
        Self {
            data,
            controller,
            application_sets,
            webhooks,
            renderers,
            refresh_timeouts,
            compare_options,
            global_projects,
            application_namespaces,
            local_repositories: local_repositories.into_iter().map(PathBuf::from).collect(),
            warnings,
        }
    }

    /// What could not be read and was replaced by its default, in words for the log.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Data of `argocd-cm`.
    pub fn cm(&self) -> &BTreeMap<String, String> {
        &self.data.cm
    }

    /// The local accounts (API-44).
    ///
    /// # Errors
    /// When a switch or a list of tokens cannot be read.
    pub fn accounts(&self) -> Result<Accounts, AccountError> {
        crate::account::accounts(self.cm(), &self.data.secret)
    }

    /// Data of `argocd-cmd-params-cm`.
    pub fn params(&self) -> &BTreeMap<String, String> {
        &self.data.params
    }

    /// Environment variables.
    pub fn env(&self) -> &BTreeMap<String, String> {
        &self.data.env
    }

    /// Data of `argocd-rbac-cm`.
    pub fn rbac(&self) -> &BTreeMap<String, String> {
        &self.data.rbac
    }

    /// One key of `argocd-secret`.
    pub fn secret(&self, key: &str) -> Option<Secret<String>> {
        self.data.secret.get(key).map(|value| Secret::from(value.as_str()))
    }

    /// A parameter as text: the variable when it is set and not empty, else the key of `argocd-cmd-params-cm`.
    pub fn param(&self, key: &str, variable: &str) -> Option<&str> {
        reader::lookup(&self.data.params, &self.data.env, key, variable)
    }

    /// Parameters of the application controller.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Parameters of the `ApplicationSet` controller.
    pub fn application_sets(&self) -> &ApplicationSets {
        &self.application_sets
    }

    /// Whether Kubernetes Events of a reason are written: `ARGOCD_ENABLE_K8S_EVENT` is `all`, `none` or a list of reasons
    /// (API-226).
    pub fn has_events(&self, reason: &str) -> bool {
        match self.env().get("ARGOCD_ENABLE_K8S_EVENT").map(String::as_str) {
            None | Some("" | "all") => true,
            Some("none") => false,
            Some(list) => list.split(',').any(|word| word.trim() == reason),
        }
    }

    /// How deliveries of webhooks are worked on (API-199, API-210).
    pub fn webhooks(&self) -> Webhooks {
        self.webhooks
    }

    /// How often Applications are refreshed (CTL-28).
    pub fn refresh_timeouts(&self) -> RefreshTimeouts {
        self.refresh_timeouts
    }

    /// `application.namespaces`: globs or `/regexes/` of namespaces whose Applications are processed (CTL-19).
    pub fn application_namespaces(&self) -> &[String] {
        &self.application_namespaces
    }

    /// `reposerver.local.repositories`: directories of this machine whose repositories Applications may name;
    /// none by default (REP-60).
    pub fn local_repositories(&self) -> &[PathBuf] {
        &self.local_repositories
    }

    /// `resource.compareoptions`.
    pub fn compare_options(&self) -> CompareOptions {
        self.compare_options
    }

    /// `globalProjects`, in order (REP-185).
    pub fn global_projects(&self) -> &[GlobalProject] {
        &self.global_projects
    }

    /// `resource.exclusions`, YAML (ENG-7).
    pub fn resource_exclusions(&self) -> &str {
        self.cm_text("resource.exclusions")
    }

    /// `resource.inclusions`, YAML (ENG-7).
    pub fn resource_inclusions(&self) -> &str {
        self.cm_text("resource.inclusions")
    }

    /// `resource.customizations` and its split keys with their values, sorted by key (ENG-66).
    pub fn resource_customizations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.data.cm.iter().map(|(key, value)| (key.as_str(), value.as_str())).filter(|(key, _)| {
            *key == "resource.customizations" || key.starts_with("resource.customizations.")
        })
    }

    /// `resource.ignoreResourceUpdatesEnabled`, on unless `false` (CTL-95).
    pub fn ignore_resource_updates_enabled(&self) -> bool {
        self.cm_text("resource.ignoreResourceUpdatesEnabled") != "false"
    }

    /// `resource.respectRBAC`: empty, `normal` or `strict` (ENG-23).
    pub fn respect_rbac(&self) -> &str {
        self.cm_text("resource.respectRBAC")
    }

    /// `resource.sensitive.mask.annotations` (API-141).
    pub fn masked_annotations(&self) -> Vec<String> {
        split_list(self.cm_text("resource.sensitive.mask.annotations"))
    }

    /// `resource.includeEventLabelKeys` and `resource.excludeEventLabelKeys`: globs (CTL-100).
    pub fn event_label_keys(&self) -> (Vec<String>, Vec<String>) {
        (
            split_list(self.cm_text("resource.includeEventLabelKeys")),
            split_list(self.cm_text("resource.excludeEventLabelKeys")),
        )
    }

    /// `application.resourceTrackingMethod`; missing, empty and unknown values mean `annotation` (TRK-7, 8).
    pub fn tracking_method(&self) -> &str {
        Some(self.cm_or(TRACKING_METHOD, "annotation"))
            .filter(|name| is_tracking_method(name))
            .unwrap_or("annotation")
    }

    /// `application.instanceLabelKey` (TRK-7).
    pub fn instance_label_key(&self) -> &str {
        self.cm_or("application.instanceLabelKey", "app.kubernetes.io/instance")
    }

    /// `installationID`; absent and empty mean none.
    pub fn installation_id(&self) -> Option<&str> {
        Some(self.cm_text("installationID")).filter(|id| !id.is_empty())
    }

    /// Whether signatures of commits count at all: `ARGOCD_GPG_ENABLED` is not `false` or `no` (REP-87).
    pub fn signatures_enabled(&self) -> bool {
        let value = self.data.env.get("ARGOCD_GPG_ENABLED").map_or("", String::as_str);
        !["false", "no"].iter().any(|off| value.eq_ignore_ascii_case(off))
    }

    /// Whether syncs impersonate the accounts of the project (REP-190).
    pub fn impersonation_enabled(&self) -> bool {
        self.cm_text("application.sync.impersonation.enabled") == "true"
    }

    /// Whether a sync without a matching account fails (REP-191).
    pub fn impersonation_enforced(&self) -> bool {
        self.cm_text("application.sync.impersonation.enforced") != "false"
    }

    /// `project.matching` (REP-136).
    pub fn project_matching(&self) -> ProjectMatching {
        match self.cm_text("project.matching") {
            "strict" => ProjectMatching::Strict,
            _ => ProjectMatching::Compat,
        }
    }

    /// `reposerver.checkout.isolation`: whose accesses share a working copy (REP-64).
    pub fn checkout_isolation(&self) -> Isolation {
        match self.data.params.get("reposerver.checkout.isolation").map(String::as_str) {
            Some("project") => Isolation::Project,
            Some("shared") => Isolation::Shared,
            _ => Isolation::Credential,
        }
    }

    /// `repocreds.matching` (REP-32).
    pub fn template_matching(&self) -> TemplateMatching {
        match self.cm_text("repocreds.matching") {
            "prefix" => TemplateMatching::Prefix,
            _ => TemplateMatching::HostBoundary,
        }
    }

    /// Whether a rollback needs the right to roll back, not to sync (API-107).
    pub fn rbac_enforces_rollback(&self) -> bool {
        self.cm_bool("server.rbac.rollback.enforce.enable") == Some(true)
    }

    /// Whether `update` and `delete` of an application include its resources (API-105).
    pub fn rbac_inherits_fine_grained(&self) -> bool {
        self.cm_bool("server.rbac.disableApplicationFineGrainedRBACInheritance") == Some(false)
    }

    /// Whether accounts and groups of identity providers cannot have names of ours (API-94).
    pub fn rbac_reserves_role_names(&self) -> bool {
        self.cm_bool("rbac.reserveRoleNames") == Some(true)
    }

    /// Whether `ApplicationSets` outside projects need a right of their own; an unknown value means so (ASET-281).
    pub fn rbac_restricts_unscoped(&self) -> bool {
        self.application_sets.unscoped_restricted
    }

    /// Whether windows compare the resolved name and server (REP-172).
    pub fn windows_resolve_destinations(&self) -> bool {
        self.cm_text("syncWindows.resolveDestinations") == "true"
    }

    /// Whether the local cluster may be used (REP-110).
    pub fn in_cluster_enabled(&self) -> bool {
        self.cm_text("cluster.inClusterEnabled") != "false"
    }

    /// Whether a renderer is on: `kustomize.enable`, `helm.enable`, `jsonnet.enable` (RND-63).
    pub fn renderer_enabled(&self, name: &str) -> bool {
        self.data.cm.get(&format!("{name}.enable")).is_none_or(|value| value == "true")
    }

    /// `application.sourceOverrides.strictMerge` (RND-58).
    pub fn strict_overrides(&self) -> bool {
        self.cm_text("application.sourceOverrides.strictMerge") == "true"
    }

    /// `kustomize.buildOptions` (RND-87).
    pub fn kustomize_build_options(&self) -> &str {
        self.cm_text("kustomize.buildOptions")
    }

    /// What one rendering may take.
    pub fn renderers(&self) -> Renderers {
        self.renderers
    }

    /// Who renders the sources of a tool, as it is written: `tiphys.renderer.<tool>` (RND-159).
    pub fn renderer(&self, tool: &str) -> &str {
        self.cm_text(&format!("tiphys.renderer.{tool}"))
    }

    /// Whether Applications of a project may choose their renderer with the annotation
    /// [`RENDERER`](crate::names::annotation::RENDERER): `tiphys.renderer.projects`, a list of globs of project names;
    /// none by default (RND-159).
    pub fn may_choose_renderer(&self, project: &str) -> bool {
        let permitted = split_list(self.cm_text("tiphys.renderer.projects"));
        permitted.iter().any(|glob| Glob::new(glob, &[]).is_ok_and(|glob| glob.is_match(project)))
    }

    /// Programs of kustomize by version, and options of the builds by version: `kustomize.path.<v>`,
    /// `kustomize.version.<v>`, `kustomize.buildOptions.<v>` (RND-87, RND-88).
    pub fn kustomize_versions(&self) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
        let below = |prefix: &str| -> BTreeMap<String, String> {
            let named = self.data.cm.iter().filter(|(_, value)| !value.is_empty());
            let named =
                named.filter_map(|(key, value)| Some((key.strip_prefix(prefix)?.to_owned(), value.clone())));
            named.collect()
        };
        let mut programs = below("kustomize.version.");
        programs.extend(below("kustomize.path."));
        (programs, below("kustomize.buildOptions."))
    }

    /// `helm.valuesFileSchemes` (RND-99); an empty value permits none.
    pub fn helm_values_file_schemes(&self) -> Vec<String> {
        split_list(self.data.cm.get("helm.valuesFileSchemes").map_or("https, http", String::as_str))
    }

    /// Whether `helm.version: v3` makes a difference: `tiphys.renderer.helm.v3compat` (RND-164).
    pub fn helm_v3_compat(&self) -> bool {
        self.cm_text("tiphys.renderer.helm.v3compat") == "true"
    }

    /// Whether chance in charts is the same in every rendering of a revision:
    /// `tiphys.renderer.helm.deterministicRandom` (RND-163).
    pub fn helm_deterministic(&self) -> bool {
        self.cm_text("tiphys.renderer.helm.deterministicRandom") == "true"
    }

    /// Secrets of the webhook senders.
    pub fn webhook_secrets(&self) -> WebhookSecrets {
        let key = |name: &str| self.secret(name).unwrap_or_default();
        WebhookSecrets {
            github: key("webhook.github.secret"),
            gitlab: key("webhook.gitlab.secret"),
            bitbucket_uuid: key("webhook.bitbucket.uuid"),
            bitbucket_server: key("webhook.bitbucketserver.secret"),
            gogs: key("webhook.gogs.secret"),
            azure_devops_username: key("webhook.azuredevops.username"),
            azure_devops_password: key("webhook.azuredevops.password"),
            harbor: key("webhook.harbor.secret"),
        }
    }

    /// `None` when the key is absent or no boolean.
    fn cm_bool(&self, key: &str) -> Option<bool> {
        crate::repository::parse_bool(self.cm_text(key).trim())
    }

    fn cm_text(&self, key: &str) -> &str {
        self.data.cm.get(key).map_or("", String::as_str)
    }

    fn cm_or<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        match self.cm_text(key) {
            "" => default,
            value => value,
        }
    }
}

impl std::fmt::Debug for Settings {
    /// Names the `ConfigMap` keys only; values of Secrets and of the environment stay hidden.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field(names::SETTINGS_CONFIG_MAP, &self.data.cm.keys())
            .field(names::PARAMS_CONFIG_MAP, &self.data.params)
            .field("warnings", &self.warnings)
            .finish_non_exhaustive()
    }
}

fn is_tracking_method(name: &str) -> bool {
    ["", "annotation", "annotation+label", "label", "hash", "annotation+hash"].contains(&name)
}

/// Entries of a comma list: trimmed, empty ones dropped.
pub fn split_list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

fn parse_yaml(key: &str, text: &str, warnings: &mut Vec<String>) -> Option<Value> {
    let limits = tiphys_go::yaml::Limits::default();
    match tiphys_go::yaml::parse(text, tiphys_go::yaml::Dialect::Sigs, &limits) {
        Ok(value) => value,
        Err(error) => {
            warnings.push(format!("{key} is not YAML and is ignored: {error}"));
            None
        }
    }
}

fn read_compare_options(cm: &BTreeMap<String, String>, warnings: &mut Vec<String>) -> CompareOptions {
    let key = "resource.compareoptions";
    let options = cm.get(key).and_then(|text| parse_yaml(key, text, warnings)).unwrap_or(Value::Null);
    // Quoted booleans are common in hand-written settings.
    let boolean = |value: &Value| value.as_bool().or_else(|| crate::repository::parse_bool(value.as_str()?));
    let flag = |name: &str, default: bool| options.get(name).and_then(boolean).unwrap_or(default);
    let ignore_status = match options.get("ignoreResourceStatusField") {
        None | Some(Value::Null) => IgnoreStatus::All,
        Some(value) => match value.as_str() {
            Some("all" | "") => IgnoreStatus::All,
            Some("crd") => IgnoreStatus::Crd,
            Some("none" | "off" | "false") => IgnoreStatus::None,
            // YAML reads the unquoted words `off` and `false` as a boolean.
            None if value == &Value::Bool(false) => IgnoreStatus::None,
            _ => {
                warnings
                    .push(format!("{key}: ignoreResourceStatusField {value} is unknown, \"all\" is used"));
                IgnoreStatus::All
            }
        },
    };
    CompareOptions {
        ignore_aggregated_roles: flag("ignoreAggregatedRoles", false),
        ignore_status,
        ignore_differences_on_resource_updates: flag("ignoreDifferencesOnResourceUpdates", true),
    }
}

/// Unreadable text means no inheritance (REP-188).
fn read_global_projects(cm: &BTreeMap<String, String>, warnings: &mut Vec<String>) -> Vec<GlobalProject> {
    let key = "globalProjects";
    let Some(value) = cm.get(key).and_then(|text| parse_yaml(key, text, warnings)) else { return vec![] };
    if value.is_null() {
        return vec![];
    }
    serde_json::from_value(value).unwrap_or_else(|error| {
        warnings.push(format!("{key} is not a list of projects and is ignored: {error}"));
        vec![]
    })
}

#[cfg(test)]
mod tests;
