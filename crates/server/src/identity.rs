//! Who calls.

use serde_json::{Map, Value};

/// Who issues the tokens of local accounts and projects (API-35).
const OWN_ISSUER: &str = "argocd";

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
        match self {
            Self::Anonymous => false,
            Self::Known(claims) => *claims != Claims::expired_sso(),
            Self::Unchecked => true,
        }
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

    /// What is left of a token of an identity provider that is over (API-65).
    pub(crate) fn expired_sso() -> Self {
        Self(Map::from_iter([("iss".to_owned(), Value::from("sso"))]))
    }

    /// One claim that is a text; empty when it is none.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Who it is: what an identity provider's connector says, else the subject (API-53).
    pub fn identifier(&self) -> &str {
        let federated = self.0.get("federated_claims").and_then(|claims| claims.get("user_id"));
        match federated.and_then(Value::as_str) {
            Some(id) if !id.is_empty() => id,
            _ => self.text("sub"),
        }
    }

    /// The name that people know: an account, or the mail address that an identity provider tells (API-53).
    pub fn username(&self) -> String {
        let mail = if self.text("iss") == OWN_ISSUER { "" } else { self.text("email") };
        if mail.is_empty() { self.identifier().to_owned() } else { mail.to_owned() }
    }

    /// The local account, if it is one and no project's token.
    pub fn own_account(&self) -> Option<&str> {
        let name = self.identifier();
        let is_account = self.text("iss") == OWN_ISSUER && !name.is_empty() && !name.starts_with("proj:");
        is_account.then_some(name)
    }

    /// The groups, from the claims that hold some (API-67).
    pub fn groups<'s>(&self, scopes: impl IntoIterator<Item = &'s str>) -> Vec<String> {
        let mut groups = Vec::new();
        for claim in scopes.into_iter().filter_map(|scope| self.0.get(scope)) {
            match claim {
                Value::String(group) => groups.push(group.clone()),
                Value::Array(all) => groups.extend(all.iter().filter_map(Value::as_str).map(str::to_owned)),
                _ => {}
            }
        }
        groups
    }

    /// All claims.
    pub fn all(&self) -> &Map<String, Value> {
        &self.0
    }
}
