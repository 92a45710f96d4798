//! What is said between a process that needs programs run and one that runs them: a question is one message, its
//! answers are one message each, in order. JSON, because both sides are the same binary and documents are JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DataScript, HealthScript, InProcess, Paths, ScriptFault, Scripts as _};
use crate::health::{Health, HealthCode, HealthError};
use crate::normalize::delete_paths;

/// A question.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Question<'a> {
    /// Does this expression compile?
    Check(Cow<'a, str>),
    /// What do these expressions name?
    Paths { expressions: Vec<Cow<'a, str>>, document: Cow<'a, Value> },
    /// What does this script say of the object?
    Health { text: Cow<'a, str>, open_libraries: bool, now: Option<Timestamp>, object: Cow<'a, Value> },
    /// What does this script make of the object?
    Data {
        text: Cow<'a, str>,
        params: Option<Cow<'a, BTreeMap<String, String>>>,
        now: Option<Timestamp>,
        object: Cow<'a, Value>,
    },
}

/// An answer: the result, the program's own error, or the bound that stopped it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Answer {
    Fine,
    Paths(Paths),
    Health(Option<(Cow<'static, str>, String)>),
    Data(Value),
    Failed(String),
    Stopped(String),
}

impl From<ScriptFault> for Answer {
    fn from(fault: ScriptFault) -> Self {
        match fault {
            ScriptFault::Failed(reason) => Self::Failed(reason),
            ScriptFault::Stopped(reason) => Self::Stopped(reason),
        }
    }
}

/// The question whether an expression compiles; one answer.
pub fn ask_check(expression: &str) -> Vec<u8> {
    written(&Question::Check(expression.into()))
}

/// The question what expressions name; one answer each.
pub fn ask_paths(expressions: &[&str], document: &Value) -> Vec<u8> {
    let expressions = expressions.iter().map(|expression| (*expression).into()).collect();
    written(&Question::Paths { expressions, document: Cow::Borrowed(document) })
}

/// The question what a script says of an object; one answer.
pub fn ask_health(script: HealthScript<'_>, object: &Value) -> Vec<u8> {
    written(&Question::Health {
        text: script.text.into(),
        open_libraries: script.open_libraries,
        now: script.now,
        object: Cow::Borrowed(object),
    })
}

/// The question what a script makes of an object; one answer.
pub fn ask_data(script: DataScript<'_>, object: &Value) -> Vec<u8> {
    written(&Question::Data {
        text: script.text.into(),
        params: script.params.map(Cow::Borrowed),
        now: script.now,
        object: Cow::Borrowed(object),
    })
}

/// Reads the answer to [`ask_check`].
///
/// # Errors
/// When the expression does not compile: [`ScriptFault::Failed`] with what is wrong with it.
pub fn read_check(answer: &[u8]) -> Result<(), ScriptFault> {
    match read(answer) {
        Answer::Fine => Ok(()),
        other => Err(fault(other)),
    }
}

/// Reads one of the answers to [`ask_paths`].
///
/// # Errors
/// When the expression failed or was stopped.
pub fn read_paths(answer: &[u8]) -> Result<Paths, ScriptFault> {
    match read(answer) {
        Answer::Paths(paths) => Ok(paths),
        other => Err(fault(other)),
    }
}

/// Reads the answer to [`ask_data`].
///
/// # Errors
/// When the script failed.
pub fn read_data(answer: &[u8]) -> Result<Value, ScriptFault> {
    match read(answer) {
        Answer::Data(value) => Ok(value),
        other => Err(fault(other)),
    }
}

/// Reads the answer to [`ask_health`].
///
/// # Errors
/// When the script failed.
pub fn read_health(answer: &[u8]) -> Result<Option<Health>, HealthError> {
    match read(answer) {
        Answer::Health(None) => Ok(None),
        Answer::Health(Some((status, message))) => match HealthCode::parse(&status) {
            Some(status) => Ok(Some(Health { status, message })),
            None => Err(HealthError { message: MISFIT.to_owned() }),
        },
        other => Err(HealthError { message: fault(other).to_string() }),
    }
}

/// Answers one question. `answered` is given each answer as soon as it is known; when it says no, the rest is left.
pub fn answer(question: &[u8], mut answered: impl FnMut(Vec<u8>) -> bool) {
    match serde_json::from_slice::<Question<'_>>(question) {
        Ok(Question::Check(expression)) => {
            let found = InProcess.check_jq(&expression);
            answered(written(&found.map_or_else(Answer::Failed, |()| Answer::Fine)));
        }
        Ok(Question::Paths { expressions, document }) => {
            let mut document = document.into_owned();
            for expression in &expressions {
                let found = InProcess.jq_paths(&[expression], &document).pop();
                let answer = match found {
                    Some(Ok(paths)) => {
                        delete_paths(&mut document, &paths);
                        Answer::Paths(paths)
                    }
                    Some(Err(fault)) => fault.into(),
                    None => Answer::Stopped(MISFIT.to_owned()),
                };
                if !answered(written(&answer)) {
                    return;
                }
            }
        }
        Ok(Question::Health { text, open_libraries, now, object }) => {
            let script = HealthScript { text: &text, open_libraries, now };
            let answer = match InProcess.health(script, &object) {
                Ok(health) => {
                    Answer::Health(health.map(|found| (found.status.as_str().into(), found.message)))
                }
                Err(error) => Answer::Failed(error.message),
            };
            answered(written(&answer));
        }
        Ok(Question::Data { text, params, now, object }) => {
            let script = DataScript { text: &text, params: params.as_deref(), now };
            let found = InProcess.data(script, &object);
            answered(written(&found.map_or_else(Answer::from, Answer::Data)));
        }
        Err(error) => {
            // The program did not run.
            answered(written(&Answer::Stopped(format!("the object or the program cannot be read: {error}"))));
        }
    }
}

