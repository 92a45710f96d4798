//! Removing what a JSON pointer names (ENG-68).

use serde_json::Value;

/// The members on the way, unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer(Vec<String>);

impl Pointer {
    /// Reads a pointer. `None` for one that names nothing inside a document; it then has no effect.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('/')?;
        Some(Self(rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect()))
    }

    /// Whether the pointer leads into `status`.
    pub(super) fn is_status(&self) -> bool {
        self.0.first().is_some_and(|first| first == "status")
    }

    /// Removes what the pointer names; a path that is absent is no error.
    pub(super) fn remove(&self, document: &mut Value) {
        let Some((last, parents)) = self.0.split_last() else { return };
        let parent = parents.iter().try_fold(document, |value, part| match value {
            Value::Object(map) => map.get_mut(part),
            Value::Array(items) => position(part, items.len()).and_then(|index| items.get_mut(index)),
            _ => None,
        });
        match parent {
            Some(Value::Object(map)) => {
                map.remove(last);
            }
            Some(Value::Array(items)) => {
                if let Some(index) = position(last, items.len()) {
                    items.remove(index);
                }
            }
            _ => {}
        }
    }

    /// Gives the path in `target` the value it has in `live`, or removes it where live has none. Lists are not
    /// made longer.
    pub(super) fn copy(&self, live: &Value, target: &mut Value) {
        let found = self.0.iter().try_fold(live, |value, part| match value {
            Value::Object(map) => map.get(part),
            Value::Array(items) => position(part, items.len()).and_then(|index| items.get(index)),
            _ => None,
        });
        let Some(found) = found else {
            self.remove(target);
            return;
        };
        let mut place = target;
        for part in &self.0 {
            if place.is_null() {
                *place = Value::Object(serde_json::Map::new());
            }
            let next = match place {
                Value::Object(map) => Some(map.entry(part.as_str()).or_insert(Value::Null)),
                Value::Array(items) => position(part, items.len()).and_then(|index| items.get_mut(index)),
                _ => None,
            };
            let Some(next) = next else { return };
            place = next;
        }
        *place = found.clone();
    }
}

/// Position in a list; negative ones count from the end.
fn position(text: &str, len: usize) -> Option<usize> {
    let index = match text.strip_prefix('-') {
        Some(back) => len.checked_sub(back.parse().ok().filter(|back| *back > 0)?)?,
        None => text.parse().ok()?,
    };
    (index < len).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn removed(mut document: Value, pointer: &str) -> Value {
        if let Some(pointer) = Pointer::parse(pointer) {
            pointer.remove(&mut document);
        }
        document
    }

    #[test]
    fn eng_68_pointers_remove_members_and_items() {
        let document = json!({"a": {"b/c": 1, "d~e": 2}, "l": [{"x": 1}, {"x": 2}]});
        assert_eq!(removed(document.clone(), "/a/b~1c")["a"], json!({"d~e": 2}));
        assert_eq!(removed(document.clone(), "/a/d~0e")["a"], json!({"b/c": 1}));
        assert_eq!(removed(document.clone(), "/l/0")["l"], json!([{"x": 2}]));
        assert_eq!(removed(document.clone(), "/l/1/x")["l"], json!([{"x": 1}, {}]));
        assert_eq!(removed(document, "/l/-1")["l"], json!([{"x": 1}]));
    }

    #[test]
    fn eng_68_absent_paths_are_no_error() {
        let document = json!({"a": {"b": 1}, "l": [1], "t": "x"});
        for pointer in ["", "a", "/x", "/a/x/y", "/a/b/c", "/l/1", "/l/-2", "/l/-", "/l/x", "/t/0"] {
            assert_eq!(removed(document.clone(), pointer), document, "{pointer:?}");
        }
    }
}
