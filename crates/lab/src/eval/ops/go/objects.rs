//! The part of `go.*` that is about Kubernetes objects: quantities, selectors, patches and server-side apply.

use crate::eval::fault::Fault;
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Shape, default, optional, required};
use serde_json::{Value, json};
use tiphys_object::quantity::Quantity;
use tiphys_object::selector::Selector;
use tiphys_object::strategic::{self, Conflicts, UnknownFields};
use tiphys_object::structural::Structural;
use tiphys_object::structured::{self, Applied, ApplyRequest, Types};
use tiphys_object::{Gvk, json_patch, merge_patch};

/// The rows of this part.
pub(super) const ROWS: &[Operation] = &[
    Operation {
        name: "go.json_patch",
        summary: "A document with RFC 6902 operations applied.",
        stability: Stability::Stable,
        spec: &["EVAL-766", "DEP-20"],
        input: &[required("document", Shape::Any), required("patch", Shape::Any)],
        result: &[required("document", Shape::Any)],
        example: (
            r#"{"document":{"a":[1]},"patch":[{"op":"add","path":"/a/-","value":2}]}"#,
            r#"{"document":{"a":[1,2]}}"#,
        ),
        run: |input| {
            let document = input.take("document");
            Ok(json!({"document": json_patch::apply(document, input.get("patch")).map_err(Fault::invalid)?}))
        },
    },
    Operation {
        name: "go.kustomize_hash",
        summary: "The suffix kustomize gives to the name of a generated object.",
        stability: Stability::Stable,
        spec: &["EVAL-775", "DEP-20"],
        input: &[required("object", Shape::Map)],
        result: &[required("hash", Shape::Text)],
        example: (
            r#"{"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1"}}}"#,
            r#"{"hash":"h29d89cmmt"}"#,
        ),
        run: |input| {
            let hash = tiphys_render::name_hash(input.get("object"));
            Ok(json!({"hash": hash.map_err(Fault::invalid)?}))
        },
    },
    Operation {
        name: "go.merge_patch",
        summary: "Makes or applies an RFC 7386 merge patch.",
        stability: Stability::Stable,
        spec: &["EVAL-767", "DEP-20"],
        input: &[
            required("mode", Shape::Text),
            optional("document", Shape::Any),
            optional("patch", Shape::Any),
            optional("original", Shape::Any),
            optional("modified", Shape::Any),
        ],
        result: &[optional("document", Shape::Any), optional("patch", Shape::Any)],
        example: (
            r#"{"mode":"create","original":{"a":1,"b":2},"modified":{"a":1,"c":3}}"#,
            r#"{"patch":{"b":null,"c":3}}"#,
        ),
        run: merge,
    },
    Operation {
        name: "go.quantity",
        summary: "A Kubernetes quantity: canonical text, value, and how it compares.",
        stability: Stability::Stable,
        spec: &["EVAL-762", "DEP-20"],
        input: &[required("text", Shape::Text), default("other", Shape::OrNull(&Shape::Text), "null")],
        result: &[
            required("canonical", Shape::Text),
            required("value", Shape::OrNull(&Shape::Integer)),
            required("milli", Shape::OrNull(&Shape::Integer)),
            required("cmp", Shape::OrNull(&Shape::Integer)),
        ],
        example: (
            r#"{"text":"1500m","other":"1.5"}"#,
            r#"{"canonical":"1500m","value":2,"milli":1500,"cmp":0}"#,
        ),
        run: read_quantity,
    },
    Operation {
        name: "go.schema_default",
        summary: "A custom resource with defaults filled in and unknown members pruned.",
        stability: Stability::Stable,
        spec: &["EVAL-773", "DEP-20"],
        input: &[required("schema", Shape::Map), required("object", Shape::Map)],
        result: &[required("object", Shape::Map)],
        example: (
            r#"{"schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","default":1}}}}},"object":{"spec":{"x":2}}}"#,
            r#"{"object":{"spec":{"n":1}}}"#,
        ),
        run: |input| {
            let schema = Structural::new(input.get("schema")).map_err(Fault::invalid)?;
            let mut object = input.take("object");
            schema.fill_in(&mut object);
            schema.prune(&mut object);
            Ok(json!({"object": object}))
        },
    },
    Operation {
        name: "go.selector",
        summary: "A label selector: canonical text, and whether it matches.",
        stability: Stability::Stable,
        spec: &["EVAL-763", "DEP-20"],
        input: &[
            required("selector", Shape::Either(&Shape::Text, &Shape::Map)),
            default("labels", Shape::TextMap, "{}"),
        ],
        result: &[required("canonical", Shape::Text), required("matches", Shape::Bool)],
        example: (
            r#"{"selector":"tier in (b,a),app=web","labels":{"app":"web","tier":"a"}}"#,
            r#"{"canonical":"app=web,tier in (a,b)","matches":true}"#,
        ),
        run: select,
    },
    Operation {
        name: "go.smd",
        summary: "Server-side apply, or an update, with its records of field owners.",
        stability: Stability::Stable,
        spec: &["EVAL-774", "DEP-20"],
        input: &[
            default("operation", Shape::Text, "\"apply\""),
            default("types", Shape::Text, "\"builtin\""),
            default("live", Shape::OrNull(&Shape::Map), "null"),
            required("config", Shape::Map),
            required("manager", Shape::Text),
            default("force", Shape::Bool, "false"),
        ],
        result: &[
            required("object", Shape::OrNull(&Shape::Map)),
            required("conflicts", Shape::List(&Shape::Map)),
        ],
        example: (
            r#"{"config":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"2"}},"manager":"me","live":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","managedFields":[{"manager":"other","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}]},"data":{"a":"1"}}}"#,
            r#"{"object":null,"conflicts":[{"field":".data.a","message":"conflict with \"other\""}]}"#,
        ),
        run: merge_structured,
    },
    Operation {
        name: "go.strategic",
        summary: "Makes or applies a strategic merge patch of a built-in kind.",
        stability: Stability::Stable,
        spec: &["EVAL-768", "DEP-20"],
        input: &[
            required("apiVersion", Shape::Text),
            required("kind", Shape::Text),
            required("mode", Shape::Text),
            optional("original", Shape::Any),
            optional("modified", Shape::Any),
            optional("current", Shape::Any),
            optional("patch", Shape::Any),
            default("overwrite", Shape::Bool, "true"),
        ],
        result: &[optional("document", Shape::Any), optional("patch", Shape::Any)],
        example: (
            r#"{"apiVersion":"v1","kind":"Pod","mode":"apply","original":{"spec":{"containers":[{"name":"a","image":"i"}]}},"patch":{"spec":{"containers":[{"name":"a","image":"j"}]}}}"#,
            r#"{"document":{"spec":{"containers":[{"name":"a","image":"j"}]}}}"#,
        ),
        run: merge_strategically,
    },
];

