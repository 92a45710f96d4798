//! Secrets and `ConfigMaps` that generators name: which of them a set may read, and which addresses a shared credential
//! may be sent to (ASET-59, ASET-275).
//!
//! One decision for the API, the controller, the command line and `tiphys eval`. [`check_set`] decides by the text of a
//! set, before anything is read; the reader of an object asks [`Access::refusal`] with what it found. A missing object
//! and one that must not be used get the same answer, so a set reveals nothing about objects of other projects.

mod address;
mod fields;

use std::fmt;

use serde_json::{Map, Value};
use tiphys_api::ApplicationSet;
use tiphys_api::names::{self, PART_OF, PART_OF_LABEL, SECRET_TYPE_LABEL};
use tiphys_api::settings::{ApplicationSets, GlobalResources};

use crate::facts::{Access, ProviderQuestion, TextMap};
use crate::generate::providers_of;
use crate::generator::{self, Generator, Kind, Level, text};
use crate::scope::namespace_of;

pub use address::{Address, address_refusal, provider_refusal};
pub use fields::{FIELDS, Field, references_of};

/// Type of Secrets with credentials for providers.
const SCM_CREDENTIALS: &str = "scm-creds";
/// Type of Secrets with credentials of repositories, the documented form of a GitHub App (ASET-58).
const REPOSITORY_CREDENTIALS: &str = "repo-creds";
/// Secrets of the installation itself, whatever labels they have.
const RESERVED_SECRETS: [&str; 7] = [
    names::SECRET,
    "argocd-initial-admin-secret",
    "argocd-notifications-secret",
    "argocd-redis",
    "argocd-server-tls",
    "argocd-repo-server-tls",
    "argocd-dex-server-tls",
];
/// `ConfigMaps` of the installation itself. The one with certificates is for everybody who verifies servers.
const RESERVED_CONFIG_MAPS: [&str; 6] = [
    "argocd-cm",
    "argocd-rbac-cm",
    "argocd-cmd-params-cm",
    "argocd-notifications-cm",
    "argocd-gpg-keys-cm",
    names::KNOWN_HOSTS_CONFIG_MAP,
];
/// Prefixes of keys of `argocd-secret` that belong to the installation; other keys are tokens of plugins (ASET-68).
const RESERVED_KEYS: [&str; 7] = ["server.", "admin.", "accounts.", "tls.", "webhook.", "oidc.", "dex."];
/// First line of a PEM certificate.
const PEM_BEGIN: &str = "-----BEGIN CERTIFICATE-----";

/// Purpose of a reference, which decides what the named object has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Secret with a token or password for a provider.
    ProviderToken,
    /// Secret with a GitHub App.
    GithubApp,
    /// `ConfigMap` with certificates that a provider is verified with.
    Certificates,
    /// `ConfigMap` with the address of a plugin.
    PluginConfig,
    /// Secret with the token of a plugin, named by the `ConfigMap` of the plugin.
    PluginToken,
    /// `ConfigMap` that describes decision resources.
    DecisionConfig,
}

impl Purpose {
    /// Whether the object is a Secret; else it is a `ConfigMap`.
    pub fn is_secret(self) -> bool {
        matches!(self, Self::ProviderToken | Self::GithubApp | Self::PluginToken)
    }

    /// Whether the object is one of the control plane's namespace, wherever the set is (ASET-291).
    fn is_of_control_plane(self) -> bool {
        !matches!(self, Self::ProviderToken | Self::Certificates)
    }
}

/// A Secret or `ConfigMap` that a generator names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// What it is for.
    pub purpose: Purpose,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Key in its data; empty where the whole object is meant.
    pub key: String,
}

/// What is known of a referenced object.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// It was not read yet.
    Unread,
    /// It does not exist.
    Missing,
    /// It exists.
    Object {
        /// Labels.
        labels: &'a TextMap,
        /// Data, decoded.
        data: &'a TextMap,
    },
}

impl Reference {
    /// A reference of a generator of a set in a namespace.
    pub fn new(purpose: Purpose, namespaces: &Namespaces<'_>, name: &str, key: &str) -> Self {
        let namespace = if purpose.is_of_control_plane() { namespaces.control_plane } else { namespaces.set };
        Self { purpose, namespace: namespace.to_owned(), name: name.to_owned(), key: key.to_owned() }
    }

    /// Whether the name is that of an object of the installation.
    fn is_reserved(&self) -> bool {
        let reserved: &[&str] =
            if self.purpose.is_secret() { &RESERVED_SECRETS } else { &RESERVED_CONFIG_MAPS };
        reserved.contains(&self.name.as_str())
    }

