//! The language of the field tables, and their expansion to structural schemas.
//!
//! A field is `(name, type, description)`; a name that ends with `*` is required. Types: `string`, `boolean`,
//! `int` (64 bits), `time` (RFC 3339), `int-or-string`, `metadata` (of an object), `object` (free-form map),
//! `any` (free-form value), `[T]` list, `{T}` map with text keys, the name of another type of the tables, `bare T` for a type whose
//! parts go undescribed because it occurs many times. `string max=N`, `string enum=a|b` and `string pattern=P`
//! narrow a text.

use serde_json::{Map, Value, json};

/// `(name, type, description)`.
pub(super) type Field = (&'static str, &'static str, &'static str);

/// A named type.
pub(super) struct Type {
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
}

/// Several types.
pub(super) type Table = &'static [Type];

/// Deeper than any type nests; ends the expansion of a type that contains itself.
const DEPTH_MAX: usize = 32;

/// Types that server-side apply replaces as a whole.
const ATOMIC: &[&str] = &["LabelSelector", "SecretKey", "ConfigMapKey"];

/// The schema of a root type.
pub(super) fn schema(tables: &[Table], root: &str) -> Value {
    Expansion { tables, described: true }.expand(root, DEPTH_MAX)
}

struct Expansion<'a> {
    tables: &'a [Table],
    described: bool,
}

impl Expansion<'_> {
    fn expand(&self, spelled: &str, depth: usize) -> Value {
        let free_form = || json!({"x-kubernetes-preserve-unknown-fields": true});
        let Some(depth) = depth.checked_sub(1) else { return free_form() };
        if let Some(inner) = spelled.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return json!({"type": "array", "items": self.expand(inner, depth)});
        }
        if let Some(inner) = spelled.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            return json!({"type": "object", "additionalProperties": self.expand(inner, depth)});
        }
        if let Some(inner) = spelled.strip_prefix("bare ") {
            return Expansion { tables: self.tables, described: false }.expand(inner, depth);
        }
        if let Some(narrowed) = spelled.strip_prefix("string ") {
            return narrowed_text(narrowed);
        }
        match spelled {
            "string" | "boolean" => json!({ "type": spelled }),
            "int" => json!({"type": "integer", "format": "int64"}),
            "time" => json!({"type": "string", "format": "date-time"}),
            "int-or-string" => {
                json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
            }
            "object" => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            "metadata" => json!({"type": "object"}),
            "any" => free_form(),
            name => match self.find(name) {
                Some(found) => self.expand_type(found, depth),
                None => free_form(),
            },
        }
    }

    fn find(&self, name: &str) -> Option<&'static Type> {
        self.tables.iter().flat_map(|table| table.iter()).find(|found| found.name == name)
    }

    fn expand_type(&self, found: &Type, depth: usize) -> Value {
        let mut properties = Map::new();
        let mut required = vec![];
        for (name, spelled, about) in found.fields {
            let bare = name.trim_end_matches('*');
            if bare.len() < name.len() {
                required.push(bare);
            }
            let mut property = self.expand(spelled, depth);
            // The API server describes metadata itself and refuses other words.
            let described = self.described && *spelled != "metadata";
            if let (true, Some(property)) = (described, property.as_object_mut()) {
                property.insert("description".to_owned(), Value::from(*about));
            }
            properties.insert(bare.to_owned(), property);
        }
        let mut object = json!({"type": "object", "properties": properties});
        if let Some(members) = object.as_object_mut() {
            if !required.is_empty() {
                members.insert("required".to_owned(), json!(required));
            }
            if ATOMIC.contains(&found.name) {
                members.insert("x-kubernetes-map-type".to_owned(), Value::from("atomic"));
            }
        }
        object
    }
}

fn narrowed_text(narrowed: &str) -> Value {
    match narrowed.split_once('=') {
        Some(("max", length)) => json!({"type": "string", "maxLength": length.parse::<u64>().ok()}),
        Some(("enum", values)) => json!({"type": "string", "enum": values.split('|').collect::<Vec<_>>()}),
        Some(("pattern", pattern)) => json!({"type": "string", "pattern": pattern}),
        _ => json!({"type": "string"}),
    }
}

/// Spelled types that mean nothing.
#[cfg(test)]
pub(super) fn unknown_types(tables: &[Table]) -> Vec<String> {
    const PLAIN: &[&str] =
        &["string", "boolean", "int", "time", "int-or-string", "object", "metadata", "any"];
    let core = |spelled: &str| {
        let core =
            spelled.trim_start_matches("bare ").trim_start_matches(['[', '{']).trim_end_matches([']', '}']);
        core.trim_start_matches("bare ").to_owned()
    };
    let named = |name: &str| tables.iter().flat_map(|table| table.iter()).any(|found| found.name == name);
    tables
        .iter()
        .flat_map(|table| table.iter())
        .flat_map(|found| found.fields.iter().map(move |field| (found.name, core(field.1))))
        .filter(|(_, core)| !PLAIN.contains(&core.as_str()) && !core.starts_with("string ") && !named(core))
        .map(|(name, core)| format!("{name}: {core}"))
        .collect()
}
