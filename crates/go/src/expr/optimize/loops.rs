//! Loops that are put together, or need not run to their end.

use super::{replace, replace_literal, take};
use crate::expr::DEPTH_MAX;
use crate::expr::ast::{Binary, BuiltinCall, Kind, Node};
use crate::expr::builtins::{self, Loop, Run};

/// All of them, in the order in which they are tried.
pub(super) const ALL: [fn(&mut Node); 10] = [
    map_of_filter,
    length_of_filter,
    last_of_filter,
    first_of_filter,
    joined,
    sum_of_range,
    sum_of_list,
    sum_of_map,
    counted_to_any,
    counted_to_threshold,
];

fn loop_of(node: &Node) -> Option<Loop> {
    match &node.kind {
        Kind::Builtin(call) => match call.builtin.run {
            Run::Loop(kind) => Some(kind),
            Run::One(_) | Run::Many(_) => None,
        },
        _ => None,
    }
}

fn is_call_of(node: &Node, name: &str) -> bool {
    matches!(&node.kind, Kind::Builtin(call) if call.builtin.name == name)
}

fn call_mut(node: &mut Node) -> Option<&mut BuiltinCall> {
    match &mut node.kind {
        Kind::Builtin(call) => Some(call),
        _ => None,
    }
}

fn call(name: &str, arguments: Vec<Node>) -> Option<BuiltinCall> {
    let builtin = builtins::find(name)?;
    Some(BuiltinCall { builtin, arguments, map: None, throws: false, threshold: None })
}

/// The arguments of the filter that is the first argument of a call.
fn filter_in(node: &mut Node) -> Option<&mut BuiltinCall> {
    if loop_of(node) != Some(Loop::Filter) {
        return None;
    }
    call_mut(node).filter(|call| call.arguments.len() == 2)
}

/// `map(filter(x, a), b)` maps what it keeps, at once.
fn map_of_filter(node: &mut Node) {
    if loop_of(node) != Some(Loop::Map) {
        return;
    }
    let Some(map) = call_mut(node) else { return };
    let [list, predicate] = map.arguments.as_mut_slice() else { return };
    if asks_for_index(predicate) {
        return;
    }
    let Some(filter) = filter_in(list).filter(|filter| filter.map.is_none()) else { return };
    let Kind::Predicate(body) = &mut predicate.kind else { return };
    let body = take(body);
    let arguments = std::mem::take(&mut filter.arguments);
    let Some(mut made) = call("filter", arguments) else { return };
    made.map = Some(body);
    replace(node, Kind::Builtin(Box::new(made)));
}

fn asks_for_index(node: &Node) -> bool {
    let mut asks = matches!(&node.kind, Kind::Pointer(name) if name == "index");
    node.kind.each(&mut |child| asks |= asks_for_index(child));
    asks
}

/// `len(filter(x, a))` counts.
fn length_of_filter(node: &mut Node) {
    if !is_call_of(node, "len") {
        return;
    }
    let Some([list]) = call_mut(node).map(|call| call.arguments.as_mut_slice()) else { return };
    let Some(filter) = filter_in(list) else { return };
    let arguments = std::mem::take(&mut filter.arguments);
    if let Some(made) = call("count", arguments) {
        replace(node, Kind::Builtin(Box::new(made)));
    }
}

fn first_of_filter(node: &mut Node) {
    end_of_filter(node, 0, "first", "find");
}

fn last_of_filter(node: &mut Node) {
    end_of_filter(node, -1, "last", "findLast");
}

/// `filter(x, a)[0]` and `first(filter(x, a))` stop at what they find.
fn end_of_filter(node: &mut Node, index: i64, function: &str, finder: &str) {
    let (list, throws) = match &mut node.kind {
        Kind::Member { node: list, property, optional: false } if matches!(property.kind, Kind::Integer(number) if number == index) => {
            (&mut **list, true)
        }
        Kind::Builtin(call) if call.builtin.name == function => match call.arguments.as_mut_slice() {
            [list] => (list, false),
            _ => return,
        },
        _ => return,
    };
    let Some(filter) = filter_in(list) else { return };
    let (arguments, map) = (std::mem::take(&mut filter.arguments), filter.map.take());
    if let Some(mut made) = call(finder, arguments) {
        made.map = map;
        made.throws = throws;
        replace(node, Kind::Builtin(Box::new(made)));
    }
}

