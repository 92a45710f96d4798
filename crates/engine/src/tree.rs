//! Records of the resource tree: what one object says about itself (ENG section 10).
//!
//! [`node_info`] derives everything a node shows that is not its identity or health; it is computed when an
//! object is seen and kept, packed, instead of the object. [`summary`] puts the nodes of an application together.

mod host;
mod network;
mod pod;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tiphys_api::application::Summary;
use tiphys_object::{Gvk, access};

pub use host::host;
pub use network::{Balancer, NetworkingInfo, TargetRef};

/// A name and a value for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InfoItem {
    /// Name, for example `Containers`.
    pub name: String,
    /// Value, for example `1/1`.
    pub value: String,
}

/// What one object says about itself (ENG-199, ENG-200). As JSON these are members of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Names and values for display.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub info: Vec<InfoItem>,
    /// Images, distinct, in order of appearance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// How the object takes part in networking.
    #[serde(default, rename = "networkingInfo", skip_serializing_if = "Option::is_none")]
    pub networking: Option<NetworkingInfo>,
}

/// Bytes that are kept of what one descendant says about itself; whoever may make objects decides how long it is.
const PACKED_BYTES_MAX: usize = 8 << 10;

impl NodeInfo {
    /// The members of a node as one text, `None` of an object that says nothing. Of one that says too much its part in
    /// networking is left out, then its images, then everything.
    pub fn packed(&self) -> Option<Box<str>> {
        let plain = Self { networking: None, ..self.clone() };
        let bare = Self { images: Vec::new(), ..plain.clone() };
        let kept = [self, &plain, &bare].into_iter().filter(|kept| **kept != Self::default());
        // Texts can always be written.
        let mut texts = kept.filter_map(|kept| serde_json::to_string(kept).ok());
        texts.find(|text| text.len() <= PACKED_BYTES_MAX).map(Into::into)
    }

    /// What was packed.
    pub fn unpacked(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

/// Derives the record of one object. `custom_labels` are the keys of `resource.customLabels`.
pub fn node_info(object: &Value, custom_labels: &[String]) -> NodeInfo {
    let gvk = Gvk::of(object);
    let mut info = Vec::new();
    if let Some(revision) = revision(object) {
        push(&mut info, "Revision", format!("Rev:{revision}"));
    }
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => pod::add_info(object, &mut info),
        ("argoproj.io", "Application") => {
            for (name, path) in [("Sync", ["status", "sync"]), ("Health", ["status", "health"])] {
                let status = access::at(object, &path).map_or("", |part| access::text(part, "status"));
                if !status.is_empty() {
                    push(&mut info, name, status);
                }
            }
        }
        _ => {}
    }
    for label in custom_labels {
        if let Some(value) = access::label(object, label) {
            push(&mut info, label, value);
        }
    }
    NodeInfo { info, images: images(object), networking: network::networking_info(&gvk, object) }
}

fn push(info: &mut Vec<InfoItem>, name: &str, value: impl Into<String>) {
    info.push(InfoItem { name: name.to_owned(), value: value.into() });
}

/// The revision an object shows, when it is positive.
fn revision(object: &Value) -> Option<i64> {
    let from = |key: &str| access::annotation(object, key)?.parse::<i64>().ok();
    from("deployment.kubernetes.io/revision")
        .or_else(|| from("rollout.argoproj.io/revision"))
        .or_else(|| object.get("revision").and_then(Value::as_i64))
        .filter(|revision| *revision > 0)
}

/// Images of containers and init containers, distinct, in order of appearance (ENG-199).
///
/// Looks into Pods, pod templates and `CronJob` templates, whatever the kind.
pub fn images(object: &Value) -> Vec<String> {
    const SPECS: [&[&str]; 3] =
        [&["spec", "template", "spec"], &["spec", "jobTemplate", "spec", "template", "spec"], &["spec"]];
    let mut known = HashSet::new();
    let mut images: Vec<String> = Vec::new();
    for path in SPECS {
        let Some(spec) = access::at(object, path) else { continue };
        for list in ["containers", "initContainers"] {
            for container in spec.get(list).and_then(Value::as_array).into_iter().flatten() {
                let image = access::text(container, "image");
                if !image.is_empty() && known.insert(image) {
                    images.push(image.to_owned());
                }
            }
        }
    }
    images
}

/// One node as the summary looks at it.
#[derive(Clone, Copy, Debug)]
pub struct SummaryNode<'a> {
    /// API group of its kind.
    pub group: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// What the object says about itself.
    pub info: &'a NodeInfo,
}

/// Images and links of an application's tree, sorted (ENG-202). Links of the Application's own annotations are
/// added as written.
pub fn summary<'a>(
    nodes: impl IntoIterator<Item = SummaryNode<'a>>,
    annotations: &BTreeMap<String, String>,
) -> Summary {
    let mut images = BTreeSet::new();
    let mut urls: BTreeSet<String> = annotations
        .iter()
        .filter(|(key, _)| key.starts_with(network::LINK_PREFIX))
        .map(|(_, value)| value.clone())
        .collect();
    let mut is_app_of_apps = false;
    for node in nodes {
        images.extend(node.info.images.iter().cloned());
        urls.extend(
            node.info.networking.iter().flat_map(|networking| networking.external_urls.iter().cloned()),
        );
        is_app_of_apps |= node.group == "argoproj.io" && node.kind == "Application";
    }
    Summary {
        external_urls: urls.into_iter().collect(),
        images: images.into_iter().collect(),
        is_app_of_apps,
        ..Summary::default()
    }
}

#[cfg(test)]
mod tests;
