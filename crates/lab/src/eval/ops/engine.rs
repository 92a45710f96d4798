//! `engine.*`: what differs, how healthy it is, and what a sync would do (ENG).

use super::world::{self, CLUSTERS, CONTROL_PLANE, KINDS, LIVE_OBJECTS, NOW, PARAMS, SETTINGS, TARGETS};
use crate::eval::fault::{Code, Fault};
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Member, Shape, default, optional, required};
use serde_json::{Value, json};
use tiphys_api::names::annotation;
use tiphys_api::settings::Settings;
use tiphys_api::{AppProject, Application};
use tiphys_engine::app_health::{AppIdentity, AppResource, app_health};
use tiphys_engine::compare::{ComparedResource, ListsInput, LiveObjects, SyncStatusCode, compare_lists};
use tiphys_engine::diff::{DiffOptions, DiffSettings, diff};
use tiphys_engine::health::{HealthOverrides, assess, evaluate};
use tiphys_engine::normalize::IgnoreRules;
use tiphys_engine::sync::model;
use tiphys_object::{Object, ResourceKey, access};
use tiphys_policy::permit::Governed;
use tiphys_policy::project::{Resource, Target, kind_permitted, live_permitted};

const SIDE: Shape = Shape::OrNull(&Shape::Map);
const APPLICATION: Member = required("application", Shape::Map);
const PROJECT: Member = default("project", SIDE, "null");

const MODEL: Member = default(
    "model",
    Shape::Members(&[
        optional("inSync", Shape::List(&Shape::Text)),
        optional("unservedKinds", Shape::List(&Shape::Text)),
        optional("denied", Shape::MapOf(&Shape::Text)),
        optional("dryRunErrors", Shape::MapOf(&Shape::Text)),
        optional("applyErrors", Shape::MapOf(&Shape::Text)),
        optional("health", Shape::MapOf(&Shape::List(&Shape::Text))),
        optional("deletionPasses", Shape::MapOf(&Shape::Integer)),
        optional("removedAfterPass", Shape::MapOf(&Shape::Integer)),
        optional("terminateAtPass", Shape::Integer),
        optional("maxPasses", Shape::Integer),
    ]),
    "{}",
);

