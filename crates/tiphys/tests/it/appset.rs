//! `appset.*` as scripts see them (EVAL section 11).

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::{Value, json};
use tiphys_lab::eval::{Fault, Strictness, evaluate};

fn ask(op: &str, input: Value) -> Result<Value, Fault> {
    evaluate(op, input, Strictness::Strict)
}

#[expect(clippy::needless_pass_by_value, reason = "JSON is written where it is used")]
fn set(generators: Value) -> Value {
    json!({"metadata": {"name": "s", "uid": "u"}, "spec": {"generators": generators,
        "template": {"metadata": {"name": "{{n}}-ui"}, "spec": {"project": "default",
            "source": {"repoURL": "https://h/r", "path": "."}, "destination": {"name": "in-cluster"}}}}})
}

fn simple() -> Value {
    set(json!([{"list": {"elements": [{"n": "a"}]}}]))
}

#[test]
fn eval_501_a_list_generator() {
    let found = ask("appset.generate", json!({"applicationSet": simple()})).unwrap();
    assert_eq!(found["applications"].as_array().unwrap().len(), 1);
    assert_eq!(found["applications"][0]["metadata"]["name"], "a-ui");
    assert_eq!(found["applications"][0]["metadata"]["namespace"], "argocd");
    assert!(found.get("parameters").is_none());
    let found =
        ask("appset.generate", json!({"applicationSet": simple(), "outputParameters": true})).unwrap();
    assert_eq!(found["parameters"], json!([{"n": "a"}]));
}

#[test]
fn eval_501_failures_have_the_reason_of_the_condition() {
    let reason = |input: Value| ask("appset.generate", input).unwrap_err().reason.unwrap();
    let wrong = set(json!([{"list": {"elements": [{"n": 1}]}}]));
    assert_eq!(reason(json!({"applicationSet": wrong})), "ApplicationGenerationFromParamsError");
    let mut broken = simple();
    broken["spec"]["template"]["metadata"]["name"] = json!("{{n}} {{");
    assert_eq!(reason(json!({"applicationSet": broken})), "RenderTemplateParamsError");
    let shown = ask("appset.generate", json!({"applicationSet": broken, "outputParameters": true})).unwrap();
    assert_eq!(
        (shown["parameters"].clone(), shown["warnings"].as_array().unwrap().len()),
        (json!([{"n": "a"}]), 1)
    );
    let mut scoped = simple();
    scoped["spec"]["project"] = json!("nobody");
    assert_eq!(reason(json!({"applicationSet": scoped})), "ApplicationSetProjectError");
    let mut elsewhere = simple();
    elsewhere["metadata"]["namespace"] = json!("team");
    let settings = json!({"applicationset.unscoped.policy": "restrict"});
    assert_eq!(
        reason(json!({"applicationSet": elsewhere, "settings": settings})),
        "ApplicationSetUnscopedNotAllowed"
    );
}

#[test]
fn eval_501_git_generators_read_the_trees_of_the_request() {
    let generators =
        json!([{"git": {"repoURL": "https://h/r.git", "revision": "main", "files": [{"path": "*.json"}]}}]);
    let repos =
        json!([{"url": "https://h/r", "files": {"envs/dev.json": "{\"n\": \"dev\"}", "x.yaml": "n: no"}}]);
    let found =
        ask("appset.generate", json!({"applicationSet": set(generators.clone()), "repos": repos})).unwrap();
    assert_eq!(found["applications"][0]["metadata"]["name"], "dev-ui");
    assert_eq!(found["requeueAfterSeconds"], 180);
    let error = ask("appset.generate", json!({"applicationSet": set(generators)})).unwrap_err();
    assert_eq!(error.reason.as_deref(), Some("ApplicationGenerationFromParamsError"));
}

#[test]
fn eval_501_what_needs_the_network_says_so() {
    for generator in [
        json!({"scmProvider": {"github": {"organization": "o"}}}),
        json!({"pullRequest": {"gitlab": {"project": "7"}}}),
        json!({"clusterDecisionResource": {"configMapRef": "c", "name": "x"}}),
    ] {
        let error = ask("appset.generate", json!({"applicationSet": set(json!([generator]))})).unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.reason.as_deref()),
            ("FailedPrecondition", Some("network-required"))
        );
    }
    let given = json!({"pullRequest": [{"n": "one"}, {"n": "two"}]});
    let pulls = set(json!([{"pullRequest": {"gitlab": {"project": "7"}}}]));
    let found = ask("appset.generate", json!({"applicationSet": pulls, "generatorData": given})).unwrap();
    assert_eq!(found["applications"].as_array().unwrap().len(), 2);
    let plugin = set(json!([{"plugin": {"configMapRef": {"name": "c"}}}]));
    let input = json!({"applicationSet": plugin, "secrets": {"argocd-secret": {"k": "t"}},
        "configMaps": {"c": {"baseUrl": "http://plugin.example", "token": "$k"}}});
    let error = ask("appset.generate", input).unwrap_err();
    assert_eq!(error.reason.as_deref(), Some("network-required"));
}

