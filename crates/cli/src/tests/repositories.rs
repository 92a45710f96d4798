//! `repo` and `repocreds` against an API server (CLI-800 to CLI-805).

use serde_json::{Value, json};

use super::embedded::{Embedded, NAMESPACE};
use super::web::serve;

const HEADER: &str = "TYPE  NAME  REPO";

#[test]
fn cli_800_a_repository_from_creation_to_removal() {
    let bed = Embedded::start();
    let url = bed.repository("app");
    let added = format!("Repository '{url}' added\n");
    assert_eq!(bed.succeeds(&["repo", "add", &url, "--project", "shop"]), added);
    assert_eq!(bed.succeeds(&["repo", "add", &url, "--project", "shop"]), added, "REP-47");
    let (message, code) = bed.fails(&["repo", "add", &url, "--project", "shop", "--depth", "5"]);
    assert_eq!(
        (message.as_str(), code),
        (
            "rpc error: code = InvalidArgument desc = existing repository spec is different; use upsert flag to \
             force update; difference in keys \"depth\"",
            20
        )
    );
    assert_eq!(bed.succeeds(&["repo", "add", &url, "--project", "shop", "--depth", "5", "--upsert"]), added);
    assert_eq!(bed.succeeds(&["repo", "add", &url]), added, "another repository, of no project");

    let row = |project: &str| {
        let line =
            format!("git         {url}  false     false  false  false  Successful           {project}\n");
        line
    };
    let text = bed.succeeds(&["repo", "list"]);
    assert!(text.ends_with(&format!("{}{}", row(""), row("shop"))), "{text}");
    assert_eq!(bed.succeeds(&["repo", "list", "-o", "url"]), format!("{url}\n{url}\n"));
    let shown: Value =
        serde_json::from_str(&bed.succeeds(&["repo", "get", &url, "--project", "shop", "-o", "json"]))
            .unwrap();
    assert_eq!(
        shown,
        json!({"repo": url, "type": "git", "project": "shop", "depth": 5, "connectionState":
            {"status": "Successful", "message": "", "attemptedAt": "2026-08-01T10:00:00Z"}})
    );

    let removed = format!("Repository '{url}' removed\n");
    assert_eq!(bed.succeeds(&["repo", "rm", &url, "--project", ""]), removed, "CLI-803");
    let (message, _) = bed.fails(&["repo", "rm", &url, "--project", ""]);
    assert!(message.contains("InvalidArgument desc = repository not found for url"), "{message}");
    assert_eq!(bed.succeeds(&["repo", "rm", &url]), removed, "the only one there is");
    let (message, code) = bed.fails(&["repo", "rm", &url]);
    assert_eq!((message.as_str(), code), ("rpc error: code = PermissionDenied desc = permission denied", 20));
    assert_eq!(bed.succeeds(&["repo", "list", "-o", "json"]), "[]\n");
}

#[test]
fn rep_43_44_an_ambiguous_url_names_the_projects() {
    let bed = Embedded::start();
    for project in ["a", "b"] {
        let data = json!({"url": "https://u:hunter2@git.example.com/r", "project": project});
        bed.put_secret(project, "repository", &data);
    }
    let url = "https://u:hunter2@git.example.com/r";
    for command in ["get", "rm"] {
        let (message, code) = bed.fails(&["repo", command, url]);
        assert_eq!(
            (message.as_str(), code),
            (
                "rpc error: code = InvalidArgument desc = repository not found for url \
                 \"https://git.example.com/r\" and project \"\"; matching projects: a, b (set appProject)",
                20
            )
        );
    }
    let out = bed.succeeds(&["repo", "rm", url, "--project", "a"]);
    assert_eq!(out, "Repository 'https://u:***@git.example.com/r' removed\n");
    // Made by hand: it stays, and says no more that it is a repository (REP-3).
    let kept = bed.object(("", "v1"), "Secret", NAMESPACE, "a").unwrap();
    assert!(kept["metadata"]["labels"].get("argocd.argoproj.io/secret-type").is_none(), "{kept}");
    assert!(bed.secret("b").is_some());
}

