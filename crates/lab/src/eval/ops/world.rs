//! The members that mean the same in every operation, and what the product makes of them (EVAL-60).

use crate::eval::fault::Fault;
use crate::eval::operation::Input;
use crate::eval::shape::{Member, Shape, default, optional, required};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tiphys_api::application::Metadata;
use tiphys_api::cluster::{Cluster, Clusters};
use tiphys_api::project::AppProject;
use tiphys_api::repository::{CredentialTemplate, Repository};
use tiphys_api::settings::{Settings, SettingsData};
use tiphys_cluster::ResourceFilter;
use tiphys_engine::compare::{Scope, builtin_scope};
use tiphys_engine::tracking::{TrackingSettings, instance_name};
use tiphys_object::{GroupKind, Object};

pub(super) const SETTINGS: Member = default("settings", Shape::TextMap, "{}");
pub(super) const PARAMS: Member = default("params", Shape::TextMap, "{}");
pub(super) const CONTROL_PLANE: Member = default("controlPlaneNamespace", Shape::Text, "\"argocd\"");
pub(super) const APP: Member = required("app", Shape::App);
pub(super) const PROJECT: Member = required("project", Shape::Map);
pub(super) const PROJECTS: Member = default("projects", Shape::List(&Shape::Map), "[]");
pub(super) const PROJECT_NAME: Member = default("projectName", Shape::Text, "\"\"");
pub(super) const REPO_URL: Member = required("repoURL", Shape::Text);
pub(super) const DESTINATION_NAMESPACE: Member = default("destinationNamespace", Shape::Text, "\"\"");
pub(super) const DESTINATION: Member = required("destination", Shape::Members(DESTINATION_MEMBERS));
pub(super) const NOW: Member =
    Member { name: "now", shape: Shape::Instant, need: crate::eval::shape::Need::Clock };
pub(super) const CLUSTERS: Member = default("clusters", Shape::List(&Shape::Members(CLUSTER_MEMBERS)), "[]");
/// Data keys of the Secrets are not checked: they are the user's.
pub(super) const REPOSITORIES: Member = default("repositories", Shape::List(&Shape::TextMap), "[]");
pub(super) const KINDS: Member = default("kinds", Shape::List(&Shape::Members(KIND_MEMBERS)), "[]");
pub(super) const TARGETS: Member = default("targets", Shape::List(&Shape::Map), "[]");
pub(super) const LIVE_OBJECTS: Member = default("liveObjects", Shape::List(&Shape::Map), "[]");

const DESTINATION_MEMBERS: &[Member] = &[
    default("server", Shape::Text, "\"\""),
    default("name", Shape::Text, "\"\""),
    default("namespace", Shape::Text, "\"\""),
];

const CLUSTER_MEMBERS: &[Member] = &[
    default("name", Shape::Text, "\"\""),
    default("server", Shape::Text, "\"\""),
    default("project", Shape::Text, "\"\""),
    default("namespaces", Shape::Either(&Shape::Text, &Shape::List(&Shape::Text)), "\"\""),
    optional("labels", Shape::TextMap),
    optional("annotations", Shape::TextMap),
];

const KIND_MEMBERS: &[Member] = &[
    default("group", Shape::Text, "\"\""),
    required("kind", Shape::Text),
    required("namespaced", Shape::Bool),
];

/// The data of one `ConfigMap`.
pub(super) fn texts(input: &Input, member: &str) -> BTreeMap<String, String> {
    text_map(input.get(member))
}

