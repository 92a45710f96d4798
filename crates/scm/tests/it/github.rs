//! GitHub.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tiphys_api::secret::Secret;
use tiphys_scm::{Credentials, GithubApp, GithubRequest, Observer, ScmError, ScmOptions};

use crate::double::{
    Asked, Double, Reply, ok, options, pull_requests, repositories, repositories_with, shown, status, token,
};

fn repository(id: i64, name: &str) -> Value {
    json!({
        "id": id, "name": name, "full_name": format!("acme/{name}"), "owner": {"login": "acme"},
        "ssh_url": format!("git@github.com:acme/{name}.git"), "clone_url": format!("https://github.com/acme/{name}.git"),
        "default_branch": "main", "topics": ["team-a", name], "archived": name == "old",
    })
}

/// Two pages of repositories with their branches.
fn organization(asked: &Asked) -> Reply {
    let next = "<https://elsewhere.example/organizations/1/repos?per_page=100&page=2>; rel=\"next\", <x>; rel=\"last\"";
    match asked.target.as_str() {
        "/api/v3/orgs/acme/repos?per_page=100" => {
            ok(json!([repository(1, "one"), repository(2, "old")])).with("link", next)
        }
        "/api/v3/orgs/acme/repos?per_page=100&page=2" => {
            ok(json!([repository(9_007_199_254_740_993, "two"), repository(4, "empty")]))
        }
        "/api/v3/repos/acme/one/branches/main" | "/api/v3/repos/acme/old/branches/main" => {
            ok(json!({"name": "main", "commit": {"sha": "0123456789abcdef"}}))
        }
        "/api/v3/repos/acme/two/branches/main" => ok(json!({"name": "main", "commit": {"sha": "fedcba"}})),
        "/api/v3/repos/acme/one/branches?per_page=100" | "/api/v3/repos/acme/two/branches?per_page=100" => {
            ok(json!([
                {"name": "main", "commit": {"sha": "0123456789abcdef"}},
                {"name": "feature/x", "commit": {"sha": "aa"}},
            ]))
        }
        "/api/v3/repos/acme/old/branches?per_page=100" | "/api/v3/repos/acme/empty/branches?per_page=100" => {
            ok(json!([]))
        }
        "/api/v3/repos/acme/one/contents/deploy/app.yaml?ref=main"
        | "/api/v3/repos/acme/one/contents/deploy?ref=main"
        | "/api/v3/repos/acme/two/contents/deploy?ref=feature%2Fx" => ok(json!({})),
        _ => status(404),
    }
}

#[tokio::test]
async fn aset_58_all_pages_of_an_organization_of_github() {
    let server = Double::start(organization).await;
    let generator = json!({"github": {"organization": "acme", "api": server.url, "tokenRef": {"secretName": "s", "key": "k"}}});
    let found = repositories(&generator, &token("t0ken")).await.unwrap();
    assert_eq!(shown(&found), ["one@main", "old@main", "two@main"], "an empty repository has no branch");
    let two = found.last().unwrap();
    assert_eq!((two.organization.as_str(), two.sha.as_str()), ("acme", "fedcba"));
    assert_eq!(two.repository_id, json!(9_007_199_254_740_993_i64), "ids stay whole");
    assert_eq!(two.url, "git@github.com:acme/two.git");
    assert_eq!(two.labels, ["team-a", "two"]);
    for asked in server.asked() {
        assert_eq!(asked.headers.get("authorization").map(String::as_str), Some("Bearer t0ken"));
        assert_eq!(asked.headers.get("accept").map(String::as_str), Some("application/vnd.github+json"));
        assert_eq!(asked.headers.get("user-agent").map(String::as_str), Some("tiphys"));
    }

    let generator = json!({"cloneProtocol": "https", "github": {
        "organization": "acme", "api": server.url, "allBranches": true, "excludeArchivedRepos": true}});
    let found = repositories(&generator, &Credentials::default()).await.unwrap();
    assert_eq!(shown(&found), ["one@main", "one@feature/x", "two@main", "two@feature/x"]);
    assert_eq!(found.first().unwrap().url, "https://github.com/acme/one.git");
    assert!(!server.asked().last().unwrap().headers.contains_key("authorization"));
}

