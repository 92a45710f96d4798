//! The account a sync impersonates (REP C10).

use tiphys_api::AppProject;
use tiphys_api::settings::Settings;
use tiphys_go::glob::Glob;

/// Characters no account may contain.
pub(super) const FORBIDDEN: &[char] = &['!', '*', '[', ']', '{', '}', '\\', '/'];

/// Why no account can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceAccountError {
    /// A pattern does not compile.
    #[error("invalid glob pattern for destination {field}: {reason}")]
    Pattern {
        /// `server` or `namespace`.
        field: &'static str,
        /// Cause.
        reason: String,
    },
    /// The account is not a name.
    #[error("default service account contains invalid chars '{0}'")]
    Account(String),
    /// Nothing matches, and a match is required (REP-191).
    #[error("no matching service account found for destination server {server} and namespace {namespace}")]
    NoMatch {
        /// Server of the destination.
        server: String,
        /// Namespace of the destination.
        namespace: String,
    },
}

/// A user of a cluster that changes are made as, in the place of the controller (REP-190).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account(String);

impl Account {
    /// The user name, for example `system:serviceaccount:team:deployer`.
    pub fn user(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The user of the first entry that matches; `None` when none does (REP-190).
pub fn service_account(
    project: &AppProject,
    server: &str,
    destination_namespace: &str,
    application_namespace: &str,
) -> Result<Option<String>, ServiceAccountError> {
    for item in &project.spec.destination_service_accounts {
        let compile = |field, pattern: &str| {
            Glob::new(pattern, &[])
                .map_err(|error| ServiceAccountError::Pattern { field, reason: error.to_string() })
        };
        let server_matches = compile("server", &item.server)?.is_match(server);
        let namespace_matches = compile("namespace", &item.namespace)?.is_match(destination_namespace);
        if !(server_matches && namespace_matches) {
            continue;
        }
        let account = &item.default_service_account;
        if account.trim().is_empty() || account.contains(FORBIDDEN) {
            return Err(ServiceAccountError::Account(account.clone()));
        }
        if account.contains(':') {
            return Ok(Some(format!("system:serviceaccount:{account}")));
        }
        let namespace =
            if destination_namespace.is_empty() { application_namespace } else { destination_namespace };
        return Ok(Some(format!("system:serviceaccount:{namespace}:{account}")));
    }
    Ok(None)
}

/// The user to act as; `None` is the controller itself (REP-190, 191).
pub fn impersonated_user(
    project: &AppProject,
    settings: &Settings,
    server: &str,
    destination_namespace: &str,
    application_namespace: &str,
) -> Result<Option<Account>, ServiceAccountError> {
    if !settings.impersonation_enabled() {
        return Ok(None);
    }
    match service_account(project, server, destination_namespace, application_namespace)? {
        None if settings.impersonation_enforced() => Err(ServiceAccountError::NoMatch {
            server: server.to_owned(),
            namespace: destination_namespace.to_owned(),
        }),
        user => Ok(user.map(Account)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tiphys_api::project::DestinationServiceAccount;
    use tiphys_api::settings::SettingsData;

    use super::*;

    fn project(items: &[(&str, &str, &str)]) -> AppProject {
        let mut project = AppProject::default();
        project.spec.destination_service_accounts = items
            .iter()
            .map(|(server, namespace, account)| DestinationServiceAccount {
                server: (*server).to_owned(),
                namespace: (*namespace).to_owned(),
                default_service_account: (*account).to_owned(),
            })
            .collect();
        project
    }

    #[test]
    fn rep_190_the_first_match_names_the_user() {
        let shop = project(&[
            ("https://eu.*", "shop", "cd"),
            ("https://eu.*", "*", "ops:deployer"),
            ("*", "", "local"),
        ]);
        let user = |server: &str, namespace: &str| service_account(&shop, server, namespace, "apps").unwrap();
        let eu = "https://eu.acme.test";
        assert_eq!(user(eu, "shop").as_deref(), Some("system:serviceaccount:shop:cd"));
        assert_eq!(user(eu, "other").as_deref(), Some("system:serviceaccount:ops:deployer"));
        assert_eq!(user("https://us", "").as_deref(), Some("system:serviceaccount:apps:local"));
        assert_eq!(user("https://us", "shop"), None);
    }

    #[test]
    fn rep_191_bad_accounts_and_patterns_are_errors() {
        for account in ["", " ", "a*", "a/b", "!a", "a\\b", "{a}"] {
            let error = service_account(&project(&[("*", "*", account)]), "s", "ns", "a").unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("default service account contains invalid chars '{account}'")
            );
        }
        let error = service_account(&project(&[("[", "*", "a")]), "s", "ns", "a").unwrap_err();
        assert!(error.to_string().starts_with("invalid glob pattern for destination server: "), "{error}");
    }

    #[test]
    fn rep_191_no_match_is_an_error_unless_not_enforced() {
        let settings = |pairs: &[(&str, &str)]| {
            let cm: BTreeMap<String, String> =
                pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Settings::new(SettingsData { cm, ..SettingsData::default() })
        };
        let enabled = ("application.sync.impersonation.enabled", "true");
        let none = project(&[]);
        let user = |settings: &Settings| impersonated_user(&none, settings, "s", "ns", "argocd");
        assert_eq!(user(&settings(&[])), Ok(None));
        assert_eq!(
            user(&settings(&[enabled])).unwrap_err().to_string(),
            "no matching service account found for destination server s and namespace ns"
        );
        let lax = ("application.sync.impersonation.enforced", "false");
        assert_eq!(user(&settings(&[enabled, lax])), Ok(None));
        // Where an account is named it is the one that acts, whatever else is enforced.
        let named = project(&[("s", "shop", "deployer")]);
        for settings in [settings(&[enabled]), settings(&[enabled, lax])] {
            let user = impersonated_user(&named, &settings, "s", "shop", "argocd").unwrap().unwrap();
            assert_eq!(user.to_string(), "system:serviceaccount:shop:deployer");
        }
        assert_eq!(impersonated_user(&named, &settings(&[]), "s", "shop", "argocd"), Ok(None));
    }
}
