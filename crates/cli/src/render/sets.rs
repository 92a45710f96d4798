//! Sets of files: their Applications are generated first, by the function that the controller calls, in an installation
//! that the command line describes (CLI-1030, ASET-305).

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use tiphys_api::cluster::Clusters;
use tiphys_api::{AppProject, Application};
use tiphys_appset::facts::{
    Answer, DecisionQuestion, Decisions, Facts, GitContent, GitFile, GitQuestion, NoAnswer, PluginQuestion,
    ProviderQuestion,
};
use tiphys_appset::generate::{find_directories, find_files, generate};
use tiphys_appset::params::Params;
use tiphys_render::Tree;

use super::targets::{Repositories, lacking};
use crate::appset::described_inputs;
use crate::core::generation;
use crate::described::Subject;
use crate::failure::Failure;
use crate::terminal::Terminal;

/// The installation that sets are generated in.
pub(super) struct Described {
    inputs: Map<String, Value>,
    /// Where its paths begin.
    folder: PathBuf,
}

/// Why there are no Applications of a set.
pub(super) enum Problem {
    /// A generator asks for what nobody here knows.
    NotEvaluated(String),
    /// It is wrong.
    Failed(Failure),
}

impl Described {
    /// What `--inputs` says, if it is given. Repositories that it has folders for are rendered from these, too.
    pub(super) fn read(path: &str, repositories: &mut Repositories) -> Result<Self, Failure> {
        let (document, folder) = described_inputs(path)?;
        let Value::Object(inputs) = document else {
            return Err(Failure::generic(format!("--inputs {path}: holds no object")));
        };
        for repo in inputs.get("repos").and_then(Value::as_array).into_iter().flatten() {
            let text = |name: &str| repo.get(name).and_then(Value::as_str).unwrap_or_default();
            if !text("url").is_empty() && !text("path").is_empty() {
                repositories.add(text("url"), &folder.join(Path::new(text("path"))))?;
            }
        }
        Ok(Self { inputs, folder })
    }

    /// The Applications of a set.
    pub(super) fn generate(
        &self,
        terminal: &Terminal,
        document: &Value,
        repositories: &Repositories,
        projects: &[AppProject],
    ) -> Result<Vec<Application>, Problem> {
        let failed = |text: &str| Problem::Failed(Failure::generic(text));
        let describe = terminal.describe.ok_or_else(|| failed("sets are not generated in this program"))?;
        let mut inputs = self.inputs.clone();
        // Projects of the files come first: they are what is asked about.
        let mut all: Vec<Value> =
            projects.iter().filter_map(|project| serde_json::to_value(project).ok()).collect();
        if let Some(Value::Array(more)) = inputs.remove("projects") {
            all.extend(more);
        }
        inputs.insert("projects".to_owned(), Value::Array(all));
        let subject = Subject {
            set: document.clone(),
            inputs: Value::Object(inputs),
            folder: self.folder.clone(),
            now: terminal.now(),
        };
        let described = describe(subject).map_err(|why| failed(&why))?;
        let mut found = Err(Failure::generic("nothing was generated"));
        let mut missing = None;
        described.ask(&mut |request, facts| {
            let facts = Directories { facts, repositories, missing: RefCell::default() };
            found = generate(request, &facts).map_err(generation::stopped);
            missing = facts.missing.take();
        });
        match (found, missing.or_else(|| described.lacking())) {
            (Ok(generated), None) => {
                for warning in &generated.warnings {
                    super::say(terminal, &format!("Warning: {warning}"));
                }
                Ok(generated.applications)
            }
            // What the description lacks is the better explanation of what failed.
            (_, Some(what)) => Err(Problem::NotEvaluated(what)),
            (Err(failure), None) => Err(Problem::Failed(failure)),
        }
    }
}

/// Facts of a description, where files of repositories are those of directories.
struct Directories<'a> {
    facts: &'a dyn Facts,
    repositories: &'a Repositories,
    /// What no directory stands for.
    missing: RefCell<Option<String>>,
}

impl Directories<'_> {
    /// The directory of a repository; none where the description decides whether it may be read (ASET-274).
    fn tree(&self, question: &GitQuestion) -> Answer<Option<Arc<dyn Tree>>> {
        if question.registered_only {
            return Ok(None);
        }
        self.repositories.find(&question.repo_url).map(|found| Some(Arc::clone(&found.tree))).ok_or_else(
            || {
                let text = lacking(&question.repo_url);
                *self.missing.borrow_mut() = Some(text.clone());
                NoAnswer::failed(text)
            },
        )
    }
}

impl Facts for Directories<'_> {
    fn project(&self, name: &str) -> Answer<Option<Arc<AppProject>>> {
        self.facts.project(name)
    }

    fn clusters(&self) -> Answer<Arc<Clusters>> {
        self.facts.clusters()
    }

    fn directories(&self, question: &GitQuestion) -> Answer<Arc<[String]>> {
        match (self.tree(question)?, &question.what) {
            (Some(tree), GitContent::Directories { hidden }) => {
                let found = find_directories(tree.as_ref(), *hidden, None);
                found.map(Into::into).map_err(|error| NoAnswer::failed(error.to_string()))
            }
            _ => self.facts.directories(question),
        }
    }

    fn files(&self, question: &GitQuestion) -> Answer<Arc<[GitFile]>> {
        match (self.tree(question)?, &question.what) {
            (Some(tree), GitContent::Files { include, exclude, globbing }) => {
                let found = find_files(tree.as_ref(), include, exclude, *globbing, None);
                found.map(Into::into).map_err(|error| NoAnswer::failed(error.to_string()))
            }
            _ => self.facts.files(question),
        }
    }

    fn plugin(&self, question: &PluginQuestion) -> Answer<Arc<[Params]>> {
        self.facts.plugin(question)
    }

    fn repositories(&self, question: &ProviderQuestion) -> Answer<Arc<[Params]>> {
        self.facts.repositories(question)
    }

    fn pull_requests(&self, question: &ProviderQuestion) -> Answer<Arc<[Params]>> {
        self.facts.pull_requests(question)
    }

    fn decisions(&self, question: &DecisionQuestion) -> Answer<Decisions> {
        self.facts.decisions(question)
    }
}
