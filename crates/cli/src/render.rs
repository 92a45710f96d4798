//! `render`: renders sources from files alone, without a cluster and without a network (CLI-1030, RND-246).

mod programs;
mod targets;
mod told;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tiphys_api::settings::{Settings, SettingsData};
use tiphys_engine::tracking::{TrackingMethod, TrackingSettings};
use tiphys_object::access;
use tiphys_render::eval::{self, SourceResult};
use tiphys_render::plan::{ClusterFacts, RenderContext};
use tiphys_render::{Budget, Tree};

use crate::app::spec_flags;
use crate::failure::Failure;
use crate::flags::{self, Flag, FlagError, Kind, Parsed, flag};
use crate::output::{Format, machine_format, print, unknown_format};
use crate::terminal::Terminal;
use targets::{Job, Repositories};
use told::Noted;

const FLAGS: &[Flag] = &[
    flag("source", Kind::Text, "", "File with a source, a list of sources, or an Application").or('f'),
    flag("repo", Kind::Texts, "", "URL=DIR: the directory that stands for a repository (repeatable)"),
    flag("repo-root", Kind::Text, "", "DIR: the directory that stands for every other repository"),
    flag("name", Kind::Text, "", "Name of the application"),
    flag("app-name", Kind::Text, "", "The same"),
    flag("namespace", Kind::Text, "", "Namespace of the destination"),
    flag("project", Kind::Text, "", "Name of the project (default \"default\")"),
    flag("kube-version", Kind::Text, "", "Version of Kubernetes"),
    flag("api-versions", Kind::Texts, "", "API version that the cluster serves (repeatable)"),
    flag("api-version", Kind::Texts, "", "The same"),
    flag("set-option", Kind::Texts, "", "KEY=VALUE of argocd-cm (repeatable)"),
    flag("tracking", Kind::Text, "none", "Mark objects: annotation, label, annotation+label or none"),
    flag("split", Kind::Text, "", "DIR: write one file for each object"),
    flag("explain", Kind::Bool, "false", "Say on stderr how manifests come about, and which files were read"),
    flag("check", Kind::Bool, "false", "Print no manifests: the exit code says whether there are any"),
    flag("policy", Kind::Text, "", "PROJECT.yaml: report what the AppProject would forbid"),
    flag("output", Kind::Text, "yaml", "Output format: yaml or json").or('o'),
];

/// Flags of the spec of an Application that say nothing about its sources, beside those of the hydrator.
const NOT_OF_SOURCES: [&str; 18] = [
    "dest-server",
    "dest-name",
    "dest-namespace",
    "revision-history-limit",
    "sync-policy",
    "auto-prune",
    "self-heal",
    "allow-empty",
    "sync-option",
    "sync-retry-limit",
    "sync-retry-backoff-duration",
    "sync-retry-backoff-max-duration",
    "sync-retry-backoff-factor",
    "sync-retry-refresh",
    "env",
    "validate",
    "ref",
    "source-name",
];

const ABOUT: &str = "Render Applications and sources from files, without a cluster";

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
            "{ABOUT}\n\nUsage:\n  {program} render DIR|FILE... [--repo-root DIR] [--repo URL=DIR]... [flags]\n  {program} render --source FILE [--repo URL=DIR]... [flags]\n  {program} render verify DIR... (see {program} render verify --help)\n\nFlags:\n"
        );
        for flag in FLAGS {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "  --{:14} {}", flag.long, flag.help);
        }
        text.push_str("\nThe flags of `app create` that say what a source is (--path, --values, --kustomize-image, …) change it.\n");
        text
    };
    let parsed = match parsed(args) {
        Ok(parsed) => parsed,
        Err(FlagError::Help) => {
            terminal.print(&usage());
            return 0;
        }
        Err(FlagError::Usage(text)) => {
            say(terminal, &format!("Error: {text}"));
            return 2;
        }
    };
    match perform(terminal, &parsed) {
        Ok(is_permitted) => u8::from(!is_permitted),
        Err(failure) => {
            say(terminal, &failure.message);
            1
        }
    }
}

/// Writes a line to standard error: standard output is for manifests (RND-246).
fn say(terminal: &Terminal, text: &str) {
    terminal.warn(&format!("{text}\n"));
}

fn parsed(args: &[String]) -> Result<Parsed, FlagError> {
    let parsed = flags::parse(args, &[FLAGS, spec_flags::FLAGS])?;
    match spec_flags::HYDRATOR.into_iter().chain(NOT_OF_SOURCES).find(|name| parsed.is_set(name)) {
        Some(name) => Err(FlagError::Usage(format!("unknown flag: --{name}"))),
        None => Ok(parsed),
    }
}

