//! Rows of resource tables: the last operation's results first, then what else there is (CLI-446).

use std::collections::BTreeMap;

use tiphys_api::Application;
use tiphys_api::application::ResourceStatus;
use tiphys_object::ResourceKey;

use crate::app::filter::ResourceFilter;
use crate::table::Table;

/// One resource as tables show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) health: String,
    pub(crate) hook: String,
    pub(crate) message: String,
}

impl Row {
    /// What makes two rows the same resource over time.
    pub(crate) fn key(&self) -> String {
        format!("{}/{}/{}/{}", self.group, self.kind, self.namespace, self.name)
    }

    /// Takes over what changed to something that is not blank; says whether anything did (CLI-514).
    pub(crate) fn merge(&mut self, newer: &Self) -> bool {
        let mut changed = false;
        for (mine, theirs) in [
            (&mut self.status, &newer.status),
            (&mut self.health, &newer.health),
            (&mut self.hook, &newer.hook),
            (&mut self.message, &newer.message),
        ] {
            if !theirs.is_empty() && mine != theirs {
                mine.clone_from(theirs);
                changed = true;
            }
        }
        changed
    }

    /// The cells of a table row.
    pub(crate) fn cells(&self) -> Vec<String> {
        [
            &self.group,
            &self.kind,
            &self.namespace,
            &self.name,
            &self.status,
            &self.health,
            &self.hook,
            &self.message,
        ]
        .into_iter()
        .cloned()
        .collect()
    }

    /// The cells of a progress row (CLI-514).
    pub(crate) fn progress_cells(&self, time: &str) -> Vec<String> {
        vec![
            time.to_owned(),
            format!("{:>5}", self.group),
            format!("{:>10}", self.kind),
            format!("{:>10}", self.namespace),
            format!("{:>20}", self.name),
            format!("{:>8}", self.status),
            format!("{:>7}", self.health),
            format!("{:>10}", self.hook),
            self.message.clone(),
        ]
    }
}

/// The header of the progress table.
pub(crate) fn progress_header() -> Vec<String> {
    let header = Row {
        group: "GROUP".into(),
        kind: "KIND".into(),
        namespace: "NAMESPACE".into(),
        name: "NAME".into(),
        status: "STATUS".into(),
        health: "HEALTH".into(),
        hook: "HOOK".into(),
        message: "MESSAGE".into(),
    };
    header.progress_cells("TIMESTAMP")
}

fn key_of(resource: &ResourceStatus) -> ResourceKey {
    ResourceKey::new(&resource.group, &resource.kind, &resource.namespace, &resource.name)
}

/// All rows of an application, those the filters leave out removed (CLI-446).
pub(crate) fn rows(app: &Application, filters: &[ResourceFilter]) -> Vec<Row> {
    let mut rest: BTreeMap<String, &ResourceStatus> =
        app.status.resources.iter().map(|resource| (key_of(resource).to_string(), resource)).collect();
    let current = rest.clone();
    let results = app.status.operation_state.as_ref().and_then(|state| state.sync_result.as_ref());
    let mut rows = Vec::with_capacity(rest.len());
    for result in results.map_or(&[][..], |result| result.resources.as_slice()) {
        let key = ResourceKey::new(&result.group, &result.kind, &result.namespace, &result.name).to_string();
        let known = current.get(&key).filter(|_| result.hook_type.is_empty());
        let (status, health) = match known {
            Some(resource) => (resource.status.clone(), health_of(resource)),
            None => (result.hook_phase.clone(), result.status.clone()),
        };
        rest.remove(&key);
        rows.push(Row {
            group: result.group.clone(),
            kind: result.kind.clone(),
            namespace: result.namespace.clone(),
            name: result.name.clone(),
            status,
            health,
            hook: result.hook_type.clone(),
            message: result.message.clone(),
        });
    }
    rows.extend(rest.values().map(|resource| Row {
        group: resource.group.clone(),
        kind: resource.kind.clone(),
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
        status: resource.status.clone(),
        health: health_of(resource),
        ..Row::default()
    }));
    if !filters.is_empty() {
        rows.retain(|row| {
            ResourceFilter::includes(filters, &row.group, &row.kind, &row.namespace, &row.name)
        });
    }
    rows
}

fn health_of(resource: &ResourceStatus) -> String {
    resource.health.as_ref().map_or_else(String::new, |health| health.status.clone())
}

/// The resource table; empty without resources.
pub(crate) fn table(app: &Application) -> String {
    if app.status.resources.is_empty() {
        return String::new();
    }
    let mut table =
        Table::new(&["GROUP", "KIND", "NAMESPACE", "NAME", "STATUS", "HEALTH", "HOOK", "MESSAGE"]);
    for row in rows(app, &[]) {
        table.row(row.cells());
    }
    table.print()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn app() -> Application {
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {"project": "p", "destination": {}},
            "status": {
                "resources": [
                    {"kind": "Service", "version": "v1", "namespace": "n", "name": "s", "status": "Synced", "health": {"status": "Healthy"}},
                    {"group": "apps", "kind": "Deployment", "version": "v1", "namespace": "n", "name": "d", "status": "OutOfSync"}],
                "operationState": {"phase": "Succeeded", "startedAt": "2026-08-01T10:00:00Z", "operation": {"sync": {}},
                    "syncResult": {"resources": [
                        {"group": "batch", "version": "v1", "kind": "Job", "namespace": "n", "name": "j", "status": "Synced",
                         "hookType": "PreSync", "hookPhase": "Succeeded", "message": "done"},
                        {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "n", "name": "d", "status": "Synced",
                         "hookPhase": "Running", "message": "created"}]}}}}))
        .unwrap()
    }

    #[test]
    fn cli_446_results_of_the_operation_come_first() {
        assert_eq!(
            table(&app()),
            "GROUP  KIND        NAMESPACE  NAME  STATUS     HEALTH   HOOK     MESSAGE\n\
             batch  Job         n          j     Succeeded  Synced   PreSync  done\n\
             apps   Deployment  n          d     OutOfSync                    created\n\
             \x20      Service     n          s     Synced     Healthy           \n"
        );
    }

    #[test]
    fn cli_514_blanks_never_erase() {
        let mut row = Row { status: "Synced".into(), health: "Healthy".into(), ..Row::default() };
        assert!(!row.merge(&Row::default()));
        assert!(row.merge(&Row { health: "Degraded".into(), ..Row::default() }));
        assert_eq!((row.status.as_str(), row.health.as_str()), ("Synced", "Degraded"));
    }

    #[test]
    fn cli_514_cells_have_least_widths() {
        let mut table = Table::headless(5);
        table.row(progress_header());
        table.row(
            Row {
                group: "apps".into(),
                kind: "Deployment".into(),
                namespace: "guestbook".into(),
                name: "guestbook-ui".into(),
                status: "OutOfSync".into(),
                health: "Missing".into(),
                ..Row::default()
            }
            .progress_cells("2026-08-01T10:00:01+00:00"),
        );
        assert_eq!(
            table.print(),
            "TIMESTAMP                  GROUP        KIND   NAMESPACE                  NAME    STATUS    HEALTH        HOOK  MESSAGE\n\
             2026-08-01T10:00:01+00:00   apps  Deployment   guestbook          guestbook-ui  OutOfSync  Missing              \n"
        );
    }
}
