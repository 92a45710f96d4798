//! Discovery: what is served, as clients ask for it.
//!
//! The list per version is the old form, the list of everything ([`aggregated`]) the one that clients prefer.
//! Hashes of storage versions are left out: nothing reads them from a server without storage migrations.

use serde_json::{Map, Value, json};
use smol_str::SmolStr;
use tiphys_object::access::ensure_object;

use crate::resource::{Group, Registry, Resource, Scope, Subresource};

/// `GET /api`.
pub(crate) fn core_versions(server: &str) -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server}]})
}

/// `GET /apis`.
pub(crate) fn groups(registry: &Registry) -> Value {
    let all = registry.groups();
    let (mut custom, mut listed): (Vec<&Group<'_>>, Vec<&Group<'_>>) =
        all.iter().filter(|group| !group.name.is_empty()).partition(|group| is_custom(group));
    // Among equals the server sorts by the name of the service of the best version.
    custom.sort_by_key(|group| format!("{}.{}", best_version(group), group.name));
    listed.append(&mut custom);
    let groups: Vec<Value> = listed.into_iter().map(group_members).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `GET /apis/{group}`; `None` when there is no such group.
pub(crate) fn group(registry: &Registry, group: &str) -> Option<Value> {
    let found = registry.group(group).filter(|found| !found.name.is_empty())?;
    let mut answer = json!({"kind": "APIGroup", "apiVersion": "v1"});
    if let (Value::Object(answer), Value::Object(members)) = (&mut answer, group_members(&found)) {
        answer.extend(members);
    }
    Some(answer)
}

/// `GET /api/v1`, `GET /apis/{group}/{version}`; `None` when there is no such version.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut listed = Vec::new();
    for resource in registry.of_version(group, version) {
        listed.push(listed_resource(resource));
        listed.extend(resource.subresources().iter().map(|one| listed_subresource(resource, one)));
    }
    if listed.is_empty() {
        return None;
    }
    let mut answer = json!({"kind": "APIResourceList"});
    if !group.is_empty() {
        ensure_object(&mut answer).insert("apiVersion".to_owned(), json!("v1"));
    }
    ensure_object(&mut answer).insert("groupVersion".to_owned(), json!(group_version(group, version)));
    ensure_object(&mut answer).insert("resources".to_owned(), Value::Array(listed));
    Some(answer)
}

/// `GET /api` (`core`) and `GET /apis` with an `Accept` of `g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList`.
pub(crate) fn aggregated(registry: &Registry, core: bool) -> Value {
    let groups = registry.groups();
    let items: Vec<Value> =
        groups.iter().filter(|group| group.name.is_empty() == core).map(discovered_group).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items})
}

/// `GET /version`.
pub(crate) fn version() -> Value {
    let platform = format!("{}/{}", go_name(std::env::consts::OS), go_name(std::env::consts::ARCH));
    json!({"major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35", "gitVersion": "v1.36.1",
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "go1.26", "compiler": "gc", "platform": platform})
}

/// What Go calls a system or a processor.
fn go_name(name: &'static str) -> &'static str {
    match name {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "macos" => "darwin",
        other => other,
    }
}

fn is_custom(group: &Group<'_>) -> bool {
    group.versions.iter().flat_map(|version| &version.resources).any(|resource| resource.custom.is_some())
}

fn best_version<'a>(group: &Group<'a>) -> &'a str {
    group.versions.first().map_or("", |version| version.name)
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn group_members(group: &Group<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|one| json!({"groupVersion": group_version(group.name, one.name), "version": one.name}))
        .collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": group.name, "versions": versions, "preferredVersion": preferred})
}

fn listed_resource(resource: &Resource) -> Value {
    let mut listed = json!({"name": resource.plural, "singularName": resource.singular,
        "namespaced": resource.scope == Scope::Namespaced, "kind": resource.kind, "verbs": resource.verbs});
    add_names(&mut listed, resource);
    listed
}

fn listed_subresource(resource: &Resource, subresource: &Subresource) -> Value {
    let mut listed = Map::new();
    listed.insert("name".to_owned(), json!(format!("{}/{}", resource.plural, subresource.name)));
    listed.insert("singularName".to_owned(), json!(""));
    listed.insert("namespaced".to_owned(), json!(resource.scope == Scope::Namespaced));
    if !subresource.group.is_empty() {
        listed.insert("group".to_owned(), json!(subresource.group));
        listed.insert("version".to_owned(), json!(subresource.version));
    }
    listed.insert("kind".to_owned(), json!(kind_of(resource, subresource)));
    listed.insert("verbs".to_owned(), json!(subresource.verbs));
    Value::Object(listed)
}

