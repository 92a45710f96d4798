//! Simplifications. The original makes them before it runs an expression, and they show: what is simplified away is
//! not computed, and so cannot fail.

mod fold;
mod loops;

use super::ast::{Binary, Kind, Literal, Node, Set};
use super::error::Misplaced;
use super::nature::{Kind as TypeKind, Nature, Type};
use super::value::Text;
use super::{DEPTH_MAX, Fault, NODES_MAX};

/// How often literals are folded, at most.
const FOLDS_MAX: usize = 1_000;

/// Simplifies an expression that was checked.
pub(super) fn optimize(node: &mut Node) -> Result<(), Misplaced> {
    walk(node, &mut |node| {
        in_list(node);
        Ok(())
    })?;
    for _ in 0..=FOLDS_MAX {
        let mut folded = false;
        walk(node, &mut |node| {
            folded |= fold::fold(node)?;
            Ok(())
        })?;
        if !folded {
            break;
        }
    }
    let mut copies = 0;
    walk(node, &mut |node| in_range(node, &mut copies))?;
    for simplify in loops::ALL {
        walk(node, &mut |node| {
            simplify(node);
            Ok(())
        })?;
    }
    // Few simplifications nest deeper than what they replace, and none by much.
    if node.depth > 2 * DEPTH_MAX {
        return Err(Misplaced { fault: Fault::Depth, place: node.place });
    }
    Ok(())
}

/// Visits all parts, the inner ones first.
fn walk(node: &mut Node, visit: &mut dyn FnMut(&mut Node) -> Result<(), Misplaced>) -> Result<(), Misplaced> {
    let mut result = Ok(());
    node.kind.each_mut(&mut |child| {
        if result.is_ok() {
            result = walk(child, visit);
        }
    });
    result?;
    let mut depth = 0;
    node.kind.each(&mut |child| depth = depth.max(child.depth));
    node.depth = depth + 1;
    visit(node)
}

/// Puts another part in a part's place. What was known of list items is forgotten, and nil too.
fn replace(node: &mut Node, kind: Kind) {
    let ty = node.nature.ty.unwrap_or(Type::Any);
    let place = node.place;
    *node = Node::new(kind, place);
    node.nature = Nature::from(ty);
}

/// The same for a literal, whose type is its own.
fn replace_literal(node: &mut Node, kind: Kind) {
    let ty = match &kind {
        Kind::Bool(_) => Type::Bool,
        Kind::Integer(_) => Type::Int,
        Kind::Float(_) => Type::Float,
        Kind::Text(_) => Type::Text,
        _ => Type::List,
    };
    replace(node, kind);
    node.nature = ty.into();
}

fn take(node: &mut Node) -> Node {
    let empty = Node::new(Kind::Nil, node.place);
    std::mem::replace(node, empty)
}

/// `x in ['a', 'b']` looks into a set, and so does `1 in [1, 2]`.
fn in_list(node: &mut Node) {
    let Kind::Binary { operator: Binary::In, left, right } = &mut node.kind else { return };
    let Kind::List(items) = &right.kind else { return };
    if items.is_empty() {
        return;
    }
    let integers = items.iter().map(|item| match item.kind {
        Kind::Integer(number) => Some(number),
        _ => None,
    });
    let texts = items.iter().map(|item| match &item.kind {
        Kind::Text(text) => Some(text.clone()),
        _ => None,
    });
    let set = match integers.collect::<Option<Vec<i64>>>() {
        Some(integers) if left.nature.compiled_kind() == TypeKind::Int => Set::Integers(integers),
        _ => match texts.collect::<Option<Vec<Text>>>() {
            Some(texts) => Set::Texts(texts),
            None => return,
        },
    };
    let place = right.place;
    let kind = Kind::Binary {
        operator: Binary::In,
        left: Box::new(take(left)),
        right: Box::new(Node::new(Kind::Set(set), place)),
    };
    replace(node, kind);
}

/// `x in 1..3` compares.
fn in_range(node: &mut Node, copies: &mut usize) -> Result<(), Misplaced> {
    let place = node.place;
    let Kind::Binary { operator: Binary::In, left, right } = &mut node.kind else { return Ok(()) };
    if left.nature.compiled_kind() != TypeKind::Int {
        return Ok(());
    }
    let Kind::Binary { operator: Binary::Range, left: from, right: to } = &mut right.kind else {
        return Ok(());
    };
    if !matches!((&from.kind, &to.kind), (Kind::Integer(_), Kind::Integer(_))) {
        return Ok(());
    }
    *copies += left.count();
    if *copies > NODES_MAX {
        return Err(Misplaced { fault: Fault::Nodes, place });
    }
    let compared = |operator: Binary, left: Node, right: Node| {
        let kind = Kind::Binary { operator, left: Box::new(left), right: Box::new(right) };
        Box::new(Node::new(kind, place))
    };
    let (from, to, left) = (take(from), take(to), take(left));
    let kind = Kind::Binary {
        operator: Binary::And { word: true },
        left: compared(Binary::MoreOrEqual, left.clone(), from),
        right: compared(Binary::LessOrEqual, left, to),
    };
    replace(node, kind);
    Ok(())
}

/// The literal that a part is.
fn literal(node: &Node) -> Option<Literal> {
    match &node.kind {
        Kind::Bool(truth) => Some(Literal::Bool(*truth)),
        Kind::Integer(number) => Some(Literal::Integer(*number)),
        Kind::Float(number) => Some(Literal::Float(*number)),
        Kind::Text(text) => Some(Literal::Text(text.clone())),
        _ => None,
    }
}
