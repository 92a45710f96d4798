//! The configuration: services, triggers, templates and what stands beside them (NTF-1..7).

use std::collections::BTreeMap;

use serde_json::Value;
use tiphys_go::yaml::{self, Dialect, Limits};

use crate::catalog::catalog;
use crate::condition::{Condition, texts};
use crate::message::Notification;
use crate::subscription::Global;
use crate::{legacy, secrets};

/// Types of services (NTF-700..717).
const TYPES: [&str; 22] = [
    "alertmanager",
    "awssqs",
    "console",
    "email",
    "gcppubsub",
    "github",
    "googlechat",
    "grafana",
    "mattermost",
    "nats",
    "newrelic",
    "opsgenie",
    "pagerduty",
    "pagerdutyv2",
    "pushover",
    "rocketchat",
    "slack",
    "teams",
    "teams-workflows",
    "telegram",
    "webex",
    "webhook",
];

/// Why a configuration cannot be used at all (NTF-4).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A key that names no service.
    #[error("invalid service key; expected 'service.<type>(.<name>)' but got '{0}'")]
    ServiceKey(String),
    /// A type of service that does not exist.
    #[error("service type '{0}' is not supported")]
    ServiceType(String),
    /// The options of a service.
    #[error("failed to render service configuration {0}: {1}")]
    Service(String, String),
    /// A trigger.
    #[error("failed to unmarshal trigger {0}: {1}")]
    Trigger(String, String),
    /// A template.
    #[error("failed to unmarshal template {0}: {1}")]
    Template(String, String),
    /// Triggers of subscriptions that name none.
    #[error("failed to unmarshal default trigger {0}: {1}")]
    DefaultTriggers(String, String),
    /// Another key.
    #[error("failed to unmarshal {0}: {1}")]
    Key(String, String),
}

/// A service that notifications go through.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Its type.
    pub kind: String,
    /// Its options, references to the Secret resolved.
    pub options: Value,
}

/// A compiled configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Services by name.
    pub services: BTreeMap<String, Service>,
    /// Conditions by trigger.
    pub triggers: BTreeMap<String, Vec<Condition>>,
    /// Templates by name.
    pub templates: BTreeMap<String, Notification>,
    /// Variables of the operator's (NTF-7).
    pub context: BTreeMap<String, String>,
    /// What an operator should know; nothing is left out because of it.
    pub warnings: Vec<String>,
    pub(crate) subscriptions: Vec<Global>,
    pub(crate) default_triggers: Vec<String>,
    pub(crate) service_default_triggers: BTreeMap<String, Vec<String>>,
    /// Whether a failed delivery of a condition with `oncePer` is tried again (NTF-403).
    pub(crate) is_retried: bool,
}

