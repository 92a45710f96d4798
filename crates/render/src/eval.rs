//! Decisions of this crate in the shape in which `tiphys eval` asks for them (EVAL-701..708).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tiphys_api::application::ApplicationSource;
use tiphys_go::glob::Glob;
use tiphys_go::semver::Version;
use tiphys_helm::{File, HelmVersion, flatten_parameters};

use crate::needs::{Need, NeedLimits, Outcome, Supplies, Supply, supply_at_once};
use crate::plan::{Content as PlanContent, PlannedSource, Purpose, RenderContext, plan};
use crate::{Budget, Code, Inputs, Reason, RenderError, Rendered, Tree, render};

/// A failure of an eval operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    /// Code for the caller.
    pub code: Code,
    /// Reason for programs; empty where none is defined.
    pub reason: &'static str,
    /// Text for people.
    pub message: String,
}

impl From<RenderError> for EvalError {
    fn from(error: RenderError) -> Self {
        Self { code: error.code(), reason: error.reason.as_str(), message: error.message }
    }
}

/// What `render.manifests` gives for one source (EVAL-701).
#[derive(Clone, Debug, PartialEq)]
pub struct SourceResult {
    /// Type on the wire; empty for a source that only carries `ref`.
    pub source_type: &'static str,
    /// The revision.
    pub revision: String,
    /// The objects.
    pub objects: Vec<Value>,
}

/// Renders several sources in order; `tree` gives content and revision of each URL (RND-6, RND-15).
///
/// The error of one of several sources names its position.
pub fn manifests(
    sources: &[ApplicationSource],
    context: &RenderContext,
    budget: &Budget,
    mut tree: impl FnMut(&str) -> Result<(Arc<dyn Tree>, String), EvalError>,
) -> Result<Vec<SourceResult>, EvalError> {
    let planned = plan(sources, &[])
        .map_err(|error| EvalError::from(RenderError::new(error.reason(), error.to_string())))?;
    let several = planned.len() > 1;
    let context = context.clone().with_sources(sources);
    let mut results = Vec::with_capacity(planned.len());
    for (index, one) in planned.iter().enumerate() {
        let result = manifests_of(one, sources, &context, budget, &mut tree);
        results.push(result.map_err(|mut error| {
            if several {
                let position = format!("source {} of {}", index + 1, sources.len());
                error.message = format!("failed to generate manifest for {position}: {}", error.message);
            }
            error
        })?);
    }
    Ok(results)
}

