//! The project in force: what is stored, plus scoped repositories, clusters and global projects (REP-122, C9).

use std::collections::BTreeMap;

use serde_json::Value;
use tiphys_api::AppProject;
use tiphys_api::cluster::Cluster;
use tiphys_api::project::{OwnedRights, ProjectDestination};
use tiphys_api::repository::Repository;
use tiphys_api::settings::Settings;
use tiphys_object::selector::Selector;

/// What the effective project depends on.
#[derive(Clone, Copy)]
pub struct EffectiveInputs<'a> {
    /// All projects of the control plane.
    pub projects: &'a [AppProject],
    /// All `repository` Secrets.
    pub repositories: &'a [Repository],
    /// All cluster Secrets.
    pub clusters: &'a [Cluster],
    /// For `globalProjects`.
    pub settings: &'a Settings,
}

/// The project all decisions are made on (REP-122). The stored object is not changed.
pub fn effective(project: &AppProject, inputs: &EffectiveInputs<'_>) -> AppProject {
    let mut result = project.clone();
    result.owned = owned(project, inputs);
    for global in global_projects(project, inputs) {
        inherit(&mut result, global);
    }
    result
}

/// What a project may by what belongs to it.
fn owned(project: &AppProject, inputs: &EffectiveInputs<'_>) -> OwnedRights {
    let name = project.name();
    if name.is_empty() {
        return OwnedRights::default();
    }
    let repositories = inputs.repositories.iter().filter(|repository| repository.project == name);
    let clusters = inputs.clusters.iter().filter(|cluster| cluster.project == name);
    let all = ["*".to_owned()];
    let destinations = clusters.flat_map(|cluster| {
        let namespaces = if cluster.namespaces.is_empty() { &all } else { cluster.namespaces.as_slice() };
        namespaces.iter().map(|namespace| ProjectDestination {
            server: cluster.server.clone(),
            namespace: namespace.clone(),
            ..ProjectDestination::default()
        })
    });
    OwnedRights {
        repositories: repositories.map(|repository| repository.url.clone()).collect(),
        destinations: destinations.collect(),
        places: (project.spec.source_repos.len(), project.spec.destinations.len()),
    }
}

/// The global projects that a project inherits from, in the order of the settings.
pub fn global_projects<'a>(project: &AppProject, inputs: &EffectiveInputs<'a>) -> Vec<&'a AppProject> {
    let mut found = Vec::new();
    for entry in inputs.settings.global_projects() {
        // The list ends at the first entry that cannot be used; earlier ones stay (REP-185).
        let Some(selected) = selects(entry.label_selector.as_ref(), &project.metadata.labels) else { break };
        if !selected || entry.project_name == project.name() {
            continue;
        }
        let Some(global) = inputs.projects.iter().find(|p| p.name() == entry.project_name) else { break };
        found.push(global);
    }
    found
}

/// Appends what is inherited (REP-186).
fn inherit(project: &mut AppProject, global: &AppProject) {
    let (own, from) = (&mut project.spec, &global.spec);
    own.cluster_resource_whitelist.extend_from_slice(&from.cluster_resource_whitelist);
    own.cluster_resource_blacklist.extend_from_slice(&from.cluster_resource_blacklist);
    // Inheriting an absent or empty list changes nothing; a non-empty one restricts (REP-187).
    if let Some(inherited) = from.namespace_resource_whitelist.as_ref().filter(|list| !list.is_empty()) {
        own.namespace_resource_whitelist.get_or_insert_default().extend_from_slice(inherited);
    }
    own.namespace_resource_blacklist.extend_from_slice(&from.namespace_resource_blacklist);
    own.sync_windows.extend_from_slice(&from.sync_windows);
    own.source_repos.extend_from_slice(&from.source_repos);
    own.destinations.extend_from_slice(&from.destinations);
    own.destination_service_accounts.extend_from_slice(&from.destination_service_accounts);
}

