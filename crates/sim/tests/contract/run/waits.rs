//! Steps that wait: for something to become true, and for events.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Runner, Step, number, pointer, refuse};
use crate::PATIENCE;
use crate::case;

/// Between two looks.
pub(crate) const POLL: Duration = Duration::from_millis(40);

impl Runner<'_> {
    /// Asks until the answer is as it should be.
    pub(super) async fn until(&mut self, step: &Step) -> Step {
        let path = self.fill(step["until"].as_str().unwrap());
        let wanted: Value = serde_json::from_str(
            &self.fill(&step.get("has").cloned().unwrap_or_else(|| json!({})).to_string()),
        )
        .unwrap();
        let unwanted = step.get("without").cloned();
        let end = Instant::now() + PATIENCE;
        let gone = super::is_set(step, "gone");
        let last = loop {
            let answer = self.target.client.call(Method::GET, &path, &[], Bytes::new()).await;
            let found = match answer {
                Ok(answer) => {
                    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                    let is_there = answer.status.is_success();
                    let counted = number(step, "count").is_none_or(|count| {
                        body["items"].as_array().is_some_and(|items| items.len() == count)
                    });
                    let clear = unwanted.as_ref().is_none_or(|unwanted| !contains(&body, unwanted));
                    let reached = if gone {
                        answer.status == 404
                    } else {
                        is_there && counted && clear && contains(&body, &wanted)
                    };
                    if reached {
                        self.save(step, &body);
                        return Map::from_iter([("reached".to_owned(), json!(true))]);
                    }
                    body
                }
                Err(error) => json!(error),
            };
            if Instant::now() > end {
                break found;
            }
            tokio::time::sleep(POLL).await;
        };
        let mut answer = refuse("does not come true");
        answer.insert("last".to_owned(), self.normal.value(&last));
        answer
    }

    /// Reads events while other steps are done.
    pub(super) async fn watch(&mut self, step: &Step, answers: &mut Vec<Value>) -> Step {
        let path = self.fill(step["watch"].as_str().unwrap());
        let headers = self.headers("watch", step);
        let sent = self.target.client.send(Method::GET, &path, &headers, Bytes::new());
        let response = match tokio::time::timeout(PATIENCE, sent).await {
            Err(_) => return refuse("no answer to the watch"),
            Ok(Err(error)) => return refuse(&error),
            Ok(Ok(response)) => response,
        };
        let (parts, body) = response.into_parts();
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let reader = tokio::spawn(read(body, sender));
        for inner in case::inner(step) {
            self.step(&inner, answers).await;
        }
        let wanted = number(step, "events").unwrap_or(usize::MAX);
        let quiet = number(step, "seconds").map_or(PATIENCE, |seconds| Duration::from_secs(seconds as u64));
        let mut events = Vec::new();
        let mut end = "enough";
        while events.len() < wanted {
            match tokio::time::timeout(quiet, receiver.recv()).await {
                // A server may send one at any time; only the one that ends a list is part of an answer.
                Ok(Some(event)) if is_routine_bookmark(&event) => {}
                Ok(Some(event)) => events.push(event),
                Ok(None) => {
                    end = "closed";
                    break;
                }
                Err(_) => {
                    end = "quiet";
                    break;
                }
            }
        }
        reader.abort();
        let mut answer = Map::new();
        answer.insert("status".to_owned(), json!(parts.status.as_u16()));
        if let Some(kind) = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) {
            answer.insert("type".to_owned(), json!(kind));
        }
        if let Some(event) = events.last() {
            self.save(step, event);
        }
        let events: Vec<Value> =
            events.iter().map(|event| pointer::select(step, event, &mut self.normal)).collect();
        answer.insert("events".to_owned(), json!(events));
        answer.insert("end".to_owned(), json!(end));
        answer
    }
}

/// Sends every line of a body as JSON, or as text where it is none.
async fn read(mut body: Incoming, sender: mpsc::UnboundedSender<Value>) {
    let mut rest = Vec::new();
    let parse =
        |line: &[u8]| serde_json::from_slice(line).unwrap_or_else(|_| json!(String::from_utf8_lossy(line)));
    while let Some(Ok(frame)) = body.frame().await {
        rest.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            drop(sender.send(parse(&line)));
        }
    }
    if !rest.is_empty() {
        drop(sender.send(parse(&rest)));
    }
}

/// Whether everything of one tree is in another; items of lists may be anywhere.
fn contains(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| found.get(name).is_some_and(|found| contains(found, wanted)))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            wanted.iter().all(|wanted| found.iter().any(|found| contains(found, wanted)))
        }
        _ => found == wanted,
    }
}

fn is_routine_bookmark(event: &Value) -> bool {
    let ends_a_list = event.pointer("/object/metadata/annotations/k8s.io~1initial-events-end").is_some();
    event.get("type").is_some_and(|one| one == "BOOKMARK") && !ends_a_list
}
