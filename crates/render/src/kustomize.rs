//! Kustomize sources: from the fields of a source to a build of the engine (RND section 9).

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tiphys_api::application::KustomizeSource;
use tiphys_helm::{
    Documents, File, HelmVersion, RenderLimits, RenderRequest as HelmRequest, UserValues, load_directory,
};
use tiphys_kustomize::{
    Budget as KustomizeBudget, ChartInflator, ChartRequest, Content as Fetched, Context, EditError,
    Fetched as LookUp, KustomizeError, Options, RemoteSpec, build,
};

use crate::comparison::Made;
use crate::environment::{build_environment, substitute};
use crate::helm::{limits, template_limits};
use crate::needs::{Content, Need, Outcome, Supplies};
use crate::request::{Budget, Inputs, RenderRequest};
use crate::templates::{During, World};
use crate::tools::Tool;
use crate::{Reason, RenderError, TreePath, comparison, kube_version, tools};

/// Builds the kustomization of a directory.
pub(crate) fn render(
    request: &RenderRequest,
    source: &KustomizeSource,
    directory: &TreePath,
    inputs: &Inputs<'_>,
    budget: &Budget,
) -> Result<Outcome<Made>, RenderError> {
    let edits = substituted(request, source);
    let mut printed = None;
    if let Some((program, is_compared)) = request.context.tools.kustomize_program(&source.version)? {
        let is_directory = |component: &str| is_directory(component, directory, inputs);
        let words = build_words(request, source)?;
        let call = tools::kustomize(program, &edits, directory, words, &is_directory)?;
        match tools::result(call, inputs.supplies, budget)? {
            Outcome::Done(objects) if is_compared => printed = Some(objects),
            Outcome::Done(objects) => return Ok(Outcome::Done(objects.into())),
            Outcome::Needs(needs) => return Ok(Outcome::Needs(needs)),
        }
    }
    let native = native(request, source, &edits, directory, inputs, budget);
    Ok(match (printed, native) {
        (Some(objects), native) => comparison::beside(Tool::Kustomize, objects, native),
        (None, native) => match native? {
            Outcome::Done(objects) => Outcome::Done(objects.into()),
            Outcome::Needs(needs) => Outcome::Needs(needs),
        },
    })
}

/// The commands that make the same objects (RND-2); of edits for which kustomize has no command only the build.
///
/// # Errors
/// As [`render`].
pub(crate) fn command_lines(
    request: &RenderRequest,
    source: &KustomizeSource,
    directory: &TreePath,
    inputs: &Inputs<'_>,
) -> Result<Vec<String>, RenderError> {
    let is_directory = |component: &str| is_directory(component, directory, inputs);
    let words = build_words(request, source)?;
    let program = || Tool::Kustomize.as_str().to_owned();
    let edits = substituted(request, source);
    let call = match tools::kustomize(program(), &edits, directory, words.clone(), &is_directory) {
        Err(error) if error.reason == Reason::ExecRequired => {
            tools::kustomize(program(), &KustomizeSource::default(), directory, words, &is_directory)?
        }
        call => call?,
    };
    Ok(call.lines(&[]))
}

/// Whether a component of the source is there.
fn is_directory(component: &str, directory: &TreePath, inputs: &Inputs<'_>) -> Result<bool, RenderError> {
    let Ok(path) = directory.join(component) else { return Ok(false) };
    Ok(inputs.tree.entry(&path)?.is_some_and(|entry| entry.is_directory()))
}

/// The build of our own engine.
fn native(
    request: &RenderRequest,
    source: &KustomizeSource,
    edits: &KustomizeSource,
    directory: &TreePath,
    inputs: &Inputs<'_>,
    budget: &Budget,
) -> Result<Outcome<Vec<Value>>, RenderError> {
    let options = options(request, source)?;
    let fetched = Supplied(inputs.supplies);
    let charts = Charts { world: inputs.world, budget };
    let context = Context { fetched: &fetched, charts: &charts, edits: Some(edits) };
    let limits = KustomizeBudget {
        input_bytes: budget.input_bytes,
        memory: budget.memory,
        objects: budget.objects,
        files: budget.files,
        cancelled: budget.cancelled.clone(),
        ..KustomizeBudget::default()
    };
    match build(inputs.tree, directory, &options, &context, &limits) {
        Ok(built) => Ok(Outcome::Done(built.objects)),
        Err(KustomizeError::Missing { specs }) => {
            let needs = specs.iter().map(need_of).collect::<Result<Vec<Need>, _>>()?;
            Ok(Outcome::Needs(needs))
        }
        Err(error) => Err(of_engine(&error)),
    }
}

