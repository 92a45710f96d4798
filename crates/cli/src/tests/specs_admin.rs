//! `admin … generate-spec` (CLI-920), and what `admin` does to projects and clusters (CLI-922, CLI-923), to notifications
//! (CLI-930) and with results of comparisons (CLI-921).

use serde_json::{Value, json};
use tiphys_go::yaml::{self, Dialect, Limits};

use super::argocd;
use super::embedded::{Embedded, NAMESPACE};

fn parsed(text: &str) -> Value {
    yaml::parse(text, Dialect::Sigs, &Limits::default()).unwrap().unwrap()
}

/// What a command without a cluster prints.
fn made(args: &[&str]) -> String {
    let (written, code) = argocd(args);
    assert_eq!((written.stderr.as_str(), code), ("", 0), "{args:?}: {}", written.stdout);
    written.stdout
}

#[test]
fn cli_920_an_application_is_printed_as_its_flags_say() {
    let text = made(&[
        "admin",
        "app",
        "generate-spec",
        "web",
        "--repo",
        "https://h/a.git",
        "--path",
        "web",
        "--dest-namespace",
        "web",
        "--dest-server",
        "https://kubernetes.default.svc",
        "--helm-set",
        "a=b",
        "-l",
        "team=shop",
    ]);
    assert_eq!(
        text,
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata:\n  labels:\n    team: shop\n  name: web\nspec:\n  \
         destination:\n    namespace: web\n    server: https://kubernetes.default.svc\n  project: default\n  source:\n    \
         helm:\n      parameters:\n      - name: a\n        value: b\n    path: web\n    repoURL: https://h/a.git\n"
    );
    let json = made(&["admin", "app", "generate-spec", "web", "--repo", "u", "--path", "p", "-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["metadata"], json!({"name": "web"}));
    let (written, code) = argocd(&["admin", "app", "generate-spec"]);
    assert!(code == 1 && written.stdout.contains("admin app generate-spec APPNAME"), "{}", written.stdout);
    let (written, code) = argocd(&["admin", "app", "generate-spec", "a", "-o", "x"]);
    assert!(code == 20 && written.stderr.contains("unknown output format: x"), "{}", written.stderr);
}

#[test]
fn cli_920_a_file_is_changed_in_place() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.yaml");
    std::fs::write(&path, "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec: {source: {repoURL: u, path: p}, destination: {server: s}}\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let file = path.to_str().unwrap();
    assert_eq!(made(&["admin", "app", "generate-spec", "--file", file, "-i", "--path", "q"]), "");
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(parsed(&text)["spec"]["source"], json!({"repoURL": "u", "path": "q"}));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let (written, code) = argocd(&["admin", "app", "generate-spec", "a", "-i"]);
    assert!(code == 20 && written.stderr.contains("--inline needs"), "{}", written.stderr);
    std::fs::write(&path, format!("{text}---\n{text}")).unwrap();
    let (written, code) = argocd(&["admin", "app", "generate-spec", "--file", file]);
    assert!(
        code == 20
            && written.stderr.contains("failed to generate spec, more than one application is not supported"),
        "{}",
        written.stderr
    );
}

#[test]
fn cli_920_a_project_and_a_repository_are_printed() {
    let text = made(&["admin", "proj", "generate-spec", "shop", "-s", "https://h/*", "-d", "*,web"]);
    assert_eq!(
        parsed(&text),
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"},
            "spec": {"sourceRepos": ["https://h/*"], "destinations": [{"server": "*", "namespace": "web"}]}})
    );
    let text = made(&[
        "admin",
        "repo",
        "generate-spec",
        "https://h/a.git",
        "--username",
        "u",
        "--password",
        "p",
        "--project",
        "shop",
        "-n",
        "cd",
    ]);
    let mut secret = parsed(&text);
    assert!(secret["metadata"]["name"].as_str().unwrap().starts_with("repo-"), "{text}");
    assert_eq!(secret["metadata"]["namespace"], "cd");
    assert_eq!(secret["metadata"]["labels"], json!({"argocd.argoproj.io/secret-type": "repository"}));
    assert_eq!(
        secret["stringData"].take(),
        json!({"url": "https://h/a.git", "type": "git", "username": "u", "password": "p", "project": "shop"})
    );
    assert!(secret.get("data").is_none());
    let (written, code) = argocd(&["admin", "repo", "generate-spec", "https://h/a.git", "--upsert"]);
    assert_eq!((written.stdout.as_str(), code), ("Error: unknown flag: --upsert\n", 1));
}

