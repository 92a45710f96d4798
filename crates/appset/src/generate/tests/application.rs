#![expect(clippy::needless_pass_by_value, reason = "JSON is written where it is used")]

use super::*;

fn template(more: Value) -> Value {
    let mut spec = json!({"generators": [{"list": {"elements": [{"n": "a"}]}}],
        "template": {"metadata": {"name": "{{n}}-ui", "labels": {"{{n}}": "{{n}}"}}, "spec": {"project": "default",
            "source": {"repoURL": "https://h/r", "path": "{{n}}"}, "destination": {"name": "in-cluster"}}}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

fn one(spec: Value) -> Application {
    let mut generated = World::default().generate(&set(spec)).unwrap();
    assert_eq!(generated.applications.len(), 1);
    generated.applications.remove(0)
}

fn failure(spec: Value) -> Failure {
    match World::default().generate(&set(spec)) {
        Err(Stop::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn aset_100_the_template_is_rendered_whole() {
    let app = one(template(json!({})));
    assert_eq!(app.metadata.name, "a-ui");
    assert_eq!(app.metadata.namespace, "argocd");
    assert_eq!(app.metadata.labels["a"], "a");
    assert_eq!(app.spec.source.unwrap().path, "a");
}

#[test]
fn aset_100_free_form_values_are_rendered_and_keep_their_numbers() {
    let mut spec = template(json!({}));
    spec["template"]["spec"]["source"]["helm"] =
        json!({"valuesObject": {"{{n}}": ["{{n}}", 9_007_199_254_740_993_i64, 1.5, true, null]}});
    let app = one(spec);
    let helm = serde_json::to_value(app.spec.source.unwrap().helm.unwrap()).unwrap();
    assert_eq!(helm["valuesObject"], json!({"a": ["a", 9_007_199_254_740_993_i64, 1.5, true, null]}));
}

#[test]
fn aset_101_a_set_without_keys_leaves_the_template_alone() {
    let app = one(template(json!({"generators": [{"list": {"elements": [{}]}}]})));
    assert_eq!(app.metadata.name, "{{n}}-ui");
    assert_eq!(app.metadata.finalizers, [] as [&str; 0]);
    assert_eq!(app.metadata.namespace, "argocd");
}

#[test]
fn aset_112_finalizers() {
    let cascade = "resources-finalizer.argocd.argoproj.io";
    assert_eq!(one(template(json!({}))).metadata.finalizers, [cascade]);
    let preserve = json!({"syncPolicy": {"preserveResourcesOnDeletion": true}});
    assert_eq!(one(template(preserve.clone())).metadata.finalizers, [] as [&str; 0]);
    let mut own = template(preserve);
    own["template"]["metadata"]["finalizers"] = json!(["{{n}}/f"]);
    assert_eq!(one(own).metadata.finalizers, ["a/f"]);
}

#[test]
fn aset_113_the_namespace_of_the_set_is_applied_last() {
    let mut spec = template(json!({"templatePatch": "metadata: {namespace: kube-system}"}));
    spec["template"]["metadata"]["namespace"] = json!("elsewhere");
    assert_eq!(one(spec).metadata.namespace, "argocd");
}

#[test]
fn aset_26_the_template_of_a_generator_wins() {
    let list = json!({"elements": [{"n": "a"}], "template": {"metadata": {"name": "", "labels": {"{{n}}": "own", "x": "y"}},
        "spec": {"project": "", "destination": {"server": "https://{{n}}", "name": ""},
            "source": {"path": "own", "helm": {"parameters": [{"name": "p"}], "valuesObject": {"own": 1}}},
            "syncPolicy": {"syncOptions": ["A=true"]}}}});
    let mut spec = template(json!({"generators": [{"list": list}]}));
    spec["template"]["spec"]["source"]["helm"] =
        json!({"parameters": [{"name": "q"}, {"name": "r"}], "valuesObject": {"set": 2}});
    spec["template"]["spec"]["syncPolicy"] = json!({"syncOptions": ["B=true"], "automated": {"prune": true}});
    let app = one(spec);
    assert_eq!((app.metadata.name.as_str(), app.spec.project.as_str()), ("a-ui", "default"));
    assert_eq!(app.metadata.labels.len(), 2);
    assert_eq!(app.metadata.labels["a"], "own");
    assert_eq!(
        (app.spec.destination.server.as_str(), app.spec.destination.name.as_str()),
        ("https://a", "in-cluster")
    );
    let source = app.spec.source.unwrap();
    assert_eq!((source.repo_url.as_str(), source.path.as_str()), ("https://h/r", "own"));
    let helm = serde_json::to_value(source.helm.unwrap()).unwrap();
    assert_eq!(helm["parameters"].as_array().unwrap().len(), 1);
    assert_eq!(helm["valuesObject"], json!({"own": 1}));
    let policy = app.spec.sync_policy.unwrap();
    assert_eq!(policy.sync_options, ["A=true"]);
    assert!(policy.automated.unwrap().prune);
}

#[test]
fn aset_26_templates_of_nested_entries_do_not_count() {
    let nested = json!({"list": {"elements": [{"n": "a"}], "template": {"metadata": {"name": "nested"}, "spec": {"project": "x", "destination": {}}}}});
    let matrix = json!([{"matrix": {"generators": [nested, {"list": {"elements": [{"m": "b"}]}}],
        "template": {"metadata": {"name": "matrix-{{m}}"}, "spec": {"project": "", "destination": {}}}}}]);
    assert_eq!(one(template(json!({"generators": matrix}))).metadata.name, "matrix-b");
}

#[test]
fn aset_120_a_patch_merges_objects_and_replaces_lists() {
    let mut spec = template(
        json!({"templatePatch": "metadata:\n  labels: {b: '{{n}}'}\n  finalizers: [extra]\nspec:\n  source:\n    path: null\n    chart: c\n  info: [{name: x, value: v}]\n"}),
    );
    spec["template"]["spec"]["info"] = json!([{"name": "1"}, {"name": "2"}]);
    let app = one(spec);
    assert_eq!(app.metadata.labels.len(), 2);
    assert_eq!(app.metadata.finalizers, ["resources-finalizer.argocd.argoproj.io", "extra"]);
    let source = app.spec.source.unwrap();
    assert_eq!(
        (source.path.as_str(), source.chart.as_str(), source.repo_url.as_str()),
        ("", "c", "https://h/r")
    );
    assert_eq!(app.spec.info.len(), 1);
}

#[test]
fn aset_120_directives_work() {
    let patch = |text: &str| one(template(json!({"templatePatch": text})));
    let replaced = patch(r#"{"metadata": {"labels": {"$patch": "replace", "only": "x"}}}"#);
    assert_eq!(
        replaced.metadata.labels.into_iter().collect::<Vec<_>>(),
        [("only".to_owned(), "x".to_owned())]
    );
    let gone = patch(
        r#"{"metadata": {"$deleteFromPrimitiveList/finalizers": ["resources-finalizer.argocd.argoproj.io"]}}"#,
    );
    assert_eq!(gone.metadata.finalizers, [] as [&str; 0], "ASET-121");
    let ordered = patch(
        r#"{"metadata": {"$setElementOrder/finalizers": ["first", "resources-finalizer.argocd.argoproj.io"], "finalizers": ["first"]}}"#,
    );
    assert_eq!(ordered.metadata.finalizers, ["first", "resources-finalizer.argocd.argoproj.io"]);
    let replaced = patch(r#"{"spec": {"source": {"$patch": "replace", "repoURL": "https://h/other"}}}"#);
    let source = replaced.spec.source.unwrap();
    assert_eq!((source.repo_url.as_str(), source.path.as_str()), ("https://h/other", ""));
    let kept = patch(
        r#"{"spec": {"source": {"$retainKeys": ["repoURL", "chart"], "repoURL": "https://h/r", "chart": "c"}}}"#,
    );
    let source = kept.spec.source.unwrap();
    assert_eq!((source.chart.as_str(), source.path.as_str()), ("c", ""));
}

#[test]
fn aset_120_a_patch_stays_in_the_project_and_can_wipe() {
    let app = one(template(json!({"templatePatch": "spec:\n  project: other\n"})));
    assert_eq!(app.spec.project, "default");
    let app = one(template(json!({"templatePatch": "spec:\n"})));
    assert_eq!((app.spec.project.as_str(), app.spec.source.as_ref()), ("default", None));
    assert_eq!(one(template(json!({"templatePatch": ""}))).metadata.name, "a-ui");
    let mut nameless = template(json!({"templatePatch": "metadata: {name: 'from-{{n}}'}"}));
    nameless["template"]["metadata"] = json!({});
    assert_eq!(one(nameless).metadata.name, "from-a", "ASET-121");
}

#[test]
fn aset_120_what_is_no_patch_is_a_rendering_error() {
    for text in
        ["- a", "text", "{a: b}", "spec: [", "spec: {destination: []}", "metadata: {labels: 1}", "{{ {{n}} }"]
    {
        let failure = failure(template(json!({"templatePatch": text})));
        assert_eq!(failure.reason, SetReason::RenderTemplateParamsError, "{text}");
    }
    let failure = failure(template(json!({"templatePatch": "spec: [1]"})));
    assert!(failure.message.starts_with("invalid templatePatch"), "{}", failure.message);
}

#[test]
fn aset_304_parameters_do_not_need_a_template() {
    let broken = set(template(json!({"template": {"metadata": {"name": "{{n}} {{"}}})));
    assert!(World::default().generate(&broken).is_err());
    assert_eq!(World::default().sets_of(&broken).unwrap(), texts(&[r#"{"n":"a"}"#]));
}

#[test]
fn aset_10_applications_come_in_the_order_of_the_generators() {
    let elements =
        |names: &[&str]| json!({"elements": names.iter().map(|n| json!({"n": n})).collect::<Vec<_>>()});
    let generators = json!([{"list": elements(&["z", "a"])}, {"list": elements(&["m"])}]);
    let generated = World::default().generate(&set(template(json!({"generators": generators})))).unwrap();
    let names: Vec<&str> = generated.applications.iter().map(|app| app.metadata.name.as_str()).collect();
    assert_eq!(names, ["z-ui", "a-ui", "m-ui"]);
}
