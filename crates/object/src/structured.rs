//! Structured merge: server-side apply without a server (ENG-85, ENG-209).
//!
//! [`apply`] lays what a manager says over a live object, takes away what the manager said before and says no
//! longer, and keeps the books in `metadata.managedFields`. [`update`] is the bookkeeping of any other write.
//! [`predict`] is the part of a forced apply that a comparison needs: the object, without the books.
//! What identifies the items of a list, and which values are taken as a whole, comes from the schema of the
//! built-in types or that of a custom resource, see [`Types`].
//!
//! Deviation: entries written at another API version of the same kind are read as if their fields were those of
//! this version, since nothing here converts objects; entries of a version that the built-in kind does not have
//! are dropped, as the API server does. The limit of ten updating managers is left to the server.

mod check;
mod compare;
mod custom;
mod extent;
mod hint;
mod items;
mod managers;
mod merge;
mod remove;
mod schema;

pub use check::{go_text, go_type};
pub use schema::{Merging, Relation};

use serde_json::{Map, Value};

use crate::fields::{FieldSet, PathElement};
use crate::{Gvk, access};
use check::{Lenience, check};
pub use custom::SchemaTypes;
use hint::Hint;
use managers::{ManagerKey, Managers, Operation, Owned, Time};
use schema::Type;

/// Who is said to own the fields of an object whose books begin with an apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Members of every object that nobody owns.
const UNOWNED: &[&str] = &["apiVersion", "kind", "metadata"];

/// Members of metadata that nobody owns.
const UNOWNED_METADATA: &[&str] = &[
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// Where the types of an object come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types<'a> {
    /// The built-in types. Other kinds are refused.
    Builtin,
    /// The schema of a custom resource.
    Schema(&'a SchemaTypes),
    /// The object itself: maps are merged member by member, everything else is one value.
    Deduced,
}

/// Who applies, and how.
#[derive(Clone, Copy, Debug)]
pub struct ApplyRequest<'a> {
    /// Name of the manager.
    pub manager: &'a str,
    /// The subresource the apply went through; empty for the object itself.
    pub subresource: &'a str,
    /// The time that what is owned from here on gets; `None` leaves it out.
    pub time: Option<&'a str>,
    /// Whether fields are taken from other managers.
    pub force: bool,
    /// Where the types come from.
    pub types: Types<'a>,
}

/// What came of an apply.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    /// The object with its books. Entries that this apply wrote have no time.
    Object(Value),
    /// Other managers own fields that would change; of one manager after the other, in the order of field sets.
    Conflicts(Vec<Conflict>),
}

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// Path of the field, for example `.spec.replicas`.
    pub field: String,
    /// Who owns it.
    pub message: String,
}

/// Why objects could not be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StructuredError {
    /// The kind is not built in.
    #[error("unable to resolve parseableType for GroupVersionKind: {gvk}")]
    NoType {
        /// The kind.
        gvk: Box<Gvk>,
    },
    /// A value is not of its type.
    #[error("{path}: {why}")]
    Invalid {
        /// Where the value is.
        path: String,
        /// What is wrong with it, in the words of an API server.
        why: String,
    },
    /// The books of the live object cannot be read, or an applied object has some.
    #[error("metadata.managedFields: {why}")]
    ManagedFields {
        /// What is wrong with them.
        why: &'static str,
    },
}

