//! Reading the envelope and the metadata of one object without building a tree of it.
//!
//! Most objects of a cluster belong to no application. For them everything but a few metadata members is
//! skipped, without an allocation for texts that need no unescaping.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use smol_str::SmolStr;
use tiphys_go::nesting;
use tiphys_object::{Object, ObjectError};

use super::lean::Lean;

/// A text that reads as empty when it is null or something else than a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Text<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

/// What is read of every object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head<'a> {
    #[serde(borrow, default)]
    pub(crate) metadata: MetadataHead<'a>,
}

/// The members of metadata that every record needs; labels and annotations stay unread.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MetadataHead<'a> {
    #[serde(borrow)]
    pub(crate) name: Text<'a>,
    #[serde(borrow)]
    pub(crate) namespace: Text<'a>,
    #[serde(borrow)]
    pub(crate) uid: Text<'a>,
    #[serde(borrow)]
    pub(crate) resource_version: Text<'a>,
    #[serde(borrow)]
    pub(crate) creation_timestamp: Text<'a>,
    #[serde(borrow)]
    pub(crate) deletion_timestamp: Text<'a>,
    #[serde(borrow)]
    pub(crate) owner_references: Option<Vec<OwnerHead<'a>>>,
    #[serde(borrow)]
    pub(crate) labels: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) annotations: Option<&'a RawValue>,
}

/// One owner reference.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerHead<'a> {
    #[serde(borrow)]
    pub(crate) api_version: Text<'a>,
    #[serde(borrow)]
    pub(crate) kind: Text<'a>,
    #[serde(borrow)]
    pub(crate) name: Text<'a>,
    #[serde(borrow)]
    pub(crate) uid: Text<'a>,
}

/// One line of a watch, its object read as far as a record needs.
#[derive(Debug, Deserialize)]
pub(crate) struct EventHead<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) object: Head<'a>,
}

/// One line of a watch, its object as text.
#[derive(Deserialize)]
struct EventRaw<'a> {
    #[serde(borrow)]
    object: &'a RawValue,
}

/// One page of a list, the objects as text.
#[derive(Deserialize)]
pub(crate) struct Page<'a> {
    #[serde(default)]
    pub(crate) metadata: PageMetadata,
    /// Must be there: an answer without it is no list, not an empty one (INV-1). Servers write `null` for none.
    #[serde(borrow, deserialize_with = "null_as_none")]
    pub(crate) items: Vec<&'a RawValue>,
}

fn null_as_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'de RawValue>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Where a page ends and which state it shows.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PageMetadata {
    #[serde(rename = "continue")]
    pub(crate) continue_token: Option<String>,
    pub(crate) resource_version: Option<String>,
}

/// Annotations of a bookmark.
#[derive(Deserialize)]
struct BookmarkAnnotations<'a> {
    #[serde(rename = "k8s.io/initial-events-end", borrow, default)]
    initial_events_end: Text<'a>,
}

/// Whether a bookmark says that the initial events of a streaming list are over.
pub(crate) fn is_initial_events_end(head: &Head<'_>) -> bool {
    head.metadata.annotations.is_some_and(|raw| {
        serde_json::from_str::<BookmarkAnnotations<'_>>(raw.get())
            .is_ok_and(|annotations| annotations.initial_events_end.as_str() == "true")
    })
}

