//! Projects, repositories, clusters, sets, certificates and keys over REST (API section 5).

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use crate::home::{Setup, ask};
use crate::support::{Reading, call};

const PROJECTS: &str = "/api/v1/projects";
pub(crate) const SETS: &str = "/api/v1/applicationsets";
const CERTS: &str = "/api/v1/certificates";

pub(crate) fn setup() -> Setup {
    let policy = "p, role:shop, repositories, *, shop/*, allow\np, role:shop, applicationsets, *, shop/*, allow\n\
                  p, role:shop, applications, *, shop/*, allow\np, role:shop, clusters, get, shop/*, allow\n\
                  p, role:shop, projects, get, shop, allow\ng, kim, role:shop\n\
                  p, owner, projects, *, *, allow\n";
    Setup::new()
        .config_map("argocd-cm", &[("accounts.kim", "login"), ("accounts.owner", "login")])
        .config_map("argocd-rbac-cm", &[("policy.csv", policy)])
        .project(
            "shop",
            &json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
                "roles": [{"name": "ci", "policies": ["p, proj:shop:ci, applications, get, shop/*, allow"]}]}),
        )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_161_api_164_projects_are_made_seen_and_changed_by_those_who_may() {
    let home = setup().start().await;
    let (admin, kim, owner) = (home.account("admin"), home.account("kim"), home.account("owner"));
    let wanted =
        json!({"project": {"metadata": {"name": "new"}, "spec": {"sourceRepos": ["https://git/*"]}}});
    let (status, text) = kim.refused("POST", PROJECTS, &wanted).await;
    assert!(status == 403 && text.starts_with("permission denied: projects, create, new"), "{text}");
    let made = admin.ok("POST", PROJECTS, &wanted).await;
    assert_eq!(made["spec"]["sourceRepos"], json!(["https://git/*"]));
    let mut other = wanted.clone();
    other["project"]["spec"]["description"] = "x".into();
    let (status, text) = admin.refused("POST", PROJECTS, &other).await;
    assert!(status == 400 && text.starts_with("existing project spec is different"), "{text}");
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&admin.ok("GET", PROJECTS, &Value::Null).await), ["default", "new", "shop"]);
    assert_eq!(names(&kim.ok("GET", PROJECTS, &Value::Null).await), ["shop"]);
    // The right is asked for before anything is looked up.
    for name in ["new", "nothing"] {
        assert_eq!(kim.refused("GET", &format!("{PROJECTS}/{name}"), &Value::Null).await.0, 403);
    }
    assert_eq!(admin.refused("GET", &format!("{PROJECTS}/nothing"), &Value::Null).await.0, 404);
    // What a project reaches has rights of its own (API-162).
    let mut reaching = made.clone();
    reaching["spec"]["destinations"] = json!([{"server": "https://far", "namespace": "*"}]);
    let update = json!({"project": reaching});
    let (status, text) = owner.refused("PUT", &format!("{PROJECTS}/new"), &update).await;
    assert!(status == 403 && text.starts_with("permission denied: clusters, update, https://far"), "{text}");
    admin.ok("PUT", &format!("{PROJECTS}/new"), &update).await;
    // An update that was made from an older state takes nothing back that others did meanwhile.
    let (status, text) = admin.refused("PUT", &format!("{PROJECTS}/new"), &update).await;
    assert_eq!(
        (status, text.as_str()),
        (409, "project 'new' was changed meanwhile; read it again and repeat the change")
    );
    let labelled = json!({"project": {"metadata": {"name": "new", "labels": {"a": "b"}}, "spec": {}}});
    let (status, text) = admin.refused("PUT", &format!("{PROJECTS}/new"), &labelled).await;
    assert_eq!((status, text.as_str()), (400, "`metadata.labels` of a project is not changed by an update"));
    let detailed = kim.ok("GET", &format!("{PROJECTS}/shop/detailed"), &Value::Null).await;
    assert_eq!(detailed["project"]["metadata"]["name"], "shop");
    admin.ok("DELETE", &format!("{PROJECTS}/new"), &Value::Null).await;
    let (_, text) = admin.refused("DELETE", &format!("{PROJECTS}/default"), &Value::Null).await;
    assert_eq!(text, "name 'default' is reserved and cannot be deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_165_a_token_of_a_role_works_until_it_is_deleted() {
    let home = setup().start().await;
    let admin = home.account("admin");
    let role = format!("{PROJECTS}/shop/roles/ci/token");
    let asked = json!({"project": "shop", "role": "ci", "expiresIn": 3600, "id": "mine"});
    assert_eq!(home.account("kim").refused("POST", &role, &asked).await.0, 403);
    let described = json!({"project": "shop", "role": "ci", "description": "x"});
    let refusal = admin.refused("POST", &role, &described).await;
    assert_eq!(refusal, (400, "`description` of a token cannot be stored; leave it out".to_owned()));
    let token = admin.ok("POST", &role, &asked).await["token"].as_str().unwrap().to_owned();
    let (_, text) = admin.refused("POST", &role, &asked).await;
    assert_eq!(text, "Token id 'mine' has been used. ");
    let program = home.with(&token);
    assert_eq!(program.ok("GET", "/api/v1/applications", &Value::Null).await["items"], json!([]));
    let info = program.ok("GET", "/api/v1/session/userinfo", &Value::Null).await;
    assert_eq!(info["username"], "proj:shop:ci");
    let unknown = json!({"project": "shop", "role": "none"});
    let path = format!("{PROJECTS}/shop/roles/none/token");
    assert_eq!(admin.refused("POST", &path, &unknown).await.0, 404);
    admin.ok("DELETE", &format!("{role}/0?id=mine"), &Value::Null).await;
    assert_eq!(program.send("GET", "/api/v1/applications", &Value::Null).await.0, 401);
}

