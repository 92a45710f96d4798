//! What the API server fills in (ENG-210).
//!
//! A desired object leaves out what the server fills in, so both documents of a comparison get the defaults
//! before they are compared. [`apply`] walks an object along its type and fills absent members, struct by struct;
//! the tables are in the submodules, by area. Only absent members are set, so doing it twice changes nothing.

mod config;
mod fill;
mod pod;
mod workload;

use serde_json::{Map, Value};
use tiphys_object::Gvk;
use tiphys_object::builtin::{Schema, Shape, StructType};

/// Nesting that is followed; types nest far less.
const DEPTH_MAX: usize = 64;

/// Fills the defaults of a built-in type; other types are left alone.
pub fn apply(object: &mut Value, gvk: &Gvk) {
    let (Some(known), Some(map)) = (Schema::of(gvk), object.as_object_mut()) else { return };
    fill_struct(map, known, DEPTH_MAX);
}

fn fill_struct(map: &mut Map<String, Value>, known: &StructType, depth: usize) {
    // The outside first: it makes members that the inside then fills.
    let name = fill::TypeName::parse(known.name());
    pod::fill(name, map);
    workload::fill(name, map);
    config::fill(name, map);
    let Some(depth) = depth.checked_sub(1) else { return };
    for (key, value) in map.iter_mut() {
        if key != "status"
            && let Some(field) = known.field(key)
        {
            fill_shape(value, field.shape, depth);
        }
    }
}

fn fill_shape(value: &mut Value, shape: Shape, depth: usize) {
    match value {
        Value::Object(map) => {
            if let Some(known) = shape.struct_type() {
                fill_struct(map, known, depth);
            } else if let Some((element, depth)) = shape.element().zip(depth.checked_sub(1)) {
                for value in map.values_mut() {
                    fill_shape(value, element, depth);
                }
            }
        }
        Value::Array(items) => {
            let Some((element, depth)) = shape.element().zip(depth.checked_sub(1)) else { return };
            for item in items {
                fill_shape(item, element, depth);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
