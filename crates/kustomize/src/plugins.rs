//! `generators`, `transformers` and `validators`: configurations of built-in kinds in files of their own, or written
//! into the kustomization (RND-237). Programs, containers and Go plugins are not started here.

use std::rc::Rc;

use serde_json::Value;
use smol_str::SmolStr;

use crate::build::Session;
use crate::config::{FieldSpecs, decode_fields};
use crate::decode::{Decoder, Members as _};
use crate::fault::{Before as _, Fault, Result};
use crate::generate::IamPolicy;
use crate::helm::HelmGenerator;
use crate::kustomization::{
    Generator, Patch, decode_generator, decode_helm_chart, decode_helm_globals, decode_image, decode_patch,
    decode_replacement_field, decode_replica, decode_selector,
};
use crate::load::{Found, Loader};
use crate::resource::{Resource, TextMap};
use crate::transform::{ImageTag, Namespace, Subjects, ValueAdd, ValueTarget};
use crate::transformer::Transformer;
use crate::value::to_value;

/// The version of built-in kinds.
const BUILT_IN: &str = "builtin";

/// A configured generator.
pub(crate) enum ConfiguredGenerator<'b> {
    ConfigMap(Generator),
    Secret(Generator),
    Iam(IamPolicy),
    Helm(Box<HelmGenerator<'b>>),
}

/// What a file configures.
enum Plugin<'b> {
    Generator(Box<ConfiguredGenerator<'b>>),
    Transformers(Vec<Transformer>),
    /// Something that it needs is not fetched yet.
    NotYet,
}

