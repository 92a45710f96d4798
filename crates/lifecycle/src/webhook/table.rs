//! The table of senders: which events are taken, and what is checked of them (API-196).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::support::deliver;
use super::{Delivery, FAILED, hmac_sha256};

const GITHUB: &str = "webhook.github.secret";
const GITLAB: &str = "webhook.gitlab.secret";
const GOGS: &str = "webhook.gogs.secret";
const CLOUD: &str = "webhook.bitbucket.uuid";
const SERVER: &str = "webhook.bitbucketserver.secret";
const HARBOR: &str = "webhook.harbor.secret";
const AZURE: [(&str, &str); 2] =
    [("webhook.azuredevops.username", "u"), ("webhook.azuredevops.password", "p")];

const PUSH: &str =
    r#"{"ref":"refs/heads/main","object_kind":"push","repository":{"html_url":"https://h/r"}}"#;
const MOVED: &str =
    r#"{"push":{"changes":[{"new":{"name":"main"}}]},"changes":[{"ref":{"id":"refs/heads/main"}}]}"#;
const PACKAGE: &str = r#"{"action":"published","package":{"name":"web","package_type":"CONTAINER","owner":{"login":"o"},"package_version":{"container_metadata":{"tag":{"name":"v1"}}}}}"#;
const ARTIFACT: &str = r#"{"type":"PUSH_ARTIFACT","event_data":{"resources":[{"tag":"v1","resource_url":"h/p/r:v1"}],"repository":{"repo_full_name":"p/r"}}}"#;

/// `push`, `tag`, `ignored`, or the status and the text of a refusal.
fn of(headers: &[(&str, &str)], secrets: &[(&str, &str)], body: &str) -> String {
    match deliver(headers, secrets, body.as_bytes()).1 {
        Delivery::Pushes(_) => "push".to_owned(),
        Delivery::Tag(_) => "tag".to_owned(),
        Delivery::Ignored => "ignored".to_owned(),
        Delivery::Refused { status, body } => format!("{status} {body}"),
    }
}

fn refused() -> String {
    format!("400 {FAILED}")
}

#[test]
fn api_196_events_that_are_taken() {
    let azure = |event: &str| {
        let body = format!(
            r#"{{"eventType":"{event}","resource":{{"refUpdates":[{{"name":"refs/heads/main"}}],"repository":{{"remoteUrl":"https://h/r"}}}}}}"#
        );
        of(&[("x-vss-activityid", "1")], &[], &body)
    };
    assert_eq!(azure("git.push"), "push");
    for event in
        ["git.pullrequest.created", "git.pullrequest.updated", "git.pullrequest.merged", "build.complete"]
    {
        assert_eq!(azure(event), "ignored", "{event}");
    }
    assert_eq!(azure("release.created"), refused());
    let named = |header: &str, event: &str, body: &str| of(&[(header, event)], &[], body);
    for (header, event, expected) in [
        ("x-gogs-event", "push", "push"),
        ("x-gogs-event", "create", ""),
        ("x-github-event", "push", "push"),
        ("x-github-event", "ping", "ignored"),
        ("x-github-event", "pull_request", ""),
        ("x-gitlab-event", "Push Hook", "push"),
        ("x-gitlab-event", "Tag Push Hook", "push"),
        ("x-gitlab-event", "System Hook", "push"),
        ("x-gitlab-event", "Merge Request Hook", ""),
        ("x-event-key", "diagnostics:ping", "ignored"),
        ("x-event-key", "repo:refs_changed", "push"),
        ("x-event-key", "pr:merged", ""),
    ] {
        let body = if header == "x-event-key" { MOVED } else { PUSH };
        let expected = if expected.is_empty() { refused() } else { expected.to_owned() };
        assert_eq!(named(header, event, body), expected, "{header} {event}");
    }
    let cloud = |event: &str| of(&[("x-hook-uuid", "{i}"), ("x-event-key", event)], &[], MOVED);
    assert_eq!([cloud("repo:push"), cloud("repo:fork")], ["push".to_owned(), refused()]);
    // A test of a webhook of Bitbucket Server has neither a body nor a signature.
    assert_eq!(of(&[("x-event-key", "diagnostics:ping")], &[(SERVER, "s")], ""), "ignored");
    assert_eq!(named("x-github-event", "package", PACKAGE), "tag");
    let deleted = PACKAGE.replace("published", "deleted");
    assert_eq!(named("x-github-event", "package", &deleted), "ignored");
    let harbor = |body: &str| of(&[("authorization", "s")], &[(HARBOR, "s")], body);
    assert_eq!(harbor(ARTIFACT), "tag");
    assert_eq!(harbor(&ARTIFACT.replace("PUSH", "DELETE")), "ignored");
}

