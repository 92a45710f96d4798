//! `appset` against an API server (CLI-600 to CLI-607).

use std::path::Path;

use serde_json::{Value, json};

use super::embedded::{Embedded, NAMESPACE, git};
use super::web::serve_always as serve;

const API: (&str, &str) = ("argoproj.io", "v1alpha1");

fn set(name: &str, generators: &Value) -> Value {
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": name},
        "spec": {"goTemplate": true, "goTemplateOptions": ["missingkey=error"], "generators": generators,
            "template": {"metadata": {"name": "{{ .name }}-ui"}, "spec": {"project": "default",
                "source": {"repoURL": "https://h/r", "path": "{{ .name }}", "targetRevision": "main"},
                "destination": {"name": "in-cluster", "namespace": "web"}}}}})
}

fn elements(names: &[&str]) -> Value {
    let elements: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    json!([{"list": {"elements": elements}}])
}

/// A file of the test.
fn file(bed: &Embedded, name: &str, documents: &[Value]) -> String {
    let path = bed.directory.path().join(name);
    let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
    std::fs::write(&path, texts.join("\n---\n")).unwrap();
    path.to_str().unwrap().to_owned()
}

/// An Application that belongs to a set, as a controller would have made it.
fn owned(bed: &Embedded, set: &str, name: &str, path: &str) {
    let uid = bed.object(API, "ApplicationSet", NAMESPACE, set).unwrap()["metadata"]["uid"].clone();
    bed.put(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"tier": path},
            "finalizers": ["resources-finalizer.argocd.argoproj.io"], "ownerReferences": [
            {"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": set, "uid": uid,
                "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"project": "default", "source": {"repoURL": "https://h/r", "path": path, "targetRevision": "main"},
            "destination": {"name": "in-cluster", "namespace": "web"}}}));
}

#[test]
fn cli_602_a_set_from_creation_to_deletion() {
    let bed = Embedded::start();
    let path = file(&bed, "set.yaml", &[set("all", &elements(&["a", "b"]))]);
    let create = ["appset", "create", path.as_str()];

    let (stdout, stderr, code) = bed.run(&["appset", "create", &path, "--dry-run", "-o", "json"]);
    assert_eq!((stderr.as_str(), code), ("ApplicationSet 'all' created (dry-run)\n", 0));
    let shown: Value = serde_json::from_str(&stdout).unwrap();
    let names: Vec<&str> = (shown["status"]["resources"].as_array().unwrap().iter())
        .map(|resource| resource["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a-ui", "b-ui"], "ASET-302");
    assert!(bed.object(API, "ApplicationSet", NAMESPACE, "all").is_none(), "nothing is stored");

    let (stdout, stderr, code) = bed.run(&create);
    assert_eq!((stderr.as_str(), code), ("ApplicationSet 'all' created\n", 0));
    assert!(stdout.starts_with("Name:               argocd/all\nProject:            default\n"), "{stdout}");
    assert_eq!(bed.run(&create).1, "ApplicationSet 'all' unchanged\n");

    let changed = file(&bed, "changed.yaml", &[set("all", &elements(&["a"]))]);
    let (stdout, message, code) = bed.run(&["appset", "create", &changed]);
    assert_eq!(
        (stdout.as_str(), message.as_str(), code),
        (
            "",
            "rpc error: code = InvalidArgument desc = existing ApplicationSet spec is different, use upsert flag to \
             force update",
            20
        )
    );
    assert_eq!(
        bed.run(&["appset", "create", &changed, "--upsert", "-o", "yaml"]).1,
        "ApplicationSet 'all' updated\n"
    );
    let stored = bed.object(API, "ApplicationSet", NAMESPACE, "all").unwrap();
    assert_eq!(stored["spec"]["generators"], elements(&["a"]));

    assert_eq!(bed.succeeds(&["appset", "list", "-o", "name"]), "argocd/all\n");
    assert_eq!(
        bed.succeeds(&["appset", "list"]),
        "NAME        PROJECT  SYNCPOLICY  HEALTH   CONDITIONS  REPO         PATH         TARGET\n\
         argocd/all  default  <none>      Unknown  <none>      https://h/r  {{ .name }}  main\n"
    );
    assert_eq!(bed.succeeds(&["appset", "list", "-p", "other", "-o", "json"]), "[]\n");
    let got = bed.succeeds(&["appset", "get", "all", "-o", "json"]);
    let got: Value = serde_json::from_str(&got).unwrap();
    assert_eq!((got["metadata"]["name"].as_str(), got.get("kind")), (Some("all"), None), "API-P6");
    assert_eq!(bed.fails(&["appset", "get", "all", "-o", "x"]), ("unknown output format: x".to_owned(), 20));

    assert_eq!(bed.succeeds(&["appset", "delete", "all", "--wait"]), "applicationset 'all' deleted\n");
    assert_eq!(
        bed.fails(&["appset", "get", "argocd/all"]),
        ("rpc error: code = NotFound desc = applicationsets.argoproj.io \"all\" not found".to_owned(), 20)
    );
}

