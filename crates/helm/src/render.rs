//! A rendering: from a chart and values to manifests.

use std::sync::Arc;

use serde_json::Value as Json;
use tiphys_go::live;
use tiphys_go::memory::Memory;
use tiphys_go::template::helm::{describe_execution, describe_parse, without_no_value};
use tiphys_go::template::{
    Engine, Environment, ErrorKind, Exceeded, Limits, Map, MissingKey, TemplateError, Templates, Text,
};

use crate::HelmVersion;
use crate::cache::{CrdDocument, CrdError, functions};
use crate::capabilities::{KubeVersion, api_versions};
use crate::chart::{Chart, ChartError};
use crate::dependencies::{Part, missing};
use crate::determinism::{Determinism, Repeatable};
use crate::error::HelmError;
use crate::output::{Manifest, OutputBudget, RenderedFile, sort};
use crate::release::check_release_name;
use crate::root::{Renderable, Shared, Visited, capabilities, is_partial, objects, release, takes_part};
use crate::schema::{Documents, SchemaError};
use crate::user_values::UserValues;
use crate::values::{Nulls, Work};

/// What a rendering may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderLimits {
    /// Limits of the templates.
    pub templates: Limits,
    /// Bytes of all that templates write.
    pub output_bytes: usize,
    /// Documents of the result.
    pub documents: usize,
    /// Bytes of memory that the manifests take once they are read.
    pub manifests_memory: usize,
    /// Bytes of memory that the values of users take.
    pub values_memory: usize,
    /// Steps for laying values over each other.
    pub values_steps: u64,
}

impl Default for RenderLimits {
    fn default() -> Self {
        Self {
            templates: Limits { text_bytes: 64 << 20, ..Limits::default() },
            output_bytes: 64 << 20,
            documents: 50_000,
            manifests_memory: 512 << 20,
            values_memory: 128 << 20,
            values_steps: 50_000_000,
        }
    }
}

/// What is rendered, and for whom. Without time, chance and cluster, which are the environment's.
#[derive(Clone, Copy, Debug)]
pub struct RenderRequest<'r> {
    /// The chart, loaded for the same version of Helm.
    pub chart: &'r Arc<Chart>,
    /// Which Helm is followed.
    pub version: HelmVersion,
    /// Name of the release (RND-91).
    pub release_name: &'r str,
    /// Namespace of the release; empty is `default`, as in Helm.
    pub namespace: &'r str,
    /// Version of Kubernetes; without one that of Helm's libraries.
    pub kube_version: Option<&'r str>,
    /// API versions of the cluster, united with those that are always there (RND-180).
    pub api_versions: &'r [String],
    /// Values of the user.
    pub values: &'r UserValues,
    /// Whether files of `crds/` are a part of the result.
    pub include_crds: bool,
    /// Whether values are not held against schemas.
    pub skip_schema_validation: bool,
    /// Whether tests are left out (RND-108).
    pub skip_tests: bool,
    /// Documents that schemas may refer to.
    pub schema_documents: &'r Documents,
    /// URLs of registered repositories by their names, for lock files.
    pub repositories: &'r [(String, String)],
    /// What takes the place of chance and time, where results have to be the same again (RND-163).
    pub determinism: Option<&'r Determinism>,
    /// Limits.
    pub limits: RenderLimits,
}

/// Files of `crds/` of one chart.
#[derive(Clone, Debug)]
pub struct Crds {
    /// Where the chart stands: its name, behind those of the charts around it.
    pub chart_path: String,
    /// The documents, read once for all renderings of the chart.
    pub documents: Arc<[CrdDocument]>,
}

/// The result, in Helm's order (RND-204).
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// CRDs of the chart and of those below it; they come first.
    pub crds: Vec<Crds>,
    /// Manifests, then hooks.
    pub manifests: Vec<Manifest>,
}

impl Rendered {
    /// All objects, in order. Documents that are comments only are none.
    pub fn objects(&self) -> impl Iterator<Item = &Json> {
        let crds = self.crds.iter().flat_map(|crds| crds.documents.iter().map(|document| &document.object));
        crds.chain(self.manifests.iter().filter_map(|manifest| manifest.object.as_ref()))
    }

    /// The same by value; texts are released one by one.
    pub fn into_objects(self) -> Vec<Json> {
        let crds = self.crds.iter().flat_map(|crds| crds.documents.iter());
        let mut objects: Vec<Json> = crds.map(|document| document.object.clone()).collect();
        objects.extend(self.manifests.into_iter().filter_map(|manifest| manifest.object));
        objects
    }
}

