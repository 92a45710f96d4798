//! Conditions of triggers (NTF-100..104).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha1::{Digest as _, Sha1};
use tiphys_go::expr::{Environment, ExprError, Program, Run};

/// One condition of a trigger.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The expression, as written; empty when there is none, which is never true.
    pub when: String,
    /// The expression whose value a notification is sent once for, as written.
    pub once_per: String,
    /// What it is for, in the words of who wrote it.
    pub description: String,
    /// The templates that are sent.
    pub send: Vec<String>,
    program: Option<Arc<Program>>,
    once: Option<Arc<Program>>,
}

/// What a condition came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Which condition of the trigger.
    pub index: usize,
    /// Its key in the state (NTF-101).
    pub key: String,
    /// The expression.
    pub when: String,
    /// Whether it is true.
    pub is_triggered: bool,
    /// The value it is sent once for; empty when there is none.
    pub once_per: String,
    /// The templates that are sent.
    pub templates: Vec<String>,
    /// Why it cannot be told, which counts as not true (NTF-102).
    pub error: Option<String>,
}

impl Condition {
    /// Compiles a condition; `when` and `oncePer` may be any scalar of YAML (NTF-100).
    ///
    /// # Errors
    /// When a member has another type, or an expression does not compile.
    pub(crate) fn read(value: &Value) -> Result<Self, String> {
        let members = value.as_object().ok_or("a condition is a map with when and send")?;
        let scalar = |name: &str| match members.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Bool(truth)) => Ok(truth.to_string()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(_) => Err(format!("{name} is no text")),
        };
        Self::new(
            scalar("when")?,
            scalar("oncePer")?,
            scalar("description")?,
            texts(members.get("send"), "send")?,
        )
    }

    /// Compiles a condition.
    ///
    /// # Errors
    /// When an expression does not compile.
    pub(crate) fn new(
        when: String,
        once_per: String,
        description: String,
        send: Vec<String>,
    ) -> Result<Self, String> {
        let compile = |text: &str| {
            let compiled = (!text.is_empty()).then(|| Program::new(text).map(Arc::new)).transpose();
            compiled.map_err(|error: ExprError| error.to_string())
        };
        Ok(Self { program: compile(&when)?, once: compile(&once_per)?, when, once_per, description, send })
    }

    /// Its key in the state: the number of the condition and a digest of its text (NTF-101).
    #[must_use]
    pub fn key(&self, index: usize) -> String {
        format!("[{index}].{}", URL_SAFE_NO_PAD.encode(Sha1::digest(self.when.as_bytes())))
    }

    fn outcome(&self, index: usize, environment: &Environment, run: &Run) -> Outcome {
        let (is_triggered, error) = match &self.program {
            None => (false, None),
            Some(program) => match program.run(environment, run) {
                Ok(value) => (value.as_bool() == Some(true), None),
                Err(error) => (false, Some(error.to_string())),
            },
        };
        let once = self.once.as_ref().filter(|_| is_triggered);
        // An expression that fails is as none (NTF-103).
        let once_per = once.and_then(|once| once.run(environment, run).ok());
        Outcome {
            index,
            key: self.key(index),
            when: self.when.clone(),
            is_triggered,
            once_per: once_per.map(|value| value.to_string()).unwrap_or_default(),
            templates: self.send.clone(),
            error,
        }
    }
}

/// Evaluates the conditions of a trigger, in order. No state is asked.
#[must_use]
pub fn evaluate(conditions: &[Condition], environment: &Environment, run: &Run) -> Vec<Outcome> {
    conditions
        .iter()
        .enumerate()
        .map(|(index, condition)| condition.outcome(index, environment, run))
        .collect()
}

/// A list of texts; nothing and null are an empty one.
pub(crate) fn texts(value: Option<&Value>, name: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("{name} is no list of texts");
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ntf_101_keys_are_digests_of_the_text() {
        let condition =
            |when: &str| Condition::new(when.into(), String::new(), String::new(), vec![]).unwrap();
        assert_eq!(condition("true").key(0), "[0].X_5TO4MPCKAyY0ipFgr6_IraRNs");
        assert_eq!(condition("").key(0), "[0].2jmj7l5rSw0yVb_vlWAYkK_YBwk");
    }

    #[test]
    fn ntf_102_errors_and_other_values_do_not_trigger() {
        let all = ["app.a.b == 1", "1", "true", ""]
            .map(|when| Condition::new(when.into(), "nil".into(), String::new(), vec![]).unwrap());
        let outcomes = evaluate(&all, &Environment::new(), &Run::default());
        let found: Vec<(bool, bool, &str)> = outcomes
            .iter()
            .map(|outcome| (outcome.is_triggered, outcome.error.is_some(), outcome.once_per.as_str()))
            .collect();
        assert_eq!(
            found,
            [(false, true, ""), (false, false, ""), (true, false, "<nil>"), (false, false, "")]
        );
    }

    #[test]
    fn ntf_100_scalars_are_expressions() {
        let condition = Condition::read(&serde_json::json!({"when": true, "send": ["a"]})).unwrap();
        assert_eq!((condition.when.as_str(), condition.send.as_slice()), ("true", &["a".to_owned()][..]));
        assert!(Condition::read(&serde_json::json!({"when": "1 +"})).is_err());
        assert!(Condition::read(&serde_json::json!({"send": "a"})).is_err());
    }
}