impl<'b> Session<'b> {
    /// Reads a generator; `None` when something that it needs is not fetched yet.
    pub(crate) fn plugin_generator(
        &mut self,
        loader: &Rc<Loader<'b>>,
        resource: &Resource,
    ) -> Result<Option<ConfiguredGenerator<'b>>> {
        match self.plugin(loader, resource)? {
            Plugin::Generator(generator) => Ok(Some(*generator)),
            Plugin::NotYet => Ok(None),
            Plugin::Transformers(_) => {
                let id = resource.original_id(&self.graph, &mut self.schemas)?;
                Err(Fault::new(format!("plugin {id} not a generator")))
            }
        }
    }

    /// Reads a transformer, which may be several.
    pub(crate) fn plugin_transformers(
        &mut self,
        loader: &Rc<Loader<'b>>,
        resource: &Resource,
    ) -> Result<Vec<Transformer>> {
        match self.plugin(loader, resource)? {
            Plugin::Transformers(transformers) => Ok(transformers),
            Plugin::NotYet => Ok(Vec::new()),
            Plugin::Generator(_) => {
                let id = resource.original_id(&self.graph, &mut self.schemas)?;
                Err(Fault::new(format!("plugin {id} not a transformer")))
            }
        }
    }

    fn plugin(&mut self, loader: &Rc<Loader<'b>>, resource: &Resource) -> Result<Plugin<'b>> {
        let gvk = resource.gvk(&self.graph, &mut self.schemas)?;
        if !gvk.group.is_empty() || gvk.version != BUILT_IN {
            if self.options.enable_plugins {
                return Err(Fault::unsupported(format!("plugin {}", gvk.kind)));
            }
            let kind = resource.original_id(&self.graph, &mut self.schemas)?.gvk.kind;
            return Err(Fault::new(format!(
                "external plugins disabled; unable to load external plugin '{kind}'"
            )));
        }
        let Some(node) = resource.node() else { return Ok(Plugin::NotYet) };
        let config = to_value(&mut self.graph, node)?;
        let plugin = self.configure(loader, &gvk.kind, &config);
        match plugin {
            Ok(Some(plugin)) => Ok(plugin),
            Ok(None) => Err(Fault::new(format!("unable to load builtin {gvk}"))),
            Err(fault) => {
                let id = resource.original_id(&self.graph, &mut self.schemas)?;
                Err(fault.before(format!("plugin {id} fails configuration")))
            }
        }
    }

    /// Configures a built-in kind; `None` when there is none of that name.
    fn configure(
        &mut self,
        loader: &Rc<Loader<'b>>,
        kind: &str,
        config: &Value,
    ) -> Result<Option<Plugin<'b>>> {
        let at = Decoder::lenient("Plugin");
        let read = Read { at: &at, config };
        let one = |transformer: Option<Transformer>| {
            Ok(Some(
                transformer.map_or(Plugin::NotYet, |transformer| Plugin::Transformers(vec![transformer])),
            ))
        };
        Ok(Some(match kind {
            "ConfigMapGenerator" | "SecretGenerator" => {
                let is_secret = kind == "SecretGenerator";
                let args = if is_secret { "SecretArgs" } else { "ConfigMapArgs" };
                let mut generator = decode_generator(config, &at.inside(args))?;
                let (name, namespace) = read.metadata()?;
                if generator.name.is_empty() {
                    generator.name = name;
                }
                if generator.namespace.is_empty() {
                    generator.namespace = namespace;
                }
                Plugin::Generator(Box::new(if is_secret {
                    ConfiguredGenerator::Secret(generator)
                } else {
                    ConfiguredGenerator::ConfigMap(generator)
                }))
            }
            "IAMPolicyGenerator" => Plugin::Generator(Box::new(ConfiguredGenerator::Iam(read.iam_policy()?))),
            "HelmChartInflationGenerator" => {
                let globals = decode_helm_globals(config, &at.inside("HelmGlobals"))?;
                let chart = decode_helm_chart(config, &at.inside("HelmChart"))?;
                match HelmGenerator::new(self, loader, &globals, chart)? {
                    Some(generator) => {
                        Plugin::Generator(Box::new(ConfiguredGenerator::Helm(Box::new(generator))))
                    }
                    None => Plugin::NotYet,
                }
            }
            "AnnotationsTransformer" => {
                let annotations = read.text_map("annotations")?;
                return one(Some(Transformer::Annotations(annotations, read.fields()?.unwrap_or_default())));
            }
            "LabelTransformer" => {
                let labels = read.text_map("labels")?;
                return one(Some(Transformer::Labels(labels, read.fields()?.unwrap_or_default())));
            }
            "HashTransformer" => return one(Some(Transformer::Hashes)),
            "ImageTagTransformer" => {
                let image = read.member("imageTag")?.map(|value| decode_image(value, &at)).transpose()?;
                let image = ImageTag::new(image.unwrap_or_default())?;
                return one(Some(Transformer::Images(image, read.fields()?.unwrap_or_default())));
            }
            "ReplicaCountTransformer" => {
                let replica = read.member("replica")?.map(|value| decode_replica(value, &at)).transpose()?;
                let fields = read.fields()?.unwrap_or_default();
                return one(Some(Transformer::Replicas(replica.unwrap_or_default(), fields)));
            }
            "NamespaceTransformer" => return one(Some(Transformer::Namespace(read.namespace()?))),
            "PrefixTransformer" | "SuffixTransformer" | "PrefixSuffixTransformer" => {
                let none = || Fault::new("fieldSpecs is not expected to be nil");
                let fields = read.fields()?.ok_or_else(none)?;
                let mut transformers = Vec::new();
                if kind != "SuffixTransformer" {
                    transformers.push(Transformer::Prefix(read.text("prefix")?, fields.clone()));
                }
                if kind != "PrefixTransformer" {
                    transformers.push(Transformer::Suffix(read.text("suffix")?, fields));
                }
                Plugin::Transformers(transformers)
            }
            "PatchTransformer" => {
                let patch = decode_patch(config, &at)?;
                return self.load_patch(loader, &patch).and_then(one);
            }
            "PatchJson6902Transformer" => {
                let patch = read.json_patch()?;
                return self.load_json_patch(loader, &patch).and_then(one);
            }
            "PatchStrategicMergeTransformer" => {
                let paths = read.member("paths")?.map(|value| at.texts(value)).transpose()?;
                let text = read.text("patches")?;
                return self.load_strategic_merge(loader, &paths.unwrap_or_default(), &text).and_then(one);
            }
            "ReplacementTransformer" => {
                let list = read.member("replacements")?;
                let list =
                    list.map(|value| at.list(value, "[]types.ReplacementField", decode_replacement_field));
                return self.load_replacements(loader, &list.transpose()?.unwrap_or_default()).and_then(one);
            }
            "ValueAddTransformer" => {
                let Some(value) = self.value_add(loader, &read)? else { return Ok(Some(Plugin::NotYet)) };
                return one(Some(Transformer::ValueAdd(value)));
            }
            _ => return Ok(None),
        }))
    }

    fn value_add(&mut self, loader: &Loader<'_>, read: &Read<'_>) -> Result<Option<ValueAdd>> {
        let text = read.text("value")?;
        let mut value = SmolStr::new(text.trim());
        if value.is_empty() {
            value = loader.directory().name().into();
        }
        let mut targets = read.targets()?;
        let path = read.text("targetFilePath")?;
        if !path.is_empty() {
            let Found::Here(bytes) = loader.load(&mut self.reading, &path)? else { return Ok(None) };
            let text = tiphys_go::yaml::decode_text(&bytes).map_err(|error| Fault::new(error.to_string()))?;
            let limits = tiphys_go::yaml::Limits::default();
            let config = tiphys_go::yaml::parse(&text, tiphys_go::yaml::Dialect::Sigs, &limits)
                .map_err(|error| Fault::new(error.to_string()))?;
            let config = config.unwrap_or_default();
            targets.extend(Read { config: &config, ..*read }.targets()?);
        }
        if targets.is_empty() {
            return Err(Fault::new("must specify at least one target"));
        }
        if targets.iter().any(|target| target.field_path.is_empty()) {
            return Err(Fault::new("fieldPath cannot be empty"));
        }
        Ok(Some(ValueAdd { value, targets }))
    }
}