#[test]
fn cli_602_files_that_say_something_else() {
    let bed = Embedded::start();
    let none = file(&bed, "none.yaml", &[json!({"kind": "Secret"})]);
    let (stdout, stderr, code) = bed.run(&["appset", "create", &none]);
    assert_eq!(
        (stdout.as_str(), stderr.as_str(), code),
        ("No ApplicationSets found while parsing the input file\n", "", 1)
    );
    let mut nameless = set("x", &elements(&[]));
    nameless["metadata"] = json!({});
    let (message, code) = bed.fails(&["appset", "create", &file(&bed, "nameless.yaml", &[nameless])]);
    assert!(message.ends_with("ApplicationSet does not have Name field set") && code == 20, "{message}");
    let two = file(&bed, "two.yaml", &[set("a", &elements(&[])), set("b", &elements(&[]))]);
    let (stdout, _, code) = bed.run(&["appset", "generate", &two]);
    assert_eq!((stdout.as_str(), code), ("Input file must contain one ApplicationSet\n", 1));

    let unknown = set("u", &json!([{"cloud": {}}]));
    let (message, code) = bed.fails(&["appset", "create", &file(&bed, "unknown.yaml", &[unknown])]);
    assert!(message.contains("contains unrecognized generators") && code == 20, "ASET-300: {message}");
    let elsewhere = set("e", &elements(&[]));
    let path = file(&bed, "elsewhere.yaml", &[elsewhere]);
    let (stdout, message, code) = bed.run(&["appset", "create", &path, "-N", "team"]);
    assert_eq!(
        stdout,
        "ApplicationSet YAML file does not have namespace; using --appset-namespace=\"team\".\n"
    );
    assert!(message.ends_with("namespace 'team' is not permitted") && code == 20, "{message}");
    // All sets of all files.
    let more = file(&bed, "more.yaml", &[set("c", &elements(&[]))]);
    let (_, stderr, code) = bed.run(&["appset", "create", &two, &more]);
    assert_eq!(code, 0);
    assert_eq!(stderr.lines().count(), 3, "{stderr}");
    assert_eq!(bed.succeeds(&["appset", "list", "-o", "name"]), "argocd/a\nargocd/b\nargocd/c\n");
}

#[test]
fn cli_607_sets_of_a_project() {
    let bed = Embedded::start();
    bed.put(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": "red", "namespace": NAMESPACE},
        "spec": {"sourceRepos": ["https://red/*"], "destinations": [{"name": "in-cluster", "server": "*", "namespace": "*"}]}}));
    let mut scoped = set("all", &elements(&["a"]));
    scoped["spec"]["template"]["spec"]["project"] = json!("");
    let path = file(&bed, "set.yaml", &[scoped]);
    let (_, stderr, code) = bed.run(&["appset", "generate", &path]);
    assert!(stderr.contains("references project  which does not exist") && code == 20, "{stderr}");
    let (stdout, stderr, code) = bed.run(&["appset", "create", &path, "--project", "red", "--dry-run"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("\nProject:            red\nScoped Project:     red\n"), "{stdout}");
    assert!(
        stderr.contains(
            "Warning: application 'argocd/a-ui': application repo https://h/r is not permitted in project 'red'\n"
        ),
        "{stderr}"
    );
    bed.run(&["appset", "create", &path, "--project", "red"]);
    assert_eq!(bed.succeeds(&["appset", "list", "-p", "red", "-o", "name"]), "argocd/all\n");
    let stored = bed.object(API, "ApplicationSet", NAMESPACE, "all").unwrap();
    assert_eq!(stored["spec"]["project"], "red");
    let (message, code) = bed.fails(&["appset", "create", &path, "--project", "blue"]);
    assert!(message.ends_with("references project blue which does not exist") && code == 20, "{message}");
}

