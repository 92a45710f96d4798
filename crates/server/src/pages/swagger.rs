//! The description of the API: the document, and a page to read it on (API-9).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_SECURITY_POLICY, X_FRAME_OPTIONS};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value};
use tiphys_wire::{openapi, schema};
use tokio::sync::OnceCell;

use super::html::{self, escape};
use super::not_found;
use crate::call::Status;
use crate::http::compress::{self, Encoding};
use crate::http::{Body, body, plain};

/// Steps of a reference that are followed when the type of a value is written.
const TYPE_DEPTH_MAX: usize = 4;

/// A text, and the same packed.
struct Both {
    plain: Bytes,
    gzip: Bytes,
}

/// The description of the API, made when somebody asks for it.
#[derive(Default)]
pub(super) struct Swagger {
    is_shown: bool,
    gzip: bool,
    version: String,
    document: OnceCell<Both>,
    page: OnceCell<Both>,
}

impl Swagger {
    pub(super) fn new(is_shown: bool, gzip: bool, version: &str) -> Self {
        Self { is_shown, gzip, version: version.to_owned(), ..Self::default() }
    }

    /// The document.
    pub(super) async fn document(self: Arc<Self>, parts: Parts) -> Response<Body> {
        let response = self.shown(&parts, &self.document, |document| document.to_string()).await;
        guarded(response, "application/json")
    }

    /// The page.
    pub(super) async fn page(self: Arc<Self>, parts: Parts) -> Response<Body> {
        let mut response = guarded(
            self.shown(&parts, &self.page, |document| page(&document)).await,
            "text/html; charset=utf-8",
        );
        if let Ok(policy) = HeaderValue::from_str(&html::policy()) {
            response.headers_mut().append(CONTENT_SECURITY_POLICY, policy);
        }
        response
    }

    /// What is made of the document, once.
    async fn shown(
        &self,
        parts: &Parts,
        known: &OnceCell<Both>,
        make: impl FnOnce(Value) -> String + Send + 'static,
    ) -> Response<Body> {
        if !self.is_shown {
            return not_found();
        }
        let version = self.version.clone();
        let both = || both(move || make(openapi::document(schema(), &version)));
        let Ok(both) = known.get_or_try_init(both).await else {
            return plain(StatusCode::INTERNAL_SERVER_ERROR, "the description of the API cannot be made\n");
        };
        let is_packed = self.gzip && compress::accepted(&parts.headers) == Encoding::Gzip;
        let bytes = if is_packed { &both.gzip } else { &both.plain };
        let mut response = Response::new(body::full(bytes.clone()));
        if is_packed {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        response
    }
}

/// An answer that nobody may frame.
fn guarded(mut response: Response<Body>, kind: &'static str) -> Response<Body> {
    let is_ok = response.status() == StatusCode::OK;
    let headers = response.headers_mut();
    if is_ok {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("frame-ancestors 'none'"));
    response
}

/// Makes a text and packs it, where that holds nobody up.
async fn both(make: impl FnOnce() -> String + Send + 'static) -> Result<Both, Status> {
    let making = tokio::task::spawn_blocking(move || {
        let plain = Bytes::from(make());
        let gzip = compress::packed(std::iter::once(Ok(plain.clone())))?;
        Ok(Both { plain, gzip })
    });
    making.await.map_err(|_ended| Status::internal("the description of the API cannot be made"))?
}

/// The page about a document: operations by service, and the types that they take and answer.
fn page(document: &Value) -> String {
    let text =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let empty = Map::new();
    let members = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_object).cloned().unwrap_or_else(|| empty.clone())
    };
    // Writing to a String cannot fail.
    let mut services: BTreeMap<String, String> = BTreeMap::new();
    for (path, verbs) in members(document, "paths") {
        for (verb, operation) in verbs.as_object().unwrap_or(&empty) {
            let tag = operation.pointer("/tags/0").and_then(Value::as_str).unwrap_or_default();
            services.entry(tag.to_owned()).or_default().push_str(&shown_operation(&path, verb, operation));
        }
    }
    let mut content = format!(
        "<h1>API of Tiphys {}</h1>\n<p>Operations by service; whoever calls them logs in first \
         (<code>POST /api/v1/session</code>). <a href=\"swagger.json\">The same as OpenAPI 2.0</a>.</p>\n",
        escape(&text(document.get("info").unwrap_or(&Value::Null), "version"))
    );
    for (service, operations) in services {
        let _ended = write!(content, "<h2>{}</h2>\n{operations}", escape(&service));
    }
    content.push_str("<h2>Types</h2>\n");
    for (name, definition) in members(document, "definitions") {
        let name = escape(&name);
        let _ended =
            writeln!(content, "<details id=\"{name}\"><summary><code>{name}</code></summary><table>");
        for (field, value) in members(&definition, "properties") {
            let kind = shown_type(&value, TYPE_DEPTH_MAX);
            let _ended =
                writeln!(content, "<tr><td><code>{}</code></td><td>{kind}</td></tr>", escape(&field));
        }
        content.push_str("</table></details>\n");
    }
    html::page("The API of Tiphys", &content)
}

