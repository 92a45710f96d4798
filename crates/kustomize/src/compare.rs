//! Comparing the objects of two builds (RND-247).

use std::fmt;

use serde_json::Value;

/// A place where two lists of objects differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Place in the lists.
    pub index: usize,
    /// Pointer into the object; empty for the whole.
    pub path: String,
    /// What stands there in the first list, if anything.
    pub left: Option<Value>,
    /// What stands there in the second list, if anything.
    pub right: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 200;
        let shown = |value: &Option<Value>| match value {
            None => "nothing".to_owned(),
            Some(value) => value.to_string().chars().take(SHOWN).collect(),
        };
        let path = if self.path.is_empty() { "/" } else { &self.path };
        write!(f, "object {} at {path}: {} | {}", self.index, shown(&self.left), shown(&self.right))
    }
}

/// Where two lists of objects differ, at most so many places. Members of an object have no order, objects have.
pub fn differences(left: &[Value], right: &[Value], limit: usize) -> Vec<Difference> {
    let mut found = Vec::new();
    for index in 0..left.len().max(right.len()) {
        // A stack of its own: objects may be nested deeper than a thread's stack likes.
        let mut pending = vec![(String::new(), left.get(index), right.get(index))];
        while let Some((path, left, right)) = pending.pop() {
            if found.len() >= limit {
                return found;
            }
            match (left, right) {
                (Some(Value::Object(left)), Some(Value::Object(right))) => {
                    for (name, value) in left {
                        pending.push((below(&path, name), Some(value), right.get(name)));
                    }
                    for (name, value) in right.iter().filter(|(name, _)| !left.contains_key(*name)) {
                        pending.push((below(&path, name), None, Some(value)));
                    }
                }
                (Some(Value::Array(left)), Some(Value::Array(right))) => {
                    for place in 0..left.len().max(right.len()) {
                        pending.push((format!("{path}/{place}"), left.get(place), right.get(place)));
                    }
                }
                (left, right) if left == right => {}
                (left, right) => {
                    found.push(Difference { index, path, left: left.cloned(), right: right.cloned() });
                }
            }
        }
    }
    found
}

/// The text of an error as the program prints it, made comparable with that of a
/// [`KustomizeError`](crate::KustomizeError): without warnings, with paths of the tree whose root is given, and without
/// what shows insides of the program.
pub fn program_error(printed: &str, root: &str) -> String {
    let is_error = |line: &&str| {
        let is_noise = line.starts_with("# Warning") || line.starts_with("Flag --");
        !is_noise && !line.contains("well-defined vars that were never replaced")
    };
    let text = printed.lines().filter(is_error).collect::<Vec<_>>().join("\n");
    let mut text = text.strip_prefix("Error: ").unwrap_or(&text).to_owned();
    if !root.is_empty() {
        text = text.replace(&format!("{root}/"), "").replace(root, "");
    }
    text = without(&text, " &{0x", "}", "");
    text = without(&text, "merging vars [", "]:", "merging vars:");
    text = without(&text, "merging config &{", "}: failed", "merging config: failed");
    if let Some((kept, _values)) = text.split_once("modify the resource map: ") {
        text = format!("{kept}modify the resource map");
    }
    if text.starts_with("map[string]interface {}{")
        && let Some((_value, reason)) = text.rsplit_once("}: ")
    {
        text = reason.to_owned();
    }
    text.trim().to_owned()
}

/// A text in which everything from one text to another is replaced.
fn without(text: &str, begin: &str, end: &str, replacement: &str) -> String {
    let mut parts = text.split(begin);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if let Some((_, rest)) = part.split_once(end) {
            result.push_str(replacement);
            result.push_str(rest);
        } else {
            result.push_str(begin);
            result.push_str(part);
        }
    }
    result
}

fn below(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rnd_247_errors_of_the_program_are_made_comparable() {
        let printed = "# Warning: old\nError: merging from generator &{0xc0 <nil>}: in /tmp/x/app: 'a'\n";
        assert_eq!(program_error(printed, "/tmp/x"), "merging from generator: in app: 'a'");
        let printed = "Error: map[string]interface {}{\"a\":1}: yaml: line 1: no";
        assert_eq!(program_error(printed, ""), "yaml: line 1: no");
    }

    #[test]
    fn rnd_247_differences_are_named_by_their_places() {
        let left = [json!({"a": [1, 2], "b/c": 1}), json!(1)];
        let right = [json!({"a": [1, 3, 4], "d": null})];
        let mut shown: Vec<String> =
            differences(&left, &right, 10).iter().map(Difference::to_string).collect();
        shown.sort();
        let expected = [
            "object 0 at /a/1: 2 | 3",
            "object 0 at /a/2: nothing | 4",
            "object 0 at /b~1c: 1 | nothing",
            "object 0 at /d: nothing | null",
            "object 1 at /: 1 | nothing",
        ];
        assert_eq!(shown, expected);
        assert_eq!(differences(&left, &right, 2).len(), 2);
        assert_eq!(differences(&left, &left, 2), []);
    }
}
