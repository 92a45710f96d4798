//! `delete`: grace, finalizers, propagation.

use serde_json::{Value, json};
use smol_str::SmolStr;
use tiphys_object::access;

use crate::answer::{Form, Reply};
use crate::clock::seconds;
use crate::read::{present, shown, within};
use crate::request::{Place, Request};
use crate::resource::Resource;
use crate::select::Filter;
use crate::state::{State, finalizers, is_terminating, set_finalizers};
use crate::status::{FieldError, Status};
use crate::store::Key;

/// The finalizer under which dependents lose their owner before it goes.
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer under which dependents go before their owner.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// Kinds whose deletion answers with the object and not with a status.
const RETURNS_OBJECT: &[(&str, &str)] = &[
    ("", "pods"),
    ("", "services"),
    ("", "persistentvolumes"),
    ("", "persistentvolumeclaims"),
    ("", "serviceaccounts"),
    ("", "podtemplates"),
    ("", "resourcequotas"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "csinodes"),
];

/// What is to become of dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// How something is deleted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    propagation: Option<Propagation>,
    grace: Option<i64>,
    uid: String,
    version: String,
    is_dry: bool,
}

impl Options {
    /// Deletes with the object's own grace, dependents in the background.
    pub(crate) fn in_background() -> Self {
        Self { propagation: Some(Propagation::Background), ..Self::default() }
    }

    /// Deletes once the dependents are gone.
    pub(crate) fn in_foreground() -> Self {
        Self { propagation: Some(Propagation::Foreground), ..Self::default() }
    }

    fn parse(request: &Request) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let is_dry = crate::write::dry_run(request, &mut errors);
        let mut options = Self { is_dry, ..Self::default() };
        let mut policy = request.query.get("propagationPolicy").unwrap_or("").to_owned();
        options.grace = request.query.number("gracePeriodSeconds")?;
        let mut orphans = request.query.get("orphanDependents").map(|text| text != "false");
        if !request.body.is_empty() {
            let body = crate::write::options_tree(request)?;
            let kind = access::text(&body, "kind");
            if !matches!(kind, "" | "DeleteOptions") {
                return Err(Status::bad_request(format!(
                    "no kind {kind:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
                    access::text(&body, "apiVersion")
                )));
            }
            if let Some(text) = body.get("propagationPolicy").and_then(Value::as_str) {
                text.clone_into(&mut policy);
            }
            if let Some(grace) = body.get("gracePeriodSeconds").and_then(Value::as_i64) {
                options.grace = Some(grace);
            }
            if let Some(flag) = body.get("orphanDependents").and_then(Value::as_bool) {
                orphans = Some(flag);
            }
            let given = body.get("dryRun").and_then(Value::as_array).into_iter().flatten();
            for value in given {
                options.is_dry = true;
                if value != "All" {
                    errors.push(FieldError::not_supported("dryRun", &json!([value]), &["All"]));
                }
            }
            access::text_at(&body, &["preconditions", "uid"]).clone_into(&mut options.uid);
            access::text_at(&body, &["preconditions", "resourceVersion"]).clone_into(&mut options.version);
        }
        if orphans.is_some() && !policy.is_empty() {
            errors.push(FieldError::invalid(
                "propagationPolicy",
                &json!(policy),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        options.propagation = match policy.as_str() {
            "" => orphans.map(|orphans| if orphans { Propagation::Orphan } else { Propagation::Background }),
            "Orphan" => Some(Propagation::Orphan),
            "Background" => Some(Propagation::Background),
            "Foreground" => Some(Propagation::Foreground),
            other => {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported("propagationPolicy", &json!(other), &known));
                None
            }
        };
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &errors))
        }
    }
}

/// What a deletion did.
pub(crate) enum Outcome {
    /// The object is gone; its last state.
    Gone(Value),
    /// It waits for finalizers or for its time of grace.
    Waits(Value),
}

