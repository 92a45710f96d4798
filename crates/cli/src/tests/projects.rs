//! `proj` against an API server (CLI-700 to CLI-730).

use serde_json::{Value, json};

use super::embedded::{Embedded, NAMESPACE};

fn spec(bed: &Embedded, name: &str) -> Value {
    let api = ("argoproj.io", "v1alpha1");
    bed.object(api, "AppProject", NAMESPACE, name).map(|mut object| object["spec"].take()).unwrap_or_default()
}

#[test]
fn cli_700_a_project_from_creation_to_deletion() {
    let bed = Embedded::start();
    let create = ["proj", "create", "shop", "-s", "https://h/*", "-d", "*,web", "--description", "Shop"];
    assert_eq!(bed.succeeds(&create), "");
    assert_eq!(bed.succeeds(&create), "", "REP-207");
    let other = ["proj", "create", "shop", "-s", "https://h/*"];
    let (message, code) = bed.fails(&other);
    assert_eq!(
        (message.as_str(), code),
        (
            "rpc error: code = InvalidArgument desc = existing project spec is different; use upsert flag to force \
             update; difference in keys \"description,destinations\"",
            20
        )
    );
    bed.succeeds(&["proj", "create", "shop", "-s", "https://h/*", "--upsert"]);
    assert_eq!(spec(&bed, "shop"), json!({"sourceRepos": ["https://h/*"]}));
    bed.succeeds(&["proj", "set", "shop", "--description", "d"]);
    assert_eq!(spec(&bed, "shop")["description"], "d");
    let (stdout, _, code) = bed.run(&["proj", "set", "shop"]);
    assert!(stdout.contains("argocd proj set PROJECT") && code == 1, "CLI-420");

    assert_eq!(bed.succeeds(&["proj", "list", "-o", "name"]), "default\nshop\n");
    let text = bed.succeeds(&["project", "get", "shop"]);
    assert!(
        text.starts_with("Name:                        shop\nDescription:                 d\n"),
        "{text}"
    );
    assert!(
        text.contains("\nDestinations:                <none>\nRepositories:                https://h/*\n"),
        "{text}"
    );
    assert!(text.ends_with("\nOrphaned Resources:          disabled\n"), "{text}");
    let shown: Value = serde_json::from_str(&bed.succeeds(&["proj", "get", "shop", "-o", "json"])).unwrap();
    assert_eq!((shown["metadata"]["name"].as_str(), shown.get("kind")), (Some("shop"), None), "API-P6");
    assert!(bed.succeeds(&["proj", "list"]).contains("\nshop     d            <none>"));

    let (message, _) = bed.fails(&["proj", "delete", "default"]);
    assert!(message.ends_with("desc = name 'default' is reserved and cannot be deleted"), "{message}");
    assert_eq!(bed.succeeds(&["proj", "delete", "shop"]), "");
    let (message, code) = bed.fails(&["proj", "get", "shop"]);
    assert_eq!(
        (message.as_str(), code),
        ("rpc error: code = NotFound desc = appprojects.argoproj.io \"shop\" not found", 20)
    );
}

