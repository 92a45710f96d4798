//! Transformers that are configured, by the fields of a kustomization or by files of their own, and can be run.

use serde_json::{Map, Value, json};
use smol_str::SmolStr;
use tiphys_go::yaml::{Dialect, Limits};

use crate::build::Session;
use crate::config::FieldSpecs;
use crate::decode::Decoder;
use crate::fault::{Before as _, Class, Fault, Result, attempt, quoted};
use crate::kustomization::{Patch, Replacement, Replica, Selector, decode_replacement};
use crate::load::{Found, Loader};
use crate::resource::{Resource, TextMap, read_objects};
use crate::transform::{
    self, ImageTag, JsonPatchTransformer, LoadedPatch, Namespace, StrategicMerge, ValueAdd, Work,
};

/// A configured transformer.
pub(crate) enum Transformer {
    StrategicMerge(StrategicMerge),
    Patch(LoadedPatch),
    Namespace(Namespace),
    Prefix(SmolStr, FieldSpecs),
    Suffix(SmolStr, FieldSpecs),
    Labels(TextMap, FieldSpecs),
    Annotations(TextMap, FieldSpecs),
    JsonPatch(JsonPatchTransformer),
    Replicas(Replica, FieldSpecs),
    Images(ImageTag, FieldSpecs),
    Replacements(Vec<Replacement>),
    ValueAdd(ValueAdd),
    Hashes,
}

impl Transformer {
    /// The built-in kind that it is of.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::StrategicMerge(_) => "PatchStrategicMergeTransformer",
            Self::Patch(_) => "PatchTransformer",
            Self::Namespace(_) => "NamespaceTransformer",
            Self::Prefix(..) => "PrefixTransformer",
            Self::Suffix(..) => "SuffixTransformer",
            Self::Labels(..) => "LabelTransformer",
            Self::Annotations(..) => "AnnotationsTransformer",
            Self::JsonPatch(_) => "PatchJson6902Transformer",
            Self::Replicas(..) => "ReplicaCountTransformer",
            Self::Images(..) => "ImageTagTransformer",
            Self::Replacements(_) => "ReplacementTransformer",
            Self::ValueAdd(_) => "ValueAddTransformer",
            Self::Hashes => "HashTransformer",
        }
    }

    /// Changes all resources.
    pub(crate) fn transform(&self, work: &mut Work<'_>) -> Result<()> {
        match self {
            Self::StrategicMerge(patches) => patches.transform(work),
            Self::Patch(patch) => patch.transform(work),
            Self::Namespace(namespace) => namespace.transform(work),
            Self::Prefix(prefix, fields) => transform::add_prefix(work, prefix, fields),
            Self::Suffix(suffix, fields) => transform::add_suffix(work, suffix, fields),
            Self::Labels(labels, fields) if !labels.is_empty() => transform::label(work, labels, fields),
            Self::Annotations(texts, fields) if !texts.is_empty() => transform::annotate(work, texts, fields),
            Self::Labels(..) | Self::Annotations(..) => Ok(()),
            Self::JsonPatch(patch) => patch.transform(work),
            Self::Replicas(replica, fields) => transform::set_replicas(work, replica, fields),
            Self::Images(image, fields) => image.transform(work, fields),
            Self::Replacements(replacements) => transform::replace(work, replacements),
            Self::ValueAdd(value) => value.transform(work),
            Self::Hashes => transform::add_hashes(work),
        }
    }
}

/// The error about a configuration, which is shown.
pub(crate) fn troubled(fault: Fault, kind: &str, config: &Value) -> Fault {
    let shown = tiphys_go::yaml::to_string(config).unwrap_or_default();
    fault.before(format!("trouble configuring builtin {kind} with config: `\n{shown}`"))
}

fn text_members<'v>(members: impl IntoIterator<Item = (&'v str, &'v SmolStr)>) -> Map<String, Value> {
    let set = members.into_iter().filter(|(_, text)| !text.is_empty());
    set.map(|(name, text)| (name.to_owned(), Value::from(text.as_str()))).collect()
}

