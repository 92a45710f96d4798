//! What repositories are asked for, and what is remembered of them (REP A6, API-170..174).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tiphys_source::{Clock, ManualClock, MemoryRepositories, SourceOptions, Sources, Trouble};

use crate::home::Setup;

const REPOSITORIES: &str = "/api/v1/repositories";
const URL: &str = "https://git/r";
const ONE: &str = "/api/v1/repositories/https%3A%2F%2Fgit%2Fr";

/// Repositories in memory, and the clock of those who ask them.
struct Servers {
    repositories: MemoryRepositories,
    clock: Clock,
    time: ManualClock,
}

fn setup(servers: &Servers) -> Setup {
    let policy = "p, kim, repositories, *, shop/*, allow\np, kim, applications, create, shop/*, allow\n\
                  p, bo, repositories, get, shop/*, allow\n";
    setup_with(servers, policy)
}

fn setup_with(servers: &Servers, policy: &str) -> Setup {
    let mut options = SourceOptions::new(Path::new("unused"));
    options.clock = servers.clock.clone();
    let destinations = json!([{"server": "https://kubernetes.default.svc", "namespace": "*"}]);
    Setup::new()
        .config_map("argocd-cm", &[("accounts.kim", "login"), ("accounts.bo", "login")])
        .config_map("argocd-rbac-cm", &[("policy.csv", policy)])
        .project("shop", &json!({"sourceRepos": [URL], "destinations": destinations}))
        .project("other", &json!({"sourceRepos": ["https://git/else"], "destinations": destinations}))
        .sources(Sources::in_memory(options, servers.repositories.clone()))
}

fn repository(setup: &Setup, name: &str, url: &str, project: &str) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "argocd",
            "labels": {"argocd.argoproj.io/secret-type": "repository"}},
        "stringData": {"url": url, "project": project, "username": "u", "password": "hunter2"}});
    setup.ask(Method::POST, "/api/v1/namespaces/argocd/secrets", &secret);
}

fn servers() -> Servers {
    let repositories = MemoryRepositories::default();
    let files = ["README.md", "web/Chart.yaml", "over/lay/kustomization.yaml", "plain/cm.yaml"];
    let files: BTreeMap<String, Bytes> =
        files.iter().map(|path| ((*path).to_owned(), Bytes::from_static(b"a: b"))).collect();
    repositories.commit(URL, "main", files.clone(), 1).unwrap();
    repositories.commit(URL, "next", files, 2).unwrap();
    let (clock, time) = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    Servers { repositories, clock, time }
}

