//! The kustomization file: its fields, and the spellings of former versions (RND-207, RND-208).

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use smol_str::SmolStr;

use crate::config::{FieldSpecs, decode_fields};
use crate::decode::{Decoder, Members};
use crate::fault::{Before as _, Fault, Result};
use crate::id::ResourceId;

pub(crate) const KUSTOMIZATION: &str = "Kustomization";
pub(crate) const COMPONENT: &str = "Component";
const KUSTOMIZATION_VERSION: &str = "kustomize.config.k8s.io/v1beta1";
const COMPONENT_VERSION: &str = "kustomize.config.k8s.io/v1alpha1";

/// Names that a kustomization file may have.
pub(crate) const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// `labels`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Label {
    pub(crate) pairs: BTreeMap<SmolStr, SmolStr>,
    pub(crate) include_selectors: bool,
    pub(crate) include_templates: bool,
    pub(crate) fields: FieldSpecs,
}

/// Which resources a patch or replacement is for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    pub(crate) id: ResourceId,
    pub(crate) annotations: SmolStr,
    pub(crate) labels: SmolStr,
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:a={}:l={}", self.id, self.annotations, self.labels)
    }
}

/// `patches` and `patchesJson6902`.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "the fields of the file")]
pub(crate) struct Patch {
    pub(crate) path: SmolStr,
    pub(crate) patch: SmolStr,
    pub(crate) target: Option<Selector>,
    pub(crate) allow_name_change: bool,
    pub(crate) allow_kind_change: bool,
}

/// `images`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) name: SmolStr,
    pub(crate) new_name: SmolStr,
    pub(crate) tag_suffix: SmolStr,
    pub(crate) new_tag: SmolStr,
    pub(crate) digest: SmolStr,
}

/// `replicas`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replica {
    pub(crate) name: SmolStr,
    pub(crate) count: i64,
}

/// Options of a field of a replacement.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldOptions {
    pub(crate) delimiter: SmolStr,
    pub(crate) index: i64,
    pub(crate) create: bool,
}

/// Where a replacement comes from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    pub(crate) id: ResourceId,
    pub(crate) field_path: SmolStr,
    pub(crate) options: Option<FieldOptions>,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.id)?;
        if !self.field_path.is_empty() {
            write!(f, ":{}", self.field_path)?;
        }
        match &self.options {
            Some(options) if !options.delimiter.is_empty() || options.create => {
                write!(f, ":{}({}), create={}", options.delimiter, options.index, options.create)
            }
            _ => Ok(()),
        }
    }
}

/// Where a replacement goes to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub(crate) select: Option<Selector>,
    pub(crate) reject: Vec<Selector>,
    pub(crate) field_paths: Vec<SmolStr>,
    pub(crate) options: Option<FieldOptions>,
}

/// `replacements`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replacement {
    pub(crate) source: Option<Source>,
    pub(crate) source_value: Option<SmolStr>,
    pub(crate) targets: Option<Vec<Target>>,
    pub(crate) path: SmolStr,
}

/// `vars`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Var {
    pub(crate) name: SmolStr,
    pub(crate) object: ResourceId,
    pub(crate) field_path: SmolStr,
}

/// `sortOptions`.
#[derive(Clone, Debug, Default)]
pub(crate) struct SortOptions {
    pub(crate) order: SmolStr,
    pub(crate) legacy: Option<(Vec<SmolStr>, Vec<SmolStr>)>,
}

/// `generatorOptions`, and `options` of a generator.
#[derive(Clone, Debug, Default)]
pub(crate) struct GeneratorOptions {
    pub(crate) labels: BTreeMap<SmolStr, SmolStr>,
    pub(crate) annotations: BTreeMap<SmolStr, SmolStr>,
    pub(crate) disable_name_suffix_hash: bool,
    pub(crate) immutable: bool,
}