#[test]
fn api_196_what_system_hooks_of_gitlab_say_stands_in_their_body() {
    let hook = |word: &str, name: &str| {
        let body = format!(r#"{{"object_kind":"{word}","event_name":"{name}","ref":"refs/heads/main"}}"#);
        of(&[("x-gitlab-event", "System Hook")], &[], &body)
    };
    for (word, name, expected) in [
        ("push", "", "push"),
        ("", "tag_push", "push"),
        ("", "project_create", "ignored"),
        ("repository_update", "push", "ignored"),
        ("merge_request", "", ""),
        ("", "", ""),
    ] {
        let expected = if expected.is_empty() { refused() } else { expected.to_owned() };
        assert_eq!(hook(word, name), expected, "{word:?} {name:?}");
    }
}

/// Headers, the header of the proof, the right proof and a wrong one, secrets, and a body.
type Row<'a> = (&'a [(&'a str, &'a str)], &'a str, String, String, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn api_196_what_is_checked_of_each_sender() {
    let hex = |body: &str| hmac_sha256(b"s", body.as_bytes());
    let signed = |body: &str| format!("sha256={}", hex(body));
    let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
    let azure = r#"{"eventType":"git.push","resource":{"refUpdates":[{"name":"refs/heads/main"}]}}"#;
    let (right, wrong) = (signed(PUSH), signed("x"));
    let rows: [Row<'_>; 8] = [
        (&[("x-vss-activityid", "1")], "authorization", basic("u:p"), basic("u:x"), &AZURE, azure),
        (&[("x-gogs-event", "push")], "x-gogs-signature", hex(PUSH), hex("x"), &[(GOGS, "s")], PUSH),
        (&[("x-github-event", "push")], "x-hub-signature-256", right, wrong.clone(), &[(GITHUB, "s")], PUSH),
        (
            &[("x-gitlab-event", "Push Hook")],
            "x-gitlab-token",
            "s".into(),
            "x".into(),
            &[(GITLAB, "s")],
            PUSH,
        ),
        (
            &[("x-event-key", "repo:push")],
            "x-hook-uuid",
            "{i}".into(),
            "{x}".into(),
            &[(CLOUD, "{i}")],
            MOVED,
        ),
        (
            &[("x-event-key", "repo:refs_changed")],
            "x-hub-signature",
            signed(MOVED),
            wrong.clone(),
            &[(SERVER, "s")],
            MOVED,
        ),
        (
            &[("x-github-event", "package")],
            "x-hub-signature-256",
            signed(PACKAGE),
            wrong.clone(),
            &[(GITHUB, "s")],
            PACKAGE,
        ),
        (&[], "authorization", "s".into(), "x".into(), &[(HARBOR, "s")], ARTIFACT),
    ];
    for (headers, proof, right, wrong, secrets, body) in rows {
        let with = |value: &str| of(&[headers, &[(proof, value)]].concat(), secrets, body);
        assert!(["push", "tag"].contains(&with(&right).as_str()), "{proof} {headers:?}: {}", with(&right));
        for bad in [wrong.as_str(), "", "sha256=", "ä"] {
            let answer = with(bad);
            assert!(answer.starts_with("400 ") || answer == "401 Unauthorized", "{proof} {bad:?}: {answer}");
        }
        let without = of(headers, secrets, body);
        assert!(without.starts_with("400 ") || without == "401 Unauthorized", "{proof}: {without}");
    }
    let ghcr = of(&[("x-github-event", "package")], &[(GITHUB, "s")], PACKAGE);
    assert_eq!(ghcr, "401 Unauthorized");
    // An empty secret checks nothing; GitLab's is none, and a token is another one.
    assert_eq!(of(&[("x-gitlab-event", "Push Hook"), ("x-gitlab-token", "t")], &[], PUSH), refused());
    assert_eq!(of(&[("x-github-event", "push"), ("x-hub-signature-256", &wrong)], &[], PUSH), "push");
}

#[test]
fn api_196_method_event_body_and_signature_are_checked_in_this_order() {
    let secrets = [(GITHUB, "s")];
    let no_body = "400 Webhook processing failed: payload must be valid JSON under 1 MB";
    assert_eq!(of(&[("x-github-event", "issues")], &secrets, ""), refused(), "the event before the body");
    assert_eq!(of(&[("x-github-event", "push")], &secrets, ""), no_body, "the body before the signature");
    assert_eq!(of(&[("x-gitlab-event", "x"), ("x-gitlab-token", "t")], &[(GITLAB, "s")], ""), refused());
    assert_eq!(of(&[("x-vss-activityid", "1")], &AZURE, ""), refused(), "who sends before anything else");
}
