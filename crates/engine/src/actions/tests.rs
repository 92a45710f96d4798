use serde_json::json;

use super::*;

fn cm(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
}

fn now() -> Timestamp {
    "2026-03-04T05:06:07.8Z".parse().unwrap()
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": {}, "creationTimestamp": null},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "a", "resources": {}}]}}}})
}

/// The rules of Deployments with one text of the settings.
fn rules(text: &str) -> Rules {
    Rules::of(&cm(&[("resource.customizations.actions.apps_Deployment", text)]), "apps", "Deployment")
        .unwrap()
}

fn discovery(script: &str) -> String {
    json!({"discovery.lua": script}).to_string()
}

fn defined(script: &str) -> Rules {
    rules(&json!({"definitions": [{"name": "go", "action.lua": script}]}).to_string())
}

fn steps(rules: &Rules, name: &str, params: &[(&str, &str)]) -> Result<Vec<Step>, String> {
    let params = cm(params);
    let found = rules.run(&deployment(), (name, &params), &Runner::default(), now());
    found.map_err(|error| error.to_string())
}

fn listed(rules: &Rules) -> Result<Vec<Action>, String> {
    rules.available(&deployment(), &Runner::default(), now()).map_err(|error| error.to_string())
}

fn names(rules: &Rules) -> Vec<String> {
    listed(rules).unwrap().into_iter().map(|action| action.name).collect()
}

#[test]
fn eng_135_definitions_replace_ours_unless_they_are_merged() {
    let own = "return {restart = {disabled = true}, grow = {}}";
    let text = |merge: bool| {
        json!({"discovery.lua": own, "mergeBuiltinActions": merge, "definitions": [
            {"name": "restart", "action.lua": "obj.spec.paused = true return obj"}]})
        .to_string()
    };
    let (alone, merged) = (rules(&text(false)), rules(&text(true)));
    assert_eq!(names(&alone), ["grow", "restart"]);
    assert_eq!(names(&merged), ["grow", "pause", "restart", "resume", "scale"]);
    assert!(listed(&merged).unwrap()[2].disabled, "ours does not replace theirs");
    assert!(steps(&alone, "scale", &[("replicas", "3")]).unwrap_err().contains("scale"));
    let scaled = steps(&merged, "scale", &[("replicas", "3")]).unwrap();
    assert_eq!(scaled[0].object()["spec"]["replicas"], 3);
    let restarted = steps(&merged, "restart", &[]).unwrap();
    assert_eq!(restarted[0].object()["spec"]["paused"], true, "theirs is run");
    assert!(steps(&merged, "grow", &[]).is_err(), "discovery alone is no definition");
}

#[test]
fn eng_66_the_key_of_a_kind_replaces_the_map() {
    let map = "apps/Deployment:\n  actions: |\n    discovery.lua: return {old = {}}\nPod:\n  actions: |\n    discovery.lua: return {pod = {}}\n";
    let of = |entries: &[(&str, &str)], group: &str, kind: &str| Rules::of(&cm(entries), group, kind);
    let old = of(&[("resource.customizations", map)], "apps", "Deployment").unwrap();
    assert_eq!(names(&old), ["old"]);
    let split = ("resource.customizations.actions.apps_Deployment", "discovery.lua: return {new = {}}");
    assert_eq!(
        names(&of(&[("resource.customizations", map), split], "apps", "Deployment").unwrap()),
        ["new"]
    );
    assert!(of(&[("resource.customizations", map)], "", "Pod").unwrap().is_scripted());
    assert!(!of(&[split], "apps", "DaemonSet").unwrap().is_scripted());
    assert!(!of(&[("resource.customizations", "Pod: {health.lua: x}")], "", "Pod").unwrap().is_scripted());
    for text in ["a: [", "Pod: {actions: {}}", "Pod: {actions: 'a: ['}", "Pod: {actions: 'definitions: x'}"] {
        let error = of(&[("resource.customizations", text)], "", "Pod").unwrap_err().to_string();
        assert!(error.starts_with("resource.customizations: "), "{error}");
    }
}