impl GeneratorOptions {
    /// These options, and of the others what these do not say.
    pub(crate) fn with_global(mut self, global: &Self) -> Self {
        for (name, value) in &global.labels {
            self.labels.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for (name, value) in &global.annotations {
            self.annotations.entry(name.clone()).or_insert_with(|| value.clone());
        }
        self.disable_name_suffix_hash |= global.disable_name_suffix_hash;
        self.immutable |= global.immutable;
        self
    }
}

/// `configMapGenerator` and `secretGenerator`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generator {
    pub(crate) name: SmolStr,
    pub(crate) namespace: SmolStr,
    pub(crate) behavior: SmolStr,
    pub(crate) literals: Vec<SmolStr>,
    pub(crate) files: Vec<SmolStr>,
    pub(crate) envs: Vec<SmolStr>,
    pub(crate) options: Option<GeneratorOptions>,
    /// Of a secret.
    pub(crate) secret_type: SmolStr,
}

/// `helmGlobals`. `configHome` is read and has no effect: no plugins are loaded from anywhere (SEC-51).
#[derive(Clone, Debug, Default)]
pub(crate) struct HelmGlobals {
    pub(crate) chart_home: SmolStr,
    pub(crate) config_home: SmolStr,
}

/// `helmCharts`.
#[derive(Clone, Debug, Default)]
pub(crate) struct HelmChart {
    pub(crate) name: SmolStr,
    pub(crate) version: SmolStr,
    pub(crate) repo: SmolStr,
    pub(crate) release_name: SmolStr,
    pub(crate) namespace: SmolStr,
    pub(crate) additional_values_files: Vec<SmolStr>,
    pub(crate) values_file: SmolStr,
    pub(crate) values_inline: Map<String, Value>,
    pub(crate) values_merge: SmolStr,
    pub(crate) include_crds: bool,
    pub(crate) skip_hooks: bool,
    pub(crate) api_versions: Vec<SmolStr>,
    pub(crate) kube_version: SmolStr,
    pub(crate) name_template: SmolStr,
    pub(crate) skip_tests: bool,
    pub(crate) devel: bool,
}

/// A kustomization file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kustomization {
    pub(crate) api_version: SmolStr,
    pub(crate) kind: SmolStr,
    pub(crate) openapi: Map<String, Value>,
    pub(crate) name_prefix: SmolStr,
    pub(crate) name_suffix: SmolStr,
    pub(crate) namespace: SmolStr,
    pub(crate) common_labels: BTreeMap<SmolStr, SmolStr>,
    pub(crate) labels: Vec<Label>,
    pub(crate) common_annotations: BTreeMap<SmolStr, SmolStr>,
    pub(crate) patches_strategic_merge: Vec<SmolStr>,
    pub(crate) patches_json6902: Vec<Patch>,
    pub(crate) patches: Vec<Patch>,
    pub(crate) images: Vec<Image>,
    pub(crate) replacements: Vec<Replacement>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) vars: Vec<Var>,
    pub(crate) sort_options: Option<SortOptions>,
    pub(crate) resources: Vec<SmolStr>,
    pub(crate) components: Vec<SmolStr>,
    pub(crate) crds: Vec<SmolStr>,
    pub(crate) config_maps: Vec<Generator>,
    pub(crate) secrets: Vec<Generator>,
    pub(crate) helm_globals: Option<HelmGlobals>,
    pub(crate) helm_charts: Vec<HelmChart>,
    pub(crate) generator_options: Option<GeneratorOptions>,
    pub(crate) configurations: Vec<SmolStr>,
    pub(crate) generators: Vec<SmolStr>,
    pub(crate) transformers: Vec<SmolStr>,
    pub(crate) validators: Vec<SmolStr>,
    pub(crate) build_metadata: Vec<SmolStr>,
    /// Nothing but version and kind.
    pub(crate) is_empty: bool,
    /// What users are told about fields of former versions.
    pub(crate) warnings: Vec<&'static str>,
}

const FIX: &str = "Run 'kustomize edit fix' to update your Kustomization automatically.";

