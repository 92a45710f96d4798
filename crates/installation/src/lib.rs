//! What an installation is set up to do, as one immutable snapshot: settings, tracking, projects, repositories with
//! their credentials, and clusters (TRK-140).
//!
//! [`Installation::build`] is a pure function of the `ConfigMaps`, Secrets and `AppProjects` of the control plane's
//! namespace. The controller builds it anew when one of them changes; a command reads them once. Both ask it the same
//! questions and so get the same answers.

mod credentials;
pub mod objects;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tiphys_api::application::Application;
use tiphys_api::cluster::{Cluster, ClusterError, Clusters, UnreadCluster};
use tiphys_api::codes::ConditionType;
use tiphys_api::repo_url::{Location, Scheme};
use tiphys_api::repository::{self, CredentialTemplate, Repository};
use tiphys_api::settings::{Settings, SettingsData};
use tiphys_api::trust::{Keyring, TlsCertificates};
use tiphys_api::{AppProject, names, support};
use tiphys_engine::tracking::{self, Previous, TrackingSettings};
use tiphys_object::Object;
use tiphys_policy::Decision;
use tiphys_policy::permit::Governed;
use tiphys_policy::project::{
    Account, EffectiveInputs, ServiceAccountError, SignaturePolicyError, Target, destination_permitted,
    effective, impersonated_user, source_permitted,
};
use tiphys_policy::signature::SignatureRule;
use tiphys_policy::spec_check::{self, Checked, Facts, Finding, ProjectLookup};
use tiphys_policy::window::Subject;

pub use watched::{DataChange, DataEvent, DataKind};

/// The objects that a snapshot is made from, by name.
#[derive(Clone, Debug, Default)]
pub struct InstallationData {
    /// `ConfigMaps` of the control plane's namespace that carry settings.
    pub config_maps: BTreeMap<String, Arc<Object>>,
    /// Secrets of the control plane's namespace that carry settings, repositories or clusters.
    pub secrets: BTreeMap<String, Arc<Object>>,
    /// `AppProjects`.
    pub projects: BTreeMap<String, Arc<Object>>,
    /// `AppProjects` that exist and cannot be read, with the reasons.
    pub bad_projects: BTreeMap<String, String>,
    /// Secrets that exist, cannot be read, and may be clusters'.
    pub bad_secrets: BTreeMap<String, UnreadCluster>,
    /// Settings that are missing, unlabelled or unreadable, by name of their object, with the effect.
    pub settings_problems: BTreeMap<String, String>,
    /// Environment variables, read once at start.
    pub env: BTreeMap<String, String>,
    /// The control plane's namespace.
    pub namespace: String,
}

impl InstallationData {
    /// Takes an object that was listed or watched, as what it is; others say nothing about an installation. Says
    /// whether it was taken.
    pub fn take(&mut self, object: Arc<Object>) -> bool {
        let name = object.name().to_owned();
        let was_bad = object.gvk().kind == "Secret" && self.bad_secrets.remove(&name).is_some();
        match (object.gvk().group.as_str(), object.gvk().kind.as_str()) {
            ("", "ConfigMap") => drop(self.config_maps.insert(name, object)),
            ("", "Secret") if is_wanted(&object) => drop(self.secrets.insert(name, object)),
            // It may have been one of ours until its label went.
            ("", "Secret") => return self.secrets.remove(&name).is_some() || was_bad,
            (names::GROUP, "AppProject") => {
                self.bad_projects.remove(&name);
                self.projects.insert(name, object);
            }
            _ => return false,
        }
        true
    }
}

/// Whether a Secret says something about the installation.
fn is_wanted(secret: &Object) -> bool {
    secret.name() == names::SECRET || secret.label(names::SECRET_TYPE_LABEL).is_some()
}

/// What vouches for a server (REP-80, REP-81).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vouchers<'a> {
    /// Nothing does, and nothing has to.
    Nobody,
    /// Certificates of its host; those of the system where there are none.
    Tls(Option<Result<&'a Arc<str>, &'a str>>),
    /// The known hosts.
    Ssh(&'a str),
}

