//! A kustomization that is carried out (RND-212): its resources, generators, components and transformers in their
//! order.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Value, json};
use smol_str::SmolStr;
use tiphys_go::yaml::{Dialect, Limits};

use crate::build::Session;
use crate::config::{Config, FieldSpec, merge_all, merge_one};
use crate::edit::{self, EditError, Edits};
use crate::error::KustomizeError;
use crate::fault::{Before as _, Class, Fault, Result, attempt, quoted};
use crate::fields;
use crate::generate::{Generated, generate};
use crate::graph::{Graph, Kind, NodeId};
use crate::helm::{HelmGenerator, namespace_of};
use crate::kustomization::{COMPONENT, Generator, HelmGlobals, Kustomization, Var, with_advice};
use crate::load::{Found, Loader};
use crate::origin::{ORIGIN, Origin, of_plugin};
use crate::plugins::ConfiguredGenerator;
use crate::resource::{Resource, read_objects};
use crate::resources::Resources;
use crate::transform::{ImageTag, Namespace, Subjects};
use crate::transformer::{Transformer, in_file, troubled};
use crate::value::printed;
use crate::yaml::parse_first;
use crate::{crds, refvar};

/// What is accumulated on the way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accumulated {
    pub(crate) resources: Resources,
    pub(crate) config: Arc<Config>,
    pub(crate) vars: BTreeMap<SmolStr, Var>,
}

/// A kustomization with its place.
pub(crate) struct Target<'b> {
    pub(crate) kustomization: Kustomization,
    /// The value of the file, for error texts.
    raw: Value,
    file: &'static str,
    loader: Rc<Loader<'b>>,
    /// Where the kustomization comes from; `None` unless that is noted in objects.
    pub(crate) origin: Option<Origin>,
    /// Namespace for charts that an outer kustomization gives.
    chart_namespace: SmolStr,
}

/// Generators or transformers with the origins that their objects get.
type WithOrigin<T> = Vec<(T, Option<Origin>)>;

impl<'b> Target<'b> {
    /// Reads the file of a directory.
    pub(crate) fn load(
        session: &mut Session<'b>,
        loader: Rc<Loader<'b>>,
        edits: Option<&Edits>,
    ) -> Result<Self> {
        let files = loader.kustomization_files(&mut session.reading)?;
        let directory = loader.shown();
        let (file, bytes) = match files.as_slice() {
            [one] => one,
            [] => {
                if let Some(error) = edits.and_then(edit::no_file) {
                    return Err(error.into());
                }
                return Err(Fault::new(format!(
                    "unable to find one of 'kustomization.yaml', 'kustomization.yml' or 'Kustomization' in directory '{directory}'"
                )));
            }
            _ => return Err(Fault::new(format!("Found multiple kustomization files under: {directory}\n"))),
        };
        session.graph.take(bytes.len().saturating_mul(4))?;
        let mut raw = parse_file(bytes).before(|| "invalid Kustomization".to_owned())?;
        if let Value::Object(fields) = &mut raw {
            // The others are no configuration of transformers but names, or texts with one.
            let is_config = |name: &str| !matches!(name, "generators" | "transformers" | "validators");
            for (_, value) in fields.iter_mut().filter(|(name, _)| is_config(name)) {
                *value = printed(value.take(), 0)?;
            }
        }
        let mut kustomization = Kustomization::read(&raw)?;
        session.warnings.extend(kustomization.warnings.iter().map(|warning| with_advice(warning)));
        if let Some(edits) = edits.filter(|edits| edit::has_edits(edits)) {
            let is_directory = &mut |path: &str| loader.directory_at(path).map(|found| found.is_some());
            edit::apply(&mut kustomization, edits, is_directory)?;
            kustomization.is_empty = false;
        }
        kustomization.check(&directory)?;
        let (origin, chart_namespace) = (None, SmolStr::default());
        Ok(Self { kustomization, raw, file, loader, origin, chart_namespace })
    }

