//! Configuration of the time before (NTF-60, NTF-61).

use serde_json::{Map, Value, json};

use crate::condition::{Condition, texts};
use crate::config::{Config, ConfigError, Service, parse, text_map};
use crate::message::Notification;
use crate::subscription::Global;

/// Merges `config.yaml` over what stands under the keys of today.
pub(crate) fn config(config: &mut Config, text: &str) -> Result<(), ConfigError> {
    let failed = |error: String| ConfigError::Key("config.yaml".to_owned(), error);
    let value = parse(text).map_err(failed)?;
    config
        .warnings
        .push("config.yaml is deprecated; use the keys trigger.<name> and template.<name>".to_owned());
    let items = |name: &str| match value.get(name) {
        None | Some(Value::Null) => Ok(&[][..]),
        Some(Value::Array(items)) => Ok(items.as_slice()),
        Some(_) => Err(failed(format!("{name} is no list"))),
    };
    for item in items("templates")? {
        let name = name_of(item).map_err(failed)?;
        let template = template(item).and_then(|value| Notification::read(&value));
        let template = template.map_err(|error| ConfigError::Template(name.clone(), error))?;
        config.templates.insert(name, template);
    }
    for item in items("triggers")? {
        let name = name_of(item).map_err(failed)?;
        trigger(config, &name, item).map_err(|error| ConfigError::Trigger(name, error))?;
    }
    let context = text_map(value.get("context").unwrap_or(&Value::Null)).map_err(failed)?;
    config.context.extend(context);
    let subscriptions = items("subscriptions")?;
    if !subscriptions.is_empty() {
        let read = subscriptions.iter().map(|item| Global::read(item, true)).collect::<Result<_, _>>();
        config.subscriptions = read.map_err(failed)?;
    }
    Ok(())
}

/// A template in the form of today: `subject` is of the mail, `body` the message.
fn template(item: &Value) -> Result<Value, String> {
    let mut members = item.as_object().cloned().ok_or("a template is a map")?;
    members.remove("name");
    if let Some(subject) = members.remove("subject") {
        let email = members.entry("email").or_insert_with(|| json!({}));
        if let Some(email) = email.as_object_mut() {
            email.insert("subject".to_owned(), subject);
        }
    }
    if let Some(body) = members.remove("body") {
        members.insert("message".to_owned(), body);
    }
    Ok(Value::Object(members))
}

/// Overwrites the first condition of a trigger, and subscribes everybody to it when it is enabled.
fn trigger(config: &mut Config, name: &str, item: &Value) -> Result<(), String> {
    let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut send = texts(item.get("templates"), "templates")?;
    let template = text("template");
    if !template.is_empty() {
        send.push(template);
    }
    let conditions = config.triggers.entry(name.to_owned()).or_default();
    let once_per = conditions.first().map(|first| first.once_per.clone()).unwrap_or_default();
    let condition = Condition::new(text("condition"), once_per, text("description"), send)?;
    match conditions.first_mut() {
        Some(first) => *first = condition,
        None => conditions.push(condition),
    }
    let is_enabled = item.get("enabled").and_then(Value::as_bool) == Some(true);
    if is_enabled && !config.default_triggers.iter().any(|known| known == name) {
        config.default_triggers.push(name.to_owned());
    }
    Ok(())
}

fn name_of(item: &Value) -> Result<String, String> {
    let name = item.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    name.map(str::to_owned).ok_or_else(|| "an item has no name".to_owned())
}

/// Services of `notifiers.yaml`, which take the place of those of the same name.
pub(crate) fn notifiers(config: &mut Config, text: &str) -> Result<(), ConfigError> {
    let failed = |error: &str| ConfigError::Key("notifiers.yaml".to_owned(), error.to_owned());
    let value = parse(text).map_err(|error| failed(&error))?;
    config.warnings.push("notifiers.yaml is deprecated; use the keys service.<type>".to_owned());
    let options = |value: &Value| value.as_object().cloned().ok_or_else(|| failed("options are a map"));
    let mut add = |name: String, kind: &str, options: Map<String, Value>| {
        config.services.insert(name, Service { kind: kind.to_owned(), options: Value::Object(options) });
    };
    for kind in ["email", "slack", "opsgenie", "grafana"] {
        if let Some(given) = value.get(kind).filter(|given| !given.is_null()) {
            add(kind.to_owned(), kind, options(given)?);
        }
    }
    for given in value.get("webhook").and_then(Value::as_array).into_iter().flatten() {
        let mut members = options(given)?;
        members.remove("name");
        let name = name_of(given).map_err(|error| failed(&error))?;
        add(name, "webhook", members);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn ntf_60_ntf_61_the_old_form_goes_over_the_new_one() {
        let old = "triggers:\n- {name: t, condition: 'true', template: m, enabled: true}\n\
                   templates:\n- {name: m, subject: S, body: B}\ncontext: {argocdUrl: u}\n";
        let data = BTreeMap::from([
            ("config.yaml".to_owned(), old.to_owned()),
            ("trigger.t".to_owned(), "- {when: 'false', oncePer: app.x}".to_owned()),
        ]);
        let secret = BTreeMap::from([(
            "notifiers.yaml".to_owned(),
            "slack: {token: x}\nwebhook:\n- {name: hook, url: u}\n".to_owned(),
        )]);
        let config = Config::read(&data, &secret).unwrap();
        let condition = &config.triggers["t"][0];
        assert_eq!((condition.when.as_str(), condition.once_per.as_str()), ("true", "app.x"));
        assert_eq!(condition.send, ["m"]);
        assert_eq!(config.default_triggers, ["t"]);
        assert_eq!(config.templates["m"].message, "B");
        assert_eq!(config.templates["m"].blocks["email"]["subject"], "S");
        assert_eq!(config.services["hook"].kind, "webhook");
        assert_eq!((config.context["argocdUrl"].as_str(), config.warnings.len()), ("u", 2));
    }
}
