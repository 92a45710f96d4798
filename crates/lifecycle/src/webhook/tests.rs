use super::*;
use serde_json::json;

#[test]
fn api_201_revisions_are_what_follows_the_second_slash() {
    for (given, expected) in
        [("refs/heads/a/b", "a/b"), ("main", "main"), ("heads/x", "x"), ("refs/tags/v1", "v1")]
    {
        assert_eq!(short_revision(given), expected);
    }
}

#[test]
fn api_206_forms_of_one_repository_match() {
    let web = "https://git.acme.test/Shop/UI";
    for repo in [
        "https://git.acme.test/shop/ui",
        "https://git.acme.test:8443/shop/ui.git",
        "git@git.acme.test:shop/ui.git",
        "ssh://git@ssh.git.acme.test:2222/shop/ui",
        "http://bob@GIT.acme.test/Shop/ui",
    ] {
        assert!(repository_matches(web, repo), "{repo}");
    }
    for repo in
        ["https://git.acme.test/shop/ui/", "https://evil.test/shop/ui", "https://git.acme.test/shop/ui2"]
    {
        assert!(!repository_matches(web, repo), "{repo}");
    }
    assert!(repository_matches("http://127.0.0.1:18900/bench", "http://127.0.0.1:18900/bench.git"));
}

fn app(revision: &str, paths: Option<&str>) -> Application {
    let mut app = json!({"metadata": {"name": "a"}, "spec": {"destination": {},
        "source": {"repoURL": "https://git.acme.test/ui", "targetRevision": revision, "path": "shop"}}});
    if let Some(paths) = paths {
        app["metadata"]["annotations"] = json!({"argocd.argoproj.io/manifest-generate-paths": paths});
    }
    serde_json::from_value(app).unwrap()
}

