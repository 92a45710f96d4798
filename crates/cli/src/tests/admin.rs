//! `admin settings rbac` (CLI-910, CLI-911), without a cluster.

use std::io::Write as _;

use super::execute;
use crate::terminal::Written;

const POLICY: &str = "p, role:dev, applications, sync, shop/*, allow\ng, devs, role:dev\n";

/// Runs `admin settings rbac …` on a file; `FILE` among the arguments is its path.
fn rbac(text: &str, args: &[&str]) -> (Written, u8) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let mut all = vec!["admin", "settings", "rbac"];
    all.extend(args.iter().map(|arg| if *arg == "FILE" { path } else { arg }));
    let (mut written, code) = execute("argocd", &[], &all);
    written.stdout = written.stdout.replace(path, "FILE");
    written.stderr = written.stderr.replace(path, "FILE");
    (written, code)
}

fn can(text: &str, args: &[&str]) -> (String, u8) {
    let mut all = vec!["can"];
    all.extend(args);
    all.extend(["--policy-file", "FILE"]);
    let (written, code) = rbac(text, &all);
    (if written.stderr.is_empty() { written.stdout } else { written.stderr }, code)
}

fn yes() -> (String, u8) {
    ("Yes\n".to_owned(), 0)
}

fn no() -> (String, u8) {
    ("No\n".to_owned(), 1)
}

#[test]
fn cli_910_can_says_yes_or_no() {
    assert_eq!(can(POLICY, &["devs", "sync", "applications", "shop/web"]), yes());
    assert_eq!(can(POLICY, &["role:dev", "sync", "app", "shop/web"]), yes());
    assert_eq!(can(POLICY, &["devs", "delete", "applications", "shop/web"]), no());
    assert_eq!(can(POLICY, &["devs", "sync", "applications"]), no(), "all applications are meant");
    assert_eq!(can("", &["role:admin", "sync", "applications"]), yes());
    assert_eq!(can("", &["role:admin", "sync", "applications", "*"]), yes());
    assert_eq!(can("", &["role:admin", "get", "clusters"]), yes());
    assert_eq!(can("", &["role:admin", "action/apps/Deployment/restart", "apps", "a/b"]), yes());
    // CLI section 12, 8.
    assert_eq!(can("", &["role:readonly", "delete", "applications", "*/*"]), no());
}

#[test]
fn cli_910_can_has_options() {
    let asked = ["nobody", "get", "applications", "a/b"];
    let with = |flags: &[&str]| can(POLICY, &[&asked[..], flags].concat());
    assert_eq!(with(&[]), no());
    assert_eq!(with(&["--default-role", "role:readonly"]), yes());
    assert_eq!(with(&["--default-role", "role:readonly", "--use-builtin-policy=false"]), no());
    assert_eq!(with(&["-q"]), (String::new(), 1));
    assert_eq!(with(&["--quiet", "--default-role", "role:readonly"]), (String::new(), 0));
    let map = "kind: ConfigMap\ndata:\n  policy.default: role:readonly\n  policy.matchMode: regex\n  \
               policy.csv: |\n    p, kim, ^logs$, get, shop/, allow\n";
    assert_eq!(can(map, &asked), yes(), "policy.default counts");
    assert_eq!(can(map, &["kim", "get", "logs", "my-shop/x", "--default-role", "role:none"]), yes());
    assert_eq!(can(map, &["lee", "get", "logs", "my-shop/x", "--default-role", "role:none"]), no());
}

#[test]
fn cli_910_strict_refuses_what_does_not_exist() {
    let (text, code) = can(POLICY, &["devs", "sync", "pods", "x"]);
    assert!(code == 1 && text.contains("'pods' is not a valid resource name"), "{text}");
    let (text, code) = can(POLICY, &["devs", "sync", "repos", "x"]);
    assert!(code == 1 && text.contains("'sync' is not a valid action for repositories"), "{text}");
    for asked in [["devs", "sync", "pods", "x"], ["devs", "sync", "repos", "x"]] {
        assert_eq!(can(POLICY, &[&asked[..], &["--strict=false"]].concat()), no());
    }
}

