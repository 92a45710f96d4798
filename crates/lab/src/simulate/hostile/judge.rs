//! Judges what the API server wrote and answered for the tenant (INV-6): nothing that its project does not permit is
//! written, and nothing is shown.
//!
//! A tenant may know any name. What it cannot know unless it was shown is what the API server of the cluster assigned
//! (the uid of an object), what is inside of an object, and what the installation is called by others.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::Value;

use super::{PROJECT, VAULT_VALUE};
use crate::simulate::api::{ApiAnswer, ApiCall};
use crate::simulate::model::CONTROL_PLANE;
use crate::simulate::wire::Wires;

/// Labels of a Secret that may belong to a project.
const SECRET_TYPE: &str = "argocd.argoproj.io/secret-type";

/// Collections whose objects have owners.
const COLLECTIONS: [(&str, &str); 11] = [
    ("ConfigMap", "/api/v1/configmaps"),
    ("Secret", "/api/v1/secrets"),
    ("Event", "/api/v1/events"),
    ("Pod", "/api/v1/pods"),
    ("Namespace", "/api/v1/namespaces"),
    ("Deployment", "/apis/apps/v1/deployments"),
    ("ReplicaSet", "/apis/apps/v1/replicasets"),
    ("Job", "/apis/batch/v1/jobs"),
    ("Application", "/apis/argoproj.io/v1alpha1/applications"),
    ("ApplicationSet", "/apis/argoproj.io/v1alpha1/applicationsets"),
    ("AppProject", "/apis/argoproj.io/v1alpha1/appprojects"),
];

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The project that an object of the installation belongs to.
fn project_of(kind: &str, object: &Value) -> String {
    match kind {
        "Application" => text(object, "/spec/project").to_owned(),
        "ApplicationSet" => match text(object, "/spec/project") {
            "" => text(object, "/spec/template/spec/project").to_owned(),
            project => project.to_owned(),
        },
        "AppProject" => text(object, "/metadata/name").to_owned(),
        "Secret"
            if object.pointer("/metadata/labels").and_then(|labels| labels.get(SECRET_TYPE)).is_some() =>
        {
            let decoded = STANDARD.decode(text(object, "/data/project")).unwrap_or_default();
            String::from_utf8_lossy(&decoded).into_owned()
        }
        _ => String::new(),
    }
}

/// Whether the tenant's project permits an object.
fn is_own(kind: &str, object: &Value) -> bool {
    if kind == "Event" {
        let about = |member: &str| text(object, &format!("/involvedObject/{member}"));
        return about("namespace") == PROJECT || about("name").starts_with("hostile-");
    }
    text(object, "/metadata/namespace") == PROJECT || project_of(kind, object) == PROJECT
}

/// Judges a write: the object belonged to the tenant before, and does so after.
pub(in crate::simulate) fn write(
    wires: &Wires,
    (method, path): (&Method, &str),
    before: Option<&Value>,
    stored: &Value,
) {
    let kind = match path.strip_prefix(&format!("/apis/argoproj.io/v1alpha1/namespaces/{CONTROL_PLANE}/")) {
        Some(rest) if rest.starts_with("applications") => {
            if rest.starts_with("applicationsets") {
                "ApplicationSet"
            } else {
                "Application"
            }
        }
        Some(_) => "AppProject",
        None if path.contains("/secrets") => "Secret",
        // Records of what the tenant did.
        None if path.ends_with("/events") => return,
        None => "",
    };
    let after = (*method != Method::DELETE).then_some(stored);
    let foreign = [before, after].into_iter().flatten().find(|object| !is_own(kind, object));
    if let Some(object) = foreign {
        let now = wires.now();
        let shown: String = object.to_string().chars().take(400).collect();
        let text = format!("the API server writes for the tenant: {method} {path}: {shown}");
        wires.observer.lock().broken(now, "INV-6", text);
    }
}

/// Everything in a text that has the form of a uid.
fn uids(text: &str) -> BTreeSet<&str> {
    let bytes = text.as_bytes();
    let dashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'-');
    let is_first = |at: &usize| [5, 10, 15].iter().all(|more| bytes.get(at + more) == Some(&b'-'));
    let first = dashes.map(|(at, _)| at).filter(is_first);
    first.filter_map(|at| text.get(at.checked_sub(8)?..at + 28)).collect()
}

