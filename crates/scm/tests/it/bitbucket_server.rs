//! Bitbucket Server.

use serde_json::{Value, json};
use tiphys_api::secret::Secret;
use tiphys_scm::{Credentials, ScmError};

use crate::double::{Asked, Double, Reply, ok, password, pull_requests, repositories, shown, status};

fn repository(id: i64, slug: &str) -> Value {
    json!({
        "id": id, "slug": slug, "name": "Shown Name", "project": {"key": "ACME"},
        "links": {"clone": [
            {"name": "http", "href": format!("https://h/scm/acme/{slug}.git")},
            {"name": "ssh", "href": format!("ssh://git@h:7999/acme/{slug}.git")},
        ]},
    })
}

fn branch(name: &str) -> Value {
    json!({"id": format!("refs/heads/{name}"), "displayId": name, "latestCommit": format!("sha-{name}")})
}

fn project(asked: &Asked) -> Reply {
    let base = "/rest/api/1.0/projects/ACME/repos";
    let target = asked.target.strip_prefix(base).unwrap_or_default();
    match target {
        "?limit=100" => {
            ok(json!({"values": [repository(1, "one")], "isLastPage": false, "nextPageStart": 7}))
        }
        "?limit=100&start=7" => ok(
            json!({"values": [repository(2, "two"), repository(3, "empty"), repository(4, "bare")], "isLastPage": true}),
        ),
        "/one/branches/default" | "/two/branches/default" => ok(branch("main")),
        "/empty/branches/default" => status(204),
        "/one/branches?limit=100" => {
            ok(json!({"values": [branch("main")], "isLastPage": false, "nextPageStart": 1}))
        }
        "/one/branches?limit=100&start=1" => ok(json!({"values": [branch("feat/x")], "isLastPage": true})),
        "/two/branches?limit=100" => ok(json!({"values": [branch("main")], "isLastPage": true})),
        "/two/browse/deploy?at=main&type=true" => ok(json!({"type": "DIRECTORY"})),
        _ => status(404),
    }
}

#[tokio::test]
async fn aset_58_repositories_of_a_project_of_bitbucket_server() {
    let server = Double::start(project).await;
    let basic = json!({"username": "u", "passwordRef": {"secretName": "s", "key": "k"}});
    let with = |filters: Value, all: bool| {
        json!({"filters": filters, "bitbucketServer": {
        "project": "ACME", "api": server.url, "allBranches": all, "basicAuth": basic}})
    };
    let found = repositories(&with(json!([]), false), &password("p")).await.unwrap();
    assert_eq!(shown(&found), ["one@main", "two@main"], "no default branch, no branches");
    let one = found.first().unwrap();
    assert_eq!((one.organization.as_str(), one.sha.as_str()), ("ACME", "sha-main"));
    assert_eq!(one.url, "ssh://git@h:7999/acme/one.git");
    let first = server.asked().first().unwrap().clone();
    assert_eq!(first.headers.get("authorization").map(String::as_str), Some("Basic dTpw"));
    let found = repositories(&with(json!([]), true), &password("p")).await.unwrap();
    assert_eq!(shown(&found), ["one@main", "one@feat/x", "two@main"]);
    let found =
        repositories(&with(json!([{"pathsExist": ["deploy"]}]), false), &password("p")).await.unwrap();
    assert_eq!(shown(&found), ["two@main"]);

    let https = json!({"cloneProtocol": "https", "bitbucketServer": {
        "project": "ACME", "api": format!("{}/rest", server.url), "basicAuth": basic,
        "bearerToken": {"tokenRef": {"secretName": "s", "key": "t"}}}});
    let both = Credentials { token: Some(Secret::from("b")), ..password("p") };
    let found = repositories(&https, &both).await.unwrap();
    assert_eq!(found.first().unwrap().url, "https://h/scm/acme/one.git");
    let last = server.asked().last().unwrap().clone();
    assert_eq!(
        last.headers.get("authorization").map(String::as_str),
        Some("Bearer b"),
        "a token counts more"
    );
}

#[tokio::test]
async fn aset_64_open_pull_requests_of_bitbucket_server() {
    let request = |id: i64| {
        json!({
        "id": id, "title": "t", "fromRef": {"displayId": "feat", "latestCommit": "abc"}, "toRef": {"displayId": "main"},
        "author": {"user": {"name": "ann"}}})
    };
    let server = Double::start(move |asked| match asked.target.as_str() {
        "/rest/api/1.0/projects/ACME/repos/web/pull-requests?state=OPEN&limit=100" => {
            ok(json!({"values": [request(1)], "isLastPage": false, "nextPageStart": 1}))
        }
        "/rest/api/1.0/projects/ACME/repos/web/pull-requests?state=OPEN&limit=100&start=1" => {
            ok(json!({"values": [request(2)], "isLastPage": true}))
        }
        _ => status(404),
    })
    .await;
    let block = |repository: &str| json!({"bitbucketServer": {"project": "ACME", "repo": repository, "api": server.url}});
    let found = pull_requests(&block("web"), &Credentials::default()).await.unwrap();
    assert_eq!(found.iter().map(|one| one.number.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    let first = found.first().unwrap();
    assert_eq!((first.branch.as_str(), first.target_branch.as_str()), ("feat", "main"));
    assert_eq!((first.author.as_str(), first.head_sha.as_str(), first.labels.len()), ("ann", "abc", 0));
    let error = pull_requests(&block("gone"), &Credentials::default()).await.unwrap_err();
    assert_eq!(error, ScmError::RepositoryNotFound("gone".to_owned()));
}
