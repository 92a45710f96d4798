//! Paths and their operations.

use serde_json::{Map, Value, json};

use super::component::{Names, reference};
use super::set;
use crate::resource::{Resource, Scope, Subresource};

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

type Parameter = (&'static str, &'static str);

const LIST_PARAMETERS: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE_PARAMETERS: &[Parameter] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const PATCH_PARAMETERS: &[Parameter] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const DELETE_PARAMETERS: &[Parameter] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

/// Where a group version is served: `/api/v1`, `/apis/apps/v1`.
pub(super) fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// An operation of a resource.
#[derive(Clone, Copy)]
struct Operation {
    /// The verb of discovery.
    verb: &'static str,
    method: &'static str,
    /// `x-kubernetes-action`.
    action: &'static str,
    /// First part of the operation's id.
    id: &'static str,
    parameters: &'static [Parameter],
}

const ON_ALL: &[Operation] = &[
    Operation { verb: "list", method: "get", action: "list", id: "list", parameters: LIST_PARAMETERS },
    Operation { verb: "create", method: "post", action: "post", id: "create", parameters: WRITE_PARAMETERS },
    Operation {
        verb: "deletecollection",
        method: "delete",
        action: "deletecollection",
        id: "delete",
        parameters: DELETE_PARAMETERS,
    },
];
const ON_ONE: &[Operation] = &[
    Operation { verb: "get", method: "get", action: "get", id: "read", parameters: &[] },
    Operation { verb: "update", method: "put", action: "put", id: "replace", parameters: WRITE_PARAMETERS },
    Operation { verb: "patch", method: "patch", action: "patch", id: "patch", parameters: PATCH_PARAMETERS },
    Operation {
        verb: "delete",
        method: "delete",
        action: "delete",
        id: "delete",
        parameters: DELETE_PARAMETERS,
    },
];

