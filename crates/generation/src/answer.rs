//! Answers the questions of a generation: from repositories, plugins, providers and the control plane (INV-8).
//!
//! What cannot be answered completely is an error with a text; nothing here makes an empty list of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use tiphys_appset::facts::{DecisionQuestion, GitQuestion, PluginQuestion, ProviderQuestion};
use tiphys_appset::generate::{
    DecisionConfig, PluginConfig, decisions_of, plugin_body, plugin_parameters, plugin_url,
};
use tiphys_cluster::{ObjectEvent, ObjectQuery, Target, error_chain, watch_objects};
use tiphys_installation::objects;
use tiphys_object::{Gvk, Object};
use tiphys_policy::signature::Verdict;
use tiphys_source::{Freshness, Repository, Signed, SourceError};
use tokio::sync::mpsc;

use crate::ledger::{Given, Ledger, Question};
use crate::services::{PluginCall, ProviderAsk, Referenced, References};
use crate::{Answerer, Inputs, references};

/// Questions of one set that are answered at the same time.
const AT_ONCE: usize = 8;
/// Time for one answer, whatever it needs.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(10);
/// Time for a list of objects of the control plane.
const LIST_TIMEOUT: Duration = Duration::from_mins(1);
/// Objects of such a list.
const LISTED_MAX: usize = 10_000;
/// Events that may wait between a list and who reads it.
const EVENTS_MAX: usize = 1024;

/// Answers questions, several at a time.
pub(crate) async fn all(by: &Answerer, inputs: &Inputs, questions: Vec<Question>) {
    futures::stream::iter(questions)
        .for_each_concurrent(AT_ONCE, |question| async move {
            let answer = tokio::time::timeout(ANSWER_TIMEOUT, one(by, inputs, &question)).await;
            let answer = answer.unwrap_or_else(|_elapsed| {
                Err(format!("there was no answer within {} minutes", ANSWER_TIMEOUT.as_secs() / 60))
            });
            inputs.ledger.answered(&question, answer);
        })
        .await;
}

async fn one(by: &Answerer, inputs: &Inputs, question: &Question) -> Result<Given, String> {
    match question {
        Question::Directories(question) | Question::Files(question) => {
            git(by, &inputs.ledger, question).await
        }
        Question::Plugin(question) => plugin(by, question).await,
        Question::Repositories(question) => {
            let ask = provider(by, inputs, question);
            by.services.providers.repositories(ask).await.map(|found| Given::Params(found.into()))
        }
        Question::PullRequests(question) => {
            let ask = provider(by, inputs, question);
            by.services.providers.pull_requests(ask).await.map(|found| Given::Params(found.into()))
        }
        Question::Decisions(question) => decisions(by, question).await,
    }
}

/// Files or directories of a repository, as they are in one commit that may be used (ASET-46, ASET-51, ASET-274).
async fn git(by: &Answerer, ledger: &Ledger, question: &GitQuestion) -> Result<Given, String> {
    let world = &ledger.world;
    let registered = || {
        let of = |found: &&tiphys_api::repository::Repository| found.project == question.project;
        let mut own = world.repositories.iter().filter(of);
        own.any(|found| tiphys_api::repo_url::same(&found.url, &question.repo_url))
    };
    if let Some(refusal) = question.registration_refusal(registered) {
        return Err(refusal);
    }
    let sources = &by.sources;
    let repository = if question.without_credentials {
        Repository::anonymous(&question.repo_url)
    } else {
        Repository::from(&world.repository(&question.repo_url, &question.project)?)
    };
    let told = |error: SourceError| {
        if question.without_credentials { question.unpermitted(&error) } else { error.to_string() }
    };
    let freshness = if question.fresh { Freshness::Fetch } else { Freshness::Cached };
    let resolved = sources.resolve(&repository, &question.revision, freshness).await;
    let commit = resolved.map_err(told)?;
    verify(by, ledger, question, (&repository, &commit)).await?;
    let tree = if question.submodules {
        sources.tree(&repository, &commit).await
    } else {
        sources.tree_without_submodules(&repository, &commit).await
    };
    let tree = tree.map_err(told)?;
    by.listings.get(by.compute.clone(), &question.what, tree).await
}

