//! `render`: renders sources from files alone, without a cluster and without a network (CLI-1030, RND-246); only
//! `app/NAME` asks an installation.

mod checkout;
mod live;
mod print;
mod programs;
mod schemas;
mod sets;
mod targets;
mod told;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tiphys_api::settings::{Settings, SettingsData};
use tiphys_api::{AppProject, Application};
use tiphys_engine::tracking::{TrackingMethod, TrackingSettings};
use tiphys_render::eval::{self, SourceResult};
use tiphys_render::plan::{ClusterFacts, RenderContext};
use tiphys_render::{Budget, Tree};

use crate::app::spec_flags;
use crate::command::Command;
use crate::completion::Listing;
use crate::core::Marks;
use crate::failure::Failure;
use crate::flags::{self, Flag, FlagError, Kind, Parsed, flag};
use crate::global;
use crate::session;
use crate::terminal::Terminal;
use sets::{Described, Problem};
use targets::{Job, Repositories, Targets, Wanted};
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
    flag("revision", Kind::Text, "", "Commit, branch or tag of checkouts; else files as they lie there"),
    flag(
        "tracking",
        Kind::Text,
        "none",
        "Mark objects: annotation, label, annotation+label, hash, annotation+hash or none",
    ),
    flag("split", Kind::Text, "", "DIR: write one file for each object"),
    flag("explain", Kind::Bool, "false", "Say on stderr how manifests come about, and which files were read"),
    flag("check", Kind::Bool, "false", "Print no manifests: only the exit code says how it went"),
    flag(
        "schemas",
        Kind::Bool,
        "false",
        "Report what an API server would refuse: wrong types, unknown fields",
    ),
    flag("policy", Kind::Text, "", "PROJECT.yaml: report what the AppProject would forbid"),
    flag("inputs", Kind::Text, "", "File that describes the installation for ApplicationSets"),
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

const TABLES: [&[Flag]; 4] = [FLAGS, spec_flags::FLAGS, global::KUBERNETES_FLAGS, global::FLAGS];

/// Runs `render …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, args: &[String]) -> u8 {
    let listing = || {
        let command = Command::new((), ("render", "[DIR or FILE]..."), ABOUT, &[FLAGS], (0, usize::MAX));
        Listing::of_command("", &command, &TABLES)
    };
    if terminal.lists(listing) {
        return 0;
    }
    if let Some((first, rest)) = args.split_first()
        && first == "verify"
    {
        return verify::run(terminal, rest);
    }
    let usage = || {
        let program = &terminal.program;
        let mut text = format!(
            "{ABOUT}\n\nUsage:\n  {program} render DIR|FILE... [--repo-root DIR] [--repo URL=DIR]... [flags]\n  {program} render app/NAME [--revision R]\n  {program} render app/NAME --core [--repo-root DIR] [--repo URL=DIR]... [flags]\n  {program} render --source FILE [--repo URL=DIR]... [flags]\n  {program} render verify DIR... (see {program} render verify --help)\n\nFlags:\n"
        );
        for flag in FLAGS {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "  --{:14} {}", flag.long, flag.help);
        }
        text.push_str("\nThe flags of `app create` that say what a source is (--path, --values, --kustomize-image, …) change it.\n");
        text.push_str("app/NAME is read with the flags of every command that choose an installation (--core, --kube-context, …).\n");
        text.push_str("\nExit codes: 0 rendered, 1 --policy, a project or --schemas finds something, 2 wrong usage,\n20 something cannot be rendered or evaluated. With --source: 1 for every error.\n");
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
    let is_source = parsed.is_set("source");
    match perform(terminal, parsed) {
        Ok(ended) => ended.code(),
        Err(failure) => {
            tell(terminal, &failure);
            // RND-246 knows one code for errors.
            if is_source { 1 } else { 20 }
        }
    }
}

/// How it went, when it went at all.
#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    /// Whether something could not be rendered, or not be evaluated.
    has_failed: bool,
    /// Whether a project forbids something, or a schema does.
    has_findings: bool,
}

