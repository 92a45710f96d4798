//! Answers of a kube-apiserver 1.36.1, held against what is decided here.
//!
//! `testdata/rules.jsonl` has objects that were sent to be made: what was stored, or why they were refused.
//! `testdata/updates.jsonl` has changes, with the object that stood there before. Random names and addresses are
//! written as fixed ones, and times are left out.

use serde_json::{Value, json};
use tiphys_object::Gvk;

use crate::resource::{Resource, Scope};
use crate::status::Status;
use crate::strategy::{self, Draw};
use crate::{crd, defaults, strict, validate};

/// Draws the same every time.
struct Fixed;

impl Draw for Fixed {
    fn cluster_ip(&mut self) -> String {
        "10.0.0.1".to_owned()
    }

    fn node_port(&mut self) -> u16 {
        30000
    }

    fn uid(&mut self) -> String {
        "UID".to_owned()
    }
}

fn resource(row: &Value) -> Resource {
    let text = |name: &str| row[name].as_str().unwrap().into();
    Resource {
        group: text("group"),
        version: text("version"),
        plural: text("plural"),
        singular: "".into(),
        kind: text("kind"),
        list_kind: "".into(),
        scope: if row["namespaced"] == json!(true) { Scope::Namespaced } else { Scope::Cluster },
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: Vec::new(),
        has_status: row["has_status"] == json!(true),
        scale: None,
        custom: None,
    }
}

/// What a server would make of one row, in the members of the row.
fn answer(row: &Value, resource: &Resource) -> Value {
    let text = row["text"].as_str().unwrap();
    let object: Value = serde_json::from_str(text).unwrap();
    let warnings = strict::problems(resource, text, &object);
    let mut object = match strict::decode(resource, object) {
        Ok(object) => object,
        Err(problem) => return json!({"undecodable": problem}),
    };
    match &resource.custom {
        Some(custom) => {
            custom.structural.prune(&mut object);
            custom.structural.fill_in(&mut object);
        }
        None => defaults::fill_in(&Gvk::of(&object), &mut object),
    }
    let errors = if row["old"].is_null() {
        if resource.scope == Scope::Namespaced {
            object["metadata"]["namespace"] = json!("default");
        }
        strategy::prepare_create(resource, &mut object, &mut Fixed);
        validate::create(resource, &object)
    } else {
        let subresource = row["subresource"].as_str().unwrap_or("");
        strategy::prepare_update(resource, &row["old"], &mut object, subresource, &mut Fixed);
        validate::update(resource, &row["old"], &object)
    };
    if !errors.is_empty() {
        let name = object["metadata"]["name"].as_str().unwrap_or("");
        return json!({"refused": Status::invalid(&resource.group, &resource.kind, name, &errors).message});
    }
    let mut answer = json!({"object": without_chance(&object)});
    if !warnings.is_empty() && row["old"].is_null() {
        answer["warnings"] = json!(warnings);
    }
    answer
}

/// The object without times and books, and with a fixed name for the volume of its token.
fn without_chance(object: &Value) -> Value {
    const NAME: &str = "kube-api-access-";
    let mut object = object.clone();
    for member in ["creationTimestamp", "managedFields", "resourceVersion"] {
        object["metadata"].as_object_mut().unwrap().remove(member);
    }
    let mut text = object.to_string();
    let found: Vec<usize> = text.match_indices(NAME).map(|(at, _)| at + NAME.len()).collect();
    for at in found {
        text.replace_range(at..at + 5, "xxxxx");
    }
    serde_json::from_str(&text).unwrap()
}

/// Compares all rows, and tells about every one that differs.
fn compare(rows: &str) {
    let mut custom: Option<Resource> = None;
    let mut differences = Vec::new();
    for line in rows.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        if row["resource"].is_null() {
            let mut definition = row["definition"].clone();
            crd::fill_in(&mut definition);
            custom = crd::resources(&definition).pop();
            continue;
        }
        let own = resource(&row["resource"]);
        let resource = if row["definition"] == json!(true) { custom.as_ref().unwrap() } else { &own };
        let found = answer(&row, resource);
        for member in ["object", "refused", "undecodable", "warnings"] {
            if row[member] != found[member] {
                differences.push(format!("{}\n  wanted {}\n  found  {found}", row["text"], row[member]));
            }
        }
    }
    assert!(differences.is_empty(), "{} rows differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn what_is_made_is_what_a_server_makes() {
    compare(include_str!("../testdata/rules.jsonl"));
}

#[test]
fn what_is_changed_is_what_a_server_makes_of_a_change() {
    compare(include_str!("../testdata/updates.jsonl"));
}
