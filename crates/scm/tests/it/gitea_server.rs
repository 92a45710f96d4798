//! A real Gitea (ASET-58, ASET-64). `make gitea` builds one and runs this.

#![expect(clippy::panic, reason = "helpers of tests, which the lints do not recognise")]

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use reqwest::Method;
use serde_json::{Value, json};
use tiphys_scm::{Credentials, ScmError};

use crate::double::{pull_requests, repositories, shown, token};

/// More than one page: Gitea gives no more than 50 items at once, whatever it is asked for.
const REPOSITORIES: usize = 61;

/// A running Gitea.
struct Gitea {
    directory: tempfile::TempDir,
    program: PathBuf,
    url: String,
    token: String,
    child: Option<tokio::process::Child>,
}

impl Gitea {
    /// `None`, aloud, where there is no program.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    async fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("TIPHYS_TEST_GITEA").map(PathBuf::from) else {
            eprintln!("skipped: TIPHYS_TEST_GITEA names no gitea program (hack/gitea builds one)");
            return None;
        };
        // For the requests of the test itself; another test may have done it.
        let _is_new = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let directory = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("http://127.0.0.1:{port}");
        let at = directory.path().display();
        let assets = program.parent().unwrap().display();
        let settings = format!(
            "I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true\nRUN_MODE = prod\n\
             [server]\nHTTP_ADDR = 127.0.0.1\nHTTP_PORT = {port}\nROOT_URL = {url}/\nOFFLINE_MODE = true\n\
             DISABLE_SSH = true\nSTATIC_ROOT_PATH = {assets}\nAPP_DATA_PATH = {at}/data\n\
             [database]\nDB_TYPE = sqlite3\nPATH = {at}/gitea.db\n\
             [repository]\nROOT = {at}/repositories\n\
             [security]\nINSTALL_LOCK = true\nSECRET_KEY = x\n\
             [indexer]\nISSUE_INDEXER_TYPE = db\n\
             [log]\nMODE = console\nLEVEL = warn\n"
        );
        std::fs::write(directory.path().join("app.ini"), settings).unwrap();
        let mut gitea = Self { directory, program, url, token: String::new(), child: None };
        gitea.run(&["migrate"]).await;
        let said = gitea
            .run(&[
                "admin",
                "user",
                "create",
                "--admin",
                "--username",
                "ann",
                "--password",
                "a-long-password",
                "--email",
                "ann@example.com",
                "--must-change-password=false",
                "--access-token",
                "--access-token-name",
                "test",
                "--access-token-scopes",
                "all",
            ])
            .await;
        let token = said.split_whitespace().find(|word| word.len() == 40).unwrap().to_owned();
        gitea.token = token;
        gitea.child = Some(gitea.command(&["web"]).spawn().unwrap());
        for _ in 0..600 {
            if gitea.try_api(Method::GET, "version", Value::Null).await.is_some() {
                return Some(gitea);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("Gitea does not start");
    }

    fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let at = self.directory.path();
        let mut command = tokio::process::Command::new(&self.program);
        command
            .args(["--config".as_ref(), at.join("app.ini").as_os_str()])
            .args(["--work-path".as_ref(), at.as_os_str()])
            .args(arguments)
            .env("HOME", at)
            .current_dir(at)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, arguments: &[&str]) -> String {
        let output =
            self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said} {}", String::from_utf8_lossy(&output.stderr));
        said
    }

    async fn try_api(&self, method: Method, path: &str, body: Value) -> Option<(u16, Value)> {
        let mut request = reqwest::Client::new()
            .request(method, format!("{}/api/v1/{path}", self.url))
            .header("authorization", format!("token {}", self.token));
        if !body.is_null() {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        Some((status, serde_json::from_slice(&answer.bytes().await.ok()?).unwrap_or_default()))
    }

    async fn api(&self, method: Method, path: &str, body: Value) -> Value {
        let (status, answer) = self.try_api(method, path, body).await.unwrap();
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    async fn make(&self, path: &str, body: Value) -> Value {
        self.api(Method::POST, path, body).await
    }

    /// An organisation with many repositories, the first of which has labels, branches and pull requests.
    async fn fill(&self) {
        self.make("orgs", json!({"username": "acme"})).await;
        for n in 0..REPOSITORIES {
            let default = if n == 0 { "release/1" } else { "main" };
            let repository = json!({"name": format!("r{n:02}"), "auto_init": true, "default_branch": default,
                "private": n == 1});
            self.make("orgs/acme/repos", repository).await;
        }
        self.make("orgs/acme/repos", json!({"name": "old", "auto_init": true})).await;
        self.api(Method::PATCH, "repos/acme/old", json!({"archived": true})).await;
        for label in ["bug", "prod"] {
            self.make("repos/acme/r00/labels", json!({"name": label, "color": "#00aabb"})).await;
        }
        for (branch, title, labels) in [("feat/a", "one", json!([1, 2])), ("fix", "two", json!([]))] {
            let file = json!({"content": base64::engine::general_purpose::STANDARD.encode("x"),
                "message": "m", "branch": "release/1", "new_branch": branch});
            self.make(&format!("repos/acme/r00/contents/deploy/{title}.yaml"), file).await;
            let request = json!({"title": title, "head": branch, "base": "release/1", "labels": labels});
            self.make("repos/acme/r00/pulls", request).await;
        }
        let closed =
            json!({"content": "eA==", "message": "m", "branch": "release/1", "new_branch": "closed"});
        self.make("repos/acme/r00/contents/c", closed).await;
        let pull = self
            .make("repos/acme/r00/pulls", json!({"title": "three", "head": "closed", "base": "release/1"}))
            .await;
        let pull = format!("repos/acme/r00/pulls/{}", pull["number"]);
        self.api(Method::PATCH, &pull, json!({"state": "closed"})).await;
    }

    async fn head(&self, repository: &str, branch: &str) -> String {
        let branch =
            self.api(Method::GET, &format!("repos/acme/{repository}/branches/{branch}"), Value::Null).await;
        branch["commit"]["id"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn aset_58_64_a_real_gitea() {
    let Some(mut gitea) = Gitea::start().await else { return };
    gitea.fill().await;
    let (url, own) = (gitea.url.clone(), token(&gitea.token));
    let set = |change: Value| {
        let mut block = json!({"owner": "acme", "api": url});
        block.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        block
    };

    // All pages, with what the API itself says of one.
    let found =
        repositories(&json!({"gitea": set(json!({"excludeArchivedRepos": true}))}), &own).await.unwrap();
    assert_eq!(found.len(), REPOSITORIES);
    let mut names: Vec<&str> = found.iter().map(|one| one.repository.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), REPOSITORIES, "no page came twice");
    let first = found.iter().find(|one| one.repository == "r00").unwrap();
    assert_eq!((first.branch.as_str(), first.organization.as_str()), ("release/1", "acme"));
    assert_eq!(first.sha, gitea.head("r00", "release/1").await);
    assert!(
        first.labels.contains(&"prod".to_owned()) && first.labels.contains(&"bug".to_owned()),
        "{first:?}"
    );
    assert!(first.url.ends_with("acme/r00.git") && !first.url.starts_with("http"), "{}", first.url);
    let https = json!({"gitea": set(json!({})), "cloneProtocol": "https"});
    let all = repositories(&https, &own).await.unwrap();
    assert_eq!(all.len(), REPOSITORIES + 1, "with the archived one");
    assert!(all.iter().all(|one| one.url.starts_with(&format!("{url}/acme/"))), "{all:?}");

    // Filters.
    let filtered =
        |filters: Value, all: bool| json!({"gitea": set(json!({"allBranches": all})), "filters": filters});
    let asked = filtered(json!([{"labelMatch": "^prod$", "branchMatch": "^f"}]), true);
    let mut of_prod = shown(&repositories(&asked, &own).await.unwrap());
    of_prod.sort_unstable();
    assert_eq!(of_prod, ["r00@feat/a", "r00@fix"]);
    let asked = filtered(json!([{"repositoryMatch": "^r0[01]$", "pathsExist": ["deploy/one.yaml"]}]), true);
    assert_eq!(shown(&repositories(&asked, &own).await.unwrap()), ["r00@feat/a"]);
    let asked = filtered(
        json!([{"repositoryMatch": "^r0[01]$", "pathsDoNotExist": ["deploy/one.yaml", "c"]}]),
        false,
    );
    assert_eq!(shown(&repositories(&asked, &own).await.unwrap()), ["r00@release/1", "r01@main"]);

    // Who is nobody sees what is public, and who is wrong sees an error.
    let public = repositories(&json!({"gitea": set(json!({}))}), &Credentials::default()).await.unwrap();
    assert!(public.len() == REPOSITORIES && !public.iter().any(|one| one.repository == "r01"), "{public:?}");
    let refused = repositories(&json!({"gitea": set(json!({}))}), &token("0123456789abcdef")).await;
    assert!(matches!(refused, Err(ScmError::Denied { status: 401, .. })), "{refused:?}");
    let nobody = repositories(&json!({"gitea": set(json!({"owner": "nobody"}))}), &own).await;
    assert!(matches!(nobody, Err(ScmError::NotFound { .. })), "{nobody:?}");

    // Pull requests: the open ones.
    let pulls = |repository: &str, labels: Value| json!({"gitea": set(json!({"repo": repository, "labels": labels}))});
    let mut open = pull_requests(&pulls("r00", json!([])), &own).await.unwrap();
    open.sort_by(|a, b| a.title.cmp(&b.title));
    let titles: Vec<_> = open.iter().map(|one| (one.title.as_str(), one.branch.as_str())).collect();
    assert_eq!(titles, [("one", "feat/a"), ("two", "fix")]);
    let one = open.first().unwrap();
    assert_eq!(one.head_sha, gitea.head("r00", "feat/a").await);
    assert_eq!((one.target_branch.as_str(), one.author.as_str()), ("release/1", "ann"));
    let labelled = pull_requests(&pulls("r00", json!(["prod", "bug"])), &own).await.unwrap();
    assert_eq!(labelled.iter().map(|one| one.title.as_str()).collect::<Vec<_>>(), ["one"]);
    let gone = pull_requests(&pulls("gone", json!([])), &own).await;
    assert_eq!(gone, Err(ScmError::RepositoryNotFound("gone".to_owned())));

    // A server that is gone is an error and no empty organisation.
    gitea.child.take().unwrap().kill().await.unwrap();
    let dead = repositories(&json!({"gitea": set(json!({}))}), &own).await;
    assert!(matches!(dead, Err(ScmError::Unreachable { .. })), "{dead:?}");
}
