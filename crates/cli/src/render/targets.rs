//! What is rendered: a directory, what a file holds, a live Application, or a source of a file (CLI-1030, RND-246).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tiphys_api::application::{ApplicationSource, ApplicationSpec};
use tiphys_api::names::GROUP;
use tiphys_api::{AppProject, Application, repo_url};
use tiphys_render::eval::EvalError;
use tiphys_render::{Code, Tree};

use super::checkout::{self, Checkout};
use crate::app::{spec_edit, spec_flags};
use crate::failure::Failure;
use crate::flags::Parsed;
use crate::terminal::{Terminal, read_file};

/// What stands for the address of a directory that is rendered by its path.
const DIRECTORY_URL: &str = "https://directory.invalid/files.git";

/// What the command line names.
#[derive(Default)]
pub(super) struct Targets {
    /// What is rendered, in order.
    pub(super) wanted: Vec<Wanted>,
    /// Projects that files hold.
    pub(super) projects: Vec<AppProject>,
}

/// One thing to render.
pub(super) enum Wanted {
    /// An application whose spec is at hand.
    Application(Box<Job>),
    /// A set, whose Applications are generated first.
    Set {
        /// What it is called in messages.
        shown: String,
        /// The set, as it is written.
        document: Value,
    },
    /// An Application of the installation, as a name.
    Live(String),
}

/// One application to render.
pub(super) struct Job {
    /// What it is called in messages.
    pub(super) shown: String,
    /// Name of the application.
    pub(super) name: String,
    /// Its own namespace.
    pub(super) app_namespace: String,
    /// What it wants.
    pub(super) spec: ApplicationSpec,
}

impl Job {
    /// An Application as it is written.
    pub(super) fn of(shown: String, app: Application) -> Self {
        Self { shown, name: app.metadata.name, app_namespace: app.metadata.namespace, spec: app.spec }
    }

    /// Whether it is a directory that was named by its path, which no repository has.
    pub(super) fn is_directory(&self) -> bool {
        self.spec.source.as_ref().is_some_and(|source| source.repo_url.starts_with(DIRECTORY_URL))
    }

    /// Its sources, in order.
    pub(super) fn sources(&self) -> &[ApplicationSource] {
        if let Some(hydrator) = &self.spec.source_hydrator {
            // What is rendered is what will be committed.
            return std::slice::from_ref(hydrator.dry_source());
        }
        match &self.spec.source {
            _ if !self.spec.sources.is_empty() => &self.spec.sources,
            Some(source) => std::slice::from_ref(source),
            None => &[],
        }
    }

    /// Name of the project.
    pub(super) fn project(&self) -> &str {
        if self.spec.project.is_empty() { "default" } else { &self.spec.project }
    }
}

/// Directories that stand for repositories.
#[derive(Default)]
pub(super) struct Repositories {
    known: Vec<(String, Checkout)>,
    /// Of everything that is not named.
    other: Option<Checkout>,
    /// The revision of checkouts; their files as they lie there when empty.
    revision: String,
    /// Where git is.
    path: String,
}

impl Repositories {
    /// Those of `--repo URL=DIR` and `--repo-root DIR`.
    pub(super) fn read(parsed: &Parsed, terminal: &Terminal) -> Result<Self, Failure> {
        let mut found = Self {
            revision: parsed.text("revision").to_owned(),
            path: terminal.variable("PATH").to_owned(),
            ..Self::default()
        };
        for given in parsed.texts("repo") {
            let (url, directory) = given
                .rsplit_once('=')
                .filter(|(url, directory)| !url.is_empty() && !directory.is_empty())
                .ok_or_else(|| Failure::generic(format!("--repo {given:?} is not URL=DIR")))?;
            found.add(url, Path::new(directory))?;
        }
        let root = parsed.text("repo-root");
        if !root.is_empty() {
            found.other = Some(found.tree_of(Path::new(root))?);
        }
        Ok(found)
    }

    /// One more directory. What was named before stays.
    pub(super) fn add(&mut self, url: &str, directory: &Path) -> Result<(), Failure> {
        if !self.known.iter().any(|(known, _)| known == url) {
            let found = self.tree_of(directory)?;
            self.known.push((url.to_owned(), found));
        }
        Ok(())
    }

