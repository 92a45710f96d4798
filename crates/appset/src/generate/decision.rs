//! Clusters that another resource chose, as parameters (ASET-42, ASET-43).

use serde_json::{Map, Value};
use tiphys_api::cluster::Cluster;
use tiphys_object::access;

use super::{GenerateError, Run, put_values, unread_refusal, values_of};
use crate::facts::{DecisionQuestion, Decisions, TextMap};
use crate::generator::{Kind, text};
use crate::params::{Params, as_floats, printed};

/// Why decisions are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionError {
    /// The `ConfigMap` does not say which kind is meant (ASET-42).
    #[error("there is a problem with the apiVersion, kind or resourceName provided")]
    Kind,
    /// There are no resources.
    #[error("no clusterDecisionResources found")]
    NoResources,
    /// A resource lists something else than decisions.
    #[error("status.{key} of {name} is no list of objects")]
    NoDecisions {
        /// Member of the status.
        key: String,
        /// Name of the resource.
        name: String,
    },
}

/// Which kind of resource holds decisions, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionConfig {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// The plural, as the `ConfigMap` has it under `kind`.
    pub resource: String,
    /// Member of the status that lists decisions.
    pub status_list_key: String,
    /// Member of a decision that names the cluster.
    pub match_key: String,
}

impl DecisionConfig {
    /// Reads the data of the `ConfigMap`.
    ///
    /// # Errors
    /// When it does not say which kind is meant.
    pub fn read(data: &TextMap) -> Result<Self, DecisionError> {
        let text = |key: &str| data.get(key).map_or("", String::as_str);
        let (group, version) = text("apiVersion").split_once('/').ok_or(DecisionError::Kind)?;
        if [group, version, text("kind")].iter().any(|part| part.is_empty()) {
            return Err(DecisionError::Kind);
        }
        let list = text("statusListKey");
        Ok(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: text("kind").to_owned(),
            status_list_key: if list.is_empty() { "clusters".to_owned() } else { list.to_owned() },
            match_key: text("matchKey").to_owned(),
        })
    }
}

/// The decisions of resources, in order; resources without a status have none (ASET-43).
///
/// # Errors
/// When there are no resources, or one lists something else.
pub fn decisions_of(config: &DecisionConfig, resources: &[Value]) -> Result<Decisions, DecisionError> {
    if resources.is_empty() {
        return Err(DecisionError::NoResources);
    }
    let mut decisions = Vec::new();
    for resource in resources {
        let Some(status) = resource.get("status").filter(|status| !status.is_null()) else { continue };
        // Deviation (ASET-43): what is no list of objects is an error instead of a crash.
        let wrong = || DecisionError::NoDecisions {
            key: config.status_list_key.clone(),
            name: access::name(resource).to_owned(),
        };
        let list = match status.get(&config.status_list_key) {
            None | Some(Value::Null) => continue,
            Some(list) => list.as_array().ok_or_else(wrong)?,
        };
        for decision in list {
            decisions.push(decision.as_object().cloned().ok_or_else(wrong)?);
        }
    }
    Ok(Decisions::Found { match_key: config.match_key.clone(), decisions })
}

pub(super) fn generate(run: &mut Run<'_>, block: &Map<String, Value>) -> Result<Vec<Params>, GenerateError> {
    let given = |name: &str| block.get(name).filter(|value| !value.is_null() && *value != "");
    let (name, selector) = (given("name"), given("labelSelector"));
    if name.is_some() == selector.is_some() {
        return Err(GenerateError::failed(
            "there is a problem with the definition of the ClusterDecisionResource generator",
        ));
    }
    let question = DecisionQuestion {
        config_map: text(block, "configMapRef").to_owned(),
        name: name.and_then(Value::as_str).map(str::to_owned),
        label_selector: selector.cloned(),
        access: run.scope.access(run.request.settings),
    };
    unread_refusal(&question.access, &run.references(Kind::ClusterDecisionResource, block))?;
    let mut sets = Vec::new();
    let (match_key, decisions) = match run.facts.decisions(&question)? {
        Decisions::Given(given) => {
            for set in given.iter() {
                let mut set = set.clone();
                add_verbatim(run, block, &mut set)?;
                run.made(set, &mut sets)?;
            }
            return Ok(sets);
        }
        Decisions::Found { match_key, decisions } => (match_key, decisions),
    };
    let clusters = run.facts.clusters()?;
    let visible: Vec<_> = clusters.all().iter().filter(|cluster| run.sees(cluster)).collect();
    let may_be_seen = |cluster: &Cluster| run.sees(cluster);
    let unread: Vec<_> = clusters.unread().iter().filter(|unread| unread.may_be(may_be_seen)).collect();
    for decision in decisions {
        let Value::Object(decision) = as_floats(Value::Object(decision))? else { continue };
        let Some(wanted) = decision.get(&match_key).map(printed) else { continue };
        let called = visible.iter().filter(|cluster| cluster.name == wanted);
        let Some(cluster) = called.min_by(|a, b| run.precedence(a).cmp(&run.precedence(b))) else {
            // It may be the one that cannot be read (INV-8).
            match unread.iter().find(|unread| unread.may_be(|cluster| cluster.name == wanted)) {
                Some(unread) => return Err(GenerateError::failed(unread.to_string())),
                None => continue,
            }
        };
        let mut set = Params::new();
        set.insert("name".to_owned(), cluster.name.clone().into());
        set.insert("server".to_owned(), cluster.server.clone().into());
        set.extend(decision.iter().map(|(key, value)| (key.clone(), printed(value).into())));
        add_verbatim(run, block, &mut set)?;
        run.made(set, &mut sets)?;
    }
    Ok(sets)
}

/// Values of this generator are not templates (ASET-24).
fn add_verbatim(run: &Run<'_>, block: &Map<String, Value>, set: &mut Params) -> Result<(), GenerateError> {
    if let Some(values) = values_of(block)? {
        let values = values.into_iter().map(|(key, text)| (key.clone(), text.to_owned())).collect();
        put_values(values, set, run.language.is_go());
    }
    Ok(())
}