    /// Whether an object is what the reference is for.
    fn accepts(&self, labels: &TextMap, data: &TextMap) -> bool {
        let is_of_type = |kind: &str| labels.get(SECRET_TYPE_LABEL).is_some_and(|label| label == kind);
        let has_any = |keys: [&str; 2]| keys.iter().any(|key| data.contains_key(*key));
        match self.purpose {
            Purpose::ProviderToken => is_of_type(SCM_CREDENTIALS),
            Purpose::GithubApp => is_of_type(SCM_CREDENTIALS) || is_of_type(REPOSITORY_CREDENTIALS),
            Purpose::PluginToken => {
                let is_part = labels.get(PART_OF_LABEL).is_some_and(|label| label == PART_OF);
                is_of_type(SCM_CREDENTIALS) || (is_part && !labels.contains_key(SECRET_TYPE_LABEL))
            }
            Purpose::Certificates => data.get(&self.key).is_some_and(|pem| pem.contains(PEM_BEGIN)),
            Purpose::PluginConfig => has_any(["baseUrl", "token"]),
            Purpose::DecisionConfig => has_any(["apiVersion", "kind"]),
        }
    }
}

/// The reference and what it needs, without saying which part is missing.
impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, key, .. } = self;
        match self.purpose {
            Purpose::ProviderToken => write!(
                out,
                "secret {namespace}/{name} is not a valid SCM creds secret for this ApplicationSet: it has to exist, have \
                 the label {SECRET_TYPE_LABEL}: {SCM_CREDENTIALS}"
            ),
            Purpose::GithubApp => write!(
                out,
                "secret {namespace}/{name} is not a GitHub App for this ApplicationSet: it has to exist, have the label \
                 {SECRET_TYPE_LABEL}: {REPOSITORY_CREDENTIALS} or {SCM_CREDENTIALS}"
            ),
            Purpose::Certificates => write!(
                out,
                "ConfigMap {namespace}/{name} has no certificates for this ApplicationSet: it has to exist, have PEM \
                 certificates under the key {key:?}"
            ),
            Purpose::PluginConfig => write!(
                out,
                "ConfigMap {name:?} is not a plugin for this ApplicationSet: it has to exist, have the keys baseUrl and \
                 token"
            ),
            // The Secret is named by the ConfigMap, which the user of a plugin need not see.
            Purpose::PluginToken => write!(
                out,
                "the token of the plugin cannot be used for this ApplicationSet: its Secret has to exist, have the label \
                 {SECRET_TYPE_LABEL}: {SCM_CREDENTIALS} or {PART_OF_LABEL}: {PART_OF}"
            ),
            Purpose::DecisionConfig => write!(
                out,
                "ConfigMap {name:?} does not describe decisions for this ApplicationSet: it has to exist, have the keys \
                 apiVersion and kind"
            ),
        }
    }
}

/// Namespaces that the references of a set are looked up in.
#[derive(Clone, Copy, Debug)]
pub struct Namespaces<'a> {
    /// Namespace of the set.
    pub set: &'a str,
    /// Namespace Tiphys runs in.
    pub control_plane: &'a str,
}

impl Access {
    /// Access of sets that a project confines, or of sets without `spec.project` where it is empty.
    pub fn of_project(project: &str, settings: &ApplicationSets) -> Self {
        Self {
            project: project.to_owned(),
            registered_only: !project.is_empty() && settings.global_resources == GlobalResources::None,
        }
    }

    /// Why an object may not be used; `None` when it may, as far as is known of it.
    pub fn refusal(&self, reference: &Reference, found: Found<'_>) -> Option<String> {
        let may_be_used = !reference.is_reserved()
            && match found {
                Found::Unread => true,
                Found::Missing => false,
                Found::Object { labels, data } => {
                    reference.accepts(labels, data) && self.owns(reference.purpose, labels, data)
                }
            };
        (!may_be_used).then(|| format!("{reference}, and {}", self.ownership()))
    }

    /// Whether the `project` of an object is that of the set, or none where shared objects may be used.
    fn owns(&self, purpose: Purpose, labels: &TextMap, data: &TextMap) -> bool {
        let project = project_of(data);
        if project == self.project {
            return true;
        }
        // ASET-275: the ConfigMap of a project may name a token that is labelled for everybody.
        let is_labelled = || labels.get(SECRET_TYPE_LABEL).is_some_and(|kind| kind == SCM_CREDENTIALS);
        let is_shared = project.is_empty() && !self.project.is_empty();
        is_shared && (!self.registered_only || (purpose == Purpose::PluginToken && is_labelled()))
    }

