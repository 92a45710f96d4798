//! What is remembered of the refs of repositories, and how much of them is asked for (RND-36).
//!
//! The first listing of a repository holds all refs. Where these are many, later ones ask only for what somebody
//! looked for lately, so that a commit costs the same however many refs there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tiphys_api::repo_url;

use super::{Backend, Freshness, Sources};
use crate::observer::{Request, observed};
use crate::refs::{HEAD, Wanted, full_names};
use crate::work::blocking;
use crate::{RefList, Repository, SourceError};

/// Ref listings kept.
const LISTINGS_MAX: usize = 10_000;
/// Repositories with more refs are asked for single ones.
const WHOLE_REFS_MAX: usize = 1000;
/// Revisions that are asked for one by one; with more, everything is.
const REVISIONS_MAX: usize = 32;
/// A revision that nobody looked for in this time is not asked for with others.
const REVISION_UNUSED_MAX: Duration = Duration::from_hours(1);

/// What is known of the refs of one repository, as one set of credentials sees them.
#[derive(Default)]
pub(super) struct Listing {
    /// Held while the server is asked.
    asking: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Changes when what is known must not be used any more.
    epoch: u64,
    /// The list, when asking began, and the epoch then.
    list: Option<(Arc<RefList>, Duration, u64)>,
    /// The last failure and when it came.
    failure: Option<(SourceError, Duration)>,
    /// Whether the last list of all refs was a long one.
    is_long: bool,
    /// Revisions of a long list that somebody looked for, and when last.
    looked_for: BTreeMap<String, Duration>,
}

impl State {
    fn usable(&self, wanted: Wanted<'_>, oldest: Duration) -> Option<Arc<RefList>> {
        match &self.list {
            Some((list, began, epoch)) if *began >= oldest && *epoch == self.epoch && list.covers(wanted) => {
                Some(Arc::clone(list))
            }
            _ => None,
        }
    }

    /// Notes that a revision is looked for.
    fn note(&mut self, wanted: Wanted<'_>, now: Duration) {
        let Some(name) = wanted.name().filter(|_| self.is_long) else { return };
        if let Some(last) = self.looked_for.get_mut(name) {
            *last = now;
        } else if self.looked_for.len() < REVISIONS_MAX {
            self.looked_for.insert(name.to_owned(), now);
        }
    }

    /// The revisions to ask for; `None` for all refs.
    fn scope(&mut self, wanted: Wanted<'_>, now: Duration) -> Option<BTreeSet<String>> {
        let name = wanted.name().filter(|_| self.is_long)?;
        self.looked_for.retain(|_, last| now.saturating_sub(*last) <= REVISION_UNUSED_MAX);
        let names: BTreeSet<String> =
            self.looked_for.keys().cloned().chain([name.to_owned(), HEAD.to_owned()]).collect();
        (names.len() <= REVISIONS_MAX).then_some(names)
    }
}

impl Sources {
    /// All refs of a repository. Concurrent questions cost one listing (RND-36).
    pub async fn list_refs(
        &self,
        repository: &Repository,
        freshness: Freshness,
    ) -> Result<Arc<RefList>, SourceError> {
        let repository = &*self.admit(repository).await?;
        self.refs(repository, Wanted::All, freshness).await
    }

    /// The refs of a repository that was admitted, at least those that are wanted.
    pub(super) async fn refs(
        &self,
        repository: &Repository,
        wanted: Wanted<'_>,
        freshness: Freshness,
    ) -> Result<Arc<RefList>, SourceError> {
        let options = &self.0.options;
        let arrived = options.clock.elapsed();
        let ttl = *self.0.revision_ttl.lock();
        let oldest = freshness.oldest(arrived, ttl);
        let listing = self.listing(repository);
        let known = {
            let mut state = listing.state.lock();
            state.note(wanted, arrived);
            state.usable(wanted, oldest)
        };
        if freshness != Freshness::Fetch
            && let Some(list) = known
        {
            return Ok(list);
        }
        // Whoever waits too long asks the server without the lock.
        let asking = tokio::time::timeout(options.revision_lock_timeout, listing.asking.lock()).await;
        if asking.is_ok() {
            let state = listing.state.lock();
            if let Some(list) = state.usable(wanted, oldest) {
                return Ok(list);
            }
            if let Some((error, came)) = &state.failure
                && *came > arrived
            {
                return Err(error.clone());
            }
        }
        let began = options.clock.elapsed();
        let (epoch, scope) = {
            let mut state = listing.state.lock();
            (state.epoch, state.scope(wanted, began))
        };
        self.0.listings_made.fetch_add(1, Ordering::Relaxed);
        let result = self.ask(repository, wanted, scope).await.map(Arc::new);
        let mut state = listing.state.lock();
        match &result {
            Ok(list) => {
                state.failure = None;
                if list.is_whole() {
                    state.is_long = list.len() > WHOLE_REFS_MAX;
                    state.note(wanted, began);
                }
                // Two listings may run when one takes very long; the one that began first never replaces a
                // newer one, or an application would go back to an older commit (INV-3).
                match &state.list {
                    Some((newer, other, _)) if *other > began => {
                        if newer.covers(wanted) {
                            return Ok(Arc::clone(newer));
                        }
                    }
                    _ => state.list = Some((Arc::clone(list), began, epoch)),
                }
            }
            Err(error) => state.failure = Some((error.clone(), options.clock.elapsed())),
        }
        result
    }

