//! Programs of tenants that fight: each is stopped, and everything else goes on (ENG-69, ENG-131, ENG-214).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tiphys_control::Interpreters;
use tiphys_engine::health::{HealthOverrides, evaluate_with};
use tiphys_engine::normalize::IgnoreRules;
use tiphys_engine::scripts::{DataScript, Runner, ScriptFault};
use tiphys_lab::eval::{Fault, Strictness, evaluate};
use tiphys_render::jsonnet::{JsonnetError, Program, TreeImports};
use tiphys_render::{MemoryTree, TreePath};
use tiphys_source::Clock;

const DEADLINE: Duration = Duration::from_millis(500);

fn interpreters() -> Interpreters {
    Interpreters::children(env!("CARGO_BIN_EXE_tiphys").into(), &Clock::real())
}

fn document() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1", "b": "2"}})
}

/// The program of somebody else still has its result.
fn still_works(runner: &Runner) {
    let found = runner.jq_paths(&[".data.a"], &document());
    assert!(matches!(found.as_slice(), [Ok(paths)] if paths.len() == 1), "{found:?}");
}

/// jq that never ends, eats memory or recurses without end is stopped, and costs nobody else anything (SEC-10).
#[test]
fn sec_10_endless_jq_is_stopped() {
    let interpreters = interpreters();
    for (number, expression) in [
        "[range(49000)] as $a | $a[] as $x | $a[] as $y | select($x + $y < 0)",
        "select(([range(30) | [0, 1]] | [combinations] | length) == 0)",
        "select((\"a\" * 1000000000 | length) == 0)",
        "select((reduce range(40) as $i (\"aaaaaaaa\"; . + .) | length) == 0)",
        "select((reduce range(49000) as $i (0; [.]) | tojson | length) == 0)",
        "select(([limit(40000; repeat(\"a\" * 100000))] | length) == 0)",
        "select([range(40000)] | permutations? // false)",
    ]
    .into_iter()
    .enumerate()
    {
        let runner = interpreters.runner(&number.to_string(), DEADLINE);
        if runner.check_jq(expression).is_err() {
            continue;
        }
        let found = runner.jq_paths(&[".data.a", expression, ".data.b"], &document());
        assert_eq!(found[0].as_ref().map(std::collections::BTreeSet::len), Ok(1), "{expression}");
        assert!(!matches!(&found[1], Ok(paths) if !paths.is_empty()), "{expression}: {:?}", found[1]);
        assert_eq!(found[2].as_ref().map(std::collections::BTreeSet::len), Ok(1), "{expression}");
        println!("{expression}: {:?}", found[1]);
        still_works(&interpreters.runner("bystander", DEADLINE));
    }
    let overrun = interpreters
        .runner("0", DEADLINE)
        .jq_paths(&["[range(49000)] as $a | $a[] as $x | $a[] as $y | select($x + $y < 0)"], &document());
    assert_eq!(overrun, [Err(ScriptFault::Stopped("it took longer than 500ms".to_owned()))]);
}

/// A rule that is stopped leaves the object unchanged and is named; the others are applied (ENG-69).
#[test]
fn eng_69_a_stopped_rule_is_named() {
    let endless = "[range(49000)] as $a | $a[] as $x | $a[] as $y | select($x + $y < 0)";
    let rule = json!({"kind": "ConfigMap", "jqPathExpressions": [".data.a", endless, ".data.b"]});
    let rules = [serde_json::from_value(rule).unwrap()];
    let runner = interpreters().runner("app", DEADLINE);
    let rules = IgnoreRules::compile_with(&rules, &BTreeMap::new(), runner).unwrap();
    let mut object = document();
    rules.apply(&mut object);
    assert_eq!(object["data"], json!({}));
    let stopped = rules.stopped().pop_first().unwrap();
    assert!(stopped.contains("range(49000)") && stopped.contains("took longer than 500ms"), "{stopped}");
}

