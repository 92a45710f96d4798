//! One object of a build, and what kustomize notes about it in annotations that are removed at the end.
//!
//! The notes are real annotations here too: patches may read, overwrite and lose them.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use crate::fault::{Fault, Result};
use crate::fields;
use crate::graph::{Graph, NodeId};
use crate::id::{Gvk, ResourceId, split_api_version};
use crate::schema::Schemas;
use crate::{merge, yaml};

pub(crate) const PREVIOUS_KINDS: &str = "internal.config.kubernetes.io/previousKinds";
pub(crate) const PREVIOUS_NAMES: &str = "internal.config.kubernetes.io/previousNames";
pub(crate) const PREVIOUS_NAMESPACES: &str = "internal.config.kubernetes.io/previousNamespaces";
pub(crate) const PREFIXES: &str = "internal.config.kubernetes.io/prefixes";
pub(crate) const SUFFIXES: &str = "internal.config.kubernetes.io/suffixes";
const REFERRED_BY: &str = "internal.config.kubernetes.io/refBy";
const ALLOW_NAME_CHANGE: &str = "internal.config.kubernetes.io/allowNameChange";
const ALLOW_KIND_CHANGE: &str = "internal.config.kubernetes.io/allowKindChange";
const BEHAVIOR: &str = "internal.config.kubernetes.io/generatorBehavior";
const NEEDS_HASH: &str = "internal.config.kubernetes.io/needsHashSuffix";
const HELM_GENERATED: &str = "internal.config.kubernetes.io/helm-generated";
const ENABLED: &str = "enabled";

/// Annotations that are removed at the end.
const BUILD_ANNOTATIONS: &[&str] = &[
    PREVIOUS_KINDS,
    PREVIOUS_NAMES,
    PREFIXES,
    SUFFIXES,
    PREVIOUS_NAMESPACES,
    ALLOW_NAME_CHANGE,
    ALLOW_KIND_CHANGE,
    REFERRED_BY,
    BEHAVIOR,
    NEEDS_HASH,
    "internal.config.kubernetes.io/path",
    "internal.config.kubernetes.io/index",
    "internal.config.kubernetes.io/seqindent",
    "internal.config.kubernetes.io/id",
    "internal.config.kubernetes.io/annotations-migration-resource-id",
    "config.kubernetes.io/path",
    "config.kubernetes.io/index",
    "config.k8s.io/id",
    HELM_GENERATED,
];

/// Labels or annotations.
pub(crate) type TextMap = BTreeMap<SmolStr, SmolStr>;

/// What a generator does when its object is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    Unspecified,
    Create,
    Replace,
    Merge,
}

impl Behavior {
    /// Reads `behavior`; other words say nothing.
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "create" => Self::Create,
            "replace" => Self::Replace,
            "merge" => Self::Merge,
            _ => Self::Unspecified,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Create => "create",
            Self::Replace => "replace",
            Self::Merge => "merge",
        }
    }
}

/// One object.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// Its nodes; `None` once a patch has deleted it.
    node: Option<NodeId>,
    /// Names of variables that are read from it.
    pub(crate) vars: Vec<SmolStr>,
}

impl Resource {
    pub(crate) fn new(node: NodeId) -> Self {
        Self { node: Some(node), vars: Vec::new() }
    }

    /// Its nodes.
    pub(crate) fn node(&self) -> Option<NodeId> {
        self.node
    }

    /// Whether nothing is left of it.
    pub(crate) fn is_empty(&self, graph: &Graph) -> bool {
        self.node.is_none_or(|node| graph.node(node).is_null_or_empty())
    }

    /// Replaces its nodes.
    pub(crate) fn set_node(&mut self, node: NodeId) {
        self.node = Some(node);
    }

    fn member(&self, graph: &Graph, name: &str) -> SmolStr {
        let value = self.node.and_then(|node| fields::find(graph, node, name));
        value.map(|value| graph.node(value).value.clone()).unwrap_or_default()
    }

    pub(crate) fn kind(&self, graph: &Graph) -> SmolStr {
        self.member(graph, "kind")
    }

    pub(crate) fn api_version(&self, graph: &Graph) -> SmolStr {
        self.member(graph, "apiVersion")
    }

    pub(crate) fn name(&self, graph: &Graph) -> SmolStr {
        self.node.map(|node| fields::metadata_text(graph, node, "name")).unwrap_or_default()
    }

    pub(crate) fn namespace(&self, graph: &Graph) -> SmolStr {
        self.node.map(|node| fields::metadata_text(graph, node, "namespace")).unwrap_or_default()
    }

