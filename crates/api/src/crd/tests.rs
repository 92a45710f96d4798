use std::path::PathBuf;

use super::*;

fn find(kind: &str) -> Value {
    manifests().into_iter().find(|manifest| manifest["spec"]["names"]["kind"] == kind).unwrap()
}

fn property(kind: &str, path: &str) -> Value {
    let root = find(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    path.split('.').fold(root, |schema, step| match step {
        "[]" => schema["items"].clone(),
        name => schema["properties"][name].clone(),
    })
}

#[test]
fn dep_2_1_deployed_definitions_are_the_generated_ones() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    for manifest in manifests() {
        let plural = manifest["spec"]["names"]["plural"].as_str().unwrap().to_owned();
        let stored = std::fs::read_to_string(folder.join(format!("{plural}.yaml"))).unwrap();
        let generated = tiphys_go::yaml::to_string(&manifest).unwrap();
        assert!(
            stored.trim_end() == generated.trim_end(),
            "{plural}.yaml is stale: cargo run -p tiphys-api --example crds"
        );
    }
}

#[test]
fn every_spelled_type_exists() {
    let tables = [application::TYPES, applicationset::TYPES, applicationset::GENERATORS, project::TYPES];
    assert_eq!(field::unknown_types(&tables), [] as [String; 0]);
}

#[test]
fn ctl_1_application_names_and_columns() {
    let application = find("Application");
    assert_eq!(application["spec"]["names"]["shortNames"], json!(["app", "apps"]));
    let version = &application["spec"]["versions"][0];
    assert!(version.get("subresources").is_none());
    let columns: Vec<_> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| (column["name"].as_str().unwrap(), column["priority"].as_i64().unwrap_or(0)))
        .collect();
    assert_eq!(columns, [("Sync Status", 0), ("Health Status", 0), ("Revision", 10), ("Project", 10)]);
    let schema = &version["schema"]["openAPIV3Schema"];
    assert_eq!(schema["required"], json!(["metadata", "spec"]));
    assert_eq!(property("Application", "spec")["required"], json!(["project", "destination"]));
}

#[test]
fn ctl_5_hydrators_never_write_to_the_root() {
    assert_eq!(property("Application", "spec.sourceHydrator.syncSource.path")["pattern"], "^.{2,}|[^./]$");
}

#[test]
fn aset_1_required_members_and_the_only_enum() {
    assert_eq!(find("ApplicationSet")["spec"]["versions"][0]["subresources"], json!({"status": {}}));
    assert!(find("ApplicationSet")["spec"]["versions"][0].get("additionalPrinterColumns").is_none());
    assert_eq!(property("ApplicationSet", "spec")["required"], json!(["generators", "template"]));
    for template in [
        "spec.template",
        "spec.generators.[].git.template",
        "spec.generators.[].matrix.generators.[].list.template",
    ] {
        let template = property("ApplicationSet", template);
        assert_eq!(template["required"], json!(["metadata", "spec"]));
        assert_eq!(template["properties"]["spec"]["required"], json!(["project", "destination"]));
    }
    let spec = property("ApplicationSet", "spec").to_string();
    assert_eq!(spec.matches("\"enum\"").count(), 1);
}

#[test]
fn aset_261_definitions_that_lack_our_fields_are_found_out() {
    let mut definition = find("ApplicationSet");
    assert_eq!(pruned_set_fields(&definition), [] as [&str; 0]);
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let properties = |definition: &mut Value, of: &str| {
        let found = definition.pointer_mut(&format!("{spec}{of}/properties")).unwrap();
        found.as_object_mut().unwrap().clone()
    };
    assert!(properties(&mut definition, "").contains_key("project"));
    definition.pointer_mut(&format!("{spec}/properties")).unwrap().as_object_mut().unwrap().remove("project");
    assert_eq!(pruned_set_fields(&definition), ["spec.project"]);
    let strategy = format!("{spec}/properties/strategy/properties");
    definition.pointer_mut(&strategy).unwrap().as_object_mut().unwrap().remove("deletionSync");
    assert_eq!(pruned_set_fields(&definition), ["spec.project", "spec.strategy.deletionSync"]);
    definition.pointer_mut(spec).unwrap()["x-kubernetes-preserve-unknown-fields"] = json!(true);
    assert_eq!(pruned_set_fields(&definition), [] as [&str; 0]);
    assert_eq!(pruned_set_fields(&json!({})), [] as [&str; 0]);
}

#[test]
fn aset_3_second_level_matrix_is_free_form() {
    let nested = property("ApplicationSet", "spec.generators.[].matrix.generators.[].merge");
    assert_eq!(nested["x-kubernetes-preserve-unknown-fields"], true);
    assert!(nested.get("type").is_none());
}

#[test]
fn rep_120_descriptions_of_projects_are_bounded() {
    assert_eq!(property("AppProject", "spec.description")["maxLength"], 255);
    assert!(find("AppProject")["spec"]["versions"][0].get("subresources").is_none());
}

#[test]
fn definitions_fit_into_one_request() {
    for manifest in manifests() {
        assert!(manifest.to_string().len() < 1_000_000, "{}", manifest["metadata"]["name"]);
    }
}

/// A value of a schema with every member set.
fn filled(schema: &Value) -> Value {
    if schema["x-kubernetes-int-or-string"] == true {
        return json!("1");
    }
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let members = schema["properties"].as_object();
            let mut all: serde_json::Map<String, Value> =
                members.into_iter().flatten().map(|(name, member)| (name.clone(), filled(member))).collect();
            if schema["additionalProperties"].is_object() {
                all.insert("key".to_owned(), filled(&schema["additionalProperties"]));
            }
            Value::Object(all)
        }
        Some("array") => json!([filled(&schema["items"])]),
        Some("integer") => json!(1),
        Some("number") => json!(1.5),
        Some("boolean") => json!(true),
        _ if schema["format"] == "date-time" => json!("2026-01-01T00:00:00Z"),
        Some("string") => json!("text"),
        _ => json!({"free": "form"}),
    }
}

/// Members that a typed value kept only because it keeps what it does not know.
fn unknown_members(shown: &str) -> Vec<String> {
    let all = shown.split("unknown: {").skip(1);
    let first_name = |rest: &str| rest.split('"').nth(1).map(str::to_owned);
    all.filter(|rest| !rest.starts_with('}')).filter_map(first_name).collect()
}

/// STY-42: a member of a table that its struct lacks would be kept, shown, and never obeyed.
#[test]
fn every_member_of_the_tables_has_a_field() {
    for manifest in manifests() {
        let kind = manifest["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        let schema = &manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut value = filled(schema);
        value["metadata"] = json!({"name": "a"});
        let bytes = value.to_string();
        let (shown, written) = match kind.as_str() {
            "Application" => {
                let typed: crate::Application = serde_json::from_str(&bytes).unwrap();
                (format!("{typed:?}"), serde_json::to_value(&typed).unwrap())
            }
            "AppProject" => {
                let typed: crate::AppProject = serde_json::from_str(&bytes).unwrap();
                (format!("{typed:?}"), serde_json::to_value(&typed).unwrap())
            }
            _ => {
                let typed: crate::ApplicationSet = serde_json::from_str(&bytes).unwrap();
                (format!("{typed:?}"), serde_json::to_value(&typed).unwrap())
            }
        };
        assert_eq!(unknown_members(&shown), Vec::<String>::new(), "{kind}");
        for part in ["spec", "status", "operation"] {
            assert_eq!(written.get(part), value.get(part), "{kind}.{part} is written as it was read");
        }
    }
}