fn selector_config(selector: &Selector) -> Value {
    Value::Object(text_members([
        ("group", &selector.id.gvk.group),
        ("version", &selector.id.gvk.version),
        ("kind", &selector.id.gvk.kind),
        ("name", &selector.id.name),
        ("namespace", &selector.id.namespace),
        ("annotationSelector", &selector.annotations),
        ("labelSelector", &selector.labels),
    ]))
}

fn patch_config(patch: &Patch, text_name: &str) -> Value {
    let mut config = text_members([("path", &patch.path), (text_name, &patch.patch)]);
    if let Some(target) = &patch.target {
        config.insert("target".to_owned(), selector_config(target));
    }
    let switches =
        [("allowNameChange", patch.allow_name_change), ("allowKindChange", patch.allow_kind_change)];
    let options: Map<String, Value> =
        switches.into_iter().filter(|(_, on)| *on).map(|(name, on)| (name.to_owned(), on.into())).collect();
    if !options.is_empty() {
        config.insert("options".to_owned(), options.into());
    }
    Value::Object(config)
}

/// Text of a file. `None` when it is not fetched yet.
fn load_text(session: &mut Session<'_>, loader: &Loader<'_>, path: &str) -> Result<Option<String>> {
    match loader.load(&mut session.reading, path)? {
        Found::NotYet => Ok(None),
        Found::Here(bytes) => {
            session.graph.take(bytes.len())?;
            let text = tiphys_go::yaml::decode_text(&bytes).map_err(|error| Fault::new(error.to_string()))?;
            Ok(Some(text.into_owned()))
        }
    }
}