impl Kustomization {
    /// Reads the value of a file, in which the spellings of former versions are put right.
    ///
    /// # Errors
    /// When it does not say what it has to.
    pub(crate) fn read(value: &Value) -> Result<Self> {
        let mut read = Decoding::default();
        read.decode(value).before(|| "invalid Kustomization".to_owned())?;
        let Decoding { mut kustomization, bases, image_tags, old_charts } = read;
        let k = &mut kustomization;
        if k.kind.is_empty() {
            k.kind = KUSTOMIZATION.into();
        }
        if k.api_version.is_empty() {
            k.api_version = required_version(&k.kind).into();
        }
        k.resources.extend(bases);
        k.images.extend(image_tags);
        let mut old_globals = HelmGlobals::default();
        for (chart, globals) in old_charts {
            if !globals.config_home.is_empty() {
                old_globals.config_home = globals.config_home;
            }
            if !globals.chart_home.is_empty() {
                old_globals.chart_home = globals.chart_home;
            }
            k.helm_charts.push(chart);
        }
        let has_old_globals = !old_globals.chart_home.is_empty() || !old_globals.config_home.is_empty();
        if k.helm_globals.is_none() && has_old_globals {
            k.helm_globals = Some(old_globals);
        }
        Ok(kustomization)
    }

    /// Looks whether the file says anything, and is of the right kind.
    ///
    /// # Errors
    /// When it does not, or is not.
    pub(crate) fn check(&self, directory: &str) -> Result<()> {
        if self.is_empty {
            return Err(Fault::new("kustomization.yaml is empty"));
        }
        let (kind, required) = (&self.kind, required_version(&self.kind));
        let mut wrong = Vec::new();
        if kind != KUSTOMIZATION && kind != COMPONENT {
            wrong.push(format!("kind should be {KUSTOMIZATION} or {COMPONENT}"));
        }
        if self.api_version != required {
            wrong.push(format!("apiVersion for {kind} should be {required}"));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let text = format!("Failed to read kustomization file under {directory}:\n{}", wrong.join("\n"));
        Err(Fault::new(text))
    }
}

fn required_version(kind: &str) -> &'static str {
    if kind == COMPONENT { COMPONENT_VERSION } else { KUSTOMIZATION_VERSION }
}

/// A file while it is read.
#[derive(Default)]
struct Decoding {
    kustomization: Kustomization,
    bases: Vec<SmolStr>,
    image_tags: Vec<Image>,
    old_charts: Vec<(HelmChart, HelmGlobals)>,
}

const FIELDS: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "openapi",
    "namePrefix",
    "nameSuffix",
    "namespace",
    "commonLabels",
    "labels",
    "commonAnnotations",
    "patchesStrategicMerge",
    "patchesJson6902",
    "patches",
    "images",
    "imageTags",
    "replacements",
    "replicas",
    "vars",
    "sortOptions",
    "resources",
    "components",
    "crds",
    "bases",
    "configMapGenerator",
    "secretGenerator",
    "helmGlobals",
    "helmCharts",
    "helmChartInflationGenerator",
    "generatorOptions",
    "configurations",
    "generators",
    "transformers",
    "validators",
    "buildMetadata",
];