    /// Takes the schema that the kustomization names.
    pub(crate) fn set_schema(&self, session: &mut Session<'b>, is_root: bool) -> Result<()> {
        let field = &self.kustomization.openapi;
        let content = match field.get("path").and_then(Value::as_str) {
            Some(path) => match self.loader.load(&mut session.reading, path)? {
                Found::Here(bytes) => Some(bytes.to_vec()),
                Found::NotYet => return Ok(()),
            },
            None => None,
        };
        session.graph.take(content.as_ref().map_or(0, |content| content.len().saturating_mul(4)))?;
        session.schemas.set(field, content, is_root)
    }

    /// Carries the kustomization out, on what is there: nothing, or for a component all that its parent has.
    pub(crate) fn accumulate(
        &mut self,
        session: &mut Session<'b>,
        mut all: Accumulated,
    ) -> Result<Accumulated> {
        let paths = self.kustomization.resources.clone();
        all =
            self.accumulate_resources(session, all, &paths).before(|| "accumulating resources".to_owned())?;
        let config = self.read_configurations(session)?;
        all.config = all.config.merge(&config).before(|| "merging config".to_owned())?;
        let paths = self.kustomization.crds.clone();
        let config = crds::read_crds(&session.graph, &mut session.reading, &self.loader, &paths)
            .before(|| format!("loading CRDs {}", listed(&paths)))?;
        all.config = all.config.merge(&config).before(|| "merging CRDs".to_owned())?;
        self.run_generators(session, &mut all)?;
        all = self.accumulate_components(session, all).before(|| "accumulating components".to_owned())?;
        self.run_transformers(session, &mut all)?;
        self.run_validators(session, &mut all)?;
        let vars = &self.kustomization.vars;
        refvar::add(&session.graph, &mut session.schemas, &mut all.resources, &mut all.vars, vars)
            .before(|| "merging vars".to_owned())?;
        Ok(all)
    }

    fn accumulate_resources(
        &mut self,
        session: &mut Session<'b>,
        mut all: Accumulated,
        paths: &[SmolStr],
    ) -> Result<Accumulated> {
        for path in paths {
            let Err(of_file) = attempt(self.accumulate_file(session, &mut all, path))? else { continue };
            if of_file.class() == Class::Http {
                return Err(of_file);
            }
            let words = || format!("accumulation err='{}'", of_file.text());
            match attempt(self.loader.enter(&mut session.reading, path))? {
                Ok(Found::NotYet) => {}
                Ok(Found::Here(loader)) => {
                    all = self.accumulate_directory(session, all, &loader, path, false).before(words)?;
                }
                Err(_) if of_file.class() == Class::MalformedYaml => return Err(of_file),
                Err(fault) => return Err(fault.before(words())),
            }
        }
        Ok(all)
    }

    fn accumulate_file(&self, session: &mut Session<'b>, all: &mut Accumulated, path: &str) -> Result<()> {
        let words = || format!("accumulating resources from '{path}'");
        let Found::Here(bytes) = self.loader.load(&mut session.reading, path).before(words)? else {
            return Ok(());
        };
        let nodes =
            read_objects(&mut session.graph, &bytes).map_err(|fault| in_file(fault, path)).before(words)?;
        session.count_objects(nodes.len())?;
        let resources: Vec<Resource> = nodes.into_iter().map(Resource::new).collect();
        let mut read = Resources::default();
        read.append_all(&session.graph, &mut session.schemas, resources).before(words)?;
        if let Some(origin) = &self.origin {
            let text = origin.append(path)?.text(&mut session.graph)?;
            for resource in read.list() {
                let mut annotations = resource.annotations(&session.graph);
                annotations.insert(ORIGIN.into(), text.clone().into());
                resource.set_annotations(&mut session.graph, &annotations)?;
            }
        }
        let read = std::mem::take(read.list_mut());
        all.resources
            .append_all(&session.graph, &mut session.schemas, read)
            .before(|| format!("merging resources from '{path}'"))
    }

    fn accumulate_components(
        &mut self,
        session: &mut Session<'b>,
        mut all: Accumulated,
    ) -> Result<Accumulated> {
        for path in self.kustomization.components.clone() {
            let loader = match self.loader.enter(&mut session.reading, &path) {
                Ok(Found::Here(loader)) => loader,
                Ok(Found::NotYet) => continue,
                Err(fault) => return Err(fault.replace(|text| format!("loader.New {}", quoted(text)))),
            };
            all = self
                .accumulate_directory(session, all, &loader, &path, true)
                .map_err(|fault| fault.replace(|text| format!("accumulateDirectory: {}", quoted(text))))?;
        }
        Ok(all)
    }

