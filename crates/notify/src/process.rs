//! One look at one application (NTF-320..502, NTF-800..803).

use jiff::Timestamp;
use serde_json::{Map, Value};
use tiphys_go::expr::Run;
use tiphys_go::template::{Environment, Value as TemplateValue};

use crate::condition::{Outcome, evaluate};
use crate::config::Config;
use crate::message::{Notification, RenderError};
use crate::state::Notified;
use crate::subscription::{Destination, subscriptions};
use crate::variables::Variables;

/// What one look is asked.
pub struct Request<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The namespace of a configuration that is not the control plane's (NTF-801).
    pub config_namespace: Option<&'a str>,
    /// What expressions and templates know.
    pub variables: Variables<'a>,
    /// The time.
    pub now: Timestamp,
    /// Time and chance of templates.
    pub environment: &'a dyn Environment,
}

/// A delivery that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// To whom, and because of what.
    pub to: SentTo,
    /// Why.
    pub message: String,
}

/// To whom a notification goes, and because of what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentTo {
    /// The trigger.
    pub trigger: String,
    /// The name of the service.
    pub service: String,
    /// The recipient.
    pub recipient: String,
}

/// A notification on its way.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// To whom.
    pub to: SentTo,
    /// What.
    pub notification: Notification,
}

/// What a look came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processing {
    /// What was rendered and handed over, in order.
    pub deliveries: Vec<Delivery>,
    /// What failed.
    pub failures: Vec<Failure>,
    /// What an operator should know.
    pub warnings: Vec<String>,
}

/// Why an application is not looked at: its status does not show the end of its last operation yet (NTF-502).
#[must_use]
pub fn skip_reason(application: &Value) -> Option<&'static str> {
    let state = application.pointer("/status/operationState")?;
    if !matches!(state.get("phase").and_then(Value::as_str), Some("Succeeded" | "Failed" | "Error")) {
        return None;
    }
    let time =
        |value: Option<&Value>| value.and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
    let seen = ["/status/reconciledAt", "/status/observedAt"].map(|path| time(application.pointer(path)));
    let newest = seen.into_iter().flatten().max();
    match time(state.get("finishedAt")) {
        Some(finished) if newest.is_some_and(|seen| finished <= seen) => None,
        _ => Some("sync status out of date"),
    }
}

/// Looks at an application under one configuration: what fired is sent to whoever subscribed and was not told yet, and
/// the state is what it is afterwards. `send` carries a delivery out.
pub fn process(
    request: &Request<'_>,
    notified: &mut Notified,
    send: &mut dyn FnMut(&Delivery) -> Result<(), String>,
) -> Processing {
    let mut done = Processing::default();
    let variables = &request.variables;
    let all = subscriptions(request.config, variables.application, variables.project, &mut done.warnings);
    if all.is_empty() {
        return done;
    }
    let environment = match variables.environment() {
        Ok(environment) => environment,
        Err(error) => {
            done.warnings.push(format!("the application cannot be looked at: {error}"));
            return done;
        }
    };
    for (trigger, destinations) in &all {
        let Some(conditions) = request.config.triggers.get(trigger) else {
            done.warnings.push(format!("trigger '{trigger}' is not configured"));
            continue;
        };
        for outcome in evaluate(conditions, &environment, &Run::at(request.now)) {
            if let Some(error) = &outcome.error {
                done.warnings.push(format!("trigger '{trigger}', condition {}: {error}", outcome.index));
            }
            for destination in destinations {
                let look = Look { request, trigger, outcome: &outcome, destination };
                look.run(notified, &mut done, send);
            }
        }
    }
    notified.bound();
    done
}

/// One condition and one destination.
struct Look<'a> {
    request: &'a Request<'a>,
    trigger: &'a str,
    outcome: &'a Outcome,
    destination: &'a Destination,
}

impl Look<'_> {
    /// `[<oncePer>:][<config namespace>:]<trigger>:<condition key>:<service>:<recipient>` (NTF-400).
    fn key(&self) -> String {
        let mut key = String::new();
        for part in [self.outcome.once_per.as_str(), self.request.config_namespace.unwrap_or_default()] {
            if !part.is_empty() {
                key.push_str(part);
                key.push(':');
            }
        }
        let Destination { service, recipient } = self.destination;
        key + &format!("{}:{}:{service}:{recipient}", self.trigger, self.outcome.key)
    }

    fn run(
        &self,
        notified: &mut Notified,
        done: &mut Processing,
        send: &mut dyn FnMut(&Delivery) -> Result<(), String>,
    ) {
        let key = self.key();
        if !self.outcome.is_triggered {
            // Without a value it was once sent for: those stay (NTF-402).
            notified.clear(&key);
            return;
        }
        if !notified.set(&key, self.request.now.as_second()) {
            return;
        }
        let to = SentTo {
            trigger: self.trigger.to_owned(),
            service: self.destination.service.clone(),
            recipient: self.destination.recipient.clone(),
        };
        let sent = self.made().and_then(|notification| {
            let delivery = Delivery { to: to.clone(), notification };
            let sent = send(&delivery);
            done.deliveries.push(delivery);
            sent
        });
        if let Err(message) = sent {
            // Deviation (NTF-403): the reference loses those with a value they are sent once for.
            if self.outcome.once_per.is_empty() || self.request.config.is_retried {
                notified.clear(&key);
            }
            done.failures.push(Failure { to, message });
        }
    }

    fn made(&self) -> Result<Notification, String> {
        let service = &self.destination.service;
        if !self.request.config.services.contains_key(service) {
            return Err(format!("notification service '{service}' is not supported"));
        }
        render(self.request, &self.outcome.templates, self.destination).map_err(|error| error.to_string())
    }
}

