//! Shared credentials serve a project as far as its stored rules permit, and with their owner's settings alone (A3).

use super::*;

/// A Secret of a kind, with its data in clear.
fn of(kind: &str, name: &str, data: &Value) -> Value {
    use base64::Engine as _;
    let encoded = |text: &Value| base64::engine::general_purpose::STANDARD.encode(text.as_str().unwrap());
    let data: serde_json::Map<String, Value> =
        data.as_object().unwrap().iter().map(|(key, text)| (key.clone(), encoded(text).into())).collect();
    let mut made = secret(kind, &json!({}), &data.into());
    made["metadata"]["name"] = name.into();
    made
}

fn project(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": name}, "spec": spec})
}

/// A template of the administrators with everything in it, a project that may read a part of what it covers, and one
/// repository of the project.
fn with_repository(data_of_repository: &Value) -> Installation {
    let template =
        json!({"url": "https://git", "username": "bot", "password": "hunter2", "proxy": "http://ours:3128"});
    Installation::build(&data(&[
        of("repo-creds", "template", &template),
        of("repo-write-creds", "write-template", &template),
        project("red", &json!({"sourceRepos": ["https://git/red/*"]})),
        of("repository", "own", data_of_repository),
    ]))
}

fn password(installation: &Installation, url: &str) -> (String, bool) {
    let found = installation.repository(url, "red").unwrap();
    (found.credentials.password.expose().clone(), found.inherited_credentials)
}

/// A tenant that names a repository for its own project gets no more than the project may read.
#[test]
fn rep_22_a_project_inherits_what_its_rules_permit() {
    let own = |url: &str| with_repository(&json!({"url": url, "project": "red"}));
    let (permitted, secret) = ("https://git/red/app", "https://git/blue/secret");
    assert_eq!(password(&own(permitted), permitted), ("hunter2".to_owned(), true));
    assert_eq!(password(&own(secret), secret), (String::new(), false));
    // The project may read it all the same, without anybody's credentials (REP-122).
    let installation = own(secret);
    let red = installation.project("red").unwrap();
    assert_eq!(installation.repository_refusal(red, secret), None);
    // What is no project's inherits as before, where the project may read it.
    let shared = with_repository(&json!({"url": permitted}));
    assert_eq!(password(&shared, permitted), ("hunter2".to_owned(), true));
}

/// What the repository refers to by submodules and the like gets shared credentials as far as the rules go, and the
/// project's own wherever the project sends them.
#[test]
fn rep_76_shared_credentials_reach_as_far_as_the_rules() {
    let url = "https://git/red/app";
    let reach = |data: &Value, url: &str, project: &str| {
        with_repository(data).repository(url, project).unwrap().reach.map(|reach| reach.source_repos.to_vec())
    };
    let limited = Some(vec!["https://git/red/*".to_owned()]);
    let own = json!({"url": url, "project": "red"});
    assert_eq!(reach(&own, url, "red"), limited, "inherited");
    assert_eq!(reach(&json!({"url": url, "password": "shared"}), url, "red"), limited, "of a shared Secret");
    assert_eq!(reach(&json!({"url": "https://other"}), url, "red"), limited, "of a template alone");
    assert_eq!(reach(&json!({"url": url, "project": "red", "password": "own"}), url, "red"), None);
    assert_eq!(reach(&own, url, ""), None, "nobody's project has rules");
    let open = Installation::build(&data(&[
        of("repository", "shared", &json!({"url": url, "password": "shared"})),
        project("red", &json!({"sourceRepos": ["https://git/red/*", "*"]})),
    ]));
    assert_eq!(open.repository(url, "red").unwrap().reach, None, "the rules permit everything");
    let denied = Installation::build(&data(&[
        of("repository", "shared", &json!({"url": url, "password": "shared"})),
        project("red", &json!({"sourceRepos": ["*", "!https://git/blue/*"]})),
    ]));
    assert_eq!(denied.repository(url, "red").unwrap().reach.map(|reach| reach.source_repos.len()), Some(2));
}

