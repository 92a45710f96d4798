//! The `fields` parameter: which members of an answer are sent (API-P29, API-P30).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Which members are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    paths: BTreeSet<String>,
    is_exclusion: bool,
}

/// What can be selected of each Application of a list.
const APPLICATION_PATHS: [&str; 24] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.annotations",
    "metadata.labels",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "spec",
    "spec.destination",
    "spec.project",
    "spec.source",
    "spec.sources",
    "spec.sourceHydrator",
    "spec.syncPolicy",
    "status.sourceHydrator",
    "status.summary",
    "status.sync.status",
    "status.sync.revision",
    "status.health",
    "status.operationState.startedAt",
    "status.operationState.finishedAt",
    "status.operationState.phase",
    "status.operationState.operation.sync",
    "status.resources",
    "operation.sync",
];

impl Selection {
    /// Reads `a.b,c.d` or `-a.b`; `None` when nothing is selected, which keeps everything.
    pub fn read(text: &str) -> Option<Self> {
        let (text, is_exclusion) = match text.strip_prefix('-') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let paths: BTreeSet<String> =
            text.split(',').map(str::trim).filter(|path| !path.is_empty()).map(str::to_owned).collect();
        (!paths.is_empty()).then_some(Self { paths, is_exclusion })
    }

    /// Removes from an answer what is not selected.
    pub fn apply(&self, value: &mut Value) {
        self.walk(value, "");
    }

    fn walk(&self, value: &mut Value, path: &str) {
        match value {
            Value::Object(members) => members.retain(|key, inner| {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let is_listed = self.paths.contains(&path);
                if self.is_exclusion {
                    if !is_listed {
                        self.walk(inner, &path);
                    }
                    return !is_listed;
                }
                if is_listed {
                    return true;
                }
                let is_above = self.is_above(&path);
                if is_above {
                    self.walk(inner, &path);
                }
                is_above
            }),
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item, path)),
            _ => {}
        }
    }

    /// Whether something below a path is listed; beginnings of texts are compared, as the reference does.
    fn is_above(&self, path: &str) -> bool {
        self.paths.range(path.to_owned()..).next().is_some_and(|listed| listed.starts_with(path))
    }

    /// An Application of a list with what is selected of it.
    pub fn application(&self, application: &Value) -> Value {
        let mut shown = Value::Object(Map::new());
        for path in APPLICATION_PATHS.iter().filter(|path| self.is_selected(path)) {
            // The sync of the operation that ran is its result, in the reference.
            let source = if *path == "status.operationState.operation.sync" {
                "status.operationState.syncResult"
            } else {
                path
            };
            if let Some(found) = get(application, source) {
                put(&mut shown, path, found.clone());
            }
        }
        shown
    }

    fn is_selected(&self, path: &str) -> bool {
        self.paths.contains(&format!("items.{path}")) != self.is_exclusion
    }
}

fn get<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, key| value.get(key)).filter(|found| !found.is_null())
}

fn put(value: &mut Value, path: &str, inner: Value) {
    let mut place = value;
    for key in path.split('.') {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        let Value::Object(members) = place else { return };
        place = members.entry(key).or_insert(Value::Null);
    }
    // What an ancestor brought is whole already.
    if place.is_null() {
        *place = inner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn selected(fields: &str, mut value: Value) -> Value {
        if let Some(selection) = Selection::read(fields) {
            selection.apply(&mut value);
        }
        value
    }

    #[test]
    fn api_p29_listed_paths_are_kept_or_removed() {
        let answer = json!({"result": {"type": "ADDED", "application": {"metadata": {"name": "web", "uid": "u"},
            "status": {"resources": [{"kind": "Pod", "name": "a"}, {"kind": "Pod", "health": {}}]}}}});
        assert_eq!(selected("", answer.clone()), answer);
        assert_eq!(selected(",", answer.clone()), answer, "nothing is listed");
        assert_eq!(
            selected("result.type,result.application.metadata.name", answer.clone()),
            json!({"result": {"type": "ADDED", "application": {"metadata": {"name": "web"}}}})
        );
        assert_eq!(
            selected("result.application.status.resources.kind", answer.clone()),
            json!({"result": {"application": {"status": {"resources": [{"kind": "Pod"}, {"kind": "Pod"}]}}}}),
            "places in lists are no part of a path"
        );
        assert_eq!(
            selected("-result.application.status,result.type", answer),
            json!({"result": {"application": {"metadata": {"name": "web", "uid": "u"}}}})
        );
    }

    #[test]
    fn api_p30_a_list_of_applications_has_a_fixed_set_of_paths() {
        let application = json!({"metadata": {"name": "web", "uid": "u", "labels": {"a": "b"}},
            "spec": {"project": "shop", "destination": {"namespace": "n"}, "info": []},
            "status": {"sync": {"status": "Synced", "comparedTo": {}}, "health": {"status": "Healthy"},
                "operationState": {"phase": "Succeeded", "message": "m", "syncResult": {"revision": "abc"}}}});
        let shown = |fields: &str| Selection::read(fields).unwrap().application(&application);
        assert_eq!(
            shown("items.metadata.name,items.metadata.uid,items.spec.project,items.status.health"),
            json!({"metadata": {"name": "web"}, "spec": {"project": "shop"}, "status": {"health": {"status": "Healthy"}}})
        );
        assert_eq!(
            shown("items.spec,items.spec.project,items.status.operationState.operation.sync"),
            json!({"spec": application["spec"],
                "status": {"operationState": {"operation": {"sync": {"revision": "abc"}}}}})
        );
        let rest = shown("-items.spec,items.metadata.labels");
        assert_eq!(rest["metadata"], json!({"name": "web"}));
        assert_eq!(rest["spec"], json!({"project": "shop", "destination": {"namespace": "n"}}));
        assert_eq!(rest["status"]["sync"], json!({"status": "Synced"}));
        assert_eq!(shown("items.status"), json!({}), "not one of the set");
    }
}
