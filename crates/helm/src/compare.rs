//! Two results of one rendering, object by object (RND-247).

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use tiphys_go::json;

/// Differences that are told of one pair of objects.
const SHOWN_MAX: usize = 5;
/// Characters of a value that are shown.
const VALUE_CHARS_MAX: usize = 120;

/// How two results differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// An object that only one of them has.
    Object {
        /// Its kind and name.
        object: String,
        /// Whether the expected result has it.
        is_expected: bool,
    },
    /// A value inside an object.
    Value {
        /// Kind and name of the object.
        object: String,
        /// Path to the value.
        path: String,
        /// The expected value; nothing when it is not there.
        expected: Option<String>,
        /// The other one.
        actual: Option<String>,
    },
    /// The same objects in another order.
    Order {
        /// The first object that is elsewhere.
        object: String,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object { object, is_expected: true } => write!(out, "{object} is missing"),
            Self::Object { object, is_expected: false } => write!(out, "{object} should not be there"),
            Self::Order { object } => write!(out, "{object} is at another place"),
            Self::Value { object, path, expected, actual } => {
                let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
                write!(out, "{object} {path}: expected {}, got {}", shown(expected), shown(actual))
            }
        }
    }
}

impl Difference {
    /// Where it is and of what sort, without the values: for logs, since they may be secret.
    pub fn place(&self) -> impl fmt::Display + '_ {
        Place(self)
    }
}

struct Place<'a>(&'a Difference);

impl fmt::Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Difference::Value { object, path, .. } => write!(out, "{object} {path} differs"),
            other => other.fmt(out),
        }
    }
}

/// What is compared of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Everything.
    Values,
    /// Everything but texts: for charts that use chance or the time.
    Structure,
}

/// Compares objects in order. The list is empty when both are equal.
pub fn compare_objects(expected: &[Value], actual: &[Value], strictness: Strictness) -> Vec<Difference> {
    let mut differences = Vec::new();
    let names = |objects: &[Value]| objects.iter().map(name).collect::<Vec<_>>();
    let (expected_names, actual_names) = (names(expected), names(actual));
    if strictness == Strictness::Structure {
        return compare_structure(expected, actual);
    }
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, name) in actual_names.iter().enumerate().rev() {
        places.entry(name).or_default().push(at);
    }
    for (object, name) in expected.iter().zip(&expected_names) {
        match places.get_mut(name.as_str()).and_then(Vec::pop).and_then(|at| actual.get(at)) {
            None => differences.push(Difference::Object { object: name.clone(), is_expected: true }),
            Some(found) => {
                let mut walk = Walk { object: name, differences: Vec::new(), texts_count: true };
                walk.compare("", Some(object), Some(found));
                differences.extend(walk.differences);
            }
        }
    }
    let left = places.into_iter().filter(|(_, places)| !places.is_empty());
    differences
        .extend(left.map(|(name, _)| Difference::Object { object: name.to_owned(), is_expected: false }));
    if differences.is_empty() {
        let mut pairs = expected_names.iter().zip(&actual_names);
        let moved = pairs.find(|(expected, actual)| expected != actual);
        differences.extend(moved.map(|(object, _)| Difference::Order { object: object.clone() }));
    }
    differences
}

/// Kind, namespace and name.
fn name(object: &Value) -> String {
    let text = |value: Option<&Value>| value.map(json::print_go).unwrap_or_default();
    let metadata = object.get("metadata");
    let of_metadata = |field: &str| text(metadata.and_then(|metadata| metadata.get(field)));
    format!("{} {}/{}", text(object.get("kind")), of_metadata("namespace"), of_metadata("name"))
}

