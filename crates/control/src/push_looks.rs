//! What a push really changed, for applications that name no paths: the trees of the two commits are compared, once for
//! each repository, reference and project, and those whose directory it touched are compared. The others get the
//! revision, as those do whose `manifest-generate-paths` a push does not touch (API-207).
//!
//! Nothing is taken on trust: what a look cannot find out concerns everybody. An application that is not asked was
//! compared at the commit of the last look or is about to be, and nothing that it renders has changed since.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tiphys_lifecycle::refresh::Level;
use tiphys_source::Freshness;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::store::Reference;

/// Looks at a time; a repository that answers slowly holds up itself, and three others at most.
const LOOKS_MAX: usize = 4;
/// Commits that are remembered. Beyond, one push of each reference concerns everybody once more.
const HEADS_MAX: usize = 10_000;

/// Looks at what was pushed to, until the controller stops.
pub(crate) async fn follow(context: Arc<Context>, cancel: CancellationToken) {
    // The commits of the last looks.
    let mut heads: HashMap<Reference, String> = HashMap::new();
    let mut busy = HashSet::new();
    let mut looks = FuturesUnordered::new();
    loop {
        while looks.len() < LOOKS_MAX
            && let Some(reference) = context.pushes.next(&busy)
        {
            busy.insert(reference.clone());
            let last = heads.remove(&reference);
            looks.push(look(&context, reference, last));
        }
        // Cancel-safe: looks stay in the set, and a missed wake-up is kept by the notification.
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            Some((reference, head)) = looks.next(), if !looks.is_empty() => {
                busy.remove(&reference);
                if heads.len() >= HEADS_MAX {
                    heads.clear();
                }
                // Without one, the next push concerns everybody once more.
                heads.extend(head.map(|head| (reference, head)));
            }
            () = context.pushes.told() => {}
        }
    }
}

/// Asks those whom the change since the last look concerns; returns the commit that was seen.
async fn look(context: &Context, reference: Reference, last: Option<String>) -> (Reference, Option<String>) {
    let changed = Box::pin(changed(context, &reference, last));
    let (head, files) = match tiphys_source::on_behalf_of(&reference.project, changed).await {
        Ok((head, files)) => (Some(head), files),
        Err(reason) => {
            tracing::debug!(url = %reference.url, reason, "what a push changed could not be found out");
            (None, None)
        }
    };
    context.request_all(&context.store.within(&reference, files.as_deref()), Level::Latest);
    (reference, head)
}

/// The commit that a reference means now, and the files that differ from the last one; `None` when that is not known.
async fn changed(
    context: &Context,
    Reference { url, name, project }: &Reference,
    last: Option<String>,
) -> Result<(String, Option<Vec<String>>), String> {
    let world = context.world.load_full();
    let rules = world.project(project).map_err(|_missing| "there is no such project".to_owned())?;
    // Nothing is fetched that the project does not permit; whoever asks for it is told so.
    if let Some(refusal) = world.repository_refusal(rules, url) {
        return Err(refusal);
    }
    // A commit that touches nothing of an application may still not be signed: each of them looks (REP-202).
    if !matches!(world.signature_rule(rules, url), Ok(None)) {
        return Err("the project wants signatures to be verified".to_owned());
    }
    let repository = world.repository(url, project)?;
    let resolved = context.sources.resolve(&repository, name, Freshness::Cached).await;
    let commit = resolved.map_err(|error| error.to_string())?;
    let Some(last) = last else { return Ok((commit, None)) };
    if last == commit {
        return Ok((commit, Some(Vec::new())));
    }
    match context.sources.changed_files(&repository, &last, &commit).await {
        Ok(files) => Ok((commit, Some(files))),
        Err(error) => {
            tracing::debug!(%url, %error, "two commits could not be compared");
            Ok((commit, None))
        }
    }
}
