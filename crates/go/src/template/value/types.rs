//! What Go calls a value's type and kind, as far as templates can see it.

use super::super::functions::Function;
use super::Value;
use super::list::List;
use super::map::Map;
use super::text::Text;

/// Kinds of `reflect`, with the names that `kindOf` gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Invalid,
    Bool,
    Int(Integer),
    Uint(Unsigned),
    Float64,
    Complex128,
    String,
    Slice,
    Map,
    Struct,
    Pointer,
    Func,
}

impl Kind {
    /// The name `reflect.Kind.String` gives.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Bool => "bool",
            Self::Int(integer) => integer.name(),
            Self::Uint(integer) => integer.name(),
            Self::Float64 => "float64",
            Self::Complex128 => "complex128",
            Self::String => "string",
            Self::Slice => "slice",
            Self::Map => "map",
            Self::Struct => "struct",
            Self::Pointer => "ptr",
            Self::Func => "func",
        }
    }
}

/// Go's integers with a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Integer {
    Int,
    Int8,
    Int16,
    Int32,
    Int64,
}

impl Integer {
    /// The type's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
        }
    }
}

/// Go's integers without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Unsigned {
    Uint,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
}

impl Unsigned {
    /// The type's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uint => "uint",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
        }
    }
}

/// The type of the items of a list, or of the members of a map.
#[derive(Debug, Clone, Copy)]
pub enum Element {
    /// `interface {}`: anything, and nil.
    Any,
    /// `string`.
    Text,
    /// An integer with a sign.
    Int(Integer),
    /// `[]uint8`.
    Bytes,
    /// Another list.
    List(&'static ListType),
    /// Another map.
    Map(&'static MapType),
    /// A type of objects or a named one, by its name; there is no zero of it but nil.
    Other(&'static str),
}

impl Element {
    /// Whether values come out of an `interface {}`, which shows in texts of errors.
    pub fn is_interface(self) -> bool {
        matches!(self, Self::Any)
    }

    /// The name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Text => "string",
            Self::Int(integer) => integer.name(),
            Self::Bytes => "[]uint8",
            Self::List(list_type) => list_type.name,
            Self::Map(map_type) => map_type.name,
            Self::Other(name) => name,
        }
    }

    /// The zero value of the type.
    pub fn zero(self) -> Value {
        match self {
            Self::Any | Self::Other(_) => Value::Nil,
            Self::Text => Value::Text(Text::EMPTY),
            Self::Int(integer) => Value::Int(integer, 0),
            Self::Bytes => Value::Bytes(None),
            Self::List(list_type) => Value::List(List::nil(list_type)),
            Self::Map(map_type) => Value::Map(Map::nil(map_type)),
        }
    }
}

/// A type of lists.
#[derive(Debug)]
pub struct ListType {
    /// As `%T` prints it: `[]string`, or `common.VersionSet` for a named one.
    pub name: &'static str,
    /// Whether the name is one of its own, under which methods and assignments count.
    pub named: bool,
    /// The type of the items.
    pub item: Element,
    /// What can be called on it.
    pub methods: &'static [Function],
}

impl ListType {
    /// `[]interface {}`.
    pub const ANY: Self = Self::plain("[]interface {}", Element::Any);
    /// `[]string`.
    pub const TEXTS: Self = Self::plain("[]string", Element::Text);
    /// `[]int`.
    pub const INTS: Self = Self::plain("[]int", Element::Int(Integer::Int));
    /// `[][]interface {}`.
    pub const LISTS: Self = Self::plain("[][]interface {}", Element::List(&Self::ANY));

    /// A type without a name of its own.
    pub const fn plain(name: &'static str, item: Element) -> Self {
        Self { name, named: false, item, methods: &[] }
    }

    /// Whether Go lets a value of this type pass for one of the other.
    pub fn is_assignable(&self, to: &Self) -> bool {
        self.name == to.name || (self.item.name() == to.item.name() && !(self.named && to.named))
    }

    /// Bytes an item takes in Go, which decides how arrays grow.
    pub(super) fn item_bytes(&self) -> usize {
        match self.item {
            Element::Any | Element::Text => 16,
            Element::Int(_) | Element::Map(_) | Element::Other(_) => 8,
            Element::Bytes | Element::List(_) => 24,
        }
    }
}

/// A type of maps with texts as keys.
#[derive(Debug)]
pub struct MapType {
    /// As `%T` prints it: `map[string]interface {}`, or `common.Values` for a named one.
    pub name: &'static str,
    /// Whether the name is one of its own, under which methods and assignments count.
    pub named: bool,
    /// The type of the members.
    pub member: Element,
    /// What can be called on it.
    pub methods: &'static [Function],
}

impl MapType {
    /// `map[string]interface {}`.
    pub const ANY: Self = Self::plain("map[string]interface {}", Element::Any);
    /// `map[string]string`.
    pub const TEXTS: Self = Self::plain("map[string]string", Element::Text);

    /// A type without a name of its own.
    pub const fn plain(name: &'static str, member: Element) -> Self {
        Self { name, named: false, member, methods: &[] }
    }

    /// Whether Go lets a value of this type pass for one of the other.
    pub fn is_assignable(&self, to: &Self) -> bool {
        self.name == to.name || (self.member.name() == to.member.name() && !(self.named && to.named))
    }
}

/// A named type over a simple one, such as `time.Duration` over `int64`.
#[derive(Debug)]
pub struct NamedType {
    /// As `%T` prints it.
    pub name: &'static str,
    /// The kind of the type under it.
    pub kind: Kind,
    /// What can be called on it.
    pub methods: &'static [Function],
    /// What `String` answers, for types that have it.
    pub print: Option<fn(&Value) -> Text>,
}
