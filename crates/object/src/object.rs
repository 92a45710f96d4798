//! One Kubernetes object in its stored form: compact JSON bytes plus the metadata that indexes and plans read.
//!
//! A generic tree of a typical object takes ten times its text (DEP-60), so trees exist only while one object
//! is being compared or changed: [`Object::to_value`] makes one, [`Object::from_value`] ends it. Reading the
//! record skips everything but `metadata`, at about 1 GB/s.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use smol_str::SmolStr;
use tiphys_go::nesting::{self, TooDeep};

use crate::{Gvk, PackedText, ResourceKey, TextMap};

/// A reference to the owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// `group/version` of the owner.
    pub api_version: SmolStr,
    /// Kind of the owner.
    pub kind: SmolStr,
    /// Name of the owner.
    pub name: SmolStr,
    /// Uid of the owner.
    pub uid: SmolStr,
    /// Whether the owner is the managing controller.
    pub controller: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Envelope {
    #[serde(deserialize_with = "lenient")]
    api_version: SmolStr,
    #[serde(deserialize_with = "lenient")]
    kind: SmolStr,
    metadata: Option<Metadata>,
}

/// The metadata of one object that the product reads; maps keep only text values (TRK-26).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name, empty for `generateName` objects.
    #[serde(deserialize_with = "lenient")]
    pub name: SmolStr,
    /// Prefix of a name the server makes.
    #[serde(deserialize_with = "lenient")]
    pub generate_name: SmolStr,
    /// Namespace, empty for cluster-scoped objects.
    #[serde(deserialize_with = "lenient")]
    pub namespace: SmolStr,
    /// Unique id given by the server.
    #[serde(deserialize_with = "lenient")]
    pub uid: SmolStr,
    /// Version of the stored object.
    #[serde(deserialize_with = "lenient")]
    pub resource_version: SmolStr,
    /// Creation time, RFC 3339.
    #[serde(deserialize_with = "lenient")]
    pub creation_timestamp: SmolStr,
    /// Deletion time, RFC 3339, empty unless the object is going.
    #[serde(deserialize_with = "lenient")]
    pub deletion_timestamp: SmolStr,
    /// Annotations, without the one that repeats the whole object.
    #[serde(deserialize_with = "text_map")]
    pub annotations: TextMap,
    /// Labels.
    #[serde(deserialize_with = "text_map")]
    pub labels: TextMap,
    /// Owners.
    #[serde(deserialize_with = "null_as_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// Finalizers, in order.
    #[serde(deserialize_with = "null_as_empty")]
    pub finalizers: Vec<SmolStr>,
}

fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SmolStr, D::Error> {
    Ok(match Option::deserialize(deserializer)? {
        Some(MaybeText::Text(text)) => text,
        Some(MaybeText::Other(_)) | None => SmolStr::default(),
    })
}

#[derive(Deserialize)]
#[serde(untagged)]
enum MaybeText {
    Text(SmolStr),
    Other(serde::de::IgnoredAny),
}

/// The annotation with a copy of the whole object that `kubectl apply` leaves on it. [`Metadata`] does not keep it;
/// whoever needs it reads the tree.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Texts by key; values of other types are no texts (TRK-26).
fn text_map<'de, D: Deserializer<'de>>(d: D) -> Result<TextMap, D::Error> {
    struct Texts;
    impl<'de> serde::de::Visitor<'de> for Texts {
        type Value = TextMap;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a map of texts")
        }

        fn visit_unit<E: serde::de::Error>(self) -> Result<TextMap, E> {
            Ok(TextMap::default())
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<TextMap, A::Error> {
            let mut entries = Vec::new();
            while let Some(key) = map.next_key::<SmolStr>()? {
                if key == LAST_APPLIED {
                    map.next_value::<serde::de::IgnoredAny>()?;
                } else if let MaybeText::Text(value) = map.next_value()? {
                    entries.push((key, value));
                }
            }
            Ok(entries.into_iter().collect())
        }
    }
    d.deserialize_any(Texts)
}

fn null_as_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

/// Why bytes are not an object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The bytes are not a JSON object with Kubernetes metadata.
    #[error("not a Kubernetes object in JSON")]
    Json(#[from] serde_json::Error),
    /// It is nested deeper than any reader follows (STY-27).
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

/// One Kubernetes object: JSON text, compressed when it is kept for long, plus its metadata. Cloning copies a pointer to the bytes only
/// where the metadata is shared; keep objects behind `Arc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    text: PackedText,
    gvk: Gvk,
    metadata: Box<Metadata>,
}

impl Object {
    /// Reads an object from JSON text, which is kept as it is.
    ///
    /// # Errors
    /// When the text is not a JSON object whose metadata has the usual shape, or is nested too deep.
    pub fn from_bytes(raw: Bytes) -> Result<Self, ObjectError> {
        let envelope: Envelope = serde_json::from_slice(&raw)?;
        nesting::check(&raw)?;
        Ok(Self {
            gvk: Gvk::from_api_version(&envelope.api_version, &envelope.kind),
            metadata: Box::new(envelope.metadata.unwrap_or_default()),
            text: PackedText::plain(raw),
        })
    }

