//! The index as plain data with one writer. Nothing here waits or talks to anybody.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_object::host::{Amounts, Host};
use tiphys_object::{GroupKind, Gvk, Metadata, Object, ResourceKey, TextMap};
use tokio::time::Instant;

use super::record::{Derived, Extra, KindId, NamespaceId, Owner, Record, Slot, Uid};
use super::{Claims, Derive, KindState};
use crate::error::ApiError;
use crate::watch::parse::{Head, MetadataHead, stored_object};
use crate::watch::{Form, Verdict, Witness};

/// Owners followed upwards from one object.
pub(super) const OWNER_DEPTH_MAX: usize = 32;
/// A list that loses fewer objects is believed at once.
const DOUBT_OBJECTS_MIN: usize = 10;

/// Who is above an object: by uid, or by name where the reference has none (ENG-29).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Parent {
    Uid(Uid),
    Named(Slot),
}

/// The objects of one kind.
#[derive(Debug)]
pub(super) struct KindStore {
    pub(super) group_kind: GroupKind,
    /// Version that is watched; empty while the kind is only known from references.
    pub(super) version: SmolStr,
    /// Events of its watches.
    pub(super) events: u64,
    /// One watch per namespace, or one with an empty name for all.
    pub(super) watches: BTreeMap<SmolStr, WatchRecord>,
    pub(super) objects: BTreeMap<(NamespaceId, SmolStr), Record>,
}

#[derive(Clone, Debug)]
pub(super) struct WatchRecord {
    pub(super) state: KindState,
    pub(super) round: u32,
    /// When the last list that was believed ended.
    pub(super) listed: Option<Instant>,
    /// Number of the claims by which the round that goes on reads objects …
    pub(super) begun: u16,
    /// … and the last round that ended did.
    pub(super) claims: u16,
}

impl WatchRecord {
    /// A watch that has seen nothing yet.
    pub(super) fn new() -> Self {
        Self { state: KindState::Pending, round: 0, listed: None, begun: 0, claims: 0 }
    }
}

/// A change that concerns an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) key: ResourceKey,
    pub(super) applications: BTreeSet<SmolStr>,
    pub(super) is_managed: bool,
    pub(super) is_deleted: bool,
    pub(super) health_changed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Namespaces {
    names: Vec<SmolStr>,
    ids: HashMap<SmolStr, NamespaceId>,
}

impl Namespaces {
    pub(super) fn intern(&mut self, name: &str) -> NamespaceId {
        if name.is_empty() {
            return NamespaceId::default();
        }
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        self.names.push(name.into());
        let id = NamespaceId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.ids.insert(name.into(), id);
        id
    }

    pub(super) fn id(&self, name: &str) -> Option<NamespaceId> {
        if name.is_empty() { Some(NamespaceId::default()) } else { self.ids.get(name).copied() }
    }

    pub(super) fn name(&self, id: NamespaceId) -> SmolStr {
        (id.0 as usize).checked_sub(1).and_then(|at| self.names.get(at)).cloned().unwrap_or_default()
    }
}

/// Objects that are kept in full because somebody asked for them.
const KEPT_MAX: usize = 20_000;

/// Everything known of one cluster.
pub(super) struct State {
    pub(super) kinds: Vec<KindStore>,
    kind_ids: HashMap<GroupKind, KindId>,
    pub(super) namespaces: Namespaces,
    pub(super) claimed: BTreeMap<SmolStr, BTreeSet<Slot>>,
    pub(super) children: HashMap<Parent, BTreeSet<Slot>>,
    /// Objects kept in full because somebody asked for them.
    kept: HashSet<Slot>,
    /// The same, in the order they were asked for first.
    kept_order: VecDeque<Slot>,
    /// How many; nobody says when an object is not asked for any more, so the oldest makes room.
    pub(super) kept_max: usize,
    /// Objects that should be kept in full and cannot be read.
    pub(super) unreadable: BTreeSet<Slot>,
    /// Namespaces of which also those objects are told that concern no application.
    pub(super) observed: HashSet<NamespaceId>,
    /// What the Pods of each node ask for, by its name.
    pub(super) asked: HashMap<SmolStr, Amounts>,
    pub(super) claims: Claims,
    pub(super) derive: Derive,
    /// Grows when unchanged objects have to be read again.
    rules: u16,
    /// Grows when the claims change.
    claims_number: u16,
}

