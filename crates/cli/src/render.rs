//! `render`: renders sources from files alone, without a cluster and without a network (RND-246).

mod programs;
mod verify;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tiphys_api::application::ApplicationSource;
use tiphys_api::repo_url;
use tiphys_api::settings::{Settings, SettingsData};
use tiphys_render::eval::{self, EvalError};
use tiphys_render::plan::{ClusterFacts, RenderContext};
use tiphys_render::{Budget, Code, Tree};
use tiphys_source::read_directory;

use crate::failure::Failure;
use crate::flags::{self, Flag, FlagError, Kind, Parsed, flag};
use crate::output::{machine_format, print, unknown_format};
use crate::terminal::{Terminal, read_file};

const FLAGS: &[Flag] = &[
    flag("source", Kind::Text, "", "File with a source, a list of sources, or an Application").or('f'),
    flag("repo", Kind::Texts, "", "URL=DIR: the directory that stands for a repository (repeatable)"),
    flag("app-name", Kind::Text, "", "Name of the application"),
    flag("namespace", Kind::Text, "", "Namespace of the destination"),
    flag("project", Kind::Text, "default", "Name of the project"),
    flag("kube-version", Kind::Text, "", "Version of Kubernetes"),
    flag("api-version", Kind::Texts, "", "API version that the cluster serves (repeatable)"),
    flag("set-option", Kind::Texts, "", "KEY=VALUE of argocd-cm (repeatable)"),
    flag("output", Kind::Text, "yaml", "Output format: yaml or json").or('o'),
];

const ABOUT: &str = "Render sources from files, without a cluster";

/// Runs `render …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, args: &[String]) -> u8 {
    if let Some((first, rest)) = args.split_first()
        && first == "verify"
    {
        return verify::run(terminal, rest);
    }
    let usage = || {
        let program = &terminal.program;
        let mut text = format!(
            "{ABOUT}\n\nUsage:\n  {program} render --source FILE [--repo URL=DIR]... [flags]\n  {program} render verify DIR... (see {program} render verify --help)\n\nFlags:\n"
        );
        for flag in FLAGS {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "  --{:14} {}", flag.long, flag.help);
        }
        text
    };
    let parsed = match flags::parse(args, &[FLAGS]) {
        Ok(parsed) => parsed,
        Err(FlagError::Help) => {
            terminal.print(&usage());
            return 0;
        }
        Err(FlagError::Usage(text)) => {
            terminal.line(&format!("Error: {text}"));
            return 2;
        }
    };
    match perform(&parsed) {
        Ok(text) => {
            terminal.data(&text);
            0
        }
        Err(failure) => {
            terminal.line(&failure.message);
            1
        }
    }
}

fn perform(parsed: &Parsed) -> Result<String, Failure> {
    let (sources, from_app) = read_sources(parsed.text("source"))?;
    let mut repositories: Vec<(String, Arc<dyn Tree>)> = Vec::new();
    for given in parsed.texts("repo") {
        let (url, directory) = given
            .rsplit_once('=')
            .ok_or_else(|| Failure::fatal(format!("--repo {given:?} is not URL=DIR")))?;
        let tree = read_directory(Path::new(directory)).map_err(|error| Failure::fatal(error.to_string()))?;
        repositories.push((url.to_owned(), Arc::new(tree)));
    }
    let mut cm = BTreeMap::new();
    for option in parsed.texts("set-option") {
        let (key, value) = option
            .split_once('=')
            .ok_or_else(|| Failure::fatal(format!("--set-option {option:?} is not KEY=VALUE")))?;
        cm.insert(key.to_owned(), value.to_owned());
    }
    let settings = Settings::new(SettingsData { cm, ..SettingsData::default() });
    let given = |name: &str, other: &str| {
        if parsed.is_set(name) { parsed.text(name).to_owned() } else { other.to_owned() }
    };
    let mut versions: Vec<String> = parsed.texts("api-version").to_vec();
    versions.sort();
    let context = RenderContext {
        instance_name: given("app-name", &from_app.name),
        destination_namespace: given("namespace", &from_app.namespace),
        project: given("project", &from_app.project),
        cluster: ClusterFacts::new(parsed.text("kube-version"), versions),
        ..RenderContext::default()
    };
    let context = context.with_settings(&settings);
    let tree = |url: &str| {
        let found = repositories.iter().find(|(known, _)| repo_url::same(known, url));
        found.map(|(_, tree)| (Arc::clone(tree), tree.id().to_owned())).ok_or_else(|| EvalError {
            code: Code::FailedPrecondition,
            reason: "network-required",
            message: format!("no directory stands for {:?}; give one with --repo", repo_url::redact(url)),
        })
    };
    let results = eval::manifests(&sources, &context, &Budget::default(), tree)
        .map_err(|error| Failure::fatal(error.message))?;
    let objects: Vec<Value> = results.into_iter().flat_map(|result| result.objects).collect();
    let output = parsed.text("output");
    match machine_format(output) {
        Some(crate::output::Format::Json) => print(&objects.into(), crate::output::Format::Json),
        Some(format) => {
            let mut text = String::new();
            for object in &objects {
                text.push_str("---\n");
                text.push_str(&print(object, format)?);
            }
            Ok(text)
        }
        None => Err(unknown_format(output)),
    }
}

/// For whom an Application is rendered.
#[derive(Default)]
struct FromApp {
    name: String,
    namespace: String,
    project: String,
}

fn read_sources(path: &str) -> Result<(Vec<ApplicationSource>, FromApp), Failure> {
    if path.is_empty() {
        return Err(Failure::fatal("required flag(s) \"source\" not set"));
    }
    let failed = |error: &dyn std::fmt::Display| Failure::fatal(format!("{path}: {error}"));
    let text = read_file(path)?;
    let limits = tiphys_go::yaml::Limits { bytes_max: 64 << 20, depth_max: tiphys_go::nesting::DEPTH_MAX };
    let value = tiphys_go::yaml::parse(&text, tiphys_go::yaml::Dialect::Sigs, &limits)
        .map_err(|error| failed(&error))?
        .unwrap_or_default();
    let default = FromApp { project: "default".to_owned(), ..FromApp::default() };
    match value {
        Value::Array(_) => Ok((serde_json::from_value(value).map_err(|error| failed(&error))?, default)),
        Value::Object(ref members) if members.contains_key("spec") => {
            let app: tiphys_api::Application =
                serde_json::from_value(value).map_err(|error| failed(&error))?;
            let from_app = FromApp {
                name: app.metadata.name.clone(),
                namespace: app.spec.destination.namespace.clone(),
                project: app.project().to_owned(),
            };
            Ok((app.sources().to_vec(), from_app))
        }
        other => Ok((vec![serde_json::from_value(other).map_err(|error| failed(&error))?], default)),
    }
}
