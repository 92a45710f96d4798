//! The applications this process knows, as the watch and our own writes show them.
//!
//! Kept per application: the stored object (bytes), the declared part in short, and what the controller
//! remembers between rounds. Look-ups by instance name, repository and destination are indexes; nothing walks
//! all applications per event.

mod declared;
mod followers;
mod marks;
mod owners;
mod stakes;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use smol_str::SmolStr;
use tiphys_api::Application;
use tiphys_api::codes::OperationPhase;
use tiphys_api::names::annotation;
use tiphys_engine::tracking::{Previous, Reading, Readings, TrackingMethod, TrackingSettings};
use tiphys_lifecycle::hydration::group::GroupKey;
use tiphys_lifecycle::webhook::{Push, TagPush};
use tiphys_object::{Object, is_news};
use tokio::sync::Notify;

use crate::app_key::{AppKey, SetKey};
use crate::memory::AppMemory;
pub(crate) use declared::Declared;
use followers::ByReference;
pub(crate) use followers::{Pushed, Reads, Reference};
use marks::Marks;
pub(crate) use owners::{NewsOfSets, SetNews, set_of};
use owners::{Owners, Seen};
pub(crate) use stakes::BranchReader;
use stakes::Stakes;

/// One application.
#[derive(Clone)]
pub(crate) struct AppEntry {
    /// The object as last seen.
    pub(crate) object: Arc<Object>,
    /// The declared part in short.
    pub(crate) declared: Arc<Declared>,
    /// Sync status as last seen.
    pub(crate) sync_status: SmolStr,
    /// Health as last seen.
    pub(crate) health_status: SmolStr,
    /// How often it has each type of condition.
    pub(crate) conditions: Box<[(SmolStr, usize)]>,
    /// Name on its resources (TRK-1).
    pub(crate) instance: SmolStr,
    /// What names it on live objects, under the settings in force and those it was synced under (TRK-91).
    marks: Box<[SmolStr]>,
    /// How its objects are marked now.
    pub(crate) method: TrackingMethod,
    /// The set that controls it, and what that looks at.
    set: Option<(SetKey, Seen)>,
    /// What the controller remembers between passes.
    pub(crate) memory: Arc<Mutex<AppMemory>>,
}

impl AppEntry {
    /// The whole object in typed form.
    ///
    /// # Errors
    /// When the object has members of types that the CRD forbids.
    pub(crate) fn parse(&self) -> Result<Application, serde_json::Error> {
        serde_json::from_slice(&self.object.raw())
    }

    /// The object, where it is of this version.
    pub(crate) fn as_version(&self, uid: &str, version: &str) -> Option<Arc<Object>> {
        let metadata = self.object.metadata();
        let is_same = !version.is_empty() && metadata.uid == uid && metadata.resource_version == version;
        is_same.then(|| Arc::clone(&self.object))
    }
}

/// What an event changed, as far as work follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Older than what is known, or equal.
    None,
    /// Only the status changed, in a way that asks for nothing.
    StatusOnly,
    /// Something users control changed, or the object is new.
    Declared,
}

struct State {
    /// By which applications name their objects. Whoever tells of one may still work with older settings.
    tracking: Arc<TrackingSettings>,
    apps: HashMap<AppKey, AppEntry>,
    /// By what names them on live objects.
    by_mark: Marks,
    /// How the marks of all of them are read. Grows with what applications ask for; only new settings begin anew, so that
    /// clusters are not listed again and again.
    readings: Arc<Readings>,
    by_reference: ByReference,
    by_project: HashMap<SmolStr, BTreeSet<AppKey>>,
    by_hydration: HashMap<GroupKey, BTreeSet<AppKey>>,
    /// Directories that hydrated applications claim.
    stakes: Stakes,
    by_set: Owners,
    /// Uids of applications whose end was written here, the oldest first: a late watch goes on
    /// telling of them (F3).
    gone: VecDeque<SmolStr>,
    gone_uids: HashSet<SmolStr>,
    /// Applications that exist and cannot be read.
    held: BTreeMap<AppKey, Arc<Held>>,
}

/// An application that exists and cannot be read.
#[derive(Debug)]
pub(crate) struct Held {
    /// Why.
    pub(crate) reason: String,
    /// When that was first told, so that telling it again changes nothing (INV-5).
    pub(crate) told: OnceLock<String>,
}

/// Applications that are remembered to be gone: far more than go while a watch is late.
const GONE_MAX: usize = 10_000;

