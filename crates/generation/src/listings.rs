//! What was found in trees, so that a set that is looked at every three minutes does not walk the same tree again and
//! again (ASET-51). A tree is named by what it holds: whoever may see it is asked before.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tiphys_appset::facts::{GitContent, GitFile};
use tiphys_appset::generate::{find_directories, find_files};
use tiphys_source::{Compute, StopOnDrop};
use tiphys_tree::Tree;

use crate::ledger::Given;

/// Bytes that are kept.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Clone)]
enum Found {
    Paths(Arc<[String]>),
    Files(Arc<[GitFile]>),
}

impl Found {
    fn bytes(&self) -> u32 {
        let bytes: usize = match self {
            Self::Paths(paths) => paths.iter().map(|path| path.len() + 24).sum(),
            Self::Files(files) => files.iter().map(|file| file.path.len() + file.content.len() + 64).sum(),
        };
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}

impl From<Found> for Given {
    fn from(found: Found) -> Self {
        match found {
            Found::Paths(paths) => Self::Paths(paths),
            Found::Files(files) => Self::Files(files),
        }
    }
}

/// Listings of trees.
#[derive(Clone)]
pub(crate) struct Listings(Cache<(String, GitContent), Found>);

impl Default for Listings {
    fn default() -> Self {
        let cache = Cache::builder()
            .max_capacity(BYTES_MAX)
            .eviction_policy(EvictionPolicy::lru())
            .weigher(|(tree, _): &(String, GitContent), found: &Found| {
                found.bytes().saturating_add(u32::try_from(tree.len() + 256).unwrap_or(u32::MAX))
            })
            .build();
        Self(cache)
    }
}

impl Listings {
    /// What is looked for in a tree.
    pub(crate) async fn get(
        &self,
        compute: Compute,
        what: &GitContent,
        tree: Arc<dyn Tree>,
    ) -> Result<Given, String> {
        let key = (tree.id().to_owned(), what.clone());
        if let Some(found) = self.0.get(&key) {
            return Ok(found.into());
        }
        let waiting = StopOnDrop::default();
        let (cancelled, what) = (waiting.is_dropped(), what.clone());
        let found =
            compute.run(move || find(&*tree, &what, &cancelled)).await?.map_err(|error| error.to_string())?;
        self.0.insert(key, found.clone());
        Ok(found.into())
    }
}

fn find(
    tree: &dyn Tree,
    what: &GitContent,
    cancelled: &AtomicBool,
) -> Result<Found, tiphys_appset::generate::GitError> {
    match what {
        GitContent::Directories { hidden } => {
            find_directories(tree, *hidden, Some(cancelled)).map(|paths| Found::Paths(paths.into()))
        }
        GitContent::Files { include, exclude, globbing } => {
            find_files(tree, include, exclude, *globbing, Some(cancelled))
                .map(|files| Found::Files(files.into()))
        }
    }
}
