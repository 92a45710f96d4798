//! A compiled schema.

use std::collections::BTreeMap;

use serde_json::Value;
use tiphys_go::regexp::Regexp;

use super::decimal::Decimal;
use super::draft::Draft;
use super::format::Check;

/// Types of JSON, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Types(pub(super) u8);

/// The types in the order in which errors list them.
const TYPES: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];

impl Types {
    pub(super) fn add(&mut self, name: &str) {
        if let Some(at) = TYPES.iter().position(|known| *known == name) {
            self.0 |= 1 << at;
        }
    }

    pub(super) fn has(self, name: &str) -> bool {
        TYPES.iter().position(|known| *known == name).is_some_and(|at| self.0 & (1 << at) != 0)
    }

    pub(super) fn names(self) -> Vec<&'static str> {
        TYPES.into_iter().filter(|name| self.has(name)).collect()
    }

    /// The type of a value; whole numbers are numbers.
    pub(super) fn of(value: &Value) -> &'static str {
        match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }
}

/// A rule that is a boolean or a schema.
#[derive(Clone, Copy, Debug)]
pub(super) enum Additional {
    Allowed(bool),
    Schema(usize),
}

/// `items` before draft 2020-12.
#[derive(Clone, Debug)]
pub(super) enum Items {
    All(usize),
    Each(Vec<usize>),
}

/// One entry of `dependencies`.
#[derive(Clone, Debug)]
pub(super) enum NeededWith {
    Members(Vec<String>),
    Schema(usize),
}

/// One schema; numbers are places of other nodes.
#[derive(Debug)]
pub(super) struct Node {
    /// Address with the pointer behind `#`.
    pub(super) location: String,
    pub(super) draft: Draft,
    /// The schema with the address that relative ones below are resolved against.
    pub(super) resource: usize,
    /// For resources: schemas that may stand in for others of their name.
    pub(super) dynamic_anchors: BTreeMap<String, usize>,
    /// A schema that is a boolean, or empty.
    pub(super) truth: Option<bool>,
    pub(super) reference: Option<usize>,
    pub(super) recursive_reference: Option<usize>,
    pub(super) recursive_anchor: bool,
    /// The target, and the name if the reference has one.
    pub(super) dynamic_reference: Option<(usize, Option<String>)>,
    pub(super) dynamic_anchor: Option<String>,
    pub(super) types: Option<Types>,
    pub(super) constant: Option<Value>,
    pub(super) variants: Option<Vec<Value>>,
    pub(super) format: Option<(String, Check)>,
    pub(super) not: Option<usize>,
    pub(super) all_of: Vec<usize>,
    pub(super) any_of: Vec<usize>,
    pub(super) one_of: Vec<usize>,
    /// `if`, `then`, `else`.
    pub(super) condition: Option<(usize, Option<usize>, Option<usize>)>,
    pub(super) object: ObjectRules,
    pub(super) array: ArrayRules,
    pub(super) text: TextRules,
    pub(super) number: NumberRules,
}

#[derive(Debug, Default)]
pub(super) struct ObjectRules {
    pub(super) members_min: Option<i64>,
    pub(super) members_max: Option<i64>,
    pub(super) required: Vec<String>,
    pub(super) names: Option<usize>,
    pub(super) members: BTreeMap<String, usize>,
    pub(super) patterns: Vec<(Regexp, usize)>,
    pub(super) additional: Option<Additional>,
    pub(super) needed_with: BTreeMap<String, NeededWith>,
    pub(super) required_with: BTreeMap<String, Vec<String>>,
    pub(super) schemas_with: BTreeMap<String, usize>,
    pub(super) unevaluated: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct ArrayRules {
    pub(super) items_min: Option<i64>,
    pub(super) items_max: Option<i64>,
    pub(super) unique: bool,
    pub(super) contains: Option<usize>,
    pub(super) contains_min: Option<i64>,
    pub(super) contains_max: Option<i64>,
    pub(super) items: Option<Items>,
    pub(super) additional: Option<Additional>,
    pub(super) prefix: Vec<usize>,
    /// `items` since draft 2020-12.
    pub(super) rest: Option<usize>,
    pub(super) unevaluated: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct TextRules {
    pub(super) length_min: Option<i64>,
    pub(super) length_max: Option<i64>,
    pub(super) pattern: Option<(String, Regexp)>,
}

#[derive(Debug, Default)]
pub(super) struct NumberRules {
    pub(super) minimum: Option<Decimal>,
    pub(super) maximum: Option<Decimal>,
    pub(super) above: Option<Decimal>,
    pub(super) below: Option<Decimal>,
    pub(super) multiple_of: Option<Decimal>,
}

impl Node {
    pub(super) fn new(location: String, draft: Draft) -> Self {
        Self {
            location,
            draft,
            resource: 0,
            dynamic_anchors: BTreeMap::new(),
            truth: None,
            reference: None,
            recursive_reference: None,
            recursive_anchor: false,
            dynamic_reference: None,
            dynamic_anchor: None,
            types: None,
            constant: None,
            variants: None,
            format: None,
            not: None,
            all_of: Vec::new(),
            any_of: Vec::new(),
            one_of: Vec::new(),
            condition: None,
            object: ObjectRules::default(),
            array: ArrayRules::default(),
            text: TextRules::default(),
            number: NumberRules::default(),
        }
    }

    /// Whether no member can be left unevaluated.
    pub(super) fn evaluates_all_members(&self) -> bool {
        self.object.additional.is_some()
    }

    /// Whether no item can be left unevaluated; otherwise how many from the front never are.
    pub(super) fn evaluates_items(&self) -> Result<(), usize> {
        if self.draft >= Draft::D2020 {
            return if self.array.rest.is_some() { Ok(()) } else { Err(self.array.prefix.len()) };
        }
        match &self.array.items {
            Some(Items::All(_)) => Ok(()),
            _ if self.array.additional.is_some() => Ok(()),
            Some(Items::Each(items)) => Err(items.len()),
            None => Err(0),
        }
    }
}
