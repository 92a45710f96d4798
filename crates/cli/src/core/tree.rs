//! The live objects of an application, each below its owner (CLI-447, API-137).

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use smol_str::SmolStr;
use tiphys_api::Application;
use tiphys_api::codes::HealthCode;
use tiphys_cluster::{Claims, Derived, TreeNode};
use tiphys_engine::health::{HealthOverrides, assess_with};
use tiphys_engine::tree::{NodeInfo, node_info};
use tiphys_object::{ResourceKey, access};

use super::look::Look;
use super::{AppName, Core, Destination, World};
use crate::failure::Failure;
use crate::scripts;

/// Namespaces that are listed one by one; an application in more of them has its whole cluster listed.
const NAMESPACES_MAX: usize = 50;
/// The item of a node that says why it is as it is.
const REASON: &str = "Status Reason";

/// One object of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) key: ResourceKey,
    /// Version of the kind.
    pub(crate) version: String,
    pub(crate) uid: String,
    /// Its owners, with their uids.
    pub(crate) parents: Vec<(ResourceKey, String)>,
    pub(crate) health: String,
    pub(crate) created: Option<Timestamp>,
    pub(crate) reason: String,
}

/// What an application has, and what lies beside it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) orphans: Vec<Node>,
}

impl Tree {
    /// A tree as a server tells of it.
    pub(super) fn told(tree: &Value) -> Self {
        let nodes = |name: &str| {
            let nodes = tree.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            nodes.iter().map(Node::told).collect()
        };
        Self { nodes: nodes("nodes"), orphans: nodes("orphanedNodes") }
    }
}

fn key_of(value: &Value) -> ResourceKey {
    let [group, kind, namespace, name] =
        ["group", "kind", "namespace", "name"].map(|part| access::text(value, part));
    ResourceKey::new(group, kind, namespace, name)
}

impl Node {
    fn told(node: &Value) -> Self {
        let list = |name: &str| node.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let text = |name: &str| access::text(node, name).to_owned();
        let parent = |parent: &Value| (key_of(parent), access::text(parent, "uid").to_owned());
        let reason = list("info").iter().find(|item| access::text(item, "name") == REASON);
        Self {
            key: key_of(node),
            version: text("version"),
            uid: text("uid"),
            parents: list("parentRefs").iter().map(parent).collect(),
            health: node.get("health").map_or("", |health| access::text(health, "status")).to_owned(),
            created: access::text(node, "createdAt").parse().ok(),
            reason: reason.map_or("", |item| access::text(item, "value")).to_owned(),
        }
    }
}

impl From<TreeNode> for Node {
    fn from(node: TreeNode) -> Self {
        let derived = node.derived.as_deref();
        let health = derived.and_then(|derived| derived.health.as_ref());
        let told = derived.and_then(|derived| derived.node.as_deref()).map(NodeInfo::unpacked);
        let reason = told.and_then(|told| told.info.into_iter().find(|item| item.name == REASON));
        Self {
            version: node.version.to_string(),
            uid: node.uid.to_string(),
            parents: node.parents.iter().map(|parent| (parent.key.clone(), parent.uid.to_string())).collect(),
            health: health.map_or_else(String::new, |(status, _)| status.to_string()),
            created: Timestamp::from_second(node.created_seconds).ok().filter(|_| node.created_seconds != 0),
            reason: reason.map_or_else(String::new, |item| item.value),
            key: node.key,
        }
    }
}

