//! `appset generate --offline` (ASET-305): what a set comes to in an installation that a file describes.

#![expect(clippy::unwrap_used, reason = "helpers of tests count as no tests")]

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

struct Bench {
    folder: tempfile::TempDir,
}

struct Ran {
    stdout: String,
    stderr: String,
    code: i32,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[expect(clippy::disallowed_methods, reason = "the program itself is what is tested")]
    fn run(&self, args: &[&str]) -> Ran {
        let output = Command::new(env!("CARGO_BIN_EXE_tiphys"))
            .args(["appset", "generate", "set.yaml"])
            .args(args)
            .env_clear()
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Ran {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap_or(-1),
        }
    }

    /// Runs with this inputs file.
    fn with(&self, inputs: &Value, args: &[&str]) -> Ran {
        self.put("in/inputs.yaml", &inputs.to_string());
        self.run(&[&["--offline", "--inputs", "in/inputs.yaml"], args].concat())
    }
}

fn set(project: &str, generators: &Value, destination: &Value) -> String {
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "s"},
        "spec": {"project": project, "goTemplate": true, "goTemplateOptions": ["missingkey=error"],
            "generators": generators,
            "template": {"metadata": {"name": "{{ .n }}"}, "spec": {"project": "{{ .p }}",
                "source": {"repoURL": "https://h/r", "path": "x"}, "destination": destination}}}})
    .to_string()
}

fn local() -> Value {
    json!({"name": "in-cluster", "namespace": "web"})
}

#[test]
fn aset_305_repositories_are_folders_beside_the_inputs_file() {
    let bench = Bench::new();
    let generators = json!([{"git": {"repoURL": "https://h/r", "revision": "main",
        "files": [{"path": "envs/*.yaml"}]}}]);
    bench.put("set.yaml", &set("", &generators, &local()));
    bench.put("in/repo/envs/a.yaml", "{\"n\": one, p: default}\n");
    bench.put("in/repo/envs/b.yaml", "{\"n\": two, p: default}\n");
    bench.put("in/repo/.git/envs/c.yaml", "{\"n\": three, p: default}\n");
    let inputs = json!({"repos": [{"url": "https://h/r", "path": "repo"}]});
    let ran = bench.with(&inputs, &["-o", "json"]);
    assert_eq!((ran.stderr.as_str(), ran.code), ("", 0));
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    let names: Vec<&str> =
        shown.as_array().unwrap().iter().map(|app| app["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["one", "two"]);
    let ran = bench.with(&inputs, &["--output-parameters"]);
    assert_eq!(ran.stdout.lines().count(), 2, "{}", ran.stdout);
    assert!(ran.stdout.starts_with("{\"n\":\"one\",\"p\":\"default\",\"path\":"), "{}", ran.stdout);
}

#[test]
fn aset_305_validation_says_what_a_project_forbids() {
    let bench = Bench::new();
    let elements = json!([{"list": {"elements": [{"n": "mine", "p": "shop", "s": "https://eu.test"},
        {"n": "theirs", "p": "red", "s": "https://eu.test"}, {"n": "far", "p": "shop", "s": "https://us.test"}]}}]);
    bench.put("set.yaml", &set("shop", &elements, &json!({"server": "{{ .s }}", "namespace": "web"})));
    let inputs = json!({
        "clusters": [{"name": "eu", "server": "https://eu.test"}, {"name": "us", "server": "https://us.test"}],
        "projects": [{"metadata": {"name": "shop"}, "spec": {"sourceRepos": ["*"],
            "destinations": [{"server": "https://eu.test", "namespace": "*"}]}}]});
    assert_eq!(bench.with(&inputs, &["-o", "json"]).code, 0, "nobody asked");
    let ran = bench.with(&inputs, &["--validate"]);
    assert_eq!(
        (ran.stderr.as_str(), ran.code),
        (
            "Warning: application 'argocd/far': application destination server 'https://us.test' and namespace 'web' do \
             not match any of the allowed destinations in project 'shop'\n\
             Warning: application 'argocd/theirs': application project 'red' does not match ApplicationSet project \
             'shop'\n",
            1
        )
    );
    let ran = bench.with(&json!({"settings": {"x": "y"}}), &["--validate"]);
    assert!(
        ran.stderr.contains("ApplicationSet references project shop which does not exist"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.code, 20);
}

#[test]
fn aset_305_a_folder_of_live_applications_shows_what_changes() {
    let bench = Bench::new();
    let elements = json!([{"list": {"elements": [{"n": "new", "p": "default"}, {"n": "same", "p": "default"},
        {"n": "other", "p": "default"}]}}]);
    bench.put("set.yaml", &set("", &elements, &local()));
    let live = |name: &str, path: &str| {
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": name, "namespace": "argocd", "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
            "spec": {"project": "default", "source": {"repoURL": "https://h/r", "path": path},
                "destination": local()}})
    };
    let mut elsewhere = live("elsewhere", "x");
    elsewhere["metadata"]["namespace"] = json!("team");
    let documents = [live("same", "x"), live("other", "y"), elsewhere];
    bench.put("live/a.yaml", &documents.map(|document| document.to_string()).join("\n---\n"));
    bench.put("live/b.json", &live("gone", "x").to_string());
    bench.put("live/readme.yaml", "no: kind\n");
    let ran = bench.with(&json!({}), &["--diff", "live"]);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str(), ran.code),
        ("+ argocd/new\n~ argocd/other\n- argocd/gone\n1 added, 1 changed, 1 removed, 1 unchanged\n", "", 0)
    );
    let ran = bench.with(&json!({}), &["--diff", "nowhere"]);
    assert!(ran.stderr.contains("--diff nowhere: there is no such folder"), "{}", ran.stderr);
}

