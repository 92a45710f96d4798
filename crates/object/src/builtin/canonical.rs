//! Re-writing an object the way its built-in type would encode it (ENG-57).
//!
//! Two walks along the schema: the first only looks, so that an object with one unknown or ill-typed field is
//! given back untouched; the second writes in place. Both end where the schema ends, so nesting in free-form
//! members costs nothing.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Number, Value};

use super::table::{Field, OmitWhen, Schema, Shape, StructType};
use super::time::{Precision, to_utc};
use crate::{Gvk, quantity};

/// Go's standard encoding: padding is required, stray bits in the last character are not an error.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// How an object left [`canonicalize`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canonical {
    /// Re-encoded through its built-in type.
    Typed,
    /// Used as written: the type is unknown, or a field is unknown or ill-typed.
    AsWritten,
}

/// Re-encodes an object through its built-in type (ENG-57).
///
/// Quantities become canonical, times UTC, members that the type leaves out when empty disappear, and null
/// elsewhere becomes the zero value of its type. Members the type would add by itself are not added.
pub fn canonicalize(mut value: Value, gvk: &Gvk) -> (Value, Canonical) {
    let Some(schema) = Schema::of(gvk) else { return (value, Canonical::AsWritten) };
    match &mut value {
        Value::Object(members) if struct_fits(members, schema) => rewrite_struct(members, schema),
        _ => return (value, Canonical::AsWritten),
    }
    (value, Canonical::Typed)
}

fn struct_fits(members: &Map<String, Value>, schema: &StructType) -> bool {
    members.iter().all(|(name, value)| schema.field(name).is_some_and(|field| fits(value, field.shape)))
}

/// Whether the type's decoder would take the value; it takes null everywhere.
fn fits(value: &Value, shape: Shape) -> bool {
    match (shape, value) {
        (_, Value::Null) | (Shape::Any, _) => true,
        (Shape::Pointer(_), _) => shape.element().is_some_and(|inner| fits(value, inner)),
        (Shape::Struct(_), Value::Object(members)) => {
            shape.struct_type().is_some_and(|schema| struct_fits(members, schema))
        }
        (Shape::List(_), Value::Array(items)) => {
            shape.element().is_some_and(|inner| items.iter().all(|item| fits(item, inner)))
        }
        (Shape::Map(_), Value::Object(members)) => {
            shape.element().is_some_and(|inner| members.values().all(|item| fits(item, inner)))
        }
        (Shape::Text | Shape::IntOrText, Value::String(_)) | (Shape::Bool, Value::Bool(_)) => true,
        (Shape::Int32 | Shape::IntOrText, Value::Number(number)) => {
            integer(number).is_some_and(|found| i32::try_from(found).is_ok())
        }
        (Shape::Int64, Value::Number(number)) => integer(number).is_some(),
        (Shape::Quantity, Value::String(text)) => quantity::canonical_text(text.trim()).is_ok(),
        (Shape::Quantity, Value::Number(number)) => quantity::canonical_text(&number.to_string()).is_ok(),
        (Shape::Time, Value::String(text)) => to_utc(text, Precision::Seconds).is_some(),
        (Shape::MicroTime, Value::String(text)) => to_utc(text, Precision::Micros).is_some(),
        (Shape::Bytes, Value::String(text)) => canonical_base64(text).is_some(),
        _ => false,
    }
}

fn rewrite_struct(members: &mut Map<String, Value>, schema: &StructType) {
    members.retain(|name, value| {
        let Some(field) = schema.field(name) else { return true };
        if is_left_out(value, field) {
            return false;
        }
        rewrite(value, field.shape);
        true
    });
}

fn rewrite(value: &mut Value, shape: Shape) {
    match (shape, &mut *value) {
        (_, Value::Null) => *value = zero(shape),
        (Shape::Pointer(_), _) => {
            if let Some(inner) = shape.element() {
                rewrite(value, inner);
            }
        }
        (Shape::Struct(_), Value::Object(members)) => {
            if let Some(schema) = shape.struct_type() {
                rewrite_struct(members, schema);
            }
        }
        (Shape::List(_), Value::Array(items)) => {
            if let Some(inner) = shape.element() {
                for item in items {
                    rewrite(item, inner);
                }
            }
        }
        (Shape::Map(_), Value::Object(members)) => {
            if let Some(inner) = shape.element() {
                members.values_mut().for_each(|item| rewrite(item, inner));
            }
        }
        (Shape::Int32 | Shape::Int64 | Shape::IntOrText, Value::Number(number)) => {
            if let Some(found) = integer(number).filter(|_| number.is_f64()) {
                *number = found.into();
            }
        }
        (Shape::Quantity, Value::String(text)) => {
            if let Ok(Cow::Owned(canonical)) = quantity::canonical_text(text.trim()) {
                *text = canonical;
            } else if text.trim().len() != text.len() {
                *text = text.trim().to_owned();
            }
        }
        (Shape::Quantity, Value::Number(number)) => {
            if let Ok(canonical) = quantity::canonical_text(&number.to_string()) {
                *value = Value::String(canonical.into_owned());
            }
        }
        (Shape::Time, Value::String(text)) => replace(text, to_utc(text, Precision::Seconds)),
        (Shape::MicroTime, Value::String(text)) => replace(text, to_utc(text, Precision::Micros)),
        (Shape::Bytes, Value::String(text)) => replace(text, canonical_base64(text)),
        _ => {}
    }
}

fn replace(text: &mut String, canonical: Option<String>) {
    if let Some(canonical) = canonical {
        *text = canonical;
    }
}