#[test]
fn cli_920_the_secret_of_a_cluster_is_printed_without_asking_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, "apiVersion: v1\nkind: Config\ncurrent-context: eu\ncontexts: [{name: eu, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'https://eu.test'}}]\nusers: [{name: u, user: {token: own}}]\n").unwrap();
    let kubeconfig = path.to_str().unwrap();
    let generate = |args: &[&str]| {
        let all = [&["admin", "cluster", "generate-spec", "--kubeconfig", kubeconfig], args].concat();
        parsed(&made(&all))
    };
    let secret = generate(&["eu", "--label", "env=prod", "--bearer-token", "t"]);
    assert_eq!(secret["stringData"]["server"], "https://eu.test");
    assert_eq!(secret["stringData"]["name"], "eu");
    assert_eq!(secret["metadata"]["labels"]["env"], "prod");
    let config: Value = serde_json::from_str(secret["stringData"]["config"].as_str().unwrap()).unwrap();
    assert_eq!(config["bearerToken"], "t", "never the kubeconfig's own");
    let secret = generate(&["eu", "--in-cluster", "--name", "here", "--namespace", "a", "--namespace", "b"]);
    assert_eq!(secret["stringData"]["server"], "https://kubernetes.default.svc");
    assert_eq!(
        (&secret["stringData"]["name"], &secret["stringData"]["namespaces"]),
        (&json!("here"), &json!("a,b"))
    );
    let (written, code) = argocd(&["admin", "cluster", "generate-spec", "--kubeconfig", kubeconfig]);
    assert!(code == 1 && written.stdout.contains("https://eu.test"), "{}", written.stdout);
}

#[test]
fn cli_922_policies_of_projects_are_shown_and_then_changed() {
    let bed = Embedded::start();
    bed.put(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": "shop", "namespace": NAMESPACE},
        "spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}], "roles": [
            {"name": "deployer", "policies": ["p, proj:shop:deployer, applications, override, shop/*, allow"]}]}}));
    let policies = |bed: &Embedded| {
        let found = bed.object(("argoproj.io", "v1alpha1"), "AppProject", NAMESPACE, "shop").unwrap();
        found["spec"]["roles"][0]["policies"].clone()
    };
    let update = [
        "admin",
        "proj",
        "update-role-policy",
        "sh*",
        "set",
        "action/*",
        "--role",
        "*deploy*",
        "--resource",
        "applications",
        "--scope",
        "*",
        "--permission",
        "allow",
    ];
    let told = bed.succeeds(&update);
    assert!(told.starts_with("===== shop ======\n"), "{told}");
    assert!(told.contains("p, proj:shop:deployer, applications, action/*, shop/*, allow"), "{told}");
    assert_eq!(policies(&bed).as_array().unwrap().len(), 1, "a dry run by default");
    bed.succeeds(&[&update[..], &["--dry-run=false"]].concat());
    assert_eq!(policies(&bed)[1], "p, proj:shop:deployer, applications, action/*, shop/*, allow");
    bed.succeeds(&["admin", "proj", "update-role-policy", "*", "remove", "override", "--dry-run=false"]);
    assert_eq!(policies(&bed), json!(["p, proj:shop:deployer, applications, action/*, shop/*, allow"]));
    assert_eq!(bed.succeeds(&["admin", "proj", "update-role-policy", "*", "remove", "nothing"]), "");
    let fails = |args: &[&str]| bed.fails(&[&["admin", "proj", "update-role-policy"], args].concat());
    assert_eq!(fails(&["*", "add", "sync"]), ("modification add is not supported".to_owned(), 20));
    assert!(fails(&["*", "set", "sync", "--scope", "*"]).0.starts_with("flag --permission cannot be empty"));
}

#[test]
fn cli_922_a_cluster_role_becomes_a_project() {
    let bed = Embedded::start();
    let path = bed.directory.path().join("role.yaml");
    std::fs::write(
        &path,
        "kind: ClusterRole\nrules:\n- {apiGroups: ['', apps], resources: [pods, deployments, namespaces], verbs: [create]}\n\
         - {apiGroups: [''], resources: [secrets], verbs: [get]}\n",
    )
    .unwrap();
    let (stdout, warned, code) =
        bed.run(&["admin", "proj", "generate-allow-list", path.to_str().unwrap(), "shop"]);
    assert_eq!(code, 0, "{warned}");
    assert!(warned.contains("/Namespace is not in the list"), "{warned}");
    assert_eq!(
        parsed(&stdout),
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"},
            "spec": {"namespaceResourceWhitelist": [{"group": "", "kind": "Pod"}, {"group": "apps", "kind": "Deployment"}]}})
    );
}