#[test]
fn rep_1_5_secrets_are_written_as_others_write_them() {
    let bed = Embedded::start();
    let add =
        ["repocreds", "add", "https://git.example.com/org", "--username", "me", "--password", "hunter2"];
    let added = "Repository credentials for 'https://git.example.com/org' added\n";
    assert_eq!(bed.succeeds(&add), added);
    let name = tiphys_api::repository::secret_name(
        tiphys_api::repository::SecretKind::Template,
        "https://git.example.com/org",
        "",
    );
    assert_eq!(
        bed.secret(&name).unwrap(),
        json!({"url": "https://git.example.com/org", "type": "git", "username": "me", "password": "hunter2"})
    );
    let object = bed.object(("", "v1"), "Secret", NAMESPACE, &name).unwrap();
    assert_eq!(object["metadata"]["annotations"]["managed-by"], "argocd.argoproj.io");
    assert_eq!(object["metadata"]["labels"]["argocd.argoproj.io/secret-type"], "repo-creds");

    assert_eq!(bed.succeeds(&add), added);
    let mut other = add.to_vec();
    other[6] = "changed-secret";
    let (message, _) = bed.fails(&other);
    assert!(
        message.ends_with("use upsert flag to force update; difference in keys \"password\""),
        "{message}"
    );
    other.push("--upsert");
    assert_eq!(bed.succeeds(&other), added);
    assert_eq!(bed.secret(&name).unwrap()["password"], "changed-secret");
    assert_eq!(
        bed.succeeds(&["repocreds", "list"]),
        "URL PATTERN                  USERNAME  SSH_CREDS  TLS_CREDS\n\
         https://git.example.com/org  me        false      false\n"
    );
    for format in ["json", "yaml", "url", "wide"] {
        let text = bed.succeeds(&["repocreds", "list", "-o", format]);
        assert!(text.contains("git.example.com/org") && !text.contains("secret"), "{text}");
    }
    let (message, _) = bed.fails(&["repocreds", "rm", "https://git.example.com/org/app"]);
    assert_eq!(
        message,
        "rpc error: code = NotFound desc = repository credentials 'https://git.example.com/org/app' not found"
    );
    assert_eq!(
        bed.succeeds(&["repocreds", "rm", "https://git.example.com/org"]),
        "Repository credentials for 'https://git.example.com/org' removed\n"
    );
    assert!(bed.secret(&name).is_none());
}

#[test]
fn rep_22_a_repository_of_a_project_shows_whose_credentials_it_uses() {
    let bed = Embedded::start();
    bed.put_secret("t", "repo-creds", &json!({"url": "https://127.0.0.1:9", "type": "git", "password": "p"}));
    bed.put_secret(
        "own",
        "repository",
        &json!({"url": "https://127.0.0.1:9/own", "type": "git", "password": "q"}),
    );
    bed.put_secret("scoped", "repository", &json!({"url": "https://127.0.0.1:9/scoped", "project": "shop"}));
    bed.put_secret("none", "repository", &json!({"url": "/nowhere/none"}));
    // Shared credentials serve a project as far as its own rules go (A3).
    let table = bed.run(&["repo", "list"]).0;
    assert!(!table.contains("inherited"), "{table}");
    bed.succeeds(&["proj", "create", "shop", "--src", "https://127.0.0.1:9/*"]);
    let list = bed.succeeds(&["repo", "list", "-o", "json"]);
    assert!(list.contains("\"inheritedCreds\": true"), "{list}");
    let table = bed.run(&["repo", "list"]).0;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let credentials: Vec<_> = table.lines().skip(1).map(|line| words(line)[5].clone()).collect();
    assert_eq!(credentials, ["false", "true", "inherited"], "{table}");
    assert!(table.contains("Failed  Unable to connect to repository: "), "{table}");
}