/// Whether a label selector selects; `None` when it is not a selector.
fn selects(selector: Option<&Value>, labels: &BTreeMap<String, String>) -> Option<bool> {
    let selector = match selector {
        None | Some(Value::Null) => return Some(true),
        Some(selector) => Selector::from_object(selector).ok()?,
    };
    Some(selector.matches(|key| labels.get(key).map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use tiphys_api::settings::SettingsData;

    use super::*;

    fn project(text: &str) -> AppProject {
        serde_json::from_str(text).unwrap()
    }

    fn settings(global_projects: &str) -> Settings {
        let cm = BTreeMap::from([("globalProjects".to_owned(), global_projects.to_owned())]);
        Settings::new(SettingsData { cm, ..SettingsData::default() })
    }

    fn with(stored: &AppProject, projects: &[AppProject], settings: &Settings) -> AppProject {
        effective(stored, &EffectiveInputs { projects, repositories: &[], clusters: &[], settings })
    }

    #[test]
    fn rep_122_scoped_repositories_and_clusters_are_appended() {
        let stored = project(r#"{"metadata":{"name":"shop"},"spec":{"sourceRepos":["a"]}}"#);
        let repositories = [
            Repository { project: "shop".into(), ..Repository::bare("https://h/r") },
            Repository { project: "ops".into(), ..Repository::bare("https://h/ops") },
            Repository::bare("https://h/all"),
        ];
        let cluster = |server: &str, project: &str, namespaces: &[&str]| Cluster {
            server: server.into(),
            project: project.into(),
            namespaces: namespaces.iter().map(|n| (*n).to_owned()).collect(),
            ..Cluster::default()
        };
        let clusters = [
            cluster("https://one", "shop", &[]),
            cluster("https://two", "shop", &["x", "y"]),
            cluster("https://no", "", &[]),
        ];
        let inputs = EffectiveInputs {
            projects: &[],
            repositories: &repositories,
            clusters: &clusters,
            settings: &Settings::default(),
        };
        let result = effective(&stored, &inputs).shown();
        assert_eq!(result.spec.source_repos, ["a", "https://h/r"]);
        let destinations: Vec<_> =
            result.spec.destinations.iter().map(|d| (d.server.as_str(), d.namespace.as_str())).collect();
        assert_eq!(destinations, [("https://one", "*"), ("https://two", "x"), ("https://two", "y")]);
        let nameless = effective(&AppProject::default(), &inputs).shown();
        assert!(nameless.spec.destinations.is_empty(), "unscoped Secrets belong to nobody");
    }

    #[test]
    fn rep_185_globals_are_selected_by_label_in_order() {
        let globals = [
            project(r#"{"metadata":{"name":"one"},"spec":{"sourceRepos":["one"]}}"#),
            project(r#"{"metadata":{"name":"two"},"spec":{"sourceRepos":["two"]}}"#),
        ];
        let stored =
            project(r#"{"metadata":{"name":"shop","labels":{"tier":"x"}},"spec":{"sourceRepos":["own"]}}"#);
        for (text, expected) in [
            (r#"[{"projectName":"two"},{"projectName":"one"}]"#, vec!["own", "two", "one"]),
            (
                r#"[{"projectName":"one","labelSelector":{"matchLabels":{"tier":"x"}}},
                    {"projectName":"two","labelSelector":{"matchLabels":{"tier":"y"}}}]"#,
                vec!["own", "one"],
            ),
            (
                r#"[{"projectName":"one","labelSelector":{"matchExpressions":[{"key":"tier","operator":"In","values":["x"]}]}},
                    {"projectName":"two","labelSelector":{"matchExpressions":[{"key":"tier","operator":"DoesNotExist"}]}}]"#,
                vec!["own", "one"],
            ),
            (
                r#"[{"projectName":"one"},{"projectName":"missing"},{"projectName":"two"}]"#,
                vec!["own", "one"],
            ),
            (
                r#"[{"projectName":"one","labelSelector":{"matchExpressions":[{"key":"tier","operator":"Odd"}]}},{"projectName":"two"}]"#,
                vec!["own"],
            ),
            (r#"[{"projectName":"shop"},{"projectName":"two","labelSelector":{}}]"#, vec!["own", "two"]),
        ] {
            let projects: Vec<_> = globals.iter().cloned().chain([stored.clone()]).collect();
            assert_eq!(with(&stored, &projects, &settings(text)).spec.source_repos, expected, "{text}");
        }
    }

    #[test]
    fn rep_186_some_things_are_not_inherited() {
        let global = project(
            r#"{"metadata":{"name":"g"},"spec":{"roles":[{"name":"r"}],"orphanedResources":{},"sourceNamespaces":["n"],
                "permitOnlyProjectScopedClusters":true,"description":"d","signatureKeys":[{"keyID":"A"}],
                "syncWindows":[{"kind":"deny"}],"destinations":[{"server":"*","namespace":"*"}],
                "clusterResourceWhitelist":[{"group":"*","kind":"*"}],
                "destinationServiceAccounts":[{"server":"*","defaultServiceAccount":"a"}]}}"#,
        );
        let stored = project(r#"{"metadata":{"name":"p"},"spec":{}}"#);
        let spec = with(&stored, &[global], &settings(r#"[{"projectName":"g"}]"#)).spec;
        assert!(
            spec.roles.is_empty() && spec.orphaned_resources.is_none() && spec.source_namespaces.is_empty()
        );
        assert!(!spec.permit_only_project_scoped_clusters && spec.signature_keys.is_empty());
        assert_eq!((spec.sync_windows.len(), spec.destinations.len()), (1, 1));
        assert_eq!((spec.cluster_resource_whitelist.len(), spec.destination_service_accounts.len()), (1, 1));
    }

    #[test]
    fn rep_187_an_inherited_whitelist_restricts() {
        let stored = project(r#"{"metadata":{"name":"p"},"spec":{}}"#);
        for (spec, expected) in [
            (r#"{"namespaceResourceWhitelist":[{"group":"","kind":"Pod"}]}"#, Some(1)),
            (r#"{"namespaceResourceWhitelist":[]}"#, None),
            ("{}", None),
        ] {
            let global = project(&format!(r#"{{"metadata":{{"name":"g"}},"spec":{spec}}}"#));
            let result = with(&stored, &[global], &settings(r#"[{"projectName":"g"}]"#));
            assert_eq!(result.spec.namespace_resource_whitelist.map(|list| list.len()), expected, "{spec}");
        }
    }
}
