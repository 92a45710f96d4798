//! Functions: what templates may call, with the types of their parameters.
//!
//! A [`Function`] is a row of a table: a name, the types that Go's `reflect` would check, and what it does. Sets of
//! them are put together by name ([`FunctionSet`]), a later one in the place of an earlier one, as `Funcs` does.
//! The checks and their texts are the executor's; a function finds arguments that are of the types it asked for.

mod builtin;
mod call;
mod compare;
mod escape;
mod index;
mod price;
mod set;

pub use call::Call;
pub use escape::query as query_escape;
pub use price::Price;
pub use set::FunctionSet;

use super::Parsed;
use super::error::Failure;
use super::value::{Integer, Kind, ListType, Map, MapType, NamedType, Text, Unsigned, Value};

/// The type of a parameter.
#[derive(Debug, Clone, Copy)]
pub enum Type {
    /// `interface {}`.
    Any,
    /// `reflect.Value`: like `interface {}`, but a constant stays what it is and nothing is taken out of a box.
    Reflect,
    /// `string`.
    Text,
    /// `bool`.
    Bool,
    /// An integer with a sign.
    Int(Integer),
    /// An integer without one.
    Uint(Unsigned),
    /// `float64`.
    Float,
    /// A slice.
    List(&'static ListType),
    /// A map from text.
    Map(&'static MapType),
    /// A named type over a simple one; by a function, so that a type can be a parameter of its own methods.
    Named(fn() -> &'static NamedType),
    /// A struct, by its name.
    Struct(&'static str),
    /// A pointer, by its name.
    Pointer(&'static str),
}

impl Type {
    /// `int`.
    pub const INT: Self = Self::Int(Integer::Int);
    /// `int64`.
    pub const INT64: Self = Self::Int(Integer::Int64);
    /// `map[string]interface {}`.
    pub const MAP: Self = Self::Map(&MapType::ANY);
    /// `[]interface {}`.
    pub const LIST: Self = Self::List(&ListType::ANY);

    /// The name `reflect` gives.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Reflect => "reflect.Value",
            Self::Text => "string",
            Self::Bool => "bool",
            Self::Int(integer) => integer.name(),
            Self::Uint(integer) => integer.name(),
            Self::Float => "float64",
            Self::List(list_type) => list_type.name,
            Self::Map(map_type) => map_type.name,
            Self::Named(named_type) => named_type().name,
            Self::Struct(name) | Self::Pointer(name) => name,
        }
    }

    /// What nil becomes, for types that can be nil.
    pub(crate) fn nil(self) -> Option<Operand> {
        match self {
            Self::Any => Some(Operand::boxed(Value::Nil)),
            Self::Reflect | Self::Pointer(_) => Some(Operand::NOTHING),
            Self::List(list_type) => Some(Operand::plain(Value::List(super::value::List::nil(list_type)))),
            Self::Map(map_type) => Some(Operand::plain(Value::Map(Map::nil(map_type)))),
            _ => None,
        }
    }

    /// Whether Go lets a value pass for this type.
    pub(crate) fn takes(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any | Self::Reflect, _) => true,
            (Self::Text, Value::Text(_)) | (Self::Bool, Value::Bool(_)) | (Self::Float, Value::Float(_)) => {
                true
            }
            (Self::Int(integer), Value::Int(kind, _)) => integer == *kind,
            (Self::Uint(integer), Value::Uint(kind, _)) => integer == *kind,
            (Self::List(list_type), Value::List(list)) => list.list_type().is_assignable(list_type),
            (Self::List(list_type), Value::Bytes(_)) => list_type.name == "[]uint8",
            (Self::Map(map_type), Value::Map(map)) => map.map_type().is_assignable(map_type),
            (Self::Named(named_type), Value::Named(named)) => named.named_type.name == named_type().name,
            (Self::Struct(name) | Self::Pointer(name), Value::Object(object)) => object.type_name() == name,
            _ => false,
        }
    }
}

/// A value on its way through a template: with it goes whether it came out of an `interface {}`.
///
/// `reflect` tells a nil that is nothing at all from a nil in a box, and so do texts of errors.
#[derive(Debug, Clone, Default)]
pub struct Operand {
    /// The value.
    pub value: Value,
    /// Whether its static type is `interface {}`.
    pub boxed: bool,
    /// Whether it is a field that was reached through a pointer, see [`Object::print_addressed`].
    ///
    /// [`Object::print_addressed`]: super::Object::print_addressed
    pub(crate) addressed: bool,
}

impl Operand {
    /// The zero `reflect.Value`.
    pub const NOTHING: Self = Self::held(Value::Nil, false);

    /// A value whose static type is its own.
    pub const fn plain(value: Value) -> Self {
        Self::held(value, false)
    }

    /// A value in an `interface {}`.
    pub const fn boxed(value: Value) -> Self {
        Self::held(value, true)
    }

    /// A value, in an `interface {}` or not.
    pub(crate) const fn held(value: Value, boxed: bool) -> Self {
        Self { value, boxed, addressed: false }
    }

