//! `rbac.*`: what an account may do (API section 3).

use super::world::{self, CONTROL_PLANE, PROJECT_NAME, PROJECTS, SETTINGS};
use crate::eval::fault::{Code, Fault};
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Member, Shape, default, optional, required};
use serde_json::{Map, Value, json};
use tiphys_api::{AppProject, Application, ApplicationSet};
use tiphys_policy::rbac::{
    Caller, ManagedResource, PolicyError, Rbac, RbacConfig, RbacOptions, Request, ResourceOperation,
    application_object, application_set_object, review, scoped_object,
};

const RBAC: Member = default("rbac", Shape::TextMap, "{}");
const CLAIMS: Member = required("claims", Shape::OrNull(&Shape::Map));
const ALLOWED: Member = required("allowed", Shape::Bool);

const REQUEST: Member = required(
    "request",
    Shape::Members(&[
        required("resource", Shape::Text),
        required("action", Shape::Text),
        default("object", Shape::Text, "\"\""),
    ]),
);
const QUESTION: Member = required(
    "request",
    Shape::Members(&[
        required("resource", Shape::Text),
        required("action", Shape::Text),
        default("subresource", Shape::Text, "\"\""),
    ]),
);
const RESOURCE: Member = required(
    "resource",
    Shape::Members(&[
        default("group", Shape::Text, "\"\""),
        required("kind", Shape::Text),
        default("namespace", Shape::Text, "\"\""),
        required("name", Shape::Text),
    ]),
);

/// The rows of this area.
pub(super) const ROWS: &[Operation] = &[
    Operation {
        name: "rbac.can_i",
        summary: "What a client is told that asks before it tries.",
        stability: Stability::Stable,
        spec: &["EVAL-302", "API-58"],
        input: &[RBAC, PROJECTS, CLAIMS, QUESTION, SETTINGS, CONTROL_PLANE],
        result: &[ALLOWED],
        example: (
            r#"{"rbac":{"policy.csv":"p, kim, logs, get, shop/*, allow"},"claims":{"sub":"kim"},"request":{"resource":"logs","action":"get","subresource":"shop/ui"}}"#,
            r#"{"allowed":true}"#,
        ),
        run: can_i,
    },
    Operation {
        name: "rbac.enforce",
        summary: "Whether the caller may do something with an object.",
        stability: Stability::Stable,
        spec: &["EVAL-301", "API-80", "API-92", "API-98"],
        input: &[RBAC, PROJECTS, CLAIMS, REQUEST, SETTINGS, CONTROL_PLANE],
        result: &[
            ALLOWED,
            required("code", Shape::OrNull(&Shape::Text)),
            required("message", Shape::OrNull(&Shape::Text)),
        ],
        example: (
            r#"{"rbac":{"policy.csv":"p, kim, logs, get, shop/*, allow"},"claims":{"sub":"kim"},"request":{"resource":"logs","action":"get","object":"shop/ui"}}"#,
            r#"{"allowed":true,"code":null,"message":null}"#,
        ),
        run: enforce,
    },
    Operation {
        name: "rbac.object",
        summary: "How policies name an application, a set of them, a cluster or a repository.",
        stability: Stability::Stable,
        spec: &["EVAL-304", "API-102", "API-103", "ASET-279"],
        input: &[
            required("type", Shape::Text),
            PROJECT_NAME,
            optional("app", Shape::App),
            optional("applicationSet", Shape::Map),
            optional("server", Shape::Text),
            optional("repoURL", Shape::Text),
            CONTROL_PLANE,
        ],
        result: &[required("object", Shape::Text)],
        example: (
            r#"{"type":"application","projectName":"shop","app":"team/ui"}"#,
            r#"{"object":"shop/team/ui"}"#,
        ),
        run: object,
    },
    Operation {
        name: "rbac.resource_access",
        summary: "Whether the caller may patch or delete a resource of an application.",
        stability: Stability::Stable,
        spec: &["EVAL-303", "API-105"],
        input: &[
            RBAC,
            PROJECTS,
            CLAIMS,
            required("application", Shape::Map),
            required("operation", Shape::Text),
            RESOURCE,
            SETTINGS,
            CONTROL_PLANE,
        ],
        result: &[ALLOWED],
        example: (
            r#"{"rbac":{"policy.csv":"p, kim, logs, get, shop/*, allow"},"claims":{"sub":"kim"},"application":{"metadata":{"name":"ui"},"spec":{"project":"shop"}},"operation":"delete","resource":{"kind":"Pod","name":"p"}}"#,
            r#"{"allowed":false}"#,
        ),
        run: resource_access,
    },
    Operation {
        name: "rbac.validate_policy",
        summary: "Whether a policy text can be read, and what in it has no effect.",
        stability: Stability::Stable,
        spec: &["EVAL-305", "API-81", "API-108"],
        input: &[required("policy", Shape::Text), RBAC],
        result: &[
            required("valid", Shape::Bool),
            required("line", Shape::OrNull(&Shape::Integer)),
            required("message", Shape::OrNull(&Shape::Text)),
            required("warnings", Shape::List(&Shape::Text)),
        ],
        example: (
            r#"{"policy":"p, kim, logs"}"#,
            r#"{"valid":false,"line":1,"message":"line 1: `p, kim, logs`: a p line has 6 fields (p, subject, resource, action, object, effect), this one has 3","warnings":[]}"#,
        ),
        run: validate_policy,
    },
];