/// Lua that never ends where no step is counted is stopped (SEC-10, ENG-131).
#[test]
fn sec_10_endless_lua_is_stopped() {
    let interpreters = interpreters();
    let health = |text: &str, owner: &str| {
        let settings = [
            ("resource.customizations.health.ConfigMap".to_owned(), text.to_owned()),
            ("resource.customizations.useOpenLibs.ConfigMap".to_owned(), "true".to_owned()),
        ];
        let overrides = HealthOverrides::from_settings(&settings.into_iter().collect()).unwrap();
        evaluate_with(&document(), &overrides, &interpreters.runner(owner, DEADLINE))
    };
    for text in [
        "local s = string.rep('a', 3000000) local r = string.gsub(s, 'a*b', '') return {status = 'Healthy'}",
        "setmetatable({}, {__gc = function() while true do end end}) return {status = 'Healthy'}",
        "while true do end",
        "local s = 'a' while true do s = s .. s end",
    ] {
        let error = health(text, text).unwrap_err();
        println!("{text}: {error}");
        let fine = health("return {status = 'Healthy', message = obj.data.a}", "bystander");
        assert_eq!(fine.unwrap().unwrap().message, "1");
    }
    let gsub = "local s = string.rep('a', 3000000) local r = string.gsub(s, 'a*b', '') return {}";
    let error = health(gsub, "app").unwrap_err().message;
    assert!(error.contains("context deadline exceeded"), "{error}");
}

/// Scripts of actions that fight end with a clear error, and the next one has its result (SEC-10, ENG-131).
#[test]
fn sec_10_hostile_actions_are_stopped() {
    let interpreters = interpreters();
    let params = BTreeMap::from([("n".to_owned(), "7".to_owned())]);
    let run = |text: &str| {
        let script = DataScript { text, params: Some(&params), now: None };
        interpreters.runner(text, DEADLINE).data(script, &document())
    };
    for (text, reason) in [
        ("while true do end", "context deadline exceeded"),
        ("local t = {} for i = 1, 4000000 do t[i] = i % 977 end while true do table.sort(t) end", ""),
        ("local s = 'a' while true do s = s .. s end", "not enough memory"),
        ("local t = {} for i = 1, 300000 do t = {t} end return t", "nests deeper"),
        ("local t = {'x'} for i = 1, 60 do t = {t, t} end return t", "more than 200000 values"),
        ("obj.self = obj return obj", "nests deeper"),
    ] {
        let error = run(text).unwrap_err().to_string();
        println!("{text}: {error}");
        assert!(error.contains(reason) && !error.contains('\n'), "{text}: {error}");
        let fine = run("obj.data.n = actionParams.n return obj").unwrap();
        assert_eq!(fine["data"], json!({"a": "1", "b": "2", "n": "7"}));
    }
}

/// Jsonnet that never ends, eats memory or nests without end is stopped, and the next program has its result
/// (SEC-10, F21).
#[test]
fn sec_10_hostile_jsonnet_is_stopped() {
    let tree =
        MemoryTree::from_files([("app/lib.libsonnet", "{a: importstr 'text'}"), ("app/text", "b")]).unwrap();
    let evaluator = interpreters().evaluator(DEADLINE);
    let run = |text: &str| {
        let app = TreePath::parse("app").unwrap();
        let mut imports = TreeImports::new(&tree, &app, &[]).unwrap();
        let program =
            Program { file: "app/a.jsonnet".to_owned(), text: text.to_owned(), ..Program::default() };
        evaluator.evaluate(&program, &mut imports)
    };
    for text in [
        "std.repeat('x', 2000000000)",
        "local f(x) = f(x + 1) tailstrict; f(0)",
        "std.length([x for x in std.range(1, 1000000000)])",
        "local f(s) = f(s + s) tailstrict; f('xxxxxxxx')",
        "std.foldl(function(a, b) a + a, std.range(1, 100), 'x')",
        "std.makeArray(1000000000, function(i) i)",
    ] {
        let stopped = run(text);
        assert!(matches!(stopped, Err(JsonnetError::Exceeded(_))), "{text}: {stopped:?}");
        assert_eq!(run("(import 'lib.libsonnet').a").as_deref(), Ok("\"b\""));
    }
    assert!(matches!(run("error 'x'"), Err(JsonnetError::Program(_))));
}