impl State {
    pub(super) fn new(claims: Claims, derive: Derive) -> Self {
        Self {
            kinds: Vec::new(),
            kind_ids: HashMap::new(),
            namespaces: Namespaces::default(),
            claimed: BTreeMap::new(),
            children: HashMap::new(),
            kept: HashSet::new(),
            unreadable: BTreeSet::new(),
            observed: HashSet::new(),
            kept_order: VecDeque::new(),
            kept_max: KEPT_MAX,
            asked: HashMap::new(),
            claims,
            derive,
            rules: 0,
            claims_number: 0,
        }
    }

    /// The same, because marks are read in another way.
    pub(super) fn renew_claims(&mut self) {
        self.claims_number = self.claims_number.wrapping_add(1);
        self.renew();
    }

    /// Whether no complete list is older than the claims.
    pub(super) fn is_claimed_anew(&self) -> bool {
        let is_new = |watch: &WatchRecord| {
            watch.claims == self.claims_number || !matches!(watch.state, KindState::Complete { .. })
        };
        self.kinds.iter().all(|store| store.watches.values().all(is_new))
    }

    /// Objects are read again when they are listed next, even if they did not change.
    pub(super) fn renew(&mut self) {
        self.rules = self.rules.wrapping_add(1);
    }

    /// Keeps an object in full from now on; the one that is kept the longest makes room for it.
    pub(super) fn keep(&mut self, slot: Slot) {
        if !self.kept.insert(slot.clone()) {
            return;
        }
        self.kept_order.push_back(slot);
        while self.kept_order.len() > self.kept_max
            && let Some(oldest) = self.kept_order.pop_front()
        {
            self.kept.remove(&oldest);
            if let Some(extra) = self.record_mut(&oldest).and_then(|record| record.extra.as_mut())
                && extra.claims.is_empty()
            {
                extra.object = None;
            }
        }
    }

    pub(super) fn intern_kind(&mut self, group_kind: &GroupKind) -> KindId {
        if let Some(id) = self.kind_ids.get(group_kind) {
            return *id;
        }
        let id = KindId(u32::try_from(self.kinds.len()).unwrap_or(u32::MAX));
        self.kinds.push(KindStore {
            group_kind: group_kind.clone(),
            version: SmolStr::default(),
            events: 0,
            watches: BTreeMap::new(),
            objects: BTreeMap::new(),
        });
        self.kind_ids.insert(group_kind.clone(), id);
        id
    }

    pub(super) fn kind_id(&self, group_kind: &GroupKind) -> Option<KindId> {
        self.kind_ids.get(group_kind).copied()
    }

    pub(super) fn store(&self, kind: KindId) -> Option<&KindStore> {
        self.kinds.get(kind.0 as usize)
    }

    pub(super) fn store_mut(&mut self, kind: KindId) -> Option<&mut KindStore> {
        self.kinds.get_mut(kind.0 as usize)
    }

    pub(super) fn record(&self, slot: &Slot) -> Option<&Record> {
        self.store(slot.kind)?.objects.get(&(slot.namespace, slot.name.clone()))
    }

    pub(super) fn slot(&self, key: &ResourceKey) -> Option<Slot> {
        Some(Slot {
            kind: self.kind_id(&key.group_kind())?,
            namespace: self.namespaces.id(&key.namespace)?,
            name: key.name.clone(),
        })
    }

    /// A place for an object that may not have been seen yet.
    pub(super) fn intern_slot(&mut self, key: &ResourceKey) -> Slot {
        Slot {
            kind: self.intern_kind(&key.group_kind()),
            namespace: self.namespaces.intern(&key.namespace),
            name: key.name.clone(),
        }
    }

    pub(super) fn key(&self, slot: &Slot) -> ResourceKey {
        let group_kind = self.store(slot.kind).map(|store| store.group_kind.clone()).unwrap_or_default();
        ResourceKey {
            group: group_kind.group,
            kind: group_kind.kind,
            namespace: self.namespaces.name(slot.namespace),
            name: slot.name.clone(),
        }
    }

    /// Starts a round of one watch.
    pub(super) fn begin(&mut self, kind: KindId, scope: &str) {
        let number = self.claims_number;
        if let Some(watch) = self.store_mut(kind).and_then(|store| store.watches.get_mut(scope)) {
            watch.round = watch.round.wrapping_add(1);
            watch.begun = number;
        }
    }