/// The store; one writer (the watch and the workers' own writes), many readers.
pub(crate) struct AppStore {
    state: RwLock<State>,
    /// Whether all applications were listed once.
    is_listed: std::sync::atomic::AtomicBool,
    /// Told when they were.
    told_listed: Notify,
    /// Sets whose applications changed.
    pub(crate) sets: NewsOfSets,
}

impl AppStore {
    /// An empty store of applications that name their objects by these settings.
    pub(crate) fn new(tracking: &TrackingSettings) -> Self {
        let state = State {
            tracking: Arc::new(tracking.clone()),
            apps: HashMap::new(),
            by_mark: Marks::default(),
            readings: Arc::new(Readings::of(tracking)),
            by_reference: ByReference::default(),
            by_project: HashMap::new(),
            by_hydration: HashMap::new(),
            stakes: Stakes::default(),
            by_set: Owners::default(),
            gone: VecDeque::new(),
            gone_uids: HashSet::new(),
            held: BTreeMap::new(),
        };
        Self {
            state: RwLock::new(state),
            is_listed: std::sync::atomic::AtomicBool::new(false),
            told_listed: Notify::new(),
            sets: NewsOfSets::default(),
        }
    }

    /// All applications there are were told of: who is not known is not there.
    pub(crate) fn listed(&self) {
        self.is_listed.store(true, std::sync::atomic::Ordering::Release);
        self.told_listed.notify_waiters();
    }

    /// Waits until all applications were told of. Cancel-safe.
    pub(crate) async fn until_listed(&self) {
        loop {
            // Before looking, so that nothing is missed in between.
            let told = self.told_listed.notified();
            if self.is_listed() {
                return;
            }
            told.await;
        }
    }

    /// Whether all applications were told of.
    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Whether a version of an application is newer than what is known of it.
    pub(crate) fn is_news(&self, key: &AppKey, uid: &str, version: &str) -> bool {
        self.state.read().is_news(key, uid, version)
    }

    /// Takes a newer state of an application.
    ///
    /// # Errors
    /// When the object does not have the shape of an Application; what was known before stays.
    pub(crate) fn upsert(&self, object: Arc<Object>) -> Result<Change, serde_json::Error> {
        let app = serde_json::from_slice(&object.raw())?;
        Ok(self.take(object, &app))
    }

    /// The same, with what was read from the object.
    fn take(&self, object: Arc<Object>, app: &Application) -> Change {
        let declared = Declared::of(app);
        let key = AppKey::new(object.namespace(), object.name());
        let object = Object::pack(object);
        let mut state = self.state.write();
        if !state.is_news(&key, &object.metadata().uid, &object.metadata().resource_version) {
            return Change::None;
        }
        let old = state.apps.get(&key);
        let status = &app.status;
        let state_of = status.operation_state.as_ref();
        let is_terminating = state_of.is_some_and(|state| state.phase == OperationPhase::Terminating);
        let change = match old {
            Some(old) if old.declared.is_same(&declared) && !is_terminating => Change::StatusOnly,
            _ => Change::Declared,
        };
        // An application that was deleted and made again starts without memories.
        let memory = old
            .filter(|old| old.object.metadata().uid == object.metadata().uid)
            .map_or_else(Arc::default, |old| Arc::clone(&old.memory));
        let sync_status = SmolStr::new(&status.sync.status);
        let health_status = SmolStr::new(&status.health.status);
        let instance = state.tracking.instance_name(object.namespace(), object.name());
        let sides = Sides::of(&state.tracking, &object);
        let marks = sides.marks(&instance);
        let old = old.cloned();
        state.held.remove(&key);
        let is_marked_alike = old
            .as_ref()
            .is_some_and(|old| old.marks == marks && old.object.metadata().uid == object.metadata().uid);
        if let Some(old) = old.as_ref().filter(|_| !is_marked_alike) {
            state.unmark(&key, old);
        }
        // Most events are about the status: what was declared stays, and so do the indexes.
        let declared = match old {
            Some(old) if old.instance == instance && old.declared.is_same(&declared) => old.declared,
            old => {
                let mut is_within = false;
                if let Some(old) = old.and_then(|old| old.parse().ok()) {
                    // What is known of its rendering holds as long as the sources are the same.
                    is_within = state.by_reference.is_within(&key) && old.sources() == app.sources();
                    state.unindex(&key, &old);
                }
                state.index(&key, app);
                state.by_reference.keep_within(&key, app, is_within);
                Arc::new(declared)
            }
        };
        let method = sides.current.method;
        let set = set_of(&object).map(|set| (set, Seen::of(app)));
        self.tell_sets(&key, set.as_ref(), &mut state);
        let conditions = declared::conditions(app);
        let entry = AppEntry {
            object,
            declared,
            sync_status,
            health_status,
            conditions,
            instance,
            marks,
            method,
            set,
            memory,
        };
        state.apps.insert(key.clone(), entry);
        if !is_marked_alike {
            state.mark(&key, app.project(), &sides);
        }
        change
    }