/// The object of a watch line, as text.
pub(crate) fn event_object(line: &[u8]) -> Result<&[u8], serde_json::Error> {
    Ok(serde_json::from_slice::<EventRaw<'_>>(line)?.object.get().as_bytes())
}

/// The object in stored form: with `apiVersion` and `kind`, which items of built-in lists lack (DEP-33), and of
/// `managedFields` only what predicts the product's own server-side apply (ENG-85), or what these managers own
/// (ENG-70).
pub(crate) fn stored_object(
    raw: &[u8],
    api_version: &str,
    kind: &str,
    managers: &[SmolStr],
) -> Result<Object, ObjectError> {
    // Its own limit is above ours and has no place to name.
    let mut lean: Lean<'_> = match serde_json::from_slice(raw) {
        Ok(lean) => lean,
        Err(error) => return Err(nesting::check(raw).map_or_else(ObjectError::from, |()| error.into())),
    };
    let books = lean.books(managers);
    let mut members = std::mem::take(&mut lean.members);
    members.entry("apiVersion").or_insert_with(|| api_version.into());
    members.entry("kind").or_insert_with(|| kind.into());
    let mut value = serde_json::Value::Object(members);
    let Some(books) = books else { return Object::from_value(&value) };
    tiphys_object::access::metadata_mut(&mut value).insert("managedFields".to_owned(), books);
    match Object::from_value(&value) {
        // Books nest a little deeper than what they are about. Without them there is no prediction, and no less.
        Err(ObjectError::TooDeep(_)) => {
            tiphys_object::access::metadata_mut(&mut value).remove("managedFields");
            Object::from_value(&value)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dep_31_the_head_borrows_what_it_reads() {
        let line = br#"{"type":"ADDED","object":{"kind":"ConfigMap","metadata":{"name":"a","namespace":"n",
            "creationTimestamp":null,"labels":{"x":"y"}},"data":{"k":"v"}}}"#;
        let event: EventHead<'_> = serde_json::from_slice(line).unwrap();
        assert_eq!(event.kind.as_str(), "ADDED");
        assert!(matches!(event.object.metadata.name.0, Cow::Borrowed("a")));
        assert_eq!(event.object.metadata.creation_timestamp.as_str(), "");
        assert_eq!(event.object.metadata.labels.unwrap().get(), r#"{"x":"y"}"#);
    }

    #[test]
    fn f7_an_answer_without_items_is_no_empty_list() {
        let items = |text: &str| serde_json::from_str::<Page<'_>>(text).map(|page| page.items.len());
        assert_eq!(items(r#"{"metadata":{"resourceVersion":"9"},"items":null}"#).unwrap(), 0);
        assert_eq!(items(r#"{"metadata":{"resourceVersion":"9"},"items":[{}]}"#).unwrap(), 1);
        assert!(items("{}").is_err());
        assert!(items(r#"{"metadata":{"resourceVersion":"9"}}"#).is_err());
    }

    #[test]
    fn dep_33_items_of_lists_get_their_kind() {
        let object = stored_object(
            br#"{"metadata":{"name":"a","managedFields":[{"manager":"m"}]},"data":{}}"#,
            "v1",
            "ConfigMap",
            &[],
        )
        .unwrap();
        assert_eq!(
            object.raw().as_ref(),
            br#"{"apiVersion":"v1","data":{},"kind":"ConfigMap","metadata":{"name":"a"}}"#
        );
    }

    #[test]
    fn eng_85_books_stay_where_the_product_applied() {
        let object = stored_object(
            br#"{"metadata":{"name":"a","managedFields":[
                {"manager":"argocd-controller","operation":"Apply","apiVersion":"v1","time":"t","fieldsV1":{"f:data":{}}},
                {"manager":"m","operation":"Update","apiVersion":"v1","fieldsV1":{"f:status":{}}}]}}"#,
            "v1",
            "ConfigMap",
            &["m".into()],
        )
        .unwrap();
        assert_eq!(
            object.raw().as_ref(),
            br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"managedFields":[{"apiVersion":"v1","fieldsV1":{"f:data":{}},"manager":"argocd-controller","operation":"Apply"}],"name":"a"}}"#
        );
    }

    #[test]
    fn eng_70_books_of_named_managers_stay_without_time_and_status() {
        let raw = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":[
            {"manager":"scaler","operation":"Update","apiVersion":"v1","time":"t","fieldsV1":{"f:data":{"f:k":{}}}},
            {"manager":"scaler","operation":"Update","apiVersion":"v1","subresource":"status","fieldsV1":{"f:status":{}}},
            {"manager":"m","operation":"Update","apiVersion":"v1","fieldsV1":{"f:data":{}}}]}}"#;
        let books = |managers: &[SmolStr]| {
            let object = stored_object(raw, "", "", managers).unwrap();
            let value: serde_json::Value = serde_json::from_slice(&object.raw()).unwrap();
            value["metadata"].get("managedFields").cloned()
        };
        let kept = serde_json::json!([{"manager": "scaler", "operation": "Update", "apiVersion": "v1",
            "fieldsV1": {"f:data": {"f:k": {}}}}]);
        assert_eq!(books(&["scaler".into(), "other".into()]), Some(kept));
        assert_eq!(books(&["other".into()]), None);
        assert_eq!(books(&[]), None);
    }

    #[test]
    fn the_end_of_initial_events_is_recognised() {
        let line = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        let event: EventHead<'_> = serde_json::from_slice(line).unwrap();
        assert!(is_initial_events_end(&event.object));
        let plain = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#;
        let event: EventHead<'_> = serde_json::from_slice(plain).unwrap();
        assert!(!is_initial_events_end(&event.object));
    }
}
