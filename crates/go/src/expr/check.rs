//! Finds what can be seen to fail before anything is computed, and what is known of each part.
//!
//! No environment is declared, so every name may be anything; literals and functions of the language have types.
//! Parts that hang on something unknown are often not looked at: an index of an unknown value, arguments of an
//! unknown function. What is wrong in them is found out when it is computed, if ever.

mod loops;
mod operators;

use super::ast::{Binary, BuiltinCall, Kind, Node, Unary};
use super::builtins::{self, Builtin, Check, Overload};
use super::error::{Misplaced, Place};
use super::nature::{Function, Kind as TypeKind, Nature, Type};

type Checked = Result<Nature, Misplaced>;

/// Looks at a whole expression and writes what is known into its parts.
pub(super) fn check(node: &mut Node) -> Result<(), Misplaced> {
    Checker { loops: Vec::new(), variables: Vec::new() }.visit(node).map(|_| ())
}

struct Checker {
    /// The loops around the present place.
    loops: Vec<Loop>,
    variables: Vec<(String, Nature)>,
}

/// What the predicate of a loop may ask for.
struct Loop {
    collection: Nature,
    index: bool,
    accumulator: bool,
}

fn error<T>(node: &Node, text: impl std::fmt::Display) -> Result<T, Misplaced> {
    Err(Misplaced::new(node.place, text))
}

impl Checker {
    fn visit(&mut self, node: &mut Node) -> Checked {
        let nature = self.nature(node)?;
        node.nature = nature.clone();
        Ok(nature)
    }

    /// What is known of a part. Each kind has a function of its own, so that little is on the stack while inner parts
    /// are looked at.
    fn nature(&mut self, node: &mut Node) -> Checked {
        let place = node.place;
        match &mut node.kind {
            Kind::Unary { operator, node } => self.unary(*operator, node, place),
            Kind::Binary { operator, left, right } => self.binary(*operator, left, right, place),
            Kind::Chain(node) => self.visit(node),
            Kind::Member { node, property, .. } => self.member(node, property, place),
            Kind::Slice { node, from, to } => self.slice(node, from.as_deref_mut(), to.as_deref_mut()),
            Kind::Call { callee, arguments } => self.call(callee, arguments, place),
            Kind::Builtin(call) => self.builtin(call, place),
            Kind::Predicate(body) => self.predicate_body(body),
            Kind::Let { name, value, body } => self.declaration(name, value, body, place),
            Kind::Sequence(nodes) => self.sequence(nodes),
            Kind::Conditional { condition, yes, no } => self.conditional(condition, yes, no),
            Kind::List(nodes) => self.list(nodes),
            Kind::Map(pairs) => self.map(pairs),
            Kind::Pointer(name) => self.pointer(name, place),
            Kind::Name(name) => Ok(self.name(name)),
            Kind::Nil => Ok(Nature::nil()),
            Kind::Bool(_) => Ok(Type::Bool.into()),
            Kind::Integer(_) => Ok(Type::Int.into()),
            Kind::Float(_) => Ok(Type::Float.into()),
            Kind::Text(_) => Ok(Type::Text.into()),
            Kind::Bytes(_) => Ok(Type::Bytes.into()),
            Kind::Constants(_) | Kind::Set(_) => Ok(Nature::default()),
        }
    }

    fn slice(&mut self, node: &mut Node, from: Option<&mut Node>, to: Option<&mut Node>) -> Checked {
        let nature = self.visit(node)?;
        if nature.is_unknown() {
            return Ok(Nature::default());
        }
        if !matches!(nature.kind(), TypeKind::String | TypeKind::Slice) {
            return error(node, format_args!("cannot slice {}", nature.shown()));
        }
        for end in from.into_iter().chain(to) {
            let known = self.visit(end)?;
            if !known.is_integer() && !known.is_unknown() {
                return error(end, format_args!("non-integer slice index {}", known.shown()));
            }
        }
        Ok(nature)
    }

    fn predicate_body(&mut self, body: &mut Node) -> Checked {
        let known = self.visit(body)?;
        let ty = Type::Function(Function::Predicate { gives: !known.nil });
        Ok(Nature { ty: Some(ty), nil: false, of: Some(known.into()) })
    }

