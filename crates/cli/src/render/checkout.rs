//! Directories that stand for repositories: their files as they lie there, or those of a commit (CLI-1030).

use std::path::Path;
use std::sync::Arc;

use tiphys_cluster::error_chain;
use tiphys_render::Tree;
use tiphys_source::{Freshness, Repository, SourceOptions, Sources, read_directory};

use crate::failure::Failure;
use crate::session;

/// Files, and what their revision is called.
#[derive(Clone)]
pub(super) struct Checkout {
    pub(super) tree: Arc<dyn Tree>,
    pub(super) revision: String,
}

/// The files of a directory; with a revision those that the checkout has there. A directory that is no checkout has
/// no revisions: it is read as it is, and that is what its revision is called. `path` says where git is.
pub(super) fn tree(directory: &Path, revision: &str, path: &str) -> Result<Checkout, Failure> {
    if revision.is_empty() || !directory.join(".git").exists() {
        let tree = read_directory(directory).map_err(|error| Failure::generic(error.to_string()))?;
        let revision = if revision.is_empty() { tree.id() } else { revision }.to_owned();
        return Ok(Checkout { tree: Arc::new(tree), revision });
    }
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Failure::generic(format!("--revision {revision} of {}: {}", directory.display(), error_chain(error)))
    };
    let directory = std::fs::canonicalize(directory).map_err(|error| failed(&error))?;
    // What is read here is beside us anyway: nothing of it is worth keeping.
    let cache = tempfile::tempdir().map_err(|error| failed(&error))?;
    let mut options = SourceOptions::new(cache.path());
    path.clone_into(&mut options.path);
    options.tls_dir = None;
    options.local_roots = vec![directory.clone()];
    let sources = Sources::new(options).map_err(|error| failed(&error))?;
    let repository = Repository::anonymous(&directory.to_string_lossy());
    session::execute(async {
        let commit = sources.resolve(&repository, revision, Freshness::Fetch).await;
        let commit = commit.map_err(|error| failed(&error))?;
        let tree = sources.tree(&repository, &commit).await.map_err(|error| failed(&error))?;
        Ok(Checkout { tree, revision: commit })
    })
}