/// What templates say to a destination, the later over the earlier (NTF-204); whether its service is configured is not
/// asked.
///
/// # Errors
/// When there is no such template, or one cannot be rendered.
pub fn render(
    request: &Request<'_>,
    templates: &[String],
    destination: &Destination,
) -> Result<Notification, RenderError> {
    let Destination { service, recipient } = destination;
    let variables: TemplateValue = request.variables.of_delivery(service, recipient);
    let mut merged = Notification { message: String::new(), blocks: Map::new() };
    for name in templates {
        let template = request.config.templates.get(name);
        merged.overlay(template.ok_or_else(|| RenderError::Unknown(name.clone()))?);
    }
    merged.render(&variables, request.environment)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use tiphys_go::template::Still;

    use super::*;

    struct Case {
        config: Config,
        notified: Notified,
        /// Services that fail.
        broken: Vec<&'static str>,
    }

    fn case(entries: &[(&str, &str)]) -> Case {
        let data = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let config = Config::read(&data, &BTreeMap::new()).unwrap();
        Case { config, notified: Notified::default(), broken: Vec::new() }
    }

    fn look(case: &mut Case, health: &str) -> Processing {
        let application = json!({"metadata": {"name": "web", "annotations":
            {"notifications.argoproj.io/subscribe.t.slack": "ops"}},
            "status": {"health": {"status": health}, "sync": {"revision": "r"}}});
        let now: Timestamp = "2026-05-04T08:00:00Z".parse().unwrap();
        let still = Still(now);
        let secrets = BTreeMap::new();
        let request = Request {
            config: &case.config,
            config_namespace: None,
            variables: Variables {
                application: &application,
                project: None,
                context: &case.config.context,
                secrets: Some(&secrets),
            },
            now,
            environment: &still,
        };
        let broken = case.broken.clone();
        let mut send = |delivery: &Delivery| {
            if broken.contains(&delivery.to.service.as_str()) { Err("down".to_owned()) } else { Ok(()) }
        };
        process(&request, &mut case.notified, &mut send)
    }

    const SERVICE: (&str, &str) = ("service.slack", "token: t");
    const TEMPLATE: (&str, &str) = (
        "template.m",
        "message: '{{.app.metadata.name}} on {{.recipient}}: {{.app.status.health.status | default \"n/a\"}}'",
    );
    const DEGRADED: (&str, &str) =
        ("trigger.t", "- when: app.status.health.status == 'Degraded'\n  send: [m]\n");
    const ONCE: (&str, &str) = (
        "trigger.t",
        "- when: app.status.health.status == 'Degraded'\n  oncePer: app.status.sync.revision\n  send: [m]\n",
    );

    /// The worked example of the specification.
    #[test]
    fn ntf_401_ntf_402_whoever_was_told_is_told_again_after_it_was_over() {
        let healths = ["Healthy", "Degraded", "Degraded", "Healthy", "Degraded"];
        let mut plain = case(&[SERVICE, TEMPLATE, DEGRADED]);
        let told = healths.map(|health| look(&mut plain, health).deliveries.len());
        assert_eq!(told, [0, 1, 0, 0, 1]);
        let mut once = case(&[SERVICE, TEMPLATE, ONCE]);
        let told = healths.map(|health| look(&mut once, health).deliveries.len());
        assert_eq!(told, [0, 1, 0, 0, 0]);
        assert!(once.notified.entries().keys().all(|key| key.starts_with("r:t:[0].")));
        let said = look(&mut case(&[SERVICE, TEMPLATE, DEGRADED]), "Degraded");
        assert_eq!(said.deliveries[0].notification.message, "web on ops: Degraded");
    }

    #[test]
    fn ntf_403_what_failed_is_tried_again() {
        let without = ("retryOncePer", "false");
        for (entries, again) in [
            (vec![SERVICE, TEMPLATE, DEGRADED, without], true),
            (vec![SERVICE, TEMPLATE, ONCE], true),
            (vec![SERVICE, TEMPLATE, ONCE, without], false),
        ] {
            let mut case = case(&entries);
            case.broken = vec!["slack"];
            assert_eq!(look(&mut case, "Degraded").failures.len(), 1);
            case.broken.clear();
            assert_eq!(look(&mut case, "Degraded").deliveries.len() == 1, again, "{entries:?}");
        }
    }

    #[test]
    fn ntf_204_ntf_718_what_does_not_exist_fails_the_delivery_only() {
        let reason = |entries: &[(&str, &str)]| {
            let done = look(&mut case(entries), "Degraded");
            assert_eq!(done.deliveries.len(), 0);
            done.failures[0].message.clone()
        };
        assert_eq!(reason(&[SERVICE, DEGRADED]), "template 'm' is not supported");
        assert_eq!(reason(&[TEMPLATE, DEGRADED]), "notification service 'slack' is not supported");
        let unknown = look(&mut case(&[SERVICE, TEMPLATE]), "Degraded");
        assert_eq!(unknown.warnings, ["trigger 't' is not configured"]);
    }

    #[test]
    fn ntf_502_a_status_from_before_the_end_of_the_operation_is_not_looked_at() {
        let app = |phase: &str, seen: &str| {
            json!({"status": {"reconciledAt": seen,
                "operationState": {"phase": phase, "finishedAt": "2026-05-04T10:00:05Z"}}})
        };
        assert!(skip_reason(&app("Succeeded", "2026-05-04T10:00:03Z")).is_some());
        assert!(skip_reason(&app("Succeeded", "2026-05-04T10:00:05Z")).is_none());
        assert!(skip_reason(&app("Running", "2026-05-04T10:00:03Z")).is_none());
        assert!(skip_reason(&json!({"status": {"operationState": {"phase": "Error"}}})).is_some());
        assert!(skip_reason(&json!({})).is_none());
    }
}