impl Session<'_> {
    /// Configures an entry of `patches`.
    pub(crate) fn patch(&mut self, loader: &Loader<'_>, patch: &Patch) -> Result<Option<Transformer>> {
        self.load_patch(loader, patch)
            .map_err(|fault| troubled(fault, "PatchTransformer", &patch_config(patch, "patch")))
    }

    /// Configures a `PatchTransformer`.
    pub(crate) fn load_patch(&mut self, loader: &Loader<'_>, patch: &Patch) -> Result<Option<Transformer>> {
        let inline = patch.patch.trim();
        let shown = || tiphys_go::yaml::to_string(&patch_config(patch, "patch")).unwrap_or_default();
        let (text, source) = match (inline, patch.path.as_str()) {
            ("", "") => {
                return Err(Fault::new(format!("must specify one of patch and path in\n{}", shown())));
            }
            ("", path) => {
                let words = || format!("failed to get the patch file from path({path})");
                let Some(text) = load_text(self, loader, path).before(words)? else { return Ok(None) };
                (text, format!("[path: {}]", quoted(path)))
            }
            (text, "") => (text.to_owned(), format!("[patch: {}]", quoted(text))),
            _ => {
                return Err(Fault::new(format!("patch and path can't be set at the same time\n{}", shown())));
            }
        };
        let patch = LoadedPatch::new(&mut self.graph, patch, &text, source)?;
        for name in patch.nulls(&self.graph) {
            self.warnings.push(format!(
                "# Warning: null does not remove '{name}' in a patch with a target: it becomes the text \"null\""
            ));
        }
        Ok(Some(Transformer::Patch(patch)))
    }

    /// Configures `patchesStrategicMerge`.
    pub(crate) fn strategic_merge(
        &mut self,
        loader: &Loader<'_>,
        paths: &[SmolStr],
    ) -> Result<Option<Transformer>> {
        self.load_strategic_merge(loader, paths, "").map_err(|fault| {
            let config = json!({"paths": paths.iter().map(SmolStr::as_str).collect::<Vec<_>>()});
            troubled(fault, "PatchStrategicMergeTransformer", &config)
        })
    }

    /// Configures a `PatchStrategicMergeTransformer`: its paths may be the patches themselves.
    pub(crate) fn load_strategic_merge(
        &mut self,
        loader: &Loader<'_>,
        paths: &[SmolStr],
        text: &str,
    ) -> Result<Option<Transformer>> {
        if paths.is_empty() && text.is_empty() {
            return Err(Fault::new("empty file path and empty patch content"));
        }
        let mut nodes = Vec::new();
        let mut is_complete = true;
        for path in paths {
            if let Ok(inline) = attempt(read_objects(&mut self.graph, path.as_bytes()))? {
                nodes.extend(inline);
                continue;
            }
            match loader.load(&mut self.reading, path)? {
                Found::NotYet => is_complete = false,
                Found::Here(bytes) => {
                    let read = read_objects(&mut self.graph, &bytes).map_err(|fault| in_file(fault, path))?;
                    nodes.extend(read);
                }
            }
        }
        if !text.is_empty() {
            nodes.extend(read_objects(&mut self.graph, text.as_bytes())?);
        }
        if !is_complete {
            return Ok(None);
        }
        if nodes.is_empty() {
            let paths = paths.iter().map(SmolStr::as_str).collect::<Vec<_>>().join(" ");
            return Err(Fault::new(format!("patch appears to be empty; files=[{paths}], Patch={text}")));
        }
        let patches = nodes.into_iter().map(Resource::new).collect();
        Ok(Some(Transformer::StrategicMerge(StrategicMerge { patches })))
    }

    /// Configures an entry of `patchesJson6902`.
    pub(crate) fn json_patch(&mut self, loader: &Loader<'_>, patch: &Patch) -> Result<Option<Transformer>> {
        self.load_json_patch(loader, patch)
            .map_err(|fault| troubled(fault, "PatchJson6902Transformer", &patch_config(patch, "jsonOp")))
    }

    /// Configures a `PatchJson6902Transformer`.
    pub(crate) fn load_json_patch(
        &mut self,
        loader: &Loader<'_>,
        patch: &Patch,
    ) -> Result<Option<Transformer>> {
        if patch.target.as_ref().is_none_or(|target| target.id.name.is_empty()) {
            return Err(Fault::new("must specify the target name"));
        }
        let text = match (patch.path.as_str(), patch.patch.as_str()) {
            ("", "") => return Err(Fault::new("empty file path and empty jsonOp")),
            ("", text) => text.to_owned(),
            (path, "") => {
                let Some(text) = load_text(self, loader, path)? else { return Ok(None) };
                if text.is_empty() {
                    return Err(Fault::new(format!("patch file '{path}' empty seems to be empty")));
                }
                text
            }
            _ => return Err(Fault::new("must specify a file path or jsonOp, not both")),
        };
        let patch = JsonPatchTransformer::new(patch.target.as_ref(), &patch.path, &text)?;
        Ok(Some(Transformer::JsonPatch(patch)))
    }

    /// Configures `replacements`, of which some may stand in files.
    pub(crate) fn load_replacements(
        &mut self,
        loader: &Loader<'_>,
        list: &[Replacement],
    ) -> Result<Option<Transformer>> {
        let mut replacements = Vec::with_capacity(list.len());
        let mut is_complete = true;
        for entry in list {
            if entry.path.is_empty() {
                replacements.push(entry.clone());
                continue;
            }
            let has_targets = entry.targets.as_ref().is_some_and(|targets| !targets.is_empty());
            if entry.source.is_some() || has_targets {
                return Err(Fault::new("cannot specify both path and inline replacement"));
            }
            let Some(text) = load_text(self, loader, &entry.path)? else {
                is_complete = false;
                continue;
            };
            let value = tiphys_go::yaml::parse(&text, Dialect::Sigs, &Limits::default())
                .map_err(|error| Fault::new(error.to_string()))?;
            let at = Decoder::lenient("Replacement");
            match value.unwrap_or_default() {
                Value::Array(items) => {
                    for item in &items {
                        replacements.push(decode_replacement(item, &at, false)?);
                    }
                }
                map @ Value::Object(_) => replacements.push(decode_replacement(&map, &at, false)?),
                other => {
                    let kind = go_kind(&other);
                    return Err(Fault::new(format!(
                        "unsupported replacement type encountered within replacement path: {kind}"
                    )));
                }
            }
        }
        Ok(is_complete.then_some(Transformer::Replacements(replacements)))
    }
}

/// An error about the content of a file names it.
pub(crate) fn in_file(fault: Fault, path: &str) -> Fault {
    if fault.class() == Class::MalformedYaml {
        fault.replace(|text| format!("{text} in File: {path}"))
    } else {
        fault
    }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