    /// Takes an object in. The answer is `None` when the change concerns no application, and nobody asked for the
    /// strangers of its namespace.
    pub(super) fn upsert(
        &mut self,
        kind: KindId,
        scope: &str,
        head: &Head<'_>,
        raw: &[u8],
        form: Form,
    ) -> Option<Change> {
        let metadata = &head.metadata;
        let namespace = self.namespaces.intern(metadata.namespace.as_str());
        let place = (namespace, SmolStr::new(metadata.name.as_str()));
        let store = self.kinds.get_mut(kind.0 as usize)?;
        let round = store.watches.get(scope).map_or(0, |watch| watch.round);
        let uid = Uid::parse(metadata.uid.as_str());
        let known = store.objects.get_mut(&place);
        if let Some(record) = known
            && record.uid == uid
            && record.version == metadata.resource_version.as_str()
            && record.rules == self.rules
        {
            record.round = round;
            return None;
        }
        let slot = Slot { kind, namespace, name: place.1 };
        let record = self.record_of(&slot, uid, round, head, raw, form);
        let before_plain = self.record(&slot).is_none_or(Record::is_plain);
        let is_new = self.record(&slot).is_none();
        if before_plain && record.is_plain() {
            self.put(&slot, record);
            return self.stranger(&slot, is_new, false);
        }
        let before = self.applications(&slot);
        let health_before = self.health(&slot);
        self.unlink(&slot);
        // What was ours concerns its application also when it no longer looks it: the mark is gone, or it has got an
        // owner (TRK-30).
        let is_managed = record.is_managed() || self.record(&slot).is_some_and(Record::is_managed);
        self.put(&slot, record);
        self.link(&slot);
        let mut applications = self.applications(&slot);
        let health_changed = self.health(&slot) != health_before;
        applications.extend(before);
        if applications.is_empty() {
            return self.stranger(&slot, is_new, false);
        }
        Some(Change { key: self.key(&slot), applications, is_managed, is_deleted: false, health_changed })
    }

    /// The change of an object that concerns no application: told where its namespace is observed, and it came or went.
    fn stranger(&self, slot: &Slot, is_news: bool, is_deleted: bool) -> Option<Change> {
        let change = || Change {
            key: self.key(slot),
            applications: BTreeSet::new(),
            is_managed: false,
            is_deleted,
            health_changed: false,
        };
        (is_news && self.is_observed(slot.namespace)).then(change)
    }

    /// What of a descendant's health is told: the verdict, and whether it is going.
    fn health(&self, slot: &Slot) -> Option<(Option<(SmolStr, String)>, bool)> {
        let record = self.record(slot)?;
        let health = record.derived().and_then(|derived| derived.health.clone());
        Some((health, record.is_terminating))
    }

    fn put(&mut self, slot: &Slot, record: Record) {
        self.count(record.derived(), i64::saturating_add);
        let Some(store) = self.kinds.get_mut(slot.kind.0 as usize) else { return };
        let former = store.objects.insert((slot.namespace, slot.name.clone()), record);
        self.count(former.as_ref().and_then(Record::derived), i64::saturating_sub);
    }

    /// Keeps the sums of what Pods ask of each node, so that nobody adds up all Pods of a cluster (ENG-203).
    fn count(&mut self, derived: Option<&Arc<Derived>>, change: fn(i64, i64) -> i64) {
        let Some(Host::Guest { node, asks }) = derived.and_then(|derived| derived.host.as_deref()) else {
            return;
        };
        let sum = self.asked.entry(node.clone()).or_default();
        *sum = sum.with(*asks, change);
        if *sum == Amounts::default() {
            self.asked.remove(node);
        }
    }

    fn record_of(
        &mut self,
        slot: &Slot,
        uid: Uid,
        round: u32,
        head: &Head<'_>,
        raw: &[u8],
        form: Form,
    ) -> Record {
        let metadata = &head.metadata;
        let owners = self.owners(slot, metadata);
        let extra = self.extra(slot, metadata, &owners, raw, form);
        Record {
            uid,
            version: SmolStr::new(metadata.resource_version.as_str()),
            created: seconds(metadata.creation_timestamp.as_str()),
            round,
            rules: self.rules,
            is_terminating: !metadata.deletion_timestamp.as_str().is_empty(),
            owners,
            extra,
        }
    }