fn pushed(files: &[&str]) -> Push {
    let payload = json!({"ref": "refs/heads/main", "repository": {"html_url": "https://git.acme.test/ui",
        "default_branch": "main"}, "commits": [{"modified": files, "added": null}]});
    let header = |name: &str| (name == "x-github-event").then_some("push");
    match read((Provider::GitHub, "push"), header, payload.to_string().as_bytes(), "", |_| false) {
        Delivery::Pushes(mut pushes) => pushes.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn api_207_only_apps_whose_paths_changed_are_concerned() {
    assert_eq!(concern(&pushed(&["shop/a.yaml"]), &app("HEAD", Some("."))), Concern::Files);
    assert_eq!(concern(&pushed(&["docs/a.md"]), &app("main", Some("."))), Concern::RevisionOnly);
    assert_eq!(concern(&pushed(&["docs/a.md"]), &app("main", None)), Concern::Files);
    assert_eq!(concern(&pushed(&[]), &app("dev", None)), Concern::None);
}

/// The branch of manifests is looked at by its own path, the dry source by what the annotation says of it.
#[test]
fn api_203_api_207_api_208_hydrators_follow_two_sources() {
    let hydrated = |branch: &str| -> Application {
        let app = json!({"metadata": {"name": "a",
                "annotations": {"argocd.argoproj.io/manifest-generate-paths": "../base"}},
            "spec": {"destination": {}, "sourceHydrator": {
                "drySource": {"repoURL": "https://git.acme.test/ui", "path": "dry/a", "targetRevision": "main"},
                "syncSource": {"targetBranch": branch, "path": "wet/a"}}}});
        serde_json::from_value(app).unwrap()
    };
    let of = |branch: &str, file: &str| {
        (concern(&pushed(&[file]), &hydrated(branch)), hydrates(&pushed(&[file]), &hydrated(branch)))
    };
    assert_eq!(of("env", "dry/base/x"), (Concern::Files, true));
    assert_eq!(of("env", "dry/a/x"), (Concern::None, false));
    assert_eq!(of("main", "wet/a/manifest.yaml"), (Concern::Files, false));
    assert_eq!(of("main", "wet/b/manifest.yaml"), (Concern::RevisionOnly, false));
    assert!(!hydrates(&pushed(&["shop/a.yaml"]), &app("main", None)));
}

/// A quarter of a megabyte of paths below a path of half of one was 65 GB of text, in the loop that takes
/// everybody's pushes.
#[test]
fn sec_07_what_takes_too_long_to_find_out_is_compared() {
    let mut hostile = app("main", Some(&"a;".repeat(130_000)));
    if let Some(source) = &mut hostile.spec.source {
        source.path = "p/".repeat(250_000);
    }
    assert_eq!(concern(&pushed(&["docs/a.md"]), &hostile), Concern::Files);
    let ranges = app(&vec!["1.x"; 200_000].join(" || "), Some("."));
    assert_eq!(concern(&pushed(&["docs/a.md"]), &ranges), Concern::Files);
}

#[test]
fn api_196_signatures_are_hmac_sha256() {
    // RFC 4231, test case 2.
    let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert!(verify(b"Jefe", b"what do ya want for nothing?", expected));
    assert!(!verify(b"Jefe", b"what do ya want for nothing!", expected));
    assert!(!verify(b"Jefe", b"", ""));
}

fn deliver(headers: &[(&str, &str)], secrets: &[(&str, &str)], body: &[u8], allow: bool) -> u16 {
    let find = |list: &[(&str, &str)], name: &str| {
        list.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    };
    let header = |name: &str| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let (_, delivery) = receive(&Request {
        method: "POST",
        header,
        body,
        secret: |key: &str| find(secrets, key).unwrap_or_default(),
        megabytes_max: None,
        allow_without_secret: allow,
    });
    match delivery {
        Delivery::Refused { status, .. } => status,
        Delivery::Pushes(_) | Delivery::Tag(_) | Delivery::Ignored => 200,
    }
}

/// A7: a secret of one provider is not walked around with the header of another.
#[test]
fn api_196_senders_without_a_secret_are_refused_once_any_secret_is_set() {
    let (gogs, gitlab) = ([("x-gogs-event", "push")], [("x-gitlab-event", "Push Hook")]);
    let github = [("x-github-event", "push")];
    let body = br#"{"object_kind":"push","ref":"refs/heads/main"}"#;
    for headers in [&gogs, &gitlab, &github] {
        assert_eq!(deliver(headers, &[], body, false), 200);
        for key in SECRET_KEYS {
            assert_eq!(deliver(headers, &[(key, "s")], body, false), 400, "{headers:?} {key}");
        }
    }
    assert_eq!(deliver(&gogs, &[("webhook.github.secret", "s")], body, true), 200);
    assert_eq!(deliver(&github, &[("webhook.github.secret", "s")], body, true), 400);
}

/// A7: one megabyte is read of whoever has not proven who sends.
#[test]
fn sec_48_a_body_is_small_until_its_sender_is_proven() {
    let mut body = br#"{"object_kind":"push","x":""#.to_vec();
    body.resize(MEGABYTE + 1, b' ');
    body.extend_from_slice(b"\"}");
    let gitlab = |token| [("x-gitlab-event", "Push Hook"), ("x-gitlab-token", token)];
    let secret = [("webhook.gitlab.secret", "s")];
    assert_eq!(deliver(&gitlab("s"), &secret, &body, false), 200);
    assert_eq!(deliver(&gitlab("x"), &secret, &body, false), 400);
    assert_eq!(deliver(&[("x-github-event", "push")], &[], &body, false), 400);
    let limit = |signature: &'static str| {
        let header = move |name: &str| match name {
            "x-github-event" => Some("push"),
            "x-hub-signature-256" => Some(signature),
            _ => None,
        };
        body_bytes_max(header, |_| "s".to_owned(), None)
    };
    assert_eq!(limit("sha256=0"), MEGABYTE);
    let signature = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert_eq!(limit(signature), 50 * MEGABYTE);
}

#[test]
fn api_197_bad_deliveries_are_refused() {
    let header = |name: &str| (name == "x-github-event").then_some("push");
    let refused = Delivery::Refused { status: 400, body: FAILED.to_owned() };
    let github = (Provider::GitHub, "push");
    assert_eq!(read(github, header, b"{}", "secret", |_| true), refused);
    assert_eq!(read(github, header, b"not json", "", |_| true), refused);
}

#[test]
fn api_202_an_address_of_azure_devops_over_ssh_is_that_of_its_page() {
    let web = "https://org@dev.azure.com/Org/Shop/_git/Web";
    for repo in [
        "git@ssh.dev.azure.com:v3/org/shop/web",
        "ssh://git@ssh.dev.azure.com/v3/Org/Shop/Web",
        "ssh://git@ssh.dev.azure.com:22/v3/org/shop/web",
        "https://dev.azure.com/org/shop/_git/web",
    ] {
        assert!(repository_matches(web, repo), "{repo}");
    }
    let own = "https://dev.azure.com/org/_git/web";
    assert!(repository_matches(own, "git@ssh.dev.azure.com:v3/org/web/web"));
    for repo in [
        "git@ssh.dev.azure.com:v3/org/shop/other",
        "git@ssh.dev.azure.com:v3/org/shop/web/more",
        "git@ssh.dev.azure.com:v2/org/shop/web",
        "git@ssh.dev.azure.com.evil.test:v3/org/shop/web",
        "git@dev.azure.com:v3/org/shop/web",
    ] {
        assert!(!repository_matches(web, repo), "{repo}");
    }
    assert!(!repository_matches(
        "https://evil.test/org/shop/_git/web",
        "git@ssh.dev.azure.com:v3/org/shop/web"
    ));
}
