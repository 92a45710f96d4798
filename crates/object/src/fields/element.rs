//! One step of a path: a member, an item by its keys, an item by its value, an item by its position.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value};
use smol_str::SmolStr;

/// Greatest whole number up to which every float is exact.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// One step of a path. Its `Display` is the form of `FieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A member of a map.
    Field(SmolStr),
    /// The item of a list that has these members, sorted by name.
    Key(Vec<(SmolStr, ItemValue)>),
    /// The item of a set that is this value.
    Value(ItemValue),
    /// The item at a position.
    Index(i64),
}

/// A text of `FieldsV1` that is no path element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl PathElement {
    /// Reads the form of `FieldsV1`; `None` for kinds that are not known.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, Malformed> {
        let (kind, rest) = text.split_once(':').ok_or(Malformed)?;
        let json = || serde_json::from_str::<Value>(rest).map_err(|_error| Malformed);
        Ok(Some(match kind {
            "f" => Self::Field(SmolStr::new(rest)),
            "k" => match json()? {
                Value::Object(keys) => Self::Key(
                    keys.into_iter()
                        .map(|(name, value)| (SmolStr::new(name), ItemValue::new(value)))
                        .collect(),
                ),
                _ => return Err(Malformed),
            },
            "v" => Self::Value(ItemValue::new(json()?)),
            "i" => Self::Index(rest.parse().map_err(|_error| Malformed)?),
            _ if kind.len() == 1 => return Ok(None),
            _ => return Err(Malformed),
        }))
    }

    /// The form for people.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Field(name) => format!(".{name}"),
            Self::Key(keys) => {
                let keys: Vec<String> =
                    keys.iter().map(|(name, value)| format!("{name}={}", value.0)).collect();
                format!("[{}]", keys.join(","))
            }
            Self::Value(value) => format!("[={}]", value.0),
            Self::Index(index) => format!("[{index}]"),
        }
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, "f:{name}"),
            Self::Key(keys) => {
                let keys: Map<String, Value> =
                    keys.iter().map(|(name, value)| (name.to_string(), value.0.clone())).collect();
                write!(f, "k:{}", escaped(&Value::Object(keys)))
            }
            Self::Value(value) => write!(f, "v:{}", escaped(&value.0)),
            Self::Index(index) => write!(f, "i:{index}"),
        }
    }
}

/// JSON as Go's encoder writes it: some characters are escaped for the sake of HTML.
fn escaped(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// A value that identifies an item. Numbers are compared by value.
#[derive(Clone, Debug)]
pub struct ItemValue(Value);

impl ItemValue {
    /// Makes whole floats integers, so that equal numbers have one form.
    pub fn new(value: Value) -> Self {
        match value.as_f64() {
            Some(float) if value.is_f64() && float.fract() == 0.0 && float.abs() < EXACT_MAX => {
                #[expect(clippy::cast_possible_truncation, reason = "whole, and smaller than 2^53")]
                let whole = float as i64;
                Self(Value::from(whole))
            }
            _ => Self(value),
        }
    }
}

impl PartialEq for ItemValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ItemValue {}

impl PartialOrd for ItemValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ItemValue {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

/// Orders values: numbers, texts, truth values, lists, maps, null.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let items = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
            items.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let members = a
                .iter()
                .zip(b)
                .map(|((name_a, a), (name_b, b))| name_a.cmp(name_b).then_with(|| compare(a, b)))
                .find(|order| order.is_ne());
            members.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(a: &serde_json::Number, b: &serde_json::Number) -> Ordering {
    if let (Some(a), Some(b)) = (a.as_i128(), b.as_i128()) {
        return a.cmp(&b);
    }
    let float = |number: &serde_json::Number| number.as_f64().unwrap_or(0.0);
    float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal)
}