fn application(name: &str, server: &str, namespace: &str) -> Value {
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
        "spec": {"project": "default", "source": {"repoURL": "https://h/r", "path": "."},
            "destination": {"server": server, "namespace": namespace}},
        "status": {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}}})
}

/// Answers one request with metrics, and says where.
fn metrics(text: &'static str) -> String {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        assert!(stream.read(&mut request).unwrap() > 0);
        let length = text.len();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}")
            .unwrap();
    });
    address.to_string()
}

const METRICS: &str = "argocd_cluster_api_resource_objects{server=\"https://eu.test\"} 30\n\
                       argocd_cluster_connection_status{server=\"https://eu.test\",k8s_version=\"1.34\"} 1\n\
                       argocd_cluster_api_resource_objects{server=\"https://kubernetes.default.svc\"} 12\n";

fn with_clusters() -> Embedded {
    let bed = Embedded::start();
    bed.put_secret(
        "eu",
        "cluster",
        &json!({"name": "eu", "server": "https://eu.test",
        "config": r#"{"bearerToken":"t","tlsClientConfig":{"insecure":true}}"#}),
    );
    bed.put(&application("a", "https://eu.test", "shop"));
    bed.put(&application("b", "https://eu.test", "web"));
    bed.put(&application("c", "https://kubernetes.default.svc", "web"));
    bed
}

#[test]
fn cli_923_clusters_are_counted_by_the_controllers_metrics() {
    let bed = with_clusters();
    assert_eq!(
        bed.succeeds(&["admin", "cluster", "stats", "--metrics", &metrics(METRICS)]),
        "SERVER                          SHARD  CONNECTION  NAMESPACES COUNT  APPS COUNT  RESOURCES COUNT\n\
         https://eu.test                 0      Successful  2                 2           30\n\
         https://kubernetes.default.svc  0      Unknown     1                 1           12\n"
    );
    assert_eq!(
        bed.succeeds(&["admin", "cluster", "shards", "--metrics", &metrics(METRICS)]),
        "SHARD  RESOURCES COUNT  % OF TOTAL  % OF AVG PER SHARD\n0      42               100%        100%\n"
    );
    let (stdout, warned, code) =
        bed.run(&["admin", "cluster", "shards", "--replicas", "2", "--metrics", &metrics(METRICS)]);
    assert!(code == 0 && warned.contains("--replicas changes nothing"), "{stdout}{warned}");
    let (message, code) = bed.fails(&["admin", "cluster", "stats"]);
    assert!(code == 20 && message.contains("cannot find ready pod"), "{message}");
}

#[test]
fn cli_923_clusters_are_managed_in_the_namespaces_that_are_used() {
    let bed = with_clusters();
    let (stdout, warned, code) = bed.run(&["admin", "cluster", "namespaces"]);
    assert_eq!((warned.as_str(), code), ("", 0));
    assert!(stdout.contains("https://eu.test                 web,shop\n"), "{stdout}");
    let enable = [
        "admin",
        "cluster",
        "namespaces",
        "enable-namespaced-mode",
        "https://eu*",
        "--max-namespace-count",
        "2",
    ];
    assert_eq!(
        bed.succeeds(&enable),
        "Setting cluster https://eu.test namespaces to [web shop]...done (dry run)\n"
    );
    assert_eq!(bed.secret("eu").unwrap().get("namespaces"), None);
    bed.succeeds(&[&enable[..], &["--dry-run=false"]].concat());
    assert_eq!(bed.secret("eu").unwrap()["namespaces"], "web,shop");
    let disable = ["admin", "cluster", "namespaces", "disable-namespaced-mode", "*", "--dry-run=false"];
    assert_eq!(bed.succeeds(&disable), "Disabling namespaced mode for cluster https://eu.test...done\n");
    assert!(bed.secret("eu").unwrap().get("namespaces").is_none_or(|text| text == ""));
    bed.put(&application("lost", "https://nowhere.test", "x"));
    let (message, code) = bed.fails(&enable);
    assert!(code == 20 && message.contains("application argocd/lost"), "{message}");
}

#[test]
fn cli_923_a_kubeconfig_is_written_for_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let bed = with_clusters();
    let path = bed.directory.path().join("eu.yaml");
    assert_eq!(
        bed.succeeds(&["admin", "cluster", "kubeconfig", "https://eu.test", path.to_str().unwrap()]),
        ""
    );
    let written = parsed(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(written["users"][0]["user"], json!({"token": "t"}));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (message, code) = bed.fails(&["admin", "cluster", "kubeconfig", "https://nowhere.test", "-"]);
    assert_eq!(code, 20, "{message}");
}

#[test]
fn cli_921_results_are_written_and_compared() {
    let bed = with_clusters();
    let path = |name: &str| bed.directory.path().join(name).to_str().unwrap().to_owned();
    let (first, second) = (path("1.yaml"), path("2.json"));
    assert_eq!(bed.succeeds(&["admin", "app", "get-reconcile-results", &first]), "");
    assert_eq!(
        bed.succeeds(&["admin", "app", "get-reconcile-results", &second, "--l", "app!=c", "--o", "json"]),
        ""
    );
    let text = std::fs::read_to_string(&first).unwrap();
    assert_eq!(parsed(&text)["applications"][0]["name"], "a");
    assert_eq!(parsed(&text)["applications"][0]["sync"]["status"], "Synced");
    let told = bed.succeeds(&["admin", "app", "diff-reconcile-results", &first, &second]);
    assert!(told.starts_with("a\nb\nc\n"), "{told}");
    assert!(told.contains("name: c"), "{told}");
    let (message, code) = bed.fails(&["admin", "app", "get-reconcile-results", &first, "--o", "x"]);
    assert_eq!((message.as_str(), code), ("format x is not supported", 20));
}

#[test]
fn cli_921_a_comparison_now_says_what_the_controller_would_say() {
    let bed = Embedded::start();
    bed.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}));
    let url = bed.repository("files");
    let folder = std::path::Path::new(&url);
    std::fs::write(
        folder.join("map.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b}\n",
    )
    .unwrap();
    super::embedded::git(folder, &["add", "."]);
    super::embedded::git(
        folder,
        &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "y"],
    );
    let mut app = application("web", "https://kubernetes.default.svc", "web");
    app["spec"]["source"]["repoURL"] = url.into();
    bed.put(&app);
    let mut broken = application("broken", "https://kubernetes.default.svc", "web");
    broken["spec"]["source"]["repoURL"] = "/nowhere".into();
    bed.put(&broken);
    let path = bed.directory.path().join("now.yaml");
    let told = bed.succeeds(&["admin", "app", "get-reconcile-results", path.to_str().unwrap(), "--refresh"]);
    assert_eq!(told, "Reconciling apps of https://kubernetes.default.svc\nbroken\nweb\n");
    let found = parsed(&std::fs::read_to_string(&path).unwrap());
    let [broken, web] = [0, 1].map(|at| &found["applications"][at]);
    assert_eq!((&web["sync"]["status"], &web["health"]["status"]), (&json!("OutOfSync"), &json!("Missing")));
    assert_eq!(
        (&broken["sync"]["status"], &broken["health"]["status"]),
        (&json!("Unknown"), &json!("Unknown"))
    );
    assert_eq!(broken["conditions"][0]["type"], "ComparisonError");
}