/// The fields of the source with variables filled in (RND-68).
fn substituted(request: &RenderRequest, source: &KustomizeSource) -> KustomizeSource {
    let environment = build_environment(request);
    let mut edits = source.clone();
    let fill = |text: &mut String| *text = substitute(text, &environment);
    edits.images.iter_mut().for_each(fill);
    edits.common_labels.values_mut().for_each(fill);
    if edits.common_annotations_envsubst {
        edits.common_annotations.values_mut().for_each(fill);
    }
    edits
}

/// Options of a build that a program makes (RND-87, RND-88).
fn build_words(request: &RenderRequest, source: &KustomizeSource) -> Result<Vec<String>, RenderError> {
    let context = &request.context;
    let own = context.tools.options_of(&source.version);
    let text = own.unwrap_or(&context.kustomize_options);
    let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if words.iter().any(|word| word == "--enable-helm") {
        let version = kube_version::of_source(&source.kube_version, context)?;
        if !version.is_empty() {
            words.extend(["--helm-kube-version".to_owned(), version]);
        }
        let own = !source.api_versions.is_empty();
        let versions: &[String] = if own { &source.api_versions } else { context.cluster.api_versions() };
        words.extend(versions.iter().flat_map(|one| ["--helm-api-versions".to_owned(), one.clone()]));
    }
    Ok(words)
}

/// Options of the settings; charts see the cluster (RND-87).
fn options(request: &RenderRequest, source: &KustomizeSource) -> Result<Options, RenderError> {
    let context = &request.context;
    let mut options = Options::parse(&context.kustomize_options).map_err(|error| {
        RenderError::new(Reason::KustomizeBuild, format!("kustomize.buildOptions: {error}"))
    })?;
    if options.enable_helm {
        let version = kube_version::of_source(&source.kube_version, context)?;
        options.helm_kube_version = version.into();
        let own = !source.api_versions.is_empty();
        let versions: &[String] = if own { &source.api_versions } else { context.cluster.api_versions() };
        options.helm_api_versions = versions.iter().map(Into::into).collect();
    }
    Ok(options)
}

fn need_of(spec: &RemoteSpec) -> Result<Need, RenderError> {
    match spec {
        RemoteSpec::Repository { url, reference, .. } => {
            Ok(Need::Repository { url: url.clone(), revision: reference.clone() })
        }
        RemoteSpec::File { url } => Ok(Need::Resource { url: url.clone() }),
        RemoteSpec::Chart { repository, name, version, .. } => Ok(Need::ChartFiles {
            repository: repository.clone(),
            name: name.clone(),
            version: version.clone(),
        }),
        other => {
            let text =
                format!("native kustomize renderer: unsupported {other}; set tiphys.renderer.kustomize=exec");
            Err(RenderError::new(Reason::ExecRequired, text))
        }
    }
}

/// What was brought, in the words of the engine.
struct Supplied<'a>(&'a Supplies);

impl LookUp for Supplied<'_> {
    fn look_up(&self, spec: &RemoteSpec) -> Option<Result<Fetched, String>> {
        let supply = self.0.get(&need_of(spec).ok()?)?;
        Some(match &supply.content {
            Content::Tree(tree) => Ok(Fetched::Tree(Arc::clone(tree))),
            Content::Bytes(bytes) => Ok(Fetched::File(bytes.clone())),
            Content::Absent(why) => Err(why.clone()),
        })
    }
}

/// Inflates charts with our own engine (RND-236).
struct Charts<'a> {
    world: World,
    budget: &'a Budget,
}

