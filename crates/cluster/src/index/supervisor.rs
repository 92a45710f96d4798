//! Decides which kinds are watched, and starts and stops their watches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;
use tiphys_object::{GroupKind, Gvk};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::sink::{IndexSink, vanished};
use super::state::WatchRecord;
use super::{ClusterIndex, IndexEvent};
use crate::kinds::{ApiResource, Kinds};
use crate::watch::{Source, follow};

/// First wait after a failed discovery; doubles with each further one.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// Longest wait after a failed discovery.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Age after which discovery is repeated without a hint.
const DISCOVERY_AGE: Duration = Duration::from_mins(10);
/// Hints that arrive within this time lead to one discovery.
const HINT_DELAY: Duration = Duration::from_millis(100);
/// Further looks after a hint: a server publishes a new kind some time after its definition (ENG-17).
const FOLLOW_UPS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(15)];

/// One watch: a kind in one namespace, or with an empty namespace in all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WatchKey {
    group_kind: GroupKind,
    namespace: SmolStr,
}

struct Running {
    gvk: Gvk,
    cancel: CancellationToken,
}

pub(super) struct Supervisor {
    index: ClusterIndex,
    tracker: TaskTracker,
    cancel: CancellationToken,
    running: BTreeMap<WatchKey, Running>,
}

impl Supervisor {
    pub(super) fn new(index: ClusterIndex, tracker: TaskTracker, cancel: CancellationToken) -> Self {
        Self { index, tracker, cancel, running: BTreeMap::new() }
    }

