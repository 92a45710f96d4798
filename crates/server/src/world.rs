//! What the API server knows of its installation, as one immutable snapshot: settings, accounts, the policy of roles.

use std::time::Duration;

use tiphys_api::secret::Secret;
use tiphys_installation::{Installation, InstallationData};
use tiphys_policy::rbac::{InForce, Rbac, RbacConfig, RbacOptions};
use tiphys_service::account::Accounts;

use crate::session::session_duration;

/// Key of `argocd-secret` with the key that tokens are signed with.
const SIGNING_KEY: &str = "server.secretkey";
/// A former one, which verifies and does not sign (API-43).
const PREVIOUS_KEY: &str = "server.secretkey.previous";

/// One snapshot.
#[derive(Clone)]
pub struct World {
    /// Settings, projects, repositories, clusters.
    pub installation: Installation,
    /// Local accounts.
    pub accounts: Accounts,
    /// How long a session lasts.
    pub session_duration: Duration,
    policy: InForce,
    warnings: Vec<String>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("namespace", &self.installation.namespace).finish_non_exhaustive()
    }
}

impl World {
    /// Builds a snapshot from what the installation is made of. A policy that cannot be read leaves the former one in
    /// force, at the first time the built-in one (API-89).
    pub fn build(data: &InstallationData, old: Option<&Self>) -> Self {
        let installation = Installation::after(old.map(|old| &old.installation.tracking), data);
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
        let accounts = Accounts::read(settings);
        warnings.extend(accounts.warnings().iter().cloned());
        let (session_duration, warning) = session_duration(settings);
        warnings.extend(warning);
        Self { accounts, session_duration, policy, warnings, installation }
    }

    /// What has no effect, in words for the log.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        self.warnings.iter().chain(&self.installation.warnings)
    }

    /// The policy of roles.
    pub fn rbac(&self) -> &Rbac {
        self.policy.policy()
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