impl ChartInflator for Charts<'_> {
    fn inflate(&self, request: &ChartRequest<'_>) -> Result<String, String> {
        let version = HelmVersion::V4;
        let limits = limits(self.budget);
        let chart = load_directory(request.tree, &request.directory, version, &limits);
        let chart = Arc::new(chart.map_err(|error| error.to_string())?);
        let file = |data: &Bytes| File { name: "values.yaml".to_owned(), data: data.clone() };
        let values = UserValues { files: request.values.iter().map(file).collect(), ..UserValues::default() };
        if !request.name_template.is_empty() {
            return Err("native kustomize renderer: unsupported nameTemplate of helmCharts".to_owned());
        }
        let api_versions: Vec<String> = request.api_versions.iter().map(ToString::to_string).collect();
        let release = if request.release_name.is_empty() { "release-name" } else { request.release_name };
        let asked = HelmRequest {
            chart: &chart,
            version,
            release_name: release,
            namespace: request.namespace,
            kube_version: Some(request.kube_version).filter(|version| !version.is_empty()),
            api_versions: &api_versions,
            values: &values,
            include_crds: request.include_crds,
            skip_schema_validation: false,
            skip_tests: request.skip_tests,
            schema_documents: &Documents::default(),
            repositories: &[],
            determinism: None,
            limits: RenderLimits {
                manifests_memory: self.budget.memory,
                templates: template_limits(self.budget),
                ..RenderLimits::default()
            },
        };
        let cancelled = || self.budget.check_time().is_err();
        let world = During::new(self.world, &cancelled);
        let rendered = tiphys_helm::render(&asked, &world).map_err(|error| error.to_string())?;
        let mut text = String::new();
        for crds in &rendered.crds {
            for document in crds.documents.iter() {
                text.push_str("---\n");
                text.push_str(&document.object.to_string());
                text.push('\n');
            }
        }
        for manifest in rendered.manifests.iter().filter(|one| !(request.skip_hooks && one.hook.is_some())) {
            text.push_str("---\n");
            text.push_str(&manifest.text);
            text.push('\n');
        }
        Ok(text)
    }
}

