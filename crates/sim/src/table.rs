//! Tables: what `kubectl get` prints.
//!
//! Built-in kinds with columns of their own have a row in [`printer`]; custom resources have the columns of their
//! definition; everything else shows its name and when it was made. Cells for `-o wide` are always there, it is
//! the priority of a column that hides them.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

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
    let (definitions, cells): (Value, Box<dyn Fn(&Row<'_>) -> Vec<Value>>) = match &resource.custom {
        Some(custom) => custom_table(custom),
        None => match printer::of(&resource.group, &resource.plural) {
            Some(printer) => (column::definitions(printer.columns), Box::new(printer.cells)),
            None => (column::definitions("Name|Created At:date"), Box::new(name_and_creation)),
        },
    };
    let rows: Vec<Value> = objects
        .iter()
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
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows})
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

fn custom_table(custom: &Custom) -> (Value, Box<dyn Fn(&Row<'_>) -> Vec<Value>>) {
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