/// Applies `config` to `live`, as a server does for an apply patch (EVAL-774).
pub fn apply(
    live: Option<&Value>,
    config: &Value,
    request: ApplyRequest<'_>,
) -> Result<Applied, StructuredError> {
    if access::at(config, &["metadata", "managedFields"]).is_some_and(|books| !books.is_null()) {
        return Err(StructuredError::ManagedFields { why: "an applied object must not have any" });
    }
    let merger = Merger::new(config, request.types)?;
    let (mut live, entries) = without_books(live.unwrap_or(&empty_of(config)));
    let mut managers = managers::decode(entries.as_ref())?;
    check(config, merger.of, Lenience { duplicates: false, unknown: false })?;
    check(&live, merger.of, Lenience { duplicates: true, unknown: false })?;
    if managers.is_empty() {
        let nothing = empty_of(config);
        merger.record_update(&nothing, &live, &mut managers, (BEFORE_FIRST_APPLY, ""));
    }
    merger.reconcile(&mut managers);
    let mut key = ManagerKey::new(request.manager, Operation::Apply, &merger.api_version);
    request.subresource.clone_into(&mut key.subresource);
    let own = extent::fields(config, merger.of);
    let before = managers.remove(&key);
    let others = managers.values().fold(FieldSet::default(), |all, owned| all.union(&owned.fields));
    let last = before.as_ref().map(|owned| &owned.fields);
    let object = merger.merged(&live, config, last, &own, &others);
    let conflicts = merger.hand_over(&live, &object, &mut managers);
    if !request.force && !conflicts.is_empty() {
        return Ok(Applied::Conflicts(conflicts));
    }
    let is_same = compare::is_same(&live, &object);
    let fields = without_unowned(own);
    if !fields.is_empty() {
        let time = if is_same { before.map(|owned| owned.time).unwrap_or_default() } else { Time::Now };
        managers.insert(key, Owned { version: merger.api_version.clone(), fields, time });
    }
    let mut object = if is_same { std::mem::take(&mut live) } else { object };
    set_books(&mut object, managers::encode(managers, request.time));
    Ok(Applied::Object(object))
}

/// The object that replaces `live`, with its books brought up to date (EVAL-774).
pub fn update(
    live: Option<&Value>,
    new: &Value,
    manager: &str,
    types: Types<'_>,
) -> Result<Value, StructuredError> {
    update_through(live, new, UpdateRequest { manager, subresource: "", time: None, types })
}

/// Who updates, and how.
#[derive(Clone, Copy, Debug)]
pub struct UpdateRequest<'a> {
    /// Name of the manager.
    pub manager: &'a str,
    /// The subresource the update went through; empty for the object itself.
    pub subresource: &'a str,
    /// The time that what is owned from here on gets; `None` leaves it out.
    pub time: Option<&'a str>,
    /// Where the types come from.
    pub types: Types<'a>,
}

/// [`update`], with everything that an entry of the books has.
pub fn update_through(
    live: Option<&Value>,
    new: &Value,
    request: UpdateRequest<'_>,
) -> Result<Value, StructuredError> {
    let UpdateRequest { manager, subresource, time, types } = request;
    let merger = Merger::new(new, types)?;
    let is_reset = match access::at(new, &["metadata", "managedFields"]) {
        Some(Value::Array(entries)) => match entries.as_slice() {
            [] => true,
            [entry] => entry.as_object().is_some_and(Map::is_empty),
            _ => false,
        },
        _ => false,
    };
    let uid_before = live.map_or("", access::uid).to_owned();
    let (live, live_entries) = without_books(live.unwrap_or(&empty_of(new)));
    let (mut object, entries) = without_books(new);
    // Whoever does not know about the books and drops them loses nothing.
    let mut managers = managers::decode(entries.as_ref()).unwrap_or_default();
    if managers.is_empty() && !is_reset {
        managers = managers::decode(live_entries.as_ref()).unwrap_or_default();
    }
    // Books begin when an object is made or first applied.
    if !managers.is_empty() || uid_before.is_empty() {
        let lenience = Lenience { duplicates: true, unknown: false };
        check(&object, merger.of, lenience)?;
        check(&live, merger.of, lenience)?;
        merger.reconcile(&mut managers);
        merger.record_update(&live, &object, &mut managers, (manager, subresource));
    }
    set_books(&mut object, managers::encode(managers, time));
    Ok(object)
}

