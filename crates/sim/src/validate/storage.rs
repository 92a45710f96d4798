//! Volumes, claims and their classes.

use serde_json::{Map, Value, json};

use super::container::is_less;
use super::{immutable, names};
use crate::status::FieldError;
use crate::tree::{self, items, members, text};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];

/// Members of a volume's spec that are no source of one.
const PLAIN: [&str; 10] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
    "dataSource",
];

fn access_modes(spec: &Value, missing: &str) -> Vec<FieldError> {
    let modes = items(spec, &["accessModes"]);
    if modes.is_empty() {
        return vec![FieldError::required("spec.accessModes", missing)];
    }
    let unknown = modes.iter().filter(|mode| !mode.as_str().is_some_and(|mode| ACCESS_MODES.contains(&mode)));
    unknown.map(|mode| FieldError::not_supported("spec.accessModes", mode, &ACCESS_MODES)).collect()
}

fn one_of(holder: &Value, field: &str, name: &str, known: &[&str]) -> Option<FieldError> {
    let said = text(holder, &[name]);
    let is_wrong = !said.is_empty() && !known.contains(&said);
    is_wrong.then(|| FieldError::not_supported(format!("{field}{name}"), &json!(said), known))
}

fn class_name(spec: &Value) -> Vec<FieldError> {
    let class = text(spec, &["storageClassName"]);
    let problems = if class.is_empty() { Vec::new() } else { names::dns_subdomain(class) };
    problems.iter().map(|one| FieldError::invalid("spec.storageClassName", &json!(class), one)).collect()
}

/// Errors of a claim.
pub(super) fn claim(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut errors = access_modes(spec, "at least 1 access mode is required");
    let size = tree::at(spec, &["resources", "requests", "storage"]);
    match size.and_then(Value::as_str) {
        None => errors.push(FieldError::required("spec.resources[storage]", "")),
        Some(amount) if !is_less("0", amount) => {
            let problem = "must be greater than zero";
            errors.push(FieldError::invalid("spec.resources[storage]", &json!(amount), problem));
        }
        Some(_) => {}
    }
    errors.extend(class_name(spec));
    errors.extend(one_of(spec, "spec.", "volumeMode", &VOLUME_MODES));
    let Some(before) = old.and_then(|old| old.get("spec")) else { return errors };
    // The volume is named when the claim is bound, and the request may grow after that.
    let rest = |spec: &Value| -> Map<String, Value> {
        let mut rest = spec.as_object().cloned().unwrap_or_default();
        rest.remove("volumeAttributesClassName");
        if text(before, &["volumeName"]).is_empty() {
            rest.remove("volumeName");
        } else if let Some(Value::Object(resources)) = rest.get_mut("resources") {
            resources.remove("requests");
        }
        rest
    };
    if rest(spec) != rest(before) {
        let problem = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                       claims\n";
        errors.push(FieldError::forbidden("spec", problem));
    }
    let was = text(before, &["resources", "requests", "storage"]);
    if size.and_then(Value::as_str).is_some_and(|now| is_less(now, was)) {
        let problem = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden("spec.resources.requests.storage", problem));
    }
    errors
}

/// Errors of a volume.
pub(super) fn volume(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut errors = access_modes(spec, "");
    let capacity = members(spec, &["capacity"]).filter(|capacity| !capacity.is_empty());
    if capacity.is_none() {
        errors.push(FieldError::required("spec.capacity", ""));
    }
    if capacity.is_none_or(|capacity| !capacity.contains_key("storage")) {
        let found = spec.get("capacity").unwrap_or(&Value::Null);
        errors.push(FieldError::not_supported("spec.capacity", found, &["storage"]));
    }
    errors.extend(one_of(spec, "spec.", "persistentVolumeReclaimPolicy", &RECLAIM_POLICIES));
    let sources = |spec: &Value| -> Map<String, Value> {
        let all = spec.as_object().into_iter().flatten();
        let sources = all.filter(|(name, _)| !PLAIN.contains(&name.as_str()));
        sources.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let found = sources(spec);
    if found.is_empty() {
        errors.push(FieldError::required("spec", "must specify a volume type"));
    }
    let others =
        found.keys().filter(|name| *name != "hostPath").skip(usize::from(!found.contains_key("hostPath")));
    for name in others {
        errors.push(FieldError::forbidden(format!("spec.{name}"), "may not specify more than 1 volume type"));
    }
    errors.extend(class_name(spec));
    errors.extend(one_of(spec, "spec.", "volumeMode", &VOLUME_MODES));
    if let Some(before) = old.and_then(|old| old.get("spec")) {
        if sources(before) != found {
            let problem = "spec.persistentvolumesource is immutable after creation\n";
            errors.push(FieldError::forbidden("spec.persistentvolumesource", problem));
        }
        if spec.get("volumeMode") != before.get("volumeMode") {
            errors.push(immutable("spec.volumeMode", spec.get("volumeMode").unwrap_or(&Value::Null)));
        }
    }
    errors
}

/// Errors of a class of volumes.
pub(super) fn class(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(old) = old {
        for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            if object.get(name) != old.get(name) {
                errors.push(immutable(name, object.get(name).unwrap_or(&Value::Null)));
            }
        }
        return errors;
    }
    if text(object, &["provisioner"]).is_empty() {
        errors.push(FieldError::required("provisioner", ""));
    }
    errors.extend(one_of(object, "", "reclaimPolicy", &["Delete", "Retain"]));
    errors.extend(one_of(object, "", "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]));
    errors
}