    fn owners(&mut self, slot: &Slot, metadata: &MetadataHead<'_>) -> Box<[Owner]> {
        let mut owners = Vec::new();
        for owner in metadata.owner_references.iter().flatten() {
            let gvk = Gvk::from_api_version(owner.api_version.as_str(), owner.kind.as_str());
            owners.push(Owner {
                kind: self.intern_kind(&gvk.group_kind()),
                name: owner.name.as_str().into(),
                uid: Uid::parse(owner.uid.as_str()),
            });
        }
        if let Some(owner) = self.inferred_owner(slot, metadata, owners.is_empty()) {
            owners.push(owner);
        }
        owners.into()
    }

    /// Owners that no reference names (ENG-27). Claims of stateful sets are found when they are asked for.
    fn inferred_owner(
        &mut self,
        slot: &Slot,
        metadata: &MetadataHead<'_>,
        is_ownerless: bool,
    ) -> Option<Owner> {
        let kind = self.store(slot.kind)?.group_kind.clone();
        match (kind.group.as_str(), kind.kind.as_str()) {
            ("", "Endpoints") if is_ownerless => Some(Owner {
                kind: self.intern_kind(&GroupKind::new("", "Service")),
                name: slot.name.clone(),
                uid: Uid::parse(""),
            }),
            ("operators.coreos.com", "ClusterServiceVersion") => {
                let group = annotation(metadata, "olm.operatorGroup")?;
                Some(Owner {
                    kind: self.intern_kind(&GroupKind::new("operators.coreos.com", "OperatorGroup")),
                    name: group.into(),
                    uid: Uid::parse(""),
                })
            }
            // Only token Secrets carry both annotations.
            ("", "Secret") => {
                let uid = annotation(metadata, "kubernetes.io/service-account.uid")?;
                let name = annotation(metadata, "kubernetes.io/service-account.name")?;
                Some(Owner {
                    kind: self.intern_kind(&GroupKind::new("", "ServiceAccount")),
                    name: name.into(),
                    uid: Uid::parse(&uid),
                })
            }
            _ => None,
        }
    }

    /// What is kept besides the record. An object that cannot be read is known to exist, and why nothing can be said
    /// of it (INV-15); it is never the end of its kind.
    fn extra(
        &self,
        slot: &Slot,
        metadata: &MetadataHead<'_>,
        owners: &[Owner],
        raw: &[u8],
        form: Form,
    ) -> Option<Box<Extra>> {
        let store = self.store(slot.kind)?;
        let kind = &store.group_kind;
        let may_claim = self.claims.may_claim(metadata);
        let is_owned = metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
        let is_crd = kind.group == "apiextensions.k8s.io" && kind.kind == "CustomResourceDefinition";
        let may_have_node = is_about_hosts(kind) || (!owners.is_empty() && !is_nodeless(kind));
        let is_kept = !self.kept.is_empty() && self.kept.contains(slot);
        if !(may_claim || is_crd || may_have_node || is_kept) {
            return None;
        }
        let gvk = Gvk { group: kind.group.clone(), version: store.version.clone(), kind: kind.kind.clone() };
        let mut extra = Extra::default();
        if may_claim {
            extra.claims = self.claims.claims(metadata);
        }
        if is_crd || is_kept || (!extra.claims.is_empty() && !is_owned) {
            // What was once asked for is asked for again with every change.
            extra.managers = self.record(slot).and_then(|known| known.extra.as_ref()?.managers.clone());
            let managers = extra.managers.as_deref().unwrap_or_default();
            match form.object(raw).and_then(|text| read_object(text, &gvk, managers)) {
                Ok(object) => extra.object = Some(Arc::new(object.packed())),
                Err(error) => extra.unreadable = Some(error.to_string().into()),
            }
        }
        if may_have_node {
            let derived = match node_value(raw, form, &gvk) {
                Ok(value) => (self.derive)(&value),
                Err(error) => {
                    Derived { health: Some(("Unknown".into(), error.to_string())), ..Derived::default() }
                }
            };
            extra.derived = (derived != Derived::default()).then(|| Arc::new(derived));
        }
        let is_needed = !extra.claims.is_empty()
            || extra.object.is_some()
            || extra.derived.is_some()
            || extra.unreadable.is_some();
        is_needed.then(|| Box::new(extra))
    }

    /// Takes an object out.
    pub(super) fn remove(&mut self, slot: &Slot) -> Option<Change> {
        let applications = self.applications(slot);
        let record = self.record(slot)?;
        let is_managed = record.is_managed();
        let key = self.key(slot);
        self.unlink(slot);
        if let Some(store) = self.kinds.get_mut(slot.kind.0 as usize) {
            let former = store.objects.remove(&(slot.namespace, slot.name.clone()));
            self.count(former.as_ref().and_then(Record::derived), i64::saturating_sub);
        }
        if applications.is_empty() {
            return self.stranger(slot, true, true);
        }
        Some(Change { key, applications, is_managed, is_deleted: true, health_changed: true })
    }

