//! Directories of branches that applications claim, by branch (CTL-109): rivals are looked up, and nothing walks all
//! applications.

use std::collections::{BTreeMap, HashMap};

use smol_str::SmolStr;
use tiphys_api::Application;
use tiphys_lifecycle::hydration::ownership::{BranchId, Usage, claimed, overlap};
use tiphys_render::TreePath;

use super::{AppEntry, AppStore, Reads};
use crate::app_key::AppKey;

/// A directory that an application claims, with what decides whether it may.
#[derive(Clone, Debug)]
pub(crate) struct Stake {
    pub(crate) path: TreePath,
    pub(crate) usage: Usage,
    pub(crate) project: SmolStr,
    /// URLs that the project has to permit: that of the dry source, and that of the branch.
    pub(crate) urls: [SmolStr; 2],
}

/// All stakes.
#[derive(Debug, Default)]
pub(super) struct Stakes(HashMap<BranchId, BTreeMap<AppKey, Stake>>);

impl Stakes {
    pub(super) fn add(&mut self, key: &AppKey, app: &Application) {
        for (branch, stake) in stakes_of(app) {
            self.0.entry(branch).or_default().insert(key.clone(), stake);
        }
    }

    pub(super) fn remove(&mut self, key: &AppKey, app: &Application) {
        for (branch, _) in stakes_of(app) {
            if let Some(stakes) = self.0.get_mut(&branch) {
                stakes.remove(key);
                if stakes.is_empty() {
                    self.0.remove(&branch);
                }
            }
        }
    }

    fn of(&self, branch: &BranchId) -> impl Iterator<Item = (&AppKey, &Stake)> {
        self.0.get(branch).into_iter().flatten()
    }

    fn has(&self, branch: &BranchId, key: &AppKey) -> bool {
        self.0.get(branch).is_some_and(|stakes| stakes.contains_key(key))
    }
}

/// What an application claims; one that names no usable directory claims none.
fn stakes_of(app: &Application) -> Vec<(BranchId, Stake)> {
    let Some(hydrator) = &app.spec.source_hydrator else { return Vec::new() };
    let Ok((path, branches)) = claimed(hydrator) else { return Vec::new() };
    let urls = [hydrator.dry_source(), hydrator.sync_source()].map(|source| SmolStr::new(&source.repo_url));
    let stake =
        |usage| Stake { path: path.clone(), usage, project: app.project().into(), urls: urls.clone() };
    branches.into_iter().map(|(branch, usage)| (branch, stake(usage))).collect()
}

/// An application that reads a branch and claims no directory of it.
pub(crate) struct BranchReader<'a> {
    pub(crate) key: &'a AppKey,
    pub(crate) entry: &'a AppEntry,
    /// URL of its source.
    pub(crate) url: &'a str,
    /// How much it reads.
    pub(crate) reads: Reads,
}

impl AppStore {
    /// Applications that claim directories of a branch: this one, those in it and those that it lies in; or all of them.
    pub(crate) fn stakes(
        &self,
        branch: &BranchId,
        path: Option<&TreePath>,
    ) -> Vec<(AppKey, Stake, AppEntry)> {
        let state = self.state.read();
        let rivals =
            state.stakes.of(branch).filter(|(_, stake)| path.is_none_or(|path| overlap(&stake.path, path)));
        rivals
            .filter_map(|(key, stake)| Some((key.clone(), stake.clone(), state.apps.get(key)?.clone())))
            .collect()
    }

    /// Whether any application with a plain or dry source of a branch is as asked for; with `as_default` those that name
    /// the default branch of the repository.
    pub(crate) fn has_branch_reader(
        &self,
        branch: &BranchId,
        as_default: bool,
        is_it: &mut dyn FnMut(&BranchReader<'_>) -> bool,
    ) -> bool {
        let state = self.state.read();
        state.by_reference.readers(branch, as_default).any(|read| {
            let is_claimant = !read.is_dry && state.stakes.has(branch, read.key);
            let entry = state.apps.get(read.key).filter(|_| !is_claimant);
            entry.is_some_and(|entry| {
                is_it(&BranchReader { key: read.key, entry, url: read.url, reads: read.reads })
            })
        })
    }
}
