//! What expressions compute with: the values of Go that can turn up in one.

mod function;
mod key;
mod list;
mod map;
mod text;

use super::{Budget, Fault};
use crate::time::{Moment, Zone};
pub(super) use function::Called;
pub use function::{Call, CallError, Callable, Function, Object};
pub(super) use key::Key;
pub use list::{List, Of, Range};
pub use map::Map;
pub(super) use map::MapType;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
pub use text::Text;

/// Lists and maps inside each other in any value, so that nothing that walks one runs out of stack.
pub(crate) const DEPTH_MAX: usize = 400;

/// A value. Copies are cheap.
///
/// Integers and floats are different types, and so are Go's `int`, `int64` and the bytes of a text: arithmetic takes
/// them all for numbers, but functions want what they were written for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Value {
    /// Nothing; also what every unknown name stands for.
    Nil,
    /// True or false.
    Bool(bool),
    /// Go's `int`.
    Int(i64),
    /// Go's `int64`: whole numbers of Kubernetes objects, and what some methods of times give.
    Int64(i64),
    /// One byte of a text.
    Byte(u8),
    /// Go's `float64`.
    Float(f64),
    /// A string.
    Text(Text),
    /// Go's `[]byte`.
    Bytes(Text),
    /// Integers that follow each other.
    Range(Range),
    /// A list.
    List(List),
    /// A map.
    Map(Map),
    /// A time.
    Time(Arc<Moment>),
    /// Go's `time.Duration`, nanoseconds.
    Duration(i64),
    /// Go's `time.Month`, from 1.
    Month(i8),
    /// Go's `time.Weekday`, Sunday is 0.
    Weekday(i8),
    /// Go's `time.Location`.
    Zone {
        /// The zone.
        zone: Arc<Zone>,
        /// Whether it is a pointer, which alone has methods and is accepted by functions.
        pointer: bool,
    },
    /// Something to call: a method of a value, or what the caller of the expression registered.
    Function(Callable),
    /// Something with members of its own.
    Object(Arc<dyn Object>),
}

impl Value {
    /// A function of the caller's.
    pub fn function(function: impl Function + 'static) -> Self {
        Self::Function(Callable(Called::Custom(Arc::new(function))))
    }

    /// An object of the caller's.
    pub fn object(object: impl Object + 'static) -> Self {
        Self::Object(Arc::new(object))
    }

    /// A map from names to values: a namespace of functions, for one.
    ///
    /// # Errors
    /// When it would be nested too deeply.
    pub fn namespace<N: Into<Text>>(members: impl IntoIterator<Item = (N, Self)>) -> Result<Self, Fault> {
        let members = members.into_iter().map(|(name, value)| (name.into(), value)).collect();
        Ok(Self::Map(Map::new(members)?))
    }

    /// A JSON value as Kubernetes reads it: whole numbers are `int64`, others floats.
    ///
    /// # Errors
    /// When it is nested more than [`DEPTH_MAX`] levels deep.
    pub fn from_object(json: &Json) -> Result<Self, Fault> {
        of_json(json, &|number| number.as_i64().map_or_else(|| float_of(number), Self::Int64), 0)
    }

    /// A JSON value as `encoding/json` reads it: every number is a float.
    ///
    /// # Errors
    /// When it is nested more than [`DEPTH_MAX`] levels deep.
    pub fn from_json(json: &Json) -> Result<Self, Fault> {
        of_json(json, &float_of, 0)
    }

    /// The value as JSON: a time in RFC 3339, a duration as Go prints it, keys of maps printed.
    ///
    /// # Errors
    /// Infinite numbers, zones, functions and objects have no JSON; a value may also come to too much of it.
    pub fn to_json(&self, budget: &mut Budget) -> Result<Json, Fault> {
        budget.value()?;
        Ok(match self {
            Self::Nil => Json::Null,
            Self::Bool(truth) => Json::Bool(*truth),
            Self::Int(number) | Self::Int64(number) => Json::from(*number),
            Self::Byte(byte) => Json::from(*byte),
            Self::Month(number) | Self::Weekday(number) => Json::from(*number),
            Self::Float(number) => serde_json::Number::from_f64(*number)
                .map(Json::Number)
                .ok_or_else(|| Fault::Value("json: unsupported value: not a finite number".to_owned()))?,
            Self::Text(text) => {
                budget.text(text.len())?;
                Json::String(text.to_str().into_owned())
            }
            Self::Bytes(_) | Self::Range(_) | Self::List(_) => {
                let mut items = Vec::new();
                for index in 0..self.len().unwrap_or(0) {
                    let item = self.item(index).unwrap_or(Self::Nil);
                    items.push(item.to_json(budget)?);
                }
                Json::Array(items)
            }
            Self::Map(map) => {
                let mut members = serde_json::Map::new();
                for (key, value) in map.members() {
                    let key = super::print::print(&key, budget)?;
                    members.insert(key.to_string(), value.to_json(budget)?);
                }
                Json::Object(members)
            }
            Self::Time(time) => Json::String(time.format(crate::time::RFC_3339_NANO)),
            Self::Duration(_) => Json::String(super::print::print(self, budget)?.to_string()),
            Self::Zone { .. } | Self::Function(_) | Self::Object(_) => {
                return Err(Fault::Value(format!("json: unsupported type: {}", self.go_type())));
            }
        })
    }