fn add_names(listed: &mut Value, resource: &Resource) {
    let names: [(&str, &Vec<SmolStr>); 2] =
        [("shortNames", &resource.short_names), ("categories", &resource.categories)];
    for (member, names) in names {
        if !names.is_empty() {
            ensure_object(listed).insert(member.to_owned(), json!(names));
        }
    }
}

fn kind_of<'a>(resource: &'a Resource, subresource: &Subresource) -> &'a str {
    if subresource.kind.is_empty() { &resource.kind } else { subresource.kind }
}

fn discovered_group(group: &Group<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = version.resources.iter().map(|one| discovered(one)).collect();
            json!({"version": version.name, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions})
}

/// One resource of the aggregated form. Only custom resources tell the group and version of their kind.
fn discovered(resource: &Resource) -> Value {
    let scope = if resource.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" };
    let mut found = json!({"resource": resource.plural, "responseKind": response_kind(resource, None),
        "scope": scope, "singularResource": resource.singular, "verbs": resource.verbs});
    add_names(&mut found, resource);
    let below: Vec<Value> = resource
        .subresources()
        .iter()
        .map(|one| {
            json!({"subresource": one.name, "responseKind": response_kind(resource, Some(one)),
                "verbs": one.verbs})
        })
        .collect();
    if !below.is_empty() {
        ensure_object(&mut found).insert("subresources".to_owned(), Value::Array(below));
    }
    found
}

fn response_kind(resource: &Resource, subresource: Option<&Subresource>) -> Value {
    let own = if resource.custom.is_some() {
        (resource.group.as_str(), resource.version.as_str())
    } else {
        ("", "")
    };
    let (group, version) =
        subresource.filter(|one| !one.group.is_empty()).map_or(own, |one| (one.group, one.version));
    let kind = subresource.map_or(resource.kind.as_str(), |one| kind_of(resource, one));
    json!({"group": group, "version": version, "kind": kind})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_group_is_apart() {
        let registry = Registry::builtin();
        let core = aggregated(&registry, true);
        assert_eq!(core["items"].as_array().unwrap().len(), 1);
        assert_eq!(core["items"][0]["metadata"], json!({}));
        let named = aggregated(&registry, false);
        assert_eq!(named["items"][0]["metadata"], json!({"name": "apiregistration.k8s.io"}));
        assert_eq!(groups(&registry)["groups"].as_array().unwrap().len(), 20);
        assert!(group(&registry, "").is_none());
    }

    #[test]
    fn a_group_names_its_preferred_version() {
        let found = group(&Registry::builtin(), "autoscaling").unwrap();
        assert_eq!(
            found,
            json!({"kind": "APIGroup", "apiVersion": "v1", "name": "autoscaling",
                "versions": [{"groupVersion": "autoscaling/v2", "version": "v2"},
                    {"groupVersion": "autoscaling/v1", "version": "v1"}],
                "preferredVersion": {"groupVersion": "autoscaling/v2", "version": "v2"}})
        );
    }

    #[test]
    fn subresources_are_listed_behind_their_resource() {
        let registry = Registry::builtin();
        let core = resources(&registry, "", "v1").unwrap();
        assert_eq!(core.get("apiVersion"), None);
        let listed = core["resources"].as_array().unwrap();
        let at = listed.iter().position(|one| one["name"] == "serviceaccounts").unwrap();
        assert_eq!(
            listed[at],
            json!({"name": "serviceaccounts", "singularName": "serviceaccount", "namespaced": true,
                "kind": "ServiceAccount", "shortNames": ["sa"],
                "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]})
        );
        assert_eq!(
            listed[at + 1],
            json!({"name": "serviceaccounts/token", "singularName": "", "namespaced": true,
                "group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest",
                "verbs": ["create"]})
        );
        assert!(resources(&registry, "apps", "v1beta1").is_none());
    }

    #[test]
    fn built_in_kinds_are_discovered_without_their_version() {
        let registry = Registry::builtin();
        let found = discovered(registry.find("apps", "v1", "deployments").unwrap());
        assert_eq!(found["responseKind"], json!({"group": "", "version": "", "kind": "Deployment"}));
        assert_eq!(
            found["subresources"][0],
            json!({"subresource": "scale", "verbs": ["get", "patch", "update"],
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}})
        );
    }
}