    /// Stores a tree in compact form, members sorted.
    ///
    /// # Errors
    /// When the tree's metadata does not have the usual shape, or the tree is too deep.
    pub fn from_value(value: &Value) -> Result<Self, ObjectError> {
        // Exactly as many bytes as there are: a grown buffer may keep twice as many for as long as it lives.
        Self::from_bytes(Bytes::copy_from_slice(&serde_json::to_vec(value)?))
    }

    /// The object as a momentary tree.
    ///
    /// What was skipped when the object was made is read here for the first time.
    ///
    /// # Errors
    /// When something besides the metadata cannot be read, for example a number beyond 64 bits. That is never an
    /// empty object (INV-1).
    pub fn to_value(&self) -> Result<Value, ObjectError> {
        Ok(serde_json::from_slice(&self.raw())?)
    }

    /// The JSON text.
    pub fn raw(&self) -> Cow<'_, [u8]> {
        self.text.text()
    }

    /// The bytes that the text takes in memory.
    pub fn stored_len(&self) -> usize {
        self.text.stored_len()
    }

    /// The same object, to be kept for long: its text is compressed (DEP-60).
    #[must_use]
    pub fn packed(mut self) -> Self {
        self.text = self.text.packed();
        self
    }

    /// The same for an object that others may hold, too.
    #[must_use]
    pub fn pack(object: Arc<Self>) -> Arc<Self> {
        if object.text.is_packed() { object } else { Arc::new(Arc::unwrap_or_clone(object).packed()) }
    }

    /// Group, version and kind.
    pub fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Namespace, empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    /// The key, as the object is written.
    pub fn key(&self) -> ResourceKey {
        ResourceKey {
            group: self.gvk.group.clone(),
            kind: self.gvk.kind.clone(),
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
        }
    }

    /// One annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key).map(SmolStr::as_str)
    }

    /// One label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key).map(SmolStr::as_str)
    }

    /// Items of an annotation CSV: split at `,`, trimmed, empty ones dropped (ENG notation).
    pub fn annotation_items<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        self.annotation(key).unwrap_or("").split(',').map(str::trim).filter(|item| !item.is_empty())
    }

    /// Whether an annotation CSV has an item equal to `item`, case-sensitively.
    pub fn has_annotation_item(&self, key: &str, item: &str) -> bool {
        self.annotation_items(key).any(|found| found == item)
    }

    /// Whether the object has a deletion timestamp.
    pub fn is_terminating(&self) -> bool {
        !self.metadata.deletion_timestamp.is_empty()
    }

    /// Whether the object carries a finalizer.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.metadata.finalizers.iter().any(|found| found == name)
    }

    /// Hash of the stored bytes: equal bytes, equal hash. Not for security.
    pub fn content_hash(&self) -> u64 {
        self.text.hash()
    }
}

/// Whether what a watch shows of an object is newer than what is known: a late watch shows old versions after an answer to
/// a write of our own.
#[must_use]
pub fn is_news(known: Option<&Metadata>, uid: &str, version: &str) -> bool {
    known.is_none_or(|known| uid != known.uid || is_newer(version, &known.resource_version))
}

/// Whether a version of an object is newer than another; versions of etcd are growing numbers.
#[must_use]
pub fn is_newer(new: &str, old: &str) -> bool {
    match (new.parse::<u64>(), old.parse::<u64>()) {
        (Ok(new), Ok(old)) => new > old,
        _ => new != old,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Object {
        Object::from_bytes(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    #[test]
    fn dep_60_the_record_is_read_without_the_rest() {
        let object = object(
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"n",
               "annotations":{"a":"1, 2,,1"},"finalizers":["f"],"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"x":[1,2]}}"#,
        );
        assert_eq!(object.key().to_string(), "apps/Deployment/n/web");
        assert!(object.has_annotation_item("a", "2"));
        assert!(object.is_terminating());
        assert!(object.has_finalizer("f"));
        assert_eq!(object.to_value().unwrap()["spec"]["x"][1], 2);
    }

    /// INV-1: it was `null`, and the object lost its kind.
    #[test]
    fn inv_1_what_cannot_be_read_is_an_error_and_not_an_empty_object() {
        let strange = object(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"n":1e999}"#);
        assert!(matches!(strange.to_value(), Err(ObjectError::Json(_))));
        let deep = format!(
            r#"{{"kind":"A","metadata":{{"name":"a"}},"spec":{}1{}}}"#,
            "[".repeat(120),
            "]".repeat(120)
        );
        let refused = Object::from_bytes(Bytes::from(deep)).unwrap_err().to_string();
        assert_eq!(refused, "nested more than 100 levels deep at spec[0][0][0][0][0]…");
    }

    #[test]
    fn trk_26_non_text_metadata_is_no_error() {
        let object = object(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":7,"labels":{"a":true,"b":"c"},"annotations":null}}"#,
        );
        assert_eq!(object.name(), "");
        assert_eq!(object.label("a"), None);
        assert_eq!(object.label("b"), Some("c"));
    }
}