    fn tree_of(&self, directory: &Path) -> Result<Checkout, Failure> {
        checkout::tree(directory, &self.revision, &self.path)
    }

    /// The directory that stands for a repository.
    pub(super) fn find(&self, url: &str) -> Option<&Checkout> {
        let named = self.known.iter().find(|(known, _)| repo_url::same(known, url)).map(|(_, found)| found);
        named.or(self.other.as_ref())
    }

    /// The files of a repository, and their revision.
    pub(super) fn tree(&self, url: &str) -> Result<(Arc<dyn Tree>, String), EvalError> {
        let found = self.find(url).map(|found| (Arc::clone(&found.tree), found.revision.clone()));
        found.ok_or_else(|| EvalError {
            code: Code::FailedPrecondition,
            reason: "network-required",
            message: lacking(url),
        })
    }
}

/// What is said of a repository that no directory stands for.
pub(super) fn lacking(url: &str) -> String {
    let shown = repo_url::redact(url);
    format!("no directory stands for {shown:?}; give one with --repo URL=DIR or --repo-root DIR")
}

/// What the command line means; what stands for the repositories of directories is added.
pub(super) fn read(parsed: &Parsed, repositories: &mut Repositories) -> Result<Targets, Failure> {
    let file = parsed.text("source");
    let mut found = Targets::default();
    match (file, parsed.operands.as_slice()) {
        ("", []) => {
            return Err(Failure::generic(
                "name a directory, a file with Applications, app/NAME, or a --source",
            ));
        }
        (_, []) => found.wanted.push(Wanted::Application(Box::new(of_source_file(file)?))),
        ("", targets) => {
            for target in targets {
                of_target(target, parsed, repositories, &mut found)?;
            }
        }
        (_, [_, ..]) => return Err(Failure::generic("name either targets or a --source")),
    }
    if found.wanted.is_empty() {
        let shown = parsed.operands.join(", ");
        return Err(Failure::generic(format!("{shown}: holds no Application and no ApplicationSet")));
    }
    for wanted in &mut found.wanted {
        if let Wanted::Application(job) = wanted {
            edit(job, parsed)?;
        }
    }
    Ok(found)
}

/// Applies the flags that say what a source is (CLI-410).
pub(super) fn edit(job: &mut Job, parsed: &Parsed) -> Result<(), Failure> {
    if parsed.is_set("project") {
        parsed.text("project").clone_into(&mut job.spec.project);
    }
    if !job.spec.sources.is_empty() || job.spec.source_hydrator.is_some() {
        // These are about the command, whatever the sources are.
        let about_source = |name: &&str| !["repo", "project", "revision"].contains(name);
        let mut given = spec_flags::FLAGS.iter().map(|flag| flag.long).filter(about_source);
        return given.find(|name| parsed.is_set(name)).map_or(Ok(()), |name| {
            let text = format!("{}: --{name} changes the one source of an Application", job.shown);
            let why = "this one has spec.sources or spec.sourceHydrator";
            Err(Failure::generic(format!("{text}; {why}")))
        });
    }
    let literal = match parsed.text("values-literal-file") {
        "" => None,
        path => Some(read_file(path)?),
    };
    let own = job.spec.source.as_ref().map(|source| source.repo_url.clone()).unwrap_or_default();
    let notes = spec_edit::apply(&mut job.spec, parsed, "", literal)?;
    // `--repo` names directories here, no repository.
    job.spec.source.get_or_insert_default().repo_url = own;
    notes.errors.first().map_or(Ok(()), |text| Err(Failure::generic(text.clone())))
}

fn of_target(
    target: &str,
    parsed: &Parsed,
    repositories: &mut Repositories,
    found: &mut Targets,
) -> Result<(), Failure> {
    let path = Path::new(target);
    if path.is_dir() {
        let job = of_directory(path, parsed, repositories)?;
        found.wanted.push(Wanted::Application(Box::new(job)));
        return Ok(());
    }
    if path.is_file() {
        return of_file(target, found);
    }
    match target.strip_prefix("app/") {
        Some(name) if !name.is_empty() => {
            found.wanted.push(Wanted::Live(name.to_owned()));
            Ok(())
        }
        _ => Err(Failure::generic(format!("{target}: no such file or directory"))),
    }
}