impl Decoding {
    fn decode(&mut self, value: &Value) -> Result<()> {
        let root = Decoder::strict("Kustomization");
        let mut deprecated: Vec<(usize, &str)> = Vec::new();
        let k = &mut self.kustomization;
        k.is_empty = true;
        for (name, value) in root.members(value, FIELDS)? {
            let at = root.field(name);
            k.is_empty &= matches!(name, "apiVersion" | "kind") || value.as_str() == Some("");
            match name {
                "apiVersion" => k.api_version = root.field("TypeMeta.apiVersion").text(value)?,
                "kind" => k.kind = root.field("TypeMeta.kind").text(value)?,
                // It is checked and has no effect (RND-238).
                "metadata" => decode_metadata(value, &at)?,
                "openapi" => {
                    at.text_map(value)?;
                    k.openapi = at.map(value)?;
                }
                "namePrefix" => k.name_prefix = at.text(value)?,
                "nameSuffix" => k.name_suffix = at.text(value)?,
                "namespace" => k.namespace = at.text(value)?,
                "commonLabels" => {
                    deprecated
                        .push((1, "# Warning: 'commonLabels' is deprecated. Please use 'labels' instead."));
                    k.common_labels = at.text_map(value)?;
                }
                "labels" => k.labels = at.list(value, "[]types.Label", decode_label)?,
                "commonAnnotations" => k.common_annotations = at.text_map(value)?,
                "patchesStrategicMerge" => {
                    deprecated.push((
                        4,
                        "# Warning: 'patchesStrategicMerge' is deprecated. Please use 'patches' instead.",
                    ));
                    let text =
                        |value: &Value, at: &Decoder<'_>| at.text_as(value, "types.PatchStrategicMerge");
                    k.patches_strategic_merge = at.list(value, "[]types.PatchStrategicMerge", text)?;
                }
                "patchesJson6902" => {
                    deprecated.push((
                        3,
                        "# Warning: 'patchesJson6902' is deprecated. Please use 'patches' instead.",
                    ));
                    k.patches_json6902 = at.list(value, "[]types.Patch", decode_patch)?;
                }
                "patches" => k.patches = at.list(value, "[]types.Patch", decode_patch)?,
                "images" => k.images = at.list(value, "[]types.Image", decode_image)?,
                "imageTags" => {
                    deprecated
                        .push((2, "# Warning: 'imageTags' is deprecated. Please use 'images' instead."));
                    self.image_tags = at.list(value, "[]types.Image", decode_image)?;
                }
                "replacements" => {
                    k.replacements = at.list(value, "[]types.ReplacementField", decode_replacement_field)?;
                }
                "replicas" => k.replicas = at.list(value, "[]types.Replica", decode_replica)?,
                "vars" => {
                    deprecated
                        .push((5, "# Warning: 'vars' is deprecated. Please use 'replacements' instead."));
                    k.vars = at.list(value, "[]types.Var", decode_var)?;
                }
                "sortOptions" => k.sort_options = Some(decode_sort_options(value, &at)?),
                "resources" => k.resources = at.texts(value)?,
                "components" => k.components = at.texts(value)?,
                "crds" => k.crds = at.texts(value)?,
                "bases" => {
                    deprecated.push((0, "# Warning: 'bases' is deprecated. Please use 'resources' instead."));
                    self.bases = at.texts(value)?;
                }
                "configMapGenerator" => {
                    k.config_maps = at.list(value, "[]types.ConfigMapArgs", |value, at| {
                        decode_generator(value, &at.inside("ConfigMapArgs"))
                    })?;
                }
                "secretGenerator" => {
                    k.secrets = at.list(value, "[]types.SecretArgs", |value, at| {
                        decode_generator(value, &at.inside("SecretArgs"))
                    })?;
                }
                "helmGlobals" => {
                    k.helm_globals = Some(decode_helm_globals(value, &at.inside("HelmGlobals"))?);
                }
                "helmCharts" => {
                    k.helm_charts = at.list(value, "[]types.HelmChart", |value, at| {
                        decode_helm_chart(value, &at.inside("HelmChart"))
                    })?;
                }
                "helmChartInflationGenerator" => {
                    self.old_charts = at.list(value, "[]types.HelmChartArgs", decode_old_chart)?;
                }
                "generatorOptions" => {
                    k.generator_options =
                        Some(decode_generator_options(value, &at.inside("GeneratorOptions"))?);
                }
                "configurations" => k.configurations = at.texts(value)?,
                "generators" => k.generators = at.texts(value)?,
                "transformers" => k.transformers = at.texts(value)?,
                "validators" => k.validators = at.texts(value)?,
                _ => k.build_metadata = at.texts(value)?,
            }
        }
        deprecated.sort_unstable_by_key(|(place, _)| *place);
        k.warnings = deprecated.into_iter().map(|(_, warning)| warning).collect();
        Ok(())
    }
}

