//! The drafts: their addresses, and where each of them has schemas inside schemas.

use serde_json::{Map, Value};

/// A version of JSON Schema. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Draft {
    D4,
    D6,
    D7,
    D2019,
    D2020,
}

/// Where below a schema another one stands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// In the keyword itself.
    Value(&'static str),
    /// In each item of its list.
    Items(&'static str),
    /// In each member of its map.
    Members(&'static str),
}

/// Places, each with the draft that brought it.
const PLACES: &[(Draft, Place)] = &[
    (Draft::D4, Place::Members("definitions")),
    (Draft::D4, Place::Value("not")),
    (Draft::D4, Place::Items("allOf")),
    (Draft::D4, Place::Items("anyOf")),
    (Draft::D4, Place::Items("oneOf")),
    (Draft::D4, Place::Members("properties")),
    (Draft::D4, Place::Value("additionalProperties")),
    (Draft::D4, Place::Members("patternProperties")),
    (Draft::D4, Place::Value("items")),
    (Draft::D4, Place::Items("items")),
    (Draft::D4, Place::Value("additionalItems")),
    (Draft::D4, Place::Members("dependencies")),
    (Draft::D6, Place::Value("propertyNames")),
    (Draft::D6, Place::Value("contains")),
    (Draft::D7, Place::Value("if")),
    (Draft::D7, Place::Value("then")),
    (Draft::D7, Place::Value("else")),
    (Draft::D2019, Place::Members("$defs")),
    (Draft::D2019, Place::Members("dependentSchemas")),
    (Draft::D2019, Place::Value("unevaluatedProperties")),
    (Draft::D2019, Place::Value("unevaluatedItems")),
    (Draft::D2019, Place::Value("contentSchema")),
    (Draft::D2020, Place::Items("prefixItems")),
];

impl Draft {
    pub(super) const ALL: [Self; 5] = [Self::D4, Self::D6, Self::D7, Self::D2019, Self::D2020];

    /// The address of its own schema.
    pub(super) const fn url(self) -> &'static str {
        match self {
            Self::D4 => "http://json-schema.org/draft-04/schema",
            Self::D6 => "http://json-schema.org/draft-06/schema",
            Self::D7 => "http://json-schema.org/draft-07/schema",
            Self::D2019 => "https://json-schema.org/draft/2019-09/schema",
            Self::D2020 => "https://json-schema.org/draft/2020-12/schema",
        }
    }

    /// The draft that `$schema` names.
    pub(super) fn from_url(url: &str) -> Option<Self> {
        let (address, fragment) = super::address::split(url);
        if !fragment.is_empty() {
            return None;
        }
        let address = without_scheme(address);
        if address == "json-schema.org/schema" {
            return Some(Self::D2020);
        }
        Self::ALL.into_iter().find(|draft| without_scheme(draft.url()) == address)
    }

    /// The keyword that gives a schema an address of its own.
    pub(super) const fn id_keyword(self) -> &'static str {
        match self {
            Self::D4 => "id",
            _ => "$id",
        }
    }

    /// The address that a schema gives itself, without fragment.
    pub(super) fn id(self, schema: &Map<String, Value>) -> Option<&str> {
        if self < Self::D2019 && schema.contains_key("$ref") {
            return None;
        }
        let id = schema.get(self.id_keyword())?.as_str()?;
        Some(super::address::split(id).0).filter(|id| !id.is_empty())
    }

    /// Schemas directly inside one, with their pointers below it.
    pub(super) fn inner(self, schema: &Map<String, Value>) -> Vec<(String, &Value)> {
        let mut inner = Vec::new();
        for (_, place) in PLACES.iter().filter(|(since, _)| *since <= self) {
            match place {
                Place::Value(keyword) => {
                    inner.extend(schema.get(*keyword).map(|value| (format!("/{keyword}"), value)));
                }
                Place::Items(keyword) => {
                    let items = schema.get(*keyword).and_then(Value::as_array).into_iter().flatten();
                    inner.extend(items.enumerate().map(|(at, item)| (format!("/{keyword}/{at}"), item)));
                }
                Place::Members(keyword) => {
                    let members = schema.get(*keyword).and_then(Value::as_object).into_iter().flatten();
                    let path = |name: &str| format!("/{keyword}/{}", super::address::escape(name));
                    inner.extend(members.map(|(name, value)| (path(name), value)));
                }
            }
        }
        inner
    }
}

fn without_scheme(url: &str) -> &str {
    url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")).unwrap_or(url)
}