    /// Ends a round: what was not seen in it is gone, unless so much is gone that a second look is due (F7).
    pub(super) fn end(
        &mut self,
        kind: KindId,
        scope: &str,
        version: &str,
        witness: Witness,
    ) -> (Verdict, Vec<Change>) {
        let scope_id = self.namespaces.id(scope);
        let Some(store) = self.kinds.get_mut(kind.0 as usize) else { return (Verdict::Accepted, Vec::new()) };
        let Some(watch) = store.watches.get(scope) else { return (Verdict::Accepted, Vec::new()) };
        let round = watch.round;
        let is_ours = |namespace: NamespaceId| scope.is_empty() || Some(namespace) == scope_id;
        let mut before = 0_usize;
        let mut gone = Vec::new();
        for ((namespace, name), record) in &store.objects {
            if !is_ours(*namespace) {
                continue;
            }
            before += 1;
            if record.round != round {
                gone.push(Slot { kind, namespace: *namespace, name: name.clone() });
            }
        }
        let is_suspicious = gone.len() >= DOUBT_OBJECTS_MIN && gone.len() * 2 > before;
        if is_suspicious && witness == Witness::First {
            return (Verdict::Doubted, Vec::new());
        }
        if let Some(watch) = store.watches.get_mut(scope) {
            watch.state = KindState::Complete { resource_version: version.into() };
            watch.claims = watch.begun;
        }
        let changes = gone.iter().filter_map(|slot| self.remove(slot)).collect();
        (Verdict::Accepted, changes)
    }

    /// Forgets a kind's watch of one scope and its objects.
    pub(super) fn forget(&mut self, kind: KindId, scope: &str) -> Vec<Change> {
        let scope_id = self.namespaces.id(scope);
        let Some(store) = self.kinds.get_mut(kind.0 as usize) else { return Vec::new() };
        store.watches.remove(scope);
        let slots: Vec<Slot> = store
            .objects
            .keys()
            .filter(|(namespace, _)| scope.is_empty() || Some(*namespace) == scope_id)
            .map(|(namespace, name)| Slot { kind, namespace: *namespace, name: name.clone() })
            .collect();
        slots.iter().filter_map(|slot| self.remove(slot)).collect()
    }

    fn unlink(&mut self, slot: &Slot) {
        let Some(record) = self.record(slot) else { return };
        let claims: Box<[SmolStr]> = record.claims().into();
        let parents: Vec<Parent> = parents(record, slot);
        self.unreadable.remove(slot);
        for claim in claims {
            if let Some(slots) = self.claimed.get_mut(&claim) {
                slots.remove(slot);
                if slots.is_empty() {
                    self.claimed.remove(&claim);
                }
            }
        }
        for parent in parents {
            if let Some(slots) = self.children.get_mut(&parent) {
                slots.remove(slot);
                if slots.is_empty() {
                    self.children.remove(&parent);
                }
            }
        }
    }

    fn link(&mut self, slot: &Slot) {
        let Some(record) = self.record(slot) else { return };
        let claims: Box<[SmolStr]> = record.claims().into();
        let parents: Vec<Parent> = parents(record, slot);
        if record.unreadable().is_some() {
            self.unreadable.insert(slot.clone());
        }
        for claim in claims {
            self.claimed.entry(claim).or_default().insert(slot.clone());
        }
        for parent in parents {
            self.children.entry(parent).or_default().insert(slot.clone());
        }
    }

    /// Whom an object concerns: whom it names itself, and whom its nearest owner that names anybody does (ENG-30). An
    /// object with owners that names somebody is a target of that application, or has a label that looks like a name.
    pub(super) fn applications(&self, slot: &Slot) -> BTreeSet<SmolStr> {
        let mut found: BTreeSet<SmolStr> = BTreeSet::new();
        let mut seen: HashSet<Slot> = HashSet::new();
        let mut level = vec![slot.clone()];
        for depth in 0..OWNER_DEPTH_MAX {
            let mut above = Vec::new();
            for slot in level {
                let Some(record) = self.record(&slot) else { continue };
                found.extend(record.claims().iter().cloned());
                if depth > 0 && !record.claims().is_empty() {
                    return found;
                }
                for owner in self.owner_slots(&slot, record) {
                    if seen.insert(owner.clone()) {
                        above.push(owner);
                    }
                }
            }
            if above.is_empty() {
                break;
            }
            level = above;
        }
        found
    }

