//! Values with fields and methods that the caller brings along.

use super::super::functions::Function;
use super::text::Text;
use super::types::Kind;
use super::{Number, Value};
use std::any::Any;
use std::fmt::Debug;

/// A Go struct, or a pointer to one, as templates see it: fields, methods, a way to print.
///
/// Most are [`Record`]s; types with a Rust type of their own behind them implement this.
pub trait Object: Debug + Any {
    /// As `%T` prints it: `*semver.Version`, `time.Time`.
    fn type_name(&self) -> &'static str;

    /// [`Kind::Struct`], or [`Kind::Pointer`] for a pointer to a struct, or [`Kind::Func`].
    fn kind(&self) -> Kind {
        Kind::Struct
    }

    /// What can be called on it. Functions find it under [`Call::receiver`](super::super::functions::Call::receiver).
    fn methods(&self) -> &'static [Function] {
        &[]
    }

    /// Names of the exported fields, in order.
    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// A field by its name.
    fn field(&self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }

    /// What `Error` or `String` answers, for types that have one; others are printed by their fields.
    fn print(&self) -> Option<Text> {
        None
    }

    /// What `GoString` answers, which `%#v` asks for, for types that have it.
    fn go_string(&self) -> Option<String> {
        None
    }

    /// What `Error` or `String` of a pointer to it answers, for a struct whose own type has neither. Go finds them only
    /// where it knows the address: in an action that prints a field of something behind a pointer. In a function's
    /// argument the struct is a copy, and is printed by its fields.
    fn print_addressed(&self) -> Option<Text> {
        None
    }

    /// What takes the value's place in JSON, for types that say so themselves; others are written by their fields.
    ///
    /// # Errors
    /// With the text of Go's error.
    fn json(&self) -> Option<Result<Value, String>> {
        None
    }

    /// A number behind it, for conversions such as `int64`.
    fn number(&self) -> Option<Number> {
        None
    }

    /// Whether `==` and `deepEqual` hold. By default an object equals what has the same type and the same fields.
    fn equals(&self, other: &dyn Object) -> bool {
        self.type_name() == other.type_name()
            && self.fields().iter().all(|name| match (self.field(name), other.field(name)) {
                (Some(own), Some(others)) => own.deep_equals(&others),
                (own, others) => own.is_none() && others.is_none(),
            })
    }

    /// The object itself, for those who know its Rust type.
    fn as_any(&self) -> &dyn Any;
}

/// The type of [`Record`]s.
#[derive(Debug)]
pub struct RecordType {
    /// As `%T` prints it.
    pub name: &'static str,
    /// [`Kind::Struct`] or [`Kind::Pointer`].
    pub kind: Kind,
    /// Names of the exported fields, in order.
    pub fields: &'static [&'static str],
    /// What can be called on it.
    pub methods: &'static [Function],
    /// What `String` answers, for types that have it.
    pub print: Option<fn(&Record) -> Text>,
}

/// A struct by its fields.
#[derive(Debug)]
pub struct Record {
    record_type: &'static RecordType,
    values: Vec<Value>,
}

impl Record {
    /// A struct with these values for the fields of its type; missing ones are nil.
    pub fn new(record_type: &'static RecordType, values: Vec<Value>) -> Self {
        Self { record_type, values }
    }

    /// The type.
    pub fn record_type(&self) -> &'static RecordType {
        self.record_type
    }
}

impl Object for Record {
    fn type_name(&self) -> &'static str {
        self.record_type.name
    }

    fn kind(&self) -> Kind {
        self.record_type.kind
    }

    fn methods(&self) -> &'static [Function] {
        self.record_type.methods
    }

    fn fields(&self) -> &'static [&'static str] {
        self.record_type.fields
    }

    fn field(&self, name: &str) -> Option<Value> {
        let at = self.record_type.fields.iter().position(|field| *field == name)?;
        Some(self.values.get(at).cloned().unwrap_or_default())
    }

    fn print(&self) -> Option<Text> {
        self.record_type.print.map(|print| print(self))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