    /// Group, version and kind, with their scope.
    pub(crate) fn gvk(&self, graph: &Graph, schemas: &mut Schemas) -> Result<Gvk> {
        let (api_version, kind) = (self.api_version(graph), self.kind(graph));
        let gvk = Gvk::new(&api_version, &kind);
        // The group is put together again without what an empty one leaves.
        let is_cluster_scoped = match split_api_version(&api_version) {
            ("", version) => schemas.is_cluster_scoped(version, &kind)?,
            _ => schemas.is_cluster_scoped(&api_version, &kind)?,
        };
        Ok(Gvk { is_cluster_scoped, ..gvk })
    }

    /// What names it now.
    pub(crate) fn id(&self, graph: &Graph, schemas: &mut Schemas) -> Result<ResourceId> {
        Ok(ResourceId {
            gvk: self.gvk(graph, schemas)?,
            name: self.name(graph),
            namespace: self.namespace(graph),
        })
    }

    /// What named it before, the oldest first.
    ///
    /// # Errors
    /// When the notes do not fit each other.
    pub(crate) fn previous_ids(&self, graph: &Graph) -> Result<Vec<ResourceId>> {
        let Some(node) = self.node else { return Ok(Vec::new()) };
        previous_ids(graph, node)
    }

    /// What named it first.
    pub(crate) fn original_id(&self, graph: &Graph, schemas: &mut Schemas) -> Result<ResourceId> {
        match self.previous_ids(graph)?.into_iter().next() {
            Some(id) => Ok(id),
            None => self.id(graph, schemas),
        }
    }

    /// Notes what names it now.
    pub(crate) fn store_previous_id(&self, graph: &mut Graph, schemas: &mut Schemas) -> Result<()> {
        let id = self.id(graph, schemas)?;
        self.append_note(graph, PREVIOUS_NAMES, &id.name)?;
        self.append_note(graph, PREVIOUS_NAMESPACES, id.effective_namespace())?;
        self.append_note(graph, PREVIOUS_KINDS, &id.gvk.kind)
    }

    /// Appends to a note that is a list.
    pub(crate) fn append_note(&self, graph: &mut Graph, name: &str, value: &str) -> Result<()> {
        let Some(node) = self.node.filter(|_| !value.is_empty()) else { return Ok(()) };
        let text = match fields::metadata_entry(graph, node, "annotations", name) {
            Some(old) => format!("{old},{value}"),
            None => value.to_owned(),
        };
        fields::set_annotation(graph, node, name, &text)
    }