/// `all(x, a) && all(x, b)` goes through the list once, and so on.
fn joined(node: &mut Node) {
    let Kind::Binary { operator, left, right } = &mut node.kind else { return };
    let operator = match (loop_of(left), *operator) {
        (Some(Loop::All), operator @ Binary::And { .. }) => operator,
        (Some(Loop::Any), operator @ Binary::Or { .. }) => operator,
        (Some(Loop::None), Binary::And { word }) => Binary::Or { word },
        _ => return,
    };
    if loop_of(left) != loop_of(right) {
        return;
    }
    let (Some(first), Some(second)) = (call_mut(left), call_mut(right)) else { return };
    let ([list, left], [other, right]) = (first.arguments.as_mut_slice(), second.arguments.as_mut_slice())
    else {
        return;
    };
    if list.nature.ty != other.nature.ty || !list.is_alike(other) {
        return;
    }
    let (Kind::Predicate(left), Kind::Predicate(right)) = (&mut left.kind, &mut right.kind) else { return };
    let place = left.place;
    let both = Kind::Binary { operator, left: Box::new(take(left)), right: Box::new(take(right)) };
    let mut both = Node::new(both, place);
    joined(&mut both);
    let predicate = Node::new(Kind::Predicate(Box::new(both)), place);
    let (list, name) = (take(list), first.builtin.name);
    if let Some(made) = call(name, vec![list, predicate]) {
        replace(node, Kind::Builtin(Box::new(made)));
    }
}

/// The ends of a range of literals that is not empty.
fn literal_range(node: &Node) -> Option<(i64, i64)> {
    let Kind::Binary { operator: Binary::Range, left, right } = &node.kind else { return None };
    match (&left.kind, &right.kind) {
        (Kind::Integer(from), Kind::Integer(to)) if to >= from => Some((*from, *to)),
        _ => None,
    }
}

/// `sum(1..10)` and `reduce(1..10, # + #acc)` are computed.
fn sum_of_range(node: &mut Node) {
    let kind = loop_of(node);
    let Kind::Builtin(call) = &node.kind else { return };
    let arguments = call.arguments.as_slice();
    let Some((from, to)) = arguments.first().and_then(literal_range) else { return };
    let count = to.wrapping_sub(from).wrapping_add(1);
    let sum = count.wrapping_mul(from.wrapping_add(to)).wrapping_div(2);
    let total = match (kind, arguments) {
        (Some(Loop::Sum), [_]) => Some(sum),
        (Some(Loop::Sum), [_, predicate]) => sum_of_each(sum, count, predicate),
        (Some(Loop::Reduce), [_, predicate]) if adds_up(predicate) => Some(sum),
        (Some(Loop::Reduce), [_, predicate, start]) if adds_up(predicate) => match start.kind {
            Kind::Integer(start) => Some(sum.wrapping_add(start)),
            _ => None,
        },
        _ => None,
    };
    if let Some(total) = total {
        replace_literal(node, Kind::Integer(total));
    }
}

fn is_item(node: &Node) -> bool {
    matches!(&node.kind, Kind::Pointer(name) if name.is_empty())
}

/// Whether a predicate is `# + #acc`.
fn adds_up(predicate: &Node) -> bool {
    let Kind::Predicate(body) = &predicate.kind else { return false };
    let Kind::Binary { operator: Binary::Add, left, right } = &body.kind else { return false };
    let is_accumulator = |node: &Node| matches!(&node.kind, Kind::Pointer(name) if name == "acc");
    is_item(left) && is_accumulator(right) || is_accumulator(left) && is_item(right)
}

