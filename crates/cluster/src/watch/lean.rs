//! Reading an object without the books of its field managers: they are often longer than all the rest, and few are kept.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use smol_str::SmolStr;
use tiphys_api::names::FIELD_MANAGER;
use tiphys_object::structured;

/// The member of the metadata that has the books.
const BOOKS: &str = "managedFields";

/// An object whose books are still text.
#[derive(Debug)]
pub(super) struct Lean<'a> {
    pub(super) members: Map<String, Value>,
    books: Option<&'a RawValue>,
}

impl Lean<'_> {
    /// Of the books only what predicts the product's own server-side apply (ENG-85), or what these managers own
    /// (ENG-70). `None` too where they are nested too deep: without them there is no prediction, and no less.
    pub(super) fn books(&self, managers: &[SmolStr]) -> Option<Value> {
        let text = self.books?.get();
        let has = |name: &str| text.contains(name) || !is_written_as_it_is(name);
        // Only an apply of our own is predicted, and whoever is not in the text owns nothing.
        let may_predict = has(FIELD_MANAGER) && text.contains("\"Apply\"");
        if !may_predict && !managers.iter().any(|name| has(name)) {
            return None;
        }
        structured::books_to_keep(&serde_json::from_str(text).ok()?, FIELD_MANAGER, managers)
    }
}

/// Whether every server writes a text into JSON without escapes.
fn is_written_as_it_is(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._ ".contains(&byte))
}

impl<'de: 'a, 'a> Deserialize<'de> for Lean<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Lean<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Lean<'de>, A::Error> {
        let (mut members, mut books) = (Map::new(), None);
        while let Some(name) = map.next_key::<String>()? {
            let value = if name == "metadata" {
                books = None;
                map.next_value_seed(Metadata { books: &mut books })?
            } else {
                map.next_value()?
            };
            members.insert(name, value);
        }
        Ok(Lean { members, books })
    }
}

/// Reads the metadata and leaves the books where they are.
struct Metadata<'b, 'de> {
    books: &'b mut Option<&'de RawValue>,
}

impl<'de> DeserializeSeed<'de> for Metadata<'_, 'de> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Metadata<'_, 'de> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == BOOKS {
                *self.books = Some(map.next_value()?);
            } else {
                members.insert(name, map.next_value()?);
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eng_85_books_are_only_read_where_something_of_them_is_kept() {
        let object = |books: &str| {
            let text = format!(r#"{{"metadata":{{"name":"a","managedFields":{books}}},"data":{{"k":"v"}}}}"#);
            let lean: Lean<'_> = serde_json::from_str(&text).unwrap();
            let kept = [&[][..], &["scaler".into()], &["a\"b".into()]].map(|managers| lean.books(managers));
            assert_eq!(
                Value::Object(lean.members),
                serde_json::json!({"metadata": {"name": "a"}, "data": {"k": "v"}})
            );
            kept.map(|kept| kept.is_some())
        };
        let entry = |manager: &str, operation: &str| {
            format!(r#"{{"manager":{manager},"operation":"{operation}","fieldsV1":{{"f:data":{{}}}}}}"#)
        };
        for (manager, operation, expected) in [
            ("\"argocd-controller\"", "Apply", [true, true, true]),
            ("\"argocd-controller\"", "Update", [false, false, false]),
            ("\"kubectl\"", "Apply", [false, false, false]),
            ("\"scaler\"", "Update", [false, true, false]),
            // Written with escapes.
            (r#""a\u0022b""#, "Update", [false, false, true]),
        ] {
            assert_eq!(
                object(&format!("[{}]", entry(manager, operation))),
                expected,
                "{manager} {operation}"
            );
        }
        assert_eq!(object("null"), [false; 3]);
        assert_eq!(object(r#"{"argocd-controller":"Apply"}"#), [false; 3]);
        let deep = format!(
            r#"[{{"manager":"argocd-controller","operation":"Apply","fieldsV1":{}{}}}]"#,
            r#"{"f:a":"#.repeat(200),
            "{}".to_owned() + &"}".repeat(200)
        );
        assert_eq!(object(&deep), [false; 3]);
    }

    #[test]
    fn metadata_that_is_none_is_no_object_without_metadata() {
        let read =
            |text: &str| serde_json::from_str::<Lean<'_>>(text).map(|lean| Value::Object(lean.members));
        assert_eq!(read(r#"{"metadata":null}"#).unwrap(), serde_json::json!({"metadata": null}));
        assert_eq!(
            read(r#"{"metadata":{"managedFields":[]},"metadata":{"name":"b"}}"#).unwrap(),
            serde_json::json!({"metadata": {"name": "b"}})
        );
        assert!(read(r#"{"metadata":7}"#).is_err());
        assert!(read("[]").is_err());
    }
}
