use http::Method;
use serde_json::{Value, json};
use tiphys_installation::objects;
use tiphys_server::services::COMPATIBLE_VERSION;

use crate::home::{PASSWORD, Setup, ask};

fn accounts() -> Setup {
    Setup::new()
        .config_map("argocd-cm", &[("accounts.kim", "login, apiKey"), ("accounts.bo", "login"), ("url", "https://x"),
            ("ui.bannercontent", "hello"), ("help.chatUrl", "https://chat"), ("statusbadge.enabled", "true"),
            ("statusbadge.url", "https://badges"),
            ("resource.customizations.health.apps_Deployment", "return {}"),
            ("oidc.config", "name: SSO\nissuer: https://sso\nclientID: c\nclientSecret: hunter2\nrequestedScopes: [openid]\n")])
        .config_map("argocd-rbac-cm", &[("policy.csv", "p, boss, accounts, *, *, allow\ng, kim, role:none\n")])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_48_logging_in_and_out_over_rest() {
    let home = Setup::new().start().await;
    let nobody = home.nobody();
    assert_eq!(nobody.get("/api/v1/session/userinfo").await, (200, json!({})), "not logged in");
    let login = json!({"username": "admin", "password": PASSWORD});
    let token = nobody.ok("POST", "/api/v1/session", &login).await["token"].as_str().unwrap().to_owned();
    let admin = home.with(&token);
    let info = admin.ok("GET", "/api/v1/session/userinfo", &Value::Null).await;
    assert_eq!(info, json!({"loggedIn": true, "username": "admin", "iss": "argocd"}));
    let wrong = json!({"username": "admin", "password": "wrong"});
    let (status, text) = nobody.refused("POST", "/api/v1/session", &wrong).await;
    assert_eq!((status, text.as_str()), (401, "Invalid username or password"));
    assert_eq!(admin.ok("DELETE", "/api/v1/session", &Value::Null).await, json!({}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_184_whoever_is_logged_in_sees_what_notifications_there_are() {
    let data = [("service.slack", "token: $t"), ("trigger.b", "- {"), ("trigger.a", ""), ("template.m", "")];
    let home = accounts().config_map("argocd-notifications-cm", &data).start().await;
    let kim = home.account("kim");
    for (kind, expected) in [
        ("services", json!([{"name": "slack"}])),
        ("triggers", json!([{"name": "a"}, {"name": "b"}])),
        ("templates", json!([{"name": "m"}])),
    ] {
        let target = format!("/api/v1/notifications/{kind}");
        assert_eq!(kim.ok("GET", &target, &Value::Null).await["items"], expected, "{kind}");
        assert_eq!(home.nobody().get(&target).await.0, 401, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_who_is_not_known_sees_little() {
    let home = accounts().start().await;
    let nobody = home.nobody();
    assert_eq!(
        nobody.get("/api/version").await.1,
        json!({"Version": format!("{COMPATIBLE_VERSION}+0123456")})
    );
    let open = nobody.ok("GET", "/api/v1/settings", &Value::Null).await;
    assert_eq!(open["url"], "https://x");
    assert_eq!(open["help"], json!({"chatUrl": "https://chat", "chatText": "Chat now!"}));
    // What nobody answers yet is not offered.
    assert_eq!(open["statusBadgeEnabled"], true, "API-213");
    assert_eq!(open["statusBadgeRootUrl"], "https://badges");
    for missing in ["dexConfig", "execEnabled"] {
        assert!(open.get(missing).is_none(), "{missing}");
    }
    assert_eq!(open["trackingMethod"], "annotation");
    for hidden in ["uiBannerContent", "controllerNamespace", "resourceOverrides", "passwordPattern"] {
        assert!(open.get(hidden).is_none(), "{hidden}");
    }
    let kim = home.account("kim");
    let known = kim.ok("GET", "/api/v1/settings", &Value::Null).await;
    assert_eq!(known["uiBannerContent"], "hello");
    assert_eq!(known["passwordPattern"], "^.{8,32}$");
    assert_eq!(known["resourceOverrides"]["apps/Deployment"]["health.lua"], "return {}");
    assert!(!known.to_string().contains("hunter2"));
    let version = kim.ok("GET", "/api/version", &Value::Null).await;
    assert_eq!(version["ExtraBuildInfo"], "tiphys 0.1.0");
    for target in ["/api/v1/account", "/api/v1/settings/plugins", "/api/v1/account/can-i/projects/get/x"] {
        let (status, text) = nobody.refused("GET", target, &Value::Null).await;
        assert_eq!((status, text.as_str()), (401, "no session information"), "{target}");
    }
    let (status, text) = home.with("a.b.c").refused("GET", "/api/v1/account", &Value::Null).await;
    assert_eq!((status, text.as_str()), (401, "invalid session: token is malformed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_15_with_anonymous_access_a_forged_token_is_nobodys() {
    let anonymous = Setup::new()
        .config_map("argocd-cm", &[("users.anonymous.enabled", "true")])
        .config_map("argocd-rbac-cm", &[("policy.default", "role:readonly")])
        .start()
        .await;
    // {"alg":"none"}.{"iss":"argocd","sub":"admin"}.
    let forged = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJhcmdvY2QiLCJzdWIiOiJhZG1pbiJ9.";
    for client in [anonymous.nobody(), anonymous.with(forged)] {
        assert_eq!(
            client.ok("GET", "/api/v1/account/admin", &Value::Null).await["name"],
            "admin",
            "as everybody"
        );
        let (status, text) = client.refused("POST", "/api/v1/account/admin/token", &json!({})).await;
        assert_eq!((status, text.as_str()), (403, "permission denied: accounts, update, admin"));
        assert_eq!(client.ok("GET", "/api/v1/session/userinfo", &Value::Null).await, json!({}));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_32_without_authentication_everything_is_allowed() {
    let home = Setup::new().without_authentication().start().await;
    let nobody = home.nobody();
    let accounts = nobody.ok("GET", "/api/v1/account", &Value::Null).await;
    assert_eq!(accounts["items"][0]["name"], "admin");
    let settings = nobody.ok("GET", "/api/v1/settings", &Value::Null).await;
    assert_eq!(settings["controllerNamespace"], "argocd");
    assert!(settings.get("passwordPattern").is_none());
    assert!(nobody.ok("GET", "/api/version", &Value::Null).await["ExtraBuildInfo"].is_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_54_accounts_are_seen_by_those_who_may() {
    let home = accounts().start().await;
    let kim = home.account("kim");
    let names = |answer: Value| -> Vec<String> {
        answer["items"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(kim.ok("GET", "/api/v1/account", &Value::Null).await), ["kim"], "one's own");
    let own = kim.ok("GET", "/api/v1/account/kim", &Value::Null).await;
    assert_eq!(own, json!({"name": "kim", "enabled": true, "capabilities": ["login", "apiKey"]}));
    let (status, text) = kim.refused("GET", "/api/v1/account/bo", &Value::Null).await;
    assert_eq!(status, 403);
    assert!(text.starts_with("permission denied: accounts, get, bo, sub: kim, iat: "), "{text}");
    let admin = home.account("admin");
    assert_eq!(names(admin.ok("GET", "/api/v1/account", &Value::Null).await), ["admin", "bo", "kim"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_57_tokens_of_accounts_are_made_used_and_taken_back() {
    let home = accounts().start().await;
    let kim = home.account("kim");
    let made = kim.ok("POST", "/api/v1/account/kim/token", &json!({"expiresIn": 60, "id": "t1"})).await;
    home.until(|world| world.account("kim").unwrap().has_token("t1")).await;
    let program = home.with(made["token"].as_str().unwrap());
    assert_eq!(program.ok("GET", "/api/v1/session/userinfo", &Value::Null).await["username"], "kim");
    let listed = kim.ok("GET", "/api/v1/account/kim", &Value::Null).await;
    let token = &listed["tokens"][0];
    assert_eq!(token["expiresAt"].as_i64().unwrap() - token["issuedAt"].as_i64().unwrap(), 60);
    let refusals = [
        ("kim", json!({"id": "t1"}), 500, "account already has token with id 't1'"),
        ("kim", json!({"expiresIn": -1}), 400, "a token cannot expire in the past"),
    ];
    for (name, body, code, message) in refusals {
        let (status, text) = kim.refused("POST", &format!("/api/v1/account/{name}/token"), &body).await;
        assert_eq!((status, text.as_str()), (code, message));
    }
    let admin = home.account("admin");
    let (status, text) = admin.refused("POST", "/api/v1/account/bo/token", &json!({})).await;
    assert_eq!((status, text.as_str()), (400, "account 'bo' does not have apiKey capability"));
    let (status, text) = kim.refused("DELETE", "/api/v1/account/kim/token/t2", &Value::Null).await;
    assert_eq!((status, text.as_str()), (404, "token with id 't2' does not exist"));
    kim.ok("DELETE", "/api/v1/account/kim/token/t1", &Value::Null).await;
    home.until(|world| !world.account("kim").unwrap().has_token("t1")).await;
    assert_eq!(program.get("/api/v1/account").await.0, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_56_passwords_are_changed_with_the_old_one() {
    let home = accounts().start().await;
    let admin = home.account("admin");
    let change = |current: &str, new: &str, name: &str| json!({"currentPassword": current, "newPassword": new, "name": name});
    let put = "/api/v1/account/password";
    let (status, text) = admin.refused("PUT", put, &change("wrong", "new-password", "")).await;
    assert_eq!((status, text.as_str()), (400, "current password does not match"));
    let (_, text) = admin.refused("PUT", put, &change(PASSWORD, "short", "")).await;
    assert_eq!(text, "new password does not match the following expression: ^.{8,32}$");
    let bo = home.account("bo");
    let (status, text) = bo.refused("PUT", put, &change(PASSWORD, "new-password", "admin")).await;
    assert_eq!(status, 403);
    assert!(text.starts_with("permission denied: accounts, update, admin, sub: bo"), "{text}");
    admin.ok("PUT", put, &change(PASSWORD, "new-password", "bo")).await;
    home.until(|world| !world.account("bo").unwrap().password.is_empty()).await;
    // Whoever was logged in before the change is not any more, where the times differ.
    let secret = ask(&home.sim, Method::GET, "/api/v1/namespaces/argocd/secrets/argocd-secret", &Value::Null);
    let stored = tiphys_object::Object::from_value(&secret).unwrap();
    let data = objects::decoded(&stored);
    assert!(data["accounts.bo.password"].starts_with("$2a$10$"));
    assert!(data.contains_key("accounts.bo.passwordMtime"));
    let login = json!({"username": "bo", "password": "new-password"});
    assert!(home.nobody().ok("POST", "/api/v1/session", &login).await["token"].is_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_58_clients_ask_before_they_try() {
    let home = accounts().start().await;
    let admin = home.account("admin");
    let ask = async |what: &str| admin.get(&format!("/api/v1/account/can-i/{what}")).await;
    assert_eq!(ask("applications/sync/default/web").await.1, json!({"value": "yes"}));
    assert_eq!(ask("applications/sync/default/argocd/web").await.1, json!({"value": "yes"}));
    assert_eq!(
        home.account("kim").get("/api/v1/account/can-i/applications/sync/a/b").await.1,
        json!({"value": "no"})
    );
    let (status, answer) = ask("nothing/get/x").await;
    assert_eq!(status, 400);
    assert!(answer["message"].as_str().unwrap().ends_with(" does not contain nothing"), "{answer}");
    assert_eq!(ask("applications/fly/x").await.0, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_229_changes_of_accounts_and_policies_are_in_force_without_a_restart() {
    let home = accounts().start().await;
    let kim = home.account("kim");
    assert_eq!(kim.get("/api/v1/account/bo").await.0, 403);
    let target = "/api/v1/namespaces/argocd/configmaps/argocd-rbac-cm";
    let policy = json!({"data": {"policy.csv": "p, kim, accounts, get, *, allow\n"}});
    ask(&home.sim, Method::PATCH, target, &policy);
    kim.until("/api/v1/account/bo", 200).await;
    // A policy that cannot be read leaves the former one in force (API-89).
    ask(&home.sim, Method::PATCH, target, &json!({"data": {"policy.csv": "p, kim\n"}}));
    home.until(|world| world.policy_problem().is_some()).await;
    assert_eq!(kim.get("/api/v1/account/bo").await.0, 200);
    // One that is deleted stays in effect, and those who are logged in are told; an empty one takes the rights away.
    ask(&home.sim, Method::PATCH, target, &policy);
    home.until(|world| world.policy_problem().is_none()).await;
    ask(&home.sim, Method::DELETE, target, &Value::Null);
    home.until(|world| !world.installation.settings_problems.is_empty()).await;
    assert_eq!(kim.get("/api/v1/account/bo").await.0, 200);
    let warning = async |client: &crate::home::Client<'_>| {
        let (_, headers, _) = client.whole("GET", "/api/v1/settings", &Value::Null).await;
        headers.get("warning").map(|warning| warning.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    assert!(warning(&kim).await.contains("ConfigMap argocd-rbac-cm"));
    assert_eq!(warning(&home.nobody()).await, "");
    let empty = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-rbac-cm"}});
    ask(&home.sim, Method::POST, "/api/v1/namespaces/argocd/configmaps", &empty);
    kim.until("/api/v1/account/bo", 403).await;
    let accounts = json!({"data": {"accounts.kim.enabled": "false"}});
    ask(&home.sim, Method::PATCH, "/api/v1/namespaces/argocd/configmaps/argocd-cm", &accounts);
    kim.until("/api/v1/account/kim", 401).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_46_a_first_start_makes_a_password_that_logs_in() {
    let setup = Setup::new();
    ask(&setup.sim, Method::DELETE, "/api/v1/namespaces/argocd/secrets/argocd-secret", &Value::Null);
    let sim = setup.sim.clone();
    let connection = tiphys_cluster::Connection::over("https://k", move |request| {
        let sim = sim.clone();
        async move { Ok(sim.call(request).await) }
    });
    let discovery = tiphys_cluster::Discovery::new(connection.clone());
    let store = tiphys_service::Store::new(tiphys_cluster::Writer::new(connection, discovery), "argocd");
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    // Two at the same time agree.
    let starts =
        futures::future::join_all((0..2).map(|_| tiphys_service::account::first_start(&store, true, now)))
            .await;
    assert!(starts.iter().all(Result::is_ok), "{starts:?}");
    let secret = ask(
        &setup.sim,
        Method::GET,
        "/api/v1/namespaces/argocd/secrets/argocd-initial-admin-secret",
        &Value::Null,
    );
    assert!(secret["metadata"]["annotations"].get("tiphys.dev/pending").is_none());
    let password = objects::decoded(&tiphys_object::Object::from_value(&secret).unwrap())["password"].clone();
    let home = setup.start().await;
    let login = json!({"username": "admin", "password": password});
    let answer = home.nobody().ok("POST", "/api/v1/session", &login).await;
    assert!(answer["token"].is_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trk_11_how_objects_are_marked_is_told_to_everybody() {
    let marks = async |cm: &[(&str, &str)]| {
        let home = Setup::new().config_map("argocd-cm", cm).start().await;
        let shown = home.nobody().ok("GET", "/api/v1/settings", &Value::Null).await;
        ["appLabelKey", "trackingMethod", "installationID"]
            .map(|key| shown.get(key).cloned().unwrap_or_default())
    };
    let none = [json!("app.kubernetes.io/instance"), json!("annotation"), Value::Null];
    assert_eq!(marks(&[]).await, none);
    let all = [
        ("application.instanceLabelKey", "shop/app"),
        ("application.resourceTrackingMethod", "annotation+label"),
        ("installationID", "one"),
    ];
    assert_eq!(marks(&all).await, [json!("shop/app"), json!("annotation+label"), json!("one")]);
    let wrong = [("application.resourceTrackingMethod", "nonsense")];
    assert_eq!(marks(&wrong).await[1], "annotation", "the method in force");
}
