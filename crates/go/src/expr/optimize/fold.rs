//! Computing with literals before anything runs.

use super::{literal, replace, replace_literal, take};
use crate::expr::ast::{Binary, BuiltinCall, Kind, Literal, Node, Unary};
use crate::expr::builtins::{Loop, Run};
use crate::expr::error::Misplaced;
use crate::expr::numbers::float;
use crate::expr::power::power;

/// Folds one part; whether there was anything to fold.
pub(super) fn fold(node: &mut Node) -> Result<bool, Misplaced> {
    let folded = match &mut node.kind {
        Kind::Unary { operator, node } => unary(*operator, node),
        Kind::Binary { operator: operator @ (Binary::And { .. } | Binary::Or { .. }), left, right } => {
            let ends = matches!(operator, Binary::Or { .. });
            return Ok(logic(ends, left, right).is_some_and(|kept| {
                match kept {
                    Kept::Part(part) => {
                        let kind = part.kind;
                        replace(node, kind);
                    }
                    Kept::Truth(truth) => replace_literal(node, Kind::Bool(truth)),
                }
                true
            }));
        }
        Kind::Binary { operator: Binary::Modulo, left, right } => match (&left.kind, &right.kind) {
            (Kind::Integer(_), Kind::Integer(0)) => {
                return Err(Misplaced::new(node.place, "integer divide by zero"));
            }
            (Kind::Integer(left), Kind::Integer(right)) => Some(Kind::Integer(left.wrapping_rem(*right))),
            _ => None,
        },
        Kind::Binary { operator, left, right } => binary(*operator, left, right),
        Kind::List(items) if !items.is_empty() => {
            items.iter().map(literal).collect::<Option<Vec<Literal>>>().map(Kind::Constants)
        }
        Kind::Builtin(call) => {
            let Some(kind) = filter_of_filter(call) else { return Ok(false) };
            replace(node, kind);
            return Ok(true);
        }
        _ => None,
    };
    let Some(kind) = folded else { return Ok(false) };
    replace_literal(node, kind);
    Ok(true)
}

fn unary(operator: Unary, node: &Node) -> Option<Kind> {
    match (operator, &node.kind) {
        (Unary::Minus, Kind::Integer(number)) => Some(Kind::Integer(number.wrapping_neg())),
        (Unary::Minus, Kind::Float(number)) => Some(Kind::Float(-number)),
        (Unary::Plus, Kind::Integer(number)) => Some(Kind::Integer(*number)),
        (Unary::Plus, Kind::Float(number)) => Some(Kind::Float(*number)),
        (Unary::Not, Kind::Bool(truth)) => Some(Kind::Bool(!truth)),
        _ => None,
    }
}

/// What is left of `and` or `or` when one side is a literal.
enum Kept {
    Part(Node),
    Truth(bool),
}

/// `ends` is the truth that decides: of `or`, true. A side that decides does so although the other could fail.
fn logic(ends: bool, left: &mut Node, right: &mut Node) -> Option<Kept> {
    let truth = |node: &Node| match node.kind {
        Kind::Bool(truth) => Some(truth),
        _ => None,
    };
    let (l, r) = (truth(left), truth(right));
    if l == Some(!ends) {
        Some(Kept::Part(take(right)))
    } else if r == Some(!ends) {
        Some(Kept::Part(take(left)))
    } else if l == Some(ends) || r == Some(ends) {
        Some(Kept::Truth(ends))
    } else {
        None
    }
}

fn binary(operator: Binary, left: &Node, right: &Node) -> Option<Kind> {
    if operator == Binary::Equal {
        return match (&left.kind, &right.kind) {
            (Kind::Integer(left), Kind::Integer(right)) => Some(Kind::Bool(left == right)),
            (Kind::Text(left), Kind::Text(right)) => Some(Kind::Bool(left == right)),
            (Kind::Bool(left), Kind::Bool(right)) => Some(Kind::Bool(left == right)),
            _ => None,
        };
    }
    if let (Binary::Add, Kind::Text(left), Kind::Text(right)) = (operator, &left.kind, &right.kind) {
        return Some(Kind::Text([left.as_bytes(), right.as_bytes()].concat().into()));
    }
    if let (Kind::Integer(left), Kind::Integer(right)) = (&left.kind, &right.kind) {
        match operator {
            Binary::Add => return Some(Kind::Integer(left.wrapping_add(*right))),
            Binary::Subtract => return Some(Kind::Integer(left.wrapping_sub(*right))),
            Binary::Multiply => return Some(Kind::Integer(left.wrapping_mul(*right))),
            _ => {}
        }
    }
    let number = |node: &Node| match node.kind {
        Kind::Integer(number) => Some(float(number)),
        Kind::Float(number) => Some(number),
        _ => None,
    };
    let (left, right) = (number(left)?, number(right)?);
    Some(Kind::Float(match operator {
        Binary::Add => left + right,
        Binary::Subtract => left - right,
        Binary::Multiply => left * right,
        Binary::Divide => left / right,
        Binary::Exponent => power(left, right),
        _ => return None,
    }))
}

/// `filter(filter(x, a), b)` is `filter(x, a && b)`.
fn filter_of_filter(call: &mut BuiltinCall) -> Option<Kind> {
    let is_filter = |call: &BuiltinCall| matches!(call.builtin.run, Run::Loop(Loop::Filter));
    if !is_filter(call) {
        return None;
    }
    let [first, second] = call.arguments.as_mut_slice() else { return None };
    let Kind::Builtin(inner) = &mut first.kind else { return None };
    if !is_filter(inner) {
        return None;
    }
    let [list, inner_predicate] = inner.arguments.as_mut_slice() else { return None };
    let (Kind::Predicate(left), Kind::Predicate(right)) = (&mut inner_predicate.kind, &mut second.kind)
    else {
        return None;
    };
    let place = second.place;
    let both = Kind::Binary {
        operator: Binary::And { word: false },
        left: Box::new(take(left)),
        right: Box::new(take(right)),
    };
    let predicate = Node::new(Kind::Predicate(Box::new(Node::new(both, place))), place);
    let list = take(list);
    Some(Kind::Builtin(Box::new(BuiltinCall {
        builtin: call.builtin,
        arguments: vec![list, predicate],
        map: None,
        throws: false,
        threshold: None,
    })))
}
