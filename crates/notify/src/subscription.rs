//! Who wants to hear of what (NTF-300..321).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_object::selector::Selector;

use crate::condition::texts;
use crate::config::Config;

/// Prefix of annotations.
const PREFIX: &str = "notifications.argoproj.io/";
/// Suffix of annotations of the time before, on projects only (NTF-306).
const LEGACY: &str = "recipients.argocd-notifications.argoproj.io";

/// Where a notification goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    /// Name of the service.
    pub service: String,
    /// The recipient, in the words of the service; may be empty.
    pub recipient: String,
}

impl Destination {
    /// Reads `service:recipient`; without a colon the recipient is empty.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        recipient(text, false)
    }
}

/// Destinations by trigger, each once and in order (NTF-320, NTF-321).
pub type Subscriptions = BTreeMap<String, BTreeSet<Destination>>;

/// A subscription of the configuration (NTF-310).
#[derive(Clone, Debug)]
pub(crate) struct Global {
    recipients: Vec<Destination>,
    triggers: Vec<String>,
    selector: Selector,
}

impl Global {
    /// Reads one; `is_strict` keeps only what stands between the first colon and the second (NTF-311).
    pub(crate) fn read(value: &Value, is_strict: bool) -> Result<Self, String> {
        let members = value.as_object().ok_or("a subscription is a map with recipients and triggers")?;
        let selector = match members.get("selector") {
            None | Some(Value::Null) => Selector::everything(),
            Some(Value::String(text)) => text.parse().map_err(|error| format!("selector {text}: {error}"))?,
            Some(_) => return Err("selector is no text".to_owned()),
        };
        let recipients = texts(members.get("recipients"), "recipients")?;
        Ok(Self {
            recipients: recipients.iter().map(|text| recipient(text, is_strict)).collect(),
            triggers: texts(members.get("triggers"), "triggers")?,
            selector,
        })
    }
}

fn recipient(text: &str, is_strict: bool) -> Destination {
    let (service, rest) = text.split_once(':').unwrap_or((text, ""));
    let rest = if is_strict { rest.split(':').next().unwrap_or_default() } else { rest };
    Destination { service: service.to_owned(), recipient: rest.to_owned() }
}

/// All subscriptions to an application: those of the configuration, its own, and those of its project (NTF-320).
pub(crate) fn subscriptions(
    config: &Config,
    application: &Value,
    project: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Subscriptions {
    let mut found = Found { config, all: Subscriptions::new() };
    let labels = map_of(application, "labels");
    for global in &config.subscriptions {
        if !global.selector.matches(|key| labels.get(key).copied()) {
            continue;
        }
        let triggers = if global.triggers.is_empty() { &config.default_triggers } else { &global.triggers };
        for destination in &global.recipients {
            found.add(triggers, destination);
        }
    }
    found.annotations(application, warnings);
    if let Some(project) = project {
        found.annotations(project, warnings);
        found.legacy(project);
    }
    found.all
}

struct Found<'a> {
    config: &'a Config,
    all: Subscriptions,
}

impl Found<'_> {
    fn add(&mut self, triggers: &[String], destination: &Destination) {
        for trigger in triggers {
            self.all.entry(trigger.clone()).or_default().insert(destination.clone());
        }
    }

    /// The triggers of a subscription that names none (NTF-302).
    fn defaults(&self, service: &str) -> Vec<String> {
        let own = self.config.service_default_triggers.get(service);
        own.unwrap_or(&self.config.default_triggers).clone()
    }

    fn annotations(&mut self, object: &Value, warnings: &mut Vec<String>) {
        for (key, value) in map_of(object, "annotations") {
            let Some(key) = key.strip_prefix(PREFIX) else { continue };
            if let Some(name) = key.strip_prefix("subscribe.") {
                let mut parts = name.split('.');
                let first = parts.next().unwrap_or_default();
                let (triggers, service) = match parts.next() {
                    Some(service) => (vec![first.to_owned()], service),
                    None => (self.defaults(first), first),
                };
                for recipient in recipients(value) {
                    self.add(&triggers, &Destination { service: service.to_owned(), recipient });
                }
            } else if key.starts_with("subscriptions")
                && let Err(error) = self.list(value)
            {
                warnings.push(format!("annotation {PREFIX}{key}: {error}"));
            }
        }
    }

    /// The list of one annotation: each trigger to each destination (NTF-303).
    fn list(&mut self, text: &str) -> Result<(), String> {
        let value =
            yaml::parse(text, Dialect::Sigs, &Limits::default()).map_err(|error| error.to_string())?;
        let items = match value {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::Array(items)) => items,
            Some(_) => return Err("it is no list of subscriptions".to_owned()),
        };
        let mut read = Vec::new();
        for item in &items {
            let triggers = texts(member(item, "trigger"), "trigger")?;
            let destinations = match member(item, "destinations") {
                None | Some(Value::Null) => continue,
                Some(Value::Array(destinations)) => destinations,
                Some(_) => return Err("destinations is no list".to_owned()),
            };
            for destination in destinations {
                let service = member(destination, "service").and_then(Value::as_str).unwrap_or_default();
                for recipient in texts(member(destination, "recipients"), "recipients")? {
                    read.push((triggers.clone(), Destination { service: service.to_owned(), recipient }));
                }
            }
        }
        for (triggers, destination) in read {
            let triggers = if triggers.is_empty() { self.defaults(&destination.service) } else { triggers };
            self.add(&triggers, &destination);
        }
        Ok(())
    }

    /// What projects have from the time before (NTF-306).
    fn legacy(&mut self, project: &Value) {
        for (key, value) in map_of(project, "annotations") {
            let trigger = match key.strip_suffix(LEGACY) {
                Some("") => None,
                Some(prefix) => match prefix.strip_suffix('.') {
                    Some(trigger) => Some(trigger.to_owned()),
                    None => continue,
                },
                None => continue,
            };
            for text in value.split(',').map(str::trim).filter(|text| !text.is_empty()) {
                let destination = recipient(text, true);
                let triggers =
                    match (self.config.service_default_triggers.get(&destination.service), &trigger) {
                        (Some(own), _) => own.clone(),
                        (None, Some(trigger)) => vec![trigger.clone()],
                        (None, None) => self.config.default_triggers.clone(),
                    };
                self.add(&triggers, &destination);
            }
        }
    }
}

