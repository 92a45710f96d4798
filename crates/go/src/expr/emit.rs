//! From a tree to steps.

mod loops;

use super::ast::{Binary, BuiltinCall, Kind, Literal, Node, Set, Unary};
use super::builtins::{Pointers, Run};
use super::error::{Misplaced, Place};
use super::methods;
use super::nature::{Function, Kind as TypeKind, Type};
use super::program::{Code, Op};
use super::value::{List, Value};
use super::{CODE_MAX, Fault, PATTERN_MEMORY_MAX, PATTERNS_MAX};
use crate::regexp::Regexp;

/// Turns an expression into steps.
pub(super) fn emit(node: &Node) -> Result<Code, Misplaced> {
    let mut emitter = Emitter {
        code: Code {
            ops: Vec::new(),
            places: Vec::new(),
            constants: Vec::new(),
            patterns: Vec::new(),
            variables: 0,
        },
        scopes: Vec::new(),
        chains: Vec::new(),
    };
    emitter.node(node, None)?;
    Ok(emitter.code)
}

struct Emitter {
    code: Code,
    /// Names of variables and where they are kept.
    scopes: Vec<(String, usize)>,
    /// Jumps to the end of each chain around the present place.
    chains: Vec<Vec<usize>>,
}

type Emitted = Result<(), Misplaced>;

impl Emitter {
    /// Adds a step and says where it is.
    fn op(&mut self, op: Op, place: Place) -> Result<usize, Misplaced> {
        if self.code.ops.len() >= CODE_MAX {
            return Err(Misplaced { fault: Fault::Nodes, place });
        }
        self.code.ops.push(op);
        self.code.places.push(place);
        Ok(self.code.ops.len() - 1)
    }

    fn constant(&mut self, value: Value, place: Place) -> Emitted {
        self.code.constants.push(value);
        self.op(Op::Constant(self.code.constants.len() - 1), place).map(|_| ())
    }

    fn here(&self) -> usize {
        self.code.ops.len()
    }

    /// Lets a jump end here.
    fn land(&mut self, jump: usize) {
        let here = self.here();
        if let Some(
            Op::Jump(to)
            | Op::JumpIfTrue(to)
            | Op::JumpIfFalse(to)
            | Op::JumpIfNil(to)
            | Op::JumpIfNotNil(to)
            | Op::JumpIfEnd(to),
        ) = self.code.ops.get_mut(jump)
        {
            *to = here;
        }
    }

    /// A value that operators see through pointers.
    fn operand(&mut self, node: &Node, parent: Option<Binary>) -> Emitted {
        self.node(node, parent)?;
        self.follow(node)
    }

    fn follow(&mut self, node: &Node) -> Emitted {
        let follows = matches!(node.nature.compiled_kind(), TypeKind::Pointer | TypeKind::Interface);
        if follows && !node.nature.nil {
            self.op(Op::Follow, node.place)?;
        }
        Ok(())
    }

    /// Adds the steps of a part; `parent` is the operator whose operand it is. Each kind has a function of its own, so
    /// that little is on the stack while inner parts are looked at.
    fn node(&mut self, node: &Node, parent: Option<Binary>) -> Emitted {
        let place = node.place;
        match &node.kind {
            Kind::Unary { operator, node: operand } => self.unary(*operator, operand, place),
            Kind::Binary { operator, left, right } => self.binary(*operator, left, right, place),
            Kind::Chain(inner) => self.chain(inner, parent, place),
            Kind::Member { node: base, property, optional } => self.member(base, property, *optional, place),
            Kind::Slice { node: base, from, to } => self.slice(base, from.as_deref(), to.as_deref(), place),
            Kind::Call { callee, arguments } => self.call(callee, arguments, place),
            Kind::Builtin(call) => match call.builtin.run {
                Run::Loop(kind) => self.loop_call(kind, call, place),
                Run::One(_) | Run::Many(_) => self.builtin(call, place),
            },
            Kind::Predicate(body) => self.node(body, None),
            Kind::Let { name, value, body } => self.declaration(name, value, body),
            Kind::Sequence(nodes) => self.sequence(nodes, place),
            Kind::Conditional { condition, yes, no } => self.conditional(condition, yes, no, place),
            Kind::List(items) => self.list(items, place),
            Kind::Map(pairs) => self.map(pairs, place),
            Kind::Name(name) => self.name(name, place),
            Kind::Pointer(name) => self.pointer(name, place),
            _ => self.literal(&node.kind, place),
        }
    }