/// The sum of what a predicate makes of each integer, where that is an item and a literal.
fn sum_of_each(sum: i64, count: i64, predicate: &Node) -> Option<i64> {
    let Kind::Predicate(body) = &predicate.kind else { return None };
    if is_item(body) {
        return Some(sum);
    }
    let Kind::Binary { operator, left, right } = &body.kind else { return None };
    let (literal, item_first) = match (&left.kind, &right.kind) {
        (_, Kind::Integer(literal)) if is_item(left) => (*literal, true),
        (Kind::Integer(literal), _) if is_item(right) => (*literal, false),
        _ => return None,
    };
    let literals = count.wrapping_mul(literal);
    match operator {
        Binary::Multiply => Some(literal.wrapping_mul(sum)),
        Binary::Add => Some(sum.wrapping_add(literals)),
        Binary::Subtract if item_first => Some(sum.wrapping_sub(literals)),
        Binary::Subtract => Some(literals.wrapping_sub(sum)),
        _ => None,
    }
}

/// `sum([a, b])` is `a + b`.
fn sum_of_list(node: &mut Node) {
    if loop_of(node) != Some(Loop::Sum) {
        return;
    }
    let Some([list]) = call_mut(node).map(|call| call.arguments.as_mut_slice()) else { return };
    let place = list.place;
    let Kind::List(items) = &mut list.kind else { return };
    // Deviation: long lists are left alone; the original nests as deep as they are long.
    let depth = items.len() + items.iter().map(|item| item.depth).max().unwrap_or(0);
    if items.len() < 2 || depth > DEPTH_MAX {
        return;
    }
    let mut items = std::mem::take(items).into_iter().rev();
    let Some(last) = items.next() else { return };
    let sum = items.fold(last, |right, left| {
        let kind = Kind::Binary { operator: Binary::Add, left: Box::new(left), right: Box::new(right) };
        Node::new(kind, place)
    });
    replace(node, sum.kind);
}

/// `sum(map(x, a))` is `sum(x, a)`.
fn sum_of_map(node: &mut Node) {
    if loop_of(node) != Some(Loop::Sum) {
        return;
    }
    let Some([list]) = call_mut(node).map(|call| call.arguments.as_mut_slice()) else { return };
    if loop_of(list) != Some(Loop::Map) {
        return;
    }
    let Some(map) = call_mut(list).filter(|map| map.arguments.len() == 2) else { return };
    let arguments = std::mem::take(&mut map.arguments);
    if let Some(made) = call("sum", arguments) {
        replace(node, Kind::Builtin(Box::new(made)));
    }
}

/// The count with a predicate that is compared with a literal.
fn compared_count(node: &mut Node) -> Option<(Binary, &mut BuiltinCall, i64)> {
    let Kind::Binary { operator, left, right } = &mut node.kind else { return None };
    let Kind::Integer(literal) = right.kind else { return None };
    if loop_of(left) != Some(Loop::Count) {
        return None;
    }
    let count = call_mut(left).filter(|count| count.arguments.len() == 2)?;
    Some((*operator, count, literal))
}

/// `count(x, a) > 0` is `any(x, a)`.
fn counted_to_any(node: &mut Node) {
    let Some((operator, count, literal)) = compared_count(node) else { return };
    if !matches!((operator, literal), (Binary::More, 0) | (Binary::MoreOrEqual, 1)) {
        return;
    }
    let arguments = std::mem::take(&mut count.arguments);
    if let Some(made) = call("any", arguments) {
        replace(node, Kind::Builtin(Box::new(made)));
    }
}

/// `count(x, a) > 5` need not count beyond six.
fn counted_to_threshold(node: &mut Node) {
    let Some((operator, count, literal)) = compared_count(node) else { return };
    let threshold = match operator {
        Binary::More | Binary::LessOrEqual => literal.wrapping_add(1),
        Binary::MoreOrEqual | Binary::Less => literal,
        _ => return,
    };
    if literal >= 0 && threshold > 1 {
        count.threshold = Some(threshold);
    }
}
