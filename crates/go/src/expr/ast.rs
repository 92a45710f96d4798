//! Expressions as trees.

use super::builtins::Builtin;
use super::error::Place;
use super::nature::Nature;
use super::value::Text;

/// A part of an expression.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) place: Place,
    /// What is known of its value before it is computed; what nobody has looked at is unknown.
    pub(super) nature: Nature,
    /// Parts inside each other, this one included.
    pub(super) depth: usize,
}

/// What a part is.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Nil,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(Text),
    Bytes(Text),
    /// A list of nothing but literals.
    Constants(Vec<Literal>),
    /// A set of texts or of integers that something is looked up in.
    Set(Set),
    Name(String),
    Unary {
        operator: Unary,
        node: Box<Node>,
    },
    Binary {
        operator: Binary,
        left: Box<Node>,
        right: Box<Node>,
    },
    /// Where looking on ends when something optional is nil.
    Chain(Box<Node>),
    Member {
        node: Box<Node>,
        property: Box<Node>,
        optional: bool,
    },
    Slice {
        node: Box<Node>,
        from: Option<Box<Node>>,
        to: Option<Box<Node>>,
    },
    Call {
        callee: Box<Node>,
        arguments: Vec<Node>,
    },
    Builtin(Box<BuiltinCall>),
    Predicate(Box<Node>),
    /// `#` and its relatives.
    Pointer(String),
    Let {
        name: String,
        value: Box<Node>,
        body: Box<Node>,
    },
    Sequence(Vec<Node>),
    Conditional {
        condition: Box<Node>,
        yes: Box<Node>,
        no: Box<Node>,
    },
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

/// A call of a function of the language.
#[derive(Debug, Clone)]
pub(super) struct BuiltinCall {
    pub(super) builtin: &'static Builtin,
    pub(super) arguments: Vec<Node>,
    /// What is made of each item that a loop keeps.
    pub(super) map: Option<Node>,
    /// Nothing found is an error.
    pub(super) throws: bool,
    /// Where counting may stop.
    pub(super) threshold: Option<i64>,
}

/// A literal in a list of literals.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(Text),
}

/// What something is looked up in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Set {
    Texts(Vec<Text>),
    Integers(Vec<i64>),
}

/// Operators with one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unary {
    Not,
    Plus,
    Minus,
}

/// Operators with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    /// Whether it was a word decides which of two are joined.
    Or {
        word: bool,
    },
    And {
        word: bool,
    },
    Equal,
    NotEqual,
    Less,
    More,
    LessOrEqual,
    MoreOrEqual,
    In,
    Matches,
    Contains,
    StartsWith,
    EndsWith,
    Range,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Exponent,
    Coalesce,
}

impl Unary {
    /// The operator of a spelling, and how tightly it binds.
    pub(super) fn of(text: &str) -> Option<(Self, u16)> {
        match text {
            "not" | "!" => Some((Self::Not, 50)),
            "-" => Some((Self::Minus, 90)),
            "+" => Some((Self::Plus, 90)),
            _ => None,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Not => "!",
            Self::Plus => "+",
            Self::Minus => "-",
        }
    }
}

impl Binary {
    /// The operator of a spelling, and how tightly it binds.
    pub(super) fn of(text: &str) -> Option<(Self, u16)> {
        Some(match text {
            "or" | "||" => (Self::Or { word: text == "or" }, 10),
            "and" | "&&" => (Self::And { word: text == "and" }, 15),
            "==" => (Self::Equal, 20),
            "!=" => (Self::NotEqual, 20),
            "<" => (Self::Less, 20),
            ">" => (Self::More, 20),
            "<=" => (Self::LessOrEqual, 20),
            ">=" => (Self::MoreOrEqual, 20),
            "in" => (Self::In, 20),
            "matches" => (Self::Matches, 20),
            "contains" => (Self::Contains, 20),
            "startsWith" => (Self::StartsWith, 20),
            "endsWith" => (Self::EndsWith, 20),
            ".." => (Self::Range, 25),
            "+" => (Self::Add, 30),
            "-" => (Self::Subtract, 30),
            "*" => (Self::Multiply, 60),
            "/" => (Self::Divide, 60),
            "%" => (Self::Modulo, 60),
            "**" | "^" => (Self::Exponent, 100),
            "??" => (Self::Coalesce, 500),
            _ => return None,
        })
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Or { word: true } => "or",
            Self::Or { word: false } => "||",
            Self::And { word: true } => "and",
            Self::And { word: false } => "&&",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::More => ">",
            Self::LessOrEqual => "<=",
            Self::MoreOrEqual => ">=",
            Self::In => "in",
            Self::Matches => "matches",
            Self::Contains => "contains",
            Self::StartsWith => "startsWith",
            Self::EndsWith => "endsWith",
            Self::Range => "..",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Exponent => "**",
            Self::Coalesce => "??",
        }
    }

    /// Whether several in a row are comparisons of neighbours.
    pub(super) fn is_comparison(self) -> bool {
        matches!(self, Self::Less | Self::More | Self::LessOrEqual | Self::MoreOrEqual)
    }
}

impl Node {
    pub(super) fn new(kind: Kind, place: Place) -> Self {
        let mut depth = 0;
        kind.each(&mut |child| depth = depth.max(child.depth));
        Self { kind, place, nature: Nature::default(), depth: depth + 1 }
    }

    /// Parts of this one, itself included.
    pub(super) fn count(&self) -> usize {
        let mut count = 1;
        self.kind.each(&mut |child| count += child.count());
        count
    }

