//! Go's values, as far as templates tell them apart.
//!
//! A [`Value`] is what an `interface {}` holds. Maps and lists are references, as in Go: a copy is the same map.
//! Numbers keep their kinds, because `eq 3 3.0` is an error and `kindOf` tells; texts are bytes. What has fields
//! and methods is an [`Object`]; named types over simple ones, such as `time.Duration`, are [`Value::Named`].
//!
//! Values are for one thread. They may be nested and tied to themselves as templates please: dropping them needs
//! no stack, and everything that walks them counts how deep it is.

mod convert;
mod equal;
mod list;
mod map;
mod object;
mod text;
mod types;

pub use convert::Integers;
pub(crate) use convert::JsonProblem;
pub use list::List;
pub(crate) use map::Emptied;
pub use map::Map;
pub use object::{Object, Record, RecordType};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
pub use text::Text;
pub(crate) use text::to_str;
pub use types::{Element, Integer, Kind, ListType, MapType, NamedType, Unsigned};

/// Lists and maps inside each other that anything walks; what is deeper is an error for whoever walks it. Walking takes
/// up to 4 KiB of the stack per level in builds that are not optimised, and threads have 2 MiB.
pub(crate) const DEPTH_MAX: usize = 400;

/// What an `interface {}` of Go holds.
#[derive(Clone, Default)]
pub enum Value {
    /// Nothing.
    #[default]
    Nil,
    /// `bool`.
    Bool(bool),
    /// An integer with a sign.
    Int(Integer, i64),
    /// An integer without one.
    Uint(Unsigned, u64),
    /// `float64`.
    Float(f64),
    /// `complex128`: the real and the imaginary part.
    Complex(Arc<(f64, f64)>),
    /// `string`.
    Text(Text),
    /// `[]uint8`; none is the nil slice.
    Bytes(Option<Arc<[u8]>>),
    /// Any other slice.
    List(List),
    /// A map from text.
    Map(Map),
    /// A value of a named type.
    Named(Rc<Named>),
    /// A struct, or a pointer to one.
    Object(Rc<dyn Object>),
}

/// A simple value under a type with a name, such as a `time.Duration`.
#[derive(Debug)]
pub struct Named {
    /// The type.
    pub named_type: &'static NamedType,
    /// The value without it.
    pub value: Value,
}

/// A number without its kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// One with a sign.
    Int(i64),
    /// One without.
    Uint(u64),
    /// One with a fraction.
    Float(f64),
}

impl Value {
    /// An `int`.
    pub const fn int(value: i64) -> Self {
        Self::Int(Integer::Int, value)
    }

    /// An `int64`.
    pub const fn int64(value: i64) -> Self {
        Self::Int(Integer::Int64, value)
    }

    /// A `string`.
    pub fn text(text: impl Into<Text>) -> Self {
        Self::Text(text.into())
    }