const MISFIT: &str = "its result does not fit the question";

fn read(answer: &[u8]) -> Answer {
    serde_json::from_slice(answer)
        .unwrap_or_else(|error| Answer::Stopped(format!("its result cannot be read: {error}")))
}

/// The fault of an answer that has no result, or another one than was asked for. What the program did not cause is no
/// failure of it, so that it is not dropped like one.
fn fault(answer: Answer) -> ScriptFault {
    match answer {
        Answer::Failed(reason) => ScriptFault::Failed(reason),
        Answer::Stopped(reason) => ScriptFault::Stopped(reason),
        Answer::Fine | Answer::Paths(_) | Answer::Health(_) | Answer::Data(_) => {
            ScriptFault::Stopped(MISFIT.to_owned())
        }
    }
}

fn written(message: &impl Serialize) -> Vec<u8> {
    // Only maps with keys that are no text fail here, and there are none; an empty message cannot be read.
    serde_json::to_vec(message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answers(question: &[u8]) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        answer(question, |one| {
            all.push(one);
            true
        });
        all
    }

    #[test]
    fn eng_69_paths_cross_the_wire() {
        let document = json!({"l": [{"a": 1}, {"a": 2}], "1": true});
        let expressions = [".l[].a", ".[\"1\"]", "error(\"x\")", ".l[0]"];
        let found = answers(&ask_paths(&expressions, &document));
        let here = InProcess.jq_paths(&expressions, &document);
        assert_eq!(found.iter().map(|one| read_paths(one)).collect::<Vec<_>>(), here);
        assert!(here[2].is_err() && here[3].is_ok());
        let fault = read_check(&answers(&ask_check(".a["))[0]).unwrap_err();
        assert!(matches!(fault, ScriptFault::Failed(reason) if reason.contains("expected")));
        assert_eq!(read_check(&answers(&ask_check(".a"))[0]), Ok(()));
    }

    #[test]
    fn eng_132_verdicts_cross_the_wire() {
        let object = json!({"status": {"n": 3}});
        let now = Some("2026-01-02T03:04:05Z".parse().unwrap());
        for text in [
            "return {status = 'Degraded', message = tostring(obj.status.n)}",
            "return {}",
            "error('boom')",
            "return {status = 'Healthy', message = os.date('!%H:%M')}",
        ] {
            let script = HealthScript { text, open_libraries: true, now };
            let found = answers(&ask_health(script, &object));
            assert_eq!(read_health(&found[0]), InProcess.health(script, &object), "{text}");
        }
        let params = BTreeMap::from([("n".to_owned(), "3".to_owned())]);
        for text in ["return {a = {}, b = actionParams.n, c = obj.status.n}", "", "return 1", "error('boom')"]
        {
            let script = DataScript { text, params: Some(&params), now };
            assert_eq!(
                read_data(&answers(&ask_data(script, &object))[0]),
                InProcess.data(script, &object),
                "{text}"
            );
        }
        assert!(read_data(&answers(&ask_check(".a"))[0]).is_err());
        assert!(read_health(b"{").is_err());
        assert!(read_paths(&answers(b"nonsense")[0]).is_err());
    }

    /// What the program did not cause was dropped like a failure of the program, without a condition.
    #[test]
    fn eng_69_faults_between_processes_stop_a_program() {
        let mut deep = json!(1);
        for _ in 0..200 {
            deep = json!([deep]);
        }
        let expressions = [
            ".a",
            "select((reduce range(49000) as $i (0; [.]) | length) == 0)",
            "select([range(1; 60000)] == [])",
        ];
        for (question, reason) in [
            (ask_paths(&expressions[..1], &deep), "cannot be read"),
            (ask_paths(&expressions[1..2], &json!({"a": 1})), "nested more than 1000 levels deep"),
            (ask_paths(&expressions[2..], &json!({"a": 1})), "too many steps"),
        ] {
            let found = read_paths(&answers(&question)[0]);
            assert!(matches!(&found, Err(ScriptFault::Stopped(text)) if text.contains(reason)), "{found:?}");
        }
        for answer in [&b"{"[..], b"\"fine\""] {
            assert!(matches!(read_paths(answer), Err(ScriptFault::Stopped(_))));
            assert!(matches!(read_data(answer), Err(ScriptFault::Stopped(_))));
        }
        let here = InProcess.jq_paths(&expressions[1..2], &json!({"a": 1})).remove(0);
        assert_eq!(here, read_paths(&answers(&ask_paths(&expressions[1..2], &json!({"a": 1})))[0]));
    }
}
