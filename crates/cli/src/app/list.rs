//! `app list`: filters and table (CLI-430..432), and the history and resource tables, which are as plain.

use std::collections::BTreeMap;

use tiphys_api::Application;
use tiphys_api::application::HistoryEntry;
use tiphys_object::ResourceKey;

use crate::app::summary::{parse_time, qualified_name};
use crate::table::Table;
use crate::terminal::Terminal;

/// Which applications are listed; an empty filter is open.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListFilter {
    pub(crate) projects: Vec<String>,
    pub(crate) repository: String,
    pub(crate) cluster: String,
    pub(crate) path: String,
}

impl ListFilter {
    /// Whether an application is listed (CLI-432).
    pub(crate) fn matches(&self, app: &Application) -> bool {
        let source = app.sources().first();
        let destination = &app.spec.destination;
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        (self.projects.is_empty() || self.projects.iter().any(|project| project == app.project()))
            && is(&self.repository, source.map_or("", |source| &source.repo_url))
            && is(&self.path, source.map_or("", |source| &source.path))
            && (is(&self.cluster, &destination.server) || is(&self.cluster, &destination.name))
    }
}

/// Which columns the table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    /// All.
    Wide,
    /// Without those of the source.
    Short,
}

/// The table of `app list` (CLI-430).
pub(crate) fn table(apps: &[Application], columns: Columns) -> String {
    let mut header =
        vec!["NAME", "CLUSTER", "NAMESPACE", "PROJECT", "STATUS", "HEALTH", "SYNCPOLICY", "CONDITIONS"];
    if columns == Columns::Wide {
        header.extend(["REPO", "PATH", "TARGET"]);
    }
    let mut table = Table::new(&header);
    for app in apps {
        let destination = &app.spec.destination;
        let mut cells = vec![
            qualified_name(app),
            if destination.server.is_empty() { destination.name.clone() } else { destination.server.clone() },
            destination.namespace.clone(),
            app.project().to_owned(),
            app.status.sync.status.clone(),
            app.status.health.status.clone(),
            sync_policy(app).to_owned(),
            conditions(app),
        ];
        if columns == Columns::Wide {
            let source = app.sources().first();
            cells.extend([
                source.map_or_else(String::new, |source| source.repo_url.clone()),
                source.map_or_else(String::new, |source| source.path.clone()),
                source.map_or_else(String::new, |source| source.target_revision.clone()),
            ]);
        }
        table.row(cells);
    }
    table.print()
}

fn sync_policy(app: &Application) -> &'static str {
    match app.automated() {
        Some(automated) if automated.prune => "Auto-Prune",
        Some(_) => "Auto",
        None => "Manual",
    }
}

/// Types with counts, sorted (CLI-431).
fn conditions(app: &Application) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for condition in &app.status.conditions {
        *counts.entry(&condition.r#type).or_default() += 1;
    }
    if counts.is_empty() {
        return "<none>".to_owned();
    }
    let texts: Vec<String> = counts
        .iter()
        .map(|(kind, count)| if *count > 1 { format!("{kind}({count})") } else { (*kind).to_owned() })
        .collect();
    texts.join(",")
}

/// The tables of `app history`, one per repository (CLI-450).
pub(crate) fn history(entries: &[HistoryEntry], terminal: &Terminal) -> String {
    let mut groups: Vec<(String, Vec<[String; 3]>)> = Vec::new();
    let mut add =
        |repository: &str, row: [String; 3]| match groups.iter_mut().find(|(url, _)| url == repository) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((repository.to_owned(), vec![row])),
        };
    for entry in entries {
        let date = terminal.local_time(parse_time(&entry.deployed_at));
        let row = |target: &str, revision: &str| {
            let shown = if revision.chars().count() >= 7 {
                let short: String = revision.chars().take(7).collect();
                format!("{target} ({short})")
            } else {
                target.to_owned()
            };
            [entry.id.to_string(), date.clone(), shown]
        };
        if entry.sources.is_empty() {
            if let Some(source) = &entry.source {
                add(&source.repo_url, row(&source.target_revision, &entry.revision));
            }
        } else {
            for (index, source) in entry.sources.iter().enumerate() {
                let revision = entry.revisions.get(index).map_or("", String::as_str);
                add(&source.repo_url, row(&source.target_revision, revision));
            }
        }
    }
    let mut texts = Vec::with_capacity(groups.len());
    for (repository, rows) in groups {
        let mut table = Table::headless(0);
        table.row(vec!["SOURCE".to_owned(), repository]);
        table.row(vec!["ID".to_owned(), "DATE".to_owned(), "REVISION".to_owned()]);
        for row in rows {
            table.row(row.to_vec());
        }
        texts.push(table.print());
    }
    texts.join("\n")
}

