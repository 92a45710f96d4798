//! Every call of the API's method table, made by a tenant about objects of another project and about missing ones (SEC-25).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use tiphys_source::{MemoryRepositories, SourceOptions, Sources};
use tiphys_wire::schema;
use tiphys_wire::schema::{Binding, Segment};

use crate::applications::{APPS, Known, app};
use crate::home::{Home, Setup, ask};
use crate::services::{SETS, set};

/// A word in the names of everything that belongs to others; no answer says it unless the request did.
const THEIRS: &str = "theirs";
/// The same for what does not exist.
const MISSING: &str = "nowhere";

/// Calls that a tenant without a right for the object may make, and why that shows nothing of others.
const ANSWERED: [(&str, &str); 28] = [
    ("/account.AccountService/CanI", "about the caller's own rights"),
    ("/account.AccountService/ListAccounts", "leaves out the others"),
    ("/application.ApplicationService/List", "leaves out the others"),
    ("/application.ApplicationService/Watch", "leaves out the others"),
    ("/applicationset.ApplicationSetService/List", "leaves out the others"),
    ("/applicationset.ApplicationSetService/Watch", "leaves out the others"),
    ("/cluster.ClusterService/List", "leaves out the others"),
    ("/project.ProjectService/List", "leaves out the others"),
    ("/repocreds.RepoCredsService/ListRepositoryCredentials", "leaves out the others"),
    ("/repocreds.RepoCredsService/ListWriteRepositoryCredentials", "leaves out the others"),
    ("/repository.RepositoryService/List", "leaves out the others"),
    ("/repository.RepositoryService/ListRepositories", "leaves out the others"),
    ("/repository.RepositoryService/ListWriteRepositories", "leaves out the others"),
    ("/certificate.CertificateService/ListCertificates", "leaves out the others"),
    ("/gpgkey.GPGKeyService/List", "leaves out the others"),
    ("/notification.NotificationService/ListServices", "names that are the same for everybody"),
    ("/notification.NotificationService/ListTemplates", "names that are the same for everybody"),
    ("/notification.NotificationService/ListTriggers", "names that are the same for everybody"),
    ("/session.SessionService/Create", "a login"),
    ("/session.SessionService/Delete", "about the caller's own session"),
    ("/session.SessionService/GetUserInfo", "about the caller's own session"),
    ("/cluster.SettingsService/Get", "settings that are the same for everybody"),
    ("/cluster.SettingsService/GetPlugins", "settings that are the same for everybody"),
    ("/version.VersionService/Version", "the version"),
    // Without REST.
    ("/grpc.health.v1.Health/Check", "the state of the server"),
    ("/grpc.health.v1.Health/Watch", "the state of the server"),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "the description of the API"),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "the description of the API"),
];

/// A tenant, Kim, with every right in one project, and one object of each kind in another.
async fn home() -> Home {
    let resources = ["applications", "applicationsets", "repositories", "write-repositories", "clusters"];
    let rights = resources.iter().chain(&["logs", "exec"]);
    let mut policy: String = rights.map(|it| format!("p, kim, {it}, *, shop/*, allow\n")).collect();
    policy.push_str("p, kim, projects, get, shop, allow\n");
    let anything = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]});
    let mut other = anything.clone();
    other["roles"] = json!([{"name": "ci", "policies": [], "jwtTokens": [{"iat": 1, "id": "a"}]}]);
    let options = SourceOptions::new(Path::new("unused"));
    let setup = Setup::new()
        .config_map("argocd-cm", &[("accounts.kim", "login"), ("accounts.theirs", "login, apiKey")])
        .config_map("argocd-rbac-cm", &[("policy.csv", &policy)])
        .config_map("argocd-cmd-params-cm", &[("hydrator.enabled", "true")])
        .project("shop", &anything)
        .project(THEIRS, &other)
        .live(Arc::<Known>::default())
        .sources(Sources::in_memory(options, MemoryRepositories::default()));
    let secret = |name: &str, kind: &str, data: Value| {
        let labels = json!({"argocd.argoproj.io/secret-type": kind});
        let object = json!({"apiVersion": "v1", "kind": "Secret", "stringData": data,
            "metadata": {"name": name, "namespace": "argocd", "labels": labels}});
        setup.ask(Method::POST, "/api/v1/namespaces/argocd/secrets", &object);
    };
    let url = address(THEIRS);
    let cluster =
        json!({"name": THEIRS, "server": url, "project": THEIRS, "config": "{\"bearerToken\":\"b\"}"});
    secret("cluster-theirs", "cluster", cluster);
    for (name, kind) in [("repo-theirs", "repository"), ("write-theirs", "repository-write")] {
        secret(name, kind, json!({"url": url, "project": THEIRS, "username": "u", "password": "p"}));
    }
    for (name, kind) in [("creds-theirs", "repo-creds"), ("write-creds-theirs", "repo-write-creds")] {
        secret(name, kind, json!({"url": url, "username": "u", "password": "p"}));
    }
    let home = setup.start().await;
    let admin = home.account("admin");
    admin.ok("POST", &format!("{APPS}?validate=false"), &app(THEIRS, THEIRS)).await;
    admin.ok("POST", SETS, &set(THEIRS, THEIRS)).await;
    home
}

