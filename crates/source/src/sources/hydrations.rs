//! Commits of manifests (CTL-113..116).

use super::{Backend, Freshness, Sources};
use crate::git::HYDRATIONS;
use crate::hydrate::{self, Hydrated, Hydration};
use crate::refs::Wanted;
use crate::{Repository, SourceError};

impl Sources {
    /// Whether a branch is the default branch of its repository, as far as its server says.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn is_default_branch(
        &self,
        repository: &Repository,
        branch: &str,
    ) -> Result<bool, SourceError> {
        let repository = &*self.admit(repository).await?;
        let wanted = Wanted::Revision { revision: branch, tag_prefix: "" };
        Ok(self.refs(repository, wanted, Freshness::Cached).await?.is_default(branch))
    }

    /// Makes a branch what is wanted: commits, pushes and notes what it was made from. `repository` has the credentials to
    /// push with. Whoever asks for the branch afterwards sees the commit.
    ///
    /// # Errors
    /// When the repository cannot be read or written, or the branch has something in the way of the manifests.
    pub async fn hydrate(
        &self,
        repository: &Repository,
        wanted: &Hydration,
    ) -> Result<Hydrated, SourceError> {
        let repository = &*self.admit(repository).await?;
        let options = &self.0.options;
        let hydrated = match &self.0.backend {
            Backend::Git { git, .. } => {
                let directory = options.cache_dir.join(HYDRATIONS);
                hydrate::run(git, repository, &directory, wanted, options.clock.now()).await?
            }
            Backend::Memory(fetched) => {
                let seconds = options.clock.now().as_second();
                fetched.hydrate(repository, wanted, seconds, options.exec_timeout).await?
            }
        };
        self.invalidate(repository.url.expose());
        Ok(hydrated)
    }
}
