//! Defaults of built-in kinds, as an API server fills them in on every write.
//!
//! The walk follows the table of built-in types: most defaults belong to a struct wherever it stands, and are rows
//! of `ROWS`; what looks at several members, or at the kind as a whole, is a function of its own. A struct gets
//! its defaults before what is below it. Resource quantities finer than a thousandth are not rounded up, and
//! requests at the level of a Pod do not count those of its containers.

mod rows;
mod structs;
mod workloads;

use serde_json::{Map, Value};
use tiphys_object::Gvk;
use tiphys_object::builtin::{Schema, Shape, StructType};

use crate::tree::Members;

/// Fills in what was left out of an object of a built-in kind. Only what follows from the object itself: what
/// is assigned (addresses, names, uids) is the work of the strategy.
pub(crate) fn fill_in(gvk: &Gvk, object: &mut Value) {
    let Some(schema) = Schema::of(gvk) else { return };
    if let Value::Object(members) = object {
        fill_in_struct(members, schema);
    }
}

fn fill_in_struct(members: &mut Members, schema: &StructType) {
    rows::fill_in(members, schema);
    structs::fill_in(members, schema.name());
    for field in schema.fields() {
        if let Some(value) = members.get_mut(field.name) {
            walk(value, field.shape);
        }
    }
}

fn walk(value: &mut Value, shape: Shape) {
    match (shape, value) {
        (Shape::Pointer(_) | Shape::Struct(_), value) => {
            if let (Some(schema), Value::Object(members)) = (shape.struct_type(), value) {
                fill_in_struct(members, schema);
            }
        }
        (Shape::List(_), Value::Array(items)) => {
            if let Some(element) = shape.element() {
                for item in items {
                    walk(item, element);
                }
            }
        }
        (Shape::Map(_), Value::Object(members)) => {
            if let Some(element) = shape.element() {
                for item in members.values_mut() {
                    walk(item, element);
                }
            }
        }
        _ => {}
    }
}

/// What the encoder of a struct writes that was not said: members that are never left out.
pub(crate) fn complete(members: &mut Members, schema: &StructType) {
    for field in schema.fields() {
        if let Some(value) = members.get_mut(field.name) {
            complete_value(value, field.shape);
            // What is stored does not tell an empty list from none.
            if value.as_array().is_some_and(Vec::is_empty) || is_empty_map(value, field.shape) {
                *value = Value::Null;
            }
        } else if let Some(zero) = zero(field) {
            members.insert(field.name.to_owned(), zero);
        }
    }
}

fn is_empty_map(value: &Value, shape: Shape) -> bool {
    matches!(shape, Shape::Map(_)) && value.as_object().is_some_and(Map::is_empty)
}

fn complete_value(value: &mut Value, shape: Shape) {
    match (shape, value) {
        (Shape::Pointer(_) | Shape::Struct(_), Value::Object(members)) => {
            if let Some(schema) = shape.struct_type() {
                complete(members, schema);
            }
        }
        (Shape::List(_), Value::Array(items)) => {
            if let Some(element) = shape.element() {
                for item in items {
                    complete_value(item, element);
                }
            }
        }
        (Shape::Map(_), Value::Object(members)) => {
            if let Some(element) = shape.element() {
                for item in members.values_mut() {
                    complete_value(item, element);
                }
            }
        }
        _ => {}
    }
}

/// What is written for a member that nobody set; `None` when it is left out.
fn zero(field: &tiphys_object::builtin::Field) -> Option<Value> {
    use tiphys_object::builtin::OmitWhen;
    let is_empty_omitted = field.omit != OmitWhen::Never;
    Some(match field.shape {
        Shape::Struct(_) if field.omit == OmitWhen::Zero => return None,
        Shape::Struct(_) => {
            let mut members = Map::new();
            complete(&mut members, field.shape.struct_type()?);
            Value::Object(members)
        }
        // An integer or text is a struct to the encoder, which it never finds empty.
        Shape::IntOrText => Value::from(0),
        Shape::Quantity => Value::from("0"),
        Shape::Time | Shape::MicroTime if field.omit != OmitWhen::Zero => Value::Null,
        _ if is_empty_omitted => return None,
        Shape::Text => Value::from(""),
        Shape::Bool => Value::from(false),
        Shape::Int32 | Shape::Int64 => Value::from(0),
        _ => Value::Null,
    })
}