/// An operation as markup.
fn shown_operation(path: &str, verb: &str, operation: &Value) -> String {
    let text = |value: &Value, key: &str| escape(value.get(key).and_then(Value::as_str).unwrap_or_default());
    let mut rows = String::new();
    for parameter in operation.get("parameters").and_then(Value::as_array).into_iter().flatten() {
        let is_required = parameter.get("required") == Some(&Value::Bool(true));
        let kind = shown_type(parameter.get("schema").unwrap_or(parameter), TYPE_DEPTH_MAX);
        let (name, place) = (text(parameter, "name"), text(parameter, "in"));
        let required = if is_required { ", required" } else { "" };
        let _ended =
            writeln!(rows, "<tr><td><code>{name}</code></td><td>{place}{required}</td><td>{kind}</td></tr>");
    }
    for (status, answer) in operation.get("responses").and_then(Value::as_object).into_iter().flatten() {
        let kind = shown_type(answer.get("schema").unwrap_or(&Value::Null), TYPE_DEPTH_MAX);
        let (status, description) = (escape(status), text(answer, "description"));
        let _ended = writeln!(
            rows,
            "<tr><td>answer <code>{status}</code></td><td>{description}</td><td>{kind}</td></tr>"
        );
    }
    let (id, path, verb) = (text(operation, "operationId"), escape(path), escape(&verb.to_ascii_uppercase()));
    format!(
        "<details id=\"{id}\"><summary><b>{verb}</b> <code>{path}</code></summary>\
         <p><code>{id}</code></p><table>\n{rows}</table></details>\n"
    )
}

/// The type of a value as markup; of what is deeper there is no word.
fn shown_type(schema: &Value, depth: usize) -> String {
    let Some(depth) = depth.checked_sub(1) else { return "…".to_owned() };
    if let Some(name) =
        schema.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix("#/definitions/"))
    {
        let name = escape(name);
        return format!("<a href=\"#{name}\">{name}</a>");
    }
    let text = |key: &str| schema.get(key).and_then(Value::as_str).map(escape);
    match (text("type").as_deref(), schema.get("items"), schema.get("additionalProperties")) {
        (Some("array"), Some(items), _) => format!("list of {}", shown_type(items, depth)),
        (Some("object"), _, Some(values)) => format!("map to {}", shown_type(values, depth)),
        (Some("object"), _, None) if schema.get("properties").is_some() => {
            let members = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
            let members =
                members.map(|(name, value)| format!("{}: {}", escape(name), shown_type(value, depth)));
            members.collect::<Vec<_>>().join(", ")
        }
        (Some(kind), _, _) => match text("format") {
            Some(format) => format!("{kind} ({format})"),
            None => kind.to_owned(),
        },
        (None, _, _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn api_9_the_page_has_every_operation_and_every_link_leads_somewhere() {
        let document = openapi::document(schema(), "0.1");
        let page = page(&document);
        for (path, verbs) in document["paths"].as_object().unwrap() {
            for (verb, operation) in verbs.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                let verb = verb.to_uppercase();
                let expected = format!("<details id=\"{id}\"><summary><b>{verb}</b> <code>{path}</code>");
                assert!(page.contains(&expected), "{expected}");
            }
        }
        let mut links = 0;
        for link in page.split("href=\"#").skip(1) {
            let name = link.split('"').next().unwrap();
            assert!(page.contains(&format!("id=\"{name}\"")), "{name}");
            links += 1;
        }
        assert!(links > 100, "{links}");
        assert!(!page.contains("<script") && !page.contains("://"), "it loads nothing");
    }

    #[test]
    fn sec_23_what_a_document_says_is_no_markup() {
        let evil = "<script>alert(\"1\")</script>";
        let operation = json!({"tags": [evil], "operationId": evil,
            "parameters": [{"name": evil, "in": evil, "type": evil, "format": evil},
                {"name": "b", "in": "body", "schema": {"$ref": format!("#/definitions/{evil}")}}],
            "responses": {evil: {"description": evil, "schema": {"type": "object", "properties": {evil: {"type": evil}}}}}});
        let document = json!({"info": {"version": evil}, "paths": {evil: {evil: operation}},
            "definitions": {evil: {"properties": {evil: {"type": "array", "items": {"type": evil}}}}}});
        let page = page(&document);
        assert!(!page.contains("<script") && !page.contains("\"1\""), "{page}");
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"type": "array", "items": deep});
        }
        assert!(shown_type(&deep, TYPE_DEPTH_MAX).ends_with('…'));
    }
}