/// From now on the server refuses, or answers again. What was answered before is not new any more.
fn refuse(servers: &Servers, why: Option<&str>) {
    let failure = why.map(str::to_owned);
    servers.repositories.set_trouble(URL, Trouble { failure, delay: Duration::ZERO });
    servers.time.advance(Duration::from_secs(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rep_51_rep_52_references_need_the_right_to_get_the_repository_that_is_found() {
    let servers = servers();
    let setup = setup(&servers);
    repository(&setup, "shop", URL, "shop");
    repository(&setup, "other", URL, "other");
    let home = setup.start().await;
    let (admin, kim) = (home.account("admin"), home.account("kim"));
    let refs = format!("{ONE}/refs");
    let expected = json!({"branches": ["main", "next"]});
    assert_eq!(kim.ok("GET", &format!("{refs}?appProject=shop"), &Value::Null).await, expected);
    assert_eq!(kim.ok("GET", &refs, &Value::Null).await, expected, "REP-52: the only one that is seen");
    let (status, text) = kim.refused("GET", &format!("{refs}?appProject=other"), &Value::Null).await;
    assert!(status == 403 && text.starts_with("permission denied"), "{text}");
    assert!(!text.contains("hunter2"));
    // An administrator sees two, and means neither: what nobody has configured has no credentials.
    assert_eq!(admin.ok("GET", &refs, &Value::Null).await, expected);
    // REP-53: who may not, and what is not, look alike.
    let nothing = format!("{REPOSITORIES}/https%3A%2F%2Fgit%2Fnothing/refs");
    assert_eq!(kim.refused("GET", &nothing, &Value::Null).await.0, 403);
    refuse(&servers, Some("no"));
    let (status, _) = admin.refused("GET", &format!("{refs}?forceRefresh=true"), &Value::Null).await;
    assert_eq!(status, 503);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rep_51_folders_are_told_to_those_who_may_write_an_application_there() {
    let servers = servers();
    let setup = setup(&servers);
    repository(&setup, "shop", URL, "shop");
    let home = setup.start().await;
    let (admin, kim, bo) = (home.account("admin"), home.account("kim"), home.account("bo"));
    let apps = |project: &str| format!("{ONE}/apps?revision=main&appName=web&appProject={project}");
    let found = kim.ok("GET", &apps("shop"), &Value::Null).await;
    let expected =
        json!({"items": [{"type": "Kustomize", "path": "over/lay"}, {"type": "Helm", "path": "web"}]});
    assert_eq!(found, expected);
    let (status, text) = bo.refused("GET", &apps("shop"), &Value::Null).await;
    assert_eq!((status, text.as_str()), (403, "permission denied"));
    let (status, text) = admin.refused("GET", &apps("other"), &Value::Null).await;
    let refusal = format!("repository '{URL}' not permitted in project 'other'");
    assert_eq!((status, text), (403, refusal));
    assert_eq!(admin.refused("GET", &apps("nowhere"), &Value::Null).await.0, 403);
    let unknown = format!("{ONE}/apps?revision=gone&appName=web&appProject=shop");
    assert_eq!(kim.refused("GET", &unknown, &Value::Null).await.0, 400);
}

/// A source of the repository, as the API is asked about it.
fn details_of(path: &str, project: &str, app: &str) -> Value {
    json!({"source": {"repoURL": URL, "path": path, "targetRevision": "main"}, "appName": app, "appProject": project})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rep_51_rnd_153_details_are_told_to_those_who_see_the_application_or_may_write_it() {
    let servers = servers();
    let files = [
        ("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("web/values.yaml", "replicas: 1000000\nimage: {tag: v1}\n"),
        ("plain/cm.yaml", "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\n"),
        ("over/kustomization.yaml", "resources: [a.yaml]\n"),
        (
            "over/a.yaml",
            "kind: Pod\napiVersion: v1\nmetadata: {name: x}\nspec: {containers: [{name: a, image: nginx}]}\n",
        ),
    ];
    let files: BTreeMap<String, Bytes> =
        files.iter().map(|(path, text)| ((*path).to_owned(), Bytes::from_static(text.as_bytes()))).collect();
    servers.repositories.commit(URL, "main", files, 3).unwrap();
    let policy = "p, kim, repositories, *, shop/*, allow\np, kim, applications, *, shop/*, allow\n\
                  p, bo, repositories, get, shop/*, allow\np, bo, applications, get, shop/*, allow\n";
    let setup = setup_with(&servers, policy);
    repository(&setup, "shop", URL, "shop");
    let home = setup.start().await;
    let (admin, kim, bo) = (home.account("admin"), home.account("kim"), home.account("bo"));
    let target = format!("{ONE}/appdetails");
    let chart = kim.ok("POST", &target, &details_of("web", "shop", "web")).await;
    let expected = json!({"type": "Helm", "helm": {"valueFiles": ["values.yaml"],
        "values": "replicas: 1000000\nimage: {tag: v1}\n",
        "parameters": [{"name": "image.tag", "value": "v1"}, {"name": "replicas", "value": "1e+06"}],
        "plainParameters": [{"name": "replicas", "value": "1000000"}]}});
    assert_eq!(chart, expected);
    let overlay = kim.ok("POST", &target, &details_of("over", "shop", "web")).await;
    assert_eq!(overlay, json!({"type": "Kustomize", "kustomize": {"images": ["nginx"]}}));
    let plain = kim.ok("POST", &target, &details_of("plain", "shop", "argocd/web")).await;
    assert_eq!(plain, json!({"type": "Directory", "directory": {}}));
    // RND-11: what is not there is the caller's mistake.
    let (status, text) = kim.refused("POST", &target, &details_of("none", "shop", "web")).await;
    assert_eq!((status, text.as_str()), (400, "none: app path does not exist"));
    // Who may not write a new one is told nothing of it.
    let (status, text) = bo.refused("POST", &target, &details_of("web", "shop", "web")).await;
    assert!(status == 403 && text.contains("applications, create, shop/web"), "{text}");
    let (status, text) = admin.refused("POST", &target, &details_of("web", "other", "web")).await;
    assert_eq!((status, text), (403, format!("repository '{URL}' not permitted in project 'other'")));
    // One that exists is asked about by those who see it, about its own sources only, and in its own project.
    let app = json!({"metadata": {"name": "web"}, "spec": {"project": "shop",
        "source": {"repoURL": URL, "path": "web", "targetRevision": "main"},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"}}});
    kim.ok("POST", "/api/v1/applications", &app).await;
    assert_eq!(bo.ok("POST", &target, &details_of("web", "shop", "web")).await["type"], "Helm");
    for asked in [details_of("plain", "shop", "web"), details_of("web", "default", "web")] {
        let (status, text) = admin.refused("POST", &target, &asked).await;
        assert!(status == 403, "{text}");
    }
    let mut beyond = details_of("web", "shop", "web");
    beyond["sourceIndex"] = 3.into();
    assert_eq!(kim.refused("POST", &target, &beyond).await.0, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rep_79_a_connection_is_remembered_for_an_hour_unless_it_is_asked_for_anew() {
    let servers = servers();
    let setup = setup(&servers);
    repository(&setup, "all", URL, "");
    let home = setup.start().await;
    let admin = home.account("admin");
    let state = async |target: String| {
        let answer = admin.ok("GET", &target, &Value::Null).await;
        let one = if answer.get("items").is_some() { &answer["items"][0] } else { &answer };
        one["connectionState"]["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(REPOSITORIES.to_owned()).await, "Successful");
    refuse(&servers, Some("no"));
    assert_eq!(state(REPOSITORIES.to_owned()).await, "Successful", "nobody was asked");
    assert_eq!(state(ONE.to_owned()).await, "Successful");
    assert_eq!(state(format!("{ONE}?forceRefresh=true")).await, "Failed");
    let list = admin.ok("GET", REPOSITORIES, &Value::Null).await;
    let message = list["items"][0]["connectionState"]["message"].as_str().unwrap();
    assert!(message.starts_with("Unable to connect to repository: "), "{message}");
    refuse(&servers, None);
    assert_eq!(state(format!("{REPOSITORIES}?forceRefresh=true")).await, "Successful");
    // Other credentials are another question.
    refuse(&servers, Some("no"));
    let changed = json!({"repo": URL, "username": "v", "password": "hunter3"});
    admin.ok("PUT", ONE, &changed).await;
    assert_eq!(state(REPOSITORIES.to_owned()).await, "Failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rep_46_only_what_is_for_all_projects_is_tested_when_it_is_created() {
    let servers = servers();
    let home = setup(&servers).start().await;
    let (admin, kim) = (home.account("admin"), home.account("kim"));
    let wanted = |url: &str, project: &str| json!({"repo": url, "project": project, "name": "n"});
    let (status, text) = admin.refused("POST", REPOSITORIES, &wanted("https://git/gone", "")).await;
    assert!(status == 400 && text.starts_with("error testing repository connectivity: "), "{status} {text}");
    let made = kim.ok("POST", REPOSITORIES, &wanted("https://git/gone", "shop")).await;
    assert_eq!(
        (&made["repo"], &made["type"], &made["name"]),
        (&json!("https://git/gone"), &json!("git"), &json!("n"))
    );
    let (status, text) = kim.refused("POST", REPOSITORIES, &wanted(URL, "other")).await;
    let denied = format!("permission denied: repositories, create, other/{URL}");
    assert!(status == 403 && text.starts_with(&denied), "{text}");
    assert_eq!(kim.refused("POST", REPOSITORIES, &wanted(URL, "")).await.0, 403);
    admin.ok("POST", REPOSITORIES, &wanted(URL, "")).await;
    // The same URL in a project is another repository.
    kim.ok("POST", REPOSITORIES, &wanted(URL, "shop")).await;
    assert_eq!(admin.ok("GET", REPOSITORIES, &Value::Null).await["items"].as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_126_rep_216_a_repository_that_does_not_answer_is_named() {
    let servers = servers();
    let setup = setup(&servers);
    repository(&setup, "shop", URL, "shop");
    let home = setup.start().await;
    let kim = home.account("kim");
    let app = json!({"metadata": {"name": "web"}, "spec": {"project": "shop", "source": {"repoURL": URL, "path": "plain"},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"}}});
    refuse(&servers, Some("no"));
    let (status, text) = kim.refused("POST", "/api/v1/applications", &app).await;
    let expected = format!(
        "application spec for web is invalid: InvalidSpecError: repository not accessible: repositories not \
         accessible: &Repository{{Repo: \"{URL}\", Type: \"git\", Name: \"\", Project: \"shop\"}}: error testing \
         repository connectivity: "
    );
    assert!(status == 400 && text.starts_with(&expected), "{status} {text}");
    refuse(&servers, None);
    let mut lost = app.clone();
    lost["spec"]["destination"]["server"] = "https://nowhere".into();
    let (status, text) = kim.refused("POST", "/api/v1/applications", &lost).await;
    assert!(status == 400 && text.starts_with("application destination spec for web is invalid: "), "{text}");
    kim.ok("POST", "/api/v1/applications", &app).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_131_a_sync_is_to_what_its_revision_means_now() {
    let servers = servers();
    let setup = setup(&servers);
    repository(&setup, "shop", URL, "shop");
    let home = setup.start().await;
    let admin = home.account("admin");
    let app = json!({"metadata": {"name": "web"}, "spec": {"project": "shop",
        "source": {"repoURL": URL, "path": "plain", "targetRevision": "main"},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"}}});
    admin.ok("POST", "/api/v1/applications", &app).await;
    let sync = "/api/v1/applications/web/sync";
    let (status, text) = admin.refused("POST", sync, &json!({"revision": "gone"})).await;
    assert!(status == 400 && text.contains("unable to resolve 'gone' to a commit SHA"), "{status} {text}");
    let synced = admin.ok("POST", sync, &json!({"revision": "next"})).await;
    let revision = synced["operation"]["sync"]["revision"].as_str().unwrap();
    assert_eq!(revision.len(), 40, "{revision}");
    let told = format!("/api/v1/applications/web/revisions/{revision}/metadata");
    let told = admin.ok("GET", &told, &Value::Null).await;
    assert_eq!(told["date"], "1970-01-01T00:00:02Z", "API-148");
    let (status, text) =
        admin.refused("GET", "/api/v1/applications/web/revisions/next/metadata", &Value::Null).await;
    assert!(status == 400 && text == "revision next must be resolved", "{text}");
    let (_, text) =
        admin.refused("GET", "/api/v1/applications/web/revisions/1/chartdetails", &Value::Null).await;
    assert_eq!(text, "no chart found for application: web");
}