    /// Which of the JSON-like types it is (EVAL-769).
    pub fn type_word(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Int64(_) | Self::Byte(_) | Self::Month(_) | Self::Weekday(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "string",
            Self::Bytes(_) | Self::Range(_) | Self::List(_) => "array",
            Self::Map(_) => "map",
            Self::Time(_) => "time",
            Self::Duration(_) => "duration",
            Self::Zone { .. } | Self::Function(_) | Self::Object(_) => "object",
        }
    }

    /// Go's name of the type, as `%T` prints it.
    pub(super) fn go_type(&self) -> &str {
        match self {
            Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Byte(_) => "uint8",
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
            Self::Bytes(_) => "[]uint8",
            Self::Range(_) => "[]int",
            Self::List(list) => match list.item_type() {
                Of::Any => "[]interface {}",
                Of::Text => "[]string",
                Of::Pair => "[2]interface {}",
                Of::Pairs => "[][2]interface {}",
            },
            Self::Map(map) => match map.map_type() {
                MapType::Texts => "map[string]interface {}",
                MapType::Any => "map[interface {}]interface {}",
                MapType::Groups => "map[interface {}][]interface {}",
            },
            Self::Time(_) => "time.Time",
            Self::Duration(_) => "time.Duration",
            Self::Month(_) => "time.Month",
            Self::Weekday(_) => "time.Weekday",
            Self::Zone { pointer: true, .. } => "*time.Location",
            Self::Zone { .. } => "time.Location",
            Self::Function(_) => "func",
            Self::Object(object) => object.type_name(),
        }
    }

    /// Whether Go takes it for nil.
    pub(super) fn is_nil(&self) -> bool {
        match self {
            Self::Nil => true,
            Self::List(list) => list.is_nil(),
            _ => false,
        }
    }

    /// Number of items of what has items: lists, and texts, whose items are their bytes.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::Text(bytes) | Self::Bytes(bytes) => Some(bytes.len()),
            Self::Range(range) => Some(range.len),
            Self::List(list) => Some(list.items().len()),
            _ => None,
        }
    }

    /// One of the items.
    pub(super) fn item(&self, index: usize) -> Option<Self> {
        match self {
            Self::Text(bytes) | Self::Bytes(bytes) => bytes.as_bytes().get(index).copied().map(Self::Byte),
            Self::Range(range) => range.get(index).map(Self::Int),
            Self::List(list) => list.items().get(index).cloned(),
            _ => None,
        }
    }

    /// Number of items of a list; nothing of a text.
    pub(super) fn list_len(&self) -> Option<usize> {
        if matches!(self, Self::Text(_)) { None } else { self.len() }
    }

    /// All items of a list; nothing of a text.
    pub(super) fn list_items(&self) -> Option<impl Iterator<Item = Self>> {
        let len = self.list_len()?;
        Some((0..len).filter_map(|index| self.item(index)))
    }

    /// Lists and maps inside each other; 0 for a scalar.
    fn depth(&self) -> usize {
        match self {
            Self::Bytes(_) | Self::Range(_) => 1,
            Self::List(list) => list.depth(),
            Self::Map(map) => map.depth(),
            _ => 0,
        }
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<Moment> for Value {
    fn from(time: Moment) -> Self {
        Self::Time(Arc::new(time))
    }
}

impl From<Zone> for Value {
    fn from(zone: Zone) -> Self {
        Self::Zone { zone: Arc::new(zone), pointer: true }
    }
}

fn float_of(number: &serde_json::Number) -> Value {
    Value::Float(number.as_f64().unwrap_or(f64::NAN))
}

fn of_json(json: &Json, number: &dyn Fn(&serde_json::Number) -> Value, depth: usize) -> Result<Value, Fault> {
    if depth > DEPTH_MAX {
        return Err(Fault::Depth);
    }
    Ok(match json {
        Json::Null => Value::Nil,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(json) => number(json),
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => {
            let items: Result<_, Fault> = items.iter().map(|item| of_json(item, number, depth + 1)).collect();
            Value::List(List::new(items?)?)
        }
        Json::Object(members) => {
            let mut map = BTreeMap::new();
            for (key, member) in members {
                map.insert(Text::from(key.as_str()), of_json(member, number, depth + 1)?);
            }
            Value::Map(Map::new(map)?)
        }
    })
}