#[test]
fn cli_910_a_policy_has_exactly_one_source() {
    for command in [&["can", "a", "get", "app"][..], &["validate"]] {
        for flags in [&[][..], &["--policy-file", "FILE", "--namespace", "argocd"]] {
            let (written, code) = rbac(POLICY, &[command, flags].concat());
            assert_eq!((written.stdout.as_str(), code), ("", 1));
            assert!(
                written
                    .stderr
                    .contains("\"msg\":\"please provide exactly one of --policy-file or --namespace\""),
                "{}",
                written.stderr
            );
        }
    }
    let (text, code) = can("p, kim", &["a", "get", "app"]);
    assert!(
        code == 20 && text.contains("Policy is invalid: FILE line 1: `p, kim`: a p line has 6 fields"),
        "{text}"
    );
    let (written, code) = execute(
        "argocd",
        &[],
        &["admin", "settings", "rbac", "can", "a", "get", "app", "--policy-file", "/nowhere/p.csv"],
    );
    assert_eq!(code, 20);
    assert!(written.stderr.contains("open /nowhere/p.csv: no such file or directory"), "{}", written.stderr);
}

#[test]
fn cli_911_validate_says_what_is_wrong_and_where() {
    let validate = |text: &str| rbac(text, &["validate", "--policy-file", "FILE"]);
    let (written, code) = validate(POLICY);
    assert_eq!((written.stdout.as_str(), written.stderr.as_str(), code), ("Policy is valid.\n", "", 0));
    let (written, code) = validate("# fine\n\np, kim, logs\ng, a\n");
    assert_eq!(code, 1);
    assert_eq!(
        written.stdout,
        "Policy is invalid: FILE line 3: `p, kim, logs`: a p line has 6 fields (p, subject, resource, action, object, \
         effect), this one has 3\n"
    );
    let (written, code) = validate("kind: ConfigMap\ndata:\n  policy.x.csv: |\n    oops\n");
    assert_eq!(
        (written.stdout.split('`').next().unwrap(), code),
        ("Policy is invalid: policy.x.csv line 1: ", 1)
    );
    let (written, code) = validate("kind: ConfigMap\ndata:\n  policy.csv: g, a, b\n  scopes: '{}'\n");
    assert!(
        code == 1 && written.stdout.starts_with("Policy is invalid: scopes line 1: scopes: "),
        "{written:?}"
    );
    let (written, code) = validate("g, devs, role:dev\np, x, logs, eat, *, allow");
    assert_eq!((written.stdout.as_str(), code), ("Policy is valid.\n", 0));
    assert_eq!(
        written.stderr,
        "Warning: FILE line 2: unknown action \"eat\"\nWarning: user defined roles not found in policies: role:dev\n"
    );
}

#[test]
fn cli_911_empty_policies_and_operands_are_fatal() {
    for empty in ["", "  \n", "kind: ConfigMap\n", "kind: ConfigMap\ndata:\n  policy.default: role:x\n"] {
        let (written, code) = rbac(empty, &["validate", "--policy-file", "FILE"]);
        assert_eq!((written.stdout.as_str(), code), ("", 1), "{empty:?}");
        assert!(written.stderr.contains("Policy is empty or could not be loaded."), "{}", written.stderr);
    }
    let (written, code) = rbac(POLICY, &["validate", "more", "--policy-file", "FILE"]);
    assert_eq!(code, 1);
    assert!(written.stdout.contains("argocd admin settings rbac validate [flags]"), "{}", written.stdout);
    assert!(written.stderr.contains("\"msg\":\"too many arguments\""), "{}", written.stderr);
}

#[test]
fn cli_3_admin_groups_print_their_help() {
    for (args, code, has) in [
        (&["admin"][..], 0, "settings               Check settings"),
        (&["admin", "settings"], 0, "rbac               Check who may do what"),
        (&["admin", "settings", "resource-overrides"], 0, "list-actions            List its actions"),
        (&["admin", "settings", "rbac"], 0, "validate"),
        (&["admin", "settings", "--help"], 0, "rbac"),
        (&["admin", "nonsense"], 1, "settings"),
        (&["admin", "settings", "rbac", "nonsense"], 1, "validate"),
        (&["admin", "settings", "rbac", "can", "a", "b"], 1, "can ROLE/SUBJECT ACTION RESOURCE"),
        (&["admin", "settings", "rbac", "can", "--help"], 0, "--use-builtin-policy"),
    ] {
        let (written, got) = execute("argocd", &[], args);
        assert_eq!(got, code, "{args:?}");
        assert!(written.stdout.contains(has), "{args:?}: {}", written.stdout);
        assert_eq!(written.stderr, "", "{args:?}");
    }
}