    fn ownership(&self) -> String {
        match (self.project.as_str(), self.registered_only) {
            ("", _) => "have no key \"project\"".to_owned(),
            (project, false) => format!("have \"{project}\" or nothing under the key \"project\""),
            (project, true) => format!("have \"{project}\" under the key \"project\""),
        }
    }

    /// Why a key of `argocd-secret` may not be the token of a plugin; `None` when it may. `config_project` is the
    /// project of the plugin's `ConfigMap`: only administrators' plugins take tokens from there, and never a key of the
    /// installation.
    pub fn own_key_refusal(&self, key: &str, config_project: &str) -> Option<String> {
        let is_reserved = RESERVED_KEYS.iter().any(|prefix| key.starts_with(prefix));
        let may_be_used = !is_reserved && config_project.is_empty() && !self.registered_only;
        (!may_be_used).then(|| {
            format!(
                "the token of the plugin cannot be used for this ApplicationSet: write it into a Secret of its own with \
                 the label {SECRET_TYPE_LABEL}: {SCM_CREDENTIALS} and name it as $SECRET:KEY in the ConfigMap"
            )
        })
    }

    /// Whether the identity of this process (`GITHUB_TOKEN`, the pod's identity at AWS) may be used: it belongs to no
    /// project (ASET-278).
    pub fn may_use_own_identity(&self) -> bool {
        !self.registered_only
    }
}

/// The project that an object belongs to; empty for none.
pub fn project_of(data: &TextMap) -> &str {
    data.get("project").map_or("", String::as_str)
}

/// Why a set must not be stored: a reference or an address that is refused whatever the objects are. What parameters
/// fill in (`{{`) is decided when the generator runs.
///
/// # Errors
/// The first refusal.
pub fn check_set(
    set: &ApplicationSet,
    settings: &ApplicationSets,
    control_plane_namespace: &str,
) -> Result<(), String> {
    let access = Access::of_project(&set.spec.project, settings);
    let namespaces = Namespaces {
        set: namespace_of(set, control_plane_namespace),
        control_plane: control_plane_namespace,
    };
    let mut refusal = None;
    for entry in &set.spec.generators {
        generator::visit(entry, Level::Top, &mut |generator| {
            refusal = refusal.take().or_else(|| static_refusal(generator, &access, &namespaces, settings));
        });
    }
    refusal.map_or(Ok(()), Err)
}

fn static_refusal(
    generator: Generator<'_>,
    access: &Access,
    namespaces: &Namespaces<'_>,
    settings: &ApplicationSets,
) -> Option<String> {
    let is_known = |reference: &Reference| !reference.name.contains("{{");
    let references = references_of(generator.kind, generator.block, namespaces);
    let of_references = references
        .iter()
        .filter(|reference| is_known(reference))
        .find_map(|reference| access.refusal(reference, Found::Unread));
    if of_references.is_some() || !matches!(generator.kind, Kind::ScmProvider | Kind::PullRequest) {
        return of_references;
    }
    let blocks = providers_of(generator.kind)
        .iter()
        .filter_map(|provider| Some((provider, generator.block.get(*provider)?.as_object()?)));
    blocks
        .filter(|(_, block)| !["api", "role"].iter().any(|field| text(block, field).contains("{{")))
        .find_map(|(provider, block)| {
            provider_refusal(provider, block, access, &settings.allowed_scm_providers)
        })
}

impl ProviderQuestion {
    /// The references of the provider that is asked.
    pub fn references(&self) -> Vec<Reference> {
        let namespaces = Namespaces { set: &self.namespace, control_plane: &self.control_plane };
        let own = Map::from_iter([(self.provider.to_owned(), Value::Object(self.block.clone()))]);
        references_of(self.kind, &own, &namespaces)
    }

    /// Why what a reference names must not be sent where the provider is; `None` when it may.
    pub fn address_refusal(
        &self,
        reference: &Reference,
        data: &TextMap,
        allowed: &[String],
    ) -> Option<String> {
        if matches!(reference.purpose, Purpose::Certificates) {
            return None;
        }
        let is_app = reference.purpose == Purpose::GithubApp;
        let own = data.get("githubAppEnterpriseBaseUrl").filter(|_| is_app).map_or("", |url| url.trim());
        let is_verified_otherwise =
            generator::flag(&self.block, "insecure") || self.block.get("caRef").is_some_and(Value::is_object);
        let address = Address { api: text(&self.block, "api"), own, is_verified_otherwise };
        address_refusal(project_of(data), &address, allowed)
    }
}

#[cfg(test)]
mod tests;
