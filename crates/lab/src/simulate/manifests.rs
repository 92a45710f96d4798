//! Makes and changes the files of repositories.
//!
//! Every document is JSON, which is YAML too, so that the model can read it without the product's parser.

use std::collections::BTreeMap;

use base64::Engine as _;
use bytes::Bytes;
use serde_json::{Value, json};

use super::chance::Chance;

/// Files of a commit.
pub(super) type Files = BTreeMap<String, Bytes>;

/// Numbers in names of files and objects; few, so that they meet again.
const NAMES: u64 = 6;

/// A first set of files for an application.
pub(super) fn first(chance: &mut Chance, path: &str, namespace: &str, canary: &str) -> Files {
    let mut files = Files::new();
    for _ in 0..chance.within(1, 5) {
        add(chance, &mut files, path, namespace, canary);
    }
    files
}

/// Changes the files of one application in one way.
pub(super) fn change(chance: &mut Chance, files: &mut Files, path: &str, namespace: &str, canary: &str) {
    let directory = format!("{path}/");
    let own: Vec<String> = files.keys().filter(|name| name.starts_with(&directory)).cloned().collect();
    match chance.below(10) {
        0..=4 => add(chance, files, path, namespace, canary),
        5..=7 => {
            if let Some(name) = chance.pick(&own).filter(|_| own.len() > 1) {
                files.remove(name);
            }
        }
        8 => {
            if let Some(name) = chance.pick(&own) {
                // Whoever reads it meets an error, never an empty answer: it looks like an object (RND-92).
                files.insert(name.clone(), Bytes::from_static(b"apiVersion: v1\nkind: [\nmetadata: {}\n"));
            }
        }
        _ => {
            files.insert("README.md".to_owned(), Bytes::from(chance.below(1000).to_string()));
        }
    }
}

/// Adds a file, or replaces one of its name.
fn add(chance: &mut Chance, files: &mut Files, path: &str, namespace: &str, canary: &str) {
    let number = chance.below(NAMES);
    let kind = chance.below(20);
    let mut documents = vec![object(chance, kind, number, namespace, canary)];
    if chance.permille(200) {
        let other = chance.below(8);
        documents.push(object(chance, other, number + NAMES, namespace, canary));
    }
    let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
    files.insert(format!("{path}/{}-{number}.yaml", kind_word(kind)), Bytes::from(texts.join("\n---\n")));
}

fn kind_word(kind: u64) -> &'static str {
    match kind {
        0..=7 => "config",
        8..=12 => "workload",
        13..=14 => "wave",
        15..=16 => "hook",
        17..=18 => "secret",
        _ => "namespace",
    }
}

fn object(chance: &mut Chance, kind: u64, number: u64, namespace: &str, canary: &str) -> Value {
    let value = chance.below(100).to_string();
    match kind_word(kind) {
        "workload" => workload(&format!("web-{number}"), chance.within(0, 2), &value),
        "wave" => {
            let mut object = config(&format!("wave-{number}"), &value);
            let wave = ["-1", "1", "2"].get(usize::try_from(number % 3).unwrap_or(0)).copied();
            object["metadata"]["annotations"] = json!({"argocd.argoproj.io/sync-wave": wave});
            object
        }
        "hook" => hook(chance, &format!("hook-{number}"), &value),
        "secret" => {
            let secret = base64::engine::general_purpose::STANDARD.encode(format!("{canary}-{value}"));
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("secret-{number}")},
                "type": "Opaque", "data": {"password": secret}})
        }
        "namespace" => json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": format!("{namespace}-extra-{}", number % 2), "labels": {"value": value}}}),
        _ => config(&format!("config-{number}"), &value),
    }
}

fn config(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
}

fn workload(name: &str, replicas: u64, value: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
    "spec": {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": format!("example.com/web:{value}")}]},
        },
    }})
}

fn hook(chance: &mut Chance, name: &str, value: &str) -> Value {
    let phase = chance.pick(&["PreSync", "Sync", "PostSync"]).copied();
    let policy = chance.pick(&["BeforeHookCreation", "HookSucceeded", "HookFailed"]).copied();
    json!({"apiVersion": "batch/v1", "kind": "Job",
    "metadata": {"name": name, "annotations": {
        "argocd.argoproj.io/hook": phase,
        "argocd.argoproj.io/hook-delete-policy": policy,
    }},
    "spec": {
        "backoffLimit": 0,
        "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": format!("example.com/job:{value}")}],
        }},
    }})
}