    /// Notes who controls an application, and tells whoever did or does of its change; that it came is no news (ASET-180).
    fn tell_sets(&self, key: &AppKey, set: Option<&(SetKey, Seen)>, state: &mut State) {
        let State { apps, by_set, .. } = state;
        let old = apps.get(key);
        let was = old.and_then(|old| old.set.as_ref());
        if let Some((was, _)) = was.filter(|(was, _)| set.is_none_or(|(is, _)| is != was)) {
            by_set.remove(was, key);
            self.sets.tell(was, SetNews::gone());
        }
        let Some((is, seen)) = set else { return };
        by_set.add(is, key);
        if old.is_some() {
            self.sets.tell(is, SetNews::between(was.map(|(_, was)| was), seen));
        }
    }

    /// Applications of a set.
    pub(crate) fn by_set(&self, set: &SetKey) -> Vec<AppKey> {
        self.state.read().by_set.of(set)
    }

    /// Why applications of a namespace cannot be read, by name.
    pub(crate) fn unreadable(&self, namespace: &str) -> BTreeMap<SmolStr, String> {
        let state = self.state.read();
        let held = state.held.iter().filter(|(key, _)| key.namespace == namespace);
        held.map(|(key, held)| (key.name.clone(), held.reason.clone())).collect()
    }

    /// Takes the answer to a write of our own: it may renew what is known, never bring back what is gone.
    pub(crate) fn update(&self, object: Arc<Object>, app: &Application) -> Change {
        let key = AppKey::new(object.namespace(), object.name());
        let known = self.get(&key);
        let is_same = known.is_some_and(|known| known.object.metadata().uid == object.metadata().uid);
        if is_same { self.take(object, app) } else { Change::None }
    }

    /// Forgets an application.
    pub(crate) fn remove(&self, key: &AppKey) -> Option<AppEntry> {
        let mut state = self.state.write();
        state.held.remove(key);
        self.forget(&mut state, key)
    }

    fn forget(&self, state: &mut State, key: &AppKey) -> Option<AppEntry> {
        let entry = state.remove(key)?;
        if let Some((set, _)) = &entry.set {
            self.sets.tell(set, SetNews::gone());
        }
        Some(entry)
    }

    /// Holds an application that exists and cannot be read: what was known of it is no longer worked with.
    pub(crate) fn hold(&self, key: AppKey, reason: String) {
        let mut state = self.state.write();
        self.forget(&mut state, &key);
        if state.held.get(&key).is_none_or(|held| held.reason != reason) {
            state.held.insert(key, Arc::new(Held { reason, told: OnceLock::new() }));
        }
    }

    /// Whether there are applications that nobody can read: they may name any project.
    pub(crate) fn holds_any(&self) -> bool {
        !self.state.read().held.is_empty()
    }

    /// Why an application that exists is not worked on.
    pub(crate) fn held(&self, key: &AppKey) -> Option<Arc<Held>> {
        self.state.read().held.get(key).cloned()
    }

    /// Forgets an application whose last finalizer the API server has taken: older news of it do not bring it
    /// back, and one of the same name is another one. Not for a mere 404, which may also come from a definition
    /// that is not served at the moment.
    pub(crate) fn bury(&self, key: &AppKey, uid: &str) {
        let mut state = self.state.write();
        if state.apps.get(key).is_some_and(|known| known.object.metadata().uid == uid) {
            self.forget(&mut state, key);
        }
        if !uid.is_empty() && state.gone_uids.insert(uid.into()) {
            state.gone.push_back(uid.into());
            if state.gone.len() > GONE_MAX
                && let Some(oldest) = state.gone.pop_front()
            {
                state.gone_uids.remove(&oldest);
            }
        }
    }

    /// One application.
    pub(crate) fn get(&self, key: &AppKey) -> Option<AppEntry> {
        self.state.read().apps.get(key).cloned()
    }

    /// Whether there is an application, as far as is known.
    pub(crate) fn knows(&self, key: &AppKey) -> bool {
        self.state.read().apps.contains_key(key)
    }