#[test]
fn cli_703_lists_are_edited_one_by_one() {
    let bed = Embedded::start();
    bed.succeeds(&["proj", "create", "p"]);
    assert_eq!(bed.succeeds(&["proj", "add-source", "p", "https://h/a"]), "");
    assert_eq!(
        bed.succeeds(&["proj", "add-source", "p", "https://h/a.git"]),
        "Source repository 'https://h/a' already allowed in project\n"
    );
    bed.succeeds(&["proj", "add-destination", "p", "in-cluster", "web", "--name"]);
    let (message, code) = bed.fails(&["proj", "add-destination", "p", "in-cluster", "web", "--name"]);
    assert_eq!((message.as_str(), code), ("Specified destination is already defined in project", 1));
    let (stdout, warning, code) = bed.run(&["proj", "allow-cluster-resource", "p", "", "Namespace"]);
    assert_eq!(
        (stdout.as_str(), warning.as_str(), code),
        ("", "Group '', kind 'Namespace', and name '' is added to allowed cluster resources\n", 0)
    );
    bed.succeeds(&["proj", "add-orphaned-ignore", "p", "", "Secret", "--name", "x"]);
    bed.succeeds(&["proj", "add-destination-service-account", "p", "*", "web", "sa"]);
    assert_eq!(
        spec(&bed, "p"),
        json!({
            "sourceRepos": ["https://h/a"],
            "destinations": [{"name": "in-cluster", "namespace": "web"}],
            "clusterResourceWhitelist": [{"group": "", "kind": "Namespace"}],
            "orphanedResources": {"ignore": [{"kind": "Secret", "name": "x"}]},
            "destinationServiceAccounts": [{"server": "*", "namespace": "web", "defaultServiceAccount": "sa"}],
        })
    );
    let (message, code) = bed.fails(&["proj", "add-source", "none", "https://h/a"]);
    assert!(message.contains("code = NotFound") && code == 20, "{message}");
    let (message, _) = bed.fails(&["proj", "add-source", "p", "!*"]);
    assert!(
        message.ends_with("InvalidArgument desc = source repository has an invalid format, '!*'"),
        "{message}"
    );
    let (message, _) = bed.fails(&["proj", "add-source", "p", "a\nb"]);
    assert!(
        message.ends_with("a source repository has a line break or another control character, remove it")
    );
}

