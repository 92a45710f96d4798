//! Compiled templates: instructions for the executor, and where in the text they come from.
//!
//! A body is immutable and knows nothing of other templates but their names, so that a parsed file can be kept and
//! put together with others, in any thread.

use super::functions::{Function, Type};
use super::parse::Constant;
use super::value::Text;
use std::sync::Arc;

/// The file that a template stands in.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) name: Text,
    pub(crate) text: Arc<[u8]>,
}

/// One template.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) name: Text,
    pub(crate) file: Arc<File>,
    pub(crate) code: Vec<Instruction>,
    pub(crate) calls: Vec<CallSite>,
    pub(crate) literals: Vec<Literal>,
    pub(crate) messages: Vec<String>,
    pub(crate) names: Vec<Text>,
    pub(crate) ranges: Vec<RangeSite>,
    pub(crate) sites: Vec<Site>,
    pub(crate) slots: Vec<Slot>,
    /// Nothing but blanks and comments: it takes no other's place.
    pub(crate) is_empty: bool,
    /// Why it cannot be compiled after all.
    pub(crate) problem: Option<&'static str>,
}

/// A place for a value while a template is executed: a variable, or the dot of a block.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slot {
    /// A variable whose declaration may be passed over: it stands in an argument of `and` or `or`.
    pub(crate) maybe: bool,
    /// The variable of the same name that it hides then.
    pub(crate) hides: Option<u16>,
}

/// The slot of the dot that a template begins with.
pub(crate) const DOT: u16 = 0;
/// The slot of `$`.
pub(crate) const ROOT: u16 = 1;

/// A part of the text: what an error shows, and where it says it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site {
    /// Where the error is.
    pub(crate) at: u32,
    /// What is shown.
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) form: Form,
}

/// How a part of the text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As it is, with blanks as Go prints them.
    Part,
    /// A whole action, in braces.
    Action,
    /// `{{template …}}`; the part begins with the name.
    Template,
}

/// An instruction, and the part of the text that is the present one from here on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instruction {
    pub(crate) op: Op,
    /// [`SAME_SITE`] when it does not change.
    pub(crate) site: u32,
}

/// No other part of the text.
pub(crate) const SAME_SITE: u32 = u32::MAX;

/// What is done. "The top" is that of the stack of operands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    /// Only the site counts.
    At,
    /// Writes a part of the file.
    Text { start: u32, end: u32 },
    /// Pushes a literal.
    Literal(u32),
    /// Pushes what nil is as a certain parameter.
    Nil { call: u32, argument: u16 },
    /// Pushes a variable or dot.
    Load(u16),
    /// The same for one whose declaration may have been passed over.
    LoadMaybe { slot: u16, name: u32 },
    /// Copies the top into a variable.
    Copy(u16),
    /// The same for assignments to one whose declaration may have been passed over.
    CopyMaybe { slot: u16, name: u32 },
    /// Puts a field in the place of the top.
    Field(u32),
    /// Puts a method of the top in its place, for a call with arguments.
    Method(u32),
    /// Checks an argument of the method.
    Bind { argument: u16 },
    /// Pushes a literal as an argument of the method.
    BindLiteral { literal: u32, argument: u16 },
    /// Calls the method.
    CallMethod(u32),
    /// Checks an argument of a function.
    Check { call: u32, argument: u16 },
    /// Calls a function.
    Call(u32),
    /// Ends `and` (`or`) when the top is false (true), else drops it.
    ShortCircuit { when: bool, target: u32 },
    /// Drops what is below the top.
    Nip,
    /// Drops the top.
    Pop,
    /// Takes the top out of its box.
    Unbox,
    /// Prints and drops the top.
    Print,
    /// Drops the top and goes on elsewhere when it is false.
    JumpIfFalse(u32),
    /// Makes the top a dot, or goes on elsewhere when it is false.
    With { slot: u16, target: u32 },
    /// Goes on elsewhere.
    Jump(u32),
    /// Begins to range over the top.
    RangeBegin(u32),
    /// The next round, or the end.
    RangeNext(u32),
    /// Leaves a range.
    RangePop,
    /// Fails when there is no template of a name.
    Lookup(u32),
    /// Executes a template with the top as its dot.
    Template(u32),
    /// Fails with a message.
    Fail(u32),
    /// The end.
    Return,
}

/// A call in a template.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallSite {
    /// None for a method, which shows when it is called.
    pub(crate) function: Option<&'static Function>,
    /// Arguments that are written, without the one from the pipeline.
    pub(crate) count: u16,
    /// Whether one comes from the pipeline.
    pub(crate) piped: bool,
    /// The part of the text that fails when the function does.
    pub(crate) site: u32,
    /// The method's name.
    pub(crate) name: u32,
    /// Where execution goes on when there is nothing that could have the method.
    pub(crate) after: u32,
}

/// A `range`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RangeSite {
    /// The slot of the dot.
    pub(crate) dot: u16,
    /// Variables, in order.
    pub(crate) first: Option<Target>,
    pub(crate) second: Option<Target>,
    /// Slots of the body, when there are some among them that have to be forgotten in each round.
    pub(crate) forgets: (u16, u16),
    /// Where `else` begins.
    pub(crate) otherwise: u32,
    /// Where the range ends.
    pub(crate) end: u32,
}

/// A variable of a range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) slot: u16,
    pub(crate) name: u32,
}

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Nil,
    Bool(bool),
    Text(Text),
    /// A number, and how it is written.
    Number(Constant, Text),
    /// A number of a certain kind.
    Int(super::value::Integer, i64),
    Uint(super::value::Unsigned, u64),
    Float(f64),
    Complex(Arc<(f64, f64)>),
}

/// The type of the argument at a place, for a call of a function.
impl CallSite {
    pub(crate) fn parameter(&self, argument: u16) -> Type {
        self.function.map_or(Type::Any, |function| function.parameter(usize::from(argument)))
    }
}
