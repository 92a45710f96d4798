use serde_json::{Map, json};

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

/// B8: a pattern of many states was charged as any other, a step for sixteen bytes.
#[test]
fn sec_07_patterns_of_a_schema_are_charged_by_their_weight() {
    let text = "a".repeat(300_000);
    let heavy = json!({"items": {"pattern": "[a-z]*a[a-z]{900}9"}});
    let many = |pattern: Value| validate(pattern, json!(vec![text.as_str(); 40])).unwrap_err();
    assert!(many(heavy).contains("checking the values takes too many steps"));
    assert!(
        many(json!({"items": {"pattern": "^b"}})).contains("does not match pattern"),
        "light ones are cheap"
    );
    let names: Map<String, Value> = (0..40).map(|number| (format!("{number}{text}"), json!(1))).collect();
    let by_name = json!({"patternProperties": {"[a-z]*a[a-z]{900}9": {"type": "string"}}});
    assert!(validate(by_name, names.into()).unwrap_err().contains("takes too many steps"));
}

/// B8: values that are expressions were compiled at the price of one step.
#[test]
fn sec_07_expressions_of_a_schema_are_charged_when_compiled() {
    let pattern = |number: usize| format!("[a-z]{{900}}{number}");
    let values: Vec<String> = (0..6_000).map(pattern).collect();
    let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": {"format": "regex"}});
    assert!(validate(schema, json!(values)).unwrap_err().contains("takes too many steps"));
    let patterns = |count: usize| {
        let all: Vec<Value> =
            (0..count).map(|number| json!({"pattern": format!("{}{number}", "a".repeat(2_000))})).collect();
        json!({"anyOf": all})
    };
    assert_eq!(validate(patterns(10), json!(1)), Ok(()));
    assert!(validate(patterns(1_100), json!(1)).unwrap_err().contains("the schema is too large"));
}

/// B8: a check went on, with its turn, after the rendering was given up.
#[test]
fn sec_07_a_check_of_values_ends_when_its_run_does() {
    let schema = json!({"items": {"type": "integer"}}).to_string();
    let schema = Schema::compile(schema.as_bytes(), &Documents::new()).unwrap();
    let asked = std::cell::Cell::new(0);
    let gives_up = || {
        asked.set(asked.get() + 1);
        asked.get() > 2
    };
    let values = json!(vec![1; 1_000_000]);
    assert_eq!(schema.validate_unless(&values, &gives_up), Err(SchemaError::Cancelled));
    assert_eq!(asked.get(), 3);
    assert_eq!(schema.validate(&values), Ok(()));
}
