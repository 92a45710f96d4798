//! Whom a change of settings, projects, clusters or repositories concerns; nobody else is compared because of it.

use std::collections::{BTreeMap, HashMap};

use tiphys_api::support;
use tiphys_lifecycle::refresh::Level;

use crate::store::Declared;
use crate::world::World;

/// What is different between two snapshots, as far as applications are concerned.
pub(crate) struct Affected<'a> {
    old: &'a World,
    new: &'a World,
    settings: bool,
    clusters: bool,
    projects: bool,
    repositories: bool,
    /// Whether other servers are trusted, or other signatures.
    trust: bool,
    /// Answers for a URL and a project: many applications share one.
    credentials: HashMap<(String, String), bool>,
}

impl<'a> Affected<'a> {
    /// Compares two snapshots.
    pub(crate) fn between(old: &'a World, new: &'a World) -> Self {
        Self {
            old,
            new,
            settings: settings_differ(old.settings.cm(), new.settings.cm()),
            clusters: old.clusters != new.clusters,
            projects: old.projects != new.projects || old.bad_projects != new.bad_projects,
            repositories: old.repositories != new.repositories || old.templates != new.templates,
            trust: old.tls_certificates != new.tls_certificates
                || old.known_hosts != new.known_hosts
                || old.keyring != new.keyring,
            credentials: HashMap::new(),
        }
    }

    /// Whether no application is concerned.
    pub(crate) fn is_nothing(&self) -> bool {
        !(self.settings || self.clusters || self.projects || self.repositories || self.trust)
    }

    /// How one application is to be looked at; `None` when nothing that it depends on is different.
    pub(crate) fn level(&mut self, app: &Declared) -> Option<Level> {
        // The rules of a project decide which shared credentials serve it.
        let is_reached = self.repositories || self.trust || self.projects;
        if is_reached && app.repositories.iter().any(|url| self.reaches(url, &app.project)) {
            // What could not be read before may be read now, and the other way round.
            return Some(Level::Latest);
        }
        let (old, new) = (self.old, self.new);
        let is_elsewhere = || match (old.declared_cluster(app), new.declared_cluster(app)) {
            (Ok(old), Ok(new)) => !old.is_same_destination(new),
            (old, new) => old != new,
        };
        let is_judged = || old.project(&app.project) != new.project(&app.project);
        (self.settings || (self.clusters && is_elsewhere()) || (self.projects && is_judged()))
            .then_some(Level::Recent)
    }

    /// Whether an application reaches a repository in another way than before.
    fn reaches(&mut self, url: &str, project: &str) -> bool {
        let (old, new) = (self.old, self.new);
        let differs = || {
            old.vouchers(url) != new.vouchers(url)
                || integrity(old, project, url) != integrity(new, project, url)
                || old.repository(url, project) != new.repository(url, project)
        };
        *self.credentials.entry((url.to_owned(), project.to_owned())).or_insert_with(differs)
    }
}

/// What decides about signatures in a repository for a project.
fn integrity(world: &World, project: &str, url: &str) -> Option<Vec<u8>> {
    let project = world.project(project).ok()?;
    Some(world.integrity(project, &mut std::iter::once(url)))
}

/// Beginnings of keys that have an effect, but on no comparison: on webhooks and on the API server.
const OF_OTHERS: [&str; 21] = [
    "webhook.",
    "additionalUrls",
    "accounts.",
    "dex.",
    "oidc.",
    "admin.enabled",
    "passwordPattern",
    "users.",
    "ui.",
    "help.",
    "ga.",
    "server.",
    "statusbadge.",
    "exec.",
    "extension.",
    "application.links",
    "project.links",
    "resource.links",
    "rbac.",
    "application.sync.requireOverridePrivilegeForRevisionSync",
    "applicationset.unscoped.policy",
];

/// Whether a key that a comparison may depend on is different. Keys without an effect, and those that only webhooks
/// read, are none.
fn settings_differ(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> bool {
    let counts =
        |key: &str| !OF_OTHERS.iter().any(|begin| key.starts_with(begin)) && support::has_effect(key);
    let differs = |(key, value): (&String, &String), other: &BTreeMap<String, String>| {
        counts(key) && other.get(key) != Some(value)
    };
    old.iter().any(|entry| differs(entry, new)) || new.iter().any(|entry| differs(entry, old))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_settings_with_an_effect_on_comparisons_count() {
        let none = map(&[]);
        for key in [
            "ui.bannercontent",
            "accounts.alice",
            "dex.config",
            "webhook.maxPayloadSizeMB",
            "statusbadge.enabled",
            "extension.config",
            "exec.enabled",
            "resource.links",
        ] {
            assert!(!settings_differ(&none, &map(&[(key, "1")])), "{key}");
            assert!(!settings_differ(&map(&[(key, "1")]), &none), "{key}");
        }
        for key in ["resource.exclusions", "resource.customizations.health.a_b", "installationID"] {
            assert!(settings_differ(&none, &map(&[(key, "1")])), "{key}");
            assert!(settings_differ(&map(&[(key, "1")]), &map(&[(key, "2")])), "{key}");
            assert!(!settings_differ(&map(&[(key, "1")]), &map(&[(key, "1")])), "{key}");
        }
    }
}