fn with_repositories() -> Setup {
    let repository = |name: &str, project: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "argocd",
                "labels": {"argocd.argoproj.io/secret-type": "repository"}},
            "stringData": {"url": "https://git/r", "project": project, "username": "u", "password": "hunter2"}})
    };
    let setup = setup();
    for (name, project) in [("all", ""), ("shop", "shop"), ("other", "other")] {
        setup.ask(Method::POST, "/api/v1/namespaces/argocd/secrets", &repository(name, project));
    }
    setup
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_170_api_172_repositories_belong_to_projects_and_show_no_secret() {
    let home = with_repositories().start().await;
    let (admin, kim) = (home.account("admin"), home.account("kim"));
    let all = admin.ok("GET", "/api/v1/repositories", &Value::Null).await;
    assert_eq!(all["items"].as_array().unwrap().len(), 3);
    assert!(!all.to_string().contains("hunter2"), "{all}");
    let seen = kim.ok("GET", "/api/v1/repositories", &Value::Null).await;
    assert_eq!(seen["items"].as_array().unwrap().len(), 1);
    assert_eq!(seen["items"][0]["project"], "shop");
    let one = "/api/v1/repositories/https%3A%2F%2Fgit%2Fr";
    assert_eq!(kim.ok("GET", one, &Value::Null).await["project"], "shop", "the only one that is seen");
    let shop = admin.ok("GET", &format!("{one}?appProject=shop"), &Value::Null).await;
    assert_eq!(shop["project"], "shop");
    assert_ne!(admin.send("GET", &format!("{one}?appProject=none"), &Value::Null).await.0, 200);
    let (status, text) =
        kim.refused("GET", "/api/v1/repositories/https%3A%2F%2Fgit%2Fnothing", &Value::Null).await;
    assert_eq!((status, text.as_str()), (403, "permission denied"));
    let (status, _) = kim.refused("DELETE", &format!("{one}?appProject=other"), &Value::Null).await;
    assert_ne!(status, 200);
    kim.ok("DELETE", &format!("{one}?appProject=shop"), &Value::Null).await;
    assert_eq!(kim.ok("GET", "/api/v1/repositories", &Value::Null).await["items"], json!([]));
    let (_, text) = admin.refused("GET", "/api/v1/write-repositories", &Value::Null).await;
    assert_eq!(text, "hydrator is disabled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_176_credential_templates_show_their_url_alone() {
    let home = setup().start().await;
    let (admin, kim) = (home.account("admin"), home.account("kim"));
    let wanted = json!({"url": "https://git/team", "username": "u", "password": "hunter2"});
    assert_eq!(kim.refused("POST", "/api/v1/repocreds", &wanted).await.0, 403);
    assert_eq!(admin.ok("POST", "/api/v1/repocreds", &wanted).await, json!({"url": "https://git/team"}));
    let list = admin.ok("GET", "/api/v1/repocreds", &Value::Null).await;
    assert_eq!(list["items"][0]["username"], "u");
    assert!(!list.to_string().contains("hunter2"));
    assert_eq!(kim.ok("GET", "/api/v1/repocreds", &Value::Null).await["items"], json!([]));
    let (_, text) = admin.refused("POST", "/api/v1/repocreds", &json!({"username": "u"})).await;
    assert_eq!(text, "must specify URL");
    let one = "/api/v1/repocreds/https%3A%2F%2Fgit%2Fteam";
    admin.ok("DELETE", one, &Value::Null).await;
    assert_eq!(admin.refused("DELETE", one, &Value::Null).await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_166_api_168_clusters_are_seen_by_those_who_may_without_what_opens_them() {
    let setup = setup();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "far", "namespace": "argocd",
            "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
        "stringData": {"name": "far", "server": "https://127.0.0.1:9", "project": "shop",
            "config": r#"{"bearerToken":"hunter2","tlsClientConfig":{"insecure":true}}"#}});
    setup.ask(Method::POST, "/api/v1/namespaces/argocd/secrets", &secret);
    let home = setup.live(Arc::<crate::applications::Known>::default()).start().await;
    let (admin, kim) = (home.account("admin"), home.account("kim"));
    let all = admin.ok("GET", "/api/v1/clusters", &Value::Null).await;
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    assert!(!all.to_string().contains("hunter2"));
    let seen = kim.ok("GET", "/api/v1/clusters", &Value::Null).await;
    assert_eq!(seen["items"].as_array().unwrap().len(), 1);
    let far = kim.ok("GET", "/api/v1/clusters/far?id.type=name", &Value::Null).await;
    assert_eq!(
        (&far["connectionState"]["status"], &far["config"]["tlsClientConfig"]["insecure"]),
        (&json!("Failed"), &json!(true))
    );
    assert_eq!(far["info"]["apiVersions"], json!(["apps/v1"]));
    assert_eq!(far["info"]["cacheInfo"], json!({"resourcesCount": 3, "apisCount": 2}));
    for name in ["in-cluster", "nothing"] {
        let answer = kim.refused("GET", &format!("/api/v1/clusters/{name}?id.type=name"), &Value::Null).await;
        assert_eq!(answer, (403, "permission denied".to_owned()));
    }
    assert_eq!(kim.refused("DELETE", "/api/v1/clusters/far?id.type=name", &Value::Null).await.0, 403);
    admin.ok("DELETE", "/api/v1/clusters/far?id.type=name", &Value::Null).await;
    assert_eq!(kim.ok("GET", "/api/v1/clusters", &Value::Null).await["items"], json!([]));
}

pub(crate) fn set(name: &str, project: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"generators": [{"list": {"elements": [{"n": "a"}]}}],
        "template": {"metadata": {"name": "{{n}}"}, "spec": {"project": project,
            "source": {"repoURL": "https://git/r", "path": "."}, "destination": {"name": "in-cluster"}}}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_154_api_158_sets_are_made_in_projects_by_those_who_may() {
    let home = setup().start().await;
    let kim = home.account("kim");
    let made = kim.ok("POST", SETS, &set("all", "shop")).await;
    assert_eq!(made["metadata"]["namespace"], "argocd");
    assert_eq!(kim.refused("POST", SETS, &set("other", "default")).await.0, 403);
    let (status, text) = kim.refused("POST", SETS, &set("other", "{{project}}")).await;
    assert!(status == 400 && text.contains("templated `project` fields"), "{text}");
    let list = kim.ok("GET", SETS, &Value::Null).await;
    assert_eq!(list["items"][0]["metadata"]["name"], "all");
    let (_, text) =
        kim.refused("POST", &format!("{SETS}/generate"), &json!({"applicationSet": set("x", "shop")})).await;
    assert!(text.contains("no controller"), "{text}");
    let mut other = set("all", "shop");
    other["spec"]["generators"] = json!([]);
    let (_, text) = kim.refused("POST", SETS, &other).await;
    assert_eq!(text, "existing ApplicationSet spec is different, use upsert flag to force update");
    home.account("admin").ok("POST", SETS, &set("secret", "default")).await;
    assert_eq!(kim.refused("GET", &format!("{SETS}/secret"), &Value::Null).await.0, 404, "SEC-25");
    assert_eq!(kim.ok("GET", SETS, &Value::Null).await["items"].as_array().unwrap().len(), 1);
    let deleted = kim.ok("DELETE", &format!("{SETS}/all"), &Value::Null).await;
    assert_eq!(deleted["project"], "shop");
    let path = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applicationsets/all";
    assert_eq!(ask(&home.sim, Method::GET, path, &Value::Null)["reason"], "NotFound");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_178_api_180_host_keys_and_signing_keys_are_kept_by_administrators() {
    let home = setup().start().await;
    let (admin, kim) = (home.account("admin"), home.account("kim"));
    // The data of a request is bytes: `AAAAC3NzaC1lZDI1NTE5AAAAIA==` once more in base64.
    let data = "QUFBQUMzTnphQzFsWkRJMU5URTVBQUFBSUE9PQ==";
    let wanted = json!({"items": [{"serverName": "git.test", "certType": "ssh", "certSubType": "ssh-ed25519",
        "certData": data}]});
    assert_eq!(kim.refused("POST", CERTS, &wanted).await.0, 403);
    let made = admin.ok("POST", CERTS, &wanted).await;
    assert_eq!(made["items"][0]["serverName"], "git.test");
    let list = admin.ok("GET", &format!("{CERTS}?hostNamePattern=git.*"), &Value::Null).await;
    assert!(list["items"][0]["certInfo"].as_str().unwrap().starts_with("SHA256:"), "{list}");
    admin.ok("DELETE", &format!("{CERTS}?hostNamePattern=git.test&certType=ssh"), &Value::Null).await;
    assert_eq!(admin.ok("GET", CERTS, &Value::Null).await["items"], json!([]));
    assert_eq!(admin.ok("GET", "/api/v1/gpgkeys", &Value::Null).await["items"], json!([]));
    assert_eq!(kim.refused("GET", "/api/v1/gpgkeys", &Value::Null).await.0, 403);
    let (status, text) = admin.refused("POST", "/api/v1/gpgkeys", &json!({"keyData": ""})).await;
    assert_eq!((status, text.as_str()), (400, "Submitted key data is empty"));
    let (status, _) = admin.refused("POST", "/api/v1/gpgkeys", &json!({"keyData": "no key"})).await;
    assert_eq!(status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_p_fields_that_a_call_does_nothing_with_are_refused_by_name() {
    let home = setup().start().await;
    let admin = home.account("admin");
    let calls = [
        ("/api/v1/applications/web?limit=5", "limit"),
        ("/api/v1/applications/web?search=web", "search"),
        ("/api/v1/stream/applications?limit=5", "limit"),
        ("/api/v1/applications?refresh=normal", "refresh"),
        ("/api/v1/stream/applications?sort=name", "sort"),
        ("/api/v1/applications/web?selector=a", "selector"),
        ("/api/v1/repositories?appProject=shop", "appProject"),
        ("/api/v1/repocreds?url=https%3A%2F%2Fgit", "url"),
    ];
    for (target, field) in calls {
        let refusal = admin.refused("GET", target, &Value::Null).await;
        let text = format!("`{field}` is not implemented for this call; leave it out");
        assert_eq!(refusal, (400, text), "{target}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_159_a_set_of_a_project_is_that_project_s_whatever_its_template_says() {
    let home = setup().start().await;
    let (admin, kim) = (home.account("admin"), home.account("kim"));
    let set = |name: &str, project: &str| {
        json!({"metadata": {"name": name}, "spec": {"project": project, "goTemplate": true,
            "generators": [{"list": {"elements": [{"n": "a"}]}}],
            "template": {"metadata": {"name": "x-{{.n}}"}, "spec": {"project": "{{.n}}",
                "source": {"repoURL": "https://git/r", "path": "."}, "destination": {"name": "in-cluster"}}}}})
    };
    let made = kim.ok("POST", SETS, &set("mine", "shop")).await;
    assert_eq!(made["spec"]["project"], "shop");
    let (status, text) = kim.refused("POST", SETS, &set("theirs", "default")).await;
    assert!(status == 403 && text.contains("applicationsets, create, default/theirs"), "{text}");
    let (status, _) = kim.refused("POST", SETS, &set("none", "")).await;
    assert_eq!(status, 400, "a template's project is not known before it is rendered");
    let mut crossed = set("crossed", "shop");
    crossed["spec"]["template"]["spec"]["project"] = "default".into();
    let (status, text) = kim.refused("POST", SETS, &crossed).await;
    let expected = "template project 'default' does not match ApplicationSet project 'shop'";
    assert_eq!((status, text.as_str()), (400, expected), "ASET-280");
    assert_eq!(
        kim.ok("GET", &format!("{SETS}?projects=shop"), &Value::Null).await["items"][0]["metadata"]["name"],
        "mine"
    );
    assert_eq!(
        admin.ok("GET", &format!("{SETS}/mine"), &Value::Null).await["spec"]["project"],
        "shop",
        "it is stored"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aset_281_where_that_is_set_a_set_without_a_project_needs_more_than_rights_in_one() {
    let policy = "p, kim, applicationsets, *, shop/*, allow\np, lee, applicationsets, *, shop/*, allow\n\
                  p, lee, applicationsets, unscoped, *, allow\n";
    let cm = [
        ("accounts.kim", "login"),
        ("accounts.lee", "login"),
        ("applicationset.unscoped.policy", "restrict"),
    ];
    let home = Setup::new()
        .config_map("argocd-cm", &cm)
        .config_map("argocd-rbac-cm", &[("policy.csv", policy)])
        .project("shop", &json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]}))
        .start()
        .await;
    let (kim, lee) = (home.account("kim"), home.account("lee"));
    let set = |name: &str, project: &str| {
        json!({"metadata": {"name": name}, "spec": {"project": project,
            "generators": [{"list": {"elements": [{"n": "a"}]}}],
            "template": {"metadata": {"name": "x-{{n}}"}, "spec": {"project": "shop",
                "source": {"repoURL": "https://git/r", "path": "."}, "destination": {"name": "in-cluster"}}}}})
    };
    kim.ok("POST", SETS, &set("mine", "shop")).await;
    let (status, text) = kim.refused("POST", SETS, &set("all", "")).await;
    assert!(status == 403 && text.contains("applicationsets, unscoped, *"), "{text}");
    // Nor can a project be taken away again by whoever may only work in it.
    let (status, text) = kim.refused("POST", &format!("{SETS}?upsert=true"), &set("mine", "")).await;
    assert!(status == 403 && text.contains("applicationsets, unscoped, *"), "{text}");
    lee.ok("POST", SETS, &set("all", "")).await;
    lee.ok("POST", &format!("{SETS}?upsert=true"), &set("mine", "")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_155_a_watch_of_sets_shows_what_there_is_and_what_becomes_of_it() {
    let home = setup().start().await;
    let (admin, kim) = (home.account("admin"), home.account("kim"));
    let set = |name: &str, project: &str| {
        json!({"metadata": {"name": name}, "spec": {"generators": [{"list": {"elements": [{"n": "a"}]}}],
            "template": {"metadata": {"name": "x-{{n}}"}, "spec": {"project": project,
                "source": {"repoURL": "https://git/r", "path": "."}, "destination": {"name": "in-cluster"}}}}})
    };
    admin.ok("POST", SETS, &set("hidden", "default")).await;
    kim.ok("POST", SETS, &set("seen", "shop")).await;
    let path = "/applicationset.ApplicationSetService/Watch";
    let mut request = call(path, "application/grpc", &[json!({})]);
    request.headers_mut().insert("authorization", kim.bearer().parse().unwrap());
    let mut reading = Reading::of(path, home.server.http2(request).await.into_body());
    let mut told = Vec::new();
    let mut wait = async |count: usize| {
        while told.len() < count {
            let message = reading.next().await;
            let name = message["applicationSet"]["metadata"]["name"].as_str().unwrap();
            told.push(format!("{} {name}", message["type"].as_str().unwrap()));
        }
        told.clone()
    };
    assert_eq!(wait(1).await, ["ADDED seen"], "nothing of other projects");
    admin.ok("POST", SETS, &set("also-hidden", "default")).await;
    kim.ok("POST", SETS, &set("new", "shop")).await;
    kim.ok("DELETE", &format!("{SETS}/seen"), &Value::Null).await;
    assert_eq!(wait(3).await, ["ADDED seen", "ADDED new", "DELETED seen"]);
}

/// SEC, ASET-59: creation, update and generation refuse alike what no generator of a set will ever use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_sets_name_no_secrets_of_the_installation() {
    let home = setup().start().await;
    let kim = home.account("kim");
    let own = json!({"secretName": "argocd-secret", "key": "server.secretkey"});
    let github = json!({"github": {"organization": "o", "api": "https://evil.test", "tokenRef": own}});
    for project in ["", "shop"] {
        let with = |generators: Value| {
            let mut set = set("all", "shop");
            set["spec"]["project"] = project.into();
            set["spec"]["generators"] = generators;
            set
        };
        let honest = with(json!([{"list": {"elements": [{"n": "a"}]}}]));
        kim.ok("POST", SETS, &honest).await;
        for generators in [
            json!([{"scmProvider": github}]),
            json!([{"matrix": {"generators": [{"list": {"elements": []}}, {"scmProvider": github}]}}]),
            json!([{"plugin": {"configMapRef": {"name": "argocd-cm"}}}]),
        ] {
            let set = with(generators);
            let generate = json!({"applicationSet": set});
            for (target, body) in [
                (SETS.to_owned(), &set),
                (format!("{SETS}?upsert=true"), &set),
                (format!("{SETS}?dryRun=true"), &set),
                (format!("{SETS}/generate"), &generate),
            ] {
                let (status, text) = kim.refused("POST", &target, body).await;
                assert!(
                    status == 400 && text.contains("for this ApplicationSet"),
                    "{target}: {status} {text}"
                );
            }
        }
        let stored = kim.ok("GET", &format!("{SETS}/all"), &Value::Null).await;
        assert_eq!(stored["spec"]["generators"][0]["list"]["elements"], json!([{"n": "a"}]));
        assert_eq!(stored["spec"]["generators"].as_array().map(Vec::len), Some(1));
        kim.ok("DELETE", &format!("{SETS}/all"), &Value::Null).await;
    }
    // The template of a generator does not lead into another project either.
    let mut crossed = set("all", "shop");
    crossed["spec"]["generators"] = json!([{"list": {"elements": [{"n": "a"}],
        "template": {"metadata": {}, "spec": {"project": "default", "destination": {}}}}}]);
    let (status, text) = kim.refused("POST", SETS, &crossed).await;
    assert!(status == 403 && text.contains("applicationsets, create, default/all"), "{text}");
}
