//! What a service returns, as parameters (ASET-68..70).
//!
//! Who calls the service gets from here where it is ([`PluginConfig`]), what it is sent ([`plugin_body`]) and what its
//! answer means ([`plugin_parameters`]).

use std::time::Duration;

use serde_json::{Map, Value, json};
use tiphys_go::json as go_json;
use tiphys_go::nesting;

use super::{GenerateError, Run, unread_refusal};
use crate::facts::{PluginQuestion, TextMap};
use crate::generator::Kind;
use crate::params::{self, Params};

/// Path of the call, below the base URL.
pub const PLUGIN_PATH: &str = "api/v1/getparams.execute";
/// What the call says it is.
pub const PLUGIN_USER_AGENT: &str = "argocd-applicationset";
/// Seconds of a call where nothing else is written.
const TIMEOUT_SECONDS: u64 = 30;
/// Bytes of an error that are shown.
const ERROR_BYTES_MAX: usize = 1_000;

/// Why a plugin gives nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// A key of the `ConfigMap` is missing.
    #[error("{0} not found in ConfigMap")]
    Missing(&'static str),
    /// The token is no reference (ASET-68).
    #[error("token is empty, or does not reference a secret key starting with '$'")]
    Token,
    /// The time is no number.
    #[error("error parsing requestTimeout {0:?}: it is no whole number of seconds")]
    Timeout(String),
    /// The service answered with a failure.
    #[error("API error with status code {status}: {what}")]
    Status {
        /// Status of the answer.
        status: u16,
        /// What it says.
        what: String,
    },
    /// The answer cannot be read.
    #[error("the answer of the plugin cannot be read: {0}")]
    Answer(String),
}

/// Where the token of a plugin is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenReference {
    /// A key of `argocd-secret`.
    Own {
        /// The key.
        key: String,
    },
    /// A key of another Secret of the control plane's namespace.
    Of {
        /// Name of the Secret.
        secret: String,
        /// The key.
        key: String,
    },
}

/// Where a plugin is, and how it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginConfig {
    /// Base URL.
    pub base_url: String,
    /// Token.
    pub token: TokenReference,
    /// Longest call.
    pub timeout: Duration,
}

impl PluginConfig {
    /// Reads the data of the `ConfigMap` (ASET-68).
    ///
    /// # Errors
    /// When something is missing or not what it should be.
    pub fn read(data: &TextMap) -> Result<Self, PluginError> {
        let base_url = data.get("baseUrl").ok_or(PluginError::Missing("baseUrl"))?;
        let token = data.get("token").ok_or(PluginError::Missing("token"))?;
        // The text may be a token itself, written by mistake: it is not shown.
        let reference = token.strip_prefix('$').filter(|rest| !rest.is_empty());
        let reference = reference.ok_or(PluginError::Token)?;
        let token = match reference.split_once(':') {
            Some((secret, key)) => TokenReference::Of { secret: secret.to_owned(), key: key.to_owned() },
            None => TokenReference::Own { key: reference.to_owned() },
        };
        let timeout = match data.get("requestTimeout").map(String::as_str) {
            None | Some("") => TIMEOUT_SECONDS,
            Some(text) => match text.parse::<u64>() {
                Ok(0) => TIMEOUT_SECONDS,
                Ok(seconds) => seconds,
                Err(_) => return Err(PluginError::Timeout(text.to_owned())),
            },
        };
        Ok(Self { base_url: base_url.clone(), token, timeout: Duration::from_secs(timeout) })
    }
}

/// Where the call goes: exactly one slash joins (ASET-69).
pub fn plugin_url(base_url: &str) -> String {
    format!("{}/{PLUGIN_PATH}", base_url.trim_end_matches('/'))
}

/// What is sent; keys sorted, nothing escaped for HTML (ASET-69).
pub fn plugin_body(question: &PluginQuestion) -> String {
    let body = json!({
        "applicationSetName": question.set,
        "input": {"parameters": params::for_json(Value::Object(question.parameters.clone()))},
    });
    go_json::to_string_unescaped(&body)
}

/// What an answer means (ASET-69).
///
/// # Errors
/// When it is a failure or cannot be read.
pub fn plugin_parameters(status: u16, body: &[u8]) -> Result<Vec<Params>, PluginError> {
    if !(200..300).contains(&status) {
        return Err(PluginError::Status { status, what: failure_of(body) });
    }
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let answer = |why: String| PluginError::Answer(why);
    nesting::check(body).map_err(|error| answer(error.to_string()))?;
    let value = go_json::decode_go(body).map_err(|error| answer(error.to_string()))?;
    let members = |value: &Value, what: &str| match value {
        Value::Null | Value::Object(_) => Ok(()),
        _ => Err(answer(format!("{what} is no object"))),
    };
    members(&value, "it")?;
    let output = value.get("output").cloned().unwrap_or_default();
    members(&output, "output")?;
    let sets = match output.get("parameters") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(sets)) => sets,
        Some(_) => return Err(answer("output.parameters is no list".to_owned())),
    };
    let set = |set: &Value| match set {
        Value::Object(set) => Ok(set.clone()),
        Value::Null => Ok(Params::new()),
        _ => Err(answer("a member of output.parameters is no object".to_owned())),
    };
    sets.iter().map(set).collect()
}

/// The message of a failure, or what else the answer says.
fn failure_of(body: &[u8]) -> String {
    let value =
        go_json::decode_go(body.get(..body.len().min(1 << 20)).unwrap_or_default()).unwrap_or_default();
    let field = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let text = match field("message").or_else(|| field("error")) {
        Some(text) => text.to_owned(),
        None => String::from_utf8_lossy(body).into_owned(),
    };
    crate::text::cut(&text, ERROR_BYTES_MAX)
}

pub(super) fn generate(run: &mut Run<'_>, block: &Map<String, Value>) -> Result<Vec<Params>, GenerateError> {
    let name = block.get("configMapRef").and_then(|reference| reference.get("name")).and_then(Value::as_str);
    let input = block.get("input").and_then(|input| input.get("parameters")).and_then(Value::as_object);
    let question = PluginQuestion {
        config_map: name.unwrap_or("").to_owned(),
        set: run.request.set.metadata.name.clone(),
        parameters: input.cloned().unwrap_or_default(),
        access: run.scope.access(run.request.settings),
    };
    unread_refusal(&question.access, &run.references(Kind::Plugin, block))?;
    let given = run.facts.plugin(&question)?;
    let echo = params::as_floats(json!({"input": {"parameters": question.parameters}}))?;
    let mut sets = Vec::new();
    for set in given.iter() {
        let mut set = run.in_language(set.clone())?;
        // Deviation (ASET-70): in go mode what was asked is nested values, not bytes.
        set.insert("generator".to_owned(), echo.clone());
        run.add_values(block, &mut set)?;
        run.made(set, &mut sets)?;
    }
    Ok(sets)
}
