//! `notifications.*`: what an application sends to whom (NTF).

use std::collections::{BTreeMap, BTreeSet};

use super::world::{self, CONTROL_PLANE, NOW, PARAMS, SETTINGS};
use crate::eval::fault::{Code, Fault};
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Member, Shape, default, required};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tiphys_go::expr::Run;
use tiphys_go::template::Still;
use tiphys_notify::{
    Config, Delivery, NOTIFIED, Notified, Processing, Request, SentTo, Variables, catalog, evaluate, process,
    skip_reason,
};
use tiphys_policy::project::namespace_enabled;

const CONFIG: Member = default("config", Shape::TextMap, "{}");
const SECRET: Member = default("secret", Shape::TextMap, "{}");
const CATALOG: Member = default("defaultCatalog", Shape::Bool, "false");
const APPLICATION: Member = required("application", Shape::Map);
const PROJECT: Member = default("project", Shape::OrNull(&Shape::Map), "null");
const NAMESPACE_CONFIGS: Member = default(
    "namespaceConfigs",
    Shape::MapOf(&Shape::Members(&[
        default("config", Shape::TextMap, "{}"),
        default("secret", Shape::TextMap, "{}"),
    ])),
    "{}",
);
const DELIVERY: &[Member] = &[
    required("trigger", Shape::Text),
    required("service", Shape::Text),
    required("recipient", Shape::Text),
    required("message", Shape::Text),
];

/// The rows of this area.
pub(super) const ROWS: &[Operation] = &[
    Operation {
        name: "notifications.process",
        summary: "What one look at an application delivers, and the state afterwards.",
        stability: Stability::Stable,
        spec: &["EVAL-401", "NTF-100", "NTF-320", "NTF-400", "NTF-502", "NTF-800"],
        input: &[
            CONFIG,
            SECRET,
            CATALOG,
            APPLICATION,
            PROJECT,
            NAMESPACE_CONFIGS,
            default("failServices", Shape::List(&Shape::Text), "[]"),
            SETTINGS,
            PARAMS,
            NOW,
            CONTROL_PLANE,
        ],
        result: &[
            required("skipped", Shape::Bool),
            required("skipReason", Shape::OrNull(&Shape::Text)),
            required(
                "deliveries",
                Shape::List(&Shape::Members(&[
                    required("trigger", Shape::Text),
                    required("service", Shape::Text),
                    required("recipient", Shape::Text),
                    required("message", Shape::Text),
                    required("blocks", Shape::Map),
                ])),
            ),
            required("failures", Shape::List(&Shape::Members(DELIVERY))),
            required("notified", Shape::MapOf(&Shape::Integer)),
            required("annotations", Shape::TextMap),
            required("configError", Shape::OrNull(&Shape::Text)),
            required("warnings", Shape::List(&Shape::Text)),
        ],
        example: (
            r#"{"config":{"service.slack":"token: t","template.m":"message: \"{{.app.metadata.name}} is gone\"","trigger.lost":"- when: app.status.health.status == 'Missing'\n  send: [m]\n"},"application":{"metadata":{"name":"ui","annotations":{"notifications.argoproj.io/subscribe.lost.slack":"ops"}},"status":{"health":{"status":"Missing"}}},"now":"2026-05-04T08:00:00Z"}"#,
            r#"{"skipped":false,"skipReason":null,"deliveries":[{"trigger":"lost","service":"slack","recipient":"ops","message":"ui is gone","blocks":{}}],"failures":[],"notified":{"lost:[0].-R5rUmZSeT-7P2qIBZxlL82MnoQ:slack:ops":1777881600},"annotations":{"notifications.argoproj.io/subscribe.lost.slack":"ops","notified.notifications.argoproj.io":"{\"lost:[0].-R5rUmZSeT-7P2qIBZxlL82MnoQ:slack:ops\":1777881600}"},"configError":null,"warnings":[]}"#,
        ),
        run: look,
    },
    Operation {
        name: "notifications.trigger",
        summary: "Which conditions of a trigger are true for an application.",
        stability: Stability::Stable,
        spec: &["EVAL-402", "NTF-100", "NTF-120"],
        input: &[
            CONFIG,
            SECRET,
            CATALOG,
            APPLICATION,
            PROJECT,
            NAMESPACE_CONFIGS,
            required("trigger", Shape::Text),
            SETTINGS,
            PARAMS,
            NOW,
            CONTROL_PLANE,
        ],
        result: &[
            required("triggered", Shape::Bool),
            required(
                "conditions",
                Shape::List(&Shape::Members(&[
                    required("index", Shape::Integer),
                    required("key", Shape::Text),
                    required("when", Shape::Text),
                    required("triggered", Shape::Bool),
                    required("oncePer", Shape::Text),
                    required("templates", Shape::List(&Shape::Text)),
                    required("error", Shape::OrNull(&Shape::Text)),
                ])),
            ),
        ],
        example: (
            r#"{"config":{"trigger.lost":"- when: app.status.health.status == 'Missing'\n  send: [m]\n"},"application":{"status":{"health":{"status":"Missing"}}},"trigger":"lost"}"#,
            r#"{"triggered":true,"conditions":[{"index":0,"key":"[0].-R5rUmZSeT-7P2qIBZxlL82MnoQ","when":"app.status.health.status == 'Missing'","triggered":true,"oncePer":"","templates":["m"],"error":null}]}"#,
        ),
        run: trigger,
    },
    Operation {
        name: "notifications.config",
        summary: "What a configuration of notifications says.",
        stability: Stability::Stable,
        spec: &["EVAL-403", "NTF-2", "NTF-4", "NTF-5", "NTF-60"],
        input: &[CONFIG, SECRET, CATALOG, NAMESPACE_CONFIGS, SETTINGS, PARAMS, NOW, CONTROL_PLANE],
        result: &[
            required(
                "services",
                Shape::MapOf(&Shape::Members(&[
                    required("type", Shape::Text),
                    required("options", Shape::Map),
                ])),
            ),
            required("triggers", Shape::List(&Shape::Text)),
            required("templates", Shape::List(&Shape::Text)),
            required("context", Shape::TextMap),
            required("warnings", Shape::List(&Shape::Text)),
        ],
        example: (
            r#"{"config":{"service.email.post":"host: $h"},"secret":{"h":"mx.acme.test"}}"#,
            r#"{"services":{"post":{"type":"email","options":{"host":"mx.acme.test"}}},"triggers":[],"templates":[],"context":{},"warnings":[]}"#,
        ),
        run: shown,
    },
];