/// Recipients of one annotation; an empty value is one recipient without a name (NTF-300).
fn recipients(value: &str) -> Vec<String> {
    if value.trim().is_empty() {
        return vec![String::new()];
    }
    value.split(';').map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

/// A member whatever the case of its key.
fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.as_object()?.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Texts of a map of the metadata.
fn map_of<'a>(object: &'a Value, name: &str) -> BTreeMap<&'a str, &'a str> {
    let map = object.get("metadata").and_then(|metadata| metadata.get(name)).and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(entries: &[(&str, &str)]) -> Config {
        let data = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Config::read(&data, &BTreeMap::new()).unwrap()
    }

    fn shown(found: &Subscriptions) -> Vec<String> {
        let of = |(trigger, destinations): (&String, &BTreeSet<Destination>)| {
            let all = destinations.iter().map(|to| format!("{trigger} {}:{}", to.service, to.recipient));
            all.collect::<Vec<_>>()
        };
        found.iter().flat_map(of).collect()
    }

    fn found(config: &Config, annotations: &Value, project: Option<&Value>) -> Vec<String> {
        let app = json!({"metadata": {"annotations": annotations, "labels": {"team": "a"}}});
        let mut warnings = Vec::new();
        let project = project.map(|annotations| json!({"metadata": {"annotations": annotations}}));
        shown(&subscriptions(config, &app, project.as_ref(), &mut warnings))
    }

    /// The example of the specification.
    #[test]
    fn ntf_320_subscriptions_are_put_together() {
        let config =
            config(&[("defaultTriggers", "[on-sync-failed]"), ("defaultTriggers.email", "[on-deployed]")]);
        let annotations = json!({"notifications.argoproj.io/subscribe.slack": "a; b",
            "notifications.argoproj.io/subscribe.on-deployed.slack": "b", "other/subscribe.slack": "no",
            "notifications.argoproj.io/subscribe.email": "x@e.org"});
        let expected = [
            "on-deployed email:x@e.org",
            "on-deployed slack:b",
            "on-sync-failed slack:a",
            "on-sync-failed slack:b",
        ];
        assert_eq!(found(&config, &annotations, None), expected);
    }

    #[test]
    fn ntf_303_lists_are_products_and_ntf_300_nothing_is_a_recipient() {
        let list =
            "- Trigger: [t, u]\n  destinations:\n  - service: s\n    recipients: [a]\n- destinations: []\n";
        let annotations = json!({"notifications.argoproj.io/subscriptions": list,
            "notifications.argoproj.io/subscribe.x.webhook": ""});
        assert_eq!(found(&config(&[]), &annotations, None), ["t s:a", "u s:a", "x webhook:"]);
    }

    #[test]
    fn ntf_311_everything_behind_the_colon_is_the_recipient() {
        let text = "- recipients: ['webhook:http://x', slack]\n  triggers: [t]\n  selector: team=a\n\
                    - recipients: ['slack:no']\n  triggers: [t]\n  selector: team!=a\n";
        assert_eq!(
            found(&config(&[("subscriptions", text)]), &json!({}), None),
            ["t slack:", "t webhook:http://x"]
        );
        let strict = config(&[("subscriptions", text), ("strictRecipientSplit", "true")]);
        assert_eq!(found(&strict, &json!({}), None), ["t slack:", "t webhook:http"]);
    }

    #[test]
    fn ntf_306_annotations_of_the_time_before_count_on_projects_only() {
        let old = json!({"recipients.argocd-notifications.argoproj.io": "slack:a, email:b:c",
            "on-x.recipients.argocd-notifications.argoproj.io": "slack:d,opsgenie:e"});
        let config = config(&[("defaultTriggers", "[d]"), ("defaultTriggers.slack", "[own]")]);
        assert_eq!(found(&config, &old, None), [""; 0]);
        let expected = ["d email:b", "on-x opsgenie:e", "own slack:a", "own slack:d"];
        assert_eq!(found(&config, &json!({}), Some(&old)), expected);
    }
}
