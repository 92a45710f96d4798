//! Small steps in trees of JSON.

use serde_json::{Map, Value};

/// The members of an object.
pub(crate) type Members = Map<String, Value>;

pub(crate) use tiphys_object::access::{at, text_at as text};

/// The integer at a path.
pub(crate) fn integer(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).and_then(Value::as_i64)
}

/// Whether the value at a path is true.
pub(crate) fn flag(value: &Value, path: &[&str]) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or(false)
}

/// The items of the list at a path.
pub(crate) fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The members of the object at a path.
pub(crate) fn members<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Members> {
    at(value, path).and_then(Value::as_object)
}

/// The object at a path, which is made where it is missing; `None` when something else stands there.
pub(crate) fn made<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Members> {
    let mut found = value;
    for name in path {
        let below = found.as_object_mut()?.entry(*name).or_insert(Value::Null);
        if below.is_null() {
            *below = Value::Object(Map::new());
        }
        found = below;
    }
    found.as_object_mut()
}

/// The object at a path.
pub(crate) fn existing<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Members> {
    let mut found = value;
    for name in path {
        found = found.get_mut(name)?;
    }
    found.as_object_mut()
}

/// Whether a member is missing, null or an empty text.
pub(crate) fn lacks(members: &Members, name: &str) -> bool {
    members.get(name).is_none_or(|value| value.is_null() || value.as_str() == Some(""))
}

/// Sets a member that is missing, null or an empty text.
pub(crate) fn default_to(members: &mut Members, name: &str, value: impl Into<Value>) {
    if lacks(members, name) {
        members.insert(name.to_owned(), value.into());
    }
}