#[test]
fn rep_78_a_repository_that_does_not_answer_is_not_stored() {
    let bed = Embedded::start();
    bed.repository("other");
    let missing = bed.directory.path().join("repositories/missing");
    let (message, code) = bed.fails(&["repo", "add", missing.to_str().unwrap()]);
    assert!(message.contains("desc = error testing repository connectivity: "), "{message}");
    assert_eq!(code, 20);
    let (message, _) = bed.fails(&["repo", "add", "https://git.example.com/r", "--type", "svn"]);
    assert!(message.ends_with("unsupported repository type \"svn\""), "{message}");
    assert_eq!(bed.succeeds(&["repo", "list", "-o", "url"]), "");
}

/// REP-49, REP-54, REP-78, REP-79: charts and artifacts are asked for by their type before anything is stored, with the
/// credentials of a template if need be, and the list says what the same question finds out.
#[test]
fn rep_78_each_type_is_asked_in_its_way() {
    let bed = Embedded::start();
    let host = serve(|request| {
        let is_known = request.contains("Basic YWRhOnB3");
        let path = request.split_whitespace().nth(1).unwrap_or_default();
        let challenge = "WWW-Authenticate: Basic realm=\"x\"\r\n";
        match path {
            "/charts/index.yaml" if is_known => (200, "", "apiVersion: v1\nentries: {}\n".to_owned()),
            "/v2/" if is_known => (200, "", "{}".to_owned()),
            "/v2/app/tags/list?n=1000" if is_known => {
                (200, "", "{\"name\": \"app\", \"tags\": []}".to_owned())
            }
            _ => (401, challenge, "canary".to_owned()),
        }
    });
    let (charts, registry, artifacts) =
        (format!("http://{host}/charts"), format!("{host}/org"), format!("oci://{host}/app"));
    let plain = "--insecure-oci-force-http";
    let cases: [(&str, &[&str]); 3] = [
        (&charts, &["--type", "helm", "--name", "c"]),
        (&registry, &["--type", "helm", "--name", "d", "--enable-oci", plain]),
        (&artifacts, &["--type", "oci", "--project", "shop", plain]),
    ];
    for (url, flags) in cases {
        let wrong = [&["repo", "add", url, "--username", "ada", "--password", "hunter2"], flags].concat();
        let (message, code) = bed.fails(&wrong);
        assert!(
            message.starts_with(
                "rpc error: code = FailedPrecondition desc = error testing repository connectivity: "
            ) && message.contains("access denied")
                && !message.contains("canary")
                && !message.contains("hunter2"),
            "{message}"
        );
        assert_eq!(code, 20);
        assert_eq!(
            bed.succeeds(&["repo", "list", "-o", "url"]).lines().filter(|line| line == &url).count(),
            0
        );
        let right = [&["repo", "add", url, "--username", "ada", "--password", "pw"], flags].concat();
        assert_eq!(bed.succeeds(&right), format!("Repository '{url}' added\n"));
    }
    let scheme = format!("http://{host}");
    let (message, _) = bed.fails(&["repo", "add", &scheme, "--type", "helm", "--name", "e", "--enable-oci"]);
    assert!(message.ends_with("OCI Helm repository URL should include hostname and port only"), "{message}");
    // One that somebody else wrote, with credentials that are not right.
    let secret = json!({"url": charts, "type": "helm", "name": "c", "project": "z", "username": "ada", "password": "x"});
    bed.put_secret("other", "repository", &secret);
    let table = bed.succeeds(&["repo", "list"]);
    let states: Vec<(&str, bool)> = table
        .lines()
        .skip(1)
        .map(|line| (line.split_whitespace().next().unwrap(), line.contains("  Successful  ")))
        .collect();
    assert_eq!(states, [("helm", true), ("helm", true), ("oci", true), ("helm", false)], "{table}");
    let failed = table.lines().last().unwrap();
    assert!(
        failed.contains("  Failed  ")
            && failed.contains("  Unable to connect to repository: ")
            && !failed.contains("canary"),
        "{failed}"
    );
    let shown: Value =
        serde_json::from_str(&bed.succeeds(&["repo", "get", &artifacts, "-o", "json"])).unwrap();
    assert_eq!(shown["connectionState"]["status"], "Successful", "{shown}");
    // Without credentials of its own it is asked with those of a template (REP-49).
    let bare = ["repo", "add", &charts, "--type", "helm", "--name", "c", "--project", "with-template"];
    assert!(bed.fails(&bare).0.contains("access denied"));
    let template =
        json!({"url": format!("http://{host}"), "type": "helm", "username": "ada", "password": "pw"});
    bed.put_secret("template", "repo-creds", &template);
    assert!(bed.fails(&bare).0.contains("access denied"), "the project does not permit the URL");
    bed.succeeds(&["proj", "create", "with-template", "--src", &format!("http://{host}/*")]);
    assert_eq!(bed.succeeds(&bare), format!("Repository '{charts}' added\n"));
}