#[test]
fn cli_903_the_dashboard_is_for_the_installation_that_is_found() {
    let bed = Embedded::start();
    let mut terminal = crate::terminal::Terminal::memory("argocd", &[("ARGOCD_CONFIG_DIR", "/nowhere")]);
    let asked = |port: &str, terminal: &crate::terminal::Terminal| {
        let args = ["admin", "dashboard", "--port", port, "--kubeconfig", &bed.kubeconfig, "--as", "jane"];
        crate::run(terminal, args.map(str::to_owned).to_vec())
    };
    assert_eq!(asked("9000", &terminal), 20, "there is no server in this program");
    terminal.dashboard = Some(|panel| {
        let is_right = (
            panel.address.as_str(),
            panel.port,
            panel.namespace.as_str(),
            panel.overrides.impersonate.as_str(),
        ) == ("localhost", 9000, NAMESPACE, "jane");
        if is_right { 7 } else { 8 }
    });
    assert_eq!(asked("9000", &terminal), 7);
    assert_eq!(asked("70000", &terminal), 20);
}

#[test]
fn cli_904_there_is_a_password_for_whoever_runs_a_redis() {
    let bed = Embedded::bare();
    let ready = "Checking for initial Redis password in secret argocd/argocd-redis at key auth.\n\
                 Argo CD Redis secret state confirmed: secret name argocd-redis.\nPassword secret is configured properly.\n";
    assert_eq!(bed.succeeds(&["admin", "redis-initial-password"]), ready);
    let first = bed.secret("argocd-redis").unwrap();
    assert!(first["auth"].as_str().unwrap().len() >= 32);
    assert_eq!(bed.succeeds(&["admin", "redis-initial-password"]), ready);
    assert_eq!(bed.secret("argocd-redis").unwrap(), first, "it stays");
}