fn address(name: &str) -> String {
    format!("https://{name}.example/r")
}

fn escaped(text: &str) -> String {
    text.replace(':', "%3A").replace('/', "%2F")
}

/// A path of REST about something with a name.
fn target(path: &str, binding: &Binding, name: &str) -> String {
    let mut target = String::new();
    for segment in &binding.template.segments {
        let text = match segment {
            Segment::Literal(text) => (*text).to_owned(),
            Segment::Rest(_) => name.to_owned(),
            Segment::Field(field) => match *field {
                "id.value" | "repo" | "repo.repo" | "url" | "creds.url" | "source.repoURL" => {
                    escaped(&address(name))
                }
                "keyID" => "0123456789ABCDEF".to_owned(),
                "role" => "ci".to_owned(),
                "iat" => "1".to_owned(),
                "id" | "revision" => "a".to_owned(),
                "resource" => "projects".to_owned(),
                "action" => "get".to_owned(),
                _ => name.to_owned(),
            },
        };
        target.push('/');
        target.push_str(&text);
    }
    let object = "namespace=web&resourceName=a&kind=Pod&version=v1&group=";
    let query = match path.rsplit('/').next().unwrap_or_default() {
        "GetResource" | "ListResourceActions" | "ListResourceLinks" | "DeleteResource" => object.to_owned(),
        "PatchResource" => format!("{object}&patchType=application/merge-patch%2Bjson"),
        "RunResourceAction" => object.to_owned(),
        "ListApps" => format!("revision=main&appName=new&appProject={name}"),
        "ListRefs" | "ListOCITags" | "GetHelmCharts" => format!("appProject={name}"),
        _ if path == "/gpgkey.GPGKeyService/Delete" => "keyID=0123456789ABCDEF".to_owned(),
        _ if path == "/certificate.CertificateService/DeleteCertificate" => "hostNamePattern=*".to_owned(),
        _ => return target,
    };
    format!("{target}?{query}")
}

/// Other ways to ask the same: with the project of the object, with the caller's own, and by name instead of address.
fn variants(path: &str, target: &str, name: &str) -> Vec<String> {
    let join = if target.contains('?') { '&' } else { '?' };
    let (url, end) = (escaped(&address(name)), |query: &str| format!("{target}{join}{query}"));
    let mut all = vec![target.to_owned()];
    if path.starts_with("/repository.") && target.contains(&url) && !target.contains("appProject") {
        all.extend([end(&format!("appProject={name}")), end("appProject=shop")]);
    }
    if path.starts_with("/cluster.ClusterService/") && target.contains(&url) {
        all.push(format!("{}{join}id.type=name", target.replace(&url, name)));
    }
    if path.starts_with("/application.") && target.contains(&format!("/{name}")) {
        all.extend([end(&format!("project={name}")), end("project=shop")]);
    }
    all
}