/// Why there is no project at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoProject<'a> {
    /// It does not exist.
    Missing,
    /// It exists and cannot be read; the text says which and why.
    Unreadable(&'a str),
}

impl NoProject<'_> {
    /// What is said of an Application that names this project (CTL-13).
    pub fn text(self, name: &str) -> String {
        match self {
            Self::Missing => format!("Application referencing project {name} which does not exist"),
            Self::Unreadable(text) => text.to_owned(),
        }
    }
}

/// One snapshot.
#[derive(Clone)]
pub struct Installation {
    /// The control plane's namespace.
    pub namespace: String,
    /// Settings.
    pub settings: Settings,
    /// Tracking settings with the system's method.
    pub tracking: TrackingSettings,
    /// Clusters, the local one included.
    pub clusters: Clusters,
    /// Effective projects by name (REP-194).
    pub projects: BTreeMap<String, Arc<AppProject>>,
    /// Projects that exist and cannot be read, with a text that says so.
    pub bad_projects: BTreeMap<String, String>,
    /// Repositories with their credentials.
    pub repositories: Vec<Repository>,
    /// Credential templates.
    pub templates: Vec<CredentialTemplate>,
    /// Repositories with the credentials that manifests are pushed with (REP-23).
    pub write_repositories: Vec<Repository>,
    /// Credential templates for the same.
    pub write_templates: Vec<CredentialTemplate>,
    /// URLs that several Secrets declare for the same projects (REP-21).
    pub duplicates: BTreeSet<String>,
    /// Certificates that vouch for servers (REP-80).
    pub tls_certificates: Arc<TlsCertificates>,
    /// Keys of those who may sign (REP-86).
    pub keyring: Keyring,
    /// Text of the SSH known hosts (REP-81).
    pub known_hosts: Arc<str>,
    /// Settings objects that cannot be followed any more, with the effect (API-89).
    pub settings_problems: BTreeMap<String, String>,
    /// What is wrong with all this, for the log.
    pub warnings: Vec<String>,
}

impl Installation {
    /// Builds a snapshot. Parts that cannot be read become warnings; their defaults are in force (CTL-132).
    pub fn build(data: &InstallationData) -> Self {
        Self::after(None, data)
    }

    /// The same, following a snapshot with these tracking settings: of those whatever is wrong now stays (TRK-9).
    pub fn after(before: Option<&TrackingSettings>, data: &InstallationData) -> Self {
        let config =
            |name: &str| data.config_maps.get(name).map(|object| objects::texts(object)).unwrap_or_default();
        let settings = Settings::new(SettingsData {
            cm: config(names::SETTINGS_CONFIG_MAP),
            params: config(names::PARAMS_CONFIG_MAP),
            rbac: config(names::RBAC_CONFIG_MAP),
            secret: data
                .secrets
                .get(names::SECRET)
                .map(|secret| objects::decoded(secret))
                .unwrap_or_default(),
            env: data.env.clone(),
        });
        let mut warnings = settings.warnings().to_vec();
        warnings.extend(support::reports(&settings));
        let tracking = TrackingSettings::after(before, settings.cm(), &data.namespace);
        warnings.extend(tracking.problems.iter().cloned());
        let secrets = Secrets::read(data, &mut warnings);
        let duplicates = repository::duplicates(&secrets.repositories, &secrets.templates);
        warnings
            .extend(duplicates.iter().map(|url| format!("Found multiple credentials for repoURL: {url}")));
        let tls_certificates = TlsCertificates::read(&config(names::TLS_CERTS_CONFIG_MAP));
        warnings.extend(tls_certificates.problems().map(|(host, why)| {
            format!(
                "ConfigMap {}: entry {host}: {why}; nothing is read from this host",
                names::TLS_CERTS_CONFIG_MAP
            )
        }));
        let keyring = Keyring::read(&config(names::GPG_KEYS_CONFIG_MAP));
        let bad_keys = keyring.problems().iter();
        warnings
            .extend(bad_keys.map(|problem| format!("ConfigMap {}: {problem}", names::GPG_KEYS_CONFIG_MAP)));
        let clusters = Clusters::new(secrets.clusters, settings.in_cluster_enabled()).beside(secrets.unread);
        let (stored, bad_projects) = stored_projects(data, &mut warnings);
        let inputs = EffectiveInputs {
            projects: &stored,
            repositories: &secrets.repositories,
            clusters: clusters.all(),
            settings: &settings,
        };
        let effective =
            |project: &AppProject| (project.name().to_owned(), Arc::new(effective(project, &inputs)));
        let projects = stored.iter().map(effective).collect();
        let mut installation = Self {
            namespace: data.namespace.clone(),
            tracking,
            projects,
            bad_projects,
            clusters,
            duplicates,
            repositories: secrets.repositories,
            templates: secrets.templates,
            write_repositories: secrets.write_repositories,
            write_templates: secrets.write_templates,
            known_hosts: config(names::KNOWN_HOSTS_CONFIG_MAP)
                .remove(names::KNOWN_HOSTS_KEY)
                .unwrap_or_default()
                .into(),
            tls_certificates: Arc::new(tls_certificates),
            keyring,
            settings,
            settings_problems: data.settings_problems.clone(),
            warnings,
        };
        installation.warnings.extend(installation.refused_templates());
        installation
    }

