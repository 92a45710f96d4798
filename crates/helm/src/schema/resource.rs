//! Documents of schemas: which parts of them have addresses of their own, and what names point where.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::SchemaError;
use super::address::{self, Fragment};
use super::draft::Draft;

/// A part of a document with an address of its own.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) id: String,
    pub(super) draft: Draft,
    /// Names that schemas of the resource give themselves, and their pointers in the document.
    pub(super) anchors: BTreeMap<String, String>,
    pub(super) dynamic_anchors: BTreeSet<String>,
}

/// One document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) url: String,
    pub(super) value: Value,
    /// Resources by their pointers; the document itself under the empty one.
    pub(super) resources: BTreeMap<String, Resource>,
    /// Places that are known to be schemas.
    pub(super) known: BTreeSet<String>,
}

fn invalid<T>(text: String) -> Result<T, SchemaError> {
    Err(SchemaError::Invalid(text))
}

impl Document {
    pub(super) fn new(url: &str, value: Value, draft: Draft) -> Result<Self, SchemaError> {
        let mut document = Self {
            url: url.to_owned(),
            value: Value::Null,
            resources: BTreeMap::new(),
            known: BTreeSet::new(),
        };
        document.collect(&value, url, "", draft)?;
        document.value = value;
        Ok(document)
    }

    /// The address of a place.
    pub(super) fn location(&self, pointer: &str) -> String {
        format!("{}#{}", self.url, address::encode(pointer))
    }

    /// The resource that a place belongs to, with its pointer.
    pub(super) fn resource(&self, pointer: &str) -> Option<(&str, &Resource)> {
        let mut pointer = pointer;
        loop {
            if let Some((found, resource)) = self.resources.get_key_value(pointer) {
                return Some((found, resource));
            }
            pointer = pointer.rsplit_once('/')?.0;
        }
    }

    /// The value at a pointer.
    pub(super) fn look_up(&self, pointer: &str) -> Result<&Value, SchemaError> {
        let mut value = &self.value;
        for step in pointer.split('/').skip(1) {
            let Some(step) = address::unescape(step) else {
                return invalid(format!("invalid json-pointer {:?}", self.location(pointer)));
            };
            let found = match value {
                Value::Object(members) => members.get(&step),
                Value::Array(items) => step.parse::<usize>().ok().and_then(|at| items.get(at)),
                _ => None,
            };
            let Some(found) = found else {
                return invalid(format!("json-pointer in {:?} not found", self.location(pointer)));
            };
            value = found;
        }
        Ok(value)
    }

    /// The pointer that a fragment means in a resource.
    pub(super) fn resolve(&self, pointer: &str, fragment: &Fragment) -> Result<String, SchemaError> {
        match fragment {
            Fragment::Pointer(below) => Ok(format!("{pointer}{below}")),
            Fragment::Anchor(name) => {
                let resource = self.resources.get(pointer);
                if let Some(pointer) = resource.and_then(|resource| resource.anchors.get(name)) {
                    return Ok(pointer.clone());
                }
                let id = resource.map_or("", |resource| resource.id.as_str());
                let reference = format!("{id}#{}", address::encode(name));
                invalid(format!("anchor in {reference:?} not found in schema {:?}", self.url))
            }
        }
    }

    /// Makes a place that a reference names known as a schema, with all below it.
    pub(super) fn add(&mut self, pointer: &str) -> Result<(), SchemaError> {
        let value = self.look_up(pointer)?.clone();
        let Some((_, resource)) = self.resource(pointer) else { return Ok(()) };
        let (id, draft) = (resource.id.clone(), resource.draft);
        self.collect(&value, &id, pointer, draft)
    }