/// A warning with the advice behind it.
pub(crate) fn with_advice(warning: &str) -> String {
    let experimental = if warning.contains("'vars'") { "[EXPERIMENTAL] " } else { "" };
    format!("{warning} {experimental}{FIX}")
}

fn decode_metadata(value: &Value, at: &Decoder<'_>) -> Result<()> {
    let at = at.inside("ObjectMeta");
    for (name, value) in at.members(value, &["name", "namespace", "labels", "annotations"])? {
        match name {
            "name" | "namespace" => drop(at.field(name).text(value)?),
            _ => drop(at.field(name).text_map(value)?),
        }
    }
    Ok(())
}

fn decode_label(value: &Value, at: &Decoder<'_>) -> Result<Label> {
    let at = at.inside("Label");
    let mut label = Label::default();
    for (name, value) in at.members(value, &["pairs", "includeSelectors", "includeTemplates", "fields"])? {
        let at = at.field(name);
        match name {
            "pairs" => label.pairs = at.text_map(value)?,
            "includeSelectors" => label.include_selectors = at.truth(value)?,
            "includeTemplates" => label.include_templates = at.truth(value)?,
            _ => label.fields = decode_fields(value, &at)?,
        }
    }
    Ok(label)
}

/// Reads what stands in a selector; its struct embeds those of the id.
pub(crate) fn decode_selector(value: &Value, at: &Decoder<'_>) -> Result<Selector> {
    let at = at.inside("Selector");
    let mut selector = Selector::default();
    let names = ["group", "version", "kind", "name", "namespace", "annotationSelector", "labelSelector"];
    for (name, value) in at.members(value, &names)? {
        match name {
            "annotationSelector" => selector.annotations = at.field(name).text(value)?,
            "labelSelector" => selector.labels = at.field(name).text(value)?,
            _ => decode_id(&mut selector.id, name, value, &at)?,
        }
    }
    Ok(selector)
}

fn decode_id(id: &mut ResourceId, name: &str, value: &Value, at: &Decoder<'_>) -> Result<()> {
    match name {
        "group" => id.gvk.group = at.field("ResId.Gvk.group").text(value)?,
        "version" => id.gvk.version = at.field("ResId.Gvk.version").text(value)?,
        "kind" => id.gvk.kind = at.field("ResId.Gvk.kind").text(value)?,
        "name" => id.name = at.field("ResId.name").text(value)?,
        _ => id.namespace = at.field("ResId.namespace").text(value)?,
    }
    Ok(())
}

/// Reads a patch.
pub(crate) fn decode_patch(value: &Value, at: &Decoder<'_>) -> Result<Patch> {
    let at = at.inside("Patch");
    let mut patch = Patch::default();
    for (name, value) in at.members(value, &["path", "patch", "target", "options"])? {
        let at = at.field(name);
        match name {
            "path" => patch.path = at.text(value)?,
            "patch" => patch.patch = at.text(value)?,
            "target" => patch.target = Some(decode_selector(value, &at)?),
            _ => {
                let at = at.inside("PatchArgs");
                for (name, value) in at.members(value, &["allowNameChange", "allowKindChange"])? {
                    let truth = at.field(name).truth(value)?;
                    match name {
                        "allowNameChange" => patch.allow_name_change = truth,
                        _ => patch.allow_kind_change = truth,
                    }
                }
            }
        }
    }
    Ok(patch)
}

/// Reads an image.
pub(crate) fn decode_image(value: &Value, at: &Decoder<'_>) -> Result<Image> {
    let at = at.inside("Image");
    let mut image = Image::default();
    for (name, value) in at.members(value, &["name", "newName", "tagSuffix", "newTag", "digest"])? {
        let text = at.field(name).text(value)?;
        match name {
            "name" => image.name = text,
            "newName" => image.new_name = text,
            "tagSuffix" => image.tag_suffix = text,
            "newTag" => image.new_tag = text,
            _ => image.digest = text,
        }
    }
    Ok(image)
}