/// REP-208, REP-209: an application that deploys is not cut off, and keeps its project.
#[test]
fn rep_208_209_applications_hold_on_to_their_project() {
    let bed = Embedded::start();
    bed.succeeds(&["proj", "create", "p", "-s", "*", "-d", "*,*"]);
    bed.put(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "a", "namespace": NAMESPACE}, "spec": {"project": "p",
        "source": {"repoURL": "https://h/a", "path": "."},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"}}}));
    let (message, code) = bed.fails(&["proj", "remove-source", "p", "*"]);
    assert_eq!(
        (message.as_str(), code),
        (
            "rpc error: code = InvalidArgument desc = as a result of project update 1 applications source became \
             invalid",
            20
        )
    );
    let (message, _) = bed.fails(&["proj", "delete", "p"]);
    assert!(message.ends_with("desc = project is referenced by 1 applications"), "{message}");
    // A repository of the project permits its own URL (REP-122).
    bed.put_secret("r", "repository", &json!({"url": "https://h/a", "project": "p"}));
    bed.succeeds(&["proj", "remove-source", "p", "*"]);
    assert!(bed.succeeds(&["proj", "get", "p"]).contains("\nScoped Repositories:         https://h/a\n"));
}

#[test]
fn cli_710_roles() {
    let bed = Embedded::start();
    bed.succeeds(&["proj", "create", "p"]);
    let role = |args: &[&str]| bed.succeeds(&[&["proj", "role"], args].concat());
    assert_eq!(role(&["create", "p", "ci", "--description", "d"]), "Role 'ci' created\n");
    assert_eq!(role(&["create", "p", "ci"]), "Role 'ci' already exists\n");
    assert_eq!(role(&["add-policy", "p", "ci", "-a", "sync", "-o", "*"]), "");
    assert_eq!(role(&["add-group", "p", "ci", "team"]), "Group 'team' added to role 'ci'\n");
    assert_eq!(role(&["add-group", "p", "ci", "team"]), "Group 'team' already present in role 'ci'\n");
    assert_eq!(
        spec(&bed, "p")["roles"],
        json!([{"name": "ci", "description": "d", "groups": ["team"],
            "policies": ["p, proj:p:ci, applications, sync, p/*, allow"]}])
    );
    assert_eq!(role(&["list", "p"]), "ROLE-NAME  DESCRIPTION\nci         d\n");
    assert_eq!(role(&["list", "p", "-o", "name"]), "ci\n");
    assert!(role(&["get", "p", "ci"]).starts_with("Role Name:     ci\nDescription:   d\nPolicies:\n"));
    assert_eq!(role(&["list-tokens", "p", "ci"]), "No tokens for p.ci\n");
    assert_eq!(role(&["delete-token", "p", "ci", "5"]), "", "REP-165");
    let (message, code) = bed.fails(&["proj", "role", "add-policy", "p", "ci", "-a", "x", "-o", "*"]);
    assert!(message.contains("invalid action 'x'") && code == 20, "{message}");
    let (message, code) = bed.fails(&["proj", "role", "remove-policy", "p", "ci", "-a", "get", "-o", "*"]);
    assert!(message.contains("does not exist in role 'ci'") && code == 20, "{message}");
    let (message, code) = bed.fails(&["proj", "role", "get", "p", "x"]);
    assert_eq!((message.as_str(), code), ("role 'x' does not exist in project 'p'", 20));
    let (stdout, _, code) = bed.run(&["proj", "role", "add-policy", "p", "ci"]);
    assert_eq!(
        (stdout.as_str(), code),
        ("Error: required flag(s) \"action\", \"object\" not set\n", 1),
        "CLI-5"
    );
    assert_eq!(role(&["remove-group", "p", "ci", "team"]), "Group 'team' removed from role 'ci'\n");
    assert_eq!(role(&["delete", "p", "ci"]), "Role 'ci' deleted\n");
    assert_eq!(role(&["delete", "p", "ci"]), "Role 'ci' does not exist in project\n");
}

#[test]
fn rep_165_a_token_is_deleted_from_spec_and_status() {
    let bed = Embedded::start();
    let tokens = json!([{"iat": 10, "id": "a"}, {"iat": 5, "id": "b", "exp": 9}]);
    bed.put(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": "p", "namespace": NAMESPACE},
        "spec": {"roles": [{"name": "ci", "jwtTokens": tokens}]},
        "status": {"jwtTokensByRole": {"ci": {"items": tokens}}}}));
    assert_eq!(
        bed.succeeds(&["proj", "role", "list-tokens", "p", "ci", "-u"]),
        "ID  ISSUED AT  EXPIRES AT\na   10         0\nb   5          9\n"
    );
    bed.succeeds(&["proj", "role", "delete-token", "p", "ci", "10"]);
    let object = bed.object(("argoproj.io", "v1alpha1"), "AppProject", NAMESPACE, "p").unwrap();
    let left = json!([{"iat": 5, "id": "b", "exp": 9}]);
    assert_eq!(object["spec"]["roles"][0]["jwtTokens"], left);
    assert_eq!(object["status"]["jwtTokensByRole"], json!({"ci": {"items": left}}));
}

#[test]
fn cli_712_a_token_is_issued_with_the_key_of_the_server() {
    let bed = Embedded::start();
    bed.succeeds(&["proj", "create", "p"]);
    bed.succeeds(&["proj", "role", "create", "p", "ci"]);
    let create = ["proj", "role", "create-token", "p", "ci", "-i", "one", "-e", "1h"];
    let (message, code) = bed.fails(&create);
    assert_eq!(
        (message.as_str(), code),
        ("rpc error: code = FailedPrecondition desc = server.secretkey is missing", 20)
    );
    bed.put(&json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"server.secretkey": "k3y"},
        "metadata": {"name": "argocd-secret", "namespace": NAMESPACE}}));
    let text = bed.succeeds(&create);
    assert!(
        text.starts_with(
            "Create token succeeded for proj:p:ci.\n  ID: one\n  Issued At: 2026-08-01T10:00:00Z\n  Expires At: \
             2026-08-01T11:00:00Z\n  Token: eyJ"
        ),
        "{text}"
    );
    let (message, _) = bed.fails(&create);
    assert!(message.ends_with("InvalidArgument desc = Token id 'one' has been used. "), "{message}");
    let token = bed.succeeds(&["proj", "role", "token-create", "p", "ci", "-t"]);
    assert_eq!(token.trim_end().split('.').count(), 3, "{token}");
    let object = bed.object(("argoproj.io", "v1alpha1"), "AppProject", NAMESPACE, "p").unwrap();
    let noted = &object["spec"]["roles"][0]["jwtTokens"];
    assert_eq!(noted.as_array().unwrap().len(), 2, "{noted}");
    assert_eq!(object["status"]["jwtTokensByRole"]["ci"]["items"], *noted);
    assert!(!object.to_string().contains("k3y"));
}