    /// Whether it is the zero `reflect.Value`, of which nothing can be asked.
    pub fn is_nothing(&self) -> bool {
        !self.boxed && self.value.is_nil()
    }

    /// The name of the static type.
    pub(crate) fn type_name(&self) -> &'static str {
        if self.boxed { "interface {}" } else { self.value.type_name() }
    }
}

/// A function or method.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Types of the parameters that have to be there.
    pub parameters: &'static [Type],
    /// Type of further ones, for functions that take any number.
    pub rest: Option<Type>,
    /// Whether the result is an `interface {}` in Go.
    pub boxed: bool,
    /// What it does.
    pub run: Run,
    /// What a call costs.
    pub price: Price,
}

/// What a function does.
#[derive(Debug)]
#[non_exhaustive]
pub enum Run {
    /// Answers a value.
    Value(fn(&mut Call<'_, '_>) -> Result<Value, Failure>),
    /// Answers a value and says where it came from.
    Operand(fn(&mut Call<'_, '_>) -> Result<Operand, Failure>),
    /// Has a template executed.
    Template(fn(&mut Call<'_, '_>) -> Result<Rendering, Failure>),
    /// `and` or `or`: the executor does them, because they do not look at all of their arguments.
    Logic(Logic),
    /// A method with results that templates cannot take; the text says so.
    Unfit(&'static str),
}

/// The two functions that do not look at all of their arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Logic {
    And,
    Or,
}

/// What a function wants to have executed, and what becomes of the text.
#[derive(Debug)]
pub struct Rendering {
    /// What is executed.
    pub template: Source,
    /// The dot.
    pub dot: Value,
    /// What is done to the text before it is the function's result.
    pub finish: fn(Vec<u8>) -> Vec<u8>,
    /// Words before the error when it fails.
    pub words: Option<String>,
    /// How often a template of this name may be inside itself, where that is counted: the name, the bound, and the
    /// text when it is exceeded.
    pub nested_max: Option<u32>,
}

/// What is executed for a function.
#[derive(Debug)]
pub enum Source {
    /// A template by its name.
    Named(Text),
    /// A text of its own, with the templates around it. What it defines is seen inside of it only.
    Parsed(Parsed),
}

impl Function {
    /// A function of fixed parameters.
    pub const fn new(
        name: &'static str,
        parameters: &'static [Type],
        run: fn(&mut Call<'_, '_>) -> Result<Value, Failure>,
    ) -> Self {
        Self { name, parameters, rest: None, boxed: false, run: Run::Value(run), price: Self::price_of(name) }
    }

    /// The same under another name.
    #[must_use]
    pub const fn renamed(self, name: &'static str) -> Self {
        // Tables are constants, where a struct with a function pointer cannot be taken apart.
        let Self { parameters, rest, boxed, run, .. } = self;
        Self { name, parameters, rest, boxed, run, price: Self::price_of(name) }
    }

    /// The same with any number of further arguments.
    #[must_use]
    pub const fn and_more(self, rest: Type) -> Self {
        let Self { name, parameters, boxed, run, price, .. } = self;
        Self { name, parameters, rest: Some(rest), boxed, run, price }
    }

    /// The same with a result that is an `interface {}`.
    #[must_use]
    pub const fn boxed(self) -> Self {
        let Self { name, parameters, rest, run, price, .. } = self;
        Self { name, parameters, rest, boxed: true, run, price }
    }

    /// The same with another price.
    #[must_use]
    pub const fn priced(self, price: Price) -> Self {
        let Self { name, parameters, rest, boxed, run, .. } = self;
        Self { name, parameters, rest, boxed, run, price }
    }

    /// The price of a name.
    pub(crate) const fn price_of(name: &str) -> Price {
        match price::of(name) {
            Some(price) => price,
            None => Price::PLAIN,
        }
    }

    /// A method whose results templates cannot take.
    pub const fn unfit(name: &'static str, text: &'static str) -> Self {
        Self { name, parameters: &[], rest: None, boxed: false, run: Run::Unfit(text), price: Price::PLAIN }
    }

    /// The type of the argument at a place.
    pub(crate) fn parameter(&self, at: usize) -> Type {
        self.parameters.get(at).copied().or(self.rest).unwrap_or(Type::Any)
    }

    /// Go's complaint about a number of arguments, where it has one.
    ///
    /// With a value from the pipeline, Go counts it when it compares and not when it complains.
    pub(crate) fn wrong_count(&self, name: &str, given: usize, piped: bool) -> Option<String> {
        let wanted = self.parameters.len();
        let all = given + usize::from(piped);
        match self.rest {
            Some(_) if all < wanted => {
                Some(format!("wrong number of args for {name}: want at least {wanted} got {given}"))
            }
            None if all != wanted => {
                Some(format!("wrong number of args for {name}: want {wanted} got {all}"))
            }
            _ => None,
        }
    }
}

/// The kind of a value as functions over anything see it: what a nil is none.
pub(crate) fn kind_name(value: &Value) -> &'static str {
    match value.kind() {
        Kind::Invalid => "invalid",
        kind => kind.name(),
    }
}