fn merge(input: &mut Input) -> Result<Value, Fault> {
    match input.text("mode") {
        "apply" => {
            let patch = input.need("patch")?;
            let document = merge_patch::apply_to(input.need("document")?, &patch);
            Ok(json!({"document": document.map_err(Fault::invalid)?}))
        }
        "create" => {
            let (original, modified) = (input.need("original")?, input.need("modified")?);
            Ok(json!({"patch": merge_patch::create(&original, &modified).map_err(Fault::invalid)?}))
        }
        other => Err(Fault::invalid(format!("unknown mode {other:?}"))),
    }
}

fn read_quantity(input: &mut Input) -> Result<Value, Fault> {
    let quantity = Quantity::parse(input.text("text")).map_err(Fault::invalid)?;
    let cmp = match input.get("other").as_str() {
        None => None,
        Some(other) => Some(quantity.compare(&Quantity::parse(other).map_err(Fault::invalid)?) as i8),
    };
    Ok(json!({
        "canonical": quantity.canonical(),
        "value": quantity.value(),
        "milli": quantity.milli(),
        "cmp": cmp,
    }))
}

fn select(input: &mut Input) -> Result<Value, Fault> {
    let selector = match input.get("selector") {
        Value::String(text) => text.parse::<Selector>(),
        object => Selector::from_object(object),
    };
    let selector = selector.map_err(Fault::invalid)?;
    let labels = input.get("labels");
    let matches = selector.matches(|key| labels.get(key).and_then(Value::as_str));
    Ok(json!({"canonical": selector.to_string(), "matches": matches}))
}

fn merge_structured(input: &mut Input) -> Result<Value, Fault> {
    let types = match input.text("types") {
        "builtin" => Types::Builtin,
        "deduced" => Types::Deduced,
        other => return Err(Fault::invalid(format!("unknown types {other:?}"))),
    };
    let (config, manager) = (input.get("config"), input.text("manager"));
    let live = Some(input.get("live")).filter(|live| !live.is_null());
    let applied = match input.text("operation") {
        "update" => structured::update(live, config, manager, types).map(Applied::Object),
        "apply" => structured::apply(
            live,
            config,
            ApplyRequest { manager, subresource: "", time: None, force: input.flag("force"), types },
        ),
        other => return Err(Fault::invalid(format!("unknown operation {other:?}"))),
    };
    Ok(match applied.map_err(Fault::invalid)? {
        Applied::Object(object) => json!({"object": without_times(object), "conflicts": []}),
        Applied::Conflicts(mut conflicts) => {
            conflicts.sort();
            let shown = |conflict: structured::Conflict| json!({"field": conflict.field, "message": conflict.message});
            json!({"object": null, "conflicts": conflicts.into_iter().map(shown).collect::<Vec<Value>>()})
        }
    })
}

fn without_times(mut object: Value) -> Value {
    let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
        entry.remove("time");
    }
    object
}

fn merge_strategically(input: &mut Input) -> Result<Value, Fault> {
    let gvk = Gvk::from_api_version(input.text("apiVersion"), input.text("kind"));
    let conflicts = if input.flag("overwrite") { Conflicts::Overwrite } else { Conflicts::Fail };
    let options = strategic::Options { unknown_fields: UnknownFields::Fail, conflicts };
    match input.text("mode") {
        "create" => {
            let (original, modified) = (input.need("original")?, input.need("modified")?);
            let patch = strategic::create_two_way(&gvk, &original, &modified, options);
            Ok(json!({"patch": patch.map_err(Fault::invalid)?}))
        }
        "apply" => {
            let patch = input.need("patch")?;
            let document = strategic::apply(&gvk, input.need("original")?, &patch, options);
            Ok(json!({"document": document.map_err(Fault::invalid)?}))
        }
        "three_way" => {
            let (original, modified) = (input.need("original")?, input.need("modified")?);
            let current = input.need("current")?;
            let patch = strategic::three_way(&gvk, &original, &modified, &current, options);
            let patch = patch.map_err(Fault::invalid)?;
            let document = strategic::apply(&gvk, current, &patch, options).map_err(Fault::invalid)?;
            Ok(json!({"patch": patch, "document": document}))
        }
        other => Err(Fault::invalid(format!("unknown mode {other:?}"))),
    }
}
