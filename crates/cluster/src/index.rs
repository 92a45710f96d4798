//! What a cluster holds, watched: a compact record of every object, the full text of ours.
//!
//! The index answers "what belongs to this application?", "what is under these roots?" and "is this object
//! there?" without asking the API server. It is complete or says that it is not: every kind has a
//! [`KindState`], and [`Seen::Absent`] is only said of a kind that is [`KindState::Complete`].
//!
//! Size shaped it: 200,000 objects of which most belong to nobody. Such an object is about 120 bytes plus its
//! place in a map, its changes cost a look-up and produce no event. Only objects that carry this
//! installation's tracking value (and have no owner) are kept in full, plus those that were asked for and
//! custom resource definitions (ENG-24).
//!
//! One lock, one writer at a time, nothing waits under it. Events leave through the caller's bounded channel;
//! when it is full the watches stall, which is the backpressure we want.

mod live;
mod orphans;
mod query;
mod record;
mod sink;
mod state;
mod supervisor;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use smol_str::SmolStr;
use tiphys_object::{GroupKind, Gvk, Metadata, Object, ResourceKey};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::connection::Connection;
use crate::kinds::{ApiResource, Discovery, ResourceFilter, Served};
use crate::watch::Jitter;

pub use orphans::OrphanQuery;
pub use query::{Managed, ParentRef, Seen, TreeNode};
pub use record::Derived;
use state::State;

/// Says by what an object's own metadata names its owner: texts that stand for applications (TRK-85). Several, where objects
/// may be marked in several ways at once (TRK-91).
pub type Claim = Arc<dyn Fn(&Metadata) -> BTreeSet<SmolStr> + Send + Sync>;
/// Computes health and node details of an object whose manifest is not kept (ENG-197).
pub type Derive = Arc<dyn Fn(&Value) -> Derived + Send + Sync>;

/// How objects are recognised as ours.
#[derive(Clone)]
pub struct Claims {
    /// Every label and annotation key that `claim` looks at. Objects with none of them are not shown to it.
    pub keys: Vec<SmolStr>,
    /// The decision.
    pub claim: Claim,
    /// Names of the ways in which it reads objects; an answer says nothing about objects that are marked in another way.
    pub ways: Vec<u64>,
}

/// What the index of one cluster covers and how.
#[derive(Clone)]
pub struct IndexOptions {
    /// How objects are recognised as ours.
    pub claims: Claims,
    /// Health and details of descendants.
    pub derive: Derive,
    /// Kinds that are left out (ENG-7).
    pub filter: ResourceFilter,
    /// The cluster's server as settings name it, for the filter's cluster patterns.
    pub server: String,
    /// Namespaced mode: only these namespaces; empty means all (ENG-21).
    pub namespaces: Vec<SmolStr>,
    /// Whether cluster-scoped kinds are watched in namespaced mode (ENG-21).
    pub cluster_resources: bool,
    /// Objects per page of a list; 0 means no paging (ENG-10).
    pub page_size: u32,
    /// Lists that run at the same time (ENG-10).
    pub lists_max: usize,
    /// Age after which a kind is listed again; `None` means never (ENG-10).
    pub resync: Option<Duration>,
    /// Spreads waits.
    pub jitter: Jitter,
}

impl IndexOptions {
    /// The defaults of ENG-10 for a cluster-wide index.
    pub fn new(server: &str, claims: Claims, derive: Derive, jitter: Jitter) -> Self {
        Self {
            claims,
            derive,
            filter: ResourceFilter::default(),
            server: server.to_owned(),
            namespaces: Vec::new(),
            cluster_resources: true,
            page_size: 500,
            lists_max: 50,
            // Deviation (ENG-10): an hour instead of ten minutes, because watches are resumed and checked by
            // bookmarks, and listing 200,000 objects every ten minutes costs more than everything else.
            resync: Some(Duration::from_hours(1)),
            jitter,
        }
    }
}

