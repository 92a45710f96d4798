//! Registered clusters as parameters (ASET-35..39).

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tiphys_api::cluster::Cluster;
use tiphys_api::names::{IN_CLUSTER_NAME, SECRET_TYPE_LABEL};
use tiphys_object::selector::Selector;

use super::{GenerateError, Run};
use crate::generator::flag;
use crate::params::Params;
use crate::slug::normalize;

/// What the label says of cluster Secrets.
const CLUSTER: &str = "cluster";

pub(super) fn generate(run: &mut Run<'_>, block: &Map<String, Value>) -> Result<Vec<Params>, GenerateError> {
    let registered = run.facts.clusters()?;
    let selector = selector_of(block)?;
    let sees = |cluster: &Cluster| run.sees(cluster);
    // One that cannot be read hinders those who might get it, and nobody else (INV-8).
    let is_wanted = |cluster: &Cluster| {
        sees(cluster) && selector.as_ref().is_none_or(|selector| selects(selector, cluster))
    };
    if let Some(unread) = registered.unread().iter().find(|unread| unread.may_be(is_wanted)) {
        return Err(GenerateError::failed(unread.to_string()));
    }
    let clusters = select(run, registered.all().iter().filter(|cluster| sees(cluster)), selector.as_ref());
    let mut sets = Vec::new();
    for cluster in clusters {
        let mut set = parameters(cluster, run.language.is_go());
        run.add_values(block, &mut set)?;
        run.made(set, &mut sets)?;
    }
    if !flag(block, "flatList") {
        return Ok(sets);
    }
    let all = sets.into_iter().map(Value::Object).collect();
    Ok(vec![Params::from_iter([("clusters".to_owned(), Value::Array(all))])])
}

/// The selector of Secrets; `None` where it is empty.
fn selector_of(block: &Map<String, Value>) -> Result<Option<Selector>, GenerateError> {
    let Some(written) = block.get("selector").filter(|selector| !selector.is_null()) else { return Ok(None) };
    let selector =
        Selector::from_object(written).map_err(|error| GenerateError::failed(error.to_string()))?;
    Ok((!selector.is_everything()).then_some(selector))
}

/// Sorted by name, the local cluster without a Secret last; of equal names one counts (ASET-37, ASET-39).
fn select<'c>(
    run: &Run<'_>,
    clusters: impl Iterator<Item = &'c Cluster>,
    selector: Option<&Selector>,
) -> Vec<&'c Cluster> {
    let mut implicit = None;
    let mut secrets: BTreeMap<&str, &Cluster> = BTreeMap::new();
    for cluster in clusters {
        if cluster.secret_name.is_empty() && cluster.name == IN_CLUSTER_NAME {
            implicit = Some(cluster);
        } else if selector.is_none_or(|selector| selects(selector, cluster)) {
            let held = secrets.entry(&cluster.name).or_insert(cluster);
            if run.precedence(cluster) < run.precedence(held) {
                *held = cluster;
            }
        }
    }
    let is_registered = |local: &&Cluster| secrets.values().any(|cluster| cluster.server == local.server);
    let implicit = implicit.filter(|local| selector.is_none() && !is_registered(local));
    secrets.into_values().chain(implicit).collect()
}

/// Whether a cluster's Secret has the labels. That it is one of a cluster is a label too.
fn selects(selector: &Selector, cluster: &Cluster) -> bool {
    selector.matches(|key| match key {
        SECRET_TYPE_LABEL => Some(CLUSTER),
        key => cluster.labels.get(key).map(String::as_str),
    })
}

fn parameters(cluster: &Cluster, is_go: bool) -> Params {
    let mut set = Params::new();
    let mut put = |key: &str, text: &str| set.insert(key.to_owned(), Value::String(text.to_owned()));
    put("name", &cluster.name);
    put("nameNormalized", &normalize(&cluster.name));
    put("server", &cluster.server);
    put("project", &cluster.project);
    if cluster.secret_name.is_empty() {
        return set;
    }
    let mut labels = texts(&cluster.labels);
    labels.insert(SECRET_TYPE_LABEL.to_owned(), CLUSTER.into());
    let annotations = texts(&cluster.annotations);
    if is_go {
        let parts = [("labels", labels), ("annotations", annotations)];
        let metadata = parts.into_iter().filter(|(_, part)| !part.is_empty());
        let metadata = metadata.map(|(name, part)| (name.to_owned(), Value::Object(part))).collect();
        set.insert("metadata".to_owned(), Value::Object(metadata));
    } else {
        set.extend(labels.into_iter().map(|(key, text)| (format!("metadata.labels.{key}"), text)));
        set.extend(annotations.into_iter().map(|(key, text)| (format!("metadata.annotations.{key}"), text)));
    }
    set
}

fn texts(map: &BTreeMap<String, String>) -> Map<String, Value> {
    map.iter().map(|(key, text)| (key.clone(), Value::String(text.clone()))).collect()
}
