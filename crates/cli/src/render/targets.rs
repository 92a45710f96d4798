//! What is rendered: a directory, the Applications of a file, or a source of a file (CLI-1030, RND-246).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tiphys_api::application::{ApplicationSource, ApplicationSpec};
use tiphys_api::{Application, repo_url};
use tiphys_render::eval::EvalError;
use tiphys_render::{Code, Tree};
use tiphys_source::read_directory;

use crate::app::spec_edit;
use crate::failure::Failure;
use crate::flags::Parsed;
use crate::terminal::read_file;

/// What stands for the address of a directory that is rendered by its path.
const DIRECTORY_URL: &str = "https://directory.invalid/files.git";

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
    known: Vec<(String, Arc<dyn Tree>)>,
    /// Of everything that is not named.
    other: Option<Arc<dyn Tree>>,
}

impl Repositories {
    /// Those of `--repo URL=DIR` and `--repo-root DIR`.
    pub(super) fn read(parsed: &Parsed) -> Result<Self, Failure> {
        let mut found = Self::default();
        for given in parsed.texts("repo") {
            let (url, directory) = given
                .rsplit_once('=')
                .ok_or_else(|| Failure::fatal(format!("--repo {given:?} is not URL=DIR")))?;
            found.known.push((url.to_owned(), tree_of(Path::new(directory))?));
        }
        let root = parsed.text("repo-root");
        if !root.is_empty() {
            found.other = Some(tree_of(Path::new(root))?);
        }
        Ok(found)
    }

    /// The files of a repository.
    pub(super) fn tree(&self, url: &str) -> Result<Arc<dyn Tree>, EvalError> {
        let named = self.known.iter().find(|(known, _)| repo_url::same(known, url)).map(|(_, tree)| tree);
        named.or(self.other.as_ref()).map(Arc::clone).ok_or_else(|| EvalError {
            code: Code::FailedPrecondition,
            reason: "network-required",
            message: format!(
                "no directory stands for {:?}; give one with --repo URL=DIR or --repo-root DIR",
                repo_url::redact(url)
            ),
        })
    }
}

fn tree_of(directory: &Path) -> Result<Arc<dyn Tree>, Failure> {
    let tree = read_directory(directory).map_err(|error| Failure::fatal(error.to_string()))?;
    Ok(Arc::new(tree))
}

/// The applications that the command line means; what stands for their repositories is added.
pub(super) fn read(parsed: &Parsed, repositories: &mut Repositories) -> Result<Vec<Job>, Failure> {
    let file = parsed.text("source");
    let mut jobs = match (file, parsed.operands.as_slice()) {
        ("", []) => {
            return Err(Failure::fatal("name a directory, a file with Applications, or a --source"));
        }
        (_, []) => vec![of_source_file(file)?],
        ("", targets) => {
            let mut jobs = Vec::new();
            for target in targets {
                jobs.extend(of_target(target, parsed, repositories)?);
            }
            jobs
        }
        (_, [_, ..]) => return Err(Failure::fatal("name either targets or a --source")),
    };
    for job in &mut jobs {
        edit(job, parsed)?;
    }
    Ok(jobs)
}

/// Applies the flags that say what a source is (CLI-410).
fn edit(job: &mut Job, parsed: &Parsed) -> Result<(), Failure> {
    if !job.spec.sources.is_empty() {
        return Ok(());
    }
    let literal = match parsed.text("values-literal-file") {
        "" => None,
        path => Some(read_file(path)?),
    };
    let own = job.spec.source.as_ref().map(|source| source.repo_url.clone()).unwrap_or_default();
    let notes = spec_edit::apply(&mut job.spec, parsed, "", literal)?;
    // `--repo` names directories here, no repository.
    job.spec.source.get_or_insert_default().repo_url = own;
    notes.errors.first().map_or(Ok(()), |text| Err(Failure::fatal(text.clone())))
}

fn of_target(target: &str, parsed: &Parsed, repositories: &mut Repositories) -> Result<Vec<Job>, Failure> {
    let path = Path::new(target);
    if path.is_dir() {
        return of_directory(path, parsed, repositories).map(|job| vec![job]);
    }
    if path.is_file() {
        return of_file(target);
    }
    if target.starts_with("app/") {
        let text =
            format!("{target}: live Applications are not rendered here; use `app manifests` with --core");
        return Err(Failure::fatal(text));
    }
    Err(Failure::fatal(format!("{target}: no such file or directory")))
}

/// A directory, in the checkout that it is in: `--repo-root`, or what holds `.git`, or itself.
fn of_directory(path: &Path, parsed: &Parsed, repositories: &mut Repositories) -> Result<Job, Failure> {
    let shown = path.display().to_string();
    let failed = |error: &dyn std::fmt::Display| Failure::fatal(format!("{shown}: {error}"));
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
    if !repositories.known.iter().any(|(known, _)| *known == url) {
        repositories.known.push((url.clone(), tree_of(&root)?));
    }
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
        .map_err(|error| Failure::fatal(format!("{path}: {error}")))
}

/// The Applications of a file. Projects beside them say nothing about manifests.
fn of_file(path: &str) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    for document in documents(path)? {
        let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default();
        match kind {
            "Application" => {
                let app: Application = serde_json::from_value(document)
                    .map_err(|error| Failure::fatal(format!("{path}: {error}")))?;
                jobs.push(Job {
                    shown: format!("{path}: {}", app.metadata.name),
                    name: app.metadata.name.clone(),
                    app_namespace: app.metadata.namespace.clone(),
                    spec: app.spec,
                });
            }
            "AppProject" => {}
            "ApplicationSet" => {
                let text =
                    "holds an ApplicationSet; `tiphys appset generate` says which Applications it makes";
                return Err(Failure::fatal(format!("{path}: {text}")));
            }
            other => {
                return Err(Failure::fatal(format!("{path}: holds a {other:?}, which is no Application")));
            }
        }
    }
    if jobs.is_empty() {
        return Err(Failure::fatal(format!("{path}: holds no Application")));
    }
    Ok(jobs)
}

/// A source, a list of sources, or an Application.
fn of_source_file(path: &str) -> Result<Job, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::fatal(format!("{path}: {error}"));
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