/// `DELETE` of one object.
pub(crate) fn delete(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    place: &Place,
) -> Result<Reply, Status> {
    let options = Options::parse(request)?;
    let key = state.key(resource, &place.namespace, &place.name);
    let old = state.store.get(&key).map(|stored| present(resource, stored));
    let Some(old) = old else {
        return Err(Status::not_found(&resource.group, &resource.plural, &place.name));
    };
    check(resource, &place.name, &old, &options)?;
    let uid = access::uid(&old).to_owned();
    let mut warnings = Vec::new();
    if resource.group == "batch" && resource.plural == "jobs" && options.propagation.is_none() {
        warnings.push(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
             them or set propagationPolicy=Orphan to suppress this warning"
                .to_owned(),
        );
    }
    let value = match carry_out(state, request, resource, &key, old, &options) {
        Outcome::Gone(last) if returns_object(resource) => last,
        Outcome::Gone(_) => {
            let mut details = json!({"name": place.name, "kind": resource.plural, "uid": uid});
            if !resource.group.is_empty() {
                access::ensure_object(&mut details).insert("group".to_owned(), json!(resource.group));
            }
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
        }
        Outcome::Waits(object) => object,
    };
    Ok(Reply::Object { code: 200, value, warnings })
}

/// `DELETE` of a collection.
pub(crate) fn delete_collection(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    place: &Place,
    form: Form,
) -> Result<Reply, Status> {
    let options = Options::parse(request)?;
    let filter = Filter::parse(&request.query, resource)?;
    let kind = state.kind(resource);
    let found: Vec<Value> = match state.store.objects(&kind) {
        Some(objects) => within(objects, &place.namespace, None)
            .map(|(_, stored)| present(resource, stored))
            .filter(|object| filter.matches(object))
            .collect(),
        None => Vec::new(),
    };
    // The answer is the list as it was before anything went.
    let metadata = json!({"resourceVersion": state.store.version().to_string()});
    for object in &found {
        let key = state.key(resource, access::namespace(object), access::name(object));
        carry_out(state, request, resource, &key, object.clone(), &options);
    }
    Ok(Reply::ok(crate::answer::list(form, resource, found, metadata, request.now)))
}

fn returns_object(resource: &Resource) -> bool {
    RETURNS_OBJECT.iter().any(|(group, plural)| resource.group == *group && resource.plural == *plural)
}

fn check(resource: &Resource, name: &str, old: &Value, options: &Options) -> Result<(), Status> {
    let refuse = |what: &str, given: &str, found: &str, guess: &str| {
        if resource.group.is_empty() && resource.plural == "namespaces" {
            let why = format!(
                "Precondition failed: {what} in precondition: {given}, {what} in object meta: {found}"
            );
            return Err(Status::conflict("", "namespaces", name, &why));
        }
        let why = format!(
            "the {what} in the precondition ({given}) does not match the {what} in record ({found}). The \
             object might have been {guess}"
        );
        Err(Status::conflict(&resource.group, &resource.kind, name, &why))
    };
    let uid = access::uid(old);
    if !options.uid.is_empty() && options.uid != uid {
        return refuse("UID", &options.uid, uid, "deleted and then recreated");
    }
    let version = access::text_at(old, &["metadata", "resourceVersion"]);
    if !options.version.is_empty() && options.version != version {
        return refuse("ResourceVersion", &options.version, version, "modified");
    }
    Ok(())
}

fn carry_out(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    key: &Key,
    old: Value,
    options: &Options,
) -> Outcome {
    if !options.is_dry {
        return delete_object(state, resource, key, old, options, request.now);
    }
    if finalizers(&old).is_empty() { Outcome::Gone(old) } else { Outcome::Waits(old) }
}