/// What a forced apply by `manager` would make of `live`; `None` when it would change nothing (ENG-85). The
/// books stay as they are. Kinds and members without a type have a deduced one; for kinds, the books say which
/// lists have items with an identity.
pub fn predict(live: &Value, config: &Value, manager: &str) -> Result<Option<Value>, StructuredError> {
    let (live, entries) = without_books(live);
    let (config, _) = without_books(config);
    let mut managers = managers::decode(entries.as_ref())?;
    let check_both = |of: Type<'_>| {
        check(&config, of, Lenience { duplicates: false, unknown: true })?;
        check(&live, of, Lenience { duplicates: true, unknown: true })
    };
    let gvk = Gvk::of(&config);
    let mut hint = Hint::default();
    let of = if let Some(known) = Type::builtin(&gvk) {
        known
    } else {
        for owned in managers.values() {
            hint.add(&owned.fields);
        }
        Some(Type::hinted(&hint)).filter(|of| check_both(*of).is_ok()).unwrap_or(Type::DEDUCED)
    };
    check_both(of)?;
    let merger = Merger { of, api_version: access::text(&config, "apiVersion").to_owned(), gvk };
    merger.reconcile(&mut managers);
    let key = ManagerKey::new(manager, Operation::Apply, &merger.api_version);
    let predicted = match managers.remove(&key) {
        None => merge::merge(Some(&live), Some(&config), merger.of).unwrap_or(Value::Null),
        Some(last) => {
            let others = managers.values().fold(FieldSet::default(), |all, owned| all.union(&owned.fields));
            let own = extent::fields(&config, merger.of);
            merger.merged(&live, &config, Some(&last.fields), &own, &others)
        }
    };
    if compare::is_same(&live, &predicted) {
        return Ok(None);
    }
    let mut predicted = predicted;
    set_books(&mut predicted, entries);
    Ok(Some(predicted))
}

/// The part of the books that [`predict`] needs for `manager`, when the manager has applied the object: without
/// times, and without the status, which is not desired by anyone.
pub fn books_for_prediction(entries: &Value, manager: &str) -> Option<Value> {
    let listed = entries.as_array()?;
    let is_ours = |entry: &Value| {
        access::text(entry, "manager") == manager
            && access::text(entry, "operation") == "Apply"
            && access::text(entry, "subresource").is_empty()
    };
    if !listed.iter().any(is_ours) {
        return None;
    }
    Some(shortened(listed, |_| true))
}

/// The part of the books that [`books_for_prediction`] keeps, or else what the managers in `also` own, where rules
/// name them (ENG-70).
pub fn books_to_keep<M: AsRef<str>>(entries: &Value, manager: &str, also: &[M]) -> Option<Value> {
    if let Some(kept) = books_for_prediction(entries, manager) {
        return Some(kept);
    }
    let is_named = |entry: &Value| also.iter().any(|name| name.as_ref() == access::text(entry, "manager"));
    let kept = shortened(entries.as_array()?, is_named);
    kept.as_array().is_some_and(|kept| !kept.is_empty()).then_some(kept)
}

/// Entries without times, and without the status, which nobody desires.
fn shortened(entries: &[Value], is_kept: impl Fn(&Value) -> bool) -> Value {
    let kept = entries.iter().filter(|entry| is_kept(entry)).filter_map(|entry| {
        let mut entry = entry.as_object()?.clone();
        entry.remove("time");
        if let Some(Value::Object(fields)) = entry.get_mut("fieldsV1") {
            fields.remove("f:status");
            if fields.is_empty() {
                return None;
            }
        }
        Some(Value::Object(entry))
    });
    Value::Array(kept.collect())
}

/// What one operation knows about the types.
struct Merger<'a> {
    of: Type<'a>,
    gvk: Gvk,
    api_version: String,
}

impl<'a> Merger<'a> {
    fn new(object: &Value, types: Types<'a>) -> Result<Self, StructuredError> {
        let gvk = Gvk::of(object);
        let of = match types {
            Types::Deduced => Type::DEDUCED,
            Types::Schema(types) => Type::custom(types),
            Types::Builtin => {
                Type::builtin(&gvk).ok_or_else(|| StructuredError::NoType { gvk: Box::new(gvk.clone()) })?
            }
        };
        Ok(Self { of, gvk, api_version: access::text(object, "apiVersion").to_owned() })
    }

    /// Drops entries of versions that do not exist, and brings the others in line with the types.
    fn reconcile(&self, managers: &mut Managers) {
        // Other versions of a custom resource are not known here.
        let is_open = self.of.is_deduced() || self.of.is_custom();
        managers.retain(|_, owned| is_open || self.has_version(&owned.version));
        for owned in managers.values_mut() {
            owned.fields = extent::reconciled(std::mem::take(&mut owned.fields), self.of);
        }
    }

