//! Equality of JSON values, and where two values differ.

use serde_json::{Number, Value};

/// Whether two values are equal: members in any order, lists in order, numbers by value (ENG-56, ENG-83).
pub fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => is_same_number(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        // Members are sorted, so two equal maps iterate in step.
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|((key_a, a), (key_b, b))| key_a == key_b && is_equal(a, b))
        }
        _ => a == b,
    }
}

fn is_same_number(a: &Number, b: &Number) -> bool {
    if a == b {
        return true;
    }
    // Two integers that are not equal above differ, however close their floats are.
    (a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64()
}

/// Sorted JSON pointers of the deepest differences: objects member by member, lists of equal length item by
/// item, lists of different length as a whole (EVAL-601).
pub fn paths(a: &Value, b: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(a, b, &mut String::new(), &mut found);
    found.sort_unstable();
    found
}

fn collect(a: &Value, b: &Value, pointer: &mut String, found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let only_in_b = b
                .iter()
                .filter(|(key, _)| !a.contains_key(*key))
                .map(|(key, value)| (key, None, Some(value)));
            let in_a = a.iter().map(|(key, value)| (key, Some(value), b.get(key)));
            for (key, a, b) in in_a.chain(only_in_b) {
                let length = pointer.len();
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                match (a, b) {
                    (Some(a), Some(b)) => collect(a, b, pointer, found),
                    _ => found.push(pointer.clone()),
                }
                pointer.truncate(length);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                let length = pointer.len();
                pointer.push('/');
                pointer.push_str(&index.to_string());
                collect(a, b, pointer, found);
                pointer.truncate(length);
            }
        }
        _ if is_equal(a, b) => {}
        _ => found.push(pointer.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn eng_83_numbers_are_compared_by_value() {
        assert!(is_equal(&json!(2.0), &json!(2)));
        assert!(is_equal(&json!({"a": [2.0]}), &json!({"a": [2]})));
        assert!(!is_equal(&json!("2"), &json!(2)));
        assert!(!is_equal(&json!(9_007_199_254_740_993_u64), &json!(9_007_199_254_740_992_u64)));
    }

    #[test]
    fn eng_56_null_is_not_absent_and_lists_have_an_order() {
        assert!(!is_equal(&json!({"a": null}), &json!({})));
        assert!(!is_equal(&json!([1, 2]), &json!([2, 1])));
        assert!(is_equal(&json!({"a": 1, "b": 2}), &json!({"b": 2, "a": 1})));
    }

    #[test]
    fn eval_601_paths_are_the_deepest_differences() {
        let a = json!({"a": {"b/c": 1, "d": 2, "t~": 0}, "l": [1, {"x": 1}], "m": [1], "n": 1.0});
        let b = json!({"a": {"b/c": 2, "e": 3, "t~": 1}, "l": [1, {"x": 2}], "m": [1, 2], "n": 1});
        assert_eq!(paths(&a, &b), ["/a/b~1c", "/a/d", "/a/e", "/a/t~0", "/l/1/x", "/m"]);
        assert_eq!(paths(&Value::Null, &json!({"a": 1})), [""]);
        assert!(paths(&a, &a).is_empty());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3_i64..3).prop_map(Value::from),
            "[ab]{0,2}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ab/~]{1,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect()))
            ]
        })
    }

    proptest! {
        #[test]
        fn sty_72_there_are_paths_exactly_where_values_differ(a in value(), b in value()) {
            prop_assert_eq!(is_equal(&a, &b), paths(&a, &b).is_empty());
            prop_assert!(is_equal(&a, &a));
            for pointer in paths(&a, &b) {
                prop_assert_ne!(a.pointer(&pointer), b.pointer(&pointer));
            }
        }
    }
}
