//! Azure DevOps.

use serde_json::{Value, json};
use tiphys_scm::{Credentials, ScmError};

use crate::double::{Asked, Double, Reply, ok, pull_requests, repositories, shown, token};

fn repository(name: &str, more: Value) -> Value {
    let mut all = json!({
        "id": format!("id-{name}"), "name": name, "defaultBranch": "refs/heads/main",
        "remoteUrl": format!("https://acme@dev.azure.com/acme/shop/_git/{name}"), "sshUrl": "git@x"});
    all.as_object_mut().unwrap().extend(crate::double::block(&more));
    all
}

fn absent(kind: &str) -> Reply {
    Reply { status: 404, body: json!({"typeKey": kind, "message": "no"}).to_string(), ..Reply::default() }
}

fn project(asked: &Asked) -> Reply {
    let base = "/acme/shop/_apis/git/repositories";
    match asked.target.strip_prefix(base).unwrap_or_default() {
        "?api-version=6.0" => ok(json!({"count": 4, "value": [
            repository("one", json!({})), repository("empty", json!({"defaultBranch": null})),
            repository("gone", json!({})), repository("two", json!({"sshUrl": null})),
        ]})),
        "/one/stats/branches?api-version=6.0&name=main" | "/two/stats/branches?api-version=6.0&name=main" => {
            ok(json!({"name": "main", "commit": {"commitId": "c1"}}))
        }
        "/gone/stats/branches?api-version=6.0&name=main" | "/gone/stats/branches?api-version=6.0" => {
            absent("GitRepositoryNotFoundException")
        }
        "/one/stats/branches?api-version=6.0" => ok(json!({"value": [
            {"name": "main", "commit": {"commitId": "c1"}}, {"name": "feat/x", "commit": {"commitId": "c2"}}]})),
        "/two/stats/branches?api-version=6.0" => ok(json!({"value": []})),
        "/one/items?path=%2Fdeploy&versionDescriptor.version=main&versionDescriptor.versionType=branch&%24format=json&api-version=6.0" => {
            ok(json!({"path": "/deploy"}))
        }
        "/two/items?path=%2Fdeploy&versionDescriptor.version=main&versionDescriptor.versionType=branch&%24format=json&api-version=6.0" => {
            absent("GitItemNotFoundException")
        }
        _ => absent("SomethingElse"),
    }
}

fn block(server: &Double, filters: &Value, all: bool) -> Value {
    json!({"filters": filters, "azureDevOps": {
        "organization": "acme", "teamProject": "shop", "api": server.url, "allBranches": all,
        "accessTokenRef": {"secretName": "s", "key": "k"}}})
}

#[tokio::test]
async fn aset_58_repositories_of_a_project_of_azure_devops() {
    let server = Double::start(project).await;
    let found = repositories(&block(&server, &json!([]), false), &token("pat")).await.unwrap();
    assert_eq!(shown(&found), ["one@main", "two@main"]);
    let one = found.first().unwrap();
    assert_eq!((one.organization.as_str(), one.sha.as_str()), ("acme", "c1"));
    assert_eq!(one.url, "https://acme@dev.azure.com/acme/shop/_git/one", "whatever the protocol");
    assert_eq!(
        server.asked().first().unwrap().headers.get("authorization").map(String::as_str),
        Some("Basic OnBhdA==")
    );
    let found = repositories(&block(&server, &json!([]), true), &token("pat")).await.unwrap();
    assert_eq!(shown(&found), ["one@main", "one@feat/x"]);
    let found = repositories(&block(&server, &json!([{"pathsExist": ["deploy"]}]), false), &token("pat"))
        .await
        .unwrap();
    assert_eq!(shown(&found), ["one@main"]);
    let unknown = block(&server, &json!([{"repositoryMatch": "one", "pathsExist": ["other"]}]), false);
    assert!(matches!(repositories(&unknown, &token("pat")).await, Err(ScmError::NotFound { .. })));
}

#[tokio::test]
async fn f24_a_page_to_log_in_is_no_empty_project() {
    // What Azure DevOps answers to a token that has ended.
    let server =
        Double::start(|_| Reply { status: 203, body: "<html>Sign in</html>".to_owned(), ..Reply::default() })
            .await;
    let error = repositories(&block(&server, &json!([]), false), &token("pat")).await.unwrap_err();
    assert!(matches!(error, ScmError::Answer { .. }), "{error}");
}

#[tokio::test]
async fn aset_64_active_pull_requests_of_azure_devops() {
    let request = |id: Value, repository: &str, labels: &[&str]| {
        let labels: Vec<Value> = labels.iter().map(|name| json!({"name": name, "active": true})).collect();
        json!({
            "pullRequestId": id, "title": "t", "sourceRefName": "refs/heads/feat", "targetRefName": "refs/heads/main",
            "lastMergeSourceCommit": {"commitId": "abc"}, "createdBy": {"uniqueName": "ann@acme.example"},
            "labels": labels, "repository": {"name": repository}})
    };
    let server = Double::start(move |asked| match asked.target.as_str() {
        "/acme/shop/_apis/git/pullrequests?searchCriteria.status=active&%24top=100&api-version=6.0" => ok(json!({"value": [
            request(json!(1), "web", &["x"]), request(json!(2), "other", &["x"])]})),
        "/acme/shop/_apis/git/pullrequests?searchCriteria.status=active&%24top=100&api-version=6.0&%24skip=2" => ok(json!({"value": [
            request(json!(null), "web", &["x"]), request(json!(3), "web", &[])]})),
        "/acme/shop/_apis/git/pullrequests?searchCriteria.status=active&%24top=100&api-version=6.0&%24skip=4" => ok(json!({"value": []})),
        _ => absent("ProjectDoesNotExistWithNameException"),
    })
    .await;
    let of = |project: &str, labels: Value| {
        json!({"azuredevops": {
        "organization": "acme", "project": project, "repo": "web", "api": server.url, "labels": labels}})
    };
    let found = pull_requests(&of("shop", json!([])), &Credentials::default()).await.unwrap();
    assert_eq!(found.iter().map(|one| one.number.as_str()).collect::<Vec<_>>(), ["1", "3"]);
    let first = found.first().unwrap();
    assert_eq!(
        (first.branch.as_str(), first.target_branch.as_str(), first.author.as_str()),
        ("feat", "main", "ann")
    );
    let found = pull_requests(&of("shop", json!(["x"])), &Credentials::default()).await.unwrap();
    assert_eq!(found.len(), 1);
    let error = pull_requests(&of("nope", json!([])), &Credentials::default()).await.unwrap_err();
    assert_eq!(error, ScmError::RepositoryNotFound("web".to_owned()));
}