#[tokio::test]
async fn aset_57_filters_of_repositories_and_branches() {
    let server = Double::start(organization).await;
    let with = |filters: Value| {
        json!({"filters": filters, "github": {
            "organization": "acme", "api": server.url, "allBranches": true, "excludeArchivedRepos": true}})
    };
    let none = Credentials::default();
    for (filters, expected) in [
        (json!([]), vec!["one@main", "one@feature/x", "two@main", "two@feature/x"]),
        (json!([{}]), vec!["one@main", "one@feature/x", "two@main", "two@feature/x"]),
        (json!([{"repositoryMatch": "^t"}]), vec!["two@main", "two@feature/x"]),
        (json!([{"labelMatch": "^one$"}]), vec!["one@main", "one@feature/x"]),
        (json!([{"branchMatch": "x$"}]), vec!["one@feature/x", "two@feature/x"]),
        (json!([{"repositoryMatch": "one", "branchMatch": "x$"}]), vec!["one@feature/x"]),
        // A filter for repositories and one for branches: both are needed.
        (json!([{"repositoryMatch": "one"}, {"branchMatch": "x$"}]), vec!["one@feature/x"]),
        (json!([{"repositoryMatch": "one"}, {"repositoryMatch": "none", "branchMatch": "."}]), vec![]),
        (json!([{"pathsExist": ["deploy/", "deploy/app.yaml"]}]), vec!["one@main"]),
        (json!([{"pathsExist": ["deploy"]}]), vec!["one@main", "two@feature/x"]),
        (json!([{"pathsExist": ["deploy"], "pathsDoNotExist": ["deploy/app.yaml"]}]), vec!["two@feature/x"]),
        (json!([{"pathsExist": ["../deploy"]}]), vec![]),
        (
            json!([{"pathsExist": ["/"]}, {"branchMatch": "nothing"}]),
            vec!["one@main", "one@feature/x", "two@main", "two@feature/x"],
        ),
    ] {
        let found = repositories(&with(filters.clone()), &none).await.unwrap();
        assert_eq!(shown(&found), expected, "{filters}");
    }
    let documented = ScmOptions { filter_mode: tiphys_scm::FilterMode::Documented, ..options() };
    for (filters, expected) in [
        (
            json!([{"repositoryMatch": "one"}, {"branchMatch": "x$"}]),
            vec!["one@main", "one@feature/x", "two@feature/x"],
        ),
        (
            json!([{"repositoryMatch": "one", "branchMatch": "x$"}, {"labelMatch": "nothing"}]),
            vec!["one@feature/x"],
        ),
        (json!([{}]), vec!["one@main", "one@feature/x", "two@main", "two@feature/x"]),
    ] {
        let found = repositories_with(documented.clone(), &with(filters.clone()), &none).await.unwrap();
        assert_eq!(shown(&found), expected, "{filters}");
    }
    let error = repositories(&with(json!([{"branchMatch": "("}])), &none).await.unwrap_err();
    assert!(error.to_string().contains("branchMatch"), "{error}");
}

fn pull(number: i64, branch: &str, labels: &[&str]) -> Value {
    let labels: Vec<Value> = labels.iter().map(|name| json!({"name": name})).collect();
    json!({
        "number": number, "title": format!("change {number}"), "labels": labels,
        "head": {"ref": branch, "sha": "0123456789"}, "base": {"ref": "main"}, "user": {"login": "ann"},
    })
}

#[tokio::test]
async fn aset_64_open_pull_requests_of_github() {
    let server = Double::start(|asked| match asked.target.as_str() {
        "/api/v3/repos/acme/web/pulls?state=open&per_page=100" => {
            let next = "</api/v3/x?state=open&per_page=100&page=2>; rel=\"next\"";
            ok(json!([pull(1, "a", &["preview"]), pull(2, "b", &["preview", "big"])])).with("link", next)
        }
        "/api/v3/repos/acme/web/pulls?state=open&per_page=100&page=2" => {
            ok(json!([pull(3, "c", &["big", "preview"]), pull(4, "d", &[])]))
        }
        _ => status(404),
    })
    .await;
    let github = |repository: &str, labels: Value| json!({"owner": "acme", "repo": repository, "api": server.url, "labels": labels});
    let none = Credentials::default();
    let numbers =
        |found: &[tiphys_scm::PullRequest]| found.iter().map(|one| one.number.clone()).collect::<Vec<_>>();
    let found = pull_requests(&json!({"github": github("web", json!(null))}), &none).await.unwrap();
    assert_eq!(numbers(&found), ["1", "2", "3", "4"]);
    let first = found.first().unwrap();
    assert_eq!((first.branch.as_str(), first.target_branch.as_str()), ("a", "main"));
    assert_eq!((first.author.as_str(), first.head_sha.as_str()), ("ann", "0123456789"));
    assert_eq!(
        (first.title.as_str(), first.labels.as_slice()),
        ("change 1", ["preview".to_owned()].as_slice())
    );
    let found =
        pull_requests(&json!({"github": github("web", json!(["preview", "big"]))}), &none).await.unwrap();
    assert_eq!(numbers(&found), ["2", "3"], "all labels");
    let filters = json!([{"branchMatch": "^[ab]$", "titleMatch": "2"}, {"targetBranchMatch": "dev"}, {"branchMatch": "d"}]);
    let found =
        pull_requests(&json!({"github": github("web", json!([])), "filters": filters}), &none).await.unwrap();
    assert_eq!(numbers(&found), ["2", "4"]);

    let gone = json!({"github": github("gone", json!([]))});
    assert_eq!(
        pull_requests(&gone, &none).await.unwrap_err(),
        ScmError::RepositoryNotFound("gone".to_owned())
    );
    let gone = json!({"github": github("gone", json!([])), "continueOnRepoNotFoundError": true});
    assert_eq!(pull_requests(&gone, &none).await, Ok(Vec::new()));
}

const KEY: &str = include_str!("../data/rsa.pem");

