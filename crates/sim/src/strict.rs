//! Reading objects strictly: unknown and doubled members (`fieldValidation`), and values of the wrong type.
//!
//! Built-in kinds are read along the table of their types, custom resources along their schema. Two kinds are in
//! no table, `CustomResourceDefinition` and `APIService`; they are taken as written.
//! Deviation: a value of the wrong type is described with the plain type (`string`), where the server has a name
//! for some texts and maps (`v1.PullPolicy`).

mod decode;
mod text;
mod unknown;

use serde_json::Value;
use tiphys_object::Gvk;
use tiphys_object::builtin::{self, Schema};

use crate::defaults;
use crate::resource::Resource;

/// Problems that `fieldValidation=Strict` refuses and `Warn` warns about, as the server words them: `unknown
/// field "spec.x"`, `duplicate field "spec.y"`. `text` is the JSON that was sent.
pub(crate) fn problems(resource: &Resource, text: &str, object: &Value) -> Vec<String> {
    if let Some(custom) = &resource.custom {
        let mut problems = text::duplicates(text);
        problems.extend(unknown::members(custom, object));
        return problems;
    }
    match Schema::of(&gvk(resource)) {
        Some(schema) => text::problems(text, schema),
        None => text::duplicates(text),
    }
}

/// Drops members that a built-in kind does not have, and turns values into what the Go type holds; an error is
/// the text of the decoder, for example `json: cannot unmarshal string into Go struct field …`.
pub(crate) fn decode(resource: &Resource, mut object: Value) -> Result<Value, String> {
    let gvk = gvk(resource);
    let Some(schema) = Schema::of(&gvk).filter(|_| resource.custom.is_none()) else {
        if let Some(metadata) = object.get_mut("metadata") {
            decode::metadata(metadata)?;
            *metadata = canonical_metadata(metadata.take());
        }
        decode::whole_numbers(&mut object);
        return Ok(object);
    };
    decode::object(&mut object, schema)?;
    let (mut object, _) = builtin::canonicalize(object, &gvk);
    if let Value::Object(members) = &mut object {
        defaults::complete(members, schema);
    }
    Ok(object)
}

/// Metadata of a kind without a type, as its Go type writes it again: without what is empty.
fn canonical_metadata(metadata: Value) -> Value {
    let carrier = Value::Object([("metadata".to_owned(), metadata)].into_iter().collect());
    let (mut carrier, _) = builtin::canonicalize(carrier, &Gvk::new("", "v1", "ConfigMap"));
    carrier.get_mut("metadata").map(Value::take).unwrap_or_default()
}

fn gvk(resource: &Resource) -> Gvk {
    Gvk::new(resource.group.as_str(), resource.version.as_str(), resource.kind.as_str())
}