/// Runs `admin settings validate` on a manifest of `argocd-cm`, and of `argocd-secret` where one is given.
fn validate(settings: &str, secret: &str, args: &[&str]) -> (Written, u8) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let paths = [file("cm.yaml", settings), file("secret.yaml", secret)];
    let mut all = vec!["admin", "settings", "validate", "--argocd-cm-path", &paths[0]];
    if !secret.is_empty() {
        all.extend(["--argocd-secret-path", &paths[1]]);
    }
    all.extend(args);
    execute("argocd", &[], &all)
}

#[test]
fn cli_912_settings_that_can_be_read_are_valid() {
    let map = "kind: ConfigMap\nmetadata: {name: argocd-cm}\ndata:\n  accounts.ci: apiKey\n  \
               kustomize.buildOptions: --enable-helm\n  timeout.reconciliation: 60s\n";
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: argocd-secret}\nstringData:\n  accounts.ci.tokens: '[]'\n";
    let (written, code) = validate(map, secret, &["--strict"]);
    assert_eq!(written.stdout, "✅ accounts\n✅ general\n✅ kustomize\n✅ resource-overrides\n");
    assert_eq!(code, 0);
    let (written, code) = validate("data: {}\n", "", &["--group", "general", "--group=accounts"]);
    assert_eq!((written.stdout.as_str(), code), ("✅ general\n✅ accounts\n", 0));
}

#[test]
fn cli_912_each_group_says_what_is_wrong_with_it() {
    let map = "kind: ConfigMap\nmetadata: {name: argocd-cm}\ndata:\n  accounts.ci: apiKey, fly\n  \
               kustomize.buildOptions: --no-such-flag\n  timeout.reconciliation: soon\n  \
               application.resourceTrackingMethod: bogus\n  resource.exclusions: '{'\n  \
               resource.customizations: '- ['\n  url.typo: x\n";
    let (written, code) = validate(map, "", &[]);
    assert_eq!(code, 0, "only --strict makes it a failure");
    let lines: Vec<&str> = written.stdout.lines().collect();
    let at = |group: &str| lines.iter().position(|line| *line == format!("❌ {group}")).expect(group);
    let [accounts, general, kustomize, overrides] =
        ["accounts", "general", "kustomize", "resource-overrides"].map(at);
    let between = |from: usize, to: usize| lines[from + 1..to].join("\n");
    assert!(between(accounts, general).contains("fly"));
    for word in ["timeout.reconciliation", "bogus", "resource.exclusions"] {
        assert!(between(general, kustomize).contains(word), "{word}: {written:?}");
    }
    assert_eq!(between(kustomize, overrides), "kustomize.buildOptions: unknown flag: --no-such-flag");
    assert!(between(overrides, lines.len()).contains("resource.customizations"), "{written:?}");
    assert!(written.stderr.contains("no effect of url.typo"), "{}", written.stderr);
    assert_eq!(validate(map, "", &["--strict"]).1, 1);
    assert_eq!(validate(map, "", &["--strict", "--group", "kustomize"]).1, 1);
    let tokens = "apiVersion: v1\nkind: Secret\nmetadata: {name: argocd-secret}\nstringData:\n  admin.tokens: s3cret\n";
    let (written, _) = validate("data: {}\n", tokens, &["--group", "accounts"]);
    assert_eq!(written.stdout, "❌ accounts\nargocd-secret: admin.tokens is not a list of tokens\n");
}

