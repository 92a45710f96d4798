//! `render.*`: what a source renders to (RND).

pub(super) mod repository;

use super::world::{self, APP, CONTROL_PLANE, DESTINATION_NAMESPACE, PARAMS, SETTINGS};
use crate::eval::fault::{Code, Fault};
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Member, Shape, default, optional, required};
use repository::Repositories;
use serde_json::{Value, json};
use tiphys_api::application::ApplicationSource;
use tiphys_render::Budget;
use tiphys_render::eval::{self as render, EvalError};
use tiphys_render::plan::{ClusterFacts, RenderContext};

const REPOS: Member = required("repos", Shape::List(&Shape::Members(REPO_MEMBERS)));
/// Members of a source tree (EVAL-60).
pub(super) const REPO_MEMBERS: &[Member] = &[
    required("url", Shape::Text),
    optional("path", Shape::Text),
    optional("files", Shape::MapOf(&Shape::Text)),
    default("revision", Shape::Text, "\"0000000000000000000000000000000000000000\""),
    optional("project", Shape::Text),
];
const MATCHES: &[Member] = &[required("matches", Shape::Bool)];

/// The rows of this area.
pub(super) const ROWS: &[Operation] = &[
    Operation {
        name: "render.env_substitute",
        summary: "A text with variables of the build environment filled in.",
        stability: Stability::Stable,
        spec: &["EVAL-703", "RND-67"],
        input: &[required("text", Shape::Text), required("env", Shape::TextMap)],
        result: &[required("text", Shape::Text)],
        example: (r#"{"text":"eu-$ZONE","env":{"ZONE":"b"}}"#, r#"{"text":"eu-b"}"#),
        run: |input| {
            Ok(json!({"text": render::env_substitute(input.text("text"), &world::texts(input, "env"))}))
        },
    },
    Operation {
        name: "render.escape_parameter",
        summary: "A parameter value as it is handed to Helm's parser.",
        stability: Stability::Stable,
        spec: &["EVAL-704", "RND-96"],
        input: &[required("value", Shape::Text)],
        result: &[required("value", Shape::Text)],
        example: (r#"{"value":"x, y"}"#, r#"{"value":"x\\, y"}"#),
        run: |input| Ok(json!({"value": render::escape_parameter(input.text("value"))})),
    },
    Operation {
        name: "render.files_changed",
        summary: "Whether a change touches one of the refresh paths.",
        stability: Stability::Stable,
        spec: &["EVAL-708", "RND-148", "API-207"],
        input: &[
            required("refreshPaths", Shape::List(&Shape::Text)),
            required("changedFiles", Shape::List(&Shape::Text)),
        ],
        result: &[required("changed", Shape::Bool)],
        example: (r#"{"refreshPaths":["shop"],"changedFiles":["shop/ui/x.yaml"]}"#, r#"{"changed":true}"#),
        run: |input| {
            let owned = |member: &str| -> Vec<String> {
                input.texts(member).into_iter().map(str::to_owned).collect()
            };
            Ok(json!({"changed": render::files_changed(&owned("refreshPaths"), &owned("changedFiles"))}))
        },
    },
    Operation {
        name: "render.glob_match",
        summary: "Whether a glob of a directory source matches a path.",
        stability: Stability::Stable,
        spec: &["EVAL-706", "RND-71"],
        input: &[required("pattern", Shape::Text), required("path", Shape::Text)],
        result: MATCHES,
        example: (r#"{"pattern":"*.json","path":"x.json"}"#, r#"{"matches":true}"#),
        run: |input| {
            let matches = render::glob_match(input.text("pattern"), input.text("path"));
            Ok(json!({"matches": matches.map_err(fault)?}))
        },
    },
    Operation {
        name: "render.helm_parameters",
        summary: "The values of a chart as a flat list of parameters.",
        stability: Stability::Stable,
        spec: &["EVAL-705", "RND-153"],
        input: &[required("values", Shape::Text)],
        result: &[required("parameters", Shape::TextMap)],
        example: (r#"{"values":"ui: {port: 80}"}"#, r#"{"parameters":{"ui.port":"80"}}"#),
        run: |input| Ok(json!({"parameters": render::helm_parameters(input.text("values")).map_err(fault)?})),
    },
    Operation {
        name: "render.manifests",
        summary: "The objects that the sources of an application render to.",
        stability: Stability::Stable,
        spec: &["EVAL-701", "RND-1", "RND-5", "RND-20"],
        input: &[
            optional("source", Shape::Map),
            optional("sources", Shape::List(&Shape::Map)),
            REPOS,
            APP,
            default("projectName", Shape::Text, "\"default\""),
            DESTINATION_NAMESPACE,
            default("kubeVersion", Shape::Text, "\"\""),
            default("apiVersions", Shape::List(&Shape::Text), "[]"),
            SETTINGS,
            PARAMS,
            CONTROL_PLANE,
            default("stamp", Shape::Bool, "false"),
        ],
        result: &[
            required("objects", Shape::List(&Shape::Map)),
            required("sourceTypes", Shape::List(&Shape::Text)),
            required(
                "sources",
                Shape::List(&Shape::Members(&[
                    required("type", Shape::Text),
                    required("revision", Shape::Text),
                    required("objectCount", Shape::Integer),
                ])),
            ),
        ],
        example: (
            r#"{"app":"ui","source":{"repoURL":"https://git.acme.test/ui","path":"."},"repos":[{"url":"https://git.acme.test/ui","files":{"c.yaml":"{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"}}]}"#,
            r#"{"objects":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}],"sourceTypes":["Directory"],"sources":[{"type":"Directory","revision":"0000000000000000000000000000000000000000","objectCount":1}]}"#,
        ),
        run: manifests,
    },
    Operation {
        name: "render.refresh_paths",
        summary: "The paths whose changes concern an application.",
        stability: Stability::Stable,
        spec: &["EVAL-707", "RND-147", "API-207"],
        input: &[required("annotation", Shape::Text), required("path", Shape::Text)],
        result: &[required("refreshPaths", Shape::List(&Shape::Text))],
        example: (r#"{"annotation":"/base","path":"shop"}"#, r#"{"refreshPaths":["base"]}"#),
        run: |input| {
            Ok(json!({"refreshPaths": render::refresh_paths(input.text("annotation"), input.text("path"))}))
        },
    },
    Operation {
        name: "render.resolve_version",
        summary: "The tag that a version range selects.",
        stability: Stability::Stable,
        spec: &["EVAL-702", "RND-37", "RND-41"],
        input: &[
            required("revision", Shape::Text),
            required("tags", Shape::List(&Shape::Text)),
            default("tagPrefix", Shape::Text, "\"\""),
        ],
        result: &[required("version", Shape::Text)],
        example: (r#"{"revision":"3.*","tags":["v3.1.0","v3.2.0","v4.0.0"]}"#, r#"{"version":"v3.2.0"}"#),
        run: |input| {
            let tags: Vec<String> = input.texts("tags").into_iter().map(str::to_owned).collect();
            let version = render::resolve_version(input.text("revision"), &tags, input.text("tagPrefix"));
            Ok(json!({"version": version.map_err(fault)?}))
        },
    },
];

fn fault(problem: EvalError) -> Fault {
    let code = match problem.code {
        tiphys_render::Code::Unknown => Code::Unknown,
        tiphys_render::Code::InvalidArgument => Code::InvalidArgument,
        tiphys_render::Code::NotFound => Code::NotFound,
        tiphys_render::Code::PermissionDenied => Code::PermissionDenied,
        tiphys_render::Code::ResourceExhausted => Code::ResourceExhausted,
        tiphys_render::Code::FailedPrecondition => Code::FailedPrecondition,
        tiphys_render::Code::Unavailable => Code::Unavailable,
    };
    let fault = Fault::new(code, problem.message);
    if problem.reason.is_empty() { fault } else { fault.with_reason(problem.reason) }
}

fn manifests(input: &mut Input) -> Result<Value, Fault> {
    let sources: Vec<ApplicationSource> = match input.get("sources") {
        Value::Null => vec![world::typed("source", input.need("source")?)?],
        _ => world::typed_list(input, "sources")?,
    };
    let repositories = Repositories::read(input)?;
    let versions = input.texts("apiVersions").into_iter().map(str::to_owned).collect();
    let context = RenderContext {
        instance_name: world::instance_of(input),
        destination_namespace: input.text("destinationNamespace").to_owned(),
        project: input.text("projectName").to_owned(),
        cluster: ClusterFacts::new(input.text("kubeVersion"), versions),
        ..RenderContext::default()
    };
    let settings = world::settings(input);
    let context = context.with_settings(&settings);
    let budget = Budget::of(settings.renderers());
    let results =
        render::manifests(&sources, &context, &budget, |url| repositories.tree_of(url)).map_err(fault)?;
    let tracking = world::tracking(input);
    let (mut objects, mut types, mut summaries) = (Vec::new(), Vec::new(), Vec::new());
    for result in results {
        types.push(result.source_type);
        summaries.push(json!({
            "type": result.source_type,
            "revision": result.revision,
            "objectCount": result.objects.len(),
        }));
        objects.extend(result.objects);
    }
    if input.flag("stamp") {
        for object in &mut objects {
            tracking
                .stamp(object, &context.instance_name, &context.destination_namespace)
                .map_err(Fault::invalid)?;
        }
    }
    Ok(json!({"objects": objects, "sourceTypes": types, "sources": summaries}))
}
