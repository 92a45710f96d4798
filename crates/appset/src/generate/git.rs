//! Directories and files of a repository as parameters (ASET-45..51).
//!
//! The first half makes parameters of what was found; the second half ([`find_directories`], [`find_files`]) finds it
//! in a tree, for whoever answers the questions.

mod find;

use serde_json::{Map, Value};
use tiphys_api::repo_url;
use tiphys_go::path_match;
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_policy::project::{namespace_permitted, source_matches};

use super::{GenerateError, Run};
use crate::facts::{GitContent, GitFile, GitQuestion, Globbing};
use crate::generator::{flag, objects, text};
use crate::params::{self, Params};
use crate::scope::{namespace_of, namespace_refusal};
use crate::slug::normalize;

pub use find::{GitError, find_directories, find_files};

pub(super) fn generate(run: &mut Run<'_>, block: &Map<String, Value>) -> Result<Vec<Params>, GenerateError> {
    let directories = patterns(block, "directories");
    let files = patterns(block, "files");
    if directories.is_empty() && files.is_empty() {
        return Err(GenerateError::failed("ApplicationSet is empty"));
    }
    let url = text(block, "repoURL");
    if let Some(refusal) = run.scope.repository_refusal(url, run.request.matching) {
        return Err(GenerateError::failed(refusal));
    }
    let (project, without_credentials) = project(run, url)?;
    let settings = run.request.settings;
    let what = if directories.is_empty() {
        let of = |excludes: bool| {
            files.iter().filter(|p| p.excludes == excludes).map(|p| p.path.to_owned()).collect()
        };
        let globbing = if settings.new_git_file_globbing { Globbing::Doublestar } else { Globbing::Pathspec };
        GitContent::Files { include: of(false), exclude: of(true), globbing }
    } else {
        GitContent::Directories { hidden: settings.hidden_directories }
    };
    let question = GitQuestion {
        repo_url: url.to_owned(),
        revision: text(block, "revision").to_owned(),
        project,
        registered_only: run.scope.access(settings).registered_only,
        without_credentials,
        fresh: run.request.fresh,
        submodules: settings.git_submodules,
        what,
    };
    if directories.is_empty() {
        of_files(run, block, &question)
    } else {
        of_directories(run, block, &question, &directories)
    }
}

/// A pattern, and whether it takes away.
struct Pattern<'a> {
    path: &'a str,
    excludes: bool,
}

fn patterns<'a>(block: &'a Map<String, Value>, name: &str) -> Vec<Pattern<'a>> {
    let pattern = |entry| Pattern { path: text(entry, "path"), excludes: flag(entry, "exclude") };
    objects(block, name).map(pattern).collect()
}

/// The project whose credentials and rules apply, empty where the template leaves it open, and whether the repository is
/// read without credentials (ASET-46, ASET-274).
///
/// Deviation (ASET-46): a set without `spec.project` is written by whoever has rights on its template's project, or on
/// sets of its namespace. Neither gives them what the credentials of other projects, or of everybody, open.
fn project(run: &Run<'_>, url: &str) -> Result<(String, bool), GenerateError> {
    if let Some(project) = run.scope.project() {
        return Ok((project.name().to_owned(), false));
    }
    let control_plane = run.request.control_plane_namespace;
    let namespace = namespace_of(run.request.set, control_plane);
    let name = run.request.set.template_project();
    if name.contains("{{") {
        return Ok((String::new(), namespace != control_plane));
    }
    match run.facts.project(name) {
        Ok(Some(project)) if !namespace_permitted(&project, "", namespace, control_plane).permitted => {
            Err(GenerateError::Failed(namespace_refusal(namespace, name)))
        }
        Ok(Some(project)) => {
            let is_permitted = source_matches(&project, url, run.request.matching);
            Ok((name.to_owned(), !is_permitted))
        }
        Ok(None) => Err(GenerateError::failed(format!(
            "error getting project {name}: appprojects.argoproj.io {name:?} not found"
        ))),
        Err(none) => match none.into() {
            GenerateError::Failed(reason) => {
                Err(GenerateError::failed(format!("error getting project {name}: {reason}")))
            }
            other => Err(other),
        },
    }
}