/// The question of `eval` about the health of a `ConfigMap` by a script.
fn eval_health(script: &str) -> Result<Value, Fault> {
    let input = json!({"live": document(), "settings": {
        "resource.customizations.health.ConfigMap": script,
        "resource.customizations.useOpenLibs.ConfigMap": "true",
    }});
    evaluate("engine.health", input, Strictness::Lenient)
}

/// Each of these calls worked for minutes: `eval` starts no process that could be killed, and counts what they do.
#[test]
fn sec_07_costly_lua_patterns_end_in_eval() {
    let text = "local s = string.rep('a', 3000000) ";
    for call in ["s:gsub('a*b', '')", "s:find('.-.-b')", "(function() while true do s:upper() end end)()"] {
        let found = eval_health(&format!("{text} local r = {call} return {{status = 'Healthy'}}")).unwrap();
        assert_eq!(found["health"]["status"], "Unknown", "{call}");
        let message = found["health"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("context deadline exceeded"), "{call}: {message}");
    }
    let honest = "local n = obj.data.a:gsub('%d', '<%0>') return {status = 'Healthy', message = n}";
    assert_eq!(eval_health(honest).unwrap()["health"], json!({"status": "Healthy", "message": "<1>"}));
}

/// A rule that is stopped is an error of the comparison in `eval`, as it is a condition of the controller.
#[test]
fn eng_69_eval_names_a_stopped_rule() {
    let deep = "select((reduce range(49000) as $i (0; [.])) != 0)";
    let rule = json!({"kind": "ConfigMap", "jqPathExpressions": [deep]});
    let application = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "a"}, "spec": {"project": "default", "ignoreDifferences": [rule]}});
    let input = json!({"application": application, "target": document(), "live": document()});
    let fault = evaluate("engine.diff", input, Strictness::Lenient).unwrap_err();
    assert!(fault.message.contains("nested more than 1000 levels deep"), "{}", fault.message);
    let runner = interpreters().runner("app", DEADLINE);
    let found = runner.jq_paths(&[deep], &document());
    assert!(
        matches!(&found[..], [Err(ScriptFault::Stopped(text))] if text.contains("1000 levels")),
        "{found:?}"
    );
}

/// Comparing long texts is one instruction, which no step counts: only a process that can be killed ends this.
#[test]
#[expect(clippy::disallowed_methods, reason = "the program itself is what is tested")]
fn sec_10_commands_run_scripts_in_children() {
    let folder = tempfile::tempdir().unwrap();
    let script = "local s = string.rep('a', 8000000) local t, u = s .. 'b', s .. 'c' \
                  for i = 1, 3000000 do local x = t < u end return {status = 'Healthy'}";
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"}, "data": {
        "resource.customizations.health.ConfigMap": script,
        "resource.customizations.useOpenLibs.ConfigMap": "true",
    }});
    let [object, settings] = [("object.json", document()), ("cm.json", settings)].map(|(name, value)| {
        let path = folder.path().join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path
    });
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tiphys"))
        .args(["admin", "settings", "resource-overrides", "health"])
        .arg(object)
        .arg("--argocd-cm-path")
        .arg(settings)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("STATUS: Unknown") && text.contains("took longer than 1000ms"),
        "{text} {output:?}"
    );
}

/// The bounds of renderings were those of the defaults, whatever the settings say.
#[test]
fn sec_07_eval_renders_within_the_bounds_of_the_settings() {
    let render = |settings: Value| {
        let input = json!({"app": {"name": "a"}, "source": {"repoURL": "https://git.acme.test/a", "path": "."}, "settings": settings,
        "repos": [{"url": "https://git.acme.test/a", "files": {
            "Chart.yaml": "{apiVersion: v2, name: a, version: 1.0.0}",
            "templates/a.yaml": "{{ range until 200 }}{{ range until 500 }}{{ $x := sha256sum `x` }}{{ end }}{{ end }}{apiVersion: v1, kind: A, metadata: {name: a}}",
        }}]});
        evaluate("render.manifests", input, Strictness::Lenient)
    };
    assert!(render(json!({})).is_ok());
    let fault = render(json!({"tiphys.renderer.steps": "1000000"})).unwrap_err();
    assert!(fault.message.contains("steps"), "{}", fault.message);
}
