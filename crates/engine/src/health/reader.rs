//! Reads members the way a typed decoder does: absent is fine, the wrong type is an error (ENG-97).

use serde_json::Value;
use tiphys_object::access;

use super::{Health, HealthCode, HealthError};

/// A live object as one rule reads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    pub(super) object: &'a Value,
}

/// What a rule yields.
pub(super) type Verdict = Result<Option<Health>, HealthError>;

#[expect(clippy::unnecessary_wraps, reason = "rules end with a verdict, and some of them can fail")]
pub(super) fn verdict(status: HealthCode, message: impl Into<String>) -> Verdict {
    Ok(Some(Health::new(status, message)))
}

impl<'a> Reader<'a> {
    fn wrong(self, path: &[&str], wanted: &str) -> HealthError {
        let kind = access::text(self.object, "kind");
        HealthError {
            message: format!(
                "failed to convert unstructured {kind} to typed: {} is no {wanted}",
                path.join(".")
            ),
        }
    }

    fn present(self, path: &[&str]) -> Option<&'a Value> {
        access::at(self.object, path).filter(|value| !value.is_null())
    }

    /// An integer, `None` when absent.
    pub(super) fn integer(self, path: &[&str]) -> Result<Option<i64>, HealthError> {
        let Some(value) = self.present(path) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| self.wrong(path, "integer"))
    }

    /// An integer, 0 when absent.
    pub(super) fn count(self, path: &[&str]) -> Result<i64, HealthError> {
        Ok(self.integer(path)?.unwrap_or(0))
    }

    /// A text, empty when absent.
    pub(super) fn text(self, path: &[&str]) -> Result<&'a str, HealthError> {
        let Some(value) = self.present(path) else { return Ok("") };
        value.as_str().ok_or_else(|| self.wrong(path, "text"))
    }

    /// A flag, false when absent.
    pub(super) fn flag(self, path: &[&str]) -> Result<bool, HealthError> {
        let Some(value) = self.present(path) else { return Ok(false) };
        value.as_bool().ok_or_else(|| self.wrong(path, "boolean"))
    }

    /// A list, empty when absent.
    pub(super) fn list(self, path: &[&str]) -> Result<&'a [Value], HealthError> {
        let Some(value) = self.present(path) else { return Ok(&[]) };
        value.as_array().map(Vec::as_slice).ok_or_else(|| self.wrong(path, "list"))
    }

    /// `metadata.generation`.
    pub(super) fn generation(self) -> Result<i64, HealthError> {
        self.count(&["metadata", "generation"])
    }

    /// `status.observedGeneration`.
    pub(super) fn observed(self) -> Result<i64, HealthError> {
        self.count(&["status", "observedGeneration"])
    }

    /// `status.conditions`.
    pub(super) fn conditions(self) -> Result<&'a [Value], HealthError> {
        self.list(&["status", "conditions"])
    }
}
