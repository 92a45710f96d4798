//! Applies to custom resources, as a kube-apiserver 1.36.1 answered them.

use serde_json::{Value, json};
use tiphys_object::structural::Structural;
use tiphys_object::structured::{self, Applied, ApplyRequest, SchemaTypes, Types};

#[test]
fn eng_209_custom_resources_are_merged_by_the_schema_of_their_definition() {
    let golden: Value = serde_json::from_str(include_str!("custom.json")).unwrap();
    let types = SchemaTypes::new(&golden["schema"], false);
    let structural = Structural::new(&golden["schema"]).unwrap();
    let mut live: Option<Value> = None;
    for step in golden["steps"].as_array().unwrap() {
        let manager = step[0].as_str().unwrap();
        let request =
            ApplyRequest { manager, subresource: "", time: None, force: true, types: Types::Schema(&types) };
        let Applied::Object(mut object) = structured::apply(live.as_ref(), &step[1], request).unwrap() else {
            panic!("a forced apply has no conflicts")
        };
        structural.fill_in(&mut object);
        assert_eq!(object["spec"], step[2]["spec"]);
        let books = |object: &Value| -> Vec<Value> {
            let entries = object["metadata"]["managedFields"].as_array().unwrap();
            // The order is that of times, which are not told here.
            let mut books: Vec<Value> =
                entries.iter().map(|entry| json!([entry["manager"], entry["fieldsV1"]])).collect();
            books.sort_by_key(ToString::to_string);
            books
        };
        assert_eq!(books(&object), books(&step[2]));
        live = Some(object);
    }
}

#[test]
fn eng_209_a_member_that_the_schema_does_not_know_is_refused() {
    let types = SchemaTypes::new(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}),
        false,
    );
    let request = ApplyRequest {
        manager: "m",
        subresource: "",
        time: None,
        force: false,
        types: Types::Schema(&types),
    };
    let config = json!({"apiVersion": "a.b/v1", "kind": "C", "metadata": {"name": "n"}, "spec": {"b": 1}});
    assert!(structured::apply(None, &config, request).is_err());
    let fine = json!({"apiVersion": "a.b/v1", "kind": "C", "metadata": {"name": "n"}, "spec": {"a": "x"}});
    assert!(structured::apply(None, &fine, request).is_ok());
}