/// Deletes an object, or marks it as being deleted.
pub(crate) fn delete_object(
    state: &mut State,
    resource: &Resource,
    key: &Key,
    mut object: Value,
    options: &Options,
    now: jiff::Timestamp,
) -> Outcome {
    let before = object.clone();
    let mut kept = finalizers(&object);
    propagate(resource, options.propagation, &mut kept);
    let grace = grace_of(resource, &object, options.grace);
    set_finalizers(&mut object, &kept);
    let is_namespace = resource.group.is_empty() && resource.plural == "namespaces";
    let has_contents = is_namespace
        && access::at(&object, &["spec", "finalizers"])
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty());
    let was_terminating = is_terminating(&before);
    let grace_before =
        access::at(&before, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
    let grace_left = match (was_terminating, grace_before) {
        // A second deletion may only shorten the time.
        (true, Some(before)) => grace.min(before),
        _ => grace,
    };
    if kept.is_empty() && !has_contents && grace_left == 0 {
        if resource.group.is_empty() && resource.plural == "pods" {
            // What may have a time of grace is marked before it goes, even when the time is none.
            mark(&mut object, 0, now, was_terminating, false);
            let marked = state.commit(key, object);
            state.erase(key);
            return Outcome::Gone(shown(resource, marked));
        }
        if let Some(last) = state.erase(key) {
            return Outcome::Gone(present(resource, &last));
        }
        return Outcome::Gone(object);
    }
    if crate::write::is_definition(resource) && !was_terminating {
        crate::crd::mark_pending(&mut object, &seconds(now));
    }
    if !was_terminating || grace_before != Some(grace_left) {
        mark(&mut object, grace_left, now, was_terminating, is_namespace);
    }
    if object == before {
        return Outcome::Waits(object);
    }
    Outcome::Waits(shown(resource, state.commit(key, object)))
}

fn mark(object: &mut Value, grace: i64, now: jiff::Timestamp, was_terminating: bool, is_namespace: bool) {
    let time = now.checked_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(now);
    let metadata = access::metadata_mut(object);
    metadata.insert("deletionTimestamp".to_owned(), json!(seconds(time)));
    if !is_namespace {
        metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
    }
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|_| !was_terminating)
    {
        metadata.insert("generation".to_owned(), json!(generation + 1));
    }
    if is_namespace {
        let status = access::member_object_mut(access::ensure_object(object), "status");
        status.insert("phase".to_owned(), json!("Terminating"));
    }
}

/// Pods end in their own time; everything else at once.
fn grace_of(resource: &Resource, object: &Value, asked: Option<i64>) -> i64 {
    if !(resource.group.is_empty() && resource.plural == "pods") {
        return 0;
    }
    let is_over = matches!(access::text_at(object, &["status", "phase"]), "Succeeded" | "Failed");
    if is_over || access::text_at(object, &["spec", "nodeName"]).is_empty() {
        return 0;
    }
    let own = access::at(object, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
    asked.or(own).unwrap_or(30).max(0)
}

/// Finalizers that the wish about dependents adds and takes away.
fn propagate(resource: &Resource, wish: Option<Propagation>, kept: &mut Vec<SmolStr>) {
    let orphans_by_default = (resource.group == "batch" && resource.plural == "jobs")
        || (resource.group.is_empty() && resource.plural == "replicationcontrollers");
    let wish = match wish {
        Some(wish) => wish,
        None if kept.iter().any(|one| one == ORPHAN) => Propagation::Orphan,
        None if kept.iter().any(|one| one == FOREGROUND) => Propagation::Foreground,
        None if orphans_by_default => Propagation::Orphan,
        None => Propagation::Background,
    };
    let added = match wish {
        Propagation::Orphan => ORPHAN,
        Propagation::Foreground => FOREGROUND,
        Propagation::Background => "",
    };
    kept.retain(|one| (one != ORPHAN && one != FOREGROUND) || one == added);
    if !added.is_empty() && !kept.iter().any(|one| one == added) {
        kept.push(added.into());
    }
}