#[test]
fn eng_136_discovery_says_what_people_see() {
    let text = "local os = require('os')
        return {b = {disabled = obj.spec.replicas == 1, iconClass = 'fa fa-x', displayName = os.date('!%Y'),
            params = {{name = 'n', default = '1'}, {name = 'm'}}}, a = {}, c = {params = {}}}";
    let found = listed(&rules(&discovery(text))).unwrap();
    let b = Action {
        name: "b".to_owned(),
        disabled: true,
        icon: "fa fa-x".to_owned(),
        display_name: "2026".to_owned(),
        params: vec!["n".to_owned(), "m".to_owned()],
    };
    assert_eq!(found.len(), 3);
    assert_eq!(found[1], b);
    assert_eq!(found[0], Action { name: "a".to_owned(), ..Action::default() });
    for empty in ["return {}", "return nil", ""] {
        assert_eq!(listed(&rules(&discovery(empty))), Ok(Vec::new()), "{empty:?}");
    }
    for (text, reason) in [
        ("return {'a'}", "by names of actions"),
        ("return 'a'", "expect table output from Lua script, not string"),
        ("return {a = 1}", "action \"a\": it is no table"),
        ("return {a = {disabled = 'yes'}}", "action \"a\""),
        ("error('boom')", "boom"),
    ] {
        let error = listed(&rules(&discovery(text))).unwrap_err();
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn eng_137_an_action_returns_the_object_or_a_list_of_changes() {
    let scale = defined("obj.spec.replicas = tonumber(actionParams.n) return obj");
    let [Step::Patch(changed)] = &steps(&scale, "go", &[("n", "4")]).unwrap()[..] else { panic!() };
    assert_eq!(changed["spec"]["replicas"], 4);
    let many = defined(
        "local job = {apiVersion = 'batch/v1', kind = 'Job', metadata = {name = 'j'}}
         local other = {apiVersion = 'v1', kind = 'ConfigMap', metadata = {name = 'c'}, data = {a = 'b'}}
         return {{operation = 'create', resource = job}, {operation = 'patch', resource = obj},
             {operation = 'patch', resource = other}}",
    );
    let found = steps(&many, "go", &[]).unwrap();
    let [Step::Create(job), Step::Patch(own), Step::Merge(other)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&job["kind"], &own["kind"]), (&json!("Job"), &json!("Deployment")));
    assert_eq!(other["data"], json!({"a": "b"}));
    for nothing in ["return nil", "return {}"] {
        assert_eq!(steps(&defined(nothing), "go", &[]), Ok(Vec::new()), "{nothing}");
    }
    for (text, reason) in [
        ("return {{operation = 'delete', resource = obj}}", "unsupported operation: delete"),
        ("return {{operation = 'patch'}}", "has no resource"),
        ("return {'x'}", "no table with operation and resource"),
        ("return 3", "expect table output from Lua script, not number"),
        (
            "local t = {} for i = 1, 101 do t[i] = {operation = 'create', resource = obj} end return t",
            "more than 100",
        ),
        ("return string.format('x')", "nil value"),
    ] {
        let error = steps(&defined(text), "go", &[]).unwrap_err();
        assert!(error.contains(reason), "{text}: {error}");
    }
    let empty = rules(&json!({"definitions": [{"name": "go"}]}).to_string());
    assert!(steps(&empty, "go", &[]).unwrap_err().contains("no action.lua"));
}

#[test]
fn eng_138_maps_that_were_empty_stay_maps() {
    let found = steps(&defined("obj.spec.paused = true return obj"), "go", &[]).unwrap();
    let changed = found[0].object();
    assert_eq!(changed["metadata"]["annotations"], json!({}));
    assert_eq!(changed["spec"]["template"]["spec"]["containers"][0]["resources"], json!({}));
    // ENG-140: what is written is what became another, and nothing where nothing did.
    assert_eq!(Value::Object(patch(&deployment(), changed)), json!({"spec": {"paused": true}}));
    let same = steps(&defined("return obj"), "go", &[]).unwrap();
    assert!(patch(&deployment(), same[0].object()).is_empty());
}

#[test]
fn eng_139_an_action_on_the_application_itself_changes_nothing_that_its_project_decides() {
    let asked = |patch: Value| {
        let Value::Object(patch) = patch else { panic!("{patch}") };
        check_own(&patch).map_err(|error| error.to_string())
    };
    let harmless = json!({"metadata": {"labels": {"a": "b"}, "annotations": null},
        "spec": {"syncPolicy": {"automated": {"enabled": true}}, "revisionHistoryLimit": 3}});
    assert_eq!(asked(harmless), Ok(()));
    for (patch, path) in [
        (
            json!({"spec": {"syncPolicy": null, "destination": {"server": "https://other"}}}),
            "spec.destination",
        ),
        (json!({"spec": {"project": "theirs"}}), "spec.project"),
        (json!({"spec": {"source": null}}), "spec.source"),
        (json!({"spec": {"sources": []}}), "spec.sources"),
        (json!({"spec": {"sourceHydrator": {}}}), "spec.sourceHydrator"),
        (json!({"spec": null}), "spec"),
        (json!({"metadata": {"finalizers": []}}), "metadata.finalizers"),
        (json!({"metadata": {"ownerReferences": []}}), "metadata.ownerReferences"),
        (json!({"operation": {"sync": {}}}), "operation"),
        (json!({"status": {}}), "status"),
    ] {
        let error = asked(patch.clone()).unwrap_err();
        assert!(error.starts_with(&format!("the action would change {path} of")), "{patch}: {error}");
    }
}

/// Scripts that fight end in a clear error (ENG-131, SEC-10).
#[test]
fn eng_131_hostile_actions_end() {
    for (text, reason) in [
        ("while true do end", "context deadline exceeded"),
        ("while true do pcall(function() while true do end end) end", "context deadline exceeded"),
        ("local s = 'x' while true do s = s .. s end", "not enough memory"),
        ("local t = {} while true do t[#t + 1] = {} end", ""),
        ("local t = {} for i = 1, 100000 do t = {a = t} end return t", "nests deeper"),
        ("local function f() return f() + 1 end return f()", "not enough memory"),
        ("obj.self = obj return obj", "nests deeper"),
        ("return setmetatable({}, {__gc = function() end})", "finalizers are not available"),
    ] {
        let error = steps(&defined(text), "go", &[]).unwrap_err();
        assert!(error.contains(reason) && !error.contains('\n'), "{text}: {error}");
    }
}