#[test]
fn cli_603_what_a_set_generates() {
    let bed = Embedded::start();
    let one = file(&bed, "one.yaml", &[set("one", &elements(&["a"]))]);
    assert_eq!(
        bed.succeeds(&["appset", "generate", &one]),
        "NAME         CLUSTER     NAMESPACE  PROJECT  STATUS  HEALTH  SYNCPOLICY  CONDITIONS  REPO         PATH  TARGET\n\
         argocd/a-ui  in-cluster  web        default                  Manual      <none>      https://h/r  a     main\n"
    );
    let shown: Value =
        serde_json::from_str(&bed.succeeds(&["appset", "generate", &one, "-o", "json"])).unwrap();
    assert_eq!((shown["kind"].as_str(), shown.get("status")), (Some("Application"), None));
    assert_eq!(shown["metadata"].get("namespace"), None);
    let none = file(&bed, "none.yaml", &[set("none", &elements(&[]))]);
    assert_eq!(bed.succeeds(&["appset", "generate", &none, "-o", "json"]), "[]\n");
    let two = file(&bed, "two.yaml", &[set("two", &elements(&["a", "b"]))]);
    let shown: Value =
        serde_json::from_str(&bed.succeeds(&["appset", "generate", &two, "-o", "json"])).unwrap();
    assert_eq!(shown.as_array().unwrap().len(), 2);

    let mut broken = set("broken", &elements(&["a"]));
    broken["spec"]["template"]["metadata"]["name"] = json!("{{ .nobody }}");
    let path = file(&bed, "broken.yaml", &[broken]);
    let parameters = bed.succeeds(&["appset", "generate", &path, "--output-parameters"]);
    assert_eq!(parameters, "{\"name\":\"a\"}\n", "ASET-304");
    let (message, code) = bed.fails(&["appset", "generate", &path]);
    assert!(message.contains("unable to generate Applications of ApplicationSet:"), "{message}");
    assert!(message.contains("map has no entry for key \"nobody\"") && code == 20, "{message}");
}

#[test]
fn cli_603_directories_of_a_repository_are_read_here() {
    let bed = Embedded::start();
    let url = bed.repository("apps");
    for folder in ["web", "db"] {
        std::fs::create_dir_all(Path::new(&url).join("apps").join(folder)).unwrap();
        std::fs::write(Path::new(&url).join("apps").join(folder).join("x.yaml"), "a: 1\n").unwrap();
    }
    git(Path::new(&url), &["add", "."]);
    git(Path::new(&url), &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "x"]);
    let mut found = set(
        "git",
        &json!([{"git": {"repoURL": url, "revision": "main", "directories": [{"path": "apps/*"}]}}]),
    );
    found["spec"]["template"]["metadata"]["name"] = json!("{{ .path.basename }}");
    found["spec"]["template"]["spec"]["source"]["path"] = json!("{{ .path.path }}");
    let text = bed.succeeds(&["appset", "generate", &file(&bed, "git.yaml", &[found])]);
    assert!(text.contains("\nargocd/db ") && text.contains("\nargocd/web "), "{text}");
}

