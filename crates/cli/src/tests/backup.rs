//! `admin export` and `admin import` against the embedded API server (CLI-901, CLI-902).

use serde_json::{Value, json};

use super::embedded::{Embedded, NAMESPACE};

const ARGO: (&str, &str) = ("argoproj.io", "v1alpha1");

fn application(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": namespace, "labels": {"team": "shop"},
            "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
        "spec": {"project": "default", "source": {"repoURL": "https://git.example.com/a.git", "path": "web"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"}},
        "status": {"sync": {"status": "Synced", "comparedTo": {"source": {"repoURL": "https://git.example.com/a.git"},
            "destination": {}}}, "health": {"status": "Healthy"}}})
}

fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": {"name": name, "namespace": NAMESPACE,
        "labels": {"app.kubernetes.io/part-of": "argocd"}}})
}

/// An installation with something of everything.
fn filled() -> Embedded {
    let bed = Embedded::start();
    bed.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}));
    bed.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}));
    bed.put(&config_map("argocd-cm", &json!({"url": "https://cd.example.com", "text": "a\n---\nb\n"})));
    bed.put(&config_map("argocd-rbac-cm", &json!({"policy.default": "role:readonly"})));
    bed.put(&config_map("argocd-cmd-params-cm", &json!({"application.namespaces": "team-*"})));
    bed.put(&config_map("unrelated", &json!({"a": "b"})));
    bed.put(&json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"admin.password": "hash"},
        "metadata": {"name": "argocd-secret", "namespace": NAMESPACE}}));
    bed.put_secret("repo-a", "repository", &json!({"url": "https://git.example.com/a.git", "password": "p"}));
    bed.put(&json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "b"},
        "metadata": {"name": "unrelated", "namespace": NAMESPACE}}));
    bed.put(&application(NAMESPACE, "web"));
    bed.put(&application("team-a", "shop"));
    bed.put(&application("other", "foreign"));
    bed.put(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "all", "namespace": NAMESPACE},
        "spec": {"generators": [{"list": {"elements": [{"name": "x"}]}}],
            "template": {"metadata": {"name": "{{name}}"}, "spec": {"project": "default",
                "source": {"repoURL": "https://git.example.com/a.git", "path": "web"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"}}}}}));
    bed
}

/// Kind and name of each document.
fn names(export: &str) -> Vec<String> {
    let documents: Vec<Value> = export
        .split("\n---\n")
        .filter(|text| !text.is_empty())
        .filter_map(|text| {
            tiphys_go::yaml::parse(text, tiphys_go::yaml::Dialect::Sigs, &tiphys_go::yaml::Limits::default())
                .unwrap()
        })
        .collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    documents
        .iter()
        .map(|one| {
            let metadata = &one["metadata"];
            [text(&one["kind"]), text(&metadata["namespace"]), text(&metadata["name"])].join(" ")
        })
        .collect()
}

fn saved(bed: &Embedded, text: &str) -> String {
    let path = bed.directory.path().join("backup.yaml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn cli_901_an_export_holds_the_installation_and_nothing_that_the_server_manages() {
    let bed = filled();
    let text = bed.succeeds(&["admin", "export"]);
    assert_eq!(
        names(&text),
        [
            "ConfigMap  argocd-cm",
            "ConfigMap  argocd-rbac-cm",
            "Secret  argocd-secret",
            "Secret  repo-a",
            "AppProject  default",
            "Application  web",
            "Application team-a shop",
            "ApplicationSet  all",
        ]
    );
    assert!(text.ends_with("---\n"));
    for managed in ["resourceVersion", "uid:", "creationTimestamp", "managedFields", "generation:"] {
        assert!(!text.contains(managed), "{managed}: {text}");
    }
    assert!(text.contains("status: Synced") && text.contains("resources-finalizer.argocd.argoproj.io"));
    let narrow = bed.succeeds(&["admin", "export", "--application-namespaces", "other"]);
    assert!(names(&narrow).contains(&"Application other foreign".to_owned()));
    assert!(!names(&narrow).contains(&"Application team-a shop".to_owned()));
}

#[test]
fn cli_901_a_file_takes_the_export_as_a_whole_and_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let bed = filled();
    let path = bed.directory.path().join("out.yaml");
    assert_eq!(bed.succeeds(&["admin", "export", "-o", path.to_str().unwrap()]), "");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), bed.succeeds(&["admin", "export"]));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let missing = bed.directory.path().join("missing/out.yaml");
    let (message, code) = bed.fails(&["admin", "export", "-o", missing.to_str().unwrap()]);
    assert_eq!((message, code), (format!("open {}: no such file or directory", missing.display()), 20));
    assert_eq!(bed.succeeds(&["admin", "export", "-o", "/dev/null"]), "", "a device stays one");
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn cli_902_an_empty_namespace_becomes_what_the_backup_says() {
    let bed = filled();
    let text = bed.succeeds(&["admin", "export"]);
    // The status of a set is written by a way of its own.
    let status = "status:\n  conditions:\n  - message: m\n    reason: r\n    status: \"True\"\n    type: ErrorOccurred\n";
    let text = format!("{}{status}---\n", text.strip_suffix("---\n").unwrap());
    let other = Embedded::bare();
    other.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}));
    // What is not in a backup says which namespaces count.
    other.put(&config_map("argocd-cmd-params-cm", &json!({"application.namespaces": "team-*"})));
    let path = saved(&other, &text);
    let dry = other.succeeds(&["admin", "import", &path, "--dry-run"]);
    assert!(dry.contains("/ConfigMap argocd-cm in namespace argocd created (dry run)\n"), "{dry}");
    assert!(other.object(("", "v1"), "ConfigMap", NAMESPACE, "argocd-cm").is_none());
    let done = other.succeeds(&["admin", "import", &path]);
    assert_eq!(
        done,
        "import process started argocd\n\
         /ConfigMap argocd-cm in namespace argocd created\n\
         /ConfigMap argocd-rbac-cm in namespace argocd created\n\
         /Secret argocd-secret in namespace argocd created\n\
         /Secret repo-a in namespace argocd created\n\
         argoproj.io/AppProject default in namespace argocd created\n\
         argoproj.io/Application web in namespace argocd created\n\
         argoproj.io/Application shop in namespace team-a created\n\
         argoproj.io/ApplicationSet all in namespace argocd created\n\
         Import process completed successfully in namespace argocd at 2026-08-01T10:00:00Z, duration: 0s\n"
    );
    assert_eq!(other.succeeds(&["admin", "export"]), text, "the same again");
    let again = other.succeeds(&["admin", "import", &path]);
    assert_eq!(again.lines().count(), 2, "{again}");
    let verbose = other.succeeds(&["admin", "import", &path, "--verbose"]);
    assert!(verbose.contains("\nargoproj.io/ApplicationSet all unchanged\n"), "{verbose}");
}

