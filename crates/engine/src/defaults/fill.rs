//! Setting absent members.

use serde_json::{Map, Value};

/// A type's short name in parts: `apps/v1.DeploymentSpec`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TypeName<'a> {
    /// Area, for example `apps`.
    pub(super) area: &'a str,
    /// API version, for example `v1`.
    pub(super) version: &'a str,
    /// Name of the struct.
    pub(super) name: &'a str,
}

impl<'a> TypeName<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        let (package, name) = text.rsplit_once('.').unwrap_or(("", text));
        let (area, version) = package.split_once('/').unwrap_or((package, ""));
        Self { area, version, name }
    }
}

/// Sets a member that is absent or null.
pub(super) fn set(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if is_absent(map, key) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Whether a member is absent or null.
pub(super) fn is_absent(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key).is_none_or(Value::is_null)
}

/// Text of a member, empty when absent.
pub(super) fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or("")
}

/// A member that is an object.
pub(super) fn object<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    map.get_mut(key).and_then(Value::as_object_mut)
}

/// A member that is an object, made when absent.
pub(super) fn made<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    set(map, key, Map::new());
    object(map, key)
}

/// The objects of a list member.
pub(super) fn items<'a>(
    map: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}