/// The data of the control plane's configuration, over the catalog where that is asked for.
fn data(input: &Input) -> BTreeMap<String, String> {
    let own = world::texts(input, "config");
    if input.flag("defaultCatalog") { catalog().into_iter().chain(own).collect() } else { own }
}

fn config(input: &Input) -> Result<Config, Fault> {
    let read = Config::read(&data(input), &world::texts(input, "secret"));
    let mut config = read.map_err(|error| Fault::new(Code::FailedPrecondition, error.to_string()))?;
    complete(&mut config, input);
    Ok(config)
}

/// The address of the installation, where the configuration does not say another (NTF-7).
fn complete(config: &mut Config, input: &Input) {
    if let Some(url) = world::texts(input, "settings").remove("url").filter(|url| !url.is_empty()) {
        config.context.entry("argocdUrl".to_owned()).or_insert(url);
    }
}

fn is_self_service(input: &Input) -> bool {
    let value = world::texts(input, "params").remove("notificationscontroller.selfservice.enabled");
    value.as_deref() == Some("true")
}

fn project(input: &Input) -> Option<&Value> {
    Some(input.get("project")).filter(|project| !project.is_null())
}

fn shown(input: &mut Input) -> Result<Value, Fault> {
    let config = config(input)?;
    let services: Map<String, Value> = config
        .services
        .iter()
        .map(|(name, service)| (name.clone(), json!({"type": service.kind, "options": service.options})))
        .collect();
    let (triggers, templates): (Vec<_>, Vec<_>) =
        (config.triggers.keys().collect(), config.templates.keys().collect());
    Ok(json!({"services": services, "triggers": triggers, "templates": templates,
        "context": config.context, "warnings": config.warnings}))
}

fn trigger(input: &mut Input) -> Result<Value, Fault> {
    let config = config(input)?;
    let name = input.text("trigger");
    let unknown = || Fault::new(Code::NotFound, format!("trigger '{name}' is not configured"));
    let conditions = config.triggers.get(name).ok_or_else(unknown)?;
    let secret = world::texts(input, "secret");
    let variables = Variables {
        application: input.get("application"),
        project: project(input),
        context: &config.context,
        secrets: (!is_self_service(input)).then_some(&secret),
    };
    let environment = variables.environment().map_err(Fault::invalid)?;
    let outcomes = evaluate(conditions, &environment, &Run::at(world::instant(input, "now")?));
    let shown: Vec<Value> = outcomes
        .iter()
        .map(|outcome| {
            json!({"index": outcome.index, "key": outcome.key, "when": outcome.when,
                "triggered": outcome.is_triggered, "oncePer": outcome.once_per,
                "templates": outcome.templates, "error": outcome.error})
        })
        .collect();
    Ok(json!({"triggered": outcomes.iter().any(|outcome| outcome.is_triggered), "conditions": shown}))
}