    /// Looks a project up. One that cannot be read is not one that is missing (INV-15).
    ///
    /// # Errors
    /// When there is none, or none that can be read.
    pub fn project(&self, name: &str) -> Result<&Arc<AppProject>, NoProject<'_>> {
        match (self.projects.get(name), self.bad_projects.get(name)) {
            (Some(project), _) => Ok(project),
            (None, Some(text)) => Err(NoProject::Unreadable(text)),
            (None, None) => Err(NoProject::Missing),
        }
    }

    /// Whether a project permits a namespace of a cluster as a destination (REP-140..146).
    pub fn permits(&self, project: &AppProject, cluster: &Cluster, namespace: &str) -> Decision {
        let (target, clusters) = (Target::new(cluster, namespace), Ok(self.clusters.all()));
        destination_permitted(project, target, clusters, self.settings.project_matching())
    }

    /// What vouches for the server of a repository, in a form that is equal as long as it does not change.
    pub fn vouchers(&self, url: &str) -> Vouchers<'_> {
        let Ok(location) = Location::parse(url) else { return Vouchers::Nobody };
        match location.scheme() {
            Scheme::Https | Scheme::Http => Vouchers::Tls(self.tls_certificates.of(location.host())),
            Scheme::Ssh => Vouchers::Ssh(&self.known_hosts),
            Scheme::Git | Scheme::File => Vouchers::Nobody,
        }
    }

    /// Checks the spec of an application, and says what it means here (API-126, CTL section 1.4).
    ///
    /// # Errors
    /// What is wrong with it, in the words of its conditions.
    pub fn check_spec(&self, app: &Application) -> Result<Checked<'_>, Vec<Finding>> {
        let facts = Facts {
            project: match self.project(app.project()) {
                Ok(project) => ProjectLookup::Found(project),
                Err(NoProject::Missing) => ProjectLookup::Missing,
                Err(NoProject::Unreadable(text)) => ProjectLookup::Failed(text),
            },
            clusters: Ok(&self.clusters),
            matching: self.settings.project_matching(),
            control_plane_namespace: &self.namespace,
        };
        let checked = spec_check::check(app, &facts);
        let Some(message) = self.tracking_refusal(app) else { return checked };
        let finding = Finding { kind: ConditionType::InvalidSpecError, message };
        Err(checked.err().unwrap_or_default().into_iter().chain([finding]).collect())
    }

    /// Why an application cannot be marked with its tracking method (TRK-44).
    fn tracking_refusal(&self, app: &Application) -> Option<String> {
        let tracking = self.tracking_of(app);
        let instance = tracking.instance_name(&app.metadata.namespace, &app.metadata.name);
        tracking.label_too_long(&instance)
    }

    /// An application as sync windows see it: by the cluster that its destination means, where the settings say so
    /// (REP-172).
    pub fn window_subject<'a>(&'a self, app: &'a Application) -> Subject<'a> {
        let by_resolved = self.settings.windows_resolve_destinations();
        Subject::new(app, by_resolved.then(|| self.cluster_of(app).ok()).flatten())
    }

    /// The cluster that an application deploys to: of its project, or else of the shared scope (REP-111).
    ///
    /// # Errors
    /// When its destination means none, or several.
    pub fn cluster_of(&self, app: &Application) -> Result<&Cluster, ClusterError> {
        self.clusters.of_project(app.project()).resolve(&app.spec.destination)
    }

    /// What decides about each object of an application of a project on a cluster, and as whom it is written (INV-6,
    /// REP-193).
    pub fn governed<'a>(
        &'a self,
        project: &'a AppProject,
        cluster: &'a Cluster,
        account: Option<&'a Account>,
    ) -> Governed<'a> {
        Governed {
            project,
            cluster: Target::new(cluster, ""),
            clusters: Ok(self.clusters.all()),
            matching: self.settings.project_matching(),
            account,
        }
    }

    /// As whom an application of a project changes a cluster; `None` is the controller itself (REP-190).
    ///
    /// # Errors
    /// When somebody else has to, and no account says who (REP-191).
    pub fn account(
        &self,
        app: &Application,
        project: &AppProject,
        server: &str,
    ) -> Result<Option<Account>, ServiceAccountError> {
        let namespace = &app.spec.destination.namespace;
        impersonated_user(project, &self.settings, server, namespace, &app.metadata.namespace)
    }

    /// Why a project may not read a repository; `None` when it may (REP-137).
    pub fn repository_refusal(&self, project: &AppProject, url: &str) -> Option<String> {
        source_permitted(project, url, self.settings.project_matching()).message
    }

    /// What has to be signed in a repository before it is used for a project; `None` when nothing has to (REP-200).
    ///
    /// # Errors
    /// When the rules of the project cannot be followed: then nothing may be used.
    pub fn signature_rule(
        &self,
        project: &AppProject,
        url: &str,
    ) -> Result<Option<SignatureRule>, SignaturePolicyError> {
        SignatureRule::of(project, &self.settings, url)
    }

    /// Everything that decides whether signatures are enough, in a form that is equal as long as it is: the rule of each
    /// source and the keys. What was accepted under another one was not accepted (RND-52).
    pub fn integrity(&self, project: &AppProject, urls: &mut dyn Iterator<Item = &str>) -> Vec<u8> {
        let mut identity = Vec::new();
        for url in urls {
            match self.signature_rule(project, url) {
                Ok(None) => {}
                Ok(Some(rule)) => {
                    identity.extend(url.bytes().chain([0]));
                    identity.extend(rule.identity());
                    identity.extend(self.keyring.digest());
                }
                Err(error) => identity.extend(error.to_string().into_bytes()),
            }
        }
        identity
    }

    /// Tracking settings of one application: the system's with its effective method (TRK-110).
    pub fn tracking_of(&self, app: &Application) -> TrackingSettings {
        self.tracking.of_application(app.annotation(names::annotation::TRACKING_METHOD))
    }

    /// What the settings say of tracking, as they say it: key and value of each that is set.
    pub fn said_of_tracking(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let said = |name: &'static str| Some((name, self.settings.cm().get(name)?.as_str()));
        tracking::setting::ALL.into_iter().filter_map(said)
    }

    /// Under which tracking settings an application was synced last (TRK-103, TRK-104). `tracking` are its own in force.
    pub fn previous_tracking_of(&self, app: &Application, tracking: &TrackingSettings) -> Previous {
        let stored = app.annotation(names::annotation::TRACKING_PROFILE);
        tracking.previous(stored, || tracking::applied(&app.status.resources))
    }
}