/// Reads a number of replicas.
pub(crate) fn decode_replica(value: &Value, at: &Decoder<'_>) -> Result<Replica> {
    let at = at.inside("Replica");
    let mut replica = Replica::default();
    for (name, value) in at.members(value, &["name", "count"])? {
        let at = at.field(name);
        match name {
            "name" => replica.name = at.text(value)?,
            _ => replica.count = at.integer(value, "int64")?,
        }
    }
    Ok(replica)
}

fn decode_field_options(value: &Value, at: &Decoder<'_>) -> Result<FieldOptions> {
    let at = at.inside("FieldOptions");
    let mut options = FieldOptions::default();
    for (name, value) in at.members(value, &["delimiter", "index", "encoding", "create"])? {
        let at = at.field(name);
        match name {
            "delimiter" => options.delimiter = at.text(value)?,
            "index" => options.index = at.integer(value, "int")?,
            // Nothing in kustomize looks at it.
            "encoding" => drop(at.text(value)?),
            _ => options.create = at.truth(value)?,
        }
    }
    Ok(options)
}

fn decode_target(value: &Value, at: &Decoder<'_>) -> Result<Target> {
    let at = at.inside("TargetSelector");
    let mut target = Target::default();
    for (name, value) in at.members(value, &["select", "reject", "fieldPaths", "options"])? {
        let at = at.field(name);
        match name {
            "select" => target.select = Some(decode_selector(value, &at)?),
            "reject" => target.reject = at.list(value, "[]*types.Selector", decode_selector)?,
            "fieldPaths" => target.field_paths = at.texts(value)?,
            _ => target.options = Some(decode_field_options(value, &at)?),
        }
    }
    Ok(target)
}

/// Reads an entry of `replacements`.
pub(crate) fn decode_replacement_field(value: &Value, at: &Decoder<'_>) -> Result<Replacement> {
    decode_replacement(value, &at.inside("ReplacementField"), true)
}

/// Reads a replacement; one of a file has no path.
pub(crate) fn decode_replacement(value: &Value, at: &Decoder<'_>, is_field: bool) -> Result<Replacement> {
    let mut replacement = Replacement::default();
    let names: &[&str] = if is_field {
        &["source", "targets", "sourceValue", "path"]
    } else {
        &["source", "targets", "sourceValue"]
    };
    let embedded =
        |name: &str| if is_field { at.field(&format!("Replacement.{name}")) } else { at.field(name) };
    for (name, value) in at.members(value, names)? {
        match name {
            "source" => {
                let at = embedded(name).inside("SourceSelector");
                let mut source = Source::default();
                let names = ["group", "version", "kind", "name", "namespace", "fieldPath", "options"];
                for (name, value) in at.members(value, &names)? {
                    match name {
                        "fieldPath" => source.field_path = at.field(name).text(value)?,
                        "options" => source.options = Some(decode_field_options(value, &at.field(name))?),
                        _ => decode_id(&mut source.id, name, value, &at)?,
                    }
                }
                replacement.source = Some(source);
            }
            "targets" => {
                let at = embedded(name);
                replacement.targets = Some(at.list(value, "[]*types.TargetSelector", decode_target)?);
            }
            "sourceValue" => replacement.source_value = Some(embedded(name).text(value)?),
            _ => replacement.path = at.field(name).text(value)?,
        }
    }
    Ok(replacement)
}