    fn declaration(&mut self, name: &str, value: &mut Node, body: &mut Node, place: Place) -> Checked {
        if builtins::find(name).is_some() {
            return Err(Misplaced::new(place, format_args!("cannot redeclare builtin {name}")));
        }
        if self.variables.iter().any(|(known, _)| known == name) {
            return Err(Misplaced::new(place, format_args!("cannot redeclare variable {name}")));
        }
        let known = self.visit(value)?;
        self.variables.push((name.to_owned(), known));
        let nature = self.visit(body);
        self.variables.pop();
        nature
    }

    fn sequence(&mut self, nodes: &mut [Node]) -> Checked {
        let mut last = Nature::default();
        for node in nodes {
            last = self.visit(node)?;
        }
        Ok(last)
    }

    fn list(&mut self, nodes: &mut [Node]) -> Checked {
        let mut previous: Option<Nature> = None;
        let mut alike = true;
        for node in nodes {
            let known = self.visit(node)?;
            alike &= previous.is_none_or(|previous| previous.kind() == known.kind());
            previous = Some(known);
        }
        Ok(if alike { previous.unwrap_or_default().list_of() } else { Type::List.into() })
    }

    fn map(&mut self, pairs: &mut [(Node, Node)]) -> Checked {
        for (key, value) in pairs {
            self.visit(key)?;
            self.visit(value)?;
        }
        Ok(Type::TextMap.into())
    }

    fn name(&self, name: &str) -> Nature {
        if let Some((_, nature)) = self.variables.iter().rev().find(|(known, _)| known == name) {
            return nature.clone();
        }
        builtins::find(name)
            .map_or_else(Nature::default, |builtin| Type::Function(Function::Builtin(builtin)).into())
    }

    fn unary(&mut self, operator: Unary, node: &mut Node, place: Place) -> Checked {
        let known = self.visit(node)?;
        match operator {
            Unary::Not if known.is(Type::Bool) || known.is_unknown() => Ok(Type::Bool.into()),
            Unary::Plus | Unary::Minus if known.is_number() => Ok(known),
            Unary::Plus | Unary::Minus if known.is_unknown() => Ok(Nature::default()),
            _ => Err(Misplaced::new(
                place,
                format_args!("invalid operation: {} (mismatched type {})", operator.as_str(), known.shown()),
            )),
        }
    }

    fn binary(&mut self, operator: Binary, left: &mut Node, right: &mut Node, place: Place) -> Checked {
        let (l, r) = (self.visit(left)?, self.visit(right)?);
        operators::binary_of(operator, &l, &r, right, place)
    }

    fn member(&mut self, node: &mut Node, property: &mut Node, place: Place) -> Checked {
        if matches!(&node.kind, Kind::Name(name) if name == "$env") {
            return Ok(Nature::default());
        }
        let base = self.visit(node)?;
        let known = self.visit(property)?;
        operators::member_of(&base, &known, property, place)
    }

    fn call(&mut self, callee: &mut Node, arguments: &mut [Node], place: Place) -> Checked {
        if matches!(&callee.kind, Kind::Name(name) if name == "$env") {
            return Err(Misplaced::new(place, "the environment is not callable"));
        }
        let known = self.visit(callee)?;
        if known.is_unknown() {
            return Ok(Nature::default());
        }
        match known.ty {
            Some(Type::Function(Function::Builtin(builtin))) => self.function(builtin, arguments, place),
            Some(Type::Function(Function::Method(method))) => {
                if method.results > 2 {
                    let text = format!("func {} returns more then two values", method.name);
                    return Err(Misplaced::new(place, text));
                }
                let overload = Overload { parameters: method.parameters, result: method.result };
                self.arguments(method.name, &overload, arguments, place)
            }
            _ => Err(Misplaced::new(place, format_args!("{} is not callable", known.shown()))),
        }
    }