fn look(input: &mut Input) -> Result<Value, Fault> {
    let now = world::instant(input, "now")?;
    let application = input.get("application");
    let control_plane = input.text("controlPlaneNamespace");
    let namespace = match application.pointer("/metadata/namespace").and_then(Value::as_str) {
        None | Some("") => control_plane,
        Some(namespace) => namespace,
    };
    let skip_reason = if namespace_enabled(&world::settings(input), namespace, control_plane) {
        skip_reason(application)
    } else {
        Some("app is not in one of the application-namespaces, nor the notification controller namespace")
    };
    let mut annotations = annotations(application);
    let mut notified = Notified::read(annotations.get(NOTIFIED).map(String::as_str));
    let (mut done, mut config_error) = (Processing::default(), None);
    if skip_reason.is_none() {
        let failing: BTreeSet<&str> = input.texts("failServices").into_iter().collect();
        for source in sources(input, namespace, control_plane) {
            let mut config = match Config::read(&source.data, &source.secret) {
                Ok(config) => config,
                Err(error) if source.namespace.is_none() => {
                    config_error = Some(error.to_string());
                    continue;
                }
                Err(error) => {
                    done.warnings.push(format!("namespace {namespace}: {error}"));
                    continue;
                }
            };
            complete(&mut config, input);
            done.warnings.append(&mut config.warnings);
            let found = one(input, &config, &source, &failing, (now, &mut notified));
            done.deliveries.extend(found.deliveries);
            done.failures.extend(found.failures);
            done.warnings.extend(found.warnings);
        }
        match notified.annotation() {
            Some(text) => drop(annotations.insert(NOTIFIED.to_owned(), text)),
            None => drop(annotations.remove(NOTIFIED)),
        }
    }
    let deliveries: Vec<Value> = done.deliveries.iter().map(delivered).collect();
    let failures: Vec<Value> = done
        .failures
        .iter()
        .map(|failure| with(&failure.to, &[("message", failure.message.as_str().into())]))
        .collect();
    Ok(json!({"skipped": skip_reason.is_some(), "skipReason": skip_reason, "deliveries": deliveries,
        "failures": failures, "notified": notified.entries(), "annotations": annotations,
        "configError": config_error, "warnings": done.warnings}))
}

/// One configuration.
struct Source {
    /// Its namespace, where that is not the control plane's.
    namespace: Option<String>,
    data: BTreeMap<String, String>,
    secret: BTreeMap<String, String>,
}

/// The configurations that an application is looked at under (NTF-800).
fn sources(input: &Input, namespace: &str, control_plane: &str) -> Vec<Source> {
    let mut all = vec![Source { namespace: None, data: data(input), secret: world::texts(input, "secret") }];
    if is_self_service(input) && namespace != control_plane {
        let own = input.get("namespaceConfigs").get(namespace);
        let texts = |name: &str| {
            let map = own.and_then(|own| own.get(name)).and_then(Value::as_object);
            let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
            map.into_iter().flatten().filter_map(text).collect()
        };
        let (data, secret) = (texts("config"), texts("secret"));
        all.push(Source { namespace: Some(namespace.to_owned()), data, secret });
    }
    all
}

fn one(
    input: &Input,
    config: &Config,
    source: &Source,
    failing: &BTreeSet<&str>,
    (now, notified): (Timestamp, &mut Notified),
) -> Processing {
    let still = Still(now);
    let request = Request {
        config,
        config_namespace: source.namespace.as_deref(),
        variables: Variables {
            application: input.get("application"),
            project: project(input),
            context: &config.context,
            secrets: (!is_self_service(input)).then_some(&source.secret),
        },
        now,
        environment: &still,
    };
    process(&request, notified, &mut |delivery: &Delivery| {
        let service = delivery.to.service.as_str();
        if failing.contains(service) { Err(format!("service '{service}' fails")) } else { Ok(()) }
    })
}

fn annotations(application: &Value) -> BTreeMap<String, String> {
    let map = application.pointer("/metadata/annotations").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    map.into_iter().flatten().filter_map(text).collect()
}

fn delivered(delivery: &Delivery) -> Value {
    let notification = &delivery.notification;
    let members = [
        ("message", notification.message.as_str().into()),
        ("blocks", Value::Object(notification.blocks.clone())),
    ];
    with(&delivery.to, &members)
}

fn with(to: &SentTo, members: &[(&str, Value)]) -> Value {
    let texts = [("trigger", &to.trigger), ("service", &to.service), ("recipient", &to.recipient)];
    let texts = texts.map(|(name, text)| (name, Value::from(text.as_str())));
    let all = texts.into_iter().chain(members.iter().cloned());
    Value::Object(all.map(|(name, value)| (name.to_owned(), value)).collect())
}