/// Adds the paths of a resource.
pub(super) fn add(paths: &mut Map<String, Value>, resource: &Resource, names: &Names) {
    let root = root(&resource.group, &resource.version);
    let plural = &resource.plural;
    let is_namespaced = resource.scope == Scope::Namespaced;
    let collection = if is_namespaced {
        format!("{root}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("{root}/{plural}")
    };
    if is_namespaced && resource.has_verb("list") {
        let list = ON_ALL.iter().take(1);
        let operations = list.map(|one| (one.method, operation(resource, names, one, "ForAllNamespaces")));
        insert(paths, format!("{root}/{plural}"), operations, &[]);
    }
    let path_parameters: &[&str] = if is_namespaced { &["namespace"] } else { &[] };
    let served = |one: &&Operation| resource.has_verb(one.verb);
    let operations =
        ON_ALL.iter().filter(served).map(|one| (one.method, operation(resource, names, one, "")));
    insert(paths, collection.clone(), operations, path_parameters);
    let path_parameters: &[&str] = if is_namespaced { &["name", "namespace"] } else { &["name"] };
    let operations =
        ON_ONE.iter().filter(served).map(|one| (one.method, operation(resource, names, one, "")));
    insert(paths, format!("{collection}/{{name}}"), operations, path_parameters);
    for subresource in resource.subresources() {
        let operations = below(resource, names, &subresource);
        let path = format!("{collection}/{{name}}/{}", subresource.name);
        insert(paths, path, operations.into_iter(), path_parameters);
    }
}

fn insert(
    paths: &mut Map<String, Value>,
    path: String,
    operations: impl Iterator<Item = (&'static str, Value)>,
    path_parameters: &[&str],
) {
    let mut item: Map<String, Value> =
        operations.map(|(method, operation)| (method.to_owned(), operation)).collect();
    if item.is_empty() {
        return;
    }
    let parameters: Vec<Value> = path_parameters
        .iter()
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    if !parameters.is_empty() {
        item.insert("parameters".to_owned(), Value::Array(parameters));
    }
    paths.insert(path, Value::Object(item));
}

fn operation(resource: &Resource, names: &Names, operation: &Operation, suffix: &str) -> Value {
    let answer = match operation.verb {
        "list" => names.list.as_str(),
        "delete" | "deletecollection" => STATUS,
        _ => names.object.as_str(),
    };
    let mut found = describe(resource, operation, answer, suffix);
    if let Some(body) = body(operation.verb, &names.object, resource.custom.is_none()) {
        set(&mut found, "requestBody", body);
    }
    set(
        &mut found,
        "x-kubernetes-group-version-kind",
        json!({"group": resource.group, "version": resource.version, "kind": resource.kind}),
    );
    found
}

/// The operations of a subresource.
fn below(resource: &Resource, names: &Names, subresource: &Subresource) -> Vec<(&'static str, Value)> {
    let is_own = subresource.kind.is_empty();
    let sent = if is_own { names.object.clone() } else { foreign_name(subresource) };
    let create = ON_ALL.iter().filter(|one| one.verb == "create");
    let served = ON_ONE.iter().chain(create).filter(|one| subresource.verbs.contains(&one.verb));
    let suffix = capitalized(subresource.name);
    let (group, version) = if subresource.group.is_empty() || resource.custom.is_some() {
        (resource.group.as_str(), resource.version.as_str())
    } else {
        (subresource.group, subresource.version)
    };
    let kind = if is_own || resource.custom.is_some() { resource.kind.as_str() } else { subresource.kind };
    served
        .map(|one| {
            // What has no schema is a stream: the server only connects it to somebody else.
            let stream = Operation { action: "connect", id: "connect", parameters: &[], ..*one };
            let described = if sent.is_empty() { &stream } else { one };
            let mut found = describe(resource, described, &sent, &suffix);
            if !sent.is_empty()
                && let Some(body) = body(one.verb, &sent, resource.custom.is_none())
            {
                set(&mut found, "requestBody", body);
            }
            set(
                &mut found,
                "x-kubernetes-group-version-kind",
                json!({"group": group, "version": version, "kind": kind}),
            );
            (one.method, found)
        })
        .collect()
}

/// Schema of a kind that is not that of the resource; streams have none.
fn foreign_name(subresource: &Subresource) -> String {
    match subresource.group {
        "" if subresource.kind == "Binding" => "io.k8s.api.core.v1.Binding".to_owned(),
        "" => String::new(),
        group => {
            let package = group.split('.').next().unwrap_or(group);
            format!("io.k8s.api.{package}.{}.{}", subresource.version, subresource.kind)
        }
    }
}

fn describe(resource: &Resource, operation: &Operation, answer: &str, suffix: &str) -> Value {
    let schema = if answer.is_empty() { json!({"type": "string"}) } else { reference(answer) };
    let group = camel(&resource.group);
    let tag: String =
        group.chars().take(1).flat_map(char::to_lowercase).chain(group.chars().skip(1)).collect();
    let mut found = json!({"tags": [format!("{tag}_{}", resource.version)],
        "operationId": operation_id(resource, operation, &group, suffix),
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}},
            "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": operation.action});
    if !operation.parameters.is_empty() {
        let parameters = operation.parameters.iter().map(|(name, r#type)| {
            json!({"name": name, "in": "query", "schema": {"type": r#type, "uniqueItems": true}})
        });
        set(&mut found, "parameters", parameters.collect::<Vec<Value>>());
    }
    found
}

/// For example `patchAppsV1NamespacedDeployment`.
fn operation_id(resource: &Resource, operation: &Operation, group: &str, suffix: &str) -> String {
    let is_everywhere = resource.scope == Scope::Cluster || suffix == "ForAllNamespaces";
    let what = match operation.id {
        "connect" => capitalized(operation.method),
        _ if operation.verb == "deletecollection" => "Collection".to_owned(),
        _ => String::new(),
    };
    let scope = if is_everywhere { "" } else { "Namespaced" };
    let (version, kind) = (capitalized(&resource.version), &resource.kind);
    format!("{}{group}{version}{what}{scope}{kind}{suffix}", operation.id)
}

fn body(verb: &str, object: &str, is_builtin: bool) -> Option<Value> {
    let content = |types: &[&str], name: &str| -> Value {
        types
            .iter()
            .map(|one| ((*one).to_owned(), json!({"schema": reference(name)})))
            .collect::<Map<_, _>>()
            .into()
    };
    Some(match verb {
        "create" | "update" => json!({"content": content(&["*/*"], object), "required": true}),
        "patch" => {
            let mut types = vec![
                "application/apply-patch+yaml",
                "application/json-patch+json",
                "application/merge-patch+json",
            ];
            if is_builtin {
                types.push("application/strategic-merge-patch+json");
            }
            json!({"content": content(&types, PATCH), "required": true})
        }
        "delete" | "deletecollection" => json!({"content": content(&["*/*"], DELETE_OPTIONS)}),
        _ => return None,
    })
}

/// `Apps`, `RbacAuthorization`, `ExampleCom`, `Core`.
fn camel(group: &str) -> String {
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    if group.is_empty() { "Core".to_owned() } else { group.split('.').map(capitalized).collect() }
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