/// How much of a kind is known. Unknown is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindState {
    /// The first list has not ended.
    Pending,
    /// Every object is known as of this version, and changes are followed.
    Complete {
        /// Version of the list or of the last bookmark.
        resource_version: SmolStr,
    },
    /// Nothing can be said; objects from before may still be listed.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Something that concerns an application happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexEvent {
    /// An object was added, changed or removed after the first list of its kind, or is in the first list of a
    /// kind that came when others were watched already.
    Changed {
        /// The object.
        key: ResourceKey,
        /// Instance names of the applications it belongs or belonged to. None where it concerns none, and its namespace
        /// is one that was asked for ([`ClusterIndex::observe`]).
        applications: BTreeSet<SmolStr>,
        /// Whether it is a managed object rather than a descendant of one.
        is_managed: bool,
        /// Whether it is gone.
        is_deleted: bool,
        /// Whether the health computed for a descendant is another one.
        health_changed: bool,
    },
    /// A kind became complete, failed, or is no longer served (then `state` is `None`).
    KindChanged {
        /// The kind.
        group_kind: GroupKind,
        /// Its state now.
        state: Option<KindState>,
    },
    /// Discovery found kinds added or removed.
    KindsChanged,
    /// The API server answers again after it answered nothing.
    Reachable,
}

/// The watched content of one cluster. Cloning is cheap; the last clone does not stop the watches, the token
/// given to [`ClusterIndex::start`] does.
#[derive(Clone)]
pub struct ClusterIndex {
    shared: Arc<Shared>,
}

struct Shared {
    connection: Connection,
    discovery: Discovery,
    options: IndexOptions,
    filter: Mutex<ResourceFilter>,
    state: Mutex<State>,
    status: Mutex<Status>,
    /// Told about every change of the status. Unlike a watch channel it wakes in the order of waiting, so that
    /// equal histories go on equally.
    told: Notify,
    events: mpsc::Sender<IndexEvent>,
    lists: Arc<Semaphore>,
    /// Counts requests to list something again.
    relist: watch::Sender<u64>,
    doubts: Mutex<Doubts>,
}

/// Time between two lists of a kind that are made for objects the list before lacked.
const DOUBT_PERIOD: Duration = Duration::from_mins(10);

/// Lists that are not believed any more.
#[derive(Debug, Default)]
struct Doubts {
    /// What is to be listed again; everything when it is not only some kinds.
    kinds: BTreeSet<GroupKind>,
    is_everything: bool,
    /// When a kind was last listed again for an object that its list lacked.
    listed: BTreeMap<GroupKind, Instant>,
}

/// Progress of the index as a whole.
#[derive(Clone, Debug, Default)]
struct Status {
    /// Kinds to watch are known.
    is_planned: bool,
    /// Why discovery fails at the moment.
    error: Option<String>,
}

impl ClusterIndex {
    /// Starts discovering and watching; returns at once. Tasks belong to `tracker` and end with `cancel`.
    ///
    /// Events are sent to `events`; when it is full the watches stall.
    pub fn start(
        connection: Connection,
        discovery: Discovery,
        options: IndexOptions,
        events: mpsc::Sender<IndexEvent>,
        tracker: &TaskTracker,
        cancel: CancellationToken,
    ) -> Self {
        let index = Self {
            shared: Arc::new(Shared {
                connection,
                discovery,
                filter: Mutex::new(options.filter.clone()),
                state: Mutex::new(State::new(options.claims.clone(), Arc::clone(&options.derive))),
                status: Mutex::default(),
                told: Notify::new(),
                events,
                lists: Arc::new(Semaphore::new(options.lists_max.max(1))),
                relist: watch::Sender::new(0),
                doubts: Mutex::default(),
                options,
            }),
        };
        let stop = cancel.clone();
        let supervisor = supervisor::Supervisor::new(index.clone(), tracker.clone(), cancel);
        tracker.spawn(supervisor.run());
        let watching = index.clone();
        tracker.spawn(async move { stop.run_until_cancelled(watch_over(watching)).await });
        index
    }