#[test]
fn aset_59_tokens_are_marked_where_a_person_generates() {
    let bed = Embedded::start();
    let requests = r#"[{"number": 7, "title": "t", "user": {"login": "kim"}, "labels": [{"name": "preview"}],
        "head": {"ref": "feature", "sha": "0123456789"}, "base": {"ref": "main"}}]"#;
    let github = |address: String| {
        json!([{"pullRequest": {"github": {"owner": "o", "repo": "r", "api": address,
            "tokenRef": {"secretName": "token", "key": "token"}}}}])
    };
    let (right, broken) = (serve(200, requests), serve(500, "{}"));
    let allowed = format!("{right},{broken}");
    bed.put(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "argocd-cmd-params-cm", "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/part-of": "argocd"}},
        "data": {"applicationsetcontroller.allowed.scm.providers": allowed}}));
    let mut asking = set("pr", &github(right));
    asking["spec"]["template"]["metadata"]["name"] = json!("pr-{{ .number }}-{{ index .labels 0 }}");
    asking["spec"]["template"]["spec"]["source"]["path"] = json!("{{ .branch_slug }}");
    let path = file(&bed, "pr.yaml", &[asking.clone()]);
    let missing = bed.fails(&["appset", "generate", &path]).0;
    assert!(missing.contains("secret argocd/token is not a valid SCM creds secret"), "{missing}");
    bed.put_secret("token", "other", &json!({"token": "strong"}));
    let unmarked = bed.fails(&["appset", "generate", &path]).0;
    assert_eq!(unmarked, missing, "SEC-26");
    asking["spec"]["generators"][0]["pullRequest"]["github"]["tokenRef"]["secretName"] = json!("marked");
    let path = file(&bed, "pr.yaml", &[asking.clone()]);
    bed.put_secret("marked", "scm-creds", &json!({"token": "strong"}));
    let text = bed.succeeds(&["appset", "generate", &path]);
    assert!(text.contains("\nargocd/pr-7-preview ") && text.contains(" feature "), "{text}");

    asking["spec"]["generators"] = github(broken);
    asking["spec"]["generators"][0]["pullRequest"]["github"]["tokenRef"]["secretName"] = json!("marked");
    let (message, code) = bed.fails(&["appset", "generate", &file(&bed, "pr.yaml", &[asking])]);
    assert!(message.contains("status 500") && code == 20, "INV-8: {message}");
}

#[test]
fn cli_606_a_preview_is_what_the_controller_would_do() {
    let bed = Embedded::start();
    let path = file(&bed, "set.yaml", &[set("all", &elements(&["a", "b", "c"]))]);
    bed.run(&["appset", "create", &path]);
    owned(&bed, "all", "a-ui", "elsewhere");
    owned(&bed, "all", "old-ui", "old");
    let shown: Value =
        serde_json::from_str(&bed.succeeds(&["appset", "preview", "all", "-o", "json"])).unwrap();
    assert_eq!(shown["added"], json!(["b-ui", "c-ui"]));
    assert_eq!(shown["removed"], json!(["old-ui"]));
    assert_eq!(shown["changed"][0]["name"], "a-ui");
    assert_eq!(shown["changed"][0]["target"]["spec"]["source"]["path"], "a");
    let text = bed.succeeds(&["appset", "preview", "all"]);
    assert!(
        text.starts_with(
            "+ argocd/b-ui\n+ argocd/c-ui\n~ argocd/a-ui\n- argocd/old-ui\n2 added, 1 changed, 1 removed, 0 unchanged\n"
        ),
        "{text}"
    );
    assert!(text.contains("===== argoproj.io/Application argocd/a-ui ======"), "{text}");
    assert!(text.contains("elsewhere"), "{text}");

    // A file is compared with what is stored, or with another file.
    let fewer = file(&bed, "fewer.yaml", &[set("all", &elements(&["b"]))]);
    let text = bed.succeeds(&["appset", "preview", &fewer]);
    assert!(text.starts_with("+ argocd/b-ui\n- argocd/a-ui\n- argocd/old-ui\n"), "{text}");
    let generated = bed.succeeds(&["appset", "generate", &fewer, "-o", "yaml"]);
    let against = bed.directory.path().join("live.yaml");
    std::fs::write(&against, generated).unwrap();
    let text = bed.succeeds(&["appset", "preview", &fewer, "--against", against.to_str().unwrap()]);
    assert_eq!(text, "0 added, 0 changed, 0 removed, 1 unchanged\n");
    assert!(bed.object(API, "Application", NAMESPACE, "b-ui").is_none(), "nothing is written");
}

