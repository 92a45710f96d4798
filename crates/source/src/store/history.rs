//! What signatures need beside a commit: its annotated tag, and what came before it.

use std::sync::Arc;

use super::{Generation, Store, parse_commit};
use crate::git::Git;
use crate::observer::{Request, observed};
use crate::refs::RefList;
use crate::store::sweep::Sweep;
use crate::work::blocking;
use crate::{Repository, SourceError};

impl Store {
    /// A generation that holds an annotated tag, and the commit that it means.
    pub(crate) async fn tag(
        &self,
        git: &Git,
        repository: &Repository,
        commit: &str,
        tag: &str,
    ) -> Result<Arc<Generation>, SourceError> {
        let id = parse_commit(tag)?;
        let generation = self.commit(git, repository, commit).await?;
        let has_tag = |generation: &Arc<Generation>| {
            let generation = Arc::clone(generation);
            blocking(move || Ok(generation.objects.has(id)))
        };
        if has_tag(&generation).await? {
            return Ok(generation);
        }
        let _fetching = self.fetching.lock().await;
        if !has_tag(&generation).await? {
            let sweep = Sweep::of(&generation.directory);
            let refspecs = [format!("+{tag}:refs/tiphys-tags/{tag}")];
            let allowance = self.allowance(git, &generation);
            let fetching = git.fetch(repository, &generation.directory, (1, &refspecs), &allowance);
            if let Err(error) = observed(git.observer(), (repository, Request::Fetch, tag), fetching).await {
                sweep.now().await;
                return Err(error.into());
            }
            sweep.disarm();
        }
        Ok(generation)
    }

    /// A generation that holds a commit and everything that came before it.
    pub(crate) async fn history(
        &self,
        git: &Git,
        repository: &Repository,
        commit: &str,
        list: &Arc<RefList>,
    ) -> Result<Arc<Generation>, SourceError> {
        let id = parse_commit(commit)?;
        let _fetching = self.fetching.lock().await;
        let known = self.state.lock().full.as_ref().map(|full| Arc::clone(&full.generation));
        if let Some(generation) = known.filter(|known| !known.objects.is_damaged() && known.objects.has(id)) {
            return Ok(generation);
        }
        let generation = self.full(git, repository, list).await?;
        if generation.objects.has(id) {
            return Ok(generation);
        }
        let text =
            format!("the history of commit {commit} is not among the branches and tags of the repository");
        Err(SourceError::Unverifiable { text })
    }
}
