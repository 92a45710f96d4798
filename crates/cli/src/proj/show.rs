//! What `proj list` and `proj get` print (CLI-701, CLI-702).

use std::fmt::Write as _;

use tiphys_api::AppProject;
use tiphys_api::repo_url::mask_password;

use crate::table::Table;

/// Width of the labels of `proj get` (CLI-303).
const LABEL: usize = 29;

/// The table of `proj list`.
pub(super) fn table(projects: &[AppProject]) -> String {
    let mut table = Table::new(&[
        "NAME",
        "DESCRIPTION",
        "DESTINATIONS",
        "SOURCES",
        "CLUSTER-RESOURCE-WHITELIST",
        "NAMESPACE-RESOURCE-BLACKLIST",
        "SIGNATURE-KEYS",
        "ORPHANED-RESOURCES",
        "DESTINATION-SERVICE-ACCOUNTS",
    ]);
    for project in projects {
        let spec = &project.spec;
        let destinations = spec.destinations.iter().map(|it| format!("{},{}", it.server, it.namespace));
        let kinds = spec.cluster_resource_whitelist.iter().map(|it| format!("{}/{}", it.group, it.kind));
        let accounts = spec
            .destination_service_accounts
            .iter()
            .map(|it| format!("{},{},{}", it.server, it.namespace, it.default_service_account));
        table.row(vec![
            project.name().to_owned(),
            spec.description.clone(),
            cell(&destinations.collect::<Vec<_>>(), "destinations"),
            cell(&spec.source_repos, "repos"),
            cell(&kinds.collect::<Vec<_>>(), "resources"),
            format!("{} resources", spec.namespace_resource_blacklist.len()),
            format!("{} key(s)", spec.signature_keys.len()),
            orphans(project),
            cell(&accounts.collect::<Vec<_>>(), "destinationServiceAccounts"),
        ]);
    }
    table.print()
}

/// Nothing, the one value, or a count.
fn cell(values: &[String], what: &str) -> String {
    match values {
        [] => "<none>".to_owned(),
        [only] => only.clone(),
        several => format!("{} {what}", several.len()),
    }
}

fn orphans(project: &AppProject) -> String {
    let Some(orphans) = &project.spec.orphaned_resources else { return "disabled".to_owned() };
    let warns = orphans.warn.unwrap_or(false);
    match orphans.ignore.len() {
        0 => format!("enabled (warn={warns})"),
        ignored => format!("enabled (warn={warns}, ignored {ignored})"),
    }
}

/// What belongs to a project and stands elsewhere: URLs of repositories and servers of clusters.
pub(super) struct Scoped {
    pub(super) repositories: Vec<String>,
    pub(super) clusters: Vec<String>,
}

impl Scoped {
    /// What Secrets say.
    pub(super) fn of(name: &str, world: &tiphys_installation::Installation) -> Self {
        let repositories = world.repositories.iter().filter(|found| found.project == name);
        let clusters = world.clusters.all().iter().filter(|found| found.project == name);
        Self {
            repositories: repositories.map(|found| mask_password(&found.url)).collect(),
            clusters: clusters.map(|found| found.server.clone()).collect(),
        }
    }
}

/// The summary of `proj get`, with what stands elsewhere (CLI-702).
pub(super) fn summary(project: &AppProject, scoped: Scoped) -> String {
    let spec = &project.spec;
    let Scoped { mut repositories, clusters } = scoped;
    repositories.sort();
    let kinds = |group: &str, kind: &str| format!("{group}/{kind}");
    let keys: Vec<String> = spec.signature_keys.iter().map(|key| key.key_id.clone()).collect();
    let keys = if keys.is_empty() { vec![] } else { vec![keys.join(", ")] };
    let rows: [(&str, Vec<String>); 11] = [
        ("Name:", vec![project.name().to_owned()]),
        ("Description:", vec![spec.description.clone()]),
        (
            "Destinations:",
            spec.destinations.iter().map(|it| format!("{},{}", it.server, it.namespace)).collect(),
        ),
        ("Repositories:", spec.source_repos.clone()),
        ("Source Namespaces:", spec.source_namespaces.clone()),
        ("Scoped Repositories:", repositories),
        (
            "Allowed Cluster Resources:",
            spec.cluster_resource_whitelist.iter().map(|it| kinds(&it.group, &it.kind)).collect(),
        ),
        ("Scoped Clusters:", clusters),
        (
            "Denied Namespaced Resources:",
            spec.namespace_resource_blacklist.iter().map(|it| kinds(&it.group, &it.kind)).collect(),
        ),
        ("Signature keys:", keys),
        ("Orphaned Resources:", vec![orphans(project)]),
    ];
    let mut out = String::new();
    for (label, values) in rows {
        let first = values.first().map_or("<none>", String::as_str);
        for (label, value) in
            std::iter::once((label, first)).chain(values.iter().skip(1).map(|value| ("", value.as_str())))
        {
            // Writing to a string cannot fail.
            let _written = writeln!(out, "{label:LABEL$}{}", tiphys_api::printable::line(value));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "calls read better")]
    fn project(spec: serde_json::Value) -> AppProject {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    #[test]
    fn cli_701_cells_show_one_value_or_a_count() {
        let text = table(&[
            project(json!({})),
            project(json!({
                "destinations": [{"server": "*", "namespace": "web"}],
                "sourceRepos": ["a", "b", "c"],
                "clusterResourceWhitelist": [{"group": "g", "kind": "K"}],
                "orphanedResources": {"warn": true, "ignore": [{}, {}]},
                "destinationServiceAccounts": [{"server": "s", "namespace": "n", "defaultServiceAccount": "a"}],
            })),
        ]);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(rows[0].len(), 9);
        assert_eq!(
            rows[1],
            ["p", "<none>", "<none>", "<none>", "0 resources", "0 key(s)", "disabled", "<none>"]
        );
        assert_eq!(
            rows[2],
            [
                "p",
                "*,web",
                "3 repos",
                "g/K",
                "0 resources",
                "0 key(s)",
                "enabled (warn=true, ignored 2)",
                "s,n,a"
            ]
        );
    }
}
