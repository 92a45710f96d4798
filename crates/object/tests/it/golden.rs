//! Answers of the imitated Go libraries, one test per family (DEP-20). All differences are shown, by id.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use tiphys_object::quantity::Quantity;
use tiphys_object::selector::Selector;
use tiphys_object::strategic::{self, Conflicts, Options, UnknownFields};
use tiphys_object::structured::{self, Applied, ApplyRequest, Types};
use tiphys_object::{Gvk, json_patch, merge_patch};

/// Runs one family: `answer` gives the result of an input, or `None` when it is refused.
fn check(family: &str, answer: impl Fn(&Value) -> Option<Value>) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/go-compat");
    let path = PathBuf::from(folder).join(format!("{family}.jsonl"));
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: no {}", path.display());
        return;
    };
    let mut differences = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let row: Value = serde_json::from_str(line).unwrap();
        let wanted = row.get("result").cloned();
        let found = answer(&row["input"]);
        if found != wanted {
            let show = |value: &Option<Value>| value.as_ref().map_or("refused".to_owned(), Value::to_string);
            differences.push(format!("{}\n  wanted {}\n  found  {}", row["id"], show(&wanted), show(&found)));
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn eval_762_quantity() {
    check("quantity", |input| {
        let quantity = Quantity::parse(input["text"].as_str()?).ok()?;
        let order = match input.get("other").and_then(Value::as_str) {
            Some(other) => Some(quantity.compare(&Quantity::parse(other).ok()?) as i8),
            None => None,
        };
        Some(
            json!({"canonical": quantity.canonical(), "value": quantity.value(), "milli": quantity.milli(), "cmp": order}),
        )
    });
}

#[test]
fn eval_763_selector() {
    check("selector", |input| {
        let selector = match &input["selector"] {
            Value::String(text) => text.parse::<Selector>().ok()?,
            object => Selector::from_object(object).ok()?,
        };
        let labels: BTreeMap<String, String> =
            serde_json::from_value(input["labels"].clone()).unwrap_or_default();
        let matches = selector.matches(|key| labels.get(key).map(String::as_str));
        Some(json!({"canonical": selector.to_string(), "matches": matches}))
    });
}

#[test]
fn eval_766_json_patch() {
    check("json-patch", |input| {
        let document = json_patch::apply(input["document"].clone(), &input["patch"]).ok()?;
        Some(json!({"document": document}))
    });
}

#[test]
fn eval_767_merge_patch() {
    check("merge-patch", |input| match input["mode"].as_str()? {
        "apply" => Some(json!({"document": merge_patch::apply(input["document"].clone(), &input["patch"])})),
        _ => Some(json!({"patch": merge_patch::create(&input["original"], &input["modified"]).ok()?})),
    });
}

fn strategic(input: &Value) -> Option<Value> {
    let gvk = Gvk::of(input);
    let conflicts = if input["overwrite"] == json!(false) { Conflicts::Fail } else { Conflicts::Overwrite };
    let options = Options { unknown_fields: UnknownFields::Fail, conflicts };
    let apply =
        |document: &Value, patch: &Value| strategic::apply(&gvk, document.clone(), patch, options).ok();
    let (original, modified) = (&input["original"], &input["modified"]);
    match input["mode"].as_str()? {
        "create" => {
            Some(json!({"patch": strategic::create_two_way(&gvk, original, modified, options).ok()?}))
        }
        "apply" => Some(json!({"document": apply(original, &input["patch"])?})),
        _ => {
            let current = &input["current"];
            let patch = strategic::three_way(&gvk, original, modified, current, options).ok()?;
            Some(json!({"document": apply(current, &patch)?, "patch": patch}))
        }
    }
}

#[test]
fn eval_768_strategic_create() {
    check("strategic-create", strategic);
}

#[test]
fn eval_768_strategic_apply() {
    check("strategic-apply", strategic);
}

#[test]
fn eval_768_strategic_three_way() {
    check("strategic-three-way", strategic);
}

#[test]
fn eval_774_smd() {
    check("smd", |input| {
        let types = if input["types"] == json!("deduced") { Types::Deduced } else { Types::Builtin };
        let live = Some(&input["live"]).filter(|live| !live.is_null());
        let manager = input["manager"].as_str()?;
        if input["operation"] == json!("update") {
            let object = structured::update(live, &input["config"], manager, types).ok()?;
            return Some(json!({"object": object, "conflicts": []}));
        }
        let request = ApplyRequest { manager, subresource: "", force: input["force"] == json!(true), types };
        Some(match structured::apply(live, &input["config"], request).ok()? {
            Applied::Object(object) => json!({"object": object, "conflicts": []}),
            Applied::Conflicts(conflicts) => {
                let conflicts: Vec<Value> = conflicts
                    .into_iter()
                    .map(|conflict| json!({"field": conflict.field, "message": conflict.message}))
                    .collect();
                json!({"object": null, "conflicts": conflicts})
            }
        })
    });
}