const NOTIFICATIONS: &str = "kind: ConfigMap\nmetadata: {name: argocd-notifications-cm}\ndata:\n  \
    trigger.on-sync: |\n    - when: app.status.sync.status == 'Synced'\n      send: [short, long]\n    - when: app.metadata.name == 'x'\n  \
    template.short: 'message: \"{{.app.metadata.name}} for {{.recipient}}\"'\n  \
    template.long: 'message: LONG'\n";

#[test]
fn cli_930_triggers_and_templates_are_tried_on_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let long = "x".repeat(101);
    let map = file("cm.yaml", &NOTIFICATIONS.replace("LONG", &long));
    let app =
        file("app.yaml", "kind: Application\nmetadata: {name: web}\nstatus: {sync: {status: Synced}}\n");
    let ask = |args: &[&str]| {
        let all = [&["admin", "notifications"], args, &["--config-map", &map, "--secret", ":empty"]].concat();
        argocd(&all)
    };
    let said = |args: &[&str]| {
        let (written, code) = ask(args);
        assert_eq!((written.stderr.as_str(), code), ("", 0), "{args:?}");
        written.stdout
    };
    assert_eq!(
        said(&["trigger", "get"]),
        "NAME     TEMPLATE     CONDITION\non-sync  short, long  app.status.sync.status == 'Synced'\n\
         on-sync               app.metadata.name == 'x'\n"
    );
    assert_eq!(said(&["trigger", "get", "-o", "name"]), "on-sync\n");
    assert_eq!(said(&["template", "get", "long"]), format!("NAME  PREVIEW\nlong  {}...\n", "x".repeat(100)));
    let shown: Value = serde_json::from_str(&said(&["template", "get", "-o", "json"])).unwrap();
    assert_eq!(shown["long"]["message"], long.as_str());
    assert_eq!(
        said(&["trigger", "run", "on-sync", &app]),
        "CONDITION                           RESULT\napp.status.sync.status == 'Synced'  true\n\
         app.metadata.name == 'x'            false\n"
    );
    assert_eq!(said(&["template", "notify", "short", &app]), "message: web for stdout\n");
    assert_eq!(
        said(&["template", "notify", "short", &app, "--recipient", "console:a", "--recipient", "console:b"]),
        "message: web for a\nmessage: web for b\n"
    );
    for (args, text) in [
        (&["trigger", "run", "on-sync"][..], "expected two arguments, got 1"),
        (&["trigger", "run", "nope", &app], "failed to execute trigger nope"),
        (&["template", "notify", "nope", &app], "failed to notify: template 'nope' does not exist"),
        (&["template", "notify", "short", &app, "--recipient", "slack:x"], "service 'slack'"),
        (&["trigger", "get", "nope"], "trigger 'nope' does not exist"),
    ] {
        let (written, code) = ask(args);
        assert!(code == 1 && written.stderr.contains(text), "{args:?}: {}", written.stderr);
    }
}

#[test]
fn cli_930_without_files_the_cluster_is_asked() {
    let bed = Embedded::start();
    bed.put(&application("web", "https://kubernetes.default.svc", "web"));
    assert_eq!(bed.succeeds(&["admin", "notifications", "trigger", "get"]), "NAME  TEMPLATE  CONDITION\n");
    let mut map = parsed(NOTIFICATIONS);
    map["apiVersion"] = "v1".into();
    map["metadata"]["namespace"] = NAMESPACE.into();
    bed.put(&map);
    let told = bed.succeeds(&["admin", "notifications", "trigger", "run", "on-sync", "web"]);
    assert!(told.contains("'Synced'  true\n"), "{told}");
}

#[test]
fn cli_101_flags_of_kubernetes_decide_who_asks() {
    let bed = Embedded::start();
    let (_, message, code) = bed.run(&["app", "list", "--token", "wrong"]);
    assert!(code == 20 && message.contains("Unauthenticated"), "{message}");
    let (_, message, code) = bed.run(&["app", "list", "--request-timeout", "soon"]);
    assert!(code == 20 && message.contains("invalid timeout value"), "{message}");
    let (_, message, code) = bed.run(&["app", "list", "--user", "nobody"]);
    assert!(code == 1 && message.contains("auth info \"nobody\" does not exist"), "{message}");
    bed.succeeds(&[
        "app",
        "list",
        "--request-timeout",
        "30s",
        "--insecure-skip-tls-verify",
        "--disable-compression",
    ]);
}