/// Hostile input: a Secret that cannot be read hides nobody else, and its text stays inside.
#[test]
fn rep_6_79_a_bad_secret_is_listed_with_its_problem() {
    let bed = Embedded::start();
    let url = bed.repository("good");
    bed.put_secret("good", "repository", &json!({"url": url, "type": "git"}));
    bed.put_secret(
        "bad",
        "repository",
        &json!({"url": "https://a/bad\u{1b}[2J\nx", "insecure": "hunter2", "unknown": "y"}),
    );
    bed.put(&json!({"apiVersion": "v1", "kind": "Secret", "data": {"url": "/////w=="},
        "metadata": {"name": "bytes", "namespace": NAMESPACE,
            "labels": {"argocd.argoproj.io/secret-type": "repository"}}}));
    let table = bed.succeeds(&["repo", "list"]);
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.starts_with(HEADER), "{table}");
    assert!(table.contains("Configuration error - please check the server logs"), "{table}");
    assert!(
        table.contains("Successful") && !table.contains("hunter2") && !table.contains('\u{1b}'),
        "{table}"
    );
    // The bad one can be mended; what others keep in it stays.
    let bad = json!({"url": url, "project": "p", "insecure": "hunter2", "unknown": "y"});
    bed.put_secret("worse", "repository", &bad);
    let (message, _) = bed.fails(&["repo", "add", &url, "--project", "p"]);
    assert!(
        message.ends_with("difference in keys \"insecure\"") && !message.contains("hunter2"),
        "{message}"
    );
    bed.succeeds(&["repo", "add", &url, "--project", "p", "--upsert"]);
    assert_eq!(
        bed.secret("worse").unwrap(),
        json!({"url": url, "project": "p", "insecure": "false",
        "type": "git", "unknown": "y"})
    );
}

#[test]
fn rep_21_two_secrets_for_one_repository_are_a_warning_when_one_goes() {
    let bed = Embedded::start();
    for name in ["one", "two"] {
        bed.put_secret(name, "repository", &json!({"url": "https://git.example.com/r", "project": "p"}));
    }
    // Two of them share the URL, so the project has to be named.
    let (out, warning, code) = bed.run(&["repo", "rm", "https://git.example.com/r", "--project", "p"]);
    assert_eq!((out.as_str(), code), ("Repository 'https://git.example.com/r' removed\n", 0));
    assert!(warning.contains("declared by other Secrets, one of which counts now: two"), "{warning}");
}

#[test]
fn rep_4_a_secret_in_the_way_is_named() {
    let bed = Embedded::start();
    let url = bed.repository("app");
    let kind = tiphys_api::repository::SecretKind::Repository;
    let name = tiphys_api::repository::secret_name(kind, &url, "p");
    bed.put(
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}}),
    );
    let (message, _) = bed.fails(&["repo", "add", &url, "--project", "p"]);
    assert!(
        message.contains(&format!("InvalidArgument desc = secret \"{name}\" doesn't have the proper")),
        "{message}"
    );
}