#[test]
fn eval_501_plugins_answer_from_the_request_or_this_machine() {
    let plugin =
        set(json!([{"plugin": {"configMapRef": {"name": "c"}, "input": {"parameters": {"x": "1"}}}}]));
    let answer = |names: &[&str]| json!({"output": {"parameters": names.iter().map(|n| json!({"n": n})).collect::<Vec<_>>()}});
    let canned = json!({"c": [{"match": {"x": "2"}, "body": answer(&["no"])}, {"match": {"x": "1"}, "body": answer(&["yes"])}]});
    let found = ask("appset.generate", json!({"applicationSet": plugin, "plugins": canned})).unwrap();
    assert_eq!(found["applications"][0]["metadata"]["name"], "yes-ui");
    let failing = json!({"c": [{"status": 500, "body": {"message": "broken"}}]});
    let error = ask("appset.generate", json!({"applicationSet": plugin, "plugins": failing})).unwrap_err();
    assert_eq!(error.message, "API error with status code 500: broken");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let service = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        while !request.ends_with(b"}}}") {
            let read = stream.read(&mut buffer).unwrap();
            request.extend_from_slice(&buffer[..read]);
        }
        let body = r#"{"output":{"parameters":[{"n":"live"}]}}"#;
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        String::from_utf8(request).unwrap()
    });
    let input = json!({"applicationSet": plugin, "secrets": {"argocd-secret": {"k": "secret-token"}},
        "configMaps": {"c": {"baseUrl": format!("http://localhost:{port}/base/"), "token": "$k"}}});
    let found = ask("appset.generate", input).unwrap();
    assert_eq!(found["applications"][0]["metadata"]["name"], "live-ui");
    let request = service.join().unwrap().to_ascii_lowercase();
    for part in [
        "post /base/api/v1/getparams.execute http/1.1",
        "authorization: bearer secret-token",
        "content-type: application/json",
        "user-agent: argocd-applicationset",
        r#"{"applicationsetname":"s","input":{"parameters":{"x":"1"}}}"#,
    ] {
        assert!(request.contains(part), "{part}: {request}");
    }
}

#[test]
fn eval_502_a_set_without_live_applications_creates_them() {
    let found = ask("appset.reconcile", json!({"applicationSet": simple()})).unwrap();
    assert_eq!(found["created"], json!(["a-ui"]));
    assert_eq!(found["conditions"]["ErrorOccurred"]["status"], "False");
    assert_eq!(found["applications"]["a-ui"]["metadata"]["ownerReferences"][0]["name"], "s");
    // What was made is left alone.
    let live: Vec<Value> = found["applications"].as_object().unwrap().values().cloned().collect();
    let again =
        ask("appset.reconcile", json!({"applicationSet": simple(), "liveApplications": live})).unwrap();
    assert_eq!(
        (&again["created"], &again["updated"], &again["unchanged"]),
        (&json!([]), &json!([]), &json!(["a-ui"]))
    );
    let mut deleted = simple();
    deleted["metadata"]["deletionTimestamp"] = json!("2026-05-04T07:30:00Z");
    let error = ask("appset.reconcile", json!({"applicationSet": deleted})).unwrap_err();
    assert_eq!(error.code.as_str(), "InvalidArgument");
}

#[test]
fn eval_502_applications_of_others_are_unchanged() {
    let live = json!([{"metadata": {"name": "mine"}, "spec": {}}, {"metadata": {"name": "far", "namespace": "other"}, "spec": {}}]);
    let found =
        ask("appset.reconcile", json!({"applicationSet": simple(), "liveApplications": live})).unwrap();
    assert_eq!(found["unchanged"], json!(["far", "mine"]));
}

#[test]
fn eval_502_the_finalizer_is_added_for_an_order() {
    let mut ordered = simple();
    ordered["spec"]["strategy"] = json!({"deletionOrder": "Custom", "deletionSync": {"steps": [{}]}});
    let params = json!({"applicationsetcontroller.enable.progressive.syncs": true});
    let found = ask("appset.reconcile", json!({"applicationSet": ordered, "params": params})).unwrap();
    assert_eq!(found["finalizerAdded"], true);
    let found = ask("appset.reconcile", json!({"applicationSet": ordered})).unwrap();
    assert_eq!(found["finalizerAdded"], false);
}