    /// A note that is a list; `None` when it is not there.
    pub(crate) fn note<'g>(&self, graph: &'g Graph, name: &str) -> Option<Vec<&'g str>> {
        let text = fields::metadata_entry(graph, self.node?, "annotations", name)?;
        Some(text.split(',').collect())
    }

    pub(crate) fn annotation<'g>(&self, graph: &'g Graph, name: &str) -> Option<&'g str> {
        fields::metadata_entry(graph, self.node?, "annotations", name)
    }

    /// Labels or annotations.
    pub(crate) fn text_map(&self, graph: &Graph, name: &str) -> TextMap {
        self.node
            .map(|node| fields::metadata_map(graph, node, name))
            .unwrap_or_default()
            .into_iter()
            .collect()
    }

    pub(crate) fn annotations(&self, graph: &Graph) -> TextMap {
        self.text_map(graph, "annotations")
    }

    pub(crate) fn set_annotations(&self, graph: &mut Graph, annotations: &TextMap) -> Result<()> {
        match self.node {
            Some(node) => fields::set_metadata_map(graph, node, "annotations", annotations),
            None => Ok(()),
        }
    }

    fn is_enabled(&self, graph: &Graph, name: &str) -> bool {
        self.annotation(graph, name) == Some(ENABLED)
    }

    fn enable(&self, graph: &mut Graph, name: &str) -> Result<()> {
        let mut annotations = self.annotations(graph);
        annotations.insert(name.into(), ENABLED.into());
        self.set_annotations(graph, &annotations)
    }

    /// Notes that a patch may change the name.
    pub(crate) fn allow_name_change(&self, graph: &mut Graph) -> Result<()> {
        self.enable(graph, ALLOW_NAME_CHANGE)
    }

    /// Notes that a patch may change the kind.
    pub(crate) fn allow_kind_change(&self, graph: &mut Graph) -> Result<()> {
        self.enable(graph, ALLOW_KIND_CHANGE)
    }

    pub(crate) fn needs_hash(&self, graph: &Graph) -> bool {
        self.is_enabled(graph, NEEDS_HASH)
    }

    /// Notes how an object was generated.
    pub(crate) fn mark_generated(
        &self,
        graph: &mut Graph,
        needs_hash: bool,
        behavior: Behavior,
    ) -> Result<()> {
        if needs_hash {
            self.enable(graph, NEEDS_HASH)?;
        }
        let mut annotations = self.annotations(graph);
        annotations.insert(BEHAVIOR.into(), behavior.as_str().into());
        self.set_annotations(graph, &annotations)
    }

    pub(crate) fn behavior(&self, graph: &Graph) -> Behavior {
        Behavior::parse(self.annotation(graph, BEHAVIOR).unwrap_or_default())
    }

    /// Notes that a chart made the object.
    pub(crate) fn mark_helm(&self, graph: &mut Graph) -> Result<()> {
        match self.node {
            Some(node) => fields::set_annotation(graph, node, HELM_GENERATED, "true"),
            None => Ok(()),
        }
    }

    /// Whether a chart made the object.
    pub(crate) fn is_helm_generated(&self, graph: &Graph) -> bool {
        self.annotation(graph, HELM_GENERATED) == Some("true")
    }

    pub(crate) fn set_name(&self, graph: &mut Graph, name: &str) -> Result<()> {
        self.set_path(graph, &["metadata", "name"], name)
    }

    pub(crate) fn set_kind(&self, graph: &mut Graph, kind: &str) -> Result<()> {
        self.set_path(graph, &["kind"], kind)
    }

    fn set_path(&self, graph: &mut Graph, path: &[&str], value: &str) -> Result<()> {
        match self.node {
            Some(node) => fields::set_path(graph, node, path, value),
            None => Ok(()),
        }
    }

    pub(crate) fn set_namespace(&self, graph: &mut Graph, namespace: &str) -> Result<()> {
        let Some(node) = self.node else { return Ok(()) };
        if !namespace.is_empty() {
            return fields::set_path(graph, node, &["metadata", "namespace"], namespace);
        }
        if let Some(metadata) = fields::get(graph, node, "metadata")? {
            fields::clear(graph, metadata, "namespace")?;
        }
        Ok(())
    }

    /// A copy with nodes of its own.
    pub(crate) fn copy(&self, graph: &mut Graph) -> Result<Self> {
        let node = self.node.map(|node| graph.copy(node)).transpose()?;
        Ok(Self { node, vars: self.vars.clone() })
    }

    /// Takes labels, annotations, name and namespace of another resource; its own labels and annotations count more,
    /// the notes of the other do.
    pub(crate) fn take_metadata(&mut self, graph: &mut Graph, other: &Self) -> Result<()> {
        let Some(node) = self.node else { return Ok(()) };
        let mut labels = other.text_map(graph, "labels");
        labels.extend(self.text_map(graph, "labels"));
        fields::set_metadata_map(graph, node, "labels", &labels)?;

        let (own, theirs) = (self.annotations(graph), other.annotations(graph));
        let mut annotations = theirs.clone();
        annotations.extend(own.clone());
        for name in BUILD_ANNOTATIONS {
            match theirs.get(*name) {
                Some(value) => {
                    annotations.insert((*name).into(), value.clone());
                }
                None => {
                    annotations.remove(*name);
                }
            }
        }
        if !own.contains_key(NEEDS_HASH) {
            annotations.remove(NEEDS_HASH);
        }
        self.set_annotations(graph, &annotations)?;
        let (name, namespace) = (other.name(graph), other.namespace(graph));
        self.set_name(graph, &name)?;
        self.set_namespace(graph, &namespace)?;
        self.vars.clone_from(&other.vars);
        Ok(())
    }

    /// Takes the members of the other's `data` or `binaryData` that it has not.
    pub(crate) fn take_data(&self, graph: &mut Graph, other: &Self, name: &str) -> Result<()> {
        let (Some(node), Some(other)) = (self.node, other.node) else { return Ok(()) };
        let mut data = data_map(graph, other, name)?;
        data.extend(data_map(graph, node, name)?);
        fields::clear(graph, node, name)?;
        for (key, value) in data {
            // Text here, whatever it was; what is base64 stays as it is.
            let value = graph.add(crate::graph::Node::text(value))?;
            let made = fields::look_up_or_make(graph, node, &[name], crate::graph::Kind::Mapping)?;
            if let Some(map) = made {
                fields::set(graph, map, &key, Some(value))?;
            }
        }
        Ok(())
    }

    /// Applies a strategic merge patch (RND-226).
    pub(crate) fn apply_merge_patch(
        &mut self,
        graph: &mut Graph,
        schemas: &mut Schemas,
        patch: &Self,
    ) -> Result<()> {
        let (Some(node), Some(patch_node)) = (self.node, patch.node) else { return Ok(()) };
        let (name, namespace, kind) = (self.name(graph), self.namespace(graph), self.kind(graph));
        let keeps_name = !patch.is_enabled(graph, ALLOW_NAME_CHANGE);
        let keeps_kind = !patch.is_enabled(graph, ALLOW_KIND_CHANGE);
        if !keeps_name || !keeps_kind {
            self.store_previous_id(graph, schemas)?;
        }
        schemas.read()?;
        if merge::merge(graph, schemas, node, patch_node, merge::NewItems::First)?.is_none() {
            self.node = None;
        }
        if self.is_empty(graph) {
            return Ok(());
        }
        if keeps_kind {
            self.set_kind(graph, &kind)?;
        }
        if keeps_name {
            self.set_name(graph, &name)?;
        }
        self.set_namespace(graph, &namespace)
    }

    /// Removes the notes.
    pub(crate) fn remove_build_annotations(&self, graph: &mut Graph) -> Result<()> {
        let mut annotations = self.annotations(graph);
        if annotations.is_empty() {
            return Ok(());
        }
        for name in BUILD_ANNOTATIONS {
            annotations.remove(*name);
        }
        self.set_annotations(graph, &annotations)
    }

    /// Notes, and annotations about files, which a JSON patch must not lose.
    pub(crate) fn internal_annotations(&self, graph: &Graph) -> TextMap {
        let is_internal = |name: &SmolStr| {
            name.starts_with("internal.config.kubernetes.io/")
                || matches!(
                    &**name,
                    "config.kubernetes.io/path" | "config.kubernetes.io/index" | "config.k8s.io/id"
                )
        };
        let mut annotations = self.annotations(graph);
        annotations.retain(|name, _| is_internal(name));
        annotations
    }
}

