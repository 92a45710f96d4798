//! The resources and actions there are (API-58, API-102, ASET-279).

/// A kind of thing that rights are given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Clusters.
    Clusters,
    /// Projects.
    Projects,
    /// Applications and their resources.
    Applications,
    /// `ApplicationSets`.
    ApplicationSets,
    /// Repositories and credential templates.
    Repositories,
    /// The same for pushes of hydrated manifests.
    WriteRepositories,
    /// TLS certificates and SSH host keys.
    Certificates,
    /// Local accounts.
    Accounts,
    /// Keys that sign commits.
    GpgKeys,
    /// Logs of pods.
    Logs,
    /// Terminals in pods.
    Exec,
    /// Proxy extensions.
    Extensions,
}

/// The actions without a path that there are; the first nine in the order of API-58.
pub(super) const ACTIONS: [&str; 10] =
    ["get", "create", "update", "delete", "sync", "rollback", "override", "action", "invoke", "unscoped"];

/// Actions of Argo CD, which its clients know.
pub(super) const COMPATIBLE_ACTIONS: usize = 9;

/// Actions that a path may follow: `action/apps/Deployment/restart`.
const WITH_PATH: [&str; 3] = ["action", "update", "delete"];

impl Resource {
    /// All of them, in the order of API-58.
    pub const ALL: [Self; 12] = [
        Self::Clusters,
        Self::Projects,
        Self::Applications,
        Self::ApplicationSets,
        Self::Repositories,
        Self::WriteRepositories,
        Self::Certificates,
        Self::Accounts,
        Self::GpgKeys,
        Self::Logs,
        Self::Exec,
        Self::Extensions,
    ];

    /// The word of policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clusters => "clusters",
            Self::Projects => "projects",
            Self::Applications => "applications",
            Self::ApplicationSets => "applicationsets",
            Self::Repositories => "repositories",
            Self::WriteRepositories => "write-repositories",
            Self::Certificates => "certificates",
            Self::Accounts => "accounts",
            Self::GpgKeys => "gpgkeys",
            Self::Logs => "logs",
            Self::Exec => "exec",
            Self::Extensions => "extensions",
        }
    }

    /// Its place in [`Resource::ALL`], as [`bit_of`] says it.
    pub(super) fn bit(self) -> u16 {
        bit_of(Self::ALL.into_iter().map(Self::as_str), self.as_str())
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.as_str() == word)
    }

    /// Reads the word or one of the short forms of the command line (CLI-910).
    pub fn parse_alias(word: &str) -> Option<Self> {
        Some(match word {
            "app" | "apps" | "application" => Self::Applications,
            "cert" | "certs" => Self::Certificates,
            "cluster" => Self::Clusters,
            "key" | "gpgkey" => Self::GpgKeys,
            "log" | "logs" => Self::Logs,
            "proj" | "projs" | "project" => Self::Projects,
            "repo" | "repos" => Self::Repositories,
            "account" => Self::Accounts,
            _ => return Self::parse(word),
        })
    }

    /// The actions without a path that are asked for with this resource (API-102).
    pub fn actions(self) -> &'static [&'static str] {
        match self {
            Self::Applications => {
                &["get", "create", "update", "delete", "sync", "rollback", "override", "action"]
            }
            Self::ApplicationSets => &["get", "create", "update", "delete", "unscoped"],
            Self::Clusters | Self::Projects | Self::Repositories | Self::WriteRepositories => {
                &["get", "create", "update", "delete"]
            }
            Self::Certificates => &["get", "create", "update", "delete"],
            Self::GpgKeys => &["get", "create", "delete"],
            Self::Accounts => &["get", "update"],
            Self::Logs => &["get"],
            Self::Exec => &["create"],
            Self::Extensions => &["invoke"],
        }
    }

    /// Whether an action is asked for with this resource; `action`, `update` and `delete` of applications may have a
    /// path behind them (API-102).
    pub fn has_action(self, action: &str) -> bool {
        match action.split_once('/') {
            Some((head, _)) => self == Self::Applications && WITH_PATH.contains(&head),
            None => self.actions().contains(&action),
        }
    }

    /// Whether objects of it have the project as their first part (API-95).
    pub fn is_in_project(self) -> bool {
        match self {
            Self::Applications
            | Self::ApplicationSets
            | Self::Repositories
            | Self::Clusters
            | Self::Logs
            | Self::Exec => true,
            Self::Projects
            | Self::WriteRepositories
            | Self::Certificates
            | Self::Accounts
            | Self::GpgKeys
            | Self::Extensions => false,
        }
    }
}

/// Whether an action is known, alone or with a path (API-58).
pub(super) fn is_action(action: &str) -> bool {
    match action.split_once('/') {
        Some((head, rest)) => WITH_PATH.contains(&head) && !rest.is_empty(),
        None => ACTIONS.contains(&action),
    }
}

/// A request as bits: one of the known words, or none.
pub(super) fn bit_of(words: impl Iterator<Item = &'static str>, word: &str) -> u16 {
    words.zip(0u32..).find(|(known, _)| *known == word).map_or(0, |(_, at)| 1 << at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_910_resources_have_short_forms() {
        for (word, resource) in [
            ("app", Resource::Applications),
            ("apps", Resource::Applications),
            ("certs", Resource::Certificates),
            ("gpgkey", Resource::GpgKeys),
            ("log", Resource::Logs),
            ("projs", Resource::Projects),
            ("repo", Resource::Repositories),
            ("account", Resource::Accounts),
            ("write-repositories", Resource::WriteRepositories),
        ] {
            assert_eq!(Resource::parse_alias(word), Some(resource), "{word}");
        }
        assert_eq!(Resource::parse_alias("pods"), None);
        assert_eq!(Resource::parse("app"), None);
    }

    #[test]
    fn api_102_resources_have_actions() {
        assert!(Resource::Applications.has_action("action/apps/Deployment/restart"));
        assert!(Resource::Applications.has_action("delete/*"));
        assert!(!Resource::Applications.has_action("sync/x"));
        assert!(!Resource::ApplicationSets.has_action("sync"));
        assert!(!Resource::ApplicationSets.has_action("update/x"));
        assert!(Resource::Extensions.has_action("invoke") && !Resource::Logs.has_action("invoke"));
        for resource in Resource::ALL {
            assert_eq!(Resource::parse(resource.as_str()), Some(resource));
            assert!(resource.actions().iter().all(|action| is_action(action)));
        }
    }
}
