//! Label and field selectors of lists and watches.

use serde_json::Value;
use tiphys_object::access;
use tiphys_object::selector::{Selector, SelectorError};

use crate::request::Query;
use crate::resource::Resource;
use crate::status::Status;
use crate::validate::names;

/// What a list or watch is about.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    labels: Option<Selector>,
    fields: Vec<Field>,
}

#[derive(Clone, Debug)]
struct Field {
    path: Vec<String>,
    value: String,
    is_equal: bool,
}

/// Fields that kinds can be selected by, beyond name and namespace.
const FIELDS: &[(&str, &str, &[&str])] = &[
    (
        "",
        "pods",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
    ),
    (
        "",
        "events",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    ("", "secrets", &["type"]),
    ("", "namespaces", &["status.phase"]),
    ("", "nodes", &["spec.unschedulable"]),
    ("", "services", &["spec.clusterIP", "spec.type"]),
    ("", "replicationcontrollers", &["status.replicas"]),
    ("apps", "replicasets", &["status.replicas"]),
    ("batch", "jobs", &["status.successful"]),
    ("certificates.k8s.io", "certificatesigningrequests", &["spec.signerName"]),
];

impl Filter {
    /// Reads `labelSelector` and `fieldSelector`.
    pub(crate) fn parse(query: &Query, resource: &Resource) -> Result<Self, Status> {
        let labels = match query.get("labelSelector") {
            None | Some("") => None,
            Some(text) => Some(
                text.parse::<Selector>()
                    .map_err(|error| Status::bad_request(labels_problem(text, &error)))?,
            ),
        };
        let fields = fields(query.get("fieldSelector").unwrap_or(""), resource)?;
        Ok(Self { labels, fields })
    }

    /// Whether everything is asked for.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_none() && self.fields.is_empty()
    }

    /// Whether an object is asked for.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.as_ref().is_none_or(|labels| labels.matches(|key| access::label(object, key)))
            && self.fields.iter().all(|field| field.matches(object))
    }
}

impl Field {
    fn matches(&self, object: &Value) -> bool {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let found = match access::at(object, &path) {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => match path.as_slice() {
                // What is left out has the value that its Go type begins with.
                ["spec", "hostNetwork" | "unschedulable"] => "false".to_owned(),
                ["status", "replicas" | "successful"] => "0".to_owned(),
                ["source"] => access::text_at(object, &["source", "component"]).to_owned(),
                _ => String::new(),
            },
            Some(Value::Object(_)) => access::text_at(object, &["source", "component"]).to_owned(),
            Some(other) => other.to_string(),
        };
        (found == self.value) == self.is_equal
    }
}

/// What a real server says about a selector.
fn labels_problem(text: &str, error: &SelectorError) -> String {
    match error {
        SelectorError::Syntax { found, expected } => {
            let expected = expected.replace("end of string", "'end of string'");
            if expected == "'('" {
                return format!("unable to parse requirement: found '{found}' expected: '('");
            }
            let is_between = expected.contains("end of string") || expected.contains("after");
            let prefix = if is_between { "" } else { "unable to parse requirement: " };
            format!("{prefix}found '{found}', expected: {expected}")
        }
        SelectorError::Key(key) => {
            let why = names::qualified(key).into_iter().next().unwrap_or_default();
            format!("unable to parse requirement: <nil>: Invalid value: {key:?}: {why}")
        }
        SelectorError::Value(value) => {
            let why = names::label_value(value).into_iter().next().unwrap_or_default();
            let key = text.split(',').find(|term| term.contains(value.as_str())).unwrap_or("");
            let end = |letter: char| matches!(letter, '=' | '!' | ' ' | '<' | '>');
            let key = key.trim().split(end).next().unwrap_or("");
            format!("unable to parse requirement: values[0][{key}]: Invalid value: {value:?}: {why}")
        }
        other => format!("unable to parse requirement: {other}"),
    }
}

fn fields(text: &str, resource: &Resource) -> Result<Vec<Field>, Status> {
    let mut fields = Vec::new();
    for term in split(text) {
        let (path, value, is_equal) = if let Some((path, value)) = term.split_once("!=") {
            (path, value, false)
        } else if let Some((path, value)) = term.split_once("==") {
            (path, value, true)
        } else if let Some((path, value)) = term.split_once('=') {
            (path, value, true)
        } else {
            return Err(Status::bad_request(format!(
                "invalid selector: '{text}'; can't understand '{term}'"
            )));
        };
        let is_known = path == "metadata.name"
            || (path == "metadata.namespace" && resource.scope == crate::resource::Scope::Namespaced)
            || FIELDS.iter().any(|(group, plural, paths)| {
                resource.group == *group && resource.plural == *plural && paths.contains(&path)
            });
        if !is_known {
            let message = match (resource.custom.is_some(), path) {
                (true, _) => format!("field label not supported: {path}"),
                (false, "metadata.namespace") => {
                    format!("{path:?} is not a known field selector: only \"metadata.name\"")
                }
                (false, _)
                    if FIELDS
                        .iter()
                        .any(|(group, plural, _)| resource.group == *group && resource.plural == *plural) =>
                {
                    format!("field label not supported: {path}")
                }
                (false, _) => format!(
                    "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                ),
            };
            return Err(Status::bad_request(message));
        }
        fields.push(Field {
            path: path.split('.').map(str::to_owned).collect(),
            value: unescape(value),
            is_equal,
        });
    }
    Ok(fields)
}

/// Terms between commas that are not escaped; empty ones are dropped.
fn split(text: &str) -> Vec<String> {
    let (mut terms, mut term, mut escaped) = (Vec::new(), String::new(), false);
    for letter in text.chars() {
        if letter == ',' && !escaped {
            terms.push(std::mem::take(&mut term));
            continue;
        }
        escaped = letter == '\\' && !escaped;
        term.push(letter);
    }
    terms.push(term);
    terms.retain(|term| !term.is_empty());
    terms
}

fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '\\' {
            plain.extend(letters.next());
        } else {
            plain.push(letter);
        }
    }
    plain
}