fn refused(error: &PolicyError) -> Fault {
    Fault::invalid(error)
}

/// The installation's policy. One that cannot be read is an error: there is no last good one here.
fn policy(input: &mut Input) -> Result<Rbac, Fault> {
    let projects: Vec<AppProject> = world::typed_list(input, "projects")?;
    let config = RbacConfig::read(&world::texts(input, "rbac")).map_err(|error| refused(&error))?;
    let rbac = Rbac::compile(&config).map_err(|error| refused(&error))?;
    let options = RbacOptions::from_settings(&world::settings(input));
    Ok(rbac.with_options(options).with_projects(&projects))
}

/// Answers a question of the caller.
fn ask<T>(input: &mut Input, question: impl FnOnce(&Caller<'_>, &mut Input) -> T) -> Result<T, Fault> {
    let rbac = policy(input)?;
    let claims: Option<Map<String, Value>> = match input.take("claims") {
        Value::Object(claims) => Some(claims),
        _ => None,
    };
    Ok(question(&rbac.caller(claims.as_ref()), input))
}

fn member<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn request<'a>(given: &'a Value, object: &str) -> Request<'a> {
    Request {
        resource: member(given, "resource"),
        action: member(given, "action"),
        object: member(given, object),
    }
}

fn enforce(input: &mut Input) -> Result<Value, Fault> {
    ask(input, |caller, input| {
        let decision = caller.check(&request(input.get("request"), "object"));
        let code = (!decision.permitted).then(|| Code::PermissionDenied.as_str());
        json!({"allowed": decision.permitted, "code": code, "message": decision.message})
    })
}

fn can_i(input: &mut Input) -> Result<Value, Fault> {
    let answer = ask(input, |caller, input| {
        caller.can_i(&request(input.get("request"), "subresource"), input.text("controlPlaneNamespace"))
    })?;
    Ok(json!({"allowed": answer.map_err(Fault::invalid)?}))
}

fn resource_access(input: &mut Input) -> Result<Value, Fault> {
    let application: Application = world::typed("application", input.take("application"))?;
    let operation = match input.text("operation") {
        "update" => ResourceOperation::Update,
        "delete" => ResourceOperation::Delete,
        other => return Err(Fault::invalid(format!("operation: expected update or delete, got {other:?}"))),
    };
    ask(input, |caller, input| {
        let given = input.get("resource");
        let resource = ManagedResource {
            group: member(given, "group"),
            kind: member(given, "kind"),
            namespace: member(given, "namespace"),
            name: member(given, "name"),
        };
        let control_plane = input.text("controlPlaneNamespace");
        json!({"allowed": caller.may_change(&application, control_plane, operation, resource).permitted})
    })
}

fn object(input: &mut Input) -> Result<Value, Fault> {
    let object = match input.text("type") {
        "application" => {
            let app = input.need("app")?;
            let (namespace, name) = world::app_of(&app);
            application_object(
                input.text("projectName"),
                namespace,
                name,
                input.text("controlPlaneNamespace"),
            )
        }
        "applicationset" => {
            let set: ApplicationSet = world::typed("applicationSet", input.need("applicationSet")?)?;
            application_set_object(&set, input.text("controlPlaneNamespace"))
        }
        kind @ ("cluster" | "repository") => {
            let address = input.need(if kind == "cluster" { "server" } else { "repoURL" })?;
            scoped_object(input.text("projectName"), address.as_str().unwrap_or_default())
        }
        other => {
            return Err(Fault::invalid(format!(
                "type: expected application, applicationset, cluster or repository, got {other:?}"
            )));
        }
    };
    Ok(json!({"object": object}))
}

fn validate_policy(input: &mut Input) -> Result<Value, Fault> {
    let settings = RbacConfig::read(&world::texts(input, "rbac")).map_err(|error| refused(&error))?;
    let review = match RbacConfig::of_text("", input.text("policy")) {
        Ok(text) => review(&RbacConfig { match_mode: settings.match_mode, ..text }),
        Err(error) => tiphys_policy::rbac::PolicyReview { error: Some(error), warnings: Vec::new() },
    };
    let line = review.error.as_ref().map(|error| error.place.line);
    let message = review.error.as_ref().map(ToString::to_string);
    Ok(json!({"valid": line.is_none(), "line": line, "message": message, "warnings": review.warnings}))
}