    /// Finds the resources and anchors of a schema and of those inside it.
    fn collect(
        &mut self,
        schema: &Value,
        base: &str,
        pointer: &str,
        fallback: Draft,
    ) -> Result<(), SchemaError> {
        if !self.known.insert(pointer.to_owned()) {
            return Ok(());
        }
        let Value::Object(members) = schema else {
            if pointer.is_empty() {
                self.insert(pointer, base.to_owned(), fallback)?;
            }
            return Ok(());
        };
        let (draft, id) = self.draft(members, pointer, fallback)?;
        let base = if let Some(id) = id {
            let id = address::join(base, id);
            self.insert(pointer, id.clone(), draft)?;
            id
        } else {
            if pointer.is_empty() {
                self.insert(pointer, base.to_owned(), draft)?;
            }
            base.to_owned()
        };
        self.collect_anchors(members, &base, pointer)?;
        let draft_below = self.resource(pointer).map_or(draft, |(_, resource)| resource.draft);
        for (below, inner) in draft.inner(members) {
            self.collect(inner, &base, &format!("{pointer}{below}"), draft_below)?;
        }
        Ok(())
    }

    /// The draft of a schema and the address it gives itself. Without an address `$schema` says nothing, but at the
    /// top.
    fn draft<'m>(
        &self,
        members: &'m Map<String, Value>,
        pointer: &str,
        fallback: Draft,
    ) -> Result<(Draft, Option<&'m str>), SchemaError> {
        let named = match members.get("$schema").and_then(Value::as_str) {
            None => fallback,
            Some(url) => {
                let Some(draft) = Draft::from_url(url) else {
                    let (url, _) = address::split(url);
                    if pointer.is_empty() && url == self.url {
                        return invalid(format!("draft {url:?} is not supported"));
                    }
                    return Err(SchemaError::Remote { url: url.to_owned() });
                };
                draft
            }
        };
        let id = named.id(members);
        if id.is_none() && !pointer.is_empty() {
            Ok((fallback, fallback.id(members)))
        } else {
            Ok((named, id))
        }
    }

    fn insert(&mut self, pointer: &str, id: String, draft: Draft) -> Result<(), SchemaError> {
        if let Some((other, _)) = self.resources.iter().find(|(_, resource)| resource.id == id) {
            if other == pointer {
                return Ok(());
            }
            return invalid(format!("duplicate id {id:?} in {:?} at {pointer:?} and {other:?}", self.url));
        }
        let resource = Resource { id, draft, anchors: BTreeMap::new(), dynamic_anchors: BTreeSet::new() };
        self.resources.insert(pointer.to_owned(), resource);
        Ok(())
    }

    fn collect_anchors(
        &mut self,
        members: &Map<String, Value>,
        base: &str,
        pointer: &str,
    ) -> Result<(), SchemaError> {
        let url = self.url.clone();
        let Some(resource) = self.resources.values_mut().find(|resource| resource.id == base) else {
            return Ok(());
        };
        let text = |keyword: &str| members.get(keyword).and_then(Value::as_str);
        let mut names = Vec::new();
        if resource.draft < Draft::D2019 {
            if members.contains_key("$ref") {
                return Ok(());
            }
            if let Some((_, fragment)) = text(resource.draft.id_keyword()).map(address::split) {
                match Fragment::parse(fragment) {
                    Some(Fragment::Anchor(name)) => names.push(name),
                    Some(Fragment::Pointer(_)) => {}
                    None => {
                        return invalid(format!(
                            "error in parsing anchor at {:?}",
                            format!("{url}#{pointer}")
                        ));
                    }
                }
            }
        } else {
            names.extend(text("$anchor").map(str::to_owned));
        }
        if resource.draft >= Draft::D2020
            && let Some(name) = text("$dynamicAnchor")
        {
            names.push(name.to_owned());
            resource.dynamic_anchors.insert(name.to_owned());
        }
        for name in names {
            let there = resource.anchors.entry(name.clone()).or_insert_with(|| pointer.to_owned());
            if there != pointer {
                return invalid(format!("duplicate anchor {name:?} in {url:?} at {there:?} and {pointer:?}"));
            }
        }
        Ok(())
    }
}