/// Renders and prints. Says whether the project of `--policy` permits all of it.
fn perform(terminal: &Terminal, parsed: &Parsed) -> Result<bool, Failure> {
    let mut repositories = Repositories::read(parsed)?;
    let jobs = targets::read(parsed, &mut repositories)?;
    let mut cm = BTreeMap::new();
    for option in parsed.texts("set-option") {
        let (key, value) = option
            .split_once('=')
            .ok_or_else(|| Failure::fatal(format!("--set-option {option:?} is not KEY=VALUE")))?;
        cm.insert(key.to_owned(), value.to_owned());
    }
    let stamp = tracking(parsed, &cm)?;
    let settings = Settings::new(SettingsData { cm, ..SettingsData::default() });
    let policy = match parsed.text("policy") {
        "" => None,
        path => Some(told::read_project(path)?),
    };
    let several = jobs.len() > 1;
    let (mut objects, mut forbidden) = (Vec::new(), Vec::new());
    for job in &jobs {
        let mut made = render_one(terminal, parsed, (&settings, &repositories), job).map_err(|failure| {
            let shown = if several { format!("{}: {}", job.shown, failure.message) } else { failure.message };
            Failure::fatal(shown)
        })?;
        if let Some(project) = &policy {
            forbidden.extend(told::forbidden(project, job, &made, &settings));
        }
        if let Some(stamp) = &stamp {
            let name = if parsed.is_set("name") || parsed.is_set("app-name") {
                given_name(parsed).to_owned()
            } else {
                job.name.clone()
            };
            let instance = stamp.instance_name(&job.app_namespace, &name);
            for object in &mut made {
                stamp
                    .stamp(object, &instance, destination(parsed, job))
                    .map_err(|error| Failure::fatal(error.to_string()))?;
            }
        }
        objects.append(&mut made);
    }
    show(terminal, parsed, &objects)?;
    for text in &forbidden {
        say(terminal, text);
    }
    Ok(forbidden.is_empty())
}

/// What objects are marked with, if they are.
fn tracking(parsed: &Parsed, cm: &BTreeMap<String, String>) -> Result<Option<TrackingSettings>, Failure> {
    let text = parsed.text("tracking");
    if text == "none" {
        return Ok(None);
    }
    let method = TrackingMethod::parse(text).ok_or_else(|| {
        Failure::fatal(format!(
            "--tracking is {text:?}; it can be annotation, label, annotation+label or none"
        ))
    })?;
    Ok(Some(TrackingSettings::from_settings(cm, "argocd").with_method(method)))
}

fn given_name(parsed: &Parsed) -> &str {
    if parsed.is_set("name") { parsed.text("name") } else { parsed.text("app-name") }
}

fn destination<'a>(parsed: &'a Parsed, job: &'a Job) -> &'a str {
    if parsed.is_set("namespace") { parsed.text("namespace") } else { &job.spec.destination.namespace }
}

/// The objects of one application.
fn render_one(
    terminal: &Terminal,
    parsed: &Parsed,
    (settings, repositories): (&Settings, &Repositories),
    job: &Job,
) -> Result<Vec<Value>, Failure> {
    let mut versions: Vec<String> =
        parsed.texts("api-version").iter().chain(parsed.texts("api-versions")).cloned().collect();
    versions.sort();
    let is_named = parsed.is_set("name") || parsed.is_set("app-name");
    let own = || tiphys_engine::tracking::instance_name(&job.app_namespace, &job.name, "argocd").to_string();
    let context = RenderContext {
        instance_name: if is_named { given_name(parsed).to_owned() } else { own() },
        destination_namespace: destination(parsed, job).to_owned(),
        project: job.project().to_owned(),
        cluster: ClusterFacts::new(parsed.text("kube-version"), versions),
        ..RenderContext::default()
    };
    let context = context.with_settings(settings);
    let read = Arc::new(Mutex::new(BTreeSet::new()));
    let tree = |url: &str| {
        let tree = repositories.tree(url)?;
        let id =
            if parsed.is_set("revision") { parsed.text("revision").to_owned() } else { tree.id().to_owned() };
        let noted: Arc<dyn Tree> = Arc::new(Noted::new(tree, Arc::clone(&read)));
        Ok((noted, id))
    };
    let results = eval::manifests(job.sources(), &context, &Budget::default(), tree)
        .map_err(|error| Failure::fatal(error.message))?;
    if parsed.is_on("explain") {
        for (source, result) in job.sources().iter().zip(&results) {
            let SourceResult { source_type, objects, .. } = result;
            let text = told::explanation(job, source, (source_type, objects.len()), &read.lock());
            for line in text.lines() {
                say(terminal, line);
            }
        }
    }
    Ok(results.into_iter().flat_map(|result| result.objects).collect())
}

/// Prints or writes manifests.
fn show(terminal: &Terminal, parsed: &Parsed, objects: &[Value]) -> Result<(), Failure> {
    let output = parsed.text("output");
    let format = machine_format(output).ok_or_else(|| unknown_format(output))?;
    if parsed.is_on("check") {
        return Ok(());
    }
    let directory = parsed.text("split");
    if !directory.is_empty() {
        return split(Path::new(directory), objects, format);
    }
    match format {
        Format::Json => terminal.data(&print(&objects.to_vec().into(), format)?),
        Format::Yaml => {
            let mut text = String::new();
            for object in objects {
                text.push_str("---\n");
                text.push_str(&print(object, format)?);
            }
            terminal.data(&text);
        }
    }
    Ok(())
}

/// One file for each object, in their order.
fn split(directory: &Path, objects: &[Value], format: Format) -> Result<(), Failure> {
    let failed = |path: &Path, error: std::io::Error| Failure::fatal(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    let end = match format {
        Format::Json => "json",
        Format::Yaml => "yaml",
    };
    let digits = objects.len().to_string().len();
    for (number, object) in objects.iter().enumerate() {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_lowercase();
        let parts = [kind.as_str(), access::namespace(object), access::name(object)];
        let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
        // Names of objects are no paths.
        let name: String =
            name.chars().map(|c| if c.is_alphanumeric() || "-._".contains(c) { c } else { '-' }).collect();
        let name: String = name.chars().take(150).collect();
        let path = directory.join(format!("{:0digits$}-{name}.{end}", number + 1));
        std::fs::write(&path, print(object, format)?).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
