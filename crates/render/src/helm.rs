//! Helm sources: from the fields of a source to a rendering of the engine (RND section 10).

mod dependencies;
mod value_files;

use std::sync::Arc;

use serde_json::Value;
use tiphys_api::application::{HelmParameter, HelmSource};
use tiphys_go::template::Limits;
use tiphys_helm::{
    ChartError, Determinism, Documents, File, FileParameter, HelmError, HelmVersion, LoadLimits,
    RenderLimits, Seed, UserValues, load_directory,
};

use crate::comparison::Made;
use crate::environment::{Environment, build_environment, escape_parameter, substitute};
use crate::needs::{Need, Outcome};
use crate::plan::RenderContext;
use crate::request::{Budget, Inputs, RenderRequest};
use crate::templates::During;
use crate::tools::{Tool, Who};
use crate::{Reason, RenderError, TreePath, comparison, kube_version, tools};

use value_files::ValueFiles;

/// Bytes of one value file, and of one file parameter.
const VALUE_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of all of them.
const VALUE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// What a message calls the values that stand in the source itself (RND-9).
const OWN_VALUES: &str = "<temp file with values from source.helm.values/valuesObject>";

/// Renders the chart in a directory.
pub(crate) fn render(
    request: &RenderRequest,
    source: &HelmSource,
    directory: &TreePath,
    inputs: &Inputs<'_>,
    budget: &Budget,
) -> Result<Outcome<Made>, RenderError> {
    let context = &request.context;
    let version = version(source, context.helm.v3_compat)?;
    let environment = build_environment(request);
    let files = value_files(request, directory, inputs, (&environment, budget));
    let chart = load_directory(inputs.tree, directory, version, &limits(budget)).map_err(|e| of_chart(&e))?;
    let values = user_values(source, &files, &environment);
    let who = context.tools.helm_renderer()?;
    let chart = dependencies::complete(chart, version, inputs, directory, &context.helm.repositories, budget);
    // Everything that is missing is asked for at once.
    let mut needs = Vec::new();
    let values = take(values, &mut needs)?;
    let chart = take(chart, &mut needs)?;
    let (Some(values), Some((chart, added))) = (values, chart) else { return Ok(Outcome::Needs(needs)) };

    let kube_version = kube_version::of_source(&source.kube_version, context)?;
    let api_versions: &[String] =
        if source.api_versions.is_empty() { context.cluster.api_versions() } else { &source.api_versions };
    let namespace = namespace(source, context);
    let release = release_name(source, &context.instance_name);
    let mut printed = None;
    if who != Who::Native {
        let asked = tools::HelmCall {
            directory,
            release,
            namespace,
            kube_version: &kube_version,
            api_versions,
            charts: added,
        };
        match tools::result(tools::helm(source, &values, asked), inputs.supplies, budget)? {
            Outcome::Done(objects) if who == Who::Program => return Ok(Outcome::Done(objects.into())),
            Outcome::Done(objects) => printed = Some(objects),
            Outcome::Needs(needs) => return Ok(Outcome::Needs(needs)),
        }
    }
    let seed = Seed {
        instance: &context.instance_name,
        release,
        revision: &request.revision,
        secret: inputs.secret,
    };
    let determinism = context.helm.deterministic.then(|| Determinism::new(seed, inputs.world.year()));
    let asked = tiphys_helm::RenderRequest {
        determinism: determinism.as_ref(),
        chart: &Arc::new(chart),
        version,
        release_name: release,
        namespace,
        kube_version: Some(kube_version.as_str()).filter(|version| !version.is_empty()),
        api_versions,
        values: &values,
        include_crds: !source.skip_crds,
        skip_schema_validation: source.skip_schema_validation,
        skip_tests: source.skip_tests,
        schema_documents: &Documents::default(),
        repositories: &context.helm.repositories,
        limits: RenderLimits {
            manifests_memory: budget.memory,
            output_bytes: usize::try_from(budget.input_bytes).unwrap_or(usize::MAX).saturating_mul(2),
            documents: budget.objects,
            values_memory: budget.memory,
            templates: template_limits(budget),
            ..RenderLimits::default()
        },
    };
    let cancelled = || budget.check_time().is_err();
    let world = During::new(inputs.world, &cancelled);
    let native = || {
        let rendered = tiphys_helm::render(&asked, &world).map_err(|error| of_engine(&error))?;
        let objects = rendered.into_objects();
        objects.iter().try_for_each(check_kind)?;
        Ok(objects)
    };
    Ok(match printed {
        None => Outcome::Done(native()?.into()),
        Some(objects) => comparison::beside(Tool::Helm, objects, native().map(Outcome::Done)),
    })
}

