//! Sorting.

use super::numbers::compare;
use super::{Budget, Fault, Value};
use std::cmp::Ordering;

/// Up to this many items the original inserts one after the other.
const INSERTED_MAX: usize = 12;

/// Whether an order is from the last to the first.
pub(super) fn is_descending(order: &Value) -> Result<bool, Fault> {
    match order {
        Value::Text(text) if text.as_bytes() == b"asc" => Ok(false),
        Value::Text(text) if text.as_bytes() == b"desc" => Ok(true),
        Value::Text(text) => Err(Fault::Value(format!("invalid order {text}, expected asc or desc"))),
        other => Err(Fault::Value(format!("sort order argument must be a string (got {})", other.go_type()))),
    }
}

/// Sorts items by a value of theirs.
///
/// Items that are equal stay in their order. In the original they do so up to twelve items; of more, their order is
/// an accident.
pub(super) fn sort<T: Clone>(
    items: &mut [T],
    descending: bool,
    value: impl Fn(&T) -> &Value + Copy,
    budget: &mut Budget,
) -> Result<(), Fault> {
    if items.len() > INSERTED_MAX {
        let (head, tail) = items.split_at_mut(items.len() / 2);
        sort(head, descending, value, budget)?;
        sort(tail, descending, value, budget)?;
        return merge(items, descending, value, budget);
    }
    for end in 1..items.len() {
        for at in (1..=end).rev() {
            let (Some(before), Some(item)) = (items.get(at - 1), items.get(at)) else { break };
            if !is_less(value(item), value(before), descending, budget)? {
                break;
            }
            items.swap(at, at - 1);
        }
    }
    Ok(())
}

/// Merges two sorted halves.
fn merge<T: Clone>(
    items: &mut [T],
    descending: bool,
    value: impl Fn(&T) -> &Value + Copy,
    budget: &mut Budget,
) -> Result<(), Fault> {
    let mut merged = Vec::with_capacity(items.len());
    let (head, tail) = items.split_at(items.len() / 2);
    let (mut head, mut tail) = (head.iter().peekable(), tail.iter().peekable());
    loop {
        let second = match (head.peek(), tail.peek()) {
            (Some(first), Some(second)) => is_less(value(second), value(first), descending, budget)?,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => break,
        };
        merged.extend(if second { tail.next() } else { head.next() }.cloned());
    }
    items.clone_from_slice(&merged);
    Ok(())
}

fn is_less(left: &Value, right: &Value, descending: bool, budget: &mut Budget) -> Result<bool, Fault> {
    if let (Value::Text(left), Value::Text(right)) = (left, right) {
        budget.scan(left.len().min(right.len()))?;
    }
    budget.value()?;
    let (left, right) = if descending { (right, left) } else { (left, right) };
    Ok(compare(left, right, "<")? == Some(Ordering::Less))
}
