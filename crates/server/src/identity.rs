//! Who calls.

use serde_json::{Map, Value};

/// Who calls, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Identity {
    /// Nobody asked: authentication is switched off, and everything is allowed (API-32).
    Unchecked,
    /// Nobody in particular: without a valid token, where that is enough (API-30, API-31).
    #[default]
    Anonymous,
    /// The bearer of a valid token.
    Known(Claims),
}

impl Identity {
    /// What the token says.
    pub fn claims(&self) -> Option<&Claims> {
        match self {
            Self::Known(claims) => Some(claims),
            Self::Unchecked | Self::Anonymous => None,
        }
    }

    /// Whether more than a megabyte may be sent.
    pub fn is_trusted(&self) -> bool {
        !matches!(self, Self::Anonymous)
    }
}

/// The claims of a token that was verified.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claims(Map<String, Value>);

impl Claims {
    /// Takes the claims of a token that was verified.
    pub fn new(claims: Map<String, Value>) -> Self {
        Self(claims)
    }

    /// One claim that is a text; empty when it is none.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// All claims.
    pub fn all(&self) -> &Map<String, Value> {
        &self.0
    }
}