/// Refuses a commit that is not signed as the project wants it (ASET-46, REP-200).
async fn verify(
    by: &Answerer,
    ledger: &Ledger,
    question: &GitQuestion,
    (repository, commit): (&Repository, &str),
) -> Result<(), String> {
    if question.project.is_empty() {
        return Ok(());
    }
    let world = &ledger.world;
    let project = world.project(&question.project);
    let project = project.map_err(|_none| format!("project {} is not there", question.project))?;
    let rule = world.signature_rule(project, &question.repo_url).map_err(|error| error.to_string())?;
    let Some(rule) = rule else { return Ok(()) };
    let signed = Signed {
        commit,
        named: &question.revision,
        tag_prefix: "",
        mode: rule.mode,
        keyring: &world.keyring,
    };
    let mut verdict = Verdict::new(&rule);
    let sources = &by.sources;
    let looked = sources.signatures(repository, signed, &mut |object| verdict.take(object)).await;
    looked.map_err(|error| error.to_string())?;
    verdict.refusal().map_or(Ok(()), Err)
}

/// What a plugin says (ASET-68..70).
async fn plugin(by: &Answerer, question: &PluginQuestion) -> Result<Given, String> {
    let (namespace, name, access) = (&by.namespace, &question.config_map, &question.access);
    let objects = &*by.objects;
    let config_map = references::plugin(objects, access, (namespace, name)).await?;
    let config = PluginConfig::read(&config_map.data).map_err(|error| error.to_string())?;
    let token = references::plugin_token(objects, access, (namespace, &config_map, &config.token)).await?;
    let call = PluginCall {
        url: plugin_url(&config.base_url),
        token: token.into(),
        body: plugin_body(question),
        timeout: config.timeout,
    };
    let answer = by.services.plugins.post(call).await;
    let (status, body) = answer.map_err(|why| format!("error calling the plugin {name:?}: {why}"))?;
    let read = by.compute.run(move || plugin_parameters(status, &body)).await?;
    read.map(|sets| Given::Params(sets.into())).map_err(|error| error.to_string())
}

fn provider(by: &Answerer, inputs: &Inputs, question: &ProviderQuestion) -> ProviderAsk {
    ProviderAsk {
        question: question.clone(),
        set: inputs.set.metadata.name.clone(),
        settings: Arc::new(inputs.settings().clone()),
        objects: Arc::clone(&by.objects),
        environment: Arc::clone(&by.environment),
        is_go: inputs.set.spec.go_template,
        observer: by.observer.clone(),
    }
}

/// What resources of the control plane's namespace decide about clusters (ASET-42, ASET-43).
async fn decisions(by: &Answerer, question: &DecisionQuestion) -> Result<Given, String> {
    let namespace = &by.namespace;
    let named = (namespace.as_str(), question.config_map.as_str());
    let config_map = references::decision(&*by.objects, &question.access, named).await?;
    let config = DecisionConfig::read(&config_map.data).map_err(|error| error.to_string())?;
    let mut query = decision_query(by, &config).await?;
    query.namespace = namespace.as_str().into();
    match (&question.name, &question.label_selector) {
        (Some(name), _) => query.field_selector = format!("metadata.name={name}"),
        (None, Some(selector)) => query.label_selector = selector_text(selector)?,
        (None, None) => {}
    }
    let found = list(by, query, LISTED_MAX).await?;
    let mut manifests = Vec::with_capacity(found.len());
    for object in found {
        manifests.push(object.to_value().map_err(|error| error.to_string())?);
    }
    decisions_of(&config, &manifests).map(Given::Decisions).map_err(|error| error.to_string())
}

/// Where the resources are served; a kind that was installed a moment ago is looked for once more.
async fn decision_query(by: &Answerer, config: &DecisionConfig) -> Result<ObjectQuery, String> {
    let shown = |error: tiphys_cluster::ApiError| error_chain(&error);
    let mut kinds = by.discovery.kinds().await.map_err(shown)?;
    for is_last in [false, true] {
        let is_it = |resource: &&Arc<tiphys_cluster::ApiResource>| {
            resource.gvk.group == config.group
                && resource.gvk.version == config.version
                && resource.plural == config.resource
        };
        if let Some(resource) = kinds.resources().find(is_it) {
            return Ok(ObjectQuery {
                resource: Arc::clone(resource),
                namespace: String::new().into(),
                label_selector: String::new(),
                field_selector: String::new(),
            });
        }
        if !is_last {
            kinds = by.discovery.refresh().await.map_err(shown)?;
        }
    }
    Err(format!(
        "the server could not find the requested resource {} in {}/{}",
        config.resource, config.group, config.version
    ))
}

