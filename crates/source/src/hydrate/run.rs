//! One run: a fresh clone, a commit, a push, a note (CTL-114).

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use tempfile::TempDir;

use super::objects::Scratch;
use super::{Hydrated, Hydration, NOTES, Pushed, check_branch, plan};
use crate::git::{Cause, Failed, Git};
use crate::observer::{Request, observed};
use crate::refs::RefList;
use crate::repository::Transport;
use crate::work::long;
use crate::{Repository, SourceError};

/// Runs that begin anew because somebody else pushed meanwhile.
const ATTEMPTS_MAX: u32 = 4;
/// Pushes of a note that begin anew.
const NOTE_ATTEMPTS_MAX: u32 = 6;
/// A fresh clone may be as large as that of a repository that was too large once.
const CLONE_TRIES: u32 = 1;
/// Pause before such a one; it grows with each.
const AGAIN: Duration = Duration::from_millis(200);

/// Makes a branch what is wanted, whatever others push meanwhile: what they pushed stays.
pub(crate) async fn run(
    git: &Git,
    repository: &Repository,
    directory: &Path,
    wanted: &Hydration,
    now: Timestamp,
) -> Result<Hydrated, SourceError> {
    check_branch(&wanted.sync_branch)?;
    check_branch(&wanted.target_branch)?;
    if repository.transport()? == Transport::Local {
        // The program that takes a push in would run here, with the hooks of whoever owns the directory.
        let text = "manifests are pushed to servers, not to directories of this machine".to_owned();
        return Err(SourceError::InvalidRepository { text });
    }
    let mut attempt = 1;
    loop {
        match once(git, repository, directory, wanted, now).await {
            Err(Failed { cause: Cause::Conflict, .. }) if attempt < ATTEMPTS_MAX => {
                tracing::debug!(repository = %repository.url, attempt, "somebody else pushed; the commit is made anew");
                tokio::time::sleep(AGAIN * attempt).await;
                attempt += 1;
            }
            other => return other.map_err(SourceError::from),
        }
    }
}

async fn once(
    git: &Git,
    repository: &Repository,
    directory: &Path,
    wanted: &Hydration,
    now: Timestamp,
) -> Result<Hydrated, Failed> {
    let scratch = scratch(directory).await?;
    git.init(scratch.path()).await?;
    let listing = git.list(repository, &[]);
    let listing = observed(git.observer(), (repository, Request::CommitLsRemote, ""), listing).await?;
    let list = RefList::parse(&listing)?;
    if let Some(text) = wanted.as_default_branch.as_ref().filter(|_| list.is_default(&wanted.target_branch)) {
        return Err(SourceError::Denied { text: text.clone() }.into());
    }
    let head = |branch: &str| list.commit(&format!("refs/heads/{branch}"));
    let (sync, target) = (head(&wanted.sync_branch), head(&wanted.target_branch));
    let notes = list.commit(NOTES);
    let branches = [(&sync, &wanted.sync_branch), (&target, &wanted.target_branch)];
    let mut specs: Vec<String> = branches
        .into_iter()
        .filter(|(commit, _)| commit.is_some())
        .map(|(_, branch)| format!("+refs/heads/{branch}:refs/heads/{branch}"))
        .collect();
    specs.dedup();
    if notes.is_some() {
        specs.push(format!("+{NOTES}:{NOTES}"));
    }
    if !specs.is_empty() {
        let allowance = git.allowance(0, CLONE_TRIES);
        let fetching = git.fetch(repository, scratch.path(), (1, &specs), &allowance);
        observed(git.observer(), (repository, Request::CommitFetch, ""), fetching).await?;
    }
    let found = Found { sync, target, notes };
    let (place, wanted_now) = (scratch.path().to_owned(), wanted.clone());
    let made = long(move || make(&place, &found, &wanted_now, now)).await?;
    if !made.pushes.is_empty() {
        let pushing = git.push(repository, scratch.path(), &made.pushes);
        observed(git.observer(), (repository, Request::Push, &made.commit), pushing).await?;
    }
    if made.has_note {
        return Ok(Hydrated { commit: made.commit, pushed: made.pushed });
    }
    // Another run may have added one to another commit.
    for attempt in 1.. {
        git.add_note(scratch.path(), NOTES, &made.commit, &wanted.note, &wanted.author).await?;
        let specs = [format!("{NOTES}:{NOTES}")];
        let pushing = git.push(repository, scratch.path(), &specs);
        let pushed = observed(git.observer(), (repository, Request::Push, NOTES), pushing).await;
        match pushed {
            Err(Failed { cause: Cause::Conflict, .. }) if attempt < NOTE_ATTEMPTS_MAX => {
                tokio::time::sleep(AGAIN * attempt).await;
                let specs = [format!("+{NOTES}:{NOTES}")];
                let allowance = git.allowance(0, CLONE_TRIES);
                let fetching = git.fetch(repository, scratch.path(), (1, &specs), &allowance);
                observed(git.observer(), (repository, Request::CommitFetch, ""), fetching).await?;
            }
            Err(failed) => return Err(failed),
            Ok(()) => break,
        }
    }
    Ok(Hydrated { commit: made.commit, pushed: made.pushed })
}

/// Commits as the server listed them.
struct Found {
    sync: Option<String>,
    target: Option<String>,
    notes: Option<String>,
}

/// What is to be pushed.
struct Made {
    /// Head of the branch then.
    commit: String,
    pushes: Vec<String>,
    /// Whether the commit has its note already.
    has_note: bool,
    pushed: Pushed,
}

fn make(directory: &Path, found: &Found, wanted: &Hydration, now: Timestamp) -> Result<Made, SourceError> {
    let scratch = Scratch::open(directory)?;
    let mut pushes = Vec::new();
    let mut sync = found.sync.clone();
    if sync.is_none() && wanted.sync_branch != wanted.target_branch {
        // Both branches need a common beginning, or nobody could merge one into the other.
        let message = format!("Begin {}\n", wanted.sync_branch);
        let root = scratch.commit(scratch.empty()?, None, &message, &wanted.author, now)?;
        pushes.push(format!("{root}:refs/heads/{}", wanted.sync_branch));
        sync = Some(root);
    }
    let head = found.target.clone().or(sync);
    let branch = scratch.branch(head.as_deref())?;
    let plan = plan(&branch, wanted)?;
    let to_target = |commit: &str| format!("{commit}:refs/heads/{}", wanted.target_branch);
    let Some(head) = head.as_ref().filter(|_| plan.is_nothing()) else {
        let tree = scratch.write(&branch, &plan)?;
        let commit = scratch.commit(tree, head.as_deref(), &wanted.message, &wanted.author, now)?;
        pushes.push(to_target(&commit));
        return Ok(Made { commit, pushes, has_note: false, pushed: Pushed::Commit });
    };
    if found.target.is_none() {
        pushes.push(to_target(head));
    }
    let note = scratch.note(found.notes.as_deref(), head)?;
    let has_note = note.is_some_and(|note| wanted.is_noted(&note));
    let pushed = if has_note { Pushed::Nothing } else { Pushed::Note };
    Ok(Made { commit: head.clone(), pushes, has_note, pushed })
}

/// A private directory that is gone with the value.
async fn scratch(directory: &Path) -> Result<TempDir, SourceError> {
    let directory = directory.to_owned();
    long(move || {
        let made = std::fs::create_dir_all(&directory).and_then(|()| TempDir::new_in(&directory));
        made.map_err(|error| SourceError::Cache {
            text: format!("cannot make a directory for the hydration: {}", error.kind()),
        })
    })
    .await
}