    /// A `[]interface {}`.
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(List::new(items))
    }

    /// A `[]string`.
    pub fn texts(items: impl IntoIterator<Item = Text>) -> Self {
        Self::List(List::typed(&ListType::TEXTS, items.into_iter().map(Self::Text).collect()))
    }

    /// A value with a named type.
    pub fn named(named_type: &'static NamedType, value: Self) -> Self {
        Self::Named(Rc::new(Named { named_type, value }))
    }

    /// An object.
    pub fn object(object: impl Object) -> Self {
        Self::Object(Rc::new(object))
    }

    /// The kind `reflect` gives.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Nil => Kind::Invalid,
            Self::Bool(_) => Kind::Bool,
            Self::Int(integer, _) => Kind::Int(*integer),
            Self::Uint(integer, _) => Kind::Uint(*integer),
            Self::Float(_) => Kind::Float64,
            Self::Complex(_) => Kind::Complex128,
            Self::Text(_) => Kind::String,
            Self::Bytes(_) | Self::List(_) => Kind::Slice,
            Self::Map(_) => Kind::Map,
            Self::Named(named) => named.value.kind(),
            Self::Object(object) => object.kind(),
        }
    }

    /// The type as `%T` prints it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(integer, _) => integer.name(),
            Self::Uint(integer, _) => integer.name(),
            Self::Float(_) => "float64",
            Self::Complex(_) => "complex128",
            Self::Text(_) => "string",
            Self::Bytes(_) => "[]uint8",
            Self::List(list) => list.list_type().name,
            Self::Map(map) => map.map_type().name,
            Self::Named(named) => named.named_type.name,
            Self::Object(object) => object.type_name(),
        }
    }

    /// The value without the name of its type.
    pub fn underlying(&self) -> &Self {
        match self {
            Self::Named(named) => &named.value,
            other => other,
        }
    }

    /// Whether nothing is there.
    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    /// Whether `if` takes it for true: not zero, not empty, not nothing.
    pub fn is_true(&self) -> bool {
        match self.underlying() {
            Self::Nil => false,
            Self::Bool(truth) => *truth,
            Self::Int(_, number) => *number != 0,
            Self::Uint(_, number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Complex(parts) => **parts != (0.0, 0.0),
            Self::Text(text) => !text.is_empty(),
            Self::Bytes(bytes) => bytes.as_ref().is_some_and(|bytes| !bytes.is_empty()),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Named(_) | Self::Object(_) => true,
        }
    }

    /// The text, if its type is exactly `string`.
    pub fn as_text(&self) -> Option<&Text> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The map, if it is one from text.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The object, if it is one of a Rust type.
    pub fn as_object<T: Object>(&self) -> Option<&T> {
        match self {
            Self::Object(object) => object.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// What can be called on it.
    pub(crate) fn methods(&self) -> &'static [super::functions::Function] {
        match self {
            Self::Map(map) => map.map_type().methods,
            Self::List(list) => list.list_type().methods,
            Self::Named(named) => named.named_type.methods,
            Self::Object(object) => object.methods(),
            _ => &[],
        }
    }

    /// What its `Error` or `String` answers, if its type has one.
    pub(crate) fn stringer(&self) -> Option<Text> {
        match self {
            Self::Named(named) => named.named_type.print.map(|print| print(&named.value)),
            Self::Object(object) => object.print(),
            _ => None,
        }
    }

    /// The number, whatever its kind.
    pub fn number(&self) -> Option<Number> {
        match self.underlying() {
            Self::Int(_, number) => Some(Number::Int(*number)),
            Self::Uint(_, number) => Some(Number::Uint(*number)),
            Self::Float(number) => Some(Number::Float(*number)),
            _ => None,
        }
    }

    /// The items of any slice, bytes included; none for other values.
    pub fn items(&self) -> Option<List> {
        match self {
            Self::List(list) => Some(list.clone()),
            Self::Bytes(None) => Some(List::nil(&BYTES)),
            Self::Bytes(Some(bytes)) => {
                let items = bytes.iter().map(|byte| Self::Uint(Unsigned::Uint8, u64::from(*byte)));
                Some(List::typed(&BYTES, items.collect()))
            }
            _ => None,
        }
    }

    /// Whether it holds other values.
    pub(crate) fn is_container(&self) -> bool {
        matches!(self, Self::List(_) | Self::Map(_) | Self::Object(_))
    }
}

/// The type of lists that are made of bytes to be looked at one by one.
static BYTES: ListType = ListType::plain("[]uint8", Element::Other("uint8"));

/// Lets go of values that are nested in each other without a call for each level.
fn release(values: Vec<Value>) {
    let mut left: Vec<Value> = values.into_iter().filter(Value::is_container).collect();
    while let Some(mut value) = left.pop() {
        let inner = match &mut value {
            Value::List(list) => list.take_unshared(),
            Value::Map(map) => map.take_unshared(),
            _ => continue,
        };
        left.extend(inner.into_iter().filter(Value::is_container));
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        super::fmt::print_value(&mut text, self, 'v', super::fmt::Flags::GO_SYNTAX);
        out.write_str(&to_str(&text))
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

impl From<Text> for Value {
    fn from(text: Text) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl From<List> for Value {
    fn from(list: List) -> Self {
        Self::List(list)
    }
}
