//! What the API server knows of its installation, as one immutable snapshot: settings, accounts, the policy of roles.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;
use tiphys_api::AppProject;
use tiphys_api::account::{Account, AccountError, Accounts};
use tiphys_api::names::{PART_OF, PART_OF_LABEL, SECRET_TYPE_LABEL};
use tiphys_api::secret::Secret;
use tiphys_installation::{Installation, InstallationData, objects};
use tiphys_notify::Names;
use tiphys_object::{Object, is_newer};
use tiphys_policy::rbac::{InForce, Rbac, RbacConfig, RbacOptions};
use tiphys_service::Secrets;
use tiphys_service::account::AccountCallError;
use tokio::sync::watch;

use crate::extension::{self, Extensions};
use crate::session::session_duration;
use crate::sso::SsoSettings;

/// Key of `argocd-secret` with the key that tokens are signed with.
const SIGNING_KEY: &str = "server.secretkey";
/// A former one, which verifies and does not sign (API-43).
const PREVIOUS_KEY: &str = "server.secretkey.previous";

/// Secret with the certificate of the port (API-4).
pub(crate) const TLS_SECRET: &str = "argocd-server-tls";

/// The objects that a snapshot is made from.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Those that say what the installation is.
    pub data: InstallationData,
    /// Secrets that settings may refer to, and that of the port's certificate.
    pub secrets: BTreeMap<String, Arc<Object>>,
}

/// One snapshot.
#[derive(Clone)]
pub struct World {
    /// Settings, projects, repositories, clusters.
    pub installation: Installation,
    /// Local accounts, or why nobody knows which there are.
    accounts: Result<Accounts, AccountError>,
    /// How long a session lasts.
    pub session_duration: Duration,
    /// Secrets that settings may refer to.
    secrets: BTreeMap<String, Arc<Object>>,
    /// Secrets that declare repositories, clusters and templates.
    declaring: BTreeMap<String, Arc<Object>>,
    /// Versions of the projects.
    projects: BTreeMap<String, SmolStr>,
    /// Told of every further snapshot.
    news: Arc<watch::Sender<u64>>,
    policy: InForce,
    open: Rbac,
    warnings: Vec<String>,
    /// What the configuration of notifications has.
    pub notifications: Names,
    /// How people are signed in by an identity provider.
    sso: Option<Arc<SsoSettings>>,
    /// Where requests about applications are handed on to (API-220).
    extensions: Arc<Extensions>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("namespace", &self.installation.namespace).finish_non_exhaustive()
    }
}

impl World {
    /// Builds a snapshot from what the installation is made of. A policy that cannot be read leaves the former one in
    /// force, at the first time the built-in one (API-89).
    pub fn build(seen: &Seen, old: Option<&Self>) -> Self {
        let installation = Installation::after(old.map(|old| &old.installation.tracking), &seen.data);
        let settings = &installation.settings;
        let compiled = RbacConfig::read(settings.rbac()).and_then(|config| {
            let rbac = Rbac::compile(&config)?;
            Ok((rbac, config.warnings))
        });
        let mut warnings = Vec::new();
        let compiled = compiled.map(|(rbac, found)| {
            warnings.extend(found.into_iter().map(|text| format!("argocd-rbac-cm: {text}")));
            warnings.extend(rbac.warnings().iter().cloned());
            rbac
        });
        let mut policy = match old {
            Some(old) => old.policy.clone().after(compiled),
            None => InForce::begin(compiled),
        };
        if let Some(problem) = policy.problem() {
            warnings.push(format!("argocd-rbac-cm: {problem}; the former policy stays in force"));
        }
        let rbac = policy.policy_mut();
        let gone: Vec<String> = old.map_or_else(Vec::new, |old| {
            let former = old.installation.projects.keys();
            former.filter(|name| !installation.projects.contains_key(*name)).cloned().collect()
        });
        for name in gone {
            rbac.remove_project(&name);
        }
        for project in installation.projects.values() {
            rbac.set_project(project);
            if let Some(problem) = rbac.project_problem(project.name()) {
                warnings.push(format!("project {}: its roles have no effect: {problem}", project.name()));
            }
        }
        *rbac = rbac.clone().with_options(RbacOptions::from_settings(settings));
        let accounts = settings.accounts();
        match &accounts {
            Ok(found) => warnings.extend(found.warnings.iter().cloned()),
            Err(error) => warnings.push(format!("nobody can log in: {error}")),
        }
        let (session_duration, warning) = session_duration(settings);
        warnings.extend(warning);
        let look_up = |secret: Option<&str>, key: &str| match secret {
            Some(name) => referred(&seen.secrets, name, key),
            None => settings.secret(key),
        };
        let sso = SsoSettings::read(settings, &look_up, &mut warnings).map(Arc::new);
        let mut found = Vec::new();
        let extensions = extension::read(settings.cm(), &look_up, &mut found);
        warnings.extend(found.into_iter().map(|text| format!("argocd-cm: extension.config: {text}")));
        let extensions = match extensions {
            Ok(extensions) => Arc::new(extensions),
            Err(error) => {
                warnings.push(format!("argocd-cm: {error}; the former extensions stay in force"));
                old.map(|old| Arc::clone(&old.extensions)).unwrap_or_default()
            }
        };
        let everything = RbacConfig::of_text("", "p, , *, *, *, allow\n");
        let open = everything.and_then(|config| Rbac::compile(&config));
        // The line above can be read; without it nobody may anything.
        let open =
            open.unwrap_or_else(|_| InForce::begin(Rbac::compile(&RbacConfig::default())).policy().clone());
        let notifications = seen.data.config_maps.get(tiphys_notify::CONFIG_MAP);
        let notifications =
            notifications.map(|object| Names::of(&objects::texts(object))).unwrap_or_default();
        let version = |object: &Arc<Object>| object.metadata().resource_version.clone();
        Self {
            secrets: seen.secrets.clone(),
            declaring: seen.data.secrets.clone(),
            projects: seen
                .data
                .projects
                .iter()
                .map(|(name, object)| (name.clone(), version(object)))
                .collect(),
            news: old.map_or_else(|| Arc::new(watch::Sender::new(0)), |old| Arc::clone(&old.news)),
            installation,
            accounts,
            session_duration,
            policy,
            open,
            warnings,
            notifications,
            sso,
            extensions,
        }
    }

