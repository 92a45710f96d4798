//! What the server says about itself to clients that have no descriptors of it (API-P12): both versions of the protocol,
//! which differ in their name.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::{Map, Value, json};
use tiphys_object::access;
use tiphys_wire::descriptor::{File, files};
use tiphys_wire::schema;
use tiphys_wire::status::Code;

use super::context::Context;
use crate::call::{Message, Reply, Status};

/// All files; they never change.
fn known() -> &'static [File] {
    static FILES: OnceLock<Vec<File>> = OnceLock::new();
    FILES.get_or_init(|| files(schema()))
}

/// Answers every question as it comes.
pub(super) fn call(context: &Context<'_>, asked: BoxStream<'static, Result<Value, Status>>) -> Reply {
    let state = Some((context.owned(), asked, Sent::default()));
    let answers = futures::stream::unfold(state, |state| async move {
        let (owned, mut asked, mut sent) = state?;
        let question = asked.next().await?;
        let checked = owned.check().await;
        match question.and_then(|question| checked.map(|_| answer(question, &mut sent))) {
            Ok(message) => Some((Ok(message), Some((owned, asked, sent)))),
            Err(status) => Some((Err(status), None)),
        }
    });
    Reply::stream(answers.boxed())
}

/// Names of files that a stream has sent: none is sent twice as what another one needs.
type Sent = BTreeSet<&'static str>;

fn answer(question: Value, sent: &mut Sent) -> Message {
    let (name, value) = found(&question, sent).unwrap_or_else(|status| {
        let error = json!({"error_code": status.code.number(), "error_message": status.message});
        ("error_response", error)
    });
    let mut answer = Map::new();
    answer.insert("valid_host".to_owned(), access::text(&question, "host").into());
    answer.insert("original_request".to_owned(), question);
    answer.insert(name.to_owned(), value);
    Message::new(answer.into())
}

fn found(question: &Value, sent: &mut Sent) -> Result<(&'static str, Value), Status> {
    let missing = |what: &str, name: &str| {
        Status::new(Code::NotFound, format!("no {what} {:?}", tiphys_api::printable::line(name)))
    };
    let text = |name: &str| question.get(name).and_then(Value::as_str);
    if text("list_services").is_some() {
        let services: Vec<Value> = schema().services().iter().map(|it| json!({"name": it.full})).collect();
        return Ok(("list_services_response", json!({"service": services})));
    }
    let file = if let Some(name) = text("file_by_filename") {
        known().iter().find(|file| file.name == name).ok_or_else(|| missing("file", name))?
    } else if let Some(symbol) = text("file_containing_symbol") {
        defining(symbol).ok_or_else(|| missing("symbol", symbol))?
    } else if let Some(name) = text("all_extension_numbers_of_type") {
        // Nothing here can be extended.
        defining(name).ok_or_else(|| missing("type", name))?;
        return Ok(("all_extension_numbers_response", json!({"base_type_name": name})));
    } else if question.get("file_containing_extension").is_some() {
        return Err(Status::new(Code::NotFound, "there are no extensions"));
    } else {
        return Err(Status::invalid("the question is none that reflection has"));
    };
    let mut bytes = Vec::new();
    send(file, true, sent, &mut bytes);
    Ok(("file_descriptor_response", json!({"file_descriptor_proto": bytes})))
}

/// The file that defines a name, or that of which it is a field.
fn defining(symbol: &str) -> Option<&'static File> {
    let of = |name: &str| known().iter().find(|file| file.symbols.iter().any(|it| it == name));
    of(symbol).or_else(|| of(symbol.rsplit_once('.')?.0))
}

/// A file and what it needs: itself always, the others unless they were sent.
fn send(file: &'static File, is_asked: bool, sent: &mut Sent, out: &mut Vec<String>) {
    let is_new = sent.insert(&file.name);
    if !is_new && !is_asked {
        return;
    }
    out.push(STANDARD.encode(&file.bytes));
    // Files do not need each other in a circle.
    for needed in &file.dependencies {
        if let Some(needed) = known().iter().find(|file| file.name == *needed) {
            send(needed, false, sent, out);
        }
    }
}