fn decode_var(value: &Value, at: &Decoder<'_>) -> Result<Var> {
    let at = at.inside("Var");
    let mut var = Var::default();
    for (name, value) in at.members(value, &["name", "objref", "fieldref"])? {
        let at = at.field(name);
        match name {
            "name" => var.name = at.text(value)?,
            "objref" => {
                let at = at.inside("Target");
                let mut api_version = SmolStr::default();
                let id = &mut var.object;
                let names = ["apiVersion", "group", "version", "kind", "name", "namespace"];
                for (name, value) in at.members(value, &names)? {
                    match name {
                        "apiVersion" => api_version = at.field(name).text(value)?,
                        "group" => id.gvk.group = at.field("Gvk.group").text(value)?,
                        "version" => id.gvk.version = at.field("Gvk.version").text(value)?,
                        "kind" => id.gvk.kind = at.field("Gvk.kind").text(value)?,
                        "name" => id.name = at.field(name).text(value)?,
                        _ => id.namespace = at.field(name).text(value)?,
                    }
                }
                match api_version.split('/').collect::<Vec<_>>().as_slice() {
                    [""] => {}
                    [version] => id.gvk.version = (*version).into(),
                    [group, version] => {
                        (id.gvk.group, id.gvk.version) = ((*group).into(), (*version).into());
                    }
                    _ => {}
                }
            }
            _ => {
                let at = at.inside("FieldSelector");
                for (name, value) in at.members(value, &["fieldPath"])? {
                    var.field_path = at.field(name).text(value)?;
                }
            }
        }
    }
    if var.field_path.is_empty() {
        var.field_path = "metadata.name".into();
    }
    Ok(var)
}

/// Reads an order.
pub(crate) fn decode_sort_options(value: &Value, at: &Decoder<'_>) -> Result<SortOptions> {
    let at = at.inside("SortOptions");
    let mut options = SortOptions::default();
    for (name, value) in at.members(value, &["order", "legacySortOptions"])? {
        let at = at.field(name);
        if name == "order" {
            options.order = at.text_as(value, "types.SortOrder")?;
            continue;
        }
        let at = at.inside("LegacySortOptions");
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for (name, value) in at.members(value, &["orderFirst", "orderLast"])? {
            match name {
                "orderFirst" => first = at.field(name).texts(value)?,
                _ => last = at.field(name).texts(value)?,
            }
        }
        options.legacy = Some((first, last));
    }
    Ok(options)
}

/// Reads options of generators.
pub(crate) fn decode_generator_options(value: &Value, at: &Decoder<'_>) -> Result<GeneratorOptions> {
    let mut options = GeneratorOptions::default();
    let names = ["labels", "annotations", "disableNameSuffixHash", "immutable"];
    for (name, value) in at.members(value, &names)? {
        let at = at.field(name);
        match name {
            "labels" => options.labels = at.text_map(value)?,
            "annotations" => options.annotations = at.text_map(value)?,
            "disableNameSuffixHash" => options.disable_name_suffix_hash = at.truth(value)?,
            _ => options.immutable = at.truth(value)?,
        }
    }
    Ok(options)
}

/// Reads a generator of `ConfigMap`s or Secrets; a Secret may have a type.
pub(crate) fn decode_generator(value: &Value, at: &Decoder<'_>) -> Result<Generator> {
    let mut generator = Generator::default();
    let mut env = SmolStr::default();
    let mut names = vec!["namespace", "name", "behavior", "literals", "files", "envs", "env", "options"];
    if at.is_of("SecretArgs") {
        names.push("type");
    }
    for (name, value) in at.members(value, &names)? {
        match name {
            "namespace" => generator.namespace = at.field("GeneratorArgs.namespace").text(value)?,
            "name" => generator.name = at.field("GeneratorArgs.name").text(value)?,
            "behavior" => generator.behavior = at.field("GeneratorArgs.behavior").text(value)?,
            "literals" => {
                generator.literals = at.field("GeneratorArgs.KvPairSources.literals").texts(value)?;
            }
            "files" => generator.files = at.field("GeneratorArgs.KvPairSources.files").texts(value)?,
            "envs" => generator.envs = at.field("GeneratorArgs.KvPairSources.envs").texts(value)?,
            "env" => env = at.field("GeneratorArgs.KvPairSources.env").text(value)?,
            "options" => {
                let at = at.field("GeneratorArgs.options").inside("GeneratorOptions");
                generator.options = Some(decode_generator_options(value, &at)?);
            }
            _ => generator.secret_type = at.field(name).text(value)?,
        }
    }
    if !env.is_empty() {
        generator.envs.push(env);
    }
    Ok(generator)
}

