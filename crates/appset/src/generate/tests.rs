#![expect(clippy::needless_pass_by_value, reason = "JSON is written where it is used")]

use serde_json::json;
use tiphys_api::cluster::Cluster;

use super::*;
use crate::facts::Decisions;
use crate::fixtures::{World, cluster, fast_set, go_set, set, with_request};

mod application;
mod combine;
mod git;
mod hostile;
mod providers;

fn texts(sets: &[&str]) -> Vec<String> {
    sets.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn aset_30_elements_of_fast_mode_are_texts() {
    let world = World::default();
    let list = |list: Value| world.sets_of(&fast_set(json!([{"list": list}])));
    assert_eq!(
        list(json!({"elements": [{"cluster": "dev", "values": {"tier": "gold"}}]})).unwrap(),
        texts(&[r#"{"cluster":"dev","values.tier":"gold"}"#])
    );
    for elements in [json!([{"a": 1}]), json!([{"a": {"b": "c"}}]), json!([{"a": ["x"]}])] {
        let error = list(json!({"elements": elements})).unwrap_err();
        assert!(error.starts_with("error parsing value as string"), "{error}");
    }
    for elements in [json!([{"values": "x"}]), json!([{"values": {"a": 1}}])] {
        let error = list(json!({"elements": elements})).unwrap_err();
        assert!(error.starts_with("error parsing values map"), "{error}");
    }
}

#[test]
fn aset_30_yaml_elements_follow_and_are_not_checked() {
    let world = World::default();
    let both =
        json!([{"list": {"elements": [{"a": "1"}], "elementsYaml": "- b: 2\n  c: {d: y}\n- e: 0777"}}]);
    assert_eq!(
        world.sets_of(&fast_set(both.clone())).unwrap(),
        texts(&[r#"{"a":"1"}"#, r#"{"b":2,"c":{"d":true}}"#, r#"{"e":511}"#])
    );
    assert_eq!(world.sets_of(&go_set(both)).unwrap().len(), 3);
    for text in ["a: b", "[", "- 1", "text"] {
        let error = world.sets_of(&go_set(json!([{"list": {"elementsYaml": text}}]))).unwrap_err();
        assert!(error.starts_with("error unmarshling decoded ElementsYaml"), "{text}: {error}");
    }
    assert_eq!(world.sets_of(&go_set(json!([{"list": {"elementsYaml": ""}}]))).unwrap(), texts(&[]));
}

#[test]
fn aset_36_clusters_give_names_labels_and_annotations() {
    let mut eu = cluster("Prod_EU", &[("env", "prod"), ("a.b/c", "x")]);
    eu.annotations.insert("note".to_owned(), "n".to_owned());
    eu.project = "shop".to_owned();
    let world = World::default().with_clusters(vec![eu]);
    let of_shop = |mut set: ApplicationSet| {
        set.spec.template["spec"]["project"] = "shop".into();
        set
    };
    let generators = json!([{"clusters": {"selector": {"matchLabels": {"env": "prod"}},
        "values": {"full": "{{name}}@{{metadata.labels.env}}{{missing}}"}}}]);
    assert_eq!(
        world.sets_of(&of_shop(fast_set(generators))).unwrap(),
        texts(&[
            r#"{"metadata.annotations.note":"n","metadata.labels.a.b/c":"x","metadata.labels.argocd.argoproj.io/secret-type":"cluster","metadata.labels.env":"prod","name":"Prod_EU","nameNormalized":"prod-eu","project":"shop","server":"https://Prod_EU","values.full":"Prod_EU@prod{{missing}}"}"#
        ])
    );
    let generators = json!([{"clusters": {"selector": {"matchLabels": {"env": "prod"}},
        "values": {"full": "{{.name}}@{{.metadata.labels.env}}"}}}]);
    assert_eq!(
        world.sets_of(&of_shop(go_set(generators))).unwrap(),
        texts(&[
            r#"{"metadata":{"annotations":{"note":"n"},"labels":{"a.b/c":"x","argocd.argoproj.io/secret-type":"cluster","env":"prod"}},"name":"Prod_EU","nameNormalized":"prod-eu","project":"shop","server":"https://Prod_EU","values":{"full":"Prod_EU@prod"}}"#
        ])
    );
}

fn names(world: &World, generator: Value) -> Vec<String> {
    let sets = world.parameters(&go_set(json!([generator]))).unwrap();
    sets.iter().map(|set| set["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn aset_37_the_implicit_local_cluster_comes_last_and_only_unselected() {
    let world = World::default().with_clusters(vec![cluster("b", &[]), cluster("z", &[]), cluster("a", &[])]);
    assert_eq!(names(&world, json!({"clusters": {}})), ["a", "b", "z", "in-cluster"]);
    assert_eq!(names(&world, json!({"clusters": {"selector": {}}})), ["a", "b", "z", "in-cluster"]);
    let all =
        json!({"clusters": {"selector": {"matchLabels": {"argocd.argoproj.io/secret-type": "cluster"}}}});
    assert_eq!(names(&world, all), ["a", "b", "z"]);
    let local = world.parameters(&go_set(json!([{"clusters": {}}]))).unwrap().pop().unwrap();
    assert_eq!(
        Value::Object(local),
        json!({"name": "in-cluster", "nameNormalized": "in-cluster", "server": "https://kubernetes.default.svc", "project": ""})
    );
    let mut registered = cluster("home", &[]);
    registered.server = "https://kubernetes.default.svc".to_owned();
    let world = World::default().with_clusters(vec![registered]);
    assert_eq!(names(&world, json!({"clusters": {}})), ["home"]);
}

#[test]
fn aset_38_a_flat_list_is_one_set() {
    let world = World::default().with_clusters(vec![cluster("a", &[("x", "1")]), cluster("b", &[])]);
    let generators =
        |label: &str| json!([{"clusters": {"flatList": true, "selector": {"matchLabels": {"x": label}}}}]);
    let sets = world.parameters(&go_set(generators("1"))).unwrap();
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0]["clusters"].as_array().unwrap().len(), 1);
    let sets = world.parameters(&go_set(generators("2"))).unwrap();
    assert_eq!(Value::Object(sets[0].clone()), json!({"clusters": []}));
}

#[test]
fn aset_39_of_equal_names_the_greatest_secret_counts() {
    let mut first = cluster("a", &[]);
    first.server = "https://one".to_owned();
    let mut second = cluster("a", &[]);
    (second.server, second.secret_name) = ("https://two".to_owned(), "z".to_owned());
    let world = World::default().with_clusters(vec![second, first]);
    let sets = world.parameters(&go_set(json!([{"clusters": {}}]))).unwrap();
    let servers: Vec<&str> = sets.iter().map(|set| set["server"].as_str().unwrap()).collect();
    assert_eq!(servers, ["https://two", "https://kubernetes.default.svc"]);
}

/// A3: a project's cluster is neither added to a set of others, nor takes the place of a cluster that they have.
#[test]
fn aset_39_a_projects_cluster_displaces_no_shared_one() {
    let entry = |name: &str, server: &str, project: &str, created_at: &str| Cluster {
        server: server.to_owned(),
        project: project.to_owned(),
        secret_name: format!("z-{project}-{server}"),
        created_at: Some(created_at.to_owned()),
        ..cluster(name, &[("env", "prod")])
    };
    let world = World {
        decisions: Some(Decisions::Found {
            match_key: "cluster".to_owned(),
            decisions: ["eu", "us", "mine"]
                .map(|name| json!({"cluster": name}).as_object().unwrap().clone())
                .into(),
        }),
        ..World::default().with_clusters(vec![
            cluster("eu", &[("env", "prod")]),
            entry("eu", "https://0-evil", "red", "2026-01-01T00:00:00Z"),
            entry("us", "https://blue-us", "blue", "2026-01-01T00:00:00Z"),
            entry("us", "https://0-red-us", "red", "2026-01-02T00:00:00Z"),
            entry("mine", "https://mine", "red", "2026-01-01T00:00:00Z"),
        ])
    };
    let selector = json!({"matchLabels": {"env": "prod"}});
    let seen = |generator: &Value, spec: &dyn Fn(&mut ApplicationSet)| -> Vec<String> {
        let mut set = go_set(json!([generator]));
        spec(&mut set);
        let sets = world.parameters(&set).unwrap();
        sets.iter().map(|set| set["server"].as_str().unwrap().to_owned()).collect()
    };
    let project = |set: &mut ApplicationSet, project: &str| {
        set.spec.template["spec"]["project"] = project.into();
    };
    for generator in [
        json!({"clusters": {"selector": selector}}),
        json!({"clusterDecisionResource": {"configMapRef": "c", "name": "n"}}),
    ] {
        let sorted = |mut servers: Vec<String>| {
            servers.sort();
            servers
        };
        assert_eq!(seen(&generator, &|_| {}), ["https://eu"], "{generator}: of project default");
        let of_red = sorted(seen(&generator, &|set| project(set, "red")));
        assert_eq!(of_red, ["https://0-evil", "https://0-red-us", "https://mine"], "{generator}");
        // Where the template says the project of each Application, all of them are seen.
        let all = ["https://blue-us", "https://eu", "https://mine"];
        assert_eq!(sorted(seen(&generator, &|set| project(set, "{{.project}}"))), all, "{generator}");
    }
    let overridden =
        json!({"clusters": {"selector": selector, "template": {"spec": {"project": "{{.project}}"}}}});
    assert_eq!(seen(&overridden, &|_| {}).len(), 3);
}

/// A3: templates of generators show the clusters of the projects that they name, which need rights of their own, and
/// those of nested generators, which nothing asks about, none.
#[test]
fn aset_39_a_template_shows_clusters_of_the_projects_it_names() {
    let entry = |name: &str, project: &str| Cluster {
        server: format!("https://{name}"),
        project: project.to_owned(),
        ..cluster(name, &[("env", "prod")])
    };
    let world = World::default().with_clusters(vec![
        entry("shared", ""),
        entry("of-red", "red"),
        entry("of-blue", "blue"),
        entry("of-green", "green"),
    ]);
    let named = |project: &str| json!({"metadata": {}, "spec": {"project": project, "destination": {}}});
    let clusters = json!({"clusters": {"selector": {"matchLabels": {"env": "prod"}}}});
    let seen = |generator: Value| -> Vec<String> {
        let mut set = go_set(json!([generator]));
        set.spec.template["spec"]["project"] = "red".into();
        let sets = world.parameters(&set).unwrap();
        let mut names: Vec<_> = sets.iter().map(|set| set["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let list = |template: Value| json!({"list": {"elements": [{}], "template": template}});
    for project in ["x", "blue", "{{.project}}"] {
        let nested = json!({"matrix": {"generators": [list(named(project)), clusters]}});
        assert_eq!(seen(nested), ["of-red", "shared"], "nested template of {project}");
    }
    let mut top = json!({"matrix": {"generators": [list(json!({})), clusters], "template": named("blue")}});
    assert_eq!(seen(top.clone()), ["of-blue", "of-red", "shared"]);
    top["matrix"]["template"] = named("red");
    assert_eq!(seen(top), ["of-red", "shared"]);
}

#[test]
fn inv_8_clusters_that_are_not_known_are_an_error() {
    let world = World { clusters: Err("the list failed".to_owned()), ..World::default() };
    assert_eq!(world.sets_of(&go_set(json!([{"clusters": {}}]))), Err("the list failed".to_owned()));
    let error = world.sets_of(&go_set(json!([{"clusters": {"selector": {"matchLabels": {"a": "b c"}}}}])));
    assert!(error.is_err());
}

#[test]
fn aset_25_selectors_filter_flattened_parameters() {
    let world = World::default();
    let with = |selector: Value| {
        let entry = json!({"list": {"elements": [{"a": {"b": 1_000_000}}, {"a": {"b": "x"}}, {"c": true}]},
            "selector": selector});
        world.sets_of(&go_set(json!([entry]))).map(|sets| sets.len())
    };
    assert_eq!(with(json!({})), Ok(3));
    assert_eq!(with(json!({"matchLabels": {"a.b": "1e+06"}})), Ok(1));
    assert_eq!(
        with(json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["false"]}]})),
        Ok(3)
    );
    assert_eq!(with(json!({"matchExpressions": [{"key": "a.b", "operator": "Exists"}]})), Ok(2));
    assert!(with(json!({"matchExpressions": [{"key": "a.b", "operator": "Odd"}]})).is_err());
    // The error is there even if nothing was generated.
    let empty = json!([{"list": {"elements": []}, "selector": {"matchLabels": {"a b": "x"}}}]);
    assert!(world.sets_of(&go_set(empty)).unwrap_err().starts_with("error parsing label selector: "));
}

#[test]
fn aset_11_the_first_error_counts_and_all_generators_run() {
    let world = World::default().with_failing("one", "first").with_failing("two", "second");
    let plugin = |name: &str| json!({"plugin": {"configMapRef": {"name": name}}});
    let found = world
        .generate(&fast_set(json!([plugin("one"), {"list": {"elements": [{"a": "b"}]}}, plugin("two")])));
    let Err(Stop::Failed(failure)) = found else { panic!("{found:?}") };
    assert_eq!(failure.reason, SetReason::ApplicationGenerationFromParamsError);
    assert_eq!((failure.message.as_str(), failure.others.as_slice()), ("first", &["second".to_owned()][..]));
    assert_eq!(world.asked.borrow().len(), 2);
    let broken = set(json!({"generators": [{"list": {"elements": [{"a": "b"}]}}, plugin("one")],
        "template": {"metadata": {"name": "{{a}} {{"}, "spec": {"destination": {}}}}));
    let Err(Stop::Failed(failure)) = world.generate(&broken) else { panic!() };
    assert_eq!(failure.reason, SetReason::RenderTemplateParamsError);
    assert_eq!(failure.others, ["first"]);
}

#[test]
fn aset_12_unknown_generators_contribute_nothing_or_fail() {
    let unknown = fast_set(json!([{"zebra": {}}, {"list": {"elements": [{"name": "a"}]}}]));
    let generated = World::default().generate(&unknown).unwrap();
    assert_eq!(generated.applications.len(), 1);
    assert_eq!(generated.warnings, ["ApplicationSet s contains unrecognized generators"]);
    let strict = World::default().with_params(&[("unknown.generators", "error")]);
    let Err(Stop::Failed(failure)) = strict.generate(&unknown) else { panic!() };
    assert_eq!(failure.reason, SetReason::ApplicationGenerationFromParamsError);
}

#[test]
fn aset_24_values_are_rendered_with_what_is_known_and_not_with_each_other() {
    let world = World::default().with_clusters(vec![cluster("a", &[])]);
    let generators = json!([{"clusters": {"values": {"x": "{{name}}", "y": "{{values.x}}"}}}]);
    let sets = world.parameters(&fast_set(generators)).unwrap();
    assert_eq!(sets[0]["values.y"], "{{values.x}}");
    let generators = json!([{"clusters": {"values": {"x": "{{.name}}", "y": "{{.values.x}}"}}}]);
    let sets = world.parameters(&go_set(generators)).unwrap();
    assert_eq!(sets[0]["values"], json!({"x": "a", "y": "<no value>"}));
}

#[test]
fn aset_272_the_project_of_a_set_must_exist_and_admit_its_namespace() {
    let world = World::default()
        .with_project(json!({"metadata": {"name": "p"}, "spec": {"sourceNamespaces": ["team"]}}));
    let failure = |project: &str, namespace: &str| {
        let mut scoped = fast_set(json!([{"list": {"elements": [{"name": "a"}]}}]));
        scoped.spec.project = project.to_owned();
        scoped.metadata.namespace = namespace.to_owned();
        match world.generate(&scoped) {
            Ok(_) => None,
            Err(Stop::Failed(failure)) => Some((failure.reason, failure.message)),
            Err(Stop::Pending) => panic!(),
        }
    };
    let reason = SetReason::ApplicationSetProjectError;
    assert_eq!(failure("p", "argocd"), None);
    assert_eq!(failure("p", "team"), None);
    assert_eq!(failure("q", "argocd"), Some((reason, "ApplicationSet project q does not exist".to_owned())));
    assert_eq!(
        failure("p", "other"),
        Some((reason, "namespace other is not permitted to use project p".to_owned()))
    );
}

#[test]
fn aset_282_namespaces_may_refuse_sets_without_a_project() {
    let cm = [
        ("applicationset.unscoped.policy", "restrict"),
        ("applicationset.unscoped.namespaces", "team-*, /^x$/"),
    ];
    let world = World::default().with_cm(&cm);
    let accepts = |namespace: &str| {
        let mut unscoped = fast_set(json!([{"list": {"elements": []}}]));
        unscoped.metadata.namespace = namespace.to_owned();
        match world.generate(&unscoped) {
            Ok(_) => true,
            Err(Stop::Failed(failure)) => {
                assert_eq!(failure.reason, SetReason::ApplicationSetUnscopedNotAllowed);
                assert_eq!(
                    failure.message,
                    format!("namespace {namespace} does not accept ApplicationSets without spec.project")
                );
                false
            }
            Err(Stop::Pending) => panic!(),
        }
    };
    assert!(accepts("argocd") && accepts("team-a") && accepts("x"));
    assert!(!accepts("other"));
}

#[test]
fn aset_273_a_scoped_set_sees_the_clusters_of_its_project() {
    let mut own = cluster("own", &[]);
    own.project = "p".to_owned();
    let mut foreign = cluster("foreign", &[]);
    foreign.project = "q".to_owned();
    let clusters = vec![own, foreign, cluster("shared", &[]), cluster("denied", &[])];
    let project = |spec: Value| json!({"metadata": {"name": "p"}, "spec": spec});
    let destinations = json!([{"server": "*", "namespace": "x"}, {"server": "!https://denied", "namespace": "*"},
        {"name": "!in-cluster", "server": "!https://kubernetes.default.svc", "namespace": "*"}]);
    let seen = |world: World| {
        let mut scoped = go_set(json!([{"clusters": {}}]));
        scoped.spec.project = "p".to_owned();
        let sets = world.parameters(&scoped).unwrap();
        sets.iter().map(|set| set["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let world = || World::default().with_clusters(clusters.clone());
    assert_eq!(seen(world().with_project(project(json!({"destinations": destinations})))), ["own", "shared"]);
    let only_own = json!({"destinations": destinations, "permitOnlyProjectScopedClusters": true});
    assert_eq!(seen(world().with_project(project(only_own))), ["own"]);
    let none = world().with_cm(&[("applicationset.project.globalResources", "none")]);
    assert_eq!(seen(none.with_project(project(json!({"destinations": destinations})))), ["own"]);
    assert_eq!(seen(world().with_project(project(json!({})))), ["own"]);
    assert_eq!(
        names(&world(), json!({"clusters": {}})),
        ["denied", "shared", "in-cluster"],
        "of project default"
    );
    let mut templated = go_set(json!([{"clusters": {}}]));
    templated.spec.template["spec"]["project"] = "{{.project}}".into();
    assert_eq!(world().parameters(&templated).unwrap().len(), 5, "unscoped sets of any project see all");
}

#[test]
fn facts_questions_are_asked_again_when_answers_are_late() {
    let world =
        World { is_late: true, ..World::default().with_given("one", json!([{"n": "a"}, {"n": "b"}])) };
    let late = set(json!({"generators": [{"matrix": {"generators": [
            {"plugin": {"configMapRef": {"name": "one"}}},
            {"plugin": {"configMapRef": {"name": "one"}, "input": {"parameters": {"of": "{{n}}"}}}}]}}],
        "template": {"metadata": {"name": "x"}, "spec": {"destination": {}}}}));
    let mut rounds = 1;
    while world.generate(&late) == Err(Stop::Pending) {
        rounds += 1;
    }
    // The first child; both questions of the second; the result.
    assert_eq!(rounds, 3);
    with_request(&world, &late, |request| assert_eq!(requeue_after(request), Some(Duration::from_mins(30))));
}
