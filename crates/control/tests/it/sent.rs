//! Uploaded files may use only the sources of their application (API-147).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tiphys_control::ShowError;

use crate::world::{URL, World};

const APP: (&str, &str) = ("argocd", "shop");
const OTHER: &str = "ssh://git@git.example/other.git";
const SECOND: &str = "https://git.example/second.git";
/// Content of a repository that no answer may contain.
const CANARY: &str = "canary-of-another-repository";

/// A `tar.gz` with these files, not compressed.
fn packed(files: &[(&str, String)]) -> Bytes {
    let mut tar = Vec::new();
    for (name, content) in files {
        let mut header = [0_u8; 512];
        let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, "0000644\0");
        put(124, &format!("{:011o}\0", content.len()));
        put(136, "00000000000\0");
        put(148, "        ");
        put(156, "0");
        put(257, "ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        tar.extend_from_slice(&header);
        tar.extend_from_slice(content.as_bytes());
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    let mut gz = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let last = tar.chunks(60_000).count() - 1;
    for (at, block) in tar.chunks(60_000).enumerate() {
        let length = u16::try_from(block.len()).unwrap();
        gz.push(u8::from(at == last));
        gz.extend_from_slice(&length.to_le_bytes());
        gz.extend_from_slice(&(!length).to_le_bytes());
        gz.extend_from_slice(block);
    }
    let mut crc = u32::MAX;
    for byte in &tar {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    gz.extend_from_slice(&(!crc).to_le_bytes());
    gz.extend_from_slice(&u32::try_from(tar.len()).unwrap().to_le_bytes());
    gz.into()
}

fn config_map(name: &str, value: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
        .to_string()
}

fn kustomization(resources: &[&str]) -> String {
    json!({"kind": "Kustomization", "resources": resources}).to_string()
}

/// The application `shop`, with another repository that its project permits, too.
async fn world(spec: &Value) -> World {
    let world = World::start().await;
    world.commit("own");
    let overlay = |value: &str| {
        BTreeMap::from([
            ("base/kustomization.yaml".to_owned(), Bytes::from(kustomization(&["cm.yaml"]))),
            ("base/cm.yaml".to_owned(), Bytes::from(config_map("base", value))),
        ])
    };
    world.servers.commit(OTHER, "main", overlay(CANARY), 0).unwrap();
    world.servers.commit(SECOND, "old", overlay("old"), 0).unwrap();
    world.servers.commit(SECOND, "main", overlay("second"), 1).unwrap();
    world.create_with(&json!({"spec": spec}));
    world.pass(Duration::from_secs(20)).await;
    world
}

async fn send(world: &World, files: &[(&str, String)]) -> Result<Vec<Value>, ShowError> {
    world.controller().manifests_with_files(APP, packed(files), false).await
}

fn names(shown: &[Value]) -> Vec<String> {
    shown.iter().map(|object| format!("{} {}", object["metadata"]["name"], object["data"]["value"])).collect()
}

/// Uploaded files of a caller who may only see the application read no other repository of its project.
#[tokio::test(start_paused = true)]
async fn api_147_sent_files_name_no_other_repository() {
    let world = world(&json!({})).await;
    let other = format!("{OTHER}//base?ref=main");
    let chart = json!({"apiVersion": "v2", "name": "sent", "version": "1.0.0",
        "dependencies": [{"name": "db", "version": "1.0.0", "repository": "https://charts.example"}]});
    let inflated = json!({"kind": "Kustomization",
        "helmCharts": [{"name": "db", "version": "1.0.0", "repo": "https://charts.example"}]});
    world.settings(&json!({"kustomize.buildOptions": "--enable-helm"}));
    world.pass(Duration::from_secs(20)).await;
    for files in [
        vec![("shop/kustomization.yaml", kustomization(&[&other]))],
        vec![("shop/kustomization.yaml", kustomization(&["https://files.example/cm.yaml"]))],
        vec![("shop/kustomization.yaml", inflated.to_string())],
        vec![("shop/Chart.yaml", chart.to_string()), ("shop/values.yaml", "{}".to_owned())],
    ] {
        let refused = send(&world, &files).await;
        let is_refused = matches!(&refused, Err(ShowError::Failed(text)) if text.contains("own sources"));
        assert!(is_refused, "{files:?}: {refused:?}");
        assert!(!format!("{refused:?}").contains(CANARY), "{refused:?}");
    }
}

/// References to the first source's repository resolve to the upload; other sources are read at their revisions.
#[tokio::test(start_paused = true)]
async fn api_147_sent_files_name_the_sources_of_their_application() {
    let base = [
        ("base/kustomization.yaml", kustomization(&["cm.yaml"])),
        ("base/cm.yaml", config_map("base", "sent")),
    ];
    let with = |resource: &str| {
        let overlay = ("shop/kustomization.yaml", kustomization(&[resource]));
        [std::slice::from_ref(&overlay), &base[..]].concat()
    };
    let single = world(&json!({})).await;
    let shown = send(&single, &with(&format!("{URL}//base"))).await.unwrap();
    assert_eq!(names(&shown), ["\"base\" \"sent\""]);
    let shown = send(&single, &with("../base")).await.unwrap();
    assert_eq!(names(&shown), ["\"base\" \"sent\""]);
    let sources = json!([{"repoURL": URL, "path": "shop", "targetRevision": "main"},
        {"repoURL": SECOND, "path": "base", "targetRevision": "main"}]);
    let several = world(&json!({"source": null, "sources": sources})).await;
    for resource in ["//base", "//base?ref=main"] {
        let shown = send(&several, &with(&format!("{SECOND}{resource}"))).await;
        // The second source itself is the same object.
        assert_eq!(names(&shown.unwrap()), ["\"base\" \"second\"", "\"base\" \"second\""], "{resource}");
    }
    let refused = send(&several, &with(&format!("{SECOND}//base?ref=old"))).await;
    assert!(matches!(&refused, Err(ShowError::Failed(text)) if text.contains("own sources")), "{refused:?}");
}