impl Core {
    /// What an application has, each object below its owner. Without a server nothing is said of orphans.
    pub(crate) async fn tree(&self, app: &Application, world: &World) -> Result<Tree, Failure> {
        if let Some(server) = self.server() {
            return server.tree(&AppName::of(app)).await;
        }
        let destination = Destination::of(app, self, world).await?;
        let resources = app.status.resources.iter().filter(|resource| !resource.hook);
        let roots: Vec<(ResourceKey, &str)> = resources
            .map(|r| (ResourceKey::new(&r.group, &r.kind, &r.namespace, &r.name), r.version.as_str()))
            .collect();
        // By rules that cannot be read nothing is healthy or ill: it stays blank.
        let overrides = HealthOverrides::from_settings(world.settings.cm()).ok();
        let scripts = scripts::runner(&app.metadata.name, &world.settings);
        let derive = Arc::new(move |value: &Value| Derived {
            health: overrides
                .as_ref()
                .and_then(|overrides| assess_with(value, overrides, &scripts))
                .map(|health| (health.status.as_str().into(), health.message)),
            node: node_info(value, &[]).packed(),
            host: None,
        });
        // Nobody's marks are asked for: owners alone make the tree.
        let claims = Claims { keys: Vec::new(), claim: Arc::new(|_| BTreeSet::default()), ways: Vec::new() };
        let look = Look::start(&destination, world, claims, derive, wanted(app, &roots))?;
        look.ready().await?;
        let keys: Vec<ResourceKey> = roots.iter().map(|(key, _)| key.clone()).collect();
        let mut nodes: Vec<Node> = look.index.tree(&keys, &|_| true).into_iter().map(Node::from).collect();
        let known: BTreeSet<ResourceKey> = nodes.iter().map(|node| node.key.clone()).collect();
        let missing = roots.into_iter().filter(|(key, _)| !known.contains(key));
        nodes.extend(missing.map(|(key, version)| Node {
            key,
            version: version.to_owned(),
            health: HealthCode::Missing.as_str().to_owned(),
            ..Node::default()
        }));
        Ok(Tree { nodes, orphans: Vec::new() })
    }
}

/// The namespaces where the objects of an application are, and whether some are in none. No namespaces mean all.
fn wanted(app: &Application, roots: &[(ResourceKey, &str)]) -> (Vec<SmolStr>, bool) {
    let mut namespaces: BTreeSet<SmolStr> = roots.iter().map(|(key, _)| key.namespace.clone()).collect();
    let has_cluster_scoped = namespaces.remove("");
    if !app.spec.destination.namespace.is_empty() {
        namespaces.insert(app.spec.destination.namespace.as_str().into());
    }
    if namespaces.len() > NAMESPACES_MAX {
        namespaces.clear();
    }
    (namespaces.into_iter().collect(), has_cluster_scoped)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn api_137_a_tree_as_a_server_tells_of_it() {
        let tree = Tree::told(&json!({
            "nodes": [{"group": "apps", "version": "v1", "kind": "ReplicaSet", "namespace": "n", "name": "a-1", "uid": "2",
                "parentRefs": [{"group": "apps", "kind": "Deployment", "namespace": "n", "name": "a", "uid": "1"}],
                "createdAt": "2026-08-01T10:00:00Z", "health": {"status": "Healthy"},
                "info": [{"name": "Revision", "value": "Rev:1"}, {"name": "Status Reason", "value": "why"}]}],
            "orphanedNodes": [{"kind": "ConfigMap", "name": "x"}]}));
        let node = &tree.nodes[0];
        assert_eq!(node.parents, [(ResourceKey::new("apps", "Deployment", "n", "a"), "1".to_owned())]);
        assert_eq!(
            (node.health.as_str(), node.reason.as_str(), node.version.as_str()),
            ("Healthy", "why", "v1")
        );
        assert!(node.created.is_some());
        assert_eq!(tree.orphans[0].key, ResourceKey::new("", "ConfigMap", "", "x"));
        assert!(Tree::told(&json!({})).nodes.is_empty());
    }

    #[test]
    fn cli_447_only_the_namespaces_of_the_application_are_listed() {
        let app: Application = serde_json::from_value(
            json!({"metadata": {"name": "a"}, "spec": {"destination": {"namespace": "web"}}}),
        )
        .unwrap();
        let key = |namespace: &str| (ResourceKey::new("", "X", namespace, "x"), "v1");
        assert_eq!(wanted(&app, &[key("b"), key("b")]), (vec!["b".into(), "web".into()], false));
        assert_eq!(wanted(&app, &[key("")]), (vec!["web".into()], true));
        let many: Vec<String> = (0..=NAMESPACES_MAX).map(|at| format!("n{at}")).collect();
        let many: Vec<_> = many.iter().map(|namespace| key(namespace)).collect();
        assert_eq!(wanted(&app, &many), (Vec::new(), false));
    }
}
