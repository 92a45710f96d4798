//! Label selectors: the text form (`app=web,tier in (a,b)`) and the object form (`matchLabels`).
//!
//! Follows `k8s.io/apimachinery/pkg/labels` 0.36.1; golden family `selector`.

mod parse;

use std::fmt;

use serde_json::Value;

/// Longest label value and longest name part of a label key, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// Longest prefix of a label key, in bytes.
const PREFIX_BYTES_MAX: usize = 253;

/// Why a selector is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// The text does not follow the grammar.
    #[error("found '{found}', expected: {expected}")]
    Syntax {
        /// Word that does not fit.
        found: String,
        /// What could stand there.
        expected: &'static str,
    },
    /// A key is no label key.
    #[error("{0:?} is not a valid label key")]
    Key(String),
    /// A value is no label value.
    #[error("{0:?} is not a valid label value")]
    Value(String),
    /// `>` and `<` compare integers only.
    #[error("for 'Gt', 'Lt' operators, the value {0:?} must be an integer")]
    Integer(String),
    /// The operator wants another number of values.
    #[error("wrong number of values for the requirement on {0:?}")]
    Count(String),
    /// The operator of an object form is none of `In`, `NotIn`, `Exists`, `DoesNotExist`.
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
    /// The object form has a member of the wrong type.
    #[error("a label selector needs texts in matchLabels and a list in matchExpressions")]
    Object,
}

/// How a requirement relates its key to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equals,
    /// `==`
    DoubleEquals,
    /// `!=`
    NotEquals,
    /// `in`
    In,
    /// `notin`
    NotIn,
    /// The key alone.
    Exists,
    /// `!` and the key.
    DoesNotExist,
    /// `>`
    GreaterThan,
    /// `<`
    LessThan,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

impl Requirement {
    /// Makes one.
    ///
    /// # Errors
    /// When key or values are no labels, or the operator wants another number of values.
    pub fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, SelectorError> {
        if !is_label_key(key) {
            return Err(SelectorError::Key(key.to_owned()));
        }
        let counts_fit = match operator {
            Operator::In | Operator::NotIn => !values.is_empty(),
            Operator::Exists | Operator::DoesNotExist => values.is_empty(),
            Operator::Equals
            | Operator::DoubleEquals
            | Operator::NotEquals
            | Operator::GreaterThan
            | Operator::LessThan => values.len() == 1,
        };
        if !counts_fit {
            return Err(SelectorError::Count(key.to_owned()));
        }
        let compares = matches!(operator, Operator::GreaterThan | Operator::LessThan);
        for value in &values {
            if compares && value.parse::<i64>().is_err() {
                return Err(SelectorError::Integer(value.clone()));
            }
            if !is_label_value(value) {
                return Err(SelectorError::Value(value.clone()));
            }
        }
        Ok(Self { key: key.to_owned(), operator, values })
    }

    /// The label it is about.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The relation.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values, as given.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether a label with this value, or its absence, meets the requirement.
    pub fn matches(&self, label: Option<&str>) -> bool {
        let has = |label: &str| self.values.iter().any(|value| value == label);
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => label.is_some_and(has),
            Operator::NotEquals | Operator::NotIn => !label.is_some_and(has),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                let bound = self.values.first().and_then(|value| value.parse::<i64>().ok());
                let found = label.and_then(|label| label.parse::<i64>().ok());
                let greater = self.operator == Operator::GreaterThan;
                found
                    .zip(bound)
                    .is_some_and(|(found, bound)| if greater { found > bound } else { found < bound })
            }
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<&str> = self.values.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        let (key, values) = (&self.key, sorted.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// A set of requirements that must all be met.
///
/// ```
/// # use tiphys_object::selector::Selector;
/// let selector: Selector = "tier in (b,a),app=web".parse().unwrap();
/// assert_eq!(selector.to_string(), "app=web,tier in (a,b)");
/// let labels = [("app", "web"), ("tier", "a")];
/// assert!(selector.matches(|key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Sorted by key; `None` selects nothing.
    requirements: Option<Vec<Requirement>>,
}

impl Selector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        Self { requirements: None }
    }

    /// Selects what meets all requirements.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements: Some(requirements) }
    }

    /// Reads the object form: null selects nothing, an empty object everything.
    ///
    /// # Errors
    /// When a member has the wrong type or a requirement is not valid.
    pub fn from_object(object: &Value) -> Result<Self, SelectorError> {
        if object.is_null() {
            return Ok(Self::nothing());
        }
        let members = object.as_object().ok_or(SelectorError::Object)?;
        let mut requirements = Vec::new();
        if let Some(labels) = members.get("matchLabels").filter(|labels| !labels.is_null()) {
            for (key, value) in labels.as_object().ok_or(SelectorError::Object)? {
                let value = text_or_empty(Some(value))?.to_owned();
                requirements.push(Requirement::new(key, Operator::Equals, vec![value])?);
            }
        }
        if let Some(expressions) = members.get("matchExpressions").filter(|found| !found.is_null()) {
            for expression in expressions.as_array().ok_or(SelectorError::Object)? {
                requirements.push(read_expression(expression)?);
            }
        }
        Ok(Self::new(requirements))
    }

    /// The requirements, sorted by key; `None` when nothing is selected.
    pub fn requirements(&self) -> Option<&[Requirement]> {
        self.requirements.as_deref()
    }

    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether labels meet all requirements; `label` looks one up.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let requirements = self.requirements.as_ref();
        requirements
            .is_some_and(|all| all.iter().all(|requirement| requirement.matches(label(&requirement.key))))
    }
}

impl std::str::FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        parse::parse(text).map(Self::new)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().flatten().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

fn read_expression(expression: &Value) -> Result<Requirement, SelectorError> {
    let members = expression.as_object().ok_or(SelectorError::Object)?;
    let operator = match text_or_empty(members.get("operator"))? {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        other => return Err(SelectorError::Operator(other.to_owned())),
    };
    let values = match members.get("values") {
        None | Some(Value::Null) => Vec::new(),
        Some(values) => {
            let items = values.as_array().ok_or(SelectorError::Object)?.iter();
            items.map(|item| text_or_empty(Some(item)).map(str::to_owned)).collect::<Result<_, _>>()?
        }
    };
    Requirement::new(text_or_empty(members.get("key"))?, operator, values)
}

fn text_or_empty(value: Option<&Value>) -> Result<&str, SelectorError> {
    match value {
        None | Some(Value::Null) => Ok(""),
        Some(value) => value.as_str().ok_or(SelectorError::Object),
    }
}

/// Whether a text may be the key of a label: an optional DNS prefix and a name.
pub fn is_label_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(is_dns_subdomain)
}

/// Whether a text may be the value of a label.
pub fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    let ends_fit = |end: Option<&u8>| end.is_none_or(u8::is_ascii_alphanumeric);
    bytes.len() <= NAME_BYTES_MAX
        && ends_fit(bytes.first())
        && ends_fit(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn is_dns_subdomain(text: &str) -> bool {
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let is_end =
            |end: Option<&u8>| end.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        is_end(bytes.first())
            && is_end(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
    };
    text.len() <= PREFIX_BYTES_MAX && text.split('.').all(is_part)
}