impl Ended {
    /// CLI-1100.
    fn code(self) -> u8 {
        match self {
            Self { has_failed: true, .. } => 20,
            Self { has_findings: true, .. } => 1,
            _ => 0,
        }
    }
}

/// Writes a line to standard error: standard output is for manifests (RND-246).
fn say(terminal: &Terminal, text: &str) {
    terminal.warn(&format!("{text}\n"));
}

fn tell(terminal: &Terminal, failure: &Failure) {
    say(terminal, &failure.message);
    if let Some(hint) = &failure.hint {
        say(terminal, &format!("  try: {hint}"));
    }
}

fn parsed(args: &[String]) -> Result<Parsed, FlagError> {
    let parsed = flags::parse(args, &TABLES)?;
    match spec_flags::HYDRATOR.into_iter().chain(NOT_OF_SOURCES).find(|name| parsed.is_set(name)) {
        Some(name) => Err(FlagError::Usage(format!("unknown flag: --{name}"))),
        None => Ok(parsed),
    }
}

/// What was made of one application.
struct Made {
    job: Job,
    objects: Vec<Value>,
}

/// Renders and prints. What fails is told, and everything else is printed; a single thing that fails is an error.
fn perform(terminal: &Terminal, mut parsed: Parsed) -> Result<Ended, Failure> {
    let mut repositories = Repositories::read(&parsed, terminal)?;
    let described = Described::read(parsed.text("inputs"), &mut repositories)?;
    let Targets { wanted, projects } = targets::read(&parsed, &mut repositories)?;
    let mut cm = BTreeMap::new();
    for option in parsed.texts("set-option") {
        let (key, value) = option
            .split_once('=')
            .ok_or_else(|| Failure::generic(format!("--set-option {option:?} is not KEY=VALUE")))?;
        cm.insert(key.to_owned(), value.to_owned());
    }
    let stamp = tracking(&parsed, &cm)?;
    let settings = Settings::new(SettingsData { cm, ..SettingsData::default() });
    let policy = match parsed.text("policy") {
        "" => None,
        path => Some(told::read_project(path)?),
    };
    let mut troubles = Vec::new();
    let mut made = Vec::new();
    let jobs = applications(terminal, &parsed, wanted, &mut troubles, &|document| {
        described.generate(terminal, document, &repositories, &projects)
    })?;
    let several = jobs.len() > 1;
    for job in jobs {
        let (shown, result) = match job {
            Wanted::Live(name) => {
                let marks = parsed
                    .is_set("tracking")
                    .then(|| stamp.as_ref().map_or(Marks::Nothing, |stamp| Marks::Method(stamp.method)));
                let found = session::within(terminal, &mut parsed, async |session| {
                    Box::pin(live::render(session, &name, marks, &repositories)).await
                });
                (format!("app/{name}"), found.map(|(job, objects)| Made { job, objects }))
            }
            Wanted::Application(job) => (job.shown.clone(), {
                let objects = render_one(terminal, &parsed, (&settings, &repositories), &job);
                objects.and_then(|objects| stamped(&parsed, stamp.as_ref(), *job, objects))
            }),
            Wanted::Set { .. } => continue,
        };
        match result {
            Ok(one) => made.push(one),
            Err(failure) if several => troubles.push(of(&shown, failure)),
            Err(failure) => troubles.push(failure),
        }
    }
    if made.is_empty() && troubles.len() == 1 {
        return Err(troubles.remove(0));
    }
    let objects: Vec<&Value> = made.iter().flat_map(|one| &one.objects).collect();
    print::show(terminal, &parsed, &objects)?;
    let findings = findings(
        terminal,
        &parsed,
        &made,
        &|job| {
            let own = || projects.iter().find(|project| project.name() == job.project());
            policy.as_ref().or_else(own)
        },
        &settings,
    )?;
    for text in &findings {
        say(terminal, text);
    }
    for failure in &troubles {
        tell(terminal, failure);
    }
    Ok(Ended { has_failed: !troubles.is_empty(), has_findings: !findings.is_empty() })
}

/// A failure with whose it is.
fn of(shown: &str, failure: Failure) -> Failure {
    Failure { message: format!("{shown}: {}", failure.message), ..failure }
}