    fn accumulate_directory(
        &mut self,
        session: &mut Session<'b>,
        mut all: Accumulated,
        loader: &Rc<Loader<'b>>,
        path: &str,
        is_component: bool,
    ) -> Result<Accumulated> {
        session.depth_left = session
            .depth_left
            .checked_sub(1)
            .ok_or_else(|| Fault::exhausted("too many kustomizations inside of each other".to_owned()))?;
        let shown = loader.shown();
        let mut inner = Self::load(session, Rc::clone(loader), None)
            .before(|| format!("couldn't make target for path '{shown}'"))?;
        inner.kustomization.build_metadata.clone_from(&self.kustomization.build_metadata);
        inner.origin = self.origin.as_ref().map(|origin| origin.append(path)).transpose()?;
        let own = &self.kustomization.namespace;
        inner.chart_namespace = if own.is_empty() { self.chart_namespace.clone() } else { own.clone() };
        inner.set_schema(session, false)?;
        let kind = &inner.kustomization.kind;
        if is_component && kind != COMPONENT {
            return Err(Fault::new(format!(
                "expected kind '{COMPONENT}' for path '{shown}' but got '{kind}'"
            )));
        }
        if !is_component && kind == COMPONENT {
            return Err(Fault::new(format!("expected kind != '{COMPONENT}' for path '{shown}'")));
        }
        let base = if is_component { std::mem::take(&mut all) } else { Accumulated::default() };
        let more =
            inner.accumulate(session, base).before(|| format!("recursed accumulation of path '{shown}'"))?;
        let merged = merge_accumulated(session, all, more);
        session.depth_left += 1;
        merged.before(|| format!("recursed merging from path '{shown}'"))
    }

    /// The built-in fields with those of `configurations`.
    fn read_configurations(&self, session: &mut Session<'b>) -> Result<Arc<Config>> {
        let mut more = Arc::new(Config::default());
        for path in &self.kustomization.configurations {
            let Found::Here(bytes) = self.loader.load(&mut session.reading, path)? else { continue };
            session.graph.take(bytes.len().saturating_mul(4))?;
            let value = check_keys(&mut session.graph, &bytes)
                .and_then(|()| parse_file(&bytes))
                .before(|| "error converting YAML to JSON".to_owned())?;
            let config = Config::decode(&value)
                .before(|| "error unmarshaling JSON: while decoding JSON".to_owned())?;
            more = more.merge(&Arc::new(config))?;
        }
        Config::built_in().merge(&more)
    }

    fn field_origin(&self, kind: &str) -> Option<Origin> {
        self.origin.as_ref().map(|origin| origin.of_field(self.file, kind))
    }

    fn run_generators(&mut self, session: &mut Session<'b>, all: &mut Accumulated) -> Result<()> {
        let mut generators = self.configure_generators(session)?;
        let external = self.external_generators(session).before(|| "loading generator plugins".to_owned())?;
        generators.extend(external);
        for (generator, origin) in generators {
            let made = match &generator {
                ConfiguredGenerator::ConfigMap(args) => self.generate(session, Generated::ConfigMap, args)?,
                ConfiguredGenerator::Secret(args) => self.generate(session, Generated::Secret, args)?,
                ConfiguredGenerator::Iam(policy) => vec![policy.generate(&mut session.graph)?],
                ConfiguredGenerator::Helm(chart) => chart.generate(session)?.unwrap_or_default(),
            };
            let mut resources = Resources::default();
            resources.append_all(&session.graph, &mut session.schemas, made)?;
            for resource in std::mem::take(resources.list_mut()) {
                if let Some(origin) = &origin
                    && resource.annotation(&session.graph, ORIGIN).is_none()
                {
                    origin.annotate(&mut session.graph, &resource)?;
                }
                all.resources
                    .absorb(&mut session.graph, &mut session.schemas, resource)
                    .before(|| "merging from generator".to_owned())?;
            }
        }
        Ok(())
    }