/// Renders a chart as `helm template` does with the flags of RND-92.
///
/// Same request and same answers of the environment: same result. Ends early when the environment says that the
/// caller gave up, and when a limit is reached.
pub fn render(request: &RenderRequest<'_>, environment: &dyn Environment) -> Result<Rendered, HelmError> {
    let version = request.version;
    let merged = request.values.merge(version, &mut Memory::new(request.limits.values_memory))?;
    check_installable(request)?;
    let before = |words: &'static str| if version == HelmVersion::V4 { words } else { "" };
    check_release_name(request.release_name)
        .map_err(|source| HelmError::ReleaseName { before: before("release name check failed: "), source })?;
    let mut work = Work::new(version, request.limits.values_steps);
    let user = work.users_values(&merged)?;
    let root = Part::resolve(request.chart, &user, &mut work).map_err(|source| HelmError::Parts {
        before: before("chart dependencies processing failed: "),
        source,
    })?;
    let kubernetes = match request.kube_version {
        None | Some("") => KubeVersion::default_of(version),
        Some(text) => KubeVersion::parse(text, version)?,
    };
    let values = work.coalesce(&root, &user, Nulls::Remove)?;
    live::check().map_err(held)?;
    if !request.skip_schema_validation {
        check_schemas(&root, &values, (request.schema_documents, environment))?;
    }
    check_kubernetes(request.chart, &kubernetes, version)?;
    let namespace = if request.namespace.is_empty() { "default" } else { request.namespace };
    let shared = Shared {
        version,
        release: release(request.release_name, namespace),
        capabilities: capabilities(&kubernetes, &api_versions(version, request.api_versions), version),
    };
    let charts = objects(&root, &values, &shared);
    let files = execute(&charts, request, environment)?;
    let mut budget = OutputBudget {
        memory: Memory::new(request.limits.manifests_memory),
        documents: request.limits.documents,
    };
    let sorted = sort(files, version, &mut budget)?;
    let mut manifests = sorted.manifests;
    let is_wanted =
        |hook: &Manifest| !(request.skip_tests && hook.hook.as_ref().is_some_and(crate::Hook::is_test));
    manifests.extend(sorted.hooks.into_iter().filter(is_wanted));
    let mut crds = Vec::new();
    if request.include_crds {
        collect_crds(&root, &root.name, &mut crds)?;
    }
    Ok(Rendered { crds, manifests })
}

/// What `helm template` refuses before it looks at values.
fn check_installable(request: &RenderRequest<'_>) -> Result<(), HelmError> {
    let metadata = &request.chart.metadata;
    if !matches!(metadata.type_text.as_str(), "" | "application") {
        return Err(HelmError::NotInstallable(metadata.type_text.clone()));
    }
    if request.version == HelmVersion::V4 && metadata.api_version == "v3" {
        // Helm 4 reads such charts and installs none.
        return Err(ChartError::ApiVersion3.into());
    }
    let repository = |name: &str| {
        let found = request.repositories.iter().find(|(known, _)| known == name);
        found.map(|(_, url)| url.clone())
    };
    match missing(request.chart, &repository) {
        Some(missing) => {
            let text = missing.text(request.version);
            Err(HelmError::Missing { missing, text })
        }
        None => Ok(()),
    }
}

fn check_kubernetes(chart: &Chart, kubernetes: &KubeVersion, version: HelmVersion) -> Result<(), HelmError> {
    let constraint = &chart.metadata.kube_version;
    if constraint.is_empty() || kubernetes.satisfies(constraint) {
        return Ok(());
    }
    let version = match version {
        HelmVersion::V3 => kubernetes.normalized.clone(),
        HelmVersion::V4 => kubernetes.version.clone(),
    };
    Err(HelmError::Incompatible { constraint: constraint.clone(), version })
}

/// Holds the values of all charts against their schemas.
fn check_schemas(
    root: &Part,
    values: &Map,
    (documents, environment): (&Documents, &dyn Environment),
) -> Result<(), HelmError> {
    if !has_schema(root) {
        return Ok(());
    }
    // Values came from documents and parameters, which JSON can hold.
    let values = tiphys_go::template::Value::from(values.clone()).to_json().unwrap_or_default();
    let mut check = SchemaCheck { documents, environment, text: String::new(), remote: None };
    check.part(root, &values)?;
    if check.text.is_empty() {
        Ok(())
    } else {
        Err(HelmError::Schema { text: check.text, remote: check.remote })
    }
}

fn has_schema(part: &Part) -> bool {
    part.chart.schema.is_some() || part.children.iter().any(has_schema)
}

struct SchemaCheck<'c> {
    documents: &'c Documents,
    environment: &'c dyn Environment,
    text: String,
    remote: Option<String>,
}

impl SchemaCheck<'_> {
    fn part(&mut self, part: &Part, values: &Json) -> Result<(), HelmError> {
        let is_cancelled = || self.environment.is_cancelled();
        match part.chart.check_schema(values, self.documents, &is_cancelled) {
            Ok(()) => {}
            Err(SchemaError::Cancelled) => return Err(HelmError::Cancelled),
            Err(SchemaError::Exceeded(what)) => {
                return Err(HelmError::Exceeded(format!("{}: values.schema.json: {what}", part.name)));
            }
            Err(error) => {
                if let SchemaError::Remote { url } = &error {
                    self.remote.get_or_insert_with(|| url.clone());
                }
                let is_mismatch = matches!(error, SchemaError::Mismatch(_));
                self.text.push_str(&part.name);
                self.text.push_str(":\n");
                self.text.push_str(error.to_string().trim_start_matches('\n'));
                if is_mismatch {
                    self.text.push('\n');
                }
            }
        }
        for child in &part.children {
            match values.get(&child.name) {
                None | Some(Json::Null) => {}
                Some(below) => self.part(child, below)?,
            }
        }
        Ok(())
    }
}

