//! Gitea.

use serde_json::{Value, json};
use tiphys_scm::{Credentials, ScmError};

use crate::double::{Asked, Double, Reply, ok, pull_requests, repositories, shown, status, token};

fn repository(id: i64, name: &str) -> Value {
    json!({
        "id": id, "name": name, "owner": {"login": "acme"}, "default_branch": "release/1", "archived": name == "old",
        "ssh_url": format!("git@h:acme/{name}.git"), "clone_url": format!("http://h/acme/{name}.git"), "empty": false,
    })
}

/// A server whose pages are shorter than what is asked for, and that answers no HEAD.
fn organization(asked: &Asked) -> Reply {
    if asked.method == "HEAD" {
        return status(405);
    }
    let total = |reply: Reply, total: &str| reply.with("x-total-count", total);
    match asked.target.as_str() {
        "/api/v1/orgs/acme/repos?page=1&limit=100" => {
            total(ok(json!([repository(1, "one"), repository(2, "old")])), "3")
        }
        "/api/v1/orgs/acme/repos?limit=100&page=2" => total(ok(json!([repository(3, "two")])), "3"),
        "/api/v1/repos/acme/one/labels?page=1&limit=100" => ok(json!([{"id": 1, "name": "bug"}]))
            .with("link", "<http://h/api/v1/x?limit=100&page=2>; rel=\"next\""),
        "/api/v1/repos/acme/one/labels?limit=100&page=2" => {
            ok(json!([{"id": 2, "name": "prod"}])).with("link", "<x>; rel=\"prev\"")
        }
        "/api/v1/repos/acme/two/labels?page=1&limit=100"
        | "/api/v1/repos/acme/old/labels?page=1&limit=100" => ok(json!([])),
        "/api/v1/repos/acme/one/branches/release/1" | "/api/v1/repos/acme/two/branches/release/1" => {
            ok(json!({"name": "release/1", "commit": {"id": "c0ffee"}}))
        }
        // Neither a link nor a total: until a page is empty.
        "/api/v1/repos/acme/one/branches?page=1&limit=100" => {
            ok(json!([{"name": "a", "commit": {"id": "1"}}]))
        }
        "/api/v1/repos/acme/one/branches?limit=100&page=2" => {
            ok(json!([{"name": "b", "commit": {"id": "2"}}]))
        }
        "/api/v1/repos/acme/one/branches?limit=100&page=3" => ok(json!([])),
        "/api/v1/repos/acme/two/branches?page=1&limit=100" => ok(json!([])),
        "/api/v1/repos/acme/one/contents/deploy?ref=release%2F1" => ok(json!([])),
        _ => status(404),
    }
}

#[tokio::test]
async fn aset_58_all_pages_of_an_organization_of_gitea() {
    let server = Double::start(organization).await;
    let with = |filters: Value, all: bool| {
        json!({"filters": filters, "gitea": {
        "owner": "acme", "api": server.url, "excludeArchivedRepos": true, "allBranches": all,
        "tokenRef": {"secretName": "s", "key": "k"}}})
    };
    let found = repositories(&with(json!([]), false), &token("t")).await.unwrap();
    assert_eq!(shown(&found), ["one@release/1", "two@release/1"]);
    let one = found.first().unwrap();
    assert_eq!((one.organization.as_str(), one.sha.as_str()), ("acme", "c0ffee"));
    assert_eq!(one.labels, ["bug", "prod"]);
    assert_eq!(
        server.asked().first().unwrap().headers.get("authorization").map(String::as_str),
        Some("token t")
    );
    let found = repositories(&with(json!([{"labelMatch": "prod"}]), true), &token("t")).await.unwrap();
    assert_eq!(shown(&found), ["one@a", "one@b"]);
    let found = repositories(&with(json!([{"pathsExist": ["deploy"]}]), false), &token("t")).await.unwrap();
    assert_eq!(shown(&found), ["one@release/1"]);
    // A default branch that is not there is an error here.
    let with_old = json!({"gitea": {"owner": "acme", "api": server.url}});
    assert!(matches!(repositories(&with_old, &Credentials::default()).await, Err(ScmError::NotFound { .. })));
}

#[tokio::test]
async fn aset_64_open_pull_requests_of_gitea() {
    let server = Double::start(|asked| match asked.target.as_str() {
        "/api/v1/repos/acme/web/pulls?state=open&page=1&limit=100" => ok(json!([
            {"id": 90, "number": 5, "title": "t", "user": {"login": "ann"}, "labels": [{"name": "x"}, {"name": "y"}],
             "head": {"ref": "feat", "sha": "abc"}, "base": {"ref": "main"}},
            {"id": 91, "number": 6, "title": "u", "user": {"login": "bob"}, "labels": null,
             "head": {"ref": "fix", "sha": "def"}, "base": {"ref": "main"}},
        ]))
        .with("x-total-count", "2"),
        _ => status(404),
    })
    .await;
    let gitea = |repository: &str, labels: Value| json!({"gitea": {"owner": "acme", "repo": repository, "api": server.url, "labels": labels}});
    let found = pull_requests(&gitea("web", json!([])), &Credentials::default()).await.unwrap();
    assert_eq!(found.iter().map(|one| one.number.as_str()).collect::<Vec<_>>(), ["5", "6"]);
    let first = found.first().unwrap();
    assert_eq!(
        (first.branch.as_str(), first.author.as_str(), first.head_sha.as_str()),
        ("feat", "ann", "abc")
    );
    let found = pull_requests(&gitea("web", json!(["x"])), &Credentials::default()).await.unwrap();
    assert_eq!(found.len(), 1);
    let error = pull_requests(&gitea("gone", json!([])), &Credentials::default()).await.unwrap_err();
    assert_eq!(error, ScmError::RepositoryNotFound("gone".to_owned()));
}
