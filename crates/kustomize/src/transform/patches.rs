//! Patches: strategic merge and JSON (RND-225..228).

use serde_json::Value;
use smol_str::SmolStr;
use tiphys_go::yaml::{Dialect, Limits};
use tiphys_object::json_patch;

use super::{Work, json_errors};
use crate::fault::{Before as _, Fault, Result, attempt, quoted};
use crate::fields;
use crate::graph::{Graph, NodeId};
use crate::kustomization::{Patch, Selector};
use crate::resource::{Resource, read_objects};
use crate::value::{from_value, to_value};

/// An entry of `patches` with the text of its file.
#[derive(Debug)]
pub(crate) struct LoadedPatch {
    merges: Vec<Resource>,
    operations: Option<Value>,
    /// Where the text stands, for errors.
    source: String,
    target: Option<Selector>,
}

impl LoadedPatch {
    /// Reads the text of a patch, which is a merge or a list of operations.
    pub(crate) fn new(graph: &mut Graph, patch: &Patch, text: &str, source: String) -> Result<Self> {
        let merges = attempt(read_objects(graph, text.as_bytes()))?;
        let operations = attempt(parse_operations(text))?;
        let has_operations = matches!(&operations, Ok(Value::Array(list)) if !list.is_empty());
        let (merges, operations) = match (merges, operations) {
            (Ok(merges), _) if !merges.is_empty() && has_operations => {
                return Err(Fault::new(format!(
                    "illegally qualifies as both an SM and JSON patch: {source}"
                )));
            }
            (Ok(merges), _) => (merges, None),
            (Err(_), Ok(operations)) => (Vec::new(), Some(operations)),
            (Err(_), Err(_)) => {
                return Err(Fault::new(format!("unable to parse SM or JSON patch from {source}")));
            }
        };
        let merges: Vec<Resource> = merges.into_iter().map(Resource::new).collect();
        for merge in &merges {
            if patch.allow_name_change {
                merge.allow_name_change(graph)?;
            }
            if patch.allow_kind_change {
                merge.allow_kind_change(graph)?;
            }
        }
        Ok(Self { merges, operations, source, target: patch.target.clone() })
    }

    /// Labels and annotations that the patch seems to remove, but sets to the text `null` (RND-228).
    pub(crate) fn nulls(&self, graph: &Graph) -> Vec<SmolStr> {
        if self.target.is_none() {
            return Vec::new();
        }
        let mut names = Vec::new();
        for node in self.merges.iter().filter_map(Resource::node) {
            let metadata = fields::find(graph, node, "metadata");
            for map in ["labels", "annotations"].iter().filter_map(|map| fields::find(graph, metadata?, map))
            {
                for pair in graph.node(map).content.chunks_exact(2) {
                    if let [key, value] = pair
                        && graph.node(*value).is_null()
                    {
                        names.push(graph.node(*key).value.clone());
                    }
                }
            }
        }
        names
    }

    /// Applies the patch to what it selects or names.
    pub(crate) fn transform(&self, work: &mut Work<'_>) -> Result<()> {
        if !self.merges.is_empty() {
            return self.merge(work);
        }
        match &self.operations {
            Some(Value::Array(_)) => {
                let Some(target) = &self.target else {
                    return Err(Fault::new(format!("must specify a target for JSON patch {}", self.source)));
                };
                apply_operations(work, target, self.operations.as_ref(), true)
            }
            _ => Ok(()),
        }
    }

    fn merge(&self, work: &mut Work<'_>) -> Result<()> {
        let Work { graph, schemas, resources } = work;
        if let Some(target) = &self.target {
            let [patch] = self.merges.as_slice() else {
                return Err(Fault::new(format!(
                    "Multiple Strategic-Merge Patches in one `patches` entry is not allowed to set `patches.target` field: {}",
                    self.source
                )));
            };
            let selected = resources.select(graph, schemas, target).before(|| {
                format!("unable to find patch target {} in `resources`", quoted(&target.to_string()))
            })?;
            let mut ids = Vec::with_capacity(selected.len());
            for index in selected {
                if let Some(resource) = resources.list().get(index) {
                    ids.push(resource.id(graph, schemas)?);
                }
            }
            return resources.apply_merge_patch(graph, schemas, &ids, patch);
        }
        for patch in &self.merges {
            let id = patch.original_id(graph, schemas)?;
            let index = resources.for_patch(graph, schemas, &id).before(|| {
                format!("no resource matches strategic merge patch {}", quoted(&id.to_string()))
            })?;
            if let Some(resource) = resources.list_mut().get_mut(index) {
                resource.apply_merge_patch(graph, schemas, patch)?;
            }
        }
        Ok(())
    }
}

