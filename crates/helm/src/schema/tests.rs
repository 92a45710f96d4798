use serde_json::json;

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "JSON is written where it is used")]
fn validate(schema: Value, value: Value) -> Result<(), String> {
    let schema =
        Schema::compile(schema.to_string().as_bytes(), &Documents::new()).map_err(|e| e.to_string())?;
    schema.validate(&value).map_err(|error| error.to_string())
}

#[test]
fn rnd_176_texts_are_those_of_helm() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "required": ["name"],
        "properties": {"port": {"type": "integer"}, "size": {"maximum": 65535}},
    });
    let error = validate(schema, json!({"port": "80", "size": 70000})).unwrap_err();
    let expected = "\n- at '': missing property 'name'\n- at '/port': got string, want integer\n\
                    - at '/size': maximum: got 70,000, want 65,535";
    assert_eq!(error, expected);
}

#[test]
fn rnd_176_what_is_no_schema_is_an_error() {
    let error = validate(json!({"properties": {"a": {"required": true}}}), json!({})).unwrap_err();
    assert!(error.contains("is not valid against metaschema"), "{error}");
    assert!(error.contains("- at '/properties/a/required': got boolean, want array"), "{error}");
}

#[test]
fn sec_01_other_documents_are_not_fetched() {
    for reference in ["https://example.com/x.json", "file:///etc/passwd", "other.json"] {
        let error = validate(json!({"$ref": reference}), json!({})).unwrap_err();
        assert!(error.starts_with("failing loading "), "{error}");
    }
}
