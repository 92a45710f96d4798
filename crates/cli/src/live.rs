//! What an installation and its clusters hold, for a rehearsal (CLI-1060). Everything is read, and nothing ever written.
//!
//! Objects are taken as their manifests say: who owns which field, owners, finalizers of controllers that are not there,
//! and what servers fill in stay behind.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tiphys_api::names::{PARAMS_CONFIG_MAP, SECRET_TYPE_LABEL, SETTINGS_CONFIG_MAP};
use tiphys_cluster::{ApiResource, Target};
use tiphys_engine::seen::Seen;
use tiphys_object::{GroupKind, Gvk, ResourceKey, access};

use crate::core::{AppName, Core, Destination, Loaded, Place, Stored, World, value_of};
use crate::failure::Failure;

/// Objects of all applications together.
const OBJECTS_MAX: usize = 5_000;
/// Definitions of one cluster.
const DEFINITIONS_MAX: usize = 1_000;
/// Group of our own definitions, which a rehearsal has.
const OWN_GROUP: &str = tiphys_api::names::GROUP;

/// Which installation is read; empty parts take their defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way<'a> {
    /// Path of the kubeconfig.
    pub kubeconfig: &'a str,
    /// Its context.
    pub context: &'a str,
    /// Namespace of the installation.
    pub namespace: &'a str,
}

/// What was read. It may hold Secrets, and does not print.
#[derive(Clone, Default)]
pub struct Taken {
    /// Namespace of the installation.
    pub namespace: String,
    /// The applications, in the order in which they were asked for.
    pub applications: Vec<Value>,
    /// Projects, settings, and Secrets of clusters without their credentials.
    pub others: Vec<Value>,
    /// What is in destination clusters: definitions, then namespaces, then what applications manage.
    pub objects: Vec<Placed>,
}

/// An object of a destination cluster. It may be a Secret, and does not print.
#[derive(Clone)]
pub struct Placed {
    /// The server of the cluster.
    pub server: String,
    /// Path of its collection.
    pub collection: String,
    /// The object.
    pub manifest: Value,
}

/// Reads applications with what surrounds them; with `objects`, what they manage too.
///
/// # Errors
/// When something is not there or cannot be read: a part of the truth would be rehearsed as if it were all of it.
pub async fn take(way: &Way<'_>, names: &[String], objects: bool) -> Result<Taken, String> {
    read(way, names, objects).await.map_err(|failure| match &failure.hint {
        Some(hint) => format!("{failure} ({hint})"),
        None => failure.to_string(),
    })
}

async fn read(way: &Way<'_>, names: &[String], objects: bool) -> Result<Taken, Failure> {
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let place = Place {
        kubeconfig: way.kubeconfig,
        context: way.context,
        namespace: way.namespace,
        overrides: tiphys_cluster::KubeOverrides::default(),
        timeout: None,
        advises: true,
        environment: &environment,
    };
    let core = Core::connect(&place).await?;
    let Loaded { world, .. } = World::load_all(&core).await?;
    let mut taken = Taken { namespace: core.namespace.clone(), ..Taken::default() };
    let mut stored = Vec::new();
    for name in names {
        stored.push(core.application(&AppName::parse(name, &core.namespace)).await?);
    }
    for one in &stored {
        taken.applications.push(plain(value_of(&one.object)?));
    }
    taken.others = others(&core, &world).await?;
    if objects {
        taken.objects = placed(&core, &world, &stored).await?;
    }
    Ok(taken)
}

/// Projects, settings and clusters.
async fn others(core: &Core, world: &World) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    for project in core.projects().await? {
        found.push(plain(value_of(&project)?));
    }
    for name in [SETTINGS_CONFIG_MAP, PARAMS_CONFIG_MAP] {
        let target = Target::new(Gvk::new("", "v1", "ConfigMap"), &core.namespace, name);
        if let Some(settings) = core.get(&target).await? {
            found.push(plain(value_of(&settings)?));
        }
    }
    for cluster in world.clusters.all().iter().filter(|cluster| !cluster.secret_name.is_empty()) {
        let mut labels = json!(cluster.labels);
        access::ensure_object(&mut labels).insert(SECRET_TYPE_LABEL.to_owned(), "cluster".into());
        // A rehearsal has servers of its own: nobody logs in anywhere.
        found.push(json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": cluster.secret_name, "labels": labels, "annotations": cluster.annotations},
            "stringData": {"name": cluster.name, "server": cluster.server, "project": cluster.project,
                "namespaces": cluster.namespaces.join(","),
                "clusterResources": cluster.cluster_resources.to_string()}}));
    }
    Ok(found)
}

