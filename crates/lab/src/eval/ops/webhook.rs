//! `webhook.match`: what a delivery answers and which applications it refreshes (API section 7).

use super::world::{self, CONTROL_PLANE, PARAMS, SETTINGS};
use crate::eval::fault::Fault;
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Shape, default, optional, required};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tiphys_api::Application;
use tiphys_lifecycle::webhook::{self, Concern, Delivery, Provider, Push, TagPush};
use tiphys_policy::project::namespace_enabled;

/// The rows of this area.
pub(super) const ROWS: &[Operation] = &[Operation {
    name: "webhook.match",
    summary: "What one webhook delivery answers, and which applications it refreshes.",
    stability: Stability::Stable,
    spec: &["EVAL-351", "API-195", "API-197", "API-206", "API-207"],
    input: &[
        required(
            "request",
            Shape::Members(&[
                default("method", Shape::Text, "\"POST\""),
                default("headers", Shape::TextMap, "{}"),
                optional("body", Shape::Text),
                optional("bodyBase64", Shape::Text),
            ]),
        ),
        required("applications", Shape::List(&Shape::Map)),
        SETTINGS,
        PARAMS,
        default("secrets", Shape::MapOf(&Shape::TextMap), "{}"),
        CONTROL_PLANE,
    ],
    result: &[
        required("status", Shape::Integer),
        required("body", Shape::Text),
        required("provider", Shape::OrNull(&Shape::Text)),
        required("refreshed", Shape::List(&Shape::Text)),
        required("hydrated", Shape::List(&Shape::Text)),
    ],
    example: (
        r#"{"request":{"headers":{"X-GitHub-Event":"push"},"body":"{\"ref\":\"refs/heads/dev\",\"repository\":{\"html_url\":\"https://git.acme.test/ui\",\"default_branch\":\"main\"}}"},"applications":[{"metadata":{"name":"ui"},"spec":{"source":{"repoURL":"https://git.acme.test/ui","targetRevision":"dev","path":"."}}}]}"#,
        r#"{"status":200,"body":"","provider":"github","refreshed":["argocd/ui"],"hydrated":[]}"#,
    ),
    run: deliver,
}];

fn deliver(input: &mut Input) -> Result<Value, Fault> {
    let request = input.get("request");
    let headers: BTreeMap<String, &str> = request
        .get("headers")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.to_ascii_lowercase(), value.as_str()?)))
        .collect();
    let header = |name: &str| headers.get(name).copied();
    let body = body_of(request)?;
    let mut settings = world::texts(input, "settings");
    let megabytes = settings.remove("webhook.maxPayloadSizeMB");
    let allow_without_secret =
        settings.remove(webhook::ALLOW_WITHOUT_SECRET).is_some_and(|value| value == "true");
    let secrets = input.get("secrets").get("argocd-secret");
    let (provider, delivery) = webhook::receive(&webhook::Request {
        method: request.get("method").and_then(Value::as_str).unwrap_or("POST"),
        header,
        body: &body,
        secret: |key: &str| {
            secrets.and_then(|data| data.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
        },
        megabytes_max: megabytes.as_deref(),
        allow_without_secret,
    });
    let nobody = Concerned::default;
    let (status, body, found) = match delivery {
        Delivery::Pushes(pushes) => (200, String::new(), concerned(input, &pushes)?),
        Delivery::Tag(tag) => (200, String::new(), followers(input, &tag)?),
        Delivery::Ignored => (200, String::new(), nobody()),
        Delivery::Refused { status, body } => (status, body, nobody()),
    };
    let Concerned { refreshed, hydrated } = found;
    let provider = provider.map(Provider::name);
    Ok(
        json!({"status": status, "body": body, "provider": provider, "refreshed": refreshed, "hydrated": hydrated}),
    )
}

fn body_of(request: &Value) -> Result<Vec<u8>, Fault> {
    let text = |name: &str| request.get(name).and_then(Value::as_str);
    match text("bodyBase64") {
        Some(encoded) => STANDARD
            .decode(encoded)
            .map_err(|problem| Fault::invalid(format!("request.bodyBase64: {problem}"))),
        None => Ok(text("body").unwrap_or_default().as_bytes().to_vec()),
    }
}

/// The applications that are compared anew, and those of them that are looked at for hydration; those whose files did not
/// change keep their manifests (API-207, API-208).
#[derive(Default)]
struct Concerned {
    refreshed: BTreeSet<String>,
    hydrated: BTreeSet<String>,
}

fn concerned(input: &Input, pushes: &[Push]) -> Result<Concerned, Fault> {
    let mut found = Concerned::default();
    for (name, application) in applications(input)? {
        if pushes.iter().any(|push| webhook::hydrates(push, &application)) {
            found.hydrated.insert(name.clone());
        }
        if pushes.iter().any(|push| webhook::concern(push, &application) == Concern::Files) {
            found.refreshed.insert(name);
        }
    }
    Ok(found)
}

/// Those that follow a tag are always looked at for both (API-208).
fn followers(input: &Input, tag: &TagPush) -> Result<Concerned, Fault> {
    let all = applications(input)?.into_iter();
    let refreshed: BTreeSet<String> =
        all.filter(|(_, application)| tag.concerns(application)).map(|(name, _)| name).collect();
    Ok(Concerned { hydrated: refreshed.clone(), refreshed })
}

/// The applications in namespaces that are worked on, by name.
fn applications(input: &Input) -> Result<Vec<(String, Application)>, Fault> {
    let (settings, control_plane) = (world::settings(input), input.text("controlPlaneNamespace"));
    let mut found = Vec::new();
    for (index, given) in input.list("applications").iter().enumerate() {
        let application: Application = world::typed(&format!("applications[{index}]"), given.clone())?;
        let namespace = match application.metadata.namespace.as_str() {
            "" => control_plane,
            own => own,
        };
        if namespace_enabled(&settings, namespace, control_plane) {
            found.push((format!("{namespace}/{}", application.metadata.name), application));
        }
    }
    Ok(found)
}
