//! Rows of volumes and what they are made by.

use serde_json::Value;

use super::network::default_name;
use super::row::{NONE, Row, UNSET};

const DEFAULT_CLASS: [&str; 2] = [
    "/metadata/annotations/storageclass.kubernetes.io~1is-default-class",
    "/metadata/annotations/storageclass.beta.kubernetes.io~1is-default-class",
];
const CLASS_ANNOTATION: &str = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";

pub(super) fn volume(row: &Row<'_>) -> Vec<Value> {
    let claim = row.at("/spec/claimRef").map_or_else(String::new, |_| {
        format!("{}/{}", row.text("/spec/claimRef/namespace"), row.text("/spec/claimRef/name"))
    });
    vec![
        row.name(),
        row.plain("/spec/capacity/storage").unwrap_or_else(|| "0".to_owned()).into(),
        access_modes(row, "/spec/accessModes").into(),
        row.text("/spec/persistentVolumeReclaimPolicy").into(),
        phase(row).into(),
        claim.into(),
        class_name(row).into(),
        row.text_or("/spec/volumeAttributesClassName", UNSET).into(),
        row.text("/status/reason").into(),
        row.age(),
        row.text_or("/spec/volumeMode", UNSET).into(),
    ]
}

pub(super) fn claim(row: &Row<'_>) -> Vec<Value> {
    let is_bound = !row.text("/spec/volumeName").is_empty();
    let capacity = is_bound.then(|| row.plain("/status/capacity/storage").unwrap_or_else(|| "0".to_owned()));
    let modes = is_bound.then(|| access_modes(row, "/status/accessModes"));
    vec![
        row.name(),
        phase(row).into(),
        row.text("/spec/volumeName").into(),
        capacity.unwrap_or_default().into(),
        modes.unwrap_or_default().into(),
        class_name(row).into(),
        row.text_or("/spec/volumeAttributesClassName", UNSET).into(),
        row.age(),
        row.text_or("/spec/volumeMode", UNSET).into(),
    ]
}

fn phase<'a>(row: &Row<'a>) -> &'a str {
    if row.is_terminating() { "Terminating" } else { row.text("/status/phase") }
}

fn class_name<'a>(row: &Row<'a>) -> &'a str {
    match row.at(CLASS_ANNOTATION).and_then(Value::as_str) {
        Some(name) => name,
        None => row.text("/spec/storageClassName"),
    }
}

fn access_modes(row: &Row<'_>, path: &str) -> String {
    let written = row.texts(path);
    let all = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let short: Vec<&str> =
        all.iter().filter(|(mode, _)| written.contains(mode)).map(|(_, short)| *short).collect();
    short.join(",")
}

pub(super) fn class(row: &Row<'_>) -> Vec<Value> {
    vec![
        default_name(row, &DEFAULT_CLASS).into(),
        row.text("/provisioner").into(),
        row.text_or("/reclaimPolicy", "Delete").into(),
        row.text_or("/volumeBindingMode", "Immediate").into(),
        row.is_set("/allowVolumeExpansion").into(),
        row.age(),
    ]
}

pub(super) fn attributes_class(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text("/driverName").into(), row.age()]
}

pub(super) fn attachment(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text("/spec/attacher").into(),
        row.text("/spec/source/persistentVolumeName").into(),
        row.text("/spec/nodeName").into(),
        row.is_set("/status/attached").into(),
        row.age(),
    ]
}

pub(super) fn node(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.count("/spec/drivers").into(), row.age()]
}

pub(super) fn driver(row: &Row<'_>) -> Vec<Value> {
    let audiences = row.at("/spec/tokenRequests").map(|_| {
        let all: Vec<&str> = row.items("/spec/tokenRequests").map(|one| one.text("/audience")).collect();
        all.join(",")
    });
    let modes = row.texts("/spec/volumeLifecycleModes").join(",");
    vec![
        row.name(),
        row.at("/spec/attachRequired").and_then(Value::as_bool).unwrap_or(true).into(),
        row.is_set("/spec/podInfoOnMount").into(),
        row.is_set("/spec/storageCapacity").into(),
        audiences.unwrap_or_else(|| UNSET.to_owned()).into(),
        row.is_set("/spec/requiresRepublish").into(),
        if modes.is_empty() { NONE } else { modes.as_str() }.into(),
        row.age(),
    ]
}
