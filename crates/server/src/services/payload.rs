//! What the log says of a request at level debug (API-27).
//!
//! A request is shown as far as it names things: its own texts, numbers and switches. What hangs below it, and texts that
//! are documents, may hold what somebody should not have written there (DEP-67), and are shown by what they are called
//! or by their size; what the tables call a secret is not shown at all.

use serde_json::{Map, Value, json};
use tiphys_api::{printable, repo_url};
use tiphys_wire::schema::{Arity, Field, Kind};
use tiphys_wire::{Method, schema};

/// Calls of which nothing is shown.
const NEVER: [&str; 19] = [
    "/cluster.ClusterService/Create",
    "/cluster.ClusterService/Update",
    "/session.SessionService/Create",
    "/account.AccountService/UpdatePassword",
    "/gpgkey.GPGKeyService/Create",
    "/repository.RepositoryService/Create",
    "/repository.RepositoryService/Update",
    "/repository.RepositoryService/CreateRepository",
    "/repository.RepositoryService/UpdateRepository",
    "/repository.RepositoryService/CreateWriteRepository",
    "/repository.RepositoryService/UpdateWriteRepository",
    "/repository.RepositoryService/ValidateAccess",
    "/repository.RepositoryService/ValidateWriteAccess",
    "/repocreds.RepoCredsService/CreateRepositoryCredentials",
    "/repocreds.RepoCredsService/UpdateRepositoryCredentials",
    "/repocreds.RepoCredsService/CreateWriteRepositoryCredentials",
    "/repocreds.RepoCredsService/UpdateWriteRepositoryCredentials",
    "/application.ApplicationService/PatchResource",
    "/application.ApplicationService/GetManifestsWithFiles",
];
/// Texts that are documents.
const DOCUMENTS: [&str; 5] = ["patch", "manifests", "targetManifests", "existing", "preview"];
/// Letters of a text that are shown.
const LETTERS_MAX: usize = 256;
/// Items of a list that are shown.
const ITEMS_MAX: usize = 10;

/// A request as one line of JSON; `None` where nothing may be shown.
pub(super) fn shown(method: &Method, request: &Value) -> Option<String> {
    if NEVER.contains(&method.path.as_str()) {
        return None;
    }
    let message = schema().message(method.request);
    let mut members = Map::new();
    for field in message.fields.iter().filter(|field| !field.is_secret) {
        let Some(value) = request.get(field.json).filter(|value| !value.is_null()) else { continue };
        members.insert(field.json.to_owned(), of_field(field, value));
    }
    Some(Value::Object(members).to_string())
}

fn of_field(field: &Field, value: &Value) -> Value {
    match (field.arity, value) {
        (Arity::Map, _) => json!("{…}"),
        (Arity::Many, Value::Array(items)) => {
            let mut shown: Vec<Value> = items.iter().take(ITEMS_MAX).map(|item| one(field, item)).collect();
            if items.len() > ITEMS_MAX {
                shown.push(format!("… {} more", items.len() - ITEMS_MAX).into());
            }
            Value::Array(shown)
        }
        (_, value) => one(field, value),
    }
}

fn one(field: &Field, value: &Value) -> Value {
    match (field.kind, value) {
        (Kind::Message(_), value) => {
            let part = |key: &str| value.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
            match (part("namespace").filter(|namespace| !namespace.is_empty()), part("name")) {
                (Some(namespace), Some(name)) => text(&format!("{namespace}/{name} {{…}}")),
                (None, Some(name)) => text(&format!("{name} {{…}}")),
                (_, None) => json!("{…}"),
            }
        }
        (Kind::Bool | Kind::Int32 | Kind::Int64, Value::Bool(_) | Value::Number(_)) => value.clone(),
        (Kind::String, Value::String(document)) if DOCUMENTS.contains(&field.name) => {
            format!("({} bytes)", document.len()).into()
        }
        (Kind::String, Value::String(name)) => text(name),
        // Large numbers are texts in JSON.
        (Kind::Int64, Value::String(number)) if number.parse::<i64>().is_ok() => value.clone(),
        (_, Value::String(bytes)) => format!("({} bytes)", bytes.len()).into(),
        _ => json!("{…}"),
    }
}