    /// What has no effect, in words for the log.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        self.warnings.iter().chain(&self.installation.warnings)
    }

    /// The Secrets that declare repositories, templates and clusters, as the service layer takes them.
    pub(crate) fn secrets(&self) -> Secrets {
        Secrets::new(self.namespace(), self.declaring.values().map(Arc::clone))
    }

    /// A Secret that settings may refer to, or that of the port.
    pub(crate) fn secret(&self, name: &str) -> Option<&Arc<Object>> {
        self.secrets.get(name)
    }

    /// All projects that can be read.
    pub(crate) fn projects(&self) -> Vec<AppProject> {
        self.installation.projects.values().map(|project| AppProject::clone(project)).collect()
    }

    /// Whether the snapshot has a project in this version, or a later one.
    pub(crate) fn has_project(&self, name: &str, wanted: &str) -> bool {
        self.projects.get(name).is_some_and(|version| is_at_least(version, wanted))
    }

    /// Whether the snapshot has a Secret that settings may refer to in this version, or a later one.
    pub(crate) fn has_secret(&self, name: &str, wanted: &str) -> bool {
        let version = |object: &Arc<Object>| object.metadata().resource_version.clone();
        self.secrets.get(name).is_some_and(|object| is_at_least(&version(object), wanted))
    }

    /// Whether the snapshot has what was written to Secrets.
    pub(crate) fn has_seen(&self, written: &Secrets) -> bool {
        written.touched().all(|(name, object)| match (self.declaring.get(name), object) {
            (Some(seen), Some(object)) => {
                is_at_least(&seen.metadata().resource_version, &object.metadata().resource_version)
            }
            (None, Some(object)) => object.label(SECRET_TYPE_LABEL).is_none(),
            (seen, None) => seen.is_none(),
        })
    }

    /// Told of every further snapshot.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Tells those who wait for a snapshot that it is in force.
    pub(crate) fn announce(&self) {
        self.news.send_modify(|number| *number += 1);
    }

    /// Local accounts.
    ///
    /// # Errors
    /// When nobody knows which there are (API-44).
    pub fn accounts(&self) -> Result<&Accounts, AccountCallError> {
        self.accounts.as_ref().map_err(|error| error.clone().into())
    }

    /// One local account.
    ///
    /// # Errors
    /// When there is none, or nobody knows.
    pub fn account(&self, name: &str) -> Result<&Account, AccountCallError> {
        self.accounts()?.all.get(name).ok_or_else(|| AccountCallError::NotFound(name.to_owned()))
    }

    /// The policy of roles.
    pub fn rbac(&self) -> &Rbac {
        self.policy.policy()
    }

    /// A policy that allows everything, for where nobody is asked (API-32).
    pub(crate) fn open(&self) -> &Rbac {
        &self.open
    }

    /// The claims that hold groups (API-90).
    pub(crate) fn scopes(&self) -> impl Iterator<Item = &str> {
        self.rbac().scopes()
    }

    /// What is wrong with the policy that somebody wrote.
    pub fn policy_problem(&self) -> Option<String> {
        self.policy.problem().map(ToString::to_string)
    }

    /// The control plane's namespace.
    pub fn namespace(&self) -> &str {
        &self.installation.namespace
    }

    /// A key of `argocd-cm`; empty when it is not set.
    pub fn setting(&self, key: &str) -> &str {
        self.installation.settings.cm().get(key).map_or("", String::as_str)
    }

    /// Whether a key of `argocd-cm` is `"true"`.
    pub fn is_set(&self, key: &str) -> bool {
        matches!(self.setting(key), "1" | "t" | "T" | "TRUE" | "true" | "True")
    }

    /// The proxy extensions.
    pub(crate) fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// How people are signed in by an identity provider; `None` where they are not (API-61).
    pub(crate) fn sso(&self) -> Option<&Arc<SsoSettings>> {
        self.sso.as_ref()
    }

    /// The key that tokens are signed with; empty when there is none.
    pub(crate) fn signing_key(&self) -> Secret<String> {
        self.installation.settings.secret(SIGNING_KEY).unwrap_or_default()
    }

    /// The keys that tokens may be signed with.
    pub(crate) fn verifying_keys(&self) -> Vec<Secret<String>> {
        let keys = [SIGNING_KEY, PREVIOUS_KEY].map(|key| self.installation.settings.secret(key));
        keys.into_iter().flatten().filter(|key| !key.is_empty()).collect()
    }
}

/// A key of a Secret that settings may refer to: one with the label of the installation (API-60, API-228).
fn referred(secrets: &BTreeMap<String, Arc<Object>>, secret: &str, key: &str) -> Option<Secret<String>> {
    let object = secrets.get(secret).filter(|object| object.label(PART_OF_LABEL) == Some(PART_OF))?;
    objects::decoded(object).remove(key).map(Secret::new)
}

/// Whether a version of the cluster is another one or a later one.
fn is_at_least(version: &str, wanted: &str) -> bool {
    !is_newer(wanted, version)
}