fn of_engine(error: &KustomizeError) -> RenderError {
    let reason = match error {
        KustomizeError::Edit(EditError::Count(_)) => Reason::KustomizeReplicaCount,
        KustomizeError::Edit(_) => Reason::KustomizeEdit,
        KustomizeError::Exhausted { .. } => Reason::MemoryExceeded,
        KustomizeError::Cancelled => Reason::BudgetExceeded,
        KustomizeError::Unsupported { .. } => Reason::ExecRequired,
        KustomizeError::Tree(error) => return RenderError::from(error.clone()),
        _ => Reason::KustomizeBuild,
    };
    RenderError::new(reason, error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tiphys_api::application::ApplicationSource;

    use super::*;
    use crate::needs::{NeedLimits, Supply, supply_at_once};
    use crate::{MemoryTree, Rendered, render as render_source};

    const OBJECT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: a, image: nginx}]}}}\n";

    /// RND-2: edits first; where kustomize has no command for one, the build alone.
    #[test]
    fn rnd_2_the_commands_that_make_the_same_can_be_typed() {
        let tree = MemoryTree::from_files([("app/kustomization.yaml", String::new())]).unwrap();
        let lines = |kustomize: Value| {
            let source = json!({"repoURL": "https://h/r", "path": "app", "kustomize": kustomize});
            let source: ApplicationSource = serde_json::from_value(source).unwrap();
            let request = RenderRequest { source, ..RenderRequest::default() };
            let inputs = Inputs::of(&tree);
            crate::command_lines(&request, crate::SourceType::Kustomize, &inputs, &Budget::default())
        };
        let typed = |kustomize: Value| match lines(kustomize) {
            Ok(Outcome::Done(lines)) => lines,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            typed(json!({"namePrefix": "p-", "images": ["a=b c:1"]})),
            [
                "kustomize edit set nameprefix -- p-",
                "kustomize edit set image -- 'a=b c:1'",
                "kustomize build ."
            ]
        );
        let patch = json!({"patches": [{"path": "p.yaml", "options": {"allowNameChange": true}}]});
        assert_eq!(typed(patch), ["kustomize build ."]);
        let wrong = lines(json!({"replicas": [{"name": "web", "count": "many"}]}));
        assert_eq!(
            wrong.unwrap_err().reason,
            Reason::KustomizeReplicaCount,
            "no other failure is passed over"
        );
    }

    #[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
    fn run(
        files: &[(&str, &str)],
        kustomize: Value,
        options: &str,
        supplies: &[(Need, Supply)],
    ) -> Result<Rendered, RenderError> {
        let tree =
            MemoryTree::from_files(files.iter().map(|(path, text)| (*path, (*text).to_owned()))).unwrap();
        let source: ApplicationSource =
            serde_json::from_value(json!({"repoURL": "https://h/r", "path": "app", "kustomize": kustomize}))
                .unwrap();
        let mut request =
            RenderRequest { source, revision: "0123456789".to_owned(), ..RenderRequest::default() };
        request.context.instance_name = "shop".to_owned();
        request.context.kustomize_options = options.to_owned();
        supply_at_once(
            NeedLimits::default(),
            |brought| {
                render_source(
                    &request,
                    &Inputs { supplies: brought, ..Inputs::of(&tree) },
                    &Budget::default(),
                )
            },
            |need| {
                let found = supplies.iter().find(|(known, _)| known == need);
                found
                    .map(|(_, supply)| supply.clone())
                    .ok_or_else(|| RenderError::new(Reason::NetworkRequired, need.to_string()))
            },
        )
    }

    #[test]
    fn rnd_81_fields_of_the_source_change_the_build() {
        let files = [("app/kustomization.yaml", "resources: [a.yaml]"), ("app/a.yaml", OBJECT)];
        let fields = json!({"namePrefix": "p-", "images": ["nginx:$ARGOCD_APP_REVISION_SHORT"],
            "commonAnnotations": {"a": "$ARGOCD_APP_NAME"}, "commonLabels": {"l": "$ARGOCD_APP_NAME"}});
        let rendered = run(&files, fields, "", &[]).unwrap();
        let object = &rendered.objects[0];
        assert_eq!(object["metadata"]["name"], "p-web");
        assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:0123456");
        assert_eq!(object["metadata"]["annotations"]["a"], "$ARGOCD_APP_NAME");
        assert_eq!(object["metadata"]["labels"]["l"], "shop");
        let reason = |fields| run(&files, fields, "", &[]).unwrap_err().reason;
        assert_eq!(reason(json!({"images": ["nginx"]})), Reason::KustomizeEdit);
        assert_eq!(
            reason(json!({"replicas": [{"name": "web", "count": "x"}]})),
            Reason::KustomizeReplicaCount
        );
        assert_eq!(reason(json!({"version": "v4.5.7"})), Reason::KustomizeVersion);
        assert_eq!(run(&files, json!({}), "--no-such", &[]).unwrap_err().reason, Reason::KustomizeBuild);
    }

    /// RND-89, SEC-50: bases of others are brought, and nothing begins with a dash.
    #[test]
    fn rnd_210_bases_and_files_of_others_are_brought() {
        let files = [(
            "app/kustomization.yaml",
            "resources: [\"https://h/other//base?ref=v1\", \"https://h/x.yaml\"]",
        )];
        let base = MemoryTree::from_files([
            ("base/kustomization.yaml", "resources: [a.yaml]"),
            ("base/a.yaml", OBJECT),
        ])
        .unwrap();
        let file = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
        let supplies = [
            (
                Need::Repository { url: "https://h/other".to_owned(), revision: "v1".to_owned() },
                Supply::tree(Arc::new(base)),
            ),
            (Need::Resource { url: "https://h/x.yaml".to_owned() }, Supply::bytes(file.into())),
            (
                Need::Resource { url: "https://h/other//base?ref=v1".to_owned() },
                Supply::absent("status 404".to_owned()),
            ),
        ];
        let rendered = run(&files, json!({}), "", &supplies).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(rendered.objects.len(), 2);
        let missing = run(&files, json!({}), "", &[]).unwrap_err();
        assert_eq!(missing.reason, Reason::NetworkRequired);
        let evil = [("app/kustomization.yaml", "resources: [\"https://h/other//base?ref=--upload-pack=x\"]")];
        let error = run(&evil, json!({}), "", &supplies).unwrap_err();
        assert!(!error.message.contains("Repository"), "{error}");
    }

    #[test]
    fn rnd_236_charts_of_a_kustomization_are_inflated() {
        let files = [
            ("app/kustomization.yaml", "helmCharts: [{name: web, releaseName: r, valuesInline: {a: x}}]"),
            ("app/charts/web/values.yaml", "a: y"),
            ("app/charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
            (
                "app/charts/web/templates/a.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {a: {{ .Values.a }}}\n",
            ),
        ];
        let rendered = run(&files, json!({}), "--enable-helm", &[]).unwrap_or_else(|error| panic!("{error}"));
        let object = &rendered.objects[0];
        assert_eq!(
            (object["metadata"]["name"].as_str(), object["data"]["a"].as_str()),
            (Some("r"), Some("x"))
        );
        assert!(run(&files, json!({}), "", &[]).unwrap_err().message.contains("must specify --enable-helm"));
    }
}