/// Judges an answer: it shows no object that the tenant's project does not permit.
pub(super) fn answer(wires: &Wires, call: &ApiCall, answer: &ApiAnswer) {
    let mut broken = Vec::new();
    let canary = wires.observer.lock().model.canary.clone();
    if answer.text.contains(&canary) {
        broken.push(("INV-7", "a secret".to_owned()));
    }
    if answer.text.contains(VAULT_VALUE) && !call.text().contains(VAULT_VALUE) {
        broken.push(("INV-6", "the content of a foreign object".to_owned()));
    }
    // Most answers have none, and lists are dear.
    let shown_ids = uids(&answer.text);
    for (kind, collection) in COLLECTIONS.into_iter().filter(|_| !shown_ids.is_empty()) {
        let list = wires.get(collection);
        let items = list.as_ref().and_then(|list| list.get("items")?.as_array()).into_iter().flatten();
        let shown = items
            .filter(|item| !is_own(kind, item))
            .find(|item| shown_ids.contains(text(item, "/metadata/uid")));
        if let Some(item) = shown {
            let (namespace, name) = (text(item, "/metadata/namespace"), text(item, "/metadata/name"));
            broken.push(("INV-6", format!("{kind} {namespace}/{name}")));
        }
    }
    if answer.status >= 400 {
        broken.extend(
            foreign_name(wires, call, answer).map(|name| ("INV-6", format!("in a refusal the name {name}"))),
        );
    }
    let now = wires.now();
    for (invariant, what) in broken {
        let said: String = answer.text.chars().take(400).collect();
        let text = format!("the tenant is shown {what} by {}: {} {said}", call.text(), answer.status);
        wires.observer.lock().broken(now, invariant, text);
    }
}

/// A name of another project's in a refusal that the caller has not written.
fn foreign_name(wires: &Wires, call: &ApiCall, answer: &ApiAnswer) -> Option<String> {
    let names: BTreeSet<String> = {
        let observer = wires.observer.lock();
        let apps = observer.model.all_apps().map(|app| app.name.clone());
        let projects = observer.model.projects.keys().filter(|name| *name != PROJECT).cloned();
        apps.chain(projects).collect()
    };
    let words = |text: &str| -> BTreeSet<String> {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        text.split(|letter| !is_part(letter)).map(str::to_owned).collect()
    };
    let (said, asked) = (words(&answer.text), words(&call.text()));
    names.into_iter().find(|name| said.contains(name) && !asked.contains(name))
}

/// A text with a word left out wherever it stands alone: "set" is a part of other words, too.
fn without_word(text: &str, word: &str) -> String {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(word) {
        kept.push_str(before);
        if before.ends_with(is_part) || after.starts_with(is_part) {
            kept.push_str(word);
        } else {
            kept.push_str("NAME");
        }
        rest = after;
    }
    kept + rest
}

/// Judges two answers to the same call, once about something of another project's and once about nothing: a caller
/// cannot tell them apart.
pub(super) fn twins(
    wires: &Wires,
    (call, answered): (&ApiCall, &ApiAnswer),
    (other, missing): (&ApiCall, &ApiAnswer),
    (name, none): (&str, &str),
) {
    let is_unavailable = |answer: &ApiAnswer| answer.status == 503;
    if is_unavailable(answered) || is_unavailable(missing) {
        return;
    }
    let plain = |answer: &ApiAnswer, name: &str| without_word(&answer.text, name);
    if (answered.status, plain(answered, name)) == (missing.status, plain(missing, none)) {
        return;
    }
    let text = format!(
        "the tenant learns what exists: {} is answered {} {}, {} is answered {} {}",
        call.text(),
        answered.status,
        answered.text,
        other.text(),
        missing.status,
        missing.text
    );
    let now = wires.now();
    wires.observer.lock().broken(now, "INV-6", text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_6_uids_are_found_wherever_they_stand() {
        let (one, other) = ("419f24b3-5a2b-4837-8652-73ded2cb536f", "cb9c9d80-97c4-4b34-b9fd-33e06a45cd92");
        let text = format!("-- a-b {{\"uid\":\"{one}\"}} x{other}y 2026-01-01T00:00:00Z {}", &one[..30]);
        assert_eq!(uids(&text), BTreeSet::from([one, other]));
        assert_eq!(uids("-1234-1234-1234-x"), BTreeSet::new());
    }
}