    /// Waits until every kind is complete or failed.
    ///
    /// # Errors
    /// The reason, when the cluster cannot be discovered.
    pub async fn ready(&self) -> Result<(), String> {
        loop {
            // Asked for before looking, so that no change in between is missed.
            let told = self.shared.told.notified();
            {
                let status = self.shared.status.lock();
                if let Some(error) = status.error.as_ref().filter(|_| !status.is_planned) {
                    return Err(error.clone());
                }
                if status.is_planned && !self.has_pending() && self.is_claimed_anew() {
                    return Ok(());
                }
            }
            told.await;
        }
    }

    /// The connection the index watches with.
    pub fn connection(&self) -> &Connection {
        &self.shared.connection
    }

    /// What the cluster serves.
    pub fn discovery(&self) -> &Discovery {
        &self.shared.discovery
    }

    /// Why the API server does not answer anything; then nobody should wait for it (CTL-141).
    pub fn unreachable(&self) -> Option<String> {
        self.shared.connection.unreachable()
    }

    /// Why the cluster cannot be discovered at the moment.
    pub fn error(&self) -> Option<String> {
        self.shared.status.lock().error.clone()
    }

    /// State of every watched kind.
    pub fn kind_states(&self) -> BTreeMap<GroupKind, KindState> {
        let state = self.shared.state.lock();
        state.kinds.iter().filter_map(|store| Some((store.group_kind.clone(), store.state()?))).collect()
    }

    /// Where objects of a kind are watched: in no namespace when they are left out, in `""` when everywhere
    /// (ENG-4, ENG-7, ENG-21).
    fn scopes(&self, resource: &ApiResource) -> BTreeSet<SmolStr> {
        let options = &self.shared.options;
        let everywhere = || BTreeSet::from([SmolStr::default()]);
        if !self.shared.filter.lock().is_included(&resource.gvk.group_kind(), &options.server) {
            BTreeSet::new()
        } else if options.namespaces.is_empty() {
            everywhere()
        } else if resource.is_namespaced() {
            options.namespaces.iter().cloned().collect()
        } else if options.cluster_resources {
            everywhere()
        } else {
            BTreeSet::new()
        }
    }

    /// Why objects of a kind may exist that the index knows nothing of, because it does not watch the kind
    /// although it should. `None` when it is watched, left out by settings, or not served (ENG-5).
    pub fn unwatched(&self, gvk: &Gvk) -> Option<String> {
        let group_kind = gvk.group_kind();
        let is_watched = {
            let state = self.shared.state.lock();
            let store = state.kind_id(&group_kind).and_then(|kind| state.store(kind));
            store.is_some_and(|store| !store.watches.is_empty())
        };
        if is_watched {
            return None;
        }
        let Some(kinds) = self.shared.discovery.snapshot() else {
            return Some("the cluster was not discovered".to_owned());
        };
        match kinds.preferred(&group_kind) {
            Some(resource) if resource.is_watchable() && !self.scopes(resource).is_empty() => {
                Some("not listed yet".to_owned())
            }
            Some(_) => None,
            None => match kinds.served(gvk) {
                Served::Unknown => Some(format!("the API group {:?} does not answer", gvk.group.as_str())),
                Served::Yes(_) | Served::No => None,
            },
        }
    }

    /// Number of objects of every watched kind.
    pub fn counts(&self) -> BTreeMap<GroupKind, usize> {
        let state = self.shared.state.lock();
        let watched = state.kinds.iter().filter(|store| !store.watches.is_empty());
        watched.map(|store| (store.group_kind.clone(), store.objects.len())).collect()
    }

    /// Events of the watches of each kind so far, of those that had any (CTL-120).
    pub fn events(&self) -> Vec<(GroupKind, u64)> {
        let state = self.shared.state.lock();
        let stores = state.kinds.iter().filter(|store| store.events > 0);
        stores.map(|store| (store.group_kind.clone(), store.events)).collect()
    }

