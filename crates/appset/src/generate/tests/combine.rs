#![expect(clippy::needless_pass_by_value, reason = "JSON is written where it is used")]

use super::*;

fn list(elements: Value) -> Value {
    json!({"list": {"elements": elements}})
}

fn matrix(generators: Value) -> Value {
    json!([{"matrix": {"generators": generators}}])
}

fn merge(keys: Value, generators: Value) -> Value {
    json!([{"merge": {"mergeKeys": keys, "generators": generators}}])
}

fn fast(generators: Value) -> Result<Vec<String>, String> {
    World::default().sets_of(&fast_set(generators))
}

fn go(generators: Value) -> Result<Vec<String>, String> {
    World::default().sets_of(&go_set(generators))
}

#[test]
fn aset_73_a_matrix_has_two_children_with_one_generator_each() {
    let one = list(json!([{"a": "1"}]));
    for (generators, expected) in [
        (json!([]), "found less than two generators, Matrix support only two"),
        (json!([one]), "found less than two generators, Matrix support only two"),
        (json!([one, one, one]), "found more than two generators, Matrix support only two"),
        (json!([one, {"list": {}, "clusters": {}}]), "found more than one generator in matrix.Generators"),
        (json!([one, {}]), "child generator generated no parameters"),
        (json!([{"odd": {}}, one]), "child generator generated no parameters"),
    ] {
        assert_eq!(go(matrix(generators.clone())), Err(expected.to_owned()), "{generators}");
    }
    // What would stand on a third level is not recognised.
    let third = json!([one, {"matrix": {"generators": [one, {"matrix": {"generators": [one, one]}}]}}]);
    assert_eq!(go(matrix(third)), Err("child generator generated no parameters".to_owned()));
}

#[test]
fn aset_74_the_first_child_is_outer() {
    let pairs = matrix(json!([list(json!([{"a": "1"}, {"a": "2"}])), list(json!([{"b": "x"}, {"b": "y"}]))]));
    let expected = texts(&[
        r#"{"a":"1","b":"x"}"#,
        r#"{"a":"1","b":"y"}"#,
        r#"{"a":"2","b":"x"}"#,
        r#"{"a":"2","b":"y"}"#,
    ]);
    assert_eq!(fast(pairs.clone()).unwrap(), expected);
    assert_eq!(go(pairs).unwrap(), expected);
    assert_eq!(go(matrix(json!([list(json!([])), list(json!([{"b": "x"}]))]))).unwrap(), texts(&[]));
}