fn manifests_of(
    planned: &PlannedSource<'_>,
    sources: &[ApplicationSource],
    context: &RenderContext,
    budget: &Budget,
    tree: &mut impl FnMut(&str) -> Result<(Arc<dyn Tree>, String), EvalError>,
) -> Result<SourceResult, EvalError> {
    let source = planned.source;
    let (own, given) = tree(&source.repo_url)?;
    // A chart has its version, which is the one that is asked for.
    let revision = match planned.content {
        PlanContent::Chart if Version::parse(planned.revision).is_ok() => planned.revision.to_owned(),
        PlanContent::Chart | PlanContent::Git | PlanContent::Oci => given,
    };
    if planned.purpose == Purpose::Revision {
        return Ok(SourceResult { source_type: "", revision, objects: Vec::new() });
    }
    let request = context.request(source, &revision);
    let attempt = |supplies: &Arc<Supplies>| -> Result<Outcome<Rendered>, EvalError> {
        let inputs = Inputs { supplies, ..Inputs::of(own.as_ref()) };
        Ok(render(&request, &inputs, budget)?)
    };
    let bring = |need: &Need| match need {
        Need::Ref { name } => {
            let referred = sources.iter().find(|one| one.r#ref == *name).map_or("", |one| &one.repo_url);
            Ok(Supply::tree(tree(referred)?.0))
        }
        Need::Repository { url, .. } => Ok(Supply::tree(tree(url)?.0)),
        Need::Tool(call) => {
            let text = format!("{} is not run here", call.program);
            Err(EvalError::from(RenderError::new(Reason::ExecRequired, text)))
        }
        Need::Plugin(_) => {
            let text = "sources of type Plugin are for plugins, and none is asked here";
            Err(EvalError::from(RenderError::new(Reason::ExecRequired, text)))
        }
        Need::Chart { .. } | Need::ChartFiles { .. } | Need::File { .. } | Need::Resource { .. } => {
            let text = format!("{need} would have to come from the network");
            Err(EvalError::from(RenderError::new(Reason::NetworkRequired, text)))
        }
    };
    let Rendered { objects, source_type, .. } = supply_at_once(NeedLimits::default(), attempt, bring)?;
    Ok(SourceResult { source_type: source_type.as_str(), revision, objects })
}

/// The values of a chart as a flat map (EVAL-705, RND-153).
///
/// # Errors
/// `InvalidArgument` for a text that holds no values.
pub fn helm_parameters(values: &str) -> Result<BTreeMap<String, String>, EvalError> {
    let file = File { name: "values.yaml".to_owned(), data: values.to_owned().into() };
    let found = flatten_parameters([&file], HelmVersion::V4).map_err(|error| EvalError {
        code: Code::InvalidArgument,
        reason: "",
        message: error.to_string(),
    })?;
    Ok(found.into_iter().map(|(name, parameter)| (name, parameter.value)).collect())
}

/// Whether a glob of a directory source matches a path (EVAL-706).
///
/// # Errors
/// `InvalidArgument` for a pattern that does not compile.
pub fn glob_match(pattern: &str, path: &str) -> Result<bool, EvalError> {
    match Glob::new(pattern, &[]) {
        Ok(glob) => Ok(glob.is_match(path)),
        Err(error) => Err(EvalError { code: Code::InvalidArgument, reason: "", message: error.to_string() }),
    }
}

/// The tag a version range selects (EVAL-702).
///
/// # Errors
/// `InvalidArgument` when the revision is no constraint, `NotFound` when nothing fits.
pub fn resolve_version(revision: &str, tags: &[String], tag_prefix: &str) -> Result<String, EvalError> {
    use crate::version::VersionError;
    crate::version::resolve_version(revision, tags.iter().map(String::as_str), tag_prefix).map_err(|error| {
        let code = match error {
            VersionError::NotFound { .. } => Code::NotFound,
            VersionError::NotAConstraint { .. } | VersionError::PrefixNeedsConstraint { .. } => {
                Code::InvalidArgument
            }
        };
        EvalError { code, reason: "", message: error.to_string() }
    })
}

pub use crate::environment::{escape_parameter, substitute as env_substitute};
pub use crate::refresh::{files_changed, refresh_paths};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryTree;
    use serde_json::json;

    fn sources(value: Value) -> Vec<ApplicationSource> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn eval_701_the_example() {
        let content = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}";
        let tree = MemoryTree::from_files([("c.yaml", content)]).unwrap();
        let sources = sources(json!([{"repoURL": "https://git.acme.test/ui", "path": "."}]));
        let result = manifests(&sources, &RenderContext::default(), &Budget::default(), |_| {
            Ok((Arc::new(tree.clone()) as Arc<dyn Tree>, "0".repeat(40)))
        })
        .unwrap();
        assert_eq!(result[0].source_type, "Directory");
        assert_eq!(
            result[0].objects,
            [json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})]
        );
    }

    #[test]
    fn rnd_6_the_error_names_the_source() {
        let tree = MemoryTree::from_files([("a/c.yaml", "kind: A")]).unwrap();
        let sources = sources(json!([{"repoURL": "r", "ref": "values"}, {"repoURL": "r", "path": "b"}]));
        let error = manifests(&sources, &RenderContext::default(), &Budget::default(), |_| {
            Ok((Arc::new(tree.clone()) as Arc<dyn Tree>, String::new()))
        })
        .unwrap_err();
        assert_eq!(
            error.message,
            "failed to generate manifest for source 2 of 2: b: app path does not exist"
        );
        assert_eq!(error.reason, "path-not-found");
    }

    #[test]
    fn rnd_15_a_ref_source_renders_nothing() {
        let tree = MemoryTree::from_files([("a/c.yaml", "kind: A")]).unwrap();
        let sources = sources(json!([{"repoURL": "r", "ref": "values"}, {"repoURL": "r", "path": "a"}]));
        let results = manifests(&sources, &RenderContext::default(), &Budget::default(), |_| {
            Ok((Arc::new(tree.clone()) as Arc<dyn Tree>, "r".to_owned()))
        })
        .unwrap();
        let types: Vec<&str> = results.iter().map(|result| result.source_type).collect();
        assert_eq!(types, ["", "Directory"]);
    }

    /// CTL-136: a lone source with only `ref` rendered the root of its repository.
    #[test]
    fn ctl_136_a_lone_ref_source_renders_nothing() {
        let tree = MemoryTree::from_files([("c.yaml", "kind: A"), ("a/c.yaml", "kind: A")]).unwrap();
        let run = |source: Value| {
            let sources = sources(json!([source]));
            let mut results = manifests(&sources, &RenderContext::default(), &Budget::default(), |_| {
                Ok((Arc::new(tree.clone()) as Arc<dyn Tree>, "r".to_owned()))
            })
            .unwrap();
            let only = results.remove(0);
            (only.source_type, only.objects.len(), only.revision)
        };
        let revision = "r".to_owned();
        assert_eq!(run(json!({"repoURL": "r", "ref": "values"})), ("", 0, revision.clone()));
        // With a path it does both.
        for path in [".", "a"] {
            let both = run(json!({"repoURL": "r", "ref": "values", "path": path}));
            assert_eq!(both, ("Directory", 1, revision.clone()), "{path}");
        }
        // A single source without a path is the root (RND-53).
        assert_eq!(run(json!({"repoURL": "r"})), ("Directory", 1, revision));
    }

    #[test]
    fn eval_706_and_702_codes() {
        assert_eq!(glob_match("*.json", "x.json"), Ok(true));
        assert_eq!(glob_match("[", "x").unwrap_err().code, Code::InvalidArgument);
        let tags = ["v3.1.0".to_owned(), "v3.2.0".to_owned(), "v4.0.0".to_owned()];
        assert_eq!(resolve_version("3.*", &tags, "").as_deref(), Ok("v3.2.0"));
        assert_eq!(resolve_version("9.*", &tags, "").unwrap_err().code, Code::NotFound);
        assert_eq!(resolve_version("main", &tags, "").unwrap_err().code, Code::InvalidArgument);
    }
}