#[test]
fn cli_902_what_differs_is_overwritten_and_operations_stop() {
    let bed = filled();
    let text = bed.succeeds(&["admin", "export"]);
    let path = saved(&bed, &text.replace("path: web", "path: api").replace("role:readonly", "role:none"));
    let mut running = application(NAMESPACE, "running");
    running["operation"] = json!({"sync": {}});
    bed.put(&running);
    let done = bed.succeeds(&["admin", "import", &path]);
    assert!(done.contains("\n/ConfigMap argocd-rbac-cm in namespace argocd updated\n"), "{done}");
    assert!(done.contains("\nargoproj.io/Application web in namespace argocd updated\n"), "{done}");
    assert!(done.contains("\nargoproj.io/Application running needs pruning\n"), "{done}");
    assert!(!done.contains("repo-a"), "{done}");
    let web = bed.object(ARGO, "Application", NAMESPACE, "web").unwrap();
    assert_eq!(
        (&web["spec"]["source"]["path"], &web["status"]["sync"]["status"]),
        (&json!("api"), &json!("Synced"))
    );

    let text = bed.succeeds(&["admin", "export"]);
    let path = saved(&bed, &text);
    assert_eq!(bed.succeeds(&["admin", "import", &path]).lines().count(), 2);
    let stopped = bed.succeeds(&["admin", "import", &path, "--stop-operation"]);
    assert!(stopped.contains("argoproj.io/Application running in namespace argocd updated\n"), "{stopped}");
    assert!(bed.object(ARGO, "Application", NAMESPACE, "running").unwrap().get("operation").is_none());
}