/// The rows of this area.
pub(super) const ROWS: &[Operation] = &[
    Operation {
        name: "engine.app_health",
        summary: "The health of an application from that of its objects.",
        stability: Stability::Stable,
        spec: &["EVAL-604", "ENG-122", "ENG-123"],
        input: &[
            required(
                "resources",
                Shape::List(&Shape::Members(&[
                    default("target", SIDE, "null"),
                    default("live", SIDE, "null"),
                ])),
            ),
            default("application", Shape::Map, "{}"),
            SETTINGS,
        ],
        result: &[required("status", Shape::Text), required("message", Shape::Text)],
        example: (
            r#"{"resources":[{"target":{"apiVersion":"v1","kind":"Service","metadata":{"name":"s","namespace":"shop"}},"live":{"apiVersion":"v1","kind":"Service","metadata":{"name":"s","namespace":"shop"},"spec":{"type":"ClusterIP"}}}]}"#,
            r#"{"status":"Healthy","message":""}"#,
        ),
        run: judge_application,
    },
    Operation {
        name: "engine.compare",
        summary: "The sync status of an application and of each of its objects.",
        stability: Stability::Stable,
        spec: &["EVAL-602", "ENG-52"],
        input: &[
            APPLICATION,
            TARGETS,
            LIVE_OBJECTS,
            PROJECT,
            SETTINGS,
            PARAMS,
            KINDS,
            CLUSTERS,
            CONTROL_PLANE,
        ],
        result: &[
            required("status", Shape::Text),
            required(
                "resources",
                Shape::List(&Shape::Members(&[
                    required("key", Shape::Text),
                    required("status", Shape::Text),
                    required("hook", Shape::Bool),
                    required("requiresPruning", Shape::Bool),
                    required("requiresDeletionConfirmation", Shape::Bool),
                    required("syncWave", Shape::Integer),
                ])),
            ),
            required(
                "conditions",
                Shape::List(&Shape::Members(&[
                    required("type", Shape::Text),
                    required("message", Shape::Text),
                ])),
            ),
        ],
        example: (
            r#"{"application":{"metadata":{"name":"ui"},"spec":{"destination":{"namespace":"shop"}}},"targets":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}]}"#,
            r#"{"status":"OutOfSync","resources":[{"key":"/ConfigMap/shop/c","status":"OutOfSync","hook":false,"requiresPruning":false,"requiresDeletionConfirmation":false,"syncWave":0}],"conditions":[]}"#,
        ),
        run: compare,
    },
    Operation {
        name: "engine.diff",
        summary: "Whether applying a manifest would change the live object, and where.",
        stability: Stability::Stable,
        spec: &["EVAL-601", "ENG-54", "ENG-91"],
        input: &[
            required("target", SIDE),
            required("live", SIDE),
            default("application", Shape::Map, "{}"),
            SETTINGS,
            PARAMS,
            default("serverDryRun", SIDE, "null"),
        ],
        result: &[
            required("status", Shape::Text),
            required("paths", Shape::List(&Shape::Text)),
            required("normalizedLive", SIDE),
            required("predictedLive", SIDE),
        ],
        example: (
            r#"{"target":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"2"}},"live":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"1"}}}"#,
            r#"{"status":"OutOfSync","paths":["/data/k"],"normalizedLive":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"1"}},"predictedLive":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"2"}}}"#,
        ),
        run: compare_pair,
    },
    Operation {
        name: "engine.health",
        summary: "The health of a live object.",
        stability: Stability::Stable,
        spec: &["EVAL-603", "ENG-97", "ENG-98"],
        input: &[required("live", Shape::Map), SETTINGS],
        result: &[required(
            "health",
            Shape::OrNull(&Shape::Members(&[
                required("status", Shape::Text),
                required("message", Shape::Text),
            ])),
        )],
        example: (
            r#"{"live":{"apiVersion":"acme.test/v1","kind":"Queue","metadata":{"name":"q"},"status":{"note":"drained"}},"settings":{"resource.customizations.health.acme.test_Queue":"return {status=\"Suspended\", message=obj.status.note}"}}"#,
            r#"{"health":{"status":"Suspended","message":"drained"}}"#,
        ),
        run: judge,
    },
    Operation {
        name: "engine.sync_plan",
        summary: "What a sync would do, pass after pass, against a modelled cluster.",
        stability: Stability::Stable,
        spec: &["EVAL-605", "ENG-148", "ENG-154", "ENG-189"],
        input: &[
            APPLICATION,
            required("operation", Shape::Map),
            TARGETS,
            LIVE_OBJECTS,
            default("untracked", Shape::List(&Shape::Map), "[]"),
            KINDS,
            PROJECT,
            MODEL,
            NOW,
            SETTINGS,
            CONTROL_PLANE,
        ],
        result: &[
            required("dryRun", Shape::List(&Shape::Text)),
            required(
                "passes",
                Shape::List(&Shape::Members(&[
                    required("operations", Shape::List(&Shape::List(&Shape::Map))),
                    required("phase", Shape::Text),
                    required("message", Shape::Text),
                ])),
            ),
            required(
                "final",
                Shape::Members(&[required("phase", Shape::Text), required("message", Shape::Text)]),
            ),
            required("results", Shape::List(&Shape::Map)),
        ],
        example: (
            r#"{"application":{"metadata":{"name":"ui"},"spec":{"destination":{"namespace":"shop"}}},"operation":{"sync":{}},"targets":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"shop"}}],"now":"2026-05-04T08:00:00Z"}"#,
            r#"{"dryRun":["/ConfigMap/shop/c"],"passes":[{"operations":[[{"op":"apply","key":"/ConfigMap/shop/c","phase":"Sync","wave":0}]],"phase":"Succeeded","message":"successfully synced (all tasks run)"}],"final":{"phase":"Succeeded","message":"successfully synced (all tasks run)"},"results":[{"key":"/ConfigMap/shop/c","syncPhase":"Sync","status":"Synced","hookPhase":"Running","message":"configmap/c created"}]}"#,
        ),
        run: plan,
    },
];

fn overrides(input: &Input) -> Result<HealthOverrides, Fault> {
    HealthOverrides::from_settings(&world::texts(input, "settings")).map_err(Fault::invalid)
}

fn judge(input: &mut Input) -> Result<Value, Fault> {
    let health = assess(input.get("live"), &overrides(input)?);
    Ok(match health {
        Some(health) => json!({"health": {"status": health.status.as_str(), "message": health.message}}),
        None => json!({"health": null}),
    })
}

fn judge_application(input: &mut Input) -> Result<Value, Fault> {
    let application: Application = world::typed("application", input.take("application"))?;
    let overrides = overrides(input)?;
    let mut pairs = Vec::new();
    for (index, given) in input.list("resources").iter().enumerate() {
        let side = |member: &str| match given.get(member) {
            None | Some(Value::Null) => Ok(None),
            Some(manifest) => world::object(&format!("resources[{index}].{member}"), manifest).map(Some),
        };
        pairs.push((side("target")?, side("live")?));
    }
    let resources: Vec<AppResource<'_>> = pairs
        .iter()
        .map(|(target, live)| AppResource { target: target.as_ref(), live: live.as_ref() })
        .collect();
    let identity =
        AppIdentity { namespace: &application.metadata.namespace, name: &application.metadata.name };
    let judge = |live: &Object| evaluate(&live.to_value()?, &overrides);
    let health = app_health(&resources, identity, judge).health;
    Ok(json!({"status": health.status.as_str(), "message": health.message}))
}

/// Whether the pair is to be compared by asking the API server.
fn wants_server(settings: &Settings, application: &Application, target: &Value) -> bool {
    let said = |options: Option<&str>, word: &str| {
        options.is_some_and(|options| options.split(',').any(|option| option.trim() == word))
    };
    let of_object = access::annotation(target, annotation::COMPARE_OPTIONS);
    let of_application = application.annotation(annotation::COMPARE_OPTIONS);
    let anyone = |word: &str| said(of_object, word) || said(of_application, word);
    !anyone("ServerSideDiff=false")
        && (anyone("ServerSideDiff=true") || settings.controller().server_side_diff)
}