    fn has_version(&self, api_version: &str) -> bool {
        if api_version == self.api_version {
            return true;
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Type::builtin(&Gvk::new(group, version, &self.gvk.kind)).is_some()
    }

    /// The union of both, less what the manager owned last, owns no longer and nobody else owns.
    fn merged(
        &self,
        live: &Value,
        config: &Value,
        last: Option<&FieldSet>,
        own: &FieldSet,
        others: &FieldSet,
    ) -> Value {
        let merged = merge::merge(Some(live), Some(config), self.of).unwrap_or(Value::Null);
        let Some(last) = last.filter(|last| !last.is_subset(own)) else { return merged };
        let named = |set: &FieldSet| extent::with_named(set, Some(self.of));
        let last = named(last);
        let all = named(&extent::fields(&merged, self.of));
        let left = |value: &Value| named(&extent::fields(value, self.of));
        let pruned = remove::remove(merged.clone(), &last, self.of);
        // What somebody owns comes back, with what is around it.
        let owned = named(&own.clone().union(others));
        let pruned = remove::remove(merged.clone(), &all.difference(&left(&pruned).union(&owned)), self.of);
        // So does what the manager never owned.
        let gone = all.difference(&left(&pruned)).intersection(&last);
        remove::remove(merged, &gone, self.of)
    }

    /// Takes what changed from those who owned it; says what was theirs.
    fn hand_over(&self, before: &Value, after: &Value, managers: &mut Managers) -> Vec<Conflict> {
        let changes = compare::compare(before, after, self.of);
        let set = changes.modified.union(&changes.added);
        let mut conflicts = Vec::new();
        managers.retain(|key, owned| {
            let taken = owned.fields.intersection(&set);
            if !taken.is_empty() {
                let message = format!("conflict with {}", key.shown());
                let fields = taken.paths().into_iter();
                conflicts.extend(fields.map(|field| Conflict { field, message: message.clone() }));
                owned.fields = owned.fields.difference(&taken);
            }
            if !changes.removed.is_empty() {
                owned.fields = owned.fields.difference(&changes.removed);
            }
            !owned.fields.is_empty()
        });
        conflicts
    }

    /// Gives everything that changed to the one who changed it.
    fn record_update(
        &self,
        before: &Value,
        after: &Value,
        managers: &mut Managers,
        (manager, subresource): (&str, &str),
    ) {
        self.hand_over(before, after, managers);
        let changes = compare::compare(before, after, self.of);
        let fields = without_unowned(changes.modified.union(&changes.added));
        if fields.is_empty() {
            return;
        }
        let mut key = ManagerKey::new(manager, Operation::Update, &self.api_version);
        subresource.clone_into(&mut key.subresource);
        let owned = managers.entry(key).or_default();
        owned.version.clone_from(&self.api_version);
        owned.fields = fields.union(&owned.fields);
        owned.time = Time::Now;
    }
}

fn empty_of(object: &Value) -> Value {
    let mut empty = Map::new();
    for member in ["apiVersion", "kind"] {
        empty.insert(member.to_owned(), Value::from(access::text(object, member)));
    }
    Value::Object(empty)
}

/// The object and its books.
fn without_books(object: &Value) -> (Value, Option<Value>) {
    let mut object = object.clone();
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let entries = metadata.and_then(|metadata| metadata.remove("managedFields"));
    (object, entries)
}

fn set_books(object: &mut Value, entries: Option<Value>) {
    if let Some(entries) = entries {
        access::metadata_mut(object).insert("managedFields".to_owned(), entries);
    }
}

fn without_unowned(mut fields: FieldSet) -> FieldSet {
    let element = |name: &&str| PathElement::Field((*name).into());
    for name in UNOWNED.iter().map(element) {
        fields.members.remove(&name);
    }
    let metadata = element(&"metadata");
    if let Some(mut below) = fields.children.remove(&metadata) {
        for name in UNOWNED_METADATA.iter().map(element) {
            below.members.remove(&name);
        }
        fields.put(metadata, below);
    }
    fields
}
