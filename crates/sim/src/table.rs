//! Tables: what `kubectl get` prints.
//!
//! Built-in kinds with columns of their own have a row in [`printer`]; custom resources have the columns of their
//! definition; everything else shows its name and when it was made. Cells for `-o wide` are always there, it is
//! the priority of a column that hides them.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tiphys_object::access;

use crate::resource::{Custom, Resource};
use row::Row;

/// How much of each object goes with its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// Nothing.
    None,
    /// `PartialObjectMetadata`.
    Metadata,
    /// All of it.
    Object,
}

/// A `meta.k8s.io/v1` Table of objects; `metadata` is that of the list. Column definitions are always there.
pub(crate) fn table(
    resource: &Resource,
    objects: &[Value],
    metadata: Value,
    include: IncludeObject,
    now: Timestamp,
) -> Value {
    let (definitions, cells): (Value, Cells) = match &resource.custom {
        Some(custom) => custom_table(custom),
        None => match printer::of(&resource.group, &resource.plural) {
            Some(printer) => (column::definitions(printer.columns), Box::new(printer.cells)),
            None => (column::definitions("Name|Created At:date"), Box::new(name_and_creation)),
        },
    };
    let rows: Vec<Value> = ordered(resource, objects)
        .into_iter()
        .map(|object| {
            let cells = cells(&Row { object, now });
            let mut row = Map::new();
            row.insert("cells".to_owned(), Value::Array(cells));
            if (resource.group.as_str(), resource.plural.as_str()) == ("", "pods") {
                pod::add_conditions(object, &mut row);
            }
            row.insert("object".to_owned(), included(object, include));
            Value::Object(row)
        })
        .collect();
    // Kinds without columns of their own have no rows at all rather than none.
    let is_plain = resource.custom.is_none() && printer::of(&resource.group, &resource.plural).is_none();
    let rows = if rows.is_empty() && is_plain { Value::Null } else { Value::Array(rows) };
    let members = [
        ("kind", "Table".into()),
        ("apiVersion", "meta.k8s.io/v1".into()),
        ("metadata", metadata),
        ("columnDefinitions", definitions),
        ("rows", rows),
    ];
    Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Makes the cells of a row.
type Cells = Box<dyn Fn(&Row<'_>) -> Vec<Value>>;

/// The order of rows: that of the list, but flow schemas come in the order they are matched in.
fn ordered<'a>(resource: &Resource, objects: &'a [Value]) -> Vec<&'a Value> {
    let mut objects: Vec<&Value> = objects.iter().collect();
    if resource.plural == "flowschemas" && resource.custom.is_none() {
        let precedence = |object: &Value| object.pointer("/spec/matchingPrecedence").and_then(Value::as_i64);
        objects.sort_by_key(|object| (precedence(object), access::name(object).to_owned()));
    }
    objects
}

fn included(object: &Value, include: IncludeObject) -> Value {
    match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Object => object.clone(),
        IncludeObject::Metadata => json!({"kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1", "metadata": object.get("metadata").unwrap_or(&json!({}))}),
    }
}

fn name_and_creation(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text("/metadata/creationTimestamp").into()]
}

fn custom_table(custom: &Custom) -> (Value, Cells) {
    let columns = custom::read(&custom.columns);
    let mut definitions = vec![column::definition("Name", "string", "name", "", 0)];
    definitions.extend(columns.iter().map(custom::Column::definition));
    let cells = move |row: &Row<'_>| {
        std::iter::once(row.name()).chain(columns.iter().map(|column| column.cell(row))).collect()
    };
    (Value::Array(definitions), Box::new(cells))
}

mod age;
mod cluster;
mod column;
mod custom;
mod hpa;
mod network;
mod pod;
mod printer;
mod row;
mod storage;
mod workload;

#[cfg(test)]
mod tests;