/// Executes the templates of all charts, the deepest first (RND-188).
fn execute(
    charts: &[Visited<'_>],
    request: &RenderRequest<'_>,
    environment: &dyn Environment,
) -> Result<Vec<RenderedFile>, HelmError> {
    let mut templates = Templates::new("gotpl", functions()).with_missing_key(MissingKey::Zero);
    let renderables = parse(charts, &mut templates)?;
    let repeatable = request.determinism.map(|determinism| Repeatable::new(environment, determinism));
    let environment = repeatable.as_ref().map_or(environment, |repeatable| repeatable as &dyn Environment);
    let mut engine = Engine::new(&templates, environment, request.limits.templates);
    let mut files = Vec::new();
    let mut left = request.limits.output_bytes;
    for Renderable { path, base, dot } in
        renderables.iter().filter(|renderable| !is_partial(&renderable.path))
    {
        let template: [(&str, tiphys_go::template::Value); 2] =
            [("Name", path.as_str().into()), ("BasePath", base.as_str().into())];
        let template: Map = template.into_iter().collect();
        dot.set(Text::from("Template"), template.retyped(crate::root::values_type(request.version)).into());
        if let Some(repeatable) = &repeatable {
            repeatable.enter(path);
        }
        let written = engine
            .execute(path, &dot.retyped(crate::root::values_type(request.version)).into())
            .map_err(|error| execution_error(path, &error, request.version))?;
        let text = without_no_value(written);
        live::check().map_err(held)?;
        left = left.checked_sub(text.len()).ok_or_else(|| {
            HelmError::Exceeded(format!(
                "the templates write more than {} bytes",
                request.limits.output_bytes
            ))
        })?;
        if path.ends_with("NOTES.txt") {
            continue;
        }
        let text = String::from_utf8(text).unwrap_or_else(|error| {
            // Helm's parser of YAML refuses such a text; so does ours, by its first character that is none.
            String::from_utf8_lossy(error.as_bytes()).replace('\u{fffd}', "\u{1}")
        });
        files.push(RenderedFile { path: path.clone(), text });
    }
    Ok(files)
}

/// The error when a rendering holds too much.
fn held(exceeded: live::Exceeded) -> HelmError {
    HelmError::Exceeded(format!("rendering the chart holds more than {} bytes of memory", exceeded.bound))
}

/// Parses all templates in Helm's order and puts them together. Of files of one path the last counts.
fn parse(charts: &[Visited<'_>], templates: &mut Templates) -> Result<Vec<Renderable>, HelmError> {
    let mut all = std::collections::BTreeMap::new();
    for visited in charts {
        let parsed = visited.part.chart.parsed(&visited.path);
        let chart_type = visited.part.chart.metadata.chart_type();
        for (at, (path, _)) in parsed.iter().enumerate() {
            if takes_part(chart_type, path) {
                all.insert(path.clone(), (Arc::clone(&parsed), at, visited));
            }
        }
    }
    let mut ordered: Vec<_> = all.into_iter().collect();
    ordered.sort_by(|(one, _), (other, _)| {
        let depth = |path: &str| path.bytes().filter(|byte| *byte == b'/').count();
        (depth(other), other).cmp(&(depth(one), one))
    });
    let mut renderables = Vec::with_capacity(ordered.len());
    for (path, (parsed, at, visited)) in ordered {
        if let Some((_, parsed)) = parsed.get(at) {
            match parsed {
                Ok(parsed) => templates.add(parsed),
                Err(error) => return Err(HelmError::Template(describe_parse(&path, error))),
            }
        }
        let base = format!("{}/templates", visited.path);
        renderables.push(Renderable { path, base, dot: visited.dot.clone() });
    }
    Ok(renderables)
}

fn execution_error(path: &str, error: &TemplateError, version: HelmVersion) -> HelmError {
    match error.kind() {
        ErrorKind::Cancelled => return HelmError::Cancelled,
        ErrorKind::Limit(Exceeded::MadeBytes(_) | Exceeded::LiveBytes(_) | Exceeded::TextBytes(_)) => {
            return HelmError::Exceeded(describe_execution(path, error));
        }
        ErrorKind::Limit(_) => return HelmError::Work(describe_execution(path, error)),
        _ => {}
    }
    HelmError::Template(match version {
        HelmVersion::V3 if error.kind() != ErrorKind::Told => error.to_string(),
        _ => describe_execution(path, error),
    })
}

/// CRDs of a chart, then of those below it.
fn collect_crds(part: &Part, path: &str, crds: &mut Vec<Crds>) -> Result<(), CrdError> {
    let documents = part.chart.crd_documents()?;
    if !documents.is_empty() {
        crds.push(Crds { chart_path: path.to_owned(), documents });
    }
    part.children
        .iter()
        .try_for_each(|child| collect_crds(child, &format!("{path}/charts/{}", child.name), crds))
}