/// What the Secrets declare.
#[derive(Default)]
struct Secrets {
    clusters: Vec<Cluster>,
    repositories: Vec<Repository>,
    templates: Vec<CredentialTemplate>,
    write_repositories: Vec<Repository>,
    write_templates: Vec<CredentialTemplate>,
    /// Those that cannot be read, and may be a cluster's.
    unread: Vec<UnreadCluster>,
}

impl Secrets {
    fn read(data: &InstallationData, warnings: &mut Vec<String>) -> Self {
        let mut found = Self { unread: data.bad_secrets.values().cloned().collect(), ..Self::default() };
        let told = |unread: &UnreadCluster| {
            format!("Secret {} cannot be read: {}", unread.secret_name, unread.reason)
        };
        warnings.extend(found.unread.iter().map(told));
        for secret in data.secrets.values() {
            let metadata = match objects::metadata(secret) {
                Ok(metadata) => metadata,
                Err(error) => {
                    warnings.push(format!("Secret {} cannot be read: {error}", secret.name()));
                    let name = secret.name();
                    found.unread.extend(objects::unread_cluster(name, &secret.raw(), error.to_string()));
                    continue;
                }
            };
            let about = |data: &BTreeMap<String, String>| {
                let texts = support::repository_reports(data).into_iter();
                texts.map(|text| format!("repository Secret {}: {text}", metadata.name)).collect::<Vec<_>>()
            };
            let kind = secret.label(names::SECRET_TYPE_LABEL).unwrap_or_default();
            match kind {
                "repository" | "repository-write" => {
                    let data = objects::decoded(secret);
                    warnings.extend(about(&data));
                    let of_kind = match kind {
                        "repository" => &mut found.repositories,
                        _ => &mut found.write_repositories,
                    };
                    of_kind.push(Repository::from_secret(&metadata, &data));
                }
                "repo-creds" | "repo-write-creds" => {
                    let data = objects::decoded(secret);
                    warnings.extend(about(&data));
                    let of_kind =
                        if kind == "repo-creds" { &mut found.templates } else { &mut found.write_templates };
                    of_kind.push(CredentialTemplate::from_secret(&metadata, &data));
                }
                "cluster" => {
                    let cluster = Cluster::from_secret(&metadata, &objects::decoded(secret));
                    let server = &cluster.server;
                    warnings.extend(cluster.warnings.iter().map(|text| format!("cluster {server}: {text}")));
                    warnings.extend(lent_identity(&cluster));
                    found.clusters.push(cluster);
                }
                _ => {}
            }
        }
        found
    }
}