/// What is wanted, with the Applications of sets in their places.
fn applications(
    terminal: &Terminal,
    parsed: &Parsed,
    wanted: Vec<Wanted>,
    troubles: &mut Vec<Failure>,
    generate: &dyn Fn(&Value) -> Result<Vec<Application>, Problem>,
) -> Result<Vec<Wanted>, Failure> {
    let mut found = Vec::new();
    for one in wanted {
        let Wanted::Set { shown, document } = one else {
            found.push(one);
            continue;
        };
        match generate(&document) {
            Ok(applications) if applications.is_empty() => {
                say(terminal, &format!("Warning: {shown}: generates no Application"));
            }
            Ok(applications) => {
                for app in applications {
                    let mut job = Job::of(format!("{shown}: {}", app.metadata.name), app);
                    targets::edit(&mut job, parsed)?;
                    found.push(Wanted::Application(Box::new(job)));
                }
            }
            Err(Problem::NotEvaluated(why)) => {
                troubles.push(Failure::generic(format!("{shown}: not evaluated: {why}")));
            }
            Err(Problem::Failed(failure)) => troubles.push(of(&shown, failure)),
        }
    }
    Ok(found)
}

/// What projects and schemas have to say.
fn findings<'a>(
    terminal: &Terminal,
    parsed: &Parsed,
    made: &[Made],
    project_of: &dyn Fn(&Job) -> Option<&'a AppProject>,
    settings: &Settings,
) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    for Made { job, objects } in made {
        if let Some(project) = project_of(job) {
            let forbidden = told::forbidden(project, job, objects, settings);
            found.extend(forbidden.into_iter().map(|text| format!("{}: {text}", job.shown)));
        }
    }
    if parsed.is_on("schemas") {
        let all = made
            .iter()
            .flat_map(|one| one.objects.iter().map(|object| (object, destination(parsed, &one.job))));
        let report = schemas::check(all)?;
        found.extend(report.problems);
        for kind in report.unknown {
            say(terminal, &format!("Warning: {kind} was not checked: there is no schema of it here"));
        }
    }
    Ok(found)
}

/// Marks the objects of an application, where they are to be marked.
fn stamped(
    parsed: &Parsed,
    stamp: Option<&TrackingSettings>,
    job: Job,
    mut objects: Vec<Value>,
) -> Result<Made, Failure> {
    if let Some(stamp) = stamp {
        let named = parsed.is_set("name") || parsed.is_set("app-name");
        let name = if named { given_name(parsed) } else { &job.name };
        let instance = stamp.instance_name(&job.app_namespace, name);
        for object in &mut objects {
            stamp
                .stamp(object, &instance, destination(parsed, &job))
                .map_err(|error| Failure::generic(error.to_string()))?;
        }
    }
    Ok(Made { job, objects })
}

/// What objects are marked with, if they are.
fn tracking(parsed: &Parsed, cm: &BTreeMap<String, String>) -> Result<Option<TrackingSettings>, Failure> {
    let text = parsed.text("tracking");
    if text == "none" {
        return Ok(None);
    }
    let method = TrackingMethod::parse(text).ok_or_else(|| {
        Failure::generic(format!(
            "--tracking is {text:?}; it can be annotation, label, annotation+label, hash, annotation+hash or none"
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
        let (tree, id) = repositories.tree(url)?;
        let noted: Arc<dyn Tree> = Arc::new(Noted::new(tree, Arc::clone(&read)));
        Ok((noted, id))
    };
    let results = eval::manifests(job.sources(), &context, &Budget::of(settings.renderers()), tree)
        .map_err(|error| Failure::generic(error.message))?;
    if parsed.is_on("explain") {
        let mut text = String::new();
        for (source, result) in job.sources().iter().zip(&results) {
            let SourceResult { source_type, objects, .. } = result;
            text.push_str(&told::explanation(job, source, (source_type, objects.len())));
        }
        text.push_str(&told::files(&read.lock()));
        for line in text.lines() {
            say(terminal, line);
        }
    }
    Ok(results.into_iter().flat_map(|result| result.objects).collect())
}

#[cfg(test)]
mod tests;