    /// A call of a function of the language that is no loop.
    fn function(&mut self, builtin: &'static Builtin, arguments: &mut [Node], place: Place) -> Checked {
        match &builtin.check {
            Check::Validate(validate) => {
                let mut types = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    let known = self.visit(argument)?;
                    types.push(if known.is_unknown() { Some(Type::Any) } else { known.ty });
                }
                validate(&types).map(Nature::from).map_err(|text| Misplaced::new(place, text))
            }
            Check::Get => self.get(arguments, place),
            Check::Types(overloads) => {
                let mut refused =
                    Misplaced::new(place, format_args!("no matching overload for {}", builtin.name));
                for overload in *overloads {
                    match self.arguments(builtin.name, overload, arguments, place) {
                        Ok(known) => return Ok(known),
                        Err(error) => refused = error,
                    }
                }
                Err(refused)
            }
            Check::Loop => {
                for argument in arguments {
                    self.visit(argument)?;
                }
                Err(Misplaced::new(place, format_args!("not enough arguments to call {}", builtin.name)))
            }
        }
    }

    fn arguments(
        &mut self,
        name: &str,
        overload: &Overload,
        arguments: &mut [Node],
        place: Place,
    ) -> Checked {
        let (given, wanted) = (arguments.len(), overload.parameters.len());
        if given != wanted {
            let what = if given > wanted { "too many" } else { "not enough" };
            return Err(Misplaced::new(place, format_args!("{what} arguments to call {name}")));
        }
        for (argument, wanted) in arguments.iter_mut().zip(overload.parameters) {
            let known = self.visit(argument)?;
            if wanted.is_integer() && known.is_integer() {
                continue;
            }
            let fits = if known.nil {
                matches!(wanted.kind(), TypeKind::Pointer | TypeKind::Interface)
            } else {
                known.is_unknown() || known.is_assignable_to(Some(*wanted))
            };
            if !fits {
                let given = if known.nil { "nil" } else { known.shown() };
                let text = format!("cannot use {given} as argument (type {}) to call {name}", wanted.name());
                return error(argument, text);
            }
        }
        Ok(overload.result.into())
    }

    fn get(&mut self, arguments: &mut [Node], place: Place) -> Checked {
        let [from, property] = arguments else {
            let text = format!("invalid number of arguments (expected 2, got {})", arguments.len());
            return Err(Misplaced::new(place, text));
        };
        let base = self.visit(from)?;
        let known = self.visit(property)?;
        if base.is_unknown() {
            return Ok(Nature::default());
        }
        let fits = match base.kind() {
            TypeKind::Slice => known.is_integer(),
            TypeKind::Map if base.is(Type::TextMap) => known.is_assignable_to(Some(Type::Text)),
            TypeKind::Map => known.is_assignable_to(Some(Type::Any)),
            _ => return error(from, format_args!("type {} does not support indexing", base.shown())),
        };
        if !fits && !known.is_unknown() {
            let text = format!("cannot use {} to get an element from {}", known.shown(), base.shown());
            return error(property, text);
        }
        Ok(base.item())
    }

    fn pointer(&self, name: &str, place: Place) -> Checked {
        let Some(around) = self.loops.last() else {
            return Err(Misplaced::new(place, "cannot use pointer accessor outside predicate"));
        };
        match name {
            "" if around.collection.is_unknown() => Ok(Nature::default()),
            "" => Ok(around.collection.item()),
            "index" if around.index => Ok(Type::Int.into()),
            "acc" if around.accumulator => Ok(Nature::default()),
            _ => Err(Misplaced::new(place, format_args!("unknown pointer #{name}"))),
        }
    }

    fn conditional(&mut self, condition: &mut Node, yes: &mut Node, no: &mut Node) -> Checked {
        let known = self.visit(condition)?;
        if !known.is(Type::Bool) && !known.is_unknown() {
            let text = format!("non-bool expression (type {}) used as condition", known.shown());
            return error(condition, text);
        }
        let (yes, no) = (self.visit(yes)?, self.visit(no)?);
        Ok(match (yes.nil, no.nil) {
            (true, true) => Nature::nil(),
            (true, false) => no,
            (false, true) => yes,
            (false, false) if yes.is_assignable_to(no.ty) => {
                let (first, second) = (yes.item(), no.item());
                let lists_differ = yes.is_list()
                    && no.is_list()
                    && !(first.is_assignable_to(second.ty) && second.is_assignable_to(first.ty));
                if lists_differ { Type::List.into() } else { yes }
            }
            (false, false) => Nature::default(),
        })
    }

    fn builtin(&mut self, call: &mut BuiltinCall, place: Place) -> Checked {
        match call.builtin.run {
            builtins::Run::Loop(kind) => self.loop_call(kind, call, place),
            builtins::Run::One(_) | builtins::Run::Many(_) => {
                self.function(call.builtin, &mut call.arguments, place)
            }
        }
    }
}