/// Whether the encoder leaves the member out. Structs are never empty, pointers only when null.
pub(super) fn is_left_out(value: &Value, field: &Field) -> bool {
    if field.omit == OmitWhen::Never {
        return false;
    }
    match field.shape {
        Shape::Text | Shape::Bytes => value.is_null() || value.as_str() == Some(""),
        Shape::Bool => value.is_null() || value.as_bool() == Some(false),
        Shape::Int32 | Shape::Int64 => value.is_null() || value.as_f64() == Some(0.0),
        Shape::List(_) => value.as_array().is_none_or(Vec::is_empty),
        Shape::Map(_) => value.as_object().is_none_or(Map::is_empty),
        Shape::Pointer(_) => value.is_null(),
        Shape::Time | Shape::MicroTime => field.omit == OmitWhen::Zero && value.is_null(),
        Shape::Quantity | Shape::IntOrText | Shape::Any | Shape::Struct(_) => false,
    }
}

/// What the encoder writes for a zero value.
pub(super) fn zero(shape: Shape) -> Value {
    match shape {
        Shape::Text => Value::from(""),
        Shape::Bool => Value::from(false),
        Shape::Int32 | Shape::Int64 | Shape::IntOrText => Value::from(0),
        Shape::Quantity => Value::from("0"),
        Shape::Struct(_) => {
            let fields = shape.struct_type().map_or(&[][..], StructType::fields);
            let written = fields.iter().filter(|field| !is_left_out(&zero_leaf(field.shape), field));
            Value::Object(written.map(|field| (field.name.to_owned(), zero(field.shape))).collect())
        }
        Shape::Time
        | Shape::MicroTime
        | Shape::Bytes
        | Shape::Any
        | Shape::Pointer(_)
        | Shape::List(_)
        | Shape::Map(_) => Value::Null,
    }
}

/// The zero value of a shape as far as emptiness is concerned.
fn zero_leaf(shape: Shape) -> Value {
    if matches!(shape, Shape::Struct(_)) { Value::Object(Map::new()) } else { Value::Null }
}

/// The integer a number stands for, `2.0` included; `None` when it has a fraction or does not fit.
fn integer(number: &Number) -> Option<i64> {
    const EXACT: f64 = 9_223_372_036_854_775_808.0;
    if let Some(found) = number.as_i64() {
        return Some(found);
    }
    let float = number.as_f64().filter(|_| number.is_f64())?;
    #[expect(clippy::cast_possible_truncation, reason = "integral and inside the range of i64")]
    (float.fract() == 0.0 && (-EXACT..EXACT).contains(&float)).then_some(float as i64)
}

/// Base64 as the encoder writes it. Line breaks inside are skipped, as the decoder of Go does.
fn canonical_base64(text: &str) -> Option<String> {
    let decoded = if text.contains(['\r', '\n']) {
        BASE64.decode(text.replace(['\r', '\n'], ""))
    } else {
        BASE64.decode(text)
    };
    Some(BASE64.encode(decoded.ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn typed(value: Value) -> Value {
        let gvk = Gvk::of(&value);
        let (value, canonical) = canonicalize(value, &gvk);
        assert_eq!(canonical, Canonical::Typed);
        value
    }

    #[test]
    fn eng_57_a_deployment_is_encoded_as_its_type_would() {
        let given = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "labels": {}, "annotations": null, "creationTimestamp": null},
            "spec": {"paused": false, "replicas": 0, "strategy": {}, "template": {"spec": {"securityContext": {}, "containers": [
                {"name": "a", "args": [], "livenessProbe": null, "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi", "x": 2}, "requests": {"cpu": "0.5", "e": "1e3"}},
                 "ports": [{"containerPort": 8080.0}], "env": [{"name": "E", "value": ""}]}]}}}});
        let wanted = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"replicas": 0, "strategy": {}, "template": {"spec": {"securityContext": {}, "containers": [
                {"name": "a", "resources": {"limits": {"cpu": "1", "memory": "1Gi", "x": "2"}, "requests": {"cpu": "500m", "e": "1e3"}},
                 "ports": [{"containerPort": 8080}], "env": [{"name": "E"}]}]}}}});
        assert_eq!(typed(given), wanted);
    }

    #[test]
    fn eng_57_null_where_a_value_must_be_becomes_its_zero() {
        let given = json!({"apiVersion": "v1", "kind": "Pod", "metadata": null,
            "spec": {"containers": [{"name": null, "resources": null}], "volumes": null}});
        assert_eq!(
            typed(given),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {},
            "spec": {"containers": [{"name": "", "resources": {}}]}})
        );
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": null});
        assert_eq!(typed(role.clone()), role);
    }

    #[test]
    fn eng_57_one_unknown_or_ill_typed_field_leaves_the_object_as_written() {
        let wrong = [
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "", "unknown": 1}}),
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "", "hostname": 1}}),
            json!({"apiVersion": "v1", "kind": "Secret", "type": "", "data": {"a": "not base64"}}),
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "", "activeDeadlineSeconds": 1.5}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"paused": false, "replicas": 3_000_000_000_u64}}),
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": ""}, "metadata": {"creationTimestamp": "now"}}),
            json!({"apiVersion": "example.com/v1", "kind": "Pod", "spec": {"nodeName": ""}}),
        ];
        for given in wrong {
            let gvk = Gvk::of(&given);
            assert_eq!(canonicalize(given.clone(), &gvk), (given, Canonical::AsWritten));
        }
    }

    #[test]
    fn eng_57_texts_and_integers_keep_their_type() {
        let given = json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [
            {"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 0}]}});
        assert_eq!(typed(given.clone()), given);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "YQ==", "b": "", "c": null, "d": "Y\nWI="}});
        assert_eq!(
            typed(secret),
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "YQ==", "b": "", "c": null, "d": "YWI="}})
        );
    }
}