    /// Whether both are written alike.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        let same_children = || {
            let (mut left, mut right) = (Vec::new(), Vec::new());
            self.kind.each(&mut |child| left.push(child));
            other.kind.each(&mut |child| right.push(child));
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| left.is_alike(right))
        };
        let same_heads = match (&self.kind, &other.kind) {
            (Kind::Nil, Kind::Nil)
            | (Kind::Chain(_), Kind::Chain(_))
            | (Kind::Call { .. }, Kind::Call { .. })
            | (Kind::Predicate(_), Kind::Predicate(_))
            | (Kind::Sequence(_), Kind::Sequence(_))
            | (Kind::Conditional { .. }, Kind::Conditional { .. })
            | (Kind::List(_), Kind::List(_))
            | (Kind::Map(_), Kind::Map(_)) => true,
            (Kind::Bool(left), Kind::Bool(right)) => left == right,
            (Kind::Integer(left), Kind::Integer(right)) => left == right,
            (Kind::Float(left), Kind::Float(right)) => left.to_bits() == right.to_bits(),
            (Kind::Text(left), Kind::Text(right)) | (Kind::Bytes(left), Kind::Bytes(right)) => left == right,
            (Kind::Constants(left), Kind::Constants(right)) => left == right,
            (Kind::Set(left), Kind::Set(right)) => left == right,
            (Kind::Name(left), Kind::Name(right)) | (Kind::Pointer(left), Kind::Pointer(right)) => {
                left == right
            }
            (Kind::Unary { operator: left, .. }, Kind::Unary { operator: right, .. }) => left == right,
            (Kind::Binary { operator: left, .. }, Kind::Binary { operator: right, .. }) => left == right,
            (Kind::Member { optional: left, .. }, Kind::Member { optional: right, .. }) => left == right,
            (Kind::Slice { from, to, .. }, Kind::Slice { from: other_from, to: other_to, .. }) => {
                from.is_some() == other_from.is_some() && to.is_some() == other_to.is_some()
            }
            (Kind::Builtin(left), Kind::Builtin(right)) => left.builtin.name == right.builtin.name,
            (Kind::Let { name: left, .. }, Kind::Let { name: right, .. }) => left == right,
            _ => false,
        };
        same_heads && same_children()
    }
}

impl Kind {
    /// Calls something with each part, in the order in which they are written.
    pub(super) fn each<'n>(&'n self, visit: &mut dyn FnMut(&'n Node)) {
        match self {
            Self::Unary { node, .. } | Self::Chain(node) | Self::Predicate(node) => visit(node),
            Self::Binary { left, right, .. } => {
                visit(left);
                visit(right);
            }
            Self::Member { node, property, .. } => {
                visit(node);
                visit(property);
            }
            Self::Slice { node, from, to } => {
                visit(node);
                from.iter().chain(to).for_each(|node| visit(node));
            }
            Self::Call { callee, arguments } => {
                visit(callee);
                arguments.iter().for_each(visit);
            }
            Self::Builtin(call) => call.arguments.iter().chain(&call.map).for_each(visit),
            Self::Let { value, body, .. } => {
                visit(value);
                visit(body);
            }
            Self::Sequence(nodes) | Self::List(nodes) => nodes.iter().for_each(visit),
            Self::Conditional { condition, yes, no } => {
                visit(condition);
                visit(yes);
                visit(no);
            }
            Self::Map(pairs) => pairs.iter().for_each(|(key, value)| {
                visit(key);
                visit(value);
            }),
            Self::Nil
            | Self::Bool(_)
            | Self::Integer(_)
            | Self::Float(_)
            | Self::Text(_)
            | Self::Bytes(_)
            | Self::Constants(_)
            | Self::Set(_)
            | Self::Name(_)
            | Self::Pointer(_) => {}
        }
    }

    /// Calls something with each part that simplifications may replace, in the order in which they are written.
    pub(super) fn each_mut(&mut self, visit: &mut dyn FnMut(&mut Node)) {
        match self {
            Self::Unary { node, .. } | Self::Chain(node) | Self::Predicate(node) => visit(node),
            Self::Binary { left, right, .. } => {
                visit(left);
                visit(right);
            }
            Self::Member { node, property, .. } => {
                visit(node);
                visit(property);
            }
            Self::Slice { node, from, to } => {
                visit(node);
                from.iter_mut().chain(to).for_each(|node| visit(node));
            }
            Self::Call { callee, arguments } => {
                visit(callee);
                arguments.iter_mut().for_each(visit);
            }
            // What is made of the items is left as it is.
            Self::Builtin(call) => call.arguments.iter_mut().for_each(visit),
            Self::Let { value, body, .. } => {
                visit(value);
                visit(body);
            }
            Self::Sequence(nodes) | Self::List(nodes) => nodes.iter_mut().for_each(visit),
            Self::Conditional { condition, yes, no } => {
                visit(condition);
                visit(yes);
                visit(no);
            }
            Self::Map(pairs) => pairs.iter_mut().for_each(|(key, value)| {
                visit(key);
                visit(value);
            }),
            Self::Nil
            | Self::Bool(_)
            | Self::Integer(_)
            | Self::Float(_)
            | Self::Text(_)
            | Self::Bytes(_)
            | Self::Constants(_)
            | Self::Set(_)
            | Self::Name(_)
            | Self::Pointer(_) => {}
        }
    }
}
