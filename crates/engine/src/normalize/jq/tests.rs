use super::*;
use serde_json::json;

fn deleted(expression: &str, mut document: Value) -> Value {
    if let Ok(paths) = JqPath::compile(expression).unwrap().existing_paths(&document) {
        delete_paths(&mut document, &paths);
    }
    document
}

fn pod() -> Value {
    json!({"spec": {"containers": [
        {"name": "a", "image": "x", "env": [{"name": "K", "value": "1"}, {"name": "L"}]},
        {"name": "b", "image": "y"},
        {"name": "c"}]}, "metadata": {"annotations": {"x/y": "1", "z": "2"}}})
}

#[test]
fn eng_69_paths_are_deleted() {
    assert_eq!(deleted(".spec", pod()).get("spec"), None);
    assert_eq!(deleted(".spec.containers[].image", pod())["spec"]["containers"][1], json!({"name": "b"}));
    assert_eq!(
        deleted(r#".spec.containers[] | select(.name == "b")"#, pod())["spec"]["containers"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        deleted(r#".spec.containers[].env[]? | select(.name == "K").value"#, pod())["spec"]["containers"][0]
            ["env"],
        json!([{"name": "K"}, {"name": "L"}])
    );
    assert_eq!(
        deleted(r#".metadata.annotations["x/y"]"#, pod())["metadata"]["annotations"],
        json!({"z": "2"})
    );
}

#[test]
fn dep_47_absent_members_are_no_error() {
    for expression in
        [".a.b", ".spec.nothing.deeper", ".spec.containers[9]", ".spec.containers[].none.deeper"]
    {
        assert_eq!(deleted(expression, pod()), pod(), "{expression}");
    }
    assert_eq!(deleted(".a.b", json!({"a": null})), json!({"a": null}));
}

#[test]
fn dep_47_items_go_last_first() {
    let list = || json!({"l": [0, 1, 2, 3, 4]});
    assert_eq!(deleted(".l[0], .l[2], .l[0]", list())["l"], json!([1, 3, 4]));
    assert_eq!(deleted(".l[1:3]", list())["l"], json!([0, 3, 4]));
    assert_eq!(deleted(".l[-1], .l[-2:]", list())["l"], json!([0, 1, 2]));
    assert_eq!(deleted(".l[1:][0]", list())["l"], json!([0, 2, 3, 4]));
    assert_eq!(deleted(".l[] | select(. > 1)", list())["l"], json!([0, 1]));
    assert_eq!(deleted(".l, .l[0]", list()), json!({}));
}

#[test]
fn eng_69_a_failing_run_changes_nothing() {
    for expression in [
        ".spec[]?.x | error",
        ".spec.containers[].name[]",
        "error(\"x\")",
        "1",
        ".metadata.annotations | keys",
    ] {
        assert_eq!(deleted(expression, pod()), pod(), "{expression}");
    }
}

#[test]
fn dep_47_the_prelude_knows_what_rules_use() {
    assert_eq!(
        deleted(r#".spec.containers[] | select(.name | IN("a", "b"))"#, pod())["spec"]["containers"],
        json!([{"name": "c"}])
    );
    assert_eq!(deleted("first(.spec.containers[].image)", pod())["spec"]["containers"][0].get("image"), None);
    let by_key = r#".metadata.annotations | to_entries[] | select(.key | startswith("x/"))"#;
    assert_eq!(deleted(by_key, pod()), pod(), "to_entries makes no paths");
    assert_eq!(
        deleted(
            r#".metadata.annotations[(.metadata.annotations | keys[] | select(startswith("x/")))]"#,
            pod()
        )["metadata"]["annotations"],
        json!({"z": "2"})
    );
    assert_eq!(
        deleted(r#".. | select(type == "object" and has("image")) | .image"#, pod())["spec"]["containers"][0]
            .get("image"),
        None
    );
    assert_eq!(
        deleted(r#".spec.containers[] | select(.name | test("^[ab]$")) | .image"#, pod())["spec"]["containers"]
            [1],
        json!({"name": "b"})
    );
}

#[test]
fn sty_114_endless_expressions_end() {
    for expression in
        ["repeat(.)", "recurse(.)", "first(repeat(empty))", "last(range(1e15))", "until(false; .)"]
    {
        assert_eq!(deleted(expression, pod()), pod(), "{expression}");
    }
}

#[test]
fn sty_27_nesting_is_bounded() {
    for nested in ["(".repeat(2000) + "." + &")".repeat(2000), "[".repeat(2000)] {
        assert!(JqPath::compile(&nested).is_err());
    }
    let chains = |n: usize| {
        [
            ".a|".repeat(n) + ".",
            ".a,".repeat(n) + ".a",
            "-".repeat(n) + "1",
            ".a".repeat(n),
            "if . then ".repeat(n),
            "(".repeat(n) + "." + &")".repeat(n),
            "..|".repeat(3) + ".",
        ]
    };
    for n in [60, 130, 190, 400, 2000] {
        for chain in chains(n) {
            if let Ok(path) = JqPath::compile(&chain) {
                drop(path.existing_paths(&pod()));
            }
        }
    }
}

#[test]
fn sty_10_nothing_outside_is_visible() {
    for expression in [
        "now",
        "env",
        "$ENV",
        "input",
        "halt",
        "debug",
        "def f: f; f",
        "include \"x\"; .",
        ".a | def g: 1; .",
    ] {
        assert!(JqPath::compile(expression).is_err(), "{expression}");
    }
}

#[test]
fn eng_69_syntax_errors_name_the_expression() {
    let error = JqPath::compile(".a[").unwrap_err();
    assert_eq!(error.expression, ".a[");
    assert!(error.to_string().starts_with(r#"invalid jq path expression ".a[": expected"#), "{error}");
    assert!(JqPath::compile(".a | nothing(1)").unwrap_err().reason.contains("undefined filter"));
}

#[test]
fn sty_14_rules_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<JqPath>();
}

/// SEC-07: each item that goes shifted all items behind it.
#[test]
fn sec_07_many_items_go_at_once() {
    const MANY: usize = 500_000;
    let item = |index: usize| vec![PathStep::Member("l".to_owned()), PathStep::Item(index)];
    let mut document = json!({"l": vec![json!({"x": [1, 2], "y": 0}); MANY]});
    let mut paths: BTreeSet<Vec<PathStep>> = (0..MANY / 2).map(item).collect();
    // Paths through items, those that go and those that stay.
    for (index, last) in [(3, PathStep::Item(0)), (MANY - 1, PathStep::Item(1))] {
        paths.insert([item(index), vec![PathStep::Member("x".to_owned()), last]].concat());
    }
    paths.insert([item(MANY - 2), vec![PathStep::Member("y".to_owned())]].concat());
    delete_paths(&mut document, &paths);
    let left = document["l"].as_array().unwrap();
    assert_eq!(left.len(), MANY / 2);
    assert_eq!(
        left[left.len() - 3..],
        [json!({"x": [1, 2], "y": 0}), json!({"x": [1, 2]}), json!({"x": [1], "y": 0})]
    );
}

/// In a child of the controller such a value was too deep for the stack, in `eval` it was not: the same bound holds for
/// both, and the rule is stopped, which users see.
#[test]
fn eng_69_values_nested_too_deep_stop_the_expression() {
    let found = |expression: &str| JqPath::compile(expression).unwrap().existing_paths(&pod());
    for expression in [
        "select((reduce range(49000) as $i (0; [.])) != 0)",
        "select((reduce range(49000) as $i (0; [.]) | tojson | length) == 0)",
        "select([foreach range(49000) as $i (0; {a: .})] | length == 0)",
        "select(({} | setpath([range(40000) | tostring]; 1)) != 0)",
        "select((([range(40000)] | map(\"[\") | add) | fromjson?) != 0)",
        "(reduce range(49000) as $i (0; [.]))? // .spec",
    ] {
        let stopped = ScriptFault::Stopped(TOO_DEEP.to_owned());
        assert_eq!(found(expression), Err(stopped), "{expression}");
    }
    let steps = found("select([range(60000)] == [])");
    assert_eq!(steps, Err(ScriptFault::Stopped(TOO_MANY_STEPS.to_owned())));
    assert!(matches!(found("error"), Err(ScriptFault::Failed(_))));
    for (expression, count) in [
        (".spec.containers[] | select(([.name] | add) == (reduce .name as $x (\"\"; . + $x)))", 3),
        (".spec | getpath([\"containers\", 0])", 1),
        (".spec.containers[] | select((\"{\\\"a\\\": 1}\" | fromjson.a) == 1)", 3),
        ("reduce (\"spec\", \"containers\") as $p (.; .[$p])", 1),
        (".spec.containers[] | select((reduce range(900) as $i (0; [.])) != 0)", 3),
    ] {
        assert_eq!(found(expression).map(|paths| paths.len()), Ok(count), "{expression}");
    }
    for reserved in ["unchecked_fromjson", "checked_rule"] {
        assert!(JqPath::compile(reserved).is_err());
    }
}