/// Objects of each kind in their order; texts in them may be any.
fn compare_structure(expected: &[Value], actual: &[Value]) -> Vec<Difference> {
    let kind = |object: &Value| object.get("kind").map(json::print_go).unwrap_or_default();
    let mut kinds: BTreeMap<String, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for object in expected {
        kinds.entry(kind(object)).or_default().0.push(object);
    }
    for object in actual {
        kinds.entry(kind(object)).or_default().1.push(object);
    }
    let mut differences = Vec::new();
    for (kind, (expected, actual)) in kinds {
        if expected.len() != actual.len() {
            let is_expected = expected.len() > actual.len();
            differences.push(Difference::Object { object: format!("one more {kind}"), is_expected });
            continue;
        }
        for (expected, actual) in expected.into_iter().zip(actual) {
            let mut walk = Walk { object: &name(expected), differences: Vec::new(), texts_count: false };
            walk.compare("", Some(expected), Some(actual));
            differences.extend(walk.differences);
        }
    }
    differences
}

struct Walk<'w> {
    object: &'w str,
    differences: Vec<Difference>,
    /// Whether texts have to be equal.
    texts_count: bool,
}

impl Walk<'_> {
    fn compare(&mut self, path: &str, expected: Option<&Value>, actual: Option<&Value>) {
        if self.differences.len() >= SHOWN_MAX {
            return;
        }
        match (expected, actual) {
            (Some(Value::Object(expected)), Some(Value::Object(actual))) => {
                for key in expected.keys().chain(actual.keys().filter(|key| !expected.contains_key(*key))) {
                    self.compare(&format!("{path}.{key}"), expected.get(key), actual.get(key));
                }
            }
            (Some(Value::Array(expected)), Some(Value::Array(actual))) => {
                for at in 0..expected.len().max(actual.len()) {
                    self.compare(&format!("{path}[{at}]"), expected.get(at), actual.get(at));
                }
            }
            (Some(Value::Number(expected)), Some(Value::Number(actual)))
                if expected == actual || expected.as_f64() == actual.as_f64() => {}
            (Some(Value::String(_)), Some(Value::String(_))) if !self.texts_count => {}
            (expected, actual) if expected == actual => {}
            (expected, actual) => self.differences.push(Difference::Value {
                object: self.object.to_owned(),
                path: path.to_owned(),
                expected: expected.map(|value| shown(value, actual)),
                actual: actual.map(|value| shown(value, expected)),
            }),
        }
    }
}

/// A value as text; of long texts the part in which they begin to differ.
fn shown(value: &Value, other: Option<&Value>) -> String {
    let text = value.to_string();
    let equal = other.map_or(0, |other| {
        text.chars().zip(other.to_string().chars()).take_while(|(one, other)| one == other).count()
    });
    let skipped = equal.saturating_sub(VALUE_CHARS_MAX / 3);
    let start = if skipped > 0 { "…" } else { "" };
    let part: String = text.chars().skip(skipped).take(VALUE_CHARS_MAX).collect();
    let end = if text.chars().count() > skipped + VALUE_CHARS_MAX { "…" } else { "" };
    format!("{start}{part}{end}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(expected: &Value, actual: &Value) -> Vec<String> {
        let objects = |value: &Value| value.as_array().unwrap().clone();
        let differences = compare_objects(&objects(expected), &objects(actual), Strictness::Values);
        differences.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rnd_247_differences_name_object_and_path() {
        let object = |name: &str, data: Value| json!({"kind": "A", "metadata": {"name": name}, "data": data});
        let one = object("x", json!({"a": [1, 2.0]}));
        assert_eq!(texts(&json!([one]), &json!([object("x", json!({"a": [1, 2]}))])), Vec::<String>::new());
        let other = object("x", json!({"a": [1, 3], "b": null}));
        let expected = ["A /x .data.a[1]: expected 2.0, got 3", "A /x .data.b: expected nothing, got null"];
        assert_eq!(texts(&json!([one]), &json!([other])), expected);
        let more = object("y", json!({}));
        assert_eq!(texts(&json!([one, more]), &json!([more, one])), ["A /x is at another place"]);
        assert_eq!(texts(&json!([one, more]), &json!([one])), ["A /y is missing"]);
        assert_eq!(texts(&json!([one]), &json!([one, more])), ["A /y should not be there"]);
    }
}
