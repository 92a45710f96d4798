//! `crds`: descriptions of kinds, of which some extensions name fields for the transformers (RND-234).

use std::sync::Arc;

use serde_json::{Map, Value};
use smol_str::SmolStr;
use tiphys_go::nesting::DEPTH_MAX;
use tiphys_go::yaml::{Dialect, Limits};

use crate::config::{Config, FieldSpec, merge_one};
use crate::fault::{Before as _, Fault, Result};
use crate::graph::Graph;
use crate::id::Gvk;
use crate::load::{Found, Loader, Reading};

const ANNOTATION: &str = "x-kubernetes-annotation";
const LABEL_SELECTOR: &str = "x-kubernetes-label-selector";
const IDENTITY: &str = "x-kubernetes-identity";
const REFERENCE_VERSION: &str = "x-kubernetes-object-ref-api-version";
const REFERENCE_KIND: &str = "x-kubernetes-object-ref-kind";
const REFERENCE_NAME_KEY: &str = "x-kubernetes-object-ref-name-key";

/// Reads the fields that the files name.
pub(crate) fn read_crds(
    graph: &Graph,
    reading: &mut Reading<'_>,
    loader: &Loader<'_>,
    paths: &[SmolStr],
) -> Result<Arc<Config>> {
    let mut config = Arc::new(Config::default());
    for path in paths {
        let Found::Here(bytes) = loader.load(reading, path)? else { continue };
        let types =
            parse(graph, &bytes).before(|| format!("unable to parse open API definition from '{path}'"))?;
        for (name, definition) in &types {
            if !is_kind(definition) {
                continue;
            }
            let kind = name.rsplit('.').next().unwrap_or_default();
            let mut reader = Reader { graph, types: &types, kind: kind.into(), config: Config::default() };
            reader.read(name, &mut Vec::new())?;
            config = config.merge(&Arc::new(reader.config))?;
        }
    }
    Ok(config)
}

fn parse(graph: &Graph, bytes: &[u8]) -> Result<Map<String, Value>> {
    graph.take(bytes.len())?;
    let value = if bytes.starts_with(b"{") {
        tiphys_go::json::decode_kubernetes(bytes).map_err(|error| Fault::new(error.to_string()))?
    } else {
        let text = tiphys_go::yaml::decode_text(bytes).map_err(|error| Fault::new(error.to_string()))?;
        let parsed = tiphys_go::yaml::parse(&text, Dialect::Sigs, &Limits::default());
        parsed.map_err(|error| Fault::new(error.to_string()))?.unwrap_or_default()
    };
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        _ => Err(Fault::new("json: cannot unmarshal into Go value of type accumulator.nameToApiMap")),
    }
}

/// A member, whatever the case of its name.
fn member<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let map = value.as_object()?;
    map.get(name)
        .or_else(|| map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

fn properties(definition: &Value) -> Option<&Map<String, Value>> {
    member(definition, "Schema")?.get("properties")?.as_object()
}

fn is_kind(definition: &Value) -> bool {
    properties(definition)
        .is_some_and(|known| ["kind", "apiVersion", "metadata"].iter().all(|name| known.contains_key(*name)))
}

struct Reader<'r> {
    graph: &'r Graph,
    types: &'r Map<String, Value>,
    kind: SmolStr,
    config: Config,
}

impl Reader<'_> {
    fn read(&mut self, name: &str, path: &mut Vec<String>) -> Result<()> {
        if path.len() > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        let types = self.types;
        let Some(properties) = types.get(name).and_then(properties) else { return Ok(()) };
        for (name, property) in properties {
            self.graph.spend(1 + path.len())?;
            let extension = |wanted: &str| {
                let found = property.as_object()?.iter().find(|(key, _)| key.eq_ignore_ascii_case(wanted));
                found.and_then(|(_, value)| value.as_str())
            };
            path.push(name.clone());
            for (extension, fields) in [
                (extension(ANNOTATION), &mut self.config.common_annotations),
                (extension(LABEL_SELECTOR), &mut self.config.common_labels),
                (extension(IDENTITY), &mut self.config.name_prefix),
            ] {
                if extension.is_some() {
                    merge_one(fields, &field(&self.kind, path))?;
                }
            }
            if let (Some(version), Some(kind)) = (extension(REFERENCE_VERSION), extension(REFERENCE_KIND)) {
                path.push(extension(REFERENCE_NAME_KEY).unwrap_or("name").to_owned());
                let referent = Gvk { version: version.into(), kind: kind.into(), ..Gvk::default() };
                self.config.add_reference(referent, field(&self.kind, path))?;
                path.pop();
            }
            if let Some(reference) = property.get("$ref").and_then(Value::as_str) {
                self.read(reference, path)?;
            }
            path.pop();
        }
        Ok(())
    }
}

fn field(kind: &SmolStr, path: &[String]) -> FieldSpec {
    let gvk = Gvk { kind: kind.clone(), ..Gvk::default() };
    FieldSpec { gvk, create: false, ..FieldSpec::everywhere(&path.join("/")) }
}