#[test]
fn eval_503_the_worked_example_of_aset_233() {
    let step =
        |value: &str| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [value]}]});
    let strategy = json!({"type": "RollingSync", "rollingSync": {"steps": [step("dev"), step("qa")]}});
    let desired = json!([{"name": "a", "labels": {"env": "dev"}}, {"name": "b", "labels": {"env": "qa"}}]);
    let app = |sync: &str, revision: &str| json!({"sync": sync, "health": "Healthy", "revision": revision});
    let passes = json!([
        {"at": 0, "observe": {"a": app("Synced", "r1"), "b": app("Synced", "r1")}},
        {"at": 10, "observe": {"a": app("OutOfSync", "r2"), "b": app("OutOfSync", "r2")}},
        {"at": 20},
        {"at": 30, "observe": {"a": {"operation": {"phase": "Running", "startedAt": 25}, "reconciledAt": 26}}},
        {"at": 40, "observe": {"a": {"sync": "Synced"}}},
        {"at": 50, "observe": {"a": null}}]);
    let found =
        ask("appset.rollout", json!({"strategy": strategy, "desired": desired, "passes": passes})).unwrap();
    let states: Vec<String> = (found["passes"].as_array().unwrap().iter())
        .map(|pass| {
            let state =
                |name: &str| pass["applicationStatus"][name]["status"].as_str().unwrap_or("-").to_owned();
            format!("{} {} {} {}", state("a"), state("b"), pass["promoted"], pass["operations"])
        })
        .collect();
    assert_eq!(
        states,
        [
            "Healthy Healthy [] []",
            r#"Pending Waiting ["a"] ["a"]"#,
            "Pending Waiting [] []",
            "Progressing Waiting [] []",
            r#"Healthy Pending ["b"] ["b"]"#,
            "- Pending [] []"
        ]
    );
}

#[test]
fn eval_504_the_example_of_aset_260() {
    let step =
        |value: &str| json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": [value]}]});
    let strategy = json!({"deletionOrder": "Custom", "deletionSync": {"steps": [step("config"), step("frontend"), step("db")]}});
    let app = |tier: &str| json!({"name": format!("pricelist-{tier}"), "labels": {"tier": tier}});
    let applications = json!([app("db"), app("frontend"), app("config")]);
    let passes = json!([
        {"at": 0},
        {"at": 10, "observe": {"pricelist-config": {"terminatingSince": 0}}},
        {"at": 20, "observe": {"pricelist-config": null}},
        {"at": 30, "observe": {"pricelist-frontend": null}},
        {"at": 40, "observe": {"pricelist-db": {"terminatingSince": 30}}},
        {"at": 151},
        {"at": 200, "observe": {"pricelist-db": null}},
        {"at": 210}]);
    let input = json!({"strategy": strategy, "applications": applications, "passes": passes});
    let found = ask("appset.deletion", input).unwrap();
    let passes: Vec<String> = (found["passes"].as_array().unwrap().iter())
        .map(|pass| format!("{} {}", pass["deleted"], pass["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!(
        passes,
        [
            r#"["pricelist-config"] requeue"#,
            "[] requeue",
            r#"["pricelist-frontend"] requeue"#,
            r#"["pricelist-db"] requeue"#,
            "[] requeue",
            "[] error",
            "[] released",
            "[] released"
        ]
    );
    assert_eq!(found["passes"][5]["conditions"]["DeletionProgressing"]["reason"], "ApplicationDeletionStuck");
    assert_eq!(found["passes"][5]["events"][0]["type"], "Warning");
}

#[test]
fn eval_505_506_what_the_api_answers() {
    let mut templated = simple();
    templated["spec"]["template"]["spec"]["project"] = json!("{{p}}");
    let found = ask("appset.validate", json!({"applicationSet": templated})).unwrap();
    assert_eq!(found["valid"], false);
    assert!(found["message"].as_str().unwrap().starts_with("error validating ApplicationSets: "));
    let permission = |rule: &str, verb: &str| {
        let input = json!({"rbac": {"policy.csv": rule}, "claims": {"sub": "kim"}, "request": {"verb": verb},
            "applicationSet": simple(), "existing": simple()});
        ask("appset.permission", input).unwrap()
    };
    assert_eq!(permission("p, kim, applicationsets, get, default/s, allow", "get")["allowed"], true);
    let denied = permission("p, kim, applicationsets, get, default/s, allow", "delete");
    assert_eq!((&denied["allowed"], &denied["code"]), (&json!(false), &json!("PermissionDenied")));
}