/// The table of `app resources` (CLI-540).
pub(crate) fn resources(app: Option<&Application>, orphans: &[ResourceKey]) -> String {
    let mut table = Table::new(&["GROUP", "KIND", "NAMESPACE", "NAME", "ORPHANED"]);
    let managed = app.into_iter().flat_map(|app| &app.status.resources).filter(|resource| !resource.hook);
    let managed = managed.map(|r| ([&r.group, &r.kind, &r.namespace, &r.name].map(String::clone), "No"));
    let orphaned = orphans
        .iter()
        .map(|key| ([&key.group, &key.kind, &key.namespace, &key.name].map(ToString::to_string), "Yes"));
    for (names, is_orphaned) in managed.chain(orphaned) {
        table.row(names.into_iter().chain([is_orphaned.to_owned()]).collect());
    }
    table.print()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn app() -> Application {
        serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "argocd"},
            "spec": {"project": "", "destination": {"name": "in-cluster", "namespace": "w"},
                "source": {"repoURL": "u", "path": "p", "targetRevision": "main"},
                "syncPolicy": {"automated": {}}},
            "status": {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}, "conditions": [
                {"type": "SharedResourceWarning", "message": "1"}, {"type": "OrphanedResourceWarning", "message": "2"},
                {"type": "SharedResourceWarning", "message": "3"}]}}))
        .unwrap()
    }

    #[test]
    fn cli_430_wide_and_short_tables() {
        assert_eq!(
            table(&[app()], Columns::Wide),
            "NAME        CLUSTER     NAMESPACE  PROJECT  STATUS  HEALTH   SYNCPOLICY  CONDITIONS                                        REPO  PATH  TARGET\n\
             argocd/web  in-cluster  w          default  Synced  Healthy  Auto        OrphanedResourceWarning,SharedResourceWarning(2)  u     p     main\n"
        );
        assert_eq!(
            table(&[], Columns::Short),
            "NAME  CLUSTER  NAMESPACE  PROJECT  STATUS  HEALTH  SYNCPOLICY  CONDITIONS\n"
        );
    }

    #[test]
    fn cli_432_filters_are_exact() {
        let matches = |filter: ListFilter| filter.matches(&app());
        assert!(matches(ListFilter::default()));
        assert!(matches(ListFilter { cluster: "in-cluster".into(), ..ListFilter::default() }));
        assert!(!matches(ListFilter { cluster: "in".into(), ..ListFilter::default() }));
        assert!(matches(ListFilter {
            projects: vec!["a".into(), "default".into()],
            ..ListFilter::default()
        }));
        assert!(!matches(ListFilter { path: "q".into(), ..ListFilter::default() }));
    }

    #[test]
    fn cli_450_history_is_grouped_by_repository() {
        let entries: Vec<HistoryEntry> = serde_json::from_value(json!([
            {"id": 0, "deployedAt": "2026-08-01T10:00:00Z", "revision": "53e28ff20cc530b9", "source": {"repoURL": "https://a", "targetRevision": "main"}},
            {"id": 1, "deployedAt": "2026-08-01T11:00:00Z", "revisions": ["1.2", "aaaaaaa"], "sources": [
                {"repoURL": "https://b", "targetRevision": "1.x"}, {"repoURL": "https://a", "targetRevision": "main"}]}]))
        .unwrap();
        assert_eq!(
            history(&entries, &Terminal::memory("argocd", &[])),
            "SOURCE  https://a\n\
             ID      DATE                           REVISION\n\
             0       2026-08-01 10:00:00 +0000 UTC  main (53e28ff)\n\
             1       2026-08-01 11:00:00 +0000 UTC  main (aaaaaaa)\n\
             \n\
             SOURCE  https://b\n\
             ID      DATE                           REVISION\n\
             1       2026-08-01 11:00:00 +0000 UTC  1.x\n"
        );
    }
}