    async fn ask(
        &self,
        repository: &Repository,
        wanted: Wanted<'_>,
        scope: Option<BTreeSet<String>>,
    ) -> Result<RefList, SourceError> {
        match &self.0.backend {
            Backend::Git { git, .. } => {
                let revision = match wanted {
                    Wanted::Revision { revision, .. } => revision,
                    Wanted::Access | Wanted::All => "",
                };
                let prefixes: Vec<String> =
                    scope.iter().flatten().flat_map(|revision| full_names(revision)).collect();
                let asked = (repository, Request::LsRemote, revision);
                let text = observed(git.observer(), asked, git.list(repository, &prefixes)).await?;
                blocking(move || Ok(RefList::parse(&text)?.within(scope))).await
            }
            Backend::Memory(fetched) => {
                RefList::parse(&fetched.list(repository, self.0.options.request_timeout).await?)
            }
        }
    }

    /// Forgets the refs of a repository, whatever spelling and credentials they were asked with. A listing that
    /// runs at this moment is not used by anybody who asks afterwards.
    pub fn invalidate(&self, url: &str) {
        let found: Vec<Arc<Listing>> = match self.0.listings.lock().get(&listing_group(url)) {
            Some(listings) => listings.values().map(Arc::clone).collect(),
            None => return,
        };
        for listing in found {
            let mut state = listing.state.lock();
            state.epoch += 1;
            state.list = None;
            state.failure = None;
        }
    }

    /// Ref listings asked of servers so far.
    pub fn listings_made(&self) -> u64 {
        self.0.listings_made.load(Ordering::Relaxed)
    }

    fn listing(&self, repository: &Repository) -> Arc<Listing> {
        let (group, key) = (listing_group(repository.url.expose()), repository.listing_key());
        let mut listings = self.0.listings.lock();
        if let Some(known) = listings.get(&group).and_then(|listings| listings.get(&key)) {
            return Arc::clone(known);
        }
        if listings.values().map(BTreeMap::len).sum::<usize>() >= LISTINGS_MAX {
            // Only reached by a stream of new credentials; whoever waits keeps his listing.
            listings.clear();
        }
        Arc::clone(listings.entry(group).or_default().entry(key).or_default())
    }
}

pub(crate) fn listing_group(url: &str) -> String {
    let normalized = repo_url::normalize(url);
    if normalized.is_empty() { url.to_owned() } else { normalized }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn named(revision: &str) -> Wanted<'_> {
        Wanted::Revision { revision, tag_prefix: "" }
    }

    #[test]
    fn rnd_36_short_lists_are_asked_for_as_a_whole() {
        let mut state = State::default();
        state.note(named("main"), Duration::ZERO);
        assert_eq!(state.scope(named("main"), Duration::ZERO), None);
    }

    #[test]
    fn rnd_36_of_long_lists_the_names_of_the_last_hour_are_asked_for() {
        let mut state = State { is_long: true, ..State::default() };
        let now = Duration::from_hours(1);
        state.note(named("old"), Duration::ZERO);
        state.note(named("main"), now);
        let names =
            |scope: Option<BTreeSet<String>>| scope.map(|scope| scope.into_iter().collect::<Vec<_>>());
        assert_eq!(
            names(state.scope(named(""), now)),
            Some(["HEAD", "main", "old"].map(str::to_owned).to_vec())
        );
        let later = now + Duration::from_secs(1);
        assert_eq!(
            names(state.scope(Wanted::Access, later)),
            Some(["HEAD", "main"].map(str::to_owned).to_vec())
        );
        assert_eq!(state.scope(named("~1.0"), later), None, "a range looks at all tags");
        assert_eq!(state.scope(Wanted::All, later), None);
    }

    #[test]
    fn rnd_36_with_too_many_names_everything_is_asked_for() {
        let mut state = State { is_long: true, ..State::default() };
        for n in 0..100 {
            state.note(named(&format!("branch-{n}")), Duration::ZERO);
        }
        assert_eq!(state.looked_for.len(), REVISIONS_MAX);
        assert_eq!(state.scope(named("other"), Duration::ZERO), None);
    }
}