impl Config {
    /// Compiles the data of the `ConfigMap` and of the Secret, all of it or nothing (NTF-4).
    ///
    /// # Errors
    /// When any part cannot be used.
    pub fn read(
        data: &BTreeMap<String, String>,
        secret: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigError> {
        let merged;
        let data = if data.get("catalog").map(String::as_str) == Some("builtin") {
            merged = catalog().into_iter().chain(data.clone()).collect();
            &merged
        } else {
            data
        };
        let mut config = Self {
            is_retried: data.get("retryOncePer").map(String::as_str) != Some("false"),
            ..Self::default()
        };
        for (key, text) in data {
            config.take(key, text, data, secret)?;
        }
        if let Some(text) = data.get("config.yaml") {
            legacy::config(&mut config, text)?;
        }
        if let Some(text) = secret.get("notifiers.yaml") {
            legacy::notifiers(&mut config, text)?;
        }
        Ok(config)
    }

    fn take(
        &mut self,
        key: &str,
        text: &str,
        data: &BTreeMap<String, String>,
        secret: &BTreeMap<String, String>,
    ) -> Result<(), ConfigError> {
        let (area, name) = key.split_once('.').unwrap_or((key, ""));
        let name = name.to_owned();
        match area {
            "service" => self.service(key, text, secret)?,
            "trigger" if !name.is_empty() => {
                let conditions = trigger(text).map_err(|error| ConfigError::Trigger(name.clone(), error))?;
                self.triggers.insert(name, conditions);
            }
            "template" if !name.is_empty() => {
                let read = parse(text).and_then(|value| Notification::read(&value));
                let template = read.map_err(|error| ConfigError::Template(name.clone(), error))?;
                self.templates.insert(name, template);
            }
            "defaultTriggers" => {
                let read = parse(text).and_then(|value| texts(Some(&value), "it"));
                let triggers = read.map_err(|error| ConfigError::DefaultTriggers(name.clone(), error))?;
                if key == "defaultTriggers" {
                    self.default_triggers = triggers;
                } else {
                    self.service_default_triggers.insert(name, triggers);
                }
            }
            "subscriptions" if name.is_empty() => {
                let is_strict = data.get("strictRecipientSplit").map(String::as_str) == Some("true");
                self.subscriptions = subscriptions(text, is_strict)
                    .map_err(|error| ConfigError::Key(key.to_owned(), error))?;
            }
            "context" if name.is_empty() => {
                let read = parse(text).and_then(|value| text_map(&value));
                self.context = read.map_err(|error| ConfigError::Key(key.to_owned(), error))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn service(
        &mut self,
        key: &str,
        text: &str,
        secret: &BTreeMap<String, String>,
    ) -> Result<(), ConfigError> {
        let parts: Vec<&str> = key.split('.').collect();
        let (kind, name) = match parts.as_slice() {
            [_, kind] => (*kind, *kind),
            [_, kind, name] => (*kind, *name),
            _ => return Err(ConfigError::ServiceKey(key.to_owned())),
        };
        let options = parse(text).map_err(|error| ConfigError::Service(kind.to_owned(), error))?;
        if !TYPES.contains(&kind) {
            return Err(ConfigError::ServiceType(kind.to_owned()));
        }
        let options = secrets::resolve(&options, secret, &mut self.warnings);
        let options = if options.is_null() { Value::Object(serde_json::Map::new()) } else { options };
        if !options.is_object() {
            return Err(ConfigError::Service(kind.to_owned(), "options are a map".to_owned()));
        }
        self.services.insert(name.to_owned(), Service { kind: kind.to_owned(), options });
        Ok(())
    }
}

/// The conditions of a trigger; a map in their place is an error (NTF-4).
fn trigger(text: &str) -> Result<Vec<Condition>, String> {
    match parse(text)? {
        Value::Null => Ok(Vec::new()),
        Value::Array(conditions) => conditions.iter().map(Condition::read).collect(),
        _ => Err("a trigger is a list of conditions".to_owned()),
    }
}

fn subscriptions(text: &str, is_strict: bool) -> Result<Vec<Global>, String> {
    match parse(text)? {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.iter().map(|item| Global::read(item, is_strict)).collect(),
        _ => Err("it is no list of subscriptions".to_owned()),
    }
}

/// YAML, as the original's library reads it.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let value = yaml::parse(text, Dialect::Sigs, &Limits::default()).map_err(|error| error.to_string())?;
    Ok(value.unwrap_or(Value::Null))
}

/// A map of texts; scalars are their text.
pub(crate) fn text_map(value: &Value) -> Result<BTreeMap<String, String>, String> {
    let members = match value {
        Value::Null => return Ok(BTreeMap::new()),
        Value::Object(members) => members,
        _ => return Err("it is no map of texts".to_owned()),
    };
    let text = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Ok((key.clone(), text.clone())),
        Value::Bool(_) | Value::Number(_) => Ok((key.clone(), value.to_string())),
        Value::Null => Ok((key.clone(), String::new())),
        _ => Err(format!("{key} is no text")),
    };
    members.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let data = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Config::read(&data, &BTreeMap::from([("h".to_owned(), "mx.acme.test".to_owned())]))
    }

    #[test]
    fn ntf_2_services_have_the_name_of_their_key() {
        let config =
            read(&[("service.email.post", "host: $h"), ("service.slack", "token: t"), ("other", "]")]);
        let config = config.unwrap();
        let post = &config.services["post"];
        assert_eq!((post.kind.as_str(), &post.options["host"]), ("email", &Value::from("mx.acme.test")));
        assert!(config.services.contains_key("slack"));
    }

    #[test]
    fn ntf_3_ntf_4_anything_wrong_makes_all_of_it_unusable() {
        let error = |key: &str, text: &str| read(&[(key, text)]).unwrap_err().to_string();
        assert_eq!(
            error("service.a.b.c", ""),
            "invalid service key; expected 'service.<type>(.<name>)' but got 'service.a.b.c'"
        );
        assert_eq!(error("service.fax", ""), "service type 'fax' is not supported");
        assert_eq!(
            error("trigger.t", "when: true"),
            "failed to unmarshal trigger t: a trigger is a list of conditions"
        );
        assert!(error("trigger.a.b", "- when: '1 +'").starts_with("failed to unmarshal trigger a.b: "));
        assert!(error("template.m", "message: '{{'").starts_with("failed to unmarshal template m: "));
        assert!(
            error("defaultTriggers.slack", "{}").starts_with("failed to unmarshal default trigger slack: ")
        );
    }
}