    fn generate(
        &self,
        session: &mut Session<'b>,
        what: Generated,
        args: &Generator,
    ) -> Result<Vec<Resource>> {
        session.count_objects(1)?;
        let made = generate(&mut session.graph, &mut session.reading, &self.loader, what, args)?;
        Ok(made.into_iter().collect())
    }

    fn configure_generators(&self, session: &mut Session<'b>) -> Result<WithOrigin<ConfiguredGenerator<'b>>> {
        let k = &self.kustomization;
        let mut generators = Vec::new();
        let with_global = |args: &Generator| {
            let mut args = args.clone();
            if let Some(global) = &k.generator_options {
                args.options = Some(args.options.unwrap_or_default().with_global(global));
            }
            args
        };
        for args in &k.config_maps {
            let generator = ConfiguredGenerator::ConfigMap(with_global(args));
            generators.push((generator, self.field_origin("ConfigMapGenerator")));
        }
        for args in &k.secrets {
            let generator = ConfiguredGenerator::Secret(with_global(args));
            generators.push((generator, self.field_origin("SecretGenerator")));
        }
        let globals = k.helm_globals.clone().unwrap_or_default();
        for (index, chart) in k.helm_charts.iter().enumerate() {
            const KIND: &str = "HelmChartInflationGenerator";
            let mut chart = chart.clone();
            chart.namespace = namespace_of(&chart, &k.namespace, &self.chart_namespace);
            let shown = (chart.name.clone(), chart.namespace.clone());
            let generator = HelmGenerator::new(session, &self.loader, &globals, chart)
                .map_err(|fault| troubled(fault, KIND, &self.chart_config(index, &globals, &shown)))?;
            if let Some(generator) = generator {
                generators.push((ConfiguredGenerator::Helm(Box::new(generator)), self.field_origin(KIND)));
            }
        }
        Ok(generators)
    }

    /// What error texts show of a chart.
    fn chart_config(&self, index: usize, globals: &HelmGlobals, shown: &(SmolStr, SmolStr)) -> Value {
        let entry = self.raw.get("helmCharts").and_then(|list| list.get(index));
        let mut config = entry.and_then(Value::as_object).cloned().unwrap_or_default();
        let set = [
            ("chartHome", &globals.chart_home),
            ("configHome", &globals.config_home),
            ("name", &shown.0),
            ("namespace", &shown.1),
        ];
        for (name, text) in set.into_iter().filter(|(_, text)| !text.is_empty()) {
            config.insert(name.to_owned(), Value::from(text.as_str()));
        }
        Value::Object(config)
    }

    /// The resources that configure generators or transformers.
    fn plugin_resources(
        &mut self,
        session: &mut Session<'b>,
        entries: &[SmolStr],
        what: &str,
    ) -> Result<Vec<Resource>> {
        let mut all = Accumulated::default();
        let mut paths = Vec::new();
        for entry in entries {
            let Ok(nodes) = attempt(read_objects(&mut session.graph, entry.as_bytes()))? else {
                paths.push(entry.clone());
                continue;
            };
            let resources: Vec<Resource> = nodes.into_iter().map(Resource::new).collect();
            if let Some(origin) = &self.origin {
                for resource in &resources {
                    origin.append(self.file)?.annotate(&mut session.graph, resource)?;
                }
            }
            all.resources
                .append_all(&session.graph, &mut session.schemas, resources)
                .before(|| format!("configuring external {what}"))?;
        }
        all = self.accumulate_resources(session, all, &paths)?;
        Ok(std::mem::take(all.resources.list_mut()))
    }

    fn external_generators(
        &mut self,
        session: &mut Session<'b>,
    ) -> Result<WithOrigin<ConfiguredGenerator<'b>>> {
        let entries = self.kustomization.generators.clone();
        let resources = self.plugin_resources(session, &entries, "generator")?;
        let mut generators = Vec::new();
        for resource in resources {
            let generator = session
                .plugin_generator(&self.loader, &resource)
                .before(|| "failed to load generator".to_owned())?;
            if let Some(generator) = generator {
                generators.push((generator, of_plugin(&session.graph, &resource)));
            }
        }
        Ok(generators)
    }