#[test]
fn cli_720_windows() {
    let bed = Embedded::start();
    bed.succeeds(&["proj", "create", "p"]);
    let add = ["proj", "windows", "add", "p", "-k", "deny", "--schedule", "0 6 * * *", "--duration", "6h"];
    let (message, _) = bed.fails(&add);
    assert!(
        message.contains("OutOfRange desc = window 'deny':'0 6 * * *':'6h' requires one of"),
        "{message}"
    );
    let mut whole = add.to_vec();
    whole.extend(["--applications", "*"]);
    assert_eq!(bed.succeeds(&whole), "");
    let (message, _) = bed.fails(&whole);
    assert!(message.contains("AlreadyExists desc = sync window with kind 'deny'"), "{message}");
    bed.succeeds(&["proj", "windows", "enable-manual-sync", "p", "0"]);
    let text = bed.succeeds(&["proj", "windows", "list", "p"]);
    assert!(
        text.contains("\n0   Active  deny  0 6 * * *  6h        *             -           -         Enabled"),
        "{text}"
    );
    assert_eq!(
        bed.fails(&["proj", "windows", "delete", "p", "7"]),
        ("window with id '7' not found".to_owned(), 20)
    );
    bed.succeeds(&["proj", "windows", "delete", "p", "0"]);
    assert_eq!(bed.succeeds(&["proj", "windows", "list", "p", "-o", "json"]), "[]\n");
}

#[test]
fn cli_730_source_integrity() {
    let bed = Embedded::start();
    bed.succeeds(&["proj", "create", "p"]);
    let of = ["proj", "source-integrity", "git", "policies"];
    let (stdout, _, code) = bed.run(&[&of[..], &["list", "p"]].concat());
    assert_eq!(
        (stdout.as_str(), code),
        ("Error: no source integrity git policies defined for project \"p\"\n", 1)
    );
    let add = ["add", "p", "--gpg-mode", "head", "--gpg-key", "0123456789ABCDEF", "--repo-url", "*"];
    bed.succeeds(&[&of[..], &add].concat());
    assert_eq!(
        bed.succeeds(&[&of[..], &["list", "p"]].concat()),
        "ID  GPG-MODE  GPG-KEYS          REPO-URLS\n0   head      0123456789ABCDEF  *\n"
    );
    let (stdout, _, code) = bed.run(&[&of[..], &["update", "p", "3"]].concat());
    assert_eq!((stdout.as_str(), code), ("Error: the POLICY_ID 3 is out of range (0-0)\n", 1));
    assert_eq!(bed.run(&["proj", "source-integrity"]).2, 1);
    assert_eq!(bed.run(&["proj", "role"]).2, 1);
}