    fn literal(&mut self, kind: &Kind, place: Place) -> Emitted {
        let value = match kind {
            Kind::Bool(truth) => Value::Bool(*truth),
            Kind::Integer(number) => Value::Int(*number),
            Kind::Float(number) => Value::Float(*number),
            Kind::Text(text) => Value::Text(text.clone()),
            Kind::Bytes(bytes) => Value::Bytes(bytes.clone()),
            Kind::Constants(items) => {
                let items = items.iter().map(|item| match item {
                    Literal::Bool(truth) => Value::Bool(*truth),
                    Literal::Integer(number) => Value::Int(*number),
                    Literal::Float(number) => Value::Float(*number),
                    Literal::Text(text) => Value::Text(text.clone()),
                });
                Value::List(List::new(items.collect()).map_err(|fault| Misplaced { fault, place })?)
            }
            // Sets stand at the right of `in` only, which does not ask here.
            _ => Value::Nil,
        };
        self.constant(value, place)
    }

    fn unary(&mut self, operator: Unary, operand: &Node, place: Place) -> Emitted {
        self.operand(operand, None)?;
        match operator {
            Unary::Not => self.op(Op::Not, place).map(|_| ()),
            Unary::Minus => self.op(Op::Negate, place).map(|_| ()),
            Unary::Plus => Ok(()),
        }
    }

    fn builtin(&mut self, call: &BuiltinCall, place: Place) -> Emitted {
        for argument in &call.arguments {
            self.node(argument, None)?;
            let known = argument.nature.compiled_kind();
            let may_be_pointer = known == TypeKind::Pointer || argument.nature.is_unknown();
            let follows = match call.builtin.pointers {
                Pointers::Followed => true,
                Pointers::FollowedUnlessZones => !argument.nature.is(Type::ZonePointer),
                Pointers::Kept => false,
            };
            if may_be_pointer && follows {
                self.op(Op::Follow, argument.place)?;
            }
        }
        let arguments = call.arguments.len();
        self.op(Op::Builtin { builtin: call.builtin, arguments }, place).map(|_| ())
    }

    fn pointer(&mut self, name: &str, place: Place) -> Emitted {
        let op = match name {
            "" => Op::Item,
            "index" => Op::Index,
            "acc" => Op::Accumulator,
            _ => return Err(Misplaced::new(place, format_args!("unknown pointer {name}"))),
        };
        self.op(op, place).map(|_| ())
    }

    fn declaration(&mut self, name: &str, value: &Node, body: &Node) -> Emitted {
        self.node(value, None)?;
        let variable = self.code.variables;
        self.code.variables += 1;
        self.op(Op::Store(variable), value.place)?;
        self.scopes.push((name.to_owned(), variable));
        self.node(body, None)?;
        self.scopes.pop();
        Ok(())
    }

    fn sequence(&mut self, nodes: &[Node], place: Place) -> Emitted {
        for (index, part) in nodes.iter().enumerate() {
            self.node(part, None)?;
            if index + 1 < nodes.len() {
                self.op(Op::Pop, place)?;
            }
        }
        Ok(())
    }

    fn conditional(&mut self, condition: &Node, yes: &Node, no: &Node, place: Place) -> Emitted {
        self.operand(condition, None)?;
        let otherwise = self.op(Op::JumpIfFalse(0), place)?;
        self.op(Op::Pop, place)?;
        self.node(yes, None)?;
        let end = self.op(Op::Jump(0), place)?;
        self.land(otherwise);
        self.op(Op::Pop, place)?;
        self.node(no, None)?;
        self.land(end);
        Ok(())
    }

    fn list(&mut self, items: &[Node], place: Place) -> Emitted {
        for item in items {
            self.node(item, None)?;
        }
        self.op(Op::List(items.len()), place).map(|_| ())
    }

    fn map(&mut self, pairs: &[(Node, Node)], place: Place) -> Emitted {
        for (key, value) in pairs {
            self.node(key, None)?;
            self.node(value, None)?;
        }
        self.op(Op::Map(pairs.len()), place).map(|_| ())
    }

    fn name(&mut self, name: &str, place: Place) -> Emitted {
        let variable = self.scopes.iter().rev().find(|(known, _)| known == name).map(|(_, at)| *at);
        let op = match variable {
            Some(at) => Op::Load(at),
            None if name == "$env" => Op::Environment,
            None => Op::Name(name.to_owned()),
        };
        self.op(op, place).map(|_| ())
    }

    fn binary(&mut self, operator: Binary, left: &Node, right: &Node, place: Place) -> Emitted {
        if let Some(op) = self.look_up(operator, right, place)? {
            self.operand(left, Some(operator))?;
            return self.op(op, place).map(|_| ());
        }
        self.operand(left, Some(operator))?;
        let end = self.early_end(operator, place)?;
        self.operand(right, Some(operator))?;
        match end {
            Some(end) => {
                self.land(end);
                Ok(())
            }
            None => self.operator(operator, left, right, place),
        }
    }

