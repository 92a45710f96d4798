//! Refusals, as the status object that an API server answers with.

use serde_json::{Map, Value, json};

/// One reason in the details of a [`Status`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable reason, for example `FieldValueRequired`.
    pub reason: String,
    /// What a person reads.
    pub message: String,
    /// Path of the field, for example `spec.replicas`; empty without one.
    pub field: String,
}

/// A member of an object that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// `FieldValueRequired`, `FieldValueInvalid`, `FieldValueNotSupported`, `FieldValueForbidden`,
    /// `FieldValueDuplicate`, `FieldValueTooLong`, `FieldValueTooMany`, `FieldValueTypeInvalid`, …
    pub reason: &'static str,
    /// Path of the field.
    pub field: String,
    /// Text behind the path, for example `Invalid value: "A": must be …` or `Required value`.
    pub message: String,
}

/// A `Status` object: why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// HTTP code.
    pub code: u16,
    /// Machine-readable reason, for example `NotFound`; empty where a server gives none.
    pub reason: &'static str,
    /// What a person reads.
    pub message: String,
    /// `details` of the object; an empty map is left out unless the status is a generic one.
    pub details: Map<String, Value>,
    shape: Shape,
    /// Texts of `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

/// How a refusal is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shape {
    #[default]
    Object,
    /// With details also when there are none, as the machinery in front of all resources answers.
    Detailed,
    /// The message and nothing else.
    Text,
}

impl Status {
    /// A status without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Map::new(),
            shape: Shape::Object,
            warnings: Vec::new(),
        }
    }

    /// The same with details, though there is nothing in them.
    #[must_use]
    pub(crate) fn detailed(mut self) -> Self {
        self.shape = Shape::Detailed;
        self
    }

    /// The text that stands for the object where nobody answers.
    pub(crate) fn as_text(&self) -> Option<&str> {
        (self.shape == Shape::Text).then_some(self.message.as_str())
    }

    /// The object on the wire.
    pub(crate) fn to_value(&self) -> Value {
        let mut object = Map::new();
        object.insert("kind".to_owned(), json!("Status"));
        object.insert("apiVersion".to_owned(), json!("v1"));
        object.insert("metadata".to_owned(), json!({}));
        object.insert("status".to_owned(), json!("Failure"));
        object.insert("message".to_owned(), json!(self.message));
        if !self.reason.is_empty() {
            object.insert("reason".to_owned(), json!(self.reason));
        }
        if !self.details.is_empty() || self.shape == Shape::Detailed {
            object.insert("details".to_owned(), Value::Object(self.details.clone()));
        }
        object.insert("code".to_owned(), json!(self.code));
        Value::Object(object)
    }

    /// With the object that the request was about.
    #[must_use]
    pub(crate) fn about(mut self, name: &str, group: &str, kind: &str) -> Self {
        for (member, text) in [("name", name), ("group", group), ("kind", kind)] {
            if !text.is_empty() {
                self.details.insert(member.to_owned(), json!(text));
            }
        }
        self
    }

    /// With causes.
    #[must_use]
    pub(crate) fn caused_by(mut self, causes: impl IntoIterator<Item = Cause>) -> Self {
        let causes: Vec<Value> = causes
            .into_iter()
            .map(|cause| {
                let mut value = Map::new();
                for (member, text) in
                    [("reason", cause.reason), ("message", cause.message), ("field", cause.field)]
                {
                    if !text.is_empty() {
                        value.insert(member.to_owned(), json!(text));
                    }
                }
                Value::Object(value)
            })
            .collect();
        if !causes.is_empty() {
            self.details.insert("causes".to_owned(), Value::Array(causes));
        }
        self
    }

    /// `404`: no such object.
    pub(crate) fn not_found(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {name:?} not found", qualified(group, plural));
        Self::new(404, "NotFound", message).about(name, group, plural)
    }

    /// `404`: nothing is served there.
    pub(crate) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").detailed()
    }

    /// `404`: not even a group of resources is there.
    pub(crate) fn no_such_page() -> Self {
        Self { shape: Shape::Text, ..Self::new(404, "", "404 page not found\n") }
    }

    /// `422` to a patch that cannot be carried out.
    pub(crate) fn rejected() -> Self {
        Self::new(422, "Invalid", "the server rejected our request due to an error in our request").detailed()
    }

    /// `409`: the name is taken.
    pub(crate) fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", qualified(group, plural));
        Self::new(409, "AlreadyExists", message).about(name, group, plural)
    }

    /// `409`: the object is not as the caller believes.
    pub(crate) fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualified(group, plural));
        Self::new(409, "Conflict", message).about(name, group, plural)
    }

    /// `400`.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// `410`: what was asked for is too old.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// `422`: the object breaks rules. `kind` is the kind, not the plural.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        // Equal texts are told once; their causes all stay.
        let mut texts: Vec<String> = Vec::new();
        for text in errors.iter().map(FieldError::to_string) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let why = match texts.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {why}", qualified(group, kind));
        let causes = errors.iter().map(|error| Cause {
            reason: error.reason.to_owned(),
            message: error.message.clone(),
            field: error.field.clone(),
        });
        Self::new(422, "Invalid", message).about(name, group, kind).caused_by(causes)
    }
}

impl FieldError {
    /// `Required value`, with more text where there is some.
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message =
            if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self { reason: "FieldValueRequired", field: field.into(), message }
    }

    /// `Invalid value: …`.
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {value}: {detail}");
        Self { reason: "FieldValueInvalid", field: field.into(), message }
    }

    /// `Unsupported value: …`.
    pub(crate) fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let listed: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        let message = if listed.is_empty() {
            format!("Unsupported value: {value}")
        } else {
            format!("Unsupported value: {value}: supported values: {}", listed.join(", "))
        };
        Self { reason: "FieldValueNotSupported", field: field.into(), message }
    }

    /// `Forbidden: …`.
    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self { reason: "FieldValueForbidden", field: field.into(), message: format!("Forbidden: {detail}") }
    }

    /// `Duplicate value: …`.
    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        let message = format!("Duplicate value: {value}");
        Self { reason: "FieldValueDuplicate", field: field.into(), message }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// `plural.group`, or only the plural in the core group.
fn qualified(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}
