use super::*;

/// A million elements end in a clear error, before they become a million Applications.
#[test]
fn inv_10_a_million_elements_are_refused() {
    let world = World::default();
    let text = "- {n: a}\n".repeat(1_000_000);
    let error = world.sets_of(&go_set(json!([{"list": {"elementsYaml": text}}]))).unwrap_err();
    assert!(error.contains("more than"), "{error}");
    let elements: Vec<Value> = (0..1_000).map(|n| json!({"a": n.to_string()})).collect();
    let others: Vec<Value> = (0..1_000).map(|n| json!({"b": n.to_string()})).collect();
    let pairs = json!([{"matrix": {"generators": [{"list": {"elements": elements}}, {"list": {"elements": others}}]}}]);
    let error = world.sets_of(&fast_set(pairs)).unwrap_err();
    assert_eq!(error, "a generator comes to more than 100000 sets of parameters");
}

#[test]
fn inv_10_parameters_have_a_bound_in_memory() {
    let big = "x".repeat(1_000_000);
    let elements: Vec<Value> = (0..30).map(|n| json!({"a": n.to_string(), "t": big})).collect();
    let others: Vec<Value> = (0..100).map(|n| json!({"b": n.to_string()})).collect();
    let pairs = json!([{"matrix": {"generators": [{"list": {"elements": elements}}, {"list": {"elements": others}}]}}]);
    let error = World::default().sets_of(&go_set(pairs)).unwrap_err();
    assert_eq!(error, "parameters take more than 536870912 bytes of memory");
}

#[test]
fn aset_3_deep_nesting_ends_at_the_third_level() {
    let mut entry = json!({"list": {"elements": [{"a": "1"}]}});
    for _ in 0..90 {
        entry = json!({"matrix": {"generators": [entry.clone(), {"list": {"elements": [{"b": "2"}]}}]}});
    }
    assert_eq!(
        World::default().sets_of(&go_set(json!([entry]))).unwrap_err(),
        "child generator generated no parameters"
    );
}

#[test]
fn aset_3_odd_shapes_are_no_panic() {
    for entry in [
        json!({"list": {"elements": {}}}),
        json!({"list": {"elements": [1]}}),
        json!({"list": []}),
        json!({"clusters": {"selector": []}}),
        json!({"clusters": {"values": [1]}}),
        json!({"clusters": {"values": {"a": 1}}}),
        json!({"git": {"files": {}, "directories": 1}}),
        json!({"matrix": {"generators": {}}}),
        json!({"matrix": {"generators": [1, 2]}}),
        json!({"merge": {"generators": [{}, {}], "mergeKeys": "k"}}),
        json!({"plugin": {"configMapRef": "x"}}),
        json!({"pullRequest": {"github": []}}),
        json!({"clusterDecisionResource": {"name": 1}}),
        json!({"selector": 1}),
    ] {
        let world = World::default();
        let _answer = world.generate(&go_set(json!([entry])));
        let _answer = world.generate(&fast_set(json!([entry])));
    }
}

#[test]
fn aset_122_templates_that_loop_fail_the_generation() {
    let loops = set(
        json!({"goTemplate": true, "generators": [{"list": {"elements": [{"n": "a"}, {"n": "b"}]}}],
        "template": {"metadata": {"name": "{{ define \"x\" }}{{ template \"x\" }}{{ end }}{{ template \"x\" }}"},
            "spec": {"project": "default", "destination": {}}}}),
    );
    let Err(Stop::Failed(failure)) = World::default().generate(&loops) else { panic!() };
    assert_eq!(failure.reason, SetReason::RenderTemplateParamsError);
    assert!(failure.message.contains("metadata.name cannot be rendered"), "{}", failure.message);
}

/// Each template is far below its own bound, and a thousand of them end at the one of the set, whoever looks again.
#[test]
fn aset_122_a_thousand_elements_share_one_bound() {
    let looping = |count: usize| {
        let elements: Vec<Value> = (0..count).map(|n| json!({"n": format!("a{n}")})).collect();
        set(json!({"goTemplate": true, "generators": [{"list": {"elements": elements}}],
            "template": {"metadata": {"name": "{{ range until 5000 }}{{ end }}{{ .n }}"},
                "spec": {"project": "default", "destination": {}}}}))
    };
    let world = World::default();
    let environment = tiphys_go::template::Still(crate::fixtures::now());
    let generated = |set: &ApplicationSet, work: &Work| {
        let request = Request {
            set,
            settings: world.sets(),
            matching: world.settings.project_matching(),
            control_plane_namespace: "argocd",
            fresh: false,
            environment: &environment,
            work,
        };
        generate(&request, &world).map(|generated| generated.applications.len())
    };
    let unbounded = Work::new(u64::MAX);
    assert_eq!(generated(&looping(1), &unbounded), Ok(1));
    let limit = 20 * (u64::MAX - unbounded.left());
    assert_eq!(generated(&looping(10), &Work::new(limit)), Ok(10));
    let work = Work::new(limit);
    let thousand = looping(1_000);
    for _look in 0..2 {
        let Err(Stop::Failed(failure)) = generated(&thousand, &work) else { panic!() };
        let bound = format!("more than {limit} steps together");
        assert!(failure.message.contains(&bound), "{}", failure.message);
        assert_eq!(work.left(), 0);
    }
}