/// A configuration that is being read.
#[derive(Clone, Copy)]
struct Read<'r> {
    at: &'r Decoder<'r>,
    config: &'r Value,
}

impl<'r> Read<'r> {
    fn member(&self, name: &str) -> Result<Option<&'r Value>> {
        Ok(self.at.members(self.config, &[name])?.into_iter().map(|(_, value)| value).next_back())
    }

    fn text(&self, name: &str) -> Result<SmolStr> {
        self.member(name)?
            .map(|value| self.at.field(name).text(value))
            .transpose()
            .map(Option::unwrap_or_default)
    }

    fn truth(&self, name: &str) -> Result<bool> {
        self.member(name)?
            .map(|value| self.at.field(name).truth(value))
            .transpose()
            .map(Option::unwrap_or_default)
    }

    fn text_map(&self, name: &str) -> Result<TextMap> {
        let map = self.member(name)?.map(|value| self.at.field(name).text_map(value)).transpose()?;
        Ok(map.unwrap_or_default())
    }

    /// `fieldSpecs`; `None` when it is not there.
    fn fields(&self) -> Result<Option<FieldSpecs>> {
        self.member("fieldSpecs")?.map(|value| decode_fields(value, &self.at.field("fieldSpecs"))).transpose()
    }

    fn inside(&self, name: &str) -> Result<Option<Self>> {
        Ok(self.member(name)?.map(|config| Self { config, ..*self }))
    }

    fn metadata(&self) -> Result<(SmolStr, SmolStr)> {
        match self.inside("metadata")? {
            Some(metadata) => Ok((metadata.text("name")?, metadata.text("namespace")?)),
            None => Ok(Default::default()),
        }
    }

    fn iam_policy(&self) -> Result<IamPolicy> {
        let mut policy = IamPolicy { cloud: self.text("cloud")?, ..IamPolicy::default() };
        if let Some(service) = self.inside("kubernetesService")? {
            policy.kubernetes_name = service.text("name")?;
            policy.namespace = service.text("namespace")?;
        }
        if let Some(account) = self.inside("serviceAccount")? {
            policy.account_name = account.text("name")?;
            policy.project_id = account.text("projectId")?;
        }
        Ok(policy)
    }

    fn namespace(&self) -> Result<Namespace> {
        let words = || "unmarshalling NamespaceTransformer config".to_owned();
        let (_, namespace) = self.metadata().before(words)?;
        Ok(Namespace {
            namespace,
            fields: self.fields().before(words)?.unwrap_or_default(),
            unset_only: self.truth("unsetOnly").before(words)?,
            subjects: Subjects::parse(&self.text("setRoleBindingSubjects").before(words)?)?,
        })
    }

    fn json_patch(&self) -> Result<Patch> {
        let target = self.member("target")?.map(|value| decode_selector(value, self.at)).transpose()?;
        Ok(Patch { target, path: self.text("path")?, patch: self.text("jsonOp")?, ..Patch::default() })
    }

    fn targets(&self) -> Result<Vec<ValueTarget>> {
        let Some(list) = self.member("targets")? else { return Ok(Vec::new()) };
        self.at.list(list, "[]builtins.Target", |config, at| {
            let read = Read { at, config };
            let selector = read.member("selector")?.map(|value| decode_selector(value, at)).transpose()?;
            let position =
                read.member("filePathPosition")?.map(|value| at.integer(value, "int")).transpose()?;
            let position = position.unwrap_or_default();
            let position = usize::try_from(position).map_err(|_negative| {
                Fault::new(format!("value of FilePathPosition ({position}) cannot be negative"))
            })?;
            Ok(ValueTarget { selector, field_path: read.text("fieldPath")?, position })
        })
    }
}