/// What a stored entry of a project lends, which the API gives with a right of the shared scope only (A3): an entry that
/// an older version or another tool stored looks the same.
fn lent_identity(cluster: &Cluster) -> Option<String> {
    let is_lent = !cluster.project.is_empty() && cluster.parse_config().is_ok() && cluster.lends_identity();
    is_lent.then(|| {
        let Cluster { server, project, secret_name, .. } = cluster;
        format!(
            "cluster {server} of project {project} is reached with the controller's own identity; if no administrator \
             gave it to the project, delete Secret {secret_name}, or give the entry credentials of its own"
        )
    })
}

/// The projects as they are stored, and those that cannot be read with the reasons.
fn stored_projects(
    data: &InstallationData,
    warnings: &mut Vec<String>,
) -> (Vec<AppProject>, BTreeMap<String, String>) {
    let mut stored: Vec<AppProject> = Vec::new();
    let mut bad = data.bad_projects.clone();
    for object in data.projects.values() {
        match serde_json::from_slice(&object.raw()) {
            Ok(project) => stored.push(project),
            Err(error) => drop(bad.insert(object.name().to_owned(), error.to_string())),
        }
    }
    for (name, text) in &mut bad {
        *text = format!("project {name} cannot be read: {text}");
    }
    warnings.extend(bad.values().cloned());
    let has_git = |project: &&AppProject| {
        project.spec.source_integrity.as_ref().is_some_and(|integrity| integrity.git.is_some())
    };
    let shadowed = stored.iter().filter(|project| !project.spec.signature_keys.is_empty()).filter(has_git);
    warnings.extend(shadowed.map(|project| {
        let name = project.name();
        format!("project {name}: no effect of signatureKeys: sourceIntegrity.git says who may sign (REP-201)")
    }));
    (stored, bad)
}

#[cfg(test)]
mod tests;
