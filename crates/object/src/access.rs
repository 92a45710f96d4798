//! Reading and writing the members every manifest has, on the momentary JSON tree.
//!
//! All readers are total: a member that is absent or of another type reads as empty. Code that must tell
//! "absent" from "of the wrong type" looks at the tree itself.

use serde_json::{Map, Value};

/// Text of a top-level member, empty when absent or not a text.
pub fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object.get(member).and_then(Value::as_str).unwrap_or("")
}

/// Text at a path of members, empty when absent or not a text.
pub fn text_at<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or("")
}

/// Value at a path of members, through objects only.
pub fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, member| value.get(member))
}

/// `metadata.name`, empty when absent.
pub fn name(object: &Value) -> &str {
    text_at(object, &["metadata", "name"])
}

/// `metadata.namespace`, empty when absent.
pub fn namespace(object: &Value) -> &str {
    text_at(object, &["metadata", "namespace"])
}

/// `metadata.uid`, empty when absent.
pub fn uid(object: &Value) -> &str {
    text_at(object, &["metadata", "uid"])
}

/// One annotation as text; `None` when absent or not a text.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// One label as text; `None` when absent or not a text.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// Items of an annotation CSV: split at `,`, trimmed, empty ones dropped (ENG notation).
pub fn annotation_items<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    annotation(object, key).unwrap_or("").split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// Whether an annotation CSV has an item equal to `item`, case-sensitively (ENG notation).
pub fn has_annotation_item(object: &Value, key: &str, item: &str) -> bool {
    annotation_items(object, key).any(|found| found == item)
}

/// The `metadata` object, made when absent or not an object. A non-object manifest becomes an object.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    member_object_mut(ensure_object(object), "metadata")
}

/// The object under `member`, made when absent or not an object.
pub fn member_object_mut<'a>(map: &'a mut Map<String, Value>, member: &str) -> &'a mut Map<String, Value> {
    ensure_object(map.entry(member).or_insert_with(|| Value::Object(Map::new())))
}

/// Turns any value into an object, keeping it when it is one already.
pub fn ensure_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        #[expect(clippy::unreachable, reason = "the value was made an object three lines above")]
        _ => unreachable!("the value was just made an object"),
    }
}

/// Sets an annotation, making the maps on the way.
pub fn set_annotation(object: &mut Value, key: &str, text: &str) {
    member_object_mut(metadata_mut(object), "annotations").insert(key.to_owned(), Value::from(text));
}

/// Sets a label, making the maps on the way.
pub fn set_label(object: &mut Value, key: &str, text: &str) {
    member_object_mut(metadata_mut(object), "labels").insert(key.to_owned(), Value::from(text));
}

/// Removes an annotation; a map that becomes empty is removed too. Says whether anything was removed.
pub fn remove_annotation(object: &mut Value, key: &str) -> bool {
    remove_from_metadata_map(object, "annotations", key)
}

/// Removes a label; a map that becomes empty is removed too. Says whether anything was removed.
pub fn remove_label(object: &mut Value, key: &str) -> bool {
    remove_from_metadata_map(object, "labels", key)
}

fn remove_from_metadata_map(object: &mut Value, map_name: &str, key: &str) -> bool {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return false };
    let Some(map) = metadata.get_mut(map_name).and_then(Value::as_object_mut) else { return false };
    let removed = map.remove(key).is_some();
    if removed && map.is_empty() {
        metadata.remove(map_name);
    }
    removed
}