/// CLI-422, CLI-700: the text goes to the editor that is named, word by word and without a shell; what is not valid
/// comes back with the error; an empty text, and one that is not changed, save nothing.
#[test]
fn cli_700_a_project_is_changed_in_an_editor() {
    let bed = Embedded::start();
    bed.succeeds(&["proj", "create", "shop", "-s", "https://h/*", "--description", "d"]);
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("my editor.sh");
    let seen = folder.path().join("seen");
    let edit = |commands: &str| {
        std::fs::write(&script, format!("file=$2\ncat \"$file\" >> '{}'\n{commands}", seen.display()))
            .unwrap();
        let editor = format!("/bin/sh '{}' --wait", script.display());
        bed.run_with(&[("EDITOR", editor.as_str())], &["proj", "edit", "shop"])
    };
    // The file is the last word.
    let (stdout, message, code) =
        edit("sed 's/^description: d$/description: e/' \"$file\" > x && cat x > \"$file\"; rm x");
    assert_eq!((stdout.as_str(), message.as_str(), code), ("", "", 0));
    assert_eq!(spec(&bed, "shop"), json!({"sourceRepos": ["https://h/*"], "description": "e"}));
    let text = std::fs::read_to_string(&seen).unwrap();
    assert!(text.starts_with("# Please edit") && text.contains("\ndescription: d\n"), "{text}");

    let cancelled = ("edit cancelled, no valid changes were saved", 20);
    for commands in ["true", ": > \"$file\"", "echo '# only a comment' > \"$file\""] {
        let (_, message, code) = edit(commands);
        assert_eq!((message.as_str(), code), cancelled, "{commands}");
    }
    // A text that is refused is shown again, and left alone then.
    for (wrong, error) in [
        ("'sourceRepos: ['", "# error: "),
        ("'sourceRepos: {}'", "# error: "),
        (
            "'destinations: [{server: \"!*\", namespace: a}]'",
            "# error: rpc error: code = InvalidArgument desc = ",
        ),
    ] {
        std::fs::remove_file(&seen).unwrap();
        let (_, message, code) = edit(&format!("grep -q '^# error' \"$file\" || echo {wrong} > \"$file\""));
        assert_eq!((message.as_str(), code), cancelled, "{wrong}");
        let text = std::fs::read_to_string(&seen).unwrap();
        assert!(text.contains(error), "{wrong}: {text}");
    }
    assert_eq!(spec(&bed, "shop")["description"], "e");

    let (_, message, code) = edit("exit 3");
    assert_eq!((message.as_str(), code), ("/bin/sh failed; nothing was saved", 20));
    for (editor, expected) in [("/no/such/editor", "/no/such/editor: "), ("'vi", "EDITOR: EOF found")] {
        let (_, message, code) = bed.run_with(&[("EDITOR", editor)], &["proj", "edit", "shop"]);
        assert!(message.contains(expected) && code == 20, "{editor}: {message}");
    }
    let (message, _) = bed.fails(&["proj", "edit", "missing"]);
    assert!(message.contains("not found"), "{message}");
}

/// INV-4, F11: what somebody else changes while the editor is open is not undone.
#[test]
fn cli_700_a_change_of_somebody_else_survives_an_edit() {
    let bed = Embedded::start();
    bed.succeeds(&["proj", "create", "shop", "--description", "d"]);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (script, opened, go) = (path("editor"), path("opened"), path("go"));
    let commands = format!("echo > '{opened}'\nread line < '{go}'\necho 'description: mine' > \"$1\"");
    std::fs::write(&script, commands).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test prepares its files as a person does")]
    let made = std::process::Command::new("mkfifo").args([&opened, &go]).status().unwrap();
    assert!(made.success());
    let editor = format!("/bin/sh {script}");
    let (_, message, code) = std::thread::scope(|scope| {
        let edit = scope.spawn(|| bed.run_with(&[("EDITOR", editor.as_str())], &["proj", "edit", "shop"]));
        // Blocks until the editor is open.
        assert_eq!(std::fs::read_to_string(&opened).unwrap(), "\n");
        bed.succeeds(&["proj", "set", "shop", "--description", "theirs"]);
        std::fs::write(&go, "\n").unwrap();
        edit.join().unwrap()
    });
    assert!(message.contains("changed by somebody else meanwhile; nothing was saved"), "{message}");
    assert_eq!((spec(&bed, "shop")["description"].as_str(), code), (Some("theirs"), 20));
}