#[test]
fn cli_902_pruning_takes_objects_and_leaves_what_they_deployed() {
    let bed = filled();
    let text = bed.succeeds(&["admin", "export"]);
    let kept: Vec<&str> = text
        .split("\n---\n")
        .filter(|one| one.contains("kind: ConfigMap") || one.contains("name: default"))
        .collect();
    let mut path = saved(&bed, &kept.join("\n---\n"));
    let set = bed.object(ARGO, "ApplicationSet", NAMESPACE, "all").unwrap();
    let mut made = application(NAMESPACE, "made");
    made["metadata"]["ownerReferences"] = json!([{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "name": "all", "uid": set["metadata"]["uid"], "controller": true}]);
    made["metadata"]["labels"] = json!({"keep": "yes"});
    bed.put(&made);
    let with = |bed: &Embedded, path: &str, more: &[&str]| {
        bed.succeeds(&[&["admin", "import", path, "--skip-resources-with-label", "keep=yes"], more].concat())
    };
    let told = with(&bed, &path, &[]);
    assert!(told.contains("argoproj.io/Application web needs pruning\n"), "{told}");
    let dry = with(&bed, &path, &["--prune", "--dry-run"]);
    assert!(dry.contains("/Secret repo-a pruned (dry run)\n"), "{dry}");
    assert!(bed.secret("repo-a").is_some());
    let done = with(&bed, &path, &["--prune"]);
    let pruned: Vec<&str> = done.lines().filter(|line| line.ends_with(" pruned")).collect();
    assert_eq!(
        pruned,
        [
            "argoproj.io/ApplicationSet all pruned",
            "argoproj.io/Application web pruned",
            "argoproj.io/Application shop pruned",
            "/Secret argocd-secret pruned",
            "/Secret repo-a pruned",
        ]
    );
    assert!(bed.object(ARGO, "Application", NAMESPACE, "web").is_none(), "without its finalizers");
    assert!(
        bed.object(ARGO, "Application", NAMESPACE, "made").is_some(),
        "the set is gone, not what it made"
    );
    assert!(bed.object(ARGO, "Application", "other", "foreign").is_some());
    assert!(bed.object(("", "v1"), "Secret", NAMESPACE, "unrelated").is_some());
    // A ConfigMap that is missing stops everything first.
    path = saved(&bed, kept.last().unwrap());
    let (stdout, message, code) = bed.run(&["admin", "import", &path, "--prune"]);
    assert_eq!((stdout.as_str(), code), ("import process started argocd\n", 1));
    assert_eq!(message, "Unexpected kind 'ConfigMap' in prune list");
    path = saved(&bed, "");
    assert_eq!(bed.run(&["admin", "import", &path, "--prune"]).2, 20, "an empty backup prunes nothing");
}

#[test]
fn cli_902_marks_and_labels_can_be_left() {
    let bed = filled();
    let text = bed.succeeds(&["admin", "export"]);
    let path = saved(&bed, &text);
    let mut map = bed.object(("", "v1"), "ConfigMap", NAMESPACE, "argocd-rbac-cm").unwrap();
    map["metadata"]["annotations"] =
        json!({"argocd.argoproj.io/tracking-id": "self:/ConfigMap:argocd/argocd-rbac-cm"});
    bed.replace(&map);
    let done = bed.succeeds(&["admin", "import", &path, "--ignore-tracking"]);
    assert_eq!(done.lines().count(), 2, "{done}");
    let skipped = bed.succeeds(&["admin", "import", &path, "--skip-resources-with-label", "team=shop"]);
    assert!(skipped.contains("Skipping argoproj.io/Application web in namespace argocd\n"), "{skipped}");
    assert!(skipped.contains("/ConfigMap argocd-rbac-cm in namespace argocd updated\n"), "{skipped}");
    let (_, code) = {
        let (_, message, code) = bed.run(&["admin", "import", &path, "--skip-resources-with-label", "team"]);
        (message, code)
    };
    assert_eq!(code, 20);
}

#[test]
fn cli_902_wrong_input_and_operands() {
    let bed = Embedded::bare();
    let (stdout, _, code) = bed.run(&["admin", "import"]);
    assert!(code == 1 && stdout.contains("admin import SOURCE [flags]"), "{stdout}");
    let (stdout, message, code) = bed.run(&["admin", "import", "/nowhere/backup.yaml"]);
    assert_eq!(
        (stdout.as_str(), message.as_str(), code),
        ("import process started argocd\n", "open /nowhere/backup.yaml: no such file or directory", 20)
    );
    assert_eq!(bed.fails(&["admin", "export"]).1, 20, "nothing there is no backup");
}