    /// The step of operators whose right side is prepared: sets and regular expressions.
    fn look_up(&mut self, operator: Binary, right: &Node, place: Place) -> Result<Option<Op>, Misplaced> {
        Ok(match (operator, &right.kind) {
            (Binary::In, Kind::Set(Set::Integers(integers))) => {
                Some(Op::InIntegers(integers.iter().copied().collect()))
            }
            (Binary::In, Kind::Set(Set::Texts(texts))) => Some(Op::InTexts(texts.iter().cloned().collect())),
            (Binary::Matches, Kind::Text(pattern)) => {
                Some(Op::MatchesPattern(self.pattern(&pattern.to_str(), place)?))
            }
            _ => None,
        })
    }

    /// The jump over the right side, of operators whose left side may be enough.
    fn early_end(&mut self, operator: Binary, place: Place) -> Result<Option<usize>, Misplaced> {
        let jump = match operator {
            Binary::Or { .. } => Op::JumpIfTrue(0),
            Binary::And { .. } => Op::JumpIfFalse(0),
            Binary::Coalesce => Op::JumpIfNotNil(0),
            _ => return Ok(None),
        };
        let end = self.op(jump, place)?;
        self.op(Op::Pop, place)?;
        Ok(Some(end))
    }

    fn operator(&mut self, operator: Binary, left: &Node, right: &Node, place: Place) -> Emitted {
        let is_equality = matches!(operator, Binary::Equal | Binary::NotEqual);
        let op = match (left.nature.ty, right.nature.ty) {
            (Some(Type::Int), Some(Type::Int)) if is_equality => Op::EqualIntegers,
            (Some(Type::Text), Some(Type::Text)) if is_equality => Op::EqualTexts,
            _ if is_equality => Op::Binary(Binary::Equal),
            _ => Op::Binary(operator),
        };
        self.op(op, place)?;
        if operator == Binary::NotEqual {
            self.op(Op::Not, place)?;
        }
        Ok(())
    }

    fn pattern(&mut self, pattern: &str, place: Place) -> Result<usize, Misplaced> {
        if self.code.patterns.len() >= PATTERNS_MAX {
            return Err(Misplaced { fault: Fault::Patterns, place });
        }
        let compiled = Regexp::with_memory(pattern, PATTERN_MEMORY_MAX);
        self.code.patterns.push(compiled.map_err(|error| Misplaced::new(place, error))?);
        Ok(self.code.patterns.len() - 1)
    }

    fn chain(&mut self, inner: &Node, parent: Option<Binary>, place: Place) -> Emitted {
        self.chains.push(Vec::new());
        self.node(inner, None)?;
        for jump in self.chains.pop().unwrap_or_default() {
            self.land(jump);
        }
        if parent != Some(Binary::Coalesce) {
            // What is nil in Go without being nothing becomes nothing.
            let end = self.op(Op::JumpIfNotNil(0), place)?;
            self.op(Op::Pop, place)?;
            self.constant(Value::Nil, place)?;
            self.land(end);
        }
        Ok(())
    }

    fn member(&mut self, base: &Node, property: &Node, optional: bool, place: Place) -> Emitted {
        self.node(base, None)?;
        if let Kind::Text(name) = &property.kind
            && let Some(method) = methods::of_type(base.nature.ty, &name.to_str())
        {
            return self.op(Op::Method(method), place).map(|_| ());
        }
        if optional {
            let jump = self.op(Op::JumpIfNil(0), place)?;
            if let Some(chain) = self.chains.last_mut() {
                chain.push(jump);
            }
        }
        self.operand(property, None)?;
        self.op(Op::Fetch, place).map(|_| ())
    }

    fn slice(&mut self, base: &Node, from: Option<&Node>, to: Option<&Node>, place: Place) -> Emitted {
        self.node(base, None)?;
        match to {
            Some(to) => self.operand(to, None)?,
            None => self.op(Op::Length, place).map(|_| ())?,
        }
        match from {
            Some(from) => self.operand(from, None)?,
            None => self.constant(Value::Int(0), place)?,
        }
        self.op(Op::Slice, place).map(|_| ())
    }

    fn call(&mut self, callee: &Node, arguments: &[Node], place: Place) -> Emitted {
        // The arguments come before what is called, which shows: what ends a chain leaves them on the stack.
        for argument in arguments {
            self.node(argument, None)?;
        }
        self.node(callee, None)?;
        let checked = matches!(callee.nature.ty, Some(Type::Function(Function::Method(_))));
        self.op(Op::Call { arguments: arguments.len(), checked }, place).map(|_| ())
    }
}
