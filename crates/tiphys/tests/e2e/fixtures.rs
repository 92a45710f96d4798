//! Manifests as files of a repository.

use serde_json::{Value, json};

use crate::world::merge;

/// A policy that syncs, heals and prunes by itself.
pub(crate) fn automated() -> Value {
    json!({"spec": {"syncPolicy": {"automated": {"prune": true, "selfHeal": true}}}})
}

/// The same with sync options.
pub(crate) fn automated_with(options: &[&str]) -> Value {
    let mut policy = automated();
    policy["spec"]["syncPolicy"]["syncOptions"] = json!(options);
    policy
}

/// Manual syncs with options.
pub(crate) fn manual() -> Value {
    json!({})
}

pub(crate) fn annotated(mut manifest: Value, annotations: &[(&str, &str)]) -> Value {
    for (name, value) in annotations {
        manifest["metadata"]["annotations"][*name] = json!(value);
    }
    manifest
}

/// Texts of several manifests in one file.
pub(crate) fn file(manifests: &[Value]) -> String {
    let texts = manifests.iter().map(|manifest| tiphys_go::yaml::to_string(manifest).unwrap());
    texts.collect::<Vec<_>>().join("---\n")
}

pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

pub(crate) fn deployment(name: &str, replicas: u32) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "example.test/web:1"}]},
            },
        },
    })
}

/// A Deployment whose Pods behave as told (`never-ready`, `ready-after-3s`, …).
pub(crate) fn simulated(mut workload: Value, behaviour: &str) -> Value {
    merge(
        &mut workload,
        &json!({"spec": {"template": {"metadata": {"annotations": {"tiphys.dev/sim": behaviour}}}}}),
    );
    workload
}

pub(crate) fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "example.test/job:1"}],
                },
            },
        },
    })
}

/// A Job that is a hook of the given types.
pub(crate) fn hook(name: &str, types: &str) -> Value {
    annotated(job(name), &[("argocd.argoproj.io/hook", types)])
}

pub(crate) fn wave(manifest: Value, wave: i64) -> Value {
    annotated(manifest, &[("argocd.argoproj.io/sync-wave", &wave.to_string())])
}

pub(crate) fn sync_options(manifest: Value, options: &str) -> Value {
    annotated(manifest, &[("argocd.argoproj.io/sync-options", options)])
}
