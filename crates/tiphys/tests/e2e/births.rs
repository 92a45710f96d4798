//! What is created and deleted in a namespace, in order, as watches tell.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::api::{Api, path};

#[derive(Clone, Debug)]
struct Birth {
    event: String,
    name: String,
    uid: String,
}

/// Follows kinds of one namespace from now on, until dropped.
pub(crate) struct Births {
    seen: Arc<Mutex<Vec<Birth>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Births {
    pub(crate) async fn watch(api: &Api, namespace: &str, kinds: &[&str]) -> Self {
        let seen: Arc<Mutex<Vec<Birth>>> = Arc::default();
        let mut tasks = Vec::new();
        for kind in kinds {
            let version = api.version(kind, namespace).await;
            let target = format!(
                "{}?watch=1&timeoutSeconds=3600&resourceVersion={version}",
                path(kind, namespace, "")
            );
            let answer = api.send(Method::GET, &target, &[], "").await.unwrap();
            assert_eq!(answer.status(), 200, "{target}");
            let seen = Arc::clone(&seen);
            tasks.push(tokio::spawn(async move {
                let mut body = answer.into_body();
                let mut buffer = Vec::new();
                while let Some(Ok(frame)) = body.frame().await {
                    let Some(bytes) = frame.data_ref() else { continue };
                    buffer.extend_from_slice(bytes);
                    while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                        let line: Vec<u8> = buffer.drain(..=end).collect();
                        let event: Value = serde_json::from_slice(&line).unwrap();
                        note(&seen, &event);
                    }
                }
            }));
        }
        Self { seen, tasks }
    }

    /// Names in the order of their creation; one that is created twice stands there twice.
    pub(crate) fn created(&self) -> Vec<String> {
        self.names("ADDED")
    }

    pub(crate) fn deleted(&self) -> Vec<String> {
        self.names("DELETED")
    }

    /// How often an object of this name was created.
    pub(crate) fn times(&self, name: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        let births = seen.iter().filter(|birth| birth.event == "ADDED" && birth.name == name);
        births.map(|birth| &birth.uid).collect::<BTreeSet<_>>().len()
    }

    fn names(&self, event: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|birth| birth.event == event).map(|birth| birth.name.clone()).collect()
    }
}

impl Drop for Births {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn note(seen: &Mutex<Vec<Birth>>, event: &Value) {
    let metadata = &event["object"]["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let birth =
        Birth { event: text(&event["type"]), name: text(&metadata["name"]), uid: text(&metadata["uid"]) };
    if birth.event == "ADDED" || birth.event == "DELETED" {
        seen.lock().unwrap().push(birth);
    }
}
