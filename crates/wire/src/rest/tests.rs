use serde_json::{Value, json};

use super::*;
use crate::schema::schema;

fn method(verb: &str, path: &str) -> Result<String, NoRoute> {
    find(schema(), verb, path).map(|route| schema().method(route.method).path.clone())
}

fn bound(verb: &str, target: &str, body: &str) -> Result<Value, String> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    find(schema(), verb, path).unwrap().bind(query, body.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn api_p19_paths_find_methods() {
    let cases = [
        ("GET", "/api/version", "/version.VersionService/Version"),
        ("GET", "/api/v1/applications", "/application.ApplicationService/List"),
        ("GET", "/api/v1/applications/web", "/application.ApplicationService/Get"),
        (
            "POST",
            "/api/v1/applications/manifestsWithFiles",
            "/application.ApplicationService/GetManifestsWithFiles",
        ),
        ("GET", "/api/v1/applications/web/pods/p-1/logs", "/application.ApplicationService/PodLogs"),
        ("GET", "/api/v1/applications/web/logs", "/application.ApplicationService/PodLogs"),
        ("GET", "/api/v1/stream/applications", "/application.ApplicationService/Watch"),
        ("GET", "/api/v1/settings/plugins", "/cluster.SettingsService/GetPlugins"),
        ("GET", "/api/v1/session/userinfo", "/session.SessionService/GetUserInfo"),
        ("PUT", "/api/v1/account/password", "/account.AccountService/UpdatePassword"),
        ("DELETE", "/api/v1/gpgkeys", "/gpgkey.GPGKeyService/Delete"),
        ("GET", "/api/v1/repositories", "/repository.RepositoryService/List"),
        (
            "DELETE",
            "/api/v1/applications/web/operation",
            "/application.ApplicationService/TerminateOperation",
        ),
    ];
    for (verb, path, expected) in cases {
        assert_eq!(method(verb, path).as_deref(), Ok(expected), "{verb} {path}");
    }
    assert_eq!(method("GET", "/api/v1/nothing"), Err(NoRoute::NotFound));
    assert_eq!(method("GET", "/api/v1/applications/"), Err(NoRoute::NotFound));
    assert_eq!(method("GET", "api"), Err(NoRoute::NotFound));
    assert_eq!(method("PUT", "/api/v1/applications"), Err(NoRoute::MethodNotAllowed));
    assert_eq!(method("HEAD", "/api/version"), Err(NoRoute::MethodNotAllowed));
    assert_eq!(method("GET", "/api/v1/applications/%zz"), Err(NoRoute::Malformed));
    assert_eq!(method("GET", "/api/v1/applications/%ff"), Err(NoRoute::Malformed));
}

#[test]
fn api_p19_the_rest_of_a_path_may_be_empty() {
    for (path, rest) in [
        ("/api/v1/account/can-i/applications/sync/default/web", "default/web"),
        ("/api/v1/account/can-i/applications/sync/*", "*"),
        ("/api/v1/account/can-i/applications/sync/a%2Fb", "a/b"),
    ] {
        let expected = json!({"resource": "applications", "action": "sync", "subresource": rest});
        assert_eq!(bound("GET", path, "").unwrap(), expected, "{path}");
    }
    let none = json!({"resource": "projects", "action": "get"});
    assert_eq!(bound("GET", "/api/v1/account/can-i/projects/get/", "").unwrap(), none);
    assert_eq!(bound("GET", "/api/v1/account/can-i/projects/get", "").unwrap(), none);
}

#[test]
fn api_p20_bodies_are_messages_or_fields() {
    assert_eq!(
        bound("POST", "/api/v1/applications/web/sync?prune=true", r#"{"name": "other", "dryRun": true}"#)
            .unwrap(),
        json!({"name": "web", "dryRun": true}),
        "the path beats the body, and the query is not read"
    );
    assert_eq!(
        bound(
            "POST",
            "/api/v1/applications?upsert=true&validate=0&application.spec.project=x",
            r#"{"metadata": {"name": "web"}}"#
        )
        .unwrap(),
        json!({"application": {"metadata": {"name": "web"}}, "upsert": true, "validate": false})
    );
    assert_eq!(
        bound("PUT", "/api/v1/applications/web", r#"{"metadata": {"name": "x", "labels": {"a": "b"}}}"#)
            .unwrap(),
        json!({"application": {"metadata": {"name": "web", "labels": {"a": "b"}}}})
    );
    assert_eq!(
        bound("DELETE", "/api/v1/applications/web", "{nothing that is read").unwrap(),
        json!({"name": "web"})
    );
    assert_eq!(bound("POST", "/api/v1/applications", "").unwrap(), json!({}));
    assert_eq!(bound("POST", "/api/v1/applications", "{").unwrap_err(), "invalid JSON at line 1 column 1");
    assert_eq!(bound("POST", "/api/v1/applications", "[]").unwrap_err(), "expected an object");
}

#[test]
fn api_p21_a_text_is_a_json_text() {
    assert_eq!(
        bound("POST", "/api/v1/applications/web/resource?resourceName=a&kind=Pod", r#""{\"spec\":{}}""#)
            .unwrap(),
        json!({"name": "web", "resourceName": "a", "kind": "Pod", "patch": "{\"spec\":{}}"})
    );
    assert_eq!(
        bound("POST", "/api/v1/applications/web/resource/actions", "\"restart\"").unwrap()["action"],
        "restart"
    );
    assert_eq!(
        bound("POST", "/api/v1/applications/web/resource/actions", "restart").unwrap_err(),
        "invalid JSON at line 1 column 1"
    );
    assert_eq!(
        bound("POST", "/api/v1/repositories/https%3A%2F%2Fgit%2Fr/validate", "\"https://git/r\"").unwrap(),
        json!({"repo": "https://git/r"})
    );
}

#[test]
fn api_p22_query_parameters_are_fields() {
    assert_eq!(
        bound(
            "GET",
            "/api/v1/applications?projects=a&projects=b&selector=x%3Dy+z&unknown=1&name=web&name=x",
            ""
        )
        .unwrap(),
        json!({"projects": ["a", "b"], "selector": "x=y z", "name": "web"})
    );
    assert_eq!(
        bound("GET", "/api/v1/clusters/prod?id.type=name", "").unwrap(),
        json!({"id": {"type": "name", "value": "prod"}})
    );
    for (text, flag) in [("1", true), ("t", true), ("True", true), ("F", false), ("0", false)] {
        let target = format!("/api/v1/applications/web?cascade={text}");
        assert_eq!(bound("DELETE", &target, "").unwrap()["cascade"], flag, "{text}");
    }
    assert_eq!(
        bound("DELETE", "/api/v1/applications/web?cascade=yes", "").unwrap_err(),
        "query parameter \"cascade\": expected true or false"
    );
    assert_eq!(
        bound("GET", "/api/v1/applications/web/logs?tailLines=ten", "").unwrap_err(),
        "query parameter \"tailLines\": expected a whole number"
    );
    assert_eq!(bound("GET", "/api/v1/applications?name=%", "").unwrap_err(), "malformed query");
    assert_eq!(
        bound("GET", "/api/v1/applications/web/logs?sinceTime=2026-01-02T03:04:05%2B01:00", "").unwrap()["sinceTime"],
        "2026-01-02T02:04:05Z",
        "beyond the reference"
    );
    assert_eq!(
        bound("DELETE", "/api/v1/projects/p/roles/r/token/x?id=7", "").unwrap_err(),
        "path parameter \"iat\": expected a whole number"
    );
    assert_eq!(
        bound("GET", "/api/v1/applications/web/manifests?sourcePositions=1&sourcePositions=2&revisions=", "")
            .unwrap(),
        json!({"name": "web", "sourcePositions": [1, 2], "revisions": [""]})
    );
}

#[test]
fn api_p23_urls_in_paths_are_decoded_after_they_are_split() {
    let repository = |path: &str| bound("GET", path, "").unwrap()["repo"].clone();
    assert_eq!(repository("/api/v1/repositories/https%3A%2F%2Fgit%2Fa%20b"), "https://git/a b");
    assert_eq!(repository("/api/v1/repositories/a+b%2Bc"), "a b+c");
    assert_eq!(repository("/api/v1/write-repositories/https%3A%2F%2Fgit%2Fr"), "https://git/r");
    assert_eq!(
        bound("DELETE", "/api/v1/write-repocreds/https%3A%2F%2Fgit%2F", "").unwrap(),
        json!({"url": "https://git/"})
    );
    assert_eq!(
        bound(
            "PUT",
            "/api/v1/clusters/https%3A%2F%2Fk8s?updatedFields=labels&updatedFields=name",
            r#"{"name": "a"}"#
        )
        .unwrap(),
        json!({"cluster": {"name": "a"}, "id": {"value": "https://k8s"}, "updatedFields": ["labels", "name"]})
    );
    assert_eq!(
        bound("PUT", "/api/v1/repositories/https%3A%2F%2Fgit%2Fr", r#"{"username": "u"}"#).unwrap(),
        json!({"repo": {"repo": "https://git/r", "username": "u"}})
    );
    assert_eq!(method("GET", "/api/v1/applications/a%2Fb"), Err(NoRoute::NotFound), "decoded first");
    assert_eq!(
        bound("GET", "/api/v1/applications/a+b%3Ac", "").unwrap(),
        json!({"name": "a+b:c"}),
        "API-P24"
    );
}
