//! Selectors of parameter sets (ASET-25).
//!
//! They look like label selectors, but their values are any text: URLs, branches, sentences.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tiphys_object::selector::is_label_key;

/// Why a selector cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing label selector: {problem}")]
pub struct SelectorError {
    problem: String,
}

/// A selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl PostSelector {
    /// Reads the object form; an empty object selects everything.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(selector: &Value) -> Result<Self, SelectorError> {
        let error = |problem: String| SelectorError { problem };
        let members = selector.as_object().ok_or_else(|| error("it is no object".to_owned()))?;
        let mut requirements = Vec::new();
        if let Some(labels) = members.get("matchLabels").filter(|labels| !labels.is_null()) {
            let labels = labels.as_object().ok_or_else(|| error("matchLabels is no map".to_owned()))?;
            for (key, value) in labels {
                let value =
                    value.as_str().ok_or_else(|| error(format!("the value of {key:?} is no text")))?;
                requirements.push(Requirement::new(key, Operator::In(vec![value.to_owned()]))?);
            }
        }
        if let Some(expressions) = members.get("matchExpressions").filter(|found| !found.is_null()) {
            let expressions =
                expressions.as_array().ok_or_else(|| error("matchExpressions is no list".to_owned()))?;
            for expression in expressions {
                requirements.push(Requirement::read(expression)?);
            }
        }
        Ok(Self { requirements })
    }

    /// The selector of an entry; none selects everything.
    ///
    /// # Errors
    /// When it is none.
    pub fn of_entry(entry: &Map<String, Value>) -> Result<Self, SelectorError> {
        match entry.get("selector") {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(selector) => Self::read(selector),
        }
    }

    /// Whether everything is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether flattened parameters meet all requirements.
    pub fn matches(&self, params: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = params.get(&requirement.key);
            match &requirement.operator {
                Operator::In(values) => value.is_some_and(|value| values.contains(value)),
                Operator::NotIn(values) => !value.is_some_and(|value| values.contains(value)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }
}

impl Requirement {
    fn new(key: &str, operator: Operator) -> Result<Self, SelectorError> {
        if !is_label_key(key) {
            return Err(SelectorError { problem: format!("{key:?} is no qualified name") });
        }
        Ok(Self { key: key.to_owned(), operator })
    }

    fn read(expression: &Value) -> Result<Self, SelectorError> {
        let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or("");
        let values: Vec<String> = match expression.get("values") {
            None | Some(Value::Null) => Vec::new(),
            Some(values) => {
                let items = values.as_array().into_iter().flatten();
                let texts: Option<Vec<String>> = items.map(|item| item.as_str().map(str::to_owned)).collect();
                texts
                    .filter(|_| values.is_array())
                    .ok_or_else(|| SelectorError { problem: "values is no list of texts".to_owned() })?
            }
        };
        let (key, operator) = (text("key"), text("operator"));
        let error = |problem: String| Err(SelectorError { problem });
        let operator = match (operator, values.is_empty()) {
            ("In", false) => Operator::In(values),
            ("NotIn", false) => Operator::NotIn(values),
            ("Exists", true) => Operator::Exists,
            ("DoesNotExist", true) => Operator::DoesNotExist,
            ("In" | "NotIn", true) => {
                return error(format!(
                    "values: for 'in', 'notin' operators, values set can't be empty ({key:?})"
                ));
            }
            ("Exists" | "DoesNotExist", false) => {
                return error(format!("values set must be empty for exists and does not exist ({key:?})"));
            }
            (other, _) => return error(format!("{other:?} is not a valid label selector operator")),
        };
        Self::new(key, operator)
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "JSON is written where it is used")]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(selector: Value, params: &[(&str, &str)]) -> bool {
        let params = params.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        PostSelector::read(&selector).unwrap().matches(&params)
    }

    #[test]
    fn aset_25_values_are_any_text() {
        let params = [("server", "https://eu.acme.test:6443/x y"), ("values.tier", "gold")];
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"server": "https://eu.acme.test:6443/x y"}}), true),
            (json!({"matchLabels": {"values.tier": "silver"}}), false),
            (
                json!({"matchExpressions": [{"key": "values.tier", "operator": "In", "values": ["x", "gold"]}]}),
                true,
            ),
            (json!({"matchExpressions": [{"key": "other", "operator": "NotIn", "values": ["x"]}]}), true),
            (json!({"matchExpressions": [{"key": "other", "operator": "DoesNotExist"}]}), true),
            (json!({"matchExpressions": [{"key": "other", "operator": "Exists", "values": []}]}), false),
            (json!({"matchLabels": {"server": "a"}, "matchExpressions": null}), false),
        ] {
            assert_eq!(matches(selector.clone(), &params), expected, "{selector}");
        }
    }

    #[test]
    fn aset_25_what_is_no_selector_is_an_error() {
        for selector in [
            json!([]),
            json!({"matchLabels": {"a b": "x"}}),
            json!({"matchLabels": {"a": 1}}),
            json!({"matchLabels": []}),
            json!({"matchExpressions": [{"key": "a", "operator": "Odd"}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", 1]}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
            json!({"matchExpressions": [{"operator": "Exists"}]}),
            json!({"matchExpressions": {}}),
        ] {
            let error = PostSelector::read(&selector).unwrap_err().to_string();
            assert!(error.starts_with("error parsing label selector: "), "{selector}: {error}");
        }
    }
}