/// Reads a list of operations; null is none.
pub(crate) fn parse_operations(text: &str) -> Result<Value> {
    if text.is_empty() {
        return Err(Fault::new("empty json patch operations"));
    }
    let value = if text.starts_with('[') {
        tiphys_go::json::decode_kubernetes(text.as_bytes()).map_err(|error| Fault::new(error.to_string()))?
    } else {
        let parsed = tiphys_go::yaml::parse(text, Dialect::Sigs, &Limits::default());
        parsed.map_err(|error| Fault::new(error.to_string()))?.unwrap_or_default()
    };
    let is_patch = match &value {
        Value::Null => true,
        Value::Array(operations) => {
            operations.iter().all(|operation| operation.is_object() || operation.is_null())
        }
        _ => false,
    };
    if is_patch {
        Ok(value)
    } else {
        Err(Fault::new("json: cannot unmarshal into Go value of type jsonpatch.Patch"))
    }
}

/// Applies operations to every selected resource; the notes about it stay, whatever they do.
fn apply_operations(
    work: &mut Work<'_>,
    target: &Selector,
    operations: Option<&Value>,
    stores_id: bool,
) -> Result<()> {
    let Work { graph, schemas, resources } = work;
    let selected = resources.select(graph, schemas, target)?;
    let Some(operations) = operations else { return Ok(()) };
    for index in selected {
        let Some(resource) = resources.list_mut().get_mut(index) else { continue };
        let Some(node) = resource.node() else { continue };
        if stores_id {
            resource.store_previous_id(graph, schemas)?;
        }
        let notes = resource.internal_annotations(graph);
        let patched = apply_to(graph, node, operations)?;
        resource.set_node(patched);
        let mut annotations = resource.annotations(graph);
        annotations.extend(notes);
        resource.set_annotations(graph, &annotations)?;
    }
    Ok(())
}

fn apply_to(graph: &mut Graph, node: NodeId, operations: &Value) -> Result<NodeId> {
    let value = to_value(graph, node)?;
    let list = operations.as_array().map(Vec::as_slice).unwrap_or_default();
    graph.spend(list.len().saturating_mul(16))?;
    let patched = match json_patch::apply(value, operations) {
        Ok(patched) => patched,
        Err(
            error @ (json_patch::JsonPatchError::TooMany
            | json_patch::JsonPatchError::TooMuch { .. }
            | json_patch::JsonPatchError::TooDeep { .. }),
        ) => return Err(Fault::exhausted(error.to_string())),
        Err(error) => {
            let value = to_value(graph, node)?;
            let text = json_errors::explain(value, list).unwrap_or_else(|| error.to_string());
            return Err(Fault::new(text));
        }
    };
    match &patched {
        Value::Object(_) => from_value(graph, &patched),
        Value::Null => from_value(graph, &Value::Object(serde_json::Map::new())),
        _ => Err(Fault::new("json: cannot unmarshal into Go value of type map[string]interface {}")),
    }
}

/// `patchesStrategicMerge`, read.
#[derive(Debug)]
pub(crate) struct StrategicMerge {
    pub(crate) patches: Vec<Resource>,
}

impl StrategicMerge {
    /// Applies each patch to the resource it names.
    pub(crate) fn transform(&self, work: &mut Work<'_>) -> Result<()> {
        let Work { graph, schemas, resources } = work;
        for patch in &self.patches {
            let id = patch.original_id(graph, schemas)?;
            let index = resources.for_patch(graph, schemas, &id)?;
            let Some(target) = resources.list().get(index) else { continue };
            let selected = [target.id(graph, schemas)?];
            resources.apply_merge_patch(graph, schemas, &selected, patch)?;
        }
        Ok(())
    }
}

/// An entry of `patchesJson6902`, read.
#[derive(Debug)]
pub(crate) struct JsonPatchTransformer {
    target: Selector,
    operations: Value,
}

impl JsonPatchTransformer {
    /// Reads the operations; `path` is where they stand, for errors.
    pub(crate) fn new(target: Option<&Selector>, path: &str, text: &str) -> Result<Self> {
        let Some(target) = target.filter(|target| !target.id.name.is_empty()) else {
            return Err(Fault::new("must specify the target name"));
        };
        let operations = parse_operations(text).before(|| format!("decoding {text}"))?;
        if operations.as_array().is_none_or(Vec::is_empty) {
            return Err(Fault::new(format!("patch appears to be empty; file={path}, JsonOp={text}")));
        }
        Ok(Self { target: target.clone(), operations })
    }

    /// Applies the operations to what is selected.
    pub(crate) fn transform(&self, work: &mut Work<'_>) -> Result<()> {
        apply_operations(work, &self.target, Some(&self.operations), false)
    }
}