/// The command that makes the same objects (RND-2): with the versions that the cluster serves left away, for they are
/// the cluster's.
///
/// # Errors
/// As [`render`].
pub(crate) fn command_line(
    request: &RenderRequest,
    source: &HelmSource,
    directory: &TreePath,
    inputs: &Inputs<'_>,
    budget: &Budget,
) -> Result<Outcome<String>, RenderError> {
    let context = &request.context;
    let environment = build_environment(request);
    let files = value_files(request, directory, inputs, (&environment, budget));
    let values = match user_values(source, &files, &environment)? {
        Outcome::Done(values) => values,
        Outcome::Needs(needs) => return Ok(Outcome::Needs(needs)),
    };
    let kube_version = kube_version::of_source(&source.kube_version, context)?;
    let asked = tools::HelmCall {
        directory,
        release: release_name(source, &context.instance_name),
        namespace: namespace(source, context),
        kube_version: &kube_version,
        api_versions: &source.api_versions,
        charts: Vec::new(),
    };
    // In the order in which the call numbers them.
    let parameters = source.file_parameters.iter().map(|one| substitute(&one.path, &environment));
    let inside = format!("{directory}/");
    let near = |name: &str| name.strip_prefix(&inside).unwrap_or(name).to_owned();
    let names: Vec<String> = parameters.chain(values.files.iter().map(|file| near(&file.name))).collect();
    let lines = tools::helm(source, &values, asked).lines(&names);
    Ok(Outcome::Done(lines.into_iter().next().unwrap_or_default()))
}

/// Namespace of the release.
fn namespace<'a>(source: &'a HelmSource, context: &'a RenderContext) -> &'a str {
    let namespace = [&source.namespace, &context.destination_namespace];
    namespace.into_iter().find(|name| !name.is_empty()).map_or("", String::as_str)
}

/// A result, or what it lacks.
fn take<T>(
    outcome: Result<Outcome<T>, RenderError>,
    needs: &mut Vec<Need>,
) -> Result<Option<T>, RenderError> {
    match outcome? {
        Outcome::Done(value) => Ok(Some(value)),
        Outcome::Needs(more) => {
            needs.extend(more);
            Ok(None)
        }
    }
}

/// Which Helm is followed (RND-91, RND-164).
fn version(source: &HelmSource, v3_compat: bool) -> Result<HelmVersion, RenderError> {
    match source.version.as_str() {
        "v3" if v3_compat => Ok(HelmVersion::V3),
        "" | "v3" | "v4" => Ok(HelmVersion::V4),
        other => {
            let text = format!("helm version '{other}' is not supported");
            Err(RenderError::new(Reason::HelmVersionUnsupported, text))
        }
    }
}

/// Name of the release: the application's own name, without the namespace that an instance name may begin with (RND-91).
fn release_name<'a>(source: &'a HelmSource, instance_name: &'a str) -> &'a str {
    if source.release_name.is_empty() {
        instance_name.split_once('_').map_or(instance_name, |(_, name)| name)
    } else {
        &source.release_name
    }
}

/// Where the value files of a source are looked for.
fn value_files<'a>(
    request: &'a RenderRequest,
    directory: &'a TreePath,
    inputs: &Inputs<'a>,
    (environment, budget): (&'a Environment, &'a Budget),
) -> ValueFiles<'a> {
    let context = &request.context;
    ValueFiles {
        tree: inputs.tree,
        directory,
        refs: context.refs.as_deref(),
        supplies: inputs.supplies,
        environment,
        schemes: &context.helm.value_file_schemes,
        budget,
    }
}

/// The value files that a source selects, in their order; what has to be brought first is added to the needs.
pub(crate) fn selected_files(
    request: &RenderRequest,
    source: &HelmSource,
    directory: &TreePath,
    inputs: &Inputs<'_>,
    (environment, budget): (&Environment, &Budget),
    needs: &mut Vec<Need>,
) -> Result<Vec<File>, RenderError> {
    let files = value_files(request, directory, inputs, (environment, budget));
    selected(source, &files, VALUE_BYTES_MAX, needs)
}

fn selected(
    source: &HelmSource,
    files: &ValueFiles<'_>,
    mut left: u64,
    needs: &mut Vec<Need>,
) -> Result<Vec<File>, RenderError> {
    let mut found = Vec::new();
    for place in files.resolve(&source.value_files, source.ignore_missing_value_files, needs)? {
        if let Some(data) = files.read(&place, VALUE_FILE_BYTES_MAX.min(left), needs)? {
            left = left.saturating_sub(data.len() as u64);
            found.push(File { name: place.shown(), data });
        }
    }
    Ok(found)
}