#[test]
fn cli_912_what_is_not_there_is_refused() {
    let told = |args: &[&str]| {
        let (written, code) = execute("argocd", &[], args);
        (written.stderr, code)
    };
    let (text, code) = told(&["admin", "settings", "validate"]);
    assert!(code == 1 && text.contains("--argocd-cm-path, or --load-cluster-settings"), "{text}");
    let (written, code) = validate("data: {}\n", "", &["--group", "colours"]);
    assert!(code == 1 && written.stderr.contains("--group: there is no group"), "{written:?}");
    let (written, code) =
        validate("kind: ConfigMap\nmetadata: {name: other}\n---\nkind: ConfigMap\n", "", &[]);
    assert!(
        code == 2 && written.stderr.contains("there is no ConfigMap argocd-cm in this file"),
        "{written:?}"
    );
    let (written, code) = validate("data: {}\n", "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n", &[]);
    assert!(code == 2 && written.stderr.contains("there is no Secret argocd-secret"), "{written:?}");
    let (written, code) = validate("data: {a: 1}\n", "", &[]);
    assert!(code == 20 && written.stderr.contains("data.a of the ConfigMap is no text"), "{written:?}");
}

/// Runs `admin settings resource-overrides` on an object.
fn overrides(settings: &str, object: &str, args: &[&str]) -> (Written, u8) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (settings, object) = (file("cm.yaml", settings), file("object.yaml", object));
    let mut all = vec!["admin", "settings", "resource-overrides"];
    all.extend(args.iter().map(|arg| if *arg == "FILE" { &object } else { *arg }));
    all.extend(["--argocd-cm-path", &settings]);
    let path = std::env::var_os("PATH").unwrap().into_string().unwrap();
    execute("argocd", &[("PATH", &path), ("KUBECTL_EXTERNAL_DIFF", "diff -u0")], &all)
}

#[test]
fn cli_913_what_customisations_make_of_an_object() {
    let map = "kind: ConfigMap\nmetadata: {name: argocd-cm}\ndata:\n  \
               resource.customizations.health.acme.test_Thing: 'return {status = \"Healthy\", message = obj.spec.word}'\n  \
               resource.customizations.ignoreDifferences.acme.test_Thing: 'jsonPointers: [/spec/word]'\n  \
               resource.customizations.ignoreResourceUpdates.acme.test_Thing: 'jsonPointers: [/spec/beat]'\n";
    let thing = "apiVersion: acme.test/v1\nkind: Thing\nmetadata: {name: t}\nspec: {word: hello, beat: 1}\n";
    let said = |object: &str, args: &[&str]| {
        let (written, code) = overrides(map, object, args);
        assert_eq!((code, written.stderr.as_str()), (0, ""), "{args:?}: {written:?}");
        written.stdout
    };
    assert_eq!(said(thing, &["health", "FILE"]), "STATUS: Healthy\nMESSAGE: hello\n");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n";
    assert_eq!(said(pod, &["health", "FILE"]), "Health script is not configured for '/Pod'\n");
    let ignored = said(thing, &["ignore-differences", "FILE"]);
    assert!(ignored.contains("-  word: hello\n") && !ignored.contains("-  beat"), "{ignored}");
    let ignored = said(thing, &["ignore-resource-updates", "FILE"]);
    assert!(ignored.contains("-  beat: 1\n"), "{ignored}");
    let none = said(pod, &["ignore-differences", "FILE"]);
    assert!(none.starts_with("No fields are ignored by ignoreDifferences settings: \n"), "{none}");

    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: n}\nspec: {replicas: 1, template: {}}\n";
    for list in ["list-actions", "action"] {
        let actions = said(deployment, &[list, "FILE"]);
        assert!(actions.starts_with("NAME ") && actions.contains("\nrestart  false\n"), "{actions}");
    }
    let scaled = said(deployment, &["run-action", "FILE", "scale", "--param", "replicas=3"]);
    assert!(scaled.contains("-  replicas: 1\n+  replicas: 3\n"), "{scaled}");
    let job = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c, namespace: n, uid: u}\nspec: {jobTemplate: {spec: {template: {}}}}\n";
    let made = said(job, &["run-action", "FILE", "create-job"]);
    assert!(made.starts_with("Following resource was created:\n") && made.contains("kind: Job\n"), "{made}");
    let (written, code) = overrides(map, deployment, &["run-action", "FILE", "fly"]);
    assert!(code == 20 && written.stderr.contains("fly"), "{written:?}");
    let (written, code) = overrides(map, "a: b\n---\nc: d\n", &["health", "FILE"]);
    assert!(code == 2 && written.stderr.contains("2 objects, where one is expected"), "{written:?}");
}