/// Reads what is said about all charts.
pub(crate) fn decode_helm_globals(value: &Value, at: &Decoder<'_>) -> Result<HelmGlobals> {
    let mut globals = HelmGlobals::default();
    for (name, value) in at.members(value, &["chartHome", "configHome"])? {
        let text = at.field(name).text(value)?;
        match name {
            "chartHome" => globals.chart_home = text,
            _ => globals.config_home = text,
        }
    }
    Ok(globals)
}

const CHART_FIELDS: &[&str] = &[
    "name",
    "version",
    "repo",
    "releaseName",
    "namespace",
    "additionalValuesFiles",
    "valuesFile",
    "valuesInline",
    "valuesMerge",
    "includeCRDs",
    "skipHooks",
    "apiVersions",
    "kubeVersion",
    "nameTemplate",
    "skipTests",
    "debug",
    "devel",
];

/// Reads a chart.
pub(crate) fn decode_helm_chart(value: &Value, at: &Decoder<'_>) -> Result<HelmChart> {
    let mut chart = HelmChart::default();
    for (name, value) in at.members(value, CHART_FIELDS)? {
        let at = at.field(name);
        match name {
            "name" => chart.name = at.text(value)?,
            "version" => chart.version = at.text(value)?,
            "repo" => chart.repo = at.text(value)?,
            "releaseName" => chart.release_name = at.text(value)?,
            "namespace" => chart.namespace = at.text(value)?,
            "additionalValuesFiles" => chart.additional_values_files = at.texts(value)?,
            "valuesFile" => chart.values_file = at.text(value)?,
            "valuesInline" => chart.values_inline = at.map(value)?,
            "valuesMerge" => chart.values_merge = at.text(value)?,
            "includeCRDs" => chart.include_crds = at.truth(value)?,
            "skipHooks" => chart.skip_hooks = at.truth(value)?,
            "apiVersions" => chart.api_versions = at.texts(value)?,
            "kubeVersion" => chart.kube_version = at.text(value)?,
            "nameTemplate" => chart.name_template = at.text(value)?,
            "skipTests" => chart.skip_tests = at.truth(value)?,
            // More output of the program in its errors; there is no program.
            "debug" => drop(at.truth(value)?),
            _ => chart.devel = at.truth(value)?,
        }
    }
    Ok(chart)
}

fn decode_old_chart(value: &Value, at: &Decoder<'_>) -> Result<(HelmChart, HelmGlobals)> {
    const NAMES: &[&str] = &[
        "chartName",
        "chartVersion",
        "chartRepoUrl",
        "chartHome",
        "chartRepoName",
        "helmBin",
        "helmHome",
        "values",
        "valuesLocal",
        "valuesMerge",
        "releaseName",
        "releaseNamespace",
        "extraArgs",
    ];
    let at = at.inside("HelmChartArgs");
    let (mut chart, mut globals) = (HelmChart::default(), HelmGlobals::default());
    for (name, value) in at.members(value, NAMES)? {
        let at = at.field(name);
        match name {
            "chartName" => chart.name = at.text(value)?,
            "chartVersion" => chart.version = at.text(value)?,
            "chartRepoUrl" => chart.repo = at.text(value)?,
            "chartHome" => globals.chart_home = at.text(value)?,
            "helmHome" => globals.config_home = at.text(value)?,
            "values" => chart.values_file = at.text(value)?,
            "valuesLocal" => chart.values_inline = at.map(value)?,
            "valuesMerge" => chart.values_merge = at.text(value)?,
            "releaseName" => chart.release_name = at.text(value)?,
            // kustomize reads these and does nothing with them.
            "extraArgs" => drop(at.texts(value)?),
            _ => drop(at.text(value)?),
        }
    }
    Ok((chart, globals))
}