/// A directory, in the checkout that it is in: `--repo-root`, or what holds `.git`, or itself.
fn of_directory(path: &Path, parsed: &Parsed, repositories: &mut Repositories) -> Result<Job, Failure> {
    let shown = path.display().to_string();
    let failed = |error: &dyn std::fmt::Display| Failure::generic(format!("{shown}: {error}"));
    let real = std::fs::canonicalize(path).map_err(|error| failed(&error))?;
    let root: PathBuf = match parsed.text("repo-root") {
        "" => real.ancestors().find(|above| above.join(".git").exists()).unwrap_or(&real).to_owned(),
        root => std::fs::canonicalize(root).map_err(|error| failed(&error))?,
    };
    let below = real.strip_prefix(&root).map_err(|_outside| failed(&"is outside of --repo-root"))?;
    let below = below.to_string_lossy().into_owned();
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // One address for each root: several directories of one checkout are read once.
    let url = format!("{DIRECTORY_URL}?{}", root.display());
    repositories.add(&url, &root)?;
    let source = ApplicationSource {
        repo_url: url,
        path: if below.is_empty() { ".".to_owned() } else { below },
        ..ApplicationSource::default()
    };
    Ok(Job {
        shown,
        name,
        app_namespace: String::new(),
        spec: ApplicationSpec { source: Some(source), ..ApplicationSpec::default() },
    })
}

fn documents(path: &str) -> Result<Vec<Value>, Failure> {
    let limits = tiphys_go::yaml::Limits { bytes_max: 64 << 20, depth_max: tiphys_go::nesting::DEPTH_MAX };
    tiphys_go::yaml::parse_documents(&read_file(path)?, tiphys_go::yaml::Dialect::Sigs, &limits)
        .map_err(|error| Failure::generic(format!("{path}: {error}")))
}

/// The Applications, sets and projects of a file.
fn of_file(path: &str, found: &mut Targets) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::generic(format!("{path}: {error}"));
    let mut is_empty = true;
    for document in documents(path)?.into_iter().filter(|document| !document.is_null()) {
        is_empty = false;
        let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, version) = (text("kind"), text("apiVersion"));
        let is_ours = version.is_empty() || version.split('/').next() == Some(GROUP);
        match kind.as_str() {
            "Application" if is_ours => {
                let app: Application = serde_json::from_value(document).map_err(|error| failed(&error))?;
                let job = Job::of(format!("{path}: {}", app.metadata.name), app);
                found.wanted.push(Wanted::Application(Box::new(job)));
            }
            "AppProject" if is_ours => {
                found.projects.push(serde_json::from_value(document).map_err(|error| failed(&error))?);
            }
            "ApplicationSet" if is_ours => {
                let shown = format!("{path}: {}", tiphys_object::access::name(&document));
                found.wanted.push(Wanted::Set { shown, document });
            }
            "" => return Err(failed(&"holds a document without a kind; an Application was expected")),
            other => {
                let text = format!(
                    "holds a {other} of {version:?}, which is no Application; name its directory to render it"
                );
                return Err(failed(&text));
            }
        }
    }
    if is_empty { Err(failed(&"holds no Application and no ApplicationSet")) } else { Ok(()) }
}

/// A source, a list of sources, or an Application.
fn of_source_file(path: &str) -> Result<Job, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::generic(format!("{path}: {error}"));
    let value = documents(path)?.into_iter().next().unwrap_or_default();
    let plain = |spec: ApplicationSpec| Job {
        shown: path.to_owned(),
        name: String::new(),
        app_namespace: String::new(),
        spec,
    };
    match value {
        Value::Array(_) => {
            let sources = serde_json::from_value(value).map_err(|error| failed(&error))?;
            Ok(plain(ApplicationSpec { sources, ..ApplicationSpec::default() }))
        }
        Value::Object(ref members) if members.contains_key("spec") => {
            let app: Application = serde_json::from_value(value).map_err(|error| failed(&error))?;
            let (name, app_namespace) = (app.metadata.name.clone(), app.metadata.namespace.clone());
            Ok(Job { name, app_namespace, ..plain(app.spec) })
        }
        other => {
            let source = serde_json::from_value(other).map_err(|error| failed(&error))?;
            Ok(plain(ApplicationSpec { source: Some(source), ..ApplicationSpec::default() }))
        }
    }
}