/// Values of users in the order of RND-94.
fn user_values(
    source: &HelmSource,
    files: &ValueFiles<'_>,
    environment: &Environment,
) -> Result<Outcome<UserValues>, RenderError> {
    let (mut needs, mut left) = (Vec::new(), VALUE_BYTES_MAX);
    let mut values =
        UserValues { files: selected(source, files, left, &mut needs)?, ..UserValues::default() };
    left = left.saturating_sub(values.files.iter().map(|file| file.data.len() as u64).sum());
    let own = match &source.values_object {
        Some(object) => serde_json::to_string(object)
            .map_err(|error| RenderError::new(Reason::SourceParameters, error.to_string()))?,
        None => source.values.clone(),
    };
    if source.values_object.is_some() || !own.is_empty() {
        values.files.push(File { name: OWN_VALUES.to_owned(), data: own.into() });
    }
    let set = |is_text: bool| -> Vec<String> {
        last_of_each(source.parameters.iter().filter(|one| one.force_string == is_text))
            .map(|one| format!("{}={}", one.name, escape_parameter(&substitute(&one.value, environment))))
            .collect()
    };
    values.set = set(false);
    values.set_string = set(true);
    for parameter in &source.file_parameters {
        let place = files.single(&parameter.path, &mut needs)?;
        let Some(place) = place else { continue };
        if let Some(content) = files.read(&place, VALUE_FILE_BYTES_MAX.min(left), &mut needs)? {
            left = left.saturating_sub(content.len() as u64);
            values.set_file.push(FileParameter { name: parameter.name.clone(), content });
        }
    }
    Ok(if needs.is_empty() { Outcome::Done(values) } else { Outcome::Needs(needs) })
}

/// Of parameters of one name the last one, at its place (RND-95).
fn last_of_each<'a>(
    parameters: impl Iterator<Item = &'a HelmParameter> + Clone,
) -> impl Iterator<Item = &'a HelmParameter> {
    let all: Vec<&HelmParameter> = parameters.collect();
    let last: std::collections::BTreeMap<&str, usize> =
        all.iter().enumerate().map(|(nth, one)| (one.name.as_str(), nth)).collect();
    all.into_iter()
        .enumerate()
        .filter_map(move |(nth, one)| (last.get(one.name.as_str()) == Some(&nth)).then_some(one))
}

/// Limits of the templates of a chart.
pub(crate) fn template_limits(budget: &Budget) -> Limits {
    Limits { steps: budget.template_steps, live_bytes: budget.live_bytes, ..Limits::default() }
}

/// Limits of the files of a chart.
pub(crate) fn limits(budget: &Budget) -> LoadLimits {
    let defaults = LoadLimits::default();
    LoadLimits {
        files: budget.files.min(defaults.files),
        bytes: defaults.bytes.min(budget.live_bytes as u64),
        memory: budget.memory,
        ..defaults
    }
}

/// A document without a kind is no manifest (RND-202).
fn check_kind(object: &Value) -> Result<(), RenderError> {
    match object.get("kind").and_then(Value::as_str) {
        Some(kind) if !kind.is_empty() => Ok(()),
        _ => {
            let mut shown = object.to_string();
            shown.truncate(shown.char_indices().nth(200).map_or(shown.len(), |(at, _)| at));
            // The values of a Secret may be in it.
            let shown = if object.get("data").is_some() || object.get("stringData").is_some() {
                String::new()
            } else {
                shown
            };
            let text = format!("failed to unmarshal manifest: Object 'Kind' is missing in '{shown}'");
            Err(RenderError::new(Reason::HelmRender, text))
        }
    }
}

fn of_chart(error: &ChartError) -> RenderError {
    match error {
        ChartError::Tree(error) => RenderError::from(error.clone()),
        error if error.is_memory() => RenderError::new(Reason::MemoryExceeded, error.to_string()),
        _ => RenderError::new(Reason::HelmRender, error.to_string()),
    }
}

fn of_engine(error: &HelmError) -> RenderError {
    let reason = match error {
        HelmError::Chart(error) => return of_chart(error),
        HelmError::Schema { .. } => Reason::HelmSchema,
        HelmError::KubeVersion(_) => Reason::KubeVersionParse,
        error if error.is_memory() => Reason::MemoryExceeded,
        HelmError::Work(_) | HelmError::Cancelled => Reason::BudgetExceeded,
        _ => Reason::HelmRender,
    };
    RenderError::new(reason, error.to_string())
}

#[cfg(test)]
mod tests;