/// A label selector as it stands in requests.
fn selector_text(selector: &Value) -> Result<String, String> {
    let wrong = || "labelSelector is no label selector".to_owned();
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(wrong);
    let mut parts = Vec::new();
    match selector.get("matchLabels") {
        None | Some(Value::Null) => {}
        Some(labels) => {
            for (key, value) in labels.as_object().ok_or_else(wrong)? {
                parts.push(format!("{key}={}", text(value)?));
            }
        }
    }
    match selector.get("matchExpressions") {
        None | Some(Value::Null) => {}
        Some(expressions) => {
            for expression in expressions.as_array().ok_or_else(wrong)? {
                let member = |name: &str| expression.get(name).cloned().unwrap_or_default();
                let key = text(&member("key"))?;
                let values = member("values").as_array().cloned().unwrap_or_default();
                let values = values.iter().map(text).collect::<Result<Vec<_>, _>>()?.join(",");
                parts.push(match member("operator").as_str() {
                    Some("In") => format!("{key} in ({values})"),
                    Some("NotIn") => format!("{key} notin ({values})"),
                    Some("Exists") => key,
                    Some("DoesNotExist") => format!("!{key}"),
                    _ => return Err(wrong()),
                });
            }
        }
    }
    Ok(parts.join(","))
}

/// All objects of a query, as they are now.
///
/// # Errors
/// When they are not all known, or one of them cannot be read.
pub(crate) async fn list(by: &Answerer, query: ObjectQuery, max: usize) -> Result<Vec<Arc<Object>>, String> {
    let kind = query.resource.gvk.kind.clone();
    let (sender, mut receiver) = mpsc::channel(EVENTS_MAX);
    let jitter = Arc::clone(&by.jitter);
    // It follows them until it is dropped; the first list is all that is wanted.
    let cancel = by.cancel.child_token();
    let _ended = cancel.clone().drop_guard();
    let follows = watch_objects(by.connection.clone(), query, sender, jitter, cancel);
    let gathers = async {
        let mut found = BTreeMap::new();
        while let Some(event) = receiver.recv().await {
            match event {
                ObjectEvent::Upsert(received) => {
                    let object = received.read().map_err(|bad| bad.to_string())?;
                    found.insert(received.key().clone(), object);
                }
                ObjectEvent::Delete(key) => drop(found.remove(&key)),
                ObjectEvent::Synced => return Ok(found.into_values().collect()),
                ObjectEvent::Failed(reason) => return Err(reason),
            }
            if found.len() > max {
                return Err(format!("there are too many objects of the kind {kind}"));
            }
        }
        Err("the list ended early".to_owned())
    };
    let both = async {
        tokio::select! {
            biased;
            found = gathers => found,
            () = follows => Err("the list ended early".to_owned()),
        }
    };
    tokio::time::timeout(LIST_TIMEOUT, both)
        .await
        .map_err(|_elapsed| format!("the list of {kind} took too long"))?
}

/// Reads Secrets and `ConfigMaps` of the control plane's cluster when they are asked for.
#[derive(Clone)]
pub struct FromHome(pub tiphys_cluster::Writer);

impl FromHome {
    async fn read(&self, kind: &str, namespace: &str, name: &str) -> Result<Option<Arc<Object>>, String> {
        if name.is_empty() {
            return Ok(None);
        }
        let target = Target::new(Gvk::new("", "v1", kind), namespace, name);
        let found = self.0.get(&target).await;
        found.map_err(|error| format!("{kind} {name:?}: {}", error_chain(&error)))
    }
}

fn labels(object: &Object) -> BTreeMap<String, String> {
    let labels = &object.metadata().labels;
    labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

impl References for FromHome {
    fn secret<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Referenced>, String>> {
        Box::pin(async move {
            let found = self.read("Secret", namespace, name).await?;
            Ok(found.map(|object| Referenced { labels: labels(&object), data: objects::decoded(&object) }))
        })
    }

    fn config_map<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Referenced>, String>> {
        Box::pin(async move {
            let found = self.read("ConfigMap", namespace, name).await?;
            Ok(found.map(|object| Referenced { labels: labels(&object), data: objects::texts(&object) }))
        })
    }
}
