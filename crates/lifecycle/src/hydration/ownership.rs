//! Which Application owns a directory of a branch (CTL-109, INV-16).
//!
//! Applications claim directories: those that they are hydrated to, and those that they sync after another process has
//! merged. The oldest claim wins, decided from stored facts alone, so the answer is the same in every process and after
//! every restart. An Application that was edited to claim a directory is not as old as its `creationTimestamp` says:
//! the controller signs since when an Application holds its directory ([`signed_claim`]), and a signed claim counts
//! more than an unsigned one. Of two signed claims the later one counts: it was given when the earlier one was not made.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tiphys_api::application::Hydrator;
use tiphys_api::repo_url;
use tiphys_render::TreePath;

use super::group::destination;
use crate::webhook::{hmac_sha256, same_secret};

/// Purpose of the signature, so that it is none of anything else.
const PURPOSE: &str = "tiphys hydration claim 1";

/// A branch of a repository, whatever the URL is spelled like.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchId {
    place: String,
    branch: String,
}

impl BranchId {
    /// A branch; `None` where nothing can be fetched from the URL.
    pub fn new(url: &str, branch: &str) -> Option<Self> {
        let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch).to_owned();
        Some(Self { place: repo_url::place(url)?, branch })
    }

    /// Where the repository is.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Name of the branch.
    pub fn branch(&self) -> &str {
        &self.branch
    }
}

/// Whether a revision means the default branch of its repository.
pub fn is_default_branch(revision: &str) -> bool {
    matches!(revision, "" | "HEAD")
}

/// What an Application does with a directory of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Usage {
    /// Its manifests are committed there.
    Writes,
    /// It syncs from there what another process merged (`hydrateTo`).
    Syncs,
}

/// The branches that a hydrator claims its directory of, and the directory.
///
/// # Errors
/// When it names none that can be claimed.
pub fn claimed(hydrator: &Hydrator) -> Result<(TreePath, Vec<(BranchId, Usage)>), String> {
    let path = destination(hydrator)?;
    let sync = hydrator.sync_source();
    let unusable = || format!("repository {} cannot be written", repo_url::redact(&sync.repo_url));
    let target = BranchId::new(&sync.repo_url, hydrator.target_branch()).ok_or_else(unusable)?;
    let synced = BranchId::new(&sync.repo_url, &sync.target_revision).filter(|synced| *synced != target);
    let synced = synced.map(|synced| (synced, Usage::Syncs));
    Ok((path, std::iter::once((target, Usage::Writes)).chain(synced).collect()))
}

/// How old a claim is: the least is the oldest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Age {
    /// Since when the controller knows the Application to hold the directory.
    pub held_since: Option<Timestamp>,
    /// `creationTimestamp` of the Application.
    pub created: String,
    /// Namespace and name of the Application.
    pub name: (String, String),
}

impl Ord for Age {
    fn cmp(&self, other: &Self) -> Ordering {
        let held = match (self.held_since, other.held_since) {
            (Some(own), Some(theirs)) => theirs.cmp(&own),
            (own, theirs) => own.is_none().cmp(&theirs.is_none()),
        };
        // A time that is not known is no old one.
        let created =
            (self.created.is_empty(), &self.created).cmp(&(other.created.is_empty(), &other.created));
        held.then(created).then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for Age {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A claim of an Application that its project permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Project of the Application.
    pub project: String,
    /// The directory.
    pub path: TreePath,
    /// What is done with it.
    pub usage: Usage,
    /// Its age, with the name of the Application.
    pub age: Age,
}

impl Claim {
    /// Whether two Applications cannot both have what they claim of one branch. Within a project directories may lie in
    /// each other; between projects they may not.
    fn conflicts(&self, other: &Self) -> bool {
        if self.age.name == other.age.name || (self.usage, other.usage) == (Usage::Syncs, Usage::Syncs) {
            return false;
        }
        self.path == other.path || (self.project != other.project && overlap(&self.path, &other.path))
    }
}

/// Whether two directories are the same, or one lies in the other.
pub fn overlap(a: &TreePath, b: &TreePath) -> bool {
    lies_in(a, b) || lies_in(b, a)
}

/// Whether a directory is another one, or lies in it.
fn lies_in(inner: &TreePath, outer: &TreePath) -> bool {
    let below = inner.as_str().strip_prefix(outer.as_str());
    outer.is_root() || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// How much of a branch an Application with a plain source, or with a dry source, reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// One directory, and nothing outside of it.
    Directory(TreePath),
    /// Perhaps anything.
    Branch,
}

impl Extent {
    /// Whether what is written to a directory may be read.
    pub fn reads(&self, path: &TreePath) -> bool {
        match self {
            Self::Directory(own) => lies_in(path, own),
            Self::Branch => true,
        }
    }
}

/// An Application that reads a branch and does not claim a directory of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// Project of the Application.
    pub project: String,
    /// How much it reads.
    pub extent: Extent,
    /// Its age.
    pub age: Age,
}

impl Reader {
    /// Whether a claim would change what is read: of another project, and there before, or created in the same second. API
    /// servers tell no more than seconds, and a directory that is read must not depend on whose name comes first.
    pub fn is_affected(&self, claim: &Claim) -> bool {
        let is_same_second = claim.age.held_since.is_none() && self.age.created == claim.age.created;
        claim.usage == Usage::Writes
            && self.project != claim.project
            && self.extent.reads(&claim.path)
            && (is_same_second || self.age < claim.age)
    }
}

/// Whether affected readers preclude a claim. One that reads a directory which the claimant's project is known to hold
/// (`is_held_in`) does not: it began to read there when the project wrote there already, and would have precluded that
/// claim otherwise. So nobody keeps a project out of a branch by reading it.
pub fn is_precluded(affected: &BTreeSet<Extent>, is_held_in: &dyn Fn(&Extent) -> bool) -> bool {
    affected.iter().any(|extent| !is_held_in(extent))
}

/// Facts about one branch.
pub trait BranchFacts {
    /// Claims of directories that are this one, lie in it, or that it lies in; of permitted Applications.
    fn claims(&self, path: &TreePath) -> Vec<Claim>;