    /// Age of the oldest list of a watched kind, since which its watch tells of every change (CTL-120); `None` before the
    /// first list.
    pub fn age(&self) -> Option<Duration> {
        let state = self.shared.state.lock();
        let listed =
            state.kinds.iter().flat_map(|kind| kind.watches.values().filter_map(|watch| watch.listed));
        listed.min().map(|oldest| oldest.elapsed())
    }

    /// Changes how objects are recognised as ours and lists everything again; until a kind is listed it
    /// answers by the old rule, and [`Self::ready`] waits.
    pub fn set_claims(&self, claims: Claims) {
        {
            let mut state = self.shared.state.lock();
            state.claims = claims;
            state.renew_claims();
        }
        self.relist();
    }

    /// Whether every kind that could be listed at all was listed since the claims were set last.
    fn is_claimed_anew(&self) -> bool {
        self.shared.state.lock().is_claimed_anew()
    }

    /// Changes how descendants are judged, and lists everything again.
    pub fn set_derive(&self, derive: Derive) {
        {
            let mut state = self.shared.state.lock();
            state.derive = derive;
            state.renew();
        }
        self.relist();
    }

    /// Changes which kinds are watched.
    pub fn set_filter(&self, filter: ResourceFilter) {
        *self.shared.filter.lock() = filter;
        self.shared.discovery.hint();
    }

    /// Lists everything again, keeping what is known meanwhile.
    fn relist(&self) {
        self.shared.doubts.lock().is_everything = true;
        self.shared.relist.send_modify(|count| *count += 1);
    }

    /// Tells the index of an object that exists although it knows nothing of it. Where the list of the kind is
    /// as new as the object, that list was wrong, and the kind is listed again (F7) — not more often than every
    /// [`DOUBT_PERIOD`], in case the API server goes on contradicting itself.
    pub fn contradict(&self, object: &Object) {
        let group_kind = object.gvk().group_kind();
        if !matches!(self.get(&object.key()), Seen::Absent) {
            return;
        }
        let Some(KindState::Complete { resource_version }) = self.kind_state(&group_kind) else { return };
        // Versions are numbers wherever they can be compared at all.
        let (Ok(listed), Ok(own)) =
            (resource_version.parse::<u64>(), object.metadata().resource_version.parse::<u64>())
        else {
            return;
        };
        if own > listed {
            return;
        }
        let mut doubts = self.shared.doubts.lock();
        let now = Instant::now();
        if doubts.listed.get(&group_kind).is_some_and(|at| now.duration_since(*at) < DOUBT_PERIOD) {
            return;
        }
        warn!(
            server = self.shared.options.server.as_str(),
            kind = %group_kind,
            object = %object.key(),
            "an object exists that its list lacks; the kind is listed again"
        );
        doubts.listed.insert(group_kind.clone(), now);
        doubts.kinds.insert(group_kind);
        drop(doubts);
        self.shared.relist.send_modify(|count| *count += 1);
    }

    fn has_pending(&self) -> bool {
        let state = self.shared.state.lock();
        state.kinds.iter().any(|store| store.state() == Some(KindState::Pending))
    }

    fn note_change(&self) {
        self.shared.told.notify_waiters();
    }

    fn set_status(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.shared.status.lock());
        self.note_change();
    }
}

/// Finds out when the API server answers nothing any more, and tells when it does again.
async fn watch_over(index: ClusterIndex) {
    let shared = &index.shared;
    loop {
        shared.connection.watch_over(&shared.options.jitter).await;
        // Closed: nobody listens any more.
        drop(shared.events.send(IndexEvent::Reachable).await);
    }
}

impl state::KindStore {
    /// The state over all watches of the kind; `None` when it is not watched.
    fn state(&self) -> Option<KindState> {
        let mut answer = None;
        for watch in self.watches.values() {
            match (&watch.state, &answer) {
                (KindState::Failed { .. }, _) => return Some(watch.state.clone()),
                (KindState::Pending, _) | (KindState::Complete { .. }, None) => {
                    answer = Some(watch.state.clone());
                }
                (KindState::Complete { .. }, Some(_)) => {}
            }
        }
        answer
    }
}

#[cfg(test)]
mod tests;