fn text_map(value: &Value) -> BTreeMap<String, String> {
    let members = value.as_object().into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// The settings of an installation with these data.
pub(super) fn settings(input: &Input) -> Settings {
    let (env, params) = texts(input, "params").into_iter().partition(|(key, _)| key.starts_with("ARGOCD_"));
    Settings::new(SettingsData { cm: texts(input, "settings"), params, env, ..SettingsData::default() })
}

/// The tracking settings of an installation.
pub(super) fn tracking(input: &Input) -> TrackingSettings {
    TrackingSettings::from_settings(&texts(input, "settings"), input.text("controlPlaneNamespace"))
}

/// Tracking settings for what does not depend on the control plane's namespace.
pub(super) fn tracking_of(settings: &BTreeMap<String, String>) -> TrackingSettings {
    TrackingSettings::from_settings(settings, "")
}

/// Namespace and name of an application; the text form is split at the first `/`.
pub(super) fn app_of(value: &Value) -> (&str, &str) {
    match value {
        Value::String(text) => text.split_once('/').unwrap_or(("", text)),
        other => {
            let member = |name: &str| other.get(name).and_then(Value::as_str).unwrap_or_default();
            (member("namespace"), member("name"))
        }
    }
}

/// The instance name of `app`.
pub(super) fn instance_of(input: &Input) -> String {
    let (namespace, name) = app_of(input.get("app"));
    instance_name(namespace, name, input.text("controlPlaneNamespace")).to_string()
}

/// A member as a type of the API; what does not fit is a value the product would reject.
pub(super) fn typed<T: DeserializeOwned>(path: &str, value: Value) -> Result<T, Fault> {
    serde_json::from_value(value).map_err(|problem| Fault::invalid(format!("{path}: {problem}")))
}

/// The members of a list as types of the API.
pub(super) fn typed_list<T: DeserializeOwned>(input: &mut Input, member: &str) -> Result<Vec<T>, Fault> {
    let Value::Array(items) = input.take(member) else { return Ok(Vec::new()) };
    let one = |(index, item)| typed(&format!("{member}[{index}]"), item);
    items.into_iter().enumerate().map(one).collect()
}

/// `project`.
pub(super) fn project(input: &mut Input) -> Result<AppProject, Fault> {
    typed("project", input.take("project"))
}

/// The Secrets of `clusters`.
pub(super) fn clusters(input: &Input) -> Vec<Cluster> {
    input.list("clusters").iter().map(cluster_of).collect()
}

fn cluster_of(given: &Value) -> Cluster {
    let text = |name: &str| given.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let namespaces = match given.get("namespaces") {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        _ => text("namespaces"),
    };
    let data = BTreeMap::from([
        ("name".to_owned(), text("name")),
        ("server".to_owned(), text("server")),
        ("project".to_owned(), text("project")),
        ("namespaces".to_owned(), namespaces),
    ]);
    let part = |name: &str| given.get(name).map(text_map).unwrap_or_default();
    let metadata =
        Metadata { labels: part("labels"), annotations: part("annotations"), ..Metadata::default() };
    Cluster::from_secret(&metadata, &data)
}

/// All clusters, the implicit local one included (REP-110).
pub(super) fn all_clusters(input: &Input) -> Clusters {
    Clusters::new(clusters(input), settings(input).in_cluster_enabled())
}

/// The Secrets of `repositories`: `name` is that of the Secret, the rest is its data.
pub(super) fn repositories(input: &Input) -> Vec<Repository> {
    let secret = |given: &Value| {
        let mut data = text_map(given);
        let name = data.remove("name").unwrap_or_default();
        Repository::from_secret(&Metadata { name, ..Metadata::default() }, &data)
    };
    input.list("repositories").iter().map(secret).collect()
}

/// The credential templates with these data.
pub(super) fn templates(input: &Input, member: &str) -> Vec<CredentialTemplate> {
    let secret = |given: &Value| CredentialTemplate::from_secret(&Metadata::default(), &text_map(given));
    input.list(member).iter().map(secret).collect()
}

/// An RFC 3339 member.
pub(super) fn instant(input: &Input, member: &str) -> Result<Timestamp, Fault> {
    input.text(member).parse().map_err(|problem| Fault::invalid(format!("{member}: {problem}")))
}

/// A manifest as the kept form of an object.
pub(super) fn object(path: &str, manifest: &Value) -> Result<Object, Fault> {
    Object::from_value(manifest).map_err(|problem| {
        let cause = std::error::Error::source(&problem).map(|cause| format!(": {cause}")).unwrap_or_default();
        Fault::invalid(format!("{path}: {problem}{cause}"))
    })
}

/// The manifests of a list as the kept form of objects.
pub(super) fn objects(input: &Input, member: &str) -> Result<Vec<Arc<Object>>, Fault> {
    let one = |(index, manifest)| object(&format!("{member}[{index}]"), manifest).map(Arc::new);
    input.list(member).iter().enumerate().map(one).collect()
}

/// The scope of a kind: built-in types, then `kinds`; what is known nowhere is namespaced (EVAL-60).
pub(super) fn scope(input: &Input) -> impl Fn(&GroupKind) -> Option<Scope> {
    let given: BTreeMap<GroupKind, Scope> = input
        .list("kinds")
        .iter()
        .map(|entry| {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let namespaced = entry.get("namespaced").and_then(Value::as_bool).unwrap_or(true);
            let scope = if namespaced { Scope::Namespaced } else { Scope::Cluster };
            (GroupKind::new(text("group"), text("kind")), scope)
        })
        .collect();
    move |kind| {
        let known = given.get(kind).copied().or_else(|| builtin_scope(kind));
        Some(known.unwrap_or(Scope::Namespaced))
    }
}

/// Which kinds the settings leave out (ENG-7).
pub(super) fn resource_filter(settings: &Settings) -> Result<ResourceFilter, Fault> {
    ResourceFilter::parse(settings.resource_exclusions(), settings.resource_inclusions())
        .map_err(Fault::invalid)
}