    /// Whether permitted readers preclude a claim ([`is_precluded`]).
    fn is_precluded(&self, claim: &Claim) -> bool;
}

/// Why an Application does not get the directory that it claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Another one of its project, of this namespace and name, claimed it before.
    Sibling(String, String),
    /// One of another project did, which is not named.
    Foreign,
    /// One of another project reads the branch.
    Read,
}

/// Whether an Application gets the directory that it claims of a branch; `None` when it does.
pub fn loss(own: &Claim, branch: &dyn BranchFacts) -> Option<Loss> {
    let relevant = rivals(own, branch);
    let mut owners: Vec<&Claim> = Vec::new();
    for claim in relevant.values() {
        let winner = owners.iter().find(|owner| owner.conflicts(claim)).copied();
        let is_precluded = winner.is_none() && branch.is_precluded(claim);
        if claim.age.name == own.age.name {
            return match winner {
                Some(winner) if winner.project == own.project => {
                    let (namespace, name) = winner.age.name.clone();
                    Some(Loss::Sibling(namespace, name))
                }
                Some(_) => Some(Loss::Foreign),
                None => is_precluded.then_some(Loss::Read),
            };
        }
        if winner.is_none() && !is_precluded {
            owners.push(claim);
        }
    }
    None
}

/// A claim with all that decide about it, the oldest first: older claims that conflict with it, and with those. There are
/// no more of them than Applications.
fn rivals(own: &Claim, branch: &dyn BranchFacts) -> BTreeMap<Age, Claim> {
    let mut found = BTreeMap::from([(own.age.clone(), own.clone())]);
    let mut open = vec![own.clone()];
    while let Some(claim) = open.pop() {
        for other in branch.claims(&claim.path) {
            if other.age < claim.age && other.conflicts(&claim) && !found.contains_key(&other.age) {
                found.insert(other.age.clone(), other.clone());
                open.push(other);
            }
        }
    }
    found
}

/// The value of the annotation that says since when an Application holds its directory, and that the controller wrote it
/// for this Application (`uid`) and this directory.
pub fn signed_claim(key: &[u8], uid: &str, hydrator: &Hydrator, since: Timestamp) -> Option<String> {
    let text = since.to_string();
    Some(format!("{text} {}", signature(key, uid, hydrator, &text)?))
}

/// Since when an Application holds its directory, if the controller wrote that.
pub fn held_since(key: &[u8], uid: &str, hydrator: &Hydrator, annotation: Option<&str>) -> Option<Timestamp> {
    let (text, given) = annotation?.split_once(' ')?;
    let expected = signature(key, uid, hydrator, text)?;
    let since = text.parse().ok()?;
    same_secret(&expected, given).then_some(since)
}

fn signature(key: &[u8], uid: &str, hydrator: &Hydrator, since: &str) -> Option<String> {
    if key.is_empty() || uid.is_empty() {
        return None;
    }
    let (path, branches) = claimed(hydrator).ok()?;
    let mut message = Vec::new();
    let branches = branches.iter().flat_map(|(branch, _)| [branch.place(), branch.branch()]);
    for part in [PURPOSE, uid, since, path.as_str()].into_iter().chain(branches) {
        message.extend((part.len() as u64).to_be_bytes());
        message.extend(part.as_bytes());
    }
    Some(hmac_sha256(key, &message))
}

/// How a loss is told: what belongs to another project is not named.
pub fn told(loss: &Loss, hydrator: &Hydrator, qualified: &dyn Fn(&str, &str) -> String) -> String {
    let sync = hydrator.sync_source();
    let (url, path, branch) = (repo_url::redact(&sync.repo_url), &sync.path, hydrator.target_branch());
    match loss {
        Loss::Sibling(namespace, name) => {
            let other = qualified(namespace, name);
            format!("app {other} hydrator uses the same destination: repo={url}, path={path}")
        }
        Loss::Foreign => format!(
            "the destination belongs to another Application: repo={url}, branch={branch}, path={path}; choose a path that \
             is neither in its directory nor around it"
        ),
        Loss::Read => format!(
            "the branch is a source of another Application of another project: repo={url}, branch={branch}, path={path}; \
             choose another branch"
        ),
    }
}

#[cfg(test)]
mod tests;