    fn external_transformers(
        &mut self,
        session: &mut Session<'b>,
        entries: &[SmolStr],
    ) -> Result<WithOrigin<Vec<Transformer>>> {
        let resources = self.plugin_resources(session, entries, "transformer")?;
        let mut transformers = Vec::new();
        for resource in resources {
            let loaded = session.plugin_transformers(&self.loader, &resource)?;
            transformers.push((loaded, of_plugin(&session.graph, &resource)));
        }
        Ok(transformers)
    }

    /// The transformers of the fields, in the order in which they run.
    fn configure_transformers(&self, session: &mut Session<'b>, config: &Config) -> Result<Vec<Transformer>> {
        let k = &self.kustomization;
        let loader = &self.loader;
        let mut list = Vec::new();
        if !k.patches_strategic_merge.is_empty() {
            list.extend(session.strategic_merge(loader, &k.patches_strategic_merge)?);
        }
        for patch in &k.patches {
            list.extend(session.patch(loader, patch)?);
        }
        if !k.namespace.is_empty() {
            let (namespace, fields) = (k.namespace.clone(), config.namespace.clone());
            let subjects = Subjects::DefaultOnly;
            list.push(Transformer::Namespace(Namespace { namespace, fields, unset_only: false, subjects }));
        }
        if !k.name_prefix.is_empty() {
            list.push(Transformer::Prefix(k.name_prefix.clone(), config.name_prefix.clone()));
        }
        if !k.name_suffix.is_empty() {
            list.push(Transformer::Suffix(k.name_suffix.clone(), config.name_suffix.clone()));
        }
        for label in &k.labels {
            let words = || "failed to merge labels".to_owned();
            let mut fields = label.fields.clone();
            merge_all(&mut fields, &config.labels).before(words)?;
            if label.include_selectors {
                merge_all(&mut fields, &config.common_labels).before(words)?;
            } else {
                if label.include_templates {
                    merge_all(&mut fields, &config.template_labels)
                        .before(|| "failed to merge template fieldSpec".to_owned())?;
                }
                merge_one(&mut fields, &FieldSpec::everywhere("metadata/labels")).before(words)?;
            }
            list.push(Transformer::Labels(label.pairs.clone(), fields));
        }
        if !k.labels.is_empty() || !k.common_labels.is_empty() {
            list.push(Transformer::Labels(k.common_labels.clone(), config.common_labels.clone()));
        }
        if !k.common_annotations.is_empty() {
            let fields = config.common_annotations.clone();
            list.push(Transformer::Annotations(k.common_annotations.clone(), fields));
        }
        for patch in &k.patches_json6902 {
            list.extend(session.json_patch(loader, patch)?);
        }
        for replica in &k.replicas {
            list.push(Transformer::Replicas(replica.clone(), config.replicas.clone()));
        }
        for image in &k.images {
            list.push(Transformer::Images(ImageTag::new(image.clone())?, config.images.clone()));
        }
        if !k.replacements.is_empty() {
            let loaded = session.load_replacements(loader, &k.replacements).map_err(|fault| {
                let shown = json!({"replacements": self.raw.get("replacements")});
                troubled(fault, "ReplacementTransformer", &shown)
            });
            list.extend(loaded?);
        }
        Ok(list)
    }

    fn run_transformers(&mut self, session: &mut Session<'b>, all: &mut Accumulated) -> Result<()> {
        let config = Arc::clone(&all.config);
        let of_fields = self.configure_transformers(session, &config)?;
        let mut transformers: WithOrigin<Vec<Transformer>> = of_fields
            .into_iter()
            .map(|transformer| {
                let origin = self.field_origin(transformer.kind());
                (vec![transformer], origin)
            })
            .collect();
        let entries = self.kustomization.transformers.clone();
        if !entries.is_empty() {
            transformers.extend(self.external_transformers(session, &entries)?);
        }
        for (several, origin) in &transformers {
            for transformer in several {
                transformer.transform(&mut session.work(&mut all.resources))?;
            }
            if let Some(origin) = origin {
                for resource in all.resources.list() {
                    origin.annotate_change(&mut session.graph, resource)?;
                }
            }
            all.resources.drop_empty(&session.graph);
        }
        Ok(())
    }

