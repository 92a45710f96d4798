//! What an operation accepts and answers, as data: the check of inputs and the JSON Schemas of `--list` come from it.

use super::fault::{Code, Fault};
use super::operation::Strictness;
use serde_json::{Map, Value, json};

/// The JSON type of a member.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Any JSON value.
    Any,
    /// A string.
    Text,
    /// A string; other scalars are taken as their text, as a value of a `ConfigMap` would be (EVAL-60).
    ScalarText,
    /// true or false.
    Bool,
    /// A number without fraction.
    Integer,
    /// An RFC 3339 instant as text.
    Instant,
    /// An application: `name`, `namespace/name` or `{namespace, name}` (EVAL-60).
    App,
    /// A Kubernetes object or another map whose members are not checked.
    Map,
    /// A map from text to text, scalars taken as their text.
    TextMap,
    /// A list of one shape.
    List(&'static Self),
    /// A map from text to one shape.
    MapOf(&'static Self),
    /// An object with these members; others are unknown.
    Members(&'static [Member]),
    /// The shape, or null.
    OrNull(&'static Self),
    /// One of the two, as the JSON type decides.
    Either(&'static Self, &'static Self),
}

/// What happens when a member is absent.
#[derive(Debug, Clone, Copy)]
pub enum Need {
    /// The request is refused.
    Required,
    /// The member stays absent.
    Optional,
    /// The member takes this value, written as JSON.
    Default(&'static str),
    /// The member takes the present time (EVAL-4).
    Clock,
}

/// One member of an input or a result.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    /// The member's key.
    pub name: &'static str,
    /// What may stand there.
    pub shape: Shape,
    /// What its absence means.
    pub need: Need,
}

/// A member that must be there.
pub(in crate::eval) const fn required(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, need: Need::Required }
}

/// A member that may be absent.
pub(in crate::eval) const fn optional(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, need: Need::Optional }
}

/// A member with a default, written as JSON.
pub(in crate::eval) const fn default(name: &'static str, shape: Shape, value: &'static str) -> Member {
    Member { name, shape, need: Need::Default(value) }
}

/// Checks an input against its members, fills in defaults and turns scalars into text where text is meant.
///
/// Errors are `InvalidInput` and begin with the path of the member, save unknown ones (EVAL-9, EVAL-22).
pub(in crate::eval) fn check(
    mut given: Map<String, Value>,
    members: &[Member],
    strictness: Strictness,
) -> Result<Map<String, Value>, Fault> {
    check_members(&mut given, members, strictness, "")?;
    Ok(given)
}

fn check_members(
    given: &mut Map<String, Value>,
    members: &[Member],
    strictness: Strictness,
    path: &str,
) -> Result<(), Fault> {
    for member in members {
        let at = join(path, member.name);
        match given.get_mut(member.name) {
            Some(value) => check_value(value, member, strictness, &at)?,
            None => {
                if let Some(value) = absent(member, &at)? {
                    given.insert(member.name.to_owned(), value);
                }
            }
        }
    }
    if strictness == Strictness::Strict
        && let Some(unknown) =
            given.keys().find(|key| members.iter().all(|member| member.name != key.as_str()))
    {
        let at = join(path, unknown);
        return Err(Fault::new(Code::InvalidInput, format!("unknown member \"{at}\"")));
    }
    Ok(())
}

/// A member that is given. An explicit null of a member with a default means the default.
fn check_value(value: &mut Value, member: &Member, strictness: Strictness, at: &str) -> Result<(), Fault> {
    if value.is_null() && !accepts_null(member.shape) {
        if let Some(filled) = absent(member, at)? {
            *value = filled;
        }
        return Ok(());
    }
    check_shape(value, member.shape, strictness, at)
}

fn accepts_null(shape: Shape) -> bool {
    matches!(shape, Shape::Any | Shape::OrNull(_))
}

fn absent(member: &Member, at: &str) -> Result<Option<Value>, Fault> {
    match member.need {
        Need::Required => Err(Fault::new(Code::InvalidInput, format!("{at}: required member is missing"))),
        Need::Optional => Ok(None),
        Need::Default(text) => Ok(Some(parse_constant(text))),
        Need::Clock => Ok(Some(Value::String(jiff::Timestamp::now().to_string()))),
    }
}

/// A JSON text of the table. The tests of the table prove that each parses.
pub(in crate::eval) fn parse_constant(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn check_shape(value: &mut Value, shape: Shape, strictness: Strictness, at: &str) -> Result<(), Fault> {
    let fits = match (shape, &mut *value) {
        (Shape::Any, _) | (Shape::OrNull(_), Value::Null) => true,
        (Shape::OrNull(inner), _) => return check_shape(value, *inner, strictness, at),
        (Shape::Text | Shape::Instant | Shape::App, Value::String(_)) => true,
        (Shape::Bool, Value::Bool(_)) => true,
        (Shape::Integer, Value::Number(number)) => integer_of(number).is_some_and(|whole| {
            *value = whole.into();
            true
        }),
        (Shape::App, Value::Object(members)) => {
            return check_members(members, APP_MEMBERS, strictness, at);
        }
        (Shape::ScalarText, scalar) => scalar_to_text(scalar),
        (Shape::Map, Value::Object(_)) => true,
        (Shape::TextMap, Value::Object(members)) => {
            for (key, member) in members.iter_mut() {
                check_shape(member, Shape::ScalarText, strictness, &join(at, key))?;
            }
            true
        }
        (Shape::MapOf(inner), Value::Object(members)) => {
            for (key, member) in members.iter_mut() {
                check_shape(member, *inner, strictness, &join(at, key))?;
            }
            true
        }
        (Shape::List(inner), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                check_shape(item, *inner, strictness, &format!("{at}[{index}]"))?;
            }
            true
        }
        (Shape::Members(inner), Value::Object(members)) => {
            return check_members(members, inner, strictness, at);
        }
        (Shape::Either(first, second), _) => {
            let chosen = if same_type(*first, value) { first } else { second };
            return check_shape(value, *chosen, strictness, at);
        }
        _ => false,
    };
    if fits {
        Ok(())
    } else {
        let text = format!("{at}: expected {}, got {}", word(shape), type_of(value));
        Err(Fault::new(Code::InvalidInput, text))
    }
}

const APP_MEMBERS: &[Member] = &[default("namespace", Shape::Text, "\"\""), required("name", Shape::Text)];

fn integer_of(number: &serde_json::Number) -> Option<i64> {
    // Whole numbers may arrive as 1.0: YAML and other encoders write them so.
    number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && float.abs() < 9.0e15).then(|| format!("{float:.0}").parse().ok()).flatten()
    })
}