    /// The owners of an object that exist, in the order of its references.
    pub(super) fn owner_slots(&self, slot: &Slot, record: &Record) -> Vec<Slot> {
        let mut slots = Vec::new();
        for owner in &record.owners {
            for namespace in [slot.namespace, NamespaceId::default()] {
                let candidate = Slot { kind: owner.kind, namespace, name: owner.name.clone() };
                let is_it = self
                    .record(&candidate)
                    .is_some_and(|found| owner.uid.is_empty() || found.uid == owner.uid);
                if is_it {
                    slots.push(candidate);
                    break;
                }
            }
        }
        slots
    }
}

fn parents(record: &Record, slot: &Slot) -> Vec<Parent> {
    let parent = |owner: &Owner| {
        if owner.uid.is_empty() {
            Parent::Named(Slot { kind: owner.kind, namespace: slot.namespace, name: owner.name.clone() })
        } else {
            Parent::Uid(owner.uid.clone())
        }
    };
    record.owners.iter().map(parent).collect()
}

/// Kinds that are looked into whoever they belong to: all Pods on a node count (ENG-203).
fn is_about_hosts(kind: &GroupKind) -> bool {
    kind.group.is_empty() && matches!(kind.kind.as_str(), "Pod" | "Node")
}

/// Kinds whose node in a tree has neither health nor details, though they have owners.
fn is_nodeless(kind: &GroupKind) -> bool {
    matches!(
        (kind.group.as_str(), kind.kind.as_str()),
        ("", "ConfigMap" | "Secret" | "Endpoints" | "ServiceAccount")
            | ("discovery.k8s.io", "EndpointSlice")
            | ("apps", "ControllerRevision")
    )
}

fn annotation(metadata: &MetadataHead<'_>, key: &str) -> Option<String> {
    let raw = metadata.annotations?.get();
    if !raw.contains(key) {
        return None;
    }
    let map: BTreeMap<String, serde_json::Value> = serde_json::from_str(raw).ok()?;
    map.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A descendant as a tree, with the kind that items of built-in lists lack.
fn node_value(raw: &[u8], form: Form, gvk: &Gvk) -> Result<serde_json::Value, ApiError> {
    let mut value: serde_json::Value = serde_json::from_slice(form.object(raw)?)
        .map_err(|error| ApiError::malformed("read an object", &error))?;
    if let Some(map) = value.as_object_mut() {
        map.entry("apiVersion").or_insert_with(|| gvk.api_version().as_str().into());
        map.entry("kind").or_insert_with(|| gvk.kind.as_str().into());
    }
    Ok(value)
}

pub(super) fn read_object(raw: &[u8], gvk: &Gvk, managers: &[SmolStr]) -> Result<Object, ApiError> {
    stored_object(raw, &gvk.api_version(), &gvk.kind, managers)
        .map_err(|error| ApiError::Malformed { what: "read an object", reason: error.to_string() })
}

fn seconds(timestamp: &str) -> i64 {
    timestamp.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_second)
}

impl Claims {
    /// Whether the object has any member the claim function looks at.
    fn may_claim(&self, metadata: &MetadataHead<'_>) -> bool {
        let texts = [metadata.annotations, metadata.labels];
        texts.iter().flatten().any(|raw| self.keys.iter().any(|key| raw.get().contains(key.as_str())))
    }

    fn claims(&self, metadata: &MetadataHead<'_>) -> Box<[SmolStr]> {
        let mut full = Metadata {
            name: metadata.name.as_str().into(),
            namespace: metadata.namespace.as_str().into(),
            uid: metadata.uid.as_str().into(),
            resource_version: metadata.resource_version.as_str().into(),
            ..Metadata::default()
        };
        full.annotations = texts(metadata.annotations);
        full.labels = texts(metadata.labels);
        (self.claim)(&full).into_iter().filter(|claim| !claim.is_empty()).collect()
    }
}

fn texts(raw: Option<&serde_json::value::RawValue>) -> TextMap {
    let map: Option<BTreeMap<SmolStr, SmolStr>> = raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
    map.unwrap_or_default().into_iter().collect()
}

#[cfg(test)]
mod tests;