fn compare_pair(input: &mut Input) -> Result<Value, Fault> {
    let application: Application = world::typed("application", input.take("application"))?;
    let (settings, cm) = (world::settings(input), world::texts(input, "settings"));
    if wants_server(&settings, &application, input.get("target")) {
        return Err(match input.get("serverDryRun") {
            Value::Null => Fault::new(Code::FailedPrecondition, "server-side diff needs the API server")
                .with_reason("network-required"),
            _ => Fault::new(Code::Unimplemented, "server-side diff is not available"),
        });
    }
    let ignore = IgnoreRules::compile(&application.spec.ignore_differences, &cm).map_err(Fault::invalid)?;
    let settings = DiffSettings::from_settings(&cm).map_err(Fault::invalid)?;
    let options =
        DiffOptions { ignore: &ignore, settings: settings.for_application(application.sync_options()) };
    let side = |member: &str| Some(input.get(member)).filter(|value| !value.is_null());
    let result = diff(side("target"), side("live"), &options).map_err(Fault::invalid)?;
    if let Some(note) = ignore.stopped().pop_first() {
        return Err(Fault::invalid(note));
    }
    let status = if result.modified { SyncStatusCode::OutOfSync } else { SyncStatusCode::Synced };
    Ok(json!({
        "status": status.as_str(),
        "paths": result.paths(),
        "normalizedLive": result.normalized_live,
        "predictedLive": result.predicted_live,
    }))
}

/// The project of an input, or none where everything is permitted.
fn project(input: &mut Input) -> Result<Option<AppProject>, Fault> {
    match input.take("project") {
        Value::Null => Ok(None),
        given => world::typed("project", given).map(Some),
    }
}

fn compare(input: &mut Input) -> Result<Value, Fault> {
    let application: Application = world::typed("application", input.take("application"))?;
    let project = project(input)?;
    let (cm, settings) = (world::texts(input, "settings"), world::settings(input));
    let live = LiveObjects::new(world::objects(input, "liveObjects")?);
    let targets = world::objects(input, "targets")?;
    let clusters = world::all_clusters(input);
    let destination = &application.spec.destination;
    let (server, name) = (destination.server.as_str(), destination.name.as_str());
    let target = clusters.of_project(application.project()).resolve(destination).map_or_else(
        |_unknown| Target { server, name, ..Target::default() },
        |cluster| Target::new(cluster, ""),
    );
    let scope = world::scope(input);
    let filter = world::resource_filter(&settings)?;
    let found = compare_lists(&ListsInput {
        application: &application,
        targets: &targets,
        live: &live,
        settings: &cm,
        control_plane_namespace: input.text("controlPlaneNamespace"),
        scope: &scope,
        excluded: &|kind| !filter.is_included(kind, target.server),
        permitted_live: &|object| {
            project.as_ref().is_none_or(|project| {
                let matching = settings.project_matching();
                live_permitted(project, &object.key(), target, Ok(clusters.all()), matching)
            })
        },
        permitted_kind: &|key| {
            project.as_ref().is_none_or(|project| kind_permitted(project, resource_of(key)))
        },
    })
    .map_err(Fault::invalid)?;
    if let Some(why) = found.failed {
        return Err(Fault::new(Code::Unknown, why));
    }
    let conditions: Vec<Value> =
        found.conditions.iter().map(|one| json!({"type": one.r#type, "message": one.message})).collect();
    let resources: Vec<Value> = found.resources.iter().map(compared).collect();
    Ok(json!({"status": found.status.as_str(), "resources": resources, "conditions": conditions}))
}

fn resource_of(key: &ResourceKey) -> Resource<'_> {
    Resource { group: &key.group, kind: &key.kind, name: &key.name, namespaced: !key.namespace.is_empty() }
}

fn compared(resource: &ComparedResource) -> Value {
    json!({
        "key": resource.key.to_string(),
        "status": resource.status.map_or("", SyncStatusCode::as_str),
        "hook": resource.hook,
        "requiresPruning": resource.requires_pruning,
        "requiresDeletionConfirmation": resource.requires_deletion_confirmation,
        "syncWave": resource.sync_wave,
    })
}

fn plan(input: &mut Input) -> Result<Value, Fault> {
    let project = project(input)?;
    let destination: Application = world::typed("application", input.get("application").clone())?;
    let destination = destination.spec.destination;
    let matching = world::settings(input).project_matching();
    // The kind first, then the namespace, as a sync asks (ENG-158).
    let permit = |object: &Object, namespaced: bool| {
        let Some(project) = &project else { return Ok(()) };
        let (server, name) = (destination.server.as_str(), destination.name.as_str());
        let cluster = Target { server, name, ..Target::default() };
        let governed = Governed { project, cluster, clusters: Ok(&[]), matching, account: None };
        governed.permit(&object.key(), namespaced).map(drop)
    };
    model::run_with(&input.take_all(), &permit).map_err(Fault::invalid)
}
