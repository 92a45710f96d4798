//! The schema of schemas: which keyword takes what, for each draft.
//!
//! Written as a table and turned into a schema that is compiled like any other. Since draft 2019-09 keywords belong
//! to vocabularies, each with a schema of its own, which shows in the levels of errors.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::draft::Draft;
use super::{Documents, Schema, compile};

/// What a keyword takes.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Anything,
    Truth,
    Text,
    Format(&'static str),
    Pattern(&'static str),
    Address,
    Number,
    PositiveNumber,
    Count,
    List,
    Choice,
    Names,
    Types,
    Schema,
    SchemaOrTruth,
    Schemas,
    SchemaOrSchemas,
    SchemaMap,
    PatternMap,
    Dependencies,
    NamesMap,
    TruthMap,
}

use Draft::{D4, D6, D7, D2019, D2020};
use Shape::{
    Address, Anything, Choice, Count, Dependencies, Format, List, Names, NamesMap, Number, Pattern,
    PatternMap, PositiveNumber, SchemaMap, SchemaOrSchemas, SchemaOrTruth, Schemas, Text, Truth, TruthMap,
    Types,
};

/// Keywords, with the first and the last draft in which they take this.
const KEYWORDS: &[(&str, Draft, Draft, Shape)] = &[
    ("id", D4, D4, Text),
    ("$id", D6, D7, Format("uri-reference")),
    ("$id", D2019, D2020, Address),
    ("$schema", D4, D2020, Format("uri")),
    ("$ref", D4, D4, Text),
    ("$ref", D6, D2020, Format("uri-reference")),
    ("$anchor", D2019, D2019, Pattern("^[A-Za-z][-A-Za-z0-9.:_]*$")),
    ("$anchor", D2020, D2020, Pattern("^[A-Za-z_][-A-Za-z0-9._]*$")),
    ("$dynamicAnchor", D2020, D2020, Pattern("^[A-Za-z_][-A-Za-z0-9._]*$")),
    ("$dynamicRef", D2020, D2020, Format("uri-reference")),
    ("$recursiveAnchor", D2019, D2019, Truth),
    ("$recursiveAnchor", D2020, D2020, Pattern("^[A-Za-z_][-A-Za-z0-9._]*$")),
    ("$recursiveRef", D2019, D2020, Format("uri-reference")),
    ("$vocabulary", D2019, D2020, TruthMap),
    ("$comment", D7, D2020, Text),
    ("$defs", D2019, D2020, SchemaMap),
    ("definitions", D4, D2020, SchemaMap),
    ("title", D4, D2020, Text),
    ("description", D4, D2020, Text),
    ("default", D4, D2020, Anything),
    ("readOnly", D7, D2020, Truth),
    ("writeOnly", D7, D2020, Truth),
    ("deprecated", D2019, D2020, Truth),
    ("examples", D7, D2020, List),
    ("multipleOf", D4, D2020, PositiveNumber),
    ("maximum", D4, D2020, Number),
    ("exclusiveMaximum", D4, D4, Truth),
    ("exclusiveMaximum", D6, D2020, Number),
    ("minimum", D4, D2020, Number),
    ("exclusiveMinimum", D4, D4, Truth),
    ("exclusiveMinimum", D6, D2020, Number),
    ("maxLength", D4, D2020, Count),
    ("minLength", D4, D2020, Count),
    ("pattern", D4, D2020, Format("regex")),
    ("additionalItems", D4, D4, SchemaOrTruth),
    ("additionalItems", D6, D2019, Shape::Schema),
    ("items", D4, D2019, SchemaOrSchemas),
    ("items", D2020, D2020, Shape::Schema),
    ("prefixItems", D2020, D2020, Schemas),
    ("maxItems", D4, D2020, Count),
    ("minItems", D4, D2020, Count),
    ("uniqueItems", D4, D2020, Truth),
    ("contains", D6, D2020, Shape::Schema),
    ("maxContains", D2019, D2020, Count),
    ("minContains", D2019, D2020, Count),
    ("maxProperties", D4, D2020, Count),
    ("minProperties", D4, D2020, Count),
    ("required", D4, D2020, Names),
    ("additionalProperties", D4, D4, SchemaOrTruth),
    ("additionalProperties", D6, D2020, Shape::Schema),
    ("properties", D4, D2020, SchemaMap),
    ("patternProperties", D4, D6, SchemaMap),
    ("patternProperties", D7, D2020, PatternMap),
    ("dependencies", D4, D2020, Dependencies),
    ("dependentRequired", D2019, D2020, NamesMap),
    ("dependentSchemas", D2019, D2020, SchemaMap),
    ("propertyNames", D6, D2020, Shape::Schema),
    ("unevaluatedItems", D2019, D2020, Shape::Schema),
    ("unevaluatedProperties", D2019, D2020, Shape::Schema),
    ("const", D6, D2020, Anything),
    ("enum", D4, D7, Choice),
    ("enum", D2019, D2020, List),
    ("type", D4, D2020, Types),
    ("format", D4, D2020, Text),
    ("contentMediaType", D7, D2020, Text),
    ("contentEncoding", D7, D2020, Text),
    ("contentSchema", D2019, D2020, Shape::Schema),
    ("if", D7, D2020, Shape::Schema),
    ("then", D7, D2020, Shape::Schema),
    ("else", D7, D2020, Shape::Schema),
    ("allOf", D4, D2020, Schemas),
    ("anyOf", D4, D2020, Schemas),
    ("oneOf", D4, D2020, Schemas),
    ("not", D4, D2020, Shape::Schema),
];

impl Shape {
    fn schema(self, draft: Draft) -> Value {
        let schema = json!({"$ref": "#"});
        let schemas = json!({"type": "array", "minItems": 1, "items": schema});
        let count = json!({"type": "integer", "minimum": 0});
        let mut names = json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true});
        if let (D4, Some(names)) = (draft, names.as_object_mut()) {
            names.insert("minItems".to_owned(), json!(1));
        }
        let kinds = json!({"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]});
        match self {
            Self::Anything => json!({}),
            Self::Truth => json!({"type": "boolean"}),
            Self::Text => json!({"type": "string"}),
            Self::Format(format) => json!({"type": "string", "format": format}),
            Self::Pattern(pattern) => json!({"type": "string", "pattern": pattern}),
            Self::Address => json!({"type": "string", "format": "uri-reference", "pattern": "^[^#]*#?$"}),
            Self::Number => json!({"type": "number"}),
            Self::PositiveNumber if draft == D4 => {
                json!({"type": "number", "minimum": 0, "exclusiveMinimum": true})
            }
            Self::PositiveNumber => json!({"type": "number", "exclusiveMinimum": 0}),
            Self::Count => count,
            Self::List => json!({"type": "array"}),
            Self::Choice => json!({"type": "array", "minItems": 1, "uniqueItems": true}),
            Self::Names => names,
            Self::Types => json!({"anyOf": [
                kinds,
                {"type": "array", "items": kinds, "minItems": 1, "uniqueItems": true},
            ]}),
            Self::Schema => schema,
            Self::SchemaOrTruth => json!({"anyOf": [{"type": "boolean"}, schema]}),
            Self::Schemas => schemas,
            Self::SchemaOrSchemas => json!({"anyOf": [schema, schemas]}),
            Self::SchemaMap => json!({"type": "object", "additionalProperties": schema}),
            Self::PatternMap => json!({
                "type": "object", "additionalProperties": schema, "propertyNames": {"format": "regex"},
            }),
            Self::Dependencies => json!({
                "type": "object", "additionalProperties": {"anyOf": [schema, names]},
            }),
            Self::NamesMap => json!({"type": "object", "additionalProperties": names}),
            Self::TruthMap => json!({
                "type": "object",
                "propertyNames": {"type": "string", "format": "uri"},
                "additionalProperties": {"type": "boolean"},
            }),
        }
    }
}

/// Vocabularies by some of their keywords; the last one has all others.
const VOCABULARIES: [&[&str]; 6] = [
    &[
        "$id",
        "$schema",
        "$ref",
        "$anchor",
        "$dynamicRef",
        "$dynamicAnchor",
        "$vocabulary",
        "$comment",
        "$defs",
    ],
    &[
        "prefixItems",
        "items",
        "additionalItems",
        "contains",
        "additionalProperties",
        "properties",
        "patternProperties",
        "dependentSchemas",
        "propertyNames",
        "if",
        "then",
        "else",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
    ],
    &["unevaluatedItems", "unevaluatedProperties"],
    &["title", "description", "default", "deprecated", "readOnly", "writeOnly", "examples"],
    &["format"],
    &["contentEncoding", "contentMediaType", "contentSchema"],
];

/// Keywords that only stayed for those who still use them.
const FORMER: [&str; 2] = ["definitions", "dependencies"];

/// The vocabulary of a keyword; `None` when it belongs to none.
fn vocabulary(draft: Draft, keyword: &str) -> Option<usize> {
    let is_recursive = keyword.starts_with("$recursive");
    if draft < D2019 || FORMER.contains(&keyword) || (is_recursive && draft == D2020) {
        return None;
    }
    if is_recursive {
        return Some(0);
    }
    if draft == D2019 && keyword.starts_with("unevaluated") {
        return Some(1);
    }
    Some(VOCABULARIES.iter().position(|keywords| keywords.contains(&keyword)).unwrap_or(VOCABULARIES.len()))
}

/// The schema of the schemas of a draft.
pub(super) fn document(draft: Draft) -> Value {
    let mut properties = Map::new();
    let mut vocabularies = vec![Map::new(); VOCABULARIES.len() + 1];
    for (keyword, since, until, shape) in KEYWORDS {
        if (*since..=*until).contains(&draft) {
            let place = vocabulary(draft, keyword).and_then(|at| vocabularies.get_mut(at));
            place.unwrap_or(&mut properties).insert((*keyword).to_owned(), shape.schema(draft));
        }
    }
    let kind = if draft == D4 { json!("object") } else { json!(["object", "boolean"]) };
    let mut document = json!({
        "$schema": draft.url(),
        draft.id_keyword(): draft.url(),
        "type": kind,
        "properties": properties,
    });
    let Some(members) = document.as_object_mut() else { return document };
    if draft == D4 {
        let needs = json!({"exclusiveMaximum": ["maximum"], "exclusiveMinimum": ["minimum"]});
        members.insert("dependencies".to_owned(), needs);
    }
    if draft >= D2019 {
        let parts = vocabularies.into_iter().filter(|properties| !properties.is_empty());
        let parts = parts.map(|properties| json!({"type": kind, "properties": properties})).collect();
        members.insert("allOf".to_owned(), Value::Array(parts));
    }
    document
}

/// The schema of the schemas of a draft, compiled; formats are asserted in all of them.
pub(super) fn compiled(draft: Draft) -> Option<&'static Schema> {
    static ALL: LazyLock<Vec<(Draft, Option<Schema>)>> = LazyLock::new(|| {
        let compile = |draft: Draft| compile::compile(draft.url(), document(draft), &Documents::new()).ok();
        Draft::ALL.into_iter().map(|draft| (draft, compile(draft))).collect()
    });
    ALL.iter().find(|(known, _)| *known == draft)?.1.as_ref()
}
