//! GitLab.

use serde_json::{Value, json};
use tiphys_scm::{Credentials, ScmError};

use crate::double::{Asked, Double, Reply, ok, pull_requests, repositories, shown, status, token};

fn project(id: i64, path: &str, branch: Value) -> Value {
    json!({
        "id": id, "path": path, "name": "Shown Name", "namespace": {"full_path": "acme/platform"},
        "path_with_namespace": format!("acme/platform/{path}"), "default_branch": branch,
        "ssh_url_to_repo": format!("git@h:acme/platform/{path}.git"),
        "http_url_to_repo": format!("https://h/acme/platform/{path}.git"),
        "topics": if path == "one" { json!(["x", "y"]) } else { json!([]) }, "tag_list": ["old"],
    })
}

fn group(asked: &Asked) -> Reply {
    let listed = "per_page=100&include_subgroups=true&with_shared=false&archived=false&topic=k8s";
    let first = format!("/api/v4/groups/acme%2Fplatform/projects?{listed}");
    let second = format!("{first}&page=2");
    match asked.target.as_str() {
        target if target == first => {
            // The link's host is what the server believes to be called; only the page counts.
            ok(json!([project(1, "one", json!("main"))]))
                .with("x-next-page", "2")
                .with("link", "<http://inner/?page=2>; rel=\"next\"")
        }
        target if target == second => {
            ok(json!([project(2, "two", json!("trunk")), project(3, "empty", json!(null))]))
                .with("x-next-page", "")
        }
        "/api/v4/groups/acme%2Fplatform/projects?per_page=100&include_subgroups=false&with_shared=true" => {
            ok(json!([project(1, "one", json!("main"))]))
        }
        "/api/v4/projects/1/repository/branches/main" => ok(json!({"name": "main", "commit": {"id": "c1"}})),
        "/api/v4/projects/1/repository/branches?per_page=100" => {
            ok(json!([{"name": "main", "commit": {"id": "c1"}}]))
                .with("link", "</api/v4/x?per_page=100&page=2>; rel=\"next\"")
        }
        "/api/v4/projects/1/repository/branches?per_page=100&page=2" => {
            ok(json!([{"name": "b/2", "commit": {"id": "c2"}}]))
        }
        "/api/v4/projects/1/repository/files/deploy%2Fa.yaml?ref=main" => ok(json!({})),
        "/api/v4/projects/1/repository/tree?path=deploy&ref=main&per_page=1" => {
            ok(json!([{"name": "a.yaml"}]))
        }
        "/api/v4/projects/1/repository/tree?path=none&ref=main&per_page=1" => ok(json!([])),
        _ => status(404),
    }
}

#[tokio::test]
async fn aset_58_projects_of_a_group_of_gitlab() {
    let server = Double::start(group).await;
    let generator = json!({"gitlab": {
        "group": "acme/platform", "api": format!("{}/", server.url), "includeSubgroups": true, "includeSharedProjects": false,
        "topic": "k8s", "tokenRef": {"secretName": "s", "key": "k"}}});
    let found = repositories(&generator, &token("glpat")).await.unwrap();
    assert_eq!(shown(&found), ["one@main"], "two has a default branch that is not there, empty has none");
    let one = found.first().unwrap();
    assert_eq!((one.organization.as_str(), one.sha.as_str()), ("acme/platform", "c1"));
    assert_eq!(
        (&one.repository_id, one.labels.as_slice()),
        (&json!(1), ["x".to_owned(), "y".to_owned()].as_slice())
    );
    assert_eq!(one.url, "git@h:acme/platform/one.git");
    for asked in server.asked() {
        assert_eq!(asked.headers.get("private-token").map(String::as_str), Some("glpat"));
        assert!(!asked.headers.contains_key("authorization"));
    }

    let with = |filters: Value| {
        json!({"cloneProtocol": "https", "filters": filters, "gitlab": {
        "group": "acme/platform", "api": server.url, "includeArchivedRepos": true, "allBranches": true}})
    };
    let none = Credentials::default();
    let found = repositories(&with(json!([])), &none).await.unwrap();
    assert_eq!(shown(&found), ["one@main", "one@b/2"]);
    assert_eq!(found.first().unwrap().url, "https://h/acme/platform/one.git");
    for (path, expected) in [("deploy/a.yaml", 1), ("deploy", 1), ("none", 0), ("gone", 0)] {
        let found = repositories(&with(json!([{"pathsExist": [path]}])), &none).await.unwrap();
        assert_eq!(found.len(), expected, "{path}");
    }
    let file = server.asked().into_iter().find(|asked| asked.target.contains("/files/")).unwrap();
    assert_eq!(file.method, "HEAD", "the content is not wanted");
}

#[tokio::test]
async fn aset_57_where_nothing_answers_head_paths_are_asked_for_by_get() {
    let server = Double::start(|asked| match (asked.method.as_str(), asked.target.as_str()) {
        ("HEAD", _) => status(405),
        // A content that is no JSON, and that nobody reads.
        ("GET", "/api/v4/projects/1/repository/files/deploy%2Fa.yaml?ref=main") => {
            Reply { body: "a: 1".to_owned(), ..ok(json!(null)) }
        }
        _ => group(asked),
    })
    .await;
    for (path, expected) in [("deploy/a.yaml", 1), ("none", 0)] {
        let generator = json!({"filters": [{"pathsExist": [path]}], "gitlab": {
            "group": "acme/platform", "api": server.url, "includeArchivedRepos": true, "allBranches": true}});
        let found = repositories(&generator, &Credentials::default()).await;
        assert_eq!(found.unwrap().len(), expected, "{path}");
    }
}

#[tokio::test]
async fn aset_64_merge_requests_of_gitlab_in_any_state() {
    let request = |iid: i64| {
        json!({
        "iid": iid, "id": 1000 + iid, "title": "t", "source_branch": "feat", "target_branch": "main", "sha": "abc",
        "author": {"username": "ann"}, "labels": ["x"]})
    };
    let server = Double::start(move |asked| match asked.target.as_str() {
        "/api/v4/projects/acme%2Fweb/merge_requests?per_page=100" => {
            ok(json!([request(1)])).with("x-next-page", "2")
        }
        "/api/v4/projects/acme%2Fweb/merge_requests?per_page=100&page=2" => {
            ok(json!([request(2)])).with("x-next-page", "")
        }
        "/api/v4/projects/acme%2Fweb/merge_requests?per_page=100&labels=x%2Cy&state=opened" => {
            ok(json!([request(3)]))
        }
        _ => status(404),
    })
    .await;
    let none = Credentials::default();
    let gitlab = |project: &str| json!({"project": project, "api": server.url});
    let found = pull_requests(&json!({"gitlab": gitlab("acme/web")}), &none).await.unwrap();
    assert_eq!(found.iter().map(|one| one.number.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    let first = found.first().unwrap();
    assert_eq!(
        (first.branch.as_str(), first.target_branch.as_str(), first.head_sha.as_str()),
        ("feat", "main", "abc")
    );
    assert_eq!((first.author.as_str(), first.labels.len()), ("ann", 1));
    let mut wanted = gitlab("acme/web");
    wanted["labels"] = json!(["x", "y"]);
    wanted["pullRequestState"] = json!("opened");
    let found = pull_requests(&json!({"gitlab": wanted}), &none).await.unwrap();
    assert_eq!(found.first().unwrap().number, "3");
    let error = pull_requests(&json!({"gitlab": gitlab("9")}), &none).await.unwrap_err();
    assert_eq!(error, ScmError::RepositoryNotFound("9".to_owned()));
}