/// What applications manage, with the definitions and namespaces that it needs, each once.
async fn placed(core: &Core, world: &World, stored: &[Stored]) -> Result<Vec<Placed>, Failure> {
    let mut all = Vec::new();
    let (mut servers, mut namespaces) = (BTreeSet::new(), BTreeSet::new());
    let mut seen: BTreeSet<(String, ResourceKey)> = BTreeSet::new();
    let mut rest = Vec::new();
    for one in stored {
        let at = Destination::of(&one.app, core, world).await?;
        let server = at.cluster.server.clone();
        if servers.insert(server.clone()) {
            all.extend(definitions(core, &at).await?);
        }
        let own = &one.app.spec.destination.namespace;
        for resource in &one.app.status.resources {
            let namespace = resource.namespace.as_str();
            let key = ResourceKey::new(&resource.group, &resource.kind, namespace, &resource.name);
            if resource.hook || !seen.insert((server.clone(), key.clone())) {
                continue;
            }
            if seen.len() > OBJECTS_MAX {
                return Err(Failure::generic(format!(
                    "the applications manage more than {OBJECTS_MAX} objects"
                )));
            }
            if !namespace.is_empty() {
                namespaces.insert((server.clone(), namespace.to_owned()));
            }
            rest.extend(look(&at, &key, &resource.version).await?);
        }
        let mut wanted: BTreeSet<&str> = BTreeSet::new();
        wanted.extend((!own.is_empty()).then_some(own.as_str()));
        wanted.extend(namespaces.iter().filter(|(of, _)| *of == server).map(|(_, name)| name.as_str()));
        for name in wanted {
            let key = ResourceKey::new("", "Namespace", "", name);
            if seen.insert((server.clone(), key.clone())) {
                all.extend(look(&at, &key, "v1").await?);
            }
        }
    }
    all.extend(rest);
    Ok(all)
}

/// Definitions of custom resources, but for ours.
async fn definitions(core: &Core, at: &Destination) -> Result<Vec<Placed>, Failure> {
    let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let found = core.list_at(at, &gvk).await?;
    if found.len() > DEFINITIONS_MAX {
        return Err(Failure::generic(format!(
            "the cluster {} has more than {DEFINITIONS_MAX} CustomResourceDefinitions",
            at.cluster.server
        )));
    }
    let mut placed = Vec::new();
    for object in found {
        let manifest = plain(value_of(&object)?);
        if manifest.pointer("/spec/group").and_then(Value::as_str) != Some(OWN_GROUP) {
            let collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned();
            placed.push(Placed { server: at.cluster.server.clone(), collection, manifest });
        }
    }
    Ok(placed)
}

/// One object, where it is there.
async fn look(at: &Destination, key: &ResourceKey, version: &str) -> Result<Option<Placed>, Failure> {
    let kinds = &at.kinds;
    let exact = kinds.resource(&Gvk::new(&key.group, version, &key.kind));
    // A version that is served no longer; the object is there under another one.
    let Some(resource) = exact.or_else(|| kinds.preferred(&GroupKind::new(&key.group, &key.kind))) else {
        return Ok(None);
    };
    match at.look(key, &resource.gvk.version, &[]).await {
        Seen::Present(object) => Ok(Some(Placed {
            server: at.cluster.server.clone(),
            collection: collection(resource, &key.namespace),
            manifest: plain(value_of(&object)?),
        })),
        Seen::Absent => Ok(None),
        Seen::Unknown(why) => Err(Failure::generic(format!("{key} cannot be read: {why}"))),
    }
}

fn collection(resource: &ApiResource, namespace: &str) -> String {
    let Gvk { group, version, .. } = &resource.gvk;
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let plural = &resource.plural;
    if resource.is_namespaced() {
        format!("{root}/namespaces/{namespace}/{plural}")
    } else {
        format!("{root}/{plural}")
    }
}

/// An object as somebody would have written it.
fn plain(mut object: Value) -> Value {
    access::ensure_object(&mut object).remove("status");
    access::ensure_object(&mut object).remove("operation");
    let kept = ["name", "namespace", "labels", "annotations", "finalizers"];
    access::metadata_mut(&mut object).retain(|member, _| kept.contains(&member.as_str()));
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kind != "Application" {
        // Those who take them away are not there.
        access::metadata_mut(&mut object).remove("finalizers");
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        match kind.as_str() {
            // The server chooses these for a Job that does not say that it does so itself.
            "Job" if spec.get("manualSelector") != Some(&Value::Bool(true)) => {
                spec.remove("selector");
                let labels =
                    spec.get_mut("template").and_then(|template| template.pointer_mut("/metadata/labels"));
                if let Some(labels) = labels.and_then(Value::as_object_mut) {
                    labels.retain(|label, _| {
                        !label.ends_with("controller-uid") && !label.ends_with("job-name")
                    });
                }
            }
            "Service" if spec.get("clusterIP").and_then(Value::as_str) != Some("None") => {
                for member in ["clusterIP", "clusterIPs", "healthCheckNodePort"] {
                    spec.remove(member);
                }
            }
            "Namespace" => drop(spec.remove("finalizers")),
            "PersistentVolumeClaim" => drop(spec.remove("volumeName")),
            _ => {}
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1060_what_servers_fill_in_stays_behind() {
        let job = json!({"kind": "Job", "status": {"succeeded": 1}, "metadata": {"name": "j", "uid": "u",
            "managedFields": [], "ownerReferences": [{}], "finalizers": ["x"], "labels": {"a": "b"}},
            "spec": {"selector": {"matchLabels": {}}, "template": {"metadata": {"labels": {
                "a": "b", "controller-uid": "u", "batch.kubernetes.io/job-name": "j"}}}}});
        assert_eq!(
            plain(job),
            json!({"kind": "Job", "metadata": {"name": "j", "labels": {"a": "b"}},
                "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}})
        );
        let service = |ip: &str| json!({"kind": "Service", "metadata": {}, "spec": {"clusterIP": ip}});
        assert_eq!(plain(service("10.0.0.1"))["spec"], json!({}));
        assert_eq!(plain(service("None"))["spec"]["clusterIP"], "None");
        let app =
            json!({"kind": "Application", "operation": {}, "metadata": {"finalizers": ["x"]}, "spec": {}});
        assert_eq!(plain(app), json!({"kind": "Application", "metadata": {"finalizers": ["x"]}, "spec": {}}));
    }
}