/// REP-2: a Secret of another repository under the name that was meant for this one.
#[test]
fn rep_2_a_taken_name_gets_a_number() {
    let bed = Embedded::start();
    let url = bed.repository("app");
    let kind = tiphys_api::repository::SecretKind::Repository;
    let name = tiphys_api::repository::secret_name(kind, &url, "p");
    bed.put_secret(&name, "repository", &json!({"url": "https://git.example.com/other"}));
    bed.succeeds(&["repo", "add", &url, "--project", "p"]);
    assert_eq!(bed.secret(&format!("{name}-1")).unwrap()["url"], url);
}

/// Several people at once: each change is made on what was read, and one Secret is what comes of it.
#[test]
fn rep_47_changes_at_the_same_time_make_one_secret() {
    let bed = Embedded::start();
    let url = bed.repository("app");
    std::thread::scope(|scope| {
        for depth in ["1", "2", "3", "4"] {
            let (bed, url) = (&bed, url.as_str());
            scope.spawn(move || {
                bed.succeeds(&["repo", "add", url, "--project", "p", "--depth", depth, "--upsert"]);
            });
        }
    });
    assert_eq!(bed.succeeds(&["repo", "list", "-o", "url"]), format!("{url}\n"));
}

#[test]
fn cli_801_local_rules_come_before_everything() {
    let bed = Embedded::start();
    let https = "https://git.example.com/r";
    let rows: &[(&[&str], &str)] = &[
        (
            &["repo", "add", https, "--ssh-private-key-path", "/nowhere"],
            "--ssh-private-key-path is only supported for SSH repositories.",
        ),
        (
            &["repo", "add", https, "--tls-client-cert-path", "/nowhere"],
            "--tls-client-cert-path and --tls-client-cert-key-path must be specified together",
        ),
        (
            &["repo", "add", "git@h:o/r", "--tls-client-cert-path", "/x", "--tls-client-cert-key-path", "/y"],
            "--tls-client-cert-path is only supported for HTTPS repositories",
        ),
        (
            &["repo", "add", "git@h:o/r", "--github-app-private-key-path", "/x"],
            "--github-app-private-key-path is only supported for HTTPS repositories",
        ),
        (
            &["repocreds", "add", "git@h:o", "--gcp-service-account-key-path", "/x"],
            "--gcp-service-account-key-path is only supported for HTTPS repositories",
        ),
        (&["repo", "add", https, "--type", "helm"], "Must specify --name for repos of type 'helm'"),
        (
            &["repo", "add", https, "--bearer-token", "t", "--password", "p"],
            "only --bearer-token or --password is allowed, not both",
        ),
        (
            &["repo", "add", https, "--bearer-token", "t", "--type", "oci"],
            "--bearer-token is only supported for Git repositories",
        ),
        (
            &["repo", "add", "git@h:o/r", "--bearer-token", "t"],
            "--bearer-token is only supported for HTTPS repositories",
        ),
        (
            &["repo", "add", https, "--insecure-oci-force-http"],
            "--insecure-oci-force-http requires --type oci or --enable-oci",
        ),
        (&["repo", "list", "--refresh", "soft"], "unknown refresh value: soft. Supported values: hard"),
        (&["repo", "list", "-o", "x"], "unknown output format: x. Supported formats: yaml|json|url|wide"),
        (&["repocreds", "list", "-o", "x"], "unknown output format: x"),
        (&["repocreds", "add", ""], "rpc error: code = InvalidArgument desc = must specify URL"),
        (
            &["repocreds", "add", "https://h/\n"],
            "rpc error: code = InvalidArgument desc = field \"url\" has a line break or another control character, \
             remove it",
        ),
    ];
    for (args, message) in rows {
        assert_eq!(bed.fails(args), ((*message).to_owned(), 20), "{args:?}");
    }
    let (stdout, _, code) = bed.run(&["repo", "add"]);
    assert!(stdout.contains("Usage:\n  argocd repo add REPOURL [flags]") && code == 1, "{stdout}");
    assert_eq!(bed.run(&["repo"]).2, 1);
}