fn of_directories(
    run: &mut Run<'_>,
    block: &Map<String, Value>,
    question: &GitQuestion,
    patterns: &[Pattern<'_>],
) -> Result<Vec<Params>, GenerateError> {
    let directories = run.facts.directories(question)?;
    let mut sets = Vec::new();
    for directory in directories.iter() {
        // A pattern that is none matches nothing (ASET-47).
        let matches = |pattern: &&Pattern<'_>| path_match::is_match(pattern.path, directory).unwrap_or(false);
        let any = |excludes: bool| patterns.iter().filter(|p| p.excludes == excludes).any(|p| matches(&p));
        if !any(false) || any(true) {
            continue;
        }
        let mut set = Params::new();
        add_path(&mut set, directory, None, text(block, "pathParamPrefix"), run.language.is_go());
        run.add_values(block, &mut set)?;
        run.made(set, &mut sets)?;
    }
    Ok(sets)
}

fn of_files(
    run: &mut Run<'_>,
    block: &Map<String, Value>,
    question: &GitQuestion,
) -> Result<Vec<Params>, GenerateError> {
    let files = run.facts.files(question)?;
    let mut sets = Vec::new();
    for file in files.iter() {
        let contents = contents_of(file).map_err(|why| {
            let (path, url) = (&file.path, repo_url::redact(&question.repo_url));
            GenerateError::failed(format!(
                "unable to process file '{path}' from repository '{url}': unable to parse file: {why}"
            ))
        })?;
        let (directory, name) = file.path.rsplit_once('/').unwrap_or((".", &file.path));
        for content in contents {
            let mut set = run.in_language(content)?;
            add_path(&mut set, directory, Some(name), text(block, "pathParamPrefix"), run.language.is_go());
            run.add_values(block, &mut set)?;
            run.made(set, &mut sets)?;
        }
    }
    Ok(sets)
}

/// The sets that a file holds (ASET-50).
fn contents_of(file: &GitFile) -> Result<Vec<Params>, String> {
    let content = yaml::decode_text(&file.content).map_err(|error| error.to_string())?;
    let limits = Limits::default();
    let value = yaml::parse(&content, Dialect::Sigs, &limits).map_err(|error| error.to_string())?;
    let read = |value| match params::as_floats(value) {
        Ok(Value::Object(content)) => Ok(content),
        Ok(Value::Null) => Ok(Params::new()),
        Ok(_) => Err("an entry of the list is no object".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    match value {
        None => Ok(vec![Params::new()]),
        Some(Value::Array(entries)) => entries.into_iter().map(read).collect(),
        Some(object @ Value::Object(_)) => Ok(vec![read(object)?]),
        Some(_) => Err("it holds neither an object nor a list of objects".to_owned()),
    }
}

/// Adds what is known of a path; keys of the same names are overwritten (ASET-48, ASET-50).
fn add_path(set: &mut Params, directory: &str, file: Option<&str>, prefix: &str, is_go: bool) {
    let basename = directory.rsplit_once('/').map_or(directory, |(_, name)| name);
    let mut parts: Vec<(&str, Value)> =
        vec![("basename", basename.into()), ("basenameNormalized", normalize(basename).into())];
    if let Some(file) = file {
        parts.push(("filename", file.into()));
        parts.push(("filenameNormalized", normalize(file).into()));
    }
    let segments = directory.split('/');
    if is_go {
        let mut path: Params = parts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        path.insert("path".to_owned(), directory.into());
        path.insert("segments".to_owned(), Value::Array(segments.map(Value::from).collect()));
        let path = Value::Object(path);
        if prefix.is_empty() {
            set.insert("path".to_owned(), path);
        } else {
            let prefixed = Params::from_iter([("path".to_owned(), path)]);
            set.insert(prefix.to_owned(), Value::Object(prefixed));
        }
        return;
    }
    let base = if prefix.is_empty() { "path".to_owned() } else { format!("{prefix}.path") };
    set.insert(base.clone(), directory.into());
    set.extend(parts.into_iter().map(|(name, value)| (format!("{base}.{name}"), value)));
    set.extend(segments.enumerate().map(|(at, segment)| (format!("{base}[{at}]"), segment.into())));
}