/// What the body of a call is.
fn body(path: &str, name: &str) -> Value {
    let url = address(name);
    let spec = app(name, name)["spec"].clone();
    let cluster = json!({"server": url, "name": name, "project": name, "config": {"bearerToken": "b"}});
    let repository = json!({"repo": url, "project": name, "type": "git", "username": "u", "password": "q"});
    let project = json!({"project": {"metadata": {"name": name}, "spec": {}}, "upsert": true});
    let source = json!({"repoURL": url, "path": "a", "targetRevision": "main"});
    let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    match (service, method) {
        ("account.AccountService", "UpdatePassword") => {
            json!({"name": name, "currentPassword": crate::home::PASSWORD, "newPassword": "hunter3hunter3"})
        }
        ("account.AccountService", "CreateToken") => json!({"id": "a"}),
        (_, "GetManifestsWithFiles") => {
            json!({"query": {"name": name, "checksum": "00", "appNamespace": "argocd"}})
        }
        ("application.ApplicationService", "Create" | "Update") => app(name, name),
        (_, "UpdateSpec") => spec,
        (_, "Patch") => json!({"patch": "{}", "patchType": "merge"}),
        (_, "Rollback") => json!({"id": 1}),
        (_, "PatchResource") => json!("{}"),
        (_, "RunResourceAction") => json!("restart"),
        (_, "RunResourceActionV2") => {
            json!({"action": "restart", "namespace": "web", "resourceName": "a", "kind": "Pod", "version": "v1"})
        }
        ("applicationset.ApplicationSetService", "Create") => set(name, name),
        ("applicationset.ApplicationSetService", "Generate") => json!({"applicationSet": set(name, name)}),
        ("certificate.CertificateService", _) => {
            json!({"items": [{"serverName": "theirs.example", "certType": "ssh", "certSubType": "ssh-rsa",
                "certData": "AAAA"}]})
        }
        ("cluster.ClusterService", "Create" | "Update") => cluster,
        ("gpgkey.GPGKeyService", _) => json!({"keyData": "x"}),
        ("project.ProjectService", "Create" | "Update") => project,
        ("repocreds.RepoCredsService", _) => json!({"url": url, "username": "u"}),
        (_, "GetAppDetails") => json!({"source": source, "appName": "new", "appProject": name}),
        ("repository.RepositoryService", "ValidateAccess" | "ValidateWriteAccess") => json!(url),
        ("repository.RepositoryService", _) => repository,
        ("session.SessionService", _) => json!({"username": name, "password": "q"}),
        _ => json!({}),
    }
}

/// Everything that the installation keeps, by kind and name.
fn stored(home: &Home) -> BTreeMap<String, Value> {
    let core = ["secrets", "configmaps"].map(|it| format!("/api/v1/namespaces/argocd/{it}"));
    let ours = ["applications", "applicationsets", "appprojects"]
        .map(|it| format!("/apis/argoproj.io/v1alpha1/namespaces/argocd/{it}"));
    let mut found = BTreeMap::new();
    for list in core.iter().chain(&ours) {
        let all = ask(&home.sim, Method::GET, list, &Value::Null);
        for item in all["items"].as_array().unwrap() {
            found.insert(format!("{list} {}", item["metadata"]["name"]), item.clone());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_25_every_call_about_somebody_elses_object_is_refused_as_about_none() {
    let home = home().await;
    let kim = home.account("kim");
    let before = stored(&home);
    let (mut wrong, mut refused) = (Vec::new(), 0);
    for (_, method) in schema().methods() {
        let answered = ANSWERED.iter().any(|(path, _)| *path == method.path);
        // What a watch leaves out is tested with its messages.
        if answered && method.server_streams {
            continue;
        }
        for binding in &method.bindings {
            let ask = async |target: &str, name: &str| {
                let (status, _, answer) = kim.whole(binding.verb, target, &body(&method.path, name)).await;
                (status, answer.to_string())
            };
            let of = |name: &str| variants(&method.path, &target(&method.path, binding, name), name);
            for (target, other) in of(THEIRS).into_iter().zip(of(MISSING)) {
                let none = ask(&other, MISSING).await;
                if answered {
                    if none.1.contains(THEIRS) || none.0 >= 500 {
                        wrong.push(format!("{} {other} says {none:?}", method.path));
                    }
                    continue;
                }
                let theirs = ask(&target, THEIRS).await;
                // Nothing but a refusal: what is wrong with a request is for those who may make it.
                if ![403, 404].contains(&theirs.0) {
                    wrong.push(format!("{} {target} is not refused: {theirs:?}", method.path));
                }
                let alike = (none.0, none.1.replace(MISSING, THEIRS));
                if theirs != alike {
                    wrong.push(format!(
                        "{} {target} tells what exists: {theirs:?}, of none: {none:?}",
                        method.path
                    ));
                }
                refused += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(refused > 150, "{refused} calls");
    assert_eq!(stored(&home), before, "a refused call changes nothing");
}

#[test]
fn sec_25_calls_that_are_answered_exist() {
    for (path, why) in ANSWERED {
        assert!(schema().method_at(path).is_some(), "{path} ({why})");
    }
}