/// What named an object before, by its notes.
pub(crate) fn previous_ids(graph: &Graph, node: NodeId) -> Result<Vec<ResourceId>> {
    let note = |name: &str| fields::metadata_entry(graph, node, "annotations", name);
    let Some(names) = note(PREVIOUS_NAMES) else { return Ok(Vec::new()) };
    let names: Vec<&str> = names.split(',').collect();
    let namespaces: Vec<&str> = note(PREVIOUS_NAMESPACES).unwrap_or_default().split(',').collect();
    let kinds: Vec<&str> = note(PREVIOUS_KINDS).unwrap_or_default().split(',').collect();
    if names.len() != namespaces.len() || names.len() != kinds.len() {
        let what =
            "number of previous names, number of previous namespaces, number of previous kinds not equal";
        return Err(Fault::new(what));
    }
    let api_version = fields::find(graph, node, "apiVersion")
        .map(|value| graph.node(value).value.clone())
        .unwrap_or_default();
    let ids = names.into_iter().zip(namespaces).zip(kinds).map(|((name, namespace), kind)| ResourceId {
        gvk: Gvk::new(&api_version, kind),
        name: name.into(),
        namespace: namespace.into(),
    });
    Ok(ids.collect())
}

/// The members of `data` as text.
fn data_map(graph: &Graph, node: NodeId, name: &str) -> Result<TextMap> {
    let Some(map) = fields::get(graph, node, name)? else { return Ok(TextMap::new()) };
    if graph.node(map).kind != crate::graph::Kind::Mapping {
        return Ok(TextMap::new());
    }
    let text = |node: NodeId| {
        let node = graph.node(node);
        if node.is_null() { SmolStr::default() } else { node.value.clone() }
    };
    let members = fields::entries(graph, map)?;
    Ok(members.into_iter().map(|(key, value)| (text(key), text(value))).collect())
}

/// Reads the objects of a file (RND-210, RND-211).
///
/// # Errors
/// When a document is no object, or has no kind or name.
pub(crate) fn read_objects(graph: &mut Graph, bytes: &[u8]) -> Result<Vec<NodeId>> {
    let nodes = yaml::read_stream(graph, bytes)?;
    let nodes = without_bad(graph, nodes)?;
    expand_lists(graph, nodes)
}

fn without_bad(graph: &mut Graph, nodes: Vec<NodeId>) -> Result<Vec<NodeId>> {
    let mut good = Vec::with_capacity(nodes.len());
    for node in nodes {
        if graph.node(node).is_null_or_empty() {
            continue;
        }
        check_metadata(graph, node)?;
        good.push(node);
    }
    Ok(good)
}

