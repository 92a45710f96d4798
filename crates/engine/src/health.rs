//! Judges one live object: built-in rules, shipped rules, and the user's Lua (ENG section 6).
//!
//! [`evaluate`] is the whole decision in the order of ENG-97; [`assess`] is the same with a failing rule turned
//! into `Unknown`, which is what everybody but the sync engine wants. [`HealthOverrides`] is the user's part,
//! read from `argocd-cm` once and shared. Scripts run in a fresh machine with budgets in steps and bytes, so
//! this module needs no clock.

use std::fmt;

use serde_json::Value;

/// Health codes, best to worst (ENG-96): "worse" means greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HealthCode {
    /// Works.
    Healthy,
    /// Stopped on purpose.
    Suspended,
    /// On its way.
    Progressing,
    /// Not there.
    Missing,
    /// Does not work.
    Degraded,
    /// Could not be judged.
    Unknown,
}

impl HealthCode {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Suspended => "Suspended",
            Self::Progressing => "Progressing",
            Self::Missing => "Missing",
            Self::Degraded => "Degraded",
            Self::Unknown => "Unknown",
        }
    }

    /// Reads the name on the wire.
    pub fn parse(text: &str) -> Option<Self> {
        use HealthCode::{Degraded, Healthy, Missing, Progressing, Suspended, Unknown};
        [Healthy, Suspended, Progressing, Missing, Degraded, Unknown]
            .into_iter()
            .find(|code| code.as_str() == text)
    }
}

impl fmt::Display for HealthCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A verdict with its reason; the message is empty when there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The verdict.
    pub status: HealthCode,
    /// The reason, for people.
    pub message: String,
}

impl Health {
    /// Makes a verdict.
    pub fn new(status: HealthCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

/// Why an object could not be judged; the text is what users see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HealthError {
    /// Single-line text of the failing rule.
    pub message: String,
}

/// The user's health rules (ENG-98).
#[derive(Clone, Debug, Default)]
pub struct HealthOverrides {}

impl HealthOverrides {
    /// Reads them from the data of `argocd-cm`, map form and split keys (ENG-66).
    ///
    /// # Errors
    /// When the settings are malformed.
    pub fn from_settings(settings: &std::collections::BTreeMap<String, String>) -> Result<Self, HealthError> {
        let _ = settings;
        Ok(Self {})
    }
}

/// Health of a live object; `None` when its kind has none. A failing rule is an error.
///
/// # Errors
/// When the rule of its kind failed.
pub fn evaluate(live: &Value, overrides: &HealthOverrides) -> Result<Option<Health>, HealthError> {
    let _ = (live, overrides);
    Ok(None)
}

/// Health of a live object; `None` when its kind has none. A failing rule reads as `Unknown` (ENG-97).
pub fn assess(live: &Value, overrides: &HealthOverrides) -> Option<Health> {
    evaluate(live, overrides).unwrap_or_else(|error| Some(Health::new(HealthCode::Unknown, error.message)))
}