fn scalar_to_text(value: &mut Value) -> bool {
    match value {
        Value::String(_) => true,
        Value::Bool(_) | Value::Number(_) => {
            *value = Value::String(value.to_string());
            true
        }
        Value::Null => {
            *value = Value::String(String::new());
            true
        }
        Value::Array(_) | Value::Object(_) => false,
    }
}

fn same_type(shape: Shape, value: &Value) -> bool {
    match shape {
        Shape::Any => true,
        Shape::Text | Shape::ScalarText | Shape::Instant => value.is_string(),
        Shape::Bool => value.is_boolean(),
        Shape::Integer => value.is_number(),
        Shape::App => value.is_string() || value.is_object(),
        Shape::Map | Shape::TextMap | Shape::MapOf(_) | Shape::Members(_) => value.is_object(),
        Shape::List(_) => value.is_array(),
        Shape::OrNull(inner) => value.is_null() || same_type(*inner, value),
        Shape::Either(first, second) => same_type(*first, value) || same_type(*second, value),
    }
}

fn word(shape: Shape) -> &'static str {
    match shape {
        Shape::Any => "a value",
        Shape::Text | Shape::ScalarText => "text",
        Shape::Instant => "an RFC 3339 time",
        Shape::Bool => "a boolean",
        Shape::Integer => "an integer",
        Shape::App => "an application name",
        Shape::Map | Shape::TextMap | Shape::MapOf(_) | Shape::Members(_) => "an object",
        Shape::List(_) => "a list",
        Shape::OrNull(inner) | Shape::Either(inner, _) => word(*inner),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The JSON Schema (2020-12) of an object with these members.
pub(in crate::eval) fn schema(members: &[Member]) -> Value {
    let mut properties = Map::new();
    for member in members {
        let mut one = shape_schema(member.shape);
        if let (Need::Default(text), Value::Object(keywords)) = (member.need, &mut one) {
            keywords.insert("default".into(), parse_constant(text));
        }
        properties.insert(member.name.to_owned(), one);
    }
    let names: Vec<&str> = members
        .iter()
        .filter(|member| matches!(member.need, Need::Required))
        .map(|member| member.name)
        .collect();
    let mut object = json!({"type": "object", "properties": properties});
    if !names.is_empty()
        && let Value::Object(keywords) = &mut object
    {
        keywords.insert("required".into(), names.into());
    }
    object
}

fn shape_schema(shape: Shape) -> Value {
    match shape {
        Shape::Any => json!({}),
        Shape::Text => json!({"type": "string"}),
        Shape::ScalarText => json!({"type": ["string", "number", "boolean"]}),
        Shape::Instant => json!({"type": "string", "format": "date-time"}),
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Integer => json!({"type": "integer"}),
        Shape::App => json!({"anyOf": [{"type": "string"}, schema(APP_MEMBERS)]}),
        Shape::Map => json!({"type": "object"}),
        Shape::TextMap => {
            json!({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}})
        }
        Shape::MapOf(inner) => json!({"type": "object", "additionalProperties": shape_schema(*inner)}),
        Shape::List(inner) => json!({"type": "array", "items": shape_schema(*inner)}),
        Shape::Members(members) => schema(members),
        Shape::OrNull(inner) => json!({"anyOf": [shape_schema(*inner), {"type": "null"}]}),
        Shape::Either(first, second) => json!({"anyOf": [shape_schema(*first), shape_schema(*second)]}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: &[Member] = &[
        required("pattern", Shape::Text),
        default("count", Shape::Integer, "4"),
        default("settings", Shape::TextMap, "{}"),
        optional("repos", Shape::List(&Shape::Members(&[required("url", Shape::Text)]))),
    ];

    fn checked(given: Value, strictness: Strictness) -> Result<Value, String> {
        let Value::Object(given) = given else { panic!("an object") };
        check(given, MEMBERS, strictness).map(Value::Object).map_err(|fault| fault.to_string())
    }

    #[test]
    fn eval_22_messages_start_with_the_path() {
        let message = |given| checked(given, Strictness::Lenient).unwrap_err();
        assert_eq!(message(json!({})), "InvalidInput: pattern: required member is missing");
        assert_eq!(message(json!({"pattern": 1})), "InvalidInput: pattern: expected text, got a number");
        assert_eq!(
            message(json!({"pattern": "", "repos": [{"url": "u"}, {}]})),
            "InvalidInput: repos[1].url: required member is missing"
        );
    }

    #[test]
    fn eval_60_scalars_of_settings_are_text() {
        let given = json!({"pattern": "", "settings": {"a": true, "b": 3}, "count": 2.0});
        let seen = checked(given, Strictness::Strict).unwrap();
        assert_eq!(seen, json!({"pattern": "", "settings": {"a": "true", "b": "3"}, "count": 2}));
    }

    #[test]
    fn eval_9_unknown_members_are_refused_only_when_strict() {
        let given = json!({"pattern": "", "repos": [{"url": "u", "x": 1}]});
        assert!(checked(given.clone(), Strictness::Lenient).is_ok());
        assert_eq!(
            checked(given, Strictness::Strict).unwrap_err(),
            "InvalidInput: unknown member \"repos[0].x\""
        );
    }
}
