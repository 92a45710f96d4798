//! When Go calls two values equal.

use super::{DEPTH_MAX, Value};

impl Value {
    /// Equality as `reflect.DeepEqual` sees it: types count, a nil list is not an empty one.
    ///
    /// Values nested deeper than [`DEPTH_MAX`], or with millions of parts, are not equal to anything.
    pub fn deep_equals(&self, other: &Self) -> bool {
        self.deep_equals_counted(other).0
    }

    /// The same, with the number of values that were compared.
    pub(crate) fn deep_equals_counted(&self, other: &Self) -> (bool, usize) {
        let mut left = COMPARED_MAX;
        let equal = deep(self, other, 0, &mut left);
        (equal, COMPARED_MAX - left)
    }
}

/// Values that are compared before two count as different. Few of them can be put together so that they unfold to
/// more than anybody could compare.
const COMPARED_MAX: usize = 4_000_000;

fn deep(left: &Value, right: &Value, depth: usize, budget: &mut usize) -> bool {
    if depth > DEPTH_MAX || *budget == 0 {
        return false;
    }
    *budget -= 1;
    match (left, right) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Int(kind, left), Value::Int(other, right)) => kind == other && left == right,
        (Value::Uint(kind, left), Value::Uint(other, right)) => kind == other && left == right,
        #[expect(clippy::float_cmp, reason = "equal is equal in Go")]
        (Value::Float(left), Value::Float(right)) => left == right,
        (Value::Complex(left), Value::Complex(right)) => left == right,
        (Value::Text(left), Value::Text(right)) => left == right,
        (Value::Bytes(left), Value::Bytes(right)) => left == right,
        (Value::List(left), Value::List(right)) => {
            left.list_type().name == right.list_type().name
                && left.is_nil() == right.is_nil()
                && left.len() == right.len()
                && (left.is_same(right)
                    || (0..left.len()).all(|at| match (left.get(at), right.get(at)) {
                        (Some(left), Some(right)) => deep(&left, &right, depth + 1, budget),
                        _ => false,
                    }))
        }
        (Value::Map(left), Value::Map(right)) => {
            left.map_type().name == right.map_type().name
                && left.is_nil() == right.is_nil()
                && left.len() == right.len()
                && (left.is_same(right)
                    || left.members().iter().all(|(key, member)| {
                        right.get(key.as_bytes()).is_some_and(|other| deep(member, &other, depth + 1, budget))
                    }))
        }
        (Value::Named(left), Value::Named(right)) => {
            left.named_type.name == right.named_type.name
                && deep(&left.value, &right.value, depth + 1, budget)
        }
        (Value::Object(left), Value::Object(right)) => left.equals(&**right),
        _ => false,
    }
}