    /// The application that a mark names: by its instance name, or by a digest of that.
    pub(crate) fn by_mark(&self, mark: &str) -> Option<AppKey> {
        self.state.read().by_mark.holder(mark).cloned()
    }

    /// How the marks of all applications are read.
    pub(crate) fn readings(&self) -> Arc<Readings> {
        Arc::clone(&self.state.read().readings)
    }

    /// The digest of an application that stands for an older one too, and that one (TRK-55).
    pub(crate) fn collision(&self, key: &AppKey) -> Option<(SmolStr, AppKey)> {
        let state = self.state.read();
        let own = state.apps.get(key)?;
        own.marks.iter().find_map(|mark| {
            let holder = state.by_mark.holder(mark).filter(|holder| *holder != key)?;
            Some((TrackingSettings::bare_mark(mark).into(), holder.clone()))
        })
    }

    /// The instance name of the application that a mark names (TRK-54).
    pub(crate) fn instance_of(&self, mark: &str) -> Option<SmolStr> {
        let state = self.state.read();
        state.apps.get(state.by_mark.holder(mark)?).map(|entry| entry.instance.clone())
    }

    /// Names all applications by marks of new settings.
    pub(crate) fn mark_anew(&self, tracking: &TrackingSettings) {
        let mut state = self.state.write();
        state.tracking = Arc::new(tracking.clone());
        state.by_mark.clear();
        state.readings = Arc::new(Readings::of(tracking));
        let keys: Vec<AppKey> = state.apps.keys().cloned().collect();
        for key in keys {
            let Some(entry) = state.apps.get_mut(&key) else { continue };
            let sides = Sides::of(tracking, &entry.object);
            entry.marks = sides.marks(&entry.instance);
            entry.method = sides.current.method;
            let project = entry.declared.project.clone();
            state.mark(&key, &project, &sides);
        }
    }

    /// Whom a push concerns; the references it moved are noted as moved at this time.
    pub(crate) fn pushed(&self, push: &Push, at: Timestamp) -> Pushed {
        self.state.write().by_reference.pushed(push, at)
    }

    /// Whom a tag in a registry concerns (API-209).
    pub(crate) fn tagged(&self, tag: &TagPush) -> Pushed {
        let mut found = self.state.read().by_reference.below(tag);
        // Each is read on its own: reading thousands takes longer than anybody should wait for the lock.
        let app = |key: &AppKey| self.get(key).and_then(|entry| entry.parse().ok());
        found.applications.retain(|key| app(key).is_some_and(|app| tag.concerns(&app)));
        found
    }

    /// Those that follow a reference by directory and have one of these files in theirs; all of them when the files
    /// are not known.
    pub(crate) fn within(&self, reference: &Reference, files: Option<&[String]>) -> BTreeSet<AppKey> {
        self.state.read().by_reference.within(reference, files)
    }

    /// Notes whether everything that an application renders comes from its own directory, as was found out about it as
    /// it was; if it has changed since, that says nothing.
    pub(crate) fn keep_within(&self, key: &AppKey, app: &Application, is_within: bool) {
        // Asked first: every load of sources comes here, and the write lock is everybody's.
        if !self.state.read().by_reference.is_news(key, app, is_within) {
            return;
        }
        let mut state = self.state.write();
        let State { apps, by_reference, .. } = &mut *state;
        if apps.get(key).is_some_and(|entry| entry.declared.is_of(app)) {
            by_reference.keep_within(key, app, is_within);
        }
    }

    /// When a push last moved something that an application follows.
    pub(crate) fn moved(&self, app: &Application) -> Option<Timestamp> {
        self.state.read().by_reference.moved(app)
    }

    /// Applications of a project.
    pub(crate) fn by_project(&self, project: &str) -> Vec<AppKey> {
        self.state.read().by_project.get(project).into_iter().flatten().cloned().collect()
    }

    /// Applications whose manifests are committed together, sorted by key.
    pub(crate) fn hydrated_by(&self, group: &GroupKey) -> Vec<AppKey> {
        self.state.read().by_hydration.get(group).into_iter().flatten().cloned().collect()
    }

    /// Number of applications.
    pub(crate) fn len(&self) -> usize {
        self.state.read().apps.len()
    }

    /// All applications, sorted by key. For metrics only.
    pub(crate) fn entries(&self) -> Vec<(AppKey, AppEntry)> {
        let mut entries: Vec<(AppKey, AppEntry)> =
            self.state.read().apps.iter().map(|(key, entry)| (key.clone(), entry.clone())).collect();
        entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        entries
    }