#[test]
fn cli_606_the_steps_of_a_roll_out() {
    let bed = Embedded::start();
    let mut rolling = set("all", &elements(&["a"]));
    let step =
        |tier: &str| json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": [tier]}]});
    rolling["spec"]["strategy"] = json!({"type": "RollingSync", "deletionOrder": "Reverse",
        "rollingSync": {"steps": [step("db"), step("web")]}});
    bed.run(&["appset", "create", &file(&bed, "set.yaml", &[rolling])]);
    owned(&bed, "all", "front", "web");
    owned(&bed, "all", "data", "db");
    let text = bed.succeeds(&["appset", "rollout", "all"]);
    assert!(
        text.contains("\n1     <none>     data         \n") || text.contains("\n1     <none>     data"),
        "{text}"
    );
    assert!(text.contains("step 1 waits for data\nstep 2 waits for step 1\n"), "{text}");
    assert!(
        text.ends_with("Deletion Order:     Reverse\n  1.                front\n  2.                data\n"),
        "{text}"
    );
    let shown: Value =
        serde_json::from_str(&bed.succeeds(&["appset", "rollout", "all", "-o", "json"])).unwrap();
    assert_eq!(shown["steps"][0]["applications"][0]["name"], "data");
}

#[test]
fn cli_600_the_group_and_its_help() {
    for (args, code) in [(&["appset"][..], 1), (&["appset", "--help"], 0), (&["appset", "foo"], 1)] {
        let (written, found) = super::argocd(args);
        assert_eq!(found, code, "{args:?}");
        assert!(written.stdout.contains("Available Commands:\n  create "), "{}", written.stdout);
    }
    for args in
        [&["appset", "get"][..], &["appset", "generate"], &["appset", "delete"], &["appset", "create"]]
    {
        let (written, code) = super::argocd(args);
        assert_eq!(code, 1, "CLI-6: {args:?}");
        assert!(written.stdout.contains("Usage:\n  argocd appset "), "{}", written.stdout);
    }
    assert_eq!(super::argocd(&["appset", "list"]).1, 1, "CLI-104");
}

#[test]
fn aset_285_whoever_confines_a_set_is_told_what_it_leaves_behind() {
    let bed = Embedded::start();
    bed.put(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": "shop", "namespace": NAMESPACE}, "spec": {"sourceRepos": ["*"],
            "destinations": [{"server": "*", "name": "*", "namespace": "*"}]}}));
    let path = file(&bed, "set.yaml", &[set("all", &elements(&["a"]))]);
    assert_eq!(bed.run(&["appset", "create", &path]).2, 0);
    owned(&bed, "all", "a-ui", "a");
    owned(&bed, "all", "old", "a");
    let mut confined = set("all", &elements(&["a"]));
    confined["spec"]["project"] = json!("shop");
    confined["spec"]["template"]["spec"]["project"] = json!("shop");
    let path = file(&bed, "confined.yaml", &[confined]);
    let warning = "Warning: with spec.project 'shop' the set generates these applications no longer, and they are \
                   deleted: old\n";
    let (_, stderr, code) = bed.run(&["appset", "create", &path, "--upsert", "--dry-run"]);
    assert_eq!(
        (stderr.as_str(), code),
        (
            format!(
                "{warning}Warning: application 'old' would be deleted\nApplicationSet 'all' updated (dry-run)\n"
            )
            .as_str(),
            0
        )
    );
    let (_, stderr, code) = bed.run(&["appset", "create", &path, "--upsert"]);
    assert_eq!((stderr.as_str(), code), (format!("{warning}ApplicationSet 'all' updated\n").as_str(), 0));
    assert_eq!(bed.run(&["appset", "create", &path, "--upsert"]).1, "ApplicationSet 'all' unchanged\n");
}
