//! What a generation has to ask, and whom.
//!
//! Generators need to know things that are elsewhere: registered clusters, files of a repository, the answer of a
//! plugin. A matrix fills what its first generator found into the second, so not all questions are known when a
//! generation begins. Whoever runs one implements [`Facts`]; an answer that is not there yet is
//! [`NoAnswer::Pending`]: the generation goes on to collect further questions, ends as pending, and is run again when
//! they are answered. A question that could not be answered is an error of the generation, never an empty list
//! (INV-8).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use tiphys_api::AppProject;
use tiphys_api::cluster::Clusters;

use crate::generator::Kind;
use crate::params::Params;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// It was asked for; the generation has to be run again.
    Pending,
    /// It could not be found out, and why.
    Failed(String),
}

impl NoAnswer {
    /// It could not be found out, because.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into())
    }
}

/// An answer, or why there is none.
pub type Answer<T> = Result<T, NoAnswer>;

/// Which files or directories of a repository are wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GitQuestion {
    /// Repository, as written.
    pub repo_url: String,
    /// Branch, tag or commit.
    pub revision: String,
    /// Project whose credentials and signature rules apply; empty for none (ASET-46).
    pub project: String,
    /// Whether the repository has to be registered for that project (ASET-274, ASET-278).
    pub registered_only: bool,
    /// Whether the repository is read without credentials, because the project does not permit it (ASET-46).
    pub without_credentials: bool,
    /// Whether the revision is resolved freshly (ASET-51).
    pub fresh: bool,
    /// Whether submodules are fetched.
    pub submodules: bool,
    /// What is looked for.
    pub what: GitContent,
}

impl GitQuestion {
    /// Why a repository may not be read that has to be registered for a project; `None` when it may (ASET-274).
    pub fn registration_refusal(&self, is_registered: impl FnOnce() -> bool) -> Option<String> {
        (self.registered_only && !is_registered()).then(|| {
            let shown = tiphys_api::repo_url::redact(&self.repo_url);
            format!("repository {shown} is not permitted in project '{}'", self.project)
        })
    }
}

impl GitQuestion {
    /// The error of a repository that was read without credentials.
    pub fn unpermitted(&self, error: &dyn std::fmt::Display) -> String {
        let shown = tiphys_api::repo_url::redact(&self.repo_url);
        let why = match self.project.as_str() {
            "" => "the ApplicationSet has no spec.project".to_owned(),
            project => format!("it is not permitted in project '{project}'"),
        };
        format!("repository {shown} is read without credentials, as {why}: {error}")
    }
}

/// What is looked for in a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GitContent {
    /// Directories; hidden ones too where asked for. Patterns are for the generator.
    Directories {
        /// Whether directories whose names begin with a full stop count.
        hidden: bool,
    },
    /// Files with their contents.
    Files {
        /// Patterns whose matches are wanted, in order.
        include: Vec<String>,
        /// Patterns whose matches are not.
        exclude: Vec<String>,
        /// How patterns are read.
        globbing: Globbing,
    },
}

/// How patterns of files are read (ASET-49).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Globbing {
    /// As git reads pathspecs.
    Pathspec,
    /// As doublestar reads globs.
    Doublestar,
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitFile {
    /// Path from the root of the repository.
    pub path: String,
    /// Content.
    pub content: Bytes,
}

/// Which plugin is asked what (ASET-68).
#[derive(Clone, Debug, PartialEq)]
pub struct PluginQuestion {
    /// `ConfigMap` that says where it is.
    pub config_map: String,
    /// Name of the set.
    pub set: String,
    /// `input.parameters`, as written.
    pub parameters: Map<String, Value>,
    /// How secrets and `ConfigMaps` may be used.
    pub access: Access,
}

/// Which provider is asked (ASET-58, ASET-64).
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderQuestion {
    /// The provider's member: `github`, `gitlab`.
    pub provider: &'static str,
    /// What stands there, as written.
    pub block: Map<String, Value>,
    /// The whole generator: filters, protocol and the like.
    pub generator: Map<String, Value>,
    /// The kind of generator.
    pub kind: Kind,
    /// Namespace of the set: its Secrets and `ConfigMaps` are meant.
    pub namespace: String,
    /// Namespace Tiphys runs in, which has the Secrets of GitHub Apps.
    pub control_plane: String,
    /// How secrets may be used.
    pub access: Access,
}

/// Which resource lists the clusters (ASET-42).
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionQuestion {
    /// `ConfigMap` that describes the kind.
    pub config_map: String,
    /// Name of the resource.
    pub name: Option<String>,
    /// Selector of the resource.
    pub label_selector: Option<Value>,
    /// How the `ConfigMap` may be used.
    pub access: Access,
}

/// Which of the objects that a generator names may be used (ASET-59, ASET-275); [`crate::references`] decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access {
    /// Project of the set; empty for none.
    pub project: String,
    /// Whether what belongs to no project must not be used.
    pub registered_only: bool,
}

/// Answers the questions of a generation.
pub trait Facts {
    /// A project by name, as it is in force; `None` when there is none.
    ///
    /// # Errors
    /// When it is not known whether there is.
    fn project(&self, name: &str) -> Answer<Option<Arc<AppProject>>>;

    /// All registered clusters, the local one included.
    ///
    /// # Errors
    /// When they are not known.
    fn clusters(&self) -> Answer<Arc<Clusters>>;

    /// Directories of a repository, in lexical walk order.
    ///
    /// # Errors
    /// When they are not known.
    fn directories(&self, question: &GitQuestion) -> Answer<Arc<[String]>>;

    /// Files of a repository, in byte order of their paths.
    ///
    /// # Errors
    /// When they are not known.
    fn files(&self, question: &GitQuestion) -> Answer<Arc<[GitFile]>>;

    /// What a plugin gave.
    ///
    /// # Errors
    /// When it gave nothing, or nothing that can be read.
    fn plugin(&self, question: &PluginQuestion) -> Answer<Arc<[Params]>>;

    /// Repositories of a provider, as parameters without `values`.
    ///
    /// # Errors
    /// When they are not all known.
    fn repositories(&self, question: &ProviderQuestion) -> Answer<Arc<[Params]>>;

    /// Pull requests of a provider, as parameters without `values`.
    ///
    /// # Errors
    /// When they are not all known.
    fn pull_requests(&self, question: &ProviderQuestion) -> Answer<Arc<[Params]>>;

    /// Decisions about clusters, as they are written.
    ///
    /// # Errors
    /// When they are not all known.
    fn decisions(&self, question: &DecisionQuestion) -> Answer<Decisions>;
}

/// What a decision resource says.
#[derive(Clone, Debug, PartialEq)]
pub enum Decisions {
    /// Decisions, and the member that names the cluster.
    Found {
        /// Member of a decision that holds the cluster's name.
        match_key: String,
        /// Decisions of all resources, in order.
        decisions: Vec<Map<String, Value>>,
    },
    /// Sets of parameters that stand for all of it.
    Given(Arc<[Params]>),
}

/// Data of a `ConfigMap` or a decoded Secret.
pub type TextMap = BTreeMap<String, String>;
