//! The command line in core mode renders what the controller renders.

use serde_json::{Value, json};

use crate::api::{APPS, CONFIG_MAPS};
use crate::fixtures::{config_map, file, manual};
use crate::world::{World, conditions, merge};

/// `app manifests` of an application: whether it succeeded, and what it printed.
async fn manifests(world: &World, app: &str) -> (bool, String) {
    world.command(&["app", "manifests", app, "-N", &world.cp]).await
}

/// CTL-136, RND-15: a source that is only referenced gives no manifests, alone neither.
/// REP-200: where a project wants signatures, nothing unsigned is rendered.
#[tokio::test]
async fn ctl_136_rep_200_core_mode_renders_what_the_controller_renders() {
    let Some(mut world) = World::start("core-mode").await else { return };
    let ns = world.namespace("ns").await;
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let plain = world.create("plain", &repo, ".", &ns, &manual()).await;
    let mut lone = manual();
    merge(&mut lone, &json!({"spec": {"source": {"ref": "values"}}}));
    let lone = world.create("lone", &repo, "", &ns, &lone).await;
    let keys = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
        "signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}]});
    world.project("signed", &keys).await;
    let mut signed = manual();
    merge(&mut signed, &json!({"spec": {"project": "signed"}}));
    let signed = world.create("signed", &repo, ".", &ns, &signed).await;

    let is_compared = |app: &Value| app.pointer("/status/reconciledAt").is_some_and(Value::is_string);
    world.until_app(&plain, "compared", is_compared).await;
    let seen = world.until_app(&lone, "compared", is_compared).await;
    assert!(seen["status"]["resources"].as_array().is_none_or(Vec::is_empty), "{seen}");
    let refusal =
        |app: &Value| conditions(app, "ComparisonError").iter().any(|c| c.contains(": unsigned (key_id=)"));
    world.until_app(&signed, "refused", refusal).await;

    let (is_done, printed) = manifests(&world, &plain).await;
    assert!(is_done && printed.contains("kind: ConfigMap"), "{printed}");
    let (is_done, printed) = manifests(&world, &lone).await;
    assert!(is_done && !printed.contains("ConfigMap"), "{printed}");
    let (is_done, printed) = manifests(&world, &signed).await;
    assert!(
        !is_done && printed.contains(": unsigned (key_id=)") && !printed.contains("kind: ConfigMap"),
        "{printed}"
    );
    assert!(!world.exists(CONFIG_MAPS, &ns, "cm").await, "nothing was synced");
    world.finish().await;
}

/// CLI-602, CLI-603, CLI-605, CLI-606: a set made from the command line is what the controller makes of it, and what the
/// preview said before.
#[tokio::test]
async fn cli_602_core_mode_makes_sets_as_the_controller_does() {
    let Some(mut world) = World::start("core-sets").await else { return };
    let ns = world.namespace("ns").await;
    let folders = ["a", "b"].map(|name| (format!("apps/{name}/cm.yaml"), file(&[config_map(name, "1")])));
    let files: Vec<(&str, &str)> =
        folders.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let repo = world.repo("apps", &files).await;
    let name = world.name("all");
    let set = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": name},
        "spec": {"goTemplate": true, "goTemplateOptions": ["missingkey=error"],
            "generators": [{"git": {"repoURL": repo.url, "revision": "main", "directories": [{"path": "apps/*"}]}}],
            "template": {"metadata": {"name": format!("{name}-{{{{ .path.basename }}}}")}, "spec": {
                "project": "default", "destination": {"server": "https://kubernetes.default.svc", "namespace": ns},
                "source": {"repoURL": repo.url, "targetRevision": "main", "path": "{{ .path.path }}"}}}}});
    let path = world.directory().join("set.yaml");
    std::fs::write(&path, set.to_string()).unwrap();
    let path = path.to_str().unwrap();
    let (is_done, printed) = world.command(&["appset", "preview", path]).await;
    let (cp, added) = (&world.cp, "2 added, 0 changed, 0 removed, 0 unchanged\n");
    assert!(is_done && printed == format!("+ {cp}/{name}-a\n+ {cp}/{name}-b\n{added}"), "{printed}");
    let (is_done, printed) = world.command(&["appset", "create", path, "--wait"]).await;
    let ready = format!("ApplicationSet '{name}' resources are up to date\n");
    assert!(is_done && printed.ends_with(&ready), "{printed}");
    for app in ["a", "b"] {
        assert!(world.exists(APPS, cp, &format!("{name}-{app}")).await);
    }
    let (is_done, printed) = world.command(&["appset", "preview", &name]).await;
    assert!(is_done && printed == "0 added, 0 changed, 0 removed, 2 unchanged\n", "{printed}");
    let (is_done, printed) = world.command(&["appset", "delete", &name, "-y", "--wait"]).await;
    assert!(is_done && printed == format!("applicationset '{name}' deleted\n"), "{printed}");
    for app in ["a", "b"] {
        world.until_gone(APPS, cp, &format!("{name}-{app}")).await;
    }
    world.finish().await;
}

/// CLI-903: whoever has the kubeconfig has the API without a login; the process only looks, and does what it is asked for.
#[tokio::test]
async fn cli_903_the_dashboard_answers_without_a_login_and_writes_what_it_is_asked_to() {
    let Some(mut world) = World::start("dashboard").await else { return };
    let ns = world.namespace("ns").await;
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    world.until_app(&app, "compared", |app| app.pointer("/status/sync/status").is_some()).await;
    // Nobody else works on it from here on.
    world.kill().await;

    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut dashboard = tokio::process::Command::new(env!("CARGO_BIN_EXE_tiphys"))
        .args(["admin", "dashboard", "-n", &world.cp, "--port", &port.to_string()])
        .env("KUBECONFIG", &world.launch.kubeconfig)
        .env("XDG_CACHE_HOME", world.directory().join("commands"))
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut lines = tokio::io::BufReader::new(dashboard.stdout.take().unwrap());
    tokio::io::AsyncBufReadExt::read_line(&mut lines, &mut said).await.unwrap();
    let address = format!("http://localhost:{port}");
    assert_eq!(said.trim(), format!("Argo CD UI is available at {address}"));

    let before = world.versions().await;
    let ask = async |method: http::Method, path: String, body: &'static str| {
        let url = format!("http://127.0.0.1:{port}{path}");
        let headers = [("content-type", "application/json")];
        let answer = world.api.send(method, &url, &headers, body).await.unwrap();
        let status = answer.status().as_u16();
        let bytes = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        (status, serde_json::from_slice::<Value>(&bytes).unwrap_or_default())
    };
    let (status, list) = ask(http::Method::GET, "/api/v1/applications".to_owned(), "").await;
    let names: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|app| &app["metadata"]["name"]).collect();
    assert_eq!((status, names), (200, vec![&Value::from(app.as_str())]));
    assert_eq!(world.versions().await, before, "looking writes nothing");

    let path = format!("/api/v1/applications/{app}/spec?validate=false");
    let (status, spec) = ask(
        http::Method::PUT,
        path,
        r#"{"project": "default", "destination": {"name": "in-cluster"}, "source": {"repoURL": "https://h/r", "path": "p"}}"#,
    )
    .await;
    assert_eq!((status, &spec["source"]["path"]), (200, &Value::from("p")), "{spec}");
    let written = world.api.get(APPS, &world.cp, &app).await.unwrap();
    assert_eq!(written["spec"]["source"]["path"], "p");
    dashboard.kill().await.unwrap();
    world.restart().await;
    world.finish().await;
}