fn check_metadata(graph: &Graph, node: NodeId) -> Result<()> {
    let metadata =
        fields::find(graph, node, "metadata").filter(|found| !graph.node(*found).is_null_or_empty());
    let has = |member: &str| {
        fields::find(graph, node, member).is_some_and(|found| !graph.node(found).is_null_or_empty())
    };
    let has_metadata = |member: &str| {
        let found = metadata.and_then(|found| fields::find(graph, found, member));
        found.is_some_and(|found| !graph.node(found).is_null_or_empty())
    };
    let any = ["apiVersion", "kind"].into_iter().any(has)
        || ["name", "namespace", "labels", "annotations"].into_iter().any(has_metadata);
    if !any {
        return Err(Fault::new("missing Resource metadata"));
    }
    check_name(graph, node)
}

/// Fails unless an object has a kind, and a name if it needs one.
pub(crate) fn check_name(graph: &Graph, node: NodeId) -> Result<()> {
    let text = |name: &str| fields::text_of(graph, node, name);
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let metadata =
        fields::find(graph, node, "metadata").filter(|found| !graph.node(*found).is_null_or_empty());
    let text = |name: &str| metadata.map(|found| fields::text_of(graph, found, name)).unwrap_or_default();
    let (name, namespace) = (text("name"), text("namespace"));
    if !kind.is_empty() && (kind.ends_with("List") || !name.is_empty()) {
        return Ok(());
    }
    let map = |name: &str| {
        let found = metadata.and_then(|found| fields::find(graph, found, name));
        found.filter(|found| !graph.node(*found).is_null_or_empty())
    };
    let (labels, annotations) = (map("labels"), map("annotations"));
    let shown = |found: Option<NodeId>| {
        let mut pairs: Vec<String> = found
            .map(|map| {
                graph
                    .node(map)
                    .content
                    .chunks_exact(2)
                    .filter_map(|pair| match pair {
                        [key, value] => {
                            Some(format!("{}:{}", graph.node(*key).value, graph.node(*value).value))
                        }
                        _ => None,
                    })
                    .collect()
            })
            .unwrap_or_default();
        pairs.sort();
        format!("map[{}]", pairs.join(" "))
    };
    let object = || {
        format!(
            "{{{{{api_version} {kind}}} {{{{{name} {namespace}}} {} {}}}}}",
            shown(labels),
            shown(annotations)
        )
    };
    if kind.is_empty() {
        return Err(Fault::new(format!("missing kind in object {}", object())));
    }
    if !kind.ends_with("List") && name.is_empty() {
        return Err(Fault::new(format!("missing metadata.name in object {}", object())));
    }
    Ok(())
}

/// Puts the items of lists behind everything else.
fn expand_lists(graph: &mut Graph, nodes: Vec<NodeId>) -> Result<Vec<NodeId>> {
    let mut pending: std::collections::VecDeque<NodeId> = nodes.into();
    let mut objects = Vec::with_capacity(pending.len());
    while let Some(node) = pending.pop_front() {
        graph.spend(1)?;
        let kind =
            fields::find(graph, node, "kind").map(|kind| graph.node(kind).value.clone()).unwrap_or_default();
        let items = fields::find(graph, node, "items");
        let Some(items) = items.filter(|_| kind.ends_with("List")) else {
            objects.push(node);
            continue;
        };
        // The original reads the list's value; what cannot be one is an error.
        let value = crate::value::to_value(graph, node)
            .map_err(|fault| fault.before(format!("trouble expanding list of {kind}; received error")))?;
        let value = match value.get("items") {
            Some(serde_json::Value::Array(_)) => true,
            None | Some(serde_json::Value::Null) => false,
            Some(other) => {
                let found = go_type(other);
                return Err(Fault::new(format!("expected array in {kind}/items, but found {found}")));
            }
        };
        if !value {
            continue;
        }
        let values = graph.node(items).content.clone();
        for item in values {
            let value = crate::value::to_value(graph, item)?;
            let inner = match &value {
                serde_json::Value::Object(_) => {
                    let text = tiphys_go::json::to_string_go(&value);
                    yaml::read_stream(graph, text.as_bytes())?
                }
                serde_json::Value::Null => Vec::new(),
                _ => vec![item],
            };
            pending.extend(without_bad(graph, inner)?);
        }
    }
    Ok(objects)
}

fn go_type(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Null => "<nil>",
        serde_json::Value::Bool(_) => "bool",
        serde_json::Value::Number(number) if number.is_f64() => "float64",
        serde_json::Value::Number(_) => "int",
        serde_json::Value::String(_) => "string",
        serde_json::Value::Array(_) => "[]interface {}",
        serde_json::Value::Object(_) => "map[string]interface {}",
    }
}
