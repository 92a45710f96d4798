//! `tracking.*`: which application owns an object (TRK).

use super::world::{self, APP, CONTROL_PLANE, DESTINATION_NAMESPACE, KINDS, LIVE_OBJECTS, SETTINGS, TARGETS};
use crate::eval::fault::Fault;
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Member, Shape, default, required};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tiphys_api::Application;
use tiphys_api::application::{Metadata, ResourceStatus};
use tiphys_api::names::annotation;
use tiphys_engine::compare::{
    ComparedResource, ListsInput, LiveObjects, SharedResource, compare_lists, fail_on_shared, is_root,
    shared_warning,
};
use tiphys_engine::tracking::{
    HashAlgorithm, Owned, Ownership, Previous, TrackingId, app_key, applied, expand_lists,
    installation_id_at_start, instance_name, qualified_name, split_instance_name,
};
use tiphys_object::ResourceKey;

const INSTANCE: Member = required("instanceName", Shape::Text);
const TARGET: Member = required("target", Shape::Map);
const LIVE: Member = required("live", Shape::Map);

/// The rows of this area.
pub(super) const ROWS: &[Operation] = &[
    Operation {
        name: "tracking.app_key",
        summary: "The application an instance name means, as namespace/name.",
        stability: Stability::Stable,
        spec: &["EVAL-102", "TRK-2"],
        input: &[INSTANCE, CONTROL_PLANE],
        result: &[required("key", Shape::Text)],
        example: (r#"{"instanceName":"shop_ui"}"#, r#"{"key":"shop/ui"}"#),
        run: |input| {
            Ok(json!({"key": app_key(input.text("instanceName"), input.text("controlPlaneNamespace"))}))
        },
    },
    Operation {
        name: "tracking.cascade_delete_set",
        summary: "What is removed together with an application.",
        stability: Stability::Stable,
        spec: &["EVAL-113", "TRK-87", "TRK-94b"],
        input: &[APP, TARGETS, LIVE_OBJECTS, SETTINGS, CONTROL_PLANE, KINDS],
        result: &[required("delete", Shape::List(&Shape::Text))],
        example: (r#"{"app":"ui"}"#, r#"{"delete":[]}"#),
        run: |input| {
            let live = LiveObjects::new(world::objects(input, "liveObjects")?);
            let (current, instance) = (world::tracking(input), world::instance_of(input));
            let ownership =
                Ownership { current: &current, previous: &Previous::Same, instance: &instance, others: &() };
            let going = live.cascade(&ownership);
            Ok(json!({"delete": keys(going.iter().map(|object| object.key()))}))
        },
    },
    Operation {
        name: "tracking.effective_method",
        summary: "The tracking method in force for an application.",
        stability: Stability::Stable,
        spec: &["EVAL-116", "TRK-110", "TRK-111"],
        input: &[SETTINGS, default("application", Shape::Map, "{}"), CONTROL_PLANE],
        result: &[required("method", Shape::Text)],
        example: (
            r#"{"settings":{"application.resourceTrackingMethod":"annotation+label"}}"#,
            r#"{"method":"annotation+label"}"#,
        ),
        run: effective_method,
    },
    Operation {
        name: "tracking.fail_on_shared",
        summary: "Whether a sync fails because another application claims an object too.",
        stability: Stability::Stable,
        spec: &["EVAL-115", "TRK-132"],
        input: &[
            default("syncOptions", Shape::List(&Shape::Text), "[]"),
            default("warnings", Shape::List(&Shape::Text), "[]"),
        ],
        result: &[
            required("phase", Shape::OrNull(&Shape::Text)),
            required("message", Shape::OrNull(&Shape::Text)),
        ],
        example: (r#"{"syncOptions":["Prune=false"],"warnings":["w"]}"#, r#"{"phase":null,"message":null}"#),
        run: |input| Ok(refuse_shared(input)),
    },
    Operation {
        name: "tracking.hash",
        summary: "The digest that stands for a text in a label.",
        stability: Stability::Stable,
        spec: &["EVAL-105", "TRK-50", "TRK-52"],
        input: &[required("text", Shape::Text), default("algorithm", Shape::Text, "\"sha1\"")],
        result: &[required("digest", Shape::Text)],
        example: (r#"{"text":"billing"}"#, r#"{"digest":"244c7f56694e858ed6cdb408e24c3ed5c14670c7"}"#),
        run: |input| {
            let name = input.text("algorithm");
            let unknown = || Fault::invalid(format!("unknown hash algorithm {name:?}"));
            let algorithm = HashAlgorithm::parse(name).ok_or_else(unknown)?;
            Ok(json!({"digest": algorithm.digest(input.text("text"))}))
        },
    },
    Operation {
        name: "tracking.installation_id_startup",
        summary: "What becomes of the installation ID when the control plane starts.",
        stability: Stability::Stable,
        spec: &["EVAL-117", "TRK-67", "TRK-69"],
        input: &[SETTINGS, default("storedID", Shape::OrNull(&Shape::Text), "null")],
        result: &[required("action", Shape::Text)],
        example: (r#"{"settings":{"installationID":"eu-1"}}"#, r#"{"action":"keep"}"#),
        run: |input| {
            let stored = input.get("storedID").as_str();
            let action = installation_id_at_start(&world::texts(input, "settings"), stored);
            Ok(json!({"action": action.as_str()}))
        },
    },
    Operation {
        name: "tracking.instance_name",
        summary: "The name an application is known by on its objects.",
        stability: Stability::Stable,
        spec: &["EVAL-101", "TRK-1", "TRK-4"],
        input: &[APP, CONTROL_PLANE],
        result: &[required("instanceName", Shape::Text), required("qualifiedName", Shape::Text)],
        example: (r#"{"app":"shop/ui"}"#, r#"{"instanceName":"shop_ui","qualifiedName":"shop/ui"}"#),
        run: |input| {
            let (namespace, name) = world::app_of(input.get("app"));
            let instance = instance_name(namespace, name, input.text("controlPlaneNamespace"));
            Ok(
                json!({"instanceName": instance.as_str(), "qualifiedName": qualified_name(namespace, name).as_str()}),
            )
        },
    },
    Operation {
        name: "tracking.label_value",
        summary: "The instance label the settings would write.",
        stability: Stability::Stable,
        spec: &["EVAL-104", "TRK-40", "TRK-44"],
        input: &[APP, SETTINGS, CONTROL_PLANE],
        result: &[required("value", Shape::OrNull(&Shape::Text))],
        example: (
            r#"{"app":"ui","settings":{"application.resourceTrackingMethod":"label"}}"#,
            r#"{"value":"ui"}"#,
        ),
        run: label_value,
    },
    Operation {
        name: "tracking.managed_sets",
        summary: "Which objects an application compares, misses, prunes, and leaves alone as copies.",
        stability: Stability::Stable,
        spec: &["EVAL-112", "TRK-85", "TRK-92", "TRK-93"],
        input: &[APP, TARGETS, LIVE_OBJECTS, SETTINGS, CONTROL_PLANE, KINDS],
        result: &[
            required("compared", Shape::List(&Shape::Text)),
            required("missing", Shape::List(&Shape::Text)),
            required("prune", Shape::List(&Shape::Text)),
            required("noStatus", Shape::List(&Shape::Text)),
        ],
        example: (
            r#"{"app":"ui","targets":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"k","namespace":"shop"}}]}"#,
            r#"{"compared":[],"missing":["/Secret/shop/k"],"prune":[],"noStatus":[]}"#,
        ),
        run: managed_sets,
    },
    Operation {
        name: "tracking.migration_owned",
        summary: "Whether a live object is an application's while the tracking settings change.",
        stability: Stability::Stable,
        spec: &["EVAL-119", "TRK-103", "TRK-104", "TRK-107"],
        input: &[
            APP,
            LIVE,
            SETTINGS,
            default("previousSettings", Shape::OrNull(&Shape::TextMap), "null"),
            default("statusResources", Shape::List(&Shape::Map), "[]"),
            CONTROL_PLANE,
        ],
        result: &[required("owned", Shape::Bool)],
        example: (
            r#"{"app":"ui","live":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"k","namespace":"shop"}},"previousSettings":{}}"#,
            r#"{"owned":false}"#,
        ),
        run: migration_owned,
    },
    Operation {
        name: "tracking.normalize_live",
        summary: "The copy of a live object that is compared.",
        stability: Stability::Stable,
        spec: &["EVAL-111", "TRK-95", "TRK-97"],
        input: &[APP, LIVE, TARGET, SETTINGS, CONTROL_PLANE],
        result: &[required("live", Shape::Map)],
        example: (
            r#"{"app":"ui","live":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"k","namespace":"shop"}},"target":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"k","namespace":"shop"}}}"#,
            r#"{"live":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"k","namespace":"shop"}}}"#,
        ),
        run: |input| {
            let mut live = input.take("live");
            world::tracking(input).normalize_live(&world::instance_of(input), &mut live, input.get("target"));
            Ok(json!({"live": live}))
        },
    },
    Operation {
        name: "tracking.owner",
        summary: "The instance name that a live object's mark names.",
        stability: Stability::Stable,
        spec: &["EVAL-109", "TRK-85", "TRK-86", "TRK-60"],
        input: &[LIVE, SETTINGS, default("apps", Shape::List(&Shape::App), "[]"), CONTROL_PLANE],
        result: &[required("claim", Shape::Text)],
        example: (
            r#"{"live":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"k","namespace":"shop"}}}"#,
            r#"{"claim":""}"#,
        ),
        run: owner,
    },
    Operation {
        name: "tracking.parse_tracking_id",
        summary: "The parts of a tracking annotation.",
        stability: Stability::Stable,
        spec: &["EVAL-107", "TRK-33", "TRK-34"],
        input: &[required("value", Shape::Text), SETTINGS],
        result: &[
            INSTANCE,
            required("group", Shape::Text),
            required("kind", Shape::Text),
            required("namespace", Shape::Text),
            required("name", Shape::Text),
        ],
        example: (
            r#"{"value":"ui:batch/CronJob:shop/gc"}"#,
            r#"{"instanceName":"ui","group":"batch","kind":"CronJob","namespace":"shop","name":"gc"}"#,
        ),
        run: parse_tracking_id,
    },
    Operation {
        name: "tracking.selector",
        summary: "The label selector that finds an application's objects.",
        stability: Stability::Stable,
        spec: &["EVAL-118", "TRK-120"],
        input: &[APP, SETTINGS, CONTROL_PLANE],
        result: &[
            required("selector", Shape::OrNull(&Shape::Text)),
            required("message", Shape::OrNull(&Shape::Text)),
        ],
        example: (
            r#"{"app":"ui","settings":{"application.resourceTrackingMethod":"label"}}"#,
            r#"{"selector":"app.kubernetes.io/instance=ui","message":null}"#,
        ),
        run: |input| {
            Ok(match world::tracking(input).selector(&world::instance_of(input), false) {
                Ok(selector) => json!({"selector": selector, "message": null}),
                Err(why) => json!({"selector": null, "message": why.to_string()}),
            })
        },
    },
    Operation {
        name: "tracking.self_reference",
        summary: "Whether a live object carries its own mark rather than a copied one.",
        stability: Stability::Stable,
        spec: &["EVAL-110", "TRK-92", "TRK-94"],
        input: &[
            required("live", Shape::OrNull(&Shape::Map)),
            required("target", Shape::OrNull(&Shape::Map)),
            SETTINGS,
            CONTROL_PLANE,
        ],
        result: &[required("selfReferenced", Shape::Bool)],
        example: (
            r#"{"live":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"k","namespace":"shop"}},"target":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"k","namespace":"shop"}}}"#,
            r#"{"selfReferenced":true}"#,
        ),
        run: self_reference,
    },
    Operation {
        name: "tracking.shared_warning",
        summary: "The warning about an object that another application claims too.",
        stability: Stability::Stable,
        spec: &["EVAL-114", "TRK-131"],
        input: &[
            APP,
            required("kind", Shape::Text),
            required("name", Shape::Text),
            required("claim", Shape::Text),
            CONTROL_PLANE,
        ],
        result: &[required("message", Shape::OrNull(&Shape::Text))],
        example: (
            r#"{"app":"ui","kind":"Secret","name":"k","claim":"ops_vault"}"#,
            r#"{"message":"Secret/k is part of applications argocd/ui and ops/vault"}"#,
        ),
        run: |input| Ok(warn_shared(input)),
    },
    Operation {
        name: "tracking.split_instance_name",
        summary: "Namespace and name of an instance name.",
        stability: Stability::Stable,
        spec: &["EVAL-103", "TRK-3"],
        input: &[INSTANCE, default("defaultNamespace", Shape::Text, "\"\"")],
        result: &[required("namespace", Shape::Text), required("name", Shape::Text)],
        example: (r#"{"instanceName":"shop_ui"}"#, r#"{"namespace":"shop","name":"ui"}"#),
        run: |input| {
            let (namespace, name) =
                split_instance_name(input.text("instanceName"), input.text("defaultNamespace"));
            Ok(json!({"namespace": namespace, "name": name}))
        },
    },
    Operation {
        name: "tracking.stamp",
        summary: "Manifests with the marks of an application.",
        stability: Stability::Stable,
        spec: &["EVAL-108", "TRK-20", "TRK-24", "TRK-76"],
        input: &[
            APP,
            required("targets", Shape::List(&Shape::Map)),
            DESTINATION_NAMESPACE,
            SETTINGS,
            CONTROL_PLANE,
        ],
        result: &[required("objects", Shape::List(&Shape::Map))],
        example: (
            r#"{"app":"ui","targets":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"k","namespace":"shop"}}]}"#,
            r#"{"objects":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"k","namespace":"shop","annotations":{"argocd.argoproj.io/tracking-id":"ui:/Secret:shop/k"}}}]}"#,
        ),
        run: stamp,
    },
    Operation {
        name: "tracking.tracking_id",
        summary: "The tracking annotation of an object.",
        stability: Stability::Stable,
        spec: &["EVAL-106", "TRK-30", "TRK-36"],
        input: &[INSTANCE, TARGET, DESTINATION_NAMESPACE, SETTINGS],
        result: &[required("value", Shape::Text)],
        example: (
            r#"{"instanceName":"ui","target":{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"gc"}},"destinationNamespace":"shop"}"#,
            r#"{"value":"ui:batch/CronJob:shop/gc"}"#,
        ),
        run: |input| {
            let (instance, namespace) = (input.text("instanceName"), input.text("destinationNamespace"));
            let id = TrackingId::for_object(instance, input.get("target"), namespace);
            Ok(
                json!({"value": id.write(world::tracking_of(&world::texts(input, "settings")).annotation_format)}),
            )
        },
    },
];

fn label_value(input: &mut Input) -> Result<Value, Fault> {
    let (settings, instance) = (world::tracking(input), world::instance_of(input));
    if let Some(refusal) = settings.label_too_long(&instance) {
        return Err(Fault::invalid(refusal));
    }
    Ok(json!({"value": settings.label_value(&instance).map_err(Fault::invalid)?}))
}

fn parse_tracking_id(input: &mut Input) -> Result<Value, Fault> {
    let format = world::tracking_of(&world::texts(input, "settings")).annotation_format;
    let id = TrackingId::read(input.text("value"), format).map_err(Fault::invalid)?;
    Ok(json!({
        "instanceName": id.instance.as_str(),
        "group": id.key.group.as_str(),
        "kind": id.key.kind.as_str(),
        "namespace": id.key.namespace.as_str(),
        "name": id.key.name.as_str(),
    }))
}

fn stamp(input: &mut Input) -> Result<Value, Fault> {
    let Value::Array(targets) = input.take("targets") else { return Ok(json!({"objects": []})) };
    let (settings, instance) = (world::tracking(input), world::instance_of(input));
    let mut objects = expand_lists(targets);
    for object in &mut objects {
        settings.stamp(object, &instance, input.text("destinationNamespace")).map_err(Fault::invalid)?;
    }
    Ok(json!({"objects": objects}))
}

fn owner(input: &mut Input) -> Result<Value, Fault> {
    let live = world::object("live", input.get("live"))?;
    // Only root objects are asked for their mark (TRK-86).
    let tracking = world::tracking(input);
    let mut named = BTreeMap::new();
    if let Value::Array(apps) = input.get("apps") {
        for app in apps {
            let (namespace, name) = world::app_of(app);
            let instance = tracking.instance_name(namespace, name);
            named.extend(tracking.own_marks(&instance).into_iter().map(|mark| (mark, instance.clone())));
        }
    }
    let claim = || tracking.claim(live.metadata(), |mark| named.get(mark).cloned());
    let claim = if is_root(&live) { claim() } else { None };
    Ok(json!({"claim": claim.unwrap_or_default().as_str()}))
}

fn migration_owned(input: &mut Input) -> Result<Value, Fault> {
    let live = world::object("live", input.get("live"))?;
    let current = world::tracking(input);
    let stored = match input.get("previousSettings") {
        Value::Null => None,
        _ => Some(world::tracking_of(&world::texts(input, "previousSettings")).profile()),
    };
    let resources: Vec<ResourceStatus> = world::typed_list(input, "statusResources")?;
    let instance = world::instance_of(input);
    let previous = current.previous(stored.as_deref(), || applied(&resources));
    let ownership = Ownership { current: &current, previous: &previous, instance: &instance, others: &() };
    Ok(json!({"owned": is_root(&live) && ownership.of(&live) == Owned::Yes}))
}

/// A set of keys, sorted bytewise (EVAL-61).
fn keys(keys: impl IntoIterator<Item = ResourceKey>) -> BTreeSet<String> {
    keys.into_iter().map(|key| key.to_string()).collect()
}

fn managed_sets(input: &mut Input) -> Result<Value, Fault> {
    let (namespace, name) = world::app_of(input.get("app"));
    let metadata = Metadata { namespace: namespace.to_owned(), name: name.to_owned(), ..Metadata::default() };
    let application = Application { metadata, ..Application::default() };
    let (targets, live) = (world::objects(input, "targets")?, world::objects(input, "liveObjects")?);
    let found = compare_lists(&ListsInput {
        application: &application,
        targets: &targets,
        live: &LiveObjects::new(live),
        settings: &world::texts(input, "settings"),
        control_plane_namespace: input.text("controlPlaneNamespace"),
        scope: &world::scope(input),
        excluded: &|_| false,
        permitted_live: &|_| true,
        permitted_kind: &|_| true,
    })
    .map_err(Fault::invalid)?;
    let those = |wanted: fn(&ComparedResource) -> bool| {
        keys(found.resources.iter().filter(|one| wanted(one)).map(|one| one.key.clone()))
    };
    Ok(json!({
        "compared": those(|one| one.target.is_some() && one.live.is_some()),
        "missing": those(|one| one.target.is_some() && one.live.is_none()),
        "prune": those(|one| one.target.is_none() && one.self_referenced && one.requires_pruning),
        "noStatus": those(|one| one.target.is_none() && !one.self_referenced),
    }))
}

fn refuse_shared(input: &Input) -> Value {
    let options: Vec<String> = input.texts("syncOptions").into_iter().map(str::to_owned).collect();
    // Whoever lists a warning means one of an application that is there.
    let shared = |message: &str| SharedResource { message: message.to_owned(), owner_exists: true };
    let shared: Vec<SharedResource> = input.texts("warnings").into_iter().map(shared).collect();
    match fail_on_shared(&options, &shared) {
        Some(message) => json!({"phase": "Failed", "message": message}),
        None => json!({"phase": null, "message": null}),
    }
}

fn self_reference(input: &mut Input) -> Result<Value, Fault> {
    let side = |member: &str| match input.get(member) {
        Value::Null => Ok(None),
        manifest => world::object(member, manifest).map(Some),
    };
    let (target, live) = (side("target")?, side("live")?);
    let own = world::tracking(input).is_self_referenced(target.as_ref(), live.as_ref());
    Ok(json!({"selfReferenced": own}))
}

fn warn_shared(input: &Input) -> Value {
    let (namespace, name) = world::app_of(input.get("app"));
    let namespace = if namespace.is_empty() { input.text("controlPlaneNamespace") } else { namespace };
    let claim = input.text("claim");
    if claim.is_empty() || claim == world::instance_of(input) {
        return json!({"message": null});
    }
    let application = qualified_name(namespace, name);
    json!({"message": shared_warning(&application, input.text("kind"), input.text("name"), claim)})
}

fn effective_method(input: &mut Input) -> Result<Value, Fault> {
    let application: Application = world::typed("application", input.take("application"))?;
    let method = world::tracking(input).effective_method(application.annotation(annotation::TRACKING_METHOD));
    Ok(json!({"method": method.as_str()}))
}
