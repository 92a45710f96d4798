//! What a write has to keep before anything is changed.

use serde_json::{Value, json};
use tiphys_object::access;

use crate::crd;
use crate::request::Place;
use crate::resource::{Resource, Scope};
use crate::state::{State, finalizers, is_terminating};
use crate::status::{Cause, FieldError, Status};
use crate::store::Key;

/// Kinds whose definition wants a version with every replacement.
const CONDITIONAL: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
    ("policy", "poddisruptionbudgets"),
];

/// Bytes of an object that the database accepts (`--max-request-bytes` of etcd).
const OBJECT_BYTES_MAX: usize = 3 << 19;

/// The name in an object is that of the path.
pub(crate) fn check_name(object: &Value, place: &Place) -> Result<(), Status> {
    let (name, wanted) = (access::name(object), &place.name);
    if name == wanted {
        return Ok(());
    }
    Err(Status::bad_request(if name.is_empty() {
        format!("the name of the object ({wanted} based on URL) was undeterminable: name must be provided")
    } else {
        format!("the name of the object ({name}) does not match the name on the URL ({wanted})")
    }))
}

/// Kinds whose objects a replacement makes when they are not there.
pub(super) fn makes_by_update(resource: &Resource) -> bool {
    let kinds: &[&str] = match resource.group.as_str() {
        "" => &["Endpoints", "Event", "LimitRange", "Service"],
        "events.k8s.io" => &["Event"],
        "coordination.k8s.io" => &["Lease", "LeaseCandidate"],
        "node.k8s.io" => &["RuntimeClass"],
        "rbac.authorization.k8s.io" => &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
        _ => &[],
    };
    resource.custom.is_none() && kinds.contains(&resource.kind.as_str())
}

pub(super) fn wants_version(resource: &Resource) -> bool {
    resource.custom.is_some()
        || CONDITIONAL.iter().any(|(group, plural)| resource.group == *group && resource.plural == *plural)
}

/// Version and uid that the writer believes in.
pub(super) fn check_preconditions(
    resource: &Resource,
    key: &Key,
    old: &Value,
    new: &Value,
    method: &http::Method,
) -> Result<(), Status> {
    let (uid, old_uid) = (access::uid(new), access::uid(old));
    if !uid.is_empty() && uid != old_uid {
        if method == http::Method::PATCH {
            // Only a replacement says whom it means; a patch changes what must not change, and two rules see it.
            let error = FieldError::invalid("metadata.uid", &json!(uid), "field is immutable");
            let errors = [error.clone(), error];
            return Err(Status::invalid(&resource.group, &resource.kind, &key.name, &errors));
        }
        let group = match resource.group.as_str() {
            "" => String::new(),
            group => format!("{group}/"),
        };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}",
            resource.plural,
            key.path()
        );
        return Err(Status::conflict(&resource.group, &resource.plural, &key.name, &why));
    }
    let version = access::text_at(new, &["metadata", "resourceVersion"]);
    if !version.is_empty()
        && version != "0"
        && version != access::text_at(old, &["metadata", "resourceVersion"])
    {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        return Err(Status::conflict(&resource.group, &resource.plural, &key.name, why));
    }
    Ok(())
}

/// An object that is being deleted gets no more finalizers.
pub(super) fn check_new_finalizers(
    resource: &Resource,
    key: &Key,
    old: &Value,
    new: &Value,
) -> Result<(), Status> {
    if !is_terminating(old) {
        return Ok(());
    }
    let before = finalizers(old);
    let added: Vec<String> =
        finalizers(new).into_iter().filter(|one| !before.contains(one)).map(String::from).collect();
    if added.is_empty() {
        return Ok(());
    }
    let why = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(", ")
    );
    // A server looks twice: at what all objects share, and at the kind.
    let error = FieldError::forbidden("metadata.finalizers", &why);
    Err(Status::invalid(&resource.group, &resource.kind, &key.name, &[error.clone(), error]))
}

/// Rules of a definition.
pub(super) fn check_definition(definition: &Value, old: Option<&Value>) -> Result<(), Status> {
    let errors = crd::validate(definition, old);
    if errors.is_empty() {
        return Ok(());
    }
    let name = access::name(definition);
    Err(Status::invalid("apiextensions.k8s.io", "CustomResourceDefinition", name, &errors))
}

pub(super) fn refuse_invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&resource.group, &resource.kind, name, errors))
}

/// Name and namespace of the path, and those of the object, are one.
pub(crate) fn settle_place(resource: &Resource, place: &Place, object: &mut Value) -> Result<(), Status> {
    let namespace = access::namespace(object);
    if resource.scope == Scope::Cluster {
        if !namespace.is_empty() {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        return Ok(());
    }
    if !namespace.is_empty() && namespace != place.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    access::metadata_mut(object).insert("namespace".to_owned(), json!(place.namespace));
    Ok(())
}

/// New objects need a namespace that is there to stay.
pub(super) fn check_namespace(
    state: &mut State,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<(), Status> {
    if resource.scope == Scope::Cluster {
        return Ok(());
    }
    match state.namespace_is_terminating(namespace) {
        Some(false) => Ok(()),
        None => Err(Status::not_found("", "namespaces", namespace)),
        Some(true) => {
            let plural = match resource.group.as_str() {
                "" => resource.plural.to_string(),
                group => format!("{}.{group}", resource.plural),
            };
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            let cause = Cause {
                reason: "NamespaceTerminating".to_owned(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".to_owned(),
            };
            Err(Status::new(403, "Forbidden", format!("{plural} {name:?} is forbidden: {why}"))
                .about(name, &resource.group, &resource.plural)
                .caused_by([cause]))
        }
    }
}

/// Refuses an object that is too large for one request of the database, in its words.
pub(super) fn refuse_too_large(object: &Value) -> Result<(), Status> {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    let is_written = serde_json::to_writer(&mut count, object).is_ok();
    if is_written && count.0 <= OBJECT_BYTES_MAX {
        return Ok(());
    }
    Err(Status::new(500, "", "etcdserver: request is too large"))
}