    fn run_validators(&mut self, session: &mut Session<'b>, all: &mut Accumulated) -> Result<()> {
        let entries = self.kustomization.validators.clone();
        if entries.is_empty() {
            return Ok(());
        }
        for (several, _) in self.external_transformers(session, &entries)? {
            let mut before = copies(session, &all.resources)?;
            for transformer in &several {
                transformer.transform(&mut session.work(&mut all.resources))?;
            }
            let after = copies(session, &all.resources)?;
            for resource in &after {
                let mut labels = resource.text_map(&session.graph, "labels");
                if let (Some(_), Some(node)) = (labels.remove(VALIDATED_BY), resource.node()) {
                    fields::set_metadata_map(&mut session.graph, node, "labels", &labels)?;
                }
            }
            // Every resource is compared with the first of its id, down to the lines it was written in.
            let is_changed = || Fault::new("validator shouldn't modify the resource map");
            if before.len() != after.len() {
                return Err(is_changed());
            }
            for resource in before.drain(..) {
                let id = resource.id(&session.graph, &mut session.schemas)?;
                let mut same = None;
                for other in &after {
                    if same.is_none() && id.equals(&other.id(&session.graph, &mut session.schemas)?) {
                        same = other.node();
                    }
                }
                let (Some(one), Some(other)) = (resource.node(), same) else { return Err(is_changed()) };
                if !session.graph.is_same(one, other)? {
                    return Err(is_changed());
                }
            }
        }
        Ok(())
    }
}

/// The label that a validator may set.
const VALIDATED_BY: &str = "validated-by";

fn copies(session: &mut Session<'_>, resources: &Resources) -> Result<Vec<Resource>> {
    resources.list().iter().map(|resource| resource.copy(&mut session.graph)).collect()
}

fn merge_accumulated(
    session: &mut Session<'_>,
    mut all: Accumulated,
    mut more: Accumulated,
) -> Result<Accumulated> {
    let list = std::mem::take(more.resources.list_mut());
    all.resources.append_all(&session.graph, &mut session.schemas, list)?;
    all.config = all.config.merge(&more.config)?;
    refvar::merge(&mut all.vars, more.vars.into_values())?;
    Ok(all)
}

/// The value of a kustomization file.
fn parse_file(bytes: &[u8]) -> Result<Value> {
    let text = tiphys_go::yaml::decode_text(bytes).map_err(|error| Fault::new(error.to_string()))?;
    let parsed = tiphys_go::yaml::parse(&text, Dialect::Sigs, &Limits::default());
    Ok(parsed.map_err(|error| Fault::new(error.to_string()))?.unwrap_or_default())
}

/// Fails when a key stands twice in a mapping.
fn check_keys(graph: &mut Graph, bytes: &[u8]) -> Result<()> {
    let text = tiphys_go::yaml::decode_text(bytes).map_err(|error| Fault::new(error.to_string()))?;
    let mut pending: Vec<NodeId> = parse_first(graph, &text)?.into_iter().collect();
    let mut wrong = Vec::new();
    while let Some(id) = pending.pop() {
        let node = graph.node(id);
        graph.spend(1 + node.content.len())?;
        if node.kind == Kind::Mapping {
            let mut known = HashSet::new();
            for key in node.content.iter().step_by(2).map(|key| graph.node(*key)) {
                if key.kind == Kind::Scalar && !known.insert((&key.value, &key.tag)) {
                    wrong.push((key.line, format!("key {} already set in map", quoted(&key.value))));
                }
            }
        }
        // What an alias names is looked at where it stands.
        if node.kind != Kind::Alias {
            pending.extend(&node.content);
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    wrong.sort();
    let lines: Vec<String> = wrong.into_iter().map(|(line, what)| format!("  line {line}: {what}")).collect();
    Err(Fault::new(format!("yaml: unmarshal errors:\n{}", lines.join("\n"))))
}

fn listed(paths: &[SmolStr]) -> String {
    format!("[{}]", paths.iter().map(SmolStr::as_str).collect::<Vec<_>>().join(" "))
}

impl From<EditError> for Fault {
    fn from(error: EditError) -> Self {
        Self::stop(KustomizeError::Edit(error))
    }
}
