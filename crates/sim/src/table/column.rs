//! Definitions of columns.

use serde_json::{Value, json};

/// One definition.
pub(super) fn definition(name: &str, r#type: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": r#type, "format": format, "description": description, "priority": priority})
}

/// The definitions that a short text stands for: columns between bars, each `Name` or `Name:type`, a star at the
/// end for the wide output.
pub(super) fn definitions(columns: &str) -> Value {
    columns
        .split('|')
        .map(|column| {
            let wide = column.strip_suffix('*');
            let (name, r#type) =
                wide.unwrap_or(column).split_once(':').unwrap_or((wide.unwrap_or(column), "string"));
            let format = if matches!(name, "Name" | "Attacher") { "name" } else { "" };
            definition(name, r#type, format, "", i64::from(wide.is_some()))
        })
        .collect()
}