#[test]
fn aset_75_equal_keys_conflict_in_fast_mode() {
    let with = |a: Value, b: Value| fast(matrix(json!([list(json!([a])), list(json!([b]))])));
    assert_eq!(
        with(json!({"k": "1", "x": "a"}), json!({"k": "1"})).unwrap(),
        texts(&[r#"{"k":"1","x":"a"}"#])
    );
    assert_eq!(
        with(json!({"k": "1"}), json!({"k": "2"})),
        Err("found duplicate key k with different value, a: 1 ,b: 2".to_owned())
    );
    // Numbers become substitutable here.
    let numbers = json!([{"list": {"elementsYaml": "- {num: 1000000}"}}, list(json!([{"b": "x"}]))]);
    assert_eq!(fast(matrix(numbers)).unwrap(), texts(&[r#"{"b":"x","num":"1e+06"}"#]));
}

#[test]
fn aset_75_a_cluster_without_a_project_contradicts_nobody() {
    let world = World::default().with_clusters(vec![cluster("a", &[])]);
    let select =
        json!({"clusters": {"selector": {"matchLabels": {"argocd.argoproj.io/secret-type": "cluster"}}}});
    for children in [
        json!([list(json!([{"project": "shop"}])), select]),
        json!([select, list(json!([{"project": "shop"}]))]),
    ] {
        let sets = world.parameters(&fast_set(matrix(children))).unwrap();
        assert_eq!(sets[0]["project"], "shop");
    }
    let other = json!([list(json!([{"project": ""}])), list(json!([{"project": "x"}]))]);
    assert!(fast(matrix(other)).is_err(), "other generators conflict");
}

#[test]
fn aset_75_in_go_mode_the_first_wins_deeply() {
    let a = json!({"m": {"x": false, "y": ""}, "l": [1], "n": null});
    let b = json!({"m": {"x": true, "y": "b", "z": 1}, "l": [2, 3], "n": 4, "o": 5});
    assert_eq!(
        go(matrix(json!([list(json!([a])), list(json!([b]))]))).unwrap(),
        texts(&[r#"{"l":[1],"m":{"x":false,"y":"","z":1},"n":null,"o":5}"#])
    );
}

#[test]
fn aset_76_the_second_child_is_filled_in() {
    let world =
        World::default().with_repo("https://h/dev", &[("a/x", "")]).with_repo("https://h/qa", &[("b/x", "")]);
    let fast_matrix = matrix(json!([list(json!([{"env": "dev"}, {"env": "qa"}])),
        {"git": {"repoURL": "https://h/{{env}}", "revision": "{{ unknown }}", "directories": [{"path": "*"}],
            "values": {"both": "{{env}}-{{path}}"}}}]));
    let sets = world.parameters(&fast_set(fast_matrix)).unwrap();
    let both: Vec<&str> = sets.iter().map(|set| set["values.both"].as_str().unwrap()).collect();
    assert_eq!(both, ["dev-a", "qa-b"]);
    assert_eq!(world.asked.borrow()[0], "directories of https://h/dev at {{ unknown }}");
    let go_matrix = matrix(json!([list(json!([{"env": "dev"}])),
        {"git": {"repoURL": "https://h/{{.env}}", "revision": "main", "directories": [{"path": "*"}],
            "values": {"own": "{{.path.path}}", "outer": "{{.env}}"}}}]));
    let sets = world.parameters(&go_set(go_matrix)).unwrap();
    assert_eq!(sets[0]["values"], json!({"own": "a", "outer": "dev"}));
}

#[test]
fn aset_76_missing_keys_follow_the_options_but_in_values() {
    let children = json!([list(json!([{"a": "1"}])), {"list": {"elements": [{"b": "{{.missing}}"}]}}]);
    assert_eq!(go(matrix(children.clone())).unwrap(), texts(&[r#"{"a":"1","b":"<no value>"}"#]));
    let mut strict = go_set(matrix(children));
    strict.spec.go_template_options = vec!["missingkey=error".to_owned()];
    let error = World::default().sets_of(&strict).unwrap_err();
    assert!(error.contains("map has no entry for key \"missing\""), "{error}");
}

#[test]
fn aset_77_each_file_is_paired_with_the_clusters_of_its_environment() {
    let world = World::default()
        .with_repo("https://h/r", &[("dev/c.json", "{}"), ("prod/c.json", "{}")])
        .with_clusters(vec![
            cluster("d1", &[("env", "dev")]),
            cluster("p1", &[("env", "prod")]),
            cluster("p2", &[("env", "prod")]),
        ]);
    let pairs = matrix(json!([
        {"git": {"repoURL": "https://h/r", "revision": "main", "files": [{"path": "*.json"}]}},
        {"clusters": {"selector": {"matchLabels": {"env": "{{path.basename}}"}}}}]));
    let sets = world.parameters(&fast_set(pairs)).unwrap();
    let found: Vec<_> =
        sets.iter().map(|set| (set["path"].as_str().unwrap(), set["name"].as_str().unwrap())).collect();
    assert_eq!(found, [("dev", "d1"), ("prod", "p1"), ("prod", "p2")]);
}

#[test]
fn aset_25_the_selector_of_the_second_child_is_not_filled_in() {
    let second = json!({"list": {"elements": [{"b": "dev"}, {"b": "{{env}}"}]}, "selector": {"matchLabels": {"b": "{{env}}"}}});
    let sets = fast(matrix(json!([list(json!([{"env": "dev"}])), second]))).unwrap();
    // The elements were filled in, the selector was not.
    assert_eq!(sets, texts(&[]));
    let nested = json!({"merge": {"mergeKeys": ["b"], "generators": [
        {"list": {"elements": [{"b": "dev"}, {"b": "qa"}]}, "selector": {"matchLabels": {"b": "{{env}}"}}},
        {"list": {"elements": []}}]}});
    let sets = fast(matrix(json!([list(json!([{"env": "dev"}])), nested]))).unwrap();
    assert_eq!(sets, texts(&[r#"{"b":"dev","env":"dev"}"#]));
}

#[test]
fn aset_80_a_merge_needs_children_and_keys() {
    let one = list(json!([{"k": "1"}]));
    assert_eq!(
        go(merge(json!(["k"]), json!([one]))),
        Err("found less than two generators, Merge requires two or more".to_owned())
    );
    assert_eq!(
        go(merge(json!([]), json!([one, one]))),
        Err("no merge keys were specified, Merge requires at least one".to_owned())
    );
    assert!(go(merge(json!(["k", "k"]), json!([one, one]))).is_ok());
    assert_eq!(
        go(merge(json!(["k"]), json!([one, {}]))),
        Err("child generator generated no parameters".to_owned())
    );
}

#[test]
fn aset_81_later_children_win_where_the_base_has_the_key() {
    let base = list(json!([{"k": "1", "v": "base"}, {"k": "2", "v": "base"}]));
    let later = list(json!([{"k": "2", "v": "later", "w": "x"}, {"k": "3", "v": "lost"}]));
    let last = list(json!([{"k": "2", "v": "last"}]));
    let expected = texts(&[r#"{"k":"1","v":"base"}"#, r#"{"k":"2","v":"last","w":"x"}"#]);
    let generators = merge(json!(["k"]), json!([base, later, last]));
    assert_eq!(fast(generators.clone()).unwrap(), expected);
    assert_eq!(go(generators).unwrap(), expected);
    let base = list(json!([{"k": 1, "m": {"a": 1, "b": 2}}]));
    let later = list(json!([{"k": 1, "m": {"b": 0}}]));
    assert_eq!(
        go(merge(json!(["k"]), json!([base, later]))).unwrap(),
        texts(&[r#"{"k":1,"m":{"a":1,"b":0}}"#])
    );
}

#[test]
fn aset_81_equal_keys_of_one_child_are_an_error() {
    let twice = list(json!([{"k": "1"}, {"k": "1", "x": "y"}]));
    let one = list(json!([{"k": "1"}]));
    for generators in [json!([twice, one]), json!([one, twice])] {
        let error = go(merge(json!(["k", "z"]), generators)).unwrap_err();
        assert_eq!(
            error,
            "the parameters from a generator were not unique by the given mergeKeys, Merge requires all param sets to be \
             unique. Duplicate key was {\"k\":\"1\",\"z\":null}"
        );
    }
    // Both lack the key: they match each other.
    let (a, b) = (list(json!([{"a": "1"}])), list(json!([{"b": "2"}])));
    assert_eq!(go(merge(json!(["k"]), json!([a, b]))).unwrap(), texts(&[r#"{"a":"1","b":"2"}"#]));
}

#[test]
fn aset_82_dotted_keys_are_ordinary_in_fast_mode_only() {
    let child = |text: &str| list(json!([{"values": {"x": text}}, {"values": {"x": "other"}}]));
    let generators = merge(json!(["values.x"]), json!([child("1"), child("1")]));
    assert_eq!(fast(generators.clone()).unwrap().len(), 2);
    assert!(go(generators).unwrap_err().contains("Duplicate key was {\"values.x\":null}"));
}