fn app(installation: i64, base_url: &str) -> Credentials {
    let app = GithubApp { id: 7, installation, key: Secret::from(KEY), base_url: base_url.to_owned() };
    Credentials { github_app: Some(app), ..Credentials::default() }
}

#[tokio::test]
async fn aset_58_a_github_app_logs_in_and_its_token_is_kept() {
    let server = Double::start(|asked| match (asked.method.as_str(), asked.target.as_str()) {
        ("GET", "/api/v3/users/acme/installation") => ok(json!({"id": 42})),
        ("POST", "/api/v3/app/installations/42/access_tokens") => {
            ok(json!({"token": "ghs_1", "expires_at": "2999-01-01T00:00:00Z"}))
        }
        ("GET", "/api/v3/orgs/acme/repos?per_page=100") => ok(json!([])),
        _ => status(404),
    })
    .await;
    let scm = tiphys_scm::Scm::new(options());
    let read = |github: Value| {
        tiphys_scm::ScmGenerator::read(&crate::double::block(&json!({"github": github}))).unwrap()
    };
    let generator = read(json!({"organization": "acme", "appSecretName": "app"}));
    assert_eq!(generator.needs().github_app.as_deref(), Some("app"));
    let set = tiphys_scm::SetName::default();
    for _ in 0..2 {
        let credentials = app(0, &server.url);
        let request = tiphys_scm::Request { generator: &generator, credentials: &credentials, set: &set };
        assert_eq!(scm.repositories(request).await, Ok(Vec::new()));
    }
    assert_eq!(
        server.targets(),
        [
            "GET /api/v3/orgs/acme/installation",
            "GET /api/v3/users/acme/installation",
            "POST /api/v3/app/installations/42/access_tokens",
            "GET /api/v3/orgs/acme/repos?per_page=100",
            "GET /api/v3/orgs/acme/repos?per_page=100",
        ]
    );
    let asked = server.asked();
    let authorization = |index: usize| asked[index].headers["authorization"].clone();
    assert!(authorization(2).starts_with("Bearer eyJ"), "signed by the app");
    assert_eq!(authorization(3), "Bearer ghs_1");

    // The address of the generator counts more than that of the app; an installation may be named.
    let other = Double::start(|_| status(404)).await;
    let generator = read(json!({"organization": "acme", "appSecretName": "app", "api": other.url}));
    let credentials = app(5, &server.url);
    let request = tiphys_scm::Request { generator: &generator, credentials: &credentials, set: &set };
    let error = scm.repositories(request).await.unwrap_err();
    assert!(error.to_string().contains("is not installed"), "{error}");
    assert_eq!(other.targets(), ["POST /api/v3/app/installations/5/access_tokens"]);
}

#[tokio::test]
async fn aset_58_the_token_of_the_environment_is_for_github_alone() {
    let server = Double::start(organization).await;
    let generator = json!({"github": {"organization": "acme", "api": server.url}});
    let ours = ScmOptions { github_token: Some(Secret::from("ours")), ..options() };
    repositories_with(ours, &generator, &Credentials::default()).await.unwrap();
    assert!(server.asked().iter().all(|asked| !asked.headers.contains_key("authorization")));
}

#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Observer for Seen {
    fn github(&self, request: &GithubRequest<'_>) {
        let left =
            request.rate_limit.as_ref().map(|limit| (limit.remaining, limit.limit, limit.resource.clone()));
        self.0.lock().unwrap().push(format!(
            "{} {} {:?} {}/{} {left:?}",
            request.method, request.endpoint, request.status, request.set.namespace, request.set.name
        ));
    }
}

#[tokio::test]
async fn aset_311_questions_to_github_are_told() {
    let server = Double::start(|asked| match asked.target.as_str() {
        "/api/v3/orgs/acme/repos?per_page=100" => ok(json!([repository(1, "one")]))
            .with("x-ratelimit-remaining", "59")
            .with("x-ratelimit-limit", "60")
            .with("x-ratelimit-reset", "4102444800")
            .with("x-ratelimit-resource", "core"),
        _ => status(403)
            .with("x-ratelimit-remaining", "0")
            .with("x-ratelimit-limit", "60")
            .with("x-ratelimit-reset", "4102444800")
            .with("x-ratelimit-resource", "made up"),
    })
    .await;
    let seen = Arc::new(Seen::default());
    let observer: Arc<dyn Observer> = Arc::<Seen>::clone(&seen);
    let told = ScmOptions { observer: Some(observer), ..options() };
    let generator = json!({"github": {"organization": "acme", "api": server.url}});
    let error = repositories_with(told, &generator, &Credentials::default()).await.unwrap_err();
    assert!(error.to_string().contains("2100-01-01T00:00:00Z"), "{error}");
    assert_eq!(
        *seen.0.lock().unwrap(),
        [
            "GET /orgs/{org}/repos Some(200) argocd/set Some((59, 60, \"core\"))",
            "GET /repos/{owner}/{repo}/branches/{branch} Some(403) argocd/set Some((0, 60, \"other\"))",
        ]
    );
}