#[test]
fn aset_305_providers_and_plugins_answer_what_the_file_says() {
    let bench = Bench::new();
    let generators = json!([{"plugin": {"configMapRef": {"name": "p"}, "input": {"parameters": {"a": "b"}}}},
        {"pullRequest": {"github": {"owner": "o", "repo": "r"}}}]);
    bench.put("set.yaml", &set("", &generators, &local()));
    let body = json!({"output": {"parameters": [{"n": "one", "p": "default"}]}});
    let mut inputs = json!({
        "plugins": {"p": [{"match": {"a": "c"}, "status": 500}, {"match": {"a": "b"}, "body": body}]},
        "generatorData": {"pullRequest": [{"n": "two", "p": "default"}]}});
    let ran = bench.with(&inputs, &["-o", "json"]);
    assert_eq!((ran.stderr.as_str(), ran.code), ("", 0));
    assert!(ran.stdout.contains("\"one\"") && ran.stdout.contains("\"two\""), "{}", ran.stdout);
    inputs["generatorData"] = json!({});
    let ran = bench.with(&inputs, &[]);
    assert!(ran.stderr.contains("generatorData has no pullRequest"), "{}", ran.stderr);
    assert_eq!((ran.stdout.as_str(), ran.code), ("", 20));
    // A plugin elsewhere is asked by nobody here.
    inputs = json!({"configMaps": {"p": {"token": "$s:t", "baseUrl": "https://plugin.test"}}, "secrets": {"s": {"t": "x"}},
        "generatorData": {"pullRequest": []}});
    let ran = bench.with(&inputs, &[]);
    assert!(ran.stderr.contains("the plugin \\\"p\\\" is not on this machine"), "{}", ran.stderr);
}

#[test]
fn aset_305_what_is_wrong_with_inputs_is_said() {
    let bench = Bench::new();
    bench.put("set.yaml", &set("", &json!([{"list": {"elements": []}}]), &local()));
    let cases = [
        ("", "--inputs in/inputs.yaml: the file is empty"),
        ("{", "--inputs in/inputs.yaml: "),
        ("a: b\n---\nc: d\n", "--inputs in/inputs.yaml: one document is needed, there are 2"),
        ("[]", "--inputs: an object is expected; its members are clusters, projects, "),
        ("clusterz: []", "--inputs: unknown member \\\"clusterz\\\"; there are clusters, projects, "),
        ("clusters: {}", "--inputs: clusters: expected a list"),
        ("clusters: [{name: a}]", "--inputs: clusters[0].server: required member is missing"),
        ("clusters: [{server: a, labelz: {}}]", "--inputs: unknown member \\\"clusters[0].labelz\\\""),
        ("projects: [{metadata: {name: a}, spec: {sourceRepos: x}}]", "--inputs: projects[0]: invalid type"),
        ("repos: [{path: x}]", "--inputs: repos[0].url: required member is missing"),
        (
            "repos: [{url: x, path: nowhere}]",
            "--inputs: repos[0].path: cannot read \\\"in/nowhere\\\": No such file",
        ),
        ("repos: [{url: x}]", "--inputs: repos[0].path: exactly one of path and files is needed"),
        (
            "repos: [{url: x, path: z, files: {}}]",
            "--inputs: repos[0].path: exactly one of path and files is needed",
        ),
        ("now: yesterday", "--inputs: now: "),
        ("plugins: {p: [{statuss: 1}]}", "--inputs: unknown member \\\"plugins.p[0].statuss\\\""),
    ];
    for (text, expected) in cases {
        bench.put("in/inputs.yaml", text);
        let ran = bench.run(&["--offline", "--inputs", "in/inputs.yaml"]);
        assert!(ran.stderr.contains(expected), "{text}\n{}", ran.stderr);
        assert_eq!((ran.stdout.as_str(), ran.code), ("", 20), "{text}");
    }
    for flag in [&["--inputs", "x"][..], &["--validate"], &["--diff", "."]] {
        let ran = bench.run(flag);
        assert!(ran.stderr.contains(&format!("{} needs --offline", flag[0])), "{}", ran.stderr);
    }
}