/// A name, or an address without what is nobody's business.
fn text(name: &str) -> Value {
    let name = if name.contains('@') { repo_url::redact(name) } else { name.to_owned() };
    let mut letters = name.chars();
    let head: String = letters.by_ref().take(LETTERS_MAX).collect();
    let rest = if letters.next().is_some() { "…" } else { "" };
    format!("{}{rest}", printable::line(&head)).into()
}

#[cfg(test)]
mod tests {
    use tiphys_wire::schema::MessageId;

    use super::*;

    const CANARY: &str = "c4n4ry";

    fn method(path: &str) -> &'static Method {
        schema().method(schema().method_at(path).unwrap())
    }

    /// A message in which every text is the canary, and the names at its top are none.
    fn filled(id: MessageId, depth: usize) -> Value {
        let fields = schema().message(id).fields.iter();
        let member = |field: &'static Field| {
            let names = depth == 0 && !field.is_secret && !DOCUMENTS.contains(&field.name);
            let one = match field.kind {
                Kind::Bool => json!(true),
                Kind::Int32 | Kind::Int64 => json!(1),
                Kind::String if names && field.arity != Arity::Map => json!("web"),
                Kind::String | Kind::Bytes => json!(CANARY),
                Kind::Message(_) if depth > 4 => Value::Null,
                Kind::Message(inner) => filled(inner, depth + 1),
            };
            let value = match field.arity {
                Arity::One => one,
                Arity::Many => json!([one]),
                Arity::Map => json!({CANARY: one}),
            };
            (field.json.to_owned(), value)
        };
        let mut members: Map<String, Value> = fields.map(member).collect();
        // What an object is called is shown.
        if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("name".to_owned(), json!("web"));
            metadata.insert("namespace".to_owned(), json!("argocd"));
        }
        Value::Object(members)
    }

    #[test]
    fn api_27_no_request_shows_what_hangs_below_it() {
        let mut count = 0;
        for (_, method) in schema().methods() {
            let request = filled(method.request, 0);
            let shown = shown(method, &request);
            assert!(!shown.is_some_and(|shown| shown.contains(CANARY)), "{}", method.path);
            count += 1;
        }
        assert!(count > 80, "{count}");
    }

    #[test]
    fn api_27_of_some_calls_nothing_is_shown() {
        for path in NEVER {
            assert_eq!(shown(method(path), &filled(method(path).request, 0)), None, "{path}");
        }
    }

    #[test]
    fn api_27_a_request_is_shown_by_its_names() {
        let show = |path: &str, request: &Value| shown(method(path), request).unwrap();
        assert_eq!(
            show(
                "/application.ApplicationService/Sync",
                &json!({"name": "web", "prune": true, "revision": "main",
                "manifests": ["{}"], "strategy": {"hook": {}}, "nosuch": 1})
            ),
            r#"{"manifests":["(2 bytes)"],"name":"web","prune":true,"revision":"main","strategy":"{…}"}"#
        );
        assert_eq!(
            show(
                "/application.ApplicationService/Create",
                &json!({"upsert": true, "application":
                {"metadata": {"name": "web", "namespace": "argocd"}, "spec": {"source": {"helm": {"values": "x"}}}}})
            ),
            r#"{"application":"argocd/web {…}","upsert":true}"#
        );
        assert_eq!(
            show(
                "/repository.RepositoryService/Get",
                &json!({"repo": "https://kim:c4n4ry@git.example.com/a\n"})
            ),
            r#"{"repo":"https://git.example.com/a\\n"}"#
        );
        let long = show("/cluster.ClusterService/Get", &json!({"id": null, "server": "x".repeat(1_000)}));
        assert!(long.len() < 300, "{long}");
        let many: Vec<String> = (0..30).map(|nth| format!("p{nth}")).collect();
        assert!(
            show("/application.ApplicationService/List", &json!({"projects": many})).contains("… 20 more")
        );
    }
}
