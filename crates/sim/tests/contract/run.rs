//! One case on one server: its steps in order, and the answers without what differs from run to run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::LazyLock;

use bytes::Bytes;
use http::{Method, header};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::PATIENCE;
use crate::case::{Case, VERBS};
use crate::client::Answer;
use crate::normal::Normal;
use crate::target::Target;

mod commands;
mod pointer;
mod waits;

/// What an `Accept` of `kubectl get` says.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
/// Different in every run, so that cases of several runs do not meet on one server.
static RUN: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));

type Step = Map<String, Value>;

/// A case that runs.
pub(crate) struct Runner<'a> {
    target: &'a Target,
    /// Values of `$name`.
    variables: BTreeMap<String, String>,
    normal: Normal,
    folder: TempDir,
    /// What requests created outside of the namespaces.
    made: Vec<String>,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(target: &'a Target, case: &Case) -> Self {
        let mut runner = Self {
            target,
            variables: BTreeMap::new(),
            normal: Normal::default(),
            folder: tempfile::tempdir().unwrap(),
            made: Vec::new(),
        };
        let tag = letters(&format!("{}{}", *RUN, case.name), 8);
        // Placeholders are as long as what they stand for: columns of tables keep their width.
        for index in 1..=case.namespaces {
            let suffix = if index == 1 { String::new() } else { index.to_string() };
            let (name, _) = tag.split_at(8 - suffix.len());
            runner.name(&format!("ns{suffix}"), &format!("ct-{name}{suffix}"), index);
        }
        let (prefix, _) = tag.split_at(7);
        runner.normal.literal(&format!("x{prefix}"), "<prefix>");
        runner.variables.insert("id".to_owned(), format!("x{prefix}"));
        runner.variables.insert("turn".to_owned(), "1".to_owned());
        runner.variables.insert("big".to_owned(), "a".repeat(case.big));
        let folder = runner.folder.path().to_str().unwrap().to_owned();
        runner.normal.literal(&folder, "<folder>");
        let server = target.client.server.clone();
        runner.normal.literal(&server, "<server>");
        runner.normal.literal(server.trim_start_matches("https://"), "<address>");
        runner.write_kubeconfig();
        runner
    }

    fn name(&mut self, variable: &str, name: &str, index: usize) {
        let placeholder = if index == 1 { "<namespace>".to_owned() } else { format!("<namespac{index}>") };
        self.normal.literal(name, &placeholder);
        self.variables.insert(variable.to_owned(), name.to_owned());
    }

    fn write_kubeconfig(&self) {
        let mut config = self.target.kubeconfig.clone();
        if let Some(namespace) = self.variables.get("ns") {
            config["contexts"][0]["context"]["namespace"] = json!(namespace);
        }
        std::fs::write(self.folder.path().join("kubeconfig"), config.to_string()).unwrap();
    }

    /// Does every step.
    pub(crate) async fn run(&mut self, case: &Case) -> Vec<Value> {
        for index in 1..=case.namespaces {
            let suffix = if index == 1 { String::new() } else { index.to_string() };
            let name = self.variables[&format!("ns{suffix}")].clone();
            self.make_namespace(&name).await;
        }
        let mut answers = Vec::new();
        for step in &case.steps {
            self.step(step, &mut answers).await;
        }
        answers
    }

    /// A namespace with what controllers put into it, so that lists in it do not change by themselves.
    async fn make_namespace(&mut self, name: &str) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string();
        let headers = [("content-type".to_owned(), "application/json".to_owned())];
        let path = "/api/v1/namespaces";
        drop(self.target.client.call(Method::POST, path, &headers, body.into()).await);
        self.made.push(format!("{path}/{name}"));
        for path in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
            let path = format!("/api/v1/namespaces/{name}/{path}");
            for _ in 0..500 {
                if self.target.client.get(&path).await.is_some() {
                    break;
                }
                tokio::time::sleep(waits::POLL).await;
            }
        }
    }

    /// Deletes what the case left; does not wait for it.
    pub(crate) async fn clean_up(&mut self, case: &Case) {
        let mut paths: Vec<String> = case.cleanup.iter().map(|path| self.fill(path)).collect();
        paths.extend(self.made.iter().rev().cloned());
        for path in paths {
            drop(self.target.client.call(Method::DELETE, &path, &[], Bytes::new()).await);
        }
    }

    fn step<'b>(
        &'b mut self,
        step: &'b Step,
        answers: &'b mut Vec<Value>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>> {
        Box::pin(async move {
            let verb = VERBS.into_iter().find(|verb| step.contains_key(*verb)).unwrap();
            let is_too_young = self.target.is_real && is_set(step, "aged");
            let mut answer = match verb {
                _ if is_too_young => Map::from_iter([("skipped".to_owned(), json!(true))]),
                "until" => self.until(step).await,
                "watch" => self.watch(step, answers).await,
                "kubectl" => self.kubectl(step, answers).await,
                _ => self.request(verb, step).await,
            };
            answer.insert("step".to_owned(), json!(format!("{verb} {}", step[verb].as_str().unwrap())));
            answers.push(Value::Object(answer));
        })
    }

    async fn request(&mut self, verb: &str, step: &Step) -> Step {
        let (method, path) = match verb {
            "merge" | "json" | "strategic" | "apply" => ("PATCH", step[verb].as_str().unwrap()),
            "send" => step[verb].as_str().unwrap().split_once(' ').unwrap(),
            _ => (verb, step[verb].as_str().unwrap()),
        };
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        let path = self.fill(path);
        let headers = self.headers(verb, step);
        let body = self.body(step);
        let call = self.target.client.call(method.clone(), &path, &headers, body.into());
        match tokio::time::timeout(PATIENCE, call).await {
            Err(_) => refuse(&format!("no answer after {PATIENCE:?}")),
            Ok(Err(error)) => refuse(&error),
            Ok(Ok(answer)) => {
                self.remember_made(&method, &path, &answer);
                self.answer(step, &answer)
            }
        }
    }

    fn headers(&self, verb: &str, step: &Step) -> Vec<(String, String)> {
        let mut headers: BTreeMap<String, String> = BTreeMap::new();
        headers.insert("accept".to_owned(), "application/json".to_owned());
        if step.get("table").is_some_and(|table| *table == json!(true)) {
            headers.insert("accept".to_owned(), TABLE.to_owned());
        }
        let default = match verb {
            "merge" => Some("application/merge-patch+json"),
            "json" => Some("application/json-patch+json"),
            "strategic" => Some("application/strategic-merge-patch+json"),
            "apply" => Some("application/apply-patch+yaml"),
            _ if step.contains_key("body") || step.contains_key("text") => Some("application/json"),
            _ => None,
        };
        headers.extend(default.map(|kind| ("content-type".to_owned(), kind.to_owned())));
        let members = [("content-type", "type"), ("accept", "accept")];
        for (name, member) in members {
            if let Some(value) = step.get(member).and_then(Value::as_str) {
                headers.insert(name.to_owned(), value.to_owned());
            }
        }
        for (name, value) in step.get("headers").and_then(Value::as_object).into_iter().flatten() {
            headers.insert(name.to_lowercase(), self.fill(value.as_str().unwrap()));
        }
        headers.retain(|_, value| !value.is_empty());
        headers.into_iter().collect()
    }

    fn body(&self, step: &Step) -> String {
        match (step.get("text"), step.get("body")) {
            (Some(text), _) => self.fill(text.as_str().unwrap()),
            (None, Some(body)) => self.fill(&body.to_string()),
            (None, None) => String::new(),
        }
    }

    /// What of an answer is kept.
    fn answer(&mut self, step: &Step, answer: &Answer) -> Step {
        let mut kept = Map::new();
        kept.insert("status".to_owned(), json!(answer.status.as_u16()));
        let text = |name| answer.headers.get(name).and_then(|value| value.to_str().ok());
        let warnings: Vec<&str> =
            answer.headers.get_all(header::WARNING).iter().filter_map(|value| value.to_str().ok()).collect();
        if !warnings.is_empty() {
            kept.insert("warnings".to_owned(), self.normal.value(&json!(warnings)));
        }
        let parsed: Option<Value> = serde_json::from_slice(&answer.body).ok();
        if let Some(body) = &parsed {
            self.save(step, body);
        }
        if is_set(step, "quiet") {
            if !answer.status.is_success() {
                kept.insert("body".to_owned(), self.normal.value(&parsed.unwrap_or_default()));
            }
            return kept;
        }
        for (name, member) in [(header::CONTENT_TYPE, "type"), (header::RETRY_AFTER, "retryAfter")] {
            if let Some(text) = text(name).filter(|text| *text != "application/json") {
                kept.insert(member.to_owned(), json!(text));
            }
        }
        let body = match parsed {
            Some(body) => pointer::select(step, &body, &mut self.normal),
            None => json!(self.normal.text(&String::from_utf8_lossy(&answer.body))),
        };
        kept.insert("body".to_owned(), body);
        kept
    }

    /// Variables that a step takes from an answer.
    fn save(&mut self, step: &Step, body: &Value) {
        for (name, path) in step.get("save").and_then(Value::as_object).into_iter().flatten() {
            let value = match body.pointer(path.as_str().unwrap()) {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => continue,
            };
            self.variables.insert(name.clone(), value);
        }
    }

    /// Text with the values of its variables; a `$` before anything else stays.
    fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // The longest first: `$ns2` is not `$ns` and a `2`.
        let mut names: Vec<_> = self.variables.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        for (name, value) in names {
            text = text.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
        }
        text
    }

    fn remember_made(&mut self, method: &Method, path: &str, answer: &Answer) {
        let path = path.split('?').next().unwrap_or_default();
        let outside = self
            .variables
            .iter()
            .all(|(name, value)| !name.starts_with("ns") || !path.contains(&format!("/namespaces/{value}/")));
        if !outside || answer.status != 201 {
            return;
        }
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let Some(name) = body["metadata"]["name"].as_str() else { return };
        let made = if method == Method::POST { format!("{path}/{name}") } else { path.to_owned() };
        self.made.push(made);
    }
}

/// An answer that there is none.
fn refuse(error: &str) -> Step {
    Map::from_iter([("failed".to_owned(), json!(error))])
}

fn is_set(step: &Step, member: &str) -> bool {
    step.get(member).is_some_and(|value| *value == json!(true))
}

fn number(step: &Step, member: &str) -> Option<usize> {
    step.get(member).and_then(Value::as_u64).map(|number| usize::try_from(number).unwrap())
}

/// Letters that follow from a text.
fn letters(text: &str, count: usize) -> String {
    let mut hash = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
    let mut letters = String::new();
    for _ in 0..count {
        let letter = char::from(b'a' + u8::try_from(hash % 26).unwrap());
        write!(letters, "{letter}").unwrap();
        hash /= 26;
    }
    letters
}