/// No value that the project sets travels with credentials that are not its own.
#[test]
fn rep_33_inherited_credentials_keep_their_owners_settings() {
    let url = "https://git/red/app";
    for (key, value) in [
        ("proxy", "http://evil:3128"),
        ("noProxy", "git"),
        ("insecure", "true"),
        ("insecureIgnoreHostKey", "true"),
        ("insecureOCIForceHttp", "true"),
        ("forceHttpBasicAuth", "true"),
        ("tlsClientCertKey", "key"),
        ("githubAppEnterpriseBaseUrl", "https://evil"),
        ("githubAppID", "7"),
        ("githubAppInstallationID", "7"),
        ("azureActiveDirectoryEndpoint", "https://evil"),
        ("azureServicePrincipalTenantId", "evil"),
        ("azureServicePrincipalClientId", "evil"),
    ] {
        let installation = with_repository(&json!({"url": url, "project": "red", key: value}));
        assert_eq!(password(&installation, url), (String::new(), false), "{key}");
        let found = installation.repository(url, "red").unwrap();
        assert_ne!(found.credentials.proxy, "http://ours:3128", "{key}: nor what belongs to them");
        let warning = installation.warnings.iter().find(|text| text.contains("own")).map(String::as_str);
        assert!(warning.is_some_and(|text| text.contains("template")), "{key}: {:?}", installation.warnings);
        // Of an administrator's repository they are joined, as ever (REP-33).
        let shared = with_repository(&json!({"url": url, key: value}));
        assert_eq!(password(&shared, url), ("hunter2".to_owned(), true), "{key}");
    }
    for (key, value) in
        [("type", "helm"), ("name", "charts"), ("enableOCI", "true"), ("enableLfs", "true"), ("depth", "1")]
    {
        let installation = with_repository(&json!({"url": url, "project": "red", key: value}));
        assert_eq!(password(&installation, url), ("hunter2".to_owned(), true), "{key}");
    }
}

/// REP-122: a repository of the project permits itself. It is no pattern, no denial, and no other spelling.
#[test]
fn rep_122_an_own_repository_permits_itself_alone() {
    let secret = "https://git/blue/secret";
    for url in [
        "*",
        "**",
        "https://git/**",
        "https://git/blue/*",
        "!https://git/x",
        "!x",
        "https://me@git/blue/secret",
        "https://git/blue/s%65cret",
        "https://git/blue/secre[t]",
        "{https://git/blue/secret,x}",
    ] {
        let installation = with_repository(&json!({"url": url, "project": "red"}));
        let red = installation.project("red").unwrap();
        assert!(installation.repository_refusal(red, secret).is_some(), "{url}");
        assert_eq!(password(&installation, secret).0, "", "{url}: nor is a password shown");
    }
    let installation = with_repository(&json!({"url": "https://git/Blue/secret.git", "project": "red"}));
    let red = installation.project("red").unwrap();
    assert_eq!(installation.repository_refusal(red, secret), None, "the same repository (REP-16)");
    assert_eq!(password(&installation, secret).0, "");
}

/// REP-23: nor are shared credentials to push with a project's for naming a repository.
#[test]
fn rep_23_an_own_repository_opens_no_shared_push() {
    let secret = "https://git/blue/secret";
    let installation = with_repository(&json!({"url": secret, "project": "red"}));
    let pushed = |url: &str, projects: &[&str]| {
        let found = installation.push_repository(url, &projects.iter().copied().collect()).unwrap();
        found.credentials.password.expose().clone()
    };
    assert_eq!(pushed(secret, &["red"]), "");
    assert_eq!(pushed("https://git/red/app", &["red"]), "hunter2");
}

/// REP-25: nor does a chart, by a dependency on what only an own repository permits.
#[test]
fn rep_25_an_own_repository_opens_no_shared_charts() {
    let registry = json!({"url": "registry.test/blue", "type": "helm", "name": "blue", "enableOCI": "true",
        "username": "bot", "password": "hunter2"});
    let installation = |source_repos: &Value| {
        Installation::build(&data(&[
            of("repository", "registry", &registry),
            of("repository", "own", &json!({"url": "registry.test/blue", "project": "red"})),
            project("red", &json!({"sourceRepos": source_repos})),
        ]))
    };
    let password = |installation: &Installation| {
        let red = installation.project("red").unwrap();
        let found = installation.dependency_repository("oci://registry.test/blue/chart", red, true).unwrap();
        found.credentials.password.expose().clone()
    };
    assert_eq!(password(&installation(&json!(["https://git/red/*"]))), "");
    assert_eq!(password(&installation(&json!(["registry.test/*"]))), "hunter2");
}