    /// Keys of all applications, sorted. For start-up, settings changes and metrics only.
    pub(crate) fn keys(&self) -> Vec<AppKey> {
        let mut keys: Vec<AppKey> = self.state.read().apps.keys().cloned().collect();
        keys.sort_unstable();
        keys
    }
}

impl State {
    /// Whether an object is newer than what is known of its application.
    fn is_news(&self, key: &AppKey, uid: &str, version: &str) -> bool {
        let known = self.apps.get(key).map(|known| known.object.metadata());
        !self.gone_uids.contains(uid) && is_news(known, uid, version)
    }

    fn remove(&mut self, key: &AppKey) -> Option<AppEntry> {
        let entry = self.apps.remove(key)?;
        // It was read when it was taken in.
        if let Ok(app) = entry.parse() {
            self.unindex(key, &app);
        }
        self.unmark(key, &entry);
        if let Some((set, _)) = &entry.set {
            self.by_set.remove(set, key);
        }
        Some(entry)
    }

    /// Lets the marks of an application stand for it.
    fn mark(&mut self, key: &AppKey, project: &str, sides: &Sides) {
        let Self { apps, by_mark, readings, .. } = self;
        let created = |key: &AppKey| {
            apps.get(key).map(|entry| entry.object.metadata().creation_timestamp.clone()).unwrap_or_default()
        };
        for mark in apps.get(key).into_iter().flat_map(|entry| &entry.marks) {
            by_mark.add(mark, key, created);
        }
        let current = Reading::of(&sides.current);
        if !readings.has(current.id()) {
            Arc::make_mut(readings).add_current(current);
        }
        let former = sides.previous.as_ref().map(Reading::of).filter(|former| !readings.has(former.id()));
        if former.is_some_and(|former| !Arc::make_mut(readings).add_former(former, project)) {
            tracing::warn!(
                application = %key,
                "objects are marked in too many ways at once; those that this application marked before are not found \
                 until it is synced, and stay"
            );
        }
    }

    fn unmark(&mut self, key: &AppKey, entry: &AppEntry) {
        for mark in &entry.marks {
            self.by_mark.remove(mark, key);
        }
    }

    fn index(&mut self, key: &AppKey, app: &Application) {
        self.by_reference.add(key, app);
        self.by_project.entry(SmolStr::new(app.project())).or_default().insert(key.clone());
        if let Some(hydrator) = &app.spec.source_hydrator {
            let group = GroupKey::of(hydrator, app.project());
            self.by_hydration.entry(group).or_default().insert(key.clone());
        }
        self.stakes.add(key, app);
    }

    fn unindex(&mut self, key: &AppKey, app: &Application) {
        self.by_reference.remove(key, app);
        remove_from(&mut self.by_project, app.project(), key);
        if let Some(hydrator) = &app.spec.source_hydrator {
            remove_from(&mut self.by_hydration, &GroupKey::of(hydrator, app.project()), key);
        }
        self.stakes.remove(key, app);
    }
}

/// The settings under which objects of an application may be marked.
struct Sides {
    current: TrackingSettings,
    previous: Option<TrackingSettings>,
}

impl Sides {
    fn of(tracking: &TrackingSettings, app: &Object) -> Self {
        let current = tracking.of_application(app.annotation(annotation::TRACKING_METHOD));
        let stored = app.annotation(annotation::TRACKING_PROFILE);
        let previous = match current.previous(stored, BTreeSet::new) {
            Previous::Profile(previous) => Some(*previous),
            Previous::Same | Previous::Unknown(_) => None,
        };
        Self { current, previous }
    }

    fn iter(&self) -> impl Iterator<Item = &TrackingSettings> {
        std::iter::once(&self.current).chain(&self.previous)
    }

    fn marks(&self, instance: &str) -> Box<[SmolStr]> {
        let marks: BTreeSet<SmolStr> = self.iter().flat_map(|side| side.own_marks(instance)).collect();
        marks.into_iter().collect()
    }
}

/// Takes an application out of an index, which keeps no empty places.
fn remove_from<K, Q>(index: &mut HashMap<K, BTreeSet<AppKey>>, name: &Q, key: &AppKey)
where
    K: Borrow<Q> + Eq + Hash,
    Q: Eq + Hash + ?Sized,
{
    if let Some(keys) = index.get_mut(name) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(name);
        }
    }
}

#[cfg(test)]
mod tests;
