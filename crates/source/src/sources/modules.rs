//! Fetches what the submodules of a tree hold (RND-45, REP-76).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use tiphys_exec::ExecError;
use tiphys_render::Tree;

use super::Sources;
use crate::modules::{self, Content, ModuleTree};
use crate::tree::{GITLINKS_MAX, Gitlink};
use crate::{Repository, SourceError};

/// Submodules inside of each other.
const DEPTH_MAX: usize = 8;

impl Sources {
    /// Puts the content of its submodules into a tree. One that cannot be had, for a reason that does not pass by
    /// itself, is an error of whoever reads it, and of nobody else.
    pub(super) async fn with_modules(
        &self,
        repository: &Repository,
        tree: Arc<dyn Tree>,
        gitlinks: &[Gitlink],
    ) -> Result<Arc<dyn Tree>, SourceError> {
        if gitlinks.is_empty() {
            return Ok(tree);
        }
        let after = self.0.options.exec_timeout;
        let left = AtomicUsize::new(GITLINKS_MAX);
        let work = self.modules(repository, tree, gitlinks, (0, &left));
        let text = || format!("fetching the submodules failed {}", ExecError::Timeout { after });
        tokio::time::timeout(after, work).await.map_err(|_elapsed| SourceError::Timeout { text: text() })?
    }

    fn modules<'a>(
        &'a self,
        repository: &'a Repository,
        tree: Arc<dyn Tree>,
        gitlinks: &'a [Gitlink],
        (depth, left): (usize, &'a AtomicUsize),
    ) -> BoxFuture<'a, Result<Arc<dyn Tree>, SourceError>> {
        Box::pin(async move {
            let mut found: BTreeMap<_, Content> = BTreeMap::new();
            for gitlink in gitlinks {
                let content = match self.module(repository, gitlink, (depth, left)).await {
                    Err(error) if error.is_transient() => return Err(error),
                    other => other.map_err(|error| modules::explained(repository, &gitlink.url, &error)),
                };
                found.insert(gitlink.path.clone(), content);
            }
            Ok(Arc::new(ModuleTree::new(tree, found)) as Arc<dyn Tree>)
        })
    }

    async fn module(
        &self,
        parent: &Repository,
        gitlink: &Gitlink,
        (depth, left): (usize, &AtomicUsize),
    ) -> Result<Arc<dyn Tree>, SourceError> {
        if !self.0.options.submodules {
            let text = "submodules are switched off (ARGOCD_GIT_MODULES_ENABLED)".to_owned();
            return Err(SourceError::InvalidRepository { text });
        }
        let spent = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if depth >= DEPTH_MAX || spent.is_err() {
            return Err(SourceError::Exhausted {
                text: format!(
                    "submodules stand more than {DEPTH_MAX} levels inside of each other, or are more than {GITLINKS_MAX}"
                ),
            });
        }
        let repository = modules::repository(parent, &gitlink.url)?;
        let (tree, gitlinks) = self.git_tree(&repository, &gitlink.commit.to_string()).await?;
        if gitlinks.is_empty() {
            return Ok(tree);
        }
        self.modules(&repository, tree, &gitlinks, (depth + 1, left)).await
    }
}
