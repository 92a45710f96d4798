//! What is known of a value before it is computed.

use super::builtins::Builtin;
use super::methods::Method;
use std::rc::Rc;

/// What is known of a value.
#[derive(Debug, Clone, Default)]
pub(super) struct Nature {
    /// Its type in Go; nothing for nil and for what is not known.
    pub(super) ty: Option<Type>,
    /// It is nil.
    pub(super) nil: bool,
    /// What is known of the items of a list, or of what a predicate gives.
    pub(super) of: Option<Rc<Self>>,
}

/// Types of Go, as far as literals and functions have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    /// `interface {}`, which says nothing.
    Any,
    Bool,
    Int,
    Int64,
    Byte,
    Float,
    Text,
    Bytes,
    /// `[]interface {}`
    List,
    Ints,
    Floats,
    Texts,
    TextMap,
    AnyMap,
    Groups,
    Time,
    Duration,
    Month,
    Weekday,
    ZonePointer,
    Function(Function),
}

/// Functions, told apart by what they belong to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Function {
    Builtin(&'static Builtin),
    Method(Method),
    /// A predicate that gives something, or nil.
    Predicate {
        gives: bool,
    },
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Builtin(left), Self::Builtin(right)) => left.name == right.name,
            (Self::Method(left), Self::Method(right)) => std::ptr::eq(*left, *right),
            (Self::Predicate { gives: left }, Self::Predicate { gives: right }) => left == right,
            _ => false,
        }
    }
}

impl Eq for Function {}

/// Go's kinds of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nil, or not known.
    Invalid,
    Interface,
    Bool,
    Int,
    Int64,
    Uint8,
    Float64,
    String,
    Slice,
    Map,
    Struct,
    Pointer,
    Function,
}

impl Kind {
    pub(super) fn is_number(self) -> bool {
        matches!(self, Self::Int | Self::Int64 | Self::Uint8 | Self::Float64)
    }
}

impl Type {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Any => Kind::Interface,
            Self::Bool => Kind::Bool,
            Self::Int | Self::Month | Self::Weekday => Kind::Int,
            Self::Int64 | Self::Duration => Kind::Int64,
            Self::Byte => Kind::Uint8,
            Self::Float => Kind::Float64,
            Self::Text => Kind::String,
            Self::Bytes | Self::List | Self::Ints | Self::Floats | Self::Texts => Kind::Slice,
            Self::TextMap | Self::AnyMap | Self::Groups => Kind::Map,
            Self::Time => Kind::Struct,
            Self::ZonePointer => Kind::Pointer,
            Self::Function(_) => Kind::Function,
        }
    }

    /// The type of the items of a list or the values of a map.
    pub(super) fn item(self) -> Option<Self> {
        match self {
            Self::Bytes => Some(Self::Byte),
            Self::List | Self::TextMap | Self::AnyMap => Some(Self::Any),
            Self::Ints => Some(Self::Int),
            Self::Floats => Some(Self::Float),
            Self::Texts => Some(Self::Text),
            Self::Groups => Some(Self::List),
            _ => None,
        }
    }

    pub(super) fn is_assignable_to(self, other: Self) -> bool {
        self == other || other == Self::Any
    }

    pub(super) fn is_integer(self) -> bool {
        matches!(self, Self::Int | Self::Int64 | Self::Byte)
    }

    /// Go's name of the type.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Int64 => "int64",
            Self::Byte => "uint8",
            Self::Float => "float64",
            Self::Text => "string",
            Self::Bytes => "[]uint8",
            Self::List => "[]interface {}",
            Self::Ints => "[]int",
            Self::Floats => "[]float64",
            Self::Texts => "[]string",
            Self::TextMap => "map[string]interface {}",
            Self::AnyMap => "map[interface {}]interface {}",
            Self::Groups => "map[interface {}][]interface {}",
            Self::Time => "time.Time",
            Self::Duration => "time.Duration",
            Self::Month => "time.Month",
            Self::Weekday => "time.Weekday",
            Self::ZonePointer => "*time.Location",
            Self::Function(_) => "func",
        }
    }
}

impl From<Type> for Nature {
    fn from(ty: Type) -> Self {
        Self { ty: Some(ty), nil: false, of: None }
    }
}

impl Nature {
    pub(super) fn nil() -> Self {
        Self { ty: None, nil: true, of: None }
    }

    /// A list of such values.
    pub(super) fn list_of(self) -> Self {
        Self { ty: Some(Type::List), nil: false, of: Some(Rc::new(self)) }
    }

    pub(super) fn is_unknown(&self) -> bool {
        match self.ty {
            None => !self.nil,
            Some(ty) => ty == Type::Any,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.ty.map_or(Kind::Invalid, Type::kind)
    }

    /// The kind as the compiler sees it, to which nil and what is not known are interfaces.
    pub(super) fn compiled_kind(&self) -> Kind {
        self.ty.map_or(Kind::Interface, Type::kind)
    }

    pub(super) fn is(&self, ty: Type) -> bool {
        self.ty == Some(ty)
    }

    pub(super) fn is_integer(&self) -> bool {
        self.ty.is_some_and(Type::is_integer)
    }

    pub(super) fn is_number(&self) -> bool {
        self.is_integer() || self.is(Type::Float)
    }

    pub(super) fn is_list(&self) -> bool {
        self.kind() == Kind::Slice
    }

    /// What is known of items of a list or values of a map.
    pub(super) fn item(&self) -> Self {
        match (&self.of, self.kind()) {
            (Some(of), Kind::Slice) => (**of).clone(),
            _ => self.ty.and_then(Type::item).map_or_else(Self::default, Self::from),
        }
    }

    pub(super) fn is_assignable_to(&self, other: Option<Type>) -> bool {
        if self.nil {
            let kind = other.map_or(Kind::Invalid, Type::kind);
            if matches!(kind, Kind::Pointer | Kind::Interface | Kind::Function | Kind::Map | Kind::Slice) {
                return true;
            }
        }
        match (self.ty, other) {
            (Some(own), Some(other)) => own.is_assignable_to(other),
            _ => false,
        }
    }

    pub(super) fn is_comparable_to(&self, other: &Self) -> bool {
        self.is_unknown()
            || other.is_unknown()
            || self.nil
            || other.nil
            || self.is_number() && other.is_number()
            || self.is_list() && other.is_list()
            || self.is_assignable_to(other.ty)
    }

    /// Whether one of both is not known, and the other is one of these, or not known either.
    pub(super) fn may_suit(&self, other: &Self, is_one: impl Fn(&Self) -> bool) -> bool {
        match (self.is_unknown(), other.is_unknown()) {
            (true, true) => true,
            (true, false) => is_one(other),
            (false, true) => is_one(self),
            (false, false) => false,
        }
    }

    /// How errors call it.
    pub(super) fn shown(&self) -> &'static str {
        self.ty.map_or("unknown", Type::name)
    }
}