    pub(super) async fn run(mut self) {
        let cancel = self.cancel.clone();
        // Cancel-safe: nothing is kept over the end of the index.
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.supervise() => {}
        }
    }

    async fn supervise(&mut self) {
        let discovery = self.index.discovery().clone();
        let mut relist = self.index.shared.relist.subscribe();
        let mut changes = discovery.changes();
        let mut failures = 0_u32;
        let mut follow_ups: Vec<Instant> = Vec::new();
        let mut snapshot = discovery.kinds().await;
        loop {
            let mut retry = None;
            match &snapshot {
                Ok(kinds) => {
                    failures = 0;
                    self.reconcile(kinds).await;
                }
                Err(error) => {
                    let reason = error.to_string();
                    if failures == 0 {
                        warn!(
                            server = self.index.connection().server(),
                            error = reason,
                            "cluster cannot be discovered"
                        );
                    }
                    self.index.set_status(|status| status.error = Some(reason));
                    let wait = RETRY_FIRST.saturating_mul(1 << failures.min(6)).min(RETRY_MAX);
                    failures += 1;
                    retry = Some(Instant::now() + wait);
                }
            }
            let aged = Instant::now() + DISCOVERY_AGE;
            let next = retry.into_iter().chain(follow_ups.first().copied()).min().unwrap_or(aged);
            // Cancel-safe: each branch only waits. In this order, so that equal histories lead to equal acts; all
            // of them are rare.
            tokio::select! {
                biased;
                () = discovery.hinted() => {
                    tokio::time::sleep(HINT_DELAY).await;
                    let now = Instant::now();
                    follow_ups = FOLLOW_UPS.iter().map(|after| now + *after).collect();
                    snapshot = discovery.refresh().await;
                }
                () = tokio::time::sleep_until(next) => {
                    let now = Instant::now();
                    follow_ups.retain(|at| *at > now);
                    snapshot = discovery.refresh().await;
                }
                Ok(()) = changes.changed() => snapshot = discovery.kinds().await,
                Ok(()) = relist.changed() => self.stop_doubted(),
            }
        }
    }

    /// Watches whose lists are doubted are started anew at the next look; what they know stays.
    fn stop_doubted(&mut self) {
        let (kinds, is_everything) = {
            let mut doubts = self.index.shared.doubts.lock();
            (std::mem::take(&mut doubts.kinds), std::mem::take(&mut doubts.is_everything))
        };
        self.running.retain(|key, running| {
            let is_doubted = is_everything || kinds.contains(&key.group_kind);
            if is_doubted {
                running.cancel.cancel();
            }
            !is_doubted
        });
    }

    /// Makes the running watches those that should run.
    async fn reconcile(&mut self, kinds: &Kinds) {
        let wanted = self.wanted(kinds);
        let known: Vec<WatchKey> = self.running.keys().cloned().collect();
        let mut events = Vec::new();
        for key in known {
            let is_same =
                |running: &Running| wanted.get(&key).is_some_and(|resource| resource.gvk == running.gvk);
            if self.running.get(&key).is_some_and(is_same) {
                continue;
            }
            if let Some(running) = self.running.remove(&key) {
                running.cancel.cancel();
            }
            if wanted.contains_key(&key) {
                // Another version is preferred now: what is kept in full has to be read in that one.
                self.index.shared.state.lock().renew();
            } else {
                events.extend(self.forget(&key));
            }
        }
        let mut is_changed = !events.is_empty();
        for (key, resource) in wanted {
            if !self.running.contains_key(&key) {
                is_changed = true;
                self.start(key, &resource);
            }
        }
        let was_planned = self.index.shared.status.lock().is_planned;
        self.index.set_status(|status| {
            status.is_planned = true;
            status.error = None;
        });
        if is_changed {
            events.push(IndexEvent::KindsChanged);
            if was_planned {
                info!(
                    server = self.index.connection().server(),
                    watches = self.running.len(),
                    "watched kinds changed"
                );
            }
        }
        for event in events {
            if self.index.shared.events.send(event).await.is_err() {
                break;
            }
        }
    }

    /// Kinds to watch, and where (ENG-4, ENG-7, ENG-21).
    fn wanted(&self, kinds: &Kinds) -> BTreeMap<WatchKey, Arc<ApiResource>> {
        let mut wanted = BTreeMap::new();
        for resource in kinds.watchable() {
            for namespace in self.index.scopes(resource) {
                let key = WatchKey { group_kind: resource.gvk.group_kind(), namespace };
                wanted.insert(key, Arc::clone(resource));
            }
        }
        wanted
    }

    fn start(&mut self, key: WatchKey, resource: &ApiResource) {
        let shared = &self.index.shared;
        let kind = {
            let mut state = shared.state.lock();
            let kind = state.intern_kind(&key.group_kind);
            if let Some(store) = state.store_mut(kind) {
                store.version = resource.gvk.version.clone();
                store.watches.entry(key.namespace.clone()).or_insert(WatchRecord::new());
            }
            kind
        };
        let source = Source {
            connection: shared.connection.clone(),
            path: resource.path(&key.namespace, None),
            query: String::new(),
            page_size: shared.options.page_size,
            lists: Arc::clone(&shared.lists),
            resync: shared.options.resync,
            jitter: Arc::clone(&shared.options.jitter),
        };
        let is_late = shared.status.lock().is_planned;
        let (gvk, scope) = (resource.gvk.clone(), key.namespace.clone());
        let mut sink = IndexSink::new(self.index.clone(), kind, gvk, scope, is_late);
        let cancel = self.cancel.child_token();
        let stop = cancel.clone();
        self.tracker.spawn(async move { follow(&source, &mut sink, &stop).await });
        self.running.insert(key, Running { gvk: resource.gvk.clone(), cancel });
    }

    /// A kind that is not served any more, or is filtered out: its objects leave the index.
    fn forget(&self, key: &WatchKey) -> Vec<IndexEvent> {
        let mut state = self.index.shared.state.lock();
        let Some(kind) = state.kind_id(&key.group_kind) else { return Vec::new() };
        let mut events: Vec<IndexEvent> =
            state.forget(kind, &key.namespace).into_iter().map(IndexEvent::from).collect();
        events.push(vanished(key.group_kind.clone()));
        events
    }
}
